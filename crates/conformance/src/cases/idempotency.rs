//! Money law 8: the same handle with the same body is the same resource, with another body it is refused; a definite
//! failure sticks to its handle; a request refused before anything was stored burns nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use pix_domain::charges::ChargeState;
use pix_domain::charges::service::CreateCharge;
use pix_domain::error::{ServiceError, StoreError};
use pix_domain::ids::{ChargeId, IntegratorId, RefundId, ResourceKind};
use pix_domain::ports::Outcome;
use pix_domain::refunds::Refund;
use pix_domain::refunds::service::{CreateRefund, RefundService};
use pix_domain::refunds::store::RefundStore;
use pix_domain::text::{Description, ExternalId};
use pix_domain::withdrawals::service::CreateWithdrawal;
use pix_domain::withdrawals::{OutgoingState, Withdrawal};

use crate::builders::{amount, charge_command, key, name, refund_command, some_fees, withdrawal_command};
use crate::provider::FAILURE_CODE;
use crate::{Answer, Services, StoreHarness, services, snapshot};

async fn create(services: &Services, command: &CreateWithdrawal) -> Result<Withdrawal, ServiceError> {
    services.withdrawals.create(command.clone()).await.map(Outcome::into_inner)
}

/// The same request again is answered with the same record, and sends nothing.
pub async fn the_same_request_again_is_the_same_record(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let charge = services.paid_charge(integrator_id, 5_000).await;
    let withdrawal = withdrawal_command(integrator_id, 1_000);
    let refund = refund_command(&charge, 500);
    for (external_id, idempotency_key) in [
        (Some(name("by name")), None),
        (None, Some(key("by-key"))),
        (Some(name("by both")), Some(key("by-both"))),
    ] {
        let command = CreateWithdrawal {
            external_id: external_id.clone(),
            idempotency_key: idempotency_key.clone(),
            ..withdrawal.clone()
        };
        let first = services.withdrawals.create(command.clone()).await.expect("a withdrawal");
        let Outcome::Created(first) = first else { panic!("the first of its name") };
        assert_eq!(services.withdrawals.create(command).await, Ok(Outcome::Replayed(first)));

        let command = CreateRefund {
            external_id: external_id.clone(),
            idempotency_key: idempotency_key.clone(),
            ..refund.clone()
        };
        let first = services.refunds.create(command.clone()).await.expect("a refund");
        let Outcome::Created(first) = first else { panic!("the first of its name") };
        assert_eq!(services.refunds.create(command).await, Ok(Outcome::Replayed(first)));

        let command = CreateCharge { external_id, idempotency_key, ..charge_command(integrator_id) };
        let first = services.charges.create(command.clone()).await.expect("a charge");
        let Outcome::Created(first) = first else { panic!("the first of its name") };
        assert_eq!(services.charges.create(command).await, Ok(Outcome::Replayed(first)));
    }
    assert_eq!(services.provider.total_sends(), 6);
}

/// Names are compared byte by byte: those that only look alike are two names, in every store.
pub async fn names_that_only_look_alike_are_two_names(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    // The same word composed and decomposed (Unicode, NFC and NFD), in another case, and with another blank within.
    let names = ["caf\u{e9} 1", "cafe\u{301} 1", "CAF\u{c9} 1", "cafe 1", "cafe  1"];
    let mut made = Vec::new();
    for text in names {
        let command = CreateCharge { external_id: Some(name(text)), ..charge_command(integrator_id) };
        let Ok(Outcome::Created(charge)) = services.charges.create(command).await else {
            panic!("{text:?} is taken for another name");
        };
        made.push(charge);
    }
    for (text, charge) in names.into_iter().zip(made) {
        let found = services.transactions.find_by_external_id(integrator_id, &name(text)).await;
        assert_eq!(found.expect("a charge").resource(), charge.resource(), "{text:?}");
    }
}

/// A replay is answered with the record as it is now, not as it was.
pub async fn a_replay_is_the_record_as_it_is_now(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let command =
        CreateWithdrawal { external_id: Some(name("w")), ..withdrawal_command(integrator_id, 1_000) };
    services.provider.answers_next(Answer::Accept);
    let accepted = create(&services, &command).await.expect("a withdrawal");
    assert_eq!(accepted.state, OutgoingState::Accepted);
    services.provider.knows(accepted.id.0, pix_domain::provider::Progress::Completed);
    services.transactions.consult(accepted.resource()).await.expect("a consult");
    let replayed = create(&services, &command).await.expect("a withdrawal");
    assert_eq!((replayed.id, replayed.state), (accepted.id, OutgoingState::Completed));
}

