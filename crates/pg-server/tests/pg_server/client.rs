//! A client that speaks as much of the protocol as these tests need, byte by byte if they like.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::SOON;

/// A message: its type and body.
pub type Message = (u8, Vec<u8>);

#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
}

impl Client {
    pub fn connect(port: u16) -> io::Result<Self> {
        Self::connect_with(port, "postgres", &[])
    }

    pub fn connect_with(port: u16, database: &str, parameters: &[(&str, &str)]) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SOON))?;
        let mut client = Self { stream };
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for (name, value) in [("user", "pix"), ("database", database)].iter().chain(parameters) {
            body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        body.push(0);
        client.send(&[&length(&body)[..], &body].concat())?;
        client.answer()?;
        Ok(client)
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// All up to `ReadyForQuery`. An error of the server is an error, after that.
    pub fn answer(&mut self) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        let mut error = None;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'Z' => return error.map_or(Ok(messages), Err),
                b'E' => error = Some(io::Error::other(String::from_utf8_lossy(&body).into_owned())),
                _ => {}
            }
            // An error before the first readiness is the last message.
            messages.push((kind, body));
        }
    }

    /// The first column of the rows of a simple query.
    pub fn ask(&mut self, sql: &str) -> io::Result<Vec<String>> {
        self.send(&simple(sql))?;
        Ok(self
            .answer()?
            .into_iter()
            .filter(|(kind, _)| *kind == b'D')
            .map(|(_, body)| first_column(&body))
            .collect())
    }

    /// A statement in the extended protocol.
    pub fn execute(&mut self, sql: &str) -> io::Result<()> {
        self.send(&extended(sql))?;
        self.answer().map(drop)
    }

    /// Whether nothing comes for a while.
    pub fn is_kept_waiting(&mut self, moment: Duration) -> bool {
        self.stream.set_read_timeout(Some(moment)).unwrap();
        let nothing =
            self.stream.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        self.stream.set_read_timeout(Some(SOON)).unwrap();
        nothing
    }

    /// What comes before the line ends.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset is an end too.
        let end = self.stream.read_to_end(&mut bytes);
        assert!(!end.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "the line did not end");
        bytes
    }

    fn message(&mut self) -> io::Result<Message> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header)?;
        let [kind, length @ ..] = header;
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() - 4];
        self.stream.read_exact(&mut body)?;
        Ok((kind, body))
    }
}

pub fn simple(sql: &str) -> Vec<u8> {
    typed(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

/// Parse, bind, execute and sync.
pub fn extended(sql: &str) -> Vec<u8> {
    let parse = typed(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    [parse, typed(b'B', b"\0\0\0\0\0\0\0\0"), typed(b'E', b"\0\0\0\0\0"), typed(b'S', b"")].concat()
}

/// Parse, describe and sync.
pub fn prepared(sql: &str) -> Vec<u8> {
    let parse = typed(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    [parse, typed(b'D', b"S\0"), typed(b'S', b"")].concat()
}

pub fn typed(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &length(body)[..], body].concat()
}

fn length(body: &[u8]) -> [u8; 4] {
    u32::try_from(body.len() + 4).unwrap().to_be_bytes()
}

fn first_column(body: &[u8]) -> String {
    let (length, rest) = body.get(2..).unwrap().split_first_chunk().unwrap();
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap();
    String::from_utf8(rest.get(..length).unwrap().to_vec()).unwrap()
}
