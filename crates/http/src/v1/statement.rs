//! `/api/v1/statement`: the integrator's book, newest first, with the balances after each entry; as JSON in pages, or all
//! of it as CSV (RFC 4180).

use std::time::{Duration, Instant};

use actix_web::HttpResponse;
use actix_web::http::Method;
use actix_web::http::header::{ACCEPT, CONTENT_DISPOSITION};
use actix_web::web::{self, Bytes};
use futures_util::stream::{self, Stream};
use pix_domain::ids::IntegratorId;
use pix_domain::invalid::Invalid;
use pix_domain::list::{Cursor, DEFAULT_PER_PAGE, Page};
use pix_domain::wallet::statement::StatementQuery;
use pix_domain::wallet::{Account, Entry, Reason};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use super::cursor;
use super::list::{self, moment, per_page, percent_encoded, values};
use crate::error::ApiError;
use crate::extract::{Answer, TenantCall};
use crate::fields::Problems;
use crate::json::{Object, signed};
use crate::language::{MAX_RANGES, quality};
use crate::state::State;
use crate::{overload, time};

/// What its cursors are told apart by.
const LIST: &str = "statement";

/// How long sending a CSV may take.
const LONGEST_EXPORT: Duration = Duration::from_mins(10);

/// How many entries a piece of a CSV has. Nothing of the store is held between two pieces.
const CSV_PIECE: u32 = 1_000;

const CSV_HEAD: &str = "number,created_at,type,amount,available_change,held_change,owed_change,available_balance,held_balance,resource_type,resource_uuid\r\n";

/// A page of the book, or the whole of it.
pub(crate) async fn list(call: TenantCall) -> Answer {
    let caller = call.caller().await?;
    let is_csv = wants_csv(&call);
    let (query, filters) = read(call.http.query_string(), caller.integrator_id, is_csv)?;
    if is_csv {
        if query.cursor.is_some() {
            let message = "cursor has no meaning for CSV, which has no pages";
            return Err(ApiError::invalid_field("cursor", Invalid::INVALID_FORMAT, message));
        }
        // The first piece is read before anything is answered, so that what can't be read is an error.
        let query = StatementQuery { limit: CSV_PIECE, ..query };
        let reader = Reader {
            state: call.state.clone(),
            integrator_id: caller.integrator_id,
            until: Instant::now() + LONGEST_EXPORT,
            _place: overload::export(&call.state.places)?,
        };
        let first = reader.page(query.clone()).await?;
        let mut answer = HttpResponse::Ok();
        answer
            .content_type("text/csv; charset=utf-8; header=present")
            .insert_header((CONTENT_DISPOSITION, "attachment; filename=\"statement.csv\""));
        // HEAD wants nothing of it.
        let is_head = call.http.method() == Method::HEAD;
        return Ok(if is_head { answer.finish() } else { answer.streaming(pieces(reader, query, first)) });
    }
    let (statement, asked) = (call.state.services.statement.clone(), query.clone());
    let page = call.state.run(async move { statement.page(caller.integrator_id, asked).await }).await?;
    let path = format!("{}/api/v1/statement", call.state.config.public_url);
    let write = |cursor| write_cursor(caller.integrator_id, cursor);
    Ok(list::answer(
        &path,
        &filters,
        query.limit,
        &page,
        |entry| entry.number,
        write,
        |entry| render(entry).end(),
    ))
}

/// Whether it asks for CSV by its name, and for nothing that the other form is more than for that (RFC 9110 §12.5.1).
fn wants_csv(call: &TenantCall) -> bool {
    let fields = call.http.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok());
    let (mut csv, mut json) = (0, 0);
    for range in fields.flat_map(|value| value.split(',')).take(MAX_RANGES) {
        let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
        let wanted = match kind.trim() {
            kind if kind.eq_ignore_ascii_case("text/csv") => &mut csv,
            kind if kind.eq_ignore_ascii_case("application/json") => &mut json,
            _ => continue,
        };
        *wanted = quality(parameters.split(';')).max(*wanted);
    }
    csv > 0 && csv >= json
}

