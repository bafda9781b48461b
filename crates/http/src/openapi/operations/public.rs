//! The token endpoint, health, and the interface's own description.

use serde_json::json;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Content, Required};

use super::Told;
use crate::openapi::answers::{Kit, with_fields};
use crate::openapi::parameters;
use crate::openapi::schemas::token::{Live, Ready, Token, TokenForm, TokenMultipart, TokenRequest, Unready};
use crate::openapi::schemas::v1::PayerStatus;

pub(super) fn token(kit: &mut Kit) -> Told {
    let json = [
        (
            "in the body",
            json!({"grant_type": "client_credentials", "public_id": "pixpk_…", "secret": "pixsk_…"}),
        ),
        ("in the header", json!({})),
    ];
    let form = [(
        "in the body",
        json!({"grant_type": "client_credentials", "client_id": "pixpk_…", "client_secret": "pixsk_…"}),
    )];
    let body = RequestBodyBuilder::new()
        .description(Some(
            "None, an empty one, `{}` or `[]` are fine when the credentials are in the header. What looks like JSON is read as \
             JSON under any content type; otherwise the content type tells a form from a multipart one.",
        ))
        .content("application/json", kit.content::<TokenRequest>(&json))
        .content("application/x-www-form-urlencoded", kit.content::<TokenForm>(&form))
        .content("multipart/form-data", kit.content::<TokenMultipart>(&form))
        .required(Some(Required::False))
        .build();
    let answer = with_fields(
        kit.success::<Token>("A token."),
        &["RateLimit-Policy", "RateLimit", "Cache-Control", "Pragma"],
    );
    Told::new(
        "createToken",
        "Authentication",
        "Trade a key for an access token",
        "Client credentials of OAuth 2 (RFC 6749 §4.4). The key's `public_id` and `secret` go into HTTP Basic or into the body, \
         as JSON or a form, also by the names `client_id` and `client_secret`. Credentials in the header win over those in the \
         body. One token serves v1 and v2; a new one doesn't end an older one. An unknown id, a wrong secret, a revoked and an \
         expired key are answered alike.",
    )
    .body(body)
    .answers(200, answer)
    .refuses(400, &["malformed_request", "unsupported_grant_type"])
    .refuses(401, &["invalid_credentials"])
    .refuses(403, &["ip_not_allowed"])
    .refuses(408, &["request_timeout"])
    .refuses(413, &["payload_too_large"])
    .refuses(429, &["rate_limited"])
    .refuses(503, &["overloaded"])
}

pub(super) fn live(kit: &mut Kit) -> Told {
    Told::new("getLiveness", "Health", "Whether the process runs", "It asks nothing and nobody.")
        .answers(200, kit.success::<Live>("It runs."))
}

pub(super) fn ready(kit: &mut Kit) -> Told {
    let answer = kit.success::<Ready>("The store answers.");
    let unready = kit.success::<Unready>("The store doesn't answer, or too much is asked at once.");
    Told::new("getReadiness", "Health", "Whether it can do its work", "It asks the store.")
        .answers(200, answer)
        .answers(503, with_fields(unready, &["Retry-After"]))
}

pub(super) fn document(_kit: &mut Kit) -> Told {
    let object = ObjectBuilder::new().schema_type(Type::Object);
    let answer = kept("An OpenAPI 3.1 document.")
        .content("application/json", ContentBuilder::new().schema(Some(object)).build());
    Told::new(
        "getOpenApi",
        "Description",
        "This document",
        "The same as `pix-gateway openapi` prints. Kept for five minutes, and asked for again with `If-None-Match`.",
    )
    .with([parameters::if_none_match()])
    .answers(200, answer)
    .answers(304, unchanged())
}

pub(super) fn reference(_kit: &mut Kit) -> Told {
    let answer = kept("A page.").content("text/html", html());
    Told::new(
        "getReference",
        "Description",
        "This document, to be read",
        "One page without scripts, and without anything from elsewhere.",
    )
    .with([parameters::if_none_match()])
    .answers(200, answer)
    .answers(304, unchanged())
}

pub(super) fn error(_kit: &mut Kit) -> Told {
    let answer = kept("A page.").content("text/html", html());
    Told::new(
        "getError",
        "Description",
        "What an error means",
        "Where the `type` of a problem of v1 leads: a page that says, in English or Portuguese, when the error comes up and whether \
         the request may be sent again.",
    )
    .with([parameters::if_none_match()])
    .answers(200, answer)
    .answers(304, unchanged())
    .refuses(404, &["not_found"])
}

const PAYER: &str = "The charge's `uuid` is all that it takes. It shows what a payer may see, and nothing else of the charge.";

pub(super) fn payment_page(_kit: &mut Kit) -> Told {
    Told::new("getPaymentPage", "Payment page", "A page to pay a charge by", PAYER)
        .answers(200, shown("The page.", "text/html"))
        .answers(404, shown("There is no such charge.", "text/html"))
        .answers(429, with_fields(shown("Too many requests.", "text/html"), &["Retry-After"]))
        .answers(431, shown("The header fields are too large.", "text/html"))
        .answers(500, shown("Something went wrong.", "text/html"))
        .answers(503, with_fields(shown("Too much is asked at once.", "text/html"), &["Retry-After"]))
}

pub(super) fn payment_status(kit: &mut Kit) -> Told {
    Told::new("getPaymentStatus", "Payment page", "Whether a charge is paid", PAYER)
        .answers(
            200,
            with_fields(kit.success::<PayerStatus>("Where it stands."), &["RateLimit-Policy", "RateLimit"]),
        )
        .refuses(404, &["not_found"])
        .refuses(429, &["rate_limited"])
        .refuses(503, &["overloaded"])
}

pub(super) fn payment_events(_kit: &mut Kit) -> Told {
    Told::new("watchPayment", "Payment page", "Where a charge stands, as it changes", PAYER)
        .answers(200, shown("Events: each has what `getPaymentStatus` answers.", "text/event-stream"))
        .refuses(404, &["not_found"])
        .refuses(429, &["rate_limited"])
        .refuses(503, &["overloaded"])
}

fn shown(description: &str, media_type: &str) -> ResponseBuilder {
    let fields = ["X-Request-Id", "RateLimit-Policy", "RateLimit"];
    with_fields(ResponseBuilder::new().description(description), &fields).content(media_type, html())
}

fn html() -> Content {
    ContentBuilder::new().schema(Some(ObjectBuilder::new().schema_type(Type::String))).build()
}

fn kept(description: &str) -> ResponseBuilder {
    with_fields(ResponseBuilder::new().description(description), &["X-Request-Id", "ETag", "Cache-Control"])
}

fn unchanged() -> Response {
    kept("What you have is what there is.").build()
}
