//! What must be true after a cell. Four things are compared: the ledger, the records, the provider's own log, and what
//! the client was told.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context;
use serde_json::Value;

use super::cell::{OUT, Run, Told};
use super::plan::Operation;
use crate::text;

/// The fees of the beginning: of a payment that comes in, of a withdrawal, of a refund; in centavos.
const FEES: (i64, i64, i64) = (3, 10, 5);

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// The provider was asked twice for one request, or did it twice.
    SentTwice,
    /// Its money was given back, and the provider has taken it.
    Released,
    /// The client was answered, and now it is not there or is another.
    Lost,
    /// More was credited than was received.
    CreditedTwice,
    /// A wallet isn't what its postings or the provider's log make of it.
    Wallet,
    /// What the client was told to be the end is not the end.
    ToldOtherwise,
    /// Nobody knows how it ended, five minutes after healing.
    Uncertain,
    /// The audit sees another difference to the provider's log.
    Audit,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SentTwice => "sent twice",
            Self::Released => "released though executed",
            Self::Lost => "lost though answered 2xx",
            Self::CreditedTwice => "credited twice",
            Self::Wallet => "the wallet differs",
            Self::ToldOtherwise => "told otherwise",
            Self::Uncertain => "uncertain after five minutes",
            Self::Audit => "the audit differs",
        })
    }
}

/// One thing that is wrong, with what shows it.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Of which kind.
    pub wrong: Wrong,
    /// What shows it.
    pub what: String,
}

fn problem(wrong: Wrong, what: impl Into<String>) -> Problem {
    Problem { wrong, what: what.into() }
}

/// What the provider did in this cell.
#[derive(Debug, Default)]
struct Done {
    /// By reference: how many times money left, or was asked for again.
    out: BTreeMap<String, (usize, usize)>,
    /// Taken on and not refused.
    taken: usize,
    out_cents: i64,
    returned_cents: i64,
    received: Vec<i64>,
}

fn done(log: &[Value]) -> anyhow::Result<Done> {
    let mut done = Done::default();
    for entry in log {
        let amount = entry.get("amount_cents").and_then(Value::as_i64).context("no amount in the log")?;
        let event = text(entry, "/event")?;
        let out = done.out.entry(text(entry, "/external_id")?).or_default();
        match event.as_str() {
            "payment_accepted" | "refund_accepted" => done.taken += 1,
            "payment_rejected" | "refund_rejected" => done.taken = done.taken.saturating_sub(1),
            "payment_executed" | "refund_executed" | "payment_settled" | "refund_settled" => {
                out.0 += 1;
                done.out_cents += amount;
            }
            "payment_repeated" | "refund_repeated" => out.1 += 1,
            "payment_returned" => done.returned_cents += amount,
            "pix_received" => done.received.push(amount),
            _ => {}
        }
    }
    done.out.retain(|_, (times, repeated)| *times + *repeated > 0);
    Ok(done)
}

/// Compares everything.
pub(super) async fn check(run: &mut Run<'_>) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let record = run.record().await?;
    let log = run.world.log().await?;
    let done = done(log.get(run.beginning.logged..).context("the provider's log is shorter than it was")?)?;
    let out = matches!(run.cell.operation, Operation::Withdrawal | Operation::Refund);

    problems.extend(sent_twice(&done));
    let status = record.as_ref().map(|record| text(record, "/status")).transpose()?;
    let status = status.as_deref();
    if out {
        problems.extend(outgoing(status, &done));
    }
    problems.extend(told(&run.told, record.as_ref(), &done)?);
    let balance = run.world.balance().await?;
    problems.extend(wallet(run.cell.operation, run.beginning.available, balance, status, &done));
    problems.extend(audited(run)?);
    if let Some(record) = &record {
        let open = text(record, "/outcome")? == "uncertain";
        if open && !(run.is_held_on_purpose() && run.is_for_review()) {
            let known = run.evidence().await?;
            problems.push(problem(Wrong::Uncertain, format!("{record}; what is known of it: {known}")));
        }
    }
    Ok(problems)
}

fn sent_twice(done: &Done) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (reference, (times, repeated)) in &done.out {
        if *times > 1 || *repeated > 0 {
            problems
                .push(problem(Wrong::SentTwice, format!("{reference}: {times} times, {repeated} repeated")));
        }
    }
    if done.out.len() > 1 {
        problems.push(problem(Wrong::SentTwice, format!("under {} references", done.out.len())));
    }
    problems
}

