//! What operators decide about a movement whose outcome nobody knows.
//!
//! | Step | What happens | What is written |
//! |---|---|---|
//! | first operator | the provider is asked once more; evidence goes before any opinion | audit log: proposed |
//! | second operator | the same; must be another one, agree, and come within [`PROPOSAL_LIFETIME`] | audit log: confirmed |
//! | then | the movement is settled or released | evidence: decision, with the postings |
//!
//! The journal is written before the money moves. When the program dies in between, the same command again goes on, within
//! the same time. A proposal or confirmation holds for the sending that it was made about, and for no later one.
//! What the provider says later and contradicts the decision makes a finding, and money that left all the same is
//! taken from the wallet.

use std::time::Duration;

use uuid::Uuid;

pub use crate::audit_log::REASON_CHARS;
use crate::audit_log::{self, Action, AuditLog, LogEntry, Operator};
use crate::error::{ServiceError, StoreError};
use crate::ids::{IntegratorId, RefundId, ResourceKind, ResourceRef, Version, WithdrawalId};
use crate::ports::Ports;
use crate::refunds::service::RefundService;
use crate::time::Timestamp;
use crate::transactions::{ProviderAnswer, Transaction, TransactionService};
use crate::withdrawals::OutgoingState;
use crate::withdrawals::service::WithdrawalService;

/// How long a proposal waits for a second operator.
pub const PROPOSAL_LIFETIME: Duration = Duration::from_hours(24);

/// For how long a provider that once had a movement must have said that it doesn't know it, before operators may call that
/// failed.
pub const FORGOTTEN_FOR: Duration = Duration::from_hours(24);

/// How many entries of the journal are looked through for a proposal.
const MAX_ENTRIES: u32 = 20;

/// What became of the movement, as an operator holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The money left.
    Completed,
    /// It did not and will not leave.
    Failed,
}

impl Verdict {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    const fn proposed(self) -> Action {
        match self {
            Self::Completed => Action::CompletedProposed,
            Self::Failed => Action::FailedProposed,
        }
    }

    const fn confirmed(self) -> Action {
        match self {
            Self::Completed => Action::CompletedConfirmed,
            Self::Failed => Action::FailedConfirmed,
        }
    }
}

/// What an operator says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The record's public id.
    pub id: Uuid,
    /// What became of it.
    pub verdict: Verdict,
    /// How the operator knows; in the journal and in the evidence that the integrator sees.
    pub reason: String,
    /// Who says so.
    pub operator: Operator,
    /// What its operator has seen of what others proposed.
    pub seen: Seen,
}

/// Which proposal an operator knew of: who is told that a proposal moves nothing confirms none by it, since another operator has
/// proposed the same meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It wasn't looked; whatever stands is confirmed by saying the same.
    NotLooked,
    /// That nothing was proposed.
    Nothing,
    /// The proposal with this number in the audit log.
    Proposal(u64),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// The provider knew after all; nothing was to be decided.
    ByEvidence(Transaction),
    /// It waits for a second operator until then; with who had proposed the contrary, in whose place it stands.
    Proposed(ResourceRef, Timestamp, Option<Operator>),
    /// Two operators agreed, and it is done.
    Done(Transaction),
}

/// The use case.
#[derive(Clone)]
pub struct DecisionService {
    ports: Ports,
    log: AuditLog,
    transactions: TransactionService,
    withdrawals: WithdrawalService,
    refunds: RefundService,
}

impl DecisionService {
    /// A service over `ports`.
    pub fn new(ports: Ports) -> Self {
        Self {
            log: AuditLog::new(ports.stores.audit_log.clone(), ports.clock.clone()),
            transactions: TransactionService::new(ports.clone()),
            withdrawals: WithdrawalService::new(ports.clone()),
            refunds: RefundService::new(ports.clone()),
            ports,
        }
    }

    /// Proposes a decision, or confirms the one that another operator has proposed.
    pub async fn decide(&self, decision: &Decision) -> Result<Decided, ServiceError> {
        let reason = audit_log::reason(&decision.reason).map_err(ServiceError::InvalidState)?;
        if !self.ports.is_clock_right() {
            return Err(ServiceError::InvalidState(
                "this node's clock is not right, as its /health/ready says: decide when it is",
            ));
        }
        let resource = self.transactions.locate(decision.id).await?.ok_or(ServiceError::NotFound)?;
        if resource.kind == ResourceKind::Charge {
            return Err(ServiceError::InvalidState("a charge is never uncertain: its payments are"));
        }
        let (transaction, answer) = self.transactions.consult(resource).await?;
        let before = state_of(&transaction);
        if before.is_final() {
            return Ok(Decided::ByEvidence(transaction));
        }
        if *before == OutgoingState::Queued {
            return Err(ServiceError::InvalidState(
                "it was definitely not sent, and will be sent or given up by itself",
            ));
        }
        let (of, taken) = sending(&transaction).ok_or(ServiceError::NotFound)?;
        let submitted_at = of.submitted_at;
        let sending = *state_of(&transaction) == OutgoingState::Submitting;
        if sending && self.ports.clock.now().since(submitted_at) < self.ports.submit_grace {
            return Err(ServiceError::InvalidState("it may be on its way just now: try again in a minute"));
        }
        if decision.verdict == Verdict::Failed {
            self.may_have_failed(resource, submitted_at, taken, &answer).await?;
        }
        let (subject, now) = (decision.id.to_string(), self.ports.clock.now());
        let entries = self.log.about(&subject, MAX_ENTRIES).await?;
        let newest = entries.iter().find(|entry| is_verdict(entry.action));
        // What was said of an earlier sending says nothing of this one.
        let newest =
            newest.filter(|entry| now.since(entry.at) < PROPOSAL_LIFETIME && entry.at >= submitted_at);
        let proposal = newest.filter(|entry| is_proposal(entry.action));
        let standing = proposal.map(|entry| entry.number);
        let is_as_seen = match decision.seen {
            Seen::NotLooked => true,
            Seen::Nothing => standing.is_none(),
            Seen::Proposal(number) => standing == Some(number),
        };
        if !is_as_seen {
            return Err(ServiceError::InvalidState(
                "what is proposed has changed since you looked: look again, and decide then",
            ));
        }
        let proposed = proposal.filter(|entry| entry.action == decision.verdict.proposed());
        let confirmed = newest.filter(|entry| entry.action == decision.verdict.confirmed());
        if let Some(confirmed) = confirmed {
            // Confirmed, and the program died before it was done.
            return self.carry_out(resource, decision.verdict, of, &confirmed.detail).await;
        }
        match proposed {
            Some(first) if first.operator.is_same_as(&decision.operator) => Err(ServiceError::InvalidState(
                "a second operator has to confirm this: another than the one who proposed it",
            )),
            Some(first) => {
                let detail = agreed(first, &decision.operator, reason);
                self.write(decision, decision.verdict.confirmed(), &subject, &detail).await?;
                self.carry_out(resource, decision.verdict, of, &detail).await
            }
            None => {
                self.write(decision, decision.verdict.proposed(), &subject, reason).await?;
                let replaced = proposal.map(|entry| entry.operator.clone());
                Ok(Decided::Proposed(resource, now.plus(PROPOSAL_LIFETIME), replaced))
            }
        }
    }

