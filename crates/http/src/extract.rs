//! What a handler is given: the request, who sends it, and its body, each read when it is asked for.
//!
//! In that order: nobody's body is read before it is known who sends it.

use std::future::{Ready, ready};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut};

use actix_web::dev::Payload;
use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use actix_web::web::{self, Bytes};
use actix_web::{FromRequest, HttpMessage, HttpRequest, HttpResponse};
use pix_domain::credentials::Scope;
use pix_domain::credentials::service::{AuthError, Caller};
use pix_domain::invalid::Invalid;
use pix_domain::text::IdempotencyKey;

use crate::body;
use crate::config::ProxyRange;
use crate::edge::Body;
use crate::error::ApiError;
use crate::json::Object;
use crate::limits::Admitted;
use crate::state::State;

/// What a handler answers.
pub(crate) type Answer = Result<HttpResponse, ApiError>;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// How many hops of `X-Forwarded-For` are looked at.
const MAX_FORWARDED_HOPS: usize = 32;

/// 200 with a JSON object.
pub(crate) fn ok(body: Object) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(body.end())
}

/// A request.
pub(crate) struct Call {
    pub(crate) http: HttpRequest,
    pub(crate) state: web::Data<State>,
    body: Body,
}

impl FromRequest for Call {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _taken_by_the_edge: &mut Payload) -> Self::Future {
        let state = request.app_data::<web::Data<State>>().cloned();
        let body = request.extensions().get::<Body>().cloned();
        let both = state.zip(body).ok_or_else(ApiError::internal);
        ready(both.map(|(state, body)| Self { http: request.clone(), state, body }))
    }
}

impl Call {
    /// The client's address.
    pub(crate) fn client(&self) -> IpAddr {
        let peer = self.http.peer_addr().map(|address| address.ip());
        client_ip(peer, self.http.headers(), &self.state.config.trusted_proxies)
    }

    /// Has it written down now and then that a key is used. Nobody waits for it.
    pub(crate) fn note_use(&self, public_id: &str) {
        let authenticator = self.state.services.authenticator.clone();
        if !authenticator.is_use_due(public_id) {
            return;
        }
        let public_id = public_id.to_owned();
        self.state.services.runtime.spawn(async move {
            if let Err(error) = authenticator.note_use(&public_id).await {
                tracing::warn!(%error, "the last use of a key could not be written down");
            }
        });
    }

    /// The body.
    pub(crate) async fn bytes(&mut self) -> Result<Bytes, ApiError> {
        let mut payload = self.body.0.borrow_mut().take();
        let read = body::read(&self.http, &mut payload, &self.state.config).await;
        self.body.0.replace(payload);
        read
    }

    /// The body as text.
    pub(crate) async fn text(&mut self) -> Result<String, ApiError> {
        let bytes = self.bytes().await?;
        body::text(&bytes).map(str::to_owned)
    }

    /// The `Idempotency-Key`.
    pub(crate) fn idempotency_key(&self) -> Result<Option<IdempotencyKey>, ApiError> {
        let mut values = self.http.headers().get_all(&IDEMPOTENCY_KEY);
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(ApiError::malformed("Idempotency-Key must not be repeated"));
        }
        let parsed = IdempotencyKey::parse(&String::from_utf8_lossy(value.as_bytes()));
        parsed.map(Some).map_err(|invalid| match invalid.code {
            // The header itself may be left out.
            Invalid::REQUIRED => {
                ApiError::invalid_field("Idempotency-Key", invalid.code, "Idempotency-Key must not be empty")
            }
            code => ApiError::invalid_field("Idempotency-Key", code, invalid.message),
        })
    }

    /// The variable part of the path, percent-decoded.
    pub(crate) async fn path_part(&self) -> String {
        web::Path::<String>::extract(&self.http).await.map(web::Path::into_inner).unwrap_or_default()
    }
}

/// A request of an integrator, and what its key must be good for.
pub(crate) struct TenantCall {
    call: Call,
    scope: Scope,
}

impl TenantCall {
    pub(crate) const fn new(call: Call, scope: Scope) -> Self {
        Self { call, scope }
    }

    /// Who calls.
    pub(crate) async fn caller(&self) -> Result<Caller, ApiError> {
        let (token, client) = (bearer(self.http.headers())?, self.client());
        let admitted = self.http.extensions_mut().remove::<Admitted>();
        let admitted = if let Some(Admitted(admitted)) = admitted {
            admitted
        } else {
            // One that does not open, of which the limits know no more.
            let authenticator = self.state.services.authenticator.clone();
            self.state.spawn(async move { authenticator.authenticate(&token, client).await }).await?
        };
        match admitted {
            Ok(caller) => {
                tracing::Span::current().record("integrator", tracing::field::display(caller.integrator_id));
                self.note_use(&caller.key_public_id);
                caller.require(self.scope)?;
                Ok(caller)
            }
            Err(error) => {
                if let AuthError::Token(_) | AuthError::IpNotAllowed = error {
                    // Tokens of a revoked key would each have a bucket of their own; so these count for the address.
                    self.state.limits.count_refused(&self.http, client)?;
                }
                Err(error.into())
            }
        }
    }
}

