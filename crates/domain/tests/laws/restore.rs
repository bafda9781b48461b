//! After a restore: what may have been sent is asked about first, and nothing leaves before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use pix_domain::audit::MockBookStore;
use pix_domain::charges::service::ChargeService;
use pix_domain::credentials::IntegratorStatus;
use pix_domain::error::{ApplyError, ServiceError, StoreError, UniqueKey};
use pix_domain::ids::{ChargeId, is_timeless, timeless};
use pix_domain::ports::{Outcome, Ports};
use pix_domain::proofs::{Proved, Prover};
use pix_domain::provider::{
    ChargeReport, MockSettlementProvider, OutgoingReport, Progress, ProviderError, Reference,
};
use pix_domain::refunds::service::RefundService;
use pix_domain::restore::{Outflow, OutflowGate, cast_doubt};
use pix_domain::text::IdempotencyKey;
use pix_domain::transactions::TransactionService;
use pix_domain::withdrawals::service::{QuoteVerdict, WithdrawalService};
use pix_domain::withdrawals::{NewWithdrawal, OutgoingState, Withdrawal, state};
use uuid::Uuid;

use crate::refunds;
use crate::samples::*;
use crate::withdrawals::{FUNDS_CENTS, command, world_in};
use crate::world::{World, Write};

/// A gate that is moved by hand.
struct Gate(AtomicU8);

impl OutflowGate for Gate {
    fn outflow(&self) -> Outflow {
        [Outflow::Open, Outflow::AskFirst, Outflow::Shut][usize::from(self.0.load(Ordering::SeqCst))]
    }
}

fn gated(world: &World, provider: MockSettlementProvider, outflow: u8) -> Ports {
    Ports { outflow: Arc::new(Gate(AtomicU8::new(outflow))), ..world.ports(provider) }
}

const OPEN: u8 = 0;
const ASK_FIRST: u8 = 1;
const SHUT: u8 = 2;

fn asked(answer: Result<Option<OutgoingReport>, ProviderError>) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_payment().times(1).returning(move |_| answer.clone());
    provider.expect_not_found_is_proof_after().returning(|| None);
    provider
}

async fn made(ports: Ports) -> Withdrawal {
    match WithdrawalService::new(ports).create(command()).await.unwrap() {
        Outcome::Created(withdrawal) => withdrawal,
        Outcome::Replayed(_) => panic!("made anew"),
    }
}

#[tokio::test]
async fn the_same_request_has_the_same_reference_in_books_that_lost_the_first_one() {
    let mut references = Vec::new();
    for _ in 0..2 {
        let world = World::with_available(FUNDS_CENTS);
        let mut provider = MockSettlementProvider::new();
        provider.expect_send_payment().times(1).returning(|_| Ok(report(Progress::Accepted)));
        let withdrawal = made(world.ports(provider)).await;
        assert!(is_timeless(withdrawal.reference().0));
        assert_eq!(timeless(withdrawal.id.0), Some(withdrawal.reference().0));
        references.push(withdrawal.reference());
    }
    assert_eq!(references[0], references[1]);
}

#[tokio::test]
async fn every_handle_owner_and_database_has_references_of_its_own() {
    let mut references = vec![];
    for change in 0..4 {
        let world = World::with_available(FUNDS_CENTS);
        let mut provider = MockSettlementProvider::new();
        provider.expect_send_payment().returning(|_| Ok(report(Progress::Accepted)));
        let (mut command, mut ports) = (command(), world.ports(provider));
        match change {
            0 => {}
            1 => command.external_id = Some(name("w-2")),
            2 => {
                command.external_id = None;
                command.idempotency_key = Some(IdempotencyKey::parse("w-1").unwrap());
            }
            _ => ports.handle_seed = uuid::Uuid::from_u128(2),
        }
        let made = WithdrawalService::new(ports).create(command).await.unwrap().into_inner();
        assert!(!references.contains(&made.reference()));
        references.push(made.reference());
    }
    // Without a handle nothing tells a request again: its id is its reference.
    let world = World::with_available(FUNDS_CENTS);
    let mut provider = MockSettlementProvider::new();
    provider.expect_send_payment().returning(|_| Ok(report(Progress::Accepted)));
    let mut command = command();
    command.external_id = None;
    let made = WithdrawalService::new(world.ports(provider)).create(command).await.unwrap().into_inner();
    assert_eq!(made.reference(), Reference(made.id.0));
}

