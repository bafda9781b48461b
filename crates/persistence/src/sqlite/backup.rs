//! A copy of a file that is in use, and whether a copy is whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

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

/// What a copy is called until it is whole and says that it is one; as that of no other process is.
fn partial_of(to: &Path) -> Result<PathBuf, OpenError> {
    let mut number = [0_u8; 8];
    getrandom::fill(&mut number).map_err(|error| failed(to, &error))?;
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{:016x}.partial", u64::from_be_bytes(number)));
    Ok(PathBuf::from(name))
}

fn failed(path: &Path, error: &impl ToString) -> OpenError {
    OpenError::Failed { path: path.to_owned(), reason: error.to_string() }
}

/// Writes the copy and flushes it.
fn copy_to(from: &Path, to: &Path, mark: &'static str, value: &str) -> Result<(), OpenError> {
    open::create(to)?;
    let mut conn = connection::plain(&open::url(from)?).map_err(|reason| failed(from, &reason))?;
    let quoted = open::url(to)?.replace('\'', "''");
    conn.batch_execute(&format!("VACUUM INTO '{quoted}'")).map_err(|error| failed(to, &error))?;
    drop(conn);
    let mut copy = connection::plain(&open::url(to)?).map_err(|reason| failed(to, &reason))?;
    mark_copy(&mut copy, mark, value).map_err(|error| failed(to, &error))?;
    drop(copy);
    File::open(to).and_then(|file| file.sync_all()).map_err(|error| failed(to, &error))
}

/// Gives a finished copy its name, which nothing may have yet.
fn put(partial: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(partial, to) {
        Ok(()) => {
            // A second name of the same file; whether it goes says nothing of the copy.
            let _ = fs::remove_file(partial);
            Ok(())
        }
        // Not every file system has them.
        Err(error) if error.kind() != ErrorKind::AlreadyExists && !to.exists() => fs::rename(partial, to),
        Err(error) => Err(error),
    }
}

/// How many mistakes in a file are told at the most.
const MAX_TOLD: i64 = 5;

impl SqliteStore {
    /// Copies the database at `from`, which may be in use, to the new file `to`, as it is at one moment, and flushes it. In the
    /// copy the fact `mark` has the value `value`, so that it is never taken for the database itself; a value that is there
    /// already, and not empty, stays. Until it is whole and says so, it has another name: that of `to`, numbers and
    /// `.partial`.
    ///
    /// [`OpenError`] when `from` is no database, or `to` can't be written; then there is nothing of it. What is at `to` is never touched.
    pub fn back_up(from: &Path, to: &Path, mark: &'static str, value: &str) -> Result<(), OpenError> {
        let (from, to) = (open::absolute(from)?, open::absolute(to)?);
        look_for(&from)?;
        let partial = partial_of(&to)?;
        let made = copy_to(&from, &partial, mark, value)
            .and_then(|()| put(&partial, &to).map_err(|error| failed(&to, &error)));
        if made.is_err() {
            let _ = fs::remove_file(&partial);
        }
        let folder = to.parent().unwrap_or(&to);
        made.and_then(|()| {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed(&to, &error))
        })
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
