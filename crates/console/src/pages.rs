//! The pages, a module each, and the way to them.

mod audit_log;
mod findings;
mod integrators;
mod overview;
mod postbacks;
mod records;
mod resolve;
mod search;
mod sign_in;
mod transaction;
mod uncertain;

use std::collections::BTreeMap;

use actix_web::guard::{Any, Get, Head};
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderValue};
use actix_web::{HttpResponse, Resource, Route, middleware, web};
use pix_domain::credentials::Integrator;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;

use crate::door::{Failed, MAX_FORM_BYTES, Visit, guard};
use crate::{Mount, PATH, page};

/// How a page ends.
type Page = Result<HttpResponse, Failed>;

/// All that is below [`PATH`].
pub(crate) fn routes(mount: Mount, config: &mut web::ServiceConfig) {
    let scope = web::scope(PATH)
        .app_data(web::Data::new(mount))
        .app_data(web::FormConfig::default().limit(MAX_FORM_BYTES))
        .wrap(middleware::from_fn(guard))
        .service(at("", Some(look().to(overview::show)), None))
        .service(at("/", Some(look().to(overview::show)), None))
        .service(at("/sign-in", Some(look().to(sign_in::show)), Some(act().to(sign_in::sign_in))))
        .service(at("/sign-out", None, Some(act().to(sign_in::sign_out))))
        .service(at("/search", Some(look().to(search::show)), Some(act().to(search::search))))
        .service(at("/transactions/{id}", Some(look().to(transaction::show)), None))
        .service(at("/transactions/{id}/resolve", None, Some(act().to(resolve::decide))))
        .service(at("/splits/{integrator}/{id}", Some(look().to(transaction::show_split)), None))
        .service(at("/uncertain", Some(look().to(uncertain::show)), None))
        .service(at("/findings", Some(look().to(findings::show)), None))
        .service(at("/postbacks", Some(look().to(postbacks::show)), None))
        .service(at("/postbacks/{integrator}", Some(look().to(postbacks::show_events)), None))
        .service(at("/postbacks/{integrator}/enable", None, Some(act().to(postbacks::enable))))
        .service(at("/postbacks/{integrator}/replay", None, Some(act().to(postbacks::replay))))
        .service(at("/postbacks/{integrator}/redeliver", None, Some(act().to(postbacks::redeliver))))
        .service(at("/integrators", Some(look().to(integrators::list)), None))
        .service(at("/integrators/{id}", Some(look().to(integrators::show)), None))
        .service(at("/integrators/{id}/suspend", None, Some(act().to(integrators::suspend))))
        .service(at("/integrators/{id}/revoke", None, Some(act().to(integrators::revoke))))
        .service(at("/audit-log", Some(look().to(audit_log::show)), None))
        .default_service(web::to(nothing));
    config.service(scope);
}

/// GET and HEAD.
fn look() -> Route {
    web::route().guard(Any(Get()).or(Head()))
}

/// POST.
fn act() -> Route {
    web::post()
}

/// What is looked at under a path, and what is done there; who comes by another method is told which there are.
fn at(path: &str, looked: Option<Route>, done: Option<Route>) -> Resource {
    let allow = match (&looked, &done) {
        (Some(_), Some(_)) => "GET, HEAD, POST",
        (Some(_), None) => "GET, HEAD",
        _ => "POST",
    };
    let resource = looked.into_iter().chain(done).fold(web::resource(path), Resource::route);
    resource.default_service(web::to(move || async move {
        let mut answer =
            page::plain(StatusCode::METHOD_NOT_ALLOWED, "Nothing is asked for here in that way.");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        answer
    }))
}

/// What no page is at.
async fn nothing(_visit: Visit) -> Page {
    Err(Failed::NotFound)
}

/// An id in a path; what is none names nothing.
fn parsed(text: &str) -> Result<uuid::Uuid, Failed> {
    uuid::Uuid::try_parse(text).map_err(|_wrong| Failed::NotFound)
}

/// The integrator that a path names.
async fn integrator(visit: &Visit, id: &str) -> Result<Integrator, Failed> {
    let id = IntegratorId(parsed(id)?);
    visit.console.ports.stores.integrators.find(id).await?.ok_or(Failed::NotFound)
}

/// What integrators are called.
struct Names(BTreeMap<IntegratorId, String>);

impl Names {
    async fn of(visit: &Visit) -> Result<Self, StoreError> {
        let all = visit.console.ports.stores.integrators.list().await?;
        Ok(Self(all.into_iter().map(|integrator| (integrator.id, integrator.name)).collect()))
    }

    fn name(&self, id: IntegratorId) -> &str {
        self.0.get(&id).map_or("unknown", String::as_str)
    }
}
