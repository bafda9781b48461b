//! Runs the crash matrix, prints its table, and exits with 1 when anything is wrong.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use pix_tests::Database;
use pix_tests::crash::{self, Choice, Wanted};

/// How often it is said how far it is, in cells.
const TELL_EVERY: usize = 250;

/// Which stores.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Stores {
    Sqlite,
    Postgres,
    Both,
}

/// Kills the gateway at every step, under every behaviour of the provider, and checks what it leaves.
#[derive(Debug, Parser)]
struct Arguments {
    /// What the order of the cells, and what they leave open, are drawn from.
    #[arg(long, default_value_t = 20_261_121)]
    seed: u64,
    /// At most so many cells; all by default.
    #[arg(long)]
    cells: Option<usize>,
    /// On which stores.
    #[arg(long, value_enum, default_value = "both")]
    store: Stores,
    /// Only cells whose name (operation/step:side/behaviour/store) has this in it.
    #[arg(long)]
    only: Option<String>,
    /// Every step once, as in `make test`.
    #[arg(long)]
    short: bool,
    /// How many cells are run at once.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// The document whose table is made anew.
    #[arg(long)]
    document: Option<PathBuf>,
    /// What the document says of the machine and the day.
    #[arg(long, default_value = "")]
    made_on: String,
}

#[tokio::main(worker_threads = 8)]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let stores = match arguments.store {
        Stores::Sqlite => vec![Database::Sqlite],
        Stores::Postgres => vec![Database::Postgres],
        Stores::Both => vec![Database::Sqlite, Database::Postgres],
    };
    let Arguments { seed, cells, only, .. } = arguments;
    let choice = if arguments.short {
        Choice::Short(seed)
    } else {
        Choice::Matrix(Wanted { seed, cells, stores, only })
    };
    let (began, finished) = (Instant::now(), AtomicUsize::new(0));
    let report = crash::run(choice, arguments.workers, move |cell, outcome| {
        let finished = finished.fetch_add(1, Ordering::Relaxed) + 1;
        let wrong = !outcome.as_ref().is_ok_and(|outcome| outcome.problems.is_empty());
        if wrong {
            eprintln!("{} is wrong: {outcome:?}", cell.name());
        }
        if finished.is_multiple_of(TELL_EVERY) {
            eprintln!("{finished} cells in {} s", began.elapsed().as_secs());
        }
    })
    .await?;
    println!("{}\n{}\n{} s", crash::markdown(&report), crash::summary(&report), began.elapsed().as_secs());
    if let Some(path) = arguments.document {
        let document = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let asked: Vec<_> = std::env::args().skip(1).collect();
        let asked = asked.join(" ").split(" --made-on").next().unwrap_or_default().to_owned();
        let made_by = format!(
            "Made by `make crash-matrix MATRIX='{asked}'` in {} s on {}.",
            began.elapsed().as_secs(),
            arguments.made_on
        );
        std::fs::write(&path, crash::within(&document, &report, &made_by)?)?;
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
