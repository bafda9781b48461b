//! What happens before a PostgreSQL database is used: every refusal says what to do and shows no password.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use pix_domain::audit::{self, BookStore};
use pix_domain::credentials::store::IntegratorStore;
use pix_domain::evidence::EvidenceStore;
use pix_domain::wallet::store::WalletStore;
use pix_persistence::postgres::{OpenError, PgOptions, PgStore};
use pix_pg_server::{Options, PgServer, fresh_name};

const PATIENCE: Duration = Duration::from_secs(30);

/// The first two migrations, as whoever ran them has them.
const AT_MIGRATION_2: [(&str, &str); 2] = [
    ("20261121000001", include_str!("../../../migrations/postgres/2026-11-21-000001_books/up.sql")),
    ("20261121000002", include_str!("../../../migrations/postgres/2026-11-21-000002_evidence/up.sql")),
];

/// Rows of a database that is there.
const ROWS_AT_MIGRATION_2: &str = include_str!("fixtures/at_migration_2.sql");

/// The tables that were there then, with what each row has more of now.
const TABLES_AT_MIGRATION_2: [(&str, &str); 15] = [
    ("integrators", ", NULL::text, NULL::text"),
    (
        "api_keys",
        ", 1, NULL::bigint, 1, NULL::text, NULL::bigint, NULL::text, NULL::bigint, '', NULL::bigint",
    ),
    ("fee_schedules", ""),
    ("wallets", ", 0, 0"),
    ("postings", ""),
    ("charges", ", 0, false, NULL, NULL"),
    ("receipts", ""),
    ("withdrawals", ", false, false, NULL"),
    ("refunds", ""),
    ("handles", ""),
    ("events", ", NULL::bigint, NULL::bigint, NULL::uuid, NULL::text"),
    ("findings", ""),
    ("facts", ""),
    ("evidence", ""),
    ("twins", ""),
];

fn options(migrate: bool) -> PgOptions {
    PgOptions { migrate, connect_timeout: PATIENCE, ..PgOptions::default() }
}

fn server() -> &'static PgServer {
    pix_pg_server::shared().expect("a server")
}

/// A new database of the shared server, with nothing in it.
fn empty() -> String {
    let name = fresh_name();
    server().create_database(&name).unwrap();
    name
}

/// A new database with the schema.
async fn migrated() -> String {
    let name = empty();
    PgStore::migrate(&server().url(&name), PATIENCE).await.unwrap();
    name
}

fn sql(database: &str, sql: &str) -> String {
    server().psql(database, sql).unwrap()
}

/// What somebody who can't start it is told to do.
const TO_DO: [&str; 13] = [
    "write", "remove", "name", "set", "start", "correct", "create", "raise", "upgrade", "make", "back",
    "grant", "try",
];

async fn refused(url: &str) -> OpenError {
    let error = PgStore::open(url, options(false)).await.expect_err("a refusal");
    let said = error.to_string();
    assert!(!said.contains("SECRET"), "{error}");
    // One sentence that says what to do.
    let what_to_do = said.rsplit_once(": ").map(|(_, what)| what.split(' ').next().unwrap_or_default());
    assert!(what_to_do.is_some_and(|verb| TO_DO.contains(&verb)) && !said.contains(". "), "{said}");
    error
}

