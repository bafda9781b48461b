//! All ports that the use cases need, in one bundle.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::audit_log::AuditLogStore;
use crate::callbacks::CallbackStore;
use crate::charges::store::ChargeStore;
use crate::credentials::store::IntegratorStore;
use crate::error::{ApplyError, ServiceError, StoreError};
use crate::evidence::EvidenceStore;
use crate::fees::FeeStore;
use crate::follow_up::{FollowUpStore, LookupStore};
use crate::ids::{self, Ids, IntegratorId, ResourceKind, ResourceRef};
use crate::limits::LimitStore;
use crate::provider::{SettlementProvider, digest};
use crate::refunds::store::RefundStore;
use crate::restore::OutflowGate;
use crate::splits::store::SplitStore;
use crate::text::{ExternalId, IdempotencyKey};
use crate::time::Clock;
use crate::transition::{Transition, TransitionStore};
use crate::unrecorded::Unrecorded;
use crate::wallet::store::WalletStore;
use crate::withdrawals::store::WithdrawalStore;

/// How many times a decision is made again because somebody else changed the record meanwhile.
pub const MAX_STALE_RETRIES: u32 = 200;

/// How long sending to the provider may take by default, before a record that is being sent counts as lost sight of.
pub const DEFAULT_SUBMIT_GRACE: Duration = Duration::from_secs(20);

/// The default of [`Ports::duplicate_window`].
pub const DEFAULT_DUPLICATE_WINDOW: Duration = Duration::from_mins(1);

/// Where records are read and written.
#[derive(Clone)]
pub struct Stores {
    /// Writes.
    pub transitions: Arc<dyn TransitionStore>,
    /// Charges.
    pub charges: Arc<dyn ChargeStore>,
    /// Withdrawals.
    pub withdrawals: Arc<dyn WithdrawalStore>,
    /// Refunds.
    pub refunds: Arc<dyn RefundStore>,
    /// Splits.
    pub splits: Arc<dyn SplitStore>,
    /// Integrators: who may be paid a split.
    pub integrators: Arc<dyn IntegratorStore>,
    /// Wallets.
    pub wallets: Arc<dyn WalletStore>,
    /// Fees.
    pub fees: Arc<dyn FeeStore>,
    /// Limits of what may go out.
    pub limits: Arc<dyn LimitStore>,
    /// What is due.
    pub follow_ups: Arc<dyn FollowUpStore>,
    /// Handles and references.
    pub lookups: Arc<dyn LookupStore>,
    /// Evidence.
    pub evidence: Arc<dyn EvidenceStore>,
    /// What the provider called back.
    pub callbacks: Arc<dyn CallbackStore>,
    /// The journal of administrative acts.
    pub audit_log: Arc<dyn AuditLogStore>,
}

impl Stores {
    /// One store that is all of them.
    pub fn of<S>(store: Arc<S>) -> Self
    where
        S: TransitionStore
            + ChargeStore
            + WithdrawalStore
            + RefundStore
            + SplitStore
            + IntegratorStore
            + WalletStore
            + FeeStore
            + LimitStore
            + FollowUpStore
            + LookupStore
            + EvidenceStore
            + CallbackStore
            + AuditLogStore
            + 'static,
    {
        Self {
            transitions: store.clone(),
            charges: store.clone(),
            withdrawals: store.clone(),
            refunds: store.clone(),
            splits: store.clone(),
            integrators: store.clone(),
            wallets: store.clone(),
            fees: store.clone(),
            limits: store.clone(),
            follow_ups: store.clone(),
            lookups: store.clone(),
            evidence: store.clone(),
            callbacks: store.clone(),
            audit_log: store,
        }
    }
}

/// What the use cases stand on.
#[derive(Clone)]
pub struct Ports {
    /// Records.
    pub stores: Stores,
    /// Cash.
    pub provider: Arc<dyn SettlementProvider>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Identifiers.
    pub ids: Arc<dyn Ids>,
    /// How long sending may take at the most: the provider adapter's own deadline and a margin.
    pub submit_grace: Duration,
    /// What the ids of withdrawals and refunds are bound to their handles with: the same for the whole life of a database,
    /// and secret, so that nobody can tell an id from a handle.
    pub handle_seed: Uuid,
    /// Whether money may go out.
    pub outflow: Arc<dyn OutflowGate>,
    /// How long after it was done a cash-out or refund stands in the way of one just like it, when no handle tells the two
    /// apart.
    pub duplicate_window: Duration,
    /// What became of sendings and the store could not be told yet. All use cases of a process share one:
    /// [`Reconciler::record`](crate::reconciler::Reconciler::record) tells it.
    pub unrecorded: Unrecorded,
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How an attempt to write ended, as far as a use case cares.
pub(crate) enum Applied {
    /// It is written.
    Done,
    /// Somebody else was first, or nobody knows: read again and decide again.
    Again,
}

impl Ports {
    /// Applies a transition, with the recipients' side of what its charge shares, and fitted to each wallet where it meets a
    /// debt: what comes in pays that first, and what is forced out and isn't there is owed.
    ///
    /// In a box: who applies, applies again and again, and would else have room for all that it takes in each place.
    pub(crate) fn apply(&self, transition: Transition) -> BoxFuture<'_, Result<(), ApplyError>> {
        if transition.moves_shares() {
            Box::pin(self.apply_with_recipients(transition))
        } else {
            Box::pin(self.apply_whole(transition))
        }
    }

