//! What the provider called back.

use std::time::Duration;

use async_trait::async_trait;
use diesel::prelude::{BoolExpressionMethods, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl};
use diesel::sqlite::SqliteConnection;
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::error::StoreError;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use super::SqliteStore;
use super::error::{Of, Problem};
use super::update::update;
use crate::codec::{self, DbId, DbTime};
use crate::rows::{CallbackRow, due_of, state_of};
use crate::schema::callbacks;

type Written<T> = Result<T, Problem<StoreError>>;

/// The id, the reference, the body, when it was received, and the attempts.
type Due = (DbId, Option<DbId>, String, DbTime, i64);

#[async_trait]
impl CallbackStore for SqliteStore {
    async fn keep(&self, callback: Callback, state: CallbackState) -> Result<bool, StoreError> {
        let row = CallbackRow::new(callback, state);
        self.write(move |conn| keep(conn, &row)).await
    }

    async fn claim(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<ClaimedCallback>, StoreError> {
        self.write(move |conn| claim(conn, now, now.plus(lease), limit)).await
    }

    async fn put(&self, claimed: &ClaimedCallback, state: CallbackState) -> Result<(), StoreError> {
        let (id, until, attempts) =
            (DbId(claimed.callback.id), DbTime(claimed.until), i64::from(claimed.attempts));
        let (state, due_at) = due_of(state);
        self.write(move |conn| -> Written<()> {
            let same = callbacks::id
                .eq(id)
                .and(callbacks::due_at.eq(Some(until)))
                .and(callbacks::attempts.eq(attempts));
            let values = (callbacks::state.eq(state), callbacks::due_at.eq(due_at));
            update(callbacks::table, values, same).execute(conn).of("callbacks")?;
            Ok(())
        })
        .await
    }

    async fn look_up(&self, id: Uuid) -> Result<Option<(CallbackState, u32)>, StoreError> {
        self.read(move |conn| {
            let found = callbacks::table
                .find(DbId(id))
                .select((callbacks::state, callbacks::due_at, callbacks::attempts))
                .get_result::<(String, Option<DbTime>, i64)>(conn);
            let row = found.optional().of("callbacks")?;
            let read = |(state, due_at, attempts): (String, _, _)| {
                Ok((state_of(&state, due_at)?, codec::number("callbacks.attempts", attempts)?))
            };
            row.map(read).transpose()
        })
        .await
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        self.write(move |conn| forget(conn, before, limit)).await
    }
}

fn keep(conn: &mut SqliteConnection, row: &CallbackRow) -> Written<bool> {
    let waits = callbacks::digest.eq(row.digest).and(callbacks::due_at.is_not_null());
    if row.due_at.is_some() {
        let found = callbacks::table.filter(waits).select((callbacks::id, callbacks::due_at));
        let found: Option<(DbId, Option<DbTime>)> = found.first(conn).optional().of("callbacks")?;
        if let Some((id, due_at)) = found {
            let later = due_at.map(|at| DbTime(at.0.plus(Duration::from_micros(1))));
            let values = callbacks::due_at.eq(later);
            update(callbacks::table, values, callbacks::id.eq(id)).execute(conn).of("callbacks")?;
            return Ok(false);
        }
    }
    diesel::insert_into(callbacks::table).values(row).execute(conn).of("callbacks")?;
    Ok(true)
}

fn claim(
    conn: &mut SqliteConnection,
    now: Timestamp,
    until: Timestamp,
    limit: u32,
) -> Written<Vec<ClaimedCallback>> {
    let due: Vec<Due> = callbacks::table
        .filter(callbacks::due_at.le(DbTime(now)))
        .order((callbacks::due_at.asc(), callbacks::id.asc()))
        .limit(limit.into())
        .select((
            callbacks::id,
            callbacks::reference,
            callbacks::body,
            callbacks::received_at,
            callbacks::attempts,
        ))
        .load(conn)
        .of("callbacks")?;
    let mut claimed = Vec::with_capacity(due.len());
    for (id, reference, body, received_at, attempts) in due {
        let attempts = codec::number("callbacks.attempts", attempts)?.saturating_add(1);
        let values = (callbacks::due_at.eq(Some(DbTime(until))), callbacks::attempts.eq(i64::from(attempts)));
        update(callbacks::table, values, callbacks::id.eq(id)).execute(conn).of("callbacks")?;
        let callback = Callback {
            id: id.0,
            received_at: received_at.0,
            reference: reference.map(|reference| reference.0),
            body,
        };
        claimed.push(ClaimedCallback { callback, attempts, until });
    }
    Ok(claimed)
}

/// Removes the oldest that ended.
fn forget(conn: &mut SqliteConnection, before: Timestamp, limit: u32) -> Written<u64> {
    let ended = callbacks::due_at.is_null().and(callbacks::received_at.lt(DbTime(before)));
    let old: Vec<DbId> = callbacks::table
        .filter(ended)
        .order((callbacks::received_at.asc(), callbacks::id.asc()))
        .limit(limit.into())
        .select(callbacks::id)
        .load(conn)
        .of("callbacks")?;
    let mut gone = 0_u64;
    for id in old {
        diesel::delete(callbacks::table.find(id)).execute(conn).of("callbacks")?;
        gone = gone.saturating_add(1);
    }
    Ok(gone)
}
