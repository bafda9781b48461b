//! The proof of the books: a right book has no difference, and every kind of wrong one has.

use pix_domain::audit::{Book, check, check_across};
use pix_domain::charges::state as charge_state;
use pix_domain::ids::{ChargeId, Version};
use pix_domain::provider::Progress;
use pix_domain::refunds::state as refund_state;
use pix_domain::wallet::{Account, Entry, Posting, Reason};
use pix_domain::withdrawals::{OutgoingState, state as withdrawal_state};
use uuid::Uuid;

use crate::samples::*;
use crate::world::World;

/// A book with a charge paid twice, a refund of it done, one failed and one in progress, a withdrawal that came back in
/// part, one in progress, one failed, and a charge that nobody paid.
fn right_book() -> Book {
    let world = World::with_available(50_000);
    world.apply(&charge_state::open(new_charge(9), ticket(), T0)).unwrap();
    let charge = world.paid_charge(2, PAID_CENTS);
    world.apply(&next(charge.pay(payment(77, 700), &fixed_fee(10), at(1)))).unwrap();
    for id in [20, 21, 22] {
        world
            .apply(&refund_state::accept(new_refund(id, 500), world.charge(2), at(2), GRACE).unwrap())
            .unwrap();
    }
    let refund = |id: u128| {
        let stored = world.stored();
        stored.book.refunds.iter().find(|refund| refund.id.0.as_u128() == id).unwrap().clone()
    };
    world.apply(&next(refund(20).complete(world.charge(2), report(Progress::Completed), at(3)))).unwrap();
    world.apply(&next(refund(21).fail(world.charge(2), failure(), at(3)))).unwrap();
    for id in [30, 31, 32] {
        world.apply(&withdrawal_state::accept(new_withdrawal(id), at(2), GRACE).unwrap()).unwrap();
    }
    let withdrawal = |id: u128| {
        let stored = world.stored();
        stored.book.withdrawals.iter().find(|record| record.id.0.as_u128() == id).unwrap().clone()
    };
    world.apply(&next(withdrawal(30).complete(report(Progress::Completed), at(3)))).unwrap();
    world.apply(&next(withdrawal(30).give_back(cents(200), at(4)))).unwrap();
    world.apply(&next(withdrawal(31).fail(failure(), at(3)))).unwrap();
    let mut book = world.stored().book.clone();
    book.charges.sort_by_key(|record| record.id);
    book.withdrawals.sort_by_key(|record| record.id);
    book.refunds.sort_by_key(|record| record.id);
    book
}

/// Where the records stand in the sorted book.
const UNPAID: usize = 1;
const PAID: usize = 0;

