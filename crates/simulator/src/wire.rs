//! What travels: bodies of the classic v2 contract and of the control API. It owns their names and forms, and
//! must never know what they cause.

use std::fmt;

use actix_web::{
    HttpResponse, ResponseError,
    http::{
        StatusCode,
        header::{CONTENT_TYPE, WWW_AUTHENTICATE},
    },
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Visitor},
};
use serde_json::value::RawValue;

use crate::{log::LogParty, money::Amount};

/// What a client may call its transaction (1–120 visible characters).
const MAX_REFERENCE: usize = 120;
const APPLICATION_JSON: &str = "application/json";

/// A request that is refused, and had no effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(crate) fn malformed() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_request", "the body is not JSON")
    }

    pub(crate) fn unauthorized(code: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, "Unauthorized")
    }

    pub(crate) fn not_found(message: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// A final refusal of the business: the status production clients read as such.
    pub(crate) fn rejected(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, code, message)
    }

    pub(crate) fn conflict(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    pub(crate) fn unavailable(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "provider_unavailable", message)
    }

    pub(crate) fn internal(message: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// An error of the contract.
    pub(crate) fn render(status: StatusCode, code: &str, message: &str) -> HttpResponse {
        let mut response = HttpResponse::build(status);
        if status == StatusCode::UNAUTHORIZED {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        response.json(ErrorBody { status_code: status.as_u16(), message, code })
    }

    /// The same as an answer, so that it can be spoiled like one.
    pub(crate) fn into_answer(self) -> Answer {
        let body = ErrorBody { status_code: self.status.as_u16(), message: &self.message, code: self.code };
        Answer { status: self.status, body: serde_json::to_string(&body).unwrap_or_default() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code)
    }
}

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        Self::render(self.status, self.code, &self.message)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorBody<'a> {
    status_code: u16,
    message: &'a str,
    code: &'a str,
}

/// A body that is ready to go out: rendered, and the effect it tells of durable.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
}

impl Answer {
    /// 200 with `body`.
    pub(crate) fn ok(body: &impl Serialize) -> Result<Self, Refusal> {
        Ok(Self { status: StatusCode::OK, body: render(body)? })
    }
}

impl From<Answer> for HttpResponse {
    fn from(answer: Answer) -> Self {
        Self::build(answer.status).insert_header((CONTENT_TYPE, APPLICATION_JSON)).body(answer.body)
    }
}

pub(crate) fn render(body: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(body).map_err(|error| Refusal::internal(&error.to_string()))
}

/// Reads a JSON body whatever its content type says; an empty one reads as `{}`.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(or_empty(bytes)).map_err(|error| {
        if error.is_data() {
            Refusal::invalid("validation_failed", "a field is missing or of the wrong type")
        } else {
            Refusal::malformed()
        }
    })
}

/// The body, or `{}` for an empty one.
pub(crate) fn or_empty(bytes: &[u8]) -> &[u8] {
    if bytes.trim_ascii().is_empty() { b"{}" } else { bytes }
}

/// Reads a JSON body and says what is wrong with it.
pub(crate) fn read_strictly<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        let status = if error.is_data() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::BAD_REQUEST };
        Refusal::new(status, "invalid_request", error.to_string())
    })
}

/// A client's own id: text, or an integer that is read as text.
#[derive(Clone)]
pub(crate) struct Reference(pub(crate) String);

