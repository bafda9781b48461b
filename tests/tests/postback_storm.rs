//! The short form of the storm of postbacks. `make postback-storm` is the long one.

use pix_tests::storm::{self, Storm};

/// Enough that several kills fall into it.
const EVENTS: u64 = 1_500;
/// What answers, moments and events are drawn from.
const SEED: u64 = 20_261_122;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn receivers_fail_and_relays_are_killed_and_every_event_arrives_in_order() {
    let storm = Storm { events: EVENTS, seed: SEED, tells: false };
    let report = Box::pin(storm::run(storm)).await.unwrap();
    assert!(report.problems.is_empty(), "{}", report.table());
}
