//! The settings of the HTTP interface, each with its default and its bounds.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::ip::IpRange;
use secrecy::SecretString;
use thiserror::Error;
use tokio::sync::watch;

use crate::tls::ServerCertificate;

/// The longest request body by default: 64 KiB.
pub const DEFAULT_BODY_LIMIT_BYTES: usize = 64 * 1024;

/// The highest limit of a request body that may be set: 1 MiB.
pub const MAX_BODY_LIMIT_BYTES: usize = 1024 * 1024;

/// How long a client may take to send a body.
pub const DEFAULT_BODY_DEADLINE: Duration = Duration::from_secs(5);

/// How long a client may take to send the head of a request.
pub const DEFAULT_HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// How long an idle connection is kept.
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a graceful stop waits for requests in progress.
pub const DEFAULT_SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// Requests a minute of one client to the token endpoint.
pub const DEFAULT_RATE_TOKEN_PER_MINUTE: u32 = 20;

/// Requests a minute of one access token (or one client without one) to all other endpoints.
pub const DEFAULT_RATE_API_PER_MINUTE: u32 = 600;

/// How many of those may come at once.
pub const DEFAULT_RATE_API_BURST: u32 = 100;

/// How many times as much all tokens of one key may ask for together as one of them.
pub const DEFAULT_RATE_KEY_FACTOR: u32 = 4;

/// The most clients of a kind that have a bucket of their own.
pub const DEFAULT_RATE_BUCKETS: u32 = 100_000;

/// How long the store of shared limits may take for an answer.
pub const DEFAULT_RATE_STORE_TIMEOUT: Duration = Duration::from_millis(10);

/// Requests to v1 and v2 that are worked on at once.
pub const DEFAULT_REQUESTS_AT_ONCE: usize = 1024;

/// Requests to the token endpoint that are worked on at once.
pub const DEFAULT_SIGN_INS_AT_ONCE: usize = 64;

/// The most there may be of either: what a semaphore is sure to take.
pub const MAX_AT_ONCE: usize = 65_536;

/// Connections at once.
pub const DEFAULT_CONNECTIONS: usize = 8192;

/// Connections of one client at once.
pub const DEFAULT_CONNECTIONS_PER_CLIENT: usize = 256;

/// Payment pages that are told at once what becomes of their charge.
pub const DEFAULT_PAY_STREAMS: usize = 1024;

/// How long an answer may wait for its reader.
pub const DEFAULT_UNREAD_DEADLINE: Duration = Duration::from_secs(10);

/// Callbacks of the provider a second, over all of them.
pub const DEFAULT_CALLBACKS_PER_SECOND: u32 = 1_000;

/// The realm named in `WWW-Authenticate`.
pub const DEFAULT_REALM: &str = "pix-gateway";

/// The fewest characters of a callback secret.
pub const MIN_CALLBACK_SECRET_CHARS: usize = 16;

