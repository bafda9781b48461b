//! What is kept of a receiver's answer: its status, how long it wants to be left alone, and how its body begins. It owns
//! the limits on that, and must never know what an answer means.

use std::time::{Duration, UNIX_EPOCH};

use pix_domain::postbacks::send::{MAX_ANSWER_BYTES, MAX_EXCERPT_BYTES, Reply};
use pix_domain::time::Timestamp;
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::sign::unix_seconds;

/// The longest that a receiver may ask to be left alone for: the schedule of attempts is over by then.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// Takes the beginning of an answer to what was sent at `sent_at`. What is beyond [`MAX_ANSWER_BYTES`] of the body is
/// never asked for: with the response the connection goes.
pub(crate) async fn read(mut response: Response, sent_at: Timestamp) -> reqwest::Result<Reply> {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers(), sent_at);
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER_BYTES {
        let Some(chunk) = response.chunk().await? else { break };
        let left = MAX_ANSWER_BYTES.saturating_sub(body.len());
        body.extend(chunk.iter().take(left));
    }
    Ok(Reply::Answered { status, retry_after, excerpt: excerpt(&body) })
}

/// `Retry-After` (RFC 9110 §10.2.3): seconds, or a date, from which the time of sending is taken.
pub(crate) fn retry_after(headers: &HeaderMap, sent_at: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a long time.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        let after_epoch = date.duration_since(UNIX_EPOCH).unwrap_or_default();
        let sent = Duration::from_secs(u64::try_from(unix_seconds(sent_at)).unwrap_or(0));
        after_epoch.saturating_sub(sent)
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// The beginning of a body as text that can be stored and shown anywhere: at most [`MAX_EXCERPT_BYTES`].
pub(crate) fn excerpt(body: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(body).chars() {
        let c = match c {
            '\t' | '\n' | '\r' => ' ',
            c if is_unsafe(c) => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        if text.len().saturating_add(c.len_utf8()) > MAX_EXCERPT_BYTES {
            break;
        }
        text.push(c);
    }
    text
}

/// Control characters, and what hides or reorders the text around it.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const SENT_AT: Timestamp = Timestamp::from_micros(784_111_777_900_000);

    fn wait(value: &str) -> Option<Duration> {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(value).unwrap())]);
        retry_after(&headers, SENT_AT)
    }

    #[test]
    fn both_forms_of_retry_after_are_understood_and_bounded() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (value, expected) in [
            ("0", seconds(0)),
            ("120", seconds(120)),
            (" 120 ", seconds(120)),
            ("86401", Some(MAX_RETRY_AFTER)),
            ("99999999999999999999999999", Some(MAX_RETRY_AFTER)),
            ("Sun, 06 Nov 1994 08:51:37 GMT", seconds(120)),
            ("Sunday, 06-Nov-94 08:51:37 GMT", seconds(120)),
            ("Sun Nov  6 08:51:37 1994", seconds(120)),
            ("Sun, 06 Nov 1994 08:49:36 GMT", seconds(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(MAX_RETRY_AFTER)),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(wait(value), expected, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), SENT_AT), None);
    }

    #[test]
    fn an_excerpt_can_be_shown_anywhere() {
        assert_eq!(excerpt(b""), "");
        assert_eq!(excerpt("não\r\nfoi".as_bytes()), "não  foi");
        assert_eq!(excerpt("a\0\u{1B}[2J\u{202E}b".as_bytes()), "a\u{FFFD}\u{FFFD}[2J\u{FFFD}b");
        assert_eq!(excerpt(b"\xff\xfe"), "\u{FFFD}\u{FFFD}");
        assert_eq!(excerpt(&[b'x'; 4096]).len(), MAX_EXCERPT_BYTES);
        assert_eq!(excerpt("€".repeat(1000).as_bytes()).len(), 1023);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_long_or_unsafe_excerpt(body in prop::collection::vec(any::<u8>(), 0..2000)) {
            let text = excerpt(&body);
            prop_assert!(text.len() <= MAX_EXCERPT_BYTES);
            prop_assert!(!text.chars().any(is_unsafe));
        }

        #[test]
        fn no_retry_after_makes_us_wait_longer_than_the_limit(value in "[ -~]{0,40}") {
            prop_assert!(wait(&value).is_none_or(|wait| wait <= MAX_RETRY_AFTER));
        }
    }
}
