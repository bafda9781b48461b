//! Mutual TLS with the provider: whom the client trusts, and what it shows.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pix_settlement::{HttpClientConfig, HttpClientError, Trust, http_client};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for `localhost` and its key.
fn certified(authority: &Authority) -> (CertificateDer<'static>, String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.der().clone(), certificate.pem(), key)
}

/// Answers whoever has a certificate of `authority`, which is also who vouches for it.
async fn provider(authority: &Authority) -> SocketAddr {
    let (certificate, _, key) = certified(authority);
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.unwrap())
        .with_single_cert(
            vec![certificate],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        );
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config.unwrap())), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // Who shows nothing, or trusts another one, leaves here.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok() {
                drop(stream.write_all(ANSWER).await);
                drop(stream.shutdown().await);
            }
        }
    });
    address
}

fn client(trust: Trust, identity: Option<String>) -> Result<reqwest::Client, HttpClientError> {
    http_client(&HttpClientConfig {
        https_only: true,
        trust,
        identity: identity.map(SecretString::from),
        connect_timeout: Duration::from_secs(30),
        total_timeout: Duration::from_mins(1),
    })
}

#[tokio::test]
async fn only_who_is_trusted_is_told_anything_and_only_who_shows_a_certificate_is_answered() {
    let (ours, other) = (authority(), authority());
    let url = format!("https://localhost:{}/", provider(&ours).await.port());
    let identity = |authority: &Authority| {
        let (_, certificate, key) = certified(authority);
        Some(format!("{certificate}\n{}", key.serialize_pem()))
    };
    for (trusts, shows, answered) in [
        (&ours, identity(&ours), true),
        (&ours, identity(&other), false),
        (&ours, None, false),
        (&other, identity(&ours), false),
    ] {
        let client = client(Trust::Only(trusts.pem()), shows).unwrap();
        let answer = client.get(&url).send().await;
        assert_eq!(answer.is_ok_and(|answer| answer.status() == 200), answered);
    }
}

#[test]
fn what_is_no_certificate_or_key_is_refused_and_not_shown() {
    let (ours, secret) = (authority(), "hunter2-hunter2");
    let (_, certificate, _) = certified(&ours);
    let (_, _, strange) = certified(&ours);
    let cases = [
        (Trust::Only(secret.to_owned()), None, "begins with a line -----BEGIN CERTIFICATE-----"),
        (Trust::Only(ours.pem()), Some(secret.to_owned()), "no PEM certificate and private key"),
        (Trust::Only(ours.pem()), Some(certificate.clone()), "no PEM certificate and private key"),
        (
            Trust::Only(ours.pem()),
            Some(format!("{certificate}\n{}", strange.serialize_pem())),
            "that belong together",
        ),
    ];
    for (trust, identity, says) in cases {
        let error = client(trust, identity).unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains(says) && !said.contains(secret), "{said}");
    }
}
