//! A store with integrators, receivers that answer as told, and a clock that follows the runtime's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use pix_conformance::builders::charge_command;
use pix_conformance::clock::NOON;
use pix_conformance::{SequencedIds, Services, StoreSet};
use pix_domain::charges::Charge;
use pix_domain::charges::service::CreateCharge;
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::delivery::{DeliveryState, DeliveryStore, Standing};
use pix_domain::postbacks::events::{EventQuery, ListedEvent, PostbackScope};
use pix_domain::postbacks::relay::{PostbackBodies, PostbackPorts, Relay};
use pix_domain::postbacks::secrets::{PostbackSecrets, SecretMaker};
use pix_domain::postbacks::send::{Parcel, PostbackSecret, PostbackSender, PostbackUrls, Reply, UrlRefusal};
use pix_domain::text::PostbackUrl;
use pix_domain::time::{Clock, Timestamp};
use pix_memory::MemoryStore;
use pix_notifications::{Deliverer, DelivererConfig};
use tokio::sync::watch;
use tokio::time::Instant;

/// What a receiver does.
#[derive(Clone)]
pub enum Manner {
    /// Answers with that status, after so long.
    Answers(u16, Duration),
    /// Asks the first one to come again after so long, and takes the rest.
    Busy(u16, Duration),
    /// Never answers until it is released.
    Silent,
    /// Says nothing, until the sender gives up after 15 seconds.
    TimesOut,
    /// Refuses about three in ten, the same ones every time.
    Moody,
}

pub const TAKES: Manner = Manner::Answers(200, Duration::ZERO);
pub const BROKEN: Manner = Manner::Answers(500, Duration::ZERO);
pub const GONE: Manner = Manner::Answers(410, Duration::from_millis(20));

/// One request, as a receiver saw it.
#[derive(Debug, Clone)]
pub struct Sent {
    pub host: String,
    pub message_id: String,
    pub at: Instant,
    pub taken: bool,
}

/// Every receiver there is.
pub struct Receivers {
    manners: Mutex<BTreeMap<String, Manner>>,
    sent: Mutex<Vec<Sent>>,
    running: Mutex<BTreeMap<String, usize>>,
    peaks: Mutex<BTreeMap<String, usize>>,
    released: watch::Sender<bool>,
}

impl Receivers {
    fn new() -> Self {
        let (released, _) = watch::channel(false);
        Self {
            manners: Mutex::default(),
            sent: Mutex::default(),
            running: Mutex::default(),
            peaks: Mutex::default(),
            released,
        }
    }

    pub fn behave(&self, host: &str, manner: Manner) {
        self.manners.lock().unwrap().insert(host.to_owned(), manner);
    }

    /// Silent ones answer from now on.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    pub fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    pub fn sent_to(&self, host: &str) -> Vec<Sent> {
        self.sent().into_iter().filter(|sent| sent.host == host).collect()
    }

    pub fn count(&self, host: &str) -> usize {
        self.sent.lock().unwrap().iter().filter(|sent| sent.host == host).count()
    }

    /// The most requests that a host, or with `""` all of them, had at once.
    pub fn peak(&self, host: &str) -> usize {
        self.peaks.lock().unwrap().get(host).copied().unwrap_or(0)
    }

    pub fn running(&self, host: &str) -> usize {
        self.running.lock().unwrap().get(host).copied().unwrap_or(0)
    }

    fn enter(&self, host: &str) {
        let mut running = self.running.lock().unwrap();
        let mut peaks: MutexGuard<'_, BTreeMap<String, usize>> = self.peaks.lock().unwrap();
        for name in [host, ""] {
            let count = running.entry(name.to_owned()).or_default();
            *count += 1;
            let peak = peaks.entry(name.to_owned()).or_default();
            *peak = (*peak).max(*count);
        }
    }

    fn leave(&self, host: &str) {
        let mut running = self.running.lock().unwrap();
        for name in [host, ""] {
            *running.get_mut(name).unwrap() -= 1;
        }
    }

    async fn answer(&self, manner: Manner, before: usize, message_id: &str) -> Reply {
        let answered = |status, retry_after| Reply::Answered { status, retry_after, excerpt: "seen".into() };
        match manner {
            Manner::Answers(status, after) => {
                if !after.is_zero() {
                    tokio::time::sleep(after).await;
                }
                answered(status, None)
            }
            Manner::Busy(status, wait) if before == 0 => answered(status, Some(wait)),
            Manner::Busy(..) => answered(200, None),
            Manner::Silent => {
                let mut released = self.released.subscribe();
                released.wait_for(|released| *released).await.unwrap();
                answered(200, None)
            }
            Manner::TimesOut => {
                tokio::time::sleep(Duration::from_secs(15)).await;
                Reply::Failed("timeout")
            }
            Manner::Moody => {
                let letters =
                    message_id.bytes().fold(7, |sum: u64, byte| sum * 31 % 1_000_003 + u64::from(byte));
                let mut rng = fastrand::Rng::with_seed(letters * 64 + u64::try_from(before).unwrap());
                tokio::time::sleep(Duration::from_millis(rng.u64(1..40))).await;
                answered(if rng.u32(..10) < 3 { 503 } else { 200 }, None)
            }
        }
    }
}

fn host_of(url: &PostbackUrl) -> String {
    let host = url.origin().trim_start_matches("https://");
    host.trim_end_matches(".example.com").to_owned()
}

