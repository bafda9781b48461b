//! `POST /api/v1/transactions/consult`: asks the provider about a transaction now.

use pix_domain::error::ServiceError;
use pix_domain::ids::IntegratorId;
use pix_domain::invalid::Invalid;
use pix_domain::provider::ProviderError;
use pix_domain::text::ExternalId;
use pix_domain::transactions::{ProviderAnswer, Transaction, TransactionService};
use uuid::Uuid;

use super::{charges, refunds, withdrawals};
use crate::callbacks::provider_status;
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::{Form, Mode, Problems};
use crate::json::Object;
use crate::{requests, time};

/// Shows the transaction as it is after asking, and what the provider said.
pub(crate) async fn consult(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let (uuid, name) = read(&call.text().await?)?;
    let transactions = call.state.services.transactions.clone();
    let (transaction, answer) = Box::pin(call.state.run(async move {
        let found = find(&transactions, caller.integrator_id, uuid, name).await?;
        match transactions.consult_read(found.clone()).await {
            Ok(consulted) => Ok(consulted),
            Err(ServiceError::ProviderUnavailable) => {
                Ok((found, ProviderAnswer::NotAsked(ProviderError::Unavailable(String::new()))))
            }
            Err(ServiceError::ProviderTimeout) => {
                Ok((found, ProviderAnswer::NotAsked(ProviderError::Indeterminate(String::new()))))
            }
            // What went back of it isn't booked yet, and all else that was heard is.
            Err(ServiceError::Restored) => {
                let found = transactions.find(found.resource()).await?;
                Ok((found, ProviderAnswer::NotAsked(ProviderError::Unavailable(String::new()))))
            }
            Err(error) => Err(ApiError::from(error)),
        }
    }))
    .await?;
    let base = &call.state.config.public_url;
    let shown = match &transaction {
        Transaction::Charge(charge) => charges::render(charge, base),
        Transaction::Withdrawal(withdrawal) => withdrawals::render(withdrawal, base),
        Transaction::Refund(refund) => refunds::render(refund, base),
    };
    let checked_at = time::rfc3339(call.state.services.clock.now());
    Ok(ok(Object::new()
        .text("type", transaction.resource().kind.as_str())
        .object("transaction", shown)
        .object("provider", provider(&answer, &checked_at))))
}

/// What names the transaction: at least one of the two.
pub(crate) fn read(text: &str) -> Result<(Option<Uuid>, Option<ExternalId>), ApiError> {
    let form = Form::parse(text, Mode::Strict)?;
    let mut problems = Problems::default();
    let parse = |text: &str| match Uuid::try_parse(text) {
        Ok(uuid) => Ok(Some(uuid)),
        Err(_not_a_uuid) => Err(Invalid::new(Invalid::INVALID_FORMAT, "must be a UUID")),
    };
    let uuid = form.optional("uuid", parse, &mut problems);
    let name = requests::external_id(&form, &mut problems);
    problems.check()?;
    if uuid.is_none() && name.is_none() {
        return Err(ApiError::invalid_field("uuid", Invalid::REQUIRED, "uuid or external_id is required"));
    }
    Ok((uuid, name))
}

async fn find(
    transactions: &TransactionService,
    integrator_id: IntegratorId,
    uuid: Option<Uuid>,
    name: Option<ExternalId>,
) -> Result<Transaction, ApiError> {
    let found = match (uuid, &name) {
        (Some(uuid), _) => transactions.find_by_uuid(integrator_id, uuid).await?,
        (None, Some(name)) => transactions.find_by_external_id(integrator_id, name).await?,
        (None, None) => return Err(ApiError::not_found()),
    };
    let own_name = match &found {
        Transaction::Charge(charge) => &charge.external_id,
        Transaction::Withdrawal(withdrawal) => &withdrawal.external_id,
        Transaction::Refund(refund) => &refund.external_id,
    };
    if name.is_some_and(|name| name != *own_name) {
        let message = "uuid and external_id must name the same transaction";
        return Err(ApiError::invalid_field("external_id", "mismatch", message));
    }
    Ok(found)
}

fn provider(answer: &ProviderAnswer, checked_at: &str) -> Object {
    match answer {
        ProviderAnswer::Known(body) => Object::new()
            .maybe("status", provider_status(&body.0).as_deref())
            .text("checked_at", checked_at)
            .object("body", Object::new().passing_on(Some(body))),
        ProviderAnswer::NotKnown => {
            Object::new().text("status", "not_found").text("checked_at", checked_at).raw("body", "null")
        }
        ProviderAnswer::NotAsked(error) => Object::new()
            .maybe("status", None)
            .maybe("checked_at", None)
            .raw("body", "null")
            .text("error", not_asked(error)),
    }
}

fn not_asked(error: &ProviderError) -> &'static str {
    match error {
        ProviderError::Rejected { .. } => "provider_rejected",
        ProviderError::Unavailable(_) => "provider_unavailable",
        ProviderError::Indeterminate(_) | ProviderError::Mismatch(_) => "provider_timeout",
    }
}
