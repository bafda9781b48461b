use proptest::prelude::*;
use secrecy::ExposeSecret;

use super::*;

const DEPLOYMENT: &str = "https://pix.example.com";
const NOW: Timestamp = Timestamp::from_micros(1_750_000_000_123_456);
const HOUR: Duration = Duration::from_hours(1);
const MICROSECOND: Duration = Duration::from_micros(1);

fn claims() -> Claims {
    Claims {
        integrator_id: IntegratorId(Uuid::from_u128(42)),
        key_public_id: "pixpk_0123456789abcdefghjk".to_owned(),
        secret_number: 1,
        issued_at: NOW,
        expires_at: NOW.plus(HOUR),
    }
}

fn tokens() -> PasetoTokens {
    PasetoTokens::new(KeyRing::generate().unwrap(), DEPLOYMENT).unwrap()
}

fn with_keys(lists: &[&KeyRing]) -> PasetoTokens {
    let lists: Vec<String> =
        lists.iter().map(|ring| ring.to_paserk_list().expose_secret().to_owned()).collect();
    PasetoTokens::new(KeyRing::parse(&lists.join(",")).unwrap(), DEPLOYMENT).unwrap()
}

/// A token of `payload` under the first key of `tokens`, whatever the payload is.
fn seal(tokens: &PasetoTokens, payload: &serde_json::Value) -> String {
    let key = tokens.keys.first();
    let payload = serde_json::to_vec(payload).unwrap();
    LocalToken::encrypt(key.secret(), &payload, Some(key.footer()), Some(DEPLOYMENT.as_bytes())).unwrap()
}

fn payload() -> serde_json::Value {
    serde_json::json!({
        "iss": ISSUER,
        "sub": Uuid::from_u128(42).to_string(),
        "aud": DEPLOYMENT,
        "iat": to_rfc3339(NOW).unwrap(),
        "exp": to_rfc3339(NOW.plus(HOUR)).unwrap(),
        "key": "pixpk_0123456789abcdefghjk",
    })
}

#[test]
fn a_token_says_what_was_sealed_to_the_microsecond() {
    let tokens = tokens();
    let token = tokens.issue(&claims()).unwrap();
    assert!(token.starts_with("v4.local."), "{token}");
    assert_eq!(tokens.open(&token, NOW), Ok(claims()));
}

#[test]
fn a_token_made_by_hand_with_the_same_claims_is_the_same() {
    let tokens = tokens();
    let mut payload = payload();
    assert_eq!(tokens.open(&seal(&tokens, &payload), NOW), Ok(claims()), "of before secrets had numbers");
    payload["secret"] = serde_json::json!(2);
    assert_eq!(tokens.open(&seal(&tokens, &payload), NOW), Ok(Claims { secret_number: 2, ..claims() }));
}

#[test]
fn two_tokens_of_the_same_claims_differ() {
    let tokens = tokens();
    assert_ne!(tokens.issue(&claims()).unwrap(), tokens.issue(&claims()).unwrap());
}

#[test]
fn the_longest_claims_still_fit() {
    let deployment = "d".repeat(MAX_DEPLOYMENT_BYTES);
    let tokens = PasetoTokens::new(KeyRing::generate().unwrap(), deployment).unwrap();
    let claims = Claims { key_public_id: "k".repeat(256), ..claims() };
    let token = tokens.issue(&claims).unwrap();
    assert_eq!(tokens.open(&token, NOW), Ok(claims));
}

#[test]
fn claims_that_would_make_an_unopenable_token_are_not_sealed() {
    let tokens = tokens();
    let long = Claims { key_public_id: "k".repeat(MAX_TOKEN_BYTES), ..claims() };
    assert!(matches!(tokens.issue(&long), Err(HashError::Failed(_))));
    for end in [i64::MAX, i64::MIN] {
        let endless = Claims { expires_at: Timestamp::from_micros(end), ..claims() };
        assert!(matches!(tokens.issue(&endless), Err(HashError::Failed(_))));
    }
}

#[test]
fn a_token_changed_anywhere_is_invalid() {
    let tokens = tokens();
    let token = tokens.issue(&claims()).unwrap();
    for position in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert_eq!(tokens.open(&changed, NOW), Err(TokenError::Invalid), "{position}");
    }
}

