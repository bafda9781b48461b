//! Time and fresh identifiers: the one place of this crate that asks the machine for either. It owns their
//! written forms, and must never know what they mark.

use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
use uuid::Uuid;

/// `America/Sao_Paulo`; Brazil has had no daylight saving since 2019 (Decreto 9.772/2019).
const SAO_PAULO_OFFSET_SECONDS: i32 = 3 * 3_600;
/// The participant code in the ids made here: nobody's.
const SIMULATOR_ISPB: &str = "99999999";
const ID_TAIL_LENGTH: usize = 11;
const ID_TAIL_RADIX: u32 = 36;

/// The time now.
#[expect(
    clippy::disallowed_methods,
    reason = "a provider stands outside the gateway and has a clock of its own"
)]
pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from(std::time::SystemTime::now())
}

/// A transaction id: 32 lower-case hexadecimal characters that sort by time.
pub(crate) fn fresh_id() -> String {
    fresh_uuid().simple().to_string()
}

/// `E` or `D`, participant, minute in UTC, 11 alphanumerics (BCB, API Pix: `endToEndId`, `rtrId`).
pub(crate) fn end_to_end_id(prefix: char, now: DateTime<Utc>) -> String {
    let mut rest = fresh_uuid().as_u128();
    let tail: String = (0..ID_TAIL_LENGTH)
        .filter_map(|_| {
            let digit = u32::try_from(rest % u128::from(ID_TAIL_RADIX)).ok()?;
            rest /= u128::from(ID_TAIL_RADIX);
            char::from_digit(digit, ID_TAIL_RADIX)
        })
        .collect();
    format!("{prefix}{SIMULATOR_ISPB}{}{tail}", now.format("%Y%m%d%H%M"))
}

#[expect(clippy::disallowed_methods, reason = "the simulator's one source of ids")]
fn fresh_uuid() -> Uuid {
    Uuid::now_v7()
}

/// RFC 3339 in UTC, to the microsecond.
pub(crate) fn utc(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// `YYYY-MM-DD HH:MM:SS` in Brasília time, as the classic contract writes times.
pub(crate) fn local(at: DateTime<Utc>) -> String {
    FixedOffset::west_opt(SAO_PAULO_OFFSET_SECONDS)
        .map_or_else(|| utc(at), |zone| at.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S").to_string())
}

/// Writes a time into the durable log.
pub(crate) fn serialize<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc(*at))
}

/// Reads a time from the durable log.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    let text = String::deserialize(deserializer)?;
    DateTime::parse_from_rfc3339(&text).map(|at| at.with_timezone(&Utc)).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_the_published_form() {
        let at = DateTime::parse_from_rfc3339("2026-10-07T07:41:05Z").unwrap().with_timezone(&Utc);
        let (first, second) = (end_to_end_id('E', at), end_to_end_id('E', at));
        assert!(first.starts_with("E99999999202610070741"));
        assert_eq!(first.len(), 32);
        assert!(first.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_ne!(first, second);
        assert_eq!(fresh_id().len(), 32);
        assert_eq!(local(at), "2026-10-07 04:41:05");
        assert_eq!(utc(at), "2026-10-07T07:41:05.000000Z");
    }
}
