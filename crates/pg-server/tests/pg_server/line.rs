//! Lines that are cut, held and refused.

use std::net::TcpListener;

use pix_pg_server::{Cut, CutPoint, CutProxy, CutSide, PgServer, shared};

use crate::client::{Client, extended, prepared, simple, typed};
use crate::{MOMENT, SOON, rows, table, until};

fn line(server: &PgServer) -> CutProxy {
    CutProxy::start(server.port()).unwrap()
}

/// The cut was made, and the server has done what it was told.
fn settle(line: &CutProxy) {
    line.await_cuts(1, SOON).unwrap();
    until("the line is gone", || line.open() == 0);
    assert!(!line.is_armed() && line.cuts() == 1);
}

#[test]
fn what_is_not_cut_passes_in_any_pieces() {
    let (server, table) = table();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    assert_eq!(client.ask("SELECT repeat('x', 1000000)").unwrap(), ["x".repeat(1_000_000)]);
    let long = format!("SELECT length('{}')", "y".repeat(1_000_000));
    assert_eq!(client.ask(&long).unwrap(), ["1000000"]);
    for byte in extended(&format!("INSERT INTO {table} VALUES (1)")) {
        client.send(&[byte]).unwrap();
    }
    client.answer().unwrap();
    assert_eq!(rows(server, &table), "1");
    assert_eq!((line.cuts(), line.accepted(), line.open()), (0, 1, 1));
    drop(client);
    until("the line is gone", || line.open() == 0);
}

#[test]
fn the_psql_of_the_server_goes_over_it_by_its_url() {
    let server = shared().unwrap();
    let line = line(server);
    assert_eq!(line.url("postgres"), format!("postgres://pix@127.0.0.1:{}/postgres", line.port()));
}

#[test]
fn cut_after_a_sync_the_statement_is_executed_and_nobody_hears_of_it() {
    let (server, table) = table();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    line.arm_cut_after_sync(1);
    client.send(&extended(&format!("INSERT INTO {table} VALUES (1)"))).unwrap();
    assert!(client.rest().is_empty());
    settle(&line);
    assert_eq!(rows(server, &table), "1");
}

#[test]
fn cut_before_a_sync_the_statement_is_not_executed() {
    let (server, table) = table();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    line.arm_cut_before_sync(1);
    let message = extended(&format!("INSERT INTO {table} VALUES (1)"));
    for byte in message {
        if client.send(&[byte]).is_err() {
            break;
        }
    }
    assert!(client.rest().is_empty());
    settle(&line);
    assert_eq!(rows(server, &table), "");
}

#[test]
fn a_commit_of_the_extended_protocol_is_cut_on_either_side() {
    for (side, expected) in [(CutSide::Before, ""), (CutSide::After, "1")] {
        let (server, table) = table();
        let line = line(server);
        let mut client = Client::connect(line.port()).unwrap();
        line.arm(Cut { at: CutPoint::Text("commit".into()), side, nth: 1 });
        client.execute("BEGIN").unwrap();
        client.execute(&format!("INSERT INTO {table} VALUES (1)")).unwrap();
        client.send(&extended("COMMIT")).unwrap();
        assert!(client.rest().is_empty());
        settle(&line);
        assert_eq!(rows(server, &table), expected, "{side:?}");
    }
}

#[test]
fn a_commit_of_the_simple_protocol_is_cut_on_either_side() {
    for after in [false, true] {
        let (server, table) = table();
        let line = line(server);
        let mut client = Client::connect(line.port()).unwrap();
        if after {
            line.arm_cut_after_next("COMMIT");
        } else {
            line.arm_cut_before_next("COMMIT");
        }
        client.ask("BEGIN").unwrap();
        client.execute(&format!("INSERT INTO {table} VALUES (1)")).unwrap();
        client.send(&simple("COMMIT")).unwrap();
        assert!(client.rest().is_empty());
        settle(&line);
        assert_eq!(rows(server, &table), if after { "1" } else { "" });
    }
}

#[test]
fn statements_are_counted_from_the_arming_on_over_all_connections() {
    let (server, table) = table();
    let line = line(server);
    let insert = |number: u32| format!("INSERT INTO {table} VALUES ({number})");
    let mut clients = [(); 2].map(|()| Client::connect(line.port()).unwrap());
    let [first, second] = &mut clients;
    first.execute(&insert(1)).unwrap();
    line.arm_cut_after_sync(3);
    first.execute(&insert(2)).unwrap();
    // Neither what prepares nor what is simple counts.
    second.send(&prepared("SELECT 1")).unwrap();
    second.answer().unwrap();
    second.ask("SELECT 1").unwrap();
    second.execute(&insert(3)).unwrap();
    first.send(&extended(&insert(4))).unwrap();
    assert!(first.rest().is_empty());
    line.await_cuts(1, SOON).unwrap();
    second.execute(&insert(5)).unwrap();
    until("the first is gone", || line.open() == 1);
    assert_eq!(rows(server, &table), "1 2 3 4 5");
}

