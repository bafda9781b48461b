//! The console in a real browser: two operators sign in, look for a charge, and decide what nobody knows.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use pix_tests::browser::Browser;
use pix_tests::console::Desk;
use pix_tests::{Database, Gateway, Port, http_client, text};
use serde_json::{Value, json};

async fn says(browser: &Browser, text: &str) {
    browser.until(&format!("return document.body.innerText.includes({})", json!(text))).await.unwrap();
}

/// Opens an address, and has the page say that.
async fn opens(browser: &Browser, url: &str, text: &str) {
    browser.open(url).await.unwrap();
    says(browser, text).await;
}

/// Nobody is named in full on the page that is open, nothing is fetched for it, and it fits where it is.
async fn is_decent(browser: &Browser) {
    let source = browser.run("return document.documentElement.outerHTML").await.unwrap().to_string();
    for kept in ["anaria", "Maria Silva", "52998224725", "<script"] {
        assert!(!source.contains(kept), "{kept} in {source}");
    }
    let told = browser.run(
        "return [performance.getEntriesByType('resource').length,
            document.documentElement.scrollWidth <= window.innerWidth,
            document.querySelectorAll('h1').length]",
    );
    assert_eq!(told.await.unwrap(), json!([0, true, 1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_operators_look_and_decide_in_a_browser() {
    let desk = Desk::open(Database::Sqlite).await.unwrap();
    let [ana, bia] = &desk.operators;
    let browser = Browser::start().await.unwrap();
    browser.resize(1280, 900, 1).await.unwrap();
    ana.sign_in(&browser, &desk.console).await.unwrap();
    says(&browser, "ready").await;
    is_decent(&browser).await;

    let charge = text(&desk.charge, "/uuid").unwrap();
    browser.click("header a[href$='/search']").await.unwrap();
    says(&browser, "A uuid, an external id").await;
    browser.write("#q", &charge).await.unwrap();
    browser.click("form[role=search] button").await.unwrap();
    says(&browser, "Loja das Flores").await;
    is_decent(&browser).await;
    browser.click(&format!("a[href$='{charge}']")).await.unwrap();
    says(&browser, "charge paid").await;
    says(&browser, "***.982.247-**").await;
    is_decent(&browser).await;

    opens(&browser, &format!("{}/uncertain", desk.console), "R$\u{a0}1,234.50").await;
    browser.click(&format!("a[href$='{}']", text(&desk.lost, "/uuid").unwrap())).await.unwrap();
    says(&browser, "Decide by hand").await;
    ana.decide(&browser, "failed", "not on the statement of 22/11").await.unwrap();
    says(&browser, "Proposed: it is failed. Nothing has moved.").await;
    ana.decide(&browser, "failed", "really not on the statement").await.unwrap();
    says(&browser, "a second operator has to confirm this").await;
    assert_eq!(desk.client.balance().await.unwrap(), "1265.50", "nothing has moved");

    let other = Browser::start().await.unwrap();
    other.resize(390, 900, 1).await.unwrap();
    bia.sign_in(&other, &desk.console).await.unwrap();
    opens(&other, &desk.page(&desk.lost).unwrap(), "ana proposed: failed").await;
    is_decent(&other).await;
    bia.decide(&other, "failed", "the bank says it never came").await.unwrap();
    says(&other, "Decided by two operators: it is failed.").await;
    says(&other, "withdrawal release").await;
    assert_eq!(desk.client.balance().await.unwrap(), "2500.00");
    opens(&other, &format!("{}/audit-log", desk.console), "resolve.failed_confirmed").await;
    opens(&other, &format!("{}/uncertain", desk.console), "Nothing is uncertain.").await;
    for place in ["", "/findings", "/postbacks", "/integrators", "/audit-log"] {
        other.open(&format!("{}{place}", desk.console)).await.unwrap();
        is_decent(&other).await;
    }
    for one in [&browser, &other] {
        assert_eq!(one.complaints().await.unwrap(), Vec::<Value>::new(), "nothing is against the policy");
    }
    other.click(".who button").await.unwrap();
    other.until("return document.querySelector('#token') !== null").await.unwrap();
    let acts = desk.gateway.cli_json(&["audit-log", "list", "--json"]).unwrap();
    let who: Vec<_> =
        acts.as_array().unwrap().iter().rev().take(2).map(|act| act["operator"].clone()).collect();
    assert_eq!(who, [json!("bia"), json!("ana")]);
    assert_eq!(desk.gateway.audit().unwrap()["clean"], true);
    assert!(!desk.gateway.log().contains(&ana.token), "a token is in the log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_suspends_an_integrator_and_revokes_a_key() {
    let desk = Desk::open(Database::Sqlite).await.unwrap();
    let browser = Browser::start().await.unwrap();
    desk.operators[0].sign_in(&browser, &desk.console).await.unwrap();
    browser.open(&format!("{}/integrators", desk.console)).await.unwrap();
    browser.click("tbody a").await.unwrap();
    says(&browser, "Fees").await;
    is_decent(&browser).await;
    browser.click("form[action$=suspend]").await.unwrap_err();
    browser.click("summary").await.unwrap();
    browser.click("form[action$=suspend] button").await.unwrap();
    says(&browser, "It is suspended.").await;
    let payee = json!({"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"});
    let body = json!({"amount": 1, "creditParty": payee});
    let (status, refused) = desk.client.post("/api/v1/withdrawals", body).await.unwrap();
    assert_eq!(status, 403, "at once, on this node: {refused}");
    browser.click("td summary").await.unwrap();
    browser.click("form[action$=revoke] button").await.unwrap();
    says(&browser, "is revoked.").await;
    let (status, refused) = desk.client.get("/api/v1/balance").await.unwrap();
    assert_eq!(status, 401, "{refused}");
    let acts = desk.gateway.cli_json(&["audit-log", "list", "--json"]).unwrap();
    let newest: Vec<_> =
        acts.as_array().unwrap().iter().rev().take(2).map(|act| act["action"].clone()).collect();
    assert_eq!(newest, [json!("key.revoked"), json!("integrator.suspended")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_is_on_the_admin_listener_alone_and_off_until_somebody_may_sign_in() {
    let desk = Desk::open(Database::Sqlite).await.unwrap();
    let http = http_client().unwrap();
    let open = http.get(format!("{}/console", desk.gateway.url)).send().await.unwrap();
    assert_eq!(open.status(), 404, "nothing of it is public");
    let strange = http.get(&desk.console).header("host", "evil.example").send().await.unwrap();
    assert_eq!(strange.status(), 421);
    let port = Port::reserve().unwrap();
    let admin = format!("127.0.0.1:{}", port.number());
    let off = Gateway::start(Database::Sqlite, &[("PIX_ADMIN_LISTEN", &admin)]).unwrap();
    let answer = http.get(format!("http://{admin}/console")).send().await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.unwrap().contains("PIX_CONSOLE_OPERATORS"), "{}", off.log());
}
