//! What has ended is held against the provider once more: what agrees changes nothing, what is news is booked once, and what
//! contradicts the books moves nothing and is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pix_domain::audit::Book;
use pix_domain::charges::ChargeState;
use pix_domain::ids::ResourceRef;
use pix_domain::money::Cents;
use pix_domain::proofs::{PAGE, Proved, Prover};
use pix_domain::provider::{
    ChargeReport, MockSettlementProvider, OutgoingReport, Payment, Progress, ProviderBody, ProviderError,
};
use pix_domain::time::Timestamp;
use pix_domain::transition::Step;
use pix_domain::wallet::Reason;
use pix_domain::wallet::store::MockWalletStore;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

use crate::refunds::{CHARGE, REFUND_CENTS, paid_world, store_refund};
use crate::samples::*;
use crate::withdrawals::{FUNDS_CENTS, world_in};
use crate::world::World;

type Verb = fn(Withdrawal, Timestamp) -> Step;

fn complete(withdrawal: Withdrawal, now: Timestamp) -> Step {
    withdrawal.complete(report(Progress::Completed), now)
}

fn fail(withdrawal: Withdrawal, now: Timestamp) -> Step {
    withdrawal.fail(failure(), now)
}

fn settle_late(withdrawal: Withdrawal, now: Timestamp) -> Step {
    withdrawal.complete(report(Progress::Completed), now)
}

fn come_back(withdrawal: Withdrawal, now: Timestamp) -> Step {
    withdrawal.give_back(cents(400), now)
}

fn failed() -> Progress {
    Progress::Failed { code: "x".into(), message: "no".into() }
}

fn says(answer: Result<Option<OutgoingReport>, ProviderError>) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    let of_refund = answer.clone();
    provider.expect_consult_payment().returning(move |_| answer.clone());
    provider.expect_consult_refund().returning(move |_| of_refund.clone());
    // However long ago it was sent: what has ended is never failed because it isn't known.
    provider.expect_not_found_is_proof_after().returning(|| Some(Duration::ZERO));
    provider
}

fn paid(payments: Vec<Payment>, refunded: Cents) -> ChargeReport {
    let body = ProviderBody::default();
    ChargeReport { provider_id: provider_id("chg-1"), payments, refunded, canceled: false, body }
}

fn tells(payments: Vec<Payment>, refunded: Cents) -> MockSettlementProvider {
    let mut provider = MockSettlementProvider::new();
    let told = paid(payments, refunded);
    provider.expect_consult_charge().returning(move |_| Ok(Some(told.clone())));
    provider
}

async fn prove(world: &World, resource: ResourceRef, provider: MockSettlementProvider) -> Proved {
    Prover::new(world.ports(provider)).prove(resource, false).await.unwrap()
}

#[tokio::test]
async fn what_the_provider_says_of_an_ended_withdrawal_agrees_is_news_or_is_told() {
    let cases: Vec<(&[Verb], Option<Progress>, Proved, i64)> = vec![
        (&[complete], Some(Progress::Completed), Proved::Agrees, 0),
        (&[complete], Some(Progress::Returned(cents(400))), Proved::Learned, 400),
        (&[complete], Some(Progress::Returned(cents(1_000))), Proved::Learned, 1_000),
        (&[complete], Some(Progress::Returned(cents(1_001))), Proved::Differs("returned_more_than_sent"), 0),
        (&[complete], Some(failed()), Proved::Differs("failed_though_completed"), 0),
        (&[complete], Some(Progress::Accepted), Proved::Differs("not_settled_at_provider"), 0),
        (&[complete], None, Proved::Differs("not_known_at_provider"), 0),
        (&[complete, come_back], Some(Progress::Returned(cents(400))), Proved::Agrees, 0),
        (&[complete, come_back], Some(Progress::Completed), Proved::Differs("returned_less_at_provider"), 0),
        (
            &[complete, come_back],
            Some(Progress::Returned(cents(399))),
            Proved::Differs("returned_less_at_provider"),
            0,
        ),
        (&[fail], Some(failed()), Proved::Agrees, 0),
        (&[fail], None, Proved::Agrees, 0),
        (&[fail], Some(Progress::Returned(cents(1_000))), Proved::Agrees, 0),
        (&[fail], Some(Progress::Returned(cents(400))), Proved::Learned, -600),
        (&[fail], Some(Progress::Accepted), Proved::Differs("accepted_though_not_sent"), 0),
        (&[fail], Some(Progress::Completed), Proved::Learned, -1_000),
        (&[Withdrawal::queue, Withdrawal::cancel], Some(Progress::Completed), Proved::Learned, -1_000),
        (&[fail, settle_late], Some(Progress::Completed), Proved::Agrees, 0),
        (&[fail, settle_late], Some(failed()), Proved::Differs("failed_though_completed"), 0),
        (&[fail, settle_late], None, Proved::Differs("not_known_at_provider"), 0),
    ];
    for (steps, progress, expected, moved) in cases {
        let shown = format!("{progress:?} after {}", steps.len());
        let world = world_in(steps);
        let told_before = world.findings();
        let (before, resource) = (world.available(), world.withdrawal().resource());
        world.wait(Duration::from_hours(24));
        let provider = || says(Ok(progress.clone().map(report)));
        assert_eq!(prove(&world, resource, provider()).await, expected, "{shown}");
        assert_eq!((world.available(), world.held()), (before + moved, 0), "{shown}");
        let mut told = told_before.clone();
        told.extend(world.findings().into_iter().skip(told_before.len()));
        match &expected {
            Proved::Differs(code) => assert!(told[told_before.len()..].contains(code), "{shown}: {told:?}"),
            Proved::Learned if moved < 0 => assert!(told.contains(&"completed_though_not_sent"), "{shown}"),
            _ => assert_eq!(told, told_before, "{shown}"),
        }
        // Once more, and it is no news.
        let again = prove(&world, resource, provider()).await;
        assert_eq!(again, if expected == Proved::Learned { Proved::Agrees } else { expected }, "{shown}");
        assert_eq!(world.available(), before + moved, "{shown}");
    }
}

