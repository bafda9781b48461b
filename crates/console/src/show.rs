//! How values look. Names, documents and keys of people are masked, wherever they are shown.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat};
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::Cents;
use pix_domain::party::PixKey;
use pix_domain::provider::Party;
use pix_domain::text::PersonName;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::PATH;
use crate::html::{Markup, el, link, text};

/// A time, in UTC.
pub(crate) fn time(at: Timestamp) -> Markup {
    let time = DateTime::from_timestamp_micros(at.micros()).unwrap_or_default();
    let exact = time.to_rfc3339_opts(SecondsFormat::Secs, true);
    el("time", &[("datetime", &exact)], [text(time.format("%Y-%m-%d %H:%M:%S").to_string())])
}

/// A time that may not be.
pub(crate) fn time_if(at: Option<Timestamp>) -> Markup {
    at.map_or_else(none, time)
}

/// How long, in its two largest units.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// How long ago.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> Markup {
    text(span(now.since(since)))
}

/// Money.
pub(crate) fn money(amount: Cents) -> Markup {
    cents(u64::try_from(amount.get()).unwrap_or(0))
}

/// Centavos as reais: `R$ 1,234.50`.
pub(crate) fn cents(cents: u64) -> Markup {
    let reais = (cents / 100).to_string();
    let first = reais.len() % 3;
    let mut grouped = String::new();
    for (place, digit) in reais.chars().enumerate() {
        if place > 0 && place % 3 == first {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    el("span", &[("class", "money")], [text(format!("R$\u{a0}{grouped}.{:02}", cents % 100))])
}

/// The name of a state, which says how good it is in words, and by its look as well.
pub(crate) fn state(name: &str) -> Markup {
    let class = match name {
        "paid" | "completed" | "delivered" | "active" | "ready" | "clean" | "closed" | "alive" | "live" => {
            "state good"
        }
        "failed" | "uncertain" | "needs_review" | "dead" | "off" | "suspended" | "unavailable"
        | "differences" | "open" | "revoked" | "expired key" | "stopped" => "state bad",
        _ => "state",
    };
    el("span", &[("class", class)], [text(name.replace('_', " "))])
}

/// Nothing to be shown.
pub(crate) fn none() -> Markup {
    el("span", &[("class", "hint")], [text("–")])
}

/// A text that may not be.
pub(crate) fn text_if(words: Option<&str>) -> Markup {
    words.map_or_else(none, text)
}

/// A name of which the first letter of each word is left.
pub(crate) fn masked_name(name: &PersonName) -> String {
    let words = name.as_str().split_whitespace();
    words
        .filter_map(|word| word.chars().next())
        .map(|letter| format!("{letter}***"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A person or firm, masked.
pub(crate) fn party(party: &Party) -> Markup {
    let name = party.name.as_ref().map(masked_name);
    let document = party.document.as_ref().map(pix_domain::party::Document::masked);
    let known: Vec<_> = [name, document].into_iter().flatten().collect();
    if known.is_empty() { none() } else { text(known.join(", ")) }
}

/// A key of PIX, masked.
pub(crate) fn pix_key(key: &PixKey) -> Markup {
    text(format!("{} {}", key.kind(), key.masked()))
}

/// Where a record's page is.
pub(crate) fn path_of(resource: ResourceRef) -> String {
    match resource.kind {
        ResourceKind::Split => {
            format!("{PATH}/splits/{}/{}", resource.integrator_id, resource.id)
        }
        ResourceKind::Charge | ResourceKind::Withdrawal | ResourceKind::Refund => {
            transaction_path(resource.id)
        }
    }
}

/// Where the page of a charge, withdrawal or refund is.
pub(crate) fn transaction_path(id: Uuid) -> String {
    format!("{PATH}/transactions/{id}")
}

/// A link to a record.
pub(crate) fn record(resource: ResourceRef) -> Markup {
    Markup::all([
        text(resource.kind.as_str()),
        text(" "),
        el("a", &[("href", &path_of(resource)), ("class", "id")], [text(resource.id.to_string())]),
    ])
}

/// Where an integrator's page is.
pub(crate) fn integrator_path(id: IntegratorId) -> String {
    format!("{PATH}/integrators/{id}")
}

/// A link to an integrator.
pub(crate) fn integrator(id: IntegratorId, name: &str) -> Markup {
    link(&integrator_path(id), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_grouped_and_exact() {
        let shown = |value| cents(value).into_string();
        for (value, says) in [(0, "0.00"), (5, "0.05"), (123_456, "1,234.56"), (100_000_000, "1,000,000.00")]
        {
            assert!(shown(value).contains(&format!(">R$\u{a0}{says}<")), "{}", shown(value));
        }
    }

    #[test]
    fn a_span_has_two_units_at_most() {
        for (seconds, says) in [(9, "9 s"), (61, "1 min 1 s"), (7_260, "2 h 1 min"), (180_000, "2 d 2 h")] {
            assert_eq!(span(Duration::from_secs(seconds)), says);
        }
    }

    #[test]
    fn of_a_name_the_first_letters_are_left() {
        let name = PersonName::parse("Ana Maria Souza").unwrap();
        assert_eq!(masked_name(&name), "A*** M*** S***");
    }
}
