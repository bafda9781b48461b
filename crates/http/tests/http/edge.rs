//! What every answer has, and what is answered when nothing fits.

use std::sync::Arc;

use serde_json::json;

use crate::support::{BASE, CALLBACK_SECRET, Gateway, Request};

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_path_is_json_in_the_form_of_its_generation() {
    let gateway = Gateway::start().await;
    for path in ["/", "/nothing", "/v2", "/v2/", "/v2/nothing", "/v3/pix", "/apix", "/v2/balance/x"] {
        let answer = gateway.send(Request::post(path, "{}")).await.expect(404);
        let told = json!({"statusCode": 404, "message": "not found", "code": "not_found"});
        assert_eq!(answer.without_request_id(), told, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    for path in ["/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v2/charges", "/api/v1/charges/a/b"] {
        let answer = gateway.send(Request::new("GET", path)).await.expect(404);
        let told = json!({
            "type": format!("{BASE}/errors/not-found"), "title": "Not found", "status": 404, "detail": "not found",
            "code": "not_found"
        });
        assert_eq!(answer.without_request_id(), told, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slash_too_many_is_overlooked() {
    let gateway = Gateway::start().await;
    for path in ["//v2/balance", "/v2/balance/", "/v2//balance", "//api/v1/balance"] {
        let method = if path.contains("v1") { "GET" } else { "POST" };
        gateway.send(Request::new(method, path)).await.expect(401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_method_is_405_and_says_which_are_allowed() {
    let gateway = Gateway::start().await;
    for (method, path, allow) in [
        ("GET", "/v2/oauth/token", "POST"),
        ("GET", "/v2/pix/qrcode", "POST"),
        ("PUT", "/v2/pix/payment", "POST"),
        ("DELETE", "/v2/pix/refund", "POST"),
        ("GET", "/v2/balance", "POST"),
        ("GET", "/v2/consult-transaction", "POST"),
        ("PATCH", "/api/v1/charges", "GET, HEAD, POST"),
        ("POST", "/api/v1/charges/x", "GET, HEAD, DELETE"),
        ("DELETE", "/api/v1/withdrawals/quote", "GET, HEAD, POST"),
        ("DELETE", "/api/v1/withdrawals", "GET, HEAD, POST"),
        ("GET", "/api/v1/transactions/consult", "POST"),
        ("POST", "/health/live", "GET, HEAD"),
    ] {
        let answer = gateway.send(Request::new(method, path)).await.expect(405);
        assert_eq!(answer.header("allow"), Some(allow), "{path}");
        assert_eq!(answer.code(), "method_not_allowed");
        let options = gateway.send(Request::new("OPTIONS", path)).await.expect(204);
        assert_eq!(options.header("allow"), Some(allow), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_is_get_without_a_body() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let answer = gateway.send(Request::new("HEAD", "/api/v1/balance").token(&tenant)).await.expect(200);
    assert_eq!(answer.body, "");
    gateway.send(Request::new("HEAD", "/health/ready")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_a_request_id_and_the_security_headers() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let callback = format!("/callbacks/{CALLBACK_SECRET}");
    for (request, status) in [
        (Request::new("GET", "/health/live"), 200),
        (Request::new("GET", "/api/v1/balance").token(&tenant), 200),
        (Request::post("/v2/oauth/token", "{}"), 401),
        (Request::post(&callback, "{}"), 200),
        (Request::post("/v2/balance", ""), 401),
        (Request::new("GET", "/nothing"), 404),
        (Request::new("GET", "/v2/balance"), 405),
        (Request::post("/api/v1/charges", "{").token(&tenant), 400),
    ] {
        let answer = gateway.send(request.header("X-Request-Id", "order-7!")).await.expect(status);
        assert_eq!(answer.header("x-request-id"), Some("order-7!"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(
            answer.header("content-security-policy"),
            Some("default-src 'none'; frame-ancestors 'none'")
        );
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("strict-transport-security"), Some("max-age=31536000"));
        assert_eq!(answer.header("server"), None);
        assert_eq!(answer.header("access-control-allow-origin"), None);
        if status >= 400 {
            assert_eq!(answer.text("requestId"), "order-7!");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_are_told_to_use_tls_only_where_there_is_any() {
    let plain = |config: &mut pix_http::HttpConfig| config.public_url = "http://127.0.0.1:8080".to_owned();
    let gateway = Gateway::with(plain, None).await;
    let answer = gateway.send(Request::new("GET", "/health/live")).await.expect(200);
    assert_eq!(answer.header("strict-transport-security"), None);
    assert_eq!(answer.header("x-frame-options"), Some("DENY"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_out_of_form_is_replaced() {
    let gateway = Gateway::start().await;
    let long = "x".repeat(129);
    for given in [Some("a b"), Some("é"), Some(&long), Some(""), None] {
        let mut request = Request::new("GET", "/nothing");
        if let Some(given) = given {
            request = request.header("X-Request-Id", given);
        }
        let answer = gateway.send(request).await.expect(404);
        let id = answer.header("x-request-id").unwrap();
        assert_eq!(id.len(), 32, "{given:?}");
        assert_eq!(answer.text("requestId"), id);
    }
    let longest = "x".repeat(128);
    let answer = gateway.send(Request::new("GET", "/nothing").header("X-Request-Id", &longest)).await;
    assert_eq!(answer.header("x-request-id"), Some(longest.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn health_says_that_the_process_runs_and_the_store_answers() {
    let gateway = Gateway::start().await;
    assert_eq!(
        gateway.send(Request::new("GET", "/health/live")).await.expect(200).body,
        r#"{"status":"live"}"#
    );
    assert_eq!(
        gateway.send(Request::new("GET", "/health/ready")).await.expect(200).body,
        r#"{"status":"ready"}"#
    );
}

/// Says what it was told to say.
struct Says(bool);

#[async_trait::async_trait]
impl pix_http::Readiness for Says {
    async fn is_ready(&self) -> bool {
        self.0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_knows_says_whether_it_is_ready() {
    for (ready, status, body, retry_after) in
        [(true, 200, r#"{"status":"ready"}"#, None), (false, 503, r#"{"status":"unavailable"}"#, Some("1"))]
    {
        let knows = move |config: &mut pix_http::HttpConfig| config.readiness = Some(Arc::new(Says(ready)));
        let gateway = Gateway::with(knows, None).await;
        let answer = gateway.send(Request::new("GET", "/health/ready")).await.expect(status);
        assert_eq!((answer.body.as_str(), answer.header("retry-after")), (body, retry_after));
        gateway.send(Request::new("GET", "/health/live")).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_it_is_not_ready_and_requests_are_still_taken() {
    let stopping = pix_http::Stopping::default();
    let told = stopping.clone();
    let gateway = Gateway::with(move |config| config.stopping = told, None).await;
    let ready = || gateway.send(Request::new("GET", "/health/ready"));
    ready().await.expect(200);
    stopping.begin();
    assert_eq!(ready().await.expect(503).body, r#"{"status":"unavailable"}"#);
    gateway.send(Request::new("GET", "/health/live")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn cors_is_off_unless_an_origin_is_allowed() {
    let origin = "https://app.example";
    let gateway = Gateway::with(|config| config.cors_allow_origins = vec![origin.to_owned()], None).await;
    let preflight = |origin: &'static str| {
        let request = Request::new("OPTIONS", "/api/v1/charges").header("Origin", origin);
        gateway.send(request.header("Access-Control-Request-Method", "POST"))
    };
    let answer = preflight(origin).await.expect(204);
    assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    assert!(answer.header("access-control-allow-headers").unwrap().contains("Authorization"));
    assert_eq!(answer.header("vary"), Some("Origin"));
    let answer = preflight("https://evil.example").await.expect(204);
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let answer = gateway.send(Request::new("GET", "/nothing").header("Origin", origin)).await.expect(404);
    assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    assert_eq!(answer.header("access-control-allow-methods"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_out_of_bounds_binds_nothing() {
    let gateway = Gateway::start().await;
    assert!(gateway.address.port() > 0);
    let config = pix_http::HttpConfig::new(BASE, "short");
    assert_eq!(
        config.check().unwrap_err().to_string(),
        "callback_secret must have at least 16 letters, digits, '-' or '_'"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_refused_as_what_it_is() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let ask = |coding: &'static str| {
        let request = Request::post("/api/v1/charges", "{}").token(&tenant);
        gateway.send(request.header("Content-Encoding", coding))
    };
    let refused = ask("gzip").await.expect(400);
    assert_eq!(refused.code(), "malformed_request");
    assert!(refused.text("detail").contains("without Content-Encoding"), "{}", refused.body);
    for harmless in ["identity", "utf-8"] {
        ask(harmless).await.expect(422);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_in_portuguese_to_whoever_prefers_it() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let body = r#"{"amount": "1,5", "payer": {"document": "11111111111"}, "expiration": 1}"#;
    let ask = |language: &'static str, path: &'static str| {
        let request = Request::post(path, body).token(&tenant).header("Accept-Language", language);
        let gateway = &gateway;
        async move { gateway.send(request).await.expect(422) }
    };
    let told = ask("pt-BR,pt;q=0.9,en;q=0.8", "/api/v1/charges").await;
    assert_eq!(told.header("content-language"), Some("pt-BR"));
    let (told, english) = (told.json(), ask("en", "/api/v1/charges").await.json());
    assert_eq!(told["title"], "Falha de validação");
    let (fields, in_english) = (told["errors"].as_array().unwrap(), english["errors"].as_array().unwrap());
    assert_eq!((fields.len(), in_english.len()), (4, 4));
    for (field, other) in fields.iter().zip(in_english) {
        assert_eq!((&field["field"], &field["code"]), (&other["field"], &other["code"]));
        assert_ne!(field["message"], other["message"]);
    }
    assert_eq!(told["detail"], fields[0]["message"]);
    let flat = ask("pt", "/v2/pix/qrcode").await;
    assert_eq!(flat.header("content-language"), Some("pt-BR"));
    assert!(
        flat.text("message").starts_with("amount deve ser um número decimal como 10.50"),
        "{}",
        flat.body
    );
    assert_eq!(ask("de", "/v2/pix/qrcode").await.header("content-language"), Some("en"));
}
