//! Whether a command costs the same when there is much: more rows, more integrators.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::ensure;
use pix_domain::ports::Stores;

use crate::Bench;
use crate::lab::{Applying, Lab, stores};
use crate::measure::{Client, Turn, drive};
use crate::ops::{
    AT_MICROS, Dialect, FRESH, OUT_CENTS, Op, PAID_CENTS, PAYER_DOCUMENT, PAYER_NAME, Seed, World,
};
use crate::proc::memory_mib;
use crate::program::Gateway;
use crate::report::Row;
use crate::store::StoreClient;

/// Rows in each large table.
const SIZES: [u32; 3] = [1_000, 100_000, 10_000_000];
/// With so many integrators.
const INTEGRATORS: u32 = 10;
/// Integrators, with rows as in the middle size.
const OWNERS: [u32; 3] = [1, 10, 10_000];
/// Rows that a command uses up: they come right before it.
const WORK: u32 = 60_000;
/// In this order, so that what uses rows up comes last.
const ORDER: [Op; 7] = [Op::Consult, Op::List, Op::Create, Op::Reserve, Op::Settle, Op::Release, Op::Refund];
/// How far the next record that is read is from the last one: all of them, in no order (Knuth's multiplicative hash).
const STRIDE: u32 = 2_654_435_761;
/// Where the paid charges begin, that refunds use.
const PAID: u32 = 0x2000_0000;
/// Where the rows of bulk begin: nothing is done to them.
const BULK: u32 = 0x1000_0000;
/// Rows filled by one statement.
const STEP: u32 = 500_000;
/// How far apart what attempts make is.
const APART: u32 = 0x0100_0000;
const CLIENTS: u32 = 8;
/// A page of PostgreSQL.
const PAGE_BYTES: f64 = 8192.0;
const GIB_BYTES: f64 = 1_073_741_824.0;
/// Flat within 1.5 times.
const FLOOR: f64 = 0.667;

/// Fills a fresh database; its name. Indexes that are no constraint are made afterwards, which is quicker.
fn fill(bench: &Bench, lab: &Lab, world: World, rows: u32) -> anyhow::Result<String> {
    let name = lab.empty(&bench.runtime)?;
    let server = lab.server();
    let of_tables = "schemaname = 'public' AND tablename IN ('charges', 'withdrawals', 'receipts', 'refunds') AND indexname NOT IN \
                     (SELECT conname FROM pg_constraint)";
    let made = server.psql(&name, &format!("SELECT indexdef FROM pg_indexes WHERE {of_tables}"))?;
    let dropped = server.psql(
        &name,
        &format!("SELECT 'DROP INDEX ' || indexname || ';' FROM pg_indexes WHERE {of_tables}"),
    )?;
    server.psql(&name, &dropped)?;
    server.psql(&name, &world.fill_integrators(Dialect::Postgres))?;
    let mut from = 0;
    while from < rows {
        let to = rows.min(from.saturating_add(STEP));
        let (first, last) = (BULK + from, BULK + to);
        server.psql(&name, &world.fill(Dialect::Postgres, Seed::Paid, first, last))?;
        server.psql(&name, &world.fill(Dialect::Postgres, Seed::Submitting, first, last))?;
        server.psql(&name, &history(world, from, to))?;
        from = to;
    }
    server.psql(
        &name,
        "UPDATE wallets w SET entries = (SELECT count(*) FROM postings p WHERE p.integrator_id = w.integrator_id)",
    )?;
    for index in made.lines() {
        server.psql(&name, &format!("SET maintenance_work_mem = '1GB'; {index}"))?;
    }
    for table in ["charges", "withdrawals", "postings", "events", "wallets", "receipts", "refunds"] {
        server.psql(&name, &format!("VACUUM (FREEZE, ANALYZE) {table}"))?;
    }
    server.psql(&name, "CHECKPOINT")?;
    Ok(name)
}

