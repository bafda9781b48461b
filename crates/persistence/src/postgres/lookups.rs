//! Looking records up by their ids, many in one query.
//!
//! A lookup costs the server little and its way there and back much: two system calls and a change of process at each
//! end. So lookups share their way, as transitions do: nobody waits on an idle store, a lone lookup goes at once. While
//! a query is at the database, whoever comes waits in line, and the next query takes all of the line. A further query goes
//! beside it when it is worth its cost, or somebody has waited for long.
//!
//! What one lookup finds is its own, whoever shares its query: the query has the integrator of each beside the id, what
//! it finds is handed out by both, and a record that can't be read is the error of those alone who asked for it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use diesel::dsl::{AsSelect, SqlTypeOf};
use diesel::pg::{Pg, PgQueryBuilder};
use diesel::query_builder::{AstPass, Query, QueryBuilder, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::Array;
use diesel::{Selectable, SelectableHelper};
use diesel_async::AsyncPgConnection;
use pix_domain::charges::Charge;
use pix_domain::error::StoreError;
use pix_domain::withdrawals::Withdrawal;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::ask::Ask;
use super::error::Of;
use super::people::opened_each;
use super::pool::Connections;
use crate::codec::{DbId, Id};
use crate::rows::{ChargeRow, Personal, WithdrawalRow};

/// The most lookups of one query.
const MAX_LOOKUPS: usize = 256;
/// The most lookups in line; the next one is told that the store is busy.
const MAX_WAITING: usize = 16_384;

/// A further query beside those that are at the database has at least so many lookups: two small ones at once cost the server
/// more than they bring, and one at a time leaves it idle while its answer is read. Measured: 0032 in `docs/adr`.
const WORTH_A_QUERY: usize = 4;
/// How long those in line wait for a query at the database to be done, when they are not worth one of their own.
const PATIENCE: Duration = Duration::from_millis(5);

/// Whose record and which.
type Key = (DbId, DbId);

/// A record that is looked up by its owner and id.
#[async_trait]
pub trait Kept: Personal + Sized + Send + 'static {
    /// What it is to the domain.
    type Record: TryFrom<Self, Error = StoreError> + Clone + Send + 'static;
    /// Its table.
    const TABLE: &'static str;

    /// Whose it is and which.
    fn key(&self) -> Key;

    /// Those of the `ids` that are there, each of the owner in the same place.
    async fn load(conn: &mut AsyncPgConnection, owners: Vec<DbId>, ids: Vec<DbId>) -> QueryResult<Vec<Self>>;
}

/// The rows of some keys.
struct ByKeys<R: Selectable<Pg>> {
    owners: Vec<DbId>,
    ids: Vec<DbId>,
    columns: AsSelect<R, Pg>,
}

macro_rules! kept {
    ($row:ident, $record:ident, $table:literal) => {
        #[async_trait]
        impl Kept for $row {
            type Record = $record;
            const TABLE: &'static str = $table;

            fn key(&self) -> Key {
                (self.integrator_id, self.id)
            }

            async fn load(
                conn: &mut AsyncPgConnection,
                owners: Vec<DbId>,
                ids: Vec<DbId>,
            ) -> QueryResult<Vec<Self>> {
                ByKeys { owners, ids, columns: Self::as_select() }.rows(conn).await
            }
        }

        impl Query for ByKeys<$row> {
            type SqlType = SqlTypeOf<AsSelect<$row, Pg>>;
        }

        impl ByKeys<$row> {
            /// The columns as they stand in the query: written once, they are the same in each.
            fn columns(&self) -> QueryResult<&'static str> {
                static WRITTEN: OnceLock<String> = OnceLock::new();
                if let Some(written) = WRITTEN.get() {
                    return Ok(written);
                }
                let mut writing = PgQueryBuilder::default();
                self.columns.to_sql(&mut writing, &Pg)?;
                Ok(WRITTEN.get_or_init(|| writing.finish()))
            }
        }

        impl QueryFragment<Pg> for ByKeys<$row> {
            /// A key at a time, by the primary key: a subquery with a limit isn't flattened into a join. That the arrays
            /// come out of subqueries keeps their lengths from the planner, so that it has no reason to plan again for
            /// each length.
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
                out.push_sql("SELECT found.* FROM unnest((SELECT ");
                out.push_bind_param::<Array<Id>, _>(&self.owners)?;
                out.push_sql("), (SELECT ");
                out.push_bind_param::<Array<Id>, _>(&self.ids)?;
                out.push_sql(")) AS wanted(integrator_id, id), LATERAL (SELECT ");
                out.push_sql(self.columns()?);
                out.push_sql(concat!(" FROM ", $table, " WHERE ", $table));
                out.push_sql(concat!(".integrator_id = wanted.integrator_id AND ", $table));
                out.push_sql(".id = wanted.id LIMIT 1) AS found");
                Ok(())
            }
        }

        impl QueryId for ByKeys<$row> {
            type QueryId = Self;

            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for ByKeys<$row> {}
    };
}

