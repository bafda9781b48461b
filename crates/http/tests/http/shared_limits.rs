//! Limits that nodes keep together, on a real Redis server, and what holds while it is away.

use std::time::Duration;

use pix_http::{HttpConfig, RateStore};
use pix_pg_server::RedisServer;
use serde_json::json;

use crate::logs::Lines;
use crate::support::{Answer, Gateway, Request};

/// How long a node may wait for the store where that is not what is tested.
const LONG: Duration = Duration::from_secs(20);

const TOKEN: &str = "/v2/oauth/token";

/// Clients are who they say; at the token endpoint each has two requests, and another one after half a minute.
async fn node(url: &str, timeout: Duration) -> Gateway {
    let change = |config: &mut HttpConfig| {
        config.rate_token_per_minute = 2;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        config.rate_store = Some(RateStore::new(url, timeout).unwrap());
    };
    Gateway::with(change, None).await
}

async fn sign_in(node: &Gateway, client: &str) -> Answer {
    node.send(Request::post(TOKEN, "{}").header("X-Forwarded-For", client)).await
}

/// Asks with ever new clients until two nodes count one of them together.
async fn until_shared(one: &Gateway, two: &Gateway) {
    let deadline = tokio::time::Instant::now() + LONG;
    for client in 0.. {
        let client = format!("203.0.113.{}", client % 256);
        sign_in(one, &client).await;
        sign_in(one, &client).await;
        if sign_in(two, &client).await.status == 429 {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "never shared again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_count_a_client_together() {
    let redis = RedisServer::start().unwrap();
    let (one, two) = (node(&redis.url(), LONG).await, node(&redis.url(), LONG).await);
    let answer = sign_in(&one, "198.51.100.1").await.expect(401);
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""token";q=2;w=60"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""token";r=1;t=30"#));
    let answer = sign_in(&two, "198.51.100.1").await.expect(401);
    assert_eq!(answer.header("ratelimit"), Some(r#""token";r=0;t=60"#));
    for node in [&one, &two] {
        let answer = sign_in(node, "198.51.100.1").await.expect(429);
        assert_eq!(answer.code(), "rate_limited");
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&seconds), "{seconds}");
        assert_eq!(answer.header("ratelimit"), Some(format!(r#""token";r=0;t={seconds}"#).as_str()));
    }
    sign_in(&two, "198.51.100.2").await.expect(401);
    // Who it was, nobody can read there, and all of it goes by itself.
    let keys = redis.ask(&["KEYS", "*"]).unwrap();
    assert_eq!(keys.lines().count(), 2);
    for key in keys.lines() {
        assert!(key.starts_with("pix:rate:token:") && !key.contains("198.51"), "{key}");
        let left_ms: u64 = redis.ask(&["PTTL", key]).unwrap().parse().unwrap();
        assert!((1..=60_001).contains(&left_ms), "{left_ms}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_count_a_token_and_its_key_together() {
    let redis = RedisServer::start().unwrap();
    let url = redis.url();
    let start = || {
        let change = |config: &mut HttpConfig| {
            (config.rate_api_per_minute, config.rate_api_burst) = (1, 2);
            config.rate_key_per_minute = Some(2);
            config.rate_store = Some(RateStore::new(&url, LONG).unwrap());
        };
        Gateway::with(change, None)
    };
    let (one, two) = (start().await, start().await);
    // The same token of the same key, on stores of their own.
    let (tenant, same) = (one.tenant(0).await, two.tenant(0).await);
    assert_eq!(tenant.token, same.token);
    let answer = one.get(&tenant, "/api/v1/balance").await.expect(200);
    assert_eq!(answer.header("ratelimit"), Some(r#""api";r=1;t=60, "key";r=3;t=30"#));
    two.get(&tenant, "/api/v1/balance").await.expect(200);
    let answer = one.post(&tenant, "/v2/balance", &json!({})).await.expect(429);
    assert_eq!(answer.json()["statusCode"], 429);
    let other = one.token(tenant.id, &tenant.public_id, Duration::from_mins(7));
    let other = crate::support::Tenant { token: other, ..tenant.clone() };
    // What was refused was taken from neither of the two buckets.
    let answer = one.get(&other, "/api/v1/balance").await.expect(200);
    assert!(answer.header("ratelimit").unwrap().contains(r#""key";r=1;"#), "{:?}", answer.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_each_node_has_its_own_limits() {
    let lines = Lines::global();
    let mut redis = RedisServer::start().unwrap();
    let (one, two) = (node(&redis.url(), LONG).await, node(&redis.url(), LONG).await);
    sign_in(&one, "198.51.100.1").await.expect(401);
    redis.kill().unwrap();
    // The node's own bucket knows of the first.
    sign_in(&one, "198.51.100.1").await.expect(401);
    sign_in(&one, "198.51.100.1").await.expect(429);
    for status in [401, 401, 429, 429] {
        sign_in(&two, "198.51.100.1").await.expect(status);
    }
    redis.start_again().unwrap();
    until_shared(&one, &two).await;

    let store = format!("127.0.0.1:{}", redis.port());
    let told = lines.that(|line| line["fields"]["store"] == store.as_str());
    let of = |level: &str| told.iter().filter(|line| line["level"] == level).count();
    assert_eq!((of("WARN"), of("INFO")), (2, 4), "each says so once: {told:?}");
    assert!(!lines.text().contains(redis.password()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_holds_nobody_up() {
    let redis = RedisServer::start().unwrap();
    let short = Duration::from_millis(100);
    let (one, two) = (node(&redis.url(), short).await, node(&redis.url(), short).await);
    until_shared(&one, &two).await;
    redis.pause().unwrap();
    for node in [&one, &two] {
        for status in [401, 401, 429] {
            sign_in(node, "198.51.100.1").await.expect(status);
        }
    }
    redis.resume().unwrap();
    until_shared(&one, &two).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_there_at_the_start_is_used_when_it_comes() {
    let mut redis = RedisServer::start().unwrap();
    redis.kill().unwrap();
    let (one, two) = (node(&redis.url(), LONG).await, node(&redis.url(), LONG).await);
    for node in [&one, &two] {
        for status in [401, 401, 429] {
            sign_in(node, "198.51.100.1").await.expect(status);
        }
    }
    redis.start_again().unwrap();
    until_shared(&one, &two).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_refused_is_said_and_never_shown() {
    let lines = Lines::global();
    let redis = RedisServer::start().unwrap();
    let url = redis.url().replace(redis.password(), "canary-of-the-store");
    let node = node(&url, LONG).await;
    sign_in(&node, "198.51.100.1").await.expect(401);
    let store = format!("127.0.0.1:{}", redis.port());
    let deadline = tokio::time::Instant::now() + LONG;
    let told = loop {
        let told = lines.that(|line| line["fields"]["store"] == store.as_str());
        if !told.is_empty() {
            break told;
        }
        assert!(tokio::time::Instant::now() < deadline, "never said");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(told[0]["fields"]["why"], "it refused the password");
    assert!(!lines.text().contains("canary-of-the-store"));
}
