//! Servers: their databases, settings, stops and deaths.

use std::env;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use pix_pg_server::{Options, PgServer, PgServerError, StopMode, fresh_name, shared};

use crate::client::Client;
use crate::{rows, table, until};

#[test]
fn the_server_of_the_process_is_one() {
    let (first, second) = (shared().unwrap(), shared().unwrap());
    assert!(std::ptr::eq(first, second) && first.is_running());
    assert_eq!(first.psql("postgres", "SELECT current_user").unwrap(), "pix");
    assert_eq!(first.url("x"), format!("postgres://pix@127.0.0.1:{}/x", first.port()));
}

#[test]
fn a_server_writes_carefully_and_compares_bytes_and_listens_on_loopback_only() {
    let server = shared().unwrap();
    let shown = |name: &str| server.psql("postgres", &format!("SHOW {name}")).unwrap();
    assert_eq!(["fsync", "synchronous_commit", "full_page_writes"].map(shown), ["on", "on", "on"]);
    assert_eq!(shown("server_encoding"), "UTF8");
    let compares = "SELECT datcollate || ' ' || datctype FROM pg_database WHERE datname = 'postgres'";
    assert_eq!(server.psql("postgres", compares).unwrap(), "C C");
    assert_eq!(["listen_addresses", "unix_socket_directories"].map(shown), ["127.0.0.1", ""]);
    assert_eq!(shown("data_directory"), server.data_dir().display().to_string());
    TcpListener::bind(("127.0.0.2", server.port())).unwrap();
}

#[test]
fn options_are_settings() {
    let options = Options { max_connections: 17, shared_buffers_mib: 16, ..Options::durable() };
    let server = PgServer::start(options.with("work_mem", "5MB")).unwrap();
    let shown = |name: &str| server.psql("postgres", &format!("SHOW {name}")).unwrap();
    assert_eq!(["max_connections", "shared_buffers", "work_mem"].map(shown), ["17", "16MB", "5MB"]);
    assert!(server.data_dir().starts_with(env::temp_dir()), "durable, so not in memory");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = PgServer::start(Options::default().with("no_such_setting", "1")).unwrap_err();
    assert!(
        error.to_string().contains("unrecognized configuration parameter \"no_such_setting\""),
        "{error}"
    );
}

#[test]
fn a_database_is_a_copy_of_its_template() {
    let server = shared().unwrap();
    let (template, copy) = (fresh_name(), fresh_name());
    server.create_database(&template).unwrap();
    server.psql(&template, "CREATE TABLE t (x int); INSERT INTO t VALUES (7)").unwrap();
    server.create_database_from(&copy, &template).unwrap();
    server.psql(&template, "DELETE FROM t").unwrap();
    assert_eq!(server.psql(&copy, "SELECT x FROM t").unwrap(), "7");
}

#[test]
fn a_database_is_dropped_with_the_sessions_in_it() {
    let server = shared().unwrap();
    let database = fresh_name();
    server.create_database(&database).unwrap();
    let mut session = Client::connect_with(server.port(), &database, &[]).unwrap();
    server.drop_database(&database).unwrap();
    assert!(session.ask("SELECT 1").is_err());
    assert!(server.psql(&database, "SELECT 1").is_err());
    server.drop_database(&database).unwrap();
}

#[test]
fn a_script_ends_at_its_first_error_and_says_which() {
    let (server, table) = table();
    let script = format!("INSERT INTO {table} VALUES (1); SELECT 1/0; INSERT INTO {table} VALUES (2)");
    let error = server.psql("postgres", &script).unwrap_err();
    assert!(error.to_string().contains("division by zero"), "{error}");
    assert_eq!(rows(server, &table), "1");
    assert_eq!(server.psql("postgres", "VALUES (1, 'ä'), (2, NULL)").unwrap(), "1|ä\n2|");
}

