//! `pix-gateway work`.

use std::process::ExitCode;

use anyhow::bail;

use crate::config::Config;
use crate::gateway;
use crate::store::Store;

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
    let store = Store::open_existing(&config).await?;
    gateway::bind_provider(&store, &gateway::provider_name(settings), false).await?;
    let provider = gateway::provider_config(&config, settings, &config.public_url, &keys.callback_secret);
    let ports = gateway::ports(&config, &store, provider)?;
    let worker = gateway::Worker::start(ports, config.reconciler_interval);
    tracing::info!("workers are running");
    gateway::stop_signal().await?;
    worker.stop().await;
    Ok(ExitCode::SUCCESS)
}
