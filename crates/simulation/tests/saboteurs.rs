//! The checker is no ornament: whatever is broken on purpose, it finds.
//!
//! Each test puts one saboteur between the world and its store or provider, and runs seeds until one fails, for the
//! reason that the sabotage gives.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::fees::{FeeSchedule, FeeStore};
use pix_domain::ids::IntegratorId;
use pix_domain::money::Cents;
use pix_domain::ports::Stores;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, Payment, PaymentOrder, Progress, ProviderBody,
    ProviderError, ReceiptKey, RefundOrder, Removal, SettlementProvider, Ticket,
};
use pix_domain::time::Timestamp;
use pix_domain::transition::{EventKind, Guard, Record, Transition, TransitionStore};
use pix_domain::wallet::Reason;
use pix_simulation::{Options, run};
use uuid::Uuid;

/// How many worlds a saboteur may get away with.
const SEEDS: u64 = 20_000;

/// Runs broken worlds until one fails for one of these reasons: what is broken has other consequences too.
fn must_be_found(options: &Options, reasons: &[&str]) {
    let mut others = Vec::new();
    for seed in 0..SEEDS {
        match run(seed, options) {
            Err(failure) if reasons.iter().any(|reason| failure.what.contains(reason)) => return,
            Err(failure) => others.push(failure.what),
            Ok(_) => {}
        }
    }
    panic!("nobody noticed in {SEEDS} worlds; {} failed otherwise: {:?}", others.len(), others.first());
}

// --- stores

type Tamper = fn(Transition) -> Option<Transition>;

/// A store that does something else than it is told: `None` is to do nothing, and say that all is done.
struct TamperingStore {
    inner: Stores,
    tamper: Tamper,
}

#[async_trait]
impl TransitionStore for TamperingStore {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        match (self.tamper)(transition) {
            Some(tampered) => self.inner.transitions.apply(tampered).await,
            None => Ok(()),
        }
    }

    async fn apply_all(&self, _: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        unreachable!("the domain applies one at a time")
    }
}

fn tampering(tamper: Tamper) -> Options {
    let wrap = move |inner: Stores| {
        let transitions = Arc::new(TamperingStore { inner: inner.clone(), tamper });
        Stores { transitions, ..inner }
    };
    Options { stores: Box::new(wrap), ..Options::default() }
}

fn has_event(transition: &Transition, event: EventKind) -> bool {
    transition.writes.iter().any(|write| write.event == event)
}

#[test]
fn a_store_that_forgets_a_write_is_found() {
    let options = tampering(|transition| {
        (!has_event(&transition, EventKind::WithdrawalCompleted)).then_some(transition)
    });
    must_be_found(&options, &["the wallet"]);
}

#[test]
fn a_store_that_forgets_a_write_without_money_is_found() {
    let options =
        tampering(|transition| (!has_event(&transition, EventKind::ChargePending)).then_some(transition));
    must_be_found(&options, &["does not come to rest"]);
}

#[test]
fn a_store_that_drops_a_posting_is_found() {
    let options = tampering(|mut transition| {
        if transition.postings.len() > 1 {
            transition.postings.pop();
        }
        Some(transition)
    });
    must_be_found(&options, &["the wallet"]);
}

#[test]
fn a_store_that_forgets_idempotency_keys_is_found() {
    let options = tampering(|mut transition| {
        transition.handle = None;
        Some(transition)
    });
    must_be_found(&options, &["one handle is answered with two records"]);
}

#[test]
fn a_store_that_forgets_receipts_is_found() {
    // The PIX is known by its receipt alone: without it, each question credits it again.
    let options = tampering(|mut transition| {
        transition.receipt = None;
        Some(transition)
    });
    must_be_found(&options, &["the audit says"]);
}

#[test]
fn a_store_that_forgets_twins_is_found() {
    let options = tampering(|mut transition| {
        transition.twins.clear();
        Some(transition)
    });
    must_be_found(&options, &["it is a twin of"]);
}

#[test]
fn a_store_that_forgets_what_is_due_is_found() {
    let options = tampering(|mut transition| {
        for write in &mut transition.writes {
            if write.event == EventKind::WithdrawalUncertain {
                write.follow_up = None;
            }
        }
        Some(transition)
    });
    must_be_found(&options, &["does not come to rest"]);
}

#[test]
fn a_store_that_forgets_what_refunds_have_reserved_is_found() {
    let options = tampering(|mut transition| {
        for write in &mut transition.writes {
            if let Record::Charge(charge) = &mut write.record {
                charge.refund_reserved = Cents::ZERO;
            }
        }
        Some(transition)
    });
    must_be_found(&options, &["more is taken back than", "sum above what was paid"]);
}

