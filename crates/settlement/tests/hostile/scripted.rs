//! A TCP server that does as the script says: one act a request, one request a connection. Token requests are answered
//! beside the script.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The client secret, and the token, and a part of the callback URL: what must never be told.
pub const SECRET: &str = "s3cr3t-s3cr3t";

/// What is done with a request.
#[derive(Clone)]
pub enum Act {
    /// These bytes, then the end of the connection.
    Answer(Vec<u8>),
    /// The connection is closed before the request is read.
    CloseUnread,
    /// The connection is closed without an answer.
    CloseAfterReading,
    /// This, and then nothing while the client waits.
    Stall(String),
}

/// An answer with these headers.
pub fn answer(status: u16, headers: &str, body: &str) -> Act {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    Act::Answer(format!("{head}{body}").into_bytes())
}

/// An answer that says to be JSON.
pub fn json(status: u16, body: &str) -> Act {
    answer(status, "content-type: application/json\r\n", body)
}

#[derive(Clone)]
pub struct Request {
    pub head: String,
    pub body: String,
}

#[derive(Default)]
struct Seen {
    acts: VecDeque<Act>,
    requests: Vec<Request>,
    tokens: usize,
}

pub struct ScriptedServer {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    stalled: Arc<Notify>,
    serving: JoinHandle<()>,
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ScriptedServer {
    pub async fn start(acts: Vec<Act>) -> Self {
        let token = format!(r#"{{"access_token":"{SECRET}","token_type":"Bearer","expires_in":3600}}"#);
        Self::start_with_token(json(200, &token), acts).await
    }

    pub async fn start_with_token(token: Act, acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen { acts: acts.into(), ..Seen::default() }));
        let stalled = Arc::new(Notify::new());
        let serving = tokio::spawn(serve(listener, token, Arc::clone(&seen), Arc::clone(&stalled)));
        Self { address, seen, stalled, serving }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests that were read, token requests aside.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub fn seen(&self) -> usize {
        self.requests().len()
    }

    pub fn tokens_given(&self) -> usize {
        self.seen.lock().unwrap().tokens
    }

    pub fn acts_left(&self) -> usize {
        self.seen.lock().unwrap().acts.len()
    }

    /// Waits until a request was read that is not answered.
    pub async fn stalled(&self) {
        self.stalled.notified().await;
    }
}

async fn serve(listener: TcpListener, token: Act, seen: Arc<Mutex<Seen>>, stalled: Arc<Notify>) {
    let mut held = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The first connection is for the token; a later one may be closed before it is known what it is for.
        let unread = {
            let mut seen = seen.lock().unwrap();
            let unread = seen.tokens > 0 && matches!(seen.acts.front(), Some(Act::CloseUnread));
            if unread {
                seen.acts.pop_front();
            }
            unread
        };
        if unread {
            continue;
        }
        let Some(request) = read(&mut stream).await else { continue };
        let act = {
            let mut seen = seen.lock().unwrap();
            if request.head.starts_with("POST /v2/oauth/token ") {
                seen.tokens += 1;
                Some(token.clone())
            } else {
                seen.requests.push(request);
                seen.acts.pop_front()
            }
        };
        match act {
            Some(Act::Answer(bytes)) => {
                // The client may stop reading.
                drop(stream.write_all(&bytes).await);
                drop(stream.shutdown().await);
            }
            Some(Act::Stall(start)) => {
                drop(stream.write_all(start.as_bytes()).await);
                held.push(stream);
                stalled.notify_one();
            }
            Some(Act::CloseAfterReading | Act::CloseUnread) | None => {}
        }
    }
}

/// One whole request, or `None` when the client went.
pub async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(Request { head: head.to_owned(), body: body.to_owned() });
            }
        }
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
}
