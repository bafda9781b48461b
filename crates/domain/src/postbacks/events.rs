//! What integrators are told: public events.
//!
//! Every change of a record has an event. Those that an integrator wants to know of, because nobody has answered it with
//! them, are public: they get a number of their integrator's own, without gaps, in the order of their commits, since the
//! number is given under the lock of the wallet, which is held until the commit. So whoever has read up to a number has
//! missed nothing. With the number goes a [`Snapshot`]: what of the record can change again, as it was right then; the
//! rest is read from the record.

use std::fmt;

use async_trait::async_trait;
use uuid::Uuid;

use crate::charges::{Charge, ChargeState, Credited};
use crate::error::StoreError;
use crate::ids::{IntegratorId, ResourceKind, ResourceRef, Version};
use crate::list::DEFAULT_PER_PAGE;
use crate::money::Cents;
use crate::postbacks::delivery::{DeliveryState, Lane};
use crate::refunds::Refund;
use crate::splits::Split;
use crate::text::PostbackUrl;
use crate::time::Timestamp;
use crate::transition::{EventKind, Record, Transition, Write};
use crate::wallet::Reason;
use crate::withdrawals::{OutgoingState, Withdrawal};

/// Which events of a resource go to its postback URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PostbackScope {
    /// The outcome alone: a confirmed payment of a charge, and the end of a withdrawal. Receivers of the classic contract
    /// know nothing else, and many credit whatever names their charge.
    #[default]
    Outcomes,
    /// Everything that is told: refunds, returns, expiry and disputes too.
    All,
}

impl PostbackScope {
    /// `outcomes` or `all`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Outcomes => "outcomes",
            Self::All => "all",
        }
    }

    /// The scope with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Outcomes, Self::All].into_iter().find(|scope| scope.as_str() == name)
    }
}

impl EventKind {
    /// The name under which integrators know it; `None` for what they aren't told.
    pub const fn public_name(self) -> Option<&'static str> {
        Some(match self {
            Self::ChargePending => "cashin.created",
            Self::ChargeFailed => "cashin.failed",
            Self::ChargePaid => "cashin.confirmed",
            Self::ChargePaidAgain => "cashin.paid_again",
            Self::ChargeExpired => "cashin.expired",
            Self::ChargeCanceled => "cashin.canceled",
            Self::ChargeRefunded => "cashin.refunded",
            Self::ChargeRefundReleased => "cashin.refund_failed",
            Self::ChargeTakenBack => "cashin.taken_back",
            Self::WithdrawalUncertain => "cashout.uncertain",
            Self::WithdrawalNeedsReview => "cashout.needs_review",
            Self::WithdrawalCompleted => "cashout.confirmed",
            Self::WithdrawalFailed => "cashout.failed",
            Self::WithdrawalCanceled => "cashout.canceled",
            Self::WithdrawalReturned => "cashout.returned",
            Self::WithdrawalSettledLate => "cashout.settled_late",
            Self::RefundUncertain => "refund.uncertain",
            Self::RefundNeedsReview => "refund.needs_review",
            Self::RefundCompleted => "refund.completed",
            Self::RefundFailed => "refund.failed",
            Self::SplitReceived => "split.received",
            Self::SplitTakenBack => "split.taken_back",
            Self::ChargeCreating
            | Self::ChargeRefundReserved
            | Self::WithdrawalCreated
            | Self::WithdrawalQueued
            | Self::WithdrawalSubmitting
            | Self::WithdrawalAccepted
            | Self::RefundCreated
            | Self::RefundQueued
            | Self::RefundSubmitting
            | Self::RefundAccepted => return None,
        })
    }

    /// The kind that integrators know by that name.
    pub fn from_public_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.public_name() == Some(name))
    }

    /// The narrowest scope of a postback URL that it goes to; `None` when it goes to none and is only listed: what isn't
    /// final has no word in the classic contract, and a refund is told of as its charge's.
    pub const fn postback_scope(self) -> Option<PostbackScope> {
        match self {
            Self::ChargePaid
            | Self::WithdrawalCompleted
            | Self::WithdrawalFailed
            | Self::WithdrawalCanceled
            | Self::WithdrawalSettledLate => Some(PostbackScope::Outcomes),
            Self::ChargePending
            | Self::ChargeFailed
            | Self::ChargePaidAgain
            | Self::ChargeExpired
            | Self::ChargeCanceled
            | Self::ChargeRefunded
            | Self::ChargeRefundReleased
            | Self::ChargeTakenBack
            | Self::WithdrawalReturned
            | Self::SplitReceived
            | Self::SplitTakenBack => Some(PostbackScope::All),
            _ => None,
        }
    }
}

/// What identifies an event: the record, and the version that the record has after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey {
    /// The record.
    pub resource: ResourceRef,
    /// Its version after the event.
    pub sequence: Version,
}

