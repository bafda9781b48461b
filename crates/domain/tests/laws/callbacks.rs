//! A callback about money that goes out is evidence: kept with what it leads to where nobody may decide by its absence, and
//! before the question everywhere else.

use std::sync::Arc;

use pix_domain::callbacks::{CALLBACK_LEASE, Callback, CallbackService, ClaimedCallback, MockCallbackStore};
use pix_domain::error::{ApplyError, ServiceError, StoreError};
use pix_domain::evidence::{EvidenceKind, Proof};
use pix_domain::follow_up::MockLookupStore;
use pix_domain::ids::ResourceRef;
use pix_domain::provider::{MockSettlementProvider, OutgoingReport, Progress, ProviderError};
use pix_domain::refunds::Refund;
use pix_domain::time::Timestamp;
use pix_domain::transition::Step;
use pix_domain::withdrawals::Withdrawal;
use uuid::Uuid;

use crate::samples::*;
use crate::world::{World, Write};
use crate::{refunds, withdrawals};

type Answer = Result<Option<OutgoingReport>, ProviderError>;

/// A record that is being sent, and what its completion is called.
type Scene = (World, ResourceRef, &'static str);

const CALLED: &str = "apply evidence";
const ASKED: &str = "ask";

/// The provider calls back, and says `answer` when it is asked; the callback is taken up for the `attempts`th time.
async fn called_back(
    world: &World,
    resource: ResourceRef,
    answer: Answer,
    attempts: u32,
) -> Result<(), ServiceError> {
    let mut provider = MockSettlementProvider::new();
    let (here, said) = (world.clone(), answer.clone());
    provider.expect_consult_payment().returning(move |_| {
        here.note(ASKED);
        here.wait_secs(1);
        said.clone()
    });
    let here = world.clone();
    provider.expect_consult_refund().returning(move |_| {
        here.note(ASKED);
        here.wait_secs(1);
        answer.clone()
    });
    provider.expect_not_found_is_proof_after().returning(|| None);
    let mut ports = world.ports(provider);
    let mut lookups = MockLookupStore::new();
    lookups.expect_locate().returning(move |_| Ok(Some(resource)));
    ports.stores.lookups = Arc::new(lookups);
    let mut callbacks = MockCallbackStore::new();
    callbacks.expect_put().returning(|_, _| Ok(()));
    ports.stores.callbacks = Arc::new(callbacks);
    let (id, received_at) = (Uuid::from_u128(0xCA11), world.now());
    let callback = Callback { id, received_at, reference: Some(resource.id), body: "{}".into() };
    let claimed = ClaimedCallback { callback, attempts, until: received_at.plus(CALLBACK_LEASE) };
    CallbackService::new(ports).process(claimed).await
}

fn completed() -> OutgoingReport {
    report(Progress::Completed)
}

fn withdrawal(steps: &[fn(Withdrawal, Timestamp) -> Step]) -> Scene {
    let world = withdrawals::world_in(steps);
    let resource = world.withdrawal().resource();
    (world, resource, "apply withdrawal.completed")
}

fn refund(steps: &[fn(Refund, Timestamp) -> Step]) -> Scene {
    let world = refunds::world_in(steps);
    let resource = world.refund().resource();
    (world, resource, "apply refund.completed")
}

/// One of each kind, being sent, and one of each that the provider has taken.
fn scenes() -> [Scene; 4] {
    [
        withdrawal(&[]),
        withdrawal(&[|withdrawal, now| withdrawal.accepted(report(Progress::Accepted), now)]),
        refund(&[]),
        refund(&[|refund, now| refund.accepted(report(Progress::Accepted), now)]),
    ]
}

/// The kinds of what was seen, in the order in which a store lists them. A callback proves nothing, and is known by what it said.
fn seen(world: &World) -> Vec<EvidenceKind> {
    let mut evidence = world.stored().evidence.clone();
    for callback in evidence.iter().filter(|evidence| evidence.kind == EvidenceKind::Callback) {
        assert_eq!(callback.proof, Proof::Nothing);
        assert!(callback.detail.starts_with("2 bytes, digest "), "{}", callback.detail);
    }
    evidence.sort_by_key(|evidence| (evidence.at, evidence.id));
    evidence.into_iter().map(|evidence| evidence.kind).collect()
}

#[tokio::test]
async fn what_was_just_sent_ends_by_one_commit_that_has_the_callback_too() {
    for (world, resource, done) in scenes() {
        world.wait_secs(GRACE.as_secs() - 1);
        called_back(&world, resource, Ok(Some(completed())), 1).await.unwrap();
        assert_eq!(world.log(), [ASKED, done]);
        assert_eq!(seen(&world), [EvidenceKind::Callback, EvidenceKind::Consult]);
    }
}

#[tokio::test]
async fn a_callback_is_kept_before_the_question_where_its_absence_may_count() {
    // Somebody who had it died, and may have asked already.
    for (world, resource, done) in scenes() {
        called_back(&world, resource, Ok(Some(completed())), 2).await.unwrap();
        assert_eq!(world.log(), [CALLED, ASKED, done]);
    }
    // It was sent so long ago that "not known" may be proof.
    for (world, resource, done) in scenes() {
        world.wait(GRACE);
        called_back(&world, resource, Ok(Some(completed())), 1).await.unwrap();
        assert_eq!(world.log(), [CALLED, ASKED, done]);
    }
    // Nobody knows how long ago that was.
    for (world, resource, done) in scenes() {
        world.stored().is_clock_wrong = true;
        called_back(&world, resource, Ok(Some(completed())), 1).await.unwrap();
        assert_eq!(world.log(), [CALLED, ASKED, done]);
    }
    let doubtful = [
        withdrawal(&[Withdrawal::lose_sight]),
        withdrawal(&[Withdrawal::ask_for_review]),
        withdrawal(&[Withdrawal::queue]),
        refund(&[Refund::lose_sight]),
        refund(&[Refund::ask_for_review]),
    ];
    for (world, resource, done) in doubtful {
        called_back(&world, resource, Ok(Some(completed())), 1).await.unwrap();
        assert_eq!(world.log(), [CALLED, ASKED, done]);
        assert_eq!(seen(&world), [EvidenceKind::Callback, EvidenceKind::Consult]);
    }
}

#[tokio::test]
async fn a_callback_that_leads_to_nothing_is_kept_after_the_question() {
    let answers =
        [Ok(None), Err(ProviderError::Unavailable("x".into())), Err(ProviderError::Mismatch("amount"))];
    for answer in answers {
        for (world, resource, _) in scenes() {
            called_back(&world, resource, answer.clone(), 1).await.unwrap();
            assert_eq!(world.log()[..3], [ASKED, CALLED, CALLED], "{answer:?}");
            assert_eq!(seen(&world), [EvidenceKind::Callback, EvidenceKind::Consult], "{answer:?}");
        }
    }
    // Nothing that wasn't known.
    let [_, (world, resource, _), ..] = scenes();
    called_back(&world, resource, Ok(Some(report(Progress::Accepted))), 1).await.unwrap();
    assert_eq!(world.log(), [ASKED, CALLED, CALLED]);
}

#[tokio::test]
async fn a_callback_is_kept_once_whoever_comes_first_and_whatever_is_lost() {
    for (world, resource, done) in scenes() {
        let complete = move |world: &World| called_back_elsewhere(world, resource);
        world.script([Write::Beaten(Box::new(complete), ApplyError::Stale)]);
        called_back(&world, resource, Ok(Some(completed())), 1).await.unwrap();
        // What is final has no other evidence than that the provider called back.
        assert_eq!(seen(&world), [EvidenceKind::Callback], "{:?}", world.log());
        assert_eq!(world.times(done), 1);
    }
    for (world, resource, done) in scenes() {
        world.script([Write::Lost(Box::new(|_| {}))]);
        called_back(&world, resource, Ok(Some(completed())), 1).await.unwrap();
        assert_eq!(seen(&world), [EvidenceKind::Callback, EvidenceKind::Consult], "{:?}", world.log());
        assert_eq!(world.times(done), 1);
    }
    for (world, resource, done) in scenes() {
        world.script([Write::Refused(ApplyError::Stale)]);
        called_back(&world, resource, Ok(Some(completed())), 1).await.unwrap();
        assert_eq!(world.log(), [ASKED, done]);
        assert_eq!(seen(&world), [EvidenceKind::Callback, EvidenceKind::Consult]);
    }
}

/// Somebody else has learnt that it is done.
fn called_back_elsewhere(world: &World, resource: ResourceRef) {
    let (now, done) = (world.now(), report(Progress::Completed));
    let step = if world.stored().book.withdrawals.iter().any(|one| one.resource() == resource) {
        world.withdrawal().complete(done, now)
    } else {
        world.refund().complete(world.charge(refunds::CHARGE), done, now)
    };
    world.apply(&next(step)).unwrap();
}

#[tokio::test]
async fn a_callback_that_could_not_be_kept_is_kept_when_it_is_taken_up_again() {
    for (world, resource, done) in scenes() {
        world.script([Write::Refused(ApplyError::Store(StoreError::Unavailable("away".into())))]);
        assert!(called_back(&world, resource, Ok(Some(completed())), 1).await.is_err());
        assert_eq!(seen(&world), []);
        called_back(&world, resource, Ok(Some(completed())), 2).await.unwrap();
        assert_eq!(world.log(), [ASKED, CALLED, ASKED, done]);
        assert_eq!(seen(&world), [EvidenceKind::Callback, EvidenceKind::Consult]);
    }
}
