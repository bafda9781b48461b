//! What holds for any bytes at all: the entry functions of fuzz targets in `tests/fuzz`, and no part of the interface.
//!
//! Each takes an input and panics when a law is broken. `tests/tests/fuzz_corpus.rs` feeds them every seed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::send::{MAX_EXCERPT_BYTES, Parcel, PostbackSecret, PostbackUrls};
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use sha2::Sha256;
use url::Host;
use uuid::Uuid;

use crate::answer::{MAX_RETRY_AFTER, excerpt, is_unsafe, retry_after};
use crate::guard::{PORTS, PrivateAddresses, UrlGuard};
use crate::sign::{self, SECRET_PREFIX};
use crate::{MASTER_KEY_BYTES, MasterKey};

/// Where integrators may want postbacks to go. What is let in is public, however a reader of addresses from another time
/// would read it, and is let in again as it is requested.
pub fn postback_url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(postback_url) = PostbackUrl::parse(&text) else { return };
    assert_eq!(postback_url.as_str(), text);
    assert!(text.starts_with(postback_url.origin()) && text.starts_with(postback_url.without_query()));
    for allow_http in [false, true] {
        let guard = UrlGuard { allow_http, allow_private: PrivateAddresses::Never };
        let url = match guard.vet(&text) {
            Ok(url) => url,
            Err(refusal) => {
                assert!(!refusal.code.is_empty() && !refusal.message.is_empty());
                assert!(guard.check(&postback_url).is_err());
                continue;
            }
        };
        assert!(guard.check(&postback_url).is_ok());
        assert!(url.scheme() == "https" || (allow_http && url.scheme() == "http"), "{text:?}");
        assert!(url.username().is_empty() && url.password().is_none(), "{text:?}");
        assert!(url.port_or_known_default().is_some_and(|port| PORTS.contains(&port)), "{text:?}");
        match url.host() {
            Some(Host::Ipv4(address)) => assert!(is_public_v4(address), "{text:?} is {address}"),
            Some(Host::Ipv6(address)) => assert!(is_public_v6(address), "{text:?} is {address}"),
            Some(Host::Domain(name)) => is_public_name(name, &text),
            None => panic!("{text:?} names no host"),
        }
        is_public_as_written(&text);
        assert_eq!(guard.vet(url.as_str()).as_ref(), Ok(&url), "{text:?}");
    }
}

/// Host as RFC 3986 finds it, and as `inet_aton` reads it.
fn is_public_as_written(text: &str) {
    let (_, rest) = text.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(inner) = authority.strip_prefix('[') {
        let address = inner.split(']').next().and_then(|inner| inner.parse().ok());
        assert!(address.is_some_and(is_public_v6), "{text:?}");
        return;
    }
    let host = authority.split(':').next().unwrap_or_default();
    assert!(!host.contains(['@', '\\', '%']), "{text:?}");
    if let Some(address) = inet_aton(host) {
        assert!(is_public_v4(address), "{text:?} is {address} to some");
    }
}

fn is_public_name(name: &str, text: &str) {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    assert!(name.contains('.') && inet_aton(&name).is_none(), "{text:?}");
    for special in ["localhost", "local", "localdomain", "internal", "test", "invalid", "onion"] {
        assert!(!name.ends_with(&format!(".{special}")), "{text:?}");
    }
}

/// One to four numbers, decimal, octal or hexadecimal, the last of which fills what is left of 32 bits.
fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let mut numbers = text.split('.').map(number).collect::<Option<Vec<_>>>()?;
    let last = numbers.pop()?;
    let mut bits = 0_u64;
    let mut places = 4_u32;
    for number in numbers {
        places = places.checked_sub(1).filter(|places| *places > 0)?;
        bits = (bits << 8) | Some(number).filter(|number| *number < 256)?;
    }
    let width = places.checked_mul(8)?;
    let bits = (bits << width) | Some(last).filter(|last| last >> width == 0)?;
    u32::try_from(bits).ok().map(Ipv4Addr::from_bits)
}

fn number(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
        (Some(""), _) => ("0", 16),
        (Some(hexadecimal), _) => (hexadecimal, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        (None, _) => (lower.as_str(), 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || first == 0
        || first >= 240
        || is_shared)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(inner) => is_public_v4(inner),
        IpAddr::V6(_) => {
            let embedded = match address.segments() {
                [0 | 0x64, 0 | 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
                    Some(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)))
                }
                _ => None,
            };
            !(address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_unique_local()
                || address.is_unicast_link_local()
                || embedded.is_some_and(|inner| !is_public_v4(inner)))
        }
    }
}