/// Reads what a CSV is made of, in a place of its own: a slow reader takes none of those of requests.
struct Reader {
    state: web::Data<State>,
    integrator_id: IntegratorId,
    until: Instant,
    _place: OwnedSemaphorePermit,
}

impl Reader {
    async fn page(&self, query: StatementQuery) -> Result<Page<Entry>, ApiError> {
        let (statement, integrator_id) = (self.state.services.statement.clone(), self.integrator_id);
        self.state.run(async move { statement.page(integrator_id, query).await }).await
    }
}

/// The rows of a CSV, in pieces, each read when the one before it was sent.
fn pieces(
    reader: Reader,
    query: StatementQuery,
    first: Page<Entry>,
) -> impl Stream<Item = Result<Bytes, ApiError>> {
    stream::try_unfold(
        (reader, Some(query), Some(first), CSV_HEAD),
        |(reader, query, read, head)| async move {
            let Some(query) = query else { return Ok(None) };
            let page = match read {
                Some(page) => page,
                // It ends without its last chunk, so that nobody takes it for whole.
                None if Instant::now() > reader.until => return Err(ApiError::too_slow()),
                None => reader.page(query.clone()).await?,
            };
            let last = page.items.last().filter(|_| page.has_older).map(|entry| entry.number);
            let next = last.map(|number| StatementQuery { cursor: Some(Cursor::OlderThan(number)), ..query });
            let rows = page.items.iter().map(csv_row);
            let piece: String = std::iter::once(head.to_owned()).chain(rows).collect();
            Ok(Some((Bytes::from(piece), (reader, next, None, ""))))
        },
    )
}

