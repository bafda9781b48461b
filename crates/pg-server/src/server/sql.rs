//! What is asked of a server over SQL, through the program `psql`: databases and settings.

use std::time::Duration;

use crate::error::PgServerError;
use crate::process::{poll, run, signal};

use super::{PgServer, SHORT, USER, quoted, setting_name};

/// For a script given to [`PgServer::psql`]; one that waits for a standby that is gone would wait for ever.
const SCRIPT_LIMIT: Duration = Duration::from_mins(5);
/// The database that is always there.
const ALWAYS: &str = "postgres";

impl PgServer {
    /// Runs a script, statement by statement until the first error, and returns its rows: a line each, fields parted
    /// by `|`, without the end of the last line. Input may hold commands of `psql`.
    ///
    /// # Errors
    ///
    /// [`PgServerError::Failed`] with what `psql` said; [`PgServerError::TooSlow`] after five minutes, after which the
    /// server may still be at it.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, PgServerError> {
        let mut psql = self.home.command(&self.bin.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", USER]);
        psql.args(["-p", &self.port().to_string(), "-d", database, "-f", "-"]).env("PGCONNECT_TIMEOUT", "30");
        run(&mut psql, sql, SCRIPT_LIMIT)
    }

    /// Makes an empty database.
    pub fn create_database(&self, name: &str) -> Result<(), PgServerError> {
        self.psql(ALWAYS, &format!("CREATE DATABASE {}", identifier(name))).map(drop)
    }

    /// Makes a database that is a copy of another, to which nobody may be connected.
    pub fn create_database_from(&self, name: &str, template: &str) -> Result<(), PgServerError> {
        let (name, template) = (identifier(name), identifier(template));
        self.psql(ALWAYS, &format!("CREATE DATABASE {name} TEMPLATE {template}")).map(drop)
    }

    /// Removes a database, and ends the sessions in it. That there is none is well.
    pub fn drop_database(&self, name: &str) -> Result<(), PgServerError> {
        self.psql(ALWAYS, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", identifier(name))).map(drop)
    }

    /// Changes a setting with `ALTER SYSTEM` and reloads. New sessions have it, old ones with their next statement; a
    /// setting that only a start can change has to wait for [`restart`](Self::restart).
    pub fn set(&self, name: &str, value: &str) -> Result<(), PgServerError> {
        self.psql(ALWAYS, &format!("ALTER SYSTEM SET {} = {}", setting_name(name)?, quoted(value)?))?;
        self.reload()
    }

    /// Has the configuration read again, and returns when new sessions have it.
    pub fn reload(&self) -> Result<(), PgServerError> {
        let read = || self.psql(ALWAYS, "SELECT extract(epoch FROM pg_conf_load_time())");
        let before = read()?;
        let pid = self.postmaster().as_ref().map(std::process::Child::id).ok_or(PgServerError::NotRunning)?;
        signal("HUP", &[pid])?;
        poll("the reload of the configuration", SHORT, || Ok((read()? != before).then_some(())))
    }

    /// Asks the same question until the answer is the expected one.
    pub(super) fn await_answer(
        &self,
        what: &str,
        sql: &str,
        answer: &str,
        limit: Duration,
    ) -> Result<(), PgServerError> {
        poll(what, limit, || Ok((self.psql(ALWAYS, sql)? == answer).then_some(())))
    }
}

/// A name in double quotes.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
