//! kill -9 at any moment: nothing lost that was answered 2xx, nothing sent twice, the books clean.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pix_tests::{Answer, Client, Database, Gateway, Integrator, Port, on_either_store, pay, program, text};
use serde_json::{Value, json};

/// How many times a node is killed, in each test.
const KILLS: u32 = 20;
/// How many clients call it meanwhile.
const CLIENTS: u64 = 8;
/// How long a client waits before it calls again.
const PAUSE: Duration = Duration::from_millis(10);
/// What seeds the clients' choices and the moments of the kills.
const SEED: u64 = 20_261_121;
/// How long after the last start everything must have come to an end.
const QUIET_WITHIN: Duration = Duration::from_mins(3);

/// What clients were told with a 2xx: path of the record → its uuid.
type Told = Arc<Mutex<BTreeMap<String, String>>>;

/// Who loads the machine: two tests at a time, since either waits half of its time.
static TURN: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

const SETTINGS: &[(&str, &str)] =
    &[("PIX_PROVIDER_TIMEOUT_MS", "1000"), ("PIX_PROVIDER_NOT_FOUND_PROOF_S", "7"), ("PIX_LOG", "warn")];

on_either_store!(
    killed_together_with_the_provider_nothing_is_lost_or_sent_twice,
    killed_while_the_provider_lives_on_nothing_is_lost_or_sent_twice,
    told_to_stop_it_finishes_what_runs_and_exits_well,
);

async fn killed_together_with_the_provider_nothing_is_lost_or_sent_twice(database: Database) {
    let turn = TURN.acquire().await;
    let gateway = Gateway::start(database, SETTINGS).unwrap();
    killed_under_load(vec![gateway], None).await;
    drop(turn);
}

async fn killed_while_the_provider_lives_on_nothing_is_lost_or_sent_twice(database: Database) {
    let turn = TURN.acquire().await;
    let provider = Provider::start();
    let gateway = provider.gateway(database);
    killed_under_load(vec![gateway], Some(&provider.log)).await;
    drop(turn);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_nodes_on_one_database_either_is_killed_and_nothing_is_lost_or_sent_twice() {
    let turn = TURN.acquire().await;
    let provider = Provider::start();
    let one = provider.gateway(Database::Postgres);
    let other = one.another_node().unwrap();
    killed_under_load(vec![one, other], Some(&provider.log)).await;
    drop(turn);
}

/// A simulated provider in a process of its own.
struct Provider {
    child: Child,
    url: String,
    log: String,
    _port: Port,
    _folder: tempfile::TempDir,
}

impl Provider {
    fn start() -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), Port::reserve().unwrap());
        let log = folder.path().join("provider.jsonl").display().to_string();
        let address = format!("127.0.0.1:{}", port.number());
        let mut command = std::process::Command::new(pix_tests::program());
        command.args(["simulator", "--listen", &address, "--log", &log]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        assert!(line.contains("simulated provider on"), "{line}");
        Self { child, url: format!("http://{address}"), log, _port: port, _folder: folder }
    }

    /// A gateway whose provider this is.
    fn gateway(&self, database: Database) -> Gateway {
        self.gateway_with(database, &[])
    }

    /// The same, with further settings.
    fn gateway_with<'a>(&'a self, database: Database, more: &[(&'a str, &'a str)]) -> Gateway {
        self.gateway_of(program(), database, more)
    }

    fn gateway_of<'a>(
        &'a self,
        program: &'static Path,
        database: Database,
        more: &[(&'a str, &'a str)],
    ) -> Gateway {
        let mut settings: Vec<(&str, &str)> = [SETTINGS, more].concat();
        settings.extend([
            ("PIX_PROVIDER_URL", self.url.as_str()),
            ("PIX_PROVIDER_CLIENT_SECRET", "simulator-secret"),
        ]);
        let mut gateway = Gateway::start_program(program, database, &settings).unwrap();
        gateway.simulator.clone_from(&self.url);
        gateway
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Clients call all nodes in turn, while one after the other is killed and started again.
async fn killed_under_load(mut nodes: Vec<Gateway>, log: Option<&str>) {
    let gateway = &nodes[0];
    let integrator = gateway.integrator("killed").unwrap();
    gateway
        .cli_json(&["fees", "set", "--integrator", &integrator.uuid, "--cash-out", "fixed=0.10", "--json"])
        .unwrap();
    Client::new(gateway, &integrator).await.unwrap().fund(gateway, "5000.00").await.unwrap();

    let (told, stop) = (Told::default(), Arc::new(AtomicBool::new(false)));
    let urls = nodes.iter().map(|node| node.url.clone()).collect();
    let address = Address { urls, simulator: gateway.simulator.clone() };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            tokio::spawn(load(address.clone(), integrator.clone(), number, told.clone(), stop.clone()))
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(SEED);
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(random.u64(200..1200))).await;
        let killed = random.usize(..nodes.len());
        nodes[killed].kill().unwrap();
        nodes[killed].run(&["serve"]).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let mut paid = Vec::new();
    for client in clients {
        paid.extend(client.await.unwrap());
    }

    let gateway = &nodes[0];
    let client = Client::new(gateway, &integrator).await.unwrap();
    for uuid in &paid {
        let (status, body) =
            client.post("/api/v1/transactions/consult", json!({"uuid": uuid})).await.unwrap();
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["transaction"]["status"], "paid", "{body}");
    }
    let audit = quiet(gateway, log).await;
    let told = told.lock().unwrap().clone();
    for (path, uuid) in &told {
        let (status, body) = client.get(path).await.unwrap();
        assert_eq!((status, text(&body, "/uuid").unwrap()), (200, uuid.clone()), "{path} was answered 2xx");
    }
    println!(
        "{KILLS} kills; {} records answered 2xx, {} charges paid; provider agrees on {}; wallet {}",
        told.len(),
        paid.len(),
        audit["provider"]["agreed"],
        audit["wallets"][0]
    );
    assert!(told.len() >= 50, "the load was no load: {}", told.len());
}

