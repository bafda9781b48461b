//! What integrators are told is told once, in order, and on its way exactly when it happened.

use std::collections::BTreeSet;
use std::time::Duration;

use pix_domain::charges::service::CreateCharge;
use pix_domain::charges::{Charge, ChargeState};
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::ids::{IntegratorId, Version};
use pix_domain::postbacks::delivery::{
    Attempt, ClaimedDelivery, DeadReason, DeliveryReport, Endpoint, EndpointId, EndpointNews, Lane,
    OffReason, ReplayQuery, Standing, Taken, Turn,
};
use pix_domain::postbacks::events::{EventKey, EventQuery, ListedEvent, PostbackScope};
use pix_domain::postbacks::secrets::SecretVersion;
use pix_domain::text::PostbackUrl;
use pix_domain::transition::{EventKind, Record};
use pix_domain::withdrawals::service::CreateWithdrawal;
use uuid::Uuid;

use super::races::all_at_once;
use crate::builders::{amount, charge_command, refund_command, withdrawal_command};
use crate::{Answer, Services, StoreHarness, services};

const LEASE: Duration = Duration::from_mins(1);

fn url(host: &str) -> PostbackUrl {
    PostbackUrl::parse(&format!("https://{host}.example.com/pix?token=1")).expect("a URL")
}

/// A live charge whose events go to `host`.
async fn charge_told_to(
    services: &Services,
    integrator_id: IntegratorId,
    host: &str,
    postback_scope: PostbackScope,
) -> Charge {
    let command = CreateCharge {
        postback_url: Some(url(host)),
        postback_scope,
        amount: amount(1_000),
        ..charge_command(integrator_id)
    };
    services.charges.create(command).await.expect("a new charge").into_inner()
}

/// The same, paid.
async fn paid_told_to(services: &Services, integrator_id: IntegratorId, host: &str) -> Charge {
    let charge = charge_told_to(services, integrator_id, host, PostbackScope::All).await;
    services.pay(&charge, services.payment(1_000)).await
}

async fn told(services: &Services, integrator_id: IntegratorId) -> Vec<ListedEvent> {
    let query = EventQuery { limit: 1_000, ..EventQuery::default() };
    services.stores.postbacks.events.events(integrator_id, query).await.expect("events")
}

fn kinds(events: &[ListedEvent]) -> Vec<EventKind> {
    events.iter().map(|listed| listed.event.kind).collect()
}

fn turn(services: &Services) -> Turn {
    Turn { now: services.now(), lease: LEASE, after: None, lanes: 100, per_lane: 100, except: Vec::new() }
}

async fn take(services: &Services) -> Vec<ClaimedDelivery> {
    taken(services, turn(services)).await.deliveries
}

async fn taken(services: &Services, turn: Turn) -> Taken {
    services.stores.postbacks.deliveries.take(turn).await.expect("a turn")
}

fn report(services: &Services, claimed: &ClaimedDelivery, standing: Standing) -> DeliveryReport {
    let attempt = Attempt {
        id: services.id(),
        at: services.now(),
        took_ms: 12,
        status: Some(200),
        outcome: "delivered".to_owned(),
        excerpt: "thank\u{0}s".to_owned(),
    };
    DeliveryReport {
        claimed: claimed.clone(),
        attempt: Some(attempt),
        standing,
        endpoint: EndpointNews::Nothing,
    }
}

async fn tell(services: &Services, reports: Vec<DeliveryReport>) -> u64 {
    services.stores.postbacks.deliveries.tell(reports, services.now()).await.expect("told")
}

/// Takes what is due and says that it was delivered; what it was.
async fn deliver(services: &Services) -> Vec<EventKey> {
    let taken = take(services).await;
    let reports = taken.iter().map(|claimed| report(services, claimed, Standing::Delivered)).collect();
    tell(services, reports).await;
    taken.into_iter().map(|claimed| claimed.key).collect()
}

async fn stands(services: &Services, key: EventKey) -> (Standing, u32) {
    let found = services.stores.postbacks.events.event(key).await.expect("an event").expect("one");
    let delivery = found.delivery.expect("a delivery");
    (delivery.standing, delivery.attempts)
}

