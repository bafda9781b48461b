//! `/api/v1/deliveries` and `/api/v1/postbacks`: delivering much at once once more, trying out a URL, the receivers that
//! fail, and where splits are told of.

use actix_web::HttpResponse;
use pix_domain::error::ServiceError;
use pix_domain::invalid::Invalid;
use pix_domain::postbacks::delivery::{Endpoint, EndpointId, ReplayQuery};
use pix_domain::postbacks::send::Reply;
use pix_domain::postbacks::service::{MAX_REPLAYED, PostbackService};
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use super::events::{distinct, kind};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::{Form, Mode, Problems};
use crate::json::{self, Object};
use crate::{requests, time};

/// When a client is to ask again that has another trial under way, in seconds.
const TRIAL_RETRY_AFTER_SECONDS: u64 = 5;

/// Delivers once more what the body names.
pub(crate) async fn replay(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let query = read_replay(&call.text().await?)?;
    let postbacks = call.state.services.postbacks.clone();
    let replayed = call.state.run(async move { postbacks.replay(caller.integrator_id, query).await }).await?;
    let body = Object::new().number("replayed", replayed);
    Ok(HttpResponse::Accepted().content_type("application/json").body(body.end()))
}

/// Sends a signed trial to a URL and says what came of it.
pub(crate) async fn try_out(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let url = read_url(&call.text().await?, &call.state.services.postbacks)?;
    let postbacks = call.state.services.postbacks.clone();
    let whose = caller.integrator_id;
    let trial = call.state.trials.begin(whose);
    let trial = trial.ok_or_else(|| ApiError::rate_limited(TRIAL_RETRY_AFTER_SECONDS))?;
    let work = async move {
        let tried = postbacks.try_out(whose, url).await;
        drop(trial);
        tried
    };
    let (reply, took) = call.state.run(work).await?;
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    Ok(ok(of_reply(&reply, duration_ms)))
}

/// The endpoints that have failed lately.
pub(crate) async fn endpoints(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let postbacks = call.state.services.postbacks.clone();
    let found = call.state.run(async move { postbacks.endpoints(caller.integrator_id).await }).await?;
    let data = json::array(found.iter().map(|endpoint| of_endpoint(endpoint).end()));
    Ok(ok(Object::new().raw("data", &data)))
}

/// Switches an endpoint on again. Nothing is wanted of the body, so any will do.
pub(crate) async fn enable(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    call.bytes().await?;
    let Ok(id) = Uuid::try_parse(&call.path_part().await) else {
        return Err(ServiceError::NotFound.into());
    };
    let postbacks = call.state.services.postbacks.clone();
    call.state.run(async move { postbacks.enable(caller.integrator_id, EndpointId(id)).await }).await?;
    Ok(ok(Object::new().text("id", &id.to_string()).raw("off", "null")))
}

/// Where the integrator is told of splits.
pub(crate) async fn of_splits(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let integrators = call.state.services.integrators.clone();
    let found = call.state.run(async move { integrators.find(caller.integrator_id).await }).await?;
    Ok(ok(of_place(found.and_then(|integrator| integrator.split_postback).as_ref())))
}

/// Sets where the integrator is told of splits that come to be from now on.
pub(crate) async fn set_of_splits(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let text = call.text().await?;
    let place = read_place(&text, |url| call.state.services.postbacks.check(url))?;
    let (integrators, url) = (call.state.services.integrators.clone(), place.clone());
    let set = call.state.run(async move { integrators.set_split_postback(caller.integrator_id, url).await });
    if !set.await? {
        return Err(ServiceError::NotFound.into());
    }
    Ok(ok(of_place(place.as_ref())))
}

/// What is to be delivered once more.
pub(crate) fn read_replay(text: &str) -> Result<ReplayQuery, ApiError> {
    let form = Form::parse(text, Mode::Strict)?;
    let mut problems = Problems::default();
    let since = form.optional("since", moment, &mut problems);
    let until = form.optional("until", moment, &mut problems);
    let kinds = distinct(&form.texts("types", kind, &mut problems));
    let status = |text: &str| match text {
        "dead" => Ok(Some(false)),
        "all" => Ok(Some(true)),
        _ => Err(Invalid::new(Invalid::UNKNOWN_VALUE, "must be dead or all")),
    };
    let delivered = form.optional("status", status, &mut problems).unwrap_or(false);
    let limit = form.whole_number("limit", 1..=u64::from(MAX_REPLAYED), &mut problems);
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        problems.add("until", "mismatch", "must be later than since");
    }
    problems.check()?;
    let limit = limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(MAX_REPLAYED);
    Ok(ReplayQuery { since, until, kinds, delivered, limit })
}

fn moment(text: &str) -> Result<Option<Timestamp>, Invalid> {
    match time::parse_rfc3339(text) {
        Some(at) => Ok(Some(at)),
        None => Err(Invalid::new(
            Invalid::INVALID_FORMAT,
            "must be a time of RFC 3339, such as 2026-10-07T00:00:00Z",
        )),
    }
}

fn read_url(text: &str, postbacks: &PostbackService) -> Result<PostbackUrl, ApiError> {
    let form = Form::parse(text, Mode::Strict)?;
    let mut problems = Problems::default();
    let parse = |text: &str| {
        let url = PostbackUrl::parse(text).map_err(|invalid| {
            // Elsewhere the field has another name.
            Invalid::new(invalid.code, invalid.message.replacen("postbackUrl", "url", 1))
        })?;
        postbacks.check(&url).map(|()| url)
    };
    form.required("url", parse, &mut problems).ok_or_else(|| problems.into_error())
}

/// Where splits are told of; `None` for nowhere. A body that says nothing of it is a mistake, and changes nothing.
pub(crate) fn read_place(
    text: &str,
    check: impl Fn(&PostbackUrl) -> Result<(), Invalid>,
) -> Result<Option<PostbackUrl>, ApiError> {
    let form = Form::parse(text, Mode::Strict)?;
    let mut problems = Problems::default();
    if !form.has("postbackUrl") {
        problems.add("postbackUrl", Invalid::REQUIRED, "postbackUrl is required");
    }
    let place = requests::postback_url(&form, &check, &mut problems);
    problems.check()?;
    Ok(place)
}

fn of_place(url: Option<&PostbackUrl>) -> Object {
    Object::new().maybe("postbackUrl", url.map(PostbackUrl::as_str))
}

fn of_reply(reply: &Reply, duration_ms: u64) -> Object {
    let status = reply.status().map_or_else(|| "null".to_owned(), |status| status.to_string());
    Object::new()
        .raw("delivered", if reply.is_success() { "true" } else { "false" })
        .raw("status", &status)
        .text("outcome", &reply.outcome())
        .number("duration_ms", duration_ms)
        .text("response", &reply.excerpt())
}

fn of_endpoint(endpoint: &Endpoint) -> Object {
    let off = endpoint.off.map_or_else(
        || "null".to_owned(),
        |(at, reason)| Object::new().text("at", &time::rfc3339(at)).text("reason", reason.as_str()).end(),
    );
    Object::new()
        .text("id", &endpoint.id.0.to_string())
        .text("address", &endpoint.address)
        .text("failing_since", &time::rfc3339(endpoint.failing_since))
        .text("last_failure_at", &time::rfc3339(endpoint.failed_at))
        .text("failure", &endpoint.failure)
        .raw("off", &off)
}
