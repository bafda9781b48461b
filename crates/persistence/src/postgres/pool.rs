//! The pools of connections, and what every connection is told.
//!
//! Three pools, so that none starves another: *money* for transitions and settings, *reads*, and *workers* for the list
//! of what is due and for callbacks, of which anybody may send a flood. No connection is held while anything but the
//! database is waited for.
//!
//! Connections are made, and driven, on the runtime that opened the store, whichever runtime asks for them. One whose
//! server owes an answer, or the rest of one, for longer than it could work on it is ended: the line, or the server, hangs.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use diesel::connection::{Instrumentation, InstrumentationEvent};
use diesel_async::pooled_connection::PoolableConnection;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use pix_domain::error::StoreError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, interval, timeout};
use tokio_postgres::Config;

use super::error::DbError;
use super::open::{OpenError, Target, check_durability, each_host};
use crate::vitals::PoolUse;

/// A connection out of a pool. It goes back when it is dropped.
pub struct Conn {
    /// Dropped before it goes back.
    held: Held,
    object: Object<Manager>,
}

impl Conn {
    fn of(object: Object<Manager>) -> Self {
        Self { held: Held(object.asked.clone()), object }
    }

    /// The connection, which doesn't go back.
    pub fn take(conn: Self) -> Box<Session> {
        Object::take(conn.object)
    }

    /// What is read over it may take any time once the server has begun to answer: it is much, and worked on as it comes.
    pub fn reads_much(&self) {
        self.held.0.set(|of| of.reads_much = true);
    }
}

impl Deref for Conn {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.object
    }
}

impl DerefMut for Conn {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.object
    }
}

/// While somebody holds a connection, its server owes an answer from each question on: that of a query isn't known to be
/// there in full before. Who goes away before an answer begins leaves it owed.
struct Held(Asked);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set(|of| *of = Owed { since: of.since.filter(|_| !of.has_begun), ..Owed::default() });
    }
}

/// How long an idle connection may be silent before the kernel asks whether the other end is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// How often in the time for an answer it is looked whether that time is over.
const LOOKS: u32 = 8;
/// How long making a connection may take when nothing else is said.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// What a pool is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Transitions and settings.
    Money,
    /// Reads.
    Reads,
    /// The list of what is due, and callbacks.
    Workers,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Money => "money",
            Self::Reads => "reads",
            Self::Workers => "workers",
        }
    }

    /// Whether a crash that forgets what was written over such a connection could lose money.
    const fn writes(self) -> bool {
        match self {
            Self::Money | Self::Workers => true,
            Self::Reads => false,
        }
    }

    /// What a connection for this is told before its first use.
    ///
    /// Every statement of the money pool finds its rows by key, so its plan is one: nested loops over indexes, made once
    /// and never by what the tables' statistics say today. The workers' find theirs by key or in the order of an index;
    /// their tables fill and empty all day, so the statistics are wrong most of the time. Nor is the plan one for the
    /// values at hand: of an integrator that the statistics don't know yet, all its rows look as few as one.
    fn settings(self, statement_timeout: Duration, flush: Option<&str>) -> String {
        let timeout = statement_timeout.as_millis();
        let common = format!(
            "SET statement_timeout = {timeout}; SET lock_timeout = {timeout}; \
             SET idle_in_transaction_session_timeout = {timeout}; SET jit = off; \
             SET default_transaction_isolation = 'read committed'"
        );
        let common = match flush {
            Some(value) => format!("{common}; SET synchronous_commit = '{value}'"),
            None => common,
        };
        match self {
            Self::Money | Self::Workers => format!(
                "{common}; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                 SET enable_hashjoin = off; SET enable_mergejoin = off"
            ),
            Self::Reads => common,
        }
    }
}

/// One connection, and the name its server knows it by.
///
/// Nobody else has that name. As long as the server lists it, what was sent there may still happen.
pub struct Session {
    conn: AsyncPgConnection,
    name: String,
    ages: Ages,
    asked: Asked,
    /// Ends the driving of the connection when this is dropped.
    _driven: oneshot::Sender<()>,
}

impl Session {
    /// Its `application_name`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Deref for Session {
    type Target = AsyncPgConnection;

