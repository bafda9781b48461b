//! A published ledger doing the same movement on the same server: `cala-ledger`, a library for PostgreSQL. It is measured by
//! a program of its own (`crates/bench/cala`), outside this workspace, since it brings some 400 packages.

use std::process::Command;

use anyhow::{Context, ensure};
use pix_domain::ports::Stores;
use serde::Deserialize;

use crate::Bench;
use crate::lab::{Applying, open};
use crate::measure::{Measured, drive};
use crate::ops::{Op, Seed, World};
use crate::report::Row;
use crate::store::StoreClient;

const CLIENTS: u32 = 32;

/// What that program prints.
#[derive(Debug, Deserialize)]
struct Said {
    per_second: f64,
    p50_millis: f64,
    p99_millis: f64,
}

fn ours(bench: &Bench, world: World) -> anyhow::Result<Measured> {
    let database = bench.lab()?.fresh(&bench.runtime, world, Seed::Pending, bench.rows)?;
    bench.runtime.block_on(async {
        let stores = Stores::of(open(&database.url(), Applying::Grouped).await?);
        let clients = StoreClient::several(CLIENTS, &stores, world, Op::Settle, bench.rows);
        drive(clients, bench.plan, || (), || ()).await
    })
}

fn theirs(bench: &Bench, world: World) -> anyhow::Result<Said> {
    let lab = bench.lab()?;
    let name = pix_pg_server::fresh_name();
    lab.server().create_database(&name)?;
    let mut command = Command::new(&bench.cala);
    command.args([lab.server().url(&name), world.wallets.to_string(), CLIENTS.to_string()]);
    command.args([bench.plan.warm, bench.plan.time].map(|span| span.as_secs_f64().to_string()));
    let output = command.output().context("the program that measures cala-ledger can't be started")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the program that measures cala-ledger failed: {errors}");
    lab.server().drop_database(&name)?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.section(
        "A published ledger",
        "`cala-ledger` posting a transaction of the same movement (what came in, and its fee: two debits and two credits) by a \
         prepared template, from 32 tasks over a pool of 8 connections, on the same server; ours is *settle*, which also \
         changes the charge, keeps the receipt and writes the event. Both in process, without HTTP.",
    );
    if !bench.cala.is_file() {
        anyhow::bail!("its program {} is not built: make bench-cala", bench.cala.display());
    }
    for (wallets, whose) in [(1, "1 wallet"), (1000, "1,000 wallets")] {
        let world = World { wallets };
        let theirs = theirs(bench, world)?;
        let ours = ours(bench, world)?;
        let note = format!(
            "p50 {:.2}, p99 {:.2} ms; theirs p50 {:.2}, p99 {:.2} ms",
            ours.millis(0.5),
            ours.millis(0.99),
            theirs.p50_millis,
            theirs.p99_millis
        );
        let name = format!("cala-ledger: settle, {whose}, {CLIENTS} clients");
        bench.report.row(Row::more(name, ours.per_second(), theirs.per_second, "/s").note(note));
    }
    bench.lab()?.forget()
}
