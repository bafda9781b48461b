//! What stands behind the console: the same code as behind the subcommands, and the node that it is on.

use std::sync::Arc;

use async_trait::async_trait;
use pix_console::{
    Acts, Audited, Console, ConsolePorts, NoRandomness, Node, Overdue, Random, Refusal, Totals, Watch,
};
use pix_domain::audit_log::Operator;
use pix_domain::decisions::{Decided, Decision, DecisionService};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::ports::Ports;
use pix_domain::postbacks::delivery::{EndpointId, ReplayQuery};
use pix_domain::postbacks::service::MAX_REPLAYED;
use pix_domain::time::{Clock, Timestamp};
use pix_settlement::BreakerState;
use tokio::runtime::Handle;

use crate::audited;
use crate::commands::{findings, integrator, key, postback};
use crate::config::Config;
use crate::health::Health;
use crate::journal::Journal;
use crate::meters::Answered;
use crate::store::Store;
use crate::system::{SystemClock, random_bytes};

/// What counts requests for the console, where there is one.
pub fn answered(config: &Config) -> Option<Arc<Answered>> {
    config.console.as_ref().map(|_| Arc::default())
}

/// The console of a node, when somebody may sign in.
pub fn of(
    config: &Config,
    health: &Arc<Health>,
    ports: &Ports,
    answered: Option<Arc<Answered>>,
) -> Option<Console> {
    let store = health.store().clone();
    let desk = Desk {
        runtime: Handle::current(),
        decisions: DecisionService::new(ports.clone()),
        store: store.clone(),
    };
    let ports = ConsolePorts {
        stores: ports.stores.clone(),
        events: store.postbacks.events.clone(),
        deliveries: store.postbacks.deliveries.clone(),
        keys: store.keys.clone(),
        books: store.books.clone(),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        watch: Arc::new(Lookout { health: health.clone(), answered }),
        acts: Arc::new(desk),
    };
    Some(Console::new(config.console.clone()?, ports))
}

/// The operating system's generator.
struct SystemRandom;

impl Random for SystemRandom {
    fn bytes(&self) -> Result<[u8; 32], NoRandomness> {
        random_bytes().ok_or(NoRandomness)
    }
}

/// What is told of the node and of the database.
struct Lookout {
    health: Arc<Health>,
    answered: Option<Arc<Answered>>,
}

#[async_trait]
impl Watch for Lookout {
    async fn node(&self) -> Node {
        let condition = self.health.condition().await;
        let breaker = self.health.breaker().map(|breaker| match breaker.state() {
            BreakerState::Closed => "closed",
            BreakerState::Open { .. } => "open",
            BreakerState::HalfOpen => "half open",
        });
        Node {
            version: env!("CARGO_PKG_VERSION"),
            is_ready: condition.is_ready(),
            is_stopping: condition.stopping,
            database: condition.database,
            workers: condition.workers,
            breaker,
            answered: self.answered.as_ref().and_then(|answered| answered.lately()),
        }
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        let store = self.health.store();
        let vitals = store.vitals.vitals(SystemClock.now()).await?;
        let overdue = |due: pix_persistence::Overdue| Overdue { count: due.count, since: due.since };
        let audited = audited::Audited::last(store).await?;
        Ok(Totals {
            available_cents: vitals.available_cents,
            held_cents: vitals.held_cents,
            owed_cents: vitals.owed_cents,
            follow_ups: overdue(vitals.follow_ups),
            callbacks: overdue(vitals.callbacks),
            deliveries: overdue(vitals.deliveries),
            audited: audited.map(|audited| Audited {
                at: audited.at,
                is_clean: audited.clean,
                differences: audited.differences,
            }),
        })
    }

    async fn uncertain(&self, limit: u32) -> Result<Vec<ResourceRef>, StoreError> {
        self.health.store().vitals.uncertain(limit).await
    }

    fn advice(&self, code: &str) -> &'static str {
        findings::action(code)
    }
}

/// What operators do. Each act is a task of its own, which outlives the connection.
struct Desk {
    runtime: Handle,
    decisions: DecisionService,
    store: Store,
}

impl Desk {
    fn journal(&self, operator: &Operator) -> Result<(Store, Journal), Refusal> {
        let journal = Journal::of(&self.store, operator.as_str()).map_err(refused)?;
        Ok((self.store.clone(), journal))
    }

    async fn finish<T: Send + 'static>(
        &self,
        act: impl Future<Output = anyhow::Result<T>> + Send + 'static,
    ) -> Result<T, Refusal> {
        match self.runtime.spawn(act).await {
            Ok(done) => done.map_err(refused),
            Err(_broke_off) => {
                Err(Refusal("it broke off, and may be half done: look before you try again".to_owned()))
            }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what errors are mapped with")]
fn refused(error: anyhow::Error) -> Refusal {
    Refusal(format!("Not done: {error:#}."))
}

#[async_trait]
impl Acts for Desk {
    async fn suspend(&self, operator: &Operator, id: IntegratorId, suspended: bool) -> Result<(), Refusal> {
        let (store, journal) = self.journal(operator)?;
        self.finish(async move { integrator::suspend(&store, &journal, id, suspended).await.map(drop) }).await
    }

    async fn revoke(&self, operator: &Operator, public_id: &str) -> Result<(), Refusal> {
        let (store, journal) = self.journal(operator)?;
        let public_id = public_id.to_owned();
        self.finish(async move { key::revoke(&store, &journal, &public_id).await }).await
    }

    async fn enable(
        &self,
        operator: &Operator,
        id: IntegratorId,
        endpoint: EndpointId,
    ) -> Result<(), Refusal> {
        let (store, journal) = self.journal(operator)?;
        self.finish(async move { postback::enable(&store, &journal, id, endpoint).await }).await
    }

    async fn replay(
        &self,
        operator: &Operator,
        id: IntegratorId,
        since: Option<Timestamp>,
    ) -> Result<u64, Refusal> {
        let (store, journal) = self.journal(operator)?;
        let query = ReplayQuery { since, limit: MAX_REPLAYED, ..ReplayQuery::default() };
        self.finish(async move { postback::replay(&store, &journal, id, query).await }).await
    }

    async fn redeliver(&self, operator: &Operator, id: IntegratorId, event: &str) -> Result<(), Refusal> {
        let (store, journal) = self.journal(operator)?;
        let event = event.to_owned();
        self.finish(async move { postback::redeliver(&store, &journal, id, &event).await }).await
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, Refusal> {
        let decisions = self.decisions.clone();
        self.finish(async move { Ok(decisions.decide(&decision).await?) }).await
    }
}