#[tokio::test]
async fn what_the_provider_says_of_an_ended_refund_agrees_or_is_told() {
    for (done, progress, expected) in [
        (true, Some(Progress::Completed), Proved::Agrees),
        (true, Some(failed()), Proved::Differs("failed_though_completed")),
        (true, Some(Progress::Accepted), Proved::Differs("not_settled_at_provider")),
        (true, None, Proved::Differs("not_known_at_provider")),
        (false, Some(failed()), Proved::Agrees),
        (false, None, Proved::Agrees),
        (false, Some(Progress::Accepted), Proved::Differs("accepted_though_not_sent")),
        (false, Some(Progress::Completed), Proved::Differs("completed_though_not_sent")),
    ] {
        let world = paid_world();
        store_refund(&world, REFUND_CENTS);
        let (refund, charge) = (world.refund(), world.charge(CHARGE));
        let ended = if done {
            refund.complete(charge, report(Progress::Completed), world.now())
        } else {
            refund.fail(charge, failure(), world.now())
        };
        world.apply(&next(ended)).unwrap();
        let before = (world.refund(), world.available(), world.held());
        // Money that went back though it was released is taken by what the charge tells.
        let went_back = if !done && progress == Some(Progress::Completed) { REFUND_CENTS } else { 0 };
        let mut provider = says(Ok(progress.map(report)));
        provider.expect_consult_charge().returning(move |_| {
            let payments = vec![payment(u32::try_from(CHARGE).unwrap(), PAID_CENTS)];
            Ok(Some(paid(payments, cents(went_back))))
        });
        let proved = prove(&world, world.refund().resource(), provider).await;
        assert_eq!((world.refund(), world.available() + went_back, world.held()), before);
        let told: Vec<_> = match proved {
            Proved::Differs(code) => vec![code],
            _ => vec![],
        };
        // A store keeps each once.
        let found: BTreeSet<_> = world.findings().into_iter().filter(|code| *code != "taken_back").collect();
        assert_eq!((proved, found), (expected, BTreeSet::from_iter(told)));
    }
}

#[tokio::test]
async fn what_came_in_later_is_credited_and_what_was_credited_and_is_not_there_is_told() {
    let first = || payment(u32::try_from(CHARGE).unwrap(), PAID_CENTS);
    for (payments, refunded, expected, moved) in [
        (vec![first()], 0, Proved::Agrees, 0),
        (vec![first(), payment(99, 300)], 0, Proved::Learned, 300 - 10),
        (vec![first()], 100, Proved::Learned, -100),
        (vec![], 0, Proved::Differs("paid_differs_at_provider"), 0),
        // Another one of the same amount doesn't stand for the first.
        (vec![payment(99, PAID_CENTS)], 0, Proved::Differs("paid_differs_at_provider"), PAID_CENTS - 10),
        // The first is told with another amount, so it is not credited as that.
        (
            vec![Payment { amount: amount(PAID_CENTS + 1), ..first() }],
            0,
            Proved::Differs("paid_differs_at_provider"),
            0,
        ),
    ] {
        let world = paid_world();
        let (resource, before) = (world.charge(CHARGE).resource(), world.available());
        let proved = prove(&world, resource, tells(payments.clone(), cents(refunded))).await;
        assert_eq!((&proved, world.available()), (&expected, before + moved), "{payments:?}");
        assert_eq!(world.charge(CHARGE).state, ChargeState::Paid);
        if let Proved::Differs(code) = expected {
            assert!(world.findings().contains(&code), "{:?}", world.findings());
        }
    }
}

