//! Reads of splits.

use async_trait::async_trait;
use diesel::prelude::{ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, SplitId};
use pix_domain::list::ListQuery;
use pix_domain::splits::Split;
use pix_domain::splits::store::SplitStore;

use super::SqliteStore;
use super::error::Of;
use super::page::page_by_time;
use crate::codec::DbId;
use crate::rows::SplitRow;
use crate::schema::splits;

#[async_trait]
impl SplitStore for SqliteStore {
    async fn find(&self, integrator_id: IntegratorId, id: SplitId) -> Result<Option<Split>, StoreError> {
        let (owner, id) = (DbId::from(integrator_id), DbId(id.0));
        self.read(move |conn| {
            let row =
                splits::table.find((owner, id)).select(SplitRow::as_select()).get_result(conn).optional();
            row.of("splits")?.map(Split::try_from).transpose()
        })
        .await
    }

    async fn list(&self, integrator_id: IntegratorId, query: &ListQuery) -> Result<Vec<Split>, StoreError> {
        let (owner, query) = (DbId::from(integrator_id), query.clone());
        self.read(move |conn| {
            let rows: Vec<SplitRow> = page_by_time!(splits, SplitRow, owner, query, conn, rows => {});
            rows.into_iter().map(Split::try_from).collect()
        })
        .await
    }
}
