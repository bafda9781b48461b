//! `/api/v1/events`: what has happened, in the order of its commits, and what became of telling it.
//!
//! The feed goes forward: whoever keeps its last cursor and comes back gets what has happened since, all of it and each
//! event once. So a page always has a cursor to go on from, an empty one too.

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use actix_web::http::header::LINK;
use pix_domain::ids::IntegratorId;
use pix_domain::invalid::Invalid;
use pix_domain::list::DEFAULT_PER_PAGE;
use pix_domain::postbacks::delivery::{Attempt, DeliveryState, Standing};
use pix_domain::postbacks::events::{EventQuery, ListedEvent};
use pix_domain::postbacks::service::EventPage;
use pix_domain::transition::EventKind;
use uuid::Uuid;

use super::cursor;
use super::list::{per_page, percent_encoded, values};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall, ok};
use crate::fields::Problems;
use crate::json::{self, Object};
use crate::{postbacks, time};

/// How many digits of a cursor are the number of an event.
const CURSOR_NUMBER_DIGITS: usize = 16;

/// A page of events, oldest first.
pub(crate) async fn list(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let (query, filters) = read(call.http.query_string(), caller.integrator_id)?;
    let (events, limit) = (call.state.services.postbacks.clone(), query.limit);
    let page = call.state.run(async move { events.list(caller.integrator_id, query).await }).await?;
    let path = format!("{}/api/v1/events", call.state.config.public_url);
    Ok(answer(&page, caller.integrator_id, limit, &path, &filters))
}

/// One event.
pub(crate) async fn show(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let id = call.path_part().await;
    let events = call.state.services.postbacks.clone();
    let listed = call.state.run(async move { events.find(caller.integrator_id, &id).await }).await?;
    Ok(ok(render(&listed)))
}

/// The attempts to deliver one event, oldest first.
pub(crate) async fn deliveries(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let id = call.path_part().await;
    let events = call.state.services.postbacks.clone();
    let (listed, attempts) =
        call.state.run(async move { events.attempts(caller.integrator_id, &id).await }).await?;
    let data = json::array(attempts.iter().map(|attempt| of_attempt(attempt).end()));
    Ok(ok(Object::new().raw("data", &data).raw("delivery", &of_delivery(listed.delivery.as_ref()))))
}

/// Delivers one event once more. Nothing is wanted of the body, so any will do.
pub(crate) async fn redeliver(mut call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    call.bytes().await?;
    let id = call.path_part().await;
    let events = call.state.services.postbacks.clone();
    let listed = call.state.run(async move { events.redeliver(caller.integrator_id, &id).await }).await?;
    Ok(HttpResponse::Accepted().content_type("application/json").body(render(&listed).end()))
}

/// The kinds that integrators are told of, by their names.
pub(super) fn kind(name: &str) -> Result<EventKind, Invalid> {
    EventKind::from_public_name(name).ok_or_else(|| {
        let known: Vec<&str> = EventKind::ALL.into_iter().filter_map(EventKind::public_name).collect();
        Invalid::new(Invalid::UNKNOWN_VALUE, format!("must be one of {}", known.join(", ")))
    })
}

/// The same kinds, each once: what is looked for mustn't grow with what is repeated.
pub(super) fn distinct(kinds: &[EventKind]) -> Vec<EventKind> {
    EventKind::ALL.into_iter().filter(|kind| kinds.contains(kind)).collect()
}

/// What is asked for, and the query without its cursor.
pub(crate) fn read(
    query_string: &str,
    integrator_id: IntegratorId,
) -> Result<(EventQuery, String), ApiError> {
    let values: BTreeMap<String, String> = values(query_string)?;
    let mut problems = Problems::default();
    let mut query = EventQuery { limit: DEFAULT_PER_PAGE, ..EventQuery::default() };
    let mut filters = String::new();
    for (name, value) in &values {
        let mut refuse = |code, message: &str| problems.add(name, code, message);
        match name.as_str() {
            "per_page" => query.limit = per_page(value, &mut problems),
            "type" => match value.split(',').map(|name| kind(name.trim())).collect::<Result<Vec<_>, _>>() {
                Ok(kinds) => query.kinds = distinct(&kinds),
                Err(Invalid { code, message }) => refuse(code, &message),
            },
            "uuid" => match Uuid::try_parse(value) {
                Ok(id) => query.resource_id = Some(id),
                Err(_not_one) => refuse(Invalid::INVALID_FORMAT, "must be the uuid of a transaction"),
            },
            "delivered" => match value.as_str() {
                "true" => query.delivered = Some(true),
                "false" => query.delivered = Some(false),
                _ => refuse(Invalid::UNKNOWN_VALUE, "must be true or false"),
            },
            "cursor" => {
                match read_cursor(integrator_id, value) {
                    Some(after) => query.after = after,
                    None => refuse(
                        Invalid::INVALID_FORMAT,
                        "must be next_cursor of an earlier page of your events",
                    ),
                }
                continue;
            }
            _ => continue,
        }
        filters.extend([name.as_str(), "=", &percent_encoded(value), "&"]);
    }
    problems.check()?;
    Ok((query, filters))
}

