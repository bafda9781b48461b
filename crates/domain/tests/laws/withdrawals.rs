//! The use cases of withdrawals.

use std::sync::Arc;
use std::time::Duration;

use mockall::Sequence;
use pix_domain::charges::Failure;
use pix_domain::credentials::IntegratorStatus;
use pix_domain::error::{ApplyError, ServiceError, StoreError};
use pix_domain::evidence::MIN_REPEAT_GAP;
use pix_domain::ids::WithdrawalId;
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::ports::Outcome;
use pix_domain::provider::{MockSettlementProvider, OutgoingReport, Progress, ProviderError};
use pix_domain::reconciler::Reconciler;
use pix_domain::schedule::{NEEDS_REVIEW_AFTER, QUEUE_MAX_AGE};
use pix_domain::text::IdempotencyKey;
use pix_domain::time::Timestamp;
use pix_domain::transactions::TransactionService;
use pix_domain::transition::{EventKind, MockTransitionStore, Step};
use pix_domain::unrecorded::{LOOKED_FOR, TOLD_AT_ONCE};
use pix_domain::withdrawals::service::{CreateWithdrawal, QuoteVerdict, WithdrawalService};
use pix_domain::withdrawals::store::MockWithdrawalStore;
use pix_domain::withdrawals::{
    NOT_EXECUTED, OutgoingState, PROVIDER_UNAVAILABLE, Payee, RESOLVED_FAILED, Withdrawal, state,
};

use crate::samples::*;
use crate::world::{World, Write};

pub const FUNDS_CENTS: i64 = 5_000;
const TOTAL_CENTS: i64 = 1_000 + FEE_CENTS;

pub fn command() -> CreateWithdrawal {
    CreateWithdrawal {
        integrator_id: INTEGRATOR,
        integrator_status: IntegratorStatus::Active,
        external_id: Some(name("w-1")),
        idempotency_key: None,
        amount: amount(1_000),
        payee: payee(),
        description: None,
        metadata: pix_domain::metadata::Metadata::default(),
        postback_url: None,
        postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        allow_duplicate_of: None,
    }
}

/// A provider that gives this answer to one `send_payment`, and is asked nothing else.
fn answering(world: &World, answer: Result<OutgoingReport, ProviderError>) -> MockSettlementProvider {
    let (world, mut provider) = (world.clone(), MockSettlementProvider::new());
    provider.expect_send_payment().times(1).returning(move |_| {
        world.note("send");
        answer.clone()
    });
    provider
}

/// A provider that answers every question about a payment so, and must not send anything.
fn knowing(
    answer: Result<Option<OutgoingReport>, ProviderError>,
    horizon: Option<Duration>,
) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_payment().returning(move |_| answer.clone());
    provider.expect_not_found_is_proof_after().returning(move || horizon);
    provider
}

fn service(world: &World, provider: MockSettlementProvider) -> WithdrawalService {
    WithdrawalService::new(world.ports(provider))
}

/// A world in which the withdrawal was accepted at [`T0`] and came to this by these verbs.
pub fn world_in(steps: &[fn(Withdrawal, Timestamp) -> Step]) -> World {
    let world = World::with_available(FUNDS_CENTS);
    world.apply(&state::accept(new_withdrawal(1), T0, GRACE).unwrap()).unwrap();
    for step in steps {
        world.apply(&next(step(world.withdrawal(), world.now()))).unwrap();
    }
    world.stored().log.clear();
    world
}

fn id() -> WithdrawalId {
    new_withdrawal(1).id
}

fn accept(withdrawal: Withdrawal, now: Timestamp) -> Step {
    withdrawal.accepted(report(Progress::Accepted), now)
}

fn complete(withdrawal: Withdrawal, now: Timestamp) -> Step {
    withdrawal.complete(report(Progress::Completed), now)
}

#[tokio::test]
async fn what_was_just_stored_is_not_read_to_learn_what_came_of_it() {
    for answer in [Ok(report(Progress::Completed)), Err(rejected()), Err(unavailable()), Err(indeterminate())]
    {
        let world = World::with_available(FUNDS_CENTS);
        let mut ports = world.ports(answering(&world, answer));
        let mut withdrawals = MockWithdrawalStore::new();
        withdrawals.expect_find_by_external_id().times(1).returning(|_, _| Ok(None));
        ports.stores.withdrawals = Arc::new(withdrawals);
        let made = WithdrawalService::new(ports).create(command()).await.unwrap().into_inner();
        assert_eq!((made.clone(), made.version.0), (world.withdrawal(), 2));
    }
}

