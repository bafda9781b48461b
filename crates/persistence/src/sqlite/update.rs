//! An update whose prepared statement is kept: diesel's own is prepared anew each time.

use diesel::associations::HasTable;
use diesel::prelude::{QuerySource, RunQueryDsl, Table};
use diesel::query_builder::{AsChangeset, AstPass, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sqlite::Sqlite;

/// `UPDATE table SET values WHERE predicate`.
///
/// `values` must not leave out columns by what they hold (no `Option` that means "unchanged"): every update of one type
/// has one text. It is kept by that text, so a mistake costs time only.
pub struct KeptUpdate<F, V, P> {
    from: F,
    values: V,
    predicate: P,
}

/// Updates the rows of `table` for which `predicate` holds.
pub fn update<T, V, P>(_table: T, values: V, predicate: P) -> KeptUpdate<T::FromClause, V::Changeset, P>
where
    T: Table + HasTable<Table = T> + QuerySource,
    V: AsChangeset<Target = T>,
{
    KeptUpdate { from: T::table().from_clause(), values: values.as_changeset(), predicate }
}

impl<F, V, P> QueryFragment<Sqlite> for KeptUpdate<F, V, P>
where
    F: QueryFragment<Sqlite>,
    V: QueryFragment<Sqlite>,
    P: QueryFragment<Sqlite>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("UPDATE ");
        self.from.walk_ast(out.reborrow())?;
        out.push_sql(" SET ");
        self.values.walk_ast(out.reborrow())?;
        out.push_sql(" WHERE ");
        self.predicate.walk_ast(out)
    }
}

impl<F, V, P> QueryId for KeptUpdate<F, V, P> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<F, V, P, Conn> RunQueryDsl<Conn> for KeptUpdate<F, V, P> {}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use diesel::connection::{Connection, InstrumentationEvent, SimpleConnection};
    use diesel::prelude::{ExpressionMethods, QueryDsl};
    use diesel::sqlite::SqliteConnection;

    use super::*;

    diesel::table! {
        counters (id) { id -> Integer, n -> Integer, }
    }

    #[test]
    fn the_statement_is_prepared_once_and_changes_the_rows_that_match() {
        let mut conn = SqliteConnection::establish(":memory:").unwrap();
        conn.batch_execute("CREATE TABLE counters (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO counters VALUES (1, 0), (2, 0)")
            .unwrap();
        let prepared = Arc::new(Mutex::new(Vec::new()));
        let seen = prepared.clone();
        conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::CacheQuery { sql, .. } = event {
                seen.lock().unwrap().push(sql.to_owned());
            }
        });
        for n in 1..=3 {
            let changed =
                update(counters::table, counters::n.eq(n), counters::id.eq(1)).execute(&mut conn).unwrap();
            assert_eq!(changed, 1);
        }
        assert_eq!(update(counters::table, counters::n.eq(9), counters::id.eq(7)).execute(&mut conn), Ok(0));
        assert_eq!(*prepared.lock().unwrap(), ["UPDATE `counters` SET `n` = ? WHERE (`counters`.`id` = ?)"]);
        let rows: Vec<i32> =
            counters::table.order(counters::id.asc()).select(counters::n).load(&mut conn).unwrap();
        assert_eq!(rows, [3, 0]);
    }
}
