//! Money law 10: an integrator can't learn that another's record exists.

use pix_domain::audit::Book;
use pix_domain::charges::Charge;
use pix_domain::charges::service::CreateCharge;
use pix_domain::error::ServiceError;
use pix_domain::ids::{IntegratorId, ResourceKind};
use pix_domain::list::ListQuery;
use pix_domain::provider::Reference;
use pix_domain::refunds::Refund;
use pix_domain::refunds::service::CreateRefund;
use pix_domain::wallet::Wallet;
use pix_domain::wallet::store::EntryQuery;
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::service::CreateWithdrawal;

use crate::builders::{charge_command, key, name, next, refund_command, withdrawal_command};
use crate::{Services, StoreHarness, services, snapshot};

const PAID_CENTS: i64 = 10_000;

/// One of each kind, by the same names and keys.
async fn one_of_each(services: &Services, integrator_id: IntegratorId) -> (Charge, Withdrawal, Refund) {
    let (external_id, idempotency_key) = (Some(name("the same name")), Some(key("the-same-key")));
    let command = CreateCharge {
        external_id: external_id.clone(),
        idempotency_key: idempotency_key.clone(),
        ..charge_command(integrator_id)
    };
    let charge = services.charges.create(command).await.expect("a charge").into_inner();
    let charge = services.pay(&charge, services.payment(PAID_CENTS)).await;
    let command = CreateWithdrawal {
        external_id: external_id.clone(),
        idempotency_key: idempotency_key.clone(),
        ..withdrawal_command(integrator_id, 1_000)
    };
    let withdrawal = services.withdrawals.create(command).await.expect("a withdrawal").into_inner();
    let command = CreateRefund { external_id, idempotency_key, ..refund_command(&charge, 1_000) };
    let refund = services.refunds.create(command).await.expect("a refund").into_inner();
    (charge, withdrawal, refund)
}

/// No read with another integrator's id finds anything.
pub async fn a_foreign_integrator_finds_nothing(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let owner = services.integrator().await;
    let (charge, withdrawal, refund) = one_of_each(&services, owner).await;
    let paid = charge.credited.as_ref().and_then(|credited| credited.first.end_to_end_id()).cloned();
    let (stores, name, key) = (&services.stores.domain, name("the same name"), key("the-same-key"));
    let everything = ListQuery { limit: 100, ..ListQuery::default() };
    for stranger in [services.integrator().await, IntegratorId(services.id())] {
        assert_eq!(stores.charges.find(stranger, charge.id).await, Ok(None));
        assert_eq!(stores.charges.find_by_external_id(stranger, &name).await, Ok(None));
        assert_eq!(stores.charges.list(stranger, &everything).await, Ok(Vec::new()));
        assert_eq!(stores.charges.receipts(stranger, charge.id).await, Ok(Vec::new()));
        assert_eq!(stores.withdrawals.find(stranger, withdrawal.id).await, Ok(None));
        assert_eq!(stores.withdrawals.find_by_external_id(stranger, &name).await, Ok(None));
        assert_eq!(stores.withdrawals.list(stranger, &everything).await, Ok(Vec::new()));
        assert_eq!(stores.refunds.find(stranger, refund.id).await, Ok(None));
        assert_eq!(stores.refunds.find_by_external_id(stranger, &name).await, Ok(None));
        assert_eq!(stores.refunds.list_of_charge(stranger, charge.id).await, Ok(Vec::new()));
        for kind in [ResourceKind::Charge, ResourceKind::Withdrawal, ResourceKind::Refund] {
            assert_eq!(stores.lookups.find_handle(stranger, kind, &key).await, Ok(None));
        }
        assert_eq!(stores.wallets.wallet(stranger).await, Ok(Wallet::default()));
        assert_eq!(stores.wallets.entries(stranger, &EntryQuery::after(0, 100)).await, Ok(Vec::new()));
        assert_eq!(services.stores.books.book(stranger).await, Ok(Book::default()));
        assert_eq!(services.stores.books.findings(stranger).await, Ok(Vec::new()));
        assert_eq!(services.stores.keys.list(stranger).await, Ok(Vec::new()));
        let pix_ids = [
            charge.ticket.as_ref().map(|ticket| ticket.provider_id.as_str().to_owned()),
            paid.as_ref().map(|id| id.as_str().to_owned()),
            withdrawal.provider_id.as_ref().map(|id| id.as_str().to_owned()),
            withdrawal.end_to_end_id.clone(),
            refund.provider_id.as_ref().map(|id| id.as_str().to_owned()),
            refund.return_id.clone(),
        ];
        for pix_id in pix_ids {
            let pix_id = pix_id.expect("every identifier is known by now");
            assert_eq!(stores.charges.find_by_pix_id(stranger, &pix_id).await, Ok(None));
            assert_eq!(stores.withdrawals.find_by_pix_id(stranger, &pix_id).await, Ok(None));
            assert_eq!(stores.refunds.find_by_pix_id(stranger, &pix_id).await, Ok(None));
            let found = services.transactions.find_by_pix_id(stranger, &pix_id).await;
            assert_eq!(found, Err(ServiceError::NotFound));
            assert!(services.transactions.find_by_pix_id(owner, &pix_id).await.is_ok(), "{pix_id}");
        }
    }
}

