//! Reads of withdrawals.

use async_trait::async_trait;
use diesel::prelude::{BoolExpressionMethods, ExpressionMethods, QueryDsl};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, WithdrawalId};
use pix_domain::list::ListQuery;
use pix_domain::text::ExternalId;
use pix_domain::withdrawals::Withdrawal;
use pix_domain::withdrawals::store::WithdrawalStore;

use super::PgStore;
use super::ask::Ask;
use super::by_key::WithdrawalsNamed;
use super::error::Of;
use super::lookups::find;
use super::page::page;
use super::people::{opened, opened_one};
use super::types::can_be_kept;
use super::written::columns_of;
use crate::codec::DbId;
use crate::rows::WithdrawalRow;
use crate::schema::withdrawals;

/// The first row for which `$condition` holds.
macro_rules! first {
    ($condition:expr, $conn:expr) => {
        withdrawals::table
            .filter($condition)
            .order(withdrawals::id.asc())
            .select(columns_of::<WithdrawalRow>())
            .limit(1)
            .found($conn)
            .await
            .of("withdrawals")?
    };
}

#[async_trait]
impl WithdrawalStore for PgStore {
    async fn find(
        &self,
        integrator_id: IntegratorId,
        id: WithdrawalId,
    ) -> Result<Option<Withdrawal>, StoreError> {
        let (owner, id) = (DbId::from(integrator_id), DbId(id.0));
        if let Some(shares) = &self.shares {
            return shares.withdrawals.ask((owner, id)).await;
        }
        let mut conn = self.reads().await?;
        find::<WithdrawalRow>(&mut conn, (owner, id)).await
    }

    async fn find_by_external_id(
        &self,
        integrator_id: IntegratorId,
        external_id: &ExternalId,
    ) -> Result<Option<Withdrawal>, StoreError> {
        let name = (integrator_id.into(), external_id.as_str().to_owned());
        // A name is there once, and stays.
        match self.by_key::<WithdrawalsNamed>(|shares| &shares.withdrawals_named, name).await? {
            Some(id) => WithdrawalStore::find(self, integrator_id, WithdrawalId(id.0)).await,
            None => Ok(None),
        }
    }

    async fn find_by_pix_id(
        &self,
        integrator_id: IntegratorId,
        pix_id: &str,
    ) -> Result<Option<Withdrawal>, StoreError> {
        if !can_be_kept(pix_id) {
            return Ok(None);
        }
        let mut conn = self.reads().await?;
        // Two lookups, each by its index, rather than one with an OR.
        let of_owner = withdrawals::integrator_id.eq(DbId::from(integrator_id));
        let mut found: Option<Box<WithdrawalRow>> =
            first!(of_owner.and(withdrawals::provider_id.eq(pix_id)), &mut conn);
        if found.is_none() {
            found = first!(of_owner.and(withdrawals::end_to_end_id.eq(pix_id)), &mut conn);
        }
        opened_one(&mut conn, found).await
    }

    async fn list(
        &self,
        integrator_id: IntegratorId,
        query: &ListQuery,
    ) -> Result<Vec<Withdrawal>, StoreError> {
        let mut conn = self.reads().await?;
        let owner = DbId::from(integrator_id);
        let rows: Vec<Box<WithdrawalRow>> = page!(withdrawals, WithdrawalRow, owner, query, &mut conn);
        opened(&mut conn, rows).await
    }
}
