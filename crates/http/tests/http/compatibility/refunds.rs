//! `POST /v2/pix/refund`: `ID` in a body stands for what names the charge.

use super::{Client, QRCODE, REFUND, cases, text};

/// What a client calls a charge that it wants to send money of back.
#[derive(Clone, Copy)]
enum By {
    TransactionId,
    Uuid,
    UuidWithoutHyphens,
    EndToEndId,
}

/// A paid charge of 10.00: its `transactionId`, and what it is called.
async fn paid(client: &Client, by: By) -> (String, String) {
    let id = text(&client.done(QRCODE, r#"{"amount":10}"#).await, "transactionId").to_owned();
    let list = client.gateway.get(&client.tenant, "/api/v1/charges").await.expect(200).json();
    let uuid = text(&list["data"][0], "uuid").to_owned();
    let charge = client.gateway.pay(&client.tenant, &uuid, 1_000).await;
    let name = match by {
        By::TransactionId => id.clone(),
        By::UuidWithoutHyphens => uuid.replace('-', ""),
        By::Uuid => uuid,
        By::EndToEndId => charge.credited.unwrap().first.to_text(),
    };
    (id, name)
}

/// So much goes back, and the refund has this name.
async fn makes(by: By, body: &str, amount: &str, external_id: &str) {
    let client = Client::with(0).await;
    let (id, name) = paid(&client, by).await;
    let body = body.replace("ID", &name);
    let refund = client.done(REFUND, &body).await;
    assert_eq!(refund["statusCode"], 200);
    assert!(!text(&refund, "message").is_empty());
    assert_eq!(text(&refund, "transactionId"), id);
    assert_eq!(text(&refund, "external_id"), external_id);
    assert_eq!(refund["amount"].to_string(), amount);
    assert_eq!(text(&refund, "status"), "REFUNDED");
    assert_eq!(text(&client.consulted(text(&refund, "refundId")).await, "status"), "REFUNDED");
    if !external_id.is_empty() {
        assert_eq!(client.done(REFUND, &body).await["refundId"], refund["refundId"]);
    }
}

async fn refuses(body: &str, status: u16, code: &str) {
    let client = Client::with(0).await;
    let (_, name) = paid(&client, By::TransactionId).await;
    client.refused(REFUND, &body.replace("ID", &name), status, code).await;
}

cases!(makes {
    by_transaction_id: By::TransactionId, r#"{"pix_id":"ID"}"#, "10", "";
    by_uuid: By::Uuid, r#"{"pix_id":"ID"}"#, "10", "";
    by_uuid_without_hyphens: By::UuidWithoutHyphens, r#"{"pix_id":"ID"}"#, "10", "";
    by_end_to_end_id: By::EndToEndId, r#"{"pix_id":"ID"}"#, "10", "";
    a_part_as_a_number: By::TransactionId, r#"{"pix_id":"ID","amount":4.5}"#, "4.5", "";
    a_part_in_a_text: By::TransactionId, r#"{"pix_id":"ID","amount":"4.50","description":"item em falta"}"#, "4.5", "";
    external_id_with_a_colon: By::TransactionId, r#"{"pix_id":"ID","amount":4,"external_id":"devolucao:1"}"#, "4", "devolucao:1";
    external_id_is_a_whole_number: By::TransactionId, r#"{"pix_id":"ID","amount":4,"external_id":1}"#, "4", "1";
    texts_that_may_be_left_out_are_empty: By::TransactionId, r#"{"pix_id":"ID","amount":4,"external_id":"","description":""}"#, "4", "";
});

cases!(refuses {
    more_than_was_paid: r#"{"pix_id":"ID","amount":10.01}"#, 422, "refund_exceeds_paid";
    an_amount_of_null: r#"{"pix_id":"ID","amount":null}"#, 422, "invalid_amount";
    no_charge: r#"{"amount":1}"#, 422, "validation_failed";
    a_charge_that_nobody_has: r#"{"pix_id":"nothing"}"#, 404, "not_found";
});
