//! `pix-gateway backup`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use chrono::NaiveDateTime;
use pix_domain::time::{Clock, Timestamp};
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
/// What to do about programs that are too old.
const NEWER_PROGRAMS: &str = "install the client programs of that version or a newer one (on Debian, from apt.postgresql.org, `postgresql-client-18` and the like), or have them first in PATH";
/// What `pg_restore` of PostgreSQL 17 and newer begins with whatever the server is, and what an older server refuses.
const SINCE_17: &str = "SET transaction_timeout = 0;";
/// The same, which does nothing where there is no such setting.
const FOR_ALL: &str = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout';";

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
            made?;
        }
        Database::Postgres { url } => {
            if !PgStore::holds_books(url.expose_secret(), config.postgres.connect_timeout).await? {
                bail!("the database has no tables of a gateway: check the name in DATABASE_URL");
            }
            // Before anything is in it: it will hold personal data and hashes of secrets.
            make_for_its_owner(file)?;
            let options =
                ["--format=custom", "-B", "--no-owner", "--no-privileges", "--file"].map(OsStr::new);
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
    let mut command = on_database(name, url)?;
    command.args(arguments).stdin(Stdio::null());
    let done = tokio::task::spawn_blocking(move || command.output())
        .await?
        .with_context(|| format!("{name} can't be run"))?;
    if !done.status.success() {
        bail!("{name} failed: {}", problem(&String::from_utf8_lossy(&done.stderr)));
    }
    Ok(())
}

/// A program of PostgreSQL that reaches the database at `url` by its environment.
fn on_database(name: &str, url: &SecretString) -> anyhow::Result<Command> {
    let mut command = Command::new(tool(name)?);
    // What this program was not told by its settings is not for its children either.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    // What it says is read: in one language.
    command.envs(PgStore::environment(url.expose_secret())?).env("LC_ALL", "C");
    // A dump says when it was made by the clock on the wall.
    command.env("TZ", "UTC");
    Ok(command)
}

/// Puts a dump into the database at `url` and keeps there, as the fact `name`, when it was made, in one transaction: whoever
/// sees the one sees the other. `pg_restore` writes what to do, and `psql` does it; where either ends early, nothing was done.
pub async fn restore_dump(url: &SecretString, file: &Path, name: &str) -> anyhow::Result<()> {
    let listed = list_of(on_database("pg_restore", url)?, file).await?;
    let made =
        made_at(&listed).with_context(|| format!("{} doesn't say when it was made", file.display()))?;
    let value = made.min(SystemClock.now()).micros().to_string();
    // These would be committed on the way, and with them all that came before.
    if holds_large_objects(&listed) {
        bail!(
            "the dump has large objects, which no database of this program has: make it with `pix-gateway backup`, or restore it by hand (`pg_restore --single-transaction`), and then `pix-gateway restore --mark --reason …`"
        );
    }
    let mut writer = on_database("pg_restore", url)?;
    writer.args(["--no-owner", "--no-privileges", "--file=-"]).arg(file).stdin(Stdio::null());
    let mut doer = on_database("psql", url)?;
    // No error shows a row.
    doer.args(["--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1"]).stdout(Stdio::null());
    doer.args(["--set=VERBOSITY=terse", "--set=SHOW_CONTEXT=never", "--file=-"]);
    // What is dumped sets the path to nothing.
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let end = format!(
        "RESET search_path;\nINSERT INTO facts (name, value) VALUES ({}, {}) ON CONFLICT (name) DO UPDATE SET value = excluded.value;\nCOMMIT;\n",
        quoted(name),
        quoted(&value)
    );
    tokio::task::spawn_blocking(move || pipe_dump(writer, doer, &end)).await?
}

