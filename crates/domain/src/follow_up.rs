//! The list of what the provider is to be asked about next, and two small lookups beside it.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::StoreError;
use crate::ids::{IntegratorId, ResourceKind, ResourceRef};
use crate::text::IdempotencyKey;
use crate::time::Timestamp;

/// Something whose time to be asked about has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowUp {
    /// The record.
    pub resource: ResourceRef,
    /// How many times it was claimed since it last changed, this time included.
    pub attempts: u32,
    /// When the lease ends: what it is known by to be still this worker's.
    pub until: Timestamp,
}

/// Outgoing movements of one kind in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenMovements {
    /// Withdrawals or refunds.
    pub kind: ResourceKind,
    /// The name of the state.
    pub state: String,
    /// How many.
    pub count: u64,
    /// Amounts and fees, in centavos: what is held for them.
    pub held_cents: u64,
    /// When the oldest was accepted.
    pub oldest_at: Timestamp,
}

/// Where follow-ups are kept. A transition sets them
/// ([`Write::follow_up`](crate::transition::Write::follow_up)), with `attempts` back at zero.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait FollowUpStore: Send + Sync {
    /// Takes up to `limit` follow-ups that are due at `now`, most overdue first, and puts each off to `now + lease`
    /// with one attempt more, in one step, so that two workers never claim the same one within a lease.
    async fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Result<Vec<FollowUp>, StoreError>;

    /// Puts a claimed follow-up off; with `None`, for ever. MUST do nothing when the record has changed since, or somebody
    /// else has claimed it, and MUST NOT change its attempts.
    async fn postpone(&self, claimed: FollowUp, until: Option<Timestamp>) -> Result<(), StoreError>;

    /// How many outgoing movements are not final, by kind and state, and since when the oldest of each is.
    async fn open_movements(&self) -> Result<Vec<OpenMovements>, StoreError>;
}

/// Lookups that lead to a record.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait LookupStore: Send + Sync {
    /// What an idempotency key stands for.
    async fn find_handle(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        key: &IdempotencyKey,
    ) -> Result<Option<Uuid>, StoreError>;

    /// What a twin's key names, newest first; nothing when nobody ever took it.
    async fn find_twins(&self, integrator_id: IntegratorId, key: Uuid) -> Result<Vec<Uuid>, StoreError>;

    /// The record with this id, whosever it is; for the [`timeless`](crate::ids::timeless) part of an id, a withdrawal or
    /// refund whose id has it. For the provider's callbacks, which name our reference and nothing else,
    /// for the link that a payer is sent, and for operators. MUST never be reached with an id that an integrator sent.
    async fn locate(&self, id: Uuid) -> Result<Option<ResourceRef>, StoreError>;
}
