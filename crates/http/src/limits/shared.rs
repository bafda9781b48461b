//! Limits that all nodes keep together, in a store that speaks the protocol of Redis.
//!
//! A node asks its own buckets first, which costs nothing, and then the shared ones. What those let through the node's own
//! let through too, as they have seen a part of the same requests; so they decide only while the store doesn't answer,
//! and then they are up to date.
//!
//! The store is asked once a request, with a deadline. Some failures in a row, and nobody asks it until it answers again:
//! a task looks after that.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, Script};
use secrecy::ExposeSecret;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::names::Name;
use super::{Left, Policy, seconds_up};
use crate::config::{ConfigError, RateStore};

/// How many questions in a row may fail before the store is left alone.
const FAILURES_TO_LEAVE: u32 = 3;

/// How often a store that was left alone is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The longest wait for a connection to be made.
const CONNECT_DEADLINE: Duration = Duration::from_secs(1);

/// What the keys of ours begin with.
const PREFIX: &str = "pix:rate";

/// The buckets that the nodes share.
pub(crate) struct Shared {
    line: Arc<Line>,
    keeper: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Shared {
    /// Connects, and keeps connecting on `runtime` for as long as this is in use. A store that can't be reached is no error.
    pub(crate) async fn start(
        store: &RateStore,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Self, ConfigError> {
        let line = Arc::new(Line::new(store)?);
        describe_metrics();
        let first = line.clone();
        // On that runtime, since the task that drives a connection lives where the connection was made.
        let connected = runtime.spawn(async move { first.connect().await }).await;
        let connected = connected.unwrap_or(Err("the connecting task ended"));
        let keeper = runtime.spawn(keep(line.clone(), connected)).abort_handle();
        Ok(Self { line, keeper })
    }

    /// Takes a request from all of `buckets`, or from none if one is empty; what is left in each. `None` if the store
    /// doesn't say.
    pub(crate) async fn take(&self, buckets: &[(Policy, Name)]) -> Option<Vec<Left>> {
        let line = &self.line;
        let mut connection = line.connection.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        let mut call = line.script.prepare_invoke();
        for (policy, name) in buckets {
            let nanos = policy.period.as_nanos();
            call.key(format!("{PREFIX}:{}:{name}", policy.name));
            call.arg(format!("{}.{:03}", nanos / 1000, nanos % 1000)).arg(policy.quota);
        }
        let asked = tokio::time::timeout(line.deadline, call.invoke_async::<Vec<u64>>(&mut connection)).await;
        if let Ok(Ok(numbers)) = asked {
            line.failures.store(0, Ordering::Relaxed);
            return Some(numbers.chunks_exact(2).map(left).collect());
        }
        line.failed();
        None
    }
}

fn left(numbers: &[u64]) -> Left {
    match numbers {
        [remaining, 0] => Left::Some(u32::try_from(*remaining).unwrap_or(u32::MAX)),
        [_, wait_us] => Left::Nothing { wait_seconds: seconds_up(Duration::from_micros(*wait_us)) },
        _ => Left::Some(0),
    }
}

/// The connection, while there is one that works.
struct Line {
    client: Client,
    settings: AsyncConnectionConfig,
    deadline: Duration,
    script: Script,
    connection: RwLock<Option<MultiplexedConnection>>,
    failures: AtomicU32,
    left_alone: Notify,
}

impl Line {
    fn new(store: &RateStore) -> Result<Self, ConfigError> {
        let client =
            Client::open(store.url.expose_secret()).map_err(|_may_name_the_password| RateStore::REFUSED)?;
        Ok(Self {
            client,
            settings: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_DEADLINE))
                .set_response_timeout(Some(store.timeout)),
            deadline: store.timeout,
            script: Script::new(include_str!("take.lua")),
            connection: RwLock::new(None),
            failures: AtomicU32::new(0),
            left_alone: Notify::new(),
        })
    }

    /// Connects and sees that the store takes the script. The error is a kind alone: no text of the store's, which may
    /// hold anything.
    async fn connect(&self) -> Result<(), &'static str> {
        let made = async {
            let mut connection =
                self.client.get_multiplexed_async_connection_with_config(&self.settings).await?;
            self.script.load_async(&mut connection).await?;
            Ok::<_, RedisError>(connection)
        };
        let connection = match tokio::time::timeout(CONNECT_DEADLINE, made).await {
            Ok(made) => made.map_err(|error| kind(&error))?,
            Err(_elapsed) => return Err("it did not answer in time"),
        };
        self.failures.store(0, Ordering::Relaxed);
        self.put(Some(connection));
        Ok(())
    }

    fn put(&self, connection: Option<MultiplexedConnection>) {
        *self.connection.write().unwrap_or_else(PoisonError::into_inner) = connection;
    }

    fn failed(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 == FAILURES_TO_LEAVE {
            self.put(None);
            self.left_alone.notify_one();
        }
    }
}

/// What went wrong, in words of ours.
fn kind(error: &RedisError) -> &'static str {
    if error.is_timeout() {
        "it did not answer in time"
    } else if error.is_connection_refusal() {
        "nobody listens there"
    } else if error.kind() == redis::ErrorKind::AuthenticationFailed {
        "it refused the password"
    } else if error.is_io_error() {
        "the connection failed"
    } else {
        "it refused the connection or the script"
    }
}

/// Connects again whenever the store was left alone, and says so, once each way.
async fn keep(line: Arc<Line>, mut connected: Result<(), &'static str>) {
    // The address alone, without the password.
    let store = line.client.get_connection_info().addr().to_string();
    loop {
        if let Err(why) = connected {
            tell(false);
            tracing::warn!(
                store,
                why,
                "the store of shared rate limits can't be used: limits are this node's own"
            );
            loop {
                tokio::time::sleep(RETRY_INTERVAL).await;
                if line.connect().await.is_ok() {
                    break;
                }
            }
        }
        tell(true);
        tracing::info!(store, "rate limits are shared with the other nodes");
        line.left_alone.notified().await;
        connected = Err("it does not answer, or not in time");
    }
}

fn describe_metrics() {
    metrics::describe_gauge!("pix_rate_store_up", "Whether rate limits are shared with the other nodes.");
}

fn tell(up: bool) {
    metrics::gauge!("pix_rate_store_up").set(if up { 1.0 } else { 0.0 });
}
