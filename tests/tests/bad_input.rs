//! Bad input over the running program: the right status, and not a row or a centavo changed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use pix_tests::{Client, Database, Gateway, on_either_store};
use serde_json::{Value, json};

on_either_store!(
    no_bad_amount_is_taken_or_changes_anything,
    no_bad_text_or_body_is_taken_or_changes_anything,
    a_withdrawal_above_the_balance_changes_not_a_centavo_and_burns_nothing,
    secrets_and_personal_data_never_reach_the_log,
);

/// Texts that stand where an amount belongs, and whether they are JSON at all.
fn bad_amounts() -> Vec<(String, bool)> {
    let mut amounts: Vec<_> = [
        "-1",
        "0",
        "0.001",
        "10.555",
        "1e10",
        "1e400",
        "1e10000000",
        "\"NaN\"",
        "\"\"",
        "\" 1\"",
        "\"1,00\"",
        "\"1_000\"",
        "null",
        "[]",
        "{}",
        "true",
        "12345678901",
        "99999999999.99",
        "\"0x10\"",
        "\"١٢\"",
        "\"-0.01\"",
        "1E-3",
        "\"1e\"",
    ]
    .into_iter()
    .map(|text| (text.to_owned(), true))
    .collect();
    amounts.push(("9".repeat(60_000), true));
    amounts
        .extend(["NaN", "1_000", "1,00,", "0x10", ".5", "01", "+1", ""].map(|text| (text.to_owned(), false)));
    amounts
}