#[tokio::test]
async fn what_changes_while_the_provider_is_asked_is_seen() {
    // It was completed meanwhile: that is no news.
    let world = world_in(&[accept]);
    let (here, mut provider) = (world.clone(), MockSettlementProvider::new());
    provider.expect_consult_payment().times(1).returning(move |_| {
        let complete = complete(here.withdrawal(), here.now());
        here.apply(&next(complete)).unwrap();
        Ok(Some(report(Progress::Completed)))
    });
    let (withdrawal, _) = service(&world, provider).refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!((withdrawal.clone(), withdrawal.version.0), (world.withdrawal(), 3));
    // It failed meanwhile: an answer of success then needs somebody to look.
    let world = world_in(&[accept]);
    let (here, mut provider) = (world.clone(), MockSettlementProvider::new());
    provider.expect_consult_payment().times(1).returning(move |_| {
        here.apply(&next(here.withdrawal().fail(failure(), here.now()))).unwrap();
        Ok(Some(report(Progress::Completed)))
    });
    let (withdrawal, _) = service(&world, provider).refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!(withdrawal, world.withdrawal());
    assert_eq!(world.findings().len(), 1, "{:?}", world.findings());
    // Its money came back meanwhile: the answer of before is nothing new, and what is shown is what is stored.
    let world = world_in(&[accept, complete]);
    let (here, mut provider) = (world.clone(), MockSettlementProvider::new());
    provider.expect_consult_payment().times(1).returning(move |_| {
        let back = report(Progress::Returned(cents(1_000)));
        here.apply(&next(here.withdrawal().come_back(back, cents(1_000), here.now()))).unwrap();
        Ok(Some(report(Progress::Completed)))
    });
    let (withdrawal, _) = service(&world, provider).refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!((withdrawal.clone(), withdrawal.state), (world.withdrawal(), OutgoingState::Returned));
}

#[tokio::test]
async fn the_intent_is_stored_before_the_provider_is_called() {
    let world = World::with_available(FUNDS_CENTS);
    let mut order = Sequence::new();
    let (mut store, mut provider) = (MockTransitionStore::new(), MockSettlementProvider::new());
    let here = world.clone();
    store.expect_apply().times(1).in_sequence(&mut order).returning(move |transition| {
        assert_eq!(transition.writes[0].event, EventKind::WithdrawalCreated);
        here.apply(&transition)
    });
    let here = world.clone();
    provider.expect_send_payment().times(1).in_sequence(&mut order).returning(move |order| {
        assert_eq!(here.held(), TOTAL_CENTS, "the money is held while it is being sent");
        assert_eq!(
            order.reference,
            here.withdrawal().reference(),
            "our id is the provider's idempotency key"
        );
        Ok(report(Progress::Accepted))
    });
    let here = world.clone();
    store.expect_apply().times(1).in_sequence(&mut order).returning(move |transition| {
        assert_eq!(transition.writes[0].event, EventKind::WithdrawalAccepted);
        here.apply(&transition)
    });
    let mut ports = world.ports(provider);
    ports.stores.transitions = Arc::new(store);
    let made = WithdrawalService::new(ports).create(command()).await.unwrap();
    assert!(matches!(made, Outcome::Created(withdrawal) if withdrawal.state == OutgoingState::Accepted));
}

#[tokio::test]
async fn what_is_known_after_the_call_decides_where_the_money_is() {
    let cases = [
        (Ok(report(Progress::Completed)), "completed", 0, FUNDS_CENTS - TOTAL_CENTS),
        (Ok(report(Progress::Accepted)), "accepted", TOTAL_CENTS, FUNDS_CENTS - TOTAL_CENTS),
        (Ok(report(Progress::Failed { code: "x".into(), message: "no".into() })), "failed", 0, FUNDS_CENTS),
        (Ok(report(Progress::Returned(cents(1_000)))), "returned", 0, FUNDS_CENTS - FEE_CENTS),
        (Err(rejected()), "failed", 0, FUNDS_CENTS),
        (Err(unavailable()), "queued", TOTAL_CENTS, FUNDS_CENTS - TOTAL_CENTS),
        (Err(indeterminate()), "uncertain", TOTAL_CENTS, FUNDS_CENTS - TOTAL_CENTS),
    ];
    for (answer, expected, held, available) in cases {
        let world = World::with_available(FUNDS_CENTS);
        let made = service(&world, answering(&world, answer)).create(command()).await.unwrap();
        assert!(matches!(&made, Outcome::Created(withdrawal) if *withdrawal == world.withdrawal()));
        let withdrawal = world.withdrawal();
        assert_eq!(withdrawal.state.name(), expected);
        assert_eq!((world.held(), world.available()), (held, available), "{expected}");
        assert_eq!((withdrawal.fee.get(), withdrawal.fee_version), (FEE_CENTS, 7), "the fee in force");
        if let OutgoingState::Failed(why) = &withdrawal.state {
            assert!(!why.code.is_empty());
        }
    }
}

#[tokio::test]
async fn an_intent_whose_answer_was_lost_is_sent_after_another_commit_was_acknowledged() {
    let world = World::with_available(FUNDS_CENTS);
    world.script([Write::Lost(Box::new(|_| ()))]);
    let service = service(&world, answering(&world, Ok(report(Progress::Completed))));
    let made = service.create(command()).await.unwrap();
    assert_eq!(made, Outcome::Created(world.withdrawal()));
    assert_eq!(made.into_inner().state, OutgoingState::Queued);
    assert_eq!(world.log(), ["apply withdrawal.created", "apply withdrawal.queued"]);
    service.follow_up(INTEGRATOR, world.withdrawal().id).await.unwrap();
    assert_eq!(world.log()[2..], ["apply withdrawal.submitting", "send", "apply withdrawal.completed"]);
}

