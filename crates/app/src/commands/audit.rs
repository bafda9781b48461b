//! `pix-gateway audit`.

mod chain;
mod provider;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use pix_domain::audit::{Book, Difference, StoredFinding, check, check_across};
use pix_domain::credentials::Integrator;
use pix_domain::money::Cents;
use pix_domain::seals::KeptDifference;
use pix_domain::seals::service::MAX_DIFFERENCES;
use pix_domain::splits;
use pix_domain::time::Clock;
use serde_json::json;

use super::{answer, judged};
use crate::audited::Audited;
use crate::cli;
use crate::compare::{Comparison, compare};
use crate::config::Config;
use crate::gateway;
use crate::store::Store;
use crate::system::SystemClock;

/// Everything an audit found.
pub struct Report {
    /// Who was audited.
    pub integrators: Vec<Integrator>,
    /// Their books, in the same order.
    pub books: Vec<Book>,
    /// What is wrong in them.
    pub differences: Vec<Difference>,
    /// Where sealing found that a book contradicts itself.
    pub seals: Vec<KeptDifference>,
    /// What operators should look at.
    pub findings: Vec<StoredFinding>,
    /// How they compare with the simulated provider's log, when there is one.
    pub provider: Option<Comparison>,
}

impl Report {
    /// Whether nothing is wrong. What is in flight is not wrong.
    pub fn is_clean(&self) -> bool {
        let provider = self.provider.as_ref();
        self.differences.is_empty()
            && self.seals.is_empty()
            && provider.is_none_or(|comparison| comparison.differences.is_empty())
    }
}

impl Report {
    /// What is kept of it.
    pub fn audited(&self) -> Audited {
        let of_provider = self.provider.as_ref().map_or(0, |comparison| comparison.differences.len());
        let differences = self.differences.len().saturating_add(self.seals.len()).saturating_add(of_provider);
        Audited {
            at: SystemClock.now(),
            clean: self.is_clean(),
            differences: u64::try_from(differences).unwrap_or(u64::MAX),
        }
    }
}

/// Runs the subcommand.
pub async fn run(config: &Config, arguments: cli::Audit) -> anyhow::Result<ExitCode> {
    if arguments.chain {
        return chain::run(config, arguments.against.as_deref(), arguments.json).await;
    }
    if arguments.provider {
        return provider::run(config, arguments.days, arguments.json).await;
    }
    let beside = config.database.beside(gateway::SIMULATOR_LOG_ENDING);
    let log = match arguments.simulator_log {
        Some(path) => Some(path),
        None if config.provider.is_none() && beside.exists() => Some(beside),
        None => None,
    };
    let store = Store::open_existing(config).await?;
    let report = audit(&store, log.as_deref()).await?;
    if let Err(error) = report.audited().keep(&store).await {
        eprintln!("pix-gateway: metrics don't tell of this audit, which could not be kept: {error}");
    }
    let told = answer(arguments.json, &as_json(&report), || as_text(&report));
    Ok(judged(told, report.is_clean()))
}

/// Audits every integrator, and compares with the provider's log when there is one.
///
/// The log is read before the books: what the provider does after that is no difference, and what we have credited
/// meanwhile was in the log before.
pub async fn audit(store: &Store, log: Option<&Path>) -> anyhow::Result<Report> {
    let integrators = store.integrators.list().await?;
    let (mut books, mut differences, mut findings) = (Vec::new(), Vec::new(), Vec::new());
    for integrator in &integrators {
        let book = store.books.book(integrator.id).await?;
        differences.extend(check(integrator.id, &book));
        findings.extend(store.books.findings(integrator.id).await?);
        let (charges, splits) = (store.records.charges.as_ref(), store.records.splits.as_ref());
        for charge in book.charges.iter().filter(|charge| !charge.split.is_empty()) {
            differences.extend(splits::service::compare(charges, splits, charge.clone()).await?);
        }
        for split in &book.splits {
            differences.extend(splits::service::trace(charges, split).await?);
        }
        books.push(book);
    }
    differences.extend(check_across(integrators.iter().map(|integrator| integrator.id).zip(&books)));
    let seals = store.seals.differences(MAX_DIFFERENCES).await?;
    let provider = match log {
        Some(path) => {
            let log = pix_simulator::read_log(path)
                .with_context(|| format!("the simulated provider's log {} can't be used", path.display()))?;
            Some(compare(&books, &log))
        }
        None => None,
    };
    Ok(Report { integrators, books, differences, seals, findings, provider })
}

