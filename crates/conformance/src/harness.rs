//! What an adapter brings, and what a case gets.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::audit::BookStore;
use pix_domain::audit_log::AuditLogStore;
use pix_domain::callbacks::{CallbackService, CallbackStore};
use pix_domain::charges::service::ChargeService;
use pix_domain::charges::store::ChargeStore;
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::decisions::DecisionService;
use pix_domain::evidence::EvidenceStore;
use pix_domain::fees::FeeStore;
use pix_domain::follow_up::{FollowUpStore, LookupStore};
use pix_domain::limits::LimitStore;
use pix_domain::people::PersonStore;
use pix_domain::ports::{DEFAULT_SUBMIT_GRACE, Ports, Stores};
use pix_domain::postbacks::delivery::DeliveryStore;
use pix_domain::postbacks::events::EventStore;
use pix_domain::postbacks::relay::PostbackStores;
use pix_domain::postbacks::secrets::PostbackSecretStore;
use pix_domain::reconciler::Reconciler;
use pix_domain::refunds::service::RefundService;
use pix_domain::refunds::store::RefundStore;
use pix_domain::restore::NeverRestored;
use pix_domain::seals::store::SealStore;
use pix_domain::splits::service::SplitService;
use pix_domain::splits::store::SplitStore;
use pix_domain::transactions::TransactionService;
use pix_domain::transition::TransitionStore;
use pix_domain::unrecorded::Unrecorded;
use pix_domain::wallet::store::WalletStore;
use pix_domain::withdrawals::service::WithdrawalService;
use pix_domain::withdrawals::store::WithdrawalStore;
use uuid::Uuid;

use crate::{FakeProvider, FixedClock, SequencedIds};

/// How long sending may take in the suite.
pub const SUBMIT_GRACE: Duration = DEFAULT_SUBMIT_GRACE;

/// Every port of one store.
#[derive(Clone)]
pub struct StoreSet {
    /// What the use cases need.
    pub domain: Stores,
    /// Events and deliveries.
    pub postbacks: PostbackStores,
    /// Integrators.
    pub integrators: Arc<dyn IntegratorStore>,
    /// Their keys.
    pub keys: Arc<dyn ApiKeyStore>,
    /// Whole books.
    pub books: Arc<dyn BookStore>,
    /// Seals of them.
    pub seals: Arc<dyn SealStore>,
    /// Persons.
    pub people: Arc<dyn PersonStore>,
}

impl StoreSet {
    /// One store that is all of them.
    pub fn of<S>(store: Arc<S>) -> Self
    where
        S: TransitionStore
            + ChargeStore
            + WithdrawalStore
            + RefundStore
            + SplitStore
            + WalletStore
            + FeeStore
            + LimitStore
            + FollowUpStore
            + LookupStore
            + EvidenceStore
            + CallbackStore
            + AuditLogStore
            + EventStore
            + DeliveryStore
            + PostbackSecretStore
            + IntegratorStore
            + ApiKeyStore
            + BookStore
            + SealStore
            + PersonStore
            + 'static,
    {
        Self {
            domain: Stores::of(store.clone()),
            postbacks: PostbackStores::of(store.clone()),
            integrators: store.clone(),
            keys: store.clone(),
            books: store.clone(),
            seals: store.clone(),
            people: store,
        }
    }
}

/// Whether a store outlives its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It does: it was closed and opened again.
    Durable,
    /// It doesn't: nothing was done.
    Volatile,
}

/// An empty store of the kind under test, with whatever it stands on.
#[async_trait]
pub trait StoreHarness: Send {
    /// The ports of the store as it is open now.
    fn stores(&self) -> StoreSet;

    /// Closes the store and opens it again, where that means something. Whoever calls this holds none of its ports.
    async fn reopen(&mut self) -> Durability;
}

/// The use cases over a store, with the other ports at hand.
#[derive(Clone)]
pub struct Services {
    /// The store.
    pub stores: StoreSet,
    /// The provider.
    pub provider: Arc<FakeProvider>,
    /// Time.
    pub clock: Arc<FixedClock>,
    /// Identifiers.
    pub ids: Arc<SequencedIds>,
    /// All of it as the domain takes it.
    pub ports: Ports,
    /// Charges.
    pub charges: ChargeService,
    /// Withdrawals.
    pub withdrawals: WithdrawalService,
    /// Refunds.
    pub refunds: RefundService,
    /// Parts of others' charges.
    pub splits: SplitService,
    /// All of them.
    pub transactions: TransactionService,
    /// The worker.
    pub reconciler: Reconciler,
    /// What the provider calls back.
    pub callbacks: CallbackService,
    /// What operators decide.
    pub decisions: DecisionService,
}

impl Services {
    /// Over `stores`, with ids of that seed.
    pub fn over(stores: StoreSet, seed: u64) -> Self {
        let provider = Arc::new(FakeProvider::default());
        let clock = Arc::new(FixedClock::default());
        let ids = Arc::new(SequencedIds::new(seed));
        let ports = Ports {
            stores: stores.domain.clone(),
            provider: provider.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            submit_grace: SUBMIT_GRACE,
            handle_seed: Uuid::from_u128(1),
            outflow: Arc::new(NeverRestored),
            // Most cases ask for the same again and again; those about twins bring a window.
            duplicate_window: Duration::ZERO,
            unrecorded: Unrecorded::default(),
        };
        Self::with(stores, provider, clock, ids, ports)
    }

    /// The same, with the guard against twins at `window`.
    #[must_use]
    pub fn guarding_twins(&self, window: Duration) -> Self {
        let ports = Ports { duplicate_window: window, ..self.ports.clone() };
        let (provider, clock, ids) = (self.provider.clone(), self.clock.clone(), self.ids.clone());
        Self::with(self.stores.clone(), provider, clock, ids, ports)
    }

    fn with(
        stores: StoreSet,
        provider: Arc<FakeProvider>,
        clock: Arc<FixedClock>,
        ids: Arc<SequencedIds>,
        ports: Ports,
    ) -> Self {
        Self {
            charges: ChargeService::new(ports.clone()),
            withdrawals: WithdrawalService::new(ports.clone()),
            refunds: RefundService::new(ports.clone()),
            splits: SplitService::new(ports.clone()),
            transactions: TransactionService::new(ports.clone()),
            reconciler: Reconciler::new(ports.clone()),
            callbacks: CallbackService::new(ports.clone()),
            decisions: DecisionService::new(ports.clone()),
            stores,
            provider,
            clock,
            ids,
            ports,
        }
    }
}

/// The use cases over the store of `harness`.
pub fn services(harness: &dyn StoreHarness) -> Services {
    Services::over(harness.stores(), 0)
}
