//! The SQLite store keeps every promise of a store, on a file of its own for each.

#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
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

fn open(path: &Path) -> Arc<SqliteStore> {
    let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
    Arc::new(SqliteStore::open(path, options).expect("a store"))
}

#[async_trait]
impl StoreHarness for SqliteHarness {
    fn stores(&self) -> StoreSet {
        StoreSet::of(self.store.clone().expect("an open store"))
    }

    async fn reopen(&mut self) -> Durability {
        drop(self.store.take());
        self.store = Some(open(&self.path));
        Durability::Durable
    }
}

fn harness() -> SqliteHarness {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pix-gateway.db");
    SqliteHarness { store: Some(open(&path)), path, _folder: folder }
}

pix_conformance::store_suite!(std::future::ready(harness()));
