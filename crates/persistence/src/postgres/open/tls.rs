//! TLS to the server: where the URL asks for it, whom is trusted, and what is shown.
//!
//! Whoever asks for TLS gets all of it. A certificate is always checked, and so is the name in it: encryption towards
//! whoever answers would keep out only those who look on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::OpenError;
use super::url::{Encryption, Identity};

/// The parameter that names the authorities.
pub const AUTHORITIES: &str = "sslrootcert";
/// The parameter that names the certificate of this side.
pub const CERTIFICATE: &str = "sslcert";
/// The parameter that names its key.
pub const KEY: &str = "sslkey";

/// Where the authorities of this machine are on Debian and its like, for the programs of PostgreSQL.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// What those programs understand since PostgreSQL 16.
const SYSTEM: &str = "system";

/// A server, and how it is spoken to.
#[derive(Clone)]
pub struct Target {
    /// Where it is, and as whom.
    pub config: Config,
    /// Makes the line private, where the URL asks for that.
    pub connector: MakeRustlsConnect,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Target {
    /// The server of `config`, spoken to as `encryption` says. Reads the files that it names.
    pub fn new(config: Config, encryption: &Encryption) -> Result<Self, OpenError> {
        let config_of_tls = match encryption {
            Encryption::None => untrusting(),
            Encryption::Verified { authorities, identity } => {
                verifying(authorities.as_deref(), identity.as_ref())
            }
        }?;
        Ok(Self { config, connector: MakeRustlsConnect::new(config_of_tls) })
    }
}

/// Trusts nobody: for a line that is not encrypted, which needs a connector all the same.
fn untrusting() -> Result<ClientConfig, OpenError> {
    let made = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let made = made.with_safe_default_protocol_versions().map_err(|error| broken(&error))?;
    Ok(made.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn verifying(authorities: Option<&Path>, identity: Option<&Identity>) -> Result<ClientConfig, OpenError> {
    let made = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let made = made.with_safe_default_protocol_versions().map_err(|error| broken(&error))?;
    let made = match authorities {
        Some(path) => made.with_root_certificates(roots(path)?),
        None => made.with_platform_verifier().map_err(|error| broken(&error))?,
    };
    let Some(Identity { certificate, key }) = identity else { return Ok(made.with_no_client_auth()) };
    let chain = certificates(CERTIFICATE, certificate)?;
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(KEY, key, &pem_says(&error)))?;
    made.with_client_auth_cert(chain, key_der).map_err(|error| unusable(KEY, key, &error.to_string()))
}

fn roots(path: &Path) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(AUTHORITIES, path)? {
        roots.add(certificate).map_err(|error| unusable(AUTHORITIES, path, &error.to_string()))?;
    }
    Ok(roots)
}

fn certificates(parameter: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| unusable(parameter, path, &pem_says(&error)))?;
    if read.is_empty() {
        return Err(unusable(parameter, path, "it has no certificate"));
    }
    Ok(read)
}

/// What is wrong with a file, without a piece of it.
fn pem_says(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it has nothing of that kind".to_owned(),
        _ => "it is not PEM".to_owned(),
    }
}

fn unusable(parameter: &'static str, path: &Path, reason: &str) -> OpenError {
    OpenError::TlsFile { parameter, path: path.display().to_string(), reason: reason.to_owned() }
}

fn broken(error: &rustls::Error) -> OpenError {
    OpenError::Failed(format!("TLS can't be set up: {error}"))
}

/// What the programs of PostgreSQL are told of `encryption`.
pub fn environment(encryption: Encryption) -> Vec<(&'static str, String)> {
    let Encryption::Verified { authorities, identity } = encryption else {
        return vec![("PGSSLMODE", "disable".to_owned())];
    };
    let known = || Path::new(SYSTEM_AUTHORITIES).exists().then(|| PathBuf::from(SYSTEM_AUTHORITIES));
    let authorities = authorities.or_else(known).unwrap_or_else(|| PathBuf::from(SYSTEM));
    let mut said =
        vec![("PGSSLMODE", "verify-full".to_owned()), ("PGSSLROOTCERT", authorities.display().to_string())];
    if let Some(Identity { certificate, key }) = identity {
        said.push(("PGSSLCERT", certificate.display().to_string()));
        said.push(("PGSSLKEY", key.display().to_string()));
    }
    said
}
