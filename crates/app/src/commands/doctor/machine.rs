//! Files, disk and limits of this machine.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::Check;
use crate::config::{Config, Database};
use crate::gateway::{self, KEY_FILE_ENDING, POSTBACK_KEY_ENDING};
use crate::store;

/// Less room than this is short…
const LITTLE_BYTES: u64 = 1024 * 1024 * 1024;
/// …and with less than this, writes fail soon.
const TOO_LITTLE_BYTES: u64 = 100 * 1024 * 1024;

/// Whether others than the owner may do anything with a file; `None` when there is none.
fn is_open_to_others(path: &Path) -> Option<bool> {
    Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o077 != 0)
}

/// Where the secrets are that aren't configured. What is configured was looked at with the configuration.
pub fn keys(config: &Config) -> Check {
    const NAME: &str = "keys";
    let mut files = Vec::new();
    if config.token_keys.is_none() || config.callback_secret.is_none() {
        files.push(config.database.beside(KEY_FILE_ENDING));
    }
    if config.postbacks.keys.is_none() {
        files.push(config.database.beside(POSTBACK_KEY_ENDING));
    }
    if files.is_empty() {
        return Check::ok(NAME, "all are configured");
    }
    if config.database.is_shared() {
        return Check::failed(
            NAME,
            "with PostgreSQL they must be configured, the same on every node",
            "set what `pix-gateway secrets` prints in the environment of every node",
        );
    }
    match files.iter().find_map(|file| Some((file, is_open_to_others(file)?)).filter(|(_, open)| *open)) {
        Some((file, _)) => Check::failed(
            NAME,
            format!("{} can be read by others", file.display()),
            format!("run `chmod 600 {}`; if others may have read it, replace the keys", file.display()),
        ),
        None if files.iter().any(|file| !file.exists()) => {
            Check::skipped(NAME, "some are made at the first start of `serve`")
        }
        // Reads them; what it says holds none.
        None => match gateway::secrets(config) {
            Ok(_) => Check::ok(NAME, "kept beside the database, for their owner alone"),
            Err(error) => Check::failed(NAME, format!("{error:#}"), "do what the sentence says"),
        },
    }
}

/// Who may read the database.
pub fn files(config: &Config) -> Check {
    const NAME: &str = "file permissions";
    let Database::Sqlite { path, .. } = &config.database else {
        return Check::skipped(NAME, "the database is no file");
    };
    match store::is_there(path) {
        Some(true) => {}
        Some(false) => {
            return Check::skipped(NAME, format!("there is no database at {} yet", path.display()));
        }
        None => return Check::skipped(NAME, format!("{} can't be looked at by this user", path.display())),
    }
    let beside = ["-wal", "-shm"].map(|ending| config.database.beside(ending));
    let open: Vec<String> = std::iter::once(path)
        .chain(&beside)
        .filter(|file| is_open_to_others(file) == Some(true))
        .map(|file| file.display().to_string())
        .collect();
    if open.is_empty() {
        return Check::ok(NAME, "the database is for its owner alone");
    }
    let open = open.join(" ");
    Check::warning(
        NAME,
        format!("others can read {open}, which holds names, documents and PIX keys"),
        format!("run `chmod 600 {open}`, and give its folder the mode 0700"),
    )
}

/// The folder whose disk matters here.
fn folder(config: &Config) -> PathBuf {
    let folder = match &config.database {
        Database::Sqlite { path, .. } => path.parent().map(Path::to_path_buf).unwrap_or_default(),
        Database::Postgres { .. } => PathBuf::new(),
    };
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder }
}

/// Room where this program writes. The disk of a database server is that server's.
pub fn disk(config: &Config) -> Check {
    const NAME: &str = "disk";
    let folder = folder(config);
    match rustix::fs::statvfs(folder.as_os_str().as_bytes()) {
        Ok(found) => room(NAME, &folder, found.f_bavail.saturating_mul(found.f_frsize)),
        Err(error) => Check::skipped(NAME, format!("{} can't be looked at: {error}", folder.display())),
    }
}