impl EventKey {
    /// The public id: `evt_`, the first letter of the kind, the record's id without hyphens, `_` and the sequence. It is a
    /// function of what it names, so that it is the same wherever and however often it is made.
    pub fn public_id(&self) -> String {
        let kind = self.resource.kind.as_str().get(..1).unwrap_or_default();
        format!("evt_{kind}{}_{}", self.resource.id.simple(), self.sequence.0)
    }

    /// The event of that integrator with that public id; `None` for any other text.
    pub fn parse(integrator_id: IntegratorId, text: &str) -> Option<Self> {
        let rest = text.strip_prefix("evt_")?;
        let (kind, rest) = rest.split_at_checked(1)?;
        let kind = ResourceKind::ALL.into_iter().find(|candidate| candidate.as_str().starts_with(kind))?;
        let (id, sequence) = rest.split_once('_')?;
        let key = Self {
            resource: ResourceRef { integrator_id, kind, id: Uuid::try_parse(id).ok()? },
            sequence: Version(sequence.parse().ok()?),
        };
        // One text an event: no hyphens, no leading zeros, no capitals.
        (key.public_id() == text).then_some(key)
    }
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.public_id())
    }
}

/// What of a record can change again, as it was right after an event. It names nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Snapshot {
    /// Of a charge.
    Charge {
        /// Where it stood.
        state: ChargeState,
        /// The sum of its payments.
        amount_paid: Cents,
        /// The sum of their fees.
        fee: Cents,
        /// How many payments.
        payments: u32,
        /// What refunds in progress had taken.
        refund_reserved: Cents,
        /// What had gone back.
        refunded: Cents,
        /// What the provider had taken back.
        taken_back: Cents,
    },
    /// Of a withdrawal.
    Withdrawal {
        /// Where it stood.
        state: OutgoingState,
        /// What had come back.
        returned: Cents,
        /// Whether it had left though its hold was released.
        settled_late: bool,
        /// When it became final, if it had.
        completed_at: Option<Timestamp>,
    },
    /// Of a refund.
    Refund {
        /// Where it stood.
        state: OutgoingState,
        /// When it became final, if it had.
        completed_at: Option<Timestamp>,
    },
    /// Of a split.
    Split {
        /// What it had brought.
        amount: Cents,
        /// What of that had been taken back.
        taken_back: Cents,
    },
}

impl Snapshot {
    /// Of this record.
    pub fn of(record: &Record) -> Self {
        match record {
            Record::Charge(charge) => {
                let (fee, payments) =
                    charge.credited.as_ref().map_or((Cents::ZERO, 0), |paid| (paid.fee, paid.payments));
                Self::Charge {
                    state: charge.state.clone(),
                    amount_paid: charge.amount_paid(),
                    fee,
                    payments,
                    refund_reserved: charge.refund_reserved,
                    refunded: charge.refunded,
                    taken_back: charge.taken_back,
                }
            }
            Record::Withdrawal(withdrawal) => Self::Withdrawal {
                state: withdrawal.state.clone(),
                returned: withdrawal.returned,
                settled_late: withdrawal.settled_late,
                completed_at: withdrawal.completed_at,
            },
            Record::Refund(refund) => {
                Self::Refund { state: refund.state.clone(), completed_at: refund.completed_at }
            }
            Record::Split(split) => Self::Split { amount: split.amount, taken_back: split.taken_back },
        }
    }

    /// `record`, a later version of what this was taken of, as it was then. `None` when it is of another kind.
    pub fn restore(&self, record: &Record, sequence: Version, at: Timestamp) -> Option<Record> {
        Some(match (self, record) {
            (
                Self::Charge { state, amount_paid, fee, payments, refund_reserved, refunded, taken_back },
                Record::Charge(now),
            ) => {
                let credited = now.credited.clone().filter(|_| *payments > 0).map(|credited| Credited {
                    amount_paid: *amount_paid,
                    fee: *fee,
                    payments: *payments,
                    ..credited
                });
                Record::Charge(Box::new(Charge {
                    version: sequence,
                    state: state.clone(),
                    credited,
                    refund_reserved: *refund_reserved,
                    refunded: *refunded,
                    taken_back: *taken_back,
                    updated_at: at,
                    ..now.as_ref().clone()
                }))
            }
            (Self::Withdrawal { state, returned, settled_late, completed_at }, Record::Withdrawal(now)) => {
                Record::Withdrawal(Box::new(Withdrawal {
                    version: sequence,
                    state: state.clone(),
                    returned: *returned,
                    settled_late: *settled_late,
                    completed_at: *completed_at,
                    updated_at: at,
                    ..now.as_ref().clone()
                }))
            }
            (Self::Refund { state, completed_at }, Record::Refund(now)) => Record::Refund(Box::new(Refund {
                version: sequence,
                state: state.clone(),
                completed_at: *completed_at,
                updated_at: at,
                ..now.as_ref().clone()
            })),
            (Self::Split { amount, taken_back }, Record::Split(now)) => Record::Split(Box::new(Split {
                version: sequence,
                amount: *amount,
                taken_back: *taken_back,
                updated_at: at,
                ..now.as_ref().clone()
            })),
            _ => return None,
        })
    }
}

