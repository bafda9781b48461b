//! Which addresses are public. It owns the tables of special blocks, and must never know a URL or a name.
//!
//! Sources: IANA's IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890, updated by RFC 8190), read in 2026-11.
//! Every block of theirs is refused, also the few that the registries call globally reachable (AS112, AMT, anycast of
//! protocols): nobody's server has an address there. Of IPv6 only `2000::/3` is public (RFC 4291 §2.4, as allocated by
//! IANA), less the special blocks within it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far away an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Anybody on the internet may have it.
    Public,
    /// This machine.
    Loopback,
    /// Some network, but not the internet. What kind of.
    Private(&'static str),
    /// No server has it: it names no host, or many. What it is instead.
    Nobody(&'static str),
}

struct Block<A> {
    start: A,
    bits: u32,
    reach: Reach,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u32, reach: Reach) -> Block<Ipv4Addr> {
    Block { start: Ipv4Addr::new(a, b, c, d), bits, reach }
}

const fn v6(start: [u16; 4], bits: u32, reach: Reach) -> Block<Ipv6Addr> {
    let [a, b, c, d] = start;
    Block { start: Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), bits, reach }
}

const V4: &[Block<Ipv4Addr>] = &[
    v4(0, 0, 0, 0, 8, Reach::Nobody("\"this network\" (RFC 791)")),
    v4(10, 0, 0, 0, 8, Reach::Private("a private network (RFC 1918)")),
    v4(100, 64, 0, 0, 10, Reach::Private("a carrier's shared network (RFC 6598)")),
    v4(127, 0, 0, 0, 8, Reach::Loopback),
    v4(169, 254, 0, 0, 16, Reach::Private("a link-local network (RFC 3927)")),
    v4(172, 16, 0, 0, 12, Reach::Private("a private network (RFC 1918)")),
    v4(192, 0, 0, 0, 24, Reach::Private("a block kept for protocols (RFC 6890)")),
    v4(192, 0, 2, 0, 24, Reach::Private("a block kept for documents (RFC 5737)")),
    v4(192, 31, 196, 0, 24, Reach::Private("a block of AS112 (RFC 7535)")),
    v4(192, 52, 193, 0, 24, Reach::Private("a block of multicast relays (RFC 7450)")),
    v4(192, 88, 99, 0, 24, Reach::Private("a block of 6to4 relays (RFC 7526)")),
    v4(192, 168, 0, 0, 16, Reach::Private("a private network (RFC 1918)")),
    v4(192, 175, 48, 0, 24, Reach::Private("a block of AS112 (RFC 7534)")),
    v4(198, 18, 0, 0, 15, Reach::Private("a block kept for benchmarks (RFC 2544)")),
    v4(198, 51, 100, 0, 24, Reach::Private("a block kept for documents (RFC 5737)")),
    v4(203, 0, 113, 0, 24, Reach::Private("a block kept for documents (RFC 5737)")),
    v4(224, 0, 0, 0, 4, Reach::Nobody("a multicast group (RFC 5771)")),
    v4(240, 0, 0, 0, 4, Reach::Nobody("a reserved or broadcast address (RFC 1112)")),
    // Not in the registry: a public address that within Azure is the platform itself, with the machine's certificates.
    v4(168, 63, 129, 16, 32, Reach::Private("the platform of a cloud")),
];

