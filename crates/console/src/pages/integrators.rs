//! Integrators: who they are, what they have, their keys, fees and limits.

use actix_web::web::Path;
use pix_domain::credentials::{ApiKey, Integrator, IntegratorStatus, Scopes};
use pix_domain::fees::{FeeRule, FeeSchedule};
use pix_domain::limits::{LimitKind, Most, Standing, Windows, standings};
use pix_domain::list::ListQuery;
use pix_domain::money::Cents;
use pix_domain::time::Timestamp;
use pix_domain::wallet::Wallet;

use super::records::Found;
use super::{Page, integrator};
use crate::PATH;
use crate::door::{Failed, Posted, Visit};
use crate::html::{Markup, button, code, el, facts, hidden, link, p, prose, section, table, text};
use crate::page::{self, Place, page};
use crate::show::{self, integrator_path, money, none, record, state, time, time_if};

/// How many integrators are shown.
const MAX_SHOWN: usize = 500;
/// How many of the newest records of each kind are shown.
const NEWEST: u32 = 10;

const fn word(status: IntegratorStatus) -> &'static str {
    match status {
        IntegratorStatus::Active => "active",
        IntegratorStatus::Suspended => "suspended",
    }
}

/// All of them.
pub(super) async fn list(visit: Visit) -> Page {
    let all = visit.console.ports.stores.integrators.list().await?;
    let rows = all.iter().take(MAX_SHOWN).map(|one| {
        vec![
            show::integrator(one.id, &one.name),
            state(word(one.status)),
            code(one.id.to_string()),
            time(one.created_at),
        ]
    });
    let heads = ["Name", "Status", "Uuid", "Made (UTC)"];
    let listed = table("Oldest first", &heads, rows, "There are no integrators yet.");
    let hint = if all.len() > MAX_SHOWN {
        prose(format!("{MAX_SHOWN} of {}; `pix-gateway integrator list` shows all.", all.len()))
    } else {
        prose("`pix-gateway integrator create` makes one.")
    };
    Ok(page(&visit, Place::Integrators, "Integrators", [section("Who they are", [listed, hint])]))
}

/// One of them.
pub(super) async fn show(visit: Visit, path: Path<String>) -> Page {
    let one = integrator(&visit, &path).await?;
    let ports = &visit.console.ports;
    let now = visit.console.now();
    let wallet = ports.stores.wallets.wallet(one.id).await?;
    let keys = ports.keys.list(one.id).await?;
    let fees = ports.stores.fees.current(one.id).await?;
    let policy = ports.stores.limits.policy(one.id).await?;
    let windows = Windows::at(now);
    let sent = ports.stores.limits.sent(one.id, &windows).await?;
    let stand = standings(&policy, &windows, sent, None);
    let body = [
        of_integrator(&visit, &one, wallet),
        section("Keys", [of_keys(&visit, &one, &keys, now)]),
        section("Fees", [of_fees(&fees)]),
        section("Limits of what goes out", [of_limits(&stand)]),
        section("Newest charges and withdrawals", [newest(&visit, &one).await?]),
    ];
    Ok(page(&visit, Place::Integrators, &one.name, body))
}

fn of_integrator(visit: &Visit, one: &Integrator, wallet: Wallet) -> Markup {
    let is_active = one.status == IntegratorStatus::Active;
    let (words, says) = if is_active {
        ("Suspend", "It can read and charge, and can't move money out until it is resumed.")
    } else {
        ("Resume", "It can move money out again.")
    };
    let action = format!("{}/suspend", integrator_path(one.id));
    let to = hidden("suspended", if is_active { "yes" } else { "no" });
    let act = el(
        "details",
        &[],
        [
            el("summary", &[], [text(format!("{words} this integrator…"))]),
            p(says),
            page::form(visit, &action, "row", [to, button(words)]),
        ],
    );
    let known = facts([
        ("Status", state(word(one.status))),
        ("Available", money(wallet.available)),
        ("Held", money(wallet.held)),
        ("Owed", money(wallet.owed)),
        ("Uuid", code(one.id.to_string())),
        ("Made (UTC)", time(one.created_at)),
        ("Postbacks", link(&format!("{PATH}/postbacks/{}", one.id), "What it was not told")),
    ]);
    section("Who it is", [known, act])
}

fn of_keys(visit: &Visit, owner: &Integrator, keys: &[ApiKey], now: Timestamp) -> Markup {
    let rows = keys.iter().map(|key| {
        let stands = match (key.revoked_at, key.has_expired(now)) {
            (Some(at), _) => Markup::all([state("revoked"), text(" "), time(at)]),
            (None, true) => text("expired"),
            (None, false) => state("live"),
        };
        let scopes = if key.scopes == Scopes::ALL { "everything".to_owned() } else { key.scopes.to_string() };
        let from: Vec<_> = key.allowed_ips.iter().map(ToString::to_string).collect();
        let from = if from.is_empty() { "anywhere".to_owned() } else { from.join(" ") };
        vec![
            code(&key.public_id),
            stands,
            text(scopes),
            text(from),
            time_if(key.expires_at),
            time_if(key.last_used_at),
            if key.revoked_at.is_some() { none() } else { revoking(visit, owner, key) },
        ]
    });
    let heads = ["Key", "Stands", "For", "From", "Ends (UTC)", "Last used (UTC)", ""];
    let listed = table("Keys, oldest first", &heads, rows, "It has no keys.");
    Markup::all([
        listed,
        prose("`pix-gateway key` makes, changes and rotates keys: a secret is never shown here."),
    ])
}

