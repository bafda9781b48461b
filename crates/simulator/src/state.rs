//! The bank: charges, payments, refunds and the client's balance. It owns the rules and decides which effect a
//! request has; it must never know about HTTP, files or the clock.
//!
//! A request is first decided ([`Decision`]: nothing changes), then its entry is applied ([`Bank::apply`]), so a
//! bank rebuilt from the log is the bank that wrote it.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::value::RawValue;

use crate::{
    brcode, clock,
    log::{LogEntry, LogEvent, LogParty},
    money::Amount,
    wire::{
        Calendar, ChargeAnswer, ChargeRequest, Counts, CreditPartyAnswer, Kind, PayAnswer, PayRequest,
        PaymentAnswer, PaymentRequest, ReceivedPix, Reference, RefundAnswer, RefundRequest, Refusal,
        RejectRequest, StateAnswer, Transaction,
    },
};

const DEFAULT_EXPIRATION_SECONDS: u32 = 3_000;
const MAX_EXPIRATION_SECONDS: u32 = 365 * 86_400;
const MAX_POSTBACK_URL: usize = 2_048;
/// BCB, API Pix: `EndToEndId`.
const END_TO_END_ID_LENGTH: usize = 32;
/// A payment to a key with this in it is refused for good.
const REJECTED_KEY: &str = "reject";
const MERCHANT_NAME: &str = "PIX SIMULATOR";
const MERCHANT_CITY: &str = "SAO PAULO";
const MERCHANT_DOCUMENT: &str = "11222333000181";
const DEFAULT_PAYER_NAME: &str = "PAGADOR SIMULADO";
const DEFAULT_PAYER_DOCUMENT: &str = "52998224725";
const LOCATION: &str = "pix.simulator.example/qr/v2/";
/// How many of each kind `GET /sim/state` lists, the newest first.
const MAX_LISTED: usize = 1_000;

/// A charge, payment or refund that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) id: String,
}

/// What comes of a request.
pub(crate) enum Decision {
    /// It was carried out before: nothing happens.
    Known(Subject),
    /// It was carried out before: nothing happens, and this entry says that it was asked for again.
    Repeated(Subject, Box<LogEntry>),
    /// It happens with this entry.
    New(Subject, Box<LogEntry>),
}

/// Time and ids for one decision.
pub(crate) struct Fresh {
    pub(crate) now: DateTime<Utc>,
    pub(crate) id: String,
    pub(crate) end_to_end_id: String,
    pub(crate) return_id: String,
}

/// How a request is carried out.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// A payment or refund is made at once; else it waits.
    pub(crate) settle: bool,
    /// A reference that is known is carried out once more, as if it were not.
    pub(crate) again: bool,
}

#[derive(Clone)]
struct Charge {
    external_id: String,
    amount: i64,
    created_at: DateTime<Utc>,
    expiration_seconds: u32,
    debtor: LogParty,
    postback_url: Option<String>,
    canceled: bool,
    received: Vec<Received>,
    paid: i64,
    /// Refunds that have not failed.
    refund_reserved: i64,
    /// Refunds that are done.
    refunded: i64,
}

#[derive(Clone)]
struct Received {
    end_to_end_id: String,
    amount: i64,
    at: DateTime<Utc>,
    payer: LogParty,
    late: bool,
}

#[derive(Clone)]
struct Payment {
    external_id: String,
    amount: i64,
    end_to_end_id: String,
    payee: CreditPartyAnswer,
    postback_url: Option<String>,
    standing: Standing,
    returned: i64,
}

#[derive(Clone)]
struct Refund {
    transaction_id: String,
    external_id: String,
    amount: i64,
    return_id: String,
    postback_url: Option<String>,
    standing: Standing,
}

#[derive(Clone)]
enum Standing {
    Pending,
    Done(DateTime<Utc>),
    Failed { code: String, message: String },
}

impl Standing {
    fn done_at(&self) -> Option<String> {
        match self {
            Self::Done(at) => Some(clock::local(*at)),
            Self::Pending | Self::Failed { .. } => None,
        }
    }

    fn failure(&self) -> (Option<String>, Option<String>) {
        match self {
            Self::Failed { code, message } => (Some(code.clone()), Some(message.clone())),
            Self::Pending | Self::Done(_) => (None, None),
        }
    }

    fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }
}

impl Charge {
    fn expired(&self, now: DateTime<Utc>) -> bool {
        now > self.due()
    }

    fn due(&self) -> DateTime<Utc> {
        let life = TimeDelta::seconds(i64::from(self.expiration_seconds));
        self.created_at.checked_add_signed(life).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// Money counts for more than expiry or cancellation.
    fn status(&self, now: DateTime<Utc>) -> &'static str {
        if self.paid > 0 {
            if self.refunded == self.paid { "REFUNDED" } else { "PAID" }
        } else if self.canceled {
            "CANCELED"
        } else if self.expired(now) {
            "EXPIRED"
        } else {
            "PENDING"
        }
    }
}

impl Payment {
    fn status(&self) -> &'static str {
        match self.standing {
            Standing::Pending => "PENDING",
            Standing::Done(_) if self.returned == self.amount => "RETURNED",
            Standing::Done(_) => "PAID",
            Standing::Failed { .. } => "FAILED",
        }
    }
}

/// Records of one kind, by id and by the client's reference.
struct Records<T> {
    by_id: BTreeMap<String, T>,
    by_reference: HashMap<String, String>,
}

