//! TLS to PostgreSQL: whoever asks for it gets all of it, or a sentence that says what is missing.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use pix_domain::credentials::store::IntegratorStore;
use pix_persistence::postgres::{OpenError, PgOptions, PgStore};
use pix_pg_server::{Options, PgServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const DATABASE: &str = "books";

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Another name than those of its certificates, which would pass for their own issuers.
    params.distinguished_name.push(DnType::CommonName, "authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for `name` and its key, as PEM.
fn certified(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

/// A file that the server may read and nobody else.
fn give(server: &PgServer, name: &str, text: &str) {
    let path = server.data_dir().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let owner = fs::metadata(server.data_dir()).unwrap();
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

fn write(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A server that takes nobody without TLS; its certificate is good for `localhost`.
fn private_server(authority: &Authority, rule: &str) -> PgServer {
    let (certificate, key) = certified(authority, "localhost");
    server_with(&certificate, &key, &authority.pem(), rule)
}

fn server_with(certificate: &str, key: &str, authorities: &str, rule: &str) -> PgServer {
    let server = PgServer::start(Options::default()).unwrap();
    server.create_database(DATABASE).unwrap();
    give(&server, "server.crt", certificate);
    give(&server, "server.key", key);
    give(&server, "root.crt", authorities);
    server.psql(DATABASE, "ALTER SYSTEM SET ssl = on").unwrap();
    server.psql(DATABASE, "ALTER SYSTEM SET ssl_ca_file = 'root.crt'").unwrap();
    give(&server, "pg_hba.conf", rule);
    server.restart().unwrap();
    server
}

fn options(migrate: bool) -> PgOptions {
    PgOptions { migrate, connect_timeout: PATIENCE, ..PgOptions::default() }
}

fn url(host: &str, server: &PgServer, parameters: &str) -> String {
    format!("postgres://pix:SECRET@{host}:{}/{DATABASE}?{parameters}", server.port())
}

async fn refused(url: &str) -> OpenError {
    let error = PgStore::open(url, options(false)).await.unwrap_err();
    assert!(!error.to_string().contains("SECRET"), "{error}");
    error
}

#[tokio::test]
async fn a_server_that_takes_nobody_without_tls_is_used_over_it() {
    let (ours, another) = (authority(), authority());
    let server = private_server(&ours, "hostssl all all all trust\n");
    let folder = TempDir::new().unwrap();
    let (ca, other_ca) = (write(&folder, "ca.pem", &ours.pem()), write(&folder, "other.pem", &another.pem()));

    let url_of = |host: &str, parameters: &str| url(host, &server, parameters);
    assert!(matches!(refused(&url_of("localhost", "sslmode=disable")).await, OpenError::NotLetIn { .. }));

    for mode in ["require", "verify-ca", "verify-full"] {
        let url = url_of("localhost", &format!("sslmode={mode}&sslrootcert={ca}"));
        // The first opening runs the migrations.
        let store = PgStore::open(&url, options(true)).await.unwrap();
        // Over a connection of a pool.
        assert_eq!(IntegratorStore::list(&store).await.unwrap(), Vec::new(), "{mode}");
    }

    for (parameters, host) in [
        (format!("sslmode=require&sslrootcert={other_ca}"), "localhost"),
        (format!("sslmode=verify-ca&sslrootcert={ca}"), "127.0.0.1"),
        (format!("sslmode=verify-full&sslrootcert={ca}"), "127.0.0.1"),
    ] {
        let error = refused(&url_of(host, &parameters)).await;
        assert!(matches!(error, OpenError::NotTrusted { .. }), "{parameters}: {error}");
        assert!(error.to_string().contains("sslrootcert"), "{error}");
    }
    // Nobody whom this machine trusts vouches for it.
    let error = refused(&url_of("localhost", "sslmode=require")).await;
    assert!(matches!(error, OpenError::NotTrusted { .. } | OpenError::Failed(_)), "{error}");
}

#[tokio::test]
async fn a_certificate_that_signed_itself_is_trusted_by_its_file_unless_it_is_marked_as_an_authority() {
    for (authority, trusted) in
        [(IsCa::ExplicitNoCa, true), (IsCa::Ca(BasicConstraints::Unconstrained), false)]
    {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = authority;
        let pem = params.self_signed(&key).unwrap().pem();
        let server = server_with(&pem, &key.serialize_pem(), &pem, "hostssl all all all trust\n");
        let folder = TempDir::new().unwrap();
        let file = write(&folder, "server.pem", &pem);
        let url = url("localhost", &server, &format!("sslmode=verify-full&sslrootcert={file}"));
        if trusted {
            PgStore::open(&url, options(true)).await.unwrap();
        } else {
            let error = refused(&url).await;
            assert!(matches!(error, OpenError::NotTrusted { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_not_used_by_who_asks_for_it() {
    let server = pix_pg_server::shared().unwrap();
    let error = refused(&url("127.0.0.1", server, "sslmode=verify-full")).await;
    assert!(matches!(error, OpenError::NoTls(_)), "{error}");
    assert!(error.to_string().contains("set ssl = on"), "{error}");
}

#[tokio::test]
async fn a_server_that_asks_who_comes_is_shown_a_certificate() {
    let (ours, another) = (authority(), authority());
    let server = private_server(&ours, "hostssl all all all trust clientcert=verify-ca\n");
    let folder = TempDir::new().unwrap();
    let identity = |name: &str, authority: &Authority| {
        let (certificate, key) = certified(authority, "pix");
        let certificate = write(&folder, &format!("{name}.crt"), &certificate);
        format!("sslcert={certificate}&sslkey={}", write(&folder, &format!("{name}.key"), &key))
    };
    let trusting = format!("sslmode=verify-full&sslrootcert={}", write(&folder, "ca.pem", &ours.pem()));

    let error = refused(&url("localhost", &server, &trusting)).await;
    assert!(matches!(error, OpenError::NotLetIn { .. }), "{error}");

    let shown = format!("{trusting}&{}", identity("ours", &ours));
    let store = PgStore::open(&url("localhost", &server, &shown), options(true)).await.unwrap();
    assert_eq!(IntegratorStore::list(&store).await.unwrap(), Vec::new());

    // The server may be gone before it is heard why.
    let shown = format!("{trusting}&{}", identity("another", &another));
    let error = refused(&url("localhost", &server, &shown)).await;
    let ended = matches!(error, OpenError::TlsRefused { .. } | OpenError::Unreachable { .. });
    assert!(ended, "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_certificate_or_key_is_named() {
    let folder = TempDir::new().unwrap();
    let (certificate, key) = certified(&authority(), "pix");
    let (certificate, key) = (write(&folder, "pix.crt", &certificate), write(&folder, "pix.key", &key));
    let empty = write(&folder, "empty", "");
    let missing = Path::new(folder.path()).join("missing").display().to_string();
    for (parameters, named, reason) in [
        (format!("sslrootcert={missing}"), "sslrootcert", "No such file"),
        (format!("sslrootcert={empty}"), "sslrootcert", "it has no certificate"),
        (format!("sslrootcert={key}"), "sslrootcert", "it has no certificate"),
        (format!("sslcert={key}&sslkey={key}"), "sslcert", "it has no certificate"),
        (format!("sslcert={certificate}&sslkey={certificate}"), "sslkey", "it has nothing of that kind"),
        (format!("sslcert={certificate}&sslkey={missing}"), "sslkey", "No such file"),
    ] {
        let error = refused(&format!("postgres://pix:SECRET@h/d?sslmode=require&{parameters}")).await;
        let text = error.to_string();
        assert!(matches!(error, OpenError::TlsFile { .. }), "{parameters}: {text}");
        assert!(text.contains(named) && text.contains(reason), "{parameters}: {text}");
    }
}

#[test]
fn the_programs_of_postgresql_are_told_the_same() {
    let said = |parameters: &str| -> Vec<(&'static str, String)> {
        let all = PgStore::environment(&format!("postgres://pix@h/d?{parameters}")).unwrap();
        all.into_iter().filter(|(name, _)| name.starts_with("PGSSL")).collect()
    };
    assert_eq!(said(""), [("PGSSLMODE", "disable".to_owned())]);
    assert_eq!(
        said("sslmode=require&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem"),
        [
            ("PGSSLMODE", "verify-full".to_owned()),
            ("PGSSLROOTCERT", "/ca.pem".to_owned()),
            ("PGSSLCERT", "/c.pem".to_owned()),
            ("PGSSLKEY", "/k.pem".to_owned()),
        ]
    );
    let roots = said("sslmode=verify-full");
    assert_eq!(roots[0], ("PGSSLMODE", "verify-full".to_owned()));
    assert_eq!(roots[1].0, "PGSSLROOTCERT");
}
