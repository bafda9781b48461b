//! This machine's clock beside the database's, by which nodes see how far apart they are from each other.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use pix_domain::error::StoreError;
use pix_domain::time::{Clock, Timestamp};
use tokio::time::Instant;

use crate::store::Store;
use crate::system::{STEADINESS, SystemClock};

/// More apart than this, and what is decided by time is decided wrongly: who has a lease, how long ago money was sent, whether
/// a "not known" counts.
/// Two nodes may be twice as far from each other, which is well within what leases have to spare.
pub const TOO_FAR_APART: Duration = Duration::from_secs(5);

/// By how much more or less than the timer a clock may have gone on without having been set: daemons that keep it right by
/// degrees do so by less within [`FOLLOWED`].
const LEAP: Duration = Duration::from_secs(1);
/// How often it is followed in what it is kept right by.
const FOLLOWED: Duration = Duration::from_secs(10);
/// How often is looked whether it was set.
const LOOK: Duration = Duration::from_secs(1);
/// No time at all, as a place.
const NEVER: i64 = i64::MIN;

/// Whether a clock goes on as a timer does, and is near to the database's. In microseconds.
#[derive(Debug)]
pub struct Steadiness {
    /// What the clock was before the timer, when it was last followed.
    ahead: AtomicI64,
    /// When that was, by the timer.
    followed_at: AtomicI64,
    /// Since when it is steady, by the timer.
    steady_since: AtomicI64,
    /// The timer, when it was last looked at.
    timer: AtomicI64,
    /// Whether it was set, and nobody has compared it with the database's since.
    is_unsure: AtomicBool,
    /// Whether it was too far from the database's when they were last compared.
    is_astray: AtomicBool,
}

impl Steadiness {
    /// Of a clock that nobody has looked at.
    pub const fn new() -> Self {
        Self {
            ahead: AtomicI64::new(NEVER),
            followed_at: AtomicI64::new(NEVER),
            steady_since: AtomicI64::new(NEVER),
            timer: AtomicI64::new(NEVER),
            is_unsure: AtomicBool::new(false),
            is_astray: AtomicBool::new(false),
        }
    }

    /// Takes notice of what the clock and the timer say at this moment. The first time, it begins to be steady.
    pub fn look(&self, clock: i64, timer: i64) {
        let (ahead, leap) = (clock.saturating_sub(timer), micros(LEAP));
        let before = self.ahead.load(Ordering::Relaxed);
        self.timer.fetch_max(timer, Ordering::Relaxed);
        if before == NEVER {
            self.steady_since.store(timer, Ordering::Relaxed);
        } else if ahead.saturating_sub(before).saturating_abs() > leap {
            self.steady_since.fetch_max(timer, Ordering::Relaxed);
            self.is_unsure.store(true, Ordering::Relaxed);
        } else if timer.saturating_sub(self.followed_at.load(Ordering::Relaxed)) < micros(FOLLOWED) {
            return;
        }
        self.ahead.store(ahead, Ordering::Relaxed);
        self.followed_at.store(timer, Ordering::Relaxed);
    }

    /// Whether it is right, and has been for so long.
    pub fn is_right_for(&self, span: Duration) -> bool {
        let steady = self.timer.load(Ordering::Relaxed).saturating_sub(self.steady_since());
        self.is_right() && steady >= micros(span)
    }

    /// Whether nothing speaks against it.
    pub fn is_right(&self) -> bool {
        !self.is_unsure.load(Ordering::Relaxed) && !self.is_astray.load(Ordering::Relaxed)
    }

    /// Since when it is steady, by the timer.
    fn steady_since(&self) -> i64 {
        self.steady_since.load(Ordering::Relaxed)
    }

