//! What has ended is held against the provider once more: by the workers a day later, and by hand at any time. What the provider
//! never called back about is booked, and what contradicts the books is told.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pix_tests::{Client, Database, Gateway, Port, http_client, on_either_store, text};
use serde_json::{Value, json};

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

on_either_store!(
    what_was_never_called_back_about_is_learnt_a_day_later,
    what_contradicts_the_books_is_told_by_hand,
);

async fn control(gateway: &Gateway, path: &str, body: Value) -> Value {
    let answer = http_client().unwrap().post(format!("{}{path}", gateway.simulator)).json(&body).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.json().await.unwrap()
}

async fn scrape(admin: &str) -> BTreeMap<String, String> {
    let answer = http_client().unwrap().get(format!("http://{admin}/metrics")).send().await.unwrap();
    let text = answer.text().await.unwrap();
    let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
    samples.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

async fn sent(client: &Client, name: &str, reais: &str) -> Value {
    let payee = json!({"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"});
    let body = json!({"amount": reais, "external_id": name, "creditParty": payee});
    let (status, made) = client.post("/api/v1/withdrawals", body).await.unwrap();
    assert_eq!(status, 201, "{made}");
    soon("the withdrawal is completed", async || {
        let path = format!("/api/v1/withdrawals/{}", text(&made, "/uuid").unwrap());
        client.get(&path).await.unwrap().1["status"] == "completed"
    })
    .await;
    client.get(&format!("/api/v1/withdrawals/{}", text(&made, "/uuid").unwrap())).await.unwrap().1
}

async fn soon(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn what_was_never_called_back_about_is_learnt_a_day_later(database: Database) {
    let port = Port::reserve().unwrap();
    let admin = format!("127.0.0.1:{}", port.number());
    let settings = [("PIX_ADMIN_LISTEN", admin.as_str()), ("PIX_SEAL_INTERVAL_MS", "50")];
    let mut gateway = Gateway::start_with_clock(database, &settings).unwrap();
    let integrator = gateway.integrator("loja").unwrap();
    let mut client = Client::new(&gateway, &integrator).await.unwrap();
    // Nobody is told of what happens: a callback would be looked at once more, some seconds later.
    control(&gateway, "/sim/settings", json!({"callbacks": false})).await;
    let funded = client.fund(&gateway, "100").await.unwrap();
    let (returned, stayed) = (sent(&client, "w-1", "30").await, sent(&client, "w-2", "10").await);
    assert_eq!(client.balance().await.unwrap(), "60.00");
    let path = format!("/sim/payments/{}/return", text(&returned, "/pix_id").unwrap());
    control(&gateway, &path, json!({"amount": 12.5})).await;
    let path = format!("/sim/charges/{}/pay", text(&funded, "/pix_id").unwrap());
    control(&gateway, &path, json!({"amount": 7})).await;
    gateway.terminate().unwrap();
    let half_a_day = DAY / 2;
    gateway.set_clock_ahead(half_a_day).unwrap();
    gateway.run(&["serve"]).unwrap();
    client.sign_in(&integrator).await.unwrap();
    soon("the first look is over", async || scrape(&admin).await.contains_key("pix_proof_lag_seconds")).await;
    assert_eq!(client.balance().await.unwrap(), "60.00", "it is not time yet");
    let none = scrape(&admin).await;
    for outcome in ["agrees", "learned", "differs", "unanswered"] {
        assert_eq!(none[&format!("pix_proofs_total{{outcome=\"{outcome}\"}}")], "0");
    }

    gateway.terminate().unwrap();
    gateway.set_clock_ahead(DAY + Duration::from_hours(1)).unwrap();
    gateway.run(&["serve"]).unwrap();
    client.sign_in(&integrator).await.unwrap();
    let balance = "79.50";
    soon("what came back and came in is credited", async || client.balance().await.unwrap() == balance).await;
    let outcome = |outcome: &str| format!("pix_proofs_total{{outcome=\"{outcome}\"}}");
    soon("all three are asked about", async || {
        let found = scrape(&admin).await;
        found[&outcome("learned")] == "2" && found[&outcome("agrees")] == "1"
    })
    .await;
    let codes = |found: &Value| -> Vec<String> {
        found.as_array().unwrap().iter().map(|finding| text(finding, "/code").unwrap()).collect()
    };
    assert_eq!(codes(&gateway.cli_json(&["findings", "--json"]).unwrap()), ["paid_again"]);
    let shown =
        client.get(&format!("/api/v1/withdrawals/{}", text(&stayed, "/uuid").unwrap())).await.unwrap().1;
    assert_eq!(shown["status"], "completed");
    // The provider holds what it held at first and what the books say beside that.
    gateway.terminate().unwrap();
    gateway.set_clock_ahead(DAY + Duration::from_hours(2)).unwrap();
    gateway.run(&["serve"]).unwrap();
    client.sign_in(&integrator).await.unwrap();
    soon("the provider's balance is beside that of the books", async || {
        let found = scrape(&admin).await;
        let cents = |name: &str| found.get(name).and_then(|value| value.parse::<i64>().ok());
        let (held, more) = (cents("pix_provider_balance_cents"), cents("pix_provider_difference_cents"));
        held.zip(more).is_some_and(|(held, more)| more == 10_000_000_000 && held > more)
    })
    .await;
    assert_eq!(gateway.audit().unwrap()["clean"], true);

    // Once more by hand, and there is nothing new.
    let found = gateway.cli_json(&["audit", "--provider", "--json"]).unwrap();
    assert_eq!(
        (&found["asked"], &found["agree"], &found["learned"]),
        (&json!(3), &json!(3), &json!(0)),
        "{found}"
    );
    assert_eq!(client.balance().await.unwrap(), balance);
}

async fn what_contradicts_the_books_is_told_by_hand(database: Database) {
    let settings = [("PIX_PROOF_PER_MINUTE", "0"), ("PIX_PROVIDER_TIMEOUT_MS", "300")];
    let gateway = Gateway::start(database, &settings).unwrap();
    let integrator = gateway.integrator("loja").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    let made = sent(&client, "w-1", "30").await;
    let asks = |arguments: &[&str]| -> (bool, Value) {
        let output = gateway.cli(&[&["audit", "--provider", "--json"], arguments].concat()).unwrap();
        (output.status.success(), serde_json::from_slice(&output.stdout).unwrap())
    };
    let (clean, found) = asks(&["--days", "1"]);
    assert!(clean && found["asked"] == 2 && found["agree"] == 2, "{found}");
    // What isn't known by its id is asked for by our reference too.
    for (scenario, questions, code) in [
        ("not_found_then_found", 4, Some("not_known_at_provider")),
        ("wrong_amount_answer", 2, Some("answer_mismatch")),
        ("never_answers", 2, None),
    ] {
        let next = json!({"scenario": scenario, "on": {"next": questions}, "operation": "consult"});
        control(&gateway, "/sim/scenarios", next).await;
        let (clean, found) = asks(&[]);
        assert!(!clean, "{scenario}: {found}");
        match code {
            Some(code) => {
                assert_eq!(found["differ"].as_array().unwrap().len(), 2, "{scenario}: {found}");
                assert!(found["differ"].as_array().unwrap().iter().all(|one| one["code"] == code), "{found}");
                let shown = gateway.cli_json(&["findings", "--json"]).unwrap();
                let told = shown.as_array().unwrap().iter().any(|finding| {
                    finding["code"] == code && finding["uuid"] == made["uuid"] && !finding["action"].is_null()
                });
                assert!(told, "{scenario}: {shown}");
            }
            None => assert_eq!(found["unanswered"].as_array().unwrap().len(), 2, "{scenario}: {found}"),
        }
    }
    assert_eq!(client.balance().await.unwrap(), "70.00", "nothing of it moved money");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
    assert!(asks(&[]).0, "and the provider says what the books say again");
    // What another provider doesn't know proves nothing here.
    let mut elsewhere = gateway.command(&["audit", "--provider"]);
    elsewhere.envs([("PIX_PROVIDER_URL", "http://127.0.0.1:9"), ("PIX_PROVIDER_CLIENT_SECRET", "hunter2")]);
    let output = elsewhere.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("the settings of `serve`"), "{told}");
    for (arguments, problem) in [
        (vec!["audit", "--provider", "--days", "0"], "1..=365"),
        (vec!["audit", "--days", "3"], "--provider"),
        (vec!["audit", "--provider", "--chain"], "cannot be used with"),
    ] {
        let output = gateway.cli(&arguments).unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(problem), "{told}");
    }
}
