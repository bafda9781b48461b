//! The money laws of the domain, tested from outside, as an embedder sees it.
//!
//! | Module | What it holds to |
//! |---|---|
//! | `states` | every verb in every state does what the tables of the state machines say |
//! | `walks` | whatever happens in whatever order, the books stay right |
//! | `withdrawals`, `refunds`, `charges`, `credentials` | the use cases, over mocked ports |
//! | `callbacks` | a callback is kept as evidence, with what it leads to or before it |
//! | `races` | two that work on one record at once |
//! | `restore` | after a restore what may have been sent is asked about first |
//! | `splits` | what a charge gives to others, and what comes back |
//! | `proofs` | what has ended is held against the provider once more |
//! | `audit` | the proof finds every kind of difference |
//! | `seals` | a right book is sealed, and whatever is changed in it is found |

#[cfg(test)]
mod audit;
#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod charges;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod races;
#[cfg(test)]
mod refunds;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod seals;
#[cfg(test)]
mod splits;
#[cfg(test)]
mod states;
#[cfg(test)]
mod walks;
#[cfg(test)]
mod withdrawals;
#[cfg(test)]
mod world;
