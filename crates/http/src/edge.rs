//! What every request and every answer passes: the request id, the trace, the span of its log lines and the line about itself, the
//! error form, security headers, rate-limit headers, and CORS.
//!
//! The log line has the pattern of the route, never the path or the query: paths hold identifiers and secrets.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{Error, HttpMessage, HttpResponse, ResponseError, web};
use pix_traces::Step;
use tracing::Instrument;

use crate::error::{ApiError, Generation};
use crate::language::Language;
use crate::limits;
use crate::meters::{self, NO_ROUTE};
use crate::state::State;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// What is asked all the time, and no part of any trace.
const HEALTH: &str = "/health/";

/// The longest request id that is taken from a client.
const MAX_REQUEST_ID_CHARS: usize = 128;

/// The most bytes of names and values of header fields. The server itself would take twice 64 KiB.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// How long a browser may remember what CORS allows.
const CORS_MAX_AGE_SECONDS: u64 = 600;

const CORS_METHODS: &str = "GET, POST, DELETE";
const CORS_REQUEST_HEADERS: &str = "Authorization, Content-Type, Idempotency-Key, X-Request-Id";
const CORS_ANSWER_HEADERS: &str =
    "X-Request-Id, Location, Link, Retry-After, Idempotency-Replayed, RateLimit, RateLimit-Policy";

/// What every answer has: OWASP REST Security Cheat Sheet, "Security Headers". Answers are data for programs; a browser
/// that shows one must not guess what it is, run it, frame it or keep it. Pictures may be kept for a while, and the
/// payment page has a policy of its own.
const SECURITY_HEADERS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// What answers have beside those when the public URL is https: a year of nothing else (RFC 6797).
const ONLY_TLS: &str = "max-age=31536000";

/// The body of a request, for whoever reads it.
#[derive(Clone)]
pub(crate) struct Body(pub(crate) Rc<RefCell<Payload>>);

/// The body of an answer, holding that of its request. A chunked body that was dropped unread would be read on for as
/// long as the client sends it; one that is still held makes the connection end with the answer.
struct Holding {
    answer: BoxBody,
    _request: Body,
}

impl MessageBody for Holding {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.answer.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.answer).poll_next(context)
    }
}

/// The middleware around all routes.
pub(crate) async fn edge(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(state) = request.app_data::<web::Data<State>>().cloned() else {
        return next.call(request).await;
    };
    let started = Instant::now();
    let request_id = request_id(request.headers(), &state);
    let generation = Generation::of(request.path(), request.headers());
    let method = request.method().clone();
    let origin = allowed_origin(request.headers(), &state.config.cors_allow_origins);
    let step = Step::of_request(texts(request.headers(), TRACEPARENT), texts(request.headers(), TRACESTATE));
    let span = tracing::info_span!(
        "request",
        request_id = %request_id,
        trace_id = step.trace_id(),
        span_id = step.span_id(),
        integrator = tracing::field::Empty
    );

    let body = Body(Rc::new(RefCell::new(request.take_payload())));
    request.extensions_mut().insert(body.clone());
    let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let preflight = method == Method::OPTIONS
        && origin.is_some()
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let answer = if preflight {
        request.into_response(HttpResponse::NoContent().finish())
    } else if header_bytes(request.headers()) > MAX_HEADER_BYTES {
        request.into_response(ApiError::headers_too_large(MAX_HEADER_BYTES).error_response())
    } else {
        step.run(next.call(request)).instrument(span.clone()).await?
    };
    let mut answer = with_error_form(answer, generation, &request_id, &state);
    if chunked {
        answer = answer.map_body(|_, answer| BoxBody::new(Holding { answer, _request: body }));
    }
    let headers = answer.headers_mut();
    insert(headers, REQUEST_ID, &request_id);
    for (name, value) in SECURITY_HEADERS {
        // What is meant for a browser says itself what that may do with it.
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    if state.config.public_url.starts_with("https://") {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(ONLY_TLS));
    }
    if let Some(origin) = origin {
        allow_origin(headers, origin, preflight);
    }

    if state.config.stopping.has_begun() {
        // Whoever keeps the connection must not send the next request into its end.
        answer.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    let took = started.elapsed();
    let duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let route = answer.request().match_pattern();
    let route = route.as_deref().unwrap_or(NO_ROUTE);
    meters::count(&method, route, answer.status(), took);
    span.in_scope(|| {
        tracing::info!(
            method = %method,
            route,
            status = answer.status().as_u16(),
            duration_us,
            "answered"
        );
    });
    if !route.starts_with(HEALTH) {
        step.end(|| meters::told(&method, route, answer.status()));
    }
    Ok(answer)
}

/// The values of a field, of those that are no text nothing.
fn texts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).map(|value| value.to_str().unwrap_or_default())
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len().saturating_add(value.len())).sum()
}

fn insert(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// The client's id for the request when it is 1 to 128 visible ASCII characters, else one of ours.
fn request_id(headers: &HeaderMap, state: &State) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let fits = |id: &&str| {
        (1..=MAX_REQUEST_ID_CHARS).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    given.filter(fits).map_or_else(|| state.services.ids.next().simple().to_string(), str::to_owned)
}

/// Writes an error in the form of its generation, and the state of the rate limit beside whatever is answered.
fn with_error_form(
    answer: ServiceResponse<BoxBody>,
    generation: Generation,
    request_id: &str,
    state: &State,
) -> ServiceResponse<BoxBody> {
    let status = answer.status();
    let ours = answer.response().extensions().get::<ApiError>().cloned();
    let failure = ours.or_else(|| answer.response().error().map(|_foreign| ApiError::foreign(status)));
    let wait = failure.as_ref().filter(|_| status == StatusCode::TOO_MANY_REQUESTS);
    let wait = wait.and_then(ApiError::retry_after_seconds);
    let rate = limits::told(&answer.request().extensions(), wait).map(|told| told.fields());
    let mut answer = match failure {
        Some(failure) => {
            let (request, _) = answer.into_parts();
            let language = Language::of(request.headers(), Language::English);
            ServiceResponse::new(request, failure.render(generation, language, request_id, &state.config))
        }
        None => answer,
    };
    let headers = answer.headers_mut();
    headers.remove("x-ratelimit-limit");
    headers.remove("x-ratelimit-remaining");
    if let Some((policy, rate)) = rate {
        insert(headers, RATE_LIMIT_POLICY, &policy);
        insert(headers, RATE_LIMIT, &rate);
    }
    answer
}

fn allowed_origin(headers: &HeaderMap, allowed: &[String]) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    allowed.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue, preflight: bool) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if preflight {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(CORS_METHODS));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(CORS_REQUEST_HEADERS));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(CORS_MAX_AGE_SECONDS));
    } else {
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(CORS_ANSWER_HEADERS));
    }
}
