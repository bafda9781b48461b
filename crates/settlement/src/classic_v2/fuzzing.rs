//! What holds for any answer at all: the entry function of a fuzz target in `tests/fuzz`, and no part of the interface.
//!
//! The answers are read a second time, field by field, by another reader of JSON.

use std::sync::LazyLock;

use chrono::DateTime;
use pix_domain::money::{Amount, Cents};
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::provider::{Inquiry, Progress, ProviderError, ProviderId, Reference};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::ClassicV2Provider;
use super::read::{self, Direction, Expected};
use crate::classify::{Operation, is_object};
use crate::config::ClassicV2Config;
use crate::http::Answer;

const REFERENCE: Reference = Reference(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff));
const AMOUNT_CENTS: i64 = 1_550;
const OWN_ID: &str = "t1";
const CHARGE_ID: &str = "c1";
const KEY: &str = "+5511987654321";
const SECRET: &str = "0f3a5b7c9d1e";

/// What is asked with, made once: building a client costs more than reading a thousand answers.
struct Asker {
    provider: ClassicV2Provider,
    amount: Amount,
    own_id: ProviderId,
    charge_id: ProviderId,
    key: PixKey,
}

static ASKER: LazyLock<Option<Asker>> = LazyLock::new(|| {
    let mut config = ClassicV2Config::new("http://127.0.0.1:9", "client", "client-secret".into());
    config.callback_base = Some(format!("https://pix.example.com/callbacks/{SECRET}"));
    Some(Asker {
        provider: ClassicV2Provider::new(config).ok()?,
        amount: Amount::from_cents(AMOUNT_CENTS).ok()?,
        own_id: ProviderId::parse(OWN_ID)?,
        charge_id: ProviderId::parse(CHARGE_ID)?,
        key: PixKey::parse(PixKeyType::Phone, KEY).ok()?,
    })
});

/// An answer: a first line such as `200 json`, and a body. Each operation hears it. What is taken as done, or as known of
/// us, names nothing of anybody else; only the contract's refusals refuse; and nothing shows our secret.
///
/// # Panics
///
/// When a law is broken.
pub fn provider_answers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (head, body) = text.split_once('\n').unwrap_or_default();
    let (status, kind) = head.split_once(' ').unwrap_or((head, ""));
    let (status, json, body) = match status.parse() {
        Ok(status) => (status, kind == "json", body),
        Err(_none) => (200, true, &*text),
    };
    let answer = Answer { status, json: json.then(|| body.to_owned()) };
    let Some(asker) = ASKER.as_ref() else { panic!("the settings are wrong") };
    asker.hears(&answer);
}

impl Asker {
    fn hears(&self, answer: &Answer) {
        let made = |charge| Expected::made(REFERENCE, self.amount, charge).hiding(Some(SECRET));
        if let Some(text) = self.judged(Operation::CreateCharge, answer) {
            self.ticket(&text, &made(None));
        }
        if let Some(text) = self.judged(Operation::SendPayment, answer) {
            self.outgoing(&text, &made(None).sent_to(&self.key), Direction::Payment, Known::Nothing);
        }
        if let Some(text) = self.judged(Operation::Refund, answer) {
            self.outgoing(&text, &made(Some(&self.charge_id)), Direction::Refund, Known::Charge);
        }
        for known in [Known::Own, Known::Reference] {
            let provider_id = Some(self.own_id.clone()).filter(|_| known == Known::Own);
            let inquiry = Inquiry { reference: REFERENCE, provider_id, amount: self.amount, key: None };
            let expected = || Expected::answer_to(&inquiry).hiding(Some(SECRET));
            if let Some(text) = self.judged(Operation::ConsultCharge, answer) {
                charge(&text, &expected(), known);
            }
            if let Some(text) = self.judged(Operation::ConsultPayment, answer) {
                self.outgoing(&text, &expected(), Direction::Payment, known);
            }
            if let Some(text) = self.judged(Operation::ConsultRefund, answer) {
                self.outgoing(&text, &expected(), Direction::Refund, known);
            }
        }
    }

    /// What the table says, held against the statuses that may prove it.
    fn judged(&self, operation: Operation, answer: &Answer) -> Option<String> {
        let status = answer.status;
        let is_send = matches!(operation, Operation::SendPayment | Operation::Refund);
        let is_charge = operation == Operation::CreateCharge;
        match self.provider.judge(operation, REFERENCE, Ok(answer.clone())) {
            Ok(Some(text)) => {
                assert_eq!((status, Some(&text)), (200, answer.json.as_ref()));
                assert!(is_object(&text), "{text:?}");
                Some(text)
            }
            Ok(None) => {
                assert!(status == 404 && !is_send && !is_charge, "{operation:?} is not known after {status}");
                None
            }
            Err(ProviderError::Rejected { code, message, body }) => {
                let final_one =
                    (is_send && status == 406) || (is_charge && [400, 406, 422].contains(&status));
                assert!(final_one, "{operation:?} is refused by {status}");
                assert!(!code.is_empty() && !message.is_empty() && !message.chars().any(char::is_control));
                hides(&[&code, &message, &body.0]);
                None
            }
            Err(ProviderError::Unavailable(_)) => {
                let in_form = answer.json.as_deref().is_some_and(is_object);
                let undone =
                    (status == 401 && (in_form || !is_send)) || (is_charge && [429, 503].contains(&status));
                assert!(undone, "{operation:?} did not happen, by {status}");
                None
            }
            Err(ProviderError::Indeterminate(why)) => {
                hides(&[&why]);
                None
            }
            Err(ProviderError::Mismatch(_)) => panic!("nothing was read yet"),
        }
    }

