//! What can happen to a refund, to the charge it is of, and where its money is.
//!
//! | Verb | queued | submitting | accepted | uncertain | needs review | completed | failed |
//! |---|---|---|---|---|---|---|---|
//! | submit | submitting | refused | refused | refused | refused | refused | refused |
//! | queue | already | queued | refused | queued (2) | queued (2) | refused | refused |
//! | accept | accepted, finding | accepted | already | accepted | accepted (1) | already | finding |
//! | lose sight | refused | uncertain | already | already | already | already | already |
//! | doubt | uncertain | uncertain | already | uncertain | uncertain | already | already |
//! | ask for review | refused | needs review | needs review | needs review | already | already | already |
//! | complete | completed, finding | completed | completed | completed | completed | already | finding |
//! | fail | failed | failed | failed | failed | failed | finding | already |
//! | decide completed | refused | completed | completed | completed | completed | already | refused |
//!
//! *Finding*, (1) and (2) as for a [withdrawal](crate::withdrawals::state). Money:
//!
//! | Reaching | Postings | The charge |
//! |---|---|---|
//! | submitting, from nothing | amount + fee: available → held | `refund_reserved` up |
//! | completed | amount: held → clearing; fee: held → fees; of its charge: [splits](crate::splits) given back | `refund_reserved` down, `refunded` up |
//! | failed | amount + fee: held → available | `refund_reserved` down |
//!
//! The charge is written in the same transition under its own version, so that refunds not failed never sum above what
//! was paid, under any concurrency.

use std::time::Duration;

use super::{NewRefund, REFUND_WINDOW, Refund};
use crate::charges::{Charge, Failure};
use crate::error::ServiceError;
use crate::ids::{ResourceRef, Version};
use crate::provider::OutgoingReport;
use crate::schedule;
use crate::time::Timestamp;
use crate::transition::{EventKind, Guard, Record, Step, Transition};
use crate::wallet::{Posting, Reason};
use crate::withdrawals::OutgoingState;

/// A refund that is about to be sent: absent → submitting; its amount taken from what is left of the charge's payment,
/// amount and fee held. `grace` is how long sending may take.
pub fn accept(
    new: NewRefund,
    charge: Charge,
    now: Timestamp,
    grace: Duration,
) -> Result<Transition, ServiceError> {
    let (Some(credited), Some(ticket)) = (&charge.credited, &charge.ticket) else {
        return Err(ServiceError::InvalidState("only a paid charge can be refunded"));
    };
    if now.since(credited.paid_at) > REFUND_WINDOW {
        return Err(ServiceError::RefundWindowClosed);
    }
    let total = new.amount.cents().checked_add(new.fee).ok_or(ServiceError::InsufficientBalance)?;
    let refund = Refund {
        id: new.id,
        integrator_id: charge.integrator_id,
        version: Version::FIRST,
        charge_id: charge.id,
        charge_provider_id: ticket.provider_id.clone(),
        external_id: new.external_id,
        external_id_given: new.external_id_given,
        amount: new.amount,
        amount_given: new.amount_given,
        fee: new.fee,
        fee_version: new.fee_version,
        description: new.description,
        state: OutgoingState::Submitting,
        provider_id: None,
        provider_body: None,
        return_id: None,
        submitted_at: now,
        completed_at: None,
        created_at: now,
        updated_at: now,
    };
    let Step::Next(of_charge) = charge.reserve_refund(refund.amount, now) else {
        return Err(ServiceError::RefundExceedsPaid);
    };
    let resource = refund.resource();
    let mut transition = Transition::new(refund.integrator_id, now)
        .write(
            Guard::Absent,
            Record::Refund(Box::new(refund)),
            EventKind::RefundCreated,
            Some(now.plus(grace)),
        )
        .post(Posting::of(Reason::RefundHold, total, resource));
    transition.writes.extend(of_charge.writes);
    Ok(transition)
}

