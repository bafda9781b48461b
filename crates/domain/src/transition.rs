//! A unit of work as a value.
//!
//! A state machine looks at a record and a fact and returns a [`Transition`]: the guards it assumes, the records after,
//! the postings, the events. A store has one write verb for all of it, [`TransitionStore::apply`]: all or nothing, in
//! one database transaction. So whatever belongs together commits together, and no handle of a database ever reaches
//! the domain.
//!
//! Two rules hold by the shape of the types: a record can't be written without its event (a [`Write`] has both), and a
//! posting can't be unbalanced (a [`Posting`] has one amount and two accounts).

use std::collections::BTreeSet;

use async_trait::async_trait;
use uuid::Uuid;

use crate::charges::{Charge, Receipt};
use crate::error::{ApplyError, StoreError};
use crate::evidence::Evidence;
use crate::ids::{IntegratorId, ResourceKind, ResourceRef, Version};
use crate::refunds::Refund;
use crate::text::IdempotencyKey;
use crate::time::Timestamp;
use crate::wallet::{Posting, Reason, Wallet};
use crate::withdrawals::Withdrawal;

/// A record, as it is after the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A charge.
    Charge(Box<Charge>),
    /// A withdrawal.
    Withdrawal(Box<Withdrawal>),
    /// A refund.
    Refund(Box<Refund>),
}

impl Record {
    /// What this record is.
    pub fn resource(&self) -> ResourceRef {
        match self {
            Self::Charge(charge) => charge.resource(),
            Self::Withdrawal(withdrawal) => withdrawal.resource(),
            Self::Refund(refund) => refund.resource(),
        }
    }

    /// The version it has after the change.
    pub fn version(&self) -> Version {
        match self {
            Self::Charge(charge) => charge.version,
            Self::Withdrawal(withdrawal) => withdrawal.version,
            Self::Refund(refund) => refund.version,
        }
    }
}

/// What happened to a record. Its sequence number is the version of the record after the change, so `(resource,
/// sequence)` is its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A charge was stored before the provider confirmed it.
    ChargeCreating,
    /// The QR code is live.
    ChargePending,
    /// The provider refused to create it.
    ChargeFailed,
    /// A PIX was credited: the first one of its charge.
    ChargePaid,
    /// A further PIX on a paid charge was credited.
    ChargePaidAgain,
    /// Its time is over and the provider was asked.
    ChargeExpired,
    /// Removed.
    ChargeCanceled,
    /// A refund took its share of what was paid.
    ChargeRefundReserved,
    /// A refund was done.
    ChargeRefunded,
    /// A refund failed; its share is free again.
    ChargeRefundReleased,
    /// The provider sent money of it back, which nobody here asked for.
    ChargeTakenBack,
    /// A withdrawal was accepted and its money held.
    WithdrawalCreated,
    /// It was definitely not sent and waits for another try.
    WithdrawalQueued,
    /// It is about to be sent.
    WithdrawalSubmitting,
    /// The provider took it.
    WithdrawalAccepted,
    /// Nobody knows whether it was sent.
    WithdrawalUncertain,
    /// It has been unknown for too long.
    WithdrawalNeedsReview,
    /// The money arrived.
    WithdrawalCompleted,
    /// It did not and will not happen.
    WithdrawalFailed,
    /// Taken back by the integrator before it was sent.
    WithdrawalCanceled,
    /// Money came back after completion.
    WithdrawalReturned,
    /// The money left, though it was thought not to and had been released.
    WithdrawalSettledLate,
    /// A refund was accepted and its money held.
    RefundCreated,
    /// It was definitely not sent and waits for another try.
    RefundQueued,
    /// It is about to be sent.
    RefundSubmitting,
    /// The provider took it.
    RefundAccepted,
    /// Nobody knows whether it was sent.
    RefundUncertain,
    /// It has been unknown for too long.
    RefundNeedsReview,
    /// The money went back.
    RefundCompleted,
    /// It did not and will not happen.
    RefundFailed,
}

