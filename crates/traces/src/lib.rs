//! Traces: which one a piece of work belongs to, what whom it calls is told of that, and what an operator is told of the work.
//!
//! - [`Step`] is one step of a trace that is under way. A request's goes on with the trace of its `traceparent`
//!   ([W3C Trace Context](https://www.w3.org/TR/trace-context/)), or begins one.
//! - **The trace of a record is its id**: 128 bits, as a trace id is. All that is done about a record later (asking the
//!   provider, callbacks, postbacks) is of that trace, whoever does it and on whichever node, and nothing has to be kept for
//!   it. The last 64 bits are the id of the trace's first span, the making of the record, so that each later one names it as
//!   its parent. That first span and the one of the request that made the record are linked.
//! - [`Span`] is what is told of a step that has ended, to the one [`Spans`] of the process, if there is one. Without it a
//!   step is a few numbers.
//!
//! This crate owns the forms of `traceparent` and `tracestate`. It must never know where spans go, nor what a record is. A
//! span holds names out of fixed lists, patterns of routes, statuses and ids: whoever makes one answers for that.
//!
//! ```
//! use pix_traces::{Step, traceparent};
//! use uuid::Uuid;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let record = Uuid::from_u128(0x0199_2f35_77b3_7da6_a3ce_929d_0e0e_4736);
//! let told = Step::of_record(record).run(async { traceparent() }).await;
//! assert!(told.is_some_and(|told| told.starts_with("00-01992f3577b37da6a3ce929d0e0e4736-")));
//! # }
//! ```

mod parent;
mod span;
mod state;
mod step;

pub use parent::TraceParent;
pub use span::{Kind, Link, Parent, Span, Spans, Told, Value, export_to};
pub use state::{MAX_STATE_CHARS, MAX_STATE_MEMBERS, TraceState};
pub use step::{MAX_LINKS, Step, carried, child, of_record, traceparent, tracestate};
