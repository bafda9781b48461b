//! TLS of the service's own, by a certificate that can be replaced while it runs.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;

/// Why a certificate can't be shown. It says nothing of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// No certificate, or one that is damaged.
    #[error("there is no sound PEM certificate, which begins with a line -----BEGIN CERTIFICATE-----")]
    Certificate,
    /// No key, or one that can't be used.
    #[error("there is no unencrypted PEM key in PKCS #8, PKCS #1 or SEC 1")]
    Key,
    /// The key is another certificate's.
    #[error("the key is not that of the first certificate")]
    Apart,
}

/// What the service shows to clients. Clones of the [`Arc`] see it replaced at once; connections that stand go on.
pub struct ServerCertificate(RwLock<Arc<CertifiedKey>>);

impl ServerCertificate {
    /// A certificate, followed by those that vouch for it, and its key.
    pub fn from_pem(certificates: &str, key: &str) -> Result<Arc<Self>, CertificateError> {
        Ok(Arc::new(Self(RwLock::new(certified(certificates, key)?))))
    }

    /// Shows another one from now on; after an error, the one before as ever.
    pub fn replace(&self, certificates: &str, key: &str) -> Result<(), CertificateError> {
        let certified = certified(certificates, key)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certified;
        Ok(())
    }

    /// TLS 1.2 and 1.3, without certificates of clients.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let builder =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let shown: Arc<dyn ResolvesServerCert> = self.clone();
        Ok(builder.with_no_client_auth().with_cert_resolver(shown))
    }
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerCertificate(…)")
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certified(certificates: &str, key: &str) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_damaged| CertificateError::Certificate)?;
    if chain.is_empty() {
        return Err(CertificateError::Certificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_none| CertificateError::Key)?;
    match CertifiedKey::from_der(chain, key, &provider()) {
        Ok(certified) => Ok(Arc::new(certified)),
        Err(rustls::Error::InconsistentKeys(_)) => Err(CertificateError::Apart),
        Err(rustls::Error::InvalidCertificate(_)) => Err(CertificateError::Certificate),
        Err(_) => Err(CertificateError::Key),
    }
}
