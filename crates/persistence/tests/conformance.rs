//! The SQLite store keeps every promise of a store, on a file of its own for each.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use pix_conformance::{Durability, StoreHarness, StoreSet};
use pix_persistence::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

struct SqliteHarness {
    store: Option<Arc<SqliteStore>>,
    path: PathBuf,
    _folder: TempDir,
}

fn open(path: &PathBuf) -> Option<Arc<SqliteStore>> {
    let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
    Some(Arc::new(SqliteStore::open(path, options).expect("a store")))
}

#[async_trait]
impl StoreHarness for SqliteHarness {
    fn stores(&self) -> StoreSet {
        StoreSet::of(self.store.clone().expect("an open store"))
    }

    async fn reopen(&mut self) -> Durability {
        drop(self.store.take());
        self.store = open(&self.path);
        Durability::Durable
    }
}

async fn harness() -> SqliteHarness {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pix-gateway.db");
    SqliteHarness { store: open(&path), path, _folder: folder }
}

pix_conformance::store_suite!(harness());
