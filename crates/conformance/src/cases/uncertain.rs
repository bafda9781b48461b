//! Money laws 3, 4 and 5: an outcome nobody knows holds its money until there is evidence; nothing is sent twice; what
//! is final stays final.

use std::time::Duration;

use pix_domain::charges::ChargeState;
use pix_domain::error::ServiceError;
use pix_domain::ids::{IntegratorId, WithdrawalId};
use pix_domain::provider::{Progress, ProviderError};
use pix_domain::schedule::{NEEDS_REVIEW_AFTER, OUTGOING_WAITS, QUEUE_MAX_AGE};
use pix_domain::transactions::ProviderAnswer;
use pix_domain::withdrawals::service::QuoteVerdict;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

use crate::builders::{cents, next, refund_command, report, some_fees, withdrawal_command};
use crate::harness::SUBMIT_GRACE;
use crate::provider::{FAILURE_CODE, FAILURE_MESSAGE};
use crate::{Answer, Services, StoreHarness, services, snapshot};

const HORIZON: Duration = Duration::from_mins(10);
/// The horizon counts from the last moment at which it could have been sent.
const PAST_HORIZON: Duration = Duration::from_secs(10 * 60 + SUBMIT_GRACE.as_secs());

/// An integrator with 100.00, fees set.
async fn with_money(services: &Services) -> IntegratorId {
    let integrator_id = services.funded(10_000).await;
    services.set_fees(integrator_id, some_fees()).await;
    integrator_id
}

/// A withdrawal of 40.00 and 0.50, answered like that.
async fn sent(services: &Services, integrator_id: IntegratorId, answer: Answer) -> Withdrawal {
    services.provider.answers_next(answer);
    let created = services.withdrawals.create(withdrawal_command(integrator_id, 4_000)).await;
    created.expect("a withdrawal").into_inner()
}

/// Moves the clock on, and lets the worker do what is due; how much it was.
async fn after(services: &Services, span: Duration) -> usize {
    services.wait(span);
    services.reconciler.run_once().await.expect("a round")
}

fn failed(code: &str) -> Progress {
    Progress::Failed { code: code.into(), message: FAILURE_MESSAGE.into() }
}

/// The answer was lost: the money stays held until the provider, asked, says that it was sent; settled once.
pub async fn a_lost_answer_is_settled_when_the_provider_is_asked(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::LostAnswer).await;
    assert_eq!(withdrawal.state, OutgoingState::Uncertain);
    assert_eq!(services.balances(integrator_id).await, (5_950, 4_050));
    assert_eq!(after(&services, Duration::from_secs(4)).await, 0, "it is not asked about before its time");
    assert_eq!(after(&services, Duration::from_secs(1)).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Completed);
    assert_eq!(services.balances(integrator_id).await, (5_950, 0));
    assert_eq!(after(&services, Duration::from_hours(24)).await, 0, "what is final is never due");
    assert_eq!(services.provider.sends(withdrawal.id.0), 1);
}

/// "Not known" is proof only after the horizon that the provider's adapter names, and never the first time.
pub async fn not_known_is_no_proof_before_the_horizon(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    services.provider.not_found_is_proof(Some(HORIZON));
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::LostRequest).await;
    let mut asked = 0;
    for wait in [5, 15, 60] {
        asked += after(&services, Duration::from_secs(wait)).await;
        assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
        assert_eq!(services.balances(integrator_id).await, (5_950, 4_050));
    }
    assert_eq!(asked, 3);
    assert_eq!(after(&services, PAST_HORIZON).await, 1);
    let released = services.withdrawal(&withdrawal).await;
    assert!(matches!(&released.state, OutgoingState::Failed(failure) if failure.code == "not_executed"));
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
    assert_eq!(services.provider.sends(withdrawal.id.0), 1);
}

/// The first "not known" is no proof however late it comes; an integrator's own questions count for nothing.
pub async fn not_known_is_no_proof_the_first_time(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    services.provider.not_found_is_proof(Some(HORIZON));
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::LostRequest).await;
    services.wait(PAST_HORIZON);
    for _ in 0..3 {
        let (_, answer) = services.transactions.consult(withdrawal.resource()).await.expect("a consult");
        assert_eq!(answer, ProviderAnswer::NotKnown);
    }
    assert_eq!(after(&services, Duration::ZERO).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
    assert_eq!(after(&services, OUTGOING_WAITS[1]).await, 1);
    assert!(matches!(services.withdrawal(&withdrawal).await.state, OutgoingState::Failed(_)));
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
}

