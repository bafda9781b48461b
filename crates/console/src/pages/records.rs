//! A record of any kind, as pages read it.

use pix_domain::charges::Charge;
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, RefundId, ResourceKind, ResourceRef, SplitId, WithdrawalId};
use pix_domain::money::Cents;
use pix_domain::ports::Stores;
use pix_domain::refunds::Refund;
use pix_domain::splits::Split;
use pix_domain::time::Timestamp;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

/// A record.
pub(super) enum Found {
    Charge(Box<Charge>),
    Withdrawal(Box<Withdrawal>),
    Refund(Box<Refund>),
    Split(Box<Split>),
}

impl Found {
    /// Reads one.
    pub(super) async fn read(stores: &Stores, resource: ResourceRef) -> Result<Option<Self>, StoreError> {
        let owner = resource.integrator_id;
        Ok(match resource.kind {
            ResourceKind::Charge => {
                let found = stores.charges.find(owner, ChargeId(resource.id)).await?;
                found.map(|one| Self::Charge(Box::new(one)))
            }
            ResourceKind::Withdrawal => {
                let found = stores.withdrawals.find(owner, WithdrawalId(resource.id)).await?;
                found.map(|one| Self::Withdrawal(Box::new(one)))
            }
            ResourceKind::Refund => {
                let found = stores.refunds.find(owner, RefundId(resource.id)).await?;
                found.map(|one| Self::Refund(Box::new(one)))
            }
            ResourceKind::Split => {
                let found = stores.splits.find(owner, SplitId(resource.id)).await?;
                found.map(|one| Self::Split(Box::new(one)))
            }
        })
    }

    pub(super) const fn resource(&self) -> ResourceRef {
        match self {
            Self::Charge(one) => one.resource(),
            Self::Withdrawal(one) => one.resource(),
            Self::Refund(one) => one.resource(),
            Self::Split(one) => one.resource(),
        }
    }

    pub(super) const fn state(&self) -> &'static str {
        match self {
            Self::Charge(one) => one.state.name(),
            Self::Withdrawal(one) => one.state.name(),
            Self::Refund(one) => one.state.name(),
            Self::Split(_) => "received",
        }
    }

    pub(super) const fn amount(&self) -> Cents {
        match self {
            Self::Charge(one) => one.amount.cents(),
            Self::Withdrawal(one) => one.amount.cents(),
            Self::Refund(one) => one.amount.cents(),
            Self::Split(one) => one.amount,
        }
    }

    pub(super) fn external_id(&self) -> Option<&str> {
        match self {
            Self::Charge(one) => Some(one.external_id.as_str()),
            Self::Withdrawal(one) => Some(one.external_id.as_str()),
            Self::Refund(one) => Some(one.external_id.as_str()),
            Self::Split(_) => None,
        }
    }

    pub(super) const fn created_at(&self) -> Timestamp {
        match self {
            Self::Charge(one) => one.created_at,
            Self::Withdrawal(one) => one.created_at,
            Self::Refund(one) => one.created_at,
            Self::Split(one) => one.created_at,
        }
    }

    /// Of money that goes out: where it stands, when it was last about to be sent, and what is held for it.
    pub(super) fn outgoing(&self) -> Option<(&OutgoingState, Timestamp, Cents)> {
        match self {
            Self::Withdrawal(one) => Some((&one.state, one.submitted_at, one.total())),
            Self::Refund(one) => Some((&one.state, one.submitted_at, one.total())),
            Self::Charge(_) | Self::Split(_) => None,
        }
    }
}