/// The settings of the HTTP interface.
#[derive(Clone)]
pub struct HttpConfig {
    /// How many worker threads; `None` for one a core. At least 1.
    pub workers: Option<usize>,
    /// What clients call this service, without a slash at the end: links in answers start with it.
    pub public_url: String,
    /// What the `type` URIs of v1 errors start with, without a slash at the end (RFC 9457).
    pub problem_base: String,
    /// The realm named in `WWW-Authenticate`: visible ASCII without `"` and `\`.
    pub realm: String,
    /// The longest body: 1 to [`MAX_BODY_LIMIT_BYTES`].
    pub body_limit_bytes: usize,
    /// How long a client may take to send a body. More than zero.
    pub body_deadline: Duration,
    /// How long a client may take to send the head of a request. More than zero.
    pub head_deadline: Duration,
    /// How long an idle connection is kept. More than zero.
    pub keep_alive: Duration,
    /// How long a graceful stop waits for requests in progress.
    pub shutdown_grace: Duration,
    /// The unguessable path segment of the provider's callbacks, `/callbacks/{secret}`: at least
    /// [`MIN_CALLBACK_SECRET_CHARS`] letters, digits, `-` or `_`.
    pub callback_secret: String,
    /// Callbacks a second that are taken; one more is answered 503. At least 1.
    pub callbacks_per_second: u32,
    /// Requests a minute of one client to the token endpoint. At least 1.
    pub rate_token_per_minute: u32,
    /// Requests a minute of one access token to all other endpoints. At least 1.
    pub rate_api_per_minute: u32,
    /// How many of those may come at once. At least 1.
    pub rate_api_burst: u32,
    /// Requests a minute of all tokens of one key; at least [`Self::rate_api_per_minute`], and
    /// [`DEFAULT_RATE_KEY_FACTOR`] times that if `None`.
    pub rate_key_per_minute: Option<u32>,
    /// The most addresses, tokens and keys, each, that have a bucket of their own. At least 1.
    pub rate_buckets: u32,
    /// Where nodes keep their limits together; `None` for limits of this node's own.
    pub rate_store: Option<RateStore>,
    /// Requests to v1 and v2 that are worked on at once: 1 to [`MAX_AT_ONCE`]. One more is answered 503.
    pub requests_at_once: usize,
    /// How many of those one key can have, or one address (one /64 in IPv6) without a token that opens: 1 to
    /// [`MAX_AT_ONCE`], and half of [`Self::requests_at_once`] if `None`. One more is answered 503.
    pub requests_at_once_per_key: Option<usize>,
    /// Requests to the token endpoint that are worked on at once: 1 to [`MAX_AT_ONCE`]. One more is answered 503.
    pub sign_ins_at_once: usize,
    /// Streams of events of payment pages at once: 1 to [`MAX_AT_ONCE`]. One more is answered 503, and its page asks from
    /// time to time instead.
    pub pay_streams: usize,
    /// Connections at once, at least 1. One more is closed as it is made.
    pub connections: usize,
    /// Connections of one address (of one /64 in IPv6) that is no trusted proxy. At least 1.
    pub connections_per_client: usize,
    /// How long a peer may leave an answer unread. At least 1 ms.
    pub unread_deadline: Duration,
    /// Peers whose `X-Forwarded-For` is believed. None by default.
    pub trusted_proxies: Vec<ProxyRange>,
    /// What clients are shown over TLS; plain HTTP without it.
    pub tls: Option<Arc<ServerCertificate>>,
    /// Origins whose pages may call (`https://app.example.com`). None by default, which switches CORS off.
    pub cors_allow_origins: Vec<String>,
    /// Ends what would outlast a graceful stop.
    pub stopping: Stopping,
    /// Who answers `/health/ready`; `None` to ask the store whether it answers.
    pub readiness: Option<Arc<dyn Readiness>>,
}

impl HttpConfig {
    /// The defaults.
    pub fn new(public_url: impl Into<String>, callback_secret: impl Into<String>) -> Self {
        let public_url = public_url.into().trim_end_matches('/').to_owned();
        Self {
            workers: None,
            problem_base: format!("{public_url}/errors"),
            public_url,
            realm: DEFAULT_REALM.to_owned(),
            body_limit_bytes: DEFAULT_BODY_LIMIT_BYTES,
            body_deadline: DEFAULT_BODY_DEADLINE,
            head_deadline: DEFAULT_HEAD_DEADLINE,
            keep_alive: DEFAULT_KEEP_ALIVE,
            shutdown_grace: DEFAULT_SHUTDOWN_GRACE,
            callback_secret: callback_secret.into(),
            callbacks_per_second: DEFAULT_CALLBACKS_PER_SECOND,
            rate_token_per_minute: DEFAULT_RATE_TOKEN_PER_MINUTE,
            rate_api_per_minute: DEFAULT_RATE_API_PER_MINUTE,
            rate_api_burst: DEFAULT_RATE_API_BURST,
            rate_key_per_minute: None,
            rate_buckets: DEFAULT_RATE_BUCKETS,
            rate_store: None,
            requests_at_once: DEFAULT_REQUESTS_AT_ONCE,
            requests_at_once_per_key: None,
            sign_ins_at_once: DEFAULT_SIGN_INS_AT_ONCE,
            pay_streams: DEFAULT_PAY_STREAMS,
            connections: DEFAULT_CONNECTIONS,
            connections_per_client: DEFAULT_CONNECTIONS_PER_CLIENT,
            unread_deadline: DEFAULT_UNREAD_DEADLINE,
            trusted_proxies: Vec::new(),
            tls: None,
            cors_allow_origins: Vec::new(),
            stopping: Stopping::default(),
            readiness: None,
        }
    }

    /// Requests a minute of all tokens of one key.
    pub(crate) fn rate_key_per_minute(&self) -> u32 {
        self.rate_key_per_minute
            .unwrap_or_else(|| self.rate_api_per_minute.saturating_mul(DEFAULT_RATE_KEY_FACTOR))
    }

