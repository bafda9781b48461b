//! What is counted of requests, and what a span tells of one, for operators. Labels and attributes have few values: patterns of
//! routes and never paths.

use std::time::Duration;

use actix_web::http::{Method, StatusCode};
use pix_traces::{Kind, Told};

/// The histogram of how long requests take, for whoever sets its buckets.
pub const REQUEST_SECONDS: &str = "pix_http_request_seconds";

const REQUESTS: &str = "pix_http_requests_total";

/// The route of what no route takes.
pub(crate) const NO_ROUTE: &str = "none";

pub(crate) fn describe() {
    metrics::describe_counter!(REQUESTS, "Requests that were answered.");
    metrics::describe_histogram!(
        REQUEST_SECONDS,
        "How long they took, until the head of the answer was there."
    );
}

/// Counts an answered request.
pub(crate) fn count(method: &Method, route: &str, status: StatusCode, took: Duration) {
    let generation = generation(route);
    metrics::counter!(
        REQUESTS,
        "generation" => generation,
        "method" => name(method),
        "route" => route.to_owned(),
        "status" => status.as_str().to_owned()
    )
    .increment(1);
    metrics::histogram!(REQUEST_SECONDS, "generation" => generation, "route" => route.to_owned())
        .record(took.as_secs_f64());
}

/// What the span of an answered request says, by OpenTelemetry's conventions for HTTP servers.
pub(crate) fn told(method: &Method, route: &str, status: StatusCode) -> Told {
    let (named, method) = match name(method) {
        MADE_UP => ("HTTP", "_OTHER"),
        known => (known, known),
    };
    let told = if route == NO_ROUTE {
        Told::new(Kind::Server, named)
    } else {
        Told::new(Kind::Server, format!("{named} {route}")).with("http.route", route.to_owned())
    };
    told.with("http.request.method", method)
        .with("http.response.status_code", status.as_u16())
        .failing(status.is_server_error())
}

fn generation(route: &str) -> &'static str {
    let within =
        |base: &str| route.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if within("/v2/oauth/token") {
        "token"
    } else if within("/v2") {
        "v2"
    } else if within("/api/v1") {
        "v1"
    } else if within("/pay") {
        "pay"
    } else if within("/callbacks") {
        "callback"
    } else {
        "other"
    }
}

/// The method of those that a client has made up.
const MADE_UP: &str = "other";

/// Clients may make methods up.
fn name(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|known| method.as_str() == *known).unwrap_or(MADE_UP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_labels_have_few_values() {
        for (route, expected) in [
            ("/v2/oauth/token", "token"),
            ("/v2/pix/qrcode", "v2"),
            ("/api/v1/charges/{id}", "v1"),
            ("/pay/{id}", "pay"),
            ("/callbacks/{secret}", "callback"),
            ("/health/live", "other"),
            ("/v2x", "other"),
            (NO_ROUTE, "other"),
        ] {
            assert_eq!(generation(route), expected, "{route}");
        }
        assert_eq!(name(&Method::POST), "POST");
        assert_eq!(name(&Method::from_bytes(b"MADEUP").unwrap()), "other");
    }

    #[test]
    fn a_span_has_the_pattern_of_the_route_and_no_method_that_was_made_up() {
        let found = told(&Method::GET, "/api/v1/charges/{charge}", StatusCode::NOT_FOUND);
        assert_eq!((found.name.as_ref(), found.failed), ("GET /api/v1/charges/{charge}", false));
        let made_up = Method::from_bytes(b"MADEUP").unwrap();
        let found = told(&made_up, NO_ROUTE, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!((found.name.as_ref(), found.failed), ("HTTP", true));
        assert_eq!(
            found.attributes,
            [("http.request.method", "_OTHER".into()), ("http.response.status_code", 503_u16.into())]
        );
    }
}
