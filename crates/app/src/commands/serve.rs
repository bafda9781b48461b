//! `pix-gateway serve`.

use std::process::ExitCode;
use std::time::Duration;

use pix_domain::credentials::KeyChange;
use pix_domain::postbacks::relay::Relay;
use pix_domain::unrecorded::Unrecorded;
use pix_http::Stopping;
use pix_notifications::Deliverer;
use pix_settlement::ClientTls;
use pix_simulator::{Simulator, SimulatorConfig};
use secrecy::SecretString;
use tokio::task::JoinHandle;

use super::{integrator, key};
use crate::admin::Admin;
use crate::cli;
use crate::clocks;
use crate::common::Common;
use crate::config::{Config, ProviderSettings};
use crate::console;
use crate::dangers;
use crate::gateway::{self, StopSignals};
use crate::health::{DELIVERER, Health, RECONCILER, SEALER};
use crate::journal::Journal;
use crate::otlp::{self, Exporter};
use crate::restored::{self, Gate};
use crate::sealing::Sealing;
use crate::store::{self, Store};
use crate::worker::{Worker, tell_left};

/// The name of the integrator that `--demo` makes.
const DEMO_NAME: &str = "demo";

/// A gateway that serves.
pub struct Running {
    /// Where.
    pub url: String,
    /// Its store.
    pub store: Store,
    /// The provider that was started in-process, if one was.
    pub simulator: Option<Simulator>,
    server: actix_web::dev::ServerHandle,
    stopping: Stopping,
    task: JoinHandle<std::io::Result<()>>,
    worker: Worker,
    unrecorded: Unrecorded,
    deliverer: Deliverer,
    sealing: Sealing,
    admin: Option<Admin>,
    traces: Option<Exporter>,
    renewing: JoinHandle<()>,
    _lock: Option<std::fs::File>,
}

/// Runs the subcommand.
pub async fn run(config: Config, arguments: cli::Serve) -> anyhow::Result<ExitCode> {
    gateway::init_logging(&config)?;
    gateway::make_room_for(config.overload.connections);
    let mut signals = StopSignals::new()?;
    let Some(running) = signals.unless_stopped(Box::pin(start(&config, &arguments))).await.transpose()?
    else {
        tracing::info!("stopped while starting");
        return Ok(ExitCode::SUCCESS);
    };
    say!("pix-gateway is listening on {}", running.url);
    if arguments.demo {
        print_demo(&config, &running).await?;
    }
    let drains = signals.wait().await;
    if drains && signals.unless_stopped(running.drain(config.drain)).await.is_none() {
        tracing::info!("told to stop again: no longer draining");
    }
    running.stop().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts everything: store, provider (or the simulated one), HTTP interface, workers.
pub async fn start(config: &Config, arguments: &cli::Serve) -> anyhow::Result<Running> {
    dangers::refuse(config, arguments.demo)?;
    // That of a file, before the file is touched; on a server, what is wrong with the server is said first.
    let shared = config.database.is_shared();
    let of_file = if shared { None } else { lock(config)? };
    let store = Store::open(config).await?.cached(config.cache_ttl);
    clocks::refuse(&store).await?;
    let lock = if shared { lock(config)? } else { of_file };
    let keys = gateway::secrets(config)?;
    let name = config.provider.as_ref().map_or(gateway::SIMULATED.to_owned(), gateway::provider_name);
    restored::refuse_copy(&store).await?;
    let journal = Journal::of_user(&store, config)?;
    gateway::bind_provider(&store, &journal, &name, arguments.provider_changed).await?;
    if let Some(common) = Common::of(config) {
        common.tell(&store).await?;
    }
    // Now that nobody else has this database, and before anybody is told of the address.
    let (config, listener) = config.clone().listening()?;
    let config = &config;
    let (settings, simulator) = if let Some(settings) = &config.provider {
        (settings.clone(), None)
    } else {
        let (settings, simulator) = start_simulator(config).await?;
        (settings, Some(simulator))
    };
    // The simulated provider, being on this machine, calls back on the address that is listened on.
    let callback_url = match simulator {
        Some(_) => config.listen_url(),
        None => config.public_url.clone(),
    };
    let provider = gateway::provider_config(config, &settings, &callback_url, &keys.callback_secret);
    // First: what is measured before there is a recorder is lost.
    let stopping = Stopping::default();
    let health = Health::new(store.clone(), stopping.clone());
    let answered = console::answered(config);
    let admin = Admin::start(config.admin_listen, health.clone(), answered.clone())?;
    let traces = otlp::start(config.otlp.as_ref())?;
    let postbacks = gateway::postbacks(config, &store, &keys, arguments.demo)?;
    let deliverer = Deliverer::start(Relay::new(postbacks.clone()), config.postbacks.deliverer);
    let gate = Gate::of(&store, config.restore_ask).await?;
    gate.watch(store.facts.clone());
    clocks::watch(store.clone(), config.clock_interval);
    let (ports, breaker) = gateway::ports(config, &store, provider, gate).await?;
    let ports = gateway::waking(ports, deliverer.waker());
    if let Some(admin) = &admin {
        admin.open(console::of(config, &health, &ports, answered));
    }
    let services = gateway::services(config, &store, &ports, postbacks, &keys)?;
    let mut http = gateway::http_config(config, &keys.callback_secret)?;
    http.tls = config.tls.as_ref().map(gateway::certificate).transpose()?;
    let renewing = gateway::renew_at_hangup(config.tls.clone().zip(http.tls.clone()))?;
    http.stopping = stopping.clone();
    http.readiness = Some(health.clone());
    let server = pix_http::serve(http, listener, services).await?;
    let handle = server.handle();
    let sealing = Sealing::start(&store, &ports, config)?;
    let unrecorded = ports.unrecorded.clone();
    let worker = Worker::start(ports, config.worker);
    health.watch_breaker(breaker);
    health.watch(RECONCILER, worker.watch());
    health.watch(DELIVERER, deliverer.watch());
    health.watch(SEALER, sealing.watch());
    if let Some(status) = sealing.status() {
        health.watch_seals(status);
    }
    Ok(Running {
        url: config.listen_url(),
        store,
        simulator,
        server: handle,
        stopping,
        task: tokio::spawn(server),
        worker,
        unrecorded,
        deliverer,
        sealing,
        admin,
        traces,
        renewing,
        _lock: lock,
    })
}

/// The lock of the one server that a database may have; `None` where it may have several.
fn lock(config: &Config) -> anyhow::Result<Option<std::fs::File>> {
    if config.provider.is_some() && config.database.is_shared() {
        return Ok(None);
    }
    store::make_default_folder(config)?;
    let path = config.database.beside(gateway::LOCK_ENDING);
    // Where there is no folder, opening the database says so better.
    let has_folder = path.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir());
    has_folder.then(|| gateway::lock(&path)).transpose()
}

