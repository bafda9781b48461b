//! What is told of steps, with somebody who wants to know: half of all traces.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use pix_traces::{
    Kind, Link, MAX_LINKS, Parent, Span, Spans, Step, Told, Value, child, export_to, of_record, traceparent,
};
use uuid::Uuid;

static TAKEN: Mutex<Vec<Span>> = Mutex::new(Vec::new());
static CLOCK: AtomicI64 = AtomicI64::new(1_000);

/// Wants traces whose last bit is 1.
struct Odd;

impl Spans for Odd {
    fn is_sampled(&self, trace_id: u128) -> bool {
        trace_id & 1 == 1
    }

    fn now_micros(&self) -> i64 {
        CLOCK.fetch_add(1, Ordering::Relaxed)
    }

    fn take(&self, span: Span) {
        TAKEN.lock().unwrap().push(span);
    }
}

fn exporting() {
    // The tests of this file share it.
    let _ = export_to(Box::new(Odd));
}

fn taken(trace_id: u128) -> Vec<Span> {
    TAKEN.lock().unwrap().iter().filter(|span| span.trace_id == trace_id).cloned().collect()
}

fn only(trace_id: u128) -> Span {
    let mut spans = taken(trace_id);
    assert_eq!(spans.len(), 1, "{spans:?}");
    spans.remove(0)
}

fn request(trace_id: u128) -> Step {
    let given = format!("00-{trace_id:032x}-00f067aa0ba902b7-00");
    Step::of_request(std::iter::once(given.as_str()), std::iter::empty())
}

fn told(name: &'static str) -> Told {
    Told::new(Kind::Internal, name)
}

#[tokio::test]
async fn a_request_and_its_parts_are_one_tree() {
    exporting();
    let trace_id = 0x11;
    let step = request(trace_id);
    let seen = step
        .run(async {
            child(async { traceparent().unwrap() }, |_| {
                Told::new(Kind::Client, "call").with("status", 503_u16).failing(true)
            })
            .await
        })
        .await;
    step.end(|| Told::new(Kind::Server, "POST /charges"));
    let spans = taken(trace_id);
    let [call, server] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!(server.parent, Some(Parent { span_id: 0x00f0_67aa_0ba9_02b7, is_remote: true }));
    assert_eq!(call.parent, Some(Parent { span_id: server.span_id, is_remote: false }));
    assert_eq!(
        seen,
        format!("00-{trace_id:032x}-{:016x}-01", call.span_id),
        "whom it calls is told of the call"
    );
    assert!(call.told.failed && !server.told.failed);
    assert_eq!(call.told.attributes, [("status", Value::Number(503))]);
    assert!(server.begun_micros < call.begun_micros && call.took <= server.took);
}

#[tokio::test]
async fn a_record_is_a_trace_of_its_own_that_is_linked_with_the_request_that_made_it() {
    exporting();
    let (trace_id, id) = (0x21, Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0023));
    let step = request(trace_id);
    step.run(async {
        Step::making(id).unwrap().end(|| told("charge"));
        Step::touch(id);
    })
    .await;
    step.end(|| told("request"));
    // Later, by a worker.
    of_record(id, async { child(async {}, |()| told("consult")).await }, |()| told("follow-up")).await;

    let request = only(trace_id);
    let spans = taken(id.as_u128());
    let [made, consult, follow_up] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((made.parent, made.span_id), (None, 0x8000_0000_0000_0023));
    assert_eq!(request.links, [Link { trace_id: id.as_u128(), span_id: made.span_id }]);
    assert_eq!(made.links, [Link { trace_id, span_id: request.span_id }]);
    assert_eq!(follow_up.parent, Some(Parent { span_id: made.span_id, is_remote: false }));
    assert_eq!(consult.parent, Some(Parent { span_id: follow_up.span_id, is_remote: false }));
    assert!(follow_up.links.is_empty() && consult.links.is_empty());
}

#[tokio::test]
async fn what_is_done_about_a_record_within_another_trace_is_linked_both_ways() {
    exporting();
    let (trace_id, id) = (0x31, Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0033));
    let step = request(trace_id);
    step.run(of_record(id, async { Step::touch(id) }, |()| told("callback"))).await;
    step.run(async { Step::touch(id) }).await;
    step.end(|| told("request"));
    let (request, callback) = (only(trace_id), only(id.as_u128()));
    assert_eq!(request.links, [Link { trace_id: id.as_u128(), span_id: 0x8000_0000_0000_0033 }], "once");
    assert_eq!(callback.links, [Link { trace_id, span_id: request.span_id }], "and never with itself");
}

#[tokio::test]
async fn of_a_trace_that_is_not_wanted_nothing_is_told() {
    exporting();
    let (trace_id, id) = (0x40, Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0042));
    let step = request(trace_id);
    let seen = step
        .run(async {
            assert!(Step::making(id).is_none());
            of_record(id, child(async {}, |()| told("consult")), |()| told("follow-up")).await;
            child(async { traceparent().unwrap() }, |_| told("call")).await
        })
        .await;
    assert_eq!(seen, format!("00-{trace_id:032x}-{}-00", step.span_id()), "no step that nobody hears of");
    step.end(|| told("request"));
    assert!(taken(trace_id).is_empty() && taken(id.as_u128()).is_empty());
}

#[tokio::test]
async fn links_are_bounded() {
    exporting();
    let trace_id = 0x51;
    let step = request(trace_id);
    step.run(async {
        for number in 0..u128::try_from(MAX_LINKS).unwrap() + 9 {
            Step::touch(Uuid::from_u128((number << 64) | 1));
        }
    })
    .await;
    step.end(|| told("request"));
    assert_eq!(only(trace_id).links.len(), MAX_LINKS);
}