impl<T> Records<T> {
    fn new() -> Self {
        Self { by_id: BTreeMap::new(), by_reference: HashMap::new() }
    }

    fn insert(&mut self, id: &str, reference: &str, record: T) {
        if !reference.is_empty() {
            self.by_reference.insert(reference.to_owned(), id.to_owned());
        }
        self.by_id.insert(id.to_owned(), record);
    }

    fn referred(&self, reference: &str) -> Option<(&String, &T)> {
        self.by_id.get_key_value(self.by_reference.get(reference)?)
    }

    /// By id, else by reference.
    fn resolve(&self, text: &str) -> Option<(&String, &T)> {
        self.by_id.get_key_value(text).or_else(|| self.referred(text))
    }

    fn newest(&self) -> impl Iterator<Item = (&String, &T)> {
        self.by_id.iter().rev().take(MAX_LISTED)
    }
}

/// All state. See the module.
pub(crate) struct Bank {
    balance: i64,
    charges: Records<Charge>,
    payments: Records<Payment>,
    refunds: Records<Refund>,
    end_to_end_ids: HashSet<String>,
}

/// An entry that doesn't fit the state: a damaged log, or an overflow.
#[derive(Debug)]
pub(crate) struct Misfit;

// Deciding.
impl Bank {
    pub(crate) fn new(opening_balance_cents: i64) -> Self {
        Self {
            balance: opening_balance_cents,
            charges: Records::new(),
            payments: Records::new(),
            refunds: Records::new(),
            end_to_end_ids: HashSet::new(),
        }
    }

    pub(crate) fn create_charge(
        &self,
        request: ChargeRequest,
        how: How,
        fresh: &Fresh,
    ) -> Result<Decision, Refusal> {
        let amount = Amount::required(request.amount.as_deref())?.0;
        let external_id = Reference::text(request.external_id.as_ref())?;
        if let Some((id, charge)) = self.charges.referred(&external_id).filter(|_| !how.again) {
            same_body(charge.amount == amount)?;
            return Ok(Decision::Known(Subject { kind: Kind::Charge, id: id.clone() }));
        }
        let expiration = request.expiration.unwrap_or(DEFAULT_EXPIRATION_SECONDS);
        if !(1..=MAX_EXPIRATION_SECONDS).contains(&expiration) {
            return Err(Refusal::invalid("validation_failed", "expiration is out of bounds"));
        }
        let mut entry = LogEntry::of(LogEvent::ChargeCreated, &fresh.id, &external_id, amount);
        entry.party = Some(request.payer.unwrap_or_default().into());
        entry.description = request.payer_question;
        entry.postback_url = postback_url(request.postback_url)?;
        entry.expiration_seconds = Some(expiration);
        Ok(decided(Kind::Charge, &fresh.id, entry))
    }

    pub(crate) fn cancel_charge(&self, id: &str, now: DateTime<Utc>) -> Result<Decision, Refusal> {
        let (id, charge) = self.charges.resolve(id).ok_or_else(|| unknown(Kind::Charge))?;
        match charge.status(now) {
            "PENDING" | "EXPIRED" => {}
            _ => return Err(invalid_state("the charge is paid or canceled")),
        }
        let entry = LogEntry::of(LogEvent::ChargeCanceled, id, &charge.external_id, charge.amount);
        Ok(decided(Kind::Charge, id, entry))
    }

    /// A PIX arrives, on time or not.
    pub(crate) fn receive_pix(
        &self,
        id: &str,
        request: PayRequest,
        fresh: &Fresh,
    ) -> Result<Decision, Refusal> {
        let (id, charge) = self.charges.resolve(id).ok_or_else(|| unknown(Kind::Charge))?;
        let amount = Amount::optional(request.amount.as_deref())?.map_or(charge.amount, |amount| amount.0);
        let end_to_end_id = request.end_to_end_id.unwrap_or_else(|| fresh.end_to_end_id.clone());
        let well_formed = end_to_end_id.len() == END_TO_END_ID_LENGTH
            && end_to_end_id.starts_with('E')
            && end_to_end_id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !well_formed {
            return Err(Refusal::invalid("validation_failed", "endToEndId must be E and 31 alphanumerics"));
        }
        if self.end_to_end_ids.contains(&end_to_end_id) {
            return Err(Refusal::conflict("end_to_end_id_conflict", "this endToEndId was used before"));
        }
        let mut entry = LogEntry::of(LogEvent::PixReceived, id, &charge.external_id, amount);
        entry.end_to_end_id = Some(end_to_end_id);
        entry.party = Some(request.payer.map_or_else(|| charge.likely_payer(), LogParty::from));
        entry.late = Some(request.late || charge.canceled || charge.expired(fresh.now));
        Ok(decided(Kind::Charge, id, entry))
    }

