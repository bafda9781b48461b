//! Money: integer centavos inside, decimals at the edges, no float anywhere.
//!
//! [`Amount`] is what a person asks to move: at least one centavo, at most what a PIX message can carry.
//! [`Cents`] is any quantity of money that may be zero: a fee, a balance, a total.

use std::fmt;

use bigdecimal::{BigDecimal, RoundingMode, ToPrimitive};

use crate::invalid::Invalid;

/// The largest amount of one PIX, in centavos: 9,999,999,999.99 reais (BCB API Pix, `valor`: `\d{1,10}\.\d{2}`).
pub const MAX_AMOUNT_CENTS: i64 = 999_999_999_999;

/// The longest text that can be an amount: ten digits, a point, two digits.
const MAX_AMOUNT_CHARS: usize = 13;

/// A quantity of money in centavos: zero or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cents(i64);

impl Cents {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// `cents` centavos, or `None` when it is negative.
    pub const fn new(cents: i64) -> Option<Self> {
        if cents < 0 { None } else { Some(Self(cents)) }
    }

    /// The number of centavos.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Whether this is no money at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or `None` past the range of 64 bits.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, or `None` when `other` is more.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).and_then(Self::new)
    }

    /// This quantity in reais, exactly.
    pub fn to_decimal(self) -> BigDecimal {
        BigDecimal::from_bigint(self.0.into(), 2)
    }

    /// Reais without trailing zeros: `15`, `15.5`, `15.55`. The form of every amount in an answer.
    pub fn plain(self) -> String {
        let (reais, cents) = (self.0 / 100, self.0 % 100);
        match (cents, cents % 10) {
            (0, _) => reais.to_string(),
            (_, 0) => format!("{reais}.{}", cents / 10),
            _ => format!("{reais}.{cents:02}"),
        }
    }
}

/// Reais with two digits: `15.50`.
impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

const NOT_A_NUMBER: &str = "must be a decimal number such as 10.50, without sign or separators";

/// Most characters before an exponent: those of the longest number that a double is written as, and some.
const MAX_MANTISSA_CHARS: usize = 24;

/// A number with an exponent as one without, and without zeros that say nothing.
fn expanded(digits: &str, exponent: &str) -> Result<String, Invalid> {
    let refuse = |message: &str| Err(Invalid::new("invalid_amount", message));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let (is_negative, power) = match exponent.strip_prefix('-') {
        Some(power) => (true, power),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let leads_with_zero = whole.len() > 1 && whole.starts_with('0');
    if digits.len() > MAX_MANTISSA_CHARS
        || leads_with_zero
        || ![whole, fraction, power].into_iter().all(are_digits)
    {
        return refuse(NOT_A_NUMBER);
    }
    let all = format!("{whole}{fraction}");
    if all.bytes().all(|b| b == b'0') {
        return refuse("must be greater than zero");
    }
    let Some(power) = power.parse::<usize>().ok().filter(|power| *power < 100) else {
        return refuse(if is_negative {
            "must have at most 2 decimals"
        } else {
            "must be at most 9999999999.99"
        });
    };
    let zeros = "0".repeat(power);
    let (digits, point) = if is_negative {
        (format!("{zeros}{all}"), whole.len())
    } else {
        (format!("{all}{zeros}"), whole.len().saturating_add(power))
    };
    let (whole, fraction) = digits.split_at_checked(point).unwrap_or_default();
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

/// A positive amount of one PIX in centavos, within the bounds of the BCB's API Pix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i64);

impl Amount {
    /// Reads an amount in reais from its exact text: `10`, `10.5`, `10.55`, `1.05e1`.
    ///
    /// The grammar is `(0|[1-9][0-9]{0,9})(\.[0-9]{1,2})?` and the value is positive; or, as some languages write large
    /// numbers, an exponent of JSON (RFC 8259 §6) after digits, which is expanded to that. No sign, blank or group separator
    /// is accepted. What is too long, or has an exponent above 99, is not expanded, so that a hostile text costs one look at
    /// each of its characters.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => Self::parse_plain(&expanded(digits, exponent)?),
            None => Self::parse_plain(text),
        }
    }

    fn parse_plain(text: &str) -> Result<Self, Invalid> {
        let refuse = |message: &str| Err(Invalid::new("invalid_amount", message));
        if text.is_empty() {
            return refuse("must not be empty");
        }
        if text.starts_with('-') {
            return refuse("must be greater than zero");
        }
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if text.len() > MAX_AMOUNT_CHARS {
            let plain = digits(whole) && fraction.is_none_or(digits);
            return match fraction {
                Some(decimals) if plain && decimals.len() > 2 && whole.len() <= 10 => {
                    refuse("must have at most 2 decimals")
                }
                _ if plain => refuse("must be at most 9999999999.99"),
                _ => refuse(NOT_A_NUMBER),
            };
        }
        if !digits(whole) || !fraction.is_none_or(digits) || (whole.len() > 1 && whole.starts_with('0')) {
            return refuse(NOT_A_NUMBER);
        }
        if fraction.is_some_and(|decimals| decimals.len() > 2) {
            return refuse("must have at most 2 decimals");
        }
        if whole.len() > 10 {
            return refuse("must be at most 9999999999.99");
        }
        let mut cents: i64 = 0;
        for byte in whole.bytes().chain(fraction.unwrap_or_default().bytes()) {
            cents = cents * 10 + i64::from(byte - b'0');
        }
        for _ in fraction.map_or(0, str::len)..2 {
            cents *= 10;
        }
        if cents == 0 { refuse("must be greater than zero") } else { Ok(Self(cents)) }
    }

    /// `cents` centavos, when that is within the bounds of one PIX.
    pub fn from_cents(cents: i64) -> Result<Self, Invalid> {
        if (1..=MAX_AMOUNT_CENTS).contains(&cents) {
            Ok(Self(cents))
        } else {
            Err(Invalid::new("invalid_amount", "must be from 0.01 to 9999999999.99"))
        }
    }

    /// An amount from exact reais, for those who embed the domain. Never for text that came from outside: parsing
    /// `BigDecimal` from hostile text can cost seconds (`1e10000000`), [`Amount::parse`] can't.
    pub fn from_decimal(reais: &BigDecimal) -> Result<Self, Invalid> {
        let bounds = BigDecimal::from(0)..=BigDecimal::from(10_000_000_000_i64);
        if !bounds.contains(reais) {
            return Err(Invalid::new("invalid_amount", "must be from 0.01 to 9999999999.99"));
        }
        let cents = reais * BigDecimal::from(100);
        let whole = cents.with_scale_round(0, RoundingMode::Down);
        match whole.to_i64() {
            Some(value) if whole == cents => Self::from_cents(value),
            _ => Err(Invalid::new("invalid_amount", "must have at most 2 decimals")),
        }
    }

    /// This amount as a quantity that may be added up.
    pub const fn cents(self) -> Cents {
        Cents(self.0)
    }

    /// This amount in reais, exactly.
    pub fn to_decimal(self) -> BigDecimal {
        self.cents().to_decimal()
    }
}

