//! `pix-gateway findings`.

use std::process::ExitCode;

use anyhow::bail;
use pix_domain::audit::StoredFinding;
use pix_domain::ids::IntegratorId;
use pix_domain::seals::KeptDifference;
use pix_domain::seals::service::MAX_DIFFERENCES;
use serde_json::json;
use uuid::Uuid;

use super::answer;
use crate::config::Config;
use crate::store::Store;

/// What an operator does about each kind of finding. A test holds it against the domain's sources.
const ACTIONS: [(&str, &str); 20] = [
    (
        "accepted_though_not_sent",
        "the provider took what it had proved it never would: ask it what became of the payment by its end-to-end id; the books stay as they are until it says",
    ),
    (
        "amount_differs",
        "the payer paid another amount than was asked; what was paid is credited: agree with the integrator whether the rest is refunded or asked for",
    ),
    (
        "answer_mismatch",
        "an answer was about another id, amount or key: it was not believed; report it to the provider with the evidence of the record",
    ),
    (
        "completed_though_not_sent",
        "money left after its hold was released, and was taken from the wallet or is owed: look whether the integrator sent it again under another name",
    ),
    (
        "failed_though_completed",
        "the provider takes back that it completed: nothing was released; have it say in writing where the money is, and correct by a transfer",
    ),
    (
        "not_known_at_provider",
        "the provider doesn't know what the books say it has done: ask it by the end-to-end id, and compare with its statement; the books stay as they are",
    ),
    (
        "not_settled_at_provider",
        "the provider says that what it had completed, or what operators decided, isn't settled: have it say in writing where the money is",
    ),
    ("paid_again", "a payer paid twice; both are credited: let the integrator refund one"),
    (
        "paid_differs_at_provider",
        "the provider tells another sum of payments than is credited: compare with its statement; what is credited stays",
    ),
    (
        "postings_differ",
        "a record and its postings contradict each other: this is a defect or tampering; stop moving money out, keep the files, run `pix-gateway audit` and `audit --chain`",
    ),
    (
        "postings_without_record",
        "there are postings of a record that isn't there: this is a defect or tampering; stop moving money out, keep the files, run `pix-gateway audit` and `audit --chain`",
    ),
    (
        "receipt_changed",
        "the provider tells another amount or payer of a PIX that is credited: the first stands; compare with the provider's statement",
    ),
    (
        "receipt_of_another_charge",
        "the provider names one PIX for two charges: it was credited once; ask the provider which of them it paid",
    ),
    (
        "returned_less_at_provider",
        "the provider says that less came back than it had said: what is credited stays; have it say in writing where the money is",
    ),
    (
        "returned_more_than_paid",
        "the provider says more went back than was paid: what was paid was taken; compare with its statement",
    ),
    (
        "returned_more_than_sent",
        "the provider says more came back than was sent: the rest was not credited; compare with its statement",
    ),
    (
        "taken_back",
        "money of a payment went back without a refund, such as by MED: it was taken from the wallet or is owed; tell the integrator",
    ),
    (
        "taken_back_less_at_provider",
        "the provider says that less of the payment went back than it had said: what was taken stays taken; have it say in writing where the money is, and settle it with the integrator",
    ),
    (
        "unidentified_payment",
        "a payment has a name of another form than the credited one and was not credited: ask the provider for its end-to-end id",
    ),
    (
        "sent_before_restore",
        "the provider has sent what the restored wallet does not hold: settle it with the integrator, which is answered 503 until the wallet holds it",
    ),
];

/// What to do where a book contradicts itself.
const OF_SEALS: &str = "the book contradicts itself and is sealed no further: this is a defect or tampering; stop moving money out, keep the files, run `pix-gateway audit` and `audit --chain`";

/// What to do about a finding with that code.
pub fn action(code: &str) -> &'static str {
    let known = ACTIONS.iter().find(|(known, _)| *known == code);
    known.map_or("look at the record, and at its evidence", |(_, action)| action)
}

/// Runs the subcommand.
pub async fn run(config: &Config, integrator: Option<Uuid>, json: bool) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    let owners = match integrator.map(IntegratorId) {
        Some(id) if store.integrators.find(id).await?.is_none() => {
            bail!("there is no integrator {id}; `pix-gateway integrator list` shows all")
        }
        Some(id) => vec![id],
        None => store.integrators.list().await?.into_iter().map(|integrator| integrator.id).collect(),
    };
    let mut findings = Vec::new();
    let mut seals = store.seals.differences(MAX_DIFFERENCES).await?;
    seals.retain(|difference| owners.contains(&difference.integrator_id));
    for owner in owners {
        findings.extend(store.books.findings(owner).await?);
    }
    let shown: Vec<_> = seals.iter().map(seal_as_json).chain(findings.iter().map(as_json)).collect();
    Ok(answer(json, &json!(shown), || {
        let lines: Vec<_> = seals.iter().map(seal_as_text).chain(findings.iter().map(as_text)).collect();
        if lines.is_empty() { "no findings".to_owned() } else { lines.join("\n") }
    }))
}

fn as_json(finding: &StoredFinding) -> serde_json::Value {
    json!({
        "integrator": finding.resource.integrator_id.to_string(),
        "kind": finding.resource.kind.as_str(),
        "uuid": finding.resource.id.to_string(),
        "code": finding.code,
        "detail": finding.detail,
        "action": action(&finding.code),
    })
}

fn seal_as_json(difference: &KeptDifference) -> serde_json::Value {
    json!({
        "integrator": difference.integrator_id.to_string(),
        "kind": "seal",
        "uuid": null,
        "seal": difference.seal,
        "from_entry": difference.from,
        "through_entry": difference.to,
        "code": difference.code,
        "detail": difference.what,
        "action": OF_SEALS,
    })
}

fn seal_as_text(difference: &KeptDifference) -> String {
    format!("{difference} ({})\n    {OF_SEALS}", difference.code)
}

fn as_text(finding: &StoredFinding) -> String {
    let resource = finding.resource;
    format!(
        "{} {} of {}: {} ({})\n    {}",
        resource.kind.as_str(),
        resource.id,
        resource.integrator_id,
        finding.code,
        finding.detail,
        action(&finding.code)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// What stands between quotation marks in `text` and has the form of a code of a finding.
    fn codes(text: &str) -> impl Iterator<Item = &str> {
        text.split('"').skip(1).step_by(2).filter(|part| {
            part.contains('_') && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        })
    }

    #[test]
    fn there_is_something_to_do_about_every_finding_of_the_domain() {
        let domain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../domain/src");
        let mut told = BTreeSet::new();
        for file in [
            "charges/state.rs",
            "charges/service.rs",
            "withdrawals/state.rs",
            "refunds/state.rs",
            "ports.rs",
            "restore.rs",
            "proofs.rs",
        ] {
            let text = std::fs::read_to_string(domain.join(file)).unwrap();
            told.extend(codes(&text).map(str::to_owned));
        }
        // The reason of a refused charge, kinds of handles, and a phase.
        for other in ["not_created", "external_id", "idempotency_key", "ask_first"] {
            told.remove(other);
        }
        let known: BTreeSet<String> = ACTIONS.iter().map(|(code, _)| (*code).to_owned()).collect();
        assert_eq!(told, known);
    }
}
