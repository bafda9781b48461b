//! The collections, one set an integrator: nothing but the public ids of records is shared.

use std::collections::{BTreeMap, BTreeSet};

use pix_domain::audit::StoredFinding;
use pix_domain::audit_log::LogEntry;
use pix_domain::callbacks::{Callback, CallbackState};
use pix_domain::charges::{Charge, Receipt};
use pix_domain::credentials::{ApiKey, Integrator};
use pix_domain::evidence::Evidence;
use pix_domain::fees::FeeSchedule;
use pix_domain::ids::{self, IntegratorId, ResourceKind, ResourceRef, Version};
use pix_domain::limits::LimitPolicy;
use pix_domain::postbacks::delivery::{Attempt, DeliveryState, Endpoint, EndpointId, Lane};
use pix_domain::postbacks::events::{EventKey, StoredEvent};
use pix_domain::postbacks::secrets::SecretVersion;
use pix_domain::refunds::Refund;
use pix_domain::seals::{KeptDifference, Seal};
use pix_domain::splits::Split;
use pix_domain::text::{ExternalId, IdempotencyKey};
use pix_domain::time::Timestamp;
use pix_domain::transition::Record;
use pix_domain::wallet::{Entry, Wallet};
use pix_domain::withdrawals::Withdrawal;
use uuid::Uuid;

/// Everything.
#[derive(Debug, Default)]
pub struct State {
    pub tenants: BTreeMap<IntegratorId, Tenant>,
    /// In the order they were made.
    pub keys: Vec<ApiKey>,
    pub follow_ups: BTreeMap<ResourceRef, Due>,
    pub callbacks: BTreeMap<Uuid, KeptCallback>,
    pub deliveries: BTreeMap<EventKey, KeptDelivery>,
    /// Those that have failed lately.
    pub endpoints: BTreeMap<EndpointId, Endpoint>,
    /// In order: the first has number 1.
    pub audit_log: Vec<LogEntry>,
    pub seal_differences: BTreeMap<IntegratorId, KeptDifference>,
}

/// A callback, and where it stands.
#[derive(Debug)]
pub struct KeptCallback {
    pub callback: Callback,
    pub state: CallbackState,
    pub attempts: u32,
}

/// An event's way to its receiver.
#[derive(Debug, Clone)]
pub struct KeptDelivery {
    /// When the event happened.
    pub at: Timestamp,
    pub lane: Lane,
    pub state: DeliveryState,
    pub claims: u32,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

/// When a record is to be asked about.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    pub at: Timestamp,
    pub attempts: u32,
}

/// Everything of one integrator.
#[derive(Debug)]
pub struct Tenant {
    pub integrator: Integrator,
    /// In the order they were set: the first is version 1.
    pub fees: Vec<FeeSchedule>,
    /// Likewise.
    pub limits: Vec<LimitPolicy>,
    pub wallet: Wallet,
    pub entries: Vec<Entry>,
    /// Records whose personal data counts as locked, and the version at which it does.
    pub locked: BTreeMap<(ResourceKind, Uuid), Version>,
    pub charges: BTreeMap<Uuid, Charge>,
    pub withdrawals: BTreeMap<Uuid, Withdrawal>,
    pub refunds: BTreeMap<Uuid, Refund>,
    pub splits: BTreeMap<Uuid, Split>,
    /// In the order they were credited.
    pub receipts: Vec<Receipt>,
    pub receipt_keys: BTreeSet<String>,
    pub names: BTreeMap<(ResourceKind, ExternalId), Uuid>,
    pub handles: BTreeMap<(ResourceKind, IdempotencyKey), Uuid>,
    /// How many events each record has: no port reads more of them.
    pub events: BTreeMap<ResourceRef, u32>,
    /// Public events; the first has number 1.
    pub told: Vec<StoredEvent>,
    pub secrets: Vec<SecretVersion>,
    pub findings: Vec<StoredFinding>,
    pub evidence: Vec<Evidence>,
    /// What each key names, newest first.
    pub twins: BTreeMap<Uuid, Vec<Uuid>>,
    /// In order: the first has number 1.
    pub seals: Vec<Seal>,
}

impl Tenant {
    pub fn new(integrator: Integrator) -> Self {
        Self {
            integrator,
            fees: Vec::new(),
            limits: Vec::new(),
            wallet: Wallet::default(),
            entries: Vec::new(),
            locked: BTreeMap::new(),
            charges: BTreeMap::new(),
            withdrawals: BTreeMap::new(),
            refunds: BTreeMap::new(),
            splits: BTreeMap::new(),
            receipts: Vec::new(),
            receipt_keys: BTreeSet::new(),
            names: BTreeMap::new(),
            handles: BTreeMap::new(),
            events: BTreeMap::new(),
            told: Vec::new(),
            secrets: Vec::new(),
            findings: Vec::new(),
            evidence: Vec::new(),
            twins: BTreeMap::new(),
            seals: Vec::new(),
        }
    }

    /// A record.
    pub fn record(&self, kind: ResourceKind, id: Uuid) -> Option<Record> {
        match kind {
            ResourceKind::Charge => {
                self.charges.get(&id).map(|charge| Record::Charge(Box::new(charge.clone())))
            }
            ResourceKind::Withdrawal => {
                self.withdrawals.get(&id).map(|withdrawal| Record::Withdrawal(Box::new(withdrawal.clone())))
            }
            ResourceKind::Refund => {
                self.refunds.get(&id).map(|refund| Record::Refund(Box::new(refund.clone())))
            }
            ResourceKind::Split => self.splits.get(&id).map(|split| Record::Split(Box::new(split.clone()))),
        }
    }

    /// The withdrawal or refund whose id has this part.
    pub fn bearer_of(&self, timeless: Uuid) -> Option<(ResourceKind, Uuid)> {
        let withdrawals = self.withdrawals.keys().map(|id| (ResourceKind::Withdrawal, *id));
        let refunds = self.refunds.keys().map(|id| (ResourceKind::Refund, *id));
        withdrawals.chain(refunds).find(|(_, id)| ids::timeless(*id) == Some(timeless))
    }

    /// The version at which a record is stored.
    pub fn version_of(&self, kind: ResourceKind, id: Uuid) -> Option<Version> {
        match kind {
            ResourceKind::Charge => self.charges.get(&id).map(|charge| charge.version),
            ResourceKind::Withdrawal => self.withdrawals.get(&id).map(|withdrawal| withdrawal.version),
            ResourceKind::Refund => self.refunds.get(&id).map(|refund| refund.version),
            ResourceKind::Split => self.splits.get(&id).map(|split| split.version),
        }
    }
}
