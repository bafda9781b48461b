//! What operators are told of the store.

use diesel::prelude::{ExpressionMethods, QueryDsl, RunQueryDsl};
use diesel::sqlite::SqliteConnection;
use pix_domain::error::StoreError;
use pix_domain::time::Timestamp;

use super::SqliteStore;
use super::error::{Of, Problem};
use crate::codec::{self, DbTime};
use crate::schema::{callbacks, charges, deliveries, facts, refunds, wallets, withdrawals};
use crate::vitals::{MAX_COUNTED, Overdue, PoolUse, Vitals};

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
