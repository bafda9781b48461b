//! `pix-gateway audit-log`: who did what to what, and whether anybody has changed the record of it.

use std::process::ExitCode;
use std::sync::Arc;

use pix_domain::audit_log::{AuditLog, LogEntry};
use pix_domain::text::visible;
use serde_json::{Value, json};

use super::{answer, judged, rfc3339};
use crate::cli;
use crate::config::Config;
use crate::store::Store;
use crate::system::SystemClock;

/// Runs the subcommand.
pub async fn run(config: &Config, command: cli::AuditLog) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(config).await?;
    let records = &store.records.audit_log;
    match command {
        cli::AuditLog::Verify { json } => {
            let log = AuditLog::new(records.clone(), Arc::new(SystemClock));
            match log.verify().await? {
                Ok((count, hash)) => {
                    let value = json!({"intact": true, "entries": count, "newest_hash": hash.to_string()});
                    let told = answer(json, &value, || {
                        format!("the audit log is intact: {count} entries, the newest has the hash {hash}")
                    });
                    Ok(judged(told, true))
                }
                Err(broken) => {
                    let value = json!({"intact": false, "problem": broken.to_string()});
                    answer(json, &value, || format!("the audit log is NOT intact: {broken}"));
                    Ok(ExitCode::FAILURE)
                }
            }
        }
        cli::AuditLog::List { after, limit, json } => {
            let entries = records.list(after, limit).await?;
            let rows: Vec<Value> = entries.iter().map(row).collect();
            Ok(answer(json, &json!(rows), || {
                if entries.is_empty() {
                    return "no entries".to_owned();
                }
                entries.iter().map(line).collect::<Vec<_>>().join("\n")
            }))
        }
    }
}

fn row(entry: &LogEntry) -> Value {
    json!({
        "number": entry.number,
        "at": rfc3339(entry.at),
        "operator": entry.operator.as_str(),
        "action": entry.action.as_str(),
        "subject": entry.subject,
        "detail": entry.detail,
        "hash": entry.hash.to_string(),
    })
}

fn line(entry: &LogEntry) -> String {
    let LogEntry { number, operator, action, subject, detail, .. } = entry;
    format!(
        "{number:6}  {}  {}  {}  {subject}  {}",
        rfc3339(entry.at),
        visible(operator.as_str()),
        action.as_str(),
        visible(detail)
    )
}
