//! What a scrape measures, beside what is counted all the time: the money, what waits, the pools, the breaker, the process.
//!
//! What is of the database is measured anew by each scrape, into a recorder of its own: what could not be found out is not
//! there, rather than as it was before.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use pix_domain::error::StoreError;
use pix_domain::follow_up::OpenMovements;
use pix_domain::ids::ResourceKind;
use pix_domain::time::{Clock, Timestamp};
use pix_persistence::{Overdue, Vitals};
use pix_settlement::BreakerState;

use crate::audited::Audited;
use crate::health::{Condition, Health};
use crate::metered;
use crate::proving;
use crate::restored::Restored;
use crate::sealing::{SealStatus, Standing};
use crate::store::Store;
use crate::system::SystemClock;

/// The states of movements that are not final.
const OPEN_STATES: [&str; 5] = ["queued", "submitting", "accepted", "uncertain", "needs_review"];
/// Their kinds.
const KINDS: [ResourceKind; 2] = [ResourceKind::Withdrawal, ResourceKind::Refund];

/// The histogram of attempts to deliver a postback.
const ATTEMPT_SECONDS: &str = "pix_postback_attempt_seconds";
/// Its buckets, in seconds.
const ATTEMPT_BUCKETS: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];
/// Those of requests and of calls of the provider.
const CALL_BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// The process has one recorder.
static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// What everything counted in this process is read from; made when it is first asked for.
pub fn recorder() -> anyhow::Result<PrometheusHandle> {
    if let Some(handle) = RECORDER.get() {
        return Ok(handle.clone());
    }
    let mut builder = PrometheusBuilder::new();
    for (histogram, buckets) in [
        (ATTEMPT_SECONDS, &ATTEMPT_BUCKETS[..]),
        (pix_http::REQUEST_SECONDS, &CALL_BUCKETS),
        (metered::CALL_SECONDS, &CALL_BUCKETS),
    ] {
        builder = builder.set_buckets_for_metric(Matcher::Full(histogram.to_owned()), buckets)?;
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)
        .map_err(|_error| anyhow::anyhow!("metrics are recorded elsewhere"))
        .context("the program measures once a process")?;
    metrics::describe_counter!("pix_cache_lookups_total", "What was looked up in memory first.");
    metrics::describe_gauge!("pix_build_info", "The version of the program; always 1.");
    metrics::gauge!("pix_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1);
    metrics::describe_gauge!(
        "process_start_time_seconds",
        "When the process started, in seconds since 1970."
    );
    metrics::gauge!("process_start_time_seconds").set(number(seconds(SystemClock.now())));
    Ok(RECORDER.get_or_init(|| handle).clone())
}

/// How many requests were answered lately, for those who watch.
#[derive(Default)]
pub struct Answered {
    /// How many there were in all, at times.
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl Answered {
    /// How many samples are kept: those of a minute, one every five seconds.
    const KEPT: usize = 13;

    /// Reads the sum of what is counted now, in Prometheus' text format.
    pub fn sample(&self, counted: &str) {
        let requests = counted.lines().filter(|line| line.starts_with("pix_http_requests_total"));
        let counts = requests.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        let sum = counts.fold(0, u64::saturating_add);
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() >= Self::KEPT {
            samples.pop_front();
        }
        samples.push_back((Instant::now(), sum));
    }

    /// How many were answered between the oldest sample and the newest, and how long that was.
    pub fn lately(&self) -> Option<(u64, Duration)> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let ((began, before), (ended, after)) = (samples.front()?, samples.back()?);
        let span = ended.duration_since(*began);
        (!span.is_zero()).then(|| (after.saturating_sub(*before), span))
    }
}

/// What is of the whole database.
struct OfDatabase {
    open: Vec<OpenMovements>,
    vitals: Vitals,
    audited: Option<Audited>,
    restored: Option<Restored>,
    proofs: Option<proving::Standing>,
}

impl OfDatabase {
    async fn ask(store: &Store, now: Timestamp) -> Result<Self, StoreError> {
        let open = store.records.follow_ups.open_movements().await?;
        let vitals = store.vitals.vitals(now).await?;
        let restored = Restored::last(store.facts.as_ref()).await?;
        let proofs = proving::Standing::last(store).await?;
        Ok(Self { open, vitals, audited: Audited::last(store).await?, restored, proofs })
    }
}

/// What is measured now, in Prometheus' text format.
pub async fn measure(health: &Health) -> String {
    let now = SystemClock.now();
    let condition = health.condition().await;
    let found = OfDatabase::ask(health.store(), now).await;
    if let Err(error) = &found {
        tracing::warn!(%error, "the database can't be measured");
    }
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        set("pix_db_up", "Whether the database answered.", u64::from(found.is_ok()));
        if let Ok(found) = &found {
            money(found, now);
            lags(&found.vitals, now);
            if let Some(audited) = found.audited {
                audit(audited, now);
            }
            if let Some(standing) = &found.proofs {
                proofs(standing, now);
            }
            let shut = found.restored.as_ref().filter(|restored| restored.opened_at.is_none());
            let shut_for = shut.map_or(0, |restored| now.since(restored.at).as_secs().max(1));
            set(
                "pix_outflow_shut_seconds",
                "For how long no money has left after a restore; 0 when it may.",
                shut_for,
            );
        }
        node(health, &condition, now);
        process();
    });
    handle.render()
}

