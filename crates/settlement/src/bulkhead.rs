//! How many calls of each class are under way at once, so that one slow class can't take the others down. It must
//! never know what a call does.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::classify::Operation;
use crate::config::ClassicV2Config;

/// One semaphore a class: sends, charges, consults.
pub(crate) struct Bulkhead {
    sends: Semaphore,
    charges: Semaphore,
    consults: Semaphore,
    wait: Duration,
}

impl Bulkhead {
    pub(crate) fn new(config: &ClassicV2Config) -> Self {
        Self {
            sends: Semaphore::new(config.max_sends),
            charges: Semaphore::new(config.max_charges),
            consults: Semaphore::new(config.max_consults),
            wait: config.queue_wait,
        }
    }

    /// A turn, held until it is dropped; `None` when there was none in time.
    pub(crate) async fn enter(&self, operation: Operation) -> Option<SemaphorePermit<'_>> {
        let class = match operation {
            Operation::SendPayment | Operation::Refund => &self.sends,
            Operation::CreateCharge => &self.charges,
            Operation::ConsultCharge
            | Operation::ConsultPayment
            | Operation::ConsultRefund
            | Operation::Balance => &self.consults,
        };
        match class.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => timeout(self.wait, class.acquire()).await.ok()?.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_class_turns_calls_away_and_leaves_the_others_alone() {
        let mut config = ClassicV2Config::new("http://127.0.0.1", "id", "secret".into());
        (config.max_sends, config.queue_wait) = (1, Duration::ZERO);
        let bulkhead = Bulkhead::new(&config);
        let held = bulkhead.enter(Operation::SendPayment).await.unwrap();
        assert!(bulkhead.enter(Operation::Refund).await.is_none());
        assert!(bulkhead.enter(Operation::CreateCharge).await.is_some());
        assert!(bulkhead.enter(Operation::ConsultRefund).await.is_some());
        drop(held);
        assert!(bulkhead.enter(Operation::Refund).await.is_some());
    }
}