fn answer(
    page: &EventPage,
    integrator_id: IntegratorId,
    limit: u32,
    path: &str,
    filters: &str,
) -> HttpResponse {
    let cursor = write_cursor(integrator_id, page.last);
    let next = page.has_more.then(|| format!("{path}?{filters}cursor={cursor}"));
    let meta = Object::new()
        .number("per_page", limit.into())
        .text("next_cursor", &cursor)
        .raw("has_more", if page.has_more { "true" } else { "false" });
    let body = Object::new()
        .raw("data", &json::array(page.items.iter().map(|listed| render(listed).end())))
        .object("meta", meta)
        .object("links", Object::new().maybe("next", next.as_deref()));
    let mut answer = HttpResponse::Ok();
    // RFC 8288.
    if let Some(url) = next {
        answer.insert_header((LINK, format!("<{url}>; rel=\"next\"")));
    }
    answer.content_type("application/json").body(body.end())
}

/// The place after an event of that number, as clients see it. They keep it for good, so that its form never changes.
pub(crate) fn write_cursor(integrator_id: IntegratorId, number: u64) -> String {
    format!("{number:0CURSOR_NUMBER_DIGITS$x}{}", cursor::check("events", integrator_id, &number.to_string()))
}

/// Reads what [`write_cursor`] wrote for that integrator, and nothing else.
pub(crate) fn read_cursor(integrator_id: IntegratorId, text: &str) -> Option<u64> {
    let (number, _check) = text.split_at_checked(CURSOR_NUMBER_DIGITS)?;
    let number = u64::from_str_radix(number, 16).ok()?;
    (write_cursor(integrator_id, number) == text).then_some(number)
}

/// An event in v1's form. `data` is what its postback says, and `null` if the record can't be read as it was.
fn render(listed: &ListedEvent) -> Object {
    let (event, resource) = (&listed.event, &listed.event.key.resource);
    let data = postbacks::fields(listed).map_or_else(|| "null".to_owned(), Object::end);
    let about = Object::new().text("type", resource.kind.as_str()).text("uuid", &resource.id.to_string());
    Object::new()
        .text("id", &event.key.public_id())
        .text("type", event.kind.public_name().unwrap_or_default())
        .number("number", event.number)
        .number("sequence", event.key.sequence.0.into())
        .object("resource", about)
        .text("created_at", &time::rfc3339(event.at))
        .raw("data", &data)
        .raw("delivery", &of_delivery(listed.delivery.as_ref()))
}

fn of_delivery(state: Option<&DeliveryState>) -> String {
    let Some(state) = state else { return "null".to_owned() };
    let (status, next_attempt_at, reason) = match state.standing {
        Standing::Waiting(at) => ("waiting", Some(time::rfc3339(at)), None),
        Standing::Delivered => ("delivered", None, None),
        Standing::Dead(reason) => ("dead", None, Some(reason.as_str())),
    };
    Object::new()
        .text("status", status)
        .number("attempts", state.attempts.into())
        .maybe("next_attempt_at", next_attempt_at.as_deref())
        .maybe("reason", reason)
        .end()
}

fn of_attempt(attempt: &Attempt) -> Object {
    let status = attempt.status.map_or_else(|| "null".to_owned(), |status| status.to_string());
    Object::new()
        .text("id", &attempt.id.to_string())
        .text("at", &time::rfc3339(attempt.at))
        .number("duration_ms", attempt.took_ms.into())
        .raw("status", &status)
        .text("outcome", &attempt.outcome)
        .text("response", &attempt.excerpt)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: IntegratorId = IntegratorId(Uuid::from_u128(7));

    #[test]
    fn a_cursor_survives_and_a_foreign_one_does_not() {
        for number in [0, 1, 255, 1 << 40, u64::MAX] {
            let text = write_cursor(OURS, number);
            assert_eq!(read_cursor(OURS, &text), Some(number));
            assert_eq!(read_cursor(IntegratorId(Uuid::from_u128(8)), &text), None);
        }
        for place in ["", "7", "+000000000000001", "00000000000000FF", "é"] {
            assert_eq!(read_cursor(OURS, &cursor::write("events", OURS, place)), None, "{place}");
        }
        // As clients have kept it.
        assert_eq!(write_cursor(OURS, 255), "00000000000000ffd2ec2d2432a95a61");
    }

    #[test]
    fn nothing_asked_for_is_the_first_25_of_all() {
        for query in ["", "unknown=1&cursor=&per_page="] {
            let (query, filters) = read(query, OURS).unwrap();
            assert_eq!(query, EventQuery { limit: 25, ..EventQuery::default() });
            assert_eq!(filters, "");
        }
    }

    #[test]
    fn what_is_asked_for_is_kept_in_links_but_for_the_cursor() {
        let cursor = write_cursor(OURS, 9);
        let text = format!(
            "type=cashin.confirmed,%20cashout.failed,cashin.confirmed&delivered=false&per_page=3&cursor={cursor}&uuid=00000000000000000000000000000005"
        );
        let (query, filters) = read(&text, OURS).unwrap();
        let kinds = vec![EventKind::ChargePaid, EventKind::WithdrawalFailed];
        let resource_id = Some(Uuid::from_u128(5));
        assert_eq!(query, EventQuery { after: 9, kinds, resource_id, delivered: Some(false), limit: 3 });
        assert_eq!(
            filters,
            "delivered=false&per_page=3&type=cashin.confirmed,%20cashout.failed,cashin.confirmed&uuid=00000000000000000000000000000005&"
        );
    }
}
