//! The queue of what nobody knows: oldest first.

use pix_domain::evidence::Evidence;

use super::records::Found;
use super::resolve::Proposal;
use super::transaction::MAX_ACTS;
use super::{Names, Page};
use crate::door::Visit;
use crate::html::{Markup, p, section, table, text};
use crate::page::{Place, page};
use crate::show::{age, integrator, money, none, record, state, time};

/// How many movements are shown.
const MAX_SHOWN: u32 = 100;

/// The page.
pub(super) async fn show(visit: Visit) -> Page {
    let ports = &visit.console.ports;
    let now = visit.console.now();
    let names = Names::of(&visit).await?;
    let mut rows = Vec::new();
    for resource in ports.watch.uncertain(MAX_SHOWN).await? {
        let Some(found) = Found::read(&ports.stores, resource).await? else { continue };
        let Some((stands, submitted_at, held)) = found.outgoing().filter(|(stands, ..)| !stands.is_final())
        else {
            continue;
        };
        let acts = ports.stores.audit_log.about(&resource.id.to_string(), MAX_ACTS).await?;
        let proposal = Proposal::among(&acts, submitted_at, now).map_or_else(none, |found| found.shown());
        let last = ports.stores.evidence.list(resource).await?.pop();
        rows.push(vec![
            record(resource),
            state(stands.name()),
            money(held),
            integrator(resource.integrator_id, names.name(resource.integrator_id)),
            Markup::all([time(submitted_at), text(", for "), age(submitted_at, now)]),
            last.as_ref().map_or_else(none, seen),
            proposal,
        ]);
    }
    let heads = ["Record", "State", "Held", "Integrator", "Sent (UTC)", "Last evidence", "Proposal"];
    let hint = p(format!(
        "The {MAX_SHOWN} that were sent first. Nothing is sent again and nothing is released by time: each ends by the provider's answer, or by two operators who agree on its page."
    ));
    let queue = table("Oldest first", &heads, rows, "Nothing is uncertain.");
    Ok(page(&visit, Place::Uncertain, "Uncertain and in review", [section("Queue", [queue]), hint]))
}

fn seen(evidence: &Evidence) -> Markup {
    let words = format!("{}: {}", evidence.kind.as_str(), evidence.proof.as_str().replace('_', " "));
    Markup::all([text(words), text(", "), time(evidence.at)])
}
