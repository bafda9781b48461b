//! The provider's own log: what reached it, what it did, what came in. The truth that the checker compares with.

use std::collections::BTreeMap;
use std::time::Duration;

use pix_domain::ids::ResourceKind;
use pix_domain::money::{Amount, Cents};
use pix_domain::provider::{
    ChargeReport, OutgoingReport, Payment, Progress, ProviderBody, ProviderId, Ticket,
};
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::faults::Fault;
use crate::sim::{State, number};

/// The code of all failures and refusals.
pub const FAILURE_CODE: &str = "sim_refusal";

/// How this provider is.
#[derive(Debug, Clone)]
pub struct Style {
    /// Whether a second payment under one reference is answered with the first, instead of being made.
    pub dedupes: bool,
    /// After how long "not known" is proof.
    pub proof_after: Option<Duration>,
    /// Whether it tells end-to-end ids; else one payment a charge.
    pub names_payments: bool,
    /// Whether it knows what it refused, when asked.
    pub remembers_refusals: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { dedupes: true, proof_after: None, names_payments: true, remembers_refusals: true }
    }
}

/// How an operation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The money goes.
    Complete,
    /// Taken, and it won't happen.
    Fail,
    /// Not even taken.
    Refuse,
}

/// A payment or refund that reached the provider.
#[derive(Debug, Clone)]
pub struct Operation {
    /// What it is.
    pub kind: ResourceKind,
    /// How much.
    pub amount: Amount,
    /// What the client wrote on it.
    pub tag: String,
    /// For a refund, the charge.
    pub charge: Option<Uuid>,
    /// How many times it was sent.
    pub sends: u32,
    /// How many times it was carried out.
    pub executions: u32,
    /// How it ends.
    pub fate: Fate,
    /// When it was sent first.
    pub sent_at: Timestamp,
    /// When a question finds it.
    pub visible_at: Timestamp,
    /// When it ends.
    pub settles_at: Timestamp,
    /// How much came back.
    pub returned: Cents,
    /// How much of that a callback tells of.
    pub returned_told: Cents,
    /// Whether its refusal was heard by the one who sent it.
    pub refusal_heard: bool,
    /// When the last of those was asked or sent who were answered that it is taken.
    pub taken_asked_at: Option<Timestamp>,
}

impl Operation {
    /// How far it is.
    pub fn progress(&self, now: Timestamp) -> Progress {
        match self.fate {
            Fate::Refuse | Fate::Fail if now >= self.settles_at => {
                Progress::Failed { code: FAILURE_CODE.into(), message: "it will not happen".into() }
            }
            Fate::Complete if now >= self.settles_at && self.returned.is_zero() => Progress::Completed,
            Fate::Complete if now >= self.settles_at => Progress::Returned(self.returned),
            _ => Progress::Accepted,
        }
    }

    /// Whether its money is gone, or may go.
    pub fn may_move_money(&self) -> bool {
        self.fate == Fate::Complete
    }
}

/// A PIX that came in.
#[derive(Debug, Clone)]
pub struct Paid {
    /// It.
    pub payment: Payment,
    /// When a question finds it.
    pub visible_at: Timestamp,
    /// Whether a callback tells of it.
    pub told: bool,
}

/// A charge at the provider.
#[derive(Debug, Clone)]
pub struct MadeCharge {
    /// When it was asked for.
    pub made_at: Timestamp,
    /// It was refused.
    pub refused: bool,
    /// When it was removed.
    pub removed_at: Option<Timestamp>,
    /// What came in.
    pub payments: Vec<Paid>,
    /// How much of it the provider sent back by itself.
    pub forced: Cents,
    /// How much of that a callback tells of.
    pub forced_told: Cents,
}

