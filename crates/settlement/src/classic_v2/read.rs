//! What is answered: whether it speaks of us, and what it says. An answer that contradicts what was asked, or itself,
//! or that is not understood in a known field, has no meaning: the error is why, in words without anything personal.
//!
//! It owns the names of the contract's answers and the meaning of its status words, and must never know how an answer
//! came here.

use chrono::{DateTime, FixedOffset, NaiveDateTime};
use pix_domain::end_to_end::{EndToEndId, ReturnId};
use pix_domain::money::{Amount, Cents};
use pix_domain::party::{Document, PixKey, PixKeyType};
use pix_domain::provider::{
    ChargeReport, Inquiry, OutgoingReport, Party, Payment, Progress, ProviderBody, ProviderId, ReceiptKey,
    Reference, Ticket,
};
use pix_domain::text::{PersonName, clean};
use pix_domain::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::classify::{code_of, is_object, message_of};

/// Most characters of a BR Code (BCB, "Manual de Padrões para Iniciação do Pix").
const MAX_QR_CODE_CHARS: usize = 512;
/// `America/Sao_Paulo`; Brazil has had no daylight saving since 2019 (Decreto 9.772/2019).
const SAO_PAULO_OFFSET_SECONDS: i32 = 3 * 3_600;
const LOCAL_TIME: &str = "%Y-%m-%d %H:%M:%S";
/// What stands for the secret in what is shown.
const REDACTED: &str = "redacted";
/// The failure code of a provider that gives none.
const NO_FAILURE_CODE: &str = "rejected";

const OTHER_REFERENCE: &str = "the answer names another external_id";
const OTHER_AMOUNT: &str = "the answer names another amount";
const OTHER_TRANSACTION: &str = "the answer names another transaction";
const OTHER_CHARGE: &str = "the answer names another charge";
const OTHER_KEY: &str = "the answer names another key";
const OTHER_KIND: &str = "the answer is about another kind of transaction";

type Read<T> = Result<T, &'static str>;

/// Which of our fields an answer contradicts, if that is why it has no meaning. Such an answer is no failure of the
/// network: the provider has booked something else than we asked for, or answers somebody else.
pub(super) fn mismatch(why: &str) -> Option<&'static str> {
    Some(match why {
        OTHER_REFERENCE => "reference",
        OTHER_AMOUNT => "amount",
        OTHER_TRANSACTION => "provider_id",
        OTHER_CHARGE => "charge",
        OTHER_KEY => "key",
        OTHER_KIND => "kind",
        _ => return None,
    })
}

/// Which way money went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To a key.
    Payment,
    /// Back to a payer.
    Refund,
}

/// What an answer must agree with.
pub(super) struct Expected<'a> {
    pub(super) reference: Reference,
    amount: Amount,
    /// The provider's id of the thing itself.
    id: Option<&'a ProviderId>,
    /// The provider's id of the charge that is refunded.
    charge_id: Option<&'a ProviderId>,
    /// The key that money is sent to.
    key: Option<&'a PixKey>,
    /// The answer is to a request that makes something, or to a question about our reference only, so that nothing else says whom
    /// it speaks of.
    must_name_reference: bool,
    /// What an answer may repeat and nobody may read.
    secret: Option<&'a str>,
}

impl<'a> Expected<'a> {
    /// An answer to a request that makes something.
    pub(super) const fn made(
        reference: Reference,
        amount: Amount,
        charge_id: Option<&'a ProviderId>,
    ) -> Self {
        // Whose answer it is, nothing else says: another one's would make two of ours stand on one payment.
        Self { reference, amount, id: None, charge_id, key: None, must_name_reference: true, secret: None }
    }

    /// An answer to a question.
    pub(super) const fn answer_to(inquiry: &'a Inquiry) -> Self {
        let id = inquiry.provider_id.as_ref();
        Self {
            reference: inquiry.reference,
            amount: inquiry.amount,
            id,
            charge_id: None,
            key: inquiry.key.as_ref(),
            must_name_reference: id.is_none(),
            secret: None,
        }
    }

    /// The same, with a secret that must not be shown.
    pub(super) const fn hiding(self, secret: Option<&'a str>) -> Self {
        Self { secret, ..self }
    }

    /// The same, to a question about our reference.
    pub(super) const fn naming_the_reference(self) -> Self {
        Self { must_name_reference: true, ..self }
    }