impl EventKind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Self; 30] = [
        Self::ChargeCreating,
        Self::ChargePending,
        Self::ChargeFailed,
        Self::ChargePaid,
        Self::ChargePaidAgain,
        Self::ChargeExpired,
        Self::ChargeCanceled,
        Self::ChargeRefundReserved,
        Self::ChargeRefunded,
        Self::ChargeRefundReleased,
        Self::ChargeTakenBack,
        Self::WithdrawalCreated,
        Self::WithdrawalQueued,
        Self::WithdrawalSubmitting,
        Self::WithdrawalAccepted,
        Self::WithdrawalUncertain,
        Self::WithdrawalNeedsReview,
        Self::WithdrawalCompleted,
        Self::WithdrawalFailed,
        Self::WithdrawalCanceled,
        Self::WithdrawalReturned,
        Self::WithdrawalSettledLate,
        Self::RefundCreated,
        Self::RefundQueued,
        Self::RefundSubmitting,
        Self::RefundAccepted,
        Self::RefundUncertain,
        Self::RefundNeedsReview,
        Self::RefundCompleted,
        Self::RefundFailed,
    ];

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChargeCreating => "charge.creating",
            Self::ChargePending => "charge.pending",
            Self::ChargeFailed => "charge.failed",
            Self::ChargePaid => "charge.paid",
            Self::ChargePaidAgain => "charge.paid_again",
            Self::ChargeExpired => "charge.expired",
            Self::ChargeCanceled => "charge.canceled",
            Self::ChargeRefundReserved => "charge.refund_reserved",
            Self::ChargeRefunded => "charge.refunded",
            Self::ChargeRefundReleased => "charge.refund_released",
            Self::ChargeTakenBack => "charge.taken_back",
            Self::WithdrawalCreated => "withdrawal.created",
            Self::WithdrawalQueued => "withdrawal.queued",
            Self::WithdrawalSubmitting => "withdrawal.submitting",
            Self::WithdrawalAccepted => "withdrawal.accepted",
            Self::WithdrawalUncertain => "withdrawal.uncertain",
            Self::WithdrawalNeedsReview => "withdrawal.needs_review",
            Self::WithdrawalCompleted => "withdrawal.completed",
            Self::WithdrawalFailed => "withdrawal.failed",
            Self::WithdrawalCanceled => "withdrawal.canceled",
            Self::WithdrawalReturned => "withdrawal.returned",
            Self::WithdrawalSettledLate => "withdrawal.settled_late",
            Self::RefundCreated => "refund.created",
            Self::RefundQueued => "refund.queued",
            Self::RefundSubmitting => "refund.submitting",
            Self::RefundAccepted => "refund.accepted",
            Self::RefundUncertain => "refund.uncertain",
            Self::RefundNeedsReview => "refund.needs_review",
            Self::RefundCompleted => "refund.completed",
            Self::RefundFailed => "refund.failed",
        }
    }

    /// The kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What a write assumes of the record as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// There is none: it is new.
    Absent,
    /// It is at this version.
    At(Version),
}

/// One record to be written, with its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What must hold before.
    pub guard: Guard,
    /// The record after. Its version is [`Version::FIRST`], or the one after the guard's.
    pub record: Record,
    /// What happened.
    pub event: EventKind,
    /// When the provider is to be asked about it next; `None` when never.
    pub follow_up: Option<Timestamp>,
}

/// What an `Idempotency-Key` of a creating request will stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// The client's key; unique per integrator and kind of record, for ever.
    pub key: IdempotencyKey,
    /// What kind of record it creates.
    pub kind: ResourceKind,
    /// The record it stands for.
    pub id: Uuid,
}

/// The most records that one [`Twin`]'s key names: with more of them on their way at once, the oldest are left out.
pub const MAX_TWINS: usize = 64;

/// That a record is the newest of requests that are alike: same integrator, same payee, same amount; or the newest of an
/// integrator under [limits](crate::limits). Of two requests that found a key the same, one takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twin {
    /// What is alike, as a number of 128 bits; per integrator.
    pub key: Uuid,
    /// The newest record that the key names before; `None` when it names none.
    pub expected: Option<Uuid>,
    /// What the key names after: this record, and then the earlier ones that would still make another a duplicate,
    /// newest first. One to [`MAX_TWINS`].
    pub ids: Vec<Uuid>,
}

/// Something an operator has to look at: a report that contradicts what is final, or that can't be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub resource: ResourceRef,
    /// A stable code.
    pub code: &'static str,
    /// A sentence, without personal data.
    pub detail: String,
}

