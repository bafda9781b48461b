//! The settlement provider over HTTP: [`ClassicV2Provider`] is `pix_domain::provider::SettlementProvider` for a
//! provider that speaks the classic v2 contract.
//!
//! What every answer, and every failure to get one, proves is decided in one table (`classify.rs`): anything that is
//! not listed there is not known, and what is not known may have happened. This crate must never know a store, an
//! integrator or a clock; time is only measured here, never told.
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

mod bulkhead;
mod classic_v2;
mod classify;
mod config;
mod http;
mod token;

pub use classic_v2::ClassicV2Provider;
pub use config::{
    CALL_TIMEOUT_BOUNDS, CONNECT_TIMEOUT_BOUNDS, ClassicV2Config, ConfigError, DEFAULT_CALL_TIMEOUT,
    DEFAULT_CONNECT_TIMEOUT, DEFAULT_QUEUE_WAIT, DEFAULT_TOKEN_TIMEOUT, MAX_CHARGES, MAX_CONCURRENT_CALLS,
    MAX_CONSULTS, MAX_QUEUE_WAIT, MAX_SENDS, SetupError, TOKEN_TIMEOUT_BOUNDS,
};
pub use http::{
    HttpClientConfig, HttpClientError, MAX_IDLE_CONNECTIONS_PER_HOST, POOL_IDLE_TIMEOUT, Trust, USER_AGENT,
    http_client,
};
