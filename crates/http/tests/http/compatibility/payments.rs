//! `POST /v2/pix/payment`.

use pix_conformance::Answer as Told;
use serde_json::{Value, json};

use super::{Client, PAYMENT, cases, text};

/// What clients read of a payment that is under way.
fn accepted(payment: &Value, external_id: &str) -> String {
    assert_eq!(payment["statusCode"], 200, "{payment}");
    assert!(!text(payment, "message").is_empty());
    assert_eq!(text(payment, "status"), "PENDING");
    assert_eq!(text(payment, "external_id"), external_id);
    text(payment, "transactionId").to_owned()
}

/// A payment of 10.00 with these further fields is made, and has this name. Asked for again by it, it is the same one, and
/// nothing more is sent.
async fn makes(fields: &str, external_id: &str) {
    let client = Client::with(10_000).await;
    client.gateway.provider.fake.answers(Told::Accept);
    let body = format!(r#"{{"creditParty":{{"name":"Ana","keyType":"EMAIL","key":"a@b.co"}},{fields}}}"#);
    let payment = client.done(PAYMENT, &body).await;
    let id = accepted(&payment, external_id);
    assert_eq!(payment["amount"].to_string(), "10");
    if !external_id.is_empty() {
        assert_eq!(client.done(PAYMENT, &body).await["transactionId"], json!(id));
    }
    let told = client.consulted(&id).await;
    assert_eq!((text(&told, "transactionType"), text(&told, "external_id")), ("PAYMENT", external_id));
    assert_eq!(client.gateway.provider.fake.total_sends(), 1);
}

/// To whoever is written like this is paid, and the key is this one.
async fn pays_to(credit_party: &str, kind: &str, key: &str) {
    let client = Client::with(10_000).await;
    client.gateway.provider.fake.answers(Told::Accept);
    let payment = client.done(PAYMENT, &format!(r#"{{"amount":10,"creditParty":{credit_party}}}"#)).await;
    let told = client.consulted(&accepted(&payment, "")).await;
    let payee = &told["creditParty"];
    assert_eq!((text(payee, "keyType"), text(payee, "key")), (kind, key), "{credit_party}");
    assert!(payee["name"].is_string() && payee["taxId"].is_string(), "never null: {payee}");
}

/// Every one of these names is the type of such a key, in any case.
async fn is_the_type(names: &[&str], key: &str, kind: &str) {
    let client = Client::with(100_000).await;
    client.gateway.provider.fake.answers(Told::Accept);
    let capitals = |name: &str| name[..1].to_uppercase() + &name[1..].to_lowercase();
    for (place, name) in names.iter().enumerate() {
        for name in [(*name).to_owned(), name.to_lowercase(), capitals(name), format!(" {name} ")] {
            let body = json!({
                "amount": 10, "external_id": format!("{place}-{name}").trim(),
                "creditParty": {"name": "", "keyType": name, "key": key}
            });
            let payment = client.done(PAYMENT, &body.to_string()).await;
            let told = client.consulted(text(&payment, "transactionId")).await;
            assert_eq!(text(&told["creditParty"], "keyType"), kind, "{name}");
        }
    }
}

/// It is refused, not as one that is lost for ever, and nothing is sent.
async fn refuses(credit_party: &str, code: &str) {
    let client = Client::with(10_000).await;
    let body = format!(r#"{{"amount":10,"external_id":"p-1","creditParty":{credit_party}}}"#);
    client.refused(PAYMENT, &body, 422, code).await;
    assert_eq!(client.gateway.provider.fake.total_sends(), 0);
}

/// What the provider does with a payment: the status, and what is read of it, at once and whenever it is asked for again.
async fn ends(told: Told, status: u16, word: &str, held_cents: i64) {
    let client = Client::with(10_000).await;
    client.gateway.provider.fake.answers(told);
    let party = r#"{"name":"Ana","keyType":"CPF","key":"52998224725","taxId":"52998224725"}"#;
    let body = format!(r#"{{"amount":"10.00","external_id":"saque:1","creditParty":{party}}}"#);
    for _ in 0..2 {
        if status == 406 {
            let refused = client.refused(PAYMENT, &body, 406, "provider_rejected").await;
            assert!(text(&refused, "message").contains("told to refuse"), "{refused}");
        } else {
            let payment = client.done(PAYMENT, &body).await;
            assert_eq!((text(&payment, "status"), text(&payment, "external_id")), (word, "saque:1"));
        }
    }
    let (available, held) = client.gateway.services.balances(client.tenant.id).await;
    let gone = if word == "PAID" { 1_000 } else { 0 };
    assert_eq!((available, held), (10_000 - gone - held_cents, held_cents));
}

cases!(makes {
    an_amount_as_a_number: r#""amount":10,"external_id":"p-1""#, "p-1";
    an_amount_in_a_text: r#""amount":"10.00","external_id":"p-1""#, "p-1";
    external_id_with_a_colon: r#""amount":10,"external_id":"saque:7""#, "saque:7";
    external_id_is_a_whole_number: r#""amount":10,"external_id":7"#, "7";
    no_external_id: r#""amount":10"#, "";
    external_id_is_null: r#""amount":10,"external_id":null"#, "";
    external_id_is_empty: r#""amount":10,"external_id":"""#, "";
    a_key_with_a_blank_behind_is_another_one: r#""amount":10,"external_id ":"p-1","amount ":99"#, "";
    unknown_fields: r#""amount":10,"external_id":"p-1","type":"PIX","split":[]"#, "p-1";
    a_description_and_a_postback_url: r#""amount":10,"external_id":"p-1","description":"semana 1","postbackUrl":"https://loja.example/pix?token=1""#, "p-1";
    texts_that_may_be_left_out_are_empty: r#""amount":10,"external_id":"p-1","description":"","postbackUrl":"""#, "p-1";
});

cases!(pays_to {
    a_name_that_is_empty: r#"{"name":"","keyType":"CPF","key":"52998224725","taxId":"52998224725"}"#, "CPF", "52998224725";
    no_name_and_no_document: r#"{"keyType":"CPF","key":"52998224725"}"#, "CPF", "52998224725";
    a_name_and_a_document_of_null: r#"{"name":null,"keyType":"CPF","key":"52998224725","taxId":null}"#, "CPF", "52998224725";
    a_document_that_is_a_filler: r#"{"name":"Ana","keyType":"CPF","key":"52998224725","taxId":"00000000000"}"#, "CPF", "52998224725";
    a_key_with_a_blank_behind_its_name_is_another_one: r#"{"name":"Ana","keyType":"EMAIL","key":"a@b.co","key ":"x@y.co","keyType ":"CPF"}"#, "EMAIL", "a@b.co";
    a_key_with_blanks_around_it: r#"{"name":"Ana","keyType":"EMAIL","key":" a@b.co "}"#, "EMAIL", "a@b.co";
    cpf_with_points: r#"{"keyType":"CPF","key":"529.982.247-25"}"#, "CPF", "52998224725";
    cpf_is_a_number: r#"{"keyType":"CPF","key":52998224725}"#, "CPF", "52998224725";
    cnpj_with_points: r#"{"keyType":"CNPJ","key":"11.222.333/0001-81"}"#, "CNPJ", "11222333000181";
    cnpj_with_letters: r#"{"keyType":"CNPJ","key":"12abc34501de35"}"#, "CNPJ", "12ABC34501DE35";
    email_in_capitals: r#"{"keyType":"EMAIL","key":"Bruno@Example.COM"}"#, "EMAIL", "bruno@example.com";
    phone_with_the_country: r#"{"keyType":"PHONE","key":"+5511987654321"}"#, "PHONE", "+5511987654321";
    phone_with_the_country_and_no_plus: r#"{"keyType":"PHONE","key":"5511987654321"}"#, "PHONE", "+5511987654321";
    phone_without_the_country: r#"{"keyType":"PHONE","key":"11987654321"}"#, "PHONE", "+5511987654321";
    phone_as_people_write_it: r#"{"keyType":"PHONE","key":"(11) 98765-4321"}"#, "PHONE", "+5511987654321";
    phone_is_a_number: r#"{"keyType":"PHONE","key":11987654321}"#, "PHONE", "+5511987654321";
    phone_of_a_house: r#"{"keyType":"TELEFONE","key":"1132654321"}"#, "PHONE", "+551132654321";
    random_key_in_capitals: r#"{"keyType":"EVP","key":"123E4567-E12B-12D1-A456-426655440000"}"#, "EVP", "123e4567-e12b-12d1-a456-426655440000";
    random_key_without_hyphens: r#"{"keyType":"EVP","key":"123e4567e12b12d1a456426655440000"}"#, "EVP", "123e4567-e12b-12d1-a456-426655440000";
});

cases!(is_the_type {
    key_type_cpf: &["CPF"], "52998224725", "CPF";
    key_type_cnpj: &["CNPJ"], "11222333000181", "CNPJ";
    key_type_email: &["EMAIL"], "a@b.co", "EMAIL";
    key_type_phone_and_its_other_names: &["PHONE", "TELEFONE", "CELULAR"], "11987654321", "PHONE";
    key_type_evp_and_its_other_names: &["EVP", "RANDOM", "RANDOM_KEY", "ALEATORIA", "CHAVE_ALEATORIA"], "123e4567-e12b-12d1-a456-426655440000", "EVP";
});

cases!(refuses {
    a_key_type_that_is_none: r#"{"name":"Ana","keyType":"IBAN","key":"x"}"#, "validation_failed";
    no_key_type: r#"{"name":"Ana","key":"a@b.co"}"#, "validation_failed";
    a_key_that_does_not_fit_its_type: r#"{"name":"Ana","keyType":"CPF","key":"a@b.co"}"#, "invalid_pix_key";
    no_key: r#"{"name":"Ana","keyType":"CPF"}"#, "invalid_pix_key";
    no_payee: "null", "validation_failed";
});

cases!(ends {
    what_the_provider_accepts_is_pending: Told::Accept, 200, "PENDING", 1_000;
    what_the_provider_has_done_is_paid: Told::Complete, 200, "PAID", 0;
    what_the_provider_refuses_is_406: Told::Reject, 406, "FAILED", 0;
    what_failed_at_the_provider_is_406: Told::Fail, 406, "FAILED", 0;
    without_an_answer_it_is_pending: Told::LostRequest, 200, "PENDING", 1_000;
    with_the_answer_lost_it_is_pending: Told::LostAnswer, 200, "PENDING", 1_000;
    with_the_provider_away_it_is_pending: Told::Unavailable, 200, "PENDING", 1_000;
});

#[tokio::test(flavor = "multi_thread")]
async fn too_little_money_is_no_final_refusal() {
    let client = Client::with(500).await;
    let body = r#"{"amount":10,"external_id":"p-1","creditParty":{"keyType":"EMAIL","key":"a@b.co"}}"#;
    client.refused(PAYMENT, body, 422, "insufficient_balance").await;
}
