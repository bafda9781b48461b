//! Standbys: copies of a server that follow it, wait for it, and take its place.

use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::error::{PgServerError, io};
use crate::process::run;
use crate::watchdog::Home;

use super::{LONG, PgServer, USER, fresh_name, quoted};

impl PgServer {
    /// Copies this server and starts the copy as its standby, asynchronous, on a port of its own. Returns when it
    /// streams. It has the options of this server, and those settings that were [`set`](Self::set) here, but that it
    /// has no synchronous standbys itself.
    pub fn replica(&self) -> Result<Self, PgServerError> {
        let home = Home::new(self.options.durable)?;
        let data = home.folder().join("data");
        let name = fresh_name();
        let source = format!("host=127.0.0.1 port={} user={USER} application_name={name}", self.port());
        let mut backup = home.command(&self.bin.join("pg_basebackup"));
        backup.args(["--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        backup.args(["--dbname", &source, "--pgdata"]).arg(&data);
        run(&mut backup, "", LONG)?;
        let settings = OpenOptions::new().append(true).open(data.join("postgresql.auto.conf"));
        let mut settings = settings.map_err(io("open the standby's settings"))?;
        // Not by --write-recovery-conf: a newer one than the server writes what the server's own library doesn't know.
        let follows = format!("primary_conninfo = '{source}'\nsynchronous_standby_names = ''\n");
        settings.write_all(follows.as_bytes()).map_err(io("write the standby's settings"))?;
        fs::write(data.join("standby.signal"), "").map_err(io("make a standby of the copy"))?;
        let standby = Self::boot(home, self.bin.clone(), self.options.clone(), name)?;
        let question =
            format!("SELECT state FROM pg_stat_replication WHERE application_name = '{}'", standby.name);
        self.await_answer("the stream to the standby", &question, "streaming", LONG)?;
        Ok(standby)
    }

    /// Lets every commit here wait for `standby`, and returns when that is so. `set("synchronous_standby_names", "")`
    /// undoes it.
    ///
    /// # Errors
    ///
    /// [`PgServerError::TooSlow`] if the standby doesn't follow; commits wait for it all the same.
    pub fn make_synchronous(&self, standby: &Self) -> Result<(), PgServerError> {
        self.set("synchronous_standby_names", &format!("FIRST 1 (\"{}\")", standby.name))?;
        let name = quoted(&standby.name)?;
        let question = format!("SELECT sync_state FROM pg_stat_replication WHERE application_name = {name}");
        self.await_answer("the synchronous standby", &question, "sync", LONG)
    }

    /// Makes a primary of this standby, and returns when it takes writes.
    pub fn promote(&self) -> Result<(), PgServerError> {
        self.psql("postgres", "SELECT pg_promote(false)")?;
        self.await_answer("the end of the standby's recovery", "SELECT pg_is_in_recovery()", "f", LONG)
    }
}
