//! Reads of refunds.

use async_trait::async_trait;
use diesel::prelude::{BoolExpressionMethods, ExpressionMethods, QueryDsl};
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId, RefundId};
use pix_domain::refunds::Refund;
use pix_domain::refunds::store::RefundStore;
use pix_domain::text::ExternalId;

use super::PgStore;
use super::ask::Ask;
use super::error::Of;
use super::types::can_be_kept;
use super::written::columns_of;
use crate::codec::DbId;
use crate::rows::RefundRow;
use crate::schema::refunds;

/// The first row for which `$condition` holds.
macro_rules! first {
    ($condition:expr, $conn:expr) => {
        refunds::table
            .filter($condition)
            .order(refunds::id.asc())
            .select(columns_of::<RefundRow>())
            .limit(1)
            .found($conn)
            .await
            .of("refunds")?
    };
}

#[async_trait]
impl RefundStore for PgStore {
    async fn find(&self, integrator_id: IntegratorId, id: RefundId) -> Result<Option<Refund>, StoreError> {
        let mut conn = self.reads().await?;
        let same = refunds::table.find((DbId::from(integrator_id), DbId(id.0)));
        let found = same.select(columns_of::<RefundRow>()).found::<Box<RefundRow>>(&mut conn).await;
        found.of("refunds")?.map(Refund::try_from).transpose()
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Refund>, StoreError> {
        let mut conn = self.reads().await?;
        let of_owner = refunds::integrator_id.eq(DbId::from(integrator_id));
        let named = of_owner.and(refunds::external_id.eq(external_id.as_str()));
        // A name is there once. An order would lead a server that has seen the table empty through the records in that order.
        let found: Option<Box<RefundRow>> = refunds::table
            .filter(named)
            .select(columns_of::<RefundRow>())
            .limit(1)
            .found(&mut conn)
            .await
            .of("refunds")?;
        found.map(Refund::try_from).transpose()
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Refund>, StoreError> {
        if !can_be_kept(pix_id) {
            return Ok(None);
        }
        let mut conn = self.reads().await?;
        // Two lookups, each by its index, rather than one with an OR.
        let of_owner = refunds::integrator_id.eq(DbId::from(integrator_id));
        let mut found: Option<Box<RefundRow>> =
            first!(of_owner.and(refunds::provider_id.eq(pix_id)), &mut conn);
        if found.is_none() {
            found = first!(of_owner.and(refunds::return_id.eq(pix_id)), &mut conn);
        }
        found.map(Refund::try_from).transpose()
    }

    async fn list_of_charge(
        &self,
        integrator_id: IntegratorId,
        charge_id: ChargeId,
    ) -> Result<Vec<Refund>, StoreError> {
        let mut conn = self.reads().await?;
        let of_owner = refunds::integrator_id.eq(DbId::from(integrator_id));
        let rows: Vec<Box<RefundRow>> = refunds::table
            .filter(of_owner.and(refunds::charge_id.eq(DbId(charge_id.0))))
            .order(refunds::id.asc())
            .select(columns_of::<RefundRow>())
            .rows(&mut conn)
            .await
            .of("refunds")?;
        rows.into_iter().map(Refund::try_from).collect()
    }
}
