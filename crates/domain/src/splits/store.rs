//! Where splits are read. They are written by [`TransitionStore`](crate::transition::TransitionStore) alone.

use async_trait::async_trait;

use super::Split;
use crate::error::StoreError;
use crate::ids::{IntegratorId, SplitId};
use crate::list::ListQuery;

/// Where splits are read. Every read MUST see what this node has applied, and MUST NOT find a record of another
/// integrator.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait SplitStore: Send + Sync {
    /// By id.
    async fn find(&self, integrator_id: IntegratorId, id: SplitId) -> Result<Option<Split>, StoreError>;

    /// Newest first. A split has no states, no external id and no metadata: what a query says of them is not looked at.
    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Split>, StoreError>;
}
