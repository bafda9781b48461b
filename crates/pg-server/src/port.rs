//! Ports of loopback that stay ours while a server is down. A port is held by binding its UDP twin, which the server
//! doesn't need and which the kernel gives back when this process ends; every process that asks here sees it.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;

use crate::error::PgServerError;

/// Below the range from which Linux takes the ports of outgoing connections: one of those could sit on our port while
/// the server is down.
const RANGE: Range<u16> = 20_000..32_000;
const ATTEMPTS: usize = 200;

/// A port of 127.0.0.1 that nobody listened on when it was reserved, and that no other [`Port`] of this machine has until
/// this is dropped. Connections and listeners that ask the kernel for any port don't get it either.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _held: UdpSocket,
}

impl Port {
    /// Reserves a random free one.
    pub fn reserve() -> Result<Self, PgServerError> {
        (0..ATTEMPTS).find_map(|_| Self::claim(fastrand::u16(RANGE))).ok_or(PgServerError::NoPort(ATTEMPTS))
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    fn claim(number: u16) -> Option<Self> {
        let held = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_given_twice() {
        let port = Port::reserve().unwrap();
        assert!(Port::claim(port.number()).is_none());
        let number = port.number();
        drop(port);
        assert!(Port::claim(number).is_some());
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_not_claimed() {
        let (port, listener) = std::iter::repeat_with(|| Port::reserve().unwrap().number())
            .find_map(|port| Some((port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?)))
            .unwrap();
        assert!(Port::claim(port).is_none());
        drop(listener);
    }
}
