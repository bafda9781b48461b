//! Steps, and which one is being taken.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use uuid::Uuid;

use crate::parent::{TraceParent, random};
use crate::span::{Link, Parent, Span, Told, spans};
use crate::state::TraceState;

/// The most links of one span; further ones are left out.
pub const MAX_LINKS: usize = 32;

tokio::task_local! {
    static CURRENT: Step;
}

/// One step of a trace that is under way.
#[derive(Debug, Clone)]
pub struct Step {
    here: TraceParent,
    state: Option<TraceState>,
    recording: Option<Arc<Recording>>,
}

/// What a span is made of when it ends; there while its trace is wanted.
#[derive(Debug)]
struct Recording {
    parent: Option<Parent>,
    begun_micros: i64,
    begun: Instant,
    links: Mutex<Vec<Link>>,
}

impl Recording {
    fn link(&self, link: Link) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() < MAX_LINKS && !links.contains(&link) {
            links.push(link);
        }
    }
}

impl Step {
    /// This service's own step in the trace of a request, by its fields `traceparent` and `tracestate`; the first one of a
    /// new trace when the request names none, or more than one, or one out of form.
    ///
    /// The caller's wish to have the trace sampled is passed on, and isn't followed here: whether it is told of is the
    /// operator's choice.
    pub fn of_request<'a>(
        mut parents: impl Iterator<Item = &'a str>,
        states: impl Iterator<Item = &'a str>,
    ) -> Self {
        let one = parents.next().filter(|_| parents.next().is_none());
        let Some(caller) = one.and_then(TraceParent::parse) else {
            let trace_id = (u128::from(random()) << 64) | u128::from(random());
            return Self::at(TraceParent { trace_id, span_id: random(), sampled: false }, None, None);
        };
        let parent = Parent { span_id: caller.span_id, is_remote: true };
        Self::at(TraceParent { span_id: random(), ..caller }, Some(parent), TraceState::of(states))
    }

    /// A step in the trace of the record with that id, whoever takes it. Taken within another trace, the two are linked.
    pub fn of_record(id: Uuid) -> Self {
        let first = first_of(id);
        let parent = Parent { span_id: first.span_id, is_remote: false };
        let step = Self::at(TraceParent { span_id: random(), ..first }, Some(parent), None);
        if let Some(current) = current() {
            step.link(current.here);
            current.link(first);
        }
        step
    }

    /// The first step of the trace of the record with that id: its making, which may fail; so the step that this is called in
    /// is linked to, and isn't told ([`Self::touch`]). `None` when that trace isn't wanted.
    pub fn making(id: Uuid) -> Option<Self> {
        let step = Some(Self::at(first_of(id), None, None)).filter(Self::is_recorded)?;
        if let Some(current) = current() {
            step.link(current.here);
        }
        Some(step)
    }

    /// A part of the step that this is called in; `None` when that isn't wanted, and when there is none.
    pub fn within() -> Option<Self> {
        let part = |current: &Self| {
            let parent = Parent { span_id: current.here.span_id, is_remote: false };
            current.is_recorded().then(|| {
                let here = TraceParent { span_id: random(), ..current.here };
                Self::at(here, Some(parent), current.state.clone())
            })
        };
        CURRENT.try_with(part).ok().flatten()
    }

    /// Says that the step that this is called in has to do with that record.
    pub fn touch(id: Uuid) {
        if let Some(current) = current() {
            current.link(first_of(id));
        }
    }

    fn at(here: TraceParent, parent: Option<Parent>, state: Option<TraceState>) -> Self {
        let wanted = spans().filter(|spans| spans.is_sampled(here.trace_id));
        let recording = wanted.map(|spans| {
            Arc::new(Recording {
                parent,
                begun_micros: spans.now_micros(),
                begun: Instant::now(),
                links: Mutex::default(),
            })
        });
        let sampled = here.sampled || recording.is_some();
        Self { here: TraceParent { sampled, ..here }, state, recording }
    }

    /// Whether its trace is wanted, so that a span is told of it.
    pub const fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }

    /// The id of its trace, as it is written.
    pub fn trace_id(&self) -> String {
        self.here.trace_id()
    }

    /// Its own id, as it is written.
    pub fn span_id(&self) -> String {
        self.here.span_id()
    }

    /// Of another trace than `other`, it is linked to it.
    fn link(&self, other: TraceParent) {
        if let Some(recording) = &self.recording
            && other.trace_id != self.here.trace_id
        {
            recording.link(Link { trace_id: other.trace_id, span_id: other.span_id });
        }
    }

    /// Does `work` as this step.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    /// Ends it, with what is to be said of it, if anybody wants to know.
    pub fn end(self, told: impl FnOnce() -> Told) {
        let (Some(recording), Some(spans)) = (self.recording, spans()) else { return };
        let links = std::mem::take(&mut *recording.links.lock().unwrap_or_else(PoisonError::into_inner));
        spans.take(Span {
            trace_id: self.here.trace_id,
            span_id: self.here.span_id,
            parent: recording.parent,
            begun_micros: recording.begun_micros,
            took: recording.begun.elapsed(),
            links,
            told: told(),
        });
    }
}

