//! Receipts in a real browser: looked at, and printed.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pix_tests::browser::Browser;
use pix_tests::{Client, Database, Gateway, text};
use serde_json::{Value, json};

/// Opens a receipt as whoever has the token.
async fn open(browser: &Browser, client: &Client, gateway: &Gateway, path: &str, language: &str) {
    browser.devtools("Network.enable", json!({})).await.unwrap();
    let authorization = format!("Bearer {}", client.token());
    let headers = json!({"headers": {"Accept-Language": language, "Authorization": authorization}});
    browser.devtools("Network.setExtraHTTPHeaders", headers).await.unwrap();
    browser.open(&format!("{}{path}", gateway.url)).await.unwrap();
}

/// How many pages come out of a printer.
async fn printed(browser: &Browser) -> usize {
    let asked = json!({"preferCSSPageSize": true, "printBackground": true});
    let file = browser.devtools("Page.printToPDF", asked).await.unwrap();
    let file = STANDARD.decode(text(&file, "/data").unwrap()).unwrap();
    let file = String::from_utf8_lossy(&file);
    let pages = file.matches("/Type /Page").count() - file.matches("/Type /Pages").count();
    assert!(pages > 0 && file.starts_with("%PDF-"), "no pages are found");
    pages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_is_read_and_printed_on_one_page() {
    let gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    let client = Client::new(&gateway, &gateway.integrator("Loja").unwrap()).await.unwrap();
    let charge = client.fund(&gateway, "9999.99").await.unwrap();
    let body = json!({
        "amount": "1234.50", "external_id": "x".repeat(120), "description": "Nota 77 ".repeat(17).trim(),
        "creditParty": {
            "name": "Conceição Araújo ".repeat(11).trim(), "keyType": "CPF", "key": "52998224725",
            "taxId": "52998224725"
        }
    });
    let (status, sent) = client.post("/api/v1/withdrawals", body).await.unwrap();
    assert_eq!(status, 201, "{sent}");
    let uuid = text(&sent, "/uuid").unwrap();
    let (_, known) = client.post("/api/v1/transactions/consult", json!({"uuid": uuid})).await.unwrap();
    assert_eq!(known["transaction"]["status"], "completed", "{known}");

    let browser = Browser::start().await.unwrap();
    let read =
        "return [document.documentElement.lang, document.title, document.querySelector('.amount').innerText,
        document.body.innerText, getComputedStyle(document.querySelector('main')).maxWidth]";
    let withdrawal = format!("/api/v1/withdrawals/{uuid}/receipt");
    open(&browser, &client, &gateway, &withdrawal, "pt-BR").await;
    let told = browser.run(read).await.unwrap();
    assert_eq!(told[0], "pt-BR");
    assert_eq!((&told[1], &told[2]), (&json!("Comprovante de Pix enviado"), &json!("R$\u{a0}1.234,50")));
    let shown = told[3].as_str().unwrap();
    for said in [
        "Quem pagou\n",
        "Quem recebeu\n",
        "Conceição Araújo",
        "***.982.247-**",
        "Nota 77",
        &uuid,
        &"x".repeat(120),
    ] {
        assert!(shown.contains(said), "no {said} in {shown}");
    }
    assert!(!shown.contains("52998224725"), "{shown}");
    assert_eq!(told[4], "640px", "its style is let in by its policy");
    assert_eq!(printed(&browser).await, 1);

    let charge = text(&charge, "/uuid").unwrap();
    open(&browser, &client, &gateway, &format!("/api/v1/charges/{charge}/receipt"), "en").await;
    let told = browser.run(read).await.unwrap();
    assert_eq!((&told[0], &told[1]), (&json!("en"), &json!("Receipt of a Pix received")));
    let shown = told[3].as_str().unwrap();
    assert!(shown.contains("Who paid\n") && shown.contains("Who received\n"), "{shown}");
    assert_eq!(printed(&browser).await, 1);
    assert_eq!(browser.complaints().await.unwrap(), Vec::<Value>::new(), "nothing is against the policy");
}
