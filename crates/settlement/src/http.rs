//! HTTP as this project does it: how a client is built, and one POST whose answer is bounded in time and size. It
//! must never know what is asked or what an answer means.

use std::error::Error as _;
use std::time::Duration;

use pix_domain::provider::MAX_PROVIDER_BODY_BYTES;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Certificate, Client, Identity, RequestBuilder, Response, redirect, retry};
use rustls::crypto::ring;
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

/// What every request names itself.
pub const USER_AGENT: &str = concat!("pix-gateway/", env!("CARGO_PKG_VERSION"));
/// How long a connection that nobody uses is kept. Short: a server that closes it first makes the outcome of the
/// request then under way unknown.
pub const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// How many connections that nobody uses are kept for one host.
pub const MAX_IDLE_CONNECTIONS_PER_HOST: usize = 64;

/// Most characters of a cause that a connector names.
const MAX_CAUSE_CHARS: usize = 160;
const APPLICATION_JSON: &str = "application/json";

/// Whom a client trusts to say that a host is the one it claims to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The certificate authorities of the operating system. A client can't be built where there are none.
    System,
    /// These certificate authorities alone, as PEM.
    Only(String),
    /// Nobody: `http` works and `https` fails at the handshake. For loopback; builds on any machine.
    Nobody,
}

/// What differs between the HTTP clients of this project.
#[derive(Debug, Clone)]
pub struct HttpClientConfig {
    /// Whether `http` URLs are refused.
    pub https_only: bool,
    /// Whom it trusts.
    pub trust: Trust,
    /// What it shows to hosts that ask who it is (mutual TLS): a certificate, those that vouch for it, and its key, as PEM.
    pub identity: Option<SecretString>,
    /// How long reaching the host may take, TLS included.
    pub connect_timeout: Duration,
    /// How long a call may take, from the first step to the last byte of the answer; a request may set less.
    pub total_timeout: Duration,
}

/// Why a client can't be built.
#[derive(Debug, Error)]
pub enum HttpClientError {
    /// There is nobody to trust, most likely.
    #[error(
        "cannot make an HTTP client; for https the system needs CA certificates (package ca-certificates)"
    )]
    Build(#[source] reqwest::Error),
    /// [`Trust::Only`] holds no certificate.
    #[error(
        "the certificate authorities for the provider are no PEM certificates: each begins with a line \
         -----BEGIN CERTIFICATE-----"
    )]
    Authorities,
    /// [`HttpClientConfig::identity`] is none.
    #[error(
        "the certificate and key for the provider are no PEM certificate and private key that belong together: the key \
         must be unencrypted, in PKCS #8, PKCS #1 or SEC 1"
    )]
    Identity,
}

/// Builds a client with the settings of this project: it follows no redirect, repeats nothing, reads no proxy from the
/// environment, and gives up in time.
///
/// With the defaults of reqwest a 308 sends a POST twice.
pub fn http_client(config: &HttpClientConfig) -> Result<Client, HttpClientError> {
    // An error says that the process has a provider already.
    drop(ring::default_provider().install_default());
    let builder = Client::builder()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .referer(false)
        .https_only(config.https_only)
        .connect_timeout(config.connect_timeout)
        .timeout(config.total_timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS_PER_HOST)
        .user_agent(USER_AGENT);
    let builder = match &config.trust {
        Trust::System => builder,
        Trust::Only(pem) => builder.tls_certs_only(authorities(pem)?),
        Trust::Nobody => builder.tls_certs_only([]),
    };
    let Some(identity) = &config.identity else { return builder.build().map_err(HttpClientError::Build) };
    // A key that isn't the certificate's is found out by building alone.
    let identity = Identity::from_pem(identity.expose_secret().as_bytes());
    let built = identity.and_then(|identity| builder.identity(identity).build());
    built.map_err(|_unsaid| HttpClientError::Identity)
}

fn authorities(pem: &str) -> Result<Vec<Certificate>, HttpClientError> {
    match Certificate::from_pem_bundle(pem.as_bytes()) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) | Err(_) => Err(HttpClientError::Authorities),
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No byte of the request was written: there was no connection to write it to.
    NotWritten(String),
    /// It took too long.
    TimedOut,
    /// The connection broke, before or within the answer.
    Lost,
    /// The answer is larger than [`MAX_PROVIDER_BODY_BYTES`].
    TooLarge,
}

/// An answer that arrived in full.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The body, if it says to be JSON and is text.
    pub(crate) json: Option<String>,
}

/// Sends a JSON body and takes the answer.
pub(crate) async fn post(request: RequestBuilder, body: String) -> Result<Answer, Fault> {
    let request = request.header(CONTENT_TYPE, APPLICATION_JSON).header(ACCEPT, APPLICATION_JSON).body(body);
    let mut response = request.send().await.map_err(|error| fault(&error))?;
    let status = response.status().as_u16();
    let says_json = says_json(&response);
    let too_large = |length: u64| length > u64::try_from(MAX_PROVIDER_BODY_BYTES).unwrap_or(u64::MAX);
    if response.content_length().is_some_and(too_large) {
        return Err(Fault::TooLarge);
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| fault(&error))? {
        if bytes.len().saturating_add(chunk.len()) > MAX_PROVIDER_BODY_BYTES {
            return Err(Fault::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    let json = says_json.then(|| String::from_utf8(bytes).ok()).flatten();
    Ok(Answer { status, json })
}

/// `application/json`, or a type that ends in `+json` (RFC 6839 §3.1).
fn says_json(response: &Response) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == APPLICATION_JSON || essence.ends_with("+json")
}

fn fault(error: &reqwest::Error) -> Fault {
    // Building and connecting end before the request is handed to a connection.
    if error.is_connect() || error.is_builder() {
        return Fault::NotWritten(innermost_cause(error));
    }
    if error.is_timeout() { Fault::TimedOut } else { Fault::Lost }
}

/// What the operating system or TLS said. The outer errors are left out: they name the URL.
fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut text = None;
    while let Some(inner) = cause {
        cause = inner.source();
        if cause.is_none() {
            text = Some(inner.to_string());
        }
    }
    let text = text.unwrap_or_else(|| "the request can't be made".to_owned());
    text.chars().filter(|c| !c.is_control()).take(MAX_CAUSE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_trusts_nobody_needs_no_certificates() {
        let config = HttpClientConfig {
            https_only: false,
            trust: Trust::Nobody,
            identity: None,
            connect_timeout: Duration::from_secs(1),
            total_timeout: Duration::from_secs(1),
        };
        http_client(&config).unwrap();
    }

    #[tokio::test]
    async fn an_https_client_refuses_http_before_anything_is_sent() {
        let config = HttpClientConfig {
            https_only: true,
            trust: Trust::Nobody,
            identity: None,
            connect_timeout: Duration::from_secs(1),
            total_timeout: Duration::from_secs(1),
        };
        let client = http_client(&config).unwrap();
        let answer = post(client.post("http://127.0.0.1:9/secret"), "{}".to_owned()).await;
        let Err(Fault::NotWritten(cause)) = answer else { panic!("it was sent") };
        assert!(!cause.contains("secret"), "{cause}");
    }
}
