//! Where seals are kept.

use async_trait::async_trait;

use super::{Head, KeptDifference, Seal, Unsealed};
use crate::error::StoreError;
use crate::ids::IntegratorId;

/// Where seals are kept, and what is still to be sealed is read.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait SealStore: Send + Sync {
    /// Up to `limit` wallets of integrators with an id above `after` (all, without), in the order of their ids, each with its
    /// newest seal. MUST be exactly that many when there are.
    async fn heads(&self, after: Option<IntegratorId>, limit: u32) -> Result<Vec<Head>, StoreError>;

    /// What follows the newest seal of an integrator, up to `limit` entries. MUST be one consistent view, however much is
    /// being written meanwhile, and MUST NOT come from a replica.
    async fn unsealed(&self, integrator_id: IntegratorId, limit: u32) -> Result<Unsealed, StoreError>;

    /// Keeps a seal, durably; `false`, with nothing kept, unless its number is the one after the newest seal's and its last
    /// entry is after that one's. Of two with the same number MUST keep one, whichever nodes they come from. MUST NOT have any
    /// way to change or remove one.
    async fn append(&self, seal: Seal) -> Result<bool, StoreError>;

    /// Up to `limit` seals of an integrator with a number above `after`, in order.
    async fn seals(
        &self,
        integrator_id: IntegratorId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Seal>, StoreError>;

    /// Keeps what is wrong with the book of an integrator in place of what was kept of it; with `None` nothing is kept.
    async fn set_difference(
        &self,
        integrator_id: IntegratorId,
        difference: Option<KeptDifference>,
    ) -> Result<(), StoreError>;

    /// Up to `limit` of the differences that are kept, in the order of the integrators' ids.
    async fn differences(&self, limit: u32) -> Result<Vec<KeptDifference>, StoreError>;
}
