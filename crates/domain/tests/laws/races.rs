//! Two that work on one record at once: the request that sends, the worker that asks, and the answers that come late.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pix_domain::error::{ApplyError, StoreError};
use pix_domain::provider::{MockSettlementProvider, OutgoingReport, Progress, ProviderError, Reference};
use pix_domain::refunds::service::RefundService;
use pix_domain::schedule::NEEDS_REVIEW_AFTER;
use pix_domain::time::Timestamp;
use pix_domain::transactions::TransactionService;
use pix_domain::transition::Step;
use pix_domain::withdrawals::service::WithdrawalService;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};
use proptest::prelude::*;

use crate::samples::*;
use crate::withdrawals::{FUNDS_CENTS, command, world_in};
use crate::world::{World, Write};

const TOTAL_CENTS: i64 = 1_000 + FEE_CENTS;

/// A provider whose one `send_payment` takes so long that this happens meanwhile.
fn sending(
    world: &World,
    meanwhile: impl Fn(&World) + Send + Sync + 'static,
    answer: Result<OutgoingReport, ProviderError>,
) -> MockSettlementProvider {
    let (world, mut provider) = (world.clone(), MockSettlementProvider::new());
    provider.expect_send_payment().times(1).returning(move |_| {
        meanwhile(&world);
        answer.clone()
    });
    provider
}

fn advance(world: &World, step: impl FnOnce(Withdrawal) -> Step) {
    world.apply(&next(step(world.withdrawal()))).unwrap();
}

#[tokio::test]
async fn whose_queueing_was_answered_late_does_not_put_back_what_another_is_sending() {
    let world = World::with_available(FUNDS_CENTS);
    // "It was not sent" is stored and its answer lost; before anybody notices, a worker has begun to send it again.
    world.script([
        Write::Done,
        Write::Lost(Box::new(|world| {
            world.wait_secs(6);
            advance(world, |withdrawal| withdrawal.submit(world.now(), GRACE));
        })),
    ]);
    let service = WithdrawalService::new(world.ports(sending(&world, |_| (), Err(unavailable()))));
    service.create(command()).await.unwrap();
    assert_eq!(world.withdrawal().state, OutgoingState::Submitting, "queued, it would be sent a second time");
    assert_eq!(world.times("apply withdrawal.queued"), 1);
}

#[tokio::test]
async fn whose_queueing_of_a_refund_was_answered_late_does_not_put_it_back_either() {
    let world = crate::refunds::paid_world();
    world.script([
        Write::Done,
        Write::Lost(Box::new(|world| {
            world.wait_secs(6);
            world.apply(&next(world.refund().submit(world.now(), GRACE))).unwrap();
        })),
    ]);
    let mut provider = MockSettlementProvider::new();
    provider.expect_refund().times(1).returning(|_| Err(unavailable()));
    RefundService::new(world.ports(provider)).create(crate::refunds::command()).await.unwrap();
    assert_eq!(world.refund().state, OutgoingState::Submitting);
}

#[tokio::test]
async fn an_intent_that_others_went_on_with_is_not_sent_any_more() {
    let world = World::with_available(FUNDS_CENTS);
    world.script([Write::Lost(Box::new(|world| {
        advance(world, |withdrawal| withdrawal.lose_sight(world.now()));
    }))]);
    let made = WithdrawalService::new(world.ports(MockSettlementProvider::new())).create(command()).await;
    assert_eq!(made.unwrap().into_inner().state, OutgoingState::Uncertain);

    let world = crate::refunds::paid_world();
    world.script([Write::Lost(Box::new(|world| {
        world.apply(&next(world.refund().lose_sight(world.now()))).unwrap();
    }))]);
    let made = RefundService::new(world.ports(MockSettlementProvider::new()));
    let made = made.create(crate::refunds::command()).await;
    assert_eq!(made.unwrap().into_inner().state, OutgoingState::Uncertain);
}

#[tokio::test]
async fn not_known_proves_nothing_of_what_was_learnt_while_asking() {
    type Meanwhile = fn(&World);
    let accepted_and_old: Meanwhile = |world| {
        advance(world, |withdrawal| withdrawal.accepted(report(Progress::Accepted), world.now()));
        advance(world, |withdrawal| withdrawal.ask_for_review(world.now()));
    };
    let sent_again: Meanwhile = |world| {
        advance(world, |withdrawal| withdrawal.queue(world.now()));
        advance(world, |withdrawal| withdrawal.submit(world.now(), GRACE));
    };
    let lost: fn(Withdrawal, Timestamp) -> Step = Withdrawal::lose_sight;
    for (steps, meanwhile, expected) in [
        (vec![lost], accepted_and_old, OutgoingState::NeedsReview),
        (vec![], sent_again, OutgoingState::Submitting),
    ] {
        let world = world_in(&steps);
        world.wait_secs(600);
        let (here, mut provider) = (world.clone(), MockSettlementProvider::new());
        provider.expect_consult_payment().times(1).returning(move |_| {
            meanwhile(&here);
            Ok(None)
        });
        provider.expect_not_found_is_proof_after().returning(|| Some(Duration::from_mins(1)));
        let service = WithdrawalService::new(world.ports(provider));
        world.was_not_known(world.withdrawal().resource());
        let _ = service.refresh(INTEGRATOR, world.withdrawal().id).await.unwrap();
        assert_eq!(world.withdrawal().state, expected);
        assert_eq!(world.held(), TOTAL_CENTS);
    }
}

