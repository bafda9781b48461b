//! Splits: parts of a charge's payments that go to other integrators' wallets.
//!
//! | Module | Room |
//! |---|---|
//! | this one | what a part is worth, and what it leaves after refunds |
//! | [`store`] | the port that recipients' splits are read from |
//! | [`service`] | the use cases |
//!
//! A charge names its [`Share`]s when it is made. Each payment gives every recipient its part of what the payment brings
//! net of its fee; a refund, or what the provider takes back, takes the same part of each share back. The recipient's
//! side is a [`Split`], a record of its own wallet. Both sides are written in one transition, so money is never on its way
//! between two wallets.
//!
//! **The rules of centavos**: fixed amounts are filled first, in order, once for the charge; percentages are of each
//! payment's net amount, rounded down; nobody gets more than is left. So the odd centavos are the owner's. Of a share,
//! `share × sent back / paid` is taken back, rounded up: the odd centavo goes back to the owner, who sent the whole
//! centavo back, and a full refund takes all of it.

pub mod service;
pub mod store;

use crate::fees::Percent;
use crate::ids::{ChargeId, IntegratorId, ResourceKind, ResourceRef, SplitId, Version};
use crate::invalid::Invalid;
use crate::money::{Amount, Cents};
use crate::text::PostbackUrl;
use crate::time::Timestamp;
use crate::transition::{EventKind, Guard, Record, Transition};
use crate::wallet::{Posting, Reason};

/// The most recipients of one charge.
pub const MAX_SHARES: usize = 10;

/// What part of a charge's payments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Of what each payment brings, net of its fee.
    Percentage(Percent),
    /// This much, once for the charge.
    Amount(Amount),
}

/// A part that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShare {
    /// Who is to get it.
    pub recipient: IntegratorId,
    /// How much.
    pub part: Part,
}

/// A recipient's part of a charge, and what came of it so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The recipient's record, once there is one.
    pub split_id: SplitId,
    /// Whose part.
    pub recipient: IntegratorId,
    /// How much.
    pub part: Part,
    /// What the payments brought it.
    pub amount: Cents,
    /// What of that was taken back.
    pub taken_back: Cents,
}

impl Share {
    /// A share that has brought nothing yet.
    pub fn new(split_id: SplitId, new: NewShare) -> Self {
        let NewShare { recipient, part } = new;
        Self { split_id, recipient, part, amount: Cents::ZERO, taken_back: Cents::ZERO }
    }

    /// What the recipient has of it.
    pub fn kept(&self) -> Cents {
        // Never more is taken back than came.
        self.amount.checked_sub(self.taken_back).unwrap_or(Cents::ZERO)
    }

    fn asks_for(&self, new: &NewShare) -> bool {
        self.recipient == new.recipient && self.part == new.part
    }
}

/// Whether `shares` are those that `asked` asks for.
pub fn are_asked_for(shares: &[Share], asked: &[NewShare]) -> bool {
    shares.len() == asked.len() && shares.iter().zip(asked).all(|(share, new)| share.asks_for(new))
}

/// What is wrong with these parts of a payment that brings `net`, whoever gets them.
pub fn check(owner: IntegratorId, shares: &[NewShare], net: Cents) -> Result<(), Invalid> {
    let refuse = |message: String| Err(Invalid::new(Invalid::INVALID_FORMAT, message));
    if shares.len() > MAX_SHARES {
        return refuse(format!("must name at most {MAX_SHARES} recipients"));
    }
    for (index, share) in shares.iter().enumerate() {
        let number = index.saturating_add(1);
        if share.recipient == owner {
            return refuse(format!("recipient {number} is the charge's own integrator"));
        }
        if shares.iter().take(index).any(|other| other.recipient == share.recipient) {
            return refuse(format!("recipient {number} is named twice"));
        }
    }
    let percent = shares.iter().fold(Percent::zero(), |sum, share| match &share.part {
        Part::Percentage(percent) => sum.plus(percent),
        Part::Amount(_) => sum,
    });
    if !percent.is_within_whole() {
        return refuse("the percentages must not sum above 100".to_owned());
    }
    let asked = shares.iter().try_fold(Cents::ZERO, |sum, share| {
        sum.checked_add(match &share.part {
            Part::Percentage(percent) => percent.floor_of(net),
            Part::Amount(amount) => amount.cents(),
        })
    });
    if asked.is_none_or(|asked| asked > net) {
        return refuse(format!("the parts must not sum above the net amount of the charge, {net}"));
    }
    Ok(())
}

