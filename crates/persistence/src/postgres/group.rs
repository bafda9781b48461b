//! Gathering concurrent transitions, so that many share one statement, one commit and one lock of a hot wallet.
//!
//! Nobody waits for a timer on an idle store: a lone transition goes at once. While a group is at the database, whoever
//! comes waits in line, and the next group takes all of the line that goes together. One group at a time is the fastest: a
//! group costs the server about as much as eight of its members, and two at once are half as large. So a further one goes
//! beside it only when somebody has waited for long. Two transitions that touch the same record, name, handle or receipt
//! never go together, nor while the other one is at the database, and keep their order: a statement doesn't see what it
//! writes itself.
//!
//! A wallet is with one group at a time. Whoever stays in line for a wallet has it before those that come later.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::transition::{Guard, Transition};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Grouping;
use super::apply::{Applied, Applier, Sent};

/// The most transitions of one statement.
pub const MAX_GROUP: usize = 256;
/// The longest that a group waits for company.
pub const MAX_GATHER_WAIT: Duration = Duration::from_millis(1);
/// How long those in line wait for those at the database to be done, before a group goes beside them.
const PATIENCE: Duration = Duration::from_millis(10);
/// The most transitions in line; the next one is told that the store is busy.
const MAX_WAITING: usize = 16_384;

/// The line, and the groups that are made of it.
#[derive(Debug)]
pub struct Gatherer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    applier: Arc<Applier>,
    grouping: Grouping,
    runtime: Handle,
    hasher: RandomState,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// What the groups at the database touch.
    touched: HashSet<u64>,
    /// The wallets they move money in. Another group would only wait for their locks, and let all of its own wait.
    wallets: HashSet<IntegratorId>,
    /// How many groups are at the database, or about to be.
    groups: usize,
    /// How many of them are about to be.
    gathering: usize,
    /// How many transitions are at the database.
    at_database: usize,
}

#[derive(Debug)]
struct Waiting {
    sent: Arc<Sent>,
    since: Instant,
    touches: Vec<u64>,
    answer: oneshot::Sender<Applied>,
}

impl Waiting {
    /// The wallet that it moves money in, or numbers an event under.
    fn wallet(&self) -> Option<IntegratorId> {
        let transition = &self.sent.transition;
        transition.takes_wallet().then_some(transition.integrator_id)
    }
}

impl Line {
    /// Takes the next group: up to `most` that go together and with the groups at the database.
    fn take(&mut self, most: usize) -> Group {
        let mut group: Vec<Waiting> = Vec::new();
        let mut left = VecDeque::new();
        // Whoever touches the same as one that stays behind stays behind it; and whoever stays behind for a wallet has it
        // before those that come after.
        let mut behind: HashSet<u64> = HashSet::new();
        let mut wallets_behind: HashSet<IntegratorId> = HashSet::new();
        while let Some(next) = self.waiting.pop_front() {
            if group.len() >= most {
                left.push_back(next);
                break;
            }
            let wallet = next.wallet();
            let waits = wallet
                .is_some_and(|wallet| self.wallets.contains(&wallet) || wallets_behind.contains(&wallet));
            if waits || next.touches.iter().any(|key| self.touched.contains(key) || behind.contains(key)) {
                behind.extend(&next.touches);
                wallets_behind.extend(wallet.filter(|_| waits));
                left.push_back(next);
            } else {
                self.touched.extend(&next.touches);
                group.push(next);
            }
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        let wallets: HashSet<IntegratorId> = group.iter().filter_map(Waiting::wallet).collect();
        self.wallets.extend(&wallets);
        self.at_database = self.at_database.saturating_add(group.len());
        Group { members: group, wallets }
    }

    /// Whether none is at the database.
    const fn is_free(&self) -> bool {
        self.at_database == 0
    }
}

/// Transitions that go together.
#[derive(Debug, Default)]
struct Group {
    members: Vec<Waiting>,
    /// The wallets that they move money in.
    wallets: HashSet<IntegratorId>,
}

impl Gatherer {
    /// A gatherer that runs its groups on `runtime`.
    pub fn new(applier: Arc<Applier>, grouping: Grouping, runtime: Handle) -> Self {
        let grouping = Grouping {
            max_group: grouping.max_group.clamp(1, MAX_GROUP),
            groups_in_flight: grouping.groups_in_flight.max(1),
            gather_wait: grouping.gather_wait.min(MAX_GATHER_WAIT),
            ..grouping
        };
        let line = Mutex::new(Line::default());
        let shared = Shared { applier, grouping, runtime, hasher: RandomState::new(), line };
        Self { shared: Arc::new(shared) }
    }

