//! What can happen to a charge.
//!
//! | Verb | creating | pending | paid | expired | canceled | failed | Money |
//! |---|---|---|---|---|---|---|---|
//! | confirm | pending | already | already | already | already | refused | |
//! | refuse | failed | refused | refused | refused | refused | already | |
//! | pay | paid | paid | paid (a further PIX) | paid (late) | paid (late) | paid (late) | gross in, fee out, [splits] given |
//! | expire | refused | expired | already | already | already | already | |
//! | cancel | refused | canceled | refused | already | already | already | |
//! | reserve refund, settle, release | refused | refused | paid | refused | refused | refused | the refund's own |
//! | take back | finding | finding | paid | finding | finding | finding | splits given back; the part that went back: forced out |
//!
//! A payment is money, whatever we thought of the charge: it is always credited, once each by its identity, with the
//! fee rule that held when the charge was made.

use super::{Charge, ChargeState, Credited, Failure, NewCharge, Receipt};
use crate::fees::FeeRule;
use crate::money::{Amount, Cents};
use crate::provider::{Payment, ReceiptKey, Ticket};
use crate::schedule;
use crate::splits::{self, Share};
use crate::time::Timestamp;
use crate::transition::{EventKind, Guard, Record, Step, Transition};
use crate::wallet::{Posting, Reason};

/// A charge that the provider has confirmed: absent → pending.
pub fn open(new: NewCharge, ticket: Ticket, now: Timestamp) -> Transition {
    let mut charge = born(new, ChargeState::Pending, now);
    charge.ticket = Some(ticket);
    create(charge, EventKind::ChargePending, now)
}

/// A charge of which nobody knows whether the provider made it: absent → creating.
pub fn begin(new: NewCharge, now: Timestamp) -> Transition {
    create(born(new, ChargeState::Creating, now), EventKind::ChargeCreating, now)
}

/// A charge that the provider refused to make: absent → failed.
pub fn refuse(new: NewCharge, failure: Failure, now: Timestamp) -> Transition {
    create(born(new, ChargeState::Failed(failure), now), EventKind::ChargeFailed, now)
}

fn born(new: NewCharge, state: ChargeState, now: Timestamp) -> Charge {
    Charge {
        id: new.id,
        integrator_id: new.integrator_id,
        version: crate::ids::Version::FIRST,
        external_id: new.external_id,
        external_id_given: new.external_id_given,
        amount: new.amount,
        payer: new.payer,
        payer_email: new.payer_email,
        payer_question: new.payer_question,
        payer_erased: false,
        metadata: new.metadata,
        postback_url: new.postback_url,
        postback_scope: new.postback_scope,
        fee_version: new.fee_version,
        state,
        ticket: None,
        credited: None,
        refund_reserved: Cents::ZERO,
        refunded: Cents::ZERO,
        taken_back: Cents::ZERO,
        split: new.split,
        expires_at: now.plus(new.expires_in),
        created_at: now,
        updated_at: now,
    }
}

fn create(charge: Charge, event: EventKind, now: Timestamp) -> Transition {
    let follow_up = follow_up(&charge, now);
    Transition::new(charge.integrator_id, now).write(
        Guard::Absent,
        Record::Charge(Box::new(charge)),
        event,
        follow_up,
    )
}

/// When the provider is asked next: soon while it has not confirmed, seldom while the code is live (the callback is
/// quicker) and for some days after its end (a late payment is money), never once it is paid, but for what `asked_about_soon` and the prover do. A canceled charge may have a
/// live code: a provider need not remove it.
fn follow_up(charge: &Charge, now: Timestamp) -> Option<Timestamp> {
    match charge.state {
        ChargeState::Creating => Some(now.plus(schedule::outgoing(0))),
        ChargeState::Pending => Some(schedule::pending_charge(charge, 0, now)),
        ChargeState::Expired => schedule::ended_charge(0, now),
        ChargeState::Canceled => schedule::canceled_charge(charge, 0, now),
        ChargeState::Paid | ChargeState::Failed(_) => None,
    }
}

/// The same change of a paid charge, which is asked about once more. While a refund was in progress, it may have hidden
/// that the provider sent money back by itself; and an answer from before a refund says less than has gone back since.
/// A change that follows keeps the charge due, since it can't know why the charge was.
fn asked_about_soon(mut next: Transition, now: Timestamp) -> Transition {
    for write in &mut next.writes {
        write.follow_up = Some(now.plus(schedule::outgoing(0)));
    }
    next
}

/// `next`, a change of money of a charge that had the shares `before`, with what it gives to recipients and what comes back
/// from them.
fn shared(mut next: Transition, before: &[Share]) -> Transition {
    let moved = next.charge().map(|charge| splits::postings(before, &charge.split, charge.resource()));
    next.postings.extend(moved.unwrap_or_default());
    next
}

