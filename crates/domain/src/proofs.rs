//! Proof of what has ended, some time after: against its own postings, and against what the provider says of it.
//!
//! A record that is open is asked about until it has ended, and never again by itself. What the provider says later (that a
//! payment came back, that a charge was paid twice, that what it had failed was settled after all) is told by a callback, and a
//! callback may be lost. So the book of each integrator is walked once more for each of some ages ([`Prover::due`]): whatever a
//! posting of that age says has ended is asked about ([`Prover::prove`]), what the answer says is applied as ever, and what
//! contradicts the books and can't be applied is a finding.
//!
//! Before that, the record is held against the books: its postings are exactly those that its state calls for. They are looked for among
//! the entries of its life, from when it was made to when it was changed last, so that the cost is that of the life and not of the book.
//!
//! | The books say | The provider says | What becomes of it |
//! |---|---|---|
//! | anything | the same | [`Proved::Agrees`] |
//! | completed | came back | credited: [`Proved::Learned`] |
//! | completed | failed; not settled; less came back than is credited | finding |
//! | failed | completed | a withdrawal: taken, with a finding, [`Proved::Learned`]; a refund: finding |
//! | failed | taken, not settled | finding |
//! | credited | more was paid, or money was taken back | credited, taken: [`Proved::Learned`] |
//! | credited | another sum was paid than is credited after that; a credited payment isn't among them; less was taken back | finding |
//! | completed or credited | it doesn't know it | finding |
//! | other postings than the state calls for, or no record | | finding |
//!
//! Whoever calls this says how far the walk is, and how many questions it may ask; it holds nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::audit::Balances;
use crate::charges::service::ChargeService;
use crate::charges::{Charge, Receipt};
use crate::error::{ServiceError, StoreError};
use crate::ids::{ChargeId, IntegratorId, RefundId, ResourceKind, ResourceRef, Version, WithdrawalId};
use crate::money::Cents;
use crate::ports::Ports;
use crate::provider::{ChargeReport, OutgoingReport, Progress, ProviderError, ProviderId};
use crate::refunds::service::RefundService;
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::wallet::Reason;
use crate::wallet::statement::{MAX_DISORDER, StatementService};
use crate::wallet::store::EntryQuery;
use crate::withdrawals::service::WithdrawalService;
use crate::withdrawals::{OutgoingState, Withdrawal};

/// How many entries of a book are read at once.
pub const PAGE: u32 = 200;

/// How much the times of a record's entries may contradict their order, tried one after another: see
/// [`MAX_DISORDER`](crate::wallet::statement::MAX_DISORDER).
const DISORDERS: [Duration; 3] = [Duration::from_secs(5), Duration::from_mins(1), MAX_DISORDER];

/// Among how many entries the postings of one record are looked for, at the most.
pub const MAX_SPAN: u64 = 100_000;

/// How many postings of one record are read, at the most.
const MAX_POSTINGS: u32 = 1_000;

/// Its postings are not those that its state calls for.
const POSTINGS_DIFFER: &str = "postings_differ";
/// There are postings of it, and no record.
const NO_RECORD: &str = "postings_without_record";
/// The provider doesn't know what the books say it has done.
const NOT_KNOWN: &str = "not_known_at_provider";
/// It says that what the books have as completed isn't settled.
const NOT_SETTLED: &str = "not_settled_at_provider";
/// It says that another sum came in than is credited.
const PAID_DIFFERS: &str = "paid_differs_at_provider";
/// It says that less was taken back of a charge than was taken from the wallet.
const TAKEN_LESS: &str = "taken_back_less_at_provider";
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
    /// What it said of a charge isn't booked while no money goes out after a restore: it is to be asked about again after that.
    NotYet,
}

impl Proved {
    /// A stable name.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Learned => "learned",
            Self::Differs(_) => "differs",
            Self::Open => "open",
            Self::NotAsked(_) | Self::NotYet => "unanswered",
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

/// A record of any kind as the books know it.
struct Known {
    version: Version,
    /// Whether it is final: what isn't is on its way.
    has_ended: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// What its state calls for.
    balances: Balances,
}

/// Holds what has ended against the books and the provider.
#[derive(Clone)]
pub struct Prover {
    ports: Ports,
    statement: StatementService,
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
            statement: StatementService::new(ports.clone()),
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
        // Nodes have clocks of their own, so an entry may be a little older than the one before it: it waits for that. One that a clock
        // gone wrong has put into a future that can't be is not waited for.
        let impossible = self.ports.clock.now().plus(MAX_DISORDER);
        let is_old = |at: Timestamp| at < until || at > impossible;
        for entry in entries.into_iter().take_while(|entry| is_old(entry.at)) {
            page.through = Some(entry.number);
            let resource = entry.posting.resource;
            if is_proof_of(entry.posting.reason) && seen.insert((resource.kind, resource.id)) {
                page.due.push(DueProof { resource, entry: entry.number, at: entry.at });
            }
        }
        Ok(page)
    }

    /// Holds a record that has ended against its postings, asks the provider about it, applies what that says, and tells an operator of
    /// what contradicts the books. `may_forget`: that the provider doesn't know it any more proves nothing. Errors are those of the
    /// store.
    pub async fn prove(&self, resource: ResourceRef, may_forget: bool) -> Result<Proved, ServiceError> {
        let proved = match self.against_postings(resource).await? {
            Some(code) => Proved::Differs(code),
            None => match self.against_provider(resource, may_forget).await {
                Err(ServiceError::Restored) => Proved::NotYet,
                proved => proved?,
            },
        };
        if let Proved::Differs(code) = proved {
            let detail = match code {
                POSTINGS_DIFFER => "its postings are not those that its state calls for",
                NO_RECORD => "there are postings of it, and no record",
                _ => "asked again after it had ended, the provider contradicts the books",
            };
            let finding = Transition::new(resource.integrator_id, self.ports.clock.now());
            self.ports.apply_change(finding.find(resource, code, detail.to_owned())).await?;
        }
        Ok(proved)
    }

