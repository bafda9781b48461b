//! A line to a server that a test can cut, hold and refuse. It forwards bytes both ways between the clients of a
//! loopback port and the server, and reads what the clients say, so as to cut at a statement and not at a time. It must
//! never change a byte.
//!
//! ```no_run
//! # fn main() -> Result<(), pix_pg_server::PgServerError> {
//! use pix_pg_server::{Cut, CutPoint, CutProxy, CutSide};
//!
//! # let server = pix_pg_server::PgServer::start(pix_pg_server::Options::default())?;
//! let line = CutProxy::start(server.port())?;
//! println!("{}", line.url("postgres"));
//! // The server commits, the client never hears of it.
//! line.arm(Cut { at: CutPoint::Text("COMMIT".into()), side: CutSide::After, nth: 1 });
//! line.await_cuts(1, std::time::Duration::from_secs(10))?;
//! # Ok(())
//! # }
//! ```

mod frames;
mod line;

use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::{PgServerError, io};
use crate::process::poll;

use frames::Exchange;
use line::Line;

/// At which exchanges a line may be cut. An exchange ends with a message that the server answers with
/// `ReadyForQuery`: a `Sync`, or a simple `Query`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutPoint {
    /// A `Sync` after at least one `Execute`: a statement of the extended protocol. One that only prepares, describes or
    /// closes isn't counted.
    Sync,
    /// As [`CutPoint::Sync`], and each simple `Query`: any statement.
    Statement,
    /// An exchange of either kind that executes a statement with this in its text, in upper or lower case.
    Text(String),
}

/// On which side of the last message of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutSide {
    /// None of the messages of the exchange is forwarded, unless the client asked for an answer halfway (`Flush`). The
    /// server loses its client and rolls back.
    Before,
    /// It is forwarded, and nothing of what the server answers to it reaches the client.
    After,
}

/// When to cut: once, on the connection that comes to it first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Which exchanges count.
    pub at: CutPoint,
    /// Before or after.
    pub side: CutSide,
    /// At which of them, over all connections, from 1 and from the arming on. 0 is taken for 1.
    pub nth: usize,
}

/// A proxy on a loopback port. Dropping it closes all connections.
#[derive(Debug)]
pub struct CutProxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// What the threads of a proxy share.
#[derive(Debug)]
struct Shared {
    target: u16,
    state: Mutex<State>,
    /// Told when `held` ends and when connections are closed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    armed: Option<Cut>,
    cuts: usize,
    accepted: usize,
    held: bool,
    /// So many bytes of answers still pass before the line hangs.
    left: Option<usize>,
    refusing: bool,
    ended: bool,
    /// How often all connections were closed: one that is being made belongs to those before.
    closings: usize,
    lines: Vec<Arc<Line>>,
}

