//! Postbacks: how many the released program delivers to a receiver on this machine, against how many signed bodies of
//! their size can be posted to it at all; and what a million of them that wait cost.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::Value;
use tokio::time::sleep;

use crate::Bench;
use crate::lab::{Applying, Database, stores};
use crate::ops::{CHARGE, Dialect, INTEGRATOR, World, charge_id};
use crate::proc::{cpu_seconds, family_cpu_seconds, peak_mib};
use crate::program::{PROVIDER_SECRET, Process, released, secrets, text};
use crate::receive::{Arrived, Receiver};
use crate::report::Row;

/// Integrators, each of which sends to the receiver: a lane each.
const LANES: u32 = 100;
/// How many are sent at once: the gateway's default, which so many lanes fill.
const AT_ONCE: u32 = 256;
/// Deliveries for each second that is measured or warmed up, and for the start.
const PER_SECOND: u32 = 8_000;
/// A large backlog.
const MANY: u32 = 1_000_000;
/// Rows filled by one statement.
const FILL_STEP: u32 = 250_000;
/// How many a second are enough, however many the machine could post.
const ENOUGH_PER_SECOND: f64 = 2_000.0;
/// Else within so many times the limit.
const WITHIN: f64 = 1.5;
/// The rate of a large backlog is that of a small one within 1.5 times.
const FLOOR_FLAT: f64 = 0.667;
/// And the memory within 1.25 times.
const FLOOR_MEMORY: f64 = 0.8;
/// How long the start of the relay may take of a backlog.
const START: Duration = Duration::from_secs(1);
/// How long the relay works on a large backlog, at the least.
const LONG: Duration = Duration::from_secs(20);
/// How long the first one may take to arrive, and the last.
const ARRIVAL_LIMIT: Duration = Duration::from_mins(1);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(20);
/// A provider that nobody asks, as nothing is due there.
const NO_PROVIDER: &str = "http://127.0.0.1:9";

/// Rates and processor time of a steady while.
struct While {
    per_second: f64,
    /// Of the sender for each, in microseconds.
    sender_micros: f64,
    /// Of the database for each, in microseconds.
    database_micros: f64,
}

/// A database with deliveries that are due.
struct Filled<'a> {
    database: Database<'a>,
    rows: u32,
}

/// Columns that a copy has values of its own in, with these.
type Changed<'a> = &'a [(&'a str, &'a str)];

impl<'a> Filled<'a> {
    /// Paid charges, of every integrator in turn, and the deliveries that tell of them to `url`. The first of each
    /// integrator goes through the store; the others are copies of it.
    fn new(bench: &'a Bench, url: &str, rows: u32) -> anyhow::Result<Self> {
        let filled = Self { database: bench.lab()?.fresh_empty(&bench.runtime)?, rows };
        let world = World { wallets: LANES };
        filled.psql(&world.fill_integrators(Dialect::Postgres))?;
        // The relay's process seals, too: what is in a wallet has to come from its postings.
        filled.psql("UPDATE wallets SET available_cents = 0, held_cents = 0, entries = 0")?;
        bench.runtime.block_on(async {
            let stores = stores(&filled.database.url(), Applying::Grouped).await?;
            for slot in 0..LANES {
                for transition in world.told(slot, url)? {
                    stores.transitions.apply(transition).await?;
                }
            }
            Ok::<_, anyhow::Error>(())
        })?;
        let due = format!("(extract(epoch FROM now()) * 1000000)::bigint - {rows}");
        filled.psql(&format!("UPDATE deliveries SET due_at = {due}"))?;
        let mut from = LANES;
        while from < rows {
            let to = rows.min(from.saturating_add(FILL_STEP));
            filled.copy(from, to, &due)?;
            from = to;
        }
        filled.psql("UPDATE wallets w SET told = (SELECT max(number) FROM events e WHERE e.integrator_id = w.integrator_id)")?;
        for table in ["charges", "events", "deliveries", "wallets"] {
            filled.psql(&format!("VACUUM (FREEZE, ANALYZE) {table}"))?;
        }
        filled.psql("CHECKPOINT")?;
        Ok(filled)
    }

    fn copy(&self, from: u32, to: u32, due: &str) -> anyhow::Result<()> {
        let id = Dialect::Postgres.id(CHARGE, "s");
        let order = format!("'order-' || {}", Dialect::Postgres.hex("s"));
        let number = format!("t.number + s / {LANES}");
        let due = format!("{due} + s");
        let of_events: Changed<'_> = &[("resource_id", &id), ("transition_id", &id), ("number", &number)];
        self.copy_rows("charges", "id", &[("id", &id), ("external_id", &order)], from, to)?;
        self.copy_rows("events", "resource_id", of_events, from, to)?;
        self.copy_rows("deliveries", "resource_id", &[("resource_id", &id), ("due_at", &due)], from, to)
    }

