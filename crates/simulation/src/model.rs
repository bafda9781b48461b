//! What the store must hold: every commit replayed in a model of a few maps, and judged when it is made.
//!
//! Judged at the commit is what must be true at that very instant, whatever happens later: nothing is released that may
//! have left, nothing credited that did not come in, nothing final changes. What can only be said at the end is in
//! [`checker`](crate::checker).

use std::collections::BTreeMap;
use std::time::Duration;

use pix_domain::charges::{Charge, ChargeState};
use pix_domain::evidence::EvidenceKind;
use pix_domain::follow_up::FollowUp;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::money::{Amount, Cents};
use pix_domain::refunds::Refund;
use pix_domain::text::IdempotencyKey;
use pix_domain::time::Timestamp;
use pix_domain::transition::{Finding, Guard, Record, Transition, Write};
use pix_domain::wallet::{Account, Posting, Reason, Wallet};

use pix_domain::withdrawals::{OutgoingState, RESOLVED_FAILED, Withdrawal};
use uuid::Uuid;

use crate::desk::{Fate, Operation};
use crate::faults::Fault;
use crate::sim::{State, sent_as, short};

/// How far two nodes' clocks are apart at the most.
pub const CLOCK_SKEW: Duration = Duration::from_secs(1);

/// The wallet of the model, in centavos.
#[derive(Debug, Clone, Copy, Default)]
pub struct Balance {
    available: i64,
    held: i64,
    owed: i64,
    entries: u64,
}

/// What the store must hold.
#[derive(Debug, Default)]
pub struct Model {
    /// Every record as it was last written.
    pub records: BTreeMap<ResourceRef, Record>,
    /// Every movement, in order.
    pub postings: BTreeMap<IntegratorId, Vec<Posting>>,
    /// What is due when.
    pub due: BTreeMap<ResourceRef, Timestamp>,
    /// The last claim of each record that was not written since.
    pub claimed: BTreeMap<ResourceRef, FollowUp>,
    /// Kept callbacks that wait, and until when.
    pub callbacks: BTreeMap<Uuid, Timestamp>,
    /// When a record became final.
    pub final_at: BTreeMap<ResourceRef, Timestamp>,
    /// What each key stands for.
    pub handles: BTreeMap<(IntegratorId, ResourceKind, IdempotencyKey), Uuid>,
    /// Which PIX was credited to which charge.
    pub receipts: BTreeMap<(IntegratorId, String), ResourceRef>,
    /// How long something just done stands in the way of another one like it.
    pub duplicate_window: Duration,
    balances: BTreeMap<IntegratorId, Balance>,
}

/// A payment or refund, whichever it is.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Where it stands.
    pub state: &'a OutgoingState,
    /// How much.
    pub amount: Amount,
    /// What came back.
    pub returned: Cents,
    /// What it costs.
    pub fee: Cents,
    /// Of which schedule.
    pub fee_version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// What the client wrote on it.
    pub tag: &'a str,
}

/// The outgoing movement in a record, when it is one.
pub fn outgoing(record: &Record) -> Option<Outgoing<'_>> {
    match record {
        Record::Charge(_) | Record::Split(_) => None,
        Record::Withdrawal(record) => Some(Outgoing {
            state: &record.state,
            amount: record.amount,
            returned: record.returned,
            fee: record.fee,
            fee_version: record.fee_version,
            created_at: record.created_at,
            tag: record.description.as_ref().map_or("", |text| text.as_str()),
        }),
        Record::Refund(record) => Some(Outgoing {
            state: &record.state,
            amount: record.amount,
            returned: Cents::ZERO,
            fee: record.fee,
            fee_version: record.fee_version,
            created_at: record.created_at,
            tag: record.description.as_ref().map_or("", |text| text.as_str()),
        }),
    }
}

/// What the client wrote on it.
pub fn tag(record: &Record) -> &str {
    match record {
        Record::Charge(charge) => charge.payer_question.as_ref().map_or("", |text| text.as_str()),
        other => outgoing(other).map_or("", |outgoing| outgoing.tag),
    }
}

/// The name of a record's state.
pub fn state_name(record: &Record) -> &'static str {
    match record {
        Record::Charge(charge) => charge.state.name(),
        Record::Withdrawal(withdrawal) => withdrawal.state.name(),
        Record::Refund(refund) => refund.state.name(),
        Record::Split(_) => "given",
    }
}

/// Whether nothing more is expected to happen to it by itself.
pub fn is_final(record: &Record) -> bool {
    match record {
        Record::Charge(charge) => !matches!(charge.state, ChargeState::Creating | ChargeState::Pending),
        other => outgoing(other).is_some_and(|outgoing| outgoing.state.is_final()),
    }
}

