//! The embedded store: one SQLite file, in WAL mode, durable at every commit (`synchronous=FULL`).
//!
//! | Module | Room |
//! |---|---|
//! | `open` | looking at a file before it is used; migrations |
//! | `connection` | the settings of every connection |
//! | `writer` | the one thread that writes, and how it gathers commits |
//! | `reader` | the pool that reads |
//! | `apply` | a transition as statements |
//! | `charges`, `withdrawals`, `refunds`, `books`, `evidence`, `follow_ups`, `callbacks`, `audit_log`, `seals`, `settings` | the ports |
//! | `vitals` | what operators are told |
//!
//! **Writes** go through one connection on a thread of its own: it takes whatever is waiting, runs each command in a
//! savepoint, commits once and answers everybody. SQLite has one writer anyway; gathering makes the price of a durable
//! commit be paid once a group. Other processes may write the same file at the same time.
//!
//! **Reads** go to a small pool of connections that can't write. They see everything that was answered before.
//!
//! Lookups of one row use `get_result`, never `first`: that one binds its `LIMIT 1`, and SQLite prepares a statement with a
//! bound `LIMIT` anew at every run.
//!
//! After the disk has failed to make a commit durable nobody knows what a crash would leave, so the store closes for good:
//! the program has to be restarted, and what SQLite then finds in the file is the truth.

mod apply;
mod audit_log;
mod backup;
mod books;
mod callbacks;
mod charges;
mod connection;
mod error;
mod evidence;
mod facts;
mod follow_ups;
mod limits;
mod open;
mod page;
mod people;
mod postbacks;
mod reader;
mod refunds;
mod seals;
mod settings;
mod splits;
mod types;
mod update;
mod vitals;
mod withdrawals;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diesel::sqlite::SqliteConnection;
use pix_domain::error::StoreError;

pub use connection::{BUSY_TIMEOUT_MS, SYNCHRONOUS_FULL};
use error::Problem;
pub use open::OpenError;
use reader::Reader;
use writer::{Health, Writer};
pub use writer::{MAX_GROUP, QUEUE_CAPACITY};

/// How many connections read, by default.
pub const DEFAULT_READERS: usize = 4;

/// How long a read waits for a free connection, by default.
pub const DEFAULT_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a write waits for a place in a full queue, by default.
pub const DEFAULT_QUEUE_WAIT: Duration = Duration::from_secs(1);

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Whether to create the file and run pending migrations; without, both are refused.
    pub migrate: bool,
    /// How many connections read.
    pub readers: usize,
    /// How long a read waits for a free connection.
    pub acquire_timeout: Duration,
    /// How long a write waits for a place in a full queue.
    pub queue_wait: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            migrate: false,
            readers: DEFAULT_READERS,
            acquire_timeout: DEFAULT_ACQUIRE_TIMEOUT,
            queue_wait: DEFAULT_QUEUE_WAIT,
        }
    }
}

/// Everything in one SQLite file.
///
/// Dropping it ends its writer, after what was already handed over is written.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    schema_version: String,
    writer: Writer,
    reader: Reader,
}

impl SqliteStore {
    /// Opens the store in the file `path`. Has to be called in a tokio runtime with timers on: reads are run there,
    /// whichever runtime asks for them.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, OpenError> {
        let runtime =
            tokio::runtime::Handle::try_current().map_err(|error| OpenError::NoRuntime(error.to_string()))?;
        let path = open::absolute(path.as_ref())?;
        if options.migrate {
            open::migrate(&path)?;
        }
        let (first, schema_version) = open::ready(&path)?;
        let health = Arc::new(Health::default());
        let url = open::url(&path)?;
        let reader = Reader::new(url.clone(), &options, runtime, health.clone())
            .map_err(|reason| OpenError::Failed { path: path.clone(), reason })?;
        let connect = move || connection::writer(&url);
        let writer = Writer::start(first, connect, connection::commit, health, options.queue_wait)
            .map_err(|error| OpenError::Failed { path: path.clone(), reason: error.to_string() })?;
        Ok(Self { path, schema_version, writer, reader })
    }

    /// Creates the file when there is none and runs its pending migrations; their names.
    pub fn migrate(path: impl AsRef<Path>) -> Result<Vec<String>, OpenError> {
        open::migrate(&open::absolute(path.as_ref())?)
    }

    /// The names of the migrations that the file still needs; all of them when there is no file.
    pub fn pending_migrations(path: impl AsRef<Path>) -> Result<Vec<String>, OpenError> {
        open::pending(&open::absolute(path.as_ref())?)
    }

    /// The file, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest migration the file had when it was opened.
    pub fn schema_version(&self) -> &str {
        &self.schema_version
    }

    /// Runs `work` on a connection that can't write.
    async fn read<T>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
    {
        self.reader.read(work).await
    }

    /// Runs `work` in the writer; all that it wrote is durable when this is `Ok`.
    async fn write<T, E>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> Result<T, Problem<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.writer.write(work).await
    }
}
