//! What is due, and the lookups beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::error::StoreError;
use pix_domain::evidence::{Evidence, EvidenceStore, MAX_LISTED};
use pix_domain::follow_up::{FollowUp, FollowUpStore, LookupStore, OpenMovements};
use pix_domain::ids::{self, IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::Cents;
use pix_domain::text::IdempotencyKey;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::MemoryStore;

#[async_trait]
impl FollowUpStore for MemoryStore {
    async fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Result<Vec<FollowUp>, StoreError> {
        let mut state = self.state();
        let mut due: Vec<_> = state.follow_ups.iter_mut().filter(|(_, due)| due.at <= now).collect();
        due.sort_by_key(|(resource, due)| (due.at, **resource));
        due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let claimed = due.into_iter().map(|(resource, due)| {
            due.at = now.plus(lease);
            due.attempts = due.attempts.saturating_add(1);
            FollowUp { resource: *resource, attempts: due.attempts, until: due.at }
        });
        Ok(claimed.collect())
    }

    async fn postpone(&self, claimed: FollowUp, until: Option<Timestamp>) -> Result<(), StoreError> {
        let mut state = self.state();
        let Some(due) = state.follow_ups.get_mut(&claimed.resource) else { return Ok(()) };
        if (due.at, due.attempts) != (claimed.until, claimed.attempts) {
            return Ok(());
        }
        match until {
            Some(until) => due.at = until,
            None => drop(state.follow_ups.remove(&claimed.resource)),
        }
        Ok(())
    }

    async fn open_movements(&self) -> Result<Vec<OpenMovements>, StoreError> {
        let state = self.state();
        let mut open: BTreeMap<(ResourceKind, &str), OpenMovements> = BTreeMap::new();
        let mut count = |kind, name: &'static str, held: Cents, oldest_at: Timestamp| {
            let of = open.entry((kind, name)).or_insert_with(|| OpenMovements {
                kind,
                state: name.to_owned(),
                count: 0,
                held_cents: 0,
                oldest_at,
            });
            of.count += 1;
            of.held_cents += u64::try_from(held.get()).unwrap_or(0);
            of.oldest_at = of.oldest_at.min(oldest_at);
        };
        for tenant in state.tenants.values() {
            for record in tenant.withdrawals.values().filter(|record| !record.state.is_final()) {
                count(ResourceKind::Withdrawal, record.state.name(), record.total(), record.created_at);
            }
            for record in tenant.refunds.values().filter(|record| !record.state.is_final()) {
                count(ResourceKind::Refund, record.state.name(), record.total(), record.created_at);
            }
        }
        Ok(open.into_values().collect())
    }
}

#[async_trait]
impl LookupStore for MemoryStore {
    async fn find_handle(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        key: &IdempotencyKey,
    ) -> Result<Option<Uuid>, StoreError> {
        let state = self.state();
        let tenant = state.tenants.get(&integrator_id);
        Ok(tenant.and_then(|tenant| tenant.handles.get(&(kind, key.clone())).copied()))
    }

    async fn find_twins(&self, integrator_id: IntegratorId, key: Uuid) -> Result<Vec<Uuid>, StoreError> {
        let state = self.state();
        let tenant = state.tenants.get(&integrator_id);
        Ok(tenant.and_then(|tenant| tenant.twins.get(&key).cloned()).unwrap_or_default())
    }

    async fn locate(&self, id: Uuid) -> Result<Option<ResourceRef>, StoreError> {
        const KINDS: [ResourceKind; 3] =
            [ResourceKind::Charge, ResourceKind::Withdrawal, ResourceKind::Refund];
        let state = self.state();
        if ids::is_timeless(id) {
            return Ok(state.tenants.iter().find_map(|(integrator_id, tenant)| {
                let (kind, id) = tenant.bearer_of(id)?;
                Some(ResourceRef { integrator_id: *integrator_id, kind, id })
            }));
        }
        Ok(state.tenants.iter().find_map(|(integrator_id, tenant)| {
            let kind = KINDS.into_iter().find(|kind| tenant.version_of(*kind, id).is_some())?;
            Some(ResourceRef { integrator_id: *integrator_id, kind, id })
        }))
    }
}

#[async_trait]
impl EvidenceStore for MemoryStore {
    async fn list(&self, resource: ResourceRef) -> Result<Vec<Evidence>, StoreError> {
        let state = self.state();
        let Some(tenant) = state.tenants.get(&resource.integrator_id) else { return Ok(Vec::new()) };
        let about = tenant.evidence.iter().filter(|evidence| evidence.resource == resource);
        let mut known: Vec<Evidence> = about.cloned().collect();
        known.sort_by_key(|evidence| (evidence.at, evidence.id));
        let limit = usize::try_from(MAX_LISTED).unwrap_or(usize::MAX);
        Ok(known.split_off(known.len().saturating_sub(limit)))
    }
}