fn place(server: &PgServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// The server's URL for another role, with a password.
fn url_of(role: &str, database: &str) -> String {
    server().url(database).replace("pix@", &format!("{role}:SECRET@"))
}

fn role(options: &str) -> String {
    let name = fresh_name();
    sql("postgres", &format!("CREATE ROLE {name} LOGIN {options}"));
    name
}

#[tokio::test]
async fn an_empty_database_is_refused_unless_migrating_is_asked_for() {
    let name = empty();
    let url = server().url(&name);
    let error = refused(&url).await;
    assert!(matches!(&error, OpenError::Pending { migrations, .. } if !migrations.is_empty()), "{error:?}");
    assert!(error.to_string().contains("run `pix-gateway migrate`"), "{error}");
    assert_eq!(sql(&name, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
    let store = PgStore::open(&url, options(true)).await.unwrap();
    assert!(store.schema_version() >= "20261121000001", "{}", store.schema_version());
}

#[tokio::test]
async fn a_migrated_database_needs_nothing_and_migrating_again_does_nothing() {
    let url = server().url(&empty());
    let pending = PgStore::pending_migrations(&url, PATIENCE).await.unwrap();
    assert!(!pending.is_empty());
    assert_eq!(PgStore::migrate(&url, PATIENCE).await.unwrap(), pending);
    assert_eq!(PgStore::pending_migrations(&url, PATIENCE).await.unwrap(), Vec::<String>::new());
    assert_eq!(PgStore::migrate(&url, PATIENCE).await.unwrap(), Vec::<String>::new());
    PgStore::open(&url, options(false)).await.unwrap();
}

#[tokio::test]
async fn a_schema_of_the_future_is_refused() {
    let name = migrated().await;
    sql(&name, "INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231000000')");
    let url = server().url(&name);
    for error in [
        refused(&url).await,
        PgStore::open(&url, options(true)).await.unwrap_err(),
        PgStore::migrate(&url, PATIENCE).await.unwrap_err(),
        PgStore::pending_migrations(&url, PATIENCE).await.unwrap_err(),
    ] {
        assert_eq!(error, OpenError::Newer { database: name.clone(), version: "99991231000000".into() });
    }
}

#[tokio::test]
async fn another_programs_database_is_refused_and_left_alone() {
    let name = empty();
    sql(&name, "CREATE TABLE songs (title text)");
    let url = server().url(&name);
    assert_eq!(refused(&url).await, OpenError::Foreign(name.clone()));
    assert_eq!(PgStore::migrate(&url, PATIENCE).await, Err(OpenError::Foreign(name.clone())));
    assert_eq!(
        sql(&name, "SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = 'public'"),
        "songs"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn programs_that_start_at_once_on_a_new_database_all_get_it() {
    let url = server().url(&empty());
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { PgStore::open(&url, options(true)).await.map(|_| ()) })
        })
        .collect();
    for start in starts {
        assert_eq!(start.await.unwrap(), Ok(()));
    }
}

#[tokio::test]
async fn a_url_that_can_not_be_used_is_refused_before_anything_is_connected() {
    for (url, expected) in [
        ("sqlite://SECRET.db", "does not begin with postgres://"),
        ("postgres://pix:SECRET@h", "names no database"),
        ("postgres://pix:SECRET@h/d?ssl=1", "unknown parameter ssl:"),
        ("postgres://pix:SECRET@h/d?sslmode=allow", "sslmode=allow is not known"),
    ] {
        let text = refused(url).await.to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_does_not_answer() {
    // Nobody listens on a port that was just given back.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refused(&format!("postgres://pix:SECRET@127.0.0.1:{port}/books")).await;
    assert_eq!(error, OpenError::NotListening(format!("127.0.0.1:{port}")));
    let error = refused("postgres://pix:SECRET@/books?host=/no/such/folder").await;
    assert_eq!(error, OpenError::NotListening("/no/such/folder:5432".into()));
    let error = refused("postgres://pix:SECRET@255.255.255.255/books").await;
    assert!(matches!(&error, OpenError::Unreachable { .. }), "{error:?}");

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://pix:SECRET@{}/books", silent.local_addr().unwrap());
    let limit = Duration::from_millis(50);
    let error =
        PgStore::open(&url, PgOptions { connect_timeout: limit, ..options(false) }).await.unwrap_err();
    assert_eq!(error, OpenError::TimedOut { server: silent.local_addr().unwrap().to_string(), limit });
}

#[tokio::test]
async fn a_server_that_comes_up_is_waited_for_by_nobody_here() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]).unwrap();
        let fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
        stream.write_all(b"E").unwrap();
        stream.write_all(&u32::try_from(fields.len() + 4).unwrap().to_be_bytes()).unwrap();
        stream.write_all(fields).unwrap();
    });
    let error = refused(&format!("postgres://pix:SECRET@{server}/books")).await;
    answer.join().unwrap();
    assert_eq!(error, OpenError::NotUp { server, reason: "the database system is starting up".into() });
}

