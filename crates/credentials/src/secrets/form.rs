//! What secrets and public ids look like.
//!
//! A secret is `pixsk_`, 64 hexadecimal digits (32 random bytes) and the CRC-32 of all that in 8 more: a mistyped or
//! invented one is known as such without any hashing. The checksum is no secret and guards nothing.

use pix_domain::credentials::PlainSecret;
use zeroize::Zeroizing;

/// What a secret made here starts with.
pub const SECRET_PREFIX: &str = "pixsk_";
/// What a public id made here starts with.
pub const PUBLIC_ID_PREFIX: &str = "pixpk_";

const SECRET_BYTES: usize = 32;
const CHECKSUM_CHARS: usize = 8;
const SECRET_CHARS: usize = SECRET_PREFIX.len() + 2 * SECRET_BYTES + CHECKSUM_CHARS;
const PUBLIC_ID_CHARS: usize = 20;

/// Crockford's base 32 in lower case: no `i`, `l`, `o` or `u`.
const BASE32: [char; 32] = [
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'j', 'k', 'm',
    'n', 'p', 'q', 'r', 's', 't', 'v', 'w', 'x', 'y', 'z',
];
const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

/// `N` bytes of the operating system's generator.
pub(super) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, getrandom::Error> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice())?;
    Ok(bytes)
}

/// As [`random`], for where there is no way to go on without.
fn random_or_panic<const N: usize>() -> Zeroizing<[u8; N]> {
    match random() {
        Ok(bytes) => bytes,
        Err(error) => panic!("the operating system's random generator failed: {error}"),
    }
}

pub(super) fn new_secret() -> PlainSecret {
    let mut text = String::with_capacity(SECRET_CHARS);
    text.push_str(SECRET_PREFIX);
    for byte in random_or_panic::<SECRET_BYTES>().iter() {
        text.push(digit(&HEX, byte >> 4));
        text.push(digit(&HEX, byte & 15));
    }
    let checksum = checksum(&text);
    text.push_str(&checksum);
    PlainSecret(text)
}

pub(super) fn new_public_id() -> String {
    let mut text = String::with_capacity(PUBLIC_ID_PREFIX.len() + PUBLIC_ID_CHARS);
    text.push_str(PUBLIC_ID_PREFIX);
    text.extend(random_or_panic::<PUBLIC_ID_CHARS>().iter().map(|byte| digit(&BASE32, byte & 31)));
    text
}

/// Whether `secret` says that it was made here and can't have been. Secrets that don't say so are anybody's.
pub(super) fn is_garbage(secret: &str) -> bool {
    if !secret.starts_with(SECRET_PREFIX) {
        return false;
    }
    let body = secret.len().checked_sub(CHECKSUM_CHARS).and_then(|end| secret.split_at_checked(end));
    body.is_none_or(|(body, found)| secret.len() != SECRET_CHARS || found != checksum(body))
}

fn checksum(body: &str) -> String {
    format!("{:08x}", crc32fast::hash(body.as_bytes()))
}

/// The digit for `value`, which is always within `alphabet`.
fn digit(alphabet: &[char], value: u8) -> char {
    alphabet.get(usize::from(value)).copied().unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_new_secret_has_256_random_bits_in_plain_characters() {
        let made: HashSet<String> = (0..100).map(|_| new_secret().0).collect();
        assert_eq!(made.len(), 100);
        for secret in made {
            let digits = secret.strip_prefix(SECRET_PREFIX).unwrap();
            assert_eq!(digits.len(), 64 + 8);
            assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{secret}");
            assert!(!is_garbage(&secret), "{secret}");
        }
    }

    #[test]
    fn a_new_public_id_has_20_random_characters_and_no_colon() {
        let made: HashSet<String> = (0..100).map(|_| new_public_id()).collect();
        assert_eq!(made.len(), 100);
        for id in &made {
            let random = id.strip_prefix(PUBLIC_ID_PREFIX).unwrap();
            assert_eq!(random.len(), 20);
            assert!(random.chars().all(|char| BASE32.contains(&char)), "{id}");
        }
        let used: HashSet<char> = made.iter().flat_map(|id| id[6..].chars()).collect();
        assert_eq!(used.len(), BASE32.len(), "2000 draws use the whole alphabet");
    }

    #[test]
    fn one_changed_character_makes_a_secret_garbage() {
        let secret = new_secret().0;
        for position in SECRET_PREFIX.len()..secret.len() {
            let mut bytes = secret.clone().into_bytes();
            bytes[position] = if bytes[position] == b'0' { b'1' } else { b'0' };
            assert!(is_garbage(&String::from_utf8(bytes).unwrap()), "{position}");
        }
    }

    #[test]
    fn a_secret_of_ours_that_is_cut_or_lengthened_is_garbage() {
        let secret = new_secret().0;
        for end in SECRET_PREFIX.len()..secret.len() {
            assert!(is_garbage(&secret[..end]), "{end}");
        }
        let body = format!("{secret}00");
        assert!(is_garbage(&body));
        assert!(
            is_garbage(&format!("{body}{}", checksum(&body))),
            "a checksum doesn't make up for the length"
        );
    }

    #[test]
    fn secrets_of_others_are_not_judged() {
        for secret in ["", "hunter42", "pixsk", "PIXSK_0", "s3nha é boa", " pixsk_"] {
            assert!(!is_garbage(secret), "{secret}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_check_panic(secret in "(pixsk_)?.{0,90}") {
            prop_assert_eq!(is_garbage(&secret), secret.starts_with(SECRET_PREFIX));
        }
    }
}