#[tokio::test]
async fn an_intent_that_no_commit_after_it_was_acknowledged_for_is_not_sent() {
    let lost = || ApplyError::Store(StoreError::Unknown("the line was cut".into()));
    let late = |world: &World| {
        world.apply(&next(world.withdrawal().queue(world.now()))).unwrap();
    };
    for second in [
        Write::Refused(lost()),
        Write::Lost(Box::new(|_| ())),
        Write::Beaten(Box::new(late), ApplyError::Stale),
    ] {
        let world = World::with_available(FUNDS_CENTS);
        world.script([Write::Lost(Box::new(|_| ())), second]);
        // A provider that must not be called.
        let refused = service(&world, MockSettlementProvider::new()).create(command()).await;
        assert!(matches!(refused, Err(ServiceError::Store(StoreError::Unknown(_)))), "{refused:?}");
        assert_eq!(world.held(), TOTAL_CENTS);
    }
}

#[tokio::test]
async fn an_intent_that_was_not_stored_is_not_sent() {
    for error in [
        StoreError::Unknown("connection lost".into()),
        StoreError::Unavailable("no connection".into()),
        StoreError::Rejected("schema".into()),
    ] {
        let world = World::with_available(FUNDS_CENTS);
        world.script([Write::Refused(ApplyError::Store(error.clone()))]);
        let refused = service(&world, MockSettlementProvider::new()).create(command()).await.unwrap_err();
        assert_eq!(refused, ServiceError::Store(error));
        assert_eq!((world.available(), world.log().len()), (FUNDS_CENTS, 0));
    }
}

#[tokio::test]
async fn a_quote_says_what_the_same_command_would_come_to_and_does_nothing() {
    let nameless = || CreateWithdrawal { external_id: None, ..command() };
    let to_another = |command: CreateWithdrawal| CreateWithdrawal {
        payee: Payee { key: PixKey::parse(PixKeyType::Email, "outro@example.com").unwrap(), ..payee() },
        ..command
    };
    let suspended = CreateWithdrawal { integrator_status: IntegratorStatus::Suspended, ..command() };
    let keyed = CreateWithdrawal {
        idempotency_key: Some(IdempotencyKey::parse("k").unwrap()),
        ..CreateWithdrawal { external_id: Some(name("w-2")), ..command() }
    };
    let live = world_in(&[Withdrawal::lose_sight]).withdrawal();
    let mut verdicts = Vec::new();
    for (case, asked) in [
        command(),
        nameless(),
        suspended,
        keyed,
        CreateWithdrawal { amount: amount(FUNDS_CENTS - TOTAL_CENTS - FEE_CENTS), ..command() },
        CreateWithdrawal { amount: amount(FUNDS_CENTS - TOTAL_CENTS - FEE_CENTS + 1), ..command() },
        CreateWithdrawal { external_id: Some(live.external_id.clone()), ..to_another(command()) },
        CreateWithdrawal {
            external_id: Some(live.external_id.clone()),
            payee: live.payee.clone(),
            amount: live.amount,
            ..command()
        },
    ]
    .into_iter()
    .enumerate()
    {
        let world = World::with_available(FUNDS_CENTS);
        let first = CreateWithdrawal {
            external_id: Some(live.external_id.clone()),
            payee: live.payee.clone(),
            amount: live.amount,
            ..command()
        };
        service(&world, answering(&world, Err(indeterminate()))).create(first).await.unwrap();
        let before = world.stored().book.clone();
        let calls = world.log();
        let quote = service(&world, MockSettlementProvider::new()).quote(&asked).await.unwrap();
        let after = world.stored().book.clone();
        assert_eq!((after, world.log()), (before, calls), "case {case}");
        assert_eq!(quote.total(), quote.amount.cents().checked_add(quote.fee));
        let provider = if matches!(quote.verdict, QuoteVerdict::Accepted(_)) {
            answering(&world, Err(indeterminate()))
        } else {
            MockSettlementProvider::new()
        };
        let made = service(&world, provider).create(asked).await;
        verdicts.push(match (quote.verdict, made) {
            (QuoteVerdict::Accepted(after), Ok(Outcome::Created(made))) => {
                assert_eq!((made.fee, made.fee_version), (quote.fee, quote.fee_version), "case {case}");
                assert_eq!(world.stored().book.wallet, after, "case {case}");
                "accepted"
            }
            (QuoteVerdict::Replays(quoted), Ok(Outcome::Replayed(made))) => {
                assert_eq!(*quoted, made, "case {case}");
                "replays"
            }
            (QuoteVerdict::Refused(quoted), Err(error)) => {
                assert_eq!(quoted, error, "case {case}");
                "refused"
            }
            (quoted, made) => panic!("case {case}: {quoted:?}, and then {made:?}"),
        });
    }
    for verdict in ["accepted", "replays", "refused"] {
        assert!(verdicts.contains(&verdict), "{verdicts:?}");
    }
}

