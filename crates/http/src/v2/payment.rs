//! `POST /v2/pix/payment`: sends money out of the wallet.

use pix_domain::withdrawals::{OutgoingState, Withdrawal};

use super::own_name;
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::Mode;
use crate::json::Object;
use crate::{requests, words};

/// Sends money, or shows the payment that was sent for the same handle, as it is now. One that failed is 406 whenever
/// it is asked about, unless it left after all: clients take 406, and only 406, as final.
pub(crate) async fn create(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let key = call.idempotency_key()?;
    let text = call.text().await?;
    let check = |url: &_| call.state.services.postbacks.check(url);
    let command = requests::withdrawal(&text, Mode::Liberal, &caller, key, &check)?;
    let withdrawals = call.state.services.withdrawals.clone();
    let created = call.state.spawn(async move { withdrawals.create(command).await }).await?;
    let withdrawal = created.map_err(|error| ApiError::of_outgoing(error).of_payment())?.into_inner();
    if let (OutgoingState::Failed(failure), false) = (&withdrawal.state, withdrawal.settled_late) {
        return Err(ApiError::failed(failure).of_payment());
    }
    Ok(ok(render(&withdrawal)))
}

fn render(withdrawal: &Withdrawal) -> Object {
    let reference = withdrawal.id.0.simple().to_string();
    Object::new()
        .number("statusCode", 200)
        .text("message", "Payment accepted")
        .text("transactionId", withdrawal.provider_id.as_ref().map_or(&reference, |id| id.as_str()))
        .text("external_id", own_name(&withdrawal.external_id, withdrawal.external_id_given))
        .text("status", words::v2_withdrawal(withdrawal))
        .text("outcome", words::outgoing_outcome(&withdrawal.state))
        .money("amount", withdrawal.amount.cents())
        .passing_on(withdrawal.provider_body.as_ref())
}