#[tokio::test]
async fn a_late_answer_of_the_call_is_weighed_against_what_the_worker_found_out() {
    type Meanwhile = fn(&World);
    let lost: Meanwhile = |world| advance(world, |it| it.lose_sight(world.now()));
    let done: Meanwhile = |world| {
        advance(world, |it| it.complete(report(Progress::Completed), world.now()));
    };
    let failed: Meanwhile = |world| advance(world, |it| it.fail(failure(), world.now()));
    let yes = || Ok(report(Progress::Completed));
    for (meanwhile, answer, expected, held, finding) in [
        (lost, yes(), "completed", 0, None),
        (lost, Ok(report(Progress::Accepted)), "accepted", TOTAL_CENTS, None),
        (lost, Err(rejected()), "failed", 0, None),
        (lost, Err(unavailable()), "queued", TOTAL_CENTS, None),
        (lost, Err(indeterminate()), "uncertain", TOTAL_CENTS, None),
        (done, yes(), "completed", 0, None),
        (done, Err(indeterminate()), "completed", 0, None),
        (done, Err(unavailable()), "completed", 0, None),
        (done, Err(rejected()), "completed", 0, Some("failed_though_completed")),
        (failed, yes(), "failed", 0, Some("completed_though_not_sent")),
        (failed, Ok(report(Progress::Accepted)), "failed", 0, Some("accepted_though_not_sent")),
        (failed, Err(indeterminate()), "failed", 0, None),
    ] {
        let world = World::with_available(FUNDS_CENTS);
        let provider = sending(&world, meanwhile, answer);
        WithdrawalService::new(world.ports(provider)).create(command()).await.unwrap();
        assert_eq!(world.withdrawal().state.name(), expected);
        assert_eq!((world.held(), world.findings()), (held, finding.into_iter().collect::<Vec<_>>()));
    }
}

#[tokio::test]
async fn of_two_workers_with_one_queued_withdrawal_one_sends_it() {
    let world = world_in(&[Withdrawal::queue]);
    let id = world.withdrawal().id;
    // The other one takes it between this one's reading and writing.
    world.script([Write::After(Box::new(|world| {
        advance(world, |withdrawal| withdrawal.submit(world.now(), GRACE));
    }))]);
    let service = WithdrawalService::new(world.ports(MockSettlementProvider::new()));
    service.follow_up(INTEGRATOR, id).await.unwrap();
    assert_eq!(world.withdrawal().state, OutgoingState::Submitting);
}

#[tokio::test]
async fn a_worker_that_slept_through_its_lease_asks_and_does_not_send() {
    let world = world_in(&[Withdrawal::queue, |it, now| it.submit(now, GRACE)]);
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_payment().times(1).returning(|_| Ok(None));
    provider.expect_not_found_is_proof_after().returning(|| Some(Duration::ZERO));
    let service = WithdrawalService::new(world.ports(provider));
    service.follow_up(INTEGRATOR, world.withdrawal().id).await.unwrap();
    assert_eq!(world.withdrawal().state, OutgoingState::Submitting, "it is on its way");
}

/// What really happens at the provider to one call, and what we hear of it.
#[derive(Debug, Clone, Copy)]
enum Fate {
    DoneAndTold,
    DoneAndAccepted,
    DoneAndNotTold,
    RefusedAndTold,
    NotDoneAndNotTold,
    NotReached,
}

/// What happens to one write.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    Lost,
    Unknown,
    Stale,
    Down,
}

impl Fault {
    fn write(self) -> Write {
        let refused = |error| Write::Refused(ApplyError::Store(error));
        match self {
            Self::None => Write::Done,
            Self::Lost => Write::Lost(Box::new(|_| ())),
            Self::Unknown => refused(StoreError::Unknown("connection lost".into())),
            Self::Stale => Write::Refused(ApplyError::Stale),
            Self::Down => refused(StoreError::Unavailable("no connection".into())),
        }
    }
}

/// A provider that remembers what it did.
#[derive(Default)]
struct Truth {
    /// How often each payment was really made.
    made: BTreeMap<u128, u32>,
    fates: Vec<Fate>,
    /// Whether it can be asked, per question; then always.
    answers: Vec<bool>,
}

