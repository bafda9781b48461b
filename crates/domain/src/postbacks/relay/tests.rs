use std::sync::Mutex;

use mockall::predicate::eq;
use uuid::Uuid;

use super::*;
use crate::charges::{NewCharge, state as charge_state};
use crate::ids::{ChargeId, MockIds, ResourceKind, ResourceRef, Version};
use crate::money::{Amount, Cents};
use crate::party::Document;
use crate::postbacks::delivery::MockDeliveryStore;
use crate::postbacks::events::{MockEventStore, PostbackScope, Snapshot, StoredEvent};
use crate::postbacks::secrets::{MAX_LIVE_SECRETS, MockPostbackSecretStore, MockSecretMaker, SecretVersion};
use crate::postbacks::send::{MockPostbackSender, MockPostbackUrls, UrlRefusal};
use crate::provider::{Party, ProviderBody, ProviderId, Ticket};
use crate::text::ExternalId;
use crate::time::MockClock;
use crate::transition::EventKind;

const NOW: Timestamp = Timestamp::from_micros(1_768_478_400_000_000);
const OWNER: IntegratorId = IntegratorId(Uuid::from_u128(1));
const HOUR: Duration = Duration::from_hours(1);

fn url(text: &str) -> PostbackUrl {
    PostbackUrl::parse(text).unwrap()
}

fn shop() -> PostbackUrl {
    url("https://shop.example.com/pix?token=1")
}

fn key(id: u128) -> EventKey {
    let resource = ResourceRef { integrator_id: OWNER, kind: ResourceKind::Charge, id: Uuid::from_u128(id) };
    EventKey { resource, sequence: Version(2) }
}

fn claimed(id: u128, attempts: u32) -> ClaimedDelivery {
    let until = NOW.plus(DELIVERY_LEASE);
    ClaimedDelivery { key: key(id), lane: Lane::of(OWNER, &shop()), attempts, claims: 1, until }
}

fn answered(status: u16) -> Reply {
    Reply::Answered { status, retry_after: None, excerpt: "seen".into() }
}

fn answered_with(status: u16, retry_after: Duration) -> Reply {
    Reply::Answered { status, retry_after: Some(retry_after), excerpt: String::new() }
}

fn forbidden() -> Reply {
    Reply::Forbidden(UrlRefusal { code: "address_not_public", message: "not public".into() })
}

fn failing(since: Timestamp) -> Endpoint {
    Endpoint {
        id: EndpointId::of(OWNER, &shop()),
        integrator_id: OWNER,
        address: "https://shop.example.com/pix".into(),
        failing_since: since,
        failed_at: since,
        failure: "timeout".into(),
        off: None,
    }
}

fn conclusion(reply: &Reply, attempts: u32, failing: Option<Endpoint>) -> DeliveryReport {
    let attempt = Attempt {
        id: Uuid::from_u128(9),
        at: NOW,
        took_ms: 5,
        status: reply.status(),
        outcome: reply.outcome(),
        excerpt: reply.excerpt(),
    };
    conclude(claimed(77, attempts), attempt, reply, &shop(), failing, NOW)
}

fn wait_of(report: &DeliveryReport) -> Duration {
    let Standing::Waiting(at) = report.standing else { panic!("{:?}", report.standing) };
    at.since(NOW)
}

fn news_of(report: DeliveryReport) -> Endpoint {
    let EndpointNews::Fails(endpoint) = report.endpoint else { panic!("{:?}", report.endpoint) };
    *endpoint
}

