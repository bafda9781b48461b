//! `pix-gateway secret`: what postbacks are signed with.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use pix_domain::audit_log::Action;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::secrets::{PostbackSecrets, SecretVersion};
use pix_domain::postbacks::send::PostbackSecret;
use pix_domain::time::Clock;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{answer, rfc3339};
use crate::cli;
use crate::config::Config;
use crate::gateway;
use crate::journal::Journal;
use crate::store::Store;
use crate::system::SystemClock;

const SECONDS_PER_HOUR: u64 = 3_600;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::Secret) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    let journal = Journal::of_user(&store, config)?;
    if config.database.is_shared() && config.postbacks.keys.is_none() {
        bail!(
            "with PostgreSQL, set PIX_POSTBACK_KEYS as it is on the nodes: secrets of another key would sign nothing"
        );
    }
    let keys = gateway::postback_keys(config)?;
    let secrets = PostbackSecrets::new(store.postbacks.secrets.clone(), keys, Arc::new(SystemClock));
    match command {
        cli::Secret::Show { integrator, json } => {
            let id = known(&store, integrator).await?;
            journal.record(Action::PostbackSecretShown, &id.to_string(), "").await?;
            let all = secrets.all(id).await?;
            let now = SystemClock.now();
            let live: Vec<_> = all.iter().filter(|(version, _)| version.is_live(now)).collect();
            let rows: Vec<_> = live.iter().map(|(version, secret)| row(version, Some(secret))).collect();
            Ok(answer(json, &json!(rows), || {
                let lines =
                    live.iter().map(|(version, secret)| format!("{}  {}", shown(version), secret.expose()));
                lines.collect::<Vec<_>>().join("\n")
            }))
        }
        cli::Secret::List { integrator, json } => {
            let id = known(&store, integrator).await?;
            let all = store.postbacks.secrets.list(id).await?;
            let rows: Vec<_> = all.iter().map(|version| row(version, None)).collect();
            Ok(answer(json, &json!(rows), || all.iter().map(shown).collect::<Vec<_>>().join("\n")))
        }
        cli::Secret::Rotate { integrator, overlap_hours, json } => {
            let id = known(&store, integrator).await?;
            let overlap =
                overlap_hours.map(|hours| Duration::from_secs(hours.saturating_mul(SECONDS_PER_HOUR)));
            let detail = overlap_hours.map_or_else(
                || "the others sign until they are retired".to_owned(),
                |hours| format!("the others sign for {hours} hours more"),
            );
            journal.record(Action::PostbackSecretAdded, &id.to_string(), &detail).await?;
            let (version, secret) = secrets.rotate(id, overlap).await?;
            Ok(answer(json, &row(&version, Some(&secret)), || {
                format!(
                    "{}  {}\nIt signs from now on, beside the others ({detail}). `pix-gateway secret retire` ends one.",
                    shown(&version),
                    secret.expose()
                )
            }))
        }
        cli::Secret::Retire { integrator, number, json } => {
            let id = known(&store, integrator).await?;
            journal
                .record(Action::PostbackSecretRetired, &id.to_string(), &format!("secret {number}"))
                .await?;
            secrets.retire(id, number).await?;
            let value = json!({"number": number, "retired": true});
            Ok(answer(json, &value, || format!("secret {number} signs no more, on any node, within seconds")))
        }
    }
}

/// The integrator's id, if there is such an integrator.
pub async fn known(store: &Store, integrator: Uuid) -> anyhow::Result<IntegratorId> {
    let id = IntegratorId(integrator);
    if store.integrators.find(id).await?.is_none() {
        bail!("there is no integrator {integrator}; `pix-gateway integrator list` shows all");
    }
    Ok(id)
}

fn row(version: &SecretVersion, secret: Option<&PostbackSecret>) -> Value {
    let mut row = json!({
        "number": version.number,
        "key_id": version.key_id,
        "created_at": rfc3339(version.created_at),
        "retired_at": version.retired_at.map(rfc3339),
    });
    if let (Some(secret), Some(fields)) = (secret, row.as_object_mut()) {
        fields.insert("secret".to_owned(), json!(secret.expose()));
    }
    row
}

fn shown(version: &SecretVersion) -> String {
    let ends = version.retired_at.map_or_else(|| "live".to_owned(), |at| format!("until {}", rfc3339(at)));
    format!("secret {}  made {}  {ends}", version.number, rfc3339(version.created_at))
}
