//! One POST to a receiver that nobody vouches for. It owns the client, its limits, and what a failure is called; it must
//! never know what a postback says, nor when it is tried again.
//!
//! The path and the query go out as the URL has them, but for what the URL Standard makes every client change:
//!
//! - in the query `"`, `'`, `<`, `>` and what is not ASCII are percent-encoded; of these RFC 3986 would let only `'` stay
//! - in the path `"`, `<`, `>`, `` ` ``, `{`, `}` and what is not ASCII are; `\` becomes `/`; dot segments (`/./`, `/../`,
//!   also as `%2e`) are resolved
//!
//! Percent signs, `+`, `&`, `;`, `|` and all other bytes stay. The fragment is left out.
//!
//! An answer counts when it is whole, or [`MAX_ANSWER_BYTES`](pix_domain::postbacks::send::MAX_ANSWER_BYTES) of its body
//! have come. Its head may be some 400 KiB, the limit of the HTTP library, which no setting of the client changes.

use std::error::Error;
use std::fmt;
use std::io;
use std::iter::successors;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::postbacks::send::{Parcel, PostbackSender, Reply};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, redirect, retry};
use rustls::crypto::ring;
use thiserror::Error;
use url::Url;

use crate::answer;
use crate::guard::UrlGuard;
use crate::resolve::{GuardedResolver, Lookup, ResolveError, SystemLookup};
use crate::sign;

/// What every request names itself.
pub const USER_AGENT: &str = "pix-gateway";
/// How long an attempt may take, by default.
pub const DEFAULT_TOTAL_TIMEOUT: Duration = Duration::from_secs(15);
/// Bounds of [`SenderConfig::total_timeout`].
pub const TOTAL_TIMEOUT_BOUNDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30);
/// How long reaching a receiver may take, by default.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bounds of [`SenderConfig::connect_timeout`].
pub const CONNECT_TIMEOUT_BOUNDS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(30);
/// How many connections that nobody uses are kept for one host, by default.
pub const DEFAULT_IDLE_CONNECTIONS_PER_HOST: usize = 64;
/// The most connections that nobody uses that may be kept for one host.
pub const MAX_IDLE_CONNECTIONS_PER_HOST: usize = 1_024;
/// How long a connection that nobody uses is kept.
pub const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// The whole answer did not come in time.
pub const TIMEOUT: &str = "timeout";
/// The name has no address, or can't be looked up.
pub const DNS: &str = "dns";
/// No connection came about.
pub const CONNECT: &str = "connect";
/// The receiver's certificate or its TLS is not acceptable.
pub const TLS: &str = "tls";
/// The connection ended before the answer did.
pub const CLOSED: &str = "closed";
/// What came is not HTTP.
pub const MALFORMED: &str = "malformed";
/// Nothing was sent: the parcel can't be signed, or is no HTTP request.
pub const UNSENDABLE: &str = "unsendable";

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const APPLICATION_JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Whom the sender trusts to say that a host is the one it claims to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The certificate authorities of the operating system. A sender can't be made where there are none.
    System,
    /// Nobody: `http` works and `https` fails at the handshake. For loopback; works on any machine.
    Nobody,
}

/// How postbacks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderConfig {
    /// How long an attempt may take, from the first step to the last byte; [`DEFAULT_TOTAL_TIMEOUT`] by default.
    pub total_timeout: Duration,
    /// How long reaching the receiver may take, looking its name up and TLS included; [`DEFAULT_CONNECT_TIMEOUT`] by
    /// default.
    pub connect_timeout: Duration,
    /// How many connections that nobody uses are kept for one host, for [`POOL_IDLE_TIMEOUT`]; zero keeps none.
    pub idle_connections_per_host: usize,
    /// Whom the sender trusts; [`Trust::System`] by default.
    pub trust: Trust,
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            total_timeout: DEFAULT_TOTAL_TIMEOUT,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            idle_connections_per_host: DEFAULT_IDLE_CONNECTIONS_PER_HOST,
            trust: Trust::System,
        }
    }
}

/// Why a sender can't be made.
#[derive(Debug, Error)]
pub enum SenderSetupError {
    /// A setting is not acceptable.
    #[error("{setting} of postbacks {problem}")]
    Config {
        /// The field of [`SenderConfig`].
        setting: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The HTTP client can't be built.
    #[error(
        "cannot make an HTTP client; for https the system needs CA certificates (package ca-certificates)"
    )]
    Client(#[from] reqwest::Error),
}

impl SenderConfig {
    /// Checks every setting; tells the first that is not acceptable.
    pub fn validate(&self) -> Result<(), SenderSetupError> {
        let refuse = |setting, problem| Err(SenderSetupError::Config { setting, problem });
        for (setting, value, bounds) in [
            ("total_timeout", self.total_timeout, TOTAL_TIMEOUT_BOUNDS),
            ("connect_timeout", self.connect_timeout, CONNECT_TIMEOUT_BOUNDS),
        ] {
            if !bounds.contains(&value) {
                return refuse(setting, format!("must be from {:?} to {:?}", bounds.start(), bounds.end()));
            }
        }
        if self.idle_connections_per_host > MAX_IDLE_CONNECTIONS_PER_HOST {
            let problem = format!("must be from 0 to {MAX_IDLE_CONNECTIONS_PER_HOST}");
            return refuse("idle_connections_per_host", problem);
        }
        Ok(())
    }
}

