//! Several nodes on one database, as one store: every call goes to the next node in turn.
//!
//! So the whole suite runs across nodes: what one writes another one reads, and the contenders of a race are spread over
//! all of them. Each node MUST see what any other has applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::audit::{Book, BookStore, StoredFinding};
use pix_domain::audit_log::{AuditLogStore, LogEntry};
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::charges::store::ChargeStore;
use pix_domain::charges::{Charge, Receipt};
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::credentials::{ApiKey, Integrator, IntegratorStatus, KeyChange, KeySecrets};
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::evidence::{Evidence, EvidenceStore};
use pix_domain::fees::{FeeSchedule, FeeStore};
use pix_domain::follow_up::{FollowUp, FollowUpStore, LookupStore, OpenMovements};
use pix_domain::ids::{ChargeId, IntegratorId, RefundId, ResourceKind, ResourceRef, SplitId, WithdrawalId};
use pix_domain::limits::{LimitPolicy, LimitStore, Sent, SentTo, Windows};
use pix_domain::list::ListQuery;
use pix_domain::party::PixKey;
use pix_domain::people::{Erasure, Person, PersonStore, Walk, Walked};
use pix_domain::postbacks::delivery::{
    Attempt, Backlog, DeliveryReport, DeliveryStore, Endpoint, EndpointId, Lane, ReplayQuery, Taken, Turn,
};
use pix_domain::postbacks::events::{EventKey, EventQuery, EventStore, ListedEvent, PostbackScope};
use pix_domain::postbacks::secrets::{PostbackSecretStore, SecretVersion};
use pix_domain::refunds::Refund;
use pix_domain::refunds::store::RefundStore;
use pix_domain::seals::store::SealStore;
use pix_domain::seals::{Head, KeptDifference, Seal, Unsealed};
use pix_domain::splits::Split;
use pix_domain::splits::store::SplitStore;
use pix_domain::text::{ExternalId, IdempotencyKey, PostbackUrl};
use pix_domain::time::Timestamp;
use pix_domain::transition::{Transition, TransitionStore};
use pix_domain::wallet::store::{EntryQuery, WalletStore};
use pix_domain::wallet::{Entry, Wallet};
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::store::WithdrawalStore;
use uuid::Uuid;

use crate::StoreSet;

/// The nodes, and whose turn it is.
pub struct Nodes {
    nodes: Vec<StoreSet>,
    turn: AtomicUsize,
}

impl Nodes {
    /// All of `nodes` as one store. There has to be one at least.
    pub fn of(nodes: Vec<StoreSet>) -> StoreSet {
        assert!(!nodes.is_empty(), "there is a node");
        StoreSet::of(Arc::new(Self { nodes, turn: AtomicUsize::new(0) }))
    }

    fn next(&self) -> &StoreSet {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.nodes[turn % self.nodes.len()]
    }
}

/// Methods of `$port`, each handed to the next node.
macro_rules! hand_over {
    ($port:ident, $node:ident => $path:expr, {
        $(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) -> $answer:ty;)+
    }) => {
        #[async_trait]
        impl $port for Nodes {
            $(async fn $name(&self $(, $argument: $kind)*) -> $answer {
                let $node = self.next();
                $path.$name($($argument),*).await
            })+
        }
    };
}

hand_over!(TransitionStore, node => node.domain.transitions, {
    fn apply(&self, transition: Transition) -> Result<(), ApplyError>;
    fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>>;
});

hand_over!(ChargeStore, node => node.domain.charges, {
    fn find(&self, owner: IntegratorId, id: ChargeId) -> Result<Option<Charge>, StoreError>;
    fn find_by_external_id(&self, owner: IntegratorId, name: &ExternalId) -> Result<Option<Charge>, StoreError>;
    fn find_by_pix_id(&self, owner: IntegratorId, pix_id: &str) -> Result<Option<Charge>, StoreError>;
    fn list(&self, owner: IntegratorId, query: &ListQuery) -> Result<Vec<Charge>, StoreError>;
    fn receipts(&self, owner: IntegratorId, id: ChargeId) -> Result<Vec<Receipt>, StoreError>;
});

hand_over!(WithdrawalStore, node => node.domain.withdrawals, {
    fn find(&self, owner: IntegratorId, id: WithdrawalId) -> Result<Option<Withdrawal>, StoreError>;
    fn find_by_external_id(&self, owner: IntegratorId, name: &ExternalId) -> Result<Option<Withdrawal>, StoreError>;
    fn find_by_pix_id(&self, owner: IntegratorId, pix_id: &str) -> Result<Option<Withdrawal>, StoreError>;
    fn list(&self, owner: IntegratorId, query: &ListQuery) -> Result<Vec<Withdrawal>, StoreError>;
});

