//! The gateway itself, with its simulated provider on the path: what a client of the real program sees. Nothing is left
//! out: tokens, rate limits, idempotency, the provider's round trips, the reconciler beside it.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::Bench;
use crate::http::OverHttp;
use crate::load::{Connection, Next, request};
use crate::measure::{Pace, Paced, Plan, drive};
use crate::report::Row;

/// Connections of the load.
pub const CONNECTIONS: u32 = 32;
/// Connections of a load with a rate of its own: more than are ever busy, while the gateway keeps up.
const PACED_CONNECTIONS: u32 = 256;
/// Charges made and paid beforehand, to be settled.
const MOST_PAYMENTS: u64 = 40_000;
/// Payments that callbacks tell of, no more than a node has in line, and how long crediting all of them may take.
const CALLED_BACK: u64 = 1_000;
const CREDIT_LIMIT: Duration = Duration::from_mins(2);
/// What each charge is of.
const CHARGED_REAIS: u64 = 100;
/// The most requests that a token may make in a minute.
const NO_LIMIT: &str = "10000000";
/// How long a start may take.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The simulated provider's.
pub const PROVIDER_SECRET: &str = "simulator-secret";

/// A process that ends when it is dropped.
pub struct Process(Child);

impl Process {
    /// Starts a program, whose errors are this program's.
    pub fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        Ok(Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?))
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Starts a program and waits for a line; the rest of its output is thrown away.
fn start(command: &mut Command, until: &str) -> anyhow::Result<Process> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("no output")?;
    let mut errors = BufReader::new(child.stderr.take().context("no errors")?);
    let said = Arc::new(Mutex::new(String::new()));
    let saying = Arc::clone(&said);
    thread::spawn(move || {
        let mut line = String::new();
        while errors.read_line(&mut line).is_ok_and(|count| count > 0) {
            let mut said = saying.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() < 4096 {
                said.push_str(&line);
            }
            line.clear();
        }
    });
    let process = Process(child);
    let mut lines = BufReader::new(output);
    let mut line = String::new();
    while !line.contains(until) {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            // What it says on standard error arrives about now.
            thread::sleep(Duration::from_millis(100));
            bail!("the program ended at its start: {}", said.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
    thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    Ok(process)
}

/// A gateway that runs, and a provider beside it in a process of its own.
pub struct Gateway {
    process: Process,
    _simulator: Process,
    folder: tempfile::TempDir,
    /// Where it listens.
    pub address: SocketAddr,
    simulator: SocketAddr,
    callback_secret: String,
    settings: Vec<(String, String)>,
    program: PathBuf,
    /// How long it took from its start until it was ready.
    pub ready_after: Duration,
}

impl Gateway {
    /// Starts the program on a database.
    pub fn start(bench: &Bench, database: &str) -> anyhow::Result<Self> {
        Self::start_with(bench, database, &[])
    }

    /// The same with other settings, which win.
    pub fn start_with(bench: &Bench, database: &str, others: &[(&str, &str)]) -> anyhow::Result<Self> {
        let program = released(bench)?;
        let folder = tempfile::tempdir()?;
        let (address, simulator) = (free_address()?, free_address()?);
        let mut provider = Command::new(&program);
        provider.args(["simulator", "--listen", &simulator.to_string()]).current_dir(folder.path());
        provider.env("PIX_LOG", "error");
        let provider = start(&mut provider, "simulated provider on")?;
        let secrets = secrets(&program)?;
        let (token_keys, callback_secret) =
            (text(&secrets, "/PIX_TOKEN_KEYS")?, text(&secrets, "/PIX_PROVIDER_CALLBACK_SECRET")?);
        let postback_keys = text(&secrets, "/PIX_POSTBACK_KEYS")?;
        let (listen, provider_url) = (address.to_string(), format!("http://{simulator}"));
        let settings: [(&str, &str); 13] = [
            ("DATABASE_URL", database),
            ("PIX_LISTEN", &listen),
            ("PIX_ADMIN_LISTEN", "off"),
            ("PIX_CALLBACKS_PER_SECOND", "100000"),
            ("PIX_PROVIDER_URL", &provider_url),
            ("PIX_PROVIDER_CLIENT_SECRET", PROVIDER_SECRET),
            ("PIX_PROVIDER_CALLBACK_SECRET", &callback_secret),
            ("PIX_TOKEN_KEYS", &token_keys),
            ("PIX_POSTBACK_KEYS", &postback_keys),
            ("PIX_RATE_API_PER_MINUTE", NO_LIMIT),
            ("PIX_RATE_API_BURST", "100000"),
            ("PIX_RATE_TOKEN_PER_MINUTE", "10000"),
            ("PIX_LOG", "error"),
        ];
        let settings = settings
            .iter()
            .chain(others)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<Vec<_>>();
        let (process, ready_after) = launch(&program, &settings, folder.path(), address)?;
        Ok(Self {
            process,
            _simulator: provider,
            folder,
            address,
            simulator,
            callback_secret,
            settings,
            program,
            ready_after,
        })
    }

    /// Ends it, and starts it again; how long it took until it was ready.
    pub fn start_again(&mut self) -> anyhow::Result<Duration> {
        drop(self.process.0.kill());
        self.process.0.wait()?;
        let (process, ready_after) = launch(&self.program, &self.settings, self.folder.path(), self.address)?;
        self.process = process;
        Ok(ready_after)
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn cli(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.program);
        let output = command.args(arguments).envs(self.settings.iter().cloned()).output()?;
        ensure!(output.status.success(), "{arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Makes an integrator; the header that its requests bear.
    pub async fn integrator(&self) -> anyhow::Result<String> {
        let made = self.cli(&["integrator", "create", "--name", "bench", "--json"])?;
        let key = self.cli(&["key", "create", "--integrator", &text(&made, "/uuid")?, "--json"])?;
        let body = format!(
            "{{\"grant_type\":\"client_credentials\",\"public_id\":\"{}\",\"secret\":\"{}\"}}",
            text(&key, "/public_id")?,
            text(&key, "/secret")?
        );
        let token = ask(self.address, &request("POST", "/v2/oauth/token", "", &body)).await?;
        Ok(format!("Authorization: Bearer {}\r\n", text(&token, "/access_token")?))
    }
}

/// The gateway's program.
pub fn released(bench: &Bench) -> anyhow::Result<PathBuf> {
    bench.gateway.canonicalize().with_context(|| {
        format!("there is no {}: cargo build --release -p pix-gateway", bench.gateway.display())
    })
}

/// Fresh secrets, by the names of their settings.
pub fn secrets(program: &Path) -> anyhow::Result<Value> {
    let made = Command::new(program).args(["secrets", "--json"]).output()?;
    serde_json::from_slice(&made.stdout).context("`pix-gateway secrets` failed")
}

fn launch(
    program: &Path,
    settings: &[(String, String)],
    folder: &Path,
    address: SocketAddr,
) -> anyhow::Result<(Process, Duration)> {
    let began = Instant::now();
    let mut command = Command::new(program);
    command.arg("serve").envs(settings.iter().cloned()).current_dir(folder);
    let process = start(&mut command, "listening on")?;
    while began.elapsed() < START_LIMIT {
        if is_ready(address) {
            return Ok((process, began.elapsed()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!("the gateway is not ready after {} s", START_LIMIT.as_secs())
}

fn is_ready(address: SocketAddr) -> bool {
    use std::io::{Read, Write};
    let ask = || -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.write_all(b"GET /health/ready HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

/// The text at a place.
pub fn text(value: &Value, pointer: &str) -> anyhow::Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    Ok(found.with_context(|| format!("no text at {pointer} in {value}"))?.to_owned())
}

/// One request on a connection of its own; its answer.
pub async fn ask(address: SocketAddr, request: &[u8]) -> anyhow::Result<Value> {
    let answer = Connection::open(address, Arc::new(|| None)).await?.ask(request).await?;
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    ensure!((200..300).contains(&answer.status), "the answer is {}: {body}", answer.status);
    Ok(serde_json::from_str(&body)?)
}

/// Requests with a number in their body, counted up.
pub fn numbered(
    method: &'static str,
    path: String,
    headers: String,
    body: impl Fn(usize) -> String + Send + Sync + 'static,
) -> Next {
    let next = AtomicUsize::new(0);
    Arc::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        Some(request(method, &path, &headers, &body(number)))
    })
}

/// Requests with one text of a list each, round and round or once.
fn each_of(path: String, headers: String, field: &'static str, ids: Vec<String>, again: bool) -> Next {
    let next = AtomicUsize::new(0);
    Arc::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let number = if again { number % ids.len().max(1) } else { number };
        let id = ids.get(number)?;
        Some(request("POST", &path, &headers, &format!("{{\"{field}\":\"{id}\"}}")))
    })
}

/// A request that makes a charge.
pub fn charge_requests(prefix: &'static str, headers: &str) -> Next {
    numbered("POST", "/api/v1/charges".into(), headers.to_owned(), move |number| {
        format!(
            "{{\"amount\":100,\"external_id\":\"{prefix}-{number}\",\
             \"payer\":{{\"name\":\"Maria Silva\",\"document\":\"52998224725\"}}}}"
        )
    })
}

/// No two on their way at once look alike.
fn withdrawal_requests(headers: &str) -> Next {
    numbered("POST", "/api/v1/withdrawals".into(), headers.to_owned(), |number| {
        let (reais, cents) = (number % 400 / 100 + 1, number % 100);
        format!(
            "{{\"amount\":{reais}.{cents:02},\"external_id\":\"payout-{number}\",\"creditParty\":{{\"name\":\"Ana Lima\",\
             \"keyType\":\"EMAIL\",\"key\":\"ana{number}@example.com\",\"taxId\":\"52998224725\"}}}}"
        )
    })
}

/// The same amount to the same payee every time: each has to be told from all that look like it.
fn twin_requests(headers: &str) -> Next {
    numbered("POST", "/api/v1/withdrawals".into(), headers.to_owned(), |number| {
        format!(
            "{{\"amount\":0.01,\"external_id\":\"twin-{number}\",\"creditParty\":{{\"name\":\"Ana Lima\",\
             \"keyType\":\"EMAIL\",\"key\":\"ana@example.com\",\"taxId\":\"52998224725\"}}}}"
        )
    })
}

/// Makes charges and pays them at the provider, which calls nobody back; their ids.
async fn paid_charges(gateway: &Gateway, headers: &str, count: u64) -> anyhow::Result<Vec<String>> {
    let next = charge_requests("paid", headers);
    let left = Arc::new(AtomicUsize::new(usize::try_from(count)?));
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut own = Connection::open(gateway.address, Arc::new(|| None)).await?;
        let mut provider = Connection::open(gateway.simulator, Arc::new(|| None)).await?;
        let (next, left) = (Arc::clone(&next), Arc::clone(&left));
        tasks.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            let take = |left: usize| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                let answer = own.ask(&next().context("a request")?).await?;
                let made: Value = serde_json::from_slice(&answer.body)?;
                let path = format!("/sim/charges/{}/pay", text(&made, "/pix_id")?);
                let paid = provider.ask(&request("POST", &path, "", "{\"callback\":false}")).await?;
                ensure!(paid.status == 200, "the provider did not take a payment");
                ids.push(text(&made, "/uuid")?);
            }
            Ok::<_, anyhow::Error>(ids)
        }));
    }
    let mut ids = Vec::new();
    for task in tasks {
        ids.extend(task.await??);
    }
    Ok(ids)
}

