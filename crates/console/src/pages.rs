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

use actix_web::{HttpResponse, middleware, web};
use pix_domain::credentials::Integrator;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;

use crate::door::{Failed, MAX_FORM_BYTES, Visit, guard};
use crate::{Mount, PATH};

/// How a page ends.
type Page = Result<HttpResponse, Failed>;

/// All that is below [`PATH`].
pub(crate) fn routes(mount: Mount, config: &mut web::ServiceConfig) {
    let scope = web::scope(PATH)
        .app_data(web::Data::new(mount))
        .app_data(web::FormConfig::default().limit(MAX_FORM_BYTES))
        .wrap(middleware::from_fn(guard))
        .route("", web::get().to(overview::show))
        .route("/", web::get().to(overview::show))
        .route("/sign-in", web::get().to(sign_in::show))
        .route("/sign-in", web::post().to(sign_in::sign_in))
        .route("/sign-out", web::post().to(sign_in::sign_out))
        .route("/search", web::get().to(search::show))
        .route("/search", web::post().to(search::search))
        .route("/transactions/{id}", web::get().to(transaction::show))
        .route("/transactions/{id}/resolve", web::post().to(resolve::decide))
        .route("/splits/{integrator}/{id}", web::get().to(transaction::show_split))
        .route("/uncertain", web::get().to(uncertain::show))
        .route("/findings", web::get().to(findings::show))
        .route("/postbacks", web::get().to(postbacks::show))
        .route("/postbacks/{integrator}", web::get().to(postbacks::show_events))
        .route("/postbacks/{integrator}/enable", web::post().to(postbacks::enable))
        .route("/postbacks/{integrator}/replay", web::post().to(postbacks::replay))
        .route("/postbacks/{integrator}/redeliver", web::post().to(postbacks::redeliver))
        .route("/integrators", web::get().to(integrators::list))
        .route("/integrators/{id}", web::get().to(integrators::show))
        .route("/integrators/{id}/suspend", web::post().to(integrators::suspend))
        .route("/integrators/{id}/revoke", web::post().to(integrators::revoke))
        .route("/audit-log", web::get().to(audit_log::show))
        .default_service(web::to(nothing));
    config.service(scope);
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