#[test]
fn a_success_is_any_status_of_the_two_hundreds_and_nothing_else() {
    for status in [200, 201, 202, 204, 299] {
        let report = conclusion(&answered(status), 0, None);
        assert_eq!(report.standing, Standing::Delivered, "{status}");
        assert_eq!(report.endpoint, EndpointNews::Nothing, "{status}");
        assert_eq!(report.attempt.unwrap().outcome, "delivered");
    }
    for status in [100, 199, 300, 301, 308, 400, 404, 429, 500, 503, 599] {
        let report = conclusion(&answered(status), 0, None);
        assert!(matches!(report.standing, Standing::Waiting(_)), "{status}");
        let attempt = report.attempt.clone().unwrap();
        assert_eq!((attempt.outcome.as_str(), attempt.status), ("status", Some(status)));
        let endpoint = news_of(report);
        assert_eq!(endpoint.failure, format!("status_{status}"));
        assert_eq!((endpoint.failing_since, endpoint.failed_at, endpoint.off), (NOW, NOW, None));
    }
}

#[test]
fn what_never_arrived_is_tried_again_and_said_by_its_code() {
    for (reply, code) in [
        (Reply::Failed("timeout"), "timeout"),
        (Reply::Failed("tls"), "tls"),
        (forbidden(), "forbidden_address_not_public"),
    ] {
        let report = conclusion(&reply, 0, None);
        assert!(matches!(report.standing, Standing::Waiting(_)), "{code}");
        let attempt = report.attempt.clone().unwrap();
        assert_eq!((attempt.outcome.as_str(), attempt.status), (code, None));
        assert_eq!(news_of(report).failure, code);
    }
    assert_eq!(forbidden().excerpt(), "not public", "so that its integrator reads why");
    assert_eq!(Reply::Failed("timeout").excerpt(), "");
}

#[test]
fn an_endpoint_is_told_of_without_its_query() {
    assert_eq!(news_of(conclusion(&answered(500), 0, None)).address, "https://shop.example.com/pix");
}

#[test]
fn a_success_after_failures_is_news_of_the_endpoint() {
    let report = conclusion(&answered(200), 3, Some(failing(NOW)));
    assert_eq!(report.endpoint, EndpointNews::Works(EndpointId::of(OWNER, &shop())));
}

#[test]
fn who_is_gone_is_switched_off_at_once() {
    let report = conclusion(&answered(410), 0, None);
    assert_eq!(report.standing, Standing::Dead(DeadReason::EndpointOff));
    assert_eq!(news_of(report).off, Some((NOW, OffReason::Gone)));
}

#[test]
fn who_fails_for_120_hours_is_switched_off_and_not_a_microsecond_before() {
    let limit = i64::try_from(FAILING_MAX.as_micros()).unwrap();
    let since = |micros_ago: i64| Some(failing(Timestamp::from_micros(NOW.micros() - micros_ago)));
    let almost = conclusion(&answered(500), 0, since(limit - 1));
    assert!(matches!(almost.standing, Standing::Waiting(_)));
    assert_eq!(news_of(almost).off, None);
    let now = conclusion(&answered(500), 0, since(limit));
    assert!(matches!(now.standing, Standing::Waiting(_)), "another node may have just seen it work");
    let last = u32::try_from(ATTEMPT_WAITS.len()).unwrap() - 1;
    let last = conclusion(&answered(500), last, since(limit));
    assert_eq!(last.standing, Standing::Dead(DeadReason::Exhausted));
    let endpoint = news_of(now);
    assert_eq!(endpoint.off, Some((NOW, OffReason::Failing)));
    assert_eq!(NOW.since(endpoint.failing_since), HOUR * 120, "the first failure counts");
}

#[test]
fn the_schedule_is_that_of_the_contract() {
    let seconds: Vec<u64> = ATTEMPT_WAITS.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]);
    for (behind, wait) in (1_u32..).zip(&ATTEMPT_WAITS[1..]) {
        let found = wait_of(&conclusion(&answered(500), behind - 1, None));
        assert!(found <= *wait && found >= *wait * 9 / 10, "{found:?} after {behind} of {wait:?}");
    }
    for attempts in [9, 10, u32::MAX] {
        let report = conclusion(&answered(500), attempts, None);
        assert_eq!(report.standing, Standing::Dead(DeadReason::Exhausted), "after {attempts} and one more");
    }
    assert_eq!(conclusion(&answered(200), 9, None).standing, Standing::Delivered, "the tenth counts");
}

