//! Amounts on the wire: exact reais in JSON, integer centavos inside. It owns the number's grammar, and must
//! never know what the amount is for.

use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::value::RawValue;

use crate::wire::Refusal;

/// Digits before the decimal point (BCB, API Pix: `\d{1,10}\.\d{2}`).
const MAX_WHOLE_DIGITS: usize = 10;
/// Digits after it.
const MAX_FRACTION_DIGITS: usize = 2;
const CENTS_PER_REAL: i64 = 100;

/// Centavos that are written as a JSON number in reais, with exact digits and no trailing zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Amount(pub(crate) i64);

impl Amount {
    /// Reads the JSON text of an amount: a number or a string, greater than zero.
    pub(crate) fn from_json(raw: &RawValue) -> Result<Self, Refusal> {
        let text = raw.get();
        Self::of_text(text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text))
    }

    /// Reads an amount's own text, greater than zero.
    pub(crate) fn of_text(text: &str) -> Result<Self, Refusal> {
        match parse_cents(text) {
            Some(cents) if cents > 0 => Ok(Self(cents)),
            Some(_) => Err(Refusal::invalid("invalid_amount", "amount must be greater than zero")),
            None => Err(Refusal::invalid(
                "invalid_amount",
                "amount must be a decimal of at most 10 digits and 2 decimals",
            )),
        }
    }

    /// An amount that may be left out.
    pub(crate) fn optional(raw: Option<&RawValue>) -> Result<Option<Self>, Refusal> {
        raw.map(Self::from_json).transpose()
    }

    /// An amount that must be there.
    pub(crate) fn required(raw: Option<&RawValue>) -> Result<Self, Refusal> {
        Self::optional(raw)?.ok_or_else(|| Refusal::invalid("invalid_amount", "amount is required"))
    }

    /// `15`, `15.5`, `15.55`.
    pub(crate) fn number(self) -> String {
        let fixed = self.fixed();
        fixed.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// `15.00`: two decimals, as the balance is written.
    pub(crate) fn fixed(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = self.0.unsigned_abs();
        let unit = CENTS_PER_REAL.unsigned_abs();
        format!("{sign}{}.{:02}", cents / unit, cents % unit)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.number()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// `(0|[1-9]\d{0,9})(\.\d{1,2})?` in centavos; anything else is no amount.
fn parse_cents(text: &str) -> Option<i64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if (1..=MAX_FRACTION_DIGITS).contains(&fraction.len()) => (whole, fraction),
        Some(_) => return None,
        None => (text, "0"),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    if whole.is_empty()
        || whole.len() > MAX_WHOLE_DIGITS
        || leading_zero
        || !digits(whole)
        || !digits(fraction)
    {
        return None;
    }
    let reais: i64 = whole.parse().ok()?;
    let tenths_or_cents: i64 = fraction.parse().ok()?;
    let cents = if fraction.len() == 1 { tenths_or_cents * 10 } else { tenths_or_cents };
    Some(reais * CENTS_PER_REAL + cents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<i64, Refusal> {
        Amount::from_json(&RawValue::from_string(json.to_owned()).unwrap()).map(|amount| amount.0)
    }

    #[test]
    fn numbers_and_strings_are_read_exactly() {
        for (json, cents) in [
            ("15", 1_500),
            ("15.5", 1_550),
            ("15.50", 1_550),
            ("\"15.55\"", 1_555),
            ("0.01", 1),
            ("9999999999.99", 999_999_999_999),
        ] {
            assert_eq!(read(json).unwrap(), cents, "{json}");
        }
    }

    #[test]
    fn what_is_no_positive_amount_of_two_decimals_is_refused() {
        for json in [
            "0",
            "0.00",
            "-1",
            "1.001",
            "1e2",
            "1E400000000",
            "10000000000",
            "\"\"",
            "\"1,50\"",
            "\" 1\"",
            "\"01\"",
            "\"1.\"",
            "\".5\"",
            "\"+1\"",
            "true",
            "{}",
            "\"\\u0031\"",
            "\"\u{0661}\"",
        ] {
            assert_eq!(read(json).unwrap_err().code, "invalid_amount", "{json}");
        }
    }

    #[test]
    fn amounts_are_written_without_trailing_zeros() {
        for (cents, json) in
            [(1_500, "15"), (1_550, "15.5"), (1_555, "15.55"), (5, "0.05"), (0, "0"), (100_000, "1000")]
        {
            assert_eq!(serde_json::to_string(&Amount(cents)).unwrap(), json);
        }
        assert_eq!(Amount(123_450).fixed(), "1234.50");
        assert_eq!(Amount(-5).fixed(), "-0.05");
    }
}
