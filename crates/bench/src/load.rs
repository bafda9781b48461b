//! The load: keep-alive connections that send a request, read its answer and send the next one. As little work as can
//! be, since it shares the machine with what it measures.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::measure::{Client, Turn};

/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// Makes the next request, whole, head and body; none when there is nothing left to ask.
pub type Next = Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// A connection.
pub struct Connection {
    source: IpAddr,
    address: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
    next: Next,
}

/// An answer's status and body.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr, next: Next) -> anyhow::Result<Self> {
        Self::open_from(IpAddr::V4(Ipv4Addr::LOCALHOST), address, next).await
    }

    /// Connects, as a client with that address of loopback.
    pub async fn open_from(source: IpAddr, address: SocketAddr, next: Next) -> anyhow::Result<Self> {
        let stream = connect(source, address).await?;
        Ok(Self { source, address, stream, buffer: Vec::with_capacity(4096), next })
    }

    /// So many connections that make the same requests.
    pub async fn several(count: u32, address: SocketAddr, next: &Next) -> anyhow::Result<Vec<Self>> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(Self::open(address, Arc::clone(next)).await?);
        }
        Ok(connections)
    }

    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (status, head, length, last) = loop {
            self.read().await?;
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.get(..end).unwrap_or_default();
                let (status, length, last) = read_head(head)?;
                break (status, end + 4, length, last);
            }
        };
        while self.buffer.len() < head + length {
            self.read().await?;
        }
        let body = self.buffer.get(head..head + length).unwrap_or_default().to_vec();
        if last {
            // The server may end a connection in good order at any answer.
            self.stream = connect(self.source, self.address).await?;
        }
        Ok(Answer { status, body })
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        let count = self.stream.read_buf(&mut self.buffer).await?;
        if count == 0 || self.buffer.len() > MAX_ANSWER {
            bail!("the server ended a connection: {}", String::from_utf8_lossy(&self.buffer));
        }
        Ok(())
    }
}

/// Connects from an address of loopback.
pub async fn connect(source: IpAddr, address: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(source, 0))?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Client for Connection {
    async fn turn(&mut self) -> anyhow::Result<Turn> {
        let Some(request) = (self.next)() else { return Ok(Turn::Dry) };
        let answer = self.ask(&request).await?;
        if (200..300).contains(&answer.status) {
            return Ok(Turn::Done);
        }
        bail!("the answer is {}: {}", answer.status, String::from_utf8_lossy(&answer.body))
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// The status, the length of the body, and whether the server closes.
fn read_head(head: &[u8]) -> anyhow::Result<(u16, usize, bool)> {
    let head = std::str::from_utf8(head).context("the head of an answer is not text")?;
    let mut lines = head.split("\r\n");
    let status =
        lines.next().and_then(|line| line.split(' ').nth(1)).context("an answer without a status")?;
    let (mut length, mut last) = (0, false);
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        } else if name.eq_ignore_ascii_case("connection") {
            last = value.trim().eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("an answer of unknown length");
        }
    }
    Ok((status.parse()?, length, last))
}

/// A request, whole.
pub fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: bench\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_answer_is_read() {
        let head = b"HTTP/1.1 201 Created\r\ncontent-length: 17\r\nConnection: close";
        assert_eq!(read_head(head).unwrap(), (201, 17, true));
        assert!(read_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked").is_err());
    }
}
