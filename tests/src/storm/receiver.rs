//! The receivers of the storm's postbacks: one that answers as a seeded dice says, and one that takes connections and
//! never answers. It notes everything in the order in which it came; it must never know what the right order is.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastrand::Rng;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use uuid::Uuid;

/// The most bytes of a request; a postback has a few kilobytes.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// How many times one event is not answered well at the most, so that the ten attempts of the schedule are enough and no
/// endpoint fails for days.
pub const MAX_MISFORTUNES: u32 = 4;
/// How long a slow answer takes, in milliseconds.
const SLOW_MS: std::ops::Range<u64> = 100..300;
/// What a receiver that wants less asks for, in seconds.
const RETRY_AFTER_S: std::ops::Range<u64> = 1..10;

/// What the dice says to one arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    /// 200.
    Taken,
    /// 200, late.
    TakenSlowly,
    /// 500.
    ServerError,
    /// 429 with `Retry-After`.
    TooMany,
    /// The connection ends instead of an answer.
    Closed,
    /// It was taken, and the connection is cut within the answer, so that the sender can't know.
    Cut,
}

impl Fate {
    /// What is counted as a failure, in the order of the table.
    pub const FAILURES: [Self; 4] = [Self::ServerError, Self::TooMany, Self::Closed, Self::Cut];

    /// For the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Taken => "200",
            Self::TakenSlowly => "200 after 100 to 300 ms",
            Self::ServerError => "500",
            Self::TooMany => "429 with Retry-After",
            Self::Closed => "closed without an answer",
            Self::Cut => "taken, and cut within the answer",
        }
    }

    /// Of the `nth` arrival of an event, from 0. It depends on nothing else, so that it doesn't on who came first.
    fn of(seed: u64, event_id: &str, nth: u32, misfortunes: u32) -> (Self, Rng) {
        let mut hasher = DefaultHasher::new();
        (seed, event_id, nth).hash(&mut hasher);
        let mut dice = Rng::with_seed(hasher.finish());
        let fate = match dice.u32(0..100) {
            0..6 => Self::ServerError,
            6..9 => Self::TooMany,
            9..13 => Self::Closed,
            13..16 => Self::Cut,
            16..21 => Self::TakenSlowly,
            _ => Self::Taken,
        };
        let spared = misfortunes >= MAX_MISFORTUNES && Self::FAILURES.contains(&fate);
        (if spared { Self::Taken } else { fate }, dice)
    }
}

/// One arrival.
#[derive(Debug)]
pub struct Arrival {
    /// The record.
    pub resource: Uuid,
    /// Its version after the event.
    pub sequence: u64,
    /// The event.
    pub event_id: String,
    /// What was done with it.
    pub fate: Fate,
    /// When it had come as a whole, in the receiver's own order.
    pub arrived: u64,
    /// When the receiver began to answer 2xx, in the same order; `None` when it did not, or could not write all of it.
    pub answered: Option<u64>,
    /// When it had come.
    pub at: Instant,
}

/// Everything that came, in order.
#[derive(Debug, Default)]
pub struct Notes {
    /// Arrivals.
    pub arrivals: Vec<Arrival>,
    /// What is wrong with one alone.
    pub problems: Vec<String>,
    events: HashMap<String, Event>,
    /// Counts arrivals and answers.
    ticks: u64,
    in_flight: usize,
    last: Option<Instant>,
}

#[derive(Debug)]
struct Event {
    body: u64,
    arrivals: u32,
    misfortunes: u32,
}

impl Notes {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// Whether nothing is being answered, and nothing has come for `span`.
    pub fn quiet_for(&self, span: Duration) -> bool {
        self.in_flight == 0 && self.last.is_none_or(|last| last.elapsed() >= span)
    }

    /// Notes a request; its place and its fate.
    fn arrive(&mut self, seed: u64, request: &Request) -> anyhow::Result<(usize, Fate, Rng)> {
        let body: Value = serde_json::from_slice(&request.body)?;
        let event_id = body.get("eventId").and_then(Value::as_str).context("no eventId")?;
        ensure!(request.message_id == event_id, "webhook-id is {} and not {event_id}", request.message_id);
        let resource = body.get("uuid").and_then(Value::as_str).context("no uuid")?.parse()?;
        let sequence = body.get("sequence").and_then(Value::as_u64).context("no sequence")?;
        let mut hasher = DefaultHasher::new();
        request.body.hash(&mut hasher);
        let digest = hasher.finish();
        let (arrived, at) = (self.tick(), Instant::now());
        let entry = self.events.entry(event_id.to_owned());
        let event = entry.or_insert(Event { body: digest, arrivals: 0, misfortunes: 0 });
        let (fate, dice) = Fate::of(seed, event_id, event.arrivals, event.misfortunes);
        let same = event.body == digest;
        event.arrivals += 1;
        event.misfortunes += u32::from(Fate::FAILURES.contains(&fate));
        if !same {
            self.problems.push(format!("{event_id} came with two bodies"));
        }
        self.in_flight += 1;
        self.last = Some(at);
        let event_id = event_id.to_owned();
        self.arrivals.push(Arrival { resource, sequence, event_id, fate, arrived, answered: None, at });
        Ok((self.arrivals.len() - 1, fate, dice))
    }

    fn mark(&mut self, place: usize, taken: bool) {
        let tick = taken.then(|| self.tick());
        if let Some(arrival) = self.arrivals.get_mut(place) {
            arrival.answered = tick;
        }
    }
}

struct Request {
    message_id: String,
    body: Vec<u8>,
}

