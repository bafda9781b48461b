//! A receiver of postbacks on loopback that does as the script says, one act a request, and remembers what it saw.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How often a dripping receiver sends a byte. Less than any timeout: it is the sum that must be bounded.
const DRIP_EVERY: Duration = Duration::from_millis(50);

/// What is done with a request.
#[derive(Clone)]
pub enum Act {
    /// These bytes; the connection stays for the next request.
    Answer(Vec<u8>),
    /// These bytes, then the end of the connection.
    AnswerAndClose(Vec<u8>),
    /// Nothing, for ever.
    Hang,
    /// These bytes, then one `x` after the other, for ever.
    Drip(&'static str),
    /// An answer with a body of this many bytes. What of it was taken is told by [`Receiver::flooded`].
    Flood(usize),
}

/// An answer with these headers, each ending in CRLF.
pub fn answer(status: u16, headers: &str, body: &str) -> Act {
    let length = if status == 204 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    Act::Answer(format!("HTTP/1.1 {status} X\r\n{headers}{length}\r\n{body}").into_bytes())
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// All values of a header.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The one value of a header.
    pub fn value(&self, name: &str) -> &str {
        let values = self.values(name);
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        values[0]
    }
}

#[derive(Default)]
struct Seen {
    acts: VecDeque<Act>,
    requests: Vec<Request>,
    connections: usize,
    taken: Option<usize>,
}

pub struct Receiver {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    flooded: Arc<Notify>,
    serving: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Receiver {
    pub async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen { acts: acts.into(), ..Seen::default() }));
        let flooded = Arc::new(Notify::new());
        let serving = tokio::spawn(serve(listener, Arc::clone(&seen), Arc::clone(&flooded)));
        Self { address, seen, flooded, serving }
    }

    pub fn url(&self, rest: &str) -> String {
        format!("http://{}{rest}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    /// Waits for the end of a flood: how many bytes were taken before the connection ended, or `None` for all.
    pub async fn flooded(&self) -> Option<usize> {
        self.flooded.notified().await;
        self.seen.lock().unwrap().taken
    }
}

async fn serve(listener: TcpListener, seen: Arc<Mutex<Seen>>, flooded: Arc<Notify>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        seen.lock().unwrap().connections += 1;
        tokio::spawn(converse(stream, Arc::clone(&seen), Arc::clone(&flooded)));
    }
}

async fn converse(mut stream: TcpStream, seen: Arc<Mutex<Seen>>, flooded: Arc<Notify>) {
    while let Some(request) = read(&mut stream).await {
        let act = {
            let mut seen = seen.lock().unwrap();
            seen.requests.push(request);
            seen.acts.pop_front()
        };
        match act {
            Some(Act::Answer(bytes)) => drop(stream.write_all(&bytes).await),
            Some(Act::AnswerAndClose(bytes)) => {
                drop(stream.write_all(&bytes).await);
                return;
            }
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::Drip(start)) => {
                drop(stream.write_all(start.as_bytes()).await);
                let mut ticks = tokio::time::interval(DRIP_EVERY);
                while stream.write_all(b"x").await.is_ok() {
                    ticks.tick().await;
                }
                return;
            }
            Some(Act::Flood(bytes)) => {
                let taken = Box::pin(flood(&mut stream, bytes)).await;
                seen.lock().unwrap().taken = taken;
                flooded.notify_one();
                return;
            }
            None => return,
        }
    }
}

async fn flood(stream: &mut TcpStream, bytes: usize) -> Option<usize> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok();
    let part = [b'x'; 16 * 1024];
    let mut written = 0;
    while written < bytes {
        match stream.write(&part[..part.len().min(bytes - written)]).await {
            Ok(count) => written += count,
            Err(_) => return Some(written),
        }
    }
    None
}

/// One whole request, or `None` when the sender went.
async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let (line, rest) = head.split_once("\r\n").unwrap();
            let headers: Vec<_> = rest
                .split("\r\n")
                .map(|header| header.split_once(": ").unwrap())
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let request = Request { line: line.to_owned(), headers, body: bytes[end + 4..].to_vec() };
            if request.body.len() >= request.value("content-length").parse().unwrap() {
                return Some(request);
            }
        }
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
}
