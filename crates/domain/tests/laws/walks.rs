//! Random walks: whatever happens in whatever order, with whatever is stale, the books stay right.
//!
//! The world checks at every write that versions go up by one, that postings sum to zero, that no balance goes below
//! zero, and runs the whole audit.

use pix_domain::charges::{Charge, ChargeState, state as charge_state};
use pix_domain::error::ApplyError;
use pix_domain::ids::ResourceKind;
use pix_domain::provider::Progress;
use pix_domain::refunds::{Refund, state as refund_state};
use pix_domain::transition::{Step, Transition};
use pix_domain::withdrawals::{OutgoingState, Withdrawal, state as withdrawal_state};
use proptest::prelude::*;

use crate::samples::*;
use crate::world::World;

const STEPS: usize = 60;

#[derive(Debug, Clone)]
enum Doing {
    NewCharge,
    Charge { which: usize, verb: u8, number: u32, cents: i64 },
    NewWithdrawal { cents: i64 },
    Withdrawal { which: usize, verb: u8, cents: i64 },
    NewRefund { which: usize, cents: i64 },
    Refund { which: usize, verb: u8 },
    Wait { secs: u64 },
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        1 => Just(Doing::NewCharge),
        4 => (0..3_usize, 0..6_u8, 1..9_u32, 1..20_000_i64)
            .prop_map(|(which, verb, number, cents)| Doing::Charge { which, verb, number, cents }),
        1 => (1..9_000_i64).prop_map(|cents| Doing::NewWithdrawal { cents }),
        5 => (0..3_usize, 0..10_u8, 0..9_000_i64)
            .prop_map(|(which, verb, cents)| Doing::Withdrawal { which, verb, cents }),
        2 => (0..3_usize, 1..9_000_i64).prop_map(|(which, cents)| Doing::NewRefund { which, cents }),
        5 => (0..4_usize, 0..8_u8).prop_map(|(which, verb)| Doing::Refund { which, verb }),
        1 => (1..4_000_u64).prop_map(|secs| Doing::Wait { secs }),
    ]
}

fn nth<T: Clone>(of: &[T], which: usize) -> Option<T> {
    of.get(which % of.len().max(1)).cloned()
}

fn on_charge(charge: Charge, verb: u8, number: u32, cents: i64, world: &World) -> Step {
    match verb {
        0 => charge.confirm(ticket(), world.now()),
        1 => charge.refuse(failure(), world.now()),
        2 => charge.pay(payment(number, cents), &fixed_fee(25), world.now()),
        3 => charge.expire(world.now()),
        4 => charge.take_back(crate::samples::cents(cents), world.now()),
        _ => charge.cancel(world.now()),
    }
}

fn on_withdrawal(withdrawal: Withdrawal, verb: u8, returned: i64, world: &World) -> Step {
    let now = world.now();
    match verb {
        0 => withdrawal.submit(now, GRACE),
        1 => withdrawal.queue(now),
        2 => withdrawal.accepted(report(Progress::Accepted), now),
        3 => withdrawal.lose_sight(now),
        4 => withdrawal.ask_for_review(now),
        5 => withdrawal.complete(report(Progress::Completed), now),
        6 => withdrawal.fail(failure(), now),
        7 => withdrawal.cancel(now),
        8 => withdrawal.decide_completed(now),
        _ => withdrawal.give_back(cents(returned), now),
    }
}

fn on_refund(refund: Refund, charge: Charge, verb: u8, world: &World) -> Step {
    let now = world.now();
    match verb {
        0 => refund.submit(now, GRACE),
        1 => refund.queue(now),
        2 => refund.accepted(report(Progress::Accepted), now),
        3 => refund.lose_sight(now),
        4 => refund.ask_for_review(now),
        5 => refund.complete(charge, report(Progress::Completed), now),
        6 => refund.decide_completed(charge, now),
        _ => refund.fail(charge, failure(), now),
    }
}

/// What `doing` would change in the world as it is, if anything.
fn decide(world: &World, doing: &Doing, ids: &mut u128) -> Option<Transition> {
    let (charges, withdrawals, refunds) = {
        let book = &world.stored().book;
        (book.charges.clone(), book.withdrawals.clone(), book.refunds.clone())
    };
    *ids += 1;
    match *doing {
        Doing::NewCharge if ids.is_multiple_of(2) => Some(charge_state::begin(new_charge(*ids), world.now())),
        Doing::NewCharge => Some(charge_state::open(new_charge(*ids), ticket(), world.now())),
        Doing::Charge { which, verb, number, cents } => {
            on_charge(nth(&charges, which)?, verb, number, cents, world).next()
        }
        Doing::NewWithdrawal { cents } => {
            let mut new = new_withdrawal(*ids);
            new.amount = amount(cents);
            withdrawal_state::accept(new, world.now(), GRACE)
        }
        Doing::Withdrawal { which, verb, cents } => {
            on_withdrawal(nth(&withdrawals, which)?, verb, cents, world).next()
        }
        Doing::NewRefund { which, cents } => {
            refund_state::accept(new_refund(*ids, cents), nth(&charges, which)?, world.now(), GRACE).ok()
        }
        Doing::Refund { which, verb } => {
            let refund = nth(&refunds, which)?;
            let charge = charges.into_iter().find(|charge| charge.id == refund.charge_id)?;
            on_refund(refund, charge, verb, world).next()
        }
        Doing::Wait { secs } => {
            world.wait_secs(secs);
            None
        }
    }
}

