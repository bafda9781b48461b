//! Bodies of requests and of callbacks.

use actix_web::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use pix_domain::charges::{MAX_EXPIRES_IN, MIN_EXPIRES_IN};
use pix_domain::credentials::service::Caller;
use pix_domain::credentials::{IntegratorStatus, Scopes};
use pix_domain::ids::{ChargeId, IntegratorId};
use pix_domain::money::{Amount, Cents};
use pix_domain::party::TaxId;
use pix_domain::provider::{Party, ProviderBody};
use pix_domain::splits::{MAX_SHARES, NewShare, Part};
use pix_domain::text::PostbackUrl;
use serde::de::IgnoredAny;
use serde_json::Value;
use uuid::Uuid;

use super::{object, refused};
use crate::callbacks::{provider_status, reference};
use crate::error::{ApiError, Generation};
use crate::fields::{Form, Mode, Problems};
use crate::json::{Object, quoted};
use crate::v1::list::percent_encoded;
use crate::{body, requests, token, v1, v2};

/// No part of a form of `multipart/form-data` has it.
const BOUNDARY: &str = "----------------------------7d1f0c5e";

/// What clients say that their token requests are.
const CONTENT_TYPES: [&str; 4] = [
    "",
    "application/json; charset=utf-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=\"--x\"",
];

/// An amount as text, and in a body as a JSON number and as a JSON string. All three are the same amount, or none.
pub fn amount(data: &[u8]) {
    pix_domain::fuzzing::amount(data);
    let text = String::from_utf8_lossy(data);
    let plain = Amount::parse(&text).ok();
    for mode in [Mode::Strict, Mode::Liberal] {
        let (string, told) =
            amount_of(&quoted(&text), mode).unwrap_or_else(|| panic!("{text:?} as a JSON string"));
        assert_eq!((string, told), (plain, plain.is_none()), "{text:?} as a JSON string");
        // A text that closes the value brings fields of its own.
        if !text.contains([',', '}']) {
            let number = amount_of(&text, mode);
            let unquoted = serde_json::from_str::<String>(&text).ok();
            let expected = Amount::parse(unquoted.as_deref().unwrap_or(text.trim())).ok();
            assert!(
                number.is_none_or(|(number, told)| number == expected && told == number.is_none()),
                "{text:?}"
            );
        }
    }
}

/// What a body says with this JSON for its amount, and whether there was a problem; `None` when that is no JSON.
fn amount_of(json: &str, mode: Mode) -> Option<(Option<Amount>, bool)> {
    let body = format!("{{\"amount\":{json}}}");
    let form = Form::parse(&body, mode).ok()?;
    let mut problems = Problems::default();
    let amount = form.amount("amount", &mut problems);
    let told = problems.check().map_err(|error| refused(&error, generation(mode), json));
    Some((amount, told.is_err()))
}

const fn generation(mode: Mode) -> Generation {
    match mode {
        Mode::Strict => Generation::V1,
        Mode::Liberal => Generation::V2,
    }
}

fn caller() -> Caller {
    Caller {
        integrator_id: IntegratorId(Uuid::nil()),
        status: IntegratorStatus::Active,
        postback_scope: None,
        key_public_id: "key".to_owned(),
        scopes: Scopes::ALL,
    }
}

/// A body of v1, read as each of the requests that have one.
pub fn v1_bodies(data: &[u8]) {
    let text = match body::text(data) {
        Ok(text) => text,
        Err(error) => return refused(&error, Generation::V1, ""),
    };
    movements(text, Mode::Strict);
    let refund = Form::parse(text, Mode::Strict)
        .and_then(|form| requests::RefundBody::parse(&form, Problems::default()));
    refund_body(refund, Mode::Strict, text);
    match v1::consult::read(text) {
        Ok((uuid, name)) => assert!(uuid.is_some() || name.is_some(), "{text:?}"),
        Err(error) => refused(&error, Generation::V1, text),
    }
    match v1::postbacks::read_replay(text) {
        Ok(query) => assert!(query.limit > 0, "{text:?}"),
        Err(error) => refused(&error, Generation::V1, text),
    }
    match v1::postbacks::read_place(text, |_| Ok(())) {
        Ok(place) => {
            let url = object(text).and_then(|fields| fields.get("postbackUrl").cloned());
            let said = url.as_ref().map(|url| url.as_str().unwrap_or_default());
            let read = place.as_ref().map_or("", PostbackUrl::as_str);
            assert!(said.is_none_or(|said| said == read), "{text:?}");
        }
        Err(error) => refused(&error, Generation::V1, text),
    }
}

