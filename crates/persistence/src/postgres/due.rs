//! The statements that take what is due, put it off, and count what is open. They know the three tables that have a
//! `follow_up_at`.

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use pix_domain::follow_up::FollowUp;
use pix_domain::ids::ResourceKind;
use pix_domain::time::Timestamp;

use crate::codec::{DbId, DbTime, FINAL_STATES, Id, Instant};

/// The kinds and their tables. The place of a kind here is its rank in a claim: the order of [`ResourceKind`].
const TABLES: [(ResourceKind, &str); 3] = [
    (ResourceKind::Charge, "charges"),
    (ResourceKind::Withdrawal, "withdrawals"),
    (ResourceKind::Refund, "refunds"),
];

/// The kind with this rank.
pub fn kind_of(rank: i32) -> Option<ResourceKind> {
    let (kind, _) = TABLES.get(usize::try_from(rank).ok()?)?;
    Some(*kind)
}

/// What a claim returns: the kind's rank, the owner, the id, when it was due, and the attempts with this one.
pub type Claimed = (i32, DbId, DbId, DbTime, i64);

/// Takes the most overdue records of all tables and puts them off, in one statement.
///
/// A row that another one is claiming is passed over, so that any number of nodes share the work and none waits. A row
/// that is passed over here is taken by somebody else, or next time.
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
        out.push_sql("WITH ");
        for (_, table) in TABLES {
            out.push_sql(table);
            out.push_sql("_due AS (SELECT integrator_id, id, follow_up_at FROM ");
            out.push_sql(table);
            out.push_sql(" WHERE follow_up_at <= ");
            out.push_bind_param::<Instant, _>(&self.now)?;
            out.push_sql(" ORDER BY follow_up_at, integrator_id, id LIMIT ");
            out.push_bind_param::<BigInt, _>(&self.limit)?;
            out.push_sql(" FOR NO KEY UPDATE SKIP LOCKED), ");
        }
        out.push_sql("due AS (");
        for (rank, (_, table)) in TABLES.into_iter().enumerate() {
            out.push_sql(if rank == 0 { "SELECT " } else { " UNION ALL SELECT " });
            out.push_sql(&rank.to_string());
            out.push_sql(" AS rank, integrator_id, id, follow_up_at FROM ");
            out.push_sql(table);
            out.push_sql("_due");
        }
        out.push_sql(" ORDER BY follow_up_at, integrator_id, rank, id LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(")");
        for (rank, (_, table)) in TABLES.into_iter().enumerate() {
            out.push_sql(", ");
            out.push_sql(table);
            out.push_sql("_put_off AS (UPDATE ");
            out.push_sql(table);
            out.push_sql(" AS kept SET follow_up_at = ");
            out.push_bind_param::<Instant, _>(&self.until)?;
            out.push_sql(", follow_up_attempts = least(kept.follow_up_attempts + 1, 4294967295) FROM due");
            out.push_sql(
                " WHERE kept.integrator_id = due.integrator_id AND kept.id = due.id AND due.rank = ",
            );
            out.push_sql(&rank.to_string());
            out.push_sql(" RETURNING due.rank, kept.integrator_id, kept.id, due.follow_up_at, ");
            out.push_sql("kept.follow_up_attempts)");
        }
        for (rank, (_, table)) in TABLES.into_iter().enumerate() {
            out.push_sql(if rank == 0 { " SELECT * FROM " } else { " UNION ALL SELECT * FROM " });
            out.push_sql(table);
            out.push_sql("_put_off");
        }
        Ok(())
    }
}

