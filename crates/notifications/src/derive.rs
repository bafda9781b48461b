//! Secrets of integrators from one key of the operator, so that no secret is stored. It owns the derivation and the form
//! of that key, and must never know which secrets are live.
//!
//! A secret is `whsec_` and the base64 of HMAC-SHA256(key, label ‖ integrator ‖ number): whoever has one learns neither
//! another nor the key. Whoever has the key has all of them; with another key every secret is another.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::secrets::SecretMaker;
use pix_domain::postbacks::send::PostbackSecret;
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::sign::{SECRET_PREFIX, lower_hex};

/// Bytes of a master key.
pub const MASTER_KEY_BYTES: usize = 32;

const SECRET_LABEL: &[u8] = b"pix-gateway postback secret v1";
const ID_LABEL: &[u8] = b"pix-gateway postback master key id v1";
/// Of the hash: enough to tell a few keys apart.
const ID_BYTES: usize = 4;

/// Why a text is no master key. No text holds any part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MasterKeyError {
    /// It has not the form of one.
    #[error(
        "the postback master key must be 32 bytes as 64 hex characters or as base64; make one with: openssl rand -hex 32"
    )]
    Form,
    /// Somebody could guess it.
    #[error(
        "the postback master key consists of one byte repeated, which anybody can guess; make one with: openssl rand -hex 32"
    )]
    Weak,
}

/// What all secrets are derived from.
#[derive(Clone)]
pub struct MasterKey {
    /// Ready to take what is derived from.
    mac: Hmac<Sha256>,
    id: String,
}

impl MasterKey {
    /// Reads a key: 64 hex characters, or standard base64 (RFC 4648 §4, padded) of exactly 32 bytes.
    pub fn parse(text: &str) -> Result<Self, MasterKeyError> {
        let decoded = if text.len() == MASTER_KEY_BYTES.saturating_mul(2) {
            from_hex(text).map(Zeroizing::new)
        } else {
            STANDARD.decode(text).ok().map(Zeroizing::new)
        };
        let bytes = decoded.ok_or(MasterKeyError::Form)?;
        if bytes.len() != MASTER_KEY_BYTES {
            return Err(MasterKeyError::Form);
        }
        if bytes.iter().all(|byte| Some(byte) == bytes.first()) {
            return Err(MasterKeyError::Weak);
        }
        // Never an error: HMAC takes keys of any length.
        let Ok(mac) = Hmac::new_from_slice(&bytes) else { return Err(MasterKeyError::Form) };
        let hash = Sha256::new().chain_update(ID_LABEL).chain_update(&*bytes).finalize();
        Ok(Self { mac, id: lower_hex(hash.get(..ID_BYTES).unwrap_or_default()) })
    }

    /// The secret of `integrator_id` with this number, always the same.
    pub fn secret(&self, integrator_id: IntegratorId, number: u32) -> PostbackSecret {
        let mac = self.mac.clone().chain_update(SECRET_LABEL).chain_update(integrator_id.0.as_bytes());
        let tag = mac.chain_update(number.to_be_bytes()).finalize().into_bytes();
        PostbackSecret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(tag)))
    }

    /// The name of this key: 8 hex characters that tell it from others and nothing about it.
    pub fn id(&self) -> String {
        self.id.clone()
    }
}

/// Redacted: its name.
impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id)
    }
}

/// Several master keys: the first makes new secrets, and those that others made are found by their names.
#[derive(Debug, Clone)]
pub struct MasterKeys {
    first: MasterKey,
    others: Vec<MasterKey>,
}

impl MasterKeys {
    /// Reads keys with commas between.
    pub fn parse(text: &str) -> Result<Self, MasterKeyError> {
        let mut keys = text.split(',').map(|key| MasterKey::parse(key.trim()));
        let first = keys.next().unwrap_or(Err(MasterKeyError::Form))?;
        Ok(Self { first, others: keys.collect::<Result<_, _>>()? })
    }
}

impl SecretMaker for MasterKeys {
    fn current_key(&self) -> String {
        self.first.id()
    }

