//! Records and values to start from.

use std::time::Duration;

use pix_domain::charges::{Charge, ChargeState, Credited, Failure, NewCharge, state as charge_state};
use pix_domain::end_to_end::EndToEndId;
use pix_domain::fees::{FeeRule, FeeSchedule, Percent};
use pix_domain::ids::{ChargeId, IntegratorId, RefundId, WithdrawalId};
use pix_domain::money::{Amount, Cents};
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::provider::{
    OutgoingReport, Party, Payment, Progress, ProviderBody, ProviderError, ProviderId, ReceiptKey, Ticket,
};
use pix_domain::refunds::{NewRefund, Refund, state as refund_state};
use pix_domain::text::ExternalId;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Step, Transition};
use pix_domain::withdrawals::{NewWithdrawal, OutgoingState, Payee, Withdrawal, state as withdrawal_state};
use uuid::Uuid;

pub const INTEGRATOR: IntegratorId = IntegratorId(Uuid::from_u128(0xA));
pub const OTHER: IntegratorId = IntegratorId(Uuid::from_u128(0xB));
pub const T0: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
pub const GRACE: Duration = Duration::from_secs(20);
pub const LIFE: Duration = Duration::from_mins(50);
/// What a withdrawal and a refund cost in the samples.
pub const FEE_CENTS: i64 = 150;
/// What a paid charge of the samples brought.
pub const PAID_CENTS: i64 = 10_000;

pub fn at(secs: u64) -> Timestamp {
    T0.plus(Duration::from_secs(secs))
}

pub fn cents(cents: i64) -> Cents {
    Cents::new(cents).unwrap()
}

pub fn amount(cents: i64) -> Amount {
    Amount::from_cents(cents).unwrap()
}

pub fn name(text: &str) -> ExternalId {
    ExternalId::parse(text).unwrap()
}

pub fn fixed_fee(fixed_cents: i64) -> FeeRule {
    FeeRule::new(cents(fixed_cents), Percent::zero(), Cents::ZERO, None).unwrap()
}

pub fn schedule(version: u32) -> FeeSchedule {
    FeeSchedule {
        version,
        cash_in: fixed_fee(i64::from(version) * 10),
        cash_out: fixed_fee(FEE_CENTS),
        refund: fixed_fee(FEE_CENTS),
    }
}

pub fn failure() -> Failure {
    Failure { code: "no_such_key".into(), message: "the key is not registered".into() }
}

pub fn provider_id(text: &str) -> ProviderId {
    ProviderId::parse(text).unwrap()
}

pub fn rejected() -> ProviderError {
    let Failure { code, message } = failure();
    ProviderError::Rejected { code, message, body: ProviderBody::default() }
}

pub fn unavailable() -> ProviderError {
    ProviderError::Unavailable("connection refused".into())
}

pub fn indeterminate() -> ProviderError {
    ProviderError::Indeterminate("no answer in time".into())
}

pub fn report(progress: Progress) -> OutgoingReport {
    OutgoingReport {
        provider_id: provider_id("out-1"),
        progress,
        end_to_end_id: None,
        body: ProviderBody("{}".into()),
    }
}

pub fn ticket() -> Ticket {
    Ticket { provider_id: provider_id("chg-1"), qrcode: "00020101".into(), body: ProviderBody("{}".into()) }
}

pub fn end_to_end(number: u32) -> EndToEndId {
    EndToEndId::parse(&format!("E12345678202701011230{number:011}")).unwrap()
}

pub fn payment(number: u32, paid_cents: i64) -> Payment {
    Payment {
        key: ReceiptKey::EndToEnd(end_to_end(number)),
        amount: amount(paid_cents),
        paid_at: T0,
        payer: Party::default(),
    }
}

pub fn payee() -> Payee {
    let key = PixKey::parse(PixKeyType::Email, "ana@example.com").unwrap();
    Payee { party: Party::default(), key }
}

pub fn new_withdrawal(id: u128) -> NewWithdrawal {
    NewWithdrawal {
        id: WithdrawalId(Uuid::from_u128(id)),
        integrator_id: INTEGRATOR,
        external_id: name(&format!("w-{id}")),
        external_id_given: true,
        amount: amount(1_000),
        fee: cents(FEE_CENTS),
        fee_version: 1,
        payee: payee(),
        description: None,
        metadata: pix_domain::metadata::Metadata::default(),
        postback_url: None,
        postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
    }
}

pub fn new_charge(id: u128) -> NewCharge {
    NewCharge {
        id: ChargeId(Uuid::from_u128(id)),
        integrator_id: INTEGRATOR,
        external_id: name(&format!("c-{id}")),
        external_id_given: true,
        amount: amount(PAID_CENTS),
        payer: Party::default(),
        payer_email: None,
        payer_question: None,
        metadata: pix_domain::metadata::Metadata::default(),
        postback_url: None,
        postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        expires_in: LIFE,
        fee_version: 1,
        split: Vec::new(),
    }
}

