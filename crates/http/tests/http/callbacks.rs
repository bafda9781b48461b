//! Callbacks of the provider: believed in nothing.

use std::time::Duration;

use pix_conformance::Answer as Told;
use pix_domain::provider::{Progress, ProviderError};
use serde_json::json;
use uuid::Uuid;

use crate::support::{CALLBACK_SECRET, Gateway, Request, withdrawal_body};

async fn callback(gateway: &Gateway, secret: &str, body: &str) -> crate::support::Answer {
    gateway.send(Request::post(&format!("/callbacks/{secret}"), body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_makes_the_provider_be_asked_and_its_answer_counts() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    gateway.provider.fake.answers_next(Told::Accept);
    let uuid =
        gateway.post(&tenant, "/api/v1/withdrawals", &withdrawal_body()).await.expect(201).text("uuid");
    let path = format!("/api/v1/withdrawals/{uuid}");
    let reference = Uuid::try_parse(&uuid).unwrap();

    // It claims a failure; the provider says that nothing is decided.
    let claim = json!({"requestBody": {"external_id": reference.simple().to_string(), "status": "FAILED"}});
    let answer = callback(&gateway, CALLBACK_SECRET, &claim.to_string()).await.expect(200);
    assert_eq!(answer.body, r#"{"received":true}"#);
    gateway.until_asked(reference, 1).await;
    assert_eq!(gateway.get(&tenant, &path).await.expect(200).text("status"), "processing");

    gateway.provider.fake.knows(reference, Progress::Completed);
    let claim = json!({"external_id": uuid, "status": "FAILED", "amount": 1});
    for _ in 0..2 {
        callback(&gateway, CALLBACK_SECRET, &claim.to_string()).await.expect(200);
    }
    gateway.until_status(&tenant, &path, "completed").await;
    assert_eq!(gateway.services.balances(tenant.id).await, (10_000_000 - 1_000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_about_nothing_we_know_is_received() {
    let gateway = Gateway::start().await;
    for body in [
        json!({"external_id": Uuid::from_u128(1).to_string()}),
        json!({"external_id": "chg-1"}),
        json!({"requestBody": []}),
        json!({}),
    ] {
        callback(&gateway, CALLBACK_SECRET, &body.to_string()).await.expect(200);
    }
    for body in ["", "[]", "<html>", "{\"external_id\":1,\"external_id\":2}"] {
        assert_eq!(callback(&gateway, CALLBACK_SECRET, body).await.expect(400).code(), "malformed_request");
    }
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    callback(&gateway, CALLBACK_SECRET, &long).await.expect(413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_is_kept_while_the_provider_can_not_be_asked() {
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    gateway.provider.fake.answers_next(Told::Accept);
    let uuid =
        gateway.post(&tenant, "/api/v1/withdrawals", &withdrawal_body()).await.expect(201).text("uuid");
    let (reference, path) = (Uuid::try_parse(&uuid).unwrap(), format!("/api/v1/withdrawals/{uuid}"));
    gateway.provider.fake.questions_fail(Some(ProviderError::Unavailable("down".into())));
    let body = json!({"external_id": uuid}).to_string();
    callback(&gateway, CALLBACK_SECRET, &body).await.expect(200);
    gateway.until_asked(reference, 1).await;
    gateway.provider.fake.questions_fail(None);
    gateway.provider.fake.knows(reference, Progress::Completed);
    // It is taken up again by whoever looks for what is due: here, by us.
    let service = &gateway.services.callbacks;
    let taken = loop {
        gateway.services.wait(Duration::from_secs(5));
        let mut taken = service.claim(10).await.unwrap();
        match taken.pop() {
            Some(claimed) => break claimed,
            None => tokio::task::yield_now().await,
        }
    };
    service.process(taken).await.unwrap();
    assert_eq!(gateway.get(&tenant, &path).await.expect(200).text("status"), "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_callbacks_than_the_limit_are_to_be_sent_again_and_the_api_does_not_notice() {
    let gateway = Gateway::with(|config| config.callbacks_per_second = 1, None).await;
    let tenant = gateway.rich().await;
    let junk = json!({"external_id": Uuid::from_u128(7).to_string()}).to_string();
    let mut refused = 0;
    for _ in 0..50 {
        let answer = callback(&gateway, CALLBACK_SECRET, &junk).await;
        if answer.status == 503 {
            assert!(answer.header("retry-after").is_some());
            refused += 1;
        } else {
            answer.expect(200);
        }
        gateway.get(&tenant, "/api/v1/balance").await.expect(200);
    }
    assert!(refused > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_secret_is_an_unknown_path() {
    let gateway = Gateway::start().await;
    let unknown = gateway.send(Request::post("/nothing/here", "{}")).await.expect(404).without_request_id();
    for secret in ["wrong", "an-unguessable-segmenT", "an-unguessable-segment2", "%00"] {
        assert_eq!(
            callback(&gateway, secret, "{}").await.expect(404).without_request_id(),
            unknown,
            "{secret}"
        );
    }
    let request = Request::new("GET", "/callbacks/an-unguessable-segment");
    assert_eq!(gateway.send(request).await.expect(404).without_request_id(), unknown);
}