/// Judging a commit.
impl State {
    /// Takes over a commit and judges it.
    pub fn committed(&mut self, transition: &Transition) {
        if let Some(what) = self.broken_by(transition) {
            self.violate(what);
        }
        for one in transition.whole() {
            self.take_over(one);
        }
        if let Some(what) = transition.charge().and_then(|charge| self.torn_share(charge)) {
            self.violate(what);
        }
        if transition.evidence.iter().any(|evidence| evidence.detail.starts_with("held up")) {
            self.count(Fault::HeldUp);
        }
        if transition.evidence.iter().any(|evidence| evidence.kind == EvidenceKind::Decision) {
            let new = transition.writes.iter().any(|write| write.guard == Guard::Absent);
            self.count(if new { Fault::TwinAllowed } else { Fault::Decided });
        }
    }

    /// Takes over what a commit, or a part of it, did to one integrator.
    fn take_over(&mut self, transition: &Transition) {
        let owner = transition.integrator_id;
        for posting in &transition.postings {
            self.model.postings.entry(owner).or_default().push(*posting);
            let balance = self.model.balances.entry(owner).or_default();
            balance.available += posting.effect_cents(Account::Available);
            balance.held += posting.effect_cents(Account::Held);
            balance.owed -= posting.effect_cents(Account::Owed);
            balance.entries += 1;
            if balance.available < 0 || balance.held < 0 || balance.owed < 0 {
                let found = *balance;
                self.violate(format!("the wallet went below zero: {found:?}"));
            }
        }
        for write in &transition.writes {
            let resource = write.record.resource();
            self.model.claimed.remove(&resource);
            match write.follow_up {
                Some(at) => self.model.due.insert(resource, at),
                None => self.model.due.remove(&resource),
            };
            if is_final(&write.record) {
                self.model.final_at.entry(resource).or_insert(self.now);
            }
            self.model.records.insert(resource, write.record.clone());
        }
        if let Some(handle) = &transition.handle {
            self.model.handles.insert((owner, handle.kind, handle.key.clone()), handle.id);
        }
        if let (Some(receipt), Some(write)) = (&transition.receipt, transition.writes.first()) {
            self.model.receipts.insert((owner, receipt.payment.key.to_text()), write.record.resource());
        }
        for posting in &transition.postings {
            match posting.reason {
                Reason::ForcedDebitOwed => self.count(Fault::Owed),
                Reason::OwedRepaid => self.count(Fault::OwedRepaid),
                Reason::SplitGivenBack => self.count(Fault::SplitTakenBack),
                _ => {}
            }
        }
    }

    /// What a charge gives is what its recipients have of it, at every moment.
    fn torn_share(&self, charge: &Charge) -> Option<String> {
        charge.split.iter().find_map(|share| {
            let id = share.split_id.0;
            let resource = ResourceRef { integrator_id: share.recipient, kind: ResourceKind::Split, id };
            let has = match self.model.records.get(&resource) {
                Some(Record::Split(split)) => split.kept(),
                _ => Cents::ZERO,
            };
            let given = share.kept();
            let charge = short(charge.resource());
            (has != given).then(|| format!("the {charge} gave {given}, and its recipient has {has} of it"))
        })
    }

    /// Compares a wallet's row with the postings so far.
    pub fn compare_wallet(&mut self, owner: IntegratorId, wallet: Wallet) {
        let expected = self.model.balances.get(&owner).copied().unwrap_or_default();
        let same = wallet.available.get() == expected.available
            && wallet.held.get() == expected.held
            && wallet.owed.get() == expected.owed
            && wallet.entries == expected.entries;
        if !same {
            self.violate(format!("the wallet {wallet:?} is not the sum of its postings {expected:?}"));
        }
        if wallet.settled().is_err() {
            self.violate(format!("the wallet has money beside a debt: {wallet:?}"));
        }
    }

    /// Money may only be sent for what is stored: the intent comes first.
    pub fn must_be_stored(&mut self, resource: ResourceRef, amount: Amount) {
        let stored = self.model.records.get(&resource).and_then(outgoing);
        if stored.is_none_or(|stored| stored.amount != amount) {
            self.violate(format!("{} is sent before it is stored", short(resource)));
        }
    }

