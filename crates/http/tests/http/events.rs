//! The feed of events: complete, in order, each integrator's own.

use pix_conformance::Answer as Told;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, BASE, Gateway, Request, Tenant, charge_body, withdrawal_body};

const EVENTS: &str = "/api/v1/events";
const CHARGES: &str = "/api/v1/charges";
const WITHDRAWALS: &str = "/api/v1/withdrawals";
const NOON: &str = "2026-01-15T12:00:00.000000Z";

/// A new charge with a postback URL, made in v1; its uuid.
async fn charge(gateway: &Gateway, tenant: &Tenant, name: &str) -> String {
    let mut body = charge_body();
    body["external_id"] = json!(name);
    gateway.post(tenant, CHARGES, &body).await.expect(201).text("uuid")
}

/// The same, paid in full.
async fn paid(gateway: &Gateway, tenant: &Tenant, name: &str) -> String {
    let uuid = charge(gateway, tenant, name).await;
    gateway.pay(tenant, &uuid, 1_550).await;
    uuid
}

async fn feed(gateway: &Gateway, tenant: &Tenant, query: &str) -> Value {
    gateway.get(tenant, &format!("{EVENTS}?{query}")).await.expect(200).json()
}

fn types(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn numbers(page: &Value) -> Vec<u64> {
    page["data"].as_array().unwrap().iter().map(|event| event["number"].as_u64().unwrap()).collect()
}

fn cursor(page: &Value) -> String {
    page["meta"]["next_cursor"].as_str().unwrap().to_owned()
}

/// The names of what is wrong, with the codes.
fn problems(answer: &Answer) -> Vec<(String, String)> {
    let errors = answer.json()["errors"].clone();
    let text = |error: &Value, name: &str| error[name].as_str().unwrap().to_owned();
    errors.as_array().unwrap().iter().map(|error| (text(error, "field"), text(error, "code"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_listed_with_what_its_postback_says_and_what_became_of_that() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let uuid = paid(&gateway, &tenant, "order:1").await;
    let simple = uuid.replace('-', "");
    let id = format!("evt_c{simple}_2");
    let data = json!({
        "transactionType": "RECEIVEPIX", "transactionId": format!("fake-{simple}"), "external_id": "order:1",
        "amount": 15.5, "paymentType": "PIX", "status": "PAID", "dateApproval": "2026-01-15 09:00:00",
        "creditParty": {"name": "Ana Souza", "taxId": "52998224725", "email": "ana@example.com"},
        "debitParty": {"name": "Ana Souza", "taxId": "52998224725"}, "amount_paid": 15.5,
        "event": "cashin.confirmed", "eventId": id, "sequence": 2, "uuid": uuid
    });
    let mut event = json!({
        "id": id, "type": "cashin.confirmed", "number": 1, "sequence": 2,
        "resource": {"type": "charge", "uuid": uuid}, "created_at": NOON, "data": data,
        "delivery": {"status": "waiting", "attempts": 0, "next_attempt_at": NOON, "reason": null}
    });
    let page = feed(&gateway, &tenant, "").await;
    let told = json!({
        "data": [event],
        "meta": {"per_page": 25, "next_cursor": cursor(&page), "has_more": false},
        "links": {"next": null}
    });
    assert_eq!(page, told);
    assert_eq!(gateway.get(&tenant, &format!("{EVENTS}/{id}")).await.expect(200).json(), event);
    let deliveries = format!("{EVENTS}/{id}/deliveries");
    let nothing_yet = json!({"data": [], "delivery": event["delivery"]});
    assert_eq!(gateway.get(&tenant, &deliveries).await.expect(200).json(), nothing_yet);

    // Refused at first, then taken.
    gateway.receiver.answers(500, "out of order");
    assert_eq!(gateway.deliver().await, 1);
    gateway.services.wait(std::time::Duration::from_secs(10));
    gateway.receiver.answers(204, "");
    assert_eq!(gateway.deliver().await, 1);
    let sent = gateway.receiver.received();
    let mut body = data.clone();
    body["requestBody"] = data;
    assert_eq!(sent, [("cashin.confirmed".to_owned(), body.clone()), ("cashin.confirmed".to_owned(), body)]);

    event["delivery"] =
        json!({"status": "delivered", "attempts": 2, "next_attempt_at": null, "reason": null});
    assert_eq!(gateway.get(&tenant, &format!("{EVENTS}/{id}")).await.expect(200).json(), event);
    let tried = gateway.get(&tenant, &deliveries).await.expect(200).json();
    assert_eq!(tried["delivery"], event["delivery"]);
    let attempts = tried["data"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    for attempt in attempts {
        Uuid::try_parse(attempt["id"].as_str().unwrap()).unwrap();
        assert_eq!(attempt["duration_ms"], 0);
    }
    let said = |attempt: &Value| {
        (attempt["status"].clone(), attempt["outcome"].clone(), attempt["response"].clone())
    };
    assert_eq!(said(&attempts[0]), (json!(500), json!("status"), json!("out of order")));
    assert_eq!(said(&attempts[1]), (json!(204), json!("delivered"), json!("")));
    assert_eq!(
        (&attempts[0]["at"], &attempts[1]["at"]),
        (&json!(NOON), &json!("2026-01-15T12:00:10.000000Z"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_the_cursor_gets_every_event_once_while_others_are_added() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let empty = feed(&gateway, &tenant, "").await;
    assert_eq!((&empty["data"], &empty["meta"]["has_more"]), (&json!([]), &json!(false)));
    for number in 0..6 {
        paid(&gateway, &tenant, &format!("before {number}")).await;
    }
    let (mut after, mut seen) = (cursor(&empty), Vec::new());
    for number in 0..4 {
        let page = feed(&gateway, &tenant, &format!("per_page=2&cursor={after}")).await;
        seen.extend(numbers(&page));
        assert_eq!(page["meta"]["has_more"], true);
        after = cursor(&page);
        let next = format!("{BASE}{EVENTS}?per_page=2&cursor={after}");
        assert_eq!(page["links"]["next"], next);
        paid(&gateway, &tenant, &format!("meanwhile {number}")).await;
    }
    assert_eq!(seen, (1..=8).collect::<Vec<u64>>());
    // The last page, and one after it that is empty: both say where to go on.
    let last = feed(&gateway, &tenant, &format!("cursor={after}")).await;
    assert_eq!((numbers(&last), &last["meta"]["has_more"]), (vec![9, 10], &json!(false)));
    assert_eq!(last["links"]["next"], Value::Null);
    let after = cursor(&last);
    let nothing = feed(&gateway, &tenant, &format!("cursor={after}")).await;
    assert_eq!((numbers(&nothing), cursor(&nothing)), (vec![], after.clone()));
    paid(&gateway, &tenant, "later").await;
    assert_eq!(numbers(&feed(&gateway, &tenant, &format!("cursor={after}")).await), [11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_with_more_after_it_has_a_link_that_keeps_the_filters() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    for number in 0..2 {
        paid(&gateway, &tenant, &format!("order {number}")).await;
    }
    let answer =
        gateway.get(&tenant, &format!("{EVENTS}?per_page=1&type=cashin.confirmed")).await.expect(200);
    let next = answer.json()["links"]["next"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("link"), Some(format!("<{next}>; rel=\"next\"").as_str()));
    let page = gateway.get(&tenant, next.strip_prefix(BASE).unwrap()).await.expect(200);
    assert_eq!(numbers(&page.json()), [2]);
    assert_eq!(page.header("link"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_chosen_by_type_by_transaction_and_by_whether_they_arrived() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let first = paid(&gateway, &tenant, "order 1").await;
    let refunds = format!("{CHARGES}/{first}/refunds");
    let refund = gateway.post(&tenant, &refunds, &json!({"amount": 5})).await.expect(201).text("uuid");
    gateway.provider.fake.answers_next(Told::Reject);
    let mut payout = withdrawal_body();
    payout["postbackUrl"] = json!("https://loja.example/saida");
    let payout = gateway.post(&tenant, WITHDRAWALS, &payout).await.expect(422).text("uuid");

    let all = feed(&gateway, &tenant, "").await;
    assert_eq!(numbers(&all), [1, 2, 3, 4]);
    let mut told = types(&all);
    told.sort_unstable();
    assert_eq!(told, ["cashin.confirmed", "cashin.refunded", "cashout.failed", "refund.completed"]);
    let refunded = feed(&gateway, &tenant, "type=cashin.refunded,refund.completed").await;
    for event in refunded["data"].as_array().unwrap() {
        let data = &event["data"];
        if event["type"] == "cashin.refunded" {
            assert_eq!((&data["transactionType"], &data["amount"]), (&json!("PIXREVERSAL"), &json!(5)));
            assert_eq!((&data["refundId"], &data["amount_paid"]), (&json!(refund), &json!(15.5)));
            assert_eq!((&data["status"], &event["resource"]["uuid"]), (&json!("PAID"), &json!(first)));
        } else {
            // A refund is told of as its charge's: its own events are only listed.
            assert_eq!((&event["delivery"], &event["resource"]["type"]), (&Value::Null, &json!("refund")));
            assert_eq!((&data["transactionType"], &data["status"]), (&json!("REFUND"), &json!("REFUNDED")));
        }
    }
    let of_payout = feed(&gateway, &tenant, &format!("uuid={payout}")).await;
    assert_eq!(types(&of_payout), ["cashout.failed"]);
    let code = json!({"statusId": 3, "description": "Failed"});
    assert_eq!(of_payout["data"][0]["data"]["statusCode"], code);
    assert_eq!(types(&feed(&gateway, &tenant, &format!("uuid={}", Uuid::from_u128(1))).await).len(), 0);

    assert_eq!(types(&feed(&gateway, &tenant, "delivered=false").await).len(), 3);
    gateway.deliver().await;
    assert_eq!(types(&feed(&gateway, &tenant, "delivered=false").await).len(), 0);
    assert_eq!(types(&feed(&gateway, &tenant, "delivered=true").await).len(), 3);
    assert_eq!(types(&feed(&gateway, &tenant, "delivered=true&type=refund.completed").await).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_wrong_with_what_is_asked_of_the_feed_comes_back_at_once() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let query = "cursor=x&delivered=perhaps&per_page=0&type=cashin.confirmed,charge.paid&uuid=7";
    let answer = gateway.get(&tenant, &format!("{EVENTS}?{query}")).await.expect(422);
    assert_eq!(answer.code(), "validation_failed");
    let pair = |field: &str, code: &str| (field.to_owned(), code.to_owned());
    assert_eq!(
        problems(&answer),
        [
            pair("cursor", "invalid_format"),
            pair("delivered", "unknown_value"),
            pair("per_page", "invalid_format"),
            pair("type", "unknown_value"),
            pair("uuid", "invalid_format"),
        ]
    );
    let message = answer.json()["errors"][3]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("type must be one of cashin."), "{message}");
    for name in ["cashin.confirmed", "cashout.settled_late", "refund.needs_review"] {
        assert!(message.contains(name), "{message}");
    }
    for query in ["type=,", "type=charge.creating", "cursor=00000000000000000000000000000000", "delivered=1"]
    {
        gateway.get(&tenant, &format!("{EVENTS}?{query}")).await.expect(422);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_another_integrator_are_nowhere() {
    let gateway = Gateway::start().await;
    let (owner, other) = (gateway.tenant(0).await, gateway.tenant(0).await);
    for number in 0..3 {
        paid(&gateway, &owner, &format!("order {number}")).await;
    }
    let own = paid(&gateway, &other, "order 0").await;
    let listed = feed(&gateway, &owner, "").await;
    let id = listed["data"][0]["id"].as_str().unwrap().to_owned();
    let charge = listed["data"][0]["resource"]["uuid"].as_str().unwrap();

    let theirs = feed(&gateway, &other, "").await;
    assert_eq!(numbers(&theirs), [1]);
    assert_eq!(theirs["data"][0]["resource"]["uuid"], own);
    assert_eq!(feed(&gateway, &other, &format!("uuid={charge}")).await["data"], json!([]));
    // Numbers are each integrator's own: with the other's cursor, events would be skipped in silence.
    let foreign = gateway.get(&other, &format!("{EVENTS}?cursor={}", cursor(&listed))).await.expect(422);
    assert_eq!(problems(&foreign), [("cursor".to_owned(), "invalid_format".to_owned())]);

    let unknown = format!("evt_c{}_2", Uuid::from_u128(1).simple());
    let told = gateway.get(&other, &format!("{EVENTS}/{unknown}")).await.expect(404).without_request_id();
    for id in [id.as_str(), &unknown, "x", "evt_", "%00", "evt_%C3%A9", &id.to_uppercase(), charge] {
        for path in [format!("{EVENTS}/{id}"), format!("{EVENTS}/{id}/deliveries")] {
            assert_eq!(gateway.get(&other, &path).await.expect(404).without_request_id(), told, "{path}");
        }
        let path = format!("{EVENTS}/{id}/redeliver");
        let answer = gateway.post(&other, &path, &json!({})).await.expect(404);
        assert_eq!(answer.without_request_id(), told, "{path}");
    }
    gateway.get(&owner, &format!("{EVENTS}/{id}")).await.expect(200);
    // What was asked in vain for the other has changed nothing for the owner.
    assert_eq!(gateway.get(&owner, &format!("{EVENTS}/{id}")).await.json(), listed["data"][0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_delivered_once_more_under_the_same_id() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    paid(&gateway, &tenant, "order 1").await;
    gateway.deliver().await;
    let first = gateway.receiver.received();
    let id = feed(&gateway, &tenant, "").await["data"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("{EVENTS}/{id}/redeliver");
    // Nothing is wanted of the body.
    let answer = gateway.send(Request::new("POST", &path).token(&tenant)).await.expect(202).json();
    assert_eq!(answer["id"], id);
    let waiting = json!({"status": "waiting", "attempts": 0, "next_attempt_at": NOON, "reason": null});
    assert_eq!(answer["delivery"], waiting);
    assert_eq!(gateway.deliver().await, 1);
    assert_eq!(gateway.receiver.received(), first);
    let attempts = gateway.get(&tenant, &format!("{EVENTS}/{id}/deliveries")).await.expect(200).json();
    assert_eq!(attempts["data"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_has_nowhere_to_go_is_not_delivered() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = json!({"amount": 1, "payer": charge_body()["payer"]});
    let without_url = gateway.post(&tenant, CHARGES, &body).await.expect(201).text("uuid");
    gateway.pay(&tenant, &without_url, 100).await;
    let with_url = paid(&gateway, &tenant, "order 1").await;
    let refunds = format!("{CHARGES}/{with_url}/refunds");
    gateway.post(&tenant, &refunds, &json!({})).await.expect(201);
    for query in [format!("uuid={without_url}"), "type=refund.completed".to_owned()] {
        let page = feed(&gateway, &tenant, &query).await;
        let event = &page["data"][0];
        assert_eq!(event["delivery"], Value::Null, "{query}");
        let path = format!("{EVENTS}/{}/redeliver", event["id"].as_str().unwrap());
        let answer = gateway.post(&tenant, &path, &json!({})).await.expect(409);
        assert_eq!(answer.code(), "invalid_state");
        assert!(answer.text("detail").contains("nowhere to go"), "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_v2_are_sent_outcomes_alone_and_find_the_rest_in_the_feed() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = json!({"amount": 10, "postbackUrl": "https://loja.example/v2"});
    let id = gateway.post(&tenant, "/v2/pix/qrcode", &body).await.expect(200).text("id");
    gateway.pay(&tenant, &id, 1_000).await;
    let refund = json!({"pix_id": id, "amount": 4, "external_id": "r-1"});
    gateway.post(&tenant, "/v2/pix/refund", &refund).await.expect(200);
    gateway.deliver().await;
    let sent = gateway.receiver.received();
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (sent[0].0.as_str(), &sent[0].1["transactionType"]),
        ("cashin.confirmed", &json!("RECEIVEPIX"))
    );
    assert_eq!(sent[0].1["external_id"], "");
    let refunded = feed(&gateway, &tenant, "type=cashin.refunded").await;
    assert_eq!(refunded["data"][0]["delivery"], Value::Null);
}
