//! What stands in the head of a request: the query of a list with its cursor, and header fields.

use std::net::{IpAddr, Ipv4Addr};

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use pix_domain::ids::IntegratorId;
use pix_domain::list::{Cursor, MAX_PER_PAGE};
use pix_domain::text::{IDEMPOTENCY_KEY_MAX_CHARS, IdempotencyKey};
use uuid::Uuid;

use super::refused;
use crate::error::Generation;
use crate::extract::{after_scheme, authorization, client_ip};
use crate::v1::{events, list, statement};
use crate::words;

const INTEGRATOR: IntegratorId = IntegratorId(Uuid::from_u128(1));
const LIST: &str = "charges";
const ANOTHER: IntegratorId = IntegratorId(Uuid::from_u128(2));
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A query string and a cursor. A cursor is read as it was written; what nobody here has written is refused, and so is
/// the cursor of another list or integrator. The filters that links repeat ask for the same.
pub fn cursors(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(cursor) = list::read_cursor(LIST, INTEGRATOR, &text) {
        assert_eq!(list::write_cursor(LIST, INTEGRATOR, cursor), text);
    }
    if let Some(after) = events::read_cursor(INTEGRATOR, &text) {
        assert_eq!(events::write_cursor(INTEGRATOR, after), text);
    }
    let (id, _) = data.split_first_chunk().map_or(([0; 16], data), |(id, rest)| (*id, rest));
    for cursor in [Cursor::OlderThan(Uuid::from_bytes(id)), Cursor::NewerThan(Uuid::from_bytes(id))] {
        let written = list::write_cursor(LIST, INTEGRATOR, cursor);
        assert_eq!(list::read_cursor(LIST, INTEGRATOR, &written), Some(cursor), "{written}");
        assert_eq!(list::read_cursor(LIST, ANOTHER, &written), None, "{written}");
        assert_eq!(list::read_cursor("withdrawals", INTEGRATOR, &written), None, "{written}");
        assert_eq!(list::percent_encoded(&written), written, "not safe in a URL");
        assert_eq!(events::read_cursor(INTEGRATOR, &written), None, "{written}");
    }
    let (number, _) = data.split_first_chunk().map_or(([0; 8], data), |(number, rest)| (*number, rest));
    let number = u64::from_be_bytes(number);
    let written = events::write_cursor(INTEGRATOR, number);
    assert_eq!(events::read_cursor(INTEGRATOR, &written), Some(number), "{written}");
    assert_eq!(events::read_cursor(ANOTHER, &written), None, "{written}");
    assert_eq!(list::read_cursor(LIST, INTEGRATOR, &written), None, "{written}");

    match list::Asked::parse(LIST, INTEGRATOR, &text, words::charge_states) {
        Ok(asked) => {
            assert!((1..=MAX_PER_PAGE).contains(&asked.query.limit), "{text:?}");
            let again = list::Asked::parse(LIST, INTEGRATOR, &asked.filters, words::charge_states)
                .map(|asked| asked.query);
            let same = again.is_ok_and(|again| {
                asked.query == pix_domain::list::ListQuery { cursor: asked.query.cursor, ..again }
            });
            assert!(same, "{text:?} is asked for as {:?}", asked.filters);
        }
        Err(error) => refused(&error, Generation::V1, &text),
    }
    match list::Asked::parse_plain(LIST, INTEGRATOR, &text) {
        Ok(asked) => {
            let again = list::Asked::parse_plain(LIST, INTEGRATOR, &asked.filters).map(|asked| asked.query);
            let same = again.is_ok_and(|again| {
                asked.query == pix_domain::list::ListQuery { cursor: asked.query.cursor, ..again }
            });
            assert!(same, "{text:?} is asked for as {:?}", asked.filters);
        }
        Err(error) => refused(&error, Generation::V1, &text),
    }
    match statement::read(&text, INTEGRATOR, false) {
        Ok((query, filters)) => {
            assert!((1..=MAX_PER_PAGE).contains(&query.limit), "{text:?}");
            let again = statement::read(&filters, INTEGRATOR, false).map(|(query, _)| query);
            let same = again.is_ok_and(|again| {
                query == pix_domain::wallet::statement::StatementQuery { cursor: query.cursor, ..again }
            });
            assert!(same, "{text:?} is asked for as {filters:?}");
        }
        Err(error) => refused(&error, Generation::V1, &text),
    }
    match events::read(&text, INTEGRATOR) {
        Ok((query, filters)) => {
            assert!((1..=MAX_PER_PAGE).contains(&query.limit), "{text:?}");
            let again = events::read(&filters, INTEGRATOR).map(|(query, _)| query);
            let same = again.is_ok_and(|again| {
                query == pix_domain::postbacks::events::EventQuery { after: query.after, ..again }
            });
            assert!(same, "{text:?} is asked for as {filters:?}");
        }
        Err(error) => refused(&error, Generation::V1, &text),
    }
}

/// A value of `Authorization`, `Idempotency-Key` and `X-Forwarded-For`. A client that is no trusted proxy is who it is,
/// whatever it says.
pub fn headers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(key) = IdempotencyKey::parse(&text) {
        assert!((1..=IDEMPOTENCY_KEY_MAX_CHARS).contains(&key.as_str().len()), "{text:?}");
        assert!(key.as_str().bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    }
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(AUTHORIZATION, value.clone());
            headers.append(X_FORWARDED_FOR, value);
        }
    }
    let lines = headers.get_all(AUTHORIZATION).count();
    match authorization(&headers) {
        Ok(value) => {
            assert_eq!(value.is_some(), lines == 1, "{text:?}");
            let token = value.and_then(|value| after_scheme(value, "Bearer"));
            assert!(token.is_none_or(|token| token.trim() == token), "{text:?}");
        }
        Err(error) => {
            assert!(lines > 1, "{text:?}");
            refused(&error, Generation::V1, &text);
        }
    }
    let trusted =
        ["10.0.0.0/8", "fd00::/8"].map(str::parse).into_iter().filter_map(Result::ok).collect::<Vec<_>>();
    let stranger = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));
    assert_eq!(client_ip(Some(stranger), &headers, &trusted), stranger, "{text:?}");
    let proxy = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let client = client_ip(Some(proxy), &headers, &trusted);
    assert_eq!(client, client.to_canonical());
    let is_told = client == proxy || headers.get_all(X_FORWARDED_FOR).any(|line| has_address(line, client));
    assert!(is_told, "{client} out of nothing: {text:?}");
}

/// Whether one of the hops is that address, in any of its spellings.
fn has_address(line: &HeaderValue, address: IpAddr) -> bool {
    let text = String::from_utf8_lossy(line.as_bytes()).into_owned();
    text.split(',').any(|hop| {
        let hop = hop.trim();
        let host = hop.parse::<std::net::SocketAddr>().map(|socket| socket.ip());
        let bare = hop.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.or(bare).is_ok_and(|told| told.to_canonical() == address)
    })
}
