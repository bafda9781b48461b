//! `POST /v2/consult-transaction`: asks the provider about a transaction and shows it, wrapped and flat.

use pix_domain::error::ServiceError;
use pix_domain::transactions::ProviderAnswer;

use super::{nameable, pix_id, transaction};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::{Form, Mode, Problems};

/// Shows what the provider knows now, or what we know when it can't be asked.
pub(crate) async fn consult(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let text = call.text().await?;
    let pix_id = read(&text)?;

    let (transactions, integrator_id) = (call.state.services.transactions.clone(), caller.integrator_id);
    let (found, answer) = Box::pin(call.state.run(async move {
        let found = transactions.find_by_pix_id(integrator_id, &pix_id).await?;
        match transactions.consult_read(found.clone()).await {
            Err(ServiceError::ProviderUnavailable | ServiceError::ProviderTimeout) => Ok((found, None)),
            // What went back of it isn't booked yet, and all else that was heard is.
            Err(ServiceError::Restored) => Ok((transactions.find(found.resource()).await?, None)),
            Err(error) => Err(error),
            Ok((transaction, ProviderAnswer::Known(body))) => Ok((transaction, Some(body))),
            Ok((transaction, _)) => Ok((transaction, None)),
        }
    }))
    .await?;
    let shown = transaction::wrapped(&transaction::consulted(&found));
    Ok(ok(shown.passing_on(answer.as_ref())))
}

/// What names the transaction.
pub(crate) fn read(text: &str) -> Result<String, ApiError> {
    let form = Form::parse(text, Mode::Liberal)?;
    let mut problems = Problems::default();
    let pix_id = pix_id(&form, &mut problems);
    problems.check()?;
    nameable(pix_id.unwrap_or_default())
}
