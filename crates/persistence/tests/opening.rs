//! What happens before a file is used: every refusal says what to do, and leaves the file as it was.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use diesel::connection::{Connection, SimpleConnection};
use diesel::prelude::{ExpressionMethods, QueryDsl, RunQueryDsl};
use diesel::sqlite::SqliteConnection;
use pix_domain::audit::{self, BookStore};
use pix_domain::credentials::store::IntegratorStore;
use pix_domain::evidence::EvidenceStore;
use pix_domain::wallet::store::WalletStore;
use pix_persistence::sqlite::{OpenError, SqliteOptions, SqliteStore};
use tempfile::TempDir;

mod catalog {
    //! What SQLite says of its tables.

    diesel::table! {
        pragma_table_list (name) {
            schema -> Text,
            name -> Text,
            strict -> Bool,
        }
    }
}

use catalog::pragma_table_list;

const MIGRATING: SqliteOptions = SqliteOptions {
    migrate: true,
    readers: pix_persistence::sqlite::DEFAULT_READERS,
    acquire_timeout: pix_persistence::sqlite::DEFAULT_ACQUIRE_TIMEOUT,
    queue_wait: pix_persistence::sqlite::DEFAULT_QUEUE_WAIT,
};

/// The first two migrations, as whoever ran them has them.
const AT_MIGRATION_2: [(&str, &str); 2] = [
    ("20261121000001", include_str!("../../../migrations/sqlite/2026-11-21-000001_books/up.sql")),
    ("20261121000002", include_str!("../../../migrations/sqlite/2026-11-21-000002_evidence/up.sql")),
];

/// Rows of a database that is there.
const ROWS_AT_MIGRATION_2: &str = include_str!("fixtures/at_migration_2.sql");

/// The tables that were there then, with what each row has more of now.
const TABLES_AT_MIGRATION_2: [(&str, &str); 15] = [
    ("integrators", ", NULL, NULL"),
    ("api_keys", ", 1, NULL, 1, NULL, NULL, NULL, NULL, '', NULL"),
    ("fee_schedules", ""),
    ("wallets", ", 0, 0"),
    ("postings", ""),
    ("charges", ", 0, 0, NULL, NULL"),
    ("receipts", ""),
    ("withdrawals", ", 0, 0, NULL"),
    ("refunds", ""),
    ("handles", ""),
    ("events", ", NULL, NULL, NULL, NULL"),
    ("findings", ""),
    ("facts", ""),
    ("evidence", ""),
    ("twins", ""),
];

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pix-gateway.db");
    (folder, path)
}

fn refused(path: &Path, options: SqliteOptions) -> OpenError {
    SqliteStore::open(path, options).expect_err("a refusal")
}

fn raw(path: &Path, sql: &str) {
    SqliteConnection::establish(path.to_str().unwrap()).unwrap().batch_execute(sql).unwrap();
}

#[tokio::test]
async fn a_new_file_is_made_only_when_asked_for() {
    let (_folder, path) = place();
    let error = refused(&path, SqliteOptions::default());
    assert_eq!(error, OpenError::Missing(path.clone()));
    assert!(error.to_string().contains("run the migrations"), "{error}");
    assert!(!path.exists());
    let store = SqliteStore::open(&path, MIGRATING).unwrap();
    assert_eq!(store.path(), path);
    assert!(store.schema_version() >= "20261121000001", "{}", store.schema_version());
}

#[tokio::test]
async fn a_migrated_file_needs_nothing_and_migrating_again_does_nothing() {
    let (_folder, path) = place();
    let pending = SqliteStore::pending_migrations(&path).unwrap();
    assert!(!pending.is_empty());
    assert_eq!(SqliteStore::migrate(&path).unwrap(), pending);
    assert_eq!(SqliteStore::pending_migrations(&path).unwrap(), Vec::<String>::new());
    let before = fs::read(&path).unwrap();
    assert_eq!(SqliteStore::migrate(&path).unwrap(), Vec::<String>::new());
    assert_eq!(fs::read(&path).unwrap(), before);
    SqliteStore::open(&path, SqliteOptions::default()).unwrap();
}

