//! A gateway, its provider and their clocks, which can be put back to the same beginning in a moment. It owns processes
//! and files; it must never know what a cell does with them.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use pix_pg_server::{PgServer, Port};
use serde_json::{Value, json};

use crate::{Answer, Database, program_with_fail_points, text};

/// How long a process may take to start, to become quiet or to answer before that is an error of the harness.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a beginning asks for its charge.
const MAX_ASKED: usize = 20;
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);
/// The name of the file with the gateway's clock.
const CLOCK: &str = "clock";
/// Files that make a beginning.
const FILES: &[&str] = &["pix.db", "pix.db-wal", "pix.db-shm", "pix.db.keys", "provider.jsonl"];
/// `SIGKILL`
const KILLED: i32 = 9;

/// How the gateway is configured: a provider that is given up soon, and everything that only limits clients out of the
/// way.
const SETTINGS: &[(&str, &str)] = &[
    ("PIX_PROVIDER_CLIENT_SECRET", "simulator-secret"),
    ("PIX_PROVIDER_TIMEOUT_MS", "500"),
    ("PIX_PROVIDER_NOT_FOUND_PROOF_S", "60"),
    ("PIX_PROVIDER_BREAKER_FAILURES", "1000"),
    ("PIX_RATE_API_PER_MINUTE", "10000000"),
    ("PIX_RATE_API_BURST", "100000"),
    ("PIX_RATE_TOKEN_PER_MINUTE", "10000"),
    ("PIX_TOKEN_TTL_S", "86400"),
    ("PIX_RECONCILER_INTERVAL_MS", "50"),
    ("PIX_ADMIN_LISTEN", "off"),
    ("PIX_DB_MONEY_CONNECTIONS", "2"),
    ("PIX_DB_READ_CONNECTIONS", "2"),
    ("PIX_DB_WORKER_CONNECTIONS", "1"),
    ("PIX_LOG", "warn"),
];

/// Whether the gateway still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It does.
    Alive,
    /// It was killed at its fail point.
    Killed,
}

/// What every cell begins with.
pub struct Beginning {
    /// The uuid of a paid charge, for refunds.
    pub paid_charge: String,
    /// How many entries the provider's log has.
    pub logged: usize,
    /// The wallet's available centavos.
    pub available: i64,
}

/// See the module.
pub struct World {
    folder: tempfile::TempDir,
    store: Database,
    server: Option<&'static PgServer>,
    database: String,
    settings: Vec<(String, String)>,
    /// The gateway's address.
    pub url: String,
    /// The provider's address.
    pub simulator: String,
    /// Stay theirs while either is down.
    _ports: [Port; 2],
    http: reqwest::Client,
    token: String,
    provider: Option<Child>,
    gateway: Option<Child>,
    armed: bool,
    ahead_ms: u64,
}

impl World {
    /// Makes a world with one integrator and a paid charge, and nothing that is due.
    pub async fn new(
        store: Database,
        server: Option<&'static PgServer>,
    ) -> anyhow::Result<(Self, Beginning)> {
        let folder = tempfile::tempdir()?;
        let ports = [Port::reserve()?, Port::reserve()?];
        let [listen, simulator] = ports.each_ref().map(Port::number);
        let mut settings: Vec<(String, String)> =
            SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let url = format!("http://127.0.0.1:{listen}");
        let simulator = format!("http://127.0.0.1:{simulator}");
        let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
        set("PIX_LISTEN", format!("127.0.0.1:{listen}"));
        set("PIX_PROVIDER_URL", simulator.clone());
        set("PIX_CLOCK_FILE", folder.path().join(CLOCK).display().to_string());
        let database = pix_pg_server::fresh_name();
        match server {
            Some(server) => {
                let output = Command::new(program_with_fail_points()).arg("secrets").output()?;
                let lines = String::from_utf8(output.stdout)?;
                let pairs = lines.lines().filter_map(|line| line.split_once('='));
                pairs.for_each(|(name, value)| set(name, value.to_owned()));
                set("DATABASE_URL", server.url(&database));
                server.create_database(&database)?;
            }
            None => set("DATABASE_URL", format!("sqlite://{}", folder.path().join("pix.db").display())),
        }
        // Without connections that are kept: a process that is gone must not be taken for one that doesn't answer.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build()?;
        let mut world = Self {
            folder,
            store,
            server,
            database,
            settings,
            url,
            simulator,
            _ports: ports,
            http,
            token: String::new(),
            provider: None,
            gateway: None,
            armed: false,
            ahead_ms: 0,
        };
        world.start_provider()?;
        world.start_gateway(None)?;
        let beginning = world.populate().await?;
        world.keep()?;
        Ok((world, beginning))
    }

