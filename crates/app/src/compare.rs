//! Our books against the simulated provider's own log: the proof that nothing was sent twice, released though executed,
//! or lost.

use std::collections::BTreeMap;

use pix_domain::audit::Book;
use pix_domain::money::Cents;
use pix_domain::withdrawals::OutgoingState;
use pix_simulator::{LogEntry, LogEvent};

/// How the two compare.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What can't be: each is a defect, or tampering.
    pub differences: Vec<String>,
    /// What one side has done and the other has yet to learn.
    pub in_flight: Vec<String>,
    /// How many movements agree.
    pub agreed: usize,
}

/// What the provider did under one reference.
#[derive(Debug, Default, Clone, Copy)]
struct Executed {
    times: u32,
    cents: i64,
    returned_cents: i64,
    taken: bool,
}

/// Our side of one outgoing movement.
struct Ours<'a> {
    name: String,
    state: &'a OutgoingState,
    amount: Cents,
    returned: Cents,
}

/// Compares all books with the log.
pub fn compare(books: &[Book], log: &[LogEntry]) -> Comparison {
    let mut comparison = Comparison::default();
    comparison.incoming(books, log);
    comparison.outgoing(books, log);
    comparison
}

impl Comparison {
    /// Every PIX the provider received is credited once, with its amount, and we credited nothing else.
    fn incoming(&mut self, books: &[Book], log: &[LogEntry]) {
        let receipts = books.iter().flat_map(|book| &book.receipts);
        let mut ours: BTreeMap<String, (String, i64)> = receipts
            .map(|receipt| {
                let reference = receipt.charge_id.0.simple().to_string();
                (receipt.payment.key.to_text(), (reference, receipt.payment.amount.cents().get()))
            })
            .collect();
        for entry in log.iter().filter(|entry| entry.event == LogEvent::PixReceived) {
            let key = entry.end_to_end_id.clone().unwrap_or_default();
            match ours.remove(&key) {
                Some((reference, cents)) if reference == entry.external_id && cents == entry.amount_cents => {
                    self.agreed += 1;
                }
                Some((_, cents)) => self.differences.push(format!(
                    "PIX {key} of {} centavos at the provider is credited as {cents}, or to another charge",
                    entry.amount_cents
                )),
                None => self.in_flight.push(format!("PIX {key} was received and is not credited yet")),
            }
        }
        for key in ours.into_keys() {
            self.differences.push(format!("PIX {key} is credited, but the provider never received it"));
        }
    }

    /// Every movement the provider executed is ours, executed once, and neither released nor unknown to us.
    fn outgoing(&mut self, books: &[Book], log: &[LogEntry]) {
        let mut executed: BTreeMap<String, Executed> = BTreeMap::new();
        for entry in log {
            let known = executed.entry(entry.external_id.clone()).or_default();
            match entry.event {
                LogEvent::PaymentReturned => known.returned_cents += entry.amount_cents,
                LogEvent::PaymentAccepted | LogEvent::RefundAccepted => known.taken = true,
                event if event.moves_money_out() => {
                    known.times += 1;
                    known.cents += entry.amount_cents;
                    known.taken = true;
                }
                _ => {}
            }
        }
        executed.retain(|_, known| known.taken);
        for book in books {
            for withdrawal in &book.withdrawals {
                let ours = Ours {
                    name: format!("withdrawal {}", withdrawal.id),
                    state: &withdrawal.state,
                    amount: withdrawal.amount.cents(),
                    returned: withdrawal.returned,
                };
                self.one(&ours, executed.remove(&withdrawal.reference().to_string()));
            }
            for refund in &book.refunds {
                let ours = Ours {
                    name: format!("refund {}", refund.id),
                    state: &refund.state,
                    amount: refund.amount.cents(),
                    returned: Cents::ZERO,
                };
                self.one(&ours, executed.remove(&refund.reference().to_string()));
            }
        }
        for (reference, known) in executed {
            self.differences
                .push(format!("the provider took {reference} ({} centavos), which is not ours", known.cents));
        }
    }

    fn one(&mut self, ours: &Ours<'_>, theirs: Option<Executed>) {
        let theirs = theirs.unwrap_or_default();
        let name = &ours.name;
        if theirs.times > 1 {
            self.differences.push(format!("{name} was executed {} times", theirs.times));
        }
        match (ours.state, theirs.times) {
            (OutgoingState::Completed | OutgoingState::Returned, 0) => {
                self.differences.push(format!("{name} is completed, but the provider never executed it"));
            }
            (OutgoingState::Failed(_) | OutgoingState::Canceled | OutgoingState::Queued, 1..) => {
                let state = ours.state.name();
                self.differences.push(format!("{name} is {state}, but the provider executed it"));
            }
            (OutgoingState::Completed | OutgoingState::Returned, _) if theirs.cents != ours.amount.get() => {
                self.differences.push(format!(
                    "{name} is of {} centavos, the provider executed {}",
                    ours.amount.get(),
                    theirs.cents
                ));
            }
            (OutgoingState::Completed | OutgoingState::Returned, _)
                if theirs.returned_cents != ours.returned.get() =>
            {
                self.in_flight
                    .push(format!("{name} has come back in part or whole, and we have not learnt of all"));
            }
            (state, _) if !state.is_final() => self.in_flight.push(format!("{name} is {}", state.name())),
            _ => self.agreed += 1,
        }
    }
}
