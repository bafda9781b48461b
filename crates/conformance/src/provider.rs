//! A settlement provider in this process that answers as it is told, and counts what it was sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::money::Cents;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, Payment, PaymentOrder, Progress, ProviderBody,
    ProviderError, ProviderId, Reference, RefundOrder, Removal, SettlementProvider, Ticket,
};
use uuid::Uuid;

/// How a call that makes or sends something is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Taken, not settled. For a charge: made.
    Accept,
    /// Settled at once. For a charge: made.
    Complete,
    /// Taken, and failed at once: a report, not an error.
    Fail,
    /// Refused for good.
    Reject,
    /// Nothing was sent.
    Unavailable,
    /// The answer was lost; the provider took it and settles it when asked.
    LostAnswer,
    /// The request was lost: the provider never heard of it, and nobody knows that.
    LostRequest,
}

/// The code of every failure and refusal of the fake.
pub const FAILURE_CODE: &str = "fake_refusal";
/// The sentence of every failure and refusal of the fake.
pub const FAILURE_MESSAGE: &str = "the fake provider was told to refuse";

#[derive(Debug, Default)]
struct Desk {
    usual: Option<Answer>,
    queued: VecDeque<Answer>,
    by_reference: BTreeMap<Uuid, Answer>,
    charge_answers: VecDeque<Answer>,
    charges: BTreeMap<Uuid, Vec<Payment>>,
    removed: BTreeSet<Uuid>,
    removals: VecDeque<Result<Removal, ProviderError>>,
    refunded: BTreeMap<Uuid, Cents>,
    outgoing: BTreeMap<Uuid, Progress>,
    sends: BTreeMap<Uuid, u32>,
    unavailable: BTreeMap<Uuid, u32>,
    consults: BTreeMap<Uuid, u32>,
    consult_error: Option<ProviderError>,
    proof_after: Option<Duration>,
    balance: Option<i64>,
}

/// A settlement provider that answers as it is told. Untold, it makes every charge and completes every payment.
#[derive(Debug, Default)]
pub struct FakeProvider {
    desk: Mutex<Desk>,
}

impl FakeProvider {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How payments and refunds are answered from now on, when nothing nearer is said.
    pub fn answers(&self, answer: Answer) {
        self.desk().usual = Some(answer);
    }

    /// How the next payment or refund is answered; several calls queue up.
    pub fn answers_next(&self, answer: Answer) {
        self.desk().queued.push_back(answer);
    }

    /// How the payment or refund with that reference is answered, whenever it is sent.
    pub fn answers_for(&self, reference: Uuid, answer: Answer) {
        let reference = Reference::of(reference).0;
        self.desk().by_reference.insert(reference, answer);
    }

    /// How the next charge is answered; several calls queue up.
    pub fn answers_next_charge(&self, answer: Answer) {
        self.desk().charge_answers.push_back(answer);
    }

    /// A PIX comes in on a charge.
    pub fn receives(&self, reference: Uuid, payment: Payment) {
        self.desk().charges.entry(reference).or_default().push(payment);
    }

    /// So much of a charge's payments went back in all, as the provider says from now on.
    pub fn says_refunded(&self, reference: Uuid, refunded: Cents) {
        let reference = Reference::of(reference).0;
        self.desk().refunded.insert(reference, refunded);
    }

    /// What the next request to remove a charge is answered; several calls queue up. Else it is removed.
    pub fn answers_next_removal(&self, answer: Result<Removal, ProviderError>) {
        self.desk().removals.push_back(answer);
    }

    /// The provider removes a charge.
    pub fn removes(&self, reference: Uuid) {
        self.desk().removed.insert(reference);
    }

    /// What a question about a payment or refund is answered from now on.
    pub fn knows(&self, reference: Uuid, progress: Progress) {
        let reference = Reference::of(reference).0;
        self.desk().outgoing.insert(reference, progress);
    }

    /// The provider has never heard of it.
    pub fn forgets(&self, reference: Uuid) {
        let reference = Reference::of(reference).0;
        let mut desk = self.desk();
        desk.outgoing.remove(&reference);
        desk.charges.remove(&reference);
    }

    /// Every question fails like this from now on; `None` makes an end of it.
    pub fn questions_fail(&self, error: Option<ProviderError>) {
        self.desk().consult_error = error;
    }

    /// What is in the account at the provider from now on, in centavos.
    pub fn holds(&self, cents: Option<i64>) {
        self.desk().balance = cents;
    }

    /// After how long "not known" is proof from now on.
    pub fn not_found_is_proof(&self, after: Option<Duration>) {
        self.desk().proof_after = after;
    }

    /// How many times a payment or refund with that reference was sent: calls that didn't end before anything left.
    pub fn sends(&self, reference: Uuid) -> u32 {
        let reference = Reference::of(reference).0;
        self.desk().sends.get(&reference).copied().unwrap_or(0)
    }

    /// How many times sending it ended before anything left.
    pub fn unavailable(&self, reference: Uuid) -> u32 {
        let reference = Reference::of(reference).0;
        self.desk().unavailable.get(&reference).copied().unwrap_or(0)
    }

    /// How many payments and refunds were sent in all.
    pub fn total_sends(&self) -> u32 {
        self.desk().sends.values().sum()
    }