kept!(ChargeRow, Charge, "charges");
kept!(WithdrawalRow, Withdrawal, "withdrawals");

/// What one lookup found.
type Found<T> = Result<Option<T>, StoreError>;

/// The lookups of one kind of record.
pub struct Lookups<R: Kept> {
    shared: Arc<Shared<R>>,
}

impl<R: Kept> fmt::Debug for Lookups<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").field("table", &R::TABLE).finish_non_exhaustive()
    }
}

/// How lookups share queries.
#[derive(Debug, Clone, Copy)]
pub struct Sharing {
    /// At most so many queries at once.
    pub at_once: usize,
    /// The longest time in line.
    pub longest_wait: Duration,
}

struct Shared<R: Kept> {
    reads: Connections,
    sharing: Sharing,
    runtime: Handle,
    line: Mutex<Line<R>>,
}

struct Line<R: Kept> {
    waiting: VecDeque<Waiting<R>>,
    /// How many have come.
    came: u64,
    /// How many queries are at the database, or about to be.
    queries: usize,
}

struct Waiting<R: Kept> {
    number: u64,
    key: Key,
    answer: oneshot::Sender<Found<R::Record>>,
}

impl<R: Kept> Lookups<R> {
    /// Lookups over these connections; their queries run on `runtime`.
    pub fn new(reads: Connections, sharing: Sharing, runtime: Handle) -> Self {
        let line = Mutex::new(Line { waiting: VecDeque::new(), came: 0, queries: 0 });
        let sharing = Sharing { at_once: sharing.at_once.max(1), ..sharing };
        Self { shared: Arc::new(Shared { reads, sharing, runtime, line }) }
    }

    /// Looks one up, with whoever is in line.
    pub async fn find(&self, owner: DbId, id: DbId) -> Found<R::Record> {
        let (answer, mut answered) = oneshot::channel();
        let (number, turn) = {
            let mut line = self.shared.line();
            if line.waiting.len() >= MAX_WAITING {
                return Err(StoreError::Unavailable("too many lookups are waiting".to_owned()));
            }
            let number = line.came;
            line.came = line.came.wrapping_add(1);
            line.waiting.push_back(Waiting { number, key: (owner, id), answer });
            (number, line.is_worth_a_query().then(|| self.turn(&mut line)).flatten())
        };
        self.run(turn);
        let until = Instant::now() + self.shared.sharing.longest_wait;
        let patient = until.min(Instant::now() + PATIENCE);
        let answer = match timeout_at(patient, &mut answered).await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                // Once: where as many queries as may be are at work, they take all that are in line.
                let turn = {
                    let mut line = self.shared.line();
                    if line.has(number) { self.turn(&mut line) } else { None }
                };
                self.run(turn);
                match timeout_at(until, &mut answered).await {
                    Ok(answer) => answer,
                    Err(_elapsed) if self.shared.line().leave(number) => {
                        return Err(StoreError::Unavailable("all connections for reads are busy".to_owned()));
                    }
                    // It is being looked up.
                    Err(_elapsed) => answered.await,
                }
            }
        };
        answer.unwrap_or_else(|_closed| Err(StoreError::Unavailable("the store was closed".to_owned())))
    }

    /// The right to run queries beside those that are at the database.
    fn turn(&self, line: &mut Line<R>) -> Option<Turn<R>> {
        (line.queries < self.shared.sharing.at_once).then(|| {
            line.queries = line.queries.saturating_add(1);
            Turn { shared: Arc::clone(&self.shared), ended: false }
        })
    }

    fn run(&self, turn: Option<Turn<R>>) {
        if let Some(turn) = turn {
            // A runtime that is gone drops it at once.
            self.shared.runtime.spawn(turn.run_queries());
        }
    }
}

impl<R: Kept> Line<R> {
    /// Takes those of the next query.
    fn take(&mut self) -> Vec<Waiting<R>> {
        // Whoever has gone away is not looked up for.
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        let count = self.waiting.len().min(MAX_LOOKUPS);
        self.waiting.drain(..count).collect()
    }

