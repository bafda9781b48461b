//! What is sent: the bodies of the classic v2 contract. It owns their names and forms, and must never know what comes
//! back.

use pix_domain::money::{Amount, Cents};
use pix_domain::party::Document;
use pix_domain::provider::{ChargeOrder, Inquiry, PaymentOrder, RefundOrder};
use pix_domain::text::{Description, Email, PayerQuestion, PersonName};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// An amount as a JSON number in reais with its exact digits.
pub(super) struct Reais(Cents);

impl From<Amount> for Reais {
    fn from(amount: Amount) -> Self {
        Self(amount.cents())
    }
}

impl Serialize for Reais {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.plain()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// `POST /v2/pix/qrcode`.
#[derive(Serialize)]
pub(super) struct ChargeBody<'a> {
    amount: Reais,
    external_id: String,
    payer: Payer<'a>,
    #[serde(rename = "payerQuestion", skip_serializing_if = "Option::is_none")]
    payer_question: Option<&'a str>,
    #[serde(rename = "postbackUrl", skip_serializing_if = "Option::is_none")]
    postback_url: Option<&'a str>,
    /// Seconds.
    expiration: u64,
}

#[derive(Serialize)]
struct Payer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
}

impl<'a> ChargeBody<'a> {
    pub(super) fn of(order: &'a ChargeOrder, postback_url: Option<&'a str>) -> Self {
        Self {
            amount: order.amount.into(),
            external_id: order.reference.to_string(),
            payer: Payer {
                name: order.payer.name.as_ref().map(PersonName::as_str),
                document: order.payer.document.as_ref().map(Document::as_str),
                email: order.payer_email.as_ref().map(Email::as_str),
            },
            payer_question: order.payer_question.as_ref().map(PayerQuestion::as_str),
            postback_url,
            expiration: order.expires_in.as_secs(),
        }
    }
}

/// `POST /v2/balance`: an empty object.
#[derive(Serialize)]
pub(super) struct NoBody {}

/// `POST /v2/pix/payment`.
#[derive(Serialize)]
pub(super) struct PaymentBody<'a> {
    amount: Reais,
    external_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(rename = "postbackUrl", skip_serializing_if = "Option::is_none")]
    postback_url: Option<&'a str>,
    #[serde(rename = "creditParty")]
    credit_party: CreditParty<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CreditParty<'a> {
    /// May be empty.
    name: &'a str,
    key_type: &'static str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tax_id: Option<&'a str>,
}

impl<'a> PaymentBody<'a> {
    pub(super) fn of(order: &'a PaymentOrder, postback_url: Option<&'a str>) -> Self {
        Self {
            amount: order.amount.into(),
            external_id: order.reference.to_string(),
            description: order.description.as_ref().map(Description::as_str),
            postback_url,
            credit_party: CreditParty {
                name: order.payee.name.as_ref().map_or("", PersonName::as_str),
                key_type: order.key.kind().as_str(),
                key: order.key.as_str(),
                tax_id: order.payee.document.as_ref().map(Document::as_str),
            },
        }
    }
}

/// `POST /v2/pix/refund`.
#[derive(Serialize)]
pub(super) struct RefundBody<'a> {
    pix_id: &'a str,
    amount: Reais,
    external_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(rename = "postbackUrl", skip_serializing_if = "Option::is_none")]
    postback_url: Option<&'a str>,
}

impl<'a> RefundBody<'a> {
    pub(super) fn of(order: &'a RefundOrder, postback_url: Option<&'a str>) -> Self {
        Self {
            pix_id: order.charge_provider_id.as_str(),
            amount: order.amount.into(),
            external_id: order.reference.to_string(),
            description: order.description.as_ref().map(Description::as_str),
            postback_url,
        }
    }
}

/// `POST /v2/consult-transaction`: by the provider's id if we know it, else by our reference.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ConsultBody<'a> {
    ById { pix_id: &'a str },
    ByReference { external_id: String },
}

impl<'a> ConsultBody<'a> {
    pub(super) fn of(inquiry: &'a Inquiry) -> Self {
        match &inquiry.provider_id {
            Some(id) => Self::ById { pix_id: id.as_str() },
            None => Self::by_reference(inquiry),
        }
    }

    pub(super) fn by_reference(inquiry: &Inquiry) -> Self {
        Self::ByReference { external_id: inquiry.reference.to_string() }
    }
}
