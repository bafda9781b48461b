//! The use cases of refunds: the same order of things as a withdrawal, with the charge guarded beside the wallet.

use uuid::Uuid;

use super::{NewRefund, Refund, state};
use crate::charges::service::ChargeService;
use crate::charges::{Charge, Failure};
use crate::credentials::IntegratorStatus;
use crate::decisions::{Sending, Verdict};
use crate::error::{ApplyError, ServiceError, StoreError, UniqueKey};
use crate::evidence::{Evidence, EvidenceKind, Proof, Seen};
use crate::fees::Operation;
use crate::ids::{ChargeId, IntegratorId, RefundId, ResourceKind, ResourceRef};
use crate::money::Amount;
use crate::ports::{Applied, MAX_STALE_RETRIES, Outcome, Ports};
use crate::provider::{Inquiry, OutgoingReport, Progress, ProviderError, Reference};
use crate::restore::{self, Outflow};
use crate::schedule;
use crate::text::{Description, ExternalId, IdempotencyKey};
use crate::time::Timestamp;
use crate::transition::Step;
use crate::unrecorded::{Heard, LOOKED_FOR, Submitted};
use crate::withdrawals::service::{HELD_UP, decided};
use crate::withdrawals::{NOT_EXECUTED, OutgoingState, PROVIDER_UNAVAILABLE};

/// What an integrator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRefund {
    /// Who asks.
    pub integrator_id: IntegratorId,
    /// Whether it may, as [`IntegratorStore`](crate::credentials::store::IntegratorStore) says now: it is believed, and one that says
    /// `Active` of a suspended integrator sends its money.
    pub integrator_status: IntegratorStatus,
    /// The charge whose money is to go back.
    pub charge_id: ChargeId,
    /// Its name for the refund.
    pub external_id: Option<ExternalId>,
    /// Its handle for the request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// How much; `None` for all that is left.
    pub amount: Option<Amount>,
    /// What for.
    pub description: Option<Description>,
    /// The earlier refund that this one is like on purpose.
    pub allow_duplicate_of: Option<Uuid>,
}

impl CreateRefund {
    /// Whether it asks for what `refund` is. Each field is named, so that a new one isn't forgotten.
    fn asks_for(&self, refund: &Refund) -> bool {
        let Self {
            integrator_id: _,
            integrator_status: _,
            charge_id,
            external_id,
            idempotency_key: _,
            amount,
            description,
            allow_duplicate_of: _,
        } = self;
        let name = match external_id {
            Some(name) => refund.external_id_given && *name == refund.external_id,
            None => !refund.external_id_given,
        };
        let amount = match amount {
            Some(amount) => refund.amount_given && *amount == refund.amount,
            None => !refund.amount_given,
        };
        name && amount && *charge_id == refund.charge_id && *description == refund.description
    }

    fn has_handle(&self) -> bool {
        self.external_id.is_some() || self.idempotency_key.is_some()
    }
}

/// Why a refund is refused whose money may have been taken from the wallet already.
const MAY_BE_TAKEN_BACK: &str = "money of this charge went back without a refund that the gateway knows of, which may be this one: ask its operators";

/// What the provider is asked about a refund that there is no record of.
fn inquiry(new: &NewRefund) -> Inquiry {
    Inquiry { reference: Reference::of(new.id.0), provider_id: None, amount: new.amount, key: None }
}

/// The use cases of refunds.
#[derive(Clone)]
pub struct RefundService {
    ports: Ports,
}

impl RefundService {
    /// A service over `ports`.
    pub const fn new(ports: Ports) -> Self {
        Self { ports }
    }

