//! What a client of `PostgreSQL` sends, cut into messages, and which statements it executes with them; and how often
//! the server has said that it is ready. It must never know sockets.
//!
//! Source: PostgreSQL 15, documentation, 55.7 "Message Formats".

use std::collections::HashMap;
use std::mem;

/// The codes in the place of a protocol version.
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
/// The first byte of a TLS client's hello. A start-up message begins with a zero.
const TLS_HANDSHAKE: u8 = 0x16;
/// A length counts its own four bytes.
const LENGTH_BYTES: usize = 4;

/// Where in its conversation a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Messages have no type yet.
    Opening,
    Typed,
    /// Encrypted, or not this protocol: bytes.
    Opaque,
}

/// The end of an exchange: a message that makes the server answer with `ReadyForQuery`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    /// A `Sync`; else a simple `Query`.
    pub(super) by_sync: bool,
    /// The texts of the statements that it executed.
    pub(super) statements: Vec<String>,
}

/// A piece of the stream, whole: one message, or opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// What ends with it.
    pub(super) ends: Option<Exchange>,
    /// Whether the server needn't answer it before more comes: nothing is lost by keeping it until then.
    pub(super) can_wait: bool,
}

/// Takes bytes as they come and gives messages. Keeps what isn't whole yet.
#[derive(Debug)]
pub(super) struct Frames {
    phase: Phase,
    buffer: Vec<u8>,
    prepared: HashMap<String, String>,
    portals: HashMap<String, String>,
    executed: Vec<String>,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Opening,
            buffer: Vec::new(),
            prepared: HashMap::new(),
            portals: HashMap::new(),
            executed: Vec::new(),
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole piece; none until more is fed.
    pub(super) fn next(&mut self) -> Option<Frame> {
        if self.phase == Phase::Opening && self.buffer.first() == Some(&TLS_HANDSHAKE) {
            self.phase = Phase::Opaque;
        }
        let type_bytes = match self.phase {
            Phase::Opening => 0,
            Phase::Typed => 1,
            Phase::Opaque => return self.rest(),
        };
        let length = u32::from_be_bytes(*self.buffer.get(type_bytes..)?.first_chunk()?);
        let Some(length) = usize::try_from(length).ok().filter(|length| *length >= LENGTH_BYTES) else {
            // The server will complain.
            self.phase = Phase::Opaque;
            return self.rest();
        };
        let (message, _) = self.buffer.split_at_checked(type_bytes + length)?;
        let bytes = message.to_vec();
        self.buffer.drain(..bytes.len());
        let typed = self.phase == Phase::Typed;
        let can_wait = typed && matches!(bytes.first(), Some(b'P' | b'B' | b'D' | b'E' | b'C'));
        let ends = if typed { self.understand(&bytes) } else { self.open(&bytes) };
        Some(Frame { bytes, ends, can_wait })
    }

    fn rest(&mut self) -> Option<Frame> {
        let bytes = mem::take(&mut self.buffer);
        (!bytes.is_empty()).then_some(Frame { bytes, ends: None, can_wait: false })
    }

    fn open(&mut self, message: &[u8]) -> Option<Exchange> {
        let code = message.get(LENGTH_BYTES..).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes);
        self.phase = match code {
            // The start-up message comes after the answer.
            Some(SSL_REQUEST | GSS_REQUEST) => Phase::Opening,
            Some(CANCEL_REQUEST) => Phase::Opaque,
            _ => Phase::Typed,
        };
        None
    }

    fn understand(&mut self, message: &[u8]) -> Option<Exchange> {
        let (kind, rest) = message.split_first()?;
        let mut body = Body(rest.get(LENGTH_BYTES..)?);
        match kind {
            b'Q' => {
                self.executed.clear();
                return Some(Exchange { by_sync: false, statements: vec![body.text()] });
            }
            // The old call of a function.
            b'F' => return Some(Exchange { by_sync: false, statements: Vec::new() }),
            b'S' => return Some(Exchange { by_sync: true, statements: mem::take(&mut self.executed) }),
            b'P' => {
                let name = body.text();
                self.prepared.insert(name, body.text());
            }
            b'B' => {
                let portal = body.text();
                let text = self.prepared.get(&body.text()).cloned().unwrap_or_default();
                self.portals.insert(portal, text);
            }
            b'E' => self.executed.push(self.portals.get(&body.text()).cloned().unwrap_or_default()),
            b'C' => {
                let of_statement = body.byte() == Some(b'S');
                let names = if of_statement { &mut self.prepared } else { &mut self.portals };
                names.remove(&body.text());
            }
            _ => {}
        }
        None
    }
}

/// The fields of a message, in order.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn text(&mut self) -> String {
        let mut parts = self.0.splitn(2, |byte| *byte == 0);
        let text = parts.next().map(|text| String::from_utf8_lossy(text).into_owned());
        self.0 = parts.next().unwrap_or_default();
        text.unwrap_or_default()
    }
}

/// What the server answers, counted and not kept.
#[derive(Debug, Default)]
pub(super) struct Answers {
    ready: usize,
    /// The beginning of a message: its type and length, as far as they have come.
    header: Vec<u8>,
    /// Bytes of the present message that are still to come.
    to_skip: usize,
    /// After the first message. Before it the server may answer a request for encryption with one byte.
    begun: bool,
    opaque: bool,
}

