//! What sees every commit the store makes, in the order it makes them, and has each judged at once.
//!
//! It stands right before the store, behind all faults: what it sees has happened.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::follow_up::{FollowUp, FollowUpStore, OpenMovements};
use pix_domain::ports::Stores;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Transition, TransitionStore};
use uuid::Uuid;

use crate::faults::Fault;
use crate::sim::{Sim, State};

/// What sees every commit.
pub struct Observer {
    sim: Arc<Sim>,
    inner: Stores,
}

impl Observer {
    /// `inner`, observed.
    pub fn over(sim: Arc<Sim>, inner: Stores) -> Stores {
        let observer = Arc::new(Self { sim, inner: inner.clone() });
        Stores { transitions: observer.clone(), follow_ups: observer.clone(), callbacks: observer, ..inner }
    }
}

#[async_trait]
impl TransitionStore for Observer {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        let copy = transition.clone();
        let result = self.inner.transitions.apply(transition).await;
        if result.is_ok() {
            let mut wallets = Vec::new();
            for one in copy.whole() {
                wallets.push((one.integrator_id, self.inner.wallets.wallet(one.integrator_id).await));
            }
            self.sim.with(|state| {
                state.committed(&copy);
                for (integrator_id, wallet) in wallets {
                    match wallet {
                        Ok(wallet) => state.compare_wallet(integrator_id, wallet),
                        Err(error) => state.violate(format!("the wallet can't be read: {error}")),
                    }
                }
            });
        }
        result
    }

    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        let mut results = Vec::new();
        for transition in transitions {
            results.push(self.apply(transition).await);
        }
        results
    }
}

#[async_trait]
impl FollowUpStore for Observer {
    async fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Result<Vec<FollowUp>, StoreError> {
        let claimed = self.inner.follow_ups.claim(now, lease, limit).await?;
        self.sim.with(|state: &mut State| {
            for due in &claimed {
                state.model.due.insert(due.resource, due.until);
                state.model.claimed.insert(due.resource, *due);
            }
        });
        Ok(claimed)
    }

    async fn postpone(&self, claimed: FollowUp, until: Option<Timestamp>) -> Result<(), StoreError> {
        self.inner.follow_ups.postpone(claimed, until).await?;
        self.sim.with(|state| {
            // A record that was written since may be due at that very moment too.
            let holds = state.model.claimed.get(&claimed.resource) == Some(&claimed);
            if holds && state.model.due.get(&claimed.resource) == Some(&claimed.until) {
                match until {
                    Some(until) => state.model.due.insert(claimed.resource, until),
                    None => state.model.due.remove(&claimed.resource),
                };
            }
        });
        Ok(())
    }

    async fn open_movements(&self) -> Result<Vec<OpenMovements>, StoreError> {
        self.inner.follow_ups.open_movements().await
    }
}

#[async_trait]
impl CallbackStore for Observer {
    async fn keep(&self, callback: Callback, state: CallbackState) -> Result<bool, StoreError> {
        let id = callback.id;
        let kept = self.inner.callbacks.keep(callback, state).await?;
        self.sim.with(|shared| match state {
            CallbackState::Waiting(until) if kept => {
                shared.model.callbacks.insert(id, until);
            }
            CallbackState::Waiting(_) => shared.count(Fault::CallbackRepeated),
            CallbackState::Ended(_) => {}
        });
        if !kept {
            // One that says the same waits, and a little longer now.
            let waiting: Vec<Uuid> = self.sim.with(|shared| shared.model.callbacks.keys().copied().collect());
            for id in waiting {
                if let Some((CallbackState::Waiting(until), _)) = self.inner.callbacks.look_up(id).await? {
                    self.sim.with(|shared| shared.model.callbacks.insert(id, until));
                }
            }
        }
        Ok(kept)
    }

    /// What was kept and is due is claimed: else it is lost.
    async fn claim(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<ClaimedCallback>, StoreError> {
        let claimed = self.inner.callbacks.claim(now, lease, limit).await?;
        self.sim.with(|state| {
            for taken_up in &claimed {
                state.count(Fault::CallbackTakenUp);
                state.model.callbacks.insert(taken_up.callback.id, taken_up.until);
            }
            let all = u32::try_from(claimed.len()).is_ok_and(|count| count < limit);
            if all && state.model.callbacks.values().any(|due| *due <= now) {
                state.violate("a callback that was kept is lost".into());
            }
        });
        Ok(claimed)
    }

    async fn put(&self, claimed: &ClaimedCallback, next: CallbackState) -> Result<(), StoreError> {
        self.inner.callbacks.put(claimed, next).await?;
        let id = claimed.callback.id;
        self.sim.with(|state| {
            // Somebody else may have taken it up since.
            if state.model.callbacks.get(&id) == Some(&claimed.until) {
                match next {
                    CallbackState::Waiting(until) => state.model.callbacks.insert(id, until),
                    CallbackState::Ended(_) => state.model.callbacks.remove(&id),
                };
            }
        });
        Ok(())
    }

    async fn look_up(&self, id: Uuid) -> Result<Option<(CallbackState, u32)>, StoreError> {
        self.inner.callbacks.look_up(id).await
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        self.inner.callbacks.forget(before, limit).await
    }
}
