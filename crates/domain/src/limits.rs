//! Limits of what may go out: a policy of each integrator, off until one is set.
//!
//! | Limit | What counts against it |
//! |---|---|
//! | `per_transaction` | the amount of one withdrawal |
//! | `per_day` | amounts since midnight |
//! | `at_night` | amounts since 20:00, until 06:00 |
//! | `late_at_night` | amounts since 22:00, until 06:00 |
//! | `per_payee` | amounts to one PIX key since midnight |
//! | `new_payee` | amounts to one PIX key until a day after the first payment to it |
//! | `per_hour` | how many withdrawals in the last 60 minutes |
//!
//! Days and nights are those of Brasília (UTC−3; no daylight saving since 2019, Decreto 9.772/2019). Amounts are without fees.
//!
//! **What counts is read from the withdrawals themselves.** One that is accepted counts from that moment, stays counted while
//! its outcome isn't known, and stops to count only when it definitely did not happen. So nothing has to be given back, and
//! no counter can be wrong.
//!
//! **Exact under concurrency.** A withdrawal under limits takes a key that every other one of the integrator takes too
//! ([`lane`]), and says which withdrawal it found there. Of two that found the same, one is made; the other looks again.
//!
//! **Lowering holds at once, raising after [`RAISE_AFTER`]**, by the clock of whoever sets it. (BCB asks the same of limits of
//! natural persons: Resolução BCB 142/2021, art. 2.)

pub mod lanes;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::StoreError;
use crate::ids::{IntegratorId, WithdrawalId};
use crate::invalid::Invalid;
use crate::money::{Amount, Cents, MAX_AMOUNT_CENTS};
use crate::party::PixKey;
use crate::provider::digest;
use crate::time::Timestamp;
use crate::transition::Twin;

/// How long a raised limit waits until it holds.
pub const RAISE_AFTER: Duration = Duration::from_hours(24);

/// How long after the first payment to it a payee is new.
pub const NEW_PAYEE_FOR: Duration = Duration::from_hours(24);

/// The window of `per_hour`.
pub const HOUR: Duration = Duration::from_hours(1);

/// The highest limit of an amount, in centavos: that of one PIX.
pub const MAX_LIMIT_CENTS: i64 = MAX_AMOUNT_CENTS;

/// The highest limit of a number of withdrawals.
pub const MAX_LIMIT_COUNT: i64 = 1_000_000;

/// What natural persons may send at night where nothing else was agreed, in centavos (Resolução BCB 142/2021, art. 1).
pub const NIGHT_PRESET_CENTS: i64 = 100_000;

const MICROS_PER_HOUR: i64 = 3_600_000_000;
const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;
/// Brasília is so far behind UTC.
const WEST_MICROS: i64 = 3 * MICROS_PER_HOUR;
const MORNING_HOUR: i64 = 6;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKind {
    /// The amount of one withdrawal.
    PerTransaction,
    /// The amounts of a day.
    PerDay,
    /// The amounts between 20:00 and 06:00.
    AtNight,
    /// The amounts between 22:00 and 06:00.
    LateAtNight,
    /// The amounts of a day to one key.
    PerPayee,
    /// The amounts to a key that is new.
    NewPayee,
    /// The number of withdrawals in 60 minutes.
    PerHour,
}

impl LimitKind {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::PerTransaction,
        Self::PerDay,
        Self::AtNight,
        Self::LateAtNight,
        Self::PerPayee,
        Self::NewPayee,
        Self::PerHour,
    ];

    /// The stable name, as stored and as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PerTransaction => "per_transaction",
            Self::PerDay => "per_day",
            Self::AtNight => "at_night",
            Self::LateAtNight => "late_at_night",
            Self::PerPayee => "per_payee",
            Self::NewPayee => "new_payee",
            Self::PerHour => "per_hour",
        }
    }

    /// The kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether it limits how many there are, and not how much.
    pub const fn is_count(self) -> bool {
        matches!(self, Self::PerHour)
    }

    /// The highest value it can have: centavos or a number.
    pub const fn highest(self) -> i64 {
        if self.is_count() { MAX_LIMIT_COUNT } else { MAX_LIMIT_CENTS }
    }
}