/// A request on its way to the provider.
#[derive(Debug, Clone)]
pub struct Mail {
    /// When it arrives.
    pub arrives_at: Timestamp,
    /// When questions must find it at the latest, as the provider has promised.
    pub visible_by: Option<Timestamp>,
    /// Our name for it.
    pub reference: Uuid,
    /// What is asked for.
    pub letter: Letter,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub enum Letter {
    /// A QR code.
    Charge,
    /// Money out.
    Send {
        /// A withdrawal or a refund.
        kind: ResourceKind,
        /// How much.
        amount: Amount,
        /// What the client wrote on it.
        tag: String,
        /// For a refund, the charge.
        charge: Option<Uuid>,
    },
}

/// A callback to be made.
#[derive(Debug, Clone)]
pub struct Callback {
    /// About what.
    pub reference: Uuid,
    /// What it says: the same again only when it tells of the same.
    pub body: String,
    /// When next.
    pub due: Timestamp,
    /// Whether it is repeated until it is taken.
    pub insists: bool,
    /// It is over.
    pub done: bool,
    /// It is being made.
    pub running: bool,
}

/// The provider's log.
#[derive(Debug, Default)]
pub struct Desk {
    /// How it is.
    pub style: Style,
    /// Charges, by reference.
    pub charges: BTreeMap<Uuid, MadeCharge>,
    /// Payments and refunds, by reference.
    pub outgoing: BTreeMap<Uuid, Operation>,
    /// On their way here.
    pub mail: Vec<Mail>,
    /// On their way from here.
    pub callbacks: Vec<Callback>,
}

/// The provider's name for the operation with that reference.
pub fn provider_id(reference: Uuid) -> ProviderId {
    ProviderId::parse(&format!("sim-{}", reference.simple())).expect("visible ASCII")
}

fn body(reference: Uuid) -> ProviderBody {
    ProviderBody(format!(r#"{{"id":"{}"}}"#, reference.simple()))
}

/// The QR code for that reference.
pub fn ticket(reference: Uuid) -> Ticket {
    Ticket {
        provider_id: provider_id(reference),
        qrcode: format!("qr-{}", reference.simple()),
        body: body(reference),
    }
}

impl Desk {
    /// Somebody who asked at `asked_at` is answered so.
    pub fn note_answer(&mut self, reference: Uuid, asked_at: Timestamp, report: &OutgoingReport) {
        let taken = report.progress == Progress::Accepted;
        if let Some(operation) = self.outgoing.get_mut(&reference).filter(|_| taken) {
            operation.taken_asked_at = operation.taken_asked_at.max(Some(asked_at));
        }
    }

    /// Whether something about `reference` may still arrive.
    pub fn expects(&self, reference: Uuid) -> bool {
        self.mail.iter().any(|mail| mail.reference == reference)
    }

    /// What a question about a payment or refund is answered.
    pub fn report(&self, reference: Uuid, now: Timestamp) -> Option<OutgoingReport> {
        let operation = self.outgoing.get(&reference)?;
        let forgotten = operation.fate == Fate::Refuse && !self.style.remembers_refusals;
        (!forgotten && now >= operation.visible_at).then(|| self.answer(reference, operation, now))
    }

    /// What the one who sent it is answered.
    pub fn answer(&self, reference: Uuid, operation: &Operation, now: Timestamp) -> OutgoingReport {
        let progress = operation.progress(now);
        let settled = matches!(progress, Progress::Completed | Progress::Returned(_));
        OutgoingReport {
            provider_id: provider_id(reference),
            end_to_end_id: settled.then(|| format!("E9{}", number(reference))),
            body: body(reference),
            progress,
        }
    }

    /// What a question about a charge is answered.
    pub fn charge_report(&self, reference: Uuid, now: Timestamp) -> Option<ChargeReport> {
        let charge = self.charges.get(&reference).filter(|charge| !charge.refused)?;
        let of_charge = self.outgoing.values().filter(|operation| operation.charge == Some(reference));
        let refunded: i64 = of_charge
            .filter(|operation| operation.progress(now) == Progress::Completed)
            .map(|operation| operation.amount.cents().get())
            .sum();
        Some(ChargeReport {
            provider_id: provider_id(reference),
            payments: charge
                .payments
                .iter()
                .filter(|paid| paid.visible_at <= now)
                .map(|paid| paid.payment.clone())
                .collect(),
            refunded: Cents::new(refunded + charge.forced.get()).unwrap_or_default(),
            canceled: charge.removed_at.is_some(),
            body: body(reference),
        })
    }

    /// What all payments on a charge sum to, in centavos.
    pub fn paid_cents(&self, reference: Uuid) -> i64 {
        let charge = self.charges.get(&reference);
        charge
            .into_iter()
            .flat_map(|charge| &charge.payments)
            .map(|paid| paid.payment.amount.cents().get())
            .sum()
    }

    /// What the payments on a charge that can be seen sum to, in centavos.
    pub fn seen_cents(&self, reference: Uuid, now: Timestamp) -> i64 {
        let charge = self.charges.get(&reference);
        let payments = charge.into_iter().flat_map(|charge| &charge.payments);
        payments.filter(|paid| paid.visible_at <= now).map(|paid| paid.payment.amount.cents().get()).sum()
    }

    /// What the provider sent back of a charge by itself, in centavos.
    pub fn forced_cents(&self, reference: Uuid) -> i64 {
        self.charges.get(&reference).map_or(0, |charge| charge.forced.get())
    }

    /// What went back of a charge because we asked for it, or may, in centavos.
    pub fn refunded_cents(&self, reference: Uuid) -> i64 {
        let of_charge = self.outgoing.values().filter(|operation| operation.charge == Some(reference));
        of_charge
            .filter(|operation| operation.may_move_money())
            .map(|operation| operation.amount.cents().get() * i64::from(operation.executions))
            .sum()
    }
}

/// What happens at the provider by itself.
impl State {
    /// Sends a request on its way.
    pub fn post(&mut self, mail: Mail) {
        self.desk.mail.push(mail);
        self.arrivals();
    }

    /// Everything whose time has come arrives.
    pub fn arrivals(&mut self) {
        while let Some(place) = self.desk.mail.iter().position(|mail| mail.arrives_at <= self.now) {
            let mail = self.desk.mail.remove(place);
            match mail.letter {
                Letter::Charge => self.make_charge(mail.reference),
                Letter::Send { .. } => self.carry_out(mail),
            }
        }
    }

    fn make_charge(&mut self, reference: Uuid) {
        if self.desk.charges.contains_key(&reference) {
            return;
        }
        let refused = self.random.permille(self.rates.refused);
        if refused {
            self.count(Fault::Refused);
        }
        self.trace(|| {
            format!("provider: charge {} {}", number(reference), if refused { "refused" } else { "made" })
        });
        let charge = MadeCharge {
            made_at: self.now,
            refused,
            removed_at: None,
            payments: Vec::new(),
            forced: Cents::ZERO,
            forced_told: Cents::ZERO,
        };
        self.desk.charges.insert(reference, charge);
    }

    fn carry_out(&mut self, mail: Mail) {
        let Letter::Send { kind, amount, tag, charge } = mail.letter else { return };
        let reference = mail.reference;
        let dedupes = self.desk.style.dedupes;
        if let Some(operation) = self.desk.outgoing.get_mut(&reference) {
            operation.sends += 1;
            operation.executions += u32::from(!dedupes);
            let sends = operation.sends;
            self.violate(format!("{} {} was sent {sends} times", kind.as_str(), number(reference)));
            return;
        }
        let mut fate = self.fate();
        if let Some(charge) = charge {
            let (asked, gone) = (amount.cents().get(), self.desk.refunded_cents(charge));
            if asked + gone > self.desk.paid_cents(charge) {
                self.violate(format!("refunds of the charge {} sum above what was paid", number(charge)));
            }
            if asked + gone + self.desk.forced_cents(charge) > self.desk.seen_cents(charge, self.now) {
                // It went back already: said at once, or found when it is to be done.
                self.count(Fault::Refused);
                fate = if self.random.one_in(2) { Fate::Refuse } else { Fate::Fail };
            }
        }
        let later = fate != Fate::Refuse && self.random.permille(self.rates.settles_later);
        let settles_at =
            if later { self.now.plus(self.random.span(Duration::from_mins(20))) } else { self.now };
        if later {
            self.count(if fate == Fate::Fail { Fault::FailsLater } else { Fault::SettlesLater });
        }
        let hidden = self.random.permille(self.rates.not_known_yet);
        let lag = if hidden { self.random.span(Duration::from_mins(4)) } else { Duration::ZERO };
        let visible_at = self.now.plus(lag);
        let visible_at = mail.visible_by.map_or(visible_at, |by| visible_at.min(by));
        self.trace(|| format!("provider: {} {} of {amount}: {fate:?}", kind.as_str(), number(reference)));
        let operation = Operation {
            kind,
            amount,
            tag,
            charge,
            sends: 1,
            executions: 1,
            fate,
            sent_at: self.now,
            visible_at,
            settles_at,
            returned: Cents::ZERO,
            returned_told: Cents::ZERO,
            refusal_heard: false,
            taken_asked_at: None,
        };
        self.desk.outgoing.insert(reference, operation);
        if fate != Fate::Refuse {
            self.call_back(reference, settles_at.max(visible_at));
        }
    }

    fn fate(&mut self) -> Fate {
        if self.random.permille(self.rates.refused) {
            self.count(Fault::Refused);
            return Fate::Refuse;
        }
        if self.random.permille(self.rates.fails) { Fate::Fail } else { Fate::Complete }
    }

    /// Something happened that can be seen from `visible_at`; whether a callback will tell of it.
    pub fn call_back(&mut self, reference: Uuid, visible_at: Timestamp) -> bool {
        let event = self.desk.callbacks.len();
        let body = format!(r#"{{"id":"{}","event":{event}}}"#, reference.simple());
        let extra = Callback { reference, body, due: self.now, insists: false, done: false, running: false };
        if visible_at > self.now && self.random.permille(self.rates.callback_extra) {
            self.count(Fault::CallbackEarly);
            let body = format!(r#"{{"id":"{}","soon":{event}}}"#, reference.simple());
            self.desk.callbacks.push(Callback { body, ..extra.clone() });
        }
        if self.random.permille(self.rates.callback_never) {
            self.count(Fault::CallbackNever);
            return false;
        }
        let late = self.random.permille(self.rates.callback_late);
        let delay = if late { Duration::from_mins(10) } else { Duration::from_secs(1) };
        if late {
            self.count(Fault::CallbackLate);
        }
        let due = visible_at.plus(self.random.span(delay));
        self.desk.callbacks.push(Callback { due, insists: true, ..extra.clone() });
        if self.random.permille(self.rates.callback_extra) {
            self.count(Fault::CallbackTwice);
            let due = visible_at.plus(self.random.span(delay));
            self.desk.callbacks.push(Callback { due, ..extra });
        }
        true
    }
}
