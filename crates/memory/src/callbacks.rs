//! What the provider called back, and the journal of administrative acts.

use std::time::Duration;

use async_trait::async_trait;
use pix_domain::audit_log::{AuditLogStore, LogEntry};
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::error::StoreError;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::MemoryStore;
use crate::state::KeptCallback;

#[async_trait]
impl CallbackStore for MemoryStore {
    async fn keep(&self, callback: Callback, state: CallbackState) -> Result<bool, StoreError> {
        let mut kept = self.state();
        let waits = matches!(state, CallbackState::Waiting(_));
        let digest = callback.digest();
        if waits {
            for other in kept.callbacks.values_mut() {
                if let CallbackState::Waiting(at) = other.state
                    && other.callback.digest() == digest
                {
                    other.state = CallbackState::Waiting(at.plus(Duration::from_micros(1)));
                    return Ok(false);
                }
            }
        }
        let attempts = u32::from(waits);
        kept.callbacks.insert(callback.id, KeptCallback { callback, state, attempts });
        Ok(true)
    }

    async fn claim(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<ClaimedCallback>, StoreError> {
        let mut state = self.state();
        let mut due: Vec<_> = state
            .callbacks
            .values_mut()
            .filter_map(|kept| match kept.state {
                CallbackState::Waiting(at) if at <= now => Some((at, kept)),
                _ => None,
            })
            .collect();
        due.sort_by_key(|(at, kept)| (*at, kept.callback.id));
        due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let until = now.plus(lease);
        let claimed = due.into_iter().map(|(_, kept)| {
            kept.state = CallbackState::Waiting(until);
            kept.attempts = kept.attempts.saturating_add(1);
            ClaimedCallback { callback: kept.callback.clone(), attempts: kept.attempts, until }
        });
        Ok(claimed.collect())
    }

    async fn put(&self, claimed: &ClaimedCallback, state: CallbackState) -> Result<(), StoreError> {
        if let Some(kept) = self.state().callbacks.get_mut(&claimed.callback.id)
            && kept.state == CallbackState::Waiting(claimed.until)
            && kept.attempts == claimed.attempts
        {
            kept.state = state;
        }
        Ok(())
    }

    async fn look_up(&self, id: Uuid) -> Result<Option<(CallbackState, u32)>, StoreError> {
        Ok(self.state().callbacks.get(&id).map(|kept| (kept.state, kept.attempts)))
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let mut state = self.state();
        let old = state.callbacks.values().filter(|kept| {
            matches!(kept.state, CallbackState::Ended(_)) && kept.callback.received_at < before
        });
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let old: Vec<Uuid> = old.take(limit).map(|kept| kept.callback.id).collect();
        for id in &old {
            state.callbacks.remove(id);
        }
        Ok(u64::try_from(old.len()).unwrap_or(u64::MAX))
    }
}

#[async_trait]
impl AuditLogStore for MemoryStore {
    async fn append(&self, entry: LogEntry) -> Result<bool, StoreError> {
        let mut state = self.state();
        let taken = state.audit_log.iter().any(|kept| kept.number == entry.number);
        if !taken {
            state.audit_log.push(entry);
        }
        Ok(!taken)
    }

    async fn list(&self, after: u64, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let state = self.state();
        Ok(state.audit_log.iter().filter(|entry| entry.number > after).take(limit).cloned().collect())
    }

    async fn newest(&self) -> Result<Option<LogEntry>, StoreError> {
        Ok(self.state().audit_log.last().cloned())
    }

    async fn about(&self, subject: &str, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let state = self.state();
        let about = state.audit_log.iter().rev().filter(|entry| entry.subject == subject);
        Ok(about.take(limit).cloned().collect())
    }
}
