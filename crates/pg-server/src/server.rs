//! A server: made, started, stopped, killed, started again. What is asked of it over SQL is in `sql`, its standbys are
//! in `standby`.

mod sql;
mod standby;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::error::{PgServerError, io};
use crate::host;
use crate::port::Port;
use crate::process::{children_of, is_gone, poll, run, signal, state, wait};
use crate::watchdog::Home;

/// The superuser of every server here.
const USER: &str = "pix";
/// For `initdb` and `pg_basebackup`, and for a start, which may have to recover a bench's database first.
const LONG: Duration = Duration::from_mins(2);
/// For an orderly stop.
const STOP_LIMIT: Duration = Duration::from_mins(1);
/// For what takes some milliseconds, on a machine that is busy.
const SHORT: Duration = Duration::from_secs(30);
/// Another process may take a port between our look and the server's start.
pub(crate) const START_ATTEMPTS: usize = 10;
/// How much of the end of a log an error shows, in characters.
const LOG_TAIL: usize = 4_000;
/// How a program says that somebody else listens on its port.
pub(crate) const PORT_TAKEN: &str = "Address already in use";

/// The settings of every server here; those of [`Options`] come after them, and win.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    // In the data folder, so that it goes with it.
    ("dynamic_shared_memory_type", "mmap"),
    // A standby notices soon that its primary is back.
    ("wal_retrieve_retry_interval", "100ms"),
];

/// How a server is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether the data must be on the disk. A server that isn't durable writes as carefully (`fsync` is on, as the
    /// gateway demands) but into memory where there is room, and is faster. Both survive [`PgServer::kill9`].
    pub durable: bool,
    /// `max_connections`.
    pub max_connections: u32,
    /// `shared_buffers`, in MiB.
    pub shared_buffers_mib: u32,
    /// More settings of `postgresql.conf`: names and values. The last one of a name wins.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { durable: false, max_connections: 100, shared_buffers_mib: 64, settings: Vec::new() }
    }
}

impl Options {
    /// Data on the disk: for benchmarks, and where it matters what a crash leaves.
    pub fn durable() -> Self {
        Self { durable: true, ..Self::default() }
    }

    /// With one more setting of `postgresql.conf`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }
}

/// How a server is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Ends the sessions, writes a checkpoint; a primary waits until its standbys have everything.
    Fast,
    /// At once, without a checkpoint; the next start recovers.
    Immediate,
}

/// A running, stopped or killed server of `PostgreSQL`. Dropping it stops it at once and removes its data.
///
/// All methods may be called from several threads; they block.
#[derive(Debug)]
pub struct PgServer {
    home: Home,
    port: Port,
    bin: PathBuf,
    data: PathBuf,
    /// Its `application_name` as a standby.
    name: String,
    options: Options,
    postmaster: Mutex<Option<Child>>,
}

/// The server of this process, started by the first call. It stops when the process ends, however it ends.
///
/// Returns the error of the first call to every later one.
pub fn shared() -> Result<&'static PgServer, &'static PgServerError> {
    static SHARED: OnceLock<Result<PgServer, PgServerError>> = OnceLock::new();
    let server =
        SHARED.get_or_init(|| PgServer::start(Options { max_connections: 400, ..Options::default() }));
    server.as_ref()
}

