//! Which URLs postbacks may go to. It owns the rules and their sentences, and must never look a name up.
//!
//! A URL is read as the WHATWG URL Standard says, by the library that the HTTP client reads it with, so `0x7f.1`,
//! `2130706433` and `127.0.0.1` are one address here as they are there. What the text seems to say and what is read must
//! be the same host: a URL that two readers could send to two places is refused.
//!
//! A fragment is let in and never sent (RFC 9110 §4.2.4 keeps it out of requests): receivers' URLs copied from a browser
//! have one at times.

use std::net::{IpAddr, Ipv6Addr};

use pix_domain::postbacks::send::{PostbackUrls, UrlRefusal};
use pix_domain::text::PostbackUrl;
use url::{Host, Url};

use crate::address::{Reach, reach};

/// The text is not a URL with a host.
pub const NOT_A_URL: &str = "not_a_url";
/// Another scheme than `https`, or `http` where that is not allowed.
pub const SCHEME_NOT_ALLOWED: &str = "scheme_not_allowed";
/// A user name or password stands before the host.
pub const USER_INFORMATION: &str = "user_information";
/// The host is an address that is not public.
pub const ADDRESS_NOT_PUBLIC: &str = "address_not_public";
/// The host is a name that only means something within a machine or a network.
pub const NAME_NOT_PUBLIC: &str = "name_not_public";
/// The host is no domain name.
pub const NAME_NOT_VALID: &str = "name_not_valid";
/// The name was looked up and has no public address. Only known when a postback is sent.
pub const NO_PUBLIC_ADDRESS: &str = "no_public_address";
/// The port is none of [`PORTS`].
pub const PORT_NOT_ALLOWED: &str = "port_not_allowed";
/// Readers of URLs differ about what the host is.
pub const AMBIGUOUS_HOST: &str = "ambiguous_host";

/// The ports that postbacks go to.
pub const PORTS: [u16; 3] = [80, 443, 8443];

/// Most characters of a domain name, and of a label of it (RFC 1035 §2.3.4).
const NAME_MAX_CHARS: usize = 253;
const LABEL_MAX_CHARS: usize = 63;

/// What names that end so are for, and who may have one. `example` is missing: documents and tests are full of it, and no
/// resolver knows it.
const SPECIAL_NAMES: &[(&str, Reach)] = &[
    ("localhost", Reach::Loopback),                            // RFC 6761 §6.3
    ("localdomain", Reach::Private("names of one machine")),   // the default of many a system
    ("local", Reach::Private("names of one link (RFC 6762)")), // multicast DNS
    ("internal", Reach::Private("names of one network (ICANN, 2024)")), // metadata.google.internal
    ("home.arpa", Reach::Private("names of one home (RFC 8375)")), // home networks
    ("test", Reach::Private("names of tests (RFC 6761)")),     // RFC 6761 §6.2
    ("invalid", Reach::Nobody("names that do not exist (RFC 6761)")), // RFC 6761 §6.4
    ("onion", Reach::Nobody("names outside of the internet (RFC 7686)")), // Tor
    ("alt", Reach::Nobody("names outside of the internet's DNS (RFC 9476)")), // whoever likes
];

/// Which addresses besides public ones postbacks may go to. Anything but [`PrivateAddresses::Never`] lets every port in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrivateAddresses {
    /// None. An integrator's URL can't be used to reach what stands beside the gateway.
    #[default]
    Never,
    /// This machine, by address or as `localhost`. For development.
    Loopback,
    /// Every network, and names without a dot. For closed test networks: a postback can then reach all that the gateway
    /// can. What no server has (multicast, `0.0.0.0`) stays refused.
    All,
}

/// The rules. The default is what production needs: `https`, public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UrlGuard {
    /// Lets `http` URLs in. Postbacks name people, and everybody on the way can read them then.
    pub allow_http: bool,
    /// What besides public addresses is let in.
    pub allow_private: PrivateAddresses,
}

impl PostbackUrls for UrlGuard {
    fn check(&self, url: &PostbackUrl) -> Result<(), UrlRefusal> {
        self.vet(url.as_str()).map(drop)
    }
}

