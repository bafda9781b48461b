//! Asking: queries run behind a boxed future.
//!
//! The future that a query of diesel-async makes has a type as large as the query, and the compiler looks through all of it
//! for every `async fn` that waits for one: seconds for each. A boxed one is nothing to look at.

use std::pin::Pin;

use diesel::result::QueryResult;
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
        Box::pin(async move { self.get_result(conn).await })
    }
}

impl<Q> Ask for Q {}
