//! What was answered with `Ok` is there after the store was closed and opened again.

use std::time::Duration;

use pix_domain::credentials::{ApiKey, SecretHash};
use pix_domain::error::{ApplyError, UniqueKey};
use pix_domain::fees::FeeSchedule;
use pix_domain::ids::ResourceKind;
use pix_domain::wallet::store::EntryQuery;

use crate::builders::{key, refund_command, some_fees, withdrawal_command};
use crate::harness::Services;
use crate::{Answer, Durability, StoreHarness, services, snapshot};

const LEASE: Duration = Duration::from_mins(1);

/// Records, books, handles, receipts, follow-ups, fees, integrators and keys outlive the process. A store that is not
/// durable says so ([`Durability::Volatile`]) and is only read again.
pub async fn everything_is_there_after_reopening(harness: &mut dyn StoreHarness) {
    let first = services(harness);
    let integrator_id = first.funded(100_000).await;
    first.set_fees(integrator_id, some_fees()).await;
    let receipt = first.payment(5_000);
    let charge = first.paid_with(integrator_id, &receipt).await;
    for answer in [Answer::Complete, Answer::Reject, Answer::LostRequest] {
        first.provider.answers_next(answer);
        first.withdrawals.create(withdrawal_command(integrator_id, 1_000)).await.expect("a withdrawal");
    }
    first.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund");
    let intent = first.withdrawal_intent(integrator_id, 500).answering(Some(key("k")));
    let held = intent.withdrawal().cloned().expect("a withdrawal");
    first.apply(intent).await;
    let api_key = ApiKey::new("pk_one", integrator_id, SecretHash("$argon2id$".into()), first.now());
    first.stores.keys.create(api_key.clone()).await.expect("a new key");
    first.stores.keys.revoke("pk_one", first.now()).await.expect("a revoked key");
    first.wait(Duration::from_mins(1));
    let claimed = first.stores.domain.follow_ups.claim(first.now(), LEASE, 99).await.expect("a claim");
    let claimed: Vec<_> =
        claimed.into_iter().filter(|due| due.resource.kind == ResourceKind::Withdrawal).collect();
    assert_eq!(claimed.len(), 2);
    let (before, now) = (snapshot(&first.stores).await, first.now());
    drop(first);

    let durability = harness.reopen().await;

    // Ids of another seed: those of the first are taken.
    let again = Services::over(harness.stores(), 1);
    again.clock.set(now);
    assert_eq!(snapshot(&again.stores).await, before, "{durability:?}");
    let lookups = &again.stores.domain.lookups;
    let kept = lookups.find_handle(integrator_id, ResourceKind::Withdrawal, &key("k")).await;
    assert_eq!(kept, Ok(Some(held.id.0)));
    assert_eq!(lookups.locate(held.id.0).await, Ok(Some(held.resource())));
    let other = again.charge(integrator_id, 5_000).await;
    let elsewhere = again.stores.domain.transitions.apply(again.credit_intent(&other, receipt)).await;
    assert_eq!(elsewhere, Err(ApplyError::Duplicate(UniqueKey::Receipt)));
    let fees = again.stores.domain.fees.version(integrator_id, 1).await;
    assert_eq!(fees, Ok(Some(FeeSchedule { version: 1, ..some_fees() })));
    let revoked = again.stores.keys.find("pk_one").await.expect("a lookup").expect("a key");
    assert_eq!(revoked.revoked_at.map(|at| at.plus(LEASE)), Some(now));
    assert_eq!(revoked.secrets, api_key.secrets);
    let follow_ups = &again.stores.domain.follow_ups;
    assert_eq!(follow_ups.claim(now, LEASE, 99).await, Ok(Vec::new()), "a lease outlives whoever took it");
    let mut due = follow_ups.claim(now.plus(LEASE), LEASE, 99).await.expect("a claim");
    due.retain(|due| due.resource.kind == ResourceKind::Withdrawal);
    due.sort_by_key(|due| due.resource);
    let mut expected = claimed;
    expected.sort_by_key(|due| due.resource);
    for due in &mut expected {
        due.attempts += 1;
        due.until = due.until.plus(LEASE);
    }
    assert_eq!(due, expected);
}

/// A store that was opened again is as good as before.
pub async fn work_goes_on_after_reopening(harness: &mut dyn StoreHarness) {
    let first = services(harness);
    let integrator_id = first.funded(10_000).await;
    first.provider.answers_next(Answer::LostAnswer);
    let lost = first.withdrawals.create(withdrawal_command(integrator_id, 4_000)).await;
    let lost = lost.expect("a withdrawal").into_inner();
    drop(first);
    for round in 1..4 {
        assert!(matches!(harness.reopen().await, Durability::Durable | Durability::Volatile));
        let again = Services::over(harness.stores(), round);
        again.wait(Duration::from_mins(1));
        again.provider.knows(lost.id.0, pix_domain::provider::Progress::Completed);
        again.reconciler.run_once().await.expect("a round");
        again.withdrawals.create(withdrawal_command(integrator_id, 1_000)).await.expect("a withdrawal");
        let round = i64::try_from(round).expect("a small number");
        assert_eq!(again.balances(integrator_id).await, (6_000 - round * 1_000, 0));
        let numbers = again
            .stores
            .domain
            .wallets
            .entries(integrator_id, &EntryQuery::after(0, 99))
            .await
            .expect("entries");
        assert!(numbers.iter().map(|entry| entry.number).eq(1..=u64::try_from(numbers.len()).expect("few")));
    }
}
