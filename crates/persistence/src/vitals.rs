//! What operators are told of a store: sums, what is overdue, how the connections are used. It decides nothing.

use pix_domain::ids::ResourceRef;
use pix_domain::time::Timestamp;

/// Counting stops here.
pub const MAX_COUNTED: u32 = 100_000;

/// What is due and nobody has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overdue {
    /// How much, at most [`MAX_COUNTED`] of each table.
    pub count: u64,
    /// Since when the most overdue is; `None` when nothing is.
    pub since: Option<Timestamp>,
}

/// How the whole database is, over all integrators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vitals {
    /// The sum of what wallets have available, in centavos.
    pub available_cents: u64,
    /// The sum of what is held, in centavos.
    pub held_cents: u64,
    /// The sum of what is owed, in centavos.
    pub owed_cents: u64,
    /// Records that the provider is to be asked about.
    pub follow_ups: Overdue,
    /// Callbacks of the provider that are to be worked on.
    pub callbacks: Overdue,
    /// Postbacks that are to be sent.
    pub deliveries: Overdue,
}

/// How connections, or places in a queue, are used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// What they are for.
    pub pool: &'static str,
    /// How many are in use.
    pub used: usize,
    /// How many are there and wait for use.
    pub idle: usize,
    /// How many there may be.
    pub max: usize,
    /// How many callers wait for one.
    pub waiting: usize,
}

impl PoolUse {
    /// What a pool says of itself.
    pub(crate) fn of(pool: &'static str, status: &deadpool::Status) -> Self {
        Self {
            pool,
            used: status.size.saturating_sub(status.available),
            idle: status.available,
            max: status.max_size,
            waiting: status.waiting,
        }
    }
}

/// The first `limit` of `found`, by when they were last sent.
pub(crate) fn oldest(mut found: Vec<(Timestamp, ResourceRef)>, limit: u32) -> Vec<ResourceRef> {
    found.sort_unstable();
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    found.into_iter().map(|(_, resource)| resource).collect()
}
