//! Doing something again and again from many clients, for a fixed time after a warm-up, and what came of it.
//!
//! Counted is what *ends* in that time, so that a slow side isn't charged for what it had begun when the time was over. Each
//! client waits for its answer before it goes on: a rate and the time each takes say the same thing twice. Where clients come at
//! a rate of their own ([`Pace`]), the time of each counts from when it was due, however late it could begin.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;

/// The longest time that is told apart: a minute, in microseconds.
const MAX_MICROS: u64 = 60_000_000;
const WARM: u8 = 0;
const COUNT: u8 = 1;
const STOP: u8 = 2;

/// For how long.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Not counted.
    pub warm: Duration,
    /// Counted.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Measured {
    /// How many were done.
    pub done: u64,
    /// How many were refused, as somebody else was first.
    pub refused: u64,
    /// In how many seconds.
    pub seconds: f64,
    /// How long each took, in microseconds.
    pub micros: Histogram<u64>,
}

impl Measured {
    /// How many a second.
    pub fn per_second(&self) -> f64 {
        self.done as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The time, in milliseconds, within which that share was done.
    pub fn millis(&self, quantile: f64) -> f64 {
        self.micros.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// How one try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It was done.
    Done,
    /// It was refused.
    Refused,
    /// There is nothing left to do it with: this client ends.
    Dry,
}

impl From<bool> for Turn {
    fn from(done: bool) -> Self {
        if done { Self::Done } else { Self::Refused }
    }
}

/// One of the clients.
pub trait Client: Send + 'static {
    /// Does it once.
    fn turn(&mut self) -> impl Future<Output = anyhow::Result<Turn>> + Send;

    /// From when on the last turn took its time, which began then.
    fn since(&self, began: Instant) -> Instant {
        began
    }
}

/// When each turn of several clients is due: so many a second, one after another.
pub struct Pace {
    start: Instant,
    every: Duration,
    given: AtomicU64,
}

impl Pace {
    /// So many a second from now on.
    pub fn of(per_second: f64) -> Arc<Self> {
        let every = Duration::from_secs_f64(1.0 / per_second.max(1.0));
        Arc::new(Self { start: Instant::now(), every, given: AtomicU64::new(0) })
    }

    fn next(&self) -> Instant {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        self.start + self.every.mul_f64(number as f64)
    }
}

/// A client that begins each turn when it is due, or as soon after that as it is free.
pub struct Paced<C> {
    client: C,
    pace: Arc<Pace>,
    due: Instant,
}

impl<C> Paced<C> {
    /// This client, at that pace.
    pub fn new(client: C, pace: &Arc<Pace>) -> Self {
        Self { client, pace: Arc::clone(pace), due: pace.start }
    }
}

impl<C: Client> Client for Paced<C> {
    async fn turn(&mut self) -> anyhow::Result<Turn> {
        self.due = self.pace.next();
        // To the millisecond, as the runtime's timer goes.
        tokio::time::sleep_until(self.due.into()).await;
        self.client.turn().await
    }

    fn since(&self, _began: Instant) -> Instant {
        self.due
    }
}

/// One of the clients, on a thread of its own.
pub trait BlockingClient: Send {
    /// Does it once.
    fn turn(&mut self) -> anyhow::Result<Turn>;
}

struct Tally {
    done: u64,
    refused: u64,
    micros: Histogram<u64>,
}

impl Tally {
    fn new() -> anyhow::Result<Self> {
        Ok(Self { done: 0, refused: 0, micros: Histogram::new_with_max(MAX_MICROS, 3)? })
    }

