//! The storm of postbacks: many events, receivers that fail at random, and two relay processes that are killed at random
//! while they deliver. In the end every event must have arrived, per record in the order of its events.
//!
//! Two things pass for legal faults and are counted: an event that was answered 2xx arrives again, since whoever sent it
//! was killed before it could say so; and the clock of both processes is moved on, to what waits for minutes and hours,
//! which ends leases early. The clock is moved only when the receiver has nothing to answer and nothing has come for a
//! while, so that nothing is on its way that a second process could be given too, and the order of arrivals can be judged.
//! The receiver that never answers always has something on its way, so nothing of it is judged.

pub mod check;
pub mod producer;
pub mod receiver;
pub mod relays;

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use pix_domain::ids::IntegratorId;
use pix_pg_server::PgServer;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;
use uuid::Uuid;

use check::{Counts, Delivery};
use producer::{Made, Owner, Producer};
use receiver::{Fate, Receivers};
use relays::Relays;

/// How many integrators there are; the last one's receiver never answers.
const INTEGRATORS: usize = 20;
/// How many producers write side by side.
const PRODUCERS: usize = 2;
/// Nothing has come for so long: then it is asked what waits.
const QUIET: Duration = Duration::from_millis(400);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);
/// How long something may be due without anything being delivered. A process that is killed every few seconds needs a
/// while to start.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often it is said how far it is.
const TELL_INTERVAL: Duration = Duration::from_secs(15);
/// Added to a movement of the clock.
const MOVE_MARGIN: Duration = Duration::from_millis(10);

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Storm {
    /// How many events are delivered at least, besides those to the receiver that never answers.
    pub events: u64,
    /// What everything is drawn from.
    pub seed: u64,
    /// Whether it is said on standard error how far it is.
    pub tells: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// What was to be done.
    pub storm: Storm,
    /// What is wrong.
    pub problems: Vec<String>,
    rows: Vec<(String, String)>,
}

impl Report {
    /// For people.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        let mut text = String::new();
        for (name, value) in &self.rows {
            let _ = writeln!(text, "{name:width$}  {value}");
        }
        for problem in &self.problems {
            let _ = writeln!(text, "WRONG: {problem}");
        }
        if !self.problems.is_empty() {
            let Storm { events, seed, .. } = self.storm;
            let _ = writeln!(text, "again: make postback-storm EVENTS={events} STORM='--seed {seed}'");
        }
        text
    }

    fn row(&mut self, name: impl Into<String>, value: &dyn Display) {
        self.rows.push((name.into(), format!("{value}")));
    }
}

/// Everything that runs.
struct World {
    server: &'static PgServer,
    database: String,
    relays: Relays,
    receivers: Receivers,
    made: Arc<Mutex<Made>>,
    /// Whose receiver never answers.
    dead: Uuid,
}

impl World {
    fn psql(&self, sql: &str) -> anyhow::Result<String> {
        Ok(block_in_place(|| self.server.psql(&self.database, sql))?)
    }

    /// What each record waits for, but of the receiver that never answers: the earliest time, and the time by which most
    /// records' are due.
    fn waiting(&self) -> anyhow::Result<Option<(i64, i64)>> {
        let line = self.psql(&format!(
            "SELECT count(*), min(due_at), percentile_disc(0.9) WITHIN GROUP (ORDER BY due_at) FROM ( \
             SELECT DISTINCT ON (integrator_id, resource_kind, resource_id) due_at FROM deliveries \
             WHERE due_at IS NOT NULL AND integrator_id <> '{}' \
             ORDER BY integrator_id, resource_kind, resource_id, sequence) heads",
            self.dead
        ))?;
        let mut parts = line.trim().split('|');
        if parts.next() == Some("0") {
            return Ok(None);
        }
        let mut time = || parts.next().context("no time")?.parse::<i64>().context("no time");
        Ok(Some((time()?, time()?)))
    }

