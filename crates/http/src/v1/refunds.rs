//! `/api/v1/charges/{charge}/refunds` and `/api/v1/refunds/{refund}`.

use pix_domain::error::ServiceError;
use pix_domain::ids::ResourceKind;
use pix_domain::ports::Outcome;
use pix_domain::provider::ProviderId;
use pix_domain::refunds::Refund;
use pix_domain::text::Description;
use pix_domain::transactions::Transaction;
use pix_domain::withdrawals::OutgoingState;

use super::{CURRENCY, charges, created, failure, find, url};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::{Form, Mode, Problems};
use crate::json::{self, Object};
use crate::requests::RefundBody;
use crate::{time, words};

/// Sends money of a charge back: `amount` of it, or all that is left.
pub(crate) async fn create(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let key = call.idempotency_key()?;
    let name = call.path_part().await;
    let text = call.text().await?;
    let body = RefundBody::parse(&Form::parse(&text, Mode::Strict)?, Problems::default())?;
    let charge = charges::named(&call, &caller, name).await?;
    let command = body.of(charge.id, &caller, key);
    let refunds = call.state.services.refunds.clone();
    let outcome = call.state.spawn(async move { refunds.create(command).await }).await?;
    let outcome = outcome.map_err(ApiError::of_outgoing)?;
    let replayed = matches!(outcome, Outcome::Replayed(_));
    let refund = outcome.into_inner();
    if let (OutgoingState::Failed(failure), false) = (&refund.state, replayed) {
        return Err(ApiError::failed(failure).with("uuid", &refund.id.to_string()));
    }
    let base = &call.state.config.public_url;
    Ok(created(replayed, url(base, "refunds", refund.id.0), render(&refund, base)))
}

/// The refunds of a charge, oldest first: all of them.
pub(crate) async fn list(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let name = call.path_part().await;
    let charge = charges::named(&call, &caller, name).await?;
    let refunds = call.state.services.refunds.clone();
    let refunds =
        call.state.run(async move { refunds.list_of_charge(caller.integrator_id, charge.id).await }).await?;
    let base = &call.state.config.public_url;
    let data = json::array(refunds.iter().map(|refund| render(refund, base).end()));
    Ok(ok(Object::new().raw("data", &data)))
}

/// One refund.
pub(crate) async fn show(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let name = call.path_part().await;
    let transactions = call.state.services.transactions.clone();
    let work = async move { find(&transactions, caller.integrator_id, ResourceKind::Refund, &name).await };
    match call.state.run(work).await? {
        Transaction::Refund(refund) => Ok(ok(render(&refund, &call.state.config.public_url))),
        Transaction::Charge(_) | Transaction::Withdrawal(_) => Err(ServiceError::NotFound.into()),
    }
}

/// A refund in v1's form.
pub(super) fn render(refund: &Refund, base: &str) -> Object {
    let standing = words::refund(&refund.state);
    let failed = match &refund.state {
        OutgoingState::Failed(failure) => Some(failure),
        _ => None,
    };
    let links = Object::new()
        .text("self", &url(base, "refunds", refund.id.0))
        .text("charge", &url(base, "charges", refund.charge_id.0));
    Object::new()
        .text("uuid", &refund.id.to_string())
        .text("charge", &refund.charge_id.to_string())
        .text("external_id", refund.external_id.as_str())
        .text("status", standing.status)
        .maybe("substatus", standing.substatus)
        .text("outcome", standing.outcome)
        .money("amount", refund.amount.cents())
        .money("fee", refund.fee)
        .money("total", refund.total())
        .text("currency", CURRENCY)
        .maybe("description", refund.description.as_ref().map(Description::as_str))
        .maybe("pix_id", refund.provider_id.as_ref().map(ProviderId::as_str))
        .maybe("return_id", refund.return_id.as_deref())
        .raw("failure", &failure(failed))
        .text("created_at", &time::rfc3339(refund.created_at))
        .text("updated_at", &time::rfc3339(refund.updated_at))
        .maybe("completed_at", refund.completed_at.map(time::rfc3339).as_deref())
        .object("links", links)
}