type Mutation = (&'static str, fn(&mut Book));

const OF_ENTRIES: &[Mutation] = &[
    ("an entry is missing", |book| {
        book.entries.remove(1);
    }),
    ("the last entry is missing", |book| {
        book.entries.pop();
    }),
    ("an entry stands twice", |book| {
        let last = *book.entries.last().unwrap();
        book.entries.push(last);
    }),
    ("two entries are swapped", |book| book.entries.swap(0, 1)),
    ("a number is wrong", |book| book.entries[2].number += 1),
    ("an amount is wrong", |book| book.entries[0].posting.amount = cents(1)),
    ("an amount is nothing", |book| book.entries[0].posting.amount = cents(0)),
    ("an account is wrong", |book| book.entries[0].posting.debit = Account::Fees),
    ("both accounts are one", |book| book.entries[0].posting.credit = book.entries[0].posting.debit),
    ("a reason is wrong", |book| book.entries[0].posting.reason = Reason::WithdrawalReturn),
    ("available after it is wrong", |book| book.entries[3].available_after = cents(1)),
    ("held after it is wrong", |book| book.entries[3].held_after = cents(1)),
    ("an entry is another's", |book| book.entries[0].integrator_id = OTHER),
    ("an entry is for another's record", |book| book.entries[0].posting.resource.integrator_id = OTHER),
    ("an entry is for no record", |book| book.entries[0].posting.resource.id = Uuid::from_u128(404)),
    ("a balance goes below zero", |book| {
        let resource = book.withdrawals[0].resource();
        let posting = Posting::of(Reason::WithdrawalHold, cents(i64::MAX / 2), resource).unwrap();
        book.entries[0].posting = posting;
    }),
    ("the wallet has more", |book| book.wallet.available = cents(book.wallet.available.get() + 1)),
    ("the wallet holds less", |book| book.wallet.held = cents(book.wallet.held.get() - 1)),
    ("the wallet counts wrong", |book| book.wallet.entries += 1),
];

const OF_RECORDS: &[Mutation] = &[
    ("a charge is missing", |book| drop(book.charges.remove(PAID))),
    ("a charge was paid more", |book| {
        book.charges[PAID].credited.as_mut().unwrap().amount_paid = cents(PAID_CENTS + 701);
    }),
    ("a charge was never paid", |book| book.charges[PAID].credited = None),
    ("a charge's fee is wrong", |book| book.charges[PAID].credited.as_mut().unwrap().fee = cents(9)),
    ("a charge reserves more", |book| book.charges[PAID].refund_reserved = cents(501)),
    ("a charge reserves nothing", |book| book.charges[PAID].refund_reserved = cents(0)),
    ("a charge was refunded more", |book| book.charges[PAID].refunded = cents(501)),
    ("a charge without payments was refunded", |book| book.charges[UNPAID].refunded = cents(1)),
    ("a charge is at another version", |book| book.charges[PAID].version = Version(1)),
    ("a charge is another's", |book| book.charges[UNPAID].integrator_id = OTHER),
    ("a withdrawal is missing", |book| drop(book.withdrawals.remove(2))),
    ("a withdrawal's amount is wrong", |book| book.withdrawals[2].amount = amount(999)),
    ("a withdrawal's fee is wrong", |book| book.withdrawals[0].fee = cents(0)),
    ("a withdrawal in progress is called done", |book| {
        book.withdrawals[2].state = OutgoingState::Completed;
    }),
    ("a withdrawal in progress is called failed", |book| {
        book.withdrawals[2].state = OutgoingState::Failed(failure());
    }),
    ("a failed withdrawal is called uncertain", |book| {
        book.withdrawals[1].state = OutgoingState::Uncertain;
    }),
    ("a withdrawal came back more", |book| book.withdrawals[0].returned = cents(201)),
    ("a withdrawal is at another version", |book| book.withdrawals[0].version = Version(9)),
    ("a refund is missing", |book| drop(book.refunds.remove(2))),
    ("a refund's amount is wrong", |book| book.refunds[0].amount = amount(1)),
    ("a refund done is called in progress", |book| book.refunds[0].state = OutgoingState::Accepted),
    ("a refund in progress is called failed", |book| {
        book.refunds[2].state = OutgoingState::Failed(failure());
    }),
    ("a refund is of another charge", |book| book.refunds[0].charge_id = book.charges[UNPAID].id),
    ("a refund is at another version", |book| book.refunds[0].version = Version(9)),
    ("a receipt is missing", |book| drop(book.receipts.pop())),
    ("a receipt is of more", |book| book.receipts[0].payment.amount = amount(1)),
    ("a receipt is of another charge", |book| {
        let unpaid = book.charges[UNPAID].id;
        book.receipts.last_mut().unwrap().charge_id = unpaid;
    }),
    ("a receipt is of no charge", |book| {
        book.receipts[0].charge_id = ChargeId(Uuid::from_u128(404));
    }),
    ("a PIX was credited twice", |book| {
        let first = book.receipts[0].payment.key.clone();
        book.receipts.last_mut().unwrap().payment.key = first;
    }),
    ("an event is missing", |book| *book.events.values_mut().next().unwrap() -= 1),
    ("an event is too many", |book| *book.events.values_mut().last().unwrap() += 1),
    ("a record has no events", |book| {
        book.events.pop_first();
    }),
    ("events are of no record", |book| {
        let mut nobody = book.charges[0].resource();
        nobody.id = Uuid::from_u128(404);
        book.events.insert(nobody, 1);
    }),
];

#[test]
fn a_right_book_has_no_difference() {
    assert_eq!(check(INTEGRATOR, &right_book()), []);
    assert_eq!(check(INTEGRATOR, &Book::default()), []);
}

#[test]
fn every_kind_of_wrong_book_has_a_difference() {
    for (what, mutate) in OF_ENTRIES.iter().chain(OF_RECORDS) {
        let mut book = right_book();
        mutate(&mut book);
        let differences = check(INTEGRATOR, &book);
        assert!(!differences.is_empty(), "not found: {what}");
        assert!(differences.iter().all(|difference| difference.integrator_id == INTEGRATOR));
    }
}

#[test]
fn a_refund_of_no_charge_is_a_difference_even_when_its_money_is_right() {
    for which in [0, 2] {
        let mut book = right_book();
        book.refunds[which].charge_id = ChargeId(Uuid::from_u128(404));
        let differences = check(INTEGRATOR, &book);
        assert!(differences.iter().any(|found| found.what.contains("unknown charge")), "{differences:?}");
    }
}

#[test]
fn what_moves_nothing_or_is_anothers_is_a_difference_even_when_all_sums_are_right() {
    let mut book = right_book();
    let last = *book.entries.last().unwrap();
    let nothing = Posting { amount: cents(0), ..last.posting };
    book.entries.push(Entry { number: last.number + 1, posting: nothing, ..last });
    book.wallet.entries += 1;
    let differences = check(INTEGRATOR, &book);
    assert!(differences.len() == 1 && differences[0].what.contains("moves nothing"), "{differences:?}");

    let mut book = right_book();
    let events = book.events.remove(&book.charges[UNPAID].resource()).unwrap();
    book.charges[UNPAID].integrator_id = OTHER;
    book.events.insert(book.charges[UNPAID].resource(), events);
    let differences = check(INTEGRATOR, &book);
    assert!(differences.len() == 1 && differences[0].what.contains("another integrator"), "{differences:?}");
}

#[test]
fn the_book_of_one_is_not_the_book_of_another() {
    assert!(!check(OTHER, &right_book()).is_empty());
}

#[test]
fn what_was_credited_to_two_is_seen_over_all_books_alone() {
    let (book, mut other) = (right_book(), World::new().stored().book.clone());
    assert_eq!(check_across([(INTEGRATOR, &book), (OTHER, &other)]), []);
    let receipt = book.receipts.last().unwrap().clone();
    let charge_id = ChargeId(Uuid::from_u128(500));
    other.receipts.push(pix_domain::charges::Receipt { integrator_id: OTHER, charge_id, ..receipt });
    let differences = check_across([(INTEGRATOR, &book), (OTHER, &other)]);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].integrator_id, OTHER);
    assert_eq!(differences[0].resource.unwrap().id, charge_id.0);
    assert!(differences[0].what.contains(&INTEGRATOR.to_string()), "{differences:?}");
}

