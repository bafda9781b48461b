//! Callbacks are kept before they are answered, taken up until they led to something, and believed in nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use pix_domain::callbacks::{
    CALLBACK_LEASE, Callback, CallbackEnd, CallbackState, ClaimedCallback, MAX_CALLBACK_ATTEMPTS,
};
use pix_domain::charges::ChargeState;
use pix_domain::evidence::{EvidenceKind, Proof};
use pix_domain::provider::{Progress, ProviderError};
use pix_domain::withdrawals::OutgoingState;
use uuid::Uuid;

use crate::builders::withdrawal_command;
use crate::{Answer, Services, StoreHarness, services, snapshot};

/// The provider calls back about `reference`; what was kept of it, to be worked on.
async fn calls_back(services: &Services, reference: Uuid, body: &str) -> Option<ClaimedCallback> {
    services.callbacks.keep(Some(reference), body.to_owned()).await.expect("a kept callback")
}

/// Keeps a callback and works on it; where it stands then.
async fn called_back(services: &Services, reference: Uuid, body: &str) -> CallbackState {
    let claimed = calls_back(services, reference, body).await.expect("a new callback");
    let id = claimed.callback.id;
    services.callbacks.process(claimed).await.expect("a processed callback");
    stands(services, id).await.0
}

async fn stands(services: &Services, id: Uuid) -> (CallbackState, u32) {
    let found = services.stores.domain.callbacks.look_up(id).await.expect("a look");
    found.expect("a kept callback")
}

/// Takes up what is due and works on it; how many it was.
async fn round(services: &Services) -> usize {
    let claimed = services.callbacks.claim(100).await.expect("a claim");
    let count = claimed.len();
    for callback in claimed {
        services.callbacks.process(callback).await.expect("a processed callback");
    }
    count
}

const LEARNT: CallbackState = CallbackState::Ended(CallbackEnd::Learnt);

/// What a callback claims is not believed: the provider is asked, and each payment is credited once.
pub async fn a_callback_leads_to_a_question_and_not_to_money(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 5_000).await;
    // Where nothing is new the provider is asked once more: its answer may be older than what is called back about.
    let state = called_back(&services, charge.id.0, r#"{"forged":"paid"}"#).await;
    assert!(matches!(state, CallbackState::Waiting(at) if at <= services.now().plus(Duration::from_secs(5))));
    services.wait(Duration::from_secs(5));
    assert_eq!(round(&services).await, 1);
    assert_eq!(services.balances(integrator_id).await, (0, 0));
    services.wait(Duration::from_hours(1));
    assert_eq!(round(&services).await, 0);
    services.provider.receives(charge.id.0, services.payment(5_000));
    assert_eq!(called_back(&services, charge.id.0, "1").await, LEARNT);
    // So where it is paid.
    for body in ["2", "3"] {
        let state = called_back(&services, charge.id.0, body).await;
        assert!(matches!(state, CallbackState::Waiting(_)));
        assert_eq!(services.balances(integrator_id).await, (5_000, 0));
    }
    services.provider.receives(charge.id.0, services.payment(700));
    services.wait(Duration::from_secs(5));
    assert_eq!(round(&services).await, 2);
    assert_eq!(services.balances(integrator_id).await, (5_700, 0));
    services.wait(Duration::from_hours(1));
    assert_eq!(round(&services).await, 0);
}

/// A provider that calls back before its own answers tell of it: the payment is known within seconds, also when our own
/// clock says meanwhile that the charge's time is over.
pub async fn an_answer_older_than_its_callback_is_asked_for_again(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let mut credited = 0;
    for is_over in [false, true] {
        let charge = services.charge(integrator_id, 5_000).await;
        if is_over {
            services.clock.set(charge.expires_at);
        }
        let state = called_back(&services, charge.id.0, "{}").await;
        assert!(matches!(state, CallbackState::Waiting(_)), "{state:?}");
        services.provider.receives(charge.id.0, services.payment(5_000));
        services.wait(Duration::from_secs(5));
        assert_eq!(round(&services).await, 1);
        credited += 5_000;
        assert_eq!(services.balances(integrator_id).await, (credited, 0));
    }
}

