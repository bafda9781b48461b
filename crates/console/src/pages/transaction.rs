//! One charge, withdrawal, refund or split, with all that is known of it.

use actix_web::web::Path;
use pix_domain::audit_log::LogEntry;
use pix_domain::charges::{Charge, Failure, Receipt};
use pix_domain::evidence::Evidence;
use pix_domain::ids::{ChargeId, IntegratorId, ResourceKind, ResourceRef};
use pix_domain::postbacks::events::EventQuery;
use pix_domain::refunds::Refund;
use pix_domain::splits::{Part, Share, Split};
use pix_domain::wallet::store::EntryQuery;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

use super::records::Found;
use super::{Names, Page, parsed, postbacks, resolve};
use crate::door::{Failed, Visit};
use crate::html::{Markup, code, el, facts, section, table, text};
use crate::page::{Place, page};
use crate::show::{self, money, none, party, pix_key, record, state, text_if, time, time_if};

/// How many postings are shown.
const MAX_POSTINGS: u32 = 200;
/// How many events are shown.
const MAX_EVENTS: u32 = 50;
/// How many acts of operators are shown.
pub(super) const MAX_ACTS: u32 = 20;
/// How many entries of its evidence are shown, newest last.
const MAX_EVIDENCE: usize = 200;
/// How many refunds of a charge are shown.
const MAX_REFUNDS: usize = 100;

/// The page of a charge, withdrawal or refund.
pub(super) async fn show(visit: Visit, path: Path<String>) -> Page {
    let id = parsed(&path)?;
    let resource = visit.console.ports.stores.lookups.locate(id).await?.ok_or(Failed::NotFound)?;
    of(&visit, resource).await
}

/// The page of a split.
pub(super) async fn show_split(visit: Visit, path: Path<(String, String)>) -> Page {
    let (owner, id) = path.into_inner();
    let resource = ResourceRef {
        integrator_id: IntegratorId(parsed(&owner)?),
        kind: ResourceKind::Split,
        id: parsed(&id)?,
    };
    of(&visit, resource).await
}

