//! Money that leaves though nobody here sent it: what isn't there is owed, and what comes in pays that first.

use std::time::Duration;

use pix_domain::audit;
use pix_domain::charges::{Charge, ChargeState, Receipt, state as charge_state};
use pix_domain::error::{ApplyError, ServiceError, StoreError, UniqueKey};
use pix_domain::evidence::Proof;
use pix_domain::fees::{FeeRule, Percent};
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::events::EventQuery;
use pix_domain::provider::{Payment, Progress};
use pix_domain::text::PostbackUrl;
use pix_domain::transition::Transition;
use pix_domain::wallet::{Posting, Reason};
use pix_domain::withdrawals::OutgoingState;

use crate::builders::{cents, next, refund_command, ticket, withdrawal_command};
use crate::{Answer, Services, StoreHarness, services, snapshot};

/// Available, held, owed.
async fn purse(services: &Services, integrator_id: IntegratorId) -> (i64, i64, i64) {
    let wallet = services.wallet(integrator_id).await;
    (wallet.available.get(), wallet.held.get(), wallet.owed.get())
}

/// The provider says that so much of the charge went back, and is asked.
async fn taken_back(services: &Services, charge: &Charge, refunded: i64) -> Charge {
    services.provider.says_refunded(charge.id.0, cents(refunded));
    let (charge, _) = services.charges.refresh(charge.integrator_id, charge.id).await.expect("a charge");
    charge
}

/// What the provider was forced to send back is taken from the wallet once, whatever it is told again.
pub async fn a_forced_return_is_taken_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    for (refunded, available) in [(3_000, 7_000), (3_000, 7_000), (10_000, 0), (10_000, 0)] {
        let charge = taken_back(&services, &charge, refunded).await;
        assert_eq!((charge.state.name(), charge.taken_back), ("paid", cents(refunded)));
        assert_eq!(purse(&services, integrator_id).await, (available, 0, 0));
    }
    let found = services.stores.books.findings(integrator_id).await.expect("findings");
    assert_eq!(found.iter().map(|finding| finding.code.as_str()).collect::<Vec<_>>(), ["taken_back"]);
}

/// What is more than the wallet has is owed. Nothing can be sent meanwhile, and what comes in pays it first.
pub async fn what_the_wallet_lacks_is_owed_and_repaid_first(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    services.withdrawals.create(withdrawal_command(integrator_id, 8_000)).await.expect("a withdrawal");
    taken_back(&services, &charge, 10_000).await;
    assert_eq!(purse(&services, integrator_id).await, (0, 0, 8_000));
    let refused = services.withdrawals.create(withdrawal_command(integrator_id, 1)).await;
    assert_eq!(refused, Err(ServiceError::InsufficientBalance));
    services.paid_charge(integrator_id, 3_000).await;
    assert_eq!(purse(&services, integrator_id).await, (0, 0, 5_000));
    services.paid_charge(integrator_id, 6_000).await;
    assert_eq!(purse(&services, integrator_id).await, (1_000, 0, 0));
    services.withdrawals.create(withdrawal_command(integrator_id, 1_000)).await.expect("a withdrawal");
}

/// Money that is released or returned pays what is owed, too.
pub async fn releases_and_returns_repay(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    services.provider.answers(Answer::Accept);
    let mut sent = Vec::new();
    for amount in [4_000, 3_000, 3_000] {
        let created = services.withdrawals.create(withdrawal_command(integrator_id, amount)).await;
        sent.push(created.expect("a withdrawal").into_inner());
    }
    taken_back(&services, &charge, 9_000).await;
    assert_eq!(purse(&services, integrator_id).await, (0, 10_000, 9_000));
    services.provider.knows(sent[0].id.0, Progress::Failed { code: "no".into(), message: "no".into() });
    services.provider.knows(sent[1].id.0, Progress::Completed);
    services.provider.knows(sent[2].id.0, Progress::Returned(cents(3_000)));
    for (withdrawal, expected) in sent.iter().zip([(0, 6_000, 5_000), (0, 3_000, 5_000), (0, 0, 2_000)]) {
        services.transactions.consult(withdrawal.resource()).await.expect("a consult");
        assert_eq!(purse(&services, integrator_id).await, expected);
    }
}

