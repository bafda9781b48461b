//! The settings of the classic v2 adapter and their bounds. It owns which of them are acceptable, and must never know
//! what is done with them.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use pix_domain::text::PostbackUrl;
use pix_domain::time::Clock;
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

use crate::http::HttpClientError;

/// How long reaching the provider may take, by default.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Bounds of [`ClassicV2Config::connect_timeout`].
pub const CONNECT_TIMEOUT_BOUNDS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(30);
/// How long one call may take, by default.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Bounds of [`ClassicV2Config::call_timeout`].
pub const CALL_TIMEOUT_BOUNDS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(2);
/// How long asking for a token may take, by default.
pub const DEFAULT_TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bounds of [`ClassicV2Config::token_timeout`].
pub const TOKEN_TIMEOUT_BOUNDS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_mins(1);
/// How long a call waits for its turn, by default.
pub const DEFAULT_QUEUE_WAIT: Duration = Duration::from_secs(2);
/// The longest [`ClassicV2Config::queue_wait`].
pub const MAX_QUEUE_WAIT: Duration = Duration::from_secs(30);
/// How many payments and refunds are sent at once, by default.
pub const MAX_SENDS: usize = 64;
/// How many charges are made at once, by default.
pub const MAX_CHARGES: usize = 64;
/// How many questions are asked at once, by default.
pub const MAX_CONSULTS: usize = 32;
/// The most calls of one class that may be made at once.
pub const MAX_CONCURRENT_CALLS: usize = 4_096;

/// How the classic v2 provider is reached. Make one with [`ClassicV2Config::new`], then change what differs.
#[derive(Clone)]
pub struct ClassicV2Config {
    /// What the provider is called in logs and error texts; `provider` by default.
    pub name: String,
    /// Where it is: scheme, host and perhaps a path before `/v2`. Must be `https` unless the host is loopback.
    pub base_url: String,
    /// Lets an `http` URL in whose host is not loopback. Off by default: credentials and documents travel readable.
    pub allow_http: bool,
    /// Our client id there.
    pub client_id: String,
    /// Its secret.
    pub client_secret: SecretString,
    /// The URL the provider calls back, secret path included, sent as it is with every request; none by default.
    pub callback_base: Option<String>,
    /// Whom we trust and what we show over TLS.
    pub tls: ClientTls,
    /// How long reaching the host may take, TLS included; [`DEFAULT_CONNECT_TIMEOUT`] by default.
    pub connect_timeout: Duration,
    /// How long one call may take, from the first step to the last byte; [`DEFAULT_CALL_TIMEOUT`] by default.
    pub call_timeout: Duration,
    /// How long asking for a token may take; [`DEFAULT_TOKEN_TIMEOUT`] by default.
    pub token_timeout: Duration,
    /// How long a call waits for its turn when too many are under way; [`DEFAULT_QUEUE_WAIT`] by default.
    pub queue_wait: Duration,
    /// How many payments and refunds are sent at once; [`MAX_SENDS`] by default.
    pub max_sends: usize,
    /// How many charges are made at once; [`MAX_CHARGES`] by default.
    pub max_charges: usize,
    /// How many questions are asked at once; [`MAX_CONSULTS`] by default.
    pub max_consults: usize,
    /// After how long "not known" proves that the provider never took a payment; `None`, never, by default.
    ///
    /// The contract says how to ask by the provider's id, which is not known of what got no answer; asking by our
    /// `external_id` is an extension. So set it only for a provider that documents looking a payment up by
    /// `external_id`, and that it finds one from the moment it has taken the request: then all that is left to wait
    /// for is a request that is still under way, and it must be at least [`ClassicV2Config::longest_operation`].
    pub not_found_is_proof_after: Option<Duration>,
    /// The clock on the wall. Nothing is sent when, by it or by the process's own, too much time is over since an operation began:
    /// the process's stands still while its machine is suspended, and other nodes go on. Without one, which is the default, its own
    /// alone says.
    pub clock: Option<Arc<dyn Clock>>,
    /// What the header `traceparent` (W3C Trace Context) says of a call that is made now; none by default.
    pub traceparent: fn() -> Option<String>,
    /// What `tracestate` says beside it; none by default.
    pub tracestate: fn() -> Option<String>,
}

/// Whom a client trusts and what it shows. By default: the certificate authorities of the system, and nothing.
#[derive(Debug, Clone, Default)]
pub struct ClientTls {
    /// The only certificate authorities that may vouch for the host, as PEM.
    pub authorities_pem: Option<String>,
    /// The certificate, those that vouch for it, and its key that the host is shown (mutual TLS), as PEM.
    pub identity_pem: Option<SecretString>,
}

