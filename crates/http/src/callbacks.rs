//! Callbacks of the settlement provider: a hint that something happened, and no more.
//!
//! Nothing a callback claims is believed. It names a record by our reference; the provider is asked about that record,
//! and its answer counts. So a forged callback costs one question, and a repeated one changes nothing.

use actix_web::HttpResponse;
use pix_domain::error::ServiceError;
use pix_domain::transactions::ProviderAnswer;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::body;
use crate::error::ApiError;
use crate::extract::{Answer, Call, ok};
use crate::fields::{Form, Mode, Problems};
use crate::json::Object;

/// Takes a callback. A reference that names nothing is received too: sending it again would not help.
pub(crate) async fn receive(mut call: Call) -> Answer {
    let secret = call.path_part().await;
    if !bool::from(secret.as_bytes().ct_eq(call.state.config.callback_secret.as_bytes())) {
        return Err(ApiError::not_found());
    }
    let text = call.text().await?;
    // After the body, so that nobody holds a place by sending slowly.
    let Ok(permit) = call.state.callbacks.clone().try_acquire_owned() else {
        return Err(ApiError::overloaded());
    };
    let Some(reference) = reference(&text)? else { return Ok(received()) };
    let transactions = call.state.services.transactions.clone();
    let learnt = call
        .state
        .spawn(async move {
            let _permit = permit;
            match transactions.locate(reference).await? {
                Some(resource) => {
                    transactions.called_back(resource, &text).await;
                    transactions.consult(resource).await.map(|(_, answer)| Some(answer))
                }
                None => Ok(None),
            }
        })
        .await?;
    match learnt {
        Ok(Some(ProviderAnswer::NotAsked(error))) => {
            tracing::warn!(%error, "a callback could not be checked");
            Err(ApiError::provider_unavailable())
        }
        // The one who calls back about a record of ours knows it, so asking again later will tell more.
        Ok(Some(ProviderAnswer::NotKnown)) => Err(ApiError::provider_unavailable()),
        Ok(Some(ProviderAnswer::Known(_)) | None) | Err(ServiceError::NotFound) => Ok(received()),
        Err(error) => Err(error.into()),
    }
}

fn received() -> HttpResponse {
    ok(Object::new().raw("received", "true"))
}

/// Our reference, in `external_id`: flat, or in the family's `requestBody`.
fn reference(text: &str) -> Result<Option<Uuid>, ApiError> {
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