impl Reference {
    /// The text of it, empty when there is none.
    pub(crate) fn text(reference: Option<&Self>) -> Result<String, Refusal> {
        let text = reference.map_or("", |reference| reference.0.as_str());
        if text.chars().count() > MAX_REFERENCE || text.chars().any(char::is_control) {
            return Err(Refusal::invalid(
                "validation_failed",
                "external_id must be 1 to 120 visible characters",
            ));
        }
        Ok(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrInteger;
        impl Visitor<'_> for TextOrInteger {
            type Value = Reference;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text or an integer")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Reference, E> {
                Ok(Reference(text.to_owned()))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Reference, E> {
                Ok(Reference(number.to_string()))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Reference, E> {
                Ok(Reference(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrInteger)
    }
}

/// A name and a CPF or CNPJ.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PartyBody {
    pub(crate) name: Option<String>,
    pub(crate) document: Option<String>,
}

impl From<PartyBody> for LogParty {
    fn from(body: PartyBody) -> Self {
        Self { name: body.name.unwrap_or_default(), document: body.document.unwrap_or_default() }
    }
}

/// `POST /v2/oauth/token`, when the credentials don't come by HTTP Basic.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenRequest {
    #[serde(alias = "public_id")]
    pub(crate) client_id: String,
    #[serde(alias = "secret")]
    pub(crate) client_secret: String,
}

#[derive(Serialize)]
pub(crate) struct TokenAnswer<'a> {
    pub(crate) access_token: &'a str,
    pub(crate) token_type: &'static str,
    pub(crate) expires_in: u64,
}

/// `POST /v2/pix/qrcode`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ChargeRequest {
    pub(crate) amount: Option<Box<RawValue>>,
    #[serde(rename = "external_id")]
    pub(crate) external_id: Option<Reference>,
    pub(crate) payer: Option<PartyBody>,
    pub(crate) payer_question: Option<String>,
    pub(crate) postback_url: Option<String>,
    pub(crate) expiration: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct Calendar {
    pub(crate) expiration: u32,
    #[serde(rename = "dueDate")]
    pub(crate) due_date: String,
}

#[derive(Serialize)]
pub(crate) struct ChargeAnswer<'a> {
    #[serde(rename = "transactionId")]
    pub(crate) transaction_id: &'a str,
    pub(crate) external_id: &'a str,
    pub(crate) status: &'static str,
    pub(crate) amount: Amount,
    pub(crate) calendar: Calendar,
    pub(crate) debtor: &'a LogParty,
    pub(crate) qrcode: String,
}

/// `POST /v2/pix/payment`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PaymentRequest {
    pub(crate) amount: Option<Box<RawValue>>,
    #[serde(rename = "external_id")]
    pub(crate) external_id: Option<Reference>,
    pub(crate) description: Option<String>,
    pub(crate) postback_url: Option<String>,
    pub(crate) credit_party: Option<CreditPartyBody>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CreditPartyBody {
    pub(crate) name: Option<String>,
    pub(crate) key_type: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) tax_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaymentAnswer<'a> {
    pub(crate) status_code: u16,
    pub(crate) message: &'static str,
    pub(crate) transaction_id: &'a str,
    #[serde(rename = "external_id")]
    pub(crate) external_id: &'a str,
    pub(crate) status: &'static str,
    pub(crate) amount: Amount,
    pub(crate) end_to_end_id: &'a str,
}

/// `POST /v2/pix/refund`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RefundRequest {
    #[serde(alias = "pix_Id")]
    pub(crate) pix_id: String,
    pub(crate) amount: Option<Box<RawValue>>,
    pub(crate) description: Option<String>,
    pub(crate) external_id: Option<Reference>,
    #[serde(rename = "postbackUrl")]
    pub(crate) postback_url: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefundAnswer<'a> {
    pub(crate) status_code: u16,
    pub(crate) message: &'static str,
    pub(crate) transaction_id: &'a str,
    pub(crate) refund_id: &'a str,
    #[serde(rename = "external_id")]
    pub(crate) external_id: &'a str,
    pub(crate) amount: Amount,
    pub(crate) status: &'static str,
    pub(crate) end_to_end_id: &'a str,
}

/// `POST /v2/consult-transaction`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConsultRequest {
    #[serde(alias = "pix_Id")]
    pub(crate) pix_id: Option<String>,
    pub(crate) external_id: Option<Reference>,
    #[serde(rename = "transactionType")]
    pub(crate) transaction_type: Option<Kind>,
}

