//! The store over PostgreSQL against the limit of the database: the same statement, by `pgbench`, over as many connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::ensure;
use pix_domain::ports::Stores;

use crate::Bench;
use crate::lab::{Applying, Database, stores};
use crate::measure::{Client, Measured, Turn, drive};
use crate::ops::{FRESH, FUNDS_CENTS, Op, Seed, World};
use crate::pgbench::{self, Slots};
use crate::proc::family_cpu_seconds;
use crate::report::Row;

/// Against `pgbench`, one by one.
const FLOOR_ONE_BY_ONE: f64 = 0.8;
/// In groups against `pgbench`, at the most clients, of what moves money in a wallet: one wallet, and many.
const FLOOR_GROUPED_HOT: f64 = 10.0;
const FLOOR_GROUPED_MANY: f64 = 2.0;
/// Past the last slot that is never reached.
const NO_WRAP: u32 = 0x7fff_ffff;

/// A client of a store.
#[derive(Clone)]
pub struct StoreClient {
    stores: Stores,
    world: World,
    op: Op,
    next: Arc<AtomicU32>,
    rows: u32,
}

impl StoreClient {
    /// `clients` of them, that take turns with the slots of `op`.
    pub fn several(clients: u32, stores: &Stores, world: World, op: Op, rows: u32) -> Vec<Self> {
        Self::from(clients, stores, world, op, slots(op, rows).base, rows)
    }

    /// The same, beginning with the slot `first`.
    pub fn from(clients: u32, stores: &Stores, world: World, op: Op, first: u32, rows: u32) -> Vec<Self> {
        let next = Arc::new(AtomicU32::new(first));
        let client = Self { stores: stores.clone(), world, op, next, rows };
        (0..clients).map(|_| client.clone()).collect()
    }
}

impl Client for StoreClient {
    async fn turn(&mut self) -> anyhow::Result<Turn> {
        let mut slot = self.next.fetch_add(1, Ordering::Relaxed);
        if self.op.needs() != Seed::Nothing && slot >= self.rows {
            if self.op.writes() {
                return Ok(Turn::Dry);
            }
            slot %= self.rows;
        }
        self.world.run(&self.stores, self.op, slot).await.map(Turn::from)
    }
}

/// Which slots a command uses when there are `rows`.
pub fn slots(op: Op, rows: u32) -> Slots {
    match (op.needs(), op.writes()) {
        (Seed::Nothing, _) => Slots { base: FRESH, wrap: NO_WRAP },
        (_, true) => Slots { base: 0, wrap: NO_WRAP },
        (_, false) => Slots { base: 0, wrap: rows.max(1) },
    }
}

/// Whether every wallet is the sum of its postings, and the book has no gaps.
pub fn check_books(database: &Database<'_>) -> anyhow::Result<()> {
    let side = |account: &str| {
        format!(
            "coalesce(sum(amount_cents) FILTER (WHERE credit = '{account}'), 0) \
             - coalesce(sum(amount_cents) FILTER (WHERE debit = '{account}'), 0)"
        )
    };
    let (available, held) = (side("available"), side("held"));
    let wrong = database.count(&format!(
        "SELECT count(*) FROM wallets w LEFT JOIN (SELECT integrator_id, {available} AS a, {held} AS h, \
         count(*) AS n, max(entry) AS last FROM postings GROUP BY integrator_id) p USING (integrator_id) \
         WHERE w.available_cents <> {FUNDS_CENTS} + coalesce(a, 0) OR w.held_cents <> {FUNDS_CENTS} + coalesce(h, 0) \
         OR w.entries <> coalesce(n, 0) OR w.entries <> coalesce(last, 0)"
    ))?;
    ensure!(wrong == 0, "{wrong} wallets are not the sum of their postings");
    Ok(())
}

fn check_events(database: &Database<'_>, op: Op, least: u64, what: &str) -> anyhow::Result<()> {
    let Some(kind) = op.event() else { return Ok(()) };
    let happened = database.count(&format!("SELECT count(*) FROM events WHERE kind = '{kind}'"))?;
    ensure!(
        happened >= least,
        "{what} says that {least} were done ({}), and {happened} were: it ran out of rows",
        op.name()
    );
    Ok(())
}

