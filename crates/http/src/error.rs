//! Errors as they are answered: which status and code each has, and its form in either generation.
//!
//! An [`ApiError`] is made wherever something goes wrong and written at the edge alone, which knows the request's id
//! and generation. Its texts are shown to callers: no cause, no value that was sent, no personal data.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{
    ALLOW, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use actix_web::{HttpResponse, ResponseError};
use pix_domain::charges::Failure;
use pix_domain::credentials::service::AuthError;
use pix_domain::credentials::{Scope, TokenError};
use pix_domain::error::{ServiceError, StoreError};
use pix_domain::ids::ResourceRef;

use crate::config::HttpConfig;
use crate::json::{self, Object};
use crate::language::Language;
use crate::pay;

/// When to come back after the provider could not be reached.
const PROVIDER_RETRY_AFTER_SECONDS: u64 = 5;

/// When to come back after this service had too much to do, or had no store to do it with.
pub(crate) const OVERLOADED_RETRY_AFTER_SECONDS: u64 = 1;

/// When to come back while no money goes out after a restore.
const RESTORED_RETRY_AFTER_SECONDS: u64 = 60;

/// When to come back to a node whose clock is not right.
const CLOCK_RETRY_AFTER_SECONDS: u64 = 5;

/// The longest reason of a provider that is passed on.
const MAX_REASON_CHARS: usize = 300;

/// The longest name of a field that is repeated in an error, in bytes: longer ones are names of nothing that we know.
const MAX_SHOWN_NAME: usize = 40;

/// Every code, with the title it has in v1.
pub(crate) const TITLES: [(&str, &str); 31] = [
    ("malformed_request", "Malformed request"),
    ("unsupported_grant_type", "Unsupported grant type"),
    ("invalid_token", "Invalid access token"),
    ("expired_token", "Expired access token"),
    ("invalid_credentials", "Invalid credentials"),
    ("insufficient_scope", "Insufficient scope"),
    ("ip_not_allowed", "Address not allowed"),
    ("integrator_suspended", "Integrator suspended"),
    ("not_found", "Not found"),
    ("method_not_allowed", "Method not allowed"),
    ("not_acceptable", "Not acceptable"),
    ("request_timeout", "Request timeout"),
    ("payload_too_large", "Payload too large"),
    ("headers_too_large", "Header fields too large"),
    ("external_id_conflict", "Conflicting external id"),
    ("possible_duplicate", "Possible duplicate"),
    ("invalid_state", "Invalid state"),
    ("validation_failed", "Validation failed"),
    ("invalid_amount", "Invalid amount"),
    ("invalid_pix_key", "Invalid PIX key"),
    ("insufficient_balance", "Insufficient balance"),
    ("limit_exceeded", "Limit exceeded"),
    ("idempotency_mismatch", "Idempotency mismatch"),
    ("refund_exceeds_paid", "Refund exceeds the payment"),
    ("refund_window_closed", "Refund window closed"),
    ("provider_rejected", "Refused by the settlement provider"),
    ("rate_limited", "Too many requests"),
    ("provider_unavailable", "Settlement provider unavailable"),
    ("provider_timeout", "Settlement provider timeout"),
    ("overloaded", "Overloaded"),
    ("internal", "Internal error"),
];

/// The title of a code.
pub(crate) fn title(code: &str) -> &'static str {
    TITLES.iter().find(|(known, _)| *known == code).map_or("Error", |(_, title)| title)
}

/// The end of a problem's type.
pub(crate) fn slug(code: &str) -> String {
    if code == "validation_failed" { "validation".to_owned() } else { code.replace('_', "-") }
}

/// Which form an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// `/api/…`: problem details of RFC 9457.
    V1,
    /// All else: the family's flat form.
    V2,
    /// The payment page of a charge: HTML, for a person.
    Page(Language),
}

impl Generation {
    /// The generation that `path` belongs to.
    pub(crate) fn of(path: &str, headers: &HeaderMap) -> Self {
        if path == "/api" || path.starts_with("/api/") {
            Self::V1
        } else if pay::is_page(path) {
            Self::Page(Language::of(headers, Language::Portuguese))
        } else {
            Self::V2
        }
    }
}

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// Its name, with the names of the objects around it.
    pub(crate) field: String,
    /// A stable code.
    pub(crate) code: &'static str,
    /// A sentence that names the field.
    pub(crate) message: String,
}

/// How a caller is asked to identify itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Challenge {
    /// RFC 7617, as RFC 6749 §5.2 asks for.
    Basic,
    /// RFC 6750 §3: without an error when there was no token.
    Bearer(Option<&'static str>),
    /// RFC 6750 §3.1: the token is good, but not for this.
    Scope(Scope),
}