#[test]
fn simple_queries_count_as_statements() {
    let (server, table) = table();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    line.arm(Cut { at: CutPoint::Statement, side: CutSide::Before, nth: 3 });
    client.ask(&format!("INSERT INTO {table} VALUES (1)")).unwrap();
    client.execute(&format!("INSERT INTO {table} VALUES (2)")).unwrap();
    assert!(client.ask(&format!("INSERT INTO {table} VALUES (3)")).is_err());
    settle(&line);
    assert_eq!(rows(server, &table), "1 2");
}

#[test]
fn a_pipeline_is_cut_within() {
    for (side, expected) in [(CutSide::Before, "1"), (CutSide::After, "1 2")] {
        let (server, table) = table();
        let line = line(server);
        let mut client = Client::connect(line.port()).unwrap();
        line.arm(Cut { at: CutPoint::Sync, side, nth: 2 });
        let all =
            [1, 2, 3].map(|number| extended(&format!("INSERT INTO {table} VALUES ({number})"))).concat();
        client.send(&all).unwrap();
        client.rest();
        settle(&line);
        assert_eq!(rows(server, &table), expected, "{side:?}");
    }
}

#[test]
fn a_server_that_looks_for_its_client_still_ends_the_statement_it_was_sent() {
    let (server, table) = table();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    client.ask("SET client_connection_check_interval = '1ms'").unwrap();
    line.arm_cut_after_sync(1);
    let slow = format!("INSERT INTO {table} SELECT 1 FROM pg_sleep(0.3)");
    client.send(&extended(&slow)).unwrap();
    assert!(client.rest().is_empty());
    settle(&line);
    assert_eq!(rows(server, &table), "1");
}

#[test]
fn a_transaction_that_is_open_when_the_line_is_cut_is_rolled_back() {
    let (server, table) = table();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    client.ask(&format!("BEGIN; LOCK {table}")).unwrap();
    line.arm_cut_after_sync(1);
    client.send(&extended(&format!("INSERT INTO {table} VALUES (1)"))).unwrap();
    settle(&line);
    assert_eq!(rows(server, &table), "", "the lock is gone, and the row");
}

#[test]
fn an_answer_asked_for_halfway_comes() {
    let server = shared().unwrap();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    let parse = typed(b'P', b"\0SELECT 1\0\0\0");
    client.send(&[parse, typed(b'H', b"")].concat()).unwrap();
    assert!(!client.is_kept_waiting(SOON));
    client.send(&typed(b'S', b"")).unwrap();
    client.answer().unwrap();
}

#[test]
fn what_was_disarmed_does_not_cut() {
    let line = line(shared().unwrap());
    let mut client = Client::connect(line.port()).unwrap();
    line.arm_cut_after_sync(1);
    line.disarm();
    client.execute("SELECT 1").unwrap();
    assert_eq!(line.cuts(), 0);
}

#[test]
fn a_line_that_hangs_gives_nothing_until_it_is_resumed() {
    let (server, table) = table();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    line.stop_forwarding();
    client.send(&simple(&format!("INSERT INTO {table} VALUES (1)"))).unwrap();
    assert!(client.is_kept_waiting(MOMENT));
    assert_eq!(rows(server, &table), "");
    line.resume();
    client.answer().unwrap();
    assert_eq!(rows(server, &table), "1");
}

#[test]
fn a_line_that_hangs_can_be_closed() {
    let (server, table) = table();
    let line = line(server);
    let mut client = Client::connect(line.port()).unwrap();
    line.stop_forwarding();
    client.send(&simple(&format!("INSERT INTO {table} VALUES (1)"))).unwrap();
    line.close_all();
    assert!(client.rest().is_empty());
    until("the line is gone", || line.open() == 0);
    assert_eq!(rows(server, &table), "");
}

#[test]
fn closing_all_ends_both_sides_and_new_connections_are_taken() {
    let server = shared().unwrap();
    let line = line(server);
    let mut clients = [(); 3].map(|()| Client::connect(line.port()).unwrap());
    let pids = clients.each_mut().map(|client| client.ask("SELECT pg_backend_pid()").unwrap().concat());
    line.close_all();
    for client in &mut clients {
        assert!(client.rest().is_empty());
    }
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid IN ({})", pids.join(", "));
    until("the sessions are gone", || server.psql("postgres", &left).unwrap() == "0");
    Client::connect(line.port()).unwrap().ask("SELECT 1").unwrap();
}

#[test]
fn a_line_that_refuses_closes_new_connections_and_keeps_old_ones() {
    let line = line(shared().unwrap());
    let mut old = Client::connect(line.port()).unwrap();
    line.refuse(true);
    assert!(Client::connect(line.port()).is_err());
    old.ask("SELECT 1").unwrap();
    line.refuse(false);
    Client::connect(line.port()).unwrap();
    assert_eq!((line.accepted(), line.cuts()), (3, 0));
}

#[test]
fn without_a_server_a_connection_ends() {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let line = CutProxy::start(port).unwrap();
    assert!(Client::connect(line.port()).is_err());
}

#[test]
fn a_dropped_line_ends_its_connections() {
    let line = line(shared().unwrap());
    let port = line.port();
    let mut client = Client::connect(port).unwrap();
    drop(line);
    assert!(client.ask("SELECT 1").is_err());
    assert!(Client::connect(port).is_err());
}
