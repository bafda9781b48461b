//! The line to the server is cut around a statement, hangs, or is gone for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pix_conformance::Services;
use pix_conformance::builders::{key, next, report, some_fees, ticket};
use pix_domain::callbacks::{self, Callback, CallbackState};
use pix_domain::charges::state as charge_state;
use pix_domain::charges::store::ChargeStore;
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::evidence::{Evidence, EvidenceKind, EvidenceStore, Proof};
use pix_domain::follow_up::FollowUpStore;
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::list::ListQuery;
use pix_domain::provider::Progress;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Transition, TransitionStore};
use pix_domain::wallet::store::WalletStore;
use pix_persistence::postgres::{Grouping, PgOptions, PgStore};
use pix_pg_server::{Cut, CutPoint, CutProxy, CutSide};
use tokio::net::TcpListener;

use super::support::{
    PATIENCE, assert_books_are_clean, database, ends, giving_back, happened, mark, named, namesake, open,
    options, releasing, server, services, session, settling, sharing, until, way_to_server, with_parts,
};

const SIDES: [CutSide; 2] = [CutSide::Before, CutSide::After];

struct Place {
    line: CutProxy,
    database: String,
    /// Over the line.
    store: Arc<PgStore>,
    services: Services,
    /// With 1,000.00.
    owner: IntegratorId,
}

impl Place {
    async fn new(options: PgOptions) -> Self {
        let database = database(server()).await;
        let line = CutProxy::start(way_to_server()).unwrap();
        let store = open(&line.url(&database), options).await;
        let services = services(&store, 0);
        let owner = services.funded(100_000).await;
        Self { line, database, store, services, owner }
    }

    fn cut_next(&self, side: CutSide) {
        self.line.arm(Cut { at: CutPoint::Sync, side, nth: 1 });
    }

    /// The answer to `transition`, around which the line is cut.
    async fn cut_around(&self, side: CutSide, transition: Transition) -> Result<(), ApplyError> {
        let cuts = self.line.cuts();
        self.cut_next(side);
        let answer = ends(self.store.apply(transition)).await;
        // It is counted once both sides are closed.
        until("the cut", async || self.line.cuts() > cuts).await;
        assert_eq!(self.line.cuts(), cuts + 1, "{answer:?}");
        answer
    }

    fn has(&self, mark: &str) -> bool {
        happened(server(), &self.database).contains(mark)
    }
}

async fn known(store: &PgStore, resource: ResourceRef) -> Vec<Evidence> {
    EvidenceStore::list(store, resource).await.unwrap()
}

fn one_group() -> PgOptions {
    let grouping = Grouping { groups_in_flight: 1, ..Grouping::default() };
    PgOptions { grouping: Some(grouping), ..options() }
}

fn ways() -> [PgOptions; 3] {
    [one_group(), PgOptions { grouping: None, ..options() }, PgOptions { money_connections: 1, ..options() }]
}

#[tokio::test]
async fn what_was_cut_around_happens_once_and_is_acknowledged() {
    for options in ways() {
        let place = Place::new(options).await;
        let services = &place.services;
        for side in SIDES {
            let (available, held) = services.balances(place.owner).await;
            let opening = services.charge_intent(place.owner);
            let charge = opening.charge().unwrap().clone();
            let paying = services.credit_intent(&charge, services.payment(10_000));
            let paid = paying.charge().unwrap().clone();
            let holding = services.withdrawal_intent(place.owner, 700);
            let held_first = holding.withdrawal().unwrap().clone();
            let holding_again = services.withdrawal_intent(place.owner, 40);
            let held_second = holding_again.withdrawal().unwrap().clone();
            let refunding = services.refund_intent(&paid, 300);
            let refund = refunding.refund().unwrap().clone();
            let of_refund = refunding.charge().unwrap().clone();
            let report = report(refund.id.0, Progress::Completed);
            let refunded = next(refund.complete(of_refund, report, services.now()));
            let (settling, releasing) = (settling(services, &held_first), releasing(services, &held_second));
            for transition in
                [opening, paying, holding, holding_again, settling, releasing, refunding, refunded]
            {
                let mark = mark(&transition);
                assert_eq!(place.cut_around(side, transition).await, Ok(()), "{mark} {side:?}");
                assert!(place.has(&mark));
            }
            assert_eq!(services.balances(place.owner).await, (available + 10_000 - 700 - 300, held));
        }
        assert_books_are_clean(&place.store).await;
    }
}

