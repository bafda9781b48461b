//! What every request goes through.
//!
//! | Request | Must |
//! |---|---|
//! | any | name a host of ours: a name that somebody else's server of names leads here is refused (DNS rebinding) |
//! | any but the sign-in | have the cookie of a live session, or is sent to the sign-in |
//! | POST | have an `Origin` that is this host, which browsers always send |
//! | POST, but the sign-in | have the session's token among its fields |
//!
//! Fields of a form are had through [`Posted`] alone, which looks at all of it; there is no other way to what a page does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::uri::Authority;
use actix_web::middleware::Next;
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse, ResponseError, web};
use pix_domain::error::StoreError;
use std::future::{Ready, ready};
use subtle::ConstantTimeEq;
use thiserror::Error as ThisError;

use crate::sessions::{Notice, Session};
use crate::{Console, Mount, PATH, Refusal, page};

/// The cookie's name.
const COOKIE: &str = "pix_console";
/// The name of the field with the session's token.
pub(crate) const CSRF_FIELD: &str = "csrf";
/// The parameter of a page that loads itself again, which is no use of the session.
pub(crate) const AUTO: &str = "auto";
/// The most bytes of a form.
pub(crate) const MAX_FORM_BYTES: usize = 4 * 1024;

/// What every answer has: OWASP Secure Headers. The policy of what a page may do is [`page::POLICY`]. With `no-referrer`
/// browsers would send forms with an `Origin` of null.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];

/// Why there is no page.
#[derive(Debug, ThisError)]
pub(crate) enum Failed {
    /// Nobody is signed in.
    #[error("sign in first")]
    SignIn,
    /// There is no such thing.
    #[error("there is no such page or record")]
    NotFound,
    /// The request is not one that a page of ours makes.
    #[error("{0}")]
    Forged(&'static str),
    /// A value can't be read.
    #[error("{0}")]
    Wrong(&'static str),
    /// The operating system gave no random bytes.
    #[error("nobody can sign in just now: the operating system gave no random bytes")]
    NoRandomness,
    /// The store failed.
    #[error("the database can't be read just now")]
    Store(#[from] StoreError),
}

impl ResponseError for Failed {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::SignIn => StatusCode::SEE_OTHER,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Forged(_) => StatusCode::FORBIDDEN,
            Self::Wrong(_) => StatusCode::BAD_REQUEST,
            Self::NoRandomness | Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        match self {
            Self::SignIn => see(&format!("{PATH}/sign-in")),
            Self::Store(error) => {
                tracing::warn!(%error, "a page of the console can't be shown");
                page::plain(self.status_code(), &self.to_string())
            }
            _ => page::plain(self.status_code(), &self.to_string()),
        }
    }
}

/// An answer that leads to another page.
pub(crate) fn see(place: &str) -> HttpResponse {
    HttpResponse::SeeOther().insert_header((header::LOCATION, place)).finish()
}

/// The middleware around all routes.
pub(crate) async fn guard(
    mount: web::Data<Mount>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let refused = match mount.0.get() {
        None => Some(page::plain(StatusCode::SERVICE_UNAVAILABLE, "The gateway is starting.")),
        Some(None) => Some(page::plain(StatusCode::NOT_FOUND, OFF)),
        Some(Some(console)) => {
            let ours = host(request.headers()).is_some_and(|host| is_ours(host, &console.config.hosts));
            (!ours).then(|| page::plain(StatusCode::MISDIRECTED_REQUEST, STRANGE_HOST))
        }
    };
    let mut answer = match refused {
        Some(refused) => request.into_response(refused),
        None => next.call(request).await?.map_into_boxed_body(),
    };
    let headers = answer.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(policy) = HeaderValue::from_str(&page::POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(answer)
}

/// What is said while it is off.
const OFF: &str = "The console is off. PIX_CONSOLE_OPERATORS turns it on: \
    `pix-gateway operator token NAME` prints a token and the line for that setting.";

const STRANGE_HOST: &str = "The console is not reached by this name. Use localhost or an address, \
    or add the name to PIX_CONSOLE_HOSTS.";

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

/// An address is nobody's to lead elsewhere; a name is, unless it is known.
fn is_ours(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let known = || std::iter::once("localhost").chain(names.iter().map(String::as_str));
    !host.contains('@')
        && (address.parse::<IpAddr>().is_ok() || known().any(|known| known.eq_ignore_ascii_case(name)))
}

/// Refuses what another site made the browser send.
fn check_origin(headers: &HeaderMap) -> Result<(), Failed> {
    const FOREIGN: Failed = Failed::Forged("This request came from another page than the console's.");
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).ok_or(FOREIGN)?;
    let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).ok_or(FOREIGN)?;
    let is_own = host(headers).is_some_and(|host| host.eq_ignore_ascii_case(place));
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if is_own && site.is_none_or(|site| site == b"same-origin") { Ok(()) } else { Err(FOREIGN) }
}

/// The value of our cookie.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).filter_map(|field| field.to_str().ok());
    all.flat_map(|field| field.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// The cookie of a session, as it is set; of `None`, as it is taken away.
pub(crate) fn set_cookie(console: &Console, id: Option<&str>) -> String {
    let secure = if console.config.is_encrypted { "; Secure" } else { "" };
    let end = if id.is_none() { "; Max-Age=0" } else { "" };
    format!("{COOKIE}={}; Path={PATH}; HttpOnly; SameSite=Strict{secure}{end}", id.unwrap_or_default())
}

/// The console, for whoever: it is there, since the guard let the request pass.
pub(crate) fn console(request: &HttpRequest) -> Result<Arc<Console>, Failed> {
    let mount = request.app_data::<web::Data<Mount>>().ok_or(Failed::NotFound)?;
    mount.0.get().and_then(Option::clone).ok_or(Failed::NotFound)
}

/// Somebody who is signed in looks at a page.
pub(crate) struct Visit {
    pub(crate) console: Arc<Console>,
    pub(crate) session: Session,
    /// What the page has looked for. It comes in a form, so that no address has it: people type in whatever they are asked about.
    pub(crate) sought: String,
    query: BTreeMap<String, String>,
}

impl Visit {
    fn of(request: &HttpRequest) -> Result<Self, Failed> {
        let console = console(request)?;
        let query = web::Query::from_query(request.query_string());
        let query: BTreeMap<String, String> = query.map(web::Query::into_inner).unwrap_or_default();
        let id = cookie(request.headers()).ok_or(Failed::SignIn)?;
        let is_use = !query.contains_key(AUTO);
        let session = console.sessions.find(id, console.now(), is_use).ok_or(Failed::SignIn)?;
        Ok(Self { console, session, sought: String::new(), query })
    }

    /// A parameter of the address; empty when there is none.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str).trim()
    }

    /// Leads to another page, which says what came of an act.
    pub(crate) fn tell(&self, place: &str, came: Result<String, Refusal>) -> HttpResponse {
        let (is_done, words) = match came {
            Ok(words) => (true, words),
            Err(Refusal(words)) => (false, words),
        };
        self.console.sessions.leave(&self.session, Notice { is_done, words });
        see(place)
    }
}

impl FromRequest for Visit {
    type Error = Failed;
    type Future = Ready<Result<Self, Failed>>;

