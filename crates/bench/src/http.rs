//! Settling over HTTP: the store behind a handler, against the limit of the HTTP stack and against what most gateways do.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::Bench;
use crate::load::{Connection, Next, request};
use crate::measure::{Client, Measured, Plan, drive};
use crate::ops::{Op, PAID_CENTS, Seed, World, charge_id, end_to_end};
use crate::proc::{cpu_seconds, family_cpu_seconds};
use crate::report::Row;
use crate::serve::{Handler, told};
use crate::store::check_books;

/// Connections of the load where a floor holds.
const CONNECTIONS: u32 = 32;
const FLOOR_RATE: f64 = 20.0;
const FLOOR_P99: f64 = 10.0;
/// Settlements while instructions are counted: the second less the first is what is told.
const COUNTED: [u32; 2] = [1_000, 4_000];
/// How long that may take.
const LONGEST_COUNT: Duration = Duration::from_mins(5);

/// What a run over HTTP cost and brought.
#[derive(Clone)]
pub struct OverHttp {
    /// What the load saw.
    pub measured: Measured,
    /// Processor time of the server for each request, in microseconds.
    pub server_micros: f64,
    /// Processor time of the database for each request, in microseconds.
    pub database_micros: f64,
    /// Processor time of the load itself for each request, in microseconds.
    pub load_micros: f64,
}

impl OverHttp {
    /// Measures the load on a server.
    pub async fn measure(
        bench: &Bench,
        server: u32,
        connections: Vec<impl Client>,
        postmaster: Option<u32>,
    ) -> anyhow::Result<Self> {
        let load = std::process::id();
        let read = || [cpu_seconds(server), postmaster.map_or(0.0, family_cpu_seconds), cpu_seconds(load)];
        let (mut begin, mut end) = ([0.0; 3], [0.0; 3]);
        let measured = drive(connections, bench.plan, || begin = read(), || end = read()).await?;
        let each = 1e6 / measured.done.max(1) as f64;
        Ok(Self {
            measured,
            server_micros: (end[0] - begin[0]) * each,
            database_micros: (end[1] - begin[1]) * each,
            load_micros: (end[2] - begin[2]) * each,
        })
    }

    /// What a row says beside the rate.
    pub fn note(&self) -> String {
        format!(
            "p50 {:.2}, p99 {:.2}, p99.9 {:.2} ms; CPU each: server {:.0} µs, database {:.0} µs, load {:.0} µs",
            self.measured.millis(0.5),
            self.measured.millis(0.99),
            self.measured.millis(0.999),
            self.server_micros,
            self.database_micros,
            self.load_micros
        )
    }
}