#[tokio::test]
async fn what_was_taken_on_when_the_clock_leapt_is_not_sent_before_it_is_right() {
    let world = World::with_available(FUNDS_CENTS);
    world.script([Write::After(Box::new(|world| world.stored().is_clock_wrong = true))]);
    let mut provider = MockSettlementProvider::new();
    provider.expect_send_payment().times(1).returning(|_| Ok(report(Progress::Completed)));
    let service = WithdrawalService::new(world.ports(provider));
    let made = service.create(command()).await.unwrap().into_inner();
    assert_eq!(made.state, OutgoingState::Queued);
    let seen = world.stored().evidence.last().unwrap().detail.clone();
    assert_eq!(seen, "held back: this node's clock is not right");
    let waiting = service.follow_up(INTEGRATOR, made.id).await.unwrap();
    assert_eq!(waiting.state, OutgoingState::Queued);
    world.stored().is_clock_wrong = false;
    let sent = service.follow_up(INTEGRATOR, made.id).await.unwrap();
    assert_eq!(sent.state, OutgoingState::Completed);
}

#[tokio::test]
async fn a_refund_that_was_taken_on_when_the_clock_leapt_is_not_sent_before_it_is_right() {
    let world = refunds::paid_world();
    world.script([Write::After(Box::new(|world| world.stored().is_clock_wrong = true))]);
    let mut provider = MockSettlementProvider::new();
    provider.expect_refund().times(1).returning(|_| Ok(report(Progress::Completed)));
    let service = RefundService::new(world.ports(provider));
    let made = service.create(refunds::command()).await.unwrap().into_inner();
    assert_eq!(made.state, OutgoingState::Queued);
    world.stored().is_clock_wrong = false;
    let sent = service.follow_up(INTEGRATOR, made.id).await.unwrap();
    assert_eq!(sent.state, OutgoingState::Completed);
}

#[tokio::test]
async fn nothing_is_taken_on_and_nothing_is_sent_while_the_gate_is_shut() {
    let world = World::with_available(FUNDS_CENTS);
    let service = WithdrawalService::new(gated(&world, asked(Ok(None)), SHUT));
    assert_eq!(service.create(command()).await, Err(ServiceError::Restored));
    let quote = service.quote(&command()).await.unwrap();
    assert_eq!(quote.verdict, QuoteVerdict::Refused(ServiceError::Restored));
    let mut unnamed = command();
    unnamed.external_id = None;
    assert_eq!(service.create(unnamed).await, Err(ServiceError::Restored));
    assert_eq!(world.held(), 0);
    // What waits goes on waiting, however old it is.
    let world = world_in(&[|withdrawal, now| withdrawal.queue(now)]);
    world.wait_secs(86_400);
    let service = WithdrawalService::new(gated(&world, MockSettlementProvider::new(), SHUT));
    let waiting = service.follow_up(INTEGRATOR, world.withdrawal().id).await.unwrap();
    assert_eq!(waiting.state, OutgoingState::Queued);
}

#[tokio::test]
async fn what_the_provider_has_already_is_learned_and_not_sent() {
    for outflow in [ASK_FIRST, SHUT] {
        for (progress, state) in
            [(Progress::Completed, OutgoingState::Completed), (Progress::Accepted, OutgoingState::Accepted)]
        {
            let world = World::with_available(FUNDS_CENTS);
            let mut ports = gated(&world, asked(Ok(Some(report(progress)))), outflow);
            ports.duplicate_window = std::time::Duration::ZERO;
            let mut suspended = command();
            suspended.integrator_status = IntegratorStatus::Suspended;
            let made = WithdrawalService::new(ports).create(suspended).await.unwrap().into_inner();
            assert_eq!(made.state, state, "it has left, whatever its integrator may do now");
        }
    }
}

#[tokio::test]
async fn what_is_learned_beside_others_just_like_it_is_decided_again() {
    let world = World::with_available(FUNDS_CENTS);
    let refused = [UniqueKey::Twin, UniqueKey::Twin].map(ApplyError::Duplicate);
    let refused = refused.into_iter().chain([ApplyError::Stale, ApplyError::Owing]);
    world.script(refused.map(Write::Refused));
    let ports = gated(&world, asked(Ok(Some(report(Progress::Completed)))), SHUT);
    assert_eq!(made(ports).await.state, OutgoingState::Completed);
}

