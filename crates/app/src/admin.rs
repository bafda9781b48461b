//! What operators and their tools read, on a listener of their own: metrics, how this node is in detail, and the console.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::guard::{Any, Get, Head};
use actix_web::http::StatusCode;
use actix_web::{App, HttpResponse, HttpServer, Route, web};
use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use pix_console::{Console, Mount};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::health::Health;
use crate::meters::{self, Answered};

/// How long an idle connection of a scraper is kept.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How often samples that nobody scrapes are folded into their buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The listener, running.
pub struct Admin {
    handle: ServerHandle,
    task: JoinHandle<std::io::Result<()>>,
    upkeep: JoinHandle<()>,
    console: Mount,
}

/// GET and HEAD.
fn look() -> Route {
    web::route().guard(Any(Get()).or(Head()))
}

/// What is asked.
struct Desk {
    counted: PrometheusHandle,
    health: Arc<Health>,
}

impl Admin {
    /// Listens on `listen`; `None` for no listener. From now on what is counted is kept, and sampled for the console where
    /// there is one.
    pub fn start(
        listen: Option<SocketAddr>,
        health: Arc<Health>,
        answered: Option<Arc<Answered>>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(listen) = listen else { return Ok(None) };
        let counted = meters::recorder()?;
        let desk = web::Data::new(Desk { counted: counted.clone(), health });
        let console = Mount::default();
        let mount = console.clone();
        let server = HttpServer::new(move || {
            App::new()
                .app_data(desk.clone())
                .route("/metrics", look().to(scrape))
                .route("/health/live", look().to(live))
                .route("/health/ready", look().to(ready))
                .configure(mount.clone().routes())
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
                counted.run_upkeep();
                if let Some(answered) = &answered {
                    answered.sample(&counted.render());
                }
            }
        });
        Ok(Some(Self { handle: server.handle(), task: tokio::spawn(server), upkeep, console }))
    }

    /// From now on the console is there; without one, it says that it is off.
    pub fn open(&self, console: Option<Console>) {
        self.console.open(console);
    }

    /// Ends.
    pub async fn stop(self) {
        self.upkeep.abort();
        self.handle.stop(false).await;
        let _ = self.task.await;
    }
}

async fn scrape(desk: web::Data<Desk>) -> HttpResponse {
    let measured = meters::measure(&desk.health).await;
    let body = [desk.counted.render(), measured].concat();
    HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(body)
}

async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "live", "version": env!("CARGO_PKG_VERSION")}))
}

async fn ready(desk: web::Data<Desk>) -> HttpResponse {
    let condition = desk.health.condition().await;
    let status = if condition.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    HttpResponse::build(status).json(condition.as_json())
}
