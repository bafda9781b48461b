//! `POST /v2/oauth/token`: client credentials of OAuth 2 (RFC 6749 §4.4), in every shape that clients send them.

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap, PRAGMA};
use actix_web::web;
use pix_domain::credentials::PlainSecret;
use pix_domain::credentials::service::AuthError;

use crate::body;
use crate::error::ApiError;
use crate::extract::{self, Answer, Call};
use crate::json::Object;
use crate::overload;

/// What a body of the token endpoint may say.
#[derive(Default)]
pub(crate) struct Grant {
    kind: Option<String>,
    pub(crate) public_id: Option<String>,
    pub(crate) secret: Option<String>,
    scope: Option<String>,
}

impl Grant {
    fn of(mut values: BTreeMap<String, String>) -> Self {
        // What is empty is left out, as in `grant_type=&client_id=…`.
        values.retain(|_, value| !value.is_empty());
        let mut either = |name, alias| values.remove(name).or_else(|| values.remove(alias));
        Self {
            public_id: either("public_id", "client_id"),
            secret: either("secret", "client_secret"),
            kind: values.remove("grant_type"),
            scope: values.remove("scope"),
        }
    }
}

/// Answers with a token. Credentials in the header win over those in the body.
pub(crate) async fn issue(mut call: Call) -> Answer {
    let basic = extract::authorization(call.http.headers())
        .map_err(|error| error.oauth("invalid_request"))?
        .and_then(|value| extract::after_scheme(value, "Basic"))
        .map(basic_credentials);
    let bytes = call.bytes().await?;
    let grant = match (read(call.http.headers(), &bytes), &basic) {
        (Ok(grant), _) => grant,
        (Err(_), Some(_)) => Grant::default(),
        (Err(error), None) => return Err(error.oauth("invalid_request")),
    };
    if grant.kind.is_some_and(|kind| kind != "client_credentials") {
        return Err(ApiError::unsupported_grant_type());
    }
    let credentials = match basic {
        Some(credentials) => credentials,
        None => grant.public_id.zip(grant.secret),
    };
    let Some((public_id, secret)) = credentials else { return Err(AuthError::InvalidCredentials.into()) };

    let (authenticator, client) = (call.state.services.authenticator.clone(), call.client());
    let id = public_id.clone();
    let sign_in = async move { authenticator.sign_in(&id, PlainSecret(secret), client).await };
    let issued = overload::sign_in(&call.state.places, call.state.spawn(sign_in)).await??.map_err(refused)?;
    call.note_use(&public_id);
    let mut body = Object::new()
        .text("access_token", &issued.token)
        .text("token_type", "Bearer")
        .number("expires_in", issued.ttl.as_secs());
    if grant.scope.is_some() {
        // A token is good for all that its key is. RFC 6749 §3.3 has that said to who asked for something else.
        body = body.text("scope", &issued.scopes.to_string());
    }
    Ok(HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((PRAGMA, "no-cache"))
        .body(body.end()))
}

fn refused(error: AuthError) -> ApiError {
    let elsewhere = error == AuthError::IpNotAllowed;
    let answer = ApiError::from(error);
    if elsewhere { answer.oauth("unauthorized_client") } else { answer }
}

/// Reads a body by what it looks like; the content type only tells the two kinds of form apart.
pub(crate) fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Grant, ApiError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = body::text(bytes)?.trim();
    if text.is_empty() || text == "[]" {
        return Ok(Grant::default());
    }
    if text.starts_with('{') {
        let fields = body::object(text)?;
        let values = fields.into_iter().filter_map(|(name, value)| {
            let text = serde_json::from_str::<String>(value.get());
            Some((name, text.ok().or_else(|| (value.get() != "null").then(|| value.get().to_owned()))?))
        });
        return Ok(Grant::of(values.collect()));
    }
    let lower = content_type.to_ascii_lowercase();
    if lower.starts_with("multipart/") {
        return multipart(content_type, text).map(Grant::of);
    }
    if lower.contains("json") {
        return Err(ApiError::malformed("the body must be a JSON object"));
    }
    let pairs = web::Query::<Vec<(String, String)>>::from_query(text)
        .map_err(|_not_a_form| ApiError::malformed("the body must be JSON or a form"))?;
    once(pairs.into_inner()).map(Grant::of)
}

fn once(pairs: Vec<(String, String)>) -> Result<BTreeMap<String, String>, ApiError> {
    let mut values = BTreeMap::new();
    for (name, value) in pairs {
        if values.insert(name, value).is_some() {
            return Err(ApiError::malformed("the body must not name a field twice"));
        }
    }
    Ok(values)
}

