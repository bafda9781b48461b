//! The promises of a settlement provider, over the adapter and the simulator.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_conformance::provider_suite::ProviderHarness;
use pix_domain::ids::ResourceKind;
use pix_domain::money::Amount;
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::provider::{Reference, SettlementProvider};
use pix_settlement::{ClassicV2Config, ClassicV2Provider, HttpClientConfig, Trust, http_client};
use pix_simulator::{LogEntry, LogEvent, Simulator, SimulatorConfig};
use reqwest::Client;
use serde_json::{Value, json};

const PROOF_AFTER: Duration = Duration::from_mins(5);

struct SimulatorHarness {
    simulator: Simulator,
    provider: Arc<ClassicV2Provider>,
    unreachable: Arc<ClassicV2Provider>,
    control: Client,
}

async fn harness() -> SimulatorHarness {
    let simulator = Simulator::start(SimulatorConfig::default()).await.unwrap();
    let control = http_client(&HttpClientConfig {
        https_only: false,
        trust: Trust::Nobody,
        identity: None,
        connect_timeout: Duration::from_secs(10),
        total_timeout: Duration::from_secs(30),
    });
    SimulatorHarness {
        provider: adapter(&simulator.base_url()),
        unreachable: adapter(&nowhere()),
        control: control.unwrap(),
        simulator,
    }
}

fn adapter(base_url: &str) -> Arc<ClassicV2Provider> {
    let mut config = ClassicV2Config::new(base_url, "simulator", "simulator-secret".into());
    // The simulator is asked by `external_id` too.
    config.not_found_is_proof_after = Some(PROOF_AFTER);
    Arc::new(ClassicV2Provider::new(config).unwrap())
}

/// An address where somebody listened and nobody does now.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

impl SimulatorHarness {
    async fn control(&self, path: &str, body: &Value) {
        let url = format!("{}/sim/{path}", self.simulator.base_url());
        let answer = self.control.post(url).body(body.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
    }

    async fn count(&self, reference: Reference, matches: impl Fn(LogEvent) -> bool) -> usize {
        let url = format!("{}/sim/log", self.simulator.base_url());
        let text = self.control.get(url).send().await.unwrap().text().await.unwrap();
        let entries: Vec<LogEntry> = serde_json::from_str(&text).unwrap();
        let ours = entries.iter().filter(|entry| entry.external_id == reference.to_string());
        ours.filter(|entry| matches(entry.event)).count()
    }
}

fn folder(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Charge => "charges",
        ResourceKind::Withdrawal => "payments",
        ResourceKind::Refund => "refunds",
        ResourceKind::Split => "splits",
    }
}

#[async_trait]
impl ProviderHarness for SimulatorHarness {
    fn provider(&self) -> Arc<dyn SettlementProvider> {
        self.provider.clone()
    }

    fn unreachable(&self) -> Arc<dyn SettlementProvider> {
        self.unreachable.clone()
    }

    fn good_key(&self) -> PixKey {
        PixKey::parse(PixKeyType::Phone, "+5511987654321").unwrap()
    }

    fn refused_key(&self) -> PixKey {
        PixKey::parse(PixKeyType::Email, "reject@example.com").unwrap()
    }

    async fn pay_charge(&self, charge: Reference, amount: Amount) {
        self.control(&format!("charges/{charge}/pay"), &json!({"amount": amount.to_string()})).await;
    }

    async fn remove_charge(&self, charge: Reference) {
        self.control(&format!("charges/{charge}/cancel"), &json!({})).await;
    }

    async fn hold(&self) {
        self.control("settings", &json!({"settle_automatically": false})).await;
    }

    async fn settle(&self, kind: ResourceKind, outgoing: Reference) {
        self.control(&format!("{}/{outgoing}/settle", folder(kind)), &json!({})).await;
    }

    async fn fail(&self, kind: ResourceKind, outgoing: Reference) {
        let why = json!({"code": "account_closed", "message": "account closed"});
        self.control(&format!("{}/{outgoing}/reject", folder(kind)), &why).await;
    }

    async fn give_back(&self, payment: Reference, amount: Amount) {
        self.control(&format!("payments/{payment}/return"), &json!({"amount": amount.to_string()})).await;
    }

    async fn made(&self, charge: Reference) -> usize {
        self.count(charge, |event| event == LogEvent::ChargeCreated).await
    }

    async fn executed(&self, outgoing: Reference) -> usize {
        self.count(outgoing, LogEvent::moves_money_out).await
    }

    async fn expire_tokens(&self) {
        self.control("tokens/revoke", &json!({})).await;
    }
}

pix_conformance::provider_suite!(harness());
