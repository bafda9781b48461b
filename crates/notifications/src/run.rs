//! Delivering, all the time: takes up what is due in turn over the receivers, sends it, and says what came of it. It owns
//! how much is at work at once and for whom, and must never know what a reply means.
//!
//! | What | Bound |
//! |---|---|
//! | sent at once to one lane | [`DelivererConfig::per_endpoint`] |
//! | sent at once in all | [`DelivererConfig::at_once`]; to endpoints that have failed lately, half of it |
//! | sent at once of one integrator | a quarter of these, but as much as to one lane |
//! | of one lane in memory | a turn is not taken for one that has twice `per_endpoint`, so never more than that and [`PER_LANE`] |
//! | in memory in all | [`MAX_HELD`]; of endpoints that have failed lately, half of it |
//! | in memory of one integrator | all of it, until nothing could be taken up for [`STUCK_AFTER`]: then as much as is sent in [`KEPT_FOR`] seconds, but [`KEPT_OF_ONE`] |
//!
//! So receivers that are known to fail, however many, leave half of everything to the others; and those of one integrator that
//! hang, however many and however new their names, most of it. One that hangs without having failed before has its lane's bound
//! until its first attempts have timed out.
//!
//! What is taken up and then not sent, because the bounds are reached, the process ends or a lease is nearly over, comes
//! again when its lease ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use pix_domain::error::StoreError;
use pix_domain::postbacks::delivery::{
    ClaimedDelivery, DeadReason, DeliveryReport, Endpoint, EndpointId, EndpointNews, Lane, OffReason,
    Standing,
};
use pix_domain::postbacks::relay::{Prepared, Ready, Relay};
use pix_domain::time::Timestamp;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::task::{self, JoinError, JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use pool::Pool;

mod pool;

/// How often due deliveries are looked for without being woken, in milliseconds, by default.
pub const DEFAULT_POLL_INTERVAL_MS: u32 = 1_000;
/// Bounds of [`DelivererConfig::poll_interval_ms`].
pub const POLL_INTERVAL_MS_BOUNDS: RangeInclusive<u32> = 10..=60_000;
/// How many are sent at once, by default.
pub const DEFAULT_AT_ONCE: u32 = 256;
/// Bounds of [`DelivererConfig::at_once`].
pub const AT_ONCE_BOUNDS: RangeInclusive<u32> = 2..=1_024;
/// How many are sent to one receiver at once, by default.
pub const DEFAULT_PER_ENDPOINT: u32 = 8;
/// Bounds of [`DelivererConfig::per_endpoint`].
pub const PER_ENDPOINT_BOUNDS: RangeInclusive<u32> = 1..=64;
/// For how many days ended deliveries are kept, by default.
pub const DEFAULT_KEEP_DAYS: u32 = 30;
/// Bounds of [`DelivererConfig::keep_days`].
pub const KEEP_DAYS_BOUNDS: RangeInclusive<u32> = 7..=3_650;

/// The most deliveries in memory: those being prepared, waiting, being sent, and not yet told.
pub const MAX_HELD: usize = 1_024;
/// Of these, the most that wait for endpoints that have failed lately.
const MAX_FAILING_HELD: usize = MAX_HELD / 2;
/// A turn is taken when there is room for so many.
const MIN_ROOM: usize = MAX_HELD / 4;
/// For so long there may be too little room for a turn: then what waits for slow receivers makes room.
pub const STUCK_AFTER: Duration = Duration::from_secs(5);
/// Of the integrator of which most wait, as much is kept then as is sent in so many seconds at the present pace…
pub const KEPT_FOR: u32 = 20;
/// …but no less than this.
pub const KEPT_OF_ONE: usize = MAX_HELD / 8;
/// The most lanes of one turn.
pub const LANES_PER_TURN: u32 = 32;
/// The most deliveries of one lane in one turn.
pub const PER_LANE: u32 = 32;
/// A lane with so many times what is sent to it at once is passed over.
const ENOUGH: usize = 2;
/// The wait after a round over all lanes in which nothing was due, however often there is reason to look again.
const ROUND_PAUSE: Duration = Duration::from_millis(5);

/// So many results are told at once…
const TELL_GROUP: usize = 64;
/// …or what there is so long after the first.
const TELL_AFTER: Duration = Duration::from_millis(5);

/// How often the store is asked for the same before it is given up.
const STORE_TRIES: u32 = 10;
/// The first wait between these; each is twice the one before.
const FIRST_STORE_WAIT: Duration = Duration::from_millis(100);
/// The longest of them.
const MAX_STORE_WAIT: Duration = Duration::from_secs(2);

/// How often old deliveries are looked for.
const FORGET_INTERVAL: Duration = Duration::from_hours(1);
/// How many of them are removed in one statement.
const FORGET_BATCH: u32 = 1_000;
/// How often the backlog is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(15);

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// How much is delivered at once, and how long it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelivererConfig {
    /// How often due deliveries are looked for without being woken, in milliseconds; within
    /// [`POLL_INTERVAL_MS_BOUNDS`], [`DEFAULT_POLL_INTERVAL_MS`] by default.
    pub poll_interval_ms: u32,
    /// How many are sent at once; within [`AT_ONCE_BOUNDS`], [`DEFAULT_AT_ONCE`] by default.
    pub at_once: u32,
    /// How many are sent at once of one integrator to one receiver (scheme, host and port); within
    /// [`PER_ENDPOINT_BOUNDS`], [`DEFAULT_PER_ENDPOINT`] by default.
    pub per_endpoint: u32,
    /// For how many days after its event a delivery that has ended is kept; within [`KEEP_DAYS_BOUNDS`],
    /// [`DEFAULT_KEEP_DAYS`] by default.
    pub keep_days: u32,
}

