//! The use cases of integrators and operators: the feed, what became of an event, asking for it again, trying out a URL.

use std::time::Duration;

use crate::error::ServiceError;
use crate::ids::IntegratorId;
use crate::invalid::Invalid;
use crate::postbacks::delivery::{Attempt, Endpoint, EndpointId, Lane, ReplayQuery};
use crate::postbacks::events::{EventKey, EventQuery, ListedEvent};
use crate::postbacks::relay::PostbackPorts;
use crate::postbacks::secrets::SecretError;
use crate::postbacks::send::{Parcel, Reply};
use crate::text::PostbackUrl;

/// The most deliveries of one replay.
pub const MAX_REPLAYED: u32 = 10_000;

/// A page of the feed, lowest number first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The events.
    pub items: Vec<ListedEvent>,
    /// The number to go on after.
    pub last: u64,
    /// Whether there are more.
    pub has_more: bool,
}

/// The use cases.
#[derive(Clone)]
pub struct PostbackService {
    ports: PostbackPorts,
}

impl PostbackService {
    /// Over these ports.
    pub const fn new(ports: PostbackPorts) -> Self {
        Self { ports }
    }

    /// A page of an integrator's events.
    pub async fn list(
        &self,
        integrator_id: IntegratorId,
        query: EventQuery,
    ) -> Result<EventPage, ServiceError> {
        let (after, limit) = (query.after, query.limit);
        let more = EventQuery { limit: limit.saturating_add(1), ..query };
        let mut items = self.ports.stores.events.events(integrator_id, more).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map_or(after, |listed| listed.event.number);
        Ok(EventPage { items, last, has_more })
    }

    /// The event that an integrator names.
    pub async fn find(&self, integrator_id: IntegratorId, id: &str) -> Result<ListedEvent, ServiceError> {
        let key = EventKey::parse(integrator_id, id).ok_or(ServiceError::NotFound)?;
        self.ports.stores.events.event(key).await?.ok_or(ServiceError::NotFound)
    }

    /// The event that an integrator names, and the attempts to deliver it, oldest first.
    pub async fn attempts(
        &self,
        integrator_id: IntegratorId,
        id: &str,
    ) -> Result<(ListedEvent, Vec<Attempt>), ServiceError> {
        let listed = self.find(integrator_id, id).await?;
        let attempts = self.ports.stores.deliveries.attempts(listed.event.key).await?;
        Ok((listed, attempts))
    }

    /// Delivers an event once more, whatever came of it before.
    pub async fn redeliver(
        &self,
        integrator_id: IntegratorId,
        id: &str,
    ) -> Result<ListedEvent, ServiceError> {
        let listed = self.find(integrator_id, id).await?;
        let Some(url) = listed.postback_url() else {
            return Err(ServiceError::InvalidState(
                "this event has nowhere to go: its transaction has no postbackUrl, or it is one that is only listed",
            ));
        };
        let lane = Lane::of(integrator_id, url);
        let now = self.ports.clock.now();
        if self.ports.stores.deliveries.redeliver(listed.event.key, lane, now).await? {
            self.find(integrator_id, id).await
        } else {
            Err(ServiceError::NotFound)
        }
    }

    /// Delivers once more what `query` names, at most [`MAX_REPLAYED`] at once; how many.
    pub async fn replay(&self, integrator_id: IntegratorId, query: ReplayQuery) -> Result<u64, ServiceError> {
        let query = ReplayQuery { limit: query.limit.min(MAX_REPLAYED), ..query };
        Ok(self.ports.stores.deliveries.replay(integrator_id, query, self.ports.clock.now()).await?)
    }

    /// Whether postbacks can ever go there.
    pub fn check(&self, url: &PostbackUrl) -> Result<(), Invalid> {
        self.ports.urls.check(url).map_err(|refusal| Invalid::new(refusal.code, refusal.message))
    }

    /// Sends a signed trial to a URL now, and says what came of it and how long it took.
    pub async fn try_out(
        &self,
        integrator_id: IntegratorId,
        url: PostbackUrl,
    ) -> Result<(Reply, Duration), ServiceError> {
        self.check(&url).map_err(|problem| ServiceError::Invalid { field: "url", problem })?;
        let secrets = self.ports.secrets.live(integrator_id).await.map_err(|error| match error {
            SecretError::Store(error) => error.into(),
            other => ServiceError::Store(crate::error::StoreError::Damaged(other.to_string())),
        })?;
        let sent_at = self.ports.clock.now();
        let message_id = format!("evt_ping_{}", self.ports.ids.next().simple());
        let body = self.ports.bodies.ping(&message_id, sent_at);
        let parcel = Parcel { url, message_id, event: "ping".to_owned(), body, sent_at, secrets };
        let reply = self.ports.sender.send(parcel).await;
        Ok((reply, self.ports.clock.now().since(sent_at)))
    }

    /// The endpoints of an integrator that have failed lately.
    pub async fn endpoints(&self, integrator_id: IntegratorId) -> Result<Vec<Endpoint>, ServiceError> {
        Ok(self.ports.stores.deliveries.endpoints(integrator_id).await?)
    }

    /// Switches an endpoint on again.
    pub async fn enable(&self, integrator_id: IntegratorId, id: EndpointId) -> Result<(), ServiceError> {
        let found = self.ports.stores.deliveries.forget_endpoint(integrator_id, id).await?;
        found.then_some(()).ok_or(ServiceError::NotFound)
    }
}
