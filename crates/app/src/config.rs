//! Configuration: one table of settings, read from the environment and an optional TOML file.
//!
//! The table ([`SETTINGS`]) is the only place that knows names, defaults and meanings: `--help`, the reference in
//! `docs/OPERATIONS.md` and the reading itself come from it. A wrong value stops the start with a sentence.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use pix_console::{ConsoleConfig, Operators};
use pix_domain::audit_log::Operator;
use pix_http::{CertificateError, RateStore};
use pix_notifications::{
    AT_ONCE_BOUNDS, DelivererConfig, KEEP_DAYS_BOUNDS, PER_ENDPOINT_BOUNDS, POLL_INTERVAL_MS_BOUNDS,
    PrivateAddresses,
};
use pix_persistence::postgres::{Grouping, PgOptions, PgStore};
use pix_settlement::{BreakerConfig, ClientTls};
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

use crate::dangers::is_loopback;
use crate::otlp::{self, OtlpSettings};

/// The largest configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its environment variable. In the TOML file the same name, without `PIX_`, in lower case.
    pub env: &'static str,
    /// What holds when it is not set; none when that depends on others.
    pub default: Option<&'static str>,
    /// What it is for, its unit and its bounds.
    pub what: &'static str,
    /// Whether its value must never be shown.
    pub secret: bool,
}

impl Setting {
    /// Its name in the TOML file.
    pub fn toml_key(&self) -> String {
        self.env.strip_prefix("PIX_").unwrap_or(self.env).to_lowercase()
    }

    /// A value of it as it may be shown: of what is secret nothing, and of a URL no password.
    pub fn shown(&self, value: &str) -> String {
        if self.secret && !value.is_empty() {
            return MASK.to_owned();
        }
        let is_understood = match self.env {
            "DATABASE_URL" => is_database(value),
            // Somebody's token may stand where its digest belongs.
            "PIX_CONSOLE_OPERATORS" => Operators::parse(value).is_ok(),
            _ => true,
        };
        if !is_understood && !value.is_empty() {
            // What isn't understood may have a password anywhere.
            return MASK.to_owned();
        }
        without_password(value)
    }
}

/// Whether a text is the URL of a database as it is meant to be.
fn is_database(text: &str) -> bool {
    text.starts_with("sqlite://") || PgStore::check_url(text).is_ok()
}

/// What is shown instead of a secret.
pub const MASK: &str = "********";

/// A text with what URLs have of passwords masked: in the user information, and as a parameter. Rather too much than too
/// little, since a password that isn't percent-encoded may hold what ends it.
fn without_password(text: &str) -> String {
    let with_user = text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?)));
    let shown = match with_user.map(|(scheme, (user, host))| (scheme, user.split_once(':'), host)) {
        Some((scheme, Some((user, _password)), host)) => format!("{scheme}://{user}:{MASK}@{host}"),
        _ => text.to_owned(),
    };
    let Some((address, query)) = shown.split_once('?') else { return shown };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().contains("password") => format!("{name}={MASK}"),
        _ => pair.to_owned(),
    });
    format!("{address}?{}", masked.collect::<Vec<_>>().join("&"))
}

const fn open(env: &'static str, default: Option<&'static str>, what: &'static str) -> Setting {
    Setting { env, default, what, secret: false }
}

const fn secret(env: &'static str, what: &'static str) -> Setting {
    Setting { env, default: None, what, secret: true }
}

