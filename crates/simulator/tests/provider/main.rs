//! The simulator as its users meet it: over HTTP, on loopback.

#[cfg(test)]
mod documented;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod support;

#[cfg(test)]
mod contract {
    use pix_simulator::SimulatorConfig;
    use serde_json::{Value, json};

    use crate::support::{Client, charge, payment};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_charge_has_the_published_shape() {
        let client = Client::start(SimulatorConfig::default()).await;
        let body = json!({"amount": "15.50", "external_id": "order:1", "payer": {"name": "Maria", "document": "52998224725", "email": null}});
        let (status, answer) = client.post("/v2/pix/qrcode", &body).await;
        assert_eq!(status, 200);
        let id = answer["transactionId"].as_str().unwrap();
        assert_eq!(id.len(), 32);
        assert!(id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        let rest =
            (&answer["external_id"], &answer["status"], &answer["amount"], &answer["calendar"]["expiration"]);
        assert_eq!(rest, (&json!("order:1"), &json!("PENDING"), &json!(15.5), &json!(3000)));
        assert_eq!(answer["debtor"], json!({"name": "Maria", "document": "52998224725"}));
        let code = answer["qrcode"].as_str().unwrap();
        assert!(
            code.starts_with("00020101021226820014br.gov.bcb.pix2560pix.simulator.example/qr/v2/"),
            "{code}"
        );
        assert!(
            code.contains(id) && code.contains("5913PIX SIMULATOR6009SAO PAULO62070503***6304"),
            "{code}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn amounts_are_exact_in_the_text_of_an_answer() {
        let client = Client::start(SimulatorConfig::default()).await;
        for (given, text) in [("15", "15"), ("\"15.10\"", "15.1"), ("9999999999.99", "9999999999.99")] {
            let (_, answer) = client.post_text("/v2/pix/qrcode", &format!("{{\"amount\":{given}}}")).await;
            assert!(answer.contains(&format!("\"amount\":{text},")), "{answer}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn bad_requests_are_refused_and_leave_no_trace() {
        let client = Client::start(SimulatorConfig::default()).await;
        for amount in ["0", "-1", "1.001", "1e2", "\"\"", "\"1,5\"", "10000000000", "true"] {
            for path in ["/v2/pix/qrcode", "/v2/pix/payment"] {
                let (status, text) = client.post_text(path, &format!("{{\"amount\":{amount}}}")).await;
                let answer: Value = serde_json::from_str(&text).unwrap();
                assert_eq!((status, &answer["code"]), (422, &json!("invalid_amount")), "{path} {amount}");
                assert_eq!(answer["statusCode"], 422);
            }
        }
        for (path, body, status) in [
            ("/v2/pix/qrcode", "{\"amount\":", 400),
            ("/v2/pix/qrcode", "{}", 422),
            ("/v2/pix/qrcode", "{\"amount\":1,\"postbackUrl\":\"ftp://example.com\"}", 422),
            ("/v2/pix/qrcode", "{\"amount\":1,\"expiration\":0}", 422),
            ("/v2/pix/payment", "{\"amount\":1,\"creditParty\":{\"name\":\"A\"}}", 422),
            ("/v2/consult-transaction", "{}", 422),
            ("/v2/consult-transaction", "{\"pix_id\":\"nothing\"}", 404),
            ("/v2/nothing", "{}", 404),
        ] {
            let (answered, text) = client.post_text(path, body).await;
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((answered, &answer["statusCode"]), (status, &json!(status)), "{path} {body}");
        }
        let (status, _) = client.post_text("/v2/pix/qrcode", &"x".repeat(64 * 1024 + 1)).await;
        assert_eq!(status, 413);
        assert!(client.log().await.is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_same_reference_has_one_effect_and_another_body_is_a_conflict() {
        let client = Client::start(SimulatorConfig::default()).await;
        let first = client.ok("/v2/pix/qrcode", &charge("a", 10)).await;
        let again = client.ok("/v2/pix/qrcode", &charge("a", 10)).await;
        assert_eq!(first, again);
        assert_eq!(client.post("/v2/pix/qrcode", &charge("a", 11)).await.0, 409);

        let first = client.ok("/v2/pix/payment", &payment("a", 10)).await;
        let again = client.ok("/v2/pix/payment", &payment("a", 10)).await;
        assert_eq!((&first["status"], &again["status"]), (&json!("PENDING"), &json!("PAID")));
        assert_eq!(
            (&first["transactionId"], &first["endToEndId"]),
            (&again["transactionId"], &again["endToEndId"])
        );
        assert_eq!(client.post("/v2/pix/payment", &payment("a", 11)).await.0, 409);
        let mut other_key = payment("a", 10);
        other_key["creditParty"]["key"] = json!("other@example.com");
        assert_eq!(client.post("/v2/pix/payment", &other_key).await.0, 409);

        client.ok("/sim/charges/a/pay", &json!({})).await;
        let charge_id = client.ok("/v2/pix/qrcode", &charge("a", 10)).await["transactionId"].clone();
        let refund = json!({"pix_id": charge_id, "amount": 4, "external_id": "a"});
        let first = client.ok("/v2/pix/refund", &refund).await;
        assert_eq!((&first["status"], &first["transactionId"]), (&json!("COMPLETED"), &charge_id));
        assert!(first["endToEndId"].as_str().unwrap().starts_with('D'), "{first}");
        assert_eq!(client.ok("/v2/pix/refund", &refund).await, first);
        let other = json!({"pix_id": charge_id, "amount": 5, "external_id": "a"});
        assert_eq!(client.post("/v2/pix/refund", &other).await.0, 409);

        let events = [
            "charge_created",
            "payment_executed",
            "payment_repeated",
            "pix_received",
            "refund_executed",
            "refund_repeated",
        ];
        assert_eq!(client.events().await, events);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn identical_payments_at_the_same_time_are_executed_once() {
        const AT_ONCE: usize = 32;
        let folder = tempfile::tempdir().unwrap();
        let log_path = Some(folder.path().join("log.jsonl"));
        let client = Client::start(SimulatorConfig { log_path, ..SimulatorConfig::default() }).await;
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..AT_ONCE {
            let client = client.clone();
            running.spawn(async move { client.ok("/v2/pix/payment", &payment("once", 10)).await });
        }
        let answers = running.join_all().await;
        assert_eq!(answers.len(), AT_ONCE);
        assert!(answers.iter().all(|answer| answer["transactionId"] == answers[0]["transactionId"]));
        let events = client.events().await;
        assert_eq!((events[0].as_str(), events.len()), ("payment_executed", AT_ONCE));
        assert!(events[1..].iter().all(|event| event == "payment_repeated"));
        assert_eq!(client.ok("/v2/balance", &json!({})).await["message"]["balance"], "99999990.00");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn distinct_payments_at_the_same_time_are_all_executed() {
        const AT_ONCE: usize = 150;
        let folder = tempfile::tempdir().unwrap();
        let log_path = folder.path().join("log.jsonl");
        let config = SimulatorConfig { log_path: Some(log_path.clone()), ..SimulatorConfig::default() };
        let client = Client::start(config).await;
        let mut running = tokio::task::JoinSet::new();
        for number in 0..AT_ONCE {
            let client = client.clone();
            running.spawn(async move {
                client.ok("/v2/pix/payment", &payment(&format!("p{number}"), 1)).await;
            });
        }
        assert_eq!(running.join_all().await.len(), AT_ONCE);
        let entries = pix_simulator::read_log(&log_path).unwrap();
        assert_eq!(entries.iter().filter(|entry| entry.event.moves_money_out()).count(), AT_ONCE);
        assert_eq!(client.ok("/v2/balance", &json!({})).await["message"]["balance"], "99999850.00");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_charge_is_paid_twice_and_late() {
        let client = Client::start(SimulatorConfig::default()).await;
        let id = client.ok("/v2/pix/qrcode", &charge("a", 10)).await["transactionId"].clone();
        let id = id.as_str().unwrap();
        client.ok(&format!("/sim/charges/{id}/cancel"), &json!({})).await;
        let told = client.consult(&json!({"pix_id": id})).await;
        assert_eq!((&told["status"], &told["payments"]), (&json!("CANCELED"), &json!([])));

        let body = json!({"amount": "9.90", "payer": {"name": "Ana", "document": "1"}});
        let first = client.ok("/sim/charges/a/pay", &body).await;
        let second = client.ok("/sim/charges/a/pay", &json!({})).await;
        assert_ne!(first["endToEndId"], second["endToEndId"]);
        assert_eq!((&first["late"], &first["debitParty"]["name"]), (&json!(true), &json!("Ana")));
        let told = client.consult(&json!({"external_id": "a"})).await;
        assert_eq!((&told["status"], &told["transactionType"]), (&json!("PAID"), &json!("RECEIVEPIX")));
        assert_eq!(told["endToEndId"], first["endToEndId"]);
        let received: Vec<_> =
            told["payments"].as_array().unwrap().iter().map(|pix| &pix["amount"]).collect();
        assert_eq!(received, [&json!(9.9), &json!(10)]);
        assert_eq!(told["requestBody"]["payments"], told["payments"]);

        let known = json!({"endToEndId": first["endToEndId"]});
        assert_eq!(client.post("/sim/charges/a/pay", &known).await.0, 409);
        assert_eq!(client.post("/sim/charges/a/cancel", &json!({})).await.0, 409);
        assert_eq!(client.ok("/v2/balance", &json!({})).await["message"]["balance"], "100000019.90");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn refunds_never_exceed_what_was_paid() {
        let client = Client::start(SimulatorConfig::default()).await;
        let id = client.ok("/v2/pix/qrcode", &charge("a", 10)).await["transactionId"].clone();
        let refund = |amount: &str| json!({"pix_id": id, "amount": amount});
        let (status, answer) = client.post("/v2/pix/refund", &refund("1")).await;
        assert_eq!((status, &answer["code"]), (406, &json!("not_refundable")));
        client.ok("/sim/charges/a/pay", &json!({})).await;
        client.ok("/v2/pix/refund", &refund("4")).await;
        assert_eq!(client.consult(&json!({"pix_id": id})).await["status"], "PAID");
        let (status, answer) = client.post("/v2/pix/refund", &refund("6.01")).await;
        assert_eq!((status, &answer["code"]), (406, &json!("refund_exceeds_paid")));
        let last = client.ok("/v2/pix/refund", &refund("6")).await;
        let told = client.consult(&json!({"pix_id": id})).await;
        assert_eq!((&told["status"], &told["refundedAmount"]), (&json!("REFUNDED"), &json!(10)));
        let told = client.consult(&json!({"pix_id": last["refundId"]})).await;
        assert_eq!((&told["status"], &told["transactionType"]), (&json!("REFUNDED"), &json!("REFUND")));
        assert_eq!(client.post("/v2/pix/refund", &refund("0.01")).await.0, 406);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_key_that_does_not_exist_is_refused_for_good() {
        let client = Client::start(SimulatorConfig::default()).await;
        let mut body = payment("a", 10);
        body["creditParty"]["key"] = json!("Reject@example.com");
        for _ in 0..2 {
            let (status, answer) = client.post("/v2/pix/payment", &body).await;
            assert_eq!(
                (status, answer),
                (406, json!({"statusCode": 406, "message": "key not found", "code": "invalid_key"}))
            );
        }
        assert_eq!(client.post("/v2/consult-transaction", &json!({"external_id": "a"})).await.0, 404);
        assert!(client.events().await.is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_automatic_settlement_the_control_api_decides() {
        let client = Client::start(SimulatorConfig::default()).await;
        let settings = client.ok("/sim/settings", &json!({"settle_automatically": false})).await;
        assert_eq!(settings, json!({"settle_automatically": false, "unavailable": false, "callbacks": true}));
        for reference in ["settled", "rejected"] {
            client.ok("/v2/pix/payment", &payment(reference, 10)).await;
            assert_eq!(client.consult(&json!({"external_id": reference})).await["status"], "PENDING");
        }
        client.ok("/sim/payments/settled/settle", &json!({})).await;
        assert_eq!(client.post("/sim/payments/settled/settle", &json!({})).await.0, 409);
        let told = client.ok("/sim/payments/settled/return", &json!({"amount": 2.5})).await;
        assert_eq!((&told["status"], &told["returnedAmount"]), (&json!("PAID"), &json!(2.5)));
        let told = client.ok("/sim/payments/settled/return", &json!({})).await;
        assert_eq!((&told["status"], &told["returnedAmount"]), (&json!("RETURNED"), &json!(10)));
        let reason = json!({"code": "account_closed", "message": "closed"});
        let told = client.ok("/sim/payments/rejected/reject", &reason).await;
        let failure = (&told["status"], &told["failureCode"], &told["failureMessage"]);
        assert_eq!(failure, (&json!("FAILED"), &json!("account_closed"), &json!("closed")));

        let id = client.ok("/v2/pix/qrcode", &charge("c", 10)).await["transactionId"].clone();
        client.ok("/sim/charges/c/pay", &json!({})).await;
        for (reference, action, status) in [("r1", "settle", "REFUNDED"), ("r2", "reject", "FAILED")] {
            let body = json!({"pix_id": id, "amount": 5, "external_id": reference});
            assert_eq!(client.ok("/v2/pix/refund", &body).await["status"], "PENDING");
            let told = client.ok(&format!("/sim/refunds/{reference}/{action}"), &json!({})).await;
            assert_eq!(told["status"], status);
        }
        assert_eq!(client.ok("/v2/balance", &json!({})).await["message"]["balance"], "100000005.00");
        let state = client.get("/sim/state").await;
        assert_eq!(state["counts"], json!({"charges": 1, "payments": 2, "refunds": 2}));
        assert_eq!(state["payments"][0]["external_id"], "rejected");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_unavailable_provider_does_nothing() {
        let client = Client::start(SimulatorConfig::default()).await;
        client.ok("/sim/settings", &json!({"unavailable": true})).await;
        for path in ["/v2/oauth/token", "/v2/pix/payment", "/v2/nothing"] {
            assert_eq!(client.post(path, &payment("a", 10)).await.0, 503);
        }
        client.ok("/sim/settings", &json!({"unavailable": false})).await;
        assert_eq!(client.post("/v2/consult-transaction", &json!({"external_id": "a"})).await.0, 404);
        let (status, refused) = client.post("/sim/settings", &json!({"unavailble": true})).await;
        assert_eq!(status, 422);
        assert!(refused.to_string().contains("unavailble"), "{refused}");
    }
}

#[cfg(test)]
mod tokens {
    use pix_simulator::SimulatorConfig;
    use serde_json::json;

    use crate::support::{Client, payment};

    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_happens_without_a_good_token() {
        let mut client = Client::start(SimulatorConfig::default()).await;
        let good = client.token.clone();
        for token in ["", "wrong"] {
            client.token = token.to_owned();
            let (status, answer) = client.post("/v2/pix/payment", &payment("a", 10)).await;
            assert_eq!((status, &answer["statusCode"]), (401, &json!(401)));
        }
        client.token = good;
        assert!(client.events().await.is_empty());
        client.ok("/v2/balance", &json!({})).await;
        let revoked = client.http.post(client.url("/sim/tokens/revoke")).send().await.unwrap();
        assert_eq!(revoked.status(), 204);
        assert_eq!(client.post("/v2/balance", &json!({})).await.0, 401);
        client.renew().await;
        client.ok("/v2/balance", &json!({})).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn credentials_come_by_basic_or_in_the_body_and_must_be_right() {
        let client = Client::start(SimulatorConfig::default()).await;
        let url = client.url("/v2/oauth/token");
        let basic =
            |secret: &'static str| client.http.post(&url).basic_auth("simulator", Some(secret)).send();
        assert_eq!(basic("simulator-secret").await.unwrap().status(), 200);
        assert_eq!(basic("wrong").await.unwrap().status(), 401);
        let body = json!({"client_id": "simulator", "client_secret": "simulator-secret"});
        let answer = client.ok("/v2/oauth/token", &body).await;
        assert_eq!((&answer["token_type"], &answer["expires_in"]), (&json!("Bearer"), &json!(3600)));
        assert_eq!(client.post("/v2/oauth/token", &json!({})).await.0, 401);
    }
}

#[cfg(test)]
mod durability {
    use std::{fs::OpenOptions, io::Write};

    use pix_simulator::{LogEntry, LogEvent, Simulator, SimulatorConfig, SimulatorError, read_log};
    use serde_json::json;

    use crate::support::{Client, charge, payment};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_restart_keeps_what_was_done_and_forgets_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let log_path = folder.path().join("log.jsonl");
        let config = SimulatorConfig { log_path: Some(log_path.clone()), ..SimulatorConfig::default() };
        let (simulator, client) = Client::start_stoppable(config.clone()).await;
        let id = client.ok("/v2/pix/qrcode", &charge("c", 10)).await["transactionId"].clone();
        client.ok("/sim/charges/c/pay", &json!({"late": true})).await;
        let refund = json!({"pix_id": id, "amount": 4, "external_id": "r"});
        let refunded = client.ok("/v2/pix/refund", &refund).await;
        let paid = client.ok("/v2/pix/payment", &payment("p", 7)).await;
        client.ok("/sim/payments/p/return", &json!({"amount": 2})).await;
        client.ok("/sim/settings", &json!({"settle_automatically": false})).await;
        client.ok("/v2/pix/payment", &payment("q", 8)).await;
        client.ok("/sim/payments/q/reject", &json!({"code": "closed"})).await;
        let (state, log) = (client.get("/sim/state").await, client.log().await);
        let old_token = client.token.clone();
        assert!(matches!(Simulator::start(config.clone()).await, Err(SimulatorError::LogInUse { .. })));
        simulator.stop().await;

        let mut file = OpenOptions::new().append(true).open(&log_path).unwrap();
        file.write_all(br#"{"seq":8,"at":"2026-"#).unwrap();
        drop(file);
        assert_eq!(read_log(&log_path).unwrap().len(), log.len());

        let (simulator, mut client) = Client::start_stoppable(config.clone()).await;
        assert_eq!(client.get("/sim/state").await, state);
        assert_eq!(client.log().await, log);
        let again = client.ok("/v2/pix/payment", &payment("p", 7)).await;
        assert_eq!((&again["transactionId"], &again["status"]), (&paid["transactionId"], &json!("PAID")));
        assert_eq!(client.ok("/v2/pix/refund", &refund).await, refunded);
        client.ok("/v2/pix/payment", &payment("after", 1)).await;
        client.token = old_token;
        assert_eq!(client.post("/v2/balance", &json!({})).await.0, 401);
        simulator.stop().await;

        let entries = read_log(&log_path).unwrap();
        assert_eq!(entries.len(), log.len() + 3);
        let last = entries.last().unwrap();
        assert_eq!((last.event, last.external_id.as_str()), (LogEvent::PaymentExecuted, "after"));
        assert_eq!(last.amount_cents, 100);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_sent_again_stands_in_the_log_and_moves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let log_path = folder.path().join("log.jsonl");
        let config = SimulatorConfig { log_path: Some(log_path.clone()), ..SimulatorConfig::default() };
        let (simulator, client) = Client::start_stoppable(config.clone()).await;
        let id = client.ok("/v2/pix/qrcode", &charge("c", 10)).await["transactionId"].clone();
        client.ok("/sim/charges/c/pay", &json!({})).await;
        let refund = json!({"pix_id": id, "amount": 4, "external_id": "r"});
        for _ in 0..2 {
            client.ok("/v2/pix/payment", &payment("p", 7)).await;
            client.ok("/v2/pix/refund", &refund).await;
        }
        assert_eq!(client.post("/v2/pix/payment", &payment("p", 8)).await.0, 409);
        client.ok("/v2/pix/refund", &json!({"pix_id": id, "external_id": "r"})).await;
        let state = client.get("/sim/state").await;
        assert_eq!(state["balance"], "99999999.00");
        simulator.stop().await;

        let entries = read_log(&log_path).unwrap();
        let [_, _, payment, refund, payment_again, refund_again, refund_third] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        for (again, first, event) in [
            (payment_again, payment, LogEvent::PaymentRepeated),
            (refund_again, refund, LogEvent::RefundRepeated),
            (refund_third, refund, LogEvent::RefundRepeated),
        ] {
            let name = |entry: &LogEntry| {
                (
                    entry.transaction_id.clone(),
                    entry.external_id.clone(),
                    entry.refund_id.clone(),
                    entry.amount_cents,
                )
            };
            assert_eq!((again.event, name(again)), (event, name(first)));
            assert!(first.event.moves_money_out() && !again.event.moves_money_out());
        }
        let client = Client::start(config).await;
        assert_eq!(client.get("/sim/state").await, state);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_damaged_log_is_not_started_on() {
        let folder = tempfile::tempdir().unwrap();
        let log_path = folder.path().join("log.jsonl");
        let foreign = r#"{"seq":1,"at":"2026-10-07T04:41:05Z","event":"payment_settled","transaction_id":"x","external_id":"","amount_cents":1}"#;
        std::fs::write(&log_path, format!("{foreign}\n")).unwrap();
        assert_eq!(read_log(&log_path).unwrap().len(), 1);
        let config = SimulatorConfig { log_path: Some(log_path), ..SimulatorConfig::default() };
        assert!(matches!(Simulator::start(config).await, Err(SimulatorError::LogCorrupt { line: 1, .. })));
    }
}

#[cfg(test)]
mod callbacks {
    use std::time::Duration;

    use pix_simulator::{CallbackRetry, SimulatorConfig};
    use serde_json::json;

    use crate::support::{Client, Listener, charge, payment};

    fn at_once(attempts: usize) -> SimulatorConfig {
        let delays = vec![Duration::ZERO; attempts];
        let callback_retry = CallbackRetry { delays, ..CallbackRetry::default() };
        SimulatorConfig { callback_retry, ..SimulatorConfig::default() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_client_is_called_back_with_what_it_would_be_told() {
        let mut listener = Listener::start(vec![]);
        let client = Client::start(SimulatorConfig::default()).await;
        let mut body = charge("c", 10);
        body["postbackUrl"] = json!(listener.url);
        client.ok("/v2/pix/qrcode", &body).await;
        client.ok("/sim/charges/c/pay", &json!({"callback": false})).await;
        let paid = client.ok("/sim/charges/c/pay", &json!({})).await;
        let told = listener.next().await;
        assert_eq!(told, client.consult(&json!({"external_id": "c"})).await);
        assert_eq!(told["payments"][1]["endToEndId"], paid["endToEndId"]);

        let mut body = payment("p", 10);
        body["postbackUrl"] = json!(listener.url);
        client.ok("/v2/pix/payment", &body).await;
        let told = listener.next().await;
        assert_eq!((&told["status"], &told["transactionType"]), (&json!("PAID"), &json!("PAYMENT")));
        client.ok("/v2/pix/payment", &body).await;
        client.ok("/sim/payments/p/return", &json!({})).await;
        assert_eq!(listener.next().await["requestBody"]["status"], "RETURNED");

        client.ok("/sim/settings", &json!({"callbacks": false})).await;
        client.ok("/sim/charges/c/pay", &json!({})).await;
        client.ok("/sim/callbacks/resend/p", &json!({})).await;
        assert_eq!(listener.next().await["transactionType"], "PAYMENT");
        client.ok("/v2/pix/payment", &payment("silent", 10)).await;
        assert_eq!(client.post("/sim/callbacks/resend/silent", &json!({})).await.0, 409);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_callback_is_tried_again_and_never_follows_a_redirect() {
        let mut listener = Listener::start(vec![500, 302]);
        let client = Client::start(at_once(3)).await;
        let mut body = payment("p", 10);
        body["postbackUrl"] = json!(listener.url);
        client.ok("/v2/pix/payment", &body).await;
        let first = listener.next().await;
        assert_eq!(listener.next().await, first);
        assert_eq!(listener.next().await, first);
        assert_eq!(first["external_id"], "p");
    }
}