    /// Applies one, with whatever goes with it.
    pub async fn apply(&self, sent: Sent) -> Applied {
        let (answer, mut answered) = oneshot::channel();
        let (since, touches) = (Instant::now(), touches(&sent.transition, &self.shared.hasher));
        let turn = {
            let mut line = self.shared.line();
            if line.waiting.len() >= MAX_WAITING {
                return Err(StoreError::Unavailable("too many writes are waiting".to_owned()).into());
            }
            line.waiting.push_back(Waiting { sent: Arc::new(sent), since, touches, answer });
            line.is_free().then(|| self.turn(&mut line)).flatten()
        };
        if let Some(turn) = turn {
            // A runtime that is gone drops it at once.
            self.shared.runtime.spawn(turn.run_groups());
        }
        loop {
            if let Ok(answer) = timeout(PATIENCE, &mut answered).await {
                return answer.unwrap_or_else(|_closed| {
                    Err(StoreError::Unknown("the store was closed during a write".to_owned()).into())
                });
            }
            let late = {
                let mut line = self.shared.line();
                let is_late = line.waiting.front().is_some_and(|first| first.since.elapsed() >= PATIENCE);
                is_late.then(|| self.turn(&mut line)).flatten()
            };
            if let Some(mut turn) = late {
                turn.is_late = true;
                self.shared.runtime.spawn(turn.run_groups());
            }
        }
    }

    /// The right to run groups beside those that are at the database.
    fn turn(&self, line: &mut Line) -> Option<Turn> {
        (line.groups < self.shared.grouping.groups_in_flight && line.gathering == 0).then(|| {
            line.groups = line.groups.saturating_add(1);
            line.gathering = line.gathering.saturating_add(1);
            Turn { shared: Arc::clone(&self.shared), gathering: true, is_late: false, ended: false }
        })
    }

    /// The most transitions of a group.
    pub fn max_group(&self) -> usize {
        self.shared.grouping.max_group
    }

    /// How many of the first `transitions` go together in one statement.
    pub fn together(&self, transitions: &[Arc<Sent>]) -> usize {
        let mut touched = HashSet::new();
        let fits = |sent: &&Arc<Sent>| {
            let keys = touches(&sent.transition, &self.shared.hasher);
            let free = keys.iter().all(|key| !touched.contains(key)) && sent.transition.parts.is_empty();
            touched.extend(keys);
            free
        };
        transitions.iter().take(self.max_group()).take_while(fits).count()
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line> {
        // Nothing in here panics while it holds the lock.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for company after a group of `before` transitions: whoever was just answered is likely to come again, and
    /// goes with this group or waits for the whole of it. Ends as soon as as many are in line as have come before.
    async fn gather(&self, before: usize) {
        let wait = self.grouping.gather_wait;
        let (expected, alone) = {
            let line = self.line();
            (line.waiting.len().saturating_add(before).min(self.grouping.max_group), line.is_free())
        };
        if wait.is_zero() || expected < 2 || !alone {
            return;
        }
        // A timer of the runtime is ten times too coarse.
        let since = Instant::now();
        while self.line().waiting.len() < expected && since.elapsed() < wait {
            tokio::task::yield_now().await;
        }
    }

    async fn run(&self, Group { members: group, wallets }: Group) {
        let sent: Vec<Arc<Sent>> = group.iter().map(|waiting| Arc::clone(&waiting.sent)).collect();
        let mut at_database = AtDatabase {
            shared: self,
            members: group.len(),
            touches: group.iter().flat_map(|waiting| &waiting.touches).copied().collect(),
            wallets,
        };
        let results = self.applier.many(&sent).await;
        let mut again = Vec::new();
        let mut line = self.line();
        at_database.leave(&mut line);
        for (waiting, result) in group.into_iter().zip(results) {
            match result {
                // Whoever doesn't wait any more has gone away.
                Some(result) => drop(waiting.answer.send(result)),
                None => again.push(waiting),
            }
        }
        for waiting in again.into_iter().rev() {
            line.waiting.push_front(waiting);
        }
    }
}

/// What a group at the database touches, until it has left, however it does.
struct AtDatabase<'a> {
    shared: &'a Shared,
    members: usize,
    touches: Vec<u64>,
    wallets: HashSet<IntegratorId>,
}

impl AtDatabase<'_> {
    fn leave(&mut self, line: &mut Line) {
        line.at_database = line.at_database.saturating_sub(std::mem::take(&mut self.members));
        for key in self.touches.drain(..) {
            line.touched.remove(&key);
        }
        for wallet in self.wallets.drain() {
            line.wallets.remove(&wallet);
        }
    }
}

impl Drop for AtDatabase<'_> {
    fn drop(&mut self) {
        if self.members > 0 {
            let shared = self.shared;
            self.leave(&mut shared.line());
        }
    }
}