    fn secret(&self, key_id: &str, integrator_id: IntegratorId, number: u32) -> Option<PostbackSecret> {
        let mut keys = std::iter::once(&self.first).chain(&self.others);
        keys.find(|key| key.id == key_id).map(|key| key.secret(integrator_id, number))
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn new_secrets_are_made_of_the_first_key_and_older_ones_are_found() {
        let other = "f".repeat(63) + "0";
        let before = MasterKeys::parse(HEX).unwrap();
        let after = MasterKeys::parse(&format!("{other}, {HEX}")).unwrap();
        let made = before.secret(&before.current_key(), integrator(1), 1).unwrap();
        assert_ne!(before.current_key(), after.current_key());
        assert_eq!(after.secret(&before.current_key(), integrator(1), 1), Some(made.clone()));
        assert_ne!(after.secret(&after.current_key(), integrator(1), 1), Some(made));
        assert_eq!(before.secret(&after.current_key(), integrator(1), 1), None);
        for text in ["", ",", &format!("{HEX},"), "abc"] {
            assert!(MasterKeys::parse(text).is_err(), "{text}");
        }
    }

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn integrator(number: u128) -> IntegratorId {
        IntegratorId(Uuid::from_u128(number))
    }

    /// Computed with Python's hmac, hashlib and base64.
    #[test]
    fn secrets_and_ids_never_change() {
        let key = MasterKey::parse(HEX).unwrap();
        let id = integrator(0x0199_0000_0000_7000_8000_0000_0000_00ff);
        assert_eq!(key.secret(id, 1).expose(), "whsec_jC0KPu7yc8ttcOGraRy0hziFWm5CUIXazCoxjAFo8+c=");
        assert_eq!(key.secret(id, 258).expose(), "whsec_tVaLTvIJUnT5vE8N9AbAkZOYZxKX3jGbqoEMUJGW9jY=");
        assert_eq!(key.id(), "d84104f6");
    }

    #[test]
    fn hex_of_either_case_and_base64_are_one_key() {
        let id = MasterKey::parse(HEX).unwrap().id();
        assert_eq!(MasterKey::parse(&HEX.to_uppercase()).unwrap().id(), id);
        assert_eq!(MasterKey::parse(BASE64).unwrap().id(), id);
    }

    #[test]
    fn other_forms_and_keys_that_anybody_can_guess_are_refused() {
        let error = |text: &str| MasterKey::parse(text).unwrap_err();
        for text in [
            "",
            "hunter2",
            &HEX[1..],
            &format!("{HEX}0"),
            &format!("+{}", &HEX[1..]),
            &format!("{} ", &HEX[1..]),
            &BASE64[1..],
            BASE64.trim_end_matches('='),
            &BASE64.replace('8', "_"),
            &format!("{BASE64}\n"),
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==",
            &"é".repeat(32),
        ] {
            assert_eq!(error(text), MasterKeyError::Form, "{text:?}");
        }
        for text in [&"0".repeat(64), &"aB".repeat(32), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] {
            assert_eq!(error(text), MasterKeyError::Weak, "{text:?}");
        }
    }

    #[test]
    fn debug_shows_the_name_only() {
        let key = MasterKey::parse(HEX).unwrap();
        assert_eq!(format!("{key:?}"), format!("MasterKey({})", key.id()));
        let secret = key.secret(integrator(1), 1);
        assert!(!format!("{secret:?}").contains(secret.expose()));
    }

    proptest! {
        #[test]
        fn another_key_integrator_or_number_is_another_secret(
            (one, other) in any::<([u8; 32], [u8; 32])>(),
            (first, second) in any::<(u128, u128)>(),
            (low, high) in any::<(u32, u32)>(),
        ) {
            let key = |bytes: [u8; 32]| MasterKey::parse(&lower_hex(&bytes));
            let (Ok(key), Ok(other_key)) = (key(one), key(other)) else { return Ok(()) };
            let secret = key.secret(integrator(first), low);
            prop_assert_eq!(secret.expose().len(), 50);
            prop_assert_eq!(secret == other_key.secret(integrator(first), low), one == other);
            prop_assert_eq!(secret == key.secret(integrator(second), low), first == second);
            prop_assert_eq!(secret == key.secret(integrator(first), high), low == high);
        }

        #[test]
        fn no_text_makes_reading_a_key_panic(text in any::<String>()) {
            let _ = MasterKey::parse(&text).is_ok();
        }
    }
}
