//! A folder with processes in it, and the watchdog that takes both away: see the crate's documentation. It must never
//! know what the processes do.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crate::error::{PgServerError, io};
use crate::host::{self, User};
use crate::process;

const SCRIPT: &str = include_str!("watchdog.sh");
/// The watchdog itself gives up after some 20 s.
const REMOVAL_LIMIT: Duration = Duration::from_mins(1);

/// A fresh folder that belongs to the user who works in it. Dropping it ends all that works in it and removes it.
#[derive(Debug)]
pub(crate) struct Home {
    folder: PathBuf,
    /// Whom to run programs as; none: as ourselves.
    user: Option<User>,
    watchdog: Child,
    pipe: Option<ChildStdin>,
}

impl Home {
    /// On the disk if `durable`, else in memory if there is room.
    pub(crate) fn new(durable: bool) -> Result<Self, PgServerError> {
        let folder = host::make_folder(durable)?;
        let owner = fs::metadata(folder.path()).map_err(io("look at the folder"))?.uid();
        let user = if owner == 0 { Some(host::unprivileged_user()?) } else { None };
        if let Some(user) = user {
            chown(folder.path(), Some(user.uid), Some(user.gid)).map_err(io("give the folder away"))?;
        }
        // The working folder of a process, as /proc shows it, has no links in it.
        let path = fs::canonicalize(folder.path()).map_err(io("look at the folder"))?;
        let mut shell = unprivileged(Path::new("sh"), user);
        shell.args(["-c", SCRIPT, "sh"]).arg(&path).current_dir("/").stdin(Stdio::piped());
        let mut watchdog = shell.spawn().map_err(io("start the watchdog"))?;
        let pipe = watchdog.stdin.take();
        // From here on the watchdog removes it.
        let _ = folder.keep();
        Ok(Self { folder: path, user, watchdog, pipe })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program to be run in the folder as its user, without what the environment says about `PostgreSQL`.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = unprivileged(program, self.user);
        command.current_dir(&self.folder).env("HOME", &self.folder);
        command
    }

    /// Writes a file that the user can read.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, PgServerError> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(io(format!("write {}", path.display())))?;
        if let Some(user) = self.user {
            chown(&path, Some(user.uid), Some(user.gid)).map_err(io("give a file away"))?;
        }
        Ok(path)
    }

    /// Has the watchdog end everything here and remove the folder, and waits for that.
    pub(crate) fn close(&mut self) {
        drop(self.pipe.take());
        // If it is still at it after that, it goes on without us.
        let _ = process::wait(&mut self.watchdog, "the removal of a folder", REMOVAL_LIMIT);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.close();
    }
}

/// A silent program in a process group of its own, which the Ctrl-C of a terminal doesn't reach.
fn unprivileged(program: &Path, user: Option<User>) -> Command {
    let mut command = Command::new(program);
    let ours = env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(user) = user {
        // The standard library drops the other groups of root along with it.
        command.uid(user.uid).gid(user.gid);
    }
    command
}
