//! `pix-gateway backup`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use pix_domain::time::Clock;
use pix_persistence::postgres::PgStore;
use pix_persistence::sqlite::SqliteStore;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::{answer, rfc3339};
use crate::config::{Config, Database};
use crate::restored::COPY_FACT;
use crate::system::SystemClock;

/// Where Debian has the programs of each version of PostgreSQL.
const DEBIAN_FOLDERS: &str = "/usr/lib/postgresql";

/// Runs the subcommand.
pub async fn run(config: &Config, file: &Path, json: bool) -> anyhow::Result<ExitCode> {
    if file.exists() {
        bail!("{} is there already: name a file that isn't", file.display());
    }
    let at = SystemClock.now();
    match &config.database {
        Database::Sqlite { path, .. } => {
            let (from, to) = (path.clone(), file.to_owned());
            let value = at.micros().to_string();
            let made =
                tokio::task::spawn_blocking(move || SqliteStore::back_up(&from, &to, COPY_FACT, &value))
                    .await?;
            remove_if_failed(file, made.map_err(Into::into))?;
        }
        Database::Postgres { url } => {
            // Before anything is in it: it will hold personal data and hashes of secrets.
            make_for_its_owner(file)?;
            let options = ["--format=custom", "--no-owner", "--no-privileges", "--file"].map(OsStr::new);
            let dumped = run_tool("pg_dump", url, options.into_iter().chain([file.as_os_str()])).await;
            remove_if_failed(file, dumped.and_then(|()| Ok(std::fs::File::open(file)?.sync_all()?)))?;
        }
    }
    let bytes = std::fs::metadata(file)?.len();
    let shown = json!({"file": file.display().to_string(), "bytes": bytes, "at": rfc3339(at)});
    Ok(answer(json, &shown, || {
        format!(
            "{} has the database as it was at {}, {bytes} bytes. Keep it where only operators can read it, and the keys that are not in it elsewhere",
            file.display(),
            rfc3339(at)
        )
    }))
}

/// A backup that failed is no backup: nobody is to find one.
fn remove_if_failed(file: &Path, made: anyhow::Result<()>) -> anyhow::Result<()> {
    if made.is_err() {
        let _ = std::fs::remove_file(file);
    }
    made
}

/// Makes an empty file that only its owner may read. It must not be there yet.
fn make_for_its_owner(file: &Path) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map(drop).with_context(|| format!("{} can't be made", file.display()))
}

/// Runs a program of PostgreSQL on the database at `url`. Nothing of that is among its arguments.
pub async fn run_tool(
    name: &str,
    url: &SecretString,
    arguments: impl Iterator<Item = &OsStr>,
) -> anyhow::Result<()> {
    let mut command = Command::new(tool(name)?);
    // What this program was not told by its settings is not for its children either.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.args(arguments).envs(PgStore::environment(url.expose_secret())?).stdin(Stdio::null());
    let done = tokio::task::spawn_blocking(move || command.output())
        .await?
        .with_context(|| format!("{name} can't be run"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it did not say why");
        bail!("{name} failed: {}", last.trim());
    }
    Ok(())
}

/// The program with that name: of `PATH`, else the newest that Debian has.
fn tool(name: &str) -> anyhow::Result<PathBuf> {
    let of_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&of_path).map(|folder| folder.join(name)).find(|path| path.is_file());
    let versions = std::fs::read_dir(DEBIAN_FOLDERS).into_iter().flatten().filter_map(Result::ok);
    let of_debian = versions
        .filter_map(|version| Some((version.file_name().to_str()?.parse::<u32>().ok()?, version.path())))
        .map(|(version, folder)| (version, folder.join("bin").join(name)))
        .filter(|(_, path)| path.is_file())
        .max();
    // A wrapper of Debian's in the path chooses by clusters of its own, which this database need not be of.
    of_debian.map(|(_, path)| path).or(in_path).with_context(|| {
        format!("{name} is not on this machine: install the client programs of PostgreSQL (on Debian `apt-get install postgresql-client`)")
    })
}