impl Deref for TenantCall {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl DerefMut for TenantCall {
    fn deref_mut(&mut self) -> &mut Call {
        &mut self.call
    }
}

/// The one `Authorization` header; two of them are refused, since readers differ on which counts.
pub(crate) fn authorization(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all(AUTHORIZATION);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::malformed("Authorization must not be repeated"));
    }
    Ok(Some(value.to_str().unwrap_or_default()))
}

/// What follows `scheme` in a header's value.
pub(crate) fn after_scheme<'a>(value: &'a str, scheme: &str) -> Option<&'a str> {
    let (given, rest) = value.trim().split_once(' ')?;
    given.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

fn bearer(headers: &HeaderMap) -> Result<String, ApiError> {
    let token = authorization(headers)?.and_then(|value| after_scheme(value, "Bearer"));
    token.filter(|token| !token.is_empty()).map(str::to_owned).ok_or_else(ApiError::no_token)
}

/// The client's address: the peer's, unless that is a proxy we trust, and then the right-most hop of
/// `X-Forwarded-For` that is not one. What stands left of it anybody could have written.
pub(crate) fn client_ip(peer: Option<IpAddr>, headers: &HeaderMap, trusted: &[ProxyRange]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
    let mut client = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).to_canonical();
    if !is_trusted(client) {
        return client;
    }
    // Bytes: a line that is no text is a line all the same, of which a proxy has written the end.
    let lines: Vec<&[u8]> = headers.get_all(&FORWARDED_FOR).map(HeaderValue::as_bytes).collect();
    let hops = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
    for hop in hops.take(MAX_FORWARDED_HOPS) {
        let hop = std::str::from_utf8(hop).unwrap_or_default();
        let Some(address) = hop_address(hop.trim()) else { break };
        client = address.to_canonical();
        if !is_trusted(client) {
            break;
        }
    }
    client
}

fn hop_address(hop: &str) -> Option<IpAddr> {
    let bare = hop.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(line));
        }
        let trusted: Vec<ProxyRange> =
            ["10.0.0.0/8", "fd00::/8"].map(|range| range.parse().unwrap()).to_vec();
        client_ip(Some(peer.parse().unwrap()), &headers, &trusted).to_string()
    }

    #[test]
    fn a_peer_that_is_no_trusted_proxy_is_the_client_whatever_it_says() {
        assert_eq!(client("203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(client("::ffff:203.0.113.9", &[]), "203.0.113.9");
    }

    #[test]
    fn behind_a_trusted_proxy_the_right_most_untrusted_hop_is_the_client() {
        assert_eq!(client("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(client("10.0.0.1", &["1.1.1.1, 198.51.100.1, 10.0.0.2"]), "198.51.100.1");
        assert_eq!(client("10.0.0.1", &["1.1.1.1", "198.51.100.1:4711", "10.0.0.2"]), "198.51.100.1");
        assert_eq!(client("fd00::1", &["[2001:db8::7]:443"]), "2001:db8::7");
        assert_eq!(client("10.0.0.1", &["2001:db8::7"]), "2001:db8::7");
    }

    #[test]
    fn a_hop_that_is_no_address_ends_the_search() {
        assert_eq!(client("10.0.0.1", &["198.51.100.1, unknown"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
    }

    #[test]
    fn a_line_that_is_no_text_is_not_passed_over() {
        let mut headers = HeaderMap::new();
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let peer = Some("10.0.0.1".parse().unwrap());
        headers.append(FORWARDED_FOR, HeaderValue::from_static("10.9.9.9"));
        headers.append(FORWARDED_FOR, HeaderValue::from_bytes(b"\xe9, 203.0.113.9").unwrap());
        assert_eq!(client_ip(peer, &headers, &trusted).to_string(), "203.0.113.9");
        headers.append(FORWARDED_FOR, HeaderValue::from_bytes(b"\xe9").unwrap());
        assert_eq!(client_ip(peer, &headers, &trusted).to_string(), "10.0.0.1");
    }

    #[test]
    fn a_scheme_is_told_apart_in_any_case() {
        assert_eq!(after_scheme("bearer  abc ", "Bearer"), Some("abc"));
        assert_eq!(after_scheme("Basic abc", "Bearer"), None);
        assert_eq!(after_scheme("Bearer", "Bearer"), None);
    }
}
