//! A store of deliveries in front of another one, that fails as told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::delivery::{
    Attempt, Backlog, DeliveryReport, DeliveryStore, Endpoint, EndpointId, Lane, ReplayQuery, Taken, Turn,
};
use pix_domain::postbacks::events::{EventKey, ListedEvent};
use pix_domain::time::Timestamp;

pub struct Faulty {
    pub inner: Arc<dyn DeliveryStore>,
    /// How many calls to take deliveries fail before one works.
    pub takes: AtomicU32,
    /// The same of reading events.
    pub loads: AtomicU32,
    /// The same of saying what came of them.
    pub tells: AtomicU32,
    /// How long reading events takes.
    pub slow: Duration,
    /// An event that can't be read.
    pub damaged: Option<EventKey>,
    /// An event of which nothing can be said.
    pub unspeakable: Option<EventKey>,
}

impl Faulty {
    pub fn over(inner: Arc<dyn DeliveryStore>) -> Self {
        let (takes, loads, tells) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        Self { inner, takes, loads, tells, slow: Duration::ZERO, damaged: None, unspeakable: None }
    }
}

fn fail(left: &AtomicU32) -> Result<(), StoreError> {
    let failed = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    failed.map_or(Ok(()), |_| Err(StoreError::Unavailable("as told".into())))
}

#[async_trait]
impl DeliveryStore for Faulty {
    async fn take(&self, turn: Turn) -> Result<Taken, StoreError> {
        fail(&self.takes)?;
        self.inner.take(turn).await
    }

    async fn load(&self, keys: Vec<EventKey>) -> Result<Vec<ListedEvent>, StoreError> {
        fail(&self.loads)?;
        tokio::time::sleep(self.slow).await;
        if self.damaged.is_some_and(|key| keys.contains(&key)) {
            return Err(StoreError::Damaged("as told".into()));
        }
        self.inner.load(keys).await
    }

    async fn endpoints_of(&self, ids: Vec<EndpointId>) -> Result<Vec<Endpoint>, StoreError> {
        self.inner.endpoints_of(ids).await
    }

    async fn tell(&self, results: Vec<DeliveryReport>, now: Timestamp) -> Result<u64, StoreError> {
        fail(&self.tells)?;
        if self.unspeakable.is_some_and(|key| results.iter().any(|report| report.claimed.key == key)) {
            return Err(StoreError::Rejected("as told".into()));
        }
        self.inner.tell(results, now).await
    }

    async fn attempts(&self, key: EventKey) -> Result<Vec<Attempt>, StoreError> {
        self.inner.attempts(key).await
    }

    async fn redeliver(&self, key: EventKey, lane: Lane, now: Timestamp) -> Result<bool, StoreError> {
        self.inner.redeliver(key, lane, now).await
    }

    async fn replay(&self, id: IntegratorId, query: ReplayQuery, now: Timestamp) -> Result<u64, StoreError> {
        self.inner.replay(id, query, now).await
    }

    async fn endpoints(&self, id: IntegratorId) -> Result<Vec<Endpoint>, StoreError> {
        self.inner.endpoints(id).await
    }

    async fn forget_endpoint(&self, id: IntegratorId, endpoint: EndpointId) -> Result<bool, StoreError> {
        self.inner.forget_endpoint(id, endpoint).await
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        self.inner.forget(before, limit).await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.inner.backlog().await
    }
}
