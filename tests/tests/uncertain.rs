//! Money whose outcome nobody knows, as those who have to do with it see it: the integrator, two operators, the books.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::future::Future;
use std::time::{Duration, Instant};

use pix_tests::{Client, Database, Gateway, Port, http_client, on_either_store, pay, text};
use serde_json::{Value, json};

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);

on_either_store!(
    what_nobody_knows_is_decided_by_two_operators_and_written_down,
    what_was_executed_and_never_answered_is_settled_by_asking,
    what_the_provider_was_forced_to_send_back_is_owed_and_repaid,
    whatever_comes_back_is_an_event_of_its_own,
    a_callback_outlives_the_gateway_and_the_providers_silence,
);

async fn control(gateway: &Gateway, path: &str, body: Value) -> Value {
    let answer = http_client().unwrap().post(format!("{}{path}", gateway.simulator)).json(&body).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.json().await.unwrap()
}

/// What becomes true within seconds.
async fn soon<F: Future<Output = bool>>(what: &str, mut is_true: impl FnMut() -> F) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn withdrawal(reais: &str) -> Value {
    json!({
        "amount": reais,
        "creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
    })
}

/// A command of an operator: whether it ended well, and all that it said.
fn says(gateway: &Gateway, arguments: &[&str]) -> (bool, String) {
    let output = gateway.cli(arguments).unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

async fn what_nobody_knows_is_decided_by_two_operators_and_written_down(database: Database) {
    let port = Port::reserve().unwrap();
    let admin = format!("127.0.0.1:{}", port.number());
    let settings = [("PIX_PROVIDER_TIMEOUT_MS", "300"), ("PIX_ADMIN_LISTEN", admin.as_str())];
    let gateway = Gateway::start(database, &settings).unwrap();
    let integrator = gateway.integrator("uncertain").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    let never = json!({"scenario": "never_answers", "on": {"next": 1}, "operation": "payment"});
    control(&gateway, "/sim/scenarios", never).await;
    let (status, sent) = client.post("/api/v1/withdrawals", withdrawal("40")).await.unwrap();
    assert_eq!((status, &sent["outcome"], &sent["status"]), (201, &json!("uncertain"), &json!("processing")));
    let uuid = text(&sent, "/uuid").unwrap();
    let listed = gateway.cli_json(&["uncertain", "--json"]).unwrap();
    assert_eq!((&listed[0]["uuid"], &listed[0]["held"]), (&sent["uuid"], &json!("40.00")), "{listed}");
    let metrics = http_client().unwrap().get(format!("http://{admin}/metrics")).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for line in [
        r#"pix_open_movements{kind="withdrawal",state="uncertain"} 1"#,
        r#"pix_open_held_cents{kind="withdrawal",state="uncertain"} 4000"#,
        r#"pix_open_movements{kind="refund",state="needs_review"} 0"#,
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }

    let resolve = |verdict: &str, who: &str| {
        let reason = format!("{who} has seen the statement");
        says(&gateway, &["resolve", &uuid, "--as", verdict, "--reason", &reason, "--operator", who])
    };
    let (ok, said) = resolve("failed", "ana");
    assert!(ok && said.contains("proposed") && said.contains("another operator"), "{said}");
    let (ok, said) = resolve("failed", "ana");
    assert!(!ok && said.contains("a second operator has to confirm"), "{said}");
    assert_eq!(client.balance().await.unwrap(), "60.00", "nothing has moved");
    let (ok, said) = resolve("failed", "rui");
    assert!(ok && said.contains("is failed"), "{said}");
    assert_eq!(client.balance().await.unwrap(), "100.00");
    let (_, shown) = client.get(&format!("/api/v1/withdrawals/{uuid}")).await.unwrap();
    assert_eq!((&shown["status"], &shown["failure"]["code"]), (&json!("failed"), &json!("resolved_failed")));
    let (_, seen) = client.get(&format!("/api/v1/withdrawals/{uuid}/evidence")).await.unwrap();
    let decision = seen["data"].as_array().unwrap().iter().find(|seen| seen["kind"] == "decision").unwrap();
    let detail = text(decision, "/detail").unwrap();
    assert!(detail.contains("ana has seen") && detail.contains("rui has seen"), "{detail}");
    let (ok, said) = resolve("completed", "eva");
    assert!(ok && said.contains("nothing to decide"), "{said}");
    let other = uuid.replace('1', "2");
    let wrong = ["resolve", &other, "--as", "failed", "--reason", "xyz", "--operator", "eva"];
    let (ok, said) = says(&gateway, &wrong);
    assert!(!ok && said.contains("pix-gateway uncertain"), "{said}");

    let acts = gateway.cli_json(&["audit-log", "list", "--json"]).unwrap();
    let acts: Vec<_> = acts.as_array().unwrap().iter().map(|act| act["action"].as_str().unwrap()).collect();
    let expected =
        ["integrator.created", "key.created", "resolve.failed_proposed", "resolve.failed_confirmed"];
    assert_eq!(acts, expected);
    let (ok, said) = says(&gateway, &["audit-log", "verify"]);
    assert!(ok && said.contains("intact: 4 entries"), "{said}");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

async fn what_was_executed_and_never_answered_is_settled_by_asking(database: Database) {
    let gateway = Gateway::start(database, &[("PIX_PROVIDER_TIMEOUT_MS", "300")]).unwrap();
    let integrator = gateway.integrator("answerless").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    for scenario in ["executes_then_never_answers", "callback_never"] {
        let once = json!({"scenario": scenario, "on": {"next": 1}, "operation": "payment"});
        control(&gateway, "/sim/scenarios", once).await;
    }
    let (status, sent) = client.post("/api/v1/withdrawals", withdrawal("40")).await.unwrap();
    assert_eq!((status, &sent["outcome"]), (201, &json!("uncertain")), "{sent}");
    let path = format!("/api/v1/withdrawals/{}", text(&sent, "/uuid").unwrap());
    soon("completed", || async { client.get(&path).await.unwrap().1["status"] == "completed" }).await;
    let (_, seen) = client.get(&format!("{path}/evidence")).await.unwrap();
    let story: Vec<_> = seen["data"].as_array().unwrap().iter().map(|seen| seen["kind"].clone()).collect();
    assert_eq!(story, [json!("attempt"), json!("answer"), json!("consult")], "{seen}");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

async fn what_the_provider_was_forced_to_send_back_is_owed_and_repaid(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("med").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let charge = client.fund(&gateway, "100").await.unwrap();
    let (status, sent) = client.post("/api/v1/withdrawals", withdrawal("80")).await.unwrap();
    assert_eq!((status, &sent["outcome"]), (201, &json!("certain")), "{sent}");
    let pix_id = text(&charge, "/pix_id").unwrap();
    let owed = async || client.get("/api/v1/balance").await.unwrap().1["owed"].clone();
    for (taken, owes) in [("65.00", 45), ("25.00", 70)] {
        control(&gateway, &format!("/sim/charges/{pix_id}/take-back"), json!({"amount": taken})).await;
        soon("owed", || async { owed().await == json!(owes) }).await;
    }
    assert_eq!(amounts_of(&client, "cashin.taken_back", &charge["uuid"]).await, [json!(65), json!(25)]);
    let (_, shown) =
        client.get(&format!("/api/v1/charges/{}", text(&charge, "/uuid").unwrap())).await.unwrap();
    assert_eq!((&shown["status"], &shown["taken_back_amount"]), (&json!("paid"), &json!(90)));
    let (status, refused) = client.post("/api/v1/withdrawals", withdrawal("1")).await.unwrap();
    assert_eq!((status, &refused["code"]), (422, &json!("insufficient_balance")), "{refused}");
    client.fund(&gateway, "30").await.unwrap();
    assert_eq!((owed().await, client.balance().await.unwrap()), (json!(40), "0.00".to_owned()));
    client.fund(&gateway, "50").await.unwrap();
    assert_eq!((owed().await, client.balance().await.unwrap()), (json!(0), "10.00".to_owned()));
    let audit = gateway.audit().unwrap();
    assert_eq!(audit["clean"], true, "{audit}");
}

/// The amounts of the events of one kind that a transaction has, in their order.
async fn amounts_of(client: &Client, kind: &str, uuid: &Value) -> Vec<Value> {
    let path = format!("/api/v1/events?type={kind}&uuid={}", uuid.as_str().unwrap());
    let (status, feed) = client.get(&path).await.unwrap();
    assert_eq!(status, 200, "{feed}");
    feed["data"].as_array().unwrap().iter().map(|event| event["data"]["amount"].clone()).collect()
}

async fn whatever_comes_back_is_an_event_of_its_own(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("returned").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    let (status, sent) = client.post("/api/v1/withdrawals", withdrawal("40")).await.unwrap();
    assert_eq!((status, &sent["outcome"]), (201, &json!("certain")), "{sent}");
    let (path, pix_id) =
        (format!("/api/v1/withdrawals/{}", text(&sent, "/uuid").unwrap()), text(&sent, "/pix_id").unwrap());
    // What came back before it is known that it had left is told as its end.
    soon("completed", || async { client.get(&path).await.unwrap().1["status"] == "completed" }).await;
    let mut back = Vec::new();
    for (part, balance) in [(json!(2.5), "62.50"), (json!(30.25), "92.75"), (json!(7.25), "100.00")] {
        let amount = json!({"amount": format!("{:.2}", part.as_f64().unwrap())});
        control(&gateway, &format!("/sim/payments/{pix_id}/return"), amount).await;
        soon("it is free again", || async { client.balance().await.unwrap() == balance }).await;
        back.push(part);
        assert_eq!(amounts_of(&client, "cashout.returned", &sent["uuid"]).await, back);
    }
    let (_, shown) = client.get(&path).await.unwrap();
    assert_eq!((&shown["status"], &shown["returned_amount"]), (&json!("returned"), &json!(40)), "{shown}");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

async fn a_callback_outlives_the_gateway_and_the_providers_silence(database: Database) {
    let mut gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("patient").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let body = json!({"amount": 7, "payer": {"name": "Ana", "document": "52998224725"}});
    let charge = client.post("/api/v1/charges", body).await.unwrap().1;
    control(&gateway, "/sim/settings", json!({"callbacks": false})).await;
    pay(&gateway, &text(&charge, "/pix_id").unwrap()).await.unwrap();
    control(&gateway, "/sim/settings", json!({"unavailable": true})).await;
    let path = format!("{}/callbacks/{}", gateway.url, gateway.callback_secret().unwrap());
    let hint = json!({"external_id": charge["uuid"]});
    let answer = http_client().unwrap().post(path).json(&hint).send().await.unwrap();
    assert_eq!(answer.status(), 200, "it is kept, though nobody can be asked");
    assert_eq!(client.balance().await.unwrap(), "0.00");
    gateway.kill().unwrap();
    gateway.run(&["serve"]).unwrap();
    // The charge itself is asked about after a minute: what is credited before that, the callback led to.
    soon("credited", || async { client.balance().await.unwrap() == "7.00" }).await;
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}
