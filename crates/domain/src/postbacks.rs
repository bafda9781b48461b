//! Postbacks: what happened, told to the integrator's own server, and listed for whoever asks.
//!
//! | Module | Room |
//! |---|---|
//! | [`events`] | what is told: public events, their snapshots, and the feed of them |
//! | [`delivery`] | the outbox: which of them wait to be delivered, and what became of each attempt |
//! | [`relay`] | delivering what is due, one receiver never in the way of another |
//! | [`secrets`] | what postbacks are signed with, and how that is changed |
//! | [`send`] | the port they leave through |
//! | [`service`] | the use cases of integrators and operators: list, look up, replay, try out |

pub mod delivery;
pub mod events;
pub mod relay;
pub mod secrets;
pub mod send;
pub mod service;
