//! TLS of the service's own, and the certificate that is replaced while it runs.

use std::net::SocketAddr;
use std::sync::Arc;

use pix_http::{CertificateError, ServerCertificate};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::Gateway;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for `localhost`, with its key, as PEM.
fn certified(authority: &Authority) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

async fn connect(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The head of the answer to one request of many on a connection.
async fn ask(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(br#"{"status":"live"}"#) {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).await.unwrap(), 1, "{}", String::from_utf8_lossy(&answer));
        answer.extend(byte);
    }
    String::from_utf8(answer).unwrap().to_lowercase()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_while_connections_go_on() {
    let (before, after) = (authority(), authority());
    let (certificate, key) = certified(&before);
    let shown = ServerCertificate::from_pem(&certificate, &key).unwrap();
    let served = shown.clone();
    let gateway = Gateway::with(|config| config.tls = Some(served), None).await;

    let mut old = connect(gateway.address, before.der()).await.unwrap();
    let head = ask(&mut old).await;
    assert!(
        head.starts_with("http/1.1 200") && head.contains("strict-transport-security: max-age="),
        "{head}"
    );

    let (certificate, key) = certified(&after);
    shown.replace(&certificate, &key).unwrap();
    assert!(connect(gateway.address, before.der()).await.is_err(), "it is no longer shown");
    ask(&mut connect(gateway.address, after.der()).await.unwrap()).await;
    ask(&mut old).await;

    let (_, strange) = certified(&after);
    assert_eq!(shown.replace(&certificate, &strange), Err(CertificateError::Apart));
    ask(&mut connect(gateway.address, after.der()).await.unwrap()).await;
    Box::pin(gateway.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_plainly_to_tls_is_answered_nothing_and_hurts_nobody() {
    let authority = authority();
    let (certificate, key) = certified(&authority);
    let shown = ServerCertificate::from_pem(&certificate, &key).unwrap();
    let gateway = Gateway::with(|config| config.tls = Some(shown), None).await;
    let mut plain = TcpStream::connect(gateway.address).await.unwrap();
    plain.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    drop(plain.read_to_end(&mut answer).await);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
    ask(&mut connect(gateway.address, authority.der()).await.unwrap()).await;
}

#[test]
fn what_is_no_certificate_or_no_key_is_refused_by_what_it_lacks() {
    let authority = authority();
    let (certificate, key) = certified(&authority);
    for (certificates, key, error) in [
        ("", key.as_str(), CertificateError::Certificate),
        ("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n", &key, CertificateError::Certificate),
        (&certificate, "", CertificateError::Key),
        (&certificate, &certificate, CertificateError::Key),
        (
            &certificate,
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            CertificateError::Key,
        ),
    ] {
        assert_eq!(ServerCertificate::from_pem(certificates, key).err(), Some(error));
    }
}
