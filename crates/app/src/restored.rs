//! Whether the database was restored from a backup, and since when money may leave again.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::bail;
use pix_domain::error::StoreError;
use pix_domain::restore::{Outflow, OutflowGate};
use pix_domain::time::{Clock, Timestamp};
use serde_json::{Value, json};

use crate::store::{FactStore, Store};
use crate::system::SystemClock;

/// The name of the fact that a database was restored.
const RESTORED_FACT: &str = "restored";
/// The name of the fact that a database is a copy, which nobody has restored from yet; when it was made, in microseconds.
pub const COPY_FACT: &str = "copy";
/// How often a running program looks whether that has changed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The newest restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// How many there were, with this one.
    pub epoch: u64,
    /// When.
    pub at: Timestamp,
    /// Since when money may leave again; `None` while it may not.
    pub opened_at: Option<Timestamp>,
}

impl Restored {
    /// The newest one; `None` when there was none.
    ///
    /// [`StoreError::Damaged`] when it can't be read: what it says must not be guessed.
    pub async fn last(facts: &dyn FactStore) -> Result<Option<Self>, StoreError> {
        let Some(kept) = facts.fact(RESTORED_FACT).await? else { return Ok(None) };
        let read = serde_json::from_str(&kept).ok().and_then(|value| Self::read(&value));
        read.map(Some)
            .ok_or_else(|| StoreError::Damaged(format!("facts.{RESTORED_FACT} is not that of a restore")))
    }

    /// Keeps this as the newest one.
    pub async fn keep(&self, facts: &dyn FactStore) -> Result<(), StoreError> {
        let value = json!({
            "epoch": self.epoch,
            "at_us": self.at.micros(),
            "opened_at_us": self.opened_at.map(Timestamp::micros),
        });
        facts.keep_fact(RESTORED_FACT, value.to_string()).await
    }

    fn read(value: &Value) -> Option<Self> {
        let opened_at = value.get("opened_at_us")?;
        let opened_at = if opened_at.is_null() { None } else { Some(opened_at.as_i64()?) };
        Some(Self {
            epoch: value.get("epoch")?.as_u64()?,
            at: Timestamp::from_micros(value.get("at_us")?.as_i64()?),
            opened_at: opened_at.map(Timestamp::from_micros),
        })
    }
}

/// Refuses a copy that nobody has restored from: what went out since it was made isn't in it, and would go out again.
pub async fn refuse_copy(store: &Store) -> anyhow::Result<()> {
    if let Some(at) = copied_at(store).await? {
        bail!(
            "this database is a backup made at {}: to serve with it, run `pix-gateway restore --mark --reason …` first (docs/OPERATIONS.md, backup and restore)",
            crate::commands::rfc3339(at)
        );
    }
    Ok(())
}

/// When the copy that this database is was made; `None` when it is none, or was restored from.
pub async fn copied_at(store: &Store) -> Result<Option<Timestamp>, StoreError> {
    let kept = store.facts.fact(COPY_FACT).await?.filter(|value| !value.is_empty());
    let micros =
        kept.map(|value| value.parse().map_err(|_error| StoreError::Damaged("facts.copy is no time".into())));
    Ok(micros.transpose()?.map(Timestamp::from_micros))
}

/// What holds for this process.
pub struct Gate {
    shut: AtomicBool,
    /// Until when the provider is asked first, in microseconds since 1970.
    ask_until: AtomicI64,
    ask_for: Duration,
}

impl Gate {
    /// As the database says now. After a restore the provider is asked first for `ask_for`.
    pub async fn of(store: &Store, ask_for: Duration) -> Result<Arc<Self>, StoreError> {
        let gate = Self { shut: AtomicBool::new(false), ask_until: AtomicI64::new(i64::MIN), ask_for };
        gate.follow(Restored::last(store.facts.as_ref()).await?.as_ref());
        Ok(Arc::new(gate))
    }

    /// Looks again every [`LOOK_AGAIN`], for as long as the gate is in use. What can't be read changes nothing.
    pub fn watch(self: &Arc<Self>, facts: Arc<dyn FactStore>) {
        let gate: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_AGAIN).await;
                let Some(gate) = gate.upgrade() else { return };
                match Restored::last(facts.as_ref()).await {
                    Ok(restored) => gate.follow(restored.as_ref()),
                    Err(error) => tracing::debug!(%error, "whether the database was restored can't be read"),
                }
            }
        });
    }

    fn follow(&self, restored: Option<&Restored>) {
        let opened_at = restored.and_then(|restored| restored.opened_at);
        let until = opened_at.map_or(i64::MIN, |at| at.plus(self.ask_for).micros());
        self.ask_until.store(until, Ordering::SeqCst);
        let shut = restored.is_some() && opened_at.is_none();
        if self.shut.swap(shut, Ordering::SeqCst) != shut {
            tracing::warn!(
                shut,
                "whether money may leave has changed: the database was restored, or opened again"
            );
        }
    }
}

impl OutflowGate for Gate {
    fn outflow(&self) -> Outflow {
        if self.shut.load(Ordering::SeqCst) {
            Outflow::Shut
        } else if SystemClock.now().micros() < self.ask_until.load(Ordering::SeqCst) {
            Outflow::AskFirst
        } else {
            Outflow::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use pix_persistence::sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_restore_shuts_the_gate_until_it_is_opened_and_then_the_provider_is_asked_first() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
        let store = Store::of(SqliteStore::open(folder.path().join("pix.db"), options).unwrap());
        let hour = Duration::from_hours(1);
        let gate = Gate::of(&store, hour).await.unwrap();
        assert_eq!(gate.outflow(), Outflow::Open);
        let now = SystemClock.now();
        let mut restored = Restored { epoch: 1, at: now, opened_at: None };
        for (opened_at, outflow) in [
            (None, Outflow::Shut),
            (Some(now), Outflow::AskFirst),
            (Some(Timestamp::from_micros(now.micros() - 3_600_000_001)), Outflow::Open),
        ] {
            restored.opened_at = opened_at;
            restored.keep(store.facts.as_ref()).await.unwrap();
            assert_eq!(Restored::last(store.facts.as_ref()).await.unwrap().as_ref(), Some(&restored));
            assert_eq!(Gate::of(&store, hour).await.unwrap().outflow(), outflow);
            gate.follow(Some(&restored));
            assert_eq!(gate.outflow(), outflow);
        }
        // What can't be understood is no permission.
        store.facts.keep_fact(RESTORED_FACT, "{}".to_owned()).await.unwrap();
        assert!(Gate::of(&store, hour).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copy_is_refused_until_it_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
        let store = Store::of(SqliteStore::open(folder.path().join("pix.db"), options).unwrap());
        refuse_copy(&store).await.unwrap();
        store.facts.keep_fact(COPY_FACT, "1795000000000000".to_owned()).await.unwrap();
        let refused = refuse_copy(&store).await.unwrap_err().to_string();
        assert!(refused.contains("2026-11-18") && refused.contains("restore --mark"), "{refused}");
        store.facts.keep_fact(COPY_FACT, String::new()).await.unwrap();
        refuse_copy(&store).await.unwrap();
    }
}
