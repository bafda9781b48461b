//! Delivering what is due.
//!
//! | Step | Does |
//! |---|---|
//! | [`Relay::take`] | takes up deliveries by a lease, a few of each lane |
//! | [`Relay::prepare`] | reads their events and makes what is sent; says of some that they can't be |
//! | [`Relay::attempt`] | sends one |
//! | [`Relay::tell`] | says what came of them |
//!
//! Killed between any two of them, a delivery is taken up again when its lease ends: an event may arrive twice, with the
//! same id, and is never lost. How many at once and in which order is the business of whoever runs it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use crate::error::StoreError;
use crate::ids::{Ids, IntegratorId};
use crate::postbacks::delivery::{
    Attempt, Backlog, ClaimedDelivery, DeadReason, DeliveryReport, DeliveryStore, Endpoint, EndpointId,
    EndpointNews, Lane, OffReason, Standing, Taken, Turn,
};
use crate::postbacks::events::{EventKey, EventStore, ListedEvent};
use crate::postbacks::secrets::{PostbackSecretStore, PostbackSecrets, SecretError};
use crate::postbacks::send::{Parcel, PostbackSecret, PostbackSender, PostbackUrls, Reply};
use crate::schedule;
use crate::text::PostbackUrl;
use crate::time::{Clock, Timestamp};

/// The waits before the attempts of one delivery (Standard Webhooks 1.0, deliverability): at once, five seconds, five
/// minutes, half an hour, two hours, five, ten, 14, 20, and a day. Some 75 hours in all.
pub const ATTEMPT_WAITS: [Duration; 10] = [
    Duration::ZERO,
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(14),
    Duration::from_hours(20),
    Duration::from_hours(24),
];

/// The longest that a receiver's `Retry-After` is heeded.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// How long an endpoint may fail, without a success between, before it is switched off.
pub const FAILING_MAX: Duration = Duration::from_hours(120);

/// How long a delivery that is being worked on is hidden from other workers.
pub const DELIVERY_LEASE: Duration = Duration::from_mins(1);

/// How much of its lease must be left when a delivery is sent: the sender's own bound, and time to tell.
pub const LEASE_MARGIN: Duration = Duration::from_secs(20);

/// Makes the bodies of postbacks: the public form of events is the interface's business.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait PostbackBodies: Send + Sync {
    /// The body of an event's postback, of at most some kilobytes; `None` when its record isn't of its kind.
    fn body(&self, event: &ListedEvent) -> Option<String>;

    /// The body of a trial, which is no event.
    fn ping(&self, message_id: &str, at: Timestamp) -> String;
}

/// Where events and deliveries are kept.
#[derive(Clone)]
pub struct PostbackStores {
    /// Events.
    pub events: Arc<dyn EventStore>,
    /// Deliveries.
    pub deliveries: Arc<dyn DeliveryStore>,
    /// Secrets.
    pub secrets: Arc<dyn PostbackSecretStore>,
}

impl PostbackStores {
    /// One store that is all of them.
    pub fn of<S: EventStore + DeliveryStore + PostbackSecretStore + 'static>(store: Arc<S>) -> Self {
        Self { events: store.clone(), deliveries: store.clone(), secrets: store }
    }
}

/// What postbacks stand on.
#[derive(Clone)]
pub struct PostbackPorts {
    /// Events and deliveries.
    pub stores: PostbackStores,
    /// Secrets.
    pub secrets: PostbackSecrets,
    /// The way out.
    pub sender: Arc<dyn PostbackSender>,
    /// Where it leads.
    pub urls: Arc<dyn PostbackUrls>,
    /// What is sent.
    pub bodies: Arc<dyn PostbackBodies>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
}

/// A delivery that can be sent.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The delivery.
    pub claimed: ClaimedDelivery,
    /// What is sent; its time is set when it is.
    pub parcel: Parcel,
    /// The endpoint, if it has failed lately.
    failing: Option<Endpoint>,
}

impl Ready {
    /// Where it goes, as far as that is switched off and on.
    pub fn endpoint_id(&self) -> EndpointId {
        EndpointId::of(self.claimed.key.resource.integrator_id, &self.parcel.url)
    }

    /// Whether its endpoint had failed lately when this was made.
    pub const fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// The same, now that its endpoint is known to work.
    #[must_use]
    pub fn forgiven(self) -> Self {
        Self { failing: None, ..self }
    }

    /// Gives it up, with nothing sent.
    pub fn give_up(self, reason: DeadReason) -> DeliveryReport {
        DeliveryReport::dead(self.claimed, reason)
    }
}

impl DeliveryReport {
    fn dead(claimed: ClaimedDelivery, reason: DeadReason) -> Self {
        Self { claimed, attempt: None, standing: Standing::Dead(reason), endpoint: EndpointNews::Nothing }
    }
}