/// The text fields of `multipart/form-data` (RFC 7578), which is what PHP's cURL sends for an array.
fn multipart(content_type: &str, text: &str) -> Result<BTreeMap<String, String>, ApiError> {
    let refused = || ApiError::malformed("the body must be well-formed multipart/form-data");
    let boundary = parameter(content_type, "boundary").ok_or_else(refused)?;
    let delimiter = format!("--{boundary}");
    let mut pairs = Vec::new();
    for part in text.split(delimiter.as_str()).skip(1) {
        if part.starts_with("--") {
            return once(pairs);
        }
        let (head, value) = part.split_once("\r\n\r\n").ok_or_else(refused)?;
        let disposition = head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))
            .ok_or_else(refused)?;
        let name = parameter(disposition, "name").ok_or_else(refused)?;
        pairs.push((name.to_owned(), value.strip_suffix("\r\n").unwrap_or(value).to_owned()));
    }
    Err(refused())
}

/// The value of a parameter in a header's value: `a; name="value"`.
fn parameter<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let value = header.split(';').skip(1).find_map(|parameter| {
        let (given, value) = parameter.trim().split_once('=')?;
        given.eq_ignore_ascii_case(name).then_some(value)
    })?;
    let value = value.trim().trim_matches('"');
    (!value.is_empty()).then_some(value)
}

/// User and password of HTTP Basic (RFC 7617).
pub(crate) fn basic_credentials(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(base64(encoded)?).ok()?;
    // `echo id:secret | base64` encodes the end of the line too, which no secret of ours has.
    let (user, password) = text.trim_end_matches(['\r', '\n']).split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// Base64 (RFC 4648 §4 and §5), padded or not.
fn base64(encoded: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let (mut held, mut held_bits) = (0_u32, 0_u32);
    for character in encoded.trim_end_matches('=').bytes() {
        let six = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        held = (held << 6) | u32::from(six);
        held_bits += 6;
        if held_bits >= 8 {
            held_bits -= 8;
            decoded.push(u8::try_from(held >> held_bits).ok()?);
            held &= (1 << held_bits) - 1;
        }
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn grant(content_type: &'static str, body: &str) -> Result<(String, String, String), String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let grant = read(&headers, body.as_bytes()).map_err(|error| error.to_string())?;
        let text = |value: Option<String>| value.unwrap_or_default();
        Ok((text(grant.kind), text(grant.public_id), text(grant.secret)))
    }

    #[test]
    fn credentials_are_found_in_every_shape() {
        let multipart = "--xyz\r\nContent-Disposition: form-data; name=\"grant_type\"\r\n\r\nclient_credentials\r\n\
             --xyz\r\nContent-Disposition: form-data; name=\"client_id\"\r\n\r\nid\r\n\
             --xyz\r\nContent-Disposition: form-data; name=\"client_secret\"\r\n\r\ns&=c\r\n--xyz--\r\n";
        let full = Ok(("client_credentials".into(), "id".into(), "s&=c".into()));
        for (content_type, body) in [
            ("application/json", r#"{"grant_type":"client_credentials","public_id":"id","secret":"s&=c"}"#),
            (
                "application/json",
                r#"{"client_id":"id","client_secret":"s&=c","grant_type":"client_credentials"}"#,
            ),
            (
                "application/x-www-form-urlencoded",
                r#"{"client_id":"id","client_secret":"s&=c","grant_type":"client_credentials"}"#,
            ),
            (
                "application/x-www-form-urlencoded",
                "grant_type=client_credentials&client_id=id&client_secret=s%26%3Dc",
            ),
            ("multipart/form-data; boundary=xyz", multipart),
            ("multipart/form-data; boundary=\"xyz\"", multipart),
        ] {
            assert_eq!(grant(content_type, body), full, "{content_type} {body}");
        }
    }

    #[test]
    fn nothing_at_all_is_fine_for_those_who_use_the_header() {
        for body in ["", " \r\n", "{}", "[]", "grant_type="] {
            assert_eq!(grant("", body), Ok((String::new(), String::new(), String::new())), "{body}");
        }
    }

    #[test]
    fn what_can_not_be_read_is_malformed() {
        for (content_type, body) in [
            ("application/json", "grant_type=client_credentials"),
            ("application/json", "{\"client_id\":\"a\",\"client_id\":\"b\"}"),
            ("application/x-www-form-urlencoded", "client_id=a&client_id=b"),
            ("multipart/form-data", "--xyz--"),
            ("multipart/form-data; boundary=xyz", "--xyz\r\nno head"),
            (
                "multipart/form-data; boundary=xyz",
                "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1",
            ),
        ] {
            assert_eq!(grant(content_type, body), Err("malformed_request".into()), "{content_type} {body}");
        }
    }

    #[test]
    fn base64_is_decoded_or_refused() {
        for (encoded, decoded) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg", "foob"),
            ("aWQ6cw==", "id:s"),
        ] {
            assert_eq!(base64(encoded).unwrap(), decoded.as_bytes(), "{encoded}");
        }
        assert_eq!(base64("_-8").unwrap(), base64("/+8=").unwrap());
        assert_eq!(base64("a b"), None);
        assert_eq!(basic_credentials("aWQ6czp0"), Some(("id".into(), "s:t".into())));
        assert_eq!(basic_credentials("aWQ6cwo="), Some(("id".into(), "s".into())));
        assert_eq!(basic_credentials("aWQ"), None);
    }
}
