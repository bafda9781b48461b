//! The store of record: PostgreSQL 13 or newer, over `tokio-postgres` (no libpq).
//!
//! | Module | Room |
//! |---|---|
//! | `open` | looking at a server before it is used; migrations |
//! | `pool` | the three pools and the settings of every connection |
//! | `columns`, `statement` | transitions as one statement over arrays |
//! | `settling` | the same for payments of charges and nothing else |
//! | `group` | gathering concurrent transitions |
//! | `sharing` | what many ask at once, and what shares statements |
//! | `lookups` | looking records up by their ids, many in one query |
//! | `by_key` | what else is found by a key alone: wallets, names, handles, twins, references |
//! | `apply` | running them: one by one, or a group; and finding out what became of a lost commit |
//! | `due`, `inbox` | the statements of the workers |
//! | `charges`, `withdrawals`, `refunds`, `books`, `evidence`, `follow_ups`, `callbacks`, `audit_log`, `seals`, `settings`, `facts` | the other ports |
//! | `written` | the columns of a row in a query, written once |
//! | `vitals` | what operators are told |
//!
//! **Writes** are one prepared statement and one round trip, in its own transaction (READ COMMITTED). It locks the
//! records it changes, then the wallets, both in the order of their keys; decides; and writes what it accepted. What it
//! refuses writes nothing.
//!
//! **Groups**: while one group is at the database, whoever comes waits and goes with the next one. A lone caller goes at
//! once. Each transition of a group succeeds or fails on its own. Those that only bring money lock their wallets late, and
//! groups of them share one.
//!
//! **Lost commits**: when the connection breaks after a statement was sent, the same transition is applied again on a
//! fresh connection. Its guards make sure that it can't happen twice, and the number it carries (`events.transition_id`)
//! tells whether it was the first sending that happened.

mod apply;
mod ask;
mod audit_log;
mod books;
mod by_key;
mod callbacks;
mod charges;
mod columns;
mod due;
mod error;
mod evidence;
mod facts;
mod follow_ups;
mod group;
mod inbox;
mod limits;
mod lookups;
mod open;
mod outbox;
mod page;
mod people;
mod pool;
mod postbacks;
mod refunds;
mod seals;
mod settings;
mod settling;
mod sharing;
mod splits;
mod statement;
mod types;
mod vitals;
mod withdrawals;
mod written;

use std::sync::Arc;
use std::time::Duration;

use pix_domain::error::StoreError;
use tokio::runtime::Handle;

use apply::Applier;
use by_key::{ChargesNamed, Handled, OfOwner, Reads, Referred, TwinsNamed, WithdrawalsNamed};
use error::DbError;
use group::Gatherer;
pub use group::{MAX_GATHER_WAIT, MAX_GROUP};
use inbox::{Keeps, Puts};
use lookups::Lookups;
pub use open::OpenError;
use pool::{Conn, Connections, PoolSettings, Purpose, Servers};
use sharing::{Limits, Sharing};

use crate::rows::{ChargeRow, WithdrawalRow};

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgOptions {
    /// Whether to run pending migrations; without, they are refused.
    pub migrate: bool,
    /// How many connections write.
    pub money_connections: usize,
    /// How many connections read.
    pub read_connections: usize,
    /// How many connections serve the workers.
    pub worker_connections: usize,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long a caller waits for a free connection.
    pub acquire_timeout: Duration,
    /// How long the server may work on one statement.
    pub statement_timeout: Duration,
    /// How long the outcome of a lost commit is looked for before it is called unknown.
    pub resolve_timeout: Duration,
    /// How concurrent transitions are gathered; `None` for not at all.
    pub grouping: Option<Grouping>,
}

/// How concurrent transitions are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grouping {
    /// At most so many transitions in one statement; never more than [`MAX_GROUP`].
    pub max_group: usize,
    /// At most so many groups at the database at once.
    pub groups_in_flight: usize,
    /// How long the next group waits for those that the last one answered to come again; never more than
    /// [`MAX_GATHER_WAIT`]. Nobody waits on an idle store.
    pub gather_wait: Duration,
    /// At most so many queries at once that look up one kind of thing by their keys: records by ids or names, wallets.
    pub lookups_in_flight: usize,
}

impl Default for Grouping {
    fn default() -> Self {
        Self {
            max_group: MAX_GROUP,
            groups_in_flight: 2,
            gather_wait: Duration::from_micros(200),
            lookups_in_flight: 2,
        }
    }
}

impl Default for PgOptions {
    fn default() -> Self {
        Self {
            migrate: false,
            money_connections: 8,
            read_connections: 8,
            worker_connections: 2,
            connect_timeout: Duration::from_secs(3),
            acquire_timeout: Duration::from_secs(1),
            statement_timeout: Duration::from_secs(5),
            resolve_timeout: Duration::from_secs(5),
            grouping: Some(Grouping::default()),
        }
    }
}

/// What shares statements.
#[derive(Debug)]
struct Shares {
    charges: Sharing<Lookups<ChargeRow>>,
    withdrawals: Sharing<Lookups<WithdrawalRow>>,
    wallets: Sharing<Reads<OfOwner>>,
    charges_named: Sharing<Reads<ChargesNamed>>,
    withdrawals_named: Sharing<Reads<WithdrawalsNamed>>,
    handles: Sharing<Reads<Handled>>,
    twins: Sharing<Reads<TwinsNamed>>,
    referred: Sharing<Reads<Referred>>,
    keeps: Sharing<Keeps>,
    puts: Sharing<Puts>,
}

