//! Pages of records, newest first, by a cursor on the id.
//!
//! A cursor names a row, not a place in a count, so that a page neither skips nor repeats a row while others are
//! being written.

use std::time::Duration;

use uuid::Uuid;

use crate::ids::Ids;
use crate::metadata::Metadata;
use crate::text::ExternalId;
use crate::time::Timestamp;

/// The most rows of a page.
pub const MAX_PER_PAGE: u32 = 100;

/// The rows of a page when nothing else is asked for.
pub const DEFAULT_PER_PAGE: u32 = 25;

/// By how much the time of a record and that of its id may differ: the id is made before the provider is asked, and a clock
/// may be set meanwhile.
pub const MAX_ID_DISORDER: Duration = Duration::from_hours(1);

/// From where a page goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor<K = Uuid> {
    /// Rows with a smaller id than this: the next page.
    OlderThan(K),
    /// The nearest rows with a greater id than this: the page before.
    NewerThan(K),
}

/// Which rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// Names of states; none means all.
    pub states: Vec<&'static str>,
    /// With this external id.
    pub external_id: Option<ExternalId>,
    /// With all of these pairs; none means whatever they have.
    pub metadata: Metadata,
    /// Made at this time or later.
    pub created_from: Option<Timestamp>,
    /// Made before this time.
    pub created_to: Option<Timestamp>,
    /// With this id or a greater one; follows from `created_from`.
    pub least_id: Option<Uuid>,
    /// With a smaller id; follows from `created_to`.
    pub end_id: Option<Uuid>,
    /// From where.
    pub cursor: Option<Cursor>,
    /// How many rows at the most. A store answers with exactly that many when there are.
    pub limit: u32,
}

impl Default for ListQuery {
    /// All of them, [`DEFAULT_PER_PAGE`] at a time.
    fn default() -> Self {
        Self {
            states: Vec::new(),
            external_id: None,
            metadata: Metadata::default(),
            created_from: None,
            created_to: None,
            least_id: None,
            end_id: None,
            cursor: None,
            limit: DEFAULT_PER_PAGE,
        }
    }
}

impl ListQuery {
    /// This query for one row more, which tells whether there is another page, and with the range of ids that its times
    /// stand for.
    #[must_use]
    pub fn for_store(self, ids: &dyn Ids) -> Self {
        let earliest = |at: Timestamp| ids.earliest(at);
        Self {
            least_id: self.created_from.and_then(|from| earliest(from.minus(MAX_ID_DISORDER))),
            end_id: self.created_to.and_then(|to| earliest(to.plus(MAX_ID_DISORDER))),
            limit: self.limit.saturating_add(1),
            ..self
        }
    }
}

/// A page, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Whether there are older rows.
    pub has_older: bool,
    /// Whether there may be newer rows.
    pub has_newer: bool,
}

impl<T> Page<T> {
    /// Makes a page of `limit` rows out of what a store returned for `limit + 1`.
    pub fn trim<K: Copy>(mut items: Vec<T>, cursor: Option<Cursor<K>>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        match cursor {
            Some(Cursor::NewerThan(_)) => {
                // The surplus row is the newest one: the farthest from the cursor.
                let surplus = items.len().saturating_sub(limit);
                items.drain(..surplus);
                Self { items, has_older: true, has_newer: more }
            }
            Some(Cursor::OlderThan(_)) => {
                items.truncate(limit);
                Self { items, has_older: more, has_newer: true }
            }
            None => {
                items.truncate(limit);
                Self { items, has_older: more, has_newer: false }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_for_a_range_of_ids_where_those_tell_theirs() {
        struct Micros;
        impl Ids for Micros {
            fn next(&self) -> Uuid {
                Uuid::nil()
            }

            fn earliest(&self, at: Timestamp) -> Option<Uuid> {
                u128::try_from(at.micros()).ok().map(Uuid::from_u128)
            }
        }
        struct Mute;
        impl Ids for Mute {
            fn next(&self) -> Uuid {
                Uuid::nil()
            }
        }
        let hour = 3_600_000_000;
        let time = |micros| Some(Timestamp::from_micros(micros));
        let query = ListQuery {
            created_from: time(3 * hour),
            created_to: time(5 * hour),
            limit: 7,
            ..ListQuery::default()
        };
        let bounded = query.clone().for_store(&Micros);
        let id = |micros: i64| u128::try_from(micros).ok().map(Uuid::from_u128);
        assert_eq!((bounded.least_id, bounded.end_id, bounded.limit), (id(2 * hour), id(6 * hour), 8));
        let mute = query.for_store(&Mute);
        assert_eq!((mute.least_id, mute.end_id, mute.limit), (None, None, 8));
        let open = ListQuery::default().for_store(&Micros);
        assert_eq!((open.least_id, open.end_id), (None, None));
    }

    #[test]
    fn the_surplus_row_says_whether_there_is_another_page_and_is_not_shown() {
        let id = Uuid::nil();
        let first = Page::trim(vec![9, 8, 7], None::<Cursor>, 2);
        assert_eq!((first.items, first.has_older, first.has_newer), (vec![9, 8], true, false));
        let next = Page::trim(vec![7, 6], Some(Cursor::OlderThan(id)), 2);
        assert_eq!((next.items, next.has_older, next.has_newer), (vec![7, 6], false, true));
        let before = Page::trim(vec![9, 8, 7], Some(Cursor::NewerThan(id)), 2);
        assert_eq!((before.items, before.has_older, before.has_newer), (vec![8, 7], true, true));
    }
}
