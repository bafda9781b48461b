//! How an answer is spoiled: connections that are cut, bodies that stop or never end. It owns what is done to the
//! connection and must never know what was executed.

use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::{
    HttpRequest, HttpResponse, ResponseError,
    body::{BodySize, MessageBody},
    dev::Extensions,
    http::{
        StatusCode,
        header::{CONTENT_TYPE, LOCATION, RETRY_AFTER},
    },
    web::Bytes,
};

use crate::{
    clock::Timeline,
    falsify,
    rules::Met,
    scenario::{IdField, Scenario},
    wire::{Answer, Refusal},
};

/// Bytes of a huge answer made at once.
const FILL_CHUNK: usize = 64 * 1_024;
const HTML: &str = "<!DOCTYPE html>\n<html><head><title>Oops</title></head><body><h1>Something went wrong</h1></body></html>\n";

/// The connection of a request, to reset it and to notice that the client has gone.
#[derive(Clone, Default)]
pub(crate) struct Connection {
    #[cfg(unix)]
    descriptor: Option<Arc<std::os::fd::OwnedFd>>,
}

impl Connection {
    /// Keeps a connection for its requests.
    pub(crate) fn keep(connection: &dyn Any, kept: &mut Extensions) {
        kept.insert(Self::new(connection));
    }

    #[cfg(unix)]
    fn new(connection: &dyn Any) -> Self {
        use std::os::fd::AsFd;
        let stream = connection.downcast_ref::<tokio::net::TcpStream>();
        let descriptor = stream.and_then(|stream| stream.as_fd().try_clone_to_owned().ok());
        Self { descriptor: descriptor.map(Arc::new) }
    }

    #[cfg(not(unix))]
    fn new(_connection: &dyn Any) -> Self {
        Self {}
    }

    /// That of a request.
    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.conn_data::<Self>().cloned().unwrap_or_default()
    }

    /// Another handle of the same connection, in the runtime of the caller.
    #[cfg(unix)]
    fn stream(&self) -> Option<tokio::net::TcpStream> {
        let descriptor = self.descriptor.as_ref()?.try_clone().ok()?;
        tokio::net::TcpStream::from_std(std::net::TcpStream::from(descriptor)).ok()
    }

    #[cfg(not(unix))]
    fn stream(&self) -> Option<tokio::net::TcpStream> {
        None
    }

    /// Ends when the client has closed the connection; never, when that can't be known.
    async fn gone(&self) {
        if let Some(stream) = self.stream()
            && matches!(stream.peek(&mut [0]).await, Ok(0) | Err(_))
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// The connection ends without an answer, by a reset where the system can do that.
    pub(crate) fn cut(&self) -> HttpResponse {
        if let Some(stream) = self.stream() {
            // It is only a more honest end; without it the client sees the connection closed.
            drop(stream.set_zero_linger());
        }
        HttpResponse::Ok().body(Script::new(None, [Step::Cut], None))
    }

    /// Nothing for a while, then the end of the connection.
    async fn hang(&self, timeline: &Timeline, span: Duration) -> HttpResponse {
        tokio::select! {
            _ = timeline.sleep(span) => {}
            () = self.gone() => {}
        }
        self.cut()
    }
}

/// The answer of a scenario that executes nothing; `None` for every other scenario.
pub(crate) async fn instead(
    met: &Met,
    connection: &Connection,
    timeline: &Timeline,
    request: &HttpRequest,
) -> Option<HttpResponse> {
    let parameters = &met.parameters;
    let status = |status: Option<u16>| {
        status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    };
    Some(match met.scenario {
        Scenario::NeverAnswers => connection.hang(timeline, parameters.span()).await,
        Scenario::ServerError => server_error(status(parameters.status)),
        Scenario::ResetBeforeExecuting => connection.cut(),
        Scenario::Refused => {
            let code = parameters.code.clone().unwrap_or_default();
            let message = parameters.message.clone().unwrap_or_default();
            Refusal::render(status(parameters.status), &code, &message)
        }
        Scenario::Redirect => {
            let here = request.path().to_owned();
            let location = parameters.location.clone().unwrap_or(here);
            HttpResponse::build(status(parameters.status)).insert_header((LOCATION, location)).finish()
        }
        Scenario::RateLimited => {
            let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many requests");
            let mut response = refusal.error_response();
            let wait = parameters.span().as_secs().into();
            response.headers_mut().insert(RETRY_AFTER, wait);
            response
        }
        Scenario::Unauthorized => Refusal::unauthorized("invalid_token").error_response(),
        Scenario::NotFoundThenFound => Refusal::not_found("transaction not found").error_response(),
        _ => return None,
    })
}