/// See the module.
pub struct Receivers {
    /// The port of the one that answers.
    pub port: u16,
    /// The port of the one that never does.
    pub dead_port: u16,
    notes: Arc<Mutex<Notes>>,
    at_dead: Arc<AtomicUsize>,
}

impl Receivers {
    /// Starts both. They end with the runtime.
    pub async fn start(seed: u64) -> anyhow::Result<Self> {
        let (alive, dead) =
            (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let receivers = Self {
            port: alive.local_addr()?.port(),
            dead_port: dead.local_addr()?.port(),
            notes: Arc::default(),
            at_dead: Arc::default(),
        };
        let notes = Arc::clone(&receivers.notes);
        tokio::spawn(async move {
            while let Ok((stream, _)) = alive.accept().await {
                let _ = stream.set_nodelay(true);
                let notes = Arc::clone(&notes);
                // A connection that breaks is the sender's end, or our own doing.
                tokio::spawn(async move { Box::pin(serve(stream, seed, &notes)).await.ok() });
            }
        });
        let at_dead = Arc::clone(&receivers.at_dead);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = dead.accept().await {
                at_dead.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut unread = [0; 1024];
                    while stream.read(&mut unread).await.is_ok_and(|count| count > 0) {}
                });
            }
        });
        Ok(receivers)
    }

    /// What came so far.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        lock(&self.notes)
    }

    /// How many connections the one that never answers has had.
    pub fn at_dead(&self) -> usize {
        self.at_dead.load(Ordering::Relaxed)
    }
}

fn lock(notes: &Mutex<Notes>) -> MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection, until either side ends it.
async fn serve(mut stream: TcpStream, seed: u64, notes: &Mutex<Notes>) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(request) = read(&mut stream, &mut buffer).await? {
        let arrived = lock(notes).arrive(seed, &request);
        let (place, fate, dice) = match arrived {
            Ok(drawn) => drawn,
            Err(error) => {
                lock(notes).problems.push(format!("a request is no postback: {error:#}"));
                return Ok(());
            }
        };
        let kept = answer(&mut stream, fate, dice, place, notes).await;
        lock(notes).in_flight -= 1;
        if !kept? {
            return Ok(());
        }
    }
    Ok(())
}

/// Answers, and says whether the connection goes on.
async fn answer(
    stream: &mut TcpStream,
    fate: Fate,
    mut dice: Rng,
    place: usize,
    notes: &Mutex<Notes>,
) -> io::Result<bool> {
    let text = match fate {
        Fate::Taken | Fate::TakenSlowly => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned(),
        Fate::ServerError => "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n".to_owned(),
        Fate::TooMany => {
            let seconds = dice.u64(RETRY_AFTER_S);
            format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: {seconds}\r\ncontent-length: 0\r\n\r\n")
        }
        Fate::Closed => return Ok(false),
        Fate::Cut => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n".to_owned(),
    };
    if fate == Fate::TakenSlowly {
        sleep(Duration::from_millis(dice.u64(SLOW_MS))).await;
    }
    let taken = matches!(fate, Fate::Taken | Fate::TakenSlowly);
    // Before it is written: the sender may know it, and go on, before this task does.
    if taken {
        lock(notes).mark(place, true);
    }
    let written = stream.write_all(text.as_bytes()).await;
    if taken && written.is_err() {
        lock(notes).mark(place, false);
    }
    written.map(|()| fate != Fate::Cut)
}

/// The next request; `None` when there is no further one.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        if let Some((request, length)) = parse(buffer)? {
            buffer.drain(..length);
            return Ok(Some(request));
        }
        if buffer.len() > MAX_REQUEST_BYTES {
            return Err(io::Error::other("the request is too long"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// The first request in `bytes` and its length; `None` while it isn't whole.
fn parse(bytes: &[u8]) -> io::Result<Option<(Request, usize)>> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = bytes.windows(END.len()).position(|window| window == END) else { return Ok(None) };
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
    let header = |name: &str| {
        let named = |line: &str| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        head.lines().skip(1).find_map(named)
    };
    let length = header("content-length").and_then(|text| text.parse::<usize>().ok());
    let length = length.ok_or_else(|| io::Error::other("a request without content-length"))?;
    let start = end + END.len();
    let Some(body) = bytes.get(start..start + length) else { return Ok(None) };
    let message_id = header("webhook-id").unwrap_or_default();
    Ok(Some((Request { message_id, body: body.to_vec() }, start + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_it_is_whole() {
        let whole = b"POST /1 HTTP/1.1\r\nWebhook-Id: evt_1\r\nContent-Length: 2\r\n\r\n{}POST";
        let (request, length) = parse(whole).unwrap().unwrap();
        assert_eq!((request.message_id.as_str(), request.body.as_slice()), ("evt_1", &b"{}"[..]));
        assert_eq!(&whole[length..], b"POST");
        for part in 0..length {
            assert!(parse(&whole[..part]).unwrap().is_none(), "{part}");
        }
        assert!(parse(b"POST /1 HTTP/1.1\r\n\r\n").is_err());
    }

    #[test]
    fn an_event_that_had_enough_of_misfortune_is_taken() {
        let fates = |misfortunes| (0..1000).map(move |nth| Fate::of(7, "evt_1", nth, misfortunes).0);
        for fate in Fate::FAILURES {
            assert!(fates(0).any(|drawn| drawn == fate), "{fate:?}");
            assert!(fates(MAX_MISFORTUNES).all(|drawn| drawn != fate), "{fate:?}");
        }
    }
}