impl CutProxy {
    /// Starts one before the server that listens on `target_port` of 127.0.0.1, now or later.
    pub fn start(target_port: u16) -> Result<Self, PgServerError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("listen for the proxy"))?;
        let port = listener.local_addr().map_err(io("listen for the proxy"))?.port();
        let shared = Shared { target: target_port, state: Mutex::default(), changed: Condvar::new() };
        let shared = Arc::new(shared);
        let accepting = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Ok(Self { port, shared, accepting: Some(accepting) })
    }

    /// The port that clients connect to, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of one of the server's databases over this line.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://pix@127.0.0.1:{}/{database}", self.port)
    }

    /// Cuts once, as told, in place of what was armed before.
    pub fn arm(&self, cut: Cut) {
        self.shared.state().armed = Some(cut);
    }

    /// Cuts just after the `nth` statement of the extended protocol from now on was forwarded: it is executed, and its
    /// client isn't told.
    pub fn arm_cut_after_sync(&self, nth: usize) {
        self.arm(Cut { at: CutPoint::Sync, side: CutSide::After, nth });
    }

    /// Cuts just before the `nth` statement of the extended protocol from now on is forwarded.
    pub fn arm_cut_before_sync(&self, nth: usize) {
        self.arm(Cut { at: CutPoint::Sync, side: CutSide::Before, nth });
    }

    /// Cuts just after the next exchange that executes a statement with `text` in it was forwarded.
    pub fn arm_cut_after_next(&self, text: &str) {
        self.arm(Cut { at: CutPoint::Text(text.into()), side: CutSide::After, nth: 1 });
    }

    /// Cuts just before the end of the next exchange that executes a statement with `text` in it.
    pub fn arm_cut_before_next(&self, text: &str) {
        self.arm(Cut { at: CutPoint::Text(text.into()), side: CutSide::Before, nth: 1 });
    }

    /// Takes back what was armed and has not cut yet.
    pub fn disarm(&self) {
        self.shared.state().armed = None;
    }

    /// Whether a cut is still to come.
    pub fn is_armed(&self) -> bool {
        self.shared.state().armed.is_some()
    }

    /// How often an armed cut was made. It is counted when the line is cut; after a [`CutSide::After`] the server may
    /// still be executing.
    pub fn cuts(&self) -> usize {
        self.shared.state().cuts
    }

    /// How many connections were taken, refused ones too.
    pub fn accepted(&self) -> usize {
        self.shared.state().accepted
    }

    /// How many connections there are. One that was cut counts until the server has answered what it was sent.
    pub fn open(&self) -> usize {
        self.shared.state().lines.len()
    }

    /// Waits until `cuts()` is at least `count`.
    pub fn await_cuts(&self, count: usize, limit: Duration) -> Result<(), PgServerError> {
        poll("the cut of the line", limit, || Ok((self.cuts() >= count).then_some(())))
    }

    /// Lets the line hang: connections stay and are taken, and no byte passes, nor an end.
    pub fn stop_forwarding(&self) {
        self.shared.state().held = true;
    }

    /// Lets the line hang as [`CutProxy::stop_forwarding`] does, when so many more bytes of answers have passed.
    pub fn stop_after(&self, bytes: usize) {
        self.shared.state().left = Some(bytes);
    }

    /// Lets everything pass again, beginning with what was held.
    pub fn resume(&self) {
        let mut state = self.shared.state();
        (state.held, state.left) = (false, None);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Closes all connections, on both sides. New ones are taken.
    pub fn close_all(&self) {
        let mut state = self.shared.state();
        state.closings += 1;
        for line in &state.lines {
            line.close();
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// While `true`, new connections are closed at once. Those that there are stay.
    pub fn refuse(&self, refusing: bool) {
        self.shared.state().refusing = refusing;
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.close_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            let mut state = self.state();
            if state.ended {
                return;
            }
            // A client that was gone before it was taken is not a connection.
            let Ok(client) = client else { continue };
            state.accepted += 1;
            if state.refusing {
                let _ = client.shutdown(Shutdown::Both);
                continue;
            }
            let closings = state.closings;
            drop(state);
            let shared = Arc::clone(self);
            thread::spawn(move || shared.serve(client, closings));
        }
    }

    /// Connects a client through and forwards until both ways have ended.
    fn serve(self: Arc<Self>, client: TcpStream, closings: usize) {
        // No server: the client sees its connection end.
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.target)) else { return };
        let Ok(line) = Line::new(client, server) else { return };
        let line = Arc::new(line);
        {
            let mut state = self.state();
            if state.closings != closings {
                return;
            }
            state.lines.push(Arc::clone(&line));
        }
        let answering = thread::spawn({
            let (shared, line) = (Arc::clone(&self), Arc::clone(&line));
            move || line.forward_answers(&shared)
        });
        line.forward_requests(&self);
        let _ = answering.join();
        self.state().lines.retain(|other| !Arc::ptr_eq(other, &line));
    }

    /// Waits while the line hangs. Whether the connection is still to be served.
    fn pass(&self, line: &Line) -> bool {
        let state = self.state();
        let waited = self.changed.wait_while(state, |state| state.held && !line.is_closed());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        !line.is_closed()
    }

    /// How many of so many bytes of an answer pass at once: all, but where the line is about to hang.
    fn take(&self, bytes: usize) -> usize {
        let mut state = self.state();
        let Some(left) = &mut state.left else { return bytes };
        let taken = bytes.min(*left);
        *left -= taken;
        if *left == 0 {
            (state.held, state.left) = (true, None);
        }
        taken
    }

    /// Closes a connection, and wakes what waits for it.
    fn close(&self, line: &Line) {
        let state = self.state();
        line.close();
        drop(state);
        self.changed.notify_all();
    }

    /// Counts an exchange, and takes the armed cut if this is the one.
    fn cut_here(&self, exchange: &Exchange) -> Option<CutSide> {
        let mut state = self.state();
        let cut = state.armed.as_mut().filter(|cut| cut.at.counts(exchange))?;
        cut.nth = cut.nth.saturating_sub(1);
        let side = (cut.nth == 0).then_some(cut.side)?;
        state.armed = None;
        Some(side)
    }

    fn count_cut(&self) {
        self.state().cuts += 1;
    }
}

impl CutPoint {
    fn counts(&self, exchange: &Exchange) -> bool {
        match self {
            Self::Sync => exchange.by_sync && !exchange.statements.is_empty(),
            Self::Statement => !exchange.statements.is_empty(),
            Self::Text(text) => {
                let text = text.to_lowercase();
                exchange.statements.iter().any(|statement| statement.to_lowercase().contains(&text))
            }
        }
    }
}
