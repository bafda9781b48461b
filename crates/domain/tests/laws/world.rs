//! A world of one integrator: a book that checks every law at every write, and mocks of every port over it that can be
//! made to fail, to lose an answer, or to let somebody else go first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pix_domain::audit::{Book, check};
use pix_domain::audit_log::MockAuditLogStore;
use pix_domain::callbacks::MockCallbackStore;
use pix_domain::charges::store::MockChargeStore;
use pix_domain::charges::{Charge, NewCharge, state as charge_state};
use pix_domain::credentials::store::MockIntegratorStore;
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::evidence::{Evidence, EvidenceKind, MockEvidenceStore, Proof};
use pix_domain::fees::MockFeeStore;
use pix_domain::follow_up::{FollowUp, MockFollowUpStore, MockLookupStore};
use pix_domain::ids::{IntegratorId, MockIds, ResourceKind, ResourceRef};
use pix_domain::limits::{LimitPolicy, MockLimitStore};
use pix_domain::ports::{Ports, Stores};
use pix_domain::provider::MockSettlementProvider;
use pix_domain::reconciler::LEASE;
use pix_domain::refunds::Refund;
use pix_domain::refunds::store::MockRefundStore;
use pix_domain::restore::NeverRestored;
use pix_domain::splits::store::MockSplitStore;
use pix_domain::time::{MockClock, Timestamp};
use pix_domain::transition::{EventKind, Finding, Guard, Handle, MockTransitionStore, Record, Transition};
use pix_domain::unrecorded::Unrecorded;
use pix_domain::wallet::store::MockWalletStore;
use pix_domain::wallet::{Account, Entry};
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::store::MockWithdrawalStore;
use uuid::Uuid;

use crate::samples::{GRACE, INTEGRATOR, T0, amount, fixed_fee, new_charge, next, payment, schedule, ticket};

/// What happens to one write.
pub enum Write {
    /// It is applied.
    Done,
    /// Nothing is written, and this is the answer.
    Refused(ApplyError),
    /// Somebody else goes first; then nothing is written, and this is the answer.
    Beaten(Box<dyn FnOnce(&World) + Send>, ApplyError),
    /// It is applied, and the answer is lost; then this happens before anything else.
    Lost(Box<dyn FnOnce(&World) + Send>),
    /// Somebody else goes first; then it is applied, if it still can be.
    After(Box<dyn FnOnce(&World) + Send>),
}

#[derive(Default)]
pub struct Stored {
    pub book: Book,
    pub follow_ups: BTreeMap<ResourceRef, Timestamp>,
    pub handles: Vec<Handle>,
    pub findings: Vec<Finding>,
    pub evidence: Vec<Evidence>,
    /// Every event, in order.
    pub events: Vec<EventKind>,
    /// What happened, in order: `apply` with the first event, and the provider's calls.
    pub log: Vec<String>,
    /// Somebody else has written to the book: it is not right any more.
    pub is_tampered: bool,
    /// The clock isn't right.
    pub is_clock_wrong: bool,
    script: VecDeque<Write>,
}

/// The world; clones share it.
#[derive(Clone)]
pub struct World {
    owner: IntegratorId,
    stored: Arc<Mutex<Stored>>,
    now_micros: Arc<AtomicI64>,
    ids: Arc<AtomicU64>,
}

impl World {
    /// An empty one, at [`T0`].
    pub fn new() -> Self {
        Self::of(INTEGRATOR)
    }

    /// The same, of that integrator.
    pub fn of(owner: IntegratorId) -> Self {
        Self {
            owner,
            stored: Arc::default(),
            now_micros: Arc::new(AtomicI64::new(T0.micros())),
            ids: Arc::new(AtomicU64::new(0x1000)),
        }
    }

    /// One whose wallet has this much, from a charge that was paid without a fee.
    pub fn with_available(cents: i64) -> Self {
        let world = Self::new();
        world.paid_charge(0xF00D, cents);
        world
    }

    /// A charge that was made and paid with `cents`, without a fee, just now.
    pub fn paid_charge(&self, id: u128, cents: i64) -> Charge {
        let new = NewCharge { amount: amount(cents), ..new_charge(id) };
        let opened = charge_state::open(new, ticket(), self.now());
        let charge = opened.charge().unwrap().clone();
        self.apply(&opened).unwrap();
        let mut payment = payment(u32::try_from(id).unwrap(), cents);
        payment.paid_at = self.now();
        self.apply(&next(charge.pay(payment, &fixed_fee(0), self.now()))).unwrap();
        self.stored().log.clear();
        self.charge(id)
    }

