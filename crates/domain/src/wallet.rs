//! The wallet of an integrator and its double-entry book.
//!
//! Five accounts an integrator, so that no row is ever shared between two of them:
//!
//! | Account | Whose money | Grows by |
//! |---|---|---|
//! | `available` | the integrator's, free to use | charges paid, holds released, returns |
//! | `held` | the integrator's, promised to an operation | withdrawals and refunds accepted |
//! | `clearing` | the mirror of the cash at the provider: minus what came in, plus what went out; a split is no cash and goes through the `clearing` of both its integrators | money going out |
//! | `fees` | ours | fees |
//! | `owed` | what the integrator owes us: never above nothing | debits that can't be refused and are more than `available` |
//!
//! A posting takes from one account and gives the same to another, so the five always sum to zero. The wallet's row
//! keeps `available`, `held` and the debt; a store changes it in the same transaction as the postings.
//!
//! A wallet never has money and a debt side by side: what comes in pays the debt first. So as long as something is owed,
//! nothing is available, and whatever needs money is refused for the lack of it.

pub mod statement;
pub mod store;

use crate::error::ApplyError;
use crate::ids::{IntegratorId, ResourceKind, ResourceRef};
use crate::money::Cents;
use crate::time::Timestamp;

/// One of the five accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// The integrator's money, free to use.
    Available,
    /// The integrator's money, promised to a withdrawal or refund.
    Held,
    /// The mirror of the cash at the provider.
    Clearing,
    /// What the integrator paid us.
    Fees,
    /// What the integrator owes us, as a balance below nothing.
    Owed,
}

impl Account {
    /// All five.
    pub const ALL: [Self; 5] = [Self::Available, Self::Held, Self::Clearing, Self::Fees, Self::Owed];

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Held => "held",
            Self::Clearing => "clearing",
            Self::Fees => "fees",
            Self::Owed => "owed",
        }
    }

    /// The account with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|account| account.as_str() == name)
    }
}