impl QueryId for Claim {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for Claim {
    type SqlType = (Integer, Id, Id, Instant, BigInt);
}

/// Puts one record off, when it is as it was claimed: neither changed nor claimed again since.
#[derive(Debug, Clone, Copy)]
pub struct PutOff {
    table: &'static str,
    owner: DbId,
    id: DbId,
    until: Option<DbTime>,
    claimed_until: DbTime,
    attempts: i64,
}

impl PutOff {
    /// Puts what was claimed off to `until`, or takes it off the list.
    pub fn new(claimed: FollowUp, until: Option<Timestamp>) -> Self {
        let FollowUp { resource, attempts, until: claimed_until } = claimed;
        let table = match resource.kind {
            ResourceKind::Charge => "charges",
            ResourceKind::Withdrawal => "withdrawals",
            // Nobody asks about a split, and no refund has its id.
            ResourceKind::Refund | ResourceKind::Split => "refunds",
        };
        Self {
            table,
            owner: resource.integrator_id.into(),
            id: DbId(resource.id),
            until: until.map(DbTime),
            claimed_until: DbTime(claimed_until),
            attempts: attempts.into(),
        }
    }
}

impl QueryFragment<Pg> for PutOff {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("UPDATE ");
        out.push_sql(self.table);
        out.push_sql(" SET follow_up_at = ");
        out.push_bind_param::<Nullable<Instant>, _>(&self.until)?;
        out.push_sql(" WHERE integrator_id = ");
        out.push_bind_param::<Id, _>(&self.owner)?;
        out.push_sql(" AND id = ");
        out.push_bind_param::<Id, _>(&self.id)?;
        out.push_sql(" AND follow_up_at = ");
        out.push_bind_param::<Instant, _>(&self.claimed_until)?;
        out.push_sql(" AND follow_up_attempts = ");
        out.push_bind_param::<BigInt, _>(&self.attempts)?;
        Ok(())
    }
}

/// Three texts, one for each table: the prepared statement is kept by its text.
impl QueryId for PutOff {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

/// What [`CountOpen`] returns: the kind's rank, the state, how many, their amounts and fees, and the oldest one's time.
pub type Open = (i32, String, i64, i64, DbTime);

/// Counts the outgoing movements that aren't final, by kind and state. Whatever isn't final is in the list of what is due:
/// the rows are found by its index, however many there were ever.
#[derive(Debug, Clone, Copy)]
pub struct CountOpen;

impl QueryFragment<Pg> for CountOpen {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        for (rank, (kind, table)) in TABLES.into_iter().enumerate() {
            if kind == ResourceKind::Charge {
                continue;
            }
            out.push_sql(if rank == 1 { "SELECT " } else { " UNION ALL SELECT " });
            out.push_sql(&rank.to_string());
            // A sum of bigint is numeric: it is more than fits at worst, and never an error.
            out.push_sql(
                ", state, count(*), least(sum(amount_cents::numeric + fee_cents), 9223372036854775807)::bigint, \
                 min(created_at) FROM ",
            );
            out.push_sql(table);
            out.push_sql(" WHERE follow_up_at IS NOT NULL");
            for state in FINAL_STATES {
                out.push_sql(" AND state <> '");
                out.push_sql(state);
                out.push_sql("'");
            }
            out.push_sql(" GROUP BY state");
        }
        Ok(())
    }
}

impl QueryId for CountOpen {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for CountOpen {
    type SqlType = (Integer, Text, BigInt, BigInt, Instant);
}

#[cfg(test)]
mod tests {
    use diesel::debug_query;
    use pix_domain::ids::ResourceRef;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_rank_of_a_kind_is_its_place_in_the_order_of_kinds() {
        let kinds: Vec<_> = (0..3).map(|rank| kind_of(rank).unwrap()).collect();
        assert!(kinds.is_sorted() && kinds.len() == 3, "{kinds:?}");
        assert_eq!((kind_of(3), kind_of(-1)), (None, None));
    }

    #[test]
    fn a_record_is_put_off_in_its_own_table() {
        let of = |kind| {
            let resource = ResourceRef {
                integrator_id: pix_domain::ids::IntegratorId(Uuid::nil()),
                kind,
                id: Uuid::nil(),
            };
            let claimed = FollowUp { resource, attempts: 1, until: Timestamp::from_micros(0) };
            debug_query::<Pg, _>(&PutOff::new(claimed, None)).to_string()
        };
        for (kind, table) in TABLES {
            assert!(of(kind).starts_with(&format!("UPDATE {table} SET follow_up_at = $1")), "{}", of(kind));
        }
    }
}
