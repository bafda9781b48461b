//! Runs simulated worlds, one seed after another, until one fails.

use std::process::ExitCode;
use std::time::Instant;

use pix_simulation::faults::Counts;
use pix_simulation::{Options, run};

const USAGE: &str = "usage: pix-soak --seeds N [--from S]    run N worlds, from the seed S (0) on
       pix-soak --seed S [--trace]    run one, and show every step";

/// How many worlds between two lines of progress.
const PROGRESS: u64 = 50_000;

struct Wanted {
    from: u64,
    seeds: u64,
    trace: bool,
}

fn wanted(mut arguments: impl Iterator<Item = String>) -> Option<Wanted> {
    let (mut from, mut seeds, mut trace) = (0, None, false);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next()?.replace('_', "").parse::<u64>().ok();
        match argument.as_str() {
            "--seeds" => seeds = Some(number()?),
            "--from" => from = number()?,
            "--seed" => (from, seeds) = (number()?, Some(1)),
            "--trace" => trace = true,
            _ => return None,
        }
    }
    Some(Wanted { from, seeds: seeds?, trace })
}

fn main() -> ExitCode {
    let Some(wanted) = wanted(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let options = Options { trace: wanted.trace, ..Options::default() };
    let (began, mut counts) = (Instant::now(), Counts::default());
    let (mut polls, mut records) = (0, 0);
    for done in 0..wanted.seeds {
        let seed = wanted.from.wrapping_add(done);
        match run(seed, &options) {
            Ok(report) => {
                for line in report.trace {
                    println!("{line}");
                }
                counts.add_all(&report.counts);
                polls += report.polls;
                records += report.records;
            }
            Err(failure) => {
                for line in &failure.trace {
                    println!("{line}");
                }
                println!("seed {seed} fails: {}", failure.what);
                println!(
                    "replay it: cargo run --release -p pix-simulation --bin pix-soak -- --seed {seed} --trace"
                );
                return ExitCode::FAILURE;
            }
        }
        if (done + 1) % PROGRESS == 0 {
            println!("{} worlds, {} a second", done + 1, rate(done + 1, began));
        }
    }
    println!(
        "{} worlds, {} a second; {records} records, {polls} polls; nothing is wrong",
        wanted.seeds,
        rate(wanted.seeds, began)
    );
    for (fault, count) in counts.each() {
        println!("{count:>12}  {}", fault.name());
    }
    ExitCode::SUCCESS
}

fn rate(worlds: u64, began: Instant) -> u64 {
    let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    worlds.saturating_mul(1000) / millis
}
