//! What operators are told of the store.

use diesel::prelude::{BoolExpressionMethods, ExpressionMethods, QueryDsl, RunQueryDsl};
use diesel::sqlite::SqliteConnection;
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::time::Timestamp;

use super::SqliteStore;
use super::error::{Of, Problem};
use crate::codec::{self, DbId, DbTime, UNCERTAIN_STATES};
use crate::schema::{callbacks, charges, deliveries, facts, refunds, wallets, withdrawals};
use crate::vitals::{MAX_COUNTED, Overdue, PoolUse, Vitals, oldest};

/// The name of no fact: see [`SqliteStore::check_writable`].
const NO_FACT: &str = "nothing";

/// What of `$table` is overdue at `$now`.
macro_rules! overdue {
    ($table:ident . $column:ident, $now:expr, $conn:expr) => {{
        let due = $table::table
            .filter($table::$column.le(DbTime($now)))
            .select($table::$column)
            .limit(MAX_COUNTED.into());
        let due: Vec<Option<DbTime>> = due.load($conn).of(stringify!($table))?;
        due.into_iter().flatten().map(|at| at.0).collect::<Vec<Timestamp>>()
    }};
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
            .load($conn)
            .of(stringify!($table))?;
        rows.into_iter().map(|(owner, id, at)| {
            (at.0, ResourceRef { integrator_id: IntegratorId(owner.0), kind: $kind, id: id.0 })
        })
    }};
}

fn of(due: &[Timestamp]) -> Overdue {
    Overdue { count: u64::try_from(due.len()).unwrap_or(u64::MAX), since: due.iter().min().copied() }
}

fn vitals(conn: &mut SqliteConnection, now: Timestamp) -> Result<Vitals, StoreError> {
    let mut sums = [0_u64; 3];
    let rows: Vec<(i64, i64, i64)> = wallets::table
        .select((wallets::available_cents, wallets::held_cents, wallets::owed_cents))
        .load(conn)
        .of("wallets")?;
    for (available, held, owed) in rows {
        for (sum, cents) in sums.iter_mut().zip([available, held, owed]) {
            *sum = sum.saturating_add(codec::quantity("wallets", cents)?);
        }
    }
    let [available_cents, held_cents, owed_cents] = sums;
    let mut follow_ups = overdue!(charges.follow_up_at, now, conn);
    follow_ups.extend(overdue!(withdrawals.follow_up_at, now, conn));
    follow_ups.extend(overdue!(refunds.follow_up_at, now, conn));
    Ok(Vitals {
        available_cents,
        held_cents,
        owed_cents,
        follow_ups: of(&follow_ups),
        callbacks: of(&overdue!(callbacks.due_at, now, conn)),
        deliveries: of(&overdue!(deliveries.due_at, now, conn)),
    })
}

impl SqliteStore {
    /// How the database is at `now`.
    pub async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        self.read(move |conn| vitals(conn, now)).await
    }

    /// Withdrawals and refunds whose outcome nobody knows, those that were sent first before the others, at most `limit`.
    pub async fn uncertain(&self, limit: u32) -> Result<Vec<ResourceRef>, StoreError> {
        self.read(move |conn| {
            let mut found: Vec<_> = uncertain!(withdrawals, ResourceKind::Withdrawal, limit, conn).collect();
            found.extend(uncertain!(refunds, ResourceKind::Refund, limit, conn));
            Ok(oldest(found, limit))
        })
        .await
    }

    /// Whether the file takes writes: the writer takes its lock and updates no row, which writes nothing.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        self.write(|conn| -> Result<(), Problem<StoreError>> {
            let none = diesel::update(facts::table.find(NO_FACT)).set(facts::value.eq(""));
            none.execute(conn).of("facts")?;
            Ok(())
        })
        .await
    }

    /// How the readers and the queue of the writer are used.
    pub fn pools(&self) -> Vec<PoolUse> {
        vec![self.reader.pool_use(), self.writer.queue_use()]
    }
}