fn revoking(visit: &Visit, owner: &Integrator, key: &ApiKey) -> Markup {
    let action = format!("{}/revoke", integrator_path(owner.id));
    el(
        "details",
        &[],
        [
            el("summary", &[], [text("Revoke…")]),
            p("For good, with its tokens."),
            page::form(visit, &action, "", [hidden("key", &key.public_id), button("Revoke")]),
        ],
    )
}

fn of_fees(fees: &FeeSchedule) -> Markup {
    let FeeSchedule { version, cash_in, cash_out, refund } = fees;
    let rows = [("a paid charge", cash_in), ("a withdrawal", cash_out), ("a refund", refund)];
    let rows = rows.map(|(name, rule)| {
        let FeeRule { fixed, percent, min, max } = rule;
        vec![
            text(name),
            money(*fixed),
            text(format!("{} %", percent.plain())),
            money(*min),
            max.map_or_else(none, money),
        ]
    });
    let heads = ["For", "Fixed", "Share", "At least", "At most"];
    let hint = format!("Version {version}. `pix-gateway fees set` puts another version in force.");
    Markup::all([table("Fees in force", &heads, rows, ""), p(hint)])
}

fn of_limits(stand: &[Standing]) -> Markup {
    let shown = |kind: LimitKind, value: Option<i64>| match value {
        Some(count) if kind.is_count() => text(count.to_string()),
        Some(cents) => Cents::new(cents).map_or_else(none, money),
        None => none(),
    };
    let rows = stand.iter().map(|one| {
        let then = one.then.map_or_else(none, |raise| {
            let to = raise.to.map_or_else(|| text("no limit"), |most| shown(one.kind, Some(most.get())));
            Markup::all([to, text(" from "), time(raise.at)])
        });
        vec![
            text(one.kind.as_str().replace('_', " ")),
            shown(one.kind, one.most.map(Most::get)),
            shown(one.kind, one.used),
            shown(one.kind, one.left()),
            then,
        ]
    });
    let heads = ["Limit", "Most", "Used", "Left", "Then"];
    let listed = table("Limits in force", &heads, rows, "Nothing is limited.");
    Markup::all([listed, prose("`pix-gateway limits set` changes them.")])
}

async fn newest(visit: &Visit, owner: &Integrator) -> Result<Markup, Failed> {
    let stores = &visit.console.ports.stores;
    let query = ListQuery { limit: NEWEST, ..ListQuery::default() };
    let charges = stores.charges.list(owner.id, &query).await?;
    let withdrawals = stores.withdrawals.list(owner.id, &query).await?;
    let charges = charges.into_iter().map(|one| Found::Charge(Box::new(one)));
    let mut all: Vec<_> =
        charges.chain(withdrawals.into_iter().map(|one| Found::Withdrawal(Box::new(one)))).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.created_at()));
    let rows = all.iter().map(|one| {
        vec![
            record(one.resource()),
            state(one.state()),
            money(one.amount()),
            text(one.external_id().unwrap_or("–")),
            time(one.created_at()),
        ]
    });
    let heads = ["Record", "State", "Amount", "External id", "Made (UTC)"];
    Ok(table("Newest first", &heads, rows, "It has asked for nothing yet."))
}

/// Suspends, or resumes.
pub(super) async fn suspend(posted: Posted, path: Path<String>) -> Page {
    let visit = &posted.visit;
    let one = integrator(visit, &path).await?;
    let suspended = match posted.field("suspended") {
        "yes" => true,
        "no" => false,
        _ => return Err(Failed::Wrong("Say whether it is to be suspended.")),
    };
    let came = visit.console.ports.acts.suspend(&visit.session.operator, one.id, suspended).await;
    let words = if suspended { "It is suspended." } else { "It is active again." };
    Ok(visit.tell(&integrator_path(one.id), came.map(|()| words.to_owned())))
}

/// Revokes a key.
pub(super) async fn revoke(posted: Posted, path: Path<String>) -> Page {
    let visit = &posted.visit;
    let one = integrator(visit, &path).await?;
    let key = posted.field("key");
    let known = visit.console.ports.keys.find(key).await?;
    if known.is_none_or(|known| known.integrator_id != one.id) {
        return Err(Failed::NotFound);
    }
    let came = visit.console.ports.acts.revoke(&visit.session.operator, key).await;
    Ok(visit.tell(&integrator_path(one.id), came.map(|()| format!("Key {key} is revoked."))))
}