#[tokio::test]
async fn less_taken_back_than_was_taken_is_told() {
    let world = paid_world();
    let first = || vec![payment(u32::try_from(CHARGE).unwrap(), PAID_CENTS)];
    let resource = world.charge(CHARGE).resource();
    assert_eq!(prove(&world, resource, tells(first(), cents(500))).await, Proved::Learned);
    assert_eq!(prove(&world, resource, tells(first(), cents(500))).await, Proved::Agrees);
    let told = prove(&world, resource, tells(first(), cents(499))).await;
    assert_eq!(told, Proved::Differs("taken_back_less_at_provider"));
}

#[tokio::test]
async fn what_a_provider_can_not_know_is_not_asked_about() {
    let world = world_in(&[fail]);
    let mut provider = MockSettlementProvider::new();
    // It doesn't find things by our reference; and would panic if it were asked.
    provider.expect_not_found_is_proof_after().returning(|| None);
    let resource = world.withdrawal().resource();
    assert_eq!(prove(&world, resource, provider).await, Proved::Open);
}

#[tokio::test]
async fn a_provider_that_may_forget_proves_nothing_by_not_knowing() {
    let world = world_in(&[complete]);
    let resource = world.withdrawal().resource();
    let prover = Prover::new(world.ports(says(Ok(None))));
    assert_eq!(prover.prove(resource, true).await, Ok(Proved::Agrees));
    assert!(world.findings().is_empty());
    assert_eq!(prover.prove(resource, false).await, Ok(Proved::Differs("not_known_at_provider")));
    assert_eq!(world.available(), FUNDS_CENTS - 1_000 - FEE_CENTS, "and nothing is given back for it");

    let world = paid_world();
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_charge().returning(|_| Ok(None));
    let prover = Prover::new(world.ports(provider));
    let resource = world.charge(CHARGE).resource();
    assert_eq!(prover.prove(resource, true).await, Ok(Proved::Agrees));
    assert_eq!(prover.prove(resource, false).await, Ok(Proved::Differs("not_known_at_provider")));
}

#[tokio::test]
async fn without_an_answer_nothing_is_proved_and_an_answer_about_something_else_is_told() {
    let world = world_in(&[complete]);
    let resource = world.withdrawal().resource();
    for error in [unavailable(), indeterminate()] {
        assert_eq!(prove(&world, resource, says(Err(error.clone()))).await, Proved::NotAsked(error));
    }
    assert!(world.findings().is_empty());
    let mismatch = says(Err(ProviderError::Mismatch("amount")));
    assert_eq!(prove(&world, resource, mismatch).await, Proved::Differs("answer_mismatch"));
    assert!(world.findings().contains(&"answer_mismatch"));
}

#[tokio::test]
async fn what_is_open_is_not_asked_about() {
    let world = world_in(&[Withdrawal::lose_sight]);
    // The mocked provider would panic if it were asked.
    let prover = Prover::new(world.ports(MockSettlementProvider::new()));
    let resource = world.withdrawal().resource();
    assert_eq!(prover.prove(resource, false).await, Ok(Proved::Open));
}

#[tokio::test]
async fn a_record_whose_postings_are_not_what_its_state_calls_for_is_told_and_not_asked_about() {
    type Tamper = fn(&mut Book);
    let cases: [(&[Verb], Tamper); 6] = [
        (&[complete], |book| book.withdrawals[0].state = OutgoingState::Failed(failure())),
        (&[complete], |book| book.withdrawals[0].returned = cents(1)),
        (&[fail], |book| book.withdrawals[0].state = OutgoingState::Completed),
        (&[fail], |book| book.withdrawals[0].settled_late = true),
        (&[complete], |book| book.withdrawals[0].fee = cents(FEE_CENTS + 1)),
        // One is missing, which was made when the withdrawal ended.
        (&[complete], |book| {
            let settled =
                book.entries.iter().position(|entry| entry.posting.reason == Reason::WithdrawalSettle);
            book.entries.remove(settled.unwrap());
        }),
    ];
    for (place, (steps, tamper)) in cases.into_iter().enumerate() {
        let world = world_in(steps);
        world.wait(Duration::from_hours(24));
        world.paid_charge(0xBEEF, 500);
        let resource = world.withdrawal().resource();
        tamper(&mut world.stored().book);
        world.stored().is_tampered = true;
        // The mocked provider would panic if it were asked.
        let proved = prove(&world, resource, MockSettlementProvider::new()).await;
        assert_eq!(proved, Proved::Differs("postings_differ"), "{place}");
        assert_eq!(world.findings(), ["postings_differ"]);
    }
    let world = paid_world();
    let resource = world.charge(CHARGE).resource();
    world.stored().is_tampered = true;
    let paid =
        |book: &mut Book| book.charges.iter().position(|charge| charge.resource() == resource).unwrap();
    {
        let book = &mut world.stored().book;
        let place = paid(book);
        book.charges[place].credited.as_mut().unwrap().amount_paid = cents(PAID_CENTS + 1);
    }
    let proved = prove(&world, resource, MockSettlementProvider::new()).await;
    assert_eq!(proved, Proved::Differs("postings_differ"));
    {
        let book = &mut world.stored().book;
        let place = paid(book);
        book.charges.remove(place);
    }
    let proved = prove(&world, resource, MockSettlementProvider::new()).await;
    assert_eq!(proved, Proved::Differs("postings_without_record"));
}

