//! `pix-gateway work`.

use std::process::ExitCode;

use anyhow::bail;
use pix_domain::postbacks::relay::Relay;
use pix_notifications::Deliverer;

use crate::admin::Admin;
use crate::config::Config;
use crate::gateway;
use crate::journal::Journal;
use crate::store::Store;
use crate::worker::Worker;

/// Runs the workers until told to stop.
pub async fn run(config: Config) -> anyhow::Result<ExitCode> {
    gateway::init_logging(&config)?;
    let Some(settings) = &config.provider else {
        bail!(
            "`work` needs a provider: set PIX_PROVIDER_URL (the simulated one runs inside `serve` only, or alone with `pix-gateway simulator`)"
        );
    };
    gateway::check_secrets(&config)?;
    let keys = gateway::secrets(&config)?;
    let store = Store::open_existing(&config).await?.cached(config.cache_ttl);
    let journal = Journal::of_user(&store, &config)?;
    gateway::bind_provider(&store, &journal, &gateway::provider_name(settings), false).await?;
    let provider = gateway::provider_config(&config, settings, &config.public_url, &keys.callback_secret);
    let admin = Admin::start(config.admin_listen, store.records.follow_ups.clone())?;
    let postbacks = gateway::postbacks(&config, &store, &keys, false)?;
    let deliverer = Deliverer::start(Relay::new(postbacks), config.postbacks.deliverer);
    let ports = gateway::waking(gateway::ports(&config, &store, provider)?, deliverer.waker());
    let worker = Worker::start(ports, config.worker);
    tracing::info!("workers are running");
    gateway::stop_signal().await?;
    worker.stop().await;
    deliverer.stop().await;
    if let Some(admin) = admin {
        admin.stop().await;
    }
    Ok(ExitCode::SUCCESS)
}
