//! Signing in, and telling who calls.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use pix_domain::credentials::service::{AuthError, Authenticator, MAX_CREDENTIAL_CHARS};
use pix_domain::credentials::store::{MockApiKeyStore, MockIntegratorStore};
use pix_domain::credentials::{
    ApiKey, Claims, HashError, Integrator, IntegratorStatus, MockAccessTokens, MockSecretHasher, PlainSecret,
    Scope, Scopes, SecretHash, TokenError,
};
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::time::{MockClock, Timestamp};

use crate::samples::*;

const TTL: Duration = Duration::from_hours(1);

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

fn key(revoked_at: Option<Timestamp>) -> ApiKey {
    ApiKey { revoked_at, ..ApiKey::new("key-1", INTEGRATOR, SecretHash("the hash".into()), T0) }
}

fn key_until(expires_at: Timestamp) -> ApiKey {
    ApiKey { expires_at: Some(expires_at), ..key(None) }
}

fn key_from(range: &str) -> ApiKey {
    ApiKey { allowed_ips: vec![range.parse().unwrap()], ..key(None) }
}

/// With a second secret.
fn rotating_key() -> ApiKey {
    let key = key(None);
    let secrets = key.secrets.clone().add(SecretHash("the second hash".into()), T0).unwrap();
    ApiKey { secrets, ..key }
}

fn claims(integrator_id: IntegratorId) -> Claims {
    let expires_at = T0.plus(TTL);
    Claims { integrator_id, key_public_id: "key-1".into(), secret_number: 1, issued_at: T0, expires_at }
}

/// The mocks behind one authenticator.
struct Doubles {
    keys: MockApiKeyStore,
    integrators: MockIntegratorStore,
    hasher: MockSecretHasher,
    tokens: MockAccessTokens,
}

impl Doubles {
    /// With this key, if any, found once.
    fn with_key(key: Option<ApiKey>) -> Self {
        let mut keys = MockApiKeyStore::new();
        keys.expect_find().times(1).returning(move |_| Ok(key.clone()));
        Self { keys, ..Self::with_key_unused() }
    }

    /// With a hasher that is asked once about these hashes, and answers so.
    fn hashing(mut self, hashes: &[&str], answer: Result<Option<usize>, HashError>) -> Self {
        let hashes: Vec<_> = hashes.iter().map(|hash| SecretHash((*hash).to_owned())).collect();
        self.hasher
            .expect_verify()
            .times(1)
            .withf(move |given, checked| *given == secret() && *checked == hashes)
            .returning(move |_, _| answer.clone());
        self
    }

    /// With tokens that are issued for these claims.
    fn issuing(mut self, claims: Claims) -> Self {
        self.tokens.expect_issue().times(1).returning(move |issued| {
            assert_eq!(*issued, claims);
            Ok("sealed".into())
        });
        self
    }

    fn opening(mut self, opened: Result<Claims, TokenError>) -> Self {
        self.tokens.expect_open().withf(|_, now| *now == T0).returning(move |_, _| opened.clone());
        self
    }

    fn knowing(mut self, status: Option<IntegratorStatus>) -> Self {
        self.integrators.expect_find().times(1).returning(move |id| {
            Ok(status.map(|status| Integrator {
                id,
                name: "Loja".into(),
                status,
                postback_scope: None,
                split_postback: None,
                created_at: T0,
            }))
        });
        self
    }

    fn authenticator(self) -> Authenticator {
        let mut clock = MockClock::new();
        clock.expect_now().returning(|| T0);
        Authenticator::new(
            Arc::new(self.keys),
            Arc::new(self.integrators),
            Arc::new(self.hasher),
            Arc::new(self.tokens),
            Arc::new(clock),
            TTL,
        )
    }
}

fn secret() -> PlainSecret {
    PlainSecret("the secret".into())
}

#[tokio::test]
async fn a_right_secret_gets_a_token_that_names_the_key_and_its_owner() {
    let doubles = Doubles::with_key(Some(key(None)));
    let doubles = doubles.hashing(&["the hash"], Ok(Some(0))).issuing(claims(INTEGRATOR));
    let issued = doubles.authenticator().sign_in("key-1", secret(), HERE).await.unwrap();
    assert_eq!((issued.token.as_str(), issued.ttl, issued.scopes), ("sealed", TTL, Scopes::ALL));
}

#[tokio::test]
async fn either_secret_gets_a_token_that_says_which_it_was() {
    for (right, secret_number) in [(0, 1), (1, 2)] {
        let doubles = Doubles::with_key(Some(rotating_key()));
        let doubles = doubles.hashing(&["the hash", "the second hash"], Ok(Some(right)));
        let doubles = doubles.issuing(Claims { secret_number, ..claims(INTEGRATOR) });
        assert!(doubles.authenticator().sign_in("key-1", secret(), HERE).await.is_ok());
    }
}

