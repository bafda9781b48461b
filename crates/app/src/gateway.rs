//! The wiring: which adapter stands behind which port.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use async_trait::async_trait;
use pix_credentials::{Argon2Hasher, HasherConfig, KeyRing, PasetoTokens};
use pix_domain::audit_log::Action;
use pix_domain::callbacks::CallbackService;
use pix_domain::charges::service::ChargeService;
use pix_domain::credentials::service::Authenticator;
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::ports::{Ports, Stores};
use pix_domain::postbacks::relay::PostbackPorts;
use pix_domain::postbacks::secrets::PostbackSecrets;
use pix_domain::postbacks::service::PostbackService;
use pix_domain::refunds::service::RefundService;
use pix_domain::splits::service::SplitService;
use pix_domain::time::{Clock, Timestamp};
use pix_domain::transactions::TransactionService;
use pix_domain::transition::{Transition, TransitionStore};
use pix_domain::unrecorded::Unrecorded;
use pix_domain::wallet::statement::StatementService;
use pix_domain::withdrawals::service::WithdrawalService;
use pix_http::{Bodies, HttpConfig, ServerCertificate, Services};
use pix_notifications::{
    HttpSender, MasterKeys, PrivateAddresses, SenderConfig, SenderSetupError, Trust, UrlGuard, Waker,
};
use pix_settlement::{Breaker, ClassicV2Config, ClassicV2Provider, ClientTls};
use pix_simulator::{SimulatorConfig, SimulatorError};
use secrecy::{ExposeSecret, SecretString};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};
use uuid::Uuid;

use crate::config::{Config, ConfigError, ProviderSettings, TlsFiles};
use crate::journal::Journal;
use crate::keyfile::{self, KeyFile};
use crate::metered::Metered;
use crate::restored::Gate;
use crate::store::Store;
use crate::system::{SystemClock, SystemIds, random_hex};
use crate::traced::{TracedSender, TracedStore};

/// The ending of the key file beside the database.
pub const KEY_FILE_ENDING: &str = ".keys";
/// The ending of the file with the postbacks' master key beside the database.
pub const POSTBACK_KEY_ENDING: &str = ".postback-key";
/// The ending of the simulated provider's log beside the database.
pub const SIMULATOR_LOG_ENDING: &str = ".simulator.jsonl";
/// The ending of the file that `serve` locks, so that a database has one server.
pub const LOCK_ENDING: &str = ".lock";

/// Starts the log, on standard error.
pub fn init_logging(config: &Config) -> anyhow::Result<()> {
    let filter = log_filter(config)?;
    // A file has no use for colours; https://no-color.org.
    let coloured =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_ansi(coloured).with_writer(std::io::stderr);
    let lines = if config.log_json { lines.json().boxed() } else { lines.boxed() };
    let started =
        tracing_subscriber::registry().with(filter).with(filter_fn(may_be_logged)).with(lines).try_init();
    started.map_err(|error| anyhow::anyhow!("the log can't be started: {error}"))
}

fn log_filter(config: &Config) -> Result<EnvFilter, ConfigError> {
    // A word alone is a level. It would be taken for the name of a module, of which there is none, and nothing be logged.
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok() || word.starts_with("pix_");
    let bare = config.log.split(',').filter(|part| !part.contains(['=', '[']));
    if let Some(unknown) = bare.clone().find(|word| !is_level(word)) {
        return Err(ConfigError::new(format!(
            "PIX_LOG has \"{unknown}\", which is no level: write off, error, warn, info, debug or trace, alone or for a part as in pix_http=debug,info"
        )));
    }
    EnvFilter::try_new(&config.log)
        .map_err(|_error| ConfigError::new("PIX_LOG must be such as info, warn or pix_http=debug,info"))
}

/// Refuses a filter that [`init_logging`] would refuse.
pub fn check_log(config: &Config) -> Result<(), ConfigError> {
    log_filter(config).map(drop)
}

/// Whether something is logged at all, however loud the log is: below `info` the driver of PostgreSQL shows what
/// statements are run with, which are names, documents and hashes.
fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || !metadata.target().starts_with("tokio_postgres")
}

/// What is secret, from the configuration or, for what that doesn't say, from the file beside the database.
pub struct Secrets {
    /// The keys of the access tokens.
    pub token_keys: SecretString,
    /// The last segment of the provider's callback path.
    pub callback_secret: String,
    /// What the secrets of postbacks are made of.
    pub postback_keys: Arc<MasterKeys>,
}