async fn of(visit: &Visit, resource: ResourceRef) -> Page {
    let ports = &visit.console.ports;
    let found = Found::read(&ports.stores, resource).await?.ok_or(Failed::NotFound)?;
    let names = Names::of(visit).await?;
    let acts = ports.stores.audit_log.about(&resource.id.to_string(), MAX_ACTS).await?;
    let owner = show::integrator(resource.integrator_id, names.name(resource.integrator_id));
    let mut body = vec![resolve::form(visit, &found, &acts)];
    body.push(match &found {
        Found::Charge(charge) => of_charge(charge, owner),
        Found::Withdrawal(withdrawal) => of_withdrawal(withdrawal, owner),
        Found::Refund(refund) => of_refund(refund, owner),
        Found::Split(split) => of_split(split, owner, &names),
    });
    if let Found::Charge(charge) = &found {
        body.extend(parts_of(visit, charge, &names).await?);
    }
    if found.outgoing().is_some() {
        let all = ports.stores.evidence.list(resource).await?;
        body.push(evidence(all));
    }
    body.push(postings(visit, resource).await?);
    body.push(events(visit, resource).await?);
    body.push(acts_of(&acts));
    let title = format!("{} {}", capitalised(resource.kind.as_str()), resource.id);
    Ok(page(visit, Place::Elsewhere, &title, body))
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

fn failure(failure: &Failure) -> Markup {
    text(format!("{}: {}", failure.code, failure.message))
}

fn of_charge(charge: &Charge, owner: Markup) -> Markup {
    let credited = charge.credited.as_ref();
    let why = match &charge.state {
        pix_domain::charges::ChargeState::Failed(why) => failure(why),
        _ => none(),
    };
    let end_to_end = credited.and_then(|credited| credited.first.end_to_end_id());
    section(
        "What it is",
        [facts([
            ("State", state(charge.state.name())),
            ("Why it failed", why),
            ("Integrator", owner),
            ("Amount", money(charge.amount.cents())),
            ("Paid", money(charge.amount_paid())),
            ("Fee", credited.map_or_else(none, |credited| money(credited.fee))),
            ("Refunded", money(charge.refunded)),
            ("In refunds under way", money(charge.refund_reserved)),
            ("Taken back by force", money(charge.taken_back)),
            ("External id", code(charge.external_id.as_str())),
            (
                "Provider's id",
                charge.ticket.as_ref().map_or_else(none, |made| code(made.provider_id.as_str())),
            ),
            ("End-to-end id", end_to_end.map_or_else(none, |id| code(id.as_str()))),
            ("Payer (masked)", party(&charge.payer)),
            ("Paid by (masked)", credited.map_or_else(none, |credited| party(&credited.paid_by))),
            ("Paid at (UTC)", time_if(credited.map(|credited| credited.paid_at))),
            ("Code ends (UTC)", time(charge.expires_at)),
            ("Made (UTC)", time(charge.created_at)),
            ("Last changed (UTC)", time(charge.updated_at)),
        ])],
    )
}

fn of_withdrawal(one: &Withdrawal, owner: Markup) -> Markup {
    section(
        "What it is",
        [facts([
            ("State", state(one.state.name())),
            ("Why it failed", why(&one.state)),
            ("Integrator", owner),
            ("Amount", money(one.amount.cents())),
            ("Fee", money(one.fee)),
            ("Came back", money(one.returned)),
            ("Left though it had failed", text(if one.settled_late { "yes" } else { "no" })),
            ("External id", code(one.external_id.as_str())),
            ("Provider's id", one.provider_id.as_ref().map_or_else(none, |id| code(id.as_str()))),
            ("End-to-end id", one.end_to_end_id.as_deref().map_or_else(none, code)),
            ("Payee (masked)", party(&one.payee.party)),
            ("PIX key (masked)", pix_key(&one.payee.key)),
            ("Last sent (UTC)", time(one.submitted_at)),
            ("Final (UTC)", time_if(one.completed_at)),
            ("Made (UTC)", time(one.created_at)),
            ("Last changed (UTC)", time(one.updated_at)),
        ])],
    )
}

fn of_refund(one: &Refund, owner: Markup) -> Markup {
    let charge =
        ResourceRef { integrator_id: one.integrator_id, kind: ResourceKind::Charge, id: one.charge_id.0 };
    section(
        "What it is",
        [facts([
            ("State", state(one.state.name())),
            ("Why it failed", why(&one.state)),
            ("Integrator", owner),
            ("Of", record(charge)),
            ("Amount", money(one.amount.cents())),
            ("Fee", money(one.fee)),
            ("External id", code(one.external_id.as_str())),
            ("Provider's id", one.provider_id.as_ref().map_or_else(none, |id| code(id.as_str()))),
            ("Return id", one.return_id.as_deref().map_or_else(none, code)),
            ("Last sent (UTC)", time(one.submitted_at)),
            ("Final (UTC)", time_if(one.completed_at)),
            ("Made (UTC)", time(one.created_at)),
            ("Last changed (UTC)", time(one.updated_at)),
        ])],
    )
}

fn of_split(one: &Split, owner: Markup, names: &Names) -> Markup {
    let charge = ResourceRef { integrator_id: one.from, kind: ResourceKind::Charge, id: one.charge_id.0 };
    section(
        "What it is",
        [facts([
            ("Integrator", owner),
            ("Of", record(charge)),
            ("Owner of the charge", show::integrator(one.from, names.name(one.from))),
            ("Amount", money(one.amount)),
            ("Taken back", money(one.taken_back)),
            ("Made (UTC)", time(one.created_at)),
            ("Last changed (UTC)", time(one.updated_at)),
        ])],
    )
}

fn why(state: &OutgoingState) -> Markup {
    match state {
        OutgoingState::Failed(why) => failure(why),
        _ => none(),
    }
}

/// What a charge has besides: what came in, what went back, who shares it.
async fn parts_of(visit: &Visit, charge: &Charge, names: &Names) -> Result<Vec<Markup>, Failed> {
    let stores = &visit.console.ports.stores;
    let (owner, id): (IntegratorId, ChargeId) = (charge.integrator_id, charge.id);
    let received = stores.charges.receipts(owner, id).await?;
    let refunds = stores.refunds.list_of_charge(owner, id).await?;
    let rows = refunds.iter().rev().take(MAX_REFUNDS).map(|refund| {
        vec![
            record(refund.resource()),
            state(refund.state.name()),
            money(refund.amount.cents()),
            time(refund.created_at),
        ]
    });
    let heads = ["Refund", "State", "Amount", "Made (UTC)"];
    let mut parts = vec![
        section("Payments", [payments(&received)]),
        section("Refunds", [table("Newest refunds first", &heads, rows, "No refunds.")]),
    ];
    if !charge.split.is_empty() {
        parts.push(section("Split", [shares(&charge.split, names)]));
    }
    Ok(parts)
}

fn payments(received: &[Receipt]) -> Markup {
    let rows = received.iter().map(|receipt| {
        let payment = &receipt.payment;
        vec![
            code(payment.key.to_text()),
            money(payment.amount.cents()),
            party(&payment.payer),
            time(payment.paid_at),
        ]
    });
    let heads = ["PIX", "Amount", "From (masked)", "Settled (UTC)"];
    table("Every PIX that came in", &heads, rows, "Nothing came in.")
}

fn shares(shares: &[Share], names: &Names) -> Markup {
    let rows = shares.iter().map(|share| {
        let split =
            ResourceRef { integrator_id: share.recipient, kind: ResourceKind::Split, id: share.split_id.0 };
        let part = match &share.part {
            Part::Percentage(percent) => text(format!("{} %", percent.plain())),
            Part::Amount(amount) => money(amount.cents()),
        };
        // There is a record once it has brought something.
        let brought = if share.amount.is_zero() { none() } else { record(split) };
        vec![
            show::integrator(share.recipient, names.name(share.recipient)),
            part,
            money(share.amount),
            money(share.taken_back),
            brought,
        ]
    });
    let heads = ["Recipient", "Part", "Brought", "Taken back", "Record"];
    table("Who shares it", &heads, rows, "Nobody shares it.")
}

fn evidence(mut all: Vec<Evidence>) -> Markup {
    let surplus = all.len().saturating_sub(MAX_EVIDENCE);
    let rows = all.drain(..).skip(surplus).map(|seen| {
        vec![
            time(seen.at),
            text(seen.kind.as_str()),
            text(seen.proof.as_str().replace('_', " ")),
            text(seen.detail),
        ]
    });
    let heads = ["When (UTC)", "What", "Proves", "Detail"];
    let rows: Vec<_> = rows.collect();
    section("Evidence", [table("What was done and heard, oldest first", &heads, rows, "No evidence.")])
}

async fn postings(visit: &Visit, resource: ResourceRef) -> Result<Markup, Failed> {
    let wallets = &visit.console.ports.stores.wallets;
    let query = EntryQuery { resource_id: Some(resource.id), ..EntryQuery::after(0, MAX_POSTINGS) };
    let entries = wallets.entries(resource.integrator_id, &query).await?;
    let rows = entries.iter().map(|entry| {
        let posting = entry.posting;
        vec![
            text(entry.number.to_string()),
            time(entry.at),
            text(posting.reason.as_str().replace('_', " ")),
            text(format!("{} → {}", posting.debit.as_str(), posting.credit.as_str())),
            money(posting.amount),
            money(entry.available_after),
            money(entry.held_after),
        ]
    });
    let heads = ["Entry", "When (UTC)", "Reason", "From → to", "Amount", "Available after", "Held after"];
    Ok(section("Postings", [table("Postings, in their order", &heads, rows, "No money has moved.")]))
}

async fn events(visit: &Visit, resource: ResourceRef) -> Result<Markup, Failed> {
    let ports = &visit.console.ports;
    let owner = resource.integrator_id;
    let query = EventQuery { resource_id: Some(resource.id), limit: MAX_EVENTS, ..EventQuery::default() };
    let listed = ports.events.events(owner, query).await?;
    let mut attempts = Vec::new();
    for one in listed.iter().filter(|one| one.delivery.is_some()) {
        for attempt in ports.deliveries.attempts(one.event.key).await? {
            attempts.push(vec![
                time(attempt.at),
                text(one.event.kind.public_name().unwrap_or("–")),
                text(attempt.outcome),
                text_if(attempt.status.map(|status| status.to_string()).as_deref()),
                text(format!("{} ms", attempt.took_ms)),
            ]);
        }
    }
    let heads = ["When (UTC)", "Event", "Outcome", "Status", "Took"];
    let tried = table("Attempts to deliver", &heads, attempts, "Nothing was sent to a postback URL.");
    let heading = el("h3", &[], [text("Attempts")]);
    Ok(section("Events and deliveries", [postbacks::table_of(visit, owner, &listed), heading, tried]))
}

fn acts_of(acts: &[LogEntry]) -> Markup {
    let rows = acts.iter().map(|act| {
        vec![time(act.at), text(act.operator.as_str()), text(act.action.as_str()), text(&act.detail)]
    });
    let heads = ["When (UTC)", "Operator", "Act", "Detail"];
    section("Acts of operators", [table("Newest first", &heads, rows, "Nobody has decided anything.")])
}