/// Postings, events, receipts and refunds of the bulk.
fn history(world: World, from: u32, to: u32) -> String {
    let wallets = world.wallets.max(1);
    let owner =
        format!("('00000000-0000-7000-8000-00ff' || lpad(to_hex(({BULK} + s) % {wallets}), 8, '0'))::uuid");
    let charge = format!("('00000000-0000-7000-8000-0001' || lpad(to_hex({BULK} + s), 8, '0'))::uuid");
    let slots = format!("FROM generate_series({from}, {to} - 1) s");
    let mut text = String::new();
    let _ = writeln!(
        text,
        "INSERT INTO postings (integrator_id, entry, debit, credit, amount_cents, reason, resource_kind, resource_id, \
         available_after_cents, held_after_cents, created_at) SELECT {owner}, 1 + s / {wallets}, 'clearing', \
         'available', 1, 'charge_paid', 'charge', {charge}, 1, 1, {AT_MICROS} {slots};"
    );
    let _ = writeln!(
        text,
        "INSERT INTO receipts (integrator_id, receipt_key, charge_id, number, amount_cents, paid_at, payer_name, payer_document, \
         created_at) SELECT {owner}, 'E12345678202611211200000' || lpad(to_hex({BULK} + s), 8, '0'), {charge}, 1, {PAID_CENTS}, {AT_MICROS}, \
         '{PAYER_NAME}', '{PAYER_DOCUMENT}', {AT_MICROS} {slots};"
    );
    let _ = writeln!(
        text,
        "INSERT INTO refunds (integrator_id, id, version, charge_id, charge_provider_id, external_id, external_id_given, amount_cents, \
         amount_given, fee_cents, fee_version, state, submitted_at, created_at, updated_at, follow_up_attempts) \
         SELECT {owner}, ('00000000-0000-7000-8000-0003' || lpad(to_hex({BULK} + s), 8, '0'))::uuid, 1, {charge}, \
         'provider-' || lpad(to_hex({BULK} + s), 8, '0'), 'refund-' || lpad(to_hex({BULK} + s), 8, '0'), true, {OUT_CENTS}, true, 0, 0, 'completed', {AT_MICROS}, {AT_MICROS}, {AT_MICROS}, \
         0 {slots};"
    );
    let _ = writeln!(
        text,
        "INSERT INTO events (integrator_id, resource_kind, resource_id, sequence, kind, created_at, transition_id) \
         SELECT {owner}, 'charge', {charge}, 1, 'charge.pending', {AT_MICROS}, {charge} {slots};"
    );
    text
}

/// A filled database.
struct Filled {
    name: String,
    world: World,
    rows: u32,
}

/// A client that reads any of the rows of bulk.
#[derive(Clone)]
struct Reader {
    stores: Stores,
    world: World,
    op: Op,
    rows: u32,
    next: Arc<AtomicU32>,
}

impl Client for Reader {
    async fn turn(&mut self) -> anyhow::Result<Turn> {
        let number = self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(STRIDE);
        self.world.run(&self.stores, self.op, BULK + number % self.rows.max(1)).await.map(Turn::from)
    }
}

impl Filled {
    fn new(bench: &Bench, wallets: u32, rows: u32) -> anyhow::Result<Self> {
        let world = World { wallets };
        Ok(Self { name: fill(bench, bench.lab()?, world, rows)?, world, rows })
    }

    /// Reads once what lookups of charges read, from the disk where it is not in memory, which may hold less than all tables
    /// together. What that takes, in GiB.
    fn read_through(&self, bench: &Bench) -> anyhow::Result<f64> {
        let server = bench.lab()?.server();
        server.psql(&self.name, "CREATE EXTENSION IF NOT EXISTS pg_prewarm")?;
        let all = "SELECT pg_prewarm('charges', 'read') + pg_prewarm('charges_pkey', 'read')";
        let pages: f64 = server.psql(&self.name, all)?.trim().parse()?;
        Ok(pages * PAGE_BYTES / GIB_BYTES)
    }

    /// The rate of lookups as the fill left the memory, and what they read from, in GiB.
    fn lookups_unread(&self, bench: &Bench) -> anyhow::Result<(f64, f64)> {
        Ok((self.reads(bench, Op::Consult)?, self.read_through(bench)?))
    }

    fn reads(&self, bench: &Bench, op: Op) -> anyhow::Result<f64> {
        let url = bench.lab()?.server().url(&self.name);
        let stores = bench.runtime.block_on(stores(&url, Applying::Grouped))?;
        let next = Arc::new(AtomicU32::new(0));
        let reader = Reader { stores, world: self.world, op, rows: self.rows, next };
        let readers = (0..CLIENTS).map(|_| reader.clone()).collect();
        Ok(bench.runtime.block_on(drive(readers, bench.plan, || (), || ()))?.per_second())
    }

    /// The rate of a command; each attempt uses up rows of its own.
    fn rate(&self, bench: &Bench, op: Op, attempt: u32) -> anyhow::Result<f64> {
        if !op.writes() {
            self.read_through(bench)?;
            return self.reads(bench, op);
        }
        let server = bench.lab()?.server();
        let base = match (op.needs(), op) {
            (Seed::Nothing, _) => FRESH,
            (_, Op::Refund) => PAID,
            _ => 0,
        };
        let first = base + attempt * WORK;
        if op.needs() != Seed::Nothing {
            server.psql(&self.name, &self.world.fill(Dialect::Postgres, op.needs(), first, first + WORK))?;
            server.psql(&self.name, "VACUUM charges")?;
            server.psql(&self.name, "VACUUM withdrawals")?;
        }
        let stores = bench.runtime.block_on(stores(&server.url(&self.name), Applying::Grouped))?;
        let clients = if op.needs() == Seed::Nothing {
            StoreClient::from(CLIENTS, &stores, self.world, op, base + attempt * APART, u32::MAX)
        } else {
            StoreClient::from(CLIENTS, &stores, self.world, op, first, first + WORK)
        };
        let measured = bench.runtime.block_on(drive(clients, bench.plan, || (), || ()))?;
        ensure!(measured.refused == 0, "{} of {} were refused", measured.refused, op.name());
        Ok(measured.per_second())
    }