#[test]
fn retry_after_prolongs_a_wait_up_to_a_day_and_never_shortens_it() {
    let wait = |status, asked, attempts| wait_of(&conclusion(&answered_with(status, asked), attempts, None));
    for status in [429, 503] {
        assert_eq!(wait(status, HOUR, 0), HOUR);
        assert_eq!(wait(status, HOUR * 24, 0), RETRY_AFTER_MAX);
        assert_eq!(wait(status, HOUR * 1_000, 0), RETRY_AFTER_MAX);
        assert!(wait(status, Duration::from_secs(1), 4) >= HOUR * 4);
    }
    for status in [500, 404, 301] {
        assert!(wait(status, HOUR, 0) <= Duration::from_secs(5), "{status} has no word for it");
    }
    let last = conclusion(&answered_with(429, HOUR), 9, None);
    assert_eq!(last.standing, Standing::Dead(DeadReason::Exhausted), "asking for time is no further attempt");
}

#[test]
fn too_many_attempts_at_once_are_spread() {
    let waits: std::collections::BTreeSet<Duration> = (0..100_u128)
        .map(|id| {
            let reply = answered(500);
            let attempt = conclusion(&reply, 2, None).attempt.unwrap();
            let claimed = claimed(id * 0x9E37_79B9_7F4A_7C15, 2);
            wait_of(&conclude(claimed, attempt, &reply, &shop(), None, NOW))
        })
        .collect();
    assert!(waits.len() > 50, "{waits:?}");
}

/// A paid charge whose events go to `postback_url`, and the event of that kind.
fn listed(id: u128, postback_url: Option<PostbackUrl>, kind: EventKind) -> ListedEvent {
    let new = NewCharge {
        id: ChargeId(Uuid::from_u128(id)),
        integrator_id: OWNER,
        external_id: ExternalId::parse("a").unwrap(),
        external_id_given: true,
        amount: Amount::from_cents(1_000).unwrap(),
        payer: Party { name: None, document: Some(Document::parse("52998224725").unwrap()) },
        payer_email: None,
        payer_question: None,
        metadata: crate::metadata::Metadata::default(),
        postback_url,
        postback_scope: PostbackScope::Outcomes,
        expires_in: HOUR,
        fee_version: 0,
        split: Vec::new(),
    };
    let ticket = Ticket {
        provider_id: ProviderId::parse("p1").unwrap(),
        qrcode: "qr".into(),
        body: ProviderBody("{}".into()),
    };
    let record = charge_state::open(new, ticket, NOW).writes.remove(0).record;
    let snapshot = Snapshot::of(&record);
    let moved = Cents::ZERO;
    let event = StoredEvent { number: 1, key: key(id), kind, at: NOW, moved, related: None, snapshot };
    ListedEvent { event, record, delivery: None }
}

fn clock(now: Timestamp) -> Arc<MockClock> {
    let mut clock = MockClock::new();
    clock.expect_now().return_const(now);
    clock.expect_is_right_for().return_const(true);
    Arc::new(clock)
}

/// The first secret of everybody.
fn secret_store(key_id: &'static str) -> Arc<MockPostbackSecretStore> {
    let mut store = MockPostbackSecretStore::new();
    store.expect_list().returning(move |integrator_id| {
        let key_id = key_id.to_owned();
        Ok(vec![SecretVersion { integrator_id, number: 1, key_id, created_at: NOW, retired_at: None }])
    });
    Arc::new(store)
}

/// Knows the keys `old` and `new`.
fn maker() -> Arc<MockSecretMaker> {
    let mut maker = MockSecretMaker::new();
    maker.expect_current_key().returning(|| "new".into());
    maker.expect_secret().returning(|key_id, _, number| {
        ["old", "new"].contains(&key_id).then(|| PostbackSecret::new(format!("whsec_{key_id}_{number}")))
    });
    Arc::new(maker)
}

