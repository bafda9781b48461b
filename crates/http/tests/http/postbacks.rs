//! Postbacks as integrators see to them: URLs that can't be, much delivered once more, trials, and receivers that fail.

use std::time::Duration;

use pix_conformance::Answer as Told;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::provider::Progress;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Gateway, Request, Tenant, charge_body, withdrawal_body};

const EVENTS: &str = "/api/v1/events";
const CHARGES: &str = "/api/v1/charges";
const REPLAY: &str = "/api/v1/deliveries/replay";
const TEST: &str = "/api/v1/postbacks/test";
const ENDPOINTS: &str = "/api/v1/postbacks/endpoints";
const NOON: &str = "2026-01-15T12:00:00.000000Z";

async fn paid(gateway: &Gateway, tenant: &Tenant, name: &str) -> String {
    let mut body = charge_body();
    body["external_id"] = json!(name);
    let uuid = gateway.post(tenant, CHARGES, &body).await.expect(201).text("uuid");
    gateway.pay(tenant, &uuid, 1_550).await;
    uuid
}

fn problems(answer: &Answer) -> Vec<(String, String)> {
    let errors = answer.json()["errors"].clone();
    let text = |error: &Value, name: &str| error[name].as_str().unwrap().to_owned();
    errors.as_array().unwrap().iter().map(|error| (text(error, "field"), text(error, "code"))).collect()
}

fn pair(field: &str, code: &str) -> (String, String) {
    (field.to_owned(), code.to_owned())
}

