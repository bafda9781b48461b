//! Two requests for the same money that no handle tells apart: the second one is refused, and told which is the first.

use std::time::Duration;

use pix_domain::error::{ApplyError, ServiceError, UniqueKey};
use pix_domain::evidence::{EvidenceKind, Proof};
use pix_domain::ids::IntegratorId;
use pix_domain::ports::{DEFAULT_DUPLICATE_WINDOW, Outcome};
use pix_domain::transition::{MAX_TWINS, Transition, Twin};
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::service::{CreateWithdrawal, QuoteVerdict};
use uuid::Uuid;

use crate::builders::{amount, key, name, refund_command, withdrawal_command};
use crate::cases::races::{CROWD, all_at_once};
use crate::{Answer, Services, StoreHarness, services};

fn guarded(harness: &dyn StoreHarness) -> Services {
    services(harness).guarding_twins(DEFAULT_DUPLICATE_WINDOW)
}

fn command(integrator_id: IntegratorId) -> CreateWithdrawal {
    withdrawal_command(integrator_id, 1_000)
}

async fn create(services: &Services, command: CreateWithdrawal) -> Withdrawal {
    services.withdrawals.create(command).await.expect("a withdrawal").into_inner()
}

async fn refused(services: &Services, command: CreateWithdrawal, twin: &Withdrawal) {
    let refusal = services.withdrawals.create(command).await.expect_err("a refusal");
    assert_eq!(refusal, ServiceError::PossibleDuplicate(twin.resource()));
}

/// Same payee and amount: refused while the first is on its way, whatever became of its answer, and just after.
pub async fn a_twin_without_a_handle_is_refused_and_named(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::LostAnswer);
    let first = create(&services, command(integrator_id)).await;
    refused(&services, command(integrator_id), &first).await;
    services.wait(Duration::from_secs(5));
    services.reconciler.run_once().await.expect("a round");
    refused(&services, command(integrator_id), &first).await;
    services.wait(DEFAULT_DUPLICATE_WINDOW);
    let second = create(&services, command(integrator_id)).await;
    refused(&services, command(integrator_id), &second).await;
    assert_eq!(services.provider.total_sends(), 2);
    assert_eq!(services.balances(integrator_id).await, (8_000, 0));
}

/// A quote names the twin that would stand in the way, and none for one that is made on purpose.
pub async fn a_quote_names_the_twin(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.funded(10_000).await;
    let quote = |command| {
        let withdrawals = services.withdrawals.clone();
        async move { withdrawals.quote(&command).await.expect("a quote").verdict }
    };
    assert!(matches!(quote(command(integrator_id)).await, QuoteVerdict::Accepted(_)));
    let first = create(&services, command(integrator_id)).await;
    let refused = ServiceError::PossibleDuplicate(first.resource());
    assert_eq!(quote(command(integrator_id)).await, QuoteVerdict::Refused(refused));
    let on_purpose = CreateWithdrawal { allow_duplicate_of: Some(first.id.0), ..command(integrator_id) };
    assert!(matches!(quote(on_purpose).await, QuoteVerdict::Accepted(_)));
    assert_eq!((services.provider.total_sends(), services.balances(integrator_id).await), (1, (9_000, 0)));
}

/// Another amount is another payment; so is one with a handle, which stands in the way of the next one without.
pub async fn a_handle_or_another_amount_tells_twins_apart(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.funded(10_000).await;
    create(&services, command(integrator_id)).await;
    create(&services, CreateWithdrawal { amount: amount(999), ..command(integrator_id) }).await;
    create(&services, CreateWithdrawal { external_id: Some(name("a")), ..command(integrator_id) }).await;
    let keyed = CreateWithdrawal { idempotency_key: Some(key("k")), ..command(integrator_id) };
    let keyed = create(&services, keyed).await;
    refused(&services, command(integrator_id), &keyed).await;
    let other = services.funded(10_000).await;
    create(&services, command(other)).await;
    assert_eq!(services.provider.total_sends(), 5);
}

