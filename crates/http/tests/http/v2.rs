//! The v2 endpoints: their answers to the letter. The shapes that clients send are in `compatibility`.

use pix_conformance::Answer as Told;
use pix_domain::provider::{Progress, ProviderError};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Gateway, Request, Tenant, withdrawal_body};

const QRCODE: &str = "/v2/pix/qrcode";
const PAYMENT: &str = "/v2/pix/payment";
const REFUND: &str = "/v2/pix/refund";
const CONSULT: &str = "/v2/consult-transaction";

/// The public id behind a `transactionId` of the fake provider.
fn simple(answer: &Answer) -> String {
    answer.text("id")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_is_answered_with_the_providers_body_under_the_contract() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = json!({
        "amount": 15.00, "external_id": 42, "postbackUrl": "https://loja.example/x", "payerQuestion": "ok?",
        "payer": {"name": "Ana", "document": "000.000.000-00", "email": "", "phone": "+5511999999999"}
    });
    let answer = gateway.post(&tenant, QRCODE, &body).await.expect(200);
    let id = simple(&answer);
    assert_eq!(
        answer.json(),
        json!({
            "transactionId": format!("fake-{id}"), "external_id": "42", "status": "PENDING", "amount": 15,
            "calendar": {"expiration": 3000, "dueDate": "2026-01-15 09:50:00"},
            "debtor": {"name": "Ana", "document": "00000000000"},
            "qrcode": format!("fake-qr-code-of-{id}"), "emvqrcps": format!("fake-qr-code-of-{id}"), "id": id
        })
    );
    assert!(answer.body.contains(r#""amount":15,"#), "{}", answer.body);

    // Again: the same charge, and what became of it meanwhile.
    gateway.pay(&tenant, &id, 1500).await;
    let again = gateway.post(&tenant, QRCODE, &body).await.expect(200).json();
    assert_eq!((&again["transactionId"], &again["status"]), (&json!(format!("fake-{id}")), &json!("PAID")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_of_a_bare_amount_has_empty_texts_and_never_null() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let answer =
        gateway.post(&tenant, QRCODE, &json!({"amount": "0.10", "expiration": 60})).await.expect(200).json();
    assert_eq!(answer["external_id"], "");
    assert_eq!(answer["debtor"], json!({"name": "", "document": ""}));
    assert_eq!(answer["calendar"], json!({"expiration": 60, "dueDate": "2026-01-15 09:01:00"}));
    assert_eq!(answer["amount"], json!(0.1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_does_with_a_charge_is_told_by_status_and_code() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    for (told, status, code) in [
        (Told::Reject, 422, "provider_rejected"),
        (Told::Unavailable, 503, "provider_unavailable"),
        (Told::LostAnswer, 504, "provider_timeout"),
    ] {
        gateway.provider.fake.answers_next_charge(told);
        let body = json!({"amount": 1, "external_id": format!("order-{status}")});
        let answer = gateway.post(&tenant, QRCODE, &body).await.expect(status);
        assert_eq!(answer.code(), code);
        assert_eq!(answer.header("retry-after").is_some(), status == 503);
    }
    // A refusal sticks to its handle; an unknown end is asked for again under the same reference.
    for (external_id, status) in [("order-422", 422), ("order-504", 200)] {
        let body = json!({"amount": 1, "external_id": external_id});
        gateway.post(&tenant, QRCODE, &body).await.expect(status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_answered_with_the_providers_body_under_the_contract() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    gateway.provider.fake.answers_next(Told::Accept);
    let answer = gateway.post(&tenant, PAYMENT, &withdrawal_body()).await.expect(200);
    let id = simple(&answer);
    let told = json!({
        "statusCode": 200, "message": "Payment accepted", "transactionId": format!("fake-{id}"),
        "external_id": "payout-1", "status": "PENDING", "outcome": "certain", "amount": 10, "id": id
    });
    assert_eq!(answer.json(), told);
    let again = gateway.post(&tenant, PAYMENT, &withdrawal_body()).await.expect(200);
    assert_eq!(again.json(), told);
    assert_eq!(gateway.provider.fake.total_sends(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_the_provider_refuses_is_406_for_ever() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    for told in [Told::Reject, Told::Fail] {
        gateway.provider.fake.answers_next(told);
        let mut body = withdrawal_body();
        body["external_id"] = json!(format!("{told:?}"));
        for _ in 0..2 {
            let answer = gateway.post(&tenant, PAYMENT, &body).await.expect(406);
            assert_eq!(
                answer.without_request_id(),
                json!({
                    "statusCode": 406, "message": "the operation failed: the fake provider was told to refuse",
                    "code": "provider_rejected", "providerCode": "fake_refusal"
                })
            );
        }
    }
    assert_eq!(gateway.services.balances(tenant.id).await, (10_000_000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_without_a_known_end_is_pending_and_uncertain() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    gateway.provider.fake.answers_next(Told::LostRequest);
    let answer = gateway.post(&tenant, PAYMENT, &withdrawal_body()).await.expect(200).json();
    assert_eq!((&answer["status"], &answer["outcome"]), (&json!("PENDING"), &json!("uncertain")));
    assert_eq!(answer["transactionId"].as_str().unwrap().len(), 32);
    gateway.provider.fake.answers_next(Told::Unavailable);
    let body = json!({"amount": 1, "creditParty": withdrawal_body()["creditParty"]});
    let answer = gateway.post(&tenant, PAYMENT, &body).await.expect(200).json();
    assert_eq!((&answer["status"], &answer["outcome"]), (&json!("PENDING"), &json!("certain")));
    assert_eq!(answer["external_id"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_payment_have_their_statuses() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(1_000).await;
    let with = |name: &str, value: Value| {
        let mut body = withdrawal_body();
        body[name] = value;
        body
    };
    let code = |answer: Answer, status| answer.expect(status).code();
    let more = with("amount", json!("10.01"));
    assert_eq!(code(gateway.post(&tenant, PAYMENT, &more).await, 422), "insufficient_balance");
    gateway.post(&tenant, PAYMENT, &withdrawal_body()).await.expect(200);
    let other = with("amount", json!(9));
    assert_eq!(code(gateway.post(&tenant, PAYMENT, &other).await, 409), "external_id_conflict");
    gateway.suspend(&tenant).await;
    let new = with("external_id", json!("payout-2"));
    assert_eq!(code(gateway.post(&tenant, PAYMENT, &new).await, 403), "integrator_suspended");
    // What was sent before is still shown.
    gateway.post(&tenant, PAYMENT, &withdrawal_body()).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_problem_is_told_as_one_sentence() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    for (change, code, message) in [
        (json!({"amount": 10.555}), "invalid_amount", "amount must have at most 2 decimals"),
        (json!({"amount": null}), "invalid_amount", "amount must be a decimal number such as 10.50"),
        (json!({"creditParty": {"keyType": "CPF", "key": "1"}}), "invalid_pix_key", "PIX key must be a CPF"),
        (json!({"creditParty": {"keyType": "X", "key": "1"}}), "validation_failed", "keyType must be one of"),
        (json!({"creditParty": "x"}), "validation_failed", "creditParty must be an object"),
        (json!({"creditParty": null}), "validation_failed", "creditParty.keyType is required"),
        (json!({"description": "a\u{202e}b"}), "validation_failed", "description must not contain control"),
        (json!({"external_id": ["x"]}), "validation_failed", "external_id must be a string"),
        (json!({"postbackUrl": "ftp://x"}), "validation_failed", "postbackUrl must start with"),
    ] {
        let mut body = withdrawal_body();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = gateway.post(&tenant, PAYMENT, &body).await.expect(422);
        assert_eq!(answer.code(), code, "{change}");
        assert!(answer.text("message").starts_with(message), "{} is not {message}", answer.text("message"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.json().as_object().unwrap().len(), 4);
    }
    assert_eq!(gateway.provider.fake.total_sends(), 0);
}

async fn paid(gateway: &Gateway, tenant: &Tenant, cents: i64) -> String {
    let body = json!({"amount": format!("{}.{:02}", cents / 100, cents % 100)});
    let id = simple(&gateway.post(tenant, QRCODE, &body).await.expect(200));
    gateway.pay(tenant, &id, cents).await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_is_answered_with_the_providers_body_under_the_contract() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let charge = paid(&gateway, &tenant, 1000).await;
    let body = json!({"pix_id": format!("fake-{charge}"), "amount": 4, "description": "troca", "external_id": "r-1"});
    let answer = gateway.post(&tenant, REFUND, &body).await.expect(200);
    let id = simple(&answer);
    let told = json!({
        "statusCode": 200, "message": "Refund accepted", "transactionId": format!("fake-{charge}"),
        "refundId": format!("fake-{id}"), "external_id": "r-1", "amount": 4, "status": "REFUNDED",
        "outcome": "certain", "id": id
    });
    assert_eq!(answer.json(), told);
    assert_eq!(gateway.post(&tenant, REFUND, &body).await.expect(200).json(), told);

    // By our own id, what is left; then there is nothing left.
    let hyphenated = Uuid::try_parse(&charge).unwrap().to_string();
    let rest = gateway.post(&tenant, REFUND, &json!({"pix_id": hyphenated})).await.expect(200).json();
    assert_eq!((&rest["amount"], &rest["external_id"]), (&json!(6), &json!("")));
    let answer = gateway.post(&tenant, REFUND, &json!({"pix_id": charge, "amount": 1})).await.expect(422);
    assert_eq!(answer.code(), "refund_exceeds_paid");
    let answer = gateway.post(&tenant, CONSULT, &json!({"pix_id": charge})).await.expect(200).json();
    assert_eq!(answer["status"], "REFUNDED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_refund_while_the_first_is_live_needs_a_handle() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let charge = paid(&gateway, &tenant, 1000).await;
    gateway.provider.fake.answers(Told::LostRequest);
    let body = json!({"pix_id": charge, "amount": 4});
    let first = gateway.post(&tenant, REFUND, &body).await.expect(200).json();
    assert_eq!((&first["status"], &first["outcome"]), (&json!("PENDING"), &json!("uncertain")));
    let twin = gateway.post(&tenant, REFUND, &body).await.expect(409);
    assert_eq!(twin.code(), "possible_duplicate");
    assert_eq!(twin.text("uuid").replace('-', ""), first["refundId"].as_str().unwrap());
    let keyed = |key: &'static str| {
        let request = Request::post(REFUND, &body.to_string()).token(&tenant);
        gateway.send(request.header("Idempotency-Key", key))
    };
    let second = keyed("\"k1\"").await.expect(200).text("refundId");
    assert_ne!(first["refundId"], json!(second));
    assert_eq!(keyed("k1").await.expect(200).text("refundId"), second);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_paid_charge_can_not_be_refunded() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let unpaid = simple(&gateway.post(&tenant, QRCODE, &json!({"amount": 1})).await.expect(200));
    let payment = gateway.post(&tenant, PAYMENT, &withdrawal_body()).await.expect(200);
    for id in [unpaid, payment.text("transactionId")] {
        let answer = gateway.post(&tenant, REFUND, &json!({"pix_id": id})).await.expect(409);
        assert_eq!(answer.code(), "invalid_state");
    }
    for id in [json!("nothing"), json!("a b"), json!("\0"), json!("x".repeat(200)), json!(42)] {
        assert_eq!(
            gateway.post(&tenant, REFUND, &json!({"pix_id": id})).await.expect(404).code(),
            "not_found"
        );
    }
    for body in [json!({}), json!({"pix_id": ""}), json!({"pix_id": []})] {
        assert_eq!(gateway.post(&tenant, REFUND, &body).await.expect(422).code(), "validation_failed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consulted_charge_is_wrapped_and_flat() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = json!({
        "amount": 10, "external_id": "o-1", "payer": {"name": "Ana", "document": "52998224725", "email": "a@b.co"}
    });
    let id = simple(&gateway.post(&tenant, QRCODE, &body).await.expect(200));
    let fields = |status: &str, approved: Value, debit: Value, paid: u32| {
        json!({
            "transactionType": "RECEIVEPIX", "transactionId": format!("fake-{id}"), "external_id": "o-1", "amount": 10,
            "paymentType": "PIX", "status": status, "dateApproval": approved,
            "creditParty": {"name": "Ana", "taxId": "52998224725", "email": "a@b.co"}, "debitParty": debit,
            "amount_paid": paid
        })
    };
    let wrapped = |fields: Value| {
        let mut flat = fields.clone();
        flat["requestBody"] = fields;
        flat["id"] = json!(id);
        flat
    };
    let answer = gateway.post(&tenant, CONSULT, &json!({"pix_id": id})).await.expect(200);
    assert_eq!(answer.json(), wrapped(fields("PENDING", Value::Null, json!({}), 0)));

    let charge = gateway.pay(&tenant, &id, 1000).await;
    let payer = json!({"name": "Ana Souza", "taxId": "52998224725"});
    let told = wrapped(fields("PAID", json!("2026-01-15 09:00:00"), payer, 10));
    let end_to_end_id = charge.credited.unwrap().first.to_text();
    for body in [
        json!({"pix_Id": format!("fake-{id}")}),
        json!({"pix_id": Uuid::try_parse(&id).unwrap().to_string()}),
        json!({"pix_id": end_to_end_id}),
    ] {
        assert_eq!(gateway.post(&tenant, CONSULT, &body).await.expect(200).json(), told, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consult_says_what_was_paid_beside_what_was_asked_for() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let id = simple(&gateway.post(&tenant, QRCODE, &json!({"amount": 50})).await.expect(200));
    gateway.pay(&tenant, &id, 1).await;
    gateway.provider.fake.questions_fail(Some(ProviderError::Unavailable("away".into())));
    let told = gateway.post(&tenant, CONSULT, &json!({"pix_id": id})).await.expect(200).json();
    for part in [&told, &told["requestBody"]] {
        assert_eq!(
            (&part["status"], &part["amount"], &part["amount_paid"]),
            (&json!("PAID"), &json!(50), &json!(0.01))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn consulting_learns_what_happened_and_shows_our_state_when_nobody_answers() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    gateway.provider.fake.answers_next(Told::Accept);
    let id = simple(&gateway.post(&tenant, PAYMENT, &withdrawal_body()).await.expect(200));
    gateway.provider.fake.questions_fail(Some(ProviderError::Unavailable("secret of ours".into())));
    let answer = gateway.post(&tenant, CONSULT, &json!({"pix_id": format!("fake-{id}")})).await.expect(200);
    assert_eq!(answer.text("status"), "PENDING");
    assert!(!answer.body.contains("secret of ours"));

    gateway.provider.fake.questions_fail(None);
    gateway.provider.fake.knows(Uuid::try_parse(&id).unwrap(), Progress::Completed);
    let answer =
        gateway.post(&tenant, CONSULT, &json!({"pix_id": format!("fake-{id}")})).await.expect(200).json();
    let fields = json!({
        "transactionType": "PAYMENT", "transactionId": format!("fake-{id}"), "external_id": "payout-1", "amount": 10,
        "paymentType": "PIX", "status": "PAID", "outcome": "certain", "dateApproval": "2026-01-15 09:00:00",
        "creditParty":
            {"name": "Bruno", "taxId": "52998224725", "keyType": "EMAIL", "key": "bruno@example.com"},
        "debitParty": {}
    });
    assert_eq!(answer["requestBody"], fields);
    assert_eq!(
        gateway.post(&tenant, CONSULT, &json!({"pix_id": "nothing"})).await.expect(404).code(),
        "not_found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consulted_refund_says_that_it_is_one() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let charge = paid(&gateway, &tenant, 1000).await;
    let refund = gateway.post(&tenant, REFUND, &json!({"pix_id": charge})).await.expect(200).text("refundId");
    let answer = gateway.post(&tenant, CONSULT, &json!({"pix_id": refund})).await.expect(200).json();
    assert_eq!(answer["requestBody"]["transactionType"], "REFUND");
    assert_eq!((&answer["status"], &answer["amount"]), (&json!("REFUNDED"), &json!(10)));
}
