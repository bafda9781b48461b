//! Traces as an operator's collector gets them, and as those who are called are told of them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::future::Future;
use std::process::Output;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use pix_tests::{
    Client, Conduct, Database, Gateway, Listener, Port, http_client, on_either_store, pay, text,
};
use serde_json::json;
use uuid::Uuid;

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);
/// A request's trace and its caller's step in it, as the recommendation shows them.
const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

on_either_store!(a_payment_is_told_from_the_request_that_asked_for_it_to_its_postback);

/// What becomes true within seconds.
async fn soon<F: Future<Output = bool>>(what: &str, mut is_true: impl FnMut() -> F) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// The one span of that name in that trace.
fn only<'a>(spans: &'a [Span], trace_id: &str, name: &str) -> &'a Span {
    let found: Vec<_> =
        spans.iter().filter(|span| hex(&span.trace_id) == trace_id && span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} of {trace_id} in {spans:#?}");
    found[0]
}

fn is(span: &Span, kind: SpanKind) -> bool {
    span.kind == i32::from(kind) && span.start_time_unix_nano <= span.end_time_unix_nano
}

/// The traces and spans that it is linked with.
fn links(span: &Span) -> Vec<(String, String)> {
    span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect()
}

async fn a_payment_is_told_from_the_request_that_asked_for_it_to_its_postback(database: Database) {
    let collector = Listener::start(Conduct::Takes).await.unwrap();
    let receiver = Listener::start(Conduct::Takes).await.unwrap();
    let settings = [
        ("PIX_OTLP_ENDPOINT", collector.url.as_str()),
        ("PIX_OTLP_HEADERS", "authorization=Bearer%20hunter2"),
        ("PIX_OTLP_INTERVAL_MS", "100"),
        ("PIX_POSTBACK_ALLOW_PRIVATE", "loopback"),
        ("PIX_POSTBACK_INTERVAL_MS", "100"),
    ];
    let gateway = Gateway::start(database, &settings).unwrap();
    let integrator = gateway.integrator("traced").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let body = json!({
        "amount": 12, "postbackUrl": format!("{}/hook?token=t", receiver.url),
        "payer": {"name": "Ana", "document": "52998224725"},
    });
    let request = http_client()
        .unwrap()
        .post(format!("{}/api/v1/charges", gateway.url))
        .bearer_auth(client.token())
        .header("traceparent", format!("00-{TRACE_ID}-{CALLER}-00"));
    let answer = request.json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 201);
    let charge = answer.json().await.unwrap();
    let record = Uuid::try_parse(&text(&charge, "/uuid").unwrap()).unwrap().simple().to_string();
    let first = &record[16..];
    pay(&gateway, &text(&charge, "/pix_id").unwrap()).await.unwrap();
    soon("the postback arrives", || async { !receiver.heard().is_empty() }).await;
    let told = receiver.heard()[0].headers["traceparent"].clone();
    let attempt =
        told.strip_prefix(&format!("00-{record}-")).and_then(|rest| rest.strip_suffix("-01")).unwrap();
    assert!(!receiver.heard()[0].headers.contains_key("tracestate"));

    // None of the three waits for another one.
    let ended = || async {
        let spans = collector.spans();
        let is_there = |name: &str| spans.iter().any(|span| span.name.starts_with(name));
        ["postback", "callback", "POST /callbacks/"].into_iter().all(is_there)
    };
    soon("the last spans arrive", ended).await;
    let spans = collector.spans();
    let of_request = |name| only(&spans, TRACE_ID, name);
    let (asked, called) = (of_request("POST /api/v1/charges"), of_request("provider create_charge"));
    assert!(is(asked, SpanKind::Server) && hex(&asked.parent_span_id) == CALLER, "{asked:#?}");
    assert!(is(called, SpanKind::Client) && called.parent_span_id == asked.span_id, "{called:#?}");
    assert_eq!(of_request("apply").parent_span_id, asked.span_id);
    assert_eq!(links(asked), [(record.clone(), first.to_owned())], "the record that it made");

    let of_record = |name| only(&spans, &record, name);
    let made = of_record("charge");
    assert!(made.parent_span_id.is_empty() && hex(&made.span_id) == first, "{made:#?}");
    assert_eq!(links(made), [(TRACE_ID.to_owned(), hex(&asked.span_id))]);
    let (callback, postback) = (of_record("callback"), of_record("postback"));
    assert!(is(callback, SpanKind::Internal) && callback.parent_span_id == made.span_id, "{callback:#?}");
    assert_eq!(of_record("provider consult_charge").parent_span_id, callback.span_id);
    assert!(is(postback, SpanKind::Client) && postback.parent_span_id == made.span_id, "{postback:#?}");
    assert_eq!(hex(&postback.span_id), attempt);
    let called_back = spans.iter().find(|span| span.name.starts_with("POST /callbacks/{")).unwrap();
    assert_eq!(links(called_back), [(record.clone(), first.to_owned())]);
    assert!(links(callback).contains(&(hex(&called_back.trace_id), hex(&called_back.span_id))));

    let heard = collector.heard();
    assert!(heard.iter().all(|one| one.headers["authorization"] == "Bearer hunter2"));
    assert!(heard.iter().all(|one| one.headers["content-type"] == "application/x-protobuf"));
    assert!(spans.iter().all(|span| !span.name.contains("/health/")), "nobody asks for these");
}

