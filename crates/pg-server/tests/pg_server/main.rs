//! The servers, poolers and lines of the tests, tried on the installed `PostgreSQL`, `PgBouncer` and Redis.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

mod bouncer;
mod client;
mod line;
mod redis;
mod server;
mod standby;
mod watchdog;

use std::thread;
use std::time::{Duration, Instant};

use pix_pg_server::{PgServer, shared};

/// For what is expected to happen, on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);
/// For what is expected not to happen.
const MOMENT: Duration = Duration::from_millis(200);

/// Looks until it is so.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < SOON, "not within {SOON:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The server of this process with a new table of one column, `x`.
fn table() -> (&'static PgServer, String) {
    let server = shared().unwrap();
    let table = pix_pg_server::fresh_name();
    server.psql("postgres", &format!("CREATE TABLE {table} (x int)")).unwrap();
    (server, table)
}

/// What is in a table, in order.
fn rows(server: &PgServer, table: &str) -> String {
    server
        .psql("postgres", &format!("SELECT coalesce(string_agg(x::text, ' ' ORDER BY x), '') FROM {table}"))
        .unwrap()
}
