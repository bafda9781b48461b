//! Runs the program as a user would, for black-box tests: starts it, calls it, kills it, reads its output.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, ensure};
pub use listener::{Conduct, Heard, Listener};
pub use pix_pg_server::Port;
use pix_pg_server::{PgBouncer, PgServer, PoolMode};
use serde_json::{Value, json};

pub mod browser;
pub mod console;
pub mod crash;
mod listener;
pub mod storm;

/// The program, built once a test binary, so that it is never older than its sources.
///
/// # Panics
///
/// When it doesn't build: there is nothing to test then.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        build(&[], None);
        target_folder().join("debug/pix-gateway")
    })
}

/// The program with its fail points, built once a process. It is another build of the one crate that has them, over the
/// same builds of all others, and lies in a folder of its own.
///
/// # Panics
///
/// When it doesn't build: there is nothing to test then.
pub fn program_with_fail_points() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let own = target_folder().join("fail-points");
        build(&["--features", "pix-gateway/fail-points"], Some(&own));
        own.join("debug/pix-gateway")
    })
}

/// Builds the program in its own folder or into `apart`.
///
/// A test names itself among what is built. It is fresh, but what its dependencies are compiled with, such as a feature
/// that only tests ask for, holds for the program then: the build is over the very crates that `make test` has compiled,
/// where a plain one would compile half of them a second time.
fn build(arguments: &[&str], apart: Option<&Path>) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet"]).args(arguments).current_dir(repository());
    match test_target() {
        Some(test) => cargo.args(["--workspace", "--bin", "pix-gateway", "--test", &test]),
        None => cargo.args(["--package", "pix-gateway"]),
    };
    // What cargo tells a test of its package would be told to build scripts, and ring's runs anew when it changes.
    for (name, _) in std::env::vars_os() {
        let told = name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CFG_"]
                .iter()
                .any(|of_package| name.starts_with(of_package))
        });
        if told || name == "OUT_DIR" {
            cargo.env_remove(name);
        }
    }
    if let Some(apart) = apart {
        cargo.arg("--target-dir").arg(apart).env("CARGO_BUILD_BUILD_DIR", target_folder());
    }
    assert!(cargo.status().is_ok_and(|status| status.success()), "the program does not build");
}

/// The name of the test that runs, of target/debug/deps/name-0123456789abcdef. None for a program.
fn test_target() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    path.parent()?.ends_with("deps").then_some(())?;
    let (name, _) = path.file_name()?.to_str()?.rsplit_once('-')?;
    Some(name.to_owned())
}

/// Of target/debug/this or target/debug/deps/this.
fn target_folder() -> PathBuf {
    let mut path = std::env::current_exe().unwrap_or_default();
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    path.pop();
    path
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Which store a gateway has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// A file in the gateway's folder.
    Sqlite,
    /// A database of its own on the server of this test binary.
    Postgres,
}

impl Database {
    /// The settings of a new one, for a gateway in `folder`.
    fn settings(self, folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
        match self {
            Self::Sqlite => {
                Ok(vec![("DATABASE_URL".to_owned(), format!("sqlite://{}", folder.join("pix.db").display()))])
            }
            Self::Postgres => {
                let mut settings = secrets()?;
                settings.push(("DATABASE_URL".to_owned(), fresh_postgres()?));
                Ok(settings)
            }
        }
    }
}

/// The URL of a new and empty database, on a server that ends with this process. Where `PIX_TEST_POOL_MODE` is set, it is that of
/// a pooler before the server.
pub fn fresh_postgres() -> anyhow::Result<String> {
    let (server, name) = (pix_pg_server::shared()?, pix_pg_server::fresh_name());
    server.create_database(&name)?;
    Ok(pooler(server)?.map_or_else(|| server.url(&name), |pooler| pooler.url(&name)))
}

/// The pooler that is asked for, and what the document says that the role then needs.
fn pooler(server: &PgServer) -> anyhow::Result<Option<&'static PgBouncer>> {
    static POOLER: Mutex<Option<&'static PgBouncer>> = Mutex::new(None);
    let Some(mode) = PoolMode::named()? else { return Ok(None) };
    let mut pooler = POOLER.lock().unwrap_or_else(PoisonError::into_inner);
    if pooler.is_none() {
        let document = std::fs::read_to_string(repository().join("docs/SCALING.md"))?;
        let of_the_role: String =
            document.lines().filter(|line| line.starts_with("ALTER ROLE pix SET ")).collect();
        ensure!(!of_the_role.is_empty(), "docs/SCALING.md says nothing of the role");
        let started = PgBouncer::start_for_many(server, mode, &of_the_role)?;
        *pooler = Some(Box::leak(Box::new(started)));
    }
    Ok(*pooler)
}

