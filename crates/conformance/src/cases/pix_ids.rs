//! Records by what the provider and the arrangement call them.

use pix_domain::ids::IntegratorId;
use pix_domain::transactions::Transaction;

use crate::builders::{refund_command, withdrawal_command};
use crate::provider::{outgoing_pix_id, provider_id};
use crate::{Answer, Services, StoreHarness, services};

async fn found(services: &Services, integrator_id: IntegratorId, pix_id: &str) -> Option<Transaction> {
    services.transactions.find_by_pix_id(integrator_id, pix_id).await.ok()
}

/// A charge is found by the provider's id, and by the end-to-end id of every PIX received on it.
pub async fn a_charge_is_found_by_every_payment_on_it(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let other = services.paid_charge(integrator_id, 100).await;
    let charge = services.charge(integrator_id, 100).await;
    let payments = [services.payment(100), services.payment(100), services.payment(7)];
    let mut now = charge.clone();
    for payment in &payments {
        now = services.pay(&now, payment.clone()).await;
    }
    let charges = &services.stores.domain.charges;
    let by_provider = charges.find_by_pix_id(integrator_id, provider_id(charge.id.0).as_str()).await;
    assert_eq!(by_provider, Ok(Some(now.clone())));
    for payment in &payments {
        let id = payment.key.end_to_end_id().expect("an end-to-end id");
        assert_eq!(charges.find_by_pix_id(integrator_id, id.as_str()).await, Ok(Some(now.clone())));
        let upper = id.as_str().to_ascii_uppercase();
        assert_eq!(
            charges.find_by_pix_id(integrator_id, &upper).await,
            Ok(None),
            "these ids tell upper from lower case"
        );
    }
    let receipts = charges.receipts(integrator_id, charge.id).await.expect("receipts");
    let keys: Vec<_> = receipts.iter().map(|receipt| receipt.payment.clone()).collect();
    assert_eq!(keys, payments, "in the order they were credited");
    assert_ne!(other.id, now.id);
}

/// Withdrawals and refunds are found by the provider's id and by the end-to-end or return id.
pub async fn outgoing_movements_are_found_by_both_ids(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let withdrawal = services.withdrawals.create(withdrawal_command(integrator_id, 100)).await;
    let withdrawal = withdrawal.expect("a withdrawal").into_inner();
    let refund = services.refunds.create(refund_command(&charge, 100)).await.expect("a refund").into_inner();
    for pix_id in [provider_id(withdrawal.id.0).as_str(), &outgoing_pix_id(withdrawal.id.0)] {
        let expected = Transaction::Withdrawal(Box::new(withdrawal.clone()));
        assert_eq!(found(&services, integrator_id, pix_id).await, Some(expected), "{pix_id}");
    }
    for pix_id in [provider_id(refund.id.0).as_str(), &outgoing_pix_id(refund.id.0)] {
        let expected = Transaction::Refund(Box::new(refund.clone()));
        assert_eq!(found(&services, integrator_id, pix_id).await, Some(expected), "{pix_id}");
    }
}

/// Our own id does too, with hyphens or without; what nobody knows finds nothing.
pub async fn our_own_id_will_do_and_an_unknown_one_will_not(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::LostRequest);
    let lost = services.withdrawals.create(withdrawal_command(integrator_id, 100)).await;
    let lost = lost.expect("a withdrawal").into_inner();
    let expected = Some(Transaction::Withdrawal(Box::new(lost.clone())));
    assert_eq!(found(&services, integrator_id, &lost.id.to_string()).await, expected);
    assert_eq!(found(&services, integrator_id, &lost.id.0.simple().to_string()).await, expected);
    for unknown in [provider_id(lost.id.0).as_str(), "", "unknown", "%", "fake-%", "' OR '1'='1"] {
        assert_eq!(found(&services, integrator_id, unknown).await, None, "{unknown}");
    }
}
