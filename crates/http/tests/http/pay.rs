//! The payment page of a charge: what it shows to whom, and how it hears of a payment.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pix_conformance::Answer as Told;
use pix_http::HttpConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::support::{Answer, BASE, Gateway, Request, Tenant, charge_body, withdrawal_body};

/// How long a test waits for what is to happen.
const PATIENCE: Duration = Duration::from_secs(20);
const NOBODYS: &str = "01990000-0000-7000-8000-0000000000ff";

async fn made(gateway: &Gateway) -> (Tenant, Value, String) {
    let tenant = gateway.tenant(0).await;
    let charge = gateway.post(&tenant, "/api/v1/charges", &charge_body()).await.expect(201).json();
    let path = charge["links"]["pay"].as_str().unwrap().strip_prefix(BASE).unwrap().to_owned();
    (tenant, charge, path)
}

fn uuid(charge: &Value) -> &str {
    charge["uuid"].as_str().unwrap()
}

async fn get(gateway: &Gateway, path: &str) -> Answer {
    gateway.send(Request::new("GET", path)).await
}

/// Looks until a charge stands there: what was read is shown for a second.
async fn until(gateway: &Gateway, path: &str, status: &str) {
    let deadline = Instant::now() + PATIENCE;
    while get(gateway, &format!("{path}/status")).await.expect(200).text("status") != status {
        assert!(Instant::now() < deadline, "never {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_sees_what_to_pay_and_nothing_else_of_the_charge() {
    let gateway = Gateway::start().await;
    let (tenant, charge, path) = made(&gateway).await;
    let page = get(&gateway, &path).await.expect(200);
    let code = charge["qrcode"].as_str().unwrap();
    for shown in [
        "R$\u{a0}15,50",
        &format!(">{code}</textarea>"),
        "<svg ",
        "Aguardando o pagamento",
        "15/01/2026 às 09:50",
    ] {
        assert!(page.body.contains(shown), "no {shown} in {}", page.body);
    }
    let (integrator, pix_id) = (tenant.id.to_string(), charge["pix_id"].as_str().unwrap());
    let kept = [
        "Ana Souza",
        "52998224725",
        "ana@example.com",
        "order:1",
        "loja.example",
        &integrator,
        &tenant.public_id,
        pix_id,
    ];
    for secret in kept.into_iter().filter(|secret| !code.contains(secret)) {
        assert!(!page.body.contains(secret), "{secret} in {}", page.body);
    }
    let status = get(&gateway, &format!("{path}/status")).await.expect(200);
    assert_eq!(status.json(), json!({"status": "pending", "expires_at": charge["expires_at"]}));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("content-language"), Some("pt-BR"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-")
            && policy.contains("frame-ancestors 'none'")
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-robots-tag", "noindex"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!((page.header(name), status.header(name)), (Some(value), Some(value)), "{name}");
    }
    for outside in ["http://", "https://", "url(", "@import", " src=", " style="] {
        let found = page.body.replace("http://www.w3.org/2000/svg", "").contains(outside);
        assert!(!found, "{outside} in {}", page.body);
    }
    let english = Request::new("GET", &path).header("Accept-Language", "en-GB,en;q=0.9");
    let english = gateway.send(english).await.expect(200);
    assert!(english.body.contains("<html lang=\"en\">") && english.body.contains("R$\u{a0}15.50"));
    let head = gateway.send(Request::new("HEAD", &path)).await.expect(200);
    assert_eq!(head.body, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_no_charge_is_the_same_page_whatever_it_names() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let charge = gateway.post(&tenant, "/api/v1/charges", &charge_body()).await.expect(201);
    let withdrawal = gateway.post(&tenant, "/api/v1/withdrawals", &withdrawal_body()).await.expect(201);
    gateway.pay(&tenant, &charge.text("uuid"), 1_550).await;
    let refunds = format!("/api/v1/charges/{}/refunds", charge.text("uuid"));
    let refund = gateway.post(&tenant, &refunds, &json!({"amount": 1})).await.expect(201);
    let nobodys = get(&gateway, &format!("/pay/{NOBODYS}")).await.expect(404);
    assert!(nobodys.body.starts_with("<!doctype html>") && nobodys.body.contains("Página não encontrada"));
    let others = [withdrawal.text("uuid"), refund.text("uuid"), tenant.id.to_string(), charge.text("pix_id")];
    let damaged =
        ["x", "order:1", "%00", "%ff", "0199", "00000000-0000-0000-0000-000000000000", "{}", "..%2f"];
    for name in others.iter().map(String::as_str).chain(damaged) {
        let answer = get(&gateway, &format!("/pay/{name}")).await.expect(404);
        assert_eq!(answer.body, nobodys.body, "{name}");
        let headers = |answer: &Answer| {
            let kept = answer
                .headers
                .iter()
                .filter(|(name, _)| !name.starts_with("ratelimit") && name != "x-request-id");
            kept.filter(|(name, _)| name != "date").cloned().collect::<Vec<_>>()
        };
        assert_eq!(headers(&answer), headers(&nobodys), "{name}");
        for below in ["status", "events"] {
            let answer = get(&gateway, &format!("/pay/{name}/{below}")).await.expect(404);
            assert_eq!(
                answer.without_request_id(),
                json!({"statusCode": 404, "message": "not found", "code": "not_found"})
            );
        }
    }
    for name in [charge.text("uuid").to_uppercase(), charge.text("uuid").replace('-', "")] {
        get(&gateway, &format!("/pay/{name}")).await.expect(200);
    }
    for path in ["/pay", "/pay/x/y", "/pay/x/status/z"] {
        assert_eq!(get(&gateway, path).await.expect(404).code(), "not_found");
    }
    let post = gateway.send(Request::post(&format!("/pay/{NOBODYS}"), "{}")).await.expect(405);
    assert_eq!(
        (post.header("allow"), post.header("content-type")),
        (Some("GET, HEAD"), Some("text/html; charset=utf-8"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_where_the_charge_stands_and_offers_only_what_can_be_paid() {
    let gateway = Gateway::start().await;
    let (tenant, charge, path) = made(&gateway).await;
    gateway.services.clock.advance(Duration::from_mins(51));
    let over = get(&gateway, &path).await.expect(200);
    assert!(over.body.contains("Verificando se o pagamento chegou…</p>") && !over.body.contains("<textarea"));
    gateway.post(&tenant, "/api/v1/transactions/consult", &json!({"uuid": uuid(&charge)})).await.expect(200);
    until(&gateway, &path, "expired").await;
    let expired = get(&gateway, &path).await.expect(200);
    assert!(expired.body.contains("não pode mais ser paga.</p>") && !expired.body.contains("http-equiv"));
    gateway.pay(&tenant, uuid(&charge), 1_000).await;
    until(&gateway, &path, "paid").await;
    let paid = get(&gateway, &path).await.expect(200);
    for shown in
        ["role=\"status\">Pagamento recebido<", "R$\u{a0}15,50", "Valor recebido</dt><dd>R$\u{a0}10,00<"]
    {
        assert!(paid.body.contains(shown), "no {shown} in {}", paid.body);
    }
    for (name, told, status, word) in
        [("unknown", Told::LostRequest, 504, "creating"), ("refused", Told::Reject, 422, "failed")]
    {
        gateway.provider.fake.answers_next_charge(told);
        let mut body = charge_body();
        body["external_id"] = json!(name);
        gateway.post(&tenant, "/api/v1/charges", &body).await.expect(status);
        let charge = gateway.get(&tenant, &format!("/api/v1/charges/{name}")).await.expect(200);
        let path = format!("/pay/{}", charge.text("uuid"));
        until(&gateway, &path, word).await;
        let page = get(&gateway, &path).await.expect(200).body;
        assert!(!page.contains("<textarea") && !page.contains("<svg"), "{page}");
    }
}

/// A stream of events.
struct Events {
    stream: TcpStream,
    read: String,
}

impl Events {
    async fn open(gateway: &Gateway, path: &str) -> Self {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(&Request::new("GET", &format!("{path}/events")).bytes()).await.unwrap();
        Self { stream, read: String::new() }
    }

    /// Reads until this has come.
    async fn until(&mut self, text: &str) {
        while !self.read.contains(text) {
            let mut bytes = vec![0; 4096];
            let read = timeout(PATIENCE, self.stream.read(&mut bytes)).await.expect("nothing comes").unwrap();
            assert!(read > 0, "it ended before {text}: {}", self.read);
            self.read.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
    }

    async fn end(mut self) -> String {
        let rest =
            timeout(PATIENCE, self.stream.read_to_string(&mut self.read)).await.expect("it does not end");
        rest.unwrap();
        self.read
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_of_the_payment_and_ends() {
    let gateway = Gateway::start().await;
    let (tenant, charge, path) = made(&gateway).await;
    let mut events = Events::open(&gateway, &path).await;
    let told = |status: &str| {
        let expires_at = charge["expires_at"].as_str().unwrap();
        format!("data: {{\"status\":\"{status}\",\"expires_at\":\"{expires_at}\"}}\n\n")
    };
    events.until(&format!("retry: 3000\n{}", told("pending"))).await;
    gateway.pay(&tenant, uuid(&charge), 1_550).await;
    let read = events.end().await;
    assert!(
        read.contains("content-type: text/event-stream\r\n") && read.contains("cache-control: no-store\r\n")
    );
    assert_eq!(read.matches("data: ").count(), 2, "{read}");
    assert!(read.contains(&told("paid")), "{read}");
    let later = Events::open(&gateway, &path).await.end().await;
    assert_eq!(later.matches("data: ").count(), 1, "{later}");
    let post = gateway.send(Request::post(&format!("{path}/events"), "{}")).await.expect(405);
    assert_eq!(post.header("allow"), Some("GET"));
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_so_many_streams_and_one_more_is_told_to_ask() {
    let gateway = Gateway::with(|config| config.pay_streams = 1, None).await;
    let (_, _, path) = made(&gateway).await;
    let mut first = Events::open(&gateway, &path).await;
    first.until("pending").await;
    let refused = get(&gateway, &format!("{path}/events")).await.expect(503);
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("overloaded", Some("1")));
    get(&gateway, &format!("{path}/status")).await.expect(200);
    first.stream.set_zero_linger().unwrap();
    drop(first);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut next = Events::open(&gateway, &path).await;
        next.until("\r\n\r\n").await;
        if next.read.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(Instant::now() < deadline, "its place is never free again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_streams() {
    let gateway = Gateway::with(|config| config.shutdown_grace = PATIENCE * 10, None).await;
    let (_, _, path) = made(&gateway).await;
    let mut events = Events::open(&gateway, &path).await;
    events.until("pending").await;
    timeout(PATIENCE, Box::pin(gateway.stop())).await.expect("the stop waits for the stream");
    assert!(events.end().await.ends_with("0\r\n\r\n"), "it came to its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_look_at_one_charge_read_it_once() {
    let many = |config: &mut HttpConfig| config.rate_api_burst = 100_000;
    let gateway = Gateway::with(many, None).await;
    let (_, _, path) = made(&gateway).await;
    let before = gateway.charges_read.load(Ordering::Relaxed);
    let begun = Instant::now();
    let status = format!("{path}/status");
    for _ in 0..20 {
        let looks = futures_util::future::join_all((0..10).map(|_| get(&gateway, &status))).await;
        assert!(looks.iter().all(|answer| answer.status == 200));
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    let reads = gateway.charges_read.load(Ordering::Relaxed) - before;
    assert!(reads <= seconds + 2, "{reads} reads for 200 looks within {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_too_often_is_shown_a_page_that_says_so() {
    let slow = |config: &mut HttpConfig| (config.rate_api_burst, config.rate_api_per_minute) = (2, 1);
    let gateway = Gateway::with(slow, None).await;
    let (_, _, path) = made(&gateway).await;
    assert_eq!(get(&gateway, &path).await.expect(200).header("ratelimit"), Some("\"api\";r=1;t=60"));
    get(&gateway, &format!("/pay/{NOBODYS}")).await.expect(404);
    let refused = get(&gateway, &path).await.expect(429);
    assert!(refused.body.starts_with("<!doctype html>") && refused.body.contains("Muitos acessos agora"));
    assert!(
        refused.header("retry-after").is_some()
            && refused.header("content-security-policy").unwrap().contains("sha256-")
    );
    assert_eq!(get(&gateway, &format!("{path}/status")).await.expect(429).code(), "rate_limited");
}