/// The right to run groups. When it is lost before the line is empty, because the runtime is gone or a group panicked,
/// nobody may be left to run those in line: they are told that nothing was done.
struct Turn {
    shared: Arc<Shared>,
    /// Between two groups.
    gathering: bool,
    /// Whether somebody has waited long enough for those at the database.
    is_late: bool,
    ended: bool,
}

impl Turn {
    /// Runs groups until none is left in line.
    async fn run_groups(mut self) {
        let mut before = 0;
        loop {
            self.shared.gather(before).await;
            let group = {
                let mut line = self.shared.line();
                line.gathering = line.gathering.saturating_sub(1);
                self.gathering = false;
                // Whoever is at the database takes those in line afterwards.
                let others = line.groups > 1 && !self.is_late && !line.is_free();
                self.is_late = false;
                let group = if others { Group::default() } else { line.take(self.shared.grouping.max_group) };
                if group.members.is_empty() {
                    line.groups = line.groups.saturating_sub(1);
                    self.ended = true;
                    return;
                }
                group
            };
            before = group.members.len();
            self.shared.run(group).await;
            let mut line = self.shared.line();
            line.gathering = line.gathering.saturating_add(1);
            self.gathering = true;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut line = self.shared.line();
        line.groups = line.groups.saturating_sub(1);
        line.gathering = line.gathering.saturating_sub(usize::from(self.gathering));
        if line.groups > 0 {
            return;
        }
        for waiting in line.waiting.drain(..) {
            let gone = StoreError::Unavailable("the store was closed before a write".to_owned());
            drop(waiting.answer.send(Err(gone.into())));
        }
    }
}

/// What of a transition must not meet in one statement. Two different things with one number only wait for each other.
fn touches(transition: &Transition, hasher: &RandomState) -> Vec<u64> {
    let owner = transition.integrator_id;
    let mut keys = Vec::with_capacity(transition.writes.len().saturating_mul(2).saturating_add(2));
    for write in &transition.writes {
        let resource = write.record.resource();
        keys.push(hasher.hash_one((0_u8, resource.kind, resource.id)));
        if write.guard == Guard::Absent {
            let name = write.record.external_id();
            keys.extend(name.map(|name| hasher.hash_one((1_u8, owner, resource.kind, name.as_str()))));
        }
    }
    for twin in &transition.twins {
        keys.push(hasher.hash_one((5_u8, owner, twin.key)));
    }
    if let Some(handle) = &transition.handle {
        keys.push(hasher.hash_one((2_u8, owner, handle.kind, handle.key.as_str())));
    }
    if let Some(receipt) = &transition.receipt {
        keys.push(hasher.hash_one((3_u8, owner, receipt.payment.key.to_text())));
        keys.push(hasher.hash_one((4_u8, owner, receipt.charge_id)));
    }
    keys
}

#[cfg(test)]
mod tests {
    use pix_domain::money::Cents;
    use pix_domain::wallet::{Account, Posting, Reason};

    use super::super::PgOptions;
    use super::super::open::target;
    use super::super::pool::{Connections, PoolSettings, Purpose, Servers};
    use super::*;

    fn waiting(touches: &[u64]) -> Waiting {
        let transition = Transition::new(
            pix_domain::ids::IntegratorId(uuid::Uuid::nil()),
            pix_domain::time::Timestamp::from_micros(0),
        );
        let sent = Arc::new(Sent { transition, id: uuid::Uuid::nil() });
        Waiting { sent, since: Instant::now(), touches: touches.to_vec(), answer: oneshot::channel().0 }
    }

    fn keys(group: &Group) -> Vec<Vec<u64>> {
        group.members.iter().map(|waiting| waiting.touches.clone()).collect()
    }