    async fn apply_with_recipients(&self, transition: Transition) -> Result<(), ApplyError> {
        for _ in 0..MAX_STALE_RETRIES {
            let whole = self.with_recipients(transition.clone()).await?;
            match self.apply_whole(whole).await {
                // A recipient has spent what was to be taken back of it.
                Err(ApplyError::InsufficientFunds) => {}
                result => return result,
            }
        }
        Err(ApplyError::Stale)
    }

    /// Applies a transition with all of its parts.
    async fn apply_whole(&self, transition: Transition) -> Result<(), ApplyError> {
        if !transition.may_meet_debt() {
            return self.stores.transitions.apply(transition).await;
        }
        let result = self.stores.transitions.apply(transition.clone()).await;
        if fits(&transition, &result) {
            result
        } else {
            Box::pin(self.apply_fitted(transition, result)).await
        }
    }

    /// Goes on with a transition that met a debt.
    async fn apply_fitted(
        &self,
        transition: Transition,
        mut result: Result<(), ApplyError>,
    ) -> Result<(), ApplyError> {
        for _ in 0..MAX_STALE_RETRIES {
            if fits(&transition, &result) {
                break;
            }
            let mut fitted = self.fitted(&transition).await?;
            for part in &mut fitted.parts {
                *part = self.fitted(part).await?;
            }
            result = self.stores.transitions.apply(fitted).await;
        }
        result
    }

    /// `transition` as its integrator's wallet takes it now.
    async fn fitted(&self, transition: &Transition) -> Result<Transition, ApplyError> {
        let wallet = self.stores.wallets.wallet(transition.integrator_id).await?;
        transition.fitted_to(wallet).ok_or(ApplyError::InsufficientFunds)
    }

    /// Applies a change of records that exist. An unknown outcome is resolved by reading again: the guard tells.
    pub(crate) async fn apply_change(&self, transition: Transition) -> Result<Applied, ServiceError> {
        match self.apply(transition).await {
            Ok(()) => Ok(Applied::Done),
            // The receipt of a PIX was written meanwhile: read again, and the charge says that it is credited.
            Err(
                ApplyError::Stale
                | ApplyError::Duplicate(_)
                | ApplyError::Owing
                | ApplyError::Store(StoreError::Unknown(_)),
            ) => Ok(Applied::Again),
            Err(ApplyError::InsufficientFunds) => Err(ServiceError::InsufficientBalance),
            Err(ApplyError::Store(error)) => Err(error.into()),
        }
    }

    /// Tells an operator that the provider answered about something else than it was asked about.
    pub(crate) async fn tell_mismatch(
        &self,
        resource: ResourceRef,
        field: &'static str,
    ) -> Result<(), ServiceError> {
        let detail = format!("an answer of the provider has another {field} than was asked");
        let finding = Transition::new(resource.integrator_id, self.clock.now());
        self.apply_change(finding.find(resource, "answer_mismatch", detail)).await.map(|_| ())
    }

    /// A new id for what goes out: bound to the handle of its request, when it has one.
    pub(crate) fn outgoing_id(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        external_id: Option<&ExternalId>,
        key: Option<&IdempotencyKey>,
    ) -> Uuid {
        let fresh = self.ids.next();
        let handle = match (external_id, key) {
            (Some(name), _) => ["external_id", name.as_str()],
            (None, Some(key)) => ["idempotency_key", key.as_str()],
            (None, None) => return fresh,
        };
        let (seed, owner) = (self.handle_seed.to_string(), integrator_id.to_string());
        ids::bound(fresh, digest(&[&seed, &owner, kind.as_str(), handle[0], handle[1]]))
    }

    /// Gives a name to a record whose integrator gave none.
    pub(crate) fn generated_name(prefix: &str, id: Uuid) -> Result<crate::text::ExternalId, ServiceError> {
        crate::text::ExternalId::parse(&format!("{prefix}-{}", crate::ids::base32_26(id)))
            .map_err(|problem| ServiceError::Invalid { field: "external_id", problem })
    }
}

/// Whether what came of a transition has nothing to do with a debt.
fn fits(transition: &Transition, result: &Result<(), ApplyError>) -> bool {
    match result {
        Err(ApplyError::Owing) => false,
        Err(ApplyError::InsufficientFunds) => !transition.is_forced(),
        _ => true,
    }
}

/// What a creating use case did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// Made now.
    Created(T),
    /// Made by an earlier request with the same handle; as it is now.
    Replayed(T),
}

impl<T> Outcome<T> {
    /// The record.
    pub fn into_inner(self) -> T {
        match self {
            Self::Created(record) | Self::Replayed(record) => record,
        }
    }
}
