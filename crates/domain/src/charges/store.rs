//! Where charges are read. They are written by [`TransitionStore`](crate::transition::TransitionStore) alone.

use async_trait::async_trait;

use super::{Charge, Receipt};
use crate::error::StoreError;
use crate::ids::{ChargeId, IntegratorId};
use crate::list::ListQuery;
use crate::text::ExternalId;

/// Where charges are read. Every read MUST see what this node has applied, and MUST NOT find a record of another
/// integrator.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait ChargeStore: Send + Sync {
    /// By id.
    async fn find(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Option<Charge>, StoreError>;

    /// By the integrator's name (or the one made by us).
    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Charge>, StoreError>;

    /// By the provider's id, or by the end-to-end id of a PIX received on it.
    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Charge>, StoreError>;

    /// Newest first; statuses are [`ChargeState::NAMES`](super::ChargeState::NAMES).
    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Charge>, StoreError>;

    /// Every PIX received on the charge, in the order they were credited.
    async fn receipts(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Vec<Receipt>, StoreError>;
}
