//! A transition is applied wholly or not at all.

use std::time::Duration;

use pix_domain::charges::{Charge, NewCharge, state as charge_state};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::error::{ApplyError, StoreError, UniqueKey};
use pix_domain::ids::{IntegratorId, ResourceKind, Version};
use pix_domain::provider::{Payment, Progress, ReceiptKey};
use pix_domain::transition::{Record, Transition};
use pix_domain::withdrawals::{NewWithdrawal, state as withdrawal_state};

use crate::builders::{cents, key, name, next, report, some_fees, ticket};
use crate::harness::SUBMIT_GRACE;
use crate::provider::provider_id;
use crate::{Services, StoreHarness, services, snapshot};

/// Applies a transition that must be refused, and asserts that nothing at all was written.
async fn refused(services: &Services, transition: Transition) -> ApplyError {
    let before = snapshot(&services.stores).await;
    let refusal = services.stores.domain.transitions.apply(transition).await.expect_err("a refusal");
    assert_eq!(snapshot(&services.stores).await, before, "a refused transition wrote something");
    refusal
}

fn is_rejected(refusal: &ApplyError) -> bool {
    matches!(refusal, ApplyError::Store(StoreError::Rejected(_)))
}

fn open(services: &Services, new: NewCharge) -> Transition {
    let ticket = ticket(new.id);
    charge_state::open(new, ticket, services.now())
}

fn accept(services: &Services, new: NewWithdrawal) -> Transition {
    withdrawal_state::accept(new, services.now(), SUBMIT_GRACE).expect("a possible total")
}

/// The transition with another version of its first record.
fn with_version(mut transition: Transition, version: Version) -> Transition {
    match &mut transition.writes[0].record {
        Record::Charge(charge) => charge.version = version,
        Record::Withdrawal(withdrawal) => withdrawal.version = version,
        Record::Refund(refund) => refund.version = version,
        Record::Split(split) => split.version = version,
    }
    transition
}

/// A record that was changed meanwhile is told to be stale.
pub async fn a_stale_version_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 10_000).await;
    services.apply(next(charge.clone().cancel(services.now()))).await;
    let late = services.credit_intent(&charge, services.payment(10_000));
    assert_eq!(refused(&services, late).await, ApplyError::Stale);
}

/// A guard holds for the very version it names, and never for a record that isn't there.
pub async fn a_version_that_was_never_reached_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let charge = services.charge(integrator_id, 10_000).await;
    let ahead = Charge { version: Version(5), ..charge };
    assert_eq!(refused(&services, next(ahead.cancel(services.now()))).await, ApplyError::Stale);
    let unborn = services.charge_intent(integrator_id).charge().cloned().expect("a charge");
    assert_eq!(refused(&services, next(unborn.cancel(services.now()))).await, ApplyError::Stale);
    let unborn = services.withdrawal_intent(integrator_id, 100).withdrawal().cloned().expect("a withdrawal");
    assert_eq!(refused(&services, next(unborn.queue(services.now()))).await, ApplyError::Stale);
}

/// An id is unique among the records of its kind.
pub async fn a_duplicate_id_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let first = services.new_charge(integrator_id);
    services.apply(open(&services, first.clone())).await;
    let again = NewCharge { external_id: name("another charge"), ..first };
    let refusal = refused(&services, open(&services, again)).await;
    assert_eq!(refusal, ApplyError::Duplicate(UniqueKey::Id));
    let first = services.new_withdrawal(integrator_id, 100);
    services.apply(accept(&services, first.clone())).await;
    let again = NewWithdrawal { external_id: name("another withdrawal"), ..first };
    let refusal = refused(&services, accept(&services, again)).await;
    assert_eq!(refusal, ApplyError::Duplicate(UniqueKey::Id));
}

/// What was committed and not answered may come again: it is told to be a duplicate.
pub async fn the_same_transition_twice_writes_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let intent = services.withdrawal_intent(integrator_id, 100).answering(Some(key("k")));
    services.apply(intent.clone()).await;
    assert!(matches!(refused(&services, intent).await, ApplyError::Duplicate(_)));
}

