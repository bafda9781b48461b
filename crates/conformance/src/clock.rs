//! A clock that stands still until it is moved.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use pix_domain::time::{Clock, Timestamp};

/// 2026-01-15 12:00:00 UTC: where a clock stands when nothing else is asked for.
pub const NOON: Timestamp = Timestamp::from_micros(1_768_478_400_000_000);

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct FixedClock {
    now: AtomicI64,
    right_for_ms: AtomicU64,
}

/// [`FixedClock`]'s `right_for_ms` while it isn't right at all.
const WRONG: u64 = u64::MAX;

impl FixedClock {
    /// A clock that stands at `now`.
    pub const fn at(now: Timestamp) -> Self {
        Self { now: AtomicI64::new(now.micros()), right_for_ms: AtomicU64::new(WRONG - 1) }
    }

    /// Makes it right since that long and no longer; `None` for not right at all. Before, it has always been right.
    pub fn right_for(&self, span: Option<Duration>) {
        let millis = span.map_or(WRONG, |span| u64::try_from(span.as_millis()).unwrap_or(WRONG - 1));
        self.right_for_ms.store(millis, Ordering::SeqCst);
    }

    /// Moves it to `now`.
    pub fn set(&self, now: Timestamp) {
        self.now.store(now.micros(), Ordering::SeqCst);
    }

    /// Moves it on.
    pub fn advance(&self, span: Duration) {
        self.set(self.now().plus(span));
    }
}

impl Default for FixedClock {
    fn default() -> Self {
        Self::at(NOON)
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst))
    }

    fn is_right_for(&self, span: Duration) -> bool {
        let right_for_ms = self.right_for_ms.load(Ordering::SeqCst);
        right_for_ms != WRONG && span <= Duration::from_millis(right_for_ms)
    }
}
