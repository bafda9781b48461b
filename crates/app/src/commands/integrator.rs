//! `pix-gateway integrator`.

use std::process::ExitCode;

use anyhow::bail;
use pix_domain::audit_log::Action;
use pix_domain::credentials::{Integrator, IntegratorStatus};
use pix_domain::ids::{Ids, IntegratorId};
use pix_domain::text::{clean, visible};
use pix_domain::time::Clock;
use serde_json::json;

use super::{answer, lines_or, rfc3339};
use crate::cli;
use crate::config::Config;
use crate::journal::Journal;
use crate::store::Store;
use crate::system::{SystemClock, SystemIds};

/// The longest name of an integrator, in characters.
const MAX_NAME_CHARS: usize = 120;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::Integrator) -> anyhow::Result<ExitCode> {
    let store = match command {
        // The first thing an operator does, perhaps before the first start.
        cli::Integrator::Create { .. } => Store::open(config).await?,
        _ => Store::open_existing(config).await?,
    };
    match command {
        cli::Integrator::Create { name, json } => {
            let integrator = create(&store, &Journal::of_user(&store, config)?, &name).await?;
            Ok(answer(json, &json!({"uuid": integrator.id.to_string(), "name": integrator.name}), || {
                format!(
                    "integrator {} is made; next: pix-gateway key create --integrator {}",
                    integrator.name, integrator.id
                )
            }))
        }
        cli::Integrator::List { json } => {
            let all = store.integrators.list().await?;
            let rows: Vec<_> = all.iter().map(row).collect();
            Ok(answer(json, &json!(rows), || {
                let lines = all
                    .iter()
                    .map(|one| format!("{}  {:9}  {}", one.id, status(one.status), visible(&one.name)));
                lines_or("no integrators", &lines.collect::<Vec<_>>())
            }))
        }
        cli::Integrator::Suspend { integrator, undo, json } => {
            let journal = Journal::of_user(&store, config)?;
            let to = suspend(&store, &journal, IntegratorId(integrator), !undo).await?;
            let value = json!({"uuid": integrator.to_string(), "status": status(to)});
            Ok(answer(json, &value, || format!("integrator {integrator} is {}", status(to))))
        }
    }
}

/// Makes an integrator with an empty wallet.
pub async fn create(store: &Store, journal: &Journal, name: &str) -> anyhow::Result<Integrator> {
    let name = clean(name, MAX_NAME_CHARS, "--name")?;
    if name.is_empty() {
        bail!("--name must have 1 to {MAX_NAME_CHARS} characters");
    }
    let integrator = Integrator {
        id: IntegratorId(SystemIds.next()),
        name: name.clone(),
        status: IntegratorStatus::Active,
        postback_scope: None,
        split_postback: None,
        created_at: SystemClock.now(),
    };
    journal.record(Action::IntegratorCreated, &integrator.id.to_string(), &name).await?;
    store.integrators.create(integrator.clone()).await?;
    Ok(integrator)
}

/// Lets an integrator move no money out, or lets it again; its status afterwards.
pub async fn suspend(
    store: &Store,
    journal: &Journal,
    id: IntegratorId,
    suspended: bool,
) -> anyhow::Result<IntegratorStatus> {
    if store.integrators.find(id).await?.is_none() {
        bail!("there is no integrator {id}; `pix-gateway integrator list` shows all");
    }
    let (to, action) = if suspended {
        (IntegratorStatus::Suspended, Action::IntegratorSuspended)
    } else {
        (IntegratorStatus::Active, Action::IntegratorResumed)
    };
    journal.record(action, &id.to_string(), "").await?;
    store.integrators.set_status(id, to).await?;
    Ok(to)
}

fn row(integrator: &Integrator) -> serde_json::Value {
    json!({
        "uuid": integrator.id.to_string(),
        "name": integrator.name,
        "status": status(integrator.status),
        "created_at": rfc3339(integrator.created_at),
    })
}

fn status(status: IntegratorStatus) -> &'static str {
    match status {
        IntegratorStatus::Active => "active",
        IntegratorStatus::Suspended => "suspended",
    }
}
