//! A server that is down, takes no writes, or is busy: nothing is written, it is said so, and it passes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pix_conformance::Services;
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore};
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::follow_up::FollowUpStore;
use pix_domain::ids::IntegratorId;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Transition, TransitionStore};
use pix_domain::wallet::store::WalletStore;
use pix_persistence::postgres::{PgOptions, PgStore};
use pix_pg_server::{Options, PgServer, Port, StopMode};

use super::support::{
    PATIENCE, assert_books_are_clean, database, ends, happened, mark, open, options, server, services,
    session, until,
};

struct Place<'a> {
    server: &'a PgServer,
    database: String,
    store: Arc<PgStore>,
    services: Services,
    owner: IntegratorId,
}

impl<'a> Place<'a> {
    async fn new(server: &'a PgServer, options: PgOptions) -> Self {
        Self::with_host(server, options, "").await
    }

    /// Its URL names one more host.
    async fn with_host(server: &'a PgServer, options: PgOptions, further: &str) -> Self {
        let database = database(server).await;
        let host = format!("127.0.0.1:{}", server.port());
        let url = server.url(&database).replace(&host, &format!("{host}{further}"));
        let store = open(&url, options).await;
        let services = services(&store, 0);
        let owner = services.funded(100_000).await;
        Self { server, database, store, services, owner }
    }

    /// Asserts that nothing can be written now; the mark of what was tried.
    async fn is_unavailable(&self) -> String {
        let transition = self.services.withdrawal_intent(self.owner, 10);
        let mark = mark(&transition);
        assert_unavailable(&ends(self.store.apply(transition)).await);
        mark
    }

    async fn works_again(&self, undone: &[String]) {
        until("writes", async || self.store.apply(self.writing()).await.is_ok()).await;
        let happened = happened(self.server, &self.database);
        assert!(undone.iter().all(|mark| !happened.contains(mark)));
        assert_books_are_clean(&self.store).await;
    }

    fn writing(&self) -> Transition {
        self.services.withdrawal_intent(self.owner, 1)
    }

    /// The connections of a pool.
    fn sessions(&self, pool: &str) -> BTreeSet<String> {
        let names = format!(
            "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'pix-gateway {pool} %' \
             AND datname = '{}'",
            self.database
        );
        self.server.psql("postgres", &names).unwrap().lines().map(str::to_owned).collect()
    }

    async fn lock_wallet(&self) -> tokio_postgres::Client {
        let locker = session(&self.server.url(&self.database)).await;
        let lock = format!("BEGIN; SELECT 1 FROM wallets WHERE integrator_id = '{}' FOR UPDATE", self.owner);
        locker.batch_execute(&lock).await.unwrap();
        locker
    }
}

fn assert_unavailable(answer: &Result<(), ApplyError>) {
    assert!(matches!(answer, Err(ApplyError::Store(StoreError::Unavailable(_)))), "{answer:?}");
}

