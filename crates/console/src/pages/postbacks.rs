//! Receivers that fail or are off, what was given up, and sending it again.

use actix_web::web::Path;
use chrono::DateTime;
use pix_domain::credentials::Integrator;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::delivery::{DeliveryState, Endpoint, EndpointId, Standing};
use pix_domain::postbacks::events::{EventQuery, ListedEvent};
use pix_domain::postbacks::service::MAX_REPLAYED;
use pix_domain::time::Timestamp;

use super::{Page, integrator, parsed};
use crate::door::{Failed, Posted, Visit};
use crate::html::{Markup, button, code, el, field, hidden, link, p, section, table, text};
use crate::page::{self, Place, page};
use crate::show::{self, record, state, time};
use crate::{PATH, Refusal};

/// The endpoints of how many integrators are read.
const MAX_READ: usize = 1_000;
/// How many endpoints are shown.
const MAX_ENDPOINTS: usize = 200;
/// How many events a page has.
const PER_PAGE: u32 = 100;

fn path_of(id: IntegratorId) -> String {
    format!("{PATH}/postbacks/{id}")
}

/// The endpoints that fail, whosever they are.
pub(super) async fn show(visit: Visit) -> Page {
    let ports = &visit.console.ports;
    let all = ports.stores.integrators.list().await?;
    let backlog = ports.deliveries.backlog().await?;
    let mut failing: Vec<(Endpoint, &Integrator)> = Vec::new();
    for owner in all.iter().take(MAX_READ) {
        let found = ports.deliveries.endpoints(owner.id).await?;
        failing.extend(found.into_iter().map(|endpoint| (endpoint, owner)));
    }
    failing.sort_by_key(|(endpoint, _)| (endpoint.off.is_none(), endpoint.failing_since));
    failing.truncate(MAX_ENDPOINTS);
    let rows = failing.iter().map(|(endpoint, owner)| {
        let mut cells = vec![link(&path_of(owner.id), &owner.name)];
        cells.extend(cells_of(&visit, owner.id, endpoint));
        cells
    });
    let heads = ["Integrator", "Address", "Stands", "Failing since (UTC)", "Last failure", ""];
    let listed = table("Endpoints that have failed lately", &heads, rows, "No endpoint has failed lately.");
    let told = p(format!(
        "{} postbacks wait, {} were given up, {} endpoints are off.",
        backlog.waiting, backlog.dead, backlog.endpoints_off
    ));
    let hint = p(format!(
        "At most {MAX_ENDPOINTS} endpoints, those that are off first. An integrator's page of postbacks has what it was not told, and sends it again."
    ));
    let others =
        all.iter().take(MAX_ENDPOINTS).map(|owner| el("li", &[], [link(&path_of(owner.id), &owner.name)]));
    let by_owner = section("By integrator", [el("ul", &[], others)]);
    Ok(page(&visit, Place::Postbacks, "Postbacks", [section("Endpoints", [told, listed, hint]), by_owner]))
}

/// What is shown of an endpoint.
fn cells_of(visit: &Visit, owner: IntegratorId, endpoint: &Endpoint) -> Vec<Markup> {
    let stands = match endpoint.off {
        Some((at, reason)) => {
            Markup::all([state("off"), text(format!(" {}, since ", reason.as_str())), time(at)])
        }
        None => text("failing"),
    };
    let action = format!("{}/enable", path_of(owner));
    let id = hidden("endpoint", &endpoint.id.0.to_string());
    let words = if endpoint.off.is_some() { "Switch on" } else { "Forget" };
    vec![
        code(&endpoint.address),
        stands,
        time(endpoint.failing_since),
        Markup::all([text(&endpoint.failure), text(", "), time(endpoint.failed_at)]),
        page::form(visit, &action, "", [id, button(words)]),
    ]
}

