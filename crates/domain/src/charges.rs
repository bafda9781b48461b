//! Charges: money to come in, by a dynamic QR code.
//!
//! | Module | Room |
//! |---|---|
//! | [`state`] | the machine: what can happen to a charge, and to the money of it |
//! | [`store`] | the port it is read from |
//! | [`service`] | the use cases |

pub mod service;
pub mod state;
pub mod store;

use std::time::Duration;

use crate::ids::{ChargeId, IntegratorId, ResourceKind, ResourceRef, Version};
use crate::metadata::Metadata;
use crate::money::{Amount, Cents};
use crate::postbacks::events::PostbackScope;
use crate::provider::{ChargeOrder, Inquiry, Party, Payment, ReceiptKey, Reference, Ticket};
use crate::splits::Share;
use crate::text::{Email, ExternalId, PayerQuestion, PostbackUrl};
use crate::time::Timestamp;

/// How long a QR code lives when nothing else is asked for.
pub const DEFAULT_EXPIRES_IN: Duration = Duration::from_mins(50);

/// The shortest a QR code may live.
pub const MIN_EXPIRES_IN: Duration = Duration::from_mins(1);

/// The longest a QR code may live: 30 days.
pub const MAX_EXPIRES_IN: Duration = Duration::from_hours(30 * 24);

/// Why the provider won't do a thing, as shown to the integrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A stable code.
    pub code: String,
    /// A sentence.
    pub message: String,
}

/// Where a charge stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChargeState {
    /// Stored; the provider has not confirmed it.
    Creating,
    /// The QR code is live.
    Pending,
    /// Credited to the wallet.
    Paid,
    /// Its time is over and the provider was asked once more.
    Expired,
    /// Removed by the integrator or the provider.
    Canceled,
    /// The provider refused to create it.
    Failed(Failure),
}

impl ChargeState {
    /// Every name a state can have.
    pub const NAMES: [&'static str; 6] = ["creating", "pending", "paid", "expired", "canceled", "failed"];

    /// The public, stable name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Pending => "pending",
            Self::Paid => "paid",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
            Self::Failed(_) => "failed",
        }
    }
}

/// What has been credited for a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credited {
    /// The sum of every PIX received on it.
    pub amount_paid: Cents,
    /// The sum of the fees taken.
    pub fee: Cents,
    /// The identity of the first PIX.
    pub first: ReceiptKey,
    /// Who sent the first PIX.
    pub paid_by: Party,
    /// When the first PIX was settled.
    pub paid_at: Timestamp,
    /// Whether the first PIX came after the charge had expired or been canceled.
    pub late: bool,
    /// How many PIX were received: more than one is worth a look.
    pub payments: u32,
}

/// A charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Its public id.
    pub id: ChargeId,
    /// Whose it is.
    pub integrator_id: IntegratorId,
    /// Goes up with every change.
    pub version: Version,
    /// The integrator's name for it, or one made by us.
    pub external_id: ExternalId,
    /// Whether the integrator gave that name.
    pub external_id_given: bool,
    /// How much is asked for.
    pub amount: Amount,
    /// Who is to pay.
    pub payer: Party,
    /// The payer's e-mail.
    pub payer_email: Option<Email>,
    /// What the payer is asked.
    pub payer_question: Option<PayerQuestion>,
    /// Whether the payer was [erased](crate::people): all of the payer's is absent then.
    pub payer_erased: bool,
    /// What the integrator attaches to it.
    pub metadata: Metadata,
    /// Where events go.
    pub postback_url: Option<PostbackUrl>,
    /// Which of them.
    pub postback_scope: PostbackScope,
    /// The version of the fee schedule that holds for it.
    pub fee_version: u32,
    /// Where it stands.
    pub state: ChargeState,
    /// The provider's charge, once made.
    pub ticket: Option<Ticket>,
    /// What was credited, once paid.
    pub credited: Option<Credited>,
    /// The part of it that refunds in progress have taken.
    pub refund_reserved: Cents,
    /// The part of it that went back.
    pub refunded: Cents,
    /// The part of it that the provider sent back though nobody here asked for it, such as by MED (BCB).
    pub taken_back: Cents,
    /// Who gets what part of it.
    pub split: Vec<Share>,
    /// When the QR code ends.
    pub expires_at: Timestamp,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Charge {
    /// What this is.
    pub const fn resource(&self) -> ResourceRef {
        ResourceRef { integrator_id: self.integrator_id, kind: ResourceKind::Charge, id: self.id.0 }
    }

    /// Our name for it at the provider.
    pub const fn reference(&self) -> Reference {
        Reference(self.id.0)
    }

    /// What the provider is asked to make when it is asked at `now`: a QR code that ends when this charge does.
    pub fn order_at(&self, now: Timestamp) -> ChargeOrder {
        ChargeOrder {
            reference: self.reference(),
            resource: self.resource(),
            amount: self.amount,
            payer: self.payer.clone(),
            payer_email: self.payer_email.clone(),
            payer_question: self.payer_question.clone(),
            expires_in: self.expires_at.since(now).max(MIN_EXPIRES_IN),
        }
    }

    /// What the provider is asked about.
    pub fn inquiry(&self) -> Inquiry {
        Inquiry {
            reference: self.reference(),
            provider_id: self.ticket.as_ref().map(|ticket| ticket.provider_id.clone()),
            amount: self.amount,
            key: None,
        }
    }

    /// How much was paid, over all payments.
    pub fn amount_paid(&self) -> Cents {
        self.credited.as_ref().map_or(Cents::ZERO, |credited| credited.amount_paid)
    }

    /// How much of the payment no refund has taken yet.
    pub fn left_to_refund(&self) -> Cents {
        self.gone().and_then(|gone| self.amount_paid().checked_sub(gone)).unwrap_or(Cents::ZERO)
    }

    /// How much of the payment went back, by our refunds or by force.
    pub fn sent_back(&self) -> Cents {
        self.refunded.checked_add(self.taken_back).unwrap_or(self.refunded)
    }

    /// How much of the payment is not the integrator's any more: refunds in progress, refunds done, and what was taken
    /// back.
    pub(crate) fn gone(&self) -> Option<Cents> {
        self.refund_reserved.checked_add(self.refunded)?.checked_add(self.taken_back)
    }
}

/// A charge to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCharge {
    /// Its id.
    pub id: ChargeId,
    /// Whose it is.
    pub integrator_id: IntegratorId,
    /// Its name.
    pub external_id: ExternalId,
    /// Whether the integrator gave that name.
    pub external_id_given: bool,
    /// How much.
    pub amount: Amount,
    /// Who is to pay.
    pub payer: Party,
    /// The payer's e-mail.
    pub payer_email: Option<Email>,
    /// What the payer is asked.
    pub payer_question: Option<PayerQuestion>,
    /// What the integrator attaches to it.
    pub metadata: Metadata,
    /// Where events go.
    pub postback_url: Option<PostbackUrl>,
    /// Which of them.
    pub postback_scope: PostbackScope,
    /// How long the QR code lives.
    pub expires_in: Duration,
    /// The version of the fee schedule that will hold.
    pub fee_version: u32,
    /// Who gets what part of it.
    pub split: Vec<Share>,
}

/// An incoming PIX as it is kept: what makes it credited once, for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Whose wallet it went to.
    pub integrator_id: IntegratorId,
    /// The charge it was for.
    pub charge_id: ChargeId,
    /// The PIX.
    pub payment: Payment,
}
