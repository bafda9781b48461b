//! Pages of records, shared by charges, withdrawals and splits. The primary key (integrator, id) serves them in both directions.

/// The rows of `$table` that a `ListQuery` asks for, newest first.
///
/// The statement's text depends on which parts of the query are there, not on their values (a list is one array), so
/// each is prepared once a connection; but for those by metadata, which are prepared each time.
macro_rules! page {
    ($table:ident, $row:ty, $owner:expr, $query:expr, $conn:expr) => {{
        let query = $query;
        $crate::postgres::page::page_by_time!($table, $row, $owner, query, $conn, rows => {
            let mut rows = rows;
            if !query.states.is_empty() {
                rows = rows.filter($table::state.eq_any(query.states.clone()));
            }
            if let Some(name) = &query.external_id {
                rows = rows.filter($table::external_id.eq(name.as_str()));
            }
            if let Some(pairs) = $crate::codec::to_metadata(&query.metadata) {
                use diesel::sql_types::{Bool, Text};

                let has = diesel::dsl::sql::<Bool>("CAST(metadata AS jsonb) @> CAST(").bind::<Text, _>(pairs);
                rows = rows.filter($table::metadata.is_not_null()).filter(has.sql(" AS jsonb)"));
            }
        })
    }};
}

/// As [`page!`] for a table whose rows have nothing but an id and a time; `$rows` may be narrowed further.
macro_rules! page_by_time {
    ($table:ident, $row:ty, $owner:expr, $query:expr, $conn:expr, $rows:ident => { $($narrow:tt)* }) => {{
        use diesel::prelude::QueryDsl as _;
        use $crate::postgres::ask::Ask as _;
        use pix_domain::list::Cursor;

        let query = &$query;
        let of_owner = $table::table.filter($table::integrator_id.eq($owner));
        let $rows = of_owner.select($crate::postgres::written::columns_of::<$row>()).limit(query.limit.into()).into_boxed();
        $($narrow)*
        let mut rows = $rows;
        if let Some(from) = query.created_from {
            rows = rows.filter($table::created_at.ge($crate::codec::DbTime(from)));
        }
        if let Some(to) = query.created_to {
            rows = rows.filter($table::created_at.lt($crate::codec::DbTime(to)));
        }
        if let Some(least) = query.least_id {
            rows = rows.filter($table::id.ge($crate::codec::DbId(least)));
        }
        if let Some(end) = query.end_id {
            rows = rows.filter($table::id.lt($crate::codec::DbId(end)));
        }
        let oldest_first = matches!(query.cursor, Some(Cursor::NewerThan(_)));
        rows = match query.cursor {
            Some(Cursor::NewerThan(id)) => {
                rows.filter($table::id.gt($crate::codec::DbId(id))).order($table::id.asc())
            }
            Some(Cursor::OlderThan(id)) => {
                rows.filter($table::id.lt($crate::codec::DbId(id))).order($table::id.desc())
            }
            None => rows.order($table::id.desc()),
        };
        let mut found: Vec<Box<$row>> = rows.rows($conn).await.of(stringify!($table))?;
        if oldest_first {
            found.reverse();
        }
        found
    }};
}

pub(super) use {page, page_by_time};
