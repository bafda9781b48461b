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
    rejected: bool,
    repeated: u32,
}

/// Our side of one outgoing movement.
struct Ours<'a> {
    name: String,
    state: &'a OutgoingState,
    amount: Cents,
    returned: Cents,
    settled_late: bool,
}

/// Compares all books with the log.
pub fn compare(books: &[Book], log: &[LogEntry]) -> Comparison {
    let mut comparison = Comparison::default();
    comparison.incoming(books, log);
    comparison.outgoing(books, log);
    comparison.taken_back(books, log);
    comparison
}

impl Comparison {
    /// Every PIX the provider received is credited once, with its amount, and we credited nothing else.
    fn incoming(&mut self, books: &[Book], log: &[LogEntry]) {
        let mut ours: BTreeMap<String, (String, i64)> = BTreeMap::new();
        for receipt in books.iter().flat_map(|book| &book.receipts) {
            let (key, reference) = (receipt.payment.key.to_text(), receipt.charge_id.0.simple().to_string());
            let credited = (reference, receipt.payment.amount.cents().get());
            if ours.insert(key.clone(), credited).is_some() {
                self.differences.push(format!("PIX {key} is credited to two integrators"));
            }
        }
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

    /// What the provider was forced to send back is what we took from the wallet.
    fn taken_back(&mut self, books: &[Book], log: &[LogEntry]) {
        let mut theirs: BTreeMap<&str, i64> = BTreeMap::new();
        for entry in log.iter().filter(|entry| entry.event == LogEvent::ChargeTakenBack) {
            *theirs.entry(&entry.external_id).or_default() += entry.amount_cents;
        }
        for charge in books.iter().flat_map(|book| &book.charges) {
            let known = theirs.remove(charge.reference().to_string().as_str()).unwrap_or(0);
            let ours = charge.taken_back.get();
            if ours > known {
                self.differences.push(format!(
                    "charge {} gave up {ours} centavos by force, the provider took {known} back",
                    charge.id
                ));
            } else if ours < known {
                let what = format!(
                    "charge {} was taken back in part or whole, and we have not learnt of all",
                    charge.id
                );
                self.in_flight.push(what);
            } else if known > 0 {
                self.agreed += 1;
            }
        }
        for (reference, cents) in theirs {
            self.differences
                .push(format!("the provider took {cents} centavos of {reference} back, which is not ours"));
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
                LogEvent::PaymentRejected | LogEvent::RefundRejected => known.rejected = true,
                LogEvent::PaymentRepeated | LogEvent::RefundRepeated => {
                    known.repeated = known.repeated.saturating_add(1);
                }
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
                    settled_late: withdrawal.settled_late,
                };
                self.one(&ours, executed.remove(&withdrawal.reference().to_string()));
            }
            for refund in &book.refunds {
                let ours = Ours {
                    name: format!("refund {}", refund.id),
                    state: &refund.state,
                    amount: refund.amount.cents(),
                    returned: Cents::ZERO,
                    settled_late: false,
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
        if theirs.repeated > 0 {
            self.differences.push(format!("{name} was sent {} times", theirs.repeated.saturating_add(1)));
        }
        match (ours.state, theirs.times) {
            (OutgoingState::Failed(_) | OutgoingState::Canceled, 0) if theirs.taken && !theirs.rejected => {
                let state = ours.state.name();
                let what = format!("{name} is {state}, but the provider has taken it and not refused it");
                self.differences.push(what);
            }
            (OutgoingState::Completed | OutgoingState::Returned, 0) => {
                self.differences.push(format!("{name} is completed, but the provider never executed it"));
            }
            (OutgoingState::Failed(_) | OutgoingState::Canceled, 1) if ours.settled_late => self.agreed += 1,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pix_domain::charges::Failure;
    use pix_domain::fees::FeeRule;
    use pix_domain::ids::{ChargeId, IntegratorId, WithdrawalId};
    use pix_domain::money::Amount;
    use pix_domain::party::{PixKey, PixKeyType};
    use pix_domain::provider::{
        OutgoingReport, Party, Payment, Progress, ProviderBody, ProviderId, ReceiptKey,
    };
    use pix_domain::text::ExternalId;
    use pix_domain::time::Timestamp;
    use pix_domain::withdrawals::{NewWithdrawal, Payee, Withdrawal, state};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(0);

    fn sent() -> Withdrawal {
        let new = NewWithdrawal {
            id: WithdrawalId(Uuid::from_u128(7)),
            integrator_id: IntegratorId(Uuid::from_u128(1)),
            external_id: ExternalId::parse("out").unwrap(),
            external_id_given: true,
            amount: Amount::from_cents(1000).unwrap(),
            fee: FeeRule::free().fee(Amount::from_cents(1000).unwrap()),
            fee_version: 0,
            payee: Payee {
                party: Party::default(),
                key: PixKey::parse(PixKeyType::Email, "ana@example.com").unwrap(),
            },
            description: None,
            metadata: pix_domain::metadata::Metadata::default(),
            postback_url: None,
            postback_scope: pix_domain::postbacks::events::PostbackScope::Outcomes,
        };
        state::accept(new, NOW, Duration::ZERO).unwrap().withdrawal().unwrap().clone()
    }

    fn completed() -> Withdrawal {
        let report = OutgoingReport {
            provider_id: ProviderId::parse("p").unwrap(),
            progress: Progress::Completed,
            end_to_end_id: None,
            body: ProviderBody::default(),
        };
        sent().complete(report, NOW).next().unwrap().withdrawal().unwrap().clone()
    }

    fn failed() -> Withdrawal {
        let failure = Failure { code: "c".into(), message: "m".into() };
        sent().fail(failure, NOW).next().unwrap().withdrawal().unwrap().clone()
    }

    fn book(withdrawal: Withdrawal) -> Book {
        Book { withdrawals: vec![withdrawal], ..Book::default() }
    }

    fn credited(integrator: u128, cents: i64) -> Book {
        let payment = Payment {
            key: ReceiptKey::Transaction(ProviderId::parse("pix-1").unwrap()),
            amount: Amount::from_cents(cents).unwrap(),
            paid_at: NOW,
            payer: Party::default(),
        };
        let (integrator_id, charge_id) =
            (IntegratorId(Uuid::from_u128(integrator)), ChargeId(Uuid::from_u128(7)));
        let receipt = pix_domain::charges::Receipt { integrator_id, charge_id, payment };
        Book { receipts: vec![receipt], ..Book::default() }
    }

    fn log(events: &[(&str, i64)]) -> Vec<LogEntry> {
        let entry = |(event, cents): &(&str, i64)| {
            serde_json::from_value(json!({
                "seq": 1, "at": "2026-11-21T12:00:00Z", "event": event, "transaction_id": "t",
                "external_id": Uuid::from_u128(7).simple().to_string(), "amount_cents": cents,
                "end_to_end_id": "txn:pix-1",
            }))
            .unwrap()
        };
        events.iter().map(entry).collect()
    }

    #[test]
    fn what_was_sent_twice_released_though_taken_or_never_executed_is_a_difference() {
        for (ours, theirs, says) in [
            (completed(), &[][..], "never executed"),
            (completed(), &[("payment_executed", 999)], "executed 999"),
            (completed(), &[("payment_executed", 1000), ("payment_executed", 1000)], "executed 2 times"),
            (completed(), &[("payment_executed", 1000), ("payment_repeated", 1000)], "sent 2 times"),
            (failed(), &[("payment_executed", 1000)], "is failed, but the provider executed it"),
            (failed(), &[("payment_accepted", 1000)], "has taken it"),
        ] {
            let differences = compare(&[book(ours)], &log(theirs)).differences;
            assert!(differences.iter().any(|what| what.contains(says)), "{says}: {differences:?}");
        }
        let strange = compare(&[], &log(&[("payment_executed", 1000)]));
        assert!(strange.differences[0].contains("not ours"));
    }

    #[test]
    fn what_agrees_or_is_on_its_way_is_none() {
        for (ours, theirs, agreed, in_flight) in [
            (completed(), &[("payment_executed", 1000)][..], 1, 0),
            (completed(), &[("payment_accepted", 1000), ("payment_settled", 1000)], 1, 0),
            (failed(), &[("payment_accepted", 1000), ("payment_rejected", 1000)], 1, 0),
            (failed(), &[], 1, 0),
            (sent(), &[("payment_executed", 1000)], 0, 1),
        ] {
            let compared = compare(&[book(ours)], &log(theirs));
            assert_eq!(
                (compared.differences.len(), compared.agreed, compared.in_flight.len()),
                (0, agreed, in_flight)
            );
        }
    }

    #[test]
    fn a_pix_is_credited_as_it_was_received_once_and_to_one() {
        let received = log(&[("pix_received", 500)]);
        assert_eq!(compare(&[credited(1, 500)], &received).agreed, 1);
        assert_eq!(compare(&[], &received).in_flight.len(), 1);
        for (books, log, says) in [
            (vec![credited(1, 400)], &received[..], "is credited as 400"),
            (vec![credited(1, 500)], &[], "never received"),
            (vec![credited(1, 500), credited(2, 500)], &received, "two integrators"),
        ] {
            let differences = compare(&books, log).differences;
            assert!(differences.iter().any(|what| what.contains(says)), "{says}: {differences:?}");
        }
    }
}
