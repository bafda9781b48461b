//! What every adapter of a settlement provider must do: each case is one promise of
//! [`SettlementProvider`], written against that port alone, and run over the adapter and a provider that can be told
//! what to do.
//!
//! It owns what "a settlement provider" means, and never knows what travels between the adapter and the provider.
//!
//! An adapter brings a [`ProviderHarness`] and one line:
//!
//! ```text
//! // tests/conformance.rs of the adapter
//! async fn harness() -> MyHarness { … }
//!
//! pix_conformance::provider_suite!(harness());
//! ```

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::Amount;
use pix_domain::party::PixKey;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, PaymentOrder, Progress, ProviderError, ProviderId,
    Reference, RefundOrder, SettlementProvider, Ticket,
};
use pix_domain::text::{Description, PayerQuestion};
use uuid::Uuid;

use crate::builders::{self, amount, cents};

/// How many times the same thing is asked for at once.
const AT_ONCE: usize = 8;

/// An adapter, and control over the provider behind it.
#[async_trait]
pub trait ProviderHarness: Send + Sync {
    /// The adapter.
    fn provider(&self) -> Arc<dyn SettlementProvider>;

    /// The adapter, made for an address where nobody listens.
    fn unreachable(&self) -> Arc<dyn SettlementProvider>;

    /// A key that the provider pays to.
    fn good_key(&self) -> PixKey;

    /// A key that the provider refuses for good.
    fn refused_key(&self) -> PixKey;

    /// Somebody pays a charge.
    async fn pay_charge(&self, charge: Reference, amount: Amount);

    /// The provider removes a charge.
    async fn remove_charge(&self, charge: Reference);

    /// From now on the provider takes what is sent without settling it.
    async fn hold(&self);

    /// The provider settles what it took.
    async fn settle(&self, kind: ResourceKind, outgoing: Reference);

    /// The provider fails what it took.
    async fn fail(&self, kind: ResourceKind, outgoing: Reference);

    /// Money of a settled payment comes back.
    async fn give_back(&self, payment: Reference, amount: Amount);

    /// How many charges the provider made under this reference.
    async fn made(&self, charge: Reference) -> usize;

    /// How many times money left under this reference.
    async fn executed(&self, outgoing: Reference) -> usize;

    /// The provider forgets every token it gave.
    async fn expire_tokens(&self);
}

/// Expands to one `#[test]` for every promise of a settlement provider.
///
/// Takes an expression, of names of the module it stands in, that makes a future of a [`ProviderHarness`]; it is
/// evaluated in every test, so that each has a provider of its own.
#[macro_export]
macro_rules! provider_suite {
    ($harness:expr) => {
        $crate::provider_cases! { $harness;
            a_charge_has_a_qr_code,
            a_repeated_charge_is_the_same_charge,
            a_charge_that_nobody_paid_has_no_payments,
            a_payment_shows_with_its_end_to_end_id,
            every_payment_of_a_charge_shows,
            a_removed_charge_is_canceled,
            a_payment_is_sent_once_and_completes,
            a_payment_that_is_not_settled_is_accepted,
            a_payment_that_fails_later_is_failed,
            a_refused_payment_leaves_nothing,
            a_repeated_payment_is_executed_once,
            a_repeated_payment_of_another_amount_is_not_executed,
            what_came_back_of_a_payment_shows,
            a_charge_is_refunded_in_parts_and_in_full,
            a_refund_beyond_what_was_paid_is_rejected,
            a_refund_that_is_not_settled_is_accepted_then_fails,
            a_repeated_refund_is_executed_once,
            a_charge_that_was_not_paid_is_not_refunded,
            what_the_provider_never_heard_of_is_none,
            a_movement_of_another_amount_is_a_mismatch,
            nothing_is_sent_to_an_unreachable_provider,
            a_forgotten_token_is_renewed_and_nothing_is_doubled,
        }
    };
}

/// The list behind [`provider_suite!`](crate::provider_suite).
#[doc(hidden)]
#[macro_export]
macro_rules! provider_cases {
    ($harness:expr; $($case:ident,)*) => {$(
        #[test]
        fn $case() {
            $crate::run(async {
                let harness = $harness.await;
                $crate::provider_suite::$case(&harness).await;
            });
        }
    )*};
}

