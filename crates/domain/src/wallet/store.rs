//! Where wallets and their books are read. They are written by [`TransitionStore`](crate::transition::TransitionStore)
//! alone.

use async_trait::async_trait;

use uuid::Uuid;

use super::{Entry, Reason, Wallet};
use crate::error::StoreError;
use crate::ids::IntegratorId;
use crate::time::Timestamp;

/// Which entries of a book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryQuery {
    /// With a number above this.
    pub after: u64,
    /// With a number below this.
    pub before: u64,
    /// For these reasons; none means all.
    pub reasons: Vec<Reason>,
    /// Of the record with this id alone.
    pub resource_id: Option<Uuid>,
    /// Made at this time or later.
    pub created_from: Option<Timestamp>,
    /// Made before this time.
    pub created_to: Option<Timestamp>,
    /// From the last to the first, instead of from the first to the last.
    pub newest_first: bool,
    /// How many at the most. A store answers with exactly that many when there are.
    pub limit: u32,
}

impl EntryQuery {
    /// The first `limit` entries with a number above `after`, in order.
    pub const fn after(after: u64, limit: u32) -> Self {
        Self {
            after,
            before: u64::MAX,
            reasons: Vec::new(),
            resource_id: None,
            created_from: None,
            created_to: None,
            newest_first: false,
            limit,
        }
    }

    /// Whether `entry` is one of those.
    pub fn wants(&self, entry: &Entry) -> bool {
        entry.number > self.after
            && entry.number < self.before
            && (self.reasons.is_empty() || self.reasons.contains(&entry.posting.reason))
            && self.resource_id.is_none_or(|id| entry.posting.resource.id == id)
            && self.created_from.is_none_or(|from| entry.at >= from)
            && self.created_to.is_none_or(|to| entry.at < to)
    }
}

/// Where wallets are read.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait WalletStore: Send + Sync {
    /// The wallet. MUST be an empty one for an integrator without movements. MUST NOT come from a replica.
    async fn wallet(&self, integrator_id: IntegratorId) -> Result<Wallet, StoreError>;

    /// Those entries of the book, in the order of their numbers, or the other way round.
    async fn entries(
        &self,
        integrator_id: IntegratorId,
        query: &EntryQuery,
    ) -> Result<Vec<Entry>, StoreError>;
}
