//! Bodies that nobody sends by accident.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Answer, Gateway, Request, Tenant};

const CHARGES: &str = "/api/v1/charges";
const QRCODE: &str = "/v2/pix/qrcode";

/// A charge, with the amount as it is written.
fn with_amount(amount: &str) -> String {
    format!(r#"{{"amount":{amount},"payer":{{"name":"Ana","document":"52998224725"}}}}"#)
}

async fn send(gateway: &Gateway, tenant: &Tenant, path: &str, body: &[u8]) -> Answer {
    let request = Request::raw(path, body).header("Content-Type", "application/json").token(tenant);
    gateway.send(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_amount_out_of_the_grammar_is_refused_in_both_generations_at_once() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let started = Instant::now();
    let long = "9".repeat(60_000);
    let decimals = format!("0.{}", "1".repeat(60_000));
    let refused = [
        "-1",
        "0",
        "-0",
        "0.0",
        "0.001",
        "10.555",
        "1e10",
        "1E-3",
        "1e400",
        "1e10000000",
        "1e-400",
        r#""""#,
        r#"" 1""#,
        r#""1 ""#,
        r#""1,00""#,
        "null",
        "[]",
        "{}",
        "[1]",
        r#"{"$gt":0}"#,
        "true",
        "12345678901",
        "99999999999.99",
        r#""12345678901""#,
        r#""NaN""#,
        r#""Infinity""#,
        r#""0x10""#,
        r#""1_000""#,
        r#""+1""#,
        r#""1e10""#,
        r#""1e""#,
        r#""\u0661""#,
        r#""1\u0000""#,
        r#""\ud800""#,
        "9223372036854775807",
        &long,
        &decimals,
    ];
    for amount in refused {
        for path in [CHARGES, QRCODE] {
            let answer = send(&gateway, &tenant, path, with_amount(amount).as_bytes()).await.expect(422);
            assert_eq!(answer.code(), "invalid_amount", "{path} {amount:.40}");
        }
    }
    for amount in ["1_000", "NaN", "Infinity", "0x10", "1,00", "+1", "01", ".5", "5.", "'1'", ""] {
        for path in [CHARGES, QRCODE] {
            let answer = send(&gateway, &tenant, path, with_amount(amount).as_bytes()).await.expect(400);
            assert_eq!(answer.code(), "malformed_request", "{path} {amount}");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    for amount in ["0.01", "9999999999.99", r#""19.99""#, "10.5", "1"] {
        send(&gateway, &tenant, QRCODE, with_amount(amount).as_bytes()).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn amounts_come_back_with_the_digits_they_have() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    for (amount, told) in [("15.00", "15"), ("15.50", "15.5"), ("0.07", "0.07"), ("9007199254740.99", "")] {
        let answer = send(&gateway, &tenant, CHARGES, with_amount(amount).as_bytes()).await;
        if told.is_empty() {
            answer.expect(422);
        } else {
            let answer = answer.expect(201);
            assert!(answer.body.contains(&format!("\"amount\":{told},")), "{}", answer.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_object_or_names_a_field_twice_is_malformed() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let payer = r#""payer":{"name":"Ana","document":"52998224725"}"#;
    let bodies: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"<xml/>".to_vec(),
        b"amount=1".to_vec(),
        format!("\u{FEFF}{}", with_amount("1")).into_bytes(),
        format!("{} {{}}", with_amount("1")).into_bytes(),
        format!(r#"{{"amount":1,"amount":1,{payer}}}"#).into_bytes(),
        format!(r#"{{"amount":1,"\u0061mount":2,{payer}}}"#).into_bytes(),
        br#"{"amount":1,"payer":{"name":"Ana","name":"Bia","document":"52998224725"}}"#.to_vec(),
        format!(r#"{{"x":1,"x":1,"amount":1,{payer}}}"#).into_bytes(),
        [br#"{"amount":1,"external_id":""#.as_slice(), &[0xFF, 0xFE], br#""}"#].concat(),
        format!(r#"{{"amount":1,{payer}"#).into_bytes(),
    ];
    for body in bodies {
        for path in [CHARGES, QRCODE] {
            let answer = send(&gateway, &tenant, path, &body).await;
            assert_eq!(answer.status, 400, "{path} {:?}: {}", String::from_utf8_lossy(&body), answer.body);
            assert_eq!(answer.code(), "malformed_request");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_and_direction_characters_are_refused_and_named() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    for text in [r"\u0000", r"\u001b[0m", r"\n", r"\u202e", r"\u200b", r"\u0085", r"\ufeff"] {
        let body = format!(r#"{{"amount":1,"payer":{{"name":"A{text}B","document":"52998224725"}}}}"#);
        let answer = send(&gateway, &tenant, CHARGES, body.as_bytes()).await.expect(422).json();
        assert_eq!(answer["errors"][0]["field"], "payer.name", "{text}");
        assert_eq!(answer["errors"][0]["code"], "invalid_characters", "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_not_ours_is_ignored_and_one_that_is_can_not_be_set_by_it() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = r#"{"amount":1,"status":"paid","fee":0,"integrator_id":"x","Amount":2,"uuid":"y",
        "payer":{"name":"Ana","document":"52998224725","admin":true}}"#;
    let answer = send(&gateway, &tenant, CHARGES, body.as_bytes()).await.expect(201).json();
    assert_eq!((answer["status"].as_str(), answer["amount"].as_u64()), (Some("pending"), Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_64_kib_is_413_whether_its_length_is_told_or_not() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(100_000));
    let answer = send(&gateway, &tenant, CHARGES, long.as_bytes()).await.expect(413);
    assert_eq!(answer.code(), "payload_too_large");
    assert_eq!(answer.header("connection"), Some("close"));

    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = format!(
        "POST {QRCODE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        tenant.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("2000\r\n{}\r\n", "x".repeat(0x2000));
    for _ in 0..9 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(Answer::parse(&bytes).expect(413).json()["statusCode"], 413);
    // As long as it may be.
    let longest = format!(r#"{{"x":"{}"}}"#, "x".repeat(64 * 1024 - 8));
    assert_eq!(longest.len(), 64 * 1024);
    send(&gateway, &tenant, CHARGES, longest.as_bytes()).await.expect(422);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_408() {
    let gateway = Gateway::with(|config| config.body_deadline = Duration::from_millis(50), None).await;
    let tenant = gateway.tenant(0).await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = format!(
        "POST {QRCODE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n{{",
        tenant.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(Answer::parse(&bytes).expect(408).code(), "request_timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobodys_body_is_read_before_it_is_known_who_sends_it() {
    let gateway = Gateway::start().await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head =
        format!("POST {QRCODE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{{");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(4), stream.read_to_end(&mut bytes)).await;
    assert!(read.is_ok(), "the answer waited for the body");
    Answer::parse(&bytes).expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_end_that_nobody_reads_does_not_hold_the_connection() {
    let gateway = Gateway::with(|config| config.rate_token_per_minute = 1, None).await;
    gateway.send(Request::post("/v2/oauth/token", "{}")).await.expect(401);
    for (path, status) in [(QRCODE, 401), ("/nothing", 404), ("/v2/oauth/token", 429), ("/health/live", 405)]
    {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(4), stream.read_to_end(&mut bytes)).await;
        assert!(read.is_ok(), "{path}: the connection was held");
        let answer = Answer::parse(&bytes).expect(status);
        assert_eq!(answer.header("connection"), Some("close"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn header_fields_beyond_16_kib_are_431() {
    let gateway = Gateway::start().await;
    let long = "x".repeat(16 * 1024);
    let answer =
        gateway.send(Request::new("GET", "/api/v1/charges").header("X-Long", &long)).await.expect(431);
    assert_eq!((answer.code().as_str(), answer.json()["status"].as_u64()), ("headers_too_large", Some(431)));
}
