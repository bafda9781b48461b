//! Who pays and who is paid: tax numbers, documents and PIX keys, in the one form they are stored in.
//!
//! All of it is personal data: `Debug` and `masked()` never show the whole, and no refusal repeats the value.

use std::fmt;

use crate::invalid::Invalid;

mod key;

pub use key::{PIX_KEY_MAX_CHARS, PixKey, PixKeyType};

const CPF_CHARS: usize = 11;
const CNPJ_CHARS: usize = 14;

/// Which register a tax number is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaxIdKind {
    /// Natural persons, 11 digits.
    Cpf,
    /// Legal persons, 14 characters (letters among them since July 2026, IN RFB 2229/2024).
    Cnpj,
}

/// A CPF or CNPJ with valid check digits, upper case and without punctuation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaxId {
    kind: TaxIdKind,
    text: String,
}

impl TaxId {
    /// Reads a CPF or CNPJ; the length tells which. Punctuation (`.`, `-`, `/`, blanks) and case don't matter.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let text = canonical(text, |c| matches!(c, '.' | '-' | '/' | ' '));
        match (text.is_empty(), kind_by_length(&text)) {
            (true, _) => Err(Invalid::required("CPF or CNPJ")),
            (_, Some(TaxIdKind::Cpf)) => Self::cpf(text),
            (_, Some(TaxIdKind::Cnpj)) => Self::cnpj(text),
            (_, None) => Err(Invalid::format("must be a CPF of 11 digits or a CNPJ of 14 characters")),
        }
    }

    fn cpf(text: String) -> Result<Self, Invalid> {
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Invalid::format("a CPF must have 11 digits"));
        }
        let first = text.bytes().next();
        let all_equal = text.bytes().all(|b| Some(b) == first);
        if all_equal || !has_check_digits(&text, |position_from_end| position_from_end + 2) {
            return Err(Invalid::new(Invalid::CHECK_DIGITS, "the check digits of the CPF are wrong"));
        }
        Ok(Self { kind: TaxIdKind::Cpf, text })
    }

    fn cnpj(text: String) -> Result<Self, Invalid> {
        let (base, digits) = split_check_digits(&text);
        let formed = base.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
            && digits.bytes().all(|b| b.is_ascii_digit());
        if !formed {
            return Err(Invalid::format("a CNPJ must have 12 letters or digits and 2 check digits"));
        }
        let all_zero = text.bytes().all(|b| b == b'0');
        if all_zero || !has_check_digits(&text, |position_from_end| position_from_end % 8 + 2) {
            return Err(Invalid::new(Invalid::CHECK_DIGITS, "the check digits of the CNPJ are wrong"));
        }
        Ok(Self { kind: TaxIdKind::Cnpj, text })
    }

    /// CPF or CNPJ.
    pub fn kind(&self) -> TaxIdKind {
        self.kind
    }

    /// The number, upper case and without punctuation.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The number with its ends hidden: `***.982.247-**`, `**.222.333/****-**`.
    pub fn masked(&self) -> String {
        masked_document(self.kind, &self.text)
    }
}

impl fmt::Debug for TaxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaxId({})", self.masked())
    }
}

/// A payer's document as v2 clients send it: 11 or 14 letters or digits, upper case and without punctuation.
/// The check digits may be wrong, since those clients send fillers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Document {
    kind: TaxIdKind,
    text: String,
}

impl Document {
    /// Reads a document, checking its length only.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let text = canonical(text, |c| c.is_whitespace() || c.is_ascii_punctuation());
        if text.is_empty() {
            return Err(Invalid::required("document"));
        }
        match kind_by_length(&text) {
            Some(kind) if text.bytes().all(|b| b.is_ascii_alphanumeric()) => Ok(Self { kind, text }),
            _ => Err(Invalid::format("document must have 11 or 14 letters or digits")),
        }
    }

    /// CPF or CNPJ, by the length.
    pub fn kind(&self) -> TaxIdKind {
        self.kind
    }

    /// The document, upper case and without punctuation.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The document with its ends hidden, as [`TaxId::masked`].
    pub fn masked(&self) -> String {
        masked_document(self.kind, &self.text)
    }
}

