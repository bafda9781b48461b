//! A node's way to the store: every call lets others go first, before and after its effect, and may fail.
//!
//! What a commit's answer can say is what the port documents: nothing happened, or nobody knows. In the second case it
//! did not happen, or did, or comes to be a little later.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::audit_log::{AuditLogStore, LogEntry};
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::charges::store::ChargeStore;
use pix_domain::charges::{Charge, Receipt};
use pix_domain::credentials::store::IntegratorStore;
use pix_domain::credentials::{Integrator, IntegratorStatus};
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::evidence::{Evidence, EvidenceStore};
use pix_domain::fees::{FeeSchedule, FeeStore};
use pix_domain::follow_up::{FollowUp, FollowUpStore, LookupStore, OpenMovements};
use pix_domain::ids::{ChargeId, IntegratorId, RefundId, ResourceKind, ResourceRef, SplitId, WithdrawalId};
use pix_domain::limits::{LimitPolicy, LimitStore, Sent, SentTo, Windows};
use pix_domain::list::ListQuery;
use pix_domain::party::PixKey;
use pix_domain::ports::Stores;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::refunds::Refund;
use pix_domain::refunds::store::RefundStore;
use pix_domain::splits::Split;
use pix_domain::splits::store::SplitStore;
use pix_domain::text::{ExternalId, IdempotencyKey, PostbackUrl};
use pix_domain::time::Timestamp;
use pix_domain::transition::{Record, Transition, TransitionStore};
use pix_domain::wallet::store::{EntryQuery, WalletStore};
use pix_domain::wallet::{Entry, Wallet};
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::store::WithdrawalStore;
use uuid::Uuid;

use crate::faults::Fault;
use crate::sim::{LateCommit, Sim, short};

/// How late a commit may come to be.
const LATEST_COMMIT: Duration = Duration::from_secs(30);

/// A node's way to the store.
pub struct StoreFaults {
    sim: Arc<Sim>,
    inner: Stores,
}

impl StoreFaults {
    /// The way to `inner`.
    pub fn over(sim: Arc<Sim>, inner: Stores) -> Stores {
        Stores::of(Arc::new(Self { sim, inner }))
    }

    /// Others go first; then, perhaps, the store can't be reached, or its answer doesn't come.
    async fn pass(&self) -> Result<(), StoreError> {
        self.sim.pause().await;
        self.sim.with(|state| {
            if !state.random.permille(state.rates.read_unavailable) {
                return Ok(());
            }
            state.count(Fault::ReadUnavailable);
            state.trace(|| "the store is not available".to_owned());
            Err(away())
        })
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("no connection".into())
}

fn cut() -> ApplyError {
    ApplyError::Store(StoreError::Unknown("the connection was cut".into()))
}

/// What becomes of a commit.
enum Commit {
    Clean,
    Refused,
    UnknownNotDone,
    UnknownDone,
    UnknownLate,
}

impl StoreFaults {
    fn draw(&self) -> Commit {
        self.sim.with(|state| {
            if state.random.permille(state.rates.apply_unavailable) {
                state.count(Fault::ApplyUnavailable);
                return Commit::Refused;
            }
            if !state.random.permille(state.rates.commit_unknown) {
                return Commit::Clean;
            }
            let (commit, fault) = match state.random.below(3) {
                0 => (Commit::UnknownNotDone, Fault::CommitUnknownNotDone),
                1 => (Commit::UnknownDone, Fault::CommitUnknownDone),
                _ => (Commit::UnknownLate, Fault::CommitUnknownLate),
            };
            state.count(fault);
            commit
        })
    }
}

/// What a transition does, for a trace.
pub fn summary(transition: &Transition) -> String {
    let writes = transition.whole().flat_map(|one| &one.writes).map(|write| {
        let state = match &write.record {
            Record::Charge(charge) => charge.state.name(),
            Record::Withdrawal(withdrawal) => withdrawal.state.name(),
            Record::Refund(refund) => refund.state.name(),
            Record::Split(_) => "given",
        };
        format!("{} {state} v{}", short(write.record.resource()), write.record.version().0)
    });
    let findings = transition.findings.iter().map(|finding| format!("finding {}", finding.code));
    let evidence = transition.evidence.iter().map(|evidence| {
        format!("{} {} of {}", evidence.kind.as_str(), evidence.proof.as_str(), short(evidence.resource))
    });
    writes.chain(findings).chain(evidence).collect::<Vec<_>>().join(", ")
}

#[async_trait]
impl TransitionStore for StoreFaults {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        self.sim.pause().await;
        let text = self.sim.with(|state| state.is_traced().then(|| summary(&transition)));
        let result = match self.draw() {
            Commit::Clean => self.inner.transitions.apply(transition).await,
            Commit::Refused => Err(away().into()),
            Commit::UnknownNotDone => Err(cut()),
            Commit::UnknownDone => {
                let _ = self.inner.transitions.apply(transition).await;
                Err(cut())
            }
            Commit::UnknownLate => {
                self.sim.with(|state| {
                    let at = state.now.plus(state.random.span(LATEST_COMMIT));
                    state.late.push(LateCommit { at, transition });
                });
                Err(cut())
            }
        };
        self.sim.with(|state| {
            if result == Err(ApplyError::Stale) {
                state.count(Fault::StaleWrite);
            }
            state.trace(|| format!("apply [{}]: {}", text.unwrap_or_default(), told(&result)));
        });
        self.sim.pause().await;
        result
    }

    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        let mut results = Vec::new();
        for transition in transitions {
            results.push(self.apply(transition).await);
        }
        results
    }
}