pub fn new_refund(id: u128, refund_cents: i64) -> NewRefund {
    NewRefund {
        id: RefundId(Uuid::from_u128(id)),
        external_id: name(&format!("r-{id}")),
        external_id_given: true,
        amount: amount(refund_cents),
        amount_given: true,
        fee: cents(FEE_CENTS),
        fee_version: 1,
        description: None,
    }
}

pub fn next(step: Step) -> Transition {
    match step {
        Step::Next(transition) => transition,
        other => panic!("not a change: {other:?}"),
    }
}

/// Every state an outgoing movement can be in.
pub fn outgoing_states() -> [OutgoingState; 9] {
    [
        OutgoingState::Queued,
        OutgoingState::Submitting,
        OutgoingState::Accepted,
        OutgoingState::Uncertain,
        OutgoingState::NeedsReview,
        OutgoingState::Completed,
        OutgoingState::Failed(failure()),
        OutgoingState::Canceled,
        OutgoingState::Returned,
    ]
}

/// A withdrawal that came to `state` by the verbs that lead there.
pub fn withdrawal_in(state: &OutgoingState) -> Withdrawal {
    let born = withdrawal_state::accept(new_withdrawal(1), T0, GRACE).unwrap();
    let born = born.withdrawal().unwrap().clone();
    let after = |step: Step| next(step).withdrawal().unwrap().clone();
    match state {
        OutgoingState::Submitting => born,
        OutgoingState::Queued => after(born.queue(at(1))),
        OutgoingState::Accepted => after(born.accepted(report(Progress::Accepted), at(1))),
        OutgoingState::Uncertain => after(born.lose_sight(at(1))),
        OutgoingState::NeedsReview => after(born.ask_for_review(at(1))),
        OutgoingState::Completed => after(born.complete(report(Progress::Completed), at(1))),
        OutgoingState::Failed(failure) => after(born.fail(failure.clone(), at(1))),
        OutgoingState::Canceled => after(withdrawal_in(&OutgoingState::Queued).cancel(at(2))),
        OutgoingState::Returned => {
            after(withdrawal_in(&OutgoingState::Completed).give_back(cents(1_000), at(2)))
        }
    }
}

/// The names of a charge's states.
pub fn charge_states() -> [ChargeState; 6] {
    [
        ChargeState::Creating,
        ChargeState::Pending,
        ChargeState::Paid,
        ChargeState::Expired,
        ChargeState::Canceled,
        ChargeState::Failed(failure()),
    ]
}

/// A charge that came to `state` by the verbs that lead there.
pub fn charge_in(state: &ChargeState) -> Charge {
    let pending = || charge_state::open(new_charge(2), ticket(), T0).charge().unwrap().clone();
    let after = |step: Step| next(step).charge().unwrap().clone();
    match state {
        ChargeState::Creating => charge_state::begin(new_charge(2), T0).charge().unwrap().clone(),
        ChargeState::Pending => pending(),
        ChargeState::Paid => after(pending().pay(payment(1, PAID_CENTS), &fixed_fee(10), at(1))),
        ChargeState::Expired => after(pending().expire(T0.plus(LIFE))),
        ChargeState::Canceled => after(pending().cancel(at(1))),
        ChargeState::Failed(failure) => {
            charge_state::refuse(new_charge(2), failure.clone(), T0).charge().unwrap().clone()
        }
    }
}

/// What a refund of `refund_cents` needs and makes, in `state`, with its charge as it is then.
pub fn refund_in(state: &OutgoingState, refund_cents: i64) -> (Refund, Charge) {
    let paid = charge_in(&ChargeState::Paid);
    let born = refund_state::accept(new_refund(3, refund_cents), paid, at(1), GRACE).unwrap();
    let (refund, charge) = (born.refund().unwrap().clone(), born.charge().unwrap().clone());
    let after = |step: Step| {
        let transition = next(step);
        let charge = transition.charge().cloned().unwrap_or_else(|| charge.clone());
        (transition.refund().unwrap().clone(), charge)
    };
    match state {
        OutgoingState::Submitting => (refund, charge),
        OutgoingState::Queued => after(refund.queue(at(2))),
        OutgoingState::Accepted => after(refund.accepted(report(Progress::Accepted), at(2))),
        OutgoingState::Uncertain => after(refund.lose_sight(at(2))),
        OutgoingState::NeedsReview => after(refund.ask_for_review(at(2))),
        OutgoingState::Completed => {
            after(refund.complete(charge.clone(), report(Progress::Completed), at(2)))
        }
        OutgoingState::Failed(failure) => after(refund.fail(charge.clone(), failure.clone(), at(2))),
        OutgoingState::Canceled | OutgoingState::Returned => panic!("no refund is ever in this state"),
    }
}

/// What was credited for the charge.
pub fn credited(charge: &Charge) -> &Credited {
    charge.credited.as_ref().unwrap()
}