#[test]
fn two_records_that_are_one_payment_at_the_provider_are_seen() {
    const FIRST: &str = "E1234567820261122120000000000001";
    let (mut book, mut other) = (right_book(), World::new().stored().book.clone());
    let mut withdrawal = book.withdrawals[0].clone();
    assert!(withdrawal.provider_id.is_some());
    withdrawal.integrator_id = OTHER;
    other.withdrawals.push(withdrawal);
    let said = |book: &Book, other: &Book| {
        let differences = check_across([(INTEGRATOR, book), (OTHER, other)]);
        differences.into_iter().map(|difference| difference.what).collect::<Vec<_>>()
    };
    // Without an end-to-end id, or with the same one.
    book.withdrawals[0].end_to_end_id = None;
    let found = said(&book, &other);
    assert!(found.len() == 1 && found[0].contains("provider's id"), "{found:?}");
    for record in [&mut book.withdrawals[0], &mut other.withdrawals[0]] {
        record.end_to_end_id = Some(FIRST.to_owned());
    }
    let found = said(&book, &other);
    assert!(found.len() == 1 && found[0].contains(FIRST), "{found:?}");
    // Of another provider, before this one: the same number, and another payment.
    other.withdrawals[0].end_to_end_id = Some(FIRST.replace("01", "02"));
    assert_eq!(said(&book, &other), Vec::<String>::new());
    // One payment, whatever its provider calls it.
    other.withdrawals[0].end_to_end_id = Some(FIRST.to_owned());
    other.withdrawals[0].provider_id = None;
    assert_eq!(said(&book, &other).len(), 1);
    // What is no end-to-end id names nothing.
    for record in [&mut book.withdrawals[0], &mut other.withdrawals[0]] {
        record.end_to_end_id = Some("none".to_owned());
    }
    assert_eq!(said(&book, &other), Vec::<String>::new());
    // A withdrawal and a refund may have one number; two refunds of one book may not.
    book.refunds[0].provider_id = book.withdrawals[0].provider_id.clone();
    assert_eq!(said(&book, &other), Vec::<String>::new());
    book.refunds[1].provider_id = book.refunds[0].provider_id.clone();
    let found = said(&book, &other);
    assert!(found.len() == 1 && found[0].contains("the refund"), "{found:?}");
    // By the id of the return; the end-to-end id of the payment that goes back says nothing, for it may go back in parts.
    for (id, is_one) in [(FIRST.replace('E', "D"), true), (FIRST.to_owned(), false)] {
        book.refunds[0].provider_id = None;
        for refund in &mut book.refunds[..2] {
            refund.return_id = Some(id.clone());
        }
        let found = said(&book, &other);
        assert_eq!(found.iter().any(|what| what.contains("return id")), is_one, "{found:?}");
    }
}
