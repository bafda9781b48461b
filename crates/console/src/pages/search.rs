//! A record by whatever identifies it, whosever it is.

use std::collections::BTreeMap;

use pix_domain::credentials::Integrator;
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceRef, SplitId};
use pix_domain::postbacks::events::EventKey;
use pix_domain::text::ExternalId;
use uuid::Uuid;

use super::Page;
use super::records::Found;
use crate::door::{Posted, Visit};
use crate::html::{Markup, p, section, table, text};
use crate::page::{Place, page};
use crate::show::{integrator, money, record, state, time};

/// The records of how many integrators are looked through at most.
const MAX_SEARCHED: usize = 500;
/// The longest text that is looked for, in characters: no identifier is longer.
const MAX_CHARS: usize = 160;

/// The page before anything is looked for.
pub(super) async fn show(visit: Visit) -> Page {
    let hint = p("A uuid, an external id, an end-to-end id, the provider's id, or the id of an event.");
    Ok(page(&visit, Place::Elsewhere, "Search", [hint]))
}

/// The page with what was found.
pub(super) async fn search(posted: Posted) -> Page {
    let sought = posted.field("q").to_owned();
    let mut visit = posted.visit;
    if sought.is_empty() {
        return show(visit).await;
    }
    let all = visit.console.ports.stores.integrators.list().await?;
    let (found, is_whole) = match sought.chars().count() {
        count if count > MAX_CHARS => (Vec::new(), true),
        _ => find(&visit, &sought, &all).await?,
    };
    visit.sought = sought;
    let body = [results(&found, &all), limits(is_whole)];
    Ok(page(&visit, Place::Elsewhere, "Search", body))
}

fn limits(is_whole: bool) -> Markup {
    if is_whole {
        return Markup::none();
    }
    p(format!(
        "Looked through the first {MAX_SEARCHED} integrators only: there are more. A uuid finds what any of them has."
    ))
}

fn results(found: &[Found], all: &[Integrator]) -> Markup {
    let names: BTreeMap<IntegratorId, &str> = all.iter().map(|one| (one.id, one.name.as_str())).collect();
    let rows = found.iter().map(|found| {
        let resource = found.resource();
        vec![
            record(resource),
            state(found.state()),
            money(found.amount()),
            text(found.external_id().unwrap_or("–")),
            integrator(
                resource.integrator_id,
                names.get(&resource.integrator_id).copied().unwrap_or("unknown"),
            ),
            time(found.created_at()),
        ]
    });
    let heads = ["Record", "State", "Amount", "External id", "Integrator", "Made (UTC)"];
    section("Found", [table("What was found", &heads, rows, "Nothing has this identifier.")])
}

/// What has that identifier, and whether all integrators were looked through.
async fn find(visit: &Visit, sought: &str, all: &[Integrator]) -> Result<(Vec<Found>, bool), StoreError> {
    // Whose event it is stands in no id of one.
    let event = EventKey::parse(IntegratorId(Uuid::nil()), sought).map(|key| key.resource.id);
    if let Some(id) = event.or_else(|| Uuid::try_parse(sought).ok()) {
        let found = by_id(visit, id, all).await?;
        if found.is_some() {
            return Ok((found.into_iter().collect(), true));
        }
    }
    let mut found: BTreeMap<ResourceRef, Found> = BTreeMap::new();
    for owner in all.iter().take(MAX_SEARCHED) {
        for one in by_name(visit, owner.id, sought).await? {
            found.insert(one.resource(), one);
        }
    }
    Ok((found.into_values().collect(), all.len() <= MAX_SEARCHED))
}

async fn by_id(visit: &Visit, id: Uuid, all: &[Integrator]) -> Result<Option<Found>, StoreError> {
    let stores = &visit.console.ports.stores;
    if let Some(resource) = stores.lookups.locate(id).await? {
        return Found::read(stores, resource).await;
    }
    // Splits are found by whose they are.
    for owner in all.iter().take(MAX_SEARCHED) {
        if let Some(split) = stores.splits.find(owner.id, SplitId(id)).await? {
            return Ok(Some(Found::Split(Box::new(split))));
        }
    }
    Ok(None)
}

async fn by_name(visit: &Visit, owner: IntegratorId, sought: &str) -> Result<Vec<Found>, StoreError> {
    let stores = &visit.console.ports.stores;
    let mut found = Vec::new();
    if let Ok(name) = ExternalId::parse(sought) {
        let charge = stores.charges.find_by_external_id(owner, &name).await?;
        found.extend(charge.map(|one| Found::Charge(Box::new(one))));
        let withdrawal = stores.withdrawals.find_by_external_id(owner, &name).await?;
        found.extend(withdrawal.map(|one| Found::Withdrawal(Box::new(one))));
        let refund = stores.refunds.find_by_external_id(owner, &name).await?;
        found.extend(refund.map(|one| Found::Refund(Box::new(one))));
    }
    let charge = stores.charges.find_by_pix_id(owner, sought).await?;
    found.extend(charge.map(|one| Found::Charge(Box::new(one))));
    let withdrawal = stores.withdrawals.find_by_pix_id(owner, sought).await?;
    found.extend(withdrawal.map(|one| Found::Withdrawal(Box::new(one))));
    let refund = stores.refunds.find_by_pix_id(owner, sought).await?;
    found.extend(refund.map(|one| Found::Refund(Box::new(one))));
    Ok(found)
}