/// Public events have numbers of their integrator's own, from 1 without gaps; what a request is answered with, and what
/// is only on its way, is not told.
pub async fn what_happened_is_numbered_and_what_was_answered_is_not(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (one, other) = (services.integrator().await, services.integrator().await);
    let charge = services.paid_charge(one, 10_000).await;
    services.charge(one, 500).await;
    services.paid_charge(other, 300).await;
    services.provider.answers_next(Answer::Complete);
    services.withdrawals.create(withdrawal_command(one, 1_000)).await.expect("a withdrawal");
    services.provider.answers_next(Answer::Complete);
    services.refunds.create(refund_command(&charge, 2_500)).await.expect("a refund");
    let events = told(&services, one).await;
    assert_eq!(
        kinds(&events),
        [
            EventKind::ChargePaid,
            EventKind::WithdrawalCompleted,
            EventKind::RefundCompleted,
            EventKind::ChargeRefunded
        ]
    );
    let numbers: Vec<u64> = events.iter().map(|listed| listed.event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(kinds(&told(&services, other).await), [EventKind::ChargePaid]);
    let moved: Vec<i64> = events.iter().map(|listed| listed.event.moved.get()).collect();
    assert_eq!(moved, [10_000, 1_000, 2_500, 2_500]);
    let refund = events[2].event.key.resource.id;
    let related: Vec<_> = events.iter().map(|listed| listed.event.related).collect();
    assert_eq!(related, [None, None, None, Some(refund)]);
    assert!(take(&services).await.is_empty(), "nobody named a receiver");
}

/// An event shows its record as it was, whatever became of it since.
pub async fn an_event_shows_its_record_as_it_was(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let paid = services.charges.get(integrator_id, charge.id).await.expect("the charge");
    services.wait(Duration::from_mins(1));
    services.provider.answers_next(Answer::Complete);
    services.refunds.create(refund_command(&charge, 2_500)).await.expect("a refund");
    let refunded = services.charges.get(integrator_id, charge.id).await.expect("the charge");
    assert_ne!(paid, refunded);
    let events = told(&services, integrator_id).await;
    let then: Vec<_> = events.iter().map(|listed| listed.record_then().expect("a record")).collect();
    assert_eq!(then[0], Record::Charge(Box::new(paid)));
    assert_eq!(then[2], Record::Charge(Box::new(refunded)));
    let command = CreateWithdrawal { postback_url: Some(url("a")), ..withdrawal_command(integrator_id, 700) };
    services.provider.answers_next(Answer::Reject);
    services.withdrawals.create(command).await.expect("a refused withdrawal");
    let events = told(&services, integrator_id).await;
    let last = events.last().expect("an event");
    assert_eq!(last.event.kind, EventKind::WithdrawalFailed);
    assert_eq!(last.record_then(), Some(last.record.clone()));
    assert_eq!(services.stores.postbacks.events.event(last.event.key).await, Ok(Some(last.clone())));
    let unheard_of = EventKey { sequence: Version(99), ..last.event.key };
    assert_eq!(services.stores.postbacks.events.event(unheard_of).await, Ok(None));
    let first = EventKey { sequence: Version::FIRST, ..last.event.key };
    assert_eq!(services.stores.postbacks.events.event(first).await, Ok(None), "what was answered");
}

/// What is refused tells nothing and takes no number.
pub async fn what_is_refused_tells_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = charge_told_to(&services, integrator_id, "a", PostbackScope::All).await;
    let payment = services.payment(1_000);
    let credit = services.credit_intent(&charge, payment.clone());
    services.apply(credit.clone()).await;
    let refused = services.stores.domain.transitions.apply(credit).await;
    assert_eq!(refused, Err(ApplyError::Stale));
    let again = charge_told_to(&services, integrator_id, "a", PostbackScope::All).await;
    let twice = services.credit_intent(&again, payment);
    assert!(matches!(services.stores.domain.transitions.apply(twice).await, Err(ApplyError::Duplicate(_))));
    assert_eq!(told(&services, integrator_id).await.len(), 1);
    assert_eq!(take(&services).await.len(), 1);
    let services_paid = services.pay(&again, services.payment(500)).await;
    assert_eq!(services_paid.state, ChargeState::Paid);
    assert_eq!(told(&services, integrator_id).await[1].event.number, 2);
}

