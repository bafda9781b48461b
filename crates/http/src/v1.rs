//! The v1 endpoints: strict in what they take, problem details for errors, links and cursors.

pub(crate) mod balance;
pub(crate) mod charges;
pub(crate) mod consult;
pub(crate) mod cursor;
pub(crate) mod events;
pub(crate) mod evidence;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod postbacks;
pub(crate) mod qrcode;
pub(crate) mod receipts;
pub(crate) mod refunds;
pub(crate) mod splits;
pub(crate) mod statement;
pub(crate) mod withdrawals;

use actix_web::HttpResponse;
use actix_web::http::header::LOCATION;
use pix_domain::charges::Failure;
use pix_domain::error::ServiceError;
use pix_domain::ids::{IntegratorId, ResourceKind};
use pix_domain::metadata::Metadata;
use pix_domain::text::ExternalId;
use pix_domain::transactions::{Transaction, TransactionService};
use uuid::Uuid;

use crate::json::Object;

/// The only currency there is.
const CURRENCY: &str = "BRL";

/// The URL of a resource.
fn url(base: &str, collection: &str, id: Uuid) -> String {
    format!("{base}/api/v1/{collection}/{id}")
}

/// 201 for what was made now; 200, and a header that says so, for what an earlier request made.
fn created(replayed: bool, location: String, body: Object) -> HttpResponse {
    let mut answer = if replayed { HttpResponse::Ok() } else { HttpResponse::Created() };
    if replayed {
        answer.insert_header(("Idempotency-Replayed", "true"));
    }
    answer.insert_header((LOCATION, location)).content_type("application/json").body(body.end())
}

/// What is attached to a record.
fn pairs(metadata: &Metadata) -> Object {
    metadata.pairs().fold(Object::new(), |object, (key, value)| object.named(key, value))
}

fn failure(failure: Option<&Failure>) -> String {
    let object =
        |failure: &Failure| Object::new().text("code", &failure.code).text("message", &failure.message).end();
    failure.map_or_else(|| "null".to_owned(), object)
}

/// The record of that kind which a path names: by uuid with or without hyphens, else by the integrator's name. A name
/// may have the form of a uuid.
async fn find(
    transactions: &TransactionService,
    integrator_id: IntegratorId,
    kind: ResourceKind,
    name: &str,
) -> Result<Transaction, ServiceError> {
    let of_kind = |found: Transaction| {
        if found.resource().kind == kind { Ok(found) } else { Err(ServiceError::NotFound) }
    };
    if let Ok(id) = Uuid::try_parse(name) {
        match transactions.find_by_uuid(integrator_id, id).await.and_then(of_kind) {
            Err(ServiceError::NotFound) => {}
            found => return found,
        }
    }
    let Ok(name) = ExternalId::parse(name) else { return Err(ServiceError::NotFound) };
    match transactions.find_by_external_id(integrator_id, &name).await {
        Err(ServiceError::Ambiguous(resources)) => {
            match resources.iter().find(|resource| resource.kind == kind) {
                Some(resource) => transactions.find_by_uuid(integrator_id, resource.id).await,
                None => Err(ServiceError::NotFound),
            }
        }
        found => found.and_then(of_kind),
    }
}
