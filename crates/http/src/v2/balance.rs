//! `POST /v2/balance`: the available balance.

use crate::extract::{Answer, TenantCall, ok};
use crate::json::Object;

/// Shows the available balance as a decimal text. Nothing is wanted of the body, so any will do.
pub(crate) async fn show(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    call.bytes().await?;
    let wallets = call.state.services.wallets.clone();
    let wallet = call.state.run(async move { wallets.wallet(caller.integrator_id).await }).await?;
    let balance = Object::new().text("balance", &wallet.available.to_string());
    Ok(ok(Object::new().number("statusCode", 200).object("message", balance)))
}
