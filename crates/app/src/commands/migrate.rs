//! `pix-gateway migrate`.

use std::process::ExitCode;

use serde_json::json;

use super::answer;
use crate::config::Config;
use crate::store;

/// Runs the subcommand.
pub async fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let applied = store::migrate(config).await?;
    Ok(answer(json, &json!({"applied": applied}), || match applied.as_slice() {
        [] => "the schema is up to date".to_owned(),
        names => format!("applied: {}", names.join(", ")),
    }))
}
