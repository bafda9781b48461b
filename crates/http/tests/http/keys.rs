//! What a key is good for, until when and from where; its two secrets; and what suspending its integrator stops.

use std::time::Duration;

use pix_conformance::Answer as Told;
use pix_domain::credentials::{KeyChange, Scope, Scopes, SecretHash};
use pix_domain::provider::Progress;
use pix_http::{ENDPOINTS, Endpoint};
use serde_json::{Value, json};

use crate::support::{Gateway, Request, Tenant};

const TOKEN: &str = "/v2/oauth/token";

fn only(scopes: Vec<Scope>) -> KeyChange {
    let names: Vec<_> = scopes.into_iter().map(Scope::as_str).collect();
    KeyChange { scopes: Scopes::parse(&names.join(" ")).ok(), ..KeyChange::default() }
}

fn from(range: &str) -> KeyChange {
    KeyChange { allowed_ips: Some(vec![range.parse().unwrap()]), ..KeyChange::default() }
}

fn sign_in(tenant: &Tenant, secret: &str) -> Request<'static> {
    let body = json!({"client_id": tenant.public_id, "client_secret": secret});
    Request::raw(TOKEN, body.to_string().as_bytes()).header("Content-Type", "application/json")
}

/// A request of that endpoint, for something that isn't there.
fn request(endpoint: &Endpoint, tenant: &Tenant) -> Request<'static> {
    let segments = endpoint.path.split('/');
    let named = segments.map(|segment| if segment.starts_with('{') { "nothing" } else { segment });
    let path: &'static str = Box::leak(named.collect::<Vec<_>>().join("/").into_boxed_str());
    let request = if endpoint.method == "POST" {
        Request::post(path, "{}")
    } else {
        Request::new(endpoint.method, path)
    };
    request.token(tenant)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_endpoint_is_open_to_its_scope_alone() {
    let gateway = Gateway::with(|config| config.rate_api_burst = 10_000, None).await;
    let tenant = gateway.tenant(0).await;
    for endpoint in &ENDPOINTS {
        gateway.change(&tenant, only(vec![endpoint.scope])).await;
        let answer = gateway.send(request(endpoint, &tenant)).await;
        assert!(!matches!(answer.status, 401 | 403 | 405 | 500), "{endpoint:?}: {}", answer.status);

        let others = Scope::ALL.into_iter().filter(|scope| *scope != endpoint.scope).collect();
        gateway.change(&tenant, only(others)).await;
        let answer = gateway.send(request(endpoint, &tenant)).await.expect(403);
        assert_eq!(answer.code(), "insufficient_scope", "{endpoint:?}");
        let scope = endpoint.scope.as_str();
        let challenge = format!(r#"Bearer realm="pix-gateway", error="insufficient_scope", scope="{scope}""#);
        assert_eq!(answer.header("www-authenticate"), Some(challenge.as_str()));
        let v1 = endpoint.path.starts_with("/api/");
        let form = if v1 { "application/problem+json" } else { "application/json" };
        assert_eq!(answer.header("content-type"), Some(form), "{endpoint:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_of_a_scope_before_it_is_known_who_asks() {
    let gateway = Gateway::with(|config| config.rate_api_burst = 10_000, None).await;
    let stranger = Tenant { token: "plain".into(), ..gateway.tenant(0).await };
    for endpoint in &ENDPOINTS {
        assert_eq!(gateway.send(request(endpoint, &stranger)).await.expect(401).code(), "invalid_token");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_a_scope_is_told_what_the_token_is_good_for() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    gateway.change(&tenant, only(vec![Scope::Read, Scope::ChargesWrite])).await;
    let body = format!("client_id={}&client_secret=secret&scope=balance:read", tenant.public_id);
    let answer = gateway.send(Request::raw(TOKEN, body.as_bytes())).await.expect(200);
    assert_eq!(answer.text("scope"), "charges:write read");
    let answer = gateway.send(sign_in(&tenant, "secret")).await.expect(200);
    assert_eq!(answer.json().get("scope"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_used_from_its_addresses_only_as_trusted_proxies_tell_them() {
    let proxied = |config: &mut pix_http::HttpConfig| {
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    };
    let gateway = Gateway::with(proxied, None).await;
    let tenant = gateway.tenant(0).await;
    gateway.change(&tenant, from("203.0.113.0/24")).await;
    let balance = || Request::new("GET", "/api/v1/balance").token(&tenant);
    for (client, status) in [("203.0.113.9", 200), ("203.0.114.9", 403), ("203.0.113.9, 198.51.100.1", 403)] {
        let answer = gateway.send(sign_in(&tenant, "secret").header("X-Forwarded-For", client)).await;
        let answer = answer.expect(status);
        if status == 403 {
            assert_eq!(
                answer.without_request_id(),
                json!({
                    "statusCode": 403, "message": "this key may not be used from this address",
                    "code": "ip_not_allowed", "error": "unauthorized_client"
                })
            );
        }
        let answer = gateway.send(balance().header("X-Forwarded-For", client)).await.expect(status);
        assert_eq!(status == 403, answer.json().get("code") == Some(&json!("ip_not_allowed")), "{client}");
    }
    // The peer itself is no client of the key, and a wrong secret learns nothing of it.
    gateway.send(balance()).await.expect(403);
    assert_eq!(gateway.send(sign_in(&tenant, "wrong")).await.expect(401).code(), "invalid_credentials");
    gateway.change(&tenant, KeyChange { allowed_ips: Some(Vec::new()), ..KeyChange::default() }).await;
    gateway.send(balance()).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_ends_by_itself_with_its_tokens() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let end = gateway.services.now().plus(Duration::from_mins(10));
    gateway.change(&tenant, KeyChange { expires_at: Some(Some(end)), ..KeyChange::default() }).await;
    let answer = gateway.send(sign_in(&tenant, "secret")).await.expect(200);
    assert_eq!(answer.json()["expires_in"], 600);
    gateway.get(&tenant, "/api/v1/balance").await.expect(200);
    gateway.services.wait(Duration::from_mins(10));
    assert_eq!(gateway.get(&tenant, "/api/v1/balance").await.expect(401).code(), "expired_token");
    assert_eq!(gateway.send(sign_in(&tenant, "secret")).await.expect(401).code(), "invalid_credentials");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_secrets_work_until_one_is_retired_with_its_tokens() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let keys = &gateway.services.stores.keys;
    let first = keys.find(&tenant.public_id).await.unwrap().unwrap().secrets;
    let two = first.clone().add(SecretHash("hash:other".into()), gateway.services.now()).unwrap();
    assert!(keys.replace_secrets(&tenant.public_id, first, two.clone()).await.unwrap());
    let mut tokens = Vec::new();
    for secret in ["secret", "other"] {
        let token = gateway.send(sign_in(&tenant, secret)).await.expect(200).text("access_token");
        tokens.push(Tenant { token, ..tenant.clone() });
    }
    for token in &tokens {
        gateway.get(token, "/api/v1/balance").await.expect(200);
    }
    let newer = two.clone().retire(1).unwrap();
    assert!(keys.replace_secrets(&tenant.public_id, two, newer).await.unwrap());
    gateway.send(sign_in(&tenant, "secret")).await.expect(401);
    gateway.send(sign_in(&tenant, "other")).await.expect(200);
    assert_eq!(gateway.get(&tokens[0], "/api/v1/balance").await.expect(401).code(), "invalid_token");
    gateway.get(&tokens[1], "/api/v1/balance").await.expect(200);
    keys.revoke(&tenant.public_id, gateway.services.now()).await.unwrap();
    gateway.get(&tokens[1], "/api/v1/balance").await.expect(401);
    gateway.send(sign_in(&tenant, "other")).await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_secret_is_refused_like_a_wrong_one() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let told = gateway.send(sign_in(&tenant, "wrong")).await.expect(401);
    let malformed = gateway.send(sign_in(&tenant, "malformed")).await.expect(401);
    assert_eq!(malformed.without_request_id(), told.without_request_id());
    assert_eq!(malformed.header("www-authenticate"), told.header("www-authenticate"));
}

/// Waits until a write that nobody waits for is there.
async fn last_used(gateway: &Gateway, tenant: &Tenant, at: pix_domain::time::Timestamp) {
    let seen = async {
        loop {
            let key = gateway.services.stores.keys.find(&tenant.public_id).await.unwrap().unwrap();
            if key.last_used_at == Some(at) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), seen).await.expect("the last use is written down");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_of_a_key_is_written_down_once_a_minute() {
    let gateway = Gateway::start().await;
    let (tenant, other) = (gateway.tenant(0).await, gateway.tenant(0).await);
    let first = gateway.services.now();
    gateway.send(sign_in(&tenant, "secret")).await.expect(200);
    last_used(&gateway, &tenant, first).await;
    gateway.services.wait(Duration::from_secs(59));
    gateway.get(&tenant, "/api/v1/balance").await.expect(200);
    // The other key's write comes after the one that must not have been made.
    gateway.get(&other, "/api/v1/balance").await.expect(200);
    last_used(&gateway, &other, gateway.services.now()).await;
    last_used(&gateway, &tenant, first).await;
    gateway.services.wait(Duration::from_secs(1));
    gateway.get(&tenant, "/api/v1/balance").await.expect(200);
    last_used(&gateway, &tenant, gateway.services.now()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_integrator_reads_and_charges_and_no_new_money_leaves() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(100_000).await;
    let charge = json!({"amount": 50, "payer": {"name": "Maria Silva", "document": "52998224725"}});
    let made = gateway.post(&tenant, "/api/v1/charges", &charge).await.expect(201);
    let charge_id = made.text("uuid");
    gateway.pay(&tenant, &charge_id, 5_000).await;
    gateway.provider.fake.answers_next(Told::LostAnswer);
    let withdrawal = |reais: &str| {
        json!({
            "amount": reais,
            "creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
        })
    };
    let sent = gateway.post(&tenant, "/api/v1/withdrawals", &withdrawal("7")).await.expect(201);
    assert_eq!(sent.text("outcome"), "uncertain");

    gateway.suspend(&tenant).await;
    let refunds = format!("/api/v1/charges/{charge_id}/refunds");
    let refused: [(&str, Value); 4] = [
        ("/api/v1/withdrawals", withdrawal("8")),
        (&refunds, json!({"amount": 1})),
        ("/v2/pix/payment", withdrawal("9")),
        ("/v2/pix/refund", json!({"pix_id": charge_id, "amount": 1})),
    ];
    for (path, body) in refused {
        assert_eq!(
            gateway.post(&tenant, path, &body).await.expect(403).code(),
            "integrator_suspended",
            "{path}"
        );
    }
    for endpoint in
        ENDPOINTS.iter().filter(|endpoint| matches!(endpoint.scope, Scope::Read | Scope::BalanceRead))
    {
        assert_ne!(gateway.send(request(endpoint, &tenant)).await.status, 403, "{endpoint:?}");
    }
    gateway.post(&tenant, "/api/v1/charges", &charge).await.expect(201);

    // What was on its way arrives.
    let id = uuid::Uuid::try_parse(&sent.text("uuid")).unwrap();
    gateway.provider.fake.knows(id, Progress::Completed);
    gateway.services.wait(Duration::from_mins(1));
    gateway.services.reconciler.run_once().await.unwrap();
    let shown = gateway.get(&tenant, &format!("/api/v1/withdrawals/{id}")).await.expect(200);
    assert_eq!(shown.text("status"), "completed");
}