/// What definitely did not happen stands in nobody's way.
pub async fn a_failed_twin_is_none(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::Reject);
    create(&services, command(integrator_id)).await;
    create(&services, command(integrator_id)).await;
    assert_eq!(services.balances(integrator_id).await, (9_000, 0));
}

/// Whoever names the twin gets another one, and that is kept with it.
pub async fn a_twin_on_purpose_passes_and_says_so(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.funded(10_000).await;
    let first = create(&services, command(integrator_id)).await;
    let wrong = CreateWithdrawal { allow_duplicate_of: Some(Uuid::nil()), ..command(integrator_id) };
    refused(&services, wrong, &first).await;
    let meant = CreateWithdrawal { allow_duplicate_of: Some(first.id.0), ..command(integrator_id) };
    let second = create(&services, meant.clone()).await;
    let known = services.stores.domain.evidence.list(second.resource()).await.expect("the evidence");
    let decided: Vec<_> = known.iter().filter(|seen| seen.kind == EvidenceKind::Decision).collect();
    assert!(!decided.is_empty() && decided.iter().all(|seen| seen.proof == Proof::Nothing), "{known:?}");
    assert!(decided[0].detail.contains(&first.id.to_string()));
    // The first is no longer the one that is in the way.
    refused(&services, meant, &second).await;
}

/// The same for refunds of one charge.
pub async fn a_twin_refund_is_refused_just_after_the_first(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.integrator().await;
    let charge = services.paid_charge(integrator_id, 10_000).await;
    let first = services.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund").into_inner();
    let refusal = services.refunds.create(refund_command(&charge, 1_000)).await.expect_err("a refusal");
    assert_eq!(refusal, ServiceError::PossibleDuplicate(first.resource()));
    let mut meant = refund_command(&charge, 1_000);
    meant.allow_duplicate_of = Some(first.id.0);
    let second = services.refunds.create(meant.clone()).await.expect("a refund").into_inner();
    // Sent again after a lost answer, it is not made again.
    let again = services.refunds.create(meant).await.expect_err("a refusal");
    assert_eq!(again, ServiceError::PossibleDuplicate(second.resource()));
    services.refunds.create(refund_command(&charge, 999)).await.expect("another amount");
    services.wait(DEFAULT_DUPLICATE_WINDOW);
    services.refunds.create(refund_command(&charge, 1_000)).await.expect("a refund later");
    // All that is left is another amount, until that was sent back.
    let mut rest = refund_command(&charge, 1);
    rest.amount = None;
    let all = services.refunds.create(rest.clone()).await.expect("the rest").into_inner();
    assert_eq!(all.amount.cents().get(), 6_001);
    let again = services.refunds.create(rest).await.expect_err("a refusal");
    assert_eq!(again, ServiceError::PossibleDuplicate(all.resource()));
}

/// Of many at once, one is sent.
pub async fn of_many_twins_at_once_one_is_sent(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.funded(100_000).await;
    let results = all_at_once(&services, CROWD, |services, _| async move {
        services.withdrawals.create(command(integrator_id)).await
    })
    .await;
    let made = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(made, 1, "{results:?}");
    let refusals = results.iter().filter_map(|result| result.as_ref().err());
    for refusal in refusals {
        assert!(matches!(refusal, ServiceError::PossibleDuplicate(_)), "{refusal:?}");
    }
    assert_eq!(services.provider.total_sends(), 1);
    assert_eq!(services.balances(integrator_id).await, (99_000, 0));
}

/// A crowd whose handles tell it apart is let through, all of it: that each takes the same key refuses nobody.
pub async fn a_crowd_to_one_payee_is_let_through(harness: &mut dyn StoreHarness) {
    const MANY: usize = 4 * CROWD;
    let services = guarded(harness);
    let integrator_id = services.funded(1_000_000).await;
    let results = all_at_once(&services, MANY, move |services, number| async move {
        let external_id = Some(name(&format!("crowd {number}")));
        services.withdrawals.create(CreateWithdrawal { external_id, ..command(integrator_id) }).await
    })
    .await;
    let refused: Vec<_> =
        results.iter().filter(|result| !matches!(result, Ok(Outcome::Created(_)))).collect();
    assert!(refused.is_empty(), "{} of {MANY}: {:?}", refused.len(), refused.first());
    assert_eq!(services.provider.total_sends(), u32::try_from(MANY).expect("a number"));
}