impl Default for DelivererConfig {
    fn default() -> Self {
        Self {
            poll_interval_ms: DEFAULT_POLL_INTERVAL_MS,
            at_once: DEFAULT_AT_ONCE,
            per_endpoint: DEFAULT_PER_ENDPOINT,
            keep_days: DEFAULT_KEEP_DAYS,
        }
    }
}

/// A setting that is not acceptable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{setting} of postbacks must be from {} to {}", bounds.start(), bounds.end())]
pub struct DelivererConfigError {
    /// The field of [`DelivererConfig`].
    pub setting: &'static str,
    /// What it may be.
    pub bounds: RangeInclusive<u32>,
}

impl DelivererConfig {
    /// Checks every setting; tells the first that is not acceptable.
    pub fn validate(&self) -> Result<(), DelivererConfigError> {
        for (setting, value, bounds) in [
            ("poll_interval_ms", self.poll_interval_ms, POLL_INTERVAL_MS_BOUNDS),
            ("at_once", self.at_once, AT_ONCE_BOUNDS),
            ("per_endpoint", self.per_endpoint, PER_ENDPOINT_BOUNDS),
            ("keep_days", self.keep_days, KEEP_DAYS_BOUNDS),
        ] {
            if !bounds.contains(&value) {
                return Err(DelivererConfigError { setting, bounds });
            }
        }
        Ok(())
    }

    fn poll_interval(&self) -> Duration {
        Duration::from_millis(self.poll_interval_ms.into())
    }

    fn keep(&self) -> Duration {
        Duration::from_secs(u64::from(self.keep_days).saturating_mul(SECONDS_PER_DAY))
    }
}

/// Says that there may be something to deliver. Cheap, and never too often.
#[derive(Debug, Clone, Default)]
pub struct Waker(Arc<Notify>);

impl Waker {
    /// Has what is due delivered now instead of at the next interval.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// Delivers, until it is stopped. Dropped, it stops by itself.
#[derive(Debug)]
pub struct Deliverer {
    stop: watch::Sender<bool>,
    waker: Waker,
    delivering: JoinHandle<()>,
    keeping_house: JoinHandle<()>,
}

impl Deliverer {
    /// Starts delivering with a waker of its own. Settings beyond their bounds are for [`DelivererConfig::validate`].
    pub fn start(relay: Relay, config: DelivererConfig) -> Self {
        Self::start_with(relay, config, Waker::default())
    }

