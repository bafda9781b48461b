//! The domain of a PIX gateway: charges, withdrawals, refunds, wallet and fees, and the ports it needs.
//!
//! It owns every decision about money. It never knows a clock, a random number, a database, a wire format or a runtime:
//! those are ports ([`ports`]), implemented by adapters and, for tests, mocked behind the feature `mocks`.
//!
//! Start with [`transition`] (the one idea), then [`withdrawals::state`] (everything that can happen to a withdrawal's
//! money), then [`withdrawals::service`] (the order in which it happens).

pub mod audit;
pub mod brcode;
pub mod charges;
pub mod credentials;
pub mod end_to_end;
pub mod error;
pub mod fees;
pub mod follow_up;
pub mod ids;
pub mod invalid;
pub mod list;
pub mod money;
pub mod party;
pub mod ports;
pub mod provider;
pub mod reconciler;
pub mod refunds;
pub mod schedule;
pub mod text;
pub mod time;
pub mod transactions;
pub mod transition;
pub mod wallet;
pub mod withdrawals;