/// A body of v2, read as each of the requests that have one.
pub fn v2_bodies(data: &[u8]) {
    let text = match body::text(data) {
        Ok(text) => text,
        Err(error) => return refused(&error, Generation::V2, ""),
    };
    movements(text, Mode::Liberal);
    let named = match v2::refund::read(text) {
        Ok((pix_id, body)) => {
            refund_body(Ok(body), Mode::Liberal, text);
            Some(pix_id)
        }
        Err(error) => {
            refused(&error, Generation::V2, text);
            None
        }
    };
    match v2::consult::read(text) {
        Ok(pix_id) => {
            assert!(!pix_id.is_empty() && pix_id.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
            assert!(named.is_none_or(|named| named == pix_id), "{text:?} names two transactions");
        }
        Err(error) => {
            refused(&error, Generation::V2, text);
            assert!(named.is_none(), "{text:?} names a transaction for a refund alone");
        }
    }
}

fn movements(text: &str, mode: Mode) {
    let anywhere = |_: &PostbackUrl| Ok(());
    match requests::charge(text, mode, &caller(), None, &anywhere) {
        Ok(command) => {
            is_the_amount(command.amount, text);
            party(&command.payer, mode, text);
            assert!((MIN_EXPIRES_IN..=MAX_EXPIRES_IN).contains(&command.expires_in), "{text:?}");
            is_the_split(&command.split, text);
        }
        Err(error) => refused(&error, generation(mode), text),
    }
    match requests::withdrawal(text, mode, &caller(), None, &anywhere) {
        Ok(command) => {
            is_the_amount(command.amount, text);
            party(&command.payee.party, mode, text);
            let key = &command.payee.key;
            // An address may be one of asterisks before the `@`.
            let shown = key.masked().contains(key.as_str()) && !key.as_str().starts_with("***@");
            assert!(!shown, "the mask of {:?} shows it", key.as_str());
        }
        Err(error) => refused(&error, generation(mode), text),
    }
}

fn refund_body(read: Result<requests::RefundBody, ApiError>, mode: Mode, text: &str) {
    match read {
        Ok(read) => {
            let command = read.of(ChargeId(Uuid::nil()), &caller(), None);
            let given = object(text).is_some_and(|fields| fields.contains_key("amount"));
            assert!(!given || command.amount.is_some(), "{text:?} refunds all that is left");
            if let Some(amount) = command.amount {
                is_the_amount(amount, text);
            }
        }
        Err(error) => refused(&error, generation(mode), text),
    }
}

/// The amount is what the body says, digit by digit.
fn is_the_amount(amount: Amount, text: &str) {
    let fields = body::object(text).unwrap_or_default();
    let said = fields.get("amount").map_or("", |raw| raw.get());
    let unquoted = serde_json::from_str::<String>(said).unwrap_or_else(|_number| said.to_owned());
    assert_eq!(Amount::parse(&unquoted), Ok(amount), "{text:?}");
}

/// Every part that the body names is there, and is something: one that is left out would be money of others.
fn is_the_split(split: &[NewShare], text: &str) {
    let fields = body::object(text).unwrap_or_default();
    let said = fields.get("split").map_or("null", |raw| raw.get());
    let said = serde_json::from_str::<Vec<IgnoredAny>>(said).map_or(0, |items| items.len());
    assert_eq!(split.len(), said, "{text:?}");
    assert!(said <= MAX_SHARES, "{text:?}");
    for share in split {
        if let Part::Percentage(percent) = &share.part {
            assert!(!percent.is_zero() && percent.is_within_whole(), "{text:?}");
        }
    }
}

/// v1 knows who it is, by a number with its check digits.
fn party(party: &Party, mode: Mode, text: &str) {
    if mode == Mode::Strict {
        let document = party.document.as_ref().map(|document| TaxId::parse(document.as_str()));
        assert!(party.name.is_some() && document.is_some_and(|parsed| parsed.is_ok()), "{text:?}");
    }
}

/// A body of the token endpoint, under each content type and under the one that its first line is; then credentials made
/// of its lines, which must be read as they are from every shape that clients send them in.
pub fn token_bodies(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for content_type in CONTENT_TYPES {
        read_grant(content_type.as_bytes(), data, &text);
    }
    let (head, rest) = text.split_once('\n').unwrap_or_default();
    read_grant(head.as_bytes(), rest.as_bytes(), &text);
    if let Some((user, password)) = token::basic_credentials(&text) {
        assert!(!user.contains(':') && !password.ends_with(['\r', '\n']), "{text:?}");
    }
    shapes(head, rest);
}

fn read_grant(content_type: &[u8], body: &[u8], text: &str) -> Option<(String, String)> {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(content_type) {
        headers.insert(CONTENT_TYPE, value);
    }
    match token::read(&headers, body) {
        Ok(grant) => {
            let empty = |text: &Option<String>| text.as_ref().is_some_and(String::is_empty);
            assert!(!empty(&grant.public_id) && !empty(&grant.secret), "{text:?}");
            grant.public_id.zip(grant.secret)
        }
        Err(error) => {
            refused(&error, Generation::V2, text);
            None
        }
    }
}

fn shapes(id: &str, secret: &str) {
    if id.is_empty() || secret.is_empty() {
        return;
    }
    let given = Some((id.to_owned(), secret.to_owned()));
    let json = format!("{{\"client_id\":{},\"client_secret\":{}}}", quoted(id), quoted(secret));
    for content_type in ["", "application/json", "application/x-www-form-urlencoded"] {
        assert_eq!(read_grant(content_type.as_bytes(), json.as_bytes(), ""), given, "{json}");
    }
    let form = format!("public_id={}&secret={}", percent_encoded(id), percent_encoded(secret));
    assert_eq!(read_grant(b"application/x-www-form-urlencoded", form.as_bytes(), ""), given, "{form}");
    if !id.contains(BOUNDARY) && !secret.contains(BOUNDARY) {
        let part = |name: &str, value: &str| {
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let parts =
            [part("client_id", id), part("client_secret", secret), format!("--{BOUNDARY}--\r\n")].concat();
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        assert_eq!(read_grant(content_type.as_bytes(), parts.as_bytes(), ""), given, "{parts}");
    }
}

/// A callback of the provider, and what of a provider's body is passed on. What names a record is in it; and an answer of
/// ours stays JSON that says what we say, whatever the provider's fields are.
pub fn callbacks(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match reference(&text) {
        Ok(Some(id)) => {
            let names = |field: Option<&Value>| match field {
                Some(Value::String(text)) => Uuid::try_parse(text) == Ok(id),
                // Beyond floats that reader knows no digits.
                field => field.is_some_and(Value::is_number),
            };
            let fields = object(&text);
            assert!(
                fields.is_none_or(|fields| {
                    let within = fields.get("requestBody").and_then(|within| within.get("external_id"));
                    names(fields.get("external_id")) || names(within)
                }),
                "{text:?} does not name {id}"
            );
        }
        Ok(None) => {}
        Err(error) => refused(&error, Generation::V2, &text),
    }
    let status = provider_status(&text);
    assert!(status.is_none() || body::object(&text).is_ok(), "{text:?}");

    let provider = ProviderBody(text.into_owned());
    let amount = Cents::new(1_550).unwrap_or_default();
    let ours = Object::new().text("status", "PENDING").money("amount", amount).text("transactionId", "t1");
    let answer = ours.passing_on(Some(&provider)).end();
    let fields = body::object(&answer).unwrap_or_else(|_| panic!("{answer} is no JSON object"));
    for (name, value) in [("status", "\"PENDING\""), ("amount", "15.5"), ("transactionId", "\"t1\"")] {
        assert_eq!(fields.get(name).map(|raw| raw.get()), Some(value), "{answer}");
    }
}
