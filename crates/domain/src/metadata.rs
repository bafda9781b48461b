//! What integrators attach to a charge or a withdrawal for themselves: pairs of texts, shown to them again, and to list by.
//!
//! The gateway never reads a meaning into them and sends them to nobody else. They may be personal, so that `Debug` tells
//! their number alone.

use std::collections::BTreeMap;
use std::fmt;

use crate::invalid::Invalid;
use crate::text::clean;

/// Most pairs of one record.
pub const MAX_PAIRS: usize = 20;
/// Most characters of a key.
pub const KEY_MAX_CHARS: usize = 40;
/// Most characters of a value.
pub const VALUE_MAX_CHARS: usize = 500;

/// The pairs of a record, by their keys; none by default.
#[derive(Clone, PartialEq, Eq, Default, Hash)]
pub struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// Adds a pair. Keys are 1 to 40 letters, digits, `_`, `-` or `.` of ASCII, told apart by case; values 1 to 500 characters
    /// that can be shown safely. A key that is there already, and a pair too many, are refused.
    pub fn insert(&mut self, key: &str, value: &str) -> Result<(), Invalid> {
        let key = Self::key(key)?;
        let value = clean(value, VALUE_MAX_CHARS, "a value of metadata")?;
        if value.is_empty() {
            return Err(Invalid::new(Invalid::REQUIRED, "a value of metadata must not be empty"));
        }
        if self.0.contains_key(&key) {
            return Err(Invalid::format("metadata must not name a key twice"));
        }
        if self.0.len() == MAX_PAIRS {
            return Err(Invalid::new(
                Invalid::TOO_LONG,
                format!("metadata must have at most {MAX_PAIRS} pairs"),
            ));
        }
        self.0.insert(key, value);
        Ok(())
    }

    fn key(key: &str) -> Result<String, Invalid> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if (1..=KEY_MAX_CHARS).contains(&key.len()) && key.bytes().all(allowed) {
            return Ok(key.to_owned());
        }
        Err(Invalid::format(format!(
            "a key of metadata must have 1 to {KEY_MAX_CHARS} letters, digits, '_', '-' or '.'"
        )))
    }

    /// The pairs, in the order of their keys.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether all pairs of `other` are here too.
    pub fn has_all_of(&self, other: &Self) -> bool {
        other.0.iter().all(|(key, value)| self.0.get(key) == Some(value))
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metadata({} pairs)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Metadata, Invalid> {
        let mut metadata = Metadata::default();
        pairs.iter().try_for_each(|(key, value)| metadata.insert(key, value)).map(|()| metadata)
    }

    #[test]
    fn pairs_are_kept_in_the_order_of_their_keys() {
        let metadata = of(&[("b.2", " dois "), ("A_1-x", "é \"'\\")]).unwrap();
        assert_eq!(metadata.pairs().collect::<Vec<_>>(), [("A_1-x", "é \"'\\"), ("b.2", "dois")]);
        assert!(metadata.has_all_of(&of(&[("b.2", "dois")]).unwrap()));
        assert!(metadata.has_all_of(&Metadata::default()));
        assert!(!metadata.has_all_of(&of(&[("b.2", "Dois")]).unwrap()));
        assert!(!metadata.has_all_of(&of(&[("c", "dois")]).unwrap()));
        assert_eq!(format!("{metadata:?}"), "Metadata(2 pairs)");
    }

    #[test]
    fn what_is_too_much_or_can_not_be_shown_is_refused() {
        let (long_key, long_value) = ("k".repeat(41), "é".repeat(501));
        for (key, value) in [
            ("", "x"),
            ("a b", "x"),
            ("é", "x"),
            ("a\"", "x"),
            (long_key.as_str(), "x"),
            ("a", ""),
            ("a", " "),
            ("a", "x\u{202E}"),
            ("a", long_value.as_str()),
        ] {
            assert!(of(&[(key, value)]).is_err(), "{key:?}");
        }
        assert!(of(&[("a", "1"), ("a", "1")]).is_err());
        let keys: Vec<String> = (0..=MAX_PAIRS).map(|number| number.to_string()).collect();
        let pairs: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "x")).collect();
        assert!(of(&pairs[..MAX_PAIRS]).is_ok());
        assert_eq!(of(&pairs).unwrap_err().message, "metadata must have at most 20 pairs");
        assert!(of(&[(&"k".repeat(40), &"é".repeat(500))]).is_ok());
    }
}
