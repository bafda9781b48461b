//! The reference store: every store port of `pix-domain` over plain collections behind one lock.
//!
//! It owns what a store must do, in its simplest correct form: the suite of `pix-conformance` is read against it, and
//! tests of those who embed the domain run on it. It never knows durability: what it holds ends with it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pix_domain::credentials::store::IntegratorStore;
//! use pix_domain::credentials::{Integrator, IntegratorStatus};
//! use pix_domain::ids::IntegratorId;
//! use pix_domain::ports::Stores;
//! use pix_domain::time::Timestamp;
//! use pix_memory::MemoryStore;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store = Arc::new(MemoryStore::new());
//! let id = IntegratorId(uuid::Uuid::from_u128(1));
//! let created_at = Timestamp::from_micros(0);
//! let integrator = Integrator { id, name: "Loja".into(), status: IntegratorStatus::Active, postback_scope: None, split_postback: None, created_at };
//! IntegratorStore::create(store.as_ref(), integrator).await?;
//!
//! // What the services of the domain take.
//! let stores = Stores::of(store);
//! assert!(stores.wallets.wallet(id).await?.available.is_zero());
//! # Ok::<(), pix_domain::error::StoreError>(())
//! # }).unwrap();
//! ```
//!
//! | Module | What it does |
//! |---|---|
//! | `state` | the collections |
//! | `apply` | the one write verb: looks at everything first, then writes |
//! | `records` | reads of charges, withdrawals and refunds |
//! | `books` | reads of wallets and whole books |
//! | `follow_ups` | what is due, and the lookups beside it |
//! | `callbacks` | what the provider called back, and the journal of administrative acts |
//! | `postbacks` | public events, their deliveries, and the numbers of secrets |
//! | `people` | persons, locked and erased |
//! | `seals` | seals, and what they follow from |
//! | `settings` | integrators, keys and fees |

mod apply;
mod books;
mod callbacks;
mod follow_ups;
mod limits;
mod people;
mod postbacks;
mod records;
mod seals;
mod settings;
mod state;

use std::sync::{Mutex, MutexGuard, PoisonError};

use state::State;

/// The reference store. See the [crate] for an example.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The collections, for one call.
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is written before all of it is known to be right, so a panic elsewhere leaves no half of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles and runs the example of the document for those who embed the domain.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/EMBEDDING.md")]
struct EmbeddingDocument;