async fn start_simulator(config: &Config) -> anyhow::Result<(ProviderSettings, Simulator)> {
    let simulator = Simulator::start(SimulatorConfig {
        listen: config.simulator_listen,
        log_path: Some(config.database.beside(gateway::SIMULATOR_LOG_ENDING)),
        ..SimulatorConfig::default()
    })
    .await
    .map_err(gateway::simulator_refused)?;
    let SimulatorConfig { client_id, client_secret, .. } = SimulatorConfig::default();
    tracing::warn!(
        "PIX_PROVIDER_URL is not set: NO REAL MONEY MOVES. A simulated provider runs on {}",
        simulator.base_url()
    );
    let client_secret = SecretString::from(client_secret);
    let (url, tls) = (simulator.base_url(), ClientTls::default());
    Ok((ProviderSettings { url, client_id, client_secret, tls }, simulator))
}

impl Running {
    /// Says that it is not ready, and takes requests for `drain` still.
    pub async fn drain(&self, drain: Duration) {
        self.stopping.begin();
        if !drain.is_zero() {
            tracing::info!(
                drain_ms = drain.as_millis(),
                "stopping: not ready any more, requests are still taken"
            );
            tokio::time::sleep(drain).await;
        }
    }

    /// Says that it is not ready, finishes what is running, and ends.
    pub async fn stop(self) {
        self.renewing.abort();
        self.stopping.begin();
        tracing::info!("stopping: no new requests, running ones are finished");
        self.server.stop(true).await;
        let _ = self.task.await;
        self.worker.stop().await;
        self.deliverer.stop().await;
        self.sealing.stop().await;
        if let Some(traces) = self.traces {
            traces.stop().await;
        }
        if let Some(admin) = self.admin {
            admin.stop().await;
        }
        if let Some(simulator) = self.simulator {
            simulator.stop().await;
        }
        // Requests whose clients went away may have been longer at it than the workers.
        tell_left(&self.unrecorded);
    }
}

/// Makes a new key for the demo integrator and prints calls that work when pasted. Keys that earlier starts printed are
/// revoked, so that they don't pile up.
async fn print_demo(config: &Config, running: &Running) -> anyhow::Result<()> {
    let store = &running.store;
    let journal = Journal::of_user(store, config)?;
    let known = store.integrators.list().await?.into_iter().find(|integrator| integrator.name == DEMO_NAME);
    let demo = match known {
        Some(demo) => demo,
        None => integrator::create(store, &journal, DEMO_NAME).await?,
    };
    for old in store.keys.list(demo.id).await? {
        if old.revoked_at.is_none() {
            key::revoke(store, &journal, &old.public_id).await?;
        }
    }
    let hasher = gateway::hasher(config)?;
    let (key, secret) = key::create(store, &journal, &hasher, demo.id, KeyChange::default()).await?;
    let (url, public_id, secret) = (&running.url, &key.public_id, &secret.0);
    say!(
        "\nDemo integrator {}\n  public_id  {public_id}\n  secret     {secret}\n\n# A token:\n\n  TOKEN=$(curl -s -u {public_id}:{secret} -X POST {url}/v2/oauth/token | sed -n 's/.*\"access_token\":\"\\([^\"]*\\)\".*/\\1/p')\n\n# A charge:\n\n  curl -s {url}/api/v1/charges -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' \\\n    -d '{{\"amount\": 15.50, \"external_id\": \"order-1\", \"payer\": {{\"name\": \"Maria Silva\", \"document\": \"52998224725\"}}}}'; echo\n",
        demo.id
    );
    if let Some(simulator) = &running.simulator {
        say!(
            "# Pay it at the simulated provider, with the pix_id that the charge was answered with:\n\n  PIX_ID=$(curl -s {url}/api/v1/charges/order-1 -H \"Authorization: Bearer $TOKEN\" | sed -n 's/.*\"pix_id\":\"\\([^\"]*\\)\".*/\\1/p')\n  curl -s -X POST {}/sim/charges/$PIX_ID/pay; echo\n\n# Ask about the payment, which the provider also tells of by itself a moment later, and for the balance:\n\n  curl -s {url}/api/v1/transactions/consult -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' \\\n    -d '{{\"external_id\": \"order-1\"}}'; echo\n  curl -s -X POST {url}/v2/balance -H \"Authorization: Bearer $TOKEN\"\n",
            simulator.base_url()
        );
    }
    Ok(())
}
