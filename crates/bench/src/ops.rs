//! What is measured: the store's commands, as values.
//!
//! Everything is named by a *slot*, a number. The record of a slot, its owner and its texts follow from it, so that a
//! task, `pgbench` and a fill by SQL speak of the same rows without telling each other. A slot stands in every id and
//! text as eight hexadecimal digits: that is how the captured statement of a sample slot becomes the one of any slot.

use anyhow::{Context, bail};
use clap::ValueEnum;
use pix_domain::charges::{Charge, DEFAULT_EXPIRES_IN, Failure, NewCharge, state as charge_state};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::error::ApplyError;
use pix_domain::fees::{FeeRule, Percent};
use pix_domain::ids::{ChargeId, IntegratorId, RefundId, WithdrawalId};
use pix_domain::list::{DEFAULT_PER_PAGE, ListQuery};
use pix_domain::money::{Amount, Cents};
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::ports::{DEFAULT_SUBMIT_GRACE, Stores};
use pix_domain::provider::{Party, Payment, ProviderBody, ProviderId, ReceiptKey, Ticket};
use pix_domain::refunds::{NewRefund, state as refund_state};
use pix_domain::text::{ExternalId, PersonName, PostbackUrl};
use pix_domain::time::Timestamp;
use pix_domain::transition::{Step, Transition};
use pix_domain::withdrawals::{NewWithdrawal, Payee, Withdrawal, state as withdrawal_state};
use uuid::Uuid;

/// When everything here happens: 2026-11-21 12:00 UTC, in microseconds.
pub const AT_MICROS: i64 = 1_795_262_400_000_000;
/// When something is asked about next, in microseconds.
pub const DUE_MICROS: i64 = AT_MICROS + 60_000_000;
/// What is paid, in centavos.
pub const PAID_CENTS: i64 = 10_000;
/// What it costs, in centavos.
pub const FEE_CENTS: i64 = 10;
/// What goes out, in centavos.
pub const OUT_CENTS: i64 = 100;
/// What is in every wallet at first, free and promised each, in centavos.
pub const FUNDS_CENTS: i64 = 1_000_000_000_000_000;
/// Who pays, and who is paid.
pub const PAYER_NAME: &str = "Ana Souza";
/// Whose CPF it is.
pub const PAYER_DOCUMENT: &str = "52998224725";
/// The key of who is paid: an e-mail address.
pub const PAYEE_KEY: &str = "bruno@example.com";
/// The slot whose statement is captured. No table has it.
pub const SAMPLE_SLOT: u32 = 0x5eed_cafe;
/// The integrator of the captured statement. No table has it.
pub const SAMPLE_OWNER: u32 = 0x1a2b_3c4d;
/// The slots that belong to things made while measuring begin here.
pub const FRESH: u32 = 0x4000_0000;

/// The kind of an integrator's id.
pub const INTEGRATOR: u32 = 0xff;
/// The kind of a charge's id.
pub const CHARGE: u32 = 1;
const WITHDRAWAL: u32 = 2;
const REFUND: u32 = 3;

