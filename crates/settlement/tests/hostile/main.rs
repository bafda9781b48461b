//! A provider that misbehaves: bytes of every kind, or none. Each test says what is known afterwards, and how many
//! requests the provider saw.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

mod scripted;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::Amount;
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::provider::{
    ChargeOrder, Inquiry, OutgoingReport, Party, PaymentOrder, Progress, ProviderError, ProviderId,
    Reference, RefundOrder, SettlementProvider,
};
use pix_domain::text::PersonName;
use pix_settlement::{ClassicV2Config, ClassicV2Provider};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use uuid::Uuid;

use scripted::{Act, SECRET, ScriptedServer, answer, json, read};

const REFERENCE: Reference = Reference(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff));
const GOOD: &str = r#"{"statusCode":200,"transactionId":"t1","external_id":"019900000000700080000000000000ff","amount":15.5,"status":"PENDING","message":"x"}"#;
const REFUSED: &str = r#"{"statusCode":406,"message":"key not found","code":"invalid_key"}"#;
const KEY: &str = "maria.secreta@example.com";
const NAME: &str = "Maria Secreta";

fn resource(kind: ResourceKind) -> ResourceRef {
    ResourceRef { integrator_id: IntegratorId(Uuid::from_u128(1)), kind, id: REFERENCE.0 }
}

fn amount() -> Amount {
    Amount::from_cents(1_550).unwrap()
}

fn payment() -> PaymentOrder {
    PaymentOrder {
        reference: REFERENCE,
        resource: resource(ResourceKind::Withdrawal),
        amount: amount(),
        key: PixKey::parse(PixKeyType::Email, KEY).unwrap(),
        payee: Party { name: PersonName::parse(NAME).ok(), document: None },
        description: None,
    }
}

fn refund() -> RefundOrder {
    RefundOrder {
        reference: REFERENCE,
        resource: resource(ResourceKind::Refund),
        charge_provider_id: ProviderId::parse("c1").unwrap(),
        amount: amount(),
        description: None,
    }
}

fn charge() -> ChargeOrder {
    ChargeOrder {
        reference: REFERENCE,
        resource: resource(ResourceKind::Charge),
        amount: amount(),
        payer: Party { name: PersonName::parse(NAME).ok(), document: None },
        payer_email: None,
        payer_question: None,
        expires_in: Duration::from_mins(1),
    }
}

fn inquiry() -> Inquiry {
    Inquiry { reference: REFERENCE, provider_id: None, amount: amount(), key: None }
}

fn config(server: &ScriptedServer) -> ClassicV2Config {
    let mut config = ClassicV2Config::new(server.base_url(), "id", SECRET.into());
    config.callback_base = Some(format!("https://gateway.example.com/{SECRET}"));
    config
}

async fn start(acts: Vec<Act>) -> (ScriptedServer, Arc<ClassicV2Provider>) {
    let server = ScriptedServer::start(acts).await;
    let provider = Arc::new(ClassicV2Provider::new(config(&server)).unwrap());
    (server, provider)
}

async fn send(act: Act) -> (Result<OutgoingReport, ProviderError>, usize) {
    let (server, provider) = start(vec![act]).await;
    let result = provider.send_payment(payment()).await;
    (result, server.seen())
}

fn assert_unknown<T: std::fmt::Debug>(what: &str, result: &Result<T, ProviderError>) {
    let Err(error @ (ProviderError::Indeterminate(_) | ProviderError::Mismatch(_))) = result else {
        panic!("{what}: {result:?}")
    };
    assert_says_nothing(error);
}

fn assert_says_nothing(error: &ProviderError) {
    let told = format!("{error} {error:?}");
    for secret in [SECRET, KEY, NAME, "Maria", "localhost", "/v2/", "<html>"] {
        assert!(!told.contains(secret), "{told}");
    }
}

