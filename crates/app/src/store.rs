//! The store as a bundle of ports, whichever database keeps it: nothing else in the program knows which one it is.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use pix_domain::audit::BookStore;
use pix_domain::audit_log::AuditLogStore;
use pix_domain::callbacks::CallbackStore;
use pix_domain::charges::store::ChargeStore;
use pix_domain::credentials::store::{ApiKeyStore, IntegratorStore};
use pix_domain::error::StoreError;
use pix_domain::evidence::EvidenceStore;
use pix_domain::fees::FeeStore;
use pix_domain::follow_up::{FollowUpStore, LookupStore};
use pix_domain::ids::ResourceRef;
use pix_domain::limits::LimitStore;
use pix_domain::people::PersonStore;
use pix_domain::ports::Stores;
use pix_domain::postbacks::delivery::DeliveryStore;
use pix_domain::postbacks::events::EventStore;
use pix_domain::postbacks::relay::PostbackStores;
use pix_domain::postbacks::secrets::PostbackSecretStore;
use pix_domain::refunds::store::RefundStore;
use pix_domain::seals::store::SealStore;
use pix_domain::splits::store::SplitStore;
use pix_domain::time::{Clock, Timestamp};
use pix_domain::transition::TransitionStore;
use pix_domain::wallet::store::WalletStore;
use pix_domain::withdrawals::store::WithdrawalStore;
use pix_persistence::postgres::{PgOptions, PgStore};
use pix_persistence::sqlite::{OpenError, SqliteOptions, SqliteStore};
use pix_persistence::{PoolUse, Vitals};
use secrecy::ExposeSecret;

use crate::cache::{CachedFees, CachedIntegrators, CachedKeys, CachedLimits, CachedPostbackSecrets};
use crate::config::{Config, Database};
use crate::system::SystemClock;

/// What holds of the whole deployment, by name.
#[async_trait]
pub trait FactStore: Send + Sync {
    /// The fact with that name, if it was ever kept.
    async fn fact(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Keeps a fact in place of the one with the same name.
    async fn keep_fact(&self, name: &str, value: String) -> Result<(), StoreError>;

    /// Keeps a fact unless there is one with that name; the one that there is then, which of several at once is the same.
    async fn settle_fact(&self, name: &str, value: String) -> Result<String, StoreError>;

    /// Keeps a fact in place of `from`, `None` for no fact; `false`, with nothing changed, when it isn't that any more.
    async fn swap_fact(&self, name: &str, from: Option<String>, to: String) -> Result<bool, StoreError>;
}

#[async_trait]
impl FactStore for SqliteStore {
    async fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        Self::fact(self, name).await
    }

    async fn keep_fact(&self, name: &str, value: String) -> Result<(), StoreError> {
        Self::keep_fact(self, name, value).await
    }

    async fn settle_fact(&self, name: &str, value: String) -> Result<String, StoreError> {
        Self::settle_fact(self, name, value).await
    }

    async fn swap_fact(&self, name: &str, from: Option<String>, to: String) -> Result<bool, StoreError> {
        Self::swap_fact(self, name, from, to).await
    }
}

#[async_trait]
impl FactStore for PgStore {
    async fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        Self::fact(self, name).await
    }

    async fn keep_fact(&self, name: &str, value: String) -> Result<(), StoreError> {
        Self::keep_fact(self, name, value).await
    }

    async fn settle_fact(&self, name: &str, value: String) -> Result<String, StoreError> {
        Self::settle_fact(self, name, value).await
    }

    async fn swap_fact(&self, name: &str, from: Option<String>, to: String) -> Result<bool, StoreError> {
        Self::swap_fact(self, name, from, to).await
    }
}

/// How the store itself is, for operators.
#[async_trait]
pub trait VitalStore: Send + Sync {
    /// Sums, and what is overdue at `now`.
    async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError>;

    /// Withdrawals and refunds whose outcome nobody knows, those that were sent first before the others, at most `limit`.
    async fn uncertain(&self, limit: u32) -> Result<Vec<ResourceRef>, StoreError>;

    /// Whether it takes writes; nothing is written.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// The time of the database's own machine; `None` when that is this one.
    async fn clock(&self) -> Result<Option<Timestamp>, StoreError>;