/// A URL that was given for outcomes alone hears of nothing else.
pub async fn outcomes_go_everywhere_and_the_rest_where_it_is_wanted(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for (host, scope) in [("a", PostbackScope::Outcomes), ("b", PostbackScope::All)] {
        let charge = charge_told_to(&services, integrator_id, host, scope).await;
        let charge = services.pay(&charge, services.payment(1_000)).await;
        services.provider.answers_next(Answer::Complete);
        services.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund");
    }
    let mut heard = Vec::new();
    for _ in 0..3 {
        for key in deliver(&services).await {
            let event = services.stores.postbacks.events.event(key).await.expect("an event").expect("one");
            heard.push((event.postback_url().map(|url| url.origin().to_owned()), event.event.kind));
        }
    }
    heard.sort_by_key(|(host, kind)| (host.clone(), kind.as_str()));
    let (a, b) = (Some("https://a.example.com".to_owned()), Some("https://b.example.com".to_owned()));
    assert_eq!(
        heard,
        [(a, EventKind::ChargePaid), (b.clone(), EventKind::ChargePaid), (b, EventKind::ChargeRefunded)]
    );
}

/// The feed is read in pieces and by what it is asked for.
pub async fn the_feed_is_read_in_pieces(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let first = paid_told_to(&services, integrator_id, "a").await;
    for _ in 0..4 {
        services.paid_charge(integrator_id, 1_000).await;
    }
    let read = |query: EventQuery| {
        let services = services.clone();
        async move {
            let events = services.stores.postbacks.events.events(integrator_id, query).await;
            let events = events.expect("events");
            events.into_iter().map(|listed| listed.event.number).collect::<Vec<_>>()
        }
    };
    let all = EventQuery { limit: 100, ..EventQuery::default() };
    assert_eq!(read(EventQuery { limit: 2, ..all.clone() }).await, [1, 2]);
    assert_eq!(read(EventQuery { limit: 2, after: 2, ..all.clone() }).await, [3, 4]);
    for after in [5, i64::MAX.unsigned_abs(), u64::MAX] {
        assert_eq!(read(EventQuery { after, ..all.clone() }).await, [0_u64; 0]);
    }
    assert_eq!(read(EventQuery { resource_id: Some(first.id.0), ..all.clone() }).await, [1]);
    let kinds = vec![EventKind::ChargeExpired, EventKind::WithdrawalCompleted];
    assert_eq!(read(EventQuery { kinds, ..all.clone() }).await, [0_u64; 0]);
    let kinds = vec![EventKind::ChargePaid];
    assert_eq!(read(EventQuery { kinds, after: 3, ..all.clone() }).await, [4, 5]);
    assert_eq!(read(EventQuery { delivered: Some(false), ..all.clone() }).await, [1]);
    deliver(&services).await;
    assert_eq!(read(EventQuery { delivered: Some(false), ..all.clone() }).await, [0_u64; 0]);
    assert_eq!(read(EventQuery { delivered: Some(true), ..all }).await, [1]);
}

/// Whoever reads on from the last number misses nothing, however many write meanwhile.
pub async fn a_reader_of_the_feed_misses_nothing_while_many_write(harness: &mut dyn StoreHarness) {
    const WRITERS: usize = 16;
    const EACH: usize = 6;
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let mut charges = Vec::new();
    for _ in 0..WRITERS * EACH {
        charges.push(services.charge(integrator_id, 100).await);
    }
    let reader = {
        let services = services.clone();
        tokio::spawn(async move {
            let (mut seen, mut after) = (Vec::new(), 0);
            while seen.len() < WRITERS * EACH {
                let query = EventQuery { after, limit: 7, ..EventQuery::default() };
                let page = services.stores.postbacks.events.events(integrator_id, query).await;
                for listed in page.expect("events") {
                    after = listed.event.number;
                    seen.push(listed.event.number);
                }
                tokio::task::yield_now().await;
            }
            seen
        })
    };
    all_at_once(&services, WRITERS, |services, number| {
        let own: Vec<_> = charges[number * EACH..][..EACH].to_vec();
        async move {
            for charge in own {
                services.pay(&charge, services.payment(100)).await;
            }
        }
    })
    .await;
    let seen = reader.await.expect("a reader");
    let expected: Vec<u64> = (1..).take(WRITERS * EACH).collect();
    assert_eq!(seen, expected);
}