#[tokio::test]
async fn an_outcome_is_written_again_until_it_is() {
    let lost = || ApplyError::Store(StoreError::Unknown("connection lost".into()));
    for first in [Write::Refused(ApplyError::Stale), Write::Refused(lost()), Write::Lost(Box::new(|_| ()))] {
        let world = World::with_available(FUNDS_CENTS);
        world.script([Write::Done, first]);
        service(&world, answering(&world, Err(indeterminate()))).create(command()).await.unwrap();
        assert_eq!(world.withdrawal().state, OutgoingState::Uncertain);
        assert_eq!(world.log(), ["apply withdrawal.created", "send", "apply withdrawal.uncertain"]);
    }
}

#[tokio::test]
async fn taken_and_then_failed_is_no_contradiction_in_whichever_order_it_is_heard() {
    for (code, findings) in
        [("no_such_key", 0), (NOT_EXECUTED, 1), (PROVIDER_UNAVAILABLE, 1), (RESOLVED_FAILED, 1)]
    {
        let fail = move |world: &World| {
            world.wait_secs(1);
            let failure = Failure { code: code.into(), ..failure() };
            world.apply(&next(world.withdrawal().fail(failure, world.now()))).unwrap();
        };
        let world = World::with_available(FUNDS_CENTS);
        world.script([Write::Done, Write::Beaten(Box::new(fail), ApplyError::Stale)]);
        service(&world, answering(&world, Ok(report(Progress::Accepted)))).create(command()).await.unwrap();
        assert!(matches!(world.withdrawal().state, OutgoingState::Failed(_)));
        assert_eq!(world.findings().len(), findings, "{code}");
    }
    let world = world_in(&[|withdrawal, now| withdrawal.fail(failure(), now)]);
    world.wait_secs(1);
    let service = service(&world, knowing(Ok(Some(report(Progress::Accepted))), None));
    let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!(world.findings(), ["accepted_though_not_sent"], "asked after it failed, it is one");
}

#[tokio::test]
async fn what_was_sent_and_could_not_be_recorded_is_not_told_as_an_error() {
    for answer in [Ok(report(Progress::Completed)), Err(indeterminate()), Err(unavailable()), Err(rejected())]
    {
        let world = World::with_available(FUNDS_CENTS);
        let down = || Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
        world.script([Write::Done, down()]);
        let made = service(&world, answering(&world, answer)).create(command()).await;
        let Ok(Outcome::Created(withdrawal)) = made else { panic!("{made:?}: the client would send again") };
        assert_eq!(withdrawal.state, OutgoingState::Submitting);
        assert_eq!(withdrawal, world.withdrawal());
        assert_eq!(world.held(), TOTAL_CENTS);
    }
}

/// What a process remembers, and tells when the store is back.
#[tokio::test]
async fn what_could_not_be_recorded_is_recorded_when_the_store_is_back() {
    let down = || Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
    for (answer, state, remembered) in [
        (Ok(report(Progress::Completed)), OutgoingState::Completed, 1),
        (Ok(report(Progress::Accepted)), OutgoingState::Accepted, 1),
        (Err(rejected()), OutgoingState::Failed(failure()), 1),
        (Err(unavailable()), OutgoingState::Queued, 1),
        // Who asks finds out as much.
        (Err(indeterminate()), OutgoingState::Submitting, 0),
    ] {
        let world = World::with_available(FUNDS_CENTS);
        world.script([Write::Done, down(), down()]);
        let ports = world.ports(answering(&world, answer));
        WithdrawalService::new(ports.clone()).create(command()).await.unwrap();
        let reconciler = Reconciler::new(ports.clone());
        assert_eq!(ports.unrecorded.len(), remembered);
        world.wait_secs(60);
        // Still away, and then back.
        assert_eq!(reconciler.record().await, remembered);
        assert_eq!(reconciler.record().await, 0);
        let found = world.withdrawal().state;
        match (&state, &found) {
            (OutgoingState::Failed(_), OutgoingState::Failed(_)) => {}
            _ => assert_eq!(found, state),
        }
        assert_eq!(world.log().iter().filter(|line| *line == "send").count(), 1);
    }
}

/// A "not sent" that is told late is of the sending that it was heard of, and of no later one.
#[tokio::test]
async fn what_is_told_late_says_nothing_of_a_later_sending() {
    for answer in [Err(unavailable()), Err(rejected())] {
        let world = World::with_available(FUNDS_CENTS);
        let down = Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
        world.script([Write::Done, down]);
        let ports = world.ports(answering(&world, answer));
        WithdrawalService::new(ports.clone()).create(command()).await.unwrap();
        world.apply(&next(world.withdrawal().queue(world.now()))).unwrap();
        world.wait_secs(1);
        world.apply(&next(world.withdrawal().submit(world.now(), GRACE))).unwrap();
        assert_eq!(Reconciler::new(ports).record().await, 0);
        assert_eq!(world.withdrawal().state, OutgoingState::Submitting);
    }
}

