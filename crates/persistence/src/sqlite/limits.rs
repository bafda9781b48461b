//! Limits of what may go out.

use async_trait::async_trait;
use diesel::dsl::max;
use diesel::prelude::{ExpressionMethods, QueryDsl, RunQueryDsl, SelectableHelper};
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::limits::{LimitPolicy, LimitStore, Sent, SentTo, Windows};
use pix_domain::party::PixKey;
use pix_domain::time::Timestamp;

use super::SqliteStore;
use super::error::Of;
use super::settings::require_integrator;
use crate::codec::{self, DbId};
use crate::rows::{AskSent, AskSentTo, LimitRow, MOST_LIMITS, sent, sent_to};
use crate::schema::limits;

#[async_trait]
impl LimitStore for SqliteStore {
    async fn policy(&self, integrator_id: IntegratorId) -> Result<LimitPolicy, StoreError> {
        let owner = DbId::from(integrator_id);
        self.read(move |conn| {
            let rows = limits::table
                .filter(limits::integrator_id.eq(owner))
                .order((limits::version.desc(), limits::kind.asc()))
                .limit(MOST_LIMITS)
                .select(LimitRow::as_select())
                .load(conn)
                .of("limits")?;
            LimitRow::policy(rows)
        })
        .await
    }

    async fn set_policy(
        &self,
        integrator_id: IntegratorId,
        policy: &LimitPolicy,
        at: Timestamp,
    ) -> Result<Option<u32>, StoreError> {
        let (owner, policy) = (DbId::from(integrator_id), policy.clone());
        self.write(move |conn| {
            require_integrator(conn, owner)?;
            let of_owner = limits::table.filter(limits::integrator_id.eq(owner));
            let newest: Option<i64> = of_owner.select(max(limits::version)).get_result(conn).of("limits")?;
            let newest = newest.unwrap_or(0);
            if newest != i64::from(policy.version) {
                return Ok(None);
            }
            let version = newest.saturating_add(1);
            for row in LimitRow::of(owner, version, &policy, at) {
                diesel::insert_into(limits::table).values(&row).execute(conn).of("limits")?;
            }
            Ok(Some(codec::number("limits.version", version)?))
        })
        .await
    }

    async fn sent(&self, integrator_id: IntegratorId, windows: &Windows) -> Result<Sent, StoreError> {
        let ask = AskSent::new(integrator_id, windows);
        self.read(move |conn| Ok(sent(ask.get_result(conn).of("withdrawals")?))).await
    }

    async fn sent_to(
        &self,
        integrator_id: IntegratorId,
        windows: &Windows,
        key: &PixKey,
    ) -> Result<SentTo, StoreError> {
        let ask = AskSentTo::new(integrator_id, windows, key);
        self.read(move |conn| Ok(sent_to(ask.get_result(conn).of("withdrawals")?))).await
    }
}
