//! What integrators ask for, and what each was told.
//!
//! Everything that a client asks for carries a tag of its own (a description, or the question to the payer), so that the
//! provider's log can be traced back to the request that caused it.

use std::time::Duration;

use pix_domain::charges::Charge;
use pix_domain::charges::service::{ChargeService, CreateCharge};
use pix_domain::credentials::IntegratorStatus;
use pix_domain::error::{ServiceError, StoreError};
use pix_domain::fees::Percent;
use pix_domain::ids::{ChargeId, IntegratorId, ResourceKind};
use pix_domain::money::Amount;
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::ports::Outcome;
use pix_domain::provider::Party;
use pix_domain::refunds::service::{CreateRefund, RefundService};
use pix_domain::splits::{NewShare, Part};
use pix_domain::text::{Description, ExternalId, IdempotencyKey, PayerQuestion};
use pix_domain::transition::Record;
use pix_domain::withdrawals::Payee;
use pix_domain::withdrawals::service::{CreateWithdrawal, WithdrawalService};
use uuid::Uuid;

use crate::random::Random;

/// What another integrator gets of a payment where it is a percentage: so many of a million.
pub const SHARE_OF_A_MILLION: i64 = 333_333;

/// What a client was told.
#[derive(Debug, Clone)]
pub enum Told {
    /// This is it, now.
    Ok(Record),
    /// No.
    Refused(ServiceError),
}

/// What a client asks for.
#[derive(Debug, Clone)]
pub enum Command {
    /// A charge.
    Charge(CreateCharge),
    /// A withdrawal.
    Withdrawal(CreateWithdrawal),
    /// A refund.
    Refund(CreateRefund),
}

/// One thing that a client wants, however often it asks.
#[derive(Debug, Clone)]
pub struct Intent {
    /// What it wants.
    pub command: Command,
    /// What it was told, in order.
    pub told: Vec<Told>,
    /// How many times it asked.
    pub asked: u32,
    /// How many times it got no answer at all.
    pub unanswered: u32,
}

impl Command {
    /// Who asks.
    pub const fn integrator_id(&self) -> IntegratorId {
        match self {
            Self::Charge(command) => command.integrator_id,
            Self::Withdrawal(command) => command.integrator_id,
            Self::Refund(command) => command.integrator_id,
        }
    }

    /// What kind of record it makes.
    pub const fn kind(&self) -> ResourceKind {
        match self {
            Self::Charge(_) => ResourceKind::Charge,
            Self::Withdrawal(_) => ResourceKind::Withdrawal,
            Self::Refund(_) => ResourceKind::Refund,
        }
    }

    /// Its names for it.
    pub const fn handles(&self) -> (Option<&ExternalId>, Option<&IdempotencyKey>) {
        match self {
            Self::Charge(command) => (command.external_id.as_ref(), command.idempotency_key.as_ref()),
            Self::Withdrawal(command) => (command.external_id.as_ref(), command.idempotency_key.as_ref()),
            Self::Refund(command) => (command.external_id.as_ref(), command.idempotency_key.as_ref()),
        }
    }

    /// Whether anything tells it from another one just like it.
    pub const fn has_handle(&self) -> bool {
        let (name, key) = self.handles();
        name.is_some() || key.is_some()
    }

    /// What the client wrote on it.
    pub fn tag(&self) -> &str {
        match self {
            Self::Charge(command) => command.payer_question.as_ref().map_or("", PayerQuestion::as_str),
            Self::Withdrawal(command) => command.description.as_ref().map_or("", Description::as_str),
            Self::Refund(command) => command.description.as_ref().map_or("", Description::as_str),
        }
    }

    /// How much it asks for, when it says so.
    pub const fn amount(&self) -> Option<Amount> {
        match self {
            Self::Charge(command) => Some(command.amount),
            Self::Withdrawal(command) => Some(command.amount),
            Self::Refund(command) => command.amount,
        }
    }

    /// The same, as a twin of `other` on purpose.
    #[must_use]
    pub fn allowing(mut self, other: Uuid) -> Self {
        match &mut self {
            Self::Charge(_) => {}
            Self::Withdrawal(command) => command.allow_duplicate_of = Some(other),
            Self::Refund(command) => command.allow_duplicate_of = Some(other),
        }
        self
    }

    /// Another body under the same handles, or under one of them.
    #[must_use]
    pub fn with_other_body(mut self, number: usize, random: &mut Random) -> Self {
        let (drop_name, drop_key) = (random.one_in(4), random.one_in(4));
        let (name, key) = match &mut self {
            Self::Charge(command) => {
                command.payer_question = PayerQuestion::parse(&format!("intent {number}")).ok();
                (&mut command.external_id, &mut command.idempotency_key)
            }
            Self::Withdrawal(command) => {
                command.description = Description::parse(&format!("intent {number}")).ok();
                (&mut command.external_id, &mut command.idempotency_key)
            }
            Self::Refund(command) => {
                command.description = Description::parse(&format!("intent {number}")).ok();
                (&mut command.external_id, &mut command.idempotency_key)
            }
        };
        if name.is_some() && key.is_some() {
            if drop_name {
                *name = None;
            } else if drop_key {
                *key = None;
            }
        }
        self
    }
}

