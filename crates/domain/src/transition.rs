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
use crate::splits::Split;
use crate::text::{ExternalId, IdempotencyKey};
use crate::time::Timestamp;
use crate::wallet::{Account, Posting, Reason, Wallet};
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
    /// A split.
    Split(Box<Split>),
}

impl Record {
    /// What this record is.
    pub fn resource(&self) -> ResourceRef {
        match self {
            Self::Charge(charge) => charge.resource(),
            Self::Withdrawal(withdrawal) => withdrawal.resource(),
            Self::Refund(refund) => refund.resource(),
            Self::Split(split) => split.resource(),
        }
    }

    /// The version it has after the change.
    pub fn version(&self) -> Version {
        match self {
            Self::Charge(charge) => charge.version,
            Self::Withdrawal(withdrawal) => withdrawal.version,
            Self::Refund(refund) => refund.version,
            Self::Split(split) => split.version,
        }
    }

    /// The integrator's name for it, or the one made by us: unique for the integrator and kind. A split has none.
    pub const fn external_id(&self) -> Option<&ExternalId> {
        match self {
            Self::Charge(charge) => Some(&charge.external_id),
            Self::Withdrawal(withdrawal) => Some(&withdrawal.external_id),
            Self::Refund(refund) => Some(&refund.external_id),
            Self::Split(_) => None,
        }
    }
}