#[tokio::test]
async fn what_gives_others_their_parts_happens_once_for_all_of_them() {
    for options in ways() {
        let place = Place::new(options).await;
        let services = &place.services;
        let recipients = [services.integrator().await, services.integrator().await];
        for (side, times) in SIDES.into_iter().zip(1..) {
            let opening = sharing(services, place.owner, &recipients);
            let charge = opening.charge().unwrap().clone();
            services.apply(opening).await;
            let paying = with_parts(services.credit_intent(&charge, services.payment(10_000)), None);
            let paid = paying.charge().unwrap().clone();
            let refunding = services.refund_intent(&paid, 1_000);
            let giving_back = giving_back(services, &refunding, &paying);
            for transition in [paying, refunding, giving_back] {
                let mark = mark(&transition);
                assert_eq!(place.cut_around(side, transition).await, Ok(()), "{mark} {side:?}");
                assert!(place.has(&mark));
            }
            assert_eq!(
                services.balances(place.owner).await,
                (100_000 + times * (10_000 - 3_000 - 2_000 - 1_000 + 300 + 200), 0)
            );
            assert_eq!(services.balances(recipients[0]).await, (times * (3_000 - 300), 0));
            assert_eq!(services.balances(recipients[1]).await, (times * (2_000 - 200), 0));
        }
        assert_books_are_clean(&place.store).await;
    }
}

#[tokio::test]
async fn what_was_refused_stays_refused_for_its_own_reason() {
    for options in ways() {
        let place = Place::new(options).await;
        let services = &place.services;
        let charge = services.charge(place.owner, 10_000).await;
        let payment = services.payment(10_000);
        let stale = services.credit_intent(&charge, services.payment(10_000));
        let paid = services.pay(&charge, payment.clone()).await;
        let other = services.charge(place.owner, 10_000).await;
        let answering = services.charge_intent(place.owner).answering(Some(key("once")));
        services.apply(answering).await;
        let twice = services.credit_intent(&other, payment);
        let mut same_id = services.new_charge(place.owner);
        same_id.id = charge.id;
        let same_id = charge_state::open(same_id, ticket(charge.id), services.now());
        let before = services.balances(place.owner).await;
        for side in SIDES {
            for (transition, expected) in [
                (services.withdrawal_intent(place.owner, 900_000), ApplyError::InsufficientFunds),
                (namesake(services, &paid), ApplyError::Duplicate(UniqueKey::ExternalId)),
                (same_id.clone(), ApplyError::Duplicate(UniqueKey::Id)),
                (
                    services.charge_intent(place.owner).answering(Some(key("once"))),
                    ApplyError::Duplicate(UniqueKey::IdempotencyKey),
                ),
                (twice.clone(), ApplyError::Duplicate(UniqueKey::Receipt)),
                (stale.clone(), ApplyError::Stale),
            ] {
                assert_eq!(place.cut_around(side, transition).await, Err(expected), "{side:?}");
            }
        }
        assert_eq!(services.balances(place.owner).await, before);
        assert_books_are_clean(&place.store).await;
    }
}

