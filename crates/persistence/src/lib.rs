//! The stores of `pix_domain`, by diesel.
//!
//! It owns how records are laid out in tables, how a transition becomes one database transaction, and how a database's
//! failures become the domain's errors. It never decides about money: it refuses what the domain's own guards refuse, and
//! keeps the rest.
//!
//! | Module | Room |
//! |---|---|
//! | `schema`, `codec`, `rows` | tables and rows; shared by every database |
//! | [`postgres`] | the store of record: any number of nodes on one database |
//! | [`sqlite`] | the embedded store: one file, one writer, many readers |
//! | [`Vitals`] | what operators are told of either |
//!
//! ```
//! use pix_domain::credentials::store::IntegratorStore;
//! use pix_domain::credentials::{Integrator, IntegratorStatus};
//! use pix_domain::ids::IntegratorId;
//! use pix_domain::time::Timestamp;
//! use pix_domain::wallet::Wallet;
//! use pix_domain::wallet::store::WalletStore;
//! use pix_persistence::sqlite::{SqliteOptions, SqliteStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("pix-gateway.db");
//! let store = SqliteStore::open(&path, SqliteOptions { migrate: true, ..SqliteOptions::default() })?;
//! let id = IntegratorId(uuid::Uuid::from_u128(1));
//! let integrator = Integrator {
//!     id,
//!     name: "Loja".into(),
//!     status: IntegratorStatus::Active,
//!     postback_scope: None,
//!     split_postback: None,
//!     created_at: Timestamp::from_micros(0),
//! };
//! store.create(integrator).await?;
//! assert_eq!(store.wallet(id).await?, Wallet::default());
//! # Ok(())
//! # }
//! ```

mod codec;
mod entries;
pub mod postgres;
mod rows;
mod schema;
pub mod sqlite;
mod vitals;

pub use vitals::{MAX_COUNTED, Overdue, PoolUse, Vitals};
