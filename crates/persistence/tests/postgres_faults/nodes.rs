//! Two nodes on one database: one dies in the middle of its work, or both want the same in opposite orders.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::follow_up::{FollowUp, FollowUpStore};
use pix_domain::time::Timestamp;
use pix_domain::transition::{Transition, TransitionStore};
use pix_domain::wallet::store::WalletStore;
use pix_persistence::postgres::{PgOptions, PgStore};

use super::support::{
    Load, assert_books_are_clean, database, ends, named, open, options, server, services, session, start,
    until,
};

/// How often the nodes cross.
const ROUNDS: usize = 12;
/// How many things they both want in a round.
const WANTED: usize = 24;

fn resources(claimed: &[FollowUp]) -> BTreeSet<pix_domain::ids::ResourceRef> {
    claimed.iter().map(|follow_up| follow_up.resource).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_that_dies_under_load_loses_nothing_and_leaves_its_work_to_others() {
    for grouping in [options().grouping, None] {
        let options = PgOptions { grouping, ..options() };
        let database = database(server()).await;
        let url = server().url(&database);
        let living = open(&url, options).await;
        let services = services(&living, 0);
        let owners = [services.funded(1_000_000).await, services.funded(1_000_000).await];
        // Some work that is due.
        for _ in 0..10 {
            services.apply(services.withdrawal_intent(owners[0], 10)).await;
        }
        let late = services.now().plus(Duration::from_hours(1_000));
        let lease = Duration::from_hours(1);

        let other =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let opening = url.clone();
        let dying = other.spawn(async move { open(&opening, options).await }).await.unwrap();
        let claimed = dying.claim(late, lease, 1_000).await.unwrap();
        assert!(claimed.len() >= 10);
        let (theirs, ours) = (Arc::new(Load::default()), Arc::new(Load::default()));
        // Those who call it from outside are answered too.
        let outside = Arc::new(Load::default());
        other.spawn({
            let (theirs, dying) = (theirs.clone(), dying.clone());
            async move {
                for task in start(&theirs, &[dying], 8, &owners) {
                    task.await.unwrap();
                }
            }
        });
        let mut tasks = Vec::new();
        for (load, store, seed) in [(&ours, &living, 5_000), (&outside, &dying, 6_000)] {
            for task in 0..4 {
                let owners = owners.to_vec();
                tasks.push(tokio::spawn(load.clone().work(store.clone(), seed + task, owners)));
            }
        }
        theirs.goes_on(60).await;
        outside.goes_on(20).await;
        other.shutdown_background();
        ours.goes_on(60).await;
        let answer = ends(dying.apply(services.charge_intent(owners[0]))).await;
        assert!(
            matches!(answer, Err(ApplyError::Store(StoreError::Unavailable(_) | StoreError::Unknown(_)))),
            "{answer:?}"
        );
        assert!(ends(dying.wallet(owners[0])).await.is_err());
        ours.end();
        outside.end();
        for task in tasks {
            ends(task).await.unwrap();
        }
        for (what, load) in [("dead node", theirs), ("its callers", outside), ("living node", ours)] {
            load.assert_nothing_is_lost(what, server(), &database, &living).await;
        }
        let before = living.claim(late.plus(lease / 2), Duration::from_secs(1), 10_000).await.unwrap();
        assert!(resources(&before).is_disjoint(&resources(&claimed)));
        let after = living.claim(late.plus(lease * 2), lease, 10_000).await.unwrap();
        let after = resources(&after);
        let changed = |resource: &pix_domain::ids::ResourceRef| !after.contains(resource);
        assert_eq!(resources(&claimed).into_iter().filter(changed).count(), 0);
    }
}

/// What both nodes want in one round, and what the second one to want it is told.
struct Round {
    names: [Vec<Transition>; 2],
    credits: [Vec<Transition>; 2],
}

async fn round(
    services: &pix_conformance::Services,
    owners: &[pix_domain::ids::IntegratorId],
    number: usize,
) -> Round {
    let mut round = Round { names: Default::default(), credits: Default::default() };
    for wanted in 0..WANTED {
        let owner = owners[wanted % owners.len()];
        let charge = services.charge(owner, 100).await;
        for credits in &mut round.credits {
            credits.push(services.credit_intent(&charge, services.payment(100)));
        }
        round.names[0].push(named(services, owner, &format!("{number} {wanted}")));
    }
    // The other node wants it all in the opposite order, and so are its ids.
    round.credits[1].reverse();
    for wanted in (0..WANTED).rev() {
        let owner = owners[wanted % owners.len()];
        round.names[1].push(named(services, owner, &format!("{number} {wanted}")));
    }
    round
}

/// All of `transitions` in one call, or each in a call of its own.
async fn want(
    store: Arc<PgStore>,
    transitions: Vec<Transition>,
    at_once: bool,
) -> Vec<Result<(), ApplyError>> {
    if at_once {
        return store.apply_all(transitions).await;
    }
    let call = |transition| {
        let store = store.clone();
        tokio::spawn(async move { store.apply(transition).await })
    };
    let calls: Vec<_> = transitions.into_iter().map(call).collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

fn assert_one_has_each(answers: [Vec<Result<(), ApplyError>>; 2], refused: &ApplyError) {
    let [first, mut second] = answers;
    second.reverse();
    assert_eq!((first.len(), second.len()), (WANTED, WANTED));
    for pair in first.into_iter().zip(second) {
        let (ours, theirs) = &pair;
        let one = ours.is_ok() != theirs.is_ok();
        let other = [ours, theirs]
            .into_iter()
            .filter_map(|answer| answer.as_ref().err())
            .all(|error| error == refused);
        assert!(one && other, "{pair:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_want_the_same_in_opposite_orders_both_end_and_one_has_it() {
    let database = database(server()).await;
    // Those that stand in each other's way are told soon.
    server().psql("postgres", &format!("ALTER DATABASE {database} SET deadlock_timeout = '10ms'")).unwrap();
    let url = server().url(&database);
    let stores = [open(&url, options()).await, open(&url, options()).await];
    let services = services(&stores[0], 0);
    let owners = [services.integrator().await, services.integrator().await, services.integrator().await];
    for number in 0..ROUNDS {
        let Round { names: [ours, theirs], credits: [our_credits, their_credits] } =
            round(&services, &owners, number).await;
        let at_once = number % 2 == 0;
        let (ours, theirs, our_credits, their_credits) = ends(async {
            tokio::join!(
                tokio::spawn(want(stores[0].clone(), ours, at_once)),
                tokio::spawn(want(stores[1].clone(), theirs, at_once)),
                tokio::spawn(want(stores[0].clone(), our_credits, at_once)),
                tokio::spawn(want(stores[1].clone(), their_credits, at_once)),
            )
        })
        .await;
        let taken = ApplyError::Duplicate(UniqueKey::ExternalId);
        assert_one_has_each([ours.unwrap(), theirs.unwrap()], &taken);
        assert_one_has_each([our_credits.unwrap(), their_credits.unwrap()], &ApplyError::Stale);
    }
    for owner in owners {
        let credited = i64::try_from(ROUNDS * WANTED / owners.len() * 100).unwrap();
        assert_eq!(services.balances(owner).await, (credited, 0));
    }
    assert_books_are_clean(&stores[0]).await;
}

/// Two groups of new names that stand in each other's way: one waits for a name of a third party while the other one
/// takes the name that it wants next.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_groups_that_wait_for_each_other_are_parted_and_each_gets_its_answers() {
    let database = database(server()).await;
    server().psql("postgres", &format!("ALTER DATABASE {database} SET deadlock_timeout = '10ms'")).unwrap();
    let url = server().url(&database);
    let stores = [open(&url, options()).await, open(&url, options()).await];
    let services = services(&stores[0], 0);
    let owner = services.integrator().await;
    services.charge(owner, 100).await;
    let third = session(&url).await;
    let take = "BEGIN; INSERT INTO charges SELECT (jsonb_populate_record(c, \
                jsonb_build_object('id', gen_random_uuid(), 'external_id', 'middle'))).* FROM charges c";
    third.batch_execute(take).await.unwrap();
    let waiting = async |count: &str| {
        let asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                     AND datname = current_database()";
        until("a group waits", async || server().psql(&database, asked).unwrap() == count).await;
    };
    let group = |names: &[&str]| -> Vec<Transition> {
        names.iter().map(|text| named(&services, owner, text)).collect()
    };
    let ours = tokio::spawn(want(stores[0].clone(), group(&["first", "middle", "last"]), true));
    waiting("1").await;
    let theirs = tokio::spawn(want(stores[1].clone(), group(&["last", "first"]), true));
    waiting("2").await;
    let told = server().log().matches("deadlock detected").count();
    third.batch_execute("ROLLBACK").await.unwrap();
    let (ours, theirs) = (ends(ours).await.unwrap(), ends(theirs).await.unwrap());
    assert!(server().log().matches("deadlock detected").count() > told);
    let taken = Err(ApplyError::Duplicate(UniqueKey::ExternalId));
    assert_eq!(ours[1], Ok(()));
    for (one, other) in [(&ours[0], &theirs[1]), (&ours[2], &theirs[0])] {
        assert!((*one == taken) != (*other == taken) && one.is_ok() != other.is_ok(), "{ours:?} {theirs:?}");
    }
    assert_books_are_clean(&stores[0]).await;
}

/// Of many who go away in the middle, those who stay get their answer, and what happened is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_who_go_away_leave_whole_books() {
    for grouping in [options().grouping, None] {
        let database = database(server()).await;
        let store =
            open(&server().url(&database), PgOptions { grouping, money_connections: 2, ..options() }).await;
        let services = services(&store, 0);
        let owner = services.funded(100_000).await;
        let mut staying = Vec::new();
        for number in 0..200_u64 {
            let (store, transition) = (store.clone(), services.withdrawal_intent(owner, 10));
            let call = tokio::spawn(async move { store.apply(transition).await });
            if number % 2 == 0 {
                staying.push(call);
            } else {
                tokio::task::yield_now().await;
                call.abort();
            }
        }
        for call in staying {
            assert_eq!(ends(call).await.unwrap(), Ok(()));
        }
        services.apply(services.withdrawal_intent(owner, 10)).await;
        assert_books_are_clean(&store).await;
        assert_eq!(store.claim(Timestamp::from_micros(0), Duration::from_secs(1), 1).await, Ok(Vec::new()));
    }
}
