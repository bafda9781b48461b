//! Secrets and personal data are planted in every request, and looked for in everything that the program writes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::time::{Duration, Instant};

use pix_tests::{
    Client, Conduct, Database, Gateway, Integrator, Listener, Port, http_client, on_either_store, pay, text,
};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(1);

/// What nobody may find again: names, documents (plain, as people write them, and of a company), keys of every type, an
/// e-mail, texts of free fields, and what stands in a postback URL.
const PERSONAL: [&str; 15] = [
    "Canária",
    "Canario",
    "41876930098",
    "418.769.300-98",
    "83640296000132",
    "83.640.296/0001-32",
    "canaria@segredo.example",
    "canario@segredo.example",
    "+5511976543210",
    "11976543210",
    "7d0c3f5e-0d5b-4a39-9f0a-5c0ffee00001",
    "segredo-da-descricao",
    "segredo-no-caminho",
    "segredo-da-url",
    "segredo-do-corpo",
];

on_either_store!(nothing_secret_or_personal_is_ever_written);

fn charge(postback: &str) -> Value {
    json!({
        "amount": 12.5, "external_id": "canary-order", "postbackUrl": postback,
        "payerQuestion": "segredo-da-descricao",
        "payer": {"name": "Canária da Silva", "document": "41876930098", "email": "canaria@segredo.example"},
    })
}

fn withdrawal(key_type: &str, key: &str) -> Value {
    json!({
        "amount": 1, "description": "segredo-da-descricao",
        "creditParty": {"name": "Canario Pereira", "keyType": key_type, "key": key, "taxId": "83640296000132"},
    })
}