    /// Starts delivering, woken by `waker`, which may be older than this.
    pub fn start_with(relay: Relay, config: DelivererConfig, waker: Waker) -> Self {
        describe_metrics();
        let (stop, stopped) = watch::channel(false);
        let house = keep_house(relay.clone(), config.keep(), stopped.clone());
        let desk = Desk::new(relay, config);
        let delivering = tokio::spawn(Box::pin(desk.run(waker.clone(), stopped)));
        Self { stop, waker, delivering, keeping_house: tokio::spawn(house) }
    }

    /// What wakes it.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Tells whether it still delivers, for as long as that is asked.
    pub fn watch(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let tasks = [self.delivering.abort_handle(), self.keeping_house.abort_handle()];
        move || tasks.iter().all(|task| !task.is_finished())
    }

    /// Finishes the attempts that are being made, which the sender bounds, says what came of them, and ends.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.delivering.await;
        let _ = self.keeping_house.await;
    }
}

/// What came of a turn.
struct TurnEnd {
    prepared: Vec<Prepared>,
    /// Whether anything was due.
    found: bool,
    /// Where to go on; `None` when the round is over.
    last: Option<Lane>,
}

/// Where an attempt belongs.
#[derive(Clone, Copy)]
struct Slot {
    lane: Lane,
    failing: bool,
}

/// Everything at work.
struct Desk {
    relay: Relay,
    config: DelivererConfig,
    /// For endpoints that work, as far as is known.
    sound: Pool,
    /// For those that have failed lately.
    failing: Pool,
    attempts: JoinSet<Option<DeliveryReport>>,
    slots: HashMap<task::Id, Slot>,
    /// One at the most.
    turns: JoinSet<Result<TurnEnd, StoreError>>,
    /// How many it may bring.
    expected: usize,
    /// When the next one is due.
    turn_at: Instant,
    /// No round begins before, however often it is asked for.
    not_before: Instant,
    /// Since when there is too little room for a turn.
    full_since: Option<Instant>,
    /// How many attempts have ended since then.
    ended_since: usize,
    /// Where the round is; `None` before its first turn.
    cursor: Option<Lane>,
    /// Whether this round has found anything.
    found: bool,
    /// Whether there is reason for another round after this one.
    again: bool,
    /// Lanes that were passed over since there was enough of them.
    passed_over: BTreeSet<Lane>,
    /// To be told, and when.
    reports: Vec<DeliveryReport>,
    tell_at: Instant,
    /// One group at the most.
    telling: JoinSet<Vec<EndpointId>>,
    told_now: usize,
    /// Endpoints that were switched off here, for what was prepared before; with whether the store knows it.
    off: BTreeMap<EndpointId, bool>,
}

impl Desk {
    fn new(relay: Relay, config: DelivererConfig) -> Self {
        let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let (at_once, per_lane) = (size(config.at_once).max(2), size(config.per_endpoint).max(1));
        let now = Instant::now();
        Self {
            relay,
            config,
            sound: Pool::new(at_once, per_lane),
            failing: Pool::new(at_once / 2, per_lane),
            attempts: JoinSet::new(),
            slots: HashMap::new(),
            turns: JoinSet::new(),
            expected: 0,
            turn_at: now,
            not_before: now,
            full_since: None,
            ended_since: 0,
            cursor: None,
            found: false,
            again: false,
            passed_over: BTreeSet::new(),
            reports: Vec::new(),
            tell_at: now,
            telling: JoinSet::new(),
            told_now: 0,
            off: BTreeMap::new(),
        }
    }

