//! The one home of the clock, of new ids and of the operating system's random numbers.

use std::fmt::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pix_domain::ids::Ids;
use pix_domain::time::{Clock, Timestamp};
use uuid::Uuid;

use crate::clocks::Steadiness;

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        read().0
    }

    fn is_right_for(&self, span: Duration) -> bool {
        // It may have been set since anybody asked.
        let (_, was_looked_at) = read();
        was_looked_at && STEADINESS.is_right_for(span)
    }
}

/// What the clock says, and whether that could be compared with the timer.
#[expect(clippy::disallowed_methods, reason = "this is the port's one home")]
fn read() -> (Timestamp, bool) {
    let mut micros = 0;
    for _ in 0..READS {
        let timer = timer_micros();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        micros = i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX);
        let is_together = timer_micros().saturating_sub(timer) < AT_ONCE_MICROS;
        // Both go on with what a test moves the clock by: that is no leap.
        #[cfg(feature = "fail-points")]
        let timer = {
            let ahead = crate::fail_points::clock_ahead_micros();
            micros = micros.saturating_add(ahead);
            timer.saturating_add(ahead)
        };
        // Else this thread was held up in between, which looks as if the clock had leapt.
        if is_together {
            STEADINESS.look(micros, timer);
            return (Timestamp::from_micros(micros), true);
        }
    }
    (Timestamp::from_micros(micros), false)
}

/// How often both are read until they are read at once.
const READS: u32 = 3;

/// How steady the machine's clock is: there is one.
pub static STEADINESS: Steadiness = Steadiness::new();

/// Within how long the clock and the timer are read for their difference to tell anything.
const AT_ONCE_MICROS: i64 = 100_000;

/// How long this process runs, by the timer that nobody sets.
fn timer_micros() -> i64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let begun = BEGUN.get_or_init(Instant::now);
    i64::try_from(begun.elapsed().as_micros()).unwrap_or(i64::MAX)
}

/// How far an id's own time may be ahead of the clock.
const MAX_AHEAD: Duration = Duration::from_mins(10);

/// `UUIDs` of version 7.
#[derive(Debug, Clone, Copy)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(clippy::disallowed_methods, reason = "this is the port's one home")]
    fn next(&self) -> Uuid {
        let id = Uuid::now_v7();
        // They go on from the last one after the clock was set back, which is good for a while.
        match self.earliest(SystemClock.now().plus(MAX_AHEAD)) {
            Some(latest) if id >= latest => Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)),
            _ => id,
        }
    }

    fn earliest(&self, at: Timestamp) -> Option<Uuid> {
        let micros = at.micros();
        // Ids have the machine's time, whatever the clock is told to say.
        #[cfg(feature = "fail-points")]
        let micros = micros.saturating_sub(crate::fail_points::clock_ahead_micros());
        let millis = u64::try_from(micros.max(0) / 1_000).ok()?;
        Some(uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid())
    }
}

/// Random bytes of the operating system; `None` when it gave none.
pub fn random_bytes() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).is_ok().then_some(bytes)
}

/// `bytes` random bytes of the operating system, as hexadecimal digits.
pub fn random_hex(bytes: usize) -> anyhow::Result<String> {
    let mut buffer = vec![0_u8; bytes];
    getrandom::fill(&mut buffer)
        .map_err(|error| anyhow::anyhow!("the operating system gave no random numbers: {error}"))?;
    let mut text = String::with_capacity(bytes * 2);
    for byte in buffer {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_lies_between_the_earliest_ones_of_the_times_around_it() {
        let before = SystemClock.now();
        let id = SystemIds.next();
        let after = SystemClock.now();
        let earliest = |at: Timestamp| SystemIds.earliest(at).unwrap();
        assert!(earliest(before) <= id);
        assert!(id < earliest(after.plus(Duration::from_millis(1))));
        assert_eq!(earliest(before).get_version_num(), 7);
        assert!(earliest(Timestamp::from_micros(-1)) < id);
    }
}
