//! Keys as an operator runs them, from the command line, beside a gateway that serves.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::time::{Duration, Instant};

use pix_tests::{Client, Database, Gateway, Integrator};
use serde_json::{Value, json};

/// How long something may take that nobody waits for.
const SOON: Duration = Duration::from_secs(20);

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// What a command that must fail says.
fn refused(gateway: &Gateway, arguments: &[&str]) -> String {
    let output = gateway.cli(arguments).unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_rotated_while_both_secrets_work() {
    let gateway = Gateway::start(Database::Sqlite, &[("PIX_CACHE_TTL_MS", "0")]).unwrap();
    let old = gateway.integrator("Loja Um").unwrap();
    let id = old.public_id.as_str();
    let before = Client::new(&gateway, &old).await.unwrap();
    assert!(refused(&gateway, &["key", "retire", id, "--older"]).contains("the only one that works"));

    let rotated = gateway.cli_json(&["key", "rotate", id, "--json"]).unwrap();
    let new = Integrator { secret: text(&rotated["secret"]), ..old.clone() };
    assert_eq!((&rotated["secrets"][0]["number"], &rotated["secrets"][1]["number"]), (&json!(1), &json!(2)));
    assert!(refused(&gateway, &["key", "rotate", id]).contains("retire one first"));
    assert!(refused(&gateway, &["key", "retire", id]).contains("--older"));
    let after = Client::new(&gateway, &new).await.unwrap();
    assert!(Client::new(&gateway, &old).await.is_ok());

    gateway.cli_json(&["key", "retire", id, "--older", "--json"]).unwrap();
    assert_eq!(after.get("/api/v1/charges").await.unwrap().0, 200);
    assert_eq!(before.get("/api/v1/charges").await.unwrap().0, 401, "the old secret's tokens end with it");
    assert!(Client::new(&gateway, &old).await.is_err());
    assert!(Client::new(&gateway, &new).await.is_ok());
    assert!(refused(&gateway, &["key", "retire", id, "--secret", "1"]).contains("no secret 1"));

    gateway.cli_json(&["key", "rotate", id, "--json"]).unwrap();
    gateway.cli_json(&["key", "retire", id, "--secret", "3", "--json"]).unwrap();
    assert_eq!(after.get("/api/v1/charges").await.unwrap().0, 200);
    gateway.cli_json(&["key", "revoke", id, "--json"]).unwrap();
    assert_eq!(after.get("/api/v1/charges").await.unwrap().0, 401);
    assert!(refused(&gateway, &["key", "rotate", id]).contains("is revoked"));
    let told = refused(&gateway, &["key", "revoke", &old.secret]);
    assert!(told.contains("public_id") && !told.contains(&old.secret), "{told}");

    let log = gateway.cli_json(&["audit-log", "list", "--json"]).unwrap();
    let acts: Vec<_> = log.as_array().unwrap().iter().map(|entry| text(&entry["action"])).collect();
    assert_eq!(
        acts[acts.len() - 5..],
        ["key.secret_added", "key.secret_retired", "key.secret_added", "key.secret_retired", "key.revoked"]
    );
    assert!(!log.to_string().contains(&new.secret));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_narrowed_down_and_widened_again() {
    let gateway = Gateway::start(Database::Sqlite, &[("PIX_CACHE_TTL_MS", "0")]).unwrap();
    let one = gateway.integrator("Loja Um").unwrap();
    let create = ["key", "create", "--integrator", &one.uuid, "--json"];
    let narrow = ["--scopes", "read,charges:write", "--expires-in-days", "1", "--allow-ip", "127.0.0.0/8"];
    let made = gateway.cli_json(&[&create[..], &narrow].concat()).unwrap();
    assert_eq!(made["scopes"], json!(["charges:write", "read"]));
    assert_eq!(made["allowed_ips"], json!(["127.0.0.0/8"]));
    assert!(made["expires_at"].is_string() && made["last_used_at"].is_null(), "{made}");
    let id = text(&made["public_id"]);
    let key = Integrator { public_id: id.clone(), secret: text(&made["secret"]), ..one.clone() };
    let client = Client::new(&gateway, &key).await.unwrap();
    assert_eq!(client.get("/api/v1/charges").await.unwrap().0, 200);
    let (status, body) = client.get("/api/v1/balance").await.unwrap();
    assert_eq!((status, &body["code"]), (403, &json!("insufficient_scope")));

    let until = Instant::now() + SOON;
    let list = ["key", "list", "--integrator", &one.uuid, "--json"];
    while gateway.cli_json(&list).unwrap()[1]["last_used_at"].is_null() {
        assert!(Instant::now() < until, "the last use is not written down");
    }

    let set = |more: &[&str]| gateway.cli_json(&[&["key", "set", &id, "--json"][..], more].concat()).unwrap();
    assert_eq!(set(&["--scopes", "all"])["scopes"].as_array().unwrap().len(), 6);
    assert_eq!(client.get("/api/v1/balance").await.unwrap().0, 200);
    assert_eq!(set(&["--allow-ip", "203.0.113.9"])["allowed_ips"], json!(["203.0.113.9"]));
    let (status, body) = client.get("/api/v1/balance").await.unwrap();
    assert_eq!((status, &body["code"]), (403, &json!("ip_not_allowed")));
    let open = set(&["--allow-any-ip", "--never-expires"]);
    assert_eq!((&open["allowed_ips"], &open["expires_at"]), (&json!([]), &json!(null)));
    assert_eq!(client.get("/api/v1/balance").await.unwrap().0, 200);

    for (arguments, says) in [
        (&["key", "set", &id][..], "say what to change"),
        (&["key", "set", &id, "--scopes", "write"], "scopes must be some of"),
        (&["key", "set", &id, "--expires-at", "2020-01-01T00:00:00Z"], "must be ahead"),
        (&["key", "set", &id, "--expires-at", "tomorrow"], "must be a time such as"),
        (&["key", "set", &id, "--allow-ip", "10.0.0.0/33"], "CIDR"),
        (&["key", "set", "nobody", "--scopes", "all"], "key list"),
    ] {
        let errors = refused(&gateway, arguments);
        assert!(errors.contains(says), "{arguments:?}: {errors}");
    }
}
