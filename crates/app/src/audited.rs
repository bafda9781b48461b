//! What the newest audit found, kept beside the books, so that whoever serves can tell.

use pix_domain::error::StoreError;
use pix_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::store::Store;

/// The name of the fact.
const FACT: &str = "audit";

/// An audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audited {
    /// When it ended.
    pub at: Timestamp,
    /// Whether the books were right.
    pub clean: bool,
    /// How many differences there were, those with the provider included.
    pub differences: u64,
}

impl Audited {
    /// Keeps this as the newest one.
    pub async fn keep(self, store: &Store) -> Result<(), StoreError> {
        let Self { at, clean, differences } = self;
        let value = json!({"at_us": at.micros(), "clean": clean, "differences": differences});
        store.facts.keep_fact(FACT, value.to_string()).await
    }

    /// The newest one; `None` when there was none, or it was kept by a program that says other things of it.
    pub async fn last(store: &Store) -> Result<Option<Self>, StoreError> {
        let kept = store.facts.fact(FACT).await?;
        Ok(kept.and_then(|text| Self::read(&serde_json::from_str(&text).ok()?)))
    }

    fn read(value: &Value) -> Option<Self> {
        Some(Self {
            at: Timestamp::from_micros(value.get("at_us")?.as_i64()?),
            clean: value.get("clean")?.as_bool()?,
            differences: value.get("differences")?.as_u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use pix_persistence::sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_newest_audit_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
        let store = Store::of(SqliteStore::open(folder.path().join("pix.db"), options).unwrap());
        assert_eq!(Audited::last(&store).await.unwrap(), None);
        for differences in [2, 0] {
            let audited = Audited { at: Timestamp::from_micros(7), clean: differences == 0, differences };
            audited.keep(&store).await.unwrap();
            assert_eq!(Audited::last(&store).await.unwrap(), Some(audited));
        }
        store.facts.keep_fact(FACT, "{}".to_owned()).await.unwrap();
        assert_eq!(Audited::last(&store).await.unwrap(), None);
    }
}