    /// How many connections the database gives to all nodes together; `None` when it needs none.
    async fn room(&self) -> Result<Option<u64>, StoreError>;

    /// The indexes that the database has and does not use; `None` when it has no such.
    async fn unusable_indexes(&self) -> Result<Option<Vec<String>>, StoreError>;

    /// How connections are used.
    fn pools(&self) -> Vec<PoolUse>;

    /// The newest migration the database had when it was opened.
    fn schema_version(&self) -> &str;
}

#[async_trait]
impl VitalStore for SqliteStore {
    async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        Self::vitals(self, now).await
    }

    async fn uncertain(&self, limit: u32) -> Result<Vec<ResourceRef>, StoreError> {
        Self::uncertain(self, limit).await
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        Self::check_writable(self).await
    }

    async fn clock(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn room(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn unusable_indexes(&self) -> Result<Option<Vec<String>>, StoreError> {
        Ok(None)
    }

    fn pools(&self) -> Vec<PoolUse> {
        Self::pools(self)
    }

    fn schema_version(&self) -> &str {
        Self::schema_version(self)
    }
}

#[async_trait]
impl VitalStore for PgStore {
    async fn vitals(&self, now: Timestamp) -> Result<Vitals, StoreError> {
        Self::vitals(self, now).await
    }

    async fn uncertain(&self, limit: u32) -> Result<Vec<ResourceRef>, StoreError> {
        Self::uncertain(self, limit).await
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        Self::check_writable(self).await
    }

    async fn clock(&self) -> Result<Option<Timestamp>, StoreError> {
        Self::clock(self).await.map(Some)
    }

    async fn room(&self) -> Result<Option<u64>, StoreError> {
        Self::room(self).await.map(Some)
    }

    async fn unusable_indexes(&self) -> Result<Option<Vec<String>>, StoreError> {
        Self::unusable_indexes(self).await.map(Some)
    }

    fn pools(&self) -> Vec<PoolUse> {
        Self::pools(self)
    }

    fn schema_version(&self) -> &str {
        Self::schema_version(self)
    }
}

/// Everything that is kept.
#[derive(Clone)]
pub struct Store {
    /// Records, wallets and fees.
    pub records: Stores,
    /// Events and deliveries.
    pub postbacks: PostbackStores,
    /// Integrators.
    pub integrators: Arc<dyn IntegratorStore>,
    /// API keys.
    pub keys: Arc<dyn ApiKeyStore>,
    /// The books, for audits.
    pub books: Arc<dyn BookStore>,
    /// Seals of them.
    pub seals: Arc<dyn SealStore>,
    /// Persons, and the keys that their data is under.
    pub people: Arc<dyn PersonStore>,
    /// What holds of the whole deployment.
    pub facts: Arc<dyn FactStore>,
    /// How the store itself is.
    pub vitals: Arc<dyn VitalStore>,
}

impl Store {
    /// One store that is all of them.
    pub fn of<S>(store: S) -> Self
    where
        S: TransitionStore
            + ChargeStore
            + WithdrawalStore
            + RefundStore
            + WalletStore
            + FeeStore
            + LimitStore
            + SplitStore
            + FollowUpStore
            + LookupStore
            + EvidenceStore
            + CallbackStore
            + AuditLogStore
            + EventStore
            + DeliveryStore
            + PostbackSecretStore
            + IntegratorStore
            + ApiKeyStore
            + BookStore
            + SealStore
            + PersonStore
            + FactStore
            + VitalStore
            + 'static,
    {
        let store = Arc::new(store);
        Self {
            records: Stores::of(store.clone()),
            postbacks: PostbackStores::of(store.clone()),
            integrators: store.clone(),
            keys: store.clone(),
            books: store.clone(),
            seals: store.clone(),
            people: store.clone(),
            facts: store.clone(),
            vitals: store,
        }
    }

    /// The same store, with keys, integrators, fees, limits and the numbers of postback secrets remembered for `ttl`; as it is when
    /// that is zero.
    #[must_use]
    pub fn cached(mut self, ttl: Duration) -> Self {
        if ttl.is_zero() {
            return self;
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        self.integrators = Arc::new(CachedIntegrators::new(self.integrators, ttl, clock.clone()));
        self.keys = Arc::new(CachedKeys::new(self.keys, ttl, clock.clone()));
        self.records.fees = Arc::new(CachedFees::new(self.records.fees, ttl, clock.clone()));
        self.records.limits = Arc::new(CachedLimits::new(self.records.limits, ttl, clock.clone()));
        self.postbacks.secrets = Arc::new(CachedPostbackSecrets::new(self.postbacks.secrets, ttl, clock));
        self
    }

    /// Opens the store, its schema brought up to date first if the configuration lets that be done.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        match &config.database {
            Database::Sqlite { path, .. } => {
                make_default_folder(config)?;
                open_sqlite(path, config.migrate_on_start)
            }
            Database::Postgres { url } => {
                let options = PgOptions { migrate: config.migrate_on_start, ..config.postgres };
                Ok(Self::of(PgStore::open(url.expose_secret(), options).await?))
            }
        }
    }

    /// Opens a file that must be there and that no server is on; its schema is brought up to date first if the configuration
    /// lets that be done.
    pub async fn open_alone(config: &Config) -> anyhow::Result<Self> {
        match &config.database {
            Database::Sqlite { path, .. } if must_be_there(path)? => {
                open_sqlite(path, config.migrate_on_start)
            }
            _ => Self::open_existing(config).await,
        }
    }

    /// Opens a store that must be there, as it is: what only looks or changes must not make an empty one of a mistyped name,
    /// which an audit would find clean, nor change the schema under a server that runs.
    pub async fn open_existing(config: &Config) -> anyhow::Result<Self> {
        match &config.database {
            Database::Sqlite { path, .. } if must_be_there(path)? => open_sqlite(path, false),
            Database::Sqlite { path, .. } => bail!(
                "there is no database at {}: check DATABASE_URL, or run this in the folder where the gateway runs",
                path.display()
            ),
            Database::Postgres { url } => {
                let options = PgOptions { migrate: false, ..config.postgres };
                Ok(Self::of(PgStore::open(url.expose_secret(), options).await?))
            }
        }
    }
}

