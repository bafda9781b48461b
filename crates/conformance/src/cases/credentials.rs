//! Integrators and their keys.

use std::time::Duration;

use pix_domain::credentials::{ApiKey, Integrator, IntegratorStatus, SecretHash};
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::wallet::Wallet;

use crate::builders::integrator;
use crate::{Services, StoreHarness, services};

fn api_key(services: &Services, integrator_id: IntegratorId, public_id: &str) -> ApiKey {
    ApiKey {
        public_id: public_id.to_owned(),
        integrator_id,
        secret_hash: SecretHash("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g".into()),
        created_at: services.now(),
        revoked_at: None,
    }
}

/// A new integrator is kept exactly, with an empty wallet; all are listed, oldest id first.
pub async fn integrators_are_kept_and_listed(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let store = &services.stores.integrators;
    assert_eq!(store.list().await, Ok(Vec::new()));
    let mut made: Vec<_> = [
        ("Loja da Esquina Ltda. 🍞", IntegratorStatus::Active),
        ("", IntegratorStatus::Suspended),
        ("O'Hara \"& Sons\"; -- %", IntegratorStatus::Active),
    ]
    .into_iter()
    .map(|(name, status)| {
        services.wait(Duration::from_micros(1));
        let id = IntegratorId(services.id());
        Integrator { id, name: name.into(), status, postback_scope: None, created_at: services.now() }
    })
    .collect();
    for integrator in made.iter().rev() {
        assert_eq!(store.create(integrator.clone()).await, Ok(()));
        assert_eq!(store.find(integrator.id).await, Ok(Some(integrator.clone())));
        assert_eq!(services.wallet(integrator.id).await, Wallet::default());
    }
    made.sort_by_key(|integrator| integrator.id);
    assert_eq!(store.list().await, Ok(made));
    assert_eq!(store.find(IntegratorId(services.id())).await, Ok(None));
}

/// An id that is taken is refused, and who has it stays as it was.
pub async fn a_taken_integrator_id_is_rejected(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.funded(100).await;
    let kept = services.stores.integrators.find(integrator_id).await;
    let again = Integrator { name: "Another".into(), ..integrator(integrator_id) };
    let created = services.stores.integrators.create(again).await;
    assert!(matches!(created, Err(StoreError::Rejected(_))), "{created:?}");
    assert_eq!(services.stores.integrators.find(integrator_id).await, kept);
    assert_eq!(services.balances(integrator_id).await, (100, 0));
}

/// The status changes there and back, and nothing else with it.
pub async fn a_status_changes_there_and_back(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (id, other) = (services.integrator().await, services.integrator().await);
    let store = &services.stores.integrators;
    for status in [IntegratorStatus::Suspended, IntegratorStatus::Suspended, IntegratorStatus::Active] {
        assert_eq!(store.set_status(id, status).await, Ok(true));
        assert_eq!(store.find(id).await, Ok(Some(Integrator { status, ..integrator(id) })));
    }
    assert_eq!(store.find(other).await, Ok(Some(integrator(other))));
    let nobody = IntegratorId(services.id());
    assert_eq!(store.set_status(nobody, IntegratorStatus::Active).await, Ok(false));
    assert_eq!(store.find(nobody).await, Ok(None));
}

/// A key is kept exactly and found by its public id; an integrator's own are listed, oldest first.
pub async fn keys_are_kept_and_listed(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (integrator_id, other) = (services.integrator().await, services.integrator().await);
    let store = &services.stores.keys;
    let mut made = Vec::new();
    for public_id in ["pk_zzz", "pk_aaa", "pk_AAA"] {
        let key = api_key(&services, integrator_id, public_id);
        assert_eq!(store.create(key.clone()).await, Ok(()));
        assert_eq!(store.find(public_id).await, Ok(Some(key.clone())));
        made.push(key);
        services.wait(Duration::from_secs(1));
    }
    let foreign = api_key(&services, other, "pk_other");
    assert_eq!(store.create(foreign.clone()).await, Ok(()));
    assert_eq!(store.list(integrator_id).await, Ok(made));
    assert_eq!(store.list(other).await, Ok(vec![foreign]));
    for unknown in ["pk_", "pk_Zzz", "", "%"] {
        assert_eq!(store.find(unknown).await, Ok(None), "{unknown}");
    }
}

/// A public id that is taken is refused, whosever it is; and so is a key of nobody.
pub async fn a_taken_or_ownerless_key_is_rejected(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let (one, other) = (services.integrator().await, services.integrator().await);
    let store = &services.stores.keys;
    let key = api_key(&services, one, "pk_one");
    assert_eq!(store.create(key.clone()).await, Ok(()));
    let nobody = IntegratorId(services.id());
    for refused in [
        api_key(&services, one, "pk_one"),
        api_key(&services, other, "pk_one"),
        api_key(&services, nobody, "pk_nobody"),
    ] {
        let created = store.create(refused).await;
        assert!(matches!(created, Err(StoreError::Rejected(_))), "{created:?}");
    }
    assert_eq!(store.find("pk_one").await, Ok(Some(key)));
    assert_eq!(store.list(other).await, Ok(Vec::new()));
    assert_eq!(store.find("pk_nobody").await, Ok(None));
}

/// A key is revoked for good: seen at once, and a second time keeps the first one's.
pub async fn a_key_is_revoked_once(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let store = &services.stores.keys;
    let (key, other) =
        (api_key(&services, integrator_id, "pk_one"), api_key(&services, integrator_id, "pk_two"));
    for key in [&key, &other] {
        store.create(key.clone()).await.expect("a new key");
    }
    let revoked_at = services.now().plus(Duration::from_secs(1));
    let revoked = ApiKey { revoked_at: Some(revoked_at), ..key };
    for later in 0..3 {
        let at = revoked_at.plus(Duration::from_secs(later));
        assert_eq!(store.revoke("pk_one", at).await, Ok(true));
        assert_eq!(store.find("pk_one").await, Ok(Some(revoked.clone())));
    }
    assert_eq!(store.list(integrator_id).await, Ok(vec![revoked, other.clone()]));
    assert_eq!(store.find("pk_two").await, Ok(Some(other)));
    assert_eq!(store.revoke("pk_none", revoked_at).await, Ok(false));
}