/// Measures one kind of request on the gateway, and adds a row.
async fn step(
    bench: &mut Bench,
    gateway: &Gateway,
    what: &str,
    next: &Next,
    postmaster: Option<u32>,
) -> anyhow::Result<OverHttp> {
    let connections = Connection::several(CONNECTIONS, gateway.address, next).await?;
    let over = OverHttp::measure(bench, gateway.pid(), connections, postmaster).await?;
    bench
        .report
        .row(Row::figure(format!("gateway: {what}"), over.measured.per_second(), "/s").note(over.note()));
    Ok(over)
}

/// Measures how long one kind of request takes that comes at a rate of its own, from when each is due.
async fn at_a_rate(
    bench: &mut Bench,
    gateway: &Gateway,
    what: &str,
    next: &Next,
    per_second: f64,
    postmaster: Option<u32>,
) -> anyhow::Result<()> {
    let connections = Connection::several(PACED_CONNECTIONS, gateway.address, next).await?;
    let pace = Pace::of(per_second);
    let paced = connections.into_iter().map(|connection| Paced::new(connection, &pace)).collect();
    let over = OverHttp::measure(bench, gateway.pid(), paced, postmaster).await?;
    let note = format!(
        "{per_second:.0} a second are due, {:.0} were answered; {}",
        over.measured.per_second(),
        over.note()
    );
    bench
        .report
        .row(Row::figure(format!("gateway: {what}: p99"), over.measured.millis(0.99), "ms").note(note));
    Ok(())
}

