//! What holds for any bytes at all: the entry function of a fuzz target in `tests/fuzz`, and no part of the interface.

use std::sync::LazyLock;
use std::time::Duration;

use pix_domain::credentials::{AccessTokens, Claims, TokenError};
use pix_domain::ids::IntegratorId;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::tokens::{KeyRing, MAX_TOKEN_BYTES, PasetoTokens};

/// The keys of the published vectors of PASERK: anybody has them.
const KEY: &str = "k4.local.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8";
const OTHER_KEY: &str = "k4.local.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
const DEPLOYMENT: &str = "https://pix.example.com";
const NOW: Timestamp = Timestamp::from_micros(1_750_000_000_000_000);

/// What was sealed for `DEPLOYMENT` with `KEY`, for an hour from `NOW`: a seed. No other text is a token.
const SEALED: &str = include_str!("../../../tests/fuzz/corpus/tokens/sealed");

static DOOR: LazyLock<Option<PasetoTokens>> = LazyLock::new(|| door(KEY, DEPLOYMENT));
static OTHER_DOORS: LazyLock<[Option<PasetoTokens>; 2]> =
    LazyLock::new(|| [door(OTHER_KEY, DEPLOYMENT), door(KEY, "https://other.example.com")]);

fn door(key: &str, deployment: &str) -> Option<PasetoTokens> {
    KeyRing::parse(key).and_then(|keys| PasetoTokens::new(keys, deployment)).ok()
}

/// A bearer text. Nothing is opened but what was sealed here, as it was sealed; then claims made of the bytes are sealed,
/// and opened as they were by this door alone.
pub fn tokens(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some(door) = DOOR.as_ref() else { panic!("the key is none") };
    assert_eq!(door.open(&text, NOW).is_ok(), text == SEALED, "{text:?}");

    let claims = claims(data);
    let Ok(token) = door.issue(&claims) else { return };
    assert!(token.len() <= MAX_TOKEN_BYTES);
    let lasts = claims.expires_at > claims.issued_at;
    let expected = if lasts { Ok(claims.clone()) } else { Err(TokenError::Expired) };
    assert_eq!(door.open(&token, claims.issued_at), expected);
    for other in OTHER_DOORS.iter().flatten() {
        assert_eq!(other.open(&token, claims.issued_at), Err(TokenError::Invalid));
    }
    let changed = with_another_character(&token, data);
    assert_eq!(door.open(&changed, claims.issued_at), Err(TokenError::Invalid), "{changed}");
}

/// 16 bytes of a uuid, 4 of the number of a secret, two times of 8, and the rest is the name of a key.
fn claims(data: &[u8]) -> Claims {
    fn take<const N: usize>(data: &mut &[u8]) -> [u8; N] {
        let (taken, rest) =
            data.split_first_chunk().map_or(([0; N], [].as_slice()), |(taken, rest)| (*taken, rest));
        *data = rest;
        taken
    }
    let mut data = data;
    let integrator_id = IntegratorId(Uuid::from_bytes(take(&mut data)));
    let secret_number = u32::from_be_bytes(take(&mut data));
    let issued_at = Timestamp::from_micros(i64::from_be_bytes(take(&mut data)));
    let lasts = u64::from_be_bytes(take(&mut data));
    Claims {
        integrator_id,
        key_public_id: String::from_utf8_lossy(data).into_owned(),
        secret_number,
        issued_at,
        expires_at: issued_at.plus(Duration::from_micros(lasts)),
    }
}

/// The token with one of its characters another one that a token may have.
fn with_another_character(token: &str, data: &[u8]) -> String {
    let seed = data.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let place = seed.checked_rem(token.len()).unwrap_or_default();
    let other = |c: char| if c == 'A' { 'B' } else { 'A' };
    token.chars().enumerate().map(|(at, c)| if at == place { other(c) } else { c }).collect()
}
