//! Fail points: named steps at which the process kills itself, so that a test can see what each one leaves behind. They
//! stand around the ports, so no use case knows of them; and they exist in builds with the feature `fail-points` alone.
//!
//! - `PIX_FAIL_AT=withdrawal.created:after` kills the process, as `kill -9` does, the first time that the step is reached;
//!   `#3` behind it, the third time. [`STEPS`] lists every step.
//! - `PIX_CLOCK_FILE` names a file that holds by how many milliseconds the gateway's clock is ahead; it is read whenever
//!   the time is asked for. Beside it, with the ending [`QUIET_ENDING`], the worker says up to when (in microseconds
//!   since the epoch) it has found nothing due and finished whatever it had claimed.
//!
//! What is written by a step is named by the event of its first write; what writes no record is `finding` or `evidence`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use async_trait::async_trait;
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::follow_up::{FollowUp, FollowUpStore, OpenMovements};
use pix_domain::ports::Ports;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, PaymentOrder, ProviderError, RefundOrder, Removal,
    SettlementProvider, Ticket,
};
use pix_domain::time::Timestamp;
use pix_domain::transition::{Transition, TransitionStore};
use uuid::Uuid;

/// Which step kills the process.
const FAIL_AT: &str = "PIX_FAIL_AT";
/// How far the clock is ahead.
const CLOCK_FILE: &str = "PIX_CLOCK_FILE";
/// The ending of the file beside [`CLOCK_FILE`] in which the worker says that nothing is due.
const QUIET_ENDING: &str = ".quiet";
/// A follow-up or callback that failed is never put off, so that after this it counts as finished.
const LOST_AFTER: Duration = Duration::from_secs(10);

const BOTH: &[&str] = &["before", "after"];
const AFTER: &[&str] = &["after"];

/// Every step, and at which sides of it the process can end. A step's full name is `name:side`.
const STEPS: &[(&str, &[&str])] = &[
    ("charge.creating", BOTH),
    ("charge.pending", BOTH),
    ("charge.failed", BOTH),
    ("charge.paid", BOTH),
    ("charge.paid_again", BOTH),
    ("charge.expired", BOTH),
    ("charge.canceled", BOTH),
    ("charge.taken_back", BOTH),
    ("withdrawal.created", BOTH),
    ("withdrawal.queued", BOTH),
    ("withdrawal.submitting", BOTH),
    ("withdrawal.accepted", BOTH),
    ("withdrawal.uncertain", BOTH),
    ("withdrawal.needs_review", BOTH),
    ("withdrawal.completed", BOTH),
    ("withdrawal.failed", BOTH),
    ("withdrawal.canceled", BOTH),
    ("withdrawal.returned", BOTH),
    ("withdrawal.settled_late", BOTH),
    ("refund.created", BOTH),
    ("refund.queued", BOTH),
    ("refund.submitting", BOTH),
    ("refund.accepted", BOTH),
    ("refund.uncertain", BOTH),
    ("refund.needs_review", BOTH),
    ("refund.completed", BOTH),
    ("refund.failed", BOTH),
    ("finding", BOTH),
    ("evidence", BOTH),
    ("provider.create_charge", BOTH),
    ("provider.send_payment", BOTH),
    ("provider.refund", BOTH),
    ("provider.consult_charge", BOTH),
    ("provider.consult_payment", BOTH),
    ("provider.consult_refund", BOTH),
    // Before a claim there is nothing to lose.
    ("follow_up.claim", AFTER),
    ("follow_up.postpone", BOTH),
    ("callback.keep", BOTH),
    ("callback.claim", AFTER),
    ("callback.put", BOTH),
];

/// Events that are never the first write of a transition: a charge's share of a refund's, and what the
/// recipients of a split have of a payment and give back of a refund, which are parts of these.
#[cfg(test)]
const NEVER_FIRST: &[&str] = &[
    "charge.refund_reserved",
    "charge.refunded",
    "charge.refund_released",
    "split.received",
    "split.taken_back",
];

fn full_names() -> impl Iterator<Item = String> {
    STEPS.iter().flat_map(|(name, sides)| sides.iter().map(move |side| format!("{name}:{side}")))
}

/// How far the clock is ahead, in microseconds. Zero without a file, or while it can't be read.
pub fn clock_ahead_micros() -> i64 {
    let Some(path) = clock_file() else { return 0 };
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().parse::<i64>().unwrap_or_default().saturating_mul(1000)
}

fn clock_file() -> Option<&'static Path> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    FILE.get_or_init(|| std::env::var_os(CLOCK_FILE).map(PathBuf::from)).as_deref()
}

