//! Time and fresh identifiers: the one place of this crate that asks the machine for either. It owns their
//! written forms, and must never know what they mark.

use std::time::{Duration, Instant};

use chrono::{DateTime, FixedOffset, SecondsFormat, TimeDelta, Utc};
use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
use tokio::sync::watch;
use uuid::Uuid;

/// `America/Sao_Paulo`; Brazil has had no daylight saving since 2019 (Decreto 9.772/2019).
const SAO_PAULO_OFFSET_SECONDS: i32 = 3 * 3_600;
/// The participant code in the ids made here: nobody's.
const SIMULATOR_ISPB: &str = "99999999";
const ID_TAIL_LENGTH: usize = 11;
const ID_TAIL_RADIX: u32 = 36;

/// How the simulator's time passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Time {
    /// As the machine's does, and faster when it is moved on.
    #[default]
    Real,
    /// Only when it is moved on, so that a test decides when a delay is over.
    Manual,
}

/// The simulator's time, and the end of it: whoever waits is woken when the simulator stops.
pub(crate) struct Timeline {
    time: Time,
    began: Instant,
    began_at: DateTime<Utc>,
    moved: watch::Sender<Moved>,
}

#[derive(Clone, Copy, Default)]
struct Moved {
    by: Duration,
    ended: bool,
}

impl Timeline {
    pub(crate) fn new(time: Time) -> Self {
        Self {
            time,
            began: Instant::now(),
            began_at: machine_now(),
            moved: watch::Sender::new(Moved::default()),
        }
    }

    /// The time now.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        let from = match self.time {
            Time::Real => machine_now(),
            Time::Manual => self.began_at,
        };
        let by = TimeDelta::from_std(self.moved.borrow().by).unwrap_or(TimeDelta::MAX);
        from.checked_add_signed(by).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// How long the simulator has been running.
    pub(crate) fn elapsed(&self) -> Duration {
        let passed = match self.time {
            Time::Real => self.began.elapsed(),
            Time::Manual => Duration::ZERO,
        };
        passed.saturating_add(self.moved.borrow().by)
    }

    /// Moves the time on. Whoever waited for a time that is now over goes on.
    pub(crate) fn advance(&self, by: Duration) {
        self.moved.send_modify(|moved| moved.by = moved.by.saturating_add(by));
    }

    /// Ends all waiting, now and from now on.
    pub(crate) fn end(&self) {
        self.moved.send_modify(|moved| moved.ended = true);
    }

    /// When `span` from now is over, for [`Timeline::sleep_until`].
    pub(crate) fn after(&self, span: Duration) -> Duration {
        self.elapsed().saturating_add(span)
    }

    /// Waits. False when the simulator stopped before the time was over.
    pub(crate) async fn sleep(&self, span: Duration) -> bool {
        self.sleep_until(self.after(span)).await
    }

    /// Waits until the simulator has run this long. False when it stopped before.
    pub(crate) async fn sleep_until(&self, until: Duration) -> bool {
        let mut moved = self.moved.subscribe();
        loop {
            if moved.borrow_and_update().ended {
                return false;
            }
            let left = until.saturating_sub(self.elapsed());
            if left.is_zero() {
                return true;
            }
            tokio::select! {
                // The sender lives as long as `self`.
                _ = moved.changed() => {}
                () = tokio::time::sleep(left), if self.time == Time::Real => {}
            }
        }
    }
}

/// The time of the machine.
#[expect(
    clippy::disallowed_methods,
    reason = "a provider stands outside the gateway and has a clock of its own"
)]
fn machine_now() -> DateTime<Utc> {
    DateTime::from(std::time::SystemTime::now())
}

/// A transaction id: 32 lower-case hexadecimal characters that sort by time.
pub(crate) fn fresh_id() -> String {
    fresh_uuid().simple().to_string()
}

/// `E` or `D`, participant, minute in UTC, 11 alphanumerics (BCB, API Pix: `endToEndId`, `rtrId`).
pub(crate) fn end_to_end_id(prefix: char, now: DateTime<Utc>) -> String {
    let mut rest = fresh_uuid().as_u128();
    let tail: String = (0..ID_TAIL_LENGTH)
        .filter_map(|_| {
            let digit = u32::try_from(rest % u128::from(ID_TAIL_RADIX)).ok()?;
            rest /= u128::from(ID_TAIL_RADIX);
            char::from_digit(digit, ID_TAIL_RADIX)
        })
        .collect();
    format!("{prefix}{SIMULATOR_ISPB}{}{tail}", now.format("%Y%m%d%H%M"))
}

#[expect(clippy::disallowed_methods, reason = "the simulator's one source of ids")]
fn fresh_uuid() -> Uuid {
    Uuid::now_v7()
}

/// RFC 3339 in UTC, to the microsecond.
pub(crate) fn utc(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// `YYYY-MM-DD HH:MM:SS` in Brasília time, as the classic contract writes times.
pub(crate) fn local(at: DateTime<Utc>) -> String {
    FixedOffset::west_opt(SAO_PAULO_OFFSET_SECONDS)
        .map_or_else(|| utc(at), |zone| at.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S").to_string())
}

/// Writes a time into the durable log.
pub(crate) fn serialize<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc(*at))
}

/// Reads a time from the durable log.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    let text = String::deserialize(deserializer)?;
    DateTime::parse_from_rfc3339(&text).map(|at| at.with_timezone(&Utc)).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn manual_time_passes_when_it_is_moved_and_waiting_ends_with_the_simulator() {
        let timeline = Timeline::new(Time::Manual);
        let before = timeline.now();
        let minute = Duration::from_mins(1);
        let (whole, ()) = tokio::join!(timeline.sleep(minute), async { timeline.advance(minute) });
        assert!(whole);
        assert_eq!(timeline.now() - before, TimeDelta::seconds(60));
        let (whole, ()) = tokio::join!(timeline.sleep(minute), async { timeline.end() });
        assert!(!whole && !timeline.sleep(Duration::ZERO).await);
    }

    #[tokio::test]
    async fn real_time_is_moved_on_too() {
        let timeline = Timeline::new(Time::Real);
        let (whole, ()) = tokio::join!(timeline.sleep(Duration::from_hours(9)), async {
            timeline.advance(Duration::from_hours(9));
        });
        assert!(whole);
        assert!(timeline.now() - machine_now() > TimeDelta::hours(8));
    }

    #[test]
    fn identifiers_have_the_published_form() {
        let at = DateTime::parse_from_rfc3339("2026-10-07T07:41:05Z").unwrap().with_timezone(&Utc);
        let (first, second) = (end_to_end_id('E', at), end_to_end_id('E', at));
        assert!(first.starts_with("E99999999202610070741"));
        assert_eq!(first.len(), 32);
        assert!(first.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_ne!(first, second);
        assert_eq!(fresh_id().len(), 32);
        assert_eq!(local(at), "2026-10-07 04:41:05");
        assert_eq!(utc(at), "2026-10-07T07:41:05.000000Z");
    }
}