/// A payment that was called failed, released, and left after all is taken from the wallet, once; it stays failed.
pub async fn a_late_settlement_is_taken_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::Reject);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 4_000)).await;
    let rejected = created.expect("a withdrawal").into_inner();
    services.withdrawals.create(withdrawal_command(integrator_id, 9_000)).await.expect("a withdrawal");
    services.provider.knows(rejected.id.0, Progress::Completed);
    for _ in 0..3 {
        services.transactions.consult(rejected.resource()).await.expect("a consult");
        let late = services.withdrawal(&rejected).await;
        assert!(late.settled_late && matches!(late.state, OutgoingState::Failed(_)));
        assert_eq!(purse(&services, integrator_id).await, (0, 0, 3_000));
    }
    let found = services.stores.books.findings(integrator_id).await.expect("findings");
    let codes: Vec<_> = found.iter().map(|finding| finding.code.as_str()).collect();
    assert_eq!(codes, ["completed_though_not_sent"]);
}

/// The store itself refuses money beside a debt, and to repay more than is owed; then nothing is written.
pub async fn money_never_stands_beside_a_debt(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 1_000).await;
    let forced = next(charge.clone().take_back(cents(400), services.now()));
    let resource = charge.resource();
    let owed = |value: i64| Posting::of(Reason::ForcedDebitOwed, cents(value), resource);
    let repaid = |value: i64| Posting::of(Reason::OwedRepaid, cents(value), resource);
    let with = |postings: Vec<Option<Posting>>| Transition {
        postings: postings.into_iter().flatten().collect(),
        ..forced.clone()
    };
    let before = snapshot(&services.stores).await;
    let apply = async |transition: Transition| services.stores.domain.transitions.apply(transition).await;
    assert_eq!(apply(with(vec![owed(400)])).await, Err(ApplyError::Owing));
    assert_eq!(apply(with(vec![owed(100), repaid(200)])).await, Err(ApplyError::Owing));
    assert_eq!(apply(with(vec![repaid(2_000)])).await, Err(ApplyError::InsufficientFunds));
    assert_eq!(snapshot(&services.stores).await, before);
    assert_eq!(apply(forced.clone()).await, Ok(()));
    assert_eq!(purse(&services, integrator_id).await, (600, 0, 0));
}

/// Payments and new charges of several integrators that reach the store together: each is booked and numbered as if it
/// had come alone, or refused for its own reason, though one of them meets a debt and another one nobody's wallet.
pub async fn what_comes_in_together_is_booked_each_on_its_own(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owners = [services.integrator().await, services.integrator().await, services.integrator().await];
    let owing = services.integrator().await;
    let spent = services.paid_charge(owing, 1_000).await;
    services.apply(services.withdrawal_intent(owing, 1_000)).await;
    taken_back(&services, &spent, 400).await;
    assert_eq!(purse(&services, owing).await, (0, 1_000, 400));
    let apply_all = async |transitions| services.stores.domain.transitions.apply_all(transitions).await;
    let fee = FeeRule::new(cents(3), Percent::zero(), cents(0), None).expect("a fee");
    let (mut paid, mut payments) = ([0_i64; 3], [0_usize; 3]);
    for (round, trouble) in [None, Some("stale"), Some("debt"), Some("nobody"), None].into_iter().enumerate()
    {
        let mut together = Vec::new();
        for (place, owner) in owners.iter().copied().enumerate().cycle().take(7) {
            let charge = services.charge(owner, 100).await;
            let credit = next(charge.pay(services.payment(100), &fee, services.now()));
            together.extend([credit, services.charge_intent(owner)]);
            paid[place] += 97;
            payments[place] += 1;
        }
        let refused = together.len();
        match trouble {
            Some("stale") => together.push(together[0].clone()),
            Some("debt") => {
                let charge = services.charge(owing, 100).await;
                together.push(services.credit_intent(&charge, services.payment(100)));
            }
            Some(_) => together.push(services.charge_intent(IntegratorId(services.id()))),
            None => {}
        }
        let results = apply_all(together).await;
        assert_eq!(results[..refused], vec![Ok(()); refused], "{round}");
        match (trouble, &results[refused..]) {
            (None, [])
            | (Some("stale"), [Err(ApplyError::Stale)])
            | (Some("debt"), [Err(ApplyError::Owing)])
            | (Some("nobody"), [Err(ApplyError::Store(StoreError::Rejected(_)))]) => {}
            (trouble, rest) => panic!("{trouble:?}: {rest:?}"),
        }
        for ((owner, paid), payments) in owners.into_iter().zip(paid).zip(payments) {
            assert_eq!(purse(&services, owner).await, (paid, 0, 0));
            let book = services.stores.books.book(owner).await.expect("the book");
            assert_eq!(audit::check(owner, &book), Vec::new());
            let query = EventQuery { limit: 1_000, ..EventQuery::default() };
            let events = services.stores.postbacks.events.events(owner, query).await.expect("events");
            let numbers: Vec<u64> = events.iter().map(|listed| listed.event.number).collect();
            assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<u64>>());
            assert_eq!(numbers.len(), payments);
        }
    }
    assert_eq!(purse(&services, owing).await, (0, 1_000, 400));
}

