//! Standbys.

use pix_pg_server::{Options, PgServer};

use crate::client::{Client, simple};
use crate::{MOMENT, rows, until};

#[test]
fn a_standby_follows_and_takes_no_writes_until_it_is_promoted() {
    let primary = PgServer::start(Options::default()).unwrap();
    primary.psql("postgres", "CREATE TABLE t (x int); INSERT INTO t VALUES (1)").unwrap();
    let standby = primary.replica().unwrap();
    assert_ne!(standby.port(), primary.port());
    assert_eq!(rows(&standby, "t"), "1");
    primary.psql("postgres", "INSERT INTO t VALUES (2)").unwrap();
    until("the standby has it", || rows(&standby, "t") == "1 2");
    let error = standby.psql("postgres", "INSERT INTO t VALUES (3)").unwrap_err();
    assert!(error.to_string().contains("read-only transaction"), "{error}");
    standby.promote().unwrap();
    standby.psql("postgres", "INSERT INTO t VALUES (3)").unwrap();
    assert_eq!(rows(&standby, "t"), "1 2 3");
}

#[test]
fn a_synchronous_standby_has_every_commit_when_the_primary_dies() {
    let primary = PgServer::start(Options::default()).unwrap();
    let standby = primary.replica().unwrap();
    primary.make_synchronous(&standby).unwrap();
    primary.psql("postgres", "CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2)").unwrap();
    primary.kill9().unwrap();
    standby.promote().unwrap();
    assert_eq!(rows(&standby, "t"), "1 2");
}

#[test]
fn a_commit_waits_while_the_synchronous_standby_is_dead() {
    let primary = PgServer::start(Options::default()).unwrap();
    let standby = primary.replica().unwrap();
    primary.make_synchronous(&standby).unwrap();
    primary.psql("postgres", "CREATE TABLE t (x int)").unwrap();
    standby.kill9().unwrap();
    let mut client = Client::connect(primary.port()).unwrap();
    client.send(&simple("INSERT INTO t VALUES (1)")).unwrap();
    assert!(client.is_kept_waiting(MOMENT));
    standby.start_again().unwrap();
    client.answer().unwrap();
    assert_eq!(rows(&primary, "t"), "1");
}

#[test]
fn a_copy_of_a_primary_with_a_synchronous_standby_waits_for_nobody() {
    let primary = PgServer::start(Options::default()).unwrap();
    let first = primary.replica().unwrap();
    primary.make_synchronous(&first).unwrap();
    let second = primary.replica().unwrap();
    assert_ne!(first.name(), second.name());
    second.promote().unwrap();
    second.psql("postgres", "CREATE TABLE t (x int)").unwrap();
    primary.set("synchronous_standby_names", "").unwrap();
    drop(first);
    primary.psql("postgres", "CREATE TABLE t (x int)").unwrap();
}
