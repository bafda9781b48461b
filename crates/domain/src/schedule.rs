//! When the provider is asked again about what isn't final.

use std::time::Duration;

use uuid::Uuid;

use crate::charges::Charge;
use crate::time::Timestamp;

/// The waits between questions about an outgoing movement (or a charge that the provider has not confirmed): five
/// seconds, 15 seconds, a minute, five minutes, then every 15 minutes.
pub const OUTGOING_WAITS: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(15),
];

/// The longest wait between questions about what may or may not have happened. "Not known" is proof when it was heard
/// twice, so that two questions must fit into the five minutes in which everything is to be certain again once the
/// provider can be asked.
pub const UNCERTAIN_MAX_WAIT: Duration = Duration::from_mins(2);

/// The waits between questions about a live charge, whose callback should be quicker: one, five, 15 minutes, then
/// every hour, and once more right after it expires.
pub const CHARGE_WAITS: [Duration; 4] =
    [Duration::from_mins(1), Duration::from_mins(5), Duration::from_mins(15), Duration::from_hours(1)];

/// How long an outgoing movement may be unknown or unsettled before an operator is to look at it: an outgoing PIX may
/// sit in precautionary analysis for 60 minutes at night (BCB), and 65 is past that.
pub const NEEDS_REVIEW_AFTER: Duration = Duration::from_mins(65);

/// How long a movement that was definitely not sent waits for a provider that can't be reached before it fails.
pub const QUEUE_MAX_AGE: Duration = Duration::from_mins(15);

/// The waits between questions about a charge that has ended unpaid: an hour, six, a day, three days, and no more. A
/// payment that comes later still is learnt of by its callback, or when somebody asks.
pub const ENDED_CHARGE_WAITS: [Duration; 4] =
    [Duration::from_hours(1), Duration::from_hours(6), Duration::from_hours(24), Duration::from_hours(72)];

/// When to ask about a charge that has ended unpaid, after `attempts` questions; `None` when never again.
pub fn ended_charge(attempts: u32, now: Timestamp) -> Option<Timestamp> {
    let index = usize::try_from(attempts).unwrap_or(usize::MAX);
    ENDED_CHARGE_WAITS.get(index).map(|wait| now.plus(*wait))
}

/// When to ask about a canceled charge next, after `attempts` questions: as about a live one until its time is over, since a
/// provider need not have removed its code; and then as long as about one that has ended. `None` when never again.
pub fn canceled_charge(charge: &Charge, attempts: u32, now: Timestamp) -> Option<Timestamp> {
    if now < charge.expires_at {
        return Some(pending_charge(charge, attempts, now));
    }
    let mut at = charge.expires_at;
    ENDED_CHARGE_WAITS.iter().find_map(|wait| {
        at = at.plus(*wait);
        (at > now).then_some(at)
    })
}

/// `wait`, shortened by up to a tenth, so that what failed together is not asked about together again. The same for
/// the same record and attempt.
pub fn jittered(wait: Duration, id: Uuid, attempts: u32) -> Duration {
    const PARTS: u32 = 1 << 10;
    let bits = (id.as_u128() >> (attempts % 48)) & u128::from(PARTS - 1);
    let part = u32::try_from(bits).unwrap_or(0);
    wait.saturating_sub(wait / 10 * part / PARTS)
}

/// The wait after `attempts` questions about an outgoing movement.
pub fn outgoing(attempts: u32) -> Duration {
    nth(&OUTGOING_WAITS, attempts)
}

/// The wait after `attempts` questions about what may or may not have happened.
pub fn uncertain(attempts: u32) -> Duration {
    outgoing(attempts).min(UNCERTAIN_MAX_WAIT)
}

/// When to ask about a live charge after `attempts` questions: never later than its expiry, if that is ahead.
pub fn pending_charge(charge: &Charge, attempts: u32, now: Timestamp) -> Timestamp {
    let next = now.plus(nth(&CHARGE_WAITS, attempts));
    if now < charge.expires_at { next.min(charge.expires_at) } else { next }
}

fn nth(waits: &[Duration], attempts: u32) -> Duration {
    let index = usize::try_from(attempts).unwrap_or(usize::MAX);
    waits.get(index).or(waits.last()).copied().unwrap_or(Duration::from_mins(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_then_stay() {
        assert_eq!(outgoing(0), Duration::from_secs(5));
        assert_eq!(outgoing(4), Duration::from_mins(15));
        assert_eq!(outgoing(u32::MAX), Duration::from_mins(15));
        assert_eq!(uncertain(0), Duration::from_secs(5));
        assert_eq!(uncertain(u32::MAX), UNCERTAIN_MAX_WAIT);
    }

    #[test]
    fn jitter_takes_up_to_a_tenth_and_is_spread() {
        let wait = Duration::from_secs(1000);
        let waits: std::collections::BTreeSet<_> =
            (0..100).map(|id| jittered(wait, Uuid::from_u128(id * 7919), 1)).collect();
        assert!(waits.iter().all(|wait| (900..=1000).contains(&wait.as_secs())), "{waits:?}");
        assert!(waits.len() > 50, "{waits:?}");
        assert_eq!(jittered(wait, Uuid::from_u128(5), 2), jittered(wait, Uuid::from_u128(5), 2));
    }

    #[test]
    fn a_charge_that_ended_is_asked_about_for_some_days_and_then_no_more() {
        let now = Timestamp::from_micros(0);
        assert_eq!(ended_charge(0, now), Some(now.plus(Duration::from_hours(1))));
        assert_eq!(ended_charge(4, now), None);
    }
}