    /// Counts a turn that ended in this phase; whether there is another one.
    fn count(&mut self, phase: u8, turn: Turn, began: Instant) -> bool {
        if phase == COUNT {
            match turn {
                Turn::Done => {
                    let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(MAX_MICROS);
                    self.done += 1;
                    self.micros.saturating_record(micros);
                }
                Turn::Refused => self.refused += 1,
                Turn::Dry => {}
            }
        }
        turn != Turn::Dry && phase != STOP
    }
}

fn sum(took: Duration, tallies: Vec<anyhow::Result<Tally>>) -> anyhow::Result<Measured> {
    let mut all = Tally::new()?;
    for tally in tallies {
        let tally = tally?;
        all.done += tally.done;
        all.refused += tally.refused;
        all.micros.add(&tally.micros)?;
    }
    Ok(Measured { done: all.done, refused: all.refused, seconds: took.as_secs_f64(), micros: all.micros })
}

/// Lets the clients go at it. `counting` is called when the warm-up is over (before the first turn where there is none), `counted`
/// when the time is.
pub async fn drive<C: Client>(
    clients: Vec<C>,
    plan: Plan,
    counting: impl FnOnce(),
    counted: impl FnOnce(),
) -> anyhow::Result<Measured> {
    let phase = Arc::new(AtomicU8::new(WARM));
    let mut counting = Some(counting);
    let mut start = || {
        if let Some(counting) = counting.take() {
            counting();
        }
        phase.store(COUNT, Ordering::Relaxed);
        Instant::now()
    };
    // Without a warm-up the first turns count too.
    let at_once = plan.warm.is_zero().then(&mut start);
    let mut tasks = Vec::with_capacity(clients.len());
    for mut client in clients {
        let phase = Arc::clone(&phase);
        tasks.push(tokio::spawn(async move {
            let mut tally = Tally::new()?;
            loop {
                let began = Instant::now();
                let turn = client.turn().await?;
                if !tally.count(phase.load(Ordering::Relaxed), turn, client.since(began)) {
                    return Ok(tally);
                }
            }
        }));
    }
    let began = if let Some(began) = at_once {
        began
    } else {
        tokio::time::sleep(plan.warm).await;
        start()
    };
    // All may run dry before the time is over.
    let until = began + plan.time;
    while Instant::now() < until && tasks.iter().any(|task| !task.is_finished()) {
        tokio::time::sleep((until - Instant::now()).min(Duration::from_millis(20))).await;
    }
    phase.store(STOP, Ordering::Relaxed);
    let took = began.elapsed();
    counted();
    let mut tallies = Vec::with_capacity(tasks.len());
    for task in tasks {
        tallies.push(task.await.context("a client panicked")?);
    }
    sum(took, tallies)
}

/// The same, a thread a client.
pub fn drive_threads<C: BlockingClient>(clients: Vec<C>, plan: Plan) -> anyhow::Result<Measured> {
    let phase = AtomicU8::new(WARM);
    let phase = &phase;
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(clients.len());
        for mut client in clients {
            threads.push(scope.spawn(move || {
                let mut tally = Tally::new()?;
                loop {
                    let began = Instant::now();
                    let turn = client.turn()?;
                    if !tally.count(phase.load(Ordering::Relaxed), turn, began) {
                        return Ok(tally);
                    }
                }
            }));
        }
        thread::sleep(plan.warm);
        let began = Instant::now();
        phase.store(COUNT, Ordering::Relaxed);
        thread::sleep(plan.time);
        phase.store(STOP, Ordering::Relaxed);
        let took = began.elapsed();
        let tallies = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_panic| Err(anyhow::anyhow!("a client panicked"))));
        sum(took, tallies.collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that takes a while.
    struct Slow;

    impl Client for Slow {
        async fn turn(&mut self) -> anyhow::Result<Turn> {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(Turn::Done)
        }
    }

    /// A client that does it once.
    struct Once(Option<Turn>);

    impl Client for Once {
        async fn turn(&mut self) -> anyhow::Result<Turn> {
            Ok(self.0.take().unwrap_or(Turn::Dry))
        }
    }

    #[tokio::test]
    async fn without_a_warm_up_all_that_is_done_counts() {
        let clients = (0..8).map(|_| Once(Some(Turn::Done))).collect();
        let plan = Plan { warm: Duration::ZERO, time: Duration::from_mins(1) };
        assert_eq!(drive(clients, plan, || (), || ()).await.unwrap().done, 8);
    }

    #[tokio::test(start_paused = true)]
    async fn what_begins_late_counts_from_when_it_was_due() {
        let pace = Arc::new(Pace {
            start: tokio::time::Instant::now().into_std(),
            every: Duration::from_millis(10),
            given: AtomicU64::new(0),
        });
        let mut client = Paced::new(Slow, &pace);
        for turn in 0..3_u32 {
            client.turn().await.unwrap();
            // One client takes 50 ms for what comes every 10 ms.
            assert_eq!(client.since(Instant::now()), pace.start + Duration::from_millis(10) * turn);
            let late = tokio::time::Instant::now().into_std() - client.due;
            assert_eq!(late, Duration::from_millis(50 + 40 * u64::from(turn)));
        }
    }
}