    /// Kills and starts, and moves the clock on, until `producers` have ended and nothing waits.
    async fn rage(
        &mut self,
        producers: &mut JoinSet<anyhow::Result<()>>,
        tells: bool,
    ) -> anyhow::Result<Spans> {
        let began = Instant::now();
        let (mut produced, mut told, mut seen, mut seen_at) = (None, began, 0, began);
        let database = self.database.clone();
        let ended = loop {
            while let Some(ended) = producers.try_join_next() {
                ended??;
            }
            if producers.is_empty() && produced.is_none() {
                produced = Some(began.elapsed());
            }
            sleep(LOOK).await;
            block_in_place(|| self.relays.rage())?;
            let arrivals = self.receivers.notes().arrivals.len();
            if arrivals > seen {
                (seen, seen_at) = (arrivals, Instant::now());
            }
            ensure!(seen_at.elapsed() < PATIENCE, "{database}: nothing has been delivered for {PATIENCE:?}");
            if tells && told.elapsed() >= TELL_INTERVAL {
                told = Instant::now();
                let (kills, moves) = (self.relays.kills, self.relays.moves);
                eprintln!(
                    "{} s: {arrivals} arrivals, {kills} kills, {moves} moves",
                    began.elapsed().as_secs()
                );
            }
            if produced.is_some() && self.has_nothing_left()? {
                break began.elapsed();
            }
        };
        Ok(Spans { produced: produced.unwrap_or_default(), ended })
    }

    /// Moves the clock on when nothing comes though something waits; whether nothing does any more.
    fn has_nothing_left(&mut self) -> anyhow::Result<bool> {
        if !self.receivers.notes().quiet_for(QUIET) {
            return Ok(false);
        }
        let Some((earliest, most)) = self.waiting()? else { return Ok(true) };
        let now = producer::present().micros().saturating_add(self.relays.ahead_micros());
        // What is due comes when a process has started; and what has come meanwhile is on its way.
        if earliest > now && self.receivers.notes().quiet_for(QUIET) {
            let span = u64::try_from(most.saturating_sub(now)).unwrap_or_default();
            self.relays.pass(Duration::from_micros(span) + MOVE_MARGIN)?;
        }
        Ok(false)
    }
}

struct Spans {
    produced: Duration,
    ended: Duration,
}

/// Runs a storm on a database of its own.
pub async fn run(storm: Storm) -> anyhow::Result<Report> {
    let mut world = begin(storm).await?;
    let url = world.server.url(&world.database);
    let mut dice = fastrand::Rng::with_seed(storm.seed);
    let owners = owners(&world)?;
    world.dead = owners.last().context("an integrator")?.id.0;
    // All of the producers' integrators take turns, and one of them isn't counted.
    let (all, counted) = (u64::try_from(INTEGRATORS)?, u64::try_from(INTEGRATORS - 1)?);
    let share = (storm.events * all).div_ceil(counted).div_ceil(u64::try_from(PRODUCERS)?);
    let mut producers = JoinSet::new();
    for number in 0..PRODUCERS {
        let own = owners.iter().skip(number).step_by(PRODUCERS).cloned().collect();
        let producer = Producer::new(&url, own, Arc::clone(&world.made), dice.u64(..)).await?;
        producers.spawn(producer.make(share));
    }
    world.relays.start()?;
    let spans = Box::pin(world.rage(&mut producers, storm.tells)).await?;
    world.relays.end();
    judge(&world, storm, &spans)
}

async fn begin(storm: Storm) -> anyhow::Result<World> {
    let receivers = Receivers::start(storm.seed).await?;
    block_in_place(|| {
        let (server, database) = (pix_pg_server::shared()?, pix_pg_server::fresh_name());
        server.create_database(&database)?;
        let relays = Relays::new(&server.url(&database), storm.seed)?;
        Ok(World { server, database, relays, receivers, made: Arc::default(), dead: Uuid::nil() })
    })
}

fn owners(world: &World) -> anyhow::Result<Vec<Owner>> {
    let Receivers { port, dead_port, .. } = world.receivers;
    let one = |number: usize| {
        let port = if number + 1 == INTEGRATORS { dead_port } else { port };
        let uuid = world.relays.integrator(&format!("storm {number}"))?;
        let id = IntegratorId(uuid.parse()?);
        Ok(Owner { id, url: format!("http://127.0.0.1:{port}/{number}") })
    };
    block_in_place(|| (0..INTEGRATORS).map(one).collect())
}

