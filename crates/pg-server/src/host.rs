//! What the machine offers: where the programs are, whom to run them as, where to keep the data.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{Builder, TempDir};

use crate::error::{PgServerError, io};

/// Overrides where the programs of `PostgreSQL` are looked for, and the others first.
const BIN_VARIABLE: &str = "PIX_TEST_PG_BIN";
/// Where Debian keeps a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Whom to run a server as when this process is root, best first.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// A folder in memory: there `fsync` costs nothing.
const MEMORY: &str = "/dev/shm";
/// With less than this free, the memory folder is left alone; a container's default is 64 MiB.
const MEMORY_FLOOR_KIB: u64 = 1024 * 1024;

/// An account of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The folder of the server's programs.
pub(crate) fn postgres_bin() -> Result<PathBuf, PgServerError> {
    let complete =
        |folder: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).is_file());
    let found = match env::var_os(BIN_VARIABLE) {
        Some(named) => Some(PathBuf::from(named)).filter(complete),
        None => newest_version(Path::new(VERSIONS), complete).or_else(|| path().into_iter().find(complete)),
    };
    found.ok_or_else(|| PgServerError::MissingProgram { program: "initdb".into(), package: "postgresql" })
}

/// The pooler's program.
pub(crate) fn pgbouncer() -> Result<PathBuf, PgServerError> {
    program("pgbouncer", "pgbouncer")
}

/// A program of Redis.
pub(crate) fn redis(name: &'static str) -> Result<PathBuf, PgServerError> {
    program(name, "redis-server")
}

fn program(name: &'static str, package: &'static str) -> Result<PathBuf, PgServerError> {
    let named = env::var_os(BIN_VARIABLE).map(PathBuf::from);
    let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut folders = named.into_iter().chain(path()).chain(usual);
    folders
        .find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
        .ok_or_else(|| PgServerError::MissingProgram { program: name.into(), package })
}

/// Whom to run a server as when we are root.
pub(crate) fn unprivileged_user() -> Result<User, PgServerError> {
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    USERS.iter().find_map(|name| user_in(&accounts, name)).ok_or(PgServerError::NoUser)
}

/// A fresh folder: on the disk, or in memory if that is good enough and there is room.
pub(crate) fn make_folder(durable: bool) -> Result<TempDir, PgServerError> {
    let folder = |parent: &Path| Builder::new().prefix("pix-pg-").tempdir_in(parent);
    let roomy = !durable && free_kib(MEMORY).is_some_and(|free| free >= MEMORY_FLOOR_KIB);
    if let Some(folder) = roomy.then(|| folder(Path::new(MEMORY)).ok()).flatten() {
        return Ok(folder);
    }
    let disk = env::temp_dir();
    folder(&disk).map_err(io(format!("make a folder in {}", disk.display())))
}

fn path() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

fn newest_version(versions: &Path, complete: impl Fn(&PathBuf) -> bool) -> Option<PathBuf> {
    let folders = fs::read_dir(versions).ok()?.filter_map(Result::ok);
    folders
        .filter_map(|entry| Some((version(entry.file_name().to_str()?)?, entry.path().join("bin"))))
        .filter(|(_, bin)| complete(bin))
        .max()
        .map(|(_, bin)| bin)
}

/// `15` and `9.6` as numbers that compare.
fn version(name: &str) -> Option<Vec<u32>> {
    name.split('.').map(|part| part.parse().ok()).collect()
}

fn user_in(accounts: &str, name: &str) -> Option<User> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some(User { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    })
}

fn free_kib(folder: &str) -> Option<u64> {
    let output = Command::new("df").args(["-Pk", folder]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_version_is_taken() {
        let root = tempfile::tempdir().unwrap();
        for name in ["9.6", "15", "16", "contrib"] {
            fs::create_dir_all(root.path().join(name).join("bin")).unwrap();
        }
        let not_16 = |bin: &PathBuf| !bin.starts_with(root.path().join("16"));
        assert_eq!(newest_version(root.path(), not_16), Some(root.path().join("15/bin")));
        assert_eq!(newest_version(root.path(), |_| true), Some(root.path().join("16/bin")));
        assert_eq!(newest_version(root.path(), |_| false), None);
        assert_eq!(newest_version(&root.path().join("nowhere"), |_| true), None);
    }

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let accounts =
            "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8::/:\npostgres:x:101:104:a,b:/var/lib:/bin/bash\n";
        assert_eq!(user_in(accounts, "postgres"), Some(User { uid: 101, gid: 104 }));
        assert_eq!(user_in(accounts, "nobody"), None);
    }

    #[test]
    fn durable_data_never_lives_in_memory() {
        assert!(make_folder(true).unwrap().path().starts_with(env::temp_dir()));
    }

    #[test]
    fn what_is_missing_says_what_to_install() {
        let error = PgServerError::MissingProgram { program: "initdb".into(), package: "postgresql" };
        assert_eq!(format!("{error:?}"), "the program initdb is not installed: apt-get install postgresql");
    }
}
