//! One connection through the proxy: two sockets, and a thread for each way.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::frames::{Answers, Frames};
use super::{CutSide, Shared};

const CHUNK: usize = 64 * 1024;
/// A server is ready once before it was asked anything.
const READY_AT_FIRST: usize = 1;

/// A client's connection and the server's.
#[derive(Debug)]
pub(super) struct Line {
    client: TcpStream,
    server: TcpStream,
    /// The client gets nothing any more.
    cut: AtomicBool,
    /// Both ways end.
    closed: AtomicBool,
    /// How many exchanges the server was given the end of.
    forwarded: AtomicUsize,
}

impl Line {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> io::Result<Self> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (cut, closed, forwarded) = Default::default();
        Ok(Self { client, server, cut, closed, forwarded })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Ends both connections and wakes the threads that read from them. Those that wait are woken by [`Shared::close`].
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // They may have ended by themselves.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    /// From the client to the server, message by message, until an end or a cut.
    pub(super) fn forward_requests(&self, shared: &Shared) {
        let mut frames = Frames::new();
        let mut chunk = vec![0; CHUNK];
        // The messages of an exchange, kept until the server has to have them: a cut before its end drops them all.
        let mut kept = Vec::new();
        loop {
            let read = (&self.client).read(&mut chunk).unwrap_or(0);
            if !shared.pass(self) {
                return;
            }
            let bytes = chunk.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                return self.end_requests(&kept);
            }
            frames.feed(bytes);
            let mut ready = Vec::new();
            while let Some(frame) = frames.next() {
                let ends = frame.ends.is_some();
                let side = frame.ends.and_then(|exchange| shared.cut_here(&exchange));
                if side == Some(CutSide::Before) {
                    return self.cut(CutSide::Before, &ready, shared);
                }
                self.forwarded.fetch_add(usize::from(ends), Ordering::SeqCst);
                kept.extend_from_slice(&frame.bytes);
                if !frame.can_wait {
                    ready.append(&mut kept);
                }
                if side.is_some() {
                    return self.cut(CutSide::After, &ready, shared);
                }
            }
            if (&self.server).write_all(&ready).is_err() {
                // That end tells the client, once it has read the last answers.
                return;
            }
        }
    }

    /// From the server to the client, until an end. After a cut, to nobody.
    pub(super) fn forward_answers(&self, shared: &Shared) {
        let mut answers = Answers::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = (&self.server).read(&mut chunk).unwrap_or(0);
            let bytes = chunk.get(..read).unwrap_or_default();
            answers.feed(bytes);
            if self.cut.load(Ordering::SeqCst) && !bytes.is_empty() {
                // Until it has answered, the server isn't told that its client is gone: it might stop halfway.
                if answers.ready() >= READY_AT_FIRST + self.forwarded.load(Ordering::SeqCst) {
                    let _ = self.server.shutdown(Shutdown::Write);
                }
                continue;
            }
            let mut passes = shared.pass(self) && !bytes.is_empty();
            let mut rest = bytes;
            while passes && !rest.is_empty() {
                let (now, later) = rest.split_at(shared.take(rest.len()));
                rest = later;
                passes = (&self.client).write_all(now).is_ok() && (rest.is_empty() || shared.pass(self));
            }
            if !passes {
                return shared.close(self);
            }
        }
    }

    /// The client is gone: the server ends when it has done what it was told.
    fn end_requests(&self, kept: &[u8]) {
        let _ = (&self.server).write_all(kept);
        let _ = self.server.shutdown(Shutdown::Write);
    }

    fn cut(&self, side: CutSide, ready: &[u8], shared: &Shared) {
        // Set before the server can answer, and looked at after an answer is read.
        self.cut.store(true, Ordering::SeqCst);
        let _ = (&self.server).write_all(ready);
        let _ = self.client.shutdown(Shutdown::Both);
        if side == CutSide::Before {
            let _ = self.server.shutdown(Shutdown::Write);
        }
        shared.count_cut();
    }
}