fn bodies(amount: &str) -> [(&'static str, String); 4] {
    let payer = r#""payer": {"name": "Ana", "document": "52998224725"}"#;
    let credit_party =
        r#""creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"}"#;
    [
        ("/v2/pix/qrcode", format!(r#"{{"amount": {amount}, {payer}}}"#)),
        ("/api/v1/charges", format!(r#"{{"amount": {amount}, {payer}}}"#)),
        ("/v2/pix/payment", format!(r#"{{"amount": {amount}, {credit_party}}}"#)),
        ("/api/v1/withdrawals", format!(r#"{{"amount": {amount}, {credit_party}}}"#)),
    ]
}

/// How many rows each table has: what "nothing written" means.
fn rows(gateway: &Gateway) -> Value {
    let mut audit = gateway.audit().unwrap();
    assert_eq!(audit["clean"], true, "{audit}");
    audit["wallets"].take()
}

async fn no_bad_amount_is_taken_or_changes_anything(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("amounts").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "1000").await.unwrap();
    let before = rows(&gateway);
    for (amount, is_json) in bad_amounts() {
        for (path, body) in bodies(&amount) {
            let (status, answer) = client.post_raw(path, body.into_bytes()).await.unwrap();
            let shown: String = amount.chars().take(20).collect();
            assert_eq!(status, if is_json { 422 } else { 400 }, "{path} {shown}: {answer}");
            let code = if is_json { "invalid_amount" } else { "malformed_request" };
            assert_eq!(answer["code"], code, "{path} {shown}: {answer}");
        }
    }
    let megabyte = bodies(&"9".repeat(1_000_000));
    for (path, body) in megabyte {
        assert_eq!(client.post_raw(path, body.into_bytes()).await.unwrap().0, 413, "{path}");
    }
    assert_eq!(rows(&gateway), before);
}

async fn no_bad_text_or_body_is_taken_or_changes_anything(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("texts").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "1000").await.unwrap();
    let before = rows(&gateway);
    let payer = json!({"name": "Ana", "document": "52998224725"});
    let with = |field: &str, value: Value| {
        let mut body = json!({"amount": 1, "payer": payer});
        body[field] = value;
        body
    };
    let charges = [
        with("payer", json!({"name": "Ana", "document": "11111111111"})),
        with("payer", json!({"name": "Ana", "document": "12ABC34501DE36"})),
        with("payer", json!({"name": "A\u{0}na", "document": "52998224725"})),
        with("payer", json!({"name": "A\u{202e}na", "document": "52998224725"})),
        with("payer", json!({"name": "A".repeat(201), "document": "52998224725"})),
        with("payer", json!({"name": 7, "document": "52998224725"})),
        with("payer", json!({"document": "52998224725"})),
        with("payer", json!("Ana")),
        with("external_id", json!("a\u{7}b")),
        with("external_id", json!("a".repeat(121))),
        with("payerQuestion", json!("?".repeat(141))),
        with("postbackUrl", json!("ftp://example.com")),
        with("postbackUrl", json!("https://user:pass@example.com/")),
    ];
    for body in charges {
        let (status, answer) = client.post("/api/v1/charges", body.clone()).await.unwrap();
        assert_eq!(status, 422, "{body}: {answer}");
        assert!(answer["errors"][0]["field"].is_string(), "{body}: {answer}");
    }
    for (kind, key) in [
        ("CPF", "52998224724"),
        ("PHONE", "12"),
        ("EMAIL", "a@"),
        ("EVP", "x"),
        ("IBAN", "BR1"),
        ("CNPJ", "1"),
    ] {
        let party = json!({"name": "Ana", "keyType": kind, "key": key, "taxId": "52998224725"});
        for path in ["/api/v1/withdrawals", "/v2/pix/payment"] {
            let (status, answer) =
                client.post(path, json!({"amount": 1, "creditParty": party})).await.unwrap();
            assert_eq!(status, 422, "{path} {party}: {answer}");
        }
    }
    let raw: [(&str, Vec<u8>, u16); 7] = [
        (
            "a duplicate key",
            br#"{"amount": 1, "amount": 2, "payer": {"name": "Ana", "document": "52998224725"}}"#.to_vec(),
            400,
        ),
        (
            "a nested duplicate key",
            br#"{"amount": 1, "payer": {"name": "Ana", "name": "B", "document": "52998224725"}}"#.to_vec(),
            400,
        ),
        ("invalid UTF-8", b"{\"amount\": 1, \"external_id\": \"\xff\xfe\"}".to_vec(), 400),
        ("no JSON", b"amount=1".to_vec(), 400),
        ("an array", b"[1]".to_vec(), 400),
        ("something after the JSON", b"{\"amount\": 1} x".to_vec(), 400),
        ("100 KB", format!("{{\"amount\": 1, \"x\": \"{}\"}}", "y".repeat(100_000)).into_bytes(), 413),
    ];
    for (what, body, expected) in raw {
        for path in ["/api/v1/charges", "/v2/pix/qrcode"] {
            let (status, answer) = client.post_raw(path, body.clone()).await.unwrap();
            assert_eq!(status, expected, "{what} at {path}: {answer}");
        }
    }
    assert_eq!(rows(&gateway), before);
}

async fn a_withdrawal_above_the_balance_changes_not_a_centavo_and_burns_nothing(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("poor").unwrap();
    gateway
        .cli_json(&["fees", "set", "--integrator", &integrator.uuid, "--cash-out", "fixed=1", "--json"])
        .unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "10").await.unwrap();
    let before = rows(&gateway);
    let body = json!({
        "amount": 9.01, "external_id": "too-much",
        "creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
    });
    for path in ["/api/v1/withdrawals", "/v2/pix/payment"] {
        let (status, answer) = client.post(path, body.clone()).await.unwrap();
        assert_eq!((status, &answer["code"]), (422, &json!("insufficient_balance")), "{answer}");
    }
    assert_eq!(rows(&gateway), before);
    client.fund(&gateway, "0.01").await.unwrap();
    assert_eq!(
        client.post("/api/v1/withdrawals", body).await.unwrap().0,
        201,
        "the same external_id works later"
    );
    assert_eq!(client.balance().await.unwrap(), "0.00");
}

async fn secrets_and_personal_data_never_reach_the_log(database: Database) {
    let gateway = Gateway::start(database, &[("PIX_LOG", "trace")]).unwrap();
    let integrator = gateway.integrator("quiet").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let debtor =
        json!({"name": "Canaria Payer", "document": "39053344705", "email": "canaria@payer.example"});
    client.post("/api/v1/charges", json!({"amount": 1, "payer": debtor})).await.unwrap();
    client.fund(&gateway, "10").await.unwrap();
    let payee = json!({"name": "Canaria Payee", "keyType": "EMAIL", "key": "canaria@payee.example", "taxId": "39053344705"});
    client.post("/api/v1/withdrawals", json!({"amount": 1, "creditParty": payee})).await.unwrap();
    client.post("/v2/pix/payment", json!({"amount": 1, "creditParty": payee})).await.unwrap();
    client
        .post("/api/v1/withdrawals", json!({"amount": 1, "creditParty": {"key": "canaria@payee.example"}}))
        .await
        .unwrap();
    client.get("/api/v1/charges?external_id=canaria-query").await.unwrap();
    let log = gateway.log();
    assert!(log.contains("/api/v1/charges"), "requests are logged:\n{log}");
    assert!(!log.contains("with parameters"), "the statements of a database hold all of it, as bytes");
    let secrets = [integrator.secret.as_str(), client.token(), "simulator-secret"];
    let canaries = ["Canaria", "canaria", "39053344705", "390.533.447-05"];
    for secret in secrets.into_iter().chain(canaries) {
        let at = log.lines().find(|line| line.contains(secret));
        assert_eq!(at, None, "the log holds what it must not");
    }
}