/// Measures a store on a fresh database: what was done, and the database's processor time for each, in microseconds.
fn measure(
    bench: &Bench,
    world: World,
    op: Op,
    clients: u32,
    applying: Applying,
) -> anyhow::Result<(Measured, f64)> {
    let lab = bench.lab()?;
    let rows = bench.rows;
    let database = lab.fresh(&bench.runtime, world, op.needs(), rows)?;
    let postmaster = lab.postmaster()?;
    let mut cpu = (0.0, 0.0);
    let measured = bench.runtime.block_on(async {
        let stores = stores(&database.url(), applying).await?;
        let clients = StoreClient::several(clients, &stores, world, op, rows);
        let (begin, end) = (&mut cpu.0, &mut cpu.1);
        let counting = || *begin = family_cpu_seconds(postmaster);
        drive(clients, bench.plan, counting, || *end = family_cpu_seconds(postmaster)).await
    })?;
    ensure!(measured.refused == 0, "{} of {} were refused", measured.refused, op.name());
    check_events(&database, op, measured.done, "the store")?;
    if op.writes() {
        check_books(&database)?;
    }
    Ok((measured.clone(), (cpu.1 - cpu.0) * 1e6 / measured.done.max(1) as f64))
}

/// Measures `pgbench` on a fresh database: its rate, and the database's processor time for each, in microseconds.
fn limit(bench: &Bench, world: World, op: Op, clients: u32) -> anyhow::Result<(f64, f64)> {
    let lab = bench.lab()?;
    let script = pgbench::script(lab, &bench.runtime, world, op)?;
    let database = lab.fresh(&bench.runtime, world, op.needs(), bench.rows)?;
    let postmaster = lab.postmaster()?;
    let (mut begin, mut end) = (0.0, 0.0);
    let counting = || begin = family_cpu_seconds(postmaster);
    let counted = || end = family_cpu_seconds(postmaster);
    let rate = script.run(&database, clients, slots(op, bench.rows), bench.plan, counting, counted)?;
    let cpu = (end - begin) * 1e6 / (rate.per_second * rate.seconds).max(1.0);
    check_events(&database, op, rate.done, "pgbench")?;
    if op.writes() {
        check_books(&database)?;
    }
    Ok((rate.per_second, cpu))
}

fn compare(bench: &mut Bench, world: World, op: Op, clients: u32, most_clients: bool) -> anyhow::Result<()> {
    let whose = if world.wallets == 1 { "1 wallet".to_owned() } else { format!("{} wallets", world.wallets) };
    let case = format!("{}, {whose}, {clients} clients", op.name());
    let first = limit(bench, world, op, clients)?;
    let connections = usize::try_from(clients)?;
    // The first try of either way is compared with the same measurement of `pgbench`.
    let mut at_hand = Some(first);
    bench.judge(|bench| {
        let (limit, limit_cpu) = at_hand.take().map_or_else(|| limit(bench, world, op, clients), Ok)?;
        let (single, cpu) = measure(bench, world, op, clients, Applying::OneByOne(connections))?;
        let note = format!(
            "p50 {:.2} ms, p99 {:.2} ms; database CPU {cpu:.0} µs each, pgbench {limit_cpu:.0}",
            single.millis(0.5),
            single.millis(0.99)
        );
        let row = Row::more(format!("store: {case}, one by one"), single.per_second(), limit, "/s");
        Ok(vec![row.floor(FLOOR_ONE_BY_ONE).note(note)])
    })?;
    // A list is read alone however the store is opened.
    if op == Op::List {
        return Ok(());
    }
    let mut at_hand = Some(first);
    bench.judge(|bench| {
        let (limit, _) = at_hand.take().map_or_else(|| limit(bench, world, op, clients), Ok)?;
        let (grouped, cpu) = measure(bench, world, op, clients, Applying::Grouped)?;
        let note = format!(
            "p50 {:.2} ms, p99 {:.2} ms; database CPU {cpu:.0} µs each",
            grouped.millis(0.5),
            grouped.millis(0.99)
        );
        let row = Row::more(format!("store: {case}, grouped"), grouped.per_second(), limit, "/s").note(note);
        let floor = if world.wallets == 1 { FLOOR_GROUPED_HOT } else { FLOOR_GROUPED_MANY };
        Ok(vec![if op.moves_money() && most_clients { row.floor(floor) } else { row }])
    })
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.section(
        "The store against the database's own limit",
        "`PgStore` called from concurrent tasks; the reference is `pgbench -M prepared`, which executes the very statement \
         that the store executes (taken from the server's log), one at a time, over as many connections as there are \
         clients and with the same settings. *Grouped* is the store as the gateway runs it. After each run the books are \
         checked.",
    );
    let quick = [Op::Create, Op::Settle];
    let of_form: &[Op] = if bench.quick { &quick } else { &Op::ALL };
    let ops = if bench.ops.is_empty() { of_form.to_vec() } else { bench.ops.clone() };
    let counts: &[u32] = if bench.quick { &[32] } else { &[1, 8, 32] };
    for wallets in [1, 1000] {
        for op in &ops {
            for clients in counts {
                compare(bench, World { wallets }, *op, *clients, *clients == 32)?;
            }
        }
        bench.lab()?.forget()?;
    }
    Ok(())
}
