//! What is told of writes and of postbacks ([`pix_traces`]). It changes nothing.

use std::sync::Arc;

use async_trait::async_trait;
use pix_domain::error::ApplyError;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::events::EventKey;
use pix_domain::postbacks::send::{Parcel, PostbackSender, Reply};
use pix_domain::transition::{Guard, Transition, TransitionStore};
use pix_traces::{Kind, Step, Told};
use uuid::Uuid;

/// A store whose writes are told of, and the making of each record as the first span of its trace. For a program whose
/// spans go somewhere.
pub struct TracedStore(pub Arc<dyn TransitionStore>);

/// A record that is written.
struct Written {
    id: Uuid,
    kind: &'static str,
    event: &'static str,
    making: Option<Step>,
}

const fn result(applied: &Result<(), ApplyError>) -> &'static str {
    match applied {
        Ok(()) => "done",
        Err(ApplyError::Stale) => "stale",
        Err(ApplyError::Duplicate(_)) => "duplicate",
        Err(ApplyError::InsufficientFunds) => "insufficient_funds",
        Err(ApplyError::Owing) => "owing",
        Err(ApplyError::Store(_)) => "store_failed",
    }
}

#[async_trait]
impl TransitionStore for TracedStore {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        let written = |write: &pix_domain::transition::Write| {
            let resource = write.record.resource();
            let is_new = write.guard == Guard::Absent;
            Written {
                id: resource.id,
                kind: resource.kind.as_str(),
                event: write.event.as_str(),
                making: is_new.then(|| Step::making(resource.id)).flatten(),
            }
        };
        let writes: Vec<Written> = transition.whole().flat_map(|one| &one.writes).map(written).collect();
        let told = |applied: &Result<(), ApplyError>| {
            let told = Told::new(Kind::Internal, "apply")
                .with("pix.result", result(applied))
                .with("pix.writes", u32::try_from(writes.len()).unwrap_or(u32::MAX))
                .failing(matches!(applied, Err(ApplyError::Store(_))));
            match writes.first() {
                Some(first) => told.with("pix.event", first.event),
                None => told,
            }
        };
        let applied = pix_traces::child(self.0.apply(transition), told).await;
        if applied.is_ok() {
            for Written { id, kind, event, making } in writes {
                Step::touch(id);
                if let Some(making) = making {
                    making.end(|| Told::new(Kind::Internal, kind).with("pix.event", event));
                }
            }
        }
        applied
    }

    /// Of a group nothing is told: nothing here writes one.
    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        self.0.apply_all(transitions).await
    }
}

/// A sender whose postbacks are of the traces of the records that they tell of; a trial is of that of its request.
pub struct TracedSender(pub Arc<dyn PostbackSender>);

/// The record whose event has that id; `None` for a trial, which is no event.
fn record_of(message_id: &str) -> Option<Uuid> {
    EventKey::parse(IntegratorId(Uuid::nil()), message_id).map(|key| key.resource.id)
}

#[async_trait]
impl PostbackSender for TracedSender {
    async fn send(&self, parcel: Parcel) -> Reply {
        let (record, event) = (record_of(&parcel.message_id), parcel.event.clone());
        let told = move |reply: &Reply| {
            let told = Told::new(Kind::Client, "postback")
                .with("http.request.method", "POST")
                .with("pix.event", event)
                .with("pix.outcome", reply.outcome())
                .failing(!reply.is_success());
            match reply.status() {
                Some(status) => told.with("http.response.status_code", status),
                None => told,
            }
        };
        let sending = self.0.send(parcel);
        match record {
            Some(record) => pix_traces::of_record(record, sending, told).await,
            None => pix_traces::child(sending, told).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use pix_domain::ids::{ResourceKind, ResourceRef, Version};
    use pix_domain::postbacks::send::MockPostbackSender;
    use pix_domain::text::PostbackUrl;
    use pix_domain::time::Timestamp;

    use super::*;

    fn parcel(message_id: String) -> Parcel {
        Parcel {
            url: PostbackUrl::parse("https://example.com").unwrap(),
            message_id,
            event: "cashin.confirmed".to_owned(),
            body: String::new(),
            sent_at: Timestamp::from_micros(0),
            secrets: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_postback_is_of_the_trace_of_its_record_and_a_trial_of_that_of_its_request() {
        let mut sender = MockPostbackSender::new();
        sender.expect_send().returning(|_| Reply::Answered {
            status: 200,
            retry_after: None,
            excerpt: pix_traces::traceparent().unwrap_or_default(),
        });
        let sender = TracedSender(Arc::new(sender));
        let id = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff);
        let resource = ResourceRef { integrator_id: IntegratorId(id), kind: ResourceKind::Refund, id };
        let event = EventKey { resource, sequence: Version(3) };
        let told = sender.send(parcel(event.public_id())).await.excerpt();
        assert!(told.starts_with(&format!("00-{}-", id.simple())), "{told}");
        let trial = || sender.send(parcel(format!("evt_ping_{}", id.simple())));
        assert_eq!(trial().await.excerpt(), "", "of no request");
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let request = Step::of_request(std::iter::once(given), std::iter::empty());
        let told = request.run(trial()).await.excerpt();
        assert!(told.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{told}");
    }
}
