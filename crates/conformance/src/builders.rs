//! Integrators, commands and records with sensible defaults: a test names what it is about and nothing else.

use std::time::Duration;

use pix_domain::charges::service::CreateCharge;
use pix_domain::charges::{Charge, DEFAULT_EXPIRES_IN, NewCharge, state as charge_state};
use pix_domain::credentials::{Integrator, IntegratorStatus};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::fees::{FeeRule, FeeSchedule, Percent};
use pix_domain::ids::{ChargeId, Ids, IntegratorId, RefundId, WithdrawalId};
use pix_domain::money::{Amount, Cents};
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::provider::{OutgoingReport, Party, Payment, Progress, ProviderBody, ReceiptKey, Ticket};
use pix_domain::refunds::service::CreateRefund;
use pix_domain::refunds::{NewRefund, state as refund_state};
use pix_domain::text::{ExternalId, IdempotencyKey, PersonName};
use pix_domain::time::{Clock, Timestamp};
use pix_domain::transition::{Step, Transition};
use pix_domain::wallet::Wallet;
use pix_domain::withdrawals::service::CreateWithdrawal;
use pix_domain::withdrawals::{NewWithdrawal, Payee, Withdrawal, state as withdrawal_state};
use uuid::Uuid;

use crate::Services;
use crate::clock::NOON;
use crate::harness::SUBMIT_GRACE;
use crate::provider::provider_id;

/// A quantity of money.
pub const fn cents(value: i64) -> Cents {
    Cents::new(value).expect("not negative")
}

/// An amount.
pub fn amount(value_cents: i64) -> Amount {
    Amount::from_cents(value_cents).expect("a possible amount")
}

/// An external id.
pub fn name(text: &str) -> ExternalId {
    ExternalId::parse(text).expect("a possible external id")
}

/// An idempotency key.
pub fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a possible idempotency key")
}

/// A share in percent.
pub fn percent(text: &str) -> Percent {
    Percent::parse(text).expect("a possible percentage")
}

/// An integrator that may do everything.
pub fn integrator(id: IntegratorId) -> Integrator {
    Integrator {
        id,
        name: format!("Integrator {id}"),
        status: IntegratorStatus::Active,
        postback_scope: None,
        split_postback: None,
        created_at: NOON,
    }
}

/// Who pays.
pub fn payer() -> Party {
    Party {
        name: Some(PersonName::parse("Ana Souza").expect("a name")),
        document: Some(Document::parse("52998224725").expect("a CPF")),
    }
}

/// Who is paid.
pub fn payee() -> Payee {
    Payee {
        party: Party { name: Some(PersonName::parse("Bruno Lima").expect("a name")), document: None },
        key: PixKey::parse(PixKeyType::Email, "bruno@example.com").expect("a PIX key"),
    }
}

/// Eleven letters and digits that stand for `id`.
pub fn eleven(id: Uuid) -> String {
    let mut rest = id.as_u128();
    let digits = (0..11).map(|_| {
        let digit = u32::try_from(rest % 36).expect("less than 36");
        rest /= 36;
        char::from_digit(digit, 36).expect("less than 36")
    });
    digits.collect()
}

/// An end-to-end id that stands for `id`.
pub fn end_to_end_id(id: Uuid) -> EndToEndId {
    EndToEndId::parse(&format!("E12345678202601151200{}", eleven(id))).expect("an end-to-end id")
}

/// A PIX that came in, whose end-to-end id stands for `id`.
pub fn payment(id: Uuid, value_cents: i64, paid_at: Timestamp) -> Payment {
    Payment {
        key: ReceiptKey::EndToEnd(end_to_end_id(id)),
        amount: amount(value_cents),
        paid_at,
        payer: payer(),
    }
}

/// The provider's charge for `id`.
pub fn ticket(id: ChargeId) -> Ticket {
    Ticket {
        provider_id: provider_id(id.0),
        qrcode: format!("fake-qr-code-of-{}", id.0.simple()),
        body: ProviderBody("{}".into()),
    }
}

