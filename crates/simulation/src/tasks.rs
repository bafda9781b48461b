//! The tasks of a world and the one that is polled next: a scheduler of one thread, without waking anybody.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use pix_domain::time::Timestamp;

use crate::random::Random;
use crate::sim::Sim;

/// What a task is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A client's request.
    Request {
        /// Whose.
        intent: usize,
    },
    /// A worker claims.
    Claim,
    /// A worker goes on with one follow-up.
    FollowUp,
    /// A worker goes on with one kept callback.
    Inbox,
    /// A callback is taken.
    Callback {
        /// Which one.
        callback: usize,
    },
    /// An operator decides.
    Decide,
    /// A record is asked about.
    Consult,
}

struct Task {
    id: u64,
    node: usize,
    purpose: Purpose,
    wake: Timestamp,
    future: Pin<Box<dyn Future<Output = ()>>>,
}

/// All tasks of a world.
#[derive(Default)]
pub struct Tasks {
    live: Vec<Task>,
    ready: Vec<usize>,
    started: u64,
}

impl Tasks {
    /// Starts a task on a node; its number.
    pub fn start(
        &mut self,
        node: usize,
        purpose: Purpose,
        future: impl Future<Output = ()> + 'static,
    ) -> u64 {
        self.started += 1;
        let (id, wake) = (self.started, Timestamp::from_micros(0));
        self.live.push(Task { id, node, purpose, wake, future: Box::pin(future) });
        id
    }

    /// Whether nothing is left to do.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Polls one of those that don't sleep; false when there is none.
    pub fn poll_one(
        &mut self,
        sim: &Arc<Sim>,
        choose: impl FnOnce(&mut Random, usize) -> Option<usize>,
    ) -> bool {
        let now = sim.now();
        self.ready.clear();
        self.ready.extend(
            self.live.iter().enumerate().filter(|(_, task)| task.wake <= now).map(|(place, _)| place),
        );
        let chosen = sim.with(|state| choose(&mut state.random, self.ready.len()));
        let Some(place) = chosen.and_then(|chosen| self.ready.get(chosen).copied()) else { return false };
        let task = &mut self.live[place];
        sim.with(|state| {
            state.step += 1;
            state.running = Some((task.node, task.id));
        });
        let done = task.future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        sim.with(|state| state.running = None);
        if let Some(wake) = sim.take_wake() {
            task.wake = wake;
        }
        if done {
            self.live.swap_remove(place);
        }
        true
    }

    /// When the first sleeping one wants to go on.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.live.iter().map(|task| task.wake).min()
    }

    /// Drops all tasks of a node where they stand; what they were for.
    pub fn crash(&mut self, node: usize) -> Vec<Purpose> {
        let mut lost = Vec::new();
        self.live.retain(|task| {
            if task.node == node {
                lost.push(task.purpose);
            }
            task.node != node
        });
        lost
    }

    /// Whether a request of this intent is running.
    pub fn runs(&self, intent: usize) -> bool {
        self.live.iter().any(|task| task.purpose == Purpose::Request { intent })
    }
}