/// An answer that is not a success.
#[derive(Debug, Clone)]
pub(crate) struct ApiError(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    message: String,
    fields: Vec<FieldError>,
    extra: Object,
    retry_after_seconds: Option<u64>,
    allow: Option<&'static str>,
    challenge: Option<Challenge>,
    closes: bool,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            message: message.into(),
            fields: Vec::new(),
            extra: Object::new(),
            retry_after_seconds: None,
            allow: None,
            challenge: None,
            closes: false,
        }))
    }

    fn but(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(&mut self.0);
        self
    }

    pub(crate) fn malformed(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_request", message)
    }

    /// That something is there twice; which one, where its name is that of a field and of nothing else.
    pub(crate) fn named_twice(problem: &str, name: &str) -> Self {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.len() <= MAX_SHOWN_NAME
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(is_name)
        {
            return Self::malformed(&format!("{problem}: {name}"));
        }
        Self::malformed(problem)
    }

    pub(crate) fn unsupported_grant_type() -> Self {
        let message = "grant_type must be client_credentials";
        Self::new(StatusCode::BAD_REQUEST, "unsupported_grant_type", message).oauth("unsupported_grant_type")
    }

    pub(crate) fn too_large(limit_bytes: usize) -> Self {
        let message = format!("the body must have at most {limit_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
            .but(|parts| parts.closes = true)
    }

    pub(crate) fn headers_too_large(limit_bytes: usize) -> Self {
        let message = format!("the header fields must have at most {limit_bytes} bytes");
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", message)
            .but(|parts| parts.closes = true)
    }

    pub(crate) fn too_slow() -> Self {
        let message = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message).but(|parts| parts.closes = true)
    }

    pub(crate) fn no_token() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_token", "an access token is required")
            .but(|parts| parts.challenge = Some(Challenge::Bearer(None)))
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "not found")
    }

    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let message = format!("this path allows {allow} only");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
            .but(|parts| parts.allow = Some(allow))
    }

    /// What is asked for has none of the forms that are taken; `message` says which there are.
    pub(crate) fn not_acceptable(message: &str) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message)
    }

    pub(crate) fn rate_limited(retry_after_seconds: u64) -> Self {
        let message = format!("too many requests; try again in {retry_after_seconds} s");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).retry_after(retry_after_seconds)
    }

    pub(crate) fn overloaded() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "too much to do right now; nothing was done")
            .retry_after(OVERLOADED_RETRY_AFTER_SECONDS)
    }

    fn out_of_service() -> Self {
        let message = "out of service right now; nothing was done";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
            .retry_after(OVERLOADED_RETRY_AFTER_SECONDS)
    }

    pub(crate) fn restored() -> Self {
        let message = ServiceError::Restored.to_string();
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
            .retry_after(RESTORED_RETRY_AFTER_SECONDS)
    }

    pub(crate) fn provider_unavailable() -> Self {
        let message = ServiceError::ProviderUnavailable.to_string();
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "provider_unavailable", message)
            .retry_after(PROVIDER_RETRY_AFTER_SECONDS)
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error")
    }

    /// What to answer for an error that no part of this crate has made.
    pub(crate) fn foreign(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::not_found(),
            status if status.is_client_error() => Self::malformed("the request can't be understood"),
            _ => Self::internal(),
        }
    }

    /// What is wrong with the fields of a body. The first one is what v2 tells.
    pub(crate) fn invalid(fields: Vec<FieldError>) -> Self {
        let all = |name: &str| fields.iter().all(|error| error.field == name);
        let code = match fields.first() {
            Some(_) if all("amount") => "invalid_amount",
            Some(_) if all("creditParty.key") => "invalid_pix_key",
            _ => "validation_failed",
        };
        let message =
            fields.first().map_or_else(|| "the request is not valid".into(), |first| first.message.clone());
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message).but(|parts| parts.fields = fields)
    }

    /// What is wrong with one field.
    pub(crate) fn invalid_field(field: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { field: field.to_owned(), code, message: message.into() }])
    }

    /// A final refusal by the provider, of a record that is `failed` now.
    pub(crate) fn failed(failure: &Failure) -> Self {
        let message = format!("the operation failed: {}", failure.message);
        Self::rejected(&failure.code, &message)
    }

    fn rejected(provider_code: &str, message: &str) -> Self {
        let message: String = message.chars().take(MAX_REASON_CHARS).collect();
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "provider_rejected", message)
            .with("providerCode", provider_code)
    }

    /// What went wrong while money was being sent out. Only a store that can't be used at all is told as "nothing was
    /// done": once an intent is stored, the use cases answer with the record.
    pub(crate) fn of_outgoing(error: ServiceError) -> Self {
        let unused = matches!(error, ServiceError::Store(StoreError::Unavailable(_)));
        let lost = matches!(error, ServiceError::Store(_) | ServiceError::Contention) && !unused;
        let answer = Self::from(error);
        if lost { Self::internal() } else { answer }
    }

    /// The same error as a final refusal of a v2 payment: production clients take 406, and only 406, as final.
    pub(crate) fn of_payment(self) -> Self {
        if self.0.code == "provider_rejected" {
            self.but(|parts| parts.status = StatusCode::NOT_ACCEPTABLE)
        } else {
            self
        }
    }

    fn retry_after(self, seconds: u64) -> Self {
        self.but(|parts| parts.retry_after_seconds = Some(seconds))
    }

    /// Adds a member to the body.
    pub(crate) fn with(self, name: &'static str, text: &str) -> Self {
        self.but(|parts| parts.extra = std::mem::take(&mut parts.extra).text(name, text))
    }

    /// Adds the error's name in the words of RFC 6749 §5.2.
    pub(crate) fn oauth(self, name: &'static str) -> Self {
        self.with("error", name)
    }

    /// What would be refused, as a part of another answer.
    pub(crate) fn as_refusal(&self) -> Object {
        Object::new()
            .number("status", self.0.status.as_u16().into())
            .text("code", self.0.code)
            .text("detail", &self.0.message)
    }

    /// When to come back.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.0.retry_after_seconds
    }

    fn type_uri(&self, config: &HttpConfig) -> String {
        format!("{}/{}", config.problem_base, slug(self.0.code))
    }

    fn body(
        &self,
        generation: Generation,
        language: Language,
        request_id: &str,
        config: &HttpConfig,
    ) -> String {
        let status = u64::from(self.0.status.as_u16());
        match generation {
            Generation::V2 | Generation::Page(_) => Object::new()
                .number("statusCode", status)
                .text("message", &language.say(&self.0.message))
                .text("code", self.0.code)
                .text("requestId", request_id)
                .and(&self.0.extra)
                .end(),
            Generation::V1 => {
                let problem = Object::new()
                    .text("type", &self.type_uri(config))
                    .text("title", &language.say(title(self.0.code)))
                    .number("status", status)
                    .text("detail", &language.say(&self.0.message))
                    .text("code", self.0.code)
                    .text("requestId", request_id)
                    .and(&self.0.extra);
                if self.0.fields.is_empty() {
                    problem.end()
                } else {
                    problem.raw("errors", &self.errors(language)).end()
                }
            }
        }
    }

    fn errors(&self, language: Language) -> String {
        json::array(self.0.fields.iter().map(|error| {
            let object = Object::new().text("field", &error.field).text("code", error.code);
            object.text("message", &language.say(&error.message)).end()
        }))
    }

    /// The answer.
    pub(crate) fn render(
        &self,
        generation: Generation,
        language: Language,
        request_id: &str,
        config: &HttpConfig,
    ) -> HttpResponse {
        let mut answer = HttpResponse::build(self.0.status);
        let body = match generation {
            Generation::Page(language) => pay::refusal(&mut answer, self.0.status, language),
            Generation::V1 | Generation::V2 => {
                let kind = if generation == Generation::V1 {
                    "application/problem+json"
                } else {
                    "application/json"
                };
                answer.insert_header((CONTENT_TYPE, kind)).insert_header((CONTENT_LANGUAGE, language.tag()));
                self.body(generation, language, request_id, config)
            }
        };
        if let Some(seconds) = self.0.retry_after_seconds {
            answer.insert_header((RETRY_AFTER, seconds));
        }
        if let Some(allow) = self.0.allow {
            answer.insert_header((ALLOW, allow));
        }
        if let Some(challenge) = self.0.challenge {
            let realm = &config.realm;
            let text = match challenge {
                Challenge::Basic => format!("Basic realm=\"{realm}\", charset=\"UTF-8\""),
                Challenge::Bearer(None) => format!("Bearer realm=\"{realm}\""),
                Challenge::Bearer(Some(why)) => {
                    format!("Bearer realm=\"{realm}\", error=\"invalid_token\", error_description=\"{why}\"")
                }
                Challenge::Scope(scope) => {
                    let scope = scope.as_str();
                    format!("Bearer realm=\"{realm}\", error=\"insufficient_scope\", scope=\"{scope}\"")
                }
            };
            if let Ok(value) = HeaderValue::from_str(&text) {
                answer.insert_header((WWW_AUTHENTICATE, value));
            }
        }
        if self.0.closes {
            answer.force_close();
        }
        answer.body(body)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.code)
    }
}