/// Why money moved. Each reason has one pair of accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A PIX came in: clearing → available.
    ChargePaid,
    /// Its fee: available → fees.
    ChargeFee,
    /// Amount and fee of a withdrawal: available → held.
    WithdrawalHold,
    /// The amount went out: held → clearing.
    WithdrawalSettle,
    /// Its fee: held → fees.
    WithdrawalFee,
    /// It failed or was canceled: held → available, fee included.
    WithdrawalRelease,
    /// It came back: clearing → available.
    WithdrawalReturn,
    /// Amount and fee of a refund: available → held.
    RefundHold,
    /// The amount went back: held → clearing.
    RefundSettle,
    /// Its fee: held → fees.
    RefundFee,
    /// It failed: held → available, fee included.
    RefundRelease,
    /// Money left that nobody here sent, as far as it was there: available → clearing. A return that the provider was
    /// forced to make (MED, BCB), with the splits of what it returns, or a withdrawal that was settled after its money was
    /// released.
    ForcedDebit,
    /// The rest of it: owed → clearing.
    ForcedDebitOwed,
    /// What came in pays what is owed: available → owed.
    OwedRepaid,
    /// A part of a payment goes to another integrator: available → clearing.
    SplitGiven,
    /// It comes back, since the payment was sent back: clearing → available.
    SplitGivenBack,
    /// A part of another integrator's payment comes in: clearing → available.
    SplitReceived,
    /// It goes back, since the payment was refunded, as far as it is there: available → clearing.
    SplitTakenBack,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::ChargePaid,
        Self::ChargeFee,
        Self::WithdrawalHold,
        Self::WithdrawalSettle,
        Self::WithdrawalFee,
        Self::WithdrawalRelease,
        Self::WithdrawalReturn,
        Self::RefundHold,
        Self::RefundSettle,
        Self::RefundFee,
        Self::RefundRelease,
        Self::ForcedDebit,
        Self::ForcedDebitOwed,
        Self::OwedRepaid,
        Self::SplitGiven,
        Self::SplitGivenBack,
        Self::SplitReceived,
        Self::SplitTakenBack,
    ];

    /// Records of which kind move money for this reason; `None` when any may.
    pub const fn kind(self) -> Option<ResourceKind> {
        match self {
            Self::ChargePaid | Self::ChargeFee | Self::SplitGiven | Self::SplitGivenBack => {
                Some(ResourceKind::Charge)
            }
            Self::SplitReceived | Self::SplitTakenBack => Some(ResourceKind::Split),
            Self::WithdrawalHold
            | Self::WithdrawalSettle
            | Self::WithdrawalFee
            | Self::WithdrawalRelease
            | Self::WithdrawalReturn => Some(ResourceKind::Withdrawal),
            Self::RefundHold | Self::RefundSettle | Self::RefundFee | Self::RefundRelease => {
                Some(ResourceKind::Refund)
            }
            Self::ForcedDebit | Self::ForcedDebitOwed | Self::OwedRepaid => None,
        }
    }

    /// Where the money is taken from and where it goes.
    pub const fn accounts(self) -> (Account, Account) {
        match self {
            Self::ChargePaid | Self::WithdrawalReturn | Self::SplitGivenBack | Self::SplitReceived => {
                (Account::Clearing, Account::Available)
            }
            Self::ChargeFee => (Account::Available, Account::Fees),
            Self::WithdrawalHold | Self::RefundHold => (Account::Available, Account::Held),
            Self::WithdrawalSettle | Self::RefundSettle => (Account::Held, Account::Clearing),
            Self::WithdrawalFee | Self::RefundFee => (Account::Held, Account::Fees),
            Self::WithdrawalRelease | Self::RefundRelease => (Account::Held, Account::Available),
            Self::ForcedDebit | Self::SplitGiven | Self::SplitTakenBack => {
                (Account::Available, Account::Clearing)
            }
            Self::ForcedDebitOwed => (Account::Owed, Account::Clearing),
            Self::OwedRepaid => (Account::Available, Account::Owed),
        }
    }

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChargePaid => "charge_paid",
            Self::ChargeFee => "charge_fee",
            Self::WithdrawalHold => "withdrawal_hold",
            Self::WithdrawalSettle => "withdrawal_settle",
            Self::WithdrawalFee => "withdrawal_fee",
            Self::WithdrawalRelease => "withdrawal_release",
            Self::WithdrawalReturn => "withdrawal_return",
            Self::RefundHold => "refund_hold",
            Self::RefundSettle => "refund_settle",
            Self::RefundFee => "refund_fee",
            Self::RefundRelease => "refund_release",
            Self::ForcedDebit => "forced_debit",
            Self::ForcedDebitOwed => "forced_debit_owed",
            Self::OwedRepaid => "owed_repaid",
            Self::SplitGiven => "split_given",
            Self::SplitGivenBack => "split_given_back",
            Self::SplitReceived => "split_received",
            Self::SplitTakenBack => "split_taken_back",
        }
    }

    /// The reason with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

/// A movement: takes `amount` from `debit` and gives it to `credit`. Balanced by its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// Where it is taken from.
    pub debit: Account,
    /// Where it goes.
    pub credit: Account,
    /// How much: never zero.
    pub amount: Cents,
    /// Why.
    pub reason: Reason,
    /// For which record.
    pub resource: ResourceRef,
}

impl Posting {
    /// The movement that `reason` stands for; `None` for no money, since nothing moves then.
    pub fn of(reason: Reason, amount: Cents, resource: ResourceRef) -> Option<Self> {
        let (debit, credit) = reason.accounts();
        (!amount.is_zero()).then_some(Self { debit, credit, amount, reason, resource })
    }

    /// What this does to `account`, in centavos: plus, minus or nothing.
    pub fn effect_cents(&self, account: Account) -> i64 {
        match (self.credit == account, self.debit == account) {
            (true, false) => self.amount.get(),
            (false, true) => -self.amount.get(),
            _ => 0,
        }
    }
}

/// A wallet's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wallet {
    /// Free to use.
    pub available: Cents,
    /// Promised.
    pub held: Cents,
    /// What the integrator owes.
    pub owed: Cents,
    /// How many postings the book has.
    pub entries: u64,
}