/// What is to be done with a delivery that was taken up.
#[derive(Debug, Clone)]
pub enum Prepared {
    /// Send it.
    Send(Box<Ready>),
    /// It can't be sent: tell.
    Tell(Box<DeliveryReport>),
}

/// Delivers.
#[derive(Clone)]
pub struct Relay {
    ports: PostbackPorts,
}

impl Relay {
    /// Over these ports.
    pub const fn new(ports: PostbackPorts) -> Self {
        Self { ports }
    }

    /// The present instant, by which leases end.
    pub fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    /// Takes up what is due, of at most `lanes` lanes after `after` and none of `except`, at most `per_lane` of each; nothing
    /// while the clock isn't right.
    pub async fn take(
        &self,
        after: Option<Lane>,
        lanes: u32,
        per_lane: u32,
        except: Vec<Lane>,
    ) -> Result<Taken, StoreError> {
        let now = self.ports.clock.now();
        if !self.ports.clock.is_right_for(Duration::ZERO) {
            return Ok(Taken::default());
        }
        let turn = Turn { now, lease: DELIVERY_LEASE, after, lanes, per_lane, except };
        self.ports.stores.deliveries.take(turn).await
    }

    /// Reads the events of deliveries and makes what is sent. One that is in neither list can't be signed now, which is
    /// in the error; it comes again when its lease ends.
    pub async fn prepare(
        &self,
        taken: Vec<ClaimedDelivery>,
    ) -> Result<(Vec<Prepared>, Option<SecretError>), StoreError> {
        let keys: Vec<EventKey> = taken.iter().map(|claimed| claimed.key).collect();
        let deliveries = &self.ports.stores.deliveries;
        let events: BTreeMap<EventKey, ListedEvent> =
            deliveries.load(keys).await?.into_iter().map(|listed| (listed.event.key, listed)).collect();
        let endpoint = |listed: &ListedEvent| {
            let integrator_id = listed.event.key.resource.integrator_id;
            listed.postback_url().map(|url| EndpointId::of(integrator_id, url))
        };
        let mut ids: Vec<EndpointId> = events.values().filter_map(endpoint).collect();
        ids.sort_unstable();
        ids.dedup();
        let failing: BTreeMap<EndpointId, Endpoint> =
            deliveries.endpoints_of(ids).await?.into_iter().map(|endpoint| (endpoint.id, endpoint)).collect();
        let mut secrets: BTreeMap<IntegratorId, Result<Vec<PostbackSecret>, SecretError>> = BTreeMap::new();
        let mut prepared = Vec::with_capacity(taken.len());
        let mut unsigned = None;
        for claimed in taken {
            let integrator_id = claimed.key.resource.integrator_id;
            let dead = |reason| DeliveryReport::dead(claimed.clone(), reason);
            let listed = events.get(&claimed.key);
            let sent = listed.and_then(|listed| {
                let url = listed.postback_url()?;
                Some((url.clone(), listed.event.kind.public_name()?, self.ports.bodies.body(listed)?))
            });
            let Some((url, event, body)) = sent else {
                prepared.push(Prepared::Tell(Box::new(dead(DeadReason::Undeliverable))));
                continue;
            };
            let failing = failing.get(&EndpointId::of(integrator_id, &url)).cloned();
            if failing.as_ref().is_some_and(|endpoint| endpoint.off.is_some()) {
                prepared.push(Prepared::Tell(Box::new(dead(DeadReason::EndpointOff))));
                continue;
            }
            if self.ports.urls.check(&url).is_err() {
                prepared.push(Prepared::Tell(Box::new(dead(DeadReason::Forbidden))));
                continue;
            }
            let signed = match secrets.entry(integrator_id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => unknown.insert(self.ports.secrets.live(integrator_id).await),
            };
            match signed {
                Ok(secrets) => {
                    let parcel = Parcel {
                        url,
                        message_id: claimed.key.public_id(),
                        event: event.to_owned(),
                        body,
                        sent_at: self.ports.clock.now(),
                        secrets: secrets.clone(),
                    };
                    prepared.push(Prepared::Send(Box::new(Ready { claimed, parcel, failing })));
                }
                Err(error) => unsigned = Some(error.clone()),
            }
        }
        Ok((prepared, unsigned))
    }

