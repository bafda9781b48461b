//! The contract that every store must pass, and what it is made of: builders, a clock to be set, ids in sequence, a
//! provider that answers as told.
//!
//! It owns what "a store" means: each case is one promise of the ports of `pix-domain`, written against them alone, and
//! ends with an audit of all books. It never knows which store it runs on.
//!
//! An adapter brings a [`StoreHarness`] and one line:
//!
//! ```no_run
//! // tests/conformance.rs of the adapter
//! use pix_conformance::{Durability, StoreHarness, StoreSet};
//!
//! struct Harness {
//!     stores: StoreSet, // `StoreSet::of(Arc::new(store))`, and the folder or database that it stands on
//! }
//!
//! #[async_trait::async_trait]
//! impl StoreHarness for Harness {
//!     fn stores(&self) -> StoreSet {
//!         self.stores.clone()
//!     }
//!
//!     async fn reopen(&mut self) -> Durability {
//!         Durability::Volatile
//!     }
//! }
//!
//! async fn harness() -> Harness {
//!     // An empty store.
//! #   std::future::pending().await
//! }
//!
//! pix_conformance::store_suite!(harness());
//! # fn main() {}
//! ```
//!
//! | Module | What it has |
//! |---|---|
//! | [`harness`] | what an adapter brings, and what a case gets |
//! | [`builders`] | integrators, commands and records with sensible defaults |
//! | [`clock`], [`ids`], [`provider`] | the other ports, for tests |
//! | [`cases`] | the promises, one function each; `store_suite!` lists them |
//! | [`nodes`] | several nodes on one database, as one store |
//! | [`script`] | a seeded random script and what it must observe |

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a suite of tests: to panic is how it says that a promise is broken"
)]

pub mod builders;
pub mod cases;
pub mod clock;
pub mod harness;
pub mod ids;
pub mod nodes;
pub mod provider;
pub mod provider_suite;
pub mod script;
mod suite;

pub use clock::FixedClock;
pub use harness::{Durability, Services, StoreHarness, StoreSet, services};
pub use ids::SequencedIds;
pub use nodes::Nodes;
pub use provider::{Answer, FakeProvider};
pub use suite::{Snapshot, assert_books_are_right, run, snapshot};
