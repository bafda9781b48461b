//! Ranges of IP addresses: a value, and no socket.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::invalid::Invalid;

/// How many bits of an IPv6 address stand before the IPv4 address that is mapped into it (RFC 4291 §2.5.5.2).
const MAPPED_PREFIX: u8 = 96;

/// A range of addresses in CIDR form: `10.0.0.0/8`, `fd00::/8`, or one address. What an address has behind the prefix is
/// left out: `10.1.2.3/8` is `10.0.0.0/8`. A range of IPv4 addresses mapped into IPv6 is the range of IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpRange {
    network: IpAddr,
    prefix: u8,
}

impl IpRange {
    fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let (address, prefix) = match (address, address.to_canonical()) {
            (IpAddr::V6(_), IpAddr::V4(mapped)) if prefix >= MAPPED_PREFIX => {
                (IpAddr::V4(mapped), prefix.saturating_sub(MAPPED_PREFIX))
            }
            _ => (address, prefix),
        };
        (prefix <= bits(address)).then(|| Self { network: masked(address, prefix), prefix })
    }

    /// Whether `address` lies within. An IPv4 address mapped into IPv6 is the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4() && masked(address, self.prefix) == self.network
    }
}

/// How many bits an address of that family has.
const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// `address` with nothing but zeros behind the first `prefix` bits.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let behind = u32::from(bits(address).saturating_sub(prefix));
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

impl FromStr for IpRange {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused =
            || Invalid::format("must be an address or a CIDR range such as 203.0.113.0/24 or 2001:db8::/48");
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_not_an_address| refused())?;
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_not_a_number| refused())?,
            None => bits(address),
        };
        if prefix > bits(address) {
            return Err(refused());
        }
        Self::new(address, prefix).ok_or_else(refused)
    }
}

/// One address without its prefix, else CIDR.
impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == bits(self.network) {
            write!(f, "{}", self.network)
        } else {
            write!(f, "{}/{}", self.network, self.prefix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> IpRange {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_hold_their_addresses_and_no_others() {
        let holds = |text: &str, address: &str| range(text).contains(address.parse().unwrap());
        assert!(holds("10.0.0.0/8", "10.255.0.1"));
        assert!(!holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(holds("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(!holds("::ffff:10.0.0.0/104", "11.1.2.3"));
        assert!(holds("0.0.0.0/0", "203.0.113.9"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!(!holds("::/0", "203.0.113.9"));
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.8"));
        assert!(holds("2001:db8::/48", "2001:db8:0:ffff::1"));
        assert!(!holds("2001:db8::/48", "2001:db8:1::1"));
        assert!(!holds("fd00::/8", "10.0.0.1"));
    }

    #[test]
    fn a_range_is_shown_as_it_is_kept() {
        for (given, shown) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:DB8::1/48", "2001:db8::/48"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(range(given).to_string(), shown);
            assert_eq!(range(shown), range(given));
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in
            ["", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "x/8", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.1 "]
        {
            assert!(text.parse::<IpRange>().is_err(), "{text}");
        }
    }
}
