//! A Redis server: a store for limits that nodes share.

use std::fs::{self, File};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use crate::error::{PgServerError, io};
use crate::host;
use crate::port::Port;
use crate::process::{is_gone, poll, signal, state, wait};
use crate::server::{PORT_TAKEN, START_ATTEMPTS};
use crate::watchdog::Home;

const LIMIT: Duration = Duration::from_secs(30);
/// What clients must know.
const PASSWORD: &str = "hunter2-of-redis";

/// A running Redis server with nothing in it, which keeps nothing. Dropping it stops it at once.
#[derive(Debug)]
pub struct RedisServer {
    home: Home,
    port: Port,
    process: Child,
}

impl RedisServer {
    /// Starts one.
    pub fn start() -> Result<Self, PgServerError> {
        for _ in 0..START_ATTEMPTS {
            match Self::attempt() {
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

    /// Its address, with the password in it.
    pub fn url(&self) -> String {
        format!("redis://:{PASSWORD}@127.0.0.1:{}/0", self.port())
    }

    /// What its clients must never show.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// What it says to a command, as `redis-cli` shows it.
    pub fn ask(&self, command: &[&str]) -> Result<String, PgServerError> {
        let mut cli = self.home.command(&host::redis("redis-cli")?);
        cli.args(["-p", &self.port().to_string(), "--no-auth-warning", "-a", PASSWORD]).args(command);
        crate::process::run(&mut cli, "", LIMIT)
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) -> Result<(), PgServerError> {
        let pid = self.process.id();
        signal("KILL", &[pid])?;
        wait(&mut self.process, "the end of redis-server", LIMIT)?;
        Ok(())
    }

    /// Starts it again on its port, empty. It must have been killed.
    pub fn start_again(&mut self) -> Result<(), PgServerError> {
        if !is_gone(self.process.id()) {
            return Err(PgServerError::AlreadyRunning);
        }
        self.process = spawn(&self.home, &self.port)?;
        self.await_start()
    }

    /// Has it answer nobody, while its connections stay as they are.
    pub fn pause(&self) -> Result<(), PgServerError> {
        signal("STOP", &[self.process.id()])?;
        poll("the stop of redis-server", LIMIT, || Ok((state(self.process.id()) == Some('T')).then_some(())))
    }

    /// Has it go on.
    pub fn resume(&self) -> Result<(), PgServerError> {
        signal("CONT", &[self.process.id()])
    }

    fn attempt() -> Result<Self, PgServerError> {
        let home = Home::new(false)?;
        let port = Port::reserve()?;
        let process = spawn(&home, &port)?;
        let mut server = Self { home, port, process };
        server.await_start()?;
        Ok(server)
    }

    fn await_start(&mut self) -> Result<(), PgServerError> {
        poll("the start of redis-server", LIMIT, || {
            let listens = TcpStream::connect(("127.0.0.1", self.port())).is_ok();
            // Looked at afterwards: if it has ended, it was somebody else who listened.
            match self.process.try_wait().map_err(io("look at redis-server"))? {
                None => Ok(listens.then_some(())),
                Some(status) => Err(PgServerError::Failed {
                    program: "redis-server".into(),
                    status: status.to_string(),
                    output: fs::read_to_string(self.home.folder().join("log")).unwrap_or_default(),
                }),
            }
        })
    }
}

fn spawn(home: &Home, port: &Port) -> Result<Child, PgServerError> {
    let log = File::create(home.folder().join("log")).map_err(io("open the log"))?;
    let mut command = home.command(&host::redis("redis-server")?);
    command.args(["--bind", "127.0.0.1", "--port", &port.number().to_string(), "--requirepass", PASSWORD]);
    command.args(["--save", "", "--appendonly", "no"]);
    command.stdout(log).spawn().map_err(io("start redis-server"))
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.home.close();
        let _ = wait(&mut self.process, "the end of redis-server", LIMIT);
    }
}
