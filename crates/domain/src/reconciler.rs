//! The worker that goes on with whatever isn't final: asks the provider, applies what it says, comes back later.
//!
//! It is safe to run any number of these on any number of nodes, and to kill any of them at any moment: a claim is a
//! lease, and every change is guarded by the record's version.

use std::time::Duration;

use crate::error::StoreError;
use crate::follow_up::FollowUp;
use crate::ports::Ports;
use crate::transactions::TransactionService;

/// How long a claimed follow-up is hidden from other workers.
pub const LEASE: Duration = Duration::from_mins(1);

/// How many follow-ups are claimed at once.
pub const BATCH: u32 = 32;

/// The worker.
#[derive(Clone)]
pub struct Reconciler {
    ports: Ports,
    transactions: TransactionService,
}

impl Reconciler {
    /// A worker over `ports`.
    pub fn new(ports: Ports) -> Self {
        Self { transactions: TransactionService::new(ports.clone()), ports }
    }

    /// Tells the store what became of sendings that it could not be told then; how many are left. To be called before every
    /// claim, and once more when no more is worked on.
    pub async fn record(&self) -> usize {
        self.transactions.record().await
    }

    /// Claims what is due, at most `limit` and at most [`BATCH`]; nothing while the clock isn't right.
    pub async fn claim(&self, limit: u32) -> Result<Vec<FollowUp>, StoreError> {
        let now = self.ports.clock.now();
        if !self.ports.is_clock_right() {
            return Ok(Vec::new());
        }
        self.ports.stores.follow_ups.claim(now, LEASE, limit.min(BATCH)).await
    }

    /// Goes on with one claimed follow-up. An error leaves it to be claimed again when its lease ends.
    pub async fn process(&self, due: FollowUp) -> Result<(), crate::error::ServiceError> {
        self.transactions.follow_up(due).await
    }

    /// Claims and processes one batch, one after another; how many it was. What goes wrong with one is not told, since it is claimed
    /// again after its lease: to see it, use [`record`](Self::record), [`claim`](Self::claim) and [`process`](Self::process). Callbacks
    /// are not among it ([`CallbackService`](crate::callbacks::CallbackService)).
    pub async fn run_once(&self) -> Result<usize, StoreError> {
        self.record().await;
        let due = self.claim(BATCH).await?;
        for item in &due {
            // What fails now is claimed again after its lease.
            let _ = self.process(*item).await;
        }
        Ok(due.len())
    }
}
