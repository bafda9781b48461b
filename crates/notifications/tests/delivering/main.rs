//! What is due is delivered: in order, to everyone in turn, and by whoever is left. Over the reference store and
//! receivers that answer as told; no test waits for the time of the world.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

mod faulty;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use pix_domain::charges::Charge;
use pix_domain::postbacks::delivery::{DeadReason, OffReason, Standing};
use pix_domain::postbacks::events::EventKey;
use pix_domain::postbacks::relay::{ATTEMPT_WAITS, DELIVERY_LEASE, Prepared};
use pix_notifications::run::{MAX_HELD, PER_LANE};
use pix_notifications::{Deliverer, DelivererConfig};
use tokio::time::{Instant, sleep, sleep_until};

use faulty::Faulty;
use world::{BROKEN, GONE, Manner, TAKES, World};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
/// What is sent to one receiver at once, by default.
const PER_ENDPOINT: usize = 8;

#[tokio::test(start_paused = true)]
async fn a_dead_receiver_delays_nobody_else() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("dead", Manner::Silent);
    world.events(integrator_id, "dead", 200).await;
    for host in ["a", "b", "c"] {
        world.events(integrator_id, host, 60).await;
    }
    let deliverer = world.deliver();
    sleep(SECOND).await;
    assert_eq!(world.delivered(integrator_id).await, 180, "all but those of the dead one");
    assert_eq!(world.receivers.count("dead"), PER_ENDPOINT);
    // What comes later is delivered as quickly.
    world.events(integrator_id, "a", 20).await;
    deliverer.waker().wake();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(world.delivered(integrator_id).await, 200);
    world.receivers.release();
    world.settled_within(DELIVERY_LEASE * 2).await;
    assert_eq!(world.delivered(integrator_id).await, 400);
    assert_eq!(world.receivers.peak("dead"), PER_ENDPOINT);
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn any_number_of_receivers_that_are_known_to_fail_leaves_room_for_the_others() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    // Of four: none has more than a quarter of the places.
    for number in 0..4 {
        let theirs = world.services.integrator().await;
        for other in 0..15 {
            let host = format!("slow{number}-{other}");
            world.receivers.behave(&host, Manner::TimesOut);
            world.events(theirs, &host, 20).await;
        }
    }
    let deliverer = world.deliver();
    // First attempts at each have timed out, in two waves, and others are being made.
    sleep(Duration::from_secs(37)).await;
    assert_eq!(world.receivers.running(""), 128);
    world.events(integrator_id, "good", 100).await;
    deliverer.waker().wake();
    sleep(SECOND).await;
    assert_eq!(world.delivered(integrator_id).await, 100);
    drop(deliverer);
}

/// However many receivers it names, and however new their names.
#[tokio::test(start_paused = true)]
async fn one_integrator_whose_receivers_hang_leaves_places_and_memory_to_the_others() {
    let world = World::new();
    let (theirs, integrator_id) = (world.services.integrator().await, world.services.integrator().await);
    for number in 0..200 {
        let host = format!("hangs{number}");
        world.receivers.behave(&host, Manner::Silent);
        world.events(theirs, &host, 15).await;
    }
    let deliverer = world.deliver();
    sleep(SECOND * 5).await;
    assert_eq!(world.receivers.running(""), 64, "a quarter of the places");
    world.events(integrator_id, "good", 100).await;
    deliverer.waker().wake();
    // Twice the time after which room is made: a round over the receivers that hang fills it once more.
    sleep(SECOND * 12).await;
    assert_eq!(world.delivered(integrator_id).await, 100);
    // What made room is delivered as well, once its receivers answer.
    world.receivers.release();
    world.settled_within(DELIVERY_LEASE * 2).await;
    assert_eq!(world.delivered(theirs).await, 3_000);
    assert_eq!(world.receivers.sent().len(), 3_100, "none twice");
    deliverer.stop().await;
}