/// What was taken up is nobody else's until its lease ends; what comes of it counts only while it is one's own.
pub async fn a_delivery_is_one_workers_for_a_lease(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    paid_told_to(&services, integrator_id, "a").await;
    let first = take(&services).await;
    assert_eq!(first.len(), 1);
    assert!(take(&services).await.is_empty());
    services.wait(LEASE);
    let second = take(&services).await;
    assert_eq!(second[0].key, first[0].key);
    assert_eq!((first[0].claims, second[0].claims, second[0].attempts), (1, 2, 0));
    let late = report(&services, &first[0], Standing::Dead(DeadReason::Exhausted));
    assert_eq!(tell(&services, vec![late]).await, 0, "somebody else has it");
    let retry = services.now().plus(Duration::from_secs(5));
    assert_eq!(tell(&services, vec![report(&services, &second[0], Standing::Waiting(retry))]).await, 1);
    assert_eq!(stands(&services, second[0].key).await, (Standing::Waiting(retry), 1));
    assert!(take(&services).await.is_empty());
    services.wait(Duration::from_secs(5));
    let third = take(&services).await;
    assert_eq!((third[0].claims, third[0].attempts), (3, 1));
    assert_eq!(tell(&services, vec![report(&services, &third[0], Standing::Delivered)]).await, 1);
    assert_eq!(stands(&services, third[0].key).await, (Standing::Delivered, 2));
    services.wait(LEASE * 2);
    assert!(take(&services).await.is_empty());
    let attempts = services.stores.postbacks.deliveries.attempts(third[0].key).await.expect("attempts");
    assert_eq!(attempts.len(), 3, "every attempt is kept, of whom it may be");
    assert!(attempts.is_sorted_by_key(|attempt| attempt.at));
}

/// Of one record, a later event waits for the earlier one, and is due as soon as that has ended, however it did.
pub async fn a_later_event_waits_for_the_earlier_one(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for end in [Standing::Delivered, Standing::Dead(DeadReason::Exhausted)] {
        let charge = paid_told_to(&services, integrator_id, "a").await;
        services.provider.answers_next(Answer::Complete);
        services.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund");
        let first = take(&services).await;
        assert_eq!(first.len(), 1);
        assert!(first[0].key.sequence < Version(4));
        let retry = services.now().plus(Duration::from_hours(2));
        tell(&services, vec![report(&services, &first[0], Standing::Waiting(retry))]).await;
        services.wait(Duration::from_hours(1));
        assert!(take(&services).await.is_empty(), "the later one has to wait");
        services.wait(Duration::from_hours(1));
        let first = take(&services).await;
        assert_eq!(first.len(), 1);
        tell(&services, vec![report(&services, &first[0], end)]).await;
        let second = take(&services).await;
        assert_eq!(second.len(), 1);
        assert_eq!(second[0].key.resource, first[0].key.resource);
        assert!(second[0].key.sequence > first[0].key.sequence);
        tell(&services, vec![report(&services, &second[0], Standing::Delivered)]).await;
    }
}

/// However much waits for one receiver, the others' turn comes.
pub async fn a_long_lane_is_in_nobodys_way(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for _ in 0..20 {
        paid_told_to(&services, integrator_id, "dead").await;
    }
    for host in ["b", "c", "d"] {
        paid_told_to(&services, integrator_id, host).await;
    }
    let lane = |host: &str| Lane::of(integrator_id, &url(host));
    let mut lanes = [lane("dead"), lane("b"), lane("c"), lane("d")];
    lanes.sort_unstable();
    let first = taken(&services, Turn { lanes: 2, per_lane: 3, ..turn(&services) }).await;
    assert_eq!(first.last, Some(lanes[1]));
    let seen: BTreeSet<Lane> = first.deliveries.iter().map(|claimed| claimed.lane).collect();
    assert_eq!(seen, BTreeSet::from([lanes[0], lanes[1]]));
    assert!(first.deliveries.len() <= 4);
    let after = first.last;
    let rest = taken(&services, Turn { after, per_lane: 3, ..turn(&services) }).await;
    assert_eq!(rest.last, None, "there is no further lane");
    let all: Vec<_> = first.deliveries.iter().chain(&rest.deliveries).collect();
    assert_eq!(all.iter().filter(|claimed| claimed.lane == lane("dead")).count(), 3);
    assert_eq!(all.len(), 6);
    let none = taken(&services, Turn { except: vec![lane("dead")], ..turn(&services) }).await;
    assert!(none.deliveries.is_empty());
    assert_eq!(take(&services).await.len(), 17);
}