/// Waits until nothing is in flight, and returns the audit of that moment, which must be clean like every one before.
async fn quiet(gateway: &Gateway, log: Option<&str>) -> Value {
    let until = Instant::now() + QUIET_WITHIN;
    loop {
        let mut arguments = vec!["audit", "--json"];
        arguments.extend(log.into_iter().flat_map(|log| ["--simulator-log", log]));
        let audit: Value = serde_json::from_slice(&gateway.cli(&arguments).unwrap().stdout).unwrap();
        assert_eq!(audit["clean"], true, "{audit}\n{}", gateway.log());
        if audit["provider"]["in_flight"].as_array().unwrap().is_empty() {
            return audit;
        }
        assert!(Instant::now() < until, "still in flight: {audit}\n{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[derive(Clone)]
struct Address {
    urls: Vec<String>,
    simulator: String,
}

/// One client: charges that it pays, withdrawals in both generations, refunds. A call without an answer is made again
/// with the same external id until there is one. Returns the charges it paid.
async fn load(
    address: Address,
    integrator: Integrator,
    number: u64,
    told: Told,
    stop: Arc<AtomicBool>,
) -> Vec<String> {
    let mut caller = Caller {
        address,
        integrator,
        http: pix_tests::http_client().unwrap(),
        token: String::new(),
        calls: 0,
    };
    let mut random = fastrand::Rng::with_seed(SEED ^ number);
    let mut paid = Vec::new();
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let name = format!("client-{number}:{round}");
        match random.u8(0..4) {
            0 => {
                let body = json!({"amount": 3, "external_id": name, "payer": {"name": "Ana", "document": "52998224725"}});
                let charge = caller.until_answered("/api/v1/charges", &body).await;
                let uuid = text(&charge, "/uuid").unwrap();
                told.lock().unwrap().insert(format!("/api/v1/charges/{name}"), uuid.clone());
                if caller.pay(&text(&charge, "/pix_id").unwrap()).await {
                    paid.push(uuid.clone());
                    let back = json!({"amount": 1, "external_id": format!("back-{name}")});
                    let consult = json!({"uuid": uuid});
                    caller.until_answered("/api/v1/transactions/consult", &consult).await;
                    let refund =
                        caller.until_answered(&format!("/api/v1/charges/{uuid}/refunds"), &back).await;
                    let uuid = text(&refund, "/uuid").unwrap();
                    told.lock().unwrap().insert(format!("/api/v1/refunds/{uuid}"), uuid);
                }
            }
            1 => {
                let body = json!({
                    "amount": "1.25", "external_id": name,
                    "creditParty": {"name": "", "keyType": "EVP", "key": "123e4567-e89b-42d3-a456-426614174000"},
                });
                caller.until_answered("/v2/pix/payment", &body).await;
                let found = caller.get(&format!("/api/v1/withdrawals/{name}")).await;
                let uuid = text(&found, "/uuid").unwrap();
                told.lock().unwrap().insert(format!("/api/v1/withdrawals/{name}"), uuid);
            }
            _ => {
                let body = json!({
                    "amount": 0.75, "external_id": name,
                    "creditParty":
                        {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
                });
                let made = caller.until_answered("/api/v1/withdrawals", &body).await;
                told.lock()
                    .unwrap()
                    .insert(format!("/api/v1/withdrawals/{name}"), text(&made, "/uuid").unwrap());
            }
        }
    }
    paid
}

struct Caller {
    address: Address,
    integrator: Integrator,
    http: reqwest::Client,
    token: String,
    calls: usize,
}

impl Caller {
    async fn until_answered(&mut self, path: &str, body: &Value) -> Value {
        loop {
            match self.once(path, Some(body)).await {
                Some((200 | 201, answer)) => return answer,
                Some((401, _)) => self.sign_in().await,
                Some((503 | 504, _)) | None => tokio::time::sleep(PAUSE).await,
                Some((status, answer)) => panic!("{path} {body} was answered with {status}: {answer}"),
            }
        }
    }

    async fn get(&mut self, path: &str) -> Value {
        loop {
            match self.once(path, None).await {
                Some((200, answer)) => return answer,
                Some((401, _)) => self.sign_in().await,
                Some((503, _)) | None => tokio::time::sleep(PAUSE).await,
                Some((status, answer)) => panic!("{path} was answered with {status}: {answer}"),
            }
        }
    }

    /// The next node's address.
    fn node(&mut self) -> &str {
        self.calls += 1;
        &self.address.urls[self.calls % self.address.urls.len()]
    }

    async fn once(&mut self, path: &str, body: Option<&Value>) -> Option<Answer> {
        let url = format!("{}{path}", self.node());
        let request = match body {
            Some(body) => self.http.post(url).json(body),
            None => self.http.get(url),
        };
        let answer = request.bearer_auth(&self.token).send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.ok()?))
    }

    /// Signs in as soon as the gateway answers.
    async fn sign_in(&mut self) {
        loop {
            let url = format!("{}/v2/oauth/token", self.node());
            let request = self.http.post(url);
            let request = request.basic_auth(&self.integrator.public_id, Some(&self.integrator.secret));
            if let Ok(answer) = request.send().await
                && let Ok(body) = answer.json::<Value>().await
                && let Ok(token) = text(&body, "/access_token")
            {
                self.token = token;
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Pays at the provider, if it is up; whether it said that it was.
    async fn pay(&self, id: &str) -> bool {
        let request = self.http.post(format!("{}/sim/charges/{id}/pay", self.address.simulator));
        request.send().await.is_ok_and(|answer| answer.status() == 200)
    }
}

/// How long a node that is told to stop still takes requests: longer than a busy machine leaves a health check undone.
const DRAIN: &str = "5000";
/// How often a proxy asks whether a node is ready.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// The nodes as a proxy sees them: which of them are ready.
struct Rotation {
    urls: Vec<String>,
    ready: Vec<AtomicBool>,
    /// How many requests were answered.
    answered: AtomicUsize,
}

impl Rotation {
    /// Asks every node, again and again.
    async fn watch(self: Arc<Self>) {
        let http = pix_tests::http_client().unwrap();
        loop {
            for (url, ready) in self.urls.iter().zip(&self.ready) {
                let answer = http.get(format!("{url}/health/ready")).send().await;
                ready.store(answer.is_ok_and(|answer| answer.status() == 200), Ordering::SeqCst);
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// The next node that is ready.
    fn next(&self, turn: usize) -> Option<&str> {
        let nodes = (0..self.urls.len()).map(|number| (turn + number) % self.urls.len());
        let mut ready = nodes.filter(|node| self.ready[*node].load(Ordering::SeqCst));
        ready.next().map(|node| self.urls[node].as_str())
    }
}

/// Calls the nodes through the proxy, each request once; how many it made.
async fn through_the_proxy(nodes: Arc<Rotation>, token: String, number: u64, stop: Arc<AtomicBool>) -> usize {
    let http = pix_tests::http_client().unwrap();
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) {
        made += 1;
        let name = format!("rolling-{number}:{made}");
        let (path, body) = match made % 3 {
            0 => ("/v2/balance", json!({})),
            1 => (
                "/api/v1/charges",
                json!({"amount": 3, "external_id": name, "payer": {"name": "Ana", "document": "52998224725"}}),
            ),
            _ => (
                "/api/v1/withdrawals",
                json!({
                    // Not alike: whoever sends the same to the same payee at once waits for its turn.
                    "amount": format!("0.{}", 10 + made % 90), "external_id": name,
                    "creditParty":
                        {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
                }),
            ),
        };
        // A request waits while none is ready; it isn't lost.
        let node = loop {
            match nodes.next(made) {
                Some(node) => break node,
                None => tokio::time::sleep(CHECK_EVERY).await,
            }
        };
        let sent = http.post(format!("{node}{path}")).json(&body).bearer_auth(&token).send().await;
        let answer = sent.unwrap_or_else(|error| panic!("{path} {name} was lost: {error:?}"));
        let status = answer.status().as_u16();
        assert!(matches!(status, 200 | 201), "{path} {name}: {status} {}", answer.text().await.unwrap());
        nodes.answered.fetch_add(1, Ordering::Relaxed);
    }
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_started_anew_one_after_the_other_lose_no_request() {
    started_anew(None).await;
}

/// `make side-by-side`: two nodes of the version that `PIX_OLD_PROGRAM` names; the schema is brought up to date under them, and one
/// after the other becomes this version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a build of an older version: make side-by-side"]
async fn an_older_version_and_this_one_side_by_side_lose_no_request() {
    let old = std::env::var("PIX_OLD_PROGRAM").expect("PIX_OLD_PROGRAM names the older version");
    started_anew(Some(Path::new(old.leak()))).await;
}

/// How many requests are answered while one node is of the older version and the other of this one.
const MIXED: usize = 300;

async fn started_anew(older: Option<&'static Path>) {
    let turn = TURN.acquire().await;
    let provider = Provider::start();
    let settings = [("PIX_DRAIN_MS", DRAIN)];
    let one = match older {
        Some(older) => provider.gateway_of(older, Database::Postgres, &settings),
        None => provider.gateway_with(Database::Postgres, &settings),
    };
    let other = one.another_node().unwrap();
    let mut nodes = [one, other];
    let integrator = nodes[0].integrator("rolling").unwrap();
    let client = Client::new(&nodes[0], &integrator).await.unwrap();
    client.fund(&nodes[0], "100000.00").await.unwrap();
    let rotation = Arc::new(Rotation {
        urls: nodes.iter().map(|node| node.url.clone()).collect(),
        ready: nodes.iter().map(|_| AtomicBool::new(true)).collect(),
        answered: AtomicUsize::new(0),
    });
    let watching = tokio::spawn(Arc::clone(&rotation).watch());
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let token = client.token().to_owned();
            tokio::spawn(through_the_proxy(Arc::clone(&rotation), token, number, Arc::clone(&stop)))
        })
        .collect();
    if older.is_some() {
        for node in &mut nodes {
            node.use_program(program());
        }
        let migrated = tokio::task::block_in_place(|| nodes[0].cli(&["migrate"])).unwrap();
        println!("migrated under load: {}", String::from_utf8_lossy(&migrated.stdout).trim());
        assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    }
    for (node, gateway) in nodes.iter_mut().enumerate() {
        // As an upgrade does: told to stop, and its successor started.
        assert_eq!(
            tokio::task::block_in_place(|| gateway.terminate()).unwrap(),
            Some(0),
            "{}",
            gateway.log()
        );
        tokio::task::block_in_place(|| gateway.run(&["serve"])).unwrap();
        let begun = Instant::now();
        while !rotation.ready[node].load(Ordering::SeqCst) {
            assert!(begun.elapsed() < QUIET_WITHIN, "never ready again: {}", gateway.log());
            tokio::time::sleep(CHECK_EVERY).await;
        }
        let before = rotation.answered.load(Ordering::Relaxed);
        while older.is_some() && rotation.answered.load(Ordering::Relaxed) < before + MIXED {
            assert!(begun.elapsed() < QUIET_WITHIN, "no load");
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut made = 0;
    for client in clients {
        made += client.await.unwrap();
    }
    watching.abort();
    let audit = quiet(&nodes[0], Some(&provider.log)).await;
    println!("{made} requests, none lost; provider agrees on {}", audit["provider"]["agreed"]);
    assert!(made >= 100, "the load was no load: {made}");
    drop(turn);
}

async fn told_to_stop_it_finishes_what_runs_and_exits_well(database: Database) {
    let mut gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("stopped").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let charge = client.fund(&gateway, "10").await.unwrap();
    assert_eq!(gateway.terminate().unwrap(), Some(0));
    gateway.run(&["serve"]).unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    assert_eq!(client.balance().await.unwrap(), "10.00");
    let paid_again = pay(&gateway, &text(&charge, "/pix_id").unwrap()).await.unwrap();
    assert!(paid_again["endToEndId"].is_string(), "{paid_again}");
    let consult = json!({"uuid": text(&charge, "/uuid").unwrap()});
    client.post("/api/v1/transactions/consult", consult).await.unwrap();
    assert_eq!(client.balance().await.unwrap(), "20.00", "a second PIX on one charge is money too");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}
