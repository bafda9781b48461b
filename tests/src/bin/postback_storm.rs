//! Runs the storm of postbacks, prints what came of it, and exits with 1 when anything is wrong.

use std::process::ExitCode;

use clap::Parser;
use pix_tests::storm::{self, Storm};

/// Delivers many events to receivers that fail at random, by relay processes that are killed at random, and checks that
/// each arrives, in order.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many events are delivered at least.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// What answers, moments and events are drawn from.
    #[arg(long, default_value_t = 20_261_122)]
    seed: u64,
}

#[tokio::main(worker_threads = 4)]
async fn main() -> anyhow::Result<ExitCode> {
    let Arguments { events, seed } = Arguments::parse();
    eprintln!("{events} events, seed {seed}");
    let report = Box::pin(storm::run(Storm { events, seed, tells: true })).await?;
    print!("{}", report.table());
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
