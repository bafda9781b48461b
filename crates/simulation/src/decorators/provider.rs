//! The settlement provider, over a line that loses and delays.
//!
//! A request that has left is out of its caller's hands: it arrives, or not, whatever becomes of the task that sent it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::ids::ResourceKind;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, PaymentOrder, ProviderBody, ProviderError,
    RefundOrder, Removal, SettlementProvider, Ticket,
};
use pix_domain::text::Description;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::desk::{FAILURE_CODE, Fate, Letter, Mail, ticket};
use crate::faults::Fault;
use crate::sim::{Sim, State, number};

/// How long a call may take: the adapter gives up then. Shorter than [`SUBMIT_GRACE`](crate::world::SUBMIT_GRACE).
pub const DEADLINE: Duration = Duration::from_secs(15);

/// How much sooner than promised "not known" is proof: room for clocks that are a second apart.
const PROOF_MARGIN: Duration = Duration::from_secs(2);

/// The provider as the nodes reach it.
#[derive(Debug)]
pub struct SimProvider {
    sim: Arc<Sim>,
}

/// How a call goes.
struct Line {
    started: Timestamp,
    posted: Option<Timestamp>,
    answered_at: Timestamp,
    answer_lost: bool,
}

impl SimProvider {
    /// The provider of that world.
    pub const fn new(sim: Arc<Sim>) -> Self {
        Self { sim }
    }

    /// Sends a letter; `Err` when nothing has left.
    async fn send(&self, reference: Uuid, letter: Letter) -> Result<Line, ProviderError> {
        let started = self.sim.now();
        self.sim.pause().await;
        let line = self.sim.with(|state| {
            let line = dispatch(state, started, reference, letter)?;
            state.trace(|| {
                let on_its_way = if line.posted.is_some() { "" } else { ", and gets lost" };
                format!("call about {} leaves{on_its_way}", number(reference))
            });
            Ok(line)
        })?;
        self.sim.sleep_until(line.answered_at).await;
        Ok(line)
    }

    async fn outgoing(&self, reference: Uuid, letter: Letter) -> Result<OutgoingReport, ProviderError> {
        let line = self.send(reference, letter).await?;
        let answer = self.sim.with(|state| {
            let operation = state.desk.outgoing.get(&reference);
            let answer = match operation {
                Some(operation) if line.is_heard(state.now) && operation.fate == Fate::Refuse => {
                    Err(refused())
                }
                Some(operation) if line.is_heard(state.now) => {
                    Ok(state.desk.answer(reference, operation, state.now))
                }
                _ => Err(lost()),
            };
            if let Ok(report) = &answer {
                state.desk.note_answer(reference, line.started, report);
            }
            if matches!(answer, Err(ProviderError::Rejected { .. }))
                && let Some(operation) = state.desk.outgoing.get_mut(&reference)
            {
                operation.refusal_heard = true;
            }
            state.trace(|| format!("call about {} ends: {}", number(reference), said(&answer)));
            answer
        });
        self.sim.pause().await;
        answer
    }

    /// Asks a question. `read` looks at the log when the question arrives.
    async fn ask<T>(
        &self,
        reference: Uuid,
        read: impl FnOnce(&mut State) -> T + Send,
    ) -> Result<T, ProviderError> {
        self.sim.pause().await;
        let answered_at = self.sim.with(|state| {
            if state.random.permille(state.rates.consult_fails) {
                state.count(Fault::ConsultFails);
                state.trace(|| format!("question about {} fails", number(reference)));
                return Err(if state.random.one_in(2) { lost() } else { unavailable() });
            }
            let slow = state.random.permille(state.rates.slow);
            if slow {
                state.count(Fault::SlowAnswer);
            }
            Ok(if slow { state.now.plus(state.random.span(DEADLINE)) } else { state.now })
        })?;
        let answer = self.sim.with(read);
        self.sim.sleep_until(answered_at).await;
        self.sim.pause().await;
        Ok(answer)
    }

    async fn ask_outgoing(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        let (reference, asked_at) = (inquiry.reference.0, self.sim.now());
        self.ask(reference, |state| {
            let report = state.desk.report(reference, state.now);
            if let Some(report) = &report {
                state.desk.note_answer(reference, asked_at, report);
            }
            let known =
                state.desk.outgoing.get(&reference).is_some_and(|operation| operation.fate != Fate::Refuse);
            if report.is_none() && (known || state.desk.expects(reference)) {
                state.count(Fault::NotKnownYet);
            }
            // A refund of all that is left doesn't know what another request with its handle is just sending.
            if let Some(operation) = state.desk.outgoing.get(&reference)
                && operation.amount != inquiry.amount
                && (operation.kind != ResourceKind::Refund || asked_at.since(operation.sent_at) > DEADLINE)
            {
                state.violate(format!("{} is asked about with another amount than sent", number(reference)));
            }
            state.trace(|| {
                let answer =
                    report.as_ref().map_or("not known".to_owned(), |report| format!("{:?}", report.progress));
                format!("question about {}: {answer}", number(reference))
            });
            report
        })
        .await
    }
}

