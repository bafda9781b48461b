//! The statements that take what is due, put it off, and count what is open. They know where it is kept.

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use pix_domain::follow_up::FollowUp;
use pix_domain::ids::ResourceKind;
use pix_domain::time::Timestamp;

use crate::codec::{DbId, DbTime, FINAL_STATES, Id, Instant};
use crate::schema::charges;

/// Where it is kept when a record is asked about next.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    kind: ResourceKind,
    /// The table.
    pub table: &'static str,
    /// The column with the time.
    pub due: &'static str,
    attempts: &'static str,
    /// Whether a row there is of the record, and not of when it is due alone.
    is_record: bool,
}

impl Place {
    /// In the row of the record.
    const fn in_record(kind: ResourceKind, table: &'static str) -> Self {
        Self { kind, table, due: "follow_up_at", attempts: "follow_up_attempts", is_record: true }
    }
}

/// The places. That of one here is its rank in a claim, which keeps the order of [`ResourceKind`]. That in the row of a charge
/// is where programs before migration 13 write.
pub const PLACES: [Place; 4] = [
    Place {
        kind: ResourceKind::Charge,
        table: "charge_follow_ups",
        due: "due_at",
        attempts: "attempts",
        is_record: false,
    },
    Place::in_record(ResourceKind::Charge, "charges"),
    Place::in_record(ResourceKind::Withdrawal, "withdrawals"),
    Place::in_record(ResourceKind::Refund, "refunds"),
];

// Only this database has it.
diesel::table! {
    use diesel::sql_types::BigInt;
    use crate::codec::{Id, Instant};

    charge_follow_ups (integrator_id, id) {
        integrator_id -> Id,
        id -> Id,
        due_at -> Instant,
        attempts -> BigInt,
    }
}
diesel::allow_tables_to_appear_in_same_query!(charge_follow_ups, charges);

/// The kind with this rank.
pub fn kind_of(rank: i32) -> Option<ResourceKind> {
    Some(PLACES.get(usize::try_from(rank).ok()?)?.kind)
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
        for Place { table, due, .. } in PLACES {
            out.push_sql(&format!(
                "{table}_due AS (SELECT integrator_id, id, {due} AS due_at FROM {table} WHERE {due} <= "
            ));
            out.push_bind_param::<Instant, _>(&self.now)?;
            out.push_sql(&format!(" ORDER BY {due}, integrator_id, id LIMIT "));
            out.push_bind_param::<BigInt, _>(&self.limit)?;
            out.push_sql(" FOR NO KEY UPDATE SKIP LOCKED), ");
        }
        out.push_sql("due AS (");
        for (rank, Place { table, .. }) in PLACES.into_iter().enumerate() {
            out.push_sql(if rank == 0 { "SELECT " } else { " UNION ALL SELECT " });
            out.push_sql(&format!("{rank} AS rank, integrator_id, id, due_at FROM {table}_due"));
        }
        out.push_sql(" ORDER BY due_at, integrator_id, rank, id LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(")");
        for (rank, Place { table, due, attempts, .. }) in PLACES.into_iter().enumerate() {
            out.push_sql(&format!(", {table}_put_off AS (UPDATE {table} AS kept SET {due} = "));
            out.push_bind_param::<Instant, _>(&self.until)?;
            out.push_sql(&format!(
                ", {attempts} = least(kept.{attempts} + 1, 4294967295) FROM due \
                 WHERE kept.integrator_id = due.integrator_id AND kept.id = due.id AND due.rank = {rank} \
                 RETURNING due.rank, kept.integrator_id, kept.id, due.due_at, kept.{attempts})"
            ));
        }
        for (rank, Place { table, .. }) in PLACES.into_iter().enumerate() {
            out.push_sql(if rank == 0 { " SELECT * FROM " } else { " UNION ALL SELECT * FROM " });
            out.push_sql(&format!("{table}_put_off"));
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
    kind: ResourceKind,
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
        // Nobody asks about a split, and no refund has its id.
        let kind = if resource.kind == ResourceKind::Split { ResourceKind::Refund } else { resource.kind };
        Self {
            kind,
            owner: resource.integrator_id.into(),
            id: DbId(resource.id),
            until: until.map(DbTime),
            claimed_until: DbTime(claimed_until),
            attempts: attempts.into(),
        }
    }

    /// Of the row that was claimed.
    fn walk_claimed<'b>(&'b self, place: Place, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(" WHERE integrator_id = ");
        out.push_bind_param::<Id, _>(&self.owner)?;
        out.push_sql(" AND id = ");
        out.push_bind_param::<Id, _>(&self.id)?;
        out.push_sql(&format!(" AND {} = ", place.due));
        out.push_bind_param::<Instant, _>(&self.claimed_until)?;
        out.push_sql(&format!(" AND {} = ", place.attempts));
        out.push_bind_param::<BigInt, _>(&self.attempts)
    }

    fn walk_place<'b>(&'b self, place: Place, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if place.is_record || self.until.is_some() {
            out.push_sql(&format!("UPDATE {} SET {} = ", place.table, place.due));
            out.push_bind_param::<Nullable<Instant>, _>(&self.until)?;
        } else {
            // Who is not due has no row there.
            out.push_sql(&format!("DELETE FROM {}", place.table));
        }
        self.walk_claimed(place, out)
    }
}