fn fresh() -> Reference {
    Reference(Uuid::from_u128(fastrand::u128(..)))
}

fn resource(kind: ResourceKind, reference: Reference) -> ResourceRef {
    ResourceRef { integrator_id: IntegratorId(Uuid::from_u128(1)), kind, id: reference.0 }
}

fn charge_order(reference: Reference, cents: i64) -> ChargeOrder {
    ChargeOrder {
        reference,
        resource: resource(ResourceKind::Charge, reference),
        amount: amount(cents),
        payer: builders::payer(),
        payer_email: None,
        payer_question: PayerQuestion::parse("which table?").ok(),
        expires_in: Duration::from_mins(50),
    }
}

fn payment_order(reference: Reference, cents: i64, key: PixKey) -> PaymentOrder {
    PaymentOrder {
        reference,
        resource: resource(ResourceKind::Withdrawal, reference),
        amount: amount(cents),
        key,
        payee: builders::payer(),
        description: Description::parse("payout").ok(),
    }
}

fn refund_order(reference: Reference, charge: &Ticket, cents: i64) -> RefundOrder {
    RefundOrder {
        reference,
        resource: resource(ResourceKind::Refund, reference),
        charge_provider_id: charge.provider_id.clone(),
        amount: amount(cents),
        description: None,
    }
}

fn inquiry(reference: Reference, cents: i64) -> Inquiry {
    Inquiry { reference, provider_id: None, amount: amount(cents), key: None }
}

fn by_id(reference: Reference, id: &ProviderId, cents: i64) -> Inquiry {
    Inquiry { provider_id: Some(id.clone()), ..inquiry(reference, cents) }
}

async fn made_charge(harness: &dyn ProviderHarness, reference: Reference, cents: i64) -> Ticket {
    harness.provider().create_charge(charge_order(reference, cents)).await.expect("a charge")
}

async fn charge_report(
    harness: &dyn ProviderHarness,
    reference: Reference,
    id: &ProviderId,
    cents: i64,
) -> ChargeReport {
    let provider = harness.provider();
    let by_id = provider.consult_charge(by_id(reference, id, cents)).await.expect("an answer");
    let by_reference = provider.consult_charge(inquiry(reference, cents)).await.expect("an answer");
    assert_eq!(by_id, by_reference, "asking by id and by reference must tell the same");
    by_id.expect("a known charge")
}

async fn payment_report(
    harness: &dyn ProviderHarness,
    reference: Reference,
    id: &ProviderId,
    cents: i64,
) -> OutgoingReport {
    let provider = harness.provider();
    let by_id = provider.consult_payment(by_id(reference, id, cents)).await.expect("an answer");
    let by_reference = provider.consult_payment(inquiry(reference, cents)).await.expect("an answer");
    assert_eq!(by_id, by_reference, "asking by id and by reference must tell the same");
    by_id.expect("a known payment")
}

async fn refund_report(
    harness: &dyn ProviderHarness,
    reference: Reference,
    id: &ProviderId,
    cents: i64,
) -> OutgoingReport {
    let provider = harness.provider();
    let by_id = provider.consult_refund(by_id(reference, id, cents)).await.expect("an answer");
    let by_reference = provider.consult_refund(inquiry(reference, cents)).await.expect("an answer");
    assert_eq!(by_id, by_reference, "asking by id and by reference must tell the same");
    by_id.expect("a known refund")
}

