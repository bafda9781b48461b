//! What no gateway may be started with, though every value is within its bounds; and what an operator should know of.
//!
//! What the database itself would do wrong (a crash that loses a commit, a standby, a schema that isn't known) is refused
//! where it is opened; a second server on one SQLite file, and another provider than before, where `serve` begins.

use std::net::{IpAddr, SocketAddr};

use anyhow::bail;
use pix_credentials::{KeyRing, is_guessable};
use pix_notifications::{MasterKeys, PrivateAddresses};
use pix_persistence::postgres::PgStore;
use pix_settlement::{ClassicV2Config, ClassicV2Provider, HttpClientError, SetupError};
use pix_simulator::SimulatorConfig;
use secrecy::ExposeSecret;

use crate::books::SigningKey;
use crate::config::{Config, ConfigError, Database};
use crate::gateway;

/// Words that are in placeholders and in no secret that was drawn.
const PLACEHOLDERS: [&str; 6] = ["changeme", "default", "example", "password", "placeholder", "secret"];

/// Refuses a start that is dangerous, with all that is.
pub fn refuse(config: &Config, demo: bool) -> anyhow::Result<()> {
    let found = all(config, demo);
    if found.is_empty() {
        return Ok(());
    }
    bail!("{}", found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// Everything that `serve` refuses of a configuration, each as a sentence that says what to do.
pub fn all(config: &Config, demo: bool) -> Vec<ConfigError> {
    let mut found = Vec::new();
    let mut say = |sentence: Option<String>| found.extend(sentence.map(ConfigError::new));
    say(missing_secrets(config).filter(|_| !demo));
    say(token_keys(config));
    say(postback_keys(config));
    say(callback_secret(config));
    for sentence in provider(config, demo) {
        say(Some(sentence));
    }
    say(taken_twice(config));
    say(short_proof(config));
    say(provider_files(config));
    say(left_over(config));
    say(books_key(config));
    found
}

/// An address that two of the program's own listeners would take.
fn taken_twice(config: &Config) -> Option<String> {
    let simulator = config.provider.is_none().then_some(("PIX_SIMULATOR_LISTEN", config.simulator_listen));
    let others = config.admin_listen.map(|listen| ("PIX_ADMIN_LISTEN", listen)).into_iter().chain(simulator);
    let mut taken = vec![("PIX_LISTEN", config.listen)];
    for (name, listen) in others {
        let same = |(_, other): &&(&str, SocketAddr)| {
            let any = listen.ip().is_unspecified() || other.ip().is_unspecified();
            listen.port() != 0 && listen.port() == other.port() && (any || listen.ip() == other.ip())
        };
        if let Some((other, _)) = taken.iter().find(same) {
            return Some(format!("{name} is {listen}, which {other} takes: give it another port"));
        }
        taken.push((name, listen));
    }
    None
}

/// What no connection to the provider can be made with.
fn provider_files(config: &Config) -> Option<String> {
    let provider = config.provider.as_ref()?;
    // Where callbacks come to is another matter.
    let of_start = ClassicV2Config {
        callback_base: None,
        ..gateway::provider_config(config, provider, &config.public_url, "")
    };
    let refused = match ClassicV2Provider::new(of_start).err()? {
        SetupError::Client(refused) => refused,
        SetupError::Config(refused) => {
            let named = match refused.setting {
                "client_id" => "PIX_PROVIDER_CLIENT_ID",
                "client_secret" => "PIX_PROVIDER_CLIENT_SECRET",
                // Others say it better.
                _ => return None,
            };
            return Some(format!("{named} {}", refused.problem));
        }
    };
    Some(match refused {
        HttpClientError::Authorities => format!("PIX_PROVIDER_CA_FILE can't be used: {refused}"),
        HttpClientError::Identity => {
            format!("PIX_PROVIDER_CERT_FILE and PIX_PROVIDER_KEY_FILE can't be used: {refused}")
        }
        HttpClientError::Build(_) => refused.to_string(),
    })
}

/// What a real provider needs, where there is none: whoever set it means real money to move.
fn left_over(config: &Config) -> Option<String> {
    let name = config.of_no_provider?;
    Some(format!(
        "{name} is set, and the simulated provider makes no use of it: set PIX_PROVIDER_URL too, or remove it"
    ))
}

/// "Not known" that would count while the question's own payment may still be under way.
fn short_proof(config: &Config) -> Option<String> {
    let (proof, longest) = (config.not_found_proof?, gateway::longest_operation(config));
    (proof < longest).then(|| {
        format!(
            "PIX_PROVIDER_NOT_FOUND_PROOF_S is {}, and sending a payment may take {} s: raise it, or lower PIX_PROVIDER_TIMEOUT_MS",
            proof.as_secs(),
            longest.as_millis().div_ceil(1_000)
        )
    })
}

fn books_key(config: &Config) -> Option<String> {
    let error = SigningKey::read(&config.books.as_ref()?.key_file).err()?;
    Some(format!("PIX_BOOKS_KEY_FILE can't be used: {error:#}"))
}

/// What is no reason not to start, and still likely not meant.
pub fn warnings(config: &Config) -> Vec<ConfigError> {
    let mut found = Vec::new();
    let real = config.provider.as_ref().is_some_and(|provider| !is_loopback(&provider.url));
    if real && config.public_url.starts_with("http://") && !is_loopback(&config.public_url) {
        found.push("PIX_PUBLIC_URL is http: secrets, tokens and the provider's callbacks travel unencrypted; make it https, with PIX_TLS_CERT_FILE or a proxy in front");
    }
    if real && is_loopback(&config.public_url) {
        found.push("PIX_PUBLIC_URL is this machine, where the provider's callbacks can't come to: set it to how the world reaches this gateway; until then payments are found by asking, which is slower");
    }
    if real && is_unspecified(&config.public_url) {
        found.push("PIX_PUBLIC_URL, or PIX_LISTEN from which it follows, names every address of this machine, which nobody can call: set PIX_PUBLIC_URL to how the world reaches this gateway; until then payments are found by asking, which is slower");
    }
    if real && config.provider.as_ref().is_some_and(|of| of.client_id == SimulatorConfig::default().client_id)
    {
        found.push("PIX_PROVIDER_CLIENT_ID is not set, or that of the simulated provider: set the one that the provider gave you");
    }
    if real && config.postbacks.allow_private.is_some_and(|allowed| allowed != PrivateAddresses::Never) {
        found.push("PIX_POSTBACK_ALLOW_PRIVATE lets integrators have requests sent into your network: remove it, unless all of them may");
    }
    if config.admin_listen.is_some_and(|listen| !listen.ip().is_loopback()) {
        found.push("PIX_ADMIN_LISTEN is not loopback, and asks for no credentials: let nobody but operators reach it");
    }
    if config.console.is_some() && config.admin_listen.is_some_and(|listen| !listen.ip().is_loopback()) {
        found.push("PIX_CONSOLE_OPERATORS lets operators sign in over a network without encryption: make PIX_ADMIN_LISTEN loopback, and reach it through ssh");
    }
    if let Database::Postgres { url } = &config.database
        && real
        && PgStore::is_exposed(url.expose_secret()).unwrap_or(false)
    {
        found.push("DATABASE_URL leads to another machine without encryption, so that names, documents and keys can be read on the way: add sslmode=verify-full to it, and sslrootcert for a private authority");
    }
    if config.trusted_proxies.iter().any(|range| range.ends_with("/0")) {
        found.push("PIX_TRUSTED_PROXIES trusts everybody, so that whoever calls says from where: limits by address and keys with --allow-ip hold nobody off; name the proxies alone");
    }
    found.into_iter().map(ConfigError::new).collect()
}

fn missing_secrets(config: &Config) -> Option<String> {
    let unset =
        config.token_keys.is_none() || config.callback_secret.is_none() || config.postbacks.keys.is_none();
    (config.database.is_shared() && unset).then(|| {
        "with PostgreSQL, PIX_TOKEN_KEYS, PIX_PROVIDER_CALLBACK_SECRET and PIX_POSTBACK_KEYS must be set, the same on every node: `pix-gateway secrets` prints fresh ones".to_owned()
    })
}

fn token_keys(config: &Config) -> Option<String> {
    let keys = config.token_keys.as_ref()?;
    match KeyRing::parse(keys.expose_secret()) {
        Err(error) => Some(format!("PIX_TOKEN_KEYS is not acceptable: {error}; `pix-gateway secrets` prints a fresh key")),
        Ok(ring) => ring.guessable_key().map(|place| {
            format!("PIX_TOKEN_KEYS has a pattern in key {place}, so that others could make tokens: replace it by a fresh one of `pix-gateway secrets`")
        }),
    }
}

fn postback_keys(config: &Config) -> Option<String> {
    let keys = config.postbacks.keys.as_ref()?.expose_secret();
    if let Err(error) = MasterKeys::parse(keys) {
        return Some(format!(
            "PIX_POSTBACK_KEYS is not acceptable: {error}; `pix-gateway secrets` prints a fresh key"
        ));
    }
    let guessable = keys
        .split(',')
        .map(str::trim)
        .any(|key| is_guessable(&hex(key).unwrap_or_else(|| key.as_bytes().to_vec())));
    guessable.then(|| "PIX_POSTBACK_KEYS has a key with a pattern, so that others could sign postbacks: replace it by a fresh one of `pix-gateway secrets`".to_owned())
}

fn callback_secret(config: &Config) -> Option<String> {
    let secret = config.callback_secret.as_ref()?;
    let lower = secret.to_ascii_lowercase();
    let weak = is_guessable(secret.as_bytes()) || PLACEHOLDERS.iter().any(|word| lower.contains(word));
    weak.then(|| "PIX_PROVIDER_CALLBACK_SECRET has a pattern or is a placeholder, so that others could call back: replace it by a fresh one of `pix-gateway secrets`".to_owned())
}

fn provider(config: &Config, demo: bool) -> Vec<String> {
    let Some(provider) = config.provider.as_ref().filter(|provider| !is_loopback(&provider.url)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if !provider.url.starts_with("https://") {
        found.push("PIX_PROVIDER_URL is http and not on this machine, so that credentials and payments would travel unencrypted, to whoever answers: make it https; for a private authority, name its certificate in PIX_PROVIDER_CA_FILE".to_owned());
    }
    if provider.client_secret.expose_secret() == SimulatorConfig::default().client_secret {
        found.push("PIX_PROVIDER_CLIENT_SECRET is that of the simulated provider: set the one that the provider gave you".to_owned());
    }
    if demo {
        found.push("PIX_PROVIDER_URL is a real provider, and `serve --demo` prints a key that may move its money: leave out --demo, or the provider".to_owned());
    }
    found
}

/// The bytes of hexadecimal digits.
fn hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?)).collect();
    bytes.filter(|_| rest.is_empty())
}

