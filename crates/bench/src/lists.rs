//! How long a page of a list takes, out of many charges of one integrator: the first, one in the middle, and the last.

use anyhow::ensure;
use pix_domain::list::{Cursor, ListQuery, MAX_PER_PAGE};
use pix_domain::metadata::Metadata;
use pix_domain::ports::Stores;
use pix_domain::time::Timestamp;

use crate::Bench;
use crate::lab::{Applying, Database, stores};
use crate::measure::{Client, Turn, drive};
use crate::ops::{AT_MICROS, Dialect, Seed, World, charge_id};
use crate::report::Row;

/// What is asked of a page: single-digit milliseconds, whatever is in the table.
const ASKED_MILLIS: f64 = 10.0;
/// Rows filled by one statement.
const STEP: u32 = 500_000;
/// One charge in so many is pending; the others are paid.
const PENDING_EVERY: u32 = 4;
/// So many shops take turns, each in the metadata of its charges.
const SHOPS: u32 = 10;
/// The charges are a second apart.
const APART_MICROS: i64 = 1_000_000;
/// How many rows the last page has: it isn't full, so that the end has to be found.
const LAST_ROWS: u32 = 60;

/// One integrator, whose charges they all are.
const WORLD: World = World { wallets: 1 };

/// What is asked for: which one in so many charges that is, and the oldest of them.
struct Filter {
    name: &'static str,
    query: ListQuery,
    every: u32,
    oldest: u32,
    /// How many of the oldest slots that the last page looks at are listed.
    last: u32,
}

fn filters(rows: u32) -> anyhow::Result<Vec<Filter>> {
    let mut shop = Metadata::default();
    let taken = shop.insert("shop", "0");
    ensure!(taken.is_ok(), "the metadata of the benchmark is not acceptable");
    let states = |state: &'static str| ListQuery { states: vec![state], ..ListQuery::default() };
    let from = rows / 2;
    let created_from = Some(Timestamp::from_micros(created_at(from)));
    let filter = |name, query, every, oldest, last| Filter { name, query, every, oldest, last };
    Ok(vec![
        filter("no filter", ListQuery::default(), 1, 0, LAST_ROWS),
        filter("status=paid", states("paid"), 1, 0, LAST_ROWS - LAST_ROWS / PENDING_EVERY),
        filter("status=pending", states("pending"), PENDING_EVERY, 0, LAST_ROWS),
        filter(
            "created_from, of the newer half",
            // As the service asks: the charges are a second apart, and the range of ids an hour wider than that of the times.
            ListQuery {
                created_from,
                least_id: Some(charge_id(from.saturating_sub(3_600))),
                ..ListQuery::default()
            },
            1,
            from,
            LAST_ROWS,
        ),
        filter(
            "metadata, of one in ten",
            ListQuery { metadata: shop, ..ListQuery::default() },
            SHOPS,
            0,
            LAST_ROWS,
        ),
    ])
}

fn created_at(slot: u32) -> i64 {
    AT_MICROS + i64::from(slot) * APART_MICROS
}

/// A database with so many charges.
fn fill(bench: &Bench, rows: u32) -> anyhow::Result<Database<'_>> {
    let database = bench.lab()?.fresh_empty(&bench.runtime)?;
    database.psql(&WORLD.fill_integrators(Dialect::Postgres))?;
    let mut from = 0;
    while from < rows {
        let to = rows.min(from.saturating_add(STEP));
        database.psql(&WORLD.fill(Dialect::Postgres, Seed::Paid, from, to))?;
        from = to;
    }
    let slot = "('x' || right(id::text, 8))::bit(32)::int";
    let pending = format!("{slot} % {PENDING_EVERY} = 0");
    let unless = |column: &str| format!("{column} = CASE WHEN {pending} THEN NULL ELSE {column} END");
    let credit =
        ["paid_fee_cents", "first_receipt_key", "paid_at", "late", "payments"].map(unless).join(", ");
    database.psql(&format!(
        "UPDATE charges SET created_at = {AT_MICROS} + {slot}::bigint * {APART_MICROS}, \
         metadata = '{{\"shop\":\"' || {slot} % {SHOPS} || '\"}}', {credit}, \
         state = CASE WHEN {pending} THEN 'pending' ELSE 'paid' END, \
         amount_paid_cents = CASE WHEN {pending} THEN 0 ELSE amount_paid_cents END"
    ))?;
    database.psql("VACUUM (FULL, ANALYZE) charges")?;
    database.psql("CHECKPOINT")?;
    Ok(database)
}

/// Asks for one page, again and again.
struct Reader {
    stores: Stores,
    query: ListQuery,
    /// How many rows it has to have.
    rows: u32,
}

impl Client for Reader {
    async fn turn(&mut self) -> anyhow::Result<Turn> {
        let found = self.stores.charges.list(WORLD.owner(0), &self.query).await?.len();
        ensure!(found == usize::try_from(self.rows)?, "a page of {found} rows, and not of {}", self.rows);
        Ok(Turn::Done)
    }
}

/// The places in a list: what each is called, where it goes on, and how many rows are read there. The service asks for one
/// more than it shows.
fn places(filter: &Filter, rows: u32) -> [(&'static str, Option<Cursor>, u32); 3] {
    let page = MAX_PER_PAGE + 1;
    let before = |slot: u32| Some(Cursor::OlderThan(charge_id(slot)));
    // In the middle of what it lists, and not of all.
    let middle = filter.oldest + (rows - filter.oldest) / 2;
    let last = filter.oldest + LAST_ROWS * filter.every;
    [("first", None, page), ("middle", before(middle), page), ("last", before(last), filter.last)]
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let rows = bench.list_rows;
    ensure!(rows >= 10_000, "a list of fewer than 10,000 charges has no middle to speak of");
    bench.report.section(
        "Lists",
        &format!(
            "A page of {MAX_PER_PAGE} out of {rows} charges of one integrator, read from the store by one client; the \
             figure is the 99th percentile. The reference is what is asked for: {ASKED_MILLIS} ms. *Last* is the last page, \
             which isn't full: the store has to find that there is no more."
        ),
    );
    let mut found = Vec::new();
    {
        let database = fill(bench, rows)?;
        let stores = bench.runtime.block_on(stores(&database.url(), Applying::Grouped))?;
        for filter in filters(rows)? {
            for (place, cursor, page) in places(&filter, rows) {
                let query = ListQuery { cursor, limit: MAX_PER_PAGE + 1, ..filter.query.clone() };
                let reader = Reader { stores: stores.clone(), query, rows: page };
                let measured = bench.runtime.block_on(drive(vec![reader], bench.plan, || (), || ()))?;
                ensure!(measured.done > 0, "not one page within the time: {}, {place}", filter.name);
                let note = format!("p50 {:.2} ms, {} pages", measured.millis(0.5), measured.done);
                let name = format!("lists: {rows} charges, {}, {place} page", filter.name);
                found.push(Row::less(name, measured.millis(0.99), ASKED_MILLIS, "ms").floor(1.0).note(note));
            }
        }
    }
    for row in found {
        bench.report.row(row);
    }
    Ok(())
}