struct Given {
    events: Vec<ListedEvent>,
    endpoints: Vec<Endpoint>,
    refused: bool,
    has_body: bool,
    key_id: &'static str,
    sender: MockPostbackSender,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            events: vec![listed(1, Some(shop()), EventKind::ChargePaid)],
            endpoints: Vec::new(),
            refused: false,
            has_body: true,
            key_id: "new",
            sender: MockPostbackSender::new(),
        }
    }
}

fn relay(given: Given, now: Timestamp) -> Relay {
    let Given { events, endpoints, refused, has_body, key_id, sender } = given;
    let mut deliveries = MockDeliveryStore::new();
    deliveries.expect_load().returning(move |_| Ok(events.clone()));
    deliveries.expect_endpoints_of().returning(move |_| Ok(endpoints.clone()));
    let mut urls = MockPostbackUrls::new();
    urls.expect_check().returning(move |_| {
        let refusal = UrlRefusal { code: "address_not_public", message: "not public".into() };
        if refused { Err(refusal) } else { Ok(()) }
    });
    let mut bodies = MockPostbackBodies::new();
    bodies.expect_body().returning(move |_| has_body.then(|| "{}".to_owned()));
    let mut ids = MockIds::new();
    ids.expect_next().return_const(Uuid::from_u128(5));
    let (secrets, clock) = (secret_store(key_id), clock(now));
    Relay::new(PostbackPorts {
        secrets: PostbackSecrets::new(secrets.clone(), maker(), clock.clone()),
        stores: PostbackStores {
            events: Arc::new(MockEventStore::new()),
            deliveries: Arc::new(deliveries),
            secrets,
        },
        sender: Arc::new(sender),
        urls: Arc::new(urls),
        bodies: Arc::new(bodies),
        clock,
        ids: Arc::new(ids),
    })
}

async fn given_up(given: Given) -> DeadReason {
    let (mut prepared, error) = relay(given, NOW).prepare(vec![claimed(1, 0)]).await.unwrap();
    assert_eq!((prepared.len(), error), (1, None));
    let Prepared::Tell(report) = prepared.remove(0) else { panic!("{prepared:?} is sent") };
    assert_eq!((report.attempt, report.endpoint), (None, EndpointNews::Nothing));
    assert_eq!(report.claimed, claimed(1, 0));
    let Standing::Dead(reason) = report.standing else { panic!("{:?}", report.standing) };
    reason
}

#[tokio::test]
async fn what_can_be_sent_is_sent_with_its_id_its_name_and_every_live_secret() {
    let (prepared, error) = relay(Given::default(), NOW).prepare(vec![claimed(1, 0)]).await.unwrap();
    assert_eq!(error, None);
    let [Prepared::Send(ready)] = prepared.as_slice() else { panic!("{prepared:?}") };
    assert_eq!(ready.parcel.message_id, key(1).public_id());
    assert_eq!(ready.parcel.event, "cashin.confirmed");
    assert_eq!(ready.parcel.url, shop());
    assert_eq!(ready.parcel.secrets, [PostbackSecret::new("whsec_new_1".into())]);
    assert_eq!(ready.endpoint_id(), EndpointId::of(OWNER, &shop()));
    assert!(!ready.is_failing());
    let report = ready.as_ref().clone().give_up(DeadReason::EndpointOff);
    assert_eq!((report.attempt, report.standing), (None, Standing::Dead(DeadReason::EndpointOff)));
}