/// The three things a client can ask for, each with its own space of `external_id`s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Kind {
    #[serde(rename = "RECEIVEPIX")]
    Charge,
    #[serde(rename = "PAYMENT")]
    Payment,
    #[serde(rename = "REFUND")]
    Refund,
}

/// A transaction as `consult-transaction` and callbacks tell it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transaction {
    #[serde(rename = "transactionType")]
    pub(crate) kind: Kind,
    #[serde(rename = "transactionId")]
    pub(crate) id: String,
    #[serde(rename = "external_id")]
    pub(crate) external_id: String,
    pub(crate) amount: Amount,
    pub(crate) payment_type: &'static str,
    pub(crate) status: &'static str,
    pub(crate) date_approval: Option<String>,
    pub(crate) end_to_end_id: Option<String>,
    pub(crate) credit_party: CreditPartyAnswer,
    pub(crate) debit_party: LogParty,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payments: Option<Vec<ReceivedPix>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refunded_amount: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refund_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) returned_amount: Option<Amount>,
}

#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreditPartyAnswer {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    pub(crate) tax_id: String,
}

/// One PIX received on a charge.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceivedPix {
    pub(crate) end_to_end_id: String,
    pub(crate) amount: Amount,
    pub(crate) date_approval: String,
    pub(crate) paid_at: String,
    pub(crate) debit_party: LogParty,
    pub(crate) late: bool,
}

/// The family's wrapping: the same fields under `requestBody` and flat.
#[derive(Serialize)]
pub(crate) struct Envelope<'a> {
    #[serde(rename = "requestBody")]
    request_body: &'a Transaction,
    #[serde(flatten)]
    flat: &'a Transaction,
}

impl<'a> Envelope<'a> {
    pub(crate) fn of(transaction: &'a Transaction) -> Self {
        Self { request_body: transaction, flat: transaction }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BalanceAnswer {
    pub(crate) status_code: u16,
    pub(crate) message: BalanceBody,
}

#[derive(Serialize)]
pub(crate) struct BalanceBody {
    pub(crate) balance: String,
}

/// `POST /sim/charges/{id}/pay`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PayRequest {
    pub(crate) amount: Option<Box<RawValue>>,
    pub(crate) payer: Option<PartyBody>,
    pub(crate) end_to_end_id: Option<String>,
    pub(crate) late: bool,
    pub(crate) callback: Option<bool>,
}

/// Answer to it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PayAnswer {
    pub(crate) transaction_id: String,
    #[serde(rename = "external_id")]
    pub(crate) external_id: String,
    pub(crate) status: &'static str,
    #[serde(flatten)]
    pub(crate) pix: ReceivedPix,
}

/// `POST /sim/{payments,refunds}/{id}/reject`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RejectRequest {
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

/// `POST /sim/payments/{id}/return`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReturnRequest {
    pub(crate) amount: Option<Box<RawValue>>,
}

/// `POST /sim/settings`: what is left out stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SettingsChange {
    /// [`Settings::settle_automatically`].
    pub settle_automatically: Option<bool>,
    /// [`Settings::unavailable`].
    pub unavailable: Option<bool>,
    /// [`Settings::callbacks`].
    pub callbacks: Option<bool>,
}

/// `POST /sim/clock`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClockChange {
    pub(crate) advance_seconds: f64,
}

/// The switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Settings {
    /// A payment or refund that was accepted is executed at once; else it waits for the control API.
    pub settle_automatically: bool,
    /// Every call is answered with 503, and nothing is done.
    pub unavailable: bool,
    /// The client is called back.
    pub callbacks: bool,
}

/// `GET /sim/state`.
#[derive(Serialize)]
pub(crate) struct StateAnswer {
    pub(crate) balance: String,
    pub(crate) counts: Counts,
    pub(crate) charges: Vec<Transaction>,
    pub(crate) payments: Vec<Transaction>,
    pub(crate) refunds: Vec<Transaction>,
}

#[derive(Serialize)]
pub(crate) struct Counts {
    pub(crate) charges: usize,
    pub(crate) payments: usize,
    pub(crate) refunds: usize,
}