    /// Takes notice of how far it was from the database's, if that is another machine's, when it was steady since `since`. If it was
    /// set since, that says nothing of what it is now.
    fn compared(&self, apart: Option<Duration>, since: i64) {
        if self.steady_since() != since {
            return;
        }
        let is_astray = apart.is_some_and(|apart| apart > TOO_FAR_APART);
        let (apart_s, most_s) = (apart.unwrap_or_default().as_secs(), TOO_FAR_APART.as_secs());
        if self.is_unsure.load(Ordering::Relaxed) {
            tracing::warn!(
                apart_s,
                "this machine's clock was set while the gateway ran: for a while no time that has passed proves anything"
            );
        }
        let was_astray = self.is_astray.swap(is_astray, Ordering::Relaxed);
        // After the other, so that it is never right between the two.
        self.is_unsure.store(false, Ordering::Relaxed);
        if is_astray {
            tracing::error!(
                apart_s,
                most_s,
                "this machine's clock and the database's are too far apart: this node takes up no work and sends no money \
                 until both are set right, by NTP"
            );
        } else if was_astray {
            // Until now it was wrong, however steady.
            self.steady_since.fetch_max(self.timer.load(Ordering::Relaxed), Ordering::Relaxed);
            tracing::warn!(apart_s, "this machine's clock and the database's are near each other again");
        }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Compares the clocks every `interval`, for as long as the process runs, and at once when this one was set. What can't be compared is
/// as it was.
pub fn watch(store: Store, interval: Duration) {
    tokio::spawn(async move {
        let mut compare_at = Instant::now() + interval;
        loop {
            tokio::time::sleep(LOOK.min(interval)).await;
            let _ = SystemClock.now();
            if Instant::now() < compare_at && !STEADINESS.is_unsure.load(Ordering::Relaxed) {
                continue;
            }
            let since = STEADINESS.steady_since();
            match apart(&store).await {
                Ok(apart) => STEADINESS.compared(apart, since),
                Err(error) => tracing::debug!(%error, "the database's clock can't be asked for"),
            }
            compare_at = Instant::now() + interval;
        }
    });
}

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

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_clock_that_goes_on_with_the_timer_is_right_for_as_long_as_it_was_looked_at() {
        let steadiness = Steadiness::new();
        steadiness.look(1_000 * SECOND, 5 * SECOND);
        assert!(
            steadiness.is_right_for(Duration::ZERO) && !steadiness.is_right_for(Duration::from_micros(1))
        );
        // Kept right by half a second in every ten, it is followed.
        for ten in 1..=60 {
            steadiness.look((1_000 + ten * 10) * SECOND + ten * SECOND / 2, (5 + ten * 10) * SECOND);
        }
        assert!(steadiness.is_right_for(Duration::from_mins(10)));
        assert!(!steadiness.is_right_for(Duration::from_secs(601)));
    }

    #[test]
    fn a_clock_that_was_set_is_right_when_it_was_compared_and_steady_since_then() {
        for leap in [-3_600, -2, 2, 3_600] {
            let steadiness = Steadiness::new();
            steadiness.look(1_000 * SECOND, 0);
            steadiness.look(1_600 * SECOND, 600 * SECOND);
            assert!(steadiness.is_right_for(Duration::from_mins(10)));
            steadiness.look((1_601 + leap) * SECOND, 601 * SECOND);
            assert!(!steadiness.is_right_for(Duration::ZERO), "{leap}: nobody has compared it");
            steadiness.compared(None, steadiness.steady_since());
            assert!(
                steadiness.is_right_for(Duration::ZERO) && !steadiness.is_right_for(Duration::from_micros(1))
            );
            steadiness.look((1_661 + leap) * SECOND, 661 * SECOND);
            assert!(steadiness.is_right_for(Duration::from_mins(1)));
            assert!(!steadiness.is_right_for(Duration::from_secs(61)), "{leap}");
        }
    }

    #[test]
    fn a_clock_that_was_set_while_it_was_compared_has_to_be_compared_again() {
        let steadiness = Steadiness::new();
        steadiness.look(1_000 * SECOND, 0);
        let since = steadiness.steady_since();
        steadiness.look(5_000 * SECOND, 3 * SECOND);
        steadiness.compared(Some(Duration::ZERO), since);
        assert!(!steadiness.is_right_for(Duration::ZERO));
        steadiness.compared(Some(Duration::ZERO), steadiness.steady_since());
        assert!(steadiness.is_right_for(Duration::ZERO));
    }

    #[test]
    fn a_clock_that_is_far_from_the_databases_is_wrong_until_it_is_near_and_then_begins_anew() {
        let steadiness = Steadiness::new();
        steadiness.look(1_000 * SECOND, 0);
        steadiness.look(1_600 * SECOND, 600 * SECOND);
        steadiness.compared(Some(TOO_FAR_APART), 0);
        assert!(steadiness.is_right_for(Duration::from_mins(10)), "so far is near");
        steadiness.compared(Some(TOO_FAR_APART + Duration::from_millis(1)), 0);
        assert!(!steadiness.is_right_for(Duration::ZERO));
        steadiness.look(1_700 * SECOND, 700 * SECOND);
        steadiness.compared(Some(Duration::ZERO), 0);
        assert!(
            steadiness.is_right_for(Duration::ZERO) && !steadiness.is_right_for(Duration::from_micros(1))
        );
    }

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
