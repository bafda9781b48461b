//! The reference store keeps every promise of a store.

use std::sync::Arc;

use async_trait::async_trait;
use pix_conformance::{Durability, StoreHarness, StoreSet};
use pix_memory::MemoryStore;

struct MemoryHarness(Arc<MemoryStore>);

#[async_trait]
impl StoreHarness for MemoryHarness {
    fn stores(&self) -> StoreSet {
        StoreSet::of(self.0.clone())
    }

    async fn reopen(&mut self) -> Durability {
        Durability::Volatile
    }
}

pix_conformance::store_suite!(async { MemoryHarness(Arc::new(MemoryStore::new())) });