/// What a dump holds, and what it says of itself.
async fn list_of(mut lister: Command, file: &Path) -> anyhow::Result<String> {
    lister.arg("--list").arg(file).stdin(Stdio::null());
    let output =
        tokio::task::spawn_blocking(move || lister.output()).await?.context("pg_restore can't be run")?;
    if !output.status.success() {
        bail!("pg_restore failed: {}", problem(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a dump holds large objects.
fn holds_large_objects(listed: &str) -> bool {
    listed
        .lines()
        .any(|line| !line.starts_with(';') && line.split_whitespace().any(|word| word.starts_with("BLOB")))
}

/// When a dump was made, by a clock of UTC, which [`on_database`] sees to for those of this program.
fn made_at(listed: &str) -> Option<Timestamp> {
    let mut comments = listed.lines().filter_map(|line| line.strip_prefix(';'));
    let time = comments.find_map(|line| line.trim().strip_prefix("Archive created at "))?;
    let time =
        NaiveDateTime::parse_from_str(time.trim_end_matches("UTC").trim(), "%Y-%m-%d %H:%M:%S").ok()?;
    Some(Timestamp::from_micros(time.and_utc().timestamp_micros()))
}

fn pipe_dump(mut writer: Command, mut doer: Command, end: &str) -> anyhow::Result<()> {
    let mut doing = doer.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().context("psql can't be run")?;
    let told = said_by(doing.stderr.take());
    let written = (|| {
        let mut to = doing.stdin.take().context("psql takes nothing")?;
        to.write_all(b"BEGIN;\n")?;
        let mut writing = writer
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("pg_restore can't be run")?;
        let told = said_by(writing.stderr.take());
        let from = writing.stdout.take().context("pg_restore writes nothing")?;
        let copied = copy_script(BufReader::new(from), &mut to);
        let status = writing.wait()?;
        // When it is psql that has ended, that says why.
        copied?;
        if !status.success() {
            bail!("pg_restore failed: {}", problem(&told.join().unwrap_or_default()));
        }
        // Without these lines nothing is done.
        to.write_all(end.as_bytes())?;
        Ok(())
    })();
    let status = doing.wait()?;
    if !status.success() {
        bail!("psql failed: {}", problem(&told.join().unwrap_or_default()));
    }
    written
}

/// Hands on what `pg_restore` writes, with its settings in a form that every server takes. They come before all else.
fn copy_script(mut from: impl BufRead, to: &mut impl Write) -> std::io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.trim_ascii() == SINCE_17.as_bytes() {
            writeln!(to, "{FOR_ALL}")?;
            continue;
        }
        to.write_all(&line)?;
        if line.starts_with(b"CREATE ") || line.starts_with(b"COPY ") {
            return std::io::copy(&mut from, to).map(drop);
        }
    }
}

/// All that a program says, read while it runs: it may be more than fits in between.
fn said_by(from: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut from) = from {
            let _ = from.read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).into_owned()
    })
}

/// The line that says what went wrong, without the data that the lines after it may show, and what to do about programs of
/// another age than the server or the dump.
fn problem(said: &str) -> String {
    let named = said.lines().find_map(|line| line.split_once("ERROR:").or_else(|| line.split_once("error:")));
    let last = || said.lines().rev().find(|line| !line.trim().is_empty());
    let problem = named.map(|(_, problem)| problem).or_else(last).unwrap_or("it did not say why").trim();
    if said.contains("server version mismatch") {
        let versions = said.lines().find_map(|line| Some(line.get(line.find("server version: ")?..)?.trim()));
        let versions = versions.map(|versions| format!(" ({versions})")).unwrap_or_default();
        return format!("it is older than the server{versions}: {NEWER_PROGRAMS}");
    }
    if problem.starts_with("unsupported version") {
        return format!("the dump is of newer programs than these ({problem}): {NEWER_PROGRAMS}");
    }
    problem.to_owned()
}

