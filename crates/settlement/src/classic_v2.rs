//! The classic v2 contract, from our side: JSON over POST, a bearer token, our reference as `external_id`.
//!
//! An operation is one pipeline, [`ClassicV2Provider::call`]: a turn → a token → one POST → on a 401 that proves
//! nothing was done a new token and the same POST once more → the verdict of the table in `classify.rs`. Then, if it was done, `read.rs` says whether the
//! answer is about us. It must never know why money is moved.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod read;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, PaymentOrder, ProviderBody, ProviderError, Reference,
    RefundOrder, Removal, SettlementProvider, Ticket,
};
use pix_domain::time::{Clock, Timestamp};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;

use crate::bulkhead::Bulkhead;
use crate::classify::{Operation, Refusal, Verdict, classify};
use crate::config::{ClassicV2Config, SetupError};
use crate::http::{Answer, Fault, HttpClientConfig, Trust, http_client, post};
use crate::token::{Token, Tokens};
use read::{Direction, Expected};

const TOKEN_PATH: &str = "/v2/oauth/token";
const CHARGE_PATH: &str = "/v2/pix/qrcode";
const PAYMENT_PATH: &str = "/v2/pix/payment";
const REFUND_PATH: &str = "/v2/pix/refund";
const CONSULT_PATH: &str = "/v2/consult-transaction";
const BALANCE_PATH: &str = "/v2/balance";
/// What stands for our reference where nothing of ours is spoken of.
const NO_REFERENCE: Reference = Reference(Uuid::nil());
const TOO_LATE: &str = "too late to send";

/// A settlement provider that speaks the classic v2 contract.
pub struct ClassicV2Provider {
    name: String,
    base: Url,
    callback_url: Option<String>,
    /// What of the callback URL must not be shown.
    callback_secret: Option<SecretString>,
    /// How long after its begin an operation may still send something, so that it ends within
    /// [`ClassicV2Config::longest_operation`].
    send_within: Duration,
    http: Client,
    tokens: Tokens,
    bulkhead: Bulkhead,
    not_found_is_proof_after: Option<Duration>,
    clock: Option<Arc<dyn Clock>>,
    traceparent: fn() -> Option<String>,
    tracestate: fn() -> Option<String>,
}