/// That a record has no end though every hold is over.
pub(super) async fn still_open(run: &mut Run<'_>) -> anyhow::Result<Option<Problem>> {
    let Some(record) = run.record().await? else { return Ok(None) };
    let status = text(&record, "/status")?;
    let open = matches!(status.as_str(), "processing" | "creating");
    Ok(open.then(|| problem(Wrong::Uncertain, format!("after every hold: {record}"))))
}

fn outgoing(status: Option<&str>, done: &Done) -> Option<Problem> {
    let executed = !done.out.is_empty();
    match status {
        Some("failed" | "canceled") if executed || done.taken > 0 => {
            Some(problem(Wrong::Released, format!("it is {status:?}, and the log says {done:?}")))
        }
        Some("completed" | "returned") if !executed => {
            Some(problem(Wrong::ToldOtherwise, format!("it is {status:?}, and the log says {done:?}")))
        }
        None if executed || done.taken > 0 => {
            Some(problem(Wrong::Lost, format!("there is no record, and the log says {done:?}")))
        }
        _ => None,
    }
}

/// What was answered, against what is.
fn told(all: &[Told], record: Option<&Value>, done: &Done) -> anyhow::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let uuid = record.map(|record| text(record, "/uuid")).transpose()?;
    let now = record.map(|record| text(record, "/status")).transpose()?.unwrap_or_default();
    for told in all {
        if matches!(told.status, 200 | 201) {
            if Some(text(&told.body, "/uuid")?) != uuid {
                problems.push(problem(Wrong::Lost, format!("told {}, there is {record:?}", told.body)));
            }
            let before = text(&told.body, "/status")?;
            let may_become: &[&str] = match before.as_str() {
                "completed" => &["completed", "returned"],
                "returned" => &["returned"],
                "paid" => &["paid"],
                // A charge that failed is paid late, if somebody has its code.
                "failed" => &["failed", "paid"],
                _ => continue,
            };
            if !may_become.contains(&now.as_str()) {
                problems.push(problem(Wrong::ToldOtherwise, format!("told {before}, it is {now}")));
            }
        } else if (400..500).contains(&told.status) && !matches!(told.status, 408 | 409 | 429) {
            let gone = !done.out.is_empty() || done.taken > 0;
            if gone || !matches!(now.as_str(), "" | "failed") {
                let what = format!("refused with {} {}, and it is {now:?}: {done:?}", told.status, told.body);
                problems.push(problem(Wrong::ToldOtherwise, what));
            }
        }
    }
    Ok(problems)
}

/// The wallet, as the provider's log makes it of what was `available`, without a look at our records.
fn wallet(
    operation: Operation,
    available: i64,
    balance: (i64, i64),
    status: Option<&str>,
    done: &Done,
) -> Option<Problem> {
    let fee = if operation == Operation::Refund { FEES.2 } else { FEES.1 };
    let received: i64 = done.received.iter().map(|cents| cents - FEES.0).sum();
    let sent = if done.out_cents > 0 { done.out_cents + fee } else { 0 };
    let goes_out = matches!(operation, Operation::Withdrawal | Operation::Refund);
    let open = goes_out && matches!(status, Some("processing" | "pending"));
    let (held, sent) = if open { (OUT.0 + fee, 0) } else { (0, sent) };
    let expected = available + received - sent - held + done.returned_cents;
    if balance == (expected, held) {
        return None;
    }
    let wrong = if received > 0 && balance.0 > expected { Wrong::CreditedTwice } else { Wrong::Wallet };
    let what = format!(
        "available and held are {balance:?} centavos; the provider's log makes it ({expected}, {held}): {done:?}"
    );
    Some(problem(wrong, what))
}

