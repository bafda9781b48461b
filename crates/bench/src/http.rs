//! Over HTTP: the store behind a handler, against the limit of the HTTP stack and against what most gateways do.

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
use crate::ops::{FRESH, OUT_CENTS, Op, PAID_CENTS, Seed, World, charge_id, end_to_end, withdrawal_id};
use crate::proc::{cpu_seconds, family_cpu_seconds};
use crate::report::Row;
use crate::serve::{Command as Asked, Handler, told};
use crate::store::check_books;

/// Connections of the load where a floor holds.
const CONNECTIONS: u32 = 32;
const FLOOR_RATE: f64 = 20.0;
const FLOOR_P99: f64 = 10.0;
/// Requests while instructions are counted: the second less the first is what is told.
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

/// What a command is called in the table.
const fn name(asked: Asked) -> &'static str {
    match asked {
        Asked::Create => "create charge",
        Asked::Settle => "settle",
        Asked::Withdraw => "reserve withdrawal",
        Asked::Consult => "consult",
        Asked::Balance => "balance",
    }
}

/// The command of the store that is behind it, where there is one that is counted.
const fn op(asked: Asked) -> Option<Op> {
    match asked {
        Asked::Create => Some(Op::Create),
        Asked::Settle => Some(Op::Settle),
        Asked::Withdraw => Some(Op::Reserve),
        Asked::Consult => Some(Op::Consult),
        Asked::Balance => None,
    }
}

/// Requests for one slot after another: each once where it is used up, of `rows` there are.
fn requests(asked: Asked, world: World, rows: u32) -> Next {
    let next = AtomicU32::new(0);
    Arc::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let slot = match asked {
            Asked::Create | Asked::Withdraw => FRESH + number,
            Asked::Settle => (number < rows).then_some(number)?,
            Asked::Consult | Asked::Balance => number % rows.max(1),
        };
        let (id, cents) = match asked {
            Asked::Withdraw => (withdrawal_id(slot), OUT_CENTS),
            _ => (charge_id(slot), PAID_CENTS),
        };
        let body = told(world.owner(slot).0, id, &end_to_end(slot), cents);
        Some(request("POST", asked.path(), "", &body))
    })
}

fn measure(
    bench: &Bench,
    handler: Handler,
    asked: Asked,
    world: World,
    connections: u32,
) -> anyhow::Result<OverHttp> {
    let lab = bench.lab()?;
    let database =
        lab.fresh(&bench.runtime, world, op(asked).map_or(Seed::Nothing, Op::needs), bench.rows)?;
    let wallets = world.wallets.to_string();
    let served =
        Served::start(&["serve", handler.name(), "--database", &database.url(), "--wallets", &wallets])?;
    let rows = if handler == Handler::Constant { u32::MAX } else { bench.rows };
    let postmaster = lab.postmaster()?;
    let over = bench.runtime.block_on(async {
        let next = requests(asked, world, rows);
        let connections = Connection::several(connections, served.address, &next).await?;
        OverHttp::measure(bench, served.child.id(), connections, Some(postmaster)).await
    })?;
    drop(served);
    if let Some(kind) = op(asked).and_then(Op::event).filter(|_| handler != Handler::Constant) {
        let happened = database.count(&format!("SELECT count(*) FROM events WHERE kind = '{kind}'"))?;
        ensure!(
            happened >= over.measured.done,
            "{} did {happened} only of what it said it did: {}",
            handler.name(),
            name(asked)
        );
        check_books(&database)?;
    }
    Ok(over)
}

fn case(world: World, connections: u32) -> String {
    let whose = if world.wallets == 1 { "1 wallet".to_owned() } else { format!("{} wallets", world.wallets) };
    format!("{whose}, {connections} connections")
}

/// Compares ours with the plain handler, and with the constant answer; `floors` are those of rate and p99.
fn against(
    bench: &mut Bench,
    what: &str,
    (plain, limit): (&OverHttp, f64),
    floors: Option<(f64, f64)>,
    again: impl Fn(&Bench) -> anyhow::Result<OverHttp>,
    ours: impl Fn(&Bench) -> anyhow::Result<OverHttp>,
) -> anyhow::Result<()> {
    let name = format!("http: {what}");
    let mut at_hand = Some(plain.clone());
    bench.judge(|bench| {
        let plain = at_hand.take().map_or_else(|| again(bench), Ok)?.measured;
        let ours = ours(bench)?;
        let (note, ours) = (ours.note(), ours.measured);
        let rate = Row::more(name.clone(), ours.per_second(), plain.per_second(), "/s").note(note);
        let p99 = Row::less(format!("{name}: p99"), ours.millis(0.99), plain.millis(0.99), "ms");
        let of_constant = Row::more(format!("{name}: of constant"), ours.per_second(), limit, "/s");
        let (rate, p99) = match floors {
            Some((of_rate, of_p99)) => (rate.floor(of_rate), p99.floor(of_p99)),
            None => (rate, p99),
        };
        Ok(vec![rate, p99, of_constant])
    })
}

fn settles(bench: &mut Bench, world: World, connections: u32) -> anyhow::Result<f64> {
    let case = case(world, connections);
    let has_floor = world.wallets == 1 && connections == CONNECTIONS;
    let settle = |bench: &Bench, handler| measure(bench, handler, Asked::Settle, world, connections);
    let constant = settle(bench, Handler::Constant)?;
    let limit = constant.measured.per_second();
    bench
        .report
        .row(Row::figure(format!("http: constant answer, {case}"), limit, "/s").note(constant.note()));
    let plain = settle(bench, Handler::Plain)?;
    let rate = plain.measured.per_second();
    bench.report.row(Row::figure(format!("http: plain handler, {case}"), rate, "/s").note(plain.note()));
    for (handler, what) in [(Handler::Grouped, "settle"), (Handler::Applied, "settle, the charge at hand")] {
        let floors = (has_floor && handler == Handler::Grouped).then_some((FLOOR_RATE, FLOOR_P99));
        let what = format!("{what}, {case}");
        let again = |bench: &Bench| settle(bench, Handler::Plain);
        against(bench, &what, (&plain, limit), floors, again, |bench| settle(bench, handler))?;
    }
    Ok(limit)
}

