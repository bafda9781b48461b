//! Pages, newest first, that neither skip nor repeat a row.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pix_domain::charges::{Charge, NewCharge, state as charge_state};
use pix_domain::ids::{ChargeId, IntegratorId};
use pix_domain::list::{Cursor, ListQuery};
use pix_domain::metadata::Metadata;
use pix_domain::provider::Progress;
use pix_domain::withdrawals::{Withdrawal, state as withdrawal_state};
use uuid::Uuid;

use crate::builders::{name, next, report, ticket, withdrawal_command};
use crate::{Answer, Services, StoreHarness, services};

/// How many rows writers add at the most, each, while others read.
const MOST_WRITES: usize = 2_000;

async fn charges(services: &Services, integrator_id: IntegratorId, query: ListQuery) -> Vec<Charge> {
    services.stores.domain.charges.list(integrator_id, &query).await.expect("a list")
}

async fn withdrawals(services: &Services, integrator_id: IntegratorId, query: ListQuery) -> Vec<Withdrawal> {
    services.stores.domain.withdrawals.list(integrator_id, &query).await.expect("a list")
}

fn first(limit: u32) -> ListQuery {
    ListQuery { limit, ..ListQuery::default() }
}

fn with_cursor(cursor: Cursor, limit: u32) -> ListQuery {
    ListQuery { cursor: Some(cursor), ..first(limit) }
}

fn ids(charges: &[Charge]) -> Vec<ChargeId> {
    charges.iter().map(|charge| charge.id).collect()
}

/// Live charges, one a second; their ids, newest first.
async fn some_charges(services: &Services, integrator_id: IntegratorId, count: usize) -> Vec<ChargeId> {
    let mut made = Vec::new();
    for _ in 0..count {
        let intent = services.charge_intent(integrator_id);
        made.insert(0, intent.charge().expect("a charge").id);
        services.apply(intent).await;
        services.wait(Duration::from_secs(1));
    }
    made
}

/// All pages, from the newest row to the oldest.
async fn walk(services: &Services, integrator_id: IntegratorId, limit: u32) -> Vec<Vec<ChargeId>> {
    let mut pages: Vec<Vec<ChargeId>> = Vec::new();
    let mut query = first(limit);
    loop {
        let page = ids(&charges(services, integrator_id, query).await);
        let Some(last) = page.last() else { return pages };
        query = with_cursor(Cursor::OlderThan(last.0), limit);
        pages.push(page);
    }
}

/// As many rows as are asked for, or as there are.
pub async fn a_list_has_as_many_rows_as_asked_for(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let made = some_charges(&services, integrator_id, 7).await;
    for limit in [1, 6, 7, 8, 101] {
        let expected = &made[..made.len().min(limit)];
        let limit = u32::try_from(limit).expect("a small number");
        assert_eq!(ids(&charges(&services, integrator_id, first(limit)).await), expected);
    }
    let middle = made[3].0;
    assert_eq!(
        ids(&charges(&services, integrator_id, with_cursor(Cursor::OlderThan(middle), 2)).await),
        made[4..6]
    );
    let newer = ids(&charges(&services, integrator_id, with_cursor(Cursor::NewerThan(middle), 2)).await);
    assert_eq!(newer, made[1..3], "the nearest ones, newest first");
    let newest = with_cursor(Cursor::NewerThan(made[0].0), 5);
    assert_eq!(charges(&services, integrator_id, newest).await, Vec::new());
    let oldest = with_cursor(Cursor::OlderThan(made[6].0), 5);
    assert_eq!(charges(&services, integrator_id, oldest).await, Vec::new());
}

/// A cursor names a place in the order of ids, not a row: one that isn't there will do.
pub async fn a_cursor_needs_no_row_of_its_own(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let older = some_charges(&services, integrator_id, 2).await;
    let nobody = services.id();
    let newer = some_charges(&services, integrator_id, 2).await;
    let found = charges(&services, integrator_id, with_cursor(Cursor::OlderThan(nobody), 9)).await;
    assert_eq!(ids(&found), older);
    let found = charges(&services, integrator_id, with_cursor(Cursor::NewerThan(nobody), 9)).await;
    assert_eq!(ids(&found), newer);
}

