//! The provider's side of the classic v2 contract. It owns the way of a request from arrival to answer, as one
//! pipeline ([`answer`]); it must never know how an effect is decided or stored.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use actix_web::{
    HttpRequest, HttpResponse, ResponseError,
    http::{Method, header::AUTHORIZATION},
    web::{Bytes, Data},
};

use crate::{
    Shared, clock,
    desk::Desk,
    state::Subject,
    wire::{
        Answer, BalanceAnswer, BalanceBody, ChargeRequest, ConsultRequest, Envelope, PaymentRequest,
        Reference, RefundRequest, Refusal, Settings, TokenAnswer, TokenRequest, read,
    },
};

/// Tokens alive at the same time; one more forgets the others, whose holders then ask for a new one.
const MAX_TOKENS: usize = 10_000;

/// What is asked of the provider.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Token,
    Charge,
    Payment,
    Refund,
    Consult,
    Balance,
}

impl Operation {
    fn of(request: &HttpRequest) -> Result<Self, Refusal> {
        let operation = match request.path() {
            "/v2/oauth/token" => Self::Token,
            "/v2/pix/qrcode" => Self::Charge,
            "/v2/pix/payment" => Self::Payment,
            "/v2/pix/refund" => Self::Refund,
            "/v2/consult-transaction" => Self::Consult,
            "/v2/balance" => Self::Balance,
            _ => return Err(Refusal::not_found("no such path")),
        };
        if request.method() != Method::POST {
            let status = actix_web::http::StatusCode::METHOD_NOT_ALLOWED;
            return Err(Refusal::new(status, "method_not_allowed", "only POST is possible here"));
        }
        Ok(operation)
    }
}

/// Everything under `/v2`.
pub(crate) async fn handle(
    shared: Data<Shared>,
    request: HttpRequest,
    body: Result<Bytes, actix_web::Error>,
) -> HttpResponse {
    answer(&shared, &request, body).await.map_or_else(|refusal| refusal.error_response(), HttpResponse::from)
}

/// The pipeline: is the provider there; what is asked; by whom; the effect, durable; the answer.
async fn answer(
    shared: &Shared,
    request: &HttpRequest,
    body: Result<Bytes, actix_web::Error>,
) -> Result<Answer, Refusal> {
    let settings = shared.settings();
    if settings.unavailable {
        return Err(Refusal::unavailable("the provider is switched off"));
    }
    let operation = Operation::of(request)?;
    let body = whole(body)?;
    let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if operation != Operation::Token {
        shared.tokens.check(authorization)?;
    }
    carry_out(shared, operation, settings, authorization, &body).await
}

/// The effect and its answer.
async fn carry_out(
    shared: &Shared,
    operation: Operation,
    settings: Settings,
    authorization: Option<&str>,
    body: &[u8],
) -> Result<Answer, Refusal> {
    match operation {
        Operation::Token => shared.tokens.issue(authorization, body),
        Operation::Charge => {
            let request: ChargeRequest = read(body)?;
            shared.desk.run(move |desk| create_charge(desk, request)).await
        }
        Operation::Payment => {
            let request: PaymentRequest = read(body)?;
            shared.desk.run(move |desk| create_payment(desk, request, settings)).await
        }
        Operation::Refund => {
            let request: RefundRequest = read(body)?;
            shared.desk.run(move |desk| create_refund(desk, request, settings)).await
        }
        Operation::Consult => {
            let request: ConsultRequest = read(body)?;
            shared.desk.run(move |desk| consult(desk, &request)).await
        }
        Operation::Balance => {
            let balance = shared.desk.run(|desk| Ok(desk.bank.balance())).await?;
            Answer::ok(&BalanceAnswer { status_code: 200, message: BalanceBody { balance } })
        }
    }
}

fn create_charge(desk: &mut Desk, request: ChargeRequest) -> Result<Answer, Refusal> {
    let decision = desk.bank.create_charge(request, &desk.fresh())?;
    let (subject, _) = desk.carry_out(decision)?;
    Answer::ok(&desk.bank.charge_answer(&subject.id, desk.now()).ok_or_else(lost)?)
}

fn create_payment(desk: &mut Desk, request: PaymentRequest, settings: Settings) -> Result<Answer, Refusal> {
    let decision = desk.bank.create_payment(request, settings.settle_automatically, &desk.fresh())?;
    let (subject, first) = desk.carry_out(decision)?;
    if first && settings.settle_automatically && settings.callbacks {
        desk.announce(&subject)?;
    }
    Answer::ok(&desk.bank.payment_answer(&subject.id, first).ok_or_else(lost)?)
}

fn create_refund(desk: &mut Desk, request: RefundRequest, settings: Settings) -> Result<Answer, Refusal> {
    let decision = desk.bank.create_refund(request, settings.settle_automatically, &desk.fresh())?;
    let (subject, first) = desk.carry_out(decision)?;
    if first && settings.settle_automatically && settings.callbacks {
        desk.announce(&subject)?;
    }
    Answer::ok(&desk.bank.refund_answer(&subject.id).ok_or_else(lost)?)
}