/// The secrets that nodes of one database share, made by the program.
fn secrets() -> anyhow::Result<Vec<(String, String)>> {
    let output = Command::new(program()).arg("secrets").output()?;
    let lines = String::from_utf8(output.stdout)?;
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Makes two tests of each async function that takes a [`Database`]: one with either store.
#[macro_export]
macro_rules! on_either_store {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::Database::Sqlite).await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name($crate::Database::Postgres).await;
                }
            )+
        }
    };
}

/// The file that says how far a gateway's clock is ahead.
const CLOCK: &str = "clock";

/// A gateway with a folder and ports of its own, which can be stopped, killed and started again.
pub struct Gateway {
    folder: tempfile::TempDir,
    settings: Vec<(String, String)>,
    /// Its address.
    pub url: String,
    /// The simulated provider's address.
    pub simulator: String,
    program: &'static Path,
    /// Stay this gateway's while it is down.
    _ports: [Port; 2],
    child: Option<Child>,
    log: Arc<Mutex<String>>,
    /// Read what it writes into `log`.
    readers: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Starts a gateway with `database`, the simulated provider, and settings of the test's own.
    pub fn start(database: Database, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::start_program(program(), database, settings)
    }

    /// The same of another build of the program.
    pub fn start_program(
        program: &'static Path,
        database: Database,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut own = database.settings(folder.path())?;
        let given = [
            ("PIX_RATE_API_PER_MINUTE", "10000000"),
            ("PIX_RATE_API_BURST", "100000"),
            ("PIX_RATE_TOKEN_PER_MINUTE", "10000"),
            ("PIX_RECONCILER_INTERVAL_MS", "50"),
            ("PIX_ADMIN_LISTEN", "off"),
        ];
        let given = given.iter().chain(settings);
        own.extend(given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Self::serve(folder, own, program)
    }

    /// From its next start on, and in the next subcommand, it is this program, such as another version of it.
    pub fn use_program(&mut self, program: &'static Path) {
        self.program = program;
    }

    /// Starts one whose clock can be set ahead: another build of the program.
    pub fn start_with_clock(database: Database, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut own = database.settings(folder.path())?;
        let clock = folder.path().join(CLOCK).display().to_string();
        let given = [
            ("PIX_RATE_API_PER_MINUTE", "10000000"),
            ("PIX_RATE_API_BURST", "100000"),
            ("PIX_RATE_TOKEN_PER_MINUTE", "10000"),
            ("PIX_RECONCILER_INTERVAL_MS", "50"),
            ("PIX_ADMIN_LISTEN", "off"),
            ("PIX_CLOCK_FILE", clock.as_str()),
        ];
        let given = given.iter().chain(settings);
        own.extend(given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Self::serve(folder, own, program_with_fail_points())
    }

    /// From now on the program's clock is so far ahead.
    pub fn set_clock_ahead(&self, ahead: Duration) -> anyhow::Result<()> {
        let (file, new) = (self.folder().join(CLOCK), self.folder().join("clock.new"));
        std::fs::write(&new, ahead.as_millis().to_string())?;
        Ok(std::fs::rename(new, file)?)
    }

    /// Starts another node on the same database. Clients may call either with the same token.
    pub fn another_node(&self) -> anyhow::Result<Self> {
        self.another_node_with(&[])
    }

    /// The same, with some settings of its own.
    pub fn another_node_with(&self, own: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mut settings = self.settings.clone();
        settings.push(("PIX_PUBLIC_URL".to_owned(), self.url.clone()));
        settings.extend(own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut node = Self::serve(tempfile::tempdir()?, settings, self.program)?;
        node.simulator.clone_from(&self.simulator);
        Ok(node)
    }

    fn serve(
        folder: tempfile::TempDir,
        mut settings: Vec<(String, String)>,
        program: &'static Path,
    ) -> anyhow::Result<Self> {
        let ports = [Port::reserve()?, Port::reserve()?];
        let [listen, simulator] = ports.each_ref().map(Port::number);
        settings.push(("PIX_LISTEN".to_owned(), format!("127.0.0.1:{listen}")));
        settings.push(("PIX_SIMULATOR_LISTEN".to_owned(), format!("127.0.0.1:{simulator}")));
        let mut gateway = Self {
            folder,
            settings,
            url: format!("http://127.0.0.1:{listen}"),
            simulator: format!("http://127.0.0.1:{simulator}"),
            program,
            _ports: ports,
            child: None,
            log: Arc::default(),
            readers: Vec::new(),
        };
        gateway.run(&["serve"])?;
        Ok(gateway)
    }

    /// Starts it again, after it was stopped or killed.
    pub fn run(&mut self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("the program does not start")?;
        let mut errors = child.stderr.take().context("no standard error")?;
        let mut output = BufReader::new(child.stdout.take().context("no standard output")?);
        let log = Arc::clone(&self.log);
        let of_errors = std::thread::spawn(move || copy(&mut errors, &log));
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            let read = output.read_line(&mut line)?;
            ensure!(read > 0, "the program ended at its start:\n{}", self.log());
            append(&self.log, line.as_bytes());
        }
        let log = Arc::clone(&self.log);
        let of_output = std::thread::spawn(move || copy(&mut output, &log));
        self.child = Some(child);
        self.readers = vec![of_errors, of_output];
        Ok(())
    }

    /// The program with this gateway's settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(arguments).envs(self.settings.iter().cloned()).current_dir(self.folder.path());
        command
    }

    /// Runs a subcommand to its end.
    pub fn cli(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.command(arguments).output()?)
    }

