//! The settlement provider as a port: where the cash moves.
//!
//! Its errors say what is *known*, since all that matters after a call is whether money may have moved.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;
use uuid::Uuid;

use crate::end_to_end::EndToEndId;
use crate::ids::{self, ResourceRef};
use crate::invalid::Invalid;
use crate::money::{Amount, Cents};
use crate::party::{Document, PixKey};
use crate::text::{Description, Email, PayerQuestion, PersonName};
use crate::time::Timestamp;

/// The longest body of a provider that is kept, in bytes.
pub const MAX_PROVIDER_BODY_BYTES: usize = 256 * 1024;

/// Our name for an operation at the provider, 32 hexadecimal digits: what of the record's id says nothing of when it was
/// made, when that is bound to the request's handle, else the whole id. It is a pure function of the record, and of the
/// handle: a request repeated after lost memory carries the same one. It is the provider's idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reference(pub Uuid);

impl Reference {
    /// That of the record with this id.
    pub fn of(id: Uuid) -> Self {
        Self(ids::timeless(id).unwrap_or(id))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// The provider's name for an operation: 1 to 128 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderId(String);

impl ProviderId {
    /// Reads a provider's id.
    pub fn parse(text: &str) -> Option<Self> {
        Self::fits(text).then(|| Self(text.to_owned()))
    }

    fn fits(text: &str) -> bool {
        // Every record that is read has one: all of it is looked at at once.
        let is_graphic = text.bytes().fold(true, |graphic, byte| graphic & byte.is_ascii_graphic());
        (1..=128).contains(&text.len()) && is_graphic
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// As [`ProviderId::parse`], of a text that is kept.
impl TryFrom<String> for ProviderId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        let refuse = || Invalid::format("the id of a provider must have 1 to 128 visible ASCII characters");
        Self::fits(&text).then_some(Self(text)).ok_or_else(refuse)
    }
}

/// What the provider answered, as the text of one JSON object; passed through to v2 clients. Redacted in `Debug`, since
/// it names people.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ProviderBody(pub String);

impl ProviderBody {
    /// What stands where one stood that named an erased person.
    pub fn erased() -> Self {
        Self("{}".to_owned())
    }
}

impl fmt::Debug for ProviderBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProviderBody({} bytes)", self.0.len())
    }
}

/// A person or firm, as far as known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Party {
    /// Its name.
    pub name: Option<PersonName>,
    /// Its CPF or CNPJ.
    pub document: Option<Document>,
}

/// A charge to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeOrder {
    /// Our name for it.
    pub reference: Reference,
    /// The record it is for, so that an adapter can make a callback URL that names it.
    pub resource: ResourceRef,
    /// How much.
    pub amount: Amount,
    /// Who is to pay.
    pub payer: Party,
    /// The payer's e-mail.
    pub payer_email: Option<Email>,
    /// What the payer is asked.
    pub payer_question: Option<PayerQuestion>,
    /// How long the QR code lives.
    pub expires_in: Duration,
}

/// A charge as the provider made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The provider's name for it.
    pub provider_id: ProviderId,
    /// The BR Code.
    pub qrcode: String,
    /// The whole answer.
    pub body: ProviderBody,
}

/// Money to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentOrder {
    /// Our name for it.
    pub reference: Reference,
    /// The record it is for.
    pub resource: ResourceRef,
    /// How much.
    pub amount: Amount,
    /// To which key.
    pub key: PixKey,
    /// To whom.
    pub payee: Party,
    /// What for.
    pub description: Option<Description>,
}

impl PaymentOrder {
    /// A number of 128 bits that stands for all that is sent: kept with the evidence, so that what was meant can be
    /// compared with what the provider has, without keeping it twice.
    pub fn digest(&self) -> Uuid {
        let (name, document) = party_texts(&self.payee);
        digest(&[
            &self.reference.to_string(),
            &self.amount.cents().get().to_string(),
            self.key.kind().as_str(),
            self.key.as_str(),
            name,
            document,
            self.description.as_ref().map_or("", Description::as_str),
        ])
    }
}

impl RefundOrder {
    /// As of a payment.
    pub fn digest(&self) -> Uuid {
        digest(&[
            &self.reference.to_string(),
            &self.amount.cents().get().to_string(),
            self.charge_provider_id.as_str(),
            self.description.as_ref().map_or("", Description::as_str),
        ])
    }
}

fn party_texts(party: &Party) -> (&str, &str) {
    (party.name.as_ref().map_or("", PersonName::as_str), party.document.as_ref().map_or("", Document::as_str))
}

/// A name-based UUID (RFC 9562, version 5) over texts that are told apart by a NUL, which none of them has.
pub(crate) fn digest(texts: &[&str]) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, texts.join("\0").as_bytes())
}

/// Money of a charge to be sent back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundOrder {
    /// Our name for it.
    pub reference: Reference,
    /// The record it is for.
    pub resource: ResourceRef,
    /// The provider's name for the charge.
    pub charge_provider_id: ProviderId,
    /// How much.
    pub amount: Amount,
    /// What for.
    pub description: Option<Description>,
}

/// What makes an incoming PIX one and the same, for ever.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReceiptKey {
    /// Its end-to-end id.
    EndToEnd(EndToEndId),
    /// Another id of the provider, of the payment or of its charge, when it doesn't tell the end-to-end id: then one payment of a charge
    /// is credited, and a further one makes a finding (`unidentified_payment`).
    Transaction(ProviderId),
}