/// By the provider's id, or by the client's reference: an extension to the family's contract.
fn consult(desk: &mut Desk, request: &ConsultRequest) -> Result<Answer, Refusal> {
    let subject: Option<Subject> =
        match (request.pix_id.as_deref().filter(|id| !id.is_empty()), &request.external_id) {
            (Some(id), _) => desk.bank.find(id),
            (None, Some(reference)) => {
                let text = Reference::text(Some(reference))?;
                desk.bank.find_reference(&text, request.transaction_type)?
            }
            (None, None) => {
                return Err(Refusal::invalid("validation_failed", "pix_id or external_id is required"));
            }
        };
    let told = subject.and_then(|subject| desk.bank.describe(&subject, desk.now()));
    Answer::ok(&Envelope::of(&told.ok_or_else(|| Refusal::not_found("transaction not found"))?))
}

/// A body that arrived in full, or why not.
pub(crate) fn whole(body: Result<Bytes, actix_web::Error>) -> Result<Bytes, Refusal> {
    body.map_err(|error| {
        let status = error.as_response_error().status_code();
        Refusal::new(status, "malformed_request", "the body cannot be read")
    })
}

/// What was carried out is there, unless the bank is broken.
pub(crate) fn lost() -> Refusal {
    Refusal::internal("a transaction is missing")
}

/// Credentials and the tokens given for them. Tokens live in memory: a restart makes the old ones invalid.
pub(crate) struct Tokens {
    client_id: String,
    client_secret: String,
    lifetime: Duration,
    alive: Mutex<HashMap<String, Instant>>,
}

impl Tokens {
    pub(crate) fn new(client_id: String, client_secret: String, lifetime: Duration) -> Self {
        Self { client_id, client_secret, lifetime, alive: Mutex::default() }
    }

    /// Credentials by HTTP Basic (RFC 7617), else in the body.
    fn issue(&self, authorization: Option<&str>, body: &[u8]) -> Result<Answer, Refusal> {
        let basic = authorization.and_then(|value| scheme(value, "basic"));
        let (id, secret) = if let Some(encoded) = basic {
            basic_credentials(encoded).ok_or_else(invalid_credentials)?
        } else {
            let request: TokenRequest = read(body)?;
            (request.client_id, request.client_secret)
        };
        if id != self.client_id || secret != self.client_secret {
            return Err(invalid_credentials());
        }
        let token = format!("sim_{}{}", clock::fresh_id(), clock::fresh_id());
        let now = Instant::now();
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if alive.len() >= MAX_TOKENS {
            alive.clear();
        }
        alive.retain(|_, issued| now.duration_since(*issued) < self.lifetime);
        alive.insert(token.clone(), now);
        drop(alive);
        let expires_in = self.lifetime.as_secs();
        Answer::ok(&TokenAnswer { access_token: &token, token_type: "Bearer", expires_in })
    }

    fn check(&self, authorization: Option<&str>) -> Result<(), Refusal> {
        let token = authorization
            .and_then(|value| scheme(value, "bearer"))
            .ok_or_else(|| Refusal::unauthorized("missing_token"))?;
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        match alive.get(token) {
            Some(issued) if issued.elapsed() < self.lifetime => Ok(()),
            Some(_) => Err(Refusal::unauthorized("expired_token")),
            None => Err(Refusal::unauthorized("invalid_token")),
        }
    }

    /// Forgets every token, as a restart does.
    pub(crate) fn revoke_all(&self) {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn invalid_credentials() -> Refusal {
    Refusal::unauthorized("invalid_credentials")
}

/// What follows a scheme's name in an Authorization header (RFC 9110 §11.4: names are case-insensitive).
fn scheme<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let (given, rest) = value.split_once(' ')?;
    given.eq_ignore_ascii_case(name).then(|| rest.trim())
}

fn basic_credentials(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(base64(encoded)?).ok()?;
    text.split_once(':').map(|(id, secret)| (id.to_owned(), secret.to_owned()))
}

/// RFC 4648 §4.
fn base64(encoded: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let (mut bits, mut held) = (0_u32, 0_u32);
    for character in encoded.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            decoded.push(u8::try_from(bits >> held & 0xFF).ok()?);
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_credentials_are_read_up_to_the_first_colon() {
        // RFC 7617 §2.
        let read = basic_credentials("QWxhZGRpbjpvcGVuIHNlc2FtZQ==").unwrap();
        assert_eq!(read, ("Aladdin".to_owned(), "open sesame".to_owned()));
        assert_eq!(basic_credentials("YTpiOmM=").unwrap(), ("a".to_owned(), "b:c".to_owned()));
        assert_eq!(basic_credentials("not base64!"), None);
        assert_eq!(base64("AAEC/f7/").unwrap(), [0, 1, 2, 253, 254, 255]);
    }

    #[test]
    fn a_token_ends_with_its_lifetime() {
        let tokens = Tokens::new("id".into(), "secret".into(), Duration::ZERO);
        let answer = tokens.issue(None, br#"{"client_id":"id","client_secret":"secret"}"#).unwrap();
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let bearer = format!("Bearer {}", body["access_token"].as_str().unwrap());
        assert_eq!(tokens.check(Some(&bearer)).unwrap_err().code, "expired_token");
        assert_eq!(tokens.check(None).unwrap_err().code, "missing_token");
    }
}
