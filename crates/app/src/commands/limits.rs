//! `pix-gateway limits`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, bail};
use pix_domain::audit_log::Action;
use pix_domain::ids::IntegratorId;
use pix_domain::limits::{self, LimitKind, LimitPolicy, Most, NIGHT_PRESET_CENTS, Sent, Standing, Windows};
use pix_domain::money::{Amount, Cents};
use pix_domain::time::{Clock, Timestamp};
use serde_json::{Value, json};

use super::{answer, rfc3339};
use crate::cli::{self, LimitPreset, SetLimits};
use crate::config::Config;
use crate::journal::Journal;
use crate::store::Store;
use crate::system::SystemClock;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::Limits) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    let (uuid, json) = match &command {
        cli::Limits::Set(set) => (set.integrator, set.json),
        cli::Limits::Show { integrator, json } => (*integrator, *json),
    };
    let id = IntegratorId(uuid);
    if store.integrators.find(id).await?.is_none() {
        bail!("there is no integrator {uuid}; `pix-gateway integrator list` shows all");
    }
    let now = SystemClock.now();
    let mut policy = store.records.limits.policy(id).await?;
    if let cli::Limits::Set(set) = command {
        let before = policy.clone();
        policy = changed(policy, &set, now)?;
        let detail = told(&before, &policy);
        Journal::of_user(&store, config)?.record(Action::LimitsSet, &uuid.to_string(), &detail).await?;
        let Some(version) = store.records.limits.set_policy(id, &policy, now).await? else {
            bail!("somebody else has just set the limits; look at them with `limits show` and try again");
        };
        policy.version = version;
    }
    let sent = store.records.limits.sent(id, &Windows::at(now)).await?;
    let standings = standings(&policy, sent, now);
    Ok(answer(json, &shown(&policy, &standings, now), || {
        let lines = standings.iter().map(line);
        let lines: Vec<_> = std::iter::once(format!("version {}", policy.version)).chain(lines).collect();
        if standings.is_empty() {
            return format!("version {}, no limits", policy.version);
        }
        lines.join("\n")
    }))
}

fn standings(policy: &LimitPolicy, sent: Sent, now: Timestamp) -> Vec<Standing> {
    limits::standings(policy, &Windows::at(now), sent, None)
}

/// The policy with what was given.
fn changed(mut policy: LimitPolicy, set: &SetLimits, now: Timestamp) -> anyhow::Result<LimitPolicy> {
    let mut any = false;
    if set.preset == Some(LimitPreset::NaturalPerson) && set.at_night.is_none() {
        policy =
            policy.set(LimitKind::AtNight, Some(Most::new(LimitKind::AtNight, NIGHT_PRESET_CENTS)?), now);
        any = true;
    }
    let given = [
        ("--per-transaction", &set.per_transaction, LimitKind::PerTransaction),
        ("--per-day", &set.per_day, LimitKind::PerDay),
        ("--at-night", &set.at_night, LimitKind::AtNight),
        ("--late-at-night", &set.late_at_night, LimitKind::LateAtNight),
        ("--per-payee", &set.per_payee, LimitKind::PerPayee),
        ("--new-payee", &set.new_payee, LimitKind::NewPayee),
        ("--per-hour", &set.per_hour, LimitKind::PerHour),
    ];
    for (flag, text, kind) in given {
        let Some(text) = text else { continue };
        let most = parse(kind, text).with_context(|| format!("{flag} \"{text}\""))?;
        policy = policy.set(kind, most, now);
        any = true;
    }
    if !any {
        bail!(
            "give at least one limit, such as --per-day 10000.00 --per-hour 50, or --preset natural-person"
        );
    }
    Ok(policy)
}

/// What was changed, in the journal's words: each limit that is another now.
fn told(before: &LimitPolicy, after: &LimitPolicy) -> String {
    let changed = LimitKind::ALL.into_iter().filter(|kind| before.limit(*kind) != after.limit(*kind));
    let limits = changed.map(|kind| {
        let (was, is) = (before.limit(kind), after.limit(kind));
        let mut text = format!("{} {}", kind.as_str(), plain(kind, was.most.map(Most::get)));
        if was.most != is.most {
            let _ = write!(text, " to {}", plain(kind, is.most.map(Most::get)));
        }
        match (was.then, is.then) {
            (_, Some(then)) => {
                let _ = write!(text, ", {} from {}", plain(kind, then.to.map(Most::get)), rfc3339(then.at));
            }
            (Some(_), None) => text.push_str(", no raise"),
            (None, None) => {}
        }
        text
    });
    format!("from version {}: {}", before.version, limits.collect::<Vec<_>>().join("; "))
}

/// Reads `1000.00`, `0`, `none`, or a number where one is limited.
fn parse(kind: LimitKind, text: &str) -> anyhow::Result<Option<Most>> {
    if text == "none" {
        return Ok(None);
    }
    let value = if kind.is_count() {
        let wrong = "must be a number, such as 50, or none";
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            bail!(wrong);
        }
        text.parse().context(wrong)?
    } else if matches!(text, "0" | "0.0" | "0.00") {
        0
    } else if text.starts_with('-') {
        bail!("must not be below zero: an amount in reais, such as 1000.00, or none");
    } else {
        Amount::parse(text).context("must be an amount in reais, such as 1000.00, or none")?.cents().get()
    };
    Ok(Some(Most::new(kind, value)?))
}

