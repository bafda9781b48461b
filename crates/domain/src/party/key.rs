//! PIX keys: the five types and their forms in DICT (BCB, `pix-dict-api`).

use std::fmt;

use super::{TaxId, TaxIdKind};
use crate::{invalid::Invalid, text::DOMAIN_LABEL_MAX_CHARS};

/// Most characters of a PIX key.
pub const PIX_KEY_MAX_CHARS: usize = 77;

const BRAZIL: &str = "55";
/// Digits of an E.164 number as DICT bounds them, country code included.
const PHONE_DIGITS: std::ops::RangeInclusive<usize> = 3..=16;

/// What a PIX key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PixKeyType {
    /// A natural person's tax number.
    Cpf,
    /// A legal person's tax number.
    Cnpj,
    /// A telephone number.
    Phone,
    /// An e-mail address.
    Email,
    /// A random key: a UUID that DICT gave out.
    Evp,
}

impl PixKeyType {
    /// Reads a key type by any of the names that clients use, in any case.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match text.trim().to_ascii_uppercase().as_str() {
            "CPF" => Ok(Self::Cpf),
            "CNPJ" => Ok(Self::Cnpj),
            "PHONE" | "TELEFONE" | "CELULAR" => Ok(Self::Phone),
            "EMAIL" => Ok(Self::Email),
            "EVP" | "RANDOM" | "RANDOM_KEY" | "ALEATORIA" | "CHAVE_ALEATORIA" => Ok(Self::Evp),
            "" => Err(Invalid::required("keyType")),
            _ => Err(Invalid::new(
                Invalid::UNKNOWN_VALUE,
                "keyType must be one of CPF, CNPJ, EMAIL, PHONE (or TELEFONE, CELULAR), \
                 EVP (or RANDOM, RANDOM_KEY, ALEATORIA, CHAVE_ALEATORIA)",
            )),
        }
    }

    /// The name, upper case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpf => "CPF",
            Self::Cnpj => "CNPJ",
            Self::Phone => "PHONE",
            Self::Email => "EMAIL",
            Self::Evp => "EVP",
        }
    }
}

impl fmt::Display for PixKeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A PIX key in the form that DICT knows it by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PixKey {
    kind: PixKeyType,
    text: String,
}

impl PixKey {
    /// Reads a key of a given type, in any of the spellings that clients use for it.
    pub fn parse(kind: PixKeyType, text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Invalid::required("PIX key"));
        }
        if text.chars().count() > PIX_KEY_MAX_CHARS {
            return Err(Invalid::too_long("PIX key", PIX_KEY_MAX_CHARS));
        }
        let text = match kind {
            PixKeyType::Cpf => tax_id(text, TaxIdKind::Cpf, "PIX key must be a CPF of 11 digits")?,
            PixKeyType::Cnpj => tax_id(text, TaxIdKind::Cnpj, "PIX key must be a CNPJ of 14 characters")?,
            PixKeyType::Phone => phone(text).ok_or_else(|| {
                Invalid::format("PIX key must be a telephone number, such as +5511987654321")
            })?,
            PixKeyType::Email => email(text).ok_or_else(|| {
                Invalid::format("PIX key must be an e-mail address, such as name@example.com")
            })?,
            PixKeyType::Evp => evp(text).ok_or_else(|| Invalid::format("PIX key must be a UUID"))?,
        };
        Ok(Self { kind, text })
    }

    /// What stands where the key of an erased person stood: a random key of zeros, which DICT gives to nobody.
    pub fn erased() -> Self {
        Self { kind: PixKeyType::Evp, text: "00000000-0000-0000-0000-000000000000".to_owned() }
    }

    /// The type of the key.
    pub fn kind(&self) -> PixKeyType {
        self.kind
    }

    /// The key as DICT knows it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As much of the key as may be shown in a log.
    pub fn masked(&self) -> String {
        match self.kind {
            PixKeyType::Cpf => super::masked_document(TaxIdKind::Cpf, &self.text),
            PixKeyType::Cnpj => super::masked_document(TaxIdKind::Cnpj, &self.text),
            PixKeyType::Phone => masked_phone(&self.text),
            PixKeyType::Email => {
                format!("***@{}", self.text.split_once('@').map_or("***", |(_, domain)| domain))
            }
            PixKeyType::Evp => {
                format!("{}-****-****-****-************", self.text.get(..8).unwrap_or_default())
            }
        }
    }
}

