//! Fees: what an integrator pays for each operation.
//!
//! **The one rounding rule**: the percentage part is rounded to the centavo, half up, once, before the fixed part is
//! added; then minimum and maximum apply. A fee is computed once, from a numbered version of the integrator's
//! schedule, and both the fee and that number are stored with the transaction, so that a later change of the schedule
//! never changes what a running operation costs or gives back.

use async_trait::async_trait;
use bigdecimal::{BigDecimal, RoundingMode, ToPrimitive};

use crate::error::StoreError;
use crate::ids::IntegratorId;
use crate::invalid::Invalid;
use crate::money::{Amount, Cents};
use crate::time::Timestamp;

/// The most decimals a percentage may have.
pub const MAX_PERCENT_DECIMALS: i64 = 4;

/// What a fee is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A charge that was paid.
    CashIn,
    /// A withdrawal.
    CashOut,
    /// A refund.
    Refund,
}

/// A share in percent: 0 to 100 with at most four decimals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percent(BigDecimal);

impl Percent {
    /// No share at all.
    pub fn zero() -> Self {
        Self(BigDecimal::from(0))
    }

    /// Reads `1.5` as one and a half per cent.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = || {
            Invalid::new(
                "invalid_format",
                "must be a percentage from 0 to 100 with at most 4 decimals, such as 1.5",
            )
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str, most: usize| {
            (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, 3) || !digits(fraction, 4) {
            return Err(refuse());
        }
        match text.parse::<BigDecimal>() {
            Ok(value) if value <= 100 => Ok(Self(value.normalized())),
            _ => Err(refuse()),
        }
    }

    /// This share of `amount`, rounded half up to the centavo.
    pub fn of(&self, amount: Cents) -> Cents {
        let exact = BigDecimal::from(amount.get()) * &self.0 / BigDecimal::from(100);
        let rounded = exact.with_scale_round(0, RoundingMode::HalfUp).to_i64();
        rounded.and_then(Cents::new).unwrap_or(amount)
    }

    /// This share of `amount`, rounded down to the centavo.
    pub fn floor_of(&self, amount: Cents) -> Cents {
        let exact = BigDecimal::from(amount.get()) * &self.0 / BigDecimal::from(100);
        let rounded = exact.with_scale_round(0, RoundingMode::Floor).to_i64();
        rounded.and_then(Cents::new).unwrap_or(Cents::ZERO)
    }

    /// The sum of two shares, which may be more than the whole.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(&self.0 + &other.0)
    }

    /// Whether it is no more than the whole.
    pub fn is_within_whole(&self) -> bool {
        self.0 <= 100
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// The number, in per cent.
    pub const fn as_decimal(&self) -> &BigDecimal {
        &self.0
    }

    /// The number without exponent: `1.5`.
    pub fn plain(&self) -> String {
        self.0.to_plain_string()
    }
}

/// How one operation is charged for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeRule {
    /// Added to every operation.
    pub fixed: Cents,
    /// Share of the amount.
    pub percent: Percent,
    /// At least this much.
    pub min: Cents,
    /// At most this much.
    pub max: Option<Cents>,
}

impl FeeRule {
    /// Free of charge.
    pub fn free() -> Self {
        Self { fixed: Cents::ZERO, percent: Percent::zero(), min: Cents::ZERO, max: None }
    }

    /// A rule whose maximum is not below its minimum.
    pub fn new(fixed: Cents, percent: Percent, min: Cents, max: Option<Cents>) -> Result<Self, Invalid> {
        if max.is_some_and(|max| max < min) {
            return Err(Invalid::new("invalid_format", "the maximum of a fee must not be below its minimum"));
        }
        Ok(Self { fixed, percent, min, max })
    }

    /// The fee for `amount`.
    pub fn fee(&self, amount: Amount) -> Cents {
        let share = self.percent.of(amount.cents());
        let sum = self.fixed.checked_add(share).unwrap_or(share).max(self.min);
        self.max.map_or(sum, |max| sum.min(max))
    }

    /// The fee for `amount` when it is taken out of that very amount: never more than all of it.
    pub fn fee_within(&self, amount: Amount) -> Cents {
        self.fee(amount).min(amount.cents())
    }
}

