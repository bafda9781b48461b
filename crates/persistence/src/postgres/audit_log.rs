//! The journal of administrative acts. The schema refuses to change or remove an entry.

use async_trait::async_trait;
use diesel::prelude::{ExpressionMethods, QueryDsl, SelectableHelper};
use diesel_async::RunQueryDsl;
use pix_domain::audit_log::{AuditLogStore, LogEntry};
use pix_domain::error::StoreError;

use super::PgStore;
use super::ask::Ask;
use super::error::{DbError, Of};
use super::types::can_be_kept;
use crate::rows::LogRow;
use crate::schema::audit_log;

#[async_trait]
impl AuditLogStore for PgStore {
    async fn append(&self, entry: LogEntry) -> Result<bool, StoreError> {
        let row = LogRow::try_from(entry)?;
        let mut conn = self.writes().await?;
        let kept = diesel::insert_into(audit_log::table)
            .values(&row)
            .on_conflict(audit_log::number)
            .do_nothing()
            .execute(&mut conn)
            .await;
        Ok(kept.of("audit_log").map_err(DbError::of_write)? > 0)
    }

    async fn list(&self, after: u64, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        // No entry has a number above the range of the column.
        let Ok(after) = i64::try_from(after) else { return Ok(Vec::new()) };
        let mut conn = self.reads().await?;
        let rows: Vec<LogRow> = audit_log::table
            .filter(audit_log::number.gt(after))
            .order(audit_log::number.asc())
            .limit(limit.into())
            .select(LogRow::as_select())
            .rows(&mut conn)
            .await
            .of("audit_log")?;
        rows.into_iter().map(LogEntry::try_from).collect()
    }

    async fn newest(&self) -> Result<Option<LogEntry>, StoreError> {
        let mut conn = self.reads().await?;
        let newest = audit_log::table.order(audit_log::number.desc()).select(LogRow::as_select());
        let row: Option<LogRow> = newest.limit(1).found(&mut conn).await.of("audit_log")?;
        row.map(LogEntry::try_from).transpose()
    }

    async fn about(&self, subject: &str, limit: u32) -> Result<Vec<LogEntry>, StoreError> {
        if !can_be_kept(subject) {
            return Ok(Vec::new());
        }
        let mut conn = self.reads().await?;
        let rows: Vec<LogRow> = audit_log::table
            .filter(audit_log::subject.eq(subject))
            .order(audit_log::number.desc())
            .limit(limit.into())
            .select(LogRow::as_select())
            .rows(&mut conn)
            .await
            .of("audit_log")?;
        rows.into_iter().map(LogEntry::try_from).collect()
    }
}
