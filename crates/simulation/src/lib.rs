//! A deterministic simulation of the money core: the services of `pix-domain` over the reference store and a simulated
//! provider, under every fault at once, from one seed.
//!
//! It owns the question "can any interleaving of faults lose or make money?". It never knows a thread, a runtime or a
//! wall clock: whatever happens in a world follows from its seed, so that a seed that fails is a seed that can be replayed.
//!
//! ```
//! let report = pix_simulation::run(7, &pix_simulation::Options::default()).unwrap();
//! assert!(report.polls > 0);
//! ```
//!
//! | Module | What it has |
//! |---|---|
//! | [`world`] | the phases of one world, and what happens in each |
//! | [`tasks`], [`executor`] | the scheduler |
//! | [`sim`] | what all ports share: time, chance, the trace |
//! | [`faults`] | which faults there are, how likely, how often they occurred |
//! | [`decorators`] | the ports as a world has them |
//! | [`desk`] | the provider's own log |
//! | [`clients`] | what clients ask for and were told |
//! | [`model`] | every commit, replayed and judged |
//! | [`checker`] | what must be true at the end |

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test bench: to panic is how it says that it is itself broken"
)]

use std::sync::Arc;

use pix_domain::ports::Stores;
use pix_domain::provider::SettlementProvider;

pub mod checker;
pub mod clients;
pub mod decorators;
pub mod desk;
pub mod executor;
pub mod faults;
pub mod model;
pub mod random;
pub mod sim;
pub mod tasks;
pub mod world;

use faults::Counts;
use world::World;

/// Puts something between a world and its store.
pub type WrapStores = dyn Fn(Stores) -> Stores;

/// Puts something between the domain and its provider.
pub type WrapProvider = dyn Fn(Arc<dyn SettlementProvider>) -> Arc<dyn SettlementProvider>;

/// How a world is run.
pub struct Options {
    /// Whether every step is written down.
    pub trace: bool,
    /// What stands right before the store: for tests that break it on purpose.
    pub stores: Box<WrapStores>,
    /// What stands right behind the domain: likewise.
    pub provider: Box<WrapProvider>,
}

impl Default for Options {
    fn default() -> Self {
        Self { trace: false, stores: Box::new(|stores| stores), provider: Box::new(|provider| provider) }
    }
}

/// What became of a world in which nothing went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How often each fault occurred.
    pub counts: Counts,
    /// How many times a task was polled.
    pub polls: u64,
    /// How many records there are.
    pub records: usize,
    /// What happened, if it was to be written down.
    pub trace: Vec<String>,
}

/// What is wrong with a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What.
    pub what: String,
    /// What happened, if it was to be written down.
    pub trace: Vec<String>,
}

/// Runs the world of a seed, and checks it.
pub fn run(seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    let mut world = World::new(seed, options);
    world.live();
    let wrong = checker::check(&mut world);
    let trace = world.sim.take_trace();
    match wrong {
        Some(what) => Err(Box::new(Failure { seed, what, trace })),
        None => Ok(world.sim.with(|state| Report {
            counts: state.counts.clone(),
            polls: state.step,
            records: state.model.records.len(),
            trace,
        })),
    }
}