async fn measure(
    bench: &mut Bench,
    gateway: &Gateway,
    store: &str,
    postmaster: Option<u32>,
) -> anyhow::Result<()> {
    let headers = gateway.integrator().await?;
    let what = |what: &str| format!("{what}, {store}, {CONNECTIONS} connections");
    let nothing = numbered("GET", "/health/live".into(), String::new(), |_number| String::new());
    step(bench, gateway, &what("health"), &nothing, None).await?;
    let balance = numbered("GET", "/api/v1/balance".into(), headers.clone(), |_number| String::new());
    step(bench, gateway, &what("balance"), &balance, postmaster).await?;
    let charges =
        step(bench, gateway, &what("charges"), &charge_requests("order", &headers), postmaster).await?;
    let half = charges.measured.per_second() / 2.0;
    at_a_rate(
        bench,
        gateway,
        &what("charges at half that rate"),
        &charge_requests("paced", &headers),
        half,
        postmaster,
    )
    .await?;
    // Settling asks the provider once, as making a charge does, so it is about as quick.
    let enough = charges.measured.done.saturating_mul(4);
    let ids = paid_charges(gateway, &headers, enough.min(MOST_PAYMENTS)).await?;
    let asked = "/api/v1/transactions/consult";
    let settle = each_of(asked.into(), headers.clone(), "uuid", ids.clone(), false);
    step(bench, gateway, &what("settlements"), &settle, postmaster).await?;
    let consult = each_of(asked.into(), headers.clone(), "uuid", ids.clone(), true);
    step(bench, gateway, &what("consults"), &consult, postmaster).await?;
    step(bench, gateway, &what("withdrawals"), &withdrawal_requests(&headers), postmaster).await?;
    let twins = what("withdrawals of one amount to one payee");
    step(bench, gateway, &twins, &twin_requests(&headers), postmaster).await?;
    // What these lead to goes on after their answers, so nothing else comes after them.
    let rate = credited(gateway).await?;
    let note = format!(
        "{CALLED_BACK} of them, from the first callback until the last one's money is in the balance"
    );
    bench.report.row(
        Row::figure(format!("gateway: {}", what("payments credited by callbacks")), rate, "/s").note(note),
    );
    let callbacks = format!("/callbacks/{}", gateway.callback_secret);
    let tell = each_of(callbacks, String::new(), "external_id", ids, false);
    step(bench, gateway, &what("callbacks taken"), &tell, postmaster).await?;
    Ok(())
}