#[tokio::test]
async fn what_has_left_and_is_not_in_the_wallet_is_told_to_operators_and_is_no_refusal() {
    let world = World::with_available(1);
    let ports = gated(&world, asked(Ok(Some(report(Progress::Completed)))), ASK_FIRST);
    assert_eq!(WithdrawalService::new(ports).create(command()).await, Err(ServiceError::Restored));
    assert_eq!(world.findings(), ["sent_before_restore"]);
    assert_eq!(world.held(), 0);
}

#[tokio::test]
async fn what_the_provider_does_not_know_is_sent_once() {
    let world = World::with_available(FUNDS_CENTS);
    let mut provider = asked(Ok(None));
    provider.expect_send_payment().times(1).returning(|_| Ok(report(Progress::Accepted)));
    assert_eq!(made(gated(&world, provider, ASK_FIRST)).await.state, OutgoingState::Accepted);
}

#[tokio::test]
async fn while_the_provider_can_not_be_asked_nothing_is_stored() {
    for error in [unavailable(), indeterminate()] {
        let world = World::with_available(FUNDS_CENTS);
        let service = WithdrawalService::new(gated(&world, asked(Err(error)), ASK_FIRST));
        assert_eq!(service.create(command()).await, Err(ServiceError::ProviderUnavailable));
        assert_eq!(world.held(), 0);
    }
}

#[tokio::test]
async fn a_handle_that_the_provider_knows_for_something_else_is_taken() {
    let world = World::with_available(FUNDS_CENTS);
    let service =
        WithdrawalService::new(gated(&world, asked(Err(ProviderError::Mismatch("key"))), ASK_FIRST));
    assert_eq!(service.create(command()).await, Err(ServiceError::ExternalIdConflict));
    assert_eq!(world.held(), 0);
}

#[tokio::test]
async fn what_waits_is_neither_sent_nor_given_up_before_the_provider_was_asked() {
    let queued = || {
        let world = world_in(&[|withdrawal, now| withdrawal.queue(now)]);
        world.wait_secs(86_400);
        world
    };
    for (answer, state) in [
        (Err(unavailable()), "queued"),
        (Ok(Some(report(Progress::Completed))), "completed"),
        (Ok(None), "failed"),
    ] {
        let world = queued();
        let service = WithdrawalService::new(gated(&world, asked(answer), ASK_FIRST));
        let after = service.follow_up(INTEGRATOR, world.withdrawal().id).await.unwrap();
        assert_eq!(after.state.name(), state);
    }
}

#[tokio::test]
async fn what_may_have_been_sent_since_the_backup_is_in_doubt_from_the_restore_on() {
    type Way = fn(Withdrawal, pix_domain::time::Timestamp) -> pix_domain::transition::Step;
    let ways: [(&[Way], u64); 4] = [
        (&[], 1),
        (&[|withdrawal, now| withdrawal.queue(now)], 1),
        (
            &[|withdrawal, now| withdrawal.lose_sight(now), |withdrawal, now| withdrawal.ask_for_review(now)],
            1,
        ),
        (&[|withdrawal, now| withdrawal.accepted(report(Progress::Accepted), now)], 0),
    ];
    for (way, doubts) in ways {
        let world = world_in(way);
        world.wait_secs(3_600);
        let before = world.withdrawal();
        let mut books = MockBookStore::new();
        let here = world.clone();
        books.expect_book().returning(move |_| Ok(here.stored().book.clone()));
        let ports = gated(&world, MockSettlementProvider::new(), SHUT);
        let doubt = cast_doubt(&ports, &books, INTEGRATOR, "restored").await.unwrap();
        assert_eq!((doubt.in_doubt, doubt.accepted), (doubts, 1 - doubts));
        let after = world.withdrawal();
        assert_eq!(world.held(), before.total().get(), "nothing is released");
        if doubts == 1 {
            assert_eq!((&after.state, after.submitted_at), (&OutgoingState::Uncertain, at(3_600)));
        } else {
            assert_eq!(after, before);
        }
    }
}

#[tokio::test]
async fn what_was_stored_of_it_is_no_error_though_the_answer_can_not_be_kept() {
    let world = World::with_available(FUNDS_CENTS);
    let down = ApplyError::Store(StoreError::Unavailable("no connection".into()));
    world.script([Write::Done, Write::Refused(down)]);
    let withdrawal = made(gated(&world, asked(Ok(Some(report(Progress::Completed)))), SHUT)).await;
    assert_eq!(withdrawal.state, OutgoingState::Submitting);
}

