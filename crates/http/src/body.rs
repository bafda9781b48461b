//! Bodies: reading them within a limit of size and time, and taking JSON objects apart without losing anything.
//!
//! An object is taken apart into its fields as raw text. Nothing here turns a number into a float, and an object with
//! a field twice is refused: readers differ on which of the two counts.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue};
use actix_web::web::{Bytes, BytesMut};
use futures_util::StreamExt;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::config::HttpConfig;
use crate::error::ApiError;

/// The fields of an object, as raw text.
pub(crate) type RawFields<'a> = BTreeMap<String, &'a RawValue>;

/// Reads a whole body.
pub(crate) async fn read(
    request: &HttpRequest,
    payload: &mut Payload,
    config: &HttpConfig,
) -> Result<Bytes, ApiError> {
    let limit = config.body_limit_bytes;
    if request.headers().get(CONTENT_ENCODING).is_some_and(is_compressed) {
        return Err(ApiError::malformed("the body must not be compressed: send it without Content-Encoding"));
    }
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > limit) {
        return Err(ApiError::too_large(limit));
    }
    let reading = async {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = payload.next().await {
            let chunk = chunk.map_err(|error| unreadable(&error, limit))?;
            if bytes.len().saturating_add(chunk.len()) > limit {
                return Err(ApiError::too_large(limit));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    };
    tokio::time::timeout(config.body_deadline, reading)
        .await
        .unwrap_or_else(|_elapsed| Err(ApiError::too_slow()))
}

/// Whether it names a coding (RFC 9110, section 8.4.1; zstd by RFC 8878, br by RFC 7932). What names a character set instead, as some
/// clients do, says nothing.
fn is_compressed(codings: &HeaderValue) -> bool {
    let codings = codings.to_str().unwrap_or_default().to_ascii_lowercase();
    let known = ["gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"];
    codings.split(',').any(|coding| known.contains(&coding.trim()))
}

fn unreadable(error: &PayloadError, limit: usize) -> ApiError {
    match error {
        PayloadError::Overflow => ApiError::too_large(limit),
        _ => ApiError::malformed("the body could not be read"),
    }
}

/// The text of a body.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, ApiError> {
    std::str::from_utf8(bytes).map_err(|_not_utf8| ApiError::malformed("the body must be UTF-8"))
}

/// Takes a JSON object apart.
pub(crate) fn object(text: &str) -> Result<RawFields<'_>, ApiError> {
    match serde_json::from_str::<Fields<'_>>(text) {
        Ok(Fields { twice: Some(name), .. }) => {
            Err(ApiError::named_twice("the body must not name a field twice", &name))
        }
        Ok(Fields { fields, .. }) => Ok(fields),
        // All of it was there, and it is something else; or it is empty.
        Err(error) if error.is_data() || text.trim().is_empty() => {
            Err(ApiError::malformed("the body must be a JSON object"))
        }
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            Err(ApiError::malformed(&format!("the body is no JSON: look at line {line}, column {column}")))
        }
    }
}

struct Fields<'a> {
    fields: RawFields<'a>,
    /// One that was there before.
    twice: Option<String>,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut twice) = (RawFields::new(), None);
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            match fields.entry(name) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(taken) => twice = Some(taken.key().clone()),
            }
        }
        Ok(Fields { fields, twice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_taken_apart_as_text() {
        let fields = object(" {\"amount\": 19.990 , \"a\\u006d\": [1e400], \"s\":\"\\ud800\"} ").unwrap();
        assert_eq!(fields["amount"].get(), "19.990");
        assert_eq!(fields["am"].get(), "[1e400]");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in [
            "",
            " ",
            "null",
            "[]",
            "1",
            "\"a\"",
            "{",
            "{}x",
            "{} {}",
            "{\"a\":1_000}",
            "{\"a\":NaN}",
            "{\"a\":01}",
            "{'a':1}",
            "{\"a\":1,}",
            "\u{FEFF}{}",
            "{\"a\":}",
            "{\"a\":\"\u{1}\"}",
        ] {
            assert!(object(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_json_is_told_from_what_is_no_object() {
        let said = |text| format!("{:?}", object(text).unwrap_err());
        for other in ["", " \n", "null", "[]", "1"] {
            assert!(said(other).contains("must be a JSON object"), "{other:?}");
        }
        for (broken, place) in
            [("{\n\"a\": 1,}", "line 2, column 8"), ("{", "line 1, column 1"), ("a=1", "line 1, column 1")]
        {
            assert!(said(broken).contains(place), "{broken:?}: {}", said(broken));
        }
    }

    #[test]
    fn a_coding_is_told_from_a_character_set() {
        for (value, compressed) in [
            ("gzip", true),
            ("GZIP", true),
            ("identity, br", true),
            ("identity", false),
            ("UTF-8", false),
            ("", false),
        ] {
            assert_eq!(is_compressed(&HeaderValue::from_static(value)), compressed, "{value}");
        }
    }

    #[test]
    fn a_field_named_twice_is_refused_however_it_is_spelt() {
        for text in ["{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":2,\"\\u0061\":3}"] {
            assert!(format!("{:?}", object(text).unwrap_err()).contains("a field twice: a\""), "{text}");
        }
        // What may be something else than the name of a field isn't repeated.
        for name in ["", "52998224725", "ana@example.com", "Ana Lima", &"a".repeat(41)] {
            let told = format!("{:?}", object(&format!("{{{name:?}:1,{name:?}:2}}")).unwrap_err());
            assert!(told.contains("a field twice\""), "{told}");
        }
        // It is no JSON, whatever came before.
        assert!(format!("{:?}", object("{\"a\":1,\"a\":1,").unwrap_err()).contains("no JSON"));
    }

    #[test]
    fn a_hostile_object_costs_little() {
        let nested = format!("{{\"a\":{}{}}}", "[".repeat(30_000), "]".repeat(30_000));
        assert!(object(&nested).is_ok());
        let many: Vec<String> = (0..9_000).map(|number| format!("\"{number}\":0")).collect();
        assert_eq!(object(&format!("{{{}}}", many.join(","))).unwrap().len(), 9_000);
    }
}