/// One that is still unknown is not hidden by later ones, however they ended.
pub async fn an_uncertain_twin_is_not_hidden_by_a_later_one(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.funded(10_000).await;
    services.provider.answers_next(Answer::LostRequest);
    let unknown = create(&services, command(integrator_id)).await;
    for (answer, external_id) in [(Answer::Reject, "b"), (Answer::Complete, "c")] {
        services.provider.answers_next(answer);
        let named = CreateWithdrawal { external_id: Some(name(external_id)), ..command(integrator_id) };
        create(&services, named).await;
        services.wait(DEFAULT_DUPLICATE_WINDOW);
        refused(&services, command(integrator_id), &unknown).await;
    }
    assert_eq!(services.provider.total_sends(), 3);
}

/// Nor by as many later ones as a key can name and more, each with a handle of its own.
pub async fn an_uncertain_twin_is_not_hidden_by_any_number_of_later_ones(harness: &mut dyn StoreHarness) {
    let services = guarded(harness);
    let integrator_id = services.funded(1_000_000).await;
    services.provider.answers_next(Answer::LostRequest);
    let unknown = create(&services, command(integrator_id)).await;
    for number in 0..MAX_TWINS + 8 {
        services.provider.answers_next(Answer::Complete);
        let external_id = Some(name(&format!("alike {number}")));
        create(&services, CreateWithdrawal { external_id, ..command(integrator_id) }).await;
        services.wait(Duration::from_secs(10));
    }
    services.wait(DEFAULT_DUPLICATE_WINDOW);
    refused(&services, command(integrator_id), &unknown).await;
}

/// A key is taken from whom it was expected, or not at all; and never by a refused transition.
pub async fn a_twins_key_is_taken_as_expected(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(1_000).await;
    let (key, first, second) = (services.id(), services.id(), services.id());
    let taking = |expected, ids: &[Uuid], value_cents| {
        let mut intent: Transition = services.withdrawal_intent(integrator_id, value_cents);
        intent.twins.push(Twin { key, expected, ids: ids.to_vec() });
        intent
    };
    let apply = |intent| services.stores.domain.transitions.apply(intent);
    let named = || services.stores.domain.lookups.find_twins(integrator_id, key);
    let taken = Err(ApplyError::Duplicate(UniqueKey::Twin));

    assert_eq!(apply(taking(Some(first), &[second], 1)).await, taken);
    assert_eq!(apply(taking(None, &[first], 1_001)).await, Err(ApplyError::InsufficientFunds));
    apply(taking(None, &[], 1)).await.expect_err("a key that names nobody");
    assert_eq!(named().await, Ok(vec![]));
    assert_eq!(apply(taking(None, &[first], 1)).await, Ok(()));
    assert_eq!(named().await, Ok(vec![first]));
    assert_eq!(apply(taking(None, &[second], 1)).await, taken);
    assert_eq!(apply(taking(Some(second), &[second], 1)).await, taken);
    // A taken key is told before missing money.
    assert_eq!(apply(taking(None, &[second], 5_000)).await, taken);
    assert_eq!(apply(taking(Some(first), &[second, first], 1)).await, Ok(()));
    assert_eq!(named().await, Ok(vec![second, first]));
    assert_eq!(apply(taking(Some(second), &[first], 1)).await, Ok(()));
    assert_eq!(named().await, Ok(vec![first]));
    let foreign = services.integrator().await;
    assert_eq!(services.stores.domain.lookups.find_twins(foreign, key).await, Ok(vec![]));
    assert_eq!(services.balances(integrator_id).await.0, 997);
}
