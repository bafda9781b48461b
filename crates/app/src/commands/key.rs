//! `pix-gateway key`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use pix_credentials::secrets::SECRET_PREFIX;
use pix_domain::audit_log::Action;
use pix_domain::credentials::{
    ApiKey, KeyChange, KeySecrets, MAX_ALLOWED_IPS, PlainSecret, Scope, Scopes, SecretHasher,
};
use pix_domain::ids::IntegratorId;
use pix_domain::ip::IpRange;
use pix_domain::time::Clock;
use serde_json::{Value, json};

use super::{answer, lines_or, rfc3339, secret, time};
use crate::cli;
use crate::config::Config;
use crate::gateway;
use crate::journal::Journal;
use crate::store::Store;
use crate::system::SystemClock;

const SECONDS_PER_DAY: u64 = 86_400;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::Key) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    match command {
        cli::Key::Create { integrator, limits, json } => {
            let change = change(&limits)?;
            let hasher = gateway::hasher(config)?;
            let journal = Journal::of_user(&store, config)?;
            let (key, secret) = create(&store, &journal, &hasher, IntegratorId(integrator), change).await?;
            let told = answer(json, &with_secret(&key, &secret), || {
                format!(
                    "public_id  {}\nsecret     {}\nThe secret is shown this once.",
                    key.public_id, secret.0
                )
            });
            let public_id = &key.public_id;
            Ok(shown_once(told, &format!("`pix-gateway key revoke {public_id}`, and make another one")))
        }
        cli::Key::Set { public_id, limits, never_expires, allow_any_ip, json } => {
            let mut change = change(&limits)?;
            if never_expires {
                change.expires_at = Some(None);
            }
            if allow_any_ip {
                change.allowed_ips = Some(Vec::new());
            }
            let key = set(&store, &Journal::of_user(&store, config)?, &public_id, change).await?;
            Ok(answer(json, &row(&key), || shown(&key)))
        }
        cli::Key::Rotate { public_id, json } => {
            let hasher = gateway::hasher(config)?;
            let journal = Journal::of_user(&store, config)?;
            let (key, secret) = rotate(&store, &journal, &hasher, &public_id).await?;
            let told = answer(json, &with_secret(&key, &secret), || {
                format!(
                    "secret     {}\nThe secret is shown this once. It works within five seconds; secret {} works too, until `key retire --older`.",
                    secret.0, key.secrets.older.number
                )
            });
            let newer = key.secrets.made;
            Ok(shown_once(
                told,
                &format!("`pix-gateway key retire {public_id} --secret {newer}`, and rotate it again"),
            ))
        }
        cli::Key::Retire { public_id, older: _, secret, json } => {
            let journal = Journal::of_user(&store, config)?;
            let (key, number) = retire(&store, &journal, &public_id, secret).await?;
            Ok(answer(json, &row(&key), || {
                format!(
                    "secret {number} is retired: within five seconds it is refused, with the tokens that it got"
                )
            }))
        }
        cli::Key::Revoke { public_id, json } => {
            revoke(&store, &Journal::of_user(&store, config)?, &public_id).await?;
            let value = json!({"public_id": public_id, "revoked": true});
            Ok(answer(json, &value, || {
                format!("key {public_id} is revoked; its tokens are refused within PIX_CACHE_TTL_MS")
            }))
        }
        cli::Key::List { integrator, json } => {
            let keys = store.keys.list(secret::known(&store, integrator).await?).await?;
            let rows: Vec<_> = keys.iter().map(row).collect();
            let told = || lines_or("no keys", &keys.iter().map(shown).collect::<Vec<_>>());
            Ok(answer(json, &json!(rows), told))
        }
    }
}

/// Says of a secret that nobody could read what becomes of it.
fn shown_once(told: ExitCode, remedy: &str) -> ExitCode {
    if told != ExitCode::SUCCESS {
        eprintln!("pix-gateway: the secret is made, works, and is shown to nobody again: {remedy}");
    }
    told
}