/// Payments and nothing else, of several integrators, in one go: those that are not to be are refused, each for its own
/// reason, and all others are booked as if each had come alone.
pub async fn payments_that_come_together_are_booked_each_on_its_own(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owners = [services.integrator().await, services.integrator().await];
    let owing = services.integrator().await;
    let spent = services.paid_charge(owing, 1_000).await;
    services.apply(services.withdrawal_intent(owing, 1_000)).await;
    taken_back(&services, &spent, 400).await;
    let url = PostbackUrl::parse("https://loja.example/pix").expect("a URL");
    let fee = FeeRule::new(cents(3), Percent::zero(), cents(0), None).expect("a fee");
    let mut booked: [Vec<(Charge, Payment)>; 2] = Default::default();
    for (round, trouble) in [None, Some("stale"), Some("known"), Some("debt"), None].into_iter().enumerate() {
        let mut together = Vec::new();
        let mut refused = Vec::new();
        for (place, owner) in owners.iter().copied().enumerate().cycle().take(5) {
            let mut new = services.new_charge(owner);
            // Some are told of at a URL, and one is free of charge.
            new.postback_url = (together.len() % 2 == 0).then(|| url.clone());
            let rule = if together.len() == 3 { FeeRule::free() } else { fee.clone() };
            let ticket = ticket(new.id);
            let opened = charge_state::open(new, ticket, services.now());
            let charge = opened.charge().cloned().expect("a charge");
            services.apply(opened).await;
            let payment = services.payment(10_000);
            together.push(next(charge.pay(payment.clone(), &rule, services.now())));
            let paid = together.last().and_then(Transition::charge).cloned().expect("a charge");
            booked[place].push((paid, payment));
        }
        let trouble_with = async |owner| {
            let charge = services.charge(owner, 10_000).await;
            let payment = match (trouble, booked[0].first()) {
                (Some("known"), Some((_, known))) => known.clone(),
                _ => services.payment(10_000),
            };
            services.credit_intent(&charge, payment)
        };
        match trouble {
            Some("stale") => {
                // Paid meanwhile, by another PIX.
                let charge = services.charge(owners[0], 10_000).await;
                let late = services.credit_intent(&charge, services.payment(10_000));
                let payment = services.payment(10_000);
                let first = services.credit_intent(&charge, payment.clone());
                let paid = first.charge().cloned().expect("a charge");
                services.apply(first).await;
                booked[0].push((paid, payment));
                refused.push((late, ApplyError::Stale));
            }
            Some("known") => {
                refused.push((trouble_with(owners[0]).await, ApplyError::Duplicate(UniqueKey::Receipt)));
            }
            Some(_) => refused.push((trouble_with(owing).await, ApplyError::Owing)),
            None => {}
        }
        let (extra, expected): (Vec<_>, Vec<_>) = refused.into_iter().unzip();
        // In the middle: what comes after it is numbered as if it weren't there.
        together.splice(2..2, extra);
        let results = services.stores.domain.transitions.apply_all(together).await;
        let refusals: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert_eq!(refusals, expected, "{round}");
        for (owner, booked) in owners.into_iter().zip(&booked) {
            let book = services.stores.books.book(owner).await.expect("the book");
            assert_eq!(audit::check(owner, &book), Vec::new(), "{round}");
            let total: i64 = booked
                .iter()
                .map(|(charge, payment)| {
                    payment.amount.cents().get() - charge.credited.as_ref().expect("a credit").fee.get()
                })
                .sum();
            assert_eq!(purse(&services, owner).await, (total, 0, 0), "{round}");
            for (charge, payment) in booked {
                let found = services.stores.domain.charges.find(owner, charge.id).await.expect("a charge");
                assert_eq!(found.as_ref(), Some(charge), "{round}");
                let receipts =
                    services.stores.domain.charges.receipts(owner, charge.id).await.expect("receipts");
                let expected =
                    Receipt { integrator_id: owner, charge_id: charge.id, payment: payment.clone() };
                assert_eq!(receipts, [expected], "{round}");
            }
            let query = EventQuery { limit: 1_000, ..EventQuery::default() };
            let events = services.stores.postbacks.events.events(owner, query).await.expect("events");
            let numbers: Vec<u64> = events.iter().map(|listed| listed.event.number).collect();
            assert_eq!(numbers, (1..).take(booked.len()).collect::<Vec<u64>>(), "{round}");
            let told = events.iter().filter(|listed| listed.delivery.is_some()).count();
            let with_url = booked.iter().filter(|(charge, _)| charge.postback_url.is_some()).count();
            assert_eq!(told, with_url, "{round}");
        }
    }
    assert_eq!(purse(&services, owing).await, (0, 1_000, 400));
}

