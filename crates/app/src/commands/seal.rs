//! `pix-gateway seal`: what the workers do at intervals, now.

use std::process::ExitCode;
use std::sync::Arc;

use pix_domain::seals::SealDifference;
use pix_domain::seals::service::Sealer;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{answer, judged};
use crate::config::Config;
use crate::store::Store;
use crate::system::SystemClock;

/// Runs the subcommand: until nothing is left.
pub async fn run(config: &Config, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    let sealer = Sealer::new(store.seals.clone(), Arc::new(SystemClock));
    let begun = Instant::now();
    let turn = sealer.all().await?;
    let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let found: Vec<String> = turn.found.iter().map(SealDifference::to_string).collect();
    let value = json!({
        "clean": turn.differing == 0,
        "entries": turn.entries,
        "seals": turn.seals,
        "left": turn.left,
        "differing": turn.differing,
        "differences": found.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>(),
        "took_ms": took_ms,
    });
    let told = answer(as_json, &value, || {
        let mut lines: Vec<_> = found.iter().map(|what| format!("WRONG    {what}")).collect();
        lines.push(format!(
            "sealed {} entries in {} seals, in {took_ms} ms; {} are left",
            turn.entries, turn.seals, turn.left
        ));
        if turn.differing > 0 {
            lines.push(format!(
                "{} books contradict themselves and are not sealed: see `pix-gateway audit`",
                turn.differing
            ));
        }
        lines.join("\n")
    });
    Ok(judged(told, turn.differing == 0))
}
