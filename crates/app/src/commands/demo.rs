//! `pix-gateway demo`: the main job, through HTTP, on a fresh store; each step checks what it prints.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use pix_domain::credentials::KeyChange;
use pix_domain::fees::FeeSchedule;
use pix_domain::time::Clock;
use pix_domain::wallet::Entry;
use pix_settlement::{HttpClientConfig, Trust};
use reqwest::Method;
use serde_json::{Value, json};

use super::serve::{Running, start};
use super::{audit, fees, integrator, key};
use crate::cli;
use crate::config::{Config, Database};
use crate::gateway;
use crate::journal::Journal;
use crate::system::{SystemClock, random_hex};

/// The longest wait for one answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the subcommand.
pub async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let folder = std::env::temp_dir().join(format!("pix-gateway-demo-{}", random_hex(8)?));
    std::fs::create_dir(&folder).with_context(|| format!("the folder {} can't be made", folder.display()))?;
    let mut signals = gateway::StopSignals::new()?;
    let walked = signals.unless_stopped(Box::pin(walk(&config, &folder))).await;
    let _ = std::fs::remove_dir_all(&folder);
    walked.context("stopped before the end")??;
    say!("\ndemo: every step was as it should be");
    Ok(ExitCode::SUCCESS)
}

async fn walk(config: &Config, folder: &std::path::Path) -> anyhow::Result<()> {
    let mut config = config.clone();
    config.database = Database::Sqlite { path: folder.join("demo.db"), is_default: false };
    config.migrate_on_start = true;
    config.provider = None;
    config.listen = "127.0.0.1:0".parse()?;
    config.simulator_listen = "127.0.0.1:0".parse()?;
    config.admin_listen = None;
    config.otlp = None;
    config.tls = None;
    config.public_url = config.listen_url();
    let running = start(&config, &cli::Serve { demo: false, provider_changed: false }).await?;
    let walked = Walk::begin(&config, &running).await;
    let walked = match walked {
        Ok(walk) => walk.all(&running).await,
        Err(error) => Err(error),
    };
    let log = config.database.beside(gateway::SIMULATOR_LOG_ENDING);
    let ended = match walked {
        Ok(()) => ledger(&running, &log).await,
        Err(error) => Err(error),
    };
    running.stop().await;
    ended
}

/// A client that checks what it is told.
struct Walk {
    client: reqwest::Client,
    url: String,
    simulator: String,
    public_id: String,
    secret: String,
    token: String,
}

impl Walk {
    async fn begin(config: &Config, running: &Running) -> anyhow::Result<Self> {
        let store = &running.store;
        let journal = Journal::of(store, "demo")?;
        let made = integrator::create(store, &journal, "demo").await?;
        let schedule = FeeSchedule {
            cash_out: fees::parse_rule("fixed=1.00,percent=1")?,
            refund: fees::parse_rule("fixed=0.50")?,
            ..FeeSchedule::free()
        };
        store.records.fees.set(made.id, schedule, SystemClock.now()).await?;
        let hasher = gateway::hasher(config)?;
        let (key, secret) = key::create(store, &journal, &hasher, made.id, KeyChange::default()).await?;
        let simulator =
            running.simulator.as_ref().context("the demo needs the simulated provider")?.base_url();
        say!("integrator {} (cash-out 1.00 + 1 %, refund 0.50), key {}", made.id, key.public_id);
        Ok(Self {
            client: pix_settlement::http_client(&HttpClientConfig {
                https_only: false,
                trust: Trust::Nobody,
                identity: None,
                connect_timeout: CALL_TIMEOUT,
                total_timeout: CALL_TIMEOUT,
            })?,
            url: running.url.clone(),
            simulator,
            public_id: key.public_id,
            secret: secret.0,
            token: String::new(),
        })
    }

    async fn all(mut self, running: &Running) -> anyhow::Result<()> {
        self.tokens().await?;
        let (v2_id, v1_uuid) = self.charges().await?;
        self.pay(&v2_id, &v1_uuid).await?;
        self.withdrawals().await?;
        self.refunds(&v2_id, &v1_uuid).await?;
        self.lookups(&v2_id, &v1_uuid).await?;
        self.refusals(running).await
    }

    async fn tokens(&mut self) -> anyhow::Result<()> {
        heading("token");
        let url = format!("{}/v2/oauth/token", self.url);
        let basic = self.client.post(&url).basic_auth(&self.public_id, Some(&self.secret)).send().await?;
        let body: Value = basic.json().await?;
        same("with HTTP Basic, token_type", &body, "/token_type", &json!("Bearer"))?;
        let credentials =
            json!({"grant_type": "client_credentials", "public_id": self.public_id, "secret": self.secret});
        let (status, body) = self.send(Method::POST, &url, Some(credentials)).await?;
        ensure!(status == 200, "a token with a JSON body was answered with {status}: {body}");
        same("with a JSON body, expires_in", &body, "/expires_in", &json!(3600))?;
        body.pointer("/access_token")
            .and_then(Value::as_str)
            .context("no access_token")?
            .clone_into(&mut self.token);
        Ok(())
    }