/// A server that has lost what it acknowledged shows another sending under the same id and version.
#[tokio::test]
async fn what_is_told_late_is_held_against_the_record_as_it_is() {
    let failed = Ok(report(Progress::Failed { code: "x".into(), message: "no".into() }));
    for answer in [Err(unavailable()), Err(rejected()), failed] {
        let world = World::with_available(FUNDS_CENTS);
        let down = Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
        world.script([Write::Done, down]);
        let ports = world.ports(answering(&world, answer));
        WithdrawalService::new(ports.clone()).create(command()).await.unwrap();
        world.stored().book.withdrawals[0].submitted_at = at(7);
        assert_eq!(Reconciler::new(ports).record().await, 0);
        assert_eq!(world.withdrawal().state, OutgoingState::Submitting);
    }
}

/// What stands before other work takes its share of it only.
#[tokio::test]
async fn a_round_of_what_is_told_late_is_bounded() {
    let world = World::with_available(100 * TOTAL_CENTS);
    let mut provider = MockSettlementProvider::new();
    provider.expect_send_payment().returning(|_| Err(rejected()));
    let ports = world.ports(provider);
    let service = WithdrawalService::new(ports.clone());
    let all = TOLD_AT_ONCE + 3;
    for number in 0..all {
        let down = Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
        world.script([Write::Done, down]);
        let external_id = Some(name(&format!("w-{number}")));
        service.create(CreateWithdrawal { external_id, ..command() }).await.unwrap();
    }
    assert_eq!(ports.unrecorded.len(), all);
    let reconciler = Reconciler::new(ports);
    assert_eq!(reconciler.record().await, 3);
    assert_eq!(reconciler.record().await, 0);
    assert_eq!(world.held(), 0);
}

/// Whose intent nobody knows to be kept is not sent; when it turns out to be kept, it goes to the queue.
#[tokio::test]
async fn what_is_kept_after_all_is_put_in_the_queue() {
    let lost = || ApplyError::Store(StoreError::Unknown("connection lost".into()));
    // By a request.
    let world = World::with_available(FUNDS_CENTS);
    let down = || Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
    world.script([Write::Lost(Box::new(|_| ())), down(), down()]);
    let ports = world.ports(MockSettlementProvider::new());
    let made = WithdrawalService::new(ports.clone()).create(command()).await;
    assert!(matches!(made, Err(ServiceError::Store(StoreError::Unknown(_)))), "{made:?}");
    assert_eq!(world.withdrawal().state, OutgoingState::Submitting);
    let reconciler = Reconciler::new(ports);
    assert_eq!(reconciler.record().await, 1);
    assert_eq!(reconciler.record().await, 0);
    assert_eq!(world.withdrawal().state, OutgoingState::Queued);
    // Though somebody has lost sight of it meanwhile.
    let world = World::with_available(FUNDS_CENTS);
    let forget = |world: &World| world.apply(&next(world.withdrawal().lose_sight(world.now()))).unwrap();
    world.script([Write::Lost(Box::new(forget))]);
    let ports = world.ports(MockSettlementProvider::new());
    let made = WithdrawalService::new(ports.clone()).create(command()).await;
    assert!(matches!(made, Ok(Outcome::Created(made)) if made.state == OutgoingState::Uncertain));
    assert_eq!(Reconciler::new(ports).record().await, 0);
    assert_eq!(world.withdrawal().state, OutgoingState::Queued);
    // By who took it out of the queue; and where it never was, it is looked for for some time.
    for kept in [true, false] {
        let world = world_in(&[Withdrawal::queue]);
        world.script([if kept { Write::Lost(Box::new(|_| ())) } else { Write::Refused(lost()) }]);
        let ports = world.ports(MockSettlementProvider::new());
        let went = WithdrawalService::new(ports.clone()).follow_up(INTEGRATOR, id()).await;
        assert!(went.is_err(), "{went:?}");
        let reconciler = Reconciler::new(ports.clone());
        assert_eq!(reconciler.record().await, usize::from(!kept));
        assert_eq!(world.withdrawal().state, OutgoingState::Queued);
        world.wait(LOOKED_FOR);
        assert_eq!(reconciler.record().await, 0);
        assert_eq!(world.withdrawal().state, OutgoingState::Queued);
    }
}

#[tokio::test]
async fn the_same_handle_with_the_same_body_finds_the_first_and_sends_nothing() {
    let key = |text: &str| Some(IdempotencyKey::parse(text).unwrap());
    let by_key = CreateWithdrawal { external_id: None, idempotency_key: key("k-1"), ..command() };
    let by_both = CreateWithdrawal { idempotency_key: key("k-1"), ..command() };
    for first in [command(), by_key, by_both] {
        let world = World::with_available(FUNDS_CENTS);
        let service = service(&world, answering(&world, Ok(report(Progress::Accepted))));
        let made = service.create(first.clone()).await.unwrap().into_inner();
        // Even a suspended integrator may learn what became of it.
        let again = CreateWithdrawal { integrator_status: IntegratorStatus::Suspended, ..first.clone() };
        assert_eq!(service.create(again).await, Ok(Outcome::Replayed(made)));
        let other = CreateWithdrawal { amount: amount(999), ..first.clone() };
        let refused = service.create(other).await.unwrap_err();
        let expected = match first.idempotency_key {
            Some(_) => ServiceError::IdempotencyMismatch,
            None => ServiceError::ExternalIdConflict,
        };
        assert_eq!(refused, expected);
        assert_eq!(world.held(), TOTAL_CENTS);
    }
}