/// The same handle with another body is refused, and writes nothing.
pub async fn another_body_under_the_same_handle_is_refused(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let named = CreateWithdrawal { external_id: Some(name("w")), ..withdrawal_command(integrator_id, 1_000) };
    let keyed =
        CreateWithdrawal { idempotency_key: Some(key("w")), ..withdrawal_command(integrator_id, 1_000) };
    create(&services, &named).await.expect("a withdrawal");
    create(&services, &keyed).await.expect("a withdrawal");
    let charge = CreateCharge { external_id: Some(name("c")), ..charge_command(integrator_id) };
    services.charges.create(charge.clone()).await.expect("a charge");
    let before = snapshot(&services.stores).await;
    for change in [
        |command: &mut CreateWithdrawal| command.amount = amount(1_001),
        |command: &mut CreateWithdrawal| command.description = Description::parse("for what").ok(),
        |command: &mut CreateWithdrawal| command.payee.party.name = None,
    ] {
        let (mut by_name, mut by_key) = (named.clone(), keyed.clone());
        change(&mut by_name);
        change(&mut by_key);
        assert_eq!(create(&services, &by_name).await, Err(ServiceError::ExternalIdConflict));
        assert_eq!(create(&services, &by_key).await, Err(ServiceError::IdempotencyMismatch));
    }
    let other = CreateCharge { amount: amount(1), ..charge };
    assert_eq!(services.charges.create(other).await, Err(ServiceError::ExternalIdConflict));
    assert_eq!(snapshot(&services.stores).await, before);
    assert_eq!(services.provider.total_sends(), 2);
}

/// What was refused for lack of money is free to be asked for again.
pub async fn a_refusal_for_lack_of_money_burns_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let command = CreateWithdrawal {
        external_id: Some(name("w")),
        idempotency_key: Some(key("w")),
        ..withdrawal_command(integrator_id, 1_000)
    };
    for _ in 0..2 {
        assert_eq!(create(&services, &command).await, Err(ServiceError::InsufficientBalance));
    }
    let lookups = &services.stores.domain.lookups;
    assert_eq!(lookups.find_handle(integrator_id, ResourceKind::Withdrawal, &key("w")).await, Ok(None));
    services.paid_charge(integrator_id, 1_000).await;
    let other_body = CreateWithdrawal { amount: amount(999), ..command.clone() };
    let sent = create(&services, &other_body).await.expect("a withdrawal");
    assert_eq!(sent.state, OutgoingState::Completed);
    assert_eq!(create(&services, &command).await, Err(ServiceError::IdempotencyMismatch));
}

/// A definite failure sticks to its handle: the money is back, fee included, and nothing is sent again.
pub async fn a_definite_failure_sticks_to_its_handle(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    services.set_fees(integrator_id, some_fees()).await;
    for (handle, answer) in [("rejected", Answer::Reject), ("failed", Answer::Fail)] {
        services.provider.answers_next(answer);
        let command = CreateWithdrawal {
            external_id: Some(name(handle)),
            idempotency_key: Some(key(handle)),
            ..withdrawal_command(integrator_id, 1_000)
        };
        let failed = create(&services, &command).await.expect("a withdrawal");
        let OutgoingState::Failed(failure) = &failed.state else { panic!("{:?}", failed.state) };
        assert_eq!(failure.code, FAILURE_CODE);
        assert_eq!(failed.fee.get(), 50);
        assert_eq!(services.balances(integrator_id).await, (10_000, 0));
        assert_eq!(services.withdrawals.create(command).await, Ok(Outcome::Replayed(failed.clone())));
        assert_eq!(services.provider.sends(failed.id.0), 1);
    }
}