    /// Runs a subcommand that must succeed and answer in JSON.
    pub fn cli_json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let output = self.cli(arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?} failed: {errors}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// kill -9.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// The id of its process.
    pub fn pid(&self) -> anyhow::Result<u32> {
        Ok(self.child.as_ref().context("it is not running")?.id())
    }

    /// SIGTERM, as a service manager sends it; the exit code. Its log is whole then.
    pub fn terminate(&mut self) -> anyhow::Result<Option<i32>> {
        let mut child = self.child.take().context("it is not running")?;
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
        let code = child.wait()?.code();
        for reader in self.readers.drain(..) {
            reader.join().ok().context("its log could not be read")?;
        }
        Ok(code)
    }

    /// All that it has written so far, on both outputs.
    pub fn log(&self) -> String {
        self.log.lock().map(|log| log.clone()).unwrap_or_default()
    }

    /// What was in the database is lost, and only that: on SQLite the file, on PostgreSQL there is another, empty database.
    pub fn lose_database(&mut self) -> anyhow::Result<()> {
        let url =
            self.settings.iter_mut().find(|(name, _)| name == "DATABASE_URL").context("no DATABASE_URL")?;
        if url.1.starts_with("postgres") {
            url.1 = fresh_postgres()?;
            return Ok(());
        }
        for ending in ["", "-wal", "-shm"] {
            let file = self.folder.path().join(format!("pix.db{ending}"));
            if file.exists() {
                std::fs::remove_file(file)?;
            }
        }
        Ok(())
    }

    /// The folder with its database.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The last segment of the provider's callback path, wherever this gateway has it from.
    pub fn callback_secret(&self) -> anyhow::Result<String> {
        let set = self.settings.iter().find(|(name, _)| name == "PIX_PROVIDER_CALLBACK_SECRET");
        if let Some((_, secret)) = set {
            return Ok(secret.clone());
        }
        let keys = std::fs::read_to_string(self.folder().join("pix.db.keys"))?;
        let secret = keys.lines().find_map(|line| line.strip_prefix("callback_secret = "));
        Ok(secret.context("no callback_secret in the key file")?.trim_matches('"').to_owned())
    }

    /// The name of its database on the server of this test binary.
    pub fn database_name(&self) -> anyhow::Result<String> {
        let url = self.settings.iter().find(|(name, _)| name == "DATABASE_URL").context("no DATABASE_URL")?;
        let name = url.1.rsplit('/').next().and_then(|name| name.split('?').next());
        Ok(name.context("no name in DATABASE_URL")?.to_owned())
    }

    /// Makes an integrator with a key.
    pub fn integrator(&self, name: &str) -> anyhow::Result<Integrator> {
        let made = self.cli_json(&["integrator", "create", "--name", name, "--json"])?;
        let uuid = text(&made, "/uuid")?;
        let key = self.cli_json(&["key", "create", "--integrator", &uuid, "--json"])?;
        Ok(Integrator { uuid, public_id: text(&key, "/public_id")?, secret: text(&key, "/secret")? })
    }

