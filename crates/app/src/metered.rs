//! The settlement provider, with what is asked of it counted and told of ([`pix_traces`]): which operation, what is known after it,
//! how long it took. It changes nothing. Behind the breaker, so that what that turns away is no call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, PaymentOrder, ProviderError, RefundOrder, Removal,
    SettlementProvider, Ticket,
};
use pix_traces::{Kind, Step, Told};
use tokio::time::Instant;

/// The histogram of how long calls take, for whoever sets its buckets.
pub const CALL_SECONDS: &str = "pix_provider_call_seconds";

const CALLS: &str = "pix_provider_calls_total";

/// A provider whose calls are counted.
pub struct Metered(Arc<dyn SettlementProvider>);

impl Metered {
    /// Counts the calls of `provider`.
    pub fn new(provider: Arc<dyn SettlementProvider>) -> Self {
        metrics::describe_counter!(CALLS, "Calls of the settlement provider, by what is known after them.");
        metrics::describe_histogram!(CALL_SECONDS, "How long they took.");
        Self(provider)
    }
}

/// What is known after a call.
const fn class<T>(answer: &Result<T, ProviderError>) -> &'static str {
    match answer {
        Ok(_) => "done",
        Err(error) => class_of(error),
    }
}

/// The same of a question.
const fn class_of_consult<T>(answer: &Result<Option<T>, ProviderError>) -> &'static str {
    match answer {
        Ok(None) => "not_known",
        other => class(other),
    }
}

const fn class_of(error: &ProviderError) -> &'static str {
    match error {
        ProviderError::Rejected { .. } => "rejected",
        ProviderError::Unavailable(_) => "not_sent",
        ProviderError::Indeterminate(_) => "unknown",
        ProviderError::Mismatch(_) => "mismatch",
    }
}

fn count(operation: &'static str, class: &'static str, begun: Instant) {
    metrics::counter!(CALLS, "operation" => operation, "class" => class).increment(1);
    let took: Duration = begun.elapsed();
    metrics::histogram!(CALL_SECONDS, "operation" => operation).record(took.as_secs_f64());
}

fn told(operation: &'static str, class: &'static str) -> Told {
    Told::new(Kind::Client, format!("provider {operation}"))
        .with("pix.operation", operation)
        .with("pix.class", class)
        .failing(matches!(class, "not_sent" | "unknown" | "mismatch"))
}

/// Makes a call as a part of what it is made for, and counts it by its class; one without a class was none.
async fn measured<T>(
    operation: &'static str,
    call: impl Future<Output = Result<T, ProviderError>>,
    class: impl FnOnce(&Result<T, ProviderError>) -> Option<&'static str>,
) -> Result<T, ProviderError> {
    let (begun, step) = (Instant::now(), Step::within());
    let answer = match &step {
        Some(step) => step.run(call).await,
        None => call.await,
    };
    if let Some(class) = class(&answer) {
        count(operation, class, begun);
        if let Some(step) = step {
            step.end(|| told(operation, class));
        }
    }
    answer
}

#[async_trait]
impl SettlementProvider for Metered {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        measured("create_charge", self.0.create_charge(order), |answer| Some(class(answer))).await
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        measured("send_payment", self.0.send_payment(order), |answer| Some(class(answer))).await
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        measured("refund", self.0.refund(order), |answer| Some(class(answer))).await
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        let call = self.0.consult_charge(inquiry);
        measured("consult_charge", call, |answer| Some(class_of_consult(answer))).await
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        let call = self.0.consult_payment(inquiry);
        measured("consult_payment", call, |answer| Some(class_of_consult(answer))).await
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        let call = self.0.consult_refund(inquiry);
        measured("consult_refund", call, |answer| Some(class_of_consult(answer))).await
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        // Where the provider doesn't offer it, nothing was called.
        let of = |answer: &Result<_, _>| (*answer != Ok(Removal::NotOffered)).then(|| class(answer));
        measured("remove_charge", self.0.remove_charge(inquiry), of).await
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        // Where the provider doesn't offer it, there is nothing to count.
        let of = |answer: &Result<_, _>| (*answer != Ok(None)).then(|| class(answer));
        measured("balance", self.0.balance(), of).await
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        self.0.not_found_is_proof_after()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_class() {
        let rejected = ProviderError::Rejected {
            code: String::new(),
            message: String::new(),
            body: pix_domain::provider::ProviderBody::default(),
        };
        for (answer, expected) in [
            (Ok(Some(1)), "done"),
            (Ok(None), "not_known"),
            (Err(rejected), "rejected"),
            (Err(ProviderError::Unavailable(String::new())), "not_sent"),
            (Err(ProviderError::Indeterminate(String::new())), "unknown"),
            (Err(ProviderError::Mismatch("amount")), "mismatch"),
        ] {
            assert_eq!(class_of_consult(&answer), expected);
        }
        assert_eq!(class(&Ok(None::<u8>)), "done", "an answer without a question");
    }
}
