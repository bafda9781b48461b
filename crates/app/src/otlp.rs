//! Where spans go: over OTLP/HTTP, as protobuf, to a collector
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>).
//!
//! Whatever the collector does, no request waits for it: a span is put into a queue that is bounded, and dropped and counted
//! when there is no room. One task takes them out, sends them in batches, each within a bounded time and once, and drops and
//! counts what isn't taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as wire;
use pix_domain::ids::Ids;
use pix_domain::time::Clock;
use pix_settlement::{HttpClientConfig, Trust};
use pix_traces::{Kind, Span, Spans, Value};
use prost::Message;
use reqwest::Client;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::system::{SystemClock, SystemIds};

/// The most spans of one request to the collector; when so many wait they don't wait for the interval.
pub const MAX_BATCH: usize = 512;
/// The most that is read of its answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The most headers of [`OtlpSettings::headers`], and the most bytes of all of them.
const MAX_HEADERS: usize = 16;
const MAX_HEADERS_BYTES: usize = 4_096;
/// Where traces go, beside the endpoint.
const TRACES_PATH: &str = "/v1/traces";

const EXPORTED: &str = "pix_spans_exported_total";
const DROPPED: &str = "pix_spans_dropped_total";
const SERVICE: &str = "pix-gateway";
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// What a share is counted in: all of it is so many parts.
pub const WHOLE_SHARE: u32 = 1_000_000;
/// A trace is wanted or not by its last 56 bits, as §2.2.2 of Trace Context level 2 has them random.
const RANDOM_BITS: u32 = 56;

/// Bits of the flags of a span and of a link: it is sampled; whether it is remote is known; it is.
const SAMPLED: u32 = 1;
const REMOTE_IS_KNOWN: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Where spans go, which ones, and how.
#[derive(Debug, Clone)]
pub struct OtlpSettings {
    /// `PIX_OTLP_ENDPOINT`
    pub endpoint: String,
    /// `PIX_OTLP_HEADERS`
    pub headers: Option<SecretString>,
    /// `PIX_OTLP_SAMPLE_PERCENT`, in parts of [`WHOLE_SHARE`].
    pub share: u32,
    /// `PIX_OTLP_QUEUE`
    pub queue: usize,
    /// `PIX_OTLP_INTERVAL_MS`
    pub interval: Duration,
    /// `PIX_OTLP_TIMEOUT_MS`
    pub timeout: Duration,
}

/// Reads `name=value,name=value`, percent-decoded as `OTEL_EXPORTER_OTLP_HEADERS` is. `None` when it is anything else, or too
/// much.
pub fn headers(text: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let name: HeaderName = name.trim().parse().ok()?;
        let mut value = HeaderValue::from_bytes(&percent_decoded(value.trim())?).ok()?;
        value.set_sensitive(true);
        // The HTTP library's own.
        if [CONTENT_LENGTH, TRANSFER_ENCODING].contains(&name) || headers.len() == MAX_HEADERS {
            return None;
        }
        headers.insert(name, value);
    }
    (text.len() <= MAX_HEADERS_BYTES).then_some(headers)
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut decoded = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        decoded.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        decoded.extend_from_slice(rest.as_bytes());
    }
    Some(decoded)
}

/// Spans on their way out, until it is stopped.
pub struct Exporter {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    held: Arc<AtomicU64>,
    timeout: Duration,
}

/// The way in.
struct Queue {
    spans: mpsc::Sender<Span>,
    enough: Arc<Notify>,
    /// Spans that are neither sent nor dropped.
    held: Arc<AtomicU64>,
    /// The least number of the random bits that is wanted.
    least: u64,
}

/// From now on the spans of this process go where `settings` say; nowhere without any.
pub fn start(settings: Option<&OtlpSettings>) -> anyhow::Result<Option<Exporter>> {
    let Some(settings) = settings else { return Ok(None) };
    let (exporter, queue) = Exporter::new(settings)?;
    if !pix_traces::export_to(Box::new(queue)) {
        bail!("the spans of this process go somewhere already");
    }
    Ok(Some(exporter))
}

