//! Takes the pictures of the payment page and of a receipt that the documents show: `make pay-images`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use pix_tests::browser::Browser;
use pix_tests::{Client, Database, Gateway, http_client, pay, text};
use serde_json::{Value, json};

/// Pixels of a page on a desk, and on a phone.
const WIDE: u32 = 520;
const NARROW: u32 = 375;
/// Those of a receipt.
const SHEET: u32 = 760;
/// The shortest time that a charge may have.
const SHORTEST_SECONDS: u32 = 60;
/// How long it takes at the most until a charge of that kind is expired.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often that is looked at.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Takes pictures of the payment page and of a receipt with Chromium.
#[derive(Parser)]
struct Arguments {
    /// The folder that they are written to.
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = Arguments::parse().folder;
    std::fs::create_dir_all(&folder)?;
    let gateway = Gateway::start(Database::Sqlite, &[])?;
    let client = Client::new(&gateway, &gateway.integrator("Loja")?).await?;
    let browser = Browser::start().await?;
    let to_expire = charge(&client, SHORTEST_SECONDS).await?;

    let pending = charge(&client, 900).await?;
    let page = text(&pending, "/links/pay")?;
    take(&browser, &page, &read_in("en"), WIDE, &folder.join("pay-pending.png")).await?;
    browser.prefer_dark(true).await?;
    take(&browser, &page, &read_in("pt-BR"), NARROW, &folder.join("pay-pending-dark-phone.png")).await?;
    browser.prefer_dark(false).await?;
    pay(&gateway, &text(&pending, "/pix_id")?).await?;
    until(&pending, "paid").await?;
    take(&browser, &page, &read_in("en"), WIDE, &folder.join("pay-paid.png")).await?;

    let receipt = format!("{}{}", gateway.url, withdrawal(&client).await?);
    let owners = json!({"Accept-Language": "pt-BR", "Authorization": format!("Bearer {}", client.token())});
    take(&browser, &receipt, &owners, SHEET, &folder.join("receipt-withdrawal.png")).await?;
    until(&to_expire, "expired").await?;
    take(&browser, &text(&to_expire, "/links/pay")?, &read_in("en"), WIDE, &folder.join("pay-expired.png"))
        .await
}

/// The header fields of whoever reads that language.
fn read_in(language: &str) -> Value {
    json!({"Accept-Language": language})
}

/// A withdrawal that is done: the path of its receipt.
async fn withdrawal(client: &Client) -> anyhow::Result<String> {
    let body = json!({
        "amount": "38.50", "external_id": "repasse-77", "description": "Repasse da nota 77",
        "creditParty": {"name": "Ana Lima", "keyType": "EMAIL", "key": "ana@example.com", "taxId": "52998224725"}
    });
    let (status, made) = client.post("/api/v1/withdrawals", body).await?;
    ensure!(status == 201, "no withdrawal: {made}");
    let (_, known) =
        client.post("/api/v1/transactions/consult", json!({"uuid": text(&made, "/uuid")?})).await?;
    ensure!(text(&known, "/transaction/status")? == "completed", "{known}");
    Ok(format!("/api/v1/withdrawals/{}/receipt", text(&made, "/uuid")?))
}

async fn charge(client: &Client, seconds: u32) -> anyhow::Result<Value> {
    let payer = json!({"name": "Maria Silva", "document": "52998224725"});
    let body = json!({"amount": "149.90", "payer": payer, "expiration": seconds});
    let (status, charge) = client.post("/api/v1/charges", body).await?;
    ensure!(status == 201, "no charge: {charge}");
    Ok(charge)
}

async fn until(charge: &Value, status: &str) -> anyhow::Result<()> {
    let (http, url) = (http_client()?, format!("{}/status", text(charge, "/links/pay")?));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told: Value = http.get(&url).send().await?.json().await?;
        if text(&told, "/status")? == status {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "never {status}");
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

/// The whole page, as high as it is.
async fn take(browser: &Browser, url: &str, fields: &Value, width: u32, file: &Path) -> anyhow::Result<()> {
    browser.devtools("Network.enable", json!({})).await?;
    browser.devtools("Network.setExtraHTTPHeaders", json!({"headers": fields})).await?;
    browser.resize(width, 100, 1).await?;
    browser.open(url).await?;
    let height = browser.run("return document.documentElement.scrollHeight").await?;
    let height = height.as_u64().context("a page without a height")?;
    browser.resize(width, u32::try_from(height)?, 1).await?;
    Ok(std::fs::write(file, browser.screenshot().await?)?)
}
