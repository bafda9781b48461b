//! The desk: the one thread that owns the bank and its log, so that an effect and its entry are one step. It owns
//! the order of things and when they are durable; it must never know what a request asks.
//!
//! Requests wait in a queue. The desk takes what waits, carries it out one after another, makes all of it durable
//! with one write, and only then lets the answers go. A log that can't be written stops the desk for good: what
//! happened after that nobody could prove.

use std::thread;

use chrono::{DateTime, Utc};
use tokio::sync::{mpsc, oneshot};

use crate::{
    SimulatorError,
    callbacks::Callback,
    clock,
    log::{Log, LogEntry},
    state::{Bank, Decision, Fresh, Misfit, Subject},
    wire::{Envelope, Refusal, render},
};

/// Requests waiting for the desk; more of them wait outside.
const QUEUE: usize = 1_024;
/// Requests made durable by one write.
const MAX_BATCH: usize = 256;

type Release = Box<dyn FnOnce(bool) + Send>;

enum Message {
    Job(Box<dyn FnOnce(&mut Desk) -> Release + Send>),
    Stop,
}

/// What a job works with.
pub(crate) struct Desk {
    pub(crate) bank: Bank,
    log: Log,
    next_seq: u64,
    now: DateTime<Utc>,
    callbacks: mpsc::Sender<Callback>,
    due: Vec<Callback>,
    broken: bool,
}

/// The way to the desk.
#[derive(Clone)]
pub(crate) struct DeskHandle {
    queue: mpsc::Sender<Message>,
}

/// Opens the log, rebuilds the bank from it and starts the desk's thread.
pub(crate) fn open(
    path: Option<&std::path::PathBuf>,
    opening_balance_cents: i64,
    callbacks: mpsc::Sender<Callback>,
) -> Result<(DeskHandle, thread::JoinHandle<()>), SimulatorError> {
    let (mut log, entries) = Log::open(path)?;
    let mut bank = Bank::new(opening_balance_cents);
    let mut next_seq = 1;
    for entry in &entries {
        bank.apply(entry).map_err(|Misfit| SimulatorError::misfit(path, entry.seq))?;
        next_seq = entry.seq + 1;
    }
    if let Log::Memory(kept) = &mut log {
        *kept = entries;
    }
    let now = clock::now();
    let desk = Desk { bank, log, next_seq, now, callbacks, due: Vec::new(), broken: false };
    let (queue, waiting) = mpsc::channel(QUEUE);
    let thread = thread::Builder::new()
        .name("simulator-desk".to_owned())
        .spawn(move || desk.serve(waiting))
        .map_err(SimulatorError::Thread)?;
    Ok((DeskHandle { queue }, thread))
}

impl DeskHandle {
    /// Has `job` done at the desk. It runs even when the caller stops waiting; what it answers is durable.
    pub(crate) async fn run<T, F>(&self, job: F) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: FnOnce(&mut Desk) -> Result<T, Refusal> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = move |desk: &mut Desk| -> Release {
            let result = job(desk);
            Box::new(move |durable| {
                let result = if durable { result } else { Err(closed()) };
                // Nobody waits when the client has gone; the effect stands.
                drop(answer.send(result));
            })
        };
        let sent = self.queue.send(Message::Job(Box::new(job))).await;
        if sent.is_err() {
            return Err(closed());
        }
        answered.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Ends the desk after what waits before this.
    pub(crate) async fn stop(&self) {
        // A desk that is gone needs no stopping.
        drop(self.queue.send(Message::Stop).await);
    }
}

fn closed() -> Refusal {
    Refusal::internal("the log cannot be written, or the simulator is stopping")
}

impl Desk {
    fn serve(mut self, mut waiting: mpsc::Receiver<Message>) {
        let mut open = true;
        while open && !self.broken {
            let Some(first) = waiting.blocking_recv() else { break };
            let mut releases = Vec::new();
            let mut next = Some(first);
            while let Some(message) = next.take() {
                match message {
                    Message::Job(job) => {
                        self.now = self.now.max(clock::now());
                        releases.push(job(&mut self));
                    }
                    Message::Stop => {
                        open = false;
                        break;
                    }
                }
                if releases.len() < MAX_BATCH {
                    next = waiting.try_recv().ok();
                }
            }
            let durable = self.commit();
            for release in releases {
                release(durable);
            }
        }
    }

