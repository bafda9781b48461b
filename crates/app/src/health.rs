//! Whether this node can do its work: the answer of `/health/ready`, for everybody, and why, for operators.
//!
//! Ready is a node whose database takes writes, whose workers run, whose clock is right, and that is not stopping. That the
//! schema is known was seen when the store was opened, and a program that meets another one later fails on its own.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::time::Clock;
use pix_http::{Readiness, Stopping};
use pix_settlement::Breaker;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::sealing::{SealStatus, Standing};
use crate::store::Store;
use crate::system::SystemClock;

/// How long what was found out of the database holds: so many health checks cost the same as one.
const HOLDS: Duration = Duration::from_secs(1);
/// How long the database may take to answer.
const DATABASE_DEADLINE: Duration = Duration::from_millis(1_500);

/// What the workers are called.
pub const RECONCILER: &str = "reconciler";
/// The one that sends postbacks.
pub const DELIVERER: &str = "deliverer";
/// The one that seals the books.
pub const SEALER: &str = "sealer";

/// Tells whether a worker is alive.
type Alive = Box<dyn Fn() -> bool + Send + Sync>;

/// What the database said last, and when.
type Said = Option<(Instant, Result<(), String>)>;

/// Looks after one node.
pub struct Health {
    store: Store,
    stopping: Stopping,
    workers: Mutex<Vec<(&'static str, Alive)>>,
    breaker: OnceLock<Arc<Breaker>>,
    seals: OnceLock<Arc<SealStatus>>,
    database: tokio::sync::Mutex<Said>,
}

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Whether it has been told to stop.
    pub stopping: bool,
    /// Why the database takes no writes, if it doesn't.
    pub database: Result<(), String>,
    /// The newest migration of the schema.
    pub schema: String,
    /// The workers, and whether each is alive. None while the node starts.
    pub workers: Vec<(&'static str, bool)>,
    /// Whether this machine's clock is right, as far as is known.
    pub clock: bool,
    /// How sealing stands; `None` where it is switched off.
    pub seals: Option<Standing>,
}

impl Condition {
    /// Whether requests can be served.
    pub fn is_ready(&self) -> bool {
        let working = !self.workers.is_empty() && self.workers.iter().all(|(_, alive)| *alive);
        !self.stopping && self.database.is_ok() && self.clock && working
    }

    /// As operators are told.
    pub fn as_json(&self) -> Value {
        let workers: serde_json::Map<_, _> =
            self.workers.iter().map(|(name, alive)| ((*name).to_owned(), json!(alive))).collect();
        json!({
            "status": if self.is_ready() { "ready" } else { "unavailable" },
            "stopping": self.stopping,
            "database": {"writable": self.database.is_ok(), "reason": self.database.as_ref().err()},
            "schema": self.schema,
            "clock": {"right": self.clock},
            "workers": workers,
            "seals": self.seals.map(|seals| json!({
                "differences": seals.differing,
                "lag_entries": seals.left,
                "age_s": SystemClock.now().since(seals.sealed_until).as_secs(),
            })),
        })
    }
}

impl Health {
    /// Of a node with this store, which is told to stop by `stopping`.
    pub fn new(store: Store, stopping: Stopping) -> Arc<Self> {
        Arc::new(Self {
            store,
            stopping,
            workers: Mutex::default(),
            breaker: OnceLock::new(),
            seals: OnceLock::new(),
            database: tokio::sync::Mutex::default(),
        })
    }

    /// From now on this worker must be alive.
    pub fn watch(&self, worker: &'static str, alive: impl Fn() -> bool + Send + Sync + 'static) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push((worker, Box::new(alive)));
    }

    /// The breaker before the provider; the first one that is told of.
    pub fn watch_breaker(&self, breaker: Arc<Breaker>) {
        drop(self.breaker.set(breaker));
    }

    /// How sealing stands; the first one that is told of.
    pub fn watch_seals(&self, status: Arc<SealStatus>) {
        drop(self.seals.set(status));
    }

    /// How sealing stands, where this node seals.
    pub fn seals(&self) -> Option<&SealStatus> {
        self.seals.get().map(Arc::as_ref)
    }

    /// The breaker before the provider.
    pub fn breaker(&self) -> Option<&Breaker> {
        self.breaker.get().map(Arc::as_ref)
    }

    /// The store.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// How it is.
    pub async fn condition(&self) -> Condition {
        let database = self.ask_database().await;
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        Condition {
            stopping: self.stopping.has_begun(),
            database,
            schema: self.store.vitals.schema_version().to_owned(),
            clock: SystemClock.is_right_for(Duration::ZERO),
            seals: self.seals().map(SealStatus::standing),
            workers: workers.iter().map(|(name, alive)| (*name, alive())).collect(),
        }
    }

    /// Those who ask at once wait for the one question.
    async fn ask_database(&self) -> Result<(), String> {
        let mut said = self.database.lock().await;
        if let Some((_, known)) = said.as_ref().filter(|(at, _)| at.elapsed() < HOLDS) {
            return known.clone();
        }
        let asked = timeout(DATABASE_DEADLINE, self.store.vitals.check_writable()).await;
        let known = match asked {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_late) => Err(format!("it did not answer within {} ms", DATABASE_DEADLINE.as_millis())),
        };
        let before = said.as_ref().is_none_or(|(_, before)| before.is_ok());
        match &known {
            Err(reason) if before => tracing::warn!(reason, "the database takes no writes: not ready"),
            Ok(()) if !before => tracing::info!("the database takes writes again"),
            _ => {}
        }
        *said = Some((Instant::now(), known.clone()));
        known
    }
}

#[async_trait]
impl Readiness for Health {
    async fn is_ready(&self) -> bool {
        self.condition().await.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use pix_persistence::sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_node_is_ready_while_its_workers_run_and_it_is_not_told_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
        let store = Store::of(SqliteStore::open(folder.path().join("pix.db"), options).unwrap());
        let stopping = Stopping::default();
        let health = Health::new(store, stopping.clone());
        assert!(!health.is_ready().await, "its workers have not begun");
        let (one, other) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        for (name, alive) in [("reconciler", one.clone()), ("deliverer", other)] {
            health.watch(name, move || alive.load(Ordering::Relaxed));
        }
        assert!(health.is_ready().await);
        let told = health.condition().await.as_json();
        assert_eq!((&told["status"], &told["database"]["writable"]), (&json!("ready"), &json!(true)));
        assert_eq!(told["workers"], json!({"reconciler": true, "deliverer": true}));
        one.store(false, Ordering::Relaxed);
        assert!(!health.is_ready().await);
        one.store(true, Ordering::Relaxed);
        stopping.begin();
        let told = health.condition().await.as_json();
        assert_eq!((&told["status"], &told["stopping"]), (&json!("unavailable"), &json!(true)));
    }
}
