//! What can happen to a withdrawal, and where its money is.
//!
//! | Verb | queued | submitting | accepted | uncertain | needs review | completed | failed | canceled | returned |
//! |---|---|---|---|---|---|---|---|---|---|
//! | submit | submitting | refused | refused | refused | refused | refused | refused | refused | refused |
//! | queue | already | queued | refused | queued (2) | queued (2) | refused | refused | refused | refused |
//! | accept | accepted, finding | accepted | already | accepted | accepted (1) | already | finding | finding | already |
//! | lose sight | refused | uncertain | already | already | already | already | already | already | already |
//! | doubt | uncertain | uncertain | already | uncertain | uncertain | already | already | already | already |
//! | ask for review | refused | needs review | needs review | needs review | already | already | already | already | already |
//! | complete | completed, finding | completed | completed | completed | completed | already | settled late, finding | settled late, finding | already |
//! | fail | failed | failed | failed | failed | failed | finding | already | already | finding |
//! | cancel | canceled | refused | refused | refused | refused | refused | refused | already | refused |
//! | give back | refused | refused | refused | refused | refused | returned | refused | refused | already |
//! | decide completed | refused | completed | completed | completed | completed | already | refused | refused | already |
//!
//! *Finding*: a report contradicts what we know, and an operator is told. What is final stays as it is; what is queued is
//! never sent again once the provider says that it has it. (1) Already, when it was accepted before: being told so again
//! doesn't end a review. (2) Only when the provider never said that it took it. *Settled late*: it stays failed or
//! canceled, and says that the money left after all. Money:
//!
//! | Reaching | Postings |
//! |---|---|
//! | submitting, from nothing | amount + fee: available → held |
//! | completed | amount: held → clearing; fee: held → fees |
//! | failed, canceled | amount + fee: held → available |
//! | returned (in part: completed) | what came back: clearing → available |
//! | settled late | amount: forced out, available → clearing, what is lacking owed → clearing |

use super::{NewWithdrawal, OutgoingState, Withdrawal};
use crate::charges::Failure;
use crate::ids::{ResourceRef, Version};
use crate::money::Cents;
use crate::provider::OutgoingReport;
use crate::schedule;
use crate::time::Timestamp;
use crate::transition::{EventKind, Guard, Record, Step, Transition};
use crate::wallet::{Posting, Reason};

/// A withdrawal that is about to be sent: absent → submitting, amount and fee held. `None` when their sum is more than
/// any wallet can hold.
pub fn accept(new: NewWithdrawal, now: Timestamp, grace: std::time::Duration) -> Option<Transition> {
    let total = new.amount.cents().checked_add(new.fee)?;
    let withdrawal = Withdrawal {
        id: new.id,
        integrator_id: new.integrator_id,
        version: Version::FIRST,
        external_id: new.external_id,
        external_id_given: new.external_id_given,
        amount: new.amount,
        fee: new.fee,
        fee_version: new.fee_version,
        payee: new.payee,
        payee_erased: false,
        description: new.description,
        metadata: new.metadata,
        postback_url: new.postback_url,
        postback_scope: new.postback_scope,
        state: OutgoingState::Submitting,
        provider_id: None,
        provider_body: None,
        end_to_end_id: None,
        returned: Cents::ZERO,
        settled_late: false,
        submitted_at: now,
        completed_at: None,
        created_at: now,
        updated_at: now,
    };
    let resource = withdrawal.resource();
    Some(
        Transition::new(withdrawal.integrator_id, now)
            .write(
                Guard::Absent,
                Record::Withdrawal(Box::new(withdrawal)),
                EventKind::WithdrawalCreated,
                Some(now.plus(grace)),
            )
            .post(Posting::of(Reason::WithdrawalHold, total, resource)),
    )
}