/// Names, keys and receipts are each integrator's own: the same ones of another are no duplicates.
pub async fn names_keys_and_receipts_are_each_integrators_own(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (one, other) = (services.integrator().await, services.integrator().await);
    let (charge, withdrawal, refund) = one_of_each(&services, one).await;
    let theirs = one_of_each(&services, other).await;
    let (stores, name, key) = (&services.stores.domain, name("the same name"), key("the-same-key"));
    for (integrator_id, charge_id, withdrawal_id, refund_id) in
        [(one, charge.id, withdrawal.id, refund.id), (other, theirs.0.id, theirs.1.id, theirs.2.id)]
    {
        let found = stores.charges.find_by_external_id(integrator_id, &name).await.expect("a lookup");
        assert_eq!(found.map(|charge| charge.id), Some(charge_id));
        let found = stores.withdrawals.find_by_external_id(integrator_id, &name).await.expect("a lookup");
        assert_eq!(found.map(|withdrawal| withdrawal.id), Some(withdrawal_id));
        let found = stores.refunds.find_by_external_id(integrator_id, &name).await.expect("a lookup");
        assert_eq!(found.map(|refund| refund.id), Some(refund_id));
        for (kind, id) in [
            (ResourceKind::Charge, charge_id.0),
            (ResourceKind::Withdrawal, withdrawal_id.0),
            (ResourceKind::Refund, refund_id.0),
        ] {
            assert_eq!(stores.lookups.find_handle(integrator_id, kind, &key).await, Ok(Some(id)));
        }
    }
    let receipt = services.payment(500);
    for integrator_id in [one, other] {
        let charge = services.charge(integrator_id, 500).await;
        services.apply(services.credit_intent(&charge, receipt.clone())).await;
    }
    let refunded_with_fee = PAID_CENTS - 1_000 - 1_000 + 500;
    assert_eq!(services.balances(one).await, (refunded_with_fee, 0));
    assert_eq!(services.balances(other).await, (refunded_with_fee, 0));
}

/// Another's record can't be changed by claiming it.
pub async fn a_record_of_another_can_not_be_written(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (owner, thief) = (services.integrator().await, services.integrator().await);
    let charge = services.charge(owner, 10_000).await;
    let claimed = Charge { integrator_id: thief, ..charge.clone() };
    let before = snapshot(&services.stores).await;
    for transition in [
        next(claimed.clone().cancel(services.now())),
        services.credit_intent(&claimed, services.payment(10_000)),
    ] {
        assert!(services.stores.domain.transitions.apply(transition).await.is_err());
    }
    assert_eq!(snapshot(&services.stores).await, before);
    assert_eq!(services.charges.get(owner, charge.id).await, Ok(charge));
}

/// A provider's callback names our reference and nothing else: it leads to the record and its owner.
pub async fn a_reference_leads_to_its_owner(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    for _ in 0..2 {
        let owner = services.integrator().await;
        let (charge, withdrawal, refund) = one_of_each(&services, owner).await;
        for resource in [charge.resource(), withdrawal.resource(), refund.resource()] {
            assert_eq!(services.transactions.locate(resource.id).await, Ok(Some(resource)));
            // What the provider knows it by leads to it too.
            let known_by = Reference::of(resource.id).0;
            assert_eq!(services.transactions.locate(known_by).await, Ok(Some(resource)));
        }
    }
    assert_eq!(services.transactions.locate(services.id()).await, Ok(None));
}