/// Gives every share its part of a payment that brought `net`.
pub fn pay(shares: &mut [Share], net: Cents) {
    let mut left = net;
    let mut give = |share: &mut Share, part: Cents| {
        let part = part.min(left);
        if let (Some(amount), Some(rest)) = (share.amount.checked_add(part), left.checked_sub(part)) {
            (share.amount, left) = (amount, rest);
        }
    };
    for share in &mut *shares {
        if let Part::Amount(amount) = &share.part {
            let open = amount.cents().checked_sub(share.amount).unwrap_or(Cents::ZERO);
            give(share, open);
        }
    }
    for share in shares {
        if let Part::Percentage(percent) = &share.part {
            let part = percent.floor_of(net);
            give(share, part);
        }
    }
}

/// Takes of every share what belongs to the `sent_back` of the `paid`. What was taken before is never given again.
pub fn take_back(shares: &mut [Share], paid: Cents, sent_back: Cents) {
    for share in shares {
        let part = part_of(share.amount, sent_back, paid);
        share.taken_back = share.taken_back.max(part).min(share.amount);
    }
}

/// `amount × part / whole`, rounded up; nothing of nothing.
fn part_of(amount: Cents, part: Cents, whole: Cents) -> Cents {
    let (amount, part, whole) = (i128::from(amount.get()), i128::from(part.get()), i128::from(whole.get()));
    let product = amount.saturating_mul(part);
    let quotient = product.checked_div(whole).unwrap_or(0);
    let odd = i128::from(product.checked_rem(whole).unwrap_or(0) != 0);
    i64::try_from(quotient.saturating_add(odd)).ok().and_then(Cents::new).unwrap_or(Cents::ZERO)
}

/// The owner's movements that lead from `before` to `after`: what is given to recipients, and what comes back from them.
pub fn postings(before: &[Share], after: &[Share], charge: ResourceRef) -> Vec<Posting> {
    let moved = |(before, after): (&Share, &Share)| {
        let more = after.kept().checked_sub(before.kept());
        match more {
            Some(more) => Posting::of(Reason::SplitGiven, more, charge),
            None => {
                let less = before.kept().checked_sub(after.kept()).unwrap_or(Cents::ZERO);
                Posting::of(Reason::SplitGivenBack, less, charge)
            }
        }
    };
    before.iter().zip(after).filter_map(moved).collect()
}

/// A recipient's part of somebody else's charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Its public id; the charge's share names it too.
    pub id: SplitId,
    /// Whose it is: the recipient.
    pub integrator_id: IntegratorId,
    /// Goes up with every change.
    pub version: Version,
    /// Whose charge it is a part of.
    pub from: IntegratorId,
    /// That charge. Never shown to the recipient.
    pub charge_id: ChargeId,
    /// What it brought.
    pub amount: Cents,
    /// What of that was taken back.
    pub taken_back: Cents,
    /// Where events go: what the recipient had set when the split came to be.
    pub postback_url: Option<PostbackUrl>,
    /// When it came to be.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Split {
    /// What this is.
    pub const fn resource(&self) -> ResourceRef {
        ResourceRef { integrator_id: self.integrator_id, kind: ResourceKind::Split, id: self.id.0 }
    }

    /// What the recipient has of it.
    pub fn kept(&self) -> Cents {
        self.amount.checked_sub(self.taken_back).unwrap_or(Cents::ZERO)
    }
}