/// Our own audit: the ledger against the records, and both against the log.
fn audited(run: &Run<'_>) -> anyhow::Result<Vec<Problem>> {
    let audit = run.world.audit()?;
    let list = |pointer: &str| {
        let texts = audit.pointer(pointer).and_then(Value::as_array);
        texts
            .into_iter()
            .flatten()
            .map(|text| text.as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let mut problems: Vec<_> =
        list("/differences").into_iter().map(|what| problem(Wrong::Wallet, what)).collect();
    problems.extend(list("/provider/differences").into_iter().map(|what| problem(Wrong::Audit, what)));
    if !run.is_held_on_purpose() {
        let open = list("/provider/in_flight");
        problems.extend(open.into_iter().map(|what| problem(Wrong::Uncertain, format!("in flight: {what}"))));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HAD: i64 = 10_000;

    fn log(events: &[(&str, &str, i64)]) -> Done {
        let entry = |(event, name, cents): &(&str, &str, i64)| json!({"event": event, "external_id": name, "amount_cents": cents});
        done(&events.iter().map(entry).collect::<Vec<_>>()).unwrap()
    }

    fn paid() -> Done {
        log(&[("payment_executed", "a", OUT.0)])
    }

    fn answer(status: u16, uuid: &str, word: &str) -> Told {
        Told { status, body: json!({"uuid": uuid, "status": word}) }
    }

    fn kinds(problems: impl IntoIterator<Item = Problem>) -> Vec<Wrong> {
        problems.into_iter().map(|problem| problem.wrong).collect()
    }

    #[test]
    fn what_is_sent_twice_is_seen_under_one_reference_or_two() {
        for events in [
            &[("payment_executed", "a", 1), ("payment_executed", "a", 1)][..],
            &[("refund_executed", "a", 1), ("refund_repeated", "a", 1)],
            &[("payment_executed", "a", 1), ("payment_executed", "b", 1)],
        ] {
            assert_eq!(kinds(sent_twice(&log(events))), [Wrong::SentTwice], "{events:?}");
        }
        assert!(sent_twice(&paid()).is_empty());
        assert!(sent_twice(&log(&[("payment_accepted", "a", 1), ("payment_settled", "a", 1)])).is_empty());
    }

    #[test]
    fn what_is_released_lost_or_made_up_is_seen() {
        let held = log(&[("payment_accepted", "a", 1)]);
        let refused = log(&[("payment_accepted", "a", 1), ("payment_rejected", "a", 1)]);
        for (status, done, wrong) in [
            (Some("failed"), paid(), Some(Wrong::Released)),
            (Some("failed"), held, Some(Wrong::Released)),
            (Some("failed"), refused, None),
            (Some("completed"), log(&[]), Some(Wrong::ToldOtherwise)),
            (Some("completed"), paid(), None),
            (None, paid(), Some(Wrong::Lost)),
            (None, log(&[]), None),
        ] {
            assert_eq!(outgoing(status, &done).map(|problem| problem.wrong), wrong, "{status:?} {done:?}");
        }
    }

    #[test]
    fn what_the_client_was_told_binds() {
        let record = json!({"uuid": "u", "status": "completed"});
        for (told_before, record, wrong) in [
            (answer(201, "u", "processing"), Some(&record), None),
            (answer(201, "other", "processing"), Some(&record), Some(Wrong::Lost)),
            (answer(201, "u", "processing"), None, Some(Wrong::Lost)),
            (answer(200, "u", "failed"), Some(&record), Some(Wrong::ToldOtherwise)),
            (answer(422, "u", "failed"), Some(&record), Some(Wrong::ToldOtherwise)),
            (answer(503, "u", ""), Some(&record), None),
        ] {
            let problems = kinds(told(std::slice::from_ref(&told_before), record, &paid()).unwrap());
            assert_eq!(problems.first().copied(), wrong, "{told_before:?}");
        }
    }

    #[test]
    fn the_wallet_is_what_the_providers_log_makes_of_it() {
        let twice = log(&[("pix_received", "c", 500)]);
        let total = OUT.0 + FEES.1;
        for (operation, balance, status, done, wrong) in [
            (Operation::Payment, (HAD + 497, 0), Some("paid"), &twice, None),
            (Operation::Payment, (HAD + 994, 0), Some("paid"), &twice, Some(Wrong::CreditedTwice)),
            (Operation::Payment, (HAD, 0), Some("paid"), &twice, Some(Wrong::Wallet)),
            (Operation::Withdrawal, (HAD - total, 0), Some("completed"), &paid(), None),
            (Operation::Withdrawal, (HAD, 0), Some("completed"), &paid(), Some(Wrong::Wallet)),
            (Operation::Withdrawal, (HAD - total, total), Some("processing"), &log(&[]), None),
            (Operation::Withdrawal, (HAD - total, 0), Some("failed"), &log(&[]), Some(Wrong::Wallet)),
        ] {
            let found = wallet(operation, HAD, balance, status, done).map(|problem| problem.wrong);
            assert_eq!(found, wrong, "{operation:?} {balance:?} {status:?}");
        }
    }
}