/// A setting that is not acceptable, as a sentence. It never repeats the value: some of them are secrets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{setting} of the settlement provider {problem}")]
pub struct ConfigError {
    /// The field of [`ClassicV2Config`] or of [`BreakerConfig`](crate::BreakerConfig).
    pub setting: &'static str,
    /// What is wrong and what to do.
    pub problem: String,
}

/// Why a provider can't be made.
#[derive(Debug, Error)]
pub enum SetupError {
    /// A setting is not acceptable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The HTTP client can't be built.
    #[error(transparent)]
    Client(#[from] HttpClientError),
}

impl ClassicV2Config {
    /// The settings of a provider, with the default of everything else.
    pub fn new(
        base_url: impl Into<String>,
        client_id: impl Into<String>,
        client_secret: SecretString,
    ) -> Self {
        Self {
            name: "provider".to_owned(),
            base_url: base_url.into(),
            allow_http: false,
            client_id: client_id.into(),
            client_secret,
            callback_base: None,
            tls: ClientTls::default(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            call_timeout: DEFAULT_CALL_TIMEOUT,
            token_timeout: DEFAULT_TOKEN_TIMEOUT,
            queue_wait: DEFAULT_QUEUE_WAIT,
            max_sends: MAX_SENDS,
            max_charges: MAX_CHARGES,
            max_consults: MAX_CONSULTS,
            not_found_is_proof_after: None,
            clock: None,
            traceparent: || None,
            tracestate: || None,
        }
    }

    /// Checks every setting; tells the first that is not acceptable.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.base()?;
        self.check_identity()?;
        self.check_limits()
    }

    /// The longest an operation can take: its turn, a token, the call, and both again when the token was refused.
    pub fn longest_operation(&self) -> Duration {
        let once = self.token_timeout.saturating_add(self.call_timeout);
        self.queue_wait.saturating_add(once).saturating_add(once)
    }

    /// What of the callback URL nobody else may know: its last path segment.
    pub(crate) fn callback_secret(&self) -> Option<String> {
        let url = Url::parse(self.callback_base.as_deref()?).ok()?;
        let secret = url.path_segments()?.rfind(|segment| !segment.is_empty())?;
        Some(secret.to_owned())
    }

    /// The URL that paths are appended to.
    pub(crate) fn base(&self) -> Result<Url, ConfigError> {
        let refuse = |problem: &str| refuse("base_url", problem);
        let Ok(url) = Url::parse(&self.base_url) else {
            return refuse("is not a URL; write it as https://provider.example.com");
        };
        if !url.has_host() || !matches!(url.scheme(), "http" | "https") {
            return refuse("must start with https:// and name a host");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("must not hold credentials; set client_id and client_secret");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("must not have a query or a fragment; remove what follows the path");
        }
        if url.scheme() == "http" && !self.allow_http && !is_loopback(&url) {
            return refuse(
                "must start with https://, since its host is not loopback; set allow_http to send credentials unencrypted",
            );
        }
        Ok(url)
    }

    fn check_identity(&self) -> Result<(), ConfigError> {
        let visible = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible(&self.name) || self.name.len() > 64 {
            return refuse("name", "must be 1 to 64 visible ASCII characters; it is shown in logs");
        }
        // RFC 7617 §2: the user name of Basic credentials can't hold a colon.
        if !visible(&self.client_id) || self.client_id.contains(':') {
            return refuse("client_id", "must be visible ASCII characters without a colon; set it");
        }
        if !visible(self.client_secret.expose_secret()) {
            return refuse("client_secret", "must be visible ASCII characters; set it");
        }
        match &self.callback_base {
            Some(url) if PostbackUrl::parse(url).is_err() => refuse(
                "callback_base",
                "must be an absolute URL without user information; write it as https://gateway.example.com/callbacks/…",
            ),
            _ => Ok(()),
        }
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        within("connect_timeout", self.connect_timeout, &CONNECT_TIMEOUT_BOUNDS)?;
        within("call_timeout", self.call_timeout, &CALL_TIMEOUT_BOUNDS)?;
        within("token_timeout", self.token_timeout, &TOKEN_TIMEOUT_BOUNDS)?;
        within("queue_wait", self.queue_wait, &(Duration::ZERO..=MAX_QUEUE_WAIT))?;
        for (setting, calls) in [
            ("max_sends", self.max_sends),
            ("max_charges", self.max_charges),
            ("max_consults", self.max_consults),
        ] {
            if !(1..=MAX_CONCURRENT_CALLS).contains(&calls) {
                return refuse(setting, &format!("must be from 1 to {MAX_CONCURRENT_CALLS}"));
            }
        }
        let longest = self.longest_operation();
        match self.not_found_is_proof_after {
            Some(after) if after < longest => refuse(
                "not_found_is_proof_after",
                &format!(
                    "must be at least {longest:?}, which a call may take; raise it or lower the timeouts"
                ),
            ),
            _ => Ok(()),
        }
    }
}

/// Without the secret, and without the callback URL, whose path is one.
impl fmt::Debug for ClassicV2Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassicV2Config")
            .field("name", &self.name)
            .field("allow_http", &self.allow_http)
            .field("connect_timeout", &self.connect_timeout)
            .field("call_timeout", &self.call_timeout)
            .field("token_timeout", &self.token_timeout)
            .field("not_found_is_proof_after", &self.not_found_is_proof_after)
            .finish_non_exhaustive()
    }
}