    fn from_request(request: &HttpRequest, _payload: &mut Payload) -> Self::Future {
        ready(Self::of(request))
    }
}

/// The fields of a form, when it came from a page of ours.
async fn fields(request: &HttpRequest, mut payload: Payload) -> Result<BTreeMap<String, String>, Failed> {
    check_origin(request.headers())?;
    let form = web::Form::<Vec<(String, String)>>::from_request(request, &mut payload).await;
    let form = form.map_err(|_wrong| Failed::Wrong("This form can't be read."))?;
    let mut fields = BTreeMap::new();
    for (name, value) in form.into_inner() {
        if fields.insert(name, value).is_some() {
            return Err(Failed::Wrong("This form has a field twice."));
        }
    }
    Ok(fields)
}

/// Somebody signs in: a form without a session.
pub(crate) struct Knock {
    pub(crate) console: Arc<Console>,
    pub(crate) fields: BTreeMap<String, String>,
    /// The session that the browser had before.
    pub(crate) before: Option<Session>,
}

impl FromRequest for Knock {
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Failed>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let (console, fields) = (console(&request)?, fields(&request, payload).await?);
            let before = cookie(request.headers());
            let before = before.and_then(|id| console.sessions.find(id, console.now(), false));
            Ok(Self { console, fields, before })
        })
    }
}

/// Somebody who is signed in does something.
pub(crate) struct Posted {
    pub(crate) visit: Visit,
    fields: BTreeMap<String, String>,
}

impl Posted {
    /// A field; empty when there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str).trim()
    }
}

impl FromRequest for Posted {
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Failed>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let visit = Visit::of(&request)?;
            let fields = fields(&request, payload).await?;
            let token = fields.get(CSRF_FIELD).map_or("", String::as_str);
            if !bool::from(token.as_bytes().ct_eq(visit.session.csrf.as_bytes())) {
                return Err(Failed::Forged("This form is of another session: open the page again."));
            }
            Ok(Self { visit, fields })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_reached_by_addresses_and_by_names_that_are_known() {
        let known = ["console.example".to_owned()];
        for host in
            ["localhost", "LocalHost:9464", "127.0.0.1:9464", "[::1]:1", "10.0.0.7", "console.example:80"]
        {
            assert!(is_ours(host, &known), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "a@localhost", "x y"]
        {
            assert!(!is_ours(host, &known), "{host}");
        }
    }
}
