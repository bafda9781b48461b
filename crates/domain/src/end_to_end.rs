//! The identifiers of the PIX arrangement: end-to-end id, return id and txid (BCB, API Pix openapi 2.9.0).
//!
//! All three tell upper from lower case. They name no person, so they may be logged.

use std::fmt;

use crate::invalid::Invalid;

/// Characters of an end-to-end id and of a return id.
pub const END_TO_END_ID_CHARS: usize = 32;
/// Most characters of a txid.
pub const TX_ID_MAX_CHARS: usize = 35;
/// Fewest characters of the txid of a charge of our making.
pub const CHARGE_TX_ID_MIN_CHARS: usize = 26;

macro_rules! shown_as_text {
    ($name:ident) => {
        impl $name {
            /// The identifier.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Names one settled PIX in the whole arrangement: `E`, the ISPB of the payer's institution (8 digits),
/// `yyyyMMddHHmm` in UTC, and 11 letters or digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndToEndId(String);
shown_as_text!(EndToEndId);

impl EndToEndId {
    /// Reads an end-to-end id.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if has_form(text, 'E') {
            return Ok(Self(text.to_owned()));
        }
        Err(Invalid::format(
            "end-to-end id must be E, 8 digits, a time as yyyyMMddHHmm and 11 letters or digits",
        ))
    }
}

/// Names one return (devolução) of a PIX: `D`, and then as an [`EndToEndId`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReturnId(String);
shown_as_text!(ReturnId);

impl ReturnId {
    /// Reads a return id.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if has_form(text, 'D') {
            return Ok(Self(text.to_owned()));
        }
        Err(Invalid::format("return id must be D, 8 digits, a time as yyyyMMddHHmm and 11 letters or digits"))
    }
}

fn has_form(text: &str, prefix: char) -> bool {
    let fields = || {
        let rest = text.strip_prefix(prefix)?;
        let (ispb, rest) = rest.split_at_checked(8)?;
        let (time, own) = rest.split_at_checked(12)?;
        Some(
            ispb.bytes().all(|b| b.is_ascii_digit())
                && is_plausible_time(time)?
                && own.bytes().all(|b| b.is_ascii_alphanumeric()),
        )
    };
    text.len() == END_TO_END_ID_CHARS && fields().unwrap_or(false)
}

/// Whether 12 characters could be `yyyyMMddHHmm`; the calendar is left to whoever made the id.
fn is_plausible_time(time: &str) -> Option<bool> {
    let (_year, rest) = time.split_at_checked(4)?;
    let (month, rest) = rest.split_at_checked(2)?;
    let (day, rest) = rest.split_at_checked(2)?;
    let (hour, minute) = rest.split_at_checked(2)?;
    // All digits, of the same length: the order of the texts is the order of the numbers.
    Some(
        time.bytes().all(|b| b.is_ascii_digit())
            && ("01"..="12").contains(&month)
            && ("01"..="31").contains(&day)
            && ("00"..="23").contains(&hour)
            && ("00"..="59").contains(&minute),
    )
}

/// The receiver's name for an expected PIX: letters and digits, 26 to 35 of them in a charge, 1 to 35 in what
/// is received.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(String);
shown_as_text!(TxId);

impl TxId {
    /// Reads the txid of a received PIX.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::of_length(text, 1, "txid must be 1 to 35 letters or digits")
    }

    /// Reads the txid of a charge.
    pub fn parse_charge(text: &str) -> Result<Self, Invalid> {
        Self::of_length(text, CHARGE_TX_ID_MIN_CHARS, "txid of a charge must be 26 to 35 letters or digits")
    }

    fn of_length(text: &str, min_chars: usize, expected: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid::required("txid"));
        }
        if text.len() > TX_ID_MAX_CHARS {
            return Err(Invalid::new(Invalid::TOO_LONG, expected));
        }
        if text.len() < min_chars || !text.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(Invalid::format(expected));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn end_to_end_id_has_its_form_and_keeps_its_case() {
        for text in ["E12345678202401011230abcDEF12345", "E00000000200912312359aaaaaaaaaaa"] {
            assert_eq!(EndToEndId::parse(text).unwrap().as_str(), text);
            assert_eq!(EndToEndId::parse(text).unwrap().to_string(), text);
        }
        assert_ne!(
            EndToEndId::parse("E12345678202401011230abcDEF12345"),
            EndToEndId::parse("E12345678202401011230abcdef12345")
        );
    }

    #[test]
    fn malformed_end_to_end_ids_are_refused() {
        for text in [
            "",
            "e12345678202401011230abcDEF12345",
            "D12345678202401011230abcDEF12345",
            "E1234567A202401011230abcDEF12345",
            "E12345678202400011230abcDEF12345",
            "E12345678202413011230abcDEF12345",
            "E12345678202401001230abcDEF12345",
            "E12345678202401321230abcDEF12345",
            "E12345678202401012430abcDEF12345",
            "E12345678202401011260abcDEF12345",
            "E1234567820240101123abcDEF123456",
            "E12345678202401011230abcDEF1234",
            "E12345678202401011230abcDEF123456",
            "E12345678202401011230abcDEF-2345",
            "E12345678202401011230abcDEF1234é",
            "Eé234567202401011230abcDEF12345x",
        ] {
            assert_eq!(EndToEndId::parse(text).unwrap_err().code, "invalid_format", "{text:?}");
        }
    }

    #[test]
    fn return_id_is_the_same_with_a_d() {
        let text = "D12345678202401011230abcDEF12345";
        assert_eq!(ReturnId::parse(text).unwrap().to_string(), text);
        assert!(ReturnId::parse("E12345678202401011230abcDEF12345").is_err());
    }

    #[test]
    fn txid_is_longer_in_a_charge_than_in_what_is_received() {
        for length in [1, 25, 26, 32, 35] {
            let text = "aZ9".repeat(12)[..length].to_owned();
            assert_eq!(TxId::parse(&text).unwrap().as_str(), text);
            assert_eq!(TxId::parse_charge(&text).is_ok(), length >= 26, "{length}");
        }
        for (text, expected) in [
            ("", "required"),
            ("a-b", "invalid_format"),
            ("ção", "invalid_format"),
            ("***", "invalid_format"),
        ] {
            assert_eq!(TxId::parse(text).unwrap_err().code, expected);
        }
        assert_eq!(TxId::parse(&"a".repeat(36)).unwrap_err().code, "too_long");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[ED]?\\PC{0,40}") {
            let _ = (EndToEndId::parse(&text).is_ok(), ReturnId::parse(&text).is_ok(), TxId::parse(&text).is_ok());
        }
    }
}
