//! Rate limits: a bucket (GCRA) for each client of the token endpoint, for each access token of all the rest, and for
//! each key over all of its tokens.
//!
//! | Who is it taken from | Where |
//! |---|---|
//! | the address at the token endpoint; elsewhere the token, or the address of whoever has none that opens | [`ByClient`], in actix-governor |
//! | the key of the token | [`charge`], after that |
//! | both again, as all nodes count together, if they share a store | [`shared`], after that |
//!
//! The policy told in `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11) is the bucket itself: `q` requests, all
//! of which are there again after `w` seconds.

mod names;
mod seats;
mod shared;

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use actix_governor::{GovernorConfig, GovernorConfigBuilder, GovernorResult, KeyExtractor};
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Extensions, ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpRequest, HttpResponse, HttpResponseBuilder, ResponseError, web};
use governor::clock::{Clock, DefaultClock, QuantaInstant};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{NotUntil, Quota, RateLimiter};
use pix_domain::credentials::Claims;
use pix_domain::credentials::service::{AuthError, Authenticator, Caller};

use crate::config::{ConfigError, HttpConfig, ProxyRange};
use crate::error::ApiError;
use crate::extract;
use crate::state::State;
pub(crate) use names::{Name, Namer};
use seats::Seats;
pub(crate) use shared::Shared;

/// How often buckets that are full again are forgotten.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

const MINUTE: Duration = Duration::from_mins(1);

type Limit = GovernorConfig<ByClient, StateInformationMiddleware>;
type Buckets<K> = RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock, StateInformationMiddleware>;

/// Whole seconds, rounded up, and at least one.
fn seconds_up(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// An IPv4 address, or an IPv6 network of 64 bits, which is what one client has.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// Which bucket of a limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Seat {
    /// Of the holder of a token.
    Token(u32),
    /// Of a network.
    Network(u32),
}

/// What a bucket holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    name: &'static str,
    quota: u32,
    /// After how long one request is there again.
    period: Duration,
    window_seconds: u64,
}

impl Policy {
    fn new(name: &'static str, per_minute: u32, quota: u32) -> Self {
        let period = MINUTE.checked_div(per_minute).unwrap_or_default();
        Self { name, quota, period, window_seconds: seconds_up(period.saturating_mul(quota)) }
    }

    /// `"api";q=100;w=10`.
    fn told(&self) -> String {
        format!("\"{}\";q={};w={}", self.name, self.quota, self.window_seconds)
    }

    /// `"api";r=99;t=1`: what is left, and when all is there again; if nothing is left, when there is one again.
    fn told_left(&self, left: Left) -> String {
        let (remaining, seconds) = match left {
            Left::Some(remaining) => {
                (remaining, seconds_up(self.period.saturating_mul(self.quota.saturating_sub(remaining))))
            }
            Left::Nothing { wait_seconds } => (0, wait_seconds),
        };
        format!("\"{}\";r={remaining};t={seconds}", self.name)
    }
}

/// What is left in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// So many requests, after this one.
    Some(u32),
    /// Less than this one; enough after that time.
    Nothing {
        /// Rounded up.
        wait_seconds: u64,
    },
}

/// What is told about the limits of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told(Vec<(Policy, Left)>);

impl Told {
    /// The values of `RateLimit-Policy` and `RateLimit`.
    pub(crate) fn fields(&self) -> (String, String) {
        let list =
            |each: &dyn Fn(&(Policy, Left)) -> String| self.0.iter().map(each).collect::<Vec<_>>().join(", ");
        (list(&|(policy, _)| policy.told()), list(&|(policy, left)| policy.told_left(*left)))
    }

    /// After how long it may be tried again, if something was empty.
    fn wait_seconds(&self) -> Option<u64> {
        let waits = self.0.iter().filter_map(|(_, left)| match left {
            Left::Some(_) => None,
            Left::Nothing { wait_seconds } => Some(*wait_seconds),
        });
        waits.max()
    }

    /// The refusal, if something was empty; it is counted.
    fn refusal(&self) -> Option<ApiError> {
        let seconds = self.wait_seconds()?;
        for (policy, _) in self.0.iter().filter(|(_, left)| matches!(left, Left::Nothing { .. })) {
            metrics::counter!("pix_rate_limited_total", "limit" => policy.name).increment(1);
        }
        Some(ApiError::rate_limited(seconds))
    }
}