impl Shares {
    fn new(
        reads: &Connections,
        workers: &Connections,
        options: &PgOptions,
        grouping: Grouping,
        runtime: &Handle,
    ) -> Self {
        let longest_wait = options.acquire_timeout;
        let lookups = Limits { at_once: grouping.lookups_in_flight, longest_wait };
        // They wait for the disk, and one wait does for many: neither kind has more than one connection of the workers.
        let callbacks = Limits { at_once: 1, longest_wait };
        Self {
            charges: Sharing::new(Lookups::new(reads.clone()), lookups, runtime.clone()),
            withdrawals: Sharing::new(Lookups::new(reads.clone()), lookups, runtime.clone()),
            wallets: Sharing::new(Reads::new(reads.clone()), lookups, runtime.clone()),
            charges_named: Sharing::new(Reads::new(reads.clone()), lookups, runtime.clone()),
            withdrawals_named: Sharing::new(Reads::new(reads.clone()), lookups, runtime.clone()),
            handles: Sharing::new(Reads::new(reads.clone()), lookups, runtime.clone()),
            twins: Sharing::new(Reads::new(reads.clone()), lookups, runtime.clone()),
            referred: Sharing::new(Reads::new(reads.clone()), lookups, runtime.clone()),
            keeps: Sharing::new(Keeps(workers.clone()), callbacks, runtime.clone()),
            puts: Sharing::new(Puts(workers.clone()), callbacks, runtime.clone()),
        }
    }
}

/// Everything in one PostgreSQL database.
#[derive(Debug)]
pub struct PgStore {
    schema_version: String,
    reads: Connections,
    workers: Connections,
    applier: Arc<Applier>,
    gatherer: Option<Gatherer>,
    shares: Option<Shares>,
}

impl PgStore {
    /// Opens the store at `url` (`postgres://user@host:port/database`). Connections are made and driven on the runtime
    /// that this is called in.
    pub async fn open(url: &str, options: PgOptions) -> Result<Self, OpenError> {
        let target = open::target(url, options.connect_timeout)?;
        if options.migrate {
            open::migrate(&target).await?;
        }
        let schema_version = open::ready(&target).await?;
        let (runtime, servers) = (Handle::current(), Servers::default());
        let pool = |purpose, size| {
            let settings = PoolSettings {
                size,
                acquire_timeout: options.acquire_timeout,
                statement_timeout: options.statement_timeout,
            };
            let made = Connections::new(purpose, target.clone(), settings, servers.clone(), runtime.clone());
            made.map_err(OpenError::Failed)
        };
        let money = pool(Purpose::Money, options.money_connections)?;
        let applier = Arc::new(Applier::new(money, &options));
        let reads = pool(Purpose::Reads, options.read_connections)?;
        let workers = pool(Purpose::Workers, options.worker_connections)?;
        let shares = |grouping| Shares::new(&reads, &workers, &options, grouping, &runtime);
        Ok(Self {
            schema_version,
            shares: options.grouping.map(shares),
            reads,
            workers,
            gatherer: options
                .grouping
                .map(|grouping| Gatherer::new(applier.clone(), grouping, runtime.clone())),
            applier,
        })
    }

    /// Runs the pending migrations of the database at `url`; their names.
    pub async fn migrate(url: &str, connect_timeout: Duration) -> Result<Vec<String>, OpenError> {
        open::migrate(&open::target(url, connect_timeout)?).await
    }

    /// The names of the migrations that the database at `url` still needs.
    pub async fn pending_migrations(url: &str, connect_timeout: Duration) -> Result<Vec<String>, OpenError> {
        open::pending(&open::target(url, connect_timeout)?).await
    }

    /// Whether the database at `url` has anything of a gateway's, of whichever version.
    pub async fn holds_books(url: &str, connect_timeout: Duration) -> Result<bool, OpenError> {
        open::holds_books(&open::target(url, connect_timeout)?).await
    }

    /// What the programs of PostgreSQL (`pg_dump`, `pg_restore`) are to find in their environment to reach the database at
    /// `url`.
    pub fn environment(url: &str) -> Result<Vec<(&'static str, String)>, OpenError> {
        open::environment(url)
    }

    /// Whether `url` is understood; nothing is reached for. Errors as opening it.
    pub fn check_url(url: &str) -> Result<(), OpenError> {
        open::is_exposed(url).map(drop)
    }

    /// The same, and the files that it names are read.
    pub fn check_files(url: &str) -> Result<(), OpenError> {
        open::target(url, Duration::ZERO).map(drop)
    }

    /// Whether the way to the database at `url` leads over a network, and isn't encrypted. Errors as opening it.
    pub fn is_exposed(url: &str) -> Result<bool, OpenError> {
        open::is_exposed(url)
    }

    /// The newest migration the database had when it was opened.
    pub fn schema_version(&self) -> &str {
        &self.schema_version
    }

    /// A connection for reads.
    async fn reads(&self) -> Result<Conn, StoreError> {
        self.reads.get().await
    }

    /// A connection for the list of what is due, and for callbacks.
    async fn works(&self) -> Result<Conn, StoreError> {
        self.workers.get().await
    }

    /// The result of a write on a connection of [`works`](Self::works). When the server is no longer the one that writes,
    /// nobody goes there again.
    fn worked<T>(&self, conn: Conn, done: Result<T, DbError>) -> Result<T, StoreError> {
        self.workers.wrote(conn, done).map_err(DbError::of_write)
    }

    /// A connection for writes of settings.
    async fn writes(&self) -> Result<Conn, StoreError> {
        self.applier.connection().await
    }
}
