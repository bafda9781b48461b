//! Rows of integrators, their keys and their fees.

use diesel::prelude::{Insertable, Queryable, Selectable};
use pix_domain::credentials::{ApiKey, Integrator, IntegratorStatus, SecretHash};
use pix_domain::error::StoreError;
use pix_domain::fees::{FeeRule, FeeSchedule, Percent};
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::time::Timestamp;

use crate::codec::{self, DbId, DbTime};
use crate::schema::{api_keys, fee_schedules, integrators};

/// The stable name of a status, as stored.
pub const fn status_name(status: IntegratorStatus) -> &'static str {
    match status {
        IntegratorStatus::Active => "active",
        IntegratorStatus::Suspended => "suspended",
    }
}

fn status_from_name(name: &str) -> Option<IntegratorStatus> {
    [IntegratorStatus::Active, IntegratorStatus::Suspended]
        .into_iter()
        .find(|status| status_name(*status) == name)
}

/// An integrator as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = integrators, treat_none_as_default_value = false)]
pub struct IntegratorRow {
    pub id: DbId,
    pub name: String,
    pub status: String,
    pub created_at: DbTime,
    pub postback_scope: Option<String>,
}

impl From<Integrator> for IntegratorRow {
    fn from(integrator: Integrator) -> Self {
        Self {
            id: integrator.id.into(),
            name: integrator.name,
            status: status_name(integrator.status).to_owned(),
            created_at: DbTime(integrator.created_at),
            postback_scope: integrator.postback_scope.map(|scope| scope.as_str().to_owned()),
        }
    }
}

impl TryFrom<IntegratorRow> for Integrator {
    type Error = StoreError;

    fn try_from(row: IntegratorRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: IntegratorId(row.id.0),
            name: row.name,
            status: codec::named("integrators.status", &row.status, status_from_name)?,
            postback_scope: row
                .postback_scope
                .map(|scope| codec::named("integrators.postback_scope", &scope, PostbackScope::from_name))
                .transpose()?,
            created_at: row.created_at.0,
        })
    }
}

/// An API key as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = api_keys, treat_none_as_default_value = false)]
pub struct ApiKeyRow {
    pub public_id: String,
    pub integrator_id: DbId,
    pub number: i64,
    pub secret_hash: String,
    pub created_at: DbTime,
    pub revoked_at: Option<DbTime>,
}

impl ApiKeyRow {
    /// The row of `key`, the integrator's `number`-th.
    pub fn new(key: ApiKey, number: i64) -> Self {
        Self {
            public_id: key.public_id,
            integrator_id: key.integrator_id.into(),
            number,
            secret_hash: key.secret_hash.0,
            created_at: DbTime(key.created_at),
            revoked_at: key.revoked_at.map(DbTime),
        }
    }
}

impl From<ApiKeyRow> for ApiKey {
    fn from(row: ApiKeyRow) -> Self {
        Self {
            public_id: row.public_id,
            integrator_id: IntegratorId(row.integrator_id.0),
            secret_hash: SecretHash(row.secret_hash),
            created_at: row.created_at.0,
            revoked_at: row.revoked_at.map(|at| at.0),
        }
    }
}

/// A fee schedule as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = fee_schedules, treat_none_as_default_value = false)]
pub struct FeeScheduleRow {
    pub integrator_id: DbId,
    pub version: i64,
    pub cash_in_fixed_cents: i64,
    pub cash_in_percent: String,
    pub cash_in_min_cents: i64,
    pub cash_in_max_cents: Option<i64>,
    pub cash_out_fixed_cents: i64,
    pub cash_out_percent: String,
    pub cash_out_min_cents: i64,
    pub cash_out_max_cents: Option<i64>,
    pub refund_fixed_cents: i64,
    pub refund_percent: String,
    pub refund_min_cents: i64,
    pub refund_max_cents: Option<i64>,
    pub created_at: DbTime,
}

impl FeeScheduleRow {
    /// The row of `schedule` under the number `version`.
    pub fn new(integrator_id: DbId, version: i64, schedule: &FeeSchedule, at: Timestamp) -> Self {
        let max = |rule: &FeeRule| rule.max.map(pix_domain::money::Cents::get);
        Self {
            integrator_id,
            version,
            cash_in_fixed_cents: schedule.cash_in.fixed.get(),
            cash_in_percent: schedule.cash_in.percent.plain(),
            cash_in_min_cents: schedule.cash_in.min.get(),
            cash_in_max_cents: max(&schedule.cash_in),
            cash_out_fixed_cents: schedule.cash_out.fixed.get(),
            cash_out_percent: schedule.cash_out.percent.plain(),
            cash_out_min_cents: schedule.cash_out.min.get(),
            cash_out_max_cents: max(&schedule.cash_out),
            refund_fixed_cents: schedule.refund.fixed.get(),
            refund_percent: schedule.refund.percent.plain(),
            refund_min_cents: schedule.refund.min.get(),
            refund_max_cents: max(&schedule.refund),
            created_at: DbTime(at),
        }
    }
}

/// A rule out of its four columns; `column` is what their names begin with.
fn rule(column: &str, fixed: i64, percent: &str, min: i64, max: Option<i64>) -> Result<FeeRule, StoreError> {
    let max = max.map(|max| codec::cents(column, max)).transpose()?;
    let (fixed, min) = (codec::cents(column, fixed)?, codec::cents(column, min)?);
    let percent = codec::text(column, percent, Percent::parse)?;
    FeeRule::new(fixed, percent, min, max).ok().ok_or_else(|| codec::damaged(column, "a rule of fees"))
}

impl TryFrom<FeeScheduleRow> for FeeSchedule {
    type Error = StoreError;

    fn try_from(row: FeeScheduleRow) -> Result<Self, StoreError> {
        Ok(Self {
            version: codec::number("fee_schedules.version", row.version)?,
            cash_in: rule(
                "fee_schedules.cash_in_*",
                row.cash_in_fixed_cents,
                &row.cash_in_percent,
                row.cash_in_min_cents,
                row.cash_in_max_cents,
            )?,
            cash_out: rule(
                "fee_schedules.cash_out_*",
                row.cash_out_fixed_cents,
                &row.cash_out_percent,
                row.cash_out_min_cents,
                row.cash_out_max_cents,
            )?,
            refund: rule(
                "fee_schedules.refund_*",
                row.refund_fixed_cents,
                &row.refund_percent,
                row.refund_min_cents,
                row.refund_max_cents,
            )?,
        })
    }
}