/// A public event, before it has a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What identifies it.
    pub key: EventKey,
    /// What happened.
    pub kind: EventKind,
    /// When.
    pub at: Timestamp,
    /// How much money it is about: what was paid, went back, came back or was sent; zero when none moved.
    pub moved: Cents,
    /// The refund, of a charge's event that is about one.
    pub related: Option<Uuid>,
    /// The record right after it.
    pub snapshot: Snapshot,
    /// The lane in which it is delivered; `None` when it goes to no postback URL.
    pub lane: Option<Lane>,
}

/// A public event, as kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number among those of its integrator: from 1, without gaps, in the order of their commits.
    pub number: u64,
    /// What identifies it.
    pub key: EventKey,
    /// What happened.
    pub kind: EventKind,
    /// When.
    pub at: Timestamp,
    /// How much money it is about.
    pub moved: Cents,
    /// The refund, of a charge's event that is about one.
    pub related: Option<Uuid>,
    /// The record right after it.
    pub snapshot: Snapshot,
}

/// A public event with its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEvent {
    /// The event.
    pub event: StoredEvent,
    /// The record as it is now.
    pub record: Record,
    /// How its delivery stands; `None` when there is none.
    pub delivery: Option<DeliveryState>,
}

impl ListedEvent {
    /// The record as it was right after the event.
    pub fn record_then(&self) -> Option<Record> {
        self.event.snapshot.restore(&self.record, self.event.key.sequence, self.event.at)
    }

    /// Where its postback goes, if the record names a place and the event is one that is delivered.
    pub fn postback_url(&self) -> Option<&PostbackUrl> {
        self.event.kind.postback_scope()?;
        self.record.postback().map(|(url, _)| url)
    }
}

impl Record {
    /// Where its events go, and which.
    pub fn postback(&self) -> Option<(&PostbackUrl, PostbackScope)> {
        match self {
            Self::Charge(charge) => charge.postback_url.as_ref().map(|url| (url, charge.postback_scope)),
            Self::Withdrawal(withdrawal) => {
                withdrawal.postback_url.as_ref().map(|url| (url, withdrawal.postback_scope))
            }
            // A refund is told of as its charge's.
            Self::Refund(_) => None,
            // The place is for splits alone.
            Self::Split(split) => split.postback_url.as_ref().map(|url| (url, PostbackScope::All)),
        }
    }
}

impl Transition {
    /// The public events of this transition, in the order of its writes.
    ///
    /// What a creating request is answered with is not told again, so the first event of a record is never one; but for a
    /// split, which nobody asked for.
    pub fn told(&self) -> impl Iterator<Item = Told> + '_ {
        self.writes.iter().filter(|write| is_public(write)).map(|write| self.tell(write))
    }

    /// How many public events it has.
    pub fn told_count(&self) -> usize {
        self.writes.iter().filter(|write| is_public(write)).count()
    }

    /// Whether it needs its integrator's wallet: to move money in it, or to number what is told.
    pub fn takes_wallet(&self) -> bool {
        !self.postings.is_empty() || self.writes.iter().any(is_public)
    }

    fn tell(&self, write: &Write) -> Told {
        let resource = write.record.resource();
        let refund = self.refund().filter(|_| resource.kind == ResourceKind::Charge);
        let lane = write
            .record
            .postback()
            .filter(|(_, scope)| match narrowest_scope(write, self.at) {
                Some(PostbackScope::Outcomes) => true,
                Some(PostbackScope::All) => *scope == PostbackScope::All,
                None => false,
            })
            .map(|(url, _)| Lane::of(self.integrator_id, url));
        Told {
            key: EventKey { resource, sequence: write.record.version() },
            kind: write.event,
            at: self.at,
            moved: self.moved_by(write),
            related: refund.map(|refund| refund.id.0),
            snapshot: Snapshot::of(&write.record),
            lane,
        }
    }

    fn moved_by(&self, write: &Write) -> Cents {
        let posted = |reasons: &[Reason]| {
            let about = self.postings.iter().filter(|posting| reasons.contains(&posting.reason));
            about.fold(Cents::ZERO, |sum, posting| sum.checked_add(posting.amount).unwrap_or(sum))
        };
        match write.event {
            EventKind::ChargePaid | EventKind::ChargePaidAgain => {
                self.receipt.as_ref().map_or(Cents::ZERO, |receipt| receipt.payment.amount.cents())
            }
            EventKind::ChargeRefunded | EventKind::ChargeRefundReleased => {
                self.refund().map_or(Cents::ZERO, |refund| refund.amount.cents())
            }
            EventKind::ChargeTakenBack => posted(&[Reason::ForcedDebit, Reason::ForcedDebitOwed]),
            EventKind::WithdrawalReturned => posted(&[Reason::WithdrawalReturn]),
            EventKind::SplitReceived => posted(&[Reason::SplitReceived]),
            EventKind::SplitTakenBack => {
                posted(&[Reason::SplitTakenBack, Reason::ForcedDebit, Reason::ForcedDebitOwed])
            }
            _ => match &write.record {
                Record::Charge(charge) => charge.amount.cents(),
                Record::Withdrawal(withdrawal) => withdrawal.amount.cents(),
                Record::Refund(refund) => refund.amount.cents(),
                Record::Split(split) => split.amount,
            },
        }
    }
}

