//! `pix-gateway postback`: what became of postbacks, and sending them again.

use std::process::ExitCode;

use anyhow::{Context, bail};
use pix_domain::audit_log::Action;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::delivery::{DeliveryState, Endpoint, EndpointId, Lane, ReplayQuery, Standing};
use pix_domain::postbacks::events::{EventKey, EventQuery, ListedEvent, PostbackScope};
use pix_domain::postbacks::service::MAX_REPLAYED;
use pix_domain::time::Clock;
use pix_domain::transition::EventKind;
use serde_json::{Value, json};

use super::secret::known;
use super::{answer, rfc3339, time};
use crate::cli;
use crate::config::Config;
use crate::journal::Journal;
use crate::store::Store;
use crate::system::SystemClock;

/// The most events that are listed at once.
const MAX_LISTED: u32 = 1_000;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::Postback) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    match command {
        cli::Postback::List { integrator, undelivered, after, json } => {
            let id = known(&store, integrator).await?;
            let delivered = undelivered.then_some(false);
            let query = EventQuery { after, delivered, limit: MAX_LISTED, ..EventQuery::default() };
            let events = store.postbacks.events.events(id, query).await?;
            let rows: Vec<_> = events.iter().map(row).collect();
            Ok(answer(json, &json!(rows), || events.iter().map(text).collect::<Vec<_>>().join("\n")))
        }
        cli::Postback::Redeliver { integrator, event, json } => {
            let id = known(&store, integrator).await?;
            redeliver(&store, &Journal::of_user(&store, config)?, id, &event).await?;
            Ok(answer(json, &json!({"redelivered": event}), || format!("{event} is delivered again")))
        }
        cli::Postback::Replay { integrator, since, until, types, delivered, json } => {
            let id = known(&store, integrator).await?;
            let query = ReplayQuery {
                since: since.as_deref().map(time).transpose()?,
                until: until.as_deref().map(time).transpose()?,
                kinds: types.iter().map(|name| kind(name)).collect::<anyhow::Result<_>>()?,
                delivered,
                limit: MAX_REPLAYED,
            };
            let journal = Journal::of_user(&store, config)?;
            let replayed = replay(&store, &journal, id, query).await?;
            Ok(answer(json, &json!({"replayed": replayed}), || replayed_text(replayed)))
        }
        cli::Postback::Endpoints { integrator, json } => {
            let id = known(&store, integrator).await?;
            let all = store.postbacks.deliveries.endpoints(id).await?;
            let rows: Vec<_> = all.iter().map(endpoint).collect();
            Ok(answer(json, &json!(rows), || all.iter().map(endpoint_text).collect::<Vec<_>>().join("\n")))
        }
        cli::Postback::Enable { integrator, endpoint, json } => {
            let id = known(&store, integrator).await?;
            let journal = Journal::of_user(&store, config)?;
            enable(&store, &journal, id, EndpointId(endpoint)).await?;
            let value = json!({"endpoint": endpoint.to_string(), "enabled": true});
            Ok(answer(json, &value, || {
                format!("endpoint {endpoint} is on; `pix-gateway postback replay` sends what it missed")
            }))
        }
        cli::Postback::Scope { integrator, events, json } => {
            let id = known(&store, integrator).await?;
            let scope = match events.as_str() {
                "default" => None,
                name => Some(
                    PostbackScope::from_name(name).context("--events must be outcomes, all or default")?,
                ),
            };
            Journal::of_user(&store, config)?
                .record(Action::PostbackScopeSet, &id.to_string(), &events)
                .await?;
            store.integrators.set_postback_scope(id, scope).await?;
            Ok(answer(json, &json!({"uuid": id.to_string(), "events": events}), || {
                format!("transactions that integrator {id} makes from now on: events {events}")
            }))
        }
    }
}

/// Delivers one event again.
pub async fn redeliver(
    store: &Store,
    journal: &Journal,
    id: IntegratorId,
    event: &str,
) -> anyhow::Result<()> {
    let key = EventKey::parse(id, event)
        .with_context(|| format!("\"{event}\" is not the id of an event: they look like evt_c…_2"))?;
    let listed = store.postbacks.events.event(key).await?;
    let listed = listed.with_context(|| format!("integrator {id} has no event {event}"))?;
    let Some(url) = listed.postback_url() else {
        bail!(
            "{event} has nowhere to go: its transaction has no postbackUrl, or it is one that is only listed"
        );
    };
    journal.record(Action::PostbacksReplayed, &id.to_string(), event).await?;
    store.postbacks.deliveries.redeliver(key, Lane::of(id, url), SystemClock.now()).await?;
    Ok(())
}

