//! The crash matrix: the gateway is killed at every named step, under every behaviour of the simulated provider, in
//! every operation that moves money, on every store that outlives it; is started again; and then the ledger, the records,
//! the provider's own log and what the client was told must agree. See `docs/RELIABILITY.md`.

mod cell;
mod check;
mod plan;
mod table;
mod world;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, ensure};
use pix_pg_server::{Options, PgServer};

pub use cell::Outcome;
pub use check::{Problem, Wrong};
pub use plan::{Cell, Operation, Wanted};
pub use table::{markdown, summary, within};
pub use world::World;

use crate::{Database, program_with_fail_points};
use plan::Behaviour;

/// How many worlds a store has at the most; more of them only wait for the same processors.
pub const MAX_WORKERS: usize = 16;

/// What became of every cell.
pub struct Report {
    /// What it was drawn from.
    pub seed: u64,
    /// Every step of the program.
    pub steps: Vec<String>,
    /// Every behaviour, in the order of the catalogue.
    pub behaviours: Vec<String>,
    /// Each cell and how it ended.
    pub outcomes: Vec<(Cell, anyhow::Result<Outcome>)>,
    /// Whether every cell was wanted, so that a step that no cell reaches is wrong.
    pub whole: bool,
}

impl Report {
    /// The cells in which something is wrong.
    pub fn wrong(&self) -> impl Iterator<Item = &(Cell, anyhow::Result<Outcome>)> {
        self.outcomes.iter().filter(|(_, outcome)| !outcome.as_ref().is_ok_and(|it| it.problems.is_empty()))
    }

    /// Steps at which the gateway was killed in no cell of an operation that passes them.
    pub fn never_reached(&self) -> Vec<(Operation, String)> {
        let mut never = BTreeSet::new();
        for (cell, _) in self.outcomes.iter().filter(|_| self.whole) {
            never.insert((cell.operation, cell.step.clone()));
        }
        for (cell, outcome) in &self.outcomes {
            if outcome.as_ref().is_ok_and(|it| it.killed) {
                never.remove(&(cell.operation, cell.step.clone()));
            }
        }
        never.into_iter().collect()
    }

    /// Whether all is as it must be.
    pub fn is_clean(&self) -> bool {
        self.wrong().next().is_none() && self.never_reached().is_empty()
    }
}

/// Which cells to run.
pub enum Choice {
    /// All, or a share of them.
    Matrix(Wanted),
    /// Every step once, with a behaviour that reaches it.
    Short(u64),
}

/// Every step that the program knows, by its own account.
pub fn steps() -> anyhow::Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let mut program = Command::new(program_with_fail_points());
    program.arg("serve").env("PIX_FAIL_AT", "?").env("PIX_LISTEN", "127.0.0.1:0").current_dir(folder.path());
    let output = program.env("PIX_SIMULATOR_LISTEN", "127.0.0.1:0").output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(!output.status.success(), "a step that doesn't exist is no reason not to start");
    let (_, listed) =
        said.rsplit_once("for the third time: ").with_context(|| format!("no steps: {said}"))?;
    // What it was at when it refused to start may be told after that.
    let listed = listed.lines().next().unwrap_or_default();
    Ok(listed.trim().split(", ").map(str::to_owned).collect())
}

/// Runs cells, `workers` at once. `tell` is called after each.
pub async fn run(
    choice: Choice,
    workers: usize,
    tell: impl Fn(&Cell, &anyhow::Result<Outcome>) + Send + Sync + 'static,
) -> anyhow::Result<Report> {
    let steps = steps()?;
    let (mut first, _) = World::new(Database::Sqlite, None).await?;
    first.begin("evidence:after")?;
    let behaviours = Behaviour::all(&first.catalogue().await?)?;
    drop(first);
    let (seed, whole, cells) = match &choice {
        Choice::Matrix(wanted) => (
            wanted.seed,
            wanted.cells.is_none() && wanted.only.is_none(),
            plan::cells(&steps, &behaviours, wanted)?,
        ),
        Choice::Short(seed) => (*seed, true, plan::short(&steps, &behaviours, *seed)?),
    };
    let server =
        if cells.iter().any(|cell| cell.store == Database::Postgres) { Some(server()?) } else { None };
    let waiting = Arc::new(Mutex::new(cells));
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::new(tell);
    let tasks: Vec<_> = (0..workers.clamp(1, MAX_WORKERS))
        .map(|_| {
            let (waiting, outcomes, tell) = (Arc::clone(&waiting), Arc::clone(&outcomes), Arc::clone(&tell));
            tokio::spawn(async move {
                let mut worlds = Worlds { server, sqlite: None, postgres: None };
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(cell) = next else { return };
                    let outcome = worlds.run(&cell).await;
                    tell(&cell, &outcome);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((cell, outcome));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    let outcomes = std::mem::take(&mut *outcomes.lock().unwrap_or_else(PoisonError::into_inner));
    let behaviours = behaviours.into_iter().map(|behaviour| behaviour.name).collect();
    Ok(Report { seed, steps, behaviours, outcomes, whole })
}

/// A server for the databases of all worlds. It ends with the process.
fn server() -> anyhow::Result<&'static PgServer> {
    static SERVER: std::sync::OnceLock<Result<PgServer, String>> = std::sync::OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let options = Options { max_connections: 200, ..Options::default() };
        PgServer::start(options).map_err(|error| error.to_string())
    });
    server.as_ref().map_err(|error| anyhow::anyhow!("no PostgreSQL server: {error}"))
}

/// One worker's worlds, made when they are needed.
struct Worlds {
    server: Option<&'static PgServer>,
    sqlite: Option<(World, world::Beginning)>,
    postgres: Option<(World, world::Beginning)>,
}

impl Worlds {
    async fn run(&mut self, cell: &Cell) -> anyhow::Result<Outcome> {
        let (slot, server) = match cell.store {
            Database::Sqlite => (&mut self.sqlite, None),
            Database::Postgres => (&mut self.postgres, self.server),
        };
        let (world, beginning) = match slot {
            Some(made) => made,
            None => slot.insert(World::new(cell.store, server).await?),
        };
        let began = Instant::now();
        let outcome = cell::run(world, beginning, cell).await;
        outcome.with_context(|| format!("after {} ms", began.elapsed().as_millis()))
    }
}
