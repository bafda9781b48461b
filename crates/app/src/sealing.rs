//! The worker that seals the books, and so audits them as they go on; at intervals of its own it runs the whole audit, and
//! once a day it signs a statement. It also puts personal data under the keys of its persons, and holds what has ended against
//! the provider once more, a step a minute each.
//!
//! Any number of nodes do this at once. Seals need no lease: where sealing stands is the newest seal, and who comes second
//! finds nothing left. A whole audit is one node's by a lease. A statement is each node's that has a key, one file a day.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use pix_domain::error::StoreError;
use pix_domain::ports::Ports;
use pix_domain::seals::service::{Sealer, Turn};
use pix_domain::time::{Clock, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::audited::Audited;
use crate::books::{self, SigningKey};
use crate::clocks;
use crate::commands::audit;
use crate::config::{BooksSettings, Config, PersonConfig, SealConfig};
use crate::locking;
use crate::proving::Proving;
use crate::store::Store;
use crate::system::SystemClock;

/// How often is looked whether an audit or a statement is due; what they are due by is longer.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

/// How long one node has for an audit, before another one runs it.
const AUDIT_LEASE: Duration = Duration::from_hours(1);

/// The name of the fact that says until when an audit is a node's.
const LEASE_FACT: &str = "audit_lease";

/// What the last turn of this node left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// When the last turn began that left nothing, or when the worker started: all that was written before is sealed.
    pub sealed_until: Timestamp,
    /// How many entries the last turn left.
    pub left: u64,
    /// In how many books it found a contradiction.
    pub differing: u64,
}

/// How sealing stands, as this node knows it.
#[derive(Debug)]
pub struct SealStatus {
    standing: Mutex<Standing>,
    sealed: AtomicU64,
}

impl SealStatus {
    fn new(now: Timestamp) -> Self {
        let standing = Standing { sealed_until: now, left: 0, differing: 0 };
        Self { standing: Mutex::new(standing), sealed: AtomicU64::new(0) }
    }

    /// What the last turn left.
    pub fn standing(&self) -> Standing {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many entries this node has sealed since it started.
    pub fn sealed(&self) -> u64 {
        self.sealed.load(Ordering::Relaxed)
    }

    fn turned(&self, begun: Timestamp, turn: &Turn) {
        self.sealed.fetch_add(turn.entries, Ordering::Relaxed);
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if turn.behind == 0 && turn.differing == 0 {
            standing.sealed_until = begun;
        }
        (standing.left, standing.differing) = (turn.left, turn.differing);
    }
}

/// The worker, running.
pub struct Sealing {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    status: Option<Arc<SealStatus>>,
}

/// What it works with.
struct Desk {
    store: Store,
    sealer: Sealer,
    config: SealConfig,
    people: PersonConfig,
    status: Arc<SealStatus>,
    proving: Proving,
    books: Option<(BooksSettings, SigningKey, String)>,
}

impl Sealing {
    /// Starts it, with a turn at once. Refuses a key of statements that can't be read.
    pub fn start(store: &Store, ports: &Ports, config: &Config) -> anyhow::Result<Self> {
        let books = match &config.books {
            Some(settings) => {
                let key = SigningKey::read(&settings.key_file).context("PIX_BOOKS_KEY_FILE can't be used")?;
                Some((settings.clone(), key, config.public_url.clone()))
            }
            None => None,
        };
        let (stop, stopped) = watch::channel(false);
        let status = Arc::new(SealStatus::new(SystemClock.now()));
        let desk = Desk {
            store: store.clone(),
            sealer: Sealer::new(store.seals.clone(), Arc::new(SystemClock)),
            config: config.seals,
            people: config.people,
            status: status.clone(),
            proving: Proving::new(store, ports, config.proofs.clone()),
            books,
        };
        let status = config.seals.interval.map(|_| status);
        Ok(Self { stop, task: tokio::spawn(desk.run(stopped)), status })
    }

    /// Tells whether it still runs, for as long as that is asked.
    pub fn watch(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let task = self.task.abort_handle();
        move || !task.is_finished()
    }

    /// How sealing stands; `None` when this node doesn't seal.
    pub fn status(&self) -> Option<Arc<SealStatus>> {
        self.status.clone()
    }

    /// Ends. What is being read is given up, and what is sealed stays so.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

impl Desk {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let (mut turn_at, mut look_at) = (Instant::now(), Instant::now());
        while !*stopped.borrow() {
            let next = self.config.interval.map_or(look_at, |_| turn_at.min(look_at));
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                _ = stopped.changed() => return,
            }
            let work = async {
                if let Some(interval) = self.config.interval.filter(|_| Instant::now() >= turn_at) {
                    turn_at = Instant::now() + interval;
                    self.turn().await;
                }
                if Instant::now() >= look_at {
                    look_at = Instant::now() + LOOK_INTERVAL;
                    self.look().await;
                }
            };
            tokio::select! {
                () = work => {}
                _ = stopped.changed() => return,
            }
        }
    }

    async fn turn(&self) {
        let begun = SystemClock.now();
        match self.sealer.turn(self.config.entries).await {
            Ok(turn) => {
                tell(&turn);
                self.status.turned(begun, &turn);
            }
            Err(error) => tracing::warn!(%error, "the books can't be sealed; it is tried again"),
        }
    }

