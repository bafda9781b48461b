//! The settings of every connection, and that they are really in force.

use diesel::connection::SimpleConnection;
use diesel::prelude::{Connection, QueryDsl, RunQueryDsl};
use diesel::result::QueryResult;
use diesel::sqlite::SqliteConnection;

/// How long a connection waits for another one's lock, in milliseconds.
pub const BUSY_TIMEOUT_MS: u32 = 5_000;

/// What `PRAGMA synchronous` says of `FULL`: each commit is flushed before it is answered.
pub const SYNCHRONOUS_FULL: i32 = 2;

/// How many times WAL mode is asked for: SQLite doesn't wait for others who do the same at the same moment.
const WAL_ATTEMPTS: u32 = 50;

/// The pause between two of them.
const WAL_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// What a connection is set to, read as tables.
pub mod pragmas {
    diesel::table! {
        pragma_journal_mode (journal_mode) { journal_mode -> Text, }
    }
    diesel::table! {
        pragma_synchronous (synchronous) { synchronous -> Integer, }
    }
    diesel::table! {
        pragma_foreign_keys (foreign_keys) { foreign_keys -> Bool, }
    }
    diesel::table! {
        pragma_foreign_key_check (parent) { parent -> Text, }
    }
    diesel::table! {
        pragma_integrity_check (integrity_check) { integrity_check -> Text, }
    }
}

use pragmas::{pragma_foreign_keys, pragma_journal_mode, pragma_synchronous};

/// A connection with what all have in common. What a savepoint may have to undo is kept in memory: in a temporary file it
/// costs a write a page.
fn establish(url: &str) -> Result<SqliteConnection, String> {
    let mut conn = SqliteConnection::establish(url).map_err(|error| error.to_string())?;
    let settings = format!(
        "PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;"
    );
    conn.batch_execute(&settings).map_err(|error| error.to_string())?;
    Ok(conn)
}

/// A connection for what is neither serving nor migrating.
pub fn plain(url: &str) -> Result<SqliteConnection, String> {
    establish(url)
}

/// The connection that writes.
pub fn writer(url: &str) -> Result<SqliteConnection, String> {
    let mut conn = establish(url)?;
    use_wal(&mut conn)?;
    conn.batch_execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;")
        .map_err(|error| error.to_string())?;
    let synchronous =
        pragma_synchronous::table.select(pragma_synchronous::synchronous).get_result::<i32>(&mut conn);
    let foreign_keys =
        pragma_foreign_keys::table.select(pragma_foreign_keys::foreign_keys).get_result::<bool>(&mut conn);
    match (synchronous, foreign_keys) {
        (Ok(SYNCHRONOUS_FULL), Ok(true)) => Ok(conn),
        _ => Err("SQLite does not take the settings synchronous=FULL and foreign_keys=ON".to_owned()),
    }
}

fn use_wal(conn: &mut SqliteConnection) -> Result<(), String> {
    let mut attempt = 0;
    while let Err(error) = conn.batch_execute("PRAGMA journal_mode = WAL;") {
        attempt += 1;
        if attempt == WAL_ATTEMPTS {
            return Err(error.to_string());
        }
        std::thread::sleep(WAL_PAUSE);
    }
    let mode =
        pragma_journal_mode::table.select(pragma_journal_mode::journal_mode).get_result::<String>(conn);
    match mode.map_err(|error| error.to_string())?.as_str() {
        "wal" => Ok(()),
        _ => Err("SQLite can't use a write-ahead log here; a network file system can't hold the database"
            .to_owned()),
    }
}

/// A connection that can't write.
pub fn reader(url: &str) -> Result<SqliteConnection, String> {
    let mut conn = establish(url)?;
    conn.batch_execute("PRAGMA query_only = ON;").map_err(|error| error.to_string())?;
    Ok(conn)
}

/// The connection that migrates: foreign keys are off, so that a table can be made anew, and checked at the end.
pub fn migrator(url: &str) -> Result<SqliteConnection, String> {
    let mut conn = establish(url)?;
    let settings = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;";
    conn.batch_execute(settings).map_err(|error| error.to_string())?;
    Ok(conn)
}

/// Ends the writer's transaction, durably.
pub fn commit(conn: &mut SqliteConnection) -> QueryResult<()> {
    conn.batch_execute("COMMIT")
}

#[cfg(test)]
mod tests {
    use super::*;

    diesel::table! {
        pragma_busy_timeout (timeout) { timeout -> BigInt, }
    }
    diesel::table! {
        pragma_query_only (query_only) { query_only -> Bool, }
    }

    #[test]
    fn the_settings_are_really_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().join("settings.db").to_str().unwrap().to_owned();
        let mut conn = writer(&url).unwrap();
        let mode: String = pragma_journal_mode::table
            .select(pragma_journal_mode::journal_mode)
            .get_result(&mut conn)
            .unwrap();
        let synchronous: i32 =
            pragma_synchronous::table.select(pragma_synchronous::synchronous).get_result(&mut conn).unwrap();
        let foreign_keys: bool = pragma_foreign_keys::table
            .select(pragma_foreign_keys::foreign_keys)
            .get_result(&mut conn)
            .unwrap();
        assert_eq!((mode.as_str(), synchronous, foreign_keys), ("wal", SYNCHRONOUS_FULL, true));

        conn.batch_execute("CREATE TABLE t (n INTEGER) STRICT").unwrap();
        let mut reads = reader(&url).unwrap();
        for conn in [&mut conn, &mut reads] {
            let wait: i64 =
                pragma_busy_timeout::table.select(pragma_busy_timeout::timeout).get_result(conn).unwrap();
            assert_eq!(wait, i64::from(BUSY_TIMEOUT_MS));
        }
        assert!(
            pragma_query_only::table
                .select(pragma_query_only::query_only)
                .get_result::<bool>(&mut reads)
                .unwrap()
        );
        assert!(reads.batch_execute("INSERT INTO t VALUES (1)").is_err());
    }
}
