//! Two processes of `pix-gateway work` over one database, killed at random moments and started again, and the clock that
//! they share. It must never know what they deliver.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use fastrand::Rng;
use pix_pg_server::Port;
use serde_json::Value;

use crate::program_with_fail_points;

/// How many processes there are.
pub const PROCESSES: usize = 2;
/// How long it is from one kill to the next, in milliseconds.
const KILL_AFTER_MS: std::ops::Range<u64> = 1_000..3_000;
/// How long a killed process is away, in milliseconds.
const AWAY_MS: std::ops::Range<u64> = 0..500;
/// How much of the log is shown when a process ends by itself, in bytes.
const SHOWN_LOG_BYTES: usize = 4_000;

/// The name of the file with what both log.
const LOG: &str = "log";
/// The name of the file with their clock.
const CLOCK: &str = "clock";

/// How the program runs: nothing of its own to ask the provider, and everything to deliver.
const SETTINGS: &[(&str, &str)] = &[
    ("PIX_PROVIDER_CLIENT_SECRET", "nobody-is-there"),
    ("PIX_POSTBACK_ALLOW_PRIVATE", "loopback"),
    ("PIX_POSTBACK_TIMEOUT_MS", "5000"),
    ("PIX_POSTBACK_INTERVAL_MS", "100"),
    ("PIX_ADMIN_LISTEN", "off"),
    ("PIX_DB_MONEY_CONNECTIONS", "2"),
    ("PIX_DB_READ_CONNECTIONS", "4"),
    ("PIX_DB_WORKER_CONNECTIONS", "4"),
    ("PIX_LOG", "error"),
];

/// See the module.
pub struct Relays {
    folder: tempfile::TempDir,
    settings: Vec<(String, String)>,
    processes: Vec<Option<Child>>,
    /// The provider's, which is never asked.
    _nobody: Port,
    dice: Rng,
    kill_at: Instant,
    /// Which was killed and is to be started again, and when.
    away: Option<(usize, Instant)>,
    /// How many were killed.
    pub kills: u32,
    /// How many times the clock was moved on.
    pub moves: u32,
    ahead_ms: u64,
}

impl Relays {
    /// Over the empty database at `url`, which is migrated; nothing is running yet.
    pub fn new(url: &str, seed: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut settings: Vec<(String, String)> =
            SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        settings.push(("DATABASE_URL".to_owned(), url.to_owned()));
        let nobody = Port::reserve()?;
        settings.push(("PIX_PROVIDER_URL".to_owned(), format!("http://127.0.0.1:{}", nobody.number())));
        settings.push(("PIX_CLOCK_FILE".to_owned(), folder.path().join(CLOCK).display().to_string()));
        let processes = (0..PROCESSES).map(|_| None).collect();
        let mut relays = Self {
            folder,
            settings,
            processes,
            _nobody: nobody,
            dice: Rng::with_seed(seed),
            kill_at: Instant::now(),
            away: None,
            kills: 0,
            moves: 0,
            ahead_ms: 0,
        };
        let lines = relays.cli(&["secrets"])?;
        let pairs = lines.lines().filter_map(|line| line.split_once('='));
        relays.settings.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        relays.cli(&["migrate"])?;
        Ok(relays)
    }

    /// Makes an integrator; its uuid.
    pub fn integrator(&self, name: &str) -> anyhow::Result<String> {
        let made: Value =
            serde_json::from_str(&self.cli(&["integrator", "create", "--name", name, "--json"])?)?;
        crate::text(&made, "/uuid")
    }

    fn cli(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command(arguments).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?} failed: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program_with_fail_points());
        command.args(arguments).envs(self.settings.iter().cloned()).current_dir(self.folder.path());
        command
    }

    /// Starts both; the killing begins.
    pub fn start(&mut self) -> anyhow::Result<()> {
        for place in 0..PROCESSES {
            self.start_one(place)?;
        }
        self.plan();
        Ok(())
    }

    fn start_one(&mut self, place: usize) -> anyhow::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.log_file())?;
        let mut command = self.command(&["work"]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("the program does not start")?;
        let process = self.processes.get_mut(place).context("no such process")?;
        *process = Some(child);
        Ok(())
    }

    /// Draws the next kill.
    fn plan(&mut self) {
        self.kill_at = Instant::now() + Duration::from_millis(self.dice.u64(KILL_AFTER_MS));
    }

    /// Kills one with signal 9 when its moment has come, and starts it again when its time away is over. To be called
    /// often.
    pub fn rage(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        if let Some((place, _)) = self.away.filter(|(_, until)| *until <= now) {
            self.away = None;
            self.start_one(place)?;
            self.plan();
        }
        if self.away.is_some() || now < self.kill_at {
            return Ok(());
        }
        self.check()?;
        let place = self.dice.usize(0..PROCESSES);
        let mut child = self.processes.get_mut(place).and_then(Option::take).context("no such process")?;
        child.kill()?;
        child.wait()?;
        self.kills += 1;
        self.away = Some((place, now + Duration::from_millis(self.dice.u64(AWAY_MS))));
        Ok(())
    }

    /// That none has ended by itself.
    fn check(&mut self) -> anyhow::Result<()> {
        for child in self.processes.iter_mut().flatten() {
            let ended = child.try_wait()?;
            if ended.is_none() {
                continue;
            }
            let log = fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
            let shown = log.get(log.len().saturating_sub(SHOWN_LOG_BYTES)..).unwrap_or(&log);
            bail!("a relay process ended by itself:\n{shown}");
        }
        Ok(())
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join(LOG)
    }

    /// How far the clock is ahead, in microseconds.
    pub fn ahead_micros(&self) -> i64 {
        i64::try_from(self.ahead_ms.saturating_mul(1_000)).unwrap_or(i64::MAX)
    }

    /// Moves the clock of both on.
    pub fn pass(&mut self, span: Duration) -> anyhow::Result<()> {
        self.moves += 1;
        self.ahead_ms = self.ahead_ms.saturating_add(u64::try_from(span.as_millis())?);
        let (file, new) = (self.folder.path().join(CLOCK), self.folder.path().join("clock.new"));
        fs::write(&new, self.ahead_ms.to_string())?;
        Ok(fs::rename(new, file)?)
    }

    /// Ends both.
    pub fn end(&mut self) {
        for mut child in self.processes.iter_mut().filter_map(Option::take) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        self.end();
    }
}