/// What the provider says of an outgoing movement.
pub fn report(reference: Uuid, progress: Progress) -> OutgoingReport {
    OutgoingReport {
        provider_id: provider_id(reference),
        progress,
        end_to_end_id: None,
        body: ProviderBody("{}".into()),
    }
}

/// Asks for a charge of 100.00.
pub fn charge_command(integrator_id: IntegratorId) -> CreateCharge {
    CreateCharge {
        integrator_id,
        external_id: None,
        idempotency_key: None,
        amount: amount(10_000),
        payer: payer(),
        payer_email: None,
        payer_question: None,
        metadata: pix_domain::metadata::Metadata::default(),
        postback_url: None,
        postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        expires_in: DEFAULT_EXPIRES_IN,
        split: Vec::new(),
    }
}

/// Asks for a withdrawal.
pub fn withdrawal_command(integrator_id: IntegratorId, value_cents: i64) -> CreateWithdrawal {
    CreateWithdrawal {
        integrator_id,
        integrator_status: IntegratorStatus::Active,
        external_id: None,
        idempotency_key: None,
        amount: amount(value_cents),
        payee: payee(),
        description: None,
        metadata: pix_domain::metadata::Metadata::default(),
        postback_url: None,
        postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        allow_duplicate_of: None,
    }
}

/// Asks for a refund.
pub fn refund_command(charge: &Charge, value_cents: i64) -> CreateRefund {
    CreateRefund {
        integrator_id: charge.integrator_id,
        integrator_status: IntegratorStatus::Active,
        charge_id: charge.id,
        external_id: None,
        idempotency_key: None,
        amount: Some(amount(value_cents)),
        description: None,
        allow_duplicate_of: None,
    }
}

/// Fees that show: 0.10 and 1 % in, 0.50 out, 0.25 for a refund.
pub fn some_fees() -> FeeSchedule {
    let rule = |fixed, share: &str| {
        FeeRule::new(cents(fixed), percent(share), Cents::ZERO, None).expect("a possible rule")
    };
    FeeSchedule { version: 0, cash_in: rule(10, "1"), cash_out: rule(50, "0"), refund: rule(25, "0") }
}

