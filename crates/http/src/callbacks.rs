//! Callbacks of the settlement provider: a hint that something happened, and no more.
//!
//! A callback is stored as it came and answered at once; what it names is looked at afterwards
//! ([`pix_domain::callbacks`]). Nothing it claims is believed: the provider is asked, and its answer counts. So a forged
//! callback costs a question or a few, a repeated one changes nothing, and none is lost, whatever is down.
//!
//! However many come, they have limits of their own: how many a second, how many being stored, how many worked on. Past
//! the first two they are answered 503, which a provider takes for "send it again".

use std::num::NonZeroU32;
use std::sync::Arc;

use actix_web::HttpResponse;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use pix_domain::callbacks::{CallbackService, ClaimedCallback};
use pix_traces::{Kind, Step, Told};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tracing::Instrument;
use uuid::Uuid;

use crate::body;
use crate::error::ApiError;
use crate::extract::{Answer, Call, ok};
use crate::fields::{Form, Mode, Problems};
use crate::json::Object;

/// How many callbacks are stored at once.
const MAX_BEING_STORED: usize = 64;
/// How many callbacks this node works on at once.
const MAX_AT_WORK: usize = 16;
/// How many stored callbacks wait here for their turn. One more is left to whoever looks for what is due.
const MAX_IN_LINE: usize = 1024;

/// The limits of callbacks.
pub(crate) struct Door {
    rate: DefaultDirectRateLimiter,
    storing: Arc<Semaphore>,
    in_line: Arc<Semaphore>,
    at_work: Arc<Semaphore>,
}

impl Door {
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self {
            rate: RateLimiter::direct(Quota::per_second(per_second)),
            storing: Arc::new(Semaphore::new(MAX_BEING_STORED)),
            in_line: Arc::new(Semaphore::new(MAX_IN_LINE)),
            at_work: Arc::new(Semaphore::new(MAX_AT_WORK)),
        }
    }

    /// Works on a stored callback when its turn comes, in a task of its own and in the trace of the record that it names.
    fn line_up(&self, service: CallbackService, claimed: ClaimedCallback) {
        let Ok(place) = self.in_line.clone().try_acquire_owned() else { return };
        let (at_work, reference) = (self.at_work.clone(), claimed.callback.reference);
        let work = async move {
            let Ok(_permit) = at_work.acquire_owned().await else { return };
            drop(place);
            let id = claimed.callback.id;
            let reference = claimed.callback.reference.unwrap_or(id);
            let told = |done: &Result<_, _>| Told::new(Kind::Internal, "callback").failing(done.is_err());
            let done = pix_traces::of_record(reference, Box::pin(service.process(claimed)), told).await;
            if let Err(error) = done {
                tracing::warn!(%error, callback = %id, "a callback could not be worked on; it comes again");
            }
        };
        if let Some(reference) = reference {
            Step::touch(reference);
        }
        tokio::spawn(pix_traces::carried(work).instrument(tracing::Span::current()));
    }
}

/// Takes a callback. One that names nothing is kept and received too: sending it again would not help.
pub(crate) async fn receive(mut call: Call) -> Answer {
    let secret = call.path_part().await;
    if !bool::from(secret.as_bytes().ct_eq(call.state.config.callback_secret.as_bytes())) {
        return Err(ApiError::not_found());
    }
    let text = call.text().await?;
    // After the body, so that nobody holds a place by sending slowly.
    let door = &call.state.callbacks;
    let Ok(permit) = door.storing.clone().try_acquire_owned() else { return Err(ApiError::overloaded()) };
    if door.rate.check().is_err() {
        return Err(ApiError::overloaded());
    }
    let reference = reference(&text);
    let (named, service) =
        (reference.as_ref().ok().copied().flatten(), call.state.services.callbacks.clone());
    let kept = call.state.run(async move {
        let _permit = permit;
        service.keep(named, text).await
    });
    if let Some(claimed) = kept.await? {
        let (state, service) = (call.state.clone(), call.state.services.callbacks.clone());
        call.state.spawn(async move { state.callbacks.line_up(service, claimed) }).await?;
    }
    reference.map(|_| received())
}

fn received() -> HttpResponse {
    ok(Object::new().raw("received", "true"))
}

/// Our reference, in `external_id`: flat, or in the family's `requestBody`.
pub(crate) fn reference(text: &str) -> Result<Option<Uuid>, ApiError> {
    let form = Form::parse(text, Mode::Liberal)?;
    let mut problems = Problems::default();
    let within = form.child("requestBody", &mut problems)?;
    let read = |form: &Form<'_>, problems: &mut Problems| {
        form.optional("external_id", |text| Ok(Some(Uuid::try_parse(text).ok())), problems).flatten()
    };
    Ok(read(&form, &mut problems).or_else(|| read(&within, &mut problems)))
}

/// The provider's own word for a state, wherever its body has it.
pub(crate) fn provider_status(text: &str) -> Option<String> {
    let fields = body::object(text).ok()?;
    let status = match (fields.get("status"), fields.get("requestBody")) {
        (Some(status), _) => status.get(),
        (None, Some(within)) => body::object(within.get()).ok()?.get("status")?.get(),
        (None, None) => return None,
    };
    serde_json::from_str(status).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_found_flat_or_wrapped_in_either_spelling() {
        let id = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff);
        for body in [
            format!(r#"{{"external_id":"{id}"}}"#),
            format!(r#"{{"requestBody":{{"external_id":"{}"}},"status":1}}"#, id.simple()),
        ] {
            assert_eq!(reference(&body).unwrap(), Some(id), "{body}");
        }
        for body in ["{}", r#"{"external_id":"chg-1"}"#, r#"{"external_id":42}"#, r#"{"requestBody":"x"}"#] {
            assert_eq!(reference(body).unwrap(), None, "{body}");
        }
        assert!(reference("[]").is_err());
    }

    #[test]
    fn the_providers_status_is_found_flat_or_wrapped() {
        assert_eq!(provider_status(r#"{"status":"PAID"}"#).as_deref(), Some("PAID"));
        assert_eq!(provider_status(r#"{"requestBody":{"status":"PAID"}}"#).as_deref(), Some("PAID"));
        assert_eq!(provider_status(r#"{"status":{}}"#), None);
        assert_eq!(provider_status("<html>"), None);
    }
}
