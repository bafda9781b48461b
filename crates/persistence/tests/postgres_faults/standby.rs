//! A primary with a synchronous standby: the primary dies and the standby takes its place, or the standby is gone.

use std::sync::Arc;
use std::time::Duration;

use pix_domain::error::{ApplyError, StoreError};
use pix_domain::transition::TransitionStore;
use pix_persistence::postgres::{PgOptions, PgStore};
use pix_pg_server::{Options, PgServer, StopMode};

use super::support::{
    Load, assert_books_are_clean, database, ends, happened, mark, open, options, services, start, until,
};

struct Pair {
    primary: PgServer,
    standby: PgServer,
    database: String,
}

impl Pair {
    async fn new() -> Self {
        let primary = PgServer::start(Options::default()).unwrap();
        let database = database(&primary).await;
        let standby = primary.replica().unwrap();
        primary.make_synchronous(&standby).unwrap();
        Self { primary, standby, database }
    }

    /// The store on whichever of the two takes writes.
    async fn open(&self, options: PgOptions) -> Arc<PgStore> {
        let (first, second) = (self.primary.port(), self.standby.port());
        let url = format!(
            "postgres://pix@127.0.0.1:{first},127.0.0.1:{second}/{}?target_session_attrs=read-write",
            self.database
        );
        open(&url, options).await
    }

    async fn a_commit_waits(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        until("a commit waits for the standby", async || {
            self.primary.psql("postgres", waiting).unwrap() != "0"
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_the_standby_takes_over() {
    for grouping in [options().grouping, None] {
        let pair = Pair::new().await;
        let store = pair.open(PgOptions { grouping, ..options() }).await;
        let services = services(&store, 0);
        let owners = [services.funded(100_000).await, services.funded(100_000).await];
        let load = Arc::new(Load::default());
        let tasks = start(&load, std::slice::from_ref(&store), 12, &owners);
        load.goes_on(200).await;
        tokio::task::block_in_place(|| {
            pair.primary.kill9().unwrap();
            pair.standby.promote().unwrap();
        });
        load.goes_on(200).await;
        load.end();
        for task in tasks {
            task.await.unwrap();
        }
        let what = format!("promotion, {}", if grouping.is_some() { "groups" } else { "singles" });
        load.assert_nothing_is_lost(&what, &pair.standby, &pair.database, &store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_server_says_before_its_commit_is_done_acknowledges_nothing() {
    for grouping in [options().grouping, None] {
        let pair = Pair::new().await;
        let resolve_timeout = Duration::from_millis(300);
        let store = pair.open(PgOptions { grouping, resolve_timeout, ..options() }).await;
        let services = services(&store, 0);
        let owner = services.funded(100_000).await;
        tokio::task::block_in_place(|| pair.standby.kill9()).unwrap();
        let intent = services.withdrawal_intent(owner, 10);
        let applied = tokio::spawn(async move { store.apply(intent).await });
        pair.a_commit_waits().await;
        // It warns whoever is connected, and so sends all that it has ready for them: the rows of the answer too.
        tokio::task::block_in_place(|| pair.primary.stop(StopMode::Immediate)).unwrap();
        let answer = ends(applied).await.unwrap();
        assert!(matches!(answer, Err(ApplyError::Store(StoreError::Unknown(_)))), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_the_standby_nothing_is_promised_and_nothing_called_undone() {
    let pair = Pair::new().await;
    let short = Duration::from_millis(300);
    let store = pair
        .open(PgOptions {
            acquire_timeout: short,
            statement_timeout: short,
            resolve_timeout: short,
            ..options()
        })
        .await;
    let services = services(&store, 0);
    let owners = [services.funded(100_000).await, services.funded(100_000).await];
    pair.standby.kill9().unwrap();
    let opening = services.charge_intent(owners[0]);
    let mark = mark(&opening);
    let answer = ends(store.apply(opening)).await;
    assert!(matches!(answer, Err(ApplyError::Store(StoreError::Unknown(_)))), "{answer:?}");
    let load = Arc::new(Load::default());
    let tasks = start(&load, std::slice::from_ref(&store), 8, &owners);
    pair.a_commit_waits().await;
    // Until every task was told something that is no promise.
    until("all are told", async || load.undecided() >= 8).await;
    assert_eq!(load.done(), 0);
    tokio::task::block_in_place(|| pair.standby.start_again()).unwrap();
    load.goes_on(50).await;
    load.end();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(happened(&pair.primary, &pair.database).contains(&mark));
    load.assert_nothing_is_lost("standby gone", &pair.primary, &pair.database, &store).await;
}

/// A commit that waits for the standby is there after a restart of the primary, and not on the standby. It isn't
/// acknowledged for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_only_the_primary_has_is_not_acknowledged() {
    let pair = Pair::new().await;
    let store = pair.open(PgOptions { resolve_timeout: Duration::from_secs(3), ..options() }).await;
    let services = services(&store, 0);
    let owner = services.funded(100_000).await;
    pair.standby.kill9().unwrap();
    let opening = services.charge_intent(owner);
    let mark = mark(&opening);
    let sender = store.clone();
    let sent = tokio::spawn(async move { sender.apply(opening).await });
    pair.a_commit_waits().await;
    tokio::task::block_in_place(|| {
        pair.primary.kill9().unwrap();
        pair.primary.start_again().unwrap();
    });
    assert!(happened(&pair.primary, &pair.database).contains(&mark));
    let answer = ends(sent).await.unwrap();
    assert!(matches!(answer, Err(ApplyError::Store(StoreError::Unknown(_)))), "{answer:?}");
    tokio::task::block_in_place(|| {
        pair.primary.kill9().unwrap();
        pair.standby.start_again().unwrap();
        pair.standby.promote().unwrap();
    });
    assert!(!happened(&pair.standby, &pair.database).contains(&mark));
    until("writes", async || store.apply(services.charge_intent(owner)).await.is_ok()).await;
    assert_books_are_clean(&store).await;
}

/// A URL that takes any server leads to the standby while the primary is down: it takes no writes, and then it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_standby_is_not_available_until_it_is_promoted() {
    let pair = Pair::new().await;
    let (first, second) = (pair.primary.port(), pair.standby.port());
    let url = format!("postgres://pix@127.0.0.1:{first},127.0.0.1:{second}/{}", pair.database);
    let store = open(&url, options()).await;
    let services = services(&store, 0);
    let owner = services.funded(100_000).await;
    tokio::task::block_in_place(|| pair.primary.kill9()).unwrap();
    for _ in 0..3 {
        let opening = services.charge_intent(owner);
        let mark = mark(&opening);
        let answer = ends(store.apply(opening)).await;
        assert!(matches!(answer, Err(ApplyError::Store(StoreError::Unavailable(_)))), "{answer:?}");
        assert!(!happened(&pair.standby, &pair.database).contains(&mark));
    }
    tokio::task::block_in_place(|| pair.standby.promote()).unwrap();
    until("writes", async || store.apply(services.charge_intent(owner)).await.is_ok()).await;
    assert_books_are_clean(&store).await;
}
