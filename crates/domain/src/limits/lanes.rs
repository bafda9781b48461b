//! Who asks at once on one node waits in order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_lock::MutexGuardArc;

use crate::ids::IntegratorId;

/// A queue for each integrator under limits, in this process. It makes nothing right or wrong: that two don't take one place
/// is the store's to see. It keeps a crowd from asking the store again and again for the one place there is.
#[derive(Debug, Clone, Default)]
pub struct Lanes(Arc<Mutex<HashMap<IntegratorId, Weak<async_lock::Mutex<()>>>>>);

impl Lanes {
    /// Waits until nobody who came before is in the lane of `owner`; it is free again when what is returned is dropped.
    pub async fn enter(&self, owner: IntegratorId) -> MutexGuardArc<()> {
        self.lane(owner).lock_arc().await
    }

    fn lane(&self, owner: IntegratorId) -> Arc<async_lock::Mutex<()>> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(&owner).and_then(Weak::upgrade) {
            return lane;
        }
        // As many as are in use, and not as many as there ever were.
        lanes.retain(|_, lane| lane.strong_count() > 0);
        let lane = Arc::new(async_lock::Mutex::new(()));
        lanes.insert(owner, Arc::downgrade(&lane));
        lane
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn owner(number: u128) -> IntegratorId {
        IntegratorId(Uuid::from_u128(number))
    }

    #[tokio::test]
    async fn one_is_in_a_lane_and_others_have_their_own() {
        let lanes = Lanes::default();
        let inside = lanes.enter(owner(1)).await;
        assert!(lanes.lane(owner(1)).try_lock().is_none());
        drop(lanes.enter(owner(2)).await);
        drop(inside);
        drop(lanes.enter(owner(1)).await);
    }

    #[tokio::test]
    async fn a_lane_that_nobody_is_in_is_forgotten() {
        let lanes = Lanes::default();
        for number in 0..100 {
            drop(lanes.enter(owner(number)).await);
        }
        let _inside = lanes.enter(owner(1_000)).await;
        drop(lanes.enter(owner(1_001)).await);
        assert!(lanes.0.lock().unwrap().len() <= 2);
    }
}
