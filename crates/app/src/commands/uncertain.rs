//! `pix-gateway uncertain`: money whose outcome nobody knows, and what is known of it.

use std::process::ExitCode;

use pix_domain::evidence::Evidence;
use pix_domain::ids::ResourceRef;
use pix_domain::money::Cents;
use pix_domain::time::{Clock, Timestamp};
use pix_domain::withdrawals::OutgoingState;
use serde_json::{Value, json};

use super::{answer, rfc3339};
use crate::config::Config;
use crate::store::Store;
use crate::system::SystemClock;

/// One movement.
struct Item {
    resource: ResourceRef,
    external_id: String,
    state: &'static str,
    held: Cents,
    since: Timestamp,
    last: Option<Evidence>,
}

/// Runs the subcommand.
pub async fn run(config: &Config, as_json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    let mut items = Vec::new();
    for integrator in store.integrators.list().await? {
        let book = store.books.book(integrator.id).await?;
        let uncertain = |state: &OutgoingState| state.is_uncertain() || *state == OutgoingState::NeedsReview;
        for withdrawal in book.withdrawals.iter().filter(|withdrawal| uncertain(&withdrawal.state)) {
            items.push(Item {
                resource: withdrawal.resource(),
                external_id: withdrawal.external_id.as_str().to_owned(),
                state: withdrawal.state.name(),
                held: withdrawal.total(),
                since: withdrawal.submitted_at,
                last: None,
            });
        }
        for refund in book.refunds.iter().filter(|refund| uncertain(&refund.state)) {
            items.push(Item {
                resource: refund.resource(),
                external_id: refund.external_id.as_str().to_owned(),
                state: refund.state.name(),
                held: refund.total(),
                since: refund.submitted_at,
                last: None,
            });
        }
    }
    for item in &mut items {
        item.last = store.records.evidence.list(item.resource).await?.pop();
    }
    items.sort_by_key(|item| (item.since, item.resource));
    let now = SystemClock.now();
    let listed: Vec<Value> = items.iter().map(|item| item.as_json(now)).collect();
    Ok(answer(as_json, &Value::Array(listed), || {
        if items.is_empty() {
            return "nothing is uncertain".to_owned();
        }
        items.iter().map(|item| item.as_text(now)).collect::<Vec<_>>().join("\n")
    }))
}

impl Item {
    fn age_s(&self, now: Timestamp) -> u64 {
        now.since(self.since).as_secs()
    }

    fn as_json(&self, now: Timestamp) -> Value {
        let last = self.last.as_ref().map(|evidence| {
            json!({
                "at": rfc3339(evidence.at),
                "kind": evidence.kind.as_str(),
                "proves": evidence.proof.as_str(),
                "detail": evidence.detail,
            })
        });
        json!({
            "integrator": self.resource.integrator_id.to_string(),
            "kind": self.resource.kind.as_str(),
            "uuid": self.resource.id.to_string(),
            "external_id": self.external_id,
            "state": self.state,
            "held": self.held.to_string(),
            "since": rfc3339(self.since),
            "age_s": self.age_s(now),
            "last_evidence": last,
        })
    }

    fn as_text(&self, now: Timestamp) -> String {
        let last = self.last.as_ref().map_or_else(
            || "no evidence".to_owned(),
            |evidence| {
                let (at, kind) = (rfc3339(evidence.at), evidence.kind.as_str());
                format!("{at} {kind}: {} ({})", evidence.proof.as_str(), evidence.detail)
            },
        );
        format!(
            "{} {} {} of {}, held {}, for {} s; last: {last}",
            self.resource.kind.as_str(),
            self.resource.id,
            self.state,
            self.resource.integrator_id,
            self.held,
            self.age_s(now),
        )
    }
}