#[tokio::test]
async fn unknown_wrong_revoked_and_expired_cost_the_same_work_and_get_the_same_answer() {
    for (found, hashes) in [
        (None, &[][..]),
        (Some(key(Some(T0))), &[]),
        (Some(key_until(T0)), &[]),
        (Some(key(None)), &["the hash"]),
        (Some(key_from("198.51.100.0/24")), &["the hash"]),
        (Some(rotating_key()), &["the hash", "the second hash"]),
    ] {
        let doubles = Doubles::with_key(found).hashing(hashes, Ok(None));
        let refused = doubles.authenticator().sign_in("key-1", secret(), HERE).await;
        assert_eq!(refused, Err(AuthError::InvalidCredentials));
    }
}

#[tokio::test]
async fn even_a_hasher_that_says_yes_lets_nobody_in_without_a_live_key() {
    for found in [None, Some(key(Some(T0))), Some(key_until(T0))] {
        let doubles = Doubles::with_key(found).hashing(&[], Ok(Some(0)));
        let refused = doubles.authenticator().sign_in("key-1", secret(), HERE).await;
        assert_eq!(refused, Err(AuthError::InvalidCredentials));
    }
    let doubles = Doubles::with_key(Some(key(None))).hashing(&["the hash"], Ok(Some(1)));
    let refused = doubles.authenticator().sign_in("key-1", secret(), HERE).await;
    assert_eq!(refused, Err(AuthError::InvalidCredentials), "a secret that the key has not");
}

#[tokio::test]
async fn a_malformed_secret_asks_neither_the_store_nor_the_hasher() {
    let malformed = PlainSecret("malformed".into());
    let refused = Doubles::with_key_unused().authenticator().sign_in("key-1", malformed, HERE).await;
    assert_eq!(refused, Err(AuthError::InvalidCredentials));
}

#[tokio::test]
async fn a_token_ends_with_its_key() {
    let end = T0.plus(Duration::from_mins(5));
    for (expires_at, token_ends) in [(end, end), (T0.plus(TTL * 2), T0.plus(TTL))] {
        let doubles = Doubles::with_key(Some(key_until(expires_at))).hashing(&["the hash"], Ok(Some(0)));
        let doubles = doubles.issuing(Claims { expires_at: token_ends, ..claims(INTEGRATOR) });
        let issued = doubles.authenticator().sign_in("key-1", secret(), HERE).await.unwrap();
        assert_eq!(issued.ttl, token_ends.since(T0));
    }
    // It ended, and its end was brought forward, after the token was made.
    let doubles = Doubles::with_key(Some(key_until(T0))).opening(Ok(claims(INTEGRATOR)));
    let refused = doubles.authenticator().authenticate("sealed", HERE).await;
    assert_eq!(refused, Err(AuthError::Token(TokenError::Expired)));
}

#[tokio::test]
async fn a_key_is_used_from_where_it_may_only() {
    for range in ["203.0.113.0/24", "203.0.113.9"] {
        let doubles = Doubles::with_key(Some(key_from(range))).hashing(&["the hash"], Ok(Some(0)));
        let doubles = doubles.issuing(claims(INTEGRATOR));
        assert!(doubles.authenticator().sign_in("key-1", secret(), HERE).await.is_ok());
        let doubles = Doubles::with_key(Some(key_from(range))).opening(Ok(claims(INTEGRATOR)));
        let doubles = doubles.knowing(Some(IntegratorStatus::Active));
        assert!(doubles.authenticator().authenticate("sealed", HERE).await.is_ok());
    }
    let elsewhere = || Some(key_from("198.51.100.0/24"));
    let doubles = Doubles::with_key(elsewhere()).hashing(&["the hash"], Ok(Some(0)));
    let refused = doubles.authenticator().sign_in("key-1", secret(), HERE).await;
    assert_eq!(refused, Err(AuthError::IpNotAllowed));
    let doubles = Doubles::with_key(elsewhere()).opening(Ok(claims(INTEGRATOR)));
    let refused = doubles.authenticator().authenticate("sealed", HERE).await;
    assert_eq!(refused, Err(AuthError::IpNotAllowed));
}

#[tokio::test]
async fn the_tokens_of_a_retired_secret_end_with_it() {
    let second = || Claims { secret_number: 2, ..claims(INTEGRATOR) };
    let without = |number| {
        let key = rotating_key();
        ApiKey { secrets: key.secrets.clone().retire(number).unwrap(), ..key }
    };
    for (key, claims, works) in [
        (rotating_key(), claims(INTEGRATOR), true),
        (rotating_key(), second(), true),
        (without(1), claims(INTEGRATOR), false),
        (without(1), second(), true),
        (without(2), claims(INTEGRATOR), true),
        (without(2), second(), false),
    ] {
        let doubles = Doubles::with_key(Some(key)).opening(Ok(claims));
        let doubles = if works { doubles.knowing(Some(IntegratorStatus::Active)) } else { doubles };
        let answer = doubles.authenticator().authenticate("sealed", HERE).await;
        assert_eq!(answer.err(), (!works).then_some(AuthError::Token(TokenError::Invalid)));
    }
}