    #[test]
    fn a_group_takes_the_line_in_order_up_to_its_size() {
        let mut line = Line::default();
        line.waiting.extend([waiting(&[1]), waiting(&[2]), waiting(&[3])]);
        assert_eq!(keys(&line.take(2)), [vec![1], vec![2]]);
        assert_eq!(keys(&line.take(2)), [vec![3]]);
        assert!(line.take(2).members.is_empty());
    }

    #[test]
    fn what_touches_the_same_waits_and_keeps_its_order() {
        let mut line = Line::default();
        line.waiting.extend([waiting(&[1]), waiting(&[1, 2]), waiting(&[2]), waiting(&[3])]);
        assert_eq!(keys(&line.take(9)), [vec![1], vec![3]]);
        // 1 is still at the database; 2 waits behind it.
        assert!(line.take(9).members.is_empty());
        line.touched.remove(&1);
        assert_eq!(keys(&line.take(9)), [vec![1, 2]]);
        line.touched.clear();
        assert_eq!(keys(&line.take(9)), [vec![2]]);
    }

    /// One that moves money in a wallet.
    fn moving(wallet: u128, touch: u64) -> Waiting {
        let owner = IntegratorId(uuid::Uuid::from_u128(wallet));
        let mut transition = Transition::new(owner, pix_domain::time::Timestamp::from_micros(0));
        let resource = pix_domain::ids::ResourceRef {
            integrator_id: owner,
            kind: pix_domain::ids::ResourceKind::Charge,
            id: uuid::Uuid::nil(),
        };
        transition.postings.push(Posting {
            debit: Account::Clearing,
            credit: Account::Available,
            amount: Cents::new(1).unwrap(),
            reason: Reason::ChargePaid,
            resource,
        });
        Waiting { sent: Arc::new(Sent { transition, id: uuid::Uuid::nil() }), ..waiting(&[touch]) }
    }

    #[test]
    fn a_wallet_is_with_one_group_at_a_time_and_with_those_who_waited_for_it_first() {
        let mut line = Line::default();
        line.waiting.extend([moving(7, 1)]);
        let first = line.take(9);
        // Another wallet is nothing to those who wait.
        line.waiting.extend([moving(7, 2), moving(8, 3), moving(7, 4)]);
        assert_eq!(keys(&line.take(9)), [vec![3]]);
        assert!(line.take(9).members.is_empty());
        for wallet in &first.wallets {
            line.wallets.remove(wallet);
        }
        assert_eq!(keys(&line.take(1)), [vec![2]]);
        assert!(line.take(9).members.is_empty());
        line.wallets.clear();
        assert_eq!(keys(&line.take(9)), [vec![4]]);
    }

    #[tokio::test]
    async fn one_group_is_gathered_at_a_time() {
        let second = Duration::from_secs(1);
        let target = target("postgres://pix@127.0.0.1:1/books", second).unwrap();
        let settings = PoolSettings { size: 1, acquire_timeout: second, statement_timeout: second };
        let (servers, runtime) = (Servers::default(), Handle::current());
        let money = Connections::new(Purpose::Money, target, settings, servers, runtime.clone()).unwrap();
        let applier = Arc::new(Applier::new(money, &PgOptions::default()));
        let gatherer = Gatherer::new(applier, Grouping::default(), runtime);
        let turn = || gatherer.turn(&mut gatherer.shared.line());
        let mut first = turn().unwrap();
        // It has yet to take its group, and takes whoever comes meanwhile.
        assert!(turn().is_none());
        gatherer.shared.line().gathering = 0;
        first.gathering = false;
        // One that is lost before it has taken its group is in nobody's way.
        drop(turn().unwrap());
        let mut other = turn().unwrap();
        gatherer.shared.line().gathering = 0;
        other.gathering = false;
        // That is all that may be at the database at once.
        assert!(turn().is_none());
        drop((first, other));
        let line = gatherer.shared.line();
        assert_eq!((line.groups, line.gathering), (0, 0));
    }

    #[test]
    fn those_in_line_wait_for_whoever_is_at_the_database() {
        let mut line = Line::default();
        line.waiting.extend([waiting(&[1])]);
        assert!(line.is_free());
        line.take(9);
        line.waiting.extend([waiting(&[2]), waiting(&[3]), waiting(&[4])]);
        assert!(!line.is_free());
    }
}