/// Whether a URL leads to this very machine.
pub fn is_loopback(url: &str) -> bool {
    let host = host_of(url);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether the host of a URL stands for every address, as a listener's may.
fn is_unspecified(url: &str) -> bool {
    host_of(url).parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}

fn host_of(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else { return "" };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    const REAL: [(&str, &str); 3] = [
        ("PIX_PROVIDER_URL", "https://bank.example"),
        ("PIX_PROVIDER_CLIENT_ID", "merchant"),
        ("PIX_PROVIDER_CLIENT_SECRET", "hunter2"),
    ];

    fn config(pairs: &[(&str, &str)]) -> Config {
        let environment = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(&Source::read(None, environment).unwrap()).unwrap()
    }

    #[test]
    fn files_that_the_provider_can_not_be_reached_with_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem").display().to_string();
        std::fs::write(&file, "no certificate").unwrap();
        let of = |more: &[(&str, &str)]| said(&all(&config(&[&REAL[..], more].concat()), false));
        assert_eq!(of(&[]), "");
        let told = of(&[("PIX_PROVIDER_CLIENT_ID", "a:b")]);
        assert!(told.starts_with("PIX_PROVIDER_CLIENT_ID must be") && !told.contains("_FILE"), "{told}");
        let told = of(&[("PIX_PROVIDER_URL", "http://bank.example")]);
        assert!(told.starts_with("PIX_PROVIDER_URL is http") && told.lines().count() == 1, "{told}");
        let told = of(&[("PIX_PROVIDER_CA_FILE", &file)]);
        assert!(
            told.contains("PIX_PROVIDER_CA_FILE") && told.contains("-----BEGIN CERTIFICATE-----"),
            "{told}"
        );
        let told = of(&[("PIX_PROVIDER_CERT_FILE", &file), ("PIX_PROVIDER_KEY_FILE", &file)]);
        assert!(told.contains("PIX_PROVIDER_KEY_FILE") && told.contains("belong together"), "{told}");
    }

    #[test]
    fn what_a_real_provider_needs_without_its_address_is_refused() {
        for name in ["PIX_PROVIDER_CLIENT_ID", "PIX_PROVIDER_CLIENT_SECRET"] {
            let told = said(&all(&config(&[(name, "hunter2")]), false));
            assert!(told.starts_with(name) && told.contains("set PIX_PROVIDER_URL too"), "{told}");
        }
        assert_eq!(said(&all(&config(&[]), false)), "");
    }

    fn said(found: &[ConfigError]) -> String {
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_is_dangerous_is_refused_with_what_to_do_and_without_the_secret() {
        // The key of the published test vectors of PASETO.
        let vector = "k4.local.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8";
        let zeros = format!("k4.local.{}", "A".repeat(43));
        let sequence = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        for (pairs, says) in [
            (&[("PIX_TOKEN_KEYS", "hunter2hunter2")][..], "PIX_TOKEN_KEYS is not acceptable"),
            (&[("PIX_TOKEN_KEYS", zeros.as_str())], "PIX_TOKEN_KEYS is not acceptable"),
            (&[("PIX_TOKEN_KEYS", vector)], "PIX_TOKEN_KEYS has a pattern in key 1"),
            (&[("PIX_POSTBACK_KEYS", "hunter2")], "PIX_POSTBACK_KEYS is not acceptable"),
            (&[("PIX_POSTBACK_KEYS", sequence)], "PIX_POSTBACK_KEYS has a key with a pattern"),
            (
                &[("PIX_PROVIDER_CALLBACK_SECRET", "0123456789abcdef0123456789abcdef")],
                "PIX_PROVIDER_CALLBACK_SECRET has a pattern",
            ),
            (
                &[("PIX_PROVIDER_CALLBACK_SECRET", "x7Kq2mPz9changeme4Tn8vBw3Rj6yHd5")],
                "PIX_PROVIDER_CALLBACK_SECRET has a pattern or is a placeholder",
            ),
            (&[("DATABASE_URL", "postgres://pix:hunter2@db/pix")], "`pix-gateway secrets` prints fresh ones"),
            (
                &[("PIX_LISTEN", "0.0.0.0:8080"), ("PIX_ADMIN_LISTEN", "127.0.0.1:8080")],
                "PIX_ADMIN_LISTEN is 127.0.0.1:8080, which PIX_LISTEN takes",
            ),
            (
                &[("PIX_ADMIN_LISTEN", "127.0.0.1:9"), ("PIX_SIMULATOR_LISTEN", "127.0.0.1:9")],
                "PIX_SIMULATOR_LISTEN is 127.0.0.1:9, which PIX_ADMIN_LISTEN takes",
            ),
            (
                &[("PIX_PROVIDER_NOT_FOUND_PROOF_S", "51")],
                "PIX_PROVIDER_NOT_FOUND_PROOF_S is 51, and sending a payment may take 52 s",
            ),
            (
                &[("PIX_BOOKS_KEY_FILE", "/nowhere/books.key"), ("PIX_BOOKS_DIR", "/tmp")],
                "PIX_BOOKS_KEY_FILE can't be used",
            ),
            (
                &[("PIX_PROVIDER_URL", "http://bank.example"), ("PIX_PROVIDER_CLIENT_SECRET", "hunter2")],
                "PIX_PROVIDER_URL is http and not on this machine",
            ),
            (
                &[
                    ("PIX_PROVIDER_URL", "https://bank.example"),
                    ("PIX_PROVIDER_CLIENT_SECRET", "simulator-secret"),
                ],
                "PIX_PROVIDER_CLIENT_SECRET is that of the simulated provider",
            ),
        ] {
            let refused = refuse(&config(pairs), false).unwrap_err().to_string();
            assert!(refused.contains(says), "{says}: {refused}");
            assert!(
                !refused.contains("hunter2") && !refused.contains(vector) && !refused.contains(sequence),
                "{refused}"
            );
        }
        assert!(said(&all(&config(&REAL), true)).contains("leave out --demo"));
    }

    #[test]
    fn what_is_sound_is_let_pass() {
        let fresh = crate::keyfile::KeyFile::fresh().unwrap();
        let postback = crate::keyfile::fresh_postback_key().unwrap();
        let own = [
            ("DATABASE_URL", "postgres://pix@db/pix?sslmode=verify-full"),
            ("PIX_TOKEN_KEYS", fresh.token_keys.expose_secret()),
            ("PIX_PROVIDER_CALLBACK_SECRET", &fresh.callback_secret),
            ("PIX_POSTBACK_KEYS", postback.expose_secret()),
            ("PIX_PUBLIC_URL", "https://pix.example"),
        ];
        let sound = config(&[&REAL, &own[..]].concat());
        assert_eq!(said(&all(&sound, false)), "");
        assert_eq!(said(&warnings(&sound)), "");
        assert_eq!(said(&all(&config(&[]), true)), "", "and so is the default, with the simulated provider");
        let local =
            [("PIX_PROVIDER_URL", "http://127.0.0.1:1"), ("PIX_PROVIDER_CLIENT_SECRET", "simulator-secret")];
        assert_eq!(said(&all(&config(&local), true)), "");
        // Of any port the system gives another one, other addresses have ports of their own, and there is no simulator.
        for (listen, admin, simulator) in [
            ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1:8080", "127.0.0.2:8080", "127.0.0.1:8081"),
            ("127.0.0.1:8081", "127.0.0.1:9464", "127.0.0.1:8081"),
        ] {
            let listens =
                [("PIX_LISTEN", listen), ("PIX_ADMIN_LISTEN", admin), ("PIX_SIMULATOR_LISTEN", simulator)];
            let provider = if listen == simulator { &REAL[..] } else { &[] };
            let apart =
                if listen.ends_with(":0") { &listens[..] } else { &[&listens[..], provider].concat() };
            assert_eq!(said(&all(&config(apart), false)), "");
        }
    }

    #[test]
    fn what_is_likely_not_meant_is_told() {
        let warned = |pairs: &[(&str, &str)]| said(&warnings(&config(&[&REAL, pairs].concat())));
        assert!(warned(&[]).contains("PIX_PUBLIC_URL is this machine"));
        for pairs in [("PIX_LISTEN", "0.0.0.0:8080"), ("PIX_PUBLIC_URL", "https://[::]:8443")] {
            assert!(warned(&[pairs]).contains("names every address of this machine"), "{pairs:?}");
        }
        assert!(!warned(&[]).contains("PIX_PROVIDER_CLIENT_ID"));
        let simulators = warned(&[("PIX_PROVIDER_CLIENT_ID", "simulator")]);
        assert!(simulators.contains("PIX_PROVIDER_CLIENT_ID is not set"), "{simulators}");
        assert!(warned(&[("PIX_PUBLIC_URL", "http://pix.example")]).contains("PIX_PUBLIC_URL is http"));
        assert!(warned(&[("PIX_POSTBACK_ALLOW_PRIVATE", "true")]).contains("into your network"));
        assert!(warned(&[("PIX_ADMIN_LISTEN", "0.0.0.0:9464")]).contains("PIX_ADMIN_LISTEN is not loopback"));
        assert!(warned(&[("PIX_TRUSTED_PROXIES", "10.0.0.0/8,::/0")]).contains("trusts everybody"));
        assert!(!warned(&[("PIX_TRUSTED_PROXIES", "10.0.0.0/8")]).contains("trusts everybody"));
        for (url, is_told) in [
            ("postgres://pix@db.example/pix", true),
            ("postgres://pix@10.0.0.7/pix?sslmode=prefer", true),
            ("postgres://pix@127.0.0.1,10.0.0.7/pix", true),
            ("postgres://pix@db.example/pix?sslmode=verify-full", false),
            ("postgres://pix@localhost/pix", false),
            ("postgres://pix@[::1]/pix", false),
            ("postgres://pix@%2Frun%2Fpostgresql/pix", false),
        ] {
            let told = warned(&[("DATABASE_URL", url)]);
            assert_eq!(told.contains("without encryption, so that names"), is_told, "{url}: {told}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for url in ["http://127.0.0.1:8081", "http://localhost", "https://[::1]:1/x", "http://127.9.9.9/"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "http://10.0.0.1",
            "http://localhost.example.com",
            "http://[fd00::1]",
            "http://1.127.0.0.1",
            "localhost",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
