//! A settlement provider to develop and test against. It speaks the classic v2 contract over HTTP, keeps accounts
//! and a durable log of what it executed, calls back, and obeys a control API. It owns its wire types and must
//! never know the gateway: what the two share is the contract.
//!
//! # Use
//!
//! `$SIM` is [`Simulator::base_url`]. Every call under `/v2` but the first needs `-H "Authorization: Bearer $TOKEN"`;
//! the token lives in memory, so after a restart the answer is 401 until a new one is asked for.
//!
//! ```sh
//! curl -u simulator:simulator-secret -X POST $SIM/v2/oauth/token
//! curl $SIM/v2/pix/qrcode  -d '{"amount": 15.5, "external_id": "order-1", "payer": {"name": "Maria", "document": "52998224725"},
//!                               "postbackUrl": "http://127.0.0.1:8080/callback", "expiration": 3000}'
//! curl $SIM/v2/pix/payment -d '{"amount": "10.00", "external_id": "payout-1",
//!                               "creditParty": {"name": "João", "keyType": "EMAIL", "key": "joao@example.com", "taxId": "52998224725"}}'
//! curl $SIM/v2/pix/refund  -d '{"pix_id": "<transactionId>", "amount": 5, "external_id": "refund-1"}'
//! curl $SIM/v2/consult-transaction -d '{"pix_id": "<transactionId or refundId>"}'
//! curl $SIM/v2/consult-transaction -d '{"external_id": "order-1", "transactionType": "RECEIVEPIX"}'
//! curl $SIM/v2/balance     -d '{}'
//! ```
//!
//! - A repeated `external_id` answers the first transaction in its present state and has no second effect; with
//!   another amount (or key, or charge) it is a 409. Charges, payments and refunds count apart. That a payment or refund
//!   was asked for again stands in the log.
//! - `consult-transaction` by `external_id` is an extension to the family's contract: it finds what became of a request
//!   whose answer was lost. When one reference names several kinds, `transactionType` (`RECEIVEPIX`, `PAYMENT`,
//!   `REFUND`) says which is meant; without it that is a 409. A finished refund is `COMPLETED` in the answer of
//!   `/v2/pix/refund` and `REFUNDED` here.
//! - Refused for good, with 406: a key with `reject` in it (`invalid_key`), more than the balance
//!   (`insufficient_funds`), a refund of what is not paid (`not_refundable`) or beyond what is left of it
//!   (`refund_exceeds_paid`). A refusal leaves no trace.
//! - A payment answers `PENDING`, and is `PAID` when next asked for; see `settle_automatically`.
//!
//! The control API asks for no credentials. An id there is the provider's or the client's.
//!
//! ```sh
//! curl -X POST $SIM/sim/charges/order-1/pay       # again for a second PIX; any amount, also late
//! curl $SIM/sim/charges/order-1/pay -d '{"amount": "9.90", "payer": {"name": "Ana", "document": "52998224725"}, "callback": false}'
//! curl -X POST $SIM/sim/charges/order-1/cancel
//! curl $SIM/sim/settings -d '{"settle_automatically": false, "unavailable": false, "callbacks": true}'
//! curl -X POST $SIM/sim/payments/payout-1/settle
//! curl $SIM/sim/payments/payout-1/reject -d '{"code": "account_closed", "message": "account closed"}'
//! curl $SIM/sim/payments/payout-1/return -d '{"amount": "2.50"}'    # without amount: all of it
//! curl -X POST $SIM/sim/refunds/refund-1/settle   # or reject
//! curl -X POST $SIM/sim/callbacks/resend/order-1
//! curl -X POST $SIM/sim/tokens/revoke             # every token is invalid now
//! curl $SIM/sim/scenarios -d '{"scenario": "executes_then_never_answers", "on": {"next": 1}, "operation": "payment"}'
//! curl $SIM/sim/scenarios                         # what is attached; `/sim/scenarios/catalogue` is all there is
//! curl -X DELETE $SIM/sim/scenarios               # all of it; one with its id behind
//! curl $SIM/sim/clock -d '{"advance_seconds": 3600}'
//! curl $SIM/sim/settings
//! curl $SIM/sim/state                             # the newest 1,000 of each kind, and the balance
//! curl $SIM/sim/log
//! ```
//!
//! # Scenarios
//!
//! [`SCENARIOS`] lists every way to misbehave; a [`ScenarioRule`] attaches one to a transaction, to the next calls or to
//! a share of them. In the same process [`Simulator`] has a method for each of these:
//!
//! ```no_run
//! use pix_simulator::{Operation, Scenario, ScenarioRule, Simulator, SimulatorConfig, Time};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let simulator = Simulator::start(SimulatorConfig { time: Time::Manual, ..SimulatorConfig::default() }).await?;
//! let held = ScenarioRule::next(Scenario::PrecautionaryHold, 1).of(Operation::Payment).seconds(3600.0);
//! simulator.attach(held)?;
//! // … the code under test sends a payment …
//! simulator.advance(std::time::Duration::from_hours(1));
//! # Ok(())
//! # }
//! ```
//!
//! # The log
//!
//! One JSON object a line ([`LogEntry`]), on disk before the answer goes out. The state is rebuilt from it on start;
//! a torn last line, whose effect nobody was told of, is cut off. [`read_log`] reads it for an audit, also while the
//! simulator runs. Settings, tokens and scenarios, and what
//! those had yet to do, are not in it.

