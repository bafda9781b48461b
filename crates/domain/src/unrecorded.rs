//! What became of a sending and the store could not be told: kept in memory, and told again until the store takes it.
//!
//! Whether a movement was refused, or certainly not sent, only the process knows that sent it. Who asks the provider later
//! hears that it isn't known, which proves nothing for a long time or for ever, and its money stays held. So a process
//! whose store was away at the wrong moment remembers, for as long as it lives. Told late is told safely: every change is
//! guarded by the record's version, and by the sending that it is about.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::error::{ServiceError, StoreError};
use crate::evidence::Seen;
use crate::provider::{OutgoingReport, ProviderError};
use crate::refunds::Refund;
use crate::time::Timestamp;
use crate::withdrawals::Withdrawal;

/// The most that is remembered. What is more is left to those who ask the provider.
pub const MAX_UNRECORDED: usize = 10_000;

/// The most that is told in one round, which stands before other work…
pub const TOLD_AT_ONCE: usize = 32;

/// …and how long it takes at the most, but for the one that is being told then.
pub const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// How long a record is looked for whose own intent may not have been kept.
pub const LOOKED_FOR: Duration = Duration::from_mins(15);

/// What was heard and could not be recorded. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Unrecorded(Arc<Mutex<VecDeque<Sending>>>);

/// A sending and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Sending {
    /// What was sent, or was to be, as it was stored for that.
    pub of: Submitted,
    pub heard: Heard,
}

/// A record as it was stored to be sent.
#[derive(Debug, Clone)]
pub(crate) enum Submitted {
    Withdrawal(Box<Withdrawal>),
    Refund(Box<Refund>),
}

/// What became of a sending.
#[derive(Debug, Clone)]
pub(crate) enum Heard {
    /// What the provider answered, and when it was sent.
    Answer(Result<OutgoingReport, ProviderError>, Timestamp),
    /// It was not sent, and this is why.
    NotSent(Seen),
    /// It was not sent, since nobody knows whether the intent is kept with which this evidence came, at this moment.
    NotKept(Uuid, Timestamp),
}

impl Heard {
    /// Whether nobody who asks the provider could find this out as well.
    fn is_known_here_alone(&self) -> bool {
        match self {
            Self::Answer(Ok(_) | Err(ProviderError::Rejected { .. } | ProviderError::Unavailable(_)), _)
            | Self::NotSent(_)
            | Self::NotKept(..) => true,
            Self::Answer(Err(ProviderError::Indeterminate(_) | ProviderError::Mismatch(_)), _) => false,
        }
    }
}

impl Unrecorded {
    /// How much is remembered.
    pub fn len(&self) -> usize {
        self.with(|all| all.len())
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all of it, as a process does that dies.
    pub fn clear(&self) {
        self.with(VecDeque::clear);
    }

    /// Remembers what could not be told because of `error`, when that may end.
    pub(crate) fn remember(&self, of: Submitted, heard: &Heard, error: &ServiceError) {
        if may_end(error) && heard.is_known_here_alone() {
            self.put_back(Sending { of, heard: heard.clone() });
        }
    }

    /// The next to be told. It is put back when it is dropped, unless it [is done](Told::done).
    pub(crate) fn next(&self) -> Option<Told<'_>> {
        self.with(VecDeque::pop_front).map(|sending| Told { all: self, sending: Some(sending) })
    }

    fn put_back(&self, sending: Sending) {
        self.with(|all| {
            if all.len() < MAX_UNRECORDED {
                all.push_back(sending);
            }
        });
    }

    fn with<T>(&self, then: impl FnOnce(&mut VecDeque<Sending>) -> T) -> T {
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether what failed so may be tried again.
pub(crate) const fn may_end(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::Store(StoreError::Unavailable(_) | StoreError::Unknown(_))
            | ServiceError::Contention
            | ServiceError::ProviderUnavailable
            | ServiceError::Restored
    )
}

/// What is being told.
pub(crate) struct Told<'a> {
    all: &'a Unrecorded,
    sending: Option<Sending>,
}

impl Told<'_> {
    pub(crate) const fn sending(&self) -> Option<&Sending> {
        self.sending.as_ref()
    }

    /// It is told, or never can be.
    pub(crate) fn done(mut self) {
        self.sending = None;
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.take() {
            self.all.put_back(sending);
        }
    }
}
