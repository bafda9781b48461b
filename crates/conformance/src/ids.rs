//! Ids in sequence: the same ones every time.

use std::sync::atomic::{AtomicU64, Ordering};

use pix_domain::ids::Ids;
use uuid::{Builder, Uuid};

/// The milliseconds in the first id: [`NOON`](crate::clock::NOON).
const FIRST_MILLIS: u64 = 1_768_478_400_000;

/// Increasing ids of the form of a `UUIDv7` (RFC 9562 §5.7). Two instances with different seeds never share one.
#[derive(Debug)]
pub struct SequencedIds {
    seed: u64,
    next: AtomicU64,
}

impl SequencedIds {
    /// The sequence of that seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed, next: AtomicU64::new(1) }
    }
}

impl Default for SequencedIds {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Ids for SequencedIds {
    fn next(&self) -> Uuid {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let mut rest = [0; 10];
        rest[2..].copy_from_slice(&self.seed.to_be_bytes());
        Builder::from_unix_timestamp_millis(FIRST_MILLIS + number, &rest).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_and_are_told_apart_by_their_seed() {
        let (one, other) = (SequencedIds::new(1), SequencedIds::new(2));
        let ids: Vec<_> = (0..100).map(|_| one.next()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        assert!((0..100).all(|_| !ids.contains(&other.next())));
        let again = SequencedIds::new(1);
        assert!(ids.iter().all(|id| *id == again.next()));
    }
}
