//! Looking at a file before it is used, and bringing its schema up to date.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use diesel::migration::{Migration, MigrationSource};
use diesel::prelude::{ExpressionMethods, QueryDsl, RunQueryDsl};
use diesel::sqlite::{Sqlite, SqliteConnection};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use thiserror::Error;

use super::connection::{self, pragmas::pragma_foreign_key_check};
use super::error::is_corrupt;

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/sqlite");

/// The first bytes of every SQLite file (<https://www.sqlite.org/fileformat2.html>, §1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

diesel::table! {
    sqlite_master (name) {
        #[sql_name = "type"]
        kind -> Text,
        name -> Text,
    }
}

diesel::table! {
    #[sql_name = "__diesel_schema_migrations"]
    schema_migrations (version) {
        version -> Text,
    }
}

/// Why a store can't be opened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The folder isn't there.
    #[error("the folder {} does not exist: create it, or set another path for the database", .0.display())]
    NoFolder(PathBuf),
    /// The file isn't there, and creating it wasn't asked for.
    #[error("there is no database at {}: run the migrations to create it, or correct the path", .0.display())]
    Missing(PathBuf),
    /// The path names something else than a file, or can't be a file's name.
    #[error("{} can't be a database file: set another path for the database", .0.display())]
    NotAFile(PathBuf),
    /// The file may not be written.
    #[error("{} is read-only: let the user that runs this program write it and its folder", .0.display())]
    ReadOnly(PathBuf),
    /// The file holds something else.
    #[error(
        "{} is not an SQLite database, or its beginning is damaged: keep it in another place and restore a backup, or set another \
         path for the database", .0.display()
    )]
    NotADatabase(PathBuf),
    /// The file is a database that can't be read any more.
    #[error(
        "{} is damaged: keep it, with what is beside it, in another place, and restore a backup", .0.display()
    )]
    Damaged(PathBuf),
    /// The database is another program's.
    #[error("{} is the database of another program: set another path for the database", .0.display())]
    Foreign(PathBuf),
    /// The schema is of a later version of this program.
    #[error(
        "{} was written by a newer pix-gateway: upgrade the program, or restore a backup of the older version \
         (unknown migration {version})", .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// A migration this program doesn't know.
        version: String,
    },
    /// The schema is of an earlier version of this program.
    #[error("{} needs {} migration(s) ({}): back it up and run the migrations", .path.display(), .migrations.len(), .migrations.join(", "))]
    Pending {
        /// The file.
        path: PathBuf,
        /// The names of what it needs.
        migrations: Vec<String>,
    },
    /// There is no runtime to read on.
    #[error("a store is opened inside a tokio runtime: {0}")]
    NoRuntime(String),
    /// SQLite or the operating system failed.
    #[error("{} can't be opened: {reason}", .path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What was said.
        reason: String,
    },
}

fn failed(path: &Path, reason: &str) -> OpenError {
    match reason {
        _ if is_corrupt(reason) => OpenError::Damaged(path.to_owned()),
        _ if reason.contains("readonly database") => OpenError::ReadOnly(path.to_owned()),
        _ => OpenError::Failed { path: path.to_owned(), reason: reason.to_owned() },
    }
}

/// The file's absolute path: so `:memory:` and `file:` are names like any other.
pub fn absolute(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).ok().ok_or_else(|| OpenError::NotAFile(path.to_owned()))
}

/// The path as SQLite takes it.
pub fn url(path: &Path) -> Result<String, OpenError> {
    path.to_str().map(str::to_owned).ok_or_else(|| OpenError::NotAFile(path.to_owned()))
}

/// Looks at the file itself; whether it is there.
fn look(path: &Path) -> Result<bool, OpenError> {
    let folder = path.parent().ok_or_else(|| OpenError::NotAFile(path.to_owned()))?;
    if !folder.is_dir() {
        return Err(OpenError::NoFolder(folder.to_owned()));
    }
    let Ok(metadata) = fs::metadata(path) else { return Ok(false) };
    if !metadata.is_file() {
        return Err(OpenError::NotAFile(path.to_owned()));
    }
    if metadata.permissions().readonly() {
        return Err(OpenError::ReadOnly(path.to_owned()));
    }
    let mut start = Vec::with_capacity(MAGIC.len());
    let read =
        fs::OpenOptions::new().read(true).write(true).open(path).and_then(|file| {
            file.take(u64::try_from(MAGIC.len()).unwrap_or(u64::MAX)).read_to_end(&mut start)
        });
    match read {
        Ok(_) if start.is_empty() || start == MAGIC => Ok(true),
        Ok(_) => Err(OpenError::NotADatabase(path.to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(OpenError::ReadOnly(path.to_owned()))
        }
        Err(error) => Err(failed(path, &error.to_string())),
    }
}

/// Creates an empty file that only its owner may read: it will hold personal data and hashes of secrets.
pub fn create(path: &Path) -> Result<(), OpenError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let made = options.open(path).and_then(|file| file.sync_all());
    // The name is durable only when its folder is.
    let kept = made.and_then(|()| path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all()));
    match kept {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(OpenError::ReadOnly(path.to_owned()))
        }
        Err(error) => Err(failed(path, &error.to_string())),
    }
}

