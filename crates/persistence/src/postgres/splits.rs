//! Reads of splits.

use async_trait::async_trait;
use diesel::prelude::{ExpressionMethods, QueryDsl};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, SplitId};
use pix_domain::list::ListQuery;
use pix_domain::splits::Split;
use pix_domain::splits::store::SplitStore;

use super::PgStore;
use super::ask::Ask;
use super::error::Of;
use super::page::page_by_time;
use super::written::columns_of;
use crate::codec::DbId;
use crate::rows::SplitRow;
use crate::schema::splits;

#[async_trait]
impl SplitStore for PgStore {
    async fn find(&self, integrator_id: IntegratorId, id: SplitId) -> Result<Option<Split>, StoreError> {
        let mut conn = self.reads().await?;
        let same = splits::table.find((DbId::from(integrator_id), DbId(id.0)));
        let found = same.select(columns_of::<SplitRow>()).limit(1).found::<Box<SplitRow>>(&mut conn).await;
        found.of("splits")?.map(Split::try_from).transpose()
    }

    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Split>, StoreError> {
        let mut conn = self.reads().await?;
        let owner = DbId::from(integrator_id);
        let rows: Vec<Box<SplitRow>> = page_by_time!(splits, SplitRow, owner, query, &mut conn, rows => {});
        rows.into_iter().map(Split::try_from).collect()
    }
}
