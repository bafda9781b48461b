//! The settlement provider, with what is asked of it counted: which operation, what is known after it, how long it took.
//! It changes nothing. Behind the breaker, so that what that turns away is no call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, PaymentOrder, ProviderError, RefundOrder, Removal,
    SettlementProvider, Ticket,
};
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

#[async_trait]
impl SettlementProvider for Metered {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        let begun = Instant::now();
        let answer = self.0.create_charge(order).await;
        count("create_charge", class(&answer), begun);
        answer
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        let begun = Instant::now();
        let answer = self.0.send_payment(order).await;
        count("send_payment", class(&answer), begun);
        answer
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        let begun = Instant::now();
        let answer = self.0.refund(order).await;
        count("refund", class(&answer), begun);
        answer
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        let begun = Instant::now();
        let answer = self.0.consult_charge(inquiry).await;
        count("consult_charge", class_of_consult(&answer), begun);
        answer
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        let begun = Instant::now();
        let answer = self.0.consult_payment(inquiry).await;
        count("consult_payment", class_of_consult(&answer), begun);
        answer
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        let begun = Instant::now();
        let answer = self.0.consult_refund(inquiry).await;
        count("consult_refund", class_of_consult(&answer), begun);
        answer
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        let begun = Instant::now();
        let answer = self.0.remove_charge(inquiry).await;
        // Where the provider doesn't offer it, nothing was called.
        if answer != Ok(Removal::NotOffered) {
            count("remove_charge", class(&answer), begun);
        }
        answer
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
