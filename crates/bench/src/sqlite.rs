//! The embedded store against a plain pool of connections to the same file, as most programs use SQLite: each command in
//! a `BEGIN IMMEDIATE` transaction of its own, with the busy handler of SQLite between them. Both durable
//! (`synchronous=FULL`) and in WAL mode, in one process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anyhow::ensure;
use diesel::connection::SimpleConnection;
use diesel::prelude::{Connection, ExpressionMethods, QueryDsl, RunQueryDsl};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sqlite::SqliteConnection;
use pix_domain::ports::Stores;
use pix_persistence::sqlite::{SqliteOptions, SqliteStore};

use crate::Bench;
use crate::measure::{BlockingClient, Measured, Turn, drive, drive_threads};
use crate::ops::{
    AT_MICROS, DUE_MICROS, Dialect, FEE_CENTS, OUT_CENTS, Op, PAID_CENTS, PAYEE_KEY, PAYER_DOCUMENT,
    PAYER_NAME, Seed, World, charge_id, end_to_end, expires_micros, order, payout, provider_id, qrcode,
    withdrawal_id,
};
use crate::plain::MOVES;
use crate::report::Row;
use crate::store::{StoreClient, slots};

mod lite {
    crate::plain::tables!(diesel::sql_types::Text);
}
use lite::{charges, events, orders, postings, receipts, wallets, withdrawals};

/// Clients at once where a floor holds.
const CLIENTS: u32 = 32;
/// Sizes of the plain pool; the best one is the reference.
const POOLS: [usize; 3] = [1, 8, 32];
const FLOOR_RATE: f64 = 3.0;
/// What 32 writers may wait, in milliseconds.
const P99_MILLIS: f64 = 25.0;
/// The usual busy timeout.
const SETTINGS: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                        PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;";

/// A filled file, to be copied.
struct Template {
    folder: tempfile::TempDir,
    world: World,
    rows: u32,
}

impl Template {
    fn new(world: World, rows: u32) -> anyhow::Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, world, rows })
    }

    /// The filled file of a seed, made by the first who asks.
    fn filled(&self, seed: Seed) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(format!("{seed:?}.db"));
        if !path.exists() {
            SqliteStore::migrate(&path)?;
            let mut conn = connect(&path)?;
            conn.batch_execute("BEGIN")?;
            conn.batch_execute(&self.world.fill_integrators(Dialect::Sqlite))?;
            conn.batch_execute(&self.world.fill(Dialect::Sqlite, seed, 0, self.rows))?;
            conn.batch_execute("COMMIT; PRAGMA wal_checkpoint(TRUNCATE);")?;
        }
        Ok(path)
    }

    /// A fresh copy.
    fn fresh(&self, seed: Seed) -> anyhow::Result<(tempfile::TempDir, PathBuf)> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bench.db");
        fs::copy(self.filled(seed)?, &path)?;
        fs::File::open(&path)?.sync_all()?;
        Ok((folder, path))
    }
}

fn connect(path: &Path) -> anyhow::Result<SqliteConnection> {
    let mut conn = SqliteConnection::establish(&path.to_string_lossy())?;
    conn.batch_execute(SETTINGS)?;
    Ok(conn)
}

/// A plain pool: whoever finds none free waits for one.
struct Pool {
    free: Mutex<Vec<SqliteConnection>>,
    came: Condvar,
}