    /// Sends money of a charge back, or finds the refund its handle stands for.
    pub async fn create(&self, command: CreateRefund) -> Result<Outcome<Refund>, ServiceError> {
        if let Some(refund) = self.replay(&command).await? {
            return Ok(Outcome::Replayed(refund));
        }
        match Box::pin(self.recovered(&command)).await {
            Ok(Some(refund)) => return Ok(Outcome::Created(refund)),
            Ok(None) => {}
            Err(refusal) => {
                // Another request with the same handle may have stored it meanwhile.
                let winner = self.replay(&command).await?;
                return winner.map(Outcome::Replayed).ok_or(refusal);
            }
        }
        if command.integrator_status == IntegratorStatus::Suspended {
            return Err(ServiceError::IntegratorSuspended);
        }
        self.ports.may_go_out()?;
        match self.make(&command).await {
            // Another request with the same handle may just have taken the money.
            Err(refusal @ (ServiceError::InsufficientBalance | ServiceError::RefundExceedsPaid)) => {
                let winner = self.replay(&command).await?;
                winner.map(Outcome::Replayed).ok_or(refusal)
            }
            made => made,
        }
    }

    async fn make(&self, command: &CreateRefund) -> Result<Outcome<Refund>, ServiceError> {
        let id = self.id_for(command);
        if self.ports.outflow.outflow() == Outflow::AskFirst {
            self.know_what_went_back(command).await?;
        }
        for _ in 0..MAX_STALE_RETRIES {
            let charge = self.charge(command.integrator_id, command.charge_id).await?;
            // Read after the charge: a refund stored in between has changed the charge's version.
            let allowed = self.refuse_twin(command, &charge, id).await?;
            let new = self.priced(command, &charge, id.0).await?;
            if !charge.taken_back.is_zero()
                && command.has_handle()
                && let Some(winner) = self.winner_or_untaken(command, &new).await?
            {
                return Ok(Outcome::Replayed(winner));
            }
            let intent = state::accept(new, charge, self.ports.clock.now(), self.ports.submit_grace)?;
            // After the last look at the clock, as of a withdrawal.
            self.ports.may_go_out()?;
            let accepted = intent.refund().cloned().ok_or(ServiceError::NotFound)?;
            let seen = [self.ports.evidence(accepted.resource(), attempt(&accepted))];
            let attempt_id = seen.first().map(|attempt| attempt.id);
            let intent = intent.answering(command.idempotency_key.clone()).witness(allowed).witness(seen);
            match self.ports.stores.transitions.apply(intent).await {
                Ok(()) => return Ok(Outcome::Created(self.send_accepted(accepted).await)),
                // An id bound to a handle is taken by another request with that handle only.
                Err(ApplyError::Duplicate(
                    UniqueKey::ExternalId | UniqueKey::IdempotencyKey | UniqueKey::Id,
                )) => {
                    let winner = self.replay(command).await?.ok_or(ServiceError::Contention)?;
                    return Ok(Outcome::Replayed(winner));
                }
                Err(ApplyError::InsufficientFunds) => return Err(ServiceError::InsufficientBalance),
                Err(ApplyError::Stale | ApplyError::Owing) => {}
                Err(ApplyError::Store(StoreError::Unknown(why))) => {
                    let unknown = ServiceError::from(StoreError::Unknown(why));
                    let heard = attempt_id.map(|id| Heard::NotKept(id, self.ports.clock.now()));
                    let forget_nothing = || {
                        if let Some(heard) = &heard {
                            let of = Submitted::Refund(Box::new(accepted.clone()));
                            self.ports.unrecorded.remember(of, heard, &unknown);
                        }
                        unknown.clone()
                    };
                    // What can't be read, or isn't there yet, may still come to be.
                    let stored = self.ports.stores.refunds.find(command.integrator_id, id).await;
                    let Ok(Some(stored)) = stored else { return Err(forget_nothing()) };
                    let Ok(ours) = self.ports.is_ours(accepted.resource(), attempt_id).await else {
                        return Err(forget_nothing());
                    };
                    if !ours {
                        // Another request with the same handle made it, at the same moment.
                        let winner = self.replay(command).await?.ok_or(ServiceError::Contention)?;
                        return Ok(Outcome::Replayed(winner));
                    }
                    // A follow-up may have gone on with it while nobody knew: what was decided then may rest on its not
                    // being sent.
                    let kept = if stored.version == accepted.version {
                        self.hold_back(accepted.clone()).await
                    } else {
                        forget_nothing();
                        Some(stored)
                    };
                    return kept.map(Outcome::Created).ok_or_else(forget_nothing);
                }
                Err(ApplyError::Store(error)) => return Err(error.into()),
                Err(ApplyError::Duplicate(_)) => return Err(ServiceError::Contention),
            }
        }
        Err(ServiceError::Contention)
    }

