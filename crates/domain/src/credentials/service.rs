//! Getting a token, and telling from one who calls.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::store::{ApiKeyStore, IntegratorStore};
use super::{
    AccessTokens, Claims, HashError, Integrator, IntegratorStatus, PlainSecret, SecretHasher, TokenError,
};
use crate::error::StoreError;
use crate::ids::IntegratorId;
use crate::postbacks::events::PostbackScope;
use crate::time::Clock;

/// The longest public id or secret that is looked at at all.
pub const MAX_CREDENTIAL_CHARS: usize = 256;

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The integrator.
    pub integrator_id: IntegratorId,
    /// Whether it may move money out.
    pub status: IntegratorStatus,
    /// Which events go to its postback URLs, over what the interface says.
    pub postback_scope: Option<PostbackScope>,
}

/// Why someone was not let in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthError {
    /// Unknown id, wrong secret or revoked key: deliberately the same.
    #[error("Invalid credentials")]
    InvalidCredentials,
    /// The token isn't accepted.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Too many secrets are being checked.
    #[error("too many sign-ins at once")]
    Overloaded,
    /// The store or the hasher failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A token as it is handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// How long it lives.
    pub ttl: Duration,
}

/// The use cases of signing in.
#[derive(Clone)]
pub struct Authenticator {
    keys: Arc<dyn ApiKeyStore>,
    integrators: Arc<dyn IntegratorStore>,
    hasher: Arc<dyn SecretHasher>,
    tokens: Arc<dyn AccessTokens>,
    clock: Arc<dyn Clock>,
    ttl: Duration,
}

impl Authenticator {
    /// An authenticator whose tokens live `ttl`.
    pub fn new(
        keys: Arc<dyn ApiKeyStore>,
        integrators: Arc<dyn IntegratorStore>,
        hasher: Arc<dyn SecretHasher>,
        tokens: Arc<dyn AccessTokens>,
        clock: Arc<dyn Clock>,
        ttl: Duration,
    ) -> Self {
        Self { keys, integrators, hasher, tokens, clock, ttl }
    }

    /// A token for the key `public_id`. An unknown id, a wrong secret and a revoked key cost and answer the same.
    pub async fn sign_in(&self, public_id: &str, secret: PlainSecret) -> Result<IssuedToken, AuthError> {
        if public_id.len() > MAX_CREDENTIAL_CHARS || secret.0.len() > MAX_CREDENTIAL_CHARS {
            return Err(AuthError::InvalidCredentials);
        }
        let key = self.keys.find(public_id).await?.filter(|key| key.revoked_at.is_none());
        let hash = key.as_ref().map(|key| key.secret_hash.clone());
        let right = self.hasher.verify(secret, hash).await.map_err(hash_error)?;
        let Some(key) = key.filter(|_| right) else {
            return Err(AuthError::InvalidCredentials);
        };
        let issued_at = self.clock.now();
        let claims = Claims {
            integrator_id: key.integrator_id,
            key_public_id: key.public_id,
            issued_at,
            expires_at: issued_at.plus(self.ttl),
        };
        Ok(IssuedToken { token: self.tokens.issue(&claims).map_err(hash_error)?, ttl: self.ttl })
    }

    /// What `token` says, which may hold no longer: its key is not looked at. For telling callers apart, not for
    /// letting them in.
    pub fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        self.tokens.open(token, self.clock.now())
    }

    /// Who holds `token`. A revoked key's tokens are refused at once, whatever they say.
    pub async fn authenticate(&self, token: &str) -> Result<Caller, AuthError> {
        let claims = self.tokens.open(token, self.clock.now())?;
        let key = self.keys.find(&claims.key_public_id).await?;
        let live =
            key.is_some_and(|key| key.revoked_at.is_none() && key.integrator_id == claims.integrator_id);
        let integrator = if live { self.integrators.find(claims.integrator_id).await? } else { None };
        let Some(Integrator { id, status, postback_scope, .. }) = integrator else {
            return Err(AuthError::Token(TokenError::Invalid));
        };
        Ok(Caller { integrator_id: id, status, postback_scope })
    }
}

fn hash_error(error: HashError) -> AuthError {
    match error {
        HashError::Overloaded => AuthError::Overloaded,
        HashError::Failed(why) => AuthError::Store(StoreError::Unavailable(why)),
    }
}