/// What is known of the limits of an answer's request; nothing if it has none.
pub(crate) fn told(extensions: &Extensions, wait_seconds: Option<u64>) -> Option<Told> {
    let told = extensions.get::<Told>().cloned();
    told.or_else(|| {
        // The bucket that was asked first was empty, and nothing else was asked.
        let charged = extensions.get::<Charged>()?;
        Some(Told(vec![(charged.policy, Left::Nothing { wait_seconds: wait_seconds? })]))
    })
}

/// Whose the request is: the key of its token, or the network of whoever has none that opens and is admitted.
pub(crate) fn holder(extensions: &Extensions) -> Option<Name> {
    // Whom the store doesn't admit has no part in what is the key's.
    let admitted = !matches!(extensions.get::<Admitted>(), Some(Admitted(Err(_))));
    extensions.get::<Charged>().map(|charged| charged.key.filter(|_| admitted).unwrap_or(charged.client))
}

/// Whom a request is charged to.
#[derive(Debug, Clone, Copy)]
struct Charged {
    policy: Policy,
    client: Name,
    /// The key of the token; none for a network.
    key: Option<Name>,
}

/// Tells whose bucket a request is taken from.
#[derive(Clone)]
pub(crate) struct ByClient {
    policy: Policy,
    /// Opens tokens; none if they don't count.
    authenticator: Option<Authenticator>,
    trusted: Arc<[ProxyRange]>,
    namer: Namer,
    tokens: Arc<Seats>,
    networks: Arc<Seats>,
}

impl ByClient {
    /// A token that doesn't open has no bucket: whoever makes tokens up would have as many as he likes.
    fn charged(&self, request: &ServiceRequest) -> Charged {
        if let Some(authenticator) = &self.authenticator
            && let Ok(Some(value)) = extract::authorization(request.headers())
            && let Some(token) = extract::after_scheme(value, "Bearer")
            && let Ok(claims) = authenticator.claims(token)
        {
            let key = self.namer.name("key", claims.key_public_id.as_bytes());
            let client = self.namer.name("token", token.as_bytes());
            request.extensions_mut().insert(claims);
            return Charged { policy: self.policy, client, key: Some(key) };
        }
        let peer = request.peer_addr().map(|address| address.ip());
        let client = self.network(extract::client_ip(peer, request.headers(), &self.trusted));
        Charged { policy: self.policy, client, key: None }
    }

    fn network(&self, client: IpAddr) -> Name {
        self.namer.name("network", network(client).to_string().as_bytes())
    }

    fn seat(&self, charged: &Charged) -> Seat {
        if charged.key.is_some() {
            Seat::Token(self.tokens.seat(charged.client))
        } else {
            Seat::Network(self.networks.seat(charged.client))
        }
    }
}

impl KeyExtractor for ByClient {
    type Key = Seat;
    type KeyExtractionError = ApiError;

    fn extract(&self, request: &ServiceRequest) -> Result<Seat, ApiError> {
        let charged = self.charged(request);
        request.extensions_mut().insert(charged);
        Ok(self.seat(&charged))
    }

    fn exceed_rate_limit_response(
        &self,
        negative: &NotUntil<QuantaInstant>,
        _response: HttpResponseBuilder,
    ) -> HttpResponse {
        let told = Told(vec![(self.policy, nothing(negative))]);
        told.refusal().unwrap_or_else(ApiError::internal).error_response()
    }
}

/// actix-governor rounds down, and so would tell clients to come too early.
fn nothing(negative: &NotUntil<QuantaInstant>) -> Left {
    let wait = negative.wait_time_from(DefaultClock::default().now());
    Left::Nothing { wait_seconds: seconds_up(wait) }
}

/// The cap over all tokens of a key.
struct Keys {
    policy: Policy,
    seats: Seats,
    buckets: Arc<Buckets<u32>>,
}

impl Keys {
    fn take(&self, key: Name) -> Left {
        match self.buckets.check_key(&self.seats.seat(key)) {
            Ok(snapshot) => Left::Some(snapshot.remaining_burst_capacity()),
            Err(negative) => nothing(&negative),
        }
    }
}