    /// The share of one key in the places of requests.
    pub(crate) fn requests_at_once_per_key(&self) -> usize {
        self.requests_at_once_per_key.unwrap_or_else(|| self.requests_at_once.div_ceil(2))
    }

    /// Whether every setting is within its bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        let secret = &self.callback_secret;
        let at_once = |count| (1..=MAX_AT_ONCE).contains(&count);
        let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let checks = [
            (self.workers == Some(0), "workers", "must be at least 1"),
            (self.body_limit_bytes == 0, "body_limit_bytes", "must be at least 1"),
            (self.body_limit_bytes > MAX_BODY_LIMIT_BYTES, "body_limit_bytes", "must be at most 1 MiB"),
            (self.body_deadline.is_zero(), "body_deadline", "must be more than zero"),
            (self.head_deadline.is_zero(), "head_deadline", "must be more than zero"),
            (self.keep_alive.is_zero(), "keep_alive", "must be more than zero"),
            (self.callbacks_per_second == 0, "callbacks_per_second", "must be at least 1"),
            (self.rate_token_per_minute == 0, "rate_token_per_minute", "must be at least 1"),
            (self.rate_api_per_minute == 0, "rate_api_per_minute", "must be at least 1"),
            (self.rate_api_burst == 0, "rate_api_burst", "must be at least 1"),
            (
                self.rate_key_per_minute() < self.rate_api_per_minute,
                "rate_key_per_minute",
                "must be at least rate_api_per_minute",
            ),
            (self.rate_buckets == 0, "rate_buckets", "must be at least 1"),
            (!at_once(self.requests_at_once), "requests_at_once", "must be from 1 to 65536"),
            (
                !at_once(self.requests_at_once_per_key()),
                "requests_at_once_per_key",
                "must be from 1 to 65536",
            ),
            (!at_once(self.sign_ins_at_once), "sign_ins_at_once", "must be from 1 to 65536"),
            (!at_once(self.pay_streams), "pay_streams", "must be from 1 to 65536"),
            (self.connections == 0, "connections", "must be at least 1"),
            (self.connections_per_client == 0, "connections_per_client", "must be at least 1"),
            (self.unread_deadline.as_millis() == 0, "unread_deadline", "must be at least 1 ms"),
            (
                secret.len() < MIN_CALLBACK_SECRET_CHARS || !secret.bytes().all(word),
                "callback_secret",
                "must have at least 16 letters, digits, '-' or '_'",
            ),
            (
                !self.realm.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')),
                "realm",
                "must be visible ASCII without quotes",
            ),
        ];
        match checks.into_iter().find(|(broken, ..)| *broken) {
            Some((_, field, problem)) => Err(ConfigError { field, problem }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConfig")
            .field("public_url", &self.public_url)
            .field("body_limit_bytes", &self.body_limit_bytes)
            .field("body_deadline", &self.body_deadline)
            .field("rate_token_per_minute", &self.rate_token_per_minute)
            .field("rate_api_per_minute", &self.rate_api_per_minute)
            .field("rate_api_burst", &self.rate_api_burst)
            .field("rate_store", &self.rate_store)
            .field("requests_at_once", &self.requests_at_once)
            .field("requests_at_once_per_key", &self.requests_at_once_per_key)
            .field("connections", &self.connections)
            .field("trusted_proxies", &self.trusted_proxies)
            .field("cors_allow_origins", &self.cors_allow_origins)
            .finish_non_exhaustive()
    }
}

/// Tells health checks, connections, and answers that go on for minutes that the service is to stop; a graceful stop would wait for them.
#[derive(Debug, Clone, Default)]
pub struct Stopping(watch::Sender<bool>);

impl Stopping {
    /// From now on they end, connections are closed with their next answer, and it is not ready. To be called before
    /// the server is stopped.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Whether that was said.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for that.
    pub(crate) async fn begun(&self) {
        // The sender is here, so this ends for no other reason.
        let _ = self.0.subscribe().wait_for(|begun| *begun).await;
    }
}

/// Knows whether requests can be served.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// Whether they can, now. Called for each health check: MUST be cheap, however often.
    async fn is_ready(&self) -> bool;
}

