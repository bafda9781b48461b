//! A circuit breaker before a settlement provider, as a decorator over the port: while the provider fails, new charges
//! are turned away at once instead of queueing for it. It owns when that begins and ends and how many charges are under
//! way; it must never know how the provider is reached.
//!
//! Only charges: a charge that is turned away is definitely not made, and its client may come again. What was sent must
//! be followed up, above all while the provider is ill, so consults always pass; payments and refunds pass too, and are
//! bounded by the adapter. Being turned away is [`ProviderError::Unavailable`].
//!
//! ```text
//! closed ── failures_to_open failures in a row ──▶ open ── open_for ──▶ half open
//!    ▲                                              ▲                      │ │
//!    └──────── half_open_probes successes ──────────┼──────────────────────┘ │
//!                                                   └──────── a failure ─────┘
//! ```

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::provider::{
    ChargeOrder, ChargeReport, Inquiry, OutgoingReport, PaymentOrder, ProviderError, RefundOrder, Removal,
    SettlementProvider, Ticket,
};
use pix_domain::time::{Clock, Timestamp};
use tokio::sync::Semaphore;

use crate::config::ConfigError;

/// After how many failures in a row charges are turned away, by default.
pub const DEFAULT_FAILURES_TO_OPEN: u32 = 5;
/// Bounds of [`BreakerConfig::failures_to_open`].
pub const FAILURES_TO_OPEN_BOUNDS: RangeInclusive<u32> = 1..=1_000;
/// How long charges are turned away before the provider is tried again, by default.
pub const DEFAULT_OPEN_FOR: Duration = Duration::from_secs(10);
/// Bounds of [`BreakerConfig::open_for`].
pub const OPEN_FOR_BOUNDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_mins(10);
/// How many charges try the provider after that, by default.
pub const DEFAULT_HALF_OPEN_PROBES: u32 = 2;
/// Bounds of [`BreakerConfig::half_open_probes`].
pub const HALF_OPEN_PROBES_BOUNDS: RangeInclusive<u32> = 1..=100;
/// What is told to a charge that comes while others try the provider.
const RETRY_WHILE_TRYING: Duration = Duration::from_secs(1);
/// How many charges may be under way, waiting for their turn at the provider included, by default.
pub const DEFAULT_CHARGES_UNDER_WAY: usize = 512;
/// Bounds of [`BreakerConfig::charges_under_way`].
pub const CHARGES_UNDER_WAY_BOUNDS: RangeInclusive<usize> = 1..=65_536;

/// When a breaker opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerConfig {
    /// After how many failures in a row charges are turned away; [`DEFAULT_FAILURES_TO_OPEN`] by default.
    pub failures_to_open: u32,
    /// How long they are, before the provider is tried again; [`DEFAULT_OPEN_FOR`] by default.
    pub open_for: Duration,
    /// How many charges try the provider at once then, and must succeed; [`DEFAULT_HALF_OPEN_PROBES`] by default.
    pub half_open_probes: u32,
    /// How many charges may be under way; one more is turned away. [`DEFAULT_CHARGES_UNDER_WAY`] by default.
    pub charges_under_way: usize,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failures_to_open: DEFAULT_FAILURES_TO_OPEN,
            open_for: DEFAULT_OPEN_FOR,
            half_open_probes: DEFAULT_HALF_OPEN_PROBES,
            charges_under_way: DEFAULT_CHARGES_UNDER_WAY,
        }
    }
}

impl BreakerConfig {
    /// Checks every setting; tells the first that is not acceptable.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("failures_to_open", &self.failures_to_open, &FAILURES_TO_OPEN_BOUNDS)?;
        within("open_for", &self.open_for, &OPEN_FOR_BOUNDS)?;
        within("half_open_probes", &self.half_open_probes, &HALF_OPEN_PROBES_BOUNDS)?;
        within("charges_under_way", &self.charges_under_way, &CHARGES_UNDER_WAY_BOUNDS)
    }
}