    /// Copies the row of its integrator for every slot. `key` is the column with the charge's id.
    fn copy_rows(
        &self,
        table: &str,
        key: &str,
        changed: Changed<'_>,
        from: u32,
        to: u32,
    ) -> anyhow::Result<()> {
        let columns = self.psql(&format!(
            "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' ORDER BY ordinal_position"
        ))?;
        let columns: Vec<&str> = columns.lines().collect();
        let values = columns.iter().map(|column| {
            let own = changed.iter().find(|(name, _)| name == column);
            own.map_or_else(|| format!("t.{column}"), |(_, value)| (*value).to_owned())
        });
        let values: Vec<String> = values.collect();
        let slots = Dialect::Postgres.series(from, to);
        let first = format!("s % {LANES}");
        let (owner, charge) =
            (Dialect::Postgres.id(INTEGRATOR, &first), Dialect::Postgres.id(CHARGE, &first));
        let told = if table == "events" { " AND t.number IS NOT NULL" } else { "" };
        self.psql(&format!(
            "INSERT INTO {table} ({}) SELECT {} {slots} JOIN {table} t ON t.integrator_id = {owner} \
             AND t.{key} = {charge} AND t.{key} < '{}'{told}",
            columns.join(", "),
            values.join(", "),
            charge_id(LANES)
        ))?;
        Ok(())
    }

    fn psql(&self, sql: &str) -> anyhow::Result<String> {
        self.database.psql(sql)
    }

    fn count(&self, what: &str) -> anyhow::Result<u64> {
        self.database.count(&format!("SELECT count(*) FROM {what}"))
    }

    /// Within how many milliseconds half of the attempts were over, and 99 of 100.
    fn took_ms(&self) -> anyhow::Result<String> {
        let of = |share: f64| format!("percentile_disc({share}) WITHIN GROUP (ORDER BY took_ms)");
        let (half, most) = (of(0.5), of(0.99));
        self.psql(&format!("SELECT 'p50 ' || {half} || ', p99 ' || {most} || ' ms' FROM delivery_attempts"))
    }

    /// Checks that what is delivered has arrived, that nothing is dead, and that the backlog was never empty.
    fn check_some(&self, arrived: u64) -> anyhow::Result<()> {
        let delivered = self.count("deliveries WHERE state = 'delivered'")?;
        let dead = self.count("deliveries WHERE state = 'dead'")?;
        ensure!(
            dead == 0 && delivered <= arrived && arrived < self.rows.into(),
            "of {} postbacks {arrived} arrived, {delivered} are delivered and {dead} are dead",
            self.rows
        );
        Ok(())
    }

    /// Waits until nothing waits, and checks that everything was delivered, each once.
    async fn check_all(&self, receiver: &Receiver) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.count("deliveries WHERE due_at IS NOT NULL")? > 0 {
            ensure!(began.elapsed() < ARRIVAL_LIMIT, "not everything was delivered");
            sleep(LOOK).await;
        }
        let rows = u64::from(self.rows);
        let arrived = receiver.arrived().await?.count;
        let delivered = self.count("deliveries WHERE state = 'delivered'")?;
        let attempts = self.count("delivery_attempts")?;
        ensure!(
            (arrived, delivered, attempts) == (rows, rows, rows),
            "of {rows} postbacks {arrived} arrived and {delivered} are delivered, after {attempts} attempts"
        );
        Ok(())
    }
}

/// Starts the relay of the released program.
fn work(bench: &Bench, database: &str) -> anyhow::Result<Process> {
    let program = released(bench)?;
    let secrets: Value = secrets(&program)?;
    let mut command = Command::new(program);
    command.arg("work");
    for name in ["PIX_TOKEN_KEYS", "PIX_PROVIDER_CALLBACK_SECRET", "PIX_POSTBACK_KEYS"] {
        command.env(name, text(&secrets, &format!("/{name}"))?);
    }
    command.envs([
        ("DATABASE_URL", database),
        ("PIX_ADMIN_LISTEN", "off"),
        ("PIX_PROVIDER_URL", NO_PROVIDER),
        ("PIX_PROVIDER_CLIENT_SECRET", PROVIDER_SECRET),
        ("PIX_POSTBACK_ALLOW_PRIVATE", "loopback"),
        ("PIX_POSTBACK_AT_ONCE", &AT_ONCE.to_string()),
        ("PIX_LOG", "error"),
    ]);
    Process::spawn(&mut command)
}

/// Waits for the first one, warms up, and looks at the receiver for the time of the plan.
async fn watch(bench: &Bench, receiver: &Receiver, sender: u32) -> anyhow::Result<(While, Arrived)> {
    let postmaster = bench.lab()?.postmaster()?;
    let began = Instant::now();
    let before = receiver.arrived().await?.count;
    while receiver.arrived().await?.count == before {
        ensure!(began.elapsed() < ARRIVAL_LIMIT, "nothing arrives");
        sleep(LOOK).await;
    }
    sleep(bench.plan.warm).await;
    let cpu = || (cpu_seconds(sender), family_cpu_seconds(postmaster));
    let (first, first_cpu) = (receiver.arrived().await?, cpu());
    sleep(bench.plan.time).await;
    let (last, last_cpu) = (receiver.arrived().await?, cpu());
    let each = 1e6 / last.count.saturating_sub(first.count).max(1) as f64;
    let measured = While {
        per_second: last.per_second_since(&first),
        sender_micros: (last_cpu.0 - first_cpu.0) * each,
        database_micros: (last_cpu.1 - first_cpu.1) * each,
    };
    Ok((measured, last))
}

