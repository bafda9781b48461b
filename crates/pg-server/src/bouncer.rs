//! A `PgBouncer` before a server.

use std::env;
use std::fs::{self, File};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use crate::error::{PgServerError, io};
use crate::host;
use crate::port::Port;
use crate::process::{poll, wait};
use crate::server::{PORT_TAKEN, PgServer, START_ATTEMPTS};
use crate::watchdog::Home;

const LIMIT: Duration = Duration::from_secs(30);
/// What a client may ask for on connecting and doesn't get.
const IGNORED: &str = "extra_float_digits,options,statement_timeout,lock_timeout,idle_in_transaction_session_timeout,\
                       synchronous_commit,search_path,client_min_messages,default_transaction_isolation";

/// For how long a client has a connection of the server to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// Until it disconnects.
    Session,
    /// For a transaction.
    Transaction,
}

/// Names the mode that tests are to have their poolers in.
const MODE_VARIABLE: &str = "PIX_TEST_POOL_MODE";
/// What lets a prepared statement outlive its transaction, since `PgBouncer` 1.21.
const KEEPS_PREPARED: (&str, &str) = ("max_prepared_statements", "200");

impl PoolMode {
    /// The one that `PIX_TEST_POOL_MODE` names, `session` or `transaction`; none when it isn't set.
    pub fn named() -> Result<Option<Self>, PgServerError> {
        match env::var(MODE_VARIABLE).ok().as_deref() {
            None => Ok(None),
            Some("session") => Ok(Some(Self::Session)),
            Some("transaction") => Ok(Some(Self::Transaction)),
            Some(other) => Err(PgServerError::UnknownMode(other.to_owned())),
        }
    }
}

/// A running `PgBouncer`. Dropping it stops it at once.
#[derive(Debug)]
pub struct PgBouncer {
    home: Home,
    port: Port,
    process: Child,
}

impl PgBouncer {
    /// Starts one before `server`, with 20 connections to each database.
    pub fn start(server: &PgServer, mode: PoolMode) -> Result<Self, PgServerError> {
        Self::start_with(server, mode, &[])
    }

    /// The same for tests that have a database each: connections to the databases of those that are over are ended soon. In
    /// transaction mode, which takes a `PgBouncer` of 1.21 or newer, prepared statements are kept, and the server is told
    /// `of_the_role` first: settings that a connection can't have for itself there.
    pub fn start_for_many(
        server: &PgServer,
        mode: PoolMode,
        of_the_role: &str,
    ) -> Result<Self, PgServerError> {
        let mut settings = vec![("server_idle_timeout", "2")];
        if mode == PoolMode::Transaction {
            server.psql("postgres", of_the_role)?;
            settings.push(KEEPS_PREPARED);
        }
        Self::start_with(server, mode, &settings)
    }

    /// The same, with more lines of the section `[pgbouncer]`: names and values, which win.
    pub fn start_with(
        server: &PgServer,
        mode: PoolMode,
        settings: &[(&str, &str)],
    ) -> Result<Self, PgServerError> {
        for _ in 0..START_ATTEMPTS {
            match Self::attempt(server, mode, settings) {
                Err(PgServerError::Failed { output, .. }) if output.contains(PORT_TAKEN) => {}
                started => return started,
            }
        }
        Err(PgServerError::NoPort(START_ATTEMPTS))
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The address of one of the server's databases, through the pooler. `pgbouncer` is its own console.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://pix@127.0.0.1:{}/{database}", self.port())
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.folder().join("log")).unwrap_or_default()
    }

    fn attempt(server: &PgServer, mode: PoolMode, settings: &[(&str, &str)]) -> Result<Self, PgServerError> {
        let program = host::pgbouncer()?;
        let home = Home::new(false)?;
        let port = Port::reserve()?;
        let users = home.write("users", "\"pix\" \"\"\n")?;
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
        };
        let ours = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\nadmin_users = pix\npool_mode = {mode}\n\
             max_client_conn = 1000\ndefault_pool_size = 20\nserver_login_retry = 1\n\
             ignore_startup_parameters = {IGNORED}\n",
            server.port(),
            port.number(),
            users.display(),
        );
        let file = home.write("pgbouncer.ini", &(ours + &lines(settings)?))?;
        let log = File::create(home.folder().join("log")).map_err(io("open the log"))?;
        let process = home.command(&program).arg(file).stderr(log).spawn().map_err(io("start pgbouncer"))?;
        let mut bouncer = Self { home, port, process };
        bouncer.await_start()?;
        Ok(bouncer)
    }

    fn await_start(&mut self) -> Result<(), PgServerError> {
        poll("the start of pgbouncer", LIMIT, || {
            let listens = TcpStream::connect(("127.0.0.1", self.port())).is_ok();
            // Looked at afterwards: if it has ended, it was somebody else who listened.
            match self.process.try_wait().map_err(io("look at pgbouncer"))? {
                None => Ok(listens.then_some(())),
                Some(status) => Err(PgServerError::Failed {
                    program: "pgbouncer".into(),
                    status: status.to_string(),
                    output: self.log(),
                }),
            }
        })
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.home.close();
        let _ = wait(&mut self.process, "the end of pgbouncer", LIMIT);
    }
}

fn lines(settings: &[(&str, &str)]) -> Result<String, PgServerError> {
    let line = |(name, value): &(&str, &str)| {
        let line = format!("{name} = {value}");
        if line.contains(['\n', '\r']) { Err(PgServerError::BadSetting(line)) } else { Ok(line + "\n") }
    };
    settings.iter().map(line).collect()
}
