//! The journal of administrative acts. The schema refuses to change or remove an entry.

use async_trait::async_trait;
use diesel::dsl::exists;
use diesel::prelude::{ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper};
use pix_domain::audit_log::{AuditLogStore, LogEntry};
use pix_domain::error::StoreError;

use super::SqliteStore;
use super::error::{Of, Problem};
use crate::rows::LogRow;
use crate::schema::audit_log;

#[async_trait]
impl AuditLogStore for SqliteStore {
    async fn append(&self, entry: LogEntry) -> Result<bool, StoreError> {
        let row = LogRow::try_from(entry)?;
        self.write(move |conn| -> Result<bool, Problem<StoreError>> {
            // The transaction has the write lock: nobody takes the number in between.
            if diesel::select(exists(audit_log::table.find(row.number))).get_result(conn).of("audit_log")? {
                return Ok(false);
            }
            diesel::insert_into(audit_log::table).values(&row).execute(conn).of("audit_log")?;
            Ok(true)
        })
        .await
    }

    async fn list(&self, after: u64, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        // No entry has a number above the range of the column.
        let Ok(after) = i64::try_from(after) else { return Ok(Vec::new()) };
        self.read(move |conn| {
            let rows: Vec<LogRow> = audit_log::table
                .filter(audit_log::number.gt(after))
                .order(audit_log::number.asc())
                .limit(limit.into())
                .select(LogRow::as_select())
                .load(conn)
                .of("audit_log")?;
            rows.into_iter().map(LogEntry::try_from).collect()
        })
        .await
    }

    async fn newest(&self) -> Result<Option<LogEntry>, StoreError> {
        self.read(|conn| {
            let newest = audit_log::table.order(audit_log::number.desc()).select(LogRow::as_select());
            let row: Option<LogRow> = newest.get_result(conn).optional().of("audit_log")?;
            row.map(LogEntry::try_from).transpose()
        })
        .await
    }

    async fn about(&self, subject: &str, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        let subject = subject.to_owned();
        self.read(move |conn| {
            let rows: Vec<LogRow> = audit_log::table
                .filter(audit_log::subject.eq(subject))
                .order(audit_log::number.desc())
                .limit(limit.into())
                .select(LogRow::as_select())
                .load(conn)
                .of("audit_log")?;
            rows.into_iter().map(LogEntry::try_from).collect()
        })
        .await
    }
}