/// Where one integrator has all places that it may have, its receivers have them in turn.
#[tokio::test(start_paused = true)]
async fn a_receiver_waits_for_no_backlog_of_others_of_its_integrator() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    for number in 0..8 {
        let host = format!("busy{number}");
        world.receivers.behave(&host, Manner::Answers(200, SECOND));
        world.events(integrator_id, &host, 200).await;
    }
    let deliverer = world.deliver();
    sleep(SECOND * 3).await;
    assert_eq!(world.receivers.running(""), 64, "all that one integrator may have");
    world.events(integrator_id, "ninth", 5).await;
    deliverer.waker().wake();
    sleep(SECOND * 3).await;
    assert_eq!(world.receivers.count("ninth"), 5);
    world.settled_within(SECOND * 40).await;
    assert_eq!(world.receivers.sent().len(), 1_605, "none twice");
    deliverer.stop().await;
}

/// Memory that is full of what is sent soon is no reason to put it off.
#[tokio::test(start_paused = true)]
async fn slow_receivers_of_an_integrator_alone_are_not_put_off() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    for number in 0..40 {
        let host = format!("slow{number}");
        world.receivers.behave(&host, Manner::Answers(200, SECOND));
        world.events(integrator_id, &host, 40).await;
    }
    let deliverer = world.deliver();
    // 1600, of which 64 are sent a second; what is put off comes again after a minute.
    world.settled_within(SECOND * 30).await;
    assert_eq!(world.receivers.sent().len(), 1_600, "none twice");
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_sees_the_events_of_a_record_in_their_order() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("moody", Manner::Moody);
    let mut charges = Vec::new();
    for _ in 0..80 {
        charges.push(world.event(integrator_id, "moody").await);
    }
    let deliverer = world.deliver();
    // Some come while others are delivered.
    for round in 0..4 {
        sleep(Duration::from_millis(30)).await;
        for charge in charges.iter().skip(round % 2) {
            world.paid_again(charge).await;
        }
        deliverer.waker().wake();
    }
    world.settled_within(HOUR * 60).await;
    assert_eq!(world.delivered(integrator_id).await, 80 * 5 - 2);
    let mut seen: BTreeMap<String, (u32, bool)> = BTreeMap::new();
    let mut repeated = 0;
    for sent in world.receivers.sent_to("moody") {
        let (record, sequence) = sent.message_id.rsplit_once('_').unwrap();
        let sequence: u32 = sequence.parse().unwrap();
        if let Some((last, taken)) = seen.get(record) {
            assert!(sequence >= *last, "{record}: {sequence} after {last}");
            assert!(sequence == *last || *taken, "{record}: {sequence} though {last} was not taken");
            repeated += u32::from(sequence == *last);
        }
        seen.insert(record.to_owned(), (sequence, sent.taken));
    }
    assert!(repeated > 50, "{repeated}: too few failures to show anything");
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_gone_is_sent_nothing_more() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("gone", GONE);
    world.events(integrator_id, "gone", 100).await;
    world.events(integrator_id, "here", 5).await;
    let deliverer = world.deliver();
    world.settled_within(SECOND).await;
    assert_eq!(world.receivers.count("gone"), PER_ENDPOINT, "those that were on their way");
    let dead = Standing::Dead(DeadReason::EndpointOff);
    let standings = world.standings(integrator_id).await;
    assert_eq!(standings.iter().filter(|state| state.standing == dead).count(), 100);
    let endpoints = world.services.stores.postbacks.deliveries.endpoints(integrator_id).await.unwrap();
    assert_eq!(endpoints.len(), 1);
    assert_eq!(endpoints[0].off.map(|(_, reason)| reason), Some(OffReason::Gone));
    assert_eq!(endpoints[0].address, "https://gone.example.com/pix");
    // Nor is what happens later.
    world.events(integrator_id, "gone", 3).await;
    deliverer.waker().wake();
    world.settled_within(SECOND).await;
    assert_eq!(world.receivers.count("gone"), PER_ENDPOINT);
    // Until it is switched on.
    world.receivers.behave("gone", TAKES);
    world.services.stores.postbacks.deliveries.forget_endpoint(integrator_id, endpoints[0].id).await.unwrap();
    world.events(integrator_id, "gone", 1).await;
    deliverer.waker().wake();
    world.settled_within(SECOND).await;
    assert_eq!(world.receivers.count("gone"), PER_ENDPOINT + 1);
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_asks_for_time_is_given_it() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("busy", Manner::Busy(429, HOUR * 2));
    world.receivers.behave("down", Manner::Busy(503, HOUR * 3));
    world.receivers.behave("odd", Manner::Busy(500, HOUR * 4));
    for host in ["busy", "down", "odd"] {
        world.event(integrator_id, host).await;
    }
    let deliverer = world.deliver_calmly();
    world.settled_within(HOUR * 5).await;
    let gap = |host| {
        let sent = world.receivers.sent_to(host);
        assert_eq!(sent.len(), 2, "{host}");
        sent[1].at - sent[0].at
    };
    let poll = Duration::from_secs(61);
    assert!((HOUR * 2..HOUR * 2 + poll).contains(&gap("busy")), "{:?}", gap("busy"));
    assert!((HOUR * 3..HOUR * 3 + poll).contains(&gap("down")), "{:?}", gap("down"));
    assert!(gap("odd") < poll, "only 429 and 503 have a word for it: {:?}", gap("odd"));
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_nobody_takes_is_given_up_after_ten_attempts() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("broken", BROKEN);
    world.event(integrator_id, "broken").await;
    let deliverer = world.deliver_calmly();
    world.settled_within(HOUR * 90).await;
    let state = world.standings(integrator_id).await[0];
    assert_eq!((state.standing, state.attempts), (Standing::Dead(DeadReason::Exhausted), 10));
    let sent = world.receivers.sent();
    assert_eq!(sent.len(), ATTEMPT_WAITS.len());
    for (pair, wait) in sent.windows(2).zip(&ATTEMPT_WAITS[1..]) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= *wait * 9 / 10 && gap <= *wait + Duration::from_secs(61), "{gap:?} for {wait:?}");
    }
    deliverer.stop().await;
}