#[test]
fn a_token_cut_or_lengthened_anywhere_is_invalid() {
    let tokens = tokens();
    let token = tokens.issue(&claims()).unwrap();
    for end in 0..token.len() {
        assert_eq!(tokens.open(&token[..end], NOW), Err(TokenError::Invalid), "{end}");
    }
    for tail in ["A", ".", ".AAAA", " ", "\0"] {
        assert_eq!(tokens.open(&format!("{token}{tail}"), NOW), Err(TokenError::Invalid), "{tail:?}");
    }
}

#[test]
fn a_token_of_another_deployment_is_invalid_under_the_same_key() {
    let ours = tokens();
    let list = ours.keys.to_paserk_list();
    let theirs =
        PasetoTokens::new(KeyRing::parse(list.expose_secret()).unwrap(), "https://pix.example.org").unwrap();
    let token = theirs.issue(&claims()).unwrap();
    assert!(theirs.open(&token, NOW).is_ok());
    assert_eq!(ours.open(&token, NOW), Err(TokenError::Invalid));
}

#[test]
fn a_token_ends_at_the_instant_it_names_and_not_before() {
    let tokens = tokens();
    let token = tokens.issue(&claims()).unwrap();
    let last = Timestamp::from_micros(claims().expires_at.micros() - 1);
    assert_eq!(tokens.open(&token, last), Ok(claims()));
    assert_eq!(tokens.open(&token, claims().expires_at), Err(TokenError::Expired));
    assert_eq!(tokens.open(&token, claims().expires_at.plus(HOUR)), Err(TokenError::Expired));
}

#[test]
fn an_expired_token_of_someone_else_is_invalid_rather_than_expired() {
    let token = tokens().issue(&claims()).unwrap();
    assert_eq!(tokens().open(&token, NOW.plus(HOUR * 2)), Err(TokenError::Invalid));
}

#[test]
fn a_token_from_the_future_is_invalid_beyond_a_minute() {
    let tokens = tokens();
    for (ahead, ok) in [(MAX_CLOCK_SKEW, true), (MAX_CLOCK_SKEW + MICROSECOND, false), (HOUR, false)] {
        let claims = Claims { issued_at: NOW.plus(ahead), expires_at: NOW.plus(ahead + HOUR), ..claims() };
        let opened = tokens.open(&tokens.issue(&claims).unwrap(), NOW);
        assert_eq!(opened, if ok { Ok(claims) } else { Err(TokenError::Invalid) }, "{ahead:?}");
    }
}

#[test]
fn rotation_overlaps_and_then_fails_closed() {
    let (old, new) = (KeyRing::generate().unwrap(), KeyRing::generate().unwrap());
    let before = with_keys(&[&old]);
    let during = with_keys(&[&new, &old]);
    let after = with_keys(&[&new]);
    let old_token = before.issue(&claims()).unwrap();
    let new_token = during.issue(&claims()).unwrap();
    assert_eq!(during.open(&old_token, NOW), Ok(claims()));
    assert_eq!(during.open(&new_token, NOW), Ok(claims()));
    assert_eq!(after.open(&new_token, NOW), Ok(claims()));
    // The first key sealed it: without that key nobody knows the id.
    assert_eq!(before.open(&new_token, NOW), Err(TokenError::Invalid));
    assert_eq!(after.open(&old_token, NOW), Err(TokenError::Invalid));
}

