//! Where postbacks never go: every line of `hostile_urls.txt`, and whatever else can be thought of.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::collections::BTreeSet;
use std::net::IpAddr;

use pix_domain::postbacks::send::PostbackUrls;
use pix_domain::text::PostbackUrl;
use pix_notifications::{PrivateAddresses, UrlGuard};
use proptest::prelude::*;
use url::Host;

const HOSTILE: &str = include_str!("hostile_urls.txt");
const LEAST: usize = 300;
const PRODUCTION: UrlGuard = UrlGuard { allow_http: false, allow_private: PrivateAddresses::Never };
const UNENCRYPTED: UrlGuard = UrlGuard { allow_http: true, ..PRODUCTION };

/// Every hostile URL with the code that it is refused with.
fn hostile() -> Vec<(&'static str, String)> {
    let mut code = "";
    let mut found = Vec::new();
    for line in HOSTILE.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        if let Some(heading) = line.strip_prefix("== ").and_then(|line| line.strip_suffix(" ==")) {
            code = heading;
        } else {
            let escaped = line.strip_prefix("json:");
            let url = escaped.map_or_else(|| line.to_owned(), |text| serde_json::from_str(text).unwrap());
            found.push((code, url));
        }
    }
    found
}

/// The code of what refuses a URL first.
fn refusal(guard: UrlGuard, text: &str) -> Option<&'static str> {
    match PostbackUrl::parse(text) {
        Err(invalid) => Some(invalid.code),
        Ok(url) => guard.check(&url).err().map(|refusal| refusal.code),
    }
}

