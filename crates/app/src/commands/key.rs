//! `pix-gateway key`.

use std::process::ExitCode;

use anyhow::bail;
use pix_domain::audit_log::Action;
use pix_domain::credentials::{ApiKey, PlainSecret, SecretHasher};
use pix_domain::ids::IntegratorId;
use pix_domain::time::Clock;
use serde_json::json;

use super::{answer, rfc3339};
use crate::cli;
use crate::config::Config;
use crate::gateway;
use crate::journal::Journal;
use crate::store::Store;
use crate::system::SystemClock;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::Key) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    match command {
        cli::Key::Create { integrator, json } => {
            let hasher = gateway::hasher(config)?;
            let journal = Journal::of_user(&store, config)?;
            let (key, secret) = create(&store, &journal, &hasher, IntegratorId(integrator)).await?;
            Ok(answer(json, &json!({"public_id": key.public_id, "secret": secret.0}), || {
                format!(
                    "public_id  {}\nsecret     {}\nThe secret is shown this once.",
                    key.public_id, secret.0
                )
            }))
        }
        cli::Key::Revoke { public_id, json } => {
            revoke(&store, &Journal::of_user(&store, config)?, &public_id).await?;
            let value = json!({"public_id": public_id, "revoked": true});
            Ok(answer(json, &value, || {
                format!("key {public_id} is revoked; its tokens are refused from now on")
            }))
        }
        cli::Key::List { integrator, json } => {
            let id = IntegratorId(integrator);
            if store.integrators.find(id).await?.is_none() {
                bail!("there is no integrator {integrator}; `pix-gateway integrator list` shows all");
            }
            let keys = store.keys.list(id).await?;
            let rows: Vec<_> = keys
                .iter()
                .map(|key| {
                    json!({
                        "public_id": key.public_id,
                        "created_at": rfc3339(key.created_at),
                        "revoked_at": key.revoked_at.map(rfc3339),
                    })
                })
                .collect();
            Ok(answer(json, &json!(rows), || {
                let state = |key: &ApiKey| {
                    key.revoked_at.map_or("live".into(), |at| format!("revoked {}", rfc3339(at)))
                };
                let lines = keys.iter().map(|key| format!("{}  {}", key.public_id, state(key)));
                lines.collect::<Vec<_>>().join("\n")
            }))
        }
    }
}

/// Revokes a key, for good.
pub async fn revoke(store: &Store, journal: &Journal, public_id: &str) -> anyhow::Result<()> {
    let Some(key) = store.keys.find(public_id).await? else {
        bail!(
            "there is no key {public_id}; `pix-gateway key list --integrator UUID` shows an integrator's keys"
        );
    };
    if key.revoked_at.is_none() {
        let detail = format!("of integrator {}", key.integrator_id);
        journal.record(Action::KeyRevoked, public_id, &detail).await?;
        store.keys.revoke(public_id, SystemClock.now()).await?;
    }
    Ok(())
}

/// Makes a key for an integrator; the secret is returned this once.
pub async fn create(
    store: &Store,
    journal: &Journal,
    hasher: &impl SecretHasher,
    integrator_id: IntegratorId,
) -> anyhow::Result<(ApiKey, PlainSecret)> {
    if store.integrators.find(integrator_id).await?.is_none() {
        bail!(
            "there is no integrator {integrator_id}; make one with `pix-gateway integrator create --name NAME`"
        );
    }
    let secret = hasher.generate();
    let key = ApiKey {
        public_id: hasher.generate_public_id(),
        integrator_id,
        secret_hash: hasher.hash(secret.clone()).await?,
        created_at: SystemClock.now(),
        revoked_at: None,
    };
    let detail = format!("of integrator {integrator_id}");
    journal.record(Action::KeyCreated, &key.public_id, &detail).await?;
    store.keys.create(key.clone()).await?;
    Ok((key, secret))
}