    async fn look(&self) {
        // By a clock that isn't right all of this would be too early, and a statement of another day.
        if !SystemClock.is_right_for(Duration::ZERO) {
            return;
        }
        if let Some(interval) = self.config.audit_interval
            && let Err(error) = self.audit(interval).await
        {
            tracing::warn!(error = format!("{error:#}"), "the books can't be audited; it is tried again");
        }
        if self.people.lock_records > 0
            && let Err(error) = locking::step(&self.store, self.people, SystemClock.now()).await
        {
            tracing::warn!(%error, "personal data can't be put under its keys; it is tried again");
        }
        if let Err(error) = self.proving.step(SystemClock.now()).await {
            tracing::warn!(%error, "what has ended can't be held against the provider; it is tried again");
        }
        if let Some((settings, key, url)) = &self.books
            && let provider = self.proving.provider()
            && let Err(error) = books::write_todays(&self.store, url, key, &settings.folder, provider).await
        {
            tracing::warn!(error = format!("{error:#}"), "the books can't be signed; it is tried again");
        }
    }

    /// Runs the whole audit when the newest one is older than `interval` and no other node is at it.
    async fn audit(&self, interval: Duration) -> anyhow::Result<()> {
        let last = Audited::last(&self.store).await?;
        let now = SystemClock.now();
        if last.is_some_and(|last| is_recent(last.at, now, interval)) || !take_lease(&self.store, now).await?
        {
            return Ok(());
        }
        let report = audit::audit(&self.store, None).await?;
        let audited = report.audited();
        if audited.clean {
            tracing::info!("the books were audited and are right");
        } else {
            let differences = audited.differences;
            tracing::error!(differences, "THE BOOKS ARE WRONG: run `pix-gateway audit`");
        }
        Ok(audited.keep(&self.store).await?)
    }
}

/// Whether there need be no audit yet. One of a time that is still to come was of a clock gone wrong.
fn is_recent(last: Timestamp, now: Timestamp, interval: Duration) -> bool {
    last <= now.plus(AUDIT_LEASE) && now.since(last) < interval
}

/// Takes the audit for this node; `false` when it is another's.
async fn take_lease(store: &Store, now: Timestamp) -> Result<bool, StoreError> {
    let kept = store.facts.fact(LEASE_FACT).await?;
    let until = kept.as_deref().and_then(|micros| micros.parse().ok()).map(Timestamp::from_micros);
    if until.is_some_and(|until| clocks::is_held(until, now, AUDIT_LEASE)) {
        return Ok(false);
    }
    let mine = now.plus(AUDIT_LEASE).micros().to_string();
    store.facts.swap_fact(LEASE_FACT, kept, mine).await
}

/// Says what a turn found.
pub fn tell(turn: &Turn) {
    for found in &turn.found {
        let (integrator, code) = (found.integrator_id, found.fault.code());
        let (seal, from, to) = (found.seal, found.from, found.to);
        tracing::error!(%integrator, seal, from, to, code, "a book contradicts itself, and is not sealed: {}", found.fault);
    }
    for ended in &turn.ended {
        let integrator = ended.integrator_id;
        tracing::warn!(%integrator, code = ended.code, "a book no longer contradicts itself, and is sealed again");
    }
    if turn.entries > 0 {
        tracing::debug!(seals = turn.seals, entries = turn.entries, left = turn.left, "books were sealed");
    }
}

#[cfg(test)]
mod tests {
    use pix_persistence::sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_audit_is_one_nodes_until_its_lease_ends() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
        let store = Store::of(SqliteStore::open(folder.path().join("pix.db"), options).unwrap());
        let now = Timestamp::from_micros(1_000_000);
        assert_eq!(take_lease(&store, now).await, Ok(true));
        assert_eq!(take_lease(&store, now).await, Ok(false));
        let later = now.plus(AUDIT_LEASE);
        let kept = store.facts.fact(LEASE_FACT).await.unwrap();
        assert_eq!(take_lease(&store, later).await, Ok(true));
        let year = later.plus(Duration::from_hours(24 * 365)).micros().to_string();
        store.facts.keep_fact(LEASE_FACT, year).await.unwrap();
        assert_eq!(
            take_lease(&store, later).await,
            Ok(true),
            "nobody waits for a clock that was a year ahead"
        );
        assert_eq!(take_lease(&store, later).await, Ok(false));
        // Who saw what the other one saw comes second.
        assert_eq!(store.facts.swap_fact(LEASE_FACT, kept, "0".into()).await, Ok(false));
        assert_eq!(store.facts.swap_fact(LEASE_FACT, None, "0".into()).await, Ok(false));
    }

    #[test]
    fn an_audit_of_a_time_to_come_is_none() {
        let (now, hour) = (Timestamp::from_micros(1_768_478_400_000_000), Duration::from_hours(1));
        assert!(is_recent(now, now, hour));
        assert!(
            is_recent(now.plus(Duration::from_secs(1)), now, hour),
            "clocks of two nodes are not the same"
        );
        assert!(!is_recent(now.minus(hour), now, hour));
        assert!(!is_recent(now.plus(hour * 24), now, hour));
    }

    #[test]
    fn what_was_written_before_a_turn_that_left_nothing_is_sealed() {
        let at = Timestamp::from_micros;
        let status = SealStatus::new(at(1));
        status.turned(at(5), &Turn { entries: 3, ..Turn::default() });
        assert_eq!((status.standing().sealed_until, status.sealed()), (at(5), 3));
        status.turned(at(9), &Turn { entries: 3, left: 7, behind: 1, ..Turn::default() });
        assert_eq!(status.standing(), Standing { sealed_until: at(5), left: 7, differing: 0 });
        status.turned(at(12), &Turn { differing: 1, ..Turn::default() });
        assert_eq!(status.standing(), Standing { sealed_until: at(5), left: 0, differing: 1 });
    }
}
