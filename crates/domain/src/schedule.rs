//! When the provider is asked again about what isn't final.

use std::time::Duration;

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

/// The waits between questions about a live charge, whose callback should be quicker: one, five, 15 minutes, then
/// every hour, and once more right after it expires.
pub const CHARGE_WAITS: [Duration; 4] =
    [Duration::from_mins(1), Duration::from_mins(5), Duration::from_mins(15), Duration::from_hours(1)];

/// How long an outgoing movement may be unknown or unsettled before an operator is to look at it: an outgoing PIX may
/// sit in precautionary analysis for 60 minutes at night (BCB), and 65 is past that.
pub const NEEDS_REVIEW_AFTER: Duration = Duration::from_mins(65);

/// How long a movement that was definitely not sent waits for a provider that can't be reached before it fails.
pub const QUEUE_MAX_AGE: Duration = Duration::from_mins(15);

/// The wait after `attempts` questions about an outgoing movement.
pub fn outgoing(attempts: u32) -> Duration {
    nth(&OUTGOING_WAITS, attempts)
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
    }
}
