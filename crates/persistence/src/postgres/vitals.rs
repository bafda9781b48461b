//! What operators are told of the store.

use diesel::pg::Pg;
use diesel::prelude::{BoolExpressionMethods, ExpressionMethods, QueryDsl, QueryResult};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::RunQueryDsl;
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::time::Timestamp;

use super::PgStore;
use super::ask::Ask as _;
use super::due::PLACES;
use super::error::Of;
use crate::codec::{self, DbId, DbTime, Instant, UNCERTAIN_STATES};
use crate::schema::{facts, refunds, withdrawals};
use crate::vitals::{MAX_COUNTED, Overdue, PoolUse, Vitals, oldest};

/// The name of no fact: see [`PgStore::check_writable`].
const NO_FACT: &str = "nothing";

/// Everything of [`Vitals`] at a time.
#[derive(Debug, Clone, Copy)]
struct Ask {
    now: DbTime,
    limit: i64,
}

/// The three sums; and of follow-ups, callbacks and deliveries how many are overdue and since when.
type Asked = (i64, i64, i64, i64, Option<DbTime>, i64, Option<DbTime>, i64, Option<DbTime>);

impl Ask {
    /// Those of `table` whose time has come. In the order of an index where there is one of the time alone.
    fn due<'b>(
        &'b self,
        out: &mut AstPass<'_, 'b, Pg>,
        table: &str,
        column: &str,
        in_order: bool,
    ) -> QueryResult<()> {
        out.push_sql(&format!("(SELECT {column} AS due FROM {table} WHERE {column} <= "));
        out.push_bind_param::<Instant, _>(&self.now)?;
        if in_order {
            out.push_sql(&format!(" ORDER BY {column}"));
        }
        out.push_sql(" LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(")");
        Ok(())
    }
}

impl QueryFragment<Pg> for Ask {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("SELECT w.*, f.*, c.*, d.* FROM (SELECT ");
        for (comma, column) in [("", "available_cents"), (", ", "held_cents"), (", ", "owed_cents")] {
            // A sum of bigint is numeric: it is more than fits at worst, and never an error.
            out.push_sql(&format!(
                "{comma}least(coalesce(sum({column}::numeric), 0), 9223372036854775807)::bigint AS {column}"
            ));
        }
        out.push_sql(" FROM wallets) w, (SELECT count(*), min(due) FROM (");
        for (index, place) in PLACES.into_iter().enumerate() {
            out.push_sql(if index == 0 { "" } else { " UNION ALL " });
            self.due(&mut out, place.table, place.due, true)?;
        }
        out.push_sql(") followed) f, (SELECT count(*), min(due) FROM ");
        self.due(&mut out, "callbacks", "due_at", true)?;
        out.push_sql(" called) c, (SELECT count(*), min(due) FROM ");
        self.due(&mut out, "deliveries", "due_at", false)?;
        out.push_sql(" delivered) d");
        Ok(())
    }
}

impl QueryId for Ask {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for Ask {
    type SqlType = (
        BigInt,
        BigInt,
        BigInt,
        BigInt,
        Nullable<Instant>,
        BigInt,
        Nullable<Instant>,
        BigInt,
        Nullable<Instant>,
    );
}

/// The server's time, in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
struct AskTime;

impl QueryFragment<Pg> for AskTime {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
        Ok(())
    }
}

impl QueryId for AskTime {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for AskTime {
    type SqlType = Instant;
}

/// How many connections there can be of this role to this database at once, those of others and of other nodes among them.
#[derive(Debug, Clone, Copy)]
struct AskRoom;

impl QueryFragment<Pg> for AskRoom {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // A limit of -1 is none, and `least` passes NULL over.
        out.push_sql(
            "SELECT least(current_setting('max_connections')::bigint \
             - current_setting('superuser_reserved_connections')::bigint, \
             (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user), \
             (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()))",
        );
        Ok(())
    }
}

impl QueryId for AskRoom {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for AskRoom {
    type SqlType = BigInt;
}

/// The names of this schema's indexes that the server does not use.
#[derive(Debug, Clone, Copy)]
struct AskUnusable;

impl QueryFragment<Pg> for AskUnusable {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "SELECT c.relname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE NOT (i.indisvalid AND i.indisready) AND n.nspname = current_schema() ORDER BY c.relname",
        );
        Ok(())
    }
}

