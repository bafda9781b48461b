//! `pix-gateway migrate`.

use std::process::ExitCode;

use serde_json::json;

use super::answer;
use crate::config::Config;
use crate::gateway;

/// Runs the subcommand.
pub fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let applied = gateway::migrate(config)?;
    Ok(answer(json, &json!({"applied": applied}), || match applied.as_slice() {
        [] => "the schema is up to date".to_owned(),
        names => format!("applied: {}", names.join(", ")),
    }))
}
