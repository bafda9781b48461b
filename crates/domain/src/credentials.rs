//! Integrators, their API keys, and the access tokens made of them.
//!
//! Owns who may call. Never knows how a secret is hashed or a token sealed: those are ports.

pub mod key;
pub mod scope;
pub mod service;
pub mod store;
pub mod usage;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::ids::IntegratorId;
use crate::postbacks::events::PostbackScope;
use crate::text::PostbackUrl;
use crate::time::Timestamp;

pub use key::{ApiKey, KeyChange, KeySecret, KeySecrets, MAX_ALLOWED_IPS, MAX_LIVE_SECRETS, RotationError};
pub use scope::{Scope, Scopes};

/// Whether an integrator may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegratorStatus {
    /// May do everything.
    Active,
    /// May read; may not move money out.
    Suspended,
}

/// Who owns records and a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integrator {
    /// Its id.
    pub id: IntegratorId,
    /// What operators call it.
    pub name: String,
    /// Whether it may act.
    pub status: IntegratorStatus,
    /// Which events go to its postback URLs, over what the interface that a resource is made by says.
    pub postback_scope: Option<PostbackScope>,
    /// Where it is told of splits that come to be from now on.
    pub split_postback: Option<PostbackUrl>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The hash of a secret, as a PHC string. Redacted in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHash(pub String);

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

/// A secret in plain text: shown once, never stored. Redacted in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PlainSecret(pub String);

impl fmt::Debug for PlainSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainSecret(…)")
    }
}

/// What an access token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Whose token it is.
    pub integrator_id: IntegratorId,
    /// The key it was issued for.
    pub key_public_id: String,
    /// The number of that key's secret which it was asked for with: it ends with that.
    pub secret_number: u32,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// Why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Not a token of ours: forged, damaged, of another deployment or of a retired key.
    #[error("the access token is not valid")]
    Invalid,
    /// It was ours and its time is over.
    #[error("the access token has expired")]
    Expired,
}

/// Why a secret couldn't be hashed or checked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HashError {
    /// All permits are taken: try again later.
    #[error("too many secrets are being checked at once")]
    Overloaded,
    /// The hasher failed. The text never holds the secret.
    #[error("the secret could not be hashed: {0}")]
    Failed(String),
}

/// Makes and checks secrets.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait SecretHasher: Send + Sync {
    /// A new machine-made secret. MUST come from the operating system's generator, with at least 256 bits.
    fn generate(&self) -> PlainSecret;

    /// A new public identifier for a key. MUST be unguessably many, visible ASCII, without `:` (RFC 7617).
    fn generate_public_id(&self) -> String;

    /// Whether no key can have this secret, as its form tells. MUST cost next to nothing.
    fn is_malformed(&self, secret: &PlainSecret) -> bool;

    /// Hashes a secret. MUST run off the async threads, with a bounded number at once. MUST make the hash such that
    /// checking a secret against it and against `beside` is the work of one hash: so nobody can tell by the clock that
    /// a key has two.
    async fn hash(&self, secret: PlainSecret, beside: Option<SecretHash>) -> Result<SecretHash, HashError>;

    /// Which of `hashes` was made of `secret`, counted from 0. Without any it MUST do the same work and find none, so
    /// that an unknown id can't be told from a wrong secret by the clock.
    async fn verify(&self, secret: PlainSecret, hashes: Vec<SecretHash>) -> Result<Option<usize>, HashError>;
}

/// Seals and opens access tokens.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait AccessTokens: Send + Sync {
    /// Seals `claims` into a token.
    fn issue(&self, claims: &Claims) -> Result<String, HashError>;

    /// Opens a token. MUST refuse one longer than 2 KiB before decoding it, and one whose time is over at `now`.
    fn open(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError>;
}

/// How long an access token lives by default. Clients of the family cache it blindly for up to an hour.
pub const DEFAULT_TOKEN_TTL: Duration = Duration::from_hours(1);