impl QueryId for AskUnusable {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for AskUnusable {
    type SqlType = Text;
}

/// What of `$table` nobody knows the outcome of. Whatever isn't final is in the list of what is due: the rows are found by
/// its index, however many there were ever.
macro_rules! uncertain {
    ($table:ident, $kind:expr, $limit:expr, $conn:expr) => {{
        let rows: Vec<(DbId, DbId, DbTime)> = $table::table
            .filter($table::follow_up_at.is_not_null().and($table::state.eq_any(UNCERTAIN_STATES)))
            .order(($table::submitted_at.asc(), $table::id.asc()))
            .limit(i64::from($limit))
            .select(($table::integrator_id, $table::id, $table::submitted_at))
            .rows($conn)
            .await
            .of(stringify!($table))?;
        rows.into_iter().map(|(owner, id, at)| {
            (at.0, ResourceRef { integrator_id: IntegratorId(owner.0), kind: $kind, id: id.0 })
        })
    }};
}

fn overdue(count: i64, since: Option<DbTime>) -> Result<Overdue, StoreError> {
    Ok(Overdue { count: codec::quantity("count", count)?, since: since.map(|at| at.0) })
}

impl PgStore {
    /// How the database is at `now`, from one view.
    pub async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        let mut conn = self.reads().await?;
        let ask = Ask { now: DbTime(now), limit: MAX_COUNTED.into() };
        let row: Asked = ask.row(&mut conn).await.of("vitals")?;
        let (available, held, owed, follow_ups, followed, callbacks, called, deliveries, delivered) = row;
        Ok(Vitals {
            available_cents: codec::quantity("wallets.available_cents", available)?,
            held_cents: codec::quantity("wallets.held_cents", held)?,
            owed_cents: codec::quantity("wallets.owed_cents", owed)?,
            follow_ups: overdue(follow_ups, followed)?,
            callbacks: overdue(callbacks, called)?,
            deliveries: overdue(deliveries, delivered)?,
        })
    }

    /// Withdrawals and refunds whose outcome nobody knows, those that were sent first before the others, at most `limit`.
    pub async fn uncertain(&self, limit: u32) -> Result<Vec<ResourceRef>, StoreError> {
        let mut conn = self.reads().await?;
        let mut found: Vec<_> = uncertain!(withdrawals, ResourceKind::Withdrawal, limit, &mut conn).collect();
        found.extend(uncertain!(refunds, ResourceKind::Refund, limit, &mut conn));
        Ok(oldest(found, limit))
    }

    /// Whether the server takes writes, on a connection for money: an update of no row, which writes nothing, and which a
    /// standby or a server that was told to be read-only refuses.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        let mut conn = self.writes().await?;
        let none = diesel::update(facts::table.find(NO_FACT)).set(facts::value.eq(""));
        none.execute(&mut conn).await.of("facts").map_err(super::error::DbError::of_write)?;
        Ok(())
    }

    /// The server's time.
    pub async fn clock(&self) -> Result<Timestamp, StoreError> {
        let mut conn = self.reads().await?;
        let time: DbTime = AskTime.row(&mut conn).await.of("the server's clock")?;
        Ok(time.0)
    }

    /// How many connections the server gives to all nodes together.
    pub async fn room(&self) -> Result<u64, StoreError> {
        let mut conn = self.reads().await?;
        let room: i64 = AskRoom.row(&mut conn).await.of("the server's connections")?;
        codec::quantity("max_connections", room)
    }

    /// The indexes that the server does not use, by name: `CREATE INDEX CONCURRENTLY` leaves one when it fails.
    pub async fn unusable_indexes(&self) -> Result<Vec<String>, StoreError> {
        let mut conn = self.reads().await?;
        let names: Vec<String> = AskUnusable.rows(&mut conn).await.of("the server's indexes")?;
        Ok(names)
    }

    /// How the pools are used.
    pub fn pools(&self) -> Vec<PoolUse> {
        vec![self.applier.pool_use(), self.reads.pool_use(), self.workers.pool_use()]
    }
}