#[tokio::test]
async fn a_row_with_the_same_id_is_another_requests_when_its_evidence_is() {
    let twin = World::with_available(FUNDS_CENTS);
    let mut provider = MockSettlementProvider::new();
    provider.expect_send_payment().times(1).returning(|_| Ok(report(Progress::Accepted)));
    let id = made(twin.ports(provider)).await.id;

    // Ids of one moment and one handle are the same here, as on two nodes.
    let world = World::with_available(FUNDS_CENTS);
    let other = move |world: &World| {
        let new = NewWithdrawal { id, external_id: name("w-1"), ..new_withdrawal(1) };
        world.apply(&state::accept(new, world.now(), GRACE).unwrap()).unwrap();
    };
    let lost = ApplyError::Store(StoreError::Unknown("the line was cut".into()));
    world.script([Write::Beaten(Box::new(other), lost)]);
    // A provider that must not be called: the other request is sending it.
    let service = WithdrawalService::new(world.ports(MockSettlementProvider::new()));
    let outcome = service.create(command()).await.unwrap();
    assert!(matches!(outcome, Outcome::Replayed(withdrawal) if withdrawal.id == id));
}

fn refund_known(answer: Option<OutgoingReport>) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_refund().times(1).returning(move |_| Ok(answer.clone()));
    provider
}

#[tokio::test]
async fn a_refund_that_the_provider_has_is_learned_and_not_sent() {
    let world = refunds::paid_world();
    let ports = gated(&world, refund_known(Some(report(Progress::Completed))), SHUT);
    let made = RefundService::new(ports).create(refunds::command()).await.unwrap().into_inner();
    assert_eq!(made.state, OutgoingState::Completed);
    let world = refunds::paid_world();
    let ports = gated(&world, refund_known(None), SHUT);
    assert_eq!(RefundService::new(ports).create(refunds::command()).await, Err(ServiceError::Restored));
}

#[tokio::test]
async fn a_refund_that_may_have_been_taken_back_already_is_not_debited_again() {
    for (answer, passes) in [(Some(report(Progress::Completed)), false), (None, true)] {
        let world = refunds::paid_world();
        let taken = world.charge(refunds::CHARGE).take_back(cents(300), world.now());
        world.apply(&next(taken)).unwrap();
        let mut provider = refund_known(answer);
        provider.expect_refund().returning(|_| Ok(report(Progress::Completed)));
        let made = RefundService::new(world.ports(provider)).create(refunds::command()).await;
        assert_eq!(made.is_ok(), passes, "{made:?}");
    }
}

/// It may be a refund that the books have lost and that is asked for again: until operators say that all were, it is not booked.
#[tokio::test]
async fn what_went_back_is_booked_while_the_gate_is_shut_by_operators_alone() {
    let asked = |gate: u8| {
        let world = refunds::paid_world();
        let mut provider = MockSettlementProvider::new();
        provider.expect_consult_charge().returning(|_| Ok(Some(refunds::counting_refunds())));
        let service = ChargeService::new(gated(&world, provider, gate));
        (world, service)
    };
    let taken = |world: &World| world.charge(refunds::CHARGE).taken_back;
    let charge = ChargeId(Uuid::from_u128(refunds::CHARGE));
    for gate in [OPEN, ASK_FIRST] {
        let (world, service) = asked(gate);
        service.refresh(INTEGRATOR, charge).await.unwrap().1.unwrap();
        assert_eq!(taken(&world), cents(refunds::REFUND_CENTS));
    }
    let (world, service) = asked(SHUT);
    assert_eq!(service.refresh(INTEGRATOR, charge).await.map(drop), Err(ServiceError::Restored));
    assert!(taken(&world).is_zero());
    // One of ours that is known again by then is no forced return.
    refunds::store_refund(&world, refunds::REFUND_CENTS);
    service.refresh(INTEGRATOR, charge).await.unwrap().1.unwrap();
    assert!(taken(&world).is_zero());
    let (world, service) = asked(SHUT);
    service.of_operators().refresh(INTEGRATOR, charge).await.unwrap().1.unwrap();
    assert_eq!(taken(&world), cents(refunds::REFUND_CENTS));
}

/// Whoever asks by itself comes again.
#[tokio::test]
async fn what_is_not_booked_yet_is_asked_about_again() {
    let world = refunds::paid_world();
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_charge().returning(|_| Ok(Some(refunds::counting_refunds())));
    let ports = gated(&world, provider, SHUT);
    let resource = world.charge(refunds::CHARGE).resource();
    let proved = Prover::new(ports.clone()).prove(resource, false).await;
    assert_eq!(proved, Ok(Proved::NotYet));
    let at = world.now();
    world.stored().follow_ups.insert(resource, at);
    let due = world.claimed(resource, 3);
    TransactionService::new(ports).follow_up(due).await.unwrap();
    let next = world.stored().follow_ups.get(&resource).copied();
    assert!(next.is_some_and(|next| next > world.now() && next != due.until), "it is due again: {next:?}");
    assert!(world.charge(refunds::CHARGE).taken_back.is_zero());
}