/// A callback that says what a waiting one says is not kept again; once that has ended, it is.
pub async fn a_repeated_callback_waits_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 5_000).await;
    let first = calls_back(&services, charge.id.0, "{}").await.expect("the first");
    for _ in 0..3 {
        assert_eq!(calls_back(&services, charge.id.0, "{}").await, None);
    }
    assert!(calls_back(&services, charge.id.0, "{ }").await.is_some());
    // Whoever worked on it may have asked before the repetitions came: it goes on waiting.
    services.callbacks.process(first.clone()).await.expect("a processed callback");
    let later = first.until.plus(Duration::from_micros(3));
    assert_eq!(stands(&services, first.callback.id).await, (CallbackState::Waiting(later), 1));
    services.clock.set(later);
    assert_eq!(round(&services).await, 2);
    assert_eq!(stands(&services, first.callback.id).await, (LEARNT, 2));
    assert!(calls_back(&services, charge.id.0, "{}").await.is_some());
}

/// Who died before working on a callback left it to the next one, and one who comes back late changes nothing.
pub async fn a_callback_outlives_whoever_took_it_up(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 5_000).await;
    services.provider.receives(charge.id.0, services.payment(5_000));
    let lost = calls_back(&services, charge.id.0, "{}").await.expect("a callback");
    assert_eq!(stands(&services, lost.callback.id).await, (CallbackState::Waiting(lost.until), 1));
    assert_eq!(round(&services).await, 0, "its lease has not ended");
    services.wait(CALLBACK_LEASE);
    let again = services.callbacks.claim(100).await.expect("a claim");
    assert_eq!((again.len(), again[0].attempts, &again[0].callback), (1, 2, &lost.callback));
    let store = &services.stores.domain.callbacks;
    store.put(&lost, CallbackState::Ended(CallbackEnd::GivenUp)).await.expect("nothing");
    assert_eq!(stands(&services, lost.callback.id).await, (CallbackState::Waiting(again[0].until), 2));
    services.callbacks.process(again[0].clone()).await.expect("a processed callback");
    assert_eq!(stands(&services, lost.callback.id).await, (LEARNT, 2));
    assert_eq!(services.balances(integrator_id).await, (5_000, 0));
}

/// A callback that overtook our own record, or came while the provider couldn't be asked, is looked at again.
pub async fn an_early_callback_is_looked_at_again(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let intent = services.withdrawal_intent(integrator_id, 4_000);
    let withdrawal = intent.withdrawal().cloned().expect("a withdrawal");
    let state = called_back(&services, withdrawal.id.0, "{}").await;
    assert!(matches!(state, CallbackState::Waiting(at) if at <= services.now().plus(Duration::from_secs(5))));
    services.apply(intent).await;
    services.provider.questions_fail(Some(ProviderError::Unavailable("x".into())));
    services.wait(Duration::from_secs(5));
    assert_eq!(round(&services).await, 1);
    services.provider.questions_fail(None);
    services.provider.knows(withdrawal.id.0, Progress::Completed);
    services.wait(Duration::from_secs(15));
    assert_eq!(round(&services).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Completed);
    services.wait(Duration::from_hours(1));
    assert_eq!(round(&services).await, 0, "it led to an answer");
}

/// What names nothing of ours is given up after a while, and what names nothing at all at once; both are kept.
pub async fn what_leads_nowhere_is_given_up(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    services.integrator().await;
    let before = snapshot(&services.stores).await;
    let stranger = calls_back(&services, services.id(), "{}").await.expect("a callback");
    services.callbacks.process(stranger.clone()).await.expect("a processed callback");
    let mut rounds = 0;
    while matches!(stands(&services, stranger.callback.id).await.0, CallbackState::Waiting(_)) {
        services.wait(Duration::from_mins(15));
        assert_eq!(round(&services).await, 1);
        rounds += 1;
    }
    let unmatched = CallbackState::Ended(CallbackEnd::Unmatched);
    assert_eq!(stands(&services, stranger.callback.id).await, (unmatched, MAX_CALLBACK_ATTEMPTS));
    assert_eq!(rounds, MAX_CALLBACK_ATTEMPTS - 1);
    assert_eq!(services.callbacks.keep(None, "junk".into()).await, Ok(None));
    services.wait(Duration::from_hours(24));
    assert_eq!(round(&services).await, 0);
    assert_eq!(snapshot(&services.stores).await, before);
    assert_eq!(services.callbacks.forget(Duration::from_hours(48), 10).await, Ok(0), "not old enough");
    assert_eq!(services.callbacks.forget(Duration::from_hours(1), 1).await, Ok(1));
    assert_eq!(services.callbacks.forget(Duration::from_hours(1), 10).await, Ok(1));
    assert_eq!(services.stores.domain.callbacks.look_up(stranger.callback.id).await, Ok(None));
}