/// How many payments a second are credited of which nothing but callbacks tells, on an integrator of their own.
async fn credited(gateway: &Gateway) -> anyhow::Result<f64> {
    let headers = gateway.integrator().await?;
    let balance = request("POST", "/v2/balance", &headers, "");
    let available = async || text(&ask(gateway.address, &balance).await?, "/message/balance");
    let ids = paid_charges(gateway, &headers, CALLED_BACK).await?;
    ensure!(available().await? == "0.00", "something was credited before anybody called back");
    let callbacks = format!("/callbacks/{}", gateway.callback_secret);
    let tell = each_of(callbacks, String::new(), "external_id", ids, false);
    let connections = Connection::several(CONNECTIONS, gateway.address, &tell).await?;
    let began = Instant::now();
    let plan = Plan { warm: Duration::ZERO, time: CREDIT_LIMIT };
    let told = drive(connections, plan, || (), || ()).await?.done;
    ensure!(told == CALLED_BACK, "{told} callbacks were taken only");
    let all = format!("{}.00", CALLED_BACK * CHARGED_REAIS);
    while available().await? != all {
        ensure!(began.elapsed() < CREDIT_LIMIT, "not all was credited: {}", available().await?);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(CALLED_BACK as f64 / began.elapsed().as_secs_f64())
}

/// The whole part.
pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    bench.report.section(
        "The program itself",
        "`pix-gateway serve` with its defaults, but for limits that would be met (`PIX_CALLBACKS_PER_SECOND=100000`, \
         `PIX_RATE_API_PER_MINUTE=10000000`), one integrator, with the simulated provider in a process of its own on the \
         same machine. Making a charge, a withdrawal, a consult and a settlement each ask the provider over HTTP before \
         they are answered. *Charges at half that rate* come at that rate from as many connections as it takes, whether or \
         not earlier ones were answered, and the time of each counts from when it was due. A settlement is the first \
         consult of a charge that was paid; a callback is stored and answered at once, and what it leads to comes afterwards.",
    );
    let runtime = tokio::runtime::Runtime::new()?;
    let database = bench.lab()?.empty(&bench.runtime)?;
    let (url, postmaster) = (bench.lab()?.server().url(&database), bench.lab()?.postmaster()?);
    let gateway = Gateway::start(bench, &url)?;
    runtime.block_on(measure(bench, &gateway, "PostgreSQL", Some(postmaster)))?;
    drop(gateway);
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("bench.db").display());
    let gateway = Gateway::start(bench, &url)?;
    runtime.block_on(measure(bench, &gateway, "SQLite", None))
}