/// A name for a database, a table or a standby that no other call returns, in this process or another that runs.
pub fn fresh_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("pix_{}_{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

impl PgServer {
    /// Makes a database cluster and starts a server on it. It listens on a free port of 127.0.0.1 and trusts whoever
    /// connects; its encoding is UTF-8, its locale C.
    pub fn start(options: Options) -> Result<Self, PgServerError> {
        let bin = host::postgres_bin()?;
        let home = Home::new(options.durable)?;
        let data = home.folder().join("data");
        let mut initdb = home.command(&bin.join("initdb"));
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        initdb.args(["-U", USER, "-D"]).arg(&data);
        run(&mut initdb, "", LONG)?;
        let file = data.join("postgresql.conf");
        let made = fs::read_to_string(&file).map_err(io("read postgresql.conf"))?;
        fs::write(&file, made + &configuration(&options)?).map_err(io("write postgresql.conf"))?;
        Self::boot(home, bin, options, fresh_name())
    }

    /// The port on 127.0.0.1. It stays the same.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The address of one of its databases, for the superuser `pix`.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port())
    }

    /// The folder of the cluster.
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// The `application_name` under which it follows a primary.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Whether the server process lives.
    pub fn is_running(&self) -> bool {
        self.postmaster().as_ref().is_some_and(|child| !is_gone(child.id()))
    }

    /// `kill -9` of the server and all of its processes. When it returns they are gone.
    ///
    /// # Errors
    ///
    /// [`PgServerError::NotRunning`], and if a process doesn't go.
    pub fn kill9(&self) -> Result<(), PgServerError> {
        let mut postmaster = self.postmaster();
        let mut child = postmaster.take().ok_or(PgServerError::NotRunning)?;
        let pid = child.id();
        // Stopped, it starts no more processes, and reaps none, so that no process id can be taken by somebody else.
        signal("STOP", &[pid])?;
        poll("the halt of the server", SHORT, || {
            Ok(matches!(state(pid), None | Some('T' | 'Z')).then_some(()))
        })?;
        let backends = children_of(pid)?;
        signal("KILL", &backends)?;
        let gone = || Ok(backends.iter().all(|backend| is_gone(*backend)).then_some(()));
        let all_gone = poll("the end of the server's processes", SHORT, gone);
        child.kill().map_err(io("kill the server"))?;
        wait(&mut child, "the end of the killed server", SHORT)?;
        all_gone
    }

    /// Stops it, and returns when it has ended. It can be started again.
    ///
    /// # Errors
    ///
    /// [`PgServerError::NotRunning`], and [`PgServerError::TooSlow`], after which it still runs.
    pub fn stop(&self, mode: StopMode) -> Result<(), PgServerError> {
        let mut postmaster = self.postmaster();
        let child = postmaster.as_mut().ok_or(PgServerError::NotRunning)?;
        let name = match mode {
            StopMode::Fast => "INT",
            StopMode::Immediate => "QUIT",
        };
        signal(name, &[child.id()])?;
        wait(child, "the stop of the server", STOP_LIMIT)?;
        *postmaster = None;
        Ok(())
    }

    /// Starts it on the same port and data, and returns when it takes connections.
    ///
    /// # Errors
    ///
    /// [`PgServerError::AlreadyRunning`], and if it doesn't come up.
    pub fn start_again(&self) -> Result<(), PgServerError> {
        let mut postmaster = self.postmaster();
        if let Some(child) = postmaster.as_mut()
            && child.try_wait().map_err(io("look at the server"))?.is_none()
        {
            return Err(PgServerError::AlreadyRunning);
        }
        *postmaster = Some(self.launch()?);
        Ok(())
    }

    /// [`stop`](Self::stop), fast, and [`start_again`](Self::start_again).
    pub fn restart(&self) -> Result<(), PgServerError> {
        self.stop(StopMode::Fast)?;
        self.start_again()
    }

    /// Starts a server on a finished data folder, on a port that is free.
    fn boot(home: Home, bin: PathBuf, options: Options, name: String) -> Result<Self, PgServerError> {
        let data = home.folder().join("data");
        let postmaster = Mutex::new(None);
        let mut server = Self { home, port: Port::reserve()?, bin, data, name, options, postmaster };
        for _ in 0..START_ATTEMPTS {
            match server.start_again() {
                Err(PgServerError::Failed { output, .. }) if output.contains(PORT_TAKEN) => {
                    server.port = Port::reserve()?;
                }
                started => return started.map(|()| server),
            }
        }
        Err(PgServerError::NoPort(START_ATTEMPTS))
    }

    fn launch(&self) -> Result<Child, PgServerError> {
        let log =
            OpenOptions::new().create(true).append(true).open(self.log_file()).map_err(io("open the log"))?;
        let logged_before = self.log().len();
        let mut postgres = self.home.command(&self.bin.join("postgres"));
        postgres.arg("-D").arg(&self.data).args(["-p", &self.port().to_string()]);
        postgres.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        postgres.stdout(log.try_clone().map_err(io("open the log"))?).stderr(log).stdin(Stdio::null());
        let mut child = postgres.spawn().map_err(io("start the server"))?;
        let pid = child.id();
        let ready = poll("the start of the server", LONG, || {
            if let Some(status) = child.try_wait().map_err(io("look at the server"))? {
                let log = self.log();
                let output = tail(log.get(logged_before..).unwrap_or(&log)).to_owned();
                let program = "postgres".into();
                return Err(PgServerError::Failed { program, status: status.to_string(), output });
            }
            Ok(is_ready(&self.data.join("postmaster.pid"), pid).then_some(()))
        });
        if ready.is_err() {
            // It must not outlive our knowledge of it; what it leaves, the watchdog takes.
            let _ =
                signal("QUIT", &[pid]).and_then(|()| wait(&mut child, "the stop of the server", STOP_LIMIT));
        }
        ready.map(|()| child)
    }

    fn log_file(&self) -> PathBuf {
        self.home.folder().join("log")
    }

    fn postmaster(&self) -> MutexGuard<'_, Option<Child>> {
        self.postmaster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PgServer {
    fn drop(&mut self) {
        self.home.close();
        if let Some(child) = self.postmaster().as_mut() {
            let _ = wait(child, "the end of the server", SHORT);
        }
    }
}

/// The lines of `postgresql.conf` that follow those of `initdb`.
fn configuration(options: &Options) -> Result<String, PgServerError> {
    let ours = SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let sizes = [
        ("max_connections".to_owned(), options.max_connections.to_string()),
        ("shared_buffers".to_owned(), format!("{}MB", options.shared_buffers_mib)),
    ];
    let lines = ours.chain(sizes).chain(options.settings.iter().cloned());
    let lines: Result<Vec<_>, _> =
        lines.map(|(name, value)| Ok(format!("{} = {}\n", setting_name(&name)?, quoted(&value)?))).collect();
    lines.map(|lines| format!("\n{}", lines.concat()))
}

/// A name of a setting, if it is one.
fn setting_name(name: &str) -> Result<&str, PgServerError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let well = !name.is_empty() && name.chars().all(plain);
    well.then_some(name).ok_or_else(|| PgServerError::BadSetting(name.into()))
}