/// The ports with every step around them, and the one that the environment names armed. An unknown step is refused.
pub fn around(ports: Ports) -> anyhow::Result<Ports> {
    let points = Arc::new(Points::parse(&std::env::var(FAIL_AT).unwrap_or_default())?);
    let mut stores = ports.stores;
    stores.transitions = Arc::new(Transitions { inner: stores.transitions, points: Arc::clone(&points) });
    let busy = Arc::new(Busy::default());
    stores.follow_ups = Arc::new(FollowUps {
        inner: stores.follow_ups,
        points: Arc::clone(&points),
        busy: Arc::clone(&busy),
    });
    stores.callbacks = Arc::new(Callbacks { inner: stores.callbacks, points: Arc::clone(&points), busy });
    Ok(Ports { stores, provider: Arc::new(Provider { inner: ports.provider, points }), ..ports })
}

/// Which step is armed, and how often it is still passed.
struct Points {
    armed: Option<String>,
    left: AtomicU64,
}

impl Points {
    fn parse(text: &str) -> anyhow::Result<Self> {
        if text.is_empty() {
            return Ok(Self { armed: None, left: AtomicU64::new(0) });
        }
        let (name, times) = text.split_once('#').unwrap_or((text, "1"));
        let times = times.parse::<u64>().ok().filter(|times| *times > 0);
        match (full_names().any(|known| known == name), times) {
            (true, Some(times)) => Ok(Self { armed: Some(name.to_owned()), left: AtomicU64::new(times) }),
            _ => bail!(
                "{FAIL_AT} is \"{text}\" but must be one of these steps, with #3 behind it for the third time: {}",
                full_names().collect::<Vec<_>>().join(", ")
            ),
        }
    }

    /// A step is reached: the process may end here.
    fn reach(&self, name: &str, side: &str) {
        if !STEPS.iter().any(|(known, _)| *known == name) {
            tracing::error!("the step {name} is in no table of fail points");
            die();
        }
        let armed = self.armed.as_deref().and_then(|armed| armed.split_once(':'));
        if armed == Some((name, side)) && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            die();
        }
    }
}

/// `kill -9` of this very process. Nothing after it runs.
fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    loop {
        std::thread::park();
    }
}

/// What a transition is called among the steps.
fn step_of(transition: &Transition) -> &'static str {
    match (transition.writes.first(), transition.findings.is_empty()) {
        (Some(write), _) => write.event.as_str(),
        (None, false) => "finding",
        (None, true) => "evidence",
    }
}

struct Transitions {
    inner: Arc<dyn TransitionStore>,
    points: Arc<Points>,
}

#[async_trait]
impl TransitionStore for Transitions {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        let name = step_of(&transition);
        self.points.reach(name, "before");
        let applied = self.inner.apply(transition).await;
        if applied.is_ok() {
            self.points.reach(name, "after");
        }
        applied
    }

    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        let names: Vec<_> = transitions.iter().map(step_of).collect();
        for name in &names {
            self.points.reach(name, "before");
        }
        let applied = self.inner.apply_all(transitions).await;
        for (name, _) in names.iter().zip(&applied).filter(|(_, applied)| applied.is_ok()) {
            self.points.reach(name, "after");
        }
        applied
    }
}

/// What is being worked on, since when: records and callbacks, by their ids.
#[derive(Default)]
struct Busy(Mutex<HashMap<Uuid, Instant>>, AtomicI64);

impl Busy {
    fn with(&self, ids: impl Iterator<Item = Uuid>) -> bool {
        let mut busy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        busy.retain(|_, since| since.elapsed() < LOST_AFTER);
        busy.extend(ids.map(|id| (id, Instant::now())));
        !busy.is_empty()
    }

    /// Follow-ups were looked for at that time, the first question of a round.
    fn looked_at(&self, now: Timestamp) {
        self.1.store(now.micros(), Ordering::SeqCst);
    }