impl std::error::Error for ApiError {}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    fn error_response(&self) -> HttpResponse {
        // The edge writes the body. Not every way to it keeps the error itself, but all keep the extensions.
        let mut response = HttpResponse::new(self.0.status);
        response.extensions_mut().insert(self.clone());
        response
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        let conflict = |code| Self::new(StatusCode::CONFLICT, code, error.to_string());
        let refused = |code| Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, error.to_string());
        match &error {
            ServiceError::Invalid { field, problem } => {
                Self::invalid_field(field, problem.code, crate::fields::sentence(field, &problem.message))
            }
            ServiceError::NotFound => Self::not_found(),
            ServiceError::ExternalIdConflict => conflict("external_id_conflict"),
            ServiceError::IdempotencyMismatch => refused("idempotency_mismatch"),
            ServiceError::PossibleDuplicate(twin) => {
                conflict("possible_duplicate").with("uuid", &twin.id.to_string())
            }
            ServiceError::Ambiguous(resources) => Self::ambiguous(resources),
            ServiceError::InvalidState(_) => conflict("invalid_state"),
            ServiceError::IntegratorSuspended => {
                Self::new(StatusCode::FORBIDDEN, "integrator_suspended", error.to_string())
            }
            ServiceError::Restored => Self::restored(),
            ServiceError::ClockNotRight => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", error.to_string())
                    .retry_after(CLOCK_RETRY_AFTER_SECONDS)
            }
            ServiceError::InsufficientBalance => refused("insufficient_balance"),
            ServiceError::LimitExceeded(limit) => {
                refused("limit_exceeded").with("limit", limit.kind.as_str())
            }
            ServiceError::RefundExceedsPaid => refused("refund_exceeds_paid"),
            ServiceError::RefundWindowClosed => refused("refund_window_closed"),
            ServiceError::ProviderRejected { code, .. } => Self::rejected(code, &error.to_string()),
            ServiceError::ProviderUnavailable => Self::provider_unavailable(),
            ServiceError::ProviderTimeout => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, "provider_timeout", error.to_string())
            }
            ServiceError::Contention => Self::overloaded(),
            ServiceError::Store(error) => Self::from(error.clone()),
        }
    }
}

