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

use std::pin::Pin;

use diesel::result::{Error, QueryResult};
use diesel_async::methods::LoadQuery;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

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

    /// Its one row; an error of its own (`NotFound`) when there is none.
    fn row<'a, T>(self, conn: &'a mut AsyncPgConnection) -> Answer<'a, T>
    where
        T: Send + 'a,
        Self: LoadQuery<'a, AsyncPgConnection, T> + Send + 'a,
    {
        Box::pin(async move {
            let rows: Vec<T> = self.load(conn).await?;
            rows.into_iter().next().ok_or(Error::NotFound)
        })
    }
}

impl<Q> Ask for Q {}