/// A command of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Op {
    /// A live charge is stored.
    Create,
    /// A paid charge is credited.
    Settle,
    /// A withdrawal takes its money.
    Reserve,
    /// A failed withdrawal gives it back.
    Release,
    /// A refund takes its money and its share of the charge.
    Refund,
    /// A charge is read by its id.
    Consult,
    /// The newest charges are read.
    List,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Create, Self::Settle, Self::Reserve, Self::Release, Self::Refund, Self::Consult, Self::List];

    /// What it is called in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create charge",
            Self::Settle => "settle",
            Self::Reserve => "reserve withdrawal",
            Self::Release => "release withdrawal",
            Self::Refund => "refund",
            Self::Consult => "consult lookup",
            Self::List => "list page",
        }
    }

    /// Whether it writes.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Consult | Self::List)
    }

    /// Whether it moves money in its wallet, which a hot one's others wait for. Making a charge doesn't.
    pub const fn moves_money(self) -> bool {
        matches!(self, Self::Settle | Self::Reserve | Self::Release | Self::Refund)
    }

    /// What must be there, a row a slot.
    pub const fn needs(self) -> Seed {
        match self {
            Self::Create | Self::Reserve => Seed::Nothing,
            Self::Settle | Self::Consult | Self::List => Seed::Pending,
            Self::Release => Seed::Submitting,
            Self::Refund => Seed::Paid,
        }
    }

    /// The name of the event that each of these leaves once, and how it is found.
    pub const fn event(self) -> Option<&'static str> {
        match self {
            Self::Create => Some("charge.pending"),
            Self::Settle => Some("charge.paid"),
            Self::Reserve => Some("withdrawal.created"),
            Self::Release => Some("withdrawal.failed"),
            Self::Refund => Some("refund.created"),
            Self::Consult | Self::List => None,
        }
    }
}

/// What a database is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seed {
    /// Integrators with money.
    Nothing,
    /// And live charges.
    Pending,
    /// And paid charges.
    Paid,
    /// And withdrawals that are being sent.
    Submitting,
}

/// Whose wallets: how many integrators take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// At least one.
    pub wallets: u32,
}

/// The SQL of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

impl Dialect {
    /// Eight hexadecimal digits of a number.
    pub fn hex(self, number: &str) -> String {
        match self {
            Self::Postgres => format!("lpad(to_hex({number}), 8, '0')"),
            Self::Sqlite => format!("printf('%08x', {number})"),
        }
    }

    /// The id of a kind and number.
    pub fn id(self, kind: u32, number: &str) -> String {
        let text = format!("'00000000-0000-7000-8000-{kind:04x}' || {}", self.hex(number));
        match self {
            Self::Postgres => format!("({text})::uuid"),
            Self::Sqlite => text,
        }
    }

    /// A row for each number `from..to`, as `s`.
    pub fn series(self, from: u32, to: u32) -> String {
        match self {
            Self::Postgres => format!("FROM generate_series({from}, {to} - 1) s"),
            Self::Sqlite => format!(
                "FROM (WITH RECURSIVE n(s) AS (SELECT {from} UNION ALL SELECT s + 1 FROM n WHERE s < {to} - 1) \
                 SELECT s FROM n)"
            ),
        }
    }
}

fn id(kind: u32, slot: u32) -> Uuid {
    let low = (u64::from(kind) << 32) | u64::from(slot);
    Uuid::from_u64_pair(0x0000_0000_0000_7000, 0x8000_0000_0000_0000 | low)
}

/// The id of a charge.
pub fn charge_id(slot: u32) -> Uuid {
    id(CHARGE, slot)
}

/// The id of a withdrawal.
pub fn withdrawal_id(slot: u32) -> Uuid {
    id(WITHDRAWAL, slot)
}

/// What the integrator calls a charge.
pub fn order(slot: u32) -> String {
    format!("order-{slot:08x}")
}

/// What the integrator calls a withdrawal.
pub fn payout(slot: u32) -> String {
    format!("payout-{slot:08x}")
}

/// What the provider calls a charge.
pub fn provider_id(slot: u32) -> String {
    format!("provider-{slot:08x}")
}