    fn broken_by(&self, transition: &Transition) -> Option<String> {
        let surprise = transition.findings.iter().find(|finding| !self.is_expected(finding));
        if let Some(finding) = surprise {
            let resource = short(finding.resource);
            return Some(format!("{resource}: a finding that nothing calls for: {}", finding.code));
        }
        if let Some(receipt) = &transition.receipt {
            let key = (transition.integrator_id, receipt.payment.key.to_text());
            if let Some(other) = self.model.receipts.get(&key) {
                return Some(format!("a PIX is credited twice, first to the {}", short(*other)));
            }
        }
        for write in &transition.writes {
            let resource = write.record.resource();
            let before = self.model.records.get(&resource);
            let broken = before.and_then(|before| changed_though_final(before, &write.record)).or_else(
                || match &write.record {
                    Record::Charge(charge) => self.broken_charge(charge, transition),
                    Record::Withdrawal(withdrawal) => {
                        self.broken_outgoing(before, write).or_else(|| self.twin_of(withdrawal, transition))
                    }
                    Record::Refund(refund) => {
                        self.broken_outgoing(before, write).or_else(|| self.twin_refund(refund, transition))
                    }
                    Record::Split(_) => Some("it changes without its charge".into()),
                },
            );
            if let Some(broken) = broken {
                return Some(format!("{}: {broken}", short(resource)));
            }
        }
        None
    }

    /// Findings that payers give reason for; "taken", asked for within a second of hearing "failed": by clocks that are a
    /// second apart, nobody can tell which was first; and "taken" where operators, not the provider, decided "failed": they
    /// are told that they may have been wrong, whenever it was asked for.
    fn is_expected(&self, finding: &Finding) -> bool {
        let taken_though_ended = || {
            let operation = self.desk.outgoing.get(&sent_as(&finding.resource))?;
            let asked_at = operation.taken_asked_at.filter(|_| operation.fate == Fate::Fail)?;
            let ended_at = self.model.final_at.get(&finding.resource)?;
            let ended = self.model.records.get(&finding.resource).and_then(outgoing)?.state;
            let decided = matches!(ended, OutgoingState::Failed(failure) if failure.code == RESOLVED_FAILED);
            Some(decided || asked_at.plus(CLOCK_SKEW) >= *ended_at)
        };
        match finding.code {
            // How much was taken back is judged with the charge.
            "paid_again" | "amount_differs" | "taken_back" => true,
            "accepted_though_not_sent" => taken_though_ended() == Some(true),
            _ => false,
        }
    }

    fn broken_charge(&self, charge: &Charge, transition: &Transition) -> Option<String> {
        let made = self.desk.charges.get(&charge.id.0);
        if charge.ticket.is_some() && made.is_none_or(|made| made.refused) {
            return Some("it has a QR code that the provider never made".into());
        }
        if let Some(receipt) = &transition.receipt {
            let payments = made.into_iter().flat_map(|made| &made.payments);
            if !payments.map(|paid| &paid.payment).any(|payment| *payment == receipt.payment) {
                return Some("a PIX is credited that the provider did not receive on it".into());
            }
        }
        let (reserved, refunded) = (charge.refund_reserved.get(), charge.refunded.get());
        let taken_back = charge.taken_back.get();
        if reserved + refunded + taken_back > charge.amount_paid().get() {
            return Some("refunds sum above what was paid".into());
        }
        if taken_back > self.desk.forced_cents(charge.id.0) {
            return Some("more is taken back than the provider sent back by itself".into());
        }
        match charge.state {
            ChargeState::Expired => {
                // The answer that ended it was given after its end, and told of whatever could be seen by then.
                let seen = |visible_at: Timestamp| visible_at.plus(CLOCK_SKEW) <= charge.expires_at;
                let missed = made.into_iter().flat_map(|made| &made.payments).any(|paid| {
                    let key = (charge.integrator_id, paid.payment.key.to_text());
                    seen(paid.visible_at) && !self.model.receipts.contains_key(&key)
                });
                if missed {
                    return Some("it expires, and was paid before".into());
                }
                let removed = made.and_then(|made| made.removed_at).is_some_and(seen);
                removed.then(|| "it expires, and was removed before".into())
            }
            ChargeState::Canceled if made.is_none_or(|made| made.removed_at.is_none()) => {
                Some("it is canceled, and nobody removed it".into())
            }
            ChargeState::Failed(_) if charge.credited.is_some() => Some("it failed though paid".into()),
            ChargeState::Failed(ref failure) => {
                let too_late = |made_at: Timestamp| made_at.plus(CLOCK_SKEW) >= charge.expires_at;
                let right = match failure.code.as_str() {
                    "not_created" => made.is_none_or(|made| made.refused || too_late(made.made_at)),
                    _ => made.is_some_and(|made| made.refused),
                };
                (!right).then(|| "it failed, and the provider has made it".into())
            }
            _ => None,
        }
    }

