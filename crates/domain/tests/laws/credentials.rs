//! Signing in, and telling who calls.

use std::sync::Arc;
use std::time::Duration;

use pix_domain::credentials::service::{AuthError, Authenticator, MAX_CREDENTIAL_CHARS};
use pix_domain::credentials::store::{MockApiKeyStore, MockIntegratorStore};
use pix_domain::credentials::{
    ApiKey, Claims, HashError, Integrator, IntegratorStatus, MockAccessTokens, MockSecretHasher, PlainSecret,
    SecretHash, TokenError,
};
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::time::{MockClock, Timestamp};

use crate::samples::*;

const TTL: Duration = Duration::from_hours(1);

fn key(revoked_at: Option<Timestamp>) -> ApiKey {
    ApiKey {
        public_id: "key-1".into(),
        integrator_id: INTEGRATOR,
        secret_hash: SecretHash("the hash".into()),
        created_at: T0,
        revoked_at,
    }
}

fn claims(integrator_id: IntegratorId) -> Claims {
    Claims { integrator_id, key_public_id: "key-1".into(), issued_at: T0, expires_at: T0.plus(TTL) }
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
        Self {
            keys,
            integrators: MockIntegratorStore::new(),
            hasher: MockSecretHasher::new(),
            tokens: MockAccessTokens::new(),
        }
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
    let mut doubles = Doubles::with_key(Some(key(None)));
    doubles
        .hasher
        .expect_verify()
        .times(1)
        .withf(|given, hash| *given == secret() && *hash == Some(SecretHash("the hash".into())))
        .returning(|_, _| Ok(true));
    doubles.tokens.expect_issue().times(1).returning(|issued| {
        assert_eq!(*issued, claims(INTEGRATOR));
        Ok("sealed".into())
    });
    let issued = doubles.authenticator().sign_in("key-1", secret()).await.unwrap();
    assert_eq!((issued.token.as_str(), issued.ttl), ("sealed", TTL));
}

#[tokio::test]
async fn unknown_wrong_and_revoked_cost_the_same_work_and_get_the_same_answer() {
    for (found, hash) in
        [(None, None), (Some(key(Some(T0))), None), (Some(key(None)), Some(SecretHash("the hash".into())))]
    {
        let mut doubles = Doubles::with_key(found);
        doubles
            .hasher
            .expect_verify()
            .times(1)
            .withf(move |given, checked| *given == secret() && *checked == hash)
            .returning(|_, _| Ok(false));
        let refused = doubles.authenticator().sign_in("key-1", secret()).await;
        assert_eq!(refused, Err(AuthError::InvalidCredentials));
    }
}

#[tokio::test]
async fn even_a_hasher_that_says_yes_lets_nobody_in_without_a_live_key() {
    for found in [None, Some(key(Some(T0)))] {
        let mut doubles = Doubles::with_key(found);
        doubles.hasher.expect_verify().returning(|_, _| Ok(true));
        let refused = doubles.authenticator().sign_in("key-1", secret()).await;
        assert_eq!(refused, Err(AuthError::InvalidCredentials));
    }
}

#[tokio::test]
async fn absurdly_long_credentials_cost_nothing() {
    let long = "x".repeat(MAX_CREDENTIAL_CHARS + 1);
    for (public_id, secret) in [(long.as_str(), "s"), ("key-1", long.as_str())] {
        let doubles = Doubles { keys: MockApiKeyStore::new(), ..Doubles::with_key_unused() };
        let refused = doubles.authenticator().sign_in(public_id, PlainSecret(secret.into())).await;
        assert_eq!(refused, Err(AuthError::InvalidCredentials));
    }
}

impl Doubles {
    /// Nothing may be called.
    fn with_key_unused() -> Self {
        Self {
            keys: MockApiKeyStore::new(),
            integrators: MockIntegratorStore::new(),
            hasher: MockSecretHasher::new(),
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
        assert_eq!(doubles.authenticator().sign_in("key-1", secret()).await, Err(expected));
    }
}

#[tokio::test]
async fn the_status_of_the_integrator_comes_with_the_caller() {
    for status in [IntegratorStatus::Active, IntegratorStatus::Suspended] {
        let doubles =
            Doubles::with_key(Some(key(None))).opening(Ok(claims(INTEGRATOR))).knowing(Some(status));
        let caller = doubles.authenticator().authenticate("sealed").await.unwrap();
        assert_eq!((caller.integrator_id, caller.status), (INTEGRATOR, status));
    }
}

#[tokio::test]
async fn the_tokens_of_a_revoked_or_unknown_key_are_refused_at_once() {
    let stolen = ApiKey { integrator_id: OTHER, ..key(None) };
    for found in [Some(key(Some(T0))), None, Some(stolen)] {
        let doubles = Doubles::with_key(found).opening(Ok(claims(INTEGRATOR)));
        let refused = doubles.authenticator().authenticate("sealed").await;
        assert_eq!(refused, Err(AuthError::Token(TokenError::Invalid)));
    }
    let orphan = Doubles::with_key(Some(key(None))).opening(Ok(claims(INTEGRATOR))).knowing(None);
    let refused = orphan.authenticator().authenticate("sealed").await;
    assert_eq!(refused, Err(AuthError::Token(TokenError::Invalid)));
}

#[tokio::test]
async fn a_token_that_does_not_open_asks_the_store_nothing() {
    for error in [TokenError::Invalid, TokenError::Expired] {
        let doubles = Doubles::with_key_unused().opening(Err(error));
        assert_eq!(doubles.authenticator().authenticate("sealed").await, Err(AuthError::Token(error)));
    }
}

#[tokio::test]
async fn a_store_that_fails_is_not_a_wrong_token() {
    let mut doubles = Doubles::with_key_unused().opening(Ok(claims(INTEGRATOR)));
    let down = || StoreError::Unavailable("no connection".into());
    doubles.keys.expect_find().returning(move |_| Err(down()));
    assert_eq!(doubles.authenticator().authenticate("sealed").await, Err(AuthError::Store(down())));
}
