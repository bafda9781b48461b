//! Rate limits: one too many is refused, in the form of its generation, and never starves others.

use pix_domain::credentials::SecretHash;
use pix_domain::ids::IntegratorId;
use serde_json::json;
use uuid::Uuid;

use crate::support::{CALLBACK_SECRET, Gateway, Request, Tenant};

#[tokio::test(flavor = "multi_thread")]
async fn the_21st_token_call_of_a_minute_is_refused() {
    let gateway = Gateway::start().await;
    for left in (0..20).rev() {
        let answer = gateway.send(Request::post("/v2/oauth/token", "{}")).await.expect(401);
        if left == 19 {
            assert_eq!(answer.header("ratelimit-policy"), Some(r#""token";q=20;w=60"#));
            assert_eq!(answer.header("ratelimit"), Some(r#""token";r=19;t=3"#));
            assert_eq!(answer.header("x-ratelimit-limit"), None);
        }
    }
    // Header fields of the caller change nothing: it is the same address.
    let request = Request::post("/v2/oauth/token", "{}")
        .header("X-Forwarded-For", "198.51.100.7")
        .header("Authorization", "Bearer x");
    let answer = gateway.send(request).await.expect(429);
    assert_eq!(answer.code(), "rate_limited");
    assert_eq!(answer.json()["statusCode"], 429);
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3).contains(&seconds));
    assert_eq!(answer.header("ratelimit"), Some(format!(r#""token";r=0;t={seconds}"#).as_str()));
    assert_eq!(answer.header("x-ratelimit-after"), None);
    assert!(answer.header("x-request-id").is_some());
    // The rest is open.
    let tenant = gateway.tenant(0).await;
    gateway.post(&tenant, "/v2/balance", &json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_token_has_its_own_limit_and_the_error_has_the_form_of_its_generation() {
    let slow = |config: &mut pix_http::HttpConfig| {
        config.rate_api_per_minute = 1;
        config.rate_api_burst = 2;
    };
    let gateway = Gateway::with(slow, None).await;
    let (one, two) = (gateway.tenant(0).await, gateway.tenant(0).await);
    gateway.get(&one, "/api/v1/balance").await.expect(200);
    gateway.post(&one, "/v2/balance", &json!({})).await.expect(200);
    let answer = gateway.get(&one, "/api/v1/balance").await.expect(429);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(
        (answer.code().as_str(), answer.json()["title"].as_str()),
        ("rate_limited", Some("Too many requests"))
    );
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=2;w=120"#));
    gateway.get(&two, "/api/v1/balance").await.expect(200);
    // Neither callbacks nor health checks are counted.
    for _ in 0..5 {
        gateway.send(Request::post(&format!("/callbacks/{CALLBACK_SECRET}"), "{}")).await.expect(200);
        gateway.send(Request::new("GET", "/health/ready")).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_made_up_anew_for_each_call_exhaust_their_address() {
    let gateway = Gateway::with(|config| config.rate_api_burst = 3, None).await;
    let mut statuses = Vec::new();
    for number in 0..5 {
        let nobody = IntegratorId(Uuid::from_u128(number));
        let token = gateway.token(nobody, "nobody", std::time::Duration::from_mins(1));
        let request =
            Request::new("GET", "/api/v1/balance").header("Authorization", &format!("Bearer {token}"));
        statuses.push(gateway.send(request).await.status);
    }
    assert_eq!(statuses[..3], [401; 3]);
    assert!(statuses[3..].contains(&429), "{statuses:?}");
    let tenant = gateway.tenant(0).await;
    gateway.get(&tenant, "/api/v1/balance").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_token_has_no_bucket_and_counts_for_the_address_at_once() {
    let gateway = Gateway::with(|config| config.rate_api_burst = 3, None).await;
    for number in 0..3 {
        let random = format!("Bearer v4.local.{number}");
        let request = Request::post("/v2/balance", "{}").header("Authorization", &random);
        let answer = gateway.send(request).await.expect(401);
        assert!(answer.header("ratelimit").unwrap().starts_with(&format!(r#""api";r={};"#, 2 - number)));
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=3;w=1"#));
    }
    for request in [
        Request::post("/v2/balance", "{}").header("Authorization", "Bearer another"),
        Request::post("/v2/balance", "{}").header("Authorization", "Basic YTpi"),
        Request::post("/v2/balance", "{}"),
    ] {
        let answer = gateway.send(request).await.expect(429);
        assert_eq!(answer.header("ratelimit"), Some(r#""api";r=0;t=1"#));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    let tenant = gateway.tenant(0).await;
    gateway.post(&tenant, "/v2/balance", &json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_tokens_of_a_key_have_a_limit_together() {
    let slow = |config: &mut pix_http::HttpConfig| {
        config.rate_api_per_minute = 1;
        config.rate_api_burst = 2;
        config.rate_key_per_minute = Some(2);
    };
    let gateway = Gateway::with(slow, None).await;
    let tenant = gateway.tenant(0).await;
    let tokens = [60, 61, 62].map(|minutes| {
        let token = gateway.token(tenant.id, &tenant.public_id, std::time::Duration::from_mins(minutes));
        Tenant { token, ..tenant.clone() }
    });
    for (token, left) in [(0, 3), (0, 2), (1, 1), (1, 0)] {
        let answer = gateway.get(&tokens[token], "/api/v1/balance").await.expect(200);
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=2;w=120, "key";q=4;w=120"#));
        let told = answer.header("ratelimit").unwrap();
        assert!(told.contains(&format!(r#""key";r={left};"#)), "{told}");
    }
    let answer = gateway.get(&tokens[2], "/api/v1/balance").await.expect(429);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "one each half minute: {seconds}");
    let told = answer.header("ratelimit").unwrap();
    assert_eq!(told, format!(r#""api";r=1;t=60, "key";r=0;t={seconds}"#));
    // Another key of the same integrator is another client.
    let other = gateway.tenant(0).await;
    gateway.get(&other, "/api/v1/balance").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_of_no_use_any_more_take_nothing_from_their_key() {
    let slow = |config: &mut pix_http::HttpConfig| {
        config.rate_api_per_minute = 1;
        config.rate_api_burst = 10;
        config.rate_key_per_minute = Some(1);
    };
    let gateway = Gateway::with(slow, None).await;
    let owner = gateway.tenant(0).await;
    let keys = &gateway.services.stores.keys;
    let first = keys.find(&owner.public_id).await.unwrap().unwrap().secrets;
    let both = first.clone().add(SecretHash("hash:newer".into()), gateway.services.now()).unwrap();
    assert!(keys.replace_secrets(&owner.public_id, first, both.clone()).await.unwrap());
    let newer = both.clone().retire(1).unwrap();
    assert!(keys.replace_secrets(&owner.public_id, both, newer).await.unwrap());
    let left = async || {
        let body = json!({"client_id": owner.public_id, "client_secret": "newer"});
        let token = gateway.post(&owner, "/v2/oauth/token", &body).await.expect(200).text("access_token");
        let answer = gateway.get(&Tenant { token, ..owner.clone() }, "/api/v1/balance").await.expect(200);
        answer.header("ratelimit").unwrap().split(r#""key";r="#).nth(1).unwrap().to_owned()
    };
    let before = left().await;
    for minutes in 60..66 {
        // Of the secret that was retired.
        let token = gateway.token(owner.id, &owner.public_id, std::time::Duration::from_mins(minutes));
        gateway.get(&Tenant { token, ..owner.clone() }, "/api/v1/balance").await.expect(401);
    }
    let number = |told: &str| told.split(';').next().unwrap().parse::<u32>().unwrap();
    assert_eq!(number(&left().await), number(&before) - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_there_are_no_more_buckets_a_newcomer_gets_a_used_one() {
    let few = |config: &mut pix_http::HttpConfig| {
        config.rate_token_per_minute = 2;
        config.rate_buckets = 2;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    };
    let gateway = Gateway::with(few, None).await;
    let call = |client: &'static str| {
        gateway.send(Request::post("/v2/oauth/token", "{}").header("X-Forwarded-For", client))
    };
    call("198.51.100.1").await.expect(401);
    call("198.51.100.2").await.expect(401);
    call("198.51.100.1").await.expect(401);
    // The second was idle since, and had one request left: whoever changes addresses wins nothing by it.
    call("198.51.100.3").await.expect(401);
    call("198.51.100.3").await.expect(429);
    call("198.51.100.1").await.expect(429);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_trusted_proxy_each_client_has_its_own_limit() {
    let proxied = |config: &mut pix_http::HttpConfig| {
        config.rate_token_per_minute = 1;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    };
    let gateway = Gateway::with(proxied, None).await;
    let call = |client: &'static str| {
        gateway.send(Request::post("/v2/oauth/token", "{}").header("X-Forwarded-For", client))
    };
    call("198.51.100.1").await.expect(401);
    call("203.0.113.5, 198.51.100.1").await.expect(429);
    call("198.51.100.2").await.expect(401);
}