/// Of many workers who come at once, each delivery has one.
pub async fn many_workers_share_what_is_due(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for number in 0..40 {
        paid_told_to(&services, integrator_id, &format!("h{}", number % 5)).await;
    }
    let taken = all_at_once(&services, 8, |services, _| async move {
        let mut own = Vec::new();
        for _ in 0..20 {
            let part = taken(&services, Turn { per_lane: 2, ..turn(&services) }).await.deliveries;
            let reports = part.iter().map(|claimed| report(&services, claimed, Standing::Delivered));
            assert_eq!(tell(&services, reports.collect()).await, u64::try_from(part.len()).expect("few"));
            own.extend(part.into_iter().map(|claimed| claimed.key));
        }
        own
    })
    .await;
    let mut all: Vec<EventKey> = taken.into_iter().flatten().collect();
    all.extend(deliver(&services).await);
    let different: BTreeSet<EventKey> = all.iter().copied().collect();
    assert_eq!((all.len(), different.len()), (40, 40));
}

/// What was given up or delivered is delivered again when it is asked for.
pub async fn what_has_ended_is_asked_for_again(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, other) = (services.integrator().await, services.integrator().await);
    let deliveries = &services.stores.postbacks.deliveries;
    paid_told_to(&services, integrator_id, "a").await;
    services.wait(Duration::from_mins(1));
    let noon = services.now();
    paid_told_to(&services, integrator_id, "a").await;
    paid_told_to(&services, other, "a").await;
    let mine = |claimed: &&ClaimedDelivery| claimed.key.resource.integrator_id == integrator_id;
    let first = take(&services).await;
    let dead = Standing::Dead(DeadReason::Exhausted);
    tell(&services, first.iter().map(|claimed| report(&services, claimed, dead)).collect()).await;
    let all = ReplayQuery { limit: 100, ..ReplayQuery::default() };
    let replay = |query: ReplayQuery| {
        let (deliveries, now) = (deliveries.clone(), services.now());
        async move { deliveries.replay(integrator_id, query, now).await.expect("a replay") }
    };
    assert_eq!(replay(ReplayQuery { kinds: vec![EventKind::ChargeExpired], ..all.clone() }).await, 0);
    assert_eq!(replay(ReplayQuery { since: Some(noon), ..all.clone() }).await, 1);
    assert_eq!(replay(ReplayQuery { since: Some(noon), ..all.clone() }).await, 0, "it waits already");
    assert_eq!(
        replay(ReplayQuery { until: Some(noon), kinds: vec![EventKind::ChargePaid], ..all.clone() }).await,
        1
    );
    let again = take(&services).await;
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|claimed| claimed.attempts == 0 && mine(&claimed)));
    // Asked for again while somebody has it: what comes of that doesn't count.
    let key = again[0].key;
    assert_eq!(deliveries.redeliver(key, again[0].lane, services.now()).await, Ok(true));
    let reports: Vec<_> =
        again.iter().map(|claimed| report(&services, claimed, Standing::Delivered)).collect();
    assert_eq!(tell(&services, reports).await, 1);
    assert_eq!(deliver(&services).await, [key]);
    assert_eq!(replay(all.clone()).await, 0, "none was given up");
    assert_eq!(replay(ReplayQuery { delivered: true, limit: 1, ..all.clone() }).await, 1);
    assert_eq!(deliver(&services).await.len(), 1);
    // One without a receiver gets a delivery when it is asked for.
    let quiet = services.paid_charge(integrator_id, 700).await;
    let event = told(&services, integrator_id).await.pop().expect("an event");
    assert_eq!((event.event.key.resource.id, event.delivery), (quiet.id.0, None));
    let lane = Lane::of(integrator_id, &url("a"));
    assert_eq!(deliveries.redeliver(event.event.key, lane, services.now()).await, Ok(true));
    assert_eq!(deliver(&services).await, [event.event.key]);
    let unheard_of = EventKey { sequence: Version(77), ..event.event.key };
    assert_eq!(deliveries.redeliver(unheard_of, lane, services.now()).await, Ok(false));
}