impl Charge {
    /// This charge after a change, with the version it was read at as the guard.
    pub(crate) fn changed(
        mut self,
        now: Timestamp,
        event: EventKind,
        change: impl FnOnce(&mut Self),
    ) -> Transition {
        let guard = Guard::At(self.version);
        self.version = self.version.next();
        self.updated_at = now;
        change(&mut self);
        if self.payer_erased {
            // What the provider says now would name the payer again.
            self.erase_payer();
        }
        let follow_up = follow_up(&self, now);
        Transition::new(self.integrator_id, now).write(
            guard,
            Record::Charge(Box::new(self)),
            event,
            follow_up,
        )
    }

    /// The provider has made it.
    pub fn confirm(self, ticket: Ticket, now: Timestamp) -> Step {
        match self.state {
            ChargeState::Creating => Step::Next(self.changed(now, EventKind::ChargePending, |charge| {
                charge.ticket = Some(ticket);
                charge.state = ChargeState::Pending;
            })),
            ChargeState::Failed(_) => Step::Refused("a failed charge can't become live"),
            _ => Step::Already,
        }
    }

    /// The provider won't make it.
    pub fn refuse(self, failure: Failure, now: Timestamp) -> Step {
        match self.state {
            ChargeState::Creating => Step::Next(self.changed(now, EventKind::ChargeFailed, |charge| {
                charge.state = ChargeState::Failed(failure);
            })),
            ChargeState::Failed(_) => Step::Already,
            _ => Step::Refused("the provider has made this charge"),
        }
    }

    /// A PIX was received on it. `rule` is the fee rule of the charge's own `fee_version`.
    ///
    /// Whether this very PIX was credited before is the store's to say: its receipt is unique.
    pub fn pay(self, payment: Payment, rule: &FeeRule, now: Timestamp) -> Step {
        // A provider that names no identity of a payment has one payment a charge, known by the charge's own id there. A
        // credited charge takes a second credit only when both payments are identified by their end-to-end ids: else
        // one PIX whose name changed its form would be credited twice.
        let of_charge = self.ticket.as_ref().map(|ticket| &ticket.provider_id);
        if let Some(first) = self.credited.as_ref().map(|credited| &credited.first) {
            match (first, &payment.key) {
                (first, key) if first == key => return Step::Already,
                (_, ReceiptKey::Transaction(id)) if of_charge == Some(id) => return Step::Already,
                (ReceiptKey::EndToEnd(_), ReceiptKey::EndToEnd(_)) => {}
                _ => {
                    let detail = "a payment under a name of another form than the credited one; look whether it is another";
                    let found = Transition::new(self.integrator_id, now);
                    return Step::Next(found.find(self.resource(), "unidentified_payment", detail.into()));
                }
            }
        }
        let fee = rule.fee_within(payment.amount);
        let late = !matches!(self.state, ChargeState::Creating | ChargeState::Pending | ChargeState::Paid);
        let (resource, asked) = (self.resource(), self.amount);
        let (Some(amount_paid), Some(fees)) = (
            self.amount_paid().checked_add(payment.amount.cents()),
            self.credited.as_ref().map_or(Cents::ZERO, |credited| credited.fee).checked_add(fee),
        ) else {
            return Step::Refused("the sum of the payments does not fit");
        };
        let further = self.credited.is_some();
        let event = if further { EventKind::ChargePaidAgain } else { EventKind::ChargePaid };
        let charge_id = self.id;
        let before = self.split.clone();
        let mut transition = self.changed(now, event, |charge| {
            splits::pay(&mut charge.split, payment.amount.cents().checked_sub(fee).unwrap_or(Cents::ZERO));
            charge.state = ChargeState::Paid;
            charge.credited = Some(match charge.credited.take() {
                Some(before) => {
                    Credited { amount_paid, fee: fees, payments: before.payments.saturating_add(1), ..before }
                }
                None => Credited {
                    amount_paid,
                    fee: fees,
                    first: payment.key.clone(),
                    paid_by: payment.payer.clone(),
                    paid_at: payment.paid_at,
                    late,
                    payments: 1,
                },
            });
        });
        transition = transition.post(
            [(Reason::ChargePaid, payment.amount.cents()), (Reason::ChargeFee, fee)]
                .into_iter()
                .filter_map(|(reason, cents)| Posting::of(reason, cents, resource)),
        );
        transition = shared(transition, &before);
        if further {
            transition = asked_about_soon(transition, now).find(
                resource,
                "paid_again",
                "a further PIX was received on a paid charge".into(),
            );
        } else if payment.amount != asked {
            let detail = format!("asked for {asked}, received {}", payment.amount);
            transition = transition.find(resource, "amount_differs", detail);
        }
        let integrator_id = transition.integrator_id;
        transition.receipt = Some(Receipt { integrator_id, charge_id, payment });
        Step::Next(transition)
    }

