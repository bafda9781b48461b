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
/// The long run.
const LONG: Duration = Duration::from_mins(10);
/// Before memory is read for the first time, of the long run.
const LONG_WARM: Duration = Duration::from_mins(1);
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
    let mut memory = Vec::new();
    for (time, name) in [(LONG_WARM, "warm"), (LONG, "long")] {
        let load =
            Connection::several(CONNECTIONS, gateway.address, &charge_requests(name, &headers)).await?;
        let plan = Plan { warm: Duration::ZERO, time };
        let measured = crate::measure::drive(load, plan, || (), || ()).await?;
        memory.push((memory_mib(gateway.pid())?, measured.done));
    }
    if let [(before, _), (after, done)] = memory.as_slice() {
        let row =
            Row::less(format!("cost: memory after ten minutes of load, {store}"), *after, *before, "MiB");
        bench
            .report
            .row(row.floor(FLOOR_GROWTH).note(format!("{done} charges; the reference is after a minute")));
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