hand_over!(RefundStore, node => node.domain.refunds, {
    fn find(&self, owner: IntegratorId, id: RefundId) -> Result<Option<Refund>, StoreError>;
    fn find_by_external_id(&self, owner: IntegratorId, name: &ExternalId) -> Result<Option<Refund>, StoreError>;
    fn find_by_pix_id(&self, owner: IntegratorId, pix_id: &str) -> Result<Option<Refund>, StoreError>;
    fn list_of_charge(&self, owner: IntegratorId, charge: ChargeId) -> Result<Vec<Refund>, StoreError>;
});

hand_over!(SplitStore, node => node.domain.splits, {
    fn find(&self, owner: IntegratorId, id: SplitId) -> Result<Option<Split>, StoreError>;
    fn list(&self, owner: IntegratorId, query: &ListQuery) -> Result<Vec<Split>, StoreError>;
});

hand_over!(WalletStore, node => node.domain.wallets, {
    fn wallet(&self, owner: IntegratorId) -> Result<Wallet, StoreError>;
    fn entries(&self, owner: IntegratorId, query: &EntryQuery) -> Result<Vec<Entry>, StoreError>;
});

hand_over!(FeeStore, node => node.domain.fees, {
    fn current(&self, owner: IntegratorId) -> Result<FeeSchedule, StoreError>;
    fn version(&self, owner: IntegratorId, version: u32) -> Result<Option<FeeSchedule>, StoreError>;
    fn set(&self, owner: IntegratorId, schedule: FeeSchedule, at: Timestamp) -> Result<u32, StoreError>;
});

hand_over!(LimitStore, node => node.domain.limits, {
    fn policy(&self, owner: IntegratorId) -> Result<LimitPolicy, StoreError>;
    fn set_policy(&self, owner: IntegratorId, policy: &LimitPolicy, at: Timestamp) -> Result<Option<u32>, StoreError>;
    fn sent(&self, owner: IntegratorId, windows: &Windows) -> Result<Sent, StoreError>;
    fn sent_to(&self, owner: IntegratorId, windows: &Windows, key: &PixKey) -> Result<SentTo, StoreError>;
});

hand_over!(FollowUpStore, node => node.domain.follow_ups, {
    fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Result<Vec<FollowUp>, StoreError>;
    fn postpone(&self, claimed: FollowUp, until: Option<Timestamp>) -> Result<(), StoreError>;
    fn open_movements(&self) -> Result<Vec<OpenMovements>, StoreError>;
});

hand_over!(LookupStore, node => node.domain.lookups, {
    fn find_handle(
        &self, owner: IntegratorId, kind: ResourceKind, key: &IdempotencyKey
    ) -> Result<Option<Uuid>, StoreError>;
    fn find_twins(&self, owner: IntegratorId, key: Uuid) -> Result<Vec<Uuid>, StoreError>;
    fn locate(&self, id: Uuid) -> Result<Option<ResourceRef>, StoreError>;
});

hand_over!(EvidenceStore, node => node.domain.evidence, {
    fn list(&self, resource: ResourceRef) -> Result<Vec<Evidence>, StoreError>;
});

hand_over!(CallbackStore, node => node.domain.callbacks, {
    fn keep(&self, callback: Callback, state: CallbackState) -> Result<bool, StoreError>;
    fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Result<Vec<ClaimedCallback>, StoreError>;
    fn put(&self, claimed: &ClaimedCallback, state: CallbackState) -> Result<(), StoreError>;
    fn look_up(&self, id: Uuid) -> Result<Option<(CallbackState, u32)>, StoreError>;
    fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError>;
});

hand_over!(AuditLogStore, node => node.domain.audit_log, {
    fn append(&self, entry: LogEntry) -> Result<bool, StoreError>;
    fn list(&self, after: u64, limit: u32) -> Result<Vec<LogEntry>, StoreError>;
    fn newest(&self) -> Result<Option<LogEntry>, StoreError>;
    fn about(&self, subject: &str, limit: u32) -> Result<Vec<LogEntry>, StoreError>;
});

hand_over!(EventStore, node => node.postbacks.events, {
    fn events(&self, owner: IntegratorId, query: EventQuery) -> Result<Vec<ListedEvent>, StoreError>;
    fn event(&self, key: EventKey) -> Result<Option<ListedEvent>, StoreError>;
});