impl Line {
    /// Whether the one who called hears the answer.
    fn is_heard(&self, now: Timestamp) -> bool {
        let in_time = now.since(self.started) <= DEADLINE;
        in_time && !self.answer_lost && self.posted.is_some_and(|arrives_at| arrives_at <= now)
    }
}

/// Decides how a call goes, and sends it on its way.
fn dispatch(
    state: &mut State,
    started: Timestamp,
    reference: Uuid,
    letter: Letter,
) -> Result<Line, ProviderError> {
    let not_sent = state.random.permille(state.rates.not_sent);
    if not_sent || state.now.since(started) > DEADLINE {
        state.count(Fault::NotSent);
        state.trace(|| format!("call about {} does not leave", number(reference)));
        return Err(unavailable());
    }
    let mut answered_at = state.now;
    if state.random.permille(state.rates.slow) {
        state.count(Fault::SlowAnswer);
        answered_at = started.plus(state.random.span(DEADLINE)).max(state.now);
    }
    if state.random.permille(state.rates.request_lost) {
        state.count(Fault::RequestLost);
        return Ok(Line { started, posted: None, answered_at, answer_lost: true });
    }
    // What the provider has promised: after this, a question finds what was sent.
    let visible_by = state
        .desk
        .style
        .proof_after
        .map(|proof| started.plus(proof.saturating_sub(PROOF_MARGIN)).max(state.now));
    let mut arrives_at = state.now;
    if state.random.permille(state.rates.arrives_late) {
        state.count(Fault::ArrivesLate);
        arrives_at = state.now.plus(state.random.span(Duration::from_mins(10)));
        arrives_at = visible_by.map_or(arrives_at, |by| arrives_at.min(by));
    }
    let answer_lost = state.random.permille(state.rates.answer_lost);
    if answer_lost {
        state.count(Fault::AnswerLost);
    }
    state.post(Mail { arrives_at, visible_by, reference, letter });
    Ok(Line { started, posted: Some(arrives_at), answered_at, answer_lost })
}

fn refused() -> ProviderError {
    ProviderError::Rejected {
        code: FAILURE_CODE.into(),
        message: "refused for good".into(),
        body: ProviderBody("{}".into()),
    }
}

fn lost() -> ProviderError {
    ProviderError::Indeterminate("the line was cut".into())
}

fn unavailable() -> ProviderError {
    ProviderError::Unavailable("no line".into())
}

fn said(answer: &Result<OutgoingReport, ProviderError>) -> String {
    match answer {
        Ok(report) => format!("{:?}", report.progress),
        Err(error) => error.to_string(),
    }
}

fn tag(description: Option<&Description>) -> String {
    description.map_or(String::new(), |text| text.as_str().to_owned())
}

#[async_trait]
impl SettlementProvider for SimProvider {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        let reference = order.reference.0;
        let line = self.send(reference, Letter::Charge).await?;
        let answer = self.sim.with(|state| {
            let answer = match state.desk.charges.get(&reference) {
                Some(charge) if line.is_heard(state.now) && charge.refused => Err(refused()),
                Some(_) if line.is_heard(state.now) => Ok(ticket(reference)),
                _ => Err(lost()),
            };
            let said = answer.as_ref().map_or_else(ToString::to_string, |_| "made".to_owned());
            state.trace(|| format!("call about {} ends: {said}", number(reference)));
            answer
        });
        self.sim.pause().await;
        answer
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        let reference = order.reference.0;
        self.sim.with(|state| state.must_be_stored(order.resource, order.amount));
        let (kind, amount) = (ResourceKind::Withdrawal, order.amount);
        let tag = tag(order.description.as_ref());
        self.outgoing(reference, Letter::Send { kind, amount, tag, charge: None }).await
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        let reference = order.reference.0;
        self.sim.with(|state| state.must_be_stored(order.resource, order.amount));
        let charge = order.charge_provider_id.as_str().strip_prefix("sim-");
        let charge = charge.and_then(|id| Uuid::try_parse(id).ok());
        let (kind, amount) = (ResourceKind::Refund, order.amount);
        let tag = tag(order.description.as_ref());
        self.outgoing(reference, Letter::Send { kind, amount, tag, charge }).await
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        let reference = inquiry.reference.0;
        self.ask(reference, |state| {
            let report = state.desk.charge_report(reference, state.now);
            state.trace(|| {
                let payments = report.as_ref().map(|report| report.payments.len());
                format!("question about charge {}: payments {payments:?}", number(reference))
            });
            report
        })
        .await
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.ask_outgoing(inquiry).await
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.ask_outgoing(inquiry).await
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        let reference = inquiry.reference.0;
        self.ask(reference, |state| {
            let now = state.now;
            if let Some(charge) = state.desk.charges.get_mut(&reference) {
                charge.removed_at.get_or_insert(now);
            }
            Removal::Removed
        })
        .await
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        Ok(None)
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        self.sim.with(|state| state.desk.style.proof_after)
    }
}
