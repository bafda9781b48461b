//! What holds for any bytes at all: the entry functions of fuzz targets in `tests/fuzz`, and no part of the interface.
//!
//! Each takes an input as it would come from outside, and panics when a law is broken. `tests/tests/fuzz_corpus.rs` feeds
//! them every seed.

mod bodies;
mod lines;

use std::sync::LazyLock;

use actix_web::ResponseError;
use actix_web::body::MessageBody;
use serde_json::{Map, Value};

pub use bodies::{amount, callbacks, token_bodies, v1_bodies, v2_bodies};
pub use lines::{cursors, headers};

use crate::config::HttpConfig;
use crate::error::{ApiError, Generation};
use crate::language::Language;

/// The fewest digits in a row that would give somebody away.
const TELLING_DIGITS: usize = 8;

/// What sentences of ours hold of digits.
const OUR_DIGITS: [&str; 2] = ["9999999999", "5511987654321"];

static CONFIG: LazyLock<HttpConfig> =
    LazyLock::new(|| HttpConfig::new("https://pix.example.com", "a-callback-secret-of-nobody"));

/// What is refused is the caller's fault, is told in the form of its generation, and in words that don't repeat what was
/// sent.
fn refused(error: &ApiError, generation: Generation, sent: &str) {
    let status = error.status_code();
    assert!(status.is_client_error(), "{error} is answered {status}");
    let request_id = "fuzz";
    let answer = error.render(generation, Language::Portuguese, request_id, &CONFIG);
    assert_eq!(answer.status(), status);
    let Ok(body) = answer.into_body().try_into_bytes() else { panic!("an error that is streamed") };
    let text = String::from_utf8_lossy(&body);
    let fields = object(&text).unwrap_or_else(|| panic!("an error that is no JSON: {text}"));
    let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (status_field, message) = match generation {
        Generation::V1 => ("status", "detail"),
        Generation::V2 | Generation::Page(_) => ("statusCode", "message"),
    };
    assert_eq!(fields.get(status_field), Some(&Value::from(status.as_u16())), "{text}");
    assert_eq!(field("requestId"), request_id, "{text}");
    assert!(!field(message).is_empty() && !field("code").is_empty(), "{text}");
    let titled = !matches!(field("title"), "" | "Error");
    assert_eq!(titled, generation == Generation::V1, "{text}");
    keeps_to_itself(&text, sent);
}

/// Documents, keys and telephone numbers are digits for the most part.
fn keeps_to_itself(told: &str, sent: &str) {
    for digits in sent.split(|c: char| !c.is_ascii_digit()).filter(|run| run.len() >= TELLING_DIGITS) {
        let ours = OUR_DIGITS.iter().any(|ours| ours.contains(digits));
        assert!(ours || !told.contains(digits), "{told:?} repeats what was sent");
    }
}

/// A JSON object as another reader sees it; `None` for what that can't read, such as numbers beyond floats.
fn object(text: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}
