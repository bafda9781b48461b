//! `/api/v1/charges/{charge}/receipt` and `/api/v1/withdrawals/{withdrawal}/receipt`: for people, as HTML or PDF.

use super::{charges, withdrawals};
use crate::extract::{Answer, TenantCall};
use crate::language::Language;
use crate::receipt;

/// The receipt of a paid charge.
pub(crate) async fn of_charge(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let charge = charges::named(&call, &caller, call.path_part().await).await?;
    let sheet = receipt::of_charge(&charge, language(&call), call.state.services.clock.now())?;
    receipt::answer(call.http.headers(), charge.id.0, &sheet)
}

/// The receipt of a withdrawal that is done.
pub(crate) async fn of_withdrawal(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let withdrawal = withdrawals::named(&call, &caller, call.path_part().await).await?;
    let sheet = receipt::of_withdrawal(&withdrawal, language(&call), call.state.services.clock.now())?;
    receipt::answer(call.http.headers(), withdrawal.id.0, &sheet)
}

fn language(call: &TenantCall) -> Language {
    Language::of(call.http.headers(), Language::Portuguese)
}