fn judge(world: &World, storm: Storm, spans: &Spans) -> anyhow::Result<Report> {
    let lines = world.psql(Delivery::QUERY)?;
    let deliveries = lines.lines().map(Delivery::parse).collect::<anyhow::Result<Vec<_>>>()?;
    let (dead, alive): (Vec<_>, Vec<_>) =
        deliveries.into_iter().partition(|delivery| delivery.integrator == world.dead);
    let attempts = world.psql(&format!(
        "SELECT count(*) FILTER (WHERE integrator_id <> '{0}'), count(*) FILTER (WHERE integrator_id = '{0}') \
         FROM delivery_attempts",
        world.dead
    ))?;
    let (told, told_of_dead) = attempts.trim().split_once('|').context("no attempts")?;
    let mut problems = Vec::new();
    let made = world.made.lock().unwrap_or_else(PoisonError::into_inner);
    let mut of_alive = made.events.clone();
    let of_dead = of_alive.remove(&world.dead).unwrap_or_default();
    let notes = world.receivers.notes();
    problems.extend(notes.problems.iter().cloned());
    let counts = check::order(&alive, &notes.arrivals, &mut problems);
    check::delivered(&alive, &of_alive, &mut problems);
    if u64::try_from(dead.len())? != of_dead || dead.iter().any(|delivery| delivery.state == "delivered") {
        problems.push("not all events to the receiver that never answers are there and undelivered".into());
    }
    let listed = check::feeds(&world.psql(check::FEEDS_QUERY)?, INTEGRATORS, &mut problems)?;
    if u64::try_from(alive.len())? < storm.events {
        problems.push(format!("{} events are fewer than {}", alive.len(), storm.events));
    }
    if world.relays.kills == 0 {
        problems.push("nothing was killed".into());
    }
    let mut report = Report { storm, problems, rows: Vec::new() };
    let millis = |span: Duration| format!("{}.{:03} s", span.as_secs(), span.subsec_millis());
    report.row("seed", &storm.seed);
    report.row("events delivered to receivers that answer", &alive.len());
    report.row("… of so many records", &of_records(&alive));
    report.row("events in all feeds, without gaps", &listed);
    let Counts { arrivals, repeats, repeats_behind, retries } = counts;
    report.row("arrivals", &arrivals);
    report.row("… again, not having been answered 2xx", &retries);
    report.row("… again, though answered 2xx (repeats)", &repeats);
    report.row("… of these, behind a later event of the record", &repeats_behind);
    for fate in Fate::FAILURES.into_iter().chain([Fate::TakenSlowly]) {
        let count = notes.arrivals.iter().filter(|arrival| arrival.fate == fate).count();
        report.row(format!("answered: {}", fate.name()), &count);
    }
    report.row("attempts that were kept", &told);
    report.row("kills of relay processes (signal 9)", &world.relays.kills);
    report.row("movements of the clock", &world.relays.moves);
    report.row("… by, in all", &format!("{} s", world.relays.ahead_micros() / 1_000_000));
    let first = first_lags(&notes, &made.charges);
    for (name, share) in [("median", 50), ("p99", 99)] {
        let place = (first.len() * share / 100).min(first.len().saturating_sub(1));
        let lag = first.get(place).copied().unwrap_or_default();
        report.row(format!("lag of a record's first event, {name}"), &millis(lag));
    }
    report.row("receiver that never answers: events", &dead.len());
    report.row("… attempts that were kept", &told_of_dead);
    report.row("… connections", &world.receivers.at_dead());
    report.row("making the events took", &millis(spans.produced));
    report.row("all took", &millis(spans.ended));
    let rate = u128::from(arrivals) * 1_000 / spans.ended.as_millis().max(1);
    report.row("arrivals per second", &rate);
    Ok(report)
}

fn of_records(deliveries: &[Delivery]) -> usize {
    let mut records: Vec<Uuid> = deliveries.iter().map(|delivery| delivery.resource).collect();
    records.dedup();
    records.len()
}

/// From the commit of each record to the first arrival of its first event, least first.
fn first_lags(notes: &receiver::Notes, charges: &HashMap<Uuid, Instant>) -> Vec<Duration> {
    let mut first: HashMap<Uuid, Instant> = HashMap::new();
    for arrival in &notes.arrivals {
        first.entry(arrival.resource).or_insert(arrival.at);
    }
    let lag = |(resource, at): (&Uuid, &Instant)| Some(at.saturating_duration_since(*charges.get(resource)?));
    let mut lags: Vec<Duration> = first.iter().filter_map(lag).collect();
    lags.sort_unstable();
    lags
}
