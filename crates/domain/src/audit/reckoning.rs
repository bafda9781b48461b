//! Following a book entry by entry: what each must be, given all before it.
//!
//! One rule for whoever reads a book: the audit, from its beginning, and [`seals`](crate::seals), from the newest seal.

use thiserror::Error;

use crate::ids::IntegratorId;
use crate::wallet::{Account, Entry, Wallet};

/// What is wrong with an entry, by the place where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EntryFault {
    /// Another number is to come.
    #[error("entry {found} stands where {expected} should")]
    OutOfPlace {
        /// The number it has.
        found: u64,
        /// The number that comes after the one before.
        expected: u64,
    },
    /// It is in another integrator's book, or about another's record.
    #[error("entry {0} is another integrator's")]
    Foreign(u64),
    /// It has no amount, or one account.
    #[error("entry {0} moves nothing")]
    MovesNothing(u64),
    /// Its reason moves between other accounts.
    #[error("entry {0} uses other accounts than its reason calls for")]
    OtherAccounts(u64),
    /// Its reason is of another kind of record.
    #[error("entry {0} is for another kind of record than its reason is")]
    OtherKind(u64),
    /// It takes what isn't there, or repays what isn't owed: the book can't be followed any further.
    #[error("entry {0} takes a balance below zero")]
    BelowZero(u64),
    /// The balances that it says aren't those before it and its amount.
    #[error("the balances after entry {0} do not follow from those before")]
    NotFollowing(u64),
}

/// What a book comes to at one of its entries: the sums of the five accounts up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reckoning {
    /// The wallet as the entries say; its `entries` is the number of the last one.
    pub wallet: Wallet,
    /// What the integrator paid us, in centavos.
    pub fees: i64,
    /// The mirror of the cash at the provider, in centavos.
    pub clearing: i64,
}

impl Reckoning {
    /// Goes on with `entry` of the book of `owner`; what is wrong with it, nothing when it is right. After
    /// [`EntryFault::BelowZero`], which comes last, nothing has changed.
    pub fn follow(&mut self, owner: IntegratorId, entry: &Entry) -> Vec<EntryFault> {
        let expected = self.wallet.entries.saturating_add(1);
        let posting = &entry.posting;
        let wrong = [
            (entry.number != expected, EntryFault::OutOfPlace { found: entry.number, expected }),
            (
                entry.integrator_id != owner || posting.resource.integrator_id != owner,
                EntryFault::Foreign(expected),
            ),
            (posting.amount.is_zero() || posting.debit == posting.credit, EntryFault::MovesNothing(expected)),
            (
                (posting.debit, posting.credit) != posting.reason.accounts(),
                EntryFault::OtherAccounts(expected),
            ),
            (
                posting.reason.kind().is_some_and(|kind| kind != posting.resource.kind),
                EntryFault::OtherKind(expected),
            ),
        ];
        let mut faults: Vec<_> = wrong.into_iter().filter(|(is, _)| *is).map(|(_, fault)| fault).collect();
        let Ok(after) = self.wallet.after(posting) else {
            faults.push(EntryFault::BelowZero(expected));
            return faults;
        };
        if (entry.available_after, entry.held_after) != (after.available, after.held) {
            faults.push(EntryFault::NotFollowing(expected));
        }
        self.wallet = after;
        self.fees = self.fees.saturating_add(posting.effect_cents(Account::Fees));
        self.clearing = self.clearing.saturating_add(posting.effect_cents(Account::Clearing));
        faults
    }

    /// Whether the five accounts sum to zero.
    pub fn is_balanced(&self) -> bool {
        let Wallet { available, held, owed, .. } = self.wallet;
        let kept = [available.get(), held.get(), self.fees, self.clearing];
        kept.into_iter().map(i128::from).sum::<i128>() == i128::from(owed.get())
    }
}