#[tokio::test]
async fn each_of_a_group_that_was_cut_gets_its_own_answer() {
    let place = Place::new(one_group()).await;
    let services = &place.services;
    let charge = services.charge(place.owner, 10_000).await;
    let poor = services.integrator().await;
    for side in SIDES {
        let round = format!("{side:?}");
        let mut wanted = Vec::new();
        for number in 0..10 {
            wanted.push((named(services, place.owner, &format!("{round} {number}")), Ok(())));
            wanted.push((services.withdrawal_intent(place.owner, 10), Ok(())));
            wanted.push((services.withdrawal_intent(poor, 10), Err(ApplyError::InsufficientFunds)));
            let taken = Err(ApplyError::Duplicate(UniqueKey::ExternalId));
            wanted.push((named(services, place.owner, charge.external_id.as_str()), taken));
        }
        let current = services.charges.get(place.owner, charge.id).await.unwrap();
        for first in [Ok(()), Err(ApplyError::Stale), Err(ApplyError::Stale)] {
            wanted.push((services.credit_intent(&current, services.payment(10)), first));
        }
        let cuts = place.line.cuts();
        place.cut_next(side);
        // On one thread: all of them are in line before the first group is made.
        let tasks: Vec<_> = wanted
            .into_iter()
            .map(|(transition, expected)| {
                let store = place.store.clone();
                (tokio::spawn(async move { store.apply(transition).await }), expected)
            })
            .collect();
        for (number, (task, expected)) in tasks.into_iter().enumerate() {
            assert_eq!(ends(task).await.unwrap(), expected, "{side:?} {number}");
        }
        assert_eq!(place.line.cuts(), cuts + 1);
    }
    assert_eq!(services.balances(place.owner).await, (100_000 - 200 + 20, 200));
    assert_books_are_clean(&place.store).await;
}

/// While the first sending waits at the server for somebody else's lock, its line is cut. Sent again, the transition lacks
/// money; then money comes, and the first sending finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_still_at_work_is_never_called_refused() {
    let place = Place::new(one_group()).await;
    let services = &place.services;
    let poor = services.integrator().await;
    let other = services.charge(poor, 10_000).await;
    let holding = services.withdrawal_intent(poor, 500);
    let mark = mark(&holding);
    let blocked = services.withdrawal_intent(place.owner, 10);
    services.apply(blocked.clone()).await;
    let blocked = settling(services, blocked.withdrawal().unwrap());

    let locker = session(&server().url(&place.database)).await;
    let id = blocked.withdrawal().unwrap().id;
    let lock = format!("BEGIN; SELECT 1 FROM withdrawals WHERE id = '{id}' FOR UPDATE");
    locker.batch_execute(&lock).await.unwrap();
    place.cut_next(CutSide::After);
    let together = place.store.clone();
    let mut both = tokio::spawn(async move { together.apply_all(vec![holding, blocked]).await });
    tokio::task::block_in_place(|| place.line.await_cuts(1, PATIENCE)).unwrap();
    let waiting = "SELECT count(*)::text FROM pg_locks WHERE NOT granted";
    until("the first sending waits", async || server().psql(&place.database, waiting).unwrap() != "0").await;
    // Time to be resolved, in error.
    let early = tokio::time::timeout(Duration::from_millis(500), &mut both).await;
    let direct = open(&server().url(&place.database), options()).await;
    let payment = services.payment(10_000);
    direct.apply(services.credit_intent(&other, payment)).await.unwrap();
    locker.batch_execute("ROLLBACK").await.unwrap();
    let answers = match early {
        Ok(answers) => answers.unwrap(),
        Err(_elapsed) => ends(both).await.unwrap(),
    };
    until("the first sending has ended", async || {
        let left = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' \
                    AND application_name LIKE 'pix-gateway%' AND datname = current_database()";
        server().psql(&place.database, left).unwrap() == "0"
    })
    .await;
    assert_eq!(answers, [Ok(()), Ok(())]);
    assert!(place.has(&mark));
    assert_eq!(services.balances(poor).await, (9_500, 500));
    assert_books_are_clean(&place.store).await;
}

#[tokio::test]
async fn what_is_never_found_out_is_unknown_and_all_of_it_or_nothing() {
    for grouping in [None, Some(Grouping::default())] {
        let impatient = PgOptions { resolve_timeout: Duration::from_millis(200), grouping, ..options() };
        let place = Place::new(impatient).await;
        let services = &place.services;
        for side in SIDES {
            let (available, held) = services.balances(place.owner).await;
            let holding = services.withdrawal_intent(place.owner, 100);
            let mark = mark(&holding);
            place.line.refuse(true);
            let answer = place.cut_around(side, holding).await;
            assert!(matches!(answer, Err(ApplyError::Store(StoreError::Unknown(_)))), "{answer:?}");
            // Another one doesn't begin.
            let another = services.withdrawal_intent(place.owner, 100);
            let after = ends(place.store.apply(another)).await;
            assert!(matches!(after, Err(ApplyError::Store(StoreError::Unavailable(_)))), "{after:?}");
            place.line.refuse(false);
            if side == CutSide::After {
                until("the commit", async || place.has(&mark)).await;
                assert_eq!(services.balances(place.owner).await, (available - 100, held + 100));
            } else {
                assert!(!place.has(&mark));
                assert_eq!(services.balances(place.owner).await, (available, held));
            }
            services.apply(services.charge_intent(place.owner)).await;
        }
        assert_books_are_clean(&place.store).await;
    }
}