/// A charge that the provider refused sticks to its handle, too; one that could not be asked for burns nothing.
pub async fn a_refused_charge_sticks_to_its_handle(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let command = CreateCharge { external_id: Some(name("c")), ..charge_command(integrator_id) };
    services.provider.answers_next_charge(Answer::Unavailable);
    assert_eq!(services.charges.create(command.clone()).await, Err(ServiceError::ProviderUnavailable));
    services.provider.answers_next_charge(Answer::Reject);
    let refused = services.charges.create(command.clone()).await;
    assert!(matches!(refused, Err(ServiceError::ProviderRejected { .. })));
    let replayed = services.charges.create(command).await.expect("a charge");
    assert!(matches!(replayed, Outcome::Replayed(charge) if matches!(charge.state, ChargeState::Failed(_))));
}

/// A charge whose making nobody knows the end of is made once more, under the same reference.
pub async fn a_charge_without_answer_is_made_when_asked_for_again(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    for answer in [Answer::LostAnswer, Answer::LostRequest] {
        let external_id = Some(name(&format!("{answer:?}")));
        let command = CreateCharge { external_id: external_id.clone(), ..charge_command(integrator_id) };
        services.provider.answers_next_charge(answer);
        assert_eq!(services.charges.create(command.clone()).await, Err(ServiceError::ProviderTimeout));
        let stored = services
            .stores
            .domain
            .charges
            .find_by_external_id(integrator_id, external_id.as_ref().expect("a name"));
        let stored = stored.await.expect("a lookup").expect("a charge");
        assert_eq!(stored.state, ChargeState::Creating);
        let again = services.charges.create(command).await.expect("a charge").into_inner();
        assert_eq!((again.id, again.state), (stored.id, ChargeState::Pending));
        assert!(again.ticket.is_some());
    }
}

/// Requests without a handle are each their own.
pub async fn requests_without_a_handle_are_each_their_own(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let command = withdrawal_command(integrator_id, 1_000);
    let (one, other) = (create(&services, &command).await, create(&services, &command).await);
    assert_ne!(one.expect("a withdrawal").id, other.expect("a withdrawal").id);
    assert_eq!(services.balances(integrator_id).await, (8_000, 0));
}

/// Reads refunds, and lets another request in right after the first look for a name found nothing.
struct LetsOneIn {
    refunds: Arc<dyn RefundStore>,
    other: RefundService,
    command: CreateRefund,
    done: AtomicBool,
}

#[async_trait]
impl RefundStore for LetsOneIn {
    async fn find(&self, integrator_id: IntegratorId, id: RefundId) -> Result<Option<Refund>, StoreError> {
        self.refunds.find(integrator_id, id).await
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Refund>, StoreError> {
        let found = self.refunds.find_by_external_id(integrator_id, external_id).await;
        if !self.done.swap(true, Ordering::SeqCst) {
            self.other.create(self.command.clone()).await.expect("the quicker request");
        }
        found
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Refund>, StoreError> {
        self.refunds.find_by_pix_id(integrator_id, pix_id).await
    }

    async fn list_of_charge(
        &self,
        integrator_id: IntegratorId,
        charge_id: ChargeId,
    ) -> Result<Vec<Refund>, StoreError> {
        self.refunds.list_of_charge(integrator_id, charge_id).await
    }
}

/// Of two equal requests, the slower is told of the quicker one's refund, though that took all there was to refund.
pub async fn a_slower_request_is_told_of_the_quicker_refund(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let command = CreateRefund { external_id: Some(name("r")), ..refund_command(&charge, 10_000) };
    let mut ports = services.ports.clone();
    ports.stores.refunds = Arc::new(LetsOneIn {
        refunds: services.stores.domain.refunds.clone(),
        other: services.refunds.clone(),
        command: command.clone(),
        done: AtomicBool::new(false),
    });
    let slower = RefundService::new(ports).create(command).await;
    assert!(matches!(slower, Ok(Outcome::Replayed(_))), "{slower:?}");
    assert_eq!(services.provider.total_sends(), 1);
    assert_eq!(services.balances(integrator_id).await, (0, 0));
}

/// Without a handle nothing tells a repeated refund from a second one: it is refused while the first is live.
pub async fn a_twin_refund_without_a_handle_is_refused(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    services.provider.answers_next(Answer::Accept);
    let first = services.refunds.create(refund_command(&charge, 100)).await.expect("a refund").into_inner();
    let twin = services.refunds.create(refund_command(&charge, 100)).await;
    assert_eq!(twin, Err(ServiceError::PossibleDuplicate(first.resource())));
    let other = services.refunds.create(refund_command(&charge, 101)).await;
    assert!(matches!(other, Ok(Outcome::Created(_))));
}