impl ReceiptKey {
    /// The text it is unique by: `E…`, or `txn:` and the provider's id.
    pub fn to_text(&self) -> String {
        match self {
            Self::EndToEnd(id) => id.as_str().to_owned(),
            Self::Transaction(id) => format!("txn:{}", id.as_str()),
        }
    }

    /// The end-to-end id, when known.
    pub const fn end_to_end_id(&self) -> Option<&EndToEndId> {
        match self {
            Self::EndToEnd(id) => Some(id),
            Self::Transaction(_) => None,
        }
    }
}

/// A PIX that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Its identity.
    pub key: ReceiptKey,
    /// How much.
    pub amount: Amount,
    /// When it was settled.
    pub paid_at: Timestamp,
    /// Who paid.
    pub payer: Party,
}

/// What the provider says of a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeReport {
    /// The provider's name for it.
    pub provider_id: ProviderId,
    /// Every PIX received on it, in the provider's order.
    pub payments: Vec<Payment>,
    /// How much of the payments the provider says went back so far, in all, whoever sent it back: our own refunds are part of it.
    pub refunded: Cents,
    /// Whether the provider has removed it.
    pub canceled: bool,
    /// The whole answer.
    pub body: ProviderBody,
}

/// How far an outgoing movement is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Taken, not settled.
    Accepted,
    /// The money has left.
    Completed,
    /// It did not and will not happen.
    Failed {
        /// The provider's code.
        code: String,
        /// The provider's reason.
        message: String,
    },
    /// It was completed, and this much of it has come back so far, in all: not what came back this time.
    Returned(Cents),
}

/// What the provider says of an outgoing movement (a withdrawal or a refund). An adapter MUST have checked that it
/// speaks of our reference or of the provider's id we know, and of our amount; otherwise it is
/// [`ProviderError::Mismatch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingReport {
    /// The provider's name for it.
    pub provider_id: ProviderId,
    /// How far it is.
    pub progress: Progress,
    /// The end-to-end id (withdrawal) or return id (refund), when known.
    pub end_to_end_id: Option<String>,
    /// The whole answer.
    pub body: ProviderBody,
}

/// What is known after a call to the provider that didn't do its work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProviderError {
    /// It did not happen and will not: a documented, final refusal.
    #[error("the provider refused ({code})")]
    Rejected {
        /// The provider's code.
        code: String,
        /// The provider's reason.
        message: String,
        /// The whole answer.
        body: ProviderBody,
    },
    /// Nothing was sent, and an adapter MUST be sure of it: once a call may have been read, whatever goes wrong after that is
    /// [`Self::Indeterminate`], an answer that can't be understood too. What is `Unavailable` is sent again, or given back.
    #[error("the provider can't be reached: {0}")]
    Unavailable(String),
    /// It may have happened.
    #[error("the provider's answer is not known: {0}")]
    Indeterminate(String),
    /// It may have happened: the answer speaks of something else than was asked, in this field. Never a value.
    #[error("the provider's answer has another {0} than was asked")]
    Mismatch(&'static str),
}

/// What became of a charge that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It can't be paid any more.
    Removed,
    /// The provider can't remove charges: whoever has the code can pay it until it ends there.
    NotOffered,
}

/// Which operation is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// Our name for it.
    pub reference: Reference,
    /// The provider's, when we know it.
    pub provider_id: Option<ProviderId>,
    /// The amount it must have.
    pub amount: Amount,
    /// To which key it was sent, when the answer must be about that: whoever asks about a payment that it has no record of.
    pub key: Option<PixKey>,
}

/// The settlement provider.
///
/// An adapter MUST send `reference` as the provider's idempotency key, MUST NOT send anything twice by itself (no
/// redirects, no automatic retry of a call whose request may have been read), MUST bound the time and the size of each
/// answer, and MUST classify every answer it doesn't know as [`ProviderError::Indeterminate`].
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait SettlementProvider: Send + Sync {
    /// Makes a charge. Repeating it with the same reference MUST NOT make another.
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError>;

    /// Sends money. Called once a record.
    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError>;

    /// Sends money of a charge back. Called once a record.
    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError>;

    /// Asks about a charge; `None` when the provider doesn't know it.
    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError>;

    /// Asks about a payment that was sent; `None` when the provider doesn't know it.
    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError>;

    /// Asks about a refund; `None` when the provider doesn't know it.
    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError>;

    /// Removes a charge, so that nobody can pay it any more. Repeating it changes nothing. One that was paid is
    /// [`ProviderError::Rejected`].
    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError>;

    /// What is in our account at the provider now, in centavos, below zero when it is overdrawn; `None` when the provider has no
    /// such call.
    async fn balance(&self) -> Result<Option<i64>, ProviderError>;

    /// How long after sending "not known" proves that the provider never took it; `None` when it never does.
    fn not_found_is_proof_after(&self) -> Option<Duration>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_the_id_without_hyphens() {
        let id = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff);
        assert_eq!(Reference(id).to_string(), "019900000000700080000000000000ff");
    }

    #[test]
    fn provider_ids_are_short_visible_ascii() {
        assert!(ProviderId::parse("abc-123").is_some());
        for text in ["", "a b", "é", "a\n", &"x".repeat(129)] {
            assert!(ProviderId::parse(text).is_none());
            assert!(ProviderId::try_from(text.to_owned()).is_err());
        }
        assert_eq!(ProviderId::try_from("abc-123".to_owned()).ok(), ProviderId::parse("abc-123"));
    }

    #[test]
    fn a_provider_body_is_not_shown_by_debug() {
        assert_eq!(format!("{:?}", ProviderBody("{\"name\":\"Ana\"}".into())), "ProviderBody(14 bytes)");
    }
}