/// What the arguments say of a key.
fn change(limits: &cli::KeyLimits) -> anyhow::Result<KeyChange> {
    let now = SystemClock.now();
    let in_days = |days: u64| now.plus(Duration::from_secs(days.saturating_mul(SECONDS_PER_DAY)));
    let at = limits.expires_at.as_deref().map(time).transpose()?;
    if at.is_some_and(|at| at <= now) {
        bail!("--expires-at must be ahead; `pix-gateway key revoke` ends a key now");
    }
    if limits.allow_ip.len() > MAX_ALLOWED_IPS {
        bail!("a key has at most {MAX_ALLOWED_IPS} ranges of addresses");
    }
    Ok(KeyChange {
        scopes: limits.scopes,
        expires_at: at.or(limits.expires_in_days.map(in_days)).map(Some),
        allowed_ips: (!limits.allow_ip.is_empty()).then(|| limits.allow_ip.clone()),
    })
}

/// What is changed, for the audit log.
fn described(change: &KeyChange) -> String {
    let scopes = change.scopes.map(|scopes| format!("scopes {scopes}"));
    let expires = change.expires_at.map(|at| format!("expires {}", at.map_or("never".into(), rfc3339)));
    let ranges = change.allowed_ips.as_ref().map(|ranges| format!("from {}", ranges_text(ranges)));
    [scopes, expires, ranges].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn ranges_text(ranges: &[IpRange]) -> String {
    if ranges.is_empty() {
        return "anywhere".to_owned();
    }
    ranges.iter().map(IpRange::to_string).collect::<Vec<_>>().join(" ")
}

async fn find(store: &Store, public_id: &str) -> anyhow::Result<ApiKey> {
    if public_id.starts_with(SECRET_PREFIX) {
        bail!(
            "that is the secret of a key, which nobody should see: name the key by its public_id, which `pix-gateway key list` shows"
        );
    }
    store.keys.find(public_id).await?.with_context(|| {
        format!(
            "there is no key {public_id}; `pix-gateway key list --integrator UUID` shows an integrator's keys"
        )
    })
}

async fn find_unrevoked(store: &Store, public_id: &str) -> anyhow::Result<ApiKey> {
    let key = find(store, public_id).await?;
    if key.revoked_at.is_some() {
        bail!("key {public_id} is revoked, for good: make a new one with `pix-gateway key create`");
    }
    Ok(key)
}

/// Makes a key for an integrator; the secret is returned this once.
pub async fn create(
    store: &Store,
    journal: &Journal,
    hasher: &impl SecretHasher,
    integrator_id: IntegratorId,
    limits: KeyChange,
) -> anyhow::Result<(ApiKey, PlainSecret)> {
    if store.integrators.find(integrator_id).await?.is_none() {
        bail!(
            "there is no integrator {integrator_id}; make one with `pix-gateway integrator create --name NAME`"
        );
    }
    let secret = hasher.generate();
    let (public_id, hash) = (hasher.generate_public_id(), hasher.hash(secret.clone(), None).await?);
    let mut detail = format!("of integrator {integrator_id}");
    if !limits.is_nothing() {
        detail = format!("{detail}; {}", described(&limits));
    }
    let key = limits.of(ApiKey::new(public_id, integrator_id, hash, SystemClock.now()));
    journal.record(Action::KeyCreated, &key.public_id, &detail).await?;
    store.keys.create(key.clone()).await?;
    Ok((key, secret))
}

/// Changes what a key is good for; the key afterwards.
async fn set(store: &Store, journal: &Journal, public_id: &str, change: KeyChange) -> anyhow::Result<ApiKey> {
    find_unrevoked(store, public_id).await?;
    if change.is_nothing() {
        bail!(
            "say what to change: --scopes, --expires-at, --allow-ip; `pix-gateway key set --help` lists all"
        );
    }
    journal.record(Action::KeyChanged, public_id, &described(&change)).await?;
    store.keys.change(public_id, change).await?;
    find(store, public_id).await
}

/// Adds a second secret, which is returned this once.
async fn rotate(
    store: &Store,
    journal: &Journal,
    hasher: &impl SecretHasher,
    public_id: &str,
) -> anyhow::Result<(ApiKey, PlainSecret)> {
    let key = find_unrevoked(store, public_id).await?;
    let secret = hasher.generate();
    let hash = hasher.hash(secret.clone(), Some(key.secrets.older.hash.clone())).await?;
    let secrets = key.secrets.clone().add(hash, SystemClock.now())?;
    journal.record(Action::KeySecretAdded, public_id, &format!("secret {}", secrets.made)).await?;
    Ok((replace(store, key, secrets).await?, secret))
}

/// Ends the secret of that number, or the older of two; the key afterwards, and which one it was.
async fn retire(
    store: &Store,
    journal: &Journal,
    public_id: &str,
    number: Option<u32>,
) -> anyhow::Result<(ApiKey, u32)> {
    let key = find_unrevoked(store, public_id).await?;
    let number = number.unwrap_or(key.secrets.older.number);
    let secrets = key.secrets.clone().retire(number)?;
    journal.record(Action::KeySecretRetired, public_id, &format!("secret {number}")).await?;
    Ok((replace(store, key, secrets).await?, number))
}

async fn replace(store: &Store, key: ApiKey, secrets: KeySecrets) -> anyhow::Result<ApiKey> {
    if !store.keys.replace_secrets(&key.public_id, key.secrets.clone(), secrets.clone()).await? {
        bail!("key {} was changed by somebody else meanwhile: look at it, and try again", key.public_id);
    }
    Ok(ApiKey { secrets, ..key })
}

/// Revokes a key, for good.
pub async fn revoke(store: &Store, journal: &Journal, public_id: &str) -> anyhow::Result<()> {
    let key = find(store, public_id).await?;
    if key.revoked_at.is_none() {
        let detail = format!("of integrator {}", key.integrator_id);
        journal.record(Action::KeyRevoked, public_id, &detail).await?;
        store.keys.revoke(public_id, SystemClock.now()).await?;
    }
    Ok(())
}

fn with_secret(key: &ApiKey, secret: &PlainSecret) -> Value {
    let mut row = row(key);
    if let Some(fields) = row.as_object_mut() {
        fields.insert("secret".to_owned(), json!(secret.0));
    }
    row
}

fn row(key: &ApiKey) -> Value {
    let secrets = key.secrets.iter();
    let secrets = secrets
        .map(|secret| json!({"number": secret.number, "created_at": rfc3339(secret.created_at)}))
        .collect::<Vec<_>>();
    json!({
        "public_id": key.public_id,
        "created_at": rfc3339(key.created_at),
        "revoked_at": key.revoked_at.map(rfc3339),
        "expires_at": key.expires_at.map(rfc3339),
        "scopes": key.scopes.iter().map(Scope::as_str).collect::<Vec<_>>(),
        "allowed_ips": key.allowed_ips.iter().map(IpRange::to_string).collect::<Vec<_>>(),
        "secrets": secrets,
        "last_used_at": key.last_used_at.map(rfc3339),
    })
}

fn shown(key: &ApiKey) -> String {
    let now = SystemClock.now();
    let state = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {}", rfc3339(at)),
        (None, Some(at)) if at <= now => format!("expired {}", rfc3339(at)),
        (None, Some(at)) => format!("live until {}", rfc3339(at)),
        (None, None) => "live".to_owned(),
    };
    let scopes = if key.scopes == Scopes::ALL { "everything".to_owned() } else { key.scopes.to_string() };
    let numbers = key.secrets.iter().map(|secret| secret.number.to_string());
    format!(
        "{}  {state}  last used {}  secret {}  for {scopes}  from {}",
        key.public_id,
        key.last_used_at.map_or("never".into(), rfc3339),
        numbers.collect::<Vec<_>>().join(" and "),
        ranges_text(&key.allowed_ips),
    )
}
