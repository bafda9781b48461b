//! The v2 family, shape by shape: what its clients are known to send, and each answer read as they read it. They look at
//! the status first (exactly 200), then at a few fields by name, and take 406, and only 406, for a payment that will
//! never be.
//!
//! A case is a test with a name of its own, so that `cargo test --package pix-http --test http compatibility` lists them.
//! What v2 answers to the letter is tested in `v2.rs` and `token.rs`.

mod charges;
mod consults;
mod payments;
mod refunds;
mod tokens;

use serde_json::Value;

use crate::support::{Answer, Gateway, Request, Tenant};

const QRCODE: &str = "/v2/pix/qrcode";
const PAYMENT: &str = "/v2/pix/payment";
const REFUND: &str = "/v2/pix/refund";
const CONSULT: &str = "/v2/consult-transaction";
const BALANCE: &str = "/v2/balance";

/// A row is the name of a case and what its check is given.
macro_rules! cases {
    ($check:ident { $($name:ident: $($given:expr),+;)+ }) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                $check($($given),+).await;
            }
        )+
    };
}
use cases;

/// A client of the family, at a gateway of its own.
struct Client {
    gateway: Gateway,
    tenant: Tenant,
}

impl Client {
    /// One with that much money.
    async fn with(funds_cents: i64) -> Self {
        let gateway = Box::pin(Gateway::start()).await;
        let tenant = gateway.tenant(funds_cents).await;
        Self { gateway, tenant }
    }

    /// Posts a text as JSON.
    async fn post(&self, path: &str, body: &str) -> Answer {
        self.gateway.send(Request::post(path, body).token(&self.tenant)).await
    }

    /// Posts what has to succeed.
    async fn done(&self, path: &str, body: &str) -> Value {
        let answer = self.post(path, body).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        answer.json()
    }

    /// Posts what has to be refused, and looks at the refusal as clients do: the status, and a sentence to be shown.
    async fn refused(&self, path: &str, body: &str, status: u16, code: &str) -> Value {
        let answer = self.post(path, body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        let told = answer.json();
        assert_eq!((&told["statusCode"], text(&told, "code")), (&status.into(), code), "{body}");
        assert!(!text(&told, "message").is_empty() && !text(&told, "requestId").is_empty());
        told
    }

    /// What a transaction is, both wrapped and flat.
    async fn consulted(&self, pix_id: &str) -> Value {
        wrapped(self.done(CONSULT, &format!(r#"{{"pix_id":"{pix_id}"}}"#)).await)
    }
}

/// A field that clients use as a text: there, and never `null`.
fn text<'a>(told: &'a Value, name: &str) -> &'a str {
    told[name].as_str().unwrap_or_else(|| panic!("{name} is no text: {told}"))
}

/// What is in `requestBody`, which some clients read; others read the same beside it.
#[expect(clippy::needless_pass_by_value, reason = "an answer is used up by reading it")]
fn wrapped(told: Value) -> Value {
    for (name, value) in told["requestBody"].as_object().unwrap() {
        assert_eq!(&told[name], value, "{name} differs: {told}");
    }
    told["requestBody"].clone()
}

/// `YYYY-MM-DD HH:MM:SS`, which clients parse.
fn is_local_time(text: &str) -> bool {
    let like = "dddd-dd-dd dd:dd:dd";
    text.len() == like.len()
        && text.bytes().zip(like.bytes()).all(
            |(byte, like)| {
                if like == b'd' { byte.is_ascii_digit() } else { byte == like }
            },
        )
}