    async fn run(mut self, waker: Waker, mut stopped: watch::Receiver<bool>) {
        loop {
            // Whoever drops the other end wants no more either.
            let stopping = *stopped.borrow() || stopped.has_changed().is_err();
            if stopping {
                self.sound.clear();
                self.failing.clear();
                self.tell();
                if self.attempts.is_empty() && self.turns.is_empty() && self.telling.is_empty() {
                    return;
                }
            } else {
                self.send();
                self.make_room();
                self.take_turn();
                if self.reports.len() >= TELL_GROUP || Instant::now() >= self.tell_at {
                    self.tell();
                }
            }
            let turn_at = (!stopping && self.may_take_turn()).then_some(self.turn_at);
            let tell_at = (!self.reports.is_empty() && self.telling.is_empty()).then_some(self.tell_at);
            let shed_at = self.full_since.filter(|_| !stopping).map(|since| since + STUCK_AFTER);
            tokio::select! {
                Some(ended) = self.attempts.join_next_with_id() => self.ended(ended),
                Some(ended) = self.turns.join_next() => self.turn_ended(ended, stopping),
                Some(ended) = self.telling.join_next() => self.told(ended),
                () = waker.0.notified() => self.hasten(),
                () = until(turn_at) => {}
                () = until(tell_at) => {}
                () = until(shed_at) => {}
                _ = stopped.changed(), if !stopping => {}
            }
        }
    }

    /// How many are in memory, or may be when the turn ends.
    fn held(&self) -> usize {
        let counts = [
            self.expected,
            self.sound.queued(),
            self.failing.queued(),
            self.attempts.len(),
            self.reports.len(),
            self.told_now,
        ];
        counts.into_iter().fold(0, usize::saturating_add)
    }

    fn room(&self) -> usize {
        MAX_HELD.saturating_sub(self.held())
    }

    fn may_take_turn(&self) -> bool {
        self.turns.is_empty() && self.room() >= MIN_ROOM
    }

    /// Forgets what waits most when nothing could be taken up for [`STUCK_AFTER`], but what is soon sent: it is of receivers
    /// that are slow, and would have those of all others wait. It comes again when its lease ends.
    fn make_room(&mut self) {
        // A turn that is being taken has all the room that it may need, however long the store takes.
        if !self.turns.is_empty() || self.room() >= MIN_ROOM {
            self.full_since = None;
            return;
        }
        let now = Instant::now();
        let Some(since) = self.full_since else {
            (self.full_since, self.ended_since) = (Some(now), 0);
            return;
        };
        if now < since + STUCK_AFTER {
            return;
        }
        let spans = usize::try_from(u64::from(KEPT_FOR) / STUCK_AFTER.as_secs()).unwrap_or(1);
        let keep = self.ended_since.saturating_mul(spans).max(KEPT_OF_ONE);
        (self.full_since, self.ended_since) = (Some(now), 0);
        while self.room() < MIN_ROOM {
            let shed = [&mut self.sound, &mut self.failing].map(|pool| pool.shed(keep, MAX_HELD));
            let shed = shed.into_iter().fold(0, usize::saturating_add);
            if shed == 0 {
                return;
            }
            tracing::debug!(
                shed,
                "postbacks to slow receivers of one integrator make room for others; they come again"
            );
            self.hasten();
        }
    }

    fn has_enough(&self, lane: Lane) -> bool {
        let held = self.sound.held(lane).saturating_add(self.failing.held(lane));
        let bound = usize::try_from(self.config.per_endpoint).unwrap_or(usize::MAX);
        held >= bound.max(1).saturating_mul(ENOUGH)
    }

    /// Looks again soon, since something may be due.
    fn hasten(&mut self) {
        if self.turns.is_empty() && self.cursor.is_none() {
            self.turn_at = self.turn_at.min(self.not_before);
        } else {
            self.again = true;
        }
    }