    pub(crate) fn create_payment(
        &self,
        request: PaymentRequest,
        how: How,
        fresh: &Fresh,
    ) -> Result<Decision, Refusal> {
        let amount = Amount::required(request.amount.as_deref())?.0;
        let external_id = Reference::text(request.external_id.as_ref())?;
        let payee = request.credit_party.unwrap_or_default();
        let key = payee
            .key
            .filter(|key| !key.is_empty())
            .ok_or_else(|| Refusal::invalid("validation_failed", "creditParty.key is required"))?;
        if let Some((id, payment)) = self.payments.referred(&external_id).filter(|_| !how.again) {
            let same = payment.amount == amount && payment.payee.key.as_ref() == Some(&key);
            same_body(same)?;
            return Ok(repeated(Kind::Payment, id, payment.entry(LogEvent::PaymentRepeated, id, amount)));
        }
        if key.to_ascii_lowercase().contains(REJECTED_KEY) {
            return Err(Refusal::rejected("invalid_key", "key not found"));
        }
        let postback_url = postback_url(request.postback_url)?;
        self.afford(amount)?;
        let event = if how.settle { LogEvent::PaymentExecuted } else { LogEvent::PaymentAccepted };
        let mut entry = LogEntry::of(event, &fresh.id, &external_id, amount);
        entry.end_to_end_id = Some(fresh.end_to_end_id.clone());
        entry.party = Some(LogParty {
            name: payee.name.unwrap_or_default(),
            document: payee.tax_id.unwrap_or_default(),
        });
        entry.key_type = payee.key_type;
        entry.key = Some(key);
        entry.description = request.description;
        entry.postback_url = postback_url;
        Ok(decided(Kind::Payment, &fresh.id, entry))
    }

    pub(crate) fn settle_payment(&self, id: &str) -> Result<Decision, Refusal> {
        let (id, payment) = self.pending_payment(id)?;
        Ok(decided(Kind::Payment, id, payment.entry(LogEvent::PaymentSettled, id, payment.amount)))
    }

    pub(crate) fn reject_payment(&self, id: &str, request: RejectRequest) -> Result<Decision, Refusal> {
        let (id, payment) = self.pending_payment(id)?;
        let entry = payment.entry(LogEvent::PaymentRejected, id, payment.amount);
        Ok(decided(Kind::Payment, id, with_failure(entry, request)))
    }

    /// The payee's bank sends money back: `amount`, else all that is left.
    pub(crate) fn return_payment(&self, id: &str, amount: Option<&RawValue>) -> Result<Decision, Refusal> {
        let (id, payment) = self.payments.resolve(id).ok_or_else(|| unknown(Kind::Payment))?;
        let left = payment.amount - payment.returned;
        if !matches!(payment.standing, Standing::Done(_)) || left == 0 {
            return Err(invalid_state("only a payment that was made, and not returned, can be returned"));
        }
        let amount = Amount::optional(amount)?.map_or(left, |amount| amount.0);
        if amount > left {
            return Err(Refusal::invalid("return_exceeds_paid", "more than what is left of the payment"));
        }
        Ok(decided(Kind::Payment, id, payment.entry(LogEvent::PaymentReturned, id, amount)))
    }

    /// The provider is forced to send money of a charge back, as by MED (BCB): `amount`, else all that is left. The balance
    /// may be below nothing after that.
    pub(crate) fn take_back_charge(&self, id: &str, amount: Option<&RawValue>) -> Result<Decision, Refusal> {
        let (id, charge) = self.charges.resolve(id).ok_or_else(|| unknown(Kind::Charge))?;
        let left = charge.paid - charge.refund_reserved;
        if left <= 0 {
            return Err(invalid_state("only what was paid, and not sent back, can be taken back"));
        }
        let amount = Amount::optional(amount)?.map_or(left, |amount| amount.0);
        if amount > left {
            return Err(Refusal::invalid("return_exceeds_paid", "more than what is left of the charge"));
        }
        let entry = LogEntry::of(LogEvent::ChargeTakenBack, id, &charge.external_id, amount);
        Ok(decided(Kind::Charge, id, entry))
    }

    pub(crate) fn create_refund(
        &self,
        request: RefundRequest,
        how: How,
        fresh: &Fresh,
    ) -> Result<Decision, Refusal> {
        let amount = Amount::optional(request.amount.as_deref())?.map(|amount| amount.0);
        let external_id = Reference::text(request.external_id.as_ref())?;
        if let Some((id, refund)) = self.refunds.referred(&external_id).filter(|_| !how.again) {
            let same = amount.is_none_or(|amount| amount == refund.amount)
                && request.pix_id == refund.transaction_id;
            same_body(same)?;
            return Ok(repeated(Kind::Refund, id, refund.entry(LogEvent::RefundRepeated, id)));
        }
        let (charge_id, charge) = self
            .charges
            .by_id
            .get_key_value(&request.pix_id)
            .filter(|(_, charge)| charge.paid > 0)
            .ok_or_else(|| Refusal::rejected("not_refundable", "there is no paid charge of this id"))?;
        let left = charge.paid - charge.refund_reserved;
        let amount = amount.unwrap_or(left);
        if amount > left || left == 0 {
            return Err(Refusal::rejected("refund_exceeds_paid", "refunds would exceed what was paid"));
        }
        let postback_url = postback_url(request.postback_url)?;
        self.afford(amount)?;
        let event = if how.settle { LogEvent::RefundExecuted } else { LogEvent::RefundAccepted };
        let mut entry = LogEntry::of(event, charge_id, &external_id, amount);
        entry.refund_id = Some(fresh.id.clone());
        entry.end_to_end_id = Some(fresh.return_id.clone());
        entry.description = request.description;
        entry.postback_url = postback_url;
        Ok(decided(Kind::Refund, &fresh.id, entry))
    }

    pub(crate) fn settle_refund(&self, id: &str) -> Result<Decision, Refusal> {
        let (id, refund) = self.pending_refund(id)?;
        Ok(decided(Kind::Refund, id, refund.entry(LogEvent::RefundSettled, id)))
    }

