//! `pix-gateway resolve`: what two operators decide about a movement whose outcome nobody knows.

use std::process::ExitCode;

use anyhow::Context;
use pix_domain::audit_log::Operator;
use pix_domain::decisions::{Decided, Decision, DecisionService, Seen, Verdict};
use pix_domain::error::ServiceError;
use pix_domain::text::visible;
use pix_domain::transactions::Transaction;
use serde_json::json;

use super::{answer, rfc3339};
use crate::cli;
use crate::clocks;
use crate::config::Config;
use crate::gateway;
use crate::journal::Journal;
use crate::restored::Gate;
use crate::store::Store;

/// Runs the subcommand.
pub async fn run(config: &Config, arguments: cli::Resolve) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    // How long the provider has not known it is a matter of the clock.
    clocks::refuse(&store).await?;
    let journal = Journal::of_somebody(&store, config)?;
    let name = config.provider.as_ref().map_or(gateway::SIMULATED.to_owned(), gateway::provider_name);
    gateway::bind_provider(&store, &journal, &name, false).await?;
    let gate = Gate::of(&store, config.restore_ask).await?;
    let service = DecisionService::new(gateway::idle_ports(config, &store, gate).await?);
    let verdict = match arguments.verdict {
        cli::Verdict::Completed => Verdict::Completed,
        cli::Verdict::Failed => Verdict::Failed,
    };
    let decision = Decision {
        id: arguments.uuid,
        verdict,
        reason: arguments.reason,
        operator: journal.operator().clone(),
        seen: Seen::NotLooked,
    };
    let decided = match service.decide(&decision).await {
        Ok(decided) => decided,
        Err(ServiceError::NotFound) => {
            anyhow::bail!(
                "there is no transaction {}; `pix-gateway uncertain` lists what can be resolved",
                decision.id
            )
        }
        Err(error) => return Err(error).context(format!("{} is not resolved", decision.id)),
    };
    let word = verdict.as_str();
    Ok(match decided {
        Decided::ByEvidence(transaction) => {
            let status = status_of(&transaction);
            let value = json!({"uuid": decision.id.to_string(), "result": "ended", "status": status});
            answer(arguments.json, &value, || format!("nothing to decide: {} is {status}", decision.id))
        }
        Decided::Proposed(resource, until, replaced) => {
            let replaced = replaced.as_ref().map(Operator::as_str);
            let value = json!({
                "uuid": decision.id.to_string(), "result": "proposed", "as": word, "until": rfc3339(until),
                "in_place_of": replaced,
            });
            answer(arguments.json, &value, || {
                let contrary = replaced
                    .map(|who| {
                        format!(
                            " This stands in the place of the contrary, which {} had proposed.",
                            visible(who)
                        )
                    })
                    .unwrap_or_default();
                format!(
                    "proposed: {} {} is {word}. Nothing has moved.{contrary} Until {} another operator confirms it with the same command:\n  pix-gateway resolve {} --as {word} --reason '…' --operator NAME",
                    resource.kind.as_str(),
                    decision.id,
                    rfc3339(until),
                    decision.id
                )
            })
        }
        Decided::Done(transaction) => {
            let status = status_of(&transaction);
            let value = json!({"uuid": decision.id.to_string(), "result": "done", "status": status});
            answer(arguments.json, &value, || format!("done: {} is {status}", decision.id))
        }
    })
}

fn status_of(transaction: &Transaction) -> &'static str {
    match transaction {
        Transaction::Charge(charge) => charge.state.name(),
        Transaction::Withdrawal(withdrawal) => withdrawal.state.name(),
        Transaction::Refund(refund) => refund.state.name(),
    }
}
