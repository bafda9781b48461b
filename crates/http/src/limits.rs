//! Rate limits, by actix-governor: a bucket (GCRA) for each client of the token endpoint, and for each access token of
//! all the rest.
//!
//! The policy told in `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers) is the bucket itself: `q` requests, all
//! of which are there again after `w` seconds.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use actix_governor::{GovernorConfig, GovernorConfigBuilder, KeyExtractor};
use actix_web::dev::ServiceRequest;
use actix_web::{HttpMessage, HttpResponse, HttpResponseBuilder, ResponseError};
use governor::NotUntil;
use governor::clock::{Clock, DefaultClock, QuantaInstant};
use governor::middleware::StateInformationMiddleware;

use crate::config::{ConfigError, HttpConfig, ProxyRange};
use crate::error::ApiError;
use crate::extract;

/// How often buckets that are full again are forgotten.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

const MINUTE: Duration = Duration::from_mins(1);

type Limit = GovernorConfig<ByClient, StateInformationMiddleware>;
type Limiter = governor::RateLimiter<
    Key,
    governor::state::keyed::DefaultKeyedStateStore<Key>,
    DefaultClock,
    StateInformationMiddleware,
>;

/// Whose bucket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The holder of a token, by a keyed hash of it.
    Token(u64),
    /// An IPv4 address, or an IPv6 network of 64 bits, which is what one client has.
    Network(IpAddr),
}

fn network(address: IpAddr) -> Key {
    Key::Network(match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    })
}

/// What a bucket holds, as it is told to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    name: &'static str,
    quota: u32,
    window_seconds: u64,
}

impl Policy {
    /// `"api";q=100;w=10`.
    pub(crate) fn policy(&self) -> String {
        format!("\"{}\";q={};w={}", self.name, self.quota, self.window_seconds)
    }

    /// `"api";r=99;t=1`: what is left, and when all is there again.
    pub(crate) fn state(&self, remaining: u32) -> String {
        let used = u64::from(self.quota.saturating_sub(remaining));
        let seconds = used.saturating_mul(self.window_seconds).div_ceil(u64::from(self.quota.max(1)));
        format!("\"{}\";r={remaining};t={seconds}", self.name)
    }

    /// `"api";r=0;t=1`: nothing is left, and when there is one again.
    pub(crate) fn exhausted(&self, retry_after_seconds: u64) -> String {
        format!("\"{}\";r=0;t={retry_after_seconds}", self.name)
    }
}

/// Tells whose bucket a request is taken from.
#[derive(Clone)]
pub(crate) struct ByClient {
    policy: Policy,
    by_token: bool,
    trusted: Arc<[ProxyRange]>,
    hasher: RandomState,
}

impl KeyExtractor for ByClient {
    type Key = Key;
    type KeyExtractionError = ApiError;

    fn extract(&self, request: &ServiceRequest) -> Result<Key, ApiError> {
        request.extensions_mut().insert(self.policy);
        if self.by_token
            && let Ok(Some(value)) = extract::authorization(request.headers())
            && let Some(token) = extract::after_scheme(value, "Bearer")
        {
            return Ok(Key::Token(self.hasher.hash_one(token)));
        }
        let peer = request.peer_addr().map(|address| address.ip());
        Ok(network(extract::client_ip(peer, request.headers(), &self.trusted)))
    }

    fn exceed_rate_limit_response(
        &self,
        negative: &NotUntil<QuantaInstant>,
        _response: HttpResponseBuilder,
    ) -> HttpResponse {
        refused(negative).error_response()
    }
}

fn refused(negative: &NotUntil<QuantaInstant>) -> ApiError {
    let wait = negative.wait_time_from(DefaultClock::default().now());
    let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    ApiError::rate_limited(seconds.max(1))
}

/// The limits of the whole service, shared by all of its threads.
pub(crate) struct Limits {
    pub(crate) token: Limit,
    pub(crate) api: Limit,
}

