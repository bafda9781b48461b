//! A client of the simulator, and a receiver of its callbacks.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use actix_web::{App, HttpResponse, HttpServer, http::StatusCode, web};
use pix_simulator::{Simulator, SimulatorConfig};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A test that hangs this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn charge(reference: &str, amount: u32) -> Value {
    json!({"amount": amount, "external_id": reference, "payer": {"name": "Maria", "document": "52998224725"}})
}

pub fn payment(reference: &str, amount: u32) -> Value {
    let payee = json!({"name": "Ana", "keyType": "EMAIL", "key": "ana@example.com", "taxId": "52998224725"});
    json!({"amount": amount, "external_id": reference, "creditParty": payee})
}

fn http() -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().no_proxy().timeout(PATIENCE).tls_certs_only([]).build().unwrap()
}

#[derive(Clone)]
pub struct Client {
    pub http: reqwest::Client,
    pub token: String,
    base: String,
}

impl Client {
    /// A simulator that runs as long as the test, and a client of it that has a token.
    pub async fn start(config: SimulatorConfig) -> Self {
        Self::start_stoppable(config).await.1
    }

    pub async fn start_stoppable(config: SimulatorConfig) -> (Simulator, Self) {
        let simulator = Simulator::start(config).await.unwrap();
        let mut client = Self { http: http(), token: String::new(), base: simulator.base_url() };
        client.renew().await;
        (simulator, client)
    }

    pub async fn renew(&mut self) {
        let credentials = json!({"client_id": "simulator", "client_secret": "simulator-secret"});
        let answer = self.ok("/v2/oauth/token", &credentials).await;
        answer["access_token"].as_str().unwrap().clone_into(&mut self.token);
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub async fn post_text(&self, path: &str, body: &str) -> (u16, String) {
        let request = self.http.post(self.url(path)).bearer_auth(&self.token).body(body.to_owned());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, text) = self.post_text(path, &body.to_string()).await;
        (status, serde_json::from_str(&text).unwrap())
    }

    pub async fn ok(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub async fn consult(&self, body: &Value) -> Value {
        self.ok("/v2/consult-transaction", body).await
    }

    pub async fn get(&self, path: &str) -> Value {
        self.http.get(self.url(path)).send().await.unwrap().json().await.unwrap()
    }

    pub async fn log(&self) -> Vec<Value> {
        self.get("/sim/log").await.as_array().unwrap().clone()
    }

    pub async fn events(&self) -> Vec<String> {
        self.log().await.iter().map(|entry| entry["event"].as_str().unwrap().to_owned()).collect()
    }
}

/// Takes callbacks, answering each with the next of `statuses`, then 200.
pub struct Listener {
    pub url: String,
    received: mpsc::UnboundedReceiver<Value>,
}

struct Inbox {
    statuses: Mutex<VecDeque<u16>>,
    sender: mpsc::UnboundedSender<Value>,
}

impl Listener {
    pub fn start(statuses: Vec<u16>) -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        let inbox = Arc::new(Inbox { statuses: Mutex::new(statuses.into()), sender });
        let server = HttpServer::new(move || {
            let inbox = Arc::clone(&inbox);
            App::new().default_service(web::to(move |body: web::Bytes| {
                inbox.sender.send(serde_json::from_slice(&body).unwrap()).unwrap();
                let status = inbox.statuses.lock().unwrap().pop_front().unwrap_or(200);
                let status = StatusCode::from_u16(status).unwrap();
                async move { HttpResponse::build(status).insert_header(("Location", "/elsewhere")).finish() }
            }))
        })
        .workers(1)
        .disable_signals()
        .bind(("127.0.0.1", 0))
        .unwrap();
        let url = format!("http://{}/callback?token=1", server.addrs()[0]);
        tokio::spawn(server.run());
        Self { url, received }
    }

    /// What has arrived, without waiting for it.
    pub fn already(&mut self) -> Option<Value> {
        self.received.try_recv().ok()
    }

    pub async fn next(&mut self) -> Value {
        tokio::time::timeout(PATIENCE, self.received.recv()).await.unwrap().unwrap()
    }
}