    /// The rate of each command, in the order of [`Op::ALL`].
    fn rates(&self, bench: &Bench) -> anyhow::Result<Vec<f64>> {
        let mut rates = BTreeMap::new();
        for op in ORDER {
            rates.insert(op.name(), self.rate(bench, op, 0)?);
        }
        Ok(Op::ALL.into_iter().filter_map(|op| rates.get(op.name()).copied()).collect())
    }

    fn forget(self, bench: &Bench) -> anyhow::Result<()> {
        Ok(bench.lab()?.server().drop_database(&self.name)?)
    }
}

/// Compares the rates of one database with those of another; what is near its floor is measured on both again.
fn rows_of(
    bench: &mut Bench,
    (found, rates): (&Filled, &[f64]),
    (base, reference): &(Filled, Vec<f64>),
    attempts: &mut u32,
    (case, of): (&str, &str),
) -> anyhow::Result<()> {
    for ((op, rate), before) in Op::ALL.into_iter().zip(rates).zip(reference) {
        let mut at_hand = Some((*rate, *before));
        bench.judge(|bench| {
            let again = || {
                *attempts += 1;
                Ok::<_, anyhow::Error>((found.rate(bench, op, *attempts)?, base.rate(bench, op, *attempts)?))
            };
            let (rate, before) = at_hand.take().map_or_else(again, Ok)?;
            let row = Row::more(format!("growth: {}, {case}", op.name()), rate, before, "/s");
            Ok(vec![row.floor(FLOOR).note(of)])
        })?;
    }
    Ok(())
}

/// The rate of lookups, of those of all commands.
fn lookups(rates: &[f64]) -> f64 {
    let of_all = Op::ALL.into_iter().zip(rates).find(|(op, _)| *op == Op::Consult);
    of_all.map_or(0.0, |(_, rate)| *rate)
}

/// The first one is what the others are compared with; they are dropped.
fn keep_first(
    bench: &Bench,
    base: &mut Option<(Filled, Vec<f64>)>,
    filled: Filled,
    rates: Vec<f64>,
) -> anyhow::Result<()> {
    if base.is_some() {
        return filled.forget(bench);
    }
    *base = Some((filled, rates));
    Ok(())
}

/// What the gateway takes to start on a database.
fn started(bench: &mut Bench, url: &str, case: &str) -> anyhow::Result<()> {
    let gateway = Gateway::start(bench, url)?;
    let millis = gateway.ready_after.as_secs_f64() * 1e3;
    let memory = memory_mib(gateway.pid())?;
    bench.report.row(Row::figure(format!("growth: start to ready, {case}"), millis, "ms"));
    bench.report.row(Row::figure(format!("growth: memory at start, {case}"), memory, "MiB"));
    Ok(())
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let about = format!(
        "Each command from {CLIENTS} clients, grouped, with so many rows in `charges`, `withdrawals`, `receipts`, `refunds`, \
         `postings` and `events` each, over {INTEGRATORS} integrators. Reads come first and read any of them, after `charges` and its primary key were read \
         through once (`pg_prewarm`): all tables together may be more than memory holds. *As the fill left it* is without that. What \
         a command uses up ({WORK} rows) comes right before it, so that the tables of the later ones hold that much more. The \
         reference is the smallest; flat within 1.5 times."
    );
    bench.report.section("Growth", &about);
    let (mut base, mut attempts): (Option<(Filled, Vec<f64>)>, u32) = (None, 0);
    let most = bench.most_rows;
    for rows in SIZES.into_iter().filter(|rows| *rows <= most) {
        let filled = Filled::new(bench, INTEGRATORS, rows)?;
        let (unread, gib) = filled.lookups_unread(bench)?;
        let rates = filled.rates(bench)?;
        if let Some(base) = &base {
            let case = format!("{rows} rows");
            let name = format!("growth: {}, {case}, as the fill left it", Op::Consult.name());
            let note = format!("of the rate at 1,000 rows; `charges` and its primary key take {gib:.1} GiB");
            bench.report.row(Row::more(name, unread, lookups(&base.1), "/s").note(note));
            rows_of(bench, (&filled, &rates), base, &mut attempts, (&case, "of the rate at 1,000 rows"))?;
        }
        let url = bench.lab()?.server().url(&filled.name);
        started(bench, &url, &format!("{rows} rows"))?;
        keep_first(bench, &mut base, filled, rates)?;
    }
    if let Some((filled, _)) = base {
        filled.forget(bench)?;
    }
    let (mut base, mut attempts) = (None, 0);
    for wallets in OWNERS {
        let filled = Filled::new(bench, wallets, most.min(100_000))?;
        let rates = filled.rates(bench)?;
        if let Some(base) = &base {
            let case = format!("{wallets} integrators");
            rows_of(bench, (&filled, &rates), base, &mut attempts, (&case, "of the rate with 1 integrator"))?;
        }
        let url = bench.lab()?.server().url(&filled.name);
        started(bench, &url, &format!("{wallets} integrators"))?;
        keep_first(bench, &mut base, filled, rates)?;
    }
    if let Some((filled, _)) = base {
        filled.forget(bench)?;
    }
    Ok(())
}
