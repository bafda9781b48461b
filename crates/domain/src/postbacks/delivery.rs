//! The outbox: which events wait to be delivered, and what became of each attempt.
//!
//! A delivery is written by the transition of its event, so there is one exactly when the event happened. It waits until
//! it is due; whoever takes it up has it for a lease, and says under that lease what came of it. Per record they go in
//! the order of the events: one whose predecessor still waits isn't handed out. Deliveries of one integrator to one
//! receiver are a [`Lane`]; lanes are taken in turn, so that one with a million waiting is in nobody's way.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::StoreError;
use crate::ids::IntegratorId;
use crate::postbacks::events::{EventKey, ListedEvent};
use crate::provider::digest;
use crate::text::PostbackUrl;
use crate::time::Timestamp;
use crate::transition::EventKind;

/// The most attempts of one event that a store answers with, newest last.
pub const MAX_LISTED_ATTEMPTS: u32 = 100;

/// What one integrator sends to one receiver (scheme, host and port).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub Uuid);

impl Lane {
    /// The lane of an integrator's URL.
    pub fn of(integrator_id: IntegratorId, url: &PostbackUrl) -> Self {
        Self(digest(&["lane", &integrator_id.to_string(), url.origin()]))
    }
}

/// A receiver's address as far as it is switched off and on: a URL without its query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub Uuid);

impl EndpointId {
    /// The endpoint of an integrator's URL.
    pub fn of(integrator_id: IntegratorId, url: &PostbackUrl) -> Self {
        Self(digest(&["endpoint", &integrator_id.to_string(), url.without_query()]))
    }
}

/// Why an endpoint is sent nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffReason {
    /// It answered 410 Gone.
    Gone,
    /// It has failed for [`FAILING_MAX`](crate::postbacks::relay::FAILING_MAX).
    Failing,
}

impl OffReason {
    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }

    /// The reason with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Gone, Self::Failing].into_iter().find(|reason| reason.as_str() == name)
    }
}

/// An endpoint that has failed lately. One that works is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id.
    pub id: EndpointId,
    /// Whose it is.
    pub integrator_id: IntegratorId,
    /// Its URL without the query.
    pub address: String,
    /// Since when it has failed, without a success between.
    pub failing_since: Timestamp,
    /// When it was last tried, in vain.
    pub failed_at: Timestamp,
    /// The stable code of the last failure.
    pub failure: String,
    /// When it was switched off, and why.
    pub off: Option<(Timestamp, OffReason)>,
}

impl Endpoint {
    /// The same failure as the first since it last worked: whoever told of it had seen an older one, and didn't know that it
    /// has worked since.
    #[must_use]
    pub fn anew(self) -> Self {
        let off = self.off.filter(|(_, reason)| *reason == OffReason::Gone);
        Self { failing_since: self.failed_at, off, ..self }
    }

    /// The next failure of one that is kept. What is off stays off; and it isn't switched off for failing since a time before
    /// it last worked.
    #[must_use]
    pub fn after(self, kept: &Self) -> Self {
        let has_worked = kept.failing_since > self.failing_since;
        let off = self.off.filter(|(_, reason)| *reason == OffReason::Gone || !has_worked);
        Self { failing_since: kept.failing_since, off: kept.off.or(off), ..self }
    }
}

/// Why a delivery is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// Every attempt of the schedule has failed.
    Exhausted,
    /// Its endpoint is switched off.
    EndpointOff,
    /// Its URL is one that postbacks never go to.
    Forbidden,
    /// The record it is about has no postback URL any more, or can't be read.
    Undeliverable,
}

impl DeadReason {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Exhausted, Self::EndpointOff, Self::Forbidden, Self::Undeliverable];

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::EndpointOff => "endpoint_off",
            Self::Forbidden => "forbidden",
            Self::Undeliverable => "undeliverable",
        }
    }

    /// The reason with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryState {
    /// What is to become of it.
    pub standing: Standing,
    /// How many attempts are behind it since it was first due, or last asked for again.
    pub attempts: u32,
}

/// What is to become of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is tried at that time; while it is being tried, when its lease ends.
    Waiting(Timestamp),
    /// The receiver has taken it.
    Delivered,
    /// It is given up, until somebody asks for it again.
    Dead(DeadReason),
}

/// A delivery that this worker has until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// The event.
    pub key: EventKey,
    /// Its lane.
    pub lane: Lane,
    /// How many attempts are behind it.
    pub attempts: u32,
    /// How many times it was taken up, this time included: with `until`, what the lease is known by.
    pub claims: u32,
    /// When the lease ends.
    pub until: Timestamp,
}

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What is due at this time is taken.
    pub now: Timestamp,
    /// For so long.
    pub lease: Duration,
    /// Lanes after this one; `None` from the first on.
    pub after: Option<Lane>,
    /// At most so many lanes are looked at.
    pub lanes: u32,
    /// At most so many deliveries of one lane are taken.
    pub per_lane: u32,
    /// None of these lanes: this worker has enough of them.
    pub except: Vec<Lane>,
}

