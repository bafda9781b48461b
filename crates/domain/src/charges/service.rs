//! The use cases of charges.
//!
//! Making one: replay, if its handle is known → ask the provider, under our reference → one `apply` that stores the
//! live charge. Nothing is stored before the call, since no money moves by making a charge, even twice: what was made
//! and not stored is a QR code that nobody has seen.

use std::time::Duration;

use uuid::Uuid;

use super::{Charge, ChargeState, Failure, MAX_EXPIRES_IN, MIN_EXPIRES_IN, NewCharge, state};
use crate::error::{ApplyError, ServiceError, StoreError, UniqueKey};
use crate::fees::Operation;
use crate::ids::{ChargeId, IntegratorId, ResourceKind, ResourceRef};
use crate::list::{ListQuery, Page};
use crate::metadata::Metadata;
use crate::money::{Amount, Cents};
use crate::ports::{Applied, MAX_STALE_RETRIES, Outcome, Ports};
use crate::postbacks::events::PostbackScope;
use crate::provider::{ChargeReport, Party, Payment, ProviderError, Removal};
use crate::refunds::Refund;
use crate::restore::Outflow;
use crate::schedule;
use crate::splits::{self, NewShare, Share};
use crate::text::{Email, ExternalId, IdempotencyKey, PayerQuestion, PostbackUrl};
use crate::transition::Step;
use crate::withdrawals::OutgoingState;

/// What an integrator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateCharge {
    /// Who asks.
    pub integrator_id: IntegratorId,
    /// Its name for the charge.
    pub external_id: Option<ExternalId>,
    /// Its handle for the request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// How much.
    pub amount: Amount,
    /// Who is to pay.
    pub payer: Party,
    /// The payer's e-mail.
    pub payer_email: Option<Email>,
    /// What the payer is asked.
    pub payer_question: Option<PayerQuestion>,
    /// What the integrator attaches to it.
    pub metadata: Metadata,
    /// Where events go.
    pub postback_url: Option<PostbackUrl>,
    /// Which of them; no part of what makes two requests the same.
    pub postback_scope: PostbackScope,
    /// How long the QR code lives: from [`MIN_EXPIRES_IN`] to [`MAX_EXPIRES_IN`], in whole microseconds; what is below them is dropped.
    pub expires_in: Duration,
    /// Who gets what part of it.
    pub split: Vec<NewShare>,
}

impl CreateCharge {
    /// Whether it asks for what `charge` is. Each field is named, so that a new one isn't forgotten.
    fn asks_for(&self, charge: &Charge) -> bool {
        let Self {
            integrator_id: _,
            external_id,
            idempotency_key: _,
            amount,
            payer,
            payer_email,
            payer_question,
            metadata,
            postback_url,
            postback_scope: _,
            expires_in,
            split,
        } = self;
        let name = match external_id {
            Some(name) => charge.external_id_given && *name == charge.external_id,
            None => !charge.external_id_given,
        };
        // Of an erased payer nobody knows any more whether it is the same.
        let payer = charge.payer_erased
            || *payer == charge.payer
                && *payer_email == charge.payer_email
                && *payer_question == charge.payer_question;
        name && payer
            && *amount == charge.amount
            && *metadata == charge.metadata
            && *postback_url == charge.postback_url
            && charge.created_at.plus(*expires_in) == charge.expires_at
            && splits::are_asked_for(&charge.split, split)
    }

    fn named(self, id: Uuid, fee_version: u32, split: Vec<Share>) -> Result<NewCharge, ServiceError> {
        let external_id_given = self.external_id.is_some();
        let external_id = match self.external_id {
            Some(name) => name,
            None => Ports::generated_name("chg", id)?,
        };
        Ok(NewCharge {
            id: ChargeId(id),
            integrator_id: self.integrator_id,
            external_id,
            external_id_given,
            amount: self.amount,
            payer: self.payer,
            payer_email: self.payer_email,
            payer_question: self.payer_question,
            metadata: self.metadata,
            postback_url: self.postback_url,
            postback_scope: self.postback_scope,
            expires_in: self.expires_in,
            fee_version,
            split,
        })
    }
}

