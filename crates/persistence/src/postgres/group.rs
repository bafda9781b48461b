//! Gathering concurrent transitions, so that many share one statement, one commit and one lock of a hot wallet.
//!
//! Nobody waits for a timer on an idle store: a lone transition goes at once. While groups are at the database, whoever
//! comes waits in line, and the next group takes all of the line that goes together. A further group goes beside them
//! when it is worth its cost; one that has been there for long counts for nothing in that, for it may hang on a lock of
//! another node. Whoever has gone away by then is left out. Two transitions that touch the same record, name, handle or
//! receipt never go together, nor while the other one is at the database, and keep their order: a statement doesn't see
//! what it writes itself.
//!
//! A wallet is with one group at a time, or with several that only bring money (`statement`, `is_credit`): they write what
//! is not in the wallet side by side. Whoever stays in line for a wallet has it before those that come later.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
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
use super::statement::is_credit;

/// The most transitions of one statement.
pub const MAX_GROUP: usize = 256;
/// The longest that a group waits for company.
pub const MAX_GATHER_WAIT: Duration = Duration::from_micros(500);
/// After a wait in vain so many groups go without one at the most: then it is tried again whether it is worth it.
const MOST_WITHOUT_WAIT: u32 = 64;
/// How long those in line wait for a group at the database, when they are not worth a group of their own.
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
    /// The wallets they move money in. Another group would only wait for their locks, and let all of its own wait; but
    /// groups of credits share a wallet, which each of more than one member locks late.
    wallets: HashMap<IntegratorId, Hold>,
    /// How many groups are at the database, or about to be.
    groups: usize,
    /// How many of them are about to be.
    gathering: usize,
    /// The groups at the database, or waiting for a connection to it: since when, and of how many transitions.
    at_database: Vec<(Instant, usize)>,
    company: Company,
}

/// Whether waiting for company is worth it. Whoever has more to do before the next write than the wait is long doesn't come
/// in time, and the wait only keeps a core busy: after one that brought fewer than half of them the next groups go at once,
/// twice as many each time.
#[derive(Debug, Default)]
struct Company {
    /// How many groups go without a wait after the last one.
    in_vain: u32,
    /// How many of them are left.
    left: u32,
}

impl Company {
    /// Whether the next group waits.
    fn is_waited_for(&mut self) -> bool {
        let waits = self.left == 0;
        self.left = self.left.saturating_sub(1);
        waits
    }

    /// A wait has ended; whether at least half of those came that were waited for.
    fn waited(&mut self, paid: bool) {
        self.in_vain = if paid { 0 } else { self.in_vain.saturating_mul(2).clamp(1, MOST_WITHOUT_WAIT) };
        self.left = self.in_vain;
    }
}

/// How groups at the database have a wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hold {
    groups: usize,
    /// Whether they are groups of credits.
    credits: bool,
}

