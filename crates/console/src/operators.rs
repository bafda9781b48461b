//! Who may sign in: operators, each with a token that a machine made and of which only a digest is kept.
//!
//! A token is `pixop_`, 64 hexadecimal digits (32 random bytes) and a checksum of 8 more: a mistyped one is known as such.
//! What has 256 random bits needs no slow hash: nobody finds it from its SHA-256.

use std::fmt::{self, Write as _};

use pix_domain::audit_log::Operator;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// What every token begins with.
pub const TOKEN_PREFIX: &str = "pixop_";
/// How many operators there may be.
pub const MAX_OPERATORS: usize = 32;

const RANDOM_BYTES: usize = 32;
const CHECKSUM_CHARS: usize = 8;
const TOKEN_CHARS: usize = TOKEN_PREFIX.len() + 2 * RANDOM_BYTES + CHECKSUM_CHARS;

/// A token of an operator. Redacted in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct OperatorToken(String);

impl OperatorToken {
    /// The token of these random bytes.
    pub fn of(random: [u8; RANDOM_BYTES]) -> Self {
        let body = format!("{TOKEN_PREFIX}{}", hex(&random));
        let checksum = checksum(&body);
        Self(body + &checksum)
    }

    /// Reads a token; `None` for what was never one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let body = text.strip_suffix(&checksum(text.get(..TOKEN_CHARS.checked_sub(CHECKSUM_CHARS)?)?))?;
        let digits = body.strip_prefix(TOKEN_PREFIX)?;
        (text.len() == TOKEN_CHARS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| Self(text.to_owned()))
    }

    /// The token itself: for whoever is to keep it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorToken(…)")
    }
}

/// The SHA-256 of a token; 64 hexadecimal digits when written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0_u8; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(place * 2..place * 2 + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// What is wrong with a list of operators. Says nothing of the digests.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OperatorsError {
    /// An entry has another form.
    #[error("has entry {0}, which must be NAME:SHA256HEX: `pix-gateway operator token NAME` prints one")]
    Form(usize),
    /// A name is none.
    #[error("has entry {0}, whose name must have 1 to 64 characters without a comma or a blank at an end")]
    Name(usize),
    /// Two entries have one name, upper and lower case aside.
    #[error("names {0:?} twice: an operator has one token")]
    TwoNames(String),
    /// Two operators have one token, and would be one person.
    #[error("has one token for {0:?} and {1:?}: each operator needs one of its own")]
    OneToken(String, String),
    /// There are too many.
    #[error("names more than {MAX_OPERATORS} operators")]
    TooMany,
}

/// Those who may sign in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Operators(Vec<(Operator, TokenDigest)>);

impl Operators {
    /// Reads `NAME:SHA256HEX`, separated by commas; nobody, for an empty text.
    pub fn parse(text: &str) -> Result<Self, OperatorsError> {
        let mut all: Vec<(Operator, TokenDigest)> = Vec::new();
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        for (index, entry) in entries.enumerate() {
            let place = index.saturating_add(1);
            let (name, digest) = entry.rsplit_once(':').ok_or(OperatorsError::Form(place))?;
            let digest = TokenDigest::parse(digest).ok_or(OperatorsError::Form(place))?;
            let operator = Operator::parse(name).ok_or(OperatorsError::Name(place))?;
            for (other, theirs) in &all {
                if other.as_str().to_lowercase() == name.to_lowercase() {
                    return Err(OperatorsError::TwoNames(name.to_owned()));
                }
                if *theirs == digest {
                    return Err(OperatorsError::OneToken(other.as_str().to_owned(), name.to_owned()));
                }
            }
            all.push((operator, digest));
        }
        if all.len() > MAX_OPERATORS {
            return Err(OperatorsError::TooMany);
        }
        Ok(Self(all))
    }

    /// Whether nobody may.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose token it is. Takes as long whoever's it is, and if it is nobody's.
    pub(crate) fn owner(&self, token: &OperatorToken) -> Option<&Operator> {
        let digest = token.digest();
        self.0.iter().fold(
            None,
            |found, (operator, theirs)| {
                if bool::from(theirs.0.ct_eq(&digest.0)) { Some(operator) } else { found }
            },
        )
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a text can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn checksum(body: &str) -> String {
    hex(&Sha256::digest(body.as_bytes())).chars().take(CHECKSUM_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, byte: u8) -> String {
        format!("{name}:{}", OperatorToken::of([byte; 32]).digest())
    }

    #[test]
    fn a_token_is_read_as_it_is_written_and_a_mistyped_one_is_none() {
        let token = OperatorToken::of([7; 32]);
        assert!(token.expose().starts_with(TOKEN_PREFIX));
        assert_eq!(OperatorToken::parse(&format!(" {}\n", token.expose())), Some(token.clone()));
        assert_eq!(format!("{token:?}"), "OperatorToken(…)");
        let swapped = token.expose().replacen("07", "70", 1);
        let longer = format!("{}0", token.expose());
        for text in ["", "pixop_", "é", &swapped, &longer, &token.expose().replace("pixop_", "pixsk_")] {
            assert_eq!(OperatorToken::parse(text), None, "{text}");
        }
    }

    #[test]
    fn each_token_leads_to_its_own_operator() {
        let operators = Operators::parse(&[entry("ana", 1), entry("Bia: night", 2)].join(", ")).unwrap();
        let owner = |byte| operators.owner(&OperatorToken::of([byte; 32])).map(Operator::as_str);
        assert_eq!((owner(1), owner(2), owner(3)), (Some("ana"), Some("Bia: night"), None));
        assert!(Operators::parse("").unwrap().is_empty());
    }

    #[test]
    fn a_list_that_can_not_be_meant_is_refused_with_a_sentence() {
        let (one, other) = (entry("ana", 1), entry("ANA", 2));
        let many = (0..=MAX_OPERATORS).map(|n| entry(&format!("o{n}"), u8::try_from(n).unwrap()));
        for (text, says) in [
            ("ana".to_owned(), "NAME:SHA256HEX"),
            ("ana:abc".to_owned(), "NAME:SHA256HEX"),
            (entry("", 1), "1 to 64"),
            (format!("{one},{other}"), "twice"),
            (format!("{one},{}", entry("bia", 1)), "one token"),
            (many.collect::<Vec<_>>().join(","), "more than 32"),
        ] {
            let refused = Operators::parse(&text).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