    async fn populate(&mut self) -> anyhow::Result<Beginning> {
        let made = self.cli(&["integrator", "create", "--name", "matrix", "--json"])?;
        let uuid = text(&made, "/uuid")?;
        let key = self.cli(&["key", "create", "--integrator", &uuid, "--json"])?;
        let rules =
            ["--cash-in", "fixed=0.03", "--cash-out", "fixed=0.10", "--refund", "fixed=0.05", "--json"];
        self.cli(&[&["fees", "set", "--integrator", &uuid][..], &rules].concat())?;
        let request = self.http.post(format!("{}/v2/oauth/token", self.url));
        let request = request.basic_auth(text(&key, "/public_id")?, Some(text(&key, "/secret")?));
        self.token = text(&request.send().await?.json().await?, "/access_token")?;

        let charge = json!({"amount": 1000, "external_id": "beginning", "payer": {"name": "Ana", "document": "52998224725"}});
        let mut made = self.post("/api/v1/charges", &charge).await?;
        for _ in 0..MAX_ASKED {
            // On a machine that is busy the provider may be too slow once.
            if matches!(made.0, 503 | 504) {
                made = self.post("/api/v1/charges", &charge).await?;
            }
        }
        let (status, charge) = made;
        ensure!(matches!(status, 200 | 201), "no charge: {charge}");
        let (pix_id, paid_charge) = (text(&charge, "/pix_id")?, text(&charge, "/uuid")?);
        // Without a callback: one that is on its way when everything is kept would be the first thing that each cell claims.
        self.control(&format!("/sim/charges/{pix_id}/pay"), &json!({"callback": false})).await?;
        let consult = json!({"uuid": paid_charge});
        let (status, consulted) = self.post("/api/v1/transactions/consult", &consult).await?;
        ensure!(status == 200, "{consulted}");
        let available = self.balance().await?.0;
        ensure!(available == 99_997, "the charge is not credited: {available}");
        let logged = self.log().await?.len();
        Ok(Beginning { paid_charge, logged, available })
    }

    /// Stops everything in order, and keeps what there is as the beginning of every cell.
    fn keep(&mut self) -> anyhow::Result<()> {
        for child in [self.gateway.take(), self.provider.take()].into_iter().flatten() {
            Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
            let mut child = child;
            child.wait()?;
        }
        let kept = self.folder.path().join("beginning");
        fs::create_dir(&kept)?;
        copy_files(self.folder.path(), &kept)?;
        if let Some(server) = self.server {
            let template = pix_pg_server::fresh_name();
            server.create_database_from(&template, &self.database)?;
            fs::write(kept.join("template"), template)?;
        }
        Ok(())
    }

    /// Puts everything back to the beginning, with the gateway armed at `step`.
    pub fn begin(&mut self, step: &str) -> anyhow::Result<Life> {
        self.end();
        let kept = self.folder.path().join("beginning");
        for name in FILES.iter().copied().chain(["log", "clock"]) {
            let _ = fs::remove_file(self.folder.path().join(name));
        }
        copy_files(&kept, self.folder.path())?;
        if let Some(server) = self.server {
            server.drop_database(&self.database)?;
            server.create_database_from(&self.database, &fs::read_to_string(kept.join("template"))?)?;
        }
        self.ahead_ms = 0;
        self.start_provider()?;
        self.start_gateway(Some(step))
    }

