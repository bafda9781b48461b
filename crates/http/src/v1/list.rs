//! Pages: what is asked for in the query, and how a page is answered, with cursors and links.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use actix_web::http::header::LINK;
use actix_web::{HttpResponse, web};
use pix_domain::ids::IntegratorId;
use pix_domain::invalid::Invalid;
use pix_domain::list::{Cursor, DEFAULT_PER_PAGE, ListQuery, MAX_PER_PAGE, Page};
use pix_domain::text::ExternalId;
use uuid::Uuid;

use super::cursor;
use crate::error::ApiError;
use crate::fields::Problems;
use crate::json::{self, Object};
use crate::time;

/// The longest `Link` header field.
const MAX_LINK_BYTES: usize = 4 * 1024;

/// What any list can be asked for.
const PLAIN_FILTERS: [&str; 4] = ["per_page", "cursor", "created_from", "created_to"];

/// What a list is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The same for the domain.
    pub(crate) query: ListQuery,
    /// The query without its cursor, for the links to other pages.
    pub(crate) filters: String,
    list: &'static str,
    integrator_id: IntegratorId,
}

impl Asked {
    /// Reads a query string for that list of the integrator; `states` tells the states of a public status.
    pub(crate) fn parse(
        list: &'static str,
        integrator_id: IntegratorId,
        query_string: &str,
        states: impl Fn(&str) -> Option<&'static [&'static str]>,
    ) -> Result<Self, ApiError> {
        Self::read(list, integrator_id, &values(query_string)?, states)
    }

    /// The same for a list of what has neither states nor names.
    pub(crate) fn parse_plain(
        list: &'static str,
        integrator_id: IntegratorId,
        query_string: &str,
    ) -> Result<Self, ApiError> {
        let mut values = values(query_string)?;
        values.retain(|name, _| PLAIN_FILTERS.contains(&name.as_str()));
        Self::read(list, integrator_id, &values, |_| None)
    }

    fn read(
        list: &'static str,
        integrator_id: IntegratorId,
        values: &BTreeMap<String, String>,
        states: impl Fn(&str) -> Option<&'static [&'static str]>,
    ) -> Result<Self, ApiError> {
        let mut problems = Problems::default();
        let mut query = ListQuery { limit: DEFAULT_PER_PAGE, ..ListQuery::default() };
        let (mut filters, mut told) = (String::new(), false);
        for (name, value) in values {
            match name.as_str() {
                "per_page" => query.limit = per_page(value, &mut problems),
                "status" => query.states = all_states(value, &states, &mut problems),
                "external_id" => {
                    query.external_id = match ExternalId::parse(value) {
                        Ok(id) => Some(id),
                        Err(invalid) if invalid.code == Invalid::REQUIRED => {
                            problems.add(name, Invalid::INVALID_FORMAT, "must not be empty");
                            None
                        }
                        Err(invalid) => {
                            problems.add(name, invalid.code, &invalid.message);
                            None
                        }
                    };
                }
                name if name.starts_with("metadata[") => {
                    let key = name.strip_prefix("metadata[").and_then(|rest| rest.strip_suffix(']'));
                    // Of those that are wrong the first one is told.
                    if let Err(invalid) = query.metadata.insert(key.unwrap_or_default(), value)
                        && !std::mem::replace(&mut told, true)
                    {
                        problems.add(name, invalid.code, &invalid.message);
                    }
                }
                "created_from" => query.created_from = moment(name, value, &mut problems),
                "created_to" => query.created_to = moment(name, value, &mut problems),
                "cursor" => {
                    query.cursor = read_cursor(list, integrator_id, value);
                    if query.cursor.is_none() {
                        problems.add(
                            name,
                            Invalid::INVALID_FORMAT,
                            "must be a cursor of an earlier page of this list",
                        );
                    }
                    continue;
                }
                _ => continue,
            }
            filters.extend([&percent_encoded(name), "=", &percent_encoded(value), "&"]);
        }
        problems.check()?;
        Ok(Self { query, filters, list, integrator_id })
    }

    /// A page in v1's form.
    pub(crate) fn answer<T>(
        &self,
        path: &str,
        page: &Page<T>,
        id: impl Fn(&T) -> Uuid,
        render: impl Fn(&T) -> String,
    ) -> HttpResponse {
        let cursor = |cursor| write_cursor(self.list, self.integrator_id, cursor);
        answer(path, &self.filters, self.query.limit, page, id, cursor, render)
    }
}