impl UrlGuard {
    /// Reads a URL as it will be requested, if postbacks may go there as far as the text tells.
    pub fn vet(&self, text: &str) -> Result<Url, UrlRefusal> {
        let Ok(url) = Url::parse(text) else {
            return refuse(
                NOT_A_URL,
                "the text is not a URL with a host; write it as https://example.com/pix",
            );
        };
        self.check_scheme(&url)?;
        if !url.username().is_empty() || url.password().is_some() {
            return refuse(
                USER_INFORMATION,
                "a user name or password before the host is not sent; remove it, and put a token into the path if you need one",
            );
        }
        match url.host() {
            Some(Host::Ipv4(address)) => self.check_address(address.into())?,
            Some(Host::Ipv6(address)) => self.check_address(address.into())?,
            Some(Host::Domain(name)) => self.check_name(name)?,
            None => return refuse(NOT_A_URL, "the URL names no host; write it as https://example.com/pix"),
        }
        self.check_port(&url)?;
        check_spelling(text, &url)?;
        Ok(url)
    }

    /// Whether a postback may be sent to this very address.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.lets_in(reach(address))
    }

    fn lets_in(self, reach: Reach) -> bool {
        match reach {
            Reach::Public => true,
            Reach::Loopback => self.allow_private != PrivateAddresses::Never,
            Reach::Private(_) => self.allow_private == PrivateAddresses::All,
            Reach::Nobody(_) => false,
        }
    }

    fn check_scheme(self, url: &Url) -> Result<(), UrlRefusal> {
        match (url.scheme(), self.allow_http) {
            ("https", _) | ("http", true) => Ok(()),
            (_, false) => refuse(SCHEME_NOT_ALLOWED, "postbacks go out encrypted only; use an https:// URL"),
            (_, true) => refuse(SCHEME_NOT_ALLOWED, "the URL must start with https:// or http://"),
        }
    }

    fn check_address(self, address: IpAddr) -> Result<(), UrlRefusal> {
        let reach = reach(address);
        if self.lets_in(reach) {
            return Ok(());
        }
        let what = match reach {
            Reach::Public | Reach::Loopback => "the loopback of the gateway (RFC 1122)",
            Reach::Private(what) | Reach::Nobody(what) => what,
        };
        refuse(
            ADDRESS_NOT_PUBLIC,
            format!(
                "postbacks go to public addresses only, and {address} is {what}; use the address or name that your server has on the internet"
            ),
        )
    }

    fn check_name(self, name: &str) -> Result<(), UrlRefusal> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let fits = |label: &str| (1..=LABEL_MAX_CHARS).contains(&label.len());
        if name.len() > NAME_MAX_CHARS || !name.split('.').all(fits) {
            return refuse(
                NAME_NOT_VALID,
                format!(
                    "the host is no domain name: labels of 1 to {LABEL_MAX_CHARS} characters, {NAME_MAX_CHARS} in all; correct it"
                ),
            );
        }
        let ends_in = |special: &str| {
            name.strip_suffix(special).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let special = SPECIAL_NAMES.iter().find(|(special, _)| ends_in(special));
        let reach = match special {
            Some((_, reach)) => *reach,
            None if name.contains('.') => Reach::Public,
            None => Reach::Private("a name without a dot, which only a local network knows"),
        };
        if self.lets_in(reach) {
            return Ok(());
        }
        let why = match (special, reach) {
            (Some((special, _)), Reach::Private(what) | Reach::Nobody(what)) => {
                format!("names that end in {special} are {what}")
            }
            (None, Reach::Private(what) | Reach::Nobody(what)) => format!("{name} is {what}"),
            (_, Reach::Public | Reach::Loopback) => {
                "localhost is the gateway's own machine (RFC 6761)".to_owned()
            }
        };
        refuse(
            NAME_NOT_PUBLIC,
            format!(
                "postbacks go to public hosts only: {why}; use the name that your server has on the internet"
            ),
        )
    }

    fn check_port(self, url: &Url) -> Result<(), UrlRefusal> {
        match url.port_or_known_default() {
            Some(_) if self.allow_private != PrivateAddresses::Never => Ok(()),
            Some(port) if PORTS.contains(&port) => Ok(()),
            port => {
                let port = port.unwrap_or_default();
                let [first, second, third] = PORTS;
                refuse(
                    PORT_NOT_ALLOWED,
                    format!("postbacks do not go to port {port}; use port {second}, {third} or {first}"),
                )
            }
        }
    }
}

