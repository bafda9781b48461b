//! The v1 endpoints: their answers to the letter.

use pix_conformance::Answer as Told;
use pix_conformance::builders::some_fees;
use pix_domain::provider::ProviderError;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, BASE, Gateway, Request, Tenant, charge_body, reference, withdrawal_body};

const CHARGES: &str = "/api/v1/charges";
const WITHDRAWALS: &str = "/api/v1/withdrawals";
const CONSULT: &str = "/api/v1/transactions/consult";
const NOON: &str = "2026-01-15T12:00:00.000000Z";

async fn keyed(gateway: &Gateway, tenant: &Tenant, path: &str, key: &str, body: &Value) -> Answer {
    let request = Request::post(path, &body.to_string()).token(tenant).header("Idempotency-Key", key);
    gateway.send(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_is_created_shown_and_replayed() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let answer = gateway.post(&tenant, CHARGES, &charge_body()).await.expect(201);
    let uuid = answer.text("uuid");
    let simple = uuid.replace('-', "");
    let told = json!({
        "uuid": uuid, "external_id": "order:1", "status": "pending", "substatus": null, "outcome": "certain",
        "amount": 15.5, "amount_paid": 0, "refunded_amount": 0, "taken_back_amount": 0, "fee": null, "net_amount": null, "currency": "BRL",
        "payer": {"name": "Ana Souza", "document": "52998224725", "email": "ana@example.com"},
        "payerQuestion": "Tudo certo?", "metadata": {}, "split": null, "qrcode": format!("fake-qr-code-of-{simple}"),
        "pix_id": format!("fake-{simple}"), "end_to_end_id": null, "postbackUrl": "https://loja.example/pix?token=1",
        "expires_at": "2026-01-15T12:50:00.000000Z", "paid_at": null, "paid_late": false, "flags": [], "failure": null,
        "created_at": NOON, "updated_at": NOON,
        "links": {
            "self": format!("{BASE}{CHARGES}/{uuid}"), "qrcode_svg": format!("{BASE}{CHARGES}/{uuid}/qrcode.svg"),
            "pay": format!("{BASE}/pay/{uuid}")
        }
    });
    assert_eq!(answer.json(), told);
    assert_eq!(answer.header("location"), Some(format!("{BASE}{CHARGES}/{uuid}").as_str()));
    assert_eq!(answer.header("idempotency-replayed"), None);

    let again = gateway.post(&tenant, CHARGES, &charge_body()).await.expect(200);
    assert_eq!((again.json(), again.header("idempotency-replayed")), (told.clone(), Some("true")));
    for name in [uuid.as_str(), &simple, "order:1", "order%3A1"] {
        assert_eq!(
            gateway.get(&tenant, &format!("{CHARGES}/{name}")).await.expect(200).json(),
            told,
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paid_charge_shows_what_came_in_and_what_it_cost() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    gateway.services.set_fees(tenant.id, some_fees()).await;
    let body = json!({"amount": 100, "payer": {"name": "Ana", "document": "12ABC34501DE35"}});
    let created = gateway.post(&tenant, CHARGES, &body).await.expect(201);
    assert!(created.text("external_id").starts_with("chg-"));
    let uuid = created.text("uuid");
    let charge = gateway.pay(&tenant, &uuid, 10_000).await;
    let shown = gateway.get(&tenant, &format!("{CHARGES}/{uuid}")).await.expect(200).json();
    let told = json!({
        "status": "paid", "amount_paid": 100, "fee": 1.1, "net_amount": 98.9, "paid_at": NOON, "paid_late": false,
        "end_to_end_id": charge.credited.unwrap().first.to_text()
    });
    for (name, value) in told.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    let balance = gateway.get(&tenant, "/api/v1/balance").await.expect(200);
    assert_eq!(balance.body, r#"{"available":98.9,"held":0,"owed":0,"currency":"BRL"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_problems_of_all_fields_come_back_at_once() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = json!({
        "amount": "1,00", "payer": {"document": "11111111111", "email": 7}, "external_id": "", "postbackUrl": "x",
        "payerQuestion": "a\u{0}b", "split": [{"recipient": "x", "percentage": "10"}], "expiration": 5
    });
    let answer = gateway.post(&tenant, CHARGES, &body).await.expect(422);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = answer.json();
    assert_eq!(problem["type"], format!("{BASE}/errors/validation"));
    assert_eq!(problem["title"], "Validation failed");
    assert_eq!(problem["status"], 422);
    assert_eq!(problem["code"], "validation_failed");
    assert_eq!(problem["requestId"].as_str(), answer.header("x-request-id"));
    let told: Vec<(&str, &str)> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["field"].as_str().unwrap(), error["code"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("amount", "invalid_amount"),
            ("external_id", "invalid_format"),
            ("payer.name", "required"),
            ("payer.document", "check_digits"),
            ("payer.email", "invalid_type"),
            ("payerQuestion", "invalid_characters"),
            ("postbackUrl", "invalid_format"),
            ("expiration", "invalid_format"),
            ("split.0.recipient", "invalid_format"),
        ]
    );
    assert_eq!(problem["errors"][8]["message"], "split.0.recipient must be a UUID");
    let answer = gateway.post(&tenant, CHARGES, &json!({})).await.expect(422).json();
    assert_eq!(answer["errors"].as_array().unwrap().len(), 3);
    assert_eq!(answer["errors"][0]["message"], "amount is required");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_is_created_shown_and_replayed() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(2_000).await;
    gateway.services.set_fees(tenant.id, some_fees()).await;
    gateway.provider.fake.answers_next(Told::Accept);
    let answer = gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(201);
    let uuid = answer.text("uuid");
    let told = json!({
        "uuid": uuid, "external_id": "payout-1", "status": "processing", "substatus": "accepted",
        "outcome": "certain", "amount": 10, "fee": 0.5, "total": 10.5, "currency": "BRL",
        "creditParty":
            {"name": "Bruno", "keyType": "EMAIL", "key": "bruno@example.com", "taxId": "52998224725"},
        "description": "semana 1", "metadata": {}, "pix_id": format!("fake-{}", reference(&uuid)), "end_to_end_id": null,
        "failure": null, "returned_amount": 0, "settled_late": false, "postbackUrl": null, "created_at": NOON, "updated_at": NOON,
        "completed_at": null, "links": {"self": format!("{BASE}{WITHDRAWALS}/{uuid}")}
    });
    assert_eq!(answer.json(), told);
    assert_eq!(answer.header("location"), told["links"]["self"].as_str());
    let again = gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(200);
    assert_eq!((again.json(), again.header("idempotency-replayed")), (told.clone(), Some("true")));
    for name in [uuid.as_str(), "payout-1"] {
        assert_eq!(gateway.get(&tenant, &format!("{WITHDRAWALS}/{name}")).await.expect(200).json(), told);
    }
    assert_eq!(gateway.services.balances(tenant.id).await, (950, 1050));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_that_fails_is_an_error_once_and_a_resource_ever_after() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    gateway.provider.fake.answers_next(Told::Reject);
    let answer = gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(422);
    assert_eq!(answer.code(), "provider_rejected");
    let uuid = answer.text("uuid");
    let again = gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(200).json();
    assert_eq!(again["uuid"], uuid);
    assert_eq!((&again["status"], &again["substatus"]), (&json!("failed"), &json!("fake_refusal")));
    let failure = json!({"code": "fake_refusal", "message": "the fake provider was told to refuse"});
    assert_eq!((&again["failure"], &again["completed_at"]), (&failure, &json!(NOON)));
}

/// Who gave no name of its own has nothing else to find it by.
#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_is_refused_is_named() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    gateway.provider.fake.answers_next_charge(Told::Reject);
    let mut body = charge_body();
    body.as_object_mut().unwrap().remove("external_id");
    let answer = gateway.post(&tenant, CHARGES, &body).await.expect(422);
    assert_eq!(answer.code(), "provider_rejected");
    let failed = gateway.get(&tenant, &format!("{CHARGES}/{}", answer.text("uuid"))).await.expect(200).json();
    assert_eq!(failed["status"], "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_without_a_known_end_is_no_error() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    for (told, status, substatus, outcome) in [
        (Told::LostAnswer, "processing", "uncertain", "uncertain"),
        (Told::Unavailable, "pending", "queued", "certain"),
        (Told::Complete, "completed", "settled", "certain"),
    ] {
        gateway.provider.fake.answers_next(told);
        let mut body = withdrawal_body();
        body["external_id"] = json!(substatus);
        let answer = gateway.post(&tenant, WITHDRAWALS, &body).await.expect(201).json();
        assert_eq!(
            [&answer["status"], &answer["substatus"], &answer["outcome"]],
            [status, substatus, outcome]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_is_one_handle_and_another_body_is_refused() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let mut body = withdrawal_body();
    body.as_object_mut().unwrap().remove("external_id");
    let first = keyed(&gateway, &tenant, WITHDRAWALS, "\"k 1\"", &body).await.expect(422);
    assert_eq!(first.json()["errors"][0]["field"], "Idempotency-Key");
    let empty = keyed(&gateway, &tenant, WITHDRAWALS, "", &body).await.expect(422);
    assert_eq!(empty.json()["errors"][0]["message"], "Idempotency-Key must not be empty");
    let first = keyed(&gateway, &tenant, WITHDRAWALS, "\"k1\"", &body).await.expect(201);
    assert!(first.text("external_id").starts_with("wdr-"));
    let again = keyed(&gateway, &tenant, WITHDRAWALS, "k1", &body).await.expect(200);
    assert_eq!(again.text("uuid"), first.text("uuid"));
    body["amount"] = json!(11);
    let other = keyed(&gateway, &tenant, WITHDRAWALS, "k1", &body).await.expect(422);
    assert_eq!(other.code(), "idempotency_mismatch");
    let request = Request::post(WITHDRAWALS, &body.to_string()).token(&tenant);
    let twice = request.header("Idempotency-Key", "a").header("Idempotency-Key", "b");
    assert_eq!(gateway.send(twice).await.expect(400).code(), "malformed_request");
    assert_eq!(gateway.provider.fake.total_sends(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_withdrawal_have_their_statuses() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(500).await;
    let answer = gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(422);
    assert_eq!(
        (answer.code().as_str(), answer.json()["title"].as_str()),
        ("insufficient_balance", Some("Insufficient balance"))
    );
    // Nothing was burnt: with money it goes through under the same name.
    gateway.services.paid_charge(tenant.id, 1_000).await;
    gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(201);
    let mut other = withdrawal_body();
    other["description"] = json!("semana 2");
    assert_eq!(gateway.post(&tenant, WITHDRAWALS, &other).await.expect(409).code(), "external_id_conflict");
    gateway.suspend(&tenant).await;
    other["external_id"] = json!("payout-2");
    assert_eq!(gateway.post(&tenant, WITHDRAWALS, &other).await.expect(403).code(), "integrator_suspended");
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_are_created_listed_and_shown() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(1_000).await;
    gateway.services.set_fees(tenant.id, some_fees()).await;
    let charge = gateway.post(&tenant, CHARGES, &charge_body()).await.expect(201).text("uuid");
    let path = format!("{CHARGES}/{charge}/refunds");
    assert_eq!(gateway.post(&tenant, &path, &json!({})).await.expect(409).code(), "invalid_state");
    gateway.pay(&tenant, &charge, 1_550).await;

    let body = json!({"amount": 5.5, "description": "troca", "external_id": "r-1"});
    let by_name = format!("{CHARGES}/order:1/refunds");
    let answer = gateway.post(&tenant, &by_name, &body).await.expect(201);
    let uuid = answer.text("uuid");
    let simple = reference(&uuid);
    let first = answer.json();
    assert_eq!(
        first,
        json!({
            "uuid": uuid, "charge": charge, "external_id": "r-1", "status": "completed", "substatus": "settled",
            "outcome": "certain", "amount": 5.5, "fee": 0.25, "total": 5.75, "currency": "BRL",
            "description": "troca", "pix_id": format!("fake-{simple}"), "return_id": first["return_id"],
            "failure": null, "created_at": NOON, "updated_at": NOON, "completed_at": NOON,
            "links": {"self": format!("{BASE}/api/v1/refunds/{uuid}"), "charge": format!("{BASE}{CHARGES}/{charge}")}
        })
    );
    assert!(first["return_id"].is_string());
    assert_eq!(answer.header("location"), first["links"]["self"].as_str());
    assert_eq!(gateway.post(&tenant, &path, &body).await.expect(200).json(), first);

    gateway.provider.fake.answers_next(Told::Unavailable);
    let rest = gateway.post(&tenant, &path, &json!({})).await.expect(201).json();
    assert_eq!([&rest["status"], &rest["substatus"]], ["processing", "queued"]);
    assert_eq!(rest["amount"], 10);
    assert_eq!(gateway.get(&tenant, &path).await.expect(200).json(), json!({"data": [first, rest]}));
    for name in [uuid.as_str(), "r-1"] {
        assert_eq!(gateway.get(&tenant, &format!("/api/v1/refunds/{name}")).await.expect(200).json(), first);
    }
    let shown = gateway.get(&tenant, &format!("{CHARGES}/{charge}")).await.expect(200).json();
    assert_eq!(shown["refunded_amount"], 5.5);
    let answer = gateway.post(&tenant, &path, &json!({"amount": 10.01})).await.expect(422);
    assert_eq!(answer.code(), "refund_exceeds_paid");
    assert_eq!(
        gateway.post(&tenant, &path, &json!({"amount": null})).await.expect(422).code(),
        "invalid_amount"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_a_path_finds_the_kind_that_is_asked_for() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let odd = "a/b ?#%é";
    let name = "a%2Fb%20%3F%23%25%C3%A9";
    let mut charge = charge_body();
    charge["external_id"] = json!(odd);
    let mut withdrawal = withdrawal_body();
    withdrawal["external_id"] = json!(odd);
    let charge = gateway.post(&tenant, CHARGES, &charge).await.expect(201).text("uuid");
    let path = format!("{WITHDRAWALS}/{name}");
    assert_eq!(gateway.get(&tenant, &path).await.expect(404).code(), "not_found");
    let withdrawal = gateway.post(&tenant, WITHDRAWALS, &withdrawal).await.expect(201).text("uuid");
    assert_eq!(gateway.get(&tenant, &path).await.expect(200).text("uuid"), withdrawal);
    assert_eq!(gateway.get(&tenant, &format!("{CHARGES}/{name}")).await.expect(200).text("uuid"), charge);
    // Ids of another kind are not found under this one.
    gateway.get(&tenant, &format!("{CHARGES}/{withdrawal}")).await.expect(404);
    gateway.get(&tenant, &format!("{WITHDRAWALS}/{charge}")).await.expect(404);
    gateway.get(&tenant, &format!("/api/v1/refunds/{charge}")).await.expect(404);
    gateway.get(&tenant, &format!("{CHARGES}/%00%FF")).await.expect(404);

    // A name in the form of a uuid is a name.
    let mut named = charge_body();
    named["external_id"] = json!("0199aaaa-0000-7000-8000-000000000001");
    gateway.post(&tenant, CHARGES, &named).await.expect(201);
    gateway.get(&tenant, &format!("{CHARGES}/0199aaaa-0000-7000-8000-000000000001")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_newest_first_and_pages_neither_skip_nor_repeat() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let mut made = Vec::new();
    for number in 0..5 {
        let mut body = charge_body();
        body["external_id"] = json!(format!("order {number}"));
        made.push(gateway.post(&tenant, CHARGES, &body).await.expect(201).text("uuid"));
    }
    made.reverse();
    let uuids = |answer: &Answer| -> Vec<String> {
        let data = answer.json()["data"].clone();
        data.as_array().unwrap().iter().map(|row| row["uuid"].as_str().unwrap().to_owned()).collect()
    };
    let first = gateway.get(&tenant, &format!("{CHARGES}?per_page=2&status=pending,paid")).await.expect(200);
    assert_eq!(uuids(&first), made[..2]);
    let body = first.json();
    assert_eq!((&body["meta"]["per_page"], &body["meta"]["prev_cursor"]), (&json!(2), &Value::Null));
    let next = body["links"]["next"].as_str().unwrap();
    assert_eq!(first.header("link"), Some(format!("<{next}>; rel=\"next\"").as_str()));
    let cursor = body["meta"]["next_cursor"].as_str().unwrap();
    assert_eq!(next, format!("{BASE}{CHARGES}?per_page=2&status=pending,paid&cursor={cursor}"));

    // A row that is written meanwhile changes no other page.
    gateway.post(&tenant, CHARGES, &json!({"amount": 1, "payer": charge_body()["payer"]})).await.expect(201);
    let second = gateway.get(&tenant, next.strip_prefix(BASE).unwrap()).await.expect(200);
    assert_eq!(uuids(&second), made[2..4]);
    let body = second.json();
    let follow = |name: &str| body["links"][name].as_str().unwrap().strip_prefix(BASE).unwrap().to_owned();
    assert_eq!(uuids(&gateway.get(&tenant, &follow("prev")).await.expect(200)), made[..2]);
    let last = gateway.get(&tenant, &follow("next")).await.expect(200);
    assert_eq!(uuids(&last), made[4..]);
    assert_eq!(last.json()["links"]["next"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_filter_by_status_name_and_time() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    for told in [Told::Accept, Told::LostRequest, Told::Unavailable, Told::Complete] {
        gateway.provider.fake.answers_next(told);
        let mut body = withdrawal_body();
        body["external_id"] = json!(format!("{told:?}"));
        gateway.post(&tenant, WITHDRAWALS, &body).await.expect(201);
    }
    let count = |query: &'static str| {
        let (gateway, tenant) = (&gateway, &tenant);
        async move {
            let answer = gateway.get(tenant, &format!("{WITHDRAWALS}?{query}")).await.expect(200).json();
            answer["data"].as_array().unwrap().len()
        }
    };
    for (query, rows) in [
        ("", 4),
        ("status=processing", 2),
        ("status=pending", 1),
        ("status=pending,completed", 2),
        ("status=failed", 0),
        ("external_id=LostRequest", 1),
        ("created_from=2026-01-15T12:00:00Z", 4),
        ("created_from=2026-01-15T09:00:00-03:00", 4),
        ("created_to=2026-01-15T12:00:00Z", 0),
        ("created_from=2026-01-15T12:00:01Z", 0),
        ("unknown=1&empty=", 4),
    ] {
        assert_eq!(count(query).await, rows, "{query}");
    }
    for query in [
        "status=paid",
        "status=",
        "external_id=",
        "per_page=0",
        "per_page=101",
        "cursor=zz",
        "created_from=now",
    ] {
        let answer = gateway.get(&tenant, &format!("{WITHDRAWALS}?{query}")).await.expect(422);
        assert_eq!(answer.code(), "validation_failed", "{query}");
    }
    let paid = gateway.get(&tenant, &format!("{WITHDRAWALS}?status=paid")).await.expect(422);
    assert_eq!(
        paid.json()["errors"][0]["message"],
        "status must be one of pending, processing, completed, canceled, failed, returned"
    );
    let twice = gateway.get(&tenant, &format!("{WITHDRAWALS}?status=pending&status=completed")).await;
    assert_eq!(twice.expect(400).code(), "malformed_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn consulting_asks_the_provider_now() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let uuid = gateway.post(&tenant, CHARGES, &charge_body()).await.expect(201).text("uuid");
    let reference = Uuid::try_parse(&uuid).unwrap();
    gateway.provider.fake.receives(reference, gateway.services.payment(1_550));
    let answer = gateway.post(&tenant, CONSULT, &json!({"external_id": "order:1"})).await.expect(200).json();
    assert_eq!((&answer["type"], &answer["transaction"]["status"]), (&json!("charge"), &json!("paid")));
    let said = json!({"status": null, "checked_at": NOON, "body": {"id": reference.simple().to_string()}});
    assert_eq!(answer["provider"], said);
    let shown = gateway.get(&tenant, &format!("{CHARGES}/{uuid}")).await.expect(200).json();
    assert_eq!(answer["transaction"], shown);

    gateway.provider.fake.questions_fail(Some(ProviderError::Indeterminate("secret of ours".into())));
    let both = json!({"uuid": uuid, "external_id": "order:1"});
    let answer = gateway.post(&tenant, CONSULT, &both).await.expect(200).json();
    let said = json!({"status": null, "checked_at": null, "body": null, "error": "provider_timeout"});
    assert_eq!((&answer["provider"], &answer["transaction"]), (&said, &shown));
    gateway.provider.fake.questions_fail(None);
    gateway.provider.fake.forgets(reference);
    let answer = gateway.post(&tenant, CONSULT, &json!({"uuid": uuid})).await.expect(200).json();
    assert_eq!(answer["provider"], json!({"status": "not_found", "checked_at": NOON, "body": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn consulting_wants_one_transaction() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let mut charge = charge_body();
    charge["external_id"] = json!("payout-1");
    let charge = gateway.post(&tenant, CHARGES, &charge).await.expect(201).text("uuid");
    let withdrawal = gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(201).text("uuid");
    let answer = gateway.post(&tenant, CONSULT, &json!({"external_id": "payout-1"})).await.expect(409);
    assert_eq!(answer.code(), "external_id_conflict");
    assert_eq!(answer.json()["uuids"], json!([charge, withdrawal]));
    let both = json!({"external_id": "payout-1", "uuid": withdrawal});
    assert_eq!(gateway.post(&tenant, CONSULT, &both).await.expect(200).text("type"), "withdrawal");
    for body in [
        json!({}),
        json!({"uuid": null, "external_id": null}),
        json!({"uuid": "x"}),
        json!({"uuid": 7}),
        json!({"uuid": charge, "external_id": "order:2"}),
    ] {
        assert_eq!(
            gateway.post(&tenant, CONSULT, &body).await.expect(422).code(),
            "validation_failed",
            "{body}"
        );
    }
    for body in [json!({"uuid": Uuid::from_u128(1).to_string()}), json!({"external_id": "nothing"})] {
        assert_eq!(gateway.post(&tenant, CONSULT, &body).await.expect(404).code(), "not_found", "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_unknown_type_has_to_be_there() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(2_000).await;
    let mut body = withdrawal_body();
    body["creditParty"]["keyType"] = json!("x");
    for (key, told) in [(json!(""), 2), (json!(" "), 2), (json!(null), 2), (json!("a"), 1)] {
        body["creditParty"]["key"] = key;
        let refused = gateway.post(&tenant, WITHDRAWALS, &body).await.expect(422).json();
        assert_eq!(refused["errors"].as_array().unwrap().len(), told, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_tells_what_a_withdrawal_would_cost_and_sends_nothing() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(2_000).await;
    gateway.services.set_fees(tenant.id, some_fees()).await;
    let quote = format!("{WITHDRAWALS}/quote");
    let answer = gateway.post(&tenant, &quote, &withdrawal_body()).await.expect(200);
    let told = json!({
        "accepted": true, "amount": 10, "fee": 0.5, "fee_version": 1, "total": 10.5, "currency": "BRL",
        "creditParty": {"name": "Bruno", "keyType": "EMAIL", "key": "bruno@example.com", "taxId": "52998224725"},
        "balance": {"available": 20, "held": 0, "owed": 0},
        "balance_after": {"available": 9.5, "held": 10.5, "owed": 0},
        "shortfall": 0, "limits": [], "duplicate_of": null, "replays": null, "refusal": null
    });
    assert_eq!(answer.json(), told);
    let listed = gateway.get(&tenant, WITHDRAWALS).await.expect(200).json();
    assert_eq!(listed["data"], json!([]));
    assert_eq!(gateway.get(&tenant, "/api/v1/balance").await.expect(200).json()["available"], json!(20));
    // The handle that the quote named is not taken.
    let made = gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(201).text("uuid");
    let again = gateway.post(&tenant, &quote, &withdrawal_body()).await.expect(200).json();
    assert_eq!((&again["accepted"], &again["replays"]), (&json!(false), &json!(made)));
    let mut other = withdrawal_body();
    other["amount"] = json!("9.50");
    let conflict = gateway.post(&tenant, &quote, &other).await.expect(200).json();
    assert_eq!(conflict["refusal"]["code"], json!("external_id_conflict"));
    other["external_id"] = json!("payout-2");
    let lacking = gateway.post(&tenant, &quote, &other).await.expect(200).json();
    let refused = json!({
        "status": 422, "code": "insufficient_balance",
        "detail": "the available balance does not cover the amount and its fee"
    });
    assert_eq!((&lacking["refusal"], &lacking["shortfall"]), (&refused, &json!(0.5)));
    assert_eq!(lacking["balance_after"], Value::Null);
    gateway.suspend(&tenant).await;
    let suspended = gateway.post(&tenant, &quote, &other).await.expect(200).json();
    assert_eq!(suspended["refusal"]["code"], json!("integrator_suspended"));
    other["creditParty"]["key"] = json!("nobody");
    other["creditParty"]["taxId"] = json!("1");
    let invalid = gateway.post(&tenant, &quote, &other).await.expect(422).json();
    assert_eq!(invalid["errors"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_may_be_called_as_the_path_of_quotes_is() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let path = format!("{WITHDRAWALS}/quote");
    assert_eq!(gateway.get(&tenant, &path).await.expect(404).code(), "not_found");
    let mut body = withdrawal_body();
    body["external_id"] = json!("quote");
    let uuid = gateway.post(&tenant, WITHDRAWALS, &body).await.expect(201).text("uuid");
    assert_eq!(gateway.get(&tenant, &path).await.expect(200).text("uuid"), uuid);
    assert_eq!(gateway.get(&tenant, &format!("{path}/evidence")).await.expect(200).status, 200);
    let head = gateway.send(Request::new("HEAD", &path).token(&tenant)).await.expect(200);
    assert_eq!(head.body, "");
    assert_eq!(gateway.post(&tenant, &path, &body).await.expect(200).text("replays"), uuid);
    let stranger = gateway.tenant(0).await;
    gateway.get(&stranger, &path).await.expect(404);
    for method in ["DELETE", "PUT"] {
        let refused = gateway.send(Request::new(method, &path).token(&tenant)).await.expect(405);
        assert_eq!(refused.header("allow"), Some("GET, HEAD, POST"), "{method}");
    }
    let told = gateway.send(Request::new("OPTIONS", &path).token(&tenant)).await.expect(204);
    assert_eq!(told.header("allow"), Some("GET, HEAD, POST"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_nobody_has_paid_is_canceled() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let uuid = gateway.post(&tenant, CHARGES, &charge_body()).await.expect(201).text("uuid");
    let cancel = |name: &str| {
        let path = format!("{CHARGES}/{name}");
        let (gateway, tenant) = (&gateway, &tenant);
        async move { gateway.send(Request::new("DELETE", &path).token(tenant)).await }
    };
    for _ in 0..2 {
        let canceled = cancel("order:1").await.expect(200).json();
        assert_eq!((&canceled["status"], &canceled["uuid"]), (&json!("canceled"), &json!(uuid)));
    }
    let mut body = charge_body();
    body["external_id"] = json!("order:2");
    let paid = gateway.post(&tenant, CHARGES, &body).await.expect(201).text("uuid");
    gateway.pay(&tenant, &paid, 1_550).await;
    assert_eq!(cancel(&paid).await.expect(409).code(), "invalid_state");
    assert_eq!(cancel("nobody-has-this").await.expect(404).code(), "not_found");
    body["external_id"] = json!("order:3");
    let stuck = gateway.post(&tenant, CHARGES, &body).await.expect(201).text("uuid");
    gateway.provider.fake.answers_next_removal(Err(ProviderError::Unavailable("down".into())));
    assert_eq!(cancel(&stuck).await.expect(503).code(), "provider_unavailable");
    gateway.provider.fake.answers_next_removal(Err(ProviderError::Indeterminate("slow".into())));
    assert_eq!(cancel(&stuck).await.expect(504).code(), "provider_timeout");
    assert_eq!(
        gateway.get(&tenant, &format!("{CHARGES}/{stuck}")).await.expect(200).text("status"),
        "pending"
    );
    assert_eq!(cancel(&stuck).await.expect(200).text("status"), "canceled");
    let put =
        gateway.send(Request::new("PUT", &format!("{CHARGES}/{stuck}")).token(&tenant)).await.expect(405);
    assert_eq!(put.header("allow"), Some("GET, HEAD, DELETE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_attached_is_shown_again_and_listed_by() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(10_000).await;
    for (path, mut body) in [(CHARGES, charge_body()), (WITHDRAWALS, withdrawal_body())] {
        let attached = json!({"order": "7", "shop.id": "a&b=c [d]"});
        body["metadata"] = attached.clone();
        let made = gateway.post(&tenant, path, &body).await.expect(201).json();
        assert_eq!(made["metadata"], attached);
        gateway.post(&tenant, path, &body).await.expect(200);
        body["metadata"] = json!({"order": "8"});
        assert_eq!(gateway.post(&tenant, path, &body).await.expect(409).code(), "external_id_conflict");
        body["external_id"] = json!("another");
        gateway.post(&tenant, path, &body).await.expect(201);
        for (query, count) in [
            ("metadata[order]=7", 1),
            ("metadata%5Border%5D=8", 1),
            ("metadata[order]=7&metadata[shop.id]=a%26b%3Dc%20%5Bd%5D", 1),
            ("metadata[order]=7&metadata[shop.id]=a", 0),
            ("per_page=1", 1),
        ] {
            let page = gateway.get(&tenant, &format!("{path}?{query}")).await.expect(200).json();
            assert_eq!(page["data"].as_array().unwrap().len(), count, "{query}");
        }
        body["external_id"] = json!("a third");
        body["metadata"] = json!({"order": "8"});
        gateway.post(&tenant, path, &body).await.expect(201);
        let page =
            gateway.get(&tenant, &format!("{path}?metadata[order]=8&per_page=1")).await.expect(200).json();
        let next = page["links"]["next"].as_str().unwrap().strip_prefix(BASE).unwrap();
        let page = gateway.get(&tenant, next).await.expect(200).json();
        assert_eq!(page["data"][0]["external_id"], "another");
        assert_eq!(page["data"].as_array().unwrap().len(), 1);
        for wrong in [
            json!("text"),
            json!({"a": 1}),
            json!({"a": ""}),
            json!({"a b": "c"}),
            json!({"a": null}),
            json!({"a": "x".repeat(501)}),
        ] {
            body["metadata"] = wrong;
            let refused = gateway.post(&tenant, path, &body).await.expect(422).json();
            let fields = refused["errors"].as_array().unwrap();
            assert_eq!(fields.len(), 1, "{refused}");
            let named = fields[0]["field"].as_str().unwrap();
            assert!(named == "metadata" || named.starts_with("metadata."), "{refused}");
        }
        body["metadata"] = json!({"a b": "c", "d e": "f", "g": 1, "h": 2, "i": "", "j": "x".repeat(501)});
        let refused = gateway.post(&tenant, path, &body).await.expect(422).json();
        let mut told: Vec<&str> = refused["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| error["code"].as_str().unwrap())
            .collect();
        told.sort_unstable();
        assert_eq!(told, ["invalid_format", "invalid_type", "required", "too_long"], "each mistake, once");
        let page =
            gateway.get(&tenant, &format!("{path}?metadata[a%20b]=7&metadata[]=1")).await.expect(422).json();
        assert_eq!(page["errors"].as_array().unwrap().len(), 1, "of all, the first");
    }
    // Filters that are long are in the links of the body, and in no header field that a proxy would refuse.
    let mut body = charge_body();
    let pairs: Vec<(String, String)> =
        (0..12).map(|number| (format!("k{number}"), "v".repeat(400))).collect();
    body["metadata"] = pairs.iter().cloned().collect();
    for name in ["long-1", "long-2"] {
        body["external_id"] = json!(name);
        gateway.post(&tenant, CHARGES, &body).await.expect(201);
    }
    let query: Vec<String> = pairs.iter().map(|(key, value)| format!("metadata[{key}]={value}")).collect();
    let page = gateway.get(&tenant, &format!("{CHARGES}?per_page=1&{}", query.join("&"))).await.expect(200);
    assert_eq!(page.header("link"), None);
    assert!(page.json()["links"]["next"].as_str().unwrap().len() > 4 * 1024);
    let mut body = charge_body();
    (body["metadata"], body["external_id"]) = (json!(7), json!("v2"));
    gateway.post(&tenant, "/v2/pix/qrcode", &body).await.expect(200);
}
