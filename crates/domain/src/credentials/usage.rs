//! When keys were last used, written down now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::store::ApiKeyStore;
use crate::error::StoreError;
use crate::time::Timestamp;

/// A node writes down at most once in so long that a key is used.
pub const LAST_USED_INTERVAL: Duration = Duration::from_mins(1);

/// How many keys a node follows at once; the uses of more are not written down.
pub const MAX_FOLLOWED_KEYS: usize = 50_000;

/// The uses of keys on this node.
pub(super) struct KeyUses {
    keys: Arc<dyn ApiKeyStore>,
    /// When the use of which key was last found due.
    due: Mutex<HashMap<String, Timestamp>>,
}

impl KeyUses {
    pub(super) fn new(keys: Arc<dyn ApiKeyStore>) -> Self {
        Self { keys, due: Mutex::default() }
    }

    /// Whether the use of a key at `now` is to be written down. Who is told so does it: nobody else is told for
    /// [`LAST_USED_INTERVAL`].
    pub(super) fn is_due(&self, public_id: &str, now: Timestamp) -> bool {
        // A clock that was set back must not silence a key.
        let recent = |at: &Timestamp| *at <= now && now.since(*at) < LAST_USED_INTERVAL;
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = due.get_mut(public_id) {
            if recent(at) {
                return false;
            }
            *at = now;
            return true;
        }
        if due.len() >= MAX_FOLLOWED_KEYS {
            due.retain(|_, at| recent(at));
            if due.len() >= MAX_FOLLOWED_KEYS {
                return false;
            }
        }
        due.insert(public_id.to_owned(), now);
        true
    }

    pub(super) async fn write(&self, public_id: &str, at: Timestamp) -> Result<(), StoreError> {
        self.keys.mark_used(public_id, at).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::store::MockApiKeyStore;

    fn uses() -> KeyUses {
        KeyUses::new(Arc::new(MockApiKeyStore::new()))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(0).plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_use_is_due_once_a_minute_for_each_key() {
        let uses = uses();
        assert!(uses.is_due("one", at(0)));
        assert!(!uses.is_due("one", at(59)));
        assert!(uses.is_due("two", at(59)));
        assert!(uses.is_due("one", at(60)));
        assert!(!uses.is_due("one", at(119)));
    }

    #[test]
    fn a_clock_that_is_set_back_silences_no_key() {
        let uses = uses();
        assert!(uses.is_due("one", at(1_000)));
        assert!(uses.is_due("one", at(0)));
    }

    #[test]
    fn the_keys_that_are_followed_are_bounded() {
        let uses = uses();
        for number in 0..MAX_FOLLOWED_KEYS {
            assert!(uses.is_due(&number.to_string(), at(0)));
        }
        assert!(!uses.is_due("one more", at(1)));
        assert!(uses.is_due("one more", at(60)));
        assert_eq!(uses.due.lock().unwrap().len(), 1);
    }
}
