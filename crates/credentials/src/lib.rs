//! What lets an integrator in: access tokens and the secrets they are asked for with.
//!
//! Owns two ports of `pix_domain::credentials`: [`PasetoTokens`] seals and opens access tokens (PASETO v4.local),
//! [`Argon2Hasher`] makes, hashes and checks the secrets of API keys (argon2id, off the async threads). Never knows
//! HTTP, a store or a clock of its own: the instant a token is judged at is the caller's.
//!
//! No `Debug` and no error text of this crate holds a key, a token or a secret.
//!
//! ```
//! use std::time::Duration;
//!
//! use pix_credentials::{Argon2Hasher, HasherConfig, KeyRing, PasetoTokens};
//! use pix_domain::credentials::{AccessTokens, Claims, SecretHasher, TokenError};
//! use pix_domain::ids::IntegratorId;
//! use pix_domain::time::Timestamp;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A secret is shown once; only its hash is kept. (Cheap parameters, for the example.)
//! let hasher = Argon2Hasher::new(HasherConfig { memory_kib: 64, iterations: 1, ..HasherConfig::default() })?;
//! let secret = hasher.generate();
//! let stored = hasher.hash(secret.clone(), None).await?;
//! assert_eq!(hasher.verify(secret.clone(), vec![stored]).await?, Some(0));
//! assert_eq!(hasher.verify(secret, Vec::new()).await?, None);
//!
//! // A token holds for one deployment, until it ends.
//! let tokens = PasetoTokens::new(KeyRing::generate()?, "https://pix.example.com")?;
//! let now = Timestamp::from_micros(1_750_000_000_000_000);
//! let claims = Claims {
//!     integrator_id: IntegratorId(uuid::Uuid::from_u128(7)),
//!     key_public_id: hasher.generate_public_id(),
//!     secret_number: 1,
//!     issued_at: now,
//!     expires_at: now.plus(Duration::from_hours(1)),
//! };
//! let token = tokens.issue(&claims)?;
//! assert_eq!(tokens.open(&token, now), Ok(claims.clone()));
//! assert_eq!(tokens.open(&token, claims.expires_at), Err(TokenError::Expired));
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guess;
pub mod secrets;
pub mod tokens;

pub use guess::is_guessable;
pub use secrets::{Argon2Hasher, HasherConfig, HasherConfigError};
pub use tokens::{KeyRing, PasetoTokens, TokenSetupError};
