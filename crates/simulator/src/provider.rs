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
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::{
    Shared, clock,
    desk::Desk,
    misbehave::{self, Connection},
    rules::{self, Met},
    scenario::{AfterHold, Operation, Part, Scenario},
    state::{Decision, How, Subject},
    wire::{
        Answer, BalanceAnswer, BalanceBody, ChargeRequest, ConsultRequest, Envelope, Kind, PaymentRequest,
        Reference, RefundRequest, Refusal, RejectRequest, Settings, TokenAnswer, TokenRequest, read,
    },
};

/// Tokens alive at the same time; one more forgets the others, whose holders then ask for a new one.
const MAX_TOKENS: usize = 10_000;

/// What is asked of the provider.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Known(Operation),
    Balance,
}

impl Call {
    fn of(request: &HttpRequest) -> Result<Self, Refusal> {
        let call = match request.path() {
            "/v2/oauth/token" => Self::Known(Operation::Token),
            "/v2/pix/qrcode" => Self::Known(Operation::Charge),
            "/v2/pix/payment" => Self::Known(Operation::Payment),
            "/v2/pix/refund" => Self::Known(Operation::Refund),
            "/v2/consult-transaction" => Self::Known(Operation::Consult),
            "/v2/balance" => Self::Balance,
            _ => return Err(Refusal::not_found("no such path")),
        };
        if request.method() != Method::POST {
            let status = actix_web::http::StatusCode::METHOD_NOT_ALLOWED;
            return Err(Refusal::new(status, "method_not_allowed", "only POST is possible here"));
        }
        Ok(call)
    }
}

/// Everything under `/v2`.
pub(crate) async fn handle(
    shared: Data<Shared>,
    request: HttpRequest,
    body: Result<Bytes, actix_web::Error>,
) -> HttpResponse {
    answer(&shared, &request, body).await.unwrap_or_else(|refusal| refusal.error_response())
}

/// The pipeline: is the provider there; what is asked; by whom; the effect, durable; the answer. A scenario takes the
/// place of the last two, or changes them.
async fn answer(
    shared: &Data<Shared>,
    request: &HttpRequest,
    body: Result<Bytes, actix_web::Error>,
) -> Result<HttpResponse, Refusal> {
    if shared.is_dead() {
        return Ok(Connection::of(request).cut());
    }
    let settings = shared.settings();
    if settings.unavailable {
        return Err(Refusal::unavailable("the provider is switched off"));
    }
    let call = Call::of(request)?;
    let body = whole(body)?;
    let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if call != Call::Known(Operation::Token) {
        shared.tokens.check(authorization)?;
    }
    let mut asked =
        Asked { call, settings, authorization: authorization.map(str::to_owned), body, fate: None };
    let spoiled = plan(shared, &mut asked).await?;
    if asked.fate.is_none() && spoiled.is_none() {
        return Ok(carry_out(shared, asked).await?.into());
    }
    misbehave(shared, request, asked, spoiled).await
}

/// A request that may be carried out.
struct Asked {
    call: Call,
    settings: Settings,
    authorization: Option<String>,
    body: Bytes,
    /// What becomes of the money, when a scenario says so.
    fate: Option<Met>,
}

/// Which scenarios this request meets.
async fn plan(shared: &Shared, asked: &mut Asked) -> Result<Option<Met>, Refusal> {
    let Call::Known(operation) = asked.call else { return Ok(None) };
    if shared.rules().is_empty() {
        return Ok(None);
    }
    let names = names(shared, &asked.body).await?;
    let subject = rules::Subject { operation, names: &names };
    let mut rules = shared.rules();
    asked.fate = rules.meet(Part::Fate, &subject);
    Ok(rules.meet(Part::Answer, &subject))
}