/// Whether the text says literally what was read from it.
fn check_spelling(text: &str, url: &Url) -> Result<(), UrlRefusal> {
    let same = written_host(text).is_some_and(|(host, port)| {
        let same_host = match url.host() {
            Some(Host::Ipv4(address)) => host == address.to_string(),
            Some(Host::Ipv6(address)) => {
                let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                inner.and_then(|inner| inner.parse::<Ipv6Addr>().ok()) == Some(address)
            }
            Some(Host::Domain(name)) => is_same_name(host, name),
            None => false,
        };
        same_host && (port.is_none() || port == url.port_or_known_default())
    });
    if same {
        return Ok(());
    }
    let read = url.host_str().unwrap_or_default();
    refuse(
        AMBIGUOUS_HOST,
        format!("programs differ about which host this URL names; if it is {read}, write it so"),
    )
}

/// Host and port as RFC 3986 §3.2 finds them: the authority ends at `/`, `?`, `#` or the end.
fn written_host(text: &str) -> Option<(&str, Option<u16>)> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let end_of_host = if authority.starts_with('[') { authority.find(']')?.saturating_add(1) } else { 0 };
    let (host, port) = match authority.get(end_of_host..)?.find(':') {
        None => (authority, None),
        Some(colon) => {
            let (host, port) = authority.split_at(end_of_host.saturating_add(colon));
            (host, Some(port.get(1..)?.parse().ok()?))
        }
    };
    Some((host, port))
}

/// Label by label the same, but for case; a label that is not ASCII must have become an `xn--` one (RFC 5891), and not
/// plain letters, as fullwidth ones do.
fn is_same_name(written: &str, read: &str) -> bool {
    let (written, read): (Vec<_>, Vec<_>) = (written.split('.').collect(), read.split('.').collect());
    written.len() == read.len()
        && written.iter().zip(read).all(|(written, read)| {
            if written.is_ascii() { written.eq_ignore_ascii_case(read) } else { read.starts_with("xn--") }
        })
}

