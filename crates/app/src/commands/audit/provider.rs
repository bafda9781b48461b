//! `pix-gateway audit --provider`.

use std::process::ExitCode;
use std::time::Duration;

use pix_domain::ids::ResourceRef;
use pix_domain::time::Clock;
use serde_json::{Value, json};

use super::super::findings::action;
use super::super::{answer, judged};
use crate::config::Config;
use crate::gateway;
use crate::proving::Proving;
use crate::restored::Gate;
use crate::store::Store;
use crate::system::SystemClock;

/// Asks the provider about what has ended in the last `days` days.
pub async fn run(config: &Config, days: u64, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    gateway::refuse_another_provider(config, &store).await?;
    let ports = gateway::idle_ports(config, &store, Gate::of(&store, config.restore_ask).await?).await?;
    let proving = Proving::new(&store, &ports, config.proofs.clone());
    let now = SystemClock.now();
    let found = proving.all_since(now.minus(Duration::from_hours(days.saturating_mul(24))), now).await?;
    let named = |resource: &ResourceRef| -> Value {
        json!({
            "integrator": resource.integrator_id.to_string(),
            "kind": resource.kind.as_str(),
            "uuid": resource.id.to_string(),
        })
    };
    let differing = found.differing.iter().map(|(resource, code)| {
        let mut shown = named(resource);
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("code".to_owned(), json!(code));
            shown.insert("action".to_owned(), json!(action(code)));
        }
        shown
    });
    let shown = json!({
        "asked": found.total,
        "agree": found.agree,
        "learned": found.learned,
        "differ": differing.collect::<Vec<_>>(),
        "unanswered": found.unanswered.iter().map(named).collect::<Vec<_>>(),
    });
    let told = answer(as_json, &shown, || {
        let mut lines = vec![format!(
            "asked about {}: {} agree, of {} something new was booked, {} contradict the books, {} without an answer",
            found.total,
            found.agree,
            found.learned,
            found.differing.len(),
            found.unanswered.len()
        )];
        for (resource, code) in &found.differing {
            let (kind, id, owner) = (resource.kind.as_str(), resource.id, resource.integrator_id);
            lines.push(format!("WRONG {kind} {id} of {owner}: {code}\n    {}", action(code)));
        }
        for resource in &found.unanswered {
            let (kind, id, owner) = (resource.kind.as_str(), resource.id, resource.integrator_id);
            lines.push(format!("NOT ANSWERED {kind} {id} of {owner}"));
        }
        lines.join("\n")
    });
    Ok(judged(told, found.differing.is_empty() && found.unanswered.is_empty()))
}