fn both_ways(options: PgOptions) -> [PgOptions; 2] {
    [options, PgOptions { grouping: None, ..options }]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_down_or_read_only_is_unavailable_until_it_is_not() {
    let server = PgServer::start(Options::default()).unwrap();
    for options in both_ways(options()) {
        let place = Place::new(&server, options).await;
        place.store.wallet(place.owner).await.unwrap();
        tokio::task::block_in_place(|| server.stop(StopMode::Fast)).unwrap();
        // The connections that there were may have been lost on the way; new ones are refused.
        until("it is noticed", async || {
            matches!(
                place.store.apply(place.writing()).await,
                Err(ApplyError::Store(StoreError::Unavailable(_)))
            )
        })
        .await;
        let mut undone = vec![place.is_unavailable().await];
        let read = ends(place.store.wallet(place.owner)).await;
        assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
        tokio::task::block_in_place(|| server.start_again()).unwrap();
        place.works_again(&undone).await;

        let reading = place.sessions("reads");
        assert!(!reading.is_empty());
        server.set("default_transaction_read_only", "on").unwrap();
        until("it is noticed", async || place.store.apply(place.writing()).await.is_err()).await;
        undone.push(place.is_unavailable().await);
        // Another server may take the writes now: what is read is read where they go, not where it was read before.
        until("reads go to whoever writes", async || {
            place.store.wallet(place.owner).await.unwrap();
            place.sessions("reads").is_disjoint(&reading)
        })
        .await;
        server
            .psql(
                "postgres",
                "SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only",
            )
            .unwrap();
        server.reload().unwrap();
        place.works_again(&undone).await;
    }
}

/// What is answered after a crash that forgets it is lost: another server may have been promoted since the store was opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_comes_back_with_weaker_promises_is_not_written_to() {
    let server = PgServer::start(Options::default()).unwrap();
    for (setting, value) in [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "local")] {
        let place = Place::new(&server, options()).await;
        server.set(setting, value).unwrap();
        tokio::task::block_in_place(|| server.restart()).unwrap();
        let said = format!("{setting} is {value} for the database {}", place.database);
        until("it is noticed", async || match place.store.apply(place.writing()).await {
            Err(ApplyError::Store(StoreError::Unavailable(why))) => why.contains(&said),
            _ => false,
        })
        .await;
        let undone = [place.is_unavailable().await];
        // What is there may be read.
        until("reads go on", async || place.store.wallet(place.owner).await.is_ok()).await;
        server.set(setting, "on").unwrap();
        tokio::task::block_in_place(|| server.restart()).unwrap();
        place.works_again(&undone).await;
    }
}

/// A reload reaches connections that there are. What a commit waits for they keep; and when a new one is refused, they write
/// no more either.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_told_to_promise_less_is_not_written_to_over_connections_from_before() {
    let server = PgServer::start(Options::default()).unwrap();
    let (statement_timeout, resolve_timeout) = (Duration::from_millis(300), Duration::from_millis(300));
    let nobody = Port::reserve().unwrap();
    let options = PgOptions { statement_timeout, resolve_timeout, ..options() };
    let place = Place::with_host(&server, options, &format!(",127.0.0.1:{}", nobody.number())).await;
    // Nobody is such a standby: who waits for it is not answered.
    server.set("synchronous_commit", "local").unwrap();
    server.set("synchronous_standby_names", "nobody").unwrap();
    until("commits wait for a standby still", async || {
        let answer = ends(place.store.apply(place.writing())).await;
        matches!(answer, Err(ApplyError::Store(StoreError::Unknown(_))))
    })
    .await;
    server
        .psql("postgres", "SET synchronous_commit = local; ALTER SYSTEM RESET synchronous_standby_names")
        .unwrap();
    server.set("synchronous_commit", "on").unwrap();
    place.works_again(&[]).await;

    server.set("fsync", "off").unwrap();
    let claimed = FollowUpStore::claim(&*place.store, Timestamp::from_micros(0), PATIENCE, 1).await;
    assert!(matches!(claimed, Err(StoreError::Unavailable(_))), "{claimed:?}");
    let written = place.store.apply(place.writing()).await;
    assert_unavailable(&written);
    let why = written.unwrap_err().to_string();
    assert!(why.contains("no connection to PostgreSQL: fsync is off"), "whatever the other host says: {why}");
    assert!(place.store.wallet(place.owner).await.is_ok(), "what is there may be read");
    server.set("fsync", "on").unwrap();
    place.works_again(&[]).await;
}

/// What a table says that finds no room, wherever in the statement that is.
fn full(table: &str) -> String {
    format!(
        "CREATE FUNCTION find_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION \
         'could not extend file \"base/1/1\": No space left on device' USING ERRCODE = 'disk_full'; END $$; \
         CREATE TRIGGER room BEFORE INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION find_room()"
    )
}

#[tokio::test]
async fn a_disk_that_is_full_is_unavailable_until_it_is_not() {
    for options in both_ways(options()) {
        for table in ["withdrawals", "postings", "events"] {
            let place = Place::new(server(), options).await;
            server().psql(&place.database, &full(table)).unwrap();
            let undone = [place.is_unavailable().await];
            place.store.wallet(place.owner).await.unwrap();
            server().psql(&place.database, "DROP FUNCTION find_room CASCADE").unwrap();
            place.works_again(&undone).await;
        }
    }
}

