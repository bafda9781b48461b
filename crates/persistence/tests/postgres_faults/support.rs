//! Places, moves, a load that keeps count, and the proof that nothing was lost.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pix_conformance::builders::{name, next, percent, report, ticket};
use pix_conformance::{Services, StoreSet};
use pix_domain::audit::{self, BookStore};
use pix_domain::charges::{Charge, Failure, state as charge_state};
use pix_domain::credentials::store::IntegratorStore;
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::ids::{IntegratorId, SplitId};
use pix_domain::money::Cents;
use pix_domain::provider::Progress;
use pix_domain::splits::{NewShare, Part, Share, Side, Split, complete};
use pix_domain::transition::{Record, Transition, TransitionStore};
use pix_domain::withdrawals::Withdrawal;
use pix_persistence::postgres::{PgOptions, PgStore};
use pix_pg_server::{PgBouncer, PgServer, PoolMode};
use tokio::time::Instant;

/// Nothing here takes as long; whatever does has failed.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// How often something is looked at again.
pub const LOOK: Duration = Duration::from_millis(10);

/// How long a task of a load rests after a failure.
const REST: Duration = Duration::from_millis(50);

/// The server that most tests share: those that leave it as it is.
pub fn server() -> &'static PgServer {
    pix_pg_server::shared().unwrap()
}

/// The port of that server; or where `PIX_TEST_POOL_MODE` is set, of a pooler before it.
pub fn way_to_server() -> u16 {
    static POOLER: OnceLock<Option<PgBouncer>> = OnceLock::new();
    let pooler = POOLER.get_or_init(|| {
        let mode = PoolMode::named().unwrap()?;
        let role = "ALTER ROLE pix SET statement_timeout = '20s'; ALTER ROLE pix SET lock_timeout = '20s'";
        Some(PgBouncer::start_for_many(server(), mode, role).unwrap())
    });
    pooler.as_ref().map_or_else(|| server().port(), PgBouncer::port)
}

/// Limits short enough for a test, and long enough for a busy machine.
pub fn options() -> PgOptions {
    PgOptions {
        migrate: true,
        money_connections: 4,
        read_connections: 2,
        worker_connections: 1,
        connect_timeout: Duration::from_secs(5),
        acquire_timeout: Duration::from_secs(20),
        statement_timeout: Duration::from_secs(20),
        resolve_timeout: Duration::from_secs(20),
        ..PgOptions::default()
    }
}

/// An empty database of `server` with the schema.
pub async fn database(server: &PgServer) -> String {
    let database = pix_pg_server::fresh_name();
    server.create_database(&database).unwrap();
    PgStore::migrate(&server.url(&database), PATIENCE).await.unwrap();
    database
}

/// A store over `url`.
pub async fn open(url: &str, options: PgOptions) -> Arc<PgStore> {
    Arc::new(PgStore::open(url, options).await.unwrap())
}

/// The use cases over `store`.
pub fn services(store: &Arc<PgStore>, seed: u64) -> Services {
    Services::over(StoreSet::of(store.clone()), seed)
}

/// A session of its own, to lock rows and to look.
pub async fn session(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Looks until `is_so`.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < limit, "{what}: not within {} s", PATIENCE.as_secs());
        tokio::time::sleep(LOOK).await;
    }
}

/// The result of `work`, which ends in time.
pub async fn ends<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap()
}

/// Every book of the store is right.
pub async fn assert_books_are_clean(store: &PgStore) {
    for integrator in IntegratorStore::list(store).await.unwrap() {
        let book = store.book(integrator.id).await.unwrap();
        assert_eq!(audit::check(integrator.id, &book), Vec::new());
    }
}

pub fn failure() -> Failure {
    Failure { code: "AM04".into(), message: "saldo insuficiente".into() }
}

/// The transition that settles a withdrawal.
pub fn settling(services: &Services, withdrawal: &Withdrawal) -> Transition {
    let report = report(withdrawal.id.0, Progress::Completed);
    next(withdrawal.clone().complete(report, services.now()))
}

/// The transition that gives back what a withdrawal holds.
pub fn releasing(services: &Services, withdrawal: &Withdrawal) -> Transition {
    next(withdrawal.clone().fail(failure(), services.now()))
}

/// The transition that makes another charge with the name of `charge`.
pub fn namesake(services: &Services, charge: &Charge) -> Transition {
    let mut new = services.new_charge(charge.integrator_id);
    new.external_id = charge.external_id.clone();
    let ticket = ticket(new.id);
    charge_state::open(new, ticket, services.now())
}

