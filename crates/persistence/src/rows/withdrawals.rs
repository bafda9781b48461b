//! Rows of withdrawals.

use diesel::{AsChangeset, Insertable, Selectable};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, Version, WithdrawalId};
use pix_domain::party::{PixKey, PixKeyType};
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::provider::ProviderBody;
use pix_domain::text::{Description, PostbackUrl};
use pix_domain::time::Timestamp;
use pix_domain::withdrawals::{Payee, Withdrawal};

use super::charges::{kept, present};
use super::people::ERASED;
use super::reading::read_in_place;
use crate::codec::{self, DbId, DbTime};
use crate::schema::withdrawals;

read_in_place! {
    /// A withdrawal as it is kept.
    #[derive(Selectable, Insertable, AsChangeset)]
    #[diesel(primary_key(integrator_id, id))]
    #[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
    pub struct WithdrawalRow of withdrawals {
        pub integrator_id: DbId,
        pub id: DbId,
        pub version: i64,
        pub external_id: String,
        pub external_id_given: bool,
        pub amount_cents: i64,
        pub fee_cents: i64,
        pub fee_version: i64,
        pub payee_name: Option<String>,
        pub payee_document: Option<String>,
        pub payee_key_type: String,
        pub payee_key: String,
        pub description: Option<String>,
        pub postback_url: Option<String>,
        pub state: String,
        pub failure_code: Option<String>,
        pub failure_message: Option<String>,
        pub provider_id: Option<String>,
        pub provider_body: Option<String>,
        pub end_to_end_id: Option<String>,
        pub returned_cents: i64,
        pub submitted_at: DbTime,
        pub completed_at: Option<DbTime>,
        pub created_at: DbTime,
        pub updated_at: DbTime,
        pub follow_up_at: Option<DbTime>,
        pub follow_up_attempts: i64,
        pub settled_late: bool,
        pub postback_all: bool,
        pub metadata: Option<String>,
    }
}

impl WithdrawalRow {
    /// The row of `withdrawal`, to be asked about at `follow_up`.
    pub fn new(withdrawal: Withdrawal, follow_up: Option<Timestamp>) -> Self {
        let failure = codec::failure_of(&withdrawal.state);
        Self {
            integrator_id: withdrawal.integrator_id.into(),
            id: DbId(withdrawal.id.0),
            version: withdrawal.version.0.into(),
            external_id: withdrawal.external_id.as_str().to_owned(),
            external_id_given: withdrawal.external_id_given,
            amount_cents: withdrawal.amount.cents().get(),
            fee_cents: withdrawal.fee.get(),
            fee_version: withdrawal.fee_version.into(),
            payee_name: codec::name_of(&withdrawal.payee.party),
            payee_document: kept(&withdrawal.payee.party, withdrawal.payee_erased),
            payee_key_type: withdrawal.payee.key.kind().as_str().to_owned(),
            payee_key: withdrawal.payee.key.as_str().to_owned(),
            description: withdrawal.description.map(|text| text.as_str().to_owned()),
            postback_url: withdrawal.postback_url.map(|url| url.as_str().to_owned()),
            state: withdrawal.state.name().to_owned(),
            failure_code: failure.map(|failure| failure.code.clone()),
            failure_message: failure.map(|failure| failure.message.clone()),
            provider_id: withdrawal.provider_id.map(|id| id.as_str().to_owned()),
            provider_body: withdrawal.provider_body.map(|body| body.0),
            end_to_end_id: withdrawal.end_to_end_id,
            returned_cents: withdrawal.returned.get(),
            submitted_at: DbTime(withdrawal.submitted_at),
            completed_at: withdrawal.completed_at.map(DbTime),
            created_at: DbTime(withdrawal.created_at),
            updated_at: DbTime(withdrawal.updated_at),
            follow_up_at: follow_up.map(DbTime),
            follow_up_attempts: 0,
            settled_late: withdrawal.settled_late,
            postback_all: withdrawal.postback_scope == PostbackScope::All,
            metadata: codec::to_metadata(&withdrawal.metadata),
        }
    }
}

impl TryFrom<WithdrawalRow> for Withdrawal {
    type Error = StoreError;

    fn try_from(row: WithdrawalRow) -> Result<Self, StoreError> {
        Self::try_from(Box::new(row))
    }
}

impl TryFrom<Box<WithdrawalRow>> for Withdrawal {
    type Error = StoreError;

    fn try_from(row: Box<WithdrawalRow>) -> Result<Self, StoreError> {
        let key_type = codec::text("withdrawals.payee_key_type", &row.payee_key_type, PixKeyType::parse)?;
        let key = codec::text("withdrawals.payee_key", &row.payee_key, |key| PixKey::parse(key_type, key))?;
        let payee_erased = row.payee_document.as_deref() == Some(ERASED);
        let party = codec::party("withdrawals.payee_*", row.payee_name, present(row.payee_document))?;
        Ok(Self {
            id: WithdrawalId(row.id.0),
            integrator_id: IntegratorId(row.integrator_id.0),
            version: Version(codec::number("withdrawals.version", row.version)?),
            external_id: codec::owned_text("withdrawals.external_id", row.external_id)?,
            external_id_given: row.external_id_given,
            amount: codec::amount("withdrawals.amount_cents", row.amount_cents)?,
            fee: codec::cents("withdrawals.fee_cents", row.fee_cents)?,
            fee_version: codec::number("withdrawals.fee_version", row.fee_version)?,
            payee: Payee { party, key },
            payee_erased,
            description: codec::optional_text(
                "withdrawals.description",
                row.description.as_deref(),
                Description::parse,
            )?,
            postback_url: codec::optional_text(
                "withdrawals.postback_url",
                row.postback_url.as_deref(),
                PostbackUrl::parse,
            )?,
            state: codec::outgoing_state(
                "withdrawals.state",
                &row.state,
                row.failure_code,
                row.failure_message,
            )?,
            provider_id: row
                .provider_id
                .map(|id| codec::provider_id("withdrawals.provider_id", id))
                .transpose()?,
            provider_body: row.provider_body.map(ProviderBody),
            end_to_end_id: row.end_to_end_id,
            returned: codec::cents("withdrawals.returned_cents", row.returned_cents)?,
            settled_late: row.settled_late,
            postback_scope: codec::postback_scope(row.postback_all),
            metadata: codec::metadata("withdrawals.metadata", row.metadata.as_deref())?,
            submitted_at: row.submitted_at.0,
            completed_at: row.completed_at.map(|at| at.0),
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
        })
    }
}
