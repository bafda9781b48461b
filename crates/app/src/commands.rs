//! The subcommands, a module each.

/// Prints a line. Whoever reads may have seen enough, and be gone.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

pub mod audit;
pub mod audit_log;
pub mod backup;
pub mod books;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod fees;
pub mod findings;
pub mod health;
pub mod integrator;
pub mod key;
pub mod limits;
pub mod man;
pub mod migrate;
pub mod openapi;
pub mod operator;
pub mod person;
pub mod postback;
pub mod resolve;
pub mod restore;
pub mod seal;
pub mod secret;
pub mod secrets;
pub mod serve;
pub mod simulator;
pub mod uncertain;
pub mod work;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use pix_domain::time::Timestamp;
use serde_json::Value;

/// Prints an answer in the form that was asked for.
fn answer(json: bool, value: &Value, text: impl FnOnce() -> String) -> ExitCode {
    let text = if json { value.to_string() } else { text() };
    match writeln!(std::io::stdout(), "{text}") {
        // Whoever reads may have seen enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("pix-gateway: the answer can't be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Answers in JSON that a command has failed, where an answer in JSON is waited for.
pub fn tell_failure(error: &anyhow::Error) {
    say!("{}", serde_json::json!({"error": format!("{error:#}")}));
}

/// How a command ends that was to find out whether something is right, and couldn't, or couldn't tell of it: 1 says that it is wrong.
pub const COULD_NOT_LOOK: u8 = 3;

/// How a command ends that found out whether something is right, and was to tell of it.
fn judged(told: ExitCode, is_right: bool) -> ExitCode {
    match (is_right, told == ExitCode::SUCCESS) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => told,
        (true, false) => COULD_NOT_LOOK.into(),
    }
}

/// What a list says that is empty, to a person.
fn lines_or(empty: &str, lines: &[String]) -> String {
    if lines.is_empty() { empty.to_owned() } else { lines.join("\n") }
}

/// Writes what a command makes, byte for byte. What can't be written whole is an error, unless its reader has seen enough.
fn write_out(bytes: &[u8]) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("the output can't be written")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// A time as operators read it: RFC 3339, UTC.
pub fn rfc3339(at: Timestamp) -> String {
    chrono::DateTime::from_timestamp_micros(at.micros())
        .map(|time| time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
        .unwrap_or_default()
}

/// A time as operators write it.
fn time(text: &str) -> anyhow::Result<Timestamp> {
    let time = chrono::DateTime::parse_from_rfc3339(text);
    let time = time.with_context(|| format!("\"{text}\" must be a time such as 2026-11-22T12:00:00Z"))?;
    Ok(Timestamp::from_micros(time.timestamp_micros()))
}
