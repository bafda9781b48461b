//! The pool that reads.
//!
//! A read is a task of its own on the runtime that opened the store, so that a caller who goes away never stops a query in
//! the middle: the wrapper around the connection would block its thread until the query ends, or panic on a runtime of one
//! thread (`diesel_async` issue 281).

use std::fmt;
use std::sync::Arc;

use deadpool::Runtime;
use diesel::result::ConnectionError;
use diesel::sqlite::SqliteConnection;
use diesel_async::pooled_connection::deadpool::{Pool, PoolError};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use pix_domain::error::StoreError;
use tokio::runtime::Handle;

use super::writer::Health;
use super::{SqliteOptions, connection};
use crate::vitals::PoolUse;

type ReadConnection = SyncConnectionWrapper<SqliteConnection>;

/// The pool, and where its work is run.
pub struct Reader {
    pool: Pool<ReadConnection>,
    runtime: Handle,
    health: Arc<Health>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("pool", &self.pool.status()).finish_non_exhaustive()
    }
}

impl Reader {
    /// A pool over the file at `url`. No connection is made before it is needed.
    pub fn new(
        url: String,
        options: &SqliteOptions,
        runtime: Handle,
        health: Arc<Health>,
    ) -> Result<Self, String> {
        let mut config = ManagerConfig::<ReadConnection>::default();
        config.recycling_method = RecyclingMethod::Fast;
        config.custom_setup = Box::new(|url| {
            let url = url.to_owned();
            Box::pin(async move {
                let made = tokio::task::spawn_blocking(move || connection::reader(&url)).await;
                made.map_err(|error| error.to_string())
                    .flatten()
                    .map(SyncConnectionWrapper::new)
                    .map_err(ConnectionError::BadConnection)
            })
        });
        let pool = Pool::builder(AsyncDieselConnectionManager::new_with_config(url, config))
            .max_size(options.readers.max(1))
            .wait_timeout(Some(options.acquire_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { pool, runtime, health })
    }

    /// How the pool is used.
    pub fn pool_use(&self) -> PoolUse {
        PoolUse::of("reads", &self.pool.status())
    }

    /// Runs `work` on a connection of the pool.
    pub async fn read<T>(
        &self,
        work: impl FnOnce(&mut SqliteConnection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
    {
        self.health.check()?;
        let pool = self.pool.clone();
        let task = self.runtime.spawn(async move {
            let mut conn = pool.get().await.map_err(|error| no_connection(&error))?;
            let done = conn.spawn_blocking(move |conn| Ok(work(conn))).await;
            done.unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
        });
        task.await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("a read did not end: {error}"))))
    }
}

fn no_connection(error: &PoolError) -> StoreError {
    StoreError::Unavailable(match error {
        PoolError::Timeout(_) => "all connections that read are busy".to_owned(),
        other => other.to_string(),
    })
}