    async fn charges(&self) -> anyhow::Result<(String, String)> {
        heading("charges");
        let body = json!({"amount": 100, "external_id": "demo:v2", "payer": {"name": "Maria Silva", "document": "529.982.247-25"}});
        let v2 = self.post(200, "/v2/pix/qrcode", body).await?;
        same("v2 charge, status", &v2, "/status", &json!("PENDING"))?;
        let code = text(&v2, "/qrcode")?;
        let decoded = pix_domain::brcode::decode(&code).context("the QR code does not decode")?;
        say!("  ok  v2 qrcode decodes, location {}", decoded.location().unwrap_or("(none)"));
        let body = json!({
            "amount": 50.55, "external_id": "demo:v1",
            "payer": {"name": "Empresa Ltda", "document": "12ABC34501DE35", "email": "caixa@example.com"},
        });
        let v1 = self.post(201, "/api/v1/charges", body).await?;
        same("v1 charge, status", &v1, "/status", &json!("pending"))?;
        same("v1 charge, amount", &v1, "/amount", &json!(50.55))?;
        Ok((text(&v2, "/transactionId")?, text(&v1, "/uuid")?))
    }

    async fn pay(&self, v2_id: &str, v1_uuid: &str) -> anyhow::Result<()> {
        heading("payment of both at the provider");
        let v1 = self.get(200, &format!("/api/v1/charges/{v1_uuid}")).await?;
        for id in [v2_id, &text(&v1, "/pix_id")?] {
            let (status, body) = self
                .send(Method::POST, &format!("{}/sim/charges/{id}/pay", self.simulator), Some(json!({})))
                .await?;
            ensure!(status == 200, "the provider did not take the payment: {body}");
        }
        let consulted = self.post(200, "/v2/consult-transaction", json!({"pix_id": v2_id})).await?;
        same("v2 consult, status", &consulted, "/requestBody/status", &json!("PAID"))?;
        same("v2 consult, type", &consulted, "/transactionType", &json!("RECEIVEPIX"))?;
        let consulted = self.post(200, "/api/v1/transactions/consult", json!({"uuid": v1_uuid})).await?;
        same("v1 consult, status", &consulted, "/transaction/status", &json!("paid"))?;
        self.balance("150.55").await
    }

    async fn balance(&self, reais: &str) -> anyhow::Result<()> {
        let balance = self.post(200, "/v2/balance", json!({})).await?;
        same("balance", &balance, "/message/balance", &json!(reais))
    }

