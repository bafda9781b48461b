//! What the log says of a request, and what it must never say.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};

use crate::support::{CALLBACK_SECRET, Gateway, Request, withdrawal_body};

/// Every line that any test of this program logs.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The one log of this program: a subscriber can be set once, and worker threads see no other.
    pub fn global() -> &'static Self {
        static LINES: OnceLock<Lines> = OnceLock::new();
        LINES.get_or_init(|| {
            let lines = Self::default();
            let writer = lines.clone();
            tracing_subscriber::fmt().json().with_writer(move || writer.clone()).init();
            lines
        })
    }

    /// All of them, as they were written.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines of which that is true.
    pub fn that(&self, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(is_so).collect()
    }

    /// The lines of the request with that id.
    fn of(&self, request_id: &str) -> Vec<Value> {
        self.that(|line| line["span"]["request_id"] == request_id)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_line_with_its_route_and_nothing_personal() {
    let lines = Lines::global();
    let gateway = Gateway::start().await;
    let tenant = gateway.rich().await;
    let body = withdrawal_body().to_string();
    let name = "/api/v1/charges/Maria-Silva?external_id=Maria-Silva";
    let callback = format!("/callbacks/{CALLBACK_SECRET}");
    for (id, request, route, status) in [
        ("log-1", Request::new("GET", name).token(&tenant), "/api/v1/charges/{charge}", 404),
        ("log-2", Request::post("/api/v1/withdrawals", &body).token(&tenant), "/api/v1/withdrawals", 201),
        ("log-3", Request::post(&callback, "{}"), "/callbacks/{secret}", 200),
        ("log-4", Request::post("/Maria-Silva", "{}"), "none", 404),
    ] {
        gateway.send(request.header("X-Request-Id", id)).await.expect(status);
        let told = lines.of(id);
        assert_eq!(told.len(), 1, "{told:?}");
        let fields = &told[0]["fields"];
        assert_eq!((&fields["route"], &fields["status"]), (&json!(route), &json!(status)));
        assert!(fields["duration_us"].is_u64() && fields["method"].is_string());
        let text = told[0].to_string().to_ascii_lowercase();
        for secret in ["maria", "bruno", "52998224725", CALLBACK_SECRET, "plain.", "loja.example"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    let integrator = tenant.id.to_string();
    assert_eq!(lines.of("log-2")[0]["span"]["integrator"], json!(integrator));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_an_internal_error_is_in_the_log_alone() {
    let lines = Lines::global();
    let gateway = Gateway::start().await;
    let body = r#"{"client_id":"someone","client_secret":"panic"}"#;
    let request = Request::post("/v2/oauth/token", body).header("X-Request-Id", "log-panic");
    assert_eq!(gateway.send(request).await.expect(500).text("message"), "internal error");
    let told = lines.of("log-panic");
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((&told[0]["level"], &told[0]["fields"]["panicked"]), (&json!("ERROR"), &json!(true)));
}
