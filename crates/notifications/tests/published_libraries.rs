//! Requests of ours, as they came over the wire, judged by what receivers use: the published libraries of Standard
//! Webhooks for Python and Node.js, and a few lines of each language for the X-Webhook-* headers. The judges are
//! `tests/webhooks/verify.py` and `verify.mjs`; `make webhook-libraries` installs what they import.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

#[expect(dead_code, reason = "these receivers are all well-behaved")]
#[path = "sending/receiver.rs"]
mod receiver;

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::send::{Parcel, PostbackSecret, PostbackSender, Reply};
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;
use pix_notifications::{HttpSender, MasterKey, PrivateAddresses, SenderConfig, Trust, UrlGuard};
use serde_json::{Value, json};
use uuid::Uuid;

use receiver::{Receiver, Request, answer};

const BODY: &str = r#"{"event":"cashin.confirmed","amount":15.50,"name":"Conceição \"Zé\" 🍞","n":null}"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Where `tests/webhooks/install.sh` installs to, by the same rule.
fn libraries() -> PathBuf {
    let target = || PathBuf::from(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let chosen = env::var_os("PIX_WEBHOOK_LIBRARIES").map(PathBuf::from);
    let libraries = repository().join(chosen.unwrap_or_else(|| target().join("webhook-libraries")));
    assert!(
        libraries.join("installed").exists(),
        "the published webhook libraries are not in {}; install them with: make webhook-libraries",
        libraries.display()
    );
    libraries
}

/// What both judges say of each request: they must agree.
fn judge(requests: &[Value]) -> Vec<Value> {
    let (libraries, scripts) = (libraries(), repository().join("tests/webhooks"));
    let mut python = Command::new(libraries.join("python/bin/python3"));
    // Isolated: no module of the environment stands in for the library.
    python.arg("-I").arg(scripts.join("verify.py"));
    let mut node = Command::new("node");
    node.arg(scripts.join("verify.mjs")).arg(libraries.join("node")).env_remove("NODE_PATH");
    let input = json!(requests).to_string();
    let [one, other] = [python, node].map(|mut command| {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{command:?} ended with {}", output.status);
        serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap()
    });
    assert_eq!(one, other, "the judges differ");
    assert_eq!(one.len(), requests.len());
    one
}

fn secret(number: u32) -> PostbackSecret {
    let key = MasterKey::parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    key.secret(IntegratorId(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff)), number)
}

/// A request that is signed with these, as it came to a receiver.
async fn captured(secrets: &[PostbackSecret]) -> Request {
    let receiver = Receiver::start(vec![answer(204, "", "")]).await;
    let guard = UrlGuard { allow_http: true, allow_private: PrivateAddresses::Loopback };
    let sender =
        HttpSender::new(guard, SenderConfig { trust: Trust::Nobody, ..SenderConfig::default() }).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the published libraries compare with their own clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let reply = sender.send(Parcel {
        url: PostbackUrl::parse(&receiver.url("/hook?a=%20b")).unwrap(),
        message_id: "01990000-0000-7000-8000-0000000000aa".to_owned(),
        event: "cashin.confirmed".to_owned(),
        body: BODY.to_owned(),
        sent_at: Timestamp::from_micros(i64::try_from(now.as_micros()).unwrap()),
        secrets: secrets.to_vec(),
    });
    assert!(matches!(reply.await, Reply::Answered { status: 204, .. }));
    receiver.requests().pop().unwrap()
}

/// What a receiver that knows this secret has before it.
fn exhibit(request: &Request, known: &PostbackSecret) -> Value {
    let headers: serde_json::Map<_, _> =
        request.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({ "secret": known.expose(), "headers": headers, "body": STANDARD.encode(&request.body) })
}

fn verdict(standard: bool, family: bool, next: Option<bool>) -> Value {
    json!({ "standard": standard, "family": family, "next": next })
}

fn tampered(exhibit: &Value, header: &str, change: impl FnOnce(&str) -> String) -> Value {
    let mut exhibit = exhibit.clone();
    let changed = change(exhibit["headers"][header].as_str().unwrap());
    exhibit["headers"][header] = json!(changed);
    exhibit
}

#[tokio::test]
async fn one_secret_verifies_and_nothing_that_was_touched_does() {
    let request = captured(&[secret(1)]).await;
    let sound = exhibit(&request, &secret(1));
    let mut body = sound.clone();
    body["body"] = json!(STANDARD.encode(BODY.replace("15.50", "15.51")));
    let mut reordered = sound.clone();
    reordered["body"] = json!(STANDARD.encode(BODY.replace("\":", "\": ")));
    let later = |seconds: &str| (seconds.parse::<i64>().unwrap() + 1).to_string();
    let long_ago = |seconds: &str| (seconds.parse::<i64>().unwrap() - 3_600).to_string();
    let verdicts = judge(&[
        sound.clone(),
        exhibit(&request, &secret(2)),
        body,
        reordered,
        tampered(&sound, "webhook-timestamp", later),
        tampered(&sound, "webhook-timestamp", long_ago),
        tampered(&sound, "webhook-id", |id| id.replace("aa", "ab")),
        tampered(&sound, "webhook-signature", |signature| signature.replace("v1,", "v2,")),
    ]);
    assert_eq!(
        verdicts,
        [
            verdict(true, true, None),
            verdict(false, false, None),
            verdict(false, false, None),
            verdict(false, false, None),
            // The family signs the body alone.
            verdict(false, true, None),
            verdict(false, true, None),
            verdict(false, true, None),
            verdict(false, true, None),
        ]
    );
}

#[tokio::test]
async fn while_secrets_are_changed_the_old_and_the_new_verify() {
    let request = captured(&[secret(1), secret(2)]).await;
    let (old, new) = (exhibit(&request, &secret(1)), exhibit(&request, &secret(2)));
    let later = |seconds: &str| (seconds.parse::<i64>().unwrap() + 1).to_string();
    let mut body = new.clone();
    body["body"] = json!(STANDARD.encode(BODY.replace("15.50", "15.51")));
    let verdicts = judge(&[
        old.clone(),
        new.clone(),
        exhibit(&request, &secret(3)),
        tampered(&old, "webhook-timestamp", later),
        tampered(&new, "webhook-timestamp", later),
        body,
    ]);
    assert_eq!(
        verdicts,
        [
            verdict(true, true, Some(false)),
            verdict(true, false, Some(true)),
            verdict(false, false, Some(false)),
            verdict(false, true, Some(false)),
            verdict(false, false, Some(true)),
            verdict(false, false, Some(false)),
        ]
    );

    // The old one is retired: the new one takes its place.
    let request = captured(&[secret(2)]).await;
    let verdicts = judge(&[exhibit(&request, &secret(1)), exhibit(&request, &secret(2))]);
    assert_eq!(verdicts, [verdict(false, false, None), verdict(true, true, None)]);
}