/// Finds the secrets; makes them on first start.
pub fn secrets(config: &Config) -> anyhow::Result<Secrets> {
    let postback_keys = postback_keys(config)?;
    if let (Some(token_keys), Some(callback_secret)) = (&config.token_keys, &config.callback_secret) {
        let (token_keys, callback_secret) = (token_keys.clone(), callback_secret.clone());
        return Ok(Secrets { token_keys, callback_secret, postback_keys });
    }
    let file = KeyFile::open_or_make(&config.database.beside(KEY_FILE_ENDING))?;
    Ok(Secrets {
        token_keys: config.token_keys.clone().unwrap_or(file.token_keys),
        callback_secret: config.callback_secret.clone().unwrap_or(file.callback_secret),
        postback_keys,
    })
}

/// Why there is no simulated provider, and what to do.
pub fn simulator_refused(error: SimulatorError) -> anyhow::Error {
    let SimulatorError::Listen { address, source } = error else { return error.into() };
    anyhow!(
        "PIX_SIMULATOR_LISTEN (or --listen) is {address}, which can't be listened on ({source}): stop what listens there, or choose another address"
    )
}

/// What the secrets of postbacks are made of, from the configuration or the file beside the database.
pub fn postback_keys(config: &Config) -> anyhow::Result<Arc<MasterKeys>> {
    let Some(keys) = &config.postbacks.keys else {
        let file = config.database.beside(POSTBACK_KEY_ENDING);
        let keys = keyfile::postback_key(&file)?;
        let read = MasterKeys::parse(keys.expose_secret()).map_err(|_said_of_a_setting| {
            anyhow!(
                "{} is damaged, and holds the key that the secrets of postbacks are under: put it back from a backup of it (a new one can't read them)",
                file.display()
            )
        })?;
        return Ok(Arc::new(read));
    };
    Ok(Arc::new(MasterKeys::parse(keys.expose_secret()).context("PIX_POSTBACK_KEYS is not acceptable")?))
}

/// Everything that postbacks stand on. `demo` lets them go to this machine when nothing else is said.
pub fn postbacks(
    config: &Config,
    store: &Store,
    keys: &Secrets,
    demo: bool,
) -> anyhow::Result<PostbackPorts> {
    let settings = &config.postbacks;
    let unsaid = if demo { PrivateAddresses::Loopback } else { PrivateAddresses::Never };
    let allow_private = settings.allow_private.unwrap_or(unsaid);
    let private = allow_private != PrivateAddresses::Never;
    let guard = UrlGuard { allow_http: settings.allow_http || private, allow_private };
    let sender = SenderConfig {
        total_timeout: settings.timeout,
        connect_timeout: settings.timeout.min(SenderConfig::default().connect_timeout),
        ..SenderConfig::default()
    };
    let sender = match HttpSender::new(guard, sender) {
        Err(SenderSetupError::Client(_)) if private => {
            tracing::warn!("there are no CA certificates on this machine: postbacks to https fail");
            HttpSender::new(guard, SenderConfig { trust: Trust::Nobody, ..sender })?
        }
        sender => sender.context("postbacks can't be sent")?,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sender = Arc::new(sender.telling(pix_traces::traceparent));
    Ok(PostbackPorts {
        stores: store.postbacks.clone(),
        secrets: PostbackSecrets::new(
            store.postbacks.secrets.clone(),
            keys.postback_keys.clone(),
            clock.clone(),
        ),
        sender: Arc::new(TracedSender(sender)),
        urls: Arc::new(guard),
        bodies: Arc::new(Bodies),
        clock,
        ids: Arc::new(SystemIds),
    })
}

/// Wakes whoever delivers as soon as there is something new to deliver.
struct Waking {
    inner: Arc<dyn TransitionStore>,
    waker: Waker,
}

impl Waking {
    fn goes_out(transition: &Transition) -> bool {
        let mut writes = transition.whole().flat_map(|one| &one.writes);
        writes.any(|write| write.record.postback().is_some())
    }
}

#[async_trait]
impl TransitionStore for Waking {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        let goes_out = Self::goes_out(&transition);
        let applied = self.inner.apply(transition).await;
        if goes_out && applied.is_ok() {
            self.waker.wake();
        }
        applied
    }

    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        let goes_out = transitions.iter().any(Self::goes_out);
        let applied = self.inner.apply_all(transitions).await;
        if goes_out {
            self.waker.wake();
        }
        applied
    }
}

