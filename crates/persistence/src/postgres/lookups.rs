//! Looking records up by their ids, many in one query.
//!
//! How they share is in `sharing`. What one lookup finds is its own, whoever shares its query: the query has the integrator
//! of each beside the id, what it finds is handed out by both, and a record that can't be read is the error of those alone
//! who asked for it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::slice;

use async_trait::async_trait;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::Array;
use diesel_async::AsyncPgConnection;
use pix_domain::charges::Charge;
use pix_domain::error::StoreError;
use pix_domain::withdrawals::Withdrawal;
use tokio::time::timeout;

use super::ask::Ask;
use super::error::Of;
use super::people::{opened_each, opened_one};
use super::pool::{Conn, Connections};
use super::sharing::{Answer, Shared};
use super::written::{Columns, Types, columns_of};
use crate::codec::{DbId, Id};
use crate::rows::{ChargeRow, Personal, WithdrawalRow};

/// Whose record and which.
pub type Key = (DbId, DbId);

/// A record that is looked up by its owner and id.
#[async_trait]
pub trait Kept: Personal + Sized + Send + 'static {
    /// What it is to the domain.
    type Record: TryFrom<Box<Self>, Error = StoreError> + Clone + Send + 'static;
    /// Its table.
    const TABLE: &'static str;

    /// Whose it is and which.
    fn key(&self) -> Key;

    /// The one of this key.
    async fn find(conn: &mut AsyncPgConnection, key: Key) -> QueryResult<Option<Box<Self>>>;

    /// Those of the `ids` that are there, each of the owner in the same place.
    async fn load(
        conn: &mut AsyncPgConnection,
        owners: Vec<DbId>,
        ids: Vec<DbId>,
    ) -> QueryResult<Vec<Box<Self>>>;
}

/// The row of a key.
struct ByKey<R> {
    key: Key,
    columns: Columns<R>,
}

/// The rows of some keys.
struct ByKeys<R> {
    owners: Vec<DbId>,
    ids: Vec<DbId>,
    columns: Columns<R>,
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

            async fn find(conn: &mut AsyncPgConnection, key: Key) -> QueryResult<Option<Box<Self>>> {
                ByKey { key, columns: columns_of::<Self>() }.found(conn).await
            }

            async fn load(
                conn: &mut AsyncPgConnection,
                owners: Vec<DbId>,
                ids: Vec<DbId>,
            ) -> QueryResult<Vec<Box<Self>>> {
                ByKeys { owners, ids, columns: columns_of::<Self>() }.rows(conn).await
            }
        }

        impl Query for ByKey<$row> {
            type SqlType = Types<$row>;
        }

        impl QueryFragment<Pg> for ByKey<$row> {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
                out.push_sql("SELECT ");
                self.columns.walk_ast(out.reborrow())?;
                out.push_sql(concat!(" FROM ", $table, " WHERE ", $table, ".integrator_id = "));
                out.push_bind_param::<Id, _>(&self.key.0)?;
                out.push_sql(concat!(" AND ", $table, ".id = "));
                out.push_bind_param::<Id, _>(&self.key.1)
            }
        }

        impl QueryId for ByKey<$row> {
            type QueryId = Self;

            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for ByKey<$row> {}

        impl Query for ByKeys<$row> {
            type SqlType = Types<$row>;
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
                self.columns.walk_ast(out.reborrow())?;
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

/// The record of a key, for whoever shares with nobody.
pub async fn find<R: Kept>(conn: &mut AsyncPgConnection, key: Key) -> Result<Option<R::Record>, StoreError> {
    let found = R::find(conn, key).await.of(R::TABLE)?;
    opened_one(conn, found).await
}

/// What is there of some keys.
type Found<R> = BTreeMap<Key, Result<<R as Kept>::Record, StoreError>>;

/// The lookups of one kind of record.
#[derive(Debug)]
pub struct Lookups<R: Kept> {
    reads: Connections,
    kind: PhantomData<fn() -> R>,
}

impl<R: Kept> Lookups<R> {
    /// Lookups over these connections.
    pub const fn new(reads: Connections) -> Self {
        Self { reads, kind: PhantomData }
    }

    /// What is there of these keys.
    async fn load(&self, keys: &[Key]) -> Result<Found<R>, StoreError> {
        let mut conn = self.reads.get().await?;
        let found = timeout(self.reads.answer_timeout(), Self::read(&mut conn, keys)).await;
        self.reads.whole(conn, found)
    }

    /// The same, where a row that can't be read at all is nothing to the others: then each is read alone.
    async fn load_each(&self, keys: &[Key]) -> Result<Found<R>, StoreError> {
        let together = self.load(keys).await;
        if keys.len() == 1 || !matches!(together, Err(StoreError::Damaged(_))) {
            return together;
        }
        let mut found = Found::<R>::new();
        for key in keys {
            match self.load(slice::from_ref(key)).await {
                Ok(one) => found.extend(one),
                Err(error @ StoreError::Damaged(_)) => drop(found.insert(*key, Err(error))),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    async fn read(conn: &mut Conn, keys: &[Key]) -> Result<Found<R>, StoreError> {
        let (owners, ids) = keys.iter().copied().unzip();
        let rows = R::load(conn, owners, ids).await.of(R::TABLE)?;
        let found: Vec<Key> = rows.iter().map(|row| row.key()).collect();
        let records = opened_each(conn, rows).await?;
        Ok(found.into_iter().zip(records).collect())
    }
}

#[async_trait]
impl<R: Kept> Shared for Lookups<R> {
    type Asked = Key;
    type Found = Option<R::Record>;
    const WHAT: &'static str = "reads";
    const MOST: usize = 256;
    const WRITES: bool = false;

    async fn answer(&self, asked: Vec<Key>) -> Vec<Answer<Self>> {
        // How many ask for each record, which comes once.
        let mut asking: BTreeMap<Key, usize> = BTreeMap::new();
        for key in &asked {
            let count = asking.entry(*key).or_default();
            *count = count.saturating_add(1);
        }
        let keys: Vec<Key> = asking.keys().copied().collect();
        let mut found = self.load_each(&keys).await;
        let one = |key: &Key| {
            let found = found.as_mut().map_err(|error| error.clone())?;
            let count = asking.entry(*key).or_default();
            *count = count.saturating_sub(1);
            // The last one takes it.
            if *count > 0 { found.get(key).cloned() } else { found.remove(key) }.transpose()
        };
        asked.iter().map(one).collect()
    }
}