/// A callback about an outgoing movement is evidence that it came, and of nothing else.
pub async fn a_callback_is_evidence_of_itself(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::LostAnswer);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 4_000)).await;
    let withdrawal = created.expect("a withdrawal").into_inner();
    assert_eq!(called_back(&services, withdrawal.id.0, r#"{"name":"Ana"}"#).await, LEARNT);
    let seen = services.transactions.evidence(withdrawal.resource()).await.expect("evidence");
    let of_callback: Vec<_> = seen.iter().filter(|seen| seen.kind == EvidenceKind::Callback).collect();
    assert_eq!(of_callback.len(), 1);
    assert!(of_callback[0].proof == Proof::Nothing && !of_callback[0].detail.contains("Ana"));
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Completed);

    // Of what was sent a moment ago it is kept with what it leads to.
    services.provider.answers_next(Answer::Accept);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 1_000)).await;
    let withdrawal = created.expect("a withdrawal").into_inner();
    services.provider.knows(withdrawal.id.0, Progress::Completed);
    assert_eq!(called_back(&services, withdrawal.id.0, "{}").await, LEARNT);
    let seen = services.transactions.evidence(withdrawal.resource()).await.expect("evidence");
    let kinds: Vec<_> = seen.iter().map(|seen| seen.kind).collect();
    let told = [EvidenceKind::Callback, EvidenceKind::Consult];
    assert_eq!(kinds, [[EvidenceKind::Attempt, EvidenceKind::Answer], told].concat());
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Completed);

    // So it is when whoever took it in died before working on it; and it is kept once, however often it is worked on.
    services.provider.answers_next(Answer::LostAnswer);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 3_000)).await;
    let withdrawal = created.expect("a withdrawal").into_inner();
    calls_back(&services, withdrawal.id.0, "{}").await.expect("a callback");
    services.provider.questions_fail(Some(ProviderError::Unavailable("x".into())));
    for _ in 0..2 {
        services.wait(CALLBACK_LEASE);
        assert_eq!(round(&services).await, 1);
        let seen = services.transactions.evidence(withdrawal.resource()).await.expect("evidence");
        assert_eq!(seen.iter().filter(|seen| seen.kind == EvidenceKind::Callback).count(), 1);
    }
}

/// Two that take up callbacks at once never get the same one; together they get all, whatever is waiting.
pub async fn two_workers_never_take_up_the_same(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let store = services.stores.domain.callbacks.clone();
    let mut kept = BTreeSet::new();
    for number in 0..60 {
        let callback = Callback {
            id: services.id(),
            received_at: services.now(),
            reference: Some(services.id()),
            body: format!("{number}"),
        };
        kept.insert(callback.id);
        assert_eq!(store.keep(callback, CallbackState::Waiting(services.now())).await, Ok(true));
    }
    let workers = (0..8).map(|_| {
        let services = services.clone();
        tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let batch = services.callbacks.claim(7).await.expect("a claim");
                if batch.is_empty() {
                    return taken;
                }
                taken.extend(batch);
                tokio::task::yield_now().await;
            }
        })
    });
    let mut taken = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        taken.extend(worker.await.expect("a worker"));
    }
    assert_eq!(taken.len(), 60);
    assert_eq!(taken.iter().map(|claimed| claimed.callback.id).collect::<BTreeSet<_>>(), kept);
    assert!(taken.iter().all(|claimed| claimed.attempts == 2));
}

/// A payment that a callback tells of after the end of its charge is credited as any.
pub async fn a_callback_after_the_end_is_credited(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 5_000).await;
    services.wait(pix_domain::charges::DEFAULT_EXPIRES_IN);
    services.reconciler.run_once().await.expect("a round");
    let expired = services.charges.get(integrator_id, charge.id).await.expect("the charge");
    assert_eq!(expired.state, ChargeState::Expired);
    services.provider.receives(charge.id.0, services.payment(5_000));
    assert_eq!(called_back(&services, charge.id.0, "{}").await, LEARNT);
    assert_eq!(services.balances(integrator_id).await, (5_000, 0));
}