    fn deref(&self) -> &AsyncPgConnection {
        &self.conn
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut AsyncPgConnection {
        &mut self.conn
    }
}

/// What the pools of one store know of its servers together.
#[derive(Debug, Clone, Default)]
pub struct Servers(Arc<Known>);

/// What a connection is as old as.
#[derive(Debug, Clone, Copy)]
struct Ages {
    era: u64,
    trust: u64,
}

impl Servers {
    fn ages(&self) -> Ages {
        Ages { era: self.0.era.load(Ordering::SeqCst), trust: self.0.trust.load(Ordering::SeqCst) }
    }

    /// Nothing is written any more over connections that are as old: their server could forget it.
    fn distrust(&self, ages: Ages) {
        let next = ages.trust.wrapping_add(1);
        // Another one may have said so before.
        let _ = self.0.trust.compare_exchange(ages.trust, next, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Ends the era of a connection to the wrong server. It was ended before where this is `false`, by another one: what
    /// was made since is not as old.
    fn leave(&self, era: u64) -> bool {
        let next = era.wrapping_add(1);
        let left = self.0.era.compare_exchange(era, next, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if left {
            self.0.host.store(0, Ordering::SeqCst);
        }
        left
    }
}

#[derive(Debug, Default)]
struct Known {
    /// How often a server was met that takes no writes: connections that were made before lead to the wrong one.
    era: AtomicU64,
    /// How often a server was met that could forget what it commits: connections that were made before write no more.
    trust: AtomicU64,
    /// The host that gave the last connection: the next one is asked for there first.
    host: AtomicUsize,
}

/// Makes the connections of one pool.
pub struct Manager {
    target: Target,
    purpose: Purpose,
    statement_timeout: Duration,
    servers: Servers,
    runtime: Handle,
}

impl managed::Manager for Manager {
    /// Elsewhere, so that going to and fro doesn't copy all of it.
    type Type = Box<Session>;
    type Error = String;

    async fn create(&self) -> Result<Box<Session>, String> {
        let (target, purpose, servers) = (self.target.clone(), self.purpose, self.servers.clone());
        let made = self.runtime.spawn(connect(target, purpose, self.statement_timeout, servers)).await;
        made.map_err(|error| error.to_string()).flatten().map(Box::new)
    }

    async fn recycle(&self, session: &mut Box<Session>, _: &Metrics) -> RecycleResult<String> {
        if session.conn.is_broken() {
            return Err(RecycleError::message("the connection is broken"));
        }
        let now = self.servers.ages();
        if session.ages.era != now.era {
            return Err(RecycleError::message("the server is no longer the one that writes"));
        }
        if self.purpose.writes() && session.ages.trust != now.trust {
            return Err(RecycleError::message("the server could forget what it commits"));
        }
        Ok(())
    }
}

/// One pool.
#[derive(Clone)]
pub struct Connections {
    purpose: Purpose,
    pool: Pool<Manager>,
    servers: Servers,
    answer_timeout: Duration,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("purpose", &self.purpose)
            .field("pool", &self.pool.status())
            .field("servers", &self.servers)
            .field("answer_timeout", &self.answer_timeout)
            .finish()
    }
}

/// How a pool is made.
#[derive(Debug, Clone, Copy)]
pub struct PoolSettings {
    /// At most so many connections.
    pub size: usize,
    /// How long a caller waits for one.
    pub acquire_timeout: Duration,
    /// How long the server may work on one statement.
    pub statement_timeout: Duration,
}

impl Connections {
    /// A pool of connections to `target`. None is made before it is needed.
    pub fn new(
        purpose: Purpose,
        mut target: Target,
        settings: PoolSettings,
        servers: Servers,
        runtime: Handle,
    ) -> Result<Self, String> {
        target.config.keepalives(true).keepalives_idle(KEEPALIVE_IDLE);
        // The kernel gives up on what the other end doesn't acknowledge.
        target.config.tcp_user_timeout(answer_timeout(settings.statement_timeout));
        let statement_timeout = settings.statement_timeout;
        let manager = Manager { target, purpose, statement_timeout, servers: servers.clone(), runtime };
        let pool = Pool::builder(manager)
            .max_size(settings.size.max(1))
            .wait_timeout(Some(settings.acquire_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { purpose, pool, servers, answer_timeout: answer_timeout(statement_timeout) })
    }

    /// How long is waited for a whole answer.
    pub const fn answer_timeout(&self) -> Duration {
        self.answer_timeout
    }

    /// A connection.
    pub async fn get(&self) -> Result<Conn, StoreError> {
        Ok(self.lease().await?)
    }

    /// The same, for whoever tells errors of the database apart.
    pub async fn lease(&self) -> Result<Conn, DbError> {
        self.pool.get().await.map(Conn::of).map_err(|error| {
            DbError::Unavailable(match error {
                PoolError::Timeout(_) => format!("all connections for {} are busy", self.purpose.as_str()),
                PoolError::Backend(why) => format!("no connection to PostgreSQL: {why}"),
                other => other.to_string(),
            })
        })
    }

    /// The result of a write on one of its connections. When the server is no longer the one that writes, nobody goes there
    /// again.
    pub fn wrote<T>(&self, conn: Conn, done: Result<T, DbError>) -> Result<T, DbError> {
        if matches!(done, Err(DbError::ReadOnly(_))) {
            self.forget(&Conn::take(conn));
        }
        done
    }

    /// What was read over one of its connections within [`answer_timeout`](Self::answer_timeout), where others wait for it. An
    /// answer that stopped halfway is given up, with its connection.
    pub fn whole<T>(
        &self,
        conn: Conn,
        read: Result<Result<T, StoreError>, Elapsed>,
    ) -> Result<T, StoreError> {
        read.unwrap_or_else(|_elapsed| {
            drop(Conn::take(conn));
            let limit = self.answer_timeout.as_millis();
            Err(StoreError::Unavailable(format!("no whole answer within {limit} ms")))
        })
    }

    /// How it is used.
    pub fn pool_use(&self) -> PoolUse {
        PoolUse::of(self.purpose.as_str(), &self.pool.status())
    }

    /// Nobody uses a connection again that is as old as this one, of this pool and of the store's others: they lead to a
    /// server that is no longer the right one. It is looked for anew, from the first host on.
    pub fn forget(&self, session: &Session) {
        if self.servers.leave(session.ages.era) {
            self.pool.retain(|_, _| false);
        }
    }
}

/// How long is waited for an answer: the server itself gives up long before, so beyond this the line is dead.
pub const fn answer_timeout(statement_timeout: Duration) -> Duration {
    statement_timeout.saturating_mul(2)
}

/// Makes a connection to the host that gave the last one, else to the others in their order.
async fn connect(
    target: Target,
    purpose: Purpose,
    statement_timeout: Duration,
    servers: Servers,
) -> Result<Session, String> {
    // The library's own limit ends when the other end has taken the connection.
    let limit = target.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
    let ages = servers.ages();
    let mut hosts: Vec<(usize, Config)> = each_host(&target.config).into_iter().enumerate().collect();
    let first = servers.0.host.load(Ordering::SeqCst);
    hosts.sort_by_key(|(place, _)| *place != first);
    let mut refused = Refused::from(String::new());
    for (place, config) in hosts {
        let one = Target { config, connector: target.connector.clone() };
        match timeout(limit, establish(one, purpose, statement_timeout, ages)).await {
            Ok(Ok(session)) => {
                servers.0.host.store(place, Ordering::SeqCst);
                return Ok(session);
            }
            // What a weak server is refused for is told, whatever the others say.
            Ok(Err(again)) if !refused.is_weak || again.is_weak => refused = again,
            Err(_elapsed) if !refused.is_weak => {
                refused = format!("no connection within {} ms", limit.as_millis()).into();
            }
            Ok(Err(_)) | Err(_) => {}
        }
    }
    if refused.is_weak {
        servers.distrust(ages);
    }
    Err(refused.why)
}

/// Why there is no connection.
struct Refused {
    why: String,
    /// Because the server could forget a commit.
    is_weak: bool,
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self { why, is_weak: false }
    }
}

async fn establish(
    target: Target,
    purpose: Purpose,
    statement_timeout: Duration,
    ages: Ages,
) -> Result<Session, Refused> {
    let mut number = [0_u8; 8];
    getrandom::fill(&mut number).map_err(|error| error.to_string())?;
    let name = format!("pix-gateway {} {:016x}", purpose.as_str(), u64::from_be_bytes(number));
    let Target { config, connector } = target;
    let connected = Box::pin(config.connect(connector)).await;
    let (client, connection) = connected.map_err(|error| describe(&error))?;
    let asked = Asked::default();
    let (driven, dropped) = oneshot::channel();
    tokio::spawn(drive(connection, asked.clone(), answer_timeout(statement_timeout), dropped));
    let flush = if purpose.writes() {
        let checked = check_durability(&config, &client).await;
        Some(checked.map_err(|error| Refused {
            is_weak: matches!(error, OpenError::NotDurable { .. }),
            why: error.to_string(),
        })?)
    } else {
        None
    };
    let mut conn = AsyncPgConnection::try_from(client).await.map_err(|error| error.to_string())?;
    conn.set_instrumentation(asked.clone());
    let told =
        format!("{}; SET application_name = '{name}'", purpose.settings(statement_timeout, flush.as_deref()));
    conn.batch_execute(&told).await.map_err(|error| error.to_string())?;
    // Nobody holds it yet.
    drop(Held(asked.clone()));
    Ok(Session { conn, name, ages, asked, _driven: driven })
}

/// What a server owes.
#[derive(Debug, Clone, Default)]
struct Asked(Arc<Mutex<Owed>>);

#[derive(Debug, Clone, Copy, Default)]
struct Owed {
    /// Since when it owes an answer.
    since: Option<Instant>,
    /// Whether that answer has begun.
    has_begun: bool,
    /// Whether one that has begun is waited for without an end.
    reads_much: bool,
}

impl Asked {
    fn set(&self, change: impl FnOnce(&mut Owed)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn since(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).since
    }
}

impl Instrumentation for Asked {
    /// A query that is "finished" has an answer that has begun: the server sends what it has before it commits, and the rest
    /// may never come.
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        match event {
            InstrumentationEvent::StartQuery { .. } => {
                self.set(|of| *of = Owed { since: Some(Instant::now()), has_begun: false, ..*of });
            }
            InstrumentationEvent::FinishQuery { .. } => self.set(|of| {
                *of = Owed { since: (!of.reads_much).then(Instant::now), has_begun: true, ..*of };
            }),
            _ => {}
        }
    }
}

/// Drives a connection until it ends, nobody wants it any more, or an answer is overdue.
async fn drive(
    connection: impl Future<Output = Result<(), tokio_postgres::Error>>,
    asked: Asked,
    limit: Duration,
    mut dropped: oneshot::Receiver<()>,
) {
    let mut connection = std::pin::pin!(connection);
    let mut look = interval((limit / LOOKS).max(Duration::from_millis(1)));
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(error = %describe(&error), "a connection ended");
                }
                return;
            }
            _ = &mut dropped => return,
            _ = look.tick() => {
                if asked.since().is_some_and(|since| since.elapsed() > limit) {
                    return;
                }
            }
        }
    }
}

