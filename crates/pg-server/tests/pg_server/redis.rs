//! Redis.

use std::net::TcpStream;

use pix_pg_server::{PgServerError, RedisServer};

#[test]
fn it_answers_whoever_knows_its_password() {
    let server = RedisServer::start().unwrap();
    assert_eq!(server.ask(&["PING"]).unwrap(), "PONG");
    assert_eq!(server.url(), format!("redis://:{}@127.0.0.1:{}/0", server.password(), server.port()));
}

#[test]
fn a_killed_one_starts_again_on_its_port_with_nothing_in_it() {
    let mut server = RedisServer::start().unwrap();
    let port = server.port();
    assert_eq!(server.ask(&["SET", "a", "1"]).unwrap(), "OK");
    assert!(matches!(server.start_again(), Err(PgServerError::AlreadyRunning)));
    server.kill().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    server.start_again().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(server.ask(&["EXISTS", "a"]).unwrap(), "0");
}

#[test]
fn a_paused_one_answers_when_it_goes_on() {
    let server = RedisServer::start().unwrap();
    server.pause().unwrap();
    // The kernel still takes connections.
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_ok());
    server.resume().unwrap();
    assert_eq!(server.ask(&["PING"]).unwrap(), "PONG");
}

#[test]
fn it_goes_when_it_is_dropped() {
    let server = RedisServer::start().unwrap();
    let port = server.port();
    server.pause().unwrap();
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}