    /// What `audit --json` says.
    pub fn audit(&self) -> anyhow::Result<Value> {
        let output = self.cli(&["audit", "--json"])?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("audit: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn copy(from: &mut impl Read, log: &Mutex<String>) {
    let mut buffer = [0; 4096];
    while let Ok(count) = from.read(&mut buffer) {
        match buffer.get(..count) {
            Some(read) if count > 0 => append(log, read),
            _ => return,
        }
    }
}

fn append(log: &Mutex<String>, bytes: &[u8]) {
    if let Ok(mut log) = log.lock() {
        log.push_str(&String::from_utf8_lossy(bytes));
    }
}

/// An integrator and its key.
#[derive(Clone)]
pub struct Integrator {
    /// Its uuid.
    pub uuid: String,
    /// The key's public id.
    pub public_id: String,
    /// The key's secret.
    pub secret: String,
}

/// A client of one integrator.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
}

/// An answer: its status and its body.
pub type Answer = (u16, Value);

impl Client {
    /// A client with a fresh token.
    pub async fn new(gateway: &Gateway, integrator: &Integrator) -> anyhow::Result<Self> {
        let http = http_client()?;
        let mut client = Self { http, url: gateway.url.clone(), token: String::new() };
        client.sign_in(integrator).await?;
        Ok(client)
    }

    /// Gets a fresh token.
    pub async fn sign_in(&mut self, integrator: &Integrator) -> anyhow::Result<()> {
        let request = self.http.post(format!("{}/v2/oauth/token", self.url));
        let answer = request.basic_auth(&integrator.public_id, Some(&integrator.secret)).send().await?;
        let status = answer.status();
        let body: Value = answer.json().await?;
        ensure!(status == 200, "no token: {body}");
        self.token = text(&body, "/access_token")?;
        Ok(())
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// GET.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.answer(self.http.get(format!("{}{path}", self.url))).await
    }

    /// POST with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> anyhow::Result<Answer> {
        self.post_raw(path, body.to_string().into_bytes()).await
    }

    /// POST with the body's very bytes.
    pub async fn post_raw(&self, path: &str, body: Vec<u8>) -> anyhow::Result<Answer> {
        let request = self
            .http
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(body);
        self.answer(request).await
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Answer> {
        let answer = request.bearer_auth(&self.token).send().await?;
        let status = answer.status().as_u16();
        let text = answer.text().await?;
        let body = serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))?;
        Ok((status, body))
    }

    /// Makes a charge over `reais`, pays it at the provider and has it credited.
    pub async fn fund(&self, gateway: &Gateway, reais: &str) -> anyhow::Result<Value> {
        let body =
            serde_json::json!({"amount": reais, "payer": {"name": "Maria Silva", "document": "52998224725"}});
        let (status, charge) = self.post("/api/v1/charges", body).await?;
        ensure!(status == 201, "no charge: {charge}");
        let pix_id = text(&charge, "/pix_id")?;
        pay(gateway, &pix_id).await?;
        let consult = serde_json::json!({"uuid": text(&charge, "/uuid")?});
        let (status, consulted) = self.post("/api/v1/transactions/consult", consult).await?;
        ensure!(
            status == 200 && consulted.pointer("/transaction/status") == Some(&Value::from("paid")),
            "{consulted}"
        );
        Ok(charge)
    }

    /// The available balance, as v2 says it.
    pub async fn balance(&self) -> anyhow::Result<String> {
        let (status, body) = self.post("/v2/balance", serde_json::json!({})).await?;
        ensure!(status == 200, "no balance: {body}");
        text(&body, "/message/balance")
    }
}

/// Pays a charge at the simulated provider.
pub async fn pay(gateway: &Gateway, id: &str) -> anyhow::Result<Value> {
    pay_with(gateway, id, json!({})).await
}

/// The same, with another amount or by another payer, as `how` says.
pub async fn pay_with(gateway: &Gateway, id: &str, how: Value) -> anyhow::Result<Value> {
    let to = format!("{}/sim/charges/{id}/pay", gateway.simulator);
    let answer = http_client()?.post(to).json(&how).send().await?;
    ensure!(answer.status() == 200, "the provider did not take the payment");
    Ok(answer.json().await?)
}

/// A client that speaks to loopback and nobody else: no proxy, no redirects.
pub fn http_client() -> anyhow::Result<reqwest::Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    Ok(builder.tls_certs_only([]).build()?)
}

/// The text at `pointer`.
pub fn text(value: &Value, pointer: &str) -> anyhow::Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    Ok(found.with_context(|| format!("no text at {pointer} in {value}"))?.to_owned())
}