/// Sent again it would write nothing when it is there, and so be no commit that waits for a standby.
#[tokio::test]
async fn evidence_alone_whose_answer_was_lost_stays_unknown() {
    for options in ways() {
        let place = Place::new(options).await;
        let services = &place.services;
        let holding = services.withdrawal_intent(place.owner, 100);
        let resource = holding.withdrawal().unwrap().resource();
        services.apply(holding).await;
        let mut kept = Vec::new();
        for side in SIDES {
            let seen = Evidence {
                id: services.id(),
                resource,
                at: services.now(),
                kind: EvidenceKind::Callback,
                proof: Proof::Nothing,
                detail: format!("{side:?}"),
            };
            let alone = Transition::new(place.owner, services.now()).witness([seen.clone()]);
            let answer = place.cut_around(side, alone.clone()).await;
            assert!(matches!(answer, Err(ApplyError::Store(StoreError::Unknown(_)))), "{answer:?}");
            if side == CutSide::After {
                kept.push(seen.clone());
                until("the commit", async || known(&place.store, resource).await == kept).await;
            } else {
                assert_eq!(known(&place.store, resource).await, kept);
            }
            // Whoever sends it again is told.
            services.apply(alone).await;
            if side == CutSide::Before {
                kept.push(seen);
            }
            assert_eq!(known(&place.store, resource).await, kept);
        }
    }
}

#[tokio::test]
async fn a_line_that_hangs_is_answered_for_and_comes_back() {
    for grouping in [None, Some(Grouping::default())] {
        let short = Duration::from_millis(300);
        let place = Place::new(PgOptions {
            connect_timeout: short,
            acquire_timeout: short,
            statement_timeout: short,
            resolve_timeout: short,
            grouping,
            ..options()
        })
        .await;
        let services = &place.services;
        // Every pool has a connection.
        place.store.wallet(place.owner).await.unwrap();
        place.store.claim(Timestamp::from_micros(0), PATIENCE, 1).await.unwrap();
        place.line.stop_forwarding();
        // First on connections that there are, then on new ones.
        for _ in 0..2 {
            let holding = services.withdrawal_intent(place.owner, 100);
            let answer = ends(place.store.apply(holding)).await;
            assert!(
                matches!(answer, Err(ApplyError::Store(StoreError::Unknown(_) | StoreError::Unavailable(_)))),
                "{answer:?}"
            );
            let answer = ends(place.store.wallet(place.owner)).await;
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
            let answer = ends(place.store.claim(services.now(), PATIENCE, 1)).await;
            assert!(matches!(answer, Err(StoreError::Unknown(_) | StoreError::Unavailable(_))), "{answer:?}");
        }
        place.line.resume();
        until("writes", async || place.store.apply(services.charge_intent(place.owner)).await.is_ok()).await;
        until("reads", async || place.store.wallet(place.owner).await.is_ok()).await;
        until("work", async || place.store.claim(Timestamp::from_micros(0), PATIENCE, 1).await.is_ok()).await;
        assert_books_are_clean(&place.store).await;
    }
}

