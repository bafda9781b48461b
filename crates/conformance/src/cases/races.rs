//! What holds however many ask at once.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pix_domain::charges::Charge;
use pix_domain::charges::service::CreateCharge;
use pix_domain::error::{ApplyError, ServiceError, UniqueKey};
use pix_domain::fees::FeeSchedule;
use pix_domain::ids::IntegratorId;
use pix_domain::ports::Outcome;
use pix_domain::reconciler::BATCH;
use pix_domain::refunds::service::CreateRefund;
use pix_domain::transition::Transition;
use pix_domain::withdrawals::OutgoingState;
use pix_domain::withdrawals::service::CreateWithdrawal;
use tokio::sync::Barrier;

use crate::builders::{charge_command, key, name, refund_command, some_fees, withdrawal_command};
use crate::{Answer, Services, StoreHarness, services};

/// How many ask at once.
pub(super) const CROWD: usize = 64;
/// How many credit at once.
const PAYERS: usize = 32;

/// Runs `job` that many times, all let go at the same moment.
pub(super) async fn all_at_once<T, F>(
    services: &Services,
    times: usize,
    job: impl Fn(Services, usize) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(times));
    let tasks: Vec<_> = (0..times)
        .map(|number| {
            let (start, job) = (start.clone(), job(services.clone(), number));
            tokio::spawn(async move {
                start.wait().await;
                job.await
            })
        })
        .collect();
    let mut results = Vec::with_capacity(times);
    for task in tasks {
        results.push(task.await.expect("a task that ends"));
    }
    results
}

async fn apply_all_at_once(services: &Services, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
    all_at_once(services, transitions.len(), |services, number| {
        let transition = transitions[number].clone();
        async move { services.stores.domain.transitions.apply(transition).await }
    })
    .await
}

fn created<T>(results: &[Result<Outcome<T>, ServiceError>]) -> usize {
    results.iter().filter(|result| matches!(result, Ok(Outcome::Created(_)))).count()
}

fn replayed<T>(results: &[Result<Outcome<T>, ServiceError>]) -> usize {
    results.iter().filter(|result| matches!(result, Ok(Outcome::Replayed(_)))).count()
}

/// Money law 2: on funds for exactly ten withdrawals and their fees, ten are made.
pub async fn withdrawals_never_take_more_than_there_is(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10 * 1_000).await;
    services.set_fees(integrator_id, some_fees()).await;
    let results = all_at_once(&services, CROWD, |services, _| async move {
        services.withdrawals.create(withdrawal_command(integrator_id, 950)).await
    })
    .await;
    assert_eq!(created(&results), 10);
    let refused = results.iter().filter(|result| **result == Err(ServiceError::InsufficientBalance)).count();
    assert_eq!(refused, CROWD - 10);
    assert_eq!(services.provider.total_sends(), 10);
    assert!(services.provider.sent_twice().is_empty());
    assert_eq!(services.balances(integrator_id).await, (0, 0));
}

/// The same without the use cases: the store alone keeps it.
pub async fn holds_never_take_more_than_there_is(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10 * 1_000).await;
    let intents = (0..CROWD).map(|_| services.withdrawal_intent(integrator_id, 1_000)).collect();
    let results = apply_all_at_once(&services, intents).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 10);
    let refused = results.iter().filter(|result| **result == Err(ApplyError::InsufficientFunds)).count();
    assert_eq!(refused, CROWD - 10);
    assert_eq!(services.balances(integrator_id).await, (0, 10_000));
}

/// Money law 7: refunds never sum above what was paid.
pub async fn refunds_never_sum_above_what_was_paid(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let results = all_at_once(&services, CROWD, |services, number| {
        let external_id = Some(name(&format!("refund {number}")));
        let command = CreateRefund { external_id, ..refund_command(&charge, 6_000) };
        async move { services.refunds.create(command).await }
    })
    .await;
    assert_eq!(created(&results), 1);
    let refused = results.iter().filter(|result| **result == Err(ServiceError::RefundExceedsPaid)).count();
    assert_eq!(refused, CROWD - 1);
    assert_eq!(services.provider.total_sends(), 1);
    assert_eq!(services.balances(integrator_id).await, (1_004_000, 0));
}

/// The same without the use cases: of many decisions on one version of a charge, one is applied.
pub async fn one_of_many_decisions_on_one_version_is_applied(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let intents = (0..CROWD).map(|_| services.refund_intent(&charge, 100)).collect();
    let results = apply_all_at_once(&services, intents).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(
        results.iter().filter(|result| **result == Err(ApplyError::Stale)).count(),
        CROWD - 1,
        "{results:?}"
    );
}