    fn take_turn(&mut self) {
        if !self.may_take_turn() || Instant::now() < self.turn_at {
            return;
        }
        self.off.retain(|_, known| !*known);
        let lanes = LANES_PER_TURN;
        let share = u32::try_from(self.room()).unwrap_or(u32::MAX) / lanes;
        let per_lane = share.clamp(1, PER_LANE);
        let held: BTreeSet<Lane> = self.sound.lanes().chain(self.failing.lanes()).collect();
        let except: Vec<Lane> = held.into_iter().filter(|lane| self.has_enough(*lane)).collect();
        self.passed_over.extend(&except);
        self.expected = usize::try_from(lanes.saturating_mul(per_lane)).unwrap_or(usize::MAX);
        let (relay, after) = (self.relay.clone(), self.cursor);
        self.turns.spawn(async move {
            let taken = relay.take(after, lanes, per_lane, except).await?;
            let found = !taken.deliveries.is_empty();
            let prepared = prepare(&relay, taken.deliveries).await;
            Ok(TurnEnd { prepared, found, last: taken.last })
        });
    }

    fn turn_ended(&mut self, ended: Result<Result<TurnEnd, StoreError>, JoinError>, stopping: bool) {
        self.expected = 0;
        let now = Instant::now();
        let turn = match ended {
            Ok(Ok(turn)) => turn,
            failed => {
                if let Ok(Err(error)) = failed {
                    tracing::warn!(%error, "due postbacks can't be taken up");
                } else {
                    tracing::error!("taking up due postbacks panicked");
                }
                (self.cursor, self.found, self.again) = (None, false, false);
                self.not_before = now + self.config.poll_interval();
                self.turn_at = self.not_before;
                return;
            }
        };
        for prepared in turn.prepared {
            match prepared {
                Prepared::Tell(report) => self.gather(*report),
                Prepared::Send(_) if stopping => {}
                Prepared::Send(ready) if self.off.contains_key(&ready.endpoint_id()) => {
                    self.gather(ready.give_up(DeadReason::EndpointOff));
                }
                Prepared::Send(ready) if ready.is_failing() => self.queue_failing(*ready),
                Prepared::Send(ready) => self.sound.push(*ready),
            }
        }
        self.found |= turn.found;
        self.cursor = turn.last;
        self.turn_at = now;
        if turn.last.is_none() {
            if !self.found {
                self.not_before = now + ROUND_PAUSE;
                self.turn_at = if self.again { self.not_before } else { now + self.config.poll_interval() };
            }
            (self.found, self.again) = (false, false);
        }
    }

    /// Starts what the bounds allow.
    fn send(&mut self) {
        let at_once = usize::try_from(self.config.at_once).unwrap_or(usize::MAX).max(2);
        while self.attempts.len() < at_once {
            let (ready, failing) = match self.sound.next() {
                Some(ready) => (ready, false),
                None => match self.failing.next() {
                    Some(ready) => (ready, true),
                    None => return,
                },
            };
            let slot = Slot { lane: ready.claimed.lane, failing };
            let relay = self.relay.clone();
            let task = self.attempts.spawn(async move { Box::pin(relay.attempt(ready)).await });
            self.slots.insert(task.id(), slot);
        }
    }