#[derive(Debug)]
struct Waiting {
    sent: Arc<Sent>,
    credit: bool,
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
    /// Takes the next group: up to `most` that go together and with the groups at the database; `None` when none goes.
    fn take(&mut self, most: usize) -> Option<Group> {
        let mut group: Vec<Waiting> = Vec::new();
        let mut left = VecDeque::new();
        // Whoever touches the same as one that stays behind stays behind it; and whoever stays behind for a wallet has it
        // before those that come after.
        let mut behind: HashSet<u64> = HashSet::new();
        let mut wallets_behind: HashSet<IntegratorId> = HashSet::new();
        let (mut shares, mut takes) = (false, false);
        while let Some(next) = self.waiting.pop_front() {
            if group.len() >= most {
                left.push_back(next);
                break;
            }
            // Nothing is written for who has gone away by now.
            if next.answer.is_closed() {
                continue;
            }
            let wallet = next.wallet();
            let hold = wallet.and_then(|wallet| self.wallets.get(&wallet));
            let waits = wallet.is_some_and(|wallet| wallets_behind.contains(&wallet))
                || hold.is_some_and(|hold| !hold.credits || takes || !next.credit)
                || shares && !next.credit;
            if waits || next.touches.iter().any(|key| self.touched.contains(key) || behind.contains(key)) {
                behind.extend(&next.touches);
                wallets_behind.extend(wallet.filter(|_| waits));
                left.push_back(next);
            } else {
                shares |= hold.is_some();
                takes |= !next.credit;
                self.touched.extend(&next.touches);
                group.push(next);
            }
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        let wallets: HashSet<IntegratorId> = group.iter().filter_map(Waiting::wallet).collect();
        for wallet in &wallets {
            let hold = self.wallets.entry(*wallet).or_insert(Hold { groups: 0, credits: !takes });
            hold.groups = hold.groups.saturating_add(1);
        }
        if group.is_empty() {
            return None;
        }
        let since = Instant::now();
        self.at_database.push((since, group.len()));
        Some(Group { members: group, wallets, since })
    }

    /// Whether one waits for a group at the database, whoever else is in line.
    fn waits(&self, one: &Waiting) -> bool {
        let hold = one.wallet().and_then(|wallet| self.wallets.get(&wallet));
        hold.is_some_and(|hold| !hold.credits || !one.credit)
            || one.touches.iter().any(|key| self.touched.contains(key))
    }

    /// Whether those in line go without waiting for those at the database. A group costs the server about as much as
    /// eight of its members, so a further one has at least half as many as are there already: fewer go with the next one.
    /// Those that have been there for long are not waited for.
    fn is_worth_a_group(&self) -> bool {
        let lately = self.at_database.iter().filter(|(since, _)| since.elapsed() < PATIENCE);
        let members: usize = lately.map(|(_, members)| members).sum();
        self.waiting.len() >= members.div_ceil(2)
    }

    /// One group less has this wallet.
    fn release(&mut self, wallet: IntegratorId) {
        if let Entry::Occupied(mut held) = self.wallets.entry(wallet) {
            if held.get().groups > 1 {
                held.get_mut().groups = held.get().groups.saturating_sub(1);
            } else {
                held.remove();
            }
        }
    }
}

/// Transitions that go together.
#[derive(Debug)]
struct Group {
    members: Vec<Waiting>,
    /// The wallets that they move money in.
    wallets: HashSet<IntegratorId>,
    /// When they were taken.
    since: Instant,
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
        let (answer, answered) = oneshot::channel();
        let credit = is_credit(&sent.transition);
        let touches = touches(&sent.transition, &self.shared.hasher);
        let turn = {
            let mut line = self.shared.line();
            if line.waiting.len() >= MAX_WAITING {
                return Err(StoreError::Unavailable("too many writes are waiting".to_owned()).into());
            }
            let waiting = Waiting { sent: Arc::new(sent), credit, touches, answer };
            let waits = line.waits(&waiting);
            line.waiting.push_back(waiting);
            // For one who waits anyway nobody looks through the line.
            let goes = !waits && line.is_worth_a_group();
            goes.then(|| self.shared.turn(&mut line)).flatten()
        };
        self.shared.run_turn(turn);
        answered.await.unwrap_or_else(|_closed| {
            Err(StoreError::Unknown("the store was closed during a write".to_owned()).into())
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

    /// The right to run groups beside those that are at the database.
    fn turn(self: &Arc<Self>, line: &mut Line) -> Option<Turn> {
        (line.groups < self.grouping.groups_in_flight && line.gathering == 0).then(|| {
            line.groups = line.groups.saturating_add(1);
            line.gathering = line.gathering.saturating_add(1);
            Turn { shared: Arc::clone(self), gathering: true, ended: false }
        })
    }

    fn run_turn(&self, turn: Option<Turn>) {
        if let Some(turn) = turn {
            // A runtime that is gone drops it at once.
            self.runtime.spawn(turn.run());
        }
    }

    /// While a group has been at the database for long: has another one go beside it, when somebody waits.
    fn go_beside(self: &Arc<Self>) {
        let turn = {
            let mut line = self.line();
            let goes = !line.waiting.is_empty() && line.is_worth_a_group();
            goes.then(|| self.turn(&mut line)).flatten()
        };
        self.run_turn(turn);
    }

    /// Waits for company after a group of `before` transitions: whoever was just answered is likely to come again, and
    /// goes with this group or waits for the whole of it. Ends as soon as as many are in line as have come before.
    async fn gather(&self, before: usize) {
        let wait = self.grouping.gather_wait;
        let (expected, had) = {
            let mut line = self.line();
            let had = line.waiting.len();
            let expected = had.saturating_add(before).min(self.grouping.max_group);
            let alone = line.at_database.is_empty();
            if wait.is_zero() || expected <= had.max(1) || !alone || !line.company.is_waited_for() {
                return;
            }
            (expected, had)
        };
        // A timer of the runtime is ten times too coarse.
        let since = Instant::now();
        loop {
            tokio::task::yield_now().await;
            let mut line = self.line();
            if line.waiting.len() >= expected || since.elapsed() >= wait {
                let came = line.waiting.len().saturating_sub(had);
                return line.company.waited(came >= expected.saturating_sub(had).div_ceil(2));
            }
        }
    }

    async fn run(&self, Group { members: group, wallets, since }: Group) {
        let sent: Vec<Arc<Sent>> = group.iter().map(|waiting| Arc::clone(&waiting.sent)).collect();
        let mut at_database = AtDatabase {
            shared: self,
            since: Some(since),
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
    /// Since when, until it has left.
    since: Option<Instant>,
    touches: Vec<u64>,
    wallets: HashSet<IntegratorId>,
}

impl AtDatabase<'_> {
    fn leave(&mut self, line: &mut Line) {
        let ours = |(since, _): &(Instant, usize)| Some(*since) == self.since;
        if let Some(place) = line.at_database.iter().position(ours) {
            line.at_database.swap_remove(place);
        }
        self.since = None;
        for key in self.touches.drain(..) {
            line.touched.remove(&key);
        }
        for wallet in self.wallets.drain() {
            line.release(wallet);
        }
    }
}

impl Drop for AtDatabase<'_> {
    fn drop(&mut self) {
        if self.since.is_some() {
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
    ended: bool,
}

impl Turn {
    /// [`run_groups`](Self::run_groups) as a type with a name: it begins others of its kind.
    fn run(self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.run_groups())
    }

    /// Runs groups until none is left in line, none that goes without those at the database, or none worth a group.
    async fn run_groups(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut before = 0;
        loop {
            shared.gather(before).await;
            let group = {
                let mut line = self.shared.line();
                line.gathering = line.gathering.saturating_sub(1);
                self.gathering = false;
                // Those that are not worth a group of their own are taken by whoever runs the groups at the database.
                let others = line.groups > 1 && !line.is_worth_a_group();
                let group = if others { None } else { line.take(self.shared.grouping.max_group) };
                let Some(group) = group else {
                    line.groups = line.groups.saturating_sub(1);
                    self.ended = true;
                    return;
                };
                group
            };
            before = group.members.len();
            let mut at_work = pin!(shared.run(group));
            while timeout(PATIENCE, at_work.as_mut()).await.is_err() {
                shared.go_beside();
            }
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
        Waiting { sent, credit: true, touches: touches.to_vec(), answer: answer() }
    }

    /// An answer that somebody waits for.
    fn answer() -> oneshot::Sender<Applied> {
        let (answer, answered) = oneshot::channel();
        std::mem::forget(answered);
        answer
    }

    /// What those touch that were taken.
    fn keys(group: Option<&Group>) -> Vec<Vec<u64>> {
        let members = group.map_or(&[][..], |group| &group.members);
        members.iter().map(|waiting| waiting.touches.clone()).collect()
    }

    #[test]
    fn a_group_takes_the_line_in_order_up_to_its_size() {
        let mut line = Line::default();
        line.waiting.extend([waiting(&[1]), waiting(&[2]), waiting(&[3])]);
        assert_eq!(keys(line.take(2).as_ref()), [vec![1], vec![2]]);
        assert_eq!(keys(line.take(2).as_ref()), [vec![3]]);
        assert!(line.take(2).is_none());
    }

    #[test]
    fn what_touches_the_same_waits_and_keeps_its_order() {
        let mut line = Line::default();
        line.waiting.extend([waiting(&[1]), waiting(&[1, 2]), waiting(&[2]), waiting(&[3])]);
        assert_eq!(keys(line.take(9).as_ref()), [vec![1], vec![3]]);
        // 1 is still at the database; 2 waits behind it.
        assert!(line.take(9).is_none());
        line.touched.remove(&1);
        assert_eq!(keys(line.take(9).as_ref()), [vec![1, 2]]);
        line.touched.clear();
        assert_eq!(keys(line.take(9).as_ref()), [vec![2]]);
    }

    /// One that takes money of a wallet, or only brings it.
    fn moving(wallet: u128, credit: bool, touch: u64) -> Waiting {
        let owner = IntegratorId(uuid::Uuid::from_u128(wallet));
        let mut transition = Transition::new(owner, pix_domain::time::Timestamp::from_micros(0));
        let resource = pix_domain::ids::ResourceRef {
            integrator_id: owner,
            kind: pix_domain::ids::ResourceKind::Charge,
            id: uuid::Uuid::nil(),
        };
        let (debit, credited) = if credit {
            (Account::Clearing, Account::Available)
        } else {
            (Account::Available, Account::Held)
        };
        transition.postings.push(Posting {
            debit,
            credit: credited,
            amount: Cents::new(1).unwrap(),
            reason: Reason::ChargePaid,
            resource,
        });
        let credit = is_credit(&transition);
        let sent = Arc::new(Sent { transition, id: uuid::Uuid::nil() });
        Waiting { sent, credit, touches: vec![touch], answer: answer() }
    }

    #[test]
    fn groups_that_only_bring_money_share_a_wallet() {
        let mut line = Line::default();
        line.waiting.extend([moving(7, true, 1)]);
        let first = line.take(9).unwrap();
        line.waiting.extend([moving(7, true, 2), moving(7, true, 3)]);
        assert_eq!(keys(line.take(9).as_ref()), [vec![2], vec![3]]);
        // One of the two is done; the other one still has the wallet.
        first.wallets.iter().for_each(|wallet| line.release(*wallet));
        line.waiting.extend([moving(7, false, 4)]);
        assert!(line.take(9).is_none());
        line.release(*first.wallets.iter().next().unwrap());
        assert!(line.wallets.is_empty());
        assert_eq!(keys(line.take(9).as_ref()), [vec![4]]);
    }

    #[test]
    fn whoever_takes_money_has_the_wallet_alone_and_before_those_that_come_later() {
        let mut line = Line::default();
        line.waiting.extend([moving(7, true, 1)]);
        let bringing = line.take(9).unwrap();
        // 3 would go with 1, and for ever another one with it; it waits behind 2. Another wallet is nothing to them.
        line.waiting.extend([moving(7, false, 2), moving(7, true, 3), moving(8, true, 4)]);
        assert_eq!(keys(line.take(9).as_ref()), [vec![4]]);
        assert!(line.take(9).is_none());
        bringing.wallets.iter().for_each(|wallet| line.release(*wallet));
        let mixed = line.take(9).unwrap();
        assert_eq!(keys(Some(&mixed)), [vec![2], vec![3]]);
        line.waiting.extend([moving(7, true, 5)]);
        assert!(line.take(9).is_none());
        mixed.wallets.iter().for_each(|wallet| line.release(*wallet));
        assert_eq!(keys(line.take(9).as_ref()), [vec![5]]);
    }

    #[test]
    fn one_group_does_not_share_one_wallet_and_take_of_another() {
        let mut line = Line::default();
        line.waiting.extend([moving(7, true, 1)]);
        line.take(9);
        line.waiting.extend([moving(8, false, 2), moving(7, true, 3), moving(8, true, 4)]);
        assert_eq!(keys(line.take(9).as_ref()), [vec![2], vec![4]]);
        line.waiting.extend([moving(9, false, 5)]);
        assert_eq!(keys(line.take(9).as_ref()), [vec![3]]);
        assert_eq!(keys(line.take(9).as_ref()), [vec![5]]);
    }

    /// Over a server that isn't there.
    fn gatherer() -> Gatherer {
        let second = Duration::from_secs(1);
        let target = target("postgres://pix@127.0.0.1:1/books", second).unwrap();
        let settings = PoolSettings { size: 1, acquire_timeout: second, statement_timeout: second };
        let (servers, runtime) = (Servers::default(), Handle::current());
        let money = Connections::new(Purpose::Money, target, settings, servers, runtime.clone()).unwrap();
        let applier = Arc::new(Applier::new(money, &PgOptions::default()));
        Gatherer::new(applier, Grouping::default(), runtime)
    }

    #[test]
    fn a_wait_in_vain_is_tried_again_later_and_later() {
        let mut company = Company::default();
        let mut groups_until_next = |paid| {
            company.waited(paid);
            (0..100).take_while(|_| !company.is_waited_for()).count()
        };
        let in_vain: Vec<_> = (0..9).map(|_| groups_until_next(false)).collect();
        assert_eq!(in_vain, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!((groups_until_next(true), groups_until_next(false)), (0, 1), "one that was worth it");
    }

    #[tokio::test]
    async fn nobody_waits_for_those_that_did_not_come_the_last_time() {
        let gatherer = gatherer();
        let shared = &gatherer.shared;
        let company = || {
            let line = shared.line();
            (line.company.in_vain, line.company.left)
        };
        // Nobody comes; the next group goes at once, and the one after it waits again.
        let mut seen = Vec::new();
        for _ in 0..3 {
            shared.gather(2).await;
            seen.push(company());
        }
        assert_eq!(seen, [(1, 1), (1, 0), (2, 2)]);
        // One of the two comes.
        shared.line().company = Company { in_vain: 8, left: 0 };
        let other = Arc::clone(shared);
        let comes = tokio::spawn(async move { other.line().waiting.push_back(waiting(&[1])) });
        shared.gather(2).await;
        assert_eq!(company(), (0, 0), "half of those waited for are worth it");
        comes.await.unwrap();
        // A group that has nobody to wait for, or may be of one alone, is nothing to go by.
        shared.gather(0).await;
        shared.line().waiting.clear();
        shared.gather(1).await;
        assert_eq!(company(), (0, 0));
    }

    #[tokio::test]
    async fn one_group_is_gathered_at_a_time() {
        let gatherer = gatherer();
        let turn = || gatherer.shared.turn(&mut gatherer.shared.line());
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

    #[tokio::test]
    async fn a_group_that_has_left_leaves_nothing_behind() {
        let gatherer = gatherer();
        let transition = moving(7, true, 1).sent.transition.clone();
        // Nobody is at that port.
        assert!(gatherer.apply(Sent { transition, id: uuid::Uuid::nil() }).await.is_err());
        let line = gatherer.shared.line();
        assert!(line.at_database.is_empty() && line.wallets.is_empty() && line.touched.is_empty());
    }

    #[test]
    fn a_further_group_goes_when_it_is_worth_it() {
        let mut line = Line::default();
        assert!(line.is_worth_a_group());
        line.waiting.extend([waiting(&[1]), waiting(&[2]), waiting(&[3])]);
        line.take(9);
        line.waiting.extend([waiting(&[4])]);
        assert!(!line.is_worth_a_group());
        line.waiting.extend([waiting(&[5])]);
        assert!(line.is_worth_a_group());
    }

    #[test]
    fn a_group_that_has_been_there_for_long_is_not_waited_for() {
        let mut line = Line::default();
        line.waiting.extend([waiting(&[1]), waiting(&[2]), waiting(&[3])]);
        line.take(9);
        line.waiting.extend([waiting(&[4])]);
        assert!(!line.is_worth_a_group());
        let long_ago = Instant::now().checked_sub(PATIENCE).unwrap();
        line.at_database.iter_mut().for_each(|(since, _)| *since = long_ago);
        assert!(line.is_worth_a_group());
        assert_eq!(keys(line.take(9).as_ref()), [vec![4]]);
        // One that came lately counts.
        assert!(!line.is_worth_a_group());
    }

    #[test]
    fn whoever_waits_for_a_group_at_the_database_is_known() {
        let mut line = Line::default();
        line.waiting.extend([moving(7, true, 1), moving(8, false, 2)]);
        line.take(1);
        assert!(!line.waits(&moving(7, true, 3)) && line.waits(&moving(7, false, 3)));
        assert!(line.waits(&waiting(&[3, 1])) && !line.waits(&moving(8, true, 3)));
        line.take(1);
        assert!(line.waits(&moving(8, true, 3)));
    }

    #[test]
    fn nothing_is_written_for_who_has_gone_away() {
        let mut line = Line::default();
        line.waiting.extend([Waiting { answer: oneshot::channel().0, ..waiting(&[1]) }, waiting(&[2])]);
        assert_eq!(keys(line.take(9).as_ref()), [vec![2]]);
        line.waiting.extend([Waiting { answer: oneshot::channel().0, ..waiting(&[3]) }]);
        assert!(line.take(9).is_none());
        assert!(line.waiting.is_empty());
        assert!(!line.touched.contains(&3));
    }
}