fn refuse<T>(setting: &'static str, problem: &str) -> Result<T, ConfigError> {
    Err(ConfigError { setting, problem: problem.to_owned() })
}

fn within(
    setting: &'static str,
    value: Duration,
    bounds: &RangeInclusive<Duration>,
) -> Result<(), ConfigError> {
    if bounds.contains(&value) {
        return Ok(());
    }
    refuse(setting, &format!("must be from {:?} to {:?}", bounds.start(), bounds.end()))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ClassicV2Config {
        ClassicV2Config::new("https://provider.example.com", "id", "hunter2hunter2".into())
    }

    fn refused(change: impl FnOnce(&mut ClassicV2Config)) -> &'static str {
        let mut config = config();
        change(&mut config);
        let error = config.validate().unwrap_err();
        let told = format!("{error} {error:?} {config:?}");
        assert!(!told.contains("hunter2") && !told.contains("s3cret"), "{told}");
        error.setting
    }

    #[test]
    fn the_defaults_are_acceptable_and_take_not_known_for_no_proof() {
        config().validate().unwrap();
        assert_eq!(config().not_found_is_proof_after, None);
    }

    #[test]
    fn only_loopback_is_reached_without_tls_unless_allowed() {
        for base in
            ["http://127.0.0.1:9090", "http://127.8.8.8", "http://[::1]:9090/", "http://localhost:1/x"]
        {
            let config = ClassicV2Config { base_url: base.into(), ..config() };
            config.validate().unwrap();
        }
        let far = || ClassicV2Config { base_url: "http://10.0.0.1/".into(), ..config() };
        assert_eq!(far().validate().unwrap_err().setting, "base_url");
        ClassicV2Config { allow_http: true, ..far() }.validate().unwrap();
    }

    #[test]
    fn unusable_settings_are_named() {
        for base in [
            "",
            "provider.example.com",
            "ftp://provider.example.com",
            "https://u:s3cret@provider.example.com",
            "https://provider.example.com/?token=s3cret",
            "https://provider.example.com/#s3cret",
            "http://localhost.example.com",
            "unix:/s3cret",
        ] {
            assert_eq!(refused(|config| config.base_url = base.into()), "base_url", "{base}");
        }
        assert_eq!(refused(|config| config.client_id = "a:b".into()), "client_id");
        assert_eq!(refused(|config| config.client_secret = "".into()), "client_secret");
        assert_eq!(refused(|config| config.callback_base = Some("/s3cret".into())), "callback_base");
        assert_eq!(refused(|config| config.name = "a b".into()), "name");
        assert_eq!(refused(|config| config.call_timeout = Duration::from_millis(99)), "call_timeout");
        assert_eq!(refused(|config| config.call_timeout = Duration::from_secs(121)), "call_timeout");
        assert_eq!(refused(|config| config.connect_timeout = Duration::ZERO), "connect_timeout");
        assert_eq!(refused(|config| config.token_timeout = Duration::ZERO), "token_timeout");
        assert_eq!(refused(|config| config.queue_wait = Duration::from_secs(31)), "queue_wait");
        assert_eq!(refused(|config| config.max_sends = 0), "max_sends");
        assert_eq!(refused(|config| config.max_charges = 0), "max_charges");
        assert_eq!(refused(|config| config.max_consults = usize::MAX), "max_consults");
    }

    #[test]
    fn the_secret_of_the_callback_url_is_its_last_segment() {
        let secret =
            |url: &str| ClassicV2Config { callback_base: Some(url.into()), ..config() }.callback_secret();
        let expected = Some("s3cret".to_owned());
        assert_eq!(secret("https://gateway.example.com/callbacks/s3cret"), expected);
        assert_eq!(secret("https://gateway.example.com/s3cret/"), expected);
        assert_eq!(secret("https://gateway.example.com/callbacks/s3cret?x=1"), expected);
        assert_eq!(secret("https://gateway.example.com"), None);
        assert_eq!(config().callback_secret(), None);
    }

    #[test]
    fn not_known_is_no_proof_while_a_call_may_still_be_under_way() {
        let short = Some(Duration::from_secs(51));
        assert_eq!(refused(|config| config.not_found_is_proof_after = short), "not_found_is_proof_after");
        let long = config().longest_operation();
        ClassicV2Config { not_found_is_proof_after: Some(long), ..config() }.validate().unwrap();
    }
}
