//! A command goes on, whatever becomes of the connection that brought it.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::support::{Gate, Gateway, Request, withdrawal_body};

/// How long money may take to arrive before the test fails.
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_reset_never_cancels_a_withdrawal() {
    const CONNECTIONS: usize = 10;
    let gate = Gate { reached: Semaphore::new(0), open: Semaphore::new(0) };
    let gateway = Gateway::with(|_config| {}, Some(gate)).await;
    let tenant = gateway.rich().await;
    let gate = gateway.provider.gate.as_ref().unwrap();
    for number in 0..CONNECTIONS {
        let mut body = withdrawal_body();
        body["external_id"] = json!(format!("payout-{number}"));
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let request = Request::post("/api/v1/withdrawals", &body.to_string()).token(&tenant);
        stream.write_all(&request.bytes()).await.unwrap();
        gate.reached.acquire().await.unwrap().forget();
        // Money is held and the provider is being called: now the client is gone, with a reset.
        stream.set_zero_linger().unwrap();
        drop(stream);
    }
    // There is one worker thread: when it answers this, it has seen every reset.
    gateway.send(Request::new("GET", "/health/live")).await.expect(200);
    gate.open.add_permits(CONNECTIONS);

    let deadline = Instant::now() + PATIENCE;
    while gateway.services.balances(tenant.id).await != (10_000_000 - 10_000, 0) {
        assert!(Instant::now() < deadline, "{:?}", gateway.services.balances(tenant.id).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(gateway.provider.fake.total_sends(), 10);
    let done = gateway.get(&tenant, "/api/v1/withdrawals?status=completed").await.expect(200).json();
    assert_eq!(done["data"].as_array().unwrap().len(), CONNECTIONS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_stop_answers_what_is_in_progress() {
    let gate = Gate { reached: Semaphore::new(0), open: Semaphore::new(0) };
    let gateway = Gateway::with(|_config| {}, Some(gate)).await;
    let tenant = gateway.rich().await;
    let provider = gateway.provider.clone();
    let gate = provider.gate.as_ref().unwrap();
    let body = withdrawal_body();
    let sending = gateway.post(&tenant, "/api/v1/withdrawals", &body);
    let opening = async {
        gate.reached.acquire().await.unwrap().forget();
        gate.open.add_permits(1);
    };
    let (answer, ()) = tokio::join!(sending, opening);
    answer.expect(201);
    let address = gateway.address;
    Box::pin(gateway.stop()).await;
    assert!(TcpStream::connect(address).await.is_err());
}
