//! The use cases of withdrawals.
//!
//! Sending money: replay, if its handle is known → one `apply` that stores the intent and holds amount and fee → the
//! call to the provider, under our reference, with no transaction open → a second `apply` with what is known. A call
//! without a known end leaves the money held and is followed up by asking, never by sending again.

use uuid::Uuid;

use super::{NewWithdrawal, OutgoingState, Payee, Withdrawal, state};
use crate::charges::Failure;
use crate::credentials::IntegratorStatus;
use crate::error::{ApplyError, ServiceError, StoreError, UniqueKey};
use crate::fees::Operation;
use crate::ids::{IntegratorId, ResourceKind, WithdrawalId};
use crate::list::{ListQuery, Page};
use crate::money::Amount;
use crate::ports::{Applied, MAX_STALE_RETRIES, Outcome, Ports};
use crate::provider::{OutgoingReport, Progress, ProviderError};
use crate::schedule;
use crate::text::{Description, ExternalId, IdempotencyKey, PostbackUrl};
use crate::time::Timestamp;
use crate::transition::Step;

/// What an integrator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateWithdrawal {
    /// Who asks.
    pub integrator_id: IntegratorId,
    /// Whether it may.
    pub integrator_status: IntegratorStatus,
    /// Its name for the withdrawal.
    pub external_id: Option<ExternalId>,
    /// Its handle for the request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// How much the payee gets.
    pub amount: Amount,
    /// Who is paid.
    pub payee: Payee,
    /// What for.
    pub description: Option<Description>,
    /// Where events go.
    pub postback_url: Option<PostbackUrl>,
}

impl CreateWithdrawal {
    fn asks_for(&self, withdrawal: &Withdrawal) -> bool {
        let name = match &self.external_id {
            Some(name) => withdrawal.external_id_given && *name == withdrawal.external_id,
            None => !withdrawal.external_id_given,
        };
        name && self.amount == withdrawal.amount
            && self.payee == withdrawal.payee
            && self.description == withdrawal.description
            && self.postback_url == withdrawal.postback_url
    }
}

/// The use cases of withdrawals.
#[derive(Clone)]
pub struct WithdrawalService {
    ports: Ports,
}

impl WithdrawalService {
    /// A service over `ports`.
    pub const fn new(ports: Ports) -> Self {
        Self { ports }
    }

    /// Sends money, or finds the withdrawal its handle stands for.
    pub async fn create(&self, command: CreateWithdrawal) -> Result<Outcome<Withdrawal>, ServiceError> {
        if let Some(withdrawal) = self.replay(&command).await? {
            return Ok(Outcome::Replayed(withdrawal));
        }
        if command.integrator_status == IntegratorStatus::Suspended {
            return Err(ServiceError::IntegratorSuspended);
        }
        let new = self.priced(&command).await?;
        let (integrator_id, id) = (new.integrator_id, new.id);
        let Some(intent) = state::accept(new, self.ports.clock.now(), self.ports.submit_grace) else {
            return Err(ServiceError::InsufficientBalance);
        };
        let accepted = intent.withdrawal().cloned().ok_or(ServiceError::NotFound)?;
        match self.ports.stores.transitions.apply(intent.answering(command.idempotency_key.clone())).await {
            Ok(()) => {}
            Err(ApplyError::Duplicate(UniqueKey::ExternalId | UniqueKey::IdempotencyKey)) => {
                let winner = self.replay(&command).await?.ok_or(ServiceError::Contention)?;
                return Ok(Outcome::Replayed(winner));
            }
            Err(ApplyError::InsufficientFunds) => {
                // Another request with the same handle may just have taken the money.
                let winner = self.replay(&command).await?;
                return winner.map(Outcome::Replayed).ok_or(ServiceError::InsufficientBalance);
            }
            Err(ApplyError::Store(StoreError::Unknown(why))) => {
                let stored = self.ports.stores.withdrawals.find(integrator_id, id).await?;
                let stored = stored.ok_or(ServiceError::Store(StoreError::Unavailable(why)))?;
                if stored.version != accepted.version {
                    // A follow-up went on with it while nobody knew: what was decided then may rest on its not being
                    // sent.
                    return Ok(Outcome::Created(stored));
                }
            }
            Err(ApplyError::Store(error)) => return Err(error.into()),
            Err(_) => return Err(ServiceError::Contention),
        }
        // The intent is stored, so from here on this is a withdrawal whose outcome isn't known, never an error: who is
        // told that it failed might ask for another.
        Ok(Outcome::Created(self.send(accepted.clone()).await.unwrap_or(accepted)))
    }

