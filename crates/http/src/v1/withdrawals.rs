//! `/api/v1/withdrawals`.

use pix_domain::credentials::service::Caller;
use pix_domain::error::ServiceError;
use pix_domain::ids::ResourceKind;
use pix_domain::party::Document;
use pix_domain::ports::Outcome;
use pix_domain::provider::ProviderId;
use pix_domain::text::{Description, PersonName, PostbackUrl};
use pix_domain::transactions::Transaction;
use pix_domain::wallet::Wallet;
use pix_domain::withdrawals::service::{CreateWithdrawal, Quote, QuoteVerdict};
use pix_domain::withdrawals::{OutgoingState, Payee, Withdrawal};

use super::{CURRENCY, created, failure, find, limits, list, pairs, url};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::Mode;
use crate::json::Object;
use crate::{requests, time, words};

/// What a body asks for.
async fn asked(call: &mut TenantCall) -> Result<CreateWithdrawal, ApiError> {
    let caller = call.caller().await?;
    let key = call.idempotency_key()?;
    let text = call.text().await?;
    let check = |url: &_| call.state.services.postbacks.check(url);
    requests::withdrawal(&text, Mode::Strict, &caller, key, &check)
}

/// Sends money out of the wallet. What the provider refuses at once is an error that names the resource; asked for
/// again, it is shown as it is.
pub(crate) async fn create(mut call: TenantCall) -> Answer {
    let command = asked(&mut call).await?;
    let withdrawals = call.state.services.withdrawals.clone();
    let outcome = call.state.spawn(async move { withdrawals.create(command).await }).await?;
    let outcome = outcome.map_err(ApiError::of_outgoing)?;
    let replayed = matches!(outcome, Outcome::Replayed(_));
    let withdrawal = outcome.into_inner();
    if let (OutgoingState::Failed(failure), false) = (&withdrawal.state, replayed) {
        return Err(ApiError::failed(failure).with("uuid", &withdrawal.id.to_string()));
    }
    let base = &call.state.config.public_url;
    Ok(created(replayed, url(base, "withdrawals", withdrawal.id.0), render(&withdrawal, base)))
}

/// What sending money would cost, and whether it would be done: the same body and the same checks, and nothing is sent.
pub(crate) async fn quote(mut call: TenantCall) -> Answer {
    let command = asked(&mut call).await?;
    let withdrawals = call.state.services.withdrawals.clone();
    let payee = command.payee.clone();
    let quote = call.state.run(async move { withdrawals.quote(&command).await }).await?;
    Ok(ok(render_quote(&quote, &payee)))
}

fn render_quote(quote: &Quote, payee: &Payee) -> Object {
    let wallet = |wallet: &Wallet| {
        let balance = Object::new().money("available", wallet.available).money("held", wallet.held);
        balance.money("owed", wallet.owed).end()
    };
    let (mut after, mut replays, mut refusal, mut duplicate_of) = ("null".to_owned(), None, None, None);
    match &quote.verdict {
        QuoteVerdict::Accepted(left) => after = wallet(left),
        QuoteVerdict::Replays(withdrawal) => replays = Some(withdrawal.id.to_string()),
        QuoteVerdict::Refused(error) => {
            if let ServiceError::PossibleDuplicate(twin) = error {
                duplicate_of = Some(twin.id.to_string());
            }
            refusal = Some(ApiError::of_outgoing(error.clone()).as_refusal());
        }
    }
    let accepted = matches!(quote.verdict, QuoteVerdict::Accepted(_));
    let lacking = quote.total().and_then(|total| total.checked_sub(quote.wallet.available));
    Object::new()
        .raw("accepted", if accepted { "true" } else { "false" })
        .money("amount", quote.amount.cents())
        .money("fee", quote.fee)
        .number("fee_version", quote.fee_version.into())
        .maybe_money("total", quote.total())
        .text("currency", CURRENCY)
        .object("creditParty", credit_party(payee))
        .raw("balance", &wallet(&quote.wallet))
        .raw("balance_after", &after)
        .money("shortfall", lacking.unwrap_or_default())
        .raw("limits", &limits::render(&quote.limits))
        .maybe("duplicate_of", duplicate_of.as_deref())
        .maybe("replays", replays.as_deref())
        .raw("refusal", &refusal.map_or_else(|| "null".to_owned(), Object::end))
}