/// By a clock that was set within the horizon, or has run for less, no "not known" is proof; by one that isn't right nobody is
/// asked at all.
pub async fn a_clock_that_was_set_proves_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    services.provider.not_found_is_proof(Some(HORIZON));
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::LostRequest).await;
    services.clock.right_for(Some(PAST_HORIZON.saturating_sub(Duration::from_millis(1))));
    for wait in [Duration::from_secs(5), PAST_HORIZON, PAST_HORIZON] {
        assert_eq!(after(&services, wait).await, 1);
        assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
    }
    services.clock.right_for(None);
    assert_eq!(after(&services, PAST_HORIZON).await, 0, "who knows whether it is due");
    services.clock.right_for(Some(PAST_HORIZON));
    assert_eq!(after(&services, Duration::ZERO).await, 1);
    assert!(matches!(services.withdrawal(&withdrawal).await.state, OutgoingState::Failed(_)));
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
    assert_eq!(services.provider.sends(withdrawal.id.0), 1);
}

/// While the clock isn't right nothing new is sent, and what waits goes on waiting, however old it seems to be.
pub async fn by_a_clock_that_is_not_right_nothing_is_sent(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let queued = sent(&services, integrator_id, Answer::Unavailable).await;
    services.provider.answers_next(Answer::Unavailable);
    let returning =
        services.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund").into_inner();
    let before = services.balances(integrator_id).await;
    services.clock.right_for(None);
    services.wait(QUEUE_MAX_AGE);
    let command = withdrawal_command(integrator_id, 1_000);
    let refused = services.withdrawals.create(command.clone()).await;
    assert_eq!(refused, Err(ServiceError::ClockNotRight));
    let quote = services.withdrawals.quote(&command).await.expect("a quote");
    assert_eq!(quote.verdict, QuoteVerdict::Refused(ServiceError::ClockNotRight));
    let refused = services.refunds.create(refund_command(&charge, 1_000)).await;
    assert_eq!(refused, Err(ServiceError::ClockNotRight));
    let followed = services.withdrawals.follow_up(integrator_id, queued.id).await.expect("the withdrawal");
    assert_eq!(followed.state, OutgoingState::Queued);
    let followed = services.refunds.follow_up(integrator_id, returning.id).await.expect("the refund");
    assert_eq!(followed.state, OutgoingState::Queued);
    assert_eq!(services.balances(integrator_id).await, before);
    services.clock.right_for(Some(Duration::ZERO));
    let made = services.withdrawals.create(command).await.expect("a withdrawal").into_inner();
    assert_eq!((made.state.name(), services.provider.sends(made.id.0)), ("completed", 1));
    assert_eq!(services.provider.sends(queued.id.0), 0);
}

/// Who asks while the clock isn't right learns what the provider says, and ends nothing because of the time: no charge is over, no
/// sending is past its grace, nothing waits for an operator, and no callback is old.
pub async fn by_a_clock_that_is_not_right_nothing_ends(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let charge = services.charge(integrator_id, 1_000).await;
    let uncertain = sent(&services, integrator_id, Answer::LostRequest).await;
    let intent = services.withdrawal_intent(integrator_id, 1_000);
    let sending = intent.withdrawal().cloned().expect("a withdrawal");
    services.apply(intent).await;
    for reference in [Some(services.id()), None] {
        services.callbacks.keep(reference, "{}".into()).await.expect("a kept callback");
    }
    let states = async || {
        for resource in [charge.resource(), uncertain.resource(), sending.resource()] {
            services.transactions.consult(resource).await.expect("a consult");
        }
        let charge = services.charges.get(integrator_id, charge.id).await.expect("the charge");
        let withdrawals = [&uncertain, &sending].map(|one| services.withdrawal(one));
        let [uncertain, sending] = withdrawals;
        (charge.state, uncertain.await.state, sending.await.state)
    };
    services.clock.right_for(None);
    services.wait(Duration::from_hours(24));
    assert_eq!(states().await, (ChargeState::Pending, OutgoingState::Uncertain, OutgoingState::Submitting));
    assert_eq!(services.callbacks.claim(10).await, Ok(Vec::new()));
    assert_eq!(services.callbacks.forget(Duration::ZERO, 10).await, Ok(0));
    services.clock.right_for(Some(Duration::ZERO));
    assert_eq!(
        states().await,
        (ChargeState::Expired, OutgoingState::NeedsReview, OutgoingState::NeedsReview)
    );
    assert_eq!(services.callbacks.claim(10).await.map(|claimed| claimed.len()), Ok(1));
    assert_eq!(services.callbacks.forget(Duration::ZERO, 10).await, Ok(1));
}