    pub(crate) fn reject_refund(&self, id: &str, request: RejectRequest) -> Result<Decision, Refusal> {
        let (id, refund) = self.pending_refund(id)?;
        let entry = refund.entry(LogEvent::RefundRejected, id);
        Ok(decided(Kind::Refund, id, with_failure(entry, request)))
    }

    fn pending_payment(&self, id: &str) -> Result<(&String, &Payment), Refusal> {
        let found = self.payments.resolve(id).ok_or_else(|| unknown(Kind::Payment))?;
        if found.1.standing.is_pending() { Ok(found) } else { Err(invalid_state("the payment is final")) }
    }

    fn pending_refund(&self, id: &str) -> Result<(&String, &Refund), Refusal> {
        let found = self.refunds.resolve(id).ok_or_else(|| unknown(Kind::Refund))?;
        if found.1.standing.is_pending() { Ok(found) } else { Err(invalid_state("the refund is final")) }
    }

    fn afford(&self, amount: i64) -> Result<(), Refusal> {
        if amount > self.balance {
            return Err(Refusal::rejected("insufficient_funds", "the balance does not suffice"));
        }
        Ok(())
    }
}

// Applying.
impl Bank {
    /// Takes an entry into the state, whole or not at all.
    pub(crate) fn apply(&mut self, entry: &LogEntry) -> Result<(), Misfit> {
        match entry.event {
            LogEvent::ChargeCreated | LogEvent::ChargeCanceled | LogEvent::PixReceived => {
                self.apply_charge(entry)
            }
            LogEvent::ChargeTakenBack => self.apply_taken_back(entry),
            LogEvent::PaymentAccepted | LogEvent::PaymentExecuted => self.apply_payment(entry),
            LogEvent::PaymentSettled | LogEvent::PaymentRejected | LogEvent::PaymentReturned => {
                self.apply_to_payment(entry)
            }
            LogEvent::RefundAccepted | LogEvent::RefundExecuted => self.apply_refund(entry),
            LogEvent::RefundSettled | LogEvent::RefundRejected => self.apply_to_refund(entry),
            LogEvent::PaymentRepeated | LogEvent::RefundRepeated => Ok(()),
        }
    }

    fn apply_charge(&mut self, entry: &LogEntry) -> Result<(), Misfit> {
        if entry.event == LogEvent::ChargeCreated {
            let charge = Charge {
                external_id: entry.external_id.clone(),
                amount: entry.amount_cents,
                created_at: entry.at,
                expiration_seconds: entry.expiration_seconds.ok_or(Misfit)?,
                debtor: entry.party.clone().unwrap_or_default(),
                postback_url: entry.postback_url.clone(),
                canceled: false,
                received: Vec::new(),
                paid: 0,
                refund_reserved: 0,
                refunded: 0,
            };
            self.charges.insert(&entry.transaction_id, &entry.external_id, charge);
            return Ok(());
        }
        let charge = self.charges.by_id.get_mut(&entry.transaction_id).ok_or(Misfit)?;
        if entry.event == LogEvent::ChargeCanceled {
            charge.canceled = true;
            return Ok(());
        }
        let end_to_end_id = entry.end_to_end_id.clone().ok_or(Misfit)?;
        let paid = charge.paid.checked_add(entry.amount_cents).ok_or(Misfit)?;
        self.balance = self.balance.checked_add(entry.amount_cents).ok_or(Misfit)?;
        self.end_to_end_ids.insert(end_to_end_id.clone());
        charge.paid = paid;
        charge.received.push(Received {
            end_to_end_id,
            amount: entry.amount_cents,
            at: entry.at,
            payer: entry.party.clone().unwrap_or_default(),
            late: entry.late.unwrap_or_default(),
        });
        Ok(())
    }

    fn apply_payment(&mut self, entry: &LogEntry) -> Result<(), Misfit> {
        let party = entry.party.clone().unwrap_or_default();
        let payment = Payment {
            external_id: entry.external_id.clone(),
            amount: entry.amount_cents,
            end_to_end_id: entry.end_to_end_id.clone().ok_or(Misfit)?,
            payee: CreditPartyAnswer {
                name: party.name,
                key_type: entry.key_type.clone(),
                key: entry.key.clone(),
                tax_id: party.document,
            },
            postback_url: entry.postback_url.clone(),
            standing: first_standing(entry, LogEvent::PaymentExecuted),
            returned: 0,
        };
        self.balance = self.balance.checked_sub(entry.amount_cents).ok_or(Misfit)?;
        self.payments.insert(&entry.transaction_id, &entry.external_id, payment);
        Ok(())
    }

    fn apply_to_payment(&mut self, entry: &LogEntry) -> Result<(), Misfit> {
        let payment = self.payments.by_id.get_mut(&entry.transaction_id).ok_or(Misfit)?;
        match entry.event {
            LogEvent::PaymentSettled => payment.standing = Standing::Done(entry.at),
            LogEvent::PaymentRejected => {
                self.balance = self.balance.checked_add(entry.amount_cents).ok_or(Misfit)?;
                payment.standing = failed(entry);
            }
            _ => {
                self.balance = self.balance.checked_add(entry.amount_cents).ok_or(Misfit)?;
                payment.returned += entry.amount_cents;
            }
        }
        Ok(())
    }

