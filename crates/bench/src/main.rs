//! Measures the gateway: against what its database can do, what its HTTP stack can do, and what others do. It owns the
//! measuring and the table; it must never know how a store works inside.
//!
//! Everything is measured in one run on one machine, on a durable PostgreSQL of its own. Ratios carry over to other
//! machines; absolute figures don't.
//!
//! | Module | Room |
//! |---|---|
//! | `ops` | the commands that are measured, as values |
//! | `measure` | many clients, a warm-up, a fixed time, and the latencies |
//! | `lab` | the PostgreSQL server and its filled databases |
//! | `store`, `pgbench` | the store against the database's own limit |
//! | `http`, `load`, `serve`, `plain` | over HTTP: the load, the servers to compare with |
//! | `program` | the gateway itself, with its simulated provider |
//! | `door` | good traffic beside a flood of sign-ins and slow connections |
//! | `postbacks`, `receive`, `posts` | postbacks: the relay, who receives them, and the limit of signed POSTs |
//! | `sqlite` | the embedded store against a plain pool |
//! | `lists` | a page of a list, out of a million charges |
//! | `growth`, `cost`, `peers` | more rows; memory, size and start; a published ledger |
//! | `proc`, `report` | processor time and memory; the table |

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::float_arithmetic,
    reason = "rates and ratios are divisions, and nothing here is money"
)]

mod cost;
mod door;
mod growth;
mod http;
mod lab;
mod lists;
mod load;
mod measure;
mod ops;
mod peers;
mod pgbench;
mod plain;
mod postbacks;
mod posts;
mod proc;
mod program;
mod receive;
mod report;
mod serve;
mod sqlite;
mod store;

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use mimalloc::MiMalloc;
use tokio::runtime::Runtime;

use crate::lab::{Lab, SETTINGS, SHARED_BUFFERS_MIB};
use crate::measure::Plan;
use crate::ops::Op;
use crate::report::{MOST_TRIES, NEAR, Report, Row, TRIES, describe_machine, judged};

/// Rows that a database is filled with, a slot a row: enough for the fastest run.
const ROWS: u32 = 240_000;
const QUICK_ROWS: u32 = 100_000;

/// Measures the gateway, and says so when a ratio is under its floor.
#[derive(Debug, Parser)]
#[command(name = "pix-bench", version)]
struct Cli {
    /// The two-minute form.
    #[arg(long)]
    quick: bool,
    /// With ten minutes of load, to see whether memory grows.
    #[arg(long)]
    long: bool,
    /// Which parts; all of the form by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Which commands of the part about the store; all of the form by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    ops: Vec<Op>,
    /// How long each is measured, in seconds.
    #[arg(long)]
    seconds: Option<f64>,
    /// The most rows of the part about growth.
    #[arg(long, default_value_t = 10_000_000)]
    most_rows: u32,
    /// The charges of the part about lists.
    #[arg(long, default_value_t = 1_000_000)]
    list_rows: u32,
    /// Where the summary goes.
    #[arg(long, default_value = "target/bench/summary.json")]
    summary: PathBuf,
    /// A document whose table is written anew.
    #[arg(long)]
    document: Option<PathBuf>,
    /// The gateway's program.
    #[arg(long, default_value = "target/release/pix-gateway")]
    gateway: PathBuf,
    /// The program that measures `cala-ledger`; left out when it isn't there.
    #[arg(long, default_value = "target/bench/cala/release/pix-bench-cala")]
    cala: PathBuf,
    #[command(subcommand)]
    command: Option<Inner>,
}

#[derive(Debug, Subcommand)]
enum Inner {
    /// Serves one of the handlers that are compared; for the benchmark itself.
    #[command(hide = true)]
    Serve {
        #[arg(value_enum)]
        handler: serve::Handler,
        #[arg(long)]
        database: String,
        #[arg(long)]
        wallets: u32,
    },
    /// Receives postbacks and counts them; for the benchmark itself.
    #[command(hide = true)]
    Receive,
    /// Sends signed bodies of so many bytes, so many at once, until it is killed; for the benchmark itself.
    #[command(hide = true)]
    Post {
        #[arg(long)]
        to: SocketAddr,
        #[arg(long)]
        bytes: usize,
        #[arg(long)]
        at_once: u32,
    },
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Store,
    Http,
    Sqlite,
    Program,
    Postbacks,
    Cala,
    Growth,
    Cost,
    Door,
    Lists,
}

impl Part {
    const QUICK: [Self; 3] = [Self::Sqlite, Self::Store, Self::Http];
    const FULL: [Self; 8] = [
        Self::Store,
        Self::Http,
        Self::Sqlite,
        Self::Cala,
        Self::Program,
        Self::Postbacks,
        Self::Cost,
        Self::Growth,
    ];
}