/// Payments, withdrawals and forced returns at once: whatever the order, what is owed is exact and never beside money.
pub async fn forced_returns_race_with_everything(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let mut charges = Vec::new();
    for _ in 0..8 {
        charges.push(services.paid_charge(integrator_id, 1_000).await);
    }
    let mut tasks = Vec::new();
    for charge in charges.clone() {
        let services = services.clone();
        tasks.push(tokio::spawn(async move {
            let back = taken_back(&services, &charge, 1_000).await;
            assert_eq!(back.taken_back, cents(1_000));
        }));
    }
    for number in 0..8 {
        let services = services.clone();
        tasks.push(tokio::spawn(async move {
            if number % 2 == 0 {
                let paid = services.paid_charge(integrator_id, 700).await;
                assert_eq!(paid.state, ChargeState::Paid);
            } else {
                let _ = services.withdrawals.create(withdrawal_command(integrator_id, 1_500)).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("a task");
    }
    let book = services.stores.books.book(integrator_id).await.expect("the book");
    let sent: i64 = book
        .withdrawals
        .iter()
        .filter(|withdrawal| withdrawal.state == OutgoingState::Completed)
        .map(|withdrawal| withdrawal.amount.cents().get())
        .sum();
    let wallet = book.wallet;
    assert_eq!(wallet.available.get() - wallet.owed.get(), 8 * 1_000 + 4 * 700 - 8 * 1_000 - sent);
    assert!(wallet.settled().is_ok() && wallet.held.is_zero());
}

/// What went back while a refund of ours was in progress looks like that refund; when it has ended, the charge is asked
/// about once more.
pub async fn a_refund_in_progress_hides_nothing_for_good(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    for (answer, taken) in
        [(Progress::Completed, 3_000), (Progress::Failed { code: "no".into(), message: "no".into() }, 6_000)]
    {
        let integrator_id = services.integrator().await;
        let charge = services.paid_charge(integrator_id, 10_000).await;
        services.provider.answers_next(Answer::Accept);
        let refund = services.refunds.create(refund_command(&charge, 3_000)).await.expect("a refund");
        let refund = refund.into_inner();
        let hidden = taken_back(&services, &charge, 3_000).await;
        assert!(hidden.taken_back.is_zero(), "it may be our refund");
        services.provider.knows(refund.id.0, answer);
        services.provider.says_refunded(charge.id.0, cents(6_000));
        for _ in 0..3 {
            services.wait(Duration::from_secs(5));
            services.reconciler.run_once().await.expect("a round");
        }
        let charge = services.charges.get(integrator_id, charge.id).await.expect("the charge");
        assert_eq!(charge.taken_back, cents(taken));
    }
}

/// A refund that failed and went back after all is learnt of by its charge: until that is known, whoever asks is told to
/// come again, and what contradicts an end is kept as evidence once in a while.
pub async fn a_refund_that_went_back_after_all_is_taken_from_its_charge(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let payment = services.payment(10_000);
    let charge = services.paid_with(integrator_id, &payment).await;
    services.provider.answers_next(Answer::Reject);
    let refund = services.refunds.create(refund_command(&charge, 3_000)).await.expect("a refund");
    let refund = refund.into_inner();
    services.provider.knows(refund.id.0, Progress::Completed);
    services.provider.forgets(charge.id.0);
    for _ in 0..5 {
        let asked = services.transactions.consult(refund.resource()).await;
        assert_eq!(asked.map(|_| ()), Err(ServiceError::ProviderUnavailable));
    }
    let seen = services.transactions.evidence(refund.resource()).await.expect("evidence");
    let told = seen.iter().filter(|seen| seen.proof == Proof::Completed).count();
    assert_eq!(told, 1, "{seen:?}");
    assert_eq!(purse(&services, integrator_id).await, (10_000, 0, 0));
    services.provider.receives(charge.id.0, payment);
    services.provider.says_refunded(charge.id.0, cents(3_000));
    services.transactions.consult(refund.resource()).await.expect("a consult");
    assert_eq!(purse(&services, integrator_id).await, (7_000, 0, 0));
    let charge = services.charges.get(integrator_id, charge.id).await.expect("the charge");
    assert_eq!((charge.taken_back, charge.refunded.get()), (cents(3_000), 0));
}
