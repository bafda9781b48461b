//! What is due, and the lookups beside it.

use std::time::Duration;

use async_trait::async_trait;
use diesel::dsl::{count_star, sql};
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use diesel::sql_types::{Bool, Text};
use diesel::sqlite::SqliteConnection;
use pix_domain::error::StoreError;
use pix_domain::follow_up::{FollowUp, FollowUpStore, LookupStore, OpenMovements};
use pix_domain::ids::{self, IntegratorId, ResourceKind, ResourceRef};
use pix_domain::text::IdempotencyKey;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use super::SqliteStore;
use super::error::{DbError, Of, Problem};
use super::update::update;
use crate::codec::{self, DbId, DbTime, FINAL_STATES};
use crate::rows::TwinRow;
use crate::schema::{charges, handles, refunds, twins, withdrawals};

/// A record's place in the list.
struct Due {
    at: Timestamp,
    resource: ResourceRef,
    attempts: i64,
}

/// The most overdue rows of `$table`.
macro_rules! due {
    ($table:ident, $kind:expr, $now:expr, $limit:expr, $conn:expr) => {{
        let rows: Vec<(DbId, DbId, Option<DbTime>, i64)> = $table::table
            .filter($table::follow_up_at.le(DbTime($now)))
            .order(($table::follow_up_at.asc(), $table::integrator_id.asc(), $table::id.asc()))
            .limit($limit)
            .select(($table::integrator_id, $table::id, $table::follow_up_at, $table::follow_up_attempts))
            .load($conn)
            .of(stringify!($table))?;
        rows.into_iter().filter_map(|(owner, id, at, attempts)| {
            let resource = ResourceRef { integrator_id: IntegratorId(owner.0), kind: $kind, id: id.0 };
            Some(Due { at: at?.0, resource, attempts })
        })
    }};
}

/// Changes the row of `$resource` in `$table`, when it is in the list at `$at` with so many attempts.
macro_rules! put_off {
    ($table:ident, $resource:expr, $at:expr, $attempts:expr, $values:expr, $conn:expr) => {{
        let same = $table::integrator_id
            .eq(DbId::from($resource.integrator_id))
            .and($table::id.eq(DbId($resource.id)))
            .and($table::follow_up_at.eq(Some(DbTime($at))))
            .and($table::follow_up_attempts.eq($attempts));
        update($table::table, $values, same).execute($conn).of(stringify!($table))
    }};
}

mod totals {
    //! Aggregates over the types of our columns.

    use diesel::sql_types::BigInt;

    use crate::codec::Instant;

    diesel::define_sql_function! {
        /// The sum of a column, which has rows.
        #[aggregate]
        #[sql_name = "sum"]
        fn sum_of(value: BigInt) -> BigInt;
    }
    diesel::define_sql_function! {
        /// The earliest of a column, which has rows.
        #[aggregate]
        #[sql_name = "min"]
        fn oldest(value: Instant) -> Instant;
    }
}

use totals::{oldest, sum_of};

/// What isn't final of `$table`, by state. Whatever isn't final is in the list of what is due: the rows are found by its
/// index, however many there were ever.
macro_rules! open {
    ($table:ident, $kind:expr, $conn:expr) => {{
        let rows: Vec<(String, i64, i64, i64, DbTime)> = $table::table
            .filter($table::follow_up_at.is_not_null().and($table::state.ne_all(FINAL_STATES)))
            .group_by($table::state)
            .select((
                $table::state,
                count_star(),
                sum_of($table::amount_cents),
                sum_of($table::fee_cents),
                oldest($table::created_at),
            ))
            .load($conn)
            .of(stringify!($table))?;
        let mut found = Vec::with_capacity(rows.len());
        for (state, count, amounts, fees, oldest_at) in rows {
            let amounts = codec::quantity("amount_cents", amounts)?;
            found.push(OpenMovements {
                kind: $kind,
                state,
                count: codec::quantity("count", count)?,
                held_cents: amounts.saturating_add(codec::quantity("fee_cents", fees)?),
                oldest_at: oldest_at.0,
            });
        }
        found
    }};
}

#[async_trait]
impl FollowUpStore for SqliteStore {
    async fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Result<Vec<FollowUp>, StoreError> {
        self.write(move |conn| claim(conn, now, now.plus(lease), limit)).await
    }

    async fn postpone(&self, claimed: FollowUp, until: Option<Timestamp>) -> Result<(), StoreError> {
        self.write(move |conn| {
            let FollowUp { resource, attempts, until: at } = claimed;
            set(conn, &Due { at, resource, attempts: attempts.into() }, until.map(DbTime), attempts)?;
            Ok(())
        })
        .await
    }

    async fn open_movements(&self) -> Result<Vec<OpenMovements>, StoreError> {
        self.read(|conn| {
            let mut found = open!(withdrawals, ResourceKind::Withdrawal, conn);
            found.extend(open!(refunds, ResourceKind::Refund, conn));
            found.sort_by(|one, other| (one.kind, &one.state).cmp(&(other.kind, &other.state)));
            Ok(found)
        })
        .await
    }
}

