//! `pix-gateway work`.

use std::process::ExitCode;

use anyhow::bail;
use pix_domain::postbacks::relay::Relay;
use pix_http::Stopping;
use pix_notifications::Deliverer;

use crate::admin::Admin;
use crate::clocks;
use crate::common::Common;
use crate::config::Config;
use crate::console;
use crate::dangers;
use crate::gateway::{self, StopSignals};
use crate::health::{DELIVERER, Health, RECONCILER, SEALER};
use crate::journal::Journal;
use crate::otlp;
use crate::restored::{self, Gate};
use crate::sealing::Sealing;
use crate::store::Store;
use crate::worker::{Worker, tell_left};

/// Runs the workers until told to stop.
pub async fn run(config: Config) -> anyhow::Result<ExitCode> {
    gateway::init_logging(&config)?;
    let mut signals = StopSignals::new()?;
    let Some(settings) = &config.provider else {
        bail!(
            "`work` needs a provider: set PIX_PROVIDER_URL (the simulated one runs inside `serve` only, or alone with `pix-gateway simulator`)"
        );
    };
    dangers::refuse(&config, false)?;
    let keys = gateway::secrets(&config)?;
    let store = Store::open_existing(&config).await?.cached(config.cache_ttl);
    clocks::refuse(&store).await?;
    restored::refuse_copy(&store).await?;
    let journal = Journal::of_user(&store, &config)?;
    gateway::bind_provider(&store, &journal, &gateway::provider_name(settings), false).await?;
    if let Some(common) = Common::of(&config) {
        common.tell(&store).await?;
    }
    let provider = gateway::provider_config(&config, settings, &config.public_url, &keys.callback_secret);
    let stopping = Stopping::default();
    let health = Health::new(store.clone(), stopping.clone());
    let answered = console::answered(&config);
    let admin = Admin::start(config.admin_listen, health.clone(), answered.clone())?;
    let traces = otlp::start(config.otlp.as_ref())?;
    let postbacks = gateway::postbacks(&config, &store, &keys, false)?;
    let deliverer = Deliverer::start(Relay::new(postbacks), config.postbacks.deliverer);
    let gate = Gate::of(&store, config.restore_ask).await?;
    gate.watch(store.facts.clone());
    clocks::watch(store.clone(), config.clock_interval);
    let (ports, breaker) = gateway::ports(&config, &store, provider, gate).await?;
    let ports = gateway::waking(ports, deliverer.waker());
    if let Some(admin) = &admin {
        admin.open(console::of(&config, &health, &ports, answered));
    }
    let sealing = Sealing::start(&store, &ports, &config)?;
    let unrecorded = ports.unrecorded.clone();
    let worker = Worker::start(ports, config.worker);
    health.watch_breaker(breaker);
    health.watch(RECONCILER, worker.watch());
    health.watch(DELIVERER, deliverer.watch());
    health.watch(SEALER, sealing.watch());
    if let Some(status) = sealing.status() {
        health.watch_seals(status);
    }
    tracing::info!("workers are running");
    signals.wait().await;
    stopping.begin();
    worker.stop().await;
    deliverer.stop().await;
    sealing.stop().await;
    if let Some(traces) = traces {
        traces.stop().await;
    }
    if let Some(admin) = admin {
        admin.stop().await;
    }
    tell_left(&unrecorded);
    Ok(ExitCode::SUCCESS)
}
