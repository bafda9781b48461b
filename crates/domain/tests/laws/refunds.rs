//! The use cases of refunds.

use std::sync::Arc;
use std::time::Duration;

use mockall::Sequence;
use pix_domain::charges::service::ChargeService;
use pix_domain::charges::{ChargeState, state as charge_state};
use pix_domain::credentials::IntegratorStatus;
use pix_domain::error::{ApplyError, ServiceError, StoreError};
use pix_domain::ids::{ChargeId, RefundId};
use pix_domain::money::Cents;
use pix_domain::ports::Outcome;
use pix_domain::provider::{
    ChargeReport, MockSettlementProvider, OutgoingReport, Progress, ProviderBody, ProviderError,
};
use pix_domain::reconciler::Reconciler;
use pix_domain::refunds::service::{CreateRefund, RefundService};
use pix_domain::refunds::{REFUND_WINDOW, Refund, state};
use pix_domain::schedule::{NEEDS_REVIEW_AFTER, QUEUE_MAX_AGE};
use pix_domain::text::IdempotencyKey;
use pix_domain::time::Timestamp;
use pix_domain::transition::{EventKind, MockTransitionStore, Step};
use pix_domain::withdrawals::OutgoingState;
use uuid::Uuid;

use crate::samples::*;
use crate::world::{World, Write};

pub const CHARGE: u128 = 2;
pub const REFUND_CENTS: i64 = 300;
const TOTAL_CENTS: i64 = REFUND_CENTS + FEE_CENTS;

/// A world with a paid charge of [`PAID_CENTS`], and as much again in the wallet.
pub fn paid_world() -> World {
    let world = World::with_available(PAID_CENTS);
    world.paid_charge(CHARGE, PAID_CENTS);
    world
}

fn funds() -> i64 {
    2 * PAID_CENTS
}

pub fn command() -> CreateRefund {
    CreateRefund {
        integrator_id: INTEGRATOR,
        integrator_status: IntegratorStatus::Active,
        charge_id: ChargeId(Uuid::from_u128(CHARGE)),
        external_id: Some(name("r-3")),
        idempotency_key: None,
        amount: Some(amount(REFUND_CENTS)),
        description: None,
        allow_duplicate_of: None,
    }
}

fn nameless() -> CreateRefund {
    CreateRefund { external_id: None, ..command() }
}

fn answering(answer: Result<OutgoingReport, ProviderError>) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    provider.expect_refund().times(1).returning(move |_| answer.clone());
    provider
}

fn always(answer: Result<OutgoingReport, ProviderError>) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    provider.expect_refund().returning(move |_| answer.clone());
    provider
}

fn knowing(
    answer: Result<Option<OutgoingReport>, ProviderError>,
    horizon: Option<Duration>,
) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_refund().returning(move |_| answer.clone());
    provider.expect_not_found_is_proof_after().returning(move || horizon);
    provider
}

fn service(world: &World, provider: MockSettlementProvider) -> RefundService {
    RefundService::new(world.ports(provider))
}

fn id() -> RefundId {
    RefundId(Uuid::from_u128(3))
}

/// Stores the refund `r-3`, about to be sent.
pub fn store_refund(world: &World, refund_cents: i64) {
    let accepted =
        state::accept(new_refund(3, refund_cents), world.charge(CHARGE), world.now(), GRACE).unwrap();
    world.apply(&accepted).unwrap();
}

/// A world in which the refund was accepted at [`T0`] and came to this by these verbs.
pub fn world_in(steps: &[fn(Refund, Timestamp) -> Step]) -> World {
    let world = paid_world();
    store_refund(&world, REFUND_CENTS);
    for step in steps {
        world.apply(&next(step(world.refund(), world.now()))).unwrap();
    }
    world.stored().log.clear();
    world
}

fn accept(refund: Refund, now: Timestamp) -> Step {
    refund.accepted(report(Progress::Accepted), now)
}

/// What the charge says of its refunds: in progress, done.
fn shares(world: &World) -> (i64, i64) {
    let charge = world.charge(CHARGE);
    (charge.refund_reserved.get(), charge.refunded.get())
}

