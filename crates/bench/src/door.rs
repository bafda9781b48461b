//! Good traffic beside bad: what the clients of the program see while somebody else floods the token endpoint, or holds a
//! thousand connections open without ever asking anything. Both come from other addresses of loopback, so that the
//! program's limits tell them from the good ones; all of it shares the processors of one machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::Bench;
use crate::http::OverHttp;
use crate::load::{Connection, Next, connect, request};
use crate::program::{CONNECTIONS, Gateway, charge_requests, numbered};
use crate::report::Row;

/// Sign-ins of the flood a second, and the connections they come on.
const FLOOD_PER_SECOND: u64 = 2_000;
const FLOOD_CONNECTIONS: u64 = 8;
/// Slow connections, and from how many addresses, of which each may have 256.
const SLOW_CONNECTIONS: u32 = 1_000;
const SLOW_ADDRESSES: u32 = 4;
/// How often a slow connection sends another byte.
const SLOW_BYTE: Duration = Duration::from_secs(1);
/// The first address that isn't the good traffic's: 127.0.0.2.
const ELSEWHERE: u32 = 0x7F00_0002;

/// Bad traffic, until it is dropped.
struct Attack {
    tasks: Vec<JoinHandle<()>>,
    /// What it came to: answers by status, or ends of connections.
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    refused_secret: AtomicU64,
    rate_limited: AtomicU64,
    other: AtomicU64,
    closed: AtomicU64,
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(ELSEWHERE.saturating_add(number)))
}

/// Signs in with a wrong secret, again and again, from one address.
fn flood(target: SocketAddr) -> Attack {
    let counts = Arc::new(Counts::default());
    let pause = Duration::from_micros(1_000_000 * FLOOD_CONNECTIONS / FLOOD_PER_SECOND);
    let tasks = (0..FLOOD_CONNECTIONS).map(|_| tokio::spawn(sign_in(target, pause, Arc::clone(&counts))));
    Attack { tasks: tasks.collect(), counts }
}

async fn sign_in(target: SocketAddr, pause: Duration, counts: Arc<Counts>) {
    let body = "{\"grant_type\":\"client_credentials\",\"client_id\":\"pixpk_0123456789abcdefghjk\",\
                \"client_secret\":\"pixsk_0123456789abcdefghjk0123456789abcdefghjk\"}";
    let wrong = request("POST", "/v2/oauth/token", "", body);
    let nothing: Next = Arc::new(|| None);
    let mut ticks = tokio::time::interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Ok(mut connection) = Connection::open_from(address(0), target, Arc::clone(&nothing)).await {
        loop {
            ticks.tick().await;
            let count = match connection.ask(&wrong).await.map(|answer| answer.status) {
                Ok(401) => &counts.refused_secret,
                Ok(429) => &counts.rate_limited,
                Ok(_) => &counts.other,
                Err(_) => break,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        counts.closed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Connections that never come to the end of a request's head. One that is closed is made anew.
fn slow(target: SocketAddr) -> Attack {
    let counts = Arc::new(Counts::default());
    let tasks = (0..SLOW_CONNECTIONS).map(|number| tokio::spawn(dawdle(number, target, Arc::clone(&counts))));
    Attack { tasks: tasks.collect(), counts }
}

async fn dawdle(number: u32, target: SocketAddr, counts: Arc<Counts>) {
    while let Ok(mut stream) = connect(address(number % SLOW_ADDRESSES), target).await {
        let mut byte = b"GET /health/live HTTP/1.1\r\nX: ".as_slice();
        let mut answer = [0; 512];
        while stream.write_all(byte).await.is_ok() {
            byte = b"x";
            if tokio::time::timeout(SLOW_BYTE, stream.read(&mut answer)).await.is_ok() {
                break;
            }
        }
        counts.closed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Attack {
    fn told(&self) -> String {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        let (secret, limited) = (read(&counts.refused_secret), read(&counts.rate_limited));
        let mut told = format!("connections closed on it: {}", read(&counts.closed));
        if secret + limited > 0 {
            told = format!(
                "it got 401 {secret} times, 429 {limited} times, else {}; {told}",
                read(&counts.other)
            );
        }
        told
    }
}

/// How an attack on an address begins.
type Begin = fn(SocketAddr) -> Attack;

/// Measures one kind of good traffic alone, then beside each attack.
async fn beside(bench: &mut Bench, gateway: &Gateway, what: &str, next: &Next) -> anyhow::Result<()> {
    let good = async |bench: &Bench| {
        let connections = Connection::several(CONNECTIONS, gateway.address, next).await?;
        OverHttp::measure(bench, gateway.pid(), connections, None).await
    };
    let alone = good(bench).await?;
    let rate = alone.measured.per_second();
    bench.report.row(Row::figure(format!("door: {what}, alone"), rate, "/s").note(alone.note()));
    let attacks: [(&str, Begin); 2] =
        [("2,000 wrong sign-ins a second", flood), ("1,000 slow connections", slow)];
    for (name, start) in attacks {
        let attack = start(gateway.address);
        let under = good(bench).await?;
        let note = format!("{}; {}", under.note(), attack.told());
        let name = format!("door: {what}, beside {name}");
        bench.report.row(Row::more(name, under.measured.per_second(), rate, "/s").note(note));
    }
    Ok(())
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.section(
        "The door",
        "`pix-gateway serve` on SQLite, with the simulated provider in a process of its own on the same machine. The flood \
         signs in with a wrong secret from 127.0.0.2, over eight connections; the slow connections come from four \
         addresses, send a byte of a request's head each second, and are made anew when they are closed. The reference \
         is the same traffic alone, in the same run. Load, flood and gateway share the processors.",
    );
    let runtime = tokio::runtime::Runtime::new()?;
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("bench.db").display());
    let gateway = Gateway::start_with(bench, &url, &[("PIX_RATE_TOKEN_PER_MINUTE", "20")])?;
    runtime.block_on(async {
        let headers = gateway.integrator().await?;
        let balance = numbered("GET", "/api/v1/balance".into(), headers.clone(), |_number| String::new());
        beside(bench, &gateway, "balance", &balance).await?;
        beside(bench, &gateway, "charges", &charge_requests("order", &headers)).await
    })
}
