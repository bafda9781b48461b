//! `POST /v2/consult-transaction`: asks the provider about a transaction and shows it, wrapped and flat.

use pix_domain::charges::Charge;
use pix_domain::error::ServiceError;
use pix_domain::provider::Party;
use pix_domain::refunds::Refund;
use pix_domain::time::Timestamp;
use pix_domain::transactions::{ProviderAnswer, Transaction};
use pix_domain::withdrawals::Withdrawal;

use super::{nameable, own_name, pix_id};
use crate::extract::{Answer, Call, ok};
use crate::fields::{Form, Mode, Problems};
use crate::json::Object;
use crate::{time, words};

/// Shows what the provider knows now, or what we know when it can't be asked.
pub(crate) async fn consult(mut call: Call) -> Answer {
    let caller = call.caller().await?;
    let text = call.text().await?;
    let form = Form::parse(&text, Mode::Liberal)?;
    let mut problems = Problems::default();
    let pix_id = pix_id(&form, &mut problems);
    problems.check()?;
    let pix_id = nameable(pix_id.unwrap_or_default())?;

    let (transactions, integrator_id) = (call.state.services.transactions.clone(), caller.integrator_id);
    let (transaction, answer) = call
        .state
        .run(async move {
            let found = transactions.find_by_pix_id(integrator_id, &pix_id).await?;
            match transactions.consult(found.resource()).await {
                Err(ServiceError::ProviderUnavailable | ServiceError::ProviderTimeout) => Ok((found, None)),
                Err(error) => Err(error),
                Ok((transaction, ProviderAnswer::Known(body))) => Ok((transaction, Some(body))),
                Ok((transaction, _)) => Ok((transaction, None)),
            }
        })
        .await?;
    let flat = render(&transaction);
    Ok(ok(Object::new().object("requestBody", flat.clone()).and(&flat).passing_on(answer.as_ref())))
}

fn render(transaction: &Transaction) -> Object {
    match transaction {
        Transaction::Charge(charge) => of_charge(charge),
        Transaction::Withdrawal(withdrawal) => of_withdrawal(withdrawal),
        Transaction::Refund(refund) => of_refund(refund),
    }
}

/// The family calls the payer whom a charge names its `creditParty`; whoever has paid it is the `debitParty`.
fn of_charge(charge: &Charge) -> Object {
    let reference = charge.reference().to_string();
    let credited = charge.credited.as_ref();
    let named = party(&charge.payer);
    let email = charge.payer_email.as_ref().map_or("", |email| email.as_str());
    Object::new()
        .text("transactionType", "RECEIVEPIX")
        .text(
            "transactionId",
            charge.ticket.as_ref().map_or(&reference, |ticket| ticket.provider_id.as_str()),
        )
        .text("external_id", own_name(&charge.external_id, charge.external_id_given))
        .money("amount", charge.amount.cents())
        .text("paymentType", "PIX")
        .text("status", words::v2_charge(charge))
        .maybe("dateApproval", approved(credited.map(|credited| credited.paid_at)).as_deref())
        .object("creditParty", named.text("email", email))
        .object("debitParty", credited.map(|credited| party(&credited.paid_by)).unwrap_or_default())
}

fn of_withdrawal(withdrawal: &Withdrawal) -> Object {
    let reference = withdrawal.reference().to_string();
    let key = &withdrawal.payee.key;
    let payee = party(&withdrawal.payee.party).text("keyType", key.kind().as_str()).text("key", key.as_str());
    let status = words::v2_outgoing(&withdrawal.state, "PAID");
    let approved = approved(withdrawal.completed_at.filter(|_| matches!(status, "PAID" | "REFUNDED")));
    Object::new()
        .text("transactionType", "PAYMENT")
        .text("transactionId", withdrawal.provider_id.as_ref().map_or(&reference, |id| id.as_str()))
        .text("external_id", own_name(&withdrawal.external_id, withdrawal.external_id_given))
        .money("amount", withdrawal.amount.cents())
        .text("paymentType", "PIX")
        .text("status", status)
        .text("outcome", words::outgoing_outcome(&withdrawal.state))
        .maybe("dateApproval", approved.as_deref())
        .object("creditParty", payee)
        .object("debitParty", Object::new())
}

fn of_refund(refund: &Refund) -> Object {
    let reference = refund.reference().to_string();
    let status = words::v2_outgoing(&refund.state, "REFUNDED");
    let approved = approved(refund.completed_at.filter(|_| status == "REFUNDED"));
    Object::new()
        .text("transactionType", "REFUND")
        .text("transactionId", refund.provider_id.as_ref().map_or(&reference, |id| id.as_str()))
        .text("external_id", own_name(&refund.external_id, refund.external_id_given))
        .money("amount", refund.amount.cents())
        .text("paymentType", "PIX")
        .text("status", status)
        .text("outcome", words::outgoing_outcome(&refund.state))
        .maybe("dateApproval", approved.as_deref())
        .object("creditParty", Object::new())
        .object("debitParty", Object::new())
}

fn approved(at: Option<Timestamp>) -> Option<String> {
    at.map(time::sao_paulo)
}

fn party(party: &Party) -> Object {
    Object::new()
        .text("name", party.name.as_ref().map_or("", |name| name.as_str()))
        .text("taxId", party.document.as_ref().map_or("", |document| document.as_str()))
}
