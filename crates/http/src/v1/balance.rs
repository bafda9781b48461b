//! `/api/v1/balance`.

use super::CURRENCY;
use crate::extract::{Answer, TenantCall, ok};
use crate::json::Object;

/// Shows the wallet.
pub(crate) async fn show(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let wallets = call.state.services.wallets.clone();
    let wallet = call.state.run(async move { wallets.wallet(caller.integrator_id).await }).await?;
    let body = Object::new()
        .money("available", wallet.available)
        .money("held", wallet.held)
        .money("owed", wallet.owed);
    Ok(ok(body.text("currency", CURRENCY)))
}