/// The limits of the whole service, shared by all of its threads.
pub(crate) struct Limits {
    pub(crate) token: Limit,
    pub(crate) api: Limit,
    clients: ByClient,
    keys: Keys,
    shared: Option<Shared>,
}

impl Limits {
    pub(crate) fn new(
        config: &HttpConfig,
        authenticator: &Authenticator,
        shared: Option<Shared>,
    ) -> Result<Self, ConfigError> {
        metrics::describe_counter!("pix_rate_limited_total", "Requests that a rate limit refused.");
        let trusted: Arc<[ProxyRange]> = config.trusted_proxies.clone().into();
        let namer = Namer::new(&config.callback_secret)?;
        let clients = |policy, authenticator| ByClient {
            policy,
            authenticator,
            trusted: trusted.clone(),
            namer: namer.clone(),
            tokens: Arc::new(Seats::new(config.rate_buckets)),
            networks: Arc::new(Seats::new(config.rate_buckets)),
        };
        let sign_ins = Policy::new("token", config.rate_token_per_minute, config.rate_token_per_minute);
        let api = Policy::new("api", config.rate_api_per_minute, config.rate_api_burst);
        let clients_of_api = clients(api, Some(authenticator.clone()));
        Ok(Self {
            token: limit(clients(sign_ins, None))?,
            api: limit(clients_of_api.clone())?,
            clients: clients_of_api,
            keys: keys(config)?,
            shared,
        })
    }

    /// Takes a request, of which its own bucket has `remaining` left, from the other buckets too.
    async fn take(&self, charged: Charged, remaining: u32) -> Told {
        let mut buckets = vec![(charged.policy, charged.client)];
        let mut own = vec![Left::Some(remaining)];
        if let Some(key) = charged.key {
            buckets.push((self.keys.policy, key));
            own.push(self.keys.take(key));
        }
        let policies = buckets.iter().map(|(policy, _)| *policy);
        let own = Told(policies.clone().zip(own).collect());
        match &self.shared {
            Some(shared) if own.wait_seconds().is_none() => match shared.take(&buckets).await {
                Some(left) => Told(policies.zip(left).collect()),
                None => own,
            },
            _ => own,
        }
    }

    /// Counts a request whose token opened, but is of no use, for the address it came from.
    pub(crate) fn count_refused(&self, request: &HttpRequest, client: IpAddr) -> Result<(), ApiError> {
        let mut extensions = request.extensions_mut();
        if extensions.get::<Charged>().is_none_or(|charged| charged.key.is_none()) {
            // It was taken from there already.
            return Ok(());
        }
        let seat = Seat::Network(self.clients.networks.seat(self.clients.network(client)));
        let Err(negative) = self.api.limiter().check_key(&seat) else { return Ok(()) };
        let told = Told(vec![(self.clients.policy, nothing(&negative))]);
        let refusal = told.refusal();
        extensions.insert(told);
        refusal.map_or(Ok(()), Err)
    }

    /// Forgets full buckets from time to time, for as long as these limits are in use.
    pub(crate) fn prune(&self) -> impl Future<Output = ()> + Send + 'static {
        let limiters: [Weak<Buckets<Seat>>; 2] =
            [Arc::downgrade(&self.token.limiter()), Arc::downgrade(&self.api.limiter())];
        let keys = Arc::downgrade(&self.keys.buckets);
        async move {
            loop {
                tokio::time::sleep(PRUNE_INTERVAL).await;
                let Some(keys) = keys.upgrade() else { return };
                keys.retain_recent();
                keys.shrink_to_fit();
                for limiter in limiters.iter().filter_map(Weak::upgrade) {
                    limiter.retain_recent();
                    limiter.shrink_to_fit();
                }
            }
        }
    }
}

const TOO_SMALL: ConfigError = ConfigError { field: "rate limits", problem: "must be at least 1" };

fn limit(clients: ByClient) -> Result<Limit, ConfigError> {
    let Policy { period, quota, .. } = clients.policy;
    GovernorConfigBuilder::default()
        .period(period)
        .burst_size(quota)
        .key_extractor(clients)
        .use_headers()
        .finish()
        .ok_or(TOO_SMALL)
}

