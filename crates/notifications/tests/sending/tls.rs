//! The sender over TLS, as in production: it trusts whom the system trusts, and asks for the name of the URL whatever
//! address that was found at.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pix_domain::postbacks::send::{PostbackSender, Reply};
use pix_notifications::{HttpSender, SenderConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::receiver::{Receiver, answer};
use crate::{LOOPBACK, Script, answered, config, parcel};

const PORT: &str = "PIX_TEST_TLS_PORT";

/// An authority of our own as PEM, and a server with a certificate of it for hook.example.com.
fn certified() -> (String, ServerConfig) {
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["hook.example.com".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (authority.pem(), server)
}

/// Decrypts what comes and hands it on.
async fn terminate(listener: TcpListener, server: ServerConfig, receiver: std::net::SocketAddr) {
    let acceptor = TlsAcceptor::from(Arc::new(server));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // Senders that do not trust us leave here.
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut onward = TcpStream::connect(receiver).await.unwrap();
            drop(copy_bidirectional(&mut stream, &mut onward).await);
        });
    }
}

/// Runs itself again with the authority in the environment, which is how the system is told whom to trust.
#[tokio::test]
async fn the_certificate_must_be_of_an_authority_of_the_system_and_for_the_name_of_the_url() {
    const NAME: &str =
        "tls::the_certificate_must_be_of_an_authority_of_the_system_and_for_the_name_of_the_url";
    let url = |host: &str, port: &str| parcel(&format!("https://{host}:{port}/hook"));
    let lookup = || Script::new(&[&["127.0.0.1"]]);
    if let Ok(port) = env::var(PORT) {
        let sender = HttpSender::with_lookup(LOOPBACK, SenderConfig::default(), lookup()).unwrap();
        assert_eq!(sender.send(url("hook.example.com", &port)).await, answered(200, "trusted"));
        for stranger in ["other.example.com", "127.0.0.1", "localhost"] {
            assert_eq!(sender.send(url(stranger, &port)).await, Reply::Failed("tls"), "{stranger}");
        }
        return;
    }
    let receiver = Receiver::start(vec![answer(200, "", "trusted")]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (authority, server) = certified();
    let serving = tokio::spawn(Box::pin(terminate(listener, server, receiver.address)));

    let sender = HttpSender::with_lookup(LOOPBACK, config(), lookup()).unwrap();
    assert_eq!(sender.send(url("hook.example.com", &port)).await, Reply::Failed("tls"));
    assert_eq!(receiver.connections(), 0);

    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("authority-{port}.pem"));
    fs::write(&file, authority).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", NAME]).env(PORT, &port).env("SSL_CERT_FILE", &file).env_remove("SSL_CERT_DIR");
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    fs::remove_file(&file).unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].value("host"), format!("hook.example.com:{port}"));
    serving.abort();
}
