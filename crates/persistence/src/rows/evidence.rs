//! Rows of evidence and of twins.

use diesel::prelude::{Insertable, Queryable, Selectable};
use pix_domain::error::StoreError;
use pix_domain::evidence::{Evidence, EvidenceKind, Proof};
use pix_domain::time::Timestamp;
use pix_domain::transition::Twin;
use uuid::Uuid;

use crate::codec::{self, DbId, DbTime};
use crate::schema::{evidence, twins};

/// Evidence as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = evidence, treat_none_as_default_value = false)]
pub struct EvidenceRow {
    pub integrator_id: DbId,
    pub resource_kind: String,
    pub resource_id: DbId,
    pub id: DbId,
    pub kind: String,
    pub proof: String,
    pub detail: String,
    pub created_at: DbTime,
}

impl From<Evidence> for EvidenceRow {
    fn from(evidence: Evidence) -> Self {
        let resource = evidence.resource;
        Self {
            integrator_id: resource.integrator_id.into(),
            resource_kind: resource.kind.as_str().to_owned(),
            resource_id: DbId(resource.id),
            id: DbId(evidence.id),
            kind: evidence.kind.as_str().to_owned(),
            proof: evidence.proof.as_str().to_owned(),
            detail: evidence.detail,
            created_at: DbTime(evidence.at),
        }
    }
}

impl TryFrom<EvidenceRow> for Evidence {
    type Error = StoreError;

    fn try_from(row: EvidenceRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.0,
            resource: codec::resource(
                "evidence.resource_kind",
                row.integrator_id,
                &row.resource_kind,
                row.resource_id,
            )?,
            at: row.created_at.0,
            kind: codec::named("evidence.kind", &row.kind, EvidenceKind::from_name)?,
            proof: codec::named("evidence.proof", &row.proof, Proof::from_name)?,
            detail: row.detail,
        })
    }
}

/// What a twin's key names, as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = twins, treat_none_as_default_value = false)]
pub struct TwinRow {
    pub integrator_id: DbId,
    pub key: DbId,
    pub resource_id: DbId,
    pub others: String,
    pub created_at: DbTime,
}

impl TwinRow {
    /// The row of `twin`; nothing for one that names nobody, which has no right shape.
    pub fn new(integrator_id: DbId, twin: &Twin, at: Timestamp) -> Option<Self> {
        let (newest, others) = twin.ids.split_first()?;
        let others: Vec<String> = others.iter().map(Uuid::to_string).collect();
        Some(Self {
            integrator_id,
            key: DbId(twin.key),
            resource_id: DbId(*newest),
            others: others.join(" "),
            created_at: DbTime(at),
        })
    }

    /// What the key names, newest first.
    pub fn ids(self) -> Result<Vec<Uuid>, StoreError> {
        let mut ids = vec![self.resource_id.0];
        for other in self.others.split_whitespace() {
            ids.push(codec::text("twins.others", other, Uuid::try_parse)?);
        }
        Ok(ids)
    }
}