    /// The same, to be sent to this key.
    pub(super) const fn sent_to(self, key: &'a PixKey) -> Self {
        Self { key: Some(key), ..self }
    }

    fn check_reference(&self, told: &Told<'_>) -> Read<()> {
        match told.external_id.as_deref() {
            Some(named) if named == self.reference.to_string() => Ok(()),
            Some(_) => Err(OTHER_REFERENCE),
            None if self.must_name_reference => Err("the answer names no external_id"),
            None => Ok(()),
        }
    }

    fn check_amount(&self, told: &Told<'_>) -> Read<()> {
        match told.amount.map(reais).transpose()? {
            Some(amount) if amount == self.amount.cents() => Ok(()),
            Some(_) => Err(OTHER_AMOUNT),
            None => Err("the answer names no amount"),
        }
    }

    /// An answer need not tell the key, and may mask it; a whole one must be ours, however it is written.
    fn check_key(&self, told: &Told<'_>) -> Read<()> {
        #[derive(Deserialize)]
        struct ToldPayee<'a> {
            #[serde(borrow)]
            key: Option<&'a RawValue>,
        }
        let Some((ours, payee)) = self.key.zip(told.credit_party) else { return Ok(()) };
        // What is no object tells no key: an empty text, an empty array.
        if !is_object(payee.get()) {
            return Ok(());
        }
        // `false` is PHP's way to say none; digits are a key too when they come as a number.
        let named = object::<ToldPayee<'_>>(payee.get())?.key.map(RawValue::get);
        let named = named.filter(|raw| *raw != "false");
        // So is an empty array; and what is no text nor number names nothing that could be compared.
        let named = named.filter(|raw| !raw.starts_with(['[', '{', 't']));
        let named = named.map(|raw| serde_json::from_str(raw).unwrap_or_else(|_number| digits(ours, raw)));
        match named {
            Some(named) if named.is_empty() || named.contains('*') => Ok(()),
            Some(named) if PixKey::parse(ours.kind(), &named).ok().as_ref() != Some(ours) => Err(OTHER_KEY),
            _ => Ok(()),
        }
    }

    fn check_id(&self, id: &ProviderId) -> Read<()> {
        match self.id {
            Some(known) if known != id => Err(OTHER_TRANSACTION),
            _ => Ok(()),
        }
    }
}

/// A key that was told as a number, which has lost the zeros it begins with.
fn digits(ours: &PixKey, number: &str) -> String {
    let width = ours.as_str().len();
    let zeros = matches!(ours.kind(), PixKeyType::Cpf | PixKeyType::Cnpj);
    if zeros { format!("{number:0>width$}") } else { number.to_owned() }
}

/// A transaction as the provider tells it. Every answer of the contract is some part of this.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    status_code: Option<u16>,
    transaction_type: Option<String>,
    transaction_id: Option<String>,
    #[serde(rename = "external_id")]
    external_id: Option<String>,
    refund_id: Option<String>,
    status: Option<String>,
    #[serde(borrow)]
    amount: Option<&'a RawValue>,
    #[serde(borrow)]
    returned_amount: Option<&'a RawValue>,
    #[serde(borrow)]
    refunded_amount: Option<&'a RawValue>,
    qrcode: Option<String>,
    emvqrcps: Option<String>,
    end_to_end_id: Option<String>,
    date_approval: Option<String>,
    #[serde(borrow)]
    debit_party: Option<&'a RawValue>,
    #[serde(borrow)]
    credit_party: Option<&'a RawValue>,
    #[serde(borrow)]
    payments: Option<Vec<&'a RawValue>>,
    failure_code: Option<String>,
    failure_message: Option<String>,
    #[serde(borrow)]
    request_body: Option<&'a RawValue>,
}

/// One PIX received on a charge.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldPayment<'a> {
    end_to_end_id: Option<String>,
    status: Option<String>,
    #[serde(borrow)]
    amount: Option<&'a RawValue>,
    paid_at: Option<String>,
    date_approval: Option<String>,
    #[serde(borrow)]
    debit_party: Option<&'a RawValue>,
}

