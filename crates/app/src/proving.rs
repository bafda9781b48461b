//! The walk that holds what has ended against the provider once more: a step a minute, one node at a time, round and round over
//! all books, once for each age that a record is asked about at.
//!
//! | What | Where it stands |
//! |---|---|
//! | whose turn it is, until when that is a node's, and what was left undone | one fact |
//! | up to which entry each age of one book is walked | one fact an integrator |
//!
//! So a node that ends in the middle leaves nothing but a lease that runs out, and asking twice is no harm. A provider that can't be
//! reached ends the step, however long that lasts. A record that it gives no usable answer about holds up its own book for [`TRIES`]
//! steps, and then comes again at its next age. Nothing is asked about from before the database was taken to another provider.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pix_domain::error::{ServiceError, StoreError};
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::ports::Ports;
use pix_domain::proofs::{Proved, Prover};
use pix_domain::provider::{ProviderError, SettlementProvider};
use pix_domain::time::Timestamp;
use pix_domain::wallet::statement::StatementService;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::books;
use crate::clocks;
use crate::config::ProofConfig;
use crate::gateway;
use crate::store::Store;

/// The name of the fact that says how the walk stands.
const FACT: &str = "proof_walk";
/// How long a step is one node's, when that node says nothing any more. Longer than one takes.
const LEASE: Duration = Duration::from_mins(5);
/// From one step to the next: a little less than the minute at which all nodes look.
const PACE: Duration = Duration::from_secs(55);
/// After how long a step asks nothing more.
const STEP_TIME: Duration = Duration::from_secs(30);
/// How many books a step looks at, at the most.
const BOOKS_A_STEP: usize = 500;
/// What part of a step's questions one book may have, as long as others wait.
const SHARES: u64 = 4;
/// How many steps in a row a record without a usable answer stops its book.
const TRIES: u32 = 3;
/// After how many such answers in a row a step ends: it is not the records, then.
const SILENT_MAX: u32 = 3;
/// How far back the first walk over a book begins.
const LOOK_BACK: Duration = Duration::from_hours(24);
/// From this age on a provider may have forgotten what it did.
const MAY_FORGET: Duration = Duration::from_hours(30 * 24);
/// How often the provider's balance is asked for.
const BALANCE_EVERY: Duration = Duration::from_mins(10);

/// What is counted: the names of what a question proves.
const OUTCOMES: [&str; 4] = ["agrees", "learned", "differs", "unanswered"];

/// The provider's balance beside that of the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// When it was asked for.
    pub at: Timestamp,
    /// What is in our account there, in centavos.
    pub cents: i64,
    /// How much more that is than the books say, in centavos; less than nothing when it is less.
    pub difference_cents: i64,
}

/// How the walk stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Until when it is a node's.
    until: Timestamp,
    /// When the last step ended.
    pub at: Timestamp,
    /// The book that was looked at last in this round.
    after: Option<IntegratorId>,
    /// When the oldest record was due that this round has left.
    due_since: Option<Timestamp>,
    /// The same of the round before.
    due_before: Option<Timestamp>,
    /// When the provider was asked for its balance.
    asked_at: Timestamp,
    /// The newest balance; `None` when the provider tells none.
    pub balance: Option<Balance>,
}

impl Standing {
    const NONE: Self = Self {
        until: Timestamp::from_micros(0),
        at: Timestamp::from_micros(0),
        after: None,
        due_since: None,
        due_before: None,
        asked_at: Timestamp::from_micros(0),
        balance: None,
    };

    /// As a step leaves it that ended then, with nothing left.
    #[cfg(test)]
    pub fn at_rest(at: Timestamp) -> Self {
        Self { at, ..Self::NONE }
    }

    /// As the last step left it; `None` when there was none.
    pub async fn last(store: &Store) -> Result<Option<Self>, StoreError> {
        let kept = store.facts.fact(FACT).await?;
        Ok(kept.and_then(|text| Self::read(&serde_json::from_str(&text).ok()?)))
    }

    /// For how long a record has been due that is not asked about, or, when that is longer than it should be, nothing was.
    pub fn lag(&self, now: Timestamp) -> Duration {
        let since_step = Some(now.since(self.at)).filter(|span| *span > LEASE + PACE);
        let due = [self.due_since, self.due_before].into_iter().flatten().map(|due| now.since(due));
        due.chain(since_step).max().unwrap_or_default()
    }