#[tokio::test]
async fn a_wallet_that_another_one_holds_is_waited_for_no_longer_than_told() {
    for options in both_ways(PgOptions { statement_timeout: Duration::from_millis(300), ..options() }) {
        let place = Place::new(server(), options).await;
        let locker = place.lock_wallet().await;
        let undone = [place.is_unavailable().await];
        // Whoever needs no money goes on.
        place.services.apply(place.services.charge_intent(place.owner)).await;
        locker.batch_execute("ROLLBACK").await.unwrap();
        place.works_again(&undone).await;
    }
}

#[tokio::test]
async fn a_caller_who_finds_all_connections_busy_is_told_so() {
    let busy = PgOptions {
        money_connections: 1,
        acquire_timeout: Duration::from_millis(50),
        grouping: None,
        ..options()
    };
    let place = Place::new(server(), busy).await;
    let locker = place.lock_wallet().await;
    let (store, transition) = (place.store.clone(), place.writing());
    let first = tokio::spawn(async move { store.apply(transition).await });
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND datname = current_database()";
    until("the first one waits", async || server().psql(&place.database, waiting).unwrap() == "1").await;
    let undone = [place.is_unavailable().await];
    // Reads have connections of their own.
    place.store.wallet(place.owner).await.unwrap();
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(ends(first).await.unwrap(), Ok(()));
    place.works_again(&undone).await;
}

#[tokio::test]
async fn callbacks_that_can_not_be_kept_are_not_in_the_way_of_money() {
    let busy = PgOptions { worker_connections: 1, acquire_timeout: Duration::from_millis(50), ..options() };
    let place = Place::new(server(), busy).await;
    let locker = session(&place.server.url(&place.database)).await;
    locker.batch_execute("BEGIN; LOCK TABLE callbacks IN SHARE MODE").await.unwrap();
    let keep = |number: u128| {
        let (store, now) = (place.store.clone(), place.services.now());
        let callback = Callback {
            id: uuid::Uuid::from_u128(number),
            received_at: now,
            reference: None,
            body: number.to_string(),
        };
        async move { store.keep(callback, CallbackState::Waiting(now)).await }
    };
    let first = tokio::spawn(keep(1));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND datname = current_database()";
    until("the first one waits", async || server().psql(&place.database, waiting).unwrap() == "1").await;
    for number in 2..5 {
        assert!(matches!(ends(keep(number)).await, Err(StoreError::Unavailable(_))));
    }
    assert_eq!(ends(place.store.apply(place.writing())).await, Ok(()));
    place.store.wallet(place.owner).await.unwrap();
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(ends(first).await.unwrap(), Ok(true));
}

#[tokio::test]
async fn a_server_that_has_no_room_for_another_connection_is_unavailable() {
    let server = PgServer::start(
        Options { max_connections: 8, ..Options::default() }.with("superuser_reserved_connections", "0"),
    )
    .unwrap();
    let place = Place::new(&server, PgOptions { grouping: None, ..options() }).await;
    let mut sessions = Vec::new();
    // The store has some already, and loses them.
    server
        .psql(&place.database, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pix-gateway%'")
        .unwrap();
    until("the server is full", async || {
        let made = tokio_postgres::connect(&server.url("postgres"), tokio_postgres::NoTls).await;
        match made {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                sessions.push(client);
                false
            }
            Err(_full) => true,
        }
    })
    .await;
    until("it is noticed", async || place.store.apply(place.writing()).await.is_err()).await;
    let transition = place.services.withdrawal_intent(place.owner, 10);
    let mark = mark(&transition);
    assert_unavailable(&ends(place.store.apply(transition)).await);
    drop(sessions);
    until("writes", async || place.store.apply(place.writing()).await.is_ok()).await;
    assert!(!happened(&server, &place.database).contains(&mark));
    assert_books_are_clean(&place.store).await;
}
