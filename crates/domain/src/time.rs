//! Time as a port: the domain never reads a clock of its own.

use std::time::Duration;

/// An instant in microseconds since 1970-01-01 00:00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// `micros` microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// This instant `span` later; saturates at the end of the range.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This instant `span` earlier; saturates at the end of the range.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero when it isn't.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Where "now" comes from.
///
/// An implementation MUST return business time (UTC); it need not be monotonic.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Whether it is right, as far as it knows, and has been for `span`. One that was set or began to run within `span` says
    /// no: then how long ago something was is no proof. While it isn't even right for no time, nothing is taken up and
    /// no money goes out.
    fn is_right_for(&self, span: Duration) -> bool {
        let _ = span;
        true
    }
}