    /// Sends one; `None`, with nothing sent, when too little of its lease is left; and when it failed while the clock wasn't right:
    /// then it is sent again when its lease is over.
    pub async fn attempt(&self, ready: Ready) -> Option<DeliveryReport> {
        let Ready { claimed, mut parcel, failing } = ready;
        let now = self.ports.clock.now();
        if claimed.until.since(now) < LEASE_MARGIN {
            return None;
        }
        parcel.sent_at = now;
        let url = parcel.url.clone();
        let reply = self.ports.sender.send(parcel).await;
        let ended = self.ports.clock.now();
        // How long the endpoint has failed, and when it is tried again, would be told wrongly.
        if !reply.is_success() && !self.ports.clock.is_right_for(Duration::ZERO) {
            return None;
        }
        let attempt = Attempt {
            id: self.ports.ids.next(),
            at: now,
            took_ms: u32::try_from(ended.since(now).as_millis()).unwrap_or(u32::MAX),
            status: reply.status(),
            outcome: reply.outcome(),
            excerpt: reply.excerpt(),
        };
        Some(conclude(claimed, attempt, &reply, &url, failing, ended))
    }

    /// Says what came of deliveries.
    pub async fn tell(&self, reports: Vec<DeliveryReport>) -> Result<u64, StoreError> {
        self.ports.stores.deliveries.tell(reports, self.ports.clock.now()).await
    }

    /// Removes up to `limit` deliveries of events that are older than `keep` and don't wait; how many. None while the clock isn't
    /// right.
    pub async fn forget(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        let keep = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp::from_micros(self.ports.clock.now().micros().saturating_sub(keep));
        if !self.ports.clock.is_right_for(Duration::ZERO) {
            return Ok(0);
        }
        self.ports.stores.deliveries.forget(before, limit).await
    }

    /// How much waits and was given up.
    pub async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.ports.stores.deliveries.backlog().await
    }
}

impl Reply {
    /// Whether the receiver has taken it.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Answered { status: 200..=299, .. })
    }

    /// The HTTP status, when there was an answer.
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Answered { status, .. } => Some(*status),
            Self::Forbidden(_) | Self::Failed(_) => None,
        }
    }

    /// A stable code: `delivered`, `status`, `forbidden_…`, or that of the failure.
    pub fn outcome(&self) -> String {
        match self {
            Self::Answered { .. } if self.is_success() => "delivered".to_owned(),
            Self::Answered { .. } => "status".to_owned(),
            Self::Forbidden(refusal) => format!("forbidden_{}", refusal.code),
            Self::Failed(code) => (*code).to_owned(),
        }
    }

    /// The beginning of the answer.
    pub fn excerpt(&self) -> String {
        match self {
            Self::Answered { excerpt, .. } => excerpt.clone(),
            Self::Forbidden(refusal) => refusal.message.clone(),
            Self::Failed(_) => String::new(),
        }
    }

    const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answered { status: 429 | 503, retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// What an attempt means for its delivery and its endpoint.
fn conclude(
    claimed: ClaimedDelivery,
    attempt: Attempt,
    reply: &Reply,
    url: &PostbackUrl,
    failing: Option<Endpoint>,
    now: Timestamp,
) -> DeliveryReport {
    let integrator_id = claimed.key.resource.integrator_id;
    let id = EndpointId::of(integrator_id, url);
    if reply.is_success() {
        let endpoint = if failing.is_some() { EndpointNews::Works(id) } else { EndpointNews::Nothing };
        return DeliveryReport { claimed, attempt: Some(attempt), standing: Standing::Delivered, endpoint };
    }
    let failing_since = failing.map_or(now, |endpoint| endpoint.failing_since);
    let off = if reply.status() == Some(410) {
        Some(OffReason::Gone)
    } else if now.since(failing_since) >= FAILING_MAX {
        Some(OffReason::Failing)
    } else {
        None
    };
    let failure = reply.status().map_or_else(|| attempt.outcome.clone(), |status| format!("status_{status}"));
    let address = url.without_query().to_owned();
    let endpoint = Endpoint {
        id,
        integrator_id,
        address,
        failing_since,
        failed_at: now,
        failure,
        off: off.map(|reason| (now, reason)),
    };
    let behind = claimed.attempts.saturating_add(1);
    let next = ATTEMPT_WAITS.get(usize::try_from(behind).unwrap_or(usize::MAX));
    // Whether it has failed for all that time is for the store to say: another node may have just seen it work. If it is
    // switched off, the next attempt finds that.
    let standing = match (off, next) {
        (Some(OffReason::Gone), _) => Standing::Dead(DeadReason::EndpointOff),
        (_, None) => Standing::Dead(DeadReason::Exhausted),
        (_, Some(wait)) => {
            let wait = schedule::jittered(*wait, claimed.key.resource.id, behind);
            let asked = reply.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
            Standing::Waiting(now.plus(wait.max(asked)))
        }
    };
    DeliveryReport {
        claimed,
        attempt: Some(attempt),
        standing,
        endpoint: EndpointNews::Fails(Box::new(endpoint)),
    }
}

#[cfg(test)]
mod tests;