/// Applies, as whatever uses a store does: what meets a debt is fitted to the wallet.
pub fn apply_fitted(world: &World, transition: &Transition) -> Result<(), ApplyError> {
    match world.apply(transition) {
        Err(ApplyError::Owing | ApplyError::InsufficientFunds) if transition.may_meet_debt() => {
            let wallet = world.stored().book.wallet;
            let fitted = transition.fitted_to(wallet);
            world.apply(&fitted.ok_or(ApplyError::InsufficientFunds)?)
        }
        result => result,
    }
}

/// What is final stays: all that may still happen to it is that money comes back, or left after all.
fn check_final(before: &Withdrawal, after: &Withdrawal) {
    if !before.state.is_final() || before == after {
        return;
    }
    if after.settled_late && !before.settled_late {
        assert_eq!(before.state, after.state);
        return;
    }
    assert_eq!(before.state, OutgoingState::Completed);
    assert!(after.returned > before.returned && after.returned <= after.amount.cents());
    assert_eq!(after.state == OutgoingState::Returned, after.returned == after.amount.cents());
    assert_eq!(before.completed_at, after.completed_at);
}

fn check_world(world: &World) {
    let stored = world.stored();
    let mut held = 0;
    for withdrawal in &stored.book.withdrawals {
        let open = !withdrawal.state.is_final();
        assert_eq!(stored.follow_ups.contains_key(&withdrawal.resource()), open);
        held += if open { withdrawal.total().get() } else { 0 };
    }
    for refund in &stored.book.refunds {
        let open = !refund.state.is_final();
        assert_eq!(stored.follow_ups.contains_key(&refund.resource()), open);
        held += if open { refund.total().get() } else { 0 };
    }
    for charge in &stored.book.charges {
        let open = !matches!(charge.state, ChargeState::Paid | ChargeState::Failed(_));
        let asked = stored.follow_ups.contains_key(&charge.resource());
        assert!(asked || !open, "{charge:?}");
        let taken: i64 = stored
            .book
            .refunds
            .iter()
            .filter(|refund| {
                refund.charge_id == charge.id && !matches!(refund.state, OutgoingState::Failed(_))
            })
            .map(|refund| refund.amount.cents().get())
            .sum();
        let taken = taken + charge.taken_back.get();
        assert!(taken <= charge.amount_paid().get(), "refunds not failed never sum above what was paid");
    }
    assert_eq!(stored.book.wallet.held.get(), held, "held is what open operations hold, and nothing else");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_books_stay_right_whatever_happens(
        script in prop::collection::vec((doing(), prop::bool::weighted(0.2)), 1..STEPS),
    ) {
        let world = World::with_available(30_000);
        let mut ids = 100;
        let mut stale: Option<Transition> = None;
        for (doing, keep_for_later) in script {
            let before = world.stored().book.clone();
            let Some(decided) = decide(&world, &doing, &mut ids) else { continue };
            if keep_for_later {
                stale.get_or_insert(decided);
                continue;
            }
            let applied = apply_fitted(&world, &decided);
            let after = world.stored().book.clone();
            if applied.is_err() {
                prop_assert_eq!(&before, &after, "a refused write writes nothing");
            }
            for old in &before.withdrawals {
                let new = after.withdrawals.iter().find(|new| new.id == old.id).unwrap();
                check_final(old, new);
            }
            for old in before.refunds.iter().filter(|old| old.state.is_final()) {
                prop_assert!(after.refunds.contains(old));
            }
            check_world(&world);
            // A decision made long ago is either still right, or refused whole.
            if let Some(old) = stale.take() {
                let before = world.stored().book.clone();
                if let Err(error) = world.apply(&old) {
                    prop_assert!(matches!(error, ApplyError::Stale | ApplyError::InsufficientFunds | ApplyError::Owing
                        | ApplyError::Duplicate(_)));
                    prop_assert_eq!(before, world.stored().book.clone());
                }
                check_world(&world);
            }
        }
        let events = world.stored().book.events.clone();
        prop_assert!(events.keys().all(|resource| resource.integrator_id == INTEGRATOR));
        prop_assert!(events.keys().any(|resource| resource.kind == ResourceKind::Charge));
    }
}
