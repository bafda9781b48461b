//! The statement: an integrator's own book, read in pages, newest first.
//!
//! The numbers of a book have no gaps, and a page's cursor is a number: so pages neither skip nor repeat an entry while
//! others are being written, and those between two times are found by halving, without an index on time.

use std::time::Duration;

use uuid::Uuid;

use super::{Entry, Reason};
use crate::error::ServiceError;
use crate::ids::IntegratorId;
use crate::list::{Cursor, DEFAULT_PER_PAGE, Page};
use crate::ports::Ports;
use crate::time::Timestamp;
use crate::wallet::store::EntryQuery;

/// By how much the times of two entries may contradict the order of their numbers: nodes have clocks of their own, and
/// an entry has the time at which it was decided on.
pub const MAX_DISORDER: Duration = Duration::from_hours(1);

/// Which entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementQuery {
    /// For these reasons; none means all.
    pub reasons: Vec<Reason>,
    /// Of this record alone.
    pub resource_id: Option<Uuid>,
    /// Made at this time or later.
    pub created_from: Option<Timestamp>,
    /// Made before this time.
    pub created_to: Option<Timestamp>,
    /// From where: the number of an entry.
    pub cursor: Option<Cursor<u64>>,
    /// How many entries at the most.
    pub limit: u32,
}

impl Default for StatementQuery {
    /// All of them, [`DEFAULT_PER_PAGE`] at a time.
    fn default() -> Self {
        Self {
            reasons: Vec::new(),
            resource_id: None,
            created_from: None,
            created_to: None,
            cursor: None,
            limit: DEFAULT_PER_PAGE,
        }
    }
}

/// Reads statements.
#[derive(Clone)]
pub struct StatementService {
    ports: Ports,
}

impl StatementService {
    /// A service over `ports`.
    pub const fn new(ports: Ports) -> Self {
        Self { ports }
    }

    /// A page of the integrator's book, newest first. Errors are those of the store.
    pub async fn page(
        &self,
        integrator_id: IntegratorId,
        query: StatementQuery,
    ) -> Result<Page<Entry>, ServiceError> {
        let StatementQuery { reasons, resource_id, created_from, created_to, cursor, limit } = query;
        // No record has entries from before it was given its id, and none has an id of another kind.
        let born = resource_id.map(made_at);
        if let Some(None) = born {
            return Ok(Page { items: Vec::new(), has_older: false, has_newer: false });
        }
        let born = born.flatten().map(|at| at.minus(MAX_DISORDER));
        let (first, end) = self.bounds(integrator_id, created_from.max(born), created_to).await?;
        let (after, before, newest_first) = match cursor {
            Some(Cursor::NewerThan(number)) => (first.max(number), end, false),
            Some(Cursor::OlderThan(number)) => (first, end.min(number), true),
            None => (first, end, true),
        };
        let wanted = EntryQuery {
            after,
            before,
            reasons,
            resource_id,
            created_from,
            created_to,
            newest_first,
            limit: limit.saturating_add(1),
        };
        let mut entries = self.ports.stores.wallets.entries(integrator_id, &wanted).await?;
        if !newest_first {
            entries.reverse();
        }
        Ok(Page::trim(entries, cursor, limit))
    }

    /// Numbers between which all entries are that were made from `from` to `to`, when no two contradict the order of their numbers by
    /// more than `disorder`: above the first, below the second. Errors are those of the store.
    pub(crate) async fn numbers_between(
        &self,
        integrator_id: IntegratorId,
        from: Timestamp,
        to: Timestamp,
        disorder: Duration,
    ) -> Result<(u64, u64), ServiceError> {
        let all = self.ports.stores.wallets.wallet(integrator_id).await?.entries;
        let (early, late) = (from.minus(disorder), to.plus(disorder));
        let first = self.last_until(integrator_id, all, |at| at < early).await?;
        let last = self.last_until(integrator_id, all, |at| at <= late).await?;
        Ok((first, last.saturating_add(1)))
    }

    /// The number of an entry that was made before `at`, with all entries after it made at most [`MAX_DISORDER`] before that, or
    /// later; 0 for none. Errors are those of the store.
    pub async fn last_before(&self, integrator_id: IntegratorId, at: Timestamp) -> Result<u64, ServiceError> {
        self.bounds(integrator_id, Some(at), None).await.map(|(first, _)| first)
    }

    /// Numbers between which all entries from `from` to `to` are: above the first, below the second.
    async fn bounds(
        &self,
        integrator_id: IntegratorId,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> Result<(u64, u64), ServiceError> {
        if from.is_none() && to.is_none() {
            return Ok((0, u64::MAX));
        }
        let all = self.ports.stores.wallets.wallet(integrator_id).await?.entries;
        let first = match from {
            Some(from) => {
                let early = from.minus(MAX_DISORDER);
                self.last_until(integrator_id, all, |at| at < early).await?
            }
            None => 0,
        };
        let end = match to {
            Some(to) => {
                let late = to.plus(MAX_DISORDER);
                self.last_until(integrator_id, all, |at| at < late).await?.saturating_add(1)
            }
            None => u64::MAX,
        };
        // What was written since `all` was read is newer than that.
        Ok((first, if end > all { u64::MAX } else { end }))
    }

    /// The number of an entry that `is_early`, and whose next one is not; 0 when none is. By halving: as many reads of one
    /// entry as `all` has binary digits.
    async fn last_until(
        &self,
        integrator_id: IntegratorId,
        all: u64,
        is_early: impl Fn(Timestamp) -> bool + Send + Sync,
    ) -> Result<u64, ServiceError> {
        let (mut early, mut late) = (0, all.saturating_add(1));
        while late - early > 1 {
            let middle = early + (late - early) / 2;
            let one = EntryQuery::after(middle - 1, 1);
            let found = self.ports.stores.wallets.entries(integrator_id, &one).await?;
            match found.first() {
                Some(entry) if is_early(entry.at) => early = middle,
                _ => late = middle,
            }
        }
        Ok(early)
    }
}

/// When a record with a `UUIDv7` (RFC 9562), or one bound to a handle, was given its id.
fn made_at(id: Uuid) -> Option<Timestamp> {
    // Its first 48 bits are milliseconds since 1970.
    let millis = i64::try_from(id.as_u128() >> 80).ok().filter(|_| matches!(id.get_version_num(), 7 | 8))?;
    Some(Timestamp::from_micros(millis.saturating_mul(1_000)))
}