#[tokio::test]
async fn taken_and_then_failed_is_no_contradiction_in_whichever_order_it_is_heard() {
    let world = paid_world();
    let fail = |world: &World| {
        world.wait_secs(1);
        let charge = world.charge(CHARGE);
        world.apply(&next(world.refund().fail(charge, failure(), world.now()))).unwrap();
    };
    world.script([Write::Done, Write::Beaten(Box::new(fail), ApplyError::Stale)]);
    RefundService::new(world.ports(answering(Ok(report(Progress::Accepted)))))
        .create(command())
        .await
        .unwrap();
    assert!(matches!(world.refund().state, OutgoingState::Failed(_)));
    assert!(world.findings().is_empty());
}

#[tokio::test]
async fn the_intent_is_stored_before_the_provider_is_called() {
    let world = paid_world();
    let mut order = Sequence::new();
    let (mut store, mut provider) = (MockTransitionStore::new(), MockSettlementProvider::new());
    let here = world.clone();
    store.expect_apply().times(1).in_sequence(&mut order).returning(move |transition| {
        assert_eq!(transition.writes[0].event, EventKind::RefundCreated);
        assert_eq!(transition.writes[1].event, EventKind::ChargeRefundReserved);
        here.apply(&transition)
    });
    let here = world.clone();
    provider.expect_refund().times(1).in_sequence(&mut order).returning(move |order| {
        assert_eq!((here.held(), shares(&here)), (TOTAL_CENTS, (REFUND_CENTS, 0)));
        assert_eq!(order.reference, here.refund().reference());
        Ok(report(Progress::Completed))
    });
    let here = world.clone();
    store
        .expect_apply()
        .times(1)
        .in_sequence(&mut order)
        .returning(move |transition| here.apply(&transition));
    let mut ports = world.ports(provider);
    ports.stores.transitions = Arc::new(store);
    RefundService::new(ports).create(command()).await.unwrap();
    assert_eq!((world.held(), shares(&world)), (0, (0, REFUND_CENTS)));
}

#[tokio::test]
async fn what_is_known_after_the_call_decides_where_the_money_is() {
    let failed = Progress::Failed { code: "x".into(), message: "no".into() };
    for (answer, expected, held, available, share) in [
        (Ok(report(Progress::Completed)), "completed", 0, funds() - TOTAL_CENTS, (0, REFUND_CENTS)),
        (Ok(report(Progress::Accepted)), "accepted", TOTAL_CENTS, funds() - TOTAL_CENTS, (REFUND_CENTS, 0)),
        (Ok(report(failed)), "failed", 0, funds(), (0, 0)),
        (Err(rejected()), "failed", 0, funds(), (0, 0)),
        (Err(unavailable()), "queued", TOTAL_CENTS, funds() - TOTAL_CENTS, (REFUND_CENTS, 0)),
        (Err(indeterminate()), "uncertain", TOTAL_CENTS, funds() - TOTAL_CENTS, (REFUND_CENTS, 0)),
    ] {
        let world = paid_world();
        let made = service(&world, answering(answer)).create(command()).await.unwrap();
        assert!(matches!(made, Outcome::Created(refund) if refund == world.refund()));
        assert_eq!(world.refund().state.name(), expected);
        assert_eq!((world.held(), world.available(), shares(&world)), (held, available, share), "{expected}");
    }
}

#[tokio::test]
async fn an_intent_whose_answer_was_lost_is_sent_after_another_commit_was_acknowledged() {
    let world = paid_world();
    world.script([Write::Lost(Box::new(|_| ()))]);
    let sending = service(&world, answering(Ok(report(Progress::Completed))));
    let made = sending.create(command()).await.unwrap();
    assert_eq!(made, Outcome::Created(world.refund()));
    assert_eq!(world.log(), ["apply refund.created", "apply refund.queued"]);
    sending.follow_up(INTEGRATOR, world.refund().id).await.unwrap();
    assert_eq!(world.log()[2..], ["apply refund.submitting", "apply refund.completed"]);

    let lost = || Write::Refused(ApplyError::Store(StoreError::Unknown("connection lost".into())));
    for second in [lost(), Write::Lost(Box::new(|_| ())), Write::Refused(ApplyError::Stale)] {
        let world = paid_world();
        world.script([Write::Lost(Box::new(|_| ())), second]);
        let refused = service(&world, MockSettlementProvider::new()).create(command()).await;
        assert!(matches!(refused, Err(ServiceError::Store(StoreError::Unknown(_)))), "{refused:?}");
    }

    let world = paid_world();
    world.script([Write::Refused(ApplyError::Store(StoreError::Unknown("connection lost".into())))]);
    let refused = service(&world, MockSettlementProvider::new()).create(command()).await;
    assert_eq!(refused, Err(ServiceError::Store(StoreError::Unknown("connection lost".into()))));
}