/// Whether a file is there; `None` when this user may not even look.
pub fn is_there(path: &Path) -> Option<bool> {
    path.try_exists().ok()
}

/// The same, where it is to be opened.
fn must_be_there(path: &Path) -> anyhow::Result<bool> {
    path.try_exists().with_context(|| {
        format!("{} can't be looked at: run this as the user that runs the gateway", path.display())
    })
}

fn open_sqlite(path: &Path, migrate: bool) -> anyhow::Result<Store> {
    match SqliteStore::open(path, SqliteOptions { migrate, ..SqliteOptions::default() }) {
        Ok(store) => Ok(Store::of(store)),
        Err(error @ (OpenError::Missing(_) | OpenError::Pending { .. })) => {
            Err(error).context(
                "run `pix-gateway migrate` first, with a backup at hand; `serve` does it by itself unless PIX_MIGRATE_ON_START is false, but of a copy that was put back in place `pix-gateway restore --mark` comes before `serve`",
            )
        }
        Err(error) => Err(error.into()),
    }
}

/// The names of the migrations that the store still needs. Changes nothing.
pub async fn pending_migrations(config: &Config) -> anyhow::Result<Vec<String>> {
    match &config.database {
        Database::Sqlite { path, .. } => Ok(SqliteStore::pending_migrations(path)?),
        Database::Postgres { url } => {
            Ok(PgStore::pending_migrations(url.expose_secret(), config.postgres.connect_timeout).await?)
        }
    }
}

/// Brings the schema up to date; the names of the migrations applied.
pub async fn migrate(config: &Config) -> anyhow::Result<Vec<String>> {
    match &config.database {
        Database::Sqlite { path, is_default } => {
            if *is_default {
                make_folder_of(path)?;
            }
            Ok(SqliteStore::migrate(path)?)
        }
        Database::Postgres { url } => {
            Ok(PgStore::migrate(url.expose_secret(), config.postgres.connect_timeout).await?)
        }
    }
}

/// Makes the folder of the default path, if `config` says that path, so that files can be made beside the database.
pub fn make_default_folder(config: &Config) -> anyhow::Result<()> {
    match &config.database {
        Database::Sqlite { path, is_default: true } if config.migrate_on_start => make_folder_of(path),
        _ => Ok(()),
    }
}

fn make_folder_of(path: &Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} can't be made", folder.display()))?;
    }
    Ok(())
}