/// A charge that is or can't be canceled.
fn ended(charge: Charge) -> Result<Charge, ServiceError> {
    Err(ServiceError::InvalidState(match charge.state {
        ChargeState::Canceled => return Ok(charge),
        ChargeState::Paid => "a paid charge can't be canceled; refund it",
        ChargeState::Expired => "an expired charge can't be canceled",
        ChargeState::Failed(_) => "a failed charge can't be canceled",
        ChargeState::Creating | ChargeState::Pending => {
            "the settlement provider has not confirmed this charge yet; try again in a moment"
        }
    }))
}

fn not_asked(error: ProviderError) -> ServiceError {
    match error {
        ProviderError::Unavailable(_) => ServiceError::ProviderUnavailable,
        ProviderError::Indeterminate(_) | ProviderError::Mismatch(_) => ServiceError::ProviderTimeout,
        ProviderError::Rejected { code, message, .. } => {
            ServiceError::ProviderRejected { code, message, charge: None }
        }
    }
}

/// The use cases of charges.
#[derive(Clone)]
pub struct ChargeService {
    ports: Ports,
    takes_back_when_shut: bool,
}

impl ChargeService {
    /// A service over `ports`.
    pub const fn new(ports: Ports) -> Self {
        Self { ports, takes_back_when_shut: false }
    }

    /// The same for operators after a restore, once every refund that the books have lost was asked for again: what the provider says
    /// went back beyond our refunds is taken from the wallet while no money goes out, too.
    #[must_use]
    pub fn of_operators(self) -> Self {
        Self { takes_back_when_shut: true, ..self }
    }

    /// Makes a charge, or finds the one its handle stands for. [`ServiceError::Invalid`] for a `split` that can't be paid:
    /// see [`splits::check`].
    pub async fn create(&self, command: CreateCharge) -> Result<Outcome<Charge>, ServiceError> {
        if let Some(charge) = self.replay(&command).await? {
            return self.resume(charge).await.map(Outcome::Replayed);
        }
        if !(MIN_EXPIRES_IN..=MAX_EXPIRES_IN).contains(&command.expires_in) {
            return Err(ServiceError::InvalidState("a charge can be paid for from 1 minute to 30 days"));
        }
        let fees = self.ports.stores.fees.current(command.integrator_id).await?;
        let key = command.idempotency_key.clone();
        let again = command.clone();
        let id = self.ports.ids.next();
        let fee = fees.rule(Operation::CashIn).fee_within(command.amount);
        let net = command.amount.cents().checked_sub(fee).unwrap_or(Cents::ZERO);
        let split = match command.split.as_slice() {
            [] => Vec::new(),
            asked => Box::pin(self.ports.shares(command.integrator_id, asked, net)).await?,
        };
        let new = command.named(id, fees.version, split)?;
        let (integrator_id, id) = (new.integrator_id, new.id);
        let asked_at = self.ports.clock.now();
        let order = state::begin(new.clone(), asked_at).charge().map(|charge| charge.order_at(asked_at));
        let Some(order) = order else { return Err(ServiceError::NotFound) };

        let answer = self.ports.provider.create_charge(order).await;
        let now = self.ports.clock.now();
        let (transition, refusal) = match answer {
            Ok(ticket) => (state::open(new, ticket, now), None),
            Err(ProviderError::Rejected { code, message, .. }) => {
                let failure = Failure { code: code.clone(), message: message.clone() };
                let refusal = ServiceError::ProviderRejected { code, message, charge: Some(id) };
                (state::refuse(new, failure, now), Some(refusal))
            }
            Err(ProviderError::Indeterminate(_)) => {
                (state::begin(new, now), Some(ServiceError::ProviderTimeout))
            }
            Err(ProviderError::Mismatch(field)) => {
                let resource = ResourceRef { integrator_id, kind: ResourceKind::Charge, id: id.0 };
                let detail = format!("an answer of the provider has another {field} than was asked");
                let begun = state::begin(new, now).find(resource, "answer_mismatch", detail);
                (begun, Some(ServiceError::ProviderTimeout))
            }
            Err(ProviderError::Unavailable(_)) => return Err(ServiceError::ProviderUnavailable),
        };
        let made = transition.charge().cloned().ok_or(ServiceError::NotFound)?;
        let stored = match self.ports.stores.transitions.apply(transition.answering(key)).await {
            // Not read again: a read that fails would say that nothing was done.
            Ok(()) => made,
            Err(ApplyError::Duplicate(UniqueKey::ExternalId | UniqueKey::IdempotencyKey)) => {
                // Another request with the same handle was quicker. The QR code just made is shown to nobody.
                let winner = self.replay(&again).await?.ok_or(ServiceError::Contention)?;
                return self.resume(winner).await.map(Outcome::Replayed);
            }
            Err(ApplyError::Store(StoreError::Unknown(why))) => {
                // What can't be read, or isn't there yet, may still come to be.
                let stored = self.ports.stores.charges.find(integrator_id, id).await;
                let Ok(Some(stored)) = stored else { return Err(StoreError::Unknown(why).into()) };
                if !self.ports.stays(stored.resource()).await {
                    return Err(StoreError::Unknown(why).into());
                }
                stored
            }
            Err(ApplyError::Store(error)) => return Err(error.into()),
            Err(_) => return Err(ServiceError::Contention),
        };
        match refusal {
            Some(error) => Err(error),
            None => Ok(Outcome::Created(stored)),
        }
    }

