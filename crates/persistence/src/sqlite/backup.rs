//! A copy of a file that is in use, and whether a copy is whole.

use std::fs::File;
use std::path::Path;

use diesel::connection::SimpleConnection;
use diesel::prelude::{ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl};
use diesel::result::QueryResult;
use diesel::sqlite::SqliteConnection;

use super::SqliteStore;
use super::connection::{self, pragmas::pragma_integrity_check};
use super::open::{self, OpenError};
use crate::schema::facts;

/// Refuses what is no file. It may be one that can only be read.
fn look_for(path: &Path) -> Result<(), OpenError> {
    if path.is_file() { Ok(()) } else { Err(OpenError::Missing(path.to_owned())) }
}

/// Says in a copy that it is one, unless it says so already, as that of a copy does.
fn mark_copy(copy: &mut SqliteConnection, mark: &'static str, value: &str) -> QueryResult<()> {
    let said: Option<String> = facts::table.find(mark).select(facts::value).get_result(copy).optional()?;
    if said.is_none_or(|said| said.is_empty()) {
        diesel::replace_into(facts::table)
            .values((facts::name.eq(mark), facts::value.eq(value)))
            .execute(copy)?;
    }
    Ok(())
}

/// How many mistakes in a file are told at the most.
const MAX_TOLD: i64 = 5;

impl SqliteStore {
    /// Copies the database at `from`, which may be in use, to the new file `to`, as it is at one moment, and flushes it. In the
    /// copy the fact `mark` has the value `value`, so that it is never taken for the database itself; a value that is there
    /// already, and not empty, stays.
    ///
    /// [`OpenError`] when `from` is no database, or `to` can't be written. What is there of `to` then is to be removed.
    pub fn back_up(from: &Path, to: &Path, mark: &'static str, value: &str) -> Result<(), OpenError> {
        let (from, to) = (open::absolute(from)?, open::absolute(to)?);
        look_for(&from)?;
        open::create(&to)?;
        let said = |reason: String| OpenError::Failed { path: to.clone(), reason };
        let mut conn = connection::plain(&open::url(&from)?)
            .map_err(|reason| OpenError::Failed { path: from.clone(), reason })?;
        let quoted = open::url(&to)?.replace('\'', "''");
        conn.batch_execute(&format!("VACUUM INTO '{quoted}'")).map_err(|error| said(error.to_string()))?;
        drop(conn);
        let mut copy = connection::plain(&open::url(&to)?).map_err(said)?;
        mark_copy(&mut copy, mark, value).map_err(|error| said(error.to_string()))?;
        drop(copy);
        let folder = to.parent().unwrap_or(&to);
        let flushed = File::open(&to).and_then(|file| file.sync_all());
        flushed.and_then(|()| File::open(folder)?.sync_all()).map_err(|error| said(error.to_string()))
    }

    /// Whether the file is whole, as far as SQLite can tell: what is wrong with it, if anything is.
    pub fn check_integrity(path: &Path) -> Result<Vec<String>, OpenError> {
        let path = open::absolute(path)?;
        look_for(&path)?;
        let said = |reason: String| OpenError::Failed { path: path.clone(), reason };
        let mut conn = connection::plain(&open::url(&path)?).map_err(said)?;
        let told: Vec<String> = pragma_integrity_check::table
            .select(pragma_integrity_check::integrity_check)
            .limit(MAX_TOLD)
            .load(&mut conn)
            .map_err(|error| said(error.to_string()))?;
        Ok(told.into_iter().filter(|line| line != "ok").collect())
    }
}