    fn ticket(&self, text: &str, expected: &Expected<'_>) {
        let Ok(ticket) = read::ticket(text, expected) else { return };
        hides(&[&ticket.body.0]);
        assert!(!ticket.qrcode.is_empty(), "{text:?}");
        let Some(told) = told(text) else { return };
        names_us(&told, Known::Nothing, text);
        self.names_the_amount(&told, text);
        assert_eq!(field(&told, "transactionId"), Some(ticket.provider_id.as_str()), "{text:?}");
    }

    fn outgoing(&self, text: &str, expected: &Expected<'_>, direction: Direction, known: Known) {
        let Ok(report) = read::outgoing(text, expected, direction) else { return };
        hides(&[&report.body.0]);
        if let Progress::Failed { code, message } = &report.progress {
            hides(&[code, message]);
        }
        let Some(told) = told(text) else { return };
        names_us(&told, known, text);
        self.names_the_amount(&told, text);
        let (id, kind) = match direction {
            Direction::Payment => ("transactionId", "PAYMENT"),
            Direction::Refund => ("refundId", "REFUND"),
        };
        assert_eq!(field(&told, id), Some(report.provider_id.as_str()), "{text:?}");
        assert!(known != Known::Own || report.provider_id == self.own_id, "{text:?}");
        assert!(field(&told, "transactionType").is_none_or(|named| named == kind), "{text:?}");
        if known == Known::Charge {
            let named = field(&told, "transactionId");
            assert!(named.is_none_or(|named| named == CHARGE_ID), "{text:?} is about another charge");
        }
        if known == Known::Nothing {
            let payee = told.get("creditParty").and_then(|payee| payee.get("key")).and_then(Value::as_str);
            let ours = |key: &str| PixKey::parse(PixKeyType::Phone, key).as_ref() == Ok(&self.key);
            let fits = payee.is_none_or(|key| key.is_empty() || key.contains('*') || ours(key));
            assert!(fits, "{text:?} was sent to another key");
        }
        let status = field(&told, "status").unwrap_or_default();
        let fits = match report.progress {
            Progress::Completed => matches!(status, "PAID" | "COMPLETED" | "SETTLED" | "REFUNDED"),
            Progress::Returned(cents) => {
                let all = cents <= self.amount.cents() && !cents.is_zero();
                direction == Direction::Payment && all
            }
            Progress::Failed { .. } => matches!(status, "FAILED" | "REJECTED" | "CANCELED"),
            Progress::Accepted => matches!(status, "PENDING" | "PROCESSING"),
        };
        assert!(fits, "{text:?} is taken for {:?}", report.progress);
    }

    fn names_the_amount(&self, told: &Map<String, Value>, text: &str) {
        let named = match told.get("amount") {
            Some(Value::String(text)) => Amount::parse(text).ok(),
            // Of many digits and an exponent the float here says less than the digits do.
            Some(Value::Number(number)) => Amount::parse(&number.to_string()).ok().or(Some(self.amount)),
            _ => None,
        };
        assert_eq!(named, Some(self.amount), "{text:?}");
    }
}

/// What of the transaction is known to whoever asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It is being made.
    Nothing,
    /// It is being made, of that charge.
    Charge,
    /// The provider's id of it.
    Own,
    /// Our reference alone.
    Reference,
}

fn charge(text: &str, expected: &Expected<'_>, known: Known) {
    let Ok(report) = read::charge(text, expected) else { return };
    hides(&[&report.body.0]);
    let mut paid = Cents::ZERO;
    for (place, payment) in report.payments.iter().enumerate() {
        paid = paid.checked_add(payment.amount.cents()).unwrap_or_default();
        let earlier = report.payments.iter().take(place);
        assert!(earlier.filter(|earlier| earlier.key == payment.key).count() == 0, "{text:?} pays twice");
        let at = DateTime::from_timestamp_micros(payment.paid_at.micros());
        assert!(at.is_some(), "{text:?} was paid at a time that can't be written");
    }
    assert!(report.refunded <= paid, "{text:?} gives more back than was paid");
    let Some(told) = told(text) else { return };
    names_us(&told, known, text);
    assert_eq!(report.canceled, field(&told, "status") == Some("CANCELED"), "{text:?}");
    assert_eq!(field(&told, "transactionId"), Some(report.provider_id.as_str()), "{text:?}");
    assert!(known != Known::Own || report.provider_id.as_str() == OWN_ID, "{text:?}");
    assert!(field(&told, "transactionType").is_none_or(|named| named == "RECEIVEPIX"), "{text:?}");
}

/// It names our reference; or nobody's, where something else says that it is about us.
fn names_us(told: &Map<String, Value>, known: Known, text: &str) {
    match field(told, "external_id") {
        Some(named) => assert_eq!(named, REFERENCE.to_string(), "{text:?}"),
        None => assert!(known != Known::Reference, "{text:?} could be about anybody"),
    }
}

/// The fields that count, as another reader sees them; `None` for what that can't read.
fn told(text: &str) -> Option<Map<String, Value>> {
    let Ok(Value::Object(outer)) = serde_json::from_str(text) else { return None };
    match outer.get("requestBody") {
        None | Some(Value::Null) => Some(outer),
        Some(inner) => inner.as_object().cloned(),
    }
}

fn field<'a>(told: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    told.get(name).and_then(Value::as_str)
}

fn hides(texts: &[&str]) {
    for text in texts {
        assert!(!text.contains(SECRET), "{text:?} shows the secret of callbacks");
    }
}