/// A page in v1's form: `key` is what the places of its cursors are.
pub(super) fn answer<T, K>(
    path: &str,
    filters: &str,
    limit: u32,
    page: &Page<T>,
    key: impl Fn(&T) -> K,
    write_cursor: impl Fn(Cursor<K>) -> String,
    render: impl Fn(&T) -> String,
) -> HttpResponse {
    let older = page.items.last().filter(|_| page.has_older).map(|row| Cursor::OlderThan(key(row)));
    let newer = page.items.first().filter(|_| page.has_newer).map(|row| Cursor::NewerThan(key(row)));
    let [next, prev] = [older, newer].map(|cursor| cursor.map(&write_cursor));
    let [next_url, prev_url] =
        [&next, &prev].map(|cursor| cursor.as_ref().map(|cursor| format!("{path}?{filters}cursor={cursor}")));
    let meta = Object::new()
        .number("per_page", limit.into())
        .maybe("next_cursor", next.as_deref())
        .maybe("prev_cursor", prev.as_deref());
    let links = Object::new().maybe("next", next_url.as_deref()).maybe("prev", prev_url.as_deref());
    let body = Object::new()
        .raw("data", &json::array(page.items.iter().map(render)))
        .object("meta", meta)
        .object("links", links);
    let mut answer = HttpResponse::Ok();
    // RFC 8288.
    let link = |url: Option<String>, rel: &str| url.map(|url| format!("<{url}>; rel=\"{rel}\""));
    let header: Vec<String> =
        [link(next_url, "next"), link(prev_url, "prev")].into_iter().flatten().collect();
    let header = header.join(", ");
    // Proxies take no header field of any length; the body has the same links.
    if !header.is_empty() && header.len() <= MAX_LINK_BYTES {
        answer.insert_header((LINK, header));
    }
    answer.content_type("application/json").body(body.end())
}

/// What says nothing when it is empty: no filter, but where the first page is and how long.
const OF_PAGES: [&str; 2] = ["cursor", "per_page"];

/// The values of a query string, the empty ones too: a filter that lost its value must not find everything. None comes twice.
pub(super) fn values(query_string: &str) -> Result<BTreeMap<String, String>, ApiError> {
    let pairs = web::Query::<Vec<(String, String)>>::from_query(query_string)
        .map_err(|_not_a_query| ApiError::malformed("the query can't be read"))?;
    let mut values = BTreeMap::new();
    for (name, value) in pairs.into_inner() {
        match values.entry(name) {
            Entry::Vacant(free) => {
                free.insert(value);
            }
            Entry::Occupied(taken) => {
                return Err(ApiError::named_twice("the query must not have a parameter twice", taken.key()));
            }
        }
    }
    values.retain(|name, value| !value.is_empty() || !OF_PAGES.contains(&name.as_str()));
    Ok(values)
}

/// How many rows a page has; the default after a problem, which is noted.
pub(super) fn per_page(value: &str, problems: &mut Problems) -> u32 {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse::<u32>().ok().filter(|number| digits && (1..=MAX_PER_PAGE).contains(number));
    number.unwrap_or_else(|| {
        let message = format!("must be a whole number from 1 to {MAX_PER_PAGE}");
        problems.add("per_page", Invalid::INVALID_FORMAT, &message);
        DEFAULT_PER_PAGE
    })
}

/// Every status of v1, of whatever kind.
const STATUSES: [&str; 9] =
    ["creating", "pending", "processing", "paid", "completed", "expired", "canceled", "failed", "returned"];

fn all_states(
    value: &str,
    states: impl Fn(&str) -> Option<&'static [&'static str]>,
    problems: &mut Problems,
) -> Vec<&'static str> {
    let mut all = Vec::new();
    for status in value.split(',') {
        let Some(states) = states(status.trim()) else {
            let known: Vec<_> = STATUSES.into_iter().filter(|known| states(known).is_some()).collect();
            problems.add("status", Invalid::UNKNOWN_VALUE, &format!("must be one of {}", known.join(", ")));
            break;
        };
        all.extend_from_slice(states);
    }
    all.sort_unstable();
    all.dedup();
    all
}

pub(super) fn moment(
    name: &str,
    value: &str,
    problems: &mut Problems,
) -> Option<pix_domain::time::Timestamp> {
    let moment = time::parse_rfc3339(value);
    if moment.is_none() {
        let message = "must be a time of RFC 3339, such as 2026-10-07T00:00:00Z";
        problems.add(name, Invalid::INVALID_FORMAT, message);
    }
    moment
}