/// The other commands, at [`CONNECTIONS`], each against a plain handler of its own.
fn others(bench: &mut Bench, world: World, limit: f64) -> anyhow::Result<()> {
    let case = case(world, CONNECTIONS);
    for asked in Asked::ALL.into_iter().filter(|asked| *asked != Asked::Settle) {
        let by = |bench: &Bench, handler| measure(bench, handler, asked, world, CONNECTIONS);
        let plain = by(bench, Handler::Plain)?;
        let what = name(asked);
        let row = Row::figure(format!("http: plain {what}, {case}"), plain.measured.per_second(), "/s");
        bench.report.row(row.note(plain.note()));
        let again = |bench: &Bench| by(bench, Handler::Plain);
        let what = format!("{what}, {case}");
        against(bench, &what, (&plain, limit), None, again, |bench| by(bench, Handler::Grouped))?;
    }
    Ok(())
}

/// How many instructions the server takes for `count` requests from [`CONNECTIONS`], its start included. valgrind counts
/// them, under which it is some fifty times slower, so that groups are as large as they can be.
fn instructions(bench: &Bench, handler: Handler, asked: Asked, count: u32) -> anyhow::Result<f64> {
    let lab = bench.lab()?;
    let world = World { wallets: 1 };
    let database =
        lab.fresh(&bench.runtime, world, op(asked).map_or(Seed::Nothing, Op::needs), bench.rows)?;
    let folder = tempfile::tempdir()?;
    let said = folder.path().join("said");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(format!("--log-file={}", said.display())).arg(std::env::current_exe()?);
    command.args(["serve", handler.name(), "--database", &database.url(), "--wallets", "1"]);
    let mut served = Served::spawn(&mut command)?;
    let (all, left) = (requests(asked, world, bench.rows), AtomicU32::new(count));
    let next: Next = Arc::new(move || {
        let more = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        more.ok().and_then(|_left| all())
    });
    bench.runtime.block_on(async {
        let connections = Connection::several(CONNECTIONS, served.address, &next).await?;
        let plan = Plan { warm: Duration::ZERO, time: LONGEST_COUNT };
        let done = drive(connections, plan, || (), || ()).await?.done;
        ensure!(
            done == u64::from(count),
            "{done} of {count} requests were answered while instructions were counted"
        );
        anyhow::Ok(())
    })?;
    Command::new("kill").args(["-TERM", &served.child.id().to_string()]).status()?;
    served.child.wait()?;
    let said = std::fs::read_to_string(said)?;
    let collected = said.lines().rev().find_map(|line| line.split_once("Collected : ")?.1.split(' ').next());
    f64::from_str(collected.context("callgrind says nothing")?).context("callgrind says something else")
}

/// The instructions of one request, by what more of them take.
fn count(bench: &mut Bench) -> anyhow::Result<()> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        bench.report.say("Instructions were not counted: there is no valgrind (`apt-get install valgrind`).");
        return Ok(());
    }
    let [few, many] = COUNTED;
    let mut all = vec![(Handler::Constant, Asked::Settle, "constant answer".to_owned())];
    for asked in Asked::ALL {
        all.push((Handler::Plain, asked, format!("plain {}", name(asked))));
        all.push((Handler::Grouped, asked, name(asked).to_owned()));
        if asked == Asked::Settle {
            all.push((Handler::Applied, asked, "settle, the charge at hand".to_owned()));
        }
    }
    for (handler, asked, what) in all {
        let more = instructions(bench, handler, asked, many)? - instructions(bench, handler, asked, few)?;
        let name =
            format!("http: instructions of the server each, {what}, 1 wallet, {CONNECTIONS} connections");
        bench.report.row(Row::figure(name, more / f64::from(many - few), "").note("counted by callgrind"));
    }
    Ok(())
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.section(
        "Over HTTP",
        "The same actix server, the same body, the same answer, four ways. *Constant* does nothing: the limit of the HTTP \
         stack. The *plain handler* does what most gateways do, to a payment: begin, select the charge and the wallet for update, \
         insert the receipt, update the charge, delete when it is due, insert the postings, update the wallet, insert the event, commit; typed, \
         prepared, pooled, in the same schema, over eight connections. *Settle* reads the charge, asks the domain's state \
         machine and applies its transition in groups. *The charge at hand* leaves the read out. The reference is the plain \
         handler where nothing else is said. After each run the books are checked.\n\n\
         A charge is made, and a withdrawal takes its money, without the provider, by either: a *plain* charge is begin, insert the \
         charge, insert when it is due, insert the event, commit; a plain withdrawal begin, select the wallet for update, insert the \
         withdrawal, insert the posting, update the wallet, insert the event, commit; a plain consult and balance are a query \
         each, of the columns that are shown.",
    );
    let counts: &[u32] = if bench.quick { &[CONNECTIONS] } else { &[8, CONNECTIONS, 128] };
    for wallets in [1, 1000] {
        let world = World { wallets };
        for connections in counts {
            let limit = settles(bench, world, *connections)?;
            if *connections == CONNECTIONS && !bench.quick {
                others(bench, world, limit)?;
            }
        }
    }
    if !bench.quick {
        count(bench)?;
    }
    bench.lab()?.forget()
}