/// The program with that name: the newer of what `PATH` has first and the newest that Debian has. A newer one serves an older
/// server, and an older one refuses a newer server.
fn tool(name: &str) -> anyhow::Result<PathBuf> {
    let of_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&of_path).map(|folder| folder.join(name)).find(|path| path.is_file());
    let versions = std::fs::read_dir(DEBIAN_FOLDERS).into_iter().flatten().filter_map(Result::ok);
    let of_debian = versions
        .filter_map(|version| Some((version.file_name().to_str()?.parse::<u32>().ok()?, version.path())))
        .map(|(version, folder)| (version, folder.join("bin").join(name)))
        .filter(|(_, path)| path.is_file())
        .max();
    let found = match (in_path, of_debian) {
        // A wrapper of Debian's in the path chooses by clusters of its own, which this database need not be of.
        (Some(in_path), Some((version, of_debian))) => {
            Some(if version_of(&in_path) > Some(version) { in_path } else { of_debian })
        }
        (in_path, of_debian) => of_debian.map(|(_, path)| path).or(in_path),
    };
    found.with_context(|| {
        format!("{name} is not on this machine: install the client programs of PostgreSQL (on Debian `apt-get install postgresql-client`)")
    })
}

/// Which PostgreSQL a program is of, as it says itself: `pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn version_of(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let version = said.split_once("(PostgreSQL) ")?.1;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_says_when_it_was_made_and_what_it_holds() {
        let listed = ";\n; Archive created at 2026-11-27 21:44:48 UTC\n;     dbname: pix\n;     Dumped from: 15\n;\n3; 1259 16385 TABLE public facts pix\n";
        assert_eq!(made_at(listed).map(super::super::rfc3339).as_deref(), Some("2026-11-27T21:44:48Z"));
        assert!(!holds_large_objects(listed));
        assert!(holds_large_objects(&format!("{listed}2614; 2613 16401 BLOB - 16401 pix\n")));
        assert_eq!(made_at("; dbname: pix"), None);
    }

    #[test]
    fn a_script_begins_with_settings_that_every_server_takes() {
        let settings = "-- PostgreSQL database dump\n\nSET lock_timeout = 0;\n";
        let rest = format!(
            "CREATE TABLE public.facts (name text);\nCOPY public.facts FROM stdin;\n{SINCE_17}\n\\.\n"
        );
        let copied = |script: &str| {
            let mut to = Vec::new();
            copy_script(script.as_bytes(), &mut to).unwrap();
            String::from_utf8(to).unwrap()
        };
        let newer = format!("{settings}{SINCE_17}\n{rest}");
        assert_eq!(copied(&newer), format!("{settings}{FOR_ALL}\n{rest}"));
        assert_eq!(copied(&format!("{settings}{rest}")), format!("{settings}{rest}"));
        assert_eq!(copied(""), "");
    }

    #[test]
    fn programs_of_another_age_are_told_of_with_what_to_do() {
        let older = "pg_dump: error: aborting because of server version mismatch\npg_dump: detail: server version: 18.4; pg_dump version: 15.18\n";
        let told = "it is older than the server (server version: 18.4; pg_dump version: 15.18): install the client programs";
        assert!(problem(older).starts_with(told), "{}", problem(older));
        let of_13 = "pg_dump: error: server version: 18.4; pg_dump version: 13.23\npg_dump: error: aborting because of server version mismatch\n";
        assert!(
            problem(of_13)
                .starts_with("it is older than the server (server version: 18.4; pg_dump version: 13.23)")
        );
        let dump = "pg_restore: error: unsupported version (1.16) in file header\n";
        let told =
            "the dump is of newer programs than these (unsupported version (1.16) in file header): install";
        assert!(problem(dump).starts_with(told), "{}", problem(dump));
        let other = "psql:<stdin>:3: ERROR:  relation \"facts\" already exists\nDETAIL: a row\n";
        assert_eq!(problem(other), "relation \"facts\" already exists");
        assert_eq!(problem("\n"), "it did not say why");
    }
}