async fn a_collector_that(conduct: Conduct) {
    let collector = Listener::start(conduct).await.unwrap();
    let port = Port::reserve().unwrap();
    let admin = format!("127.0.0.1:{}", port.number());
    let settings = [
        ("PIX_OTLP_ENDPOINT", collector.url.as_str()),
        ("PIX_OTLP_QUEUE", "512"),
        ("PIX_OTLP_INTERVAL_MS", "100"),
        ("PIX_OTLP_TIMEOUT_MS", "1000"),
        ("PIX_ADMIN_LISTEN", admin.as_str()),
    ];
    let mut gateway = Gateway::start(Database::Sqlite, &settings).unwrap();
    let integrator = gateway.integrator("untold").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    for _ in 0..600 {
        let (status, answer) = client.get("/api/v1/limits").await.unwrap();
        assert_eq!(status, 200, "{answer}");
    }
    let page = || async {
        let answer = http_client().unwrap().get(format!("http://{admin}/metrics")).send().await.unwrap();
        answer.text().await.unwrap()
    };
    let counted = || async { page().await.contains("pix_spans_dropped_total{why=\"not_taken\"}") };
    soon("spans are dropped and counted", counted).await;
    assert!(gateway.log().contains("does not take spans"), "{}", gateway.log());
    let begun = Instant::now();
    assert_eq!(gateway.terminate().unwrap(), Some(0), "{}", gateway.log());
    assert!(begun.elapsed() < Duration::from_secs(20), "it stopped after {:?}", begun.elapsed());
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_refuses_is_in_nobodys_way() {
    a_collector_that(Conduct::Refuses).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_hangs_is_in_nobodys_way() {
    a_collector_that(Conduct::Hangs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_sent_when_it_stops() {
    let collector = Listener::start(Conduct::Takes).await.unwrap();
    let settings = [("PIX_OTLP_ENDPOINT", collector.url.as_str()), ("PIX_OTLP_INTERVAL_MS", "60000")];
    let mut gateway = Gateway::start(Database::Sqlite, &settings).unwrap();
    let integrator = gateway.integrator("late").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "1").await.unwrap();
    assert!(collector.spans().is_empty());
    assert_eq!(gateway.terminate().unwrap(), Some(0), "{}", gateway.log());
    let names: Vec<String> = collector.spans().into_iter().map(|span| span.name).collect();
    for name in ["POST /v2/oauth/token", "POST /api/v1/charges", "charge", "apply"] {
        assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
    }
}

fn said(output: &Output) -> String {
    String::from_utf8([output.stdout.as_slice(), output.stderr.as_slice()].concat()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_collectors_secret_is_shown_to_nobody_and_goes_nowhere_in_the_clear() {
    let gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    let run = |endpoint: &str, arguments: &[&str]| {
        let mut command = gateway.command(arguments);
        command.env("PIX_OTLP_ENDPOINT", endpoint).env("PIX_OTLP_HEADERS", "authorization=hunter2");
        said(&command.output().unwrap())
    };
    let shown = run("https://collector.example", &["config", "show"]);
    assert!(shown.contains("https://collector.example") && !shown.contains("hunter2"), "{shown}");
    let checked = run("http://collector.example", &["config", "check"]);
    assert!(checked.contains("PIX_OTLP_ENDPOINT is http") && !checked.contains("hunter2"), "{checked}");
}
