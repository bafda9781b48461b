//! Finding a record by whatever identifies it, and asking the provider about it, whatever it is.

use std::time::Duration;

use uuid::Uuid;

use crate::callbacks::{Callback, ClaimedCallback};
use crate::charges::service::ChargeService;
use crate::charges::{Charge, ChargeState};
use crate::error::{ServiceError, StoreError};
use crate::evidence::{Evidence, EvidenceKind, Proof, Seen};
use crate::follow_up::FollowUp;
use crate::ids::{ChargeId, IntegratorId, RefundId, ResourceKind, ResourceRef, WithdrawalId};
use crate::ports::Ports;
use crate::provider::{ProviderBody, ProviderError};
use crate::refunds::Refund;
use crate::refunds::service::RefundService;
use crate::schedule;
use crate::text::ExternalId;
use crate::unrecorded::{Sending, Submitted, TOLD_AT_ONCE, TOLD_WITHIN, may_end};
use crate::withdrawals::service::WithdrawalService;
use crate::withdrawals::{OutgoingState, Withdrawal};

/// A record of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// A charge.
    Charge(Box<Charge>),
    /// A withdrawal.
    Withdrawal(Box<Withdrawal>),
    /// A refund.
    Refund(Box<Refund>),
}

impl Transaction {
    /// Whether nothing was learnt about it since it was `before`: it is the same, or its time was over.
    pub fn says_no_more_than(&self, before: &Self) -> bool {
        let is_over = matches!(
            (before, self),
            (Self::Charge(before), Self::Charge(after))
                if before.state == ChargeState::Pending && after.state == ChargeState::Expired
        );
        is_over || self == before
    }

    /// What this is.
    pub const fn resource(&self) -> ResourceRef {
        match self {
            Self::Charge(charge) => charge.resource(),
            Self::Withdrawal(withdrawal) => withdrawal.resource(),
            Self::Refund(refund) => refund.resource(),
        }
    }
}

/// What the provider said just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderAnswer {
    /// It knows the operation.
    Known(ProviderBody),
    /// It doesn't.
    NotKnown,
    /// It couldn't be asked.
    NotAsked(ProviderError),
}

/// The use cases that are the same for every kind of record.
#[derive(Clone)]
pub struct TransactionService {
    ports: Ports,
    charges: ChargeService,
    withdrawals: WithdrawalService,
    refunds: RefundService,
}

impl TransactionService {
    /// A service over `ports`.
    pub fn new(ports: Ports) -> Self {
        Self {
            charges: ChargeService::new(ports.clone()),
            withdrawals: WithdrawalService::new(ports.clone()),
            refunds: RefundService::new(ports.clone()),
            ports,
        }
    }

    /// See [`ChargeService::of_operators`].
    #[must_use]
    pub fn of_operators(self) -> Self {
        Self { charges: self.charges.of_operators(), ..self }
    }

    /// See [`Reconciler::record`](crate::reconciler::Reconciler::record). What can't be told yet, or not yet be found, is
    /// remembered.
    pub(crate) async fn record(&self) -> usize {
        let (unrecorded, begun) = (&self.ports.unrecorded, self.ports.clock.now());
        for _ in 0..unrecorded.len().min(TOLD_AT_ONCE) {
            let Some(told) = unrecorded.next() else { break };
            let Some(Sending { of, heard }) = told.sending() else { break };
            let ended = match of {
                Submitted::Withdrawal(submitted) => self.withdrawals.record_late(submitted, heard).await,
                Submitted::Refund(submitted) => self.refunds.record_late(submitted, heard).await,
            };
            match ended {
                Ok(false) => {}
                // The store is away: so it is for the others.
                Err(ServiceError::Store(StoreError::Unavailable(_) | StoreError::Unknown(_))) => break,
                Err(error) if may_end(&error) => {}
                Ok(true) | Err(_) => told.done(),
            }
            if self.ports.clock.now().since(begun) >= TOLD_WITHIN {
                break;
            }
        }
        unrecorded.len()
    }

    /// The integrator's record with this public id.
    pub async fn find_by_uuid(
        &self,
        integrator_id: IntegratorId,
        id: Uuid,
    ) -> Result<Transaction, ServiceError> {
        let stores = &self.ports.stores;
        if let Some(charge) = stores.charges.find(integrator_id, ChargeId(id)).await? {
            return Ok(Transaction::Charge(Box::new(charge)));
        }
        if let Some(withdrawal) = stores.withdrawals.find(integrator_id, WithdrawalId(id)).await? {
            return Ok(Transaction::Withdrawal(Box::new(withdrawal)));
        }
        let refund = stores.refunds.find(integrator_id, RefundId(id)).await?;
        refund.map(|refund| Transaction::Refund(Box::new(refund))).ok_or(ServiceError::NotFound)
    }