    /// Kills what runs.
    pub fn end(&mut self) {
        for mut child in [self.gateway.take(), self.provider.take()].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn start_provider(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(program_with_fail_points());
        let address = self.simulator.trim_start_matches("http://").to_owned();
        command.args(["simulator", "--listen", &address, "--log", "provider.jsonl"]);
        let (child, started) = self.spawn(command, "simulated provider on")?;
        ensure!(started, "the provider does not start:\n{}", self.written());
        self.provider = Some(child);
        Ok(())
    }

    /// Starts the gateway again after it was killed, with nothing armed.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.start_gateway(None).map(drop)
    }

    fn start_gateway(&mut self, step: Option<&str>) -> anyhow::Result<Life> {
        let _ = fs::remove_file(self.quiet_file());
        self.armed = step.is_some();
        let mut command = self.command(&["serve"]);
        command.envs(step.map(|step| ("PIX_FAIL_AT", step)));
        let (child, started) = self.spawn(command, "listening on")?;
        self.gateway = Some(child);
        if started {
            return Ok(Life::Alive);
        }
        self.reap()
    }

    fn spawn(&self, mut command: Command, ready: &str) -> anyhow::Result<(Child, bool)> {
        let log = OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"))?;
        command.current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().context("the program does not start")?;
        let mut output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut line = String::new();
        while output.read_line(&mut line)? > 0 {
            if line.contains(ready) {
                // It prints no more, so nobody has to read on.
                return Ok((child, true));
            }
        }
        Ok((child, false))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program_with_fail_points());
        command.args(arguments).envs(self.settings.iter().cloned()).current_dir(self.folder.path());
        command
    }

    /// Whether the gateway runs. That it ended in any way but by its fail point is an error.
    pub fn life(&mut self) -> anyhow::Result<Life> {
        let Some(gateway) = self.gateway.as_mut() else { return Ok(Life::Killed) };
        if gateway.try_wait()?.is_none() { Ok(Life::Alive) } else { self.reap() }
    }

    fn reap(&mut self) -> anyhow::Result<Life> {
        let Some(mut gateway) = self.gateway.take() else { return Ok(Life::Killed) };
        let status = gateway.wait()?;
        if status.signal() == Some(KILLED) && self.armed {
            return Ok(Life::Killed);
        }
        bail!("the gateway ended by itself with {status}:\n{}", self.written())
    }

    /// After a call without an answer: the gateway was killed, or it is an error.
    pub fn killed(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.life()? == Life::Alive {
            ensure!(Instant::now() < until, "the gateway doesn't answer:\n{}", self.written());
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Moves both clocks on, and returns when the gateway has nothing left to do by then.
    pub async fn pass(&mut self, seconds: u32) -> anyhow::Result<Life> {
        if self.quiet()? == Life::Killed {
            return Ok(Life::Killed);
        }
        // The provider first: what it does by then must be done when the gateway asks.
        self.control("/sim/clock", &json!({"advance_seconds": seconds})).await?;
        let (before, span) = (self.quiet_at().unwrap_or_default(), u64::from(seconds) * 1000);
        self.ahead_ms += span;
        let (file, new) = (self.folder.path().join(CLOCK), self.folder.path().join("clock.new"));
        fs::write(&new, self.ahead_ms.to_string())?;
        fs::rename(new, file)?;
        self.until_quiet(before + i64::try_from(span * 1000)?)
    }

    /// Returns when the gateway has nothing to do now.
    pub fn quiet(&mut self) -> anyhow::Result<Life> {
        self.until_quiet(i64::MIN)
    }

    fn until_quiet(&mut self, at: i64) -> anyhow::Result<Life> {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.life()? == Life::Killed {
                return Ok(Life::Killed);
            }
            if self.quiet_at().is_some_and(|quiet| quiet >= at) {
                return Ok(Life::Alive);
            }
            ensure!(Instant::now() < until, "the gateway does not become quiet:\n{}", self.written());
            std::thread::sleep(LOOK);
        }
    }

    fn quiet_file(&self) -> PathBuf {
        self.folder.path().join("clock.quiet")
    }

    fn quiet_at(&self) -> Option<i64> {
        fs::read_to_string(self.quiet_file()).ok()?.trim().parse().ok()
    }

    /// What all processes have logged.
    pub fn written(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// GET at the gateway.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.answer(self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.token)).await
    }

    /// POST at the gateway.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.token);
        self.answer(request.json(body)).await
    }

    /// POST at the provider's control API.
    pub async fn control(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let (status, answer) =
            self.answer(self.http.post(format!("{}{path}", self.simulator)).json(body)).await?;
        ensure!(status < 300, "{path} at the provider: {status} {answer}");
        Ok(answer)
    }

    /// Takes every scenario off.
    pub async fn heal(&self) -> anyhow::Result<()> {
        let request = self.http.delete(format!("{}/sim/scenarios", self.simulator));
        self.answer(request).await.map(drop)
    }

    /// The provider's scenarios.
    pub async fn catalogue(&self) -> anyhow::Result<Value> {
        Ok(self.answer(self.http.get(format!("{}/sim/scenarios/catalogue", self.simulator))).await?.1)
    }

    /// What the provider really did.
    pub async fn log(&self) -> anyhow::Result<Vec<Value>> {
        let (_, log) = self.answer(self.http.get(format!("{}/sim/log", self.simulator))).await?;
        Ok(log.as_array().context("the log is no list")?.clone())
    }

    /// Available and held centavos.
    pub async fn balance(&self) -> anyhow::Result<(i64, i64)> {
        let (status, balance) = self.get("/api/v1/balance").await?;
        ensure!(status == 200, "no balance: {balance}");
        Ok((cents(&balance, "available")?, cents(&balance, "held")?))
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Answer> {
        let answer = request.timeout(PATIENCE).send().await?;
        let status = answer.status().as_u16();
        let text = answer.text().await?;
        Ok((status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? }))
    }

    fn cli(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let output = self.command(arguments).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?} failed: {errors}");
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// What `audit` says, compared with the provider's log.
    pub fn audit(&self) -> anyhow::Result<Value> {
        let Output { stdout, stderr, .. } =
            self.command(&["audit", "--json", "--simulator-log", "provider.jsonl"]).output()?;
        serde_json::from_slice(&stdout)
            .with_context(|| format!("audit: {}", String::from_utf8_lossy(&stderr)))
    }

    /// Where the records are.
    pub const fn store(&self) -> Database {
        self.store
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end();
    }
}