fn assert_rejected<T: Debug>(answer: Result<T, ProviderError>) {
    match answer {
        Err(ProviderError::Rejected { code, message, body }) => {
            assert!(!code.is_empty() && !message.is_empty(), "a refusal says why");
            assert!(body.0.starts_with('{'), "a refusal carries the provider's object");
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn assert_unavailable<T: Debug>(answer: &Result<T, ProviderError>) {
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "expected Unavailable, got {answer:?}");
}

/// A charge comes with the provider's id, a QR code and the provider's answer.
pub async fn a_charge_has_a_qr_code(harness: &dyn ProviderHarness) {
    let ticket = made_charge(harness, fresh(), 1_550).await;
    assert!(!ticket.qrcode.is_empty());
    assert!(ticket.body.0.starts_with('{') && ticket.body.0.contains(ticket.provider_id.as_str()));
}

/// Making a charge again, one after another or at once, makes no other.
pub async fn a_repeated_charge_is_the_same_charge(harness: &dyn ProviderHarness) {
    let (provider, reference) = (harness.provider(), fresh());
    let ticket = made_charge(harness, reference, 1_000).await;
    let mut calls = Vec::new();
    for _ in 0..AT_ONCE {
        let provider = Arc::clone(&provider);
        calls.push(tokio::spawn(async move { provider.create_charge(charge_order(reference, 1_000)).await }));
    }
    for call in calls {
        let again = call.await.expect("no panic").expect("the same charge");
        assert_eq!((again.provider_id, again.qrcode), (ticket.provider_id.clone(), ticket.qrcode.clone()));
    }
    assert_eq!(harness.made(reference).await, 1);
}

/// A charge that waits is known and has no payments.
pub async fn a_charge_that_nobody_paid_has_no_payments(harness: &dyn ProviderHarness) {
    let reference = fresh();
    let ticket = made_charge(harness, reference, 1_000).await;
    let report = charge_report(harness, reference, &ticket.provider_id, 1_000).await;
    assert_eq!(report.provider_id, ticket.provider_id);
    assert!(report.payments.is_empty() && report.refunded.is_zero() && !report.canceled);
}

/// A PIX received on a charge shows with its identity, amount and time.
pub async fn a_payment_shows_with_its_end_to_end_id(harness: &dyn ProviderHarness) {
    let reference = fresh();
    let ticket = made_charge(harness, reference, 1_000).await;
    harness.pay_charge(reference, amount(1_000)).await;
    let report = charge_report(harness, reference, &ticket.provider_id, 1_000).await;
    let [payment] = report.payments.as_slice() else { panic!("one payment expected: {report:?}") };
    assert!(payment.key.end_to_end_id().is_some());
    assert_eq!(payment.amount, amount(1_000));
    assert!(payment.paid_at.micros() > 0);
}

/// A charge may be paid more than once, and with other amounts.
pub async fn every_payment_of_a_charge_shows(harness: &dyn ProviderHarness) {
    let reference = fresh();
    let ticket = made_charge(harness, reference, 1_000).await;
    for value in [1_000, 1_000, 1] {
        harness.pay_charge(reference, amount(value)).await;
    }
    let report = charge_report(harness, reference, &ticket.provider_id, 1_000).await;
    let amounts: Vec<_> = report.payments.iter().map(|payment| payment.amount).collect();
    assert_eq!(amounts, [amount(1_000), amount(1_000), amount(1)]);
    assert_ne!(report.payments[0].key, report.payments[1].key);
    assert_ne!(report.payments[1].key, report.payments[2].key);
}

/// A removed charge is canceled, and a payment that comes in spite of that shows.
pub async fn a_removed_charge_is_canceled(harness: &dyn ProviderHarness) {
    let reference = fresh();
    let ticket = made_charge(harness, reference, 1_000).await;
    harness.remove_charge(reference).await;
    let report = charge_report(harness, reference, &ticket.provider_id, 1_000).await;
    assert!(report.canceled && report.payments.is_empty());
    harness.pay_charge(reference, amount(1_000)).await;
    let report = charge_report(harness, reference, &ticket.provider_id, 1_000).await;
    assert_eq!(report.payments.len(), 1);
}

/// A payment leaves once, and is known by our reference and by the provider's id.
pub async fn a_payment_is_sent_once_and_completes(harness: &dyn ProviderHarness) {
    let reference = fresh();
    let order = payment_order(reference, 1_555, harness.good_key());
    let sent = harness.provider().send_payment(order).await.expect("a report");
    assert!(matches!(sent.progress, Progress::Accepted | Progress::Completed), "{sent:?}");
    let report = payment_report(harness, reference, &sent.provider_id, 1_555).await;
    assert_eq!((&report.provider_id, report.progress), (&sent.provider_id, Progress::Completed));
    assert!(report.end_to_end_id.is_some_and(|id| id.starts_with('E')));
    assert_eq!(harness.executed(reference).await, 1);
}

/// A payment that was taken is accepted until it is settled, and then completed.
pub async fn a_payment_that_is_not_settled_is_accepted(harness: &dyn ProviderHarness) {
    let reference = fresh();
    harness.hold().await;
    let order = payment_order(reference, 1_000, harness.good_key());
    let sent = harness.provider().send_payment(order).await.expect("a report");
    assert_eq!(sent.progress, Progress::Accepted);
    let report = payment_report(harness, reference, &sent.provider_id, 1_000).await;
    assert_eq!(report.progress, Progress::Accepted);
    harness.settle(ResourceKind::Withdrawal, reference).await;
    let report = payment_report(harness, reference, &sent.provider_id, 1_000).await;
    assert_eq!(report.progress, Progress::Completed);
    assert_eq!(harness.executed(reference).await, 1);
}

/// A payment that was taken and then refused is failed, with a reason.
pub async fn a_payment_that_fails_later_is_failed(harness: &dyn ProviderHarness) {
    let reference = fresh();
    harness.hold().await;
    let order = payment_order(reference, 1_000, harness.good_key());
    let sent = harness.provider().send_payment(order).await.expect("a report");
    harness.fail(ResourceKind::Withdrawal, reference).await;
    let report = payment_report(harness, reference, &sent.provider_id, 1_000).await;
    let Progress::Failed { code, message } = report.progress else { panic!("{report:?}") };
    assert!(!code.is_empty() && !message.is_empty());
    assert_eq!(harness.executed(reference).await, 0);
}

/// A final refusal is told as one, and the provider doesn't know the payment afterwards.
pub async fn a_refused_payment_leaves_nothing(harness: &dyn ProviderHarness) {
    let reference = fresh();
    let order = payment_order(reference, 1_000, harness.refused_key());
    assert_rejected(harness.provider().send_payment(order).await);
    assert_eq!(harness.provider().consult_payment(inquiry(reference, 1_000)).await, Ok(None));
    assert_eq!(harness.executed(reference).await, 0);
}

/// The same payment sent again, one after another or at once, leaves once.
pub async fn a_repeated_payment_is_executed_once(harness: &dyn ProviderHarness) {
    let (provider, reference) = (harness.provider(), fresh());
    let mut calls = Vec::new();
    for _ in 0..AT_ONCE {
        let (provider, key) = (Arc::clone(&provider), harness.good_key());
        calls.push(tokio::spawn(
            async move { provider.send_payment(payment_order(reference, 1_000, key)).await },
        ));
    }
    let mut ids = Vec::new();
    for call in calls {
        ids.push(call.await.expect("no panic").expect("a report").provider_id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one payment has one id");
    assert_eq!(harness.executed(reference).await, 1);
}

/// A reference that was used for another amount is not sent, and is not taken for done.
pub async fn a_repeated_payment_of_another_amount_is_not_executed(harness: &dyn ProviderHarness) {
    let (provider, reference) = (harness.provider(), fresh());
    provider.send_payment(payment_order(reference, 1_000, harness.good_key())).await.expect("a report");
    let other = provider.send_payment(payment_order(reference, 2_000, harness.good_key())).await;
    assert!(other.is_err(), "{other:?}");
    assert_eq!(harness.executed(reference).await, 1);
}

/// Money that came back, in part and then in full, shows as the sum.
pub async fn what_came_back_of_a_payment_shows(harness: &dyn ProviderHarness) {
    let reference = fresh();
    let order = payment_order(reference, 1_000, harness.good_key());
    let sent = harness.provider().send_payment(order).await.expect("a report");
    harness.give_back(reference, amount(250)).await;
    let report = payment_report(harness, reference, &sent.provider_id, 1_000).await;
    assert_eq!(report.progress, Progress::Returned(cents(250)));
    harness.give_back(reference, amount(750)).await;
    let report = payment_report(harness, reference, &sent.provider_id, 1_000).await;
    assert_eq!(report.progress, Progress::Returned(cents(1_000)));
}

/// A paid charge can be refunded in parts until nothing is left.
pub async fn a_charge_is_refunded_in_parts_and_in_full(harness: &dyn ProviderHarness) {
    let charge = fresh();
    let ticket = made_charge(harness, charge, 1_000).await;
    harness.pay_charge(charge, amount(1_000)).await;
    for (value, sent_back) in [(1, 1), (299, 300), (700, 1_000)] {
        let reference = fresh();
        let sent =
            harness.provider().refund(refund_order(reference, &ticket, value)).await.expect("a report");
        assert!(matches!(sent.progress, Progress::Accepted | Progress::Completed), "{sent:?}");
        assert_ne!(sent.provider_id, ticket.provider_id, "a refund has an id of its own");
        let report = refund_report(harness, reference, &sent.provider_id, value).await;
        assert_eq!((&report.provider_id, report.progress), (&sent.provider_id, Progress::Completed));
        assert_eq!(harness.executed(reference).await, 1);
        let report = charge_report(harness, charge, &ticket.provider_id, 1_000).await;
        assert_eq!(report.refunded, cents(sent_back), "what went back shows on the charge");
    }
    let report = charge_report(harness, charge, &ticket.provider_id, 1_000).await;
    assert_eq!(report.payments.len(), 1, "a refunded charge has still been paid");
    assert_eq!(report.refunded, cents(1_000));
}

/// Refunds never sum above what was paid.
pub async fn a_refund_beyond_what_was_paid_is_rejected(harness: &dyn ProviderHarness) {
    let (charge, first, over) = (fresh(), fresh(), fresh());
    let ticket = made_charge(harness, charge, 1_000).await;
    harness.pay_charge(charge, amount(1_000)).await;
    harness.provider().refund(refund_order(first, &ticket, 600)).await.expect("a report");
    assert_rejected(harness.provider().refund(refund_order(over, &ticket, 401)).await);
    assert_eq!(harness.provider().consult_refund(inquiry(over, 401)).await, Ok(None));
    assert_eq!((harness.executed(first).await, harness.executed(over).await), (1, 0));
}

/// A refund that was taken is accepted, and failed once the provider says so.
pub async fn a_refund_that_is_not_settled_is_accepted_then_fails(harness: &dyn ProviderHarness) {
    let (charge, lost, done) = (fresh(), fresh(), fresh());
    let ticket = made_charge(harness, charge, 1_000).await;
    harness.pay_charge(charge, amount(1_000)).await;
    harness.hold().await;
    for (reference, settles) in [(lost, false), (done, true)] {
        let sent =
            harness.provider().refund(refund_order(reference, &ticket, 1_000)).await.expect("a report");
        assert_eq!(sent.progress, Progress::Accepted);
        if settles {
            harness.settle(ResourceKind::Refund, reference).await;
        } else {
            harness.fail(ResourceKind::Refund, reference).await;
        }
        let report = refund_report(harness, reference, &sent.provider_id, 1_000).await;
        assert_eq!(report.progress == Progress::Completed, settles, "{report:?}");
        assert_eq!(matches!(report.progress, Progress::Failed { .. }), !settles, "{report:?}");
    }
    assert_eq!((harness.executed(lost).await, harness.executed(done).await), (0, 1));
}

/// The same refund sent again, one after another or at once, leaves once.
pub async fn a_repeated_refund_is_executed_once(harness: &dyn ProviderHarness) {
    let (charge, reference) = (fresh(), fresh());
    let ticket = made_charge(harness, charge, 1_000).await;
    harness.pay_charge(charge, amount(1_000)).await;
    let mut calls = Vec::new();
    for _ in 0..AT_ONCE {
        let (provider, order) = (harness.provider(), refund_order(reference, &ticket, 100));
        calls.push(tokio::spawn(async move { provider.refund(order).await }));
    }
    let mut ids = Vec::new();
    for call in calls {
        ids.push(call.await.expect("no panic").expect("a report").provider_id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one refund has one id");
    assert_eq!(harness.executed(reference).await, 1);
}

/// What nobody paid can't be sent back.
pub async fn a_charge_that_was_not_paid_is_not_refunded(harness: &dyn ProviderHarness) {
    let reference = fresh();
    let ticket = made_charge(harness, fresh(), 1_000).await;
    assert_rejected(harness.provider().refund(refund_order(reference, &ticket, 1)).await);
    assert_eq!(harness.executed(reference).await, 0);
}

/// A reference and an id that the provider never heard of are `None`, not an error.
pub async fn what_the_provider_never_heard_of_is_none(harness: &dyn ProviderHarness) {
    let provider = harness.provider();
    let id = ProviderId::parse("0000000000000000000000000000dead").expect("an id");
    for inquiry in [inquiry(fresh(), 1_000), by_id(fresh(), &id, 1_000)] {
        assert_eq!(provider.consult_charge(inquiry.clone()).await, Ok(None));
        assert_eq!(provider.consult_payment(inquiry.clone()).await, Ok(None));
        assert_eq!(provider.consult_refund(inquiry).await, Ok(None));
    }
}

/// An answer about another amount than ours proves nothing about ours; nor does one about another record.
pub async fn a_movement_of_another_amount_is_a_mismatch(harness: &dyn ProviderHarness) {
    let (provider, reference) = (harness.provider(), fresh());
    let order = payment_order(reference, 1_000, harness.good_key());
    let sent = provider.send_payment(order).await.expect("a report");
    for other in [
        inquiry(reference, 1_001),
        by_id(reference, &sent.provider_id, 1_001),
        by_id(fresh(), &sent.provider_id, 1_000),
    ] {
        let answer = provider.consult_payment(other).await;
        assert!(matches!(answer, Err(ProviderError::Mismatch(_))), "{answer:?}");
    }
}

/// Where nobody listens, nothing was sent: whatever was asked for.
pub async fn nothing_is_sent_to_an_unreachable_provider(harness: &dyn ProviderHarness) {
    let ticket = made_charge(harness, fresh(), 1_000).await;
    let provider = harness.unreachable();
    assert_unavailable(&provider.create_charge(charge_order(fresh(), 1_000)).await);
    assert_unavailable(&provider.send_payment(payment_order(fresh(), 1_000, harness.good_key())).await);
    assert_unavailable(&provider.refund(refund_order(fresh(), &ticket, 1_000)).await);
    assert_unavailable(&provider.consult_charge(inquiry(fresh(), 1_000)).await);
    assert_unavailable(&provider.consult_payment(inquiry(fresh(), 1_000)).await);
    assert_unavailable(&provider.consult_refund(inquiry(fresh(), 1_000)).await);
}

/// A provider that has forgotten our token is asked for a new one, and does once what it is then asked for.
pub async fn a_forgotten_token_is_renewed_and_nothing_is_doubled(harness: &dyn ProviderHarness) {
    let (provider, charge, payment, refund) = (harness.provider(), fresh(), fresh(), fresh());
    let ticket = made_charge(harness, charge, 1_000).await;
    harness.pay_charge(charge, amount(1_000)).await;
    harness.expire_tokens().await;
    provider.send_payment(payment_order(payment, 1_000, harness.good_key())).await.expect("a report");
    harness.expire_tokens().await;
    provider.refund(refund_order(refund, &ticket, 1_000)).await.expect("a report");
    harness.expire_tokens().await;
    let mut calls = Vec::new();
    for _ in 0..AT_ONCE {
        let (provider, inquiry) = (Arc::clone(&provider), inquiry(payment, 1_000));
        calls.push(tokio::spawn(async move { provider.consult_payment(inquiry).await }));
    }
    for call in calls {
        let report = call.await.expect("no panic").expect("an answer").expect("a known payment");
        assert_eq!(report.progress, Progress::Completed);
    }
    harness.expire_tokens().await;
    made_charge(harness, charge, 1_000).await;
    assert_eq!((harness.executed(payment).await, harness.executed(refund).await), (1, 1));
    assert_eq!(harness.made(charge).await, 1);
}