    /// How many times it was asked about.
    pub fn consults(&self, reference: Uuid) -> u32 {
        let reference = Reference::of(reference).0;
        self.desk().consults.get(&reference).copied().unwrap_or(0)
    }

    /// The references that were sent more than once. Always empty, whatever happens: the one promise of all callers.
    pub fn sent_twice(&self) -> Vec<Uuid> {
        self.desk().sends.iter().filter(|(_, sends)| **sends > 1).map(|(reference, _)| *reference).collect()
    }

    async fn send(&self, reference: Uuid) -> Result<OutgoingReport, ProviderError> {
        // Others get their turn, as they do during a call over a network.
        tokio::task::yield_now().await;
        let mut desk = self.desk();
        let queued = desk.by_reference.get(&reference).copied().or_else(|| desk.queued.pop_front());
        let answer = queued.or_else(|| desk.usual).unwrap_or(Answer::Complete);
        if answer == Answer::Unavailable {
            *desk.unavailable.entry(reference).or_default() += 1;
            return Err(ProviderError::Unavailable("told to be".into()));
        }
        *desk.sends.entry(reference).or_default() += 1;
        let progress = match answer {
            Answer::Accept => Progress::Accepted,
            Answer::Complete | Answer::LostAnswer => Progress::Completed,
            Answer::Fail => Progress::Failed { code: FAILURE_CODE.into(), message: FAILURE_MESSAGE.into() },
            Answer::Reject => return Err(rejected()),
            Answer::LostRequest | Answer::Unavailable => return Err(lost()),
        };
        desk.outgoing.insert(reference, progress.clone());
        if answer == Answer::LostAnswer { Err(lost()) } else { Ok(report(reference, progress)) }
    }

    async fn consult(&self, reference: Uuid) -> Result<Option<OutgoingReport>, ProviderError> {
        tokio::task::yield_now().await;
        let mut desk = self.desk();
        *desk.consults.entry(reference).or_default() += 1;
        match &desk.consult_error {
            Some(error) => Err(error.clone()),
            None => Ok(desk.outgoing.get(&reference).map(|progress| report(reference, progress.clone()))),
        }
    }
}

fn rejected() -> ProviderError {
    ProviderError::Rejected {
        code: FAILURE_CODE.into(),
        message: FAILURE_MESSAGE.into(),
        body: ProviderBody(r#"{"error":"told to refuse"}"#.into()),
    }
}

fn lost() -> ProviderError {
    ProviderError::Indeterminate("told to get lost".into())
}

/// The fake's own name for the operation with that reference.
pub fn provider_id(reference: Uuid) -> ProviderId {
    let reference = Reference::of(reference).0;
    ProviderId::parse(&format!("fake-{}", reference.simple())).expect("visible ASCII")
}

fn report(reference: Uuid, progress: Progress) -> OutgoingReport {
    let settled = matches!(progress, Progress::Completed | Progress::Returned(_));
    OutgoingReport {
        provider_id: provider_id(reference),
        end_to_end_id: settled.then(|| outgoing_pix_id(reference)),
        body: ProviderBody(format!(r#"{{"id":"{}"}}"#, reference.simple())),
        progress,
    }
}

/// The end-to-end id (or return id) that the fake gives a settled operation.
pub fn outgoing_pix_id(reference: Uuid) -> String {
    let reference = Reference::of(reference).0;
    format!("E99999999202601151200{}", crate::builders::eleven(reference))
}

#[async_trait]
impl SettlementProvider for FakeProvider {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        tokio::task::yield_now().await;
        let reference = order.reference.0;
        let mut desk = self.desk();
        match desk.charge_answers.pop_front().unwrap_or(Answer::Accept) {
            Answer::Accept | Answer::Complete => {}
            Answer::Fail | Answer::Reject => return Err(rejected()),
            Answer::Unavailable => return Err(ProviderError::Unavailable("told to be".into())),
            Answer::LostRequest => return Err(lost()),
            Answer::LostAnswer => {
                desk.charges.entry(reference).or_default();
                return Err(lost());
            }
        }
        desk.charges.entry(reference).or_default();
        Ok(Ticket {
            provider_id: provider_id(reference),
            qrcode: format!("fake-qr-code-of-{}", reference.simple()),
            body: ProviderBody(format!(r#"{{"id":"{}"}}"#, reference.simple())),
        })
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        self.send(order.reference.0).await
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        self.send(order.reference.0).await
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        tokio::task::yield_now().await;
        let reference = inquiry.reference.0;
        let mut desk = self.desk();
        *desk.consults.entry(reference).or_default() += 1;
        if let Some(error) = &desk.consult_error {
            return Err(error.clone());
        }
        Ok(desk.charges.get(&reference).map(|payments| ChargeReport {
            provider_id: provider_id(reference),
            payments: payments.clone(),
            refunded: desk.refunded.get(&reference).copied().unwrap_or_default(),
            canceled: desk.removed.contains(&reference),
            body: ProviderBody(format!(r#"{{"id":"{}"}}"#, reference.simple())),
        }))
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.consult(inquiry.reference.0).await
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.consult(inquiry.reference.0).await
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        tokio::task::yield_now().await;
        let mut desk = self.desk();
        if let Some(answer) = desk.removals.pop_front() {
            return answer;
        }
        desk.removed.insert(inquiry.reference.0);
        Ok(Removal::Removed)
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        Ok(self.desk().balance)
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        self.desk().proof_after
    }
}
