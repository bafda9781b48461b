//! Groups of transitions: who goes with whom, and when.

use std::sync::Arc;
use std::time::Duration;

use pix_conformance::Services;
use pix_conformance::builders::cents;
use pix_domain::charges::Charge;
use pix_domain::error::{ApplyError, StoreError};
use pix_domain::ids::IntegratorId;
use pix_domain::transition::TransitionStore;
use pix_persistence::postgres::{PgOptions, PgStore};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::support::{
    assert_books_are_clean, database, ends, open, options, server, services, session, until,
};

/// Longer than a group is waited for before another one goes beside it.
const LONGER_THAN_PATIENCE: Duration = Duration::from_millis(50);

struct Place {
    database: String,
    store: Arc<PgStore>,
    services: Services,
}

impl Place {
    async fn new() -> Self {
        Self::with(options()).await
    }

    async fn with(options: PgOptions) -> Self {
        let database = database(server()).await;
        let store = open(&server().url(&database), options).await;
        let services = services(&store, 0);
        Self { database, store, services }
    }

    /// Charges of one integrator, and a session that has them.
    async fn locked<const COUNT: usize>(&self, owner: IntegratorId) -> (Client, [Charge; COUNT]) {
        let locker = session(&server().url(&self.database)).await;
        locker.batch_execute("BEGIN").await.unwrap();
        let mut charges = Vec::new();
        for _ in 0..COUNT {
            let charge = self.services.charge(owner, 100).await;
            let lock = format!("SELECT FROM charges WHERE id = '{}' FOR UPDATE", charge.id.0);
            locker.batch_execute(&lock).await.unwrap();
            charges.push(charge);
        }
        (locker, charges.try_into().unwrap())
    }

    /// Begins to credit a payment of a charge.
    fn pay(&self, charge: &Charge) -> JoinHandle<Result<(), ApplyError>> {
        let (store, credit) =
            (self.store.clone(), self.services.credit_intent(charge, self.services.payment(100)));
        tokio::spawn(async move { store.apply(credit).await })
    }

    /// Waits until so many statements wait for a charge.
    async fn wait(&self, statements: &str) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                       AND datname = current_database() AND query LIKE 'WITH%'";
        until("statements wait", async || server().psql(&self.database, waiting).unwrap() == statements)
            .await;
    }
}

/// A debt that its money would be left beside undoes the whole group. It is weighed then, and not parted.
#[tokio::test]
async fn a_wallet_with_a_debt_does_not_part_the_group_that_brings_money() {
    let place = Place::new().await;
    let services = &place.services;
    let (owner, owing) = (services.integrator().await, services.integrator().await);
    let spent = services.paid_charge(owing, 1_000).await;
    services.apply(services.withdrawal_intent(owing, 1_000)).await;
    services.provider.says_refunded(spent.id.0, cents(400));
    let (_, asked) = services.charges.refresh(owing, spent.id).await.unwrap();
    asked.unwrap();
    let mut together = Vec::new();
    for of in [owner, owner, owing, owner, owner] {
        let charge = services.charge(of, 100).await;
        together.push(services.credit_intent(&charge, services.payment(100)));
    }
    let answers = place.store.apply_all(together).await;
    assert_eq!(answers, [Ok(()), Ok(()), Err(ApplyError::Owing), Ok(()), Ok(())]);
    let written = format!(
        "SELECT count(*), count(DISTINCT xmin::text) FROM events WHERE kind = 'charge.paid' AND integrator_id = '{}'",
        owner.0
    );
    assert_eq!(server().psql(&place.database, &written).unwrap(), "4|1");
    assert_books_are_clean(&place.store).await;
}