    async fn priced(&self, command: &CreateWithdrawal) -> Result<NewWithdrawal, ServiceError> {
        let fees = self.ports.stores.fees.current(command.integrator_id).await?;
        let id: Uuid = self.ports.ids.next();
        Ok(NewWithdrawal {
            id: WithdrawalId(id),
            integrator_id: command.integrator_id,
            external_id: match &command.external_id {
                Some(name) => name.clone(),
                None => Ports::generated_name("wdr", id)?,
            },
            external_id_given: command.external_id.is_some(),
            amount: command.amount,
            fee: fees.rule(Operation::CashOut).fee(command.amount),
            fee_version: fees.version,
            payee: command.payee.clone(),
            description: command.description.clone(),
            postback_url: command.postback_url.clone(),
        })
    }

    async fn replay(&self, command: &CreateWithdrawal) -> Result<Option<Withdrawal>, ServiceError> {
        let stores = &self.ports.stores;
        if let Some(key) = &command.idempotency_key
            && let Some(id) =
                stores.lookups.find_handle(command.integrator_id, ResourceKind::Withdrawal, key).await?
        {
            let found = self.get(command.integrator_id, WithdrawalId(id)).await?;
            return if command.asks_for(&found) {
                Ok(Some(found))
            } else {
                Err(ServiceError::IdempotencyMismatch)
            };
        }
        if let Some(name) = &command.external_id
            && let Some(found) = stores.withdrawals.find_by_external_id(command.integrator_id, name).await?
        {
            return if command.asks_for(&found) {
                Ok(Some(found))
            } else {
                Err(ServiceError::ExternalIdConflict)
            };
        }
        Ok(None)
    }

    /// Calls the provider for a withdrawal whose intent is stored, and applies what is known afterwards.
    async fn send(&self, submitted: Withdrawal) -> Result<Withdrawal, ServiceError> {
        let (integrator_id, id) = (submitted.integrator_id, submitted.id);
        if self.ports.clock.now().since(submitted.submitted_at) > self.ports.submit_grace {
            // Held up for so long that others may be about to take "not known" for proof.
            return self.not_sent(&submitted).await;
        }
        match self.ports.provider.send_payment(submitted.order()).await {
            Ok(report) => self.learn(integrator_id, id, &report).await,
            Err(ProviderError::Rejected { code, message, .. }) => {
                let failure = Failure { code, message };
                self.advance(integrator_id, id, |withdrawal, now| withdrawal.fail(failure.clone(), now)).await
            }
            Err(ProviderError::Unavailable(_)) => self.not_sent(&submitted).await,
            Err(ProviderError::Indeterminate(_)) => {
                self.advance(integrator_id, id, Withdrawal::lose_sight).await
            }
        }
    }

    /// What `submitted` stands for was definitely not sent. Only that very submission goes back to the queue: a later
    /// one, of another worker, may be on its way.
    async fn not_sent(&self, submitted: &Withdrawal) -> Result<Withdrawal, ServiceError> {
        let version = submitted.version;
        self.advance(submitted.integrator_id, submitted.id, |withdrawal, now| {
            if withdrawal.version == version { withdrawal.queue(now) } else { Step::Already }
        })
        .await
    }

    async fn learn(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
        report: &OutgoingReport,
    ) -> Result<Withdrawal, ServiceError> {
        let decide = |withdrawal: Withdrawal, now: Timestamp| match &report.progress {
            Progress::Accepted => withdrawal.accepted(report.clone(), now),
            Progress::Completed => withdrawal.complete(report.clone(), now),
            Progress::Returned(total) => withdrawal.come_back(report.clone(), *total, now),
            Progress::Failed { code, message } => {
                withdrawal.fail(Failure { code: code.clone(), message: message.clone() }, now)
            }
        };
        self.advance(integrator_id, id, decide).await
    }

    /// One withdrawal of the integrator.
    pub async fn get(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
    ) -> Result<Withdrawal, ServiceError> {
        self.ports.stores.withdrawals.find(integrator_id, id).await?.ok_or(ServiceError::NotFound)
    }

    /// A page of the integrator's withdrawals, newest first.
    pub async fn list(
        &self,
        integrator_id: IntegratorId,
        query: ListQuery,
    ) -> Result<Page<Withdrawal>, ServiceError> {
        let (cursor, limit) = (query.cursor, query.limit);
        let one_more = ListQuery { limit: limit.saturating_add(1), ..query };
        let rows = self.ports.stores.withdrawals.list(integrator_id, &one_more).await?;
        Ok(Page::trim(rows, cursor, limit))
    }

    /// Asks the provider about a withdrawal and applies what it says. `attempts` counts the times it was asked before,
    /// this one included: "not known" is never proof the first time.
    pub async fn refresh(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
        attempts: u32,
    ) -> Result<(Withdrawal, Result<Option<OutgoingReport>, ProviderError>), ServiceError> {
        let withdrawal = self.get(integrator_id, id).await?;
        let asked_at = self.ports.clock.now();
        let answer = self.ports.provider.consult_payment(withdrawal.inquiry()).await;
        let withdrawal = match &answer {
            Ok(Some(report)) => self.learn(integrator_id, id, report).await?,
            Ok(None) => self.not_known(withdrawal, asked_at, attempts).await?,
            Err(_) => withdrawal,
        };
        Ok((self.review_if_overdue(withdrawal).await?, answer))
    }

