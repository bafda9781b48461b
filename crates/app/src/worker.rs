//! The workers of a node: they go on with what isn't final, take up callbacks that come again, and forget old ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use pix_domain::callbacks::{CallbackService, ClaimedCallback};
use pix_domain::follow_up::FollowUp;
use pix_domain::ports::Ports;
use pix_domain::reconciler::{BATCH, LEASE, Reconciler};
use pix_domain::unrecorded::Unrecorded;
use pix_traces::{Kind, Told, of_record};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::config::WorkerConfig;

/// How much a node works on at once: a provider that hangs on some must not stop the others.
const MAX_AT_ONCE: usize = 16;
/// How often old callbacks are looked for.
const FORGET_INTERVAL: Duration = Duration::from_hours(1);
/// How many of them are removed in one statement.
const FORGET_BATCH: u32 = 1_000;

/// How long it may take until there is work again, waiting for a provider that hangs included; then something is wrong.
const MOST_SILENT: Duration = Duration::from_mins(5);

/// When the workers last looked for work, or took something up.
struct Pulse {
    begun: Instant,
    beat_ms: AtomicU64,
}

impl Pulse {
    fn beat(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.beat_ms.store(now, Ordering::Relaxed);
    }

    fn is_fresh(&self) -> bool {
        let beat = Duration::from_millis(self.beat_ms.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(beat) < MOST_SILENT
    }
}

/// The workers, running.
pub struct Worker {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    pulse: Arc<Pulse>,
}

/// What a worker works with.
struct Shop {
    reconciler: Reconciler,
    callbacks: CallbackService,
    config: WorkerConfig,
    /// What is asked of the provider a second.
    rate: DefaultDirectRateLimiter,
    permits: Arc<Semaphore>,
    pulse: Arc<Pulse>,
}

/// Something to work on.
enum Due {
    FollowUp(FollowUp),
    Callback(ClaimedCallback),
}

impl Worker {
    /// Starts looking for what is due at every interval, and at once while there is more than one claim takes.
    pub fn start(ports: Ports, config: WorkerConfig) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let pulse = Arc::new(Pulse { begun: Instant::now(), beat_ms: AtomicU64::new(0) });
        let work = Shop {
            reconciler: Reconciler::new(ports.clone()),
            callbacks: CallbackService::new(ports),
            config,
            rate: RateLimiter::direct(Quota::per_second(config.per_second)),
            permits: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            pulse: pulse.clone(),
        };
        let task = tokio::spawn(async move {
            let mut forget_at = Instant::now();
            while !*stopped.borrow() {
                let more = work.pass(&stopped).await;
                if Instant::now() >= forget_at {
                    work.forget().await;
                    forget_at = Instant::now() + FORGET_INTERVAL;
                }
                if !more {
                    tokio::select! {
                        () = tokio::time::sleep(work.config.interval) => {}
                        _ = stopped.changed() => {}
                    }
                }
            }
            // What is being worked on is finished; the rest is claimed by somebody else.
            let all = u32::try_from(MAX_AT_ONCE).unwrap_or(u32::MAX);
            let _ = work.permits.acquire_many(all).await;
            work.record().await;
        });
        Self { stop, task, pulse }
    }

    /// Tells whether they still look for work, for as long as that is asked.
    pub fn watch(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let (task, pulse) = (self.task.abort_handle(), self.pulse.clone());
        move || !task.is_finished() && pulse.is_fresh()
    }

    /// Finishes what is being worked on, and ends.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

impl Shop {
    /// How much of each kind is claimed at once: no more than can be asked about within half a lease, both together.
    fn batch(&self) -> u32 {
        let within = LEASE.as_secs() / 4;
        let most = u64::from(self.config.per_second.get()).saturating_mul(within);
        BATCH.min(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Claims one batch of each kind and starts working on it; whether there may be more.
    async fn pass(&self, stopped: &watch::Receiver<bool>) -> bool {
        self.pulse.beat();
        self.record().await;
        let limit = self.batch();
        let follow_ups = self.reconciler.claim(limit).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "due follow-ups can't be claimed");
            Vec::new()
        });
        let callbacks = self.callbacks.claim(limit).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "callbacks can't be claimed");
            Vec::new()
        });
        let full = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = follow_ups.len() >= full || callbacks.len() >= full;
        let due = follow_ups.into_iter().map(Due::FollowUp).chain(callbacks.into_iter().map(Due::Callback));
        for due in due {
            self.rate.until_ready().await;
            self.pulse.beat();
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return false };
            if *stopped.borrow() {
                return false;
            }
            let (reconciler, callbacks) = (self.reconciler.clone(), self.callbacks.clone());
            tokio::spawn(async move {
                work(&reconciler, &callbacks, due).await;
                drop(permit);
            });
        }
        more
    }

    /// Records what the store could not be told before; how much is left.
    async fn record(&self) -> usize {
        let left = self.reconciler.record().await;
        metrics::gauge!("pix_unrecorded_answers").set(f64::from(u32::try_from(left).unwrap_or(u32::MAX)));
        left
    }

    async fn forget(&self) {
        loop {
            match self.callbacks.forget(self.config.keep_callbacks, FORGET_BATCH).await {
                Ok(count) if count < u64::from(FORGET_BATCH) => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "old callbacks can't be removed");
                    return;
                }
            }
        }
    }
}

/// Says at the very end of a process what it could not record and nobody else knows.
pub fn tell_left(unrecorded: &Unrecorded) {
    let left = unrecorded.len();
    if left > 0 {
        tracing::error!(
            left,
            "what the provider answered about payments that were being sent could not be recorded; the provider is asked \
             about them: see `pix-gateway uncertain`"
        );
    }
}

/// Works on it, in the trace of the record that it is about.
async fn work(reconciler: &Reconciler, callbacks: &CallbackService, due: Due) {
    match due {
        Due::FollowUp(due) => {
            let resource = due.resource;
            let told = |done: &Result<_, _>| {
                let told = Told::new(Kind::Internal, "follow-up").with("pix.kind", resource.kind.as_str());
                told.with("pix.attempts", due.attempts).failing(done.is_err())
            };
            if let Err(error) = of_record(resource.id, Box::pin(reconciler.process(due)), told).await {
                tracing::warn!(%error, kind = resource.kind.as_str(), id = %resource.id, "a follow-up failed; it comes again");
            }
        }
        Due::Callback(claimed) => {
            let id = claimed.callback.id;
            let told = |done: &Result<_, _>| Told::new(Kind::Internal, "callback").failing(done.is_err());
            let reference = claimed.callback.reference.unwrap_or(id);
            if let Err(error) = of_record(reference, Box::pin(callbacks.process(claimed)), told).await {
                tracing::warn!(%error, callback = %id, "a callback could not be worked on; it comes again");
            }
        }
    }
}