/// A text in single quotes, for a configuration file and for SQL.
fn quoted(value: &str) -> Result<String, PgServerError> {
    if value.contains(['\n', '\r', '\0', '\\']) {
        return Err(PgServerError::BadSetting(value.into()));
    }
    Ok(format!("'{}'", value.replace('\'', "''")))
}

/// Whether the file with which a server tells its state says that the server `pid` takes connections. One that was
/// killed leaves the file with its own number.
fn is_ready(file: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut lines = text.lines();
    lines.next() == Some(pid.to_string().as_str())
        && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

fn tail(text: &str) -> &str {
    let begin = text.char_indices().rev().nth(LOG_TAIL).map_or(0, |(at, _)| at);
    text.get(begin..).unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_setting_comes_after_ours() {
        let text =
            configuration(&Options::default().with("fsync", "off").with("search_path", "it's")).unwrap();
        assert!(text.find("fsync = 'on'").unwrap() < text.find("fsync = 'off'").unwrap());
        assert!(text.ends_with("search_path = 'it''s'\n"));
    }

    #[test]
    fn what_would_be_a_second_setting_is_refused() {
        for (name, value) in [("a", "b\nc = d"), ("a = b", "c"), ("", "c"), ("a", "\\")] {
            let error = configuration(&Options::default().with(name, value)).unwrap_err();
            assert!(matches!(error, PgServerError::BadSetting(_)), "{error}");
        }
    }

    #[test]
    fn only_its_own_file_says_that_a_server_is_ready() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        fs::write(path, "42\n/data\n1700000000\n5432\n\n127.0.0.1\n  1234  0\nready   \n").unwrap();
        assert!(is_ready(path, 42));
        assert!(!is_ready(path, 4));
        fs::write(path, "42\n/data\n1700000000\n5432\n\n127.0.0.1\n  1234  0\nstarting\n").unwrap();
        assert!(!is_ready(path, 42));
        fs::write(path, "42\n/data\n").unwrap();
        assert!(!is_ready(path, 42));
        assert!(!is_ready(Path::new("/nowhere"), 42));
    }

    #[test]
    fn the_tail_of_a_log_is_its_end() {
        assert_eq!(tail("short\n"), "short");
        let long = "é".repeat(LOG_TAIL) + "\nend";
        assert!(tail(&long).ends_with("\nend") && tail(&long).chars().count() == LOG_TAIL + 1);
    }

    #[test]
    fn names_are_fresh() {
        assert_ne!(fresh_name(), fresh_name());
    }
}