impl Truth {
    fn send(&mut self, reference: Reference) -> Result<OutgoingReport, ProviderError> {
        let fate = self.fates.pop().unwrap_or(Fate::DoneAndTold);
        if matches!(fate, Fate::DoneAndTold | Fate::DoneAndAccepted | Fate::DoneAndNotTold) {
            *self.made.entry(reference.0.as_u128()).or_default() += 1;
        }
        match fate {
            Fate::DoneAndTold => Ok(report(Progress::Completed)),
            Fate::DoneAndAccepted => Ok(report(Progress::Accepted)),
            Fate::DoneAndNotTold | Fate::NotDoneAndNotTold => Err(indeterminate()),
            Fate::RefusedAndTold => Err(rejected()),
            Fate::NotReached => Err(unavailable()),
        }
    }

    fn consult(&mut self, reference: Reference) -> Result<Option<OutgoingReport>, ProviderError> {
        if !self.answers.pop().unwrap_or(true) {
            return Err(unavailable());
        }
        let made = self.made.contains_key(&reference.0.as_u128());
        Ok(made.then(|| report(Progress::Completed)))
    }
}

fn provider_of(truth: &Arc<Mutex<Truth>>) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    let here = truth.clone();
    provider.expect_send_payment().returning(move |order| here.lock().unwrap().send(order.reference));
    let here = truth.clone();
    provider.expect_consult_payment().returning(move |asked| here.lock().unwrap().consult(asked.reference));
    provider.expect_not_found_is_proof_after().returning(|| Some(Duration::from_mins(1)));
    provider
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::DoneAndTold),
        Just(Fate::DoneAndAccepted),
        Just(Fate::DoneAndNotTold),
        Just(Fate::RefusedAndTold),
        Just(Fate::NotDoneAndNotTold),
        Just(Fate::NotReached),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Lost),
        1 => Just(Fault::Unknown),
        1 => Just(Fault::Stale),
        1 => Just(Fault::Down),
    ]
}

/// Enough follow-ups, at their times, for every withdrawal to end.
const ROUNDS: u32 = 400;

async fn run(
    fates: Vec<Fate>,
    faults: Vec<Fault>,
    answers: Vec<bool>,
    waits_secs: Vec<u64>,
) -> (World, Arc<Mutex<Truth>>) {
    let world = World::with_available(FUNDS_CENTS);
    let truth = Arc::new(Mutex::new(Truth { fates, answers, ..Truth::default() }));
    let ports = world.ports(provider_of(&truth));
    world.script(faults.into_iter().map(Fault::write));
    // The client asks again, with the same name, until it gets an answer.
    let service = WithdrawalService::new(ports.clone());
    while service.create(command()).await.is_err() {}
    let worker = TransactionService::new(ports);
    let (mut waits, mut attempts, mut version) = (waits_secs.into_iter(), 0, 0);
    for _ in 0..ROUNDS {
        let withdrawal = world.withdrawal();
        if withdrawal.state.is_final() {
            break;
        }
        attempts = if withdrawal.version.0 == version { attempts + 1 } else { 1 };
        version = withdrawal.version.0;
        let resource = withdrawal.resource();
        let due = world.stored().follow_ups[&resource];
        world.wait(due.since(world.now()));
        world.wait_secs(waits.next().unwrap_or(0));
        let _ = worker.follow_up(world.claimed(resource, attempts)).await;
    }
    (world, truth)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_fails_money_is_sent_at_most_once_and_the_books_say_what_happened(
        fates in prop::collection::vec(fate(), 0..6),
        faults in prop::collection::vec(fault(), 0..16),
        answers in prop::collection::vec(any::<bool>(), 0..6),
        waits_secs in prop::collection::vec(0..400_u64, 0..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (world, truth) = runtime.block_on(run(fates, faults, answers, waits_secs));
        let made = truth.lock().unwrap().made.values().copied().collect::<Vec<_>>();
        prop_assert!(made.len() <= 1 && made.iter().all(|times| *times == 1), "sent {made:?} times");
        let withdrawal = world.withdrawal();
        prop_assert!(withdrawal.state.is_final(), "{} for ever", withdrawal.state.name());
        let sent = made.len() == 1;
        prop_assert_eq!(withdrawal.state == OutgoingState::Completed, sent);
        let left = if sent { FUNDS_CENTS - TOTAL_CENTS } else { FUNDS_CENTS };
        prop_assert_eq!((world.available(), world.held()), (left, 0));
        prop_assert!(world.findings().is_empty());
    }
}

#[tokio::test]
async fn a_withdrawal_that_is_never_explained_is_held_for_ever() {
    let world = world_in(&[Withdrawal::lose_sight]);
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_payment().returning(|_| Ok(None));
    provider.expect_not_found_is_proof_after().returning(|| None);
    let worker = TransactionService::new(world.ports(provider));
    let resource = world.withdrawal().resource();
    for attempts in 1..50 {
        world.wait(NEEDS_REVIEW_AFTER);
        worker.follow_up(world.claimed(resource, attempts)).await.unwrap();
    }
    assert_eq!(world.withdrawal().state, OutgoingState::NeedsReview);
    assert_eq!(world.held(), TOTAL_CENTS);
    assert!(world.stored().follow_ups.contains_key(&resource), "and asked about for ever");
}