fn claim(
    conn: &mut SqliteConnection,
    now: Timestamp,
    until: Timestamp,
    limit: u32,
) -> Result<Vec<FollowUp>, Problem<StoreError>> {
    let most = i64::from(limit);
    let mut found: Vec<Due> = due!(charges, ResourceKind::Charge, now, most, conn).collect();
    found.extend(due!(withdrawals, ResourceKind::Withdrawal, now, most, conn));
    found.extend(due!(refunds, ResourceKind::Refund, now, most, conn));
    found.sort_by_key(|due| (due.at, due.resource));
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut claimed = Vec::with_capacity(found.len());
    for due in found {
        let attempts = codec::number("follow_up_attempts", due.attempts)?.saturating_add(1);
        set(conn, &due, Some(DbTime(until)), attempts)?;
        claimed.push(FollowUp { resource: due.resource, attempts, until });
    }
    Ok(claimed)
}

/// Sets when a record is due next, and how many attempts are behind it, when its place in the list is `was`.
fn set(
    conn: &mut SqliteConnection,
    was: &Due,
    until: Option<DbTime>,
    attempts: u32,
) -> Result<usize, DbError> {
    let (resource, attempts) = (was.resource, i64::from(attempts));
    match resource.kind {
        ResourceKind::Charge => {
            let values = (charges::follow_up_at.eq(until), charges::follow_up_attempts.eq(attempts));
            put_off!(charges, resource, was.at, was.attempts, values, conn)
        }
        ResourceKind::Withdrawal => {
            let values = (withdrawals::follow_up_at.eq(until), withdrawals::follow_up_attempts.eq(attempts));
            put_off!(withdrawals, resource, was.at, was.attempts, values, conn)
        }
        ResourceKind::Refund => {
            let values = (refunds::follow_up_at.eq(until), refunds::follow_up_attempts.eq(attempts));
            put_off!(refunds, resource, was.at, was.attempts, values, conn)
        }
        // Nobody asks about it.
        ResourceKind::Split => Ok(0),
    }
}

/// Whose record in `$table` has this id.
macro_rules! owner_of {
    ($table:ident, $id:expr, $conn:expr) => {
        $table::table
            .filter($table::id.eq($id))
            .select($table::integrator_id)
            .get_result::<DbId>($conn)
            .optional()
            .of(stringify!($table))?
    };
}

/// The owner and the id of the record in `$table` whose id has this part.
macro_rules! bearer_of {
    ($table:ident, $timeless:expr, $conn:expr) => {{
        let found: Option<(DbId, DbId)> = $table::table
            .filter(
                sql::<Bool>("substr(id, 15) = ")
                    .bind::<Text, _>(codec::reference_key($timeless))
                    .sql(" AND substr(id, 15, 1) = '8'"),
            )
            .select(($table::integrator_id, $table::id))
            .first($conn)
            .optional()
            .of(stringify!($table))?;
        found
    }};
}

#[async_trait]
impl LookupStore for SqliteStore {
    async fn find_handle(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        key: &IdempotencyKey,
    ) -> Result<Option<Uuid>, StoreError> {
        let (owner, key) = (DbId::from(integrator_id), key.clone());
        self.read(move |conn| {
            let found =
                handles::table.find((owner, kind.as_str(), key.as_str())).select(handles::resource_id);
            let id: Option<DbId> = found.get_result(conn).optional().of("handles")?;
            Ok(id.map(|id| id.0))
        })
        .await
    }

    async fn find_twins(&self, integrator_id: IntegratorId, key: Uuid) -> Result<Vec<Uuid>, StoreError> {
        let key = (DbId::from(integrator_id), DbId(key));
        self.read(move |conn| {
            let found = twins::table.find(key).select(TwinRow::as_select()).get_result(conn).optional();
            found.of("twins")?.map_or_else(|| Ok(Vec::new()), TwinRow::ids)
        })
        .await
    }

    async fn locate(&self, id: Uuid) -> Result<Option<ResourceRef>, StoreError> {
        self.read(move |conn| {
            if ids::is_timeless(id) {
                let found = match bearer_of!(withdrawals, id, conn) {
                    Some(found) => Some((ResourceKind::Withdrawal, found)),
                    None => bearer_of!(refunds, id, conn).map(|found| (ResourceKind::Refund, found)),
                };
                return Ok(found.map(|(kind, (owner, id))| ResourceRef {
                    integrator_id: IntegratorId(owner.0),
                    kind,
                    id: id.0,
                }));
            }
            let found = if let Some(owner) = owner_of!(charges, DbId(id), conn) {
                Some((ResourceKind::Charge, owner))
            } else if let Some(owner) = owner_of!(withdrawals, DbId(id), conn) {
                Some((ResourceKind::Withdrawal, owner))
            } else {
                owner_of!(refunds, DbId(id), conn).map(|owner| (ResourceKind::Refund, owner))
            };
            Ok(found.map(|(kind, owner)| ResourceRef { integrator_id: IntegratorId(owner.0), kind, id }))
        })
        .await
    }
}
