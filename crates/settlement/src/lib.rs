//! The settlement provider over HTTP: [`ClassicV2Provider`] is `pix_domain::provider::SettlementProvider` for a
//! provider that speaks the classic v2 contract. [`Breaker`] is one before any provider: it turns new charges away while
//! that fails.
//!
//! What every answer, and every failure to get one, proves is decided in one table (`classify.rs`): anything that is
//! not listed there is not known, and what is not known may have happened. This crate must never know a store or
//! an integrator.
//!
//! No `Debug` and no error text of this crate holds a secret, a token, a name, a document, a key, a body, or a URL
//! beyond the provider's host.
//!
//! ```
//! use pix_settlement::{ClassicV2Config, ClassicV2Provider};
//!
//! # fn main() -> Result<(), pix_settlement::SetupError> {
//! let mut config = ClassicV2Config::new("http://127.0.0.1:9090", "simulator", "simulator-secret".into());
//! config.callback_base = Some("https://pix.example.com/provider/callbacks/0f3a".into());
//! let provider = ClassicV2Provider::new(config)?;
//! # drop(provider);
//! # Ok(())
//! # }
//! ```

mod breaker;
mod bulkhead;
mod classic_v2;
mod classify;
mod config;
mod http;
mod token;

pub use breaker::{
    Breaker, BreakerConfig, BreakerState, CHARGES_UNDER_WAY_BOUNDS, DEFAULT_CHARGES_UNDER_WAY,
    DEFAULT_FAILURES_TO_OPEN, DEFAULT_HALF_OPEN_PROBES, DEFAULT_OPEN_FOR, FAILURES_TO_OPEN_BOUNDS,
    HALF_OPEN_PROBES_BOUNDS, OPEN_FOR_BOUNDS,
};
pub use classic_v2::ClassicV2Provider;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use classic_v2::fuzzing;
pub use config::{
    CALL_TIMEOUT_BOUNDS, CONNECT_TIMEOUT_BOUNDS, ClassicV2Config, ClientTls, ConfigError,
    DEFAULT_CALL_TIMEOUT, DEFAULT_CONNECT_TIMEOUT, DEFAULT_QUEUE_WAIT, DEFAULT_TOKEN_TIMEOUT, MAX_CHARGES,
    MAX_CONCURRENT_CALLS, MAX_CONSULTS, MAX_QUEUE_WAIT, MAX_SENDS, SetupError, TOKEN_TIMEOUT_BOUNDS,
};
pub use http::{
    HttpClientConfig, HttpClientError, MAX_IDLE_CONNECTIONS_PER_HOST, POOL_IDLE_TIMEOUT, Trust, USER_AGENT,
    http_client,
};
