//! The keys that seal tokens: the first seals, all open, so that a key is replaced without cutting anyone off.
//!
//! Owns the text form of keys (PASERK, <https://github.com/paseto-standard/paserk>). Never shows one, but to who asks
//! for the list to write it down.

use std::fmt;

use pasetors::keys::{Generate, SymmetricKey};
use pasetors::paserk::{FormatAsPaserk, Id};
use pasetors::version4::V4;
use secrecy::SecretString;

use super::TokenSetupError;
use crate::guess::is_guessable;

/// The most keys a ring holds: two are enough for a rotation.
pub const MAX_KEYS: usize = 16;

/// The length of one key as text: `k4.local.` and 32 bytes in base64.
const PASERK_CHARS: usize = 52;

/// A key with what names it. Its bytes are wiped when it is dropped.
pub(super) struct TokenKey {
    secret: SymmetricKey<V4>,
    id: String,
    footer: Vec<u8>,
}

impl TokenKey {
    fn new(secret: SymmetricKey<V4>) -> Self {
        let id = paserk(&Id::from(&secret));
        let footer = format!(r#"{{"kid":"{id}"}}"#).into_bytes();
        Self { secret, id, footer }
    }

    pub(super) fn secret(&self) -> &SymmetricKey<V4> {
        &self.secret
    }

    /// The footer of every token that this key seals, to the byte.
    pub(super) fn footer(&self) -> &[u8] {
        &self.footer
    }
}

/// One or more keys. The first seals new tokens; all of them open.
///
/// To rotate: put a new key first and keep the old one after it until the last token it sealed has expired.
pub struct KeyRing {
    first: TokenKey,
    others: Vec<TokenKey>,
}

impl KeyRing {
    /// Reads a comma-separated list of PASERK `k4.local.…` keys (`PIX_TOKEN_KEYS`). White space around a key is
    /// ignored.
    pub fn parse(list: &str) -> Result<Self, TokenSetupError> {
        if list.trim().is_empty() {
            return Err(TokenSetupError::NoKeys);
        }
        let mut keys: Vec<TokenKey> = Vec::new();
        for (position, text) in (1..).zip(list.split(',')) {
            if position > MAX_KEYS {
                return Err(TokenSetupError::TooManyKeys);
            }
            let key = parse_key(text.trim(), position)?;
            if keys.iter().any(|earlier| earlier.id == key.id) {
                return Err(TokenSetupError::RepeatedKey { position });
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or(TokenSetupError::NoKeys)?;
        Ok(Self { first, others: keys.collect() })
    }

    /// A ring of one new key, from the operating system's generator.
    pub fn generate() -> Result<Self, TokenSetupError> {
        let secret = SymmetricKey::generate().map_err(|error| TokenSetupError::Random(error.to_string()))?;
        Ok(Self { first: TokenKey::new(secret), others: Vec::new() })
    }

    /// The keys as [`KeyRing::parse`] reads them, for the key file. It is all that is needed to forge tokens.
    pub fn to_paserk_list(&self) -> SecretString {
        let mut list = String::with_capacity((PASERK_CHARS + 1) * (1 + self.others.len()));
        for key in self.iter() {
            if !list.is_empty() {
                list.push(',');
            }
            // Writing to a `String` can't fail.
            let _infallible = key.secret.fmt(&mut list);
        }
        SecretString::from(list)
    }

    /// The place, from 1, of the first key that has a pattern ([`is_guessable`]). A ring of such keys works: tests have some.
    pub fn guessable_key(&self) -> Option<usize> {
        (1..).zip(self.iter()).find(|(_, key)| is_guessable(key.secret.as_bytes())).map(|(place, _)| place)
    }

    /// The ids (`k4.lid.…`) of the keys, the sealing one first. They may be shown.
    pub fn key_ids(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|key| key.id.as_str())
    }

    pub(super) fn first(&self) -> &TokenKey {
        &self.first
    }

    pub(super) fn by_footer(&self, footer: &[u8]) -> Option<&TokenKey> {
        self.iter().find(|key| key.footer == footer)
    }

    fn iter(&self) -> impl Iterator<Item = &TokenKey> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// The ids of the keys only.
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyRing ")?;
        f.debug_list().entries(self.key_ids()).finish()
    }
}

fn parse_key(text: &str, position: usize) -> Result<TokenKey, TokenSetupError> {
    if text.len() != PASERK_CHARS {
        return Err(TokenSetupError::NotAKey { position });
    }
    let Ok(secret) = SymmetricKey::<V4>::try_from(text) else {
        return Err(TokenSetupError::NotAKey { position });
    };
    let bytes = secret.as_bytes();
    if bytes.iter().all(|byte| Some(byte) == bytes.first()) {
        return Err(TokenSetupError::WeakKey { position });
    }
    Ok(TokenKey::new(secret))
}

fn paserk(value: &impl FormatAsPaserk) -> String {
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _infallible = value.fmt(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret;

    use super::*;

    fn paserk_of(bytes: [u8; 32]) -> String {
        paserk(&SymmetricKey::<V4>::from(&bytes).unwrap())
    }

    /// A key that isn't weak.
    fn some_key(seed: u8) -> String {
        let mut bytes = [seed; 32];
        bytes[0] = seed.wrapping_add(1);
        paserk_of(bytes)
    }

    #[test]
    fn a_ring_is_written_as_it_is_read() {
        let list = format!("{},{}", some_key(1), some_key(2));
        let ring = KeyRing::parse(&list).unwrap();
        assert_eq!(ring.to_paserk_list().expose_secret(), list);
        assert_eq!(list.len(), PASERK_CHARS * 2 + 1);
    }

    #[test]
    fn white_space_around_keys_is_ignored() {
        let ring = KeyRing::parse(&format!(" {} ,\n{}\n", some_key(1), some_key(2))).unwrap();
        assert_eq!(ring.key_ids().count(), 2);
    }

    #[test]
    fn key_ids_are_those_of_paserk() {
        // https://github.com/paseto-standard/test-vectors, PASERK/k4.lid.json, k4.lid-2.
        let bytes: Vec<u8> = (0x70..=0x8f).collect();
        let ring = KeyRing::parse(&paserk_of(bytes.try_into().unwrap())).unwrap();
        let ids: Vec<&str> = ring.key_ids().collect();
        assert_eq!(ids, ["k4.lid.iVtYQDjr5gEijCSjJC3fQaJm7nCeQSeaty0Jixy8dbsk"]);
    }

    #[test]
    fn generated_keys_differ_and_can_be_read_back() {
        let ring = KeyRing::generate().unwrap();
        let again = KeyRing::parse(ring.to_paserk_list().expose_secret()).unwrap();
        assert!(ring.key_ids().eq(again.key_ids()));
        assert!(!ring.key_ids().eq(KeyRing::generate().unwrap().key_ids()));
    }

    #[test]
    fn a_bad_list_is_refused_with_the_place_of_its_fault() {
        let (good, zero, equal) = (some_key(1), paserk_of([0; 32]), paserk_of([0xAB; 32]));
        let too_many: Vec<String> = (0..=16).map(some_key).collect();
        let cases = [
            (String::new(), TokenSetupError::NoKeys),
            ("  \n".to_owned(), TokenSetupError::NoKeys),
            (format!("{good},"), TokenSetupError::NotAKey { position: 2 }),
            ("k4.local.AAAA".to_owned(), TokenSetupError::NotAKey { position: 1 }),
            (good.replace("k4.local", "k4.publi"), TokenSetupError::NotAKey { position: 1 }),
            (good.replace("k4.", "k2."), TokenSetupError::NotAKey { position: 1 }),
            (format!("{good},{zero}"), TokenSetupError::WeakKey { position: 2 }),
            (equal, TokenSetupError::WeakKey { position: 1 }),
            (format!("{good},{good}"), TokenSetupError::RepeatedKey { position: 2 }),
            (too_many.join(","), TokenSetupError::TooManyKeys),
        ];
        for (list, expected) in cases {
            assert_eq!(KeyRing::parse(&list).unwrap_err(), expected, "{list}");
        }
    }

    #[test]
    fn debug_and_errors_show_no_key() {
        let key = some_key(1);
        let body = key.trim_start_matches("k4.local.").to_owned();
        let ring = KeyRing::parse(&key).unwrap();
        let shown = format!("{ring:?} {:?}", ring.to_paserk_list());
        assert!(shown.contains("k4.lid.") && !shown.contains(&body), "{shown}");
        let error = KeyRing::parse(&format!("{key}x")).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(&body[..8]), "{shown}");
    }

    proptest! {
        #[test]
        fn no_text_makes_parsing_panic(list in r"(k4\.local\.)?[A-Za-z0-9_,.\- é]{0,120}") {
            let _result = KeyRing::parse(&list);
        }
    }
}
