//! Limits of what may go out: what an integrator sees of them, and what it is told when one would be passed.

use pix_domain::limits::{LimitKind, LimitPolicy, Most};
use serde_json::json;

use crate::support::{Gateway, Request, Tenant, withdrawal_body};

const LIMITS: &str = "/api/v1/limits";
const WITHDRAWALS: &str = "/api/v1/withdrawals";

async fn set(gateway: &Gateway, tenant: &Tenant, limits: &[(LimitKind, Option<i64>)]) {
    let (store, now) = (&gateway.services.stores.domain.limits, gateway.services.now());
    let change = |policy: LimitPolicy, (kind, most): &(LimitKind, Option<i64>)| {
        policy.set(*kind, most.map(|most| Most::new(*kind, most).unwrap()), now)
    };
    let policy = limits.iter().fold(store.policy(tenant.id).await.unwrap(), change);
    store.set_policy(tenant.id, &policy, now).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_limits_there_is_nothing_to_show() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let shown = gateway.get(&tenant, LIMITS).await.expect(200).json();
    assert_eq!(shown, json!({"version": 0, "time_zone": "America/Sao_Paulo", "data": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_shown_with_what_counts_against_them() {
    let gateway = Gateway::start().await;
    let (tenant, other) = (gateway.tenant(100_000).await, gateway.tenant(100_000).await);
    // It is 09:00 in Brasília.
    set(
        &gateway,
        &tenant,
        &[
            (LimitKind::PerDay, Some(5_050)),
            (LimitKind::AtNight, Some(0)),
            (LimitKind::PerPayee, Some(2_000)),
            (LimitKind::PerHour, Some(3)),
        ],
    )
    .await;
    set(&gateway, &tenant, &[(LimitKind::PerDay, Some(9_000)), (LimitKind::PerHour, None)]).await;
    gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(201);
    let shown = gateway.get(&tenant, LIMITS).await.expect(200).json();
    let later = "2026-01-16T12:00:00.000000Z";
    let told = json!({
        "version": 2, "time_zone": "America/Sao_Paulo", "data": [
            {
                "name": "per_day", "unit": "BRL", "limit": 50.5, "used": 10, "left": 40.5, "applies": true,
                "resets_at": "2026-01-16T03:00:00.000000Z", "next": {"limit": 90, "at": later}
            },
            {
                "name": "at_night", "unit": "BRL", "limit": 0, "used": 0, "left": 0, "applies": false,
                "resets_at": null, "next": null
            },
            {
                "name": "per_payee", "unit": "BRL", "limit": 20, "used": null, "left": null, "applies": true,
                "resets_at": "2026-01-16T03:00:00.000000Z", "next": null
            },
            {
                "name": "per_hour", "unit": "withdrawals", "limit": 3, "used": 1, "left": 2, "applies": true,
                "resets_at": null, "next": {"limit": null, "at": later}
            },
        ]
    });
    assert_eq!(shown, told);
    assert_eq!(gateway.get(&other, LIMITS).await.expect(200).json()["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_would_pass_a_limit_is_told_which_and_nothing_is_stored() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(100_000).await;
    set(&gateway, &tenant, &[(LimitKind::PerDay, Some(1_500))]).await;
    gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(201);
    let mut body = withdrawal_body();
    body["external_id"] = json!("payout-2");
    let refused = gateway.post(&tenant, WITHDRAWALS, &body).await.expect(422);
    let told = json!({
        "type": format!("{}/errors/limit-exceeded", crate::support::BASE),
        "title": "Limit exceeded", "status": 422, "code": "limit_exceeded", "limit": "per_day",
        "detail": "this would pass the limit per_day: 5.00 is left of 15.00"
    });
    assert_eq!(refused.without_request_id(), told);
    let quote = gateway.post(&tenant, &format!("{WITHDRAWALS}/quote"), &body).await.expect(200).json();
    assert_eq!(quote["refusal"]["code"], json!("limit_exceeded"));
    assert_eq!((&quote["limits"][0]["left"], &quote["limits"][0]["used"]), (&json!(5), &json!(10)));

    // In v2, in Portuguese.
    let request = Request::post("/v2/pix/payment", &body.to_string()).token(&tenant);
    let refused = gateway.send(request.header("Accept-Language", "pt-BR")).await.expect(422).json();
    assert_eq!(refused["code"], json!("limit_exceeded"));
    assert_eq!(refused["message"], json!("isto ultrapassaria o limite per_day: restam 5.00 de 15.00"));

    // The handle is free, and the first one's is its own.
    body["amount"] = json!("5");
    gateway.post(&tenant, WITHDRAWALS, &body).await.expect(201);
    gateway.post(&tenant, WITHDRAWALS, &withdrawal_body()).await.expect(200);
    assert_eq!(gateway.get(&tenant, "/api/v1/balance").await.expect(200).json()["available"], json!(985));
}