/// The most that a limit allows: centavos, or a number of withdrawals. Never negative; nothing at all is a limit too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Most(i64);

impl Most {
    /// A limit of `kind`, in centavos or as a number.
    pub fn new(kind: LimitKind, value: i64) -> Result<Self, Invalid> {
        if (0..=kind.highest()).contains(&value) {
            return Ok(Self(value));
        }
        let problem = if kind.is_count() {
            "must be a number from 0 to 1000000"
        } else {
            "must be an amount from 0 to 9999999999.99"
        };
        Err(Invalid::new("invalid_format", problem))
    }

    /// Centavos, or a number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

/// A raise that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raise {
    /// What will hold; `None` for no limit.
    pub to: Option<Most>,
    /// From when on.
    pub at: Timestamp,
}

/// One limit. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// What holds until `then`.
    pub most: Option<Most>,
    /// What holds afterwards.
    pub then: Option<Raise>,
}

impl Limit {
    /// What holds at `now`.
    pub fn at(self, now: Timestamp) -> Option<Most> {
        match self.then {
            Some(raise) if raise.at <= now => raise.to,
            _ => self.most,
        }
    }

    /// What is still to come at `now`.
    pub fn to_come(self, now: Timestamp) -> Option<Raise> {
        self.then.filter(|raise| raise.at > now)
    }

    /// This limit set to `to` at `now`: what is stricter holds at once, what is looser later. A raise that waits for the
    /// same keeps its place.
    #[must_use]
    pub fn set(self, to: Option<Most>, now: Timestamp) -> Self {
        let most = self.at(now);
        let is_looser = match (most, to) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(most), Some(to)) => to > most,
        };
        if !is_looser {
            return Self { most: to, then: None };
        }
        let waiting = self.to_come(now).filter(|raise| raise.to == to);
        Self { most, then: Some(waiting.unwrap_or(Raise { to, at: now.plus(RAISE_AFTER) })) }
    }
}

/// The limits of one integrator. Version 0 is that of those for whom none was ever set: all off.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitPolicy {
    /// Goes up by one with every change.
    pub version: u32,
    limits: BTreeMap<LimitKind, Limit>,
}

impl LimitPolicy {
    /// No limits, version 0.
    pub fn off() -> Self {
        Self::default()
    }

    /// The policy of that version with these limits; what isn't named is off.
    pub fn new(version: u32, limits: impl IntoIterator<Item = (LimitKind, Limit)>) -> Self {
        Self { version, limits: limits.into_iter().filter(|(_, limit)| *limit != Limit::default()).collect() }
    }

    /// One of them.
    pub fn limit(&self, kind: LimitKind) -> Limit {
        self.limits.get(&kind).copied().unwrap_or_default()
    }

    /// All that are not off.
    pub fn limits(&self) -> impl Iterator<Item = (LimitKind, Limit)> + '_ {
        self.limits.iter().map(|(kind, limit)| (*kind, *limit))
    }

    /// This policy with one limit set at `now`.
    #[must_use]
    pub fn set(self, kind: LimitKind, to: Option<Most>, now: Timestamp) -> Self {
        let limit = self.limit(kind).set(to, now);
        let others = self.limits.into_iter().filter(|(other, _)| *other != kind);
        Self::new(self.version, others.chain([(kind, limit)]))
    }

    /// Whether something is limited now that other withdrawals count against.
    pub fn counts_others(&self, windows: &Windows) -> bool {
        self.names_payees(windows)
            || LimitKind::ALL.into_iter().any(|kind| self.counts_from(kind, windows).is_some())
    }

    /// Whether something is limited now that withdrawals to the same payee count against.
    pub fn names_payees(&self, windows: &Windows) -> bool {
        [LimitKind::PerPayee, LimitKind::NewPayee]
            .into_iter()
            .any(|kind| self.limit(kind).at(windows.now).is_some())
    }

    /// Since when withdrawals, to whomever, count against a limit that is in force.
    fn counts_from(&self, kind: LimitKind, windows: &Windows) -> Option<Timestamp> {
        self.limit(kind).at(windows.now)?;
        match kind {
            LimitKind::PerDay => Some(windows.day),
            LimitKind::AtNight => windows.night,
            LimitKind::LateAtNight => windows.late_night,
            LimitKind::PerHour => Some(windows.hour),
            LimitKind::PerTransaction | LimitKind::PerPayee | LimitKind::NewPayee => None,
        }
    }
}