    fn read(value: &Value) -> Option<Self> {
        let time = |name: &str| Some(Timestamp::from_micros(value.get(name)?.as_i64()?));
        let balance = value.get("balance").and_then(|balance| {
            Some(Balance {
                at: Timestamp::from_micros(balance.get("at_us")?.as_i64()?),
                cents: balance.get("cents")?.as_i64()?,
                difference_cents: balance.get("difference_cents")?.as_i64()?,
            })
        });
        Some(Self {
            until: time("until_us")?,
            at: time("at_us")?,
            after: match value.get("after")?.as_str() {
                Some(owner) => Some(IntegratorId(owner.parse().ok()?)),
                None => None,
            },
            due_since: time("due_since_us"),
            due_before: time("due_before_us"),
            asked_at: time("balance_asked_at_us").unwrap_or(Timestamp::from_micros(0)),
            balance,
        })
    }

    fn text(&self) -> String {
        let balance = self.balance.map(|Balance { at, cents, difference_cents }| {
            json!({"at_us": at.micros(), "cents": cents, "difference_cents": difference_cents})
        });
        json!({
            "until_us": self.until.micros(),
            "at_us": self.at.micros(),
            "after": self.after.map(|owner| owner.0.to_string()),
            "due_since_us": self.due_since.map(Timestamp::micros),
            "due_before_us": self.due_before.map(Timestamp::micros),
            "balance_asked_at_us": self.asked_at.micros(),
            "balance": balance,
        })
        .to_string()
    }
}

/// What was asked, and what it proved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// How many records were asked about.
    pub total: u64,
    /// About how many the provider says what the books say.
    pub agree: u64,
    /// About how many it said something new, which is in the books now.
    pub learned: u64,
    /// Those about which it contradicts the books, and how.
    pub differing: Vec<(ResourceRef, &'static str)>,
    /// Those about which it gave no answer.
    pub unanswered: Vec<ResourceRef>,
}

impl Asked {
    /// Counts, and tells of, what asking about one has proved.
    fn note(&mut self, resource: ResourceRef, proved: &Proved) {
        let ResourceRef { integrator_id, kind, id } = resource;
        let kind = kind.as_str();
        if *proved != Proved::Open {
            self.total = self.total.saturating_add(1);
            metrics::counter!("pix_proofs_total", "outcome" => proved.as_str()).increment(1);
        }
        match proved {
            Proved::Agrees => self.agree = self.agree.saturating_add(1),
            Proved::Learned => {
                self.learned = self.learned.saturating_add(1);
                tracing::warn!(integrator = %integrator_id, kind, %id, "asked again after its end, the provider told something new, which is booked now");
            }
            Proved::Differs(code) => {
                self.differing.push((resource, code));
                tracing::error!(integrator = %integrator_id, kind, %id, code, "asked again after its end, the provider contradicts the books: see `pix-gateway findings`");
            }
            Proved::NotAsked(_) | Proved::NotYet => self.unanswered.push(resource),
            Proved::Open => {}
        }
    }
}

/// How much of a step is left.
struct Left {
    questions: u64,
    until: Instant,
    /// How many records in a row had no usable answer.
    silent: u32,
    /// Books that a record without a usable answer holds up until the next step, and since when that was due.
    held_up: BTreeMap<IntegratorId, Timestamp>,
    /// Since when the money is at this provider.
    since: Timestamp,
}

/// What asking about one record means to the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Went {
    /// It goes on.
    On,
    /// It comes back to this record later; the other books go on.
    NotNow,
    /// The provider can't be asked.
    Away,
}

/// What became of one look at a book.
struct Visit {
    /// When the oldest record was due that is left.
    due_since: Option<Timestamp>,
    /// Whether the step is over: the provider can't be asked.
    ends: bool,
}

/// Who walks.
pub struct Proving {
    store: Store,
    prover: Prover,
    statement: StatementService,
    provider: Arc<dyn SettlementProvider>,
    config: ProofConfig,
    /// Which records had no usable answer, and how many times in a row.
    silent: Mutex<BTreeMap<ResourceRef, u32>>,
}

impl Proving {
    /// Over these ports.
    pub fn new(store: &Store, ports: &Ports, config: ProofConfig) -> Self {
        metrics::describe_counter!(
            "pix_proofs_total",
            "Records that the provider was asked about again after their end."
        );
        // A counter that is there from the start is one whose first step is seen.
        for outcome in OUTCOMES {
            metrics::counter!("pix_proofs_total", "outcome" => outcome).increment(0);
        }
        Self {
            store: store.clone(),
            prover: Prover::new(ports.clone()),
            statement: StatementService::new(ports.clone()),
            provider: ports.provider.clone(),
            config,
            silent: Mutex::default(),
        }
    }

    /// The provider that is asked.
    pub fn provider(&self) -> &dyn SettlementProvider {
        self.provider.as_ref()
    }