#[async_trait]
impl PostbackSender for Receivers {
    async fn send(&self, parcel: Parcel) -> Reply {
        let host = host_of(&parcel.url);
        let manner = self.manners.lock().unwrap().get(&host).cloned().unwrap_or(TAKES);
        let index = {
            let mut sent = self.sent.lock().unwrap();
            let (host, message_id) = (host.clone(), parcel.message_id.clone());
            sent.push(Sent { host, message_id, at: Instant::now(), taken: false });
            sent.len() - 1
        };
        let same = |sent: &&Sent| sent.message_id == parcel.message_id;
        let before = self.sent.lock().unwrap()[..index].iter().filter(same).count();
        self.enter(&host);
        let reply = self.answer(manner, before, &parcel.message_id).await;
        self.leave(&host);
        self.sent.lock().unwrap()[index].taken = reply.is_success();
        reply
    }
}

struct AnyUrl;

impl PostbackUrls for AnyUrl {
    fn check(&self, _: &PostbackUrl) -> Result<(), UrlRefusal> {
        Ok(())
    }
}

struct Bodies;

impl PostbackBodies for Bodies {
    fn body(&self, event: &ListedEvent) -> Option<String> {
        Some(event.event.number.to_string())
    }

    fn ping(&self, message_id: &str, _: Timestamp) -> String {
        message_id.to_owned()
    }
}

struct Maker;

impl SecretMaker for Maker {
    fn current_key(&self) -> String {
        "first".into()
    }

    fn secret(&self, _: &str, integrator_id: IntegratorId, number: u32) -> Option<PostbackSecret> {
        Some(PostbackSecret::new(format!("whsec_{integrator_id}_{number}")))
    }
}

/// The time of the runtime, which tests stop.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        NOON.plus(self.0.elapsed())
    }
}

pub struct World {
    pub services: Services,
    pub receivers: Arc<Receivers>,
    pub clock: Arc<dyn Clock>,
    /// In front of the store, when it is to fail.
    pub deliveries: Arc<dyn DeliveryStore>,
    started: Option<Instant>,
}

impl World {
    /// Whose clock follows the runtime's.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { started: Some(now), ..Self::with_clock(Some(Arc::new(RuntimeClock(now)))) }
    }

    /// Whose clock stands, and is moved by hand.
    pub fn standing_still() -> Self {
        Self::with_clock(None)
    }

    fn with_clock(clock: Option<Arc<dyn Clock>>) -> Self {
        let services = Services::over(StoreSet::of(Arc::new(MemoryStore::new())), 0);
        let clock = clock.unwrap_or_else(|| services.clock.clone());
        let deliveries = services.stores.postbacks.deliveries.clone();
        Self { services, receivers: Arc::new(Receivers::new()), clock, deliveries, started: None }
    }

    pub fn relay(&self) -> Relay {
        let mut stores = self.services.stores.postbacks.clone();
        stores.deliveries = self.deliveries.clone();
        Relay::new(PostbackPorts {
            secrets: PostbackSecrets::new(stores.secrets.clone(), Arc::new(Maker), self.clock.clone()),
            stores,
            sender: self.receivers.clone(),
            urls: Arc::new(AnyUrl),
            bodies: Arc::new(Bodies),
            clock: self.clock.clone(),
            ids: Arc::new(SequencedIds::new(1)),
        })
    }

    pub fn deliver(&self) -> Deliverer {
        self.deliver_with(DelivererConfig::default())
    }

    /// For tests over days.
    pub fn deliver_calmly(&self) -> Deliverer {
        self.deliver_with(DelivererConfig { poll_interval_ms: 60_000, ..DelivererConfig::default() })
    }

    pub fn deliver_with(&self, config: DelivererConfig) -> Deliverer {
        Deliverer::start(self.relay(), config)
    }

    /// A charge that was paid, which is told to a host.
    pub async fn event(&self, integrator_id: IntegratorId, host: &str) -> Charge {
        if let Some(started) = self.started {
            self.services.clock.set(NOON.plus(started.elapsed()));
        }
        let url = format!("https://{host}.example.com/pix?token=1");
        let command = CreateCharge {
            postback_url: Some(PostbackUrl::parse(&url).unwrap()),
            postback_scope: PostbackScope::All,
            ..charge_command(integrator_id)
        };
        let charge = self.services.charges.create(command).await.unwrap().into_inner();
        self.paid_again(&charge).await
    }

    /// One event more about a charge.
    pub async fn paid_again(&self, charge: &Charge) -> Charge {
        self.services.pay(charge, self.services.payment(10_000)).await
    }

    pub async fn events(&self, integrator_id: IntegratorId, host: &str, count: usize) {
        for _ in 0..count {
            self.event(integrator_id, host).await;
        }
    }

    /// How the deliveries of an integrator stand, in the order of their events.
    pub async fn standings(&self, integrator_id: IntegratorId) -> Vec<DeliveryState> {
        let query = EventQuery { limit: u32::MAX, ..EventQuery::default() };
        let events = self.services.stores.postbacks.events.events(integrator_id, query).await.unwrap();
        events.into_iter().filter_map(|listed| listed.delivery).collect()
    }

    pub async fn delivered(&self, integrator_id: IntegratorId) -> usize {
        let standings = self.standings(integrator_id).await;
        standings.iter().filter(|state| state.standing == Standing::Delivered).count()
    }

    /// How many wait.
    pub async fn waiting(&self) -> u64 {
        self.services.stores.postbacks.deliveries.backlog().await.unwrap().waiting
    }

    /// Waits until nothing waits any more, for at most so long by the runtime's clock.
    pub async fn settled_within(&self, limit: Duration) {
        let started = Instant::now();
        while self.waiting().await > 0 {
            assert!(started.elapsed() < limit, "{} still wait", self.waiting().await);
            tokio::time::sleep(limit / 100).await;
        }
    }
}