fn told(result: &Result<(), ApplyError>) -> String {
    result.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned())
}

/// Methods of `$port`, each handed to the store between two chances of going wrong.
macro_rules! hand_over {
    ($port:ident => $field:ident, {
        $(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) -> $answer:ty;)+
    }) => {
        #[async_trait]
        impl $port for StoreFaults {
            $(async fn $name(&self $(, $argument: $kind)*) -> Result<$answer, StoreError> {
                self.pass().await?;
                let answer = self.inner.$field.$name($($argument),*).await?;
                self.pass().await?;
                Ok(answer)
            })+
        }
    };
}

hand_over!(ChargeStore => charges, {
    fn find(&self, owner: IntegratorId, id: ChargeId) -> Option<Charge>;
    fn find_by_external_id(&self, owner: IntegratorId, name: &ExternalId) -> Option<Charge>;
    fn find_by_pix_id(&self, owner: IntegratorId, pix_id: &str) -> Option<Charge>;
    fn list(&self, owner: IntegratorId, query: &ListQuery) -> Vec<Charge>;
    fn receipts(&self, owner: IntegratorId, id: ChargeId) -> Vec<Receipt>;
});

hand_over!(WithdrawalStore => withdrawals, {
    fn find(&self, owner: IntegratorId, id: WithdrawalId) -> Option<Withdrawal>;
    fn find_by_external_id(&self, owner: IntegratorId, name: &ExternalId) -> Option<Withdrawal>;
    fn find_by_pix_id(&self, owner: IntegratorId, pix_id: &str) -> Option<Withdrawal>;
    fn list(&self, owner: IntegratorId, query: &ListQuery) -> Vec<Withdrawal>;
});

hand_over!(RefundStore => refunds, {
    fn find(&self, owner: IntegratorId, id: RefundId) -> Option<Refund>;
    fn find_by_external_id(&self, owner: IntegratorId, name: &ExternalId) -> Option<Refund>;
    fn find_by_pix_id(&self, owner: IntegratorId, pix_id: &str) -> Option<Refund>;
    fn list_of_charge(&self, owner: IntegratorId, charge: ChargeId) -> Vec<Refund>;
});

hand_over!(SplitStore => splits, {
    fn find(&self, owner: IntegratorId, id: SplitId) -> Option<Split>;
    fn list(&self, owner: IntegratorId, query: &ListQuery) -> Vec<Split>;
});

hand_over!(IntegratorStore => integrators, {
    fn create(&self, integrator: Integrator) -> ();
    fn find(&self, id: IntegratorId) -> Option<Integrator>;
    fn list(&self) -> Vec<Integrator>;
    fn set_status(&self, id: IntegratorId, status: IntegratorStatus) -> bool;
    fn set_postback_scope(&self, id: IntegratorId, scope: Option<PostbackScope>) -> bool;
    fn set_split_postback(&self, id: IntegratorId, url: Option<PostbackUrl>) -> bool;
});

hand_over!(WalletStore => wallets, {
    fn wallet(&self, owner: IntegratorId) -> Wallet;
    fn entries(&self, owner: IntegratorId, query: &EntryQuery) -> Vec<Entry>;
});

hand_over!(FeeStore => fees, {
    fn current(&self, owner: IntegratorId) -> FeeSchedule;
    fn version(&self, owner: IntegratorId, version: u32) -> Option<FeeSchedule>;
    fn set(&self, owner: IntegratorId, schedule: FeeSchedule, at: Timestamp) -> u32;
});

hand_over!(LimitStore => limits, {
    fn policy(&self, owner: IntegratorId) -> LimitPolicy;
    fn set_policy(&self, owner: IntegratorId, policy: &LimitPolicy, at: Timestamp) -> Option<u32>;
    fn sent(&self, owner: IntegratorId, windows: &Windows) -> Sent;
    fn sent_to(&self, owner: IntegratorId, windows: &Windows, key: &PixKey) -> SentTo;
});

hand_over!(FollowUpStore => follow_ups, {
    fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Vec<FollowUp>;
    fn postpone(&self, claimed: FollowUp, until: Option<Timestamp>) -> ();
    fn open_movements(&self) -> Vec<OpenMovements>;
});

hand_over!(LookupStore => lookups, {
    fn find_handle(&self, owner: IntegratorId, kind: ResourceKind, key: &IdempotencyKey) -> Option<Uuid>;
    fn find_twins(&self, owner: IntegratorId, key: Uuid) -> Vec<Uuid>;
    fn locate(&self, id: Uuid) -> Option<ResourceRef>;
});

hand_over!(EvidenceStore => evidence, {
    fn list(&self, resource: ResourceRef) -> Vec<Evidence>;
});

hand_over!(CallbackStore => callbacks, {
    fn keep(&self, callback: Callback, state: CallbackState) -> bool;
    fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Vec<ClaimedCallback>;
    fn put(&self, claimed: &ClaimedCallback, state: CallbackState) -> ();
    fn look_up(&self, id: Uuid) -> Option<(CallbackState, u32)>;
    fn forget(&self, before: Timestamp, limit: u32) -> u64;
});

hand_over!(AuditLogStore => audit_log, {
    fn append(&self, entry: LogEntry) -> bool;
    fn list(&self, after: u64, limit: u32) -> Vec<LogEntry>;
    fn newest(&self) -> Option<LogEntry>;
    fn about(&self, subject: &str, limit: u32) -> Vec<LogEntry>;
});