mod brcode;
mod callbacks;
mod clock;
mod control;
mod desk;
mod falsify;
mod handle;
mod log;
mod misbehave;
mod money;
mod provider;
mod rules;
mod scenario;
mod state;
mod wire;

use std::{
    fmt, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use actix_web::{
    App, HttpServer, ResponseError,
    dev::ServerHandle,
    web::{self, Data, PayloadConfig},
};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
};

pub use crate::{
    callbacks::CallbackRetry,
    clock::Time,
    handle::ControlError,
    log::{LogEntry, LogEvent, LogParty, read_log},
    rules::{Attached, On, ScenarioRule},
    scenario::{
        AfterHold, IdField, Operation, ParameterInfo, Parameters, Part, SCENARIOS, Scenario, ScenarioInfo,
    },
    wire::{Settings, SettingsChange},
};
use crate::{
    clock::Timeline,
    desk::{Around, DeskHandle},
    misbehave::Connection,
    provider::Tokens,
    rules::Rules,
    wire::Refusal,
};

/// The largest body read.
const MAX_BODY: usize = 64 * 1_024;
/// How long a connection that nobody uses is kept: longer than a client that keeps it for some seconds. A server that
/// closes one just as the next request is sent makes its outcome unknown.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long requests may take to end on [`Simulator::stop`].
const SHUTDOWN_TIMEOUT_SECONDS: u64 = 5;

/// How a simulator is started.
#[derive(Clone)]
pub struct SimulatorConfig {
    /// Address to listen on; port 0 takes any free one. Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// File of the durable log; without one everything is forgotten on stop, which is the default.
    pub log_path: Option<PathBuf>,
    /// Client id that gets tokens. Default `simulator`.
    pub client_id: String,
    /// Its secret. Default `simulator-secret`.
    pub client_secret: String,
    /// How long a token is good. Default one hour.
    pub token_lifetime: Duration,
    /// The client's balance before anything in the log. Default R$ 100,000,000.00.
    pub opening_balance_cents: i64,
    /// A payment or refund that was accepted is executed at once (default); else it waits for the control API.
    pub settle_automatically: bool,
    /// How callbacks are tried. Their timeouts and waits are of the machine's time.
    pub callback_retry: CallbackRetry,
    /// How time passes for the bank and for scenarios; the lifetime of tokens is of the machine's time.
    pub time: Time,
}

impl Default for SimulatorConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            log_path: None,
            client_id: "simulator".to_owned(),
            client_secret: "simulator-secret".to_owned(),
            token_lifetime: Duration::from_hours(1),
            opening_balance_cents: 10_000_000_000,
            settle_automatically: true,
            callback_retry: CallbackRetry::default(),
            time: Time::Real,
        }
    }
}

impl fmt::Debug for SimulatorConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SimulatorConfig")
            .field("listen", &self.listen)
            .field("log_path", &self.log_path)
            .field("client_id", &self.client_id)
            .field("settle_automatically", &self.settle_automatically)
            .finish_non_exhaustive()
    }
}