/// How what was executed is answered.
pub(crate) async fn afterwards(
    met: &Met,
    connection: &Connection,
    timeline: &Arc<Timeline>,
    answer: Answer,
) -> HttpResponse {
    let parameters = &met.parameters;
    let status =
        || parameters.status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::OK);
    let json = |body: String| HttpResponse::from(Answer { status: answer.status, body });
    let text = answer.body.as_str();
    match met.scenario {
        Scenario::ExecutesThenNeverAnswers => connection.hang(timeline, parameters.span()).await,
        Scenario::ExecutesThenServerError => server_error(status()),
        Scenario::ExecutesThenResets | Scenario::DiesAndComesBack => connection.cut(),
        Scenario::AnswersLate => {
            timeline.sleep(parameters.span()).await;
            answer.into()
        }
        Scenario::DrippingAnswer => script(&answer, drip(text, parameters.span()), text.len(), timeline),
        Scenario::TruncatedAnswer => {
            let half = text.get(..text.len() / 2).unwrap_or_default().to_owned();
            script(&answer, vec![Step::Send(half.into()), Step::Flush, Step::Cut], text.len(), timeline)
        }
        Scenario::HugeAnswer => {
            let (start, left) = falsify::stretch(text, parameters.bytes.unwrap_or_default());
            let length = start.len() + left + 2;
            let steps =
                vec![Step::Send(start.into()), Step::Fill(left), Step::Send(Bytes::from_static(b"\"}"))];
            script(&answer, steps, length, timeline)
        }
        Scenario::MalformedAnswer => json(text.trim_end_matches('}').to_owned()),
        Scenario::HtmlAnswer => HttpResponse::build(status()).content_type("text/html").body(HTML),
        Scenario::EmptyAnswer => HttpResponse::build(status()).finish(),
        Scenario::WrongAmountAnswer => json(falsify::amount(text)),
        Scenario::WrongIdAnswer => json(falsify::id(text, parameters.field.unwrap_or(IdField::ExternalId))),
        Scenario::WrongKeyAnswer => json(falsify::key(text)),
        Scenario::UnknownStatusAnswer => json(falsify::status(text)),
        _ => answer.into(),
    }
}

fn server_error(status: StatusCode) -> HttpResponse {
    Refusal::new(status, "internal", "something went wrong").error_response()
}

fn drip(text: &str, pause: Duration) -> Vec<Step> {
    text.bytes().flat_map(|byte| [Step::Wait(pause), Step::Send(Bytes::from(vec![byte]))]).collect()
}

fn script(answer: &Answer, steps: Vec<Step>, length: usize, timeline: &Arc<Timeline>) -> HttpResponse {
    HttpResponse::build(answer.status).insert_header((CONTENT_TYPE, "application/json")).body(Script::new(
        u64::try_from(length).ok(),
        steps,
        Some(Arc::clone(timeline)),
    ))
}

/// What a body does next.
enum Step {
    Send(Bytes),
    /// This many bytes of nothing in particular.
    Fill(usize),
    /// What was sent so far goes out.
    Flush,
    Wait(Duration),
    /// The connection ends, whatever the body's length was said to be.
    Cut,
}

type Waiting = Pin<Box<dyn Future<Output = bool>>>;

/// A body that follows steps.
struct Script {
    length: Option<u64>,
    steps: VecDeque<Step>,
    timeline: Option<Arc<Timeline>>,
    waiting: Option<Waiting>,
}

impl Script {
    fn new(
        length: Option<u64>,
        steps: impl IntoIterator<Item = Step>,
        timeline: Option<Arc<Timeline>>,
    ) -> Self {
        Self { length, steps: steps.into_iter().collect(), timeline, waiting: None }
    }
}

/// The connection was cut on purpose.
#[derive(Debug)]
struct CutOnPurpose;

impl fmt::Display for CutOnPurpose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("cut by a scenario")
    }
}

impl std::error::Error for CutOnPurpose {}

impl MessageBody for Script {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        self.length.map_or(BodySize::Stream, BodySize::Sized)
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let cut = || Poll::Ready(Some(Err(io::Error::other(CutOnPurpose))));
        loop {
            if let Some(waiting) = &mut self.waiting {
                let whole = ready!(waiting.as_mut().poll(context));
                self.waiting = None;
                if !whole {
                    return cut();
                }
            }
            match self.steps.pop_front() {
                None => return Poll::Ready(None),
                Some(Step::Send(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Some(Step::Fill(0)) => {}
                Some(Step::Fill(left)) => {
                    let now = left.min(FILL_CHUNK);
                    self.steps.push_front(Step::Fill(left - now));
                    return Poll::Ready(Some(Ok(Bytes::from(vec![b'x'; now]))));
                }
                Some(Step::Flush) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Step::Wait(span)) => {
                    self.waiting = self
                        .timeline
                        .clone()
                        .map(|timeline| -> Waiting { Box::pin(async move { timeline.sleep(span).await }) });
                }
                Some(Step::Cut) => return cut(),
            }
        }
    }
}