/// A unit of work: all of it happens, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Whose records and wallet these are: all of them.
    pub integrator_id: IntegratorId,
    /// When it happens.
    pub at: Timestamp,
    /// Records and their events. May be empty when there are only findings.
    pub writes: Vec<Write>,
    /// Movements, in order.
    pub postings: Vec<Posting>,
    /// The incoming PIX this credits; unique per integrator, for ever.
    pub receipt: Option<Receipt>,
    /// The idempotency key this answers for.
    pub handle: Option<Handle>,
    /// What an operator has to look at.
    pub findings: Vec<Finding>,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// What makes this request and another one twins.
    pub twins: Vec<Twin>,
}

impl Transition {
    /// A transition that writes nothing yet.
    pub const fn new(integrator_id: IntegratorId, at: Timestamp) -> Self {
        Self {
            integrator_id,
            at,
            writes: Vec::new(),
            postings: Vec::new(),
            receipt: None,
            handle: None,
            findings: Vec::new(),
            evidence: Vec::new(),
            twins: Vec::new(),
        }
    }

    /// Adds a record and its event.
    #[must_use]
    pub fn write(
        mut self,
        guard: Guard,
        record: Record,
        event: EventKind,
        follow_up: Option<Timestamp>,
    ) -> Self {
        self.writes.push(Write { guard, record, event, follow_up });
        self
    }

    /// Adds movements.
    #[must_use]
    pub fn post(mut self, postings: impl IntoIterator<Item = Posting>) -> Self {
        self.postings.extend(postings);
        self
    }

    /// Adds a finding.
    #[must_use]
    pub fn find(mut self, resource: ResourceRef, code: &'static str, detail: String) -> Self {
        self.findings.push(Finding { resource, code, detail });
        self
    }

