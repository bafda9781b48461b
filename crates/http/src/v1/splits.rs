//! `/api/v1/splits`: the integrator's parts of others' charges. Whose charge it is is shown, and nothing of the charge
//! itself nor of who paid it.

use pix_domain::error::ServiceError;
use pix_domain::ids::SplitId;
use pix_domain::splits::Split;
use uuid::Uuid;

use super::{CURRENCY, list, url};
use crate::extract::{Answer, TenantCall, ok};
use crate::json::Object;
use crate::time;

/// A page of splits.
pub(crate) async fn list(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let asked = list::Asked::parse_plain("splits", caller.integrator_id, call.http.query_string())?;
    let (splits, query) = (call.state.services.splits.clone(), asked.query.clone());
    let page = call.state.run(async move { splits.list(caller.integrator_id, query).await }).await?;
    let base = &call.state.config.public_url;
    let path = format!("{base}/api/v1/splits");
    Ok(asked.answer(&path, &page, |split| split.id.0, |split| render(split, base).end()))
}

/// One split.
pub(crate) async fn show(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let Ok(id) = Uuid::try_parse(&call.path_part().await) else {
        return Err(ServiceError::NotFound.into());
    };
    let splits = call.state.services.splits.clone();
    let split = call.state.run(async move { splits.get(caller.integrator_id, SplitId(id)).await }).await?;
    Ok(ok(render(&split, &call.state.config.public_url)))
}

/// A split in v1's form.
fn render(split: &Split, base: &str) -> Object {
    Object::new()
        .text("uuid", &split.id.to_string())
        .text("from", &split.from.to_string())
        .money("amount", split.amount)
        .money("taken_back", split.taken_back)
        .money("net_amount", split.kept())
        .text("currency", CURRENCY)
        .text("created_at", &time::rfc3339(split.created_at))
        .text("updated_at", &time::rfc3339(split.updated_at))
        .object("links", Object::new().text("self", &url(base, "splits", split.id.0)))
}