#[tokio::test]
async fn a_charge_that_changes_meanwhile_is_read_again() {
    let world = paid_world();
    let other = |world: &World| {
        let taken = state::accept(new_refund(9, 100), world.charge(CHARGE), world.now(), GRACE).unwrap();
        world.apply(&taken).unwrap();
    };
    world.script([Write::After(Box::new(other))]);
    let all = CreateRefund { amount: None, ..command() };
    let made = service(&world, answering(Ok(report(Progress::Accepted)))).create(all).await.unwrap();
    assert_eq!(made.into_inner().amount, amount(PAID_CENTS - 100), "all that is left, as it is then");
    assert_eq!(shares(&world), (PAID_CENTS, 0));
}

#[tokio::test]
async fn what_was_sent_and_could_not_be_recorded_is_not_told_as_an_error() {
    let world = paid_world();
    let down = Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
    world.script([Write::Done, down]);
    let made = service(&world, answering(Ok(report(Progress::Completed)))).create(command()).await;
    assert!(matches!(made, Ok(Outcome::Created(refund)) if refund.state == OutgoingState::Submitting));
    assert_eq!(world.held(), TOTAL_CENTS);
}

/// What a process remembers, and tells when the store is back.
#[tokio::test]
async fn what_could_not_be_recorded_is_recorded_when_the_store_is_back() {
    let down = || Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
    for (answer, expected) in [
        (Ok(report(Progress::Completed)), (0, REFUND_CENTS)),
        (Err(rejected()), (0, 0)),
        (Err(unavailable()), (REFUND_CENTS, 0)),
    ] {
        let world = paid_world();
        world.script([Write::Done, down(), down()]);
        let ports = world.ports(answering(answer.clone()));
        RefundService::new(ports.clone()).create(command()).await.unwrap();
        assert_eq!(world.refund().state, OutgoingState::Submitting);
        let reconciler = Reconciler::new(ports);
        world.wait_secs(60);
        // Still away, and then back.
        assert_eq!(reconciler.record().await, 1);
        assert_eq!(reconciler.record().await, 0);
        assert_eq!(shares(&world), expected);
        assert_eq!(world.refund().state == OutgoingState::Queued, answer == Err(unavailable()));
    }
}

#[tokio::test]
async fn an_intent_that_is_kept_after_all_is_put_in_the_queue() {
    let down = || Write::Refused(ApplyError::Store(StoreError::Unavailable("no connection".into())));
    let world = paid_world();
    world.script([Write::Lost(Box::new(|_| ())), down()]);
    let ports = world.ports(MockSettlementProvider::new());
    let made = RefundService::new(ports.clone()).create(command()).await;
    assert!(matches!(made, Err(ServiceError::Store(StoreError::Unknown(_)))), "{made:?}");
    assert_eq!(world.refund().state, OutgoingState::Submitting);
    assert_eq!(Reconciler::new(ports).record().await, 0);
    assert_eq!(world.refund().state, OutgoingState::Queued);
    // By who took it out of the queue.
    let world = world_in(&[Refund::queue]);
    world.script([Write::Lost(Box::new(|_| ()))]);
    let ports = world.ports(MockSettlementProvider::new());
    let went = RefundService::new(ports.clone()).follow_up(INTEGRATOR, id()).await;
    assert!(went.is_err(), "{went:?}");
    assert_eq!(world.refund().state, OutgoingState::Submitting);
    assert_eq!(Reconciler::new(ports).record().await, 0);
    assert_eq!(world.refund().state, OutgoingState::Queued);
}

/// Of the charge: paid, and a refund of it gone back or on its way.
pub fn counting_refunds() -> ChargeReport {
    let payments = vec![payment(u32::try_from(CHARGE).unwrap(), PAID_CENTS)];
    let (refunded, body) = (cents(REFUND_CENTS), ProviderBody::default());
    ChargeReport { provider_id: provider_id("chg-1"), payments, refunded, canceled: false, body }
}