/// What has ended is removed after its time, with its attempts; what waits stays.
pub async fn old_deliveries_are_forgotten(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let deliveries = &services.stores.postbacks.deliveries;
    paid_told_to(&services, integrator_id, "a").await;
    let done = deliver(&services).await;
    paid_told_to(&services, integrator_id, "b").await;
    services.wait(Duration::from_hours(1));
    assert_eq!(deliveries.attempts(done[0]).await.map(|attempts| attempts.len()), Ok(1));
    let backlog = deliveries.backlog().await.expect("a backlog");
    assert_eq!((backlog.waiting, backlog.dead, backlog.endpoints_off), (1, 0, 0));
    assert!(backlog.oldest_at.is_some_and(|at| at < services.now()));
    assert_eq!(deliveries.forget(services.now(), 100).await, Ok(1));
    assert_eq!(deliveries.attempts(done[0]).await, Ok(Vec::new()));
    let event = services.stores.postbacks.events.event(done[0]).await.expect("an event").expect("one");
    assert_eq!(event.delivery, None, "the event itself stays");
    assert_eq!(take(&services).await.len(), 1);
}

/// An endpoint is known while it fails: since when, and whether it is switched off.
pub async fn an_endpoint_is_known_while_it_fails(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, other) = (services.integrator().await, services.integrator().await);
    let deliveries = &services.stores.postbacks.deliveries;
    let id = EndpointId::of(integrator_id, &url("a"));
    let since = services.now();
    let endpoint = |off| Endpoint {
        id,
        integrator_id,
        address: "https://a.example.com/pix".to_owned(),
        failing_since: services.now(),
        failed_at: services.now(),
        failure: "status_500".to_owned(),
        off,
    };
    let news = |news: EndpointNews| {
        let services = services.clone();
        async move {
            Box::pin(paid_told_to(&services, integrator_id, "a")).await;
            let claimed = take(&services).await.pop().expect("a delivery");
            let report = report(&services, &claimed, Standing::Delivered);
            tell(&services, vec![DeliveryReport { endpoint: news, ..report }]).await;
        }
    };
    let known = || async { deliveries.endpoints(integrator_id).await.expect("endpoints") };
    news(EndpointNews::Fails(Box::new(endpoint(None)))).await;
    services.wait(Duration::from_hours(1));
    news(EndpointNews::Fails(Box::new(endpoint(None)))).await;
    let found = known().await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].failing_since, found[0].failed_at), (since, services.now()));
    assert_eq!(deliveries.endpoints_of(vec![id]).await, Ok(found));
    assert_eq!(deliveries.endpoints(other).await, Ok(Vec::new()));
    news(EndpointNews::Works(id)).await;
    assert_eq!(known().await, Vec::new());
    // Whoever tells of it saw the old failure, and not that it has worked since.
    let failing = Some((services.now(), OffReason::Failing));
    let stale = Endpoint { failing_since: since, ..endpoint(failing) };
    news(EndpointNews::Fails(Box::new(stale))).await;
    assert_eq!(known().await, [endpoint(None)]);
    // Several that saw the old one: it has failed for a moment only.
    services.wait(Duration::from_secs(1));
    for _ in 0..2 {
        let stale = Endpoint { failing_since: since, ..endpoint(Some((services.now(), OffReason::Failing))) };
        news(EndpointNews::Fails(Box::new(stale))).await;
        assert_eq!(known().await.first().map(|endpoint| endpoint.off), Some(None));
    }
    let began = known().await.first().map(|endpoint| endpoint.failing_since).expect("an endpoint");
    // Off since it has failed for long, by who knows that it has.
    let long = Endpoint { failing_since: began, ..endpoint(Some((services.now(), OffReason::Failing))) };
    news(EndpointNews::Fails(Box::new(long.clone()))).await;
    assert_eq!(known().await, [long]);
    assert_eq!(deliveries.forget_endpoint(integrator_id, id).await, Ok(true));
    // All told at once: it works, and two that saw the old failure.
    news(EndpointNews::Fails(Box::new(Endpoint { failing_since: since, ..endpoint(None) }))).await;
    for _ in 0..3 {
        Box::pin(paid_told_to(&services, integrator_id, "a")).await;
    }
    let off = Some((services.now(), OffReason::Failing));
    let stale = EndpointNews::Fails(Box::new(Endpoint { failing_since: since, ..endpoint(off) }));
    let all = [EndpointNews::Works(id), stale.clone(), stale].into_iter().zip(take(&services).await);
    let delivered = |claimed| report(&services, &claimed, Standing::Delivered);
    let all = all
        .map(|(news, claimed)| DeliveryReport { endpoint: news, ..delivered(claimed) })
        .collect::<Vec<_>>();
    assert_eq!(all.len(), 3);
    tell(&services, all).await;
    assert_eq!(known().await, [endpoint(None)]);
    news(EndpointNews::Works(id)).await;
    let off = Some((services.now(), OffReason::Gone));
    news(EndpointNews::Fails(Box::new(endpoint(off)))).await;
    services.wait(Duration::from_hours(1));
    news(EndpointNews::Fails(Box::new(endpoint(None)))).await;
    news(EndpointNews::Works(id)).await;
    assert_eq!(known().await.first().and_then(|endpoint| endpoint.off), off, "it stays off");
    assert_eq!(deliveries.backlog().await.map(|backlog| backlog.endpoints_off), Ok(1));
    assert_eq!(deliveries.forget_endpoint(other, id).await, Ok(false));
    assert_eq!(deliveries.forget_endpoint(integrator_id, id).await, Ok(true));
    assert_eq!(deliveries.forget_endpoint(integrator_id, id).await, Ok(false));
    assert_eq!(known().await, Vec::new());
}