async fn one_withdrawal_of_many_requests(services: &Services, command: CreateWithdrawal) {
    let results = all_at_once(services, CROWD, |services, _| {
        let command = command.clone();
        async move { services.withdrawals.create(command).await }
    })
    .await;
    assert_eq!((created(&results), replayed(&results)), (1, CROWD - 1), "{results:?}");
    let ids: BTreeSet<_> =
        results.into_iter().map(|result| result.expect("an outcome").into_inner().id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(services.provider.total_sends(), 1);
    assert_eq!(services.balances(command.integrator_id).await, (0, 0));
}

/// Money law 8: one external id, one body, one withdrawal, sent once; the wallet holds enough for no other.
pub async fn requests_with_one_external_id_make_one_withdrawal(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000).await;
    let external_id = Some(name("order 1"));
    let command = CreateWithdrawal { external_id, ..withdrawal_command(integrator_id, 1_000) };
    one_withdrawal_of_many_requests(&services, command).await;
}

/// The same by the `Idempotency-Key`.
pub async fn requests_with_one_idempotency_key_make_one_withdrawal(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000).await;
    let idempotency_key = Some(key("key-1"));
    let command = CreateWithdrawal { idempotency_key, ..withdrawal_command(integrator_id, 1_000) };
    one_withdrawal_of_many_requests(&services, command).await;
}

/// The same for charges: whatever the provider made meanwhile, one is stored.
pub async fn requests_with_one_external_id_make_one_charge(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let command = CreateCharge { external_id: Some(name("order 1")), ..charge_command(integrator_id) };
    let results = all_at_once(&services, CROWD, |services, _| {
        let command = command.clone();
        async move { services.charges.create(command).await }
    })
    .await;
    assert_eq!((created(&results), replayed(&results)), (1, CROWD - 1), "{results:?}");
    let book = services.stores.books.book(integrator_id).await.expect("a book");
    assert_eq!(book.charges.len(), 1);
}

/// The same for refunds: who comes second is told of the first, not that too much was asked for.
pub async fn requests_with_one_external_id_make_one_refund(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let command = CreateRefund { external_id: Some(name("refund 1")), ..refund_command(&charge, 6_000) };
    let results = all_at_once(&services, CROWD, |services, _| {
        let command = command.clone();
        async move { services.refunds.create(command).await }
    })
    .await;
    assert_eq!((created(&results), replayed(&results)), (1, CROWD - 1), "{results:?}");
    assert_eq!(services.provider.total_sends(), 1);
    assert_eq!(services.balances(integrator_id).await, (4_000, 0));
}

/// Money law 6: a PIX told of by many callbacks at once is credited once.
pub async fn one_payment_told_many_times_is_credited_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 10_000).await;
    services.provider.receives(charge.id.0, services.payment(10_000));
    let results = all_at_once(&services, PAYERS, |services, _| async move {
        services.charges.refresh(integrator_id, charge.id).await
    })
    .await;
    for result in results {
        let (charge, _) = result.expect("a refreshed charge");
        assert_eq!(charge.credited.map(|credited| credited.payments), Some(1));
    }
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
}

/// The same without the use cases, and with the payment claimed for two charges.
pub async fn one_receipt_is_credited_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charges = [services.charge(integrator_id, 100).await, services.charge(integrator_id, 100).await];
    let payment = services.payment(100);
    let intents =
        (0..PAYERS).map(|number| services.credit_intent(&charges[number % 2], payment.clone())).collect();
    let results = apply_all_at_once(&services, intents).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let refusals = [ApplyError::Stale, ApplyError::Duplicate(UniqueKey::Receipt)];
    for result in results {
        assert!(result.as_ref().err().is_none_or(|refusal| refusals.contains(refusal)), "{result:?}");
    }
    assert_eq!(services.balances(integrator_id).await, (100, 0));
}

/// Every PIX is money: so many payments on one charge, so many credits.
pub async fn many_payments_of_one_charge_are_all_credited(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 100).await;
    let results = all_at_once(&services, PAYERS, |services, _| {
        let (charge, payment) = (charge.clone(), services.payment(100));
        async move {
            loop {
                let now = services.charges.get(charge.integrator_id, charge.id).await.expect("the charge");
                let credit = services.credit_intent(&now, payment.clone());
                match services.stores.domain.transitions.apply(credit).await {
                    Err(ApplyError::Stale) => {}
                    result => return result,
                }
            }
        }
    })
    .await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_paid(&services, &charge, PAYERS).await;
}

/// The same through the use cases: each callback finds all of the payments.
pub async fn many_payments_told_at_once_are_each_credited_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.charge(integrator_id, 100).await;
    let id = charge.id;
    let results = all_at_once(&services, PAYERS, |services, _| async move {
        services.provider.receives(id.0, services.payment(100));
        services.charges.refresh(integrator_id, id).await.map(|_| ())
    })
    .await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_paid(&services, &charge, PAYERS).await;
}