/// A provider may count what is still on its way back. When that fails before its answer is heard, nothing has left.
#[tokio::test]
async fn an_answer_of_before_a_refund_failed_takes_nothing_back() {
    for began_before in [true, false] {
        let world = paid_world();
        if began_before {
            store_refund(&world, REFUND_CENTS);
        }
        let here = world.clone();
        let mut provider = MockSettlementProvider::new();
        provider.expect_consult_charge().times(1).returning(move |_| {
            if !began_before {
                store_refund(&here, REFUND_CENTS);
            }
            here.wait_secs(1);
            here.apply(&next(here.refund().fail(here.charge(CHARGE), failure(), here.now()))).unwrap();
            Ok(Some(counting_refunds()))
        });
        let charges = ChargeService::new(world.ports(provider));
        let told = charges.refresh(INTEGRATOR, command().charge_id).await;
        assert_eq!(told.unwrap_err(), ServiceError::ProviderUnavailable, "whoever asked comes again");
        assert_eq!((world.charge(CHARGE).taken_back, world.available()), (Cents::ZERO, funds()));
        // What it says from now on counts.
        let mut provider = MockSettlementProvider::new();
        provider.expect_consult_charge().returning(|_| Ok(Some(counting_refunds())));
        let charges = ChargeService::new(world.ports(provider));
        let (charge, _) = charges.refresh(INTEGRATOR, command().charge_id).await.unwrap();
        assert_eq!((charge.taken_back, world.available()), (cents(REFUND_CENTS), funds() - REFUND_CENTS));
    }
}

#[tokio::test]
async fn the_same_handle_with_the_same_body_finds_the_first_and_sends_nothing() {
    let key = Some(IdempotencyKey::parse("k-1").unwrap());
    for first in [command(), CreateRefund { idempotency_key: key, ..nameless() }] {
        let world = paid_world();
        let service = service(&world, answering(Ok(report(Progress::Accepted))));
        let made = service.create(first.clone()).await.unwrap().into_inner();
        let again = CreateRefund { integrator_status: IntegratorStatus::Suspended, ..first.clone() };
        assert_eq!(service.create(again).await, Ok(Outcome::Replayed(made)));
        // "All that is left" is another body than an amount, whatever it comes to.
        for amount in [None, Some(amount(REFUND_CENTS + 1))] {
            let refused = service.create(CreateRefund { amount, ..first.clone() }).await.unwrap_err();
            let expected = match first.idempotency_key {
                Some(_) => ServiceError::IdempotencyMismatch,
                None => ServiceError::ExternalIdConflict,
            };
            assert_eq!(refused, expected);
        }
    }
}

#[tokio::test]
async fn of_two_at_once_with_one_handle_one_sends_and_both_get_it() {
    let winner = |world: &World| store_refund(world, PAID_CENTS);
    let whole = CreateRefund { amount: Some(amount(PAID_CENTS)), ..command() };
    for beaten in [
        // The store is first to see the doubled name, or the changed charge, or the empty wallet.
        Write::After(Box::new(winner)),
        Write::Beaten(Box::new(winner), ApplyError::Stale),
        Write::Beaten(Box::new(winner), ApplyError::InsufficientFunds),
    ] {
        let world = paid_world();
        world.script([beaten]);
        let made = service(&world, MockSettlementProvider::new()).create(whole.clone()).await;
        assert_eq!(made, Ok(Outcome::Replayed(world.refund())));
        assert_eq!(world.log(), ["apply refund.created"]);
    }
}

#[tokio::test]
async fn without_a_handle_a_second_one_like_a_live_one_is_refused() {
    for (answer, live) in [
        (Err(unavailable()), true),
        (Err(indeterminate()), true),
        (Ok(report(Progress::Accepted)), true),
        (Ok(report(Progress::Completed)), false),
        (Err(rejected()), false),
    ] {
        let world = paid_world();
        let service = service(&world, always(answer));
        let first = service.create(nameless()).await.unwrap().into_inner();
        let twin = service.create(nameless()).await;
        if live {
            assert_eq!(twin, Err(ServiceError::PossibleDuplicate(first.resource())));
            // So is "all that is left", which might mean the same money.
            let all = CreateRefund { amount: None, ..nameless() };
            assert_eq!(service.create(all).await, Err(ServiceError::PossibleDuplicate(first.resource())));
        } else {
            assert!(matches!(twin, Ok(Outcome::Created(_))));
        }
        let other = CreateRefund { amount: Some(amount(REFUND_CENTS + 1)), ..nameless() };
        assert!(matches!(service.create(other).await, Ok(Outcome::Created(_))));
        let named = CreateRefund { external_id: Some(name("another")), ..nameless() };
        assert!(matches!(service.create(named).await, Ok(Outcome::Created(_))), "a handle tells them apart");
    }
}