/// Fails from the beginning, with a success after 61 hours or none; how the last of three events stands after 121.
async fn after_121_hours(success_between: bool) -> (World, Standing, Option<OffReason>) {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("broken", BROKEN);
    let deliverer = world.deliver_calmly();
    world.event(integrator_id, "broken").await;
    sleep(HOUR * 61).await;
    if success_between {
        world.receivers.behave("broken", TAKES);
    }
    world.event(integrator_id, "broken").await;
    sleep(HOUR).await;
    world.receivers.behave("broken", BROKEN);
    sleep(HOUR * 59).await;
    world.event(integrator_id, "broken").await;
    sleep(HOUR / 2).await;
    let standing = world.standings(integrator_id).await[2].standing;
    let endpoints = world.services.stores.postbacks.deliveries.endpoints(integrator_id).await.unwrap();
    let off = endpoints.first().and_then(|endpoint| endpoint.off).map(|(_, reason)| reason);
    deliverer.stop().await;
    (world, standing, off)
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_fails_for_120_hours_is_switched_off() {
    let (world, standing, off) = Box::pin(after_121_hours(false)).await;
    assert_eq!(standing, Standing::Dead(DeadReason::EndpointOff));
    assert_eq!(off, Some(OffReason::Failing));
    let sent = world.receivers.count("broken");
    // What still waits is given up when it is due, with nothing sent.
    let deliverer = world.deliver_calmly();
    world.settled_within(HOUR * 30).await;
    assert_eq!(world.receivers.count("broken"), sent);
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_success_in_between_starts_the_120_hours_anew() {
    let (_, standing, off) = Box::pin(after_121_hours(true)).await;
    assert!(matches!(standing, Standing::Waiting(_)), "{standing:?}");
    assert_eq!(off, None);
}

/// A node that read long ago how long an endpoint had failed, while another one has since seen it work.
#[tokio::test(start_paused = true)]
async fn what_another_node_has_seen_work_is_not_given_up_by_one_that_has_not() {
    let mut world = World::new();
    let (integrator_id, started) = (world.services.integrator().await, Instant::now());
    world.receivers.behave("slow", BROKEN);
    world.event(integrator_id, "slow").await;
    let deliverer = world.deliver_calmly();
    world.settled_within(HOUR * 90).await;
    deliverer.stop().await;
    sleep_until(started + HOUR * 130).await;
    // The other node has one of these, and this one the rest.
    world.events(integrator_id, "slow", 4).await;
    let other = world.relay();
    let taken = other.take(None, 1, 1, Vec::new()).await.unwrap().deliveries;
    let (mut prepared, _) = other.prepare(taken).await.unwrap();
    let Some(Prepared::Send(ready)) = prepared.pop() else { panic!("nothing was taken") };
    world.receivers.behave("slow", Manner::Answers(500, SECOND * 5));
    world.deliveries = Arc::new(Faulty { slow: SECOND * 2, ..Faulty::over(world.deliveries.clone()) });
    let deliverer = world.deliver_with(DelivererConfig { per_endpoint: 1, ..DelivererConfig::default() });
    sleep(SECOND * 3).await;
    assert_eq!(world.receivers.running("slow"), 1, "an attempt is on its way");
    world.receivers.behave("slow", TAKES);
    let report = other.attempt(*ready).await.unwrap();
    other.tell(vec![report]).await.unwrap();
    // It ends while a further turn is read.
    sleep(SECOND * 3).await;
    world.event(integrator_id, "slow").await;
    deliverer.waker().wake();
    sleep(SECOND * 2).await;
    assert_eq!(world.receivers.running("slow"), 0);
    world.settled_within(HOUR).await;
    let standings: Vec<Standing> =
        world.standings(integrator_id).await.into_iter().map(|state| state.standing).collect();
    assert_eq!(standings[0], Standing::Dead(DeadReason::Exhausted));
    assert_eq!(standings[1..], [Standing::Delivered; 5]);
    let endpoints = world.services.stores.postbacks.deliveries.endpoints(integrator_id).await.unwrap();
    assert_eq!(endpoints.iter().find_map(|endpoint| endpoint.off), None);
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_is_stopped_finishes_what_is_being_sent_and_leaves_the_rest() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("slow", Manner::Answers(200, SECOND * 3));
    world.events(integrator_id, "slow", 20).await;
    let started = Instant::now();
    let deliverer = world.deliver();
    sleep(SECOND).await;
    deliverer.stop().await;
    assert_eq!(started.elapsed().as_secs(), 3, "the end of what was being sent was waited for");
    assert_eq!(world.delivered(integrator_id).await, PER_ENDPOINT);
    assert_eq!(world.receivers.count("slow"), PER_ENDPOINT);
    // The rest is whoever's comes next, when the leases have ended.
    let next = world.deliver();
    world.settled_within(DELIVERY_LEASE + SECOND * 20).await;
    assert_eq!(world.delivered(integrator_id).await, 20);
    assert_eq!(world.receivers.count("slow"), 20, "none twice");
    next.stop().await;
}

#[test]
fn what_a_killed_worker_had_is_delivered_by_another_one() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let world = World::standing_still();
    let killed = runtime();
    let integrator_id = killed.block_on(async {
        let integrator_id = world.services.integrator().await;
        world.receivers.behave("slow", Manner::Silent);
        world.events(integrator_id, "slow", 3).await;
        let _deliverer = world.deliver();
        sleep(SECOND).await;
        integrator_id
    });
    assert_eq!(world.receivers.count("slow"), 3);
    // With everything that runs on it, as by a signal that can't be caught.
    drop(killed);
    world.receivers.release();
    runtime().block_on(async {
        let deliverer = world.deliver();
        sleep(SECOND * 5).await;
        assert_eq!(world.receivers.count("slow"), 3, "they are the killed one's until its leases end");
        world.services.wait(DELIVERY_LEASE);
        world.settled_within(SECOND * 5).await;
        assert_eq!(world.delivered(integrator_id).await, 3);
        assert_eq!(world.receivers.count("slow"), 6, "each a second time, with the same id");
        let mut ids: Vec<_> = world.receivers.sent().into_iter().map(|sent| sent.message_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3);
        deliverer.stop().await;
    });
}

#[tokio::test(start_paused = true)]
async fn who_is_woken_delivers_at_once() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    let deliverer = world.deliver_calmly();
    let waker = deliverer.waker();
    sleep(SECOND).await;
    world.event(integrator_id, "a").await;
    sleep(SECOND).await;
    assert_eq!(world.receivers.count("a"), 0, "the next look is in a minute");
    let woken = Instant::now();
    waker.wake();
    world.settled_within(SECOND).await;
    assert!(world.receivers.sent()[0].at - woken < Duration::from_millis(10));
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_event_of_a_record_needs_no_poll() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    let charge = world.event(integrator_id, "a").await;
    for _ in 0..9 {
        world.paid_again(&charge).await;
    }
    let deliverer = world.deliver_calmly();
    world.settled_within(SECOND).await;
    assert_eq!(world.delivered(integrator_id).await, 10);
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_however_much_waits() {
    let world = World::new();
    let mut integrators = Vec::new();
    for _ in 0..10 {
        integrators.push(world.services.integrator().await);
    }
    for host in 0..10 {
        let host = format!("h{host}");
        world.receivers.behave(&host, Manner::Silent);
        for integrator_id in &integrators {
            world.events(*integrator_id, &host, 50).await;
        }
    }
    // What was taken up and not told of yet.
    let held = || async {
        let mut held = 0;
        for integrator_id in &integrators {
            let states = world.standings(*integrator_id).await;
            let now = world.clock.now();
            held += states
                .iter()
                .filter(|state| matches!(state.standing, Standing::Waiting(at) if at > now))
                .count();
        }
        held
    };
    let deliverer = world.deliver();
    let mut most = 0;
    for step in 0..200 {
        if step == 20 {
            assert!(most > MAX_HELD / 2, "{most}: it holds too little to show anything");
            world.receivers.release();
        }
        most = most.max(held().await);
        sleep(Duration::from_millis(1)).await;
    }
    assert!(most <= MAX_HELD, "{most}");
    assert_eq!(world.receivers.peak(""), 256);
    world.settled_within(DELIVERY_LEASE).await;
    assert_eq!(world.receivers.sent().len(), 5_000, "none twice");
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_lane_is_never_held_beyond_its_bound() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("dead", Manner::Silent);
    world.events(integrator_id, "dead", 500).await;
    let deliverer = world.deliver();
    sleep(SECOND * 10).await;
    let now = world.clock.now();
    let states = world.standings(integrator_id).await;
    let held =
        states.iter().filter(|state| matches!(state.standing, Standing::Waiting(at) if at > now)).count();
    assert!(held < 2 * PER_ENDPOINT + usize::try_from(PER_LANE).unwrap(), "{held}");
    drop(deliverer);
}

/// The event of a charge that was paid once.
fn event_of(charge: &Charge) -> EventKey {
    EventKey { resource: charge.resource(), sequence: charge.version }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_while_makes_nobody_hear_twice() {
    let mut world = World::new();
    let integrator_id = world.services.integrator().await;
    let faulty = Arc::new(Faulty::over(world.deliveries.clone()));
    faulty.takes.store(3, Ordering::SeqCst);
    faulty.loads.store(3, Ordering::SeqCst);
    faulty.tells.store(6, Ordering::SeqCst);
    world.deliveries = faulty;
    world.events(integrator_id, "a", 5).await;
    let deliverer = world.deliver();
    world.settled_within(DELIVERY_LEASE / 2).await;
    assert_eq!(world.receivers.count("a"), 5);
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_not_kept_in_time_has_its_event_sent_again() {
    let mut world = World::new();
    let integrator_id = world.services.integrator().await;
    let faulty = Arc::new(Faulty::over(world.deliveries.clone()));
    faulty.tells.store(10, Ordering::SeqCst);
    world.deliveries = faulty;
    world.event(integrator_id, "a").await;
    let deliverer = world.deliver();
    world.settled_within(DELIVERY_LEASE * 2).await;
    let sent = world.receivers.sent_to("a");
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].message_id, sent[1].message_id);
    assert!(sent[1].at - sent[0].at >= DELIVERY_LEASE);
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_event_that_cannot_be_read_or_spoken_of_keeps_no_other_from_its_receiver() {
    let mut world = World::new();
    let integrator_id = world.services.integrator().await;
    world.events(integrator_id, "a", 10).await;
    let damaged = world.event(integrator_id, "a").await;
    let unspeakable = world.event(integrator_id, "a").await;
    world.events(integrator_id, "a", 10).await;
    let inner = world.deliveries.clone();
    world.deliveries = Arc::new(Faulty {
        damaged: Some(event_of(&damaged)),
        unspeakable: Some(event_of(&unspeakable)),
        ..Faulty::over(inner)
    });
    let deliverer = world.deliver();
    sleep(SECOND).await;
    assert_eq!(world.delivered(integrator_id).await, 20);
    assert_eq!(world.waiting().await, 2);
    assert_eq!(world.receivers.count("a"), 21, "the damaged one was not sent");
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn operators_see_attempts_and_what_waits() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.receivers.behave("gone", GONE);
    world.receivers.behave("broken", BROKEN);
    world.events(integrator_id, "a", 3).await;
    world.event(integrator_id, "gone").await;
    world.event(integrator_id, "broken").await;
    let deliverer = world.deliver();
    sleep(Duration::from_secs(16)).await;
    let text = handle.render();
    for line in [
        "pix_postback_attempts_total{outcome=\"delivered\"} 3",
        "pix_postback_attempts_total{outcome=\"failed\"} 3",
        "pix_postback_attempt_seconds_count 6",
        "pix_postbacks_waiting 1",
        "pix_postbacks_dead 1",
        "pix_postback_endpoints_off 1",
        "pix_postback_oldest_waiting_seconds 15",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    deliverer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn old_deliveries_are_forgotten_every_hour() {
    let world = World::new();
    let integrator_id = world.services.integrator().await;
    world.event(integrator_id, "a").await;
    let config = DelivererConfig { keep_days: 7, poll_interval_ms: 60_000, ..DelivererConfig::default() };
    let deliverer: Deliverer = world.deliver_with(config);
    sleep(HOUR * 167).await;
    assert_eq!(world.standings(integrator_id).await.len(), 1);
    sleep(HOUR * 3).await;
    assert_eq!(world.standings(integrator_id).await.len(), 0);
    deliverer.stop().await;
}

#[test]
fn only_settings_within_bounds_are_acceptable() {
    let config = DelivererConfig::default();
    config.validate().unwrap();
    for (wrong, text) in [
        (
            DelivererConfig { poll_interval_ms: 9, ..config },
            "poll_interval_ms of postbacks must be from 10 to 60000",
        ),
        (DelivererConfig { at_once: 1_025, ..config }, "at_once of postbacks must be from 2 to 1024"),
        (DelivererConfig { per_endpoint: 0, ..config }, "per_endpoint of postbacks must be from 1 to 64"),
        (DelivererConfig { keep_days: 6, ..config }, "keep_days of postbacks must be from 7 to 3650"),
    ] {
        assert_eq!(wrong.validate().unwrap_err().to_string(), text);
    }
}
