//! Credentials that were found right a moment ago, so that a client who asks a token per call costs no hash each time.
//!
//! Holds no secret: what is kept is a keyed `BLAKE2b` of the stored hash and the secret, under a key of this process.
//! As the stored hash is part of it, a changed secret is never found. Never knows what a wrong secret is.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use blake2::Blake2bMac512;
use blake2::digest::{KeyInit, Mac};
use pix_domain::credentials::SecretHash;
use zeroize::Zeroizing;

/// How many right credentials are remembered.
pub const MAX_VERIFIED: usize = 10_000;
/// For how long.
pub const VERIFIED_TTL: Duration = Duration::from_mins(5);

/// Stands for one stored hash with its right secret.
pub(super) type Seal = [u8; 64];

/// A bounded map of seals to when they were found right.
pub(super) struct Verified {
    key: Zeroizing<[u8; 64]>,
    since: Mutex<HashMap<Seal, Instant>>,
}

impl Verified {
    pub(super) fn new(key: Zeroizing<[u8; 64]>) -> Self {
        Self { key, since: Mutex::default() }
    }

    /// The seal of `secret` for `hash`. The length of `hash` comes first, so that no two pairs run together.
    pub(super) fn seal(&self, hash: &SecretHash, secret: &str) -> Seal {
        let mut mac = Blake2bMac512::new((&*self.key).into());
        mac.update(&u64::try_from(hash.0.len()).unwrap_or(u64::MAX).to_le_bytes());
        mac.update(hash.0.as_bytes());
        mac.update(secret.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Whether `seal` was found right less than [`VERIFIED_TTL`] before `now`.
    pub(super) fn contains(&self, seal: &Seal, now: Instant) -> bool {
        self.lock().get(seal).is_some_and(|since| is_fresh(*since, now))
    }

    /// Remembers that `seal` was found right at `now`; the oldest one gives way when there is no room.
    pub(super) fn insert(&self, seal: Seal, now: Instant) {
        let mut map = self.lock();
        if map.len() >= MAX_VERIFIED && !map.contains_key(&seal) {
            map.retain(|_, since| is_fresh(*since, now));
            if map.len() >= MAX_VERIFIED
                && let Some(oldest) = map.iter().min_by_key(|(_, since)| **since).map(|(seal, _)| *seal)
            {
                map.remove(&oldest);
            }
        }
        map.insert(seal, now);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Seal, Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < VERIFIED_TTL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified() -> Verified {
        Verified::new(Zeroizing::new([7; 64]))
    }

    fn hash(text: &str) -> SecretHash {
        SecretHash(text.to_owned())
    }

    fn numbered(number: usize) -> Seal {
        let mut seal = [0; 64];
        seal[..8].copy_from_slice(&number.to_le_bytes());
        seal
    }

    #[test]
    fn a_seal_depends_on_the_hash_the_secret_and_the_key() {
        let verified = verified();
        let seal = verified.seal(&hash("ab"), "cd");
        assert_eq!(seal, verified.seal(&hash("ab"), "cd"));
        assert_ne!(seal, verified.seal(&hash("abc"), "d"));
        assert_ne!(seal, verified.seal(&hash("ab"), "ce"));
        assert_ne!(seal, verified.seal(&hash("aB"), "cd"));
        assert_ne!(seal, Verified::new(Zeroizing::new([8; 64])).seal(&hash("ab"), "cd"));
    }

    #[test]
    fn a_seal_is_forgotten_after_its_time() {
        let (verified, start) = (verified(), Instant::now());
        verified.insert(numbered(1), start);
        assert!(verified.contains(&numbered(1), start));
        assert!(verified.contains(&numbered(1), start + Duration::from_millis(299_999)));
        assert!(!verified.contains(&numbered(1), start + VERIFIED_TTL));
        assert!(!verified.contains(&numbered(2), start));
    }

    #[test]
    fn a_full_map_forgets_its_oldest_seal() {
        let (verified, start) = (verified(), Instant::now());
        for number in 0..=MAX_VERIFIED {
            let later = start + Duration::from_micros(u64::try_from(number).unwrap());
            verified.insert(numbered(number), later);
        }
        assert_eq!(verified.lock().len(), MAX_VERIFIED);
        assert!(!verified.contains(&numbered(0), start));
        assert!(verified.contains(&numbered(1), start));
        assert!(verified.contains(&numbered(MAX_VERIFIED), start));
    }

    #[test]
    fn a_full_map_drops_all_that_is_stale() {
        let (verified, start) = (verified(), Instant::now());
        for number in 0..MAX_VERIFIED {
            verified.insert(numbered(number), start);
        }
        verified.insert(numbered(MAX_VERIFIED), start + VERIFIED_TTL);
        assert_eq!(verified.lock().len(), 1);
    }

    #[test]
    fn finding_a_seal_right_again_takes_nobodys_place() {
        let (verified, start) = (verified(), Instant::now());
        for number in 0..MAX_VERIFIED {
            verified.insert(numbered(number), start);
        }
        verified.insert(numbered(5), start + Duration::from_secs(1));
        assert_eq!(verified.lock().len(), MAX_VERIFIED);
    }
}