    /// The integrator's charge and withdrawal (else refund) with this name. [`ServiceError::Ambiguous`] when it names
    /// both a charge and a withdrawal.
    pub async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        name: &ExternalId,
    ) -> Result<Transaction, ServiceError> {
        let stores = &self.ports.stores;
        let charge = stores.charges.find_by_external_id(integrator_id, name).await?;
        let withdrawal = stores.withdrawals.find_by_external_id(integrator_id, name).await?;
        match (charge, withdrawal) {
            (Some(charge), Some(withdrawal)) => {
                Err(ServiceError::Ambiguous(vec![charge.resource(), withdrawal.resource()]))
            }
            (Some(charge), None) => Ok(Transaction::Charge(Box::new(charge))),
            (None, Some(withdrawal)) => Ok(Transaction::Withdrawal(Box::new(withdrawal))),
            (None, None) => {
                let refund = stores.refunds.find_by_external_id(integrator_id, name).await?;
                refund.map(|refund| Transaction::Refund(Box::new(refund))).ok_or(ServiceError::NotFound)
            }
        }
    }

    /// The integrator's record that a v2 `pix_id` names: our id with or without hyphens, the provider's, or the
    /// end-to-end id.
    pub async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Transaction, ServiceError> {
        if let Ok(id) = Uuid::try_parse(pix_id) {
            match self.find_by_uuid(integrator_id, id).await {
                Err(ServiceError::NotFound) => {}
                found => return found,
            }
        }
        let stores = &self.ports.stores;
        if let Some(charge) = stores.charges.find_by_pix_id(integrator_id, pix_id).await? {
            return Ok(Transaction::Charge(Box::new(charge)));
        }
        if let Some(withdrawal) = stores.withdrawals.find_by_pix_id(integrator_id, pix_id).await? {
            return Ok(Transaction::Withdrawal(Box::new(withdrawal)));
        }
        let refund = stores.refunds.find_by_pix_id(integrator_id, pix_id).await?;
        refund.map(|refund| Transaction::Refund(Box::new(refund))).ok_or(ServiceError::NotFound)
    }

    /// The record that is meant. [`ServiceError::NotFound`] for a share of a charge, which is none to the provider.
    pub async fn find(&self, resource: ResourceRef) -> Result<Transaction, ServiceError> {
        let ResourceRef { integrator_id, kind, id } = resource;
        Ok(match kind {
            ResourceKind::Charge => {
                Transaction::Charge(Box::new(self.charges.get(integrator_id, ChargeId(id)).await?))
            }
            ResourceKind::Withdrawal => Transaction::Withdrawal(Box::new(
                self.withdrawals.get(integrator_id, WithdrawalId(id)).await?,
            )),
            ResourceKind::Refund => {
                Transaction::Refund(Box::new(self.refunds.get(integrator_id, RefundId(id)).await?))
            }
            ResourceKind::Split => return Err(ServiceError::NotFound),
        })
    }

    /// Asks the provider about a record and applies what it says.
    pub async fn consult(
        &self,
        resource: ResourceRef,
    ) -> Result<(Transaction, ProviderAnswer), ServiceError> {
        self.consult_read(self.find(resource).await?).await
    }

    /// The same of a record that was just read.
    pub async fn consult_read(
        &self,
        found: Transaction,
    ) -> Result<(Transaction, ProviderAnswer), ServiceError> {
        self.consult_hinted(found, None).await
    }

    /// The same after a callback about the record, where the callback is kept as evidence before the question, or with what
    /// is learnt.
    pub(crate) async fn consult_called_back(
        &self,
        found: Transaction,
        claimed: &ClaimedCallback,
    ) -> Result<(Transaction, ProviderAnswer), ServiceError> {
        if self.is_kept_with_the_answer(&found, claimed) {
            let hint = Seen { at: Some(self.ports.clock.now()), ..hint(&claimed.callback) };
            return self.consult_hinted(found, Some(hint)).await;
        }
        self.called_back(found.resource(), &claimed.callback).await;
        self.consult_hinted(found, None).await
    }

    /// Whether a callback needs no commit of its own before the question: no node decides, for as long as the call may take that
    /// sends a record, by what the provider has not said, and whoever takes the callback up again, after this worker died,
    /// keeps it first.
    fn is_kept_with_the_answer(&self, found: &Transaction, claimed: &ClaimedCallback) -> bool {
        let (state, submitted_at) = match found {
            Transaction::Charge(_) => return false,
            Transaction::Withdrawal(withdrawal) => (&withdrawal.state, withdrawal.submitted_at),
            Transaction::Refund(refund) => (&refund.state, refund.submitted_at),
        };
        claimed.attempts == 1
            && matches!(state, OutgoingState::Submitting | OutgoingState::Accepted)
            && self.ports.clock.now().since(submitted_at) < self.ports.submit_grace
            && self.ports.is_clock_right()
    }

    async fn consult_hinted(
        &self,
        found: Transaction,
        hint: Option<Seen>,
    ) -> Result<(Transaction, ProviderAnswer), ServiceError> {
        match found {
            Transaction::Charge(charge) => {
                let (charge, answer) = self.charges.refresh_read(*charge).await?;
                let body = answer.map(|report| report.map(|report| report.body));
                Ok((Transaction::Charge(Box::new(charge)), said(body)))
            }
            Transaction::Withdrawal(withdrawal) => {
                let (withdrawal, answer) = self.withdrawals.refresh_hinted(*withdrawal, hint).await?;
                let body = answer.map(|report| report.map(|report| report.body));
                Ok((Transaction::Withdrawal(Box::new(withdrawal)), said(body)))
            }
            Transaction::Refund(refund) => {
                let (refund, answer) = self.refunds.refresh_hinted(*refund, hint).await?;
                let body = answer.map(|report| report.map(|report| report.body));
                Ok((Transaction::Refund(Box::new(refund)), said(body)))
            }
        }
    }

    /// What was done and heard about a record, oldest first.
    pub async fn evidence(&self, resource: ResourceRef) -> Result<Vec<Evidence>, ServiceError> {
        Ok(self.ports.stores.evidence.list(resource).await?)
    }

    /// Keeps that the provider called back about an outgoing movement, and what it said as a digest: a hint proves
    /// nothing, and what it leads to is asked of the provider.
    pub async fn called_back(&self, resource: ResourceRef, callback: &Callback) {
        if resource.kind != ResourceKind::Charge {
            let hint = hint(callback);
            let Ok(known) = self.ports.stores.evidence.list(resource).await else { return };
            let is_same = |seen: &Evidence| {
                seen.kind == EvidenceKind::Callback
                    && seen.at >= callback.received_at
                    && seen.detail == hint.detail
            };
            if !known.iter().any(is_same) {
                self.ports.note_beside(&known, self.ports.evidence(resource, hint)).await;
            }
        }
    }

    /// The record that a provider's callback, or the link of a payer, names by our reference; `None` when there is none.
    pub async fn locate(&self, reference: Uuid) -> Result<Option<ResourceRef>, ServiceError> {
        Ok(self.ports.stores.lookups.locate(reference).await?)
    }

    /// Goes on with a record whose time to be asked about has come, and says when to come back.
    pub async fn follow_up(&self, due: FollowUp) -> Result<(), ServiceError> {
        let FollowUp { resource, attempts, .. } = due;
        let integrator_id = resource.integrator_id;
        let now = self.ports.clock.now();
        let next = match resource.kind {
            ResourceKind::Charge => {
                let asked = self.charges.refresh(integrator_id, ChargeId(resource.id)).await;
                if asked == Err(ServiceError::Restored) {
                    // What went back is booked once money may leave again.
                    let next = Some(now.plus(schedule::outgoing(attempts)));
                    return Ok(self.ports.stores.follow_ups.postpone(due, next).await?);
                }
                let (charge, answer) = asked?;
                match charge.state {
                    ChargeState::Pending => Some(schedule::pending_charge(&charge, attempts, now)),
                    ChargeState::Creating => Some(now.plus(schedule::uncertain(attempts))),
                    ChargeState::Expired => schedule::ended_charge(attempts, now),
                    ChargeState::Canceled => schedule::canceled_charge(&charge, attempts, now),
                    // Due for a reason that only an answer settles.
                    ChargeState::Paid if answer.is_err() => Some(now.plus(schedule::outgoing(attempts))),
                    ChargeState::Paid | ChargeState::Failed(_) => None,
                }
            }
            ResourceKind::Withdrawal => {
                let id = WithdrawalId(resource.id);
                let withdrawal = self.withdrawals.follow_up(integrator_id, id).await?;
                self.wait(&withdrawal.state, due).map(|wait| now.plus(wait))
            }
            ResourceKind::Refund => {
                let refund = self.refunds.follow_up(integrator_id, RefundId(resource.id)).await?;
                self.wait(&refund.state, due).map(|wait| now.plus(wait))
            }
            ResourceKind::Split => None,
        };
        Ok(self.ports.stores.follow_ups.postpone(due, next).await?)
    }

    /// How long an outgoing movement is left alone: a little less than the schedule says, so that what failed together is
    /// not asked about together.
    fn wait(&self, state: &OutgoingState, due: FollowUp) -> Option<Duration> {
        let spread = |wait| Some(schedule::jittered(wait, due.resource.id, due.attempts));
        match state {
            state if state.is_final() => None,
            // A record that is just being sent again is left alone for as long as sending may take.
            OutgoingState::Submitting => Some(schedule::uncertain(due.attempts).max(self.ports.submit_grace)),
            OutgoingState::Uncertain => spread(schedule::uncertain(due.attempts)),
            _ => spread(schedule::outgoing(due.attempts)),
        }
    }
}

/// That the provider called back, and what it said as a digest.
fn hint(callback: &Callback) -> Seen {
    let detail = format!("{} bytes, digest {}", callback.body.len(), callback.digest().simple());
    Seen::new(EvidenceKind::Callback, Proof::Nothing, &detail)
}

fn said(answer: Result<Option<ProviderBody>, ProviderError>) -> ProviderAnswer {
    match answer {
        Ok(Some(body)) => ProviderAnswer::Known(body),
        Ok(None) => ProviderAnswer::NotKnown,
        Err(error) => ProviderAnswer::NotAsked(error),
    }
}