/// The same ports, whose changes wake whoever delivers.
#[must_use]
pub fn waking(ports: Ports, waker: Waker) -> Ports {
    let inner = ports.stores.transitions.clone();
    let transitions = Arc::new(Waking { inner, waker });
    Ports { stores: Stores { transitions, ..ports.stores }, ..ports }
}

/// The hasher of secrets.
pub fn hasher(config: &Config) -> anyhow::Result<Argon2Hasher> {
    Ok(Argon2Hasher::new(HasherConfig { permits: config.hash_permits, ..HasherConfig::default() })?)
}

/// How much longer than the provider adapter's own deadlines a record may be in the state of being sent.
const SUBMIT_MARGIN: Duration = Duration::from_secs(1);

/// The settings of the provider's adapter.
pub fn provider_config(
    config: &Config,
    settings: &ProviderSettings,
    public_url: &str,
    callback_secret: &str,
) -> ClassicV2Config {
    ClassicV2Config {
        callback_base: Some(format!("{public_url}/callbacks/{callback_secret}")),
        not_found_is_proof_after: config.not_found_proof,
        tls: settings.tls.clone(),
        clock: Some(Arc::new(SystemClock)),
        traceparent: pix_traces::traceparent,
        tracestate: pix_traces::tracestate,
        ..timed(
            config,
            ClassicV2Config::new(
                settings.url.clone(),
                settings.client_id.clone(),
                settings.client_secret.clone(),
            ),
        )
    }
}

fn timed(config: &Config, provider: ClassicV2Config) -> ClassicV2Config {
    ClassicV2Config {
        connect_timeout: config.provider_timeout.min(pix_settlement::DEFAULT_CONNECT_TIMEOUT),
        token_timeout: config.provider_timeout.min(pix_settlement::DEFAULT_TOKEN_TIMEOUT),
        call_timeout: config.provider_timeout,
        ..provider
    }
}

/// The longest that one operation of the provider takes, whichever it is.
pub fn longest_operation(config: &Config) -> Duration {
    timed(config, ClassicV2Config::new(String::new(), String::new(), SecretString::default()))
        .longest_operation()
}

/// The name of the fact that ids are bound to their handles with. It is secret as the records are.
const HANDLE_SEED_FACT: &str = "handle_seed";

/// Whether this database ever had references that follow from handles.
pub async fn has_handle_seed(store: &Store) -> anyhow::Result<bool> {
    Ok(store.facts.fact(HANDLE_SEED_FACT).await?.is_some())
}

async fn handle_seed(store: &Store) -> anyhow::Result<Uuid> {
    let drawn = random_hex(16)?;
    let kept = store.facts.settle_fact(HANDLE_SEED_FACT, drawn).await?;
    Uuid::try_parse(&kept).with_context(|| {
        format!("the fact {HANDLE_SEED_FACT} of this database is damaged: restore it from a backup")
    })
}

/// All ports, and the breaker among them. `gate` says whether money may go out.
pub async fn ports(
    config: &Config,
    store: &Store,
    provider: ClassicV2Config,
    gate: Arc<Gate>,
) -> anyhow::Result<(Ports, Arc<Breaker>)> {
    let submit_grace = provider.longest_operation() + SUBMIT_MARGIN;
    let breaker = Arc::new(Breaker::new(
        Arc::new(Metered::new(Arc::new(ClassicV2Provider::new(provider)?))),
        Arc::new(SystemClock),
        config.breaker,
    )?);
    let mut stores = store.records.clone();
    if config.otlp.is_some() {
        stores.transitions = Arc::new(TracedStore(stores.transitions));
    }
    let ports = Ports {
        stores,
        submit_grace,
        provider: breaker.clone(),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        handle_seed: handle_seed(store).await?,
        outflow: gate,
        duplicate_window: config.duplicate_window,
        unrecorded: Unrecorded::default(),
    };
    #[cfg(feature = "fail-points")]
    let ports = crate::fail_points::around(ports)?;
    Ok((ports, breaker))
}