/// As of the gateway.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

/// What every part works with.
struct Bench {
    runtime: Runtime,
    plan: Plan,
    quick: bool,
    /// The commands of the store that are asked for; none for all of the form.
    ops: Vec<Op>,
    long: bool,
    rows: u32,
    most_rows: u32,
    list_rows: u32,
    gateway: PathBuf,
    cala: PathBuf,
    report: Report,
    lab: OnceCell<Lab>,
}

impl Bench {
    /// The server, started by the first who asks.
    fn lab(&self) -> anyhow::Result<&Lab> {
        if let Some(lab) = self.lab.get() {
            return Ok(lab);
        }
        let lab = Lab::start().context("PostgreSQL can't be started")?;
        Ok(self.lab.get_or_init(|| lab))
    }

    /// Adds the rows that this measures, more than once when they are near their floors.
    fn judge(&mut self, mut measure: impl FnMut(&Self) -> anyhow::Result<Vec<Row>>) -> anyhow::Result<()> {
        for row in judged(|| measure(self))? {
            self.report.row(row);
        }
        Ok(())
    }

    fn run(&mut self, part: Part) -> anyhow::Result<()> {
        match part {
            Part::Store => store::run(self),
            Part::Http => http::run(self),
            Part::Sqlite => sqlite::run(self),
            Part::Program => program::run(self),
            Part::Postbacks => postbacks::run(self),
            Part::Cala => peers::run(self),
            Part::Growth => growth::run(self),
            Part::Cost => cost::run(self),
            Part::Door => door::run(self),
            Part::Lists => lists::run(self),
        }
    }
}

fn measure_all(cli: &Cli) -> anyhow::Result<ExitCode> {
    let seconds = cli.seconds.unwrap_or(if cli.quick { 1.5 } else { 4.0 });
    let warm = if cli.quick { 0.5 } else { 1.0 };
    let mut bench = Bench {
        runtime: Runtime::new()?,
        plan: Plan { warm: Duration::from_secs_f64(warm), time: Duration::from_secs_f64(seconds) },
        quick: cli.quick,
        ops: cli.ops.clone(),
        long: cli.long,
        rows: if cli.quick { QUICK_ROWS } else { ROWS },
        most_rows: cli.most_rows,
        list_rows: cli.list_rows,
        gateway: cli.gateway.clone(),
        cala: cli.cala.clone(),
        report: Report::default(),
        lab: OnceCell::new(),
    };
    describe_machine(&mut bench.report);
    let settings = SETTINGS.map(|(name, value)| format!("{name}={value}")).join(", ");
    let version = bench.lab()?.version()?;
    bench.report.machine(format!(
        "PostgreSQL {version}, on disk, fsync=on, synchronous_commit=on, full_page_writes=on, \
         shared_buffers={SHARED_BUFFERS_MIB}MB, {settings}"
    ));
    bench.report.machine(format!(
        "Run: `{}`; each figure is one measurement of {seconds} s after a warm-up of {warm} s; what compares with the \
         database, HTTP, SQLite or fewer rows and isn't above {NEAR} times its floor is measured {TRIES} times with its \
         reference, {MOST_TRIES} times where those lie on both sides of the floor, and the middle ratio counts",
        std::env::args().enumerate().map(|(index, word)| if index == 0 { "pix-bench".to_owned() } else { word })
            .collect::<Vec<_>>().join(" ")
    ));
    let parts: Vec<Part> = match (cli.only.is_empty(), cli.quick) {
        (false, _) => cli.only.clone(),
        (true, true) => Part::QUICK.to_vec(),
        (true, false) => Part::FULL.to_vec(),
    };
    let mut failed = Vec::new();
    for part in parts {
        if let Err(error) = bench.run(part) {
            bench.report.say(&format!("This part ended early: {error:#}"));
            failed.push(part);
        }
        // After each part, so that a run that is cut off has told of what it measured.
        bench.report.write_summary(&cli.summary)?;
        if let Some(document) = &cli.document {
            bench.report.write_document(document)?;
        }
    }
    let under = bench.report.under();
    for row in &under {
        eprintln!(
            "under its floor: {} ({:.2} < {})",
            row.name,
            row.ratio.unwrap_or(0.0),
            row.floor.unwrap_or(0.0)
        );
    }
    for part in &failed {
        eprintln!("ended early: {part:?}");
    }
    Ok(if under.is_empty() && failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    match &cli.command {
        Some(Inner::Serve { handler, database, wallets }) => {
            serve::run(*handler, database, *wallets)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Inner::Receive) => {
            receive::run()?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Inner::Post { to, bytes, at_once }) => {
            posts::run(*to, *bytes, *at_once)?;
            Ok(ExitCode::SUCCESS)
        }
        None => measure_all(&cli),
    }
}