/// The kinds of events, with their names: one list, so that none is forgotten in another.
macro_rules! event_kinds {
    ($($(#[$what:meta])* $kind:ident = $name:literal,)+) => {
        /// What happened to a record. Its sequence number is the version of the record after the change, so `(resource,
        /// sequence)` is its identity.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$what])* $kind,)+
        }

        impl EventKind {
            /// Every kind, in the order of their codes.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// The stable name, as stored.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

event_kinds! {
    /// A charge was stored before the provider confirmed it.
    ChargeCreating = "charge.creating",
    /// The QR code is live.
    ChargePending = "charge.pending",
    /// The provider refused to create it.
    ChargeFailed = "charge.failed",
    /// A PIX was credited: the first one of its charge.
    ChargePaid = "charge.paid",
    /// A further PIX on a paid charge was credited.
    ChargePaidAgain = "charge.paid_again",
    /// Its time is over and the provider was asked.
    ChargeExpired = "charge.expired",
    /// Removed.
    ChargeCanceled = "charge.canceled",
    /// A refund took its share of what was paid.
    ChargeRefundReserved = "charge.refund_reserved",
    /// A refund was done.
    ChargeRefunded = "charge.refunded",
    /// A refund failed; its share is free again.
    ChargeRefundReleased = "charge.refund_released",
    /// The provider sent money of it back, which nobody here asked for.
    ChargeTakenBack = "charge.taken_back",
    /// A withdrawal was accepted and its money held.
    WithdrawalCreated = "withdrawal.created",
    /// It was definitely not sent and waits for another try.
    WithdrawalQueued = "withdrawal.queued",
    /// It is about to be sent.
    WithdrawalSubmitting = "withdrawal.submitting",
    /// The provider took it.
    WithdrawalAccepted = "withdrawal.accepted",
    /// Nobody knows whether it was sent.
    WithdrawalUncertain = "withdrawal.uncertain",
    /// It has been unknown for too long.
    WithdrawalNeedsReview = "withdrawal.needs_review",
    /// The money arrived.
    WithdrawalCompleted = "withdrawal.completed",
    /// It did not and will not happen.
    WithdrawalFailed = "withdrawal.failed",
    /// Taken back by the integrator before it was sent.
    WithdrawalCanceled = "withdrawal.canceled",
    /// Money came back after completion.
    WithdrawalReturned = "withdrawal.returned",
    /// The money left, though it was thought not to and had been released.
    WithdrawalSettledLate = "withdrawal.settled_late",
    /// A refund was accepted and its money held.
    RefundCreated = "refund.created",
    /// It was definitely not sent and waits for another try.
    RefundQueued = "refund.queued",
    /// It is about to be sent.
    RefundSubmitting = "refund.submitting",
    /// The provider took it.
    RefundAccepted = "refund.accepted",
    /// Nobody knows whether it was sent.
    RefundUncertain = "refund.uncertain",
    /// It has been unknown for too long.
    RefundNeedsReview = "refund.needs_review",
    /// The money went back.
    RefundCompleted = "refund.completed",
    /// It did not and will not happen.
    RefundFailed = "refund.failed",
    /// A part of another integrator's payment came in.
    SplitReceived = "split.received",
    /// Of it was taken back what was sent back of the payment.
    SplitTakenBack = "split.taken_back",
}

impl EventKind {
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
    /// What happens with it to other integrators: all of it and all of these, or nothing.
    pub parts: Vec<Self>,
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
            parts: Vec::new(),
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

    /// It and its parts.
    pub fn whole(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.parts)
    }

    /// Whether it, or a part of it, takes money that can't be refused: what the wallet lacks is owed.
    pub fn is_forced(&self) -> bool {
        let mut postings = self.whole().flat_map(|one| &one.postings);
        postings.any(|posting| posting.reason == Reason::ForcedDebit)
    }

    /// Whether it, or a part of it, may meet a debt: it brings a wallet money, or can't be refused for the lack of it.
    pub fn may_meet_debt(&self) -> bool {
        let mut postings = self.whole().flat_map(|one| &one.postings);
        self.is_forced() || postings.any(|posting| posting.credit == Account::Available)
    }

    /// Whether it gives other integrators money of a charge, or takes it back.
    pub fn moves_shares(&self) -> bool {
        let shares = [Reason::SplitGiven, Reason::SplitGivenBack];
        self.postings.iter().any(|posting| shares.contains(&posting.reason))
    }

    /// Whether its parts receive what it gives, and give what it gets back.
    pub fn is_balanced(&self) -> bool {
        let given = self.postings.iter().fold(0_i128, |sum, posting| match posting.reason {
            Reason::SplitGiven => sum.saturating_add(posting.amount.get().into()),
            Reason::SplitGivenBack => sum.saturating_sub(posting.amount.get().into()),
            _ => sum,
        });
        let of_parts = self.parts.iter().flat_map(|part| &part.postings);
        let received = of_parts.fold(0_i128, |sum, posting| match posting.reason {
            Reason::SplitReceived => sum.saturating_add(posting.amount.get().into()),
            Reason::SplitTakenBack | Reason::ForcedDebit | Reason::ForcedDebitOwed => {
                sum.saturating_sub(posting.amount.get().into())
            }
            _ => sum,
        });
        given == received
    }

    /// This transition, its parts as they are, for a wallet that is like `wallet`: of what it forces out, only what is there is taken and the rest
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
        self.check_alone()?;
        self.check_parts()
    }

    /// What is wrong with it but for its parts.
    fn check_alone(&self) -> Result<(), ApplyError> {
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

    fn check_parts(&self) -> Result<(), ApplyError> {
        let rejected = |why: &str| Err(ApplyError::Store(StoreError::Rejected(why.to_owned())));
        if !self.is_balanced() {
            return rejected("what is given is what is received");
        }
        let owners: BTreeSet<IntegratorId> = self.whole().map(|one| one.integrator_id).collect();
        if owners.len() != self.whole().count() {
            return rejected("each part of a transition is of another integrator");
        }
        for part in &self.parts {
            let moves_split = |posting: &Posting| posting.resource.kind == ResourceKind::Split;
            if !part.parts.is_empty() || part.receipt.is_some() || !part.postings.iter().all(moves_split) {
                return rejected("a part of a transition moves money of splits");
            }
        }
        let written = self.writes.iter().map(|write| write.record.resource().kind);
        let mut kinds = written.chain(self.postings.iter().map(|posting| posting.resource.kind));
        if kinds.any(|kind| kind == ResourceKind::Split) {
            return rejected("a split changes as a part of its charge's transition");
        }
        self.parts.iter().try_for_each(Self::check_alone)
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
/// An implementation MUST apply a transition, with its [parts](Transition::parts), wholly or not at all, durably before it
/// answers `Ok`, and
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
    use crate::fees::Percent;
    use crate::ids::{ChargeId, SplitId};
    use crate::money::{Amount, Cents};
    use crate::provider::{Party, Payment, ProviderId, ReceiptKey};
    use crate::splits::{NewShare, Part, Share, Side, follow};

    const NOW: Timestamp = Timestamp::from_micros(1);

    fn integrator(number: u128) -> IntegratorId {
        IntegratorId(Uuid::from_u128(number))
    }

    fn owner() -> IntegratorId {
        integrator(1)
    }

    fn resource(integrator_id: IntegratorId, kind: ResourceKind) -> ResourceRef {
        ResourceRef { integrator_id, kind, id: Uuid::from_u128(7) }
    }

    fn cents(cents: i64) -> Cents {
        Cents::new(cents).unwrap()
    }

    fn moves(reason: Reason, cents_moved: i64, resource: ResourceRef) -> Option<Posting> {
        Posting::of(reason, cents(cents_moved), resource)
    }

    fn share(recipient: IntegratorId, brought: i64, taken_back: i64) -> Share {
        let new = NewShare { recipient, part: Part::Percentage(Percent::zero()) };
        let share = Share::new(SplitId(recipient.0), new);
        Share { amount: cents(brought), taken_back: cents(taken_back), ..share }
    }

    /// What a recipient with that split writes for its share.
    fn followed(split: Option<Split>, share: &Share, forced: bool) -> Transition {
        let side = Side { split, available: Cents::ZERO, postback_url: None };
        follow(side, share, (owner(), ChargeId(Uuid::from_u128(7))), forced, NOW).unwrap()
    }

    /// What a recipient of so much writes.
    fn received(recipient: IntegratorId, brought: i64) -> Transition {
        followed(None, &share(recipient, brought, 0), false)
    }

    /// What a recipient writes of whose hundred centavos so much is taken back.
    fn taken_back(recipient: IntegratorId, back: i64, forced: bool) -> Transition {
        let received = received(recipient, 100);
        let Record::Split(split) = received.writes[0].record.clone() else { panic!("{received:?}") };
        followed(Some(*split), &share(recipient, 100, back), forced)
    }

    /// The owner moves `of_owner`; the parts are theirs.
    fn with_parts(of_owner: Option<Posting>, parts: impl Into<Vec<Transition>>) -> Transition {
        Transition { parts: parts.into(), ..Transition::new(owner(), NOW).post(of_owner) }
    }

    /// Gives 10 to one and 20 to another.
    fn given() -> Transition {
        let of_owner = moves(Reason::SplitGiven, 30, resource(owner(), ResourceKind::Charge));
        with_parts(of_owner, [received(integrator(2), 10), received(integrator(3), 20)])
    }

    fn rejected(transition: &Transition) -> String {
        match transition.check_shape() {
            Err(ApplyError::Store(StoreError::Rejected(why))) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_event_kind_is_found_by_its_name() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(EventKind::from_name("charge.unheard_of"), None);
    }

    #[test]
    fn parts_that_get_what_is_given_have_the_right_shape() {
        assert_eq!(given().check_shape(), Ok(()));
        assert!(given().moves_shares() && given().may_meet_debt() && !given().is_forced());
        let owners: Vec<IntegratorId> = given().whole().map(|one| one.integrator_id).collect();
        assert_eq!(owners, [owner(), integrator(2), integrator(3)]);
        let back = moves(Reason::SplitGivenBack, 12, resource(owner(), ResourceKind::Charge));
        let parts =
            |forced| [(2, 5), (3, 7)].map(|(number, cents)| taken_back(integrator(number), cents, forced));
        let refund = with_parts(back, parts(false));
        assert_eq!((refund.check_shape(), refund.is_forced()), (Ok(()), false));
        let back = with_parts(back, parts(true));
        assert_eq!((back.check_shape(), back.is_forced()), (Ok(()), true));
        // As well when it is owed.
        let mut owed = back;
        let split = owed.parts[0].postings[0].resource;
        owed.parts[0].postings = moves(Reason::ForcedDebitOwed, 5, split).into_iter().collect();
        assert_eq!(owed.check_shape(), Ok(()));
        assert_eq!(with_parts(None, Vec::new()).check_shape(), Ok(()));
    }

    type Mutation = (&'static str, fn(&mut Transition));

    const UNBALANCED: &str = "what is given is what is received";
    const SAME_OWNER: &str = "each part of a transition is of another integrator";
    const NO_SPLIT: &str = "a part of a transition moves money of splits";
    const ALONE: &str = "a split changes as a part of its charge's transition";

    const WRONG: &[Mutation] = &[
        (UNBALANCED, |whole| whole.parts[0].postings[0].amount = Cents::new(11).unwrap()),
        (UNBALANCED, |whole| whole.postings.clear()),
        (UNBALANCED, |whole| drop(whole.parts.pop())),
        (UNBALANCED, |whole| whole.parts.clear()),
        (UNBALANCED, |whole| whole.parts.extend([taken_back(integrator(4), 1, true)])),
        (SAME_OWNER, |whole| whole.parts[1] = received(integrator(2), 20)),
        (SAME_OWNER, |whole| whole.parts[1] = received(owner(), 20)),
        (NO_SPLIT, |whole| whole.parts[1].parts.push(Transition::new(integrator(4), NOW))),
        (NO_SPLIT, |whole| {
            let withdrawal = resource(integrator(2), ResourceKind::Withdrawal);
            whole.parts[0].postings.extend(moves(Reason::WithdrawalHold, 1, withdrawal));
        }),
        (NO_SPLIT, |whole| {
            let payment = Payment {
                key: ReceiptKey::Transaction(ProviderId::parse("pix").unwrap()),
                amount: Amount::from_cents(1).unwrap(),
                paid_at: NOW,
                payer: Party::default(),
            };
            let (integrator_id, charge_id) = (integrator(2), ChargeId(Uuid::from_u128(8)));
            whole.parts[0].receipt = Some(Receipt { integrator_id, charge_id, payment });
        }),
        (ALONE, |whole| {
            let split = resource(owner(), ResourceKind::Split);
            whole.postings.extend(moves(Reason::OwedRepaid, 1, split));
        }),
        (ALONE, |whole| whole.writes.extend(received(owner(), 1).writes)),
        ("a transition is of one integrator", |whole| {
            whole.parts[0].postings[0].resource.integrator_id = owner();
        }),
        ("a record's version goes up by one", |whole| {
            whole.parts[1].writes[0].guard = Guard::At(Version(5));
        }),
    ];

    #[test]
    fn parts_of_another_shape_are_rejected() {
        for (why, mutate) in WRONG {
            let mut whole = given();
            mutate(&mut whole);
            assert_eq!(rejected(&whole), *why, "{whole:?}");
        }
        // What a recipient writes is nothing by itself.
        assert_eq!(rejected(&received(integrator(2), 10)), ALONE);
    }
}
