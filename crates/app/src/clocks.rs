//! This machine's clock beside the database's, by which nodes see how far apart they are from each other.

use std::sync::{Mutex, MutexGuard, PoisonError};
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
/// Whether a clock goes on as a timer does, and is near to the database's.
#[derive(Debug)]
pub struct Steadiness(Mutex<Looked>);

/// What is known of it. In microseconds.
#[derive(Debug, Clone, Copy)]
struct Looked {
    /// What the clock was before the timer when it was last followed, and when that was by the timer; `None` before anybody has looked.
    followed: Option<(i64, i64)>,
    /// Since when it is steady, by the timer.
    steady_since: i64,
    /// The timer, when it was last looked at.
    timer: i64,
    /// How often it was set.
    leaps: u64,
    /// How many of these there had been when it was last compared with the database's.
    compared: u64,
    /// Whether it was too far from the database's then.
    is_astray: bool,
}

impl Looked {
    const fn is_right(&self) -> bool {
        self.leaps == self.compared && !self.is_astray
    }
}

impl Steadiness {
    /// Of a clock that nobody has looked at.
    pub const fn new() -> Self {
        Self(Mutex::new(Looked {
            followed: None,
            steady_since: 0,
            timer: 0,
            leaps: 0,
            compared: 0,
            is_astray: false,
        }))
    }

    fn looked(&self) -> MutexGuard<'_, Looked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes notice of what the clock and the timer say at this moment. The first time, it begins to be steady.
    pub fn look(&self, clock: i64, timer: i64) {
        let ahead = clock.saturating_sub(timer);
        let mut looked = self.looked();
        looked.timer = looked.timer.max(timer);
        match looked.followed {
            None => looked.steady_since = timer,
            Some((before, _)) if ahead.saturating_sub(before).saturating_abs() > micros(LEAP) => {
                looked.steady_since = looked.timer;
                looked.leaps = looked.leaps.saturating_add(1);
            }
            Some((_, at)) if timer.saturating_sub(at) < micros(FOLLOWED) => return,
            Some(_) => {}
        }
        looked.followed = Some((ahead, timer));
    }

    /// Whether it is right, and has been for so long.
    pub fn is_right_for(&self, span: Duration) -> bool {
        let looked = self.looked();
        looked.is_right() && looked.timer.saturating_sub(looked.steady_since) >= micros(span)
    }

    /// How often it was set.
    fn leaps(&self) -> u64 {
        self.looked().leaps
    }

    /// Takes notice of how far it was from the database's, if that is another machine's, after so many `leaps`. If it was set since,
    /// that says nothing of what it is now.
    fn compared(&self, apart: Option<Duration>, leaps: u64) {
        let is_astray = apart.is_some_and(|apart| apart > TOO_FAR_APART);
        let (was_set, was_astray) = {
            let mut looked = self.looked();
            let was = (looked.compared < leaps, looked.is_astray);
            if was.1 && !is_astray {
                // Until now it was wrong, however steady.
                looked.steady_since = looked.timer;
            }
            (looked.compared, looked.is_astray) = (leaps, is_astray);
            was
        };
        let (apart_s, most_s) = (apart.unwrap_or_default().as_secs(), TOO_FAR_APART.as_secs());
        if was_set {
            tracing::warn!(
                apart_s,
                "this machine's clock was set while the gateway ran: for a while no time that has passed proves anything"
            );
        }
        if is_astray && !was_astray {
            tracing::error!(
                apart_s,
                most_s,
                "this machine's clock and the database's are too far apart: this node takes up no work and sends no money \
                 until both are set right, by NTP"
            );
        } else if was_astray && !is_astray {
            tracing::warn!(apart_s, "this machine's clock and the database's are near each other again");
        }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Compares the clocks every `interval`, for as long as the process runs; and every second, or `interval` if that is shorter, while
/// this one isn't right. What can't be compared is as it was.
pub fn watch(store: Store, interval: Duration) {
    tokio::spawn(async move {
        let mut compare_at = Instant::now() + interval;
        loop {
            tokio::time::sleep(LOOK.min(interval)).await;
            if Instant::now() < compare_at && SystemClock.is_right_for(Duration::ZERO) {
                continue;
            }
            let leaps = STEADINESS.leaps();
            match apart(&store).await {
                Ok(apart) => STEADINESS.compared(apart, leaps),
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
            steadiness.compared(None, steadiness.leaps());
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
        let leaps = steadiness.leaps();
        steadiness.look(5_000 * SECOND, 0);
        steadiness.compared(Some(Duration::ZERO), leaps);
        assert!(!steadiness.is_right_for(Duration::ZERO));
        steadiness.compared(Some(Duration::ZERO), steadiness.leaps());
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