/// Every id that the request's transaction is known by, as far as the body can be read.
async fn names(shared: &Shared, body: &[u8]) -> Result<Vec<String>, Refusal> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        #[serde(alias = "pix_Id")]
        pix_id: Option<String>,
        external_id: Option<Reference>,
    }
    let Named { pix_id, external_id } = serde_json::from_slice(body).unwrap_or_default();
    let mut names: Vec<String> = external_id.into_iter().map(|reference| reference.0).collect();
    if let Some(id) = pix_id {
        names.extend(shared.desk.run(move |desk| Ok(desk.bank.names(&id))).await?);
    }
    Ok(names)
}

/// A request that meets scenarios. What is executed is executed even when the client has gone.
async fn misbehave(
    shared: &Data<Shared>,
    request: &HttpRequest,
    asked: Asked,
    spoiled: Option<Met>,
) -> Result<HttpResponse, Refusal> {
    let connection = Connection::of(request);
    let timeline = &shared.timeline;
    if let Some(met) = &spoiled
        && let Some(response) = misbehave::instead(met, &connection, timeline, request).await
    {
        return Ok(response);
    }
    let met = spoiled.as_ref().map(|met| met.scenario);
    let late = spoiled.as_ref().filter(|_| met == Some(Scenario::ExecutesLate));
    let late = late.map(|met| timeline.after(met.parameters.span()));
    let executing = Data::clone(shared);
    let executed = shared.runtime.spawn(async move {
        match late {
            Some(due) if !executing.timeline.sleep_until(due).await => Err(lost()),
            _ => carry_out(&executing, asked).await,
        }
    });
    let answer = executed.await.unwrap_or_else(|_panic_or_stop| Err(lost()));
    let Some(met) = spoiled else { return Ok(answer?.into()) };
    if met.scenario == Scenario::DiesAndComesBack {
        shared.die(met.parameters.span());
    }
    let answer = answer.unwrap_or_else(Refusal::into_answer);
    Ok(misbehave::afterwards(&met, &connection, timeline, answer).await)
}

/// The effect and its answer.
async fn carry_out(shared: &Data<Shared>, asked: Asked) -> Result<Answer, Refusal> {
    let Asked { call, settings, authorization, body, fate } = asked;
    let met = fate.as_ref().map(|met| met.scenario);
    let held = met == Some(Scenario::PrecautionaryHold);
    let how =
        How { settle: settings.settle_automatically && !held, again: met == Some(Scenario::ExecutesAgain) };
    let made = match call {
        Call::Known(Operation::Charge) => {
            let request: ChargeRequest = read(&body)?;
            shared.desk.run(move |desk| create_charge(desk, request, how, settings)).await
        }
        Call::Known(Operation::Payment) => {
            let request: PaymentRequest = read(&body)?;
            shared.desk.run(move |desk| create_payment(desk, request, how, settings)).await
        }
        Call::Known(Operation::Refund) => {
            let request: RefundRequest = read(&body)?;
            shared.desk.run(move |desk| create_refund(desk, request, how, settings)).await
        }
        Call::Known(Operation::Consult) => {
            let request: ConsultRequest = read(&body)?;
            return shared.desk.run(move |desk| consult(desk, &request)).await;
        }
        Call::Known(Operation::Token | Operation::Any) => {
            return shared.tokens.issue(authorization.as_deref(), &body);
        }
        Call::Balance => {
            let balance = shared.desk.run(|desk| Ok(desk.bank.balance())).await?;
            return Answer::ok(&BalanceAnswer { status_code: 200, message: BalanceBody { balance } });
        }
    }?;
    if let Some(fate) = fate.filter(|_| made.first) {
        decide_later(shared, made.subject, fate);
    }
    if let Some(told) = made.told {
        // Sent or given up.
        drop(told.await);
    }
    Ok(made.answer)
}

/// What became of a request that makes something.
struct Made {
    subject: Subject,
    /// It was not known before.
    first: bool,
    answer: Answer,
    /// What the answer must wait for.
    told: Option<oneshot::Receiver<()>>,
}

