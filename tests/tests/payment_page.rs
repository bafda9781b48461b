//! The payment page in a real browser: it is opened, read as a camera would, paid at the simulated provider, and watched.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::io::Cursor;

use pix_tests::browser::Browser;
use pix_tests::{Client, Database, Gateway, http_client, pay_with, text};
use serde_json::{Value, json};

/// A gateway with a charge, and where that is paid.
struct Shop {
    gateway: Gateway,
    charge: Value,
}

impl Shop {
    async fn open(settings: &[(&str, &str)]) -> Self {
        let gateway = Gateway::start(Database::Sqlite, settings).unwrap();
        let integrator = gateway.integrator("Loja").unwrap();
        let client = Client::new(&gateway, &integrator).await.unwrap();
        let body = json!({
            "amount": "1234.50", "external_id": "canary-order", "payerQuestion": "canary-question",
            "payer": {"name": "Canaria da Silva", "document": "52998224725", "email": "canary@example.com"}
        });
        let (status, charge) = client.post("/api/v1/charges", body).await.unwrap();
        assert_eq!(status, 201, "{charge}");
        Self { gateway, charge }
    }

    fn page(&self) -> String {
        text(&self.charge, "/links/pay").unwrap()
    }

    fn code(&self) -> String {
        text(&self.charge, "/qrcode").unwrap()
    }

    async fn pay(&self) {
        self.pay_with(json!({})).await;
    }

    async fn pay_with(&self, how: Value) {
        pay_with(&self.gateway, &text(&self.charge, "/pix_id").unwrap(), how).await.unwrap();
    }
}

/// The QR code that is seen in a screenshot, read by a library that shares nothing with what drew it.
fn seen(screenshot: &[u8]) -> String {
    let mut decoder = png::Decoder::new(Cursor::new(screenshot));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let told = reader.next_frame(&mut pixels).unwrap();
    let size = |pixels: u32| usize::try_from(pixels).unwrap();
    let samples = told.color_type.samples();
    // Of what is grey or nearly so, one colour tells the shade.
    let shade = |x, y| pixels[(y * size(told.width) + x) * samples];
    let mut picture = rqrr::PreparedImage::prepare_from_greyscale(size(told.width), size(told.height), shade);
    let grids = picture.detect_grids();
    assert_eq!(grids.len(), 1, "there is one code to be seen");
    grids[0].decode().unwrap().1
}

