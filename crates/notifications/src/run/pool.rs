//! Postbacks that wait in memory to be sent: a queue for each lane, each with a bound, and the lanes in turn.

use std::collections::{BTreeMap, VecDeque};

use pix_domain::postbacks::delivery::{EndpointId, Lane};
use pix_domain::postbacks::relay::Ready;

/// Queues that share a bound on what is sent at once.
pub(super) struct Pool {
    at_once: usize,
    per_lane: usize,
    running: usize,
    queued: usize,
    queues: BTreeMap<Lane, Queue>,
    /// Lanes that could send one more, next one first.
    turn: VecDeque<Lane>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Ready>,
    running: usize,
    /// Whether it is in [`Pool::turn`].
    listed: bool,
}

impl Pool {
    /// Sends at most `at_once` in all, and `per_lane` of each lane.
    pub(super) const fn new(at_once: usize, per_lane: usize) -> Self {
        Self { at_once, per_lane, running: 0, queued: 0, queues: BTreeMap::new(), turn: VecDeque::new() }
    }

    /// How many wait.
    pub(super) const fn queued(&self) -> usize {
        self.queued
    }

    /// How many of a lane wait or are being sent.
    pub(super) fn held(&self, lane: Lane) -> usize {
        self.queues.get(&lane).map_or(0, |queue| queue.waiting.len().saturating_add(queue.running))
    }

    /// The lanes of which any wait or are being sent.
    pub(super) fn lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        self.queues.keys().copied()
    }

    /// Puts one at the end of its lane's queue.
    pub(super) fn push(&mut self, ready: Ready) {
        let lane = ready.claimed.lane;
        self.queues.entry(lane).or_default().waiting.push_back(ready);
        self.queued = self.queued.saturating_add(1);
        self.list(lane);
    }

    /// The next one to be sent now, whose end is to be told to [`Self::ended`]; `None` while the bounds allow none.
    pub(super) fn next(&mut self) -> Option<Ready> {
        if self.running >= self.at_once {
            return None;
        }
        while let Some(lane) = self.turn.pop_front() {
            let Some(queue) = self.queues.get_mut(&lane) else { continue };
            queue.listed = false;
            if queue.running >= self.per_lane {
                continue;
            }
            let Some(ready) = queue.waiting.pop_front() else { continue };
            queue.running = queue.running.saturating_add(1);
            self.running = self.running.saturating_add(1);
            self.queued = self.queued.saturating_sub(1);
            self.list(lane);
            return Some(ready);
        }
        None
    }

    /// One of that lane is sent no more.
    pub(super) fn ended(&mut self, lane: Lane) {
        self.running = self.running.saturating_sub(1);
        if let Some(queue) = self.queues.get_mut(&lane) {
            queue.running = queue.running.saturating_sub(1);
        }
        self.list(lane);
    }

    /// Takes those that wait for an endpoint out of its lane's queue.
    pub(super) fn withdraw(&mut self, lane: Lane, id: EndpointId) -> Vec<Ready> {
        let Some(queue) = self.queues.get_mut(&lane) else { return Vec::new() };
        let waiting = std::mem::take(&mut queue.waiting);
        let (out, kept): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|ready| ready.endpoint_id() == id);
        queue.waiting = kept;
        self.queued = self.queued.saturating_sub(out.len());
        self.list(lane);
        out.into()
    }

    /// Forgets those that wait.
    pub(super) fn clear(&mut self) {
        for queue in self.queues.values_mut() {
            queue.waiting.clear();
            queue.listed = false;
        }
        self.turn.clear();
        self.queues.retain(|_, queue| queue.running > 0);
        self.queued = 0;
    }

    /// Lists a lane that could send one more, and forgets one that has nothing.
    fn list(&mut self, lane: Lane) {
        let Some(queue) = self.queues.get_mut(&lane) else { return };
        if queue.waiting.is_empty() {
            if queue.running == 0 {
                self.queues.remove(&lane);
            }
        } else if !queue.listed && queue.running < self.per_lane {
            queue.listed = true;
            self.turn.push_back(lane);
        }
    }
}
