//! `pix-gateway migrate`.

use std::process::ExitCode;

use serde_json::json;

use super::answer;
use crate::config::Config;
use crate::store;

/// Runs the subcommand. A plan changes nothing.
pub async fn run(config: &Config, plan: bool, json: bool) -> anyhow::Result<ExitCode> {
    let (names, word) = if plan {
        (store::pending_migrations(config).await?, "to be applied")
    } else {
        (store::migrate(config).await?, "applied")
    };
    let shown = if plan { json!({"pending": names}) } else { json!({"applied": names}) };
    Ok(answer(json, &shown, || match names.as_slice() {
        [] => "the schema is up to date".to_owned(),
        names => format!("{word}: {}", names.join(", ")),
    }))
}