/// Every setting there is.
pub const SETTINGS: &[Setting] = &[
    open("PIX_LISTEN", Some("127.0.0.1:8080"), "Address and port of the HTTP interface."),
    open(
        "DATABASE_URL",
        Some("sqlite://data/pix-gateway.db"),
        "The store: sqlite://PATH, or postgres://USER:PASSWORD@HOST:5432/DATABASE. The folder is made for the default path only.",
    ),
    open(
        "PIX_MIGRATE_ON_START",
        Some("true"),
        "Whether a start brings the schema up to date, true or false; with false it is refused until `pix-gateway migrate` has.",
    ),
    open("PIX_DB_MONEY_CONNECTIONS", Some("8"), "PostgreSQL: connections that write, 1 to 64."),
    open("PIX_DB_READ_CONNECTIONS", Some("8"), "PostgreSQL: connections that read, 1 to 256."),
    open("PIX_DB_WORKER_CONNECTIONS", Some("2"), "PostgreSQL: connections of the workers, 1 to 32."),
    open(
        "PIX_DB_CONNECT_TIMEOUT_MS",
        Some("3000"),
        "PostgreSQL: longest wait for a connection to be made, to each host of the URL, 100 to 60000.",
    ),
    open(
        "PIX_DB_ACQUIRE_TIMEOUT_MS",
        Some("1000"),
        "PostgreSQL: longest wait for a free connection, 10 to 60000.",
    ),
    open(
        "PIX_DB_STATEMENT_TIMEOUT_MS",
        Some("5000"),
        "PostgreSQL: longest run of one statement, 100 to 60000.",
    ),
    open(
        "PIX_DB_RESOLVE_TIMEOUT_MS",
        Some("5000"),
        "PostgreSQL: how long the outcome of a commit is looked for whose connection broke, 100 to 60000.",
    ),
    open(
        "PIX_DB_GROUP",
        Some("true"),
        "PostgreSQL: whether writes that come at the same time are sent together, and lookups, and callbacks, true or false.",
    ),
    open("PIX_DB_GROUP_MAX", Some("256"), "PostgreSQL: at most so many writes in one group, 1 to 256."),
    open("PIX_DB_GROUPS_IN_FLIGHT", Some("2"), "PostgreSQL: at most so many groups at once, 1 to 16."),
    open(
        "PIX_DB_GATHER_WAIT_US",
        Some("200"),
        "PostgreSQL: how long the next group waits for those that the last one answered to come again, 0 to 500 microseconds; nobody waits on an idle store, and after a wait that brought fewer than half of them the next groups, up to 64, go at once.",
    ),
    open(
        "PIX_DB_LOOKUPS_IN_FLIGHT",
        Some("2"),
        "PostgreSQL: at most so many queries at once that look up one kind of thing by its key (charges and withdrawals by id and by name, wallets, idempotency keys, payments like one, references), 1 to 16; whoever comes meanwhile shares the next one, with PIX_DB_GROUP.",
    ),
    open(
        "PIX_CACHE_TTL_MS",
        Some("5000"),
        "How long keys, integrators, fees, limits and which postback secrets sign are remembered, 0 (not at all) to 5000: what another process changes holds here after that at the latest.",
    ),
    open(
        "PIX_PUBLIC_URL",
        None,
        "How the world reaches this gateway; default http://PIX_LISTEN, or https:// with PIX_TLS_CERT_FILE. Tokens are bound to it.",
    ),
    open(
        "PIX_TLS_CERT_FILE",
        None,
        "File with the PEM certificate, and its chain, that clients are shown: with it PIX_LISTEN speaks https, and nothing else. Read again at SIGHUP.",
    ),
    open(
        "PIX_TLS_KEY_FILE",
        None,
        "File with the unencrypted PEM key of PIX_TLS_CERT_FILE; each is required with the other. Read again at SIGHUP.",
    ),
    open(
        "PIX_PROVIDER_URL",
        None,
        "The settlement provider (classic v2). Without it a simulated one is started in-process.",
    ),
    open("PIX_PROVIDER_CLIENT_ID", Some("simulator"), "Our client id at the provider."),
    secret(
        "PIX_PROVIDER_CLIENT_SECRET",
        "Our client secret at the provider; required with PIX_PROVIDER_URL.",
    ),
    open(
        "PIX_PROVIDER_CA_FILE",
        None,
        "File with the PEM certificates of the only authorities that may vouch for the provider; default: those of the system.",
    ),
    open(
        "PIX_PROVIDER_CERT_FILE",
        None,
        "File with the PEM certificate, and its chain, that the provider is shown (mutual TLS).",
    ),
    open(
        "PIX_PROVIDER_KEY_FILE",
        None,
        "File with the unencrypted PEM key of PIX_PROVIDER_CERT_FILE; each is required with the other.",
    ),
    open(
        "PIX_PROVIDER_TIMEOUT_MS",
        Some("15000"),
        "Longest wait for one answer of the provider, 100 to 120000.",
    ),
    open(
        "PIX_PROVIDER_BREAKER_FAILURES",
        Some("5"),
        "After how many failed charges in a row new ones are turned away for a while, 1 to 1000.",
    ),
    open(
        "PIX_PROVIDER_BREAKER_OPEN_MS",
        Some("10000"),
        "How long they are turned away before the provider is tried again, 1000 to 600000.",
    ),
    open(
        "PIX_PROVIDER_CHARGES_UNDER_WAY",
        Some("512"),
        "How many charges may wait for the provider at once, 1 to 65536; one more is turned away.",
    ),
    open(
        "PIX_DUPLICATE_WINDOW_S",
        Some("60"),
        "How long after it was done a withdrawal or refund stands in the way of one just like it that has no handle, 0 to 86400; 0 lets withdrawals pass.",
    ),
    open(
        "PIX_RESTORE_ASK_S",
        Some("604800"),
        "For how long, after money may leave again after a restore, the provider is asked first whether it was sent already, 0 to 7776000.",
    ),
    open(
        "PIX_PROVIDER_NOT_FOUND_PROOF_S",
        None,
        "How long after sending \"not known\" proves that the provider never took a payment, 60 to 86400, or `never`. Set it only for a provider that documents looking a payment up by `external_id`. Default `never`; with a provider on this machine 300, and less than 60 is allowed.",
    ),
    secret(
        "PIX_PROVIDER_CALLBACK_SECRET",
        "Last segment of the provider's callback path, 32 to 128 letters and digits; made on first start, required with PostgreSQL.",
    ),
    secret(
        "PIX_TOKEN_KEYS",
        "Keys of the access tokens, k4.local.… separated by commas, the first one signs; made on first start, required with PostgreSQL.",
    ),
    open("PIX_TOKEN_TTL_S", Some("3600"), "How long an access token lives, 60 to 86400 seconds."),
    open("PIX_HASH_PERMITS", Some("2"), "How many secrets are hashed at once, 1 to 64."),
    open("PIX_RATE_TOKEN_PER_MINUTE", Some("20"), "Token requests a minute per client IP, 1 to 100000."),
    open("PIX_RATE_API_PER_MINUTE", Some("600"), "Other requests a minute per access token, 1 to 10000000."),
    open("PIX_RATE_API_BURST", Some("100"), "How many of those may come at once, 1 to 100000."),
    open(
        "PIX_RATE_KEY_PER_MINUTE",
        None,
        "Other requests a minute of all tokens of one key together, PIX_RATE_API_PER_MINUTE to 40000000; four times that by default. How many may come at once grows alike.",
    ),
    open(
        "PIX_RATE_BUCKETS",
        Some("100000"),
        "How many addresses, tokens and keys, each, have a limit of their own at most, 1000 to 10000000; past that a newcomer goes on with that of an idle one.",
    ),
    secret(
        "PIX_RATE_STORE",
        "Where nodes count requests together: redis://:PASSWORD@HOST:6379/0, a server that speaks the protocol of Redis 5 or newer; without it each node counts its own.",
    ),
    open(
        "PIX_RATE_STORE_TIMEOUT_MS",
        Some("10"),
        "Longest wait for an answer of it, 1 to 1000; without one the limits of this node hold.",
    ),
    open(
        "PIX_REQUESTS_AT_ONCE",
        Some("1024"),
        "How many requests to v1 and v2 are worked on at once, 1 to 65536; one more is answered 503.",
    ),
    open(
        "PIX_REQUESTS_AT_ONCE_PER_KEY",
        None,
        "How many of those one key can have at once, or one address without a valid token, 1 to PIX_REQUESTS_AT_ONCE; half of them by default.",
    ),
    open(
        "PIX_SIGN_INS_AT_ONCE",
        Some("64"),
        "How many requests to the token endpoint are worked on at once, 1 to 65536; one more is answered 503.",
    ),
    open(
        "PIX_PAY_STREAMS",
        Some("1024"),
        "How many payment pages are told at once what becomes of their charge, 1 to 65536; one more asks every 5 seconds instead.",
    ),
    open(
        "PIX_CONNECTIONS",
        Some("8192"),
        "How many connections there are at once, 16 to 1000000; one more is closed as it is made.",
    ),
    open(
        "PIX_CONNECTIONS_PER_IP",
        Some("256"),
        "How many of them are of one client IP that is no trusted proxy, 1 to PIX_CONNECTIONS.",
    ),
    open(
        "PIX_HEAD_DEADLINE_MS",
        Some("5000"),
        "Longest wait for the head of a connection's first request, 100 to 60000.",
    ),
    open("PIX_KEEP_ALIVE_MS", Some("15000"), "How long an idle connection is kept, 1000 to 300000."),
    open(
        "PIX_UNREAD_DEADLINE_MS",
        Some("10000"),
        "Longest wait for a client that leaves its answer unread, 1000 to 60000.",
    ),
    open(
        "PIX_TRUSTED_PROXIES",
        Some(""),
        "Addresses or networks (10.0.0.0/8) of proxies whose X-Forwarded-For is believed, separated by commas.",
    ),
    open(
        "PIX_CORS_ALLOW_ORIGINS",
        Some(""),
        "Origins that browsers may call from, separated by commas; none by default.",
    ),
    open("PIX_BODY_DEADLINE_MS", Some("5000"), "Longest wait for a request's body, 100 to 60000."),
    open(
        "PIX_DRAIN_MS",
        Some("0"),
        "How long after SIGTERM requests are still taken, while /health/ready says 503 and connections are closed with their next answer, 0 to 60000. Longer than a load balancer in front takes to notice; 0 without one.",
    ),
    open(
        "PIX_SHUTDOWN_TIMEOUT_S",
        Some("30"),
        "Longest wait for running requests at the end, after PIX_DRAIN_MS, 1 to 300 seconds.",
    ),
    open(
        "PIX_CLOCK_INTERVAL_MS",
        Some("60000"),
        "How often this machine's clock is compared with the database's, 100 to 3600000; at once when it was set.",
    ),
    open("PIX_RECONCILER_INTERVAL_MS", Some("1000"), "How often due follow-ups are looked for, 50 to 60000."),
    open(
        "PIX_RECONCILER_PER_SECOND",
        Some("50"),
        "How many questions a second a node asks the provider by itself, 1 to 10000: for follow-ups and callbacks that come again.",
    ),
    open(
        "PIX_SEAL_INTERVAL_MS",
        Some("60000"),
        "How often what was posted is audited and sealed, 0 (not at all) to 3600000.",
    ),
    open(
        "PIX_SEAL_ENTRIES",
        Some("100000"),
        "After how many entries a turn of that ends, with a stretch of each integrator at least, 1 to 10000000; the next one goes on.",
    ),
    open(
        "PIX_AUDIT_INTERVAL_S",
        Some("0"),
        "How old the newest whole audit may be before one node runs another, 0 (it is run by hand) to 2592000 seconds; one integrator's whole book is in memory at a time, and all of them at the end.",
    ),
    open(
        "PIX_PROOF_PER_MINUTE",
        Some("60"),
        "How many records that have ended the provider is asked about once more each minute, 0 (none) to 100000; one node at a time does it.",
    ),
    open(
        "PIX_PROOF_AFTER_HOURS",
        Some("24,168,2208"),
        "How long after its end each is asked about so: one to four whole numbers of hours from 0 to 8760, separated by commas, each longer than the one before.",
    ),
    open(
        "PIX_PERSON_LOCK_RECORDS",
        Some("2000"),
        "How many records a minute have their personal data put under the keys of its persons, 0 (only when somebody is erased) to 1000000; one node at a time does it.",
    ),
    open(
        "PIX_PERSON_LOCK_AFTER_DAYS",
        Some("7"),
        "How long after its last change a record that has ended is locked so, 2 to 3650 days.",
    ),
    open(
        "PIX_BOOKS_KEY_FILE",
        None,
        "File with the key that a statement of the books is signed with once a day, made by `pix-gateway books key`; without it none is.",
    ),
    open(
        "PIX_BOOKS_DIR",
        None,
        "Folder for these statements, a file a day; required with PIX_BOOKS_KEY_FILE. A file that is there is never written to.",
    ),
    open(
        "PIX_CALLBACKS_PER_SECOND",
        Some("1000"),
        "How many callbacks of the provider are taken a second, 1 to 100000; one more is answered 503, to be sent again.",
    ),
    open(
        "PIX_CALLBACK_KEEP_DAYS",
        Some("30"),
        "How long callbacks are kept that were seen to, 1 to 3650 days.",
    ),
    secret(
        "PIX_POSTBACK_KEYS",
        "Master keys of the secrets that postbacks are signed with, 64 hex digits each, separated by commas, the first one makes new secrets; made on first start, required with PostgreSQL.",
    ),
    open(
        "PIX_POSTBACK_ALLOW_PRIVATE",
        None,
        "Whether postbacks may go to addresses that aren't public, over http and to any port: false, loopback (this machine), or true (every network). For development and tests. Default false; loopback with `serve --demo`.",
    ),
    open(
        "PIX_POSTBACK_ALLOW_HTTP",
        Some("false"),
        "Whether postbacks may go over http to public addresses, true or false: whoever is on the way can read them.",
    ),
    open(
        "PIX_POSTBACK_TIMEOUT_MS",
        Some("15000"),
        "Longest time of one attempt to deliver a postback, 1000 to 15000.",
    ),
    open("PIX_POSTBACK_AT_ONCE", Some("256"), "How many postbacks are sent at once, 2 to 1024."),
    open(
        "PIX_POSTBACK_PER_RECEIVER",
        Some("8"),
        "How many of them go to one receiver of one integrator, 1 to 64.",
    ),
    open(
        "PIX_POSTBACK_INTERVAL_MS",
        Some("1000"),
        "How often due postbacks are looked for, 10 to 60000; what this node causes goes out at once.",
    ),
    open(
        "PIX_POSTBACK_KEEP_DAYS",
        Some("30"),
        "How long deliveries that have ended are kept, and can be replayed, 7 to 3650 days.",
    ),
    open(
        "PIX_ADMIN_LISTEN",
        Some("127.0.0.1:9464"),
        "Address and port of /metrics and of health in detail, for operators only; `off` for none.",
    ),
    open(
        "PIX_CONSOLE_OPERATORS",
        None,
        "Who may sign in to the console, on PIX_ADMIN_LISTEN: NAME:SHA256HEX as `pix-gateway operator token` prints it, separated by commas, at most 32. Without it there is no console.",
    ),
    open(
        "PIX_CONSOLE_HOSTS",
        Some(""),
        "Names that the console may be reached by besides localhost and addresses, separated by commas, at most 16.",
    ),
    open(
        "PIX_OPERATOR",
        None,
        "Who runs a command, for the audit log; default the name of the user on this machine. --operator wins over it.",
    ),
    open("PIX_SIMULATOR_LISTEN", Some("127.0.0.1:8081"), "Address and port of the simulated provider."),
    open("PIX_LOG", Some("info,actix_server=warn"), "What is logged, such as info, or pix_http=debug,info."),
    open("PIX_LOG_FORMAT", Some("text"), "text or json."),
    open(
        "PIX_OTLP_ENDPOINT",
        None,
        "The collector that traces are sent to, over OTLP/HTTP with protobuf, such as http://127.0.0.1:4318; without it none are sent.",
    ),
    secret(
        "PIX_OTLP_HEADERS",
        "What its requests carry besides, for authentication: name=value,name=value, percent-encoded; at most 16. Needs https, or a collector on this machine.",
    ),
    open(
        "PIX_OTLP_SAMPLE_PERCENT",
        Some("100"),
        "The share of traces that is sent, 0.0001 to 100; the id of a trace decides, alike on all nodes.",
    ),
    open(
        "PIX_OTLP_QUEUE",
        Some("8192"),
        "How many spans may wait to be sent, 512 to 65536; one more is dropped.",
    ),
    open(
        "PIX_OTLP_INTERVAL_MS",
        Some("2000"),
        "How often those that wait are sent, 100 to 60000; 512 of them are sent at once.",
    ),
    open(
        "PIX_OTLP_TIMEOUT_MS",
        Some("3000"),
        "Longest wait for the collector's answer, and for all of its answers at the end, 100 to 30000.",
    ),
];

/// How long after sending "not known" is proof with the simulated provider, which looks payments up by our reference.
const SIMULATED_NOT_FOUND_PROOF: Duration = Duration::from_mins(5);

/// Why the configuration is not acceptable: a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    /// A refusal, as a sentence that begins with what is refused and ends with what to do.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// The setting that it is about: the one that it names first.
    pub fn setting(&self) -> Option<&'static Setting> {
        let is_word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let mut words = self.0.split(|c| !is_word(c));
        words.find_map(|word| SETTINGS.iter().find(|setting| setting.env == word))
    }
}

/// Where the value of a setting comes from. A later one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nothing says it.
    Default,
    /// The TOML file.
    File,
    /// The environment.
    Environment,
    /// `--set` or `--operator`.
    Flag,
}

impl Origin {
    /// Its name, for operators and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// What files are called that would be beside the database, when there is no file to be beside.
const NAME_WITHOUT_FILE: &str = "pix-gateway";

/// Which store.
#[derive(Debug, Clone)]
pub enum Database {
    /// A file on this machine, of one serving node.
    Sqlite {
        /// The database file.
        path: PathBuf,
        /// Whether this is the default path, whose folder may be made.
        is_default: bool,
    },
    /// A database server, shared by any number of nodes.
    Postgres {
        /// Where, and as whom. May hold a password.
        url: SecretString,
    },
}

impl Database {
    /// The file beside the database with another ending; in the working directory when the database is no file.
    pub fn beside(&self, ending: &str) -> PathBuf {
        let mut name = match self {
            Self::Sqlite { path, .. } => path.clone().into_os_string(),
            Self::Postgres { .. } => NAME_WITHOUT_FILE.into(),
        };
        name.push(ending);
        PathBuf::from(name)
    }

