//! Seals, and what they follow from.

use async_trait::async_trait;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::seals::store::SealStore;
use pix_domain::seals::{Head, KeptDifference, Seal, Unsealed};

use crate::MemoryStore;

fn size(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

#[async_trait]
impl SealStore for MemoryStore {
    async fn heads(&self, after: Option<IntegratorId>, limit: u32) -> Result<Vec<Head>, StoreError> {
        let state = self.state();
        let page = state.tenants.iter().filter(|(id, _)| after.is_none_or(|after| **id > after));
        let heads = page.map(|(id, tenant)| Head {
            integrator_id: *id,
            wallet: tenant.wallet,
            newest: tenant.seals.last().copied(),
        });
        Ok(heads.take(size(limit)).collect())
    }

    async fn unsealed(&self, integrator_id: IntegratorId, limit: u32) -> Result<Unsealed, StoreError> {
        let state = self.state();
        let tenant = state.tenants.get(&integrator_id);
        let newest = tenant.and_then(|tenant| tenant.seals.last().copied());
        let after = newest.map_or(0, |seal| seal.through());
        let entries = tenant.into_iter().flat_map(|tenant| &tenant.entries);
        Ok(Unsealed {
            newest,
            wallet: tenant.map(|tenant| tenant.wallet).unwrap_or_default(),
            entries: entries.filter(|entry| entry.number > after).take(size(limit)).copied().collect(),
        })
    }

    async fn append(&self, seal: Seal) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Some(tenant) = state.tenants.get_mut(&seal.integrator_id) else {
            return Err(StoreError::Rejected("no such integrator".into()));
        };
        let (number, through) =
            tenant.seals.last().map_or((0, 0), |newest| (newest.number, newest.through()));
        let follows = seal.number == number.saturating_add(1) && seal.through() > through;
        if follows {
            tenant.seals.push(seal);
        }
        Ok(follows)
    }

    async fn seals(
        &self,
        integrator_id: IntegratorId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Seal>, StoreError> {
        let state = self.state();
        let seals = state.tenants.get(&integrator_id).into_iter().flat_map(|tenant| &tenant.seals);
        Ok(seals.filter(|seal| seal.number > after).take(size(limit)).copied().collect())
    }

    async fn set_difference(
        &self,
        integrator_id: IntegratorId,
        difference: Option<KeptDifference>,
    ) -> Result<(), StoreError> {
        let mut state = self.state();
        match difference {
            Some(difference) => drop(state.seal_differences.insert(integrator_id, difference)),
            None => drop(state.seal_differences.remove(&integrator_id)),
        }
        Ok(())
    }

    async fn differences(&self, limit: u32) -> Result<Vec<KeptDifference>, StoreError> {
        Ok(self.state().seal_differences.values().take(size(limit)).cloned().collect())
    }
}
