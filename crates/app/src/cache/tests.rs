//! What is remembered, and until when.

use std::sync::atomic::{AtomicI64, Ordering};

use pix_domain::credentials::store::{MockApiKeyStore, MockIntegratorStore};
use pix_domain::credentials::{Scopes, SecretHash};
use pix_domain::fees::MockFeeStore;
use pix_domain::postbacks::secrets::MockPostbackSecretStore;
use uuid::Uuid;

use super::*;

const TTL: Duration = Duration::from_secs(5);
const ONE: IntegratorId = IntegratorId(Uuid::from_u128(1));

/// A clock that stands still until it is set.
#[derive(Default)]
struct Hand(AtomicI64);

impl Hand {
    fn set(&self, at: Duration) {
        self.0.store(i64::try_from(at.as_micros()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

fn integrator(status: IntegratorStatus) -> Integrator {
    Integrator {
        id: ONE,
        name: "Loja".into(),
        status,
        postback_scope: None,
        split_postback: None,
        created_at: Timestamp::from_micros(0),
    }
}

fn key(revoked: bool) -> ApiKey {
    let at = Timestamp::from_micros(0);
    ApiKey { revoked_at: revoked.then_some(at), ..ApiKey::new("k", ONE, SecretHash(String::new()), at) }
}

fn schedule(version: u32) -> FeeSchedule {
    FeeSchedule { version, ..FeeSchedule::free() }
}

fn integrators(set_up: impl FnOnce(&mut MockIntegratorStore)) -> (CachedIntegrators, Arc<Hand>) {
    let (mut store, clock) = (MockIntegratorStore::new(), Arc::new(Hand::default()));
    clock.set(Duration::from_secs(100));
    set_up(&mut store);
    (CachedIntegrators::new(Arc::new(store), TTL, clock.clone()), clock)
}

#[tokio::test]
async fn within_its_time_an_answer_is_not_asked_for_again_and_after_it_is() {
    let (cached, clock) = integrators(|store| {
        store.expect_find().times(1).returning(|_| Ok(Some(integrator(IntegratorStatus::Active))));
        // What another node changed meanwhile.
        store.expect_find().times(1).returning(|_| Ok(Some(integrator(IntegratorStatus::Suspended))));
    });
    for after in [Duration::ZERO, TTL.saturating_sub(Duration::from_micros(1))] {
        clock.set(Duration::from_secs(100) + after);
        assert_eq!(cached.find(ONE).await.unwrap().unwrap().status, IntegratorStatus::Active);
    }
    clock.set(Duration::from_secs(100) + TTL);
    assert_eq!(cached.find(ONE).await.unwrap().unwrap().status, IntegratorStatus::Suspended);
}

#[tokio::test]
async fn a_clock_that_is_set_back_makes_nothing_live_longer() {
    let (cached, clock) = integrators(|store| {
        store.expect_find().times(2).returning(|_| Ok(Some(integrator(IntegratorStatus::Active))));
    });
    cached.find(ONE).await.unwrap();
    clock.set(Duration::from_secs(99));
    cached.find(ONE).await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_and_what_failed_is_not_remembered() {
    let (cached, _clock) = integrators(|store| {
        store.expect_find().times(1).returning(|_| Ok(None));
        store.expect_find().times(1).returning(|_| Err(StoreError::Unavailable("down".into())));
        store.expect_find().times(1).returning(|_| Ok(Some(integrator(IntegratorStatus::Active))));
    });
    assert_eq!(cached.find(ONE).await.unwrap(), None);
    assert!(cached.find(ONE).await.is_err());
    for _ in 0..2 {
        assert!(cached.find(ONE).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_change_on_this_node_holds_at_once_even_when_it_fails() {
    let (cached, _clock) = integrators(|store| {
        store.expect_find().times(1).returning(|_| Ok(Some(integrator(IntegratorStatus::Active))));
        store.expect_set_status().returning(|_, _| Err(StoreError::Unknown("lost".into())));
        store.expect_find().times(1).returning(|_| Ok(Some(integrator(IntegratorStatus::Suspended))));
    });
    cached.find(ONE).await.unwrap();
    cached.set_status(ONE, IntegratorStatus::Suspended).await.unwrap_err();
    assert_eq!(cached.find(ONE).await.unwrap().unwrap().status, IntegratorStatus::Suspended);
}

#[tokio::test]
async fn an_answer_that_a_change_overtook_is_not_remembered() {
    let cache = Cache::<u8, u8>::new("tests", Some(TTL), Arc::new(Hand::default()));
    let overtaken = async {
        drop(cache.changing(1));
        Ok::<_, StoreError>(Some(1))
    };
    assert_eq!(cache.get(1, overtaken).await.unwrap(), Some(1));
    assert_eq!(cache.get(1, async { Ok::<_, StoreError>(Some(2)) }).await.unwrap(), Some(2));
    let not_asked = async { Err(StoreError::Unavailable("asked".into())) };
    assert_eq!(cache.get(1, not_asked).await.unwrap(), Some(2));
}

#[tokio::test]
async fn a_full_cache_makes_room() {
    let mut cache = Cache::<u8, u8>::new("tests", Some(TTL), Arc::new(Hand::default()));
    cache.max_entries = 4;
    for number in 0..=u8::MAX {
        cache.get(number, async { Ok::<_, StoreError>(Some(number)) }).await.unwrap();
        assert!(cache.inner.read().unwrap().entries.len() <= 4);
    }
    let not_asked = async { Err(StoreError::Unavailable("asked".into())) };
    assert_eq!(cache.get(u8::MAX, not_asked).await.unwrap(), Some(u8::MAX));
}

#[tokio::test]
async fn a_revoked_key_is_revoked_at_once_and_a_new_one_works_at_once() {
    let mut store = MockApiKeyStore::new();
    store.expect_find().times(1).returning(|_| Ok(None));
    store.expect_create().times(1).returning(|_| Ok(()));
    store.expect_find().times(1).returning(|_| Ok(Some(key(false))));
    store.expect_revoke().times(1).returning(|_, _| Ok(true));
    store.expect_find().times(1).returning(|_| Ok(Some(key(true))));
    let cached = CachedKeys::new(Arc::new(store), TTL, Arc::new(Hand::default()));
    assert_eq!(cached.find("k").await.unwrap(), None);
    cached.create(key(false)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(cached.find("k").await.unwrap(), Some(key(false)));
    }
    cached.revoke("k", Timestamp::from_micros(0)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(cached.find("k").await.unwrap(), Some(key(true)));
    }
}

#[tokio::test]
async fn what_is_changed_of_a_key_holds_at_once_and_its_last_use_is_not_worth_a_lookup() {
    let narrow = || KeyChange { scopes: Scopes::parse("read").ok(), ..KeyChange::default() };
    let secrets = key(false).secrets;
    let rotated = secrets.clone().add(SecretHash("second".into()), Timestamp::from_micros(1)).unwrap();
    let (changed, rotating) = (narrow().of(key(false)), ApiKey { secrets: rotated.clone(), ..key(false) });
    let mut store = MockApiKeyStore::new();
    for found in [key(false), changed.clone(), rotating.clone()] {
        store.expect_find().times(1).returning(move |_| Ok(Some(found.clone())));
    }
    store.expect_change().times(1).returning(|_, _| Ok(true));
    store.expect_replace_secrets().times(1).returning(|_, _, _| Ok(true));
    store.expect_mark_used().times(1).returning(|_, _| Ok(()));
    let cached = CachedKeys::new(Arc::new(store), TTL, Arc::new(Hand::default()));
    assert_eq!(cached.find("k").await.unwrap(), Some(key(false)));
    cached.mark_used("k", Timestamp::from_micros(1)).await.unwrap();
    assert_eq!(cached.find("k").await.unwrap(), Some(key(false)));
    cached.change("k", narrow()).await.unwrap();
    assert_eq!(cached.find("k").await.unwrap(), Some(changed));
    cached.replace_secrets("k", secrets, rotated).await.unwrap();
    assert_eq!(cached.find("k").await.unwrap(), Some(rotating));
}

#[tokio::test]
async fn a_version_of_the_fees_is_asked_for_once_and_what_is_in_force_again() {
    let mut store = MockFeeStore::new();
    store.expect_version().times(1).returning(|_, _| Ok(None));
    store.expect_version().times(1).returning(|_, version| Ok(Some(schedule(version))));
    store.expect_current().times(2).returning(|_| Ok(schedule(1)));
    store.expect_set().times(1).returning(|_, _, _| Ok(2));
    store.expect_current().times(1).returning(|_| Ok(schedule(2)));
    let clock = Arc::new(Hand::default());
    let cached = CachedFees::new(Arc::new(store), TTL, clock.clone());
    assert_eq!(cached.version(ONE, 1).await.unwrap(), None);
    for _ in 0..3 {
        for _ in 0..2 {
            assert_eq!(cached.version(ONE, 1).await.unwrap(), Some(schedule(1)));
        }
        clock.set(clock.now().since(Timestamp::from_micros(0)) + TTL);
    }
    for _ in 0..2 {
        for _ in 0..2 {
            assert_eq!(cached.current(ONE).await.unwrap(), schedule(1));
        }
        clock.set(clock.now().since(Timestamp::from_micros(0)) + TTL);
    }
    clock.set(Duration::from_mins(1));
    cached.set(ONE, FeeSchedule::free(), Timestamp::from_micros(0)).await.unwrap();
    assert_eq!(cached.current(ONE).await.unwrap().version, 2);
}

#[tokio::test]
async fn which_secrets_sign_is_asked_for_once_and_again_after_a_change_and_none_is_no_answer() {
    let at = Timestamp::from_micros(0);
    let version = move |number: u32, retired_at| SecretVersion {
        integrator_id: ONE,
        number,
        key_id: "first".into(),
        created_at: at,
        retired_at,
    };
    let mut store = MockPostbackSecretStore::new();
    store.expect_list().times(1).returning(|_| Ok(Vec::new()));
    store.expect_add().times(1).returning(|_| Ok(true));
    store.expect_list().times(1).returning(move |_| Ok(vec![version(1, None)]));
    store.expect_retire().times(1).returning(|_, _, _| Ok(true));
    store.expect_list().times(1).returning(move |_| Ok(vec![version(1, Some(at))]));
    let cached = CachedPostbackSecrets::new(Arc::new(store), TTL, Arc::new(Hand::default()));
    assert_eq!(cached.list(ONE).await.unwrap(), []);
    assert!(cached.add(version(1, None)).await.unwrap());
    for _ in 0..3 {
        assert_eq!(cached.list(ONE).await.unwrap(), [version(1, None)]);
    }
    assert!(cached.retire(ONE, 1, at).await.unwrap());
    assert_eq!(cached.list(ONE).await.unwrap(), [version(1, Some(at))]);
}
