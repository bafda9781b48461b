//! What two operators decide about a movement whose outcome nobody knows. The rules are those of
//! [`pix_domain::decisions`]; here is what an operator sees of them.

use actix_web::web::Path;
use pix_domain::audit_log::{Action, LogEntry};
use pix_domain::decisions::{Decided, Decision, PROPOSAL_LIFETIME, REASON_CHARS, Seen, Verdict};
use pix_domain::time::Timestamp;
use pix_domain::transactions::Transaction;
use pix_domain::withdrawals::OutgoingState;

use super::records::Found;
use super::{Page, parsed};
use crate::door::{Failed, Posted, Visit};
use crate::html::{Markup, button, el, field, hidden, p, section, text, void};
use crate::page;
use crate::show::{time, transaction_path};

/// The field that says which proposal the page has shown: its number, or nothing.
const SEEN: &str = "seen";

/// A proposal that waits for a second operator.
pub(super) struct Proposal<'a> {
    entry: &'a LogEntry,
    verdict: Verdict,
}

impl<'a> Proposal<'a> {
    /// The one among `acts`, newest first, about a movement that was last sent at `submitted_at`.
    pub(super) fn among(acts: &'a [LogEntry], submitted_at: Timestamp, now: Timestamp) -> Option<Self> {
        let newest = acts.iter().find_map(|entry| Some((entry, verdict_of(entry.action)?)));
        let (entry, (verdict, is_proposal)) = newest?;
        (is_proposal && entry.at >= submitted_at && now.since(entry.at) < PROPOSAL_LIFETIME)
            .then_some(Self { entry, verdict })
    }

    /// Who proposed what.
    pub(super) fn shown(&self) -> Markup {
        text(format!("{} proposed: {}", self.entry.operator.as_str(), self.verdict.as_str()))
    }

    /// Until when it holds.
    fn until(&self) -> Markup {
        Markup::all([text(". It holds until "), time(self.entry.at.plus(PROPOSAL_LIFETIME)), text(" UTC.")])
    }
}

/// The verdict that an act is about, and whether it is a proposal.
const fn verdict_of(action: Action) -> Option<(Verdict, bool)> {
    match action {
        Action::CompletedProposed => Some((Verdict::Completed, true)),
        Action::FailedProposed => Some((Verdict::Failed, true)),
        Action::CompletedConfirmed => Some((Verdict::Completed, false)),
        Action::FailedConfirmed => Some((Verdict::Failed, false)),
        _ => None,
    }
}

/// The form, of what may be decided; nothing, of all else.
pub(super) fn form(visit: &Visit, found: &Found, acts: &[LogEntry]) -> Markup {
    let Some((state, submitted_at, _)) = found.outgoing() else { return Markup::none() };
    if state.is_final() || *state == OutgoingState::Queued {
        return Markup::none();
    }
    let proposal = Proposal::among(acts, submitted_at, visit.console.now());
    let own = |proposal: &Proposal<'_>| proposal.entry.operator.is_same_as(&visit.session.operator);
    let told = match &proposal {
        Some(proposal) => {
            let next = if own(proposal) {
                "You proposed it: another operator has to confirm it."
            } else {
                "Say the same below to confirm it, if you know it too and not only from whoever proposed it."
            };
            let reason = format!("Reason: {}", proposal.entry.detail);
            el(
                "div",
                &[("class", "proposal")],
                [el("p", &[], [proposal.shown(), proposal.until()]), p(reason), p(next)],
            )
        }
        None => p(
            "Wait for the provider's answer as long as you can. What two operators decide moves the money: the first proposes, and nothing moves; another confirms within 24 hours.",
        ),
    };
    let choice = |value: &'static str, words: &'static str| {
        let radio = [("type", "radio"), ("name", "verdict"), ("value", value), ("required", "")];
        el("label", &[("class", "choice")], [void("input", &radio), text(words)])
    };
    let choices = el(
        "fieldset",
        &[],
        [
            el("legend", &[], [text("What became of it")]),
            choice("completed", "Completed: the money left."),
            choice("failed", "Failed: it did not leave and will not. What is held is released."),
        ],
    );
    let (least, most) = (REASON_CHARS.start().to_string(), REASON_CHARS.end().to_string());
    let reason = field(
        "How you know (the integrator sees this)",
        "reason",
        &[("required", ""), ("minlength", &least), ("maxlength", &most), ("autocomplete", "off")],
    );
    let seen = proposal.as_ref().map_or_else(String::new, |proposal| proposal.entry.number.to_string());
    let action = format!("{}/resolve", transaction_path(found.resource().id));
    let words = if proposal.as_ref().is_some_and(|proposal| !own(proposal)) { "Confirm" } else { "Propose" };
    section(
        "Decide by hand",
        [told, page::form(visit, &action, "stack", [hidden(SEEN, &seen), choices, reason, button(words)])],
    )
}

/// Proposes, or confirms.
pub(super) async fn decide(posted: Posted, path: Path<String>) -> Page {
    let visit = &posted.visit;
    let id = parsed(&path)?;
    visit.console.ports.stores.lookups.locate(id).await?.ok_or(Failed::NotFound)?;
    let seen = match posted.field(SEEN) {
        "" => Seen::Nothing,
        number => Seen::Proposal(number.parse().map_err(|_wrong| Failed::Wrong("This form can't be read."))?),
    };
    let verdict = match posted.field("verdict") {
        "completed" => Verdict::Completed,
        "failed" => Verdict::Failed,
        _ => return Err(Failed::Wrong("Say what became of it: completed or failed.")),
    };
    let decision = Decision {
        id,
        verdict,
        reason: posted.field("reason").to_owned(),
        operator: visit.session.operator.clone(),
        seen,
    };
    let came = visit.console.ports.acts.decide(decision).await;
    let came = came.map(|decided| match decided {
        Decided::ByEvidence(transaction) => {
            format!("Nothing was to be decided: the provider knew, and it is {}.", state_of(&transaction))
        }
        Decided::Proposed(_, _, replaced) => {
            let contrary = replaced
                .map(|who| {
                    format!(" It stands in the place of the contrary, which {} had proposed.", who.as_str())
                })
                .unwrap_or_default();
            format!(
                "Proposed: it is {}. Nothing has moved. Another operator has to confirm it.{contrary}",
                verdict.as_str()
            )
        }
        Decided::Done(transaction) => format!("Decided by two operators: it is {}.", state_of(&transaction)),
    });
    Ok(visit.tell(&transaction_path(id), came))
}

const fn state_of(transaction: &Transaction) -> &'static str {
    match transaction {
        Transaction::Charge(charge) => charge.state.name(),
        Transaction::Withdrawal(withdrawal) => withdrawal.state.name(),
        Transaction::Refund(refund) => refund.state.name(),
    }
}