    fn apply_taken_back(&mut self, entry: &LogEntry) -> Result<(), Misfit> {
        let charge = self.charges.by_id.get_mut(&entry.transaction_id).ok_or(Misfit)?;
        self.balance = self.balance.checked_sub(entry.amount_cents).ok_or(Misfit)?;
        charge.refund_reserved += entry.amount_cents;
        charge.refunded += entry.amount_cents;
        Ok(())
    }

    fn apply_refund(&mut self, entry: &LogEntry) -> Result<(), Misfit> {
        let refund_id = entry.refund_id.as_deref().ok_or(Misfit)?;
        let refund = Refund {
            transaction_id: entry.transaction_id.clone(),
            external_id: entry.external_id.clone(),
            amount: entry.amount_cents,
            return_id: entry.end_to_end_id.clone().ok_or(Misfit)?,
            postback_url: entry.postback_url.clone(),
            standing: first_standing(entry, LogEvent::RefundExecuted),
        };
        let charge = self.charges.by_id.get_mut(&entry.transaction_id).ok_or(Misfit)?;
        self.balance = self.balance.checked_sub(entry.amount_cents).ok_or(Misfit)?;
        charge.refund_reserved += entry.amount_cents;
        if entry.event == LogEvent::RefundExecuted {
            charge.refunded += entry.amount_cents;
        }
        self.refunds.insert(refund_id, &entry.external_id, refund);
        Ok(())
    }

    fn apply_to_refund(&mut self, entry: &LogEntry) -> Result<(), Misfit> {
        let refund_id = entry.refund_id.as_ref().ok_or(Misfit)?;
        let refund = self.refunds.by_id.get_mut(refund_id).ok_or(Misfit)?;
        let charge = self.charges.by_id.get_mut(&entry.transaction_id).ok_or(Misfit)?;
        if entry.event == LogEvent::RefundSettled {
            charge.refunded += entry.amount_cents;
            refund.standing = Standing::Done(entry.at);
        } else {
            self.balance = self.balance.checked_add(entry.amount_cents).ok_or(Misfit)?;
            charge.refund_reserved -= entry.amount_cents;
            refund.standing = failed(entry);
        }
        Ok(())
    }
}

// Telling.
impl Bank {
    pub(crate) fn balance(&self) -> String {
        Amount(self.balance).fixed()
    }

    /// The transaction of a provider's id.
    pub(crate) fn find(&self, id: &str) -> Option<Subject> {
        [Kind::Charge, Kind::Payment, Kind::Refund].into_iter().find_map(|kind| {
            let known = match kind {
                Kind::Charge => self.charges.by_id.contains_key(id),
                Kind::Payment => self.payments.by_id.contains_key(id),
                Kind::Refund => self.refunds.by_id.contains_key(id),
            };
            known.then(|| Subject { kind, id: id.to_owned() })
        })
    }

