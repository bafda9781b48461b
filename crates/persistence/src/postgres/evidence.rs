//! Reads of evidence.

use async_trait::async_trait;
use diesel::prelude::{ExpressionMethods, QueryDsl, SelectableHelper};
use pix_domain::error::StoreError;
use pix_domain::evidence::{Evidence, EvidenceStore, MAX_LISTED};
use pix_domain::ids::ResourceRef;

use super::PgStore;
use super::ask::Ask;
use super::error::Of;
use crate::codec::DbId;
use crate::rows::EvidenceRow;
use crate::schema::evidence;

#[async_trait]
impl EvidenceStore for PgStore {
    async fn list(&self, resource: ResourceRef) -> Result<Vec<Evidence>, StoreError> {
        let mut conn = self.reads().await?;
        let mut rows: Vec<EvidenceRow> = evidence::table
            .filter(evidence::integrator_id.eq(DbId::from(resource.integrator_id)))
            .filter(evidence::resource_kind.eq(resource.kind.as_str()))
            .filter(evidence::resource_id.eq(DbId(resource.id)))
            .order((evidence::created_at.desc(), evidence::id.desc()))
            .limit(MAX_LISTED.into())
            .select(EvidenceRow::as_select())
            .rows(&mut conn)
            .await
            .of("evidence")?;
        rows.reverse();
        rows.into_iter().map(Evidence::try_from).collect()
    }
}