/// Ports for a command that sends nothing.
pub async fn idle_ports(config: &Config, store: &Store, gate: Arc<Gate>) -> anyhow::Result<Ports> {
    let settings = config.provider.clone().unwrap_or_else(|| {
        let SimulatorConfig { client_id, client_secret, .. } = SimulatorConfig::default();
        let url = format!("http://{}", config.simulator_listen);
        ProviderSettings { url, client_id, client_secret: client_secret.into(), tls: ClientTls::default() }
    });
    // No callback can come of it; but an answer may tell the address of an earlier one, which is hidden. No keys are made: the
    // lost ones may still have to be put back.
    let file = config.database.beside(KEY_FILE_ENDING);
    let callback_secret = match &config.callback_secret {
        Some(secret) => secret.clone(),
        None if file.exists() => KeyFile::open_or_make(&file)?.callback_secret,
        None => KeyFile::fresh()?.callback_secret,
    };
    let provider = provider_config(config, &settings, &config.public_url, &callback_secret);
    Ok(ports(config, store, provider, gate).await?.0)
}

/// The name of the fact that says which provider a database's money is at.
pub const PROVIDER_FACT: &str = "provider";
/// What the simulated provider is called there.
pub const SIMULATED: &str = "simulated";

/// The name of the fact that says since when it is there, in microseconds; there is none before the first change.
const PROVIDER_SINCE_FACT: &str = "provider_since";

/// Since when this database's money is at its provider.
pub async fn provider_since(store: &Store) -> Result<Timestamp, StoreError> {
    let kept = store.facts.fact(PROVIDER_SINCE_FACT).await?;
    Ok(Timestamp::from_micros(kept.and_then(|micros| micros.parse().ok()).unwrap_or(0)))
}

/// Refuses settings that name another provider than this database's: what that one says proves nothing here.
pub async fn refuse_another_provider(config: &Config, store: &Store) -> anyhow::Result<()> {
    let name = config.provider.as_ref().map_or(SIMULATED.to_owned(), provider_name);
    match store.facts.fact(PROVIDER_FACT).await? {
        Some(bound) if bound != name => bail!(
            "the money of this database is at {bound}, and these settings name {name}: run this with the settings of `serve`"
        ),
        _ => Ok(()),
    }
}

/// What a provider is known by: where it is and who we are there.
pub fn provider_name(settings: &ProviderSettings) -> String {
    format!("{} (client {})", settings.url, settings.client_id)
}

/// Binds the database to one provider. What another provider doesn't know proves nothing about a payment that was sent
/// through this one, and the balances of the simulated provider are nobody's money; so a change is refused unless it is
/// asked for and nothing is on its way.
pub async fn bind_provider(
    store: &Store,
    journal: &Journal,
    name: &str,
    changed: bool,
) -> anyhow::Result<()> {
    let bound = store.facts.settle_fact(PROVIDER_FACT, name.to_owned()).await?;
    if bound == name {
        return Ok(());
    }
    if bound == SIMULATED {
        bail!(
            "this database was used with the simulated provider, so its balances are not real: use a fresh DATABASE_URL for {name}"
        );
    }
    if name == SIMULATED {
        bail!(
            "the money of this database is at {bound}: set PIX_PROVIDER_URL, or use a fresh DATABASE_URL for the simulated provider"
        );
    }
    if !changed {
        bail!(
            "the money of this database is at {bound}, not at {name}: if it was moved, start once with `serve --provider-changed`"
        );
    }
    let mut open = 0_usize;
    for integrator in store.integrators.list().await? {
        let book = store.books.book(integrator.id).await?;
        open += book.withdrawals.iter().filter(|withdrawal| !withdrawal.state.is_final()).count();
        open += book.refunds.iter().filter(|refund| !refund.state.is_final()).count();
    }
    if open > 0 {
        bail!(
            "{open} withdrawals or refunds are not final, and only {bound} knows what became of them: serve with it until `pix-gateway audit` shows nothing held"
        );
    }
    tracing::warn!(from = %bound, to = %name, "the provider of this database is changed");
    journal.record(Action::ProviderChanged, name, &format!("before: {bound}")).await?;
    // First: whoever asks the new one about what the old one did is told that it doesn't know it.
    store.facts.keep_fact(PROVIDER_SINCE_FACT, SystemClock.now().micros().to_string()).await?;
    Ok(store.facts.keep_fact(PROVIDER_FACT, name.to_owned()).await?)
}