const V6: &[Block<Ipv6Addr>] = &[
    // An IPv4 address in its last 32 bits, but of a translator that is not for the whole internet.
    v6([0x64, 0xff9b, 1, 0], 48, Reach::Private("a translator's own network (RFC 8215)")),
    v6([0x100, 0, 0, 0], 64, Reach::Nobody("the discard block (RFC 6666)")),
    v6([0x100, 0, 0, 1], 64, Reach::Nobody("the dummy prefix (RFC 9780)")),
    // Teredo (2001::/32) with an IPv4 address inside, ORCHID, benchmarks, and what else IETF protocols got.
    v6([0x2001, 0, 0, 0], 23, Reach::Private("a block kept for protocols (RFC 2928)")),
    v6([0x2001, 0xdb8, 0, 0], 32, Reach::Private("a block kept for documents (RFC 3849)")),
    // 6to4, with an IPv4 address inside: no relay of it is left (RFC 7526).
    v6([0x2002, 0, 0, 0], 16, Reach::Private("a 6to4 network (RFC 3056)")),
    v6([0x2620, 0x4f, 0x8000, 0], 48, Reach::Private("a block of AS112 (RFC 7534)")),
    v6([0x3fff, 0, 0, 0], 20, Reach::Private("a block kept for documents (RFC 9637)")),
    v6([0x5f00, 0, 0, 0], 16, Reach::Private("a segment routing network (RFC 9602)")),
    v6([0xfc00, 0, 0, 0], 7, Reach::Private("a private network (RFC 4193)")),
    v6([0xfe80, 0, 0, 0], 10, Reach::Private("a link-local network (RFC 4291)")),
    v6([0xfec0, 0, 0, 0], 10, Reach::Private("a site-local network (RFC 3879)")),
    v6([0xff00, 0, 0, 0], 8, Reach::Nobody("a multicast group (RFC 4291)")),
];

/// How far away `address` is.
pub(crate) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let within = |block: &&Block<Ipv4Addr>| {
        let shift = u32::BITS.saturating_sub(block.bits);
        address.to_bits() >> shift == block.start.to_bits() >> shift
    };
    V4.iter().find(within).map_or(Reach::Public, |block| block.reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    // ::ffff:0:0/96: a connection there leaves as IPv4 (RFC 4291 §2.5.5.2).
    if let Some(inner) = address.to_ipv4_mapped() {
        return reach_v4(inner);
    }
    if address == Ipv6Addr::LOCALHOST {
        return Reach::Loopback;
    }
    if address == Ipv6Addr::UNSPECIFIED {
        return Reach::Nobody("no address (RFC 4291)");
    }
    // 64:ff9b::/96: what a network without IPv4 sees every IPv4 server as (RFC 6052 §2.1). Its loopback is not ours.
    if let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = address.segments() {
        let inner = Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low));
        return match reach_v4(inner) {
            Reach::Loopback => Reach::Private("the loopback of a translator (RFC 6052)"),
            other => other,
        };
    }
    let within = |block: &&Block<Ipv6Addr>| {
        let shift = u128::BITS.saturating_sub(block.bits);
        address.to_bits() >> shift == block.start.to_bits() >> shift
    };
    if let Some(block) = V6.iter().find(within) {
        return block.reach;
    }
    // Global unicast, 2000::/3.
    if address.to_bits() >> 125 == 1 {
        Reach::Public
    } else {
        Reach::Private("outside of the public IPv6 space (RFC 4291)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Reach {
        reach(address.parse().unwrap())
    }

    #[test]
    fn the_internet_is_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "3ffe:ffff::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(of(address), Reach::Public, "{address}");
        }
    }

    #[test]
    fn the_first_and_last_address_of_every_special_block_is_not_public() {
        for block in V4 {
            let rest = u32::MAX.checked_shr(block.bits).unwrap_or(0);
            for bits in [block.start.to_bits(), block.start.to_bits() | rest] {
                let address = Ipv4Addr::from_bits(bits);
                assert_eq!(reach(address.into()), block.reach, "{address}");
                assert_eq!(reach(address.to_ipv6_mapped().into()), block.reach, "{address} mapped");
                let [a, b, c, d] = address.octets();
                let translated = format!("64:ff9b::{a}.{b}.{c}.{d}");
                assert!(!matches!(of(&translated), Reach::Public | Reach::Loopback), "{translated}");
            }
        }
        for block in V6 {
            let rest = u128::MAX.checked_shr(block.bits).unwrap_or(0);
            for bits in [block.start.to_bits(), block.start.to_bits() | rest] {
                let address = Ipv6Addr::from_bits(bits);
                assert_eq!(reach(address.into()), block.reach, "{address}");
            }
        }
    }

    #[test]
    fn loopback_is_told_from_what_is_merely_private() {
        for address in ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(address), Reach::Loopback, "{address}");
        }
        for address in ["::127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::", "fe80::1", "4000::1", "1::1"] {
            assert!(matches!(of(address), Reach::Private(_)), "{address}");
        }
        for address in ["0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "::", "ff02::1"] {
            assert!(matches!(of(address), Reach::Nobody(_)), "{address}");
        }
    }
}