impl Withdrawal {
    fn changed(
        mut self,
        now: Timestamp,
        state: OutgoingState,
        event: EventKind,
        change: impl FnOnce(&mut Self),
    ) -> Transition {
        let guard = Guard::At(self.version);
        self.version = self.version.next();
        self.updated_at = now;
        if state.is_final() {
            self.completed_at = self.completed_at.or(Some(now));
        }
        self.state = state;
        change(&mut self);
        if self.payee_erased {
            // What the provider says now would name the payee again.
            self.erase_payee();
        }
        let follow_up = (!self.state.is_final()).then(|| now.plus(schedule::outgoing(0)));
        Transition::new(self.integrator_id, now).write(
            guard,
            Record::Withdrawal(Box::new(self)),
            event,
            follow_up,
        )
    }

    fn contradiction(&self, code: &'static str, now: Timestamp) -> Step {
        Step::Next(Transition::new(self.integrator_id, now).find(self.resource(), code, self.contradicted()))
    }

    /// The finding's record and sentence, when this was thought not to be with the provider, and it is.
    fn contradicted_by_having_it(&self) -> Option<(ResourceRef, String)> {
        (self.state == OutgoingState::Queued).then(|| (self.resource(), self.contradicted()))
    }

    fn contradicted(&self) -> String {
        format!("the provider's report contradicts the state {}", self.state.name())
    }

    /// It is about to be sent again, after it was definitely not sent. `grace` is how long sending may take.
    pub fn submit(self, now: Timestamp, grace: std::time::Duration) -> Step {
        match self.state {
            OutgoingState::Queued => {
                let mut next = self.changed(
                    now,
                    OutgoingState::Submitting,
                    EventKind::WithdrawalSubmitting,
                    |withdrawal| {
                        withdrawal.submitted_at = now;
                    },
                );
                for write in &mut next.writes {
                    write.follow_up = Some(now.plus(grace));
                }
                Step::Next(next)
            }
            _ => Step::Refused("only what was definitely not sent may be sent"),
        }
    }