    /// Adds evidence.
    #[must_use]
    pub fn witness(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Makes `key` stand for the first record written here.
    #[must_use]
    pub fn answering(mut self, key: Option<IdempotencyKey>) -> Self {
        let resource = self.writes.first().map(|write| write.record.resource());
        self.handle =
            key.zip(resource).map(|(key, resource)| Handle { key, kind: resource.kind, id: resource.id });
        self
    }

    /// Whether it takes money that can't be refused: what the wallet lacks is owed.
    pub fn is_forced(&self) -> bool {
        self.postings.iter().any(|posting| posting.reason == Reason::ForcedDebit)
    }

    /// Whether it may meet a debt: it brings the wallet money, or can't be refused for the lack of it.
    pub fn may_meet_debt(&self) -> bool {
        self.is_forced()
            || self.postings.iter().any(|posting| posting.credit == crate::wallet::Account::Available)
    }

    /// This transition for a wallet that is like `wallet`: of what it forces out, only what is there is taken and the rest
    /// is owed; of what is available after it, what is owed is repaid. `None` when the wallet lacks what isn't forced.
    #[must_use]
    pub fn fitted_to(&self, wallet: Wallet) -> Option<Self> {
        let fixed = |posting: &&Posting| {
            !matches!(posting.reason, Reason::ForcedDebit | Reason::ForcedDebitOwed | Reason::OwedRepaid)
        };
        let mut fitted = Self { postings: Vec::new(), ..self.clone() };
        let mut after = wallet;
        let mut post = |fitted: &mut Self, posting: Option<Posting>| -> Option<Wallet> {
            if let Some(posting) = posting {
                after = after.after(&posting).ok()?;
                fitted.postings.push(posting);
            }
            Some(after)
        };
        let mut now = wallet;
        for posting in self.postings.iter().filter(fixed) {
            now = post(&mut fitted, Some(*posting))?;
        }
        for forced in self.postings.iter().filter(|posting| posting.reason == Reason::ForcedDebit) {
            let there = forced.amount.min(now.available);
            post(&mut fitted, Posting::of(Reason::ForcedDebit, there, forced.resource))?;
            let rest = forced.amount.checked_sub(there)?;
            now = post(&mut fitted, Posting::of(Reason::ForcedDebitOwed, rest, forced.resource))?;
        }
        let resource = fitted.postings.first()?.resource;
        let repaid = now.available.min(now.owed);
        post(&mut fitted, Posting::of(Reason::OwedRepaid, repaid, resource))?;
        Some(fitted)
    }

    /// What is wrong with this whatever is stored, as [`StoreError::Rejected`]: every store asks this first.
    pub fn check_shape(&self) -> Result<(), ApplyError> {
        let rejected = |why: &str| Err(ApplyError::Store(StoreError::Rejected(why.to_owned())));
        let written = self.writes.iter().map(|write| write.record.resource());
        let posted = self.postings.iter().map(|posting| posting.resource);
        let found = self.findings.iter().map(|finding| finding.resource);
        let seen = self.evidence.iter().map(|evidence| evidence.resource);
        let credited = self.receipt.iter().map(|receipt| receipt.integrator_id);
        let owners =
            written.clone().chain(posted).chain(found).chain(seen).map(|resource| resource.integrator_id);
        if owners.chain(credited).any(|owner| owner != self.integrator_id) {
            return rejected("a transition is of one integrator");
        }
        if written.collect::<BTreeSet<_>>().len() != self.writes.len() {
            return rejected("a transition writes a record once");
        }
        for write in &self.writes {
            let expected = match write.guard {
                Guard::Absent => Version::FIRST,
                Guard::At(version) => version.next(),
            };
            if write.record.version() != expected {
                return rejected("a record's version goes up by one");
            }
        }
        let keys: BTreeSet<Uuid> = self.twins.iter().map(|twin| twin.key).collect();
        if keys.len() != self.twins.len() {
            return rejected("a transition takes a twin's key once");
        }
        if self.twins.iter().any(|twin| twin.ids.is_empty() || twin.ids.len() > MAX_TWINS) {
            return rejected("a twin's key names one record at least, and not too many");
        }
        if self.postings.iter().any(|posting| posting.amount.is_zero()) {
            return rejected("a posting moves money");
        }
        Ok(())
    }

    /// The charge after this transition, when it writes one.
    pub fn charge(&self) -> Option<&Charge> {
        self.writes.iter().find_map(|write| match &write.record {
            Record::Charge(charge) => Some(charge.as_ref()),
            _ => None,
        })
    }

    /// The withdrawal after this transition, when it writes one.
    pub fn withdrawal(&self) -> Option<&Withdrawal> {
        self.writes.iter().find_map(|write| match &write.record {
            Record::Withdrawal(withdrawal) => Some(withdrawal.as_ref()),
            _ => None,
        })
    }

    /// The refund after this transition, when it writes one.
    pub fn refund(&self) -> Option<&Refund> {
        self.writes.iter().find_map(|write| match &write.record {
            Record::Refund(refund) => Some(refund.as_ref()),
            _ => None,
        })
    }
}

/// What a state machine says of a record and a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a step is made, looked at and gone; a box would only cost an allocation"
)]
pub enum Step {
    /// It changes.
    Next(Transition),
    /// It was so already: repeating a verb is not an error.
    Already,
    /// The verb is not for this state.
    Refused(&'static str),
}

impl Step {
    /// The transition, when there is one.
    pub fn next(self) -> Option<Transition> {
        match self {
            Self::Next(transition) => Some(transition),
            Self::Already | Self::Refused(_) => None,
        }
    }
}

/// The one write verb of a store.
///
/// An implementation MUST apply a transition wholly or not at all, durably before it answers `Ok`, and
/// - MUST be [`ApplyError::Stale`] when a record is not at its guard's version, and [`ApplyError::Duplicate`] when a
///   guard is [`Guard::Absent`] and the id, the external id (per integrator and kind), the idempotency key (per
///   integrator and kind) or the receipt (per integrator) is taken, or a twin's key is not as expected, in that order;
/// - MUST keep evidence once, by its id;
/// - MUST be [`ApplyError::InsufficientFunds`] when `available` or `held` would be below zero after a posting;
/// - MUST be [`ApplyError::Owing`] when the debt would be below nothing, or when money and a debt would stand side by side
///   after all of them;
/// - MUST number postings without gaps per integrator, with the balances after each;
/// - MUST write nothing in every one of those cases, under any concurrency, in this or another process;
/// - MUST be [`crate::error::StoreError::Unknown`] only when the commit may have happened.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait TransitionStore: Send + Sync {
    /// Applies one transition.
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError>;

    /// Applies many, each wholly or not at all and on its own, in order; one result each.
    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_kind_is_found_by_its_name() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(EventKind::from_name("charge.unheard_of"), None);
    }
}
