//! A clock that stands still until it is moved.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pix_domain::time::{Clock, Timestamp};

/// 2026-01-15 12:00:00 UTC: where a clock stands when nothing else is asked for.
pub const NOON: Timestamp = Timestamp::from_micros(1_768_478_400_000_000);

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock that stands at `now`.
    pub const fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.micros()))
    }

    /// Moves it to `now`.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.micros(), Ordering::SeqCst);
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
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