#[tokio::test]
async fn an_endpoint_that_fails_is_still_sent_to_until_it_is_off() {
    let given = Given { endpoints: vec![failing(NOW)], ..Given::default() };
    let (prepared, _) = relay(given, NOW).prepare(vec![claimed(1, 0)]).await.unwrap();
    let [Prepared::Send(ready)] = prepared.as_slice() else { panic!("{prepared:?}") };
    assert!(ready.is_failing());
    assert!(!ready.as_ref().clone().forgiven().is_failing());
    let off = Endpoint { off: Some((NOW, OffReason::Gone)), ..failing(NOW) };
    let given = Given { endpoints: vec![off], ..Given::default() };
    assert_eq!(given_up(given).await, DeadReason::EndpointOff);
}

#[tokio::test]
async fn what_can_never_be_sent_is_given_up_and_says_why() {
    let nowhere = vec![listed(1, None, EventKind::ChargePaid)];
    let private = vec![listed(1, Some(shop()), EventKind::ChargeCreating)];
    for given in [
        Given { events: Vec::new(), ..Given::default() },
        Given { events: nowhere, ..Given::default() },
        Given { events: private, ..Given::default() },
        Given { has_body: false, ..Given::default() },
    ] {
        assert_eq!(given_up(given).await, DeadReason::Undeliverable);
    }
    assert_eq!(given_up(Given { refused: true, ..Given::default() }).await, DeadReason::Forbidden);
}

#[tokio::test]
async fn what_cannot_be_signed_waits_and_says_which_key_is_missing() {
    let relay = relay(Given { key_id: "lost", ..Given::default() }, NOW);
    let (prepared, error) = relay.prepare(vec![claimed(1, 0)]).await.unwrap();
    assert!(prepared.is_empty(), "neither sent nor given up: {prepared:?}");
    assert_eq!(error, Some(SecretError::NoKey { number: 1, key_id: "lost".into() }));
}

/// What is sent at `now`, of a delivery whose lease ends a minute after [`NOW`].
async fn attempted(now: Timestamp, sends: usize) -> Option<DeliveryReport> {
    let mut sender = MockPostbackSender::new();
    let is_now = move |parcel: &Parcel| parcel.sent_at == now;
    sender.expect_send().withf(is_now).times(sends).returning(|_| answered(200));
    let (prepared, _) = relay(Given::default(), NOW).prepare(vec![claimed(1, 0)]).await.unwrap();
    let Some(Prepared::Send(ready)) = prepared.into_iter().next() else { panic!("it is not sent") };
    relay(Given { sender, ..Given::default() }, now).attempt(*ready).await
}

#[tokio::test]
async fn nothing_is_sent_when_its_lease_may_end_before_its_answer() {
    let last = NOW.plus(DELIVERY_LEASE.checked_sub(LEASE_MARGIN).unwrap());
    let report = attempted(last, 1).await.unwrap();
    assert_eq!(report.standing, Standing::Delivered);
    assert_eq!(report.attempt.map(|attempt| attempt.at), Some(last));
    assert_eq!(attempted(last.plus(Duration::from_micros(1)), 0).await, None);
    assert_eq!(attempted(NOW.plus(HOUR), 0).await, None);
}

#[tokio::test]
async fn old_deliveries_are_those_before_the_time_that_is_kept() {
    let before = Timestamp::from_micros(NOW.micros() - 3_600_000_000);
    let mut deliveries = MockDeliveryStore::new();
    deliveries.expect_forget().with(eq(before), eq(10)).times(1).returning(|_, _| Ok(3));
    let mut relay = relay(Given::default(), NOW);
    relay.ports.stores.deliveries = Arc::new(deliveries);
    assert_eq!(relay.forget(HOUR, 10).await, Ok(3));
    assert_eq!(relay.now(), NOW);
}

/// Secrets over a store that keeps what it is told, at a time that can be moved.
struct Vault {
    kept: Arc<Mutex<Vec<SecretVersion>>>,
    now: Arc<Mutex<Timestamp>>,
    secrets: PostbackSecrets,
}