/// All use cases, for the HTTP interface.
pub fn services(
    config: &Config,
    store: &Store,
    ports: &Ports,
    postbacks: PostbackPorts,
    keys: &Secrets,
) -> anyhow::Result<Services> {
    let ring = KeyRing::parse(keys.token_keys.expose_secret()).context("PIX_TOKEN_KEYS is not acceptable")?;
    let authenticator = Authenticator::new(
        store.keys.clone(),
        store.integrators.clone(),
        Arc::new(hasher(config)?),
        Arc::new(PasetoTokens::new(ring, config.public_url.clone())?),
        Arc::new(SystemClock),
        config.token_ttl,
    );
    Ok(Services {
        authenticator,
        charges: ChargeService::new(ports.clone()),
        withdrawals: WithdrawalService::new(ports.clone()),
        refunds: RefundService::new(ports.clone()),
        splits: SplitService::new(ports.clone()),
        transactions: TransactionService::new(ports.clone()),
        callbacks: CallbackService::new(ports.clone()),
        postbacks: PostbackService::new(postbacks),
        integrators: store.integrators.clone(),
        wallets: ports.stores.wallets.clone(),
        statement: StatementService::new(ports.clone()),
        clock: ports.clock.clone(),
        ids: ports.ids.clone(),
        runtime: tokio::runtime::Handle::current(),
    })
}

/// The settings of the HTTP interface.
pub fn http_config(config: &Config, callback_secret: &str) -> anyhow::Result<HttpConfig> {
    let overload = &config.overload;
    Ok(HttpConfig {
        head_deadline: overload.head_deadline,
        keep_alive: overload.keep_alive,
        unread_deadline: overload.unread_deadline,
        requests_at_once: overload.requests_at_once,
        requests_at_once_per_key: overload.requests_at_once_per_key,
        sign_ins_at_once: overload.sign_ins_at_once,
        pay_streams: overload.pay_streams,
        connections: overload.connections,
        connections_per_client: overload.connections_per_ip,
        rate_key_per_minute: overload.rate_key_per_minute,
        rate_buckets: overload.rate_buckets,
        rate_store: overload.rate_store.clone(),
        body_deadline: config.body_deadline,
        callbacks_per_second: config.callbacks_per_second,
        rate_token_per_minute: config.rate_token_per_minute,
        rate_api_per_minute: config.rate_api_per_minute,
        rate_api_burst: config.rate_api_burst,
        trusted_proxies: config
            .trusted_proxies
            .iter()
            .map(|proxy| proxy.parse())
            .collect::<Result<_, _>>()?,
        cors_allow_origins: config.cors_allow_origins.clone(),
        shutdown_grace: config.shutdown_timeout,
        ..HttpConfig::new(config.public_url.clone(), callback_secret)
    })
}

/// Files besides connections of clients: databases, the provider, receivers of postbacks, logs.
const OTHER_FILES: u64 = 2_048;

/// How many files may be open at once with so many connections.
pub fn open_files_for(connections: usize) -> u64 {
    u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(OTHER_FILES)
}

/// Raises the limit of open files, of which each connection is one, as far as the system lets us. Many systems begin
/// with 1024, which is fewer than the connections there may be.
pub fn make_room_for(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = open_files_for(connections);
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return };
    let raised = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let set = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    let open = if set.is_ok() { raised } else { current };
    if open < wanted {
        tracing::warn!(
            open_files = open,
            wanted,
            "PIX_CONNECTIONS may not fit: raise the hard limit of open files (ulimit -Hn), or lower it"
        );
    }
}

/// Locks the database for one server. The lock lasts as long as the file that is returned.
pub fn lock(path: &Path) -> anyhow::Result<std::fs::File> {
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("the lock file {} can't be opened", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            bail!(
                "another pix-gateway is serving this database ({} is locked): stop it, or use another DATABASE_URL",
                path.display()
            )
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("the lock file {} can't be locked", path.display()))
        }
    }
}

/// The certificate that clients are shown.
pub fn certificate(files: &TlsFiles) -> Result<Arc<ServerCertificate>, ConfigError> {
    let (certificates, key) = files.read()?;
    ServerCertificate::from_pem(&certificates, key.expose_secret()).map_err(|error| files.refused(error))
}

