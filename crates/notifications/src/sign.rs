//! What a receiver knows a postback of ours by: the headers of Standard Webhooks 1.0 and those of the PIX gateway family.
//! It owns what is signed with which secret, and must never know where a postback goes.
//!
//! | header | what |
//! |---|---|
//! | `webhook-id` | the message id, the same in every attempt |
//! | `webhook-timestamp`, `X-Webhook-Timestamp` | when this attempt was made, in Unix seconds |
//! | `webhook-signature` | for each live secret `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`, separated by a blank; the key is what the base64 after `whsec_` says |
//! | `X-Webhook-Signature` | lower hex HMAC-SHA256 of the body; the key is the text of the oldest live secret, `whsec_` included |
//! | `X-Webhook-Signature-Next` | the same with the newest secret, while there is more than one |
//! | `X-Webhook-Event` | the name of the event |
//!
//! `X-Webhook-Signature` takes the oldest secret, since a receiver that compares one value knows the new one only when
//! its operator has put it there; the old one is retired after that.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use pix_domain::postbacks::send::{Parcel, PostbackSecret};
use pix_domain::time::Timestamp;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use zeroize::Zeroizing;

/// What every secret begins with (Standard Webhooks 1.0).
pub const SECRET_PREFIX: &str = "whsec_";

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const X_WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("x-webhook-signature");
const X_WEBHOOK_SIGNATURE_NEXT: HeaderName = HeaderName::from_static("x-webhook-signature-next");
const X_WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("x-webhook-timestamp");
const X_WEBHOOK_EVENT: HeaderName = HeaderName::from_static("x-webhook-event");

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The headers of a parcel, or `None` when there can't be any: no secret, one without the form of one, or an id or
/// event that is not visible ASCII. Nothing is ever sent unsigned.
pub(crate) fn headers(parcel: &Parcel) -> Option<HeaderMap> {
    let seconds = unix_seconds(parcel.sent_at).to_string();
    let standard: Option<Vec<_>> = parcel
        .secrets
        .iter()
        .map(|secret| standard_signature(secret, &parcel.message_id, &seconds, &parcel.body))
        .collect();
    let (oldest, newest) = (parcel.secrets.first()?, parcel.secrets.last()?);
    let mut headers = HeaderMap::new();
    headers.insert(WEBHOOK_ID, visible(&parcel.message_id)?);
    headers.insert(WEBHOOK_TIMESTAMP, visible(&seconds)?);
    headers.insert(WEBHOOK_SIGNATURE, HeaderValue::from_str(&standard?.join(" ")).ok()?);
    headers.insert(X_WEBHOOK_SIGNATURE, visible(&body_signature(oldest, &parcel.body)?)?);
    if parcel.secrets.len() > 1 {
        headers.insert(X_WEBHOOK_SIGNATURE_NEXT, visible(&body_signature(newest, &parcel.body)?)?);
    }
    headers.insert(X_WEBHOOK_TIMESTAMP, visible(&seconds)?);
    headers.insert(X_WEBHOOK_EVENT, visible(&parcel.event)?);
    Some(headers)
}

/// Whole seconds since the epoch.
pub(crate) fn unix_seconds(at: Timestamp) -> i64 {
    at.micros().div_euclid(MICROS_PER_SECOND)
}

fn visible(text: &str) -> Option<HeaderValue> {
    let is_visible = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_visible.then(|| HeaderValue::from_str(text).ok()).flatten()
}

fn standard_signature(secret: &PostbackSecret, id: &str, seconds: &str, body: &str) -> Option<String> {
    let key = Zeroizing::new(STANDARD.decode(secret.expose().strip_prefix(SECRET_PREFIX)?).ok()?);
    if key.is_empty() {
        return None;
    }
    let tag = hmac(&key, &[id.as_bytes(), b".", seconds.as_bytes(), b".", body.as_bytes()])?;
    Some(format!("v1,{}", STANDARD.encode(tag)))
}

fn body_signature(secret: &PostbackSecret, body: &str) -> Option<String> {
    let tag = hmac(secret.expose().as_bytes(), &[body.as_bytes()])?;
    Some(lower_hex(&tag))
}

/// HMAC-SHA256 (RFC 2104) of the parts one after the other. `None` never: it takes keys of any length.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> Option<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in parts {
        mac.update(part);
    }
    Some(mac.finalize().into_bytes().into())
}

pub(crate) fn lower_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

#[cfg(test)]
mod tests {
    use pix_domain::text::PostbackUrl;

    use super::*;

    fn secret(text: &str) -> PostbackSecret {
        PostbackSecret::new(text.to_owned())
    }

    fn parcel(secrets: Vec<PostbackSecret>) -> Parcel {
        Parcel {
            url: PostbackUrl::parse("https://example.com").unwrap(),
            message_id: "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(),
            event: "cashin.confirmed".to_owned(),
            body: r#"{"test": 2432232314}"#.to_owned(),
            sent_at: Timestamp::from_micros(1_614_265_330_999_999),
            secrets,
        }
    }

    /// From the tests of the reference libraries of Standard Webhooks.
    const PUBLISHED: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_published_example_is_signed_as_published() {
        let headers = headers(&parcel(vec![secret(PUBLISHED)])).unwrap();
        assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(headers["webhook-id"], "msg_p5jXN8AQM9LWM0D4loKWxJek");
        assert_eq!(headers["webhook-timestamp"], "1614265330");
        assert_eq!(headers["x-webhook-timestamp"], "1614265330");
        assert_eq!(headers["x-webhook-event"], "cashin.confirmed");
        assert!(!headers.contains_key("x-webhook-signature-next"));
    }

    #[test]
    fn every_live_secret_signs_and_the_family_hears_of_the_oldest_and_the_newest() {
        let of = |text| headers(&parcel(vec![secret(text)])).unwrap();
        let (old, middle, new) = (of("whsec_AAAA"), of(PUBLISHED), of("whsec_////"));
        let all = parcel(vec![secret("whsec_AAAA"), secret(PUBLISHED), secret("whsec_////")]);
        let all = headers(&all).unwrap();
        let text = |headers: &HeaderMap, name: &str| headers[name].to_str().unwrap().to_owned();
        let standard = [&old, &middle, &new].map(|headers| text(headers, "webhook-signature")).join(" ");
        assert_eq!(text(&all, "webhook-signature"), standard);
        assert_eq!(all["x-webhook-signature"], old["x-webhook-signature"]);
        assert_eq!(all["x-webhook-signature-next"], new["x-webhook-signature"]);
    }

    #[test]
    fn hmac_and_hex_are_those_of_rfc_4231() {
        let tag = hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]).unwrap();
        assert_eq!(lower_hex(&tag), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn what_can_not_be_signed_has_no_headers() {
        for secrets in [
            vec![],
            vec![secret("")],
            vec![secret("whsec_")],
            vec![secret("whsec_*")],
            vec![secret("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
            vec![secret(PUBLISHED), secret("whsec_AAA")],
        ] {
            assert_eq!(headers(&parcel(secrets)), None);
        }
        for text in ["", "a b", "a\r\nb", "ção"] {
            let fine = || parcel(vec![secret(PUBLISHED)]);
            assert_eq!(headers(&Parcel { message_id: text.to_owned(), ..fine() }), None, "{text:?}");
            assert_eq!(headers(&Parcel { event: text.to_owned(), ..fine() }), None, "{text:?}");
        }
    }
}
