//! Integrators, their keys and their fees.
//!
//! These writes are rare and made by an operator. What takes more than one statement is one transaction; numbers are given
//! out under a lock on the integrator's row, which nothing else waits for.

use async_trait::async_trait;
use diesel::dsl::{exists, max};
use diesel::prelude::{BoolExpressionMethods, ExpressionMethods, QueryDsl, SelectableHelper};
use diesel::result::Error as DieselError;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::credentials::{ApiKey, Integrator, IntegratorStatus, KeyChange, KeySecrets};
use pix_domain::error::StoreError;
use pix_domain::fees::{FeeSchedule, FeeStore};
use pix_domain::ids::IntegratorId;
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::text::PostbackUrl;
use pix_domain::time::Timestamp;

use super::PgStore;
use super::ask::Ask;
use super::error::{DbError, Of};
use super::types::can_be_kept;
use crate::codec::{self, DbId, DbTime};
use crate::rows::{
    ApiKeyRow, FeeScheduleRow, IntegratorRow, KeyChangeRow, KeySecretsRow, WalletRow, status_name,
};
use crate::schema::{api_keys, fee_schedules, integrators, wallets};

/// Why a write was given up.
pub(super) struct GivenUp(pub(super) StoreError);

impl From<StoreError> for GivenUp {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

impl From<DbError> for GivenUp {
    fn from(error: DbError) -> Self {
        Self(error.of_write())
    }
}

/// Of the beginning or the end of the transaction.
impl From<DieselError> for GivenUp {
    fn from(error: DieselError) -> Self {
        match Err::<(), _>(error).of("transaction") {
            Err(error) => error.into(),
            Ok(()) => Self(StoreError::Unknown("a transaction ended in no way".to_owned())),
        }
    }
}

fn rejected(why: &str) -> StoreError {
    StoreError::Rejected(why.to_owned())
}

/// `why` for the taken key `constraint`; every other error as it is.
fn taken(error: DbError, constraint: &str, why: &str) -> StoreError {
    match error {
        DbError::Taken(name) if name == constraint => rejected(why),
        other => other.of_write(),
    }
}

/// Holds back everybody else who numbers something of this integrator, until the transaction ends.
pub(super) async fn lock_integrator(conn: &mut AsyncPgConnection, owner: DbId) -> Result<(), GivenUp> {
    let row = integrators::table.find(owner).select(integrators::id).for_no_key_update();
    let locked: Option<DbId> = row.limit(1).found(conn).await.of("integrators")?;
    locked.map(|_| ()).ok_or_else(|| rejected("no such integrator").into())
}

#[async_trait]
impl IntegratorStore for PgStore {
    async fn create(&self, integrator: Integrator) -> Result<(), StoreError> {
        let mut conn = self.writes().await?;
        let row = IntegratorRow::from(integrator);
        let mut transaction = conn.build_transaction().read_committed();
        let done = transaction.run::<_, GivenUp, _>(async move |conn| {
            let kept = diesel::insert_into(integrators::table).values(&row).execute(conn).await;
            kept.of("integrators")
                .map_err(|error| taken(error, "integrators_pkey", "the integrator's id is taken"))?;
            let wallet = WalletRow::empty(row.id);
            diesel::insert_into(wallets::table).values(&wallet).execute(conn).await.of("wallets")?;
            Ok(())
        });
        done.await.map_err(|GivenUp(error)| error)
    }

    async fn find(&self, id: IntegratorId) -> Result<Option<Integrator>, StoreError> {
        let mut conn = self.reads().await?;
        let row = integrators::table.find(DbId::from(id)).select(IntegratorRow::as_select());
        let found = row.limit(1).found(&mut conn).await.of("integrators")?;
        found.map(Integrator::try_from).transpose()
    }

    async fn list(&self) -> Result<Vec<Integrator>, StoreError> {
        let mut conn = self.reads().await?;
        let all = integrators::table.order(integrators::id.asc()).select(IntegratorRow::as_select());
        let rows: Vec<IntegratorRow> = all.rows(&mut conn).await.of("integrators")?;
        rows.into_iter().map(Integrator::try_from).collect()
    }

