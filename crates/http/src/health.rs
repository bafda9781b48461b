//! Whether this process runs, and whether it can do its work.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use pix_domain::ids::IntegratorId;
use uuid::Uuid;

use crate::error::OVERLOADED_RETRY_AFTER_SECONDS;
use crate::extract::{Answer, Call, ok};
use crate::json::Object;

/// How long the store may take to answer.
const STORE_DEADLINE: Duration = Duration::from_secs(2);

/// The process runs.
pub(crate) async fn live() -> Answer {
    Ok(ok(Object::new().text("status", "live")))
}

/// Requests can be served: it is not stopping, and whoever knows says so; without such a one, the store answers.
pub(crate) async fn ready(call: Call) -> Answer {
    if call.state.config.stopping.has_begun() {
        return Ok(unavailable());
    }
    if let Some(readiness) = call.state.config.readiness.clone() {
        let asked = async move { tokio::time::timeout(STORE_DEADLINE, readiness.is_ready()).await };
        let ready = matches!(call.state.spawn(asked).await?, Ok(true));
        return Ok(if ready { ok(Object::new().text("status", "ready")) } else { unavailable() });
    }
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
    Ok(unavailable())
}

/// Without a reason: it is for operators.
fn unavailable() -> HttpResponse {
    let body = Object::new().text("status", "unavailable").end();
    HttpResponse::build(StatusCode::SERVICE_UNAVAILABLE)
        .insert_header((RETRY_AFTER, OVERLOADED_RETRY_AFTER_SECONDS))
        .content_type("application/json")
        .body(body)
}