impl QueryFragment<Pg> for PutOff {
    /// The main query runs first, so it is the one of the record: whoever changes a record locks it before what is kept
    /// apart.
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let of_kind = || PLACES.into_iter().filter(|place| place.kind == self.kind);
        for (index, place) in of_kind().filter(|place| !place.is_record).enumerate() {
            out.push_sql(if index == 0 { "WITH " } else { ", " });
            out.push_sql(&format!("of_{} AS (", place.table));
            self.walk_place(place, &mut out)?;
            out.push_sql(") ");
        }
        for place in of_kind().filter(|place| place.is_record) {
            self.walk_place(place, &mut out)?;
        }
        Ok(())
    }
}

/// A text for each kind, and one more for charges: the prepared statement is kept by its text.
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
        let outgoing = PLACES.into_iter().enumerate().filter(|(_, place)| place.kind != ResourceKind::Charge);
        for (index, (rank, Place { table, due, .. })) in outgoing.enumerate() {
            out.push_sql(if index == 0 { "SELECT " } else { " UNION ALL SELECT " });
            out.push_sql(&rank.to_string());
            // A sum of bigint is numeric: it is more than fits at worst, and never an error.
            out.push_sql(
                ", state, count(*), least(sum(amount_cents::numeric + fee_cents), 9223372036854775807)::bigint, \
                 min(created_at) FROM ",
            );
            out.push_sql(&format!("{table} WHERE {due} IS NOT NULL"));
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
    fn the_ranks_of_places_are_in_the_order_of_kinds() {
        let kinds: Vec<_> = (0..4).map(|rank| kind_of(rank).unwrap()).collect();
        assert!(kinds.is_sorted() && kinds.len() == PLACES.len(), "{kinds:?}");
        assert_eq!((kind_of(4), kind_of(-1)), (None, None));
    }

    #[test]
    fn a_record_is_put_off_where_it_is_kept() {
        let of = |kind, until| {
            let resource = ResourceRef {
                integrator_id: pix_domain::ids::IntegratorId(Uuid::nil()),
                kind,
                id: Uuid::nil(),
            };
            let claimed = FollowUp { resource, attempts: 1, until: Timestamp::from_micros(0) };
            debug_query::<Pg, _>(&PutOff::new(claimed, until)).to_string()
        };
        for (kind, table) in [(ResourceKind::Withdrawal, "withdrawals"), (ResourceKind::Refund, "refunds")] {
            let text = of(kind, None);
            assert!(text.starts_with(&format!("UPDATE {table} SET follow_up_at = $1")), "{text}");
        }
        // What is kept apart is locked after the charge.
        let later = of(ResourceKind::Charge, Some(Timestamp::from_micros(1)));
        assert!(later.starts_with("WITH of_charge_follow_ups AS (UPDATE"), "{later}");
        assert!(
            later.contains("UPDATE charges SET follow_up_at")
                && later.contains("UPDATE charge_follow_ups SET due_at")
        );
        let never = of(ResourceKind::Charge, None);
        assert!(
            never.contains("UPDATE charges SET follow_up_at")
                && never.contains("DELETE FROM charge_follow_ups WHERE")
        );
    }
}
