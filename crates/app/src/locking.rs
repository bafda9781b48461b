//! The walk that puts the personal data of what has ended under the keys of its persons: a step a minute, one node at a time,
//! round and round over all records.
//!
//! Where it stands and until when it is a node's is one fact of the store, so a node that ends in the middle leaves nothing but a
//! lease that runs out. Locking twice is no harm: what is locked is passed over.

use std::sync::Arc;
use std::time::Duration;

use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind};
use pix_domain::people::{KINDS, People, Walk};
use pix_domain::time::{Clock, Timestamp};
use uuid::Uuid;

use crate::clocks;
use crate::config::PersonConfig;
use crate::store::Store;
use crate::system::SystemClock;

/// The name of the fact.
const FACT: &str = "people_walk";

/// How long a step is one node's. Longer than one takes.
const LEASE: Duration = Duration::from_mins(5);

/// How many records a step looks at for each that it may lock.
const LOOKS_PER_LOCK: u64 = 25;

/// Persons, over a store.
pub fn people(store: &Store) -> People {
    People::new(store.people.clone(), &store.records, Arc::new(SystemClock))
}

/// Where the walk goes on, and until when a node has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    until: Timestamp,
    at: Option<Walk>,
}

impl Standing {
    /// As it is kept. What can't be read is begun again.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let until = Timestamp::from_micros(words.next()?.parse().ok()?);
        let Some(owner) = words.next() else { return Some(Self { until, at: None }) };
        let name = words.next()?;
        let kind = KINDS.into_iter().find(|kind| kind.as_str() == name)?;
        let after = words.next().map(str::parse::<Uuid>).transpose().ok()?;
        let walk = Walk::of(IntegratorId(owner.parse().ok()?), kind);
        Some(Self { until, at: Some(Walk { after, ..walk }) })
    }

    fn text(self) -> String {
        let until = self.until.micros();
        match self.at {
            None => until.to_string(),
            Some(Walk { integrator_id, kind, after, .. }) => {
                let after = after.map(|id| format!(" {id}")).unwrap_or_default();
                format!("{until} {} {}{after}", integrator_id.0, kind.as_str())
            }
        }
    }
}

/// One step, unless another node is at it. How many records it locked. Errors are those of the store; what was locked before
/// stays so.
pub async fn step(store: &Store, config: PersonConfig, now: Timestamp) -> Result<u64, StoreError> {
    let kept = store.facts.fact(FACT).await?;
    let standing = kept.as_deref().and_then(Standing::parse);
    if standing.is_some_and(|standing| clocks::is_held(standing.until, now, LEASE)) {
        return Ok(0);
    }
    let at = standing.and_then(|standing| standing.at);
    let mine = Standing { until: now.plus(LEASE), at }.text();
    if !store.facts.swap_fact(FACT, kept, mine.clone()).await? {
        return Ok(0);
    }
    let (locked, at) = walk(store, config, at, now.minus(config.lock_after)).await?;
    let left = Standing { until: Timestamp::from_micros(0), at }.text();
    store.facts.swap_fact(FACT, Some(mine), left).await?;
    Ok(locked)
}

/// All that there is to lock, now, whoever else is at it. How many records it was. Errors as [`step`].
pub async fn all(store: &Store, config: PersonConfig) -> Result<u64, StoreError> {
    let all = PersonConfig { lock_records: u64::MAX, ..config };
    let (locked, _) = walk(store, all, None, SystemClock.now().minus(config.lock_after)).await?;
    Ok(locked)
}

/// Walks on from there until the step is over or all integrators are through. How many it locked, and where it stands then.
async fn walk(
    store: &Store,
    config: PersonConfig,
    from: Option<Walk>,
    untouched_since: Timestamp,
) -> Result<(u64, Option<Walk>), StoreError> {
    let people = people(store);
    let mut owners: Vec<IntegratorId> = store.integrators.list().await?.iter().map(|one| one.id).collect();
    owners.sort_unstable();
    let first = from.map(|walk| walk.integrator_id);
    let mut owners = owners.into_iter().filter(|owner| first.is_none_or(|first| *owner > first));
    let begin = |owner: IntegratorId| Walk::of(owner, ResourceKind::Charge);
    let mut at = from.or_else(|| owners.next().map(begin));
    let (mut locked, mut looked_at) = (0_u64, 0_u64);
    while let Some(walk) = at {
        if locked >= config.lock_records || looked_at >= config.lock_records.saturating_mul(LOOKS_PER_LOCK) {
            break;
        }
        let left = config.lock_records.saturating_sub(locked);
        let (done, looks, next) = people.lock_next(walk, untouched_since, left).await?;
        locked = locked.saturating_add(done);
        // A query that finds nothing is not for nothing.
        looked_at = looked_at.saturating_add(looks.max(10).into());
        at = next.or_else(|| owners.next().map(begin));
    }
    Ok((locked, at))
}