    /// Whether those in line go without waiting for the queries at the database.
    fn is_worth_a_query(&self) -> bool {
        self.queries == 0 || self.waiting.len() >= WORTH_A_QUERY
    }

    /// Whether one is in line.
    fn has(&self, number: u64) -> bool {
        self.place(number).is_some()
    }

    /// Takes one out of the line; whether it was still in it.
    fn leave(&mut self, number: u64) -> bool {
        self.place(number).and_then(|place| self.waiting.remove(place)).is_some()
    }

    /// The place of one that is in line: they are numbered as they come.
    fn place(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |waiting| waiting.number).ok()
    }
}

impl<R: Kept> Shared<R> {
    fn line(&self) -> MutexGuard<'_, Line<R>> {
        // Nothing in here panics while it holds the lock.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there of these keys.
    async fn load(&self, keys: &[Key]) -> Result<BTreeMap<Key, Result<R::Record, StoreError>>, StoreError> {
        let mut conn = self.reads.get().await?;
        let (owners, ids) = keys.iter().copied().unzip();
        let rows = R::load(&mut conn, owners, ids).await.of(R::TABLE)?;
        let found: Vec<Key> = rows.iter().map(Kept::key).collect();
        let records = opened_each(&mut conn, rows).await?;
        Ok(found.into_iter().zip(records).collect())
    }

    async fn run(&self, group: Vec<Waiting<R>>) {
        let mut asked: BTreeMap<Key, Vec<oneshot::Sender<Found<R::Record>>>> = BTreeMap::new();
        for Waiting { key, answer, .. } in group {
            asked.entry(key).or_default().push(answer);
        }
        let keys: Vec<Key> = asked.keys().copied().collect();
        let mut found = self.load(&keys).await;
        for (key, mut answers) in asked {
            let one = match &mut found {
                Ok(found) => found.remove(&key).transpose(),
                Err(error) => Err(error.clone()),
            };
            let last = answers.pop();
            // Whoever doesn't wait any more has gone away.
            for answer in answers {
                drop(answer.send(one.clone()));
            }
            if let Some(last) = last {
                drop(last.send(one));
            }
        }
    }
}

/// The right to run queries. When it is lost before the line is empty, because the runtime is gone or a query panicked,
/// nobody may be left to run those in line: they are told so.
struct Turn<R: Kept> {
    shared: Arc<Shared<R>>,
    ended: bool,
}

impl<R: Kept> Turn<R> {
    /// Runs queries until none is left in line.
    async fn run_queries(mut self) {
        loop {
            let waiting = {
                let mut line = self.shared.line();
                let waiting = line.take();
                if waiting.is_empty() {
                    line.queries = line.queries.saturating_sub(1);
                    self.ended = true;
                    return;
                }
                waiting
            };
            self.shared.run(waiting).await;
        }
    }
}

impl<R: Kept> Drop for Turn<R> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut line = self.shared.line();
        line.queries = line.queries.saturating_sub(1);
        if line.queries == 0 {
            // Who is dropped is answered that the store was closed.
            line.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_further_query_goes_when_it_is_worth_it() {
        let mut line: Line<ChargeRow> = Line { waiting: VecDeque::new(), came: 0, queries: 0 };
        assert!(line.is_worth_a_query());
        line.queries = 1;
        for number in 0..4 {
            assert!(!line.is_worth_a_query(), "{number}");
            let key = (DbId(Uuid::nil()), DbId(Uuid::nil()));
            line.waiting.push_back(Waiting { number, key, answer: oneshot::channel().0 });
        }
        assert!(line.is_worth_a_query() && line.has(3) && !line.has(4));
    }

    #[test]
    fn nobody_is_looked_up_for_who_has_gone_away() {
        let mut line: Line<ChargeRow> = Line { waiting: VecDeque::new(), came: 0, queries: 0 };
        let mut answers = Vec::new();
        for number in 0..3 {
            let (answer, answered) = oneshot::channel();
            let key = (DbId(Uuid::nil()), DbId(Uuid::from_u128(number.into())));
            line.waiting.push_back(Waiting { number, key, answer });
            answers.push(answered);
        }
        drop(answers.remove(1));
        let taken: Vec<u64> = line.take().iter().map(|waiting| waiting.number).collect();
        assert_eq!(taken, [0, 2]);
        assert!(line.waiting.is_empty());
    }
}