    /// One step, unless it is another node's, or too early. Errors are those of the store; what was asked before stays so.
    pub async fn step(&self, now: Timestamp) -> Result<Asked, StoreError> {
        let mut asked = Asked::default();
        let kept = self.store.facts.fact(FACT).await?;
        let read = kept.as_deref().and_then(|text| Standing::read(&serde_json::from_str(text).ok()?));
        let mut standing = read.unwrap_or(Standing::NONE);
        if self.config.per_minute == 0 {
            // Nobody has done it for a day: nobody is late.
            if read.is_some_and(|standing| now.since(standing.at) > LOOK_BACK) {
                self.store.facts.keep_fact(FACT, String::new()).await?;
            }
            return Ok(asked);
        }
        if clocks::is_held(standing.until, now, LEASE) {
            return Ok(asked);
        }
        let mine = Standing { until: now.plus(LEASE), ..standing }.text();
        if !self.store.facts.swap_fact(FACT, kept, mine.clone()).await? {
            return Ok(asked);
        }
        let since = gateway::provider_since(&self.store).await?;
        let until = Instant::now() + STEP_TIME;
        let mut left =
            Left { questions: self.config.per_minute, until, silent: 0, held_up: BTreeMap::new(), since };
        // First: the books were sealed a moment ago, and what is booked below is not.
        if now.since(standing.asked_at) >= BALANCE_EVERY {
            standing.asked_at = now;
            standing.balance = self.balance(now, standing.balance).await?;
        }
        self.rounds(&mut standing, now, &mut left, &mut asked).await?;
        (standing.until, standing.at) = (now.plus(PACE), now);
        self.store.facts.swap_fact(FACT, Some(mine), standing.text()).await?;
        Ok(asked)
    }

    /// Goes round until nothing is left to ask about, or the step is over.
    async fn rounds(
        &self,
        standing: &mut Standing,
        now: Timestamp,
        left: &mut Left,
        asked: &mut Asked,
    ) -> Result<(), StoreError> {
        let mut owners: Vec<IntegratorId> =
            self.store.integrators.list().await?.iter().map(|one| one.id).collect();
        owners.sort_unstable();
        let mut books = BOOKS_A_STEP;
        loop {
            let before = asked.total;
            let from = standing.after;
            for owner in owners.iter().filter(|owner| from.is_none_or(|from| **owner > from)) {
                if books == 0 || left.questions == 0 || Instant::now() >= left.until {
                    return Ok(());
                }
                books = books.saturating_sub(1);
                if let Some(due) = left.held_up.get(owner) {
                    standing.due_since = Some(standing.due_since.map_or(*due, |sooner| sooner.min(*due)));
                    standing.after = Some(*owner);
                    continue;
                }
                let visit = match self.visit(*owner, now, left, asked).await {
                    Err(StoreError::Damaged(what)) => {
                        tracing::error!(integrator = %owner, what, "a book can't be read, and isn't held against the provider");
                        Visit { due_since: None, ends: false }
                    }
                    visit => visit?,
                };
                let sooner = [standing.due_since, visit.due_since].into_iter().flatten().min();
                standing.due_since = sooner;
                if visit.ends {
                    return Ok(());
                }
                // The next step goes on with the next one, so that nobody is kept waiting by one who has much.
                standing.after = Some(*owner);
            }
            (standing.after, standing.due_before, standing.due_since) = (None, standing.due_since, None);
            if asked.total == before && from.is_none() {
                return Ok(());
            }
        }
    }