    /// Whether several nodes may serve it.
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }
}

/// The settlement provider, when one is configured.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// Its address.
    pub url: String,
    /// Our id there.
    pub client_id: String,
    /// Our secret there.
    pub client_secret: SecretString,
    /// `PIX_PROVIDER_CA_FILE`, and `PIX_PROVIDER_CERT_FILE` with `PIX_PROVIDER_KEY_FILE`, as they were read.
    pub tls: ClientTls,
}

/// The certificate that clients are shown.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// `PIX_TLS_CERT_FILE`
    pub certificate: PathBuf,
    /// `PIX_TLS_KEY_FILE`
    pub key: PathBuf,
}

impl TlsFiles {
    const CERTIFICATE: &str = "PIX_TLS_CERT_FILE";
    const KEY: &str = "PIX_TLS_KEY_FILE";

    /// What they hold now.
    pub fn read(&self) -> Result<(String, SecretString), ConfigError> {
        let certificates = read_file(Self::CERTIFICATE, &self.certificate)?;
        Ok((certificates, read_file(Self::KEY, &self.key)?.into()))
    }

    /// Says of an error about what they hold where to look.
    pub fn refused(&self, error: CertificateError) -> ConfigError {
        let (env, path) = match error {
            CertificateError::Certificate => (Self::CERTIFICATE, &self.certificate),
            CertificateError::Key | CertificateError::Apart => (Self::KEY, &self.key),
        };
        ConfigError(format!("{env} is \"{}\", which can't be used: {error}", path.display()))
    }
}

fn read_file(env: &str, path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| {
        ConfigError(format!("{env} is \"{}\", which can't be read: {error}", path.display()))
    })
}

/// How the workers work.
#[derive(Debug, Clone, Copy)]
pub struct WorkerConfig {
    /// `PIX_RECONCILER_INTERVAL_MS`
    pub interval: Duration,
    /// `PIX_RECONCILER_PER_SECOND`
    pub per_second: NonZeroU32,
    /// `PIX_CALLBACK_KEEP_DAYS`
    pub keep_callbacks: Duration,
}

/// How the books are sealed and audited.
#[derive(Debug, Clone, Copy)]
pub struct SealConfig {
    /// `PIX_SEAL_INTERVAL_MS`; `None` for not at all.
    pub interval: Option<Duration>,
    /// `PIX_SEAL_ENTRIES`
    pub entries: u64,
    /// `PIX_AUDIT_INTERVAL_S`; `None` for by hand.
    pub audit_interval: Option<Duration>,
}

/// How what has ended is held against the provider.
#[derive(Debug, Clone)]
pub struct ProofConfig {
    /// `PIX_PROOF_PER_MINUTE`; 0 for not at all.
    pub per_minute: u64,
    /// `PIX_PROOF_AFTER_HOURS`, the shortest first.
    pub after: Vec<Duration>,
}

/// How personal data is put under keys.
#[derive(Debug, Clone, Copy)]
pub struct PersonConfig {
    /// `PIX_PERSON_LOCK_RECORDS`; 0 for not at all.
    pub lock_records: u64,
    /// `PIX_PERSON_LOCK_AFTER_DAYS`
    pub lock_after: Duration,
}

/// How a statement of the books is signed once a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BooksSettings {
    /// `PIX_BOOKS_KEY_FILE`
    pub key_file: PathBuf,
    /// `PIX_BOOKS_DIR`
    pub folder: PathBuf,
}

/// How postbacks are delivered.
#[derive(Debug, Clone)]
pub struct PostbackSettings {
    /// `PIX_POSTBACK_KEYS`
    pub keys: Option<SecretString>,
    /// `PIX_POSTBACK_ALLOW_PRIVATE`; `None` when it isn't said.
    pub allow_private: Option<PrivateAddresses>,
    /// `PIX_POSTBACK_ALLOW_HTTP`
    pub allow_http: bool,
    /// `PIX_POSTBACK_TIMEOUT_MS`
    pub timeout: Duration,
    /// The other `PIX_POSTBACK_…`.
    pub deliverer: DelivererConfig,
}

/// How much may come at once, and where it is counted.
#[derive(Debug, Clone)]
pub struct OverloadSettings {
    /// `PIX_RATE_KEY_PER_MINUTE`; `None` when it isn't said.
    pub rate_key_per_minute: Option<u32>,
    /// `PIX_RATE_BUCKETS`
    pub rate_buckets: u32,
    /// `PIX_RATE_STORE` and `PIX_RATE_STORE_TIMEOUT_MS`
    pub rate_store: Option<RateStore>,
    /// `PIX_REQUESTS_AT_ONCE`
    pub requests_at_once: usize,
    /// `PIX_REQUESTS_AT_ONCE_PER_KEY`; `None` when it isn't said.
    pub requests_at_once_per_key: Option<usize>,
    /// `PIX_SIGN_INS_AT_ONCE`
    pub sign_ins_at_once: usize,
    /// `PIX_PAY_STREAMS`
    pub pay_streams: usize,
    /// `PIX_CONNECTIONS`
    pub connections: usize,
    /// `PIX_CONNECTIONS_PER_IP`
    pub connections_per_ip: usize,
    /// `PIX_HEAD_DEADLINE_MS`
    pub head_deadline: Duration,
    /// `PIX_KEEP_ALIVE_MS`
    pub keep_alive: Duration,
    /// `PIX_UNREAD_DEADLINE_MS`
    pub unread_deadline: Duration,
}

/// The whole configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// `PIX_LISTEN`
    pub listen: SocketAddr,
    /// `PIX_TLS_CERT_FILE` and `PIX_TLS_KEY_FILE`; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// `DATABASE_URL`
    pub database: Database,
    /// `PIX_MIGRATE_ON_START`
    pub migrate_on_start: bool,
    /// `PIX_DB_…`: how PostgreSQL is used.
    pub postgres: PgOptions,
    /// `PIX_CACHE_TTL_MS`; zero for no cache.
    pub cache_ttl: Duration,
    /// `PIX_PUBLIC_URL`
    pub public_url: String,
    /// `PIX_PROVIDER_URL` and what goes with it; `None` for the simulated one.
    pub provider: Option<ProviderSettings>,
    /// `PIX_PROVIDER_TIMEOUT_MS`
    pub provider_timeout: Duration,
    /// `PIX_PROVIDER_BREAKER_…` and `PIX_PROVIDER_CHARGES_UNDER_WAY`
    pub breaker: BreakerConfig,
    /// `PIX_DUPLICATE_WINDOW_S`; zero for no guard.
    pub duplicate_window: Duration,
    /// `PIX_RESTORE_ASK_S`
    pub restore_ask: Duration,
    /// `PIX_PROVIDER_NOT_FOUND_PROOF_S`
    pub not_found_proof: Option<Duration>,
    /// `PIX_PROVIDER_CALLBACK_SECRET`
    pub callback_secret: Option<String>,
    /// `PIX_TOKEN_KEYS`
    pub token_keys: Option<SecretString>,
    /// `PIX_TOKEN_TTL_S`
    pub token_ttl: Duration,
    /// `PIX_HASH_PERMITS`
    pub hash_permits: usize,
    /// `PIX_RATE_TOKEN_PER_MINUTE`
    pub rate_token_per_minute: u32,
    /// `PIX_RATE_API_PER_MINUTE`
    pub rate_api_per_minute: u32,
    /// `PIX_RATE_API_BURST`
    pub rate_api_burst: u32,
    /// The other `PIX_RATE_…`, and what else there may be at once.
    pub overload: OverloadSettings,
    /// `PIX_TRUSTED_PROXIES`, as written.
    pub trusted_proxies: Vec<String>,
    /// `PIX_CORS_ALLOW_ORIGINS`
    pub cors_allow_origins: Vec<String>,
    /// `PIX_BODY_DEADLINE_MS`
    pub body_deadline: Duration,
    /// `PIX_DRAIN_MS`
    pub drain: Duration,
    /// `PIX_SHUTDOWN_TIMEOUT_S`
    pub shutdown_timeout: Duration,
    /// `PIX_CLOCK_INTERVAL_MS`
    pub clock_interval: Duration,
    /// `PIX_RECONCILER_…` and `PIX_CALLBACK_KEEP_DAYS`: how the workers work.
    pub worker: WorkerConfig,
    /// `PIX_SEAL_…` and `PIX_AUDIT_INTERVAL_S`: how the books are sealed and audited.
    pub seals: SealConfig,
    /// `PIX_PERSON_…`: how personal data is put under keys.
    pub people: PersonConfig,
    /// `PIX_PROOF_…`: how what has ended is held against the provider.
    pub proofs: ProofConfig,
    /// `PIX_BOOKS_…`; `None` when no statement is signed.
    pub books: Option<BooksSettings>,
    /// `PIX_CALLBACKS_PER_SECOND`
    pub callbacks_per_second: u32,
    /// `PIX_POSTBACK_…`: how postbacks are delivered.
    pub postbacks: PostbackSettings,
    /// `PIX_ADMIN_LISTEN`; `None` for off.
    pub admin_listen: Option<SocketAddr>,
    /// `PIX_CONSOLE_OPERATORS` and `PIX_CONSOLE_HOSTS`; `None` for no console.
    pub console: Option<ConsoleConfig>,
    /// `PIX_OPERATOR`
    pub operator: Option<String>,
    /// What of a real provider's is set, though there is none.
    pub of_no_provider: Option<&'static str>,
    /// `PIX_SIMULATOR_LISTEN`
    pub simulator_listen: SocketAddr,
    /// `PIX_LOG`
    pub log: String,
    /// `PIX_LOG_FORMAT` is `json`.
    pub log_json: bool,
    /// `PIX_OTLP_…`: where traces go; `None` for nowhere.
    pub otlp: Option<OtlpSettings>,
}

