//! The newest entries of the journal of administrative acts.

use super::Page;
use crate::PATH;
use crate::door::Visit;
use crate::html::{Markup, code, el, link, prose, section, table, text};
use crate::page::{Place, page};
use crate::show::time;

/// How many entries a page has.
const PER_PAGE: u32 = 100;

/// The page; `before` is the number before which it ends.
pub(super) async fn show(visit: Visit) -> Page {
    let log = &visit.console.ports.stores.audit_log;
    let newest = log.newest().await?;
    let end = newest.as_ref().map_or(0, |entry| entry.number).saturating_add(1);
    let before = visit.parameter("before").parse().unwrap_or(end).min(end);
    let after = before.saturating_sub(u64::from(PER_PAGE)).saturating_sub(1);
    let mut entries = log.list(after, PER_PAGE).await?;
    entries.retain(|entry| entry.number < before);
    let rows = entries.iter().rev().map(|entry| {
        vec![
            text(entry.number.to_string()),
            time(entry.at),
            text(entry.operator.as_str()),
            text(entry.action.as_str()),
            code(&entry.subject),
            text(&entry.detail),
        ]
    });
    let heads = ["Entry", "When (UTC)", "Operator", "Act", "On what", "Detail"];
    let listed = table("Newest first", &heads, rows, "Nothing was done yet.");
    let older = if after == 0 {
        Markup::none()
    } else {
        let href = format!("{PATH}/audit-log?before={}", after.saturating_add(1));
        el("p", &[], [link(&href, "Older entries")])
    };
    let hash = newest.map_or_else(Markup::none, |entry| {
        el(
            "p",
            &[("class", "hint")],
            [
                text("Newest hash: "),
                code(entry.hash.to_string()),
                text(". Written down elsewhere, it proves the whole journal."),
            ],
        )
    });
    let hint =
        prose("`pix-gateway audit-log verify` follows the chain of hashes from the first entry to the last.");
    Ok(page(&visit, Place::AuditLog, "Audit log", [section("Who did what", [listed, older]), hash, hint]))
}