fn money(found: &OfDatabase, now: Timestamp) {
    metrics::describe_gauge!("pix_open_movements", "Withdrawals and refunds that are not final.");
    metrics::describe_gauge!("pix_open_held_cents", "What is held for them, in centavos.");
    metrics::describe_gauge!("pix_open_oldest_seconds", "The age of the oldest of them.");
    for kind in KINDS {
        for state in OPEN_STATES {
            let open = found.open.iter().find(|open| open.kind == kind && open.state == state);
            let age = open.map_or(0, |open| now.since(open.oldest_at).as_secs());
            let labels = [("kind", kind.as_str()), ("state", state)];
            metrics::gauge!("pix_open_movements", &labels).set(number(open.map_or(0, |open| open.count)));
            metrics::gauge!("pix_open_held_cents", &labels)
                .set(number(open.map_or(0, |open| open.held_cents)));
            metrics::gauge!("pix_open_oldest_seconds", &labels).set(number(age));
        }
    }
    metrics::describe_gauge!("pix_wallet_cents", "The sum over all wallets, in centavos.");
    let Vitals { available_cents, held_cents, owed_cents, .. } = found.vitals;
    for (account, cents) in [("available", available_cents), ("held", held_cents), ("owed", owed_cents)] {
        metrics::gauge!("pix_wallet_cents", "account" => account).set(number(cents));
    }
}

/// How long something has been overdue, in seconds.
pub fn lag(overdue: Overdue, now: Timestamp) -> u64 {
    overdue.since.map_or(0, |since| now.since(since).as_secs())
}

fn lags(vitals: &Vitals, now: Timestamp) {
    set("pix_follow_ups_due", "Follow-ups that are due and not taken.", vitals.follow_ups.count);
    set("pix_follow_up_lag_seconds", "How overdue the most overdue of them is.", lag(vitals.follow_ups, now));
    set("pix_callbacks_due", "Callbacks that are due and not taken.", vitals.callbacks.count);
    set("pix_callback_lag_seconds", "How overdue the most overdue of them is.", lag(vitals.callbacks, now));
    set("pix_postback_lag_seconds", "How overdue the most overdue postback is.", lag(vitals.deliveries, now));
}

fn audit(audited: Audited, now: Timestamp) {
    set("pix_audit_clean", "Whether the newest audit found the books right.", u64::from(audited.clean));
    set("pix_audit_differences", "How many differences it found.", audited.differences);
    set("pix_audit_age_seconds", "How long ago it was.", now.since(audited.at).as_secs());
}