/// A cursor of that list and integrator.
pub(crate) fn write_cursor(list: &str, integrator_id: IntegratorId, place: Cursor) -> String {
    let place = match place {
        Cursor::OlderThan(id) => format!("00{}", id.simple()),
        Cursor::NewerThan(id) => format!("01{}", id.simple()),
    };
    cursor::write(list, integrator_id, &place)
}

/// Reads what [`write_cursor`] wrote, and nothing else.
pub(crate) fn read_cursor(list: &str, integrator_id: IntegratorId, text: &str) -> Option<Cursor> {
    let (direction, id) = cursor::read(list, integrator_id, text)?.split_at_checked(2)?;
    let id = Uuid::try_parse(id).ok().filter(|parsed| parsed.simple().to_string() == id)?;
    match direction {
        "00" => Some(Cursor::OlderThan(id)),
        "01" => Some(Cursor::NewerThan(id)),
        _ => None,
    }
}

/// All but the unreserved characters of RFC 3986 §2.3, and the comma of lists.
pub(crate) fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'-' | b'.' | b'_' | b'~' | b',' => char::from(byte).to_string(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    const OURS: IntegratorId = IntegratorId(Uuid::from_u128(7));

    fn parse(query: &str) -> Result<Asked, String> {
        Asked::parse("withdrawals", OURS, query, words::withdrawal_states).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_asked_for_is_the_first_25_of_all() {
        let query = parse("").unwrap().query;
        assert_eq!(query, ListQuery { limit: 25, ..ListQuery::default() });
        assert_eq!(parse("unknown=1&empty=&cursor=&per_page=").unwrap().query, query);
    }

    #[test]
    fn public_statuses_stand_for_states() {
        let query = parse("status=pending,completed&per_page=100").unwrap().query;
        assert_eq!((query.states, query.limit), (vec!["completed", "queued"], 100));
    }

    #[test]
    fn what_is_out_of_bounds_or_unknown_is_refused() {
        for query in [
            "per_page=0",
            "per_page=101",
            "per_page=x",
            "per_page=1e1",
            "per_page=99999999999",
            "per_page=%2B5",
            "status=paid",
            "status=pending,,failed",
            "cursor=x",
            "cursor=02",
            "created_from=yesterday",
            "cursor=0200000000000000000000000000000000",
            "external_id=%00",
            "external_id=",
            "external_id",
            "status=",
            "created_to=",
            "metadata[a]=",
        ] {
            assert_eq!(parse(query).unwrap_err(), "validation_failed", "{query}");
        }
        for query in ["status=pending&status=paid", "per_page=1&per_page=1", "a=&a"] {
            assert_eq!(parse(query).unwrap_err(), "malformed_request", "{query}");
        }
    }

    #[test]
    fn a_cursor_survives_and_a_damaged_one_does_not() {
        let id = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff);
        for cursor in [Cursor::OlderThan(id), Cursor::NewerThan(id)] {
            let text = write_cursor("charges", OURS, cursor);
            assert_eq!(read_cursor("charges", OURS, &text), Some(cursor));
            assert_eq!(read_cursor("withdrawals", OURS, &text), None);
            assert_eq!(read_cursor("charges", IntegratorId(Uuid::from_u128(8)), &text), None);
        }
        for place in ["00019900000000-7000-8000-0000000000ff", "", "02", "02019900000000007000800000000000ff"]
        {
            assert_eq!(read_cursor("charges", OURS, &cursor::write("charges", OURS, place)), None, "{place}");
        }
    }

    #[test]
    fn a_list_of_what_has_no_states_looks_at_none() {
        let asked = Asked::parse_plain("splits", OURS, "status=x&external_id=%00&metadata[]=1&per_page=3");
        let asked = asked.unwrap();
        assert_eq!(asked.query, ListQuery { limit: 3, ..ListQuery::default() });
        assert_eq!(asked.filters, "per_page=3&");
        for query in ["per_page=0", "cursor=x", "created_from=yesterday"] {
            assert!(Asked::parse_plain("splits", OURS, query).is_err(), "{query}");
        }
    }

    #[test]
    fn links_keep_the_filters() {
        let asked = parse("external_id=a%26b%20%C3%A9&status=failed").unwrap();
        assert_eq!(asked.filters, "external_id=a%26b%20%C3%A9&status=failed&");
    }
}
