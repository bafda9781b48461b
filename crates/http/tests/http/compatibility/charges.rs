//! `POST /v2/pix/qrcode`.

use serde_json::{Value, json};

use super::{Client, QRCODE, cases, is_local_time, text};

/// A charge of 15.55 is made, and is as told; where nothing is told, as an amount alone would make it. Asked for again by
/// its name, it is the same one.
async fn makes(body: &str, told: &Value) {
    let client = Client::with(0).await;
    let charge = client.done(QRCODE, body).await;
    let or = |name: &str, usual: Value| told.get(name).cloned().unwrap_or(usual);
    let id = text(&charge, "transactionId");
    assert!(!id.is_empty());
    // One branch of the family shows the one, another the other.
    assert_eq!(text(&charge, "qrcode"), text(&charge, "emvqrcps"));
    assert!(!text(&charge, "qrcode").is_empty());
    assert_eq!(text(&charge, "status"), "PENDING");
    assert_eq!(charge["amount"].to_string(), "15.55");
    assert_eq!(charge["external_id"], or("external_id", json!("")), "{body}");
    assert_eq!(charge["debtor"], or("debtor", json!({"name": "", "document": ""})), "{body}");
    assert_eq!(charge["calendar"]["expiration"], or("expiration", json!(3000)), "{body}");
    assert!(is_local_time(text(&charge["calendar"], "dueDate")), "{charge}");
    assert_eq!(text(&client.consulted(id).await, "transactionId"), id);
    if charge["external_id"] != "" {
        assert_eq!(client.done(QRCODE, body).await["transactionId"], charge["transactionId"]);
    }
}

/// It is refused, and nothing is made.
async fn refuses(body: &str, code: &str) {
    let client = Client::with(0).await;
    client.refused(QRCODE, body, 422, code).await;
    let list = client.gateway.get(&client.tenant, "/api/v1/charges").await.expect(200).json();
    assert_eq!(list["data"], json!([]), "{body}");
}

fn debtor(name: &str, document: &str) -> Value {
    json!({"debtor": {"name": name, "document": document}})
}

