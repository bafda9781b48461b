//! Callbacks to the client. It owns their sending and retrying, and must never know what they say.
//!
//! They are a courtesy: a callback that finds no receiver in all its attempts is forgotten, as is one that
//! waited when the simulator stopped. The truth is asked for by `consult-transaction`.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, ClientBuilder, header::CONTENT_TYPE, redirect};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::sleep,
};

use crate::SimulatorError;

/// How often and how long a callback is tried.
#[derive(Clone, Debug)]
pub struct CallbackRetry {
    /// The wait before each attempt; there are as many attempts as waits. Default 0, 1, 2, 5 and 10 s.
    pub delays: Vec<Duration>,
    /// Time for one attempt. Default 5 s.
    pub timeout: Duration,
    /// Callbacks tried at the same time. Default 256.
    pub max_in_flight: usize,
    /// Callbacks waiting beyond those; one more is dropped. Default 10,000.
    pub max_waiting: usize,
}

impl Default for CallbackRetry {
    fn default() -> Self {
        Self {
            delays: [0, 1, 2, 5, 10].map(Duration::from_secs).to_vec(),
            timeout: Duration::from_secs(5),
            max_in_flight: 256,
            max_waiting: 10_000,
        }
    }
}

/// One callback to send.
pub(crate) struct Callback {
    pub(crate) subject: String,
    pub(crate) url: String,
    pub(crate) body: String,
    /// How long it waits before it is sent.
    pub(crate) delay: Duration,
    /// What is sent once this one has been.
    pub(crate) before: Vec<Callback>,
    /// Dropped or told when it has been sent, received or not.
    pub(crate) done: Option<oneshot::Sender<()>>,
}

impl Callback {
    pub(crate) fn new(subject: String, url: String, body: String) -> Self {
        Self { subject, url, body, delay: Duration::ZERO, before: Vec::new(), done: None }
    }

    /// The same once more.
    pub(crate) fn copy(&self) -> Self {
        Self::new(self.subject.clone(), self.url.clone(), self.body.clone())
    }
}

/// A client that goes where it is told and nowhere else. On a machine without CA certificates it has none, so
/// that `http` works and `https` fails at the handshake.
pub(crate) fn client(retry: &CallbackRetry) -> Result<Client, SimulatorError> {
    // An error says that the process has a provider already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let timeout = retry.timeout;
    settings(timeout)
        .build()
        .or_else(|_| settings(timeout).tls_certs_only([]).build())
        .map_err(SimulatorError::Client)
}

fn settings(timeout: Duration) -> ClientBuilder {
    Client::builder()
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .timeout(timeout)
}

/// Sends what comes until the sender is gone.
pub(crate) async fn send_all(mut waiting: mpsc::Receiver<Callback>, client: Client, retry: CallbackRetry) {
    let retry = Arc::new(retry);
    let mut running = JoinSet::new();
    loop {
        let full = running.len() >= retry.max_in_flight.max(1);
        tokio::select! {
            Some(_) = running.join_next() => {}
            next = waiting.recv(), if !full => match next {
                Some(callback) => {
                    running.spawn(deliver(client.clone(), callback, Arc::clone(&retry)));
                }
                None => break,
            },
        }
    }
    while running.join_next().await.is_some() {}
}

async fn deliver(client: Client, callback: Callback, retry: Arc<CallbackRetry>) {
    let mut next = vec![callback];
    while let Some(mut callback) = next.pop() {
        deliver_one(&client, &callback, &retry).await;
        if let Some(done) = callback.done.take() {
            // Whoever waited may have gone.
            done.send(()).ok();
        }
        next.append(&mut callback.before);
    }
}

async fn deliver_one(client: &Client, callback: &Callback, retry: &CallbackRetry) {
    for (attempt, delay) in (1_u32..).zip(&retry.delays) {
        sleep(*delay).await;
        let request = client.post(&callback.url).header(CONTENT_TYPE, "application/json");
        match request.body(callback.body.clone()).send().await {
            Ok(answer) if answer.status().is_success() => {
                tracing::debug!(transaction_id = %callback.subject, attempt, "callback delivered");
                return;
            }
            Ok(answer) => {
                let status = answer.status().as_u16();
                tracing::info!(transaction_id = %callback.subject, attempt, status, "callback refused");
            }
            Err(error) => {
                // The address may carry a secret in its query.
                let error = error.without_url();
                tracing::info!(transaction_id = %callback.subject, attempt, %error, "callback not delivered");
            }
        }
    }
    tracing::warn!(transaction_id = %callback.subject, "callback given up");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_needs_no_ca_certificates() {
        client(&CallbackRetry::default()).unwrap();
        settings(Duration::from_secs(1)).tls_certs_only([]).build().unwrap();
    }
}
