//! What requests and answers look like, as schemas. Nothing of it is ever built: answers are written field by field, and
//! the tests hold each of them against these.

#![expect(dead_code, reason = "schemas are described, never built")]

pub(super) mod errors;
pub(super) mod events;
pub(super) mod scalars;
pub(super) mod token;
pub(super) mod v1;
pub(super) mod v1_lists;
pub(super) mod v2;