    async fn replay(&self, command: &CreateCharge) -> Result<Option<Charge>, ServiceError> {
        let stores = &self.ports.stores;
        if let Some(key) = &command.idempotency_key
            && let Some(id) =
                stores.lookups.find_handle(command.integrator_id, ResourceKind::Charge, key).await?
        {
            let charge = self.get(command.integrator_id, ChargeId(id)).await?;
            return if command.asks_for(&charge) {
                Ok(Some(charge))
            } else {
                Err(ServiceError::IdempotencyMismatch)
            };
        }
        if let Some(name) = &command.external_id
            && let Some(charge) = stores.charges.find_by_external_id(command.integrator_id, name).await?
        {
            return if command.asks_for(&charge) {
                Ok(Some(charge))
            } else {
                Err(ServiceError::ExternalIdConflict)
            };
        }
        Ok(None)
    }

    /// Asks the provider once more, under the same reference, to make a charge that it has not confirmed.
    async fn resume(&self, charge: Charge) -> Result<Charge, ServiceError> {
        if charge.state != ChargeState::Creating {
            return Ok(charge);
        }
        let (integrator_id, id) = (charge.integrator_id, charge.id);
        match self.ports.provider.create_charge(charge.order_at(self.ports.clock.now())).await {
            Ok(ticket) => {
                self.advance(integrator_id, id, |charge, now| charge.confirm(ticket.clone(), now)).await
            }
            Err(ProviderError::Rejected { code, message, .. }) => {
                let failure = Failure { code, message };
                self.advance(integrator_id, id, |charge, now| charge.refuse(failure.clone(), now)).await
            }
            Err(ProviderError::Unavailable(_)) => Err(ServiceError::ProviderUnavailable),
            Err(ProviderError::Indeterminate(_)) => Err(ServiceError::ProviderTimeout),
            Err(ProviderError::Mismatch(field)) => {
                self.ports.tell_mismatch(charge.resource(), field).await?;
                Err(ServiceError::ProviderTimeout)
            }
        }
    }

    /// As `resume`, when nobody waits for it: a provider that doesn't answer now is asked again later.
    async fn resume_later(&self, charge: Charge) -> Result<Charge, ServiceError> {
        match self.resume(charge.clone()).await {
            Err(ServiceError::ProviderUnavailable | ServiceError::ProviderTimeout) => Ok(charge),
            resumed => resumed,
        }
    }

    /// The provider doesn't know a charge that it has not confirmed. It is made again until its time is over; past
    /// that, it would be a QR code that outlives its charge, and nobody has seen one yet.
    async fn resume_or_end(
        &self,
        charge: Charge,
        asked_at: crate::time::Timestamp,
    ) -> Result<Charge, ServiceError> {
        if asked_at < charge.expires_at {
            return self.resume_later(charge).await;
        }
        let failure = Failure {
            code: "not_created".into(),
            message: "the settlement provider did not make this charge in time".into(),
        };
        self.advance(charge.integrator_id, charge.id, |charge, now| charge.refuse(failure.clone(), now)).await
    }