/// Where values come from: a TOML file's, overridden by the environment's, overridden by flags.
#[derive(Default, Clone)]
pub struct Source {
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Source {
    /// The environment over the file, if one is given. An unknown name in the file is refused, since a misspelt
    /// setting that is silently ignored costs more than a start that is refused.
    #[cfg(test)]
    pub fn read(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let (source, problems) = Self::gather(file, environment, &[]);
        problems.into_iter().next().map_or(Ok(source), Err)
    }

    /// The same, with `--set` over both, and with everything that is wrong instead of the first.
    pub fn gather(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        flags: &[String],
    ) -> (Self, Vec<ConfigError>) {
        let (mut source, mut problems) = (Self::default(), Vec::new());
        if let Some(path) = file
            && let Err(error) = source.read_file(path, &mut problems)
        {
            problems.push(error);
        }
        for (name, value) in environment {
            if let Some(setting) = SETTINGS.iter().find(|setting| setting.env == name) {
                source.values.insert(setting.env, (value, Origin::Environment));
            }
        }
        for flag in flags {
            if let Err(error) = source.set_flag(flag) {
                problems.push(error);
            }
        }
        (source, problems)
    }

    /// `NAME=VALUE`. Every user of the machine sees the arguments of a program, so nothing secret is taken from there.
    fn set_flag(&mut self, flag: &str) -> Result<(), ConfigError> {
        let Some((name, value)) = flag.split_once('=') else {
            return Err(ConfigError("--set takes NAME=VALUE, such as PIX_LISTEN=127.0.0.1:8080".into()));
        };
        let Some(setting) = SETTINGS.iter().find(|setting| setting.env == name) else {
            return Err(ConfigError(format!(
                "--set names \"{name}\", which is no setting: `pix-gateway config show` lists them"
            )));
        };
        if setting.secret || setting.shown(value) != value {
            return Err(ConfigError(format!(
                "{name} can't be given by --set, since others on this machine see a program's arguments: set it in the environment or in the file of --config"
            )));
        }
        self.values.insert(setting.env, (value.to_owned(), Origin::Flag));
        Ok(())
    }

    /// What says who acts wins over all else.
    pub fn set_operator(&mut self, name: String) {
        self.values.insert("PIX_OPERATOR", (name, Origin::Flag));
    }

    /// The value of a setting, if there is one, and where it comes from.
    pub fn value(&self, setting: &Setting) -> (Option<&str>, Origin) {
        match self.values.get(setting.env) {
            Some((value, origin)) => (Some(value), *origin),
            None => (setting.default, Origin::Default),
        }
    }

    /// Everything that is wrong with the values, each once, and the configuration if nothing is.
    ///
    /// Reading stops at the first wrong value; so that value is left out and the rest is read again, as often as
    /// there are settings at most.
    pub fn problems(&self) -> (Option<Config>, Vec<ConfigError>) {
        let (mut rest, mut problems) = (self.clone(), Vec::new());
        for _ in SETTINGS {
            let error = match Config::load(&rest) {
                Ok(config) => return (problems.is_empty().then_some(config), problems),
                Err(error) => error,
            };
            let left_out = error.setting().and_then(|setting| rest.values.remove(setting.env));
            problems.push(error);
            if left_out.is_none() {
                break;
            }
        }
        (None, problems)
    }

    fn read_file(&mut self, path: &Path, problems: &mut Vec<ConfigError>) -> Result<(), ConfigError> {
        let shown = path.display();
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| ConfigError(format!("the configuration file {shown} can't be read: {error}")))?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_FILE_BYTES {
            return Err(ConfigError(format!(
                "the configuration file {shown} has more than {MAX_FILE_BYTES} bytes: name another file"
            )));
        }
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            // The line itself is not shown: it may hold a secret.
            let before = error.span().and_then(|span| text.get(..span.start));
            let place =
                before.map(|before| format!(" in line {}", before.split('\n').count())).unwrap_or_default();
            ConfigError(format!(
                "the configuration file {shown} is not valid TOML{place}: {}",
                error.message()
            ))
        })?;
        for (key, value) in table {
            let Some(setting) = SETTINGS.iter().find(|setting| setting.toml_key() == key) else {
                problems.push(ConfigError(format!(
                    "{shown}: there is no setting \"{key}\"; the nearest is \"{}\", and `pix-gateway --help` lists all",
                    nearest(&key)
                )));
                continue;
            };
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                _ => {
                    problems.push(ConfigError(format!(
                        "{shown}: \"{key}\" must be a text, a whole number or a boolean"
                    )));
                    continue;
                }
            };
            self.values.insert(setting.env, (value, Origin::File));
        }
        Ok(())
    }

    fn text(&self, env: &'static str) -> Option<String> {
        let default = SETTINGS.iter().find(|setting| setting.env == env).and_then(|setting| setting.default);
        self.values
            .get(env)
            .map(|(value, _)| value.as_str())
            .or(default)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    /// Whether somebody has set it.
    fn is_set(&self, env: &str) -> bool {
        self.values.get(env).is_some_and(|(value, _)| !value.is_empty())
    }

    /// What the file holds that a setting names.
    fn file(&self, env: &'static str) -> Result<Option<String>, ConfigError> {
        let path = self.text(env).map(PathBuf::from);
        path.map(|path| read_file(env, &path)).transpose()
    }

    fn required(&self, env: &'static str) -> Result<String, ConfigError> {
        self.text(env).ok_or_else(|| ConfigError(format!("{env} must not be empty")))
    }

    fn parsed<T: FromStr>(&self, env: &'static str, form: &str) -> Result<T, ConfigError> {
        let text = self.required(env)?;
        text.parse().map_err(|_wrong| ConfigError(format!("{env} is \"{text}\" but must be {form}")))
    }

    fn number(&self, env: &'static str, least: u64, most: u64) -> Result<u64, ConfigError> {
        self.number_or(env, least, most, "")
    }

    /// The same; `or` names what else there may be.
    fn number_or(&self, env: &'static str, least: u64, most: u64, or: &str) -> Result<u64, ConfigError> {
        let form = format!("a whole number from {least} to {most}{or}");
        if self.required(env)?.starts_with('+') {
            return Err(ConfigError(format!("{env} must be {form}, without a sign")));
        }
        let number = self.parsed(env, &form)?;
        if (least..=most).contains(&number) {
            Ok(number)
        } else {
            Err(ConfigError(format!("{env} is {number} but must be {form}")))
        }
    }

    fn number_u32(&self, env: &'static str, most: u32) -> Result<u32, ConfigError> {
        Ok(u32::try_from(self.number(env, 1, most.into())?).unwrap_or(most))
    }

    fn size(&self, env: &'static str, most: u32) -> Result<usize, ConfigError> {
        Ok(usize::try_from(self.number_u32(env, most)?).unwrap_or(1))
    }

    fn millis(&self, env: &'static str, least: u64, most: u64) -> Result<Duration, ConfigError> {
        self.number(env, least, most).map(Duration::from_millis)
    }

    fn flag(&self, env: &'static str) -> Result<bool, ConfigError> {
        self.parsed(env, "true or false")
    }

    fn list(&self, env: &'static str) -> Vec<String> {
        let text = self.text(env).unwrap_or_default();
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }
}

impl Config {
    /// Reads and checks everything.
    pub fn load(source: &Source) -> Result<Self, ConfigError> {
        let listen: SocketAddr = source.parsed("PIX_LISTEN", "an address and port such as 127.0.0.1:8080")?;
        let provider = provider(source)?;
        let tls = tls(source)?;
        let public_url = match source.text("PIX_PUBLIC_URL") {
            Some(url) => checked_url("PIX_PUBLIC_URL", &url)?,
            None => url_of(listen, tls.is_some()),
        };
        Ok(Self {
            listen,
            tls,
            database: database(source)?,
            migrate_on_start: source.flag("PIX_MIGRATE_ON_START")?,
            postgres: postgres(source)?,
            cache_ttl: source.millis("PIX_CACHE_TTL_MS", 0, 5000)?,
            public_url,
            not_found_proof: not_found_proof(source, provider.as_ref())?,
            provider,
            provider_timeout: source.millis("PIX_PROVIDER_TIMEOUT_MS", 100, 120_000)?,
            breaker: BreakerConfig {
                failures_to_open: source.number_u32("PIX_PROVIDER_BREAKER_FAILURES", 1_000)?,
                open_for: source.millis("PIX_PROVIDER_BREAKER_OPEN_MS", 1_000, 600_000)?,
                charges_under_way: source.size("PIX_PROVIDER_CHARGES_UNDER_WAY", 65_536)?,
                ..BreakerConfig::default()
            },
            duplicate_window: Duration::from_secs(source.number("PIX_DUPLICATE_WINDOW_S", 0, 86_400)?),
            restore_ask: Duration::from_secs(source.number("PIX_RESTORE_ASK_S", 0, 7_776_000)?),
            callback_secret: callback_secret(source)?,
            token_keys: source.text("PIX_TOKEN_KEYS").map(SecretString::from),
            token_ttl: Duration::from_secs(source.number("PIX_TOKEN_TTL_S", 60, 86_400)?),
            hash_permits: source.size("PIX_HASH_PERMITS", 64)?,
            rate_token_per_minute: source.number_u32("PIX_RATE_TOKEN_PER_MINUTE", 100_000)?,
            rate_api_per_minute: source.number_u32("PIX_RATE_API_PER_MINUTE", 10_000_000)?,
            rate_api_burst: source.number_u32("PIX_RATE_API_BURST", 100_000)?,
            overload: overload(source)?,
            trusted_proxies: trusted_proxies(source)?,
            cors_allow_origins: origins(source)?,
            body_deadline: source.millis("PIX_BODY_DEADLINE_MS", 100, 60_000)?,
            drain: source.millis("PIX_DRAIN_MS", 0, 60_000)?,
            shutdown_timeout: Duration::from_secs(source.number("PIX_SHUTDOWN_TIMEOUT_S", 1, 300)?),
            clock_interval: source.millis("PIX_CLOCK_INTERVAL_MS", 100, 3_600_000)?,
            worker: WorkerConfig {
                interval: source.millis("PIX_RECONCILER_INTERVAL_MS", 50, 60_000)?,
                per_second: NonZeroU32::new(source.number_u32("PIX_RECONCILER_PER_SECOND", 10_000)?)
                    .unwrap_or(NonZeroU32::MIN),
                keep_callbacks: Duration::from_hours(
                    u64::from(source.number_u32("PIX_CALLBACK_KEEP_DAYS", 3_650)?) * 24,
                ),
            },
            seals: seals(source)?,
            proofs: proofs(source)?,
            people: people(source)?,
            books: books(source)?,
            callbacks_per_second: source.number_u32("PIX_CALLBACKS_PER_SECOND", 100_000)?,
            postbacks: postbacks(source)?,
            admin_listen: match source.required("PIX_ADMIN_LISTEN")?.as_str() {
                "off" => None,
                _ => Some(
                    source
                        .parsed("PIX_ADMIN_LISTEN", "an address and port such as 127.0.0.1:9464, or off")?,
                ),
            },
            console: console(source)?,
            operator: operator(source)?,
            of_no_provider: ["PIX_PROVIDER_CLIENT_ID", "PIX_PROVIDER_CLIENT_SECRET"]
                .into_iter()
                .find(|env| !source.is_set("PIX_PROVIDER_URL") && source.is_set(env)),
            simulator_listen: source
                .parsed("PIX_SIMULATOR_LISTEN", "an address and port such as 127.0.0.1:8081")?,
            log: source.required("PIX_LOG")?,
            log_json: match source.required("PIX_LOG_FORMAT")?.as_str() {
                "text" => false,
                "json" => true,
                other => {
                    return Err(ConfigError(format!(
                        "PIX_LOG_FORMAT is \"{other}\" but must be text or json"
                    )));
                }
            },
            otlp: otlp(source)?,
        })
    }

    /// Takes the address of `PIX_LISTEN`. With port 0 that is a free one, and what is derived from the address (the public
    /// URL, the callback URL) follows.
    pub fn listening(mut self) -> Result<(Self, TcpListener), ConfigError> {
        let refused = |error| {
            ConfigError(format!(
                "PIX_LISTEN is {}, which can't be listened on ({error}): stop what listens there, or choose another address",
                self.listen
            ))
        };
        let listener = pix_http::listen(self.listen).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        if self.public_url == self.listen_url() {
            self.listen = address;
            self.public_url = self.listen_url();
        }
        self.listen = address;
        Ok((self, listener))
    }

