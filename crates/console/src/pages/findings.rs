//! What an operator has to look at, each with what to do about it.

use super::{Names, Page};
use crate::door::Visit;
use crate::html::{p, prose, section, table, text};
use crate::page::{Place, page};
use crate::show::{integrator, record};

/// How many findings are shown.
const MAX_SHOWN: usize = 500;
/// The findings of how many integrators are read.
const MAX_READ: usize = 1_000;

/// The page.
pub(super) async fn show(visit: Visit) -> Page {
    let ports = &visit.console.ports;
    let names = Names::of(&visit).await?;
    let mut all = Vec::new();
    for owner in names.0.keys().take(MAX_READ) {
        // The newest of each, as many as fit at the most.
        let found = ports.books.findings(*owner).await?;
        all.extend(found.into_iter().rev().take(MAX_SHOWN.saturating_sub(all.len())));
    }
    let is_whole = all.len() < MAX_SHOWN && names.0.len() <= MAX_READ;
    let rows = all.into_iter().map(|finding| {
        let owner = finding.resource.integrator_id;
        let advice = ports.watch.advice(&finding.code);
        vec![
            text(finding.code.replace('_', " ")),
            record(finding.resource),
            integrator(owner, names.name(owner)),
            text(finding.detail),
            text(advice),
        ]
    });
    let heads = ["Finding", "Record", "Integrator", "Detail", "What to do"];
    let listed = table("Findings by integrator, the newest of each first", &heads, rows, "No findings.");
    let hint = if is_whole {
        p("A finding is never removed: it says what was reported, and stays true.")
    } else {
        prose(format!("The first {MAX_SHOWN} only; `pix-gateway findings` shows all."))
    };
    Ok(page(
        &visit,
        Place::Findings,
        "Findings",
        [section("Reports that can't be right or contradict what is final", [listed]), hint],
    ))
}
