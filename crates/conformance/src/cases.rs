//! The promises of a store, one function each. Every one gets an empty store.

pub mod callbacks;
pub mod credentials;
pub mod debts;
pub mod decisions;
pub mod durability;
pub mod evidence;
pub mod fees;
pub mod follow_ups;
pub mod guards;
pub mod idempotency;
pub mod limits;
pub mod lists;
pub mod money;
pub mod people;
pub mod pix_ids;
pub mod postbacks;
pub mod races;
pub mod round_trips;
pub mod scripts;
pub mod seals;
pub mod splits;
pub mod statements;
pub mod tenancy;
pub mod twins;
pub mod uncertain;
