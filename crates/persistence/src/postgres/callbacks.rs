//! What the provider called back. All of it is done on the connections of the workers: whoever knows the path of the
//! callbacks can send a flood of them, and it must not be in the way of money.

use std::time::Duration;

use async_trait::async_trait;
use diesel::prelude::QueryDsl;
use diesel_async::RunQueryDsl;
use pix_domain::callbacks::{Callback, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::error::StoreError;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use super::PgStore;
use super::ask::Ask;
use super::error::Of;
use super::inbox::{Claim, Claimed, Ending, Forget, Keeps, Puts};
use super::sharing::alone;
use super::types::can_be_kept;
use crate::codec::{self, DbId, DbTime};
use crate::rows::{CallbackRow, due_of, state_of};
use crate::schema::callbacks;

#[async_trait]
impl CallbackStore for PgStore {
    async fn keep(&self, callback: Callback, state: CallbackState) -> Result<bool, StoreError> {
        let mut row = CallbackRow::new(callback, state);
        if !can_be_kept(&row.body) {
            // What has a NUL is no JSON, and comes from nobody who should be told to send it again.
            row.body = row.body.replace('\0', "\u{fffd}");
        }
        match &self.shares {
            Some(shares) => shares.keeps.ask(row).await,
            None => alone(Keeps(self.workers.clone()), row).await,
        }
    }

    async fn claim(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<ClaimedCallback>, StoreError> {
        let until = now.plus(lease);
        let statement = Claim { now: DbTime(now), until: DbTime(until), limit: limit.into() };
        let mut conn = self.works().await?;
        let rows = statement.rows(&mut conn).await.of("callbacks");
        let mut rows: Vec<Claimed> = self.worked(conn, rows)?;
        rows.sort_by_key(|(id, .., was_due)| (*was_due, *id));
        rows.into_iter().map(|row| claimed(row, until)).collect()
    }

    async fn put(&self, claimed: &ClaimedCallback, state: CallbackState) -> Result<(), StoreError> {
        let (state, due_at) = due_of(state);
        let ending = Ending {
            id: DbId(claimed.callback.id),
            state,
            due_at,
            claimed_until: DbTime(claimed.until),
            attempts: claimed.attempts.into(),
        };
        match &self.shares {
            Some(shares) => shares.puts.ask(ending).await,
            None => alone(Puts(self.workers.clone()), ending).await,
        }
    }

    async fn look_up(&self, id: Uuid) -> Result<Option<(CallbackState, u32)>, StoreError> {
        let mut conn = self.works().await?;
        let found = callbacks::table
            .find(DbId(id))
            .select((callbacks::state, callbacks::due_at, callbacks::attempts))
            .found::<(String, Option<DbTime>, i64)>(&mut conn)
            .await;
        let row = found.of("callbacks")?;
        let read = |(state, due_at, attempts): (String, _, _)| {
            Ok((state_of(&state, due_at)?, codec::number("callbacks.attempts", attempts)?))
        };
        row.map(read).transpose()
    }

    async fn forget(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let statement = Forget { before: DbTime(before), limit: limit.into() };
        let mut conn = self.works().await?;
        let gone = statement.execute(&mut conn).await.of("callbacks");
        let gone = self.worked(conn, gone)?;
        Ok(u64::try_from(gone).unwrap_or(u64::MAX))
    }
}

/// A claimed row.
fn claimed(
    (id, reference, body, received_at, attempts, _): Claimed,
    until: Timestamp,
) -> Result<ClaimedCallback, StoreError> {
    let callback = Callback {
        id: id.0,
        received_at: received_at.0,
        reference: reference.map(|reference| reference.0),
        body,
    };
    Ok(ClaimedCallback { callback, attempts: codec::number("callbacks.attempts", attempts)?, until })
}