/// Secrets are numbered, dated, and their integrator's own.
pub async fn secrets_have_numbers_and_dates(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, other) = (services.integrator().await, services.integrator().await);
    let store = &services.stores.postbacks.secrets;
    let version = |number| SecretVersion {
        integrator_id,
        number,
        key_id: "abcd0123".to_owned(),
        created_at: services.now(),
        retired_at: None,
    };
    assert_eq!(store.list(integrator_id).await, Ok(Vec::new()));
    assert_eq!(store.add(version(2)).await, Ok(true));
    assert_eq!(store.add(version(1)).await, Ok(true));
    assert_eq!(store.add(version(2)).await, Ok(false));
    let ends = services.now().plus(Duration::from_hours(24));
    assert_eq!(store.retire(integrator_id, 1, ends).await, Ok(true));
    assert_eq!(store.retire(integrator_id, 3, ends).await, Ok(false));
    assert_eq!(store.retire(other, 2, ends).await, Ok(false));
    let ended = SecretVersion { retired_at: Some(ends), ..version(1) };
    assert_eq!(store.list(integrator_id).await, Ok(vec![ended, version(2)]));
    assert_eq!(store.list(other).await, Ok(Vec::new()));
    let nobody = SecretVersion { integrator_id: IntegratorId(Uuid::from_u128(404)), ..version(1) };
    assert!(matches!(store.add(nobody).await, Err(StoreError::Rejected(_))));
}

/// Which events go out, over what the interface says, is kept of an integrator.
pub async fn the_scope_of_an_integrator_is_kept(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let store = &services.stores.integrators;
    for scope in [Some(PostbackScope::All), Some(PostbackScope::Outcomes), None] {
        assert_eq!(store.set_postback_scope(integrator_id, scope).await, Ok(true));
        let found = store.find(integrator_id).await.expect("an integrator").expect("one");
        assert_eq!(found.postback_scope, scope);
    }
    let nobody = IntegratorId(Uuid::from_u128(404));
    assert_eq!(store.set_postback_scope(nobody, None).await, Ok(false));
}
