//! Asking: queries run behind a boxed future.
//!
//! The future that a query of diesel-async makes has a type as large as the query, and the compiler looks through all of it
//! for every `async fn` that waits for one: seconds for each. A boxed one is nothing to look at.
//!
//! Answers are read to their end, where the server says that it is ready again. It works out the rows of a statement first
//! and commits after that, and a server that is stopped at once, or warns of something while it waits for its disk or its
//! standby, sends the rows that it has: they are there, and what they tell of never was. So `get_result` and `first` of
//! diesel-async are not used, which take the first row and don't wait for more (clippy.toml).
//! [PostgreSQL, Extended Query](https://www.postgresql.org/docs/15/protocol-flow.html#PROTOCOL-FLOW-EXT-QUERY): a
//! transaction that no `BEGIN` opened is closed at the Sync, after the rows.

use std::pin::{Pin, pin};

use diesel::result::{Error, QueryResult};
use diesel_async::methods::LoadQuery;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use futures_util::TryStreamExt;

/// What an answer comes in.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = QueryResult<T>> + Send + 'a>>;

/// A query that can be asked.
pub trait Ask: Sized {
    /// Its rows.
    fn rows<'a, T>(self, conn: &'a mut AsyncPgConnection) -> Answer<'a, Vec<T>>
    where
        T: Send + 'a,
        Self: LoadQuery<'a, AsyncPgConnection, T> + Send + 'a,
    {
        Box::pin(async move { self.load(conn).await })
    }

    /// Its first row, if there is any.
    fn found<'a, T>(self, conn: &'a mut AsyncPgConnection) -> Answer<'a, Option<T>>
    where
        T: Send + 'a,
        Self: LoadQuery<'a, AsyncPgConnection, T> + Send + 'a,
    {
        Box::pin(async move {
            let mut coming = pin!(self.load_stream(conn).await?);
            let first = coming.try_next().await?;
            // Where there is no row, that was the end, after which nothing may be asked for.
            while first.is_some() && coming.try_next().await?.is_some() {}
            Ok(first)
        })
    }

    /// Its first row; an error of its own (`NotFound`) when there is none.
    fn row<'a, T>(self, conn: &'a mut AsyncPgConnection) -> Answer<'a, T>
    where
        T: Send + 'a,
        Self: LoadQuery<'a, AsyncPgConnection, T> + Send + 'a,
    {
        let found = self.found(conn);
        Box::pin(async move { found.await?.ok_or(Error::NotFound) })
    }
}

impl<Q> Ask for Q {}