impl fmt::Debug for PixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PixKey({} {})", self.kind, self.masked())
    }
}

fn tax_id(text: &str, kind: TaxIdKind, expected: &str) -> Result<String, Invalid> {
    let tax_id = match TaxId::parse(text) {
        Err(invalid) if invalid.code != Invalid::CHECK_DIGITS => return Err(Invalid::format(expected)),
        parsed => parsed?,
    };
    if tax_id.kind() == kind { Ok(tax_id.as_str().to_owned()) } else { Err(Invalid::format(expected)) }
}

/// `+`, country code and number. Without a `+`, 10 or 11 digits are a Brazilian number without its country
/// code, and 12 or 13 have to begin with it.
fn phone(text: &str) -> Option<String> {
    let stripped: String = text.chars().filter(|c| !matches!(c, '(' | ')' | '-' | ' ')).collect();
    let (international, digits) = match stripped.strip_prefix('+') {
        Some(digits) => (true, digits),
        None => (false, stripped.as_str()),
    };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let national = match (international, digits.len()) {
        (false, 10 | 11) => digits,
        (false, 12 | 13) => digits.strip_prefix(BRAZIL)?,
        (false, _) => return None,
        (true, length) => match digits.strip_prefix(BRAZIL) {
            Some(national) => national,
            None if PHONE_DIGITS.contains(&length) && !digits.starts_with('0') => {
                return Some(format!("+{digits}"));
            }
            None => return None,
        },
    };
    let (area_code, number) = national.split_at_checked(2)?;
    (!area_code.contains('0') && matches!(number.len(), 8 | 9)).then(|| format!("+{BRAZIL}{national}"))
}

/// Country code's first digits and the last four of the number; too short a number shows nothing.
fn masked_phone(text: &str) -> String {
    match (text.get(..3), text.len().checked_sub(4).and_then(|at| text.get(at..))) {
        (Some(start), Some(end)) if text.len() >= 10 => format!("{start}*****{end}"),
        _ => "+*****".to_owned(),
    }
}