hand_over!(DeliveryStore, node => node.postbacks.deliveries, {
    fn take(&self, turn: Turn) -> Result<Taken, StoreError>;
    fn load(&self, keys: Vec<EventKey>) -> Result<Vec<ListedEvent>, StoreError>;
    fn endpoints_of(&self, ids: Vec<EndpointId>) -> Result<Vec<Endpoint>, StoreError>;
    fn tell(&self, reports: Vec<DeliveryReport>, now: Timestamp) -> Result<u64, StoreError>;
    fn attempts(&self, key: EventKey) -> Result<Vec<Attempt>, StoreError>;
    fn redeliver(&self, key: EventKey, lane: Lane, now: Timestamp) -> Result<bool, StoreError>;
    fn replay(&self, owner: IntegratorId, query: ReplayQuery, now: Timestamp) -> Result<u64, StoreError>;
    fn endpoints(&self, owner: IntegratorId) -> Result<Vec<Endpoint>, StoreError>;
    fn forget_endpoint(&self, owner: IntegratorId, id: EndpointId) -> Result<bool, StoreError>;
    fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError>;
    fn backlog(&self) -> Result<Backlog, StoreError>;
});

hand_over!(PostbackSecretStore, node => node.postbacks.secrets, {
    fn list(&self, owner: IntegratorId) -> Result<Vec<SecretVersion>, StoreError>;
    fn add(&self, version: SecretVersion) -> Result<bool, StoreError>;
    fn retire(&self, owner: IntegratorId, number: u32, at: Timestamp) -> Result<bool, StoreError>;
});

hand_over!(IntegratorStore, node => node.integrators, {
    fn create(&self, integrator: Integrator) -> Result<(), StoreError>;
    fn find(&self, id: IntegratorId) -> Result<Option<Integrator>, StoreError>;
    fn list(&self) -> Result<Vec<Integrator>, StoreError>;
    fn set_status(&self, id: IntegratorId, status: IntegratorStatus) -> Result<bool, StoreError>;
    fn set_postback_scope(&self, id: IntegratorId, scope: Option<PostbackScope>) -> Result<bool, StoreError>;
    fn set_split_postback(&self, id: IntegratorId, url: Option<PostbackUrl>) -> Result<bool, StoreError>;
});

hand_over!(ApiKeyStore, node => node.keys, {
    fn create(&self, key: ApiKey) -> Result<(), StoreError>;
    fn find(&self, public_id: &str) -> Result<Option<ApiKey>, StoreError>;
    fn list(&self, owner: IntegratorId) -> Result<Vec<ApiKey>, StoreError>;
    fn revoke(&self, public_id: &str, at: Timestamp) -> Result<bool, StoreError>;
    fn change(&self, public_id: &str, change: KeyChange) -> Result<bool, StoreError>;
    fn replace_secrets(&self, public_id: &str, from: KeySecrets, to: KeySecrets) -> Result<bool, StoreError>;
    fn mark_used(&self, public_id: &str, at: Timestamp) -> Result<(), StoreError>;
});

hand_over!(BookStore, node => node.books, {
    fn book(&self, owner: IntegratorId) -> Result<Book, StoreError>;
    fn findings(&self, owner: IntegratorId) -> Result<Vec<StoredFinding>, StoreError>;
});

hand_over!(PersonStore, node => node.people, {
    fn naming(&self, walk: Walk, person: &Person) -> Result<Walked, StoreError>;
    fn lockable(&self, walk: Walk, untouched_since: Timestamp) -> Result<Walked, StoreError>;
    fn lock(
        &self, owner: IntegratorId, kind: ResourceKind, ids: Vec<Uuid>, untouched_since: Timestamp
    ) -> Result<u64, StoreError>;
    fn erase(&self, erasure: Erasure) -> Result<bool, StoreError>;
});

hand_over!(SealStore, node => node.seals, {
    fn heads(&self, after: Option<IntegratorId>, limit: u32) -> Result<Vec<Head>, StoreError>;
    fn unsealed(&self, owner: IntegratorId, limit: u32) -> Result<Unsealed, StoreError>;
    fn append(&self, seal: Seal) -> Result<bool, StoreError>;
    fn seals(&self, owner: IntegratorId, after: u64, limit: u32) -> Result<Vec<Seal>, StoreError>;
    fn set_difference(&self, owner: IntegratorId, difference: Option<KeptDifference>) -> Result<(), StoreError>;
    fn differences(&self, limit: u32) -> Result<Vec<KeptDifference>, StoreError>;
});