    /// Writes the batch, then sends its callbacks on their way.
    fn commit(&mut self) -> bool {
        if !self.broken
            && let Err(error) = self.log.commit()
        {
            tracing::error!(%error, "the simulator's log cannot be written; it answers no more");
            self.broken = true;
        }
        let due = std::mem::take(&mut self.due);
        if self.broken {
            return false;
        }
        for callback in due {
            if self.callbacks.try_send(callback).is_err() {
                tracing::warn!("callback dropped: too many are waiting");
            }
        }
        true
    }

    /// The time of this job. It never runs backwards.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// Time and new ids for a decision.
    pub(crate) fn fresh(&self) -> Fresh {
        Fresh {
            now: self.now,
            id: clock::fresh_id(),
            end_to_end_id: clock::end_to_end_id('E', self.now),
            return_id: clock::end_to_end_id('D', self.now),
        }
    }

    /// Carries a decision out. True when it was new.
    pub(crate) fn carry_out(&mut self, decision: Decision) -> Result<(Subject, bool), Refusal> {
        let (subject, mut entry, new) = match decision {
            Decision::Known(subject) => return Ok((subject, false)),
            Decision::Repeated(subject, entry) => (subject, entry, false),
            Decision::New(subject, entry) => (subject, entry, true),
        };
        entry.seq = self.next_seq;
        entry.at = self.now;
        self.bank
            .apply(&entry)
            .map_err(|Misfit| Refusal::invalid("amount_overflow", "the amounts add up to too much"))?;
        self.next_seq += 1;
        if let Err(error) = self.log.append(*entry) {
            tracing::error!(%error, "the simulator's log cannot be written; it answers no more");
            self.broken = true;
            return Err(closed());
        }
        Ok((subject, new))
    }

    /// Has a callback sent once this job is durable. False when the transaction has no address for one.
    pub(crate) fn announce(&mut self, subject: &Subject) -> Result<bool, Refusal> {
        let Some(url) = self.bank.postback_url(subject).map(str::to_owned) else { return Ok(false) };
        let Some(told) = self.bank.describe(subject, self.now) else { return Ok(false) };
        let body = render(&Envelope::of(&told))?;
        self.due.push(Callback { subject: subject.id.clone(), url, body });
        Ok(true)
    }

    /// The log, when it lives in memory; else it is the file's.
    pub(crate) fn entries_in_memory(&self) -> Option<Vec<LogEntry>> {
        match &self.log {
            Log::Memory(entries) => Some(entries.clone()),
            Log::File { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogEvent;
    use crate::wire::Kind;

    #[tokio::test]
    async fn a_stopped_desk_refuses_and_never_hangs() {
        let (callbacks, _receiver) = mpsc::channel(1);
        let (desk, thread) = open(None, 0, callbacks).unwrap();
        desk.stop().await;
        thread.join().unwrap();
        let refusal = desk.run(|desk| Ok(desk.bank.balance())).await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 500);
    }

    #[tokio::test]
    async fn an_entry_that_does_not_fit_takes_no_number() {
        let (callbacks, _receiver) = mpsc::channel(1);
        let (desk, _thread) = open(None, i64::MAX, callbacks).unwrap();
        let numbers = desk
            .run(|desk| {
                let subject = Subject { kind: Kind::Charge, id: "c".into() };
                let mut created = LogEntry::of(LogEvent::ChargeCreated, "c", "", 1);
                created.expiration_seconds = Some(60);
                desk.carry_out(Decision::New(subject.clone(), Box::new(created)))?;
                let mut received = LogEntry::of(LogEvent::PixReceived, "c", "", 1);
                received.end_to_end_id = Some("E".into());
                let refused = desk.carry_out(Decision::New(subject.clone(), Box::new(received))).unwrap_err();
                assert_eq!(refused.code, "amount_overflow");
                let canceled = LogEntry::of(LogEvent::ChargeCanceled, "c", "", 1);
                desk.carry_out(Decision::New(subject, Box::new(canceled)))?;
                Ok(desk.entries_in_memory().unwrap().iter().map(|entry| entry.seq).collect::<Vec<_>>())
            })
            .await
            .unwrap();
        assert_eq!(numbers, [1, 2]);
    }
}