/// An external id is unique per integrator and kind.
pub async fn a_duplicate_external_id_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    for _ in 0..2 {
        // The same name for one of each kind is fine; twice for one kind is not.
        let external_id = name("Pedido nº 7/É 🍞");
        let new = NewCharge { external_id: external_id.clone(), ..services.new_charge(integrator_id) };
        let of_charge = open(&services, new);
        let new =
            NewWithdrawal { external_id: external_id.clone(), ..services.new_withdrawal(integrator_id, 100) };
        let of_withdrawal = accept(&services, new);
        let charge = services.charges.get(integrator_id, charge.id).await.expect("the charge");
        let mut of_refund = services.refund_intent(&charge, 100);
        if let Record::Refund(refund) = &mut of_refund.writes[0].record {
            refund.external_id = external_id.clone();
        }
        let stored = services.stores.domain.charges.find_by_external_id(integrator_id, &external_id).await;
        for transition in [of_charge, of_withdrawal, of_refund] {
            if stored.as_ref().is_ok_and(Option::is_none) {
                services.apply(transition).await;
            } else {
                let refusal = refused(&services, transition).await;
                assert_eq!(refusal, ApplyError::Duplicate(UniqueKey::ExternalId));
            }
        }
    }
}

/// One transition doubles a name as little as two do.
pub async fn a_name_twice_in_one_transition_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let external_id = name("twice");
    let [mut one, other] = [(); 2].map(|()| {
        let new = NewCharge { external_id: external_id.clone(), ..services.new_charge(integrator_id) };
        open(&services, new)
    });
    one.writes.extend(other.writes);
    assert_eq!(refused(&services, one).await, ApplyError::Duplicate(UniqueKey::ExternalId));
}

/// A transition writes a record once: two changes of one version are refused, whatever they are called.
pub async fn a_record_twice_in_one_transition_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 10_000).await;
    let mut twice = next(charge.cancel(services.now()));
    twice.writes.push(twice.writes[0].clone());
    refused(&services, twice).await;
}

/// External ids are told apart by case and by every character.
pub async fn external_ids_that_only_look_alike_are_different(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for text in ["order", "Order", "ORDER", "order ", "órder", "o\u{301}rder", "order%", "order_", "ördér"]
    {
        let new = NewCharge { external_id: name(text.trim()), ..services.new_charge(integrator_id) };
        if text == "order " {
            let refusal = refused(&services, open(&services, new)).await;
            assert_eq!(refusal, ApplyError::Duplicate(UniqueKey::ExternalId));
            continue;
        }
        let id = new.id;
        services.apply(open(&services, new)).await;
        let found = services.stores.domain.charges.find_by_external_id(integrator_id, &name(text)).await;
        assert_eq!(found.expect("a lookup").map(|charge| charge.id), Some(id), "{text}");
    }
}

/// An idempotency key is unique per integrator and kind, for ever.
pub async fn a_duplicate_idempotency_key_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let lookups = &services.stores.domain.lookups;
    let first = services.withdrawal_intent(integrator_id, 100).answering(Some(key("k")));
    let first_id = first.withdrawal().expect("a withdrawal").id.0;
    services.apply(first).await;
    let again = services.withdrawal_intent(integrator_id, 100).answering(Some(key("k")));
    assert_eq!(refused(&services, again).await, ApplyError::Duplicate(UniqueKey::IdempotencyKey));
    let kept = lookups.find_handle(integrator_id, ResourceKind::Withdrawal, &key("k")).await;
    assert_eq!(kept, Ok(Some(first_id)));

    let of_charge = services.charge_intent(integrator_id).answering(Some(key("k")));
    let charge_id = of_charge.charge().expect("a charge").id.0;
    services.apply(of_charge).await;
    let kept = lookups.find_handle(integrator_id, ResourceKind::Charge, &key("k")).await;
    assert_eq!(kept, Ok(Some(charge_id)), "a key is free for another kind");
    let other_case = lookups.find_handle(integrator_id, ResourceKind::Charge, &key("K")).await;
    assert_eq!(other_case, Ok(None), "keys are told apart by case");
}

/// A refused transition leaves its idempotency key free.
pub async fn a_refused_transition_takes_no_idempotency_key(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(100).await;
    let intent = services.withdrawal_intent(integrator_id, 101).answering(Some(key("k")));
    assert_eq!(refused(&services, intent).await, ApplyError::InsufficientFunds);
    let kept =
        services.stores.domain.lookups.find_handle(integrator_id, ResourceKind::Withdrawal, &key("k")).await;
    assert_eq!(kept, Ok(None));
    services.apply(services.withdrawal_intent(integrator_id, 100).answering(Some(key("k")))).await;
}

/// Money law 6: each incoming PIX is credited once, ever, whichever charge it is said to be for.
pub async fn a_duplicate_receipt_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let (first, second) =
        (services.payment(10_000), Payment { amount: crate::builders::amount(1), ..services.payment(1) });
    let charge = services.paid_with(integrator_id, &first).await;
    let charge = services.pay(&charge, second.clone()).await;
    let again = services.credit_intent(&charge, second.clone());
    assert_eq!(refused(&services, again).await, ApplyError::Duplicate(UniqueKey::Receipt));

    let other = services.charge(integrator_id, 10_000).await;
    for payment in [first, second] {
        let elsewhere = services.credit_intent(&other, payment);
        assert_eq!(refused(&services, elsewhere).await, ApplyError::Duplicate(UniqueKey::Receipt));
    }
}

