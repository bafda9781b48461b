//! The ports as a world has them: one file for each decorator.
//!
//! From the domain downwards: [`provider`] in front of the [desk](crate::desk); [`store_faults`] in front of
//! [`observer`] in front of the reference store. A port that the domain gets anew is added to `store_faults` by one line
//! for each of its methods, and to `observer` only if it writes.

pub mod observer;
pub mod provider;
pub mod store_faults;