    /// The transaction of a client's reference; a reference names one of each kind, so it may need the kind too.
    pub(crate) fn find_reference(
        &self,
        reference: &str,
        kind: Option<Kind>,
    ) -> Result<Option<Subject>, Refusal> {
        let mut found = [Kind::Charge, Kind::Payment, Kind::Refund]
            .into_iter()
            .filter(|one| kind.is_none_or(|kind| kind == *one))
            .filter_map(|kind| {
                let id = match kind {
                    Kind::Charge => self.charges.by_reference.get(reference),
                    Kind::Payment => self.payments.by_reference.get(reference),
                    Kind::Refund => self.refunds.by_reference.get(reference),
                };
                id.map(|id| Subject { kind, id: id.clone() })
            });
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(Refusal::conflict(
                "ambiguous_external_id",
                "external_id names several transactions: add transactionType",
            )),
            (first, None) => Ok(first),
        }
    }

    /// Every id by which a call about this id may be meant: the provider's, and the client's.
    pub(crate) fn names(&self, id: &str) -> Vec<String> {
        let mut names = vec![id.to_owned()];
        if let Some(subject) = self.find(id) {
            names.push(self.external_id(&subject).unwrap_or_default().to_owned());
        }
        names
    }

    /// The client's reference of a transaction, maybe empty.
    pub(crate) fn external_id(&self, subject: &Subject) -> Option<&str> {
        Some(match subject.kind {
            Kind::Charge => &self.charges.by_id.get(&subject.id)?.external_id,
            Kind::Payment => &self.payments.by_id.get(&subject.id)?.external_id,
            Kind::Refund => &self.refunds.by_id.get(&subject.id)?.external_id,
        })
    }

    pub(crate) fn postback_url(&self, subject: &Subject) -> Option<&str> {
        match subject.kind {
            Kind::Charge => self.charges.by_id.get(&subject.id)?.postback_url.as_deref(),
            Kind::Payment => self.payments.by_id.get(&subject.id)?.postback_url.as_deref(),
            Kind::Refund => self.refunds.by_id.get(&subject.id)?.postback_url.as_deref(),
        }
    }

    pub(crate) fn describe(&self, subject: &Subject, now: DateTime<Utc>) -> Option<Transaction> {
        let id = &subject.id;
        Some(match subject.kind {
            Kind::Charge => self.charges.by_id.get(id)?.describe(id, now),
            Kind::Payment => self.payments.by_id.get(id)?.describe(id),
            Kind::Refund => self.describe_refund(id, self.refunds.by_id.get(id)?),
        })
    }

    /// The charge as `POST /v2/pix/qrcode` answers it.
    pub(crate) fn charge_answer<'a>(&'a self, id: &'a str, now: DateTime<Utc>) -> Option<ChargeAnswer<'a>> {
        let charge = self.charges.by_id.get(id)?;
        Some(ChargeAnswer {
            transaction_id: id,
            external_id: &charge.external_id,
            status: charge.status(now),
            amount: Amount(charge.amount),
            calendar: Calendar {
                expiration: charge.expiration_seconds,
                due_date: clock::local(charge.due()),
            },
            debtor: &charge.debtor,
            qrcode: brcode::dynamic(&[LOCATION, id].concat(), MERCHANT_NAME, MERCHANT_CITY)?,
        })
    }

    /// The payment as `POST /v2/pix/payment` answers it: the first answer is always `PENDING`.
    pub(crate) fn payment_answer<'a>(&'a self, id: &'a str, first: bool) -> Option<PaymentAnswer<'a>> {
        let payment = self.payments.by_id.get(id)?;
        Some(PaymentAnswer {
            status_code: 200,
            message: "Payment received",
            transaction_id: id,
            external_id: &payment.external_id,
            status: if first { "PENDING" } else { payment.status() },
            amount: Amount(payment.amount),
            end_to_end_id: &payment.end_to_end_id,
        })
    }

    /// The refund as `POST /v2/pix/refund` answers it.
    pub(crate) fn refund_answer<'a>(&'a self, id: &'a str) -> Option<RefundAnswer<'a>> {
        let refund = self.refunds.by_id.get(id)?;
        Some(RefundAnswer {
            status_code: 200,
            message: "Refund received",
            transaction_id: &refund.transaction_id,
            refund_id: id,
            external_id: &refund.external_id,
            amount: Amount(refund.amount),
            status: match refund.standing {
                Standing::Pending => "PENDING",
                Standing::Done(_) => "COMPLETED",
                Standing::Failed { .. } => "FAILED",
            },
            end_to_end_id: &refund.return_id,
        })
    }

    /// The last PIX received on a charge.
    pub(crate) fn pay_answer(&self, id: &str, now: DateTime<Utc>) -> Option<PayAnswer> {
        let charge = self.charges.by_id.get(id)?;
        Some(PayAnswer {
            transaction_id: id.to_owned(),
            external_id: charge.external_id.clone(),
            status: charge.status(now),
            pix: charge.received.last()?.describe(),
        })
    }

    /// Everything, the newest first.
    pub(crate) fn state_answer(&self, now: DateTime<Utc>) -> StateAnswer {
        StateAnswer {
            balance: self.balance(),
            counts: Counts {
                charges: self.charges.by_id.len(),
                payments: self.payments.by_id.len(),
                refunds: self.refunds.by_id.len(),
            },
            charges: self.charges.newest().map(|(id, charge)| charge.describe(id, now)).collect(),
            payments: self.payments.newest().map(|(id, payment)| payment.describe(id)).collect(),
            refunds: self.refunds.newest().map(|(id, refund)| self.describe_refund(id, refund)).collect(),
        }
    }

    fn describe_refund(&self, id: &str, refund: &Refund) -> Transaction {
        let (failure_code, failure_message) = refund.standing.failure();
        let charge = self.charges.by_id.get(&refund.transaction_id);
        let payee = charge.map(Charge::likely_payer).unwrap_or_default();
        Transaction {
            kind: Kind::Refund,
            id: refund.transaction_id.clone(),
            external_id: refund.external_id.clone(),
            amount: Amount(refund.amount),
            payment_type: "PIX",
            status: match refund.standing {
                Standing::Pending => "PENDING",
                Standing::Done(_) => "REFUNDED",
                Standing::Failed { .. } => "FAILED",
            },
            date_approval: refund.standing.done_at(),
            end_to_end_id: Some(refund.return_id.clone()),
            credit_party: CreditPartyAnswer {
                name: payee.name,
                tax_id: payee.document,
                ..CreditPartyAnswer::default()
            },
            debit_party: merchant(),
            payments: None,
            refunded_amount: None,
            refund_id: Some(id.to_owned()),
            failure_code,
            failure_message,
            returned_amount: None,
        }
    }
}

impl Charge {
    /// Who paid it first, else whom it was made out to, else somebody.
    fn likely_payer(&self) -> LogParty {
        match self.received.first() {
            Some(received) => received.payer.clone(),
            None if self.debtor.name.is_empty() && self.debtor.document.is_empty() => {
                LogParty { name: DEFAULT_PAYER_NAME.to_owned(), document: DEFAULT_PAYER_DOCUMENT.to_owned() }
            }
            None => self.debtor.clone(),
        }
    }

    fn describe(&self, id: &str, now: DateTime<Utc>) -> Transaction {
        let first = self.received.first();
        Transaction {
            kind: Kind::Charge,
            id: id.to_owned(),
            external_id: self.external_id.clone(),
            amount: Amount(self.amount),
            payment_type: "PIX",
            status: self.status(now),
            date_approval: first.map(|received| clock::local(received.at)),
            end_to_end_id: first.map(|received| received.end_to_end_id.clone()),
            credit_party: CreditPartyAnswer {
                name: MERCHANT_NAME.to_owned(),
                tax_id: MERCHANT_DOCUMENT.to_owned(),
                ..CreditPartyAnswer::default()
            },
            debit_party: first.map_or_else(|| self.debtor.clone(), |received| received.payer.clone()),
            payments: Some(self.received.iter().map(Received::describe).collect()),
            refunded_amount: Some(Amount(self.refunded)),
            refund_id: None,
            failure_code: None,
            failure_message: None,
            returned_amount: None,
        }
    }
}

