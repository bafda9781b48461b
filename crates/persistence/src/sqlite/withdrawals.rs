//! Reads of withdrawals.

use async_trait::async_trait;
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, WithdrawalId};
use pix_domain::list::ListQuery;
use pix_domain::text::ExternalId;
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::store::WithdrawalStore;

use super::SqliteStore;
use super::error::Of;
use super::page::page;
use super::people::{opened, opened_one};
use crate::codec::DbId;
use crate::rows::WithdrawalRow;
use crate::schema::withdrawals;

/// The first row for which `$condition` holds.
macro_rules! first {
    ($condition:expr, $conn:expr) => {
        withdrawals::table
            .filter($condition)
            .order(withdrawals::id.asc())
            .select(WithdrawalRow::as_select())
            .get_result($conn)
            .optional()
            .of("withdrawals")?
    };
}

#[async_trait]
impl WithdrawalStore for SqliteStore {
    async fn find(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
    ) -> Result<Option<Withdrawal>, StoreError> {
        let (owner, id) = (DbId::from(integrator_id), DbId(id.0));
        self.read(move |conn| {
            let row = withdrawals::table
                .find((owner, id))
                .select(WithdrawalRow::as_select())
                .get_result(conn)
                .optional();
            opened_one(conn, row.of("withdrawals")?)
        })
        .await
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Withdrawal>, StoreError> {
        let (owner, name) = (DbId::from(integrator_id), external_id.clone());
        self.read(move |conn| {
            let named = withdrawals::integrator_id.eq(owner).and(withdrawals::external_id.eq(name.as_str()));
            let found: Option<WithdrawalRow> = first!(named, conn);
            opened_one(conn, found)
        })
        .await
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Withdrawal>, StoreError> {
        let (owner, pix_id) = (DbId::from(integrator_id), pix_id.to_owned());
        self.read(move |conn| {
            // Two lookups, each by its index, rather than one with an OR.
            let of_owner = withdrawals::integrator_id.eq(owner);
            let found: Option<WithdrawalRow> =
                match first!(of_owner.and(withdrawals::provider_id.eq(&pix_id)), conn) {
                    Some(row) => Some(row),
                    None => first!(of_owner.and(withdrawals::end_to_end_id.eq(&pix_id)), conn),
                };
            opened_one(conn, found)
        })
        .await
    }

    async fn list(
        &self,
        integrator_id: IntegratorId,
        query: &ListQuery,
    ) -> Result<Vec<Withdrawal>, StoreError> {
        let (owner, query) = (DbId::from(integrator_id), query.clone());
        self.read(move |conn| {
            let rows: Vec<WithdrawalRow> = page!(withdrawals, WithdrawalRow, owner, query, conn);
            opened(conn, rows)
        })
        .await
    }
}
