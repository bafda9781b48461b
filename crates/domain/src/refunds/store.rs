//! Where refunds are read. They are written by [`TransitionStore`](crate::transition::TransitionStore) alone.

use async_trait::async_trait;

use super::Refund;
use crate::error::StoreError;
use crate::ids::{ChargeId, IntegratorId, RefundId};
use crate::text::ExternalId;

/// Where refunds are read. Every read MUST see what this node has applied, and MUST NOT find a record of another
/// integrator.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait RefundStore: Send + Sync {
    /// By id.
    async fn find(&self, integrator_id: IntegratorId, id: RefundId) -> Result<Option<Refund>, StoreError>;

    /// By the integrator's name (or the one made by us).
    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Refund>, StoreError>;

    /// By the provider's id or the return id.
    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Refund>, StoreError>;

    /// The refunds of a charge, oldest first. There are at most as many as the payment has centavos; a store MUST
    /// return all of them.
    async fn list_of_charge(
        &self,
        integrator_id: IntegratorId,
        charge_id: ChargeId,
    ) -> Result<Vec<Refund>, StoreError>;
}
