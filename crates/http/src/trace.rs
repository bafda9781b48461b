//! The trace that a request belongs to, as W3C Trace Context (<https://www.w3.org/TR/trace-context/>) has it: taken from
//! `traceparent`, begun where there is none, shown in the log lines of the request, and passed on to whom is called for it.
//!
//! It owns the form of `traceparent`. It keeps and sends no trace; `tracestate` is not passed on, as the recommendation allows.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use actix_web::http::header::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The only version there is; what a later one has more is behind these characters.
const VERSION_CHARS: usize = 55;

tokio::task_local! {
    static CURRENT: TraceParent;
}

/// One step of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceParent {
    trace_id: u128,
    span_id: u64,
    sampled: bool,
}

impl TraceParent {
    /// This service's own step in the trace of a request; the first one of a new trace when the request names none, or more
    /// than one, or one out of form.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut given = headers.get_all(TRACEPARENT);
        let one = given.next().filter(|_| given.next().is_none()).and_then(|value| value.to_str().ok());
        let span_id = random().max(1);
        if let Some(caller) = one.and_then(Self::parse) {
            return Self { span_id, ..caller };
        }
        let trace_id = (u128::from(random()) << 64) | u128::from(random().max(1));
        Self { trace_id, span_id, sampled: false }
    }

    /// Reads a field's value: version, trace, the caller's span and flags, in lower-case hexadecimal.
    fn parse(text: &str) -> Option<Self> {
        let (known, rest) = text.split_at_checked(VERSION_CHARS)?;
        let lower_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f' | b'-');
        let mut parts = known.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let shape = (version.len(), trace.len(), span.len(), flags.len());
        let later = version != "00" && rest.starts_with('-');
        let fits = shape == (2, 32, 16, 2) && known.bytes().all(lower_hex) && version != "ff";
        if !fits || !(rest.is_empty() || later) {
            return None;
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace_id, span_id, sampled })
    }

    /// The id of the whole trace.
    pub(crate) fn trace_id(self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// The id of this step.
    pub(crate) fn span_id(self) -> String {
        format!("{:016x}", self.span_id)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

/// A number that is most likely nobody else's; nothing rests on its being a secret.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Runs `work` as a part of `trace`.
pub(crate) async fn within<T>(trace: TraceParent, work: impl Future<Output = T>) -> T {
    CURRENT.scope(trace, work).await
}

/// `work` as a part of the trace that this is called in, for a task that may outlive its request.
pub(crate) fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let trace = current();
    async move {
        match trace {
            Some(trace) => within(trace, work).await,
            None => work.await,
        }
    }
}

/// The trace of the request that is being worked on.
fn current() -> Option<TraceParent> {
    CURRENT.try_with(|trace| *trace).ok()
}

/// What `traceparent` says to whom is called for the request that is being worked on; nothing outside of one.
pub fn traceparent() -> Option<String> {
    current().map(|trace| trace.to_string())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(values: &[&'static str]) -> TraceParent {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_static(value));
        }
        TraceParent::of(&headers)
    }

    #[test]
    fn a_given_trace_goes_on_with_a_step_of_our_own() {
        let ours = of(&[GIVEN]);
        assert_eq!(ours.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_ne!(ours.span_id(), "00f067aa0ba902b7");
        assert_eq!(TraceParent::parse(&ours.to_string()), Some(ours));
        assert!(ours.to_string().ends_with("-01"));
        let later = of(&["cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more"]);
        assert_eq!(later.trace_id(), ours.trace_id());
        assert!(later.to_string().starts_with("00-") && later.to_string().ends_with("-00"));
    }

    #[test]
    fn what_is_out_of_form_begins_a_new_trace() {
        for values in [
            &[][..],
            &[""],
            &["4bf92f3577b34da6a3ce929d0e0e4736"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"],
            &["00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"],
            &["ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
            &["00-00000000000000000000000000000000-00f067aa0ba902b7-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"],
            &["00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01"],
            &[GIVEN, GIVEN],
        ] {
            let (one, other) = (of(values), of(values));
            assert_ne!(one.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736", "{values:?}");
            assert_ne!(one.trace_id(), other.trace_id(), "{values:?}");
            assert_eq!(TraceParent::parse(&one.to_string()), Some(one), "{values:?}");
        }
    }

    #[tokio::test]
    async fn it_is_told_inside_of_a_request_alone() {
        assert_eq!(traceparent(), None);
        let trace = of(&[GIVEN]);
        assert_eq!(within(trace, async { traceparent() }).await, Some(trace.to_string()));
    }
}
