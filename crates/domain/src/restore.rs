//! After a restore from a backup: what went out since the backup was made isn't in the books, and nobody here knows of it.
//!
//! | Phase | Money out | Ends by |
//! |---|---|---|
//! | [`Outflow::Shut`] | none is sent, and nothing new is taken on but what the provider knows | operators, when nothing is in doubt any more |
//! | [`Outflow::AskFirst`] | for a request with a handle the provider is asked first, under the same reference; what it has is learned and not sent | time |
//! | [`Outflow::Open`] | is sent | a restore |
//!
//! What was on its way when the backup was made, or waited to be sent, is in doubt: it may have been sent since. It counts as
//! just sent and lost sight of ([`cast_doubt`]), and ends by evidence as anything of that kind. What the books have no record of
//! at all comes back when its integrator asks for it again: by the same handle it gets the same reference
//! ([`Reference`](crate::provider::Reference)), under which the provider knows it.

use std::time::Duration;

use crate::audit::{Book, BookStore};
use crate::error::ServiceError;
use crate::evidence::{EvidenceKind, Proof, Seen};
use crate::ids::{IntegratorId, ResourceRef};
use crate::money::Amount;
use crate::ports::Ports;
use crate::provider::{OutgoingReport, ProviderError};
use crate::refunds::Refund;
use crate::refunds::service::RefundService;
use crate::transition::Transition;
use crate::withdrawals::service::WithdrawalService;
use crate::withdrawals::{OutgoingState, Withdrawal};

/// Whether money may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outflow {
    /// Yes.
    Open,
    /// Yes, but the provider is asked first whether it was sent already.
    AskFirst,
    /// No: the books are those of a backup, and operators haven't said yet that they are whole again.
    Shut,
}

/// Who says whether money may go out. It is asked at each sending, so it MUST answer from memory. While it says
/// [`Outflow::Shut`] nothing is sent that it has been asked about since.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
pub trait OutflowGate: Send + Sync {
    /// What holds now.
    fn outflow(&self) -> Outflow;
}

/// Books that were never restored.
#[derive(Debug, Clone, Copy, Default)]
pub struct NeverRestored;

impl OutflowGate for NeverRestored {
    fn outflow(&self) -> Outflow {
        Outflow::Open
    }
}

/// What [`cast_doubt`] has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Doubt {
    /// How many withdrawals and refunds are in doubt.
    pub in_doubt: u64,
    /// How many the provider had taken already: it is asked what became of them.
    pub accepted: u64,
}

/// Counts what of one integrator's may have been sent since the backup as just sent and lost sight of, `why` in its evidence.
/// Done again, it counts from then on. For a store of which nobody else sends anything.
///
/// Errors are those of the store.
pub async fn cast_doubt(
    ports: &Ports,
    books: &dyn BookStore,
    integrator_id: IntegratorId,
    why: &str,
) -> Result<Doubt, ServiceError> {
    let Book { withdrawals, refunds, .. } = books.book(integrator_id).await?;
    let mut doubt = Doubt::default();
    let service = WithdrawalService::new(ports.clone());
    for Withdrawal { id, state, .. } in withdrawals.into_iter().filter(|of| !of.state.is_final()) {
        if doubt.counts(&state) {
            service.doubt(integrator_id, id, why).await?;
        }
    }
    let service = RefundService::new(ports.clone());
    for Refund { id, state, .. } in refunds.into_iter().filter(|of| !of.state.is_final()) {
        if doubt.counts(&state) {
            service.doubt(integrator_id, id, why).await?;
        }
    }
    Ok(doubt)
}

impl Doubt {
    /// Whether what is in that state is in doubt.
    fn counts(&mut self, state: &OutgoingState) -> bool {
        let accepted = *state == OutgoingState::Accepted;
        let count = if accepted { &mut self.accepted } else { &mut self.in_doubt };
        *count = count.saturating_add(1);
        !accepted
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            in_doubt: self.in_doubt.saturating_add(other.in_doubt),
            accepted: self.accepted.saturating_add(other.accepted),
        }
    }
}

/// That a record is made anew of what the provider knows, and sent by nobody.
pub(crate) fn recovering() -> Seen {
    let detail =
        "the record was lost, and the provider knows what the same request has made: nothing is sent";
    Seen::new(EvidenceKind::Decision, Proof::Nothing, detail)
}

/// What the provider knows of a request whose record may have been lost. `named` by an `external_id`, else by an
/// `Idempotency-Key`: of another body, it stands for something else.
pub(crate) fn told(
    answer: Result<Option<OutgoingReport>, ProviderError>,
    named: bool,
) -> Result<Option<OutgoingReport>, ServiceError> {
    match answer {
        Ok(report) => Ok(report),
        Err(ProviderError::Mismatch(_)) if named => Err(ServiceError::ExternalIdConflict),
        Err(ProviderError::Mismatch(_)) => Err(ServiceError::IdempotencyMismatch),
        Err(_) => Err(ServiceError::ProviderUnavailable),
    }
}

impl Ports {
    /// [`ServiceError::Restored`] or [`ServiceError::ClockNotRight`] while no money goes out.
    pub(crate) fn may_go_out(&self) -> Result<(), ServiceError> {
        // How long ago something was sent, and whether that is long enough, would be told wrongly.
        if !self.is_clock_right() {
            return Err(ServiceError::ClockNotRight);
        }
        match self.outflow.outflow() {
            Outflow::Open | Outflow::AskFirst => Ok(()),
            Outflow::Shut => Err(ServiceError::Restored),
        }
    }

    /// Whether the clock is right: asked after it was read, of that too.
    pub(crate) fn is_clock_right(&self) -> bool {
        self.clock.is_right_for(Duration::ZERO)
    }

    /// That what was to be sent was not, when nothing goes out.
    pub(crate) fn held_back(&self) -> Option<Seen> {
        let why = match self.may_go_out() {
            Ok(()) => return None,
            Err(ServiceError::ClockNotRight) => "held back: this node's clock is not right",
            Err(_) => "held back: the books were restored from a backup",
        };
        Some(Seen::new(EvidenceKind::Answer, Proof::NotSent, why))
    }

    /// Tells operators that the provider has sent what the restored wallet doesn't hold.
    pub(crate) async fn tell_unfunded(
        &self,
        resource: ResourceRef,
        amount: Amount,
    ) -> Result<(), ServiceError> {
        let detail = format!(
            "{} centavos left before the restore, and the wallet does not hold them",
            amount.cents().get()
        );
        let finding = Transition::new(resource.integrator_id, self.clock.now());
        self.apply_change(finding.find(resource, "sent_before_restore", detail)).await.map(|_| ())
    }
}

/// That a record is in doubt since now.
pub(crate) fn doubted(why: &str) -> Seen {
    Seen::new(EvidenceKind::Decision, Proof::Unknown, why)
}