#[test]
fn every_hostile_url_is_refused_for_the_reason_it_is_hostile() {
    let hostile = hostile();
    let different: BTreeSet<_> = hostile.iter().map(|(_, url)| url).collect();
    assert!(different.len() >= LEAST, "only {} hostile URLs", different.len());
    assert_eq!(different.len(), hostile.len(), "some are there twice");
    let mut wrong = Vec::new();
    for (code, url) in &hostile {
        let refused = refusal(PRODUCTION, url);
        if refused != Some(code) {
            wrong.push(format!("{url:?} should be {code} and is {refused:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn none_is_let_in_where_encryption_is_not_asked_for() {
    for (code, url) in hostile().iter().filter(|(code, _)| *code != "scheme_not_allowed") {
        let unencrypted = url.replacen("https:", "http:", 1);
        for url in [url, &unencrypted] {
            assert!(
                refusal(UNENCRYPTED, url).is_some_and(|refused| refused != "scheme_not_allowed"),
                "{url:?} {code}"
            );
        }
    }
}

#[test]
fn none_is_let_in_by_being_written_in_capitals() {
    for (_, url) in hostile() {
        let capitals = url.to_ascii_uppercase();
        assert!(refusal(PRODUCTION, &capitals).is_some(), "{capitals:?}");
    }
}

#[test]
fn what_integrators_use_is_let_in() {
    for url in [
        "https://example.com",
        "https://example.com/",
        "https://example.com./pix",
        "https://example.com:443/pix",
        "https://example.com:8443/pix",
        "https://example.com:80/pix",
        "HTTPS://Example.COM/Pix",
        "https://loja.example/postback",
        "https://hooks.loja.com.br/pix/v2?token=abc&x=%2F#top",
        "https://loja.com.br/index.php?route=pix/callback&a[]=1",
        "https://loja.com.br/pix;jsessionid=1?u=https://127.0.0.1/",
        "https://loja.com.br/@user:pw",
        "https://loja.com.br?e=a@b.co",
        "https://loja.com.br/\\x",
        "https://pagamentos-ção.com.br/",
        "https://xn--bcher-kva.example.com/",
        "https://my_shop.example.com/",
        "https://a-b--c.example.com/",
        "https://10.example.com/",
        "https://127.0.0.1.nip.io/",
        "https://localhost.example.com/",
        "https://internal.example.com/",
        "https://x.notlocal/",
        "https://mylocalhost.com/",
        "https://8.8.8.8/",
        "https://8.8.8.8:8443/pix",
        "https://1.1.1.1",
        "https://172.15.255.255/",
        "https://172.32.0.0/",
        "https://192.167.255.255/",
        "https://100.128.0.1/",
        "https://[2606:4700:4700::1111]/",
        "https://[2606:4700:4700:0000:0000:0000:0000:1111]:8443/",
        "https://[2001:4860:4860::8888]/",
        "https://[2A00:1450::1]/",
        "https://[::ffff:8.8.8.8]/",
        "https://[::ffff:808:808]/",
        "https://[64:ff9b::8.8.8.8]/",
    ] {
        assert_eq!(refusal(PRODUCTION, url), None, "{url}");
    }
}

/// Whether an address is on the internet, from the registries' text: the digits of IPv4, the written-out groups of IPv6.
fn is_on_the_internet(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            let special = a == 0
                || a == 10
                || a == 127
                || a >= 224
                || (a == 100 && b & 0xc0 == 64)
                || (a == 169 && b == 254)
                || (a == 172 && b & 0xf0 == 16)
                || (a == 192 && b == 168)
                || (a == 198 && b & 0xfe == 18)
                || (a == 168 && b == 63 && c == 129 && d == 16)
                || matches!(
                    (a, b, c),
                    (192, 0, 0 | 2)
                        | (192, 31, 196)
                        | (192, 52, 193)
                        | (192, 88, 99)
                        | (192, 175, 48)
                        | (198, 51, 100)
                        | (203, 0, 113)
                );
            !special
        }
        IpAddr::V6(address) => {
            let groups = address.segments().map(|group| format!("{group:04x}"));
            let hex = groups.concat();
            let inner = ["00000000000000000000ffff", "0064ff9b0000000000000000"]
                .iter()
                .find_map(|prefix| hex.strip_prefix(prefix));
            if let Some(inner) = inner {
                let bits = u32::from_str_radix(inner, 16).unwrap();
                return is_on_the_internet(IpAddr::V4(bits.into()));
            }
            let special = ["20010", "20011", "20010db8", "2002", "2620004f8000", "3fff0"];
            (hex.starts_with('2') || hex.starts_with('3'))
                && !special.iter().any(|prefix| {
                    // 2001::/23 ends within a digit: 2001:0000 to 2001:01ff.
                    if prefix.len() == 5 && prefix.starts_with("2001") {
                        hex.starts_with("200100") || hex.starts_with("200101")
                    } else {
                        hex.starts_with(prefix)
                    }
                })
        }
    }
}

fn octet() -> impl Strategy<Value = u8> {
    prop_oneof![
        any::<u8>(),
        prop::sample::select(vec![0, 10, 100, 127, 169, 172, 192, 198, 203, 224, 254, 255])
    ]
}

/// IPv4 addresses, more of them near special blocks, in a spelling that somebody may try.
fn ipv4_text() -> impl Strategy<Value = String> {
    ([octet(), octet(), octet(), octet()], 0..6).prop_map(|([a, b, c, d], spelling)| {
        let bits = u32::from_be_bytes([a, b, c, d]);
        match spelling {
            0 => format!("{bits}"),
            1 => format!("0x{bits:x}"),
            2 => format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
            3 => format!("{a}.{}", bits & 0xff_ffff),
            _ => format!("{a}.{b}.{c}.{d}"),
        }
    })
}

fn group() -> impl Strategy<Value = u16> {
    let known = vec![
        0, 1, 0x64, 0x100, 0x1ff, 0x200, 0x2001, 0xdb8, 0x2002, 0x2606, 0x2620, 0x4f, 0x8000, 0x3fff, 0x5f00,
        0x7f00, 0xa00, 0xa9fe, 0xc0a8, 0xfc00, 0xfe80, 0xff02, 0xff9b, 0xffff, 0x808,
    ];
    prop_oneof![any::<u16>(), prop::sample::select(known.clone()), prop::sample::select(known)]
}

fn ipv6_text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::array::uniform8(group())
            .prop_map(|groups| { format!("[{}]", groups.map(|group| format!("{group:x}")).join(":")) }),
        ([octet(), octet(), octet(), octet()], prop::sample::select(vec!["::ffff:", "64:ff9b::", "::"]))
            .prop_map(|([a, b, c, d], prefix)| format!("[{prefix}{a}.{b}.{c}.{d}]")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_makes_the_guard_panic(
        text in any::<String>(),
        part in "[a-z0-9.:@\\\\/\\[\\]%#?_。１xX-]{0,40}",
    ) {
        for text in [text.clone(), format!("https://{text}"), format!("https://{part}"), part] {
            for guard in [PRODUCTION, UNENCRYPTED] {
                if let Err(refusal) = guard.vet(&text) {
                    prop_assert!(!refusal.code.is_empty() && !refusal.message.is_empty());
                }
            }
        }
    }

    #[test]
    fn what_is_let_in_is_on_the_internet(part in "[a-z0-9.:xX。１\\[\\]-]{1,24}") {
        check_let_in(&format!("https://{part}/"))?;
    }

    #[test]
    fn an_address_is_let_in_only_if_it_is_on_the_internet(host in prop_oneof![ipv4_text(), ipv6_text()]) {
        check_let_in(&format!("https://{host}/"))?;
        let guard = PRODUCTION;
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            prop_assert_eq!(guard.allows(address), is_on_the_internet(address), "{}", address);
            let let_in = refusal(guard, &format!("https://{host}/")).is_none();
            prop_assert_eq!(let_in, is_on_the_internet(address), "{}", address);
        }
    }
}

fn check_let_in(text: &str) -> Result<(), TestCaseError> {
    let Ok(url) = PRODUCTION.vet(text) else { return Ok(()) };
    prop_assert_eq!(url.scheme(), "https");
    prop_assert!([80, 443, 8443].contains(&url.port_or_known_default().unwrap()), "{}", text);
    match url.host().unwrap() {
        Host::Ipv4(address) => prop_assert!(is_on_the_internet(address.into()), "{}", text),
        Host::Ipv6(address) => prop_assert!(is_on_the_internet(address.into()), "{}", text),
        Host::Domain(name) => {
            let labels: Vec<_> = name.trim_end_matches('.').split('.').collect();
            prop_assert!(labels.len() > 1 && !labels[labels.len() - 1].starts_with("local"), "{}", text);
        }
    }
    Ok(())
}
