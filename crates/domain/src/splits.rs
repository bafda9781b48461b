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
//! side is a [`Split`], a record of its own wallet. Both sides are written in one transition ([`complete`]), so money is
//! never on its way between two wallets.
//!
//! **Who bears what is not there any more.** A refund is the owner's doing: it takes of a recipient what that one has, and
//! the rest stays with the owner, until a further refund of the charge finds more. Else whoever owns two integrators could
//! have the same money refunded again and again, at the gateway's cost. What the provider was forced to send back (MED,
//! BCB) is nobody's doing: it is forced out of each recipient too, and what that one lacks is owed.
//!
//! **The rules of centavos**: fixed amounts are filled first, in order, once for the charge; percentages are of each
//! payment's net amount, rounded down; nobody gets more than is left. So the odd centavos are the owner's. Of a share,
//! `share × sent back / paid` is taken back, rounded up: the odd centavo goes back to the owner, who sent the whole
//! centavo back, and a full refund takes all of it.

pub mod service;
pub mod store;

use crate::error::ApplyError;
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
        if share.recipient == owner {
            return refuse(format!("split.{index} must not name the charge's own integrator"));
        }
        if shares.iter().take(index).any(|other| other.recipient == share.recipient) {
            return refuse(format!("split.{index} must not name a recipient twice"));
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

/// Takes of every share what belongs to the `sent_back` of the `paid`, for a refund. What was taken before is never given
/// again.
pub fn take_back(shares: &mut [Share], paid: Cents, sent_back: Cents) {
    for share in shares {
        let part = part_of(share.amount, sent_back, paid);
        share.taken_back = share.taken_back.max(part).min(share.amount);
    }
}

/// Takes of every share what belongs to what the provider took back of the `paid`: `before` so far, and `after` now. What
/// refunds could not take is no part of that.
pub fn force_back(shares: &mut [Share], paid: Cents, before: Cents, after: Cents) {
    for share in shares {
        let part = part_of(share.amount, after, paid).checked_sub(part_of(share.amount, before, paid));
        let taken = part.and_then(|part| share.taken_back.checked_add(part)).unwrap_or(share.taken_back);
        share.taken_back = taken.min(share.amount);
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
        if let Some(more) = after.kept().checked_sub(before.kept()) {
            return Posting::of(Reason::SplitGiven, more, charge);
        }
        let less = before.kept().checked_sub(after.kept()).unwrap_or(Cents::ZERO);
        Posting::of(Reason::SplitGivenBack, less, charge)
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

/// The recipient's side of a share, as it is before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Its split, once there is one.
    pub split: Option<Split>,
    /// What is available in its wallet.
    pub available: Cents,
    /// Where it is told of splits.
    pub postback_url: Option<PostbackUrl>,
}

impl Side {
    fn kept(&self) -> Cents {
        self.split.as_ref().map_or(Cents::ZERO, Split::kept)
    }
}

/// `transition` with the recipients' side of what its charge gives or takes back: a part for each of them whose money
/// moves. `sides` are those of the charge's shares, in order. What a recipient doesn't have stays with it, unless it is
/// forced out of it.
///
/// [`ApplyError::Stale`] when the sides are of another time than the charge.
pub fn complete(mut transition: Transition, sides: &[Side]) -> Result<Transition, ApplyError> {
    let at = transition.at;
    let mut parts = Vec::new();
    let mut given_back = Vec::new();
    let mut moved = 0_i128;
    for write in &mut transition.writes {
        let Record::Charge(charge) = &mut write.record else { continue };
        let (resource, from, charge_id) = (charge.resource(), charge.integrator_id, charge.id);
        let forced = write.event == EventKind::ChargeTakenBack;
        for (share, side) in charge.split.iter_mut().zip(sides) {
            let before = side.kept();
            moved = moved.saturating_add(i128::from(share.kept().get()) - i128::from(before.get()));
            if let Some(less) = before.checked_sub(share.kept()).filter(|_| !forced) {
                let lacking = less.checked_sub(side.available).unwrap_or(Cents::ZERO);
                share.taken_back = share.taken_back.checked_sub(lacking).unwrap_or(Cents::ZERO);
            }
            let back = before.checked_sub(share.kept()).unwrap_or(Cents::ZERO);
            given_back.extend(Posting::of(Reason::SplitGivenBack, back, resource));
            parts.extend(follow(side.clone(), share, (from, charge_id), forced, at));
        }
    }
    let given = transition.postings.iter().fold(0_i128, |sum, posting| match posting.reason {
        Reason::SplitGiven => sum.saturating_add(posting.amount.get().into()),
        Reason::SplitGivenBack => sum.saturating_sub(posting.amount.get().into()),
        _ => sum,
    });
    if given != moved {
        return Err(ApplyError::Stale);
    }
    // In the place of those of the whole shares.
    let mut given_back = given_back.into_iter();
    let mut postings = Vec::with_capacity(transition.postings.len());
    for posting in transition.postings {
        if posting.reason == Reason::SplitGivenBack {
            postings.extend(given_back.by_ref());
        } else {
            postings.push(posting);
        }
    }
    Ok(Transition { postings, parts, ..transition })
}

/// The recipient's side of `share`: its split, made or changed to be as the share says, and its money. `None` when nothing
/// moves.
pub(crate) fn follow(
    side: Side,
    share: &Share,
    (from, charge_id): (IntegratorId, ChargeId),
    forced: bool,
    now: Timestamp,
) -> Option<Transition> {
    let before = side.kept();
    let (event, reason, moved) = if let Some(more) = share.kept().checked_sub(before) {
        (EventKind::SplitReceived, Reason::SplitReceived, more)
    } else {
        let reason = if forced { Reason::ForcedDebit } else { Reason::SplitTakenBack };
        (EventKind::SplitTakenBack, reason, before.checked_sub(share.kept())?)
    };
    if moved.is_zero() {
        return None;
    }
    let guard = side.split.as_ref().map_or(Guard::Absent, |split| Guard::At(split.version));
    let split = match side.split {
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
            from,
            charge_id,
            amount: share.amount,
            taken_back: share.taken_back,
            postback_url: side.postback_url,
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
    fn what_is_forced_back_takes_its_own_part_and_no_more() {
        let mut shares = shares([percent(1, "50")]);
        pay(&mut shares, cents(1_000));
        // A refund of 900 found nothing.
        force_back(&mut shares, cents(1_000), Cents::ZERO, cents(33));
        force_back(&mut shares, cents(1_000), cents(33), cents(100));
        assert_eq!(kept(&shares), [450]);
        take_back(&mut shares, cents(1_000), cents(1_000));
        force_back(&mut shares, cents(1_000), cents(100), cents(200));
        assert_eq!(kept(&shares), [0]);
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
            ("split.1 must not name a recipient twice", vec![percent(1, "1"), fixed(1, 1)]),
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

    fn owned(event: EventKind, split: Vec<Share>, postings: Vec<Posting>) -> Transition {
        let now = Timestamp::from_micros(1);
        let amount = Amount::from_cents(1_000).unwrap();
        let new = crate::charges::NewCharge {
            id: ChargeId(Uuid::from_u128(9)),
            integrator_id: owner(),
            external_id: crate::text::ExternalId::parse("a").unwrap(),
            external_id_given: true,
            amount,
            payer: crate::provider::Party { name: None, document: None },
            payer_email: None,
            payer_question: None,
            metadata: crate::metadata::Metadata::default(),
            postback_url: None,
            postback_scope: crate::postbacks::events::PostbackScope::Outcomes,
            expires_in: std::time::Duration::from_mins(50),
            fee_version: 0,
            split,
        };
        let mut begun = crate::charges::state::begin(new, now).post(postings);
        begun.writes[0].event = event;
        begun
    }

    fn side(split: Option<Split>, available: i64) -> Side {
        Side { split, available: cents(available), postback_url: None }
    }

    fn split_in(transition: &Transition) -> Split {
        let Record::Split(split) = transition.parts[0].writes[0].record.clone() else {
            panic!("{transition:?}")
        };
        *split
    }

    #[test]
    fn both_sides_move_the_same_and_a_refund_takes_what_is_there() {
        let resource =
            ResourceRef { integrator_id: owner(), kind: ResourceKind::Charge, id: Uuid::from_u128(9) };
        let none = shares([percent(1, "10")]);
        let mut paid = none.clone();
        pay(&mut paid, cents(1_000));
        let given = postings(&none, &paid, resource);
        assert_eq!(given, [Posting::of(Reason::SplitGiven, cents(100), resource).unwrap()]);
        let payment = owned(EventKind::ChargePaid, paid.clone(), given);
        let whole = complete(payment.clone(), &[side(None, 0)]).unwrap();
        assert_eq!(whole.check_shape(), Ok(()));
        let split = split_in(&whole);
        assert_eq!(whole.parts[0].postings[0].amount, cents(100));
        // Read again after it: of another time than the charge.
        assert_eq!(complete(payment, &[side(Some(split.clone()), 100)]), Err(ApplyError::Stale));

        let mut back = paid.clone();
        take_back(&mut back, cents(1_000), cents(500));
        let given_back = postings(&paid, &back, resource);
        assert_eq!(given_back, [Posting::of(Reason::SplitGivenBack, cents(50), resource).unwrap()]);
        for (event, available, taken, reason) in [
            (EventKind::ChargeRefunded, 100, 50, Reason::SplitTakenBack),
            (EventKind::ChargeRefunded, 20, 20, Reason::SplitTakenBack),
            (EventKind::ChargeTakenBack, 20, 50, Reason::ForcedDebit),
        ] {
            let refund = owned(event, back.clone(), given_back.clone());
            let whole = complete(refund, &[side(Some(split.clone()), available)]).unwrap();
            assert_eq!(whole.check_shape(), Ok(()));
            let of_owner = Posting::of(Reason::SplitGivenBack, cents(taken), resource).unwrap();
            assert_eq!(whole.postings, [of_owner]);
            assert_eq!(whole.charge().unwrap().split[0].taken_back, cents(taken));
            assert_eq!(split_in(&whole).taken_back, cents(taken));
            let of_recipient = whole.parts[0].postings[0];
            assert_eq!((of_recipient.reason, of_recipient.amount), (reason, cents(taken)));
        }
        let refund = owned(EventKind::ChargeRefunded, back, given_back);
        let whole = complete(refund, &[side(Some(split), 0)]).unwrap();
        assert_eq!((whole.check_shape(), whole.parts, whole.postings), (Ok(()), Vec::new(), Vec::new()));
    }
}