    /// What of its postings contradicts a record that has ended. `None` too where that can't be told at a bounded cost: when
    /// [`MAX_SPAN`] entries, or more, were made while it lived.
    async fn against_postings(&self, resource: ResourceRef) -> Result<Option<&'static str>, ServiceError> {
        let Some(known) = self.known(resource).await? else { return Ok(Some(NO_RECORD)) };
        if !known.has_ended {
            return Ok(None);
        }
        let (owner, from, to) = (resource.integrator_id, known.created_at, known.updated_at);
        for disorder in DISORDERS {
            let (after, before) = self.statement.numbers_between(owner, from, to, disorder).await?;
            if before.saturating_sub(after) > MAX_SPAN {
                return Ok(None);
            }
            let mut wanted = EntryQuery::after(after, MAX_POSTINGS);
            (wanted.before, wanted.resource_id) = (before, Some(resource.id));
            let entries = self.ports.stores.wallets.entries(owner, &wanted).await?;
            let is_cut = entries.len() >= usize::try_from(MAX_POSTINGS).unwrap_or(usize::MAX);
            if is_cut || Balances::of_postings(&entries) == known.balances {
                return Ok(None);
            }
        }
        // Changed meanwhile, and read before it was: then it comes again at its next age.
        let again = self.known(resource).await?;
        Ok(again.is_some_and(|again| again.version == known.version).then_some(POSTINGS_DIFFER))
    }

    /// The record, when there is one.
    async fn known(&self, resource: ResourceRef) -> Result<Option<Known>, StoreError> {
        let (owner, stores) = (resource.integrator_id, &self.ports.stores);
        Ok(match resource.kind {
            ResourceKind::Charge => {
                stores.charges.find(owner, ChargeId(resource.id)).await?.map(|charge| Known {
                    version: charge.version,
                    has_ended: true,
                    created_at: charge.created_at,
                    updated_at: charge.updated_at,
                    balances: Balances::of_charge(&charge),
                })
            }
            ResourceKind::Withdrawal => {
                stores.withdrawals.find(owner, WithdrawalId(resource.id)).await?.map(|withdrawal| Known {
                    version: withdrawal.version,
                    has_ended: withdrawal.state.is_final(),
                    created_at: withdrawal.created_at,
                    updated_at: withdrawal.updated_at,
                    balances: Balances::of_withdrawal(&withdrawal),
                })
            }
            ResourceKind::Refund => {
                stores.refunds.find(owner, RefundId(resource.id)).await?.map(|refund| Known {
                    version: refund.version,
                    has_ended: refund.state.is_final(),
                    created_at: refund.created_at,
                    updated_at: refund.updated_at,
                    balances: Balances::of_refund(&refund),
                })
            }
            // Held against the charge that it is a part of by the whole audit.
            ResourceKind::Split => Some(Known {
                version: Version::FIRST,
                has_ended: false,
                created_at: Timestamp::from_micros(0),
                updated_at: Timestamp::from_micros(0),
                balances: Balances::default(),
            }),
        })
    }

    /// Whether the provider has nothing to tell: it never named what didn't leave, and doesn't find things by our reference.
    fn is_unknown_there(&self, provider_id: Option<&ProviderId>, has_left: bool) -> bool {
        provider_id.is_none() && !has_left && self.ports.provider.not_found_is_proof_after().is_none()
    }

    async fn against_provider(
        &self,
        resource: ResourceRef,
        may_forget: bool,
    ) -> Result<Proved, ServiceError> {
        let integrator_id = resource.integrator_id;
        Ok(match resource.kind {
            ResourceKind::Charge => {
                let id = ChargeId(resource.id);
                let before = self.charges.get(integrator_id, id).await?;
                let receipts = self.ports.stores.charges.receipts(integrator_id, id).await?;
                let (after, answer) = Box::pin(self.charges.refresh(integrator_id, id)).await?;
                judged(answer, before.version != after.version, |report| {
                    of_charge(&before, &receipts, &after, report, may_forget)
                })
            }
            ResourceKind::Withdrawal => {
                let id = WithdrawalId(resource.id);
                let before = self.withdrawals.get(integrator_id, id).await?;
                if !before.state.is_final()
                    || self.is_unknown_there(before.provider_id.as_ref(), before.has_left())
                {
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
                let left = before.state == OutgoingState::Completed;
                if !before.state.is_final() || self.is_unknown_there(before.provider_id.as_ref(), left) {
                    return Ok(Proved::Open);
                }
                let (after, answer) = self.refunds.refresh(integrator_id, id).await?;
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
        })
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
    receipts: &[Receipt],
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
    // One for one: another one of the same amount doesn't stand for it. A provider may come to name a payment by its end-to-end id
    // that it told without one.
    let is_told = |receipt: &Receipt| {
        let known = &receipt.payment;
        let unnamed = known.key.end_to_end_id().is_none() && report.payments.len() == 1;
        report.payments.iter().any(|told| told.amount == known.amount && (told.key == known.key || unnamed))
    };
    if !receipts.iter().all(is_told) {
        return Some(PAID_DIFFERS);
    }
    if report.refunded < before.taken_back {
        return Some(TAKEN_LESS);
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
            // All of it is back, which is what a release says too.
            Progress::Returned(total) if !self.left && total == self.amount => None,
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
