//! What can go wrong, said by what is known afterwards.

use thiserror::Error;

use crate::ids::{ChargeId, ResourceRef};
use crate::invalid::Invalid;
use crate::limits::Standing;

/// Why a store didn't do a thing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Nothing was read or written; the same call may work later. The text is for the operator's log.
    #[error("the store can't be used right now: {0}")]
    Unavailable(String),
    /// A write may or may not have been committed; only reading its key on a fresh connection can tell.
    #[error("the outcome of a write is unknown: {0}")]
    Unknown(String),
    /// What is stored can't be understood by this program.
    #[error("stored data is damaged or of another version: {0}")]
    Damaged(String),
    /// The call names something that doesn't exist or breaks a rule of the schema.
    #[error("the store refused the write: {0}")]
    Rejected(String),
}

/// Which unique key a refused write would have doubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UniqueKey {
    /// The record's own id.
    Id,
    /// The integrator's external id, per kind.
    ExternalId,
    /// The `Idempotency-Key`, per integrator and kind.
    IdempotencyKey,
    /// The incoming PIX: it was credited before.
    Receipt,
    /// What makes two requests twins: another one came first.
    Twin,
}

/// Why a transition was not applied. In every case but [`StoreError::Unknown`] nothing at all was written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// A record is no longer at the version the transition assumes: read again and decide again.
    #[error("a record was changed meanwhile")]
    Stale,
    /// A unique key is taken.
    #[error("a unique key is taken: {0:?}")]
    Duplicate(UniqueKey),
    /// The wallet's `available` (or `held`) would go below zero.
    #[error("the wallet does not hold enough")]
    InsufficientFunds,
    /// The wallet would have money beside a debt, or repay more than it owes: read it and decide again.
    #[error("the wallet owes")]
    Owing,
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a use case did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServiceError {
    /// A value is not acceptable.
    #[error("{field}: {problem}")]
    Invalid {
        /// The field, in the domain's words.
        field: &'static str,
        /// What is wrong with it.
        problem: Invalid,
    },
    /// No such record for this integrator.
    #[error("not found")]
    NotFound,
    /// The external id names an earlier record with another body.
    #[error("external_id is already used by another request with a different body")]
    ExternalIdConflict,
    /// The idempotency key was used with another body.
    #[error("this Idempotency-Key was already used with a different body")]
    IdempotencyMismatch,
    /// A request just like this one is live: nothing tells whether it is the same one or another.
    #[error(
        "a request just like this one is in progress or was just done; send an external_id or Idempotency-Key, or allow_duplicate_of with its uuid, to make another"
    )]
    PossibleDuplicate(ResourceRef),
    /// An identifier names more than one record.
    #[error("the identifier names more than one transaction")]
    Ambiguous(Vec<ResourceRef>),
    /// The record's state doesn't allow this.
    #[error("{0}")]
    InvalidState(&'static str),
    /// The integrator may not move money out.
    #[error("this integrator is suspended: money can't be sent")]
    IntegratorSuspended,
    /// The books are those of a backup, and operators haven't said yet that they are whole again: no money goes out.
    #[error(
        "the gateway was restored from a backup and sends no money until its operators have checked the books; nothing was done"
    )]
    Restored,
    /// This node's clock is wrong, or was set and has been compared with nobody's since: no money goes out by it.
    #[error("this node's clock is not right, and until it is no money is sent by it; nothing was done")]
    ClockNotRight,
    /// The wallet does not hold amount plus fee.
    #[error("the available balance does not cover the amount and its fee")]
    InsufficientBalance,
    /// A limit of what may go out would be passed: how that limit stands.
    #[error("{}", .0.refusal())]
    LimitExceeded(Box<Standing>),
    /// More than what is left of the payment.
    #[error("the refund is more than what is left of the payment")]
    RefundExceedsPaid,
    /// More than 90 days after the payment (BCB, devolução).
    #[error("a payment can be refunded within 90 days only")]
    RefundWindowClosed,
    /// The provider refused for good; the record, when there is one, is `failed`.
    #[error("the settlement provider refused: {message}")]
    ProviderRejected {
        /// The provider's code.
        code: String,
        /// The provider's reason.
        message: String,
        /// The charge that is `failed` for it now, when one is.
        charge: Option<ChargeId>,
    },
    /// Nothing was sent to the provider; try again later.
    #[error("the settlement provider is not available; nothing was done")]
    ProviderUnavailable,
    /// The provider answered with something unusable, or with nothing in time; for charges only.
    #[error("the settlement provider gave no usable answer; the same request can be sent again")]
    ProviderTimeout,
    /// Too many others were changing the same record.
    #[error("too many concurrent changes of the same record")]
    Contention,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ServiceError {
    /// This, when it is an answer to what was asked; else the error, which is none.
    pub(crate) fn refusing(self) -> Result<Self, Self> {
        match self {
            Self::Store(_) | Self::Contention | Self::NotFound => Err(self),
            refusal => Ok(refusal),
        }
    }
}
