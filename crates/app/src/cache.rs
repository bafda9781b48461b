//! What every request asks and hardly ever changes, remembered for a moment: keys, integrators, fees, limits, and with
//! which of its secrets an integrator's postbacks are signed.
//!
//! A change that is made through this node holds on it at once; one that is made elsewhere (another node, a subcommand)
//! holds here when what is remembered is older than the time to live. What isn't there is never remembered, so that a new
//! key works at once. It owns no truth: a lookup that is not remembered is the store's.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::credentials::{ApiKey, Integrator, IntegratorStatus, KeyChange, KeySecrets};
use pix_domain::error::StoreError;
use pix_domain::fees::{FeeSchedule, FeeStore};
use pix_domain::ids::IntegratorId;
use pix_domain::limits::{LimitPolicy, LimitStore, Sent, SentTo, Windows};
use pix_domain::party::PixKey;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::postbacks::secrets::{PostbackSecretStore, SecretVersion};
use pix_domain::text::PostbackUrl;
use pix_domain::time::{Clock, Timestamp};

/// How many answers one cache remembers.
const MAX_ENTRIES: usize = 50_000;

/// An answer, and when it was asked for.
struct Entry<V> {
    value: V,
    asked_at: Timestamp,
}

struct Inner<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// How many changes there were: what was asked before the last one may be the state before it.
    changes: u64,
}

/// Answers of a store.
struct Cache<K, V> {
    /// What it is called in metrics.
    name: &'static str,
    /// `None` for what never changes.
    ttl: Option<Duration>,
    max_entries: usize,
    clock: Arc<dyn Clock>,
    inner: RwLock<Inner<K, V>>,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    fn new(name: &'static str, ttl: Option<Duration>, clock: Arc<dyn Clock>) -> Self {
        let inner = Inner { entries: HashMap::new(), changes: 0 };
        Self { name, ttl, max_entries: MAX_ENTRIES, clock, inner: RwLock::new(inner) }
    }

    /// The clock may be set back: an answer from the future is too old.
    fn is_fresh(&self, entry: &Entry<V>, now: Timestamp) -> bool {
        self.ttl.is_none_or(|ttl| entry.asked_at <= now && now.since(entry.asked_at) < ttl)
    }

    fn count(&self, result: &'static str) {
        metrics::counter!("pix_cache_lookups_total", "cache" => self.name, "result" => result).increment(1);
    }

    /// What is remembered, or else what `ask` finds, which is remembered then.
    async fn get<E>(&self, key: K, ask: impl Future<Output = Result<Option<V>, E>>) -> Result<Option<V>, E> {
        // Before asking: the answer is as old as the question.
        let asked_at = self.clock.now();
        let changes = {
            let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = inner.entries.get(&key).filter(|entry| self.is_fresh(entry, asked_at)) {
                self.count("hit");
                return Ok(Some(entry.value.clone()));
            }
            inner.changes
        };
        self.count("miss");
        let found = ask.await?;
        if let Some(value) = &found {
            self.keep(key, Entry { value: value.clone(), asked_at }, changes);
        }
        Ok(found)
    }

    fn keep(&self, key: K, entry: Entry<V>, changes: u64) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.changes != changes {
            return;
        }
        if inner.entries.len() >= self.max_entries {
            inner.entries.retain(|_, kept| self.is_fresh(kept, entry.asked_at));
            if inner.entries.len() > self.max_entries / 2 {
                inner.entries.clear();
            }
        }
        inner.entries.insert(key, entry);
    }

    /// To be held during a change: whatever becomes of it, even if nobody waits for its end, `key` is asked anew.
    fn changing(&self, key: K) -> Changing<'_, K, V> {
        Changing { cache: self, key }
    }
}

struct Changing<'a, K: Eq + Hash + Clone, V: Clone> {
    cache: &'a Cache<K, V>,
    key: K,
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Changing<'_, K, V> {
    fn drop(&mut self) {
        let mut inner = self.cache.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.changes = inner.changes.wrapping_add(1);
        inner.entries.remove(&self.key);
    }
}

