//! Reads of charges, withdrawals, refunds and splits.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pix_domain::charges::store::ChargeStore;
use pix_domain::charges::{Charge, Receipt};
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId, RefundId, ResourceKind, SplitId, WithdrawalId};
use pix_domain::list::{Cursor, ListQuery};
use pix_domain::metadata::Metadata;
use pix_domain::provider::ProviderId;
use pix_domain::refunds::Refund;
use pix_domain::refunds::store::RefundStore;
use pix_domain::splits::Split;
use pix_domain::splits::store::SplitStore;
use pix_domain::text::ExternalId;
use pix_domain::time::Timestamp;
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::store::WithdrawalStore;
use uuid::Uuid;

use crate::MemoryStore;
use crate::state::Tenant;

impl MemoryStore {
    /// What `read` finds among what the integrator has; nothing for an unknown one.
    fn of_tenant<T: Default>(&self, integrator_id: IntegratorId, read: impl FnOnce(&Tenant) -> T) -> T {
        self.state().tenants.get(&integrator_id).map(read).unwrap_or_default()
    }
}

impl Tenant {
    fn named(&self, kind: ResourceKind, name: &ExternalId) -> Option<&Uuid> {
        self.names.get(&(kind, name.clone()))
    }
}

#[async_trait]
impl ChargeStore for MemoryStore {
    async fn find(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Option<Charge>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| tenant.charges.get(&id.0).cloned()))
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Charge>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| {
            let id = tenant.named(ResourceKind::Charge, external_id)?;
            tenant.charges.get(id).cloned()
        }))
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Charge>, StoreError> {
        let received =
            |receipt: &&Receipt| receipt.payment.key.end_to_end_id().is_some_and(|id| id.as_str() == pix_id);
        let made = |charge: &&Charge| {
            charge.ticket.as_ref().is_some_and(|ticket| ticket.provider_id.as_str() == pix_id)
        };
        Ok(self.of_tenant(integrator_id, |tenant| {
            let receipt = tenant.receipts.iter().find(received);
            let paid = receipt.and_then(|receipt| tenant.charges.get(&receipt.charge_id.0));
            tenant.charges.values().find(made).or(paid).cloned()
        }))
    }

    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Charge>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| page(&tenant.charges, query)))
    }

    async fn receipts(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Vec<Receipt>, StoreError> {
        let of_charge = |receipt: &&Receipt| receipt.charge_id == id;
        Ok(self
            .of_tenant(integrator_id, |tenant| tenant.receipts.iter().filter(of_charge).cloned().collect()))
    }
}

#[async_trait]
impl WithdrawalStore for MemoryStore {
    async fn find(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
    ) -> Result<Option<Withdrawal>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| tenant.withdrawals.get(&id.0).cloned()))
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Withdrawal>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| {
            let id = tenant.named(ResourceKind::Withdrawal, external_id)?;
            tenant.withdrawals.get(id).cloned()
        }))
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Withdrawal>, StoreError> {
        let known = |record: &&Withdrawal| {
            goes_by(record.provider_id.as_ref(), record.end_to_end_id.as_deref(), pix_id)
        };
        Ok(self.of_tenant(integrator_id, |tenant| tenant.withdrawals.values().find(known).cloned()))
    }

    async fn list(
        &self,
        integrator_id: IntegratorId,
        query: &ListQuery,
    ) -> Result<Vec<Withdrawal>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| page(&tenant.withdrawals, query)))
    }
}

#[async_trait]
impl RefundStore for MemoryStore {
    async fn find(&self, integrator_id: IntegratorId, id: RefundId) -> Result<Option<Refund>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| tenant.refunds.get(&id.0).cloned()))
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Refund>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| {
            let id = tenant.named(ResourceKind::Refund, external_id)?;
            tenant.refunds.get(id).cloned()
        }))
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Refund>, StoreError> {
        let known =
            |record: &&Refund| goes_by(record.provider_id.as_ref(), record.return_id.as_deref(), pix_id);
        Ok(self.of_tenant(integrator_id, |tenant| tenant.refunds.values().find(known).cloned()))
    }

    async fn list_of_charge(
        &self,
        integrator_id: IntegratorId,
        charge_id: ChargeId,
    ) -> Result<Vec<Refund>, StoreError> {
        let of_charge = |refund: &&Refund| refund.charge_id == charge_id;
        Ok(self
            .of_tenant(integrator_id, |tenant| tenant.refunds.values().filter(of_charge).cloned().collect()))
    }
}

#[async_trait]
impl SplitStore for MemoryStore {
    async fn find(&self, integrator_id: IntegratorId, id: SplitId) -> Result<Option<Split>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| tenant.splits.get(&id.0).cloned()))
    }

    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Split>, StoreError> {
        Ok(self.of_tenant(integrator_id, |tenant| page(&tenant.splits, query)))
    }
}

fn goes_by(provider_id: Option<&ProviderId>, pix_id: Option<&str>, wanted: &str) -> bool {
    provider_id.is_some_and(|id| id.as_str() == wanted) || pix_id == Some(wanted)
}

/// What a list looks at.
trait Row: Clone {
    /// Whether it is as the query says, but for its time.
    fn is_asked_for(&self, query: &ListQuery) -> bool;
    fn created_at(&self) -> Timestamp;
}

fn fits(state: &str, external_id: &ExternalId, metadata: &Metadata, query: &ListQuery) -> bool {
    (query.states.is_empty() || query.states.contains(&state))
        && query.external_id.as_ref().is_none_or(|name| name == external_id)
        && metadata.has_all_of(&query.metadata)
}

impl Row for Charge {
    fn is_asked_for(&self, query: &ListQuery) -> bool {
        fits(self.state.name(), &self.external_id, &self.metadata, query)
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

impl Row for Withdrawal {
    fn is_asked_for(&self, query: &ListQuery) -> bool {
        fits(self.state.name(), &self.external_id, &self.metadata, query)
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

impl Row for Split {
    fn is_asked_for(&self, _query: &ListQuery) -> bool {
        true
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

/// The rows that `query` asks for, newest first.
fn page<T: Row>(rows: &BTreeMap<Uuid, T>, query: &ListQuery) -> Vec<T> {
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let wanted = |id: &Uuid, row: &T| {
        row.is_asked_for(query)
            && query.least_id.is_none_or(|least| *id >= least)
            && query.end_id.is_none_or(|end| *id < end)
            && query.created_from.is_none_or(|from| row.created_at() >= from)
            && query.created_to.is_none_or(|to| row.created_at() < to)
    };
    let rows = rows.iter().filter(|(id, row)| wanted(id, row));
    let newest_first = |rows: Vec<(&Uuid, &T)>| rows.into_iter().rev().map(|(_, row)| row.clone()).collect();
    match query.cursor {
        Some(Cursor::NewerThan(cursor)) => {
            newest_first(rows.filter(|(id, _)| **id > cursor).take(limit).collect())
        }
        Some(Cursor::OlderThan(cursor)) => {
            rows.rev().filter(|(id, _)| **id < cursor).take(limit).map(|(_, row)| row.clone()).collect()
        }
        None => rows.rev().take(limit).map(|(_, row)| row.clone()).collect(),
    }
}