/// As [`Document::parse`], of a text that is kept when it is digits alone.
impl TryFrom<String> for Document {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        let kind = if has_digits_only(&text) { kind_of(text.len()) } else { None };
        match kind {
            Some(kind) => Ok(Self { kind, text }),
            None => Self::parse(&text),
        }
    }
}

impl From<TaxId> for Document {
    fn from(TaxId { kind, text }: TaxId) -> Self {
        Self { kind, text }
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({})", self.masked())
    }
}

fn canonical(text: &str, is_punctuation: impl Fn(char) -> bool) -> String {
    // As it is kept, and so as it mostly comes.
    if has_digits_only(text) {
        return text.to_owned();
    }
    text.chars().filter(|c| !is_punctuation(*c)).map(|c| c.to_ascii_uppercase()).collect()
}

/// Looks at all of it at once, rather than at each by itself: every record that is read has a document.
fn has_digits_only(text: &str) -> bool {
    text.bytes().fold(true, |digits, b| digits & b.is_ascii_digit())
}

fn kind_by_length(text: &str) -> Option<TaxIdKind> {
    kind_of(text.chars().count())
}

const fn kind_of(chars: usize) -> Option<TaxIdKind> {
    match chars {
        CPF_CHARS => Some(TaxIdKind::Cpf),
        CNPJ_CHARS => Some(TaxIdKind::Cnpj),
        _ => None,
    }
}

fn masked_document(kind: TaxIdKind, text: &str) -> String {
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    match kind {
        TaxIdKind::Cpf => format!("***.{}.{}-**", part(3, 6), part(6, 9)),
        TaxIdKind::Cnpj => format!("**.{}.{}/****-**", part(2, 5), part(5, 8)),
    }
}

/// The number proper and its two check digits.
fn split_check_digits(text: &str) -> (&str, &str) {
    text.len().checked_sub(2).and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""))
}