/// The error with its causes; without values, which only a server's details have.
pub fn describe(error: &tokio_postgres::Error) -> String {
    let mut text = match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    };
    let mut cause = std::error::Error::source(error).filter(|_| error.as_db_error().is_none());
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_away_before_an_answer_begins_leaves_it_owed() {
        for has_begun in [false, true] {
            let asked = Asked::default();
            let held = Held(asked.clone());
            asked.set(|of| *of = Owed { since: Some(Instant::now()), has_begun, reads_much: true });
            drop(held);
            assert_eq!(asked.since().is_some(), !has_begun);
            asked.set(|of| assert!(!of.reads_much, "for whoever held it alone"));
        }
    }

    #[test]
    fn an_era_ends_once() {
        let servers = Servers::default();
        servers.0.host.store(2, Ordering::SeqCst);
        assert!(servers.leave(0));
        assert_eq!(servers.0.host.load(Ordering::SeqCst), 0, "the first host is asked first again");
        // A connection to another host was made since; a second of the old ones says the same as the first.
        servers.0.host.store(1, Ordering::SeqCst);
        assert!(!servers.leave(0));
        assert_eq!(servers.0.era.load(Ordering::SeqCst), 1);
        assert_eq!(servers.0.host.load(Ordering::SeqCst), 1);
        assert!(servers.leave(1));
    }
}
