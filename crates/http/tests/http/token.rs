//! `POST /v2/oauth/token`: its answers to the letter. The shapes that clients send are in `compatibility`.

use std::time::Duration;

use serde_json::json;

use crate::support::{Gateway, Request, Tenant};

pub const PATH: &str = "/v2/oauth/token";

pub fn basic(user: &str, password: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encoded: String = format!("{user}:{password}")
        .as_bytes()
        .chunks(3)
        .flat_map(|chunk| {
            let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - chunk.len()));
            let digit = move |place: usize| {
                if place <= chunk.len() {
                    ALPHABET[usize::try_from(bits >> (18 - 6 * place) & 63).unwrap()].into()
                } else {
                    '='
                }
            };
            (0..4).map(digit).collect::<Vec<char>>()
        })
        .collect();
    format!("Basic {encoded}")
}

fn body(tenant: &Tenant, names: (&str, &str), secret: &str) -> String {
    json!({names.0: tenant.public_id, names.1: secret}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_one_and_the_same_answer() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let revoked = gateway.tenant(0).await;
    assert!(gateway.services.stores.keys.revoke(&revoked.public_id, gateway.services.now()).await.unwrap());
    let told = json!({
        "statusCode": 401, "message": "Invalid credentials", "code": "invalid_credentials", "error": "invalid_client"
    });
    for request in [
        Request::post(PATH, &body(&tenant, ("client_id", "client_secret"), "wrong")),
        Request::post(PATH, &body(&revoked, ("client_id", "client_secret"), "secret")),
        Request::post(PATH, r#"{"client_id":"nobody","client_secret":"secret"}"#),
        Request::post(PATH, r#"{"client_id":"nobody"}"#),
        Request::post(PATH, "{}"),
        Request::post(PATH, "").header("Authorization", &basic(&tenant.public_id, "wrong")),
        Request::post(PATH, "").header("Authorization", "Basic ???"),
        // The header wins, even over a body that is right.
        Request::post(PATH, &body(&tenant, ("client_id", "client_secret"), "secret"))
            .header("Authorization", &basic("nobody", "x")),
    ] {
        let answer = gateway.send(request).await.expect(401);
        assert_eq!(answer.without_request_id(), told);
        assert_eq!(answer.header("www-authenticate"), Some(r#"Basic realm="pix-gateway", charset="UTF-8""#));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_type_that_is_no_text_or_is_named_twice_is_refused_with_the_words_of_oauth() {
    let gateway = Gateway::start().await;
    for (body, error) in [
        (r#"{"grant_type":"","client_id":"a","client_secret":"b","grant_type":"x"}"#, "invalid_request"),
        (r#"{"grant_type":7,"client_id":"a","client_secret":"b"}"#, "unsupported_grant_type"),
    ] {
        let answer = gateway.send(Request::post(PATH, body)).await.expect(400);
        assert_eq!(answer.text("error"), error, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_needed_and_can_not_be_read_is_malformed() {
    let gateway = Gateway::start().await;
    for body in ["{broken", "grant_type=x", "\u{FEFF}{}"] {
        let answer = gateway.send(Request::post(PATH, body)).await.expect(400);
        assert_eq!(
            (answer.code(), answer.text("error")),
            ("malformed_request".into(), "invalid_request".into())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_authorization_headers_are_refused() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let header = basic(&tenant.public_id, "secret");
    let request = Request::post(PATH, "").header("Authorization", &header).header("Authorization", &header);
    assert_eq!(gateway.send(request).await.expect(400).code(), "malformed_request");
    let request = Request::new("GET", "/api/v1/balance").token(&tenant).token(&tenant);
    assert_eq!(gateway.send(request).await.expect(400).code(), "malformed_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_hasher_is_503_and_a_panic_is_500_without_detail() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let answer =
        gateway.send(Request::post(PATH, &body(&tenant, ("client_id", "client_secret"), "overload"))).await;
    let answer = answer.expect(503);
    assert_eq!((answer.code().as_str(), answer.header("retry-after")), ("overloaded", Some("1")));
    let answer =
        gateway.send(Request::post(PATH, &body(&tenant, ("client_id", "client_secret"), "panic"))).await;
    let told = json!({"statusCode": 500, "message": "internal error", "code": "internal"});
    assert_eq!(answer.expect(500).without_request_id(), told);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_opens_both_generations_until_it_ends_or_its_key_is_revoked() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    gateway.get(&tenant, "/api/v1/balance").await.expect(200);
    gateway.post(&tenant, "/v2/balance", &json!({})).await.expect(200);
    gateway.services.wait(Duration::from_hours(1));
    let answer = gateway.get(&tenant, "/api/v1/balance").await.expect(401);
    assert_eq!(answer.code(), "expired_token");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(
        answer.header("www-authenticate"),
        Some(
            r#"Bearer realm="pix-gateway", error="invalid_token", error_description="the access token has expired""#
        )
    );
    let tenant = gateway.tenant(0).await;
    gateway.services.stores.keys.revoke(&tenant.public_id, gateway.services.now()).await.unwrap();
    assert_eq!(gateway.post(&tenant, "/v2/balance", &json!({})).await.expect(401).code(), "invalid_token");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_nothing_is_told_but_the_realm() {
    let gateway = Gateway::start().await;
    for request in [
        Request::post("/v2/pix/qrcode", "{broken"),
        Request::new("GET", "/api/v1/charges"),
        Request::new("GET", "/api/v1/charges").header("Authorization", "Basic eA=="),
        Request::new("GET", "/api/v1/charges").header("Authorization", "Bearer"),
    ] {
        let answer = gateway.send(request).await.expect(401);
        assert_eq!(answer.header("www-authenticate"), Some(r#"Bearer realm="pix-gateway""#));
        assert_eq!(answer.code(), "invalid_token");
    }
}
