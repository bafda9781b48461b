//! What is due, and the lookups beside it.

use std::time::Duration;

use async_trait::async_trait;
use diesel::prelude::{CombineDsl, ExpressionMethods, IntoSql, QueryDsl};
use diesel::sql_types::Text;
use diesel_async::RunQueryDsl;
use pix_domain::error::StoreError;
use pix_domain::follow_up::{FollowUp, FollowUpStore, LookupStore, OpenMovements};
use pix_domain::ids::{self, IntegratorId, ResourceKind, ResourceRef};
use pix_domain::text::IdempotencyKey;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use super::PgStore;
use super::ask::Ask;
use super::by_key::{Handled, Referred, TwinsNamed};
use super::due::{Claim, Claimed, CountOpen, Open, PutOff, kind_of};
use super::error::Of;
use crate::codec::{self, DbId, DbTime, damaged};
use crate::schema::{charges, refunds, withdrawals};

#[async_trait]
impl FollowUpStore for PgStore {
    async fn claim(&self, now: Timestamp, lease: Duration, limit: u32) -> Result<Vec<FollowUp>, StoreError> {
        let mut conn = self.works().await?;
        let until = now.plus(lease);
        let statement = Claim { now: DbTime(now), until: DbTime(until), limit: limit.into() };
        let rows = statement.rows(&mut conn).await.of("follow_ups");
        let rows: Vec<Claimed> = self.worked(conn, rows)?;
        let claimed = rows.into_iter().map(|row| claimed(row, until));
        let mut claimed = claimed.collect::<Result<Vec<_>, StoreError>>()?;
        claimed.sort_by_key(|(was_due, follow_up)| (*was_due, follow_up.resource));
        Ok(claimed.into_iter().map(|(_, follow_up)| follow_up).collect())
    }

    async fn postpone(&self, claimed: FollowUp, until: Option<Timestamp>) -> Result<(), StoreError> {
        let mut conn = self.works().await?;
        let done = PutOff::new(claimed, until).execute(&mut conn).await.of("follow_ups");
        self.worked(conn, done).map(|_| ())
    }

    async fn open_movements(&self) -> Result<Vec<OpenMovements>, StoreError> {
        let mut conn = self.works().await?;
        let rows: Vec<Open> = CountOpen.rows(&mut conn).await.of("withdrawals, refunds")?;
        let mut open = rows.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        open.sort_by(|one, other| (one.kind, &one.state).cmp(&(other.kind, &other.state)));
        Ok(open)
    }
}

fn open((rank, state, count, held, oldest_at): Open) -> Result<OpenMovements, StoreError> {
    Ok(OpenMovements {
        kind: kind_of(rank).ok_or_else(|| damaged("follow_ups.rank", "a kind of record"))?,
        state,
        count: codec::quantity("follow_ups.count", count)?,
        held_cents: codec::quantity("follow_ups.held_cents", held)?,
        oldest_at: oldest_at.0,
    })
}

/// A claimed row, with the time it was due.
fn claimed(
    (rank, owner, id, was_due, attempts): Claimed,
    until: Timestamp,
) -> Result<(Timestamp, FollowUp), StoreError> {
    let kind = kind_of(rank).ok_or_else(|| damaged("follow_ups.rank", "a kind of record"))?;
    let resource = ResourceRef { integrator_id: IntegratorId(owner.0), kind, id: id.0 };
    let attempts = codec::number("follow_up_attempts", attempts)?;
    Ok((was_due.0, FollowUp { resource, attempts, until }))
}

/// The kind and the owner of the record in `$table` with this id.
macro_rules! owner_of {
    ($table:ident, $kind:expr, $id:expr) => {
        $table::table
            .filter($table::id.eq($id))
            .select(($kind.as_str().into_sql::<Text>(), $table::integrator_id))
    };
}

#[async_trait]
impl LookupStore for PgStore {
    async fn find_handle(
        &self,
        integrator_id: IntegratorId,
        kind: ResourceKind,
        key: &IdempotencyKey,
    ) -> Result<Option<Uuid>, StoreError> {
        let handle = (integrator_id.into(), kind.as_str(), key.as_str().to_owned());
        Ok(self.by_key::<Handled>(|shares| &shares.handles, handle).await?.map(|id| id.0))
    }

    async fn find_twins(&self, integrator_id: IntegratorId, key: Uuid) -> Result<Vec<Uuid>, StoreError> {
        self.by_key::<TwinsNamed>(|shares| &shares.twins, (integrator_id.into(), DbId(key))).await
    }

    async fn locate(&self, id: Uuid) -> Result<Option<ResourceRef>, StoreError> {
        if ids::is_timeless(id) {
            return self.by_key::<Referred>(|shares| &shares.referred, codec::reference_key(id)).await;
        }
        let mut conn = self.reads().await?;
        let key = DbId(id);
        let rows: Vec<(String, DbId)> = owner_of!(charges, ResourceKind::Charge, key)
            .union_all(owner_of!(withdrawals, ResourceKind::Withdrawal, key))
            .union_all(owner_of!(refunds, ResourceKind::Refund, key))
            .rows(&mut conn)
            .await
            .of("records")?;
        let mut found = Vec::with_capacity(rows.len());
        for (kind, owner) in rows {
            found.push(codec::resource("kind", owner, &kind, key)?);
        }
        Ok(found.into_iter().min_by_key(|resource| resource.kind))
    }
}