impl Limits {
    pub(crate) fn new(config: &HttpConfig) -> Result<Self, ConfigError> {
        let trusted: Arc<[ProxyRange]> = config.trusted_proxies.clone().into();
        let limit = |name, per_minute: u32, quota: u32, by_token| {
            let period = MINUTE.checked_div(per_minute).unwrap_or_default();
            let window = period.saturating_mul(quota);
            let window_seconds = window.as_secs().saturating_add(u64::from(window.subsec_nanos() > 0)).max(1);
            let policy = Policy { name, quota, window_seconds };
            let hasher = RandomState::new();
            GovernorConfigBuilder::default()
                .period(period)
                .burst_size(quota)
                .key_extractor(ByClient { policy, by_token, trusted: trusted.clone(), hasher })
                .use_headers()
                .finish()
                .ok_or(ConfigError { field: "rate limits", problem: "must be at least 1" })
        };
        Ok(Self {
            token: limit("token", config.rate_token_per_minute, config.rate_token_per_minute, false)?,
            api: limit("api", config.rate_api_per_minute, config.rate_api_burst, true)?,
        })
    }

    /// Counts a request with a token that is none for the address it came from.
    pub(crate) fn count_refused(&self, client: IpAddr) -> Result<(), ApiError> {
        match self.api.limiter().check_key(&network(client)) {
            Ok(_) => Ok(()),
            Err(negative) => Err(refused(&negative)),
        }
    }

    /// Forgets full buckets from time to time, for as long as these limits are in use.
    pub(crate) fn prune(&self) -> impl Future<Output = ()> + Send + 'static {
        let limiters: [Weak<Limiter>; 2] =
            [Arc::downgrade(&self.token.limiter()), Arc::downgrade(&self.api.limiter())];
        async move {
            loop {
                tokio::time::sleep(PRUNE_INTERVAL).await;
                for limiter in &limiters {
                    let Some(limiter) = limiter.upgrade() else { return };
                    limiter.retain_recent();
                    limiter.shrink_to_fit();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn limits() -> Limits {
        Limits::new(&HttpConfig::new("https://pix.example", "0123456789abcdef")).unwrap()
    }

    fn extractor(by_token: bool) -> ByClient {
        let policy = Policy { name: "api", quota: 100, window_seconds: 10 };
        ByClient { policy, by_token, trusted: Arc::from([]), hasher: RandomState::new() }
    }

    fn key(extractor: &ByClient, peer: &str, authorization: Option<&str>) -> Key {
        let mut request =
            TestRequest::default().peer_addr(std::net::SocketAddr::new(peer.parse().unwrap(), 1));
        if let Some(value) = authorization {
            request = request.insert_header(("Authorization", value));
        }
        extractor.extract(&request.to_srv_request()).unwrap()
    }

    #[test]
    fn an_ipv6_client_is_its_network_and_an_ipv4_client_its_address() {
        let tokens = extractor(true);
        assert_eq!(key(&tokens, "2001:db8::1", None), key(&tokens, "2001:db8::ffff", None));
        assert_ne!(key(&tokens, "2001:db8::1", None), key(&tokens, "2001:db8:0:1::1", None));
        assert_ne!(key(&tokens, "192.0.2.1", None), key(&tokens, "192.0.2.2", None));
    }

    #[test]
    fn a_token_has_a_bucket_of_its_own_wherever_it_comes_from() {
        let tokens = extractor(true);
        let of = |peer, value| key(&tokens, peer, Some(value));
        assert_eq!(of("192.0.2.1", "Bearer a"), of("192.0.2.2", "bearer a"));
        assert_ne!(of("192.0.2.1", "Bearer a"), of("192.0.2.1", "Bearer b"));
        assert_eq!(of("192.0.2.1", "Basic a"), key(&tokens, "192.0.2.1", None));
        let addresses = extractor(false);
        assert_eq!(key(&addresses, "192.0.2.1", Some("Bearer a")), key(&addresses, "192.0.2.1", None));
    }

    #[test]
    fn the_policy_told_is_the_bucket() {
        let limits = limits();
        assert_eq!(limits.token.limiter().len(), 0);
        let policy = Policy { name: "token", quota: 20, window_seconds: 60 };
        assert_eq!(policy.policy(), "\"token\";q=20;w=60");
        assert_eq!(policy.state(19), "\"token\";r=19;t=3");
        assert_eq!(policy.state(0), "\"token\";r=0;t=60");
        assert_eq!(policy.exhausted(3), "\"token\";r=0;t=3");
    }

    #[test]
    fn refused_tokens_exhaust_the_bucket_of_their_address() {
        let limits = limits();
        let client = "192.0.2.1".parse().unwrap();
        let refused = (0..=100).find(|_| limits.count_refused(client).is_err());
        assert!(refused.is_some());
        assert!(limits.count_refused("192.0.2.2".parse().unwrap()).is_ok());
    }
}
