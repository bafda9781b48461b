//! Where integrators and keys are kept.

use async_trait::async_trait;

use super::{ApiKey, Integrator, IntegratorStatus, KeyChange, KeySecrets};
use crate::error::StoreError;
use crate::ids::IntegratorId;
use crate::postbacks::events::PostbackScope;
use crate::text::PostbackUrl;
use crate::time::Timestamp;

/// Where integrators are kept.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait IntegratorStore: Send + Sync {
    /// Keeps a new integrator and opens its empty wallet. MUST be [`StoreError::Rejected`] when the id is taken.
    async fn create(&self, integrator: Integrator) -> Result<(), StoreError>;

    /// The integrator with that id.
    async fn find(&self, id: IntegratorId) -> Result<Option<Integrator>, StoreError>;

    /// All of them, oldest id first.
    async fn list(&self) -> Result<Vec<Integrator>, StoreError>;

    /// Changes the status; `false` when there is no such integrator.
    async fn set_status(&self, id: IntegratorId, status: IntegratorStatus) -> Result<bool, StoreError>;

    /// Changes which events go to its postback URLs, for resources made from now on; `false` when there is no such
    /// integrator.
    async fn set_postback_scope(
        &self,
        id: IntegratorId,
        scope: Option<PostbackScope>,
    ) -> Result<bool, StoreError>;

    /// Changes where the integrator is told of splits that come to be from now on; `false` when there is no such
    /// integrator.
    async fn set_split_postback(
        &self,
        id: IntegratorId,
        url: Option<PostbackUrl>,
    ) -> Result<bool, StoreError>;
}

/// Where API keys are kept.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait ApiKeyStore: Send + Sync {
    /// Keeps a new key. MUST be [`StoreError::Rejected`] when the integrator doesn't exist or the public id is taken.
    async fn create(&self, key: ApiKey) -> Result<(), StoreError>;

    /// The key with that public id, revoked or not.
    async fn find(&self, public_id: &str) -> Result<Option<ApiKey>, StoreError>;

    /// The integrator's keys, oldest first, revoked ones included.
    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<ApiKey>, StoreError>;

    /// Revokes the key, for good and once: a second call keeps the first time. `false` when there is no such key.
    /// MUST be seen by every `find` on this node at once.
    async fn revoke(&self, public_id: &str, at: Timestamp) -> Result<bool, StoreError>;

    /// Changes what a key is good for; what `change` doesn't name stays as it is, whatever others change meanwhile.
    /// `false` when there is no such key. MUST be seen by every `find` on this node at once.
    async fn change(&self, public_id: &str, change: KeyChange) -> Result<bool, StoreError>;

    /// Puts the secrets `to` in the place of `from`; `false`, with nothing changed, when there is no such key, it is
    /// revoked, or its secrets are not `from` any more. MUST be seen by every `find` on this node at once.
    async fn replace_secrets(
        &self,
        public_id: &str,
        from: KeySecrets,
        to: KeySecrets,
    ) -> Result<bool, StoreError>;

    /// Notes that the key was used at `at`, unless a later use is noted. Of an unknown key nothing is noted.
    async fn mark_used(&self, public_id: &str, at: Timestamp) -> Result<(), StoreError>;
}
