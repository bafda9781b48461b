//! The one write verb.
//!
//! The order in which a transition is looked at is the order in which its refusals take precedence: its shape
//! (rejected), its records (stale, duplicate), its handle and receipt (duplicate), its money (insufficient funds, owing). So a
//! repeated request is always told that it is one, however little is left in the wallet.

use std::collections::BTreeSet;

use async_trait::async_trait;
use pix_domain::audit::StoredFinding;
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::ids::ResourceRef;
use pix_domain::postbacks::delivery::{DeliveryState, Standing};
use pix_domain::postbacks::events::{StoredEvent, Told};
use pix_domain::transition::{Guard, Record, Transition, TransitionStore};
use pix_domain::wallet::{Entry, Wallet};

use crate::MemoryStore;
use crate::state::{Due, KeptDelivery, State, Tenant};

#[async_trait]
impl TransitionStore for MemoryStore {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        self.state().apply(transition)
    }

    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        let mut state = self.state();
        transitions.into_iter().map(|transition| state.apply(transition)).collect()
    }
}

impl State {
    fn apply(&mut self, mut transition: Transition) -> Result<(), ApplyError> {
        let tenant_of = |one: &Transition| {
            self.tenants.get(&one.integrator_id).ok_or_else(|| rejected("no such integrator"))
        };
        transition.whole().try_for_each(|one| tenant_of(one).map(|_| ()))?;
        transition.check_shape()?;
        for one in transition.whole() {
            let tenant = tenant_of(one)?;
            self.check_records(tenant, one)?;
            check_keys(tenant, one)?;
        }
        let moved = transition.whole().map(|one| post(tenant_of(one)?.wallet, one));
        let moved = moved.collect::<Result<Vec<_>, _>>()?;
        let parts = std::mem::take(&mut transition.parts);
        for (one, (wallet, entries)) in std::iter::once(transition).chain(parts).zip(moved) {
            self.write(one, wallet, entries);
        }
        Ok(())
    }

    fn check_records(&self, tenant: &Tenant, transition: &Transition) -> Result<(), ApplyError> {
        let mut new_names = BTreeSet::new();
        for write in &transition.writes {
            let ResourceRef { kind, id, .. } = write.record.resource();
            match write.guard {
                Guard::At(version) if tenant.version_of(kind, id) == Some(version) => {}
                Guard::At(_) => return Err(ApplyError::Stale),
                Guard::Absent => {
                    if self.tenants.values().any(|tenant| tenant.version_of(kind, id).is_some()) {
                        return Err(ApplyError::Duplicate(UniqueKey::Id));
                    }
                    let Some(name) = write.record.external_id() else { continue };
                    let name = (kind, name.clone());
                    if tenant.names.contains_key(&name) || !new_names.insert(name) {
                        return Err(ApplyError::Duplicate(UniqueKey::ExternalId));
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, transition: Transition, wallet: Wallet, entries: Vec<Entry>) {
        let Some(tenant) = self.tenants.get_mut(&transition.integrator_id) else { return };
        tenant.wallet = wallet;
        tenant.entries.extend(entries);
        for told in transition.told() {
            let Told { key, kind, at, moved, related, snapshot, lane } = told;
            let number = u64::try_from(tenant.told.len()).unwrap_or(u64::MAX).saturating_add(1);
            tenant.told.push(StoredEvent { number, key, kind, at, moved, related, snapshot });
            if let Some(lane) = lane {
                let state = DeliveryState { standing: Standing::Waiting(at), attempts: 0 };
                let kept = KeptDelivery { at, lane, state, claims: 0, attempts: Vec::new() };
                self.deliveries.insert(key, kept);
            }
        }
        for write in transition.writes {
            let resource = write.record.resource();
            match write.follow_up {
                Some(at) => self.follow_ups.insert(resource, Due { at, attempts: 0 }),
                None => self.follow_ups.remove(&resource),
            };
            *tenant.events.entry(resource).or_default() += 1;
            if let Some(name) = write.record.external_id() {
                tenant.names.insert((resource.kind, name.clone()), resource.id);
            }
            match write.record {
                Record::Charge(charge) => drop(tenant.charges.insert(resource.id, *charge)),
                Record::Withdrawal(withdrawal) => drop(tenant.withdrawals.insert(resource.id, *withdrawal)),
                Record::Refund(refund) => drop(tenant.refunds.insert(resource.id, *refund)),
                Record::Split(split) => drop(tenant.splits.insert(resource.id, *split)),
            }
        }
        if let Some(receipt) = transition.receipt {
            tenant.receipt_keys.insert(receipt.payment.key.to_text());
            tenant.receipts.push(receipt);
        }
        if let Some(handle) = transition.handle {
            tenant.handles.insert((handle.kind, handle.key), handle.id);
        }
        tenant.twins.extend(transition.twins.into_iter().map(|twin| (twin.key, twin.ids)));
        for evidence in transition.evidence {
            if !tenant
                .evidence
                .iter()
                .any(|kept| kept.id == evidence.id && kept.resource == evidence.resource)
            {
                tenant.evidence.push(evidence);
            }
        }
        for finding in transition.findings {
            let same = |kept: &StoredFinding| kept.resource == finding.resource && kept.code == finding.code;
            if !tenant.findings.iter().any(same) {
                let (resource, code, detail) = (finding.resource, finding.code.to_owned(), finding.detail);
                tenant.findings.push(StoredFinding { resource, code, detail });
            }
        }
    }
}

fn check_keys(tenant: &Tenant, transition: &Transition) -> Result<(), ApplyError> {
    if let Some(handle) = &transition.handle
        && tenant.handles.contains_key(&(handle.kind, handle.key.clone()))
    {
        return Err(ApplyError::Duplicate(UniqueKey::IdempotencyKey));
    }
    if let Some(receipt) = &transition.receipt
        && tenant.receipt_keys.contains(&receipt.payment.key.to_text())
    {
        return Err(ApplyError::Duplicate(UniqueKey::Receipt));
    }
    for twin in &transition.twins {
        let newest = tenant.twins.get(&twin.key).and_then(|ids| ids.first()).copied();
        if newest != twin.expected {
            return Err(ApplyError::Duplicate(UniqueKey::Twin));
        }
    }
    Ok(())
}

/// The wallet after the postings, and their entries.
fn post(mut wallet: Wallet, transition: &Transition) -> Result<(Wallet, Vec<Entry>), ApplyError> {
    let mut entries = Vec::with_capacity(transition.postings.len());
    for posting in &transition.postings {
        wallet = wallet.after(posting)?;
        entries.push(Entry {
            integrator_id: transition.integrator_id,
            number: wallet.entries,
            posting: *posting,
            available_after: wallet.available,
            held_after: wallet.held,
            at: transition.at,
        });
    }
    Ok((if entries.is_empty() { wallet } else { wallet.settled()? }, entries))
}

fn rejected(why: &str) -> ApplyError {
    ApplyError::Store(StoreError::Rejected(why.to_owned()))
}
