//! `/api/v1/limits`.

use pix_domain::limits::{LimitKind, Most, Raise, Standing};

use crate::extract::{Answer, TenantCall, ok};
use crate::json::{self, Object};
use crate::time;

/// How the limits of what may go out stand.
pub(crate) async fn show(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let withdrawals = call.state.services.withdrawals.clone();
    let work = async move { withdrawals.limits(caller.integrator_id).await };
    let (policy, standings) = call.state.run(work).await?;
    Ok(ok(Object::new()
        .number("version", policy.version.into())
        .text("time_zone", "America/Sao_Paulo")
        .raw("data", &render(&standings))))
}

/// Limits in v1's form.
pub(super) fn render(standings: &[Standing]) -> String {
    json::array(standings.iter().map(|standing| one(standing).end()))
}

fn one(standing: &Standing) -> Object {
    let kind = standing.kind;
    let next = standing.then.map(|Raise { to, at }| {
        let to = value(kind, to.map(Most::get));
        Object::new().raw("limit", &to).text("at", &time::rfc3339(at)).end()
    });
    Object::new()
        .text("name", kind.as_str())
        .text("unit", if kind.is_count() { "withdrawals" } else { super::CURRENCY })
        .raw("limit", &value(kind, standing.most.map(Most::get)))
        .raw("used", &value(kind, standing.used))
        .raw("left", &value(kind, standing.left()))
        .raw("applies", if standing.holds { "true" } else { "false" })
        .maybe("resets_at", standing.resets_at.map(time::rfc3339).as_deref())
        .raw("next", next.as_deref().unwrap_or("null"))
}

/// An amount in reais, or a number.
fn value(kind: LimitKind, value: Option<i64>) -> String {
    match value {
        None => "null".to_owned(),
        Some(count) if kind.is_count() => count.to_string(),
        Some(cents) => json::signed(cents),
    }
}
