//! Who asks at once on one node for what only one can have waits in order.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_lock::MutexGuardArc;
use uuid::Uuid;

use crate::ids::IntegratorId;

/// Whoever has waited longer in a lane by the clock is told that the store is busy. So a crowd behind a store that hangs
/// is not worked off long after its clients have gone.
pub const LONGEST_IN_LANE: Duration = Duration::from_secs(5);

/// An integrator's key of which the store lets one request at a time have the next place: that of a
/// [`Twin`](crate::transition::Twin).
type Key = (IntegratorId, Uuid);

/// A queue for each key in use, in this process. It makes nothing right or wrong: that two don't take one place is the
/// store's to see. It keeps a crowd from asking the store again and again for the one place there is.
#[derive(Debug, Clone, Default)]
pub struct Lanes(Arc<Mutex<HashMap<Key, Weak<async_lock::Mutex<()>>>>>);

/// What is in lanes; they are free again when this is dropped.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held until it is dropped")] Vec<MutexGuardArc<()>>);

impl Lanes {
    /// Waits until nobody who came before is in one of these lanes of `owner`. Lanes are entered in the order of their
    /// keys, so that no two wait for each other.
    pub async fn enter(&self, owner: IntegratorId, keys: &BTreeSet<Uuid>) -> Place {
        let mut guards = Vec::with_capacity(keys.len());
        for key in keys {
            guards.push(self.lane((owner, *key)).lock_arc().await);
        }
        Place(guards)
    }

    fn lane(&self, key: Key) -> Arc<async_lock::Mutex<()>> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(&key).and_then(Weak::upgrade) {
            return lane;
        }
        // As many as are in use, and not as many as there ever were; looked through once for each time they double.
        if lanes.len() == lanes.capacity() {
            lanes.retain(|_, lane| lane.strong_count() > 0);
        }
        let lane = Arc::new(async_lock::Mutex::new(()));
        lanes.insert(key, Arc::downgrade(&lane));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(number: u128) -> IntegratorId {
        IntegratorId(Uuid::from_u128(number))
    }

    fn keys<const N: usize>(numbers: [u128; N]) -> BTreeSet<Uuid> {
        numbers.map(Uuid::from_u128).into()
    }

    #[tokio::test]
    async fn one_is_in_a_lane_and_others_have_their_own() {
        let lanes = Lanes::default();
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let inside = lanes.enter(owner(1), &keys([1, 2])).await;
        assert!(lanes.lane((owner(1), a)).try_lock().is_none());
        assert!(lanes.lane((owner(1), b)).try_lock().is_none());
        drop(lanes.enter(owner(1), &keys([3])).await);
        drop(lanes.enter(owner(2), &keys([1, 2])).await);
        drop(inside);
        drop(lanes.enter(owner(1), &keys([1, 2])).await);
    }

    #[tokio::test]
    async fn those_who_share_some_lanes_never_wait_for_each_other() {
        let lanes = Lanes::default();
        let pairs = [[1, 2], [2, 3], [3, 1]];
        let crowd = (0..300).map(|number| {
            let (lanes, pair) = (lanes.clone(), pairs[number % 3]);
            tokio::spawn(async move {
                let place = lanes.enter(owner(1), &keys(pair)).await;
                tokio::task::yield_now().await;
                drop(place);
            })
        });
        for done in crowd.collect::<Vec<_>>() {
            done.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_lane_that_nobody_is_in_is_forgotten() {
        let lanes = Lanes::default();
        for number in 0..100 {
            drop(lanes.enter(owner(number), &keys([1])).await);
        }
        let _inside = lanes.enter(owner(1_000), &keys([1])).await;
        drop(lanes.enter(owner(1_001), &keys([1])).await);
        assert!(lanes.0.lock().unwrap().len() <= 4);
    }
}