impl Refund {
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
        let follow_up = (!self.state.is_final()).then(|| now.plus(schedule::outgoing(0)));
        Transition::new(self.integrator_id, now).write(
            guard,
            Record::Refund(Box::new(self)),
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
    pub fn submit(self, now: Timestamp, grace: Duration) -> Step {
        if self.state != OutgoingState::Queued {
            return Step::Refused("only what was definitely not sent may be sent");
        }
        let mut next = self.changed(now, OutgoingState::Submitting, EventKind::RefundSubmitting, |refund| {
            refund.submitted_at = now;
        });
        for write in &mut next.writes {
            write.follow_up = Some(now.plus(grace));
        }
        Step::Next(next)
    }

    /// It was definitely not sent.
    pub fn queue(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Submitting => {
                Step::Next(self.changed(now, OutgoingState::Queued, EventKind::RefundQueued, |_| ()))
            }
            OutgoingState::Uncertain | OutgoingState::NeedsReview if self.provider_id.is_none() => {
                Step::Next(self.changed(now, OutgoingState::Queued, EventKind::RefundQueued, |_| ()))
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
                let next = self.changed(now, OutgoingState::Accepted, EventKind::RefundAccepted, |refund| {
                    refund.learn(report);
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
        self.return_id = report.end_to_end_id.or(self.return_id.take());
    }

    /// Nobody knows whether it was sent. Never releases anything.
    pub fn lose_sight(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Submitting => {
                Step::Next(self.changed(now, OutgoingState::Uncertain, EventKind::RefundUncertain, |_| ()))
            }
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
                EventKind::RefundUncertain,
                |refund| {
                    refund.submitted_at = now;
                },
            )),
            _ => Step::Already,
        }
    }

    /// It has been unknown or unsettled for too long.
    pub fn ask_for_review(self, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Submitting | OutgoingState::Accepted | OutgoingState::Uncertain => Step::Next(
                self.changed(now, OutgoingState::NeedsReview, EventKind::RefundNeedsReview, |_| ()),
            ),
            OutgoingState::Queued => Step::Refused("it was definitely not sent"),
            _ => Step::Already,
        }
    }

    /// The money went back. `charge` is the refund's charge as it is now.
    pub fn complete(self, charge: Charge, report: OutgoingReport, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Queued
            | OutgoingState::Submitting
            | OutgoingState::Accepted
            | OutgoingState::Uncertain
            | OutgoingState::NeedsReview => {
                let contradicted = self.contradicted_by_having_it();
                match (self.settled(charge, now, |refund| refund.learn(report)), contradicted) {
                    (Step::Next(next), Some((resource, detail))) => {
                        Step::Next(next.find(resource, "completed_though_not_sent", detail))
                    }
                    (settled, _) => settled,
                }
            }
            OutgoingState::Completed | OutgoingState::Returned => Step::Already,
            OutgoingState::Failed(_) | OutgoingState::Canceled => {
                self.contradiction("completed_though_not_sent", now)
            }
        }
    }

    /// Those who may decide have decided that the money went back. `charge` is the refund's charge as it is now.
    pub fn decide_completed(self, charge: Charge, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Submitting
            | OutgoingState::Accepted
            | OutgoingState::Uncertain
            | OutgoingState::NeedsReview => self.settled(charge, now, |_| ()),
            OutgoingState::Completed | OutgoingState::Returned => Step::Already,
            OutgoingState::Queued => Step::Refused("it was definitely not sent"),
            OutgoingState::Failed(_) | OutgoingState::Canceled => Step::Refused("it is final"),
        }
    }

    fn settled(self, charge: Charge, now: Timestamp, learn: impl FnOnce(&mut Self)) -> Step {
        let of_charge = match charge.settle_refund(self.amount, now) {
            Step::Next(transition) => transition,
            other => return other,
        };
        let (resource, amount, fee) = (self.resource(), self.amount.cents(), self.fee);
        let mut next = self
            .changed(now, OutgoingState::Completed, EventKind::RefundCompleted, learn)
            .post(Posting::of(Reason::RefundSettle, amount, resource))
            .post(Posting::of(Reason::RefundFee, fee, resource));
        next.postings.extend(of_charge.postings);
        next.writes.extend(of_charge.writes);
        Step::Next(next)
    }

    /// It did not and will not happen. `charge` is the refund's charge as it is now.
    pub fn fail(self, charge: Charge, failure: Failure, now: Timestamp) -> Step {
        match self.state {
            OutgoingState::Queued
            | OutgoingState::Submitting
            | OutgoingState::Accepted
            | OutgoingState::Uncertain
            | OutgoingState::NeedsReview => {
                let of_charge = match charge.release_refund(self.amount, now) {
                    Step::Next(transition) => transition,
                    other => return other,
                };
                let (resource, total) = (self.resource(), self.total());
                let mut next = self
                    .changed(now, OutgoingState::Failed(failure), EventKind::RefundFailed, |_| ())
                    .post(Posting::of(Reason::RefundRelease, total, resource));
                next.writes.extend(of_charge.writes);
                Step::Next(next)
            }
            OutgoingState::Failed(_) | OutgoingState::Canceled => Step::Already,
            OutgoingState::Completed | OutgoingState::Returned => {
                self.contradiction("failed_though_completed", now)
            }
        }
    }
}
