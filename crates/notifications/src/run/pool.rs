//! Postbacks that wait in memory to be sent: a queue for each lane, each with a bound, and the lanes in turn. What is sent of
//! one integrator has a bound too: receivers that hang, however many it names, leave the others their places.

use std::collections::{BTreeMap, VecDeque};

use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::delivery::{EndpointId, Lane};
use pix_domain::postbacks::relay::Ready;

/// Queues that share a bound on what is sent at once.
pub(super) struct Pool {
    at_once: usize,
    per_integrator: usize,
    per_lane: usize,
    running: usize,
    queued: usize,
    queues: BTreeMap<Lane, Queue>,
    /// Lanes that could send one more, next one first.
    turn: VecDeque<Lane>,
    /// Of which any is being sent.
    integrators: BTreeMap<IntegratorId, Share>,
}

struct Queue {
    integrator_id: IntegratorId,
    waiting: VecDeque<Ready>,
    running: usize,
    listed: Listed,
}

/// Where a lane is listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    Nowhere,
    /// In [`Pool::turn`].
    InTurn,
    /// In [`Share::parked`].
    Parked,
}

/// What an integrator has of a pool.
#[derive(Default)]
struct Share {
    running: usize,
    /// Its lanes that could send one more if it had not as many being sent as it may have, next one first.
    parked: VecDeque<Lane>,
}

impl Pool {
    /// Sends at most `at_once` in all, a quarter of it of each integrator, but what one lane may have, and `per_lane` of each
    /// lane.
    pub(super) fn new(at_once: usize, per_lane: usize) -> Self {
        Self {
            at_once,
            per_integrator: (at_once / 4).max(per_lane),
            per_lane,
            running: 0,
            queued: 0,
            queues: BTreeMap::new(),
            turn: VecDeque::new(),
            integrators: BTreeMap::new(),
        }
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
        let (lane, integrator_id) = (ready.claimed.lane, ready.claimed.key.resource.integrator_id);
        let queue = self.queues.entry(lane).or_insert_with(|| Queue::new(integrator_id));
        queue.waiting.push_back(ready);
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
            queue.listed = Listed::Nowhere;
            if queue.running >= self.per_lane || queue.waiting.is_empty() {
                continue;
            }
            let share = self.integrators.entry(queue.integrator_id).or_default();
            if share.running >= self.per_integrator {
                queue.listed = Listed::Parked;
                share.parked.push_back(lane);
                continue;
            }
            let Some(ready) = queue.waiting.pop_front() else { continue };
            share.running = share.running.saturating_add(1);
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
            let integrator_id = queue.integrator_id;
            // Those that were held back come before this one's next.
            self.resume(integrator_id);
            self.list(lane);
        }
    }

    /// One less of that integrator is being sent: as many of its lanes as there is room for now have their turn again.
    fn resume(&mut self, integrator_id: IntegratorId) {
        let Some(share) = self.integrators.get_mut(&integrator_id) else { return };
        share.running = share.running.saturating_sub(1);
        let mut room = self.per_integrator.saturating_sub(share.running);
        while (room > 0 || share.running == 0)
            && let Some(lane) = share.parked.pop_front()
        {
            let Some(queue) = self.queues.get_mut(&lane) else { continue };
            if queue.listed != Listed::Parked {
                continue;
            }
            queue.listed = Listed::Nowhere;
            // What was to be sent there may have been taken out.
            if !queue.waiting.is_empty() {
                queue.listed = Listed::InTurn;
                self.turn.push_back(lane);
                room = room.saturating_sub(1);
            }
        }
        if share.running == 0 {
            self.integrators.remove(&integrator_id);
        }
    }

    /// Of the integrator of which most wait, forgets those that came last, until no more than `keep` wait, but `at_most` so
    /// many. How many were forgotten.
    pub(super) fn shed(&mut self, keep: usize, at_most: usize) -> usize {
        let mut waiting: BTreeMap<IntegratorId, usize> = BTreeMap::new();
        for queue in self.queues.values() {
            let of_one = waiting.entry(queue.integrator_id).or_default();
            *of_one = of_one.saturating_add(queue.waiting.len());
        }
        let most = waiting.into_iter().max_by_key(|(_, count)| *count);
        let Some((integrator_id, count)) = most.filter(|(_, count)| *count > keep) else { return 0 };
        let lanes = self.queues.iter().filter(|(_, queue)| queue.integrator_id == integrator_id);
        let lanes: Vec<Lane> = lanes.map(|(lane, _)| *lane).collect();
        let excess = count.saturating_sub(keep).min(at_most);
        let mut shed = 0_usize;
        // One of each in turn, so that no lane loses all of its own before another one has lost any.
        for lane in lanes.iter().cycle() {
            if shed >= excess {
                break;
            }
            let popped = self.queues.get_mut(lane).and_then(|queue| queue.waiting.pop_back());
            shed = shed.saturating_add(usize::from(popped.is_some()));
        }
        self.queued = self.queued.saturating_sub(shed);
        for lane in lanes {
            self.list(lane);
        }
        shed
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
            queue.listed = Listed::Nowhere;
        }
        self.turn.clear();
        self.integrators.values_mut().for_each(|share| share.parked.clear());
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
        } else if queue.listed == Listed::Nowhere && queue.running < self.per_lane {
            queue.listed = Listed::InTurn;
            self.turn.push_back(lane);
        }
    }
}

impl Queue {
    const fn new(integrator_id: IntegratorId) -> Self {
        Self { integrator_id, waiting: VecDeque::new(), running: 0, listed: Listed::Nowhere }
    }
}
