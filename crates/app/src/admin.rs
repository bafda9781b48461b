//! What operators' tools read: metrics, on a listener of their own.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use pix_domain::follow_up::FollowUpStore;
use pix_domain::ids::ResourceKind;
use pix_domain::time::Clock;
use tokio::task::JoinHandle;

use crate::system::SystemClock;

/// The states of movements that are not final.
const OPEN_STATES: [&str; 5] = ["queued", "submitting", "accepted", "uncertain", "needs_review"];
/// Their kinds.
const KINDS: [ResourceKind; 2] = [ResourceKind::Withdrawal, ResourceKind::Refund];
/// How long an idle connection of a scraper is kept.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// The histogram of attempts to deliver a postback.
const ATTEMPT_SECONDS: &str = "pix_postback_attempt_seconds";
/// Its buckets, in seconds.
const ATTEMPT_BUCKETS: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];
/// How often samples that nobody scrapes are folded into their buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The process has one recorder.
static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// The listener, running.
pub struct Admin {
    handle: ServerHandle,
    task: JoinHandle<std::io::Result<()>>,
    upkeep: JoinHandle<()>,
}

/// What a scrape reads.
struct Meters {
    handle: PrometheusHandle,
    follow_ups: Arc<dyn FollowUpStore>,
}

impl Admin {
    /// Listens on `listen`; `None` for no listener.
    pub fn start(
        listen: Option<SocketAddr>,
        follow_ups: Arc<dyn FollowUpStore>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(listen) = listen else { return Ok(None) };
        let handle = recorder()?;
        let meters = web::Data::new(Meters { handle: handle.clone(), follow_ups });
        let server = HttpServer::new(move || {
            App::new().app_data(meters.clone()).route("/metrics", web::get().to(scrape))
        });
        let server = server
            .workers(1)
            .keep_alive(KEEP_ALIVE)
            .disable_signals()
            .bind(listen)
            .with_context(|| {
                format!("PIX_ADMIN_LISTEN is {listen}, which can't be listened on: choose another address, or `off`")
            })?
            .run();
        let upkeep = tokio::spawn(async move {
            let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
            loop {
                interval.tick().await;
                handle.run_upkeep();
            }
        });
        Ok(Some(Self { handle: server.handle(), task: tokio::spawn(server), upkeep }))
    }

    /// Ends.
    pub async fn stop(self) {
        self.upkeep.abort();
        self.handle.stop(false).await;
        let _ = self.task.await;
    }
}

/// What everything measured in this process is read from; made when it is first asked for.
fn recorder() -> anyhow::Result<PrometheusHandle> {
    if let Some(handle) = RECORDER.get() {
        return Ok(handle.clone());
    }
    let attempts = Matcher::Full(ATTEMPT_SECONDS.to_owned());
    let recorder =
        PrometheusBuilder::new().set_buckets_for_metric(attempts, &ATTEMPT_BUCKETS)?.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)
        .map_err(|_error| anyhow::anyhow!("metrics are recorded elsewhere"))?;
    Ok(RECORDER.get_or_init(|| handle).clone())
}

async fn scrape(meters: web::Data<Meters>) -> HttpResponse {
    match meters.follow_ups.open_movements().await {
        Ok(open) => Meters::measure(&open),
        Err(error) => {
            tracing::warn!(%error, "open movements can't be counted");
            return HttpResponse::ServiceUnavailable().finish();
        }
    }
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(meters.handle.render())
}

impl Meters {
    fn measure(open: &[pix_domain::follow_up::OpenMovements]) {
        let now = SystemClock.now();
        metrics::describe_gauge!("pix_open_movements", "Withdrawals and refunds that are not final.");
        metrics::describe_gauge!("pix_open_held_cents", "What is held for them, in centavos.");
        metrics::describe_gauge!("pix_open_oldest_seconds", "The age of the oldest of them.");
        for kind in KINDS {
            for state in OPEN_STATES {
                let found = open.iter().find(|open| open.kind == kind && open.state == state);
                let age = found.map_or(0, |open| now.since(open.oldest_at).as_secs());
                let labels = [("kind", kind.as_str()), ("state", state)];
                metrics::gauge!("pix_open_movements", &labels)
                    .set(number(found.map_or(0, |open| open.count)));
                metrics::gauge!("pix_open_held_cents", &labels)
                    .set(number(found.map_or(0, |open| open.held_cents)));
                metrics::gauge!("pix_open_oldest_seconds", &labels).set(number(age));
            }
        }
    }
}

/// A gauge is a float by its format; nothing is computed with it.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "Prometheus knows floats only")]
const fn number(count: u64) -> f64 {
    count as f64
}
