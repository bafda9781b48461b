//! Persons. Nothing is kept here longer than the process, so being locked is a mark; erasing is erasing.

use std::collections::BTreeSet;

use async_trait::async_trait;
use pix_domain::callbacks::CallbackState;
use pix_domain::charges::{Charge, ChargeState};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::Cents;
use pix_domain::people::{Erasure, Person, PersonStore, Walk, Walked};
use pix_domain::provider::ProviderBody;
use pix_domain::time::Timestamp;
use pix_domain::withdrawals::Withdrawal;
use uuid::Uuid;

use crate::MemoryStore;
use crate::state::{State, Tenant};

impl Tenant {
    /// Who is named in a charge and in what was received on it.
    fn people_of_charge(&self, charge: &Charge) -> BTreeSet<Person> {
        let received = self.receipts.iter().filter(|receipt| receipt.charge_id == charge.id);
        let received = received.filter_map(pix_domain::charges::Receipt::person);
        charge.payer_person().into_iter().chain(charge.paid_by_person()).chain(received).collect()
    }

    fn people_of(&self, kind: ResourceKind, id: Uuid) -> BTreeSet<Person> {
        match kind {
            ResourceKind::Charge => {
                self.charges.get(&id).map(|charge| self.people_of_charge(charge)).unwrap_or_default()
            }
            ResourceKind::Withdrawal => {
                self.withdrawals.get(&id).and_then(Withdrawal::person).into_iter().collect()
            }
            ResourceKind::Refund | ResourceKind::Split => BTreeSet::new(),
        }
    }

    /// Whether nothing is going on in a record, and nothing has since then.
    fn has_ended(&self, kind: ResourceKind, id: Uuid, untouched_since: Timestamp) -> bool {
        match kind {
            ResourceKind::Charge => self.charges.get(&id).is_some_and(|charge| {
                !matches!(charge.state, ChargeState::Creating | ChargeState::Pending)
                    && charge.refund_reserved == Cents::ZERO
                    && charge.updated_at <= untouched_since
            }),
            ResourceKind::Withdrawal => self.withdrawals.get(&id).is_some_and(|withdrawal| {
                withdrawal.state.is_final() && withdrawal.updated_at <= untouched_since
            }),
            ResourceKind::Refund | ResourceKind::Split => false,
        }
    }
}

impl State {
    /// One step of a walk: the records of which `is_wanted` says whether they are, and whether they are locked.
    fn walk(&self, walk: Walk, is_wanted: impl Fn(&Tenant, Uuid) -> Option<bool>) -> Walked {
        let Some(tenant) = self.tenants.get(&walk.integrator_id) else { return Walked::default() };
        let after = |id: &&Uuid| walk.after.is_none_or(|after| **id > after);
        let limit = usize::try_from(walk.limit).unwrap_or(usize::MAX);
        let ids: Vec<Uuid> = match walk.kind {
            ResourceKind::Charge => tenant.charges.keys().filter(after).take(limit).copied().collect(),
            ResourceKind::Withdrawal => {
                tenant.withdrawals.keys().filter(after).take(limit).copied().collect()
            }
            ResourceKind::Refund | ResourceKind::Split => Vec::new(),
        };
        let found = ids.iter().filter_map(|id| Some((*id, is_wanted(tenant, *id)?))).collect();
        let next = ids.last().filter(|_| ids.len() >= limit).copied();
        Walked { found, next, looked_at: u32::try_from(ids.len()).unwrap_or(u32::MAX) }
    }

    fn can_be_locked(&self, resource: ResourceRef, untouched_since: Timestamp) -> bool {
        let ResourceRef { integrator_id, kind, id } = resource;
        let Some(tenant) = self.tenants.get(&integrator_id) else { return false };
        let version = tenant.version_of(kind, id);
        tenant.has_ended(kind, id, untouched_since)
            && !self.follow_ups.contains_key(&resource)
            && !tenant.people_of(kind, id).is_empty()
            && tenant.locked.get(&(kind, id)).copied() != version
    }
}

#[async_trait]
impl PersonStore for MemoryStore {
    async fn naming(&self, walk: Walk, person: &Person) -> Result<Walked, StoreError> {
        Ok(self.state().walk(walk, |tenant, id| {
            let names = tenant.people_of(walk.kind, id).contains(person);
            let locked = tenant.locked.get(&(walk.kind, id)).copied();
            names.then(|| locked.is_some() && locked == tenant.version_of(walk.kind, id))
        }))
    }

    async fn lockable(&self, walk: Walk, untouched_since: Timestamp) -> Result<Walked, StoreError> {
        let state = self.state();
        let Walk { integrator_id, kind, .. } = walk;
        Ok(state.walk(walk, |_, id| {
            state.can_be_locked(ResourceRef { integrator_id, kind, id }, untouched_since).then_some(false)
        }))
    }

    async fn lock(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        ids: Vec<Uuid>,
        untouched_since: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut state = self.state();
        let mut locked = 0;
        for id in ids {
            if state.can_be_locked(ResourceRef { integrator_id, kind, id }, untouched_since)
                && let Some(tenant) = state.tenants.get_mut(&integrator_id)
                && let Some(version) = tenant.version_of(kind, id)
            {
                tenant.locked.insert((kind, id), version);
                locked += 1;
            }
        }
        Ok(locked)
    }

    async fn erase(&self, erasure: Erasure) -> Result<bool, StoreError> {
        let mut state = self.state();
        let Erasure { integrator_id, person, records, references, twins } = erasure;
        state.callbacks.retain(|_, kept| {
            let ended = matches!(kept.state, CallbackState::Ended(_));
            !(ended && kept.callback.reference.is_some_and(|reference| references.contains(&reference)))
        });
        let Some(tenant) = state.tenants.get_mut(&integrator_id) else { return Ok(false) };
        let is_erased = |id: &Uuid| records.iter().any(|of| of.id == *id);
        tenant.twins.retain(|key, ids| !(twins.contains(key) && ids.first().is_some_and(is_erased)));
        for refund in tenant.refunds.values_mut() {
            let of_charge = records.iter().any(|of| of.id == refund.charge_id.0);
            if of_charge && refund.state.is_final() && refund.provider_body.is_some() {
                refund.provider_body = Some(ProviderBody::erased());
            }
        }
        let mut erased = false;
        let who = Some(person);
        for (_, id) in tenant.locked.clone().into_keys() {
            if let Some(charge) = tenant.charges.get_mut(&id) {
                if charge.payer_person() == who {
                    charge.erase_payer();
                    erased = true;
                }
                if charge.paid_by_person() == who {
                    charge.erase_paid_by();
                    erased = true;
                }
                let received = tenant.receipts.iter_mut().filter(|receipt| receipt.charge_id == charge.id);
                for receipt in received.filter(|receipt| receipt.person() == who) {
                    receipt.payment.payer = pix_domain::provider::Party::default();
                    erased = true;
                }
            }
            if let Some(withdrawal) = tenant.withdrawals.get_mut(&id)
                && withdrawal.person() == who
            {
                withdrawal.erase_payee();
                erased = true;
            }
        }
        Ok(erased)
    }
}