    pub fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap()
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_micros.load(Ordering::SeqCst))
    }

    pub fn wait(&self, span: Duration) {
        self.now_micros.fetch_add(i64::try_from(span.as_micros()).unwrap(), Ordering::SeqCst);
    }

    pub fn wait_secs(&self, secs: u64) {
        self.wait(Duration::from_secs(secs));
    }

    /// What happens to the next writes; all after them are applied.
    pub fn script(&self, writes: impl IntoIterator<Item = Write>) {
        self.stored().script.extend(writes);
    }

    pub fn note(&self, what: &str) {
        self.stored().log.push(what.into());
    }

    pub fn log(&self) -> Vec<String> {
        self.stored().log.clone()
    }

    /// How often `what` happened.
    pub fn times(&self, what: &str) -> usize {
        self.stored().log.iter().filter(|entry| *entry == what).count()
    }

    pub fn available(&self) -> i64 {
        self.stored().book.wallet.available.get()
    }

    pub fn held(&self) -> i64 {
        self.stored().book.wallet.held.get()
    }

    /// The book, in order.
    pub fn entries(&self) -> Vec<Entry> {
        self.stored().book.entries.clone()
    }

    /// The codes of the findings, in order.
    pub fn findings(&self) -> Vec<&'static str> {
        self.stored().findings.iter().map(|finding| finding.code).collect()
    }

    pub fn charge(&self, id: u128) -> Charge {
        let id = Uuid::from_u128(id);
        self.stored().book.charges.iter().find(|record| record.id.0 == id).unwrap().clone()
    }

    /// The only withdrawal.
    pub fn withdrawal(&self) -> Withdrawal {
        let stored = self.stored();
        assert_eq!(stored.book.withdrawals.len(), 1);
        stored.book.withdrawals[0].clone()
    }

    /// The only refund.
    pub fn refund(&self) -> Refund {
        let stored = self.stored();
        assert_eq!(stored.book.refunds.len(), 1);
        stored.book.refunds[0].clone()
    }

    /// Applies as a store must, but for its parts: with every check that a store makes and, after it, the whole audit.
    pub fn apply(&self, transition: &Transition) -> Result<(), ApplyError> {
        let mut stored = self.stored();
        let stored = &mut *stored;
        let version_of = |book: &Book, resource: ResourceRef| match resource.kind {
            ResourceKind::Charge => {
                book.charges.iter().find(|record| record.resource() == resource).map(|record| record.version)
            }
            ResourceKind::Withdrawal => book
                .withdrawals
                .iter()
                .find(|record| record.resource() == resource)
                .map(|record| record.version),
            ResourceKind::Refund => {
                book.refunds.iter().find(|record| record.resource() == resource).map(|record| record.version)
            }
            ResourceKind::Split => {
                book.splits.iter().find(|record| record.resource() == resource).map(|record| record.version)
            }
        };
        for write in &transition.writes {
            let resource = write.record.resource();
            match (write.guard, version_of(&stored.book, resource)) {
                (Guard::Absent, None) => assert_eq!(write.record.version().0, 1),
                (Guard::Absent, Some(_)) => return Err(ApplyError::Duplicate(UniqueKey::Id)),
                (Guard::At(version), Some(found)) if version == found => {
                    assert_eq!(write.record.version().0, version.0 + 1, "a write goes up by one");
                }
                (Guard::At(_), _) => return Err(ApplyError::Stale),
            }
            if write.guard == Guard::Absent && named(&stored.book, &write.record) {
                return Err(ApplyError::Duplicate(UniqueKey::ExternalId));
            }
        }
        if let Some(handle) = &transition.handle
            && stored.handles.iter().any(|known| known.kind == handle.kind && known.key == handle.key)
        {
            return Err(ApplyError::Duplicate(UniqueKey::IdempotencyKey));
        }
        if let Some(receipt) = &transition.receipt
            && stored.book.receipts.iter().any(|known| known.payment.key == receipt.payment.key)
        {
            return Err(ApplyError::Duplicate(UniqueKey::Receipt));
        }
        let mut wallet = stored.book.wallet;
        let mut entries = Vec::new();
        for posting in &transition.postings {
            assert_eq!(Account::ALL.iter().map(|account| posting.effect_cents(*account)).sum::<i64>(), 0);
            wallet = wallet.after(posting)?;
            entries.push(Entry {
                integrator_id: transition.integrator_id,
                number: wallet.entries,
                posting: *posting,
                available_after: wallet.available,
                held_after: wallet.held,
                at: transition.at,
            });
        }
        if !entries.is_empty() {
            wallet = wallet.settled()?;
        }
        stored.book.wallet = wallet;
        stored.book.entries.extend(entries);
        stored.book.receipts.extend(transition.receipt.clone());
        stored.handles.extend(transition.handle.clone());
        stored.findings.extend(transition.findings.clone());
        for write in &transition.writes {
            put(&mut stored.book, &write.record);
            let resource = write.record.resource();
            *stored.book.events.entry(resource).or_default() += 1;
            stored.events.push(write.event);
            match write.follow_up {
                Some(due) => stored.follow_ups.insert(resource, due),
                None => stored.follow_ups.remove(&resource),
            };
        }
        let differences = check(self.owner, &stored.book);
        assert!(differences.is_empty() || stored.is_tampered, "{differences:?}");
        stored.evidence.extend(transition.evidence.iter().cloned());
        let alone = if transition.findings.is_empty() { "evidence" } else { "finding" };
        let first = transition.writes.first().map_or(alone, |write| write.event.as_str());
        stored.log.push(format!("apply {first}"));
        Ok(())
    }

    fn apply_by_script(&self, transition: &Transition) -> Result<(), ApplyError> {
        let write = self.stored().script.pop_front().unwrap_or(Write::Done);
        match write {
            Write::Done => self.apply(transition),
            Write::Refused(error) => Err(error),
            Write::Beaten(first, error) => {
                first(self);
                Err(error)
            }
            Write::Lost(then) => {
                self.apply(transition)?;
                then(self);
                Err(ApplyError::Store(StoreError::Unknown("the connection was lost".into())))
            }
            Write::After(first) => {
                first(self);
                self.apply(transition)
            }
        }
    }

    /// The provider has said a while ago that it doesn't know the record.
    pub fn was_not_known(&self, resource: ResourceRef) {
        let at = Timestamp::from_micros(self.now().micros() - 15_000_000);
        let (kind, proof) = (EvidenceKind::Consult, Proof::NotKnown);
        let id = Uuid::from_u128(u128::MAX);
        self.stored().evidence.push(Evidence { id, resource, at, kind, proof, detail: String::new() });
    }

    /// The record's follow-up, as a worker has it that claimed it just now.
    pub fn claimed(&self, resource: ResourceRef, attempts: u32) -> FollowUp {
        let until = self.now().plus(LEASE);
        if let Some(due) = self.stored().follow_ups.get_mut(&resource) {
            *due = until;
        }
        FollowUp { resource, attempts, until }
    }

    /// Every port over this world, with this provider.
    pub fn ports(&self, provider: MockSettlementProvider) -> Ports {
        let (clock_world, ids) = (self.clone(), self.ids.clone());
        let mut clock = MockClock::new();
        clock.expect_now().returning(move || clock_world.now());
        let right_world = self.clone();
        clock.expect_is_right_for().returning(move |_| !right_world.stored().is_clock_wrong);
        let mut mock_ids = MockIds::new();
        mock_ids
            .expect_next()
            .returning(move || Uuid::from_u128(u128::from(ids.fetch_add(1, Ordering::SeqCst))));
        Ports {
            stores: self.stores(),
            provider: Arc::new(provider),
            clock: Arc::new(clock),
            ids: Arc::new(mock_ids),
            submit_grace: GRACE,
            handle_seed: Uuid::from_u128(1),
            outflow: Arc::new(NeverRestored),
            duplicate_window: Duration::ZERO,
            unrecorded: Unrecorded::default(),
        }
    }

    fn stores(&self) -> Stores {
        let world = self.clone();
        let mut transitions = MockTransitionStore::new();
        transitions.expect_apply().returning(move |transition| world.apply_by_script(&transition));
        let mut fees = MockFeeStore::new();
        fees.expect_current().returning(|_| Ok(schedule(7)));
        fees.expect_version().returning(|_, version| Ok(Some(schedule(version))));
        let mut limits = MockLimitStore::new();
        limits.expect_policy().returning(|_| Ok(LimitPolicy::off()));
        Stores {
            transitions: Arc::new(transitions),
            charges: Arc::new(self.charges()),
            withdrawals: Arc::new(self.withdrawals()),
            refunds: Arc::new(self.refunds()),
            splits: Arc::new(MockSplitStore::new()),
            integrators: Arc::new(MockIntegratorStore::new()),
            wallets: Arc::new(self.wallets()),
            fees: Arc::new(fees),
            limits: Arc::new(limits),
            follow_ups: Arc::new(self.follow_ups()),
            lookups: Arc::new(self.lookups()),
            evidence: Arc::new(self.evidence()),
            callbacks: Arc::new(MockCallbackStore::new()),
            audit_log: Arc::new(MockAuditLogStore::new()),
        }
    }

    fn wallets(&self) -> MockWalletStore {
        let world = self.clone();
        let mut store = MockWalletStore::new();
        store.expect_wallet().returning(move |_| Ok(world.stored().book.wallet));
        let world = self.clone();
        store.expect_entries().returning(move |_, query| {
            let entries = world.entries().into_iter().filter(|entry| query.wants(entry));
            Ok(entries.take(usize::try_from(query.limit).unwrap()).collect())
        });
        store
    }

    fn charges(&self) -> MockChargeStore {
        let mut store = MockChargeStore::new();
        let world = self.clone();
        store.expect_find().returning(move |owner, id| {
            let stored = world.stored();
            let found =
                stored.book.charges.iter().find(|record| record.id == id && record.integrator_id == owner);
            Ok(found.cloned())
        });
        let world = self.clone();
        store.expect_find_by_external_id().returning(move |_, name| {
            Ok(world.stored().book.charges.iter().find(|record| record.external_id == *name).cloned())
        });
        let world = self.clone();
        store.expect_receipts().returning(move |_, id| {
            let stored = world.stored();
            Ok(stored.book.receipts.iter().filter(|receipt| receipt.charge_id == id).cloned().collect())
        });
        store
    }

    fn withdrawals(&self) -> MockWithdrawalStore {
        let mut store = MockWithdrawalStore::new();
        let world = self.clone();
        store.expect_find().returning(move |owner, id| {
            let stored = world.stored();
            let found = stored
                .book
                .withdrawals
                .iter()
                .find(|record| record.id == id && record.integrator_id == owner);
            Ok(found.cloned())
        });
        let world = self.clone();
        store.expect_find_by_external_id().returning(move |_, name| {
            Ok(world.stored().book.withdrawals.iter().find(|record| record.external_id == *name).cloned())
        });
        store
    }

    fn refunds(&self) -> MockRefundStore {
        let mut store = MockRefundStore::new();
        let world = self.clone();
        store.expect_find().returning(move |owner, id| {
            let stored = world.stored();
            let found =
                stored.book.refunds.iter().find(|record| record.id == id && record.integrator_id == owner);
            Ok(found.cloned())
        });
        let world = self.clone();
        store.expect_find_by_external_id().returning(move |_, name| {
            Ok(world.stored().book.refunds.iter().find(|record| record.external_id == *name).cloned())
        });
        let world = self.clone();
        store.expect_list_of_charge().returning(move |_, id| {
            Ok(world.stored().book.refunds.iter().filter(|record| record.charge_id == id).cloned().collect())
        });
        store
    }

    fn follow_ups(&self) -> MockFollowUpStore {
        let mut store = MockFollowUpStore::new();
        let world = self.clone();
        store.expect_postpone().returning(move |claimed, until| {
            let mut stored = world.stored();
            if stored.follow_ups.get(&claimed.resource) == Some(&claimed.until) {
                match until {
                    Some(until) => stored.follow_ups.insert(claimed.resource, until),
                    None => stored.follow_ups.remove(&claimed.resource),
                };
            }
            Ok(())
        });
        store
    }

    fn evidence(&self) -> MockEvidenceStore {
        let world = self.clone();
        let mut evidence = MockEvidenceStore::new();
        evidence.expect_list().returning(move |resource| {
            let known = world.stored().evidence.clone();
            Ok(known.into_iter().filter(|evidence| evidence.resource == resource).collect())
        });
        evidence
    }

    fn lookups(&self) -> MockLookupStore {
        let mut store = MockLookupStore::new();
        let world = self.clone();
        store.expect_find_handle().returning(move |_, kind, key| {
            let stored = world.stored();
            let known = stored.handles.iter().find(|handle| handle.kind == kind && handle.key == *key);
            Ok(known.map(|handle| handle.id))
        });
        store
    }
}

fn named(book: &Book, record: &Record) -> bool {
    match record {
        Record::Charge(new) => book.charges.iter().any(|known| known.external_id == new.external_id),
        Record::Withdrawal(new) => book.withdrawals.iter().any(|known| known.external_id == new.external_id),
        Record::Refund(new) => book.refunds.iter().any(|known| known.external_id == new.external_id),
        Record::Split(_) => false,
    }
}

fn put(book: &mut Book, record: &Record) {
    match record {
        Record::Charge(new) => {
            book.charges.retain(|known| known.id != new.id);
            book.charges.push(new.as_ref().clone());
        }
        Record::Withdrawal(new) => {
            book.withdrawals.retain(|known| known.id != new.id);
            book.withdrawals.push(new.as_ref().clone());
        }
        Record::Refund(new) => {
            book.refunds.retain(|known| known.id != new.id);
            book.refunds.push(new.as_ref().clone());
        }
        Record::Split(new) => {
            book.splits.retain(|known| known.id != new.id);
            book.splits.push(new.as_ref().clone());
        }
    }
}