/// A PIX without an end-to-end id is unique by the provider's name for its charge; the two kinds never collide.
pub async fn a_receipt_without_end_to_end_id_is_unique_too(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let (one, other) = (services.charge(integrator_id, 500).await, services.charge(integrator_id, 500).await);
    let payment = services.payment(500);
    let end_to_end =
        payment.key.end_to_end_id().map(EndToEndId::as_str).expect("an end-to-end id").to_owned();
    let by_transaction = |id: &str| Payment {
        key: ReceiptKey::Transaction(pix_domain::provider::ProviderId::parse(id).expect("a provider's id")),
        ..payment.clone()
    };
    services.apply(services.credit_intent(&one, by_transaction(provider_id(one.id.0).as_str()))).await;
    let elsewhere = services.credit_intent(&other, by_transaction(provider_id(one.id.0).as_str()));
    assert_eq!(refused(&services, elsewhere).await, ApplyError::Duplicate(UniqueKey::Receipt));
    services.apply(services.credit_intent(&other, by_transaction(&end_to_end))).await;
    let third = services.charge(integrator_id, 500).await;
    services.apply(services.credit_intent(&third, payment.clone())).await;
}

/// Money law 2: `available` never goes below zero.
pub async fn too_little_available_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let too_much = services.withdrawal_intent(integrator_id, 10_001).answering(Some(key("k")));
    assert_eq!(refused(&services, too_much).await, ApplyError::InsufficientFunds);
    services.apply(services.withdrawal_intent(integrator_id, 10_000)).await;
    assert_eq!(services.balances(integrator_id).await, (0, 10_000));
    let one_more = services.withdrawal_intent(integrator_id, 1);
    assert_eq!(refused(&services, one_more).await, ApplyError::InsufficientFunds);
}

/// `held` never goes below zero either.
pub async fn too_little_held_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let intent = services.withdrawal_intent(integrator_id, 6_000);
    services.apply(intent.clone()).await;
    let withdrawal = intent.withdrawal().cloned().expect("a withdrawal");
    let settled = report(withdrawal.id.0, Progress::Completed);
    let mut completion = next(withdrawal.complete(settled, services.now()));
    completion.postings[0].amount = cents(6_001);
    assert_eq!(refused(&services, completion.clone()).await, ApplyError::InsufficientFunds);
    completion.postings[0].amount = cents(6_000);
    services.apply(completion).await;
}

/// Postings are made one after another: a balance is not below zero between two of them either.
pub async fn a_balance_below_zero_between_two_postings_writes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 10_000).await;
    let credit = next(charge.pay(services.payment(10_000), &some_fees().cash_in, services.now()));
    let mut fee_first = credit.clone();
    fee_first.postings.reverse();
    assert_eq!(refused(&services, fee_first).await, ApplyError::InsufficientFunds);
    services.apply(credit).await;
    assert_eq!(services.balances(integrator_id).await, (9_890, 0));
}

/// All writes of a transition happen, or none: in whatever order they stand.
pub async fn a_stale_second_write_undoes_the_first(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let intent = services.refund_intent(&charge, 6_000).answering(Some(key("k")));
    services.pay(&charge, services.payment(1)).await;
    assert_eq!(refused(&services, intent.clone()).await, ApplyError::Stale);
    let mut turned = intent.clone();
    turned.writes.reverse();
    assert_eq!(refused(&services, turned).await, ApplyError::Stale);
    let refund = intent.refund().expect("a refund");
    assert_eq!(services.stores.domain.refunds.find(integrator_id, refund.id).await, Ok(None));
    let kept =
        services.stores.domain.lookups.find_handle(integrator_id, ResourceKind::Refund, &key("k")).await;
    assert_eq!(kept, Ok(None));
    assert_eq!(services.stores.domain.lookups.locate(refund.id.0).await, Ok(None));
}

/// Money law 8: who repeats a request is told so, however little is left in the wallet.
pub async fn a_duplicate_is_told_before_missing_funds(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let first = services.new_withdrawal(integrator_id, 10_000);
    services.apply(accept(&services, first.clone()).answering(Some(key("k")))).await;
    let same_name =
        NewWithdrawal { external_id: first.external_id, ..services.new_withdrawal(integrator_id, 10_000) };
    let refusal = refused(&services, accept(&services, same_name)).await;
    assert_eq!(refusal, ApplyError::Duplicate(UniqueKey::ExternalId));
    let same_key = services.withdrawal_intent(integrator_id, 10_000).answering(Some(key("k")));
    assert_eq!(refused(&services, same_key).await, ApplyError::Duplicate(UniqueKey::IdempotencyKey));
}