impl Received {
    fn describe(&self) -> ReceivedPix {
        ReceivedPix {
            end_to_end_id: self.end_to_end_id.clone(),
            amount: Amount(self.amount),
            date_approval: clock::local(self.at),
            paid_at: clock::utc(self.at),
            debit_party: self.payer.clone(),
            late: self.late,
        }
    }
}

impl Payment {
    fn entry(&self, event: LogEvent, id: &str, amount: i64) -> LogEntry {
        let mut entry = LogEntry::of(event, id, &self.external_id, amount);
        entry.end_to_end_id = Some(self.end_to_end_id.clone());
        entry
    }

    fn describe(&self, id: &str) -> Transaction {
        let (failure_code, failure_message) = self.standing.failure();
        Transaction {
            kind: Kind::Payment,
            id: id.to_owned(),
            external_id: self.external_id.clone(),
            amount: Amount(self.amount),
            payment_type: "PIX",
            status: self.status(),
            date_approval: self.standing.done_at(),
            end_to_end_id: Some(self.end_to_end_id.clone()),
            credit_party: self.payee.clone(),
            debit_party: merchant(),
            payments: None,
            refunded_amount: None,
            refund_id: None,
            failure_code,
            failure_message,
            returned_amount: Some(Amount(self.returned)),
        }
    }
}

impl Refund {
    fn entry(&self, event: LogEvent, id: &str) -> LogEntry {
        let mut entry = LogEntry::of(event, &self.transaction_id, &self.external_id, self.amount);
        entry.refund_id = Some(id.to_owned());
        entry.end_to_end_id = Some(self.return_id.clone());
        entry
    }
}

fn merchant() -> LogParty {
    LogParty { name: MERCHANT_NAME.to_owned(), document: MERCHANT_DOCUMENT.to_owned() }
}

fn decided(kind: Kind, id: &str, entry: LogEntry) -> Decision {
    Decision::New(Subject { kind, id: id.to_owned() }, Box::new(entry))
}

fn repeated(kind: Kind, id: &str, entry: LogEntry) -> Decision {
    Decision::Repeated(Subject { kind, id: id.to_owned() }, Box::new(entry))
}

fn same_body(same: bool) -> Result<(), Refusal> {
    if !same {
        return Err(Refusal::conflict("external_id_conflict", "external_id was used with another body"));
    }
    Ok(())
}

fn unknown(kind: Kind) -> Refusal {
    Refusal::not_found(match kind {
        Kind::Charge => "charge not found",
        Kind::Payment => "payment not found",
        Kind::Refund => "refund not found",
    })
}

fn invalid_state(message: &str) -> Refusal {
    Refusal::conflict("invalid_state", message)
}

fn with_failure(mut entry: LogEntry, request: RejectRequest) -> LogEntry {
    entry.failure_code = Some(request.code.unwrap_or_else(|| "rejected".to_owned()));
    entry.failure_message =
        Some(request.message.unwrap_or_else(|| "rejected by the payee's bank".to_owned()));
    entry
}

fn failed(entry: &LogEntry) -> Standing {
    Standing::Failed {
        code: entry.failure_code.clone().unwrap_or_default(),
        message: entry.failure_message.clone().unwrap_or_default(),
    }
}

fn first_standing(entry: &LogEntry, done: LogEvent) -> Standing {
    if entry.event == done { Standing::Done(entry.at) } else { Standing::Pending }
}

