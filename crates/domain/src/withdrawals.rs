//! Withdrawals: money to go out of the internal wallet, with a fee on top.
//!
//! | Module | Room |
//! |---|---|
//! | [`state`] | the machine: what can happen to a withdrawal, and to the money of it |
//! | [`store`] | the port it is read from |
//! | [`service`] | the use cases |

pub mod service;
pub mod state;
pub mod store;

use crate::charges::Failure;
use crate::ids::{IntegratorId, ResourceKind, ResourceRef, Version, WithdrawalId};
use crate::metadata::Metadata;
use crate::money::{Amount, Cents};
use crate::party::PixKey;
use crate::postbacks::events::PostbackScope;
use crate::provider::{Inquiry, Party, PaymentOrder, ProviderBody, ProviderId, Reference};
use crate::text::{Description, ExternalId, PostbackUrl};
use crate::time::Timestamp;

/// The code of what failed because the provider never took it, as its answers prove.
pub const NOT_EXECUTED: &str = "not_executed";

/// The code of what failed because the provider could not be reached for too long; nothing was sent.
pub const PROVIDER_UNAVAILABLE: &str = "provider_unavailable";

/// The code of what operators decided did not happen.
pub const RESOLVED_FAILED: &str = "resolved_failed";

/// Where an outgoing movement stands, money held until it is final. Withdrawals and refunds share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutgoingState {
    /// Definitely not sent; waits for another try.
    Queued,
    /// Stored, and being sent: after a crash nobody knows whether it was.
    Submitting,
    /// The provider took it.
    Accepted,
    /// It may have been sent: only evidence ends this.
    Uncertain,
    /// Unknown or unsettled for so long that an operator is to look.
    NeedsReview,
    /// Final: the money arrived.
    Completed,
    /// Final: it did not and will not happen.
    Failed(Failure),
    /// Final: taken back before it was sent (withdrawals only).
    Canceled,
    /// Final: it arrived, and all of it came back (withdrawals only).
    Returned,
}

impl OutgoingState {
    /// Every name a state can have.
    pub const NAMES: [&'static str; 9] = [
        "queued",
        "submitting",
        "accepted",
        "uncertain",
        "needs_review",
        "completed",
        "failed",
        "canceled",
        "returned",
    ];

    /// The stable name, as stored.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Submitting => "submitting",
            Self::Accepted => "accepted",
            Self::Uncertain => "uncertain",
            Self::NeedsReview => "needs_review",
            Self::Completed => "completed",
            Self::Failed(_) => "failed",
            Self::Canceled => "canceled",
            Self::Returned => "returned",
        }
    }

    /// Whether nothing more is expected to happen.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed(_) | Self::Canceled | Self::Returned)
    }

    /// Whether the provider has said, at `ended_at`, that it failed, and that it was taken is an older answer: to a
    /// question of `asked_at`.
    pub(crate) fn has_failed_since(&self, asked_at: Timestamp, ended_at: Option<Timestamp>) -> bool {
        let told = match self {
            Self::Failed(failure) => {
                !matches!(failure.code.as_str(), NOT_EXECUTED | PROVIDER_UNAVAILABLE | RESOLVED_FAILED)
            }
            _ => false,
        };
        told && ended_at.is_some_and(|ended_at| asked_at < ended_at)
    }

    /// Whether nobody knows if the money left.
    pub const fn is_uncertain(&self) -> bool {
        matches!(self, Self::Submitting | Self::Uncertain | Self::NeedsReview)
    }
}

/// Who is to be paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payee {
    /// Name and document, as far as given.
    pub party: Party,
    /// The PIX key.
    pub key: PixKey,
}

/// A withdrawal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawal {
    /// Its public id.
    pub id: WithdrawalId,
    /// Whose it is.
    pub integrator_id: IntegratorId,
    /// Goes up with every change.
    pub version: Version,
    /// The integrator's name for it, or one made by us.
    pub external_id: ExternalId,
    /// Whether the integrator gave that name.
    pub external_id_given: bool,
    /// How much the payee gets.
    pub amount: Amount,
    /// What it costs on top.
    pub fee: Cents,
    /// The version of the fee schedule it was computed with.
    pub fee_version: u32,
    /// Who is paid.
    pub payee: Payee,
    /// Whether the payee was [erased](crate::people): there are no name, document and description then, and the key is
    /// [`PixKey::erased`].
    pub payee_erased: bool,
    /// What for.
    pub description: Option<Description>,
    /// What the integrator attaches to it.
    pub metadata: Metadata,
    /// Where events go.
    pub postback_url: Option<PostbackUrl>,
    /// Which of them.
    pub postback_scope: PostbackScope,
    /// Where it stands.
    pub state: OutgoingState,
    /// The provider's name for it, once known.
    pub provider_id: Option<ProviderId>,
    /// The provider's last answer about it.
    pub provider_body: Option<ProviderBody>,
    /// The end-to-end id, once known.
    pub end_to_end_id: Option<String>,
    /// How much came back after completion.
    pub returned: Cents,
    /// Whether the money left after all, though it is failed or canceled and its hold had been released.
    pub settled_late: bool,
    /// When it was last about to be sent.
    pub submitted_at: Timestamp,
    /// When it became final.
    pub completed_at: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Withdrawal {
    /// What this is.
    pub const fn resource(&self) -> ResourceRef {
        ResourceRef { integrator_id: self.integrator_id, kind: ResourceKind::Withdrawal, id: self.id.0 }
    }

    /// Our name for it at the provider.
    pub fn reference(&self) -> Reference {
        Reference::of(self.id.0)
    }

    /// What the provider is asked to send.
    pub fn order(&self) -> PaymentOrder {
        PaymentOrder {
            reference: self.reference(),
            resource: self.resource(),
            amount: self.amount,
            key: self.payee.key.clone(),
            payee: self.payee.party.clone(),
            description: self.description.clone(),
        }
    }

    /// What the provider is asked about.
    pub fn inquiry(&self) -> Inquiry {
        Inquiry {
            reference: self.reference(),
            provider_id: self.provider_id.clone(),
            amount: self.amount,
            key: None,
        }
    }

    /// Amount plus fee: what is held.
    pub fn total(&self) -> Cents {
        // Both were added when it was accepted, so the sum exists; an impossible one holds nothing more than the amount.
        self.amount.cents().checked_add(self.fee).unwrap_or(self.amount.cents())
    }
}

/// A withdrawal to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWithdrawal {
    /// Its id.
    pub id: WithdrawalId,
    /// Whose it is.
    pub integrator_id: IntegratorId,
    /// Its name.
    pub external_id: ExternalId,
    /// Whether the integrator gave that name.
    pub external_id_given: bool,
    /// How much.
    pub amount: Amount,
    /// What it costs on top.
    pub fee: Cents,
    /// The version of the fee schedule.
    pub fee_version: u32,
    /// Who is paid.
    pub payee: Payee,
    /// What for.
    pub description: Option<Description>,
    /// What the integrator attaches to it.
    pub metadata: Metadata,
    /// Where events go.
    pub postback_url: Option<PostbackUrl>,
    /// Which of them.
    pub postback_scope: PostbackScope,
}