    async fn charge(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Charge, ServiceError> {
        self.ports.stores.charges.find(integrator_id, id).await?.ok_or(ServiceError::NotFound)
    }

    /// Without a handle, nothing tells a repeated request from a second refund of the same amount.
    /// The evidence, when it is like another one on purpose.
    async fn refuse_twin(
        &self,
        command: &CreateRefund,
        charge: &Charge,
        id: RefundId,
    ) -> Result<Option<Evidence>, ServiceError> {
        if command.has_handle() {
            return Ok(None);
        }
        let now = self.ports.clock.now();
        let just_done = |refund: &Refund| {
            let done = refund.completed_at.filter(|_| refund.state == OutgoingState::Completed);
            done.is_some_and(|done| now.since(done) < self.ports.duplicate_window)
        };
        let refunds = self.ports.stores.refunds.list_of_charge(command.integrator_id, charge.id).await?;
        let asked = command.amount.map_or(charge.left_to_refund(), Amount::cents);
        // The newest: who names an older one has not seen that it was made.
        let twin = refunds
            .iter()
            .filter(|refund| {
                // "All that is left" might mean the money of one in progress; one that is done left less.
                let is_live = !refund.state.is_final();
                let all = command.amount.is_none() && (is_live || !refund.amount_given);
                (all || refund.amount.cents() == asked) && (is_live || just_done(refund))
            })
            .max_by_key(|refund| (refund.created_at, refund.id));
        let Some(twin) = twin else { return Ok(None) };
        if command.allow_duplicate_of != Some(twin.id.0) {
            return Err(ServiceError::PossibleDuplicate(twin.resource()));
        }
        let detail = format!("the request allows that it is like {}", twin.id);
        let resource = ResourceRef { id: id.0, ..twin.resource() };
        Ok(Some(self.ports.evidence(resource, Seen::new(EvidenceKind::Decision, Proof::Nothing, &detail))))
    }

    async fn priced(
        &self,
        command: &CreateRefund,
        charge: &Charge,
        id: Uuid,
    ) -> Result<NewRefund, ServiceError> {
        if charge.credited.is_none() {
            return Err(ServiceError::InvalidState("only a paid charge can be refunded"));
        }
        let left = Amount::from_cents(charge.left_to_refund().get());
        let amount = match (command.amount, left) {
            (Some(amount), _) => amount,
            (None, Ok(left)) => left,
            (None, Err(_nothing_left)) => return Err(ServiceError::RefundExceedsPaid),
        };
        let fees = self.ports.stores.fees.current(command.integrator_id).await?;
        Ok(NewRefund {
            id: RefundId(id),
            external_id: match &command.external_id {
                Some(name) => name.clone(),
                None => Ports::generated_name("rfd", id)?,
            },
            external_id_given: command.external_id.is_some(),
            amount,
            amount_given: command.amount.is_some(),
            fee: fees.rule(Operation::Refund).fee(amount),
            fee_version: fees.version,
            description: command.description.clone(),
        })
    }

    async fn replay(&self, command: &CreateRefund) -> Result<Option<Refund>, ServiceError> {
        let stores = &self.ports.stores;
        if let Some(key) = &command.idempotency_key
            && let Some(id) =
                stores.lookups.find_handle(command.integrator_id, ResourceKind::Refund, key).await?
        {
            let found = self.get(command.integrator_id, RefundId(id)).await?;
            return if command.asks_for(&found) {
                Ok(Some(found))
            } else {
                Err(ServiceError::IdempotencyMismatch)
            };
        }
        if let Some(name) = &command.external_id
            && let Some(found) = stores.refunds.find_by_external_id(command.integrator_id, name).await?
        {
            return if command.asks_for(&found) {
                Ok(Some(found))
            } else {
                Err(ServiceError::ExternalIdConflict)
            };
        }
        Ok(None)
    }

    /// The intent is stored, so from here on this is a refund whose outcome isn't known, never an error: who is told
    /// that it failed might ask for another.
    async fn send_accepted(&self, accepted: Refund) -> Refund {
        self.send(accepted.clone()).await.unwrap_or(accepted)
    }

    /// Calls the provider for a refund whose intent is stored, and applies what is known afterwards.
    async fn send(&self, submitted: Refund) -> Result<Refund, ServiceError> {
        let heard = if self.ports.clock.now().since(submitted.submitted_at) > self.ports.submit_grace {
            // Held up for so long that others may be about to take "not known" for proof.
            Heard::NotSent(Seen::new(EvidenceKind::Answer, Proof::NotSent, HELD_UP))
        } else if let Some(held_back) = self.ports.held_back() {
            Heard::NotSent(held_back)
        } else {
            let asked_at = self.ports.clock.now();
            Heard::Answer(self.ports.provider.refund(submitted.order()).await, asked_at)
        };
        let recorded = self.record(&submitted, &heard).await;
        if let Err(error) = &recorded {
            self.ports.unrecorded.remember(Submitted::Refund(Box::new(submitted)), &heard, error);
        }
        recorded
    }

    /// Applies what became of the sending that `submitted` stands for.
    async fn record(&self, submitted: &Refund, heard: &Heard) -> Result<Refund, ServiceError> {
        let (integrator_id, id) = (submitted.integrator_id, submitted.id);
        // What was refused, or failed, is that sending and no later one.
        let fail = |code: &str, message: &str| {
            let failure = Failure { code: code.to_owned(), message: message.to_owned() };
            let submitted_at = submitted.submitted_at;
            move |refund: Refund, charge: Charge, now| {
                if refund.submitted_at == submitted_at {
                    refund.fail(charge, failure.clone(), now)
                } else {
                    Step::Already
                }
            }
        };
        let (answer, asked_at) = match heard {
            Heard::Answer(answer, asked_at) => (answer, *asked_at),
            Heard::NotSent(seen) => return self.take_back(submitted, Some(seen.clone())).await,
            Heard::NotKept(..) => return self.take_back(submitted, Some(Seen::read_again())).await,
        };
        let error = match answer {
            Ok(report) => {
                let seen = Seen::report(EvidenceKind::Answer, report);
                return match &report.progress {
                    Progress::Failed { code, message } => {
                        self.advance(integrator_id, id, Some(seen), fail(code, message)).await
                    }
                    _ => self.learn(integrator_id, id, report, asked_at, seen).await,
                };
            }
            Err(error) => error,
        };
        let seen = Some(Seen::failed_call(error));
        match error {
            ProviderError::Rejected { code, message, .. } => {
                self.advance(integrator_id, id, seen, fail(code, message)).await
            }
            ProviderError::Unavailable(_) => self.take_back(submitted, seen).await,
            ProviderError::Indeterminate(_) => {
                self.advance(integrator_id, id, seen, |refund, _, now| refund.lose_sight(now)).await
            }
            ProviderError::Mismatch(field) => {
                let lost = |refund: Refund, _, now| refund.lose_sight(now);
                let refund = self.advance(integrator_id, id, seen, lost).await?;
                self.ports.tell_mismatch(refund.resource(), field).await?;
                Ok(refund)
            }
        }
    }

    /// As for a withdrawal: what the store could not be told when it was heard; `false` when it is to be tried again.
    pub(crate) async fn record_late(&self, submitted: &Refund, heard: &Heard) -> Result<bool, ServiceError> {
        if let Heard::NotKept(attempt, since) = heard {
            let found = self.ports.stores.refunds.find(submitted.integrator_id, submitted.id).await?;
            if found.is_none_or(|found| found.version < submitted.version) {
                // It may be on its way still.
                return Ok(self.ports.clock.now().since(*since) >= LOOKED_FOR);
            }
            if !self.ports.is_kept(submitted.resource(), *attempt).await? {
                return Ok(true);
            }
        }
        self.record(submitted, heard).await.map(|_| true)
    }

    /// As of a withdrawal: the refund that this very request has made in books that were lost, when the provider knows of one.
    async fn recovered(&self, command: &CreateRefund) -> Result<Option<Refund>, ServiceError> {
        if self.ports.outflow.outflow() == Outflow::Open || !command.has_handle() {
            return Ok(None);
        }
        let id = self.id_for(command);
        for _ in 0..MAX_STALE_RETRIES {
            let charge = self.charge(command.integrator_id, command.charge_id).await?;
            let new = self.priced(command, &charge, id.0).await?;
            let asked_at = self.ports.clock.now();
            let answer = self.ports.provider.consult_refund(inquiry(&new)).await;
            let seen = Seen::consult(&answer, asked_at);
            let Some(report) = restore::told(answer, command.external_id.is_some())? else { return Ok(None) };
            if !charge.taken_back.is_zero() {
                return Err(ServiceError::InvalidState(MAY_BE_TAKEN_BACK));
            }
            let intent = state::accept(new, charge, self.ports.clock.now(), self.ports.submit_grace)?;
            let accepted = intent.refund().cloned().ok_or(ServiceError::NotFound)?;
            let known = [self.ports.evidence(accepted.resource(), restore::recovering())];
            let intent = intent.answering(command.idempotency_key.clone()).witness(known);
            match self.ports.stores.transitions.apply(intent).await {
                Ok(()) => {
                    // It is stored, so from here on it is asked about, and never an error.
                    let learned = self.learn(command.integrator_id, id, &report, asked_at, seen).await;
                    return Ok(Some(learned.unwrap_or(accepted)));
                }
                Err(ApplyError::Duplicate(
                    UniqueKey::ExternalId | UniqueKey::IdempotencyKey | UniqueKey::Id,
                )) => return self.replay(command).await?.ok_or(ServiceError::Contention).map(Some),
                Err(ApplyError::InsufficientFunds) => {
                    self.ports.tell_unfunded(accepted.resource(), accepted.amount).await?;
                    return Err(ServiceError::Restored);
                }
                Err(ApplyError::Stale | ApplyError::Owing) => {}
                Err(ApplyError::Store(error)) => return Err(error.into()),
                Err(ApplyError::Duplicate(_)) => return Err(ServiceError::Contention),
            }
        }
        Err(ServiceError::Contention)
    }

    fn id_for(&self, command: &CreateRefund) -> RefundId {
        let (name, key) = (command.external_id.as_ref(), command.idempotency_key.as_ref());
        RefundId(self.ports.outgoing_id(command.integrator_id, ResourceKind::Refund, name, key))
    }

    /// Asks, before a refund is made in books that were restored, what of its charge went back already: what no refund of
    /// ours sent is taken from the wallet, and can't be sent again.
    async fn know_what_went_back(&self, command: &CreateRefund) -> Result<(), ServiceError> {
        let charges = ChargeService::new(self.ports.clone());
        match Box::pin(charges.refresh(command.integrator_id, command.charge_id)).await? {
            (_, Ok(_)) => Ok(()),
            (_, Err(_)) => Err(ServiceError::ProviderUnavailable),
        }
    }

    /// Where money of the charge was taken back, a refund that the provider knows by this handle may be just that: then it is
    /// refused. The one that the handle stands for is the answer all the same: it is looked for after the charge was read,
    /// for it may be why there is less left of it, and once the provider knows of one, for it may have been stored since.
    async fn winner_or_untaken(
        &self,
        command: &CreateRefund,
        new: &NewRefund,
    ) -> Result<Option<Refund>, ServiceError> {
        if let Some(winner) = self.replay(command).await? {
            return Ok(Some(winner));
        }
        let answer = self.ports.provider.consult_refund(inquiry(new)).await;
        let refused = match restore::told(answer, command.external_id.is_some()) {
            Ok(None) => return Ok(None),
            Ok(Some(_)) => ServiceError::InvalidState(MAY_BE_TAKEN_BACK),
            Err(error) => error,
        };
        self.replay(command).await?.ok_or(refused).map(Some)
    }

    /// Counts one as just sent and lost sight of; see [`restore::cast_doubt`].
    pub(crate) async fn doubt(
        &self,
        integrator_id: IntegratorId,
        id: RefundId,
        why: &str,
    ) -> Result<Refund, ServiceError> {
        let doubt = |refund: Refund, _, now| refund.doubt(now);
        self.advance(integrator_id, id, Some(restore::doubted(why)), doubt).await
    }

    /// What `submitted` stands for was definitely not sent. Only that very submission goes back to the queue: a later
    /// one, of another worker, may be on its way.
    async fn take_back(&self, submitted: &Refund, seen: Option<Seen>) -> Result<Refund, ServiceError> {
        let submitted_at = submitted.submitted_at;
        self.advance(submitted.integrator_id, submitted.id, seen, |refund, _, now| {
            if refund.submitted_at == submitted_at { refund.queue(now) } else { Step::Already }
        })
        .await
    }

    /// See [`Ports::hold_back`].
    async fn hold_back(&self, submitted: Refund) -> Option<Refund> {
        let resource = submitted.resource();
        let queued = self.ports.hold_back(resource, submitted.queue(self.ports.clock.now())).await?;
        queued.refund().cloned()
    }

    async fn learn(
        &self,
        integrator_id: IntegratorId,
        id: RefundId,
        report: &OutgoingReport,
        asked_at: Timestamp,
        seen: Seen,
    ) -> Result<Refund, ServiceError> {
        let done = matches!(report.progress, Progress::Completed | Progress::Returned(_));
        let refund = self
            .advance(integrator_id, id, Some(seen), |refund, charge, now| match &report.progress {
                // As for a withdrawal: only the order in which the answers are heard.
                Progress::Accepted if refund.state.has_failed_since(asked_at, refund.completed_at) => {
                    Step::Already
                }
                Progress::Accepted => refund.accepted(report.clone(), now),
                Progress::Completed | Progress::Returned(_) => refund.complete(charge, report.clone(), now),
                Progress::Failed { code, message } => {
                    refund.fail(charge, Failure { code: code.clone(), message: message.clone() }, now)
                }
            })
            .await?;
        if done && matches!(refund.state, OutgoingState::Failed(_)) {
            // Its money was released and left all the same. The charge knows what went back of it in all.
            let charges = ChargeService::new(self.ports.clone());
            let (_, asked) = Box::pin(charges.refresh(integrator_id, refund.charge_id)).await?;
            if !matches!(asked, Ok(Some(_))) {
                // Whoever asked comes again.
                return Err(ServiceError::ProviderUnavailable);
            }
        }
        Ok(refund)
    }

    /// Carries out what operators have decided about a sending. `detail` says who and why.
    pub(crate) async fn decide(
        &self,
        integrator_id: IntegratorId,
        id: RefundId,
        verdict: Verdict,
        of: Sending,
        detail: &str,
    ) -> Result<Refund, ServiceError> {
        let (proof, failure) = decided(verdict);
        let seen = Seen::new(EvidenceKind::Decision, proof, detail);
        self.advance(integrator_id, id, Some(seen), |refund: Refund, charge, now| match &failure {
            // Meanwhile sent again: nothing was decided about that.
            _ if refund.submitted_at != of.submitted_at => Step::Refused("it was sent again meanwhile"),
            None => refund.decide_completed(charge, now),
            // As for a withdrawal.
            Some(_) if refund.version != of.version => {
                Step::Refused("it has changed since the provider was asked: decide again")
            }
            Some(failure) => refund.fail(charge, failure.clone(), now),
        })
        .await
    }

    /// One refund of the integrator.
    pub async fn get(&self, integrator_id: IntegratorId, id: RefundId) -> Result<Refund, ServiceError> {
        self.ports.stores.refunds.find(integrator_id, id).await?.ok_or(ServiceError::NotFound)
    }

    /// The refunds of a charge, oldest first.
    pub async fn list_of_charge(
        &self,
        integrator_id: IntegratorId,
        charge_id: ChargeId,
    ) -> Result<Vec<Refund>, ServiceError> {
        Ok(self.ports.stores.refunds.list_of_charge(integrator_id, charge_id).await?)
    }

    /// Asks the provider about a refund and applies what it says; see
    /// [`WithdrawalService::refresh`](crate::withdrawals::service::WithdrawalService::refresh).
    pub async fn refresh(
        &self,
        integrator_id: IntegratorId,
        id: RefundId,
    ) -> Result<(Refund, Result<Option<OutgoingReport>, ProviderError>), ServiceError> {
        let refund = self.get(integrator_id, id).await?;
        self.refresh_read(refund).await
    }

    /// The same of a refund that was just read.
    pub async fn refresh_read(
        &self,
        refund: Refund,
    ) -> Result<(Refund, Result<Option<OutgoingReport>, ProviderError>), ServiceError> {
        self.refresh_hinted(refund, None).await
    }

    /// The same after a callback, which is kept with what is learnt.
    pub(crate) async fn refresh_hinted(
        &self,
        refund: Refund,
        hint: Option<Seen>,
    ) -> Result<(Refund, Result<Option<OutgoingReport>, ProviderError>), ServiceError> {
        let (integrator_id, id) = (refund.integrator_id, refund.id);
        let asked_at = self.ports.clock.now();
        let answer = self.ports.provider.consult_refund(refund.inquiry()).await;
        let seen = Seen::consult(&answer, asked_at).led_to_by(hint);
        let refund = match &answer {
            Ok(Some(report)) => self.learn(integrator_id, id, report, asked_at, seen).await?,
            Ok(None) => self.not_known(refund, asked_at, seen).await?,
            Err(error) => {
                self.note(&refund, seen).await;
                if let ProviderError::Mismatch(field) = error {
                    self.ports.tell_mismatch(refund.resource(), field).await?;
                }
                refund
            }
        };
        let overdue = self.ports.clock.now().since(refund.submitted_at) >= schedule::NEEDS_REVIEW_AFTER;
        let open = refund.state.is_uncertain() || refund.state == OutgoingState::Accepted;
        if overdue && open && self.ports.is_clock_right() {
            let ask = |refund: Refund, _, now| refund.ask_for_review(now);
            let refund = self.advance(integrator_id, id, None, ask).await?;
            return Ok((refund, answer));
        }
        Ok((refund, answer))
    }

    /// As for a withdrawal: proof only past the horizon, and of nothing but what was read before asking.
    async fn not_known(
        &self,
        refund: Refund,
        asked_at: Timestamp,
        seen: Seen,
    ) -> Result<Refund, ServiceError> {
        let sent_for = asked_at.since(refund.submitted_at);
        let (resource, sent_at) = (refund.resource(), refund.submitted_at);
        let proof =
            refund.provider_id.is_none() && self.ports.not_known_proves(resource, sent_at, asked_at).await?;
        let (integrator_id, id, version) = (refund.integrator_id, refund.id, refund.version);
        match refund.state {
            OutgoingState::Submitting | OutgoingState::Uncertain | OutgoingState::NeedsReview if proof => {
                let failure = Failure {
                    code: NOT_EXECUTED.into(),
                    message: "the settlement provider never received this refund".into(),
                };
                self.advance(integrator_id, id, Some(seen), |refund, charge, now| {
                    if refund.version == version {
                        refund.fail(charge, failure.clone(), now)
                    } else {
                        Step::Already
                    }
                })
                .await
            }
            OutgoingState::Submitting
                if sent_for >= self.ports.submit_grace && self.ports.is_clock_right() =>
            {
                self.advance(integrator_id, id, Some(seen), |refund, _, now| {
                    if refund.version == version { refund.lose_sight(now) } else { Step::Already }
                })
                .await
            }
            _ => {
                self.note(&refund, seen).await;
                Ok(refund)
            }
        }
    }

    /// Keeps what was seen of a refund that isn't final, though it changes nothing.
    async fn note(&self, refund: &Refund, seen: Seen) {
        self.ports.note_seen(refund.resource(), refund.state.is_final(), seen).await;
    }

    /// Goes on with a refund that is not final; see
    /// [`WithdrawalService::follow_up`](crate::withdrawals::service::WithdrawalService::follow_up).
    pub async fn follow_up(&self, integrator_id: IntegratorId, id: RefundId) -> Result<Refund, ServiceError> {
        let refund = self.get(integrator_id, id).await?;
        if refund.state != OutgoingState::Queued {
            return self.refresh_read(refund).await.map(|(refund, _)| refund);
        }
        // As of a withdrawal.
        if self.ports.outflow.outflow() == Outflow::AskFirst {
            let asked_at = self.ports.clock.now();
            let answer = self.ports.provider.consult_refund(refund.inquiry()).await;
            let seen = Seen::consult(&answer, asked_at);
            match answer {
                Ok(None) => {}
                Ok(Some(report)) => return self.learn(integrator_id, id, &report, asked_at, seen).await,
                Err(_) => return Ok(refund),
            }
        }
        let now = self.ports.clock.now();
        if self.ports.may_go_out().is_err() {
            return Ok(refund);
        }
        if now.since(refund.created_at) >= schedule::QUEUE_MAX_AGE {
            let failure = Failure {
                code: PROVIDER_UNAVAILABLE.into(),
                message: "the settlement provider could not be reached; nothing was sent".into(),
            };
            return self
                .advance(integrator_id, id, None, |refund, charge, now| match refund.state {
                    OutgoingState::Queued => refund.fail(charge, failure.clone(), now),
                    _ => Step::Already,
                })
                .await;
        }
        let Step::Next(transition) = refund.clone().submit(now, self.ports.submit_grace) else {
            return Ok(refund);
        };
        let Some(submitted) = transition.refund().cloned() else { return Ok(refund) };
        let intent = transition.witness([self.ports.evidence(submitted.resource(), attempt(&submitted))]);
        let attempt_id = intent.evidence.last().map(|attempt| attempt.id);
        match self.ports.stores.transitions.apply(intent).await {
            Ok(()) => self.send(submitted).await,
            Err(ApplyError::Store(error)) => {
                let error = ServiceError::from(error);
                if let (ServiceError::Store(StoreError::Unknown(_)), Some(id)) = (&error, attempt_id) {
                    // If it is out of the queue, nobody sends it: this puts it back.
                    let of = Submitted::Refund(Box::new(submitted));
                    self.ports.unrecorded.remember(of, &Heard::NotKept(id, now), &error);
                }
                Err(error)
            }
            Err(_) => Ok(refund),
        }
    }

    async fn advance(
        &self,
        integrator_id: IntegratorId,
        id: RefundId,
        seen: Option<Seen>,
        decide: impl Fn(Refund, Charge, Timestamp) -> Step + Send + Sync,
    ) -> Result<Refund, ServiceError> {
        for _ in 0..MAX_STALE_RETRIES {
            let refund = self.get(integrator_id, id).await?;
            let charge = self.charge(integrator_id, refund.charge_id).await?;
            match decide(refund.clone(), charge, self.ports.clock.now()) {
                Step::Next(transition) => {
                    let after = transition.refund().cloned();
                    let resource = refund.resource();
                    // What changes no record is told again and again; it is kept once in a while.
                    let changes = !transition.writes.is_empty();
                    let kept = seen.clone().filter(|_| changes);
                    let kept = kept.map(|seen| self.ports.evidence_with_hint(resource, seen));
                    let transition = transition.witness(kept.into_iter().flatten());
                    if let Applied::Done = self.ports.apply_change(transition).await? {
                        if let Some(noted) = seen.filter(|_| !changes) {
                            self.ports.note_seen(resource, false, noted).await;
                        }
                        return Ok(after.unwrap_or(refund));
                    }
                }
                Step::Already | Step::Refused(_) => {
                    if let Some(seen) = seen {
                        self.note(&refund, seen).await;
                    }
                    return Ok(refund);
                }
            }
        }
        Err(ServiceError::Contention)
    }
}

/// That a refund is about to be sent, and as what.
fn attempt(submitted: &Refund) -> Seen {
    let order = submitted.order();
    let detail = format!(
        "reference {} body {} version {}",
        order.reference,
        order.digest().simple(),
        submitted.version.0
    );
    Seen::new(EvidenceKind::Attempt, Proof::Nothing, &detail)
}
