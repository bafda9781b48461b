//! Too much at once: requests, connections, and peers that are slow on purpose.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::support::{
    Answer, CALLBACK_SECRET, Gate, Gateway, Request, SLOW_HASHES, charge_body, withdrawal_body,
};

/// How long a test waits for what is to happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// A deadline of the server's that a test waits for.
const SHORT: Duration = Duration::from_millis(100);

const ALIVE: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n";
const IS_ALIVE: &[u8] = br#"{"status":"live"}"#;

fn gate() -> Gate {
    Gate { reached: Semaphore::new(0), open: Semaphore::new(0) }
}

/// All that comes until the peer ends the connection, in whatever way.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection is still open");
    drop(read);
    bytes
}

/// Asks for a sign of life on a connection, which stays open; whether it came.
async fn lives(stream: &mut TcpStream) -> bool {
    if stream.write_all(ALIVE).await.is_err() {
        return false;
    }
    let mut bytes = Vec::new();
    while !bytes.ends_with(IS_ALIVE) {
        match timeout(PATIENCE, stream.read_buf(&mut bytes)).await.expect("no answer and no end") {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    true
}

async fn connect_from(local: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(local.parse().unwrap(), 0)).unwrap();
    socket.connect(address).await.unwrap()
}

/// Connects until a connection is let in.
async fn until_admitted(gateway: &Gateway) -> TcpStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        if lives(&mut stream).await {
            return stream;
        }
        assert!(Instant::now() < deadline, "never let in");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_too_many_is_503_before_it_has_any_effect() {
    let gateway = Gateway::with(|config| config.requests_at_once = 1, Some(gate())).await;
    let tenant = gateway.rich().await;
    let gate = gateway.provider.gate.as_ref().unwrap();
    let body = withdrawal_body();
    let paying = gateway.post(&tenant, "/api/v1/withdrawals", &body);
    let meanwhile = async {
        gate.reached.acquire().await.unwrap().forget();
        let answer = gateway.post(&tenant, "/api/v1/charges", &charge_body()).await.expect(503);
        assert_eq!(answer.code(), "overloaded");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert!(answer.header("ratelimit").is_some());
        let answer = gateway.post(&tenant, "/v2/balance", &json!({})).await.expect(503);
        assert_eq!((answer.code().as_str(), answer.json()["statusCode"].as_u64()), ("overloaded", Some(503)));
        // These have places of their own.
        for path in ["/health/live", "/health/ready"] {
            gateway.send(Request::new("GET", path)).await.expect(200);
        }
        gateway.send(Request::post(&format!("/callbacks/{CALLBACK_SECRET}"), "{}")).await.expect(200);
        gateway.send(Request::post("/v2/oauth/token", "{}")).await.expect(401);
        gate.open.add_permits(1);
    };
    let (answer, ()) = tokio::join!(paying, meanwhile);
    answer.expect(201);
    // Nothing was done.
    gateway.get(&tenant, "/api/v1/charges/order:1").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_client_is_gone_keeps_its_place() {
    let gateway = Gateway::with(|config| config.requests_at_once = 1, Some(gate())).await;
    let tenant = gateway.rich().await;
    let gate = gateway.provider.gate.as_ref().unwrap();
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let request = Request::post("/api/v1/withdrawals", &withdrawal_body().to_string()).token(&tenant);
    stream.write_all(&request.bytes()).await.unwrap();
    gate.reached.acquire().await.unwrap().forget();
    stream.set_zero_linger().unwrap();
    drop(stream);
    // There is one worker thread: when it answers this, it has seen the reset.
    gateway.send(Request::new("GET", "/health/live")).await.expect(200);
    gateway.get(&tenant, "/api/v1/balance").await.expect(503);
    gate.open.add_permits(1);
    let deadline = Instant::now() + PATIENCE;
    while gateway.get(&tenant, "/api/v1/balance").await.status != 200 {
        assert!(Instant::now() < deadline, "the place is never free again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_can_not_have_all_places() {
    let change = |config: &mut pix_http::HttpConfig| {
        (config.requests_at_once, config.requests_at_once_per_key) = (4, Some(1));
    };
    let gateway = Gateway::with(change, Some(gate())).await;
    let (tenant, other) = (gateway.rich().await, gateway.tenant(1).await);
    let gate = gateway.provider.gate.as_ref().unwrap();
    let body = withdrawal_body();
    let paying = gateway.post(&tenant, "/api/v1/withdrawals", &body);
    let meanwhile = async {
        gate.reached.acquire().await.unwrap().forget();
        let answer = gateway.get(&tenant, "/api/v1/balance").await.expect(503);
        assert_eq!((answer.code().as_str(), answer.header("retry-after")), ("overloaded", Some("1")));
        gateway.get(&other, "/api/v1/balance").await.expect(200);
        // Whoever has no token that opens has a share too.
        gateway.send(Request::new("GET", "/api/v1/balance")).await.expect(401);
        gate.open.add_permits(1);
    };
    let (answer, ()) = tokio::join!(paying, meanwhile);
    answer.expect(201);
    gateway.get(&tenant, "/api/v1/balance").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_ins_that_do_not_come_to_an_end_take_no_places_of_others() {
    let change = |config: &mut pix_http::HttpConfig| {
        (config.requests_at_once, config.sign_ins_at_once) = (1, 1);
        config.rate_token_per_minute = 100_000;
        config.body_deadline = PATIENCE;
    };
    let gateway = Gateway::with(change, None).await;
    let tenant = gateway.tenant(0).await;
    let sign_in = |secret: &str| {
        let body = json!({"public_id": tenant.public_id, "secret": secret}).to_string();
        gateway.send(Request::post("/v2/oauth/token", &body))
    };
    // One that is sent slowly takes no place.
    let mut slow = TcpStream::connect(gateway.address).await.unwrap();
    let head = "POST /v2/oauth/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n";
    slow.write_all(head.as_bytes()).await.unwrap();
    sign_in("wrong").await.expect(401);
    let meanwhile = async {
        let deadline = Instant::now() + PATIENCE;
        let refused = loop {
            let answer = sign_in("wrong").await;
            if answer.status == 503 {
                break answer;
            }
            assert!(Instant::now() < deadline, "never refused");
        };
        assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("overloaded", Some("1")));
        gateway.get(&tenant, "/api/v1/balance").await.expect(200);
        SLOW_HASHES.add_permits(1);
    };
    let hashed = async {
        loop {
            let answer = sign_in("slow").await;
            // The other one may have been there first.
            if answer.status != 503 {
                break answer;
            }
        }
    };
    let (hashed, ()) = tokio::join!(hashed, meanwhile);
    hashed.expect(401);
    sign_in("wrong").await.expect(401);
    slow.write_all(b"{}").await.unwrap();
    Answer::parse(&rest(&mut slow).await).expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_so_many_connections_and_others_have_theirs() {
    let gateway = Gateway::with(|config| config.connections_per_client = 2, None).await;
    let mut first = TcpStream::connect(gateway.address).await.unwrap();
    let mut second = TcpStream::connect(gateway.address).await.unwrap();
    assert!(lives(&mut first).await && lives(&mut second).await);
    let mut third = TcpStream::connect(gateway.address).await.unwrap();
    assert!(!lives(&mut third).await, "closed");
    let mut other = connect_from("127.0.0.2", gateway.address).await;
    assert!(lives(&mut other).await);
    assert!(lives(&mut first).await && lives(&mut second).await);
    drop(second);
    until_admitted(&gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_is_many_clients_and_all_connections_have_a_cap() {
    let change = |config: &mut pix_http::HttpConfig| {
        (config.connections, config.connections_per_client) = (3, 1);
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    };
    let gateway = Gateway::with(change, None).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        assert!(lives(&mut stream).await);
        held.push(stream);
    }
    for local in ["127.0.0.1", "127.0.0.2"] {
        let mut stream = connect_from(local, gateway.address).await;
        assert!(!lives(&mut stream).await, "closed");
    }
    drop(held);
    until_admitted(&gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let gateway = Gateway::with(|config| config.head_deadline = SHORT, None).await;
    for begun in ["", "GET /health/live HTTP/1.1\r\nHost: x\r\n", "GET /health/live HT"] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{begun:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_trickles_has_the_same_deadline() {
    let gateway = Gateway::with(|config| config.head_deadline = SHORT, None).await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    stream.write_all(b"GET /health/live HTTP/1.1\r\nX: ").await.unwrap();
    // Each byte comes well within the deadline; all of them together don't.
    while stream.write_all(b"x").await.is_ok() {
        assert!(Instant::now() < deadline, "it goes on for as long as bytes come");
        tokio::time::sleep(SHORT / 10).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed() {
    let gateway = Gateway::with(|config| config.keep_alive = SHORT, None).await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    assert!(lives(&mut stream).await);
    assert_eq!(rest(&mut stream).await, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_end_the_connection() {
    let change = |config: &mut pix_http::HttpConfig| {
        config.unread_deadline = SHORT;
        config.connections_per_client = 1;
    };
    let gateway = Gateway::with(change, None).await;
    let socket = TcpSocket::new_v4().unwrap();
    // Little room, so that little has to be answered before there is none.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(gateway.address).await.unwrap();
    let many = ALIVE.repeat(1_000);
    let asking = async { while stream.write_all(&many).await.is_ok() {} };
    timeout(PATIENCE, asking).await.expect("the connection is held by whoever does not read");
    // What it held is free.
    until_admitted(&gateway).await;
}