    /// The provider doesn't know it: proof that it wasn't sent only if the adapter says after how long, that has
    /// passed since the last moment at which it could have been sent, the provider never said that it took it, it was
    /// asked more than once, and nothing has changed since `withdrawal` was read, before it was asked.
    async fn not_known(
        &self,
        withdrawal: Withdrawal,
        asked_at: Timestamp,
        attempts: u32,
    ) -> Result<Withdrawal, ServiceError> {
        let sent_for = asked_at.since(withdrawal.submitted_at);
        let horizon = self.ports.provider.not_found_is_proof_after();
        let proof = horizon
            .is_some_and(|horizon| sent_for >= horizon.saturating_add(self.ports.submit_grace))
            && attempts >= schedule::MIN_NOT_FOUND_ANSWERS
            && withdrawal.provider_id.is_none();
        let (integrator_id, id, version) = (withdrawal.integrator_id, withdrawal.id, withdrawal.version);
        match withdrawal.state {
            OutgoingState::Submitting | OutgoingState::Uncertain | OutgoingState::NeedsReview if proof => {
                let failure = Failure {
                    code: "not_executed".into(),
                    message: "the settlement provider never received this payment".into(),
                };
                self.advance(integrator_id, id, |withdrawal, now| {
                    if withdrawal.version == version {
                        withdrawal.fail(failure.clone(), now)
                    } else {
                        Step::Already
                    }
                })
                .await
            }
            OutgoingState::Submitting if sent_for >= self.ports.submit_grace => {
                self.advance(integrator_id, id, |withdrawal, now| {
                    if withdrawal.version == version { withdrawal.lose_sight(now) } else { Step::Already }
                })
                .await
            }
            _ => Ok(withdrawal),
        }
    }

    async fn review_if_overdue(&self, withdrawal: Withdrawal) -> Result<Withdrawal, ServiceError> {
        let overdue = self.ports.clock.now().since(withdrawal.submitted_at) >= schedule::NEEDS_REVIEW_AFTER;
        let open = withdrawal.state.is_uncertain() || withdrawal.state == OutgoingState::Accepted;
        if overdue && open {
            return self.advance(withdrawal.integrator_id, withdrawal.id, Withdrawal::ask_for_review).await;
        }
        Ok(withdrawal)
    }

    /// Goes on with a withdrawal that is not final: sends what was definitely not sent, gives that up when it has
    /// waited too long, and asks about all else.
    pub async fn follow_up(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
        attempts: u32,
    ) -> Result<Withdrawal, ServiceError> {
        let withdrawal = self.get(integrator_id, id).await?;
        if withdrawal.state != OutgoingState::Queued {
            return self.refresh(integrator_id, id, attempts).await.map(|(withdrawal, _)| withdrawal);
        }
        let now = self.ports.clock.now();
        if now.since(withdrawal.created_at) >= schedule::QUEUE_MAX_AGE {
            let failure = Failure {
                code: "provider_unavailable".into(),
                message: "the settlement provider could not be reached; nothing was sent".into(),
            };
            return self
                .advance(integrator_id, id, |withdrawal, now| match withdrawal.state {
                    OutgoingState::Queued => withdrawal.fail(failure.clone(), now),
                    _ => Step::Already,
                })
                .await;
        }
        // Only the one whose write takes it out of the queue may send it.
        let Step::Next(transition) = withdrawal.clone().submit(now, self.ports.submit_grace) else {
            return Ok(withdrawal);
        };
        let submitted = transition.withdrawal().cloned();
        match (self.ports.stores.transitions.apply(transition).await, submitted) {
            (Ok(()), Some(submitted)) => self.send(submitted).await,
            (Err(ApplyError::Store(error)), _) => Err(error.into()),
            _ => Ok(withdrawal),
        }
    }

    async fn advance(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
        decide: impl Fn(Withdrawal, Timestamp) -> Step + Send + Sync,
    ) -> Result<Withdrawal, ServiceError> {
        for _ in 0..MAX_STALE_RETRIES {
            let withdrawal = self.get(integrator_id, id).await?;
            match decide(withdrawal.clone(), self.ports.clock.now()) {
                Step::Next(transition) => {
                    let after = transition.withdrawal().cloned();
                    if let Applied::Done = self.ports.apply_change(transition).await? {
                        return Ok(after.unwrap_or(withdrawal));
                    }
                }
                Step::Already | Step::Refused(_) => return Ok(withdrawal),
            }
        }
        Err(ServiceError::Contention)
    }
}