    fn without(&self, id: Uuid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

struct FollowUps {
    inner: Arc<dyn FollowUpStore>,
    points: Arc<Points>,
    busy: Arc<Busy>,
}

fn say_quiet(clock_file: &Path, now: Timestamp) {
    let ending = |ending: &str| {
        let mut path = clock_file.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let (half, whole) = (ending(".half"), ending(QUIET_ENDING));
    // Whoever waits for it waits on when it can't be written.
    let written = std::fs::write(&half, now.micros().to_string());
    let _ = written.and_then(|()| std::fs::rename(&half, &whole));
}

#[async_trait]
impl FollowUpStore for FollowUps {
    async fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Result<Vec<FollowUp>, StoreError> {
        self.busy.looked_at(now);
        let due = self.inner.claim(now, lease, limit).await?;
        if !due.is_empty() {
            self.points.reach("follow_up.claim", "after");
        }
        self.busy.with(due.iter().map(|due| due.resource.id));
        Ok(due)
    }

    async fn postpone(&self, claimed: FollowUp, until: Option<Timestamp>) -> Result<(), StoreError> {
        self.points.reach("follow_up.postpone", "before");
        let postponed = self.inner.postpone(claimed, until).await;
        self.points.reach("follow_up.postpone", "after");
        self.busy.without(claimed.resource.id);
        postponed
    }

    async fn open_movements(&self) -> Result<Vec<OpenMovements>, StoreError> {
        self.inner.open_movements().await
    }
}

struct Callbacks {
    inner: Arc<dyn CallbackStore>,
    points: Arc<Points>,
    busy: Arc<Busy>,
}

#[async_trait]
impl CallbackStore for Callbacks {
    async fn keep(&self, callback: Callback, state: CallbackState) -> Result<bool, StoreError> {
        self.points.reach("callback.keep", "before");
        let (id, waits) = (callback.id, matches!(state, CallbackState::Waiting(_)));
        let kept = self.inner.keep(callback, state).await?;
        self.points.reach("callback.keep", "after");
        self.busy.with([id].into_iter().filter(|_| kept && waits));
        Ok(kept)
    }

    /// The worker's last question of a round: when this finds nothing either, and nothing is worked on, all is quiet.
    async fn claim(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<ClaimedCallback>, StoreError> {
        let due = self.inner.claim(now, lease, limit).await?;
        if !due.is_empty() {
            self.points.reach("callback.claim", "after");
        }
        if !self.busy.with(due.iter().map(|due| due.callback.id))
            && let Some(file) = clock_file()
        {
            // The clock may have been moved on between the two questions.
            let looked_at = self.busy.1.load(Ordering::SeqCst);
            say_quiet(file, now.min(Timestamp::from_micros(looked_at)));
        }
        Ok(due)
    }

    async fn put(&self, claimed: &ClaimedCallback, state: CallbackState) -> Result<(), StoreError> {
        self.points.reach("callback.put", "before");
        let put = self.inner.put(claimed, state).await;
        self.points.reach("callback.put", "after");
        self.busy.without(claimed.callback.id);
        put
    }

    async fn look_up(&self, id: Uuid) -> Result<Option<(CallbackState, u32)>, StoreError> {
        self.inner.look_up(id).await
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        self.inner.forget(before, limit).await
    }
}

struct Provider {
    inner: Arc<dyn SettlementProvider>,
    points: Arc<Points>,
}

impl Provider {
    async fn call<T>(&self, name: &str, call: impl Future<Output = T> + Send) -> T {
        self.points.reach(name, "before");
        let answer = call.await;
        self.points.reach(name, "after");
        answer
    }
}

#[async_trait]
impl SettlementProvider for Provider {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        self.call("provider.create_charge", self.inner.create_charge(order)).await
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        self.call("provider.send_payment", self.inner.send_payment(order)).await
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        self.call("provider.refund", self.inner.refund(order)).await
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        self.call("provider.consult_charge", self.inner.consult_charge(inquiry)).await
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.call("provider.consult_payment", self.inner.consult_payment(inquiry)).await
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.call("provider.consult_refund", self.inner.consult_refund(inquiry)).await
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        self.inner.remove_charge(inquiry).await
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        self.inner.balance().await
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        self.inner.not_found_is_proof_after()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pix_domain::transition::EventKind;

    use super::*;

    #[test]
    fn every_event_that_a_write_can_begin_with_is_a_step() {
        for kind in EventKind::ALL {
            let is_step = STEPS.iter().any(|(name, _)| *name == kind.as_str());
            assert_ne!(is_step, NEVER_FIRST.contains(&kind.as_str()), "{}", kind.as_str());
        }
        let names: BTreeSet<_> = full_names().collect();
        assert_eq!(names.len(), full_names().count(), "a step is listed twice");
    }

    #[test]
    fn a_step_is_read_with_its_number_and_what_is_none_is_refused_with_the_list() {
        assert!(Points::parse("").unwrap().armed.is_none());
        let third = Points::parse("withdrawal.created:after#3").unwrap();
        assert_eq!(third.armed.as_deref(), Some("withdrawal.created:after"));
        third.reach("withdrawal.created", "after");
        third.reach("withdrawal.created", "before");
        third.reach("withdrawal.created", "after");
        for wrong in ["withdrawal.created", "withdrawal.created:later", "finding:after#0", "finding:after#x"]
        {
            let refused = Points::parse(wrong).err().unwrap().to_string();
            assert!(refused.contains("callback.claim:after, callback.put:before"), "{refused}");
        }
    }
}