/// Why a simulator does not start, or its log can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SimulatorError {
    /// The address can't be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The log can't be read or written.
    #[error("cannot use the log {}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another simulator writes this log.
    #[error("the log {} is used by another simulator", path.display())]
    LogInUse {
        /// The log.
        path: PathBuf,
    },
    /// A line that is not the last is damaged, out of order, or contradicts those before.
    #[error("line {line} of the log {} is damaged", path.display())]
    LogCorrupt {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// The client for callbacks can't be built.
    #[error("cannot make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// A thread can't be started, or ended by a panic.
    #[error("cannot run a thread")]
    Thread(#[source] io::Error),
}

impl SimulatorError {
    fn log(path: &Path, source: io::Error) -> Self {
        Self::Log { path: path.to_owned(), source }
    }

    fn corrupt(path: &Path, line: u64) -> Self {
        Self::LogCorrupt { path: path.to_owned(), line }
    }

    fn misfit(path: Option<&PathBuf>, line: u64) -> Self {
        Self::LogCorrupt { path: path.cloned().unwrap_or_default(), line }
    }
}

/// What every request can reach.
struct Shared {
    desk: DeskHandle,
    tokens: Tokens,
    settings: Mutex<Settings>,
    log_path: Option<PathBuf>,
    rules: Arc<Mutex<Rules>>,
    timeline: Arc<Timeline>,
    /// Until when, on the timeline, every connection is reset.
    dead_until: Mutex<Duration>,
    /// Where work goes on when the client has gone.
    runtime: Handle,
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes every scenario off, revives the provider and sends the callbacks that were held back.
    async fn clear_scenarios(&self) -> Result<(), Refusal> {
        self.rules().clear();
        *self.dead_until.lock().unwrap_or_else(PoisonError::into_inner) = Duration::ZERO;
        self.desk
            .run(|desk| {
                desk.release_callbacks();
                Ok(())
            })
            .await
    }

    /// Dies for a while, and loses its memory as by a restart.
    fn die(&self, span: Duration) {
        let until = self.timeline.after(span);
        *self.dead_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        self.tokens.revoke_all();
    }

    fn is_dead(&self) -> bool {
        self.timeline.elapsed() < *self.dead_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn log(&self) -> Result<Vec<LogEntry>, Refusal> {
        let in_memory = self.desk.run(|desk| Ok(desk.entries_in_memory())).await?;
        match (in_memory, self.log_path.clone()) {
            (Some(entries), _) => Ok(entries),
            (None, None) => Ok(Vec::new()),
            (None, Some(path)) => {
                let failed = || Refusal::internal("the log cannot be read");
                let read = spawn_blocking(move || read_log(&path)).await;
                read.ok().and_then(Result::ok).ok_or_else(failed)
            }
        }
    }

    fn settings(&self) -> Settings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_settings(&self, change: SettingsChange) -> Settings {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let Settings { settle_automatically, unavailable, callbacks } = *settings;
        *settings = Settings {
            settle_automatically: change.settle_automatically.unwrap_or(settle_automatically),
            unavailable: change.unavailable.unwrap_or(unavailable),
            callbacks: change.callbacks.unwrap_or(callbacks),
        };
        *settings
    }
}

/// A simulator that runs, until [`Simulator::stop`] or the end of the runtime it was started in.
pub struct Simulator {
    address: SocketAddr,
    server: ServerHandle,
    serving: JoinHandle<io::Result<()>>,
    shared: Data<Shared>,
    desk_thread: thread::JoinHandle<()>,
    callbacks: JoinHandle<()>,
}

impl Simulator {
    /// Starts one, on a multi-threaded tokio runtime. When this returns it answers, with the state its log tells of.
    pub async fn start(config: SimulatorConfig) -> Result<Self, SimulatorError> {
        let client = callbacks::client(&config.callback_retry)?;
        let (callback_queue, callbacks_waiting) = mpsc::channel(config.callback_retry.max_waiting.max(1));
        let timeline = Arc::new(Timeline::new(config.time));
        let rules = Arc::new(Mutex::new(Rules::default()));
        let around = Around {
            callbacks: callback_queue,
            rules: Arc::clone(&rules),
            timeline: Arc::clone(&timeline),
            runtime: Handle::current(),
        };
        let (path, opening) = (config.log_path.clone(), config.opening_balance_cents);
        let opened = spawn_blocking(move || desk::open(path.as_ref(), opening, around)).await;
        let (desk, desk_thread) =
            opened.map_err(|error| SimulatorError::Thread(io::Error::other(error)))??;

        let shared = Data::new(Shared {
            desk,
            tokens: Tokens::new(config.client_id, config.client_secret, config.token_lifetime),
            settings: Mutex::new(Settings {
                settle_automatically: config.settle_automatically,
                unavailable: false,
                callbacks: true,
            }),
            log_path: config.log_path,
            rules,
            timeline,
            dead_until: Mutex::default(),
            runtime: Handle::current(),
        });
        let serving_data = Data::clone(&shared);
        let listen = |source| SimulatorError::Listen { address: config.listen, source };
        let server = HttpServer::new(move || {
            App::new()
                .app_data(Data::clone(&serving_data))
                .app_data(PayloadConfig::new(MAX_BODY))
                .configure(control::routes)
                .service(web::resource("/v2/{tail:.*}").to(provider::handle))
                .default_service(web::to(async || Refusal::not_found("no such path").error_response()))
        })
        .on_connect(Connection::keep)
        .keep_alive(KEEP_ALIVE)
        .workers(1)
        .disable_signals()
        .shutdown_timeout(SHUTDOWN_TIMEOUT_SECONDS)
        .bind(config.listen)
        .map_err(listen)?;
        let address = server.addrs().first().copied().unwrap_or(config.listen);
        let server = server.run();
        let handle = server.handle();
        let serving = tokio::spawn(server);
        let callbacks = tokio::spawn(callbacks::send_all(callbacks_waiting, client, config.callback_retry));
        tracing::info!(%address, "simulator listens");
        Ok(Self { address, server: handle, serving, shared, desk_thread, callbacks })
    }

    /// `http://127.0.0.1:12345`, without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens, with the port it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it: requests under way are answered, callbacks that wait are dropped, the log is closed. Who waits for an
    /// answer that a scenario holds back is cut off.
    pub async fn stop(self) {
        self.shared.timeline.end();
        self.server.stop(true).await;
        self.shared.desk.stop().await;
        let desk_thread = self.desk_thread;
        if !matches!(spawn_blocking(move || desk_thread.join()).await, Ok(Ok(()))) {
            tracing::error!("the simulator's desk ended by a panic");
        }
        self.callbacks.abort();
        if let Ok(Err(error)) = self.serving.await {
            tracing::error!(%error, "the simulator's server ended with an error");
        }
    }
}
