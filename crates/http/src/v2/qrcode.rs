//! `POST /v2/pix/qrcode`: makes a charge.

use pix_domain::charges::{Charge, ChargeState};

use super::own_name;
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::Mode;
use crate::json::Object;
use crate::{requests, time, words};

/// Makes a charge, or shows the one that was made for the same handle, as it is now.
pub(crate) async fn create(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let key = call.idempotency_key()?;
    let text = call.text().await?;
    let check = |url: &_| call.state.services.postbacks.check(url);
    let command = requests::charge(&text, Mode::Liberal, &caller, key, &check)?;
    let charges = call.state.services.charges.clone();
    let charge = Box::pin(call.state.run(async move { charges.create(command).await })).await?.into_inner();
    if let ChargeState::Failed(failure) = &charge.state {
        return Err(ApiError::failed(failure));
    }
    Ok(ok(render(&charge)))
}

fn render(charge: &Charge) -> Object {
    let ticket = charge.ticket.as_ref();
    let reference = charge.reference().to_string();
    let qrcode = ticket.map_or("", |ticket| ticket.qrcode.as_str());
    let debtor = Object::new()
        .text("name", charge.payer.name.as_ref().map_or("", |name| name.as_str()))
        .text("document", charge.payer.document.as_ref().map_or("", |document| document.as_str()));
    let calendar = Object::new()
        .number("expiration", charge.expires_at.since(charge.created_at).as_secs())
        .text("dueDate", &time::sao_paulo(charge.expires_at));
    Object::new()
        .text("transactionId", ticket.map_or(&reference, |ticket| ticket.provider_id.as_str()))
        .text("external_id", own_name(&charge.external_id, charge.external_id_given))
        .text("status", words::v2_charge(charge))
        .money("amount", charge.amount.cents())
        .object("calendar", calendar)
        .object("debtor", debtor)
        .text("qrcode", qrcode)
        .text("emvqrcps", qrcode)
        .passing_on(ticket.map(|ticket| &ticket.body))
}
