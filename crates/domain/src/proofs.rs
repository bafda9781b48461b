//! Proof against the provider: what the books say has ended is held against what the provider says of it, some time after.
//!
//! A record that is open is asked about until it has ended, and never again by itself. What the provider says later (that a
//! payment came back, that a charge was paid twice, that what it had failed was settled after all) is told by a callback, and a
//! callback may be lost. So the book of each integrator is walked once more for each of some ages ([`Prover::due`]): whatever a
//! posting of that age says has ended is asked about ([`Prover::prove`]), what the answer says is applied as ever, and what
//! contradicts the books and can't be applied is a finding.
//!
//! | The books say | The provider says | What becomes of it |
//! |---|---|---|
//! | anything | the same | [`Proved::Agrees`] |
//! | completed | came back | credited: [`Proved::Learned`] |
//! | completed | failed; not settled; less came back than is credited | finding |
//! | failed | completed | a withdrawal: taken, with a finding, [`Proved::Learned`]; a refund: finding |
//! | failed | taken, not settled | finding |
//! | credited | more was paid, or money was taken back | credited, taken: [`Proved::Learned`] |
//! | credited | another sum was paid than is credited after that | finding |
//! | completed or credited | it doesn't know it | finding |
//!
//! Whoever calls this says how far the walk is, and how many questions it may ask; it holds nothing.

use std::collections::BTreeSet;

use crate::charges::Charge;
use crate::charges::service::ChargeService;
use crate::error::{ServiceError, StoreError};
use crate::ids::{ChargeId, IntegratorId, RefundId, ResourceKind, ResourceRef, WithdrawalId};
use crate::money::Cents;
use crate::ports::Ports;
use crate::provider::{ChargeReport, OutgoingReport, Progress, ProviderError};
use crate::refunds::service::RefundService;
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::wallet::Reason;
use crate::wallet::store::EntryQuery;
use crate::withdrawals::service::WithdrawalService;
use crate::withdrawals::{OutgoingState, Withdrawal};

/// How many entries of a book are read at once.
pub const PAGE: u32 = 200;

/// The provider doesn't know what the books say it has done.
const NOT_KNOWN: &str = "not_known_at_provider";
/// It says that what the books have as completed isn't settled.
const NOT_SETTLED: &str = "not_settled_at_provider";
/// It says that another sum came in than is credited.
const PAID_DIFFERS: &str = "paid_differs_at_provider";
/// It says that less came back than is credited.
const RETURNED_LESS: &str = "returned_less_at_provider";

/// What a question proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proved {
    /// The provider says what the books say.
    Agrees,
    /// It said something that the books didn't have, and have now.
    Learned,
    /// It contradicts the books: the code of the finding.
    Differs(&'static str),
    /// The record is open: it is asked about anyway.
    Open,
    /// There was no answer.
    NotAsked(ProviderError),
}

impl Proved {
    /// A stable name.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Learned => "learned",
            Self::Differs(_) => "differs",
            Self::Open => "open",
            Self::NotAsked(_) => "unanswered",
        }
    }
}

/// A record that is to be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueProof {
    /// The record.
    pub resource: ResourceRef,
    /// The first entry of the page that is about it.
    pub entry: u64,
    /// When that was made.
    pub at: Timestamp,
}

/// What a page of a book asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DuePage {
    /// What to ask about, in the order of the entries.
    pub due: Vec<DueProof>,
    /// The last entry that was looked at; `None` when there is none that is old enough.
    pub through: Option<u64>,
}

/// Holds the books against the provider.
#[derive(Clone)]
pub struct Prover {
    ports: Ports,
    charges: ChargeService,
    withdrawals: WithdrawalService,
    refunds: RefundService,
}

/// Whether an entry for this reason says that something has ended at the provider.
const fn is_proof_of(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ChargePaid
            | Reason::WithdrawalSettle
            | Reason::WithdrawalRelease
            | Reason::WithdrawalReturn
            | Reason::RefundSettle
            | Reason::RefundRelease
            | Reason::ForcedDebit
            | Reason::ForcedDebitOwed
    )
}

impl Prover {
    /// A prover over `ports`.
    pub fn new(ports: Ports) -> Self {
        Self {
            charges: ChargeService::new(ports.clone()),
            withdrawals: WithdrawalService::new(ports.clone()),
            refunds: RefundService::new(ports.clone()),
            ports,
        }
    }

    /// What is to be asked about of the next [`PAGE`] entries after `after` that were made before `until`, each record once.
    /// Errors are those of the store.
    pub async fn due(
        &self,
        integrator_id: IntegratorId,
        after: u64,
        until: Timestamp,
    ) -> Result<DuePage, StoreError> {
        let entries =
            self.ports.stores.wallets.entries(integrator_id, &EntryQuery::after(after, PAGE)).await?;
        let mut page = DuePage::default();
        let mut seen = BTreeSet::new();
        // Nodes have clocks of their own, so an entry may be a little older than the one before it: it waits for that.
        for entry in entries.into_iter().take_while(|entry| entry.at < until) {
            page.through = Some(entry.number);
            let resource = entry.posting.resource;
            if is_proof_of(entry.posting.reason) && seen.insert((resource.kind, resource.id)) {
                page.due.push(DueProof { resource, entry: entry.number, at: entry.at });
            }
        }
        Ok(page)
    }