#[test]
fn a_setting_is_there_for_the_next_session_when_set_returns() {
    let server = PgServer::start(Options::default()).unwrap();
    for value in ["5MB", "6MB", "7MB"] {
        server.set("work_mem", value).unwrap();
        assert_eq!(server.psql("postgres", "SHOW work_mem").unwrap(), value);
    }
    assert!(matches!(server.set("no_such_setting", "1"), Err(PgServerError::Failed { .. })));
    assert!(matches!(server.set("a; b", "1"), Err(PgServerError::BadSetting(_))));
    server.set("max_connections", "33").unwrap();
    assert_eq!(server.psql("postgres", "SHOW max_connections").unwrap(), "100");
    server.restart().unwrap();
    assert_eq!(server.psql("postgres", "SHOW max_connections").unwrap(), "33");
}

#[test]
fn a_stopped_server_comes_back_with_its_data_and_address() {
    let server = PgServer::start(Options::default()).unwrap();
    let url = server.url("postgres");
    server.psql("postgres", "CREATE TABLE t (x int)").unwrap();
    for (number, mode) in [(1, StopMode::Fast), (2, StopMode::Immediate)] {
        server.psql("postgres", &format!("INSERT INTO t VALUES ({number})")).unwrap();
        assert!(matches!(server.start_again(), Err(PgServerError::AlreadyRunning)));
        server.stop(mode).unwrap();
        assert!(!server.is_running());
        assert!(matches!(server.stop(mode), Err(PgServerError::NotRunning)));
        assert!(matches!(server.kill9(), Err(PgServerError::NotRunning)));
        assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
        server.start_again().unwrap();
    }
    assert_eq!(rows(&server, "t"), "1 2");
    assert_eq!(server.url("postgres"), url);
}

#[test]
fn a_killed_server_is_gone_with_all_its_processes_and_keeps_what_was_committed() {
    let server = PgServer::start(Options::default()).unwrap();
    server.psql("postgres", "CREATE TABLE t (x int)").unwrap();
    for round in 1..=3 {
        let mut open = Client::connect(server.port()).unwrap();
        open.ask(&format!("BEGIN; INSERT INTO t VALUES ({round}00)")).unwrap();
        let mut busy = Client::connect(server.port()).unwrap();
        busy.send(&crate::client::simple("SELECT pg_sleep(1000)")).unwrap();
        server.psql("postgres", &format!("INSERT INTO t VALUES ({round})")).unwrap();
        let pids = server
            .psql("postgres", "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            .unwrap();
        assert!(pids.lines().count() > 4, "two sessions and the server's own: {pids}");
        server.kill9().unwrap();
        assert!(!server.is_running());
        for pid in pids.lines() {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
        }
        assert!(open.ask("COMMIT").is_err());
        server.start_again().unwrap();
    }
    assert_eq!(rows(&server, "t"), "1 2 3");
    assert!(server.log().contains("database system was not properly shut down"), "it recovered");
}

#[test]
fn a_dropped_server_leaves_no_folder_and_no_listener() {
    let server = PgServer::start(Options::default()).unwrap();
    let _session = Client::connect(server.port()).unwrap();
    let (port, folder) = (server.port(), server.data_dir().parent().unwrap().to_owned());
    drop(server);
    assert!(!folder.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_server_that_was_killed_and_dropped_leaves_no_folder_and_no_shared_memory() {
    let server = PgServer::start(Options::default()).unwrap();
    let lines = std::fs::read_to_string(server.data_dir().join("postmaster.pid")).unwrap();
    let segment = lines.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    assert!(segments().contains(&segment));
    server.kill9().unwrap();
    let folder = server.data_dir().parent().unwrap().to_owned();
    drop(server);
    assert!(!folder.exists());
    until("the segment is gone", || !segments().contains(&segment));
}

#[test]
fn servers_are_apart() {
    let servers = [(); 2].map(|()| PgServer::start(Options::default()).unwrap());
    let [first, second] = &servers;
    assert_ne!(first.port(), second.port());
    first.create_database("only_here").unwrap();
    assert!(second.psql("only_here", "SELECT 1").is_err());
}

fn segments() -> Vec<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sysvipc/shm")).unwrap();
    text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect()
}
