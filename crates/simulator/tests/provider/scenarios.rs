//! Every scenario as a client meets it: what it is answered, and what the log says was executed.

use std::time::Duration;

use pix_simulator::{
    AfterHold, CallbackRetry, IdField, LogEvent, On, Operation, Parameters, SCENARIOS, Scenario,
    ScenarioRule, Simulator, SimulatorConfig, Time,
};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Client, Listener, charge, payment};

const PATIENCE: Duration = Duration::from_secs(30);
const PAYMENT: &str = "/v2/pix/payment";

struct World {
    simulator: Simulator,
    client: Client,
}

/// An answer, or `None` when the connection ended before a whole one.
type Heard = Option<(u16, HeaderMap, String)>;

impl World {
    async fn start() -> Self {
        Self::start_with(SimulatorConfig { time: Time::Manual, ..SimulatorConfig::default() }).await
    }

    async fn start_with(config: SimulatorConfig) -> Self {
        let (simulator, mut client) = Client::start_stoppable(config).await;
        client.http = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .tls_certs_only([])
            .build()
            .unwrap();
        Self { simulator, client }
    }

    fn attach(&self, rule: ScenarioRule) {
        self.simulator.attach(rule).unwrap();
    }

    async fn ask(&self, path: &str, body: &Value) -> Heard {
        ask(self.client.clone(), path.to_owned(), body.clone()).await
    }

    fn ask_in_background(&self, path: &str, body: &Value) -> JoinHandle<Heard> {
        tokio::spawn(ask(self.client.clone(), path.to_owned(), body.clone()))
    }

    async fn consult_status(&self, reference: &str) -> u16 {
        self.client.post("/v2/consult-transaction", &json!({"external_id": reference})).await.0
    }

    async fn events(&self) -> Vec<LogEvent> {
        self.simulator.log().await.unwrap().iter().map(|entry| entry.event).collect()
    }

    /// Waits until the log has this many entries.
    async fn logged(&self, entries: usize) {
        let full = async { while self.events().await.len() < entries {} };
        tokio::time::timeout(PATIENCE, full).await.unwrap();
    }

    /// Waits until the one rule has met a call.
    async fn met(&self) {
        let met = async {
            while self.simulator.attached().iter().all(|attached| attached.hits == 0) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, met).await.unwrap();
    }