impl fmt::Debug for ClassicV2Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassicV2Provider").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ClassicV2Provider {
    /// A provider with these settings. Nothing is sent before the first operation.
    pub fn new(config: ClassicV2Config) -> Result<Self, SetupError> {
        config.validate()?;
        let base = config.base()?;
        let encrypted = base.scheme() == "https";
        let bulkhead = Bulkhead::new(&config);
        let callback_secret = config.callback_secret().map(SecretString::from);
        let send_within = config.longest_operation().saturating_sub(config.call_timeout);
        let http = http_client(&HttpClientConfig {
            https_only: encrypted,
            trust: match config.tls.authorities_pem {
                _ if !encrypted => Trust::Nobody,
                Some(pem) => Trust::Only(pem),
                None => Trust::System,
            },
            identity: config.tls.identity_pem.filter(|_| encrypted),
            connect_timeout: config.connect_timeout,
            total_timeout: config.call_timeout,
        })?;
        let tokens = Tokens::new(
            http.clone(),
            at(&base, TOKEN_PATH),
            config.client_id,
            config.client_secret,
            config.token_timeout,
        );
        Ok(Self {
            name: config.name,
            base,
            callback_url: config.callback_base,
            callback_secret,
            send_within,
            http,
            tokens,
            bulkhead,
            not_found_is_proof_after: config.not_found_is_proof_after,
            clock: config.clock,
            traceparent: config.traceparent,
            tracestate: config.tracestate,
        })
    }

    /// Asks for a token: whether the provider can be reached and takes our credentials. Says why not; never a secret.
    pub async fn sign_in(&self) -> Result<(), String> {
        self.tokens.get(None).await.map(drop)
    }

    /// Asks, and says what is proven: the answer's body, or `None` when the provider doesn't know the transaction.
    async fn call(
        &self,
        operation: Operation,
        reference: Reference,
        body: &(impl Serialize + Sync),
    ) -> Result<Option<String>, ProviderError> {
        self.call_until(self.deadline(), operation, reference, body).await
    }

    /// Until when an operation that begins now may send something.
    fn deadline(&self) -> Deadline {
        let by_wall = self.clock.as_ref().map(|clock| clock.now().plus(self.send_within));
        Deadline { at: Instant::now() + self.send_within, by_wall }
    }

    fn is_over(&self, deadline: Deadline) -> bool {
        let by_wall =
            self.clock.as_ref().zip(deadline.by_wall).is_some_and(|(clock, until)| clock.now() >= until);
        by_wall || Instant::now() >= deadline.at
    }

    /// The same, for what has begun before: nothing is sent after `deadline`.
    async fn call_until(
        &self,
        deadline: Deadline,
        operation: Operation,
        reference: Reference,
        body: &(impl Serialize + Sync),
    ) -> Result<Option<String>, ProviderError> {
        let Ok(body) = serde_json::to_string(body) else {
            return Err(self.unavailable("the request can't be written"));
        };
        let Some(_turn) = self.bulkhead.enter(operation).await else {
            return Err(self.unavailable("too many calls are under way"));
        };
        let token = self.tokens.get(None).await.map_err(|why| self.unavailable(&why))?;
        let mut heard = self.post(operation, &token, body.clone(), deadline).await;
        if matches!(heard, Ok(Answer { status: 401, .. })) {
            let token = self.tokens.get(Some(&token)).await;
            if classify(operation, &heard) == Verdict::NotDone {
                // Not executed; so it may be asked again, once.
                let token = token.map_err(|why| self.unavailable(&why))?;
                heard = self.post(operation, &token, body, deadline).await;
            }
        }
        self.judge(operation, reference, heard)
    }

    /// One POST, unless it is too late for one: what is not known is asked about as if all had ended by then.
    async fn post(
        &self,
        operation: Operation,
        token: &Token,
        body: String,
        deadline: Deadline,
    ) -> Result<Answer, Fault> {
        let path = match operation {
            Operation::CreateCharge => CHARGE_PATH,
            Operation::SendPayment => PAYMENT_PATH,
            Operation::Refund => REFUND_PATH,
            Operation::ConsultCharge | Operation::ConsultPayment | Operation::ConsultRefund => CONSULT_PATH,
            Operation::Balance => BALANCE_PATH,
        };
        let mut request = self.http.post(at(&self.base, path)).bearer_auth(token.secret.expose_secret());
        if let Some(traceparent) = (self.traceparent)() {
            request = request.header("traceparent", traceparent);
            if let Some(tracestate) = (self.tracestate)() {
                request = request.header("tracestate", tracestate);
            }
        }
        if self.is_over(deadline) {
            return Err(Fault::NotWritten(TOO_LATE.to_owned()));
        }
        post(request, body).await
    }

    fn judge(
        &self,
        operation: Operation,
        reference: Reference,
        heard: Result<Answer, Fault>,
    ) -> Result<Option<String>, ProviderError> {
        let verdict = classify(operation, &heard);
        let why = match &heard {
            Ok(answer) => format!("status {}", answer.status),
            Err(Fault::NotWritten(cause)) => cause.clone(),
            Err(Fault::TimedOut) => "no whole answer in time".to_owned(),
            Err(Fault::Lost) => "the connection broke before the whole answer".to_owned(),
            Err(Fault::TooLarge) => "the answer is too large".to_owned(),
        };
        match (verdict, heard) {
            (Verdict::Done, Ok(Answer { json: Some(body), .. })) => Ok(Some(body)),
            (Verdict::NotKnown, _) => Ok(None),
            (Verdict::NotDone, _) => Err(self.unavailable(&why)),
            (Verdict::Rejected, Ok(mut answer)) => {
                answer.json = answer.json.map(|text| read::hide(&text, self.secret()));
                match Refusal::shown(&answer, |text| read::hide(text, self.secret())) {
                    Some(Refusal { code, message }) => {
                        tracing::info!(provider = %self.name, operation = operation.name(), %reference, %code, "refused");
                        let body = ProviderBody(answer.json.unwrap_or_default());
                        Err(ProviderError::Rejected { code, message, body })
                    }
                    None => Err(self.indeterminate(operation, reference, &why)),
                }
            }
            (Verdict::Done | Verdict::Rejected | Verdict::Unknown, _) => {
                Err(self.indeterminate(operation, reference, &why))
            }
        }
    }

    fn secret(&self) -> Option<&str> {
        self.callback_secret.as_ref().map(ExposeSecret::expose_secret)
    }

    fn unavailable(&self, why: &str) -> ProviderError {
        ProviderError::Unavailable(format!("{}: {why}", self.name))
    }

    /// `why` is a text of ours, or a status. An answer that contradicts what was asked is a mismatch of that field.
    fn indeterminate(&self, operation: Operation, reference: Reference, why: &str) -> ProviderError {
        let (name, operation) = (&self.name, operation.name());
        let Some(field) = read::mismatch(why) else {
            tracing::warn!(provider = %name, operation, %reference, why, "the outcome is not known");
            return ProviderError::Indeterminate(format!("{name}, {operation}: {why}"));
        };
        tracing::error!(provider = %name, operation, %reference, mismatch = field, why, "the answer is not about what was asked");
        ProviderError::Mismatch(field)
    }

    /// What the provider was asked to do and says it did.
    async fn send(
        &self,
        operation: Operation,
        body: &(impl Serialize + Sync),
        expected: Expected<'_>,
        direction: Direction,
    ) -> Result<OutgoingReport, ProviderError> {
        let reference = expected.reference;
        let unclear = |why: &str| self.indeterminate(operation, reference, why);
        let text = self.call(operation, reference, body).await?.ok_or_else(|| unclear("no answer"))?;
        read::outgoing(&text, &expected.hiding(self.secret()), direction).map_err(unclear)
    }

    /// Asks about a transaction: the answer's body, and what it must agree with.
    ///
    /// What isn't known by the provider's id is asked for by our reference too: an id that was told wrongly once would hide for good
    /// what is ours, and "not known" would be said of money that moved. What is known so has another id, which is a mismatch. Where "not
    /// known" by our reference never proves anything, the provider may not offer that question: then no answer to it changes nothing.
    async fn ask<'a>(
        &self,
        operation: Operation,
        inquiry: &'a Inquiry,
    ) -> Result<Option<(String, Expected<'a>)>, ProviderError> {
        let expected = Expected::answer_to(inquiry);
        let deadline = self.deadline();
        let by_id = wire::ConsultBody::of(inquiry);
        let found = self.call_until(deadline, operation, inquiry.reference, &by_id).await?;
        if found.is_some() || inquiry.provider_id.is_none() {
            return Ok(found.map(|text| (text, expected)));
        }
        let by_reference = wire::ConsultBody::by_reference(inquiry);
        let found = self.call_until(deadline, operation, inquiry.reference, &by_reference).await;
        let is_offered = self.not_found_is_proof_after.is_some();
        let found = if is_offered { found? } else { found.unwrap_or(None) };
        Ok(found.map(|text| (text, expected.naming_the_reference())))
    }

    async fn consult_outgoing(
        &self,
        operation: Operation,
        inquiry: &Inquiry,
        direction: Direction,
    ) -> Result<Option<OutgoingReport>, ProviderError> {
        let Some((text, expected)) = self.ask(operation, inquiry).await? else { return Ok(None) };
        let expected = expected.hiding(self.secret());
        let report = read::outgoing(&text, &expected, direction);
        report.map(Some).map_err(|why| self.indeterminate(operation, inquiry.reference, why))
    }
}