/// The bucket of a key is full again after as long as that of a token.
fn keys(config: &HttpConfig) -> Result<Keys, ConfigError> {
    let per_minute = config.rate_key_per_minute();
    let burst = u64::from(config.rate_api_burst) * u64::from(per_minute);
    let burst = burst.div_ceil(u64::from(config.rate_api_per_minute.max(1)));
    let policy = Policy::new("key", per_minute, u32::try_from(burst).unwrap_or(u32::MAX));
    let quota = Quota::with_period(policy.period).ok_or(TOO_SMALL)?;
    let quota = quota.allow_burst(NonZeroU32::new(policy.quota).ok_or(TOO_SMALL)?);
    let buckets = RateLimiter::keyed(quota).with_middleware::<StateInformationMiddleware>();
    Ok(Keys { policy, seats: Seats::new(config.rate_buckets), buckets: Arc::new(buckets) })
}

/// Who holds the token of a request, or why it is of no use.
#[derive(Clone)]
pub(crate) struct Admitted(pub(crate) Result<Caller, AuthError>);

/// The middleware behind actix-governor: lets the caller in, and asks the buckets that actix-governor doesn't know.
pub(crate) async fn charge(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let state = request.app_data::<web::Data<State>>().cloned();
    let charged = request.extensions().get::<Charged>().copied();
    let remaining = match request.extensions().get::<GovernorResult<ApiError>>() {
        Some(GovernorResult::Ok { remaining: Some(remaining), .. }) => Some(*remaining),
        _ => None,
    };
    if let (Some(state), Some(mut charged), Some(remaining)) = (state, charged, remaining) {
        let claims = request.extensions_mut().remove::<Claims>();
        if let Some(claims) = claims {
            let (peer, trusted) = (request.peer_addr().map(|peer| peer.ip()), &state.config.trusted_proxies);
            let client = extract::client_ip(peer, request.headers(), trusted);
            let authenticator = state.services.authenticator.clone();
            match state.spawn(async move { authenticator.admit(&claims, client).await }).await {
                Ok(admitted) => {
                    // Who holds a token of no use any more must not use up what is the key's.
                    charged.key = charged.key.filter(|_| admitted.is_ok());
                    request.extensions_mut().insert(Admitted(admitted));
                }
                Err(error) => return Ok(request.into_response(error.error_response())),
            }
        }
        let told = state.limits.take(charged, remaining).await;
        let refusal = told.refusal();
        request.extensions_mut().insert(told);
        if let Some(refusal) = refusal {
            return Ok(request.into_response(refusal.error_response()));
        }
    }
    Ok(next.call(request).await?.map_into_boxed_body())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_client_is_its_network_and_an_ipv4_client_its_address() {
        let of = |address: &str| network(address.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn the_policy_told_is_the_bucket_and_times_are_rounded_up() {
        let policy = Policy::new("token", 20, 20);
        let told = |left| Told(vec![(policy, left)]).fields();
        let ours = "\"token\";q=20;w=60".to_owned();
        assert_eq!(told(Left::Some(19)), (ours.clone(), "\"token\";r=19;t=3".into()));
        assert_eq!(told(Left::Some(0)).1, "\"token\";r=0;t=60");
        assert_eq!(told(Left::Nothing { wait_seconds: 3 }), (ours, "\"token\";r=0;t=3".into()));
        assert_eq!(Policy::new("api", 7, 3).told(), "\"api\";q=3;w=26");
        assert_eq!([1, 999, 1000, 1001].map(|ms| seconds_up(Duration::from_millis(ms))), [1, 1, 1, 2]);
        assert_eq!(seconds_up(Duration::ZERO), 1);
    }

    #[test]
    fn several_limits_are_a_list_and_the_longest_wait_counts() {
        let (one, two) = (Policy::new("api", 600, 100), Policy::new("key", 2400, 400));
        let told = Told(vec![(one, Left::Some(99)), (two, Left::Nothing { wait_seconds: 2 })]);
        assert_eq!(told.wait_seconds(), Some(2));
        assert_eq!(
            told.fields(),
            ("\"api\";q=100;w=10, \"key\";q=400;w=10".into(), "\"api\";r=99;t=1, \"key\";r=0;t=2".into())
        );
    }
}