/// The slot of an id.
pub fn slot_of(id: Uuid) -> u32 {
    u32::try_from(id.as_u128() & u128::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// The end-to-end id of the PIX that pays a charge.
pub fn end_to_end(slot: u32) -> String {
    format!("E12345678202611211200000{slot:08x}")
}

/// When a charge expires, in microseconds.
pub fn expires_micros() -> i64 {
    AT_MICROS + i64::try_from(DEFAULT_EXPIRES_IN.as_micros()).unwrap_or(i64::MAX)
}

fn fits<T, E: std::fmt::Debug>(value: Result<T, E>) -> anyhow::Result<T> {
    value.map_err(|error| anyhow::anyhow!("a value of the benchmark is not acceptable: {error:?}"))
}

fn next(step: Step) -> anyhow::Result<Transition> {
    step.next().context("the state machine refuses what is measured")
}

/// The present instant.
pub fn now() -> Timestamp {
    Timestamp::from_micros(AT_MICROS)
}

/// The fee rule that settling uses.
pub fn fee_rule() -> anyhow::Result<FeeRule> {
    let fixed = Cents::new(FEE_CENTS).context("a fee")?;
    fits(FeeRule::new(fixed, Percent::zero(), Cents::ZERO, None))
}

/// The PIX that pays a charge.
pub fn payment(end_to_end_id: &str, cents: i64) -> anyhow::Result<Payment> {
    Ok(Payment {
        key: ReceiptKey::EndToEnd(fits(EndToEndId::parse(end_to_end_id))?),
        amount: fits(Amount::from_cents(cents))?,
        paid_at: now(),
        payer: payer()?,
    })
}

fn payer() -> anyhow::Result<Party> {
    Ok(Party {
        name: Some(fits(PersonName::parse(PAYER_NAME))?),
        document: Some(fits(Document::parse(PAYER_DOCUMENT))?),
    })
}

impl World {
    /// The integrator whose record a slot is.
    pub fn owner(self, slot: u32) -> IntegratorId {
        let index =
            if slot == SAMPLE_SLOT && self.wallets > 1 { SAMPLE_OWNER } else { slot % self.wallets.max(1) };
        IntegratorId(id(INTEGRATOR, index))
    }

    /// The transition that makes the live charge of a slot.
    pub fn open_charge(self, slot: u32) -> anyhow::Result<Transition> {
        self.open_charge_for(slot, None)
    }

    /// The same, with the URL of somebody who is told of it.
    fn open_charge_for(self, slot: u32, postback_url: Option<PostbackUrl>) -> anyhow::Result<Transition> {
        let provider_id = ProviderId::parse(&provider_id(slot)).context("a provider's id")?;
        let new = NewCharge {
            id: ChargeId(charge_id(slot)),
            integrator_id: self.owner(slot),
            external_id: fits(ExternalId::parse(&order(slot)))?,
            external_id_given: true,
            amount: fits(Amount::from_cents(PAID_CENTS))?,
            payer: payer()?,
            payer_email: None,
            payer_question: None,
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url,
            postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
            expires_in: DEFAULT_EXPIRES_IN,
            split: Vec::new(),
            fee_version: 0,
        };
        let ticket = Ticket { provider_id, qrcode: qrcode(slot), body: ProviderBody("{}".into()) };
        Ok(charge_state::open(new, ticket, now()))
    }

    /// The live charge of a slot.
    pub fn pending(self, slot: u32) -> anyhow::Result<Charge> {
        self.open_charge(slot)?.charge().cloned().context("a charge")
    }

    /// The transitions that make the charge of a slot and credit its payment, which a postback to the URL tells of.
    pub fn told(self, slot: u32, url: &str) -> anyhow::Result<[Transition; 2]> {
        let opened = self.open_charge_for(slot, Some(fits(PostbackUrl::parse(url))?))?;
        let charge = opened.charge().cloned().context("a charge")?;
        let paid = next(charge.pay(payment(&end_to_end(slot), PAID_CENTS)?, &fee_rule()?, now()))?;
        Ok([opened, paid])
    }

    fn settle(self, slot: u32) -> anyhow::Result<Transition> {
        let payment = payment(&end_to_end(slot), PAID_CENTS)?;
        next(self.pending(slot)?.pay(payment, &fee_rule()?, now()))
    }

    fn reserve(self, slot: u32) -> anyhow::Result<Transition> {
        let new = NewWithdrawal {
            id: WithdrawalId(withdrawal_id(slot)),
            integrator_id: self.owner(slot),
            external_id: fits(ExternalId::parse(&payout(slot)))?,
            external_id_given: true,
            amount: fits(Amount::from_cents(OUT_CENTS))?,
            fee: Cents::ZERO,
            fee_version: 0,
            payee: Payee { party: payer()?, key: fits(PixKey::parse(PixKeyType::Email, PAYEE_KEY))? },
            description: None,
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url: None,
            postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        };
        withdrawal_state::accept(new, now(), DEFAULT_SUBMIT_GRACE).context("a withdrawal")
    }

    fn submitting(self, slot: u32) -> anyhow::Result<Withdrawal> {
        self.reserve(slot)?.withdrawal().cloned().context("a withdrawal")
    }

    fn release(self, slot: u32) -> anyhow::Result<Transition> {
        let failure = Failure { code: "account_closed".into(), message: "the account is closed".into() };
        next(self.submitting(slot)?.fail(failure, now()))
    }

    fn refund(self, slot: u32) -> anyhow::Result<Transition> {
        let charge = self.settle(slot)?.charge().cloned().context("a charge")?;
        let new = NewRefund {
            id: RefundId(id(REFUND, slot)),
            external_id: fits(ExternalId::parse(&format!("refund-{slot:08x}")))?,
            external_id_given: true,
            amount: fits(Amount::from_cents(OUT_CENTS))?,
            amount_given: true,
            fee: Cents::ZERO,
            fee_version: 0,
            description: None,
        };
        fits(refund_state::accept(new, charge, now(), DEFAULT_SUBMIT_GRACE))
    }

    /// The transition of a command that writes.
    pub fn transition(self, op: Op, slot: u32) -> anyhow::Result<Transition> {
        match op {
            Op::Create => self.open_charge(slot),
            Op::Settle => self.settle(slot),
            Op::Reserve => self.reserve(slot),
            Op::Release => self.release(slot),
            Op::Refund => self.refund(slot),
            Op::Consult | Op::List => bail!("a read is no transition"),
        }
    }

    /// Does it once; whether it was done, rather than refused.
    pub async fn run(self, stores: &Stores, op: Op, slot: u32) -> anyhow::Result<bool> {
        match op {
            Op::Consult => {
                let found = stores.charges.find(self.owner(slot), ChargeId(charge_id(slot))).await?;
                Ok(found.is_some())
            }
            Op::List => {
                // The service asks for one more than it shows.
                let query = ListQuery { limit: DEFAULT_PER_PAGE + 1, ..ListQuery::default() };
                Ok(!stores.charges.list(self.owner(slot), &query).await?.is_empty())
            }
            _ => match stores.transitions.apply(self.transition(op, slot)?).await {
                Ok(()) => Ok(true),
                Err(ApplyError::Store(error)) => Err(error.into()),
                Err(_) => Ok(false),
            },
        }
    }

    /// The statements of SQL that fill a schema with the slots `from..to` of `seed`.
    pub fn fill(self, dialect: Dialect, seed: Seed, from: u32, to: u32) -> String {
        let owner = dialect.id(INTEGRATOR, &format!("s % {}", self.wallets.max(1)));
        let hex = dialect.hex("s");
        let (charge, withdrawal) = (dialect.id(CHARGE, "s"), dialect.id(WITHDRAWAL, "s"));
        let slots = dialect.series(from, to);
        let (expires, due) = (expires_micros(), DUE_MICROS);
        // PostgreSQL keeps in a table of its own when a charge is due.
        let due_apart = dialect == Dialect::Postgres;
        let charges = |state: &str, version: u32, follow_up: Option<i64>, credit: &str| {
            let in_row = follow_up.filter(|_| !due_apart).map_or("NULL".to_owned(), |at| at.to_string());
            let apart = follow_up.filter(|_| due_apart).map(|at| {
                format!(
                    "\nINSERT INTO charge_follow_ups (integrator_id, id, due_at, attempts) \
                     SELECT {owner}, {charge}, {at}, 0 {slots};"
                )
            });
            let rows = format!(
                "INSERT INTO charges (integrator_id, id, version, external_id, external_id_given, amount_cents, \
                 payer_name, payer_document, fee_version, state, provider_id, qrcode, provider_body, \
                 amount_paid_cents, paid_fee_cents, first_receipt_key, paid_at, late, payments, \
                 refund_reserved_cents, refunded_cents, expires_at, created_at, updated_at, follow_up_at, \
                 follow_up_attempts) SELECT {owner}, {charge}, {version}, \
                 'order-' || {hex}, true, {PAID_CENTS}, '{PAYER_NAME}', '{PAYER_DOCUMENT}', 0, '{state}', \
                 'provider-' || {hex}, '{QR_START}' || {hex} || '{QR_END}', '{{}}', {credit}, 0, 0, {expires}, \
                 {AT_MICROS}, {AT_MICROS}, {in_row}, 0 {slots};"
            );
            rows + &apart.unwrap_or_default()
        };
        match seed {
            Seed::Nothing => String::new(),
            Seed::Pending => charges("pending", 1, Some(due), "0, NULL, NULL, NULL, NULL, NULL"),
            Seed::Paid => {
                let key = format!("'E12345678202611211200000' || {hex}");
                let credit = format!("{PAID_CENTS}, {FEE_CENTS}, {key}, {AT_MICROS}, false, 1");
                charges("paid", 2, None, &credit)
            }
            Seed::Submitting => format!(
                "INSERT INTO withdrawals (integrator_id, id, version, external_id, external_id_given, amount_cents, \
                 fee_cents, fee_version, payee_name, payee_document, payee_key_type, payee_key, state, \
                 returned_cents, submitted_at, created_at, updated_at, follow_up_at, follow_up_attempts) \
                 SELECT {owner}, {withdrawal}, 1, 'payout-' || {hex}, true, \
                 {OUT_CENTS}, 0, 0, '{PAYER_NAME}', '{PAYER_DOCUMENT}', 'EMAIL', '{PAYEE_KEY}', 'submitting', 0, \
                 {AT_MICROS}, {AT_MICROS}, {AT_MICROS}, {due}, 0 {slots};"
            ),
        }
    }

    /// The statements that make the integrators, with money.
    pub fn fill_integrators(self, dialect: Dialect) -> String {
        let owner = dialect.id(INTEGRATOR, "s");
        let all = dialect.series(0, self.wallets.max(1));
        format!(
            "INSERT INTO integrators (id, name, status, created_at) \
             SELECT {owner}, 'Integrator ' || s, 'active', {AT_MICROS} {all};\n\
             INSERT INTO wallets (integrator_id, available_cents, held_cents, entries) \
             SELECT {owner}, {FUNDS_CENTS}, {FUNDS_CENTS}, 0 {all};"
        )
    }
}

/// A QR code of the usual length.
const QR_START: &str = "00020101021226850014br.gov.bcb.pix2563pix.simulator.example/qr/v2/";
const QR_END: &str = "5204000053039865406100.005802BR5913PIX SIMULATOR6009SAO PAULO62070503***6304ABCD";

/// The QR code of a charge.
pub fn qrcode(slot: u32) -> String {
    format!("{QR_START}{slot:08x}{QR_END}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_found_in_its_ids() {
        assert_eq!(slot_of(charge_id(77)), 77);
        assert_eq!(charge_id(0x2a).to_string(), "00000000-0000-7000-8000-00010000002a");
        assert!(charge_id(SAMPLE_SLOT).to_string().ends_with("5eedcafe"));
    }

    #[test]
    fn every_write_is_a_transition_of_the_slots_owner() {
        let world = World { wallets: 10 };
        for op in Op::ALL.into_iter().filter(|op| op.writes()) {
            let transition = world.transition(op, 23).unwrap();
            assert_eq!(transition.integrator_id, world.owner(3), "{op:?}");
            assert!(transition.check_shape().is_ok(), "{op:?}");
        }
    }
}