/// Until when something may be sent, by either clock.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    at: Instant,
    by_wall: Option<Timestamp>,
}

/// The URL of a path at the provider.
fn at(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&[base.path().trim_end_matches('/'), path].concat());
    url
}

#[async_trait]
impl SettlementProvider for ClassicV2Provider {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        const OPERATION: Operation = Operation::CreateCharge;
        let unclear = |why: &str| self.indeterminate(OPERATION, order.reference, why);
        let body = wire::ChargeBody::of(&order, self.callback_url.as_deref());
        let text = self.call(OPERATION, order.reference, &body).await?.ok_or_else(|| unclear("no answer"))?;
        let expected = Expected::made(order.reference, order.amount, None).hiding(self.secret());
        read::ticket(&text, &expected).map_err(unclear)
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        let body = wire::PaymentBody::of(&order, self.callback_url.as_deref());
        let expected = Expected::made(order.reference, order.amount, None).sent_to(&order.key);
        self.send(Operation::SendPayment, &body, expected, Direction::Payment).await
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        let body = wire::RefundBody::of(&order, self.callback_url.as_deref());
        let expected = Expected::made(order.reference, order.amount, Some(&order.charge_provider_id));
        self.send(Operation::Refund, &body, expected, Direction::Refund).await
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        const OPERATION: Operation = Operation::ConsultCharge;
        let Some((text, expected)) = self.ask(OPERATION, &inquiry).await? else { return Ok(None) };
        let report = read::charge(&text, &expected.hiding(self.secret()));
        report.map(Some).map_err(|why| self.indeterminate(OPERATION, inquiry.reference, why))
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.consult_outgoing(Operation::ConsultPayment, &inquiry, Direction::Payment).await
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.consult_outgoing(Operation::ConsultRefund, &inquiry, Direction::Refund).await
    }

    /// The contract has no call for it.
    async fn remove_charge(&self, _inquiry: Inquiry) -> Result<Removal, ProviderError> {
        Ok(Removal::NotOffered)
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        const OPERATION: Operation = Operation::Balance;
        let Some(text) = self.call(OPERATION, NO_REFERENCE, &wire::NoBody {}).await? else { return Ok(None) };
        let balance = read::balance(&text).map(Some);
        balance.map_err(|why| self.indeterminate(OPERATION, NO_REFERENCE, why))
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        self.not_found_is_proof_after
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use pix_simulator::{Simulator, SimulatorConfig};
    use serde_json::json;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn past_its_time_an_operation_sends_nothing() {
        let simulator = Simulator::start(SimulatorConfig::default()).await.unwrap();
        let config = ClassicV2Config::new(simulator.base_url(), "simulator", "simulator-secret".into());
        let (longest, call_timeout) = (config.longest_operation(), config.call_timeout);
        let mut provider = ClassicV2Provider::new(config).unwrap();
        assert_eq!(provider.send_within + call_timeout, longest);
        let reference = Reference(Uuid::from_u128(1));
        let body = json!({"amount": 1, "external_id": reference.to_string(), "creditParty": {"key": "a"}});
        let question = json!({"external_id": reference.to_string()});

        let in_time = std::mem::take(&mut provider.send_within);
        let late = provider.call(Operation::SendPayment, reference, &body).await;
        assert_eq!(late, Err(provider.unavailable("too late to send")));
        provider.send_within = in_time;
        assert_eq!(provider.call(Operation::ConsultPayment, reference, &question).await, Ok(None));
        provider.call(Operation::SendPayment, reference, &body).await.unwrap();
        assert!(provider.call(Operation::ConsultPayment, reference, &question).await.unwrap().is_some());
    }

    /// A clock of which an hour is over whenever it is looked at: the machine is suspended in between.
    #[derive(Default)]
    struct Suspended(AtomicI64);

    impl Clock for Suspended {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.0.fetch_add(3_600_000_000, Ordering::Relaxed))
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_machine_that_was_suspended_before_it_sent_sends_nothing() {
        let simulator = Simulator::start(SimulatorConfig::default()).await.unwrap();
        let mut config = ClassicV2Config::new(simulator.base_url(), "simulator", "simulator-secret".into());
        config.clock = Some(Arc::new(Suspended::default()));
        let mut provider = ClassicV2Provider::new(config).unwrap();
        let reference = Reference(Uuid::from_u128(1));
        let body = json!({"amount": 1, "external_id": reference.to_string(), "creditParty": {"key": "a"}});
        let late = provider.call(Operation::SendPayment, reference, &body).await;
        assert_eq!(late, Err(provider.unavailable("too late to send")));
        provider.clock = None;
        let question = json!({"external_id": reference.to_string()});
        assert_eq!(provider.call(Operation::ConsultPayment, reference, &question).await, Ok(None));
    }

    #[test]
    fn paths_follow_the_path_of_the_base_url() {
        for (base, url) in [
            ("https://p.example.com", "https://p.example.com/v2/pix/qrcode"),
            ("https://p.example.com/", "https://p.example.com/v2/pix/qrcode"),
            ("https://p.example.com:8443/bank/", "https://p.example.com:8443/bank/v2/pix/qrcode"),
        ] {
            assert_eq!(at(&Url::parse(base).unwrap(), CHARGE_PATH).as_str(), url);
        }
    }
}