fn refuse<T>(code: &'static str, message: impl Into<String>) -> Result<T, UrlRefusal> {
    Err(UrlRefusal { code, message: message.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTION: UrlGuard = UrlGuard { allow_http: false, allow_private: PrivateAddresses::Never };

    fn code(guard: UrlGuard, text: &str) -> &'static str {
        guard.vet(text).map_or_else(|refusal| refusal.code, |_| "let in")
    }

    #[test]
    fn every_rule_has_its_code_and_a_sentence_without_path_or_query() {
        let label = "a".repeat(64);
        let name = format!("https://{}.com/s3cret?s3cret", ["a".repeat(63).as_str(); 4].join("."));
        for (text, expected) in [
            ("s3cret", NOT_A_URL),
            ("https://1.2.3.400/s3cret?s3cret", NOT_A_URL),
            ("http://example.com/s3cret?s3cret", SCHEME_NOT_ALLOWED),
            ("ftp://example.com/s3cret", SCHEME_NOT_ALLOWED),
            ("unix:/s3cret", SCHEME_NOT_ALLOWED),
            ("https://s3cret@example.com/s3cret", USER_INFORMATION),
            ("https://:s3cret@example.com/s3cret", USER_INFORMATION),
            ("https://10.0.0.1/s3cret?s3cret", ADDRESS_NOT_PUBLIC),
            ("https://[::1]/s3cret?s3cret", ADDRESS_NOT_PUBLIC),
            ("https://localhost/s3cret?s3cret", NAME_NOT_PUBLIC),
            ("https://receiver/s3cret?s3cret", NAME_NOT_PUBLIC),
            ("https://x.onion/s3cret?s3cret", NAME_NOT_PUBLIC),
            ("https://a..example.com/s3cret", NAME_NOT_VALID),
            (&format!("https://{label}.com/s3cret"), NAME_NOT_VALID),
            (&name, NAME_NOT_VALID),
            ("https://example.com:22/s3cret?s3cret", PORT_NOT_ALLOWED),
            ("https://0x08080808/s3cret?s3cret", AMBIGUOUS_HOST),
            ("https://example.com\\/s3cret", AMBIGUOUS_HOST),
        ] {
            let refusal = PRODUCTION.vet(text).unwrap_err();
            assert_eq!(refusal.code, expected, "{text}: {}", refusal.message);
            assert!(!refusal.message.contains("s3cret"), "{}", refusal.message);
            assert!(refusal.message.contains([';', ':']), "what to do: {}", refusal.message);
        }
    }

    #[test]
    fn http_is_let_in_where_it_is_configured() {
        let guard = UrlGuard { allow_http: true, ..PRODUCTION };
        assert_eq!(code(guard, "http://example.com/x"), "let in");
        assert_eq!(code(guard, "https://example.com/x"), "let in");
        assert_eq!(code(guard, "ftp://example.com/x"), SCHEME_NOT_ALLOWED);
        assert_eq!(code(guard, "http://127.0.0.1/x"), ADDRESS_NOT_PUBLIC);
    }

    #[test]
    fn loopback_may_be_let_in_alone() {
        let guard = UrlGuard { allow_http: true, allow_private: PrivateAddresses::Loopback };
        for text in [
            "http://127.0.0.1:40123/x",
            "http://127.8.9.10:1/",
            "http://[::1]:3000/",
            "http://[::ffff:127.0.0.1]/",
            "http://localhost:3000/",
            "http://shop.localhost./",
            "https://example.com:4443/",
        ] {
            assert_eq!(code(guard, text), "let in", "{text}");
        }
        for (text, expected) in [
            ("http://10.0.0.1/", ADDRESS_NOT_PUBLIC),
            ("http://0.0.0.0:3000/", ADDRESS_NOT_PUBLIC),
            ("http://169.254.169.254/", ADDRESS_NOT_PUBLIC),
            ("http://[::7f00:1]/", ADDRESS_NOT_PUBLIC),
            ("http://[64:ff9b::7f00:1]/", ADDRESS_NOT_PUBLIC),
            ("http://metadata.google.internal/", NAME_NOT_PUBLIC),
            ("http://receiver/", NAME_NOT_PUBLIC),
            ("http://127.1/", AMBIGUOUS_HOST),
        ] {
            assert_eq!(code(guard, text), expected, "{text}");
        }
    }

    #[test]
    fn all_networks_may_be_let_in_but_not_what_no_server_has() {
        let guard = UrlGuard { allow_http: true, allow_private: PrivateAddresses::All };
        for text in [
            "http://10.0.0.1:3000/",
            "http://[fd00::1]:3000/",
            "http://receiver:8080/",
            "http://receiver.internal/",
            "http://localhost:1/",
        ] {
            assert_eq!(code(guard, text), "let in", "{text}");
        }
        for text in ["http://0.0.0.0/", "http://224.0.0.1/", "http://255.255.255.255/", "http://[ff02::1]/"] {
            assert_eq!(code(guard, text), ADDRESS_NOT_PUBLIC, "{text}");
        }
        assert_eq!(code(guard, "http://x.invalid/"), NAME_NOT_PUBLIC);
    }

    #[test]
    fn what_is_written_and_what_is_read_is_one_host() {
        for text in [
            "https://EXAMPLE.com:443/",
            "https://example.com.:00443/x",
            "https://[2606:4700:4700:0:0:0:0:1111]/",
            "https://[2606:4700:4700::1.2.3.4]/",
            "https://pagamentos-ção.example.com/",
            "https://xn--bcher-kva.example.com",
            "https://example.com#x",
            "https://example.com?x:y@z",
        ] {
            assert_eq!(code(PRODUCTION, text), "let in", "{text}");
        }
        for text in [
            "https://ｅxample.com/",
            "https://example。com/",
            "https://exam\tple.com/",
            " https://example.com",
            "https:example.com",
            "https:\\\\example.com",
            "https://ex%61mple.com",
            "https://8.8.2056/",
            "https://8.8.8.8./",
            "https://010.8.8.8/",
        ] {
            let expected = if text.starts_with(' ') { "let in" } else { AMBIGUOUS_HOST };
            assert_eq!(code(PRODUCTION, text), expected, "{text}");
        }
    }
}