fn copy_files(from: &Path, to: &Path) -> anyhow::Result<()> {
    for name in FILES {
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name))?;
        }
    }
    Ok(())
}

/// An amount of an answer in centavos: a number of reais, `12`, `12.3` or `12.34`.
pub fn cents(value: &Value, field: &str) -> anyhow::Result<i64> {
    let number = value.get(field).filter(|number| number.is_number());
    let text = number.with_context(|| format!("no amount {field} in {value}"))?.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
    ensure!(part.len() <= 2 || part.trim_end_matches('0').len() <= 2, "{text} is no amount");
    Ok(whole.parse::<i64>()? * 100 + format!("{part:0<2}").parse::<i64>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_of_an_answer_is_read_to_the_centavo() {
        for (number, expected) in
            [("7.25", 725), ("7.3", 730), ("1000", 100_000), ("0.05", 5), ("999.97", 99_997)]
        {
            let answer: Value = serde_json::from_str(&format!("{{\"amount\": {number}}}")).unwrap();
            assert_eq!(cents(&answer, "amount").unwrap(), expected);
        }
        for wrong in [json!({}), json!({"amount": "7.25"}), json!({"amount": 7.255})] {
            assert!(cents(&wrong, "amount").is_err(), "{wrong}");
        }
    }
}