#[tokio::test]
async fn who_may_not_connect_is_told_why() {
    let name = empty();
    let at = place(server());
    let error = refused(&server().url("no_such_database")).await;
    assert_eq!(error, OpenError::NoDatabase { server: at.clone(), database: "no_such_database".into() });

    let error = refused(&url_of("no_such_role", &name)).await;
    assert!(matches!(&error, OpenError::NotLetIn { role, .. } if role == "no_such_role"), "{error:?}");

    let crowded = role("CONNECTION LIMIT 0");
    let error = refused(&url_of(&crowded, &name)).await;
    assert!(matches!(&error, OpenError::Full { .. }), "{error:?}");

    let outsider = role("");
    sql("postgres", &format!("REVOKE CONNECT ON DATABASE {name} FROM PUBLIC"));
    let error = refused(&url_of(&outsider, &name)).await;
    assert!(matches!(&error, OpenError::NotLetIn { .. }), "{error:?}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_never_shown() {
    // As it is by default since PostgreSQL 14.
    let own = PgServer::start(Options::default().with("password_encryption", "scram-sha-256")).unwrap();
    own.create_database("books").unwrap();
    own.psql("postgres", "CREATE ROLE teller LOGIN PASSWORD 'right'").unwrap();
    let rules = own.data_dir().join("pg_hba.conf");
    let trusting = fs::read_to_string(&rules).unwrap();
    fs::write(&rules, format!("host all teller 127.0.0.1/32 scram-sha-256\n{trusting}")).unwrap();
    own.reload().unwrap();
    let wrong = OpenError::WrongPassword { server: place(&own), role: "teller".into() };
    let url = own.url("books");
    assert_eq!(refused(&url.replace("pix@", "teller:SECRET@")).await, wrong);
    assert_eq!(refused(&url.replace("pix@", "teller@")).await, wrong);
    let error = refused(&url.replace("pix@", "teller:right@")).await;
    assert!(matches!(&error, OpenError::Pending { .. }), "{error:?}");
}

#[tokio::test]
async fn a_role_without_rights_is_refused_by_what_it_may_not() {
    let weak = role("");
    let (filled, empty) = (migrated().await, empty());
    sql(&empty, "REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let errors = [
        refused(&url_of(&weak, &filled)).await,
        PgStore::migrate(&url_of(&weak, &empty), PATIENCE).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(&error, OpenError::Denied { role, .. } if *role == weak), "{error:?}");
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }
}

#[tokio::test]
async fn a_database_that_would_forget_commits_or_take_none_is_refused() {
    let name = migrated().await;
    let url = server().url(&name);
    let not_durable = |value: &str| OpenError::NotDurable {
        database: name.clone(),
        setting: "synchronous_commit".into(),
        value: value.into(),
    };
    for (setting, value, expected) in [
        ("synchronous_commit", "off", not_durable("off")),
        ("synchronous_commit", "local", not_durable("local")),
        ("default_transaction_read_only", "on", OpenError::ReadOnly(name.clone())),
    ] {
        sql("postgres", &format!("ALTER DATABASE {name} SET {setting} = {value}"));
        assert_eq!(refused(&url).await, expected);
        sql("postgres", &format!("ALTER DATABASE {name} RESET {setting}"));
    }
    // The same, said in the URL.
    let asked = format!("{url}?options=-c%20synchronous_commit=off");
    assert_eq!(refused(&asked).await, not_durable("off"));
    PgStore::open(&url, options(false)).await.unwrap();
}

#[tokio::test]
async fn a_server_that_would_lose_data_in_a_crash_is_refused() {
    let own = PgServer::start(Options::default()).unwrap();
    own.create_database("books").unwrap();
    for setting in ["fsync", "full_page_writes"] {
        own.set(setting, "off").unwrap();
        let error = PgStore::open(&own.url("books"), options(true)).await.unwrap_err();
        let expected =
            OpenError::NotDurable { database: "books".into(), setting: setting.into(), value: "off".into() };
        assert_eq!(error, expected);
        own.set(setting, "on").unwrap();
    }
    PgStore::open(&own.url("books"), options(true)).await.unwrap();
}

#[tokio::test]
async fn a_standby_is_refused() {
    let own = PgServer::start(Options::default()).unwrap();
    own.create_database("books").unwrap();
    PgStore::migrate(&own.url("books"), PATIENCE).await.unwrap();
    let standby = own.replica().unwrap();
    let error = refused(&standby.url("postgres")).await;
    assert_eq!(error, OpenError::Standby(place(&standby)));
}

#[tokio::test]
async fn a_database_of_another_encoding_is_refused() {
    let name = fresh_name();
    sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII'"));
    let error = refused(&server().url(&name)).await;
    assert_eq!(error, OpenError::NotUtf8 { database: name, encoding: "SQL_ASCII".into() });
}