/// Where nodes keep their rate limits together: a server that speaks the protocol of Redis, and runs Lua.
#[derive(Debug, Clone)]
pub struct RateStore {
    /// Holds the password.
    pub(crate) url: SecretString,
    /// The longest wait for an answer; then this node's own limits hold.
    pub(crate) timeout: Duration,
}

impl RateStore {
    /// Says nothing of the URL, which may hold a password.
    pub(crate) const REFUSED: ConfigError =
        ConfigError { field: "rate_store", problem: "must be redis://:PASSWORD@HOST:6379/0" };

    /// The store at `url`: `redis://[USER][:PASSWORD]@HOST[:PORT][/DATABASE]`. `timeout` is more than zero.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, ConfigError> {
        let plain = url.starts_with("redis://") && redis::Client::open(url).is_ok();
        if plain && !timeout.is_zero() { Ok(Self { url: url.into(), timeout }) } else { Err(Self::REFUSED) }
    }
}

/// A setting out of its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{field} {problem}")]
pub struct ConfigError {
    /// Which one.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Addresses of a proxy that is trusted, in CIDR form: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyRange(IpRange);

impl ProxyRange {
    /// Whether `address` lies within. An IPv4 address mapped into IPv6 is the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(address)
    }
}

impl FromStr for ProxyRange {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let problem = "must be addresses or CIDR ranges such as 10.0.0.0/8";
        text.parse().map(Self).map_err(|_not_a_range| ConfigError { field: "trusted_proxies", problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> HttpConfig {
        HttpConfig::new("https://pix.example/", "0123456789abcdef")
    }

    #[test]
    fn the_defaults_are_within_their_bounds_and_urls_have_no_slash_at_the_end() {
        assert_eq!(config().check(), Ok(()));
        assert_eq!(config().public_url, "https://pix.example");
        assert_eq!(config().problem_base, "https://pix.example/errors");
    }

    #[test]
    fn a_setting_out_of_its_bounds_is_named() {
        for (config, field) in [
            (HttpConfig { callback_secret: "short".into(), ..config() }, "callback_secret"),
            (HttpConfig { callback_secret: "0123456789abcdef/".into(), ..config() }, "callback_secret"),
            (HttpConfig { rate_api_burst: 0, ..config() }, "rate_api_burst"),
            (HttpConfig { body_limit_bytes: MAX_BODY_LIMIT_BYTES + 1, ..config() }, "body_limit_bytes"),
            (HttpConfig { realm: "a\"b".into(), ..config() }, "realm"),
            (HttpConfig { rate_key_per_minute: Some(599), ..config() }, "rate_key_per_minute"),
            (HttpConfig { requests_at_once: MAX_AT_ONCE + 1, ..config() }, "requests_at_once"),
            (HttpConfig { requests_at_once_per_key: Some(0), ..config() }, "requests_at_once_per_key"),
            (HttpConfig { pay_streams: 0, ..config() }, "pay_streams"),
            (HttpConfig { connections_per_client: 0, ..config() }, "connections_per_client"),
            (HttpConfig { unread_deadline: Duration::from_micros(999), ..config() }, "unread_deadline"),
        ] {
            assert_eq!(config.check().unwrap_err().field, field);
        }
    }

    #[test]
    fn debug_never_shows_the_callback_secret() {
        assert!(!format!("{:?}", config()).contains("0123456789abcdef"));
    }

    #[test]
    fn the_store_of_shared_limits_is_named_by_a_url_whose_password_is_never_shown() {
        let store = |url: &str| RateStore::new(url, Duration::from_millis(10));
        for url in
            ["redis://127.0.0.1", "redis://:hunter2@[::1]:6380/3", "redis://pix:hunter2@cache.internal"]
        {
            let config = HttpConfig { rate_store: Some(store(url).unwrap()), ..config() };
            assert!(!format!("{config:?}").contains("hunter2"));
        }
        for url in [
            "",
            "hunter2",
            "rediss://:hunter2@a",
            "redis+unix:///hunter2",
            "redis://:hunter2@a:x",
            "redis://a/b",
        ] {
            let refused = store(url).unwrap_err();
            assert_eq!(refused.field, "rate_store", "{url}");
            assert!(!refused.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn a_range_of_proxies_that_is_none_is_named() {
        assert!("10.0.0.0/8".parse::<ProxyRange>().unwrap().contains("10.255.0.1".parse().unwrap()));
        assert_eq!("10.0.0.0/33".parse::<ProxyRange>().unwrap_err().field, "trusted_proxies");
    }
}
