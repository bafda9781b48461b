//! How many requests are worked on at once. One more is turned away at once, before it has any effect: whoever waits in a
//! queue that only grows is answered too late anyway.
//!
//! Sign-ins, health checks, the payment page and callbacks ([`crate::callbacks`]) have places of their own, so that none of them takes
//! those of the others. Of the places of v1 and v2, one key can have a share, so that whoever has many requests that take
//! long (those that wait for a provider, say) leaves places to the others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, ResponseError, web};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::HttpConfig;
use crate::error::ApiError;
use crate::limits::{self, Name};
use crate::state::State;

/// How many health checks are answered at once: each of some asks the store.
const HEALTH_AT_ONCE: usize = 16;

/// How many exports are sent at once. Each has at most one piece in memory.
const EXPORTS_AT_ONCE: usize = 16;

/// How many requests of the payment page are answered at once, past which the store would only be asked later.
const PAGES_AT_ONCE: usize = 256;

/// A place. It is free again when the last of those who hold it is done.
pub(crate) type Place = Arc<Held>;

/// What a place is made of.
pub(crate) struct Held {
    _permit: OwnedSemaphorePermit,
    _share: Option<Share>,
}

/// How many places each key has now; without those that have none.
struct Shares {
    most: usize,
    held: Mutex<HashMap<Name, usize>>,
}

impl Shares {
    fn held(&self) -> MutexGuard<'_, HashMap<Name, usize>> {
        // Nothing in here panics while it holds the lock.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One place more for `holder`; `None` when it has all that it may.
    fn take(self: &Arc<Self>, holder: Name) -> Option<Share> {
        let mut held = self.held();
        let count = held.entry(holder).or_default();
        if *count >= self.most {
            return None;
        }
        *count = count.saturating_add(1);
        Some(Share { shares: Arc::clone(self), holder })
    }
}

/// One place of a holder's.
struct Share {
    shares: Arc<Shares>,
    holder: Name,
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.shares.held().entry(self.holder) {
            match count.get().checked_sub(1) {
                Some(left) if left > 0 => drop(count.insert(left)),
                _ => drop(count.remove()),
            }
        }
    }
}

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
    shares: Arc<Shares>,
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
            shares: Arc::new(Shares { most: config.requests_at_once_per_key(), held: Mutex::default() }),
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

/// Does `work` in a place of the token endpoint. Taken when the request is all there: who sends it slowly takes none.
pub(crate) async fn sign_in<T>(places: &Places, work: impl Future<Output = T>) -> Result<T, ApiError> {
    let Ok(permit) = places.sign_ins.clone().try_acquire_owned() else {
        count_shed("sign_in");
        return Err(ApiError::overloaded());
    };
    Ok(PLACE.scope(Arc::new(Held { _permit: permit, _share: None }), work).await)
}

/// The middleware of health checks.
pub(crate) async fn health(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    within("health", |places, _| Some((places.health.clone(), None)), request, next).await
}

/// The middleware of the payment page. A stream of events has no place once it has begun.
pub(crate) async fn pay(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    within("pay", |places, _| Some((places.pages.clone(), None)), request, next).await
}

/// The middleware of v1 and v2.
pub(crate) async fn api(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let which = |places: &Places, request: &ServiceRequest| {
        let share = match limits::holder(&request.extensions()) {
            Some(holder) => Some(places.shares.take(holder)?),
            None => None,
        };
        Some((places.requests.clone(), share))
    };
    within("request", which, request, next).await
}

async fn within(
    what: &'static str,
    which: impl Fn(&Places, &ServiceRequest) -> Option<(Arc<Semaphore>, Option<Share>)>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let state = request.app_data::<web::Data<State>>();
    let place = state.and_then(|state| {
        let (places, share) = which(&state.places, &request)?;
        Some(Held { _permit: places.try_acquire_owned().ok()?, _share: share })
    });
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
    fn a_holder_has_its_share_and_is_forgotten_when_it_has_nothing() {
        let namer = limits::Namer::new("0123456789abcdef").unwrap();
        let [one, other] = ["one", "other"].map(|key| namer.name("key", key.as_bytes()));
        let shares = Arc::new(Shares { most: 2, held: Mutex::default() });
        let (first, second) = (shares.take(one).unwrap(), shares.take(one).unwrap());
        assert!(shares.take(one).is_none());
        let others = shares.take(other).unwrap();
        drop(first);
        let third = shares.take(one).unwrap();
        drop((second, third, others));
        assert!(shares.held().is_empty());
    }

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
