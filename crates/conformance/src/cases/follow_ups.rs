//! What is due, and who takes it.

use std::collections::BTreeSet;
use std::time::Duration;

use pix_domain::charges::Failure;
use pix_domain::follow_up::{FollowUp, OpenMovements};
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
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

fn first_time(services: &Services, due: &[&Transition]) -> Vec<FollowUp> {
    due.iter().map(|transition| claimed(services, resource(transition), 1)).collect()
}

/// What was claimed just now.
fn claimed(services: &Services, resource: ResourceRef, attempts: u32) -> FollowUp {
    FollowUp { resource, attempts, until: services.now().plus(LEASE) }
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
    assert_eq!(claim(&services, 2).await, first_time(&services, &[&first, &second]));
    assert_eq!(claim(&services, 9).await, first_time(&services, &[&third]));
    assert_eq!(claim(&services, 9).await, []);
    services.wait(Duration::from_secs(10));
    assert_eq!(claim(&services, 9).await, first_time(&services, &[&later]));
}

/// A claim hides for its lease and counts, and is taken again after that.
pub async fn a_claim_is_a_lease(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let intent = due_at(&services, integrator_id, Some(services.now())).await;
    for attempts in 1..4 {
        assert_eq!(claim(&services, 9).await, [claimed(&services, resource(&intent), attempts)]);
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

/// To postpone changes the time and not the count, or takes the record off the list; what has none stays without.
pub async fn to_postpone_keeps_the_count(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let follow_ups = &services.stores.domain.follow_ups;
    let intent = due_at(&services, integrator_id, Some(services.now())).await;
    let never = due_at(&services, integrator_id, None).await;
    let first = claim(&services, 9).await;
    assert_eq!(first, [claimed(&services, resource(&intent), 1)]);
    let until = services.now().plus(Duration::from_mins(5));
    let nobody = ResourceRef { id: services.id(), ..resource(&intent) };
    for resource in [resource(&never), nobody, resource(&intent)] {
        let claimed = FollowUp { resource, ..first[0] };
        assert_eq!(follow_ups.postpone(claimed, Some(until)).await, Ok(()));
    }
    services.clock.set(Timestamp::from_micros(until.micros() - 1));
    assert_eq!(claim(&services, 9).await, []);
    services.clock.set(until);
    let second = claim(&services, 9).await;
    assert_eq!(second, [claimed(&services, resource(&intent), 2)]);
    assert_eq!(follow_ups.postpone(second[0], Some(services.now())).await, Ok(()));
    let third = claim(&services, 9).await;
    assert_eq!(third, [claimed(&services, resource(&intent), 3)], "or sooner");
    assert_eq!(follow_ups.postpone(third[0], None).await, Ok(()));
    services.wait(Duration::from_hours(24));
    assert_eq!(claim(&services, 9).await, [], "or never again");
}

/// Who was overtaken, by another worker or by a change of the record, postpones nothing.
pub async fn who_was_overtaken_postpones_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let follow_ups = &services.stores.domain.follow_ups;
    let intent = services.withdrawal_intent(integrator_id, 100);
    let withdrawal = intent.withdrawal().cloned().expect("a withdrawal");
    services.apply(intent).await;
    services.wait(Duration::from_mins(1));
    let first = claim(&services, 9).await;
    services.wait(LEASE);
    let second = claim(&services, 9).await;
    assert_eq!((first.len(), second.len(), second[0].attempts), (1, 1, 2));
    let far = services.now().plus(Duration::from_hours(9));
    assert_eq!(follow_ups.postpone(first[0], Some(far)).await, Ok(()));
    services.wait(LEASE);
    let third = claim(&services, 9).await;
    assert_eq!(third.len(), 1, "the lease of the second has ended, and nothing else");
    services.apply(next(withdrawal.lose_sight(services.now()))).await;
    for until in [None, Some(far)] {
        assert_eq!(follow_ups.postpone(third[0], until).await, Ok(()));
    }
    services.wait(Duration::from_secs(5));
    assert_eq!(
        claim(&services, 9).await,
        [claimed(&services, third[0].resource, 1)],
        "as the change has set it"
    );
}

/// Open movements are counted by kind and state, with what is held for them and the age of the oldest.
pub async fn open_movements_are_counted(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let follow_ups = &services.stores.domain.follow_ups;
    assert_eq!(follow_ups.open_movements().await, Ok(vec![]));
    let integrator_id = services.funded(10_000).await;
    let oldest_at = services.now();
    let mut lost = None;
    for cents in [100, 200, 300] {
        let intent = services.withdrawal_intent(integrator_id, cents);
        lost = intent.withdrawal().cloned();
        services.apply(intent).await;
        services.wait(Duration::from_secs(1));
    }
    let lost = lost.expect("a withdrawal");
    let held = lost.total();
    services.apply(next(lost.clone().lose_sight(services.now()))).await;
    let of = |state: &str, count, held_cents: i64, oldest_at| OpenMovements {
        kind: ResourceKind::Withdrawal,
        state: state.into(),
        count,
        held_cents: u64::try_from(held_cents).expect("money"),
        oldest_at,
    };
    let all_held = services.balances(integrator_id).await.1;
    let rest = of("submitting", 2, all_held - held.get(), oldest_at);
    let expected = vec![rest.clone(), of("uncertain", 1, held.get(), lost.created_at)];
    assert_eq!(follow_ups.open_movements().await, Ok(expected));
    let lost = services.withdrawal(&lost).await;
    services.apply(next(lost.fail(Failure { code: "c".into(), message: "m".into() }, services.now()))).await;
    assert_eq!(follow_ups.open_movements().await, Ok(vec![rest]));
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
    assert_eq!(claim(&services, 9).await, [claimed(&services, resource, 1)]);
    services.apply(next(withdrawal.cancel(services.now()))).await;
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
    assert_eq!(claim(&services, 9).await, [claimed(&services, resource(&intent), 2)]);
}
