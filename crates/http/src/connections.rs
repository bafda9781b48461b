//! How many connections there may be, in all and of one client, and what each is bound to.
//!
//! The server has a deadline for the head of a request and for idle connections; bodies have theirs in [`crate::body`].
//! For an answer that nobody reads it has none, and waits for as long as the peer keeps the connection alive. So the
//! kernel is told (`TCP_USER_TIMEOUT`) to break a connection whose peer has acknowledged nothing, or has had no room for
//! more, for that long. A peer that reads, however slowly, is not cut: it holds no place, for its request is done.

use std::any::Any;
use std::collections::HashMap;
use std::net::IpAddr;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use socket2::SockRef;

use crate::config::{HttpConfig, ProxyRange};
use crate::limits::network;
use crate::overload::count_shed;

/// All connections of the service.
pub(crate) struct Connections {
    most: usize,
    most_of_one: usize,
    trusted: Vec<ProxyRange>,
    unread_deadline: Duration,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    all: usize,
    of: HashMap<IpAddr, usize>,
}

impl Open {
    fn leave(&mut self, network: Option<IpAddr>) {
        self.all = self.all.saturating_sub(1);
        let Some(network) = network else { return };
        if let Some(count) = self.of.get_mut(&network) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.of.remove(&network);
            }
        }
    }
}

/// A connection that is counted until this is dropped, with the connection.
struct Counted {
    connections: Arc<Connections>,
    network: Option<IpAddr>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.open().leave(self.network);
    }
}

impl Connections {
    pub(crate) fn new(config: &HttpConfig) -> Self {
        Self {
            most: config.connections,
            most_of_one: config.connections_per_client,
            trusted: config.trusted_proxies.clone(),
            unread_deadline: config.unread_deadline,
            open: Mutex::default(),
        }
    }

    /// Whatever panicked meanwhile, numbers are numbers.
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection that was made, and closes it if it is one too many: there is no answer to give yet, and to
    /// wait for a question would hold what is short.
    pub(crate) fn admit(self: &Arc<Self>, connection: &dyn Any, held: &mut Extensions) {
        let encrypted = connection.downcast_ref::<TlsStream<TcpStream>>().map(|stream| stream.get_ref().0);
        let Some(stream) = connection.downcast_ref::<TcpStream>().or(encrypted) else { return };
        let socket = SockRef::from(stream);
        let peer = stream.peer_addr().ok().map(|address| address.ip().to_canonical());
        if let Some(counted) = self.count(peer) {
            held.insert(counted);
            if let Err(error) = socket.set_tcp_user_timeout(Some(self.unread_deadline)) {
                tracing::debug!(%error, "a connection was gone before it was looked at");
            }
        } else {
            count_shed("connection");
            // The server sees the end of it, and closes it.
            drop(socket.shutdown(Shutdown::Both));
        }
    }

    /// None if there are too many. Behind a trusted proxy are many clients, which no connection is of.
    fn count(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<Counted> {
        let proxied = |peer: &IpAddr| self.trusted.iter().any(|range| range.contains(*peer));
        let network = peer.filter(|peer| !proxied(peer)).map(network);
        let mut open = self.open();
        if open.all >= self.most {
            return None;
        }
        if let Some(network) = network {
            let count = open.of.entry(network).or_default();
            if *count >= self.most_of_one {
                return None;
            }
            *count += 1;
        }
        open.all += 1;
        Some(Counted { connections: self.clone(), network })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(change: impl FnOnce(&mut HttpConfig)) -> Arc<Connections> {
        let mut config = HttpConfig::new("https://pix.example", "0123456789abcdef");
        (config.connections, config.connections_per_client) = (3, 2);
        change(&mut config);
        Arc::new(Connections::new(&config))
    }

    fn count(all: &Arc<Connections>, peer: &str) -> Option<Counted> {
        all.count(Some(peer.parse().unwrap()))
    }

    #[test]
    fn a_client_has_so_many_and_all_have_so_many_together() {
        let all = connections(|_config| {});
        let _first = count(&all, "192.0.2.1").unwrap();
        let second = count(&all, "192.0.2.1").unwrap();
        assert!(count(&all, "192.0.2.1").is_none());
        let _third = count(&all, "192.0.2.2").unwrap();
        assert!(count(&all, "192.0.2.3").is_none());
        drop(second);
        assert!(count(&all, "192.0.2.1").is_some());
        assert_eq!(all.open().all, 2);
    }

    #[test]
    fn a_client_of_ipv6_is_its_network_and_nothing_is_kept_of_who_left() {
        let all = connections(|_config| {});
        let both = ["2001:db8::1", "2001:db8::2"].map(|peer| count(&all, peer).unwrap());
        assert!(count(&all, "2001:db8::3").is_none());
        drop(both);
        assert!(all.open().of.is_empty());
    }

    #[test]
    fn a_trusted_proxy_has_as_many_as_there_are() {
        let all = connections(|config| config.trusted_proxies = vec!["192.0.2.1".parse().unwrap()]);
        let held: Vec<_> = std::iter::from_fn(|| count(&all, "192.0.2.1")).collect();
        assert_eq!(held.len(), 3);
    }
}
