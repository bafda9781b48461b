//! What is due, and who takes it.

use std::collections::BTreeSet;
use std::time::Duration;

use pix_domain::follow_up::FollowUp;
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::time::Timestamp;
use pix_domain::transition::Transition;

use crate::builders::next;
use crate::{Services, StoreHarness, services};

const LEASE: Duration = Duration::from_mins(1);

/// A live charge that is to be asked about at that time.
async fn due_at(services: &Services, integrator_id: IntegratorId, at: Option<Timestamp>) -> Transition {
    let mut intent = services.charge_intent(integrator_id);
    intent.writes[0].follow_up = at;
    services.apply(intent.clone()).await;
    intent
}

fn resource(transition: &Transition) -> ResourceRef {
    transition.writes[0].record.resource()
}

async fn claim(services: &Services, limit: u32) -> Vec<FollowUp> {
    services.stores.domain.follow_ups.claim(services.now(), LEASE, limit).await.expect("a claim")
}

fn first_time(due: &[&Transition]) -> Vec<FollowUp> {
    due.iter().map(|transition| FollowUp { resource: resource(transition), attempts: 1 }).collect()
}

/// Due ones, whosever they are, most overdue first, as many as asked for.
pub async fn the_most_overdue_are_claimed_first(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (one, other) = (services.integrator().await, services.integrator().await);
    let in_seconds = |seconds| Some(services.now().plus(Duration::from_secs(seconds)));
    let third = due_at(&services, one, in_seconds(30)).await;
    let first = due_at(&services, other, in_seconds(10)).await;
    let second = due_at(&services, one, in_seconds(20)).await;
    due_at(&services, one, None).await;
    let later = due_at(&services, other, in_seconds(40)).await;
    assert_eq!(claim(&services, 9).await, []);
    services.wait(Duration::from_secs(30));
    assert_eq!(claim(&services, 2).await, first_time(&[&first, &second]));
    assert_eq!(claim(&services, 9).await, first_time(&[&third]));
    assert_eq!(claim(&services, 9).await, []);
    services.wait(Duration::from_secs(10));
    assert_eq!(claim(&services, 9).await, first_time(&[&later]));
}

/// A claim hides for its lease and counts, and is taken again after that.
pub async fn a_claim_is_a_lease(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let intent = due_at(&services, integrator_id, Some(services.now())).await;
    for attempts in 1..4 {
        assert_eq!(claim(&services, 9).await, [FollowUp { resource: resource(&intent), attempts }]);
        services.wait(LEASE.saturating_sub(Duration::from_micros(1)));
        assert_eq!(claim(&services, 9).await, []);
        services.wait(Duration::from_micros(1));
    }
}

/// Two that claim at once never get the same one; together they get all.
pub async fn two_workers_never_claim_the_same(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for _ in 0..60 {
        due_at(&services, integrator_id, Some(services.now())).await;
    }
    let workers = (0..8).map(|_| {
        let services = services.clone();
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let batch = claim(&services, 7).await;
                if batch.is_empty() {
                    return claimed;
                }
                claimed.extend(batch);
                tokio::task::yield_now().await;
            }
        })
    });
    let mut claimed = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        claimed.extend(worker.await.expect("a worker"));
    }
    assert_eq!(claimed.len(), 60);
    assert_eq!(claimed.iter().map(|due| due.resource).collect::<BTreeSet<_>>().len(), 60);
    assert!(claimed.iter().all(|due| due.attempts == 1));
}

/// To postpone changes the time and not the count; what has none stays without.
pub async fn to_postpone_keeps_the_count(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let follow_ups = &services.stores.domain.follow_ups;
    let intent = due_at(&services, integrator_id, Some(services.now())).await;
    let never = due_at(&services, integrator_id, None).await;
    assert_eq!(claim(&services, 9).await.len(), 1);
    let until = services.now().plus(Duration::from_mins(5));
    for resource in [resource(&intent), resource(&never)] {
        assert_eq!(follow_ups.postpone(resource, until).await, Ok(()));
    }
    let nobody = ResourceRef { id: services.id(), ..resource(&intent) };
    assert_eq!(follow_ups.postpone(nobody, services.now()).await, Ok(()));
    services.clock.set(Timestamp::from_micros(until.micros() - 1));
    assert_eq!(claim(&services, 9).await, []);
    services.clock.set(until);
    assert_eq!(claim(&services, 9).await, [FollowUp { resource: resource(&intent), attempts: 2 }]);
    assert_eq!(follow_ups.postpone(resource(&intent), services.now()).await, Ok(()));
    assert_eq!(
        claim(&services, 9).await,
        [FollowUp { resource: resource(&intent), attempts: 3 }],
        "or sooner"
    );
}

/// A change of the record begins the count anew, and sets or takes away the time.
pub async fn a_change_begins_the_count_anew(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let intent = services.withdrawal_intent(integrator_id, 100);
    let withdrawal = intent.withdrawal().cloned().expect("a withdrawal");
    services.apply(intent).await;
    services.wait(Duration::from_mins(1));
    assert_eq!(claim(&services, 9).await.len(), 1);
    let queued = next(withdrawal.queue(services.now()));
    let withdrawal = queued.withdrawal().cloned().expect("a withdrawal");
    let resource = withdrawal.resource();
    services.apply(queued).await;
    assert_eq!(claim(&services, 9).await, []);
    services.wait(Duration::from_secs(5));
    assert_eq!(claim(&services, 9).await, [FollowUp { resource, attempts: 1 }]);
    services.apply(next(withdrawal.cancel(services.now()))).await;
    services.stores.domain.follow_ups.postpone(resource, services.now()).await.expect("nothing to postpone");
    services.wait(Duration::from_hours(24));
    assert_eq!(claim(&services, 9).await, [], "what is final is never due");
}

/// What an operator has to look at is no change of the record: it stays due as it was.
pub async fn a_finding_leaves_the_follow_up_alone(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let intent = due_at(&services, integrator_id, Some(services.now())).await;
    assert_eq!(claim(&services, 9).await.len(), 1);
    services
        .apply(Transition::new(integrator_id, services.now()).find(resource(&intent), "c", "d".into()))
        .await;
    services.wait(LEASE);
    assert_eq!(claim(&services, 9).await, [FollowUp { resource: resource(&intent), attempts: 2 }]);
}
