//! Getting a token, and telling from one who calls.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::store::{ApiKeyStore, IntegratorStore};
use super::usage::KeyUses;
use super::{
    AccessTokens, ApiKey, Claims, HashError, Integrator, IntegratorStatus, PlainSecret, Scope, Scopes,
    SecretHasher, TokenError,
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
    /// The key that the token was asked for with.
    pub key_public_id: String,
    /// What that lets its holder do.
    pub scopes: Scopes,
}

impl Caller {
    /// Refuses a caller whose key isn't good for that.
    pub fn require(&self, scope: Scope) -> Result<(), AuthError> {
        if self.scopes.contains(scope) { Ok(()) } else { Err(AuthError::InsufficientScope(scope)) }
    }
}

/// Why someone was not let in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthError {
    /// Unknown id, wrong secret, revoked or expired key: deliberately the same.
    #[error("Invalid credentials")]
    InvalidCredentials,
    /// The token isn't accepted.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The key may not be used from there.
    #[error("this key may not be used from this address")]
    IpNotAllowed,
    /// The key isn't good for that.
    #[error("the access token needs the scope {}", .0.as_str())]
    InsufficientScope(Scope),
    /// Too many secrets are being checked.
    #[error("too many sign-ins at once")]
    Overloaded,
    /// The store or the hasher failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A token as it is handed out. Redacted in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// How long it lives.
    pub ttl: Duration,
    /// What it is good for.
    pub scopes: Scopes,
}

impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedToken")
            .field("ttl", &self.ttl)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
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
    uses: Arc<KeyUses>,
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
        let uses = Arc::new(KeyUses::new(keys.clone()));
        Self { keys, integrators, hasher, tokens, clock, ttl, uses }
    }

    /// A token for the key `public_id`, for who calls from `client`. An unknown id, a wrong secret, a revoked and an
    /// expired key cost and answer the same; only who has the right secret learns that it isn't let in from there.
    pub async fn sign_in(
        &self,
        public_id: &str,
        secret: PlainSecret,
        client: IpAddr,
    ) -> Result<IssuedToken, AuthError> {
        let too_long = public_id.len() > MAX_CREDENTIAL_CHARS || secret.0.len() > MAX_CREDENTIAL_CHARS;
        if too_long || self.hasher.is_malformed(&secret) {
            return Err(AuthError::InvalidCredentials);
        }
        let key = self.keys.find(public_id).await?.filter(|key| key.is_live(self.clock.now()));
        let secrets = key.iter().flat_map(|key| key.secrets.iter());
        let hashes = secrets.map(|secret| secret.hash.clone()).collect();
        let right = self.hasher.verify(secret, hashes).await.map_err(hash_error)?;
        let (Some(key), Some(right)) = (key, right) else { return Err(AuthError::InvalidCredentials) };
        let secret_number = key.secrets.iter().nth(right).map(|secret| secret.number);
        let secret_number = secret_number.ok_or(AuthError::InvalidCredentials)?;
        if !key.admits(client) {
            return Err(AuthError::IpNotAllowed);
        }
        self.issue(key, secret_number)
    }

    /// A token that ends with the key at the latest.
    fn issue(&self, key: ApiKey, secret_number: u32) -> Result<IssuedToken, AuthError> {
        let issued_at = self.clock.now();
        let ends = issued_at.plus(self.ttl);
        let expires_at = key.expires_at.map_or(ends, |key_ends| key_ends.min(ends));
        let claims = Claims {
            integrator_id: key.integrator_id,
            key_public_id: key.public_id,
            secret_number,
            issued_at,
            expires_at,
        };
        let token = self.tokens.issue(&claims).map_err(hash_error)?;
        Ok(IssuedToken { token, ttl: expires_at.since(issued_at), scopes: key.scopes })
    }

    /// What `token` says, which may hold no longer: its key is not looked at. For telling callers apart, not for
    /// letting them in.
    pub fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        self.tokens.open(token, self.clock.now())
    }

    /// Who holds `token` and calls from `client`. The tokens of a revoked key and of a retired secret are refused at
    /// once, whatever they say.
    pub async fn authenticate(&self, token: &str, client: IpAddr) -> Result<Caller, AuthError> {
        let claims = self.claims(token)?;
        self.admit(&claims, client).await
    }

    /// [`Self::authenticate`] for a token that was opened.
    pub async fn admit(&self, claims: &Claims, client: IpAddr) -> Result<Caller, AuthError> {
        let now = self.clock.now();
        let invalid = AuthError::Token(TokenError::Invalid);
        let Some(key) = self.keys.find(&claims.key_public_id).await? else { return Err(invalid) };
        let its_own = key.integrator_id == claims.integrator_id
            && key.secrets.iter().any(|secret| secret.number == claims.secret_number);
        if !its_own || key.revoked_at.is_some() {
            return Err(invalid);
        }
        if key.has_expired(now) {
            return Err(AuthError::Token(TokenError::Expired));
        }
        if !key.admits(client) {
            return Err(AuthError::IpNotAllowed);
        }
        let Some(integrator) = self.integrators.find(claims.integrator_id).await? else {
            return Err(invalid);
        };
        let Integrator { id, status, postback_scope, .. } = integrator;
        let (key_public_id, scopes) = (key.public_id, key.scopes);
        Ok(Caller { integrator_id: id, status, postback_scope, key_public_id, scopes })
    }

    /// Whether it is to be written down now, by [`Self::note_use`], that this key is used: about once a minute.
    pub fn is_use_due(&self, public_id: &str) -> bool {
        self.uses.is_due(public_id, self.clock.now())
    }

    /// Writes down that this key is used.
    pub async fn note_use(&self, public_id: &str) -> Result<(), StoreError> {
        self.uses.write(public_id, self.clock.now()).await
    }
}

fn hash_error(error: HashError) -> AuthError {
    match error {
        HashError::Overloaded => AuthError::Overloaded,
        HashError::Failed(why) => AuthError::Store(StoreError::Unavailable(why)),
    }
}
