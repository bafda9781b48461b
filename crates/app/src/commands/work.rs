//! `pix-gateway work`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;

use crate::config::Config;
use crate::gateway;

/// Runs the workers until told to stop.
pub async fn run(config: Config) -> anyhow::Result<ExitCode> {
    gateway::init_logging(&config)?;
    let Some(settings) = &config.provider else {
        bail!(
            "`work` needs a provider: set PIX_PROVIDER_URL (the simulated one runs inside `serve` only, or alone with `pix-gateway simulator`)"
        );
    };
    let keys = gateway::secrets(&config)?;
    let store = Arc::new(gateway::open_existing_store(&config)?);
    gateway::bind_provider(&store, &gateway::provider_name(settings), false).await?;
    let provider = gateway::provider_config(&config, settings, &config.public_url, &keys.callback_secret);
    let ports = gateway::ports(store, provider)?;
    let worker = gateway::Worker::start(ports, config.reconciler_interval);
    tracing::info!("workers are running");
    gateway::stop_signal().await?;
    worker.stop().await;
    Ok(ExitCode::SUCCESS)
}