impl Exporter {
    fn new(settings: &OtlpSettings) -> anyhow::Result<(Self, Queue)> {
        metrics::describe_counter!(EXPORTED, "Spans that the collector has taken.");
        metrics::describe_counter!(DROPPED, "Spans that nobody will see, by why.");
        let (sender, spans) = mpsc::channel(settings.queue);
        let (stop, stopped) = watch::channel(false);
        let (held, enough) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let outlet = Outlet::new(settings, held.clone())?;
        let task = tokio::spawn(outlet.run(spans, enough.clone(), stopped, settings.interval));
        let queue = Queue { spans: sender, enough, held: held.clone(), least: least(settings.share) };
        Ok((Self { stop, task, held, timeout: settings.timeout }, queue))
    }

    /// Sends what waits, for at most `PIX_OTLP_TIMEOUT_MS`, and drops the rest and all that comes later.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        if tokio::time::timeout(self.timeout, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = self.task.await;
            dropped("stopped", self.held.load(Ordering::Relaxed));
        }
    }
}

/// Of the random bits, the least number that is wanted, so that `share` of all are.
fn least(share: u32) -> u64 {
    let rest = u64::from(WHOLE_SHARE.saturating_sub(share));
    let least = (u128::from(rest) << RANDOM_BITS) / u128::from(WHOLE_SHARE);
    u64::try_from(least).unwrap_or(u64::MAX)
}

fn dropped(why: &'static str, count: u64) {
    metrics::counter!(DROPPED, "why" => why).increment(count);
}

impl Spans for Queue {
    fn is_sampled(&self, trace_id: u128) -> bool {
        trace_id & ((1 << RANDOM_BITS) - 1) >= u128::from(self.least)
    }

    fn now_micros(&self) -> i64 {
        SystemClock.now().micros()
    }

    fn take(&self, span: Span) {
        self.held.fetch_add(1, Ordering::Relaxed);
        match self.spans.try_send(span) {
            Ok(()) if self.spans.max_capacity() - self.spans.capacity() >= MAX_BATCH => {
                self.enough.notify_one();
            }
            Ok(()) => {}
            Err(refused) => {
                self.held.fetch_sub(1, Ordering::Relaxed);
                let full = matches!(refused, mpsc::error::TrySendError::Full(_));
                dropped(if full { "queue_full" } else { "stopped" }, 1);
            }
        }
    }
}

/// The way out.
struct Outlet {
    client: Client,
    url: String,
    headers: HeaderMap,
    resource: Resource,
    held: Arc<AtomicU64>,
    /// Whether the collector took the last batch.
    is_well: bool,
}

impl Outlet {
    fn new(settings: &OtlpSettings, held: Arc<AtomicU64>) -> anyhow::Result<Self> {
        let encrypted = settings.endpoint.starts_with("https://");
        let client = pix_settlement::http_client(&HttpClientConfig {
            https_only: encrypted,
            trust: if encrypted { Trust::System } else { Trust::Nobody },
            identity: None,
            connect_timeout: settings.timeout,
            total_timeout: settings.timeout,
        });
        let given = settings.headers.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default();
        let mut headers = headers(given).context("PIX_OTLP_HEADERS is not acceptable")?;
        headers.insert(CONTENT_TYPE, PROTOBUF);
        let endpoint = settings.endpoint.as_str();
        let base = endpoint.strip_suffix(TRACES_PATH).unwrap_or(endpoint);
        let attributes = [
            ("service.name", SERVICE.to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("service.instance.id", SystemIds.next().to_string()),
        ];
        Ok(Self {
            client: client.context("spans can't be sent to PIX_OTLP_ENDPOINT")?,
            url: format!("{base}{TRACES_PATH}"),
            headers,
            resource: Resource {
                attributes: attributes.map(|(name, text)| attribute(name, Value::from(text))).into(),
                ..Resource::default()
            },
            held,
            is_well: true,
        })
    }

    async fn run(
        mut self,
        mut spans: mpsc::Receiver<Span>,
        enough: Arc<Notify>,
        mut stopped: watch::Receiver<bool>,
        interval: Duration,
    ) {
        let mut tick = tokio::time::interval(interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopping = false;
        while !stopping {
            tokio::select! {
                _ = tick.tick() => {}
                () = enough.notified() => {}
                changed = stopped.changed() => stopping = changed.is_err() || *stopped.borrow(),
            }
            if stopping {
                spans.close();
            }
            while self.send_some(&mut spans).await {}
        }
    }

    /// Sends a batch of what waits; whether there may be another one.
    async fn send_some(&mut self, spans: &mut mpsc::Receiver<Span>) -> bool {
        let mut batch = Vec::new();
        while batch.len() < MAX_BATCH
            && let Ok(span) = spans.try_recv()
        {
            batch.push(span);
        }
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        if count == 0 {
            return false;
        }
        let is_full = batch.len() == MAX_BATCH;
        let body = self.message(batch).encode_to_vec();
        let sent = self.post(body).await;
        self.held.fetch_sub(count, Ordering::Relaxed);
        let refused = sent.as_ref().map_or(count, |refused| count.min(*refused));
        metrics::counter!(EXPORTED).increment(count - refused);
        if refused > 0 {
            dropped("not_taken", refused);
        }
        self.say(sent.err());
        is_full
    }

    /// Says once that the collector can't be used, and once that it can again.
    fn say(&mut self, why: Option<String>) {
        let was_well = std::mem::replace(&mut self.is_well, why.is_none());
        match why {
            Some(why) if was_well => {
                tracing::warn!(
                    why,
                    "the collector of PIX_OTLP_ENDPOINT does not take spans: they are dropped"
                );
            }
            None if !was_well => tracing::info!("the collector of PIX_OTLP_ENDPOINT takes spans again"),
            _ => {}
        }
    }

    /// How many spans of it the collector refused; as an error, why it took none.
    async fn post(&self, body: Vec<u8>) -> Result<u64, String> {
        let request = self.client.post(&self.url).headers(self.headers.clone()).body(body);
        let mut answer = request.send().await.map_err(|error| why(&error))?;
        if !answer.status().is_success() {
            return Err(format!("status {}", answer.status().as_u16()));
        }
        let mut read = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| why(&error))? {
            if read.len().saturating_add(chunk.len()) > MAX_ANSWER_BYTES {
                return Err("its answer is too large".to_owned());
            }
            read.extend_from_slice(&chunk);
        }
        // What can't be read says nothing against the status.
        let answer = ExportTraceServiceResponse::decode(read.as_slice()).unwrap_or_default();
        Ok(answer.partial_success.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or(0)))
    }

