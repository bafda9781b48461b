//! How many requests are worked on at once. One more is turned away at once, before it has any effect: whoever waits in a
//! queue that only grows is answered too late anyway.
//!
//! Sign-ins, health checks, the payment page and callbacks ([`crate::callbacks`]) have places of their own, so that none of them takes
//! those of the others.

use std::sync::Arc;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, ResponseError, web};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::HttpConfig;
use crate::error::ApiError;
use crate::state::State;

/// How many health checks are answered at once: each of some asks the store.
const HEALTH_AT_ONCE: usize = 16;

/// How many exports are sent at once. Each has at most one piece in memory.
const EXPORTS_AT_ONCE: usize = 16;

/// How many requests of the payment page are answered at once, past which the store would only be asked later.
const PAGES_AT_ONCE: usize = 256;

/// A place. It is free again when the last of those who hold it is done.
pub(crate) type Place = Arc<OwnedSemaphorePermit>;

tokio::task_local! {
    static PLACE: Place;
}

/// The place of the request that is being worked on, for a task that may outlive it.
pub(crate) fn place() -> Option<Place> {
    PLACE.try_with(Place::clone).ok()
}

/// The places of the whole service, shared by all of its threads.
pub(crate) struct Places {
    requests: Arc<Semaphore>,
    sign_ins: Arc<Semaphore>,
    health: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    exports: Arc<Semaphore>,
}

impl Places {
    pub(crate) fn new(config: &HttpConfig) -> Self {
        metrics::describe_counter!("pix_shed_total", "Requests and connections that were too many at once.");
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            requests: places(config.requests_at_once),
            sign_ins: places(config.sign_ins_at_once),
            health: places(HEALTH_AT_ONCE),
            pages: places(PAGES_AT_ONCE),
            exports: places(EXPORTS_AT_ONCE),
        }
    }
}

/// A place for an answer that is read and sent piece by piece, for as long as its reader takes.
pub(crate) fn export(places: &Places) -> Result<OwnedSemaphorePermit, ApiError> {
    places.exports.clone().try_acquire_owned().map_err(|_all_taken| {
        count_shed("export");
        ApiError::overloaded()
    })
}

/// Counts what was turned away.
pub(crate) fn count_shed(what: &'static str) {
    metrics::counter!("pix_shed_total", "what" => what).increment(1);
}

/// The middleware of the token endpoint.
pub(crate) async fn sign_in(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    within("sign_in", |places| &places.sign_ins, request, next).await
}

/// The middleware of health checks.
pub(crate) async fn health(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    within("health", |places| &places.health, request, next).await
}

/// The middleware of the payment page. A stream of events has no place once it has begun.
pub(crate) async fn pay(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    within("pay", |places| &places.pages, request, next).await
}

/// The middleware of v1 and v2.
pub(crate) async fn api(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    within("request", |places| &places.requests, request, next).await
}

async fn within(
    what: &'static str,
    which: impl Fn(&Places) -> &Arc<Semaphore>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let state = request.app_data::<web::Data<State>>();
    let place = state.and_then(|state| which(&state.places).clone().try_acquire_owned().ok());
    let Some(place) = place else {
        count_shed(what);
        return Ok(request.into_response(ApiError::overloaded().error_response()));
    };
    let answer = PLACE.scope(Arc::new(place), next.call(request)).await?;
    Ok(answer.map_into_boxed_body())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_exports_at_once_and_one_that_ends_makes_room() {
        let places = Places::new(&HttpConfig::new("http://127.0.0.1", "0123456789abcdef"));
        let mut taken: Vec<_> = (0..EXPORTS_AT_ONCE).map(|_| export(&places).unwrap()).collect();
        assert_eq!(export(&places).unwrap_err().to_string(), "overloaded");
        taken.pop();
        assert!(export(&places).is_ok());
        assert_eq!(
            places.requests.available_permits(),
            crate::DEFAULT_REQUESTS_AT_ONCE,
            "they take no others"
        );
    }
}
