//! Callbacks of the settlement provider: kept first, as they came; understood later.
//!
//! A callback is a hint that something happened. It names a record by our reference; the provider is asked about that
//! record, and its answer counts. So a forged callback costs a question (a few, about what the
//! provider doesn't know), a repeated one changes nothing, and one that
//! comes before our own answer, or while the provider can't be asked, is looked at again. None is lost: it is stored
//! before it is answered, and taken up by a lease, on any node, until it led to an answer or is given up.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::{ServiceError, StoreError};
use crate::ports::Ports;
use crate::provider::digest;
use crate::schedule;
use crate::time::Timestamp;
use crate::transactions::{ProviderAnswer, TransactionService};

/// How long a callback that is being worked on is hidden from other workers.
pub const CALLBACK_LEASE: Duration = Duration::from_mins(1);

/// How many times a callback is looked at that leads to nothing, with the waits of [`schedule::OUTGOING_WAITS`]: over about
/// four hours. While the provider can't be asked, it is looked at for as long as that lasts.
pub const MAX_CALLBACK_ATTEMPTS: u32 = 20;

/// The most characters that are kept of a callback that names no record.
pub const MAX_UNREADABLE_CHARS: usize = 512;

/// A callback as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Callback {
    /// Its own id.
    pub id: Uuid,
    /// When it came.
    pub received_at: Timestamp,
    /// The record that it names, by our reference; `None` when it names none.
    pub reference: Option<Uuid>,
    /// What it said.
    pub body: String,
}

/// Redacted: a body names people.
impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Callback({}, {:?}, {} bytes)", self.id, self.reference, self.body.len())
    }
}

impl Callback {
    /// A number of 128 bits that stands for what it said.
    pub fn digest(&self) -> Uuid {
        digest(&[&self.body])
    }
}

/// What became of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallbackEnd {
    /// The provider was asked, and what it answered was applied.
    Learnt,
    /// No record of ours has that reference.
    Unmatched,
    /// It names no record.
    Unreadable,
    /// The provider never gave an answer about it.
    GivenUp,
}

impl CallbackEnd {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Learnt, Self::Unmatched, Self::Unreadable, Self::GivenUp];

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Learnt => "learnt",
            Self::Unmatched => "unmatched",
            Self::Unreadable => "unreadable",
            Self::GivenUp => "given_up",
        }
    }

    /// The end with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == name)
    }
}

/// Where a stored callback stands when it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackState {
    /// It waits until then.
    Waiting(Timestamp),
    /// It is done with.
    Ended(CallbackEnd),
}

/// A callback that this worker has until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedCallback {
    /// The callback.
    pub callback: Callback,
    /// How many times it was taken up, this time included.
    pub attempts: u32,
    /// When the lease ends: what it is known by to be still this worker's.
    pub until: Timestamp,
}

/// Where callbacks are kept.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait CallbackStore: Send + Sync {
    /// Keeps a callback, durably. One that waits has one attempt behind it. `false`, with nothing kept, when one that said
    /// the same is waiting already: that one then waits a microsecond longer, so that whoever is working on it, and may have
    /// asked before this one came, can't say that it ended. It needn't for one that is kept in the same step as itself: nobody
    /// has begun by then.
    async fn keep(&self, callback: Callback, state: CallbackState) -> Result<bool, StoreError>;

    /// Takes up to `limit` callbacks whose time has come at `now`, most overdue first, and puts each off to `now + lease`
    /// with one attempt more, in one step, so that two workers never have the same one within a lease.
    async fn claim(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<ClaimedCallback>, StoreError>;

    /// Says where a claimed callback stands now. MUST do nothing when somebody else has taken it up since.
    async fn put(&self, claimed: &ClaimedCallback, state: CallbackState) -> Result<(), StoreError>;

    /// Where a callback stands and how many attempts are behind it.
    async fn look_up(&self, id: Uuid) -> Result<Option<(CallbackState, u32)>, StoreError>;

    /// Removes up to `limit` callbacks that ended and were received before `before`; how many it was.
    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError>;
}

/// Keeps callbacks and works on them.
#[derive(Clone)]
pub struct CallbackService {
    ports: Ports,
    transactions: TransactionService,
}

impl CallbackService {
    /// A service over `ports`.
    pub fn new(ports: Ports) -> Self {
        Self { transactions: TransactionService::new(ports.clone()), ports }
    }

