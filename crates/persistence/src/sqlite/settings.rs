//! Integrators, their keys and their fees.

use async_trait::async_trait;
use diesel::dsl::{exists, max};
use diesel::prelude::{
    BoolExpressionMethods, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use diesel::sqlite::SqliteConnection;
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::credentials::{ApiKey, Integrator, IntegratorStatus, KeyChange, KeySecrets};
use pix_domain::error::StoreError;
use pix_domain::fees::{FeeSchedule, FeeStore};
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;

use super::SqliteStore;
use super::error::{DbError, Of, Problem};
use super::update::update;
use crate::codec::{self, DbId, DbTime};
use crate::rows::{
    ApiKeyRow, FeeScheduleRow, IntegratorRow, KeyChangeRow, KeySecretsRow, WalletRow, status_name,
};
use crate::schema::{api_keys, fee_schedules, integrators, wallets};

type Written<T> = Result<T, Problem<StoreError>>;

fn rejected(why: &str) -> StoreError {
    StoreError::Rejected(why.to_owned())
}

/// `why` for a taken key; every other error as it is.
fn taken(error: DbError, why: &str) -> Problem<StoreError> {
    match error {
        DbError::Taken(_) => rejected(why).into(),
        other => other.into(),
    }
}

pub(super) fn require_integrator(conn: &mut SqliteConnection, owner: DbId) -> Written<()> {
    let known: bool =
        diesel::select(exists(integrators::table.find(owner))).get_result(conn).of("integrators")?;
    if known { Ok(()) } else { Err(rejected("no such integrator").into()) }
}

#[async_trait]
impl IntegratorStore for SqliteStore {
    async fn create(&self, integrator: Integrator) -> Result<(), StoreError> {
        self.write(move |conn| {
            let row = IntegratorRow::from(integrator);
            let kept = diesel::insert_into(integrators::table).values(&row).execute(conn).of("integrators");
            kept.map_err(|error| taken(error, "the integrator's id is taken"))?;
            let wallet = WalletRow::empty(row.id);
            diesel::insert_into(wallets::table).values(&wallet).execute(conn).of("wallets")?;
            Ok(())
        })
        .await
    }

    async fn find(&self, id: IntegratorId) -> Result<Option<Integrator>, StoreError> {
        self.read(move |conn| {
            let found = integrators::table.find(DbId::from(id)).select(IntegratorRow::as_select());
            found.get_result(conn).optional().of("integrators")?.map(Integrator::try_from).transpose()
        })
        .await
    }

    async fn list(&self) -> Result<Vec<Integrator>, StoreError> {
        self.read(move |conn| {
            let all = integrators::table.order(integrators::id.asc()).select(IntegratorRow::as_select());
            let rows: Vec<IntegratorRow> = all.load(conn).of("integrators")?;
            rows.into_iter().map(Integrator::try_from).collect()
        })
        .await
    }

    async fn set_status(&self, id: IntegratorId, status: IntegratorStatus) -> Result<bool, StoreError> {
        self.write(move |conn| {
            let same = integrators::id.eq(DbId::from(id));
            let changed = update(integrators::table, integrators::status.eq(status_name(status)), same);
            Ok(changed.execute(conn).of("integrators")? > 0)
        })
        .await
    }

    async fn set_postback_scope(
        &self,
        id: IntegratorId,
        scope: Option<PostbackScope>,
    ) -> Result<bool, StoreError> {
        self.write(move |conn| {
            let same = integrators::id.eq(DbId::from(id));
            let scope = integrators::postback_scope.eq(scope.map(PostbackScope::as_str));
            Ok(update(integrators::table, scope, same).execute(conn).of("integrators")? > 0)
        })
        .await
    }

    async fn set_split_postback(
        &self,
        id: IntegratorId,
        url: Option<PostbackUrl>,
    ) -> Result<bool, StoreError> {
        self.write(move |conn| {
            let same = integrators::id.eq(DbId::from(id));
            let url = integrators::split_postback.eq(url.as_ref().map(PostbackUrl::as_str));
            Ok(update(integrators::table, url, same).execute(conn).of("integrators")? > 0)
        })
        .await
    }
}

#[async_trait]
impl ApiKeyStore for SqliteStore {
    async fn create(&self, key: ApiKey) -> Result<(), StoreError> {
        self.write(move |conn| {
            let owner = DbId::from(key.integrator_id);
            require_integrator(conn, owner)?;
            let of_owner = api_keys::table.filter(api_keys::integrator_id.eq(owner));
            let newest: Option<i64> =
                of_owner.select(max(api_keys::number)).get_result(conn).of("api_keys")?;
            let row = ApiKeyRow::new(key, newest.unwrap_or(0).saturating_add(1));
            let kept = diesel::insert_into(api_keys::table).values(&row).execute(conn).of("api_keys");
            kept.map_err(|error| taken(error, "the key's public id is taken"))?;
            Ok(())
        })
        .await
    }

    async fn find(&self, public_id: &str) -> Result<Option<ApiKey>, StoreError> {
        let public_id = public_id.to_owned();
        self.read(move |conn| {
            let found = api_keys::table.find(public_id.as_str()).select(ApiKeyRow::as_select());
            found.get_result(conn).optional().of("api_keys")?.map(ApiKey::try_from).transpose()
        })
        .await
    }

    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<ApiKey>, StoreError> {
        let owner = DbId::from(integrator_id);
        self.read(move |conn| {
            let rows: Vec<ApiKeyRow> = api_keys::table
                .filter(api_keys::integrator_id.eq(owner))
                .order((api_keys::created_at.asc(), api_keys::number.asc()))
                .select(ApiKeyRow::as_select())
                .load(conn)
                .of("api_keys")?;
            rows.into_iter().map(ApiKey::try_from).collect()
        })
        .await
    }

    async fn revoke(&self, public_id: &str, at: Timestamp) -> Result<bool, StoreError> {
        let public_id = public_id.to_owned();
        self.write(move |conn| {
            let same = api_keys::public_id.eq(public_id.as_str());
            let live = same.and(api_keys::revoked_at.is_null());
            let revoked =
                update(api_keys::table, api_keys::revoked_at.eq(Some(DbTime(at))), live).execute(conn);
            if revoked.of("api_keys")? > 0 {
                return Ok(true);
            }
            Ok(diesel::select(exists(api_keys::table.filter(same))).get_result(conn).of("api_keys")?)
        })
        .await
    }

    async fn change(&self, public_id: &str, change: KeyChange) -> Result<bool, StoreError> {
        let public_id = public_id.to_owned();
        self.write(move |conn| {
            let same = api_keys::table.find(public_id.as_str());
            if change.is_nothing() {
                return Ok(diesel::select(exists(same)).get_result(conn).of("api_keys")?);
            }
            let changed = diesel::update(same).set(KeyChangeRow::from(change)).execute(conn);
            Ok(changed.of("api_keys")? > 0)
        })
        .await
    }

    async fn replace_secrets(
        &self,
        public_id: &str,
        from: KeySecrets,
        to: KeySecrets,
    ) -> Result<bool, StoreError> {
        let public_id = public_id.to_owned();
        self.write(move |conn| {
            // No number is given twice, so these tell which secrets there are.
            let same = (api_keys::public_id.eq(public_id.as_str()))
                .and(api_keys::revoked_at.is_null())
                .and(api_keys::secret_number.eq(i64::from(from.older.number)))
                .and(api_keys::secrets_made.eq(i64::from(from.made)))
                .and(api_keys::second_secret_hash.is_null().eq(from.newer.is_none()));
            let changed = update(api_keys::table, KeySecretsRow::from(to), same).execute(conn);
            Ok(changed.of("api_keys")? > 0)
        })
        .await
    }

    async fn mark_used(&self, public_id: &str, at: Timestamp) -> Result<(), StoreError> {
        let public_id = public_id.to_owned();
        self.write(move |conn| {
            let at = DbTime(at);
            let earlier = api_keys::last_used_at.is_null().or(api_keys::last_used_at.lt(at));
            let same = api_keys::public_id.eq(public_id.as_str()).and(earlier);
            let marked = update(api_keys::table, api_keys::last_used_at.eq(Some(at)), same).execute(conn);
            marked.of("api_keys")?;
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl FeeStore for SqliteStore {
    async fn current(&self, integrator_id: IntegratorId) -> Result<FeeSchedule, StoreError> {
        let owner = DbId::from(integrator_id);
        self.read(move |conn| {
            let newest = fee_schedules::table
                .filter(fee_schedules::integrator_id.eq(owner))
                .order(fee_schedules::version.desc())
                .select(FeeScheduleRow::as_select())
                .get_result(conn)
                .optional()
                .of("fee_schedules")?;
            newest.map_or_else(|| Ok(FeeSchedule::free()), FeeSchedule::try_from)
        })
        .await
    }

    async fn version(
        &self,
        integrator_id: IntegratorId,
        version: u32,
    ) -> Result<Option<FeeSchedule>, StoreError> {
        if version == FeeSchedule::free().version {
            return Ok(Some(FeeSchedule::free()));
        }
        let key = (DbId::from(integrator_id), i64::from(version));
        self.read(move |conn| {
            let found = fee_schedules::table.find(key).select(FeeScheduleRow::as_select());
            found.get_result(conn).optional().of("fee_schedules")?.map(FeeSchedule::try_from).transpose()
        })
        .await
    }

    async fn set(
        &self,
        integrator_id: IntegratorId,
        schedule: FeeSchedule,
        at: Timestamp,
    ) -> Result<u32, StoreError> {
        let owner = DbId::from(integrator_id);
        self.write(move |conn| {
            require_integrator(conn, owner)?;
            let of_owner = fee_schedules::table.filter(fee_schedules::integrator_id.eq(owner));
            let newest: Option<i64> =
                of_owner.select(max(fee_schedules::version)).get_result(conn).of("fee_schedules")?;
            let version = newest.unwrap_or(0).saturating_add(1);
            let row = FeeScheduleRow::new(owner, version, &schedule, at);
            diesel::insert_into(fee_schedules::table).values(&row).execute(conn).of("fee_schedules")?;
            Ok(codec::number("fee_schedules.version", version)?)
        })
        .await
    }
}
