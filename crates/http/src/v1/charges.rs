//! `/api/v1/charges`.

use pix_domain::charges::{Charge, ChargeState};
use pix_domain::credentials::service::Caller;
use pix_domain::end_to_end::EndToEndId;
use pix_domain::error::ServiceError;
use pix_domain::ids::ResourceKind;
use pix_domain::party::Document;
use pix_domain::ports::Outcome;
use pix_domain::splits::{Part, Share};
use pix_domain::text::{Email, PayerQuestion, PersonName, PostbackUrl};
use pix_domain::transactions::Transaction;

use super::{CURRENCY, created, failure, find, list, pairs, url};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::Mode;
use crate::json::{self, Object};
use crate::{pay, requests, time, words};

/// Makes a charge.
pub(crate) async fn create(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let key = call.idempotency_key()?;
    let text = call.text().await?;
    let check = |url: &_| call.state.services.postbacks.check(url);
    let command = requests::charge(&text, Mode::Strict, &caller, key, &check)?;
    let charges = call.state.services.charges.clone();
    let refused = |error: ServiceError| {
        let failed = if let ServiceError::ProviderRejected { charge, .. } = &error { *charge } else { None };
        let told = ApiError::from(error);
        match failed {
            Some(charge) => told.with("uuid", &charge.0.to_string()),
            None => told,
        }
    };
    let made = async move { charges.create(command).await.map_err(refused) };
    let outcome = Box::pin(call.state.run(made)).await?;
    let replayed = matches!(outcome, Outcome::Replayed(_));
    let charge = outcome.into_inner();
    let base = &call.state.config.public_url;
    Ok(created(replayed, url(base, "charges", charge.id.0), render(&charge, base)))
}

/// A page of charges.
pub(crate) async fn list(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let asked =
        list::Asked::parse("charges", caller.integrator_id, call.http.query_string(), words::charge_states)?;
    let (charges, query) = (call.state.services.charges.clone(), asked.query.clone());
    let page = call.state.run(async move { charges.list(caller.integrator_id, query).await }).await?;
    let base = &call.state.config.public_url;
    Ok(asked.answer(
        &format!("{base}/api/v1/charges"),
        &page,
        |charge| charge.id.0,
        |charge| render(charge, base).end(),
    ))
}

/// One charge.
pub(crate) async fn show(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let name = call.path_part().await;
    let charge = named(&call, &caller, name).await?;
    Ok(ok(render(&charge, &call.state.config.public_url)))
}

/// Cancels one charge that nobody has paid.
pub(crate) async fn cancel(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let name = call.path_part().await;
    let charge = named(&call, &caller, name).await?;
    let charges = call.state.services.charges.clone();
    let work = async move { charges.cancel(caller.integrator_id, charge.id).await };
    let canceled = Box::pin(call.state.run(work)).await?;
    Ok(ok(render(&canceled, &call.state.config.public_url)))
}

/// The charge that a path names.
pub(super) async fn named(call: &TenantCall, caller: &Caller, name: String) -> Result<Charge, ApiError> {
    let (transactions, integrator_id) = (call.state.services.transactions.clone(), caller.integrator_id);
    let work = async move { find(&transactions, integrator_id, ResourceKind::Charge, &name).await };
    match call.state.run(work).await? {
        Transaction::Charge(charge) => Ok(*charge),
        Transaction::Withdrawal(_) | Transaction::Refund(_) => Err(ServiceError::NotFound.into()),
    }
}

/// A charge in v1's form.
pub(super) fn render(charge: &Charge, base: &str) -> Object {
    let standing = words::charge(&charge.state);
    let (ticket, credited) = (charge.ticket.as_ref(), charge.credited.as_ref());
    let payer = Object::new()
        .maybe("name", charge.payer.name.as_ref().map(PersonName::as_str))
        .maybe("document", charge.payer.document.as_ref().map(Document::as_str))
        .maybe("email", charge.payer_email.as_ref().map(Email::as_str));
    let failed = match &charge.state {
        ChargeState::Failed(failure) => Some(failure),
        _ => None,
    };
    let end_to_end_id = credited.and_then(|credited| credited.first.end_to_end_id());
    Object::new()
        .text("uuid", &charge.id.to_string())
        .text("external_id", charge.external_id.as_str())
        .text("status", standing.status)
        .maybe("substatus", standing.substatus)
        .text("outcome", standing.outcome)
        .money("amount", charge.amount.cents())
        .money("amount_paid", charge.amount_paid())
        .money("refunded_amount", charge.refunded)
        .money("taken_back_amount", charge.taken_back)
        .maybe_money("fee", credited.map(|credited| credited.fee))
        .maybe_money("net_amount", credited.and_then(|paid| paid.amount_paid.checked_sub(paid.fee)))
        .text("currency", CURRENCY)
        .object("payer", payer)
        .maybe("payerQuestion", charge.payer_question.as_ref().map(PayerQuestion::as_str))
        .object("metadata", pairs(&charge.metadata))
        .raw("split", &split(&charge.split))
        .maybe("qrcode", ticket.map(|ticket| ticket.qrcode.as_str()))
        .maybe("pix_id", ticket.map(|ticket| ticket.provider_id.as_str()))
        .maybe("end_to_end_id", end_to_end_id.map(EndToEndId::as_str))
        .maybe("postbackUrl", charge.postback_url.as_ref().map(PostbackUrl::as_str))
        .text("expires_at", &time::rfc3339(charge.expires_at))
        .maybe("paid_at", credited.map(|credited| time::rfc3339(credited.paid_at)).as_deref())
        .raw("paid_late", if credited.is_some_and(|credited| credited.late) { "true" } else { "false" })
        .raw("flags", &flags(charge))
        .raw("failure", &failure(failed))
        .text("created_at", &time::rfc3339(charge.created_at))
        .text("updated_at", &time::rfc3339(charge.updated_at))
        .object("links", links(charge, base))
}

/// Who gets what part of it.
fn split(shares: &[Share]) -> String {
    if shares.is_empty() {
        return "null".to_owned();
    }
    json::array(shares.iter().map(|share| {
        let (percentage, amount) = match &share.part {
            Part::Percentage(percentage) => (percentage.plain(), None),
            Part::Amount(amount) => ("null".to_owned(), Some(amount.cents())),
        };
        Object::new()
            .text("uuid", &share.split_id.to_string())
            .text("recipient", &share.recipient.to_string())
            .raw("percentage", &percentage)
            .maybe_money("amount", amount)
            .money("received", share.amount)
            .money("taken_back", share.taken_back)
            .end()
    }))
}

fn links(charge: &Charge, base: &str) -> Object {
    let own = url(base, "charges", charge.id.0);
    Object::new()
        .text("self", &own)
        .text("qrcode_svg", &format!("{own}/qrcode.svg"))
        .text("pay", &pay::url(base, charge.id.0))
}

/// What is unusual about the payment, as a JSON array of words.
fn flags(charge: &Charge) -> String {
    let Some(credited) = &charge.credited else { return "[]".to_owned() };
    let flags = [
        (credited.late, "\"paid_late\""),
        (credited.payments > 1, "\"paid_again\""),
        (credited.amount_paid != charge.amount.cents(), "\"amount_differs\""),
    ];
    let told: Vec<_> = flags.into_iter().filter_map(|(holds, flag)| holds.then_some(flag)).collect();
    format!("[{}]", told.join(","))
}