impl Answers {
    /// How often the server was ready for a query; also once at the beginning.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !self.opaque && !bytes.is_empty() {
            let (_, rest) = bytes.split_at(self.to_skip.min(bytes.len()));
            self.to_skip -= bytes.len() - rest.len();
            bytes = rest;
            let Some((byte, rest)) = bytes.split_first() else { return };
            bytes = rest;
            match byte {
                b'N' if !self.begun => {}
                b'S' | b'G' if !self.begun => self.opaque = true,
                _ => self.head(*byte),
            }
        }
    }

    fn head(&mut self, byte: u8) {
        self.begun = true;
        self.header.push(byte);
        let Some((kind, length)) = self.header.split_first() else { return };
        let Some(length) = length.first_chunk().copied().map(u32::from_be_bytes) else { return };
        self.ready += usize::from(*kind == b'Z');
        match usize::try_from(length).ok().and_then(|length| length.checked_sub(LENGTH_BYTES)) {
            Some(body) => self.to_skip = body,
            None => self.opaque = true,
        }
        self.header.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind], u32::try_from(body.len() + 4).unwrap().to_be_bytes().as_slice(), body].concat()
    }

    fn opening(code: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 8).unwrap();
        [length.to_be_bytes().as_slice(), &code.to_be_bytes(), body].concat()
    }

    fn startup() -> Vec<u8> {
        opening(196_608, b"user\0pix\0\0")
    }

    fn all(frames: &mut Frames) -> Vec<Frame> {
        std::iter::from_fn(|| frames.next()).collect()
    }

    fn conversation() -> Vec<u8> {
        [
            opening(SSL_REQUEST, b""),
            startup(),
            typed(b'Q', b"BEGIN\0"),
            typed(b'P', b"s1\0SELECT $1\0\0\0"),
            typed(b'D', b"Ss1\0"),
            typed(b'S', b""),
            typed(b'B', b"\0s1\0\0\0\0\0\0\0"),
            typed(b'E', b"\0\0\0\0\0"),
            typed(b'S', b""),
            typed(b'C', b"Ss1\0"),
            typed(b'S', b""),
            typed(b'X', b""),
        ]
        .concat()
    }

    fn ends(frames: Vec<Frame>) -> Vec<(bool, Vec<String>)> {
        frames.into_iter().filter_map(|frame| frame.ends).map(|end| (end.by_sync, end.statements)).collect()
    }

    #[test]
    fn messages_are_the_same_however_the_bytes_are_cut() {
        let bytes = conversation();
        let mut whole = Frames::new();
        whole.feed(&bytes);
        let expected = all(&mut whole);
        assert_eq!(expected.len(), 12);
        for size in 1..bytes.len() {
            let mut frames = Frames::new();
            let mut got = Vec::new();
            for piece in bytes.chunks(size) {
                frames.feed(piece);
                got.extend(all(&mut frames));
            }
            assert_eq!(got, expected, "pieces of {size}");
        }
        let joined: Vec<u8> = expected.iter().flat_map(|frame| frame.bytes.clone()).collect();
        assert_eq!(joined, bytes);
    }

    #[test]
    fn an_exchange_knows_what_it_executed() {
        let mut frames = Frames::new();
        frames.feed(&conversation());
        let expected = [
            (false, vec!["BEGIN".to_owned()]),
            (true, vec![]),
            (true, vec!["SELECT $1".to_owned()]),
            (true, vec![]),
        ];
        assert_eq!(ends(all(&mut frames)), expected);
    }

    #[test]
    fn what_is_encrypted_passes_as_it_is() {
        let mut frames = Frames::new();
        frames.feed(&opening(SSL_REQUEST, b""));
        assert_eq!(all(&mut frames).len(), 1);
        let hello = [TLS_HANDSHAKE, 3, 1, 0, 5, b'S', 0, 0, 0, 4];
        frames.feed(&hello);
        assert_eq!(all(&mut frames), [Frame { bytes: hello.to_vec(), ends: None, can_wait: false }]);
    }

    #[test]
    fn a_request_to_cancel_ends_nothing() {
        let mut frames = Frames::new();
        frames.feed(&opening(CANCEL_REQUEST, &[0, 0, 0, 1, 0, 0, 0, 2]));
        assert_eq!(ends(all(&mut frames)), []);
    }

    #[test]
    fn an_impossible_length_passes_as_it_is() {
        let mut frames = Frames::new();
        frames.feed(&[0, 0, 0, 3, 9]);
        assert_eq!(all(&mut frames), [Frame { bytes: vec![0, 0, 0, 3, 9], ends: None, can_wait: false }]);
    }

    #[test]
    fn only_what_the_server_must_answer_at_once_cannot_wait() {
        let mut frames = Frames::new();
        frames.feed(&conversation());
        let waiting: String =
            all(&mut frames).iter().map(|frame| if frame.can_wait { 'w' } else { '.' }).collect();
        assert_eq!(waiting, "...ww.ww.w..");
    }

    #[test]
    fn the_server_is_ready_as_often_as_it_says_so() {
        let bytes = [
            b"N".to_vec(),
            typed(b'R', &[0, 0, 0, 0]),
            typed(b'S', b"server_version\0fifteen\0"),
            typed(b'Z', b"I"),
            typed(b'D', b"Z\0\0\0\x05I"),
            typed(b'Z', b"T"),
            typed(b'N', b"a notice\0"),
        ]
        .concat();
        for size in 1..=bytes.len() {
            let mut answers = Answers::default();
            for piece in bytes.chunks(size) {
                answers.feed(piece);
            }
            assert_eq!(answers.ready(), 2, "pieces of {size}");
        }
    }
}