/// Whether nothing at all was stored for the request that was answered so.
pub const fn means_nothing_was_done(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::Invalid { .. }
            | ServiceError::NotFound
            | ServiceError::PossibleDuplicate(_)
            | ServiceError::InvalidState(_)
            | ServiceError::IntegratorSuspended
            | ServiceError::InsufficientBalance
            | ServiceError::RefundExceedsPaid
            | ServiceError::RefundWindowClosed
            | ServiceError::ProviderUnavailable
            | ServiceError::Store(StoreError::Unavailable(_))
    )
}

/// Makes up what clients ask for.
#[derive(Debug)]
pub struct Wishes;

impl Wishes {
    /// An amount: few different ones, so that some are alike.
    fn amount(random: &mut Random) -> Amount {
        let cents = match random.below(4) {
            0 => 5_000,
            1 => 12_345,
            _ => random.cents(40_000),
        };
        Amount::from_cents(cents).expect("a possible amount")
    }

    fn handles(number: usize, random: &mut Random) -> (Option<ExternalId>, Option<IdempotencyKey>) {
        let name = || ExternalId::parse(&format!("order-{number}")).ok();
        let key = || IdempotencyKey::parse(&format!("key-{number}")).ok();
        match random.below(10) {
            0..4 => (name(), None),
            4..6 => (None, key()),
            6..8 => (name(), key()),
            _ => (None, None),
        }
    }

    /// A charge.
    pub fn charge(owner: IntegratorId, number: usize, random: &mut Random) -> Command {
        let (external_id, idempotency_key) = Self::handles(number, random);
        let minutes = 1 + random.below(45);
        Command::Charge(CreateCharge {
            integrator_id: owner,
            external_id,
            idempotency_key,
            amount: Self::amount(random),
            payer: Party::default(),
            payer_email: None,
            payer_question: PayerQuestion::parse(&format!("intent {number}")).ok(),
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url: None,
            postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
            expires_in: Duration::from_mins(minutes),
            split: Vec::new(),
        })
    }

    /// What is asked for, with a split to `other` where it is a charge: of three charges one gives nothing, one a percentage
    /// and one a fixed amount. Which of them is by its number, so that it takes no chance from anything else.
    #[must_use]
    pub fn sharing(mut command: Command, other: Option<IntegratorId>, number: usize) -> Command {
        if let Command::Charge(wish) = &mut command {
            let share = Self::part(number, wish.amount).zip(other);
            wish.split = share.map(|(part, recipient)| NewShare { recipient, part }).into_iter().collect();
        }
        command
    }

    fn part(number: usize, amount: Amount) -> Option<Part> {
        match number % 3 {
            0 => None,
            1 => {
                let percent = format!("{}.{:04}", SHARE_OF_A_MILLION / 10_000, SHARE_OF_A_MILLION % 10_000);
                Percent::parse(&percent).ok().map(Part::Percentage)
            }
            _ => Amount::from_cents(amount.cents().get() / 4).ok().map(Part::Amount),
        }
    }

    /// A withdrawal to one of three keys, of two people.
    pub fn withdrawal(owner: IntegratorId, number: usize, random: &mut Random) -> Command {
        let (external_id, idempotency_key) = Self::handles(number, random);
        let (email, document) = match random.below(3) {
            0 => ("bruno@example.com", Some("52998224725")),
            1 => ("bruno.lima@example.com", Some("52998224725")),
            _ => ("carla@example.com", None),
        };
        let document = document.map(|text| Document::parse(text).expect("a CPF"));
        Command::Withdrawal(CreateWithdrawal {
            integrator_id: owner,
            integrator_status: IntegratorStatus::Active,
            external_id,
            idempotency_key,
            amount: Self::amount(random),
            payee: Payee {
                party: Party { name: None, document },
                key: PixKey::parse(PixKeyType::Email, email).expect("a PIX key"),
            },
            description: Description::parse(&format!("intent {number}")).ok(),
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url: None,
            postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
            allow_duplicate_of: None,
        })
    }

    /// A refund of a part of a charge, or of all of it.
    pub fn refund(owner: IntegratorId, charge_id: ChargeId, number: usize, random: &mut Random) -> Command {
        let (external_id, idempotency_key) = Self::handles(number, random);
        let amount = (!random.one_in(4)).then(|| Self::amount(random));
        Command::Refund(CreateRefund {
            integrator_id: owner,
            integrator_status: IntegratorStatus::Active,
            charge_id,
            external_id,
            idempotency_key,
            amount,
            description: Description::parse(&format!("intent {number}")).ok(),
            allow_duplicate_of: None,
        })
    }
}

/// The use cases that clients reach on one node.
#[derive(Clone)]
pub struct FrontDesk {
    /// Charges.
    pub charges: ChargeService,
    /// Withdrawals.
    pub withdrawals: WithdrawalService,
    /// Refunds.
    pub refunds: RefundService,
}

impl FrontDesk {
    /// Asks.
    pub async fn ask(&self, command: Command) -> Told {
        let told = match command {
            Command::Charge(command) => self
                .charges
                .create(command)
                .await
                .map(Outcome::into_inner)
                .map(|charge: Charge| Record::Charge(Box::new(charge))),
            Command::Withdrawal(command) => self
                .withdrawals
                .create(command)
                .await
                .map(Outcome::into_inner)
                .map(|withdrawal| Record::Withdrawal(Box::new(withdrawal))),
            Command::Refund(command) => self
                .refunds
                .create(command)
                .await
                .map(Outcome::into_inner)
                .map(|refund| Record::Refund(Box::new(refund))),
        };
        told.map_or_else(Told::Refused, Told::Ok)
    }
}