#[tokio::test]
async fn the_right_answer_is_understood() {
    let (server, provider) = start(vec![json(200, GOOD)]).await;
    let report = provider.send_payment(payment()).await.unwrap();
    assert_eq!((report.provider_id.as_str(), report.progress), ("t1", Progress::Accepted));
    assert_eq!(report.body.0, GOOD);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].head.lines().next(), Some("POST /v2/pix/payment HTTP/1.1"));
    let user_agent = format!("user-agent: pix-gateway/{}", env!("CARGO_PKG_VERSION"));
    assert!(requests[0].head.to_ascii_lowercase().contains(&user_agent));
    assert_eq!(
        requests[0].body,
        format!(
            r#"{{"amount":15.5,"external_id":"{REFERENCE}","postbackUrl":"https://gateway.example.com/{SECRET}","creditParty":{{"name":"{NAME}","keyType":"EMAIL","key":"{KEY}"}}}}"#
        )
    );
    assert_eq!(server.tokens_given(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let (server, provider) =
            start(vec![answer(status, "location: /v2/pix/payment\r\n", "{}"), json(200, GOOD)]).await;
        assert_unknown(&status.to_string(), &provider.send_payment(payment()).await);
        assert_eq!(server.seen(), 1, "{status}");
    }
}

#[tokio::test]
async fn no_status_but_the_listed_ones_settles_a_payment() {
    for status in [
        201, 202, 204, 206, 304, 400, 402, 403, 404, 405, 408, 409, 410, 413, 415, 418, 422, 425, 429, 500,
        501, 502, 503, 504, 520,
    ] {
        for body in [GOOD, REFUSED] {
            let (result, seen) = send(json(status, body)).await;
            assert_unknown(&status.to_string(), &result);
            assert_eq!(seen, 1, "{status}");
        }
    }
}

#[tokio::test]
async fn an_amount_with_an_exponent_is_what_it_stands_for() {
    let (result, _) = send(json(200, &GOOD.replace("15.5", "1550e-2"))).await;
    assert!(result.is_ok(), "{result:?}");
}

