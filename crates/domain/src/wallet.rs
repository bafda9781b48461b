//! The wallet of an integrator and its double-entry book.
//!
//! Four accounts an integrator, so that no row is ever shared between two of them:
//!
//! | Account | Whose money | Grows by |
//! |---|---|---|
//! | `available` | the integrator's, free to use | charges paid, holds released, returns |
//! | `held` | the integrator's, promised to an operation | withdrawals and refunds accepted |
//! | `clearing` | the mirror of the cash at the provider: minus what came in, plus what went out | money going out |
//! | `fees` | ours | fees |
//!
//! A posting takes from one account and gives the same to another, so the four always sum to zero. The wallet's row
//! keeps `available` and `held`; a store changes it in the same transaction as the postings.

pub mod store;

use crate::ids::{IntegratorId, ResourceKind, ResourceRef};
use crate::money::Cents;
use crate::time::Timestamp;

/// One of the four accounts.
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
}

impl Account {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Available, Self::Held, Self::Clearing, Self::Fees];

    /// The stable name, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Held => "held",
            Self::Clearing => "clearing",
            Self::Fees => "fees",
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
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 11] = [
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
    ];

    /// Records of which kind move money for this reason.
    pub const fn kind(self) -> ResourceKind {
        match self {
            Self::ChargePaid | Self::ChargeFee => ResourceKind::Charge,
            Self::WithdrawalHold
            | Self::WithdrawalSettle
            | Self::WithdrawalFee
            | Self::WithdrawalRelease
            | Self::WithdrawalReturn => ResourceKind::Withdrawal,
            Self::RefundHold | Self::RefundSettle | Self::RefundFee | Self::RefundRelease => {
                ResourceKind::Refund
            }
        }
    }

    /// Where the money is taken from and where it goes.
    pub const fn accounts(self) -> (Account, Account) {
        match self {
            Self::ChargePaid | Self::WithdrawalReturn => (Account::Clearing, Account::Available),
            Self::ChargeFee => (Account::Available, Account::Fees),
            Self::WithdrawalHold | Self::RefundHold => (Account::Available, Account::Held),
            Self::WithdrawalSettle | Self::RefundSettle => (Account::Held, Account::Clearing),
            Self::WithdrawalFee | Self::RefundFee => (Account::Held, Account::Fees),
            Self::WithdrawalRelease | Self::RefundRelease => (Account::Held, Account::Available),
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
    /// How many postings the book has.
    pub entries: u64,
}

impl Wallet {
    /// The wallet after `posting`, or `None` when it would hold less than nothing.
    #[must_use]
    pub fn after(self, posting: &Posting) -> Option<Self> {
        let moved = |cents: Cents, account| {
            cents.get().checked_add(posting.effect_cents(account)).and_then(Cents::new)
        };
        Some(Self {
            available: moved(self.available, Account::Available)?,
            held: moved(self.held, Account::Held)?,
            entries: self.entries.checked_add(1)?,
        })
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
        assert_eq!(wallet.after(&posting(Reason::WithdrawalHold, 11)), None);
        assert_eq!(wallet.after(&posting(Reason::ChargePaid, i64::MAX)), None);
        let after = wallet.after(&posting(Reason::WithdrawalHold, 10)).unwrap();
        assert_eq!((after.available.get(), after.held.get(), after.entries), (0, 10, 1));
    }
}