    /// One charge of the integrator.
    pub async fn get(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Charge, ServiceError> {
        self.ports.stores.charges.find(integrator_id, id).await?.ok_or(ServiceError::NotFound)
    }

    /// A page of the integrator's charges, newest first.
    pub async fn list(
        &self,
        integrator_id: IntegratorId,
        query: ListQuery,
    ) -> Result<Page<Charge>, ServiceError> {
        let (cursor, limit) = (query.cursor, query.limit);
        let one_more = query.for_store(self.ports.ids.as_ref());
        let rows = self.ports.stores.charges.list(integrator_id, &one_more).await?;
        Ok(Page::trim(rows, cursor, limit))
    }

    /// Asks the provider about a charge and applies what it says: credits payments, notes a removal, and expires what
    /// is over. The report is `None` when the provider doesn't know the charge.
    pub async fn refresh(
        &self,
        integrator_id: IntegratorId,
        id: ChargeId,
    ) -> Result<(Charge, Result<Option<ChargeReport>, ProviderError>), ServiceError> {
        let charge = self.get(integrator_id, id).await?;
        self.refresh_read(charge).await
    }

    /// The same of a charge that was just read. What comes of it is guarded by the version that was read; whatever else is
    /// decided, is decided on the charge as it is by then.
    pub async fn refresh_read(
        &self,
        charge: Charge,
    ) -> Result<(Charge, Result<Option<ChargeReport>, ProviderError>), ServiceError> {
        let asked_at = self.ports.clock.now();
        let answer = self.ports.provider.consult_charge(charge.inquiry()).await;
        let charge = match &answer {
            Ok(Some(report)) => Box::pin(self.learn(charge, report, asked_at)).await?,
            Ok(None) if charge.state == ChargeState::Creating => self.resume_or_end(charge, asked_at).await?,
            Ok(None) => self.expire_if_over(charge, asked_at).await?,
            Err(ProviderError::Mismatch(field)) => {
                self.ports.tell_mismatch(charge.resource(), field).await?;
                charge
            }
            Err(_) => charge,
        };
        Ok((charge, answer))
    }

    /// Cancels a live charge: asks the provider whether it was paid, has it removed there, and only then calls it
    /// canceled. Doing so again changes nothing. A provider that doesn't remove charges leaves a code that can be paid:
    /// such a payment is credited, as any late one.
    ///
    /// [`ServiceError::InvalidState`] for one that is paid, expired, failed, or not confirmed yet;
    /// [`ServiceError::ProviderUnavailable`] and [`ServiceError::ProviderTimeout`] leave it as it is.
    pub async fn cancel(&self, integrator_id: IntegratorId, id: ChargeId) -> Result<Charge, ServiceError> {
        let (charge, answer) = self.refresh(integrator_id, id).await?;
        match (&charge.state, answer) {
            (ChargeState::Pending, Ok(_)) => {}
            (ChargeState::Pending | ChargeState::Creating, Err(error)) => return Err(not_asked(error)),
            _ => return ended(charge),
        }
        match self.ports.provider.remove_charge(charge.inquiry()).await {
            Ok(Removal::Removed | Removal::NotOffered) => {
                ended(self.advance(integrator_id, id, Charge::cancel).await?)
            }
            Err(ProviderError::Rejected { code, message, .. }) => {
                // Paid meanwhile, perhaps: what it is now is the answer.
                let (charge, _) = self.refresh(integrator_id, id).await?;
                match charge.state {
                    ChargeState::Pending => {
                        Err(ServiceError::ProviderRejected { code, message, charge: None })
                    }
                    _ => ended(charge),
                }
            }
            Err(error) => Err(not_asked(error)),
        }
    }

    async fn learn(
        &self,
        mut charge: Charge,
        report: &ChargeReport,
        asked_at: crate::time::Timestamp,
    ) -> Result<Charge, ServiceError> {
        if charge.state == ChargeState::Creating {
            // The provider has it: making it again, under the same reference, answers with its QR code.
            charge = self.resume_later(charge).await?;
            if charge.state == ChargeState::Creating {
                return Ok(charge);
            }
        }
        // Until all that it says is seen to, the charge stays due.
        let back = !report.refunded.is_zero();
        let gone_then = charge.gone().unwrap_or(charge.amount_paid());
        let mut payments = report.payments.iter();
        while let Some(payment) = payments.next() {
            let more = back || !payments.as_slice().is_empty();
            charge = self.credit(charge, payment, more).await?;
        }
        if !report.refunded.is_zero() {
            charge = self.take_back(&charge, report.refunded, gone_then, asked_at).await?;
        }
        if report.canceled {
            charge = self.advance(charge.integrator_id, charge.id, Charge::cancel).await?;
        }
        self.expire_if_over(charge, asked_at).await
    }

    /// Takes back what the provider says went back, beyond our refunds: those of the charge as it is by now, for one may have
    /// begun since, and those of when it was asked.
    ///
    /// [`ServiceError::ProviderUnavailable`] when a refund has failed since: the answer may have counted it, and says nothing
    /// of what else went back. [`ServiceError::Restored`] while no money goes out after a restore, but for
    /// [`of_operators`](Self::of_operators). Whoever asked comes again.
    async fn take_back(
        &self,
        charge: &Charge,
        refunded: Cents,
        gone_then: Cents,
        asked_at: crate::time::Timestamp,
    ) -> Result<Charge, ServiceError> {
        let (integrator_id, id) = (charge.integrator_id, charge.id);
        for _ in 0..MAX_STALE_RETRIES {
            let charge = self.get(integrator_id, id).await?;
            if charge.gone().is_none_or(|gone| refunded > gone) {
                let refunds = self.ports.stores.refunds.list_of_charge(integrator_id, id).await?;
                let has_failed = |refund: &Refund| {
                    let ended = refund.completed_at.is_some_and(|ended_at| ended_at > asked_at);
                    ended && matches!(refund.state, OutgoingState::Failed(_))
                };
                if gone_then >= refunded || refunds.iter().any(has_failed) {
                    return Err(ServiceError::ProviderUnavailable);
                }
                // It may be a refund of ours that these books have lost, and that is asked for again.
                let is_taken = charge.gone().is_none_or(|gone| refunded.min(charge.amount_paid()) > gone);
                let is_shut = self.ports.outflow.outflow() == Outflow::Shut;
                if is_taken && is_shut && !self.takes_back_when_shut {
                    return Err(ServiceError::Restored);
                }
            }
            let Step::Next(transition) = charge.clone().take_back(refunded, self.ports.clock.now()) else {
                return Ok(charge);
            };
            // Of its shares, what was taken back is known when it is applied.
            let after = transition.charge().filter(|_| !transition.moves_shares()).cloned();
            if let Applied::Done = self.ports.apply_change(transition).await? {
                return match after {
                    Some(after) => Ok(after),
                    None => self.get(integrator_id, id).await,
                };
            }
        }
        Err(ServiceError::Contention)
    }

    async fn expire_if_over(
        &self,
        charge: Charge,
        asked_at: crate::time::Timestamp,
    ) -> Result<Charge, ServiceError> {
        if charge.state == ChargeState::Pending
            && asked_at >= charge.expires_at
            && self.ports.is_clock_right()
        {
            return self.advance(charge.integrator_id, charge.id, Charge::expire).await;
        }
        Ok(charge)
    }

    /// Credits one payment, unless that was done. While there are `more`, the charge stays due: whoever dies between two
    /// leaves the rest to the next.
    ///
    /// `charge` may have changed since it was read. A write says which version it changes. That it is credited for this PIX
    /// stays so; whatever else ends without a write is decided on a charge that is read here.
    async fn credit(&self, charge: Charge, payment: &Payment, more: bool) -> Result<Charge, ServiceError> {
        let (integrator_id, id) = (charge.integrator_id, charge.id);
        let mut at_hand = Some(charge);
        for _ in 0..MAX_STALE_RETRIES {
            let is_read = at_hand.is_none();
            let charge = match at_hand.take() {
                Some(charge) => charge,
                None => self.get(integrator_id, id).await?,
            };
            if let Some(known) = self.credited_of(&charge, payment).await? {
                if known != payment.amount.cents() {
                    let detail = "a PIX that is credited is now told with another amount";
                    self.tell(&charge, "receipt_changed", detail).await?;
                }
                return Ok(charge);
            }
            let schedule = self.ports.stores.fees.version(integrator_id, charge.fee_version).await?;
            let schedule =
                schedule.ok_or_else(|| StoreError::Damaged("a charge's fee schedule is missing".into()))?;
            let now = self.ports.clock.now();
            let mut transition =
                match charge.clone().pay(payment.clone(), schedule.rule(Operation::CashIn), now) {
                    Step::Next(transition) if is_read || !transition.writes.is_empty() => transition,
                    _ if is_read => return Ok(charge),
                    _ => continue,
                };
            for write in transition.writes.iter_mut().filter(|_| more) {
                write.follow_up = Some(now.plus(schedule::outgoing(0)));
            }
            let after = transition.charge().filter(|_| !transition.moves_shares()).cloned();
            match self.ports.apply(transition).await {
                Ok(()) => {
                    return match after {
                        Some(after) => Ok(after),
                        None => self.get(integrator_id, id).await,
                    };
                }
                Err(ApplyError::Duplicate(UniqueKey::Receipt)) => {
                    let receipts = self.ports.stores.charges.receipts(integrator_id, id).await?;
                    if !receipts.iter().any(|receipt| receipt.payment.key == payment.key) {
                        let detail =
                            "a PIX that the provider tells of this charge is credited to another one";
                        self.tell(&charge, "receipt_of_another_charge", detail).await?;
                    }
                    return self.get(integrator_id, id).await;
                }
                Err(ApplyError::Stale | ApplyError::Owing | ApplyError::Store(StoreError::Unknown(_))) => {}
                Err(ApplyError::Store(error)) => return Err(error.into()),
                Err(ApplyError::Duplicate(_) | ApplyError::InsufficientFunds) => {
                    return Err(ServiceError::Contention);
                }
            }
        }
        Err(ServiceError::Contention)
    }

    /// With how much the charge is credited for this PIX already. Receipts are read only where the charge doesn't say so
    /// itself: it names the first one.
    async fn credited_of(&self, charge: &Charge, payment: &Payment) -> Result<Option<Cents>, ServiceError> {
        match &charge.credited {
            None => Ok(None),
            Some(credited) if credited.payments == 1 => {
                Ok((credited.first == payment.key).then_some(credited.amount_paid))
            }
            Some(_) => {
                let receipts = self.ports.stores.charges.receipts(charge.integrator_id, charge.id).await?;
                let known = receipts.iter().find(|receipt| receipt.payment.key == payment.key);
                Ok(known.map(|receipt| receipt.payment.amount.cents()))
            }
        }
    }

    /// Tells an operator.
    async fn tell(&self, charge: &Charge, code: &'static str, detail: &str) -> Result<(), ServiceError> {
        let finding = charge.receipt_differs(code, detail, self.ports.clock.now());
        self.ports.apply_change(finding).await.map(|_| ())
    }

    async fn advance(
        &self,
        integrator_id: IntegratorId,
        id: ChargeId,
        decide: impl Fn(Charge, crate::time::Timestamp) -> Step + Send + Sync,
    ) -> Result<Charge, ServiceError> {
        for _ in 0..MAX_STALE_RETRIES {
            let charge = self.get(integrator_id, id).await?;
            match decide(charge.clone(), self.ports.clock.now()) {
                Step::Next(transition) => {
                    // Of its shares, what was taken back is known when it is applied.
                    let after = transition.charge().filter(|_| !transition.moves_shares()).cloned();
                    if let Applied::Done = self.ports.apply_change(transition).await? {
                        return match after {
                            Some(after) => Ok(after),
                            None => self.get(integrator_id, id).await,
                        };
                    }
                }
                Step::Already | Step::Refused(_) => return Ok(charge),
            }
        }
        Err(ServiceError::Contention)
    }
}
