//! Where a charge stands, told as it changes: server-sent events (WHATWG HTML, "Server-sent events").
//!
//! A stream looks at what all pages of the node share, so that many who watch one charge cost as much as one. It ends when
//! the charge is no longer live, when the service stops, and after [`LONGEST`]; the browser then asks again by itself. One
//! stream too many is answered 503, which makes the page ask from time to time instead.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::{self, Bytes};
use actix_web::{Error, HttpResponse};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use uuid::Uuid;

use super::{ROBOTS, look, named, told};
use crate::error::ApiError;
use crate::extract::{Answer, Call};
use crate::overload::count_shed;
use crate::state::State;

/// How often a stream looks.
const LOOKS_EVERY: Duration = Duration::from_secs(2);
/// After how long a stream that has nothing to tell gives a sign of life: proxies cut what is silent for a minute or so.
const SPEAKS_EVERY: Duration = Duration::from_secs(15);
/// How long a stream lives.
const LONGEST: Duration = Duration::from_mins(10);
/// After how long a browser comes back whose stream has ended.
const COMES_BACK_AFTER: Duration = Duration::from_secs(3);

/// How many streams there may be on this node.
pub(crate) struct Streams(Arc<Semaphore>);

impl Streams {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }
}

/// One who watches a charge.
struct Watch {
    state: web::Data<State>,
    id: Uuid,
    /// What was told last.
    told: String,
    is_over: bool,
    spoke_at: Instant,
    until: Instant,
    _place: OwnedSemaphorePermit,
}

/// A stream: what holds now, and then what changes.
pub(super) async fn open(call: Call) -> Answer {
    let shown = look(&call).await?;
    let Ok(place) = call.state.pay.streams.0.clone().try_acquire_owned() else {
        count_shed("pay_stream");
        return Err(ApiError::overloaded());
    };
    let now = Instant::now();
    let watch = Watch {
        id: named(&call).await,
        told: told(&shown),
        is_over: !shown.stage.is_live(),
        spoke_at: now,
        until: now + LONGEST,
        state: call.state.clone(),
        _place: place,
    };
    let first = format!("retry: {}\n{}", COMES_BACK_AFTER.as_millis(), event(&watch.told));
    let chunks = stream::unfold((watch, Some(first)), |(mut watch, first)| async move {
        let chunk = match first {
            Some(first) => first,
            None => watch.next().await?,
        };
        Some((Ok::<_, Error>(Bytes::from(chunk)), (watch, None)))
    });
    let mut answer = HttpResponse::Ok();
    answer.insert_header((ROBOTS, "noindex")).content_type("text/event-stream");
    Ok(answer.streaming(chunks))
}

fn event(told: &str) -> String {
    format!("data: {told}\n\n")
}

impl Watch {
    /// The next that is to be sent; nothing when that is all.
    async fn next(&mut self) -> Option<String> {
        loop {
            let look_at = Instant::now() + LOOKS_EVERY;
            if self.is_over || look_at > self.until {
                return None;
            }
            tokio::select! {
                () = tokio::time::sleep_until(look_at) => {}
                () = self.state.config.stopping.begun() => return None,
            }
            match self.state.pay.views.look(&self.state, self.id).await {
                Ok(shown) => {
                    self.is_over = !shown.stage.is_live();
                    let now_told = told(&shown);
                    if now_told != self.told {
                        self.spoke_at = Instant::now();
                        self.told = now_told;
                        return Some(event(&self.told));
                    }
                }
                // The store may be there again when it is asked next.
                Err(error) => tracing::debug!(%error, "a charge that is watched could not be read"),
            }
            if self.spoke_at.elapsed() >= SPEAKS_EVERY {
                self.spoke_at = Instant::now();
                return Some(":\n\n".to_owned());
            }
        }
    }
}
