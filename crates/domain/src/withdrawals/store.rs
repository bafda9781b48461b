//! Where withdrawals are read. They are written by [`TransitionStore`](crate::transition::TransitionStore) alone.

use async_trait::async_trait;

use super::Withdrawal;
use crate::error::StoreError;
use crate::ids::{IntegratorId, WithdrawalId};
use crate::list::ListQuery;
use crate::text::ExternalId;

/// Where withdrawals are read. Every read MUST see what this node has applied, and MUST NOT find a record of another
/// integrator.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait WithdrawalStore: Send + Sync {
    /// By id.
    async fn find(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
    ) -> Result<Option<Withdrawal>, StoreError>;

    /// By the integrator's name (or the one made by us).
    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Withdrawal>, StoreError>;

    /// By the provider's id or the end-to-end id.
    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Withdrawal>, StoreError>;

    /// Newest first; states are [`OutgoingState::NAMES`](super::OutgoingState::NAMES).
    async fn list(
        &self,
        integrator_id: IntegratorId,
        query: &ListQuery,
    ) -> Result<Vec<Withdrawal>, StoreError>;
}
