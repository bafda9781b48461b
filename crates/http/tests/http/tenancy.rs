//! An integrator can't learn that another's record exists.

use serde_json::json;
use uuid::Uuid;

use crate::support::{Gateway, charge_body, withdrawal_body};

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_is_answered_like_what_does_not_exist() {
    let gateway = Gateway::start().await;
    let owner = gateway.rich().await;
    let other = gateway.rich().await;
    let charge = gateway.post(&owner, "/api/v1/charges", &charge_body()).await.expect(201);
    let (charge, charge_pix_id) = (charge.text("uuid"), charge.text("pix_id"));
    let paid = gateway.pay(&owner, &charge, 1_550).await.credited.unwrap().first.to_text();
    let withdrawal = gateway.post(&owner, "/api/v1/withdrawals", &withdrawal_body()).await.expect(201);
    let (withdrawal, withdrawal_pix_id) = (withdrawal.text("uuid"), withdrawal.text("pix_id"));
    let end_to_end_id =
        gateway.get(&owner, &format!("/api/v1/withdrawals/{withdrawal}")).await.text("end_to_end_id");
    let refund =
        gateway.post(&owner, &format!("/api/v1/charges/{charge}/refunds"), &json!({"amount": 1})).await;
    let refund = refund.expect(201);
    let (refund, refund_pix_id) = (refund.text("uuid"), refund.text("pix_id"));

    let nothing = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff).to_string();
    let v1 =
        gateway.get(&other, &format!("/api/v1/charges/{nothing}")).await.expect(404).without_request_id();
    for path in [
        format!("/api/v1/charges/{charge}"),
        "/api/v1/charges/order:1".into(),
        format!("/api/v1/charges/{charge}/refunds"),
        format!("/api/v1/withdrawals/{withdrawal}"),
        "/api/v1/withdrawals/payout-1".into(),
        format!("/api/v1/refunds/{refund}"),
    ] {
        assert_eq!(gateway.get(&other, &path).await.expect(404).without_request_id(), v1, "{path}");
    }
    let refunds = format!("/api/v1/charges/{charge}/refunds");
    assert_eq!(gateway.post(&other, &refunds, &json!({})).await.expect(404).without_request_id(), v1);
    for body in [json!({"uuid": charge}), json!({"external_id": "order:1"}), json!({"uuid": withdrawal})] {
        let answer = gateway.post(&other, "/api/v1/transactions/consult", &body).await.expect(404);
        assert_eq!(answer.without_request_id(), v1, "{body}");
    }
    let consult = "/v2/consult-transaction";
    let v2 =
        gateway.post(&other, consult, &json!({"pix_id": nothing})).await.expect(404).without_request_id();
    let ids =
        [charge, charge_pix_id, paid, withdrawal, withdrawal_pix_id, end_to_end_id, refund, refund_pix_id];
    for id in ids {
        for path in [consult, "/v2/pix/refund"] {
            let body = json!({"pix_id": id});
            gateway.post(&owner, consult, &body).await.expect(200);
            assert_eq!(
                gateway.post(&other, path, &body).await.expect(404).without_request_id(),
                v2,
                "{path} {id}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_integrators_use_the_same_names_and_keys_freely() {
    let gateway = Gateway::start().await;
    let (one, two) = (gateway.rich().await, gateway.rich().await);
    for tenant in [&one, &two] {
        gateway.post(tenant, "/api/v1/charges", &charge_body()).await.expect(201);
        gateway.post(tenant, "/api/v1/withdrawals", &withdrawal_body()).await.expect(201);
        let list = gateway.get(tenant, "/api/v1/withdrawals").await.expect(200).json();
        assert_eq!(list["data"].as_array().unwrap().len(), 1);
    }
}
