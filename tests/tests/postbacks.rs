//! Postbacks as an integrator's server gets them, and as it and an operator see what became of them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pix_tests::{Client, Database, Gateway, on_either_store, pay, text};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);

on_either_store!(
    what_happens_arrives_signed_and_in_order,
    a_receiver_that_fails_gets_it_later_and_one_that_is_gone_is_switched_off,
    what_was_applied_before_a_kill_arrives_after_it,
    a_part_of_a_payment_is_another_integrators_and_each_is_told,
);

/// What came in.
#[derive(Clone, Debug)]
struct Received {
    path: String,
    headers: BTreeMap<String, String>,
    body: Value,
}

/// A server that notes what it is sent, and answers as it is told to.
struct Receiver {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
    /// Status lines with further headers, for paths that begin so.
    answers: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { url, received: Arc::default(), answers: Arc::default() };
        let (received, answers) = (server.received.clone(), server.answers.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (received, answers) = (received.clone(), answers.clone());
                tokio::spawn(async move { serve(stream, &received, &answers).await });
            }
        });
        server
    }

    /// Answers the next requests to paths that begin with `path` like this, and with 200 after them.
    fn will_answer(&self, path: &str, answers: &[&str]) {
        let answers = answers.iter().rev().map(|answer| (*answer).to_owned()).collect();
        self.answers.lock().unwrap().insert(path.to_owned(), answers);
    }

    fn at(&self, path: &str) -> Vec<Received> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|one| one.path.starts_with(path)).cloned().collect()
    }
}

/// Serves one connection until it is closed.
async fn serve(
    stream: TcpStream,
    received: &Mutex<Vec<Received>>,
    answers: &Mutex<BTreeMap<String, Vec<String>>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length")?.parse().ok()?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let answer = {
            let mut answers = answers.lock().unwrap();
            let own = answers.iter_mut().find(|(begin, _)| path.starts_with(begin.as_str()));
            own.and_then(|(_, answers)| answers.pop()).unwrap_or_else(|| "200 OK".to_owned())
        };
        let body = serde_json::from_slice(&body).ok()?;
        received.lock().unwrap().push(Received { path, headers, body });
        let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 2\r\n\r\nok");
        stream.get_mut().write_all(answer.as_bytes()).await.ok()?;
    }
}

/// What becomes true within seconds.
async fn soon<F: Future<Output = bool>>(what: &str, mut is_true: impl FnMut() -> F) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a subcommand changes of the secrets holds at once.
const DEVELOPMENT: [(&str, &str); 3] = [
    ("PIX_POSTBACK_ALLOW_PRIVATE", "loopback"),
    ("PIX_POSTBACK_INTERVAL_MS", "100"),
    ("PIX_CACHE_TTL_MS", "0"),
];

fn names(received: &[Received]) -> Vec<&str> {
    received.iter().map(|one| one.body["event"].as_str().unwrap()).collect()
}