/// Lines: a message id, an event, secrets with blanks between, and the rest is a body. What is sent is verified by whoever
/// has one of the secrets, and by nobody once a byte is another; and what can't be signed isn't sent.
pub fn signature(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default().to_owned();
    let (message_id, event, secrets, body) = (line(), line(), line(), line());
    if let Ok(key) = MasterKey::parse(&message_id) {
        made_secret(&key);
    }
    let secrets: Vec<_> =
        secrets.split(' ').take(4).map(|secret| PostbackSecret::new(secret.to_owned())).collect();
    let Ok(url) = PostbackUrl::parse("https://example.com/pix") else { panic!("it is a URL") };
    let sent_at = data.split_first_chunk().map_or(0, |(micros, _)| i64::from_be_bytes(*micros));
    let sent_at = Timestamp::from_micros(sent_at);
    let parcel = Parcel { url, message_id, event, body, sent_at, secrets };
    let visible = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let keys: Option<Vec<_>> = parcel.secrets.iter().map(key_of).collect();
    let Some(headers) = sign::headers(&parcel) else {
        assert!(keys.is_none() || !visible(&parcel.message_id) || !visible(&parcel.event), "{text:?}");
        return;
    };
    let keys = keys.unwrap_or_default();
    let Some(signatures) = value(&headers, "webhook-signature") else {
        panic!("nothing is signed: {text:?}")
    };
    assert_eq!(signatures.split(' ').count(), keys.len(), "{text:?}");
    assert!(!keys.is_empty() && headers.values().all(|value| value.to_str().is_ok()), "{text:?}");
    let other_body = format!("{} ", parcel.body);
    for key in &keys {
        assert!(verifies(key, &headers, &parcel.body), "{text:?}");
        assert!(!verifies(key, &headers, &other_body), "{text:?}");
    }
    let oldest = parcel.secrets.first().map_or(&[][..], |secret| secret.expose().as_bytes());
    let of_body = tag(oldest, parcel.body.as_bytes()).map(|tag| sign::lower_hex(&tag));
    assert_eq!(value(&headers, "x-webhook-signature"), of_body, "{text:?}");
    assert_eq!(headers.contains_key("x-webhook-signature-next"), keys.len() > 1, "{text:?}");
}

/// As Standard Webhooks 1.0 has a receiver do it.
fn verifies(key: &[u8], headers: &HeaderMap, body: &str) -> bool {
    let part = |name| value(headers, name).unwrap_or_default();
    let signed = format!("{}.{}.{body}", part("webhook-id"), part("webhook-timestamp"));
    let expected = tag(key, signed.as_bytes());
    part("webhook-signature").split(' ').any(|signature| {
        let given = signature.strip_prefix("v1,").and_then(|given| STANDARD.decode(given).ok());
        given.is_some() && given == expected
    })
}

fn value(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn key_of(secret: &PostbackSecret) -> Option<Vec<u8>> {
    let key = STANDARD.decode(secret.expose().strip_prefix(SECRET_PREFIX)?).ok()?;
    (!key.is_empty()).then_some(key)
}

fn tag(key: &[u8], signed: &[u8]) -> Option<Vec<u8>> {
    let mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    Some(mac.chain_update(signed).finalize().into_bytes().to_vec())
}

fn made_secret(key: &MasterKey) {
    let secret = |number| key.secret(IntegratorId(Uuid::from_u128(7)), number);
    assert_eq!(key_of(&secret(1)).map(|bytes| bytes.len()), Some(MASTER_KEY_BYTES));
    assert_eq!(secret(1), secret(1));
    assert_ne!(secret(1), secret(2));
    assert!(!format!("{key:?}").contains(secret(1).expose()));
}

/// What a receiver answers: a first line that says when to come back, and a body. Neither makes us wait for ever nor can
/// it be shown in a way that hides something.
pub fn receiver_answers(data: &[u8]) {
    let line = data.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if let Ok(value) = HeaderValue::from_bytes(line) {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, value)]);
        for sent_at in [i64::MIN, 0, 1_750_000_000_000_000, i64::MAX] {
            let wait = retry_after(&headers, Timestamp::from_micros(sent_at));
            assert!(wait.is_none_or(|wait| wait <= MAX_RETRY_AFTER), "{line:?}");
        }
    }
    let excerpt = excerpt(data);
    assert!(excerpt.len() <= MAX_EXCERPT_BYTES && !excerpt.chars().any(is_unsafe), "{excerpt:?}");
}
