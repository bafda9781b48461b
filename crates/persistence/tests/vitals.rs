//! What operators are told of a store, the same of either.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use pix_conformance::{Services, StoreSet};
use pix_domain::ids::ResourceKind;
use pix_domain::time::Timestamp;
use pix_persistence::postgres::{PgOptions, PgStore};
use pix_persistence::sqlite::{SqliteOptions, SqliteStore};
use pix_persistence::{Overdue, Vitals};

const PATIENCE: Duration = Duration::from_secs(30);

fn sqlite(folder: &tempfile::TempDir) -> Arc<SqliteStore> {
    let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
    Arc::new(SqliteStore::open(folder.path().join("pix.db"), options).unwrap())
}

/// A store, and the name of its database.
async fn postgres() -> (Arc<PgStore>, String) {
    let (server, database) = (pix_pg_server::shared().unwrap(), pix_pg_server::fresh_name());
    server.create_database(&database).unwrap();
    let options = PgOptions {
        migrate: true,
        connect_timeout: PATIENCE,
        acquire_timeout: PATIENCE,
        statement_timeout: PATIENCE,
        ..PgOptions::default()
    };
    (Arc::new(PgStore::open(&server.url(&database), options).await.unwrap()), database)
}

/// Two integrators with 150.00 together, of which 30.00 are held by a withdrawal that is due in a minute.
async fn some_money(services: &Services) -> Timestamp {
    services.funded(5_000).await;
    let other = services.funded(10_000).await;
    let due = services.now().plus(Duration::from_mins(1));
    let mut intent = services.withdrawal_intent(other, 3_000);
    intent.writes.first_mut().unwrap().follow_up = Some(due);
    services.apply(intent).await;
    due
}

fn told(vitals: &Vitals) -> [u64; 3] {
    [vitals.available_cents, vitals.held_cents, vitals.owed_cents]
}

/// What is overdue then, beside what the charges that were paid leave.
fn is_due(vitals: &Vitals, due: Timestamp) -> bool {
    vitals.follow_ups.count > 0 && vitals.follow_ups.since.is_some_and(|since| since <= due)
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_sums_the_money_and_tells_what_is_overdue() {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(&folder);
    assert_eq!(store.vitals(Timestamp::from_micros(0)).await.unwrap(), Vitals::default());
    let services = Services::over(StoreSet::of(store.clone()), 0);
    let due = some_money(&services).await;
    let before = store.vitals(Timestamp::from_micros(0)).await.unwrap();
    assert_eq!((told(&before), before.follow_ups), ([12_000, 3_000, 0], Overdue::default()));
    assert!(is_due(&store.vitals(due).await.unwrap(), due));
    let unknown = store.uncertain(9).await.unwrap();
    assert!(matches!(unknown.as_slice(), [one] if one.kind == ResourceKind::Withdrawal), "{unknown:?}");
    assert_eq!(store.uncertain(0).await.unwrap(), []);
    store.check_writable().await.unwrap();
    let pools: Vec<_> = store.pools().iter().map(|pool| (pool.pool, pool.max, pool.waiting)).collect();
    assert_eq!(pools, [("reads", 4, 0), ("writer", 0, 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_sums_the_money_and_tells_what_is_overdue() {
    let (store, _) = postgres().await;
    assert_eq!(store.vitals(Timestamp::from_micros(0)).await.unwrap(), Vitals::default());
    let services = Services::over(StoreSet::of(store.clone()), 0);
    let due = some_money(&services).await;
    let before = store.vitals(Timestamp::from_micros(0)).await.unwrap();
    assert_eq!((told(&before), before.follow_ups), ([12_000, 3_000, 0], Overdue::default()));
    assert!(is_due(&store.vitals(due).await.unwrap(), due));
    let unknown = store.uncertain(9).await.unwrap();
    assert!(matches!(unknown.as_slice(), [one] if one.kind == ResourceKind::Withdrawal), "{unknown:?}");
    assert_eq!(store.uncertain(0).await.unwrap(), []);
    let pools: Vec<_> = store.pools().iter().map(|pool| (pool.pool, pool.max)).collect();
    assert_eq!(pools, [("money", 8), ("reads", 8), ("workers", 2)]);
    assert!(store.pools().iter().all(|pool| pool.used == 0 && pool.idle <= pool.max));
    // 2020 or later: microseconds since 1970.
    assert!(store.clock().await.unwrap() > Timestamp::from_micros(1_577_836_800_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_no_writes_is_told() {
    let (store, database) = postgres().await;
    store.check_writable().await.unwrap();
    let server = pix_pg_server::shared().unwrap();
    let read_only = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
    server.psql("postgres", &read_only).unwrap();
    // Connections that are there keep what they were told; new ones are told anew.
    let url = server.url(&database);
    let options = PgOptions { connect_timeout: PATIENCE, ..PgOptions::default() };
    let again = PgStore::open(&url, options);
    assert!(again.await.unwrap_err().to_string().contains("read-only"));
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'");
    server.psql("postgres", &end).unwrap();
    let begun = tokio::time::Instant::now();
    loop {
        // The first answers may be that the connection broke.
        match store.check_writable().await {
            Err(error) if error.to_string().contains("read-only") => break,
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    }
}
