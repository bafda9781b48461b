//! Lookups that share queries: each finds its own, and only its own, whatever becomes of the others.

use std::sync::Arc;
use std::time::Duration;

use pix_conformance::Services;
use pix_domain::charges::Charge;
use pix_domain::charges::store::ChargeStore;
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId, WithdrawalId};
use pix_domain::money::Cents;
use pix_domain::wallet::Wallet;
use pix_domain::wallet::store::WalletStore;
use pix_domain::withdrawals::store::WithdrawalStore;
use pix_persistence::postgres::{PgOptions, PgStore};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::support::{database, ends, open, options, server, services, session, until};

/// More than one query takes.
const MANY: usize = 300;

const CENT: Cents = Cents::new(1).unwrap();

type Answer = Result<Option<Charge>, StoreError>;

/// A store whose lookups wait as long as somebody has the table.
struct Place {
    database: String,
    store: Arc<PgStore>,
    services: Services,
}

impl Place {
    async fn new(options: PgOptions) -> Self {
        let database = database(server()).await;
        let store = open(&server().url(&database), options).await;
        let services = services(&store, 0);
        Self { database, store, services }
    }

    async fn lock(&self) -> Client {
        let locker = session(&server().url(&self.database)).await;
        locker.batch_execute("BEGIN; LOCK TABLE charges").await.unwrap();
        locker
    }

    fn look(&self, owner: IntegratorId, id: ChargeId) -> JoinHandle<Answer> {
        let store = self.store.clone();
        tokio::spawn(async move { ChargeStore::find(&*store, owner, id).await })
    }

    /// How many queries wait for the table.
    fn waiting(&self) -> String {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                       AND datname = current_database() AND query LIKE 'SELECT found.*%'";
        server().psql(&self.database, waiting).unwrap()
    }

    /// Waits until so many queries wait for the table.
    async fn wait(&self, queries: &str) {
        until("queries wait", async || self.waiting() == queries).await;
    }

    /// Looks twice; each is a query that waits for the table, as many as there may be. The second begins when the first
    /// waits: two that come at once may be one query.
    async fn fill(&self, looks: [(IntegratorId, ChargeId); 2]) -> [JoinHandle<Answer>; 2] {
        let [first, second] = looks;
        [self.query(first, "1").await, self.query(second, "2").await]
    }

