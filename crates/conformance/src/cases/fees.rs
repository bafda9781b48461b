//! Fee schedules: numbered, and kept for ever.

use pix_domain::error::StoreError;
use pix_domain::fees::{FeeRule, FeeSchedule};
use pix_domain::ids::IntegratorId;
use pix_domain::money::{Cents, MAX_AMOUNT_CENTS};

use crate::builders::{cents, percent, some_fees};
use crate::{StoreHarness, services};

/// Where none was ever set, all is free, by version 0.
pub async fn all_is_free_until_fees_are_set(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let fees = &services.stores.domain.fees;
    assert_eq!(fees.current(integrator_id).await, Ok(FeeSchedule::free()));
    assert_eq!(fees.version(integrator_id, 0).await, Ok(Some(FeeSchedule::free())));
    assert_eq!(fees.version(integrator_id, 1).await, Ok(None));
}

/// Each change has the next number, whatever it says itself, and every earlier one stays.
pub async fn every_version_stays(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, other) = (services.integrator().await, services.integrator().await);
    let fees = &services.stores.domain.fees;
    let mut set = vec![FeeSchedule::free()];
    for version in 1..=4_u32 {
        let mut schedule = FeeSchedule { version: 77, ..some_fees() };
        schedule.cash_out.fixed = cents(i64::from(version));
        assert_eq!(fees.set(integrator_id, schedule.clone(), services.now()).await, Ok(version));
        set.push(FeeSchedule { version, ..schedule });
        assert_eq!(fees.current(integrator_id).await.as_ref(), Ok(&set[set.len() - 1]));
    }
    for (version, schedule) in (0..).zip(set) {
        assert_eq!(fees.version(integrator_id, version).await, Ok(Some(schedule)));
    }
    assert_eq!(fees.version(integrator_id, 5).await, Ok(None));
    assert_eq!(fees.version(integrator_id, 77).await, Ok(None));
    assert_eq!(fees.current(other).await, Ok(FeeSchedule::free()), "another's fees are another's");
    assert_eq!(fees.version(other, 1).await, Ok(None));
}

/// Fees of nobody are refused.
pub async fn fees_of_an_unknown_integrator_are_rejected(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let nobody = IntegratorId(services.id());
    let set = services.stores.domain.fees.set(nobody, some_fees(), services.now()).await;
    assert!(matches!(set, Err(StoreError::Rejected(_))), "{set:?}");
}

/// Fixed parts, percentages and bounds come back exactly.
pub async fn fees_come_back_exactly(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let fees = &services.stores.domain.fees;
    let percentages = ["0", "0.0001", "0.3333", "1.5", "1.50", "10", "33.3333", "99.9999", "100"];
    for (number, text) in (1..).zip(percentages) {
        let rule = |fixed, min, max| {
            FeeRule::new(cents(fixed), percent(text), cents(min), max).expect("a possible rule")
        };
        let schedule = FeeSchedule {
            version: number,
            cash_in: rule(0, 0, None),
            cash_out: rule(i64::from(number), 1, Some(cents(1))),
            refund: rule(MAX_AMOUNT_CENTS, 0, Some(Cents::ZERO).filter(|_| number % 2 == 0)),
        };
        assert_eq!(fees.set(integrator_id, schedule.clone(), services.now()).await, Ok(number));
        let kept = fees.current(integrator_id).await.expect("fees");
        assert_eq!(kept, schedule, "{text}");
        assert_eq!(kept.cash_in.percent.plain(), percent(text).plain());
    }
}

/// Whoever sets fees at once with others gets a number of their own.
pub async fn versions_set_at_once_are_all_kept(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let setters = (0..16).map(|number| {
        let services = services.clone();
        tokio::spawn(async move {
            let mut schedule = some_fees();
            schedule.cash_in.fixed = cents(number);
            (services.set_fees(integrator_id, schedule).await, number)
        })
    });
    let mut versions = Vec::new();
    for setter in setters.collect::<Vec<_>>() {
        versions.push(setter.await.expect("a setter"));
    }
    versions.sort_unstable();
    for (expected, (version, number)) in (1..).zip(versions) {
        assert_eq!(version, expected);
        let kept = services.stores.domain.fees.version(integrator_id, version).await.expect("fees");
        assert_eq!(kept.map(|schedule| schedule.cash_in.fixed), Some(cents(number)));
    }
}