#[tokio::test]
async fn a_record_that_is_changed_while_its_postings_are_read_is_no_contradiction() {
    let world = world_in(&[complete]);
    world.wait(Duration::from_hours(24));
    let resource = world.withdrawal().resource();
    let mut ports = world.ports(says(Ok(Some(report(Progress::Returned(cents(400)))))));
    let (mut wallets, here, other) = (MockWalletStore::new(), world.clone(), world.clone());
    wallets.expect_wallet().returning(move |_| Ok(here.stored().book.wallet));
    wallets.expect_entries().returning(move |_, query| {
        // It comes back at this very moment.
        let withdrawal = other.withdrawal();
        if query.resource_id.is_some() && withdrawal.returned.is_zero() {
            other.apply(&next(come_back(withdrawal, other.now()))).unwrap();
        }
        let entries = other.entries().into_iter().filter(|entry| query.wants(entry));
        Ok(entries.take(usize::try_from(query.limit).unwrap()).collect())
    });
    ports.stores.wallets = Arc::new(wallets);
    assert_eq!(Prover::new(ports).prove(resource, false).await, Ok(Proved::Agrees));
    assert!(world.findings().is_empty());
}

#[tokio::test]
async fn a_book_is_walked_by_what_has_ended_up_to_an_age_each_record_once_a_page() {
    let world = World::with_available(FUNDS_CENTS);
    for _ in 0..3 {
        world.wait(Duration::from_hours(1));
        world.paid_charge(0xBEEF + u128::try_from(world.entries().len()).unwrap(), 500);
    }
    let prover = Prover::new(world.ports(MockSettlementProvider::new()));
    let entries = world.entries();
    let until = entries.last().unwrap().at;
    let page = prover.due(INTEGRATOR, 0, until).await.unwrap();
    // The last is as old as that, and not older.
    let expected: Vec<_> = entries.iter().filter(|entry| entry.at < until).collect();
    assert_eq!(page.through, expected.last().map(|entry| entry.number));
    let mut first = BTreeMap::new();
    for entry in expected {
        first.entry(entry.posting.resource).or_insert((entry.number, entry.at));
    }
    let due: BTreeMap<_, _> = page.due.iter().map(|due| (due.resource, (due.entry, due.at))).collect();
    assert_eq!((due, page.due.len()), (first.clone(), first.len()));
    assert!(page.due.is_sorted_by_key(|due| due.entry) && page.due.len() == 3);
    let rest =
        prover.due(INTEGRATOR, page.through.unwrap(), until.plus(Duration::from_secs(1))).await.unwrap();
    assert_eq!(rest.due.len(), 1);
    let end =
        prover.due(INTEGRATOR, rest.through.unwrap(), until.plus(Duration::from_hours(9))).await.unwrap();
    assert_eq!((end.due.len(), end.through), (0, None));
    // A clock that was years ahead holds nobody up.
    let number = world.entries().last().unwrap().number;
    world.stored().book.entries.last_mut().unwrap().at = world.now().plus(Duration::from_hours(9_000));
    assert_eq!(prover.due(INTEGRATOR, number - 1, until).await.unwrap().through, Some(number));
    const { assert!(PAGE > 10) };
}

#[tokio::test]
async fn a_hold_and_a_fee_are_no_end_and_ask_for_nothing() {
    let cases: [(&[Verb], usize); 6] = [
        (&[], 0),
        (&[Withdrawal::lose_sight], 0),
        (&[complete], 1),
        (&[fail], 1),
        (&[complete, come_back], 1),
        (&[fail, settle_late], 1),
    ];
    for (steps, asked) in cases {
        let world = world_in(steps);
        let prover = Prover::new(world.ports(MockSettlementProvider::new()));
        let page = prover.due(INTEGRATOR, 0, world.now().plus(Duration::from_secs(1))).await.unwrap();
        let withdrawal = world.withdrawal().resource();
        assert_eq!(page.due.iter().filter(|due| due.resource == withdrawal).count(), asked);
    }
}