fn within<T: PartialOrd + fmt::Debug>(
    setting: &'static str,
    value: &T,
    bounds: &RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if bounds.contains(value) {
        return Ok(());
    }
    Err(ConfigError { setting, problem: format!("must be from {:?} to {:?}", bounds.start(), bounds.end()) })
}

/// What a breaker does with new charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// They pass.
    Closed,
    /// They are turned away.
    Open {
        /// For how long still.
        retry_after: Duration,
    },
    /// A few pass, to try the provider.
    HalfOpen,
}

/// A settlement provider behind a circuit breaker.
pub struct Breaker {
    provider: Arc<dyn SettlementProvider>,
    clock: Arc<dyn Clock>,
    config: BreakerConfig,
    under_way: Semaphore,
    circuit: Mutex<Circuit>,
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The state, and how often it has changed: what a call of an earlier one finds out counts no more.
struct Circuit {
    position: Position,
    changes: u64,
}

#[derive(Clone, Copy)]
enum Position {
    Closed { failures: u32 },
    Open { since: Timestamp },
    HalfOpen { trying: u32, succeeded: u32 },
}

impl Circuit {
    fn turn(&mut self, position: Position) {
        self.position = position;
        self.changes = self.changes.wrapping_add(1);
    }
}

/// A charge that passed. What it found out is told once; if that never comes, another may try instead.
struct Pass<'a> {
    breaker: &'a Breaker,
    changes: u64,
    told: bool,
}

impl Pass<'_> {
    fn tell(mut self, healthy: bool) {
        self.told = true;
        self.breaker.learn(self.changes, healthy);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.told {
            self.breaker.give_back(self.changes);
        }
    }
}

impl Breaker {
    /// Puts a breaker before `provider`.
    pub fn new(
        provider: Arc<dyn SettlementProvider>,
        clock: Arc<dyn Clock>,
        config: BreakerConfig,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let circuit = Mutex::new(Circuit { position: Position::Closed { failures: 0 }, changes: 0 });
        let under_way = Semaphore::new(config.charges_under_way);
        Ok(Self { provider, clock, config, under_way, circuit })
    }

    /// What it does with new charges now, for metrics and for `Retry-After`.
    pub fn state(&self) -> BreakerState {
        let mut circuit = self.circuit();
        match circuit.position {
            Position::Closed { .. } => BreakerState::Closed,
            Position::HalfOpen { .. } => BreakerState::HalfOpen,
            Position::Open { .. } => match self.left(&mut circuit) {
                Some(retry_after) => BreakerState::Open { retry_after },
                None => BreakerState::HalfOpen,
            },
        }
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it stays open still; `None` when it doesn't.
    fn left(&self, circuit: &mut Circuit) -> Option<Duration> {
        let Position::Open { since } = circuit.position else { return None };
        let now = self.clock.now();
        if now < since {
            // The clock was set back. It must not keep charges away for longer than it should.
            circuit.position = Position::Open { since: now };
            return Some(self.config.open_for);
        }
        self.config.open_for.checked_sub(now.since(since)).filter(|left| !left.is_zero())
    }

    /// Lets a charge pass, or says for how long none will.
    fn pass(&self) -> Result<Pass<'_>, Duration> {
        let mut circuit = self.circuit();
        if let Some(left) = self.left(&mut circuit) {
            return Err(left);
        }
        match circuit.position {
            Position::Closed { .. } => {}
            Position::Open { .. } => {
                tracing::info!("the settlement provider is tried again");
                circuit.turn(Position::HalfOpen { trying: 1, succeeded: 0 });
            }
            Position::HalfOpen { trying, succeeded } => {
                if trying.saturating_add(succeeded) >= self.config.half_open_probes {
                    return Err(RETRY_WHILE_TRYING);
                }
                circuit.position = Position::HalfOpen { trying: trying.saturating_add(1), succeeded };
            }
        }
        Ok(Pass { breaker: self, changes: circuit.changes, told: false })
    }