/// A charge that was made.
pub(super) fn ticket(text: &str, expected: &Expected<'_>) -> Read<Ticket> {
    let told = told(text)?;
    expected.check_reference(&told)?;
    expected.check_amount(&told)?;
    let provider_id = provider_id(told.transaction_id.as_deref())?;
    let qrcode = [&told.qrcode, &told.emvqrcps].into_iter().flatten().find(|code| !code.is_empty());
    let qrcode = qrcode.ok_or("the answer has no QR code")?;
    let qrcode =
        clean(qrcode, MAX_QR_CODE_CHARS, "qrcode").map_err(|_invalid| "the QR code can't be shown")?;
    Ok(Ticket { provider_id, qrcode, body: body(text, expected) })
}

/// What is known of a charge.
pub(super) fn charge(text: &str, expected: &Expected<'_>) -> Read<ChargeReport> {
    let told = told(text)?;
    check_kind(&told, "RECEIVEPIX")?;
    expected.check_reference(&told)?;
    let provider_id = provider_id(told.transaction_id.as_deref())?;
    expected.check_id(&provider_id)?;
    let (paid, canceled, unpaid) = match told.status.as_deref() {
        Some("PAID" | "REFUNDED") => (true, false, false),
        Some("CANCELED") => (false, true, false),
        Some("EXPIRED") => (false, false, false),
        Some("PENDING" | "FAILED") => (false, false, true),
        _ => return Err("the answer has no known status"),
    };
    let payments = match &told.payments {
        Some(list) => {
            expected.check_amount(&told)?;
            received(list)?
        }
        // Without a list there is one payment, and its amount is what was paid.
        None if paid => vec![only_payment(&told, &provider_id)?],
        None => Vec::new(),
    };
    if paid && payments.is_empty() {
        return Err("the charge is paid by no payment");
    }
    // Money comes in on a charge that has ended, and then shows; it doesn't on one that waits or never was.
    if unpaid && !payments.is_empty() {
        return Err("the charge is not paid, and has payments");
    }
    let refunded = refunded(&told, &payments)?;
    Ok(ChargeReport { provider_id, payments, refunded, canceled, body: body(text, expected) })
}

/// How much of the payments went back: what the answer says, else all of it when it says that it was refunded. More than was paid
/// is for the domain to judge: what was credited is gone all the same.
fn refunded(told: &Told<'_>, payments: &[Payment]) -> Read<Cents> {
    let mut paid = Cents::ZERO;
    for payment in payments {
        paid = paid.checked_add(payment.amount.cents()).ok_or("the payments add up to too much")?;
    }
    let whole = told.status.as_deref() == Some("REFUNDED");
    match told.refunded_amount.map(reais).transpose()? {
        Some(refunded) if paid.is_zero() && !refunded.is_zero() => Err("money went back, and none came in"),
        Some(refunded) if whole && refunded.is_zero() => Err("the money went back, and none went back"),
        Some(refunded) => Ok(refunded),
        None if whole => Ok(paid),
        None => Ok(Cents::ZERO),
    }
}

/// What is in our account, in centavos: a decimal number of reais, as a text or a number.
pub(super) fn balance(text: &str) -> Read<i64> {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        message: Inner<'a>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow)]
        balance: &'a RawValue,
    }
    let raw = object::<Outer<'_>>(text)?.message.balance.get();
    let told = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(raw);
    signed_cents(told).ok_or("the balance is not understood")
}

