//! `PgBouncer`.

use std::net::TcpStream;

use pix_pg_server::{PgBouncer, PgServerError, PoolMode, shared};

use crate::MOMENT;
use crate::client::{Client, simple};

const ONE_CONNECTION: &[(&str, &str)] = &[("default_pool_size", "1")];

#[test]
fn in_session_mode_a_connection_belongs_to_a_client_until_it_goes() {
    let bouncer = PgBouncer::start_with(shared().unwrap(), PoolMode::Session, ONE_CONNECTION).unwrap();
    let mut first = Client::connect(bouncer.port()).unwrap();
    let pid = first.ask("SELECT pg_backend_pid()").unwrap();
    let mut second = Client::connect(bouncer.port()).unwrap();
    second.send(&simple("SELECT 1")).unwrap();
    assert!(second.is_kept_waiting(MOMENT));
    drop(first);
    second.answer().unwrap();
    assert_eq!(second.ask("SELECT pg_backend_pid()").unwrap(), pid);
}

#[test]
fn in_transaction_mode_a_connection_belongs_to_a_client_for_a_transaction() {
    let bouncer = PgBouncer::start_with(shared().unwrap(), PoolMode::Transaction, ONE_CONNECTION).unwrap();
    let mut first = Client::connect(bouncer.port()).unwrap();
    let mut second = Client::connect(bouncer.port()).unwrap();
    let pid = first.ask("SELECT pg_backend_pid()").unwrap();
    assert_eq!(second.ask("SELECT pg_backend_pid()").unwrap(), pid);
    first.ask("BEGIN").unwrap();
    second.send(&simple("SELECT 1")).unwrap();
    assert!(second.is_kept_waiting(MOMENT));
    first.ask("COMMIT").unwrap();
    second.answer().unwrap();
}

#[test]
fn what_a_client_asks_for_on_connecting_is_ignored() {
    let bouncer = PgBouncer::start(shared().unwrap(), PoolMode::Transaction).unwrap();
    let parameters =
        [("options", "-c statement_timeout=5s"), ("extra_float_digits", "2"), ("lock_timeout", "1s")];
    let mut client = Client::connect_with(bouncer.port(), "postgres", &parameters).unwrap();
    assert_eq!(client.ask("SHOW statement_timeout").unwrap(), ["0"]);
    assert_eq!(bouncer.url("x"), format!("postgres://pix@127.0.0.1:{}/x", bouncer.port()));
}

#[test]
fn it_goes_when_it_is_dropped() {
    let bouncer = PgBouncer::start(shared().unwrap(), PoolMode::Session).unwrap();
    let port = bouncer.port();
    drop(bouncer);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_setting_that_is_two_is_refused() {
    let refused = PgBouncer::start_with(shared().unwrap(), PoolMode::Session, &[("a", "b\nc")]);
    assert!(matches!(refused, Err(PgServerError::BadSetting(_))));
    let failed = PgBouncer::start_with(shared().unwrap(), PoolMode::Session, &[("pool_mode", "nonsense")]);
    assert!(matches!(failed, Err(PgServerError::Failed { .. })), "{failed:?}");
}