/// What was heard while the clock was far ahead keeps nobody from hearing it again, and at two times of the right clock it is proof.
pub async fn what_is_dated_ahead_keeps_nothing_held(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    services.provider.not_found_is_proof(Some(HORIZON));
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::LostRequest).await;
    let before = services.now();
    services.clock.right_for(None);
    services.wait(Duration::from_hours(24 * 365));
    services.transactions.consult(withdrawal.resource()).await.expect("a consult");
    services.clock.set(before);
    services.clock.right_for(Some(Duration::ZERO));
    assert_eq!(after(&services, OUTGOING_WAITS[0]).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
    services.clock.right_for(Some(PAST_HORIZON));
    assert_eq!(after(&services, PAST_HORIZON).await, 1);
    assert!(matches!(services.withdrawal(&withdrawal).await.state, OutgoingState::Failed(_)));
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
}

/// Where "not known" is never proof, an operator is to look, and the money stays held.
pub async fn what_stays_unknown_is_held_for_an_operator(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::LostRequest).await;
    after(&services, Duration::from_mins(5)).await;
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
    after(&services, NEEDS_REVIEW_AFTER).await;
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::NeedsReview);
    for _ in 0..10 {
        after(&services, Duration::from_hours(1)).await;
    }
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::NeedsReview);
    assert_eq!(services.balances(integrator_id).await, (5_950, 4_050));
    services.provider.knows(withdrawal.id.0, Progress::Completed);
    assert_eq!(after(&services, Duration::from_hours(1)).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Completed);
    assert_eq!(services.provider.sends(withdrawal.id.0), 1);
}

/// A provider that can't be asked says nothing: the money stays held, whatever the horizon.
pub async fn a_failing_question_proves_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    services.provider.not_found_is_proof(Some(HORIZON));
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::LostRequest).await;
    for error in [ProviderError::Unavailable("x".into()), ProviderError::Indeterminate("x".into())] {
        services.provider.questions_fail(Some(error));
        for _ in 0..2 {
            assert_eq!(after(&services, Duration::from_mins(15)).await, 1);
            assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
        }
    }
    assert_eq!(services.balances(integrator_id).await, (5_950, 4_050));
}

/// What was definitely not sent waits, and the worker sends it, once.
pub async fn what_was_not_sent_is_sent_once_by_the_worker(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::Unavailable).await;
    assert_eq!(withdrawal.state, OutgoingState::Queued);
    assert_eq!(services.balances(integrator_id).await, (5_950, 4_050));
    services.provider.answers_next(Answer::Unavailable);
    assert_eq!(after(&services, Duration::from_secs(5)).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Queued);
    services.provider.answers_next(Answer::Complete);
    assert_eq!(after(&services, Duration::from_mins(1)).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Completed);
    assert_eq!(after(&services, Duration::from_hours(1)).await, 0);
    let reference = withdrawal.id.0;
    assert_eq!((services.provider.unavailable(reference), services.provider.sends(reference)), (2, 1));
    assert_eq!(services.balances(integrator_id).await, (5_950, 0));
}

/// What could not be sent for too long is given up, and its money is free again, fee included.
pub async fn what_waits_too_long_is_given_up(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    services.provider.answers(Answer::Unavailable);
    let withdrawal = sent(&services, integrator_id, Answer::Unavailable).await;
    assert_eq!(after(&services, QUEUE_MAX_AGE.saturating_sub(Duration::from_secs(1))).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Queued);
    assert_eq!(after(&services, Duration::from_mins(1)).await, 1);
    let given_up = services.withdrawal(&withdrawal).await;
    assert!(
        matches!(&given_up.state, OutgoingState::Failed(failure) if failure.code == "provider_unavailable")
    );
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
    assert_eq!(services.provider.sends(withdrawal.id.0), 0);
}

/// Whoever died while sending left a record that is asked about, never sent again.
pub async fn a_record_left_while_sending_is_asked_about_and_not_sent(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let intent = services.withdrawal_intent(integrator_id, 4_000);
    let withdrawal = intent.withdrawal().cloned().expect("a withdrawal");
    services.apply(intent).await;
    assert_eq!(
        after(&services, SUBMIT_GRACE.saturating_sub(Duration::from_secs(1))).await,
        0,
        "sending may take that long"
    );
    assert_eq!(after(&services, Duration::from_secs(1)).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Uncertain);
    assert_eq!(services.balances(integrator_id).await, (6_000, 4_000));
    services.provider.knows(withdrawal.id.0, Progress::Completed);
    assert_eq!(after(&services, OUTGOING_WAITS[1]).await, 1);
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Completed);
    assert_eq!(services.provider.sends(withdrawal.id.0), 0);
}