impl Pool {
    fn new(path: &Path, size: usize) -> anyhow::Result<Self> {
        let free = (0..size).map(|_| connect(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { free: Mutex::new(free), came: Condvar::new() })
    }

    fn with<T>(&self, work: impl FnOnce(&mut SqliteConnection) -> T) -> T {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut conn = loop {
            match free.pop() {
                Some(conn) => break conn,
                None => free = self.came.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(free);
        let result = work(&mut conn);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        self.came.notify_one();
        result
    }
}

/// A client of the plain pool.
struct PlainClient<'a> {
    pool: &'a Pool,
    op: Op,
    world: World,
    next: &'a AtomicU32,
    rows: u32,
}

impl BlockingClient for PlainClient<'_> {
    fn turn(&mut self) -> anyhow::Result<Turn> {
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        if self.op.needs() != Seed::Nothing && slot >= self.rows {
            return Ok(Turn::Dry);
        }
        let does = match self.op {
            Op::Create => create,
            Op::Reserve => reserve,
            _ => settle,
        };
        loop {
            match self.pool.with(|conn| conn.immediate_transaction(|conn| does(conn, self.world, slot))) {
                Ok(()) => return Ok(Turn::Done),
                // The busy handler gave up after its five seconds: the client tries again.
                Err(DieselError::DatabaseError(DatabaseErrorKind::Unknown, why))
                    if why.message().contains("locked") => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn create(conn: &mut SqliteConnection, world: World, slot: u32) -> Result<(), DieselError> {
    let (owner, charge) = (world.owner(slot).to_string(), charge_id(slot).to_string());
    diesel::insert_into(orders::table)
        .values((
            orders::integrator_id.eq(&owner),
            orders::id.eq(&charge),
            orders::version.eq(1_i64),
            orders::external_id.eq(order(slot)),
            orders::external_id_given.eq(true),
            orders::amount_cents.eq(PAID_CENTS),
            orders::payer_name.eq(PAYER_NAME),
            orders::payer_document.eq(PAYER_DOCUMENT),
            orders::fee_version.eq(0_i64),
            orders::state.eq("pending"),
            orders::provider_id.eq(provider_id(slot)),
            orders::qrcode.eq(qrcode(slot)),
            orders::provider_body.eq("{}"),
            orders::amount_paid_cents.eq(0_i64),
            orders::refund_reserved_cents.eq(0_i64),
            orders::refunded_cents.eq(0_i64),
            orders::expires_at.eq(expires_micros()),
            orders::created_at.eq(AT_MICROS),
            orders::updated_at.eq(AT_MICROS),
            orders::follow_up_at.eq(DUE_MICROS),
            orders::follow_up_attempts.eq(0_i64),
        ))
        .execute(conn)?;
    tell(conn, &owner, "charge", &charge, (1, "charge.pending"))
}

fn reserve(conn: &mut SqliteConnection, world: World, slot: u32) -> Result<(), DieselError> {
    let (owner, withdrawal) = (world.owner(slot).to_string(), withdrawal_id(slot).to_string());
    let (available, held, entries): (i64, i64, i64) = wallets::table
        .find(&owner)
        .select((wallets::available_cents, wallets::held_cents, wallets::entries))
        .get_result(conn)?;
    let (available, held, entries) = (available - OUT_CENTS, held + OUT_CENTS, entries + 1);
    if available < 0 {
        return Err(DieselError::RollbackTransaction);
    }
    diesel::insert_into(withdrawals::table)
        .values((
            withdrawals::integrator_id.eq(&owner),
            withdrawals::id.eq(&withdrawal),
            withdrawals::version.eq(1_i64),
            withdrawals::external_id.eq(payout(slot)),
            withdrawals::external_id_given.eq(true),
            withdrawals::amount_cents.eq(OUT_CENTS),
            withdrawals::fee_cents.eq(0_i64),
            withdrawals::fee_version.eq(0_i64),
            withdrawals::payee_name.eq(PAYER_NAME),
            withdrawals::payee_document.eq(PAYER_DOCUMENT),
            withdrawals::payee_key_type.eq("EMAIL"),
            withdrawals::payee_key.eq(PAYEE_KEY),
            withdrawals::state.eq("submitting"),
            withdrawals::returned_cents.eq(0_i64),
            withdrawals::submitted_at.eq(AT_MICROS),
            withdrawals::created_at.eq(AT_MICROS),
            withdrawals::updated_at.eq(AT_MICROS),
            withdrawals::follow_up_at.eq(DUE_MICROS),
            withdrawals::follow_up_attempts.eq(0_i64),
        ))
        .execute(conn)?;
    diesel::insert_into(postings::table)
        .values((
            postings::integrator_id.eq(&owner),
            postings::entry.eq(entries),
            postings::debit.eq("available"),
            postings::credit.eq("held"),
            postings::amount_cents.eq(OUT_CENTS),
            postings::reason.eq("withdrawal_hold"),
            postings::resource_kind.eq("withdrawal"),
            postings::resource_id.eq(&withdrawal),
            postings::available_after_cents.eq(available),
            postings::held_after_cents.eq(held),
            postings::created_at.eq(AT_MICROS),
        ))
        .execute(conn)?;
    diesel::update(wallets::table.find(&owner))
        .set((
            wallets::available_cents.eq(available),
            wallets::held_cents.eq(held),
            wallets::entries.eq(entries),
        ))
        .execute(conn)?;
    tell(conn, &owner, "withdrawal", &withdrawal, (1, "withdrawal.created"))
}

/// Writes an event of a record: its number and its kind.
fn tell(
    conn: &mut SqliteConnection,
    owner: &str,
    of: &str,
    id: &str,
    (sequence, kind): (i64, &str),
) -> Result<(), DieselError> {
    diesel::insert_into(events::table)
        .values((
            events::integrator_id.eq(owner),
            events::resource_kind.eq(of),
            events::resource_id.eq(id),
            events::sequence.eq(sequence),
            events::kind.eq(kind),
            events::created_at.eq(AT_MICROS),
        ))
        .execute(conn)
        .map(drop)
}

fn settle(conn: &mut SqliteConnection, world: World, slot: u32) -> Result<(), DieselError> {
    let (owner, charge) = (world.owner(slot).to_string(), charge_id(slot).to_string());
    let key = end_to_end(slot);
    let (version, state): (i64, String) =
        charges::table.find((&owner, &charge)).select((charges::version, charges::state)).get_result(conn)?;
    if state != "pending" {
        return Err(DieselError::RollbackTransaction);
    }
    let (available, held, entries): (i64, i64, i64) = wallets::table
        .find(&owner)
        .select((wallets::available_cents, wallets::held_cents, wallets::entries))
        .get_result(conn)?;
    diesel::insert_into(receipts::table)
        .values((
            receipts::integrator_id.eq(&owner),
            receipts::receipt_key.eq(&key),
            receipts::charge_id.eq(&charge),
            receipts::number.eq(1_i64),
            receipts::amount_cents.eq(PAID_CENTS),
            receipts::paid_at.eq(AT_MICROS),
            receipts::payer_name.eq(PAYER_NAME),
            receipts::payer_document.eq(PAYER_DOCUMENT),
            receipts::created_at.eq(AT_MICROS),
        ))
        .execute(conn)?;
    diesel::update(charges::table.find((&owner, &charge)))
        .set((
            charges::version.eq(version + 1),
            charges::state.eq("paid"),
            charges::amount_paid_cents.eq(PAID_CENTS),
            charges::paid_fee_cents.eq(FEE_CENTS),
            charges::first_receipt_key.eq(&key),
            charges::paid_by_name.eq(PAYER_NAME),
            charges::paid_by_document.eq(PAYER_DOCUMENT),
            charges::paid_at.eq(AT_MICROS),
            charges::late.eq(false),
            charges::payments.eq(1_i64),
            charges::updated_at.eq(AT_MICROS),
            charges::follow_up_at.eq(None::<i64>),
        ))
        .execute(conn)?;
    let after = [available + PAID_CENTS, available + PAID_CENTS - FEE_CENTS];
    let moves = MOVES.iter().zip([PAID_CENTS, FEE_CENTS]).zip(after).zip(1_i64..);
    for ((((debit, credit, reason), amount), available_after), number) in moves {
        diesel::insert_into(postings::table)
            .values((
                postings::integrator_id.eq(&owner),
                postings::entry.eq(entries + number),
                postings::debit.eq(*debit),
                postings::credit.eq(*credit),
                postings::amount_cents.eq(amount),
                postings::reason.eq(*reason),
                postings::resource_kind.eq("charge"),
                postings::resource_id.eq(&charge),
                postings::available_after_cents.eq(available_after),
                postings::held_after_cents.eq(held),
                postings::created_at.eq(AT_MICROS),
            ))
            .execute(conn)?;
    }
    diesel::update(wallets::table.find(&owner))
        .set((
            wallets::available_cents.eq(available + PAID_CENTS - FEE_CENTS),
            wallets::entries.eq(entries + 2),
        ))
        .execute(conn)?;
    tell(conn, &owner, "charge", &charge, (version + 1, "charge.paid"))
}

fn count_events(path: &Path, op: Op) -> anyhow::Result<u64> {
    let kind = op.event().unwrap_or_default();
    let count: i64 = events::table.filter(events::kind.eq(kind)).count().get_result(&mut connect(path)?)?;
    Ok(u64::try_from(count)?)
}

fn ours(bench: &Bench, template: &Template, op: Op, clients: u32) -> anyhow::Result<Measured> {
    let (_folder, path) = template.fresh(op.needs())?;
    let measured = bench.runtime.block_on(async {
        let stores = Stores::of(Arc::new(SqliteStore::open(&path, SqliteOptions::default())?));
        let clients = StoreClient::several(clients, &stores, template.world, op, template.rows);
        drive(clients, bench.plan, || (), || ()).await
    })?;
    ensure!(measured.refused == 0, "{} of {} were refused", measured.refused, op.name());
    if op.writes() {
        ensure!(count_events(&path, op)? >= measured.done, "what was answered is not there");
    }
    Ok(measured)
}

fn plain(bench: &Bench, template: &Template, op: Op, clients: u32, pool: usize) -> anyhow::Result<Measured> {
    let (_folder, path) = template.fresh(op.needs())?;
    let pool = Pool::new(&path, pool)?;
    let (world, rows) = (template.world, template.rows);
    let next = AtomicU32::new(slots(op, rows).base);
    let client = || PlainClient { pool: &pool, op, world, next: &next, rows };
    let measured = drive_threads((0..clients).map(|_| client()).collect(), bench.plan)?;
    ensure!(count_events(&path, op)? >= measured.done, "what was answered is not there");
    Ok(measured)
}

fn latencies(measured: &Measured) -> String {
    format!(
        "p50 {:.2}, p99 {:.2}, p99.9 {:.2} ms",
        measured.millis(0.5),
        measured.millis(0.99),
        measured.millis(0.999)
    )
}

/// How long `found` took at the 99th percentile, which has a floor.
fn patience(name: &str, found: &Measured) -> Row {
    let row = Row::less(format!("{name}: p99"), found.millis(0.99), P99_MILLIS, "ms");
    row.floor(1.0).note("the reference is the longest it may be")
}

fn compare(bench: &Bench, template: &Template, op: Op, clients: u32) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut reference: f64 = 0.0;
    for size in POOLS {
        let found = plain(bench, template, op, clients, size)?;
        let name = format!("sqlite: {}, plain pool of {size}, {clients} clients", op.name());
        rows.push(Row::figure(name, found.per_second(), "/s").note(latencies(&found)));
        reference = reference.max(found.per_second());
    }
    let found = ours(bench, template, op, clients)?;
    let name = format!("sqlite: {}, {clients} clients", op.name());
    let row = Row::more(&name, found.per_second(), reference, "/s").note(latencies(&found));
    if clients == CLIENTS {
        rows.extend([row.floor(FLOOR_RATE), patience(&name, &found)]);
    } else {
        rows.push(row);
    }
    Ok(rows)
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.section(
        "The embedded store",
        "`SqliteStore`, durable, in one process, one wallet. The reference is a plain pool: a thread a client, a \
         `BEGIN IMMEDIATE` transaction a command, the usual busy timeout of five seconds, the best of three sizes. A charge is made, \
         a payment settled and a withdrawal's money taken by either; the others have none to compare with.",
    );
    let template = Template::new(World { wallets: 1 }, bench.rows)?;
    let counts: &[u32] = if bench.quick { &[CLIENTS] } else { &[1, 8, CLIENTS] };
    for clients in counts {
        bench.judge(|bench| compare(bench, &template, Op::Settle, *clients))?;
    }
    for op in Op::ALL.into_iter().filter(|op| *op != Op::Settle) {
        if bench.quick && op != Op::Create {
            continue;
        }
        if matches!(op, Op::Create | Op::Reserve) {
            bench.judge(|bench| compare(bench, &template, op, CLIENTS))?;
            continue;
        }
        bench.judge(|bench| {
            let found = ours(bench, &template, op, CLIENTS)?;
            let name = format!("sqlite: {}, {CLIENTS} clients", op.name());
            let row = Row::figure(&name, found.per_second(), "/s").note(latencies(&found));
            let writes = op.writes();
            Ok([row].into_iter().chain(writes.then(|| patience(&name, &found))).collect())
        })?;
    }
    Ok(())
}
