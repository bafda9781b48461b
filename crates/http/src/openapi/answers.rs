//! Answers: successes, and refusals in the form of either generation.
//!
//! A refusal is told by its status and its codes. One that many operations have stands under `components`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr, Required};

use super::parameters::Field;
use super::schemas::errors::{Problem, V2Error};
use crate::error::{self, Generation};

/// What is usual of a status: the codes that every operation may answer it with.
pub(super) const USUAL: [(u16, &[&str]); 12] = [
    (400, &["malformed_request"]),
    (401, &["invalid_token", "expired_token"]),
    (403, &["insufficient_scope", "ip_not_allowed"]),
    (404, &["not_found"]),
    (408, &["request_timeout"]),
    (413, &["payload_too_large"]),
    (422, &["validation_failed"]),
    (429, &["rate_limited"]),
    (431, &["headers_too_large"]),
    (500, &["internal"]),
    (503, &["overloaded"]),
    (504, &["provider_timeout"]),
];

/// When a status is answered, in words.
fn meaning(status: u16, codes: &[&str]) -> &'static str {
    match status {
        406 if codes == ["not_acceptable"] => "There is none in a form that you take.",
        400 => "The request can't be read. Don't send it again.",
        401 => "Nobody knows who sends this. Get a token and send it again.",
        403 => "The key is not good for this.",
        404 => "There is no such thing, or it belongs to somebody else.",
        406 => "The provider refused for good, and nothing is sent.",
        408 => "The body came too slowly. Send it again.",
        409 => "It doesn't fit what is there.",
        413 => "The body has more than 64 KiB.",
        422 => "It is understood, and can't be done.",
        429 => "Too many requests. Come back after `Retry-After` seconds.",
        431 => "The header fields have more than 16 KiB.",
        500 => "Something went wrong here. Send it again with the same handle.",
        503 => "Nothing was done. Come back after `Retry-After` seconds.",
        504 => "The provider gave no usable answer in time. Send it again with the same handle.",
        _ => "An error.",
    }
}

/// Collects what operations refer to.
#[derive(Default)]
pub(super) struct Kit {
    pub(super) schemas: BTreeMap<String, RefOr<Schema>>,
    pub(super) responses: BTreeMap<String, Response>,
}

impl Kit {
    /// A reference to the schema of `T`, which stands under `components` from now on, with all that it refers to.
    pub(super) fn schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        let mut within = Vec::new();
        T::schemas(&mut within);
        self.schemas.extend(within);
        self.schemas.insert(T::name().into_owned(), T::schema());
        RefOr::Ref(Ref::from_schema_name(T::name()))
    }

    /// A body of JSON, with named examples.
    pub(super) fn json<T: ToSchema>(&mut self, examples: &[(&str, Value)]) -> RequestBody {
        RequestBodyBuilder::new()
            .content("application/json", self.content::<T>(examples))
            .required(Some(Required::True))
            .build()
    }

    /// What is in a body, with named examples.
    pub(super) fn content<T: ToSchema>(&mut self, examples: &[(&str, Value)]) -> Content {
        let examples = examples.iter().map(|(name, value)| {
            (*name, ExampleBuilder::new().summary(*name).value(Some(value.clone())).build())
        });
        ContentBuilder::new().schema(Some(self.schema::<T>())).examples_from_iter(examples).build()
    }

    /// A success, with what every answer has.
    pub(super) fn success<T: ToSchema>(&mut self, description: &str) -> ResponseBuilder {
        let content = ContentBuilder::new().schema(Some(self.schema::<T>())).build();
        with_fields(ResponseBuilder::new().description(description), &["X-Request-Id"])
            .content("application/json", content)
    }

    /// A refusal; one with the usual codes is a reference.
    pub(super) fn refusal(
        &mut self,
        generation: Generation,
        status: u16,
        codes: &[&'static str],
        limited: bool,
    ) -> RefOr<Response> {
        let usual = USUAL.iter().any(|(other, usual)| *other == status && *usual == codes) && limited;
        let response = self.written_out(generation, status, codes, limited);
        if !usual {
            return response.into();
        }
        let name = match generation {
            Generation::V1 => format!("Problem{status}"),
            Generation::V2 | Generation::Page(_) => format!("V2Error{status}"),
        };
        self.responses.insert(name.clone(), response);
        RefOr::Ref(Ref::from_response_name(name))
    }

    fn written_out(
        &mut self,
        generation: Generation,
        status: u16,
        codes: &[&'static str],
        limited: bool,
    ) -> Response {
        let (schema, media_type) = match generation {
            Generation::V1 => (self.schema::<Problem>(), "application/problem+json"),
            Generation::V2 | Generation::Page(_) => (self.schema::<V2Error>(), "application/json"),
        };
        let told = codes;
        let examples = codes.iter().map(|code| {
            (
                *code,
                ExampleBuilder::new().summary(*code).value(Some(example(generation, status, code))).build(),
            )
        });
        let content = ContentBuilder::new().schema(Some(schema)).examples_from_iter(examples).build();
        let codes: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
        let description = format!("{} `code` is {}.", meaning(status, told), codes.join(" or "));
        let mut fields = vec!["X-Request-Id"];
        // Too many header fields are seen before the limits are.
        if limited && status != 431 {
            fields.extend(["RateLimit-Policy", "RateLimit"]);
        }
        if matches!(status, 429 | 503) {
            fields.push("Retry-After");
        }
        if matches!(status, 401 | 403) {
            fields.push("WWW-Authenticate");
        }
        with_fields(ResponseBuilder::new().description(description), &fields)
            .content(media_type, content)
            .build()
    }
}

/// Adds header fields that are described under `components`.
pub(super) fn with_fields(response: ResponseBuilder, names: &[&str]) -> ResponseBuilder {
    names.iter().fold(response, |response, name| response.header_ref(*name, Field::reference(name)))
}

fn example(generation: Generation, status: u16, code: &str) -> Value {
    let title = error::title(code);
    match generation {
        Generation::V1 => json!({
            "type": format!("https://pix.example/errors/{}", error::slug(code)),
            "title": title,
            "status": status,
            "detail": title,
            "code": code,
            "requestId": "019c000000007000800000000000000a",
        }),
        Generation::V2 | Generation::Page(_) => json!({
            "statusCode": status,
            "message": title,
            "code": code,
            "requestId": "019c000000007000800000000000000a",
        }),
    }
}
