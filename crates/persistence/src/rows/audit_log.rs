//! Rows of the journal of administrative acts.

use diesel::prelude::{Insertable, Queryable, Selectable};
use pix_domain::audit_log::{Action, LogEntry, LogHash, Operator};
use pix_domain::error::StoreError;

use crate::codec::{self, DbTime, damaged};
use crate::schema::audit_log;

/// An act as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = audit_log, treat_none_as_default_value = false)]
pub struct LogRow {
    pub number: i64,
    pub created_at: DbTime,
    pub operator: String,
    pub action: String,
    pub subject: String,
    pub detail: String,
    pub previous: String,
    pub hash: String,
}

impl TryFrom<LogEntry> for LogRow {
    type Error = StoreError;

    fn try_from(entry: LogEntry) -> Result<Self, StoreError> {
        Ok(Self {
            number: codec::to_entry_number(entry.number)?,
            created_at: DbTime(entry.at),
            operator: entry.operator.as_str().to_owned(),
            action: entry.action.as_str().to_owned(),
            subject: entry.subject,
            detail: entry.detail,
            previous: entry.previous.to_string(),
            hash: entry.hash.to_string(),
        })
    }
}

impl TryFrom<LogRow> for LogEntry {
    type Error = StoreError;

    fn try_from(row: LogRow) -> Result<Self, StoreError> {
        let hash = |column, text: &str| {
            LogHash::parse(text).ok_or_else(|| damaged(column, "a hash of 64 hex digits"))
        };
        Ok(Self {
            number: codec::entry_number("audit_log.number", row.number)?,
            at: row.created_at.0,
            operator: Operator::kept(&row.operator)
                .ok_or_else(|| damaged("audit_log.operator", "a name of an operator"))?,
            action: codec::named("audit_log.action", &row.action, Action::from_name)?,
            subject: row.subject,
            detail: row.detail,
            previous: hash("audit_log.previous", &row.previous)?,
            hash: hash("audit_log.hash", &row.hash)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use pix_domain::time::Timestamp;

    use super::*;

    fn entry() -> LogEntry {
        LogEntry {
            number: 7,
            at: Timestamp::from_micros(-5),
            operator: Operator::parse("Ana Souza").unwrap(),
            action: Action::FailedConfirmed,
            subject: "s".into(),
            detail: "d".into(),
            previous: LogHash([1; 32]),
            hash: LogHash([0xab; 32]),
        }
    }

    #[test]
    fn an_act_is_read_as_it_was_kept() {
        let row = LogRow::try_from(entry()).unwrap();
        assert_eq!(LogEntry::try_from(row), Ok(entry()));
    }

    #[test]
    fn what_is_not_understood_is_damaged_and_never_shown() {
        type Change = fn(&mut LogRow);
        let changes: [(&str, Change); 4] = [
            ("audit_log.operator", |row| row.operator = " SECRET ".into()),
            ("audit_log.action", |row| row.action = "SECRET".into()),
            ("audit_log.previous", |row| row.previous = "SECRET".into()),
            ("audit_log.hash", |row| row.hash = "g".repeat(64)),
        ];
        for (column, change) in changes {
            let mut row = LogRow::try_from(entry()).unwrap();
            change(&mut row);
            let Err(StoreError::Damaged(text)) = LogEntry::try_from(row) else { panic!("{column}") };
            assert!(text.starts_with(column) && !text.contains("SECRET"), "{text}");
        }
        let endless = LogEntry { number: u64::MAX, ..entry() };
        assert!(matches!(LogRow::try_from(endless), Err(StoreError::Rejected(_))));
    }
}