async fn what_happens_arrives_signed_and_in_order(database: Database) {
    let gateway = Gateway::start(database, &DEVELOPMENT).unwrap();
    let integrator = gateway.integrator("told").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let server = Receiver::start().await;
    let url = |path: &str| format!("{}{path}", server.url);

    // A charge of either generation, paid and given back.
    let v1 = json!({
        "amount": 15.50, "external_id": "order-1", "postbackUrl": url("/v1?token=a%20b&c=d+e"),
        "payer": {"name": "Maria Silva", "document": "52998224725"},
    });
    let (status, v1) = client.post("/api/v1/charges", v1).await.unwrap();
    assert_eq!(status, 201, "{v1}");
    let v2 = json!({"amount": 9, "postbackUrl": url("/v2")});
    let (status, v2) = client.post("/v2/pix/qrcode", v2).await.unwrap();
    assert_eq!(status, 200, "{v2}");
    for pix_id in [text(&v1, "/pix_id").unwrap(), text(&v2, "/transactionId").unwrap()] {
        pay(&gateway, &pix_id).await.unwrap();
        let paid =
            || async { client.get("/api/v1/events").await.unwrap().1["data"].to_string().contains(&pix_id) };
        soon("the payment is credited", paid).await;
        let refund = json!({"pix_id": pix_id, "description": "sent back"});
        let (status, refund) = client.post("/v2/pix/refund", refund).await.unwrap();
        assert_eq!(status, 200, "{refund}");
    }
    soon("all has arrived", || async { server.at("/v1").len() == 2 && !server.at("/v2").is_empty() }).await;
    let received = server.at("/v1");
    assert_eq!(names(&received), ["cashin.confirmed", "cashin.refunded"]);
    assert_eq!(received[0].path, "/v1?token=a%20b&c=d+e", "the query is sent as it was given");
    let (paid, refunded) = (&received[0].body, &received[1].body);
    assert_eq!((&paid["transactionType"], &paid["status"]), (&json!("RECEIVEPIX"), &json!("PAID")));
    assert_eq!((&paid["external_id"], &paid["amount"]), (&json!("order-1"), &json!(15.5)));
    assert_eq!(refunded["transactionType"], "PIXREVERSAL");
    assert!(paid["sequence"].as_u64() < refunded["sequence"].as_u64());
    for field in ["transactionType", "transactionId", "external_id", "amount", "status", "eventId", "uuid"] {
        assert_eq!(paid["requestBody"][field], paid[field], "{field}");
    }
    let heard = server.at("/v2");
    assert_eq!(names(&heard), ["cashin.confirmed"], "an integration of the family hears of payments alone");
    assert_eq!(
        (&heard[0].body["external_id"], &heard[0].body["requestBody"]["external_id"]),
        (&json!(""), &json!(""))
    );
    let headers = &received[0].headers;
    assert_eq!(headers["webhook-id"], paid["eventId"].as_str().unwrap());
    assert!(headers["webhook-signature"].starts_with("v1,"));
    assert_eq!(headers["x-webhook-signature"].len(), 64);
    assert_eq!(headers["x-webhook-event"], "cashin.confirmed");
    let record = text(&v1, "/uuid").unwrap().replace('-', "");
    let trace = &headers["traceparent"];
    assert!(trace.starts_with(&format!("00-{record}-")) && trace.ends_with("-00"), "{trace}");

    // A withdrawal's end.
    let out = json!({
        "amount": 2, "external_id": "out-1", "postbackUrl": url("/out"),
        "creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
    });
    client.fund(&gateway, "20").await.unwrap();
    let (status, out) = client.post("/v2/pix/payment", out).await.unwrap();
    assert_eq!(status, 200, "{out}");
    soon("the end of the withdrawal has arrived", || async { !server.at("/out").is_empty() }).await;
    let end = &server.at("/out")[0].body;
    assert_eq!(
        (&end["transactionType"], &end["statusCode"]["statusId"]),
        (&json!("PAYMENT"), &json!(1)),
        "{end}"
    );

    let id = secrets_overlap(&gateway, &integrator.uuid, &client, &server, paid).await;

    // What became of it.
    let deliveries = format!("/api/v1/events/{id}/deliveries");
    // The server knows of an attempt before the gateway has written down what came of it.
    let told = || async { client.get(&deliveries).await.unwrap().1["data"].as_array().unwrap().len() == 3 };
    soon("the last attempt is written down", told).await;
    let (status, seen) = client.get(&deliveries).await.unwrap();
    assert_eq!((status, &seen["delivery"]["status"]), (200, &json!("delivered")), "{seen}");
    assert_eq!((&seen["data"][0]["status"], &seen["data"][0]["response"]), (&json!(200), &json!("ok")));
    let (_, feed) = client.get("/api/v1/events?per_page=100").await.unwrap();
    let kinds: Vec<_> =
        feed["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "cashin.confirmed").count(), 3, "{kinds:?}");
    assert!(gateway.log().lines().all(|line| !line.contains("whsec_") && !line.contains("token=a")));
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

async fn a_part_of_a_payment_is_another_integrators_and_each_is_told(database: Database) {
    let gateway = Gateway::start(database, &DEVELOPMENT).unwrap();
    let (shop, courier) = (gateway.integrator("shop").unwrap(), gateway.integrator("courier").unwrap());
    let seller = Client::new(&gateway, &shop).await.unwrap();
    let carrier = Client::new(&gateway, &courier).await.unwrap();
    let server = Receiver::start().await;
    let url = |path: &str| format!("{}{path}", server.url);
    let place = json!({"postbackUrl": url("/courier")});
    assert_eq!(carrier.post("/api/v1/postbacks/splits", place.clone()).await.unwrap(), (200, place.clone()));
    assert_eq!(carrier.get("/api/v1/postbacks/splits").await.unwrap(), (200, place));

    let charge = json!({
        "amount": "15.55", "external_id": "order-1", "postbackUrl": url("/shop"),
        "payer": {"name": "Maria Silva", "document": "52998224725"},
        "split": [{"recipient": courier.uuid, "percentage": "10.5"}],
    });
    let (status, charge) = seller.post("/api/v1/charges", charge).await.unwrap();
    assert_eq!(status, 201, "{charge}");
    pay(&gateway, &text(&charge, "/pix_id").unwrap()).await.unwrap();
    soon("both have been told", || async {
        !server.at("/shop").is_empty() && !server.at("/courier").is_empty()
    })
    .await;
    // 10.5 % of 15.55 is 1.63275: the odd part of a centavo is the shop's.
    assert_eq!(seller.balance().await.unwrap(), "13.92");
    assert_eq!(carrier.balance().await.unwrap(), "1.63");
    let (told, heard) = (server.at("/courier"), server.at("/shop"));
    assert_eq!((names(&told), names(&heard)), (vec!["split.received"], vec!["cashin.confirmed"]));
    assert_eq!((&told[0].body["amount"], &told[0].body["transactionType"]), (&json!(1.63), &json!("SPLIT")));
    assert!(!told[0].body.to_string().contains("Maria"), "{}", told[0].body);
    let (_, splits) = carrier.get("/api/v1/splits").await.unwrap();
    assert_eq!((&splits["data"][0]["from"], &splits["data"][0]["amount"]), (&json!(shop.uuid), &json!(1.63)));
    assert_eq!(splits["data"][0]["uuid"], told[0].body["uuid"]);

    // Spent for the greater part, and then a part of the payment goes back: the courier gives what it has.
    let out = json!({
        "amount": "1.30", "external_id": "out-1",
        "creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
    });
    let (status, out) = carrier.post("/api/v1/withdrawals", out).await.unwrap();
    assert_eq!(status, 201, "{out}");
    let refund = json!({"amount": "5", "external_id": "back-1"});
    let uuid = text(&charge, "/uuid").unwrap();
    let (status, refund) = seller.post(&format!("/api/v1/charges/{uuid}/refunds"), refund).await.unwrap();
    assert_eq!(status, 201, "{refund}");
    soon("the courier is told", || async { server.at("/courier").len() == 2 }).await;
    assert_eq!(names(&server.at("/courier")), ["split.received", "split.taken_back"]);
    // 1.63 × 5.00 / 15.55 is 0.5241…, of which 0.33 are there.
    assert_eq!(server.at("/courier")[1].body["amount"], json!(0.33));
    assert_eq!(seller.balance().await.unwrap(), "9.25");
    let (_, balance) = carrier.get("/api/v1/balance").await.unwrap();
    assert_eq!((&balance["available"], &balance["owed"]), (&json!(0), &json!(0)), "{balance}");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

/// Secrets overlap: both sign until the old one is retired. The id of the event that was sent twice more.
async fn secrets_overlap(
    gateway: &Gateway,
    uuid: &str,
    client: &Client,
    server: &Receiver,
    paid: &Value,
) -> String {
    let secret = |arguments: &[&str]| {
        let own = ["secret", arguments[0], "--integrator", uuid, "--json"];
        gateway.cli_json(&[&own, &arguments[1..]].concat()).unwrap()
    };
    assert_eq!(secret(&["show"]).as_array().unwrap().len(), 1);
    let added = secret(&["rotate"]);
    assert!(added["secret"].as_str().unwrap().starts_with("whsec_"));
    let again = |id: String| {
        let client = client.clone();
        async move {
            let before = server.at("/v1").len();
            let (status, answer) =
                client.post(&format!("/api/v1/events/{id}/redeliver"), json!({})).await.unwrap();
            assert_eq!(status, 202, "{answer}");
            soon("it has arrived again", || async { server.at("/v1").len() > before }).await;
            server.at("/v1").pop().unwrap()
        }
    };
    let id = paid["eventId"].as_str().unwrap().to_owned();
    let both = again(id.clone()).await;
    assert_eq!(both.body, *paid, "what is sent again is the same");
    assert_eq!(both.headers["webhook-signature"].split(' ').count(), 2);
    assert_ne!(both.headers["x-webhook-signature-next"], both.headers["x-webhook-signature"]);
    secret(&["retire", "1"]);
    let one = again(id.clone()).await;
    assert_eq!(one.headers["webhook-signature"].split(' ').count(), 1);
    assert_eq!(one.headers["x-webhook-signature"], both.headers["x-webhook-signature-next"]);
    id
}

async fn a_receiver_that_fails_gets_it_later_and_one_that_is_gone_is_switched_off(database: Database) {
    let gateway = Gateway::start(database, &DEVELOPMENT).unwrap();
    let integrator = gateway.integrator("failing").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let server = Receiver::start().await;
    server.will_answer("/fails", &["500 Internal Server Error"]);
    server.will_answer("/moved", &["308 Permanent Redirect\r\nLocation: /elsewhere"]);
    server.will_answer("/gone", &["410 Gone"]);
    let refused = json!({"amount": 1, "postbackUrl": "http://169.254.169.254/latest", "payer": {"name": "M S", "document": "52998224725"}});
    let (status, refused) = client.post("/api/v1/charges", refused).await.unwrap();
    assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("postbackUrl")), "{refused}");
    let mut charges = Vec::new();
    for path in ["/fails", "/moved", "/gone", "/gone"] {
        let body = json!({"amount": 5, "postbackUrl": format!("{}{path}", server.url), "payer": {"name": "M S", "document": "52998224725"}});
        let (status, charge) = client.post("/api/v1/charges", body).await.unwrap();
        assert_eq!(status, 201, "{charge}");
        charges.push(text(&charge, "/pix_id").unwrap());
    }
    for pix_id in &charges[..3] {
        pay(&gateway, pix_id).await.unwrap();
    }
    soon("it came again after five seconds", || async {
        server.at("/fails").len() == 2 && server.at("/moved").len() == 2
    })
    .await;
    let fails = server.at("/fails");
    assert_eq!(fails[0].headers["webhook-id"], fails[1].headers["webhook-id"]);
    assert!(server.at("/elsewhere").is_empty(), "no redirect is followed");
    let endpoints = || async { client.get("/api/v1/postbacks/endpoints").await.unwrap().1["data"].clone() };
    soon("the endpoint is off", || async { endpoints().await.to_string().contains("\"reason\":\"gone\"") })
        .await;
    // What happens now is not sent there, and says so.
    pay(&gateway, &charges[3]).await.unwrap();
    let undelivered =
        || async { client.get("/api/v1/events?delivered=false").await.unwrap().1["data"].clone() };
    soon("both are given up", || async {
        let dead = undelivered().await;
        dead.as_array().unwrap().len() == 2
            && dead.as_array().unwrap().iter().all(|event| event["delivery"]["status"] == "dead")
    })
    .await;
    assert_eq!(undelivered().await[0]["delivery"]["reason"], "endpoint_off");
    assert_eq!(server.at("/gone").len(), 1);
    let endpoint = text(&endpoints().await, "/0/id").unwrap();
    let listed =
        gateway.cli_json(&["postback", "endpoints", "--integrator", &integrator.uuid, "--json"]).unwrap();
    assert_eq!(listed[0]["id"], json!(endpoint));
    let (status, enabled) =
        client.post(&format!("/api/v1/postbacks/endpoints/{endpoint}/enable"), json!({})).await.unwrap();
    assert_eq!(status, 200, "{enabled}");
    let replayed =
        gateway.cli_json(&["postback", "replay", "--integrator", &integrator.uuid, "--json"]).unwrap();
    assert_eq!(replayed["replayed"], 2);
    soon("what it missed has arrived", || async { server.at("/gone").len() == 3 }).await;
    soon("nothing is undelivered", || async { undelivered().await == json!([]) }).await;
    let (status, tried) =
        client.post("/api/v1/postbacks/test", json!({"url": format!("{}/test", server.url)})).await.unwrap();
    assert_eq!((status, &tried["delivered"]), (200, &json!(true)), "{tried}");
    let ping = server.at("/test").pop().unwrap();
    assert_eq!(ping.body["event"], "ping");
    assert!(!ping.body.to_string().contains("RECEIVEPIX"));
}

async fn what_was_applied_before_a_kill_arrives_after_it(database: Database) {
    let mut gateway = Gateway::start(database, &DEVELOPMENT).unwrap();
    let integrator = gateway.integrator("killed").unwrap();
    let mut client = Client::new(&gateway, &integrator).await.unwrap();
    let server = Receiver::start().await;
    // The first attempt is cut by the kill, or fails: either way it is not lost.
    server.will_answer("/killed", &["503 Service Unavailable\r\nRetry-After: 1"]);
    let body = json!({"amount": 5, "postbackUrl": format!("{}/killed", server.url), "payer": {"name": "M S", "document": "52998224725"}});
    let (_, charge) = client.post("/api/v1/charges", body).await.unwrap();
    pay(&gateway, &text(&charge, "/pix_id").unwrap()).await.unwrap();
    soon("it was tried", || async { !server.at("/killed").is_empty() }).await;
    gateway.kill().unwrap();
    let before = server.at("/killed").len();
    gateway.run(&["serve"]).unwrap();
    client.sign_in(&integrator).await.unwrap();
    soon("it came after the start", || async { server.at("/killed").len() > before }).await;
    let all = server.at("/killed");
    assert_eq!(all[0].headers["webhook-id"], all[before].headers["webhook-id"]);
    let delivered =
        || async { client.get("/api/v1/events?delivered=true").await.unwrap().1["data"] != json!([]) };
    soon("it is delivered", delivered).await;
}