    fn message(&self, batch: Vec<Span>) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: SERVICE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let spans = batch.into_iter().map(as_sent).collect();
        let scope_spans = vec![wire::ScopeSpans { scope: Some(scope), spans, schema_url: String::new() }];
        let resource = Some(self.resource.clone());
        ExportTraceServiceRequest {
            resource_spans: vec![wire::ResourceSpans { resource, scope_spans, schema_url: String::new() }],
        }
    }
}

/// Nothing of its text: it may quote what the collector said.
fn why(error: &reqwest::Error) -> String {
    let why = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    why.to_owned()
}

fn attribute(name: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::StringValue(text.into_owned()),
        Value::Number(number) => any_value::Value::IntValue(number),
    };
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn as_sent(span: Span) -> wire::Span {
    let kind = match span.told.kind {
        Kind::Internal => wire::span::SpanKind::Internal,
        Kind::Server => wire::span::SpanKind::Server,
        Kind::Client => wire::span::SpanKind::Client,
    };
    let code =
        if span.told.failed { wire::status::StatusCode::Error } else { wire::status::StatusCode::Unset };
    let begun = u64::try_from(span.begun_micros).unwrap_or(0).saturating_mul(1_000);
    let took = u64::try_from(span.took.as_nanos()).unwrap_or(u64::MAX);
    let is_remote = span.parent.is_some_and(|parent| parent.is_remote);
    let links = span.links.into_iter().map(|link| wire::span::Link {
        trace_id: link.trace_id.to_be_bytes().into(),
        span_id: link.span_id.to_be_bytes().into(),
        flags: REMOTE_IS_KNOWN,
        ..wire::span::Link::default()
    });
    wire::Span {
        trace_id: span.trace_id.to_be_bytes().into(),
        span_id: span.span_id.to_be_bytes().into(),
        parent_span_id: span.parent.map(|parent| parent.span_id.to_be_bytes().into()).unwrap_or_default(),
        flags: SAMPLED | REMOTE_IS_KNOWN | if is_remote { IS_REMOTE } else { 0 },
        name: span.told.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: begun,
        end_time_unix_nano: begun.saturating_add(took),
        attributes: span.told.attributes.into_iter().map(|(name, value)| attribute(name, value)).collect(),
        links: links.collect(),
        status: Some(wire::Status { code: code.into(), message: String::new() }),
        ..wire::Span::default()
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use pix_traces::{Link, Parent, Told};

    use super::*;

    fn settings(endpoint: &str) -> OtlpSettings {
        OtlpSettings {
            endpoint: endpoint.to_owned(),
            headers: None,
            share: WHOLE_SHARE,
            queue: 600,
            interval: Duration::from_mins(1),
            timeout: Duration::from_millis(300),
        }
    }

    fn span(span_id: u64) -> Span {
        Span {
            trace_id: 0x0199_0000_0000_7000_8000_0000_0000_00ff,
            span_id,
            parent: Some(Parent { span_id: 7, is_remote: true }),
            begun_micros: 1_795_000_000_000_001,
            took: Duration::from_micros(5),
            links: vec![Link { trace_id: 9, span_id: 8 }],
            told: Told::new(Kind::Server, "GET /x").with("http.response.status_code", 503_u16).failing(true),
        }
    }

    #[test]
    fn a_span_is_sent_as_the_protocol_has_it() {
        let sent = as_sent(span(3));
        assert_eq!(sent.trace_id[..], 0x0199_0000_0000_7000_8000_0000_0000_00ff_u128.to_be_bytes());
        assert_eq!(
            (&sent.span_id[..], &sent.parent_span_id[..]),
            (&[0, 0, 0, 0, 0, 0, 0, 3][..], &[0, 0, 0, 0, 0, 0, 0, 7][..])
        );
        assert_eq!((sent.flags, sent.kind, sent.status.unwrap().code), (0x301, 2, 2));
        assert_eq!(sent.start_time_unix_nano, 1_795_000_000_000_001_000);
        assert_eq!(sent.end_time_unix_nano - sent.start_time_unix_nano, 5_000);
        assert_eq!((sent.links[0].trace_id[15], sent.links[0].span_id[7]), (9, 8));
        let first = as_sent(Span { parent: None, ..span(3) });
        assert!(first.parent_span_id.is_empty() && first.flags == 0x101);
    }

    #[test]
    fn a_share_of_all_traces_is_wanted_by_their_last_bits() {
        let last = (1_u128 << RANDOM_BITS) - 1;
        let wanted = |share: u32, trace_id: u128| trace_id & last >= u128::from(least(share));
        for trace_id in [1, last, last << 9, u128::MAX] {
            assert!(wanted(WHOLE_SHARE, trace_id));
        }
        assert!(wanted(WHOLE_SHARE / 2, last) && wanted(WHOLE_SHARE / 2, (last / 2) + 1));
        assert!(!wanted(WHOLE_SHARE / 2, last / 2 - 1) && !wanted(WHOLE_SHARE / 2, 1));
        assert!(wanted(1, last) && !wanted(1, last - (last / 500_000)), "a millionth");
    }

    #[test]
    fn headers_are_read_as_the_environment_variable_of_opentelemetry_is() {
        let read = headers("authorization=Basic%20YTpi==, x-scope-orgid = pix ,").unwrap();
        assert_eq!(
            (read["authorization"].as_bytes(), read["x-scope-orgid"].as_bytes()),
            (&b"Basic YTpi=="[..], &b"pix"[..])
        );
        assert!(!format!("{read:?}").contains("YTpi"));
        assert!(headers("").unwrap().is_empty());
        let many = (0..17).map(|number| format!("h{number}=v")).collect::<Vec<_>>().join(",");
        let long = format!("a={}", "v".repeat(MAX_HEADERS_BYTES));
        for text in ["a", "a b=c", "a=%", "a=%+1", "a=%0a", "=v", "content-length=3", &many, &long] {
            assert!(headers(text).is_none(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_collector_that_never_answers_costs_spans_and_no_time() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        // This test has one thread, so that what the task counts is counted here.
        let _recording = metrics::set_default_local_recorder(&recorder);
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", silent.local_addr().unwrap());
        let (exporter, queue) = Exporter::new(&settings(&endpoint)).unwrap();
        for number in 1..=700 {
            queue.take(span(number));
        }
        let begun = std::time::Instant::now();
        exporter.stop().await;
        assert!(begun.elapsed() < Duration::from_secs(10), "it gave up after 300 ms");
        queue.take(span(701));
        let counted = handle.render();
        assert!(counted.contains("pix_spans_dropped_total{why=\"queue_full\"} 100"), "{counted}");
        let of = |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok()).unwrap();
        let dropped = counted.lines().filter(|line| line.starts_with(DROPPED)).map(of);
        assert_eq!(dropped.sum::<u64>(), 701, "each once: {counted}");
    }
}