    /// The URL of what is listened on.
    pub fn listen_url(&self) -> String {
        url_of(self.listen, self.tls.is_some())
    }
}

fn url_of(listen: SocketAddr, encrypted: bool) -> String {
    let scheme = if encrypted { "https" } else { "http" };
    format!("{scheme}://{listen}")
}

fn tls(source: &Source) -> Result<Option<TlsFiles>, ConfigError> {
    let files = (source.text(TlsFiles::CERTIFICATE), source.text(TlsFiles::KEY));
    let (Some(certificate), Some(key)) = files else {
        // Says which of the two is lacking.
        return Ok(pair_of_files(source, TlsFiles::CERTIFICATE, TlsFiles::KEY)?.and(None));
    };
    let files = TlsFiles { certificate: certificate.into(), key: key.into() };
    files.read()?;
    Ok(Some(files))
}

fn checked_url(env: &str, url: &str) -> Result<String, ConfigError> {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or_default();
    let plain = !host.is_empty()
        && url.bytes().all(|byte| byte.is_ascii_graphic())
        && !host.contains(['@', '?', '#'])
        && reqwest::Url::parse(url).is_ok();
    if plain {
        Ok(url.trim_end_matches('/').to_owned())
    } else {
        Err(ConfigError(format!(
            "{env} must be an address such as https://pix.example.com, without user, query or fragment, and with a port up to 65535 if any"
        )))
    }
}

fn origins(source: &Source) -> Result<Vec<String>, ConfigError> {
    const NAME: &str = "PIX_CORS_ALLOW_ORIGINS";
    let origins = source.list(NAME);
    match origins.iter().find(|origin| !is_origin(origin)) {
        None => Ok(origins),
        Some(wrong) => Err(ConfigError(format!(
            "{NAME} has \"{wrong}\", which no browser names as an origin: write each one as https://shop.example or http://localhost:3000, in lower case, without a path, and with a port only if it isn't the scheme's own"
        ))),
    }
}

/// Whether a browser may send it so (RFC 6454, section 6.2): scheme and host in lower case, and a port unless it is the scheme's own.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let has_only = |part: &str, also: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || also.contains(c);
        !part.is_empty() && part.chars().all(fits)
    };
    let own_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "://",
    };
    has_only(scheme, "+-.") && has_only(host, "-._:[]") && !host.ends_with(own_port)
}

fn database(source: &Source) -> Result<Database, ConfigError> {
    let url = source.required("DATABASE_URL")?;
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Database::Postgres { url: url.into() });
    }
    let is_default = !source.is_set("DATABASE_URL");
    match url.strip_prefix("sqlite://").filter(|path| !path.is_empty()) {
        Some(path) => Ok(Database::Sqlite { path: PathBuf::from(path), is_default }),
        // Not shown: a database URL may hold a password.
        None => Err(ConfigError(
            "DATABASE_URL must be sqlite://PATH, such as sqlite:///var/lib/pix-gateway/pix.db, or postgres://USER:PASSWORD@HOST:5432/DATABASE".into(),
        )),
    }
}

fn overload(source: &Source) -> Result<OverloadSettings, ConfigError> {
    const KEY: &str = "PIX_RATE_KEY_PER_MINUTE";
    const PER_KEY: &str = "PIX_REQUESTS_AT_ONCE_PER_KEY";
    const PER_IP: &str = "PIX_CONNECTIONS_PER_IP";
    let key_per_minute = match source.text(KEY) {
        Some(_) => {
            let least = source.number("PIX_RATE_API_PER_MINUTE", 1, 10_000_000)?;
            Some(u32::try_from(source.number(KEY, least, 40_000_000)?).unwrap_or(u32::MAX))
        }
        None => None,
    };
    let timeout = source.millis("PIX_RATE_STORE_TIMEOUT_MS", 1, 1_000)?;
    // The error says nothing of the value, which may hold a password.
    let store = source.text("PIX_RATE_STORE").map(|url| RateStore::new(&url, timeout)).transpose();
    let count = |env, least, most| {
        Ok::<_, ConfigError>(usize::try_from(source.number(env, least, most)?).unwrap_or(usize::MAX))
    };
    // A share of what `all` is.
    let share = |env, all: &'static str, most: usize| {
        let share = count(env, 1, u64::try_from(most).unwrap_or(u64::MAX));
        share.map_err(|refused| ConfigError(format!("{refused}, which {all} is")))
    };
    let requests_at_once = count("PIX_REQUESTS_AT_ONCE", 1, 65_536)?;
    let connections = count("PIX_CONNECTIONS", 16, 1_000_000)?;
    Ok(OverloadSettings {
        rate_key_per_minute: key_per_minute,
        rate_buckets: u32::try_from(source.number("PIX_RATE_BUCKETS", 1_000, 10_000_000)?).unwrap_or(1_000),
        rate_store: store.map_err(|refused| ConfigError(format!("PIX_RATE_STORE {}", refused.problem)))?,
        requests_at_once,
        requests_at_once_per_key: match source.text(PER_KEY) {
            Some(_) => Some(share(PER_KEY, "PIX_REQUESTS_AT_ONCE", requests_at_once)?),
            None => None,
        },
        sign_ins_at_once: count("PIX_SIGN_INS_AT_ONCE", 1, 65_536)?,
        pay_streams: count("PIX_PAY_STREAMS", 1, 65_536)?,
        connections,
        connections_per_ip: if source.is_set(PER_IP) {
            share(PER_IP, "PIX_CONNECTIONS", connections)?
        } else {
            // The default holds where there are fewer of all.
            count(PER_IP, 1, 1_000_000)?
        },
        head_deadline: source.millis("PIX_HEAD_DEADLINE_MS", 100, 60_000)?,
        keep_alive: source.millis("PIX_KEEP_ALIVE_MS", 1_000, 300_000)?,
        unread_deadline: source.millis("PIX_UNREAD_DEADLINE_MS", 1_000, 60_000)?,
    })
}

fn seals(source: &Source) -> Result<SealConfig, ConfigError> {
    let unless_zero = |span: Duration| (!span.is_zero()).then_some(span);
    Ok(SealConfig {
        interval: unless_zero(source.millis("PIX_SEAL_INTERVAL_MS", 0, 3_600_000)?),
        entries: source.number("PIX_SEAL_ENTRIES", 1, 10_000_000)?,
        audit_interval: unless_zero(Duration::from_secs(source.number(
            "PIX_AUDIT_INTERVAL_S",
            0,
            2_592_000,
        )?)),
    })
}

fn proofs(source: &Source) -> Result<ProofConfig, ConfigError> {
    const AFTER: &str = "PIX_PROOF_AFTER_HOURS";
    let hours: Option<Vec<u64>> = source.list(AFTER).iter().map(|hours| hours.parse().ok()).collect();
    let fits = |hours: &Vec<u64>| {
        (1..=4).contains(&hours.len())
            && hours.iter().all(|hours| *hours <= 8_760)
            && hours.is_sorted_by(|one, next| one < next)
    };
    let hours = hours.filter(fits).ok_or_else(|| {
        ConfigError(format!(
            "{AFTER} must be one to four whole numbers from 0 to 8760, each more than the one before, such as 24,168,2208"
        ))
    })?;
    Ok(ProofConfig {
        per_minute: source.number("PIX_PROOF_PER_MINUTE", 0, 100_000)?,
        after: hours.into_iter().map(Duration::from_hours).collect(),
    })
}

fn people(source: &Source) -> Result<PersonConfig, ConfigError> {
    Ok(PersonConfig {
        lock_records: source.number("PIX_PERSON_LOCK_RECORDS", 0, 1_000_000)?,
        lock_after: Duration::from_hours(source.number("PIX_PERSON_LOCK_AFTER_DAYS", 2, 3_650)? * 24),
    })
}

fn books(source: &Source) -> Result<Option<BooksSettings>, ConfigError> {
    const KEY: &str = "PIX_BOOKS_KEY_FILE";
    const FOLDER: &str = "PIX_BOOKS_DIR";
    match (source.text(KEY), source.text(FOLDER)) {
        (Some(key), Some(folder)) => Ok(Some(BooksSettings { key_file: key.into(), folder: folder.into() })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError(format!("{KEY} is set, so {FOLDER} must be set too"))),
        (None, Some(_)) => Err(ConfigError(format!("{FOLDER} is set, so {KEY} must be set too"))),
    }
}

fn postbacks(source: &Source) -> Result<PostbackSettings, ConfigError> {
    let within = |env, bounds: &RangeInclusive<u32>| {
        let number = source.number(env, (*bounds.start()).into(), (*bounds.end()).into())?;
        Ok(u32::try_from(number).unwrap_or(*bounds.end()))
    };
    Ok(PostbackSettings {
        keys: source.text("PIX_POSTBACK_KEYS").map(SecretString::from),
        allow_private: match source.text("PIX_POSTBACK_ALLOW_PRIVATE").as_deref() {
            None => None,
            Some("false") => Some(PrivateAddresses::Never),
            Some("loopback") => Some(PrivateAddresses::Loopback),
            Some("true") => Some(PrivateAddresses::All),
            Some(other) => {
                return Err(ConfigError(format!(
                    "PIX_POSTBACK_ALLOW_PRIVATE is \"{other}\" but must be false, loopback or true"
                )));
            }
        },
        allow_http: source.flag("PIX_POSTBACK_ALLOW_HTTP")?,
        timeout: source.millis("PIX_POSTBACK_TIMEOUT_MS", 1_000, 15_000)?,
        deliverer: DelivererConfig {
            poll_interval_ms: within("PIX_POSTBACK_INTERVAL_MS", &POLL_INTERVAL_MS_BOUNDS)?,
            at_once: within("PIX_POSTBACK_AT_ONCE", &AT_ONCE_BOUNDS)?,
            per_endpoint: within("PIX_POSTBACK_PER_RECEIVER", &PER_ENDPOINT_BOUNDS)?,
            keep_days: within("PIX_POSTBACK_KEEP_DAYS", &KEEP_DAYS_BOUNDS)?,
        },
    })
}