cases!(makes {
    an_amount_alone: r#"{"amount":15.55}"#, &json!({});
    an_amount_in_a_text: r#"{"amount":"15.55"}"#, &json!({});
    external_id_with_a_colon: r#"{"amount":15.55,"external_id":"loja:42:pedido"}"#, &json!({"external_id": "loja:42:pedido"});
    external_id_of_other_visible_characters: r#"{"amount":15.55,"external_id":"nº 7/ção #1?&=%"}"#, &json!({"external_id": "nº 7/ção #1?&=%"});
    external_id_is_a_whole_number: r#"{"amount":15.55,"external_id":42}"#, &json!({"external_id": "42"});
    external_id_is_a_big_whole_number: r#"{"amount":15.55,"external_id":98765432109876543210}"#, &json!({"external_id": "98765432109876543210"});
    external_id_is_null: r#"{"amount":15.55,"external_id":null}"#, &json!({});
    external_id_is_empty: r#"{"amount":15.55,"external_id":""}"#, &json!({});
    a_key_with_a_blank_behind_is_another_one: r#"{"amount":15.55,"external_id ":"o-1","payer ":{"name":"Ana"}}"#, &json!({});
    unknown_fields: r#"{"amount":15.55,"currency":"USD","payer":{"name":"Ana","age":7}}"#, &debtor("Ana", "");
    payer_is_null: r#"{"amount":15.55,"payer":null}"#, &json!({});
    payer_is_empty: r#"{"amount":15.55,"payer":{}}"#, &json!({});
    payer_is_the_empty_array_of_php: r#"{"amount":15.55,"payer":[]}"#, &json!({});
    payer_in_full: r#"{"amount":15.55,"payer":{"name":"Ana Souza","document":"529.982.247-25","email":"ana@example.com","phone":"11987654321"}}"#, &debtor("Ana Souza", "52998224725");
    payer_with_empty_texts: r#"{"amount":15.55,"payer":{"name":"","document":"","email":"","phone":""}}"#, &json!({});
    phone_with_the_country: r#"{"amount":15.55,"payer":{"name":"Ana","phone":"+5511987654321"}}"#, &debtor("Ana", "");
    phone_without_the_country: r#"{"amount":15.55,"payer":{"name":"Ana","phone":"(11) 98765-4321"}}"#, &debtor("Ana", "");
    phone_is_a_number: r#"{"amount":15.55,"payer":{"name":"Ana","phone":11987654321}}"#, &debtor("Ana", "");
    document_is_a_filler_of_zeros: r#"{"amount":15.55,"payer":{"document":"000.000.000-00"}}"#, &debtor("", "00000000000");
    document_is_a_filler_of_ones: r#"{"amount":15.55,"payer":{"document":"11111111111"}}"#, &debtor("", "11111111111");
    document_is_a_filler_that_counts: r#"{"amount":15.55,"payer":{"document":"12345678900"}}"#, &debtor("", "12345678900");
    document_is_a_number: r#"{"amount":15.55,"payer":{"document":12345678909}}"#, &debtor("", "12345678909");
    document_is_a_firms: r#"{"amount":15.55,"payer":{"document":"11.222.333/0001-81"}}"#, &debtor("", "11222333000181");
    document_is_a_firms_with_letters: r#"{"amount":15.55,"payer":{"document":"12.abc.345/01de-35"}}"#, &debtor("", "12ABC34501DE35");
    email_is_a_filler: r#"{"amount":15.55,"payer":{"name":"Ana","email":"none"}}"#, &debtor("Ana", "");
    texts_that_may_be_left_out_are_empty: r#"{"amount":15.55,"postbackUrl":"","payerQuestion":""}"#, &json!({});
    texts_that_may_be_left_out_are_null: r#"{"amount":15.55,"postbackUrl":null,"payerQuestion":null,"expiration":null}"#, &json!({});
    a_postback_url_and_a_question: r#"{"amount":15.55,"postbackUrl":"https://loja.example/pix?token=1&x=a%20b","payerQuestion":"Pedido 42"}"#, &json!({});
    expiration_is_a_number: r#"{"amount":15.55,"expiration":60}"#, &json!({"expiration": 60});
    expiration_is_a_text: r#"{"amount":15.55,"expiration":"86400"}"#, &json!({"expiration": 86400});
    split_is_null: r#"{"amount":15.55,"split":null}"#, &json!({});
    split_is_empty: r#"{"amount":15.55,"split":[]}"#, &json!({});
    split_is_false: r#"{"amount":15.55,"split":false}"#, &json!({});
});

cases!(refuses {
    no_amount: "{}", "invalid_amount";
    an_amount_of_nothing: r#"{"amount":0}"#, "invalid_amount";
    an_amount_below_nothing: r#"{"amount":"-1.00"}"#, "invalid_amount";
    an_amount_with_three_decimals: r#"{"amount":15.555}"#, "invalid_amount";
    an_amount_with_three_decimals_of_which_one_is_nothing: r#"{"amount":15.550}"#, "invalid_amount";
    an_amount_with_a_comma: r#"{"amount":"15,55"}"#, "invalid_amount";
    an_amount_that_is_empty: r#"{"amount":""}"#, "invalid_amount";
    a_document_of_another_length: r#"{"amount":15.55,"payer":{"document":"1234"}}"#, "validation_failed";
    a_question_that_is_too_long: &format!(r#"{{"amount":15.55,"payerQuestion":"{}"}}"#, "x".repeat(141)), "validation_failed";
    // One that is left out would be money of others.
    a_split_with_its_percentage_in_a_text: r#"{"amount":15.55,"split":[{"username":"nobody","percentageSplit":"10.5"}]}"#, "validation_failed";
    a_split_with_its_percentage_as_a_number: r#"{"amount":15.55,"split":[{"username":"nobody","percentageSplit":10.5}]}"#, "validation_failed";
    a_split_to_somebody_whom_nobody_knows: r#"{"amount":15.55,"split":[{"username":"019c0000-0000-7000-8000-000000000001","percentageSplit":"10.5"}]}"#, "validation_failed";
});