    /// Asks about what is due in one book.
    async fn visit(
        &self,
        owner: IntegratorId,
        now: Timestamp,
        left: &mut Left,
        asked: &mut Asked,
    ) -> Result<Visit, StoreError> {
        let fact = format!("proof {}", owner.0);
        let mut places = read_places(&self.store.facts.fact(&fact).await?.unwrap_or_default());
        let before = places.clone();
        // An age that is asked for again begins anew.
        places.retain(|hours, _| self.config.after.iter().any(|age| age.as_secs() / 3_600 == *hours));
        let mut share = (self.config.per_minute / SHARES).max(1);
        let mut visit = Visit { due_since: None, ends: false };
        for age in &self.config.after {
            let hours = age.as_secs() / 3_600;
            let until = now.minus(*age);
            let mut place = match places.get(&hours) {
                Some(place) => *place,
                None => self.first_place(owner, until).await?,
            };
            'pages: loop {
                let page = self.prover.due(owner, place, until).await?;
                let Some(through) = page.through else { break };
                for due in page.due {
                    if due.at < left.since {
                        continue;
                    }
                    let over = left.questions == 0 || share == 0 || Instant::now() >= left.until;
                    let may_forget = now.since(due.at) >= MAY_FORGET;
                    let went = if over {
                        Went::NotNow
                    } else {
                        self.ask(due.resource, may_forget, left, asked).await?
                    };
                    if went != Went::On {
                        place = due.entry.saturating_sub(1);
                        visit.ends |= went == Went::Away;
                        let due_at = due.at.plus(*age);
                        if !over {
                            left.held_up.insert(owner, due_at);
                        }
                        visit.due_since = Some(visit.due_since.map_or(due_at, |sooner| sooner.min(due_at)));
                        break 'pages;
                    }
                    left.questions = left.questions.saturating_sub(1);
                    share = share.saturating_sub(1);
                }
                place = through;
            }
            places.insert(hours, place);
            if visit.ends || left.held_up.contains_key(&owner) {
                break;
            }
        }
        if places != before {
            self.store.facts.keep_fact(&fact, places_text(&places)).await?;
        }
        Ok(visit)
    }

    /// Where the first walk over a book begins: not with all that ever was.
    async fn first_place(&self, owner: IntegratorId, until: Timestamp) -> Result<u64, StoreError> {
        match self.statement.last_before(owner, until.minus(LOOK_BACK)).await {
            Ok(place) => Ok(place),
            Err(ServiceError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        }
    }

    /// Asks about one.
    async fn ask(
        &self,
        resource: ResourceRef,
        may_forget: bool,
        left: &mut Left,
        asked: &mut Asked,
    ) -> Result<Went, StoreError> {
        let Some(proved) = self.proved(resource, may_forget).await? else { return Ok(Went::On) };
        asked.note(resource, &proved);
        if proved == Proved::NotYet {
            // It holds up its book until money may leave again, however often it is met meanwhile.
            return Ok(Went::NotNow);
        }
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let Proved::NotAsked(error) = proved else {
            silent.remove(&resource);
            left.silent = 0;
            return Ok(Went::On);
        };
        if matches!(error, ProviderError::Unavailable(_)) {
            return Ok(Went::Away);
        }
        left.silent = left.silent.saturating_add(1);
        let times = silent.remove(&resource).unwrap_or(0).saturating_add(1);
        if times < TRIES {
            silent.insert(resource, times);
        }
        Ok(match (left.silent >= SILENT_MAX, times >= TRIES) {
            (true, false) => Went::Away,
            (false, false) => Went::NotNow,
            (_, true) => Went::On,
        })
    }

    /// What asking about one proves; `None` for what can't be asked about, which is told in the log.
    async fn proved(&self, resource: ResourceRef, may_forget: bool) -> Result<Option<Proved>, StoreError> {
        match self.prover.prove(resource, may_forget).await {
            Ok(proved) => Ok(Some(proved)),
            Err(ServiceError::Store(error @ (StoreError::Unavailable(_) | StoreError::Unknown(_)))) => {
                Err(error)
            }
            Err(ServiceError::ProviderUnavailable | ServiceError::ProviderTimeout) => {
                let why = "the charge of a refund can't be asked about".to_owned();
                Ok(Some(Proved::NotAsked(ProviderError::Indeterminate(why))))
            }
            Err(error) => {
                let (integrator, id) = (resource.integrator_id, resource.id);
                tracing::error!(%integrator, kind = resource.kind.as_str(), %id, %error, "a record that has ended can't be held against the provider");
                Ok(None)
            }
        }
    }

    /// The provider's balance beside that of the books. One that isn't told leaves the one before, which grows old.
    async fn balance(&self, now: Timestamp, before: Option<Balance>) -> Result<Option<Balance>, StoreError> {
        let cents = match self.provider.balance().await {
            Ok(Some(cents)) => cents,
            Ok(None) => return Ok(None),
            Err(error) => {
                tracing::warn!(%error, "the provider's balance can't be asked for");
                return Ok(before);
            }
        };
        let expected = books::cash_expected(&self.store).await?;
        let difference = i128::from(cents).saturating_sub(expected);
        let difference_cents =
            i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX });
        Ok(Some(Balance { at: now, cents, difference_cents }))
    }

    /// Asks about everything that has ended since `since`, now, whoever else is at it. Where the walk stands is not changed. Errors
    /// as [`Self::step`].
    pub async fn all_since(&self, since: Timestamp, now: Timestamp) -> Result<Asked, StoreError> {
        let mut asked = Asked::default();
        let since = since.max(gateway::provider_since(&self.store).await?);
        for integrator in self.store.integrators.list().await? {
            let owner = integrator.id;
            let mut place = self.first_place(owner, since.plus(LOOK_BACK)).await?;
            let mut seen = std::collections::BTreeSet::new();
            loop {
                let page = self.prover.due(owner, place, now).await?;
                let Some(through) = page.through else { break };
                for due in page.due.into_iter().filter(|due| due.at >= since) {
                    if seen.insert(due.resource)
                        && let Some(proved) =
                            self.proved(due.resource, now.since(due.at) >= MAY_FORGET).await?
                    {
                        asked.note(due.resource, &proved);
                    }
                }
                place = through;
            }
        }
        Ok(asked)
    }
}

