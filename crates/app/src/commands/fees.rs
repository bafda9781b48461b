//! `pix-gateway fees`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use pix_domain::audit_log::Action;
use pix_domain::fees::{FeeRule, FeeSchedule, Percent};
use pix_domain::ids::IntegratorId;
use pix_domain::money::{Amount, Cents};
use pix_domain::time::Clock;
use serde_json::{Value, json};

use super::answer;
use crate::cli;
use crate::config::Config;
use crate::journal::Journal;
use crate::store::Store;
use crate::system::SystemClock;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::Fees) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    let (uuid, json) = match &command {
        cli::Fees::Set { integrator, json, .. } | cli::Fees::Show { integrator, json } => {
            (*integrator, *json)
        }
    };
    let id = IntegratorId(uuid);
    if store.integrators.find(id).await?.is_none() {
        bail!("there is no integrator {uuid}; `pix-gateway integrator list` shows all");
    }
    let mut schedule = store.records.fees.current(id).await?;
    if let cli::Fees::Set { cash_in, cash_out, refund, .. } = command {
        let given = [
            ("--cash-in", cash_in, &mut schedule.cash_in),
            ("--cash-out", cash_out, &mut schedule.cash_out),
            ("--refund", refund, &mut schedule.refund),
        ];
        let mut any = false;
        for (flag, text, rule) in given {
            let Some(text) = text else { continue };
            *rule = parse_rule(&text).with_context(|| format!("{flag} \"{text}\""))?;
            any = true;
        }
        if !any {
            bail!(
                "give at least one of --cash-in, --cash-out and --refund, such as --cash-out fixed=1.50,percent=0.99"
            );
        }
        // Which version it becomes is known afterwards.
        let mut detail = shown(&schedule);
        if let Some(fields) = detail.as_object_mut()
            && let Some(version) = fields.remove("version")
        {
            fields.insert("in_place_of_version".to_owned(), version);
        }
        let detail = detail.to_string();
        Journal::of_user(&store, config)?.record(Action::FeesSet, &uuid.to_string(), &detail).await?;
        schedule.version = store.records.fees.set(id, schedule.clone(), SystemClock.now()).await?;
    }
    Ok(answer(json, &shown(&schedule), || {
        let FeeSchedule { version, cash_in, cash_out, refund } = &schedule;
        let lines = [("cash-in", cash_in), ("cash-out", cash_out), ("refund", refund)];
        let lines = lines.map(|(name, rule)| format!("{name:9} {}", rule_text(rule)));
        format!("version {version}\n{}", lines.join("\n"))
    }))
}

/// Reads `fixed=1.50,percent=0.99,min=0.10,max=9.90`.
pub fn parse_rule(text: &str) -> anyhow::Result<FeeRule> {
    let mut rule = FeeRule::free();
    if text == "free" {
        return Ok(rule);
    }
    let mut given = Vec::new();
    for part in text.split(',') {
        let Some((name, value)) = part.split_once('=') else {
            bail!("must be parts such as fixed=1.50,percent=0.99,min=0.10,max=9.90, or free");
        };
        let name = name.trim();
        if given.contains(&name) {
            bail!("has the part \"{name}\" twice; give it once");
        }
        given.push(name);
        match name {
            "fixed" => rule.fixed = reais(value)?,
            "percent" => rule.percent = Percent::parse(value)?,
            "min" => rule.min = reais(value)?,
            "max" => rule.max = Some(reais(value)?),
            other => bail!("has the unknown part \"{other}\"; there are fixed, percent, min and max"),
        }
    }
    Ok(FeeRule::new(rule.fixed, rule.percent, rule.min, rule.max)?)
}

fn reais(text: &str) -> anyhow::Result<Cents> {
    if matches!(text, "0" | "0.0" | "0.00") {
        return Ok(Cents::ZERO);
    }
    if text.starts_with('-') {
        bail!("\"{text}\" must not be below zero");
    }
    Ok(Amount::parse(text).with_context(|| format!("\"{text}\""))?.cents())
}

fn shown(schedule: &FeeSchedule) -> Value {
    let rule = |rule: &FeeRule| {
        json!({
            "fixed": rule.fixed.to_string(),
            "percent": rule.percent.plain(),
            "min": rule.min.to_string(),
            "max": rule.max.map(|max| max.to_string()),
        })
    };
    json!({
        "version": schedule.version,
        "cash_in": rule(&schedule.cash_in),
        "cash_out": rule(&schedule.cash_out),
        "refund": rule(&schedule.refund),
    })
}

fn rule_text(rule: &FeeRule) -> String {
    let max = rule.max.map_or("none".to_owned(), |max| max.to_string());
    format!("fixed {}, {} %, at least {}, at most {max}", rule.fixed, rule.percent.plain(), rule.min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_from_its_parts() {
        let rule = parse_rule("fixed=1.50,percent=0.99,min=0,max=9.90").unwrap();
        assert_eq!(rule.fee(Amount::parse("100").unwrap()).to_string(), "2.49");
        assert_eq!(parse_rule("free").unwrap(), FeeRule::free());
        let below = parse_rule("fixed=-1").unwrap_err();
        assert!(format!("{below:#}").contains("must not be below zero"), "{below:#}");
        let twice = parse_rule("fixed=1.50,percent=0.99, fixed=2").unwrap_err();
        assert_eq!(twice.to_string(), "has the part \"fixed\" twice; give it once");
        for wrong in ["", "1.50", "fixed=-1", "percent=101", "cap=1", "min=2,max=1", "fixed=1e11"] {
            assert!(parse_rule(wrong).is_err(), "{wrong}");
        }
    }
}
