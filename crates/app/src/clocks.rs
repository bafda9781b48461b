//! This machine's clock beside the database's, by which nodes see how far apart they are from each other.

use std::time::Duration;

use anyhow::ensure;
use pix_domain::error::StoreError;
use pix_domain::time::{Clock, Timestamp};

use crate::store::Store;
use crate::system::SystemClock;

/// More apart than this, and what is decided by time is decided wrongly: who has a lease, how long ago money was sent, whether
/// a "not known" counts.
/// Two nodes may be twice as far from each other, which is well within what leases have to spare.
pub const TOO_FAR_APART: Duration = Duration::from_secs(5);

/// How far apart they are; `None` when the database is on this machine.
pub async fn apart(store: &Store) -> Result<Option<Duration>, StoreError> {
    let before = SystemClock.now();
    let theirs = store.vitals.clock().await?;
    // The machine's own clock is compared, whatever the gateway's is told to say.
    #[cfg(feature = "fail-points")]
    let theirs = theirs.map(|theirs| {
        Timestamp::from_micros(theirs.micros().saturating_add(crate::fail_points::clock_ahead_micros()))
    });
    let after = SystemClock.now();
    Ok(theirs.map(|theirs| span(before, theirs, after)))
}

/// Refuses to begin work with a clock that is too far from the database's.
pub async fn refuse(store: &Store) -> anyhow::Result<()> {
    let apart = apart(store).await?.unwrap_or_default();
    ensure!(
        apart <= TOO_FAR_APART,
        "this machine's clock and the database's are {} s apart, so that one node would take for over what another is at: set both by NTP; up to {} s are accepted",
        apart.as_secs(),
        TOO_FAR_APART.as_secs()
    );
    Ok(())
}

/// Whether somebody has a lease of that length until then. One that ends later than any does is of a clock gone wrong.
pub fn is_held(until: Timestamp, now: Timestamp, lease: Duration) -> bool {
    until > now && until <= now.plus(lease).plus(TOO_FAR_APART).plus(TOO_FAR_APART)
}

/// How far their clock is from ours, if they looked at it between those two times.
fn span(before: Timestamp, theirs: Timestamp, after: Timestamp) -> Duration {
    // `since` is zero for what is earlier.
    before.since(theirs).max(theirs.since(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_within_the_time_of_the_question() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let seconds = |theirs| span(at(100), at(theirs), at(102)).as_secs();
        assert_eq!([99, 100, 101, 102, 103].map(seconds), [1, 0, 0, 0, 1]);
        assert_eq!([69, 133].map(seconds), [31, 31]);
    }

    #[test]
    fn a_lease_is_held_by_who_is_a_little_ahead_and_not_by_who_is_far() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let held = |until| is_held(at(until), at(1_000), Duration::from_mins(1));
        assert_eq!([1_000, 1_001, 1_060, 1_070, 1_071].map(held), [false, true, true, true, false]);
    }
}