    /// It was definitely not sent.
    pub fn queue(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Submitting => {
                Step::Next(self.changed(now, OutgoingState::Queued, EventKind::WithdrawalQueued, |_| ()))
            }
            // Lost sight of while the sending itself was still to be told of: what that proves counts.
            OutgoingState::Uncertain | OutgoingState::NeedsReview if self.provider_id.is_none() => {
                Step::Next(self.changed(now, OutgoingState::Queued, EventKind::WithdrawalQueued, |_| ()))
            }
            OutgoingState::Queued => Step::Already,
            _ => Step::Refused("it may have been sent"),
        }
    }

    /// The provider took it.
    pub fn accepted(self, report: OutgoingReport, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::NeedsReview if self.provider_id.is_some() => Step::Already,
            OutgoingState::Queued
            | OutgoingState::Submitting
            | OutgoingState::Uncertain
            | OutgoingState::NeedsReview => {
                let contradicted = self.contradicted_by_having_it();
                let next =
                    self.changed(now, OutgoingState::Accepted, EventKind::WithdrawalAccepted, |withdrawal| {
                        withdrawal.learn(report);
                    });
                Step::Next(match contradicted {
                    Some((resource, detail)) => next.find(resource, "accepted_though_not_sent", detail),
                    None => next,
                })
            }
            OutgoingState::Accepted | OutgoingState::Completed | OutgoingState::Returned => Step::Already,
            OutgoingState::Failed(_) | OutgoingState::Canceled => {
                self.contradiction("accepted_though_not_sent", now)
            }
        }
    }

    fn learn(&mut self, report: OutgoingReport) {
        self.provider_id = Some(report.provider_id);
        self.provider_body = Some(report.body);
        self.end_to_end_id = report.end_to_end_id.or(self.end_to_end_id.take());
    }

    /// Nobody knows whether it was sent. Never releases anything.
    pub fn lose_sight(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Submitting => Step::Next(self.changed(
                now,
                OutgoingState::Uncertain,
                EventKind::WithdrawalUncertain,
                |_| (),
            )),
            OutgoingState::Queued => Step::Refused("it was definitely not sent"),
            _ => Step::Already,
        }
    }

    /// The record is one of a backup: since that was made it may have been sent, or sent again. As if just sent and lost
    /// sight of, so that no evidence from before counts. Never releases anything.
    pub fn doubt(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Queued
            | OutgoingState::Submitting
            | OutgoingState::Uncertain
            | OutgoingState::NeedsReview => Step::Next(self.changed(
                now,
                OutgoingState::Uncertain,
                EventKind::WithdrawalUncertain,
                |withdrawal| {
                    withdrawal.submitted_at = now;
                },
            )),
            _ => Step::Already,
        }
    }

    /// It has been unknown or unsettled for too long.
    pub fn ask_for_review(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Submitting | OutgoingState::Accepted | OutgoingState::Uncertain => Step::Next(
                self.changed(now, OutgoingState::NeedsReview, EventKind::WithdrawalNeedsReview, |_| ()),
            ),
            OutgoingState::Queued => Step::Refused("it was definitely not sent"),
            _ => Step::Already,
        }
    }

    /// The money arrived.
    pub fn complete(self, report: OutgoingReport, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Queued
            | OutgoingState::Submitting
            | OutgoingState::Accepted
            | OutgoingState::Uncertain
            | OutgoingState::NeedsReview => {
                let contradicted = self.contradicted_by_having_it();
                let next = self.settled(now, |withdrawal| withdrawal.learn(report));
                Step::Next(match contradicted {
                    Some((resource, detail)) => next.find(resource, "completed_though_not_sent", detail),
                    None => next,
                })
            }
            OutgoingState::Completed | OutgoingState::Returned => Step::Already,
            OutgoingState::Failed(_) | OutgoingState::Canceled if self.settled_late => Step::Already,
            OutgoingState::Failed(_) | OutgoingState::Canceled => Step::Next(self.settle_late(report, now)),
        }
    }

    /// The money left, though its hold was released: what is final stays as it is, and the money is taken all the same.
    fn settle_late(self, report: OutgoingReport, now: Timestamp) -> Transition {
        let (resource, amount, state) = (self.resource(), self.amount.cents(), self.state.clone());
        let detail = self.contradicted();
        let next = self.changed(now, state, EventKind::WithdrawalSettledLate, |withdrawal| {
            withdrawal.settled_late = true;
            withdrawal.learn(report);
        });
        next.post(Posting::of(Reason::ForcedDebit, amount, resource)).find(
            resource,
            "completed_though_not_sent",
            detail,
        )
    }

    /// Those who may decide have decided that the money arrived: no answer of the provider says so.
    pub fn decide_completed(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Submitting
            | OutgoingState::Accepted
            | OutgoingState::Uncertain
            | OutgoingState::NeedsReview => Step::Next(self.settled(now, |_| ())),
            OutgoingState::Completed | OutgoingState::Returned => Step::Already,
            OutgoingState::Queued => Step::Refused("it was definitely not sent"),
            OutgoingState::Failed(_) | OutgoingState::Canceled => Step::Refused("it is final"),
        }
    }

    fn settled(self, now: Timestamp, learn: impl FnOnce(&mut Self)) -> Transition {
        let (resource, amount, fee) = (self.resource(), self.amount.cents(), self.fee);
        self.changed(now, OutgoingState::Completed, EventKind::WithdrawalCompleted, learn)
            .post(Posting::of(Reason::WithdrawalSettle, amount, resource))
            .post(Posting::of(Reason::WithdrawalFee, fee, resource))
    }

    /// The money arrived, and `total_returned` of it has come back: one change, so that nothing stands between the two.
    pub fn come_back(self, report: OutgoingReport, total_returned: Cents, now: Timestamp) -> Step {
        if matches!(self.state, OutgoingState::Completed | OutgoingState::Returned) {
            return self.give_back(total_returned, now);
        }
        if matches!(self.state, OutgoingState::Failed(_) | OutgoingState::Canceled) {
            return self.come_back_late(report, total_returned, now);
        }
        let (resource, amount) = (self.resource(), self.amount.cents());
        let mut next = match self.complete(report, now) {
            Step::Next(next) if !next.writes.is_empty() && !total_returned.is_zero() => next,
            other => return other,
        };
        if total_returned > amount {
            let detail = "the provider says that more came back than was sent".to_owned();
            return Step::Next(next.find(resource, "returned_more_than_sent", detail));
        }
        for write in &mut next.writes {
            if let Record::Withdrawal(withdrawal) = &mut write.record {
                withdrawal.returned = total_returned;
                if total_returned == amount {
                    withdrawal.state = OutgoingState::Returned;
                }
                write.event = EventKind::WithdrawalReturned;
            }
        }
        Step::Next(next.post(Posting::of(Reason::WithdrawalReturn, total_returned, resource)))
    }

    /// As `come_back`, when its hold had been released.
    fn come_back_late(self, report: OutgoingReport, total_returned: Cents, now: Timestamp) -> Step {
        let (resource, amount) = (self.resource(), self.amount.cents());
        if total_returned > amount {
            return self.contradiction("returned_more_than_sent", now);
        }
        if !self.settled_late && total_returned == amount {
            // All of it is back, which is what a release says too.
            return Step::Already;
        }
        let Some(more) = total_returned.checked_sub(self.returned).filter(|more| !more.is_zero()) else {
            return self.complete(report, now);
        };
        let mut next = if self.settled_late {
            let state = self.state.clone();
            self.changed(now, state, EventKind::WithdrawalReturned, |_| ())
        } else {
            self.settle_late(report, now)
        };
        for write in &mut next.writes {
            if let Record::Withdrawal(withdrawal) = &mut write.record {
                withdrawal.returned = total_returned;
            }
        }
        Step::Next(next.post(Posting::of(Reason::WithdrawalReturn, more, resource)))
    }

    /// It did not and will not happen: the provider said so, or it was never sent.
    pub fn fail(self, failure: Failure, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Queued
            | OutgoingState::Submitting
            | OutgoingState::Accepted
            | OutgoingState::Uncertain
            | OutgoingState::NeedsReview => {
                Step::Next(self.released(OutgoingState::Failed(failure), EventKind::WithdrawalFailed, now))
            }
            OutgoingState::Failed(_) | OutgoingState::Canceled if !self.settled_late => Step::Already,
            // It left, as the provider said; now it says that it did not.
            OutgoingState::Failed(_)
            | OutgoingState::Canceled
            | OutgoingState::Completed
            | OutgoingState::Returned => self.contradiction("failed_though_completed", now),
        }
    }

    /// The integrator takes it back before it was sent.
    pub fn cancel(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Queued => {
                Step::Next(self.released(OutgoingState::Canceled, EventKind::WithdrawalCanceled, now))
            }
            OutgoingState::Canceled => Step::Already,
            _ => Step::Refused("only a withdrawal that was not sent can be canceled"),
        }
    }

    fn released(self, state: OutgoingState, event: EventKind, now: Timestamp) -> Transition {
        let (resource, total) = (self.resource(), self.total());
        self.changed(now, state, event, |_| ()).post(Posting::of(Reason::WithdrawalRelease, total, resource))
    }

    /// After it had arrived, `total_returned` in all has come back.
    pub fn give_back(self, total_returned: Cents, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Completed => {
                if total_returned > self.amount.cents() {
                    return self.contradiction("returned_more_than_sent", now);
                }
                let Some(more) = total_returned.checked_sub(self.returned).filter(|more| !more.is_zero())
                else {
                    return Step::Already;
                };
                let (resource, whole) = (self.resource(), total_returned == self.amount.cents());
                let state = if whole { OutgoingState::Returned } else { OutgoingState::Completed };
                let next = self.changed(now, state, EventKind::WithdrawalReturned, |withdrawal| {
                    withdrawal.returned = total_returned;
                });
                Step::Next(next.post(Posting::of(Reason::WithdrawalReturn, more, resource)))
            }
            OutgoingState::Returned => Step::Already,
            _ => Step::Refused("only a completed withdrawal can come back"),
        }
    }
}