    /// Keeps a callback that names `reference`, as it came. The one to be worked on, when there is work: a repeated one is
    /// at work already, and one that names nothing leads nowhere.
    pub async fn keep(
        &self,
        reference: Option<Uuid>,
        body: String,
    ) -> Result<Option<ClaimedCallback>, StoreError> {
        let received_at = self.ports.clock.now();
        let mut callback = Callback { id: self.ports.ids.next(), received_at, reference, body };
        let store = &self.ports.stores.callbacks;
        if reference.is_none() {
            callback.body = callback.body.chars().take(MAX_UNREADABLE_CHARS).collect();
            store.keep(callback, CallbackState::Ended(CallbackEnd::Unreadable)).await?;
            return Ok(None);
        }
        let until = received_at.plus(CALLBACK_LEASE);
        let claimed = ClaimedCallback { callback, attempts: 1, until };
        let kept = store.keep(claimed.callback.clone(), CallbackState::Waiting(until)).await?;
        Ok(kept.then_some(claimed))
    }

    /// Takes up callbacks whose time has come, at most `limit`; none while the clock isn't right.
    pub async fn claim(&self, limit: u32) -> Result<Vec<ClaimedCallback>, StoreError> {
        let now = self.ports.clock.now();
        if !self.ports.is_clock_right() {
            return Ok(Vec::new());
        }
        self.ports.stores.callbacks.claim(now, CALLBACK_LEASE, limit).await
    }

    /// Asks the provider about what a callback names, and applies the answer. An error leaves it to be taken up again when
    /// its lease ends.
    pub async fn process(&self, claimed: ClaimedCallback) -> Result<(), ServiceError> {
        let end = self.learn(&claimed).await?;
        let state = match end {
            Ok(end) => CallbackState::Ended(end),
            Err(Some(last)) if claimed.attempts >= MAX_CALLBACK_ATTEMPTS => CallbackState::Ended(last),
            Err(_) => {
                let wait = schedule::outgoing(claimed.attempts.saturating_sub(1));
                let wait = schedule::jittered(wait, claimed.callback.id, claimed.attempts);
                CallbackState::Waiting(self.ports.clock.now().plus(wait))
            }
        };
        Ok(self.ports.stores.callbacks.put(&claimed, state).await?)
    }

    /// How it ended; as an error, how it ends when nothing more is learnt later: not at all while nobody can be asked.
    async fn learn(
        &self,
        claimed: &ClaimedCallback,
    ) -> Result<Result<CallbackEnd, Option<CallbackEnd>>, ServiceError> {
        let Some(reference) = claimed.callback.reference else { return Ok(Ok(CallbackEnd::Unreadable)) };
        let Some(resource) = self.transactions.locate(reference).await? else {
            // It may have overtaken our own answer.
            return Ok(Err(Some(CallbackEnd::Unmatched)));
        };
        let before = match self.transactions.find(resource).await {
            Ok(before) => before,
            Err(ServiceError::NotFound) => return Ok(Ok(CallbackEnd::Unmatched)),
            Err(error) => return Err(error),
        };
        match self.transactions.consult_called_back(before.clone(), claimed).await {
            // What the provider says may be older than what it calls back about, and the next question about the record may
            // be far away: when nothing is new, it is asked once more.
            Ok((after, ProviderAnswer::Known(_)))
                if claimed.attempts == 1 && after.says_no_more_than(&before) =>
            {
                Ok(Err(Some(CallbackEnd::Learnt)))
            }
            Ok((_, ProviderAnswer::Known(_))) => Ok(Ok(CallbackEnd::Learnt)),
            // Who calls back about a record of ours knows it: asked later, the provider will tell more.
            Ok((_, ProviderAnswer::NotKnown)) => Ok(Err(Some(CallbackEnd::GivenUp))),
            // What went back is booked once money may leave again.
            Ok((_, ProviderAnswer::NotAsked(_))) | Err(ServiceError::Restored) => Ok(Err(None)),
            Err(ServiceError::NotFound) => Ok(Ok(CallbackEnd::Unmatched)),
            Err(error) => Err(error),
        }
    }

    /// Removes callbacks that ended and are older than `age`, at most `limit`; how many it was. None while the clock isn't right.
    pub async fn forget(&self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp::from_micros(self.ports.clock.now().micros().saturating_sub(micros));
        if !self.ports.is_clock_right() {
            return Ok(0);
        }
        self.ports.stores.callbacks.forget(before, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_by_their_names() {
        for end in CallbackEnd::ALL {
            assert_eq!(CallbackEnd::from_name(end.as_str()), Some(end));
        }
        assert_eq!(CallbackEnd::from_name("lost"), None);
    }

    #[test]
    fn a_callback_does_not_show_what_it_says() {
        let callback = Callback {
            id: Uuid::nil(),
            received_at: Timestamp::from_micros(0),
            reference: None,
            body: "{\"name\":\"Ana\"}".into(),
        };
        assert!(!format!("{callback:?}").contains("Ana"));
    }
}
