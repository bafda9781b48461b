//! Entries of books, for both databases: the primary key (integrator, entry) serves them in both directions.

/// The entries that an `EntryQuery` asks for.
///
/// The statement's text depends on which parts of the query are there, not on their values.
macro_rules! entries {
    ($owner:expr, $query:expr) => {{
        use diesel::prelude::QueryDsl as _;

        let query: &pix_domain::wallet::store::EntryQuery = $query;
        let of_owner =
            $crate::schema::postings::table.filter($crate::schema::postings::integrator_id.eq($owner));
        let mut rows =
            of_owner.select($crate::rows::PostingRow::as_select()).limit(query.limit.into()).into_boxed();
        // No entry has a number above the range of the column.
        rows =
            rows.filter($crate::schema::postings::entry.gt(i64::try_from(query.after).unwrap_or(i64::MAX)));
        if let Ok(before) = i64::try_from(query.before) {
            rows = rows.filter($crate::schema::postings::entry.lt(before));
        }
        if !query.reasons.is_empty() {
            let names: Vec<&'static str> = query.reasons.iter().map(|reason| reason.as_str()).collect();
            rows = rows.filter($crate::schema::postings::reason.eq_any(names));
        }
        if let Some(id) = query.resource_id {
            rows = rows.filter($crate::schema::postings::resource_id.eq($crate::codec::DbId(id)));
        }
        if let Some(from) = query.created_from {
            rows = rows.filter($crate::schema::postings::created_at.ge($crate::codec::DbTime(from)));
        }
        if let Some(to) = query.created_to {
            rows = rows.filter($crate::schema::postings::created_at.lt($crate::codec::DbTime(to)));
        }
        if query.newest_first {
            rows.order($crate::schema::postings::entry.desc())
        } else {
            rows.order($crate::schema::postings::entry.asc())
        }
    }};
}

pub(crate) use entries;