/// The transition that makes a charge with this name.
pub fn named(services: &Services, owner: IntegratorId, text: &str) -> Transition {
    let mut new = services.new_charge(owner);
    new.external_id = name(text);
    let ticket = ticket(new.id);
    charge_state::open(new, ticket, services.now())
}

/// The transition that makes a charge of 100.00 whose payment gives 30 % and 20 % of it to up to two others.
pub fn sharing(services: &Services, owner: IntegratorId, recipients: &[IntegratorId]) -> Transition {
    let mut new = services.new_charge(owner);
    for (&recipient, part) in recipients.iter().zip(["30", "20"]) {
        let share = NewShare { recipient, part: Part::Percentage(percent(part)) };
        new.split.push(Share::new(SplitId(services.id()), share));
    }
    let ticket = ticket(new.id);
    charge_state::open(new, ticket, services.now())
}

/// A transition of such a charge with its parts, after the one `before` it whose parts left the splits as they are.
pub fn with_parts(transition: Transition, before: Option<&Transition>) -> Transition {
    let shares = transition.charge().unwrap().split.len();
    let side = |number: usize| {
        let split = before.map(|before| match &before.parts[number].writes[0].record {
            Record::Split(split) => (**split).clone(),
            other => panic!("a part writes a split, and not {other:?}"),
        });
        let available = split.as_ref().map_or(Cents::ZERO, Split::kept);
        Side { split, available, postback_url: None }
    };
    let sides: Vec<Side> = (0..shares).map(side).collect();
    let whole = complete(transition, &sides).unwrap();
    assert_eq!(whole.parts.len(), shares);
    whole
}

/// The transition that ends a refund of such a charge, with its parts, after the one that paid it.
pub fn giving_back(services: &Services, refunding: &Transition, paying: &Transition) -> Transition {
    let refund = refunding.refund().unwrap().clone();
    let report = report(refund.id.0, Progress::Completed);
    let ending = next(refund.complete(refunding.charge().unwrap().clone(), report, services.now()));
    with_parts(ending, Some(paying))
}

/// What a transition writes first: no other transition of a test writes the same.
pub fn mark(transition: &Transition) -> String {
    let write = transition.writes.first().unwrap();
    let resource = write.record.resource();
    format!("{}|{}|{}", resource.kind.as_str(), resource.id, write.record.version().0)
}

/// What happened in a database.
pub fn happened(server: &PgServer, database: &str) -> BTreeSet<String> {
    let rows = server.psql(database, "SELECT resource_kind, resource_id, sequence FROM events").unwrap();
    rows.lines().map(str::to_owned).collect()
}

/// What the callers were told, by mark.
#[derive(Debug, Default)]
pub struct Told {
    done: Vec<String>,
    refused: Vec<String>,
    unavailable: Vec<String>,
    unknown: Vec<String>,
}

/// A load of concurrent tasks over one or more stores.
#[derive(Debug, Default)]
pub struct Load {
    told: Mutex<Told>,
    done: AtomicUsize,
    ending: AtomicBool,
}

impl Load {
    /// How many transitions were acknowledged up to now.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    /// How many transitions were neither acknowledged nor refused for good up to now.
    pub fn undecided(&self) -> usize {
        let told = self.told.lock().unwrap();
        told.unknown.len() + told.unavailable.len()
    }

    /// Lets the tasks end after their present round.
    pub fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// Waits until `more` further transitions were acknowledged.
    pub async fn goes_on(&self, more: usize) {
        let goal = self.done() + more;
        until("the load goes on", async || self.done() >= goal).await;
    }

    /// Applies a transition and notes what was said. Whether it is known to be done.
    pub async fn apply(
        &self,
        store: &PgStore,
        transition: Transition,
        expected: Result<(), ApplyError>,
    ) -> bool {
        let mark = mark(&transition);
        let answer = ends(store.apply(transition)).await;
        let mut told = self.told.lock().unwrap();
        match &answer {
            Ok(()) => told.done.push(mark),
            Err(ApplyError::Store(StoreError::Unknown(_))) => told.unknown.push(mark),
            Err(ApplyError::Store(StoreError::Unavailable(_))) => told.unavailable.push(mark),
            Err(_) => told.refused.push(mark),
        }
        drop(told);
        if !matches!(answer, Err(ApplyError::Store(StoreError::Unknown(_) | StoreError::Unavailable(_)))) {
            assert_eq!(answer, expected);
        }
        if answer.is_ok() {
            self.done.fetch_add(1, Ordering::SeqCst);
        }
        answer.is_ok()
    }