/// What a scenario has in store for a payment or refund, when its time has come.
fn decide_later(shared: &Data<Shared>, subject: Subject, fate: Met) {
    let later = Data::clone(shared);
    // From now on, whenever the task starts.
    let due = shared.timeline.after(fate.parameters.span());
    shared.runtime.spawn(async move {
        if !later.timeline.sleep_until(due).await {
            return;
        }
        let callbacks = later.settings().callbacks;
        let done = later.desk.run(move |desk| {
            let decision = what_was_in_store(desk, &subject, &fate)?;
            if let Some(decision) = decision {
                let (subject, _) = desk.carry_out(decision)?;
                if callbacks {
                    desk.announce(&subject)?;
                }
            }
            Ok(())
        });
        if let Err(refusal) = done.await {
            // The control API may have decided otherwise before.
            tracing::info!(code = refusal.code, "a scenario came too late");
        }
    });
}

fn what_was_in_store(desk: &Desk, subject: &Subject, fate: &Met) -> Result<Option<Decision>, Refusal> {
    let (bank, id) = (&desk.bank, subject.id.as_str());
    let parameters = &fate.parameters;
    let settles = parameters.then != Some(AfterHold::Reject);
    match (fate.scenario, subject.kind) {
        (Scenario::ReturnedAfterCompletion, Kind::Payment) => {
            let amount = parameters.amount.as_deref().map(serde_json::value::to_raw_value).transpose();
            let amount = amount.map_err(|error| Refusal::internal(&error.to_string()))?;
            bank.return_payment(id, amount.as_deref())
        }
        (Scenario::PrecautionaryHold, Kind::Payment) if settles => bank.settle_payment(id),
        (Scenario::PrecautionaryHold, Kind::Payment) => bank.reject_payment(id, RejectRequest::default()),
        (Scenario::PrecautionaryHold, Kind::Refund) if settles => bank.settle_refund(id),
        (Scenario::PrecautionaryHold, Kind::Refund) => bank.reject_refund(id, RejectRequest::default()),
        _ => return Ok(None),
    }
    .map(Some)
}

fn create_charge(
    desk: &mut Desk,
    request: ChargeRequest,
    how: How,
    settings: Settings,
) -> Result<Made, Refusal> {
    let decision = desk.bank.create_charge(request, how, &desk.fresh())?;
    let (subject, first) = desk.carry_out(decision)?;
    if first && settings.callbacks {
        desk.forge(&subject)?;
    }
    let answer = Answer::ok(&desk.bank.charge_answer(&subject.id, desk.now()).ok_or_else(lost)?)?;
    Ok(Made { subject, first, answer, told: None })
}

fn create_payment(
    desk: &mut Desk,
    request: PaymentRequest,
    how: How,
    settings: Settings,
) -> Result<Made, Refusal> {
    let decision = desk.bank.create_payment(request, how, &desk.fresh())?;
    let (subject, first) = desk.carry_out(decision)?;
    let told = tell(desk, &subject, first, how, settings)?;
    let answer = Answer::ok(&desk.bank.payment_answer(&subject.id, first).ok_or_else(lost)?)?;
    Ok(Made { subject, first, answer, told })
}

fn create_refund(
    desk: &mut Desk,
    request: RefundRequest,
    how: How,
    settings: Settings,
) -> Result<Made, Refusal> {
    let decision = desk.bank.create_refund(request, how, &desk.fresh())?;
    let (subject, first) = desk.carry_out(decision)?;
    let told = tell(desk, &subject, first, how, settings)?;
    let answer = Answer::ok(&desk.bank.refund_answer(&subject.id).ok_or_else(lost)?)?;
    Ok(Made { subject, first, answer, told })
}

/// The callbacks of a payment or refund that was just made.
fn tell(
    desk: &mut Desk,
    subject: &Subject,
    first: bool,
    how: How,
    settings: Settings,
) -> Result<Option<oneshot::Receiver<()>>, Refusal> {
    if !first || !settings.callbacks {
        return Ok(None);
    }
    desk.forge(subject)?;
    if how.settle { desk.announce(subject) } else { Ok(None) }
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