    /// Asks the provider about a record that has ended, applies what it says, and tells an operator of what contradicts the books.
    /// `may_forget`: that the provider doesn't know it any more proves nothing. Errors are those of the store, and
    /// [`ServiceError::NotFound`] for no record.
    pub async fn prove(&self, resource: ResourceRef, may_forget: bool) -> Result<Proved, ServiceError> {
        let integrator_id = resource.integrator_id;
        let proved = match resource.kind {
            ResourceKind::Charge => {
                let id = ChargeId(resource.id);
                let before = self.charges.get(integrator_id, id).await?;
                let (after, answer) = Box::pin(self.charges.refresh(integrator_id, id)).await?;
                judged(answer, before.version != after.version, |report| {
                    of_charge(&before, &after, report, may_forget)
                })
            }
            ResourceKind::Withdrawal => {
                let id = WithdrawalId(resource.id);
                let before = self.withdrawals.get(integrator_id, id).await?;
                if !before.state.is_final() {
                    return Ok(Proved::Open);
                }
                let (after, answer) = self.withdrawals.refresh(integrator_id, id).await?;
                let ended = Ended {
                    left: before.has_left(),
                    known_to_have_left: after.has_left(),
                    amount: before.amount.cents(),
                    returned: before.returned,
                };
                judged(answer, before.version != after.version, |report| {
                    ended.contradicted(report, may_forget)
                })
            }
            ResourceKind::Refund => {
                let id = RefundId(resource.id);
                let before = self.refunds.get(integrator_id, id).await?;
                if !before.state.is_final() {
                    return Ok(Proved::Open);
                }
                let (after, answer) = self.refunds.refresh(integrator_id, id).await?;
                let left = before.state == OutgoingState::Completed;
                let ended = Ended {
                    left,
                    known_to_have_left: left,
                    amount: before.amount.cents(),
                    returned: Cents::ZERO,
                };
                judged(answer, before.version != after.version, |report| {
                    ended.contradicted(report, may_forget)
                })
            }
            // The provider knows nothing of it.
            ResourceKind::Split => Proved::Open,
        };
        if let Proved::Differs(code) = proved {
            let detail = "asked again after it had ended, the provider contradicts the books".to_owned();
            let finding = Transition::new(integrator_id, self.ports.clock.now()).find(resource, code, detail);
            self.ports.apply_change(finding).await?;
        }
        Ok(proved)
    }
}

fn judged<R>(
    answer: Result<Option<R>, ProviderError>,
    changed: bool,
    judge: impl FnOnce(Option<R>) -> Option<&'static str>,
) -> Proved {
    match answer.map(judge) {
        // That is told where it is heard.
        Err(ProviderError::Mismatch(_)) => Proved::Differs("answer_mismatch"),
        Err(error) => Proved::NotAsked(error),
        Ok(Some(code)) => Proved::Differs(code),
        Ok(None) if changed => Proved::Learned,
        Ok(None) => Proved::Agrees,
    }
}

/// What of an answer contradicts a charge. What was credited while it was on its way is in `after` alone.
fn of_charge(
    before: &Charge,
    after: &Charge,
    report: Option<ChargeReport>,
    may_forget: bool,
) -> Option<&'static str> {
    let Some(report) = report else {
        return (!before.amount_paid().is_zero() && !may_forget).then_some(NOT_KNOWN);
    };
    let amounts = report.payments.iter().map(|payment| payment.amount.cents().get());
    let paid = amounts.fold(0_i64, i64::saturating_add);
    if paid < before.amount_paid().get() || paid > after.amount_paid().get() {
        return Some(PAID_DIFFERS);
    }
    (report.refunded > after.amount_paid()).then_some("returned_more_than_paid")
}

/// A movement that had ended before it was asked about.
struct Ended {
    /// Whether the money had left.
    left: bool,
    /// Whether the books say so since the answer was applied.
    known_to_have_left: bool,
    /// How much.
    amount: Cents,
    /// How much of it is credited as having come back.
    returned: Cents,
}

impl Ended {
    /// What of an answer contradicts it.
    fn contradicted(&self, report: Option<OutgoingReport>, may_forget: bool) -> Option<&'static str> {
        let Some(report) = report else { return (self.left && !may_forget).then_some(NOT_KNOWN) };
        match report.progress {
            Progress::Returned(total) if total > self.amount => Some("returned_more_than_sent"),
            Progress::Failed { .. } => self.left.then_some("failed_though_completed"),
            Progress::Accepted if self.left => Some(NOT_SETTLED),
            Progress::Accepted => Some("accepted_though_not_sent"),
            Progress::Completed if self.left => (!self.returned.is_zero()).then_some(RETURNED_LESS),
            Progress::Returned(total) if self.left => (total < self.returned).then_some(RETURNED_LESS),
            Progress::Completed | Progress::Returned(_) => {
                (!self.known_to_have_left).then_some("completed_though_not_sent")
            }
        }
    }
}

impl Withdrawal {
    /// Whether its money has left, as far as the books know; some of it may have come back.
    const fn has_left(&self) -> bool {
        self.settled_late || matches!(self.state, OutgoingState::Completed | OutgoingState::Returned)
    }
}