/// The mod-11 rule of both registers (IN RFB 2229/2024): a character counts its ASCII code less 48, times the
/// weight of its place counted from the end; the first check digit takes part in the second.
fn has_check_digits(text: &str, weight: impl Fn(u32) -> u32) -> bool {
    let (base, digits) = split_check_digits(text);
    let check_digit = |of: &[u8]| {
        let sum: u32 = (0..)
            .zip(of.iter().rev())
            .map(|(place, b)| u32::from(b.saturating_sub(b'0')) * weight(place))
            .sum();
        let digit = match sum % 11 {
            0 | 1 => 0,
            rest => 11 - rest,
        };
        char::from_digit(digit, 10)
    };
    let mut counted = base.as_bytes().to_vec();
    digits.chars().all(|digit| {
        let right = check_digit(&counted) == Some(digit);
        counted.extend(digit.to_string().bytes());
        right
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn valid_tax_ids_are_stored_in_one_form() {
        for (text, kind, stored) in [
            ("52998224725", TaxIdKind::Cpf, "52998224725"),
            ("529.982.247-25", TaxIdKind::Cpf, "52998224725"),
            (" 529 982 247 25 ", TaxIdKind::Cpf, "52998224725"),
            ("12ABC34501DE35", TaxIdKind::Cnpj, "12ABC34501DE35"),
            ("12.abc.345/01de-35", TaxIdKind::Cnpj, "12ABC34501DE35"),
            ("11222333000181", TaxIdKind::Cnpj, "11222333000181"),
            ("11.222.333/0001-81", TaxIdKind::Cnpj, "11222333000181"),
            ("00000000000191", TaxIdKind::Cnpj, "00000000000191"),
            ("ZZZZZZZZZZZZ62", TaxIdKind::Cnpj, "ZZZZZZZZZZZZ62"),
            ("1A2B3C4D000179", TaxIdKind::Cnpj, "1A2B3C4D000179"),
        ] {
            let tax_id = TaxId::parse(text).unwrap();
            assert_eq!((tax_id.kind(), tax_id.as_str()), (kind, stored), "{text}");
        }
    }

    #[test]
    fn invalid_tax_ids_say_why() {
        for (text, expected) in [
            ("", "required"),
            (" . ", "required"),
            ("11111111111", "check_digits"),
            ("00000000000", "check_digits"),
            ("52998224724", "check_digits"),
            ("52998224735", "check_digits"),
            ("12ABC34501DE36", "check_digits"),
            ("12ABC34501DE45", "check_digits"),
            ("00000000000000", "check_digits"),
            ("11222333000182", "check_digits"),
            ("5299822472", "invalid_format"),
            ("529982247255", "invalid_format"),
            ("5299822472A", "invalid_format"),
            ("12ABC34501DEA5", "invalid_format"),
            ("12ABC34501D?35", "invalid_format"),
            ("1122233300018é", "invalid_format"),
            ("529_982_247_25", "invalid_format"),
            ("５２９９８２２４７２５", "invalid_format"),
        ] {
            assert_eq!(TaxId::parse(text).unwrap_err().code, expected, "{text:?}");
        }
    }

    #[test]
    fn every_equal_digit_cpf_is_invalid() {
        for digit in '0'..='9' {
            let text = digit.to_string().repeat(11);
            assert_eq!(TaxId::parse(&text).unwrap_err().code, "check_digits", "{text}");
        }
    }

    #[test]
    fn masks_and_debug_hide_the_ends() {
        let cpf = TaxId::parse("52998224725").unwrap();
        assert_eq!(cpf.masked(), "***.982.247-**");
        assert_eq!(format!("{cpf:?}"), "TaxId(***.982.247-**)");
        let cnpj = TaxId::parse("12ABC34501DE35").unwrap();
        assert_eq!(cnpj.masked(), "**.ABC.345/****-**");
        assert_eq!(format!("{:?}", Document::from(cnpj)), "Document(**.ABC.345/****-**)");
    }

    #[test]
    fn document_takes_fillers_of_the_right_length() {
        for (text, stored) in [
            ("000.000.000-00", "00000000000"),
            ("123.456.789-01", "12345678901"),
            ("12abc345000199", "12ABC345000199"),
            ("(12) 345_678*90/1", "12345678901"),
        ] {
            assert_eq!(Document::parse(text).unwrap().as_str(), stored);
        }
        assert_eq!(Document::parse("00000000000").unwrap().kind(), TaxIdKind::Cpf);
        for (text, expected) in
            [("--", "required"), ("123", "invalid_format"), ("1234567890é", "invalid_format")]
        {
            assert_eq!(Document::parse(text).unwrap_err().code, expected);
        }
    }

    proptest! {
        #[test]
        fn every_base_has_exactly_one_pair_of_check_digits(base in "[0-9A-Z]{12}") {
            prop_assume!(base != "000000000000");
            let valid = (0..100).filter(|n| TaxId::parse(&format!("{base}{n:02}")).is_ok()).count();
            prop_assert_eq!(valid, 1);
        }

        #[test]
        fn every_cpf_base_has_exactly_one_pair_of_check_digits(base in "[0-8]{8}9") {
            let valid = (0..100).filter(|n| TaxId::parse(&format!("{base}{n:02}")).is_ok()).count();
            prop_assert_eq!(valid, 1);
        }

        #[test]
        fn parsing_never_panics_and_is_idempotent(text in "\\PC{0,20}|[0-9]{10,15}") {
            prop_assert_eq!(Document::try_from(text.clone()), Document::parse(&text));
            if let Ok(document) = Document::parse(&text) {
                prop_assert_eq!(Document::parse(document.as_str()), Ok(document.clone()));
                prop_assert!(!document.masked().contains(document.as_str()));
            }
            let _ = TaxId::parse(&text).is_ok();
        }
    }
}
