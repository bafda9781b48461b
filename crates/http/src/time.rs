//! Times as they are written.
//!
//! v1 speaks RFC 3339 in UTC. v2 speaks the local time of São Paulo, which has been UTC−3 all year since 2019, when
//! Brazil gave up summer time (Decreto 9.772/2019); so a fixed offset is exact for everything this service can hold.

use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use pix_domain::time::Timestamp;

/// How far São Paulo is west of Greenwich.
const SAO_PAULO_WEST_SECONDS: i32 = 3 * 60 * 60;

fn utc(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(at.micros()).unwrap_or_default()
}

/// `2026-10-07T04:41:05.000000Z`.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    utc(at).to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// `2026-10-07 01:41:05`, in São Paulo.
pub(crate) fn sao_paulo(at: Timestamp) -> String {
    sao_paulo_as(at, "%Y-%m-%d %H:%M:%S")
}

/// The time in São Paulo, which is that of Brasília, in the form that chrono's `format` describes.
pub(crate) fn sao_paulo_as(at: Timestamp, form: &str) -> String {
    let utc = utc(at);
    match FixedOffset::west_opt(SAO_PAULO_WEST_SECONDS) {
        Some(offset) => utc.with_timezone(&offset).format(form).to_string(),
        None => utc.format(form).to_string(),
    }
}

/// Reads RFC 3339 out of a query string, where an unescaped `+` has become a blank.
pub(crate) fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let parsed = DateTime::parse_from_rfc3339(&text.replace(' ', "+")).ok()?;
    Some(Timestamp::from_micros(parsed.timestamp_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_and_in_sao_paulo() {
        let at = Timestamp::from_micros(1_791_348_065_000_001);
        assert_eq!(rfc3339(at), "2026-10-07T04:41:05.000001Z");
        assert_eq!(sao_paulo(at), "2026-10-07 01:41:05");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let at = Timestamp::from_micros(1_791_348_065_000_001);
        assert_eq!(parse_rfc3339(&rfc3339(at)), Some(at));
        assert_eq!(
            parse_rfc3339("2026-10-07T01:41:05.000001 03:00"),
            parse_rfc3339("2026-10-06T22:41:05.000001Z")
        );
        for text in ["", "2026-10-07", "yesterday", "2026-13-01T00:00:00Z"] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