impl Vault {
    fn with(versions: Vec<SecretVersion>) -> Self {
        let kept = Arc::new(Mutex::new(versions));
        let now = Arc::new(Mutex::new(NOW));
        let mut store = MockPostbackSecretStore::new();
        let listed = kept.clone();
        store.expect_list().returning(move |_| Ok(listed.lock().unwrap().clone()));
        let added = kept.clone();
        store.expect_add().returning(move |version| {
            let mut kept = added.lock().unwrap();
            let new = kept.iter().all(|one| one.number != version.number);
            if new {
                kept.push(version);
            }
            Ok(new)
        });
        let retired = kept.clone();
        store.expect_retire().returning(move |_, number, at| {
            let mut kept = retired.lock().unwrap();
            kept.iter_mut().find(|one| one.number == number).unwrap().retired_at = Some(at);
            Ok(true)
        });
        let mut clock = MockClock::new();
        let told = now.clone();
        clock.expect_now().returning(move || *told.lock().unwrap());
        let secrets = PostbackSecrets::new(Arc::new(store), maker(), Arc::new(clock));
        Self { kept, now, secrets }
    }

    fn wait(&self, span: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = now.plus(span);
    }

    async fn live(&self) -> Vec<String> {
        let live = self.secrets.live(OWNER).await.unwrap();
        live.iter().map(|secret| secret.expose().to_owned()).collect()
    }
}

fn version(number: u32, key_id: &str, retired_at: Option<Timestamp>) -> SecretVersion {
    let key_id = key_id.to_owned();
    SecretVersion { integrator_id: OWNER, number, key_id, created_at: NOW, retired_at }
}

#[tokio::test]
async fn the_first_secret_is_made_when_it_is_asked_for_and_once() {
    let vault = Vault::with(Vec::new());
    assert_eq!(vault.live().await, ["whsec_new_1"]);
    assert_eq!(vault.live().await, ["whsec_new_1"]);
    assert_eq!(*vault.kept.lock().unwrap(), [version(1, "new", None)]);
}

#[tokio::test]
async fn the_old_secret_signs_beside_the_new_one_until_the_overlap_ends() {
    let vault = Vault::with(vec![version(1, "old", None)]);
    let (added, secret) = vault.secrets.rotate(OWNER, Some(HOUR)).await.unwrap();
    assert_eq!((added.number, added.key_id.as_str(), secret.expose()), (2, "new", "whsec_new_2"));
    assert_eq!(vault.live().await, ["whsec_old_1", "whsec_new_2"], "oldest first");
    let last = Duration::from_micros(1);
    vault.wait(HOUR.checked_sub(last).unwrap());
    assert_eq!(vault.live().await, ["whsec_old_1", "whsec_new_2"]);
    vault.wait(last);
    assert_eq!(vault.live().await, ["whsec_new_2"]);
    let all = vault.secrets.all(OWNER).await.unwrap();
    assert_eq!(all.len(), 2, "the ended one is still listed");
}

#[tokio::test]
async fn an_overlap_never_prolongs_a_secret_that_ends_before() {
    let ends = NOW.plus(HOUR);
    let vault = Vault::with(vec![version(1, "old", Some(ends)), version(2, "old", None)]);
    vault.secrets.rotate(OWNER, Some(HOUR * 24)).await.unwrap();
    let ends: Vec<_> = vault.kept.lock().unwrap().iter().map(|one| one.retired_at).collect();
    assert_eq!(ends, [Some(NOW.plus(HOUR)), Some(NOW.plus(HOUR * 24)), None]);
}

#[tokio::test]
async fn no_more_than_three_secrets_sign_at_once() {
    let vault = Vault::with(Vec::new());
    for _ in 1..MAX_LIVE_SECRETS {
        vault.secrets.rotate(OWNER, None).await.unwrap();
    }
    assert_eq!(vault.secrets.rotate(OWNER, None).await.unwrap_err(), SecretError::TooMany);
    assert_eq!(vault.live().await.len(), MAX_LIVE_SECRETS);
    vault.secrets.retire(OWNER, 1).await.unwrap();
    let (added, _) = vault.secrets.rotate(OWNER, None).await.unwrap();
    assert_eq!(added.number, 4, "a number is never given twice");
    assert_eq!(vault.live().await, ["whsec_new_2", "whsec_new_3", "whsec_new_4"]);
}

