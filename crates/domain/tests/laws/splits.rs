//! What a charge gives to others, and what comes back: whatever is paid, refunded, taken back and spent, in whatever order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pix_domain::charges::service::ChargeService;
use pix_domain::charges::{Charge, NewCharge, state as charge_state};
use pix_domain::credentials::store::MockIntegratorStore;
use pix_domain::error::ApplyError;
use pix_domain::fees::Percent;
use pix_domain::ids::{IntegratorId, SplitId};
use pix_domain::money::Cents;
use pix_domain::provider::{ChargeReport, MockSettlementProvider, Progress, ProviderBody};
use pix_domain::refunds::{Refund, state as refund_state};
use pix_domain::splits::store::MockSplitStore;
use pix_domain::splits::{NewShare, Part, Share, Side, Split, complete};
use pix_domain::transition::{MockTransitionStore, Transition};
use pix_domain::withdrawals::{NewWithdrawal, OutgoingState, state as withdrawal_state};
use proptest::prelude::*;
use uuid::Uuid;

use crate::samples::*;
use crate::walks::apply_fitted;
use crate::world::World;

const THIRD: IntegratorId = IntegratorId(Uuid::from_u128(0xC));
const FOURTH: IntegratorId = IntegratorId(Uuid::from_u128(0xD));
const RECIPIENTS: [IntegratorId; 3] = [OTHER, THIRD, FOURTH];
const CHARGE: u128 = 2;
/// What the owner has before the charge.
const START_CENTS: i64 = 30_000;
/// What a payment costs by the schedule of the charge.
const PAID_FEE_CENTS: i64 = 10;
const STEPS: usize = 40;

/// A charge's owner and its recipients, each in a world of its own; clones share them.
#[derive(Clone)]
struct Land(BTreeMap<IntegratorId, World>);

impl Land {
    /// With a charge that nobody has paid.
    fn new(parts: &[(IntegratorId, Part)]) -> Self {
        let owner = World::with_available(START_CENTS);
        let split = parts.iter().zip(0x500_u128..).map(|((recipient, part), id)| {
            let new = NewShare { recipient: *recipient, part: part.clone() };
            Share::new(SplitId(Uuid::from_u128(id)), new)
        });
        let new = NewCharge { split: split.collect(), ..new_charge(CHARGE) };
        owner.apply(&charge_state::open(new, ticket(), owner.now())).unwrap();
        let recipients = parts.iter().map(|(recipient, _)| (*recipient, World::of(*recipient)));
        Self(recipients.chain([(INTEGRATOR, owner)]).collect())
    }

    fn world(&self, of: IntegratorId) -> &World {
        &self.0[&of]
    }

    fn owner(&self) -> &World {
        self.world(INTEGRATOR)
    }

    fn charge(&self) -> Charge {
        self.owner().charge(CHARGE)
    }

    fn split(&self, of: IntegratorId, id: SplitId) -> Option<Split> {
        let stored = self.world(of).stored();
        stored.book.splits.iter().find(|split| split.id == id).cloned()
    }

    /// A refund that has not ended.
    fn open_refund(&self) -> Option<Refund> {
        let stored = self.owner().stored();
        stored.book.refunds.iter().find(|refund| !refund.state.is_final()).cloned()
    }

    /// `transition` with what the recipients of its charge get or give back.
    fn completed(&self, transition: Transition) -> Transition {
        if !transition.moves_shares() {
            return transition;
        }
        let side = |share: &Share| Side {
            split: self.split(share.recipient, share.split_id),
            available: self.world(share.recipient).stored().book.wallet.available,
            postback_url: None,
        };
        let sides: Vec<Side> = transition.charge().unwrap().split.iter().map(side).collect();
        complete(transition, &sides).unwrap()
    }

    /// Applies a transition and its parts, each to its own world.
    fn apply_whole(&self, transition: &Transition) -> Result<(), ApplyError> {
        transition.check_shape()?;
        transition.whole().try_for_each(|one| apply_fitted(self.world(one.integrator_id), one))
    }

    fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        self.apply_whole(&self.completed(transition))
    }
}

/// What an integrator has, or less than nothing when it owes.
fn worth(world: &World) -> i64 {
    let wallet = world.stored().book.wallet;
    wallet.available.get() + wallet.held.get() - wallet.owed.get()
}

fn percentage(text: &str) -> Part {
    Part::Percentage(Percent::parse(text).unwrap())
}

#[derive(Debug, Clone)]
enum Doing {
    Pay { cents: i64 },
    TakeBack { cents: i64 },
    NewRefund { cents: i64 },
    EndRefund { well: bool },
    Spend { who: usize, cents: i64 },
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        4 => (1..20_000_i64).prop_map(|cents| Doing::Pay { cents }),
        2 => (1..30_000_i64).prop_map(|cents| Doing::TakeBack { cents }),
        3 => (1..9_000_i64).prop_map(|cents| Doing::NewRefund { cents }),
        4 => prop::bool::weighted(0.7).prop_map(|well| Doing::EndRefund { well }),
        3 => (0..RECIPIENTS.len(), 1..5_000_i64).prop_map(|(who, cents)| Doing::Spend { who, cents }),
    ]
}

/// A fixed part between two percentages, which are not above the whole together.
fn parts() -> impl Strategy<Value = Vec<(IntegratorId, Part)>> {
    let percent = || {
        let text = |number: u32| format!("{}.{:04}", number / 10_000, number % 10_000);
        (0..=500_000_u32).prop_map(move |number| percentage(&text(number)))
    };
    let fixed = (1..8_000_i64).prop_map(|cents| Part::Amount(amount(cents)));
    (percent(), fixed, percent())
        .prop_map(|(one, other, last)| RECIPIENTS.into_iter().zip([one, other, last]).collect::<Vec<_>>())
}

fn end_refund(land: &Land, well: bool) -> Option<Transition> {
    let (refund, charge, now) = (land.open_refund()?, land.charge(), land.owner().now());
    if well {
        refund.complete(charge, report(Progress::Completed), now).next()
    } else {
        refund.fail(charge, failure(), now).next()
    }
}

/// What `doing` would change, if anything. `number` is that of a new record or PIX.
fn decide(land: &Land, doing: &Doing, number: u32) -> Option<Transition> {
    let (charge, now) = (land.charge(), land.owner().now());
    match *doing {
        Doing::Pay { cents } => charge.pay(payment(number, cents), &fixed_fee(PAID_FEE_CENTS), now).next(),
        Doing::TakeBack { cents } => charge.take_back(crate::samples::cents(cents), now).next(),
        Doing::NewRefund { cents } => {
            refund_state::accept(new_refund(number.into(), cents), charge, now, GRACE).ok()
        }
        Doing::EndRefund { well } => end_refund(land, well),
        Doing::Spend { who, cents } => {
            let new = NewWithdrawal {
                integrator_id: RECIPIENTS[who],
                amount: amount(cents),
                ..new_withdrawal(number.into())
            };
            withdrawal_state::accept(new, now, GRACE)
        }
    }
}