fn room(name: &'static str, folder: &Path, free_bytes: u64) -> Check {
    let found = format!("{} MiB are free in {}", free_bytes / (1024 * 1024), folder.display());
    let remedy = "make room, or move the database to a larger disk; with none, every write is refused";
    if free_bytes >= LITTLE_BYTES {
        Check::ok(name, found)
    } else if free_bytes >= TOO_LITTLE_BYTES {
        Check::warning(name, found, remedy)
    } else {
        Check::failed(name, found, remedy)
    }
}

/// Whether there may be as many files as there may be connections.
pub fn open_files(config: &Config) -> Check {
    const NAME: &str = "open files";
    let wanted = gateway::open_files_for(config.overload.connections);
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < wanted => Check::warning(
            NAME,
            format!("there may be {most}, and PIX_CONNECTIONS and the rest may need {wanted}"),
            format!(
                "raise the hard limit to {wanted} (LimitNOFILE of the service, ulimit -Hn), or lower PIX_CONNECTIONS"
            ),
        ),
        _ => Check::ok(NAME, format!("there may be the {wanted} that are needed at most")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::commands::doctor::Status;
    use crate::config::Source;

    fn config(folder: &Path, pairs: &[(&str, &str)]) -> Config {
        let url = format!("sqlite://{}", folder.join("pix.db").display());
        let own = [("DATABASE_URL", url.as_str())];
        let pairs = own.iter().chain(pairs);
        let environment = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(&Source::read(None, environment).unwrap()).unwrap()
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn keys_that_others_can_read_fail_and_are_not_made_by_looking() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &[]);
        assert_eq!(keys(&config).status, Status::Skipped);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made");
        gateway::secrets(&config).unwrap();
        assert_eq!(keys(&config).status, Status::Ok);
        let file = folder.path().join("pix.db.postback-key");
        set_mode(&file, 0o640);
        let told = keys(&config);
        assert_eq!(told.status, Status::Failed);
        assert!(told.remedy.unwrap().contains("chmod 600"));
        set_mode(&file, 0o600);
        let secrets = fs::read_to_string(&file).unwrap();
        fs::write(&file, "hunter2").unwrap();
        let told = keys(&config);
        assert!(told.found.contains("pix.db.postback-key is damaged"), "{told:?}");
        assert!(!told.found.contains("hunter2") && !told.found.contains("openssl"), "{told:?}");
        fs::write(&file, &secrets).unwrap();
        let damaged = folder.path().join("pix.db.keys");
        fs::write(&damaged, format!("token_keys = {secrets}")).unwrap();
        let told = keys(&config);
        assert!(told.status == Status::Failed && !told.found.contains(secrets.trim()), "{told:?}");
    }

    #[test]
    fn a_database_that_others_can_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), &[]);
        assert_eq!(files(&config).status, Status::Skipped, "there is none yet");
        let path = folder.path().join("pix.db");
        fs::write(&path, "").unwrap();
        for (mode, expected) in [(0o600, Status::Ok), (0o640, Status::Warning), (0o604, Status::Warning)] {
            set_mode(&path, mode);
            assert_eq!(files(&config).status, expected, "{mode:o}");
        }
    }

    #[test]
    fn little_room_is_told_and_none_fails() {
        let status = |bytes| room("disk", Path::new("."), bytes).status;
        let expected = [Status::Ok, Status::Warning, Status::Warning, Status::Failed];
        assert_eq!(
            [LITTLE_BYTES, LITTLE_BYTES - 1, TOO_LITTLE_BYTES, TOO_LITTLE_BYTES - 1].map(status),
            expected
        );
        let folder = tempfile::tempdir().unwrap();
        assert!(disk(&config(folder.path(), &[])).found.contains("MiB are free"));
        assert_eq!(disk(&config(&folder.path().join("gone"), &[])).status, Status::Skipped);
    }

    #[test]
    fn a_limit_of_files_below_the_connections_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(open_files(&config(folder.path(), &[("PIX_CONNECTIONS", "16")])).status, Status::Ok);
        let most = getrlimit(Resource::Nofile).maximum;
        let many = open_files(&config(folder.path(), &[("PIX_CONNECTIONS", "1000000")]));
        let short = most.is_some_and(|most| most < 1_002_048);
        assert_eq!(many.status, if short { Status::Warning } else { Status::Ok });
    }
}
