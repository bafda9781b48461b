//! Rows of refunds.

use diesel::{AsChangeset, Insertable, Selectable};
use pix_domain::error::StoreError;
use pix_domain::ids::{ChargeId, IntegratorId, RefundId, Version};
use pix_domain::provider::ProviderBody;
use pix_domain::refunds::Refund;
use pix_domain::text::Description;
use pix_domain::time::Timestamp;

use super::reading::read_in_place;
use crate::codec::{self, DbId, DbTime};
use crate::schema::refunds;

read_in_place! {
    /// A refund as it is kept.
    #[derive(Selectable, Insertable, AsChangeset)]
    #[diesel(primary_key(integrator_id, id))]
    #[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
    pub struct RefundRow of refunds {
        pub integrator_id: DbId,
        pub id: DbId,
        pub version: i64,
        pub charge_id: DbId,
        pub charge_provider_id: String,
        pub external_id: String,
        pub external_id_given: bool,
        pub amount_cents: i64,
        pub amount_given: bool,
        pub fee_cents: i64,
        pub fee_version: i64,
        pub description: Option<String>,
        pub state: String,
        pub failure_code: Option<String>,
        pub failure_message: Option<String>,
        pub provider_id: Option<String>,
        pub provider_body: Option<String>,
        pub return_id: Option<String>,
        pub submitted_at: DbTime,
        pub completed_at: Option<DbTime>,
        pub created_at: DbTime,
        pub updated_at: DbTime,
        pub follow_up_at: Option<DbTime>,
        pub follow_up_attempts: i64,
    }
}

impl RefundRow {
    /// The row of `refund`, to be asked about at `follow_up`.
    pub fn new(refund: Refund, follow_up: Option<Timestamp>) -> Self {
        let failure = codec::failure_of(&refund.state);
        Self {
            integrator_id: refund.integrator_id.into(),
            id: DbId(refund.id.0),
            version: refund.version.0.into(),
            charge_id: DbId(refund.charge_id.0),
            charge_provider_id: refund.charge_provider_id.as_str().to_owned(),
            external_id: refund.external_id.as_str().to_owned(),
            external_id_given: refund.external_id_given,
            amount_cents: refund.amount.cents().get(),
            amount_given: refund.amount_given,
            fee_cents: refund.fee.get(),
            fee_version: refund.fee_version.into(),
            description: refund.description.map(|text| text.as_str().to_owned()),
            state: refund.state.name().to_owned(),
            failure_code: failure.map(|failure| failure.code.clone()),
            failure_message: failure.map(|failure| failure.message.clone()),
            provider_id: refund.provider_id.map(|id| id.as_str().to_owned()),
            provider_body: refund.provider_body.map(|body| body.0),
            return_id: refund.return_id,
            submitted_at: DbTime(refund.submitted_at),
            completed_at: refund.completed_at.map(DbTime),
            created_at: DbTime(refund.created_at),
            updated_at: DbTime(refund.updated_at),
            follow_up_at: follow_up.map(DbTime),
            follow_up_attempts: 0,
        }
    }
}

impl TryFrom<RefundRow> for Refund {
    type Error = StoreError;

    fn try_from(row: RefundRow) -> Result<Self, StoreError> {
        Self::try_from(Box::new(row))
    }
}

impl TryFrom<Box<RefundRow>> for Refund {
    type Error = StoreError;

    fn try_from(row: Box<RefundRow>) -> Result<Self, StoreError> {
        Ok(Self {
            id: RefundId(row.id.0),
            integrator_id: IntegratorId(row.integrator_id.0),
            version: Version(codec::number("refunds.version", row.version)?),
            charge_id: ChargeId(row.charge_id.0),
            charge_provider_id: codec::provider_id("refunds.charge_provider_id", row.charge_provider_id)?,
            external_id: codec::owned_text("refunds.external_id", row.external_id)?,
            external_id_given: row.external_id_given,
            amount: codec::amount("refunds.amount_cents", row.amount_cents)?,
            amount_given: row.amount_given,
            fee: codec::cents("refunds.fee_cents", row.fee_cents)?,
            fee_version: codec::number("refunds.fee_version", row.fee_version)?,
            description: codec::optional_text(
                "refunds.description",
                row.description.as_deref(),
                Description::parse,
            )?,
            state: codec::outgoing_state("refunds.state", &row.state, row.failure_code, row.failure_message)?,
            provider_id: row
                .provider_id
                .map(|id| codec::provider_id("refunds.provider_id", id))
                .transpose()?,
            provider_body: row.provider_body.map(ProviderBody),
            return_id: row.return_id,
            submitted_at: row.submitted_at.0,
            completed_at: row.completed_at.map(|at| at.0),
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
        })
    }
}
