//! Rows of integrators, their keys and their fees.

use diesel::prelude::{AsChangeset, Insertable, Queryable, Selectable};
use pix_domain::credentials::{
    ApiKey, Integrator, IntegratorStatus, KeyChange, KeySecret, KeySecrets, Scopes, SecretHash,
};
use pix_domain::error::StoreError;
use pix_domain::fees::{FeeRule, FeeSchedule, Percent};
use pix_domain::ids::IntegratorId;
use pix_domain::ip::IpRange;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::text::PostbackUrl;
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
    pub split_postback: Option<String>,
}

impl From<Integrator> for IntegratorRow {
    fn from(integrator: Integrator) -> Self {
        Self {
            id: integrator.id.into(),
            name: integrator.name,
            status: status_name(integrator.status).to_owned(),
            created_at: DbTime(integrator.created_at),
            postback_scope: integrator.postback_scope.map(|scope| scope.as_str().to_owned()),
            split_postback: integrator.split_postback.map(|url| url.as_str().to_owned()),
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
            split_postback: codec::optional_text(
                "integrators.split_postback",
                row.split_postback.as_deref(),
                PostbackUrl::parse,
            )?,
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
    pub secret_number: i64,
    /// `None` for when the key was made.
    pub secret_made_at: Option<DbTime>,
    pub secrets_made: i64,
    pub second_secret_hash: Option<String>,
    pub second_secret_made_at: Option<DbTime>,
    pub scopes: Option<String>,
    pub expires_at: Option<DbTime>,
    pub allowed_ips: String,
    pub last_used_at: Option<DbTime>,
}

impl ApiKeyRow {
    /// The row of `key`, the integrator's `number`-th.
    pub fn new(key: ApiKey, number: i64) -> Self {
        let secrets = KeySecretsRow::from(key.secrets);
        Self {
            public_id: key.public_id,
            integrator_id: key.integrator_id.into(),
            number,
            secret_hash: secrets.secret_hash,
            created_at: DbTime(key.created_at),
            revoked_at: key.revoked_at.map(DbTime),
            secret_number: secrets.secret_number,
            secret_made_at: secrets.secret_made_at,
            secrets_made: secrets.secrets_made,
            second_secret_hash: secrets.second_secret_hash,
            second_secret_made_at: secrets.second_secret_made_at,
            scopes: scopes_text(key.scopes),
            expires_at: key.expires_at.map(DbTime),
            allowed_ips: ranges_text(&key.allowed_ips),
            last_used_at: key.last_used_at.map(DbTime),
        }
    }
}

impl TryFrom<ApiKeyRow> for ApiKey {
    type Error = StoreError;

    fn try_from(row: ApiKeyRow) -> Result<Self, StoreError> {
        let made = codec::number("api_keys.secrets_made", row.secrets_made)?;
        let older = KeySecret {
            number: codec::number("api_keys.secret_number", row.secret_number)?,
            hash: SecretHash(row.secret_hash),
            created_at: row.secret_made_at.unwrap_or(row.created_at).0,
        };
        let newer = row.second_secret_hash.zip(row.second_secret_made_at);
        let newer =
            newer.map(|(hash, at)| KeySecret { number: made, hash: SecretHash(hash), created_at: at.0 });
        let scopes = codec::optional_text("api_keys.scopes", row.scopes.as_deref(), Scopes::parse)?;
        let ranges = row.allowed_ips.split_terminator(',');
        let ranges = ranges.map(|range| codec::text("api_keys.allowed_ips", range, str::parse::<IpRange>));
        Ok(Self {
            public_id: row.public_id,
            integrator_id: IntegratorId(row.integrator_id.0),
            secrets: KeySecrets { older, newer, made },
            created_at: row.created_at.0,
            revoked_at: row.revoked_at.map(|at| at.0),
            scopes: scopes.unwrap_or(Scopes::ALL),
            expires_at: row.expires_at.map(|at| at.0),
            allowed_ips: ranges.collect::<Result<_, _>>()?,
            last_used_at: row.last_used_at.map(|at| at.0),
        })
    }
}

/// `None` for everything, so that a scope that is added later is part of it.
fn scopes_text(scopes: Scopes) -> Option<String> {
    (scopes != Scopes::ALL).then(|| scopes.to_string())
}

fn ranges_text(ranges: &[IpRange]) -> String {
    ranges.iter().map(IpRange::to_string).collect::<Vec<_>>().join(",")
}

/// The secrets of a key, to be kept. The newer one has the highest number.
#[derive(AsChangeset)]
#[diesel(table_name = api_keys, treat_none_as_null = true)]
pub struct KeySecretsRow {
    pub secret_hash: String,
    pub secret_number: i64,
    pub secret_made_at: Option<DbTime>,
    pub secrets_made: i64,
    pub second_secret_hash: Option<String>,
    pub second_secret_made_at: Option<DbTime>,
}

impl From<KeySecrets> for KeySecretsRow {
    fn from(secrets: KeySecrets) -> Self {
        let (second_secret_hash, second_secret_made_at) =
            secrets.newer.map(|newer| (newer.hash.0, DbTime(newer.created_at))).unzip();
        Self {
            secret_hash: secrets.older.hash.0,
            secret_number: secrets.older.number.into(),
            secret_made_at: Some(DbTime(secrets.older.created_at)),
            secrets_made: secrets.made.into(),
            second_secret_hash,
            second_secret_made_at,
        }
    }
}

/// What is changed of a key; what is `None` stays.
#[derive(AsChangeset)]
#[diesel(table_name = api_keys)]
#[expect(clippy::option_option, reason = "a changeset tells what is left from what is set to NULL by it")]
pub struct KeyChangeRow {
    scopes: Option<Option<String>>,
    expires_at: Option<Option<DbTime>>,
    allowed_ips: Option<String>,
}

impl From<KeyChange> for KeyChangeRow {
    fn from(change: KeyChange) -> Self {
        Self {
            scopes: change.scopes.map(scopes_text),
            expires_at: change.expires_at.map(|at| at.map(DbTime)),
            allowed_ips: change.allowed_ips.as_deref().map(ranges_text),
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