#[test]
fn a_store_that_drops_a_forced_debit_is_found() {
    let options = tampering(|mut transition| {
        transition.postings.retain(|posting| posting.reason != Reason::ForcedDebit);
        Some(transition)
    });
    must_be_found(&options, &["the wallet"]);
}

#[test]
fn a_store_that_forgets_what_was_taken_back_is_found() {
    // The next answer takes it again.
    let options = tampering(|mut transition| {
        for write in &mut transition.writes {
            if let Record::Charge(charge) = &mut write.record {
                charge.taken_back = Cents::ZERO;
            }
        }
        Some(transition)
    });
    must_be_found(&options, &["does not come to rest", "the wallet"]);
}

/// A store that takes every write whatever its guard says.
struct Guardless {
    inner: Stores,
}

#[async_trait]
impl TransitionStore for Guardless {
    async fn apply(&self, mut transition: Transition) -> Result<(), ApplyError> {
        for write in &mut transition.writes {
            let Guard::At(_) = write.guard else { continue };
            let owner = transition.integrator_id;
            let stored = match &mut write.record {
                Record::Charge(charge) => {
                    let stored = self.inner.charges.find(owner, charge.id).await.unwrap().unwrap().version;
                    charge.version = stored.next();
                    stored
                }
                Record::Withdrawal(withdrawal) => {
                    let stored =
                        self.inner.withdrawals.find(owner, withdrawal.id).await.unwrap().unwrap().version;
                    withdrawal.version = stored.next();
                    stored
                }
                Record::Refund(refund) => {
                    let stored = self.inner.refunds.find(owner, refund.id).await.unwrap().unwrap().version;
                    refund.version = stored.next();
                    stored
                }
                Record::Split(split) => {
                    let stored = self.inner.splits.find(owner, split.id).await.unwrap().unwrap().version;
                    split.version = stored.next();
                    stored
                }
            };
            write.guard = Guard::At(stored);
        }
        self.inner.transitions.apply(transition).await
    }

    async fn apply_all(&self, _: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        unreachable!("the domain applies one at a time")
    }
}

#[test]
fn a_store_without_guards_is_found() {
    let wrap = |inner: Stores| {
        let transitions = Arc::new(Guardless { inner: inner.clone() });
        Stores { transitions, ..inner }
    };
    must_be_found(
        &Options { stores: Box::new(wrap), ..Options::default() },
        &["is not stored as it was committed", "it was final"],
    );
}

/// A store that answers that a callback is kept, and keeps nothing.
struct ForgetfulInbox {
    inner: Stores,
}

#[async_trait]
impl CallbackStore for ForgetfulInbox {
    async fn keep(&self, _: Callback, _: CallbackState) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn claim(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<ClaimedCallback>, StoreError> {
        self.inner.callbacks.claim(now, lease, limit).await
    }

    async fn put(&self, claimed: &ClaimedCallback, state: CallbackState) -> Result<(), StoreError> {
        self.inner.callbacks.put(claimed, state).await
    }

    async fn look_up(&self, id: Uuid) -> Result<Option<(CallbackState, u32)>, StoreError> {
        self.inner.callbacks.look_up(id).await
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        self.inner.callbacks.forget(before, limit).await
    }
}

#[test]
fn a_store_that_forgets_what_was_called_back_is_found() {
    let wrap = |inner: Stores| {
        let callbacks = Arc::new(ForgetfulInbox { inner: inner.clone() });
        Stores { callbacks, ..inner }
    };
    let options = Options { stores: Box::new(wrap), ..Options::default() };
    must_be_found(&options, &["a callback that was kept is lost"]);
}

/// Fees that change by themselves after they were stored.
struct DriftingFees {
    inner: Stores,
}

#[async_trait]
impl FeeStore for DriftingFees {
    async fn current(&self, owner: IntegratorId) -> Result<FeeSchedule, StoreError> {
        let mut schedule = self.inner.fees.current(owner).await?;
        schedule.cash_out.fixed = Cents::new(7).unwrap();
        Ok(schedule)
    }

    async fn version(&self, owner: IntegratorId, version: u32) -> Result<Option<FeeSchedule>, StoreError> {
        self.inner.fees.version(owner, version).await
    }

