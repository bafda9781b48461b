//! Operators at the console, in a browser; and a gateway with something to look at.

use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::{Client, Database, Gateway, Port, http_client, program, text};

/// An operator, who has a token.
pub struct Operator {
    /// Its name.
    pub name: &'static str,
    /// Its token.
    pub token: String,
    /// What lets it in.
    pub entry: String,
}

impl Operator {
    /// Has the program make a token.
    pub fn new(name: &'static str) -> anyhow::Result<Self> {
        let output = Command::new(program()).args(["operator", "token", name, "--json"]).output()?;
        ensure!(output.status.success(), "no token: {}", String::from_utf8_lossy(&output.stderr));
        let made: Value = serde_json::from_slice(&output.stdout)?;
        Ok(Self { name, token: text(&made, "/token")?, entry: text(&made, "/entry")? })
    }

    /// Signs in.
    pub async fn sign_in(&self, browser: &Browser, console: &str) -> anyhow::Result<()> {
        browser.open(console).await?;
        browser.write("#token", &self.token).await?;
        browser.click("main button").await?;
        browser.until("return document.querySelector('h1').innerText === 'Overview'").await
    }

    /// Says what became of the movement whose page is open.
    pub async fn decide(&self, browser: &Browser, verdict: &str, reason: &str) -> anyhow::Result<()> {
        browser.click(&format!("input[value={verdict}]")).await?;
        browser.write("#reason", reason).await?;
        browser.run("window.before = true").await?;
        browser.click("form[action$=resolve] button").await?;
        browser.until("return !window.before && document.querySelector('.notice') !== null").await
    }
}

/// A gateway with a console, two operators, money, and a withdrawal that nobody knows about.
pub struct Desk {
    /// The gateway.
    pub gateway: Gateway,
    /// Where its console is.
    pub console: String,
    /// Who may sign in.
    pub operators: [Operator; 2],
    /// Whose money it is.
    pub client: Client,
    /// The charge that brought it.
    pub charge: Value,
    /// The withdrawal.
    pub lost: Value,
    /// Stays this one's.
    _port: Port,
}

impl Desk {
    /// Starts it, on a store of its own.
    pub async fn open(database: Database) -> anyhow::Result<Self> {
        let port = Port::reserve()?;
        let admin = format!("127.0.0.1:{}", port.number());
        let operators = [Operator::new("ana")?, Operator::new("bia")?];
        let entries = operators.each_ref().map(|operator| operator.entry.as_str()).join(",");
        let gateway = Gateway::start(
            database,
            &[
                ("PIX_ADMIN_LISTEN", &admin),
                ("PIX_CONSOLE_OPERATORS", &entries),
                ("PIX_PROVIDER_TIMEOUT_MS", "300"),
                ("PIX_POSTBACK_ALLOW_PRIVATE", "loopback"),
            ],
        )?;
        let client = Client::new(&gateway, &gateway.integrator("Loja das Flores")?).await?;
        let charge = client.fund(&gateway, "2500").await?;
        let never = json!({"scenario": "never_answers", "on": {"next": 1}, "operation": "payment"});
        let told = http_client()?.post(format!("{}/sim/scenarios", gateway.simulator)).json(&never);
        ensure!(told.send().await?.status() == 200, "the simulator takes no scenario");
        let body = json!({
            "amount": "1234.50", "external_id": "repasse-77",
            "creditParty": {"name": "Canaria Lima", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
        });
        let (status, lost) = client.post("/api/v1/withdrawals", body).await?;
        ensure!(status == 201 && lost.pointer("/outcome") == Some(&json!("uncertain")), "{lost}");
        let console = format!("http://{admin}/console");
        Ok(Self { gateway, console, operators, client, charge, lost, _port: port })
    }

    /// Where the page of a record is.
    pub fn page(&self, record: &Value) -> anyhow::Result<String> {
        let uuid = text(record, "/uuid").context("a record without an id")?;
        Ok(format!("{}/transactions/{uuid}", self.console))
    }
}