#[tokio::test]
async fn the_last_secret_that_signs_cannot_be_retired() {
    let vault = Vault::with(vec![version(1, "old", Some(NOW)), version(2, "new", None)]);
    assert_eq!(vault.secrets.retire(OWNER, 2).await, Err(SecretError::Last(2)));
    assert_eq!(vault.secrets.retire(OWNER, 3).await, Err(SecretError::Unknown(3)));
    vault.secrets.rotate(OWNER, None).await.unwrap();
    assert_eq!(vault.secrets.retire(OWNER, 2).await, Ok(()));
    assert_eq!(vault.live().await, ["whsec_new_3"]);
}

#[tokio::test]
async fn what_ends_by_itself_is_not_left_alone_to_sign() {
    let ending = || version(1, "old", Some(NOW.plus(HOUR)));
    let vault = Vault::with(vec![ending(), version(2, "new", None)]);
    assert_eq!(vault.secrets.retire(OWNER, 2).await, Err(SecretError::Last(2)));
    assert_eq!(vault.secrets.retire(OWNER, 1).await, Ok(()));
    let vault = Vault::with(vec![ending(), version(2, "new", Some(NOW.plus(HOUR * 2)))]);
    assert_eq!(vault.secrets.retire(OWNER, 2).await, Err(SecretError::Last(2)));
    assert_eq!(vault.secrets.retire(OWNER, 1).await, Ok(()));
    // However it came about: it is an error, and not silence.
    let vault = Vault::with(vec![ending()]);
    vault.wait(HOUR);
    assert_eq!(vault.secrets.live(OWNER).await, Err(SecretError::NoneSigns));
}

#[tokio::test]
async fn the_master_key_of_a_secret_that_signs_no_more_may_be_taken_away() {
    let vault = Vault::with(vec![version(1, "lost", Some(NOW)), version(2, "new", None)]);
    assert_eq!(vault.live().await, ["whsec_new_2"]);
    let vault = Vault::with(vec![version(1, "lost", Some(NOW.plus(HOUR))), version(2, "new", None)]);
    let missing = SecretError::NoKey { number: 1, key_id: "lost".into() };
    assert_eq!(vault.secrets.live(OWNER).await, Err(missing), "it signs still");
    vault.wait(HOUR);
    assert_eq!(vault.live().await, ["whsec_new_2"]);
}

#[tokio::test]
async fn while_the_clock_is_not_right_nothing_is_taken_up_forgotten_or_said_to_have_failed() {
    let mut clock = MockClock::new();
    clock.expect_now().return_const(NOW);
    clock.expect_is_right_for().return_const(false);
    let clock = Arc::new(clock);
    for (reply, is_told) in [(Reply::Failed("timeout"), false), (answered(200), true)] {
        let mut sender = MockPostbackSender::new();
        sender.expect_send().times(1).return_once(move |_| reply);
        // Its store is asked for nothing.
        let mut relay = relay(Given { sender, ..Given::default() }, NOW);
        relay.ports.clock = clock.clone();
        assert_eq!(relay.take(None, 8, 8, Vec::new()).await, Ok(Taken::default()));
        assert_eq!(relay.forget(Duration::ZERO, 8).await, Ok(0));
        let (mut prepared, _) = relay.prepare(vec![claimed(1, 0)]).await.unwrap();
        let Prepared::Send(ready) = prepared.remove(0) else { panic!("{prepared:?}") };
        assert_eq!(relay.attempt(*ready).await.is_some(), is_told, "what was taken need not be sent again");
    }
}