impl Wallet {
    /// The wallet after `posting`. [`ApplyError::InsufficientFunds`] when it would hold less than nothing (or more than
    /// fits), [`ApplyError::Owing`] when more would be repaid than is owed.
    pub fn after(self, posting: &Posting) -> Result<Self, ApplyError> {
        let moved = |cents: Cents, effect: i64| cents.get().checked_add(effect).and_then(Cents::new);
        let kept =
            |cents, account| moved(cents, posting.effect_cents(account)).ok_or(ApplyError::InsufficientFunds);
        Ok(Self {
            available: kept(self.available, Account::Available)?,
            held: kept(self.held, Account::Held)?,
            owed: moved(self.owed, -posting.effect_cents(Account::Owed)).ok_or(ApplyError::Owing)?,
            entries: self.entries.checked_add(1).ok_or(ApplyError::InsufficientFunds)?,
        })
    }

    /// The wallet, when a transition may leave it so: [`ApplyError::Owing`] when it has money beside a debt.
    pub fn settled(self) -> Result<Self, ApplyError> {
        if self.available.is_zero() || self.owed.is_zero() { Ok(self) } else { Err(ApplyError::Owing) }
    }
}

/// A posting as it stands in the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Whose book.
    pub integrator_id: IntegratorId,
    /// Its number in the book: 1, 2, 3, … without gaps.
    pub number: u64,
    /// The movement.
    pub posting: Posting,
    /// `available` after it.
    pub available_after: Cents,
    /// `held` after it.
    pub held_after: Cents,
    /// When.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn posting(reason: Reason, cents: i64) -> Posting {
        let resource = ResourceRef {
            integrator_id: IntegratorId(Uuid::nil()),
            kind: ResourceKind::Charge,
            id: Uuid::nil(),
        };
        Posting::of(reason, Cents::new(cents).unwrap(), resource).unwrap()
    }

    #[test]
    fn every_reason_moves_between_two_accounts_and_sums_to_zero() {
        for reason in Reason::ALL {
            let posting = posting(reason, 7);
            assert_ne!(posting.debit, posting.credit);
            assert_eq!(Account::ALL.iter().map(|account| posting.effect_cents(*account)).sum::<i64>(), 0);
            assert_eq!(Reason::from_name(reason.as_str()), Some(reason));
        }
        assert_eq!(Account::from_name("held"), Some(Account::Held));
    }

    #[test]
    fn no_money_is_no_posting() {
        let resource = ResourceRef {
            integrator_id: IntegratorId(Uuid::nil()),
            kind: ResourceKind::Charge,
            id: Uuid::nil(),
        };
        assert_eq!(Posting::of(Reason::ChargeFee, Cents::ZERO, resource), None);
    }

    #[test]
    fn a_wallet_never_goes_below_zero_nor_past_its_range() {
        let wallet = Wallet { available: Cents::new(10).unwrap(), ..Wallet::default() };
        let lacking = Err(ApplyError::InsufficientFunds);
        assert_eq!(wallet.after(&posting(Reason::WithdrawalHold, 11)), lacking);
        assert_eq!(wallet.after(&posting(Reason::ChargePaid, i64::MAX)), lacking);
        let after = wallet.after(&posting(Reason::WithdrawalHold, 10)).unwrap();
        assert_eq!((after.available.get(), after.held.get(), after.entries), (0, 10, 1));
    }

    #[test]
    fn a_debt_is_repaid_first_and_never_more_than_is_owed() {
        let owing = Wallet::default().after(&posting(Reason::ForcedDebitOwed, 7)).unwrap();
        assert_eq!((owing.owed.get(), owing.settled()), (7, Ok(owing)));
        let paid = owing.after(&posting(Reason::ChargePaid, 10)).unwrap();
        assert_eq!(paid.settled(), Err(ApplyError::Owing));
        assert_eq!(paid.after(&posting(Reason::OwedRepaid, 8)), Err(ApplyError::Owing));
        let repaid = paid.after(&posting(Reason::OwedRepaid, 7)).unwrap();
        assert_eq!((repaid.available.get(), repaid.owed.get(), repaid.settled()), (3, 0, Ok(repaid)));
    }
}