#[cfg(test)]
mod tests {
    use pix_domain::charges::{Failure, NewCharge, state};
    use pix_domain::credentials::{Integrator, IntegratorStatus};
    use pix_domain::ids::ChargeId;
    use pix_domain::money::Amount;
    use pix_domain::party::Document;
    use pix_domain::people::Person;
    use pix_domain::provider::Party;
    use pix_domain::text::ExternalId;
    use pix_persistence::sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    const DOCUMENT: &str = "39053344705";

    async fn keep(store: &Store, owner: IntegratorId, number: u128, at: Timestamp) {
        let id = ChargeId(Uuid::from_u128((owner.0.as_u128() << 32) + number));
        let payer = Party { name: None, document: Some(Document::parse(DOCUMENT).unwrap()) };
        let new = NewCharge {
            id,
            integrator_id: owner,
            external_id: ExternalId::parse(&format!("c-{number}")).unwrap(),
            external_id_given: true,
            amount: Amount::parse("1").unwrap(),
            payer,
            payer_email: None,
            payer_question: None,
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url: None,
            postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
            expires_in: Duration::from_hours(1),
            fee_version: 0,
            split: Vec::new(),
        };
        let failure = Failure { code: "no".into(), message: "no".into() };
        store.records.transitions.apply(state::refuse(new, failure, at)).await.unwrap();
    }

    async fn locked(store: &Store, owner: IntegratorId) -> Vec<bool> {
        let who = Person::Document(Document::parse(DOCUMENT).unwrap());
        let walked = store.people.naming(Walk::of(owner, ResourceKind::Charge), &who).await.unwrap();
        walked.found.into_iter().map(|(_, locked)| locked).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_walk_goes_round_in_steps_one_node_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
        let store = Store::of(SqliteStore::open(folder.path().join("pix.db"), options).unwrap());
        let now = Timestamp::from_micros(1_768_478_400_000_000);
        let config = PersonConfig { lock_records: 1, lock_after: Duration::from_hours(48) };
        let long_ago = now.minus(Duration::from_hours(49));
        let owners = [1, 2].map(|number| IntegratorId(Uuid::from_u128(number)));
        for owner in owners {
            let name = "Loja".into();
            let status = IntegratorStatus::Active;
            let one = Integrator {
                id: owner,
                name,
                status,
                postback_scope: None,
                split_postback: None,
                created_at: now,
            };
            store.integrators.create(one).await.unwrap();
            keep(&store, owner, 1, long_ago).await;
            keep(&store, owner, 2, now.minus(Duration::from_hours(47))).await;
        }
        // Another node is at it.
        let taken = Standing { until: now.plus(Duration::from_secs(1)), at: None }.text();
        store.facts.keep_fact(FACT, taken).await.unwrap();
        assert_eq!(step(&store, config, now).await, Ok(0));
        // One that was a year ahead, and died, holds up nobody.
        let year = Standing { until: now.plus(Duration::from_hours(24 * 365)), at: None }.text();
        store.facts.keep_fact(FACT, year).await.unwrap();
        assert_eq!(step(&store, PersonConfig { lock_records: 0, ..config }, now).await, Ok(0));
        let left = store.facts.fact(FACT).await.unwrap().and_then(|text| Standing::parse(&text)).unwrap();
        assert_eq!(left.until, Timestamp::from_micros(0), "the step was taken");
        let later = now.plus(Duration::from_secs(1));
        assert_eq!(step(&store, config, later).await, Ok(1));
        assert_eq!(
            (locked(&store, owners[0]).await, locked(&store, owners[1]).await),
            (vec![true, false], vec![false; 2])
        );
        // It goes on where it stood, and from the beginning after the end.
        assert_eq!(step(&store, config, later).await, Ok(1));
        assert_eq!(locked(&store, owners[1]).await, [true, false]);
        let much_later = now.plus(Duration::from_hours(2));
        let mut done = 0;
        for _ in 0..6 {
            done += step(&store, config, much_later).await.unwrap();
        }
        assert_eq!(done, 2, "with none left out");
        assert_eq!(
            (locked(&store, owners[0]).await, locked(&store, owners[1]).await),
            (vec![true; 2], vec![true; 2])
        );
    }

    #[test]
    fn where_the_walk_stands_is_kept_as_it_is() {
        let until = Timestamp::from_micros(1_768_478_400_000_000);
        let walk = Walk::of(IntegratorId(Uuid::from_u128(7)), ResourceKind::Withdrawal);
        for at in [None, Some(walk), Some(Walk { after: Some(Uuid::from_u128(9)), ..walk })] {
            let standing = Standing { until, at };
            assert_eq!(Standing::parse(&standing.text()), Some(standing));
        }
        let owner = Uuid::from_u128(7);
        for text in
            ["", "x", "1 x charge", "1 x", &format!("1 {owner} refund"), &format!("1 {owner} charge x")]
        {
            assert_eq!(Standing::parse(text), None, "{text}");
        }
    }
}