    async fn set_status(&self, id: IntegratorId, status: IntegratorStatus) -> Result<bool, StoreError> {
        let mut conn = self.writes().await?;
        let changed = diesel::update(integrators::table.find(DbId::from(id)))
            .set(integrators::status.eq(status_name(status)))
            .execute(&mut conn)
            .await;
        Ok(changed.of("integrators").map_err(DbError::of_write)? > 0)
    }

    async fn set_postback_scope(
        &self,
        id: IntegratorId,
        scope: Option<PostbackScope>,
    ) -> Result<bool, StoreError> {
        let mut conn = self.writes().await?;
        let changed = diesel::update(integrators::table.find(DbId::from(id)))
            .set(integrators::postback_scope.eq(scope.map(PostbackScope::as_str)))
            .execute(&mut conn)
            .await;
        Ok(changed.of("integrators").map_err(DbError::of_write)? > 0)
    }

    async fn set_split_postback(
        &self,
        id: IntegratorId,
        url: Option<PostbackUrl>,
    ) -> Result<bool, StoreError> {
        let mut conn = self.writes().await?;
        let changed = diesel::update(integrators::table.find(DbId::from(id)))
            .set(integrators::split_postback.eq(url.as_ref().map(PostbackUrl::as_str)))
            .execute(&mut conn)
            .await;
        Ok(changed.of("integrators").map_err(DbError::of_write)? > 0)
    }
}

#[async_trait]
impl ApiKeyStore for PgStore {
    async fn create(&self, key: ApiKey) -> Result<(), StoreError> {
        let mut conn = self.writes().await?;
        let mut transaction = conn.build_transaction().read_committed();
        let done = transaction.run::<_, GivenUp, _>(async move |conn| {
            let owner = DbId::from(key.integrator_id);
            lock_integrator(conn, owner).await?;
            let of_owner = api_keys::table.filter(api_keys::integrator_id.eq(owner));
            let newest: Option<i64> =
                of_owner.select(max(api_keys::number)).limit(1).row(conn).await.of("api_keys")?;
            let row = ApiKeyRow::new(key, newest.unwrap_or(0).saturating_add(1));
            let kept = diesel::insert_into(api_keys::table).values(&row).execute(conn).await;
            kept.of("api_keys")
                .map_err(|error| taken(error, "api_keys_pkey", "the key's public id is taken"))?;
            Ok(())
        });
        done.await.map_err(|GivenUp(error)| error)
    }

    async fn find(&self, public_id: &str) -> Result<Option<ApiKey>, StoreError> {
        if !can_be_kept(public_id) {
            return Ok(None);
        }
        let mut conn = self.reads().await?;
        let row = api_keys::table.find(public_id).select(ApiKeyRow::as_select());
        row.limit(1).found(&mut conn).await.of("api_keys")?.map(ApiKey::try_from).transpose()
    }

    async fn list(&self, integrator_id: IntegratorId) -> Result<Vec<ApiKey>, StoreError> {
        let mut conn = self.reads().await?;
        let rows: Vec<ApiKeyRow> = api_keys::table
            .filter(api_keys::integrator_id.eq(DbId::from(integrator_id)))
            .order((api_keys::created_at.asc(), api_keys::number.asc()))
            .select(ApiKeyRow::as_select())
            .rows(&mut conn)
            .await
            .of("api_keys")?;
        rows.into_iter().map(ApiKey::try_from).collect()
    }

    async fn revoke(&self, public_id: &str, at: Timestamp) -> Result<bool, StoreError> {
        if !can_be_kept(public_id) {
            return Ok(false);
        }
        let mut conn = self.writes().await?;
        let same = api_keys::public_id.eq(public_id);
        let revoked = diesel::update(api_keys::table.filter(same.and(api_keys::revoked_at.is_null())))
            .set(api_keys::revoked_at.eq(Some(DbTime(at))))
            .execute(&mut conn)
            .await;
        if revoked.of("api_keys").map_err(DbError::of_write)? > 0 {
            return Ok(true);
        }
        let known = diesel::select(exists(api_keys::table.filter(same)));
        Ok(known.row(&mut conn).await.of("api_keys")?)
    }