/// Walking from the newest row to the oldest and back shows the same rows both ways.
pub async fn the_way_back_shows_the_same_rows(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let made = some_charges(&services, integrator_id, 23).await;
    let pages = walk(&services, integrator_id, 5).await;
    assert_eq!(pages.concat(), made);
    for pair in pages.windows(2) {
        let [newer, older] = pair else { unreachable!("windows of two") };
        let back = with_cursor(Cursor::NewerThan(older[0].0), 5);
        assert_eq!(ids(&charges(&services, integrator_id, back).await), *newer);
    }
    let page = services
        .charges
        .list(integrator_id, with_cursor(Cursor::NewerThan(pages[1][0].0), 5))
        .await
        .expect("a page");
    assert_eq!((ids(&page.items), page.has_older, page.has_newer), (pages[0].clone(), true, false));
}

/// While others insert, a walk sees every row that was there when it began exactly once, and none twice.
pub async fn a_walk_neither_skips_nor_repeats_while_others_insert(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let made = some_charges(&services, integrator_id, 60).await;
    let enough = Arc::new(AtomicBool::new(false));
    let writers = (0..4).map(|_| {
        let (services, enough) = (services.clone(), enough.clone());
        tokio::spawn(async move {
            for _ in 0..MOST_WRITES {
                if enough.load(Ordering::SeqCst) {
                    return;
                }
                services.apply(services.charge_intent(integrator_id)).await;
                tokio::task::yield_now().await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for limit in [1, 7, 25] {
        let seen = walk(&services, integrator_id, limit).await.concat();
        assert!(seen.is_sorted_by(|newer, older| newer > older), "a row was repeated or out of order");
        let seen: BTreeSet<_> = seen.into_iter().collect();
        assert!(made.iter().all(|id| seen.contains(id)), "a row was skipped");
    }
    enough.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.expect("a writer");
    }
}

/// Each filter takes away what it says, and they add up; the range of time has its beginning and not its end.
pub async fn filters_take_away_what_they_say(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let begin = services.now();
    let made = some_charges(&services, integrator_id, 6).await;
    // By the second they were made in.
    let of = |second: usize| made[5 - second];
    for id in [of(0), of(2)] {
        let charge = services.charges.get(integrator_id, id).await.expect("a charge");
        services.apply(next(charge.cancel(services.now()))).await;
    }
    for id in [of(1), of(3)] {
        let charge = services.charges.get(integrator_id, id).await.expect("a charge");
        services.apply(services.credit_intent(&charge, services.payment(100))).await;
    }
    let list = async |query: ListQuery| ids(&charges(&services, integrator_id, query).await);
    let second = |number| Some(begin.plus(Duration::from_secs(number)));
    assert_eq!(list(ListQuery { states: vec!["canceled"], ..first(9) }).await, [of(2), of(0)]);
    assert_eq!(
        list(ListQuery { states: vec!["paid", "pending"], ..first(9) }).await,
        [of(5), of(4), of(3), of(1)]
    );
    assert_eq!(list(ListQuery { states: vec!["expired"], ..first(9) }).await, []);
    assert_eq!(list(ListQuery { created_from: second(3), ..first(9) }).await, [of(5), of(4), of(3)]);
    assert_eq!(list(ListQuery { created_to: second(3), ..first(9) }).await, [of(2), of(1), of(0)]);
    let range = ListQuery { created_from: second(1), created_to: second(4), ..first(9) };
    assert_eq!(list(range.clone()).await, [of(3), of(2), of(1)]);
    let micro_later = begin.plus(Duration::from_secs(3) + Duration::from_micros(1));
    assert_eq!(list(ListQuery { created_from: Some(micro_later), ..first(9) }).await, [of(5), of(4)]);
    let named = |id: ChargeId| Some(name(&format!("charge {id}")));
    assert_eq!(list(ListQuery { external_id: named(of(2)), ..first(9) }).await, [of(2)]);
    assert_eq!(list(ListQuery { external_id: Some(name("charge")), ..first(9) }).await, []);
    let range_of_ids = ListQuery { least_id: Some(of(1).0), end_id: Some(of(4).0), ..first(9) };
    assert_eq!(list(range_of_ids).await, [of(3), of(2), of(1)]);
    let both = ListQuery { external_id: named(of(2)), states: vec!["paid"], ..first(9) };
    assert_eq!(list(both).await, []);
    let paid_in_range = ListQuery { states: vec!["paid"], ..range.clone() };
    assert_eq!(list(paid_in_range.clone()).await, [of(3), of(1)]);
    let older = Some(Cursor::OlderThan(of(3).0));
    assert_eq!(list(ListQuery { cursor: older, ..paid_in_range.clone() }).await, [of(1)]);
    let newer = Some(Cursor::NewerThan(of(1).0));
    assert_eq!(list(ListQuery { cursor: newer, limit: 1, ..paid_in_range }).await, [of(3)]);
    assert_eq!(list(ListQuery { limit: 2, ..range }).await, [of(3), of(2)]);
}

/// A list by metadata has those records that have all the pairs, whatever else they have; it is not read by likeness.
pub async fn records_are_listed_by_what_is_attached_to_them(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, payer) = (services.integrator().await, services.funded(100_000).await);
    let of = |pairs: &[(&str, &str)]| {
        let mut metadata = Metadata::default();
        for (key, value) in pairs {
            metadata.insert(key, value).expect("a pair");
        }
        metadata
    };
    let odd = "50% of \"it\" \\ 'é' {}";
    let all = [
        of(&[]),
        of(&[("order", "7")]),
        of(&[("order", "77"), ("shop.id", "a-b")]),
        of(&[("order", "7"), ("shop.id", "a-b"), ("note", odd)]),
        of(&[("Order", "7")]),
        of(&[("shop", "7")]),
    ];
    let (mut charge_ids, mut withdrawal_ids) = (Vec::new(), Vec::new());
    for metadata in &all {
        let mut new = services.new_charge(owner);
        new.metadata = metadata.clone();
        let id = new.id;
        charge_ids.insert(0, (id.0, metadata));
        services.apply(charge_state::open(new, ticket(id), services.now())).await;
        let mut new = services.new_withdrawal(payer, 100);
        new.metadata = metadata.clone();
        withdrawal_ids.insert(0, (new.id.0, metadata));
        let intent = withdrawal_state::accept(new, services.now(), Duration::ZERO);
        services.apply(intent.expect("a withdrawal")).await;
    }
    let other = services.integrator().await;
    for asked in all.iter().cloned().chain([
        of(&[("note", odd)]),
        of(&[("shop.id", "a-b")]),
        of(&[("shop.id", "a_b")]),
        of(&[("note", "50%")]),
        of(&[("nothing", "7")]),
        of(&[("order", "7"), ("shop.id", "x")]),
    ]) {
        let wanted = |ids: &[(Uuid, &Metadata)]| -> Vec<Uuid> {
            ids.iter().filter(|(_, has)| has.has_all_of(&asked)).map(|(id, _)| *id).collect()
        };
        let query = ListQuery { metadata: asked.clone(), ..first(50) };
        let found = charges(&services, owner, query.clone()).await;
        assert_eq!(found.iter().map(|row| row.id.0).collect::<Vec<_>>(), wanted(&charge_ids), "{asked:?}");
        let found = withdrawals(&services, payer, query.clone()).await;
        assert_eq!(
            found.iter().map(|row| row.id.0).collect::<Vec<_>>(),
            wanted(&withdrawal_ids),
            "{asked:?}"
        );
        let newest = charges(&services, owner, ListQuery { limit: 1, ..query.clone() }).await;
        assert_eq!(newest.first().map(|row| row.id.0), wanted(&charge_ids).first().copied(), "{asked:?}");
        assert_eq!(charges(&services, other, query).await, Vec::new());
    }
}

/// Withdrawals are listed as charges are.
pub async fn withdrawals_are_listed_alike(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let begin = services.now();
    let mut made = Vec::new();
    for answer in [Answer::Complete, Answer::Reject, Answer::Accept, Answer::Unavailable, Answer::LostRequest]
    {
        services.provider.answers_next(answer);
        let withdrawal = services.withdrawals.create(withdrawal_command(integrator_id, 100)).await;
        made.insert(0, withdrawal.expect("a withdrawal").into_inner());
        services.wait(Duration::from_secs(1));
    }
    let list = async |query: ListQuery| withdrawals(&services, integrator_id, query).await;
    assert_eq!(list(first(9)).await, made);
    assert_eq!(list(first(2)).await, made[..2]);
    assert_eq!(list(with_cursor(Cursor::OlderThan(made[1].id.0), 2)).await, made[2..4]);
    assert_eq!(list(with_cursor(Cursor::NewerThan(made[3].id.0), 2)).await, made[1..3]);
    let states = vec!["completed", "queued", "failed"];
    assert_eq!(
        list(ListQuery { states, ..first(9) }).await,
        [made[1].clone(), made[3].clone(), made[4].clone()]
    );
    let external_id = Some(made[2].external_id.clone());
    assert_eq!(list(ListQuery { external_id, ..first(9) }).await, made[2..3]);
    let (created_from, created_to) =
        (Some(begin.plus(Duration::from_secs(1))), Some(begin.plus(Duration::from_secs(3))));
    assert_eq!(list(ListQuery { created_from, created_to, ..first(9) }).await, made[2..4]);
}

/// All refunds of a charge, oldest first, and of no other.
pub async fn refunds_of_a_charge_are_listed_oldest_first(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let (mut charge, mut other) = (
        services.paid_charge(integrator_id, 100_000).await,
        services.paid_charge(integrator_id, 100_000).await,
    );
    let mut made = Vec::new();
    for _ in 0..120 {
        for charge in [&mut charge, &mut other] {
            let intent = services.refund_intent(charge, 10);
            *charge = intent.charge().cloned().expect("the charge");
            made.push(intent.refund().cloned().expect("a refund"));
            services.apply(intent).await;
        }
    }
    let refunds = services.refunds.list_of_charge(integrator_id, charge.id).await.expect("refunds");
    made.retain(|refund| refund.charge_id == charge.id);
    assert_eq!(refunds, made);
    let completed =
        next(made[0].clone().complete(charge, report(made[0].id.0, Progress::Completed), services.now()));
    services.apply(completed).await;
    let refunds = services.refunds.list_of_charge(integrator_id, made[0].charge_id).await.expect("refunds");
    assert_eq!(refunds[0].id, made[0].id);
}

/// A charge that changes keeps its place.
pub async fn a_change_keeps_a_row_in_its_place(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let made = some_charges(&services, integrator_id, 3).await;
    let charge = services.charges.get(integrator_id, made[2]).await.expect("a charge");
    services.apply(services.credit_intent(&charge, services.payment(100))).await;
    assert_eq!(ids(&charges(&services, integrator_id, first(9)).await), made);
    // A row with an older id is older, whenever it is written.
    let late = NewCharge { id: ChargeId(uuid::Uuid::from_u128(7)), ..services.new_charge(integrator_id) };
    let ticket = ticket(late.id);
    services.apply(pix_domain::charges::state::open(late, ticket, services.now())).await;
    let listed = ids(&charges(&services, integrator_id, first(9)).await);
    assert_eq!(listed.last(), Some(&ChargeId(uuid::Uuid::from_u128(7))));
}