async fn says(browser: &Browser, text: &str) {
    browser.until(&format!("return document.body.innerText.includes({})", json!(text))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payer_scans_the_code_and_the_page_turns_to_paid_by_itself() {
    let (shop, browser) = (Shop::open(&[]).await, Browser::start().await.unwrap());
    browser.resize(390, 1000, 2).await.unwrap();
    browser.open(&shop.page()).await.unwrap();
    assert_eq!(seen(&browser.screenshot().await.unwrap()), shop.code());
    browser.prefer_dark(true).await.unwrap();
    assert_eq!(seen(&browser.screenshot().await.unwrap()), shop.code(), "dark, too");
    let script = "return [document.querySelector('#code').value, document.documentElement.lang,
        document.querySelector('dd').textContent, document.querySelector('.amount').textContent,
        document.documentElement.scrollWidth <= 390, getComputedStyle(document.body).backgroundColor]";
    let told = browser.run(script).await.unwrap();
    assert!(told[2].as_str().is_some_and(|name| !name.is_empty()), "the receiver of the code");
    assert_eq!(told, json!([shop.code(), "en", told[2], "R$\u{a0}1,234.50", true, "rgb(15, 21, 25)"]));
    says(&browser, "Waiting for the payment").await;
    says(&browser, "Time left: 49:").await;
    browser.click("#copy").await.unwrap();
    says(&browser, "Code copied").await;
    browser.run("window.same = true").await.unwrap();

    shop.pay().await;
    browser.until("return document.querySelector('main').dataset.status === 'paid'").await.unwrap();
    says(&browser, "Payment received").await;
    let after = "return [window.same, document.querySelector('#ways').hidden,
        document.querySelector('#state').getAttribute('role')]";
    assert_eq!(
        browser.run(after).await.unwrap(),
        json!([true, true, "status"]),
        "the page was not loaded again"
    );
    let source = browser.run("return document.documentElement.outerHTML").await.unwrap().to_string();
    for kept in ["anary", "52998224725", &text(&shop.charge, "/pix_id").unwrap()] {
        assert!(shop.code().contains(kept) || !source.contains(kept), "{kept} in {source}");
    }
    let asked = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)").await;
    for url in asked.unwrap().as_array().unwrap() {
        assert!(url.as_str().unwrap().starts_with(&shop.page()), "{url} is not of the page");
    }
    assert_eq!(browser.complaints().await.unwrap(), Vec::<Value>::new(), "nothing is against the policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_amount_that_came_in_is_told_on_the_page_that_is_open() {
    let (shop, browser) = (Shop::open(&[]).await, Browser::start().await.unwrap());
    browser.open(&shop.page()).await.unwrap();
    says(&browser, "Waiting for the payment").await;
    browser.run("window.same = true").await.unwrap();
    shop.pay_with(json!({"amount": "1000.00"})).await;
    says(&browser, "Payment received").await;
    let facts = "return [...document.querySelectorAll('dl')].map(facts => facts.innerText.includes('Amount received')
        && facts.innerText.includes('R$\u{a0}1,000.00') && facts.innerText.includes('R$\u{a0}1,234.50')).join()";
    browser.until(&format!("{facts} === 'true'")).await.unwrap();
    assert_eq!(
        browser.run("return window.same").await.unwrap(),
        json!(true),
        "the page was not loaded again"
    );
    assert_eq!(browser.complaints().await.unwrap(), Vec::<Value>::new(), "nothing is against the policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_events_are_too_many_the_page_asks() {
    let shop = Shop::open(&[("PIX_PAY_STREAMS", "1")]).await;
    let only = http_client().unwrap().get(format!("{}/events", shop.page())).send().await.unwrap();
    assert_eq!(only.status(), 200);
    let browser = Browser::start().await.unwrap();
    browser.open(&shop.page()).await.unwrap();
    shop.pay().await;
    browser.until("return document.querySelector('main').dataset.status === 'paid'").await.unwrap();
    drop(only);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_its_time_the_code_is_hidden() {
    let (shop, browser) = (Shop::open(&[]).await, Browser::start().await.unwrap());
    // Before the page's own script: a clock that the test can put forward.
    let skewed =
        json!({"source": "const now = Date.now; window.skew = 0; Date.now = () => now() + window.skew"});
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", skewed).await.unwrap();
    browser.open(&shop.page()).await.unwrap();
    says(&browser, "Time left: 49:").await;
    browser.run("window.skew = 3000 * 1000").await.unwrap();
    says(&browser, "The time is over. Looking whether the payment has come…").await;
    assert_eq!(browser.run("return document.querySelector('#ways').hidden").await.unwrap(), json!(true));
    // Money is money: the gateway's own time is not over.
    shop.pay().await;
    says(&browser, "Payment received").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_script_it_can_be_paid_as_well() {
    let (shop, browser) = (Shop::open(&[]).await, Browser::start().await.unwrap());
    browser.resize(390, 1100, 2).await.unwrap();
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true})).await.unwrap();
    browser.open(&shop.page()).await.unwrap();
    assert_eq!(seen(&browser.screenshot().await.unwrap()), shop.code());
    says(&browser, "This page refreshes by itself.").await;
    let script = "return [document.querySelector('#code').value, document.querySelector('#copy').hidden]";
    assert_eq!(browser.run(script).await.unwrap(), json!([shop.code(), true]), "no button that does nothing");
    shop.pay().await;
    says(&browser, "Payment received").await;
    let forms = "return [document.querySelector('#code'), document.querySelector('[http-equiv]')]";
    assert_eq!(browser.run(forms).await.unwrap(), json!([null, null]));
}
