//! The limit of postbacks: bodies of their size, signed as they are and posted over a pool of connections, and nothing
//! else. No store, no lanes, no guard, no limits, and nothing is kept of the answers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};
use rustls::crypto::ring;
use sha2::Sha256;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::ops::AT_MICROS;
use crate::receive::PATH;

const KEY: [u8; 32] = [7; 32];
const MICROS_PER_SECOND: i64 = 1_000_000;

/// What every sender shares.
struct Office {
    client: Client,
    url: Url,
    body: String,
    /// `whsec_` and the base64 of the key.
    secret: String,
    next: AtomicU64,
}

fn tag(key: &[u8], parts: &[&[u8]]) -> anyhow::Result<[u8; 32]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_error| anyhow::anyhow!("a key"))?;
    for part in parts {
        mac.update(part);
    }
    Ok(mac.finalize().into_bytes().into())
}

impl Office {
    async fn post(&self) -> anyhow::Result<()> {
        let id = format!("evt_c{:032x}_2", self.next.fetch_add(1, Ordering::Relaxed));
        let seconds = (AT_MICROS / MICROS_PER_SECOND).to_string();
        let body = self.body.as_bytes();
        let standard = tag(&KEY, &[id.as_bytes(), b".", seconds.as_bytes(), b".", body])?;
        let family = tag(self.secret.as_bytes(), &[body])?;
        let mut hex = String::with_capacity(2 * family.len());
        for byte in family {
            write!(hex, "{byte:02x}")?;
        }
        let request = self
            .client
            .post(self.url.clone())
            .header("webhook-id", id)
            .header("webhook-timestamp", &seconds)
            .header("webhook-signature", format!("v1,{}", STANDARD.encode(standard)))
            .header("x-webhook-signature", hex)
            .header("x-webhook-timestamp", &seconds)
            .header("x-webhook-event", "cashin.confirmed")
            .header(CONTENT_TYPE, "application/json");
        let answer = request.body(self.body.clone()).send().await?;
        ensure!(answer.status().is_success(), "the receiver answered {}", answer.status());
        answer.bytes().await?;
        Ok(())
    }
}

/// Posts until the process is killed.
pub fn run(to: SocketAddr, bytes: usize, at_once: u32) -> anyhow::Result<()> {
    // An error says that the process has a provider already.
    drop(ring::default_provider().install_default());
    let office = Arc::new(Office {
        // Nothing goes over TLS: no certificates are looked for.
        client: Client::builder().no_proxy().http1_only().tls_certs_only([]).build()?,
        url: format!("http://{to}{PATH}").parse()?,
        body: "x".repeat(bytes),
        secret: format!("whsec_{}", STANDARD.encode(KEY)),
        next: AtomicU64::new(0),
    });
    Runtime::new()?.block_on(async {
        let mut senders: JoinSet<anyhow::Result<()>> = JoinSet::new();
        for _ in 0..at_once {
            let office = Arc::clone(&office);
            senders.spawn(async move {
                loop {
                    office.post().await?;
                }
            });
        }
        senders.join_next().await.context("nobody sends")??
    })
}
