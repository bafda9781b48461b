//! What is left of a process that was killed: nothing.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pix_pg_server::{Options, PgBouncer, PgServer, PoolMode, RedisServer, shared};

use crate::until;

/// Set in the processes that these tests kill.
const VICTIM: &str = "PIX_PG_SERVER_VICTIM";

#[test]
#[ignore = "the other tests start it in a process of its own"]
fn victim() {
    let Ok(role) = std::env::var(VICTIM) else { return };
    let own = PgServer::start(Options::durable()).unwrap();
    if role == "of the shared server" {
        let server = shared().unwrap();
        println!("\nready {} {}", server.port(), server.data_dir().display());
        return;
    }
    let standby = own.replica().unwrap();
    let bouncer = PgBouncer::start(&own, PoolMode::Session).unwrap();
    println!("\nready {} {}", own.port(), own.data_dir().display());
    println!("ready {} {}", standby.port(), standby.data_dir().display());
    println!("ready {} {}", bouncer.port(), own.data_dir().display());
    let redis = RedisServer::start().unwrap();
    println!("ready {} {}", redis.port(), own.data_dir().display());
    println!("all");
    until("the end of this process", || false);
}

#[test]
fn a_killed_process_leaves_no_server_no_standby_no_pooler_no_redis_and_no_folder() {
    let mut child = start("to be killed", None);
    let found = places(&mut child);
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|(port, data)| listens(*port) && data.exists()));
    child.kill().unwrap();
    child.wait().unwrap();
    until("all are gone", || {
        found.iter().all(|(port, data)| !listens(*port) && !data.parent().unwrap().exists())
    });
}

#[test]
fn the_shared_server_ends_with_its_process() {
    let mut child = start("of the shared server", None);
    let found = places(&mut child);
    assert!(child.wait().unwrap().success());
    assert_eq!(found.len(), 1);
    until("it is gone", || {
        found.iter().all(|(port, data)| !listens(*port) && !data.parent().unwrap().exists())
    });
}

#[test]
fn a_process_killed_while_it_makes_a_cluster_leaves_no_folder() {
    let parent = tempfile::tempdir().unwrap();
    fs::set_permissions(parent.path(), Permissions::from_mode(0o1777)).unwrap();
    let mut child = start("to be killed early", Some(parent.path()));
    until("initdb is at work", || {
        folders(parent.path()).iter().any(|folder| folder.join("data/base/1").exists())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    until("the folder is gone", || folders(parent.path()).is_empty());
}

fn start(role: &str, temporary: Option<&Path>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "watchdog::victim", "--ignored", "--nocapture"]).env(VICTIM, role);
    if let Some(temporary) = temporary {
        command.env("TMPDIR", temporary);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The ports and folders that a victim names, up to its last.
fn places(child: &mut Child) -> Vec<(u16, PathBuf)> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let named = lines.take_while(|line| line != "all").filter_map(|line| {
        let (port, data) = line.strip_prefix("ready ")?.split_once(' ')?;
        Some((port.parse().unwrap(), PathBuf::from(data)))
    });
    named.collect()
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path()).collect()
}
