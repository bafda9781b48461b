//! Limits of what may go out.

use async_trait::async_trait;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::limits::{LimitPolicy, LimitStore, Sent, SentTo, Windows};
use pix_domain::party::PixKey;
use pix_domain::time::Timestamp;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

use crate::MemoryStore;
use crate::state::State;

/// What counts of an integrator: accepted, and not definitely undone.
fn counted(state: &State, owner: IntegratorId) -> Vec<&Withdrawal> {
    let counts = |withdrawal: &&Withdrawal| {
        withdrawal.settled_late
            || !matches!(withdrawal.state, OutgoingState::Failed(_) | OutgoingState::Canceled)
    };
    let own = state.tenants.get(&owner).into_iter().flat_map(|tenant| tenant.withdrawals.values());
    own.filter(counts).collect()
}

fn sum<'a>(withdrawals: impl Iterator<Item = &'a &'a Withdrawal>, since: impl Fn(Timestamp) -> bool) -> i64 {
    let amounts = withdrawals.filter(|withdrawal| since(withdrawal.created_at));
    amounts.fold(0, |sum: i64, withdrawal| sum.saturating_add(withdrawal.amount.cents().get()))
}

#[async_trait]
impl LimitStore for MemoryStore {
    async fn policy(&self, integrator_id: IntegratorId) -> Result<LimitPolicy, StoreError> {
        let state = self.state();
        let latest = state.tenants.get(&integrator_id).and_then(|tenant| tenant.limits.last());
        Ok(latest.cloned().unwrap_or_else(LimitPolicy::off))
    }

    async fn set_policy(
        &self,
        integrator_id: IntegratorId,
        policy: &LimitPolicy,
        _at: Timestamp,
    ) -> Result<Option<u32>, StoreError> {
        let mut state = self.state();
        let Some(tenant) = state.tenants.get_mut(&integrator_id) else {
            return Err(StoreError::Rejected("no such integrator".into()));
        };
        let current = tenant.limits.last().map_or(0, |latest| latest.version);
        if current != policy.version {
            return Ok(None);
        }
        let version = current.saturating_add(1);
        tenant.limits.push(LimitPolicy::new(version, policy.limits()));
        Ok(Some(version))
    }

    async fn sent(&self, integrator_id: IntegratorId, windows: &Windows) -> Result<Sent, StoreError> {
        let state = self.state();
        let counted = counted(&state, integrator_id);
        let since = |from: Option<Timestamp>| {
            from.map_or(0, |from| sum(counted.iter(), |created_at| created_at >= from))
        };
        let lately = counted.iter().filter(|withdrawal| withdrawal.created_at > windows.hour);
        Ok(Sent {
            day: since(Some(windows.day)),
            night: since(windows.night),
            late_night: since(windows.late_night),
            hour: i64::try_from(lately.count()).unwrap_or(i64::MAX),
        })
    }

    async fn sent_to(
        &self,
        integrator_id: IntegratorId,
        windows: &Windows,
        key: &PixKey,
    ) -> Result<SentTo, StoreError> {
        let state = self.state();
        let counted = counted(&state, integrator_id);
        let to_key: Vec<_> = counted.into_iter().filter(|withdrawal| withdrawal.payee.key == *key).collect();
        Ok(SentTo {
            day: sum(to_key.iter(), |created_at| created_at >= windows.day),
            lately: sum(to_key.iter(), |created_at| created_at > windows.new_payee),
            is_known: to_key.iter().any(|withdrawal| withdrawal.created_at <= windows.new_payee),
        })
    }
}