/// A server in a process of its own. It ends when it is dropped.
pub struct Served {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Served {
    /// Starts this program with these arguments, which has its first line be the port that it listens on.
    pub fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::spawn(Command::new(std::env::current_exe()?).args(arguments))
    }

    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().context("the server has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let served = line.trim().parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
        if let Some(address) = served {
            return Ok(Self { child, address });
        }
        drop(child.kill());
        anyhow::bail!("the server does not start: {command:?}")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Requests that tell of the payments of one slot after another.
fn payments(world: World, rows: u32) -> Next {
    let next = AtomicU32::new(0);
    Arc::new(move || {
        let slot = next.fetch_add(1, Ordering::Relaxed);
        (slot < rows).then(|| {
            let body = told(world.owner(slot).0, charge_id(slot), &end_to_end(slot), PAID_CENTS);
            request("POST", "/settle", "", &body)
        })
    })
}

fn settle(bench: &Bench, handler: Handler, world: World, connections: u32) -> anyhow::Result<OverHttp> {
    let lab = bench.lab()?;
    let database = lab.fresh(&bench.runtime, world, Seed::Pending, bench.rows)?;
    let wallets = world.wallets.to_string();
    let served =
        Served::start(&["serve", handler.name(), "--database", &database.url(), "--wallets", &wallets])?;
    let rows = if handler == Handler::Constant { u32::MAX } else { bench.rows };
    let postmaster = lab.postmaster()?;
    let over = bench.runtime.block_on(async {
        let connections = Connection::several(connections, served.address, &payments(world, rows)).await?;
        OverHttp::measure(bench, served.child.id(), connections, Some(postmaster)).await
    })?;
    drop(served);
    if handler != Handler::Constant {
        let kind = Op::Settle.event().unwrap_or_default();
        let credited = database.count(&format!("SELECT count(*) FROM events WHERE kind = '{kind}'"))?;
        ensure!(credited >= over.measured.done, "{} credited {credited} payments only", handler.name());
        check_books(&database)?;
    }
    Ok(over)
}

fn compare(bench: &mut Bench, world: World, connections: u32) -> anyhow::Result<()> {
    let whose = if world.wallets == 1 { "1 wallet".to_owned() } else { format!("{} wallets", world.wallets) };
    let case = format!("{whose}, {connections} connections");
    let has_floor = world.wallets == 1 && connections == CONNECTIONS;
    let constant = settle(bench, Handler::Constant, world, connections)?;
    let limit = constant.measured.per_second();
    bench
        .report
        .row(Row::figure(format!("http: constant answer, {case}"), limit, "/s").note(constant.note()));
    let plain = settle(bench, Handler::Plain, world, connections)?;
    let rate = plain.measured.per_second();
    bench.report.row(Row::figure(format!("http: plain handler, {case}"), rate, "/s").note(plain.note()));
    for (handler, what) in [(Handler::Grouped, "settle"), (Handler::Applied, "settle, the charge at hand")] {
        let name = format!("http: {what}, {case}");
        let floor = has_floor && handler == Handler::Grouped;
        let mut at_hand = Some(plain.clone());
        bench.judge(|bench| {
            let plain = at_hand
                .take()
                .map_or_else(|| settle(bench, Handler::Plain, world, connections), Ok)?
                .measured;
            let ours = settle(bench, handler, world, connections)?;
            let (note, ours) = (ours.note(), ours.measured);
            let rate = Row::more(name.clone(), ours.per_second(), plain.per_second(), "/s").note(note);
            let p99 = Row::less(format!("{name}: p99"), ours.millis(0.99), plain.millis(0.99), "ms");
            let of_constant = Row::more(format!("{name}: of constant"), ours.per_second(), limit, "/s");
            let (rate, p99) =
                if floor { (rate.floor(FLOOR_RATE), p99.floor(FLOOR_P99)) } else { (rate, p99) };
            Ok(vec![rate, p99, of_constant])
        })?;
    }
    Ok(())
}

/// How many instructions the server takes for `requests` settlements from [`CONNECTIONS`], its start included. valgrind counts
/// them, under which it is some fifty times slower, so that groups are as large as they can be.
fn instructions(bench: &Bench, handler: Handler, requests: u32) -> anyhow::Result<f64> {
    let lab = bench.lab()?;
    let world = World { wallets: 1 };
    let database = lab.fresh(&bench.runtime, world, Seed::Pending, bench.rows)?;
    let folder = tempfile::tempdir()?;
    let said = folder.path().join("said");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("--log-file={}", said.display())).arg(std::env::current_exe()?);
    command.args(["serve", handler.name(), "--database", &database.url(), "--wallets", "1"]);
    let mut served = Served::spawn(&mut command)?;
    let next = payments(world, requests);
    bench.runtime.block_on(async {
        let connections = Connection::several(CONNECTIONS, served.address, &next).await?;
        let plan = Plan { warm: Duration::ZERO, time: LONGEST_COUNT };
        let done = drive(connections, plan, || (), || ()).await?.done;
        ensure!(
            done == u64::from(requests),
            "{done} of {requests} were settled while instructions were counted"
        );
        anyhow::Ok(())
    })?;
    Command::new("kill").args(["-TERM", &served.child.id().to_string()]).status()?;
    served.child.wait()?;
    let said = std::fs::read_to_string(said)?;
    let collected = said.lines().rev().find_map(|line| line.split_once("Collected : ")?.1.split(' ').next());
    f64::from_str(collected.context("callgrind says nothing")?).context("callgrind says something else")
}

/// The instructions of one settlement, by what more of them take.
fn count(bench: &mut Bench) -> anyhow::Result<()> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        bench.report.say("Instructions were not counted: there is no valgrind (`apt-get install valgrind`).");
        return Ok(());
    }
    let [few, many] = COUNTED;
    let handlers = [
        (Handler::Constant, "constant answer"),
        (Handler::Plain, "plain handler"),
        (Handler::Grouped, "settle"),
        (Handler::Applied, "settle, the charge at hand"),
    ];
    for (handler, what) in handlers {
        let more = instructions(bench, handler, many)? - instructions(bench, handler, few)?;
        let name =
            format!("http: instructions of the server each, {what}, 1 wallet, {CONNECTIONS} connections");
        bench.report.row(Row::figure(name, more / f64::from(many - few), "").note("counted by callgrind"));
    }
    Ok(())
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.section(
        "Settling over HTTP",
        "The same actix server, the same body, the same answer, four ways. *Constant* does nothing: the limit of the HTTP \
         stack. The *plain handler* does what most gateways do: begin, select the charge and the wallet for update, \
         insert the receipt, update the charge, delete when it is due, insert the postings, update the wallet, insert the event, commit; typed, \
         prepared, pooled, in the same schema, over eight connections. *Settle* reads the charge, asks the domain's state \
         machine and applies its transition in groups. *The charge at hand* leaves the read out. The reference is the plain \
         handler where nothing else is said. After each run the books are checked.",
    );
    let counts: &[u32] = if bench.quick { &[CONNECTIONS] } else { &[8, CONNECTIONS, 128] };
    for wallets in [1, 1000] {
        for connections in counts {
            compare(bench, World { wallets }, *connections)?;
        }
    }
    if !bench.quick {
        count(bench)?;
    }
    bench.lab()?.forget()
}