/// DICT's form of an e-mail key, lower case.
fn email(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (local, domain) = text.split_once('@')?;
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let local_is_fine =
        !local.is_empty() && local.bytes().all(|b| is_word(b) || b".!#$&'*+/=?^_`{|}~-".contains(&b));
    let domain_is_fine = domain.split('.').all(|label| {
        (1..=DOMAIN_LABEL_MAX_CHARS).contains(&label.len())
            && label.bytes().all(|b| is_word(b) || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    });
    (local_is_fine && domain_is_fine).then_some(text)
}

/// A UUID of any version, with its four hyphens or none; lower case and with them.
fn evp(text: &str) -> Option<String> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let text = text.to_ascii_lowercase();
    let hyphenated = text.contains('-');
    let mut rest = text.as_str();
    let mut groups = Vec::with_capacity(GROUPS.len());
    for length in GROUPS {
        if hyphenated && !groups.is_empty() {
            rest = rest.strip_prefix('-')?;
        }
        let (group, after) = rest.split_at_checked(length)?;
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        groups.push(group);
        rest = after;
    }
    rest.is_empty().then(|| groups.join("-"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn key_types_are_known_by_every_name_in_any_case() {
        for (names, kind, shown) in [
            (&["CPF", "cpf", " Cpf "][..], PixKeyType::Cpf, "CPF"),
            (&["CNPJ", "cnpj"], PixKeyType::Cnpj, "CNPJ"),
            (&["PHONE", "phone", "Telefone", "celular"], PixKeyType::Phone, "PHONE"),
            (&["EMAIL", "eMail"], PixKeyType::Email, "EMAIL"),
            (&["EVP", "random", "Random_Key", "aleatoria", "CHAVE_ALEATORIA"], PixKeyType::Evp, "EVP"),
        ] {
            for name in names {
                assert_eq!(PixKeyType::parse(name).unwrap(), kind, "{name}");
            }
            assert_eq!(kind.to_string(), shown);
            assert_eq!(PixKeyType::parse(kind.as_str()).unwrap(), kind);
        }
    }

    #[test]
    fn an_unknown_key_type_is_told_the_allowed_ones() {
        let invalid = PixKeyType::parse("iban").unwrap_err();
        assert_eq!(invalid.code, "unknown_value");
        for name in
            ["CPF", "CNPJ", "EMAIL", "PHONE", "TELEFONE", "CELULAR", "EVP", "RANDOM_KEY", "CHAVE_ALEATORIA"]
        {
            assert!(invalid.message.contains(name), "{name}");
        }
        assert_eq!(PixKeyType::parse("").unwrap_err().code, "required");
    }

    #[test]
    fn keys_are_stored_as_dict_knows_them() {
        use PixKeyType::{Cnpj, Cpf, Email, Evp, Phone};
        for (kind, text, stored) in [
            (Cpf, "529.982.247-25", "52998224725"),
            (Cnpj, "12.abc.345/01de-35", "12ABC34501DE35"),
            (Phone, "+5511987654321", "+5511987654321"),
            (Phone, "5511987654321", "+5511987654321"),
            (Phone, "11987654321", "+5511987654321"),
            (Phone, "(11) 98765-4321", "+5511987654321"),
            (Phone, "+55 (11) 98765-4321", "+5511987654321"),
            (Phone, "1133334444", "+551133334444"),
            (Phone, "551133334444", "+551133334444"),
            (Phone, "5533334444", "+555533334444"),
            (Phone, "55987654321", "+5555987654321"),
            (Phone, "+14155552671", "+14155552671"),
            (Phone, "+351 912 345 678", "+351912345678"),
            (Email, "Maria.Silva+pix@Example.COM", "maria.silva+pix@example.com"),
            (Email, "a`{|}~!#$&'*/=?^_-@x-1.br", "a`{|}~!#$&'*/=?^_-@x-1.br"),
            (Evp, "123E4567-e89b-12d3-A456-426655440000", "123e4567-e89b-12d3-a456-426655440000"),
            (Evp, "123e4567e89b12d3a456426655440000", "123e4567-e89b-12d3-a456-426655440000"),
            (Evp, " 123e4567-e89b-12d3-a456-426655440000\n", "123e4567-e89b-12d3-a456-426655440000"),
        ] {
            let key = PixKey::parse(kind, text).unwrap();
            assert_eq!((key.kind(), key.as_str()), (kind, stored), "{text}");
            assert_eq!(PixKey::parse(kind, stored).unwrap(), key, "canonical form is stable");
        }
    }

    #[test]
    fn malformed_keys_say_why() {
        use PixKeyType::{Cnpj, Cpf, Email, Evp, Phone};
        let long_label = format!("a@{}.br", "b".repeat(64));
        for (kind, text, expected) in [
            (Cpf, "", "required"),
            (Evp, "  ", "required"),
            (Cpf, "11111111111", "check_digits"),
            (Cpf, "11222333000181", "invalid_format"),
            (Cpf, "...", "invalid_format"),
            (Cnpj, "52998224725", "invalid_format"),
            (Cnpj, "12ABC34501DE36", "check_digits"),
            (Phone, "987654321", "invalid_format"),
            (Phone, "12345678901234", "invalid_format"),
            (Phone, "4411987654321", "invalid_format"),
            (Phone, "10987654321", "invalid_format"),
            (Phone, "01987654321", "invalid_format"),
            (Phone, "+550198765432", "invalid_format"),
            (Phone, "+551198765432100", "invalid_format"),
            (Phone, "+5511", "invalid_format"),
            (Phone, "+0123456789", "invalid_format"),
            (Phone, "+12", "invalid_format"),
            (Phone, "+12345678901234567", "invalid_format"),
            (Phone, "++5511987654321", "invalid_format"),
            (Phone, "11+987654321", "invalid_format"),
            (Phone, "1198765432x", "invalid_format"),
            (Phone, "１1987654321", "invalid_format"),
            (Email, "maria", "invalid_format"),
            (Email, "@example.com", "invalid_format"),
            (Email, "a@b@c.com", "invalid_format"),
            (Email, "a%b@c.com", "invalid_format"),
            (Email, "joão@example.com", "invalid_format"),
            (Email, "a b@example.com", "invalid_format"),
            (Email, "a@-b.com", "invalid_format"),
            (Email, "a@b..com", "invalid_format"),
            (Email, "a@", "invalid_format"),
            (Email, &long_label, "invalid_format"),
            (Evp, "123e4567-e89b-12d3-a456-42665544000", "invalid_format"),
            (Evp, "123e4567-e89b-12d3-a456-4266554400000", "invalid_format"),
            (Evp, "123e4567-e89b12d3a456426655440000", "invalid_format"),
            (Evp, "-123e4567e89b12d3a456426655440000", "invalid_format"),
            (Evp, "g23e4567-e89b-12d3-a456-426655440000", "invalid_format"),
            (Evp, "é23e4567-e89b-12d3-a456-42665544000", "invalid_format"),
        ] {
            assert_eq!(PixKey::parse(kind, text).unwrap_err().code, expected, "{kind} {text:?}");
        }
        let email_of = |chars: usize| format!("{}@example.com", "a".repeat(chars - 12));
        assert!(PixKey::parse(Email, &email_of(77)).is_ok());
        assert_eq!(PixKey::parse(Email, &email_of(78)).unwrap_err().code, "too_long");
    }

    #[test]
    fn masked_keys_give_no_one_away() {
        use PixKeyType::{Cnpj, Cpf, Email, Evp, Phone};
        for (kind, text, masked) in [
            (Cpf, "52998224725", "***.982.247-**"),
            (Cnpj, "11222333000181", "**.222.333/****-**"),
            (Phone, "11987654321", "+55*****4321"),
            (Phone, "+12345", "+*****"),
            (Email, "maria@example.com", "***@example.com"),
            (Evp, "123e4567-e89b-12d3-a456-426655440000", "123e4567-****-****-****-************"),
        ] {
            let key = PixKey::parse(kind, text).unwrap();
            assert_eq!(key.masked(), masked);
            assert_eq!(format!("{key:?}"), format!("PixKey({kind} {masked})"));
        }
    }

    fn any_kind() -> impl Strategy<Value = PixKeyType> {
        prop::sample::select(vec![
            PixKeyType::Cpf,
            PixKeyType::Cnpj,
            PixKeyType::Phone,
            PixKeyType::Email,
            PixKeyType::Evp,
        ])
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_is_idempotent(kind in any_kind(), text in "\\PC{0,80}|[+0-9() -]{8,18}|[0-9a-fA-F-]{32,36}") {
            if let Ok(key) = PixKey::parse(kind, &text) {
                prop_assert_eq!(PixKey::parse(kind, key.as_str()), Ok(key.clone()));
                prop_assert!(key.as_str().len() <= PIX_KEY_MAX_CHARS);
                prop_assert!(!key.masked().contains(key.as_str()));
            }
        }

        #[test]
        fn spellings_of_a_phone_are_one_key(area in "[1-9]{2}", number in "[0-9]{8,9}") {
            let canonical = format!("+55{area}{number}");
            for text in [format!("{area}{number}"), format!("55{area}{number}"), format!("+55 ({area}) {number}")] {
                let key = PixKey::parse(PixKeyType::Phone, &text).unwrap();
                prop_assert_eq!(key.as_str(), canonical.as_str());
            }
        }
    }
}