/// Reais with at most two decimals, below zero or not, as centavos.
fn signed_cents(text: &str) -> Option<i64> {
    let (is_below, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if digits.contains(['e', 'E']) {
        let cents = Amount::parse(digits).ok()?.cents().get();
        return Some(if is_below { -cents } else { cents });
    }
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "00"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 2 {
        return None;
    }
    let cents =
        whole.parse::<i64>().ok()?.checked_mul(100)?.checked_add(format!("{part:0<2}").parse().ok()?)?;
    Some(if is_below { -cents } else { cents })
}

/// What is known of a payment or refund.
pub(super) fn outgoing(text: &str, expected: &Expected<'_>, direction: Direction) -> Read<OutgoingReport> {
    let told = told(text)?;
    check_kind(
        &told,
        match direction {
            Direction::Payment => "PAYMENT",
            Direction::Refund => "REFUND",
        },
    )?;
    expected.check_reference(&told)?;
    expected.check_amount(&told)?;
    expected.check_key(&told)?;
    let own_id = match direction {
        Direction::Payment => told.transaction_id.as_deref(),
        // `transactionId` of a refund is the charge's.
        Direction::Refund => told.refund_id.as_deref(),
    };
    let provider_id = provider_id(own_id)?;
    expected.check_id(&provider_id)?;
    if let (Some(charge), Some(named)) = (expected.charge_id, told.transaction_id.as_deref())
        && charge.as_str() != named
    {
        return Err(OTHER_CHARGE);
    }
    let progress = progress(&told, expected, direction)?;
    let end_to_end_id = told.end_to_end_id.as_deref().filter(|id| match direction {
        Direction::Payment => EndToEndId::parse(id).is_ok(),
        Direction::Refund => ReturnId::parse(id).is_ok(),
    });
    let end_to_end_id = end_to_end_id.map(str::to_owned);
    Ok(OutgoingReport { provider_id, progress, end_to_end_id, body: body(text, expected) })
}

/// The whole answer, as it may be shown.
fn body(text: &str, expected: &Expected<'_>) -> ProviderBody {
    ProviderBody(hide(text, expected.secret))
}

/// A text of the provider without the secret, which it may repeat to us: it gets our callback URL with every request.
pub(super) fn hide(text: &str, secret: Option<&str>) -> String {
    match secret {
        Some(secret) => text.replace(secret, REDACTED),
        None => text.to_owned(),
    }
}

/// The status words of what goes out.
fn progress(told: &Told<'_>, expected: &Expected<'_>, direction: Direction) -> Read<Progress> {
    let amount = expected.amount;
    let returned = told.returned_amount.map(reais).transpose()?;
    let came_back = returned.filter(|returned| !returned.is_zero());
    match (told.status.as_deref(), direction) {
        (Some("PAID" | "COMPLETED" | "SETTLED"), Direction::Payment) => {
            Ok(came_back.map_or(Progress::Completed, Progress::Returned))
        }
        (Some("RETURNED"), Direction::Payment) => match (returned, came_back) {
            (None, _) => Ok(Progress::Returned(amount.cents())),
            (Some(_), Some(returned)) => Ok(Progress::Returned(returned)),
            (Some(_), None) => Err("the money came back, and none came back"),
        },
        // What is not done, and a refund, can't come back.
        _ if came_back.is_some() => Err("money came back that can't have"),
        (Some("PAID" | "COMPLETED" | "SETTLED" | "REFUNDED"), Direction::Refund) => Ok(Progress::Completed),
        (Some("PENDING" | "PROCESSING"), _) => Ok(Progress::Accepted),
        (Some("FAILED" | "REJECTED" | "CANCELED"), _) => {
            let shown = |text: &Option<String>| hide(text.as_deref().unwrap_or_default(), expected.secret);
            Ok(Progress::Failed {
                code: code_of(&shown(&told.failure_code)).unwrap_or_else(|| NO_FAILURE_CODE.to_owned()),
                message: message_of(&shown(&told.failure_message)),
            })
        }
        _ => Err("the answer has no known status"),
    }
}

/// Every PIX of the list that came in, in its order. One that has not, or will not, hides no other.
fn received(list: &[&RawValue]) -> Read<Vec<Payment>> {
    let mut payments: Vec<Payment> = Vec::new();
    for entry in list {
        let told: ToldPayment<'_> = object(entry.get())?;
        match told.status.as_deref() {
            None | Some("PAID" | "COMPLETED" | "SETTLED" | "REFUNDED") => {}
            Some("PENDING" | "PROCESSING" | "FAILED" | "REJECTED" | "CANCELED") => continue,
            Some(_) => return Err("a payment has no known status"),
        }
        let id = told.end_to_end_id.as_deref().unwrap_or_default();
        let key = if let Ok(id) = EndToEndId::parse(id) {
            ReceiptKey::EndToEnd(id)
        } else {
            // Money came in, whatever its name looks like.
            let id = ProviderId::parse(id).ok_or("a payment has no usable id")?;
            tracing::warn!("a payment has an end-to-end id of an unknown form");
            ReceiptKey::Transaction(id)
        };
        let amount = positive(told.amount)?;
        let paid_at = instant(told.paid_at.as_deref(), told.date_approval.as_deref())?;
        let payer = told.debit_party.map(|party| party_of(party.get())).unwrap_or_default();
        match payments.iter().find(|known| known.key == key) {
            Some(known) if known.amount != amount => return Err("one payment has two amounts"),
            Some(_) => {}
            None => payments.push(Payment { key, amount, paid_at, payer }),
        }
    }
    Ok(payments)
}

/// The payment of a provider that doesn't list them. Its key is the charge's id even when an end-to-end id is told: one
/// that is told later must not make it another payment.
fn only_payment(told: &Told<'_>, charge_id: &ProviderId) -> Read<Payment> {
    Ok(Payment {
        key: ReceiptKey::Transaction(charge_id.clone()),
        amount: positive(told.amount)?,
        paid_at: instant(None, told.date_approval.as_deref())?,
        payer: told.debit_party.map(|party| party_of(party.get())).unwrap_or_default(),
    })
}

/// The whole answer; what is under `requestBody`, if that is there.
fn told(text: &str) -> Read<Told<'_>> {
    let outer: Told<'_> = object(text)?;
    if outer.status_code.is_some_and(|status| status != 200) {
        return Err("the answer contradicts its own status");
    }
    let Some(inner) = outer.request_body else { return Ok(outer) };
    let inner: Told<'_> = object(inner.get())?;
    let agree = |outer: &Option<String>, inner: &Option<String>| outer.is_none() || outer == inner;
    let same_amount = match (outer.amount, inner.amount) {
        (Some(outer), Some(inner)) => reais(outer)? == reais(inner)?,
        (outer, _) => outer.is_none(),
    };
    if same_amount
        && agree(&outer.transaction_type, &inner.transaction_type)
        && agree(&outer.transaction_id, &inner.transaction_id)
        && agree(&outer.external_id, &inner.external_id)
        && agree(&outer.refund_id, &inner.refund_id)
        && agree(&outer.status, &inner.status)
    {
        return Ok(inner);
    }
    Err("the answer contradicts itself")
}