fn postgres(source: &Source) -> Result<PgOptions, ConfigError> {
    let grouping = Grouping {
        max_group: source.size("PIX_DB_GROUP_MAX", 256)?,
        groups_in_flight: source.size("PIX_DB_GROUPS_IN_FLIGHT", 16)?,
        gather_wait: Duration::from_micros(source.number("PIX_DB_GATHER_WAIT_US", 0, 500)?),
        lookups_in_flight: source.size("PIX_DB_LOOKUPS_IN_FLIGHT", 16)?,
    };
    Ok(PgOptions {
        migrate: false,
        money_connections: source.size("PIX_DB_MONEY_CONNECTIONS", 64)?,
        read_connections: source.size("PIX_DB_READ_CONNECTIONS", 256)?,
        worker_connections: source.size("PIX_DB_WORKER_CONNECTIONS", 32)?,
        connect_timeout: source.millis("PIX_DB_CONNECT_TIMEOUT_MS", 100, 60_000)?,
        acquire_timeout: source.millis("PIX_DB_ACQUIRE_TIMEOUT_MS", 10, 60_000)?,
        statement_timeout: source.millis("PIX_DB_STATEMENT_TIMEOUT_MS", 100, 60_000)?,
        resolve_timeout: source.millis("PIX_DB_RESOLVE_TIMEOUT_MS", 100, 60_000)?,
        grouping: source.flag("PIX_DB_GROUP")?.then_some(grouping),
    })
}

fn provider(source: &Source) -> Result<Option<ProviderSettings>, ConfigError> {
    let Some(url) = source.text("PIX_PROVIDER_URL") else {
        let files = ["PIX_PROVIDER_CA_FILE", "PIX_PROVIDER_CERT_FILE", "PIX_PROVIDER_KEY_FILE"];
        return match files.into_iter().find(|env| source.is_set(env)) {
            None => Ok(None),
            Some(env) => Err(ConfigError(format!(
                "{env} is set, and the simulated provider makes no use of it: set PIX_PROVIDER_URL too, or remove it"
            ))),
        };
    };
    let url = checked_url("PIX_PROVIDER_URL", &url)?;
    let Some(client_secret) = source.text("PIX_PROVIDER_CLIENT_SECRET") else {
        return Err(ConfigError(
            "PIX_PROVIDER_URL is set, so PIX_PROVIDER_CLIENT_SECRET must be set too".into(),
        ));
    };
    let client_id = source.required("PIX_PROVIDER_CLIENT_ID")?;
    let authorities_pem = source.file("PIX_PROVIDER_CA_FILE")?;
    let identity_pem = pair_of_files(source, "PIX_PROVIDER_CERT_FILE", "PIX_PROVIDER_KEY_FILE")?;
    if url.starts_with("http://") && (authorities_pem.is_some() || identity_pem.is_some()) {
        return Err(ConfigError(
            "PIX_PROVIDER_URL is http, so PIX_PROVIDER_CA_FILE, PIX_PROVIDER_CERT_FILE and PIX_PROVIDER_KEY_FILE would do nothing: make it https, or remove them".into(),
        ));
    }
    let identity_pem = identity_pem.map(|(certificates, key)| format!("{certificates}\n{key}").into());
    Ok(Some(ProviderSettings {
        url,
        client_id,
        client_secret: client_secret.into(),
        tls: ClientTls { authorities_pem, identity_pem },
    }))
}

fn otlp(source: &Source) -> Result<Option<OtlpSettings>, ConfigError> {
    const ENDPOINT: &str = "PIX_OTLP_ENDPOINT";
    const SHARE: &str = "PIX_OTLP_SAMPLE_PERCENT";
    let endpoint = source.text(ENDPOINT).map(|url| checked_url(ENDPOINT, &url)).transpose()?;
    let headers = source.text("PIX_OTLP_HEADERS").map(SecretString::from);
    if headers.as_ref().is_some_and(|headers| otlp::headers(headers.expose_secret()).is_none()) {
        return Err(ConfigError(
            "PIX_OTLP_HEADERS must be name=value,name=value, percent-encoded, with at most 16 headers of 4096 bytes together".into(),
        ));
    }
    let share = source.required(SHARE)?;
    let share = share_of(&share).ok_or_else(|| {
        ConfigError(format!("{SHARE} is \"{share}\" but must be from 0.0001 to 100, with at most 4 decimals"))
    })?;
    let queue = usize::try_from(source.number("PIX_OTLP_QUEUE", 512, 65_536)?).unwrap_or(otlp::MAX_BATCH);
    let interval = source.millis("PIX_OTLP_INTERVAL_MS", 100, 60_000)?;
    let timeout = source.millis("PIX_OTLP_TIMEOUT_MS", 100, 30_000)?;
    let Some(endpoint) = endpoint else { return Ok(None) };
    if headers.is_some() && endpoint.starts_with("http://") && !is_loopback(&endpoint) {
        return Err(ConfigError(
            "PIX_OTLP_ENDPOINT is http and not on this machine, so that whoever is on the way could read PIX_OTLP_HEADERS: make it https, or remove them".into(),
        ));
    }
    Ok(Some(OtlpSettings { endpoint, headers, share, queue, interval, timeout }))
}

/// A share in per cent, in parts of [`otlp::WHOLE_SHARE`].
fn share_of(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let fits =
        |part: &str, most| (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: u32 = format!("{whole}{decimals:0<4}").parse().ok()?;
    (fits(whole, 3) && fits(decimals, 4) && (1..=otlp::WHOLE_SHARE).contains(&parts)).then_some(parts)
}

/// A certificate and its key, which make no sense alone.
fn pair_of_files(
    source: &Source,
    cert: &'static str,
    key: &'static str,
) -> Result<Option<(String, String)>, ConfigError> {
    match (source.file(cert)?, source.file(key)?) {
        (Some(certificates), Some(key)) => Ok(Some((certificates, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError(format!("{cert} is set, so {key} must be set too"))),
        (None, Some(_)) => Err(ConfigError(format!("{key} is set, so {cert} must be set too"))),
    }
}

/// A provider on this very machine is a simulated one; with any other, a short horizon would take "not known yet" for a
/// no.
fn not_found_proof(
    source: &Source,
    provider: Option<&ProviderSettings>,
) -> Result<Option<Duration>, ConfigError> {
    const NAME: &str = "PIX_PROVIDER_NOT_FOUND_PROOF_S";
    let local = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
    let simulated = provider.is_none_or(|provider| local.iter().any(|start| provider.url.starts_with(start)));
    match source.text(NAME).as_deref() {
        Some("never") => return Ok(None),
        None => return Ok(simulated.then_some(SIMULATED_NOT_FOUND_PROOF)),
        Some(_) => {}
    }
    let least = if simulated { 1 } else { 60 };
    source.number_or(NAME, least, 86_400, ", or never").map(Duration::from_secs).map(Some)
}

fn operator(source: &Source) -> Result<Option<String>, ConfigError> {
    let Some(name) = source.text("PIX_OPERATOR") else { return Ok(None) };
    match Operator::parse(&name) {
        Some(_) => Ok(Some(name)),
        None => Err(ConfigError(format!(
            "PIX_OPERATOR (or --operator) is \"{}\" but must be {OPERATOR_NAME}",
            name.escape_debug()
        ))),
    }
}

/// What the name of an operator is.
pub const OPERATOR_NAME: &str = "1 to 64 characters, without blanks around them or control characters";

fn callback_secret(source: &Source) -> Result<Option<String>, ConfigError> {
    let Some(secret) = source.text("PIX_PROVIDER_CALLBACK_SECRET") else { return Ok(None) };
    if (32..=128).contains(&secret.len()) && secret.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(Some(secret));
    }
    Err(ConfigError(
        "PIX_PROVIDER_CALLBACK_SECRET must be 32 to 128 letters and digits, such as the output of `openssl rand -hex 32`".into(),
    ))
}

/// The most names in `PIX_CONSOLE_HOSTS`.
const MAX_CONSOLE_HOSTS: usize = 16;
/// The longest of them, in characters (RFC 1035, section 2.3.4).
const MAX_HOST_CHARS: usize = 253;

fn console(source: &Source) -> Result<Option<ConsoleConfig>, ConfigError> {
    let hosts = source.list("PIX_CONSOLE_HOSTS");
    let is_name = |name: &String| {
        name.len() <= MAX_HOST_CHARS
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
    };
    if hosts.len() > MAX_CONSOLE_HOSTS || !hosts.iter().all(is_name) {
        return Err(ConfigError(format!(
            "PIX_CONSOLE_HOSTS takes at most {MAX_CONSOLE_HOSTS} names such as console.example.com, without scheme and port"
        )));
    }
    let text = source.text("PIX_CONSOLE_OPERATORS").unwrap_or_default();
    let operators =
        Operators::parse(&text).map_err(|refused| ConfigError(format!("PIX_CONSOLE_OPERATORS {refused}")))?;
    if operators.is_empty() {
        return Ok(None);
    }
    if source.text("PIX_ADMIN_LISTEN").as_deref() == Some("off") {
        return Err(ConfigError(
            "PIX_CONSOLE_OPERATORS is set, and there is nowhere to sign in: PIX_ADMIN_LISTEN must be an address, not off".into(),
        ));
    }
    Ok(Some(ConsoleConfig { operators, hosts, is_encrypted: false }))
}

fn trusted_proxies(source: &Source) -> Result<Vec<String>, ConfigError> {
    let proxies = source.list("PIX_TRUSTED_PROXIES");
    for proxy in &proxies {
        let (address, bits) =
            proxy.split_once('/').map_or((proxy.as_str(), None), |(ip, bits)| (ip, Some(bits)));
        let most = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => 0,
        };
        let fits = bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= most));
        if most == 0 || !fits {
            return Err(ConfigError(format!(
                "PIX_TRUSTED_PROXIES has \"{proxy}\" but takes addresses and networks such as 10.0.0.1 or 10.0.0.0/8"
            )));
        }
    }
    Ok(proxies)
}

/// The setting whose name in the file is most like this one.
fn nearest(key: &str) -> String {
    let like = |name: &String| strsim::damerau_levenshtein(name, key);
    SETTINGS.iter().map(Setting::toml_key).min_by_key(like).unwrap_or_default()
}

/// The table of settings, for `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Settings (environment variables; in the TOML file of --config the same names in lower case without PIX_):\n",
    );
    for setting in SETTINGS {
        let mark = if setting.secret { " (secret)" } else { "" };
        let _ = write!(text, "\n  {}{mark}\n      {}", setting.env, setting.what);
        match setting.default {
            Some("") | None => {}
            Some(default) => {
                let _ = write!(text, " [default: {default}]");
            }
        }
    }
    text
}

