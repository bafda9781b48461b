//! The PostgreSQL store when something breaks: the server, the line to it, the node itself. Nothing that was
//! acknowledged is lost, nothing that was refused happens, and the store goes on by itself.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail by panicking")]

mod callbacks;
mod groups;
mod kills;
mod lines;
mod lookups;
mod nodes;
mod plans;
mod standby;
mod states;
mod support;
