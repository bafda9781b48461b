//! The server is killed with -9 ten times under load.

use std::sync::Arc;
use std::time::Duration;

use pix_persistence::postgres::{Grouping, PgOptions};
use pix_pg_server::{Options, PgServer};

use super::support::{Load, database, open, options, services, start};

const KILLS: usize = 10;
const TASKS: u64 = 12;
/// How many acknowledgements there are between two kills, at the least.
const MORE: usize = 12;

async fn survives(what: &str, options: PgOptions) {
    let server = PgServer::start(Options::durable()).unwrap();
    let database = database(&server).await;
    let store = open(&server.url(&database), options).await;
    let services = services(&store, 0);
    let owners = [services.funded(100_000).await, services.funded(100_000).await, services.funded(1).await];
    let load = Arc::new(Load::default());
    let tasks = start(&load, std::slice::from_ref(&store), TASKS, &owners);
    for _ in 0..KILLS {
        load.goes_on(MORE).await;
        tokio::task::block_in_place(|| {
            server.kill9().unwrap();
            server.start_again().unwrap();
        });
    }
    // The same store, without a word to it.
    load.goes_on(MORE).await;
    load.end();
    for task in tasks {
        task.await.unwrap();
    }
    load.assert_nothing_is_lost(what, &server, &database, &store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_the_server_is_killed_under_groups() {
    survives("10 kills, groups", options()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_the_server_is_killed_under_single_transitions() {
    survives("10 kills, singles", PgOptions { grouping: None, ..options() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_the_server_is_killed_with_one_connection_and_no_patience() {
    // Many outcomes are not found out in time.
    let one = PgOptions { money_connections: 1, resolve_timeout: Duration::from_millis(50), ..options() };
    survives("10 kills, groups, one connection", one).await;
    let singles = PgOptions { grouping: None, ..one };
    survives("10 kills, singles, one connection", singles).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_the_server_is_killed_under_small_groups_at_once() {
    let grouping =
        Grouping { max_group: 3, groups_in_flight: 4, gather_wait: Duration::ZERO, lookups_in_flight: 4 };
    survives("10 kills, small groups", PgOptions { grouping: Some(grouping), ..options() }).await;
}
