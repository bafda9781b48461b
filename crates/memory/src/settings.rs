//! Integrators, their keys and their fees.

use async_trait::async_trait;
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::credentials::{ApiKey, Integrator, IntegratorStatus, KeyChange, KeySecrets};
use pix_domain::error::StoreError;
use pix_domain::fees::{FeeSchedule, FeeStore};
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;

use crate::MemoryStore;
use crate::state::Tenant;

#[async_trait]
impl IntegratorStore for MemoryStore {
    async fn create(&self, integrator: Integrator) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.tenants.contains_key(&integrator.id) {
            return Err(StoreError::Rejected("the integrator's id is taken".into()));
        }
        state.tenants.insert(integrator.id, Tenant::new(integrator));
        Ok(())
    }

    async fn find(&self, id: IntegratorId) -> Result<Option<Integrator>, StoreError> {
        Ok(self.state().tenants.get(&id).map(|tenant| tenant.integrator.clone()))
    }

    async fn list(&self) -> Result<Vec<Integrator>, StoreError> {
        Ok(self.state().tenants.values().map(|tenant| tenant.integrator.clone()).collect())
    }

    async fn set_status(&self, id: IntegratorId, status: IntegratorStatus) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(tenant) = state.tenants.get_mut(&id) else { return Ok(false) };
        tenant.integrator.status = status;
        Ok(true)
    }

    async fn set_postback_scope(
        &self,
        id: IntegratorId,
        scope: Option<PostbackScope>,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(tenant) = state.tenants.get_mut(&id) else { return Ok(false) };
        tenant.integrator.postback_scope = scope;
        Ok(true)
    }

    async fn set_split_postback(
        &self,
        id: IntegratorId,
        url: Option<PostbackUrl>,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(tenant) = state.tenants.get_mut(&id) else { return Ok(false) };
        tenant.integrator.split_postback = url;
        Ok(true)
    }
}

#[async_trait]
impl ApiKeyStore for MemoryStore {
    async fn create(&self, key: ApiKey) -> Result<(), StoreError> {
        let mut state = self.state();
        if !state.tenants.contains_key(&key.integrator_id) {
            return Err(StoreError::Rejected("no such integrator".into()));
        }
        if state.keys.iter().any(|kept| kept.public_id == key.public_id) {
            return Err(StoreError::Rejected("the key's public id is taken".into()));
        }
        state.keys.push(key);
        Ok(())
    }

    async fn find(&self, public_id: &str) -> Result<Option<ApiKey>, StoreError> {
        Ok(self.state().keys.iter().find(|key| key.public_id == public_id).cloned())
    }

    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<ApiKey>, StoreError> {
        let state = self.state();
        let own = state.keys.iter().filter(|key| key.integrator_id == integrator_id);
        let mut keys: Vec<_> = own.cloned().collect();
        keys.sort_by_key(|key| key.created_at);
        Ok(keys)
    }

    async fn revoke(&self, public_id: &str, at: Timestamp) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(key) = state.keys.iter_mut().find(|key| key.public_id == public_id) else {
            return Ok(false);
        };
        key.revoked_at.get_or_insert(at);
        Ok(true)
    }

    async fn change(&self, public_id: &str, change: KeyChange) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(key) = state.keys.iter_mut().find(|key| key.public_id == public_id) else {
            return Ok(false);
        };
        *key = change.of(key.clone());
        Ok(true)
    }

    async fn replace_secrets(
        &self,
        public_id: &str,
        from: KeySecrets,
        to: KeySecrets,
    ) -> Result<bool, StoreError> {
        let mut state = self.state();
        let mut keys = state.keys.iter_mut().filter(|key| key.public_id == public_id);
        match keys.find(|key| key.revoked_at.is_none() && key.secrets == from) {
            Some(key) => key.secrets = to,
            None => return Ok(false),
        }
        Ok(true)
    }

    async fn mark_used(&self, public_id: &str, at: Timestamp) -> Result<(), StoreError> {
        let mut state = self.state();
        if let Some(key) = state.keys.iter_mut().find(|key| key.public_id == public_id) {
            key.last_used_at = key.last_used_at.max(Some(at));
        }
        Ok(())
    }
}

#[async_trait]
impl FeeStore for MemoryStore {
    async fn current(&self, integrator_id: IntegratorId) -> Result<FeeSchedule, StoreError> {
        let state = self.state();
        let latest = state.tenants.get(&integrator_id).and_then(|tenant| tenant.fees.last());
        Ok(latest.cloned().unwrap_or_else(FeeSchedule::free))
    }

    async fn version(
        &self,
        integrator_id: IntegratorId,
        version: u32,
    ) -> Result<Option<FeeSchedule>, StoreError> {
        if version == FeeSchedule::free().version {
            return Ok(Some(FeeSchedule::free()));
        }
        let state = self.state();
        let set = state.tenants.get(&integrator_id).map(|tenant| &tenant.fees);
        Ok(set.and_then(|set| set.iter().find(|schedule| schedule.version == version).cloned()))
    }

    async fn set(
        &self,
        integrator_id: IntegratorId,
        schedule: FeeSchedule,
        _at: Timestamp,
    ) -> Result<u32, StoreError> {
        let mut state = self.state();
        let Some(tenant) = state.tenants.get_mut(&integrator_id) else {
            return Err(StoreError::Rejected("no such integrator".into()));
        };
        let version = tenant.fees.last().map_or(0, |latest| latest.version).saturating_add(1);
        tenant.fees.push(FeeSchedule { version, ..schedule });
        Ok(version)
    }
}