/// What can't be taken any more isn't waited for.
#[tokio::test]
async fn more_than_was_paid_is_told_while_the_gate_is_shut_too() {
    let world = refunds::paid_world();
    let all = world.charge(refunds::CHARGE).amount_paid();
    let taken = world.charge(refunds::CHARGE).take_back(all, world.now());
    world.apply(&next(taken)).unwrap();
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_charge().returning(move |_| {
        Ok(Some(ChargeReport { refunded: all.checked_add(cents(1)).unwrap(), ..refunds::counting_refunds() }))
    });
    let service = ChargeService::new(gated(&world, provider, SHUT));
    service.refresh(INTEGRATOR, ChargeId(Uuid::from_u128(refunds::CHARGE))).await.unwrap().1.unwrap();
    assert!(world.findings().contains(&"returned_more_than_paid"), "{:?}", world.findings());
}

#[tokio::test]
async fn a_refund_of_the_same_handle_is_the_answer_even_when_money_was_taken_back_since() {
    let world = refunds::paid_world();
    let (here, mut provider) = (world.clone(), refund_known(None));
    // Another request has the refund refused, and money goes back by itself, between this one's first look and its second.
    provider.expect_consult_charge().times(1).returning(move |_| {
        refunds::store_refund(&here, refunds::REFUND_CENTS);
        let failed = here.refund().fail(here.charge(refunds::CHARGE), failure(), here.now());
        here.apply(&next(failed)).unwrap();
        let taken = here.charge(refunds::CHARGE).take_back(cents(300), here.now());
        here.apply(&next(taken)).unwrap();
        Ok(None)
    });
    let ports = gated(&world, provider, ASK_FIRST);
    let made = RefundService::new(ports).create(refunds::command()).await.unwrap();
    assert!(matches!(made, Outcome::Replayed(refund) if refund == world.refund()));
}

#[tokio::test]
async fn a_refund_that_another_request_of_its_handle_stores_meanwhile_is_the_answer() {
    let world = refunds::paid_world();
    let taken = world.charge(refunds::CHARGE).take_back(cents(300), world.now());
    world.apply(&next(taken)).unwrap();
    for answer in [Ok(Some(report(Progress::Accepted))), Err(ProviderError::Mismatch("amount"))] {
        let (here, mut provider) = (world.clone(), MockSettlementProvider::new());
        provider.expect_consult_refund().returning(move |_| {
            refunds::store_refund(&here, refunds::REFUND_CENTS);
            answer.clone()
        });
        let made = RefundService::new(world.ports(provider)).create(refunds::command()).await.unwrap();
        assert!(matches!(made, Outcome::Replayed(refund) if refund == world.refund()));
    }
}

#[tokio::test]
async fn a_refund_that_is_stored_while_lost_books_are_asked_about_is_the_answer() {
    for (gate, refused) in [ASK_FIRST, SHUT].into_iter().flat_map(|gate| (0..3).map(move |why| (gate, why))) {
        // Refused were it alone: nothing is left, money was taken back, another amount is known.
        let world = if refused == 0 { World::with_available(PAID_CENTS) } else { refunds::paid_world() };
        match refused {
            0 => drop(world.paid_charge(refunds::CHARGE, refunds::REFUND_CENTS)),
            1 => {
                let taken = world.charge(refunds::CHARGE).take_back(cents(300), world.now());
                world.apply(&next(taken)).unwrap();
            }
            _ => {}
        }
        let (here, mut provider) = (world.clone(), MockSettlementProvider::new());
        provider.expect_consult_refund().returning(move |_| {
            if here.stored().book.refunds.is_empty() {
                refunds::store_refund(&here, refunds::REFUND_CENTS);
            }
            if refused == 2 {
                return Err(ProviderError::Mismatch("amount"));
            }
            Ok(Some(report(Progress::Accepted)))
        });
        let made = RefundService::new(gated(&world, provider, gate)).create(refunds::command()).await;
        assert_eq!(made.map(Outcome::into_inner), Ok(world.refund()));
    }
}
