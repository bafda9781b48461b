//! `PostgreSQL` servers for tests and benchmarks: each starts its own, on loopback, in a folder of its own. It owns
//! the processes, their folders and their ports, and takes them away again. It must never know the gateway, and the
//! gateway must never depend on it: it is for `[dev-dependencies]` and for programs that measure.
//!
//! ```no_run
//! # fn main() -> Result<(), pix_pg_server::PgServerError> {
//! use pix_pg_server::{Options, PgServer};
//!
//! let server = PgServer::start(Options::default())?;
//! let database = pix_pg_server::fresh_name();
//! server.create_database(&database)?;
//! assert_eq!(server.psql(&database, "SELECT 1 + 1")?, "2");
//! println!("{}", server.url(&database));
//! # Ok(())
//! # }
//! ```
//!
//! - [`PgServer`]: a server, its databases, its death and its standbys. [`shared`] is one server a process.
//! - [`PgBouncer`]: a pooler before a server.
//! - [`RedisServer`]: a store for the limits that nodes share.
//! - [`CutProxy`]: a line to a server that can be cut at a chosen statement, hang, or refuse.
//!
//! # What it needs
//!
//! Linux (`/proc`, `sh`, `find`), and the programs of `PostgreSQL` 15 or newer: those in the folder that the variable
//! `PIX_TEST_PG_BIN` names, else the newest in `/usr/lib/postgresql/*/bin`, else those on the `PATH`. They refuse to
//! run as root; under root they run as the user `postgres`, or else `nobody`. `pgbouncer` and `redis-server` are looked
//! for in that folder too, and on the `PATH`.
//!
//! # Nothing is left behind
//!
//! Every folder has a watchdog: a shell that waits for the end of a pipe which only this process holds. When the pipe
//! ends, because a handle was dropped or because this process died, even of `kill -9`, the watchdog ends every process
//! that works in the folder and removes the folder.

mod bouncer;
mod cut_proxy;
mod error;
mod host;
mod port;
mod process;
mod redis;
mod server;
mod watchdog;

pub use bouncer::{PgBouncer, PoolMode};
pub use cut_proxy::{Cut, CutPoint, CutProxy, CutSide};
pub use error::PgServerError;
pub use port::Port;
pub use redis::RedisServer;
pub use server::{Options, PgServer, StopMode, fresh_name, shared};