/// Integrators, remembered.
pub struct CachedIntegrators {
    store: Arc<dyn IntegratorStore>,
    found: Cache<IntegratorId, Integrator>,
}

impl CachedIntegrators {
    /// Remembers what `store` finds for `ttl`.
    pub fn new(store: Arc<dyn IntegratorStore>, ttl: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { store, found: Cache::new("integrators", Some(ttl), clock) }
    }
}

#[async_trait]
impl IntegratorStore for CachedIntegrators {
    async fn create(&self, integrator: Integrator) -> Result<(), StoreError> {
        let _changing = self.found.changing(integrator.id);
        self.store.create(integrator).await
    }

    async fn find(&self, id: IntegratorId) -> Result<Option<Integrator>, StoreError> {
        self.found.get(id, self.store.find(id)).await
    }

    async fn list(&self) -> Result<Vec<Integrator>, StoreError> {
        self.store.list().await
    }

    async fn set_status(&self, id: IntegratorId, status: IntegratorStatus) -> Result<bool, StoreError> {
        let _changing = self.found.changing(id);
        self.store.set_status(id, status).await
    }

    async fn set_postback_scope(
        &self,
        id: IntegratorId,
        scope: Option<PostbackScope>,
    ) -> Result<bool, StoreError> {
        let _changing = self.found.changing(id);
        self.store.set_postback_scope(id, scope).await
    }

    async fn set_split_postback(
        &self,
        id: IntegratorId,
        url: Option<PostbackUrl>,
    ) -> Result<bool, StoreError> {
        let _changing = self.found.changing(id);
        self.store.set_split_postback(id, url).await
    }
}

/// API keys, remembered.
pub struct CachedKeys {
    store: Arc<dyn ApiKeyStore>,
    found: Cache<String, ApiKey>,
}

impl CachedKeys {
    /// Remembers what `store` finds for `ttl`.
    pub fn new(store: Arc<dyn ApiKeyStore>, ttl: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { store, found: Cache::new("keys", Some(ttl), clock) }
    }
}

#[async_trait]
impl ApiKeyStore for CachedKeys {
    async fn create(&self, key: ApiKey) -> Result<(), StoreError> {
        let _changing = self.found.changing(key.public_id.clone());
        self.store.create(key).await
    }

    async fn find(&self, public_id: &str) -> Result<Option<ApiKey>, StoreError> {
        self.found.get(public_id.to_owned(), self.store.find(public_id)).await
    }

    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<ApiKey>, StoreError> {
        self.store.list(integrator_id).await
    }

    async fn revoke(&self, public_id: &str, at: Timestamp) -> Result<bool, StoreError> {
        let _changing = self.found.changing(public_id.to_owned());
        self.store.revoke(public_id, at).await
    }

    async fn change(&self, public_id: &str, change: KeyChange) -> Result<bool, StoreError> {
        let _changing = self.found.changing(public_id.to_owned());
        self.store.change(public_id, change).await
    }

    async fn replace_secrets(
        &self,
        public_id: &str,
        from: KeySecrets,
        to: KeySecrets,
    ) -> Result<bool, StoreError> {
        let _changing = self.found.changing(public_id.to_owned());
        self.store.replace_secrets(public_id, from, to).await
    }

    /// Nobody is let in or kept out by it, so what is remembered stays.
    async fn mark_used(&self, public_id: &str, at: Timestamp) -> Result<(), StoreError> {
        self.store.mark_used(public_id, at).await
    }
}

/// Fees, remembered.
pub struct CachedFees {
    store: Arc<dyn FeeStore>,
    current: Cache<IntegratorId, FeeSchedule>,
    /// A version never changes.
    versions: Cache<(IntegratorId, u32), FeeSchedule>,
}

