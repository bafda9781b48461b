//! The domain of a PIX gateway: charges, withdrawals, refunds, wallet and fees, and the ports it needs.
//!
//! It owns every decision about money. It never knows a clock, a random number, a database, a wire format or a runtime:
//! those are ports ([`ports`]), implemented by adapters and, for tests, mocked behind the feature `mocks`.
//!
//! Start with [`transition`] (the one idea), then [`withdrawals::state`] (everything that can happen to a withdrawal's
//! money), then [`withdrawals::service`] (the order in which it happens).
//!
//! The values need no ports at all:
//!
//! ```
//! use pix_domain::fees::{FeeRule, Percent};
//! use pix_domain::invalid::Invalid;
//! use pix_domain::money::{Amount, Cents};
//! use pix_domain::party::{PixKey, PixKeyType};
//!
//! fn main() -> Result<(), Invalid> {
//!     // Text becomes money without ever being a binary float, and comes back as it was.
//!     let amount = Amount::parse("150.33")?;
//!     assert_eq!(amount.cents().get(), 15_033);
//!     assert!(Amount::parse("150.333").is_err());
//!
//!     // 0.30 fixed, plus 1.5 % rounded half up to the centavo, at least 0.50.
//!     let fixed = Amount::parse("0.30")?.cents();
//!     let rule = FeeRule::new(fixed, Percent::parse("1.5")?, Amount::parse("0.50")?.cents(), None)?;
//!     assert_eq!(rule.fee(amount).to_string(), "2.55");
//!     assert_eq!(amount.cents().checked_add(rule.fee(amount)).map(Cents::plain).as_deref(), Some("152.88"));
//!
//!     // A PIX key in the form that DICT knows it by, however it was spelled; in a log it is masked.
//!     let key = PixKey::parse(PixKeyType::Phone, "(11) 98765-4321")?;
//!     assert_eq!(key.as_str(), "+5511987654321");
//!     assert_ne!(key.masked(), key.as_str());
//!     Ok(())
//! }
//! ```

pub mod audit;
pub mod audit_log;
pub mod brcode;
pub mod callbacks;
pub mod charges;
pub mod credentials;
pub mod decisions;
pub mod end_to_end;
pub mod error;
pub mod evidence;
pub mod fees;
pub mod follow_up;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod ids;
pub mod invalid;
pub mod ip;
pub mod limits;
pub mod list;
pub mod metadata;
pub mod money;
pub mod party;
pub mod people;
pub mod ports;
pub mod postbacks;
pub mod proofs;
pub mod provider;
pub mod reconciler;
pub mod refunds;
pub mod restore;
pub mod schedule;
pub mod seals;
pub mod splits;
pub mod text;
pub mod time;
pub mod transactions;
pub mod transition;
pub mod unrecorded;
pub mod wallet;
pub mod withdrawals;
