//! A record in the classic contract's words: the fields that `consult-transaction` answers with and postbacks carry.
//!
//! What is the caller's to say is what the fields are told of: their `transactionType`, and which amount is meant.

use pix_domain::charges::Charge;
use pix_domain::money::Cents;
use pix_domain::provider::Party;
use pix_domain::refunds::Refund;
use pix_domain::splits::Split;
use pix_domain::time::Timestamp;
use pix_domain::transactions::Transaction;
use pix_domain::withdrawals::Withdrawal;

use super::own_name;
use crate::json::Object;
use crate::{time, words};

/// What a charge is called that is asked about, and a confirmed payment of one that is told of.
pub(crate) const RECEIVE_PIX: &str = "RECEIVEPIX";
/// What a withdrawal is called.
pub(crate) const PAYMENT: &str = "PAYMENT";
/// What a refund is called.
pub(crate) const REFUND: &str = "REFUND";

/// A record that is asked about.
pub(super) fn consulted(transaction: &Transaction) -> Object {
    match transaction {
        Transaction::Charge(charge) => of_charge(charge, RECEIVE_PIX, charge.amount.cents()),
        Transaction::Withdrawal(withdrawal) => of_withdrawal(withdrawal, PAYMENT, withdrawal.amount.cents()),
        Transaction::Refund(refund) => of_refund(refund),
    }
}

/// Fields in the contract's form: within `requestBody`, and flat beside it.
pub(crate) fn wrapped(flat: &Object) -> Object {
    Object::new().object("requestBody", flat.clone()).and(flat)
}

/// The family calls the payer whom a charge names its `creditParty`; whoever has paid it is the `debitParty`.
pub(crate) fn of_charge(charge: &Charge, transaction_type: &'static str, amount: Cents) -> Object {
    let reference = charge.reference().to_string();
    let credited = charge.credited.as_ref();
    let named = party(&charge.payer);
    let email = charge.payer_email.as_ref().map_or("", |email| email.as_str());
    Object::new()
        .text("transactionType", transaction_type)
        .text(
            "transactionId",
            charge.ticket.as_ref().map_or(&reference, |ticket| ticket.provider_id.as_str()),
        )
        .text("external_id", own_name(&charge.external_id, charge.external_id_given))
        .money("amount", amount)
        .text("paymentType", "PIX")
        .text("status", words::v2_charge(charge))
        .maybe("dateApproval", approved(credited.map(|credited| credited.paid_at)).as_deref())
        .object("creditParty", named.text("email", email))
        .object("debitParty", credited.map(|credited| party(&credited.paid_by)).unwrap_or_default())
        // Which may be less than what it asks for, or more.
        .money("amount_paid", charge.amount_paid())
}

/// A withdrawal.
pub(crate) fn of_withdrawal(
    withdrawal: &Withdrawal,
    transaction_type: &'static str,
    amount: Cents,
) -> Object {
    let reference = withdrawal.id.0.simple().to_string();
    let key = &withdrawal.payee.key;
    let payee = party(&withdrawal.payee.party).text("keyType", key.kind().as_str()).text("key", key.as_str());
    let status = words::v2_withdrawal(withdrawal);
    // What left after all was final before, as failed: that is not when it was paid.
    let paid_at = if withdrawal.settled_late { Some(withdrawal.updated_at) } else { withdrawal.completed_at };
    let approved = approved(paid_at.filter(|_| matches!(status, "PAID" | "REFUNDED")));
    Object::new()
        .text("transactionType", transaction_type)
        .text("transactionId", withdrawal.provider_id.as_ref().map_or(&reference, |id| id.as_str()))
        .text("external_id", own_name(&withdrawal.external_id, withdrawal.external_id_given))
        .money("amount", amount)
        .text("paymentType", "PIX")
        .text("status", status)
        .text("outcome", words::outgoing_outcome(&withdrawal.state))
        .maybe("dateApproval", approved.as_deref())
        .object("creditParty", payee)
        .object("debitParty", Object::new())
}

/// A refund.
pub(crate) fn of_refund(refund: &Refund) -> Object {
    let reference = refund.id.0.simple().to_string();
    let status = words::v2_outgoing(&refund.state, "REFUNDED");
    let approved = approved(refund.completed_at.filter(|_| status == "REFUNDED"));
    Object::new()
        .text("transactionType", REFUND)
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

/// A split. It has no name of the recipient's, so its id is one; and it names nobody: whose payment it is a part of is for
/// the charge's integrator to know.
pub(crate) fn of_split(split: &Split, transaction_type: &'static str, amount: Cents) -> Object {
    Object::new()
        .text("transactionType", transaction_type)
        .text("transactionId", &split.id.0.simple().to_string())
        .text("external_id", &split.id.to_string())
        .money("amount", amount)
        .text("paymentType", "PIX")
        .text("status", words::v2_split(split))
        .maybe("dateApproval", approved(Some(split.created_at)).as_deref())
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