/// Sends postbacks over HTTP/1.1, each once.
#[derive(Clone)]
pub struct HttpSender {
    client: Client,
    guard: UrlGuard,
    total_timeout: Duration,
    traceparent: fn() -> Option<String>,
}

impl HttpSender {
    /// A sender that goes where `guard` allows, and asks the operating system for names.
    pub fn new(guard: UrlGuard, config: SenderConfig) -> Result<Self, SenderSetupError> {
        Self::with_lookup(guard, config, Arc::new(SystemLookup::default()))
    }

    /// A sender that asks `lookup` for names.
    pub fn with_lookup(
        guard: UrlGuard,
        config: SenderConfig,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, SenderSetupError> {
        config.validate()?;
        // An error says that the process has a provider already.
        drop(ring::default_provider().install_default());
        let builder = Client::builder()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .referer(false)
            .http1_only()
            .https_only(!guard.allow_http)
            .dns_resolver(GuardedResolver::new(guard, lookup))
            .connect_timeout(config.connect_timeout)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(config.idle_connections_per_host)
            .user_agent(USER_AGENT);
        let builder = match config.trust {
            Trust::System => builder,
            Trust::Nobody => builder.tls_certs_only([]),
        };
        let (client, total_timeout) = (builder.build()?, config.total_timeout);
        Ok(Self { client, guard, total_timeout, traceparent: || None })
    }

    /// The same, which tells receivers in `traceparent` (W3C Trace Context) what `traceparent` says when one is sent to; by
    /// default they are told nothing.
    #[must_use]
    pub fn telling(self, traceparent: fn() -> Option<String>) -> Self {
        Self { traceparent, ..self }
    }

    async fn exchange(&self, url: Url, headers: HeaderMap, parcel: Parcel) -> Reply {
        let request = self.client.post(url).headers(headers).header(CONTENT_TYPE, APPLICATION_JSON);
        let answered = async {
            let response = request.body(parcel.body).send().await?;
            answer::read(response, parcel.sent_at).await
        };
        answered.await.unwrap_or_else(|error| reply_of(&error))
    }
}

#[async_trait]
impl PostbackSender for HttpSender {
    async fn send(&self, parcel: Parcel) -> Reply {
        // In every attempt: the resolver is not asked about hosts that are addresses, and rules may have changed.
        let url = match self.guard.vet(parcel.url.as_str()) {
            Ok(url) => url,
            Err(refusal) => return Reply::Forbidden(refusal),
        };
        let Some(mut headers) = sign::headers(&parcel) else { return Reply::Failed(UNSENDABLE) };
        if let Some(told) = (self.traceparent)().and_then(|told| HeaderValue::from_str(&told).ok()) {
            headers.insert(TRACEPARENT, told);
        }
        let exchange = Box::pin(self.exchange(url, headers, parcel));
        tokio::time::timeout(self.total_timeout, exchange).await.unwrap_or(Reply::Failed(TIMEOUT))
    }
}

impl fmt::Debug for HttpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HttpSender");
        shown.field("guard", &self.guard).field("total_timeout", &self.total_timeout).finish_non_exhaustive()
    }
}

/// What an error is called. Nothing of its text is kept: it names the URL.
fn reply_of(error: &reqwest::Error) -> Reply {
    let resolve_error = causes(error).find_map(|cause| cause.downcast_ref::<ResolveError>());
    if let Some(refusal) = resolve_error.and_then(ResolveError::refusal) {
        return Reply::Forbidden(refusal);
    }
    Reply::Failed(code_of(error))
}

fn code_of(error: &reqwest::Error) -> &'static str {
    let mut io_kinds =
        causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    if error.is_builder() {
        UNSENDABLE
    } else if error.is_timeout() {
        TIMEOUT
    } else if error.is_dns() {
        DNS
    } else if causes(error).any(<dyn Error>::is::<rustls::Error>) {
        TLS
    } else if error.is_connect() {
        // A connection that came about and ended: it did so in the handshake.
        if io_kinds.any(is_end) { TLS } else { CONNECT }
    } else if causes(error).any(is_not_http) || io_kinds.any(is_not_chunks) {
        MALFORMED
    } else {
        CLOSED
    }
}

fn is_end(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn is_not_http(cause: &(dyn Error + 'static)) -> bool {
    cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)
}

/// What reading a body in chunks (RFC 9112 §7.1) says of one that has none.
fn is_not_chunks(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
}

/// An error and what caused it, from the outside in.
fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let outermost: &'a (dyn Error + 'static) = error;
    successors(Some(outermost), |cause| cause_of(*cause))
}

/// What an I/O error wraps is its cause, though it does not say so by itself.
fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_within_bounds_are_acceptable() {
        let config = SenderConfig { trust: Trust::Nobody, ..SenderConfig::default() };
        config.validate().unwrap();
        let refused = |config: SenderConfig| {
            let error = HttpSender::new(UrlGuard::default(), config).unwrap_err();
            let SenderSetupError::Config { setting, .. } = error else { panic!("{error:?}") };
            setting
        };
        for total_timeout in [Duration::from_millis(999), Duration::from_millis(30_001)] {
            assert_eq!(refused(SenderConfig { total_timeout, ..config }), "total_timeout");
        }
        for connect_timeout in [Duration::ZERO, Duration::from_secs(31)] {
            assert_eq!(refused(SenderConfig { connect_timeout, ..config }), "connect_timeout");
        }
        let many = SenderConfig { idle_connections_per_host: 1_025, ..config };
        assert_eq!(refused(many), "idle_connections_per_host");
    }
}
