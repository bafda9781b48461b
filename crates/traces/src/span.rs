//! What is told of steps that have ended, and to whom.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

/// To whom spans are told. The process has at most one, as it has one recorder of metrics.
///
/// An implementation MUST return at once from each of these, whatever has become of where spans go: they are called while
/// requests wait.
pub trait Spans: Send + Sync {
    /// Whether the spans of that trace are wanted. MUST say the same each time, and on each node.
    fn is_sampled(&self, trace_id: u128) -> bool;

    /// The time of day, in microseconds since 1970.
    fn now_micros(&self) -> i64;

    /// Takes a span, or drops it.
    fn take(&self, span: Span);
}

static SPANS: OnceLock<Box<dyn Spans>> = OnceLock::new();

/// From now on spans are told to `spans`; `false` when they are told to another already, which goes on.
#[must_use]
pub fn export_to(spans: Box<dyn Spans>) -> bool {
    SPANS.set(spans).is_ok()
}

pub(crate) fn spans() -> Option<&'static dyn Spans> {
    SPANS.get().map(AsRef::as_ref)
}

/// What a step is to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Work within the process.
    Internal,
    /// A request that came in.
    Server,
    /// A request that went out.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A name out of a fixed list, or a pattern of a route.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// What is said of a step when it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What it is to others.
    pub kind: Kind,
    /// Its name: one of few.
    pub name: Cow<'static, str>,
    /// What else there is to say, by the names of OpenTelemetry's conventions where they have one.
    pub attributes: Vec<(&'static str, Value)>,
    /// Whether it failed, so that somebody may have to look.
    pub failed: bool,
}

impl Told {
    /// A step that went well.
    pub fn new(kind: Kind, name: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, name: name.into(), attributes: Vec::new(), failed: false }
    }

    /// The same with an attribute more.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// The same, failed or not.
    #[must_use]
    pub fn failing(self, failed: bool) -> Self {
        Self { failed, ..self }
    }
}

/// The step that another one is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The id of its span.
    pub span_id: u64,
    /// Whether it was taken by somebody else, who told of it in `traceparent`.
    pub is_remote: bool,
}

/// A step of another trace that has to do with this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The id of that trace.
    pub trace_id: u128,
    /// The id of the span.
    pub span_id: u64,
}

/// A step that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The id of its trace; never 0.
    pub trace_id: u128,
    /// Its own id; never 0.
    pub span_id: u64,
    /// What it is a part of; `None` for the first one of its trace.
    pub parent: Option<Parent>,
    /// When it began, in microseconds since 1970.
    pub begun_micros: i64,
    /// How long it took.
    pub took: Duration,
    /// Steps of other traces, at most [`MAX_LINKS`](crate::MAX_LINKS).
    pub links: Vec<Link>,
    /// What it was.
    pub told: Told,
}