/// Reads the certificate again whenever the process is told to (`SIGHUP`). One that can't be used is told of, and the one
/// before is still shown.
pub fn renew_at_hangup(
    shown: Option<(TlsFiles, Arc<ServerCertificate>)>,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let renew = |(files, certificate): &(TlsFiles, Arc<ServerCertificate>)| -> Result<(), ConfigError> {
        let (certificates, key) = files.read()?;
        certificate.replace(&certificates, key.expose_secret()).map_err(|error| files.refused(error))
    };
    Ok(tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            match shown.as_ref().map(renew) {
                None => tracing::info!("nothing is read again: PIX_TLS_CERT_FILE is not set"),
                Some(Ok(())) => tracing::info!("the certificate was read again"),
                Some(Err(error)) => tracing::error!(%error, "the certificate before is still shown"),
            }
        }
    }))
}

/// What tells the process to stop.
///
/// To be made before anybody is told that the process runs: until then the signals end it on the spot.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Takes the signals from now on.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits until the process is told to stop; whether by a service manager (SIGTERM), and not at a keyboard (SIGINT).
    pub async fn wait(&mut self) -> bool {
        tokio::select! {
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => false,
        }
    }

    /// What comes of `work`; `None` when the process is told to stop before that.
    pub async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            _ = self.wait() => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use pix_persistence::sqlite::{SqliteOptions, SqliteStore};

    use super::*;
    use crate::config::Source;

    #[test]
    fn a_word_that_is_no_level_would_log_nothing_and_is_refused() {
        let filter = |log: &str| {
            let pairs = [("PIX_LOG".to_owned(), log.to_owned())];
            log_filter(&Config::load(&Source::read(None, pairs.into_iter()).unwrap()).unwrap())
        };
        for sound in ["info", "WARN", "off", "pix_http=debug,info", "warn,actix_server=error", "pix_http"] {
            assert!(filter(sound).is_ok(), "{sound}");
        }
        for (wrong, says) in [
            ("verbose", "has \"verbose\""),
            ("info,chatty", "has \"chatty\""),
            ("pix_http=loud", "must be such as"),
        ] {
            let refused = filter(wrong).unwrap_err().to_string();
            assert!(refused.starts_with("PIX_LOG") && refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn there_is_room_for_the_connections_there_may_be() {
        use rustix::process::{Resource, getrlimit};
        let before = getrlimit(Resource::Nofile);
        let some = before.current.unwrap_or(0).min(4_096);
        make_room_for(usize::try_from(some).unwrap());
        let after = getrlimit(Resource::Nofile);
        let wanted = (some + OTHER_FILES).min(before.maximum.unwrap_or(u64::MAX));
        assert!(after.current.is_none_or(|current| current >= wanted), "{after:?}");
        assert_eq!(after.maximum, before.maximum);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_is_bound_to_one_provider() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
        let open = |name: &str| Store::of(SqliteStore::open(folder.path().join(name), options).unwrap());
        let says = |refused: anyhow::Result<()>| refused.unwrap_err().to_string();

        let real = open("real.db");
        let journal = Journal::of(&real, "ana").unwrap();
        for _ in 0..2 {
            bind_provider(&real, &journal, "https://one (client a)", false).await.unwrap();
        }
        assert!(says(bind_provider(&real, &journal, SIMULATED, true).await).contains("set PIX_PROVIDER_URL"));
        let other = "https://two (client a)";
        assert!(says(bind_provider(&real, &journal, other, false).await).contains("--provider-changed"));
        assert_eq!(provider_since(&real).await, Ok(Timestamp::from_micros(0)));
        let before = SystemClock.now();
        bind_provider(&real, &journal, other, true).await.unwrap();
        assert!(
            provider_since(&real).await.unwrap() >= before,
            "what was before is not asked of the new one"
        );
        bind_provider(&real, &journal, other, false).await.unwrap();
        let acts = real.records.audit_log.list(0, 9).await.unwrap();
        assert_eq!(acts.iter().map(|act| act.action).collect::<Vec<_>>(), [Action::ProviderChanged]);

        let simulated = open("simulated.db");
        let journal = Journal::of(&simulated, "ana").unwrap();
        bind_provider(&simulated, &journal, SIMULATED, false).await.unwrap();
        assert!(says(bind_provider(&simulated, &journal, other, true).await).contains("fresh DATABASE_URL"));
    }
}
