//! The tables at the top of the state machines' sources, read from there and tried cell by cell.

use pix_domain::charges::{Charge, ChargeState};
use pix_domain::ids::ResourceKind;
use pix_domain::provider::Progress;
use pix_domain::refunds::{REFUND_WINDOW, Refund, state as refund_state};
use pix_domain::time::Timestamp;
use pix_domain::transition::{Guard, Record, Step, Transition};
use pix_domain::wallet::Reason;
use pix_domain::withdrawals::{OutgoingState, Withdrawal, state as withdrawal_state};

use crate::samples::*;

const WITHDRAWALS: &str = include_str!("../../src/withdrawals/state.rs");
const REFUNDS: &str = include_str!("../../src/refunds/state.rs");
const CHARGES: &str = include_str!("../../src/charges/state.rs");

/// The rows of the first table in a module's documentation, the heading first, each cell trimmed.
fn table(source: &str) -> Vec<Vec<String>> {
    source
        .lines()
        .skip_while(|line| !line.starts_with("//! | Verb"))
        .take_while(|line| line.starts_with("//! |"))
        .filter(|line| !line.contains("|---"))
        .map(|line| {
            let cells = line.trim_start_matches("//!").trim().trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// The cell of the table for a verb and the name of a state.
fn cell(table: &[Vec<String>], verb: &str, state: &str) -> String {
    let column = table[0].iter().position(|heading| heading.replace(' ', "_") == state);
    let row = table.iter().find(|row| row[0] == verb);
    row.unwrap_or_else(|| panic!("no row {verb}"))[column.unwrap_or_else(|| panic!("no column {state}"))]
        .clone()
}

/// What a step did, in the words of the tables.
fn said(step: &Step) -> String {
    match step {
        Step::Already => "already".into(),
        Step::Refused(_) => "refused".into(),
        Step::Next(transition) => {
            let state = transition.writes.first().map(|write| match &write.record {
                Record::Charge(charge) => charge.state.name(),
                Record::Withdrawal(withdrawal) => withdrawal.state.name(),
                Record::Refund(refund) => refund.state.name(),
                Record::Split(_) => "split",
            });
            // "paid again" and "differs" are facts beside a payment, not contradictions.
            let found = transition.findings.iter().any(|finding| finding.code.contains("_though_"));
            let late = transition.withdrawal().is_some_and(|withdrawal| withdrawal.settled_late);
            match (if late { Some("settled_late") } else { state }, found) {
                (Some(state), false) => state.replace('_', " "),
                (Some(state), true) => format!("{}, finding", state.replace('_', " ")),
                (None, _) => "finding".into(),
            }
        }
    }
}

/// A cell without its remarks in brackets.
fn bare(cell: &str) -> String {
    cell.split('(').next().unwrap().trim().to_owned()
}

fn moved(transition: &Transition) -> Vec<(Reason, i64)> {
    transition.postings.iter().map(|posting| (posting.reason, posting.amount.get())).collect()
}

/// What every change of an outgoing movement has in common.
fn check_shape(step: &Step, before: u32, is_final: impl Fn(&Record) -> bool) {
    let Step::Next(transition) = step else { return };
    if transition.writes.is_empty() {
        assert!(transition.postings.is_empty(), "a finding alone moves nothing");
        assert_eq!(transition.findings.len(), 1);
        return;
    }
    let write = &transition.writes[0];
    assert!(matches!(write.guard, Guard::At(version) if version.0 == before));
    assert_eq!(write.record.version().0, before + 1);
    assert_eq!(write.follow_up.is_none(), is_final(&write.record), "asked about until it is final");
}

type WithdrawalVerb = fn(Withdrawal, Timestamp) -> Step;

const WITHDRAWAL_VERBS: [(&str, WithdrawalVerb); 11] = [
    ("submit", |record, now| record.submit(now, GRACE)),
    ("queue", Withdrawal::queue),
    ("accept", |record, now| record.accepted(report(Progress::Accepted), now)),
    ("lose sight", Withdrawal::lose_sight),
    ("doubt", Withdrawal::doubt),
    ("ask for review", Withdrawal::ask_for_review),
    ("complete", |record, now| record.complete(report(Progress::Completed), now)),
    ("fail", |record, now| record.fail(failure(), now)),
    ("cancel", Withdrawal::cancel),
    ("give back", |record, now| record.give_back(cents(1_000), now)),
    ("decide completed", Withdrawal::decide_completed),
];

#[test]
fn every_verb_does_to_a_withdrawal_what_the_table_says() {
    let table = table(WITHDRAWALS);
    assert_eq!(table.len(), 1 + WITHDRAWAL_VERBS.len(), "a verb without a row, or a row without a verb");
    for state in outgoing_states() {
        for (verb, call) in WITHDRAWAL_VERBS {
            let before = withdrawal_in(&state);
            assert_eq!(before.state, state);
            let step = call(before.clone(), at(60));
            assert_eq!(said(&step), bare(&cell(&table, verb, state.name())), "{verb} on {}", state.name());
            check_shape(
                &step,
                before.version.0,
                |record| matches!(record, Record::Withdrawal(after) if after.state.is_final()),
            );
        }
    }
}

#[test]
fn a_withdrawals_money_moves_where_the_table_says() {
    let total = 1_000 + FEE_CENTS;
    let born = withdrawal_state::accept(new_withdrawal(1), T0, GRACE).unwrap();
    assert_eq!(moved(&born), [(Reason::WithdrawalHold, total)]);
    assert_eq!(born.writes[0].guard, Guard::Absent);
    assert_eq!(born.writes[0].follow_up, Some(T0.plus(GRACE)));
    for state in outgoing_states() {
        for (verb, call) in WITHDRAWAL_VERBS {
            let Step::Next(transition) = call(withdrawal_in(&state), at(60)) else { continue };
            let Some(after) = transition.withdrawal() else { continue };
            let expected = match after.state {
                _ if after.settled_late => vec![(Reason::ForcedDebit, 1_000)],
                OutgoingState::Completed => {
                    vec![(Reason::WithdrawalSettle, 1_000), (Reason::WithdrawalFee, FEE_CENTS)]
                }
                OutgoingState::Failed(_) | OutgoingState::Canceled => {
                    vec![(Reason::WithdrawalRelease, total)]
                }
                OutgoingState::Returned => vec![(Reason::WithdrawalReturn, 1_000)],
                _ => vec![],
            };
            assert_eq!(moved(&transition), expected, "{verb} on {}", state.name());
            assert_eq!(after.completed_at.is_some(), after.state.is_final());
            let sent_now = matches!(verb, "submit" | "doubt");
            assert_eq!(after.submitted_at, if sent_now { at(60) } else { T0 });
        }
    }
}

#[test]
fn a_withdrawal_that_arrived_and_came_back_before_we_asked_is_settled_and_returned_in_one_change() {
    for (returned, state) in [(400, OutgoingState::Completed), (1_000, OutgoingState::Returned)] {
        let sent = withdrawal_in(&OutgoingState::Uncertain);
        let fee = sent.fee.get();
        let told = report(Progress::Returned(cents(returned)));
        let both = next(sent.come_back(told, cents(returned), at(5)));
        assert_eq!(both.writes.len(), 1);
        assert_eq!(both.withdrawal().unwrap().state, state);
        assert_eq!(both.withdrawal().unwrap().returned, cents(returned));
        let expected = [
            (Reason::WithdrawalSettle, 1_000),
            (Reason::WithdrawalFee, fee),
            (Reason::WithdrawalReturn, returned),
        ];
        assert_eq!(moved(&both), expected);
    }
}

#[test]
fn a_withdrawal_comes_back_in_parts_until_all_of_it_has() {
    let completed = withdrawal_in(&OutgoingState::Completed);
    let first = next(completed.give_back(cents(400), at(5)));
    assert_eq!(moved(&first), [(Reason::WithdrawalReturn, 400)]);
    let part = first.withdrawal().unwrap().clone();
    assert_eq!(part.state, OutgoingState::Completed);
    for told_again in [0, 100, 400] {
        assert_eq!(part.clone().give_back(cents(told_again), at(6)), Step::Already);
    }
    let more_than_sent = next(part.clone().give_back(cents(1_001), at(6)));
    assert_eq!((more_than_sent.writes.len(), more_than_sent.postings.len()), (0, 0));
    assert_eq!(more_than_sent.findings[0].code, "returned_more_than_sent");
    let rest = next(part.give_back(cents(1_000), at(6)));
    assert_eq!(moved(&rest), [(Reason::WithdrawalReturn, 600)]);
    assert_eq!(rest.withdrawal().unwrap().state, OutgoingState::Returned);
}

#[test]
fn a_withdrawal_past_every_wallet_is_not_accepted() {
    let new = pix_domain::withdrawals::NewWithdrawal { fee: cents(i64::MAX), ..new_withdrawal(1) };
    assert_eq!(withdrawal_state::accept(new, T0, GRACE), None);
}

#[test]
fn being_told_again_that_it_was_accepted_does_not_end_a_review() {
    let accepted = withdrawal_in(&OutgoingState::Accepted);
    let reviewed = next(accepted.ask_for_review(at(9))).withdrawal().unwrap().clone();
    assert_eq!(reviewed.accepted(report(Progress::Accepted), at(10)), Step::Already);
    let (accepted, _) = refund_in(&OutgoingState::Accepted, 300);
    let reviewed = next(accepted.ask_for_review(at(9))).refund().unwrap().clone();
    assert_eq!(reviewed.accepted(report(Progress::Accepted), at(10)), Step::Already);
}

type RefundVerb = fn(Refund, Charge, Timestamp) -> Step;

const REFUND_VERBS: [(&str, RefundVerb); 9] = [
    ("submit", |record, _, now| record.submit(now, GRACE)),
    ("queue", |record, _, now| record.queue(now)),
    ("accept", |record, _, now| record.accepted(report(Progress::Accepted), now)),
    ("lose sight", |record, _, now| record.lose_sight(now)),
    ("doubt", |record, _, now| record.doubt(now)),
    ("ask for review", |record, _, now| record.ask_for_review(now)),
    ("complete", |record, charge, now| record.complete(charge, report(Progress::Completed), now)),
    ("fail", |record, charge, now| record.fail(charge, failure(), now)),
    ("decide completed", |record, charge, now| record.decide_completed(charge, now)),
];

fn refund_states() -> impl Iterator<Item = OutgoingState> {
    outgoing_states()
        .into_iter()
        .filter(|state| !matches!(state, OutgoingState::Canceled | OutgoingState::Returned))
}

#[test]
fn every_verb_does_to_a_refund_what_the_table_says() {
    let table = table(REFUNDS);
    assert_eq!(table.len(), 1 + REFUND_VERBS.len(), "a verb without a row, or a row without a verb");
    for state in refund_states() {
        for (verb, call) in REFUND_VERBS {
            let (before, charge) = refund_in(&state, 300);
            assert_eq!(before.state, state);
            let step = call(before.clone(), charge, at(60));
            assert_eq!(said(&step), bare(&cell(&table, verb, state.name())), "{verb} on {}", state.name());
            check_shape(
                &step,
                before.version.0,
                |record| matches!(record, Record::Refund(after) if after.state.is_final()),
            );
        }
    }
}

#[test]
fn a_refunds_money_and_its_charge_move_as_the_table_says() {
    let total = 300 + FEE_CENTS;
    let paid = charge_in(&ChargeState::Paid);
    let born = refund_state::accept(new_refund(3, 300), paid.clone(), at(1), GRACE).unwrap();
    assert_eq!(moved(&born), [(Reason::RefundHold, total)]);
    assert_eq!(born.charge().unwrap().refund_reserved, cents(300));
    assert_eq!(born.writes.len(), 2);
    assert_eq!(born.writes[1].guard, Guard::At(paid.version), "the charge is guarded too");
    for state in refund_states() {
        for (verb, call) in REFUND_VERBS {
            let (before, charge) = refund_in(&state, 300);
            let Step::Next(transition) = call(before, charge.clone(), at(60)) else { continue };
            let Some(after) = transition.refund() else { continue };
            let (expected, totals) = match after.state {
                OutgoingState::Completed => {
                    (vec![(Reason::RefundSettle, 300), (Reason::RefundFee, FEE_CENTS)], Some((0, 300)))
                }
                OutgoingState::Failed(_) => (vec![(Reason::RefundRelease, total)], Some((0, 0))),
                _ => (vec![], None),
            };
            assert_eq!(moved(&transition), expected, "{verb} on {}", state.name());
            let of_charge = transition.charge().map(|after| {
                assert_eq!(transition.writes[1].guard, Guard::At(charge.version));
                (after.refund_reserved.get(), after.refunded.get())
            });
            assert_eq!(of_charge, totals, "{verb} on {}", state.name());
        }
    }
}

#[test]
fn a_refund_takes_all_that_is_left_and_no_centavo_more() {
    let paid = charge_in(&ChargeState::Paid);
    let accept = |charge: &Charge, refund_cents| {
        refund_state::accept(new_refund(3, refund_cents), charge.clone(), at(1), GRACE)
    };
    assert!(accept(&paid, PAID_CENTS + 1).is_err());
    let rest = accept(&paid, PAID_CENTS - 1).unwrap().charge().unwrap().clone();
    assert!(accept(&rest, 2).is_err());
    let taken = accept(&rest, 1).unwrap().charge().unwrap().clone();
    assert_eq!(taken.left_to_refund(), cents(0));
    assert!(accept(&taken, 1).is_err());
}

#[test]
fn a_payment_can_be_refunded_up_to_its_ninetieth_day_and_not_after() {
    let paid = charge_in(&ChargeState::Paid);
    let last = credited(&paid).paid_at.plus(REFUND_WINDOW);
    assert!(refund_state::accept(new_refund(3, 1), paid.clone(), last, GRACE).is_ok());
    let past = Timestamp::from_micros(last.micros() + 1);
    assert_eq!(
        refund_state::accept(new_refund(3, 1), paid, past, GRACE),
        Err(pix_domain::error::ServiceError::RefundWindowClosed)
    );
}

type ChargeVerb = fn(Charge, Timestamp) -> Step;

const CHARGE_VERBS: [(&str, ChargeVerb); 6] = [
    ("confirm", |record, now| record.confirm(ticket(), now)),
    ("refuse", |record, now| record.refuse(failure(), now)),
    ("pay", |record, now| record.pay(payment(2, PAID_CENTS), &fixed_fee(10), now)),
    ("expire", |record, now| record.expire(now)),
    ("cancel", Charge::cancel),
    ("take back", |record, now| record.take_back(cents(100), now)),
];

#[test]
fn every_verb_does_to_a_charge_what_the_table_says() {
    let table = table(CHARGES);
    assert_eq!(table.len(), 2 + CHARGE_VERBS.len(), "a verb without a row, or a row without a verb");
    let now = T0.plus(LIFE);
    for state in charge_states() {
        for (verb, call) in CHARGE_VERBS {
            let before = charge_in(&state);
            assert_eq!(before.state, state);
            let step = call(before.clone(), now);
            assert_eq!(said(&step), bare(&cell(&table, verb, state.name())), "{verb} on {}", state.name());
            // A paid one is asked about once more when it changes: the change may have erased a reason to.
            let paid_before = before.state == ChargeState::Paid;
            check_shape(&step, before.version.0, |record| {
                matches!(record, Record::Charge(after)
                    if matches!(after.state, ChargeState::Failed(_))
                        || (after.state == ChargeState::Paid && !paid_before))
            });
            let Step::Next(transition) = step else { continue };
            let expected = match verb {
                "pay" => vec![(Reason::ChargePaid, PAID_CENTS), (Reason::ChargeFee, 10)],
                "take back" if state == ChargeState::Paid => vec![(Reason::ForcedDebit, 100)],
                _ => vec![],
            };
            assert_eq!(moved(&transition), expected, "{verb} on {}", state.name());
            assert_eq!(transition.receipt.is_some(), verb == "pay");
        }
    }
}

#[test]
fn the_share_of_refunds_in_a_charge_is_as_the_table_says() {
    let table = table(CHARGES);
    let row = "reserve refund, settle, release";
    for state in charge_states() {
        let expected = bare(&cell(&table, row, state.name()));
        let charge = charge_in(&state);
        let reserve = charge.clone().reserve_refund(amount(300), at(60));
        assert_eq!(said(&reserve), expected, "reserve on {}", state.name());
        let charge = reserve.next().map_or(charge, |transition| transition.charge().unwrap().clone());
        assert_eq!(said(&charge.clone().settle_refund(amount(300), at(61))), expected, "settle");
        assert_eq!(said(&charge.clone().release_refund(amount(300), at(61))), expected, "release");
        assert_eq!(said(&charge.clone().settle_refund(amount(301), at(61))), "refused", "more than reserved");
        assert_eq!(said(&charge.release_refund(amount(301), at(61))), "refused", "more than reserved");
    }
}

#[test]
fn what_was_sent_back_beside_our_refunds_is_taken_once() {
    let paid = charge_in(&ChargeState::Paid);
    let reserved = next(paid.reserve_refund(amount(300), at(60))).charge().unwrap().clone();
    assert_eq!(
        reserved.clone().take_back(cents(300), at(61)),
        Step::Already,
        "our refund may be what went back"
    );
    let taken = next(reserved.take_back(cents(400), at(62)));
    assert_eq!((moved(&taken), taken.findings[0].code), (vec![(Reason::ForcedDebit, 100)], "taken_back"));
    let taken = taken.charge().unwrap().clone();
    assert_eq!((taken.taken_back, taken.left_to_refund()), (cents(100), cents(PAID_CENTS - 400)));
    assert_eq!(taken.clone().take_back(cents(400), at(63)), Step::Already);
    let released = next(taken.release_refund(amount(300), at(64)));
    assert_eq!(released.writes[0].follow_up, Some(at(69)), "it may have hidden that more went back");
    let released = released.charge().unwrap().clone();
    assert_eq!(moved(&next(released.clone().take_back(cents(400), at(65)))), [(Reason::ForcedDebit, 300)]);
    let impossible = next(released.take_back(cents(PAID_CENTS + 1), at(65)));
    assert_eq!(
        moved(&impossible),
        [(Reason::ForcedDebit, PAID_CENTS - 100)],
        "what was credited is gone all the same"
    );
    let codes: Vec<_> = impossible.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["taken_back", "returned_more_than_paid"]);
    let gone = impossible.charge().unwrap().clone();
    let told_again = next(gone.take_back(cents(PAID_CENTS + 1), at(66)));
    assert!(told_again.writes.is_empty() && told_again.postings.is_empty());
}

#[test]
fn a_late_settlement_is_taken_once_and_what_came_back_whole_is_not() {
    let failed = withdrawal_in(&OutgoingState::Failed(failure()));
    let whole = report(Progress::Returned(cents(1_000)));
    assert_eq!(failed.clone().come_back(whole, cents(1_000), at(60)), Step::Already);
    let late = next(failed.complete(report(Progress::Completed), at(60))).withdrawal().unwrap().clone();
    assert_eq!((late.settled_late, late.state.name()), (true, "failed"));
    assert_eq!(late.clone().complete(report(Progress::Completed), at(61)), Step::Already);
    let told = next(late.fail(failure(), at(62)));
    assert_eq!((moved(&told), told.findings[0].code), (vec![], "failed_though_completed"));
}

#[test]
fn what_is_forced_out_takes_what_is_there_and_the_rest_is_owed() {
    use pix_domain::wallet::Wallet;
    let paid = charge_in(&ChargeState::Paid);
    let back = next(paid.take_back(cents(100), at(60)));
    assert!(back.is_forced() && back.may_meet_debt());
    let wallet =
        |available, owed| Wallet { available: cents(available), owed: cents(owed), ..Wallet::default() };
    let forced = |wallet| moved(&back.fitted_to(wallet).unwrap());
    assert_eq!(forced(wallet(100, 0)), [(Reason::ForcedDebit, 100)]);
    assert_eq!(forced(wallet(40, 0)), [(Reason::ForcedDebit, 40), (Reason::ForcedDebitOwed, 60)]);
    assert_eq!(forced(wallet(0, 7)), [(Reason::ForcedDebitOwed, 100)]);
    let paid = next(charge_in(&ChargeState::Pending).pay(payment(2, 500), &fixed_fee(10), at(60)));
    let credit = [(Reason::ChargePaid, 500), (Reason::ChargeFee, 10)];
    let with = |owed| moved(&paid.fitted_to(wallet(0, owed)).unwrap());
    assert_eq!(with(0), credit);
    assert_eq!(with(7), [credit[0], credit[1], (Reason::OwedRepaid, 7)]);
    assert_eq!(with(900), [credit[0], credit[1], (Reason::OwedRepaid, 490)]);
    let hold = withdrawal_state::accept(new_withdrawal(1), T0, GRACE).unwrap();
    assert!(!hold.may_meet_debt());
    assert_eq!(hold.fitted_to(wallet(5, 0)), None, "what isn't forced is refused");
}

#[test]
fn a_live_charge_does_not_expire_before_its_time() {
    let just_before = Timestamp::from_micros(T0.plus(LIFE).micros() - 1);
    let pending = charge_in(&ChargeState::Pending);
    assert_eq!(pending.clone().expire(just_before), Step::Refused("its time is not over"));
    assert_eq!(said(&pending.expire(T0.plus(LIFE))), "expired");
}

#[test]
fn a_late_payment_is_credited_and_called_late() {
    for state in charge_states() {
        if state == ChargeState::Paid {
            continue;
        }
        let late = !matches!(state, ChargeState::Creating | ChargeState::Pending);
        let paid = next(charge_in(&state).pay(payment(2, 500), &fixed_fee(10), at(60)));
        let charge = paid.charge().unwrap();
        assert_eq!((credited(charge).late, credited(charge).payments), (late, 1), "{}", state.name());
        assert_eq!(paid.findings[0].code, "amount_differs");
    }
}

#[test]
fn the_fee_of_a_payment_is_never_more_than_the_payment() {
    let paid = next(charge_in(&ChargeState::Pending).pay(payment(2, 5), &fixed_fee(10), at(60)));
    assert_eq!(moved(&paid), [(Reason::ChargePaid, 5), (Reason::ChargeFee, 5)]);
}

#[test]
fn one_pix_is_credited_once_whichever_way_it_is_named() {
    use pix_domain::provider::ReceiptKey;
    let paid = charge_in(&ChargeState::Paid);
    assert_eq!(paid.clone().pay(payment(1, PAID_CENTS), &fixed_fee(10), at(60)), Step::Already);
    let mut nameless = payment(1, PAID_CENTS);
    nameless.key = ReceiptKey::Transaction(provider_id("chg-1"));
    assert_eq!(paid.clone().pay(nameless.clone(), &fixed_fee(10), at(60)), Step::Already);
    let mut oddly_named = payment(1, PAID_CENTS);
    oddly_named.key = ReceiptKey::Transaction(provider_id("not-an-end-to-end-id"));
    let told = next(paid.pay(oddly_named, &fixed_fee(10), at(60)));
    assert!(told.writes.is_empty() && told.postings.is_empty() && told.receipt.is_none());
    assert_eq!(told.findings[0].code, "unidentified_payment");
    // Credited under another name than its end-to-end id, whatever the charge is called there.
    for state in charge_states().into_iter().filter(|state| *state != ChargeState::Paid) {
        let first = next(charge_in(&state).pay(nameless.clone(), &fixed_fee(10), at(60)));
        let paid = first.charge().unwrap().clone();
        let told = next(paid.pay(payment(1, PAID_CENTS), &fixed_fee(10), at(61)));
        assert_eq!((told.postings.len(), told.findings[0].code), (0, "unidentified_payment"), "{state:?}");
    }
}

#[test]
fn a_key_stands_for_the_record_that_is_made_and_not_for_its_charge() {
    use pix_domain::text::IdempotencyKey;
    let key = IdempotencyKey::parse("k-1").unwrap();
    let born = refund_state::accept(new_refund(3, 1), charge_in(&ChargeState::Paid), at(1), GRACE).unwrap();
    let handle = born.answering(Some(key)).handle.unwrap();
    assert_eq!((handle.kind, handle.id.as_u128()), (ResourceKind::Refund, 3));
}