#[tokio::test]
async fn a_schema_of_the_past_is_refused_unless_migrating_is_asked_for() {
    let (_folder, path) = place();
    fs::write(&path, b"").unwrap();
    let error = refused(&path, SqliteOptions::default());
    assert!(matches!(&error, OpenError::Pending { migrations, .. } if !migrations.is_empty()), "{error}");
    assert!(error.to_string().contains("back it up"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"");
    SqliteStore::open(&path, MIGRATING).unwrap();
}

#[tokio::test]
async fn a_schema_of_the_future_is_refused() {
    let (_folder, path) = place();
    SqliteStore::migrate(&path).unwrap();
    raw(&path, "INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231000000')");
    for error in [
        refused(&path, MIGRATING),
        refused(&path, SqliteOptions::default()),
        SqliteStore::migrate(&path).unwrap_err(),
        SqliteStore::pending_migrations(&path).unwrap_err(),
    ] {
        assert_eq!(error, OpenError::Newer { path: path.clone(), version: "99991231000000".into() });
        let text = error.to_string();
        assert!(text.contains("was written by a newer pix-gateway: upgrade the program, or "), "{text}");
    }
}

#[tokio::test]
async fn what_is_not_a_database_is_refused_and_left_alone() {
    let (_folder, path) = place();
    let mut broken = b"SQLite format 3\0".to_vec();
    broken.extend([0x55; 4096]);
    let (other, damaged) = (OpenError::NotADatabase(path.clone()), OpenError::Damaged(path.clone()));
    for (content, error) in
        [(b"a letter to my mother".to_vec(), &other), (b"SQL".to_vec(), &other), (broken, &damaged)]
    {
        fs::write(&path, &content).unwrap();
        assert_eq!(refused(&path, MIGRATING), *error);
        assert_eq!(fs::read(&path).unwrap(), content);
    }
}

#[tokio::test]
async fn another_programs_database_is_refused() {
    let (_folder, path) = place();
    raw(&path, "CREATE TABLE songs (title TEXT)");
    assert_eq!(refused(&path, MIGRATING), OpenError::Foreign(path.clone()));
}

#[tokio::test]
async fn paths_that_lead_nowhere_are_refused() {
    let (folder, path) = place();
    let elsewhere = folder.path().join("no such folder");
    assert_eq!(refused(&elsewhere.join("a.db"), MIGRATING), OpenError::NoFolder(elsewhere));
    assert_eq!(refused(folder.path(), MIGRATING), OpenError::NotAFile(folder.path().to_owned()));

    SqliteStore::migrate(&path).unwrap();
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    let error = refused(&path, MIGRATING);
    assert_eq!(error, OpenError::ReadOnly(path));
}

#[test]
fn without_a_runtime_a_store_is_refused_and_not_panicked_about() {
    let (_folder, path) = place();
    assert!(matches!(refused(&path, MIGRATING), OpenError::NoRuntime(_)));
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_may_read_a_new_file() {
    use std::os::unix::fs::PermissionsExt;

    let (folder, path) = place();
    let _store = SqliteStore::open(&path, MIGRATING).unwrap();
    for file in fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", file.file_name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn programs_that_start_at_once_on_a_new_file_all_get_it() {
    let (_folder, path) = place();
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            tokio::task::spawn_blocking(move || SqliteStore::open(path, MIGRATING).map(|_| ()))
        })
        .collect();
    for start in starts {
        assert_eq!(start.await.unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn every_table_is_strict() {
    let (_folder, path) = place();
    SqliteStore::migrate(&path).unwrap();
    let mut conn = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
    let tables: Vec<(String, bool)> = pragma_table_list::table
        .filter(pragma_table_list::schema.eq("main"))
        .select((pragma_table_list::name, pragma_table_list::strict))
        .load(&mut conn)
        .unwrap();
    let ours: Vec<_> = tables
        .iter()
        .filter(|(name, _)| !name.starts_with("sqlite_") && name != "__diesel_schema_migrations")
        .collect();
    assert_eq!(ours.len(), 28, "{ours:?}");
    assert!(ours.iter().all(|(_, strict)| *strict), "{ours:?}");
}

#[tokio::test]
async fn a_file_of_the_second_migration_is_brought_up_to_date_with_all_that_is_in_it() {
    let (_folder, path) = place();
    raw(
        &path,
        "CREATE TABLE __diesel_schema_migrations (version VARCHAR(50) PRIMARY KEY NOT NULL, run_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    );
    for (version, schema) in AT_MIGRATION_2 {
        raw(&path, schema);
        raw(&path, &format!("INSERT INTO __diesel_schema_migrations (version) VALUES ('{version}')"));
    }
    raw(&path, ROWS_AT_MIGRATION_2);
    for (table, _) in TABLES_AT_MIGRATION_2 {
        raw(&path, &format!("CREATE TABLE was_{table} AS SELECT * FROM {table}"));
    }
    assert_eq!(
        SqliteStore::migrate(&path).unwrap(),
        [
            "2026-11-21-000003_uncertain",
            "2026-11-22-000004_postbacks",
            "2026-11-22-000005_keys",
            "2026-11-22-000006_metadata",
            "2026-11-22-000007_limits",
            "2026-11-22-000008_splits",
            "2026-11-22-000009_seals",
            "2026-11-22-000010_references",
            "2026-11-23-000011_people",
            "2026-11-23-000012_of_one_integrator",
            "2026-11-24-000013_follow_ups"
        ]
    );
    for (table, more) in TABLES_AT_MIGRATION_2 {
        // Fails when a row isn't as it was, or there are more or fewer.
        raw(
            &path,
            &format!(
                "CREATE TEMP TABLE proof (wrong INTEGER CHECK (wrong = 0)); \
                 INSERT INTO proof SELECT count(*) FROM (SELECT *{more} FROM was_{table} EXCEPT SELECT * FROM {table}); \
                 INSERT INTO proof SELECT (SELECT count(*) FROM was_{table}) - (SELECT count(*) FROM {table}); \
                 DROP TABLE was_{table};"
            ),
        );
    }
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let owner = IntegratorStore::list(&store).await.unwrap()[0].id;
    let book = store.book(owner).await.unwrap();
    assert_eq!(audit::check(owner, &book), Vec::new());
    assert_eq!(
        (book.entries.len(), book.charges.len(), book.withdrawals.len(), book.refunds.len()),
        (12, 2, 3, 1)
    );
    let wallet = store.wallet(owner).await.unwrap();
    assert_eq!((wallet.available.get(), wallet.held.get(), wallet.owed.get()), (4_970, 400, 0));
    assert_eq!(EvidenceStore::list(&store, book.withdrawals[2].resource()).await.unwrap().len(), 1);
}