/// What can be posted at all.
async fn limit(bench: &Bench, bytes: u64) -> anyhow::Result<While> {
    let receiver = Receiver::start()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["post", "--to", &receiver.address().to_string(), "--bytes", &bytes.to_string()]);
    command.args(["--at-once", &AT_ONCE.to_string()]);
    let sender = Process::spawn(&mut command)?;
    Ok(watch(bench, &receiver, sender.pid()).await?.0)
}

/// What came of a backlog.
struct Worked {
    rows: u32,
    rate: While,
    /// Within how many milliseconds attempts were over.
    took_ms: String,
    /// Bytes of a body.
    bytes: u64,
    /// The relay's most memory, in MiB.
    peak_mib: f64,
}

impl Worked {
    fn note(&self) -> String {
        format!(
            "attempts {}; CPU each: relay {:.0} µs, database {:.0} µs",
            self.took_ms, self.rate.sender_micros, self.rate.database_micros
        )
    }
}

/// A small backlog, delivered to the last one.
fn few(bench: &Bench) -> anyhow::Result<Worked> {
    let time = START + bench.plan.warm + bench.plan.time;
    let rows = u32::try_from(time.as_millis())?.saturating_mul(PER_SECOND / 1_000);
    let receiver = Receiver::start()?;
    let filled = Filled::new(bench, &receiver.url(), rows)?;
    let relay = work(bench, &filled.database.url())?;
    let (rate, arrived) = bench.runtime.block_on(async {
        let watched = watch(bench, &receiver, relay.pid()).await?;
        filled.check_all(&receiver).await?;
        Ok::<_, anyhow::Error>(watched)
    })?;
    let peak_mib = peak_mib(relay.pid())?;
    Ok(Worked { rows, rate, took_ms: filled.took_ms()?, bytes: arrived.mean_bytes(), peak_mib })
}

/// A large backlog, for a while.
fn many(bench: &Bench) -> anyhow::Result<Worked> {
    let receiver = Receiver::start()?;
    let filled = Filled::new(bench, &receiver.url(), MANY)?;
    let began = Instant::now();
    let relay = work(bench, &filled.database.url())?;
    let (rate, arrived) = bench.runtime.block_on(async {
        let watched = watch(bench, &receiver, relay.pid()).await?;
        sleep(LONG.saturating_sub(began.elapsed())).await;
        Ok::<_, anyhow::Error>(watched)
    })?;
    let peak_mib = peak_mib(relay.pid())?;
    drop(relay);
    filled.check_some(bench.runtime.block_on(receiver.arrived())?.count)?;
    Ok(Worked { rows: MANY, rate, took_ms: filled.took_ms()?, bytes: arrived.mean_bytes(), peak_mib })
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let about = format!(
        "`pix-gateway work` as it is released, with its defaults, over paid charges of {LANES} integrators, whose \
         postbacks are due. The receiver is a process of its own with one thread, answers 200 at once, and counts: rates \
         are what it saw. The reference is a process that does nothing but sign bodies of the same size as the gateway \
         does and post them to such a receiver, {AT_ONCE} at once. Of the smaller backlog every postback is then checked \
         to have arrived, once, and to be `delivered`."
    );
    bench.report.section("Postbacks", &about);
    let few = few(bench)?;
    let limit = bench.runtime.block_on(limit(bench, few.bytes))?;
    let note = format!("bodies of {} bytes; CPU of the sender {:.0} µs each", few.bytes, limit.sender_micros);
    bench.report.row(Row::figure("postbacks: signed POSTs alone", limit.per_second, "/s").note(note));
    let name = format!("postbacks: delivered, {} waiting", few.rows);
    let note =
        format!("{}; the floor is {ENOUGH_PER_SECOND}/s, or less: the reference by {WITHIN}", few.note());
    let floor = (1.0 / WITHIN).min(ENOUGH_PER_SECOND / limit.per_second);
    let row = Row::more(name, few.rate.per_second, limit.per_second, "/s").note(note);
    bench.report.row(row.floor((floor * 1_000.0).ceil() / 1_000.0));
    if bench.quick {
        return Ok(());
    }
    let many = many(bench)?;
    let name = format!("postbacks: delivered, {} waiting", many.rows);
    let row = Row::more(name, many.rate.per_second, few.rate.per_second, "/s").floor(FLOOR_FLAT);
    bench.report.row(row.note(format!("{}; the reference is the row above", many.note())));
    let name = format!("postbacks: most memory of the relay, {} waiting", many.rows);
    let row = Row::less(name, many.peak_mib, few.peak_mib, "MiB").floor(FLOOR_MEMORY);
    bench.report.row(row.note(format!("the reference is with {} waiting", few.rows)));
    Ok(())
}