#[test]
fn a_right_key_under_a_wrong_or_missing_key_id_is_invalid() {
    let tokens = tokens();
    let stranger = KeyRing::generate().unwrap();
    let payload = serde_json::to_vec(&payload()).unwrap();
    let long = format!(r#"{{"kid":"{}"}}"#, "k".repeat(600));
    let footers: [Option<&[u8]>; 5] =
        [None, Some(b"{}"), Some(b"[[[[[[[[[[[[[["), Some(long.as_bytes()), Some(stranger.first().footer())];
    for footer in footers {
        let key = tokens.keys.first().secret();
        let token = LocalToken::encrypt(key, &payload, footer, Some(DEPLOYMENT.as_bytes())).unwrap();
        assert_eq!(tokens.open(&token, NOW), Err(TokenError::Invalid), "{footer:?}");
    }
}

#[test]
fn claims_that_are_missing_wrong_or_damaged_are_invalid() {
    let tokens = tokens();
    for name in ["iss", "sub", "aud", "iat", "exp", "key"] {
        let wrong = [
            serde_json::Value::Null,
            serde_json::json!(7),
            serde_json::json!(""),
            serde_json::json!("elsewhere"),
        ];
        // Any text is a public id: whether it names a key is the store's to say.
        let wrong = wrong.into_iter().filter(|value| name != "key" || !value.is_string());
        for value in wrong {
            let mut payload = payload();
            payload[name] = value;
            let opened = tokens.open(&seal(&tokens, &payload), NOW);
            assert_eq!(opened, Err(TokenError::Invalid), "{payload}");
        }
        let mut payload = payload();
        payload.as_object_mut().unwrap().remove(name);
        assert_eq!(tokens.open(&seal(&tokens, &payload), NOW), Err(TokenError::Invalid), "{payload}");
    }
}

#[test]
fn ten_megabytes_of_token_are_refused_without_decoding() {
    let tokens = tokens();
    let huge = format!("v4.local.{}", "A".repeat(10 << 20));
    assert_eq!(tokens.open(&huge, NOW), Err(TokenError::Invalid));
}

#[test]
fn a_true_token_one_byte_too_long_is_refused() {
    let tokens = tokens();
    let mut payload = payload();
    let mut lengths = Vec::new();
    for padding in 900..1400 {
        payload["padding"] = "p".repeat(padding).into();
        let token = seal(&tokens, &payload);
        lengths.push(token.len());
        assert_eq!(tokens.open(&token, NOW).is_ok(), token.len() <= MAX_TOKEN_BYTES, "{}", token.len());
    }
    assert!(lengths.contains(&MAX_TOKEN_BYTES) || lengths.contains(&(MAX_TOKEN_BYTES - 1)), "{lengths:?}");
    assert!(lengths.iter().any(|length| *length > MAX_TOKEN_BYTES), "{lengths:?}");
}

#[test]
fn a_deployment_must_have_a_name() {
    for name in ["", "a b", "a\n", "é", &"x".repeat(MAX_DEPLOYMENT_BYTES + 1)] {
        let made = PasetoTokens::new(KeyRing::generate().unwrap(), name);
        assert_eq!(made.unwrap_err(), TokenSetupError::Deployment, "{name}");
    }
}

#[test]
fn debug_shows_key_ids_and_no_key() {
    let tokens = tokens();
    let list = tokens.keys.to_paserk_list();
    let body = list.expose_secret().trim_start_matches("k4.local.");
    let shown = format!("{tokens:?}");
    assert!(shown.contains("k4.lid.") && shown.contains(DEPLOYMENT), "{shown}");
    assert!(!shown.contains(body) && !shown.contains("k4.local"), "{shown}");
}

proptest! {
    #[test]
    fn no_text_makes_opening_panic(token in ".{0,300}") {
        prop_assert_eq!(tokens().open(&token, NOW), Err(TokenError::Invalid));
    }

    #[test]
    fn nothing_that_looks_like_a_token_makes_opening_panic(
        token in r"v4\.(local|public)\.[A-Za-z0-9_\-=]{0,200}(\.[A-Za-z0-9_\-=]{0,80}){0,2}",
    ) {
        prop_assert_eq!(tokens().open(&token, NOW), Err(TokenError::Invalid));
    }

    #[test]
    fn any_claims_in_range_come_back(
        id: u128,
        key in "[!-~]{1,256}",
        secret_number: u32,
        issued in 0..4_000_000_000_000_000_i64,
        lives_us in 1..86_400_000_000_u64,
    ) {
        let issued_at = Timestamp::from_micros(issued);
        let claims = Claims {
            integrator_id: IntegratorId(Uuid::from_u128(id)),
            key_public_id: key,
            secret_number,
            issued_at,
            expires_at: issued_at.plus(Duration::from_micros(lives_us)),
        };
        let tokens = tokens();
        let token = tokens.issue(&claims).unwrap();
        prop_assert_eq!(tokens.open(&token, issued_at), Ok(claims));
    }

    /// Sealed by the right key, so only the reading of claims stands in the way.
    #[test]
    fn no_sealed_payload_makes_opening_panic(payload in prop::collection::vec(any::<u8>(), 1..200)) {
        let tokens = tokens();
        let key = tokens.keys.first();
        let assertion = Some(DEPLOYMENT.as_bytes());
        let token = LocalToken::encrypt(key.secret(), &payload, Some(key.footer()), assertion).unwrap();
        prop_assert_eq!(tokens.open(&token, NOW), Err(TokenError::Invalid));
    }
}
