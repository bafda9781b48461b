//! Refunds: money of a paid charge to go back to its payer (the BCB's *devolução*).
//!
//! | Module | Room |
//! |---|---|
//! | [`state`] | the machine: what can happen to a refund, to its charge and to the money |
//! | [`store`] | the port it is read from |
//! | [`service`] | the use cases |

pub mod service;
pub mod state;
pub mod store;

use std::time::Duration;

use crate::ids::{ChargeId, IntegratorId, RefundId, ResourceKind, ResourceRef, Version};
use crate::money::{Amount, Cents};
use crate::provider::{Inquiry, ProviderBody, ProviderId, Reference, RefundOrder};
use crate::text::{Description, ExternalId};
use crate::time::Timestamp;
use crate::withdrawals::OutgoingState;

/// How long after its settlement a PIX can be refunded (BCB, Manual de Padrões: 90 days).
pub const REFUND_WINDOW: Duration = Duration::from_hours(90 * 24);

/// A refund. Its state is never canceled nor returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// Its public id.
    pub id: RefundId,
    /// Whose it is.
    pub integrator_id: IntegratorId,
    /// Goes up with every change.
    pub version: Version,
    /// The charge whose money goes back.
    pub charge_id: ChargeId,
    /// The provider's name for that charge.
    pub charge_provider_id: ProviderId,
    /// The integrator's name for it, or one made by us.
    pub external_id: ExternalId,
    /// Whether the integrator gave that name.
    pub external_id_given: bool,
    /// How much goes back.
    pub amount: Amount,
    /// Whether the integrator said how much.
    pub amount_given: bool,
    /// What it costs on top.
    pub fee: Cents,
    /// The version of the fee schedule it was computed with.
    pub fee_version: u32,
    /// What for.
    pub description: Option<Description>,
    /// Where it stands.
    pub state: OutgoingState,
    /// The provider's name for it, once known.
    pub provider_id: Option<ProviderId>,
    /// The provider's last answer about it.
    pub provider_body: Option<ProviderBody>,
    /// The return id (`D…`), once known.
    pub return_id: Option<String>,
    /// When it was last about to be sent.
    pub submitted_at: Timestamp,
    /// When it became final.
    pub completed_at: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Refund {
    /// What this is.
    pub const fn resource(&self) -> ResourceRef {
        ResourceRef { integrator_id: self.integrator_id, kind: ResourceKind::Refund, id: self.id.0 }
    }

    /// Our name for it at the provider.
    pub fn reference(&self) -> Reference {
        Reference::of(self.id.0)
    }

    /// What the provider is asked to send back.
    pub fn order(&self) -> RefundOrder {
        RefundOrder {
            reference: self.reference(),
            resource: self.resource(),
            charge_provider_id: self.charge_provider_id.clone(),
            amount: self.amount,
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
        // Both were added when it was accepted, so the sum exists.
        self.amount.cents().checked_add(self.fee).unwrap_or(self.amount.cents())
    }
}

/// A refund to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRefund {
    /// Its id.
    pub id: RefundId,
    /// Its name.
    pub external_id: ExternalId,
    /// Whether the integrator gave that name.
    pub external_id_given: bool,
    /// How much.
    pub amount: Amount,
    /// Whether the integrator said how much.
    pub amount_given: bool,
    /// What it costs on top.
    pub fee: Cents,
    /// The version of the fee schedule.
    pub fee_version: u32,
    /// What for.
    pub description: Option<Description>,
}