    /// Looks, and again if it gave up before its query went, as it may on a busy machine; so many queries wait then.
    async fn query(&self, (owner, id): (IntegratorId, ChargeId), queries: &str) -> JoinHandle<Answer> {
        let mut look = self.look(owner, id);
        let waits = async || {
            if look.is_finished() {
                look = self.look(owner, id);
            }
            self.waiting() == queries
        };
        until("queries wait", waits).await;
        look
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_many_lookups_finds_its_own_and_nobody_elses() {
    let place = Place::new(options()).await;
    let owners = [place.services.integrator().await, place.services.integrator().await];
    let mut charges = Vec::new();
    for number in 0..6 {
        charges.push(place.services.charge(owners[number % 2], 100).await);
    }
    let locker = place.lock().await;
    // Those that wait for the table are two queries; all others are in line.
    let first = place.fill([(owners[0], charges[0].id), (owners[1], charges[1].id)]).await;
    let mut asked = Vec::new();
    for number in 0..MANY {
        let charge = &charges[number % charges.len()];
        let stranger = owners[(number + 1) % 2];
        asked.push((Some(charge.clone()), place.look(charge.integrator_id, charge.id)));
        asked.push((None, place.look(stranger, charge.id)));
        asked.push((None, place.look(charge.integrator_id, ChargeId(place.services.id()))));
    }
    place.wait("2").await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    for look in first {
        assert!(ends(look).await.unwrap().unwrap().is_some());
    }
    for (expected, look) in asked {
        assert_eq!(ends(look).await.unwrap(), Ok(expected));
    }
}

/// What is done to a charge, and what of it is told.
const DAMAGES: [(&str, &str); 2] = [
    (
        "ALTER TABLE charges DROP CONSTRAINT charges_state_check; UPDATE charges SET state = 'SECRET'",
        "charges.state",
    ),
    // The row can't be read, and no query that it is in.
    (
        "ALTER TABLE charges ALTER COLUMN amount_cents DROP NOT NULL; UPDATE charges SET amount_cents = NULL",
        "charges",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_damaged_record_is_the_error_of_those_alone_who_look_it_up() {
    for (damage, told) in DAMAGES {
        let place = Place::new(options()).await;
        let owner = place.services.integrator().await;
        let (whole, damaged) =
            (place.services.charge(owner, 100).await, place.services.charge(owner, 100).await);
        let damage = format!("{damage} WHERE id = '{}'", damaged.id.0);
        server().psql(&place.database, &damage).unwrap();
        let locker = place.lock().await;
        let first = place.fill([(owner, whole.id); 2]).await;
        let asked: Vec<_> =
            (0..20).map(|_| (place.look(owner, whole.id), place.look(owner, damaged.id))).collect();
        locker.batch_execute("ROLLBACK").await.unwrap();
        for look in first {
            assert_eq!(ends(look).await.unwrap(), Ok(Some(whole.clone())));
        }
        for (of_whole, of_damaged) in asked {
            assert_eq!(ends(of_whole).await.unwrap(), Ok(Some(whole.clone())));
            let found = ends(of_damaged).await.unwrap();
            let Err(StoreError::Damaged(text)) = found else { panic!("it was read: {found:?}") };
            assert!(text.starts_with(told) && !text.contains("SECRET"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_many_reads_of_wallets_has_its_own_as_it_is_then() {
    let place = Place::new(options()).await;
    let [rich, damaged] = [place.services.funded(100).await, place.services.funded(300).await];
    let without = IntegratorId(place.services.id());
    let before = [
        place.store.wallet(rich).await.unwrap(),
        place.store.wallet(damaged).await.unwrap(),
        Wallet::default(),
    ];
    let locker = session(&server().url(&place.database)).await;
    locker.batch_execute("BEGIN; LOCK TABLE wallets").await.unwrap();
    let read = |owner: IntegratorId| {
        let store = place.store.clone();
        tokio::spawn(async move { store.wallet(owner).await })
    };
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() \
                   AND query LIKE '%FROM wallets WHERE%'";
    let wait = async |queries: &str| {
        until("reads wait", async || server().psql(&place.database, waiting).unwrap() == queries).await;
    };
    // The first waits for the table; those that come then are in line, and go together.
    let first = read(rich);
    wait("1").await;
    let reads: Vec<_> = (0..MANY).map(|number| read([rich, damaged, without][number % 3])).collect();
    wait("2").await;
    locker
        .batch_execute(
            "ALTER TABLE wallets DROP CONSTRAINT wallets_available_cents_check; \
             UPDATE wallets SET available_cents = available_cents + 1; COMMIT",
        )
        .await
        .unwrap();
    let more = |wallet: &Wallet| Wallet { available: wallet.available.checked_add(CENT).unwrap(), ..*wallet };
    let now = [more(&before[0]), more(&before[1]), before[2]];
    assert_eq!(ends(first).await.unwrap(), Ok(now[0]));
    for (number, read) in reads.into_iter().enumerate() {
        assert_eq!(ends(read).await.unwrap(), Ok(now[number % 3]), "what was committed before is seen");
    }
    // What can't be read is the error of its own alone.
    let owner = format!("UPDATE wallets SET available_cents = -7 WHERE integrator_id = '{}'", damaged.0);
    server().psql(&place.database, &owner).unwrap();
    locker.batch_execute("BEGIN; LOCK TABLE wallets").await.unwrap();
    let first = read(rich);
    wait("1").await;
    let reads: Vec<_> = (0..20).map(|number| read([rich, damaged][number % 2])).collect();
    wait("2").await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert!(ends(first).await.unwrap().is_ok());
    for (number, read) in reads.into_iter().enumerate() {
        let found = ends(read).await.unwrap();
        match number % 2 {
            0 => assert_eq!(found, Ok(now[0])),
            _ => assert!(matches!(found, Err(StoreError::Damaged(_))), "{found:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lookup_waits_in_line_no_longer_than_for_a_connection() {
    let impatient =
        PgOptions { acquire_timeout: Duration::from_millis(100), read_connections: 4, ..options() };
    let place = Place::new(impatient).await;
    let owner = place.services.integrator().await;
    let charge = place.services.charge(owner, 100).await;
    let locker = place.lock().await;
    let first = place.fill([(owner, charge.id); 2]).await;
    for late in [place.look(owner, charge.id), place.look(owner, charge.id)] {
        let busy = StoreError::Unavailable("all connections for reads are busy".to_owned());
        assert_eq!(ends(late).await.unwrap(), Err(busy));
    }
    // Lookups of another table are not in that line.
    let other = WithdrawalStore::find(&*place.store, owner, WithdrawalId(charge.id.0));
    assert_eq!(ends(other).await, Ok(None));
    locker.batch_execute("ROLLBACK").await.unwrap();
    for look in first {
        assert_eq!(ends(look).await.unwrap(), Ok(Some(charge.clone())));
    }
    assert_eq!(ends(place.look(owner, charge.id)).await.unwrap(), Ok(Some(charge)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_who_go_away_leave_the_line_to_others() {
    let place = Place::new(options()).await;
    let owner = place.services.integrator().await;
    let charge = place.services.charge(owner, 100).await;
    let locker = place.lock().await;
    let first = place.fill([(owner, charge.id); 2]).await;
    let asked: Vec<_> = (0..20).map(|_| place.look(owner, charge.id)).collect();
    for gone in first.iter().chain(asked.iter().step_by(2)) {
        gone.abort();
    }
    locker.batch_execute("ROLLBACK").await.unwrap();
    for (number, look) in asked.into_iter().enumerate() {
        let answer = ends(look).await;
        if number % 2 == 1 {
            assert_eq!(answer.unwrap(), Ok(Some(charge.clone())));
        }
    }
    assert_eq!(ends(place.look(owner, charge.id)).await.unwrap(), Ok(Some(charge)));
}