async fn assert_paid(services: &Services, charge: &Charge, times: usize) {
    let paid = services.charges.get(charge.integrator_id, charge.id).await.expect("the charge");
    let payments = paid.credited.map(|credited| usize::try_from(credited.payments).expect("a small number"));
    assert_eq!(payments, Some(times));
    let receipts = services.stores.domain.charges.receipts(charge.integrator_id, charge.id).await;
    assert_eq!(receipts.expect("receipts").len(), times);
    let paid_cents = i64::try_from(times).expect("a small number") * charge.amount.cents().get();
    assert_eq!(services.balances(charge.integrator_id).await, (paid_cents, 0));
}

/// What waits to be sent is sent by one of many workers.
pub async fn what_waits_is_sent_by_one_of_many_workers(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(20 * 100).await;
    services.provider.answers(Answer::Unavailable);
    for _ in 0..20 {
        services.withdrawals.create(withdrawal_command(integrator_id, 100)).await.expect("a withdrawal");
    }
    services.provider.answers(Answer::Complete);
    services.wait(Duration::from_secs(5));
    let due = services.reconciler.claim(BATCH).await.expect("a claim");
    assert_eq!(due.len(), 20);
    // As if every lease had ended while its worker was still at it.
    let results = all_at_once(&services, 8, |services, _| {
        let due = due.clone();
        async move {
            for item in due {
                services.reconciler.process(item).await.expect("a follow-up");
            }
        }
    })
    .await;
    assert_eq!(results.len(), 8);
    assert_eq!(services.provider.total_sends(), 20);
    assert!(services.provider.sent_twice().is_empty());
    let book = services.stores.books.book(integrator_id).await.expect("a book");
    assert!(book.withdrawals.iter().all(|withdrawal| withdrawal.state == OutgoingState::Completed));
}

/// Everything at once, over three integrators, and the audit at its end.
pub async fn a_storm_leaves_the_books_right(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let mut fields: Vec<(IntegratorId, Charge)> = Vec::new();
    for _ in 0..3 {
        let integrator_id = services.integrator().await;
        let charge = services.paid_charge(integrator_id, 20_000).await;
        services.set_fees(integrator_id, some_fees()).await;
        fields.push((integrator_id, charge));
    }
    let answers = [
        Answer::Complete,
        Answer::Reject,
        Answer::Unavailable,
        Answer::LostAnswer,
        Answer::Accept,
        Answer::Fail,
    ];
    let results = all_at_once(&services, 2 * CROWD, |services, number| {
        let (integrator_id, charge) = fields[number % 3].clone();
        async move {
            services.provider.answers_next(answers[number % answers.len()]);
            match number % 5 {
                0 => drop(services.pay(&charge, services.payment(10)).await),
                1 => drop(services.paid_charge(integrator_id, 1_000).await),
                2 => {
                    let external_id = Some(name(&format!("refund {number}")));
                    let command = CreateRefund { external_id, ..refund_command(&charge, 900) };
                    expected(services.refunds.create(command).await);
                }
                3 => drop(services.set_fees(integrator_id, FeeSchedule::free()).await),
                _ => expected(services.withdrawals.create(withdrawal_command(integrator_id, 1_500)).await),
            }
        }
    })
    .await;
    assert_eq!(results.len(), 2 * CROWD);
    services.wait(Duration::from_mins(2));
    while services.reconciler.run_once().await.expect("a round") > 0 {}
    assert!(services.provider.sent_twice().is_empty());
}

/// A storm's request is served or refused for a reason of the domain, never for one of the store.
fn expected<T: std::fmt::Debug>(result: Result<Outcome<T>, ServiceError>) {
    if let Err(refusal) = result {
        let reasons = [ServiceError::InsufficientBalance, ServiceError::RefundExceedsPaid];
        assert!(reasons.contains(&refusal), "{refusal:?}");
    }
}

/// Many versions of one record in a row: a decision on the latest one is always applied.
pub async fn who_decides_again_gets_through(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000_000).await;
    let charge = services.paid_charge(integrator_id, 100_000).await;
    let id = charge.id;
    all_at_once(&services, PAYERS, |services, _| async move {
        loop {
            let charge = services.charges.get(integrator_id, id).await.expect("the charge");
            let intent = services.refund_intent(&charge, 1);
            if services.stores.domain.transitions.apply(intent).await != Err(ApplyError::Stale) {
                return;
            }
        }
    })
    .await;
    let refunds = services.stores.domain.refunds.list_of_charge(integrator_id, id).await.expect("refunds");
    assert_eq!(refunds.len(), PAYERS);
    let charge = services.charges.get(integrator_id, id).await.expect("the charge");
    assert_eq!(charge.refund_reserved.get(), i64::try_from(PAYERS).expect("a small number"));
}