fn proofs(standing: &proving::Standing, now: Timestamp) {
    set(
        "pix_proof_lag_seconds",
        "For how long a record that has ended has been due to be asked about again.",
        standing.lag(now).as_secs(),
    );
    if let Some(balance) = standing.balance {
        for (name, what, cents) in [
            (
                "pix_provider_balance_cents",
                "What is in our account at the provider, in centavos.",
                balance.cents,
            ),
            (
                "pix_provider_difference_cents",
                "How much more that is than the sealed books say, in centavos.",
                balance.difference_cents,
            ),
        ] {
            metrics::describe_gauge!(name, what);
            metrics::gauge!(name).set(signed(cents));
        }
        set(
            "pix_provider_balance_age_seconds",
            "How long ago it was asked for.",
            now.since(balance.at).as_secs(),
        );
    }
}

fn node(health: &Health, condition: &Condition, now: Timestamp) {
    set("pix_ready", "Whether requests can be served.", u64::from(condition.is_ready()));
    metrics::describe_gauge!("pix_worker_alive", "Whether a worker runs.");
    metrics::describe_gauge!(
        "pix_unrecorded_answers",
        "What the provider answered about payments being sent, and the store could not be told yet."
    );
    for (worker, alive) in &condition.workers {
        metrics::gauge!("pix_worker_alive", "worker" => *worker).set(number(u64::from(*alive)));
    }
    if let Some(status) = health.seals() {
        seals(status, now);
    }
    if let Some(breaker) = health.breaker() {
        let state = match breaker.state() {
            BreakerState::Closed => "closed",
            BreakerState::Open { .. } => "open",
            BreakerState::HalfOpen => "half_open",
        };
        metrics::describe_gauge!("pix_provider_breaker", "What the breaker does with new charges.");
        for each in ["closed", "open", "half_open"] {
            metrics::gauge!("pix_provider_breaker", "state" => each).set(number(u64::from(each == state)));
        }
    }
    metrics::describe_gauge!("pix_db_connections", "Connections to the database.");
    metrics::describe_gauge!("pix_db_connections_max", "How many there may be.");
    metrics::describe_gauge!("pix_db_waiting", "Callers that wait for one, or for the writer of SQLite.");
    for pool in health.store().vitals.pools() {
        metrics::gauge!("pix_db_waiting", "pool" => pool.pool).set(size(pool.waiting));
        if pool.max > 0 {
            metrics::gauge!("pix_db_connections_max", "pool" => pool.pool).set(size(pool.max));
            for (state, count) in [("used", pool.used), ("idle", pool.idle)] {
                metrics::gauge!("pix_db_connections", "pool" => pool.pool, "state" => state).set(size(count));
            }
        }
    }
}

fn seals(status: &SealStatus, now: Timestamp) {
    let Standing { sealed_until, left, differing } = status.standing();
    set("pix_seal_differences", "Books that contradict themselves and are not sealed.", differing);
    set("pix_seal_lag_entries", "Entries that the last turn of sealing left.", left);
    let age = now.since(sealed_until).as_secs();
    set("pix_seal_age_seconds", "How long ago everything was sealed, or this node started.", age);
    metrics::describe_counter!("pix_sealed_entries_total", "Entries that this node has sealed.");
    metrics::counter!("pix_sealed_entries_total").absolute(status.sealed());
}

/// What Linux says of the process; elsewhere nothing.
fn process() {
    if let Some(kib) = resident_kib() {
        set("process_resident_memory_bytes", "Memory in use.", kib.saturating_mul(1024));
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        let open = u64::try_from(open.count()).unwrap_or(u64::MAX);
        set("process_open_fds", "Open files.", open);
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        set("process_max_fds", "How many there may be.", most);
    }
}

fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn set(name: &'static str, what: &'static str, value: u64) {
    metrics::describe_gauge!(name, what);
    metrics::gauge!(name).set(number(value));
}

fn seconds(at: Timestamp) -> u64 {
    u64::try_from(at.micros() / 1_000_000).unwrap_or(0)
}

fn size(count: usize) -> f64 {
    number(u64::try_from(count).unwrap_or(u64::MAX))
}

/// As [`number`].
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "Prometheus knows floats only")]
const fn signed(count: i64) -> f64 {
    count as f64
}

/// A gauge is a float by its format; nothing is computed with it.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "Prometheus knows floats only")]
const fn number(count: u64) -> f64 {
    count as f64
}