    fn learn(&self, changes: u64, healthy: bool) {
        let now = self.clock.now();
        let mut circuit = self.circuit();
        if circuit.changes != changes {
            return;
        }
        match (circuit.position, healthy) {
            (Position::Closed { .. }, true) => circuit.position = Position::Closed { failures: 0 },
            (Position::Closed { failures }, false) => {
                let failures = failures.saturating_add(1);
                if failures < self.config.failures_to_open {
                    circuit.position = Position::Closed { failures };
                } else {
                    tracing::warn!(failures, "the settlement provider fails: new charges are turned away");
                    circuit.turn(Position::Open { since: now });
                }
            }
            (Position::HalfOpen { trying, succeeded }, true) => {
                let succeeded = succeeded.saturating_add(1);
                if succeeded >= self.config.half_open_probes {
                    tracing::info!("the settlement provider works: new charges pass");
                    circuit.turn(Position::Closed { failures: 0 });
                } else {
                    circuit.position = Position::HalfOpen { trying: trying.saturating_sub(1), succeeded };
                }
            }
            (Position::HalfOpen { .. }, false) => {
                tracing::warn!("the settlement provider still fails: new charges are turned away");
                circuit.turn(Position::Open { since: now });
            }
            // No charge passes an open circuit, so none of this state has anything to tell.
            (Position::Open { .. }, _) => {}
        }
    }

    /// A charge that tried the provider was given up before it found out anything.
    fn give_back(&self, changes: u64) {
        let mut circuit = self.circuit();
        if circuit.changes == changes
            && let Position::HalfOpen { trying, succeeded } = circuit.position
        {
            circuit.position = Position::HalfOpen { trying: trying.saturating_sub(1), succeeded };
        }
    }
}

/// Whole seconds, rounded up, so that whoever waits that long does not come too early.
fn seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

#[async_trait]
impl SettlementProvider for Breaker {
    async fn create_charge(&self, order: ChargeOrder) -> Result<Ticket, ProviderError> {
        let Ok(_under_way) = self.under_way.try_acquire() else {
            return Err(ProviderError::Unavailable("too many charges are under way".to_owned()));
        };
        let pass = self.pass().map_err(|left| {
            let left = seconds(left);
            ProviderError::Unavailable(format!("it failed too often; charges are tried again in {left} s"))
        })?;
        let answer = self.provider.create_charge(order).await;
        // A refusal is an answer: the provider works.
        pass.tell(matches!(answer, Ok(_) | Err(ProviderError::Rejected { .. })));
        answer
    }

    async fn send_payment(&self, order: PaymentOrder) -> Result<OutgoingReport, ProviderError> {
        self.provider.send_payment(order).await
    }

    async fn refund(&self, order: RefundOrder) -> Result<OutgoingReport, ProviderError> {
        self.provider.refund(order).await
    }

    async fn consult_charge(&self, inquiry: Inquiry) -> Result<Option<ChargeReport>, ProviderError> {
        self.provider.consult_charge(inquiry).await
    }

    async fn consult_payment(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.provider.consult_payment(inquiry).await
    }

    async fn consult_refund(&self, inquiry: Inquiry) -> Result<Option<OutgoingReport>, ProviderError> {
        self.provider.consult_refund(inquiry).await
    }

    async fn remove_charge(&self, inquiry: Inquiry) -> Result<Removal, ProviderError> {
        self.provider.remove_charge(inquiry).await
    }

    async fn balance(&self) -> Result<Option<i64>, ProviderError> {
        self.provider.balance().await
    }

    fn not_found_is_proof_after(&self) -> Option<Duration> {
        self.provider.not_found_is_proof_after()
    }
}

#[cfg(test)]
#[path = "breaker/tests.rs"]
mod tests;