/// Of a group that is parted none is begun later than an answer is waited for: it has its wallets meanwhile.
#[tokio::test]
async fn those_of_a_parted_group_that_hang_hold_the_others_up_for_so_long_only() {
    let statement_timeout = Duration::from_millis(500);
    let place = Place::with(PgOptions { statement_timeout, ..options() }).await;
    let services = &place.services;
    let owner = services.integrator().await;
    let mut together = Vec::new();
    for _ in 0..6 {
        let charge = services.charge(owner, 100).await;
        together.push(services.credit_intent(&charge, services.payment(100)));
    }
    // Several at once break a rule, and one alone hangs.
    let rule = "CREATE FUNCTION hangs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                IF (SELECT count(*) FROM changed) > 1 THEN RAISE check_violation; END IF; \
                PERFORM pg_sleep(60); RETURN NULL; END $$; \
                CREATE TRIGGER hangs AFTER UPDATE ON charges REFERENCING NEW TABLE AS changed \
                FOR EACH STATEMENT EXECUTE FUNCTION hangs()";
    server().psql(&place.database, rule).unwrap();
    let answers = ends(place.store.apply_all(together.clone())).await;
    let why = answers.iter().map(|answer| match answer {
        Err(ApplyError::Store(StoreError::Unavailable(why))) => why.contains("took too long"),
        other => panic!("{other:?}"),
    });
    let why: Vec<bool> = why.collect();
    // Each hangs until the server gives it up; an answer takes twice as long at the most.
    assert_eq!((why.first(), why.last()), (Some(&false), Some(&true)), "{answers:?}");
    server().psql(&place.database, "DROP TRIGGER hangs ON charges").unwrap();
    assert!(place.store.apply_all(together).await.iter().all(Result::is_ok));
    assert_books_are_clean(&place.store).await;
}

/// A few that have nothing to do with a large group, and came just after it, go when it turns out to hang.
#[tokio::test]
async fn a_group_that_hangs_is_not_waited_for() {
    let place = Place::new().await;
    let services = &place.services;
    let (hanging, other) = (services.integrator().await, services.integrator().await);
    let (lock, many) = place.locked::<6>(hanging).await;
    let charge = services.charge(other, 100).await;
    let many = many.map(|charge| place.pay(&charge));
    // All of them are in line, and go together; one is not worth a group beside six.
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    ends(place.pay(&charge)).await.unwrap().unwrap();
    assert!(many.iter().all(|hanging| !hanging.is_finished()));
    lock.batch_execute("ROLLBACK").await.unwrap();
    for hanging in many {
        ends(hanging).await.unwrap().unwrap();
    }
    assert_books_are_clean(&place.store).await;
}

/// Whoever runs a group looks again and again whether another one may go beside it: a group that hangs holds nobody up for
/// longer than it took another one to end.
///
/// On one thread, so that whatever was begun is in line as soon as this task gives way.
#[tokio::test]
async fn whoever_waited_in_vain_for_a_place_has_it_when_there_is_one() {
    let place = Place::new().await;
    let services = &place.services;
    let (hanging, other, late) =
        (services.integrator().await, services.integrator().await, services.integrator().await);
    let (first_lock, [first]) = place.locked(hanging).await;
    let (second_lock, [second]) = place.locked(other).await;
    let (many_lock, many) = place.locked::<6>(hanging).await;
    let charge = services.charge(late, 100).await;
    // Two are at the database, each in a statement of its own; the others are in line.
    let first = place.pay(&first);
    place.wait("1").await;
    let second = place.pay(&second);
    place.wait("2").await;
    let many = many.map(|charge| place.pay(&charge));
    tokio::task::yield_now().await;
    first_lock.batch_execute("ROLLBACK").await.unwrap();
    ends(first).await.unwrap().unwrap();
    place.wait("2").await;
    // All of the line hangs now. One who comes finds both places taken.
    let late = place.pay(&charge);
    tokio::time::sleep(LONGER_THAN_PATIENCE).await;
    second_lock.batch_execute("ROLLBACK").await.unwrap();
    ends(second).await.unwrap().unwrap();
    ends(late).await.unwrap().unwrap();
    place.wait("1").await;
    assert!(many.iter().all(|hanging| !hanging.is_finished()));
    many_lock.batch_execute("ROLLBACK").await.unwrap();
    for hanging in many {
        ends(hanging).await.unwrap().unwrap();
    }
    assert_books_are_clean(&place.store).await;
}
