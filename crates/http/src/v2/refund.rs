//! `POST /v2/pix/refund`: sends money of a paid charge back.

use pix_domain::error::ServiceError;
use pix_domain::refunds::Refund;
use pix_domain::transactions::Transaction;
use pix_domain::withdrawals::OutgoingState;

use super::{nameable, own_name, pix_id};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::{Form, Mode, Problems};
use crate::json::Object;
use crate::requests::RefundBody;
use crate::words;

/// Sends money back, or shows the refund that was made for the same handle, as it is now.
pub(crate) async fn create(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let key = call.idempotency_key()?;
    let text = call.text().await?;
    let (pix_id, body) = read(&text)?;

    let (transactions, integrator_id) = (call.state.services.transactions.clone(), caller.integrator_id);
    let found =
        call.state.run(async move { transactions.find_by_pix_id(integrator_id, &pix_id).await }).await?;
    let Transaction::Charge(charge) = found else {
        return Err(ServiceError::InvalidState("only a paid charge can be refunded").into());
    };
    let command = body.of(charge.id, &caller, key);
    let refunds = call.state.services.refunds.clone();
    let created = call.state.spawn(async move { refunds.create(command).await }).await?;
    let refund = created.map_err(ApiError::of_outgoing)?.into_inner();
    if let OutgoingState::Failed(failure) = &refund.state {
        return Err(ApiError::failed(failure));
    }
    Ok(ok(render(&refund)))
}

/// What names the charge, and what is said of the refund.
pub(crate) fn read(text: &str) -> Result<(String, RefundBody), ApiError> {
    let form = Form::parse(text, Mode::Liberal)?;
    let mut problems = Problems::default();
    let pix_id = pix_id(&form, &mut problems);
    let body = RefundBody::parse(&form, problems)?;
    Ok((nameable(pix_id.unwrap_or_default())?, body))
}

/// `transactionId` is the charge's, `refundId` the refund's: both as the provider calls them, as far as known.
fn render(refund: &Refund) -> Object {
    let reference = refund.id.0.simple().to_string();
    Object::new()
        .number("statusCode", 200)
        .text("message", "Refund accepted")
        .text("transactionId", refund.charge_provider_id.as_str())
        .text("refundId", refund.provider_id.as_ref().map_or(&reference, |id| id.as_str()))
        .text("external_id", own_name(&refund.external_id, refund.external_id_given))
        .money("amount", refund.amount.cents())
        .text("status", words::v2_outgoing(&refund.state, "REFUNDED"))
        .text("outcome", words::outgoing_outcome(&refund.state))
        .passing_on(refund.provider_body.as_ref())
}