#[tokio::test]
async fn the_constraints_that_refusals_are_known_by_have_their_names() {
    let name = migrated().await;
    let keys = "SELECT string_agg(conname, ' ' ORDER BY conname COLLATE \"C\") FROM pg_constraint \
                WHERE connamespace = 'public'::regnamespace AND contype IN ('p', 'u')";
    let expected = "__diesel_schema_migrations_pkey api_keys_number_key api_keys_pkey \
                    audit_log_pkey callbacks_pkey charge_follow_ups_pkey charges_external_id_key charges_pkey deliveries_pkey delivery_attempts_pkey endpoints_pkey \
                    events_pkey evidence_pkey facts_pkey fee_schedules_pkey \
                    findings_code_key findings_pkey handles_pkey integrators_pkey limits_pkey locked_parts_pkey payee_keys_pkey people_pkey people_subject_key postback_secrets_pkey postings_pkey \
                    receipts_number_key receipts_pkey refunds_external_id_key refunds_pkey seal_differences_pkey seals_pkey splits_pkey twins_pkey wallets_pkey \
                    withdrawals_external_id_key withdrawals_pkey";
    assert_eq!(sql(&name, keys), expected);
    let foreign = keys.replace("('p', 'u')", "('f')");
    let expected = "api_keys_integrator_id_fkey fee_schedules_integrator_id_fkey limits_integrator_id_fkey \
                    payee_keys_person_id_fkey postback_secrets_integrator_id_fkey refunds_charge_id_fkey \
                    seal_differences_integrator_id_fkey seals_integrator_id_fkey wallets_integrator_id_fkey";
    assert_eq!(sql(&name, &foreign), expected);
}

#[tokio::test]
async fn the_integrator_leads_every_key_of_what_belongs_to_one() {
    let name = migrated().await;
    let others = "SELECT string_agg(conname, ' ' ORDER BY conname COLLATE \"C\") FROM pg_constraint \
                  JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1] \
                  WHERE connamespace = 'public'::regnamespace AND contype = 'f' \
                  AND attname <> 'integrator_id' AND conrelid <> '__diesel_schema_migrations'::regclass";
    assert_eq!(sql(&name, others), "");
    // Unique indexes, whether or not a constraint has made them.
    let others = "SELECT string_agg(relname, ' ' ORDER BY relname COLLATE \"C\") FROM pg_index \
                  JOIN pg_class ON pg_class.oid = indexrelid \
                  LEFT JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] \
                  WHERE relnamespace = 'public'::regnamespace AND indisunique \
                  AND attname IS DISTINCT FROM 'integrator_id' AND indrelid <> '__diesel_schema_migrations'::regclass";
    // The journal and the callbacks are of the whole deployment, as facts are.
    let expected = "api_keys_pkey audit_log_pkey callbacks_pkey callbacks_waiting_key facts_pkey integrators_pkey \
                    receipts_number_key";
    assert_eq!(sql(&name, others), expected);
}

#[tokio::test]
async fn a_database_of_the_second_migration_is_brought_up_to_date_with_all_that_is_in_it() {
    let name = empty();
    sql(
        &name,
        "CREATE TABLE __diesel_schema_migrations (version VARCHAR(50) PRIMARY KEY NOT NULL, run_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    );
    for (version, schema) in AT_MIGRATION_2 {
        sql(&name, schema);
        sql(&name, &format!("INSERT INTO __diesel_schema_migrations (version) VALUES ('{version}')"));
    }
    sql(&name, "ALTER TABLE events ALTER transition_id SET DEFAULT gen_random_uuid()");
    sql(&name, ROWS_AT_MIGRATION_2);
    for (table, _) in TABLES_AT_MIGRATION_2 {
        sql(&name, &format!("CREATE TABLE was_{table} AS TABLE {table}"));
    }
    let url = server().url(&name);
    assert_eq!(
        PgStore::migrate(&url, PATIENCE).await.unwrap(),
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
        let lost =
            format!("SELECT count(*) FROM (SELECT *{more} FROM was_{table} EXCEPT ALL TABLE {table}) lost");
        assert_eq!(sql(&name, &lost), "0", "{table}");
        let made =
            format!("SELECT count(*) FROM (TABLE {table} EXCEPT ALL SELECT *{more} FROM was_{table}) made");
        assert_eq!(sql(&name, &made), "0", "{table}");
    }
    let store = PgStore::open(&url, options(false)).await.unwrap();
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
