//! Names to addresses, less those that postbacks must not go to. The client connects to what comes out of here and asks
//! nobody again, so a name that says something public when it is checked and something else when it is connected to
//! (DNS rebinding) gains nothing.
//!
//! The client does not come here for a host that is an address already: those are for [`UrlGuard::vet`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use pix_domain::postbacks::send::UrlRefusal;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;
use tokio::net::lookup_host;
use tokio::sync::Semaphore;

use crate::guard::{NO_PUBLIC_ADDRESS, UrlGuard};

/// How many names are looked up at once. Each takes one of the 512 threads that tokio keeps for what blocks, for half a
/// minute when no name server answers: this leaves half of them to others.
pub const MAX_LOOKUPS: usize = 256;
/// The most addresses of a name that are tried.
pub const MAX_ADDRESSES: usize = 8;

/// How a name is looked up.
///
/// An implementation MUST ask anew each time, or keep an answer no longer than it may be kept. It need not judge it.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// The addresses of `host`, in the order in which they are to be tried.
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system.
#[derive(Debug, Clone)]
pub struct SystemLookup {
    permits: Arc<Semaphore>,
}

impl Default for SystemLookup {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(io::Error::other)?;
        let host = host.to_owned();
        // A task of its own: the system goes on looking when the caller has given up, and keeps its permit meanwhile.
        let looking = tokio::spawn(async move {
            let _permit = permit;
            let found = lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        });
        looking.await.map_err(io::Error::other)?
    }
}

/// Why a name has no address to connect to.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// It has addresses, and postbacks must go to none of them. They are not named: what a name means within the
    /// gateway's network is nobody's business.
    #[error(
        "postbacks go to public addresses only, and {host} has none; change its DNS records, or use another URL"
    )]
    NonePublic {
        /// The name.
        host: String,
    },
    /// It has no address.
    #[error("{host} has no address; check its DNS records")]
    NoAddress {
        /// The name.
        host: String,
    },
    /// It can't be looked up.
    #[error("{host} cannot be looked up; check its DNS records")]
    Lookup {
        /// The name.
        host: String,
        /// What the lookup said.
        source: io::Error,
    },
}

impl ResolveError {
    /// The refusal that it is, if it is one.
    pub(crate) fn refusal(&self) -> Option<UrlRefusal> {
        matches!(self, Self::NonePublic { .. })
            .then(|| UrlRefusal { code: NO_PUBLIC_ADDRESS, message: self.to_string() })
    }
}

/// Looks a name up, and keeps what the guard allows.
#[derive(Clone)]
pub struct GuardedResolver {
    guard: UrlGuard,
    lookup: Arc<dyn Lookup>,
}

impl GuardedResolver {
    /// A resolver that takes what `lookup` finds and `guard` allows.
    pub fn new(guard: UrlGuard, lookup: Arc<dyn Lookup>) -> Self {
        Self { guard, lookup }
    }

    /// The addresses of `host` that postbacks may go to: one at least, [`MAX_ADDRESSES`] at most.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let named = || host.to_owned();
        let found = self.lookup.lookup(host).await;
        let found = found.map_err(|source| ResolveError::Lookup { host: named(), source })?;
        if found.is_empty() {
            return Err(ResolveError::NoAddress { host: named() });
        }
        let allowed = found.into_iter().filter(|address| self.guard.allows(*address));
        let allowed: Vec<_> = allowed.take(MAX_ADDRESSES).collect();
        if allowed.is_empty() { Err(ResolveError::NonePublic { host: named() }) } else { Ok(allowed) }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str()).await?;
            // Port 0 stands for the one of the URL.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::PrivateAddresses;

    struct Always(Vec<&'static str>);

    #[async_trait]
    impl Lookup for Always {
        async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.iter().map(|address| address.parse().unwrap()).collect())
        }
    }

    async fn kept(guard: UrlGuard, answer: Vec<&'static str>) -> Result<Vec<String>, ResolveError> {
        let resolver = GuardedResolver::new(guard, Arc::new(Always(answer)));
        let kept = resolver.addresses("hook.example.com").await?;
        Ok(kept.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn of_a_mixed_answer_the_public_part_is_kept() {
        let answer = vec!["10.0.0.1", "8.8.8.8", "::1", "fd00::1", "2606:4700::1111", "::ffff:127.0.0.1"];
        let kept_of = |guard| kept(guard, answer.clone());
        assert_eq!(kept_of(UrlGuard::default()).await.unwrap(), ["8.8.8.8", "2606:4700::1111"]);
        let loopback = UrlGuard { allow_private: PrivateAddresses::Loopback, ..UrlGuard::default() };
        assert_eq!(
            kept_of(loopback).await.unwrap(),
            ["8.8.8.8", "::1", "2606:4700::1111", "::ffff:127.0.0.1"]
        );
        let all = UrlGuard { allow_private: PrivateAddresses::All, ..UrlGuard::default() };
        assert_eq!(kept_of(all).await.unwrap().len(), 6);
    }

    #[tokio::test]
    async fn a_name_without_a_public_address_is_refused_without_telling_what_it_has() {
        let error = kept(UrlGuard::default(), vec!["10.1.2.3", "fe80::1"]).await.unwrap_err();
        let refusal = error.refusal().unwrap();
        assert_eq!(refusal.code, NO_PUBLIC_ADDRESS);
        assert!(refusal.message.contains("hook.example.com"), "{}", refusal.message);
        assert!(!format!("{error:?} {error}").contains("10.1.2.3"));
    }

    #[tokio::test]
    async fn no_answer_is_no_refusal() {
        let error = kept(UrlGuard::default(), vec![]).await.unwrap_err();
        assert!(matches!(error, ResolveError::NoAddress { .. }) && error.refusal().is_none());
    }

    #[tokio::test]
    async fn many_addresses_are_cut() {
        assert_eq!(kept(UrlGuard::default(), vec!["8.8.8.8"; 500]).await.unwrap().len(), MAX_ADDRESSES);
    }

    #[tokio::test]
    async fn the_system_knows_this_machine() {
        let found = SystemLookup::default().lookup("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