    async fn set(
        &self,
        owner: IntegratorId,
        schedule: FeeSchedule,
        at: Timestamp,
    ) -> Result<u32, StoreError> {
        self.inner.fees.set(owner, schedule, at).await
    }
}

#[test]
fn a_fee_that_is_not_that_of_its_schedule_is_found() {
    let wrap = |inner: Stores| {
        let fees = Arc::new(DriftingFees { inner: inner.clone() });
        Stores { fees, ..inner }
    };
    must_be_found(&Options { stores: Box::new(wrap), ..Options::default() }, &["by its schedule"]);
}

// --- providers

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trick {
    /// Sends everything twice.
    Twice,
    /// Says that nothing was sent, when nobody knows.
    DeniesSending,
    /// Says that it was refused, when nobody knows.
    InventsRefusals,
    /// Takes "not known" for proof too early.
    ProvesTooEarly,
    /// Says that it is done, when it was only taken.
    Hurries,
    /// Tells of every payment again, under another name.
    RenamesPayments,
    /// Says that something is not known, when the question failed: and promises that this is proof.
    TakesSilenceForNo,
}

struct Trickster {
    inner: Arc<dyn SettlementProvider>,
    trick: Trick,
}

fn tricked(trick: Trick) -> Options {
    Options { provider: Box::new(move |inner| Arc::new(Trickster { inner, trick })), ..Options::default() }
}

impl Trickster {
    fn twist(&self, answer: Result<OutgoingReport, ProviderError>) -> Result<OutgoingReport, ProviderError> {
        match (self.trick, answer) {
            (Trick::DeniesSending, Err(ProviderError::Indeterminate(why))) => {
                Err(ProviderError::Unavailable(why))
            }
            (Trick::InventsRefusals, Err(ProviderError::Indeterminate(why))) => {
                Err(ProviderError::Rejected {
                    code: "500".into(),
                    message: why,
                    body: ProviderBody::default(),
                })
            }
            (Trick::Hurries, Ok(report)) if report.progress == Progress::Accepted => {
                Ok(OutgoingReport { progress: Progress::Completed, ..report })
            }
            (_, answer) => answer,
        }
    }

    fn silence(
        &self,
        answer: Result<Option<OutgoingReport>, ProviderError>,
    ) -> Result<Option<OutgoingReport>, ProviderError> {
        match answer {
            Err(_) if self.trick == Trick::TakesSilenceForNo => Ok(None),
            answer => answer,
        }
    }
}

#[async_trait]
impl SettlementProvider for Trickster {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        self.inner.create_charge(order).await
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        if self.trick == Trick::Twice {
            let _ = self.inner.send_payment(order.clone()).await;
        }
        self.twist(self.inner.send_payment(order).await)
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        if self.trick == Trick::Twice {
            let _ = self.inner.refund(order.clone()).await;
        }
        self.twist(self.inner.refund(order).await)
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        let mut report = self.inner.consult_charge(inquiry).await?;
        if self.trick == Trick::RenamesPayments
            && let Some(report) = &mut report
        {
            for payment in report.payments.clone() {
                let other = payment.key.to_text().replacen("E1", "E2", 1);
                if let Ok(id) = EndToEndId::parse(&other) {
                    let key = ReceiptKey::EndToEnd(id);
                    report.payments.push(Payment { key, ..payment });
                }
            }
        }
        Ok(report)
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.silence(self.inner.consult_payment(inquiry).await)
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.silence(self.inner.consult_refund(inquiry).await)
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        self.inner.remove_charge(inquiry).await
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        self.inner.balance().await
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        match self.trick {
            Trick::ProvesTooEarly => Some(Duration::ZERO),
            _ => self.inner.not_found_is_proof_after(),
        }
    }
}

#[test]
fn money_that_is_sent_twice_is_found() {
    must_be_found(&tricked(Trick::Twice), &["was sent 2 times"]);
}

#[test]
fn an_adapter_that_takes_a_lost_answer_for_not_sent_is_found() {
    must_be_found(&tricked(Trick::DeniesSending), &["it counts as not sent, and was sent"]);
}

#[test]
fn an_adapter_that_takes_a_lost_answer_for_a_refusal_is_found() {
    must_be_found(&tricked(Trick::InventsRefusals), &["its money is released"]);
}

#[test]
fn an_adapter_that_takes_not_known_for_proof_too_early_is_found() {
    must_be_found(&tricked(Trick::ProvesTooEarly), &["its money is released"]);
}

#[test]
fn an_adapter_that_takes_silence_for_not_known_is_found() {
    must_be_found(&tricked(Trick::TakesSilenceForNo), &["its money is released"]);
}

#[test]
fn an_adapter_that_takes_accepted_for_completed_is_found() {
    must_be_found(&tricked(Trick::Hurries), &["the provider did not do it"]);
}

#[test]
fn a_payment_under_two_names_is_found() {
    must_be_found(&tricked(Trick::RenamesPayments), &["the provider did not receive"]);
}
