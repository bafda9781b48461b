//! Where wallets and their books are read. They are written by [`TransitionStore`](crate::transition::TransitionStore)
//! alone.

use async_trait::async_trait;

use super::{Entry, Wallet};
use crate::error::StoreError;
use crate::ids::IntegratorId;

/// Where wallets are read.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait WalletStore: Send + Sync {
    /// The wallet. MUST be an empty one for an integrator without movements. MUST NOT come from a replica.
    async fn wallet(&self, integrator_id: IntegratorId) -> Result<Wallet, StoreError>;

    /// Up to `limit` entries of the book with a number above `after`, in order.
    async fn entries(
        &self,
        integrator_id: IntegratorId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError>;
}