/// Where the trace of a record begins. Ids that we make are never made of zeros; of others a trace is made that is.
fn first_of(id: Uuid) -> TraceParent {
    let (_, low) = id.as_u64_pair();
    TraceParent { trace_id: id.as_u128().max(1), span_id: low.max(1), sampled: false }
}

/// Does `work` as a part of the step that this is called in, and tells of it if that is wanted.
pub async fn child<T>(work: impl Future<Output = T>, told: impl FnOnce(&T) -> Told) -> T {
    match Step::within() {
        None => work.await,
        Some(step) => {
            let done = step.run(work).await;
            step.end(|| told(&done));
            done
        }
    }
}

/// Does `work` as a step in the trace of the record with that id, and tells of it if that is wanted.
pub async fn of_record<T>(id: Uuid, work: impl Future<Output = T>, told: impl FnOnce(&T) -> Told) -> T {
    let step = Step::of_record(id);
    let done = step.run(work).await;
    step.end(|| told(&done));
    done
}

/// `work` as a part of the step that this is called in, for a task that may outlive it.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let step = current();
    async move {
        match step {
            Some(step) => step.run(work).await,
            None => work.await,
        }
    }
}

fn current() -> Option<Step> {
    CURRENT.try_with(Clone::clone).ok()
}

/// What `traceparent` says to whom is called now; nothing outside of any step.
pub fn traceparent() -> Option<String> {
    CURRENT.try_with(|step| step.here.to_string()).ok()
}

/// What `tracestate` says beside it, if there is anything to be said.
pub fn tracestate() -> Option<String> {
    CURRENT.try_with(|step| step.state.as_ref().map(|state| state.as_str().to_owned())).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(parents: &[&str], states: &[&str]) -> Step {
        Step::of_request(parents.iter().copied(), states.iter().copied())
    }

    #[test]
    fn a_given_trace_goes_on_with_a_step_of_our_own() {
        let ours = of(&[GIVEN], &[]);
        assert_eq!(ours.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_ne!(ours.span_id(), "00f067aa0ba902b7");
        assert!(ours.here.sampled, "as its caller wishes");
        let later = of(&["cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more"], &[]);
        assert_eq!(later.trace_id(), ours.trace_id());
        assert!(!later.here.sampled);
    }

    #[test]
    fn what_is_out_of_form_begins_a_new_trace() {
        for values in [&[][..], &[""], &["00-4bf92f3577b34da6a3ce929d0e0e4736"], &[GIVEN, GIVEN]] {
            let (one, other) = (of(values, &["rojo=1"]), of(values, &[]));
            assert_ne!(one.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736", "{values:?}");
            assert_ne!(one.trace_id(), other.trace_id(), "{values:?}");
            assert_eq!(TraceParent::parse(&one.here.to_string()), Some(one.here), "{values:?}");
            assert_eq!(one.state, None, "it is of a trace that isn't known");
        }
    }

    #[tokio::test]
    async fn what_is_called_for_a_request_is_told_its_trace_and_nothing_outside_of_one() {
        assert_eq!((traceparent(), tracestate()), (None, None));
        let step = of(&[GIVEN], &["rojo=1", "congo=2"]);
        let told = step.run(async { (traceparent(), tracestate()) }).await;
        assert_eq!(told, (Some(step.here.to_string()), Some("rojo=1,congo=2".to_owned())));
        let carry = || std::future::ready(Box::pin(carried(async { traceparent() })));
        let outliving = step.run(async { Some(carry().await) }).await.unwrap();
        assert_eq!(outliving.await, Some(step.here.to_string()));
        assert_eq!(of(&[GIVEN], &["Rojo=1"]).run(async { tracestate() }).await, None);
    }

    #[tokio::test]
    async fn the_trace_of_a_record_is_its_id() {
        let id = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff);
        let one = Step::of_record(id).run(async { traceparent() }).await.unwrap();
        let other = Step::of_record(id).run(async { traceparent() }).await.unwrap();
        let expected = format!("00-{}-", id.simple());
        assert!(one.starts_with(&expected) && other.starts_with(&expected), "{one} {other}");
        assert_ne!(one, other, "each is a step of its own");
        let nobody = Step::of_record(Uuid::nil()).run(async { traceparent() }).await.unwrap();
        assert!(TraceParent::parse(&nobody).is_some(), "{nobody}");
    }

    #[tokio::test]
    async fn nothing_is_recorded_while_nobody_wants_to_know() {
        let step = of(&[GIVEN], &[]);
        assert!(!step.is_recorded());
        assert!(step.run(async { Step::within() }).await.is_none());
        assert!(Step::making(Uuid::from_u128(7)).is_none());
        let asked = std::cell::Cell::new(false);
        step.end(|| {
            asked.set(true);
            Told::new(crate::Kind::Internal, "nothing")
        });
        assert!(!asked.get());
    }
}