fn check_land(land: &Land, before: &Charge) {
    let charge = land.charge();
    let (paid, fees) =
        charge.credited.as_ref().map_or((0, 0), |paid| (paid.amount_paid.get(), paid.fee.get()));
    let kept: i64 = charge.split.iter().map(|share| share.kept().get()).sum();
    assert!(kept <= paid - fees, "{kept} of {paid} less {fees} is given");
    let back = charge.sent_back().get();
    for (share, earlier) in charge.split.iter().zip(&before.split) {
        assert!(share.amount >= earlier.amount && share.taken_back >= earlier.taken_back);
        assert!(share.taken_back <= share.amount);
        let part = |of: i64| (share.amount.get() * of + paid - 1).checked_div(paid).unwrap_or(0);
        let forced = part(charge.taken_back.get()) - part(before.taken_back.get());
        let most = part(back).max(earlier.taken_back.get() + forced.max(0));
        assert!(share.taken_back.get() <= most, "no more than its part of what went back");
        if let Part::Amount(most) = &share.part {
            assert!(share.amount <= most.cents(), "a fixed part is for the whole charge");
        }
        let split = land.split(share.recipient, share.split_id);
        assert_eq!(split.as_ref().map_or(Cents::ZERO, Split::kept), share.kept());
        assert_eq!(worth(land.world(share.recipient)), share.kept().get());
    }
    let stored = land.owner().stored();
    let done = stored.book.refunds.iter().filter(|refund| refund.state == OutgoingState::Completed);
    let refund_fees: i64 = done.map(|refund| refund.fee.get()).sum();
    drop(stored);
    let all: i64 = land.0.values().map(worth).sum();
    let expected = START_CENTS + paid - fees - back - refund_fees;
    assert_eq!(all, expected, "what came in and did not go out is somebody's");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_given_and_taken_back_is_right_whatever_happens(
        given in parts(),
        script in prop::collection::vec(doing(), 1..STEPS),
    ) {
        let land = Land::new(&given);
        for (number, doing) in (100_u32..).zip(script) {
            let before = land.charge();
            let Some(transition) = decide(&land, &doing, number) else { continue };
            let applied = land.apply(transition);
            let spends = matches!(doing, Doing::NewRefund { .. } | Doing::Spend { .. });
            let lacks = spends && applied == Err(ApplyError::InsufficientFunds);
            prop_assert!(applied.is_ok() || lacks, "{applied:?}");
            check_land(&land, &before);
        }
        // In the end all of it goes back by force.
        while let Some(failed) = end_refund(&land, false) {
            prop_assert_eq!(land.apply(failed), Ok(()));
        }
        let charge = land.charge();
        if let Some(all) = charge.clone().take_back(charge.amount_paid(), land.owner().now()).next() {
            prop_assert_eq!(land.apply(all), Ok(()));
        }
        check_land(&land, &charge);
    }
}

#[tokio::test]
async fn a_split_that_was_read_of_another_time_than_its_charge_is_read_again() {
    let land = Land::new(&[(OTHER, percentage("10"))]);
    let (first, second) = (payment(1, 1_000), payment(2, 500));
    land.apply(next(land.charge().pay(first.clone(), &fixed_fee(PAID_FEE_CENTS), T0))).unwrap();
    let mut provider = MockSettlementProvider::new();
    provider.expect_consult_charge().returning(move |_| {
        Ok(Some(ChargeReport {
            provider_id: provider_id("chg-1"),
            payments: vec![first.clone(), second.clone()],
            refunded: Cents::ZERO,
            canceled: false,
            body: ProviderBody::default(),
        }))
    });
    let (here, mut transitions) = (land.clone(), MockTransitionStore::new());
    transitions.expect_apply().times(1).returning(move |transition| here.apply_whole(&transition));
    // Read before the first payment, and then as it is.
    let (here, mut splits, asked) = (land.clone(), MockSplitStore::new(), AtomicBool::new(false));
    splits.expect_find().times(2).returning(move |owner, id| {
        let again = asked.swap(true, Ordering::SeqCst);
        Ok(here.split(owner, id).filter(|_| again))
    });
    let mut integrators = MockIntegratorStore::new();
    integrators.expect_find().returning(|_| Ok(None));
    let mut ports = land.owner().ports(provider);
    ports.stores.transitions = Arc::new(transitions);
    ports.stores.splits = Arc::new(splits);
    ports.stores.integrators = Arc::new(integrators);
    let service = ChargeService::new(ports);
    let (charge, _) = service.refresh(INTEGRATOR, land.charge().id).await.unwrap();
    assert_eq!(charge.split[0].amount, cents(99 + 49));
    assert_eq!(worth(land.world(OTHER)), 99 + 49);
}