/// As of the kind; but a withdrawal of which nothing was told before it came back has its outcome in that.
fn narrowest_scope(write: &Write, at: Timestamp) -> Option<PostbackScope> {
    match &write.record {
        Record::Withdrawal(withdrawal) if ends_as_returned(write.event, withdrawal, at) => {
            Some(PostbackScope::Outcomes)
        }
        _ => write.event.postback_scope(),
    }
}

/// Whether a withdrawal was completed and came back in one event, at `at`: the only one that tells of its end.
pub fn ends_as_returned(event: EventKind, withdrawal: &Withdrawal, at: Timestamp) -> bool {
    event == EventKind::WithdrawalReturned && withdrawal.completed_at == Some(at)
}

fn is_public(write: &Write) -> bool {
    let answered = write.record.version() == Version::FIRST && write.event != EventKind::SplitReceived;
    write.event.public_name().is_some() && !answered
}

/// Which events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventQuery {
    /// Those with a greater number.
    pub after: u64,
    /// Of these kinds; none means all.
    pub kinds: Vec<EventKind>,
    /// Of this record.
    pub resource_id: Option<Uuid>,
    /// Only those with a delivery that has not succeeded (`Some(false)`), or that has (`Some(true)`).
    pub delivered: Option<bool>,
    /// How many at the most.
    pub limit: u32,
}

impl Default for EventQuery {
    /// All of them, [`DEFAULT_PER_PAGE`] at a time.
    fn default() -> Self {
        Self { after: 0, kinds: Vec::new(), resource_id: None, delivered: None, limit: DEFAULT_PER_PAGE }
    }
}

/// Where public events are read.
///
/// An implementation MUST number the public events of an integrator from 1 without gaps, such that whoever sees a number
/// sees every smaller one, under any concurrency, in this or another process.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait EventStore: Send + Sync {
    /// Events of an integrator, lowest number first.
    async fn events(
        &self,
        integrator_id: IntegratorId,
        query: EventQuery,
    ) -> Result<Vec<ListedEvent>, StoreError>;

    /// One event; `None` when there is none, or it isn't public.
    async fn event(&self, key: EventKey) -> Result<Option<ListedEvent>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_names_lead_back_to_their_kinds() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in EventKind::ALL {
            if let Some(name) = kind.public_name() {
                assert!(seen.insert(name), "{name} is the name of two");
                assert_eq!(EventKind::from_public_name(name), Some(kind));
            } else {
                assert_eq!(kind.postback_scope(), None, "{kind:?} goes out without a name");
            }
        }
        assert_eq!(EventKind::from_public_name("charge.paid"), None);
    }

    #[test]
    fn an_event_has_one_public_id_and_no_other_text_is_read_as_it() {
        let integrator_id = IntegratorId(Uuid::from_u128(7));
        let resource = ResourceRef { integrator_id, kind: ResourceKind::Charge, id: Uuid::from_u128(0xabc) };
        let key = EventKey { resource, sequence: Version(2) };
        assert_eq!(key.public_id(), "evt_c00000000000000000000000000000abc_2");
        assert_eq!(EventKey::parse(integrator_id, &key.public_id()), Some(key));
        for text in [
            "",
            "evt_",
            "evt_c",
            "evt_x00000000000000000000000000000abc_2",
            "evt_c00000000000000000000000000000ABC_2",
            "evt_c00000000-0000-0000-0000-000000000abc_2",
            "evt_c00000000000000000000000000000abc_02",
            "evt_c00000000000000000000000000000abc_+2",
            "evt_c00000000000000000000000000000abc_4294967296",
            "evt_ção",
            "c00000000000000000000000000000abc_2",
        ] {
            assert_eq!(EventKey::parse(integrator_id, text), None, "{text}");
        }
    }
}