    async fn withdrawals(&self) -> anyhow::Result<()> {
        heading("money out, with a fee");
        let body = json!({
            "amount": 30, "external_id": "demo:out-1", "description": "fornecedor",
            "creditParty": {"name": "João Souza", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
        });
        let v1 = self.post(201, "/api/v1/withdrawals", body).await?;
        same("v1 withdrawal, fee", &v1, "/fee", &json!(1.3))?;
        same("v1 withdrawal, total", &v1, "/total", &json!(31.3))?;
        let body = json!({
            "amount": "20.00", "external_id": "demo:out-2",
            "creditParty": {"name": "Ana", "keyType": "telefone", "key": "11987654321", "taxId": "52998224725"},
        });
        let v2 = self.post(200, "/v2/pix/payment", body.clone()).await?;
        same("v2 payment, amount", &v2, "/amount", &json!(20))?;
        let again = self.post(200, "/v2/pix/payment", body).await?;
        same(
            "v2 payment, sent again: same transaction",
            &again,
            "/transactionId",
            &json!(text(&v2, "/transactionId")?),
        )?;
        for (name, uuid) in
            [("v1 withdrawal", text(&v1, "/external_id")?), ("v2 payment", text(&v2, "/external_id")?)]
        {
            let consulted =
                self.post(200, "/api/v1/transactions/consult", json!({"external_id": uuid})).await?;
            same(&format!("{name}, status"), &consulted, "/transaction/status", &json!("completed"))?;
        }
        self.balance("98.05").await
    }

    async fn refunds(&self, v2_id: &str, v1_uuid: &str) -> anyhow::Result<()> {
        heading("refunds");
        let body = json!({"pix_id": v2_id, "amount": 40, "description": "devolução parcial", "external_id": "demo:back-1"});
        let part = self.post(200, "/v2/pix/refund", body.clone()).await?;
        same("v2 refund in part, amount", &part, "/amount", &json!(40))?;
        let again = self.post(200, "/v2/pix/refund", body).await?;
        same("v2 refund, sent again: same refund", &again, "/refundId", &json!(text(&part, "/refundId")?))?;
        let whole = self.post(201, &format!("/api/v1/charges/{v1_uuid}/refunds"), json!({})).await?;
        same("v1 refund in full, amount", &whole, "/amount", &json!(50.55))?;
        let charge = self.get(200, &format!("/api/v1/charges/{v1_uuid}")).await?;
        same("v1 charge, refunded_amount", &charge, "/refunded_amount", &json!(50.55))?;
        self.balance("6.50").await
    }

    async fn lookups(&self, v2_id: &str, v1_uuid: &str) -> anyhow::Result<()> {
        heading("lookups");
        let by_name = self.get(200, "/api/v1/charges/demo:v1").await?;
        same("charge by external_id, uuid", &by_name, "/uuid", &json!(v1_uuid))?;
        let of_v2 = self.get(200, "/api/v1/charges/demo:v2").await?;
        same("a v2 charge in v1, pix_id", &of_v2, "/pix_id", &json!(v2_id))?;
        let list = self.get(200, "/api/v1/charges?status=paid&per_page=1").await?;
        same("list of paid charges, newest first", &list, "/data/0/uuid", &json!(v1_uuid))?;
        let next = text(&list, "/meta/next_cursor")?;
        let list = self.get(200, &format!("/api/v1/charges?status=paid&per_page=1&cursor={next}")).await?;
        same("its next page", &list, "/data/0/external_id", &json!("demo:v2"))?;
        let out = self.get(200, "/api/v1/withdrawals?external_id=demo:out-1").await?;
        same("withdrawals by external_id", &out, "/data/0/status", &json!("completed"))
    }

    async fn refusals(&self, running: &Running) -> anyhow::Result<()> {
        heading("refusals change nothing");
        let store = &running.store;
        let all = store.integrators.list().await?;
        let id = all.first().context("no integrator")?.id;
        let before = store.books.book(id).await?;
        let body = json!({
            "amount": 6.5,
            "creditParty": {"name": "Ana", "keyType": "EMAIL", "key": "ana@example.com", "taxId": "52998224725"},
        });
        let refused = self.post(422, "/api/v1/withdrawals", body).await?;
        same("a withdrawal above the balance, code", &refused, "/code", &json!("insufficient_balance"))?;
        let refused = self.post(422, "/v2/pix/qrcode", json!({"amount": 10.555})).await?;
        same("three decimals, code", &refused, "/code", &json!("invalid_amount"))?;
        ensure!(before == store.books.book(id).await?, "a refused request changed the books");
        say!("  ok  the books are as they were");
        Ok(())
    }

    async fn get(&self, expected: u16, path: &str) -> anyhow::Result<Value> {
        self.checked(Method::GET, expected, path, None).await
    }

    async fn post(&self, expected: u16, path: &str, body: Value) -> anyhow::Result<Value> {
        self.checked(Method::POST, expected, path, Some(body)).await
    }

    async fn checked(
        &self,
        method: Method,
        expected: u16,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let (status, answer) = self.send(method.clone(), &format!("{}{path}", self.url), body).await?;
        ensure!(status == expected, "{method} {path} was answered with {status}, not {expected}: {answer}");
        Ok(answer)
    }

    async fn send(&self, method: Method, url: &str, body: Option<Value>) -> anyhow::Result<(u16, Value)> {
        let mut request = self.client.request(method, url);
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let text = answer.text().await?;
        let value = serde_json::from_str(&text).with_context(|| format!("{url} did not answer in JSON"))?;
        Ok((status, value))
    }
}

fn heading(name: &str) {
    say!("\n{name}");
}

fn text(value: &Value, pointer: &str) -> anyhow::Result<String> {
    let text = value.pointer(pointer).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no text at {pointer} in {value}"))?.to_owned())
}

/// Compares what was answered with what should be, and says so.
fn same(what: &str, answer: &Value, pointer: &str, expected: &Value) -> anyhow::Result<()> {
    let found = answer.pointer(pointer).unwrap_or(&Value::Null);
    if found != expected {
        bail!("{what}: should be {expected}, is {found}");
    }
    say!("  ok  {what}: {found}");
    Ok(())
}

/// Prints the ledger and the audit, and fails when the books are wrong.
async fn ledger(running: &Running, log: &std::path::Path) -> anyhow::Result<()> {
    heading("ledger");
    let report = audit::audit(&running.store, Some(log)).await?;
    say!(
        "  {:>3}  {:18} {:9} → {:9} {:>9} {:>10} {:>8}",
        "no.",
        "reason",
        "from",
        "to",
        "amount",
        "available",
        "held"
    );
    for entry in report.books.iter().flat_map(|book| &book.entries) {
        say!("{}", row(entry));
    }
    heading("audit");
    say!("{}", audit::as_text(&report));
    ensure!(report.is_clean(), "the books are wrong");
    let in_flight = report.provider.map_or(0, |comparison| comparison.in_flight.len());
    ensure!(in_flight == 0, "{in_flight} movements are still in flight");
    Ok(())
}

fn row(entry: &Entry) -> String {
    let posting = &entry.posting;
    format!(
        "  {:>3}  {:18} {:9} → {:9} {:>9} {:>10} {:>8}",
        entry.number,
        posting.reason.as_str(),
        posting.debit.as_str(),
        posting.credit.as_str(),
        posting.amount.to_string(),
        entry.available_after.to_string(),
        entry.held_after.to_string()
    )
}