/// Delivers again what `query` names; how many.
pub async fn replay(
    store: &Store,
    journal: &Journal,
    id: IntegratorId,
    query: ReplayQuery,
) -> anyhow::Result<u64> {
    let types: Vec<_> = query.kinds.iter().filter_map(|kind| kind.public_name()).collect();
    let detail = json!({
        "since": query.since.map(rfc3339),
        "until": query.until.map(rfc3339),
        "types": types,
        "delivered": query.delivered,
    });
    journal.record(Action::PostbacksReplayed, &id.to_string(), &detail.to_string()).await?;
    Ok(store.postbacks.deliveries.replay(id, query, SystemClock.now()).await?)
}

/// Switches an endpoint on again.
pub async fn enable(
    store: &Store,
    journal: &Journal,
    id: IntegratorId,
    endpoint: EndpointId,
) -> anyhow::Result<()> {
    journal.record(Action::EndpointEnabled, &id.to_string(), &endpoint.0.to_string()).await?;
    if !store.postbacks.deliveries.forget_endpoint(id, endpoint).await? {
        bail!(
            "integrator {id} has no endpoint {} that failed lately; `pix-gateway postback endpoints` shows all",
            endpoint.0
        );
    }
    Ok(())
}

fn text(listed: &ListedEvent) -> String {
    let event = &listed.event;
    let name = event.kind.public_name().unwrap_or_default();
    let (id, at) = (event.key.public_id(), rfc3339(event.at));
    format!("{:>6}  {at}  {name:22}  {id}  {}", event.number, shown(listed.delivery))
}

fn endpoint_text(one: &Endpoint) -> String {
    let off = one.off.map_or_else(
        || "fails".to_owned(),
        |(at, reason)| format!("OFF since {} ({})", rfc3339(at), reason.as_str()),
    );
    let since = rfc3339(one.failing_since);
    format!("{}  {off}  failing since {since}  {}  {}", one.id.0, one.failure, one.address)
}

fn replayed_text(replayed: u64) -> String {
    let more = if replayed == u64::from(MAX_REPLAYED) { "; there may be more: run it again" } else { "" };
    format!("{replayed} postbacks are delivered again{more}")
}

fn kind(name: &str) -> anyhow::Result<EventKind> {
    EventKind::from_public_name(name).with_context(|| {
        let known: Vec<_> = EventKind::ALL.iter().filter_map(|kind| kind.public_name()).collect();
        format!("there is no event \"{name}\"; there are {}", known.join(", "))
    })
}

fn shown(delivery: Option<DeliveryState>) -> String {
    match delivery {
        None => "goes nowhere".to_owned(),
        Some(DeliveryState { standing, attempts }) => match standing {
            Standing::Waiting(at) => format!("waits until {} after {attempts} attempts", rfc3339(at)),
            Standing::Delivered => format!("delivered at attempt {attempts}"),
            Standing::Dead(reason) => format!("DEAD ({}) after {attempts} attempts", reason.as_str()),
        },
    }
}

fn row(listed: &ListedEvent) -> Value {
    let event = &listed.event;
    let delivery = listed.delivery.map(|DeliveryState { standing, attempts }| {
        let (status, next, reason) = match standing {
            Standing::Waiting(at) => ("waiting", Some(rfc3339(at)), None),
            Standing::Delivered => ("delivered", None, None),
            Standing::Dead(reason) => ("dead", None, Some(reason.as_str())),
        };
        json!({"status": status, "attempts": attempts, "next_attempt_at": next, "reason": reason})
    });
    json!({
        "number": event.number,
        "id": event.key.public_id(),
        "type": event.kind.public_name(),
        "created_at": rfc3339(event.at),
        "delivery": delivery,
    })
}

fn endpoint(endpoint: &Endpoint) -> Value {
    let off = endpoint.off.map(|(at, reason)| json!({"at": rfc3339(at), "reason": reason.as_str()}));
    json!({
        "id": endpoint.id.0.to_string(),
        "address": endpoint.address,
        "failing_since": rfc3339(endpoint.failing_since),
        "last_failure_at": rfc3339(endpoint.failed_at),
        "failure": endpoint.failure,
        "off": off,
    })
}