    async fn change(&self, public_id: &str, change: KeyChange) -> Result<bool, StoreError> {
        if !can_be_kept(public_id) {
            return Ok(false);
        }
        let mut conn = self.writes().await?;
        let same = api_keys::table.find(public_id);
        if change.is_nothing() {
            return Ok(diesel::select(exists(same)).row(&mut conn).await.of("api_keys")?);
        }
        let changed = diesel::update(same).set(KeyChangeRow::from(change)).execute(&mut conn).await;
        Ok(changed.of("api_keys").map_err(DbError::of_write)? > 0)
    }

    async fn replace_secrets(
        &self,
        public_id: &str,
        from: KeySecrets,
        to: KeySecrets,
    ) -> Result<bool, StoreError> {
        if !can_be_kept(public_id) {
            return Ok(false);
        }
        let mut conn = self.writes().await?;
        // No number is given twice, so these tell which secrets there are.
        let same = (api_keys::public_id.eq(public_id))
            .and(api_keys::revoked_at.is_null())
            .and(api_keys::secret_number.eq(i64::from(from.older.number)))
            .and(api_keys::secrets_made.eq(i64::from(from.made)))
            .and(api_keys::second_secret_hash.is_null().eq(from.newer.is_none()));
        let changed = diesel::update(api_keys::table.filter(same))
            .set(KeySecretsRow::from(to))
            .execute(&mut conn)
            .await;
        Ok(changed.of("api_keys").map_err(DbError::of_write)? > 0)
    }

    async fn mark_used(&self, public_id: &str, at: Timestamp) -> Result<(), StoreError> {
        if !can_be_kept(public_id) {
            return Ok(());
        }
        let mut conn = self.writes().await?;
        let at = DbTime(at);
        let earlier = api_keys::last_used_at.is_null().or(api_keys::last_used_at.lt(at));
        let same = api_keys::public_id.eq(public_id).and(earlier);
        let marked = diesel::update(api_keys::table.filter(same))
            .set(api_keys::last_used_at.eq(Some(at)))
            .execute(&mut conn)
            .await;
        marked.of("api_keys").map_err(DbError::of_write)?;
        Ok(())
    }
}

#[async_trait]
impl FeeStore for PgStore {
    async fn current(&self, integrator_id: IntegratorId) -> Result<FeeSchedule, StoreError> {
        let mut conn = self.reads().await?;
        let newest: Option<FeeScheduleRow> = fee_schedules::table
            .filter(fee_schedules::integrator_id.eq(DbId::from(integrator_id)))
            .order(fee_schedules::version.desc())
            .select(FeeScheduleRow::as_select())
            .limit(1)
            .found(&mut conn)
            .await
            .of("fee_schedules")?;
        newest.map_or_else(|| Ok(FeeSchedule::free()), FeeSchedule::try_from)
    }

    async fn version(
        &self,
        integrator_id: IntegratorId,
        version: u32,
    ) -> Result<Option<FeeSchedule>, StoreError> {
        if version == FeeSchedule::free().version {
            return Ok(Some(FeeSchedule::free()));
        }
        let mut conn = self.reads().await?;
        let key = (DbId::from(integrator_id), i64::from(version));
        let row = fee_schedules::table.find(key).select(FeeScheduleRow::as_select());
        let found = row.limit(1).found(&mut conn).await.of("fee_schedules")?;
        found.map(FeeSchedule::try_from).transpose()
    }

    async fn set(
        &self,
        integrator_id: IntegratorId,
        schedule: FeeSchedule,
        at: Timestamp,
    ) -> Result<u32, StoreError> {
        let mut conn = self.writes().await?;
        let owner = DbId::from(integrator_id);
        let mut transaction = conn.build_transaction().read_committed();
        let done = transaction.run::<_, GivenUp, _>(async move |conn| {
            lock_integrator(conn, owner).await?;
            let of_owner = fee_schedules::table.filter(fee_schedules::integrator_id.eq(owner));
            let newest: Option<i64> =
                of_owner.select(max(fee_schedules::version)).limit(1).row(conn).await.of("fee_schedules")?;
            let version = newest.unwrap_or(0).saturating_add(1);
            let row = FeeScheduleRow::new(owner, version, &schedule, at);
            let kept = diesel::insert_into(fee_schedules::table).values(&row).execute(conn).await;
            kept.of("fee_schedules")?;
            Ok(codec::number("fee_schedules.version", version)?)
        });
        done.await.map_err(|GivenUp(error)| error)
    }
}