    /// One task: charges are made, paid, some of them shared with another integrator, and their money is sent out; and some
    /// of what must be refused is tried.
    pub async fn work(self: Arc<Self>, store: Arc<PgStore>, seed: u64, owners: Vec<IntegratorId>) {
        let services = services(&store, seed);
        let mut round = 0_usize;
        while !self.ending.load(Ordering::SeqCst) {
            round += 1;
            if !self.round(&services, &store, &owners, round).await {
                tokio::time::sleep(REST).await;
            }
        }
    }

    async fn round(
        &self,
        services: &Services,
        store: &PgStore,
        owners: &[IntegratorId],
        round: usize,
    ) -> bool {
        let (owner, other) = (owners[round % owners.len()], owners[(round + 1) % owners.len()]);
        let opening = services.charge_intent(owner);
        let charge = opening.charge().unwrap().clone();
        if !self.apply(store, opening, Ok(())).await {
            return false;
        }
        let taken = Err(ApplyError::Duplicate(UniqueKey::ExternalId));
        self.apply(store, namesake(services, &charge), taken).await;
        if !self.apply(store, services.credit_intent(&charge, services.payment(10_000)), Ok(())).await {
            return false;
        }
        if round.is_multiple_of(3) {
            let opening = sharing(services, owner, &[other]);
            let charge = opening.charge().unwrap().clone();
            if !self.apply(store, opening, Ok(())).await {
                return false;
            }
            let paying = with_parts(services.credit_intent(&charge, services.payment(10_000)), None);
            if !self.apply(store, paying, Ok(())).await {
                return false;
            }
        }
        let too_much = services.withdrawal_intent(owner, 999_999_999_999);
        self.apply(store, too_much, Err(ApplyError::InsufficientFunds)).await;
        let holding = services.withdrawal_intent(owner, 5_000);
        let withdrawal = holding.withdrawal().unwrap().clone();
        if !self.apply(store, holding, Ok(())).await {
            return false;
        }
        let ending = if round.is_multiple_of(2) {
            settling(services, &withdrawal)
        } else {
            releasing(services, &withdrawal)
        };
        self.apply(store, ending, Ok(())).await
    }

    /// Asserts that what was said is so, and says how much was said.
    pub async fn assert_nothing_is_lost(
        &self,
        what: &str,
        server: &PgServer,
        database: &str,
        store: &PgStore,
    ) {
        self.compare(what, &happened(server, database));
        assert_books_are_clean(store).await;
        // Each part on its own side alone would leave both books right.
        let sides = "SELECT count(*) FROM charges c JOIN splits s ON s.charge_id = c.id AND c.state <> 'paid'; \
                     SELECT coalesce(sum(amount_cents) FILTER (WHERE reason = 'split_given'), 0) > 0, \
                     coalesce(sum(amount_cents) FILTER (WHERE reason = 'split_given'), 0) \
                     - coalesce(sum(amount_cents) FILTER (WHERE reason = 'split_received'), 0) FROM postings";
        assert_eq!(server.psql(database, sides).unwrap(), "0\nt|0", "{what}: one side of a split alone");
    }

    fn compare(&self, what: &str, happened: &BTreeSet<String>) {
        let told = self.told.lock().unwrap();
        let known = |marks: &[String]| marks.iter().filter(|mark| happened.contains(*mark)).count();
        println!(
            "{what}: {} acknowledged, {} refused, {} unavailable, {} unknown ({} of them happened)",
            told.done.len(),
            told.refused.len(),
            told.unavailable.len(),
            told.unknown.len(),
            known(&told.unknown),
        );
        assert_eq!(known(&told.done), told.done.len(), "{what}: acknowledged and lost");
        assert_eq!(known(&told.refused), 0, "{what}: refused and done");
        assert_eq!(known(&told.unavailable), 0, "{what}: called undone and done");
    }
}

/// Starts `tasks` of a load over `stores`, in turn.
pub fn start(
    load: &Arc<Load>,
    stores: &[Arc<PgStore>],
    tasks: u64,
    owners: &[IntegratorId],
) -> Vec<tokio::task::JoinHandle<()>> {
    let spawn = |seed: u64| {
        let store = stores[usize::try_from(seed).unwrap() % stores.len()].clone();
        tokio::spawn(load.clone().work(store, 1_000 + seed, owners.to_vec()))
    };
    (0..tasks).map(spawn).collect()
}