/// What the provider took and then could not do gives its money back, fee included, once.
pub async fn an_accepted_withdrawal_that_fails_is_released_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::Accept).await;
    assert_eq!(withdrawal.state, OutgoingState::Accepted);
    services.provider.knows(withdrawal.id.0, failed(FAILURE_CODE));
    for _ in 0..3 {
        services.transactions.consult(withdrawal.resource()).await.expect("a consult");
        assert!(matches!(services.withdrawal(&withdrawal).await.state, OutgoingState::Failed(_)));
        assert_eq!(services.balances(integrator_id).await, (10_000, 0));
    }
    assert_eq!(after(&services, Duration::from_hours(1)).await, 0);
}

/// A final state is final: a report that contradicts it makes one finding, and takes the money that left all the same.
pub async fn a_contradicting_report_makes_one_finding_and_changes_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let completed = sent(&services, integrator_id, Answer::Complete).await;
    let rejected = sent(&services, integrator_id, Answer::Reject).await;
    let before = services.stores.books.book(integrator_id).await;
    services.provider.knows(completed.id.0, failed("late"));
    for _ in 0..2 {
        services.transactions.consult(completed.resource()).await.expect("a consult");
    }
    assert_eq!(services.stores.books.book(integrator_id).await, before);
    services.provider.knows(rejected.id.0, Progress::Completed);
    for _ in 0..2 {
        services.transactions.consult(rejected.resource()).await.expect("a consult");
    }
    assert_eq!(services.balances(integrator_id).await, (5_950 - 4_000, 0));
    assert_eq!(services.withdrawal(&rejected).await.state, rejected.state);
    let findings = services.stores.books.findings(integrator_id).await.expect("findings");
    let codes: Vec<_> = findings.iter().map(|finding| (finding.resource, finding.code.as_str())).collect();
    assert_eq!(
        codes,
        [
            (completed.resource(), "failed_though_completed"),
            (rejected.resource(), "completed_though_not_sent")
        ]
    );
}

/// That it was not sent may be told after it was lost sight of: then it waits, and is sent, once.
pub async fn what_was_not_sent_may_be_told_late(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let intent = services.withdrawal_intent(integrator_id, 4_000);
    let submitted = intent.withdrawal().cloned().expect("a withdrawal");
    services.apply(intent).await;
    services.wait(SUBMIT_GRACE);
    services.reconciler.run_once().await.expect("a round");
    let lost = services.withdrawal(&submitted).await;
    assert_eq!(lost.state, OutgoingState::Uncertain);
    services.apply(next(lost.clone().queue(services.now()))).await;
    assert_eq!(services.balances(integrator_id).await, (6_000, 4_000));
    assert_eq!(after(&services, Duration::from_secs(5)).await, 1);
    assert_eq!(services.withdrawal(&submitted).await.state, OutgoingState::Completed);
    assert_eq!(services.provider.sends(submitted.id.0), 1);
    let known = next(lost.accepted(report(submitted.id.0, Progress::Accepted), services.now()));
    let known = known.withdrawal().cloned().expect("a withdrawal");
    assert!(matches!(known.queue(services.now()), pix_domain::transition::Step::Refused(_)));
}

/// What comes back after completion is the integrator's again, in parts or whole, each part once.
pub async fn what_comes_back_is_credited_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::Complete).await;
    for (returned, available) in [(1_500, 7_450), (1_500, 7_450), (4_000, 9_950), (4_000, 9_950)] {
        services.provider.knows(withdrawal.id.0, Progress::Returned(cents(returned)));
        services.transactions.consult(withdrawal.resource()).await.expect("a consult");
        assert_eq!(services.balances(integrator_id).await, (available, 0));
    }
    assert_eq!(services.withdrawal(&withdrawal).await.state, OutgoingState::Returned);
}

