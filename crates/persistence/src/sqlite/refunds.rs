//! Reads of refunds.

use async_trait::async_trait;
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId, RefundId};
use pix_domain::refunds::Refund;
use pix_domain::refunds::store::RefundStore;
use pix_domain::text::ExternalId;

use super::SqliteStore;
use super::error::Of;
use crate::codec::DbId;
use crate::rows::RefundRow;
use crate::schema::refunds;

/// The first row for which `$condition` holds.
macro_rules! first {
    ($condition:expr, $conn:expr) => {
        refunds::table
            .filter($condition)
            .order(refunds::id.asc())
            .select(RefundRow::as_select())
            .get_result($conn)
            .optional()
            .of("refunds")?
    };
}

#[async_trait]
impl RefundStore for SqliteStore {
    async fn find(&self, integrator_id: IntegratorId, id: RefundId) -> Result<Option<Refund>, StoreError> {
        let (owner, id) = (DbId::from(integrator_id), DbId(id.0));
        self.read(move |conn| {
            let row =
                refunds::table.find((owner, id)).select(RefundRow::as_select()).get_result(conn).optional();
            row.of("refunds")?.map(Refund::try_from).transpose()
        })
        .await
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Refund>, StoreError> {
        let (owner, name) = (DbId::from(integrator_id), external_id.clone());
        self.read(move |conn| {
            let named = refunds::integrator_id.eq(owner).and(refunds::external_id.eq(name.as_str()));
            first!(named, conn).map(Refund::try_from).transpose()
        })
        .await
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Refund>, StoreError> {
        let (owner, pix_id) = (DbId::from(integrator_id), pix_id.to_owned());
        self.read(move |conn| {
            // Two lookups, each by its index, rather than one with an OR.
            let of_owner = refunds::integrator_id.eq(owner);
            let found = match first!(of_owner.and(refunds::provider_id.eq(&pix_id)), conn) {
                Some(row) => Some(row),
                None => first!(of_owner.and(refunds::return_id.eq(&pix_id)), conn),
            };
            found.map(Refund::try_from).transpose()
        })
        .await
    }

    async fn list_of_charge(
        &self,
        integrator_id: IntegratorId,
        charge_id: ChargeId,
    ) -> Result<Vec<Refund>, StoreError> {
        let (owner, charge) = (DbId::from(integrator_id), DbId(charge_id.0));
        self.read(move |conn| {
            let of_charge = refunds::integrator_id.eq(owner).and(refunds::charge_id.eq(charge));
            let rows: Vec<RefundRow> = refunds::table
                .filter(of_charge)
                .order(refunds::id.asc())
                .select(RefundRow::as_select())
                .load(conn)
                .of("refunds")?;
            rows.into_iter().map(Refund::try_from).collect()
        })
        .await
    }
}
