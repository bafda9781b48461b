//! The program with a certificate of its own, as an operator runs and renews it.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pix_tests::{Database, Gateway};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

const SOON: Duration = Duration::from_mins(1);

/// Writes a certificate for `localhost` of a new authority, and its key; the authority.
fn renew(certificate: &Path, key: &Path) -> String {
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let own = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(certificate, params.signed_by(&own, &authority).unwrap().pem()).unwrap();
    std::fs::write(key, own.serialize_pem()).unwrap();
    authority.pem()
}

/// Whether the program is live for one who trusts that authority alone.
async fn is_live(url: &str, authority: &str) -> bool {
    let trusted = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap();
    client.get(url).send().await.is_ok_and(|answer| answer.status() == 200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_shown_after_a_hangup_and_a_broken_one_is_not() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let first = renew(&certificate, &key);
    let (cert_path, key_path) = (certificate.display().to_string(), key.display().to_string());
    let settings = [("PIX_TLS_CERT_FILE", cert_path.as_str()), ("PIX_TLS_KEY_FILE", key_path.as_str())];
    let gateway = Gateway::start(Database::Sqlite, &settings).unwrap();
    let url = gateway.url.replace("http://127.0.0.1", "https://localhost") + "/health/live";
    assert!(is_live(&url, &first).await);
    assert!(gateway.cli(&["health"]).unwrap().status.success());

    let hang_up = || {
        let sent = Command::new("kill").args(["-HUP", &gateway.pid().unwrap().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    let second = renew(&certificate, &key);
    hang_up();
    let begun = Instant::now();
    while !is_live(&url, &second).await {
        assert!(begun.elapsed() < SOON, "never shown:\n{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!is_live(&url, &first).await);

    std::fs::write(&key, "damaged").unwrap();
    hang_up();
    while !gateway.log().contains("PIX_TLS_KEY_FILE") {
        assert!(begun.elapsed() < SOON, "nobody is told:\n{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_live(&url, &second).await, "the one before is still shown");
    assert!(!gateway.log().contains("damaged"));
}