    /// The provider says that `refunded` of its payments went back in all. What is more than our refunds and what was
    /// taken back before is forced out of the wallet, since the cash is gone: a return by MED (BCB), or one that somebody
    /// made at the provider. Refunds in progress count as ours.
    pub fn take_back(self, refunded: Cents, now: Timestamp) -> Step {
        let (known, paid, resource) =
            (self.gone().unwrap_or(self.amount_paid()), self.amount_paid(), self.resource());
        let impossible = (refunded > paid).then(|| {
            (
                "returned_more_than_paid",
                format!("the provider says that {refunded} went back, {paid} was credited"),
            )
        });
        let more = refunded.min(paid).checked_sub(known).filter(|more| !more.is_zero());
        let Some(more) = more else {
            return match impossible {
                Some((code, detail)) => {
                    Step::Next(Transition::new(self.integrator_id, now).find(resource, code, detail))
                }
                None => Step::Already,
            };
        };
        let Some(taken_back) = self.taken_back.checked_add(more) else {
            return Step::Refused("the sum of what was taken back does not fit");
        };
        let detail = format!("the provider sent back {more} of it, which no refund asked for");
        let before = self.split.clone();
        let next = self.changed(now, EventKind::ChargeTakenBack, |charge| {
            let so_far = std::mem::replace(&mut charge.taken_back, taken_back);
            let paid = charge.amount_paid();
            splits::force_back(&mut charge.split, paid, so_far, taken_back);
        });
        // What recipients give back is there before anything is forced out.
        let next = shared(asked_about_soon(next, now), &before);
        let next = next.post(Posting::of(Reason::ForcedDebit, more, resource));
        let next = next.find(resource, "taken_back", detail);
        Step::Next(match impossible {
            Some((code, detail)) => next.find(resource, code, detail),
            None => next,
        })
    }

    /// The provider tells of a PIX that is credited already, but not like this.
    pub fn receipt_differs(&self, code: &'static str, detail: &str, now: Timestamp) -> Transition {
        Transition::new(self.integrator_id, now).find(self.resource(), code, detail.to_owned())
    }

    /// Its time is over, and the provider, asked after that, knew of no payment.
    pub fn expire(self, now: Timestamp) -> Step {
        match self.state {
            ChargeState::Pending if now < self.expires_at => Step::Refused("its time is not over"),
            ChargeState::Pending => Step::Next(self.changed(now, EventKind::ChargeExpired, |charge| {
                charge.state = ChargeState::Expired;
            })),
            ChargeState::Creating => Step::Refused("the provider has not confirmed this charge"),
            _ => Step::Already,
        }
    }

    /// It was removed.
    pub fn cancel(self, now: Timestamp) -> Step {
        match self.state {
            ChargeState::Pending => Step::Next(self.changed(now, EventKind::ChargeCanceled, |charge| {
                charge.state = ChargeState::Canceled;
            })),
            ChargeState::Creating => Step::Refused("the provider has not confirmed this charge"),
            ChargeState::Paid => Step::Refused("a paid charge can't be canceled; refund it"),
            _ => Step::Already,
        }
    }

    /// A refund takes `amount` of what is left.
    pub fn reserve_refund(self, amount: Amount, now: Timestamp) -> Step {
        let reserved = self.refund_reserved.checked_add(amount.cents());
        match reserved {
            Some(reserved) if amount.cents() <= self.left_to_refund() => {
                let next = self.changed(now, EventKind::ChargeRefundReserved, |charge| {
                    charge.refund_reserved = reserved;
                });
                Step::Next(asked_about_soon(next, now))
            }
            _ => Step::Refused("more than what is left of the payment"),
        }
    }

    /// A refund that had reserved `amount` was done.
    pub fn settle_refund(self, amount: Amount, now: Timestamp) -> Step {
        let (reserved, refunded) =
            (self.refund_reserved.checked_sub(amount.cents()), self.refunded.checked_add(amount.cents()));
        match (reserved, refunded) {
            (Some(reserved), Some(refunded)) => {
                let before = self.split.clone();
                let next = self.changed(now, EventKind::ChargeRefunded, |charge| {
                    charge.refund_reserved = reserved;
                    charge.refunded = refunded;
                    let (paid, sent_back) = (charge.amount_paid(), charge.sent_back());
                    splits::take_back(&mut charge.split, paid, sent_back);
                });
                Step::Next(shared(asked_about_soon(next, now), &before))
            }
            _ => Step::Refused("that much was not reserved"),
        }
    }

    /// A refund that had reserved `amount` failed.
    pub fn release_refund(self, amount: Amount, now: Timestamp) -> Step {
        match self.refund_reserved.checked_sub(amount.cents()) {
            Some(reserved) => {
                let next = self.changed(now, EventKind::ChargeRefundReleased, |charge| {
                    charge.refund_reserved = reserved;
                });
                Step::Next(asked_about_soon(next, now))
            }
            None => Step::Refused("that much was not reserved"),
        }
    }
}