    fn broken_outgoing(&self, before: Option<&Record>, write: &Write) -> Option<String> {
        let resource = write.record.resource();
        let after = outgoing(&write.record)?;
        let operation = self.desk.outgoing.get(&sent_as(&resource));
        let on_its_way = self.desk.expects(sent_as(&resource));
        let was = before.and_then(outgoing).map(|before| before.state);
        let settled = operation
            .filter(|operation| operation.fate == Fate::Complete && self.now >= operation.settles_at);
        match after.state {
            OutgoingState::Queued if operation.is_some() || on_its_way => {
                Some("it counts as not sent, and was sent".into())
            }
            OutgoingState::Accepted if operation.is_none() => {
                Some("it counts as accepted, and the provider never had it".into())
            }
            OutgoingState::Completed | OutgoingState::Returned => match settled {
                None => Some("it counts as completed, and the provider did not do it".into()),
                Some(settled) if after.returned > settled.returned => {
                    Some("more came back than came back".into())
                }
                Some(_) => None,
            },
            OutgoingState::Failed(_) | OutgoingState::Canceled
                if on_its_way || operation.is_some_and(Operation::may_move_money) =>
            {
                Some("its money is released, and it was or will be executed".into())
            }
            OutgoingState::Failed(failure) if operation.is_none() => {
                let never_sent = was == Some(&OutgoingState::Queued);
                let proven = failure.code == "not_executed" && self.desk.style.proof_after.is_some();
                let decided = failure.code == RESOLVED_FAILED;
                (!never_sent && !proven && !decided).then(|| "its money is released without any proof".into())
            }
            _ => None,
        }
    }

    /// Without a handle, nothing tells a repeated request from a second withdrawal just like it.
    fn twin_of(&self, new: &Withdrawal, transition: &Transition) -> Option<String> {
        if new.version.0 != 1
            || new.external_id_given
            || !guards_twins(transition, self.model.duplicate_window)
        {
            return None;
        }
        let owned = self.model.records.values().filter_map(|record| match record {
            Record::Withdrawal(other) if other.integrator_id == new.integrator_id => Some(other.as_ref()),
            _ => None,
        });
        let alike = |other: &&Withdrawal| {
            let document = new.payee.party.document.as_ref();
            let same_person = document.is_some() && other.payee.party.document.as_ref() == document;
            other.amount == new.amount && (other.payee.key == new.payee.key || same_person)
        };
        let twin = owned
            .filter(alike)
            .find(|other| self.stands_in_the_way(&other.state, other.completed_at, new.created_at));
        twin.map(|twin| format!("it is a twin of the {}", short(twin.resource())))
    }

    fn twin_refund(&self, new: &Refund, transition: &Transition) -> Option<String> {
        if new.version.0 != 1 || new.external_id_given || !guards_twins(transition, Duration::MAX) {
            return None;
        }
        let of_charge = self.model.records.values().filter_map(|record| match record {
            Record::Refund(other) if other.charge_id == new.charge_id => Some(other.as_ref()),
            _ => None,
        });
        let may_be_all = |other: &Refund| !other.state.is_final() || !other.amount_given;
        let alike = |other: &&Refund| other.amount == new.amount || !new.amount_given && may_be_all(other);
        let twin = of_charge
            .filter(alike)
            .find(|other| self.stands_in_the_way(&other.state, other.completed_at, new.created_at));
        twin.map(|twin| format!("it is a twin of the {}", short(twin.resource())))
    }

    fn stands_in_the_way(&self, state: &OutgoingState, done: Option<Timestamp>, now: Timestamp) -> bool {
        match state {
            OutgoingState::Failed(_) | OutgoingState::Canceled => false,
            OutgoingState::Completed | OutgoingState::Returned => {
                done.is_some_and(|done| now.since(done) < self.model.duplicate_window)
            }
            _ => true,
        }
    }
}

/// Whether the request had nothing to tell it from another one, and nobody allowed it.
fn guards_twins(transition: &Transition, window: Duration) -> bool {
    let allowed = transition.evidence.iter().any(|evidence| evidence.kind == EvidenceKind::Decision);
    transition.handle.is_none() && !allowed && !window.is_zero()
}

/// What is final stays: but a late payment is credited, and what was completed may come back.
pub fn changed_though_final(before: &Record, after: &Record) -> Option<String> {
    if !is_final(before) {
        return None;
    }
    let kept = match (before, after) {
        (Record::Charge(_), Record::Charge(charge)) => charge.state == ChargeState::Paid,
        (Record::Withdrawal(was), Record::Withdrawal(is)) => {
            was.state == OutgoingState::Completed
                && matches!(is.state, OutgoingState::Completed | OutgoingState::Returned)
                && is.returned > was.returned
        }
        _ => false,
    };
    (!kept).then(|| format!("it was final as {}, and is now {}", state_name(before), state_name(after)))
}
