//! The PostgreSQL store keeps every promise of a store: with and without groups, from two nodes at once, and through
//! PgBouncer. Each case has a database of its own.
//!
//! `PIX_TEST_POOL_MODE=transaction` has PgBouncer, which then has to be 1.21 or newer, give a server connection for a transaction
//! only: `make postgres-versions` does so.

#![expect(clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use pix_conformance::{Durability, Nodes, StoreHarness, StoreSet};
use pix_persistence::postgres::{Grouping, PgOptions, PgStore};
use pix_pg_server::{PgBouncer, PgServer, PoolMode};

/// How the store under test reaches its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One node that gathers transitions.
    Grouped,
    /// One node that sends each on its own.
    Single,
    /// Two nodes in turn.
    TwoNodes,
    /// One node, through PgBouncer.
    Bouncer,
}

/// What the role has to be given where a setting of a connection is no one's in particular: docs/SCALING.md.
const OF_THE_ROLE: &str = "ALTER ROLE pix SET statement_timeout = '30s'; ALTER ROLE pix SET lock_timeout = '30s'; \
     ALTER ROLE pix SET idle_in_transaction_session_timeout = '30s'; \
     ALTER ROLE pix SET default_transaction_isolation = 'read committed'; ALTER ROLE pix SET jit = off; \
     ALTER ROLE pix SET synchronous_commit = on";

struct PgHarness {
    way: Way,
    database: String,
    stores: Option<StoreSet>,
}

fn server() -> &'static PgServer {
    pix_pg_server::shared().expect("a server")
}

fn bouncer() -> &'static PgBouncer {
    static BOUNCER: OnceLock<PgBouncer> = OnceLock::new();
    BOUNCER.get_or_init(|| {
        let mode = PoolMode::named().expect("a mode").unwrap_or(PoolMode::Session);
        PgBouncer::start_for_many(server(), mode, OF_THE_ROLE).expect("a PgBouncer")
    })
}

/// A database with the schema, to be copied for each case.
fn template() -> &'static str {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let name = pix_pg_server::fresh_name();
        server().create_database(&name).expect("a database");
        let url = server().url(&name);
        // Of its own thread, since a case may be running already.
        let migrate = move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(PgStore::migrate(&url, Duration::from_secs(10))).expect("the schema");
        };
        std::thread::spawn(migrate).join().expect("the schema");
        name
    })
}

fn options(way: Way) -> PgOptions {
    PgOptions {
        money_connections: 4,
        read_connections: 4,
        acquire_timeout: Duration::from_secs(30),
        statement_timeout: Duration::from_secs(30),
        grouping: (way != Way::Single).then(Grouping::default),
        ..PgOptions::default()
    }
}

impl PgHarness {
    async fn new(way: Way) -> Self {
        let database = pix_pg_server::fresh_name();
        server().create_database_from(&database, template()).expect("a database");
        let mut harness = Self { way, database, stores: None };
        harness.open().await;
        harness
    }

    async fn open(&mut self) {
        let url = match self.way {
            Way::Bouncer => bouncer().url(&self.database),
            _ => server().url(&self.database),
        };
        let mut nodes = Vec::new();
        for _ in 0..if self.way == Way::TwoNodes { 2 } else { 1 } {
            let store = PgStore::open(&url, options(self.way)).await.expect("a store");
            nodes.push(StoreSet::of(Arc::new(store)));
        }
        self.stores = Some(Nodes::of(nodes));
    }
}

#[async_trait]
impl StoreHarness for PgHarness {
    fn stores(&self) -> StoreSet {
        self.stores.clone().expect("an open store")
    }

    async fn reopen(&mut self) -> Durability {
        drop(self.stores.take());
        self.open().await;
        Durability::Durable
    }
}

mod grouped {
    use super::{PgHarness, Way};
    pix_conformance::store_suite!(PgHarness::new(Way::Grouped));
}

mod single {
    use super::{PgHarness, Way};
    pix_conformance::store_suite!(PgHarness::new(Way::Single));
}

mod two_nodes {
    use super::{PgHarness, Way};
    pix_conformance::store_suite!(PgHarness::new(Way::TwoNodes));
}

mod bouncer {
    use super::{PgHarness, Way};
    pix_conformance::store_suite!(PgHarness::new(Way::Bouncer));
}