    fn ended(&mut self, ended: Result<(task::Id, Option<DeliveryReport>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        if let Some(Slot { lane, failing }) = self.slots.remove(&id) {
            let pool = if failing { &mut self.failing } else { &mut self.sound };
            pool.ended(lane);
            self.look_again_for(lane);
            self.ended_since = self.ended_since.saturating_add(1);
        }
        match ended {
            Ok((_, Some(report))) => {
                measure_attempt(&report);
                self.heed(&report);
                self.gather(report);
            }
            Ok((_, None)) => tracing::debug!("a postback waited too long to be sent; it comes again"),
            Err(_) => tracing::error!("sending a postback panicked; it comes again"),
        }
    }

    /// A lane that was passed over may be taken up again.
    fn look_again_for(&mut self, lane: Lane) {
        if !self.has_enough(lane) && self.passed_over.remove(&lane) {
            self.hasten();
        }
    }

    /// What an attempt says of its endpoint goes for those that wait to be sent there.
    fn heed(&mut self, report: &DeliveryReport) {
        let lane = report.claimed.lane;
        match &report.endpoint {
            EndpointNews::Nothing => {}
            EndpointNews::Works(id) => {
                for ready in self.failing.withdraw(lane, *id) {
                    self.sound.push(ready.forgiven());
                }
            }
            EndpointNews::Fails(endpoint) if endpoint.off.is_some() => {
                let mut waiting = self.sound.withdraw(lane, endpoint.id);
                waiting.extend(self.failing.withdraw(lane, endpoint.id));
                if is_gone(endpoint) {
                    self.off.insert(endpoint.id, false);
                    for ready in waiting {
                        self.gather(ready.give_up(DeadReason::EndpointOff));
                    }
                }
                // Otherwise another node may have seen it work meanwhile. They come again, with what the store says of it.
                self.look_again_for(lane);
            }
            EndpointNews::Fails(endpoint) => {
                for ready in self.sound.withdraw(lane, endpoint.id) {
                    self.queue_failing(ready);
                }
                self.look_again_for(lane);
            }
        }
    }

    /// One too many comes again when its lease ends: one of the integrator of which most wait.
    fn queue_failing(&mut self, ready: Ready) {
        if self.failing.queued() >= MAX_FAILING_HELD {
            self.failing.shed(KEPT_OF_ONE, 1);
        }
        if self.failing.queued() < MAX_FAILING_HELD {
            self.failing.push(ready);
        }
    }

    fn gather(&mut self, report: DeliveryReport) {
        if self.reports.is_empty() {
            self.tell_at = Instant::now() + TELL_AFTER;
        }
        self.reports.push(report);
    }

    fn tell(&mut self) {
        if self.reports.is_empty() || !self.telling.is_empty() {
            return;
        }
        let group = std::mem::take(&mut self.reports);
        self.told_now = group.len();
        let relay = self.relay.clone();
        self.telling.spawn(async move {
            let off = group.iter().filter_map(|report| match &report.endpoint {
                EndpointNews::Fails(endpoint) if is_gone(endpoint) => Some(endpoint.id),
                EndpointNews::Fails(_) | EndpointNews::Nothing | EndpointNews::Works(_) => None,
            });
            let off = off.collect();
            tell_all(&relay, group).await;
            off
        });
    }

    fn told(&mut self, ended: Result<Vec<EndpointId>, JoinError>) {
        self.told_now = 0;
        if let Ok(off) = ended {
            self.off.extend(off.into_iter().map(|id| (id, true)));
        } else {
            tracing::error!("saying what came of postbacks panicked; they come again");
            self.off.values_mut().for_each(|known| *known = true);
        }
        // What waited for these may be due.
        self.hasten();
    }
}

/// Whether its receiver has said itself that nothing is to be sent there any more.
fn is_gone(endpoint: &Endpoint) -> bool {
    matches!(endpoint.off, Some((_, OffReason::Gone)))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Makes what is sent. What is damaged must not keep the rest from it, so that a group with such a one is halved.
async fn prepare(relay: &Relay, taken: Vec<ClaimedDelivery>) -> Vec<Prepared> {
    let mut prepared = Vec::with_capacity(taken.len());
    let mut groups = vec![taken];
    while let Some(mut group) = groups.pop() {
        let Some(until) = group.iter().map(|claimed| claimed.until).max() else { continue };
        match patiently(relay, until, || relay.prepare(group.clone())).await {
            Ok((some, unsigned)) => {
                prepared.extend(some);
                if let Some(error) = unsigned {
                    tracing::error!(%error, "postbacks can't be signed; they wait");
                }
            }
            Err(error) if is_lasting(&error) && group.len() > 1 => {
                groups.push(group.split_off(group.len() / 2));
                groups.push(group);
            }
            Err(error) => {
                let count = group.len();
                tracing::warn!(%error, count, "postbacks can't be prepared; they come again");
            }
        }
    }
    prepared
}

/// Says what came of deliveries, by the same rule.
async fn tell_all(relay: &Relay, reports: Vec<DeliveryReport>) {
    let mut groups = vec![reports];
    while let Some(mut group) = groups.pop() {
        let Some(until) = group.iter().map(|report| report.claimed.until).max() else { continue };
        match patiently(relay, until, || relay.tell(group.clone())).await {
            Ok(_) => {}
            Err(error) if is_lasting(&error) && group.len() > 1 => {
                groups.push(group.split_off(group.len() / 2));
                groups.push(group);
            }
            Err(error) => {
                let count = group.len();
                tracing::warn!(%error, count, "what came of postbacks can't be kept; they are sent again");
            }
        }
    }
}

/// Whether asking again is in vain.
const fn is_lasting(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged(_) | StoreError::Rejected(_))
}

/// Asks the store again while that may help and a lease lasts.
async fn patiently<T, Called>(
    relay: &Relay,
    until: Timestamp,
    mut call: impl FnMut() -> Called,
) -> Result<T, StoreError>
where
    Called: Future<Output = Result<T, StoreError>>,
{
    let mut wait = FIRST_STORE_WAIT;
    let mut tries: u32 = 1;
    loop {
        match Box::pin(call()).await {
            Err(error) if !is_lasting(&error) && tries < STORE_TRIES && relay.now() < until => {
                tracing::debug!(%error, tries, "the store is asked again");
            }
            ended => return ended,
        }
        sleep(wait).await;
        wait = wait.saturating_mul(2).min(MAX_STORE_WAIT);
        tries = tries.saturating_add(1);
    }
}

/// Forgets old deliveries and measures the backlog.
async fn keep_house(relay: Relay, keep: Duration, mut stopped: watch::Receiver<bool>) {
    let mut forget_tick = interval(FORGET_INTERVAL);
    let mut measure_tick = interval(MEASURE_INTERVAL);
    for tick in [&mut forget_tick, &mut measure_tick] {
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    while !*stopped.borrow() {
        tokio::select! {
            _ = forget_tick.tick() => forget(&relay, keep, &stopped).await,
            _ = measure_tick.tick() => measure_backlog(&relay).await,
            changed = stopped.changed() => if changed.is_err() { return },
        }
    }
}

async fn forget(relay: &Relay, keep: Duration, stopped: &watch::Receiver<bool>) {
    while !*stopped.borrow() {
        match relay.forget(keep, FORGET_BATCH).await {
            Ok(count) if count < u64::from(FORGET_BATCH) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "old deliveries can't be removed");
                return;
            }
        }
    }
}

