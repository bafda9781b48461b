//! The statements over callbacks. They know one table.

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use crate::codec::{DbId, DbTime, Id, Instant};
use crate::rows::CallbackRow;

/// Keeps a callback; one that waits, unless one that says the same does. The unique index over those that wait tells, of
/// two that come at once too.
pub struct Keep(pub CallbackRow);

impl QueryFragment<Pg> for Keep {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let row = &self.0;
        out.push_sql(
            "INSERT INTO callbacks (id, reference, body, digest, received_at, state, due_at, attempts) VALUES (",
        );
        out.push_bind_param::<Id, _>(&row.id)?;
        out.push_sql(", ");
        out.push_bind_param::<Nullable<Id>, _>(&row.reference)?;
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(&row.body)?;
        out.push_sql(", ");
        out.push_bind_param::<Id, _>(&row.digest)?;
        out.push_sql(", ");
        out.push_bind_param::<Instant, _>(&row.received_at)?;
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(row.state)?;
        out.push_sql(", ");
        out.push_bind_param::<Nullable<Instant>, _>(&row.due_at)?;
        out.push_sql(", ");
        out.push_bind_param::<BigInt, _>(&row.attempts)?;
        // Whoever works on the one that waits has it until its due time: it can't say any more that it ended.
        out.push_sql(
            ") ON CONFLICT (digest) WHERE due_at IS NOT NULL DO UPDATE SET due_at = callbacks.due_at + 1 \
             RETURNING callbacks.id",
        );
        Ok(())
    }
}

/// Which one is kept: this one, or the one that says the same.
impl Query for Keep {
    type SqlType = Id;
}

impl<Conn> diesel::query_dsl::RunQueryDsl<Conn> for Keep {}

impl QueryId for Keep {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

/// What a claim returns: the id, the reference, the body, when it was received, the attempts with this one, and when it
/// was due.
pub type Claimed = (DbId, Option<DbId>, String, DbTime, i64, DbTime);

/// Takes the most overdue callbacks and puts them off, in one statement. A row that another one is claiming is passed
/// over.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Due at this time or before.
    pub now: DbTime,
    /// To when they are put off.
    pub until: DbTime,
    /// How many at the most.
    pub limit: i64,
}

impl QueryFragment<Pg> for Claim {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH due AS MATERIALIZED (SELECT id, due_at FROM callbacks WHERE due_at <= ");
        out.push_bind_param::<Instant, _>(&self.now)?;
        out.push_sql(" ORDER BY due_at, id LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(" FOR NO KEY UPDATE SKIP LOCKED) UPDATE callbacks AS kept SET due_at = ");
        out.push_bind_param::<Instant, _>(&self.until)?;
        out.push_sql(
            ", attempts = least(kept.attempts + 1, 4294967295) FROM due WHERE kept.id = due.id \
             RETURNING kept.id, kept.reference, kept.body, kept.received_at, kept.attempts, due.due_at",
        );
        Ok(())
    }
}

impl QueryId for Claim {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for Claim {
    type SqlType = (Id, Nullable<Id>, Text, Instant, BigInt, Instant);
}

/// Says where a callback stands, when it is as it was claimed.
#[derive(Debug, Clone, Copy)]
pub struct Put {
    /// Its id.
    pub id: DbId,
    /// The name of its state now.
    pub state: &'static str,
    /// When it is due, if it waits.
    pub due_at: Option<DbTime>,
    /// Until when it was claimed.
    pub claimed_until: DbTime,
    /// How many attempts were behind it then.
    pub attempts: i64,
}

impl QueryFragment<Pg> for Put {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("UPDATE callbacks SET state = ");
        out.push_bind_param::<Text, _>(self.state)?;
        out.push_sql(", due_at = ");
        out.push_bind_param::<Nullable<Instant>, _>(&self.due_at)?;
        out.push_sql(" WHERE id = ");
        out.push_bind_param::<Id, _>(&self.id)?;
        out.push_sql(" AND due_at = ");
        out.push_bind_param::<Instant, _>(&self.claimed_until)?;
        out.push_sql(" AND attempts = ");
        out.push_bind_param::<BigInt, _>(&self.attempts)?;
        Ok(())
    }
}

impl QueryId for Put {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

/// Removes callbacks that ended, the oldest first. A row that another one is removing is passed over.
#[derive(Debug, Clone, Copy)]
pub struct Forget {
    /// Received before this time.
    pub before: DbTime,
    /// How many at the most.
    pub limit: i64,
}

impl QueryFragment<Pg> for Forget {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "WITH old AS MATERIALIZED (SELECT id FROM callbacks WHERE due_at IS NULL AND received_at < ",
        );
        out.push_bind_param::<Instant, _>(&self.before)?;
        out.push_sql(" ORDER BY received_at, id LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(" FOR UPDATE SKIP LOCKED) DELETE FROM callbacks kept USING old WHERE kept.id = old.id");
        Ok(())
    }
}

impl QueryId for Forget {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}
