//! The operators' console: pages for whoever runs the gateway, on the listener that nobody else reaches.
//!
//! It owns who is signed in, what is shown and how. It reads the domain's ports, and never writes: what an operator does
//! goes through [`Acts`], which whoever embeds the console implements with what its command line does, so that both write
//! the same to the audit log. It runs no script, fetches nothing from anywhere, and shows no name, document or key in full.
//!
//! | Module | Room |
//! |---|---|
//! | `operators` | who may sign in, and the form of a token |
//! | `sessions` | who is signed in, and how often a sign-in may fail |
//! | `door` | what every request goes through: the `Host`, the session, the `Origin`, the token of a form |
//! | `html`, `show`, `page` | elements, how values look, and the frame around a page |
//! | `pages` | the pages, a module each |
//!
//! Every limit of a page is a constant beside it. See `docs/adr/0027-console.md`.

mod door;
mod html;
mod operators;
mod page;
mod pages;
mod sessions;
mod show;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix_web::web;
use async_trait::async_trait;
use pix_domain::audit::BookStore;
use pix_domain::audit_log::Operator;
use pix_domain::credentials::store::ApiKeyStore;
use pix_domain::decisions::{Decided, Decision};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::ports::Stores;
use pix_domain::postbacks::delivery::{DeliveryStore, EndpointId};
use pix_domain::postbacks::events::EventStore;
use pix_domain::time::{Clock, Timestamp};
use thiserror::Error;

pub use operators::{MAX_OPERATORS, OperatorToken, Operators, OperatorsError, TOKEN_PREFIX, TokenDigest};
pub use sessions::{ABSOLUTE_LIMIT, FAILURES_WINDOW, IDLE_LIMIT, MAX_FAILURES, MAX_SESSIONS};

use sessions::{Failures, Sessions};

/// Under which path it is.
pub const PATH: &str = "/console";

/// Why an act was not done: a sentence for the operator, without a secret or anybody's data.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// What operators do. An implementation MUST write each act to the audit log, under that operator's name, before it is
/// done, and MUST end what it has begun though nobody waits for it any more.
#[async_trait]
pub trait Acts: Send + Sync {
    /// Lets an integrator move no money out, or lets it again.
    async fn suspend(&self, operator: &Operator, id: IntegratorId, suspended: bool) -> Result<(), Refusal>;

    /// Revokes a key, for good.
    async fn revoke(&self, operator: &Operator, public_id: &str) -> Result<(), Refusal>;

    /// Switches an endpoint on again.
    async fn enable(
        &self,
        operator: &Operator,
        id: IntegratorId,
        endpoint: EndpointId,
    ) -> Result<(), Refusal>;

    /// Delivers what was given up again, of events at `since` or later; how many.
    async fn replay(
        &self,
        operator: &Operator,
        id: IntegratorId,
        since: Option<Timestamp>,
    ) -> Result<u64, Refusal>;

    /// Delivers one event again, by its public id.
    async fn redeliver(&self, operator: &Operator, id: IntegratorId, event: &str) -> Result<(), Refusal>;

    /// Proposes what became of a movement, or confirms what another operator proposed.
    async fn decide(&self, decision: Decision) -> Result<Decided, Refusal>;
}

/// What is due and nobody has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overdue {
    /// How much.
    pub count: u64,
    /// Since when the most overdue is; `None` when nothing is.
    pub since: Option<Timestamp>,
}

/// The newest audit of the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audited {
    /// When it ended.
    pub at: Timestamp,
    /// Whether the books were right.
    pub is_clean: bool,
    /// How many differences there were.
    pub differences: u64,
}

/// How the whole database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// What wallets have available, in centavos.
    pub available_cents: u64,
    /// What is held, in centavos.
    pub held_cents: u64,
    /// What is owed, in centavos.
    pub owed_cents: u64,
    /// Records that the provider is to be asked about.
    pub follow_ups: Overdue,
    /// Callbacks that are to be worked on.
    pub callbacks: Overdue,
    /// Postbacks that are to be sent.
    pub deliveries: Overdue,
    /// The newest audit, if there was one.
    pub audited: Option<Audited>,
}

/// How this node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The version of the program.
    pub version: &'static str,
    /// Whether it can serve.
    pub is_ready: bool,
    /// Whether it was told to stop.
    pub is_stopping: bool,
    /// Why the database takes no writes, if it doesn't.
    pub database: Result<(), String>,
    /// The workers, and whether each is alive.
    pub workers: Vec<(&'static str, bool)>,
    /// What the breaker does with new charges, if there is one: closed, open or half open.
    pub breaker: Option<&'static str>,
    /// How many requests were answered lately, and within how long; `None` before that is known.
    pub answered: Option<(u64, Duration)>,
}

/// What operators are told besides records.
#[async_trait]
pub trait Watch: Send + Sync {
    /// How this node is.
    async fn node(&self) -> Node;

    /// How the whole database is.
    async fn totals(&self) -> Result<Totals, StoreError>;

    /// Withdrawals and refunds whose outcome nobody knows, those that were sent first before the others, at most `limit`.
    async fn uncertain(&self, limit: u32) -> Result<Vec<ResourceRef>, StoreError>;

    /// What to do about a finding with that code.
    fn advice(&self, code: &str) -> &'static str;
}

/// The operating system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the operating system gave no random bytes")]
pub struct NoRandomness;

/// Where the ids of sessions come from. An implementation MUST use a generator that nobody can predict.
pub trait Random: Send + Sync {
    /// Fresh random bytes.
    fn bytes(&self) -> Result<[u8; 32], NoRandomness>;
}

/// How the console is reached, and by whom.
#[derive(Debug, Clone, Default)]
pub struct ConsoleConfig {
    /// Those who may sign in.
    pub operators: Operators,
    /// Names that it may be reached by besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// Whether the listener speaks TLS: the cookie is never sent without it then.
    pub is_encrypted: bool,
}

/// What it stands on.
#[derive(Clone)]
pub struct ConsolePorts {
    /// Records.
    pub stores: Stores,
    /// Events.
    pub events: Arc<dyn EventStore>,
    /// Deliveries of them.
    pub deliveries: Arc<dyn DeliveryStore>,
    /// API keys.
    pub keys: Arc<dyn ApiKeyStore>,
    /// Findings.
    pub books: Arc<dyn BookStore>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// What is told of node and database.
    pub watch: Arc<dyn Watch>,
    /// What operators do.
    pub acts: Arc<dyn Acts>,
}

/// The console.
pub struct Console {
    config: ConsoleConfig,
    ports: ConsolePorts,
    sessions: Sessions,
    failures: Failures,
}

impl Console {
    /// Over `ports`. Nobody is signed in.
    pub fn new(config: ConsoleConfig, ports: ConsolePorts) -> Self {
        Self { config, ports, sessions: Sessions::default(), failures: Failures::default() }
    }

    fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }
}

/// A place for a console on a listener that may be there before it. Until it is opened it answers 503.
#[derive(Clone, Default)]
pub struct Mount(Arc<OnceLock<Option<Arc<Console>>>>);

impl Mount {
    /// From now on the console is there; without one it answers 404, and says what turns it on. Only the first call counts.
    pub fn open(&self, console: Option<Console>) {
        drop(self.0.set(console.map(Arc::new)));
    }

    /// Its routes, for `App::configure`.
    pub fn routes(self) -> impl FnOnce(&mut web::ServiceConfig) {
        move |config| pages::routes(self, config)
    }
}