/// What was taken up in a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    /// Deliveries.
    pub deliveries: Vec<ClaimedDelivery>,
    /// The last lane that was looked at; `None` when there is no further one.
    pub last: Option<Lane>,
}

/// One attempt, for the list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its own id.
    pub id: Uuid,
    /// When it began.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub took_ms: u32,
    /// The HTTP status, when the receiver answered.
    pub status: Option<u16>,
    /// A stable code: `delivered`, `status`, `timeout`, …
    pub outcome: String,
    /// The beginning of the answer.
    pub excerpt: String,
}

/// What an attempt says of its endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointNews {
    /// Nothing new.
    Nothing,
    /// It works again.
    Works(EndpointId),
    /// It failed. A store that knows it to fail keeps the time since which it does, and that it is off if it is; one that
    /// doesn't keeps it [anew](Endpoint::anew).
    Fails(Box<Endpoint>),
}

/// What came of a claimed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The delivery.
    pub claimed: ClaimedDelivery,
    /// The attempt, when there was one.
    pub attempt: Option<Attempt>,
    /// Where it stands now.
    pub standing: Standing,
    /// What it says of its endpoint.
    pub endpoint: EndpointNews,
}

/// Which deliveries are asked for again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplayQuery {
    /// Of events at this time or later.
    pub since: Option<Timestamp>,
    /// Of events before this time.
    pub until: Option<Timestamp>,
    /// Of these kinds; none means all.
    pub kinds: Vec<EventKind>,
    /// Those that were delivered too, and not only those given up.
    pub delivered: bool,
    /// How many at the most, lowest number first.
    pub limit: u32,
}

/// How many deliveries there are of each kind, at most [`MAX_COUNTED`] each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// That wait.
    pub waiting: u64,
    /// That were given up.
    pub dead: u64,
    /// Endpoints that are switched off.
    pub endpoints_off: u64,
    /// When the oldest that waits happened.
    pub oldest_at: Option<Timestamp>,
}

/// Counting stops here.
pub const MAX_COUNTED: u32 = 100_000;

/// Where deliveries are kept.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait DeliveryStore: Send + Sync {
    /// Takes up what is due, lane by lane, the most overdue of each lane first, and puts each off to the end of its lease
    /// with one claim more, in one step, so that two workers never have the same one within a lease. MUST NOT take one
    /// while one of the same record with a smaller sequence waits.
    async fn take(&self, turn: Turn) -> Result<Taken, StoreError>;

    /// The events of deliveries, with their records; those that can't be found are left out.
    async fn load(&self, keys: Vec<EventKey>) -> Result<Vec<ListedEvent>, StoreError>;

    /// The endpoints with these ids, of those that have failed lately.
    async fn endpoints_of(&self, ids: Vec<EndpointId>) -> Result<Vec<Endpoint>, StoreError>;

    /// Says what came of claimed deliveries, each on its own. An attempt is kept in any case; where the delivery stands is
    /// changed only while nobody else has taken it up since, and the next one of its record, if it waits, is due then. How
    /// many were changed.
    async fn tell(&self, results: Vec<DeliveryReport>, now: Timestamp) -> Result<u64, StoreError>;

    /// The attempts of an event, oldest first, at most the last [`MAX_LISTED_ATTEMPTS`].
    async fn attempts(&self, key: EventKey) -> Result<Vec<Attempt>, StoreError>;

    /// Makes an event's delivery wait again, due at `now` with no attempt behind it, whatever came of it before; makes one
    /// in `lane` if there was none. `false` when there is no such public event.
    async fn redeliver(&self, key: EventKey, lane: Lane, now: Timestamp) -> Result<bool, StoreError>;

    /// As [`Self::redeliver`], for all of an integrator that `query` names and that don't wait; how many it was.
    async fn replay(
        &self,
        integrator_id: IntegratorId,
        query: ReplayQuery,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// The endpoints of an integrator that have failed lately.
    async fn endpoints(&self, integrator_id: IntegratorId) -> Result<Vec<Endpoint>, StoreError>;

    /// Forgets that an endpoint has failed, and so switches it on; `false` when there is no such endpoint.
    async fn forget_endpoint(&self, integrator_id: IntegratorId, id: EndpointId) -> Result<bool, StoreError>;

    /// Removes up to `limit` deliveries that don't wait, of events before `before`, with their attempts; how many.
    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError>;

    /// How much waits and was given up, over all integrators.
    async fn backlog(&self) -> Result<Backlog, StoreError>;
}