/// `24:812 168:17`: hours, and the entry up to which the book is walked at that age.
fn read_places(text: &str) -> BTreeMap<u64, u64> {
    let pairs = text.split(' ').filter_map(|word| word.split_once(':'));
    pairs.filter_map(|(hours, place)| Some((hours.parse().ok()?, place.parse().ok()?))).collect()
}

fn places_text(places: &BTreeMap<u64, u64>) -> String {
    places.iter().map(|(hours, place)| format!("{hours}:{place}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use pix_domain::charges::{NewCharge, state};
    use pix_domain::credentials::{Integrator, IntegratorStatus};
    use pix_domain::end_to_end::EndToEndId;
    use pix_domain::fees::{FeeRule, Percent};
    use pix_domain::ids::ChargeId;
    use pix_domain::money::{Amount, Cents};
    use pix_domain::provider::{
        ChargeReport, MockSettlementProvider, Party, Payment, ProviderBody, ProviderError, ProviderId,
        ReceiptKey, Reference, Ticket,
    };
    use pix_domain::restore::NeverRestored;
    use pix_domain::text::ExternalId;
    use pix_domain::transition::{Step, Transition};
    use pix_domain::unrecorded::Unrecorded;
    use pix_persistence::sqlite::{SqliteOptions, SqliteStore};
    use uuid::Uuid;

    use super::*;
    use crate::system::{SystemClock, SystemIds};

    const NOW: Timestamp = Timestamp::from_micros(1_768_478_400_000_000);
    const DAY: Duration = Duration::from_hours(24);

    /// A store, and what its provider is asked and says.
    struct World {
        store: Store,
        _folder: tempfile::TempDir,
        owners: [IntegratorId; 2],
        asked: Arc<Mutex<Vec<Uuid>>>,
        silent: Arc<Mutex<Vec<Uuid>>>,
        away: Arc<AtomicBool>,
        balance: Arc<Mutex<Result<Option<i64>, ProviderError>>>,
    }

    fn charge_id(owner: IntegratorId, number: u128) -> Uuid {
        Uuid::from_u128((owner.0.as_u128() << 32) + number)
    }

    fn payment(id: Uuid, at: Timestamp) -> Payment {
        let number = id.as_u128() % 1_000 + (id.as_u128() >> 32) * 1_000;
        let key = EndToEndId::parse(&format!("E12345678202601011230{number:011}")).unwrap();
        let amount = Amount::from_cents(1_000).unwrap();
        Payment { key: ReceiptKey::EndToEnd(key), amount, paid_at: at, payer: Party::default() }
    }

    fn provider_id(id: Uuid) -> ProviderId {
        ProviderId::parse(&id.simple().to_string()).unwrap()
    }

    impl World {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let options = SqliteOptions { migrate: true, ..SqliteOptions::default() };
            let store = Store::of(SqliteStore::open(folder.path().join("pix.db"), options).unwrap());
            let owners = [1, 2].map(|number| IntegratorId(Uuid::from_u128(number)));
            for id in owners {
                let (name, status) = ("Loja".into(), IntegratorStatus::Active);
                let one = Integrator {
                    id,
                    name,
                    status,
                    postback_scope: None,
                    split_postback: None,
                    created_at: NOW,
                };
                store.integrators.create(one).await.unwrap();
            }
            let balance = Arc::new(Mutex::new(Ok(None)));
            Self {
                store,
                _folder: folder,
                owners,
                asked: Arc::default(),
                silent: Arc::default(),
                away: Arc::default(),
                balance,
            }
        }

        /// A charge of 10.00 that was paid then.
        async fn paid(&self, owner: IntegratorId, number: u128, at: Timestamp) -> Uuid {
            let id = charge_id(owner, number);
            let new = NewCharge {
                id: ChargeId(id),
                integrator_id: owner,
                external_id: ExternalId::parse(&format!("c-{number}")).unwrap(),
                external_id_given: true,
                amount: Amount::from_cents(1_000).unwrap(),
                payer: Party::default(),
                payer_email: None,
                payer_question: None,
                metadata: pix_domain::metadata::Metadata::default(),
                postback_url: None,
                postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
                expires_in: Duration::from_hours(1),
                fee_version: 0,
                split: Vec::new(),
            };
            let body = ProviderBody("{}".into());
            let ticket = Ticket { provider_id: provider_id(id), qrcode: "00".into(), body };
            let opened = state::open(new, ticket, at);
            let charge = opened.charge().unwrap().clone();
            self.apply(opened).await;
            let free = FeeRule::new(Cents::ZERO, Percent::zero(), Cents::ZERO, None).unwrap();
            let Step::Next(paid) = charge.pay(payment(id, at), &free, at) else { panic!("it can be paid") };
            self.apply(paid).await;
            id
        }

        async fn apply(&self, transition: Transition) {
            self.store.records.transitions.apply(transition).await.unwrap();
        }

        fn proving(&self, per_minute: u64) -> Proving {
            let mut provider = MockSettlementProvider::new();
            let (asked, silent, away) = (self.asked.clone(), self.silent.clone(), self.away.clone());
            provider.expect_consult_charge().returning(move |inquiry| {
                let Reference(id) = inquiry.reference;
                asked.lock().unwrap().push(id);
                if away.load(Ordering::Relaxed) {
                    return Err(ProviderError::Unavailable("told to be away".into()));
                }
                if silent.lock().unwrap().contains(&id) {
                    return Err(ProviderError::Indeterminate("told to be silent".into()));
                }
                Ok(Some(ChargeReport {
                    provider_id: provider_id(id),
                    payments: vec![payment(id, NOW)],
                    refunded: Cents::ZERO,
                    canceled: false,
                    body: ProviderBody("{}".into()),
                }))
            });
            let balance = self.balance.clone();
            provider.expect_balance().returning(move || balance.lock().unwrap().clone());
            let ports = Ports {
                stores: self.store.records.clone(),
                provider: Arc::new(provider),
                clock: Arc::new(SystemClock),
                ids: Arc::new(SystemIds),
                submit_grace: Duration::from_secs(1),
                handle_seed: Uuid::nil(),
                outflow: Arc::new(NeverRestored),
                duplicate_window: Duration::ZERO,
                unrecorded: Unrecorded::default(),
            };
            let after = vec![DAY, DAY * 7];
            Proving::new(&self.store, &ports, ProofConfig { per_minute, after })
        }

        /// What was asked about since this was called last.
        fn asked(&self) -> Vec<Uuid> {
            std::mem::take(&mut *self.asked.lock().unwrap())
        }

        async fn lag(&self, now: Timestamp) -> Duration {
            Standing::last(&self.store).await.unwrap().unwrap().lag(now)
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_record_is_asked_about_once_at_each_age_whoever_walks() {
        let world = World::new().await;
        let first = world.paid(world.owners[0], 1, NOW.minus(DAY + Duration::from_hours(1))).await;
        let second = world.paid(world.owners[0], 2, NOW.minus(Duration::from_hours(23))).await;
        let other = world.paid(world.owners[1], 3, NOW.minus(DAY + Duration::from_secs(1))).await;
        let asked = world.proving(9).step(NOW).await.unwrap();
        assert_eq!((asked.total, asked.agree), (2, 2));
        assert_eq!(world.asked(), [first, other], "and not the one that is not old enough");
        // Another node, or this one after it was started again: too early, and then with nothing to ask about.
        assert_eq!(world.proving(9).step(NOW.plus(Duration::from_secs(54))).await.unwrap(), Asked::default());
        let mut now = NOW.plus(PACE);
        assert_eq!(world.proving(9).step(now).await.unwrap().total, 0);
        for (hours, expected) in [(1, vec![second]), (24 * 6, vec![first, second, other]), (24 * 90, vec![])]
        {
            now = now.plus(Duration::from_hours(hours));
            world.proving(9).step(now).await.unwrap();
            let mut asked = world.asked();
            asked.sort_unstable();
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!(asked, expected, "{hours} hours later");
        }
        assert_eq!(world.lag(now).await, Duration::ZERO);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_step_asks_so_much_and_no_book_keeps_the_others_waiting() {
        let world = World::new().await;
        let long_ago = NOW.minus(DAY + Duration::from_hours(2));
        for number in 0..10 {
            world.paid(world.owners[0], number, long_ago).await;
        }
        let other = world.paid(world.owners[1], 1, long_ago).await;
        let proving = world.proving(4);
        assert_eq!(proving.step(NOW).await.unwrap().total, 4);
        let asked = world.asked();
        assert!(asked.contains(&other), "one question in four is the most that one has while others wait");
        assert_eq!(
            world.lag(NOW).await,
            Duration::from_hours(2),
            "since when the oldest that is left was due"
        );
        let (mut now, mut all) = (NOW, asked);
        for _ in 0..3 {
            now = now.plus(PACE);
            proving.step(now).await.unwrap();
            all.extend(world.asked());
        }
        let once: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!((all.len(), once.len()), (11, 11));
        assert_eq!(world.lag(now).await, Duration::ZERO);
        assert!(world.lag(now.plus(DAY)).await >= DAY, "nobody walks any more");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_provider_that_is_silent_ends_the_step_and_one_record_does_not_end_the_walk() {
        let world = World::new().await;
        let long_ago = NOW.minus(DAY + Duration::from_hours(2));
        let first = world.paid(world.owners[0], 1, long_ago).await;
        let second = world.paid(world.owners[1], 2, long_ago).await;
        world.silent.lock().unwrap().push(first);
        let proving = world.proving(9);
        let mut now = NOW;
        for step in 1..=TRIES {
            let asked = proving.step(now).await.unwrap();
            assert_eq!((asked.agree, asked.unanswered.len()), (u64::from(step == 1), 1), "step {step}");
            assert_eq!(world.asked(), if step == 1 { vec![first, second] } else { vec![first] });
            let lag = if step < TRIES { now.since(long_ago.plus(DAY)) } else { Duration::ZERO };
            assert_eq!(world.lag(now).await, lag, "step {step}");
            now = now.plus(PACE);
        }
        // At its next age it comes again.
        world.silent.lock().unwrap().clear();
        assert_eq!(proving.step(now.plus(DAY * 6)).await.unwrap().agree, 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_provider_that_is_away_ends_each_step_and_nothing_is_given_up() {
        let world = World::new().await;
        let long_ago = NOW.minus(DAY + Duration::from_hours(2));
        let all =
            [world.paid(world.owners[0], 1, long_ago).await, world.paid(world.owners[1], 2, long_ago).await];
        world.away.store(true, Ordering::Relaxed);
        let (proving, mut now) = (world.proving(9), NOW);
        for _ in 0..=TRIES {
            assert_eq!(proving.step(now).await.unwrap().unanswered.len(), 1);
            assert_eq!(world.asked().len(), 1);
            now = now.plus(PACE);
        }
        world.away.store(false, Ordering::Relaxed);
        assert_eq!((proving.step(now).await.unwrap().agree, world.asked()), (2, all.to_vec()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_done_by_another_provider_is_not_asked_of_this_one() {
        let world = World::new().await;
        world.paid(world.owners[0], 1, NOW.minus(DAY + Duration::from_hours(2))).await;
        let ours = world.paid(world.owners[0], 2, NOW.minus(DAY + Duration::from_mins(1))).await;
        let moved = NOW.minus(DAY + Duration::from_hours(1)).micros().to_string();
        world.store.facts.keep_fact("provider_since", moved).await.unwrap();
        let proving = world.proving(9);
        proving.step(NOW).await.unwrap();
        assert_eq!(world.asked(), [ours]);
        assert_eq!(proving.all_since(NOW.minus(DAY * 3), NOW).await.unwrap().total, 1);
        assert_eq!(world.asked(), [ours]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_step_is_one_nodes_and_none_is_made_when_it_is_switched_off() {
        let world = World::new().await;
        world.paid(world.owners[0], 1, NOW.minus(DAY * 2)).await;
        assert_eq!(world.proving(0).step(NOW).await.unwrap(), Asked::default());
        assert_eq!(Standing::last(&world.store).await.unwrap(), None);
        let taken = Standing { until: NOW.plus(Duration::from_secs(1)), ..Standing::NONE };
        world.store.facts.keep_fact(FACT, taken.text()).await.unwrap();
        assert_eq!(world.proving(9).step(NOW).await.unwrap(), Asked::default());
        assert_eq!(world.proving(9).step(NOW.plus(Duration::from_secs(1))).await.unwrap().total, 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_first_walk_begins_a_day_back_and_all_since_goes_where_it_is_told() {
        let world = World::new().await;
        world.paid(world.owners[0], 1, NOW.minus(DAY * 5)).await;
        let late = world.paid(world.owners[0], 2, NOW.minus(DAY + Duration::from_hours(1))).await;
        let proving = world.proving(9);
        proving.step(NOW).await.unwrap();
        assert_eq!(world.asked(), [late], "not everything that ever was");
        let found = proving.all_since(NOW.minus(DAY * 6), NOW).await.unwrap();
        assert_eq!((found.total, found.agree, world.asked().len()), (2, 2, 2));
        assert_eq!(proving.all_since(NOW.minus(DAY * 2), NOW).await.unwrap().total, 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_balance_of_the_provider_is_kept_beside_that_of_the_sealed_books() {
        let world = World::new().await;
        world.paid(world.owners[0], 1, NOW.minus(Duration::from_hours(1))).await;
        let sealer =
            pix_domain::seals::service::Sealer::new(world.store.seals.clone(), Arc::new(SystemClock));
        sealer.turn(9).await.unwrap();
        let (proving, mut now) = (world.proving(9), NOW);
        for (told, expected) in [
            (Ok(Some(1_000)), Some((1_000, 0))),
            // That is not asked for again so soon.
            (Ok(Some(7)), Some((1_000, 0))),
        ] {
            *world.balance.lock().unwrap() = told;
            proving.step(now).await.unwrap();
            let balance = Standing::last(&world.store).await.unwrap().unwrap().balance;
            assert_eq!(balance.map(|balance| (balance.cents, balance.difference_cents)), expected);
            now = now.plus(PACE);
        }
        now = now.plus(BALANCE_EVERY);
        for (told, expected) in [
            (Ok(Some(-5)), Some((-5, -1_005))),
            (Err(ProviderError::Unavailable("no".into())), Some((-5, -1_005))),
            (Ok(None), None),
        ] {
            *world.balance.lock().unwrap() = told;
            proving.step(now).await.unwrap();
            let balance = Standing::last(&world.store).await.unwrap().unwrap().balance;
            assert_eq!(balance.map(|balance| (balance.cents, balance.difference_cents)), expected);
            now = now.plus(BALANCE_EVERY);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lease_of_a_clock_gone_wrong_and_a_proof_that_is_off_hold_nobody_up() {
        let world = World::new().await;
        let paid = world.paid(world.owners[0], 1, NOW.minus(DAY + Duration::from_hours(1))).await;
        let ahead = NOW.plus(DAY * 365);
        let wrong = Standing { until: ahead, at: ahead, ..Standing::NONE };
        world.store.facts.keep_fact(FACT, wrong.text()).await.unwrap();
        world.proving(9).step(NOW).await.unwrap();
        assert_eq!(world.asked(), [paid], "no lease is as long as that");
        // Switched off for a day, nobody is late.
        world.proving(0).step(NOW.plus(DAY / 2)).await.unwrap();
        assert!(Standing::last(&world.store).await.unwrap().is_some());
        world.proving(0).step(NOW.plus(DAY * 2)).await.unwrap();
        assert_eq!(Standing::last(&world.store).await.unwrap(), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_age_that_is_not_asked_at_any_more_is_forgotten() {
        let world = World::new().await;
        world.paid(world.owners[0], 1, NOW.minus(DAY + Duration::from_hours(1))).await;
        let fact = format!("proof {}", world.owners[0].0);
        world.store.facts.keep_fact(&fact, "700:1".to_owned()).await.unwrap();
        world.proving(9).step(NOW).await.unwrap();
        let places = read_places(&world.store.facts.fact(&fact).await.unwrap().unwrap());
        assert_eq!(places.into_keys().collect::<Vec<_>>(), [24, 168]);
    }

    #[test]
    fn every_outcome_is_counted() {
        let error = ProviderError::Unavailable(String::new());
        let all = [Proved::Agrees, Proved::Learned, Proved::Differs("x"), Proved::NotAsked(error)];
        assert_eq!(all.map(|proved| proved.as_str()), OUTCOMES);
    }

    #[test]
    fn how_the_walk_stands_is_kept_as_it_is_and_what_cannot_be_read_is_begun_again() {
        let balance = Balance { at: NOW, cents: -5, difference_cents: 7 };
        let owner = Some(IntegratorId(Uuid::from_u128(7)));
        let some = Some(NOW);
        for standing in [
            Standing::NONE,
            Standing {
                until: NOW,
                at: NOW,
                after: owner,
                due_since: some,
                due_before: some,
                asked_at: NOW,
                balance: Some(balance),
            },
        ] {
            assert_eq!(Standing::read(&serde_json::from_str(&standing.text()).unwrap()), Some(standing));
        }
        for text in ["{}", "1", r#"{"until_us":1,"at_us":1,"after":"x"}"#] {
            assert_eq!(Standing::read(&serde_json::from_str(text).unwrap()), None, "{text}");
        }
        let places = BTreeMap::from([(24, 812), (168, 0)]);
        assert_eq!(read_places(&places_text(&places)), places);
        assert_eq!(read_places("24:812 x 7: :7 168:0"), places);
    }
}