    /// Refuses what the provider has, or once `taken` has not been without for [`FORGOTTEN_FOR`]: it may still execute it.
    async fn may_have_failed(
        &self,
        resource: ResourceRef,
        submitted_at: Timestamp,
        taken: bool,
        answer: &ProviderAnswer,
    ) -> Result<(), ServiceError> {
        let why = match answer {
            ProviderAnswer::Known(_) => {
                "the settlement provider has it and may still execute it: it can't be called failed"
            }
            _ if !taken => return Ok(()),
            ProviderAnswer::NotAsked(_) => {
                "the settlement provider has it, as it once said, and can't be asked now: it can't be called failed until it \
                 has not known it for 24 hours"
            }
            ProviderAnswer::NotKnown => {
                let before = self.ports.clock.now().minus(FORGOTTEN_FOR);
                if self.ports.is_forgotten(resource, submitted_at, before).await? {
                    return Ok(());
                }
                "the settlement provider had it, and doesn't know it now: it can't be called failed until it has not known \
                 it for 24 hours"
            }
        };
        Err(ServiceError::InvalidState(why))
    }

    async fn write(
        &self,
        decision: &Decision,
        action: Action,
        subject: &str,
        detail: &str,
    ) -> Result<LogEntry, StoreError> {
        self.log.record(&decision.operator, action, subject, detail).await
    }

    async fn carry_out(
        &self,
        resource: ResourceRef,
        verdict: Verdict,
        of: Sending,
        detail: &str,
    ) -> Result<Decided, ServiceError> {
        let integrator_id: IntegratorId = resource.integrator_id;
        let decided = match resource.kind {
            ResourceKind::Withdrawal => {
                let id = WithdrawalId(resource.id);
                let decided = self.withdrawals.decide(integrator_id, id, verdict, of, detail).await?;
                Transaction::Withdrawal(Box::new(decided))
            }
            ResourceKind::Refund => {
                let id = RefundId(resource.id);
                let decided = self.refunds.decide(integrator_id, id, verdict, of, detail).await?;
                Transaction::Refund(Box::new(decided))
            }
            ResourceKind::Charge | ResourceKind::Split => return Err(ServiceError::NotFound),
        };
        if state_of(&decided).is_final() {
            Ok(Decided::Done(decided))
        } else {
            Err(ServiceError::InvalidState(
                "it has changed since the provider was asked: look at its evidence, and decide again",
            ))
        }
    }
}

fn agreed(first: &LogEntry, second: &Operator, reason: &str) -> String {
    format!("decided by {} ({}) and {} ({})", first.operator.as_str(), first.detail, second.as_str(), reason)
}

const fn is_proposal(action: Action) -> bool {
    matches!(action, Action::CompletedProposed | Action::FailedProposed)
}

const fn is_verdict(action: Action) -> bool {
    is_proposal(action) || matches!(action, Action::CompletedConfirmed | Action::FailedConfirmed)
}

/// The sending that is decided about, as it was when the provider had just been asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    /// When it was last about to be sent.
    pub(crate) submitted_at: Timestamp,
    /// The version of the record.
    pub(crate) version: Version,
}

/// The sending, and whether the provider ever said that it took it.
const fn sending(transaction: &Transaction) -> Option<(Sending, bool)> {
    let (submitted_at, version, taken) = match transaction {
        Transaction::Withdrawal(withdrawal) => {
            (withdrawal.submitted_at, withdrawal.version, withdrawal.provider_id.is_some())
        }
        Transaction::Refund(refund) => (refund.submitted_at, refund.version, refund.provider_id.is_some()),
        Transaction::Charge(_) => return None,
    };
    Some((Sending { submitted_at, version }, taken))
}

fn state_of(transaction: &Transaction) -> &OutgoingState {
    match transaction {
        Transaction::Withdrawal(withdrawal) => &withdrawal.state,
        Transaction::Refund(refund) => &refund.state,
        // Never asked for: a charge was refused before.
        Transaction::Charge(_) => &OutgoingState::Canceled,
    }
}
