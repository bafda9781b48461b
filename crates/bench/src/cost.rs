//! What the program costs when it does nothing, when it works, and to start.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::Bench;
use crate::http::OverHttp;
use crate::load::Connection;
use crate::measure::Plan;
use crate::proc::{memory_mib, peak_mib};
use crate::program::{CONNECTIONS, Gateway, charge_requests};
use crate::report::Row;

/// How often a start is measured; the middle one counts.
const STARTS: usize = 5;
/// How long it is left alone before its idle memory is read.
const SETTLE: Duration = Duration::from_secs(2);
/// The long run: so many minutes, after one of warming up.
const MINUTES: u32 = 10;
const MINUTE: Duration = Duration::from_mins(1);
/// How much memory may grow over the long run: by a tenth.
const FLOOR_GROWTH: f64 = 0.9;

fn measure(bench: &mut Bench, store: &str, url: &str) -> anyhow::Result<()> {
    let mut gateway = Gateway::start(bench, url)?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(gateway.start_again()?);
    }
    starts.sort_unstable();
    let middle = starts.get(STARTS / 2).copied().unwrap_or_default();
    bench.report.row(Row::figure(format!("cost: start to ready, {store}"), middle.as_secs_f64() * 1e3, "ms"));
    thread::sleep(SETTLE);
    bench.report.row(Row::figure(format!("cost: idle memory, {store}"), memory_mib(gateway.pid())?, "MiB"));
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let headers = gateway.integrator().await?;
        let load =
            Connection::several(CONNECTIONS, gateway.address, &charge_requests("cost", &headers)).await?;
        OverHttp::measure(bench, gateway.pid(), load, None).await
    })?;
    let name = format!("cost: most memory, {CONNECTIONS} connections making charges, {store}");
    bench.report.row(Row::figure(name, peak_mib(gateway.pid())?, "MiB"));
    if bench.long {
        runtime.block_on(long_run(bench, &gateway, store))?;
    }
    Ok(())
}

async fn long_run(bench: &mut Bench, gateway: &Gateway, store: &str) -> anyhow::Result<()> {
    let headers = gateway.integrator().await?;
    let requests = charge_requests("long", &headers);
    let plan = Plan { warm: Duration::ZERO, time: MINUTE };
    let (mut memory, mut charges) = (Vec::new(), 0_u64);
    for _ in 0..=MINUTES {
        let load = Connection::several(CONNECTIONS, gateway.address, &requests).await?;
        let measured = crate::measure::drive(load, plan, || (), || ()).await?;
        memory.push(memory_mib(gateway.pid())?);
        charges = charges.saturating_add(measured.done);
    }
    if let ([before, ..], [.., after]) = (memory.as_slice(), memory.as_slice()) {
        let name = format!("cost: memory after ten minutes of load, {store}");
        let each = memory.iter().map(|mib| format!("{mib:.1}")).collect::<Vec<_>>().join(", ");
        let note = format!("{charges} charges; the reference is after a minute; MiB after each: {each}");
        bench.report.row(Row::less(name, *after, *before, "MiB").floor(FLOOR_GROWTH).note(note));
    }
    Ok(())
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.section(
        "Cost",
        "The released program. A start is measured from the start of the process until `/health/ready` answers 200, on a \
         database that is there; the middle of five.",
    );
    let size = fs::metadata(&bench.gateway)?.len();
    bench.report.row(Row::figure("cost: size of the program", size as f64 / 1024.0 / 1024.0, "MiB"));
    let database = bench.lab()?.empty(&bench.runtime)?;
    let url = bench.lab()?.server().url(&database);
    measure(bench, "PostgreSQL", &url)?;
    let folder = tempfile::tempdir()?;
    measure(bench, "SQLite", &format!("sqlite://{}", folder.path().join("bench.db").display()))
}