/// Two requests with one handle, at one moment, have one id. Whose intent was not kept is told what the other one's was.
#[tokio::test]
async fn the_withdrawal_of_another_request_with_the_same_handle_is_an_answer_to_the_same_body_only() {
    for other_cents in [1_000, 999] {
        let world = World::with_available(FUNDS_CENTS);
        let others = move |world: &World| {
            let mut stored = world.stored();
            stored.evidence.clear();
            stored.book.withdrawals[0].amount = amount(other_cents);
        };
        world.script([Write::Lost(Box::new(others))]);
        let made = service(&world, MockSettlementProvider::new()).create(command()).await;
        match other_cents {
            1_000 => assert_eq!(made, Ok(Outcome::Replayed(world.withdrawal()))),
            _ => assert_eq!(made, Err(ServiceError::ExternalIdConflict)),
        }
    }
}

#[tokio::test]
async fn a_name_made_by_us_is_not_a_name_given() {
    let world = World::with_available(FUNDS_CENTS);
    let key = Some(IdempotencyKey::parse("k-1").unwrap());
    let service = service(&world, answering(&world, Ok(report(Progress::Accepted))));
    let nameless = CreateWithdrawal { external_id: None, idempotency_key: key.clone(), ..command() };
    let made = service.create(nameless).await.unwrap().into_inner();
    assert!(made.external_id.as_str().starts_with("wdr-") && !made.external_id_given);
    let named = CreateWithdrawal { external_id: Some(made.external_id), idempotency_key: key, ..command() };
    assert_eq!(service.create(named).await, Err(ServiceError::IdempotencyMismatch));
}

#[tokio::test]
async fn of_two_at_once_with_one_handle_one_sends_and_both_get_it() {
    let winner = |world: &World| {
        world.apply(&state::accept(new_withdrawal(1), T0, GRACE).unwrap()).unwrap();
    };
    // However the store words it: a doubled name, or no money left after the other one took it.
    for beaten in
        [Write::After(Box::new(winner)), Write::Beaten(Box::new(winner), ApplyError::InsufficientFunds)]
    {
        let world = World::with_available(TOTAL_CENTS);
        world.script([beaten]);
        let made = service(&world, MockSettlementProvider::new()).create(command()).await;
        assert_eq!(made, Ok(Outcome::Replayed(world.withdrawal())));
        assert_eq!(world.log(), ["apply withdrawal.created"]);
    }
}

#[tokio::test]
async fn no_money_or_no_right_leaves_nothing_behind() {
    let world = World::with_available(TOTAL_CENTS - 1);
    let service = service(&world, MockSettlementProvider::new());
    assert_eq!(service.create(command()).await, Err(ServiceError::InsufficientBalance));
    let suspended = CreateWithdrawal { integrator_status: IntegratorStatus::Suspended, ..command() };
    assert_eq!(service.create(suspended).await, Err(ServiceError::IntegratorSuspended));
    assert_eq!((world.available(), world.log().len()), (TOTAL_CENTS - 1, 0));
}

#[tokio::test]
async fn an_intent_whose_sender_was_held_up_past_the_grace_is_queued_and_not_sent() {
    let world = World::with_available(FUNDS_CENTS);
    world.script([Write::After(Box::new(|world| world.wait(GRACE + Duration::from_micros(1))))]);
    let made = service(&world, MockSettlementProvider::new()).create(command()).await.unwrap();
    assert_eq!(made.into_inner().state, OutgoingState::Queued);
    assert_eq!(world.held(), TOTAL_CENTS);
}

#[tokio::test]
async fn not_known_is_proof_only_past_the_horizon_when_asked_twice_and_never_accepted() {
    type Steps = &'static [fn(Withdrawal, Timestamp) -> Step];
    const LOST: Steps = &[Withdrawal::lose_sight];
    const LOST_FOR_LONG: Steps = &[Withdrawal::lose_sight, Withdrawal::ask_for_review];
    const TAKEN: Steps = &[accept];
    const TAKEN_FOR_LONG: Steps = &[accept, Withdrawal::ask_for_review];
    const SENDING: Steps = &[];
    const NEVER_SENT: Steps = &[Withdrawal::queue];
    let horizon = Some(Duration::from_mins(1));
    let proven_secs = 80; // The horizon counts from the last moment at which it could have been sent.
    for (steps, horizon, waited_secs, attempts, expected) in [
        (LOST, horizon, proven_secs, 2, "failed"),
        (LOST_FOR_LONG, horizon, proven_secs, 2, "failed"),
        (SENDING, horizon, proven_secs, 2, "failed"),
        (LOST, horizon, proven_secs - 1, 2, "uncertain"),
        (LOST, horizon, proven_secs, 1, "uncertain"),
        (LOST, horizon, proven_secs, 0, "uncertain"),
        (LOST, None, proven_secs, 100, "uncertain"),
        (LOST_FOR_LONG, None, 3_600, 100, "needs_review"),
        (TAKEN, horizon, proven_secs, 100, "accepted"),
        (TAKEN_FOR_LONG, horizon, proven_secs, 100, "needs_review"),
        (NEVER_SENT, horizon, proven_secs, 100, "queued"),
        (SENDING, horizon, 19, 100, "submitting"),
        (SENDING, horizon, 20, 100, "uncertain"),
        (SENDING, None, proven_secs, 100, "uncertain"),
    ] {
        let world = world_in(steps);
        world.wait_secs(waited_secs);
        let service = service(&world, knowing(Ok(None), horizon));
        if attempts > 1 {
            world.was_not_known(world.withdrawal().resource());
        }
        let (after, answer) = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(answer, Ok(None));
        assert_eq!(after.state.name(), expected, "{horizon:?} {waited_secs} {attempts}");
        assert_eq!(after, world.withdrawal());
        assert_eq!(world.held(), if expected == "failed" { 0 } else { TOTAL_CENTS });
    }
}