/// Where a new split comes from and goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whose charge.
    pub from: IntegratorId,
    /// Which.
    pub charge_id: ChargeId,
    /// Where the recipient is told of splits.
    pub postback_url: Option<PostbackUrl>,
}

/// The recipient's side of `share`: its split, made or changed to be as the share says, and its money. What is taken back
/// can't be refused: what the wallet lacks is owed. `None` when nothing moves.
pub fn follow(known: Option<Split>, share: &Share, origin: Origin, now: Timestamp) -> Option<Transition> {
    let before = known.as_ref().map_or(Cents::ZERO, Split::kept);
    let (event, reason, moved) = match share.kept().checked_sub(before) {
        Some(more) => (EventKind::SplitReceived, Reason::SplitReceived, more),
        None => (EventKind::SplitTakenBack, Reason::ForcedDebit, before.checked_sub(share.kept())?),
    };
    if moved.is_zero() {
        return None;
    }
    let guard = known.as_ref().map_or(Guard::Absent, |split| Guard::At(split.version));
    let split = match known {
        Some(split) => Split {
            version: split.version.next(),
            amount: share.amount,
            taken_back: share.taken_back,
            updated_at: now,
            ..split
        },
        None => Split {
            id: share.split_id,
            integrator_id: share.recipient,
            version: Version::FIRST,
            from: origin.from,
            charge_id: origin.charge_id,
            amount: share.amount,
            taken_back: share.taken_back,
            postback_url: origin.postback_url,
            created_at: now,
            updated_at: now,
        },
    };
    let resource = split.resource();
    Some(
        Transition::new(share.recipient, now)
            .write(guard, Record::Split(Box::new(split)), event, None)
            .post(Posting::of(reason, moved, resource)),
    )
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn cents(cents: i64) -> Cents {
        Cents::new(cents).unwrap()
    }

    fn owner() -> IntegratorId {
        IntegratorId(Uuid::nil())
    }

    fn percent(recipient: u128, percent: &str) -> NewShare {
        NewShare {
            recipient: IntegratorId(Uuid::from_u128(recipient)),
            part: Part::Percentage(Percent::parse(percent).unwrap()),
        }
    }

    fn fixed(recipient: u128, cents: i64) -> NewShare {
        NewShare {
            recipient: IntegratorId(Uuid::from_u128(recipient)),
            part: Part::Amount(Amount::from_cents(cents).unwrap()),
        }
    }

    fn shares(new: impl IntoIterator<Item = NewShare>) -> Vec<Share> {
        let numbered = new.into_iter().zip(100_u128..);
        numbered.map(|(new, id)| Share::new(SplitId(Uuid::from_u128(id)), new)).collect()
    }

    fn kept(shares: &[Share]) -> Vec<i64> {
        shares.iter().map(|share| share.kept().get()).collect()
    }

    #[test]
    fn fixed_parts_are_filled_first_and_percentages_are_rounded_down() {
        let mut shares = shares([percent(1, "33.3333"), fixed(2, 100), percent(3, "50")]);
        pay(&mut shares, cents(1_001));
        assert_eq!(kept(&shares), [333, 100, 500]);
        // Fixed parts are for the whole charge, percentages for each payment.
        pay(&mut shares, cents(10));
        assert_eq!(kept(&shares), [336, 100, 505]);
    }

    #[test]
    fn nobody_gets_more_than_a_payment_brings() {
        let mut shares = shares([percent(1, "100"), fixed(2, 100), fixed(3, 100)]);
        pay(&mut shares, cents(150));
        assert_eq!(kept(&shares), [0, 100, 50]);
        pay(&mut shares, cents(60));
        assert_eq!(kept(&shares), [10, 100, 100]);
        pay(&mut shares, Cents::ZERO);
        assert_eq!(kept(&shares), [10, 100, 100]);
    }

    #[test]
    fn a_refund_takes_its_part_rounded_up_and_the_whole_takes_all() {
        let mut shares = shares([percent(1, "10"), percent(2, "33.33")]);
        pay(&mut shares, cents(1_000));
        assert_eq!(kept(&shares), [100, 333]);
        take_back(&mut shares, cents(1_000), cents(1));
        assert_eq!(kept(&shares), [99, 332]);
        // By the sum, not refund by refund: a hundred refunds of a centavo take no more than one of a real.
        for sent_back in 2..=100 {
            take_back(&mut shares, cents(1_000), cents(sent_back));
        }
        assert_eq!(kept(&shares), [90, 299]);
        take_back(&mut shares, cents(1_000), cents(1_000));
        assert_eq!(kept(&shares), [0, 0]);
    }

    #[test]
    fn a_later_payment_gives_its_own_part_and_nothing_of_what_was_taken_back() {
        // A fee of 50 each: the first payment of 100 brings 50 and is refunded, the second one of 60 brings 10.
        let mut shares = shares([percent(1, "100")]);
        pay(&mut shares, cents(50));
        take_back(&mut shares, cents(100), cents(100));
        assert_eq!(kept(&shares), [0]);
        pay(&mut shares, cents(10));
        take_back(&mut shares, cents(160), cents(100));
        assert_eq!(kept(&shares), [10]);
    }

    #[test]
    fn what_can_not_be_paid_is_refused() {
        let myself = NewShare { recipient: owner(), ..percent(1, "1") };
        for (what, shares) in [
            ("own integrator", vec![myself]),
            ("named twice", vec![percent(1, "1"), fixed(1, 1)]),
            ("above 100", vec![percent(1, "60"), percent(2, "40.0001")]),
            ("net amount", vec![fixed(1, 1_001)]),
            ("net amount", vec![fixed(1, 501), percent(2, "50")]),
            ("at most 10", (1..=11).map(|recipient| percent(recipient, "1")).collect()),
        ] {
            let refused = check(owner(), &shares, cents(1_000)).unwrap_err();
            assert!(refused.message.contains(what), "{what}: {refused}");
        }
        assert_eq!(check(owner(), &[fixed(1, 500), percent(2, "50")], cents(1_000)), Ok(()));
        assert_eq!(check(owner(), &[percent(1, "60"), percent(2, "40")], cents(3)), Ok(()));
    }

    #[test]
    fn shares_and_their_splits_move_the_same() {
        let charge_id = ChargeId(Uuid::from_u128(9));
        let resource = ResourceRef { integrator_id: owner(), kind: ResourceKind::Charge, id: charge_id.0 };
        let origin = Origin { from: owner(), charge_id, postback_url: None };
        let now = Timestamp::from_micros(1);
        let none = shares([percent(1, "10")]);
        let mut paid = none.clone();
        pay(&mut paid, cents(1_000));
        let given = postings(&none, &paid, resource);
        assert_eq!(given, [Posting::of(Reason::SplitGiven, cents(100), resource).unwrap()]);
        let received = follow(None, &paid[0], origin.clone(), now).unwrap();
        assert_eq!(received.postings[0].amount, cents(100));
        let Record::Split(split) = received.writes[0].record.clone() else { panic!("{received:?}") };
        assert_eq!(follow(Some(*split.clone()), &paid[0], origin.clone(), now), None);

        let mut back = paid.clone();
        take_back(&mut back, cents(1_000), cents(500));
        let given_back = postings(&paid, &back, resource);
        assert_eq!(given_back, [Posting::of(Reason::SplitGivenBack, cents(50), resource).unwrap()]);
        let taken = follow(Some(*split), &back[0], origin, now).unwrap();
        assert_eq!((taken.writes[0].event, taken.postings[0].amount), (EventKind::SplitTakenBack, cents(50)));
        assert_eq!(taken.writes[0].guard, Guard::At(Version::FIRST));
        assert!(taken.is_forced());
    }
}
