//! Postbacks over HTTP: what `pix_domain::postbacks` needs to send one.
//!
//! - [`UrlGuard`] is `PostbackUrls`: where postbacks may go. Integrators choose the URLs, so each may be an attempt to
//!   reach what stands beside the gateway (SSRF). The text is judged by [`UrlGuard::vet`] before every attempt, and the
//!   addresses of its name by [`GuardedResolver`] when it is connected to.
//! - [`HttpSender`] is `PostbackSender`: one POST, signed, bounded in time and size, to exactly the URL that was given.
//! - [`MasterKey`] makes the secrets that are signed with.
//! - [`Deliverer`] runs the relay of the domain: who is sent how much at once.
//!
//! This crate must never know what happened, when to try again, or which store there is. No `Debug` and no error text of it holds a
//! secret, a body, or a URL beyond its host.
//!
//! ```
//! use pix_domain::ids::IntegratorId;
//! use pix_domain::postbacks::send::{Parcel, PostbackSender, PostbackUrls, Reply};
//! use pix_domain::text::PostbackUrl;
//! use pix_domain::time::Timestamp;
//! use pix_notifications::{HttpSender, MasterKey, SenderConfig, Trust, UrlGuard};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What can never be delivered is refused when it is asked for…
//! let guard = UrlGuard::default();
//! let url = PostbackUrl::parse("https://[::ffff:169.254.169.254]/latest/meta-data")?;
//! let refusal = guard.check(&url).unwrap_err();
//! assert_eq!(refusal.code, "address_not_public");
//!
//! // …and again when it is sent.
//! let key = MasterKey::parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")?;
//! let sender = HttpSender::new(guard, SenderConfig { trust: Trust::Nobody, ..SenderConfig::default() })?;
//! let reply = sender.send(Parcel {
//!     url,
//!     message_id: "msg_1".to_owned(),
//!     event: "cashin.confirmed".to_owned(),
//!     body: r#"{"event":"cashin.confirmed"}"#.to_owned(),
//!     sent_at: Timestamp::from_micros(1_750_000_000_000_000),
//!     secrets: vec![key.secret(IntegratorId(uuid::Uuid::from_u128(7)), 1)],
//! });
//! assert_eq!(reply.await, Reply::Forbidden(refusal));
//! # Ok(())
//! # }
//! ```

mod address;
mod answer;
pub mod derive;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod guard;
pub mod resolve;
pub mod run;
pub mod sender;
mod sign;

pub use answer::MAX_RETRY_AFTER;
pub use derive::{MASTER_KEY_BYTES, MasterKey, MasterKeyError, MasterKeys};
pub use guard::{PrivateAddresses, UrlGuard};
pub use resolve::{GuardedResolver, Lookup, SystemLookup};
pub use run::{
    AT_ONCE_BOUNDS, Deliverer, DelivererConfig, DelivererConfigError, KEEP_DAYS_BOUNDS, PER_ENDPOINT_BOUNDS,
    POLL_INTERVAL_MS_BOUNDS, Waker,
};
pub use sender::{HttpSender, SenderConfig, SenderSetupError, Trust};
pub use sign::SECRET_PREFIX;