/// Refunds hold and are followed up as withdrawals are, with the charge's own sums beside them.
pub async fn a_refund_without_answer_holds_until_there_is_evidence(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    services.provider.not_found_is_proof(Some(HORIZON));
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    services.set_fees(integrator_id, some_fees()).await;
    let sums = async || {
        let charge = services.charges.get(integrator_id, charge.id).await.expect("the charge");
        (charge.refund_reserved.get(), charge.refunded.get())
    };
    services.provider.answers_next(Answer::LostAnswer);
    let taken = services.refunds.create(refund_command(&charge, 3_000)).await.expect("a refund").into_inner();
    assert_eq!((taken.state.name(), sums().await), ("uncertain", (3_000, 0)));
    assert_eq!(services.balances(integrator_id).await, (6_975, 3_025));
    assert_eq!(after(&services, Duration::from_secs(5)).await, 2, "the refund, and its charge");
    assert_eq!(sums().await, (0, 3_000));
    assert_eq!(services.balances(integrator_id).await, (6_975, 0));

    services.provider.answers_next(Answer::LostRequest);
    let lost = services.refunds.create(refund_command(&charge, 2_000)).await.expect("a refund").into_inner();
    services.provider.answers_next(Answer::Unavailable);
    let queued =
        services.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund").into_inner();
    assert_eq!(queued.state, OutgoingState::Queued);
    assert_eq!(sums().await, (3_000, 3_000));
    services.provider.answers_next(Answer::Reject);
    assert_eq!(after(&services, Duration::from_secs(5)).await, 3);
    assert_eq!(sums().await, (2_000, 3_000), "the queued one was rejected, the lost one is held");
    let due = after(&services, PAST_HORIZON).await;
    assert_eq!(due, 2, "the lost one, and its charge, of which a released refund may have hidden something");
    assert_eq!(sums().await, (0, 3_000));
    assert_eq!(services.balances(integrator_id).await, (6_975, 0));
    for refund in [taken, lost, queued] {
        assert_eq!(services.provider.sends(refund.id.0), 1);
    }
    assert_eq!(after(&services, Duration::from_hours(1)).await, 1, "the charge, once more");
    assert_eq!(after(&services, Duration::from_hours(24)).await, 0);
}

/// A late payment on an expired or removed charge is credited; a payment before the end keeps it from expiring.
pub async fn a_late_payment_is_credited(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let (expired, removed) =
        (services.charge(integrator_id, 100).await, services.charge(integrator_id, 200).await);
    services.provider.removes(removed.id.0);
    services.transactions.consult(removed.resource()).await.expect("a consult");
    services.wait(pix_domain::charges::DEFAULT_EXPIRES_IN);
    while services.reconciler.run_once().await.expect("a round") > 0 {}
    for (charge, state) in [(&expired, ChargeState::Expired), (&removed, ChargeState::Canceled)] {
        let charge = services.charges.get(integrator_id, charge.id).await.expect("the charge");
        assert_eq!(charge.state, state);
        let paid = services.pay(&charge, services.payment(charge.amount.cents().get())).await;
        assert_eq!(paid.state, ChargeState::Paid);
        assert!(paid.credited.is_some_and(|credited| credited.late));
    }
    assert_eq!(services.balances(integrator_id).await, (300, 0));
}

/// A fee is that of the day the operation was accepted, whatever is in force when it ends.
pub async fn a_running_operation_keeps_its_fee(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let charge = services.charge(integrator_id, 1_000).await;
    let settled = sent(&services, integrator_id, Answer::Accept).await;
    let released = sent(&services, integrator_id, Answer::Accept).await;
    let mut dearer = some_fees();
    dearer.cash_in.fixed = cents(900);
    dearer.cash_out.fixed = cents(999);
    assert_eq!(services.set_fees(integrator_id, dearer).await, 2);
    let (settled_id, released_id): (WithdrawalId, WithdrawalId) = (settled.id, released.id);
    services.provider.knows(settled_id.0, Progress::Completed);
    services.provider.knows(released_id.0, failed(FAILURE_CODE));
    assert_eq!(after(&services, Duration::from_secs(5)).await, 2);
    let paid = services.pay(&charge, services.payment(1_000)).await;
    assert_eq!(paid.credited.map(|credited| credited.fee), Some(cents(20)));
    assert_eq!(services.balances(integrator_id).await, (10_000 - 4_050 + 980, 0));
}

/// A worker that was overtaken does no harm: what it was to do is done or refused.
pub async fn a_worker_that_was_overtaken_does_no_harm(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = with_money(&services).await;
    let withdrawal = sent(&services, integrator_id, Answer::Unavailable).await;
    services.wait(Duration::from_secs(5));
    let due = services.reconciler.claim(9).await.expect("a claim");
    services.apply(next(withdrawal.clone().cancel(services.now()))).await;
    let before = snapshot(&services.stores).await;
    for item in due {
        services.reconciler.process(item).await.expect("a follow-up");
    }
    assert_eq!(snapshot(&services.stores).await, before);
    assert_eq!(services.provider.sends(withdrawal.id.0), 0);
    let late = report(withdrawal.id.0, Progress::Accepted);
    let finding = next(services.withdrawal(&withdrawal).await.accepted(late, services.now()));
    assert!(finding.writes.is_empty());
    services.apply(finding).await;
    assert_eq!(services.balances(integrator_id).await, (10_000, 0));
}