/// The times at which what counts at one moment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// When they were asked for.
    pub now: Timestamp,
    /// Midnight.
    pub day: Timestamp,
    /// 20:00 of this night; `None` by day.
    pub night: Option<Timestamp>,
    /// 22:00 of this night; `None` outside it.
    pub late_night: Option<Timestamp>,
    /// An hour ago.
    pub hour: Timestamp,
    /// Who was paid at that time or before is not new.
    pub new_payee: Timestamp,
    /// What came before that counts in none of them, but for payees.
    pub from: Timestamp,
}

impl Windows {
    /// Those at `now`.
    pub fn at(now: Timestamp) -> Self {
        let local = now.micros().saturating_sub(WEST_MICROS);
        let midnight = local.saturating_sub(local.rem_euclid(MICROS_PER_DAY));
        let hour = local.rem_euclid(MICROS_PER_DAY) / MICROS_PER_HOUR;
        let utc = |local: i64| Timestamp::from_micros(local.saturating_add(WEST_MICROS));
        let night_from = |from: i64| {
            let evening = midnight.saturating_add(from * MICROS_PER_HOUR);
            match hour {
                hour if hour >= from => Some(utc(evening)),
                hour if hour < MORNING_HOUR => Some(utc(evening.saturating_sub(MICROS_PER_DAY))),
                _ => None,
            }
        };
        let (day, night, hour_ago) = (utc(midnight), night_from(20), now.minus(HOUR));
        let from = day.min(hour_ago).min(night.unwrap_or(day));
        let (late_night, new_payee) = (night_from(22), now.minus(NEW_PAYEE_FOR));
        Self { now, day, night, late_night, hour: hour_ago, new_payee, from }
    }

    /// These, read back no further than the limits of `policy` that are in force need.
    #[must_use]
    pub fn narrowed_to(self, policy: &LimitPolicy) -> Self {
        let starts = LimitKind::ALL.into_iter().filter_map(|kind| policy.counts_from(kind, &self));
        Self { from: starts.fold(self.now, Ord::min), ..self }
    }

    /// When nothing of what counts now counts any more; `None` when that is not at one moment.
    fn ends(&self, kind: LimitKind) -> Option<Timestamp> {
        let after = |start: Timestamp, hours: i64| {
            Timestamp::from_micros(start.micros().saturating_add(hours * MICROS_PER_HOUR))
        };
        match kind {
            LimitKind::PerDay | LimitKind::PerPayee => Some(after(self.day, 24)),
            LimitKind::AtNight => self.night.map(|start| after(start, 24 - 20 + MORNING_HOUR)),
            LimitKind::LateAtNight => self.late_night.map(|start| after(start, 24 - 22 + MORNING_HOUR)),
            LimitKind::PerTransaction | LimitKind::NewPayee | LimitKind::PerHour => None,
        }
    }
}

/// What was sent within [`Windows`], in centavos or as a number: withdrawals that were accepted and not definitely refused
/// or canceled, or left in spite of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Since midnight.
    pub day: i64,
    /// Since 20:00; nothing by day.
    pub night: i64,
    /// Since 22:00; nothing outside.
    pub late_night: i64,
    /// How many in the last hour.
    pub hour: i64,
}

/// What was sent to one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentTo {
    /// Since midnight, in centavos.
    pub day: i64,
    /// After [`Windows::new_payee`], in centavos.
    pub lately: i64,
    /// Whether anything was sent to it at that time or before.
    pub is_known: bool,
}

/// How one limit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Which.
    pub kind: LimitKind,
    /// The most that it allows: centavos, or a number; `None` when it is off for now.
    pub most: Option<Most>,
    /// What counts against it already; `None` when that depends on the payee and none is known.
    pub used: Option<i64>,
    /// Whether it holds for a withdrawal now: a limit of the night doesn't by day, nor one of new payees for a known one.
    pub holds: bool,
    /// When what is used is forgotten, where that is at one moment.
    pub resets_at: Option<Timestamp>,
    /// A raise that waits.
    pub then: Option<Raise>,
}