impl CachedFees {
    /// Remembers what `store` says is in force for `ttl`, and versions for good.
    pub fn new(store: Arc<dyn FeeStore>, ttl: Duration, clock: Arc<dyn Clock>) -> Self {
        let versions = Cache::new("fee_versions", None, clock.clone());
        Self { store, current: Cache::new("fees", Some(ttl), clock), versions }
    }
}

#[async_trait]
impl FeeStore for CachedFees {
    async fn current(&self, integrator_id: IntegratorId) -> Result<FeeSchedule, StoreError> {
        let ask = async { self.store.current(integrator_id).await.map(Some) };
        Ok(self.current.get(integrator_id, ask).await?.unwrap_or_else(FeeSchedule::free))
    }

    async fn version(
        &self,
        integrator_id: IntegratorId,
        version: u32,
    ) -> Result<Option<FeeSchedule>, StoreError> {
        self.versions.get((integrator_id, version), self.store.version(integrator_id, version)).await
    }

    async fn set(
        &self,
        integrator_id: IntegratorId,
        schedule: FeeSchedule,
        at: Timestamp,
    ) -> Result<u32, StoreError> {
        let _changing = self.current.changing(integrator_id);
        self.store.set(integrator_id, schedule, at).await
    }
}

/// Limits, remembered. What counts against them is read anew each time.
pub struct CachedLimits {
    store: Arc<dyn LimitStore>,
    policies: Cache<IntegratorId, LimitPolicy>,
}

impl CachedLimits {
    /// Remembers what `store` says is in force for `ttl`.
    pub fn new(store: Arc<dyn LimitStore>, ttl: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { store, policies: Cache::new("limits", Some(ttl), clock) }
    }
}

#[async_trait]
impl LimitStore for CachedLimits {
    async fn policy(&self, integrator_id: IntegratorId) -> Result<LimitPolicy, StoreError> {
        let ask = async { self.store.policy(integrator_id).await.map(Some) };
        Ok(self.policies.get(integrator_id, ask).await?.unwrap_or_else(LimitPolicy::off))
    }

    async fn set_policy(
        &self,
        integrator_id: IntegratorId,
        policy: &LimitPolicy,
        at: Timestamp,
    ) -> Result<Option<u32>, StoreError> {
        let _changing = self.policies.changing(integrator_id);
        self.store.set_policy(integrator_id, policy, at).await
    }

    async fn sent(&self, integrator_id: IntegratorId, windows: &Windows) -> Result<Sent, StoreError> {
        self.store.sent(integrator_id, windows).await
    }

    async fn sent_to(
        &self,
        integrator_id: IntegratorId,
        windows: &Windows,
        key: &PixKey,
    ) -> Result<SentTo, StoreError> {
        self.store.sent_to(integrator_id, windows, key).await
    }
}

/// What postbacks are signed with, remembered: numbers and dates, of which nothing can be signed.
pub struct CachedPostbackSecrets {
    store: Arc<dyn PostbackSecretStore>,
    found: Cache<IntegratorId, Vec<SecretVersion>>,
}

impl CachedPostbackSecrets {
    /// Remembers what `store` finds for `ttl`.
    pub fn new(store: Arc<dyn PostbackSecretStore>, ttl: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { store, found: Cache::new("postback_secrets", Some(ttl), clock) }
    }
}

#[async_trait]
impl PostbackSecretStore for CachedPostbackSecrets {
    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<SecretVersion>, StoreError> {
        let ask = async {
            let versions = self.store.list(integrator_id).await?;
            Ok::<_, StoreError>((!versions.is_empty()).then_some(versions))
        };
        Ok(self.found.get(integrator_id, ask).await?.unwrap_or_default())
    }

    async fn add(&self, version: SecretVersion) -> Result<bool, StoreError> {
        let _changing = self.found.changing(version.integrator_id);
        self.store.add(version).await
    }

    async fn retire(
        &self,
        integrator_id: IntegratorId,
        number: u32,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let _changing = self.found.changing(integrator_id);
        self.store.retire(integrator_id, number, at).await
    }
}

#[cfg(test)]
mod tests;
