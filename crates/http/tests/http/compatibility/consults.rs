//! `POST /v2/consult-transaction` and `POST /v2/balance`.

use std::time::Duration;

use pix_conformance::Answer as Told;
use pix_domain::charges::DEFAULT_EXPIRES_IN;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{BALANCE, CONSULT, Client, PAYMENT, QRCODE, REFUND, cases, is_local_time, text, wrapped};
use crate::support::{Answer, Request};

/// A transaction that comes to stand somewhere.
#[derive(Clone, Copy, PartialEq)]
enum One {
    NewCharge,
    PaidCharge,
    ExpiredCharge,
    CanceledCharge,
    RefundedCharge,
    NewPayment,
    PaidPayment,
    FailedPayment,
}

/// A charge of 10.00 without a name of its own: its `transactionId` and its uuid.
async fn charge(client: &Client) -> (String, String) {
    let id = text(&client.done(QRCODE, r#"{"amount":10}"#).await, "transactionId").to_owned();
    let list = client.gateway.get(&client.tenant, "/api/v1/charges").await.expect(200).json();
    (id, text(&list["data"][0], "uuid").to_owned())
}

/// What it is called.
async fn made(client: &Client, one: One) -> String {
    let party = r#"{"keyType":"EMAIL","key":"a@b.co"}"#;
    let payment = format!(r#"{{"amount":10,"creditParty":{party}}}"#);
    match one {
        One::NewPayment | One::PaidPayment => {
            let told = if one == One::NewPayment { Told::Accept } else { Told::Complete };
            client.gateway.provider.fake.answers_next(told);
            return text(&client.done(PAYMENT, &payment).await, "transactionId").to_owned();
        }
        One::FailedPayment => {
            client.gateway.provider.fake.answers_next(Told::Reject);
            client.refused(PAYMENT, &payment, 406, "provider_rejected").await;
            let list = client.gateway.get(&client.tenant, "/api/v1/withdrawals").await.expect(200).json();
            return text(&list["data"][0], "uuid").to_owned();
        }
        _ => {}
    }
    let (id, uuid) = charge(client).await;
    match one {
        One::PaidCharge => drop(client.gateway.pay(&client.tenant, &uuid, 1_000).await),
        One::RefundedCharge => {
            client.gateway.pay(&client.tenant, &uuid, 1_000).await;
            client.done(REFUND, &format!(r#"{{"pix_id":"{id}"}}"#)).await;
        }
        One::CanceledCharge => client.gateway.provider.fake.removes(Uuid::try_parse(&uuid).unwrap()),
        One::ExpiredCharge => client.gateway.services.wait(DEFAULT_EXPIRES_IN + Duration::from_secs(1)),
        _ => {}
    }
    id
}

/// The word for where it stands; and the other fields that clients read are there, and are what they take them for.
async fn stands(one: One, kind: &str, status: &str) {
    let client = Client::with(100_000).await;
    let id = made(&client, one).await;
    let told = client.consulted(&id).await;
    assert_eq!((text(&told, "transactionType"), text(&told, "status")), (kind, status), "{told}");
    assert!(one == One::FailedPayment || text(&told, "transactionId") == id);
    assert_eq!((text(&told, "external_id"), text(&told, "paymentType")), ("", "PIX"));
    assert_eq!(told["amount"].to_string(), "10");
    assert!(told["creditParty"].is_object() && told["debitParty"].is_object(), "{told}");
    let moved = matches!(status, "PAID" | "REFUNDED");
    assert_eq!(told["dateApproval"].as_str().is_some_and(is_local_time), moved, "{told}");
}

/// Both names of the field, and every form of the id, name the same charge.
async fn is_found(field: &str, form: fn(&str, &str) -> String) {
    let client = Client::with(0).await;
    let (id, uuid) = charge(&client).await;
    let told = client.done(CONSULT, &json!({field: form(&id, &uuid)}).to_string()).await;
    assert_eq!(text(&wrapped(told), "transactionId"), id);
}

async fn is_not_found(body: &str, status: u16, code: &str) {
    Client::with(0).await.refused(CONSULT, body, status, code).await;
}

/// The balance is a text with two decimals, whatever came.
async fn tells_the_balance(content_type: &str, body: &str) {
    for (cents, balance) in [(0, "0.00"), (123_450, "1234.50")] {
        let client = Client::with(cents).await;
        let mut request = Request::raw(BALANCE, body.as_bytes()).token(&client.tenant);
        if !content_type.is_empty() {
            request = request.header("Content-Type", content_type);
        }
        let answer: Answer = client.gateway.send(request).await.expect(200);
        assert_eq!(answer.body, format!(r#"{{"statusCode":200,"message":{{"balance":"{balance}"}}}}"#));
        assert_eq!(answer.json()["message"]["balance"], Value::from(balance));
    }
}

cases!(stands {
    a_new_charge_is_pending: One::NewCharge, "RECEIVEPIX", "PENDING";
    a_paid_charge_is_paid: One::PaidCharge, "RECEIVEPIX", "PAID";
    a_charge_past_its_time_is_expired: One::ExpiredCharge, "RECEIVEPIX", "EXPIRED";
    a_charge_that_was_removed_is_canceled: One::CanceledCharge, "RECEIVEPIX", "CANCELED";
    a_charge_that_went_back_is_refunded: One::RefundedCharge, "RECEIVEPIX", "REFUNDED";
    a_new_payment_is_pending: One::NewPayment, "PAYMENT", "PENDING";
    a_payment_that_is_done_is_paid: One::PaidPayment, "PAYMENT", "PAID";
    a_payment_that_was_refused_is_failed: One::FailedPayment, "PAYMENT", "FAILED";
});

cases!(is_found {
    pix_id_is_the_transaction_id: "pix_id", |id, _| id.to_owned();
    pix_id_with_a_capital_is_the_transaction_id: "pix_Id", |id, _| id.to_owned();
    pix_id_is_the_uuid: "pix_id", |_, uuid| uuid.to_owned();
    pix_id_is_the_uuid_without_hyphens: "pix_id", |_, uuid| uuid.replace('-', "");
    pix_id_is_the_uuid_in_capitals: "pix_id", |_, uuid| uuid.to_uppercase();
    pix_id_with_a_capital_is_the_uuid: "pix_Id", |_, uuid| uuid.to_owned();
});

cases!(is_not_found {
    an_id_that_nobody_has: r#"{"pix_id":"nothing"}"#, 404, "not_found";
    no_id: "{}", 422, "validation_failed";
    an_id_under_a_key_with_a_blank_behind: r#"{"pix_id ":"nothing"}"#, 422, "validation_failed";
});

cases!(tells_the_balance {
    balance_without_a_body: "", "";
    balance_with_an_empty_body_called_json: "application/json", "";
    balance_with_an_empty_object: "application/json", "{}";
    balance_with_an_empty_array: "application/json", "[]";
    balance_with_null: "application/json", "null";
    balance_with_a_form: "application/x-www-form-urlencoded", "a=b";
    balance_with_a_body_that_is_broken: "application/json", "{broken";
});