/// Bare transitions and records, past the use cases, and shortcuts through them.
impl Services {
    /// A new id.
    pub fn id(&self) -> Uuid {
        self.ids.next()
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time goes on.
    pub fn wait(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// A new integrator without money.
    pub async fn integrator(&self) -> IntegratorId {
        let id = IntegratorId(self.id());
        self.stores.integrators.create(integrator(id)).await.expect("a new integrator");
        id
    }

    /// A new integrator with that much, from one paid charge.
    pub async fn funded(&self, value_cents: i64) -> IntegratorId {
        let integrator_id = self.integrator().await;
        Box::pin(self.paid_charge(integrator_id, value_cents)).await;
        integrator_id
    }

    /// A new PIX.
    pub fn payment(&self, value_cents: i64) -> Payment {
        payment(self.id(), value_cents, self.now())
    }

    /// A new live charge.
    pub async fn charge(&self, integrator_id: IntegratorId, value_cents: i64) -> Charge {
        let command = CreateCharge { amount: amount(value_cents), ..charge_command(integrator_id) };
        self.charges.create(command).await.expect("a new charge").into_inner()
    }

    /// A new charge, paid in full.
    pub async fn paid_charge(&self, integrator_id: IntegratorId, value_cents: i64) -> Charge {
        let charge = self.charge(integrator_id, value_cents).await;
        self.pay(&charge, self.payment(value_cents)).await
    }

    /// A new charge, paid with `payment`.
    pub async fn paid_with(&self, integrator_id: IntegratorId, payment: &Payment) -> Charge {
        let charge = self.charge(integrator_id, payment.amount.cents().get()).await;
        self.pay(&charge, payment.clone()).await
    }

    /// A PIX comes in on a charge, and the provider is asked about it.
    pub async fn pay(&self, charge: &Charge, payment: Payment) -> Charge {
        self.provider.receives(charge.id.0, payment);
        let (charge, answer) =
            self.charges.refresh(charge.integrator_id, charge.id).await.expect("a refreshed charge");
        answer.expect("an answer");
        charge
    }

    /// The transition that makes a live charge of 100.00, named by its own id.
    pub fn charge_intent(&self, integrator_id: IntegratorId) -> Transition {
        let new = self.new_charge(integrator_id);
        let ticket = ticket(new.id);
        charge_state::open(new, ticket, self.now())
    }

    /// A charge of 100.00 to be made, named by its own id.
    pub fn new_charge(&self, integrator_id: IntegratorId) -> NewCharge {
        let id = ChargeId(self.id());
        NewCharge {
            id,
            integrator_id,
            external_id: name(&format!("charge {id}")),
            external_id_given: true,
            amount: amount(10_000),
            payer: payer(),
            payer_email: None,
            payer_question: None,
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url: None,
            postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
            expires_in: DEFAULT_EXPIRES_IN,
            fee_version: 0,
            split: Vec::new(),
        }
    }

    /// The transition that accepts a withdrawal without fee, named by its own id.
    pub fn withdrawal_intent(&self, integrator_id: IntegratorId, value_cents: i64) -> Transition {
        let new = self.new_withdrawal(integrator_id, value_cents);
        withdrawal_state::accept(new, self.now(), SUBMIT_GRACE).expect("a possible total")
    }

    /// A withdrawal to be made, without fee, named by its own id.
    pub fn new_withdrawal(&self, integrator_id: IntegratorId, value_cents: i64) -> NewWithdrawal {
        let id = WithdrawalId(self.id());
        NewWithdrawal {
            id,
            integrator_id,
            external_id: name(&format!("withdrawal {id}")),
            external_id_given: true,
            amount: amount(value_cents),
            fee: Cents::ZERO,
            fee_version: 0,
            payee: payee(),
            description: None,
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url: None,
            postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        }
    }

    /// The transition that accepts a refund of `charge` as it is given, without fee, named by its own id.
    pub fn refund_intent(&self, charge: &Charge, value_cents: i64) -> Transition {
        let id = RefundId(self.id());
        let new = NewRefund {
            id,
            external_id: name(&format!("refund {id}")),
            external_id_given: true,
            amount: amount(value_cents),
            amount_given: true,
            fee: Cents::ZERO,
            fee_version: 0,
            description: None,
        };
        refund_state::accept(new, charge.clone(), self.now(), SUBMIT_GRACE).expect("a possible refund")
    }

    /// The transition that credits a PIX on `charge` as it is given, free of charge.
    pub fn credit_intent(&self, charge: &Charge, payment: Payment) -> Transition {
        next(charge.clone().pay(payment, &FeeRule::free(), self.now()))
    }

    /// Applies a transition that must be applied.
    pub async fn apply(&self, transition: Transition) {
        self.stores.domain.transitions.apply(transition).await.expect("an applied transition");
    }

    /// The wallet's row.
    pub async fn wallet(&self, integrator_id: IntegratorId) -> Wallet {
        self.stores.domain.wallets.wallet(integrator_id).await.expect("a wallet")
    }

    /// What is free to use and what is promised, in centavos.
    pub async fn balances(&self, integrator_id: IntegratorId) -> (i64, i64) {
        let wallet = self.wallet(integrator_id).await;
        (wallet.available.get(), wallet.held.get())
    }

    /// A withdrawal as it is stored.
    pub async fn withdrawal(&self, withdrawal: &Withdrawal) -> Withdrawal {
        self.withdrawals.get(withdrawal.integrator_id, withdrawal.id).await.expect("a stored withdrawal")
    }

    /// Puts fees in force.
    pub async fn set_fees(&self, integrator_id: IntegratorId, fees: FeeSchedule) -> u32 {
        self.stores.domain.fees.set(integrator_id, fees, self.now()).await.expect("fees in force")
    }
}

/// The transition of a step that must be one.
pub fn next(step: Step) -> Transition {
    step.next().expect("a change")
}