fn value(kind: LimitKind, value: Option<i64>) -> Value {
    match (value, value.and_then(Cents::new)) {
        (Some(count), _) if kind.is_count() => json!(count),
        (Some(_), Some(cents)) => json!(cents.to_string()),
        _ => Value::Null,
    }
}

fn shown(policy: &LimitPolicy, standings: &[Standing], now: Timestamp) -> Value {
    let one = |standing: &Standing| {
        let kind = standing.kind;
        let next = standing
            .then
            .map(|then| json!({"limit": value(kind, then.to.map(Most::get)), "at": rfc3339(then.at)}));
        json!({
            "name": kind.as_str(),
            "limit": value(kind, standing.most.map(Most::get)),
            "used": value(kind, standing.used),
            "left": value(kind, standing.left()),
            "applies": standing.holds,
            "next": next,
        })
    };
    json!({
        "version": policy.version,
        "at": rfc3339(now),
        "limits": standings.iter().map(one).collect::<Vec<_>>(),
    })
}

/// A value as a person reads it.
fn plain(kind: LimitKind, most: Option<i64>) -> String {
    match value(kind, most) {
        Value::String(text) => text,
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

fn line(standing: &Standing) -> String {
    let kind = standing.kind;
    let most = plain(kind, standing.most.map(Most::get));
    let used = standing.used.map_or_else(|| "by payee".to_owned(), |used| plain(kind, Some(used)));
    let next = standing.then.map_or_else(String::new, |then| {
        format!(", {} from {}", plain(kind, then.to.map(Most::get)), rfc3339(then.at))
    });
    format!("{:16} {most} (used: {used}{next})", kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> SetLimits {
        SetLimits {
            integrator: uuid::Uuid::nil(),
            per_transaction: None,
            per_day: None,
            at_night: None,
            late_at_night: None,
            per_payee: None,
            new_payee: None,
            per_hour: None,
            preset: None,
            json: false,
        }
    }

    #[test]
    fn what_is_given_is_changed_and_what_is_said_counts_more_than_a_preset() {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        assert!(changed(LimitPolicy::off(), &given(), now).is_err(), "nothing given");
        let most = |policy: &LimitPolicy, kind| policy.limit(kind).at(now).map(Most::get);
        let preset = SetLimits { preset: Some(LimitPreset::NaturalPerson), ..given() };
        let set = changed(LimitPolicy::off(), &preset, now).unwrap();
        assert_eq!((most(&set, LimitKind::AtNight), set.limits().count()), (Some(100_000), 1));
        let both = SetLimits { at_night: Some("5000".into()), per_hour: Some("3".into()), ..preset };
        let set = changed(LimitPolicy::off(), &both, now).unwrap();
        assert_eq!(most(&set, LimitKind::AtNight), Some(500_000));
        let raised =
            changed(set.clone(), &SetLimits { per_hour: Some("none".into()), ..given() }, now).unwrap();
        assert_eq!(most(&raised, LimitKind::AtNight), Some(500_000), "what is not given stays");
        assert_eq!(told(&set, &raised), "from version 0: per_hour 3, none from 2027-01-16T08:00:00Z");
        let every = SetLimits {
            per_transaction: Some("9999999999.99".into()),
            per_day: Some("9999999999.98".into()),
            at_night: Some("9999999999.97".into()),
            late_at_night: Some("9999999999.96".into()),
            per_payee: Some("9999999999.95".into()),
            new_payee: Some("9999999999.94".into()),
            per_hour: Some("1000000".into()),
            ..given()
        };
        let lower = changed(LimitPolicy::off(), &every, now).unwrap();
        let higher =
            LimitKind::ALL.into_iter().fold(lower.clone(), |policy, kind| policy.set(kind, None, now));
        let longest = told(&lower, &higher);
        assert!(longest.chars().count() <= pix_domain::audit_log::MAX_LOG_DETAIL_CHARS, "{}", longest.len());
    }

    #[test]
    fn a_limit_is_an_amount_a_number_or_none() {
        let cents = |kind, text: &str| parse(kind, text).unwrap().map(Most::get);
        assert_eq!(cents(LimitKind::PerDay, "1000.5"), Some(100_050));
        assert_eq!(cents(LimitKind::PerDay, "0"), Some(0));
        assert_eq!(cents(LimitKind::PerHour, "50"), Some(50));
        assert_eq!(cents(LimitKind::PerHour, "none"), None);
        for (kind, wrong) in [
            (LimitKind::PerDay, ""),
            (LimitKind::PerDay, "-1"),
            (LimitKind::PerDay, "1e11"),
            (LimitKind::PerDay, "10.555"),
            (LimitKind::PerHour, "1.5"),
            (LimitKind::PerHour, "1000001"),
            (LimitKind::PerHour, ""),
            (LimitKind::PerHour, "+5"),
        ] {
            assert!(parse(kind, wrong).is_err(), "{kind:?} {wrong}");
        }
    }
}
