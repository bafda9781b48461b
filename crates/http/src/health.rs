//! Whether this process runs, and whether it can do its work.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use pix_domain::ids::IntegratorId;
use uuid::Uuid;

use crate::extract::{Answer, Call, ok};
use crate::json::Object;

/// How long the store may take to answer.
const STORE_DEADLINE: Duration = Duration::from_secs(2);

/// The process runs.
pub(crate) async fn live() -> Answer {
    Ok(ok(Object::new().text("status", "live")))
}

/// The store answers.
pub(crate) async fn ready(call: Call) -> Answer {
    let wallets = call.state.services.wallets.clone();
    let asked = call
        .state
        .spawn(async move {
            tokio::time::timeout(STORE_DEADLINE, wallets.wallet(IntegratorId(Uuid::nil()))).await
        })
        .await?;
    if matches!(asked, Ok(Ok(_))) {
        return Ok(ok(Object::new().text("status", "ready")));
    }
    tracing::warn!("the store does not answer: not ready");
    let body = Object::new().text("status", "unavailable").end();
    Ok(HttpResponse::build(StatusCode::SERVICE_UNAVAILABLE).content_type("application/json").body(body))
}