#[tokio::test]
async fn not_known_of_an_earlier_sending_proves_nothing_of_this_one() {
    let again = |withdrawal: Withdrawal, now| withdrawal.submit(now, GRACE);
    let world = world_in(&[Withdrawal::queue, again, Withdrawal::lose_sight]);
    world.was_not_known(world.withdrawal().resource());
    world.wait_secs(80);
    let service = service(&world, knowing(Ok(None), Some(Duration::from_mins(1))));
    let (after, _) = service.refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!((after.state, world.held()), (OutgoingState::Uncertain, TOTAL_CENTS));
    world.wait(MIN_REPEAT_GAP);
    let (after, _) = service.refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!((after.state.name(), world.held()), ("failed", 0), "heard twice of this one");
}

#[tokio::test]
async fn a_provider_that_cannot_be_asked_changes_nothing() {
    for error in [unavailable(), indeterminate(), rejected()] {
        let world = world_in(&[Withdrawal::lose_sight]);
        world.wait_secs(3_000);
        let service = service(&world, knowing(Err(error.clone()), Some(Duration::ZERO)));
        let (after, answer) = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!((after.state, answer), (OutgoingState::Uncertain, Err(error)));
        assert_eq!(world.held(), TOTAL_CENTS);
        assert_eq!(world.log(), ["apply evidence"]);
    }
}

#[tokio::test]
async fn after_65_minutes_an_operator_is_to_look_and_once_is_enough() {
    type Verb = fn(Withdrawal, Timestamp) -> Step;
    let just_before = NEEDS_REVIEW_AFTER.checked_sub(Duration::from_micros(1)).unwrap();
    let lost: Verb = Withdrawal::lose_sight;
    for (steps, answer) in [
        (vec![], Err(unavailable())),
        (vec![lost], Ok(None)),
        (vec![accept], Ok(Some(report(Progress::Accepted)))),
        (vec![lost], Ok(Some(report(Progress::Accepted)))),
    ] {
        let world = world_in(&steps);
        let service = service(&world, knowing(answer, None));
        world.wait(just_before);
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_ne!(world.withdrawal().state, OutgoingState::NeedsReview);
        world.wait(Duration::from_micros(1));
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(world.withdrawal().state, OutgoingState::NeedsReview);
        let version = world.withdrawal().version;
        for _ in 1..5 {
            world.wait_secs(900);
            let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
        }
        assert_eq!(world.withdrawal().version, version, "no news, no event");
        assert_eq!(world.held(), TOTAL_CENTS);
    }
}

#[tokio::test]
async fn what_was_not_sent_is_sent_again_until_it_is_too_old_and_then_released() {
    let world = world_in(&[Withdrawal::queue]);
    world.wait(QUEUE_MAX_AGE.checked_sub(Duration::from_micros(1)).unwrap());
    let sender = service(&world, answering(&world, Err(unavailable())));
    let after = sender.follow_up(INTEGRATOR, id()).await.unwrap();
    assert_eq!((after.state, after.submitted_at), (OutgoingState::Queued, world.now()));
    world.wait(Duration::from_micros(1));
    let after = service(&world, MockSettlementProvider::new()).follow_up(INTEGRATOR, id()).await.unwrap();
    assert!(matches!(&after.state, OutgoingState::Failed(why) if why.code == "provider_unavailable"));
    assert_eq!((world.held(), world.available()), (0, FUNDS_CENTS));
}

#[tokio::test]
async fn what_is_queued_is_stored_as_being_sent_before_it_is() {
    let world = world_in(&[Withdrawal::queue]);
    let service = service(&world, answering(&world, Ok(report(Progress::Completed))));
    service.follow_up(INTEGRATOR, id()).await.unwrap();
    assert_eq!(world.log(), ["apply withdrawal.submitting", "send", "apply withdrawal.completed"]);
}

#[tokio::test]
async fn who_could_not_take_it_out_of_the_queue_does_not_send_it() {
    for error in [
        ApplyError::Stale,
        ApplyError::Store(StoreError::Unknown("connection lost".into())),
        ApplyError::Store(StoreError::Unavailable("no connection".into())),
    ] {
        let world = world_in(&[Withdrawal::queue]);
        world.script([Write::Refused(error)]);
        let service = service(&world, MockSettlementProvider::new());
        let _ = service.follow_up(INTEGRATOR, id()).await;
        assert_eq!(world.withdrawal().state, OutgoingState::Queued);
    }
}

