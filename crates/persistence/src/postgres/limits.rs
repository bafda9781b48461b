//! Limits of what may go out.

use async_trait::async_trait;
use diesel::dsl::max;
use diesel::prelude::{ExpressionMethods, QueryDsl, SelectableHelper};
use diesel_async::RunQueryDsl;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::limits::{LimitPolicy, LimitStore, Sent, SentTo, Windows};
use pix_domain::party::PixKey;
use pix_domain::time::Timestamp;

use super::PgStore;
use super::ask::Ask;
use super::error::Of;
use super::settings::{GivenUp, lock_integrator};
use super::types::can_be_kept;
use crate::codec::{self, DbId};
use crate::rows::{AskSent, AskSentTo, LimitRow, MOST_LIMITS, sent, sent_to};
use crate::schema::limits;

#[async_trait]
impl LimitStore for PgStore {
    async fn policy(&self, integrator_id: IntegratorId) -> Result<LimitPolicy, StoreError> {
        let mut conn = self.reads().await?;
        let rows = limits::table
            .filter(limits::integrator_id.eq(DbId::from(integrator_id)))
            .order((limits::version.desc(), limits::kind.asc()))
            .limit(MOST_LIMITS)
            .select(LimitRow::as_select())
            .rows(&mut conn)
            .await
            .of("limits")?;
        LimitRow::policy(rows)
    }

    async fn set_policy(
        &self,
        integrator_id: IntegratorId,
        policy: &LimitPolicy,
        at: Timestamp,
    ) -> Result<Option<u32>, StoreError> {
        let mut conn = self.writes().await?;
        let owner = DbId::from(integrator_id);
        let mut transaction = conn.build_transaction().read_committed();
        let done = transaction.run::<_, GivenUp, _>(async move |conn| {
            lock_integrator(conn, owner).await?;
            let of_owner = limits::table.filter(limits::integrator_id.eq(owner));
            let newest: Option<i64> =
                of_owner.select(max(limits::version)).limit(1).row(conn).await.of("limits")?;
            let newest = newest.unwrap_or(0);
            if newest != i64::from(policy.version) {
                return Ok(None);
            }
            let version = newest.saturating_add(1);
            let rows = LimitRow::of(owner, version, policy, at);
            diesel::insert_into(limits::table).values(&rows).execute(conn).await.of("limits")?;
            Ok(Some(codec::number("limits.version", version)?))
        });
        done.await.map_err(|GivenUp(error)| error)
    }

    async fn sent(&self, integrator_id: IntegratorId, windows: &Windows) -> Result<Sent, StoreError> {
        let mut conn = self.reads().await?;
        let ask = AskSent::new(integrator_id, windows);
        Ok(sent(ask.row(&mut conn).await.of("withdrawals")?))
    }

    async fn sent_to(
        &self,
        integrator_id: IntegratorId,
        windows: &Windows,
        key: &PixKey,
    ) -> Result<SentTo, StoreError> {
        if !can_be_kept(key.as_str()) {
            return Ok(SentTo::default());
        }
        let mut conn = self.reads().await?;
        let ask = AskSentTo::new(integrator_id, windows, key);
        Ok(sent_to(ask.row(&mut conn).await.of("withdrawals")?))
    }
}