impl Standing {
    /// What is left; `None` when nothing is limited, or nobody knows.
    pub fn left(&self) -> Option<i64> {
        Some(self.most?.get().saturating_sub(self.used?).max(0))
    }

    /// Whether a withdrawal of `amount` would pass it.
    fn is_passed_by(&self, amount: Amount) -> bool {
        let more = if self.kind.is_count() { 1 } else { amount.cents().get() };
        self.holds && self.left().is_some_and(|left| left < more)
    }

    /// The value in the words of its kind: `1000.00` reais, or a number.
    fn shown(&self, value: i64) -> String {
        match (self.kind.is_count(), Cents::new(value)) {
            (false, Some(cents)) => cents.to_string(),
            _ => value.to_string(),
        }
    }

    /// What a refusal says: the limit, what it allows and what is left of it.
    pub fn refusal(&self) -> String {
        let most = self.most.map_or_else(String::new, |most| self.shown(most.get()));
        let left = self.shown(self.left().unwrap_or(0));
        format!("this would pass the limit {}: {left} is left of {most}", self.kind.as_str())
    }
}

/// How every limit of `policy` that isn't off stands.
pub fn standings(policy: &LimitPolicy, windows: &Windows, sent: Sent, to: Option<SentTo>) -> Vec<Standing> {
    let standing = |(kind, limit): (LimitKind, Limit)| {
        let (used, holds) = match kind {
            LimitKind::PerTransaction => (Some(0), true),
            LimitKind::PerDay => (Some(sent.day), true),
            LimitKind::AtNight => (Some(sent.night), windows.night.is_some()),
            LimitKind::LateAtNight => (Some(sent.late_night), windows.late_night.is_some()),
            LimitKind::PerPayee => (to.map(|to| to.day), true),
            LimitKind::NewPayee => (to.map(|to| to.lately), to.is_none_or(|to| !to.is_known)),
            LimitKind::PerHour => (Some(sent.hour), true),
        };
        let (most, then) = (limit.at(windows.now), limit.to_come(windows.now));
        Standing { kind, most, used, holds, resets_at: windows.ends(kind), then }
    };
    policy
        .limits()
        .map(standing)
        .filter(|standing| standing.most.is_some() || standing.then.is_some())
        .collect()
}

/// The first limit that a withdrawal of `amount` would pass.
pub fn passed(standings: &[Standing], amount: Amount) -> Option<Standing> {
    standings.iter().copied().find(|standing| standing.is_passed_by(amount))
}

/// The key that every withdrawal of an integrator under limits takes.
pub fn lane() -> Uuid {
    digest(&["limits"])
}

/// What a withdrawal takes of it, when `newest` was found there before what counts was read.
pub fn place(id: WithdrawalId, newest: Option<Uuid>) -> Twin {
    Twin { key: lane(), expected: newest, ids: vec![id.0] }
}

/// Where limits are kept, and what counts against them is read.
#[cfg_attr(any(test, feature = "mocks"), mockall::automock)]
#[async_trait]
pub trait LimitStore: Send + Sync {
    /// The policy in force. MUST be [`LimitPolicy::off`] when none was ever set.
    async fn policy(&self, integrator_id: IntegratorId) -> Result<LimitPolicy, StoreError>;

    /// Puts `policy` in force, whose `version` is that of the one it was made from; the version it has now. MUST be `None`,
    /// with nothing kept, when another is in force meanwhile; MUST keep every earlier version; MUST be
    /// [`StoreError::Rejected`] for an unknown integrator.
    async fn set_policy(
        &self,
        integrator_id: IntegratorId,
        policy: &LimitPolicy,
        at: Timestamp,
    ) -> Result<Option<u32>, StoreError>;

    /// What was sent. MUST see every withdrawal that was applied before, on any node, and none of another integrator.
    async fn sent(&self, integrator_id: IntegratorId, windows: &Windows) -> Result<Sent, StoreError>;

    /// What was sent to `key`, likewise.
    async fn sent_to(
        &self,
        integrator_id: IntegratorId,
        windows: &Windows,
        key: &PixKey,
    ) -> Result<SentTo, StoreError>;
}

#[cfg(test)]
mod tests;