/// Who decided on a record that changed is to decide again, before being told about money.
pub async fn a_stale_record_is_told_before_missing_funds(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let intents = [services.refund_intent(&charge, 6_000), services.refund_intent(&charge, 6_000)];
    let [first, second] = intents;
    services.apply(first).await;
    assert_eq!(refused(&services, second).await, ApplyError::Stale);
}

/// Everything in a transition is of its integrator, and that integrator exists.
pub async fn a_transition_of_two_integrators_is_rejected(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (own, other) = (services.funded(10_000).await, services.funded(10_000).await);
    let nobody = IntegratorId(services.id());
    assert!(is_rejected(&refused(&services, services.charge_intent(nobody)).await));

    let mut foreign_record = services.charge_intent(other);
    foreign_record.integrator_id = own;
    let mut foreign_posting = services.withdrawal_intent(own, 100);
    foreign_posting.postings[0].resource.integrator_id = other;
    let charge = services.charge(own, 10_000).await;
    let mut foreign_receipt = services.credit_intent(&charge, services.payment(10_000));
    foreign_receipt.receipt.as_mut().expect("a receipt").integrator_id = other;
    let foreign_resource = services.charge(other, 10_000).await.resource();
    let foreign_finding =
        Transition::new(own, services.now()).find(foreign_resource, "code", "detail".into());
    for transition in [foreign_record, foreign_posting, foreign_receipt, foreign_finding] {
        let refusal = refused(&services, transition.clone()).await;
        assert!(is_rejected(&refusal), "{refusal:?} for {transition:?}");
    }
}

/// A new record has the first version, a changed one the next.
pub async fn a_version_out_of_turn_is_rejected(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    for version in [Version(0), Version(2)] {
        let born_late = with_version(services.charge_intent(integrator_id), version);
        assert!(is_rejected(&refused(&services, born_late).await));
    }
    let charge = services.charge(integrator_id, 10_000).await;
    for version in [Version(1), Version(3), Version(0)] {
        let leap = with_version(next(charge.clone().cancel(services.now())), version);
        assert!(is_rejected(&refused(&services, leap).await));
    }
}

/// What is due when is written with the record, and not without it.
pub async fn a_refused_write_leaves_the_follow_up_as_it_was(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge_intent(integrator_id);
    let asked_at = charge.writes[0].follow_up.expect("a live charge is asked about");
    let charge_now = charge.charge().cloned().expect("a charge");
    services.apply(charge).await;
    let mut stale = next(Charge { version: Version(2), ..charge_now }.cancel(services.now()));
    stale.writes[0].follow_up = Some(services.now());
    assert_eq!(refused(&services, stale).await, ApplyError::Stale);
    let follow_ups = &services.stores.domain.follow_ups;
    let lease = Duration::from_mins(1);
    assert_eq!(follow_ups.claim(services.now(), lease, 9).await, Ok(Vec::new()));
    let claimed = follow_ups.claim(asked_at, lease, 9).await.expect("a claim");
    assert_eq!(claimed.iter().map(|due| due.attempts).collect::<Vec<_>>(), [1]);
}

/// Many at once: each wholly or not at all and on its own, one result each, in order.
pub async fn many_transitions_are_applied_each_on_its_own(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (one, other) = (services.funded(1_000).await, services.funded(1_000).await);
    let charge = services.charge_intent(one);
    let canceled = next(charge.charge().cloned().expect("a charge").cancel(services.now()));
    let twice_canceled = canceled.clone();
    let transitions = vec![
        charge.clone(),
        services.withdrawal_intent(one, 600),
        services.withdrawal_intent(one, 600),
        canceled,
        twice_canceled,
        charge,
        services.withdrawal_intent(other, 1_000),
        services.charge_intent(IntegratorId(services.id())),
        services.withdrawal_intent(one, 400),
    ];
    let results = services.stores.domain.transitions.apply_all(transitions).await;
    assert_eq!(results.len(), 9);
    for applied in [0, 1, 3, 6, 8] {
        assert_eq!(results[applied], Ok(()), "{applied}");
    }
    assert_eq!(results[2], Err(ApplyError::InsufficientFunds));
    assert_eq!(results[4], Err(ApplyError::Stale));
    assert!(matches!(results[5], Err(ApplyError::Duplicate(_))));
    assert!(results[7].as_ref().is_err_and(is_rejected));
    assert_eq!(services.balances(one).await, (0, 1_000));
    assert_eq!(services.balances(other).await, (0, 1_000));
    assert_eq!(services.stores.domain.transitions.apply_all(Vec::new()).await, Vec::new());
}