async fn deliveries(gateway: &Gateway, tenant: &Tenant) -> Vec<Value> {
    let page = gateway.get(tenant, EVENTS).await.expect(200).json();
    page["data"].as_array().unwrap().iter().map(|event| event["delivery"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_nothing_can_ever_be_sent_to_is_refused_with_all_else_that_is_wrong() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let url = json!("http://10.0.0.1/pix");
    let mut body = charge_body();
    body["postbackUrl"] = url.clone();
    body["amount"] = json!(0);
    let answer = gateway.post(&tenant, CHARGES, &body).await.expect(422);
    assert_eq!(
        problems(&answer),
        [pair("amount", "invalid_amount"), pair("postbackUrl", "address_not_public")]
    );
    assert_eq!(answer.json()["errors"][1]["message"], "postbacks go to public addresses only");
    let mut body = withdrawal_body();
    body["postbackUrl"] = url.clone();
    body["creditParty"]["taxId"] = json!("1");
    let answer = gateway.post(&tenant, "/api/v1/withdrawals", &body).await.expect(422);
    assert_eq!(
        problems(&answer),
        [pair("creditParty.taxId", "invalid_format"), pair("postbackUrl", "address_not_public")]
    );
    for (path, body) in [
        ("/v2/pix/qrcode", json!({"amount": 1, "postbackUrl": url})),
        ("/v2/pix/payment", {
            let mut body = withdrawal_body();
            body["postbackUrl"] = url.clone();
            body
        }),
    ] {
        let answer = gateway.post(&tenant, path, &body).await.expect(422).json();
        assert_eq!(answer["message"], "postbacks go to public addresses only");
    }
    assert_eq!(gateway.provider.fake.total_sends(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_agreed_with_an_integrator_decides_over_the_generation() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let agreed = gateway.services.stores.integrators.set_postback_scope(tenant.id, Some(PostbackScope::All));
    assert!(agreed.await.unwrap());
    let body = json!({"amount": 10, "postbackUrl": "https://loja.example/v2"});
    let id = gateway.post(&tenant, "/v2/pix/qrcode", &body).await.expect(200).text("id");
    gateway.pay(&tenant, &id, 1_000).await;
    gateway.post(&tenant, "/v2/pix/refund", &json!({"pix_id": id})).await.expect(200);
    gateway.deliver().await;
    let sent = gateway.receiver.received();
    let names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["cashin.confirmed", "cashin.refunded"]);
    assert_eq!(sent[1].1["status"], "REFUNDED");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_up_is_delivered_when_its_endpoint_works_again() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    assert_eq!(gateway.get(&tenant, ENDPOINTS).await.expect(200).json(), json!({"data": []}));
    for number in 0..3 {
        paid(&gateway, &tenant, &format!("order {number}")).await;
    }
    gateway.receiver.answers(410, "gone");
    gateway.deliver().await;
    for delivery in deliveries(&gateway, &tenant).await {
        assert_eq!((&delivery["status"], &delivery["reason"]), (&json!("dead"), &json!("endpoint_off")));
        assert_eq!(delivery["next_attempt_at"], Value::Null);
    }
    let listed = gateway.get(&tenant, ENDPOINTS).await.expect(200).json();
    let id = listed["data"][0]["id"].as_str().unwrap().to_owned();
    let endpoint = json!({
        "id": id, "address": "https://loja.example/pix", "failing_since": NOON, "last_failure_at": NOON,
        "failure": "status_410", "off": {"at": NOON, "reason": "gone"}
    });
    assert_eq!(listed, json!({"data": [endpoint]}));

    // As long as it is off, asking again is in vain.
    gateway.receiver.answers(200, "");
    gateway.receiver.received();
    let replayed = gateway.post(&tenant, REPLAY, &json!({})).await.expect(202);
    assert_eq!(replayed.body, r#"{"replayed":3}"#);
    assert_eq!(gateway.deliver().await, 0);

    let enable = format!("{ENDPOINTS}/{id}/enable");
    let answer = gateway.send(Request::new("POST", &enable).token(&tenant)).await.expect(200).json();
    assert_eq!(answer, json!({"id": id, "off": null}));
    assert_eq!(gateway.get(&tenant, ENDPOINTS).await.expect(200).json(), json!({"data": []}));
    assert_eq!(gateway.post(&tenant, REPLAY, &json!({"limit": 2})).await.expect(202).json()["replayed"], 2);
    assert_eq!(gateway.post(&tenant, REPLAY, &json!({})).await.expect(202).json()["replayed"], 1);
    assert_eq!(gateway.deliver().await, 3);
    assert_eq!(gateway.receiver.received().len(), 3);
    gateway.post(&tenant, &enable, &json!({})).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_takes_what_it_names_and_of_what_arrived_only_when_told_to() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let first = paid(&gateway, &tenant, "order 1").await;
    gateway.services.wait(Duration::from_mins(30));
    paid(&gateway, &tenant, "order 2").await;
    gateway.post(&tenant, &format!("{CHARGES}/{first}/refunds"), &json!({})).await.expect(201);
    gateway.deliver().await;
    gateway.receiver.received();
    for (body, replayed) in [
        (json!({}), 0),
        (json!({"status": "dead", "types": null, "since": null}), 0),
        (json!({"status": "all", "types": ["cashin.refunded", "cashout.failed"]}), 1),
        (json!({"status": "all", "until": "2026-01-15T09:30:00-03:00", "types": null}), 1),
        (json!({"status": "all", "since": "2026-01-15T12:30:00Z", "until": "2026-01-15T13:00:00Z"}), 2),
        (json!({"status": "all", "since": "2026-01-15T12:30:01Z"}), 0),
        (json!({"status": "all", "limit": 10_000}), 3),
    ] {
        let answer = gateway.post(&tenant, REPLAY, &body).await.expect(202).json();
        assert_eq!(answer, json!({"replayed": replayed}), "{body}");
        assert_eq!(gateway.deliver().await, replayed, "{body}");
    }
    let answer = gateway.post(&tenant, REPLAY, &json!({"status": "all"})).await.expect(202).json();
    assert_eq!(answer["replayed"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_wrong_with_a_replay_comes_back_at_once() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = json!({
        "since": "yesterday", "until": 7, "types": ["cashin.confirmed", "x"], "status": "failed", "limit": 10_001
    });
    let answer = gateway.post(&tenant, REPLAY, &body).await.expect(422);
    assert_eq!(
        problems(&answer),
        [
            pair("since", "invalid_format"),
            pair("until", "invalid_type"),
            pair("types", "unknown_value"),
            pair("status", "unknown_value"),
            pair("limit", "invalid_format"),
        ]
    );
    let backwards = json!({"since": "2026-01-15T12:00:00Z", "until": "2026-01-15T12:00:00Z"});
    let answer = gateway.post(&tenant, REPLAY, &backwards).await.expect(422);
    assert_eq!(problems(&answer), [pair("until", "mismatch")]);
    let wrong = [
        json!({"types": "cashin.confirmed"}),
        json!({"types": []}),
        json!({"limit": 0}),
        json!({"status": ""}),
    ];
    for body in wrong {
        gateway.post(&tenant, REPLAY, &body).await.expect(422);
    }
    assert_eq!(gateway.post(&tenant, REPLAY, &json!([])).await.expect(400).code(), "malformed_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_says_what_the_receiver_answered() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = json!({"url": "https://loja.example/pix?token=1"});
    gateway.receiver.answers(201, "ok");
    let answer = gateway.post(&tenant, TEST, &body).await.expect(200).json();
    let told =
        json!({"delivered": true, "status": 201, "outcome": "delivered", "duration_ms": 0, "response": "ok"});
    assert_eq!(answer, told);
    let parcels = std::mem::take(&mut *gateway.receiver.parcels.lock().unwrap());
    let [parcel] = &parcels[..] else { panic!("{} were sent", parcels.len()) };
    assert_eq!((parcel.url.as_str(), parcel.event.as_str()), ("https://loja.example/pix?token=1", "ping"));
    assert_eq!(parcel.secrets[0].expose(), format!("whsec_{}_1", tenant.id));
    let sent: Value = serde_json::from_str(&parcel.body).unwrap();
    assert_eq!((&sent["transactionType"], &sent["eventId"]), (&json!("PING"), &json!(parcel.message_id)));

    gateway.receiver.answers(308, "elsewhere");
    let answer = gateway.post(&tenant, TEST, &body).await.expect(200).json();
    assert_eq!((&answer["delivered"], &answer["status"]), (&json!(false), &json!(308)));
    assert_eq!((&answer["outcome"], &answer["response"]), (&json!("status"), &json!("elsewhere")));
    gateway.receiver.fails("timeout");
    let answer = gateway.post(&tenant, TEST, &body).await.expect(200).json();
    let told =
        json!({"delivered": false, "status": null, "outcome": "timeout", "duration_ms": 0, "response": ""});
    assert_eq!(answer, told);
    // A trial is no event, and says nothing of the endpoint.
    assert_eq!(gateway.get(&tenant, EVENTS).await.expect(200).json()["data"], json!([]));
    assert_eq!(gateway.get(&tenant, ENDPOINTS).await.expect(200).json(), json!({"data": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_wants_a_url_that_can_be() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    for (body, code, message) in [
        (json!({}), "required", "url is required"),
        (json!({"url": ""}), "required", "url is required"),
        (json!({"url": 7}), "invalid_type", "url must be a string"),
        (json!({"url": "ftp://x"}), "invalid_format", "url must start with http:// or https://"),
        (json!({"url": "http://10.0.0.1/x"}), "address_not_public", "postbacks go to public addresses only"),
    ] {
        let answer = gateway.post(&tenant, TEST, &body).await.expect(422);
        assert_eq!(problems(&answer), [pair("url", code)], "{body}");
        assert_eq!(answer.json()["errors"][0]["message"], message);
    }
    assert!(gateway.receiver.received().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_integrator_tries_out_one_url_at_a_time() {
    let gateway = Gateway::start().await;
    let (tenant, other) = (gateway.rich().await, gateway.rich().await);
    let body = json!({"url": "https://loja.example/"});
    gateway.receiver.stalls.send_replace(true);
    let first = gateway.post(&tenant, TEST, &body);
    let meanwhile = async {
        while gateway.receiver.parcels.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let refused = gateway.post(&tenant, TEST, &body).await.expect(429);
        assert_eq!(
            (refused.text("code").as_str(), refused.header("retry-after")),
            ("rate_limited", Some("5"))
        );
        gateway.receiver.stalls.send_replace(false);
        gateway.post(&other, TEST, &body).await.expect(200);
    };
    let (first, ()) = tokio::join!(first, meanwhile);
    first.expect(200);
    gateway.post(&tenant, TEST, &body).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoints_of_another_integrator_can_not_be_seen_nor_switched_on() {
    let gateway = Gateway::start().await;
    let (owner, other) = (gateway.tenant(0).await, gateway.tenant(0).await);
    paid(&gateway, &owner, "order 1").await;
    gateway.receiver.answers(410, "");
    gateway.deliver().await;
    let listed = gateway.get(&owner, ENDPOINTS).await.expect(200).json();
    let id = listed["data"][0]["id"].as_str().unwrap();
    assert_eq!(gateway.get(&other, ENDPOINTS).await.expect(200).json(), json!({"data": []}));
    for id in [id, &Uuid::from_u128(1).to_string(), "x", "%00"] {
        let path = format!("{ENDPOINTS}/{id}/enable");
        let answer = gateway.post(&other, &path, &json!({})).await.expect(404);
        assert_eq!(answer.code(), "not_found", "{path}");
    }
    assert_eq!(gateway.get(&owner, ENDPOINTS).await.expect(200).json(), listed);
    assert_eq!(gateway.post(&other, REPLAY, &json!({})).await.expect(202).json()["replayed"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_integrator_can_see_and_repeat_what_it_was_told() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    paid(&gateway, &tenant, "order 1").await;
    gateway.receiver.answers(410, "");
    gateway.deliver().await;
    gateway.suspend(&tenant).await;
    let events = gateway.get(&tenant, EVENTS).await.expect(200).json();
    let id = events["data"][0]["id"].as_str().unwrap();
    gateway.get(&tenant, &format!("{EVENTS}/{id}")).await.expect(200);
    gateway.get(&tenant, &format!("{EVENTS}/{id}/deliveries")).await.expect(200);
    gateway.post(&tenant, &format!("{EVENTS}/{id}/redeliver"), &json!({})).await.expect(202);
    gateway.post(&tenant, REPLAY, &json!({})).await.expect(202);
    gateway.post(&tenant, TEST, &json!({"url": "https://loja.example/"})).await.expect(200);
    let endpoints = gateway.get(&tenant, ENDPOINTS).await.expect(200).json();
    let endpoint = endpoints["data"][0]["id"].as_str().unwrap();
    gateway.post(&tenant, &format!("{ENDPOINTS}/{endpoint}/enable"), &json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_anything_without_a_token() {
    let gateway = Gateway::start().await;
    let event = "/api/v1/events/x";
    let (deliveries, redeliver) = (format!("{event}/deliveries"), format!("{event}/redeliver"));
    let enable = format!("{ENDPOINTS}/x/enable");
    for (method, path) in [
        ("GET", EVENTS),
        ("GET", event),
        ("GET", &deliveries),
        ("POST", &redeliver),
        ("POST", REPLAY),
        ("POST", TEST),
        ("GET", ENDPOINTS),
        ("POST", &enable),
    ] {
        let answer = gateway.send(Request::new(method, path)).await.expect(401);
        assert_eq!(answer.code(), "invalid_token", "{path}");
        let allow = if method == "GET" { "GET, HEAD" } else { "POST" };
        let answer = gateway.send(Request::new("DELETE", path)).await.expect(405);
        assert_eq!(answer.header("allow"), Some(allow), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_v2_payment_that_left_though_it_was_called_failed_is_paid_wherever_it_is_asked_for() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    gateway.provider.fake.answers_next(Told::Reject);
    let mut body = withdrawal_body();
    body["postbackUrl"] = json!("https://loja.example/saida");
    gateway.post(&tenant, "/v2/pix/payment", &body).await.expect(406);
    gateway.deliver().await;
    let sent = gateway.receiver.received();
    assert_eq!((&sent[0].1["status"], &sent[0].1["statusCode"]["statusId"]), (&json!("FAILED"), &json!(3)));
    let uuid = sent[0].1["uuid"].as_str().unwrap().to_owned();

    gateway.provider.fake.knows(Uuid::try_parse(&uuid).unwrap(), Progress::Completed);
    let consult = json!({"pix_id": uuid});
    let consulted = gateway.post(&tenant, "/v2/consult-transaction", &consult).await.expect(200).json();
    assert_eq!(consulted["status"], "PAID");
    let again = gateway.post(&tenant, "/v2/pix/payment", &body).await.expect(200);
    assert_eq!(again.text("status"), "PAID");
    gateway.deliver().await;
    let sent = gateway.receiver.received();
    let [(event, told)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(event, "cashout.settled_late");
    let code = json!({"statusId": 1, "description": "Paid"});
    assert_eq!((&told["status"], &told["statusCode"]), (&json!("PAID"), &code));
    assert!(told["dateApproval"].is_string());
}
