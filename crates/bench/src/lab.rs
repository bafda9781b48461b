//! The PostgreSQL server that everything is measured on, and its databases: each measurement has a fresh copy of a filled
//! one, so that none pays for what another left behind.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use pix_domain::ports::Stores;
use pix_persistence::postgres::{Grouping, PgOptions, PgStore};
use pix_pg_server::{Options, PgServer, fresh_name};
use tokio::runtime::Runtime;

use crate::ops::{Dialect, Seed, World};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client waits for a connection: the clients are as many as the connections.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Rows filled by one statement.
const FILL_STEP: u32 = 500_000;
/// What differs from the server's defaults, besides the sizes below.
pub const SETTINGS: [(&str, &str); 3] =
    [("max_wal_size", "4GB"), ("checkpoint_timeout", "30min"), ("track_io_timing", "off")];
/// `shared_buffers`, in MiB.
pub const SHARED_BUFFERS_MIB: u32 = 512;
/// `max_connections`.
const MAX_CONNECTIONS: u32 = 200;

/// How a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applying {
    /// A statement a transition, over so many connections.
    OneByOne(usize),
    /// Gathered, as the gateway does by default.
    Grouped,
}

/// A server and its filled databases.
pub struct Lab {
    server: PgServer,
    templates: RefCell<BTreeMap<(u32, Seed, u32), String>>,
}

impl Lab {
    /// Starts a durable server.
    pub fn start() -> anyhow::Result<Self> {
        let options = Options {
            max_connections: MAX_CONNECTIONS,
            shared_buffers_mib: SHARED_BUFFERS_MIB,
            settings: SETTINGS
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Options::durable()
        };
        let server = PgServer::start(options)?;
        for (name, value) in [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")] {
            ensure!(server.psql("postgres", &format!("SHOW {name}"))? == value, "{name} is not {value}");
        }
        Ok(Self { server, templates: RefCell::default() })
    }

    /// The server.
    pub const fn server(&self) -> &PgServer {
        &self.server
    }

    /// What the server calls itself.
    pub fn version(&self) -> anyhow::Result<String> {
        Ok(self.server.psql("postgres", "SHOW server_version")?)
    }

    /// A database with the schema and `rows` slots of `seed`, to be copied.
    fn template(&self, runtime: &Runtime, world: World, seed: Seed, rows: u32) -> anyhow::Result<String> {
        let key = (world.wallets, seed, rows);
        if let Some(name) = self.templates.borrow().get(&key) {
            return Ok(name.clone());
        }
        let name = self.empty(runtime)?;
        self.server.psql(&name, &world.fill_integrators(Dialect::Postgres))?;
        let mut from = 0;
        while from < rows && seed != Seed::Nothing {
            let to = rows.min(from.saturating_add(FILL_STEP));
            self.server.psql(&name, &world.fill(Dialect::Postgres, seed, from, to))?;
            from = to;
        }
        // An empty table is left as the migration made it: one that was looked at while it was empty is planned for as
        // if it stayed so.
        let filled = "SELECT format('VACUUM (FREEZE, ANALYZE) %I', relname) FROM pg_class \
                      WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0";
        let filled = self.server.psql(&name, filled)?;
        for vacuum in filled.lines() {
            self.server.psql(&name, vacuum)?;
        }
        self.server.psql(&name, "CHECKPOINT")?;
        self.templates.borrow_mut().insert(key, name.clone());
        Ok(name)
    }

    /// A database with the schema alone.
    pub fn empty(&self, runtime: &Runtime) -> anyhow::Result<String> {
        let name = fresh_name();
        self.server.create_database(&name)?;
        runtime.block_on(PgStore::migrate(&self.server.url(&name), CONNECT_TIMEOUT))?;
        Ok(name)
    }

    /// The same. It goes when it is dropped.
    pub fn fresh_empty(&self, runtime: &Runtime) -> anyhow::Result<Database<'_>> {
        Ok(Database { lab: self, name: self.empty(runtime)? })
    }

    /// A fresh database with `rows` slots of `seed`. It goes when it is dropped.
    pub fn fresh(
        &self,
        runtime: &Runtime,
        world: World,
        seed: Seed,
        rows: u32,
    ) -> anyhow::Result<Database<'_>> {
        let template = self.template(runtime, world, seed, rows)?;
        let name = fresh_name();
        self.server
            .psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"))?;
        Ok(Database { lab: self, name })
    }

    /// Forgets the filled databases, to give their room back.
    pub fn forget(&self) -> anyhow::Result<()> {
        for (_, name) in std::mem::take(&mut *self.templates.borrow_mut()) {
            self.server.drop_database(&name)?;
        }
        Ok(())
    }

    /// The id of the server's process.
    pub fn postmaster(&self) -> anyhow::Result<u32> {
        let file = self.server.data_dir().join("postmaster.pid");
        let text = fs::read_to_string(&file).with_context(|| format!("{} can't be read", file.display()))?;
        Ok(text.lines().next().context("the server has no process id")?.trim().parse()?)
    }
}

/// A database of its own.
pub struct Database<'a> {
    lab: &'a Lab,
    name: String,
}

impl Database<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.lab.server.url(&self.name)
    }

    /// Runs a script; its rows.
    pub fn psql(&self, sql: &str) -> anyhow::Result<String> {
        Ok(self.lab.server.psql(&self.name, sql)?)
    }

    /// Counts what a query counts.
    pub fn count(&self, sql: &str) -> anyhow::Result<u64> {
        Ok(self.psql(sql)?.trim().parse()?)
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.lab.server.drop_database(&self.name) {
            eprintln!("the database {} was not dropped: {error}", self.name);
        }
    }
}

/// Opens a store on a database.
pub async fn open(url: &str, applying: Applying) -> anyhow::Result<Arc<PgStore>> {
    let defaults = PgOptions { acquire_timeout: ACQUIRE_TIMEOUT, ..PgOptions::default() };
    let options = match applying {
        Applying::OneByOne(connections) => PgOptions {
            grouping: None,
            money_connections: connections,
            read_connections: connections,
            ..defaults
        },
        Applying::Grouped => PgOptions { grouping: Some(Grouping::default()), ..defaults },
    };
    Ok(Arc::new(PgStore::open(url, options).await?))
}

/// All ports of one store.
pub async fn stores(url: &str, applying: Applying) -> anyhow::Result<Stores> {
    Ok(Stores::of(open(url, applying).await?))
}

/// A program of PostgreSQL.
pub fn pg_program(name: &str) -> anyhow::Result<PathBuf> {
    let named = std::env::var_os("PIX_TEST_PG_BIN").map(PathBuf::from);
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut debian: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    debian.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = named.into_iter().chain(debian.into_iter().rev()).chain(std::env::split_paths(&path));
    folders
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .with_context(|| format!("the program {name} is not installed: apt-get install postgresql-contrib"))
}