#[tokio::test]
async fn of_two_at_once_without_a_handle_one_is_refused() {
    let world = paid_world();
    world.script([Write::After(Box::new(|world| store_refund(world, REFUND_CENTS)))]);
    let made = service(&world, MockSettlementProvider::new()).create(nameless()).await;
    assert_eq!(made, Err(ServiceError::PossibleDuplicate(world.refund().resource())));
}

#[tokio::test]
async fn what_cannot_be_refunded_leaves_nothing_behind() {
    let world = paid_world();
    let service = service(&world, always(Ok(report(Progress::Accepted))));
    let suspended = CreateRefund { integrator_status: IntegratorStatus::Suspended, ..command() };
    assert_eq!(service.create(suspended).await, Err(ServiceError::IntegratorSuspended));
    let too_much = CreateRefund { amount: Some(amount(PAID_CENTS + 1)), ..command() };
    assert_eq!(service.create(too_much).await, Err(ServiceError::RefundExceedsPaid));
    let foreign = CreateRefund { integrator_id: OTHER, external_id: Some(name("x")), ..command() };
    assert_eq!(service.create(foreign).await, Err(ServiceError::NotFound));
    let unpaid = charge_state::open(new_charge(77), ticket(), T0);
    world.apply(&unpaid).unwrap();
    world.stored().log.clear();
    let of_unpaid = CreateRefund { charge_id: ChargeId(Uuid::from_u128(77)), ..command() };
    assert!(matches!(service.create(of_unpaid).await, Err(ServiceError::InvalidState(_))));
    assert_eq!((world.log().len(), world.held()), (0, 0));
    let all = CreateRefund { amount: None, external_id: Some(name("all")), ..command() };
    service.create(all.clone()).await.unwrap();
    let nothing_left = CreateRefund { external_id: Some(name("more")), ..all };
    assert_eq!(service.create(nothing_left).await, Err(ServiceError::RefundExceedsPaid));
}

#[tokio::test]
async fn a_wallet_that_was_emptied_meanwhile_pays_for_no_refund() {
    let world = World::new();
    world.paid_charge(CHARGE, PAID_CENTS);
    let mut taken = new_withdrawal(8);
    taken.amount = amount(PAID_CENTS - REFUND_CENTS - FEE_CENTS);
    let held = pix_domain::withdrawals::state::accept(taken, T0, GRACE).unwrap();
    world.apply(&held).unwrap();
    let refused = service(&world, MockSettlementProvider::new()).create(command()).await;
    assert_eq!(refused, Err(ServiceError::InsufficientBalance), "the refund's own fee is not covered");
    assert_eq!(shares(&world), (0, 0));
}

#[tokio::test]
async fn the_window_is_ninety_days_to_the_microsecond() {
    for (waited, open) in [(REFUND_WINDOW, true), (REFUND_WINDOW + Duration::from_micros(1), false)] {
        let world = paid_world();
        world.wait(waited);
        let made = service(&world, always(Ok(report(Progress::Completed)))).create(command()).await;
        assert_eq!(made.is_ok(), open, "{waited:?}");
        if !open {
            assert_eq!(made, Err(ServiceError::RefundWindowClosed));
            assert!(world.log().is_empty());
        }
    }
}

