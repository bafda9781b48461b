//! Books, read back and forth and by what is asked for.

use std::time::Duration;

use pix_domain::ids::IntegratorId;
use pix_domain::list::Cursor;
use pix_domain::time::Timestamp;
use pix_domain::wallet::statement::{MAX_DISORDER, StatementQuery, StatementService};
use pix_domain::wallet::store::EntryQuery;
use pix_domain::wallet::{Entry, Reason};
use uuid::Uuid;

use crate::builders::{cents, some_fees};
use crate::{Services, StoreHarness, services};

const LENGTH: usize = 60;
const ROUNDS: u64 = 20;

async fn read(services: &Services, integrator_id: IntegratorId, query: &EntryQuery) -> Vec<Entry> {
    services.stores.domain.wallets.entries(integrator_id, query).await.expect("entries")
}

async fn page(services: &Services, owner: IntegratorId, query: &StatementQuery) -> (Vec<Entry>, bool) {
    let statement = StatementService::new(services.ports.clone());
    let page = statement.page(owner, query.clone()).await.expect("a page");
    (page.items, page.has_older)
}

/// A book whose entries are ten minutes apart, give or take, so that their times are not quite in order. From first to last.
async fn a_book(services: &Services) -> (IntegratorId, Vec<Entry>) {
    let owner = services.funded(1_000_000).await;
    services.set_fees(owner, some_fees()).await;
    for number in 0..ROUNDS {
        services.wait(Duration::from_mins(10));
        let mut intent = services.withdrawal_intent(owner, 1_000);
        let record = intent.withdrawal().cloned().expect("a withdrawal");
        intent.at = intent.at.minus(Duration::from_mins(number * 17 % 50));
        services.apply(intent).await;
        services.wait(Duration::from_secs(1));
        let fail = pix_domain::charges::Failure { code: "no".into(), message: "no".into() };
        let step = if number % 2 == 0 {
            record.fail(fail, services.now())
        } else {
            record.complete(
                crate::builders::report(Uuid::nil(), pix_domain::provider::Progress::Completed),
                services.now(),
            )
        };
        services.apply(crate::builders::next(step)).await;
        services.paid_charge(owner, 700).await;
    }
    let book = read(services, owner, &EntryQuery::after(0, 10_000)).await;
    assert!(book.len() > LENGTH, "{}", book.len());
    assert!(book.windows(2).any(|pair| pair[0].at > pair[1].at), "all times are in order");
    (owner, book)
}

/// Entries by number, reason, record and time, in both directions: as a plain filter of the whole book.
pub async fn entries_are_read_by_what_is_asked_for(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, book) = a_book(&services).await;
    let middle = book[LENGTH / 2];
    let all = EntryQuery::after(0, 10_000);
    let queries = [
        EntryQuery { after: 5, before: 17, ..all.clone() },
        EntryQuery { after: 17, before: 5, ..all.clone() },
        EntryQuery { after: u64::MAX, ..all.clone() },
        EntryQuery { after: 3, limit: 4, ..all.clone() },
        EntryQuery { reasons: vec![Reason::WithdrawalHold], ..all.clone() },
        EntryQuery { reasons: vec![Reason::ChargePaid, Reason::WithdrawalRelease], limit: 7, ..all.clone() },
        EntryQuery { reasons: vec![Reason::OwedRepaid], ..all.clone() },
        EntryQuery { resource_id: Some(middle.posting.resource.id), ..all.clone() },
        EntryQuery { resource_id: Some(Uuid::nil()), ..all.clone() },
        EntryQuery { created_from: Some(middle.at), ..all.clone() },
        EntryQuery { created_to: Some(middle.at), ..all.clone() },
        EntryQuery { created_from: Some(middle.at), created_to: Some(middle.at), ..all.clone() },
        EntryQuery { created_from: Some(book[9].at), created_to: Some(middle.at), limit: 5, ..all.clone() },
        all,
    ];
    for query in queries {
        let limit = usize::try_from(query.limit).expect("a small number");
        let wanted: Vec<Entry> = book.iter().filter(|entry| query.wants(entry)).copied().collect();
        let backwards: Vec<Entry> = wanted.iter().rev().take(limit).copied().collect();
        let forwards: Vec<Entry> = wanted.into_iter().take(limit).collect();
        assert_eq!(read(&services, owner, &query).await, forwards, "{query:?}");
        let query = EntryQuery { newest_first: true, ..query };
        assert_eq!(read(&services, owner, &query).await, backwards, "{query:?}");
        assert_eq!(read(&services, IntegratorId(services.id()), &query).await, Vec::new(), "{query:?}");
    }
}

/// A statement is the book, newest first; what is written while it is read is before its first page.
pub async fn a_statement_neither_skips_nor_repeats(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, book) = a_book(&services).await;
    let mut query = StatementQuery { limit: 7, ..StatementQuery::default() };
    let mut seen = Vec::new();
    loop {
        let (entries, more) = page(&services, owner, &query).await;
        seen.extend_from_slice(&entries);
        services.paid_charge(owner, 5).await;
        if !more {
            break;
        }
        let last = entries.last().expect("a page before others has entries");
        query.cursor = Some(Cursor::OlderThan(last.number));
    }
    let newest_first: Vec<Entry> = book.iter().rev().copied().collect();
    assert_eq!(seen, newest_first);
    // And back: the nearest ones that are newer.
    query.cursor = Some(Cursor::NewerThan(book[20].number));
    assert_eq!(page(&services, owner, &query).await.0, newest_first[book.len() - 28..book.len() - 21]);
    let sum: i64 =
        seen.iter().map(|entry| entry.posting.effect_cents(pix_domain::wallet::Account::Available)).sum();
    assert_eq!(Some(cents(sum)), book.last().map(|entry| entry.available_after));
}

/// Between two times are all entries of those times, though their numbers are not quite in the order of time.
pub async fn a_statement_of_a_time_is_whole(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, book) = a_book(&services).await;
    let times: Vec<Option<Timestamp>> = std::iter::once(None)
        .chain(book.iter().step_by(5).map(|entry| Some(entry.at)))
        .chain([Some(book[0].at.minus(MAX_DISORDER * 3)), Some(services.now().plus(MAX_DISORDER * 3))])
        .collect();
    for created_from in &times {
        for created_to in &times {
            let (created_from, created_to) = (*created_from, *created_to);
            let query =
                StatementQuery { created_from, created_to, limit: 1_000, ..StatementQuery::default() };
            let plain = EntryQuery { created_from, created_to, ..EntryQuery::after(0, 1_000) };
            let wanted: Vec<Entry> = book.iter().rev().filter(|entry| plain.wants(entry)).copied().collect();
            assert_eq!(page(&services, owner, &query).await, (wanted, false), "{query:?}");
        }
    }
    let one = book[LENGTH / 2].posting.resource.id;
    let query = StatementQuery { resource_id: Some(one), limit: 1_000, ..StatementQuery::default() };
    let wanted: Vec<Entry> =
        book.iter().rev().filter(|entry| entry.posting.resource.id == one).copied().collect();
    assert_eq!(page(&services, owner, &query).await, (wanted, false));
}
