//! `pix-gateway audit --chain`: every posting is read from the beginning, and every seal made again.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use pix_domain::ids::IntegratorId;
use pix_domain::seals::service::{Proof, all_heads, prove};
use pix_domain::seals::{SealDifference, SealHash, root};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::{answer, judged};
use crate::books::Signed;
use crate::config::Config;
use crate::store::Store;

/// What was found.
struct Report {
    proofs: Vec<Proof>,
    /// Where the chain isn't the one of an earlier statement.
    against: Vec<String>,
    root: SealHash,
}

/// Runs it; with `against`, the chain has to go on from the heads of that statement.
pub async fn run(config: &Config, against: Option<&Path>, as_json: bool) -> anyhow::Result<ExitCode> {
    let earlier = against.map(heads_of).transpose()?;
    let store = Store::open_existing(config).await?;
    let mut proofs = Vec::new();
    for head in all_heads(&*store.seals).await? {
        proofs.push(prove(&*store.seals, &*store.records.wallets, head.integrator_id).await?);
    }
    let against = match earlier {
        Some(heads) => compare(&store, heads).await?,
        None => Vec::new(),
    };
    let root = root(proofs.iter().filter_map(|proof| proof.newest));
    let report = Report { proofs, against, root };
    let told = answer(as_json, &report.as_json(), || report.as_text());
    Ok(judged(told, report.is_clean()))
}

/// A seal that a statement names.
struct Named {
    integrator_id: IntegratorId,
    seal: u64,
    hash: SealHash,
}

fn heads_of(path: &Path) -> anyhow::Result<Vec<Named>> {
    let signed = Signed::read(path)?;
    let heads = signed.statement()?;
    let named = |head: &Value| {
        let text = |name: &str| head.get(name)?.as_str();
        Some(Named {
            integrator_id: IntegratorId(Uuid::try_parse(text("integrator")?).ok()?),
            seal: head.get("seal")?.as_u64()?,
            hash: SealHash::parse(text("hash")?)?,
        })
    };
    let heads = heads.pointer("/chain/heads").and_then(Value::as_array);
    heads
        .and_then(|heads| heads.iter().map(named).collect())
        .with_context(|| format!("{} names no seals: it is no statement of the books", path.display()))
}

async fn compare(store: &Store, heads: Vec<Named>) -> anyhow::Result<Vec<String>> {
    let mut differences = Vec::new();
    for Named { integrator_id, seal, hash } in heads {
        let kept = store.seals.seals(integrator_id, seal.saturating_sub(1), 1).await?;
        match kept.first().filter(|kept| kept.number == seal) {
            Some(kept) if kept.hash == hash => {}
            Some(kept) => differences.push(format!(
                "integrator {integrator_id}, seal {seal}, entries up to {}: the statement has the hash {hash}, and the chain {}: all of it was made anew",
                kept.through(),
                kept.hash
            )),
            None => differences.push(format!(
                "integrator {integrator_id}, seal {seal}: the statement has it, and the chain doesn't"
            )),
        }
    }
    Ok(differences)
}

impl Report {
    fn is_clean(&self) -> bool {
        self.against.is_empty() && self.proofs.iter().all(|proof| proof.differences.is_empty())
    }

    fn differences(&self) -> impl Iterator<Item = &SealDifference> {
        self.proofs.iter().flat_map(|proof| &proof.differences)
    }

    fn as_json(&self) -> Value {
        let integrators = self.proofs.iter().map(|proof| {
            json!({
                "integrator": proof.integrator_id.to_string(),
                "seals": proof.seals,
                "entries": proof.entries,
                "unsealed": proof.unsealed,
                "newest_hash": proof.newest.map(|seal| seal.hash.to_string()),
            })
        });
        let differences = self.differences().map(|difference| {
            json!({
                "integrator": difference.integrator_id.to_string(),
                "seal": difference.seal,
                "from_entry": difference.from,
                "to_entry": difference.to,
                "code": difference.fault.code(),
                "what": difference.fault.to_string(),
            })
        });
        json!({
            "clean": self.is_clean(),
            "root": self.root.to_string(),
            "integrators": integrators.collect::<Vec<_>>(),
            "differences": differences.collect::<Vec<_>>(),
            "against": self.against,
        })
    }

    fn as_text(&self) -> String {
        let line = |proof: &Proof| {
            let newest = proof.newest.map_or_else(|| "none".to_owned(), |seal| seal.hash.to_string());
            format!(
                "{}  {} seals, {} entries, {} of them not sealed; newest {newest}",
                proof.integrator_id, proof.seals, proof.entries, proof.unsealed
            )
        };
        let mut lines: Vec<_> = self.proofs.iter().map(line).collect();
        lines.extend(self.differences().map(|difference| format!("WRONG    {difference}")));
        lines.extend(self.against.iter().map(|what| format!("WRONG    {what}")));
        lines.push(format!("root  {}", self.root));
        lines.push(if self.is_clean() {
            "chain: intact; keep the root elsewhere".into()
        } else {
            "chain: THE BOOKS WERE CHANGED".into()
        });
        lines.join("\n")
    }
}
