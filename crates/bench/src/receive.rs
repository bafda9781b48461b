//! Who receives postbacks: takes everything, and counts.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use actix_web::web::{Bytes, Data, get, post};
use actix_web::{App, HttpResponse, HttpServer};
use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::http::Served;
use crate::load::request;
use crate::program::ask;

/// Where postbacks go.
pub const PATH: &str = "/postbacks";

/// What has arrived.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Arrived {
    /// How many.
    pub count: u64,
    /// How many bytes their bodies had.
    pub bytes: u64,
    /// When the last one came, in microseconds of the receiver's clock.
    pub last_micros: u64,
}

impl Arrived {
    /// How many came a second since another look at the same receiver.
    pub fn per_second_since(&self, before: &Self) -> f64 {
        let micros = self.last_micros.saturating_sub(before.last_micros).max(1);
        self.count.saturating_sub(before.count) as f64 * 1e6 / micros as f64
    }

    /// Bytes of a body.
    pub fn mean_bytes(&self) -> u64 {
        self.bytes / self.count.max(1)
    }
}

/// A receiver in a process of its own.
pub struct Receiver(Served);

impl Receiver {
    /// Starts one.
    pub fn start() -> anyhow::Result<Self> {
        Ok(Self(Served::start(&["receive"])?))
    }

    /// Where it listens.
    pub const fn address(&self) -> std::net::SocketAddr {
        self.0.address
    }

    /// Where postbacks are sent to.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.0.address)
    }

    /// What has arrived until now.
    pub async fn arrived(&self) -> anyhow::Result<Arrived> {
        let answer = ask(self.0.address, &request("GET", "/count", "", "")).await?;
        Ok(serde_json::from_value(answer)?)
    }
}

struct Tally {
    began: Instant,
    count: AtomicU64,
    bytes: AtomicU64,
    last_micros: AtomicU64,
}

async fn take(tally: Data<Tally>, body: Bytes) -> HttpResponse {
    let micros = u64::try_from(tally.began.elapsed().as_micros()).unwrap_or(u64::MAX);
    tally.bytes.fetch_add(u64::try_from(body.len()).unwrap_or(0), Ordering::Relaxed);
    tally.count.fetch_add(1, Ordering::Relaxed);
    tally.last_micros.fetch_max(micros, Ordering::Relaxed);
    HttpResponse::Ok().body("ok")
}

async fn count(tally: Data<Tally>) -> HttpResponse {
    let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    HttpResponse::Ok().json(Arrived {
        count: of(&tally.count),
        bytes: of(&tally.bytes),
        last_micros: of(&tally.last_micros),
    })
}

/// Receives until the process is killed. Its first line is the port.
pub fn run() -> anyhow::Result<()> {
    let tally = Data::from(Arc::new(Tally {
        began: Instant::now(),
        count: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        last_micros: AtomicU64::new(0),
    }));
    actix_web::rt::System::new().block_on(async move {
        let server = HttpServer::new(move || {
            let app = App::new().app_data(tally.clone());
            app.route(PATH, post().to(take)).route("/count", get().to(count))
        })
        .workers(1)
        .bind(("127.0.0.1", 0))?;
        let address = server.addrs().first().copied().context("the receiver has no address")?;
        println!("{}", address.port());
        std::io::stdout().flush()?;
        Ok(server.run().await?)
    })
}