impl ApiError {
    fn ambiguous(resources: &[ResourceRef]) -> Self {
        let message = "external_id names more than one transaction; ask by uuid";
        let uuids = json::array(resources.iter().map(|resource| json::quoted(&resource.id.to_string())));
        Self::new(StatusCode::CONFLICT, "external_id_conflict", message)
            .but(|parts| parts.extra = Object::new().raw("uuids", &uuids))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        match error {
            StoreError::Unavailable(_) => Self::out_of_service(),
            StoreError::Unknown(_) | StoreError::Damaged(_) | StoreError::Rejected(_) => Self::internal(),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let unauthorized = |code, challenge| {
            Self::new(StatusCode::UNAUTHORIZED, code, error.to_string())
                .but(|parts| parts.challenge = Some(challenge))
        };
        match &error {
            AuthError::InvalidCredentials => {
                unauthorized("invalid_credentials", Challenge::Basic).oauth("invalid_client")
            }
            AuthError::Token(TokenError::Invalid) => {
                unauthorized("invalid_token", Challenge::Bearer(Some("the access token is not valid")))
            }
            AuthError::Token(TokenError::Expired) => {
                unauthorized("expired_token", Challenge::Bearer(Some("the access token has expired")))
            }
            AuthError::InsufficientScope(scope) => {
                Self::new(StatusCode::FORBIDDEN, "insufficient_scope", error.to_string())
                    .but(|parts| parts.challenge = Some(Challenge::Scope(*scope)))
            }
            AuthError::IpNotAllowed => Self::new(StatusCode::FORBIDDEN, "ip_not_allowed", error.to_string()),
            AuthError::Overloaded => Self::overloaded(),
            AuthError::Store(error) => Self::from(error.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_store_that_can_not_be_used_says_that_no_money_was_promised() {
        let told = |error: StoreError| {
            let answer = ApiError::of_outgoing(ServiceError::Store(error));
            (answer.0.status.as_u16(), answer.0.code, answer.0.retry_after_seconds.is_some())
        };
        assert_eq!(told(StoreError::Unavailable("down".into())), (503, "overloaded", true));
        let down = ApiError::from(StoreError::Unavailable("down".into())).0.message;
        assert_eq!(down, "out of service right now; nothing was done");
        assert_ne!(down, ApiError::overloaded().0.message);
        assert_eq!(told(StoreError::Unknown("line cut".into())), (500, "internal", false));
        assert_eq!(told(StoreError::Rejected("rule".into())), (500, "internal", false));
    }
}
