//! `pix-gateway doctor`: whether everything that `serve` stands on is well, and what to do where it isn't.
//!
//! | Module | Looks at |
//! |---|---|
//! | `database` | the store: that it is there, keeps what it is told, has a schema that is known; its clock; what waits in it |
//! | `machine` | files, disk, limits of this machine |
//! | `network` | the provider, and the way back to this gateway |
//!
//! No check shows a secret: what it quotes are texts of errors, which hold none.

mod database;
mod machine;
mod network;

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{answer, judged};
use crate::config::{Config, ConfigError};
use crate::dangers;

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Well.
    Ok,
    /// It works, and somebody should look at it.
    Warning,
    /// It doesn't work, or is dangerous.
    Failed,
    /// It was not looked at, or there is nothing to look at.
    Skipped,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Check {
    name: &'static str,
    status: Status,
    /// What was found.
    found: String,
    /// What to do; for what is well nothing.
    remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), remedy: None }
    }

    fn skipped(name: &'static str, why: impl Into<String>) -> Self {
        Self { name, status: Status::Skipped, found: why.into(), remedy: None }
    }

    fn warning(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Warning, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn failed(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Failed, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn as_json(&self) -> Value {
        json!({"name": self.name, "status": self.status.as_str(), "found": self.found, "remedy": self.remedy})
    }

    fn as_text(&self) -> String {
        let remedy = self.remedy.as_ref().map(|remedy| format!("\n{:26}→ {remedy}", "")).unwrap_or_default();
        format!("{:<8} {:<16} {}{remedy}", self.status.as_str(), self.name, self.found)
    }
}

/// Runs the subcommand.
pub async fn run(config: &Config, json: bool) -> ExitCode {
    let mut checks = vec![configuration(dangers::all(config, false), dangers::warnings(config))];
    checks.extend(database::look(config).await);
    checks.push(machine::keys(config));
    checks.push(machine::files(config));
    checks.push(machine::disk(config));
    checks.push(machine::open_files(config));
    checks.push(network::provider(config).await);
    checks.push(network::public_url(config).await);
    let well = checks.iter().all(|check| check.status != Status::Failed);
    let listed: Vec<_> = checks.iter().map(Check::as_json).collect();
    let told = answer(json, &json!({"ok": well, "checks": listed}), || {
        let lines = checks.iter().map(Check::as_text);
        let end = if well { "nothing has failed" } else { "something has failed" };
        lines.chain([end.to_owned()]).collect::<Vec<_>>().join("\n")
    });
    judged(told, well)
}

/// The values of the settings; each sentence says what to do itself.
fn configuration(refused: Vec<ConfigError>, warned: Vec<ConfigError>) -> Check {
    const NAME: &str = "configuration";
    let joined = |sentences: Vec<ConfigError>| {
        sentences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let remedy = "change what is named, and run `pix-gateway config check`";
    match (refused.is_empty(), warned.is_empty()) {
        (true, true) => Check::ok(NAME, "every setting is within its bounds"),
        (true, false) => Check::warning(NAME, joined(warned), remedy),
        (false, _) => Check::failed(NAME, joined(refused), remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_fails_and_what_is_warned_of_does_not() {
        let told = |text: &str| vec![ConfigError::new(text)];
        assert_eq!(configuration(vec![], vec![]).status, Status::Ok);
        assert_eq!(configuration(vec![], told("a")).status, Status::Warning);
        let failed = configuration(told("b"), told("a"));
        assert_eq!((failed.status, failed.found.as_str()), (Status::Failed, "b"));
        assert!(failed.as_text().contains("→ change"));
        assert!(Check::ok("x", "y").as_text().starts_with("ok "));
    }
}
