//! The pools of connections, and what every connection is told.
//!
//! Three pools, so that none starves another: *money* for transitions and settings, *reads*, and *workers* for the list
//! of what is due. No connection is held while anything but the database is waited for.
//!
//! Connections are made, and driven, on the runtime that opened the store, whichever runtime asks for them.

use std::fmt;
use std::time::Duration;

use deadpool::Runtime;
use diesel::result::ConnectionError;
use diesel_async::pooled_connection::deadpool::{Object, Pool, PoolError};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use pix_domain::error::StoreError;
use tokio::runtime::Handle;
use tokio_postgres::{Config, NoTls};

/// A connection out of a pool.
pub type Conn = Object<AsyncPgConnection>;

/// How long an idle connection may be silent before the kernel asks whether the other end is there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// What a pool is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Transitions and settings.
    Money,
    /// Reads.
    Reads,
    /// The list of what is due.
    Workers,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Money => "money",
            Self::Reads => "reads",
            Self::Workers => "workers",
        }
    }

    /// What a connection for this is told before its first use.
    ///
    /// Every statement of the money pool finds its rows by key, so its plan is one: nested loops over indexes, made once
    /// and never by what the tables' statistics say today.
    fn settings(self, statement_timeout: Duration) -> String {
        let timeout = statement_timeout.as_millis();
        let common = format!(
            "SET statement_timeout = {timeout}; SET lock_timeout = {timeout}; \
             SET idle_in_transaction_session_timeout = {timeout}; SET jit = off; \
             SET default_transaction_isolation = 'read committed'; SET application_name = 'pix-gateway {}'",
            self.as_str()
        );
        match self {
            Self::Money => format!(
                "{common}; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
                 SET enable_hashjoin = off; SET enable_mergejoin = off"
            ),
            Self::Reads | Self::Workers => common,
        }
    }
}

/// One pool.
#[derive(Clone)]
pub struct Connections {
    purpose: Purpose,
    pool: Pool<AsyncPgConnection>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("purpose", &self.purpose)
            .field("pool", &self.pool.status())
            .finish()
    }
}

/// How a pool is made.
#[derive(Debug, Clone, Copy)]
pub struct PoolSettings {
    /// At most so many connections.
    pub size: usize,
    /// How long a caller waits for one.
    pub acquire_timeout: Duration,
    /// How long the server may work on one statement.
    pub statement_timeout: Duration,
}

impl Connections {
    /// A pool of connections made by `config`. None is made before it is needed.
    pub fn new(
        purpose: Purpose,
        mut config: Config,
        settings: PoolSettings,
        runtime: Handle,
    ) -> Result<Self, String> {
        config.keepalives(true).keepalives_idle(KEEPALIVE_IDLE);
        // The kernel gives up on what the other end doesn't acknowledge.
        config.tcp_user_timeout(settings.statement_timeout.saturating_mul(2));
        let told = purpose.settings(settings.statement_timeout);
        let mut manager = ManagerConfig::<AsyncPgConnection>::default();
        manager.recycling_method = RecyclingMethod::Fast;
        manager.custom_setup = Box::new(move |_url| {
            let (config, told, runtime) = (config.clone(), told.clone(), runtime.clone());
            Box::pin(async move {
                let made = runtime.spawn(connect(config, told)).await;
                made.map_err(|error| ConnectionError::BadConnection(error.to_string())).flatten()
            })
        });
        let pool = Pool::builder(AsyncDieselConnectionManager::new_with_config("", manager))
            .max_size(settings.size.max(1))
            .wait_timeout(Some(settings.acquire_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { purpose, pool })
    }

    /// A connection.
    pub async fn get(&self) -> Result<Conn, StoreError> {
        self.pool.get().await.map_err(|error| {
            StoreError::Unavailable(match error {
                PoolError::Timeout(_) => format!("all connections for {} are busy", self.purpose.as_str()),
                other => other.to_string(),
            })
        })
    }

    /// Closes every connection that is not in use: they lead to a server that is no longer the right one.
    pub fn forget(&self) {
        self.pool.retain(|_, _| false);
    }
}

async fn connect(config: Config, told: String) -> Result<AsyncPgConnection, ConnectionError> {
    let (client, connection) =
        config.connect(NoTls).await.map_err(|error| ConnectionError::BadConnection(describe(&error)))?;
    let mut conn = AsyncPgConnection::try_from_client_and_connection(client, connection).await?;
    conn.batch_execute(&told).await.map_err(ConnectionError::CouldntSetupConfiguration)?;
    Ok(conn)
}

/// The error with its causes; without values, which only a server's details have.
pub fn describe(error: &tokio_postgres::Error) -> String {
    let mut text = match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    };
    let mut cause = std::error::Error::source(error).filter(|_| error.as_db_error().is_none());
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