fn as_json(report: &Report) -> serde_json::Value {
    let wallets: Vec<_> = report
        .integrators
        .iter()
        .zip(&report.books)
        .map(|(integrator, book)| {
            json!({
                "integrator": integrator.id.to_string(),
                "available": book.wallet.available.to_string(),
                "held": book.wallet.held.to_string(),
                "owed": book.wallet.owed.to_string(),
                "entries": book.wallet.entries,
                "charges": book.charges.len(),
                "withdrawals": book.withdrawals.len(),
                "refunds": book.refunds.len(),
                "splits": book.splits.len(),
            })
        })
        .collect();
    let differences: Vec<_> = report.differences.iter().map(difference_text).collect();
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| json!({"resource": finding.resource.id.to_string(), "code": finding.code, "detail": finding.detail}))
        .collect();
    let provider = report.provider.as_ref().map(|comparison| {
        json!({
            "differences": comparison.differences,
            "in_flight": comparison.in_flight,
            "agreed": comparison.agreed,
        })
    });
    json!({
        "clean": report.is_clean(),
        "wallets": wallets,
        "differences": differences,
        "seals": report.seals.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "findings": findings,
        "provider": provider,
    })
}

fn difference_text(difference: &Difference) -> String {
    let about = difference.resource.map_or_else(
        || format!("integrator {}", difference.integrator_id),
        |resource| format!("{} {}", resource.kind.as_str(), resource.id),
    );
    format!("{about}: {}", difference.what)
}

/// The report as an operator reads it.
pub fn as_text(report: &Report) -> String {
    let mut lines = Vec::new();
    for (integrator, book) in report.integrators.iter().zip(&report.books) {
        let wallet = &book.wallet;
        let fees = book
            .entries
            .iter()
            .map(|entry| entry.posting.effect_cents(pix_domain::wallet::Account::Fees))
            .sum();
        lines.push(format!(
            "{}  available {}, held {}, owed {}, fees {}; {} entries, {} charges, {} withdrawals, {} refunds, {} splits",
            integrator.id,
            wallet.available,
            wallet.held,
            wallet.owed,
            Cents::new(fees).unwrap_or_default(),
            wallet.entries,
            book.charges.len(),
            book.withdrawals.len(),
            book.refunds.len(),
            book.splits.len()
        ));
    }
    lines.extend(
        report.differences.iter().map(|difference| format!("WRONG    {}", difference_text(difference))),
    );
    lines.extend(report.seals.iter().map(|difference| format!("WRONG    sealing stopped: {difference}")));
    for finding in &report.findings {
        let resource = finding.resource;
        lines.push(format!(
            "finding  {} {}: {} ({})",
            resource.kind.as_str(),
            resource.id,
            finding.code,
            finding.detail
        ));
    }
    if let Some(comparison) = &report.provider {
        lines.extend(comparison.differences.iter().map(|what| format!("WRONG    provider: {what}")));
        lines.extend(comparison.in_flight.iter().map(|what| format!("in flight {what}")));
        lines.push(format!("provider's log: {} movements agree", comparison.agreed));
    }
    lines.push(if !report.is_clean() {
        "audit: THE BOOKS ARE WRONG".into()
    } else if report.integrators.is_empty() {
        "audit: clean; nothing is in the books: there is no integrator".into()
    } else {
        "audit: clean".into()
    });
    lines.join("\n")
}