#[tokio::test]
async fn not_known_is_proof_only_past_the_horizon_when_asked_twice_and_never_accepted() {
    type Steps = &'static [fn(Refund, Timestamp) -> Step];
    const LOST: Steps = &[Refund::lose_sight];
    const TAKEN: Steps = &[accept];
    const TAKEN_FOR_LONG: Steps = &[accept, Refund::ask_for_review];
    const SENDING: Steps = &[];
    const NEVER_SENT: Steps = &[Refund::queue];
    let horizon = Some(Duration::from_mins(1));
    for (steps, horizon, waited_secs, attempts, expected) in [
        (LOST, horizon, 80, 2, "failed"),
        (SENDING, horizon, 80, 2, "failed"),
        (LOST, horizon, 79, 2, "uncertain"),
        (LOST, horizon, 80, 1, "uncertain"),
        (LOST, None, 80, 100, "uncertain"),
        (TAKEN, horizon, 80, 100, "accepted"),
        (TAKEN_FOR_LONG, horizon, 80, 100, "needs_review"),
        (NEVER_SENT, horizon, 80, 100, "queued"),
        (SENDING, horizon, 19, 100, "submitting"),
        (SENDING, horizon, 20, 100, "uncertain"),
    ] {
        let world = world_in(steps);
        world.wait_secs(waited_secs);
        let service = service(&world, knowing(Ok(None), horizon));
        if attempts > 1 {
            world.was_not_known(world.refund().resource());
        }
        let (after, _) = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(after.state.name(), expected, "{horizon:?} {waited_secs} {attempts}");
        let failed = expected == "failed";
        assert_eq!(world.held(), if failed { 0 } else { TOTAL_CENTS });
        assert_eq!(shares(&world), (if failed { 0 } else { REFUND_CENTS }, 0));
    }
}

#[tokio::test]
async fn after_65_minutes_an_operator_is_to_look_and_once_is_enough() {
    let world = world_in(&[accept]);
    let service = service(&world, knowing(Ok(Some(report(Progress::Accepted))), None));
    world.wait(NEEDS_REVIEW_AFTER.checked_sub(Duration::from_micros(1)).unwrap());
    let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
    assert_eq!(world.refund().state, OutgoingState::Accepted);
    world.wait(Duration::from_micros(1));
    for _ in 0..3 {
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(world.refund().state, OutgoingState::NeedsReview);
    }
    assert_eq!(world.times("apply refund.needs_review"), 1);
    assert_eq!(world.times("apply refund.accepted"), 0);
}

#[tokio::test]
async fn what_was_not_sent_is_sent_again_until_it_is_too_old_and_then_released() {
    let world = world_in(&[Refund::queue]);
    world.wait(QUEUE_MAX_AGE.checked_sub(Duration::from_micros(1)).unwrap());
    let after = service(&world, answering(Err(unavailable()))).follow_up(INTEGRATOR, id()).await.unwrap();
    assert_eq!(after.state, OutgoingState::Queued);
    world.wait(Duration::from_micros(1));
    let after = service(&world, MockSettlementProvider::new()).follow_up(INTEGRATOR, id()).await.unwrap();
    assert!(matches!(&after.state, OutgoingState::Failed(why) if why.code == "provider_unavailable"));
    assert_eq!((world.held(), world.available(), shares(&world)), (0, funds(), (0, 0)));
}

#[tokio::test]
async fn what_the_provider_has_is_never_sent_again_though_we_thought_it_was_not_sent() {
    for (progress, expected) in
        [(Progress::Accepted, OutgoingState::Accepted), (Progress::Completed, OutgoingState::Completed)]
    {
        let world = world_in(&[Refund::queue]);
        let service = service(&world, knowing(Ok(Some(report(progress))), None));
        let _ = service.refresh(INTEGRATOR, id()).await.unwrap();
        assert_eq!(world.refund().state, expected);
        assert_eq!(world.findings().len(), 1);
        service.follow_up(INTEGRATOR, id()).await.unwrap();
    }
}

#[tokio::test]
async fn an_intent_whose_sender_was_held_up_past_the_grace_is_queued_and_not_sent() {
    let world = paid_world();
    world.script([Write::After(Box::new(|world| world.wait(GRACE + Duration::from_micros(1))))]);
    let made = service(&world, MockSettlementProvider::new()).create(command()).await.unwrap();
    assert_eq!(made.into_inner().state, OutgoingState::Queued);
}

#[tokio::test]
async fn a_refunded_charge_stays_paid() {
    let world = paid_world();
    let all = CreateRefund { amount: None, ..command() };
    service(&world, answering(Ok(report(Progress::Completed)))).create(all).await.unwrap();
    assert_eq!(world.charge(CHARGE).state, ChargeState::Paid);
    assert_eq!(shares(&world), (0, PAID_CENTS));
}
