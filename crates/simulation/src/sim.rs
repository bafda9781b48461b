//! What all ports of one world share: time, chance, the truth, and how a port lets others go first.
//!
//! One lock around one [`State`]. Everything runs on one thread, so it never waits; it is a lock because ports must be
//! `Sync`. No closure given to [`Sim::with`] may call it again.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use pix_domain::callbacks::ClaimedCallback;
use pix_domain::follow_up::FollowUp;
use pix_domain::ids::{self, Ids, ResourceRef};
use pix_domain::provider::Reference;
use pix_domain::time::{Clock, Timestamp};
use pix_domain::transition::Transition;
use uuid::{Builder, Uuid};

use crate::clients::Told;
use crate::desk::Desk;
use crate::faults::{Counts, Fault, Rates};
use crate::model::Model;
use crate::random::Random;

/// 2026-01-15 12:00:00 UTC: where every world begins.
pub const START: Timestamp = Timestamp::from_micros(1_768_478_400_000_000);

const FIRST_MILLIS: u64 = 1_768_478_400_000;

/// What a finished task has to say to the world.
#[derive(Debug)]
pub enum Message {
    /// A client was answered.
    Told {
        /// Whose request.
        intent: usize,
        /// With what.
        answer: Box<Told>,
    },
    /// A worker has claimed these.
    Claimed {
        /// On which node.
        node: usize,
        /// What.
        due: Vec<FollowUp>,
        /// And these callbacks.
        callbacks: Vec<ClaimedCallback>,
    },
    /// A callback was taken, or not.
    CalledBack {
        /// Which one.
        callback: usize,
        /// Whether the provider was told that it was.
        taken: bool,
    },
}

/// A commit whose outcome nobody knows, and that comes to be after all.
#[derive(Debug)]
pub struct LateCommit {
    /// When.
    pub at: Timestamp,
    /// What.
    pub transition: Transition,
}

/// Everything that the ports of a world share.
#[derive(Debug)]
pub struct State {
    /// Chance.
    pub random: Random,
    /// True time; nodes may be a little off.
    pub now: Timestamp,
    /// How likely faults are now.
    pub rates: Rates,
    /// Whether faults have ended.
    pub healed: bool,
    /// What occurred.
    pub counts: Counts,
    /// What the provider has and did.
    pub desk: Desk,
    /// What the store must hold.
    pub model: Model,
    /// Commits on their way.
    pub late: Vec<LateCommit>,
    /// What finished tasks said.
    pub inbox: Vec<Message>,
    /// The first thing that is wrong.
    pub violation: Option<String>,
    /// Polls so far.
    pub step: u64,
    /// What is being polled: the node and the task.
    pub running: Option<(usize, u64)>,
    trace: Option<Vec<String>>,
    wake: Option<Timestamp>,
    ids: u64,
    seed: u64,
}

impl State {
    /// Notes that a fault occurred.
    pub fn count(&mut self, fault: Fault) {
        self.counts.add(fault);
    }

    /// Notes what is wrong; the first thing counts.
    pub fn violate(&mut self, what: String) {
        self.trace(|| format!("VIOLATION: {what}"));
        self.violation.get_or_insert(what);
    }

    /// Writes a line of the trace, if one is wanted.
    pub fn trace(&mut self, line: impl FnOnce() -> String) {
        let Some(trace) = &mut self.trace else { return };
        let millis = self.now.since(START).as_millis();
        let who = match self.running {
            Some((node, task)) => format!("node {node} task {task}"),
            None => "world".to_owned(),
        };
        trace.push(format!(
            "{:>6} {:>6}.{:03}s {who:<16} {}",
            self.step,
            millis / 1000,
            millis % 1000,
            line()
        ));
    }

    /// Whether a trace is wanted.
    pub const fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// A new id; ids grow.
    pub fn next_id(&mut self) -> Uuid {
        self.ids += 1;
        let mut rest = [0; 10];
        rest[2..].copy_from_slice(&self.seed.to_be_bytes());
        Builder::from_unix_timestamp_millis(FIRST_MILLIS + self.ids, &rest).into_uuid()
    }
}

/// The number of an id in its world: short enough to be read.
pub fn number(id: Uuid) -> u64 {
    if ids::is_timeless(id) {
        return u64::try_from(id.as_u128() & 0xffff_ffff).unwrap_or(0);
    }
    u64::try_from(id.as_u128() >> 80).unwrap_or(0).saturating_sub(FIRST_MILLIS)
}

/// What the provider knows a record by.
pub fn sent_as(resource: &ResourceRef) -> Uuid {
    Reference::of(resource.id).0
}

/// A record in a trace: `charge 7`.
pub fn short(resource: ResourceRef) -> String {
    format!("{} {}", resource.kind.as_str(), number(resource.id))
}

/// What all ports of one world share.
pub struct Sim(Mutex<State>);

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sim")
    }
}

impl Sim {
    /// A world at its beginning, without faults.
    pub fn new(seed: u64, traced: bool) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            random: Random::new(seed),
            now: START,
            rates: Rates::default(),
            healed: false,
            counts: Counts::default(),
            desk: Desk::default(),
            model: Model::default(),
            late: Vec::new(),
            inbox: Vec::new(),
            violation: None,
            step: 0,
            running: None,
            trace: traced.then(Vec::new),
            wake: None,
            ids: 0,
            seed,
        })))
    }

    /// Reads or changes what is shared.
    pub fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True time.
    pub fn now(&self) -> Timestamp {
        self.with(|state| state.now)
    }

    /// Writes a line of the trace, if one is wanted.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        self.with(|state| state.trace(line));
    }

    /// The trace so far.
    pub fn take_trace(&self) -> Vec<String> {
        self.with(|state| state.trace.take().unwrap_or_default())
    }

    /// Until when the task just polled wants to be left alone.
    pub fn take_wake(&self) -> Option<Timestamp> {
        self.with(|state| state.wake.take())
    }

    /// Lets others go first: not at all, once or twice.
    pub fn pause(&self) -> impl Future<Output = ()> + Send + use<> {
        Pause(self.with(|state| match state.random.below(8) {
            _ if state.healed => u32::from(state.random.one_in(6)),
            0..3 => 0,
            3..7 => 1,
            _ => 2,
        }))
    }

    /// Waits until `at`, in true time.
    pub fn sleep_until(self: &Arc<Self>, at: Timestamp) -> impl Future<Output = ()> + Send + use<> {
        Sleep { sim: self.clone(), at }
    }
}

struct Pause(u32);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        Poll::Pending
    }
}

struct Sleep {
    sim: Arc<Sim>,
    at: Timestamp,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.sim.with(|state| {
            if state.now >= self.at {
                return Poll::Ready(());
            }
            state.wake = Some(self.at);
            Poll::Pending
        })
    }
}

/// A node's clock: true time, and always off by the same.
#[derive(Debug)]
pub struct NodeClock {
    /// The world.
    pub sim: Arc<Sim>,
    /// How far it is ahead.
    pub ahead: Duration,
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        self.sim.now().plus(self.ahead)
    }
}

/// Ids from the world's one sequence.
#[derive(Debug)]
pub struct SeededIds(pub Arc<Sim>);

impl Ids for SeededIds {
    fn next(&self) -> Uuid {
        self.0.with(State::next_id)
    }
}