/// The fees of one integrator. Version 0 is the default of those for whom none was ever set: all free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeSchedule {
    /// Goes up by one with every change; stored with each transaction.
    pub version: u32,
    /// For a paid charge; taken from what was paid.
    pub cash_in: FeeRule,
    /// For a withdrawal; on top of the amount.
    pub cash_out: FeeRule,
    /// For a refund; on top of the amount.
    pub refund: FeeRule,
}

impl FeeSchedule {
    /// All free, version 0.
    pub fn free() -> Self {
        Self { version: 0, cash_in: FeeRule::free(), cash_out: FeeRule::free(), refund: FeeRule::free() }
    }

    /// The rule for `operation`.
    pub const fn rule(&self, operation: Operation) -> &FeeRule {
        match operation {
            Operation::CashIn => &self.cash_in,
            Operation::CashOut => &self.cash_out,
            Operation::Refund => &self.refund,
        }
    }
}

/// Where fee schedules are kept.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait FeeStore: Send + Sync {
    /// The schedule in force. MUST be [`FeeSchedule::free`] when none was ever set.
    async fn current(&self, integrator_id: IntegratorId) -> Result<FeeSchedule, StoreError>;

    /// The schedule with that version. MUST find every version that was ever in force, 0 included.
    async fn version(
        &self,
        integrator_id: IntegratorId,
        version: u32,
    ) -> Result<Option<FeeSchedule>, StoreError>;

    /// Puts `schedule` in force. MUST ignore its `version` and give it the next one, which is returned; MUST keep
    /// every earlier version; MUST be [`StoreError::Rejected`] for an unknown integrator.
    async fn set(
        &self,
        integrator_id: IntegratorId,
        schedule: FeeSchedule,
        at: Timestamp,
    ) -> Result<u32, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cents(value: i64) -> Cents {
        Cents::new(value).unwrap()
    }

    fn rule(fixed: i64, percent: &str, min: i64, max: Option<i64>) -> FeeRule {
        FeeRule::new(cents(fixed), Percent::parse(percent).unwrap(), cents(min), max.map(cents)).unwrap()
    }

    #[test]
    fn the_percentage_is_rounded_half_up_before_anything_is_added() {
        // 1.5 % of 0.33 = 0.495 centavos → 0; of 0.34 = 0.51 → 1; of 1.00 = 1.5 → 2.
        for (amount, fee) in [(33, 0), (34, 1), (100, 2), (10_000, 150), (10_033, 150), (10_034, 151)] {
            assert_eq!(
                rule(0, "1.5", 0, None).fee(Amount::from_cents(amount).unwrap()),
                cents(fee),
                "{amount}"
            );
        }
    }

    #[test]
    fn fixed_part_minimum_and_maximum_apply_in_that_order() {
        let amount = Amount::from_cents(10_000).unwrap();
        assert_eq!(rule(50, "1", 0, None).fee(amount), cents(150));
        assert_eq!(rule(50, "1", 200, None).fee(amount), cents(200));
        assert_eq!(rule(50, "1", 0, Some(120)).fee(amount), cents(120));
        assert_eq!(FeeRule::free().fee(amount), Cents::ZERO);
    }

    #[test]
    fn a_fee_taken_from_an_amount_is_never_more_than_it() {
        assert_eq!(rule(50, "0", 0, None).fee_within(Amount::from_cents(30).unwrap()), cents(30));
    }

    #[test]
    fn the_fee_on_the_largest_amount_does_not_overflow() {
        let most = Amount::from_cents(crate::money::MAX_AMOUNT_CENTS).unwrap();
        assert_eq!(rule(0, "100", 0, None).fee(most), most.cents());
    }

    #[test]
    fn a_percentage_out_of_form_is_refused() {
        for text in ["", "-1", "101", "100.0001", "1.23456", "1e2", "1,5", " 1", "NaN", "1.", ".5"] {
            assert!(Percent::parse(text).is_err(), "{text}");
        }
        assert_eq!(Percent::parse("1.50").unwrap().plain(), "1.5");
        assert!(FeeRule::new(Cents::ZERO, Percent::zero(), cents(2), Some(cents(1))).is_err());
    }
}