#[tokio::test]
async fn a_caller_may_what_its_key_is_good_for() {
    let scopes = Scopes::parse("read charges:write").unwrap();
    let doubles = Doubles::with_key(Some(ApiKey { scopes, ..key(None) })).opening(Ok(claims(INTEGRATOR)));
    let doubles = doubles.knowing(Some(IntegratorStatus::Active));
    let caller = doubles.authenticator().authenticate("sealed", HERE).await.unwrap();
    assert_eq!((caller.key_public_id.as_str(), caller.scopes), ("key-1", scopes));
    for scope in Scope::ALL {
        let refused = (!scopes.contains(scope)).then_some(AuthError::InsufficientScope(scope));
        assert_eq!(caller.require(scope).err(), refused);
    }
}

#[tokio::test]
async fn a_use_that_is_due_is_written_down_with_its_time() {
    let mut doubles = Doubles::with_key_unused();
    let used = |id: &str, at: &Timestamp| id == "key-1" && *at == T0;
    doubles.keys.expect_mark_used().times(1).withf(used).returning(|_, _| Ok(()));
    let authenticator = doubles.authenticator();
    assert!(authenticator.is_use_due("key-1"));
    assert!(!authenticator.clone().is_use_due("key-1"), "all clones know");
    assert_eq!(authenticator.note_use("key-1").await, Ok(()));
}

#[tokio::test]
async fn absurdly_long_credentials_cost_nothing() {
    let long = "x".repeat(MAX_CREDENTIAL_CHARS + 1);
    for (public_id, secret) in [(long.as_str(), "s"), ("key-1", long.as_str())] {
        let doubles = Doubles { keys: MockApiKeyStore::new(), ..Doubles::with_key_unused() };
        let refused = doubles.authenticator().sign_in(public_id, PlainSecret(secret.into()), HERE).await;
        assert_eq!(refused, Err(AuthError::InvalidCredentials));
    }
}

impl Doubles {
    /// Nothing may be called, but for what costs nothing.
    fn with_key_unused() -> Self {
        let mut hasher = MockSecretHasher::new();
        hasher.expect_is_malformed().returning(|secret| secret.0.starts_with("malformed"));
        Self {
            keys: MockApiKeyStore::new(),
            integrators: MockIntegratorStore::new(),
            hasher,
            tokens: MockAccessTokens::new(),
        }
    }
}

#[tokio::test]
async fn a_busy_hasher_is_not_a_wrong_secret() {
    for (error, expected) in [
        (HashError::Overloaded, AuthError::Overloaded),
        (
            HashError::Failed("no threads".into()),
            AuthError::Store(StoreError::Unavailable("no threads".into())),
        ),
    ] {
        let mut doubles = Doubles::with_key(Some(key(None)));
        doubles.hasher.expect_verify().returning(move |_, _| Err(error.clone()));
        assert_eq!(doubles.authenticator().sign_in("key-1", secret(), HERE).await, Err(expected));
    }
}

#[tokio::test]
async fn the_status_of_the_integrator_comes_with_the_caller() {
    for status in [IntegratorStatus::Active, IntegratorStatus::Suspended] {
        let doubles =
            Doubles::with_key(Some(key(None))).opening(Ok(claims(INTEGRATOR))).knowing(Some(status));
        let caller = doubles.authenticator().authenticate("sealed", HERE).await.unwrap();
        assert_eq!((caller.integrator_id, caller.status), (INTEGRATOR, status));
    }
}

#[tokio::test]
async fn the_tokens_of_a_revoked_or_unknown_key_are_refused_at_once() {
    let stolen = ApiKey { integrator_id: OTHER, ..key(None) };
    for found in [Some(key(Some(T0))), None, Some(stolen)] {
        let doubles = Doubles::with_key(found).opening(Ok(claims(INTEGRATOR)));
        let refused = doubles.authenticator().authenticate("sealed", HERE).await;
        assert_eq!(refused, Err(AuthError::Token(TokenError::Invalid)));
    }
    let orphan = Doubles::with_key(Some(key(None))).opening(Ok(claims(INTEGRATOR))).knowing(None);
    let refused = orphan.authenticator().authenticate("sealed", HERE).await;
    assert_eq!(refused, Err(AuthError::Token(TokenError::Invalid)));
}

#[tokio::test]
async fn a_token_that_does_not_open_asks_the_store_nothing() {
    for error in [TokenError::Invalid, TokenError::Expired] {
        let doubles = Doubles::with_key_unused().opening(Err(error));
        assert_eq!(doubles.authenticator().authenticate("sealed", HERE).await, Err(AuthError::Token(error)));
    }
}

#[tokio::test]
async fn a_store_that_fails_is_not_a_wrong_token() {
    let mut doubles = Doubles::with_key_unused().opening(Ok(claims(INTEGRATOR)));
    let down = || StoreError::Unavailable("no connection".into());
    doubles.keys.expect_find().returning(move |_| Err(down()));
    assert_eq!(doubles.authenticator().authenticate("sealed", HERE).await, Err(AuthError::Store(down())));
}