/// A callback goes to an absolute `http` or `https` address, or nowhere.
fn postback_url(given: Option<String>) -> Result<Option<String>, Refusal> {
    let Some(url) = given.filter(|url| !url.is_empty()) else { return Ok(None) };
    let usable = url.len() <= MAX_POSTBACK_URL
        && reqwest::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if !usable {
        return Err(Refusal::invalid("validation_failed", "postbackUrl must be an http or https address"));
    }
    Ok(Some(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENING: i64 = 100_000;
    const AT_ONCE: How = How { settle: true, again: false };
    const LATER: How = How { settle: false, again: false };

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_790_000_000 + second, 0).unwrap()
    }

    fn fresh(second: i64) -> Fresh {
        let now = at(second);
        let id = clock::fresh_id();
        let end_to_end_id = clock::end_to_end_id('E', now);
        Fresh { now, id, end_to_end_id, return_id: clock::end_to_end_id('D', now) }
    }

    fn parsed<T: serde::de::DeserializeOwned>(json: &str) -> T {
        serde_json::from_str(json).unwrap()
    }

    fn carry_out(bank: &mut Bank, decision: Decision, second: i64) -> Subject {
        match decision {
            Decision::Known(subject) | Decision::Repeated(subject, _) => subject,
            Decision::New(subject, mut entry) => {
                entry.at = at(second);
                bank.apply(&entry).unwrap();
                subject
            }
        }
    }

    fn charge(bank: &mut Bank, json: &str) -> Subject {
        let decision = bank.create_charge(parsed(json), AT_ONCE, &fresh(0)).unwrap();
        carry_out(bank, decision, 0)
    }

    fn pay(bank: &mut Bank, subject: &Subject, second: i64) {
        let decision = bank.receive_pix(&subject.id, PayRequest::default(), &fresh(second)).unwrap();
        carry_out(bank, decision, second);
    }

    #[test]
    fn a_charge_expires_and_can_still_be_paid_late() {
        let mut bank = Bank::new(OPENING);
        let subject = charge(&mut bank, r#"{"amount":10,"expiration":60}"#);
        assert_eq!(bank.describe(&subject, at(60)).unwrap().status, "PENDING");
        assert_eq!(bank.describe(&subject, at(61)).unwrap().status, "EXPIRED");
        pay(&mut bank, &subject, 61);
        let told = bank.describe(&subject, at(61)).unwrap();
        assert_eq!(told.status, "PAID");
        assert!(told.payments.unwrap()[0].late);
        assert_eq!(bank.balance(), "1010.00");
    }

    #[test]
    fn money_set_aside_comes_back_when_a_payment_fails_or_returns() {
        let mut bank = Bank::new(OPENING);
        let body = r#"{"amount":"300.00","creditParty":{"key":"a@example.com"}}"#;
        let decision = bank.create_payment(parsed(body), LATER, &fresh(0)).unwrap();
        let subject = carry_out(&mut bank, decision, 0);
        assert_eq!(bank.balance(), "700.00");
        assert_eq!(bank.return_payment(&subject.id, None).err().unwrap().code, "invalid_state");
        let decision = bank.reject_payment(&subject.id, RejectRequest::default()).unwrap();
        carry_out(&mut bank, decision, 1);
        assert_eq!(bank.balance(), "1000.00");
        assert_eq!(bank.settle_payment(&subject.id).err().unwrap().code, "invalid_state");

        let decision = bank.create_payment(parsed(body), AT_ONCE, &fresh(2)).unwrap();
        let subject = carry_out(&mut bank, decision, 2);
        let part: Box<RawValue> = parsed("100");
        let decision = bank.return_payment(&subject.id, Some(&part)).unwrap();
        carry_out(&mut bank, decision, 3);
        assert_eq!(bank.describe(&subject, at(3)).unwrap().status, "PAID");
        let more: Box<RawValue> = parsed("200.01");
        assert_eq!(bank.return_payment(&subject.id, Some(&more)).err().unwrap().code, "return_exceeds_paid");
        let decision = bank.return_payment(&subject.id, None).unwrap();
        carry_out(&mut bank, decision, 4);
        assert_eq!(bank.describe(&subject, at(4)).unwrap().status, "RETURNED");
        assert_eq!(bank.balance(), "1000.00");
    }

    #[test]
    fn a_payment_beyond_the_balance_is_refused() {
        let bank = Bank::new(OPENING);
        let body = r#"{"amount":1000.01,"creditParty":{"key":"a@example.com"}}"#;
        let refusal = bank.create_payment(parsed(body), AT_ONCE, &fresh(0)).err().unwrap();
        assert_eq!((refusal.status.as_u16(), refusal.code), (406, "insufficient_funds"));
    }

    #[test]
    fn a_rejected_refund_frees_what_it_had_set_aside() {
        let mut bank = Bank::new(OPENING);
        let subject = charge(&mut bank, r#"{"amount":10}"#);
        pay(&mut bank, &subject, 1);
        let body = format!(r#"{{"pix_id":"{}"}}"#, subject.id);
        let decision = bank.create_refund(parsed(&body), LATER, &fresh(2)).unwrap();
        let refund = carry_out(&mut bank, decision, 2);
        let again = bank.create_refund(parsed(&body), LATER, &fresh(2)).err().unwrap();
        assert_eq!(again.code, "refund_exceeds_paid");
        let decision = bank.reject_refund(&refund.id, RejectRequest::default()).unwrap();
        carry_out(&mut bank, decision, 3);
        assert_eq!(bank.describe(&refund, at(3)).unwrap().status, "FAILED");
        assert!(bank.create_refund(parsed(&body), AT_ONCE, &fresh(4)).is_ok());
        assert_eq!(bank.balance(), "1010.00");
    }

    #[test]
    fn a_reference_of_several_kinds_needs_its_kind() {
        let mut bank = Bank::new(OPENING);
        let of_charge = charge(&mut bank, r#"{"amount":10,"external_id":7}"#);
        let body = r#"{"amount":1,"external_id":"7","creditParty":{"key":"a@example.com"}}"#;
        let decision = bank.create_payment(parsed(body), AT_ONCE, &fresh(0)).unwrap();
        carry_out(&mut bank, decision, 0);
        assert_eq!(bank.find_reference("7", None).unwrap_err().code, "ambiguous_external_id");
        assert_eq!(bank.find_reference("7", Some(Kind::Charge)).unwrap(), Some(of_charge));
        assert_eq!(bank.find_reference("8", None).unwrap(), None);
    }

    #[test]
    fn an_entry_of_something_unknown_changes_nothing() {
        let mut bank = Bank::new(OPENING);
        for event in [LogEvent::PixReceived, LogEvent::PaymentRejected, LogEvent::RefundExecuted] {
            let mut entry = LogEntry::of(event, "nothing", "", 500);
            entry.end_to_end_id = Some("E".into());
            entry.refund_id = Some("R".into());
            assert!(bank.apply(&entry).is_err());
        }
        assert_eq!(bank.balance(), "1000.00");
    }
}