fn credit_party(payee: &Payee) -> Object {
    let (party, key) = (&payee.party, &payee.key);
    Object::new()
        .maybe("name", party.name.as_ref().map(PersonName::as_str))
        .text("keyType", key.kind().as_str())
        .text("key", key.as_str())
        .maybe("taxId", party.document.as_ref().map(Document::as_str))
}

/// A page of withdrawals.
pub(crate) async fn list(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let asked = list::Asked::parse(
        "withdrawals",
        caller.integrator_id,
        call.http.query_string(),
        words::withdrawal_states,
    )?;
    let (withdrawals, query) = (call.state.services.withdrawals.clone(), asked.query.clone());
    let page = call.state.run(async move { withdrawals.list(caller.integrator_id, query).await }).await?;
    let base = &call.state.config.public_url;
    let path = format!("{base}/api/v1/withdrawals");
    Ok(asked.answer(&path, &page, |withdrawal| withdrawal.id.0, |withdrawal| render(withdrawal, base).end()))
}

/// One withdrawal.
pub(crate) async fn show(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let name = call.path_part().await;
    let withdrawal = named(&call, &caller, name).await?;
    Ok(ok(render(&withdrawal, &call.state.config.public_url)))
}

/// The withdrawal that a path names.
pub(super) async fn named(call: &TenantCall, caller: &Caller, name: String) -> Result<Withdrawal, ApiError> {
    let (transactions, integrator_id) = (call.state.services.transactions.clone(), caller.integrator_id);
    let work = async move { find(&transactions, integrator_id, ResourceKind::Withdrawal, &name).await };
    match call.state.run(work).await? {
        Transaction::Withdrawal(withdrawal) => Ok(*withdrawal),
        Transaction::Charge(_) | Transaction::Refund(_) => Err(ServiceError::NotFound.into()),
    }
}

/// A withdrawal in v1's form.
pub(super) fn render(withdrawal: &Withdrawal, base: &str) -> Object {
    let standing = words::withdrawal(&withdrawal.state);
    let failed = match &withdrawal.state {
        OutgoingState::Failed(failure) => Some(failure),
        _ => None,
    };
    Object::new()
        .text("uuid", &withdrawal.id.to_string())
        .text("external_id", withdrawal.external_id.as_str())
        .text("status", standing.status)
        .maybe("substatus", standing.substatus)
        .text("outcome", standing.outcome)
        .money("amount", withdrawal.amount.cents())
        .money("fee", withdrawal.fee)
        .money("total", withdrawal.total())
        .text("currency", CURRENCY)
        .object("creditParty", credit_party(&withdrawal.payee))
        .maybe("description", withdrawal.description.as_ref().map(Description::as_str))
        .object("metadata", pairs(&withdrawal.metadata))
        .maybe("pix_id", withdrawal.provider_id.as_ref().map(ProviderId::as_str))
        .maybe("end_to_end_id", withdrawal.end_to_end_id.as_deref())
        .raw("failure", &failure(failed))
        .money("returned_amount", withdrawal.returned)
        .raw("settled_late", if withdrawal.settled_late { "true" } else { "false" })
        .maybe("postbackUrl", withdrawal.postback_url.as_ref().map(PostbackUrl::as_str))
        .text("created_at", &time::rfc3339(withdrawal.created_at))
        .text("updated_at", &time::rfc3339(withdrawal.updated_at))
        .maybe("completed_at", withdrawal.completed_at.map(time::rfc3339).as_deref())
        .object("links", Object::new().text("self", &url(base, "withdrawals", withdrawal.id.0)))
}
