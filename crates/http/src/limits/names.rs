//! Names of clients: keyed hashes, so that neither this memory nor a shared store holds an address or a token.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::config::ConfigError;

/// How many bytes of the hash are kept. Two clients with one name would share a bucket, and no more.
const NAME_BYTES: usize = 16;

/// Keeps these hashes apart from whatever else is made with the same key.
const PURPOSE: &[u8] = b"pix-gateway rate limit 1\0";

/// Who a bucket belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name([u8; NAME_BYTES]);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Gives names. Nodes that have the same key give the same ones.
#[derive(Clone)]
pub(crate) struct Namer(Hmac<Sha256>);

impl Namer {
    pub(crate) fn new(key: &str) -> Result<Self, ConfigError> {
        let mac = Hmac::new_from_slice(key.as_bytes())
            .map_err(|_error| ConfigError { field: "callback_secret", problem: "must not be empty" })?;
        Ok(Self(mac.chain_update(PURPOSE)))
    }

    /// The name of what `text` is, among those of its kind.
    pub(crate) fn name(&self, kind: &str, text: &[u8]) -> Name {
        let mac = self.0.clone().chain_update(kind).chain_update([0]).chain_update(text);
        let mut name = [0; NAME_BYTES];
        for (to, from) in name.iter_mut().zip(mac.finalize().into_bytes()) {
            *to = from;
        }
        Name(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_on_every_node_with_the_key_and_shows_nothing() {
        let name = |key: &str, kind: &str| Namer::new(key).unwrap().name(kind, b"192.0.2.1").to_string();
        assert_eq!(name("0123456789abcdef", "a"), name("0123456789abcdef", "a"));
        assert_ne!(name("0123456789abcdef", "a"), name("0123456789abcdeg", "a"));
        assert_ne!(name("0123456789abcdef", "a"), name("0123456789abcdef", "b"));
        let shown = name("0123456789abcdef", "a");
        assert!(shown.len() == 32 && shown.bytes().all(|byte| byte.is_ascii_hexdigit()), "{shown}");
    }
}
