//! Integrators and their keys.

use std::time::Duration;

use pix_domain::credentials::{
    ApiKey, Integrator, IntegratorStatus, KeyChange, MAX_ALLOWED_IPS, Scopes, SecretHash,
};
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::wallet::Wallet;

use crate::builders::integrator;
use crate::{Services, StoreHarness, services};

fn api_key(services: &Services, integrator_id: IntegratorId, public_id: &str) -> ApiKey {
    let hash = SecretHash("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g".into());
    ApiKey::new(public_id, integrator_id, hash, services.now())
}

/// The same with everything that a key may have.
fn narrow_key(services: &Services, integrator_id: IntegratorId, public_id: &str) -> ApiKey {
    let key = api_key(services, integrator_id, public_id);
    let later = services.now().plus(Duration::from_secs(7));
    ApiKey {
        secrets: key.secrets.add(SecretHash("$argon2id$second".into()), later).expect("room for a second"),
        scopes: Scopes::parse("read balance:read").expect("scopes"),
        expires_at: Some(later),
        allowed_ips: ["203.0.113.0/24", "192.0.2.7", "2001:db8::/48"]
            .map(|range| range.parse().expect("a range"))
            .into(),
        last_used_at: Some(services.now()),
        ..key
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
        let created_at = services.now();
        Integrator { id, name: name.into(), status, postback_scope: None, split_postback: None, created_at }
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
        let key = match public_id {
            "pk_aaa" => narrow_key(&services, integrator_id, public_id),
            _ => api_key(&services, integrator_id, public_id),
        };
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

/// What a key is good for is changed, each thing without the others, and no other key with it.
pub async fn a_key_is_changed_in_what_is_named(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let store = &services.stores.keys;
    let other = narrow_key(&services, integrator_id, "pk_two");
    store.create(other.clone()).await.expect("a new key");
    let mut expected = api_key(&services, integrator_id, "pk_one");
    store.create(expected.clone()).await.expect("a new key");
    let ranges: Vec<_> = (0..MAX_ALLOWED_IPS)
        .map(|number| format!("2001:db8:{number:x}::/48").parse().expect("a range"))
        .collect();
    let few = Scopes::parse("charges:write").ok();
    for change in [
        KeyChange { scopes: few, ..KeyChange::default() },
        KeyChange { expires_at: Some(Some(services.now())), ..KeyChange::default() },
        KeyChange { allowed_ips: Some(ranges), ..KeyChange::default() },
        KeyChange::default(),
        KeyChange { scopes: Some(Scopes::ALL), expires_at: Some(None), allowed_ips: Some(Vec::new()) },
    ] {
        assert_eq!(store.change("pk_one", change.clone()).await, Ok(true));
        expected = change.of(expected);
        assert_eq!(store.find("pk_one").await, Ok(Some(expected.clone())));
    }
    for change in [KeyChange::default(), KeyChange { scopes: few, ..KeyChange::default() }] {
        assert_eq!(store.change("pk_none", change).await, Ok(false));
    }
    assert_eq!(store.find("pk_two").await, Ok(Some(other)));
}

/// Secrets are replaced when they are still the ones that were read, and never those of a revoked key.
pub async fn secrets_of_a_key_are_replaced_by_who_knows_them(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let store = &services.stores.keys;
    for public_id in ["pk_one", "pk_two"] {
        store.create(api_key(&services, integrator_id, public_id)).await.expect("a new key");
    }
    let other = store.find("pk_two").await;
    services.wait(Duration::from_secs(1));
    let one = api_key(&services, integrator_id, "pk_one");
    let first = store.find("pk_one").await.expect("a lookup").expect("a key").secrets;
    let add = |text: &str| first.clone().add(SecretHash(text.into()), services.now()).expect("room");
    let (second, rival) = (add("second"), add("rival"));
    assert_eq!(store.replace_secrets("pk_one", first.clone(), second.clone()).await, Ok(true));
    assert_eq!(store.replace_secrets("pk_one", first.clone(), rival).await, Ok(false));
    let found = store.find("pk_one").await.expect("a lookup").expect("a key");
    assert_eq!(found.secrets, second);
    assert_eq!((found.scopes, found.revoked_at), (one.scopes, None));

    // Back to the first one, whose place a third takes: nobody takes these for what was there before.
    let back = second.clone().retire(2).expect("two");
    assert_eq!(store.replace_secrets("pk_one", second.clone(), back.clone()).await, Ok(true));
    assert_eq!(store.replace_secrets("pk_one", second, first.clone()).await, Ok(false));
    let third = back.clone().add(SecretHash("third".into()), services.now()).expect("room");
    assert_eq!(store.replace_secrets("pk_one", first, third.clone()).await, Ok(false));
    assert_eq!(store.replace_secrets("pk_one", back, third.clone()).await, Ok(true));
    let alone = third.clone().retire(1).expect("two");
    assert_eq!(store.replace_secrets("pk_one", third, alone.clone()).await, Ok(true));
    let found = store.find("pk_one").await.expect("a lookup").expect("a key");
    assert_eq!((found.secrets.older.number, found.secrets.made), (3, 3));
    assert_eq!(found.secrets, alone);

    store.revoke("pk_one", services.now()).await.expect("a revoked key");
    let after = alone.clone().add(SecretHash("fourth".into()), services.now()).expect("room");
    assert_eq!(store.replace_secrets("pk_one", alone.clone(), after.clone()).await, Ok(false));
    assert_eq!(store.replace_secrets("pk_none", alone, after).await, Ok(false));
    assert_eq!(store.find("pk_two").await, other);
}

/// The time of a key's last use only goes forward, and changes nothing else.
pub async fn the_last_use_of_a_key_is_kept(harness: &mut dyn StoreHarness) {
    let services = services(harness);
    let integrator_id = services.integrator().await;
    let store = &services.stores.keys;
    let (key, other) =
        (api_key(&services, integrator_id, "pk_one"), api_key(&services, integrator_id, "pk_two"));
    for key in [&key, &other] {
        store.create(key.clone()).await.expect("a new key");
    }
    let at = |seconds| services.now().plus(Duration::from_secs(seconds));
    for (used, kept) in [(60, 60), (120, 120), (90, 120)] {
        assert_eq!(store.mark_used("pk_one", at(used)).await, Ok(()));
        let expected = ApiKey { last_used_at: Some(at(kept)), ..key.clone() };
        assert_eq!(store.find("pk_one").await, Ok(Some(expected)));
    }
    assert_eq!(store.mark_used("pk_none", at(60)).await, Ok(()));
    assert_eq!(store.find("pk_none").await, Ok(None));
    assert_eq!(store.find("pk_two").await, Ok(Some(other)));
}