fn embedded() -> Vec<Box<dyn Migration<Sqlite>>> {
    let mut migrations = MigrationSource::<Sqlite>::migrations(&MIGRATIONS).unwrap_or_default();
    migrations.sort_by_key(|migration| migration.name().version().to_string());
    migrations
}

/// The file's migrations that this program knows and the file has not, by name, and the newest it has.
fn compare(path: &Path, conn: &mut SqliteConnection) -> Result<(Vec<String>, Option<String>), OpenError> {
    let say = |error: diesel::result::Error| failed(path, &error.to_string());
    let tables: Vec<String> = sqlite_master::table
        .filter(sqlite_master::kind.eq("table"))
        .select(sqlite_master::name)
        .load(conn)
        .map_err(say)?;
    let applied: Vec<String> = if tables.iter().any(|name| name == "__diesel_schema_migrations") {
        let versions = schema_migrations::table.select(schema_migrations::version);
        versions.order(schema_migrations::version.asc()).load(conn).map_err(say)?
    } else if tables.is_empty() {
        Vec::new()
    } else {
        return Err(OpenError::Foreign(path.to_owned()));
    };
    let known = embedded();
    let is_known =
        |version: &String| known.iter().any(|known| known.name().version().to_string() == *version);
    if let Some(version) = applied.iter().find(|version| !is_known(version)) {
        return Err(OpenError::Newer { path: path.to_owned(), version: version.clone() });
    }
    let missing = known.iter().filter(|known| !applied.contains(&known.name().version().to_string()));
    Ok((missing.map(|migration| migration.name().to_string()).collect(), applied.last().cloned()))
}

/// What the file still needs.
pub fn pending(path: &Path) -> Result<Vec<String>, OpenError> {
    if !look(path)? {
        return Ok(embedded().iter().map(|migration| migration.name().to_string()).collect());
    }
    let mut conn = connection::reader(&url(path)?).map_err(|reason| failed(path, &reason))?;
    Ok(compare(path, &mut conn)?.0)
}

/// Brings the file up to date; the names of what was run.
pub fn migrate(path: &Path) -> Result<Vec<String>, OpenError> {
    if !look(path)? {
        create(path)?;
    }
    let mut conn = connection::migrator(&url(path)?).map_err(|reason| failed(path, &reason))?;
    if compare(path, &mut conn)?.0.is_empty() {
        return Ok(Vec::new());
    }
    // The write lock first: of two programs that start at once, the second one finds nothing left to do.
    let run = conn.immediate_transaction::<_, Box<dyn std::error::Error + Send + Sync>, _>(|conn| {
        let pending = compare(path, conn)?.0;
        conn.run_pending_migrations(MIGRATIONS)?;
        let orphans: i64 = pragma_foreign_key_check::table.count().get_result(conn)?;
        if orphans > 0 {
            return Err(
                format!("after the migrations, {orphans} row(s) would name rows that do not exist").into()
            );
        }
        Ok(pending)
    });
    run.map_err(|error| match error.downcast::<OpenError>() {
        Ok(error) => *error,
        Err(error) => failed(path, &error.to_string()),
    })
}

/// The writer's connection to a file that is up to date, and the newest migration it has.
pub fn ready(path: &Path) -> Result<(SqliteConnection, String), OpenError> {
    if !look(path)? {
        return Err(OpenError::Missing(path.to_owned()));
    }
    let url = url(path)?;
    let mut conn = connection::reader(&url).map_err(|reason| failed(path, &reason))?;
    let (pending, newest) = compare(path, &mut conn)?;
    match newest {
        Some(newest) if pending.is_empty() => {
            // Only now: the settings of the writer change the file.
            let conn = connection::writer(&url).map_err(|reason| failed(path, &reason))?;
            Ok((conn, newest))
        }
        _ => Err(OpenError::Pending { path: path.to_owned(), migrations: pending }),
    }
}