/// What an operator's program and a client can do with them, well-formed and not.
async fn plant(gateway: &Gateway, client: &Client, integrator: &Integrator) {
    // Nobody listens there: failures are told of too.
    let nobody = Port::reserve().unwrap();
    let postback = format!("http://127.0.0.1:{}/segredo-no-caminho?token=segredo-da-url", nobody.number());
    for path in ["/api/v1/charges", "/v2/pix/qrcode"] {
        client.post(path, charge(&postback)).await.unwrap();
    }
    let (_, made) =
        client.post("/api/v1/charges", charge("http://10.0.0.1/segredo-no-caminho")).await.unwrap();
    assert_eq!(made["status"], 422, "{made}");
    let listed = client.get("/api/v1/charges").await.unwrap().1;
    pay(gateway, &text(&listed, "/data/0/pix_id").unwrap()).await.unwrap();
    client.fund(gateway, "100").await.unwrap();
    for (key_type, key) in [
        ("CPF", "41876930098"),
        ("CPF", "418.769.300-98"),
        ("CNPJ", "83640296000132"),
        ("EMAIL", "canario@segredo.example"),
        ("PHONE", "+5511976543210"),
        ("RANDOM", "7d0c3f5e-0d5b-4a39-9f0a-5c0ffee00001"),
        // None of its type.
        ("EMAIL", "41876930098"),
        ("CPF", "canario@segredo.example"),
    ] {
        for path in ["/api/v1/withdrawals", "/v2/pix/payment"] {
            client.post(path, withdrawal(key_type, key)).await.unwrap();
        }
    }
    for path in [
        "/v2/pix/qrcode",
        "/v2/pix/payment",
        "/v2/pix/refund",
        "/v2/consult-transaction",
        "/v2/balance",
        "/api/v1/charges",
        "/api/v1/withdrawals",
        "/api/v1/transactions/consult",
        "/api/v1/deliveries/replay",
        "/api/v1/postbacks/test",
    ] {
        for broken in
            ["{\"amount\": \"segredo-do-corpo\", \"creditParty\": \"418.769.300-98\"}", "segredo-do-corpo"]
        {
            drop(client.post_raw(path, broken.as_bytes().to_vec()).await);
        }
    }
    for path in [
        "/api/v1/charges/segredo-no-caminho",
        "/segredo-no-caminho?name=Canario",
        "/api/v1/events/41876930098",
    ] {
        drop(client.get(path).await);
    }
    let http = http_client().unwrap();
    let sign_in = || http.post(format!("{}/v2/oauth/token", gateway.url));
    let wrong = [integrator.secret.as_str(), "x"].concat();
    for request in [
        sign_in().basic_auth(&integrator.public_id, Some(&wrong)),
        sign_in().body(format!("client_id={}&client_secret={}", integrator.public_id, integrator.secret)),
        sign_in().json(&json!({"public_id": "segredo-do-corpo", "secret": integrator.secret})),
        http.get(format!("{}/api/v1/balance", gateway.url)).bearer_auth([client.token(), "x"].concat()),
        http.post(format!("{}/callbacks/{}", gateway.url, gateway.callback_secret().unwrap()))
            .body(charge(&postback).to_string()),
        http.post(format!("{}/callbacks/segredo-no-caminho", gateway.url)).body("segredo-do-corpo"),
        http.get(format!("{}/segredo-no-caminho", gateway.url))
            .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            .header("tracestate", "segredo-do-corpo=segredo-do-corpo"),
    ] {
        request.send().await.unwrap();
    }
    let attempted =
        || async { client.get("/api/v1/events?delivered=false").await.unwrap().1["data"] != json!([]) };
    let begun = Instant::now();
    while !attempted().await {
        assert!(begun.elapsed() < SOON, "no postback was tried");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn nothing_secret_or_personal_is_ever_written(database: Database) {
    let port = Port::reserve().unwrap();
    let admin = format!("127.0.0.1:{}", port.number());
    let collector = Listener::start(Conduct::Takes).await.unwrap();
    let settings = [
        ("PIX_OTLP_ENDPOINT", collector.url.as_str()),
        ("PIX_OTLP_HEADERS", "authorization=segredo-do-coletor"),
        ("PIX_OTLP_INTERVAL_MS", "100"),
        ("PIX_LOG", "trace"),
        ("PIX_ADMIN_LISTEN", admin.as_str()),
        ("PIX_POSTBACK_ALLOW_PRIVATE", "loopback"),
        ("PIX_POSTBACK_INTERVAL_MS", "100"),
    ];
    let gateway = Gateway::start(database, &settings).unwrap();
    let integrator = gateway.integrator("canary").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let signing = gateway.cli_json(&["secret", "show", "--integrator", &integrator.uuid, "--json"]).unwrap();
    plant(&gateway, &client, &integrator).await;

    let metrics = http_client().unwrap().get(format!("http://{admin}/metrics")).send().await.unwrap();
    let mut written = vec![("log", gateway.log()), ("metrics", metrics.text().await.unwrap())];
    for command in [&["audit"][..], &["audit-log", "list"], &["uncertain"]] {
        let output = gateway.cli(command).unwrap();
        written.push(("a command", String::from_utf8([output.stdout, output.stderr].concat()).unwrap()));
    }
    let begun = Instant::now();
    while !collector.spans().iter().any(|span| span.name == "postback") {
        assert!(begun.elapsed() < SOON, "no span of a postback");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let exported = collector.heard().into_iter().map(|one| String::from_utf8_lossy(&one.body).into_owned());
    written.push(("traces", exported.collect::<Vec<_>>().join("\n")));
    let secrets = [
        integrator.secret,
        client.token().to_owned(),
        gateway.callback_secret().unwrap(),
        text(&signing, "/0/secret").unwrap(),
        "simulator-secret".to_owned(),
        "segredo-do-coletor".to_owned(),
    ];
    for (whose, text) in &written {
        let canaries = PERSONAL.iter().copied().chain(secrets.iter().map(String::as_str));
        for canary in canaries {
            let found = text.lines().find(|line| line.contains(canary));
            assert_eq!(found, None, "{canary} is in the {whose}");
        }
    }
    assert!(written.iter().all(|(_, text)| !text.contains("panicked")));
    assert!(gateway.log().lines().count() > 100, "the log is as long as it was told to be");
}