/// A JSON object with the known fields right and none of them twice.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Read<T> {
    if !is_object(text) {
        return Err("the answer is not a JSON object");
    }
    serde_json::from_str(text).map_err(|_error| "the answer is not understood")
}

fn check_kind(told: &Told<'_>, kind: &str) -> Read<()> {
    match told.transaction_type.as_deref() {
        Some(named) if named != kind => Err(OTHER_KIND),
        _ => Ok(()),
    }
}

fn provider_id(text: Option<&str>) -> Read<ProviderId> {
    text.and_then(ProviderId::parse).ok_or("the answer has no usable transaction id")
}

/// Reais, as a number or a numeric string; zero is fine.
fn reais(raw: &RawValue) -> Read<Cents> {
    let text = raw.get();
    let text = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    if matches!(text, "0" | "0.0" | "0.00") {
        return Ok(Cents::ZERO);
    }
    Amount::parse(text).map(Amount::cents).map_err(|_invalid| "an amount is not understood")
}

fn positive(raw: Option<&RawValue>) -> Read<Amount> {
    let cents = raw.map(reais).transpose()?.ok_or("an amount is missing")?;
    Amount::from_cents(cents.get()).map_err(|_invalid| "an amount is not understood")
}

/// RFC 3339, else the contract's local time.
fn instant(rfc3339: Option<&str>, local: Option<&str>) -> Read<Timestamp> {
    let micros = match (rfc3339, local) {
        (Some(text), _) => DateTime::parse_from_rfc3339(text).ok().map(|at| at.timestamp_micros()),
        (None, Some(text)) => local_micros(text),
        (None, None) => None,
    };
    micros.map(Timestamp::from_micros).ok_or("the time of a payment is not understood")
}

fn local_micros(text: &str) -> Option<i64> {
    let zone = FixedOffset::west_opt(SAO_PAULO_OFFSET_SECONDS)?;
    let local = NaiveDateTime::parse_from_str(text, LOCAL_TIME).ok()?;
    Some(local.and_local_timezone(zone).single()?.timestamp_micros())
}

/// Who paid, as far as it can be understood: a payment counts whatever its payer is called.
fn party_of(text: &str) -> Party {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToldParty {
        name: Option<String>,
        document: Option<String>,
        tax_id: Option<String>,
    }
    let Ok(told) = object::<ToldParty>(text) else { return Party::default() };
    let document = told.document.filter(|text| !text.is_empty()).or(told.tax_id);
    Party {
        name: told.name.and_then(|name| PersonName::parse(&name).ok()),
        document: document.and_then(|document| Document::parse(&document).ok()),
    }
}

#[cfg(test)]
mod tests;