#[tokio::test]
async fn a_body_that_is_not_the_contracts_settles_nothing() {
    let html = "content-type: text/html\r\n";
    let plain = "content-type: text/plain\r\n";
    let other_amount = GOOD.replace("15.5", "15.51");
    let huge_exponent = GOOD.replace("15.5", "1e999999999");
    let tiny_exponent = GOOD.replace("15.5", "1551e-2");
    let other_reference = GOOD.replace("00ff", "00fe");
    let doubled = GOOD.replace(r#""amount":15.5"#, r#""amount":15.5,"amount":15.5"#);
    let other_status = GOOD.replace("PENDING", "OK");
    let trailing = format!("{GOOD}{GOOD}");
    let deep = GOOD.replace(r#""x""#, &format!("{}{}", "[".repeat(1_000), "]".repeat(1_000)));
    for (what, act) in [
        ("html", answer(200, html, "<html>Maria</html>")),
        ("json called html", answer(200, html, GOOD)),
        ("json called text", answer(200, plain, GOOD)),
        ("json called nothing", answer(200, "", GOOD)),
        ("html called json", json(200, "<html>Maria</html>")),
        ("empty", json(200, "")),
        ("null", json(200, "null")),
        ("array", json(200, &format!("[{GOOD}]"))),
        ("no field", json(200, "{}")),
        ("cut json", json(200, "{\"transactionId\":\"t1\"")),
        ("other amount", json(200, &other_amount)),
        ("huge exponent", json(200, &huge_exponent)),
        ("exponent", json(200, &tiny_exponent)),
        ("other reference", json(200, &other_reference)),
        ("doubled key", json(200, &doubled)),
        ("other status", json(200, &other_status)),
        ("two objects", json(200, &trailing)),
        ("deep", json(200, &deep)),
        ("refusal called html", answer(406, html, REFUSED)),
        ("refusal without code", json(406, r#"{"statusCode":406,"message":"no"}"#)),
        ("refusal of another status", json(406, &REFUSED.replace("406", "422"))),
        ("empty refusal", json(406, "")),
        ("not utf-8", Act::Answer(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\nconnection: close\r\n\r\n{\xff}".to_vec())),
        ("not http", Act::Answer(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())),
        ("endless header", Act::Answer(format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(1 << 20)).into_bytes())),
    ] {
        let (result, seen) = send(act).await;
        assert_unknown(what, &result);
        assert_eq!(seen, 1, "{what}");
    }
}

#[tokio::test]
async fn a_large_body_is_not_read_to_its_end() {
    let padding = "x".repeat(300 * 1024);
    let large = GOOD.replace(r#""x""#, &format!("\"{padding}\""));
    let (result, seen) = send(json(200, &large)).await;
    assert_unknown("announced", &result);
    assert_eq!(seen, 1);

    let mut chunked =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    chunked.extend(format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len()).into_bytes());
    let (result, seen) = send(Act::Answer(chunked)).await;
    assert_unknown("not announced", &result);
    assert_eq!(seen, 1);
}

#[tokio::test]
async fn the_largest_body_allowed_is_read() {
    let room = pix_domain::provider::MAX_PROVIDER_BODY_BYTES - GOOD.len() + 1;
    let full = GOOD.replace(r#""x""#, &format!("\"{}\"", "x".repeat(room)));
    assert_eq!(full.len(), pix_domain::provider::MAX_PROVIDER_BODY_BYTES);
    let (result, _) = send(json(200, &full)).await;
    result.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_the_outcome_unknown() {
    let cut = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{GOOD}",
        GOOD.len() + 1
    );
    for (what, act, requests) in [
        ("before the request was read", Act::CloseUnread, 0),
        ("after the request was read", Act::CloseAfterReading, 1),
        ("within the status line", Act::Answer(b"HTTP/1.1 2".to_vec()), 1),
        ("within the body", Act::Answer(cut.into_bytes()), 1),
    ] {
        let (server, provider) = start(vec![act, json(200, GOOD)]).await;
        assert_unknown(what, &provider.send_payment(payment()).await);
        assert_eq!(server.seen(), requests, "{what}");
        assert_eq!(server.acts_left(), 1, "{what}: it must not be tried again");
    }
}

#[tokio::test]
async fn a_provider_that_never_answers_is_given_up() {
    for start_of_answer in
        ["", "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"]
    {
        let server = ScriptedServer::start(vec![Act::Stall(start_of_answer.into()), json(200, GOOD)]).await;
        let mut config = config(&server);
        config.call_timeout = Duration::from_secs(1);
        let provider = ClassicV2Provider::new(config).unwrap();
        assert_unknown(start_of_answer, &provider.send_payment(payment()).await);
        server.stalled().await;
        assert_eq!((server.seen(), server.acts_left()), (1, 1));
    }
}

#[tokio::test]
async fn a_documented_refusal_is_final() {
    let (result, seen) = send(json(406, REFUSED)).await;
    let Err(ProviderError::Rejected { code, message, body }) = result else { panic!("{result:?}") };
    assert_eq!((code.as_str(), message.as_str(), body.0.as_str()), ("invalid_key", "key not found", REFUSED));
    assert_eq!(seen, 1);
}

#[tokio::test]
async fn a_refusal_of_a_duplicate_is_not_known() {
    for code in ["duplicate_external_id", "CONFLICT", "already_paid"] {
        let refused = REFUSED.replace("invalid_key", code);
        let (server, provider) = start(vec![json(406, &refused); 2]).await;
        assert_unknown(code, &provider.send_payment(payment()).await);
        assert_unknown(code, &provider.refund(refund()).await);
        assert_eq!(server.seen(), 2);
    }
}

#[tokio::test]
async fn a_provider_that_repeats_our_callback_url_does_not_make_us_tell_its_secret() {
    let url = format!(r"https:\/\/gateway.example.com\/{SECRET}");
    let clean = url.replace(SECRET, "redacted");
    let echo = |body: &str| body.replacen('{', &format!(r#"{{"postbackUrl":"{url}","#), 1);
    let made = GOOD.replace("PENDING", "PAID").replace(r#""message""#, r#""qrcode":"0002","message""#);
    let sent_back = made.replace("\"t1\"", "\"c1\",\"refundId\":\"r1\"");
    let received = made.replace(r#""message""#, r#""dateApproval":"2026-10-07 04:41:05","message""#);
    let refused = REFUSED.replace("key not found", &url);
    let acts = [&made, &sent_back, &made, &received, &made, &sent_back, &refused];
    let (_server, provider) =
        start(acts.map(|body| json(if *body == refused { 406 } else { 200 }, &echo(body))).to_vec()).await;
    let refusal = |error| match error {
        ProviderError::Rejected { code, message, body } => (format!("{code} {message}"), body),
        other => panic!("{other:?}"),
    };
    let bodies = [
        provider.create_charge(charge()).await.unwrap().body,
        provider.refund(refund()).await.unwrap().body,
        provider.send_payment(payment()).await.unwrap().body,
        provider.consult_charge(inquiry()).await.unwrap().unwrap().body,
        provider.consult_payment(inquiry()).await.unwrap().unwrap().body,
        provider.consult_refund(inquiry()).await.unwrap().unwrap().body,
    ];
    let (told, body) = refusal(provider.send_payment(payment()).await.unwrap_err());
    assert!(told.contains("redacted") && !told.contains(SECRET), "{told}");
    for body in bodies.into_iter().chain([body]) {
        assert!(body.0.contains(&clean) && !body.0.contains(SECRET), "{}", body.0);
        serde_json::from_str::<serde_json::Value>(&body.0).unwrap();
    }
}

#[tokio::test]
async fn a_refund_of_another_charge_is_not_ours() {
    let good = GOOD.replace("\"t1\"", "\"c1\",\"refundId\":\"r1\"");
    for (body, known) in [(good.clone(), true), (good.replace("c1", "c2"), false), (GOOD.to_owned(), false)] {
        let (server, provider) = start(vec![json(200, &body)]).await;
        let result = provider.refund(refund()).await;
        assert_eq!(result.is_ok(), known, "{result:?}");
        assert_eq!(server.seen(), 1);
    }
}

#[tokio::test]
async fn an_answer_about_something_else_is_told_from_one_that_was_lost() {
    let with_key = |key: &str| GOOD.replacen('{', &format!(r#"{{"creditParty":{{"key":"{key}"}},"#), 1);
    for (body, mismatch) in [
        (GOOD.replace("00ff", "00fe"), Some("reference")),
        (GOOD.replace("15.5", "15.51"), Some("amount")),
        (GOOD.replacen('{', r#"{"transactionType":"REFUND","#, 1), Some("kind")),
        (with_key("somebody.else@example.com"), Some("key")),
        (with_key("not a key"), Some("key")),
        (GOOD.replacen('{', r#"{"creditParty":{"key":11987654321},"#, 1), Some("key")),
        (with_key(&format!(r#"{KEY}","key":"somebody.else@example.com"#)), None),
        (GOOD.replace("PENDING", "IN_ANALYSIS"), None),
        (GOOD.replace("t1", ""), None),
    ] {
        let (result, _) = send(json(200, &body)).await;
        assert_unknown(&body, &result);
        let told = result.unwrap_err();
        match mismatch {
            Some(field) => assert_eq!(told, ProviderError::Mismatch(field), "{body}"),
            None => assert!(matches!(told, ProviderError::Indeterminate(_)), "{body}: {told}"),
        }
    }
    for key in [&KEY.to_uppercase(), "***@example.com", ""] {
        send(json(200, &with_key(key))).await.0.unwrap();
    }
    for none in ["null", "[]", "\"\"", "{}", r#"{"key":null}"#, r#"{"key":false}"#] {
        let body = GOOD.replacen('{', &format!(r#"{{"creditParty":{none},"#), 1);
        send(json(200, &body)).await.0.unwrap();
    }
    // Whoever asks about a payment that it has no record of is told only of one to the same key.
    for (key, expected) in [(KEY, Ok(())), ("ana@example.com", Err(ProviderError::Mismatch("key")))] {
        let (_server, provider) = start(vec![json(200, &with_key(KEY))]).await;
        let key = PixKey::parse(PixKeyType::Email, key).ok();
        let told = provider.consult_payment(Inquiry { key, ..inquiry() }).await;
        assert_eq!(told.map(|known| assert!(known.is_some())), expected);
    }
    let (_server, provider) = start(vec![json(200, GOOD)]).await;
    let known = Inquiry { provider_id: ProviderId::parse("t2"), ..inquiry() };
    assert_eq!(provider.consult_payment(known).await, Err(ProviderError::Mismatch("provider_id")));
    let (_server, provider) =
        start(vec![json(200, &GOOD.replace("\"t1\"", "\"c2\",\"refundId\":\"r1\""))]).await;
    assert_eq!(provider.refund(refund()).await, Err(ProviderError::Mismatch("charge")));
}

#[tokio::test]
async fn a_charge_that_was_not_made_is_told_from_one_that_may_have_been() {
    let refused = |status: u16| REFUSED.replace("406", &status.to_string());
    for status in [400, 406, 422] {
        let (_server, provider) = start(vec![json(status, &refused(status))]).await;
        let result = provider.create_charge(charge()).await;
        assert!(matches!(result, Err(ProviderError::Rejected { .. })), "{status}: {result:?}");
    }
    for status in [429, 503] {
        let (server, provider) = start(vec![answer(status, "", "<html>")]).await;
        let Err(error @ ProviderError::Unavailable(_)) = provider.create_charge(charge()).await else {
            panic!("{status}")
        };
        assert_says_nothing(&error);
        assert_eq!(server.seen(), 1);
    }
    for act in [answer(422, "", "<html>"), json(500, GOOD), json(409, &refused(409)), json(200, GOOD)] {
        let (_server, provider) = start(vec![act]).await;
        assert_unknown("charge", &provider.create_charge(charge()).await);
    }
}

#[tokio::test]
async fn not_known_is_believed_only_in_the_words_of_the_contract() {
    let not_found = r#"{"statusCode":404,"message":"transaction not found","code":"not_found"}"#;
    for (act, known_not) in [
        (json(404, not_found), true),
        (answer(404, "content-type: text/html\r\n", not_found), false),
        (answer(404, "", "<html>"), false),
        (json(404, "{}"), false),
        (json(200, "{}"), false),
        (json(200, "null"), false),
        (json(204, ""), false),
        (json(503, not_found), false),
    ] {
        let (server, provider) = start(vec![act; 3]).await;
        let charge = provider.consult_charge(inquiry()).await;
        let payment = provider.consult_payment(inquiry()).await;
        let refund = provider.consult_refund(inquiry()).await;
        assert_eq!(charge == Ok(None), known_not, "{charge:?}");
        assert_eq!(payment == Ok(None), known_not, "{payment:?}");
        assert_eq!(refund == Ok(None), known_not, "{refund:?}");
        assert_eq!(server.seen(), 3);
    }
}

#[tokio::test]
async fn what_is_not_known_by_its_id_is_asked_for_by_our_reference() {
    const NOT_FOUND: &str = r#"{"statusCode":404,"message":"transaction not found","code":"not_found"}"#;
    let known = Inquiry { provider_id: ProviderId::parse("told-wrongly"), ..inquiry() };
    let (server, provider) = start(vec![json(404, NOT_FOUND); 2]).await;
    assert_eq!(provider.consult_payment(known.clone()).await, Ok(None));
    let asked: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    let reference = format!("{{\"external_id\":\"{}\"}}", known.reference);
    assert_eq!(asked, [r#"{"pix_id":"told-wrongly"}"#, &reference]);
    // It is there, by another id: money moved, and nobody says that it is not known.
    let (server, provider) = start(vec![json(404, NOT_FOUND), json(200, GOOD)]).await;
    let other = provider.consult_payment(known.clone()).await;
    assert_eq!(other, Err(ProviderError::Mismatch("provider_id")));
    assert_eq!(server.seen(), 2);
    // Nor when that can't be told by a provider that is known to look by our reference; of others nothing else is asked.
    for offers in [true, false] {
        let server = ScriptedServer::start(vec![json(404, NOT_FOUND), answer(502, "", "")]).await;
        let mut config = config(&server);
        config.not_found_is_proof_after = offers.then_some(Duration::from_mins(2));
        let told = ClassicV2Provider::new(config).unwrap().consult_payment(known.clone()).await;
        if offers {
            assert_unknown("payment", &told);
        } else {
            assert_eq!(told, Ok(None));
        }
        assert_eq!(server.seen(), 2);
    }
}

#[tokio::test]
async fn a_page_that_answers_401_is_no_proof_that_nothing_was_sent() {
    let (server, provider) =
        start(vec![answer(401, "content-type: text/html\r\n", "<html>"), json(200, GOOD)]).await;
    assert_unknown("payment", &provider.send_payment(payment()).await);
    assert_eq!(server.seen(), 1);
    // The next one has a new token.
    provider.send_payment(payment()).await.unwrap();
    assert_eq!((server.seen(), server.tokens_given()), (2, 2));
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let (server, provider) = start(vec![json(401, "{}"), json(200, GOOD), json(200, GOOD)]).await;
    provider.send_payment(payment()).await.unwrap();
    assert_eq!((server.seen(), server.tokens_given()), (2, 2));
    provider.send_payment(payment()).await.unwrap();
    assert_eq!((server.seen(), server.tokens_given()), (3, 2));

    let (server, provider) = start(vec![json(401, "{}"); 5]).await;
    let Err(error @ ProviderError::Unavailable(_)) = provider.send_payment(payment()).await else { panic!() };
    assert_says_nothing(&error);
    assert_eq!((server.seen(), server.tokens_given()), (2, 2));
}

#[tokio::test]
async fn many_calls_share_one_token() {
    let (server, provider) = start(vec![json(200, GOOD); 20]).await;
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let provider = Arc::clone(&provider);
            tokio::spawn(async move { provider.send_payment(payment()).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!((server.seen(), server.tokens_given()), (20, 1));
}

/// A server in good health, whose connections stay open: where it is, and how many have come.
async fn lasting() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                while let Some(request) = read(&mut stream).await {
                    let token = r#"{"access_token":"t","token_type":"Bearer","expires_in":3600}"#;
                    let is_token = request.head.starts_with("POST /v2/oauth/token ");
                    let body = if is_token { token } else { GOOD };
                    let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
                    let answer = format!("HTTP/1.1 200 X\r\n{head}\r\n\r\n{body}");
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, came)
}

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let (url, came) = lasting().await;
    let provider = ClassicV2Provider::new(ClassicV2Config::new(url, "id", SECRET.into())).unwrap();
    for _ in 0..20 {
        provider.send_payment(payment()).await.unwrap();
    }
    // A second one may have been begun before the first was free again.
    let came = came.load(Ordering::SeqCst);
    assert!((1..=3).contains(&came), "{came} connections");
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    for token in [
        json(401, r#"{"message":"Invalid credentials"}"#),
        json(500, "{}"),
        json(200, "{}"),
        json(200, r#"{"access_token":"a\nb"}"#),
        answer(200, "", "<html>"),
        answer(307, "location: /v2/oauth/token\r\n", ""),
        Act::CloseAfterReading,
    ] {
        let server = ScriptedServer::start_with_token(token, vec![json(200, GOOD)]).await;
        let provider = ClassicV2Provider::new(config(&server)).unwrap();
        for error in [
            provider.send_payment(payment()).await.unwrap_err(),
            provider.refund(refund()).await.unwrap_err(),
            provider.create_charge(charge()).await.unwrap_err(),
            provider.consult_payment(inquiry()).await.unwrap_err(),
        ] {
            assert!(matches!(error, ProviderError::Unavailable(_)), "{error:?}");
            assert_says_nothing(&error);
        }
        assert_eq!(server.seen(), 0);
    }
}

#[tokio::test]
async fn a_call_beyond_the_limit_is_turned_away_before_anything_is_sent() {
    let server = ScriptedServer::start(vec![Act::Stall(String::new()), json(200, GOOD)]).await;
    let mut config = config(&server);
    (config.max_sends, config.queue_wait) = (1, Duration::ZERO);
    let provider = Arc::new(ClassicV2Provider::new(config).unwrap());
    let first = tokio::spawn({
        let provider = Arc::clone(&provider);
        async move { provider.send_payment(payment()).await }
    });
    server.stalled().await;
    let second = provider.refund(refund()).await;
    assert!(matches!(second, Err(ProviderError::Unavailable(_))), "{second:?}");
    assert_eq!((server.seen(), server.acts_left()), (1, 1));
    first.abort();
}

#[tokio::test]
async fn nothing_shows_a_secret_in_debug() {
    let (server, provider) = start(vec![]).await;
    let shown = format!("{provider:?} {:?}", config(&server));
    assert!(!shown.contains(SECRET), "{shown}");
}

#[tokio::test]
async fn a_provider_without_a_balance_has_none_and_a_wrong_one_is_not_believed() {
    let told = r#"{"statusCode":200,"message":{"balance":"-0.05"}}"#;
    let (server, provider) = start(vec![
        json(200, told),
        json(404, r#"{"statusCode":404,"message":"no","code":"no_route"}"#),
        answer(405, "", ""),
        json(200, r#"{"statusCode":200,"message":{"balance":"a lot"}}"#),
        json(200, "{}"),
        answer(500, "", ""),
    ])
    .await;
    assert_eq!(provider.balance().await, Ok(Some(-5)));
    for _ in 0..2 {
        assert_eq!(provider.balance().await, Ok(None));
    }
    for _ in 0..3 {
        let error = provider.balance().await.unwrap_err();
        assert!(matches!(error, ProviderError::Indeterminate(_)), "{error:?}");
        assert_says_nothing(&error);
    }
    let requests = server.requests();
    assert!(
        requests.iter().all(|request| request.head.starts_with("POST /v2/balance ") && request.body == "{}")
    );
}