    /// Moves the time on, second by second, until the answer is there.
    async fn run_until(&self, asked: JoinHandle<Heard>) -> Heard {
        let moving = async {
            while !asked.is_finished() {
                self.simulator.advance(Duration::from_secs(1));
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, moving).await.unwrap();
        asked.await.unwrap()
    }
}

async fn ask(client: Client, path: String, body: Value) -> Heard {
    let request = client.http.post(client.url(&path)).bearer_auth(&client.token).body(body.to_string());
    let answer = request.send().await.ok()?;
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Some((status, headers, answer.text().await.ok()?))
}

fn once(scenario: Scenario) -> ScenarioRule {
    ScenarioRule::next(scenario, 1).of(Operation::Payment)
}

fn with_status(scenario: Scenario, status: u16) -> ScenarioRule {
    once(scenario).with(Parameters { status: Some(status), ..Parameters::default() })
}

#[test]
fn each_scenario_is_tested_here() {
    let source = include_str!("scenarios.rs");
    for info in SCENARIOS {
        let name = format!("Scenario::{:?}", info.scenario);
        assert!(source.contains(&name), "{name} has no test");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_turned_away_leaves_no_trace_and_the_next_one_is_executed() {
    for (rule, expected) in [
        (with_status(Scenario::ServerError, 503), 503),
        (once(Scenario::Refused), 406),
        (once(Scenario::Redirect), 308),
        (once(Scenario::RateLimited), 429),
        (once(Scenario::Unauthorized), 401),
    ] {
        let (world, name) = (World::start().await, rule.scenario.name());
        world.attach(rule);
        let (status, headers, body) = world.ask(PAYMENT, &payment("p", 10)).await.unwrap();
        assert_eq!(status, expected, "{name}");
        match status {
            406 => assert!(body.contains(r#""code":"account_closed""#), "{body}"),
            308 => assert_eq!(headers["location"], PAYMENT),
            429 => assert_eq!(headers["retry-after"], "30"),
            _ => assert!(body.contains(&format!(r#""statusCode":{expected}"#)), "{body}"),
        }
        assert!(world.events().await.is_empty(), "{name}");
        assert_eq!(world.consult_status("p").await, 404, "{name}");
        world.client.ok(PAYMENT, &payment("p", 10)).await;
        assert_eq!(world.events().await, [LogEvent::PaymentExecuted], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_comes_before_or_after_the_effect() {
    for (scenario, executed) in [(Scenario::ResetBeforeExecuting, 0), (Scenario::ExecutesThenResets, 1)] {
        let world = World::start().await;
        world.attach(once(scenario));
        assert!(world.ask(PAYMENT, &payment("p", 10)).await.is_none(), "{scenario:?}");
        assert_eq!(world.events().await.len(), executed, "{scenario:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_is_one_on_the_wire() {
    use std::io::{ErrorKind, Read, Write};
    let world = World::start().await;
    world.attach(once(Scenario::ResetBeforeExecuting));
    let (address, token) = (world.simulator.address(), world.client.token.clone());
    let read = move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("POST {PAYMENT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n");
        stream.write_all(format!("{head}content-length: 2\r\n\r\n{{}}").as_bytes()).unwrap();
        stream.read(&mut [0]).unwrap_err().kind()
    };
    assert_eq!(tokio::task::spawn_blocking(read).await.unwrap(), ErrorKind::ConnectionReset);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_never_answers_has_executed_or_not() {
    for (scenario, executed) in [(Scenario::NeverAnswers, 0), (Scenario::ExecutesThenNeverAnswers, 1)] {
        let world = World::start().await;
        world.attach(once(scenario));
        let asked = world.ask_in_background(PAYMENT, &payment("p", 10));
        world.met().await;
        world.logged(executed).await;
        assert!(!asked.is_finished());
        assert_eq!(world.consult_status("p").await == 200, executed == 1, "{scenario:?}");
        assert!(world.run_until(asked).await.is_none(), "after an hour it is cut");
        assert_eq!(world.events().await.len(), executed, "{scenario:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulator_that_stops_lets_go_of_whom_it_never_answers() {
    let world = World::start().await;
    world.attach(once(Scenario::ExecutesThenNeverAnswers));
    let asked = world.ask_in_background(PAYMENT, &payment("p", 10));
    world.logged(1).await;
    world.simulator.stop().await;
    assert!(asked.await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_is_the_true_one() {
    for rule in [once(Scenario::AnswersLate), once(Scenario::DrippingAnswer)] {
        let (world, name) = (World::start().await, rule.scenario.name());
        world.attach(rule);
        let asked = world.ask_in_background(PAYMENT, &payment("p", 10));
        world.logged(1).await;
        assert!(!asked.is_finished());
        let (status, _, body) = world.run_until(asked).await.unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &answer["external_id"]), (200, &json!("p")), "{name}");
        assert_eq!(world.events().await, [LogEvent::PaymentExecuted], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_executed_late_is_not_found_before_and_executed_though_the_client_has_gone() {
    let world = World::start().await;
    world.attach(once(Scenario::ExecutesLate));
    let asked = world.ask_in_background(PAYMENT, &payment("p", 10));
    world.met().await;
    assert_eq!(world.consult_status("p").await, 404);
    asked.abort();
    assert!(world.events().await.is_empty());
    let executed = async {
        while world.events().await.is_empty() {
            world.simulator.advance(Duration::from_secs(30));
        }
    };
    tokio::time::timeout(PATIENCE, executed).await.unwrap();
    assert_eq!(world.events().await, [LogEvent::PaymentExecuted]);
    assert_eq!(world.consult_status("p").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_spoiled_and_the_effect_is_not() {
    for rule in [
        with_status(Scenario::ExecutesThenServerError, 502),
        once(Scenario::TruncatedAnswer),
        once(Scenario::HugeAnswer),
        once(Scenario::MalformedAnswer),
        with_status(Scenario::HtmlAnswer, 404),
        once(Scenario::EmptyAnswer),
        once(Scenario::WrongAmountAnswer),
        once(Scenario::WrongIdAnswer),
        once(Scenario::WrongKeyAnswer),
        once(Scenario::UnknownStatusAnswer),
    ] {
        let (world, scenario) = (World::start().await, rule.scenario);
        world.attach(rule);
        let heard = world.ask(PAYMENT, &payment("p", 10)).await;
        assert_spoiled(scenario, heard);
        let log = world.simulator.log().await.unwrap();
        let [entry] = log.as_slice() else { panic!("{scenario:?}: {log:?}") };
        assert_eq!((entry.event, entry.amount_cents), (LogEvent::PaymentExecuted, 1_000), "{scenario:?}");
        let told = world.client.consult(&json!({"external_id": "p"})).await;
        assert_eq!((&told["amount"], &told["status"]), (&json!(10), &json!("PAID")), "{scenario:?}");
        assert_eq!(told["creditParty"]["key"], "ana@example.com");
    }
}

fn assert_spoiled(scenario: Scenario, heard: Heard) {
    let Some((status, headers, body)) = heard else {
        return assert_eq!(scenario, Scenario::TruncatedAnswer);
    };
    let json = serde_json::from_str::<Value>(&body);
    let says_json = headers.get("content-type").is_some_and(|kind| kind == "application/json");
    match scenario {
        Scenario::ExecutesThenServerError => assert_eq!(status, 502),
        Scenario::HugeAnswer => {
            assert_eq!((status, body.len(), says_json), (200, 1_048_578, true));
            assert_eq!(json.unwrap()["external_id"], "p");
        }
        Scenario::MalformedAnswer => assert!(status == 200 && says_json && json.is_err(), "{body}"),
        Scenario::HtmlAnswer => assert!(status == 404 && !says_json && body.contains("<html>"), "{body}"),
        Scenario::EmptyAnswer => assert_eq!((status, body.as_str()), (200, "")),
        Scenario::WrongAmountAnswer => assert_eq!((status, &json.unwrap()["amount"]), (200, &json!(10.01))),
        Scenario::WrongIdAnswer => assert_ne!((status, &json.unwrap()["external_id"]), (200, &json!("p"))),
        Scenario::WrongKeyAnswer => {
            assert_eq!(json.unwrap()["creditParty"]["key"], "somebody.else@example.com");
        }
        Scenario::UnknownStatusAnswer => assert_eq!(json.unwrap()["status"], "IN_ANALYSIS"),
        other => panic!("{other:?} is not expected to answer {status}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consult_lies_in_both_places_and_the_next_one_does_not() {
    let world = World::start().await;
    world.client.ok(PAYMENT, &payment("p", 10)).await;
    let field = Parameters { field: Some(IdField::TransactionId), ..Parameters::default() };
    for rule in [
        ScenarioRule::next(Scenario::WrongIdAnswer, 1).of(Operation::Consult).with(field),
        ScenarioRule::next(Scenario::WrongAmountAnswer, 1).of(Operation::Consult),
        ScenarioRule::next(Scenario::WrongKeyAnswer, 1).of(Operation::Consult),
    ] {
        world.attach(rule);
        let question = json!({"external_id": "p"});
        let (lie, truth) = (world.client.consult(&question).await, world.client.consult(&question).await);
        assert_ne!(lie, truth);
        for name in ["transactionId", "amount", "creditParty"] {
            assert_eq!(lie[name], lie["requestBody"][name], "{name}");
        }
    }
    assert_eq!(world.events().await, [LogEvent::PaymentExecuted]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_not_found_and_then_found_by_either_id() {
    let world = World::start().await;
    let made = world.client.ok(PAYMENT, &payment("p", 10)).await;
    world.attach(ScenarioRule::about(Scenario::NotFoundThenFound, "p"));
    let id = made["transactionId"].clone();
    let by_reference = json!({"external_id": "p"});
    for (question, expected) in
        [(&by_reference, 404), (&by_reference, 404), (&by_reference, 200), (&json!({"pix_id": id}), 404)]
    {
        let (status, answer) = world.client.post("/v2/consult-transaction", question).await;
        assert_eq!(status, expected, "{answer}");
        assert!(status == 200 || answer["code"] == "not_found", "{answer}");
    }
    world.client.ok(PAYMENT, &payment("q", 10)).await;
    assert_eq!(world.consult_status("q").await, 200, "only the one it is attached to");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_died_comes_back_with_its_books_and_without_its_tokens() {
    let mut world = World::start().await;
    world.attach(once(Scenario::DiesAndComesBack));
    assert!(world.ask(PAYMENT, &payment("p", 10)).await.is_none());
    for path in [PAYMENT, "/v2/consult-transaction", "/v2/oauth/token"] {
        assert!(world.ask(path, &payment("q", 10)).await.is_none(), "{path}");
    }
    world.simulator.advance(Duration::from_secs(29));
    assert!(world.ask(PAYMENT, &payment("q", 10)).await.is_none());
    world.simulator.advance(Duration::from_secs(1));
    assert_eq!(world.client.post(PAYMENT, &payment("q", 10)).await.0, 401);
    world.client.renew().await;
    assert_eq!(world.consult_status("p").await, 200);
    assert_eq!(world.events().await, [LogEvent::PaymentExecuted]);
}

#[tokio::test(flavor = "multi_thread")]
async fn clearing_revives_a_dead_provider() {
    let mut world = World::start().await;
    world.attach(once(Scenario::DiesAndComesBack));
    assert!(world.ask(PAYMENT, &payment("p", 10)).await.is_none());
    world.simulator.clear_scenarios().await.unwrap();
    assert!(world.simulator.attached().is_empty());
    world.client.renew().await;
    assert_eq!(world.consult_status("p").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_idempotency_what_is_asked_twice_is_executed_twice() {
    let folder = tempfile::tempdir().unwrap();
    let log_path = Some(folder.path().join("log.jsonl"));
    let config = SimulatorConfig { log_path, ..SimulatorConfig::default() };
    let world = World::start_with(config.clone()).await;
    world.attach(ScenarioRule::share(Scenario::ExecutesAgain, 100, 0));
    let first = world.client.ok(PAYMENT, &payment("p", 10)).await;
    let second = world.client.ok(PAYMENT, &payment("p", 10)).await;
    assert_ne!(first["transactionId"], second["transactionId"]);
    let log = world.simulator.log().await.unwrap();
    assert!(log.iter().all(|entry| entry.event.moves_money_out() && entry.external_id == "p"));
    assert_eq!(log.len(), 2);

    let id = world.client.ok("/v2/pix/qrcode", &charge("c", 10)).await["transactionId"].clone();
    let again = world.client.ok("/v2/pix/qrcode", &charge("c", 10)).await["transactionId"].clone();
    assert_ne!(id, again);
    world.simulator.pay_charge(id.as_str().unwrap(), None).await.unwrap();
    let refund = json!({"pix_id": id, "amount": 4, "external_id": "r"});
    let first = world.client.ok("/v2/pix/refund", &refund).await;
    let second = world.client.ok("/v2/pix/refund", &refund).await;
    assert_ne!(first["refundId"], second["refundId"]);

    world.simulator.clear_scenarios().await.unwrap();
    world.client.ok(PAYMENT, &payment("p", 10)).await;
    assert_eq!(world.events().await.last(), Some(&LogEvent::PaymentRepeated));
    assert_eq!(world.client.ok("/v2/balance", &json!({})).await["message"]["balance"], "99999982.00");
    let state = world.client.get("/sim/state").await;
    world.simulator.stop().await;
    let world = World::start_with(config).await;
    assert_eq!(world.client.get("/sim/state").await, state);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_made_or_refused_after_an_hour() {
    use LogEvent::{PaymentAccepted, PaymentRejected, PaymentSettled, RefundAccepted, RefundSettled};
    for (then, ending, status) in
        [(AfterHold::Settle, PaymentSettled, "PAID"), (AfterHold::Reject, PaymentRejected, "FAILED")]
    {
        let mut listener = Listener::start(vec![]);
        let world = World::start().await;
        let then = Parameters { then: Some(then), ..Parameters::default() };
        world.attach(once(Scenario::PrecautionaryHold).with(then));
        let mut body = payment("p", 10);
        body["postbackUrl"] = json!(listener.url);
        assert_eq!(world.client.ok(PAYMENT, &body).await["status"], "PENDING");
        world.simulator.advance(Duration::from_secs(3_599));
        assert_eq!(world.client.consult(&json!({"external_id": "p"})).await["status"], "PENDING");
        assert_eq!(world.events().await, [PaymentAccepted]);
        world.simulator.advance(Duration::from_secs(1));
        let told = listener.next().await;
        assert_eq!(told["status"], status);
        assert_eq!(world.events().await, [PaymentAccepted, ending]);
    }

    let world = World::start().await;
    let id = world.client.ok("/v2/pix/qrcode", &charge("c", 10)).await["transactionId"].clone();
    world.simulator.pay_charge("c", None).await.unwrap();
    world.attach(ScenarioRule::about(Scenario::PrecautionaryHold, "r"));
    world.client.ok("/v2/pix/refund", &json!({"pix_id": id, "external_id": "r"})).await;
    assert_eq!(world.events().await.last(), Some(&RefundAccepted));
    world.simulator.advance(Duration::from_hours(1));
    world.logged(4).await;
    assert_eq!(world.events().await.last(), Some(&RefundSettled));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_was_made_comes_back() {
    let mut listener = Listener::start(vec![]);
    let world = World::start().await;
    let part = Parameters { amount: Some("2.50".into()), ..Parameters::default() };
    world.attach(once(Scenario::ReturnedAfterCompletion).with(part));
    let mut body = payment("p", 10);
    body["postbackUrl"] = json!(listener.url);
    world.client.ok(PAYMENT, &body).await;
    assert_eq!(listener.next().await["status"], "PAID");
    assert_eq!(world.events().await, [LogEvent::PaymentExecuted]);
    world.simulator.advance(Duration::from_mins(1));
    assert_eq!(listener.next().await["returnedAmount"], 2.5);
    let log = world.simulator.log().await.unwrap();
    assert_eq!((log[1].event, log[1].amount_cents), (LogEvent::PaymentReturned, 250));
}

/// Two payments, the first of which meets a callback scenario.
async fn two_payments(rule: ScenarioRule) -> (World, Listener) {
    let retry = CallbackRetry { delays: vec![Duration::ZERO], ..CallbackRetry::default() };
    let config = SimulatorConfig { time: Time::Manual, callback_retry: retry, ..SimulatorConfig::default() };
    let (world, listener) = (World::start_with(config).await, Listener::start(vec![]));
    world.attach(rule);
    for reference in ["p", "q"] {
        let mut body = payment(reference, 10);
        body["postbackUrl"] = json!(listener.url);
        world.client.ok(PAYMENT, &body).await;
    }
    assert_eq!(world.events().await, [LogEvent::PaymentExecuted; 2]);
    (world, listener)
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_come_late_never_or_in_another_order() {
    let (world, mut listener) =
        two_payments(ScenarioRule::about(Scenario::CallbackLate, "p").seconds(60.0)).await;
    assert_eq!(listener.next().await["external_id"], "q");
    world.simulator.advance(Duration::from_mins(1));
    assert_eq!(listener.next().await["external_id"], "p");

    let (_world, mut listener) = two_payments(once(Scenario::CallbacksReordered)).await;
    assert_eq!(listener.next().await["external_id"], "q");
    assert_eq!(listener.next().await["external_id"], "p");

    let (world, mut listener) = two_payments(once(Scenario::CallbackNever)).await;
    assert_eq!(listener.next().await["external_id"], "q");
    world.client.ok("/sim/callbacks/resend/p", &json!({})).await;
    assert_eq!(listener.next().await["external_id"], "p", "asked for again, it is sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_is_held_back_comes_when_scenarios_are_cleared() {
    let (world, mut listener) = (World::start().await, Listener::start(vec![]));
    world.attach(once(Scenario::CallbacksReordered));
    let mut body = payment("p", 10);
    body["postbackUrl"] = json!(listener.url);
    world.client.ok(PAYMENT, &body).await;
    world.simulator.clear_scenarios().await.unwrap();
    assert_eq!(listener.next().await["external_id"], "p");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_comes_several_times_and_lies() {
    let (_world, mut listener) = two_payments(
        ScenarioRule::about(Scenario::CallbackTwice, "p")
            .with(Parameters { times: Some(3), ..Parameters::default() }),
    )
    .await;
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(listener.next().await["external_id"].as_str().unwrap().to_owned());
    }
    told.sort();
    assert_eq!(told, ["p", "p", "p", "q"]);

    for (scenario, name, truth) in [
        (Scenario::CallbackWrongAmount, "amount", json!(10)),
        (Scenario::CallbackWrongId, "external_id", json!("p")),
    ] {
        let (world, mut listener) = two_payments(ScenarioRule::about(scenario, "p")).await;
        let (first, second) = (listener.next().await, listener.next().await);
        let lie = if first["external_id"] == "q" { second } else { first };
        assert_ne!(lie[name], truth, "{scenario:?}");
        assert_eq!(lie[name], lie["requestBody"][name], "{scenario:?}");
        let told = world.client.consult(&json!({"external_id": "p"})).await;
        assert_eq!(told[name], truth, "{scenario:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_arrives_before_the_answer() {
    let mut listener = Listener::start(vec![]);
    let world = World::start().await;
    world.attach(once(Scenario::CallbackBeforeAnswer));
    let mut body = payment("p", 10);
    body["postbackUrl"] = json!(listener.url);
    world.client.ok(PAYMENT, &body).await;
    assert_eq!(listener.already().unwrap()["status"], "PAID");
    assert_eq!(world.events().await, [LogEvent::PaymentExecuted]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_callback_says_what_the_books_do_not() {
    let mut listener = Listener::start(vec![]);
    let world = World::start().await;
    world.attach(ScenarioRule::next(Scenario::CallbackForged, 2));
    let mut body = charge("c", 10);
    body["postbackUrl"] = json!(listener.url);
    world.client.ok("/v2/pix/qrcode", &body).await;
    let lie = listener.next().await;
    assert_eq!((&lie["status"], &lie["payments"][0]["amount"]), (&json!("PAID"), &json!(10)));
    let told = world.client.consult(&json!({"external_id": "c"})).await;
    assert_eq!((&told["status"], &told["payments"]), (&json!("PENDING"), &json!([])));
    assert_eq!(world.events().await, [LogEvent::ChargeCreated]);

    let mut body = payment("p", 10);
    body["postbackUrl"] = json!(listener.url);
    world.client.ok(PAYMENT, &body).await;
    let mut told = [listener.next().await, listener.next().await]
        .map(|told| told["status"].as_str().unwrap().to_owned());
    told.sort();
    assert_eq!(told, ["FAILED", "PAID"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_are_attached_listed_and_taken_off_over_http() {
    let world = World::start().await;
    let rule = json!({"scenario": "server_error", "on": {"next": 2}, "operation": "token"});
    let attached = world.client.ok("/sim/scenarios", &rule).await;
    let expected = json!({
        "id": 1, "scenario": "server_error", "on": {"next": 2}, "operation": "token",
        "parameters": {"status": 500}, "hits": 0,
    });
    assert_eq!(attached, expected);
    let credentials = json!({"client_id": "simulator", "client_secret": "simulator-secret"});
    assert_eq!(world.client.post("/v2/oauth/token", &credentials).await.0, 500);
    assert_eq!(world.client.get("/sim/scenarios").await[0]["hits"], 1);
    world.client.ok("/sim/scenarios", &json!({"scenario": "empty_answer", "on": {"percent": 5}})).await;

    let delete = |path: &str| world.client.http.delete(world.client.url(path)).send();
    assert_eq!(delete("/sim/scenarios/1").await.unwrap().status(), 204);
    assert_eq!(delete("/sim/scenarios/1").await.unwrap().status(), 404);
    assert_eq!(world.client.get("/sim/scenarios").await.as_array().unwrap().len(), 1);
    assert_eq!(delete("/sim/scenarios").await.unwrap().status(), 204);
    assert_eq!(world.client.get("/sim/scenarios").await, json!([]));
    let catalogue = world.client.get("/sim/scenarios/catalogue").await;
    assert_eq!(catalogue.as_array().unwrap().len(), SCENARIOS.len());
    assert_eq!(catalogue[0]["name"], "never_answers");
    let before = world.simulator.now();
    world.client.ok("/sim/clock", &json!({"advance_seconds": 1.5})).await;
    assert_eq!((world.simulator.now() - before).num_milliseconds(), 1_500);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_attached_is_refused_with_what_can() {
    let world = World::start().await;
    for (body, status, part) in [
        (
            json!({"scenario": "explodes", "on": {"next": 1}}),
            422,
            "expected one of `never_answers`, `server_error`",
        ),
        (
            json!({"scenario": "refused", "on": {"next": 1}, "operation": "pay"}),
            422,
            "expected one of `charge`, `payment`, `refund`, `consult`, `token`, `any`",
        ),
        (
            json!({"scenario": "refused", "on": {"nxt": 1}}),
            422,
            "expected one of `reference`, `next`, `percent`, `seed`",
        ),
        (json!({"scenario": "refused"}), 422, "missing field `on`"),
        (json!({"scenario": "refused", "on": {}}), 422, "on must have reference, next or percent"),
        (
            json!({"scenario": "refused", "on": {"next": 1}, "parameters": {"secnds": 1}}),
            422,
            "expected one of `seconds`",
        ),
        (
            json!({"scenario": "refused", "on": {"next": 1}, "parameters": {"seconds": 1}}),
            422,
            "it takes: status, code, message",
        ),
        (
            json!({"scenario": "executes_again", "on": {"next": 1}, "operation": "token"}),
            422,
            "it can to: charge, payment, refund, any",
        ),
    ] {
        let (answered, answer) = world.client.post("/sim/scenarios", &body).await;
        let message = answer["message"].as_str().unwrap();
        assert!(answered == status && message.contains(part), "{body}: {answer}");
    }
    assert_eq!(world.client.post_text("/sim/scenarios", "{").await.0, 400);
    assert_eq!(world.client.post("/sim/clock", &json!({"advance_seconds": -1})).await.0, 422);
    assert!(world.simulator.attached().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_spoils_the_same_calls() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let world = World::start().await;
        let on = On { percent: Some(40), seed: Some(seed), ..On::default() };
        world.attach(ScenarioRule::on(Scenario::ServerError, on).of(Operation::Charge));
        let mut statuses = Vec::new();
        for number in 0..30 {
            statuses.push(world.client.post("/v2/pix/qrcode", &charge(&format!("c{number}"), 1)).await.0);
        }
        let made = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(world.events().await.len(), made);
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handle_does_what_the_control_api_does() {
    let world = World::start().await;
    let simulator = &world.simulator;
    let change =
        |settle| pix_simulator::SettingsChange { settle_automatically: Some(settle), ..Default::default() };
    assert!(!simulator.change_settings(change(false)).settle_automatically);
    for reference in ["p", "q"] {
        world.client.ok(PAYMENT, &payment(reference, 10)).await;
    }
    simulator.settle_payment("p").await.unwrap();
    simulator.return_payment("p", Some(250)).await.unwrap();
    simulator.reject_payment("q", "account_closed").await.unwrap();
    assert_eq!(simulator.settle_payment("q").await.unwrap_err().code, "invalid_state");
    let id = world.client.ok("/v2/pix/qrcode", &charge("c", 10)).await["transactionId"].clone();
    simulator.cancel_charge("c").await.unwrap();
    let paid = simulator.pay_charge("c", Some(999)).await.unwrap();
    assert!(paid.starts_with('E'));
    for (reference, cents) in [("r", 4), ("s", 5)] {
        let body = json!({"pix_id": id, "amount": cents, "external_id": reference});
        world.client.ok("/v2/pix/refund", &body).await;
    }
    simulator.settle_refund("r").await.unwrap();
    simulator.reject_refund("s", "account_closed").await.unwrap();
    let events = world.events().await;
    assert_eq!(events.len(), 12, "{events:?}");
    assert_eq!(world.client.ok("/v2/balance", &json!({})).await["message"]["balance"], "99999998.49");
    simulator.revoke_tokens();
    assert_eq!(world.client.post("/v2/balance", &json!({})).await.0, 401);
}