/// Reais with two digits: `15.50`.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cents().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_in_the_grammar_are_exact() {
        for (text, cents) in [
            ("0.01", 1),
            ("1", 100),
            ("10.5", 1050),
            ("19.99", 1999),
            ("10.50", 1050),
            ("9999999999.99", MAX_AMOUNT_CENTS),
            ("1e1", 1000),
            ("1.05E+1", 1050),
            ("1.0E7", 1_000_000_000),
            ("9.99999999999E9", 999_999_999_999),
            ("9.99999999999e09", MAX_AMOUNT_CENTS),
            ("1050e-2", 1050),
            ("10500e-3", 1050),
            ("1E-2", 1),
            ("0.5e0", 50),
            ("0.001e3", 100),
            ("100000000000000000000e-20", 100),
        ] {
            assert_eq!(Amount::parse(text).unwrap().cents().get(), cents, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_a_sentence() {
        for text in [
            "",
            " 1",
            "1 ",
            "-1",
            "-0",
            "0",
            "0.00",
            "0.001",
            "10.555",
            "10.500",
            "1e10",
            "1e99",
            "1e400",
            "1e10000000",
            "1e-3",
            "15.55e-1",
            "1e-400",
            "0e0",
            "0.0E9",
            "0e-400",
            "-1e1",
            "1e",
            "1e+",
            "1e--1",
            "1e1.0",
            "1e1e1",
            "e1",
            ".1e1",
            "1.e1",
            "01e1",
            "1 e1",
            "1000000000000000000000000e-23",
            "NaN",
            "Infinity",
            "1,00",
            "1_000",
            "0x10",
            "00",
            "01.00",
            ".5",
            "5.",
            "+1",
            "12345678901",
            "99999999999.99",
            "10000000000",
            "١٢",
            "1.2.3",
            "1..2",
            "null",
            "１０",
        ] {
            let refused = Amount::parse(text).unwrap_err();
            assert_eq!(refused.code, "invalid_amount", "{text}");
            assert!(refused.message.starts_with("must "), "{text}");
        }
        assert!(Amount::parse(&"9".repeat(1_000_000)).is_err());
        assert!(Amount::parse(&format!("1.{}", "0".repeat(100))).unwrap_err().message.contains("2 decimals"));
    }

    #[test]
    fn printed_amounts_have_no_trailing_zeros_and_totals_have_two() {
        for (cents, plain, fixed) in [
            (1500, "15", "15.00"),
            (1550, "15.5", "15.50"),
            (1555, "15.55", "15.55"),
            (5, "0.05", "0.05"),
            (0, "0", "0.00"),
        ] {
            let cents = Cents::new(cents).unwrap();
            assert_eq!((cents.plain().as_str(), cents.to_string().as_str()), (plain, fixed));
        }
    }

    #[test]
    fn decimals_of_embedders_are_exact_or_refused() {
        let of = |text: &str| Amount::from_decimal(&BigDecimal::from_str(text).unwrap());
        assert_eq!(of("19.990").unwrap().cents().get(), 1999);
        for text in ["0.001", "0", "-1", "1e11", "1e100000000", "1e-100000"] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cents_are_never_negative_and_never_wrap() {
        assert_eq!(Cents::new(-1), None);
        assert_eq!(Cents::ZERO.checked_sub(Cents::new(1).unwrap()), None);
        assert_eq!(Cents::new(i64::MAX).unwrap().checked_add(Cents::new(1).unwrap()), None);
    }

    proptest! {
        #[test]
        fn every_amount_survives_its_own_text(cents in 1..=MAX_AMOUNT_CENTS) {
            let amount = Amount::from_cents(cents).unwrap();
            prop_assert_eq!(Amount::parse(&amount.to_string()).unwrap(), amount);
            prop_assert_eq!(Amount::parse(&amount.cents().plain()).unwrap(), amount);
            prop_assert_eq!(Amount::from_decimal(&amount.to_decimal()).unwrap(), amount);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = Amount::parse(&text);
        }
    }
}