fn describe_metrics() {
    metrics::describe_counter!("pix_postback_attempts_total", "Attempts to send a postback.");
    metrics::describe_histogram!("pix_postback_attempt_seconds", "How long they took.");
    metrics::describe_gauge!("pix_postbacks_waiting", "Postbacks that wait to be delivered.");
    metrics::describe_gauge!("pix_postbacks_dead", "Postbacks that were given up.");
    metrics::describe_gauge!("pix_postback_endpoints_off", "Receivers' addresses that are switched off.");
    metrics::describe_gauge!("pix_postback_oldest_waiting_seconds", "The age of the oldest that waits.");
}

fn measure_attempt(report: &DeliveryReport) {
    let Some(attempt) = &report.attempt else { return };
    let outcome = if report.standing == Standing::Delivered { "delivered" } else { "failed" };
    metrics::counter!("pix_postback_attempts_total", "outcome" => outcome).increment(1);
    metrics::histogram!("pix_postback_attempt_seconds")
        .record(Duration::from_millis(attempt.took_ms.into()).as_secs_f64());
}

async fn measure_backlog(relay: &Relay) {
    let backlog = match relay.backlog().await {
        Ok(backlog) => backlog,
        Err(error) => {
            tracing::warn!(%error, "waiting postbacks can't be counted");
            return;
        }
    };
    let oldest = backlog.oldest_at.map_or(0, |at| relay.now().since(at).as_secs());
    for (name, value) in [
        ("pix_postbacks_waiting", backlog.waiting),
        ("pix_postbacks_dead", backlog.dead),
        ("pix_postback_endpoints_off", backlog.endpoints_off),
        ("pix_postback_oldest_waiting_seconds", oldest),
    ] {
        metrics::gauge!(name).set(f64::from(u32::try_from(value).unwrap_or(u32::MAX)));
    }
}
