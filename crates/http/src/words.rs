//! States of the domain in the words of either generation.

use pix_domain::charges::{Charge, ChargeState};
use pix_domain::splits::Split;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

/// Where a record stands, in v1's words.
pub(crate) struct Standing<'a> {
    pub(crate) status: &'static str,
    pub(crate) substatus: Option<&'a str>,
    pub(crate) outcome: &'static str,
}

fn outcome(uncertain: bool) -> &'static str {
    if uncertain { "uncertain" } else { "certain" }
}

/// A charge in v1's words.
pub(crate) fn charge(state: &ChargeState) -> Standing<'_> {
    Standing {
        status: state.name(),
        substatus: match state {
            ChargeState::Failed(failure) => Some(&failure.code),
            _ => None,
        },
        outcome: outcome(*state == ChargeState::Creating),
    }
}

/// The states of a public status of charges.
pub(crate) fn charge_states(status: &str) -> Option<&'static [&'static str]> {
    Some(match status {
        "creating" => &["creating"],
        "pending" => &["pending"],
        "paid" => &["paid"],
        "expired" => &["expired"],
        "canceled" => &["canceled"],
        "failed" => &["failed"],
        _ => return None,
    })
}

/// A withdrawal in v1's words.
pub(crate) fn withdrawal(state: &OutgoingState) -> Standing<'_> {
    let (status, substatus) = match state {
        OutgoingState::Queued => ("pending", "queued"),
        OutgoingState::Submitting
        | OutgoingState::Accepted
        | OutgoingState::Uncertain
        | OutgoingState::NeedsReview => ("processing", state.name()),
        OutgoingState::Completed => ("completed", "settled"),
        OutgoingState::Failed(failure) => ("failed", failure.code.as_str()),
        OutgoingState::Canceled => ("canceled", "by_integrator"),
        OutgoingState::Returned => ("returned", "full"),
    };
    Standing { status, substatus: Some(substatus), outcome: outgoing_outcome(state) }
}

/// The public statuses of withdrawals.
pub(crate) const WITHDRAWAL_STATUSES: [&str; 6] =
    ["pending", "processing", "completed", "failed", "canceled", "returned"];

/// The states of a public status of withdrawals.
pub(crate) fn withdrawal_states(status: &str) -> Option<&'static [&'static str]> {
    Some(match status {
        "pending" => &["queued"],
        "processing" => &["submitting", "accepted", "uncertain", "needs_review"],
        "completed" => &["completed"],
        "failed" => &["failed"],
        "canceled" => &["canceled"],
        "returned" => &["returned"],
        _ => return None,
    })
}

/// A refund in v1's words: it has no `pending`.
pub(crate) fn refund(state: &OutgoingState) -> Standing<'_> {
    let standing = withdrawal(state);
    if standing.status == "pending" { Standing { status: "processing", ..standing } } else { standing }
}

/// Whether anybody knows if it was sent. While it is being sent nobody does, and that is all there is to know after a
/// crash.
pub(crate) fn outgoing_outcome(state: &OutgoingState) -> &'static str {
    outcome(state.is_uncertain())
}

/// A charge in v2's words. One that went back wholly is `REFUNDED`, so that nobody delivers for it.
pub(crate) fn v2_charge(charge: &Charge) -> &'static str {
    match charge.state {
        ChargeState::Creating | ChargeState::Pending => "PENDING",
        ChargeState::Paid if charge.sent_back() == charge.amount_paid() => "REFUNDED",
        ChargeState::Paid => "PAID",
        ChargeState::Expired => "EXPIRED",
        ChargeState::Canceled => "CANCELED",
        ChargeState::Failed(_) => "FAILED",
    }
}

/// A split in v2's words. One that went back wholly is `REFUNDED`, as its charge is.
pub(crate) fn v2_split(split: &Split) -> &'static str {
    if split.kept().is_zero() { "REFUNDED" } else { "PAID" }
}

/// A withdrawal in v2's words. One that left though it is failed or canceled is `PAID`: v2 has no other field for it,
/// and whoever reads `FAILED` sends the money again.
pub(crate) fn v2_withdrawal(withdrawal: &Withdrawal) -> &'static str {
    match withdrawal.state {
        OutgoingState::Failed(_) | OutgoingState::Canceled if withdrawal.settled_late => {
            if withdrawal.returned == withdrawal.amount.cents() { "REFUNDED" } else { "PAID" }
        }
        _ => v2_outgoing(&withdrawal.state, "PAID"),
    }
}

/// A withdrawal or refund in v2's words; `done` is the word for one that is completed.
pub(crate) fn v2_outgoing(state: &OutgoingState, done: &'static str) -> &'static str {
    match state {
        OutgoingState::Queued
        | OutgoingState::Submitting
        | OutgoingState::Accepted
        | OutgoingState::Uncertain
        | OutgoingState::NeedsReview => "PENDING",
        OutgoingState::Completed => done,
        OutgoingState::Failed(_) => "FAILED",
        OutgoingState::Canceled => "CANCELED",
        OutgoingState::Returned => "REFUNDED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_movement_that_may_have_been_sent_is_uncertain_until_the_provider_has_it() {
        for state in [OutgoingState::Submitting, OutgoingState::Uncertain, OutgoingState::NeedsReview] {
            assert_eq!(withdrawal(&state).outcome, "uncertain", "{}", state.name());
        }
        for state in [OutgoingState::Queued, OutgoingState::Accepted, OutgoingState::Completed] {
            assert_eq!(withdrawal(&state).outcome, "certain", "{}", state.name());
        }
    }

    #[test]
    fn every_state_is_listed_under_exactly_one_public_status() {
        let mut listed: Vec<_> = WITHDRAWAL_STATUSES
            .iter()
            .flat_map(|status| withdrawal_states(status).unwrap())
            .copied()
            .collect();
        let mut states = OutgoingState::NAMES.to_vec();
        listed.sort_unstable();
        states.sort_unstable();
        assert_eq!(listed, states);
        for state in ChargeState::NAMES {
            assert_eq!(charge_states(state), Some(&[state][..]));
        }
        assert_eq!(charge_states("queued"), None);
        assert_eq!(withdrawal_states("queued"), None);
    }
}
