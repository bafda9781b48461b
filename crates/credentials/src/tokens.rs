//! Access tokens: PASETO v4.local, sealed by the first key of a ring and opened by any of it.
//!
//! Owns the form of a token: its claims, its footer (which key sealed it) and what it is bound to (the deployment, as
//! implicit assertion and audience). Never knows who may have a token, nor what time it is.

mod key_ring;

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use pasetors::Local;
use pasetors::token::UntrustedToken;
use pasetors::version4::{LocalToken, V4};
use pix_domain::credentials::{AccessTokens, Claims, HashError, TokenError};
use pix_domain::ids::IntegratorId;
use pix_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

pub use key_ring::{KeyRing, MAX_KEYS};

/// The longest token that is looked at; a longer one is refused before anything of it is decoded.
pub const MAX_TOKEN_BYTES: usize = 2048;

/// How far ahead of our clock a token may have been issued: another node's clock may be a little fast.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_mins(1);

/// The longest name of a deployment.
pub const MAX_DEPLOYMENT_BYTES: usize = 256;

/// Who issues the tokens (`iss`).
pub const ISSUER: &str = "pix-gateway";

/// Why tokens can't be made with what was configured. No text holds any part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenSetupError {
    /// The list of keys is empty.
    #[error("no token key is configured: give at least one PASERK key (k4.local.…)")]
    NoKeys,
    /// More keys than [`MAX_KEYS`].
    #[error("too many token keys: at most {MAX_KEYS} are accepted")]
    TooManyKeys,
    /// An entry isn't a PASERK `k4.local` key.
    #[error("token key number {position} is not a PASERK key of the form k4.local.… with 32 bytes")]
    NotAKey {
        /// Which entry, counted from 1.
        position: usize,
    },
    /// All bytes of a key are the same.
    #[error("token key number {position} is not random: all its bytes are the same")]
    WeakKey {
        /// Which entry, counted from 1.
        position: usize,
    },
    /// A key is there twice.
    #[error("token key number {position} repeats an earlier one")]
    RepeatedKey {
        /// Which entry, counted from 1.
        position: usize,
    },
    /// The deployment has no name, or one that is too long or not in visible ASCII characters.
    #[error("the deployment's name must have 1 to {MAX_DEPLOYMENT_BYTES} visible ASCII characters")]
    Deployment,
    /// The operating system gave no random bytes.
    #[error("the operating system's random generator failed: {0}")]
    Random(String),
}

/// What is sealed into a token. Times are RFC 3339, as the PASETO registered claims want, with microseconds.
#[derive(Serialize, Deserialize)]
struct Payload {
    iss: String,
    sub: String,
    aud: String,
    iat: String,
    exp: String,
    /// The public id of the API key.
    key: String,
    /// The number of its secret. Tokens of programs that knew no numbers have none: keys had one secret then.
    #[serde(default = "first_secret")]
    secret: u32,
}

const fn first_secret() -> u32 {
    1
}

/// Seals and opens access tokens with a [`KeyRing`], for one deployment.
pub struct PasetoTokens {
    keys: KeyRing,
    deployment: String,
}

impl PasetoTokens {
    /// Tokens of `deployment` (its public address, say): one sealed for another deployment is not valid here, even
    /// under the same key.
    pub fn new(keys: KeyRing, deployment: impl Into<String>) -> Result<Self, TokenSetupError> {
        let deployment = deployment.into();
        let visible = deployment.bytes().all(|byte| byte.is_ascii_graphic());
        if deployment.is_empty() || deployment.len() > MAX_DEPLOYMENT_BYTES || !visible {
            return Err(TokenSetupError::Deployment);
        }
        Ok(Self { keys, deployment })
    }

    /// The payload of a token of ours, as text; `None` for everything else.
    fn unseal(&self, token: &str) -> Option<String> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let sealed = UntrustedToken::<Local, V4>::try_from(token).ok()?;
        // The footer is never parsed, only compared with the few that we write.
        let key = self.keys.by_footer(sealed.untrusted_footer())?;
        let assertion = Some(self.deployment.as_bytes());
        let opened = LocalToken::decrypt(key.secret(), &sealed, Some(key.footer()), assertion).ok()?;
        Some(opened.payload().to_owned())
    }

    fn claims(&self, payload: &str) -> Option<Claims> {
        let payload: Payload = serde_json::from_str(payload).ok()?;
        if payload.iss != ISSUER || payload.aud != self.deployment {
            return None;
        }
        Some(Claims {
            integrator_id: IntegratorId(Uuid::try_parse(&payload.sub).ok()?),
            issued_at: from_rfc3339(&payload.iat)?,
            expires_at: from_rfc3339(&payload.exp)?,
            key_public_id: payload.key,
            secret_number: payload.secret,
        })
    }
}

impl AccessTokens for PasetoTokens {
    fn issue(&self, claims: &Claims) -> Result<String, HashError> {
        let payload = Payload {
            iss: ISSUER.to_owned(),
            sub: claims.integrator_id.to_string(),
            aud: self.deployment.clone(),
            iat: to_rfc3339(claims.issued_at)?,
            exp: to_rfc3339(claims.expires_at)?,
            key: claims.key_public_id.clone(),
            secret: claims.secret_number,
        };
        let payload = serde_json::to_vec(&payload).map_err(|error| failed(&error))?;
        let key = self.keys.first();
        let assertion = Some(self.deployment.as_bytes());
        let token = LocalToken::encrypt(key.secret(), &payload, Some(key.footer()), assertion)
            .map_err(|error| failed(&error))?;
        if token.len() > MAX_TOKEN_BYTES {
            return Err(failed(&"its claims are too long"));
        }
        Ok(token)
    }

    fn open(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError> {
        let claims = self.unseal(token).and_then(|payload| self.claims(&payload));
        let claims = claims.ok_or(TokenError::Invalid)?;
        if claims.issued_at > now.plus(MAX_CLOCK_SKEW) {
            return Err(TokenError::Invalid);
        }
        if now >= claims.expires_at {
            return Err(TokenError::Expired);
        }
        Ok(claims)
    }
}

/// The ids of the keys and the deployment; no key.
impl fmt::Debug for PasetoTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, deployment } = self;
        f.debug_struct("PasetoTokens").field("keys", keys).field("deployment", deployment).finish()
    }
}

fn failed(why: &dyn fmt::Display) -> HashError {
    HashError::Failed(format!("the access token could not be sealed: {why}"))
}

/// The years that RFC 3339 can write.
const RFC3339_YEARS: std::ops::RangeInclusive<i32> = 0..=9999;

fn to_rfc3339(instant: Timestamp) -> Result<String, HashError> {
    DateTime::<Utc>::from_timestamp_micros(instant.micros())
        .filter(|instant| RFC3339_YEARS.contains(&chrono::Datelike::year(instant)))
        .map(|instant| instant.to_rfc3339_opts(SecondsFormat::Micros, true))
        .ok_or_else(|| failed(&"a time is out of range"))
}

fn from_rfc3339(text: &str) -> Option<Timestamp> {
    DateTime::parse_from_rfc3339(text).ok().map(|instant| Timestamp::from_micros(instant.timestamp_micros()))
}

#[cfg(test)]
mod tests;