/// An integrator's endpoints, and what it was not told.
pub(super) async fn show_events(visit: Visit, path: Path<String>) -> Page {
    let owner = integrator(&visit, &path).await?;
    let ports = &visit.console.ports;
    let after = visit.parameter("after").parse().unwrap_or(0);
    let query = EventQuery { after, delivered: Some(false), limit: PER_PAGE, ..EventQuery::default() };
    let listed = ports.events.events(owner.id, query).await?;
    let endpoints = ports.deliveries.endpoints(owner.id).await?;
    let rows = endpoints.iter().take(MAX_ENDPOINTS).map(|endpoint| cells_of(&visit, owner.id, endpoint));
    let heads = ["Address", "Stands", "Failing since (UTC)", "Last failure", ""];
    let more = listed.last().filter(|_| listed.len() == usize::try_from(PER_PAGE).unwrap_or(usize::MAX));
    let more = more.map_or_else(Markup::none, |last| {
        let href = format!("{}?after={}", path_of(owner.id), last.event.number);
        el("p", &[], [link(&href, "Later events")])
    });
    let replay = page::form(
        &visit,
        &format!("{}/replay", path_of(owner.id)),
        "row",
        [
            el(
                "div",
                &[],
                [field(
                    "Of events since (such as 2026-11-22T12:00:00Z; empty for all)",
                    "since",
                    &[("autocomplete", "off")],
                )],
            ),
            button("Deliver again"),
        ],
    );
    let body = [
        el("p", &[], [show::integrator(owner.id, "To the integrator")]),
        section(
            "Endpoints",
            [table("Endpoints that have failed lately", &heads, rows, "No endpoint has failed lately.")],
        ),
        section(
            "What was given up",
            [
                p(format!(
                    "Delivers what was given up again, at most {MAX_REPLAYED} at once. Receivers see the same events with the same ids."
                )),
                replay,
            ],
        ),
        section("Not delivered", [table_of(&visit, owner.id, &listed), more]),
    ];
    Ok(page(&visit, Place::Postbacks, &format!("Postbacks of {}", owner.name), body))
}

/// Events, how their deliveries stand, and a button that delivers each again.
pub(super) fn table_of(visit: &Visit, owner: IntegratorId, listed: &[ListedEvent]) -> Markup {
    let rows = listed.iter().map(|one| {
        let event = &one.event;
        let id = event.key.public_id();
        let again = one.postback_url().map_or_else(Markup::none, |_| {
            let action = format!("{}/redeliver", path_of(owner));
            page::form(visit, &action, "", [hidden("event", &id), button("Deliver again")])
        });
        vec![
            text(event.number.to_string()),
            time(event.at),
            text(event.kind.public_name().unwrap_or("–")),
            record(event.key.resource),
            delivery(one.delivery),
            again,
        ]
    });
    let heads = ["Number", "When (UTC)", "Event", "Of", "Delivery", ""];
    table("Events, in their order", &heads, rows, "No events.")
}

fn delivery(stands: Option<DeliveryState>) -> Markup {
    let Some(DeliveryState { standing, attempts }) = stands else { return text("goes nowhere") };
    match standing {
        Standing::Waiting(at) => {
            Markup::all([text(format!("waits after {attempts} attempts, until ")), time(at)])
        }
        Standing::Delivered => Markup::all([state("delivered"), text(format!(", attempt {attempts}"))]),
        Standing::Dead(reason) => {
            Markup::all([state("dead"), text(format!(" ({}) after {attempts} attempts", reason.as_str()))])
        }
    }
}

/// Switches an endpoint on again.
pub(super) async fn enable(posted: Posted, path: Path<String>) -> Page {
    let visit = &posted.visit;
    let owner = integrator(visit, &path).await?;
    let endpoint = EndpointId(parsed(posted.field("endpoint"))?);
    let came = visit.console.ports.acts.enable(&visit.session.operator, owner.id, endpoint).await;
    let words = "The endpoint is on. What it missed is sent below.";
    Ok(visit.tell(&path_of(owner.id), came.map(|()| words.to_owned())))
}

/// Delivers what was given up again.
pub(super) async fn replay(posted: Posted, path: Path<String>) -> Page {
    let visit = &posted.visit;
    let owner = integrator(visit, &path).await?;
    let since = since(posted.field("since"))?;
    let came = visit.console.ports.acts.replay(&visit.session.operator, owner.id, since).await;
    let told = |replayed: u64| {
        let more = if replayed == u64::from(MAX_REPLAYED) { " There may be more: do it again." } else { "" };
        format!("{replayed} postbacks are delivered again.{more}")
    };
    Ok(visit.tell(&path_of(owner.id), came.map(told)))
}

fn since(text: &str) -> Result<Option<Timestamp>, Failed> {
    const WRONG: Failed = Failed::Wrong("The time must be such as 2026-11-22T12:00:00Z.");
    if text.is_empty() {
        return Ok(None);
    }
    let time = DateTime::parse_from_rfc3339(text).map_err(|_wrong| WRONG)?;
    Ok(Some(Timestamp::from_micros(time.timestamp_micros())))
}

/// Delivers one event again.
pub(super) async fn redeliver(posted: Posted, path: Path<String>) -> Page {
    let visit = &posted.visit;
    let owner = integrator(visit, &path).await?;
    let event = posted.field("event").to_owned();
    let came: Result<(), Refusal> =
        visit.console.ports.acts.redeliver(&visit.session.operator, owner.id, &event).await;
    Ok(visit.tell(&path_of(owner.id), came.map(|()| format!("{event} is delivered again."))))
}