/// What is asked for, and the filters for links to other pages.
pub(crate) fn read(
    query_string: &str,
    integrator_id: IntegratorId,
    is_csv: bool,
) -> Result<(StatementQuery, String), ApiError> {
    let mut values = values(query_string)?;
    if is_csv {
        // Of what has no pages it says nothing.
        values.remove("per_page");
    }
    let mut problems = Problems::default();
    let mut query = StatementQuery { limit: DEFAULT_PER_PAGE, ..StatementQuery::default() };
    let mut filters = String::new();
    for (name, value) in &values {
        match name.as_str() {
            "per_page" => query.limit = per_page(value, &mut problems),
            "type" => match value.split(',').map(|name| reason(name.trim())).collect::<Result<Vec<_>, _>>() {
                Ok(reasons) => query.reasons = distinct(&reasons),
                Err(Invalid { code, message }) => problems.add(name, code, &message),
            },
            "uuid" => match Uuid::try_parse(value) {
                Ok(id) => query.resource_id = Some(id),
                Err(_not_one) => {
                    problems.add(name, Invalid::INVALID_FORMAT, "must be the uuid of a transaction");
                }
            },
            "created_from" => query.created_from = moment(name, value, &mut problems),
            "created_to" => query.created_to = moment(name, value, &mut problems),
            "cursor" => {
                query.cursor = read_cursor(integrator_id, value);
                if query.cursor.is_none() {
                    let message = "must be a cursor of an earlier page of your statement";
                    problems.add(name, Invalid::INVALID_FORMAT, message);
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

fn reason(name: &str) -> Result<Reason, Invalid> {
    Reason::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Reason::ALL.into_iter().map(Reason::as_str).collect();
        Invalid::new(Invalid::UNKNOWN_VALUE, format!("must be one of {}", known.join(", ")))
    })
}

/// The same reasons, each once: what is looked for mustn't grow with what is repeated.
fn distinct(reasons: &[Reason]) -> Vec<Reason> {
    Reason::ALL.into_iter().filter(|reason| reasons.contains(reason)).collect()
}

fn write_cursor(integrator_id: IntegratorId, place: Cursor<u64>) -> String {
    let place = match place {
        Cursor::OlderThan(number) => format!("00{number:016x}"),
        Cursor::NewerThan(number) => format!("01{number:016x}"),
    };
    cursor::write(LIST, integrator_id, &place)
}

fn read_cursor(integrator_id: IntegratorId, text: &str) -> Option<Cursor<u64>> {
    let (direction, number) = cursor::read(LIST, integrator_id, text)?.split_at_checked(2)?;
    let number = u64::from_str_radix(number, 16).ok()?;
    let read = match direction {
        "00" => Cursor::OlderThan(number),
        "01" => Cursor::NewerThan(number),
        _ => return None,
    };
    (write_cursor(integrator_id, read) == text).then_some(read)
}

/// An entry in v1's form.
fn render(entry: &Entry) -> Object {
    let posting = &entry.posting;
    let change = |account| signed(posting.effect_cents(account));
    let resource = &posting.resource;
    let about = Object::new().text("type", resource.kind.as_str()).text("uuid", &resource.id.to_string());
    Object::new()
        .number("number", entry.number)
        .text("type", posting.reason.as_str())
        .money("amount", posting.amount)
        .raw("available_change", &change(Account::Available))
        .raw("held_change", &change(Account::Held))
        .raw("owed_change", &signed(-posting.effect_cents(Account::Owed)))
        .money("available_balance", entry.available_after)
        .money("held_balance", entry.held_after)
        .text("currency", super::CURRENCY)
        .object("resource", about)
        .text("created_at", &time::rfc3339(entry.at))
}

/// The same as a row of CSV. No value has a comma, a quote or the end of a line, nor what a spreadsheet takes for a formula.
fn csv_row(entry: &Entry) -> String {
    let posting = &entry.posting;
    let change = |account| signed(posting.effect_cents(account));
    let fields = [
        entry.number.to_string(),
        time::rfc3339(entry.at),
        posting.reason.as_str().to_owned(),
        posting.amount.plain(),
        change(Account::Available),
        change(Account::Held),
        signed(-posting.effect_cents(Account::Owed)),
        entry.available_after.plain(),
        entry.held_after.plain(),
        posting.resource.kind.as_str().to_owned(),
        posting.resource.id.to_string(),
    ];
    fields.join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: IntegratorId = IntegratorId(Uuid::from_u128(7));

    #[test]
    fn a_cursor_survives_and_a_foreign_one_does_not() {
        for cursor in [Cursor::OlderThan(1), Cursor::NewerThan(u64::MAX), Cursor::OlderThan(1 << 40)] {
            let text = write_cursor(OURS, cursor);
            assert_eq!(read_cursor(OURS, &text), Some(cursor));
            assert_eq!(read_cursor(IntegratorId(Uuid::from_u128(8)), &text), None);
        }
        for place in ["02000000000000000a", "00", "00x", "000000000000000A", "000000000000000000a"] {
            assert_eq!(read_cursor(OURS, &cursor::write(LIST, OURS, place)), None, "{place}");
        }
    }

    #[test]
    fn nothing_asked_for_is_the_first_25_of_all() {
        for query in ["", "unknown=1&cursor=&per_page="] {
            let (query, filters) = read(query, OURS, false).unwrap();
            assert_eq!(query, StatementQuery { limit: 25, ..StatementQuery::default() });
            assert_eq!(filters, "");
        }
    }

    #[test]
    fn what_is_asked_for_is_kept_in_links_but_for_the_cursor() {
        let cursor = write_cursor(OURS, Cursor::OlderThan(9));
        let text = format!("type=charge_paid,%20charge_fee,charge_paid&per_page=3&cursor={cursor}");
        let (query, filters) = read(&text, OURS, false).unwrap();
        assert_eq!(query.reasons, [Reason::ChargePaid, Reason::ChargeFee]);
        assert_eq!((query.cursor, query.limit), (Some(Cursor::OlderThan(9)), 3));
        assert_eq!(filters, "per_page=3&type=charge_paid,%20charge_fee,charge_paid&");
    }

    #[test]
    fn what_is_out_of_bounds_or_unknown_is_refused() {
        for query in [
            "per_page=0",
            "type=paid",
            "uuid=7",
            "cursor=x",
            "created_from=yesterday",
            "type=,",
            "type=",
            "uuid=",
        ] {
            assert_eq!(read(query, OURS, false).unwrap_err().to_string(), "validation_failed", "{query}");
        }
    }
}