/// A lookup's answer, on which others wait: what has begun to come need not come to its end.
#[tokio::test]
async fn an_answer_that_stops_halfway_is_given_up() {
    let short = Duration::from_millis(300);
    let place = Place::new(PgOptions { statement_timeout: short, connect_timeout: short, ..options() }).await;
    let charge = place.services.charge(place.owner, 100).await;
    let look = async || ends(ChargeStore::find(&*place.store, place.owner, charge.id)).await;
    for _ in 0..3 {
        // It is prepared now.
        assert_eq!(look().await, Ok(Some(charge.clone())));
        place.line.stop_after(100);
        for _ in 0..3 {
            let answer = look().await;
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        }
        place.line.resume();
        until("reads", async || look().await.is_ok()).await;
    }
}

/// The same for what nobody shares: a page, and what a worker takes.
#[tokio::test]
async fn an_answer_to_one_alone_that_stops_halfway_is_given_up() {
    let short = Duration::from_millis(300);
    let place = Place::new(PgOptions { statement_timeout: short, connect_timeout: short, ..options() }).await;
    let charge = place.services.charge(place.owner, 100).await;
    let (id, received_at) = (place.services.id(), place.services.now());
    let callback = Callback { id, received_at, reference: Some(id), body: "x".repeat(500) };
    let (mut now, hour) = (received_at, Duration::from_hours(1));
    let kept = CallbackState::Waiting(now);
    assert_eq!(callbacks::CallbackStore::keep(&*place.store, callback.clone(), kept).await, Ok(true));
    let page = async || {
        ends(ChargeStore::list(&*place.store, place.owner, &ListQuery { limit: 1, ..ListQuery::default() }))
            .await
    };
    let mut take = async || {
        now = now.plus(hour).plus(hour);
        let taken = ends(callbacks::CallbackStore::claim(&*place.store, now, hour, 1)).await?;
        Ok::<Vec<Callback>, StoreError>(taken.into_iter().map(|one| one.callback).collect())
    };
    for _ in 0..3 {
        // Prepared now.
        assert_eq!((page().await, take().await), (Ok(vec![charge.clone()]), Ok(vec![callback.clone()])));
        place.line.stop_after(200);
        let answer = page().await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        place.line.resume();
        until("reads", async || page().await.is_ok()).await;
        let answer = take().await;
        assert_eq!(answer, Ok(vec![callback.clone()]));
        place.line.stop_after(200);
        let answer = take().await;
        assert!(answer.is_err(), "{answer:?}");
        place.line.resume();
        assert_eq!(take().await, Ok(vec![callback.clone()]));
    }
}

/// Only a connection that owes an answer is ended for its silence.
#[tokio::test]
async fn a_connection_that_owes_nothing_is_kept() {
    let place = Place::new(PgOptions { statement_timeout: Duration::from_millis(200), ..one_group() }).await;
    let services = &place.services;
    services.paid_charge(place.owner, 100).await;
    services.set_fees(place.owner, some_fees()).await;
    assert_eq!(place.store.claim(Timestamp::from_micros(0), PATIENCE, 1).await, Ok(Vec::new()));
    assert_books_are_clean(&place.store).await;
    let sessions = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'pix-gateway%' \
                    AND datname = current_database() ORDER BY pid";
    let before = server().psql(&place.database, sessions).unwrap();
    // Longer than any answer may take.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server().psql(&place.database, sessions).unwrap(), before);
    assert!(before.lines().count() >= 3, "{before}");
}

/// One whose disk or machine hangs takes connections and says nothing. The next host is asked, and from then on first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_first_host_that_hangs_takes_its_own_time_only() {
    let database = database(server()).await;
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let ports = [silent.local_addr().unwrap().port(), server().port()];
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok(taken) = silent.accept().await {
            held.push(taken);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let url = format!(
        "postgres://pix@127.0.0.1:{},127.0.0.1:{}/{database}?target_session_attrs=read-write",
        ports[0], ports[1]
    );
    let store = open(&url, PgOptions { connect_timeout: Duration::from_secs(3), ..options() }).await;
    let services = services(&store, 0);
    let owner = services.funded(100_000).await;
    assert_eq!(store.claim(Timestamp::from_micros(0), PATIENCE, 1).await, Ok(Vec::new()));
    assert_eq!(store.wallet(owner).await.unwrap().available.get(), 100_000);
    // By the migration, by the start, and by the first connection of all pools.
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert_books_are_clean(&store).await;
}
