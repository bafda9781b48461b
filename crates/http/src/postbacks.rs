//! What an integrator is told of an event: the body of its postback, which the feed of events shows too.
//!
//! The form is the classic contract's: the fields of `consult-transaction`, within `requestBody` and flat beside it, of the
//! record as it was right after the event. Receivers of the family credit whatever says `RECEIVEPIX` and names their
//! transaction, so nothing but a confirmed payment of a charge says it.

use pix_domain::postbacks::events::{ListedEvent, ends_as_returned};
use pix_domain::postbacks::relay::PostbackBodies;
use pix_domain::time::Timestamp;
use pix_domain::transition::{EventKind, Record};
use pix_domain::withdrawals::OutgoingState;

use crate::json::Object;
use crate::time;
use crate::v2::transaction::{
    PAYMENT, RECEIVE_PIX, REFUND, of_charge, of_refund, of_split, of_withdrawal, wrapped,
};

/// The `statusId` of a withdrawal that was paid; the family knows [`FAILED`] besides, and no other.
const PAID: u64 = 1;
/// The `statusId` of a withdrawal that was not.
const FAILED: u64 = 3;

/// Makes the bodies of postbacks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bodies;

impl PostbackBodies for Bodies {
    fn body(&self, event: &ListedEvent) -> Option<String> {
        fields(event).map(|flat| wrapped(&flat).end())
    }

    /// A type that nobody credits, and no transaction that it could be taken for.
    fn ping(&self, message_id: &str, at: Timestamp) -> String {
        let flat = Object::new()
            .text("transactionType", "PING")
            .text("event", "ping")
            .text("eventId", message_id)
            .text("sent_at", &time::rfc3339(at));
        wrapped(&flat).end()
    }
}

/// The flat fields of an event's postback; `None` when integrators aren't told of it, or its record isn't of its kind.
pub(crate) fn fields(listed: &ListedEvent) -> Option<Object> {
    let event = &listed.event;
    let (name, mut transaction_type) = (event.kind.public_name()?, transaction_type(event.kind)?);
    let mut about_a_movement = is_about_a_movement(event.kind);
    let mut status = status_code(event.kind);
    let then = listed.record_then()?;
    if let Record::Withdrawal(withdrawal) = &then
        && ends_as_returned(event.kind, withdrawal, event.at)
    {
        // Nothing told of its end before: so this does, in the words that every receiver knows.
        let all_came_back = withdrawal.state == OutgoingState::Returned;
        status = Some(if all_came_back { (FAILED, "Returned") } else { (PAID, "Paid") });
        (transaction_type, about_a_movement) = (PAYMENT, false);
    }
    let amount = |whole| if about_a_movement { event.moved } else { whole };
    let mut flat = match &then {
        Record::Charge(charge) => of_charge(charge, transaction_type, amount(charge.amount.cents())),
        Record::Withdrawal(withdrawal) => {
            of_withdrawal(withdrawal, transaction_type, amount(withdrawal.amount.cents()))
        }
        Record::Refund(refund) => of_refund(refund),
        Record::Split(split) => of_split(split, transaction_type, amount(split.amount)),
    };
    if let Some((id, description)) = status {
        let code = Object::new().number("statusId", id).text("description", description);
        flat = flat.object("statusCode", code);
    }
    flat = flat
        .text("event", name)
        .text("eventId", &event.key.public_id())
        .number("sequence", event.key.sequence.0.into())
        .text("uuid", &event.key.resource.id.to_string());
    Some(match event.related {
        Some(refund) => flat.text("refundId", &refund.to_string()),
        None => flat,
    })
}

/// What an event is called in the classic contract, or beside it; `None` for what integrators aren't told.
const fn transaction_type(kind: EventKind) -> Option<&'static str> {
    Some(match kind {
        EventKind::ChargePaid => RECEIVE_PIX,
        EventKind::ChargePending => "CREATEDPIX",
        EventKind::ChargeFailed => "FAILEDPIX",
        EventKind::ChargePaidAgain => "ADDITIONALPIX",
        EventKind::ChargeExpired => "EXPIREDPIX",
        EventKind::ChargeCanceled => "CANCELEDPIX",
        EventKind::ChargeRefunded => "PIXREVERSAL",
        EventKind::ChargeRefundReleased => "PIXREVERSALFAILED",
        EventKind::ChargeTakenBack => "DISPUTEPIX",
        EventKind::WithdrawalCompleted
        | EventKind::WithdrawalFailed
        | EventKind::WithdrawalCanceled
        | EventKind::WithdrawalSettledLate => PAYMENT,
        EventKind::WithdrawalUncertain | EventKind::WithdrawalNeedsReview => "UNSETTLEDPIX",
        EventKind::WithdrawalReturned => "REVERTPIX",
        EventKind::RefundUncertain
        | EventKind::RefundNeedsReview
        | EventKind::RefundCompleted
        | EventKind::RefundFailed => REFUND,
        EventKind::SplitReceived => "SPLIT",
        EventKind::SplitTakenBack => "SPLITREVERSAL",
        EventKind::ChargeCreating
        | EventKind::ChargeRefundReserved
        | EventKind::WithdrawalCreated
        | EventKind::WithdrawalQueued
        | EventKind::WithdrawalSubmitting
        | EventKind::WithdrawalAccepted
        | EventKind::RefundCreated
        | EventKind::RefundQueued
        | EventKind::RefundSubmitting
        | EventKind::RefundAccepted => return None,
    })
}

/// Whether `amount` is what came in, went back or came back, and not what the record is over: of a payment, receivers credit
/// it.
const fn is_about_a_movement(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::ChargePaid
            | EventKind::ChargePaidAgain
            | EventKind::ChargeRefunded
            | EventKind::ChargeRefundReleased
            | EventKind::ChargeTakenBack
            | EventKind::WithdrawalReturned
            | EventKind::SplitReceived
            | EventKind::SplitTakenBack
    )
}

/// The end of a withdrawal, in the family's numbers. What isn't one has none.
const fn status_code(kind: EventKind) -> Option<(u64, &'static str)> {
    match kind {
        EventKind::WithdrawalCompleted | EventKind::WithdrawalSettledLate => Some((PAID, "Paid")),
        EventKind::WithdrawalFailed => Some((FAILED, "Failed")),
        EventKind::WithdrawalCanceled => Some((FAILED, "Canceled")),
        _ => None,
    }
}
