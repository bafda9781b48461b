//! How everything is: the money, what waits, this node.

use pix_domain::follow_up::OpenMovements;
use pix_domain::postbacks::delivery::Backlog;
use pix_domain::time::Timestamp;

use super::Page;
use crate::door::Visit;
use crate::html::{Markup, el, facts, link, section, table, text};
use crate::page::{Place, REFRESH_SECONDS, page, watched};
use crate::show::{age, cents, span, state, text_if, time};
use crate::{Node, Overdue, PATH, Totals};

/// The page. It loads itself again, unless that is paused.
pub(super) async fn show(visit: Visit) -> Page {
    let ports = &visit.console.ports;
    let now = visit.console.now();
    let node = ports.watch.node().await;
    let totals = ports.watch.totals().await?;
    let open = ports.stores.follow_ups.open_movements().await?;
    let backlog = ports.deliveries.backlog().await?;
    let is_paused = !visit.parameter("paused").is_empty();
    let hint = if is_paused {
        el("p", &[("class", "hint")], [text("Paused. "), link(PATH, "Refresh by itself")])
    } else {
        let every = format!("Refreshed every {REFRESH_SECONDS} seconds. ");
        el("p", &[("class", "hint")], [text(every), link(&format!("{PATH}?paused=1"), "Pause")])
    };
    let grid = el(
        "div",
        &[("class", "grid")],
        [of_node(&node), of_money(&totals, now), of_lags(&totals, now), of_postbacks(&backlog, now)],
    );
    let body = [grid, of_open(&open, now), hint];
    let shown = if is_paused { page } else { watched };
    Ok(shown(&visit, Place::Overview, "Overview", body))
}

fn of_node(node: &Node) -> Markup {
    let ready = match (node.is_ready, node.is_stopping) {
        (true, _) => state("ready"),
        (false, true) => text("stopping"),
        (false, false) => state("unavailable"),
    };
    let database = match &node.database {
        Ok(()) => text("takes writes"),
        Err(reason) => el("span", &[("class", "state bad")], [text(reason)]),
    };
    let workers = node.workers.iter().map(|(name, is_alive)| {
        Markup::all([text(*name), text(" "), state(if *is_alive { "alive" } else { "stopped" }), text(" ")])
    });
    section(
        "This node",
        [facts([
            ("State", ready),
            ("Database", database),
            ("Workers", Markup::all(workers)),
            ("Breaker", node.breaker.map_or_else(crate::show::none, state)),
            ("Requests", text_if(node.answered.map(rate).as_deref())),
            ("Version", text(node.version)),
        ])],
    )
}

/// So many requests a second, with one decimal.
fn rate((requests, within): (u64, std::time::Duration)) -> String {
    let tenths = u128::from(requests).saturating_mul(10_000).checked_div(within.as_millis()).unwrap_or(0);
    format!("{}.{} /s", tenths / 10, tenths % 10)
}

fn of_money(totals: &Totals, now: Timestamp) -> Markup {
    let audited = totals.audited.map_or_else(
        || text("never"),
        |audited| {
            let found = if audited.is_clean { "clean" } else { "differences" };
            Markup::all([state(found), text(", "), age(audited.at, now), text(" ago")])
        },
    );
    section(
        "Money",
        [facts([
            ("Available", cents(totals.available_cents)),
            ("Held", cents(totals.held_cents)),
            ("Owed", cents(totals.owed_cents)),
            ("Newest audit", audited),
        ])],
    )
}

fn of_lags(totals: &Totals, now: Timestamp) -> Markup {
    let lag = |overdue: Overdue| match overdue.since {
        Some(since) => text(format!("{}, for {}", overdue.count, span(now.since(since)))),
        None => text("none"),
    };
    section(
        "Overdue",
        [facts([
            ("Follow-ups", lag(totals.follow_ups)),
            ("Callbacks", lag(totals.callbacks)),
            ("Postbacks", lag(totals.deliveries)),
        ])],
    )
}

fn of_postbacks(backlog: &Backlog, now: Timestamp) -> Markup {
    let off = match backlog.endpoints_off {
        0 => text("0"),
        count => {
            el("span", &[("class", "state bad")], [link(&format!("{PATH}/postbacks"), count.to_string())])
        }
    };
    section(
        "Postbacks",
        [facts([
            ("Waiting", text(backlog.waiting.to_string())),
            ("Oldest", backlog.oldest_at.map_or_else(crate::show::none, |at| age(at, now))),
            ("Given up", text(backlog.dead.to_string())),
            ("Endpoints off", off),
        ])],
    )
}

fn of_open(open: &[OpenMovements], now: Timestamp) -> Markup {
    let rows = open.iter().map(|open| {
        vec![
            text(open.kind.as_str()),
            state(&open.state),
            text(open.count.to_string()),
            cents(open.held_cents),
            time(open.oldest_at),
            age(open.oldest_at, now),
        ]
    });
    let heads = ["Kind", "State", "Count", "Held", "Oldest (UTC)", "Age"];
    section(
        "Open money",
        [
            table("Withdrawals and refunds that are not final", &heads, rows, "Nothing is open."),
            el("p", &[], [link(&format!("{PATH}/uncertain"), "What is uncertain")]),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn a_rate_has_one_decimal() {
        let rate = |requests, seconds| super::rate((requests, Duration::from_secs(seconds)));
        assert_eq!(
            (rate(125, 10), rate(0, 60), rate(3, 0)),
            ("12.5 /s".into(), "0.0 /s".into(), "0.0 /s".into())
        );
    }
}
