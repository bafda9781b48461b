//! Reads of wallets and of whole books.

use async_trait::async_trait;
use pix_domain::audit::{Book, BookStore, StoredFinding};
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::wallet::store::{EntryQuery, WalletStore};
use pix_domain::wallet::{Entry, Wallet};

use crate::MemoryStore;

#[async_trait]
impl WalletStore for MemoryStore {
    async fn wallet(&self, integrator_id: IntegratorId) -> Result<Wallet, StoreError> {
        Ok(self.state().tenants.get(&integrator_id).map(|tenant| tenant.wallet).unwrap_or_default())
    }

    async fn entries(
        &self,
        integrator_id: IntegratorId,
        query: &EntryQuery,
    ) -> Result<Vec<Entry>, StoreError> {
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let state = self.state();
        let entries = state.tenants.get(&integrator_id).into_iter().flat_map(|tenant| &tenant.entries);
        let wanted = entries.filter(|entry| query.wants(entry));
        Ok(if query.newest_first {
            wanted.rev().take(limit).copied().collect()
        } else {
            wanted.take(limit).copied().collect()
        })
    }
}

#[async_trait]
impl BookStore for MemoryStore {
    async fn book(&self, integrator_id: IntegratorId) -> Result<Book, StoreError> {
        let state = self.state();
        let Some(tenant) = state.tenants.get(&integrator_id) else { return Ok(Book::default()) };
        Ok(Book {
            wallet: tenant.wallet,
            entries: tenant.entries.clone(),
            charges: tenant.charges.values().cloned().collect(),
            withdrawals: tenant.withdrawals.values().cloned().collect(),
            refunds: tenant.refunds.values().cloned().collect(),
            splits: tenant.splits.values().cloned().collect(),
            receipts: tenant.receipts.clone(),
            events: tenant.events.clone(),
        })
    }

    async fn findings(&self, integrator_id: IntegratorId) -> Result<Vec<StoredFinding>, StoreError> {
        Ok(self.state().tenants.get(&integrator_id).map(|tenant| tenant.findings.clone()).unwrap_or_default())
    }
}