/// The table of settings as Markdown: the configuration reference in `docs/OPERATIONS.md`.
#[cfg(test)]
pub fn reference() -> String {
    let mut text = String::from("| Variable | Default | Meaning |\n|---|---|---|\n");
    for setting in SETTINGS {
        let default = match setting.default {
            Some(default) if !default.is_empty() => format!("`{default}`"),
            _ => "–".to_owned(),
        };
        let mark = if setting.secret { " *(secret)*" } else { "" };
        let _ = writeln!(text, "| `{}`{mark} | {default} | {} |", setting.env, setting.what);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let environment = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(&Source::read(None, environment)?)
    }

    #[test]
    fn the_defaults_are_a_whole_configuration() {
        let config = load(&[]).unwrap();
        assert_eq!(config.listen.port(), 8080);
        assert_eq!(config.public_url, "http://127.0.0.1:8080");
        assert!(config.provider.is_none());
        assert!(matches!(config.database, Database::Sqlite { is_default: true, .. }));
        assert_eq!(config.postgres, PgOptions::default());
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_name_and_what_to_write() {
        for (name, value, says) in [
            ("PIX_LISTEN", "8080", "address and port"),
            ("DATABASE_URL", "mysql://user:hunter2@db/pix", "postgres://USER:PASSWORD@HOST:5432/DATABASE"),
            ("DATABASE_URL", "sqlite://", "sqlite://PATH"),
            ("PIX_PUBLIC_URL", "pix.example.com", "https://pix.example.com"),
            ("PIX_PROVIDER_URL", "https://bank.example", "PIX_PROVIDER_CLIENT_SECRET must be set"),
            ("PIX_PROVIDER_TIMEOUT_MS", "1", "from 100 to 120000"),
            ("PIX_PROVIDER_NOT_FOUND_PROOF_S", "soon", "from 1 to 86400, or never"),
            ("PIX_PROVIDER_URL", "https://bank.example:99999", "https://pix.example.com"),
            ("PIX_PUBLIC_URL", "https://[::1", "https://pix.example.com"),
            ("PIX_OTLP_ENDPOINT", "https://collector:99999", "https://pix.example.com"),
            ("PIX_OPERATOR", " ana", "without blanks around"),
            ("PIX_DB_MONEY_CONNECTIONS", "+5", "without a sign"),
            ("PIX_PROVIDER_CALLBACK_SECRET", "short", "32 to 128"),
            ("PIX_TOKEN_TTL_S", "1e9", "whole number"),
            ("PIX_RATE_API_BURST", "0", "from 1"),
            ("PIX_RATE_KEY_PER_MINUTE", "599", "from 600 to 40000000"),
            ("PIX_RATE_BUCKETS", "999", "from 1000 to 10000000"),
            ("PIX_RATE_STORE", "rediss://:hunter2@cache", "redis://:PASSWORD@HOST:6379/0"),
            ("PIX_RATE_STORE_TIMEOUT_MS", "0", "from 1 to 1000"),
            ("PIX_REQUESTS_AT_ONCE", "65537", "from 1 to 65536"),
            ("PIX_REQUESTS_AT_ONCE_PER_KEY", "0", "from 1 to 1024"),
            ("PIX_REQUESTS_AT_ONCE_PER_KEY", "1025", "to 1024, which PIX_REQUESTS_AT_ONCE is"),
            ("PIX_SIGN_INS_AT_ONCE", "0", "from 1 to 65536"),
            ("PIX_PAY_STREAMS", "0", "from 1 to 65536"),
            ("PIX_CONNECTIONS", "15", "from 16 to 1000000"),
            ("PIX_CONNECTIONS_PER_IP", "0", "from 1 to 8192"),
            ("PIX_CONNECTIONS_PER_IP", "8193", "to 8192, which PIX_CONNECTIONS is"),
            ("PIX_HEAD_DEADLINE_MS", "99", "from 100 to 60000"),
            ("PIX_KEEP_ALIVE_MS", "15", "from 1000 to 300000"),
            ("PIX_UNREAD_DEADLINE_MS", "60001", "from 1000 to 60000"),
            ("PIX_TRUSTED_PROXIES", "10.0.0.0/33", "10.0.0.0/8"),
            ("PIX_TRUSTED_PROXIES", "proxy", "10.0.0.0/8"),
            ("PIX_LOG_FORMAT", "xml", "text or json"),
            ("PIX_MIGRATE_ON_START", "yes", "true or false"),
            ("PIX_DB_MONEY_CONNECTIONS", "65", "from 1 to 64"),
            ("PIX_DB_READ_CONNECTIONS", "0", "from 1 to 256"),
            ("PIX_DB_WORKER_CONNECTIONS", "33", "from 1 to 32"),
            ("PIX_DB_CONNECT_TIMEOUT_MS", "99", "from 100 to 60000"),
            ("PIX_DB_ACQUIRE_TIMEOUT_MS", "9", "from 10 to 60000"),
            ("PIX_DB_STATEMENT_TIMEOUT_MS", "60001", "from 100 to 60000"),
            ("PIX_DB_RESOLVE_TIMEOUT_MS", "1s", "from 100 to 60000"),
            ("PIX_DB_GROUP", "on", "true or false"),
            ("PIX_DB_GROUP_MAX", "257", "from 1 to 256"),
            ("PIX_DB_GROUPS_IN_FLIGHT", "17", "from 1 to 16"),
            ("PIX_DB_GATHER_WAIT_US", "501", "from 0 to 500"),
            ("PIX_DB_LOOKUPS_IN_FLIGHT", "17", "from 1 to 16"),
            ("PIX_CACHE_TTL_MS", "5001", "from 0 to 5000"),
            ("PIX_OTLP_ENDPOINT", "collector:4318", "an address such as"),
            ("PIX_OTLP_HEADERS", "hunter2", "name=value,name=value"),
            ("PIX_OTLP_SAMPLE_PERCENT", "0", "from 0.0001 to 100"),
            ("PIX_OTLP_SAMPLE_PERCENT", "100.0001", "from 0.0001 to 100"),
            ("PIX_OTLP_QUEUE", "511", "from 512 to 65536"),
            ("PIX_OTLP_INTERVAL_MS", "99", "from 100 to 60000"),
            ("PIX_OTLP_TIMEOUT_MS", "30001", "from 100 to 30000"),
            ("PIX_CONSOLE_OPERATORS", "ana", "NAME:SHA256HEX"),
            ("PIX_CONSOLE_HOSTS", "https://console.example", "console.example.com"),
            ("PIX_PROVIDER_CERT_FILE", "/nowhere.pem", "set PIX_PROVIDER_URL too"),
            ("PIX_CLOCK_INTERVAL_MS", "99", "from 100 to 3600000"),
        ] {
            let refused = load(&[(name, value)]).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains(says), "{refused}");
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn the_console_is_there_when_somebody_may_sign_in_and_somewhere() {
        let ana = ("PIX_CONSOLE_OPERATORS", format!("ana:{}", "ab".repeat(32)));
        let ana = (ana.0, ana.1.as_str());
        assert!(load(&[]).unwrap().console.is_none());
        assert!(load(&[("PIX_CONSOLE_OPERATORS", "")]).unwrap().console.is_none());
        let console = load(&[ana, ("PIX_CONSOLE_HOSTS", "a.example, b.example")]).unwrap().console.unwrap();
        assert_eq!(console.hosts, ["a.example", "b.example"]);
        let refused = load(&[ana, ("PIX_ADMIN_LISTEN", "off")]).unwrap_err().to_string();
        assert!(refused.contains("PIX_ADMIN_LISTEN must be an address"), "{refused}");
        let twice = format!("{0},{0}", ana.1);
        let refused = load(&[("PIX_CONSOLE_OPERATORS", &twice)]).unwrap_err().to_string();
        assert!(refused.contains("\"ana\" twice"), "{refused}");
    }

    #[test]
    fn the_environment_wins_over_the_file_and_a_misspelt_name_in_the_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pix.toml");
        std::fs::write(&path, "listen = \"127.0.0.1:1\"\ntoken_ttl_s = 120\n").unwrap();
        let environment = || std::iter::once(("PIX_LISTEN".to_owned(), "127.0.0.1:2".to_owned()));
        let config = Config::load(&Source::read(Some(&path), environment()).unwrap()).unwrap();
        assert_eq!((config.listen.port(), config.token_ttl.as_secs()), (2, 120));
        std::fs::write(&path, "lisen = \"127.0.0.1:1\"\n").unwrap();
        let refused = Source::read(Some(&path), environment()).err().unwrap().to_string();
        assert!(refused.contains("no setting \"lisen\"; the nearest is \"listen\""), "{refused}");
        std::fs::write(&path, "listen = \"127.0.0.1:1\"\nprovider_client_secret = hunter2\n").unwrap();
        let refused = Source::read(Some(&path), environment()).err().unwrap().to_string();
        assert!(refused.contains("not valid TOML in line 2") && !refused.contains("hunter2"), "{refused}");
        // What has no end is not read to it.
        let refused = Source::read(Some(Path::new("/dev/zero")), environment()).err().unwrap().to_string();
        assert!(refused.contains("more than 1048576 bytes"), "{refused}");
    }

    #[test]
    fn the_share_of_one_address_is_at_most_all_where_somebody_sets_it() {
        let config = load(&[("PIX_CONNECTIONS", "64"), ("PIX_REQUESTS_AT_ONCE", "8")]).unwrap();
        assert_eq!(config.overload.connections, 64);
        let own = [("PIX_CONNECTIONS", "64"), ("PIX_CONNECTIONS_PER_IP", "65")];
        assert!(load(&own).unwrap_err().to_string().contains("from 1 to 64"));
        let own = [("PIX_CONNECTIONS", "64"), ("PIX_CONNECTIONS_PER_IP", "64")];
        assert_eq!(load(&own).unwrap().overload.connections_per_ip, 64);
    }

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for wrong in [
            "*",
            "null",
            "shop.example",
            "https://",
            "https://shop.example/",
            "https://Shop.example",
            "https://shop.example:443",
            "http://shop.example:80",
            "https://ana@shop.example",
            "https://shop.example?x",
        ] {
            let given = format!("https://good.example,{wrong}");
            let refused = load(&[("PIX_CORS_ALLOW_ORIGINS", &given)]).unwrap_err().to_string();
            assert!(refused.contains(&format!("has \"{wrong}\"")), "{refused}");
        }
        let good = "https://shop.example, http://localhost:3000, http://[::1]:8000, capacitor://localhost";
        assert_eq!(load(&[("PIX_CORS_ALLOW_ORIGINS", good)]).unwrap().cors_allow_origins.len(), 4);
    }

    #[test]
    fn a_short_proof_horizon_is_for_the_simulated_provider_only() {
        let short = ("PIX_PROVIDER_NOT_FOUND_PROOF_S", "2");
        assert!(load(&[short]).is_ok());
        let real = [short, ("PIX_PROVIDER_URL", "https://bank.example"), ("PIX_PROVIDER_CLIENT_SECRET", "s")];
        assert!(load(&real).unwrap_err().to_string().contains("from 60"));
        let local =
            [short, ("PIX_PROVIDER_URL", "http://127.0.0.1:8081"), ("PIX_PROVIDER_CLIENT_SECRET", "s")];
        assert!(load(&local).is_ok());
        assert_eq!(load(&[("PIX_PROVIDER_NOT_FOUND_PROOF_S", "never")]).unwrap().not_found_proof, None);
        assert_eq!(load(&real[1..]).unwrap().not_found_proof, None, "nothing proves it by default");
        assert_eq!(load(&[]).unwrap().not_found_proof, Some(SIMULATED_NOT_FOUND_PROOF));
    }

    #[test]
    fn a_certificate_of_our_own_makes_it_https() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (cert, key) = (path("cert.pem"), path("key.pem"));
        let both = [("PIX_TLS_CERT_FILE", cert.as_str()), ("PIX_TLS_KEY_FILE", key.as_str())];
        let refused = |pairs: &[(&str, &str)]| load(pairs).unwrap_err().to_string();
        assert!(refused(&both).contains("PIX_TLS_CERT_FILE is"), "there is no file");
        std::fs::write(&cert, "certificate").unwrap();
        assert!(refused(&both).contains("PIX_TLS_KEY_FILE is"), "there is no file");
        std::fs::write(&key, "key").unwrap();
        assert_eq!(load(&both).unwrap().public_url, "https://127.0.0.1:8080");
        let one = refused(&both[..1]);
        assert_eq!(one, "PIX_TLS_CERT_FILE is set, so PIX_TLS_KEY_FILE must be set too");
        let other = refused(&both[1..]);
        assert_eq!(other, "PIX_TLS_KEY_FILE is set, so PIX_TLS_CERT_FILE must be set too");
    }

    #[test]
    fn certificates_for_the_provider_are_read_in_pairs_and_for_https_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("the {name}")).unwrap();
            path.display().to_string()
        };
        let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
        let refused = |url: &str, more: &[(&str, &str)]| {
            let provider = [("PIX_PROVIDER_URL", url), ("PIX_PROVIDER_CLIENT_SECRET", "hunter2")];
            load(&[&provider, more].concat()).unwrap_err().to_string()
        };
        let (https, http) = ("https://bank.example", "http://127.0.0.1:1");
        let one = refused(https, &[("PIX_PROVIDER_CERT_FILE", &cert)]);
        assert_eq!(one, "PIX_PROVIDER_CERT_FILE is set, so PIX_PROVIDER_KEY_FILE must be set too");
        let other = refused(https, &[("PIX_PROVIDER_KEY_FILE", &key)]);
        assert_eq!(other, "PIX_PROVIDER_KEY_FILE is set, so PIX_PROVIDER_CERT_FILE must be set too");
        assert!(refused(http, &[("PIX_PROVIDER_CA_FILE", &ca)]).contains("would do nothing"));
        let nowhere = refused(https, &[("PIX_PROVIDER_CA_FILE", "/nowhere/ca.pem")]);
        assert!(nowhere.contains("PIX_PROVIDER_CA_FILE") && nowhere.contains("can't be read"), "{nowhere}");
        let config = load(&[
            ("PIX_PROVIDER_URL", https),
            ("PIX_PROVIDER_CLIENT_SECRET", "hunter2"),
            ("PIX_PROVIDER_CA_FILE", &ca),
            ("PIX_PROVIDER_CERT_FILE", &cert),
            ("PIX_PROVIDER_KEY_FILE", &key),
        ]);
        let tls = config.unwrap().provider.unwrap().tls;
        assert_eq!(tls.authorities_pem.as_deref(), Some("the ca"));
        assert_eq!(tls.identity_pem.unwrap().expose_secret(), "the cert\nthe key");
    }

    #[test]
    fn traces_go_nowhere_unless_it_is_said_where_and_their_secrets_travel_encrypted() {
        assert!(load(&[("PIX_OTLP_QUEUE", "600")]).unwrap().otlp.is_none());
        let sent = |pairs: &[(&str, &str)]| load(pairs).map(|config| config.otlp.unwrap());
        let http = ("PIX_OTLP_ENDPOINT", "http://collector:4318/");
        let settings = sent(&[http, ("PIX_OTLP_SAMPLE_PERCENT", "12.5"), ("PIX_OTLP_QUEUE", "600")]).unwrap();
        assert_eq!(
            (settings.endpoint.as_str(), settings.share, settings.queue),
            ("http://collector:4318", 125_000, 600)
        );
        let secret = ("PIX_OTLP_HEADERS", "authorization=Bearer%20hunter2");
        let refused = sent(&[http, secret]).unwrap_err().to_string();
        assert!(refused.contains("make it https") && !refused.contains("hunter2"), "{refused}");
        for endpoint in ["https://collector", "http://127.0.0.1:4318"] {
            let settings = sent(&[("PIX_OTLP_ENDPOINT", endpoint), secret]).unwrap();
            assert!(settings.headers.is_some() && !format!("{settings:?}").contains("hunter2"));
        }
        for (text, share) in [
            ("100", Some(1_000_000)),
            ("0.0001", Some(1)),
            ("7.05", Some(70_500)),
            ("1.", None),
            ("+1", None),
        ] {
            assert_eq!(share_of(text), share, "{text}");
        }
    }

    #[test]
    fn every_wrong_value_is_told_and_each_names_its_setting() {
        let wrong = [
            ("PIX_LISTEN", "8080"),
            ("DATABASE_URL", "mysql://user:hunter2@db/pix"),
            ("PIX_PROVIDER_URL", "https://bank.example"),
            ("PIX_TOKEN_TTL_S", "1e9"),
            ("PIX_RATE_STORE", "rediss://:hunter2@cache"),
            ("PIX_LOG_FORMAT", "xml"),
        ];
        let environment = wrong.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (source, problems) = Source::gather(None, environment.into_iter(), &[]);
        assert!(problems.is_empty(), "{problems:?}");
        let (config, problems) = source.problems();
        assert!(config.is_none());
        let mut named: Vec<_> = problems.iter().map(|problem| problem.setting().unwrap().env).collect();
        named.sort_unstable();
        let mut expected: Vec<_> = wrong.iter().map(|(name, _)| *name).collect();
        expected.sort_unstable();
        assert_eq!(named, expected);
        assert!(!format!("{problems:?}").contains("hunter2"));
        assert!(Source::default().problems().0.is_some());
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_the_file_and_holds_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pix.toml");
        std::fs::write(&path, "listen = \"127.0.0.1:1\"\nlog = \"warn\"\nnothing = 1\nhash_permits = []\n")
            .unwrap();
        let environment = std::iter::once(("PIX_LISTEN".to_owned(), "127.0.0.1:2".to_owned()));
        let flags = [
            "PIX_LISTEN=127.0.0.1:3",
            "PIX_TOKEN_KEYS=hunter2",
            "DATABASE_URL=postgres://pix:hunter2@db/pix",
            "PIX_NOTHING=1",
            "PIX_LISTEN",
        ];
        let (source, problems) = Source::gather(Some(&path), environment, &flags.map(str::to_owned));
        let of = |env: &str| source.value(SETTINGS.iter().find(|setting| setting.env == env).unwrap());
        assert_eq!(of("PIX_LISTEN"), (Some("127.0.0.1:3"), Origin::Flag));
        assert_eq!(of("PIX_LOG"), (Some("warn"), Origin::File));
        assert_eq!(of("PIX_TOKEN_KEYS"), (None, Origin::Default));
        let told = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert_eq!(problems.len(), 6, "{told}");
        for says in [
            "\"nothing\"",
            "\"hash_permits\"",
            "PIX_TOKEN_KEYS can't",
            "DATABASE_URL can't",
            "no setting",
            "NAME=VALUE",
        ] {
            assert!(told.contains(says), "{says} is not in {told}");
        }
        assert!(!told.contains("hunter2"), "{told}");
    }

    #[test]
    fn what_is_shown_of_a_value_has_no_password() {
        let of =
            |env: &str, value: &str| SETTINGS.iter().find(|setting| setting.env == env).unwrap().shown(value);
        assert_eq!(of("PIX_POSTBACK_KEYS", "hunter2"), MASK);
        assert_eq!(of("PIX_LISTEN", "127.0.0.1:1"), "127.0.0.1:1");
        assert_eq!(of("DATABASE_URL", "postgres://pix@db:5432/pix"), "postgres://pix@db:5432/pix");
        for url in [
            "postgres://pix:hunter2@db:5432/pix",
            "postgres://pix:hunter2/@?#@db/pix",
            "postgres://db/pix?password=hunter2&user=pix",
            "postgres://db/pix?sslpassword=hunter2",
            "postgres://pix:hunter2@db/pix?password=hunter2",
        ] {
            let shown = of("DATABASE_URL", url);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        assert_eq!(of("DATABASE_URL", "postgres://pix:hunter2@db/pix"), "postgres://pix:********@db/pix");
        assert_eq!(of("DATABASE_URL", "sqlite://data/pix.db"), "sqlite://data/pix.db");
        for text in [
            "host=127.0.0.1 user=pix password=hunter2 dbname=pix",
            "pix:hunter2@h/pix",
            "postgres//pix:hunter2@h/pix",
            "postgresql:/pix:hunter2@h/pix",
            "postgres://pix:hunter2/h:5/pix",
        ] {
            assert_eq!(of("DATABASE_URL", text), MASK);
        }
    }

    #[test]
    fn no_secret_is_shown_by_debug() {
        let config = load(&[
            ("DATABASE_URL", "postgres://pix:hunter2@db/pix"),
            ("PIX_PROVIDER_URL", "https://bank.example"),
            ("PIX_PROVIDER_CLIENT_SECRET", "hunter2"),
            ("PIX_TOKEN_KEYS", "k4.local.hunter2"),
            ("PIX_RATE_STORE", "redis://:hunter2@cache"),
        ]);
        let shown = format!("{:?}", config.unwrap());
        assert!(shown.contains("Postgres") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn the_settings_of_postgresql_reach_its_options() {
        let set = |pairs: &[(&str, &str)]| load(pairs).unwrap().postgres;
        assert_eq!(set(&[("PIX_DB_GROUP", "false")]).grouping, None);
        let options = set(&[
            ("PIX_DB_MONEY_CONNECTIONS", "3"),
            ("PIX_DB_READ_CONNECTIONS", "4"),
            ("PIX_DB_WORKER_CONNECTIONS", "5"),
            ("PIX_DB_CONNECT_TIMEOUT_MS", "101"),
            ("PIX_DB_ACQUIRE_TIMEOUT_MS", "102"),
            ("PIX_DB_STATEMENT_TIMEOUT_MS", "103"),
            ("PIX_DB_RESOLVE_TIMEOUT_MS", "104"),
            ("PIX_DB_GROUP_MAX", "6"),
            ("PIX_DB_GROUPS_IN_FLIGHT", "7"),
            ("PIX_DB_GATHER_WAIT_US", "8"),
            ("PIX_DB_LOOKUPS_IN_FLIGHT", "9"),
        ]);
        let expected = PgOptions {
            migrate: false,
            money_connections: 3,
            read_connections: 4,
            worker_connections: 5,
            connect_timeout: Duration::from_millis(101),
            acquire_timeout: Duration::from_millis(102),
            statement_timeout: Duration::from_millis(103),
            resolve_timeout: Duration::from_millis(104),
            grouping: Some(Grouping {
                max_group: 6,
                groups_in_flight: 7,
                gather_wait: Duration::from_micros(8),
                lookups_in_flight: 9,
            }),
        };
        assert_eq!(options, expected);
        assert_eq!(pix_persistence::postgres::MAX_GROUP, 256, "the bound of PIX_DB_GROUP_MAX");
        assert_eq!(pix_persistence::postgres::MAX_GATHER_WAIT, Duration::from_micros(500));
    }

    #[test]
    fn the_reference_in_the_documents_is_the_table() {
        let document = include_str!("../../../docs/OPERATIONS.md");
        assert!(document.contains(&reference()), "docs/OPERATIONS.md needs this table:\n{}", reference());
    }
}
