//! `pix-gateway simulator`.

use std::process::ExitCode;

use pix_settlement::POOL_IDLE_TIMEOUT;
use pix_simulator::{KEEP_ALIVE, Simulator, SimulatorConfig};

use crate::cli;
use crate::config::Config;
use crate::gateway::{self, StopSignals};

const _: () = assert!(
    KEEP_ALIVE.as_secs() > POOL_IDLE_TIMEOUT.as_secs(),
    "the simulated provider would close connections that the gateway still uses"
);

/// Runs the simulated provider until it is told to stop.
pub async fn run(config: &Config, arguments: cli::Simulator) -> anyhow::Result<ExitCode> {
    gateway::init_logging(config)?;
    let mut signals = StopSignals::new()?;
    let simulator = Simulator::start(SimulatorConfig {
        listen: arguments.listen.unwrap_or(config.simulator_listen),
        log_path: arguments.log,
        settle_automatically: !arguments.manual,
        ..SimulatorConfig::default()
    })
    .await
    .map_err(gateway::simulator_refused)?;
    let defaults = SimulatorConfig::default();
    say!(
        "simulated provider on {} (client {}, secret {})",
        simulator.base_url(),
        defaults.client_id,
        defaults.client_secret
    );
    signals.wait().await;
    simulator.stop().await;
    Ok(ExitCode::SUCCESS)
}