#[tokio::test]
async fn what_the_provider_has_is_never_sent_again_though_we_thought_it_was_not_sent() {
    for (progress, expected) in [
        (Progress::Accepted, OutgoingState::Accepted),
        (Progress::Completed, OutgoingState::Completed),
        (Progress::Returned(cents(1_000)), OutgoingState::Returned),
    ] {
        let world = world_in(&[Withdrawal::queue]);
        let service = service(&world, knowing(Ok(Some(report(progress))), None));
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(world.withdrawal().state, expected);
        assert_eq!(world.findings().len(), 1, "an operator is told");
        // The mocked provider would panic if it were asked to send.
        service.follow_up(INTEGRATOR, id()).await.unwrap();
    }
}

#[tokio::test]
async fn a_report_against_what_is_final_is_a_finding_and_moves_nothing() {
    type Verb = fn(Withdrawal, Timestamp) -> Step;
    let fail: Verb = |withdrawal, now| withdrawal.fail(failure(), now);
    let failed = || Progress::Failed { code: "x".into(), message: "no".into() };
    for (steps, progress, code) in [
        (vec![fail], Progress::Accepted, "accepted_though_not_sent"),
        (vec![fail], Progress::Returned(cents(1_001)), "returned_more_than_sent"),
        (vec![complete], failed(), "failed_though_completed"),
        (vec![complete], Progress::Returned(cents(1_001)), "returned_more_than_sent"),
    ] {
        let world = world_in(&steps);
        let before = (world.withdrawal(), world.available(), world.held());
        let service = service(&world, knowing(Ok(Some(report(progress))), None));
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!((world.withdrawal(), world.available(), world.held()), before);
        assert_eq!(world.findings(), [code]);
    }
}

#[tokio::test]
async fn what_left_though_it_was_released_is_taken_once_and_what_is_final_stays() {
    type Verb = fn(Withdrawal, Timestamp) -> Step;
    let fail: Verb = |withdrawal, now| withdrawal.fail(failure(), now);
    for (steps, told, left) in [
        (vec![fail], vec![Progress::Completed], 1_000),
        (vec![Withdrawal::queue, Withdrawal::cancel], vec![Progress::Completed], 1_000),
        (vec![fail], vec![Progress::Returned(cents(5))], 995),
        (vec![fail], vec![Progress::Completed, Progress::Returned(cents(400))], 600),
        (vec![fail], vec![Progress::Completed, Progress::Returned(cents(1_000))], 0),
        (vec![fail], vec![Progress::Returned(cents(1_000))], 0),
    ] {
        let world = world_in(&steps);
        let before = world.withdrawal();
        for progress in told {
            let service = service(&world, knowing(Ok(Some(report(progress))), None));
            for _ in 0..2 {
                let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
            }
        }
        let after = world.withdrawal();
        assert_eq!((&after.state, after.completed_at), (&before.state, before.completed_at));
        assert_eq!((world.available(), world.held()), (FUNDS_CENTS - left, 0));
        let told = if after.settled_late { vec!["completed_though_not_sent"] } else { vec![] };
        assert!(world.findings().starts_with(&told) && world.findings().len() <= 1, "{:?}", world.findings());
    }
}

#[tokio::test]
async fn what_comes_back_is_credited_once() {
    let world = world_in(&[complete]);
    let service = service(&world, knowing(Ok(Some(report(Progress::Returned(cents(400))))), None));
    for _ in 0..3 {
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
    }
    assert_eq!(world.available(), FUNDS_CENTS - TOTAL_CENTS + 400);
    assert_eq!(world.withdrawal().returned, cents(400));
}

#[tokio::test]
async fn another_integrators_withdrawal_does_not_exist() {
    let world = world_in(&[]);
    let service = service(&world, MockSettlementProvider::new());
    assert_eq!(service.get(OTHER, id()).await, Err(ServiceError::NotFound));
    assert_eq!(service.refresh(OTHER, id()).await.unwrap_err(), ServiceError::NotFound);
    assert_eq!(service.follow_up(OTHER, id()).await, Err(ServiceError::NotFound));
}

#[tokio::test]
async fn without_news_it_is_asked_about_more_and_more_seldom() {
    let due_after = async |steps: &[fn(Withdrawal, Timestamp) -> Step], attempts| {
        let world = world_in(steps);
        let resource = world.withdrawal().resource();
        let worker = TransactionService::new(world.ports(knowing(Ok(None), None)));
        worker.follow_up(world.claimed(resource, attempts)).await.unwrap();
        let due: Timestamp = world.stored().follow_ups[&resource];
        due.since(world.now()).as_secs()
    };
    for (attempts, secs) in [(1, 15), (2, 60), (3, 120), (4, 120), (1_000, 120)] {
        let waited = due_after(&[Withdrawal::lose_sight], attempts).await;
        assert!((secs * 9 / 10..=secs).contains(&waited), "{waited} s after {attempts} questions");
    }
    assert_eq!(due_after(&[], 1).await, GRACE.as_secs(), "what is being sent is left alone");
}
