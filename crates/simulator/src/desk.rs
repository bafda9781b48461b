//! The desk: the one thread that owns the bank and its log, so that an effect and its entry are one step. It owns
//! the order of things and when they are durable; it must never know what a request asks.
//!
//! Requests wait in a queue. The desk takes what waits, carries it out one after another, makes all of it durable
//! with one write, and only then lets the answers go. A log that can't be written stops the desk for good: what
//! happened after that nobody could prove.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use chrono::{DateTime, Utc};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use crate::{
    SimulatorError,
    callbacks::Callback,
    clock::{self, Timeline},
    falsify,
    log::{Log, LogEntry},
    rules::{self, Met, Rules},
    scenario::{Operation, Part, Scenario},
    state::{Bank, Decision, Fresh, Misfit, Subject},
    wire::{Envelope, Kind, Refusal, render},
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
    around: Around,
    due: Vec<Callback>,
    /// Callbacks that wait for another to be sent first.
    held_back: Vec<Callback>,
    broken: bool,
}

/// What the desk uses and others own.
pub(crate) struct Around {
    pub(crate) callbacks: mpsc::Sender<Callback>,
    pub(crate) rules: Arc<Mutex<Rules>>,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) runtime: Handle,
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
    around: Around,
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
    let now = around.timeline.now();
    let (due, held_back) = (Vec::new(), Vec::new());
    let desk = Desk { bank, log, next_seq, now, around, due, held_back, broken: false };
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

fn enqueue(queue: &mpsc::Sender<Callback>, callback: Callback) {
    if queue.try_send(callback).is_err() {
        tracing::warn!("callback dropped: too many are waiting");
    }
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
                        self.now = self.now.max(self.around.timeline.now());
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
        for mut callback in due {
            let queue = self.around.callbacks.clone();
            let delay = std::mem::take(&mut callback.delay);
            if delay.is_zero() {
                enqueue(&queue, callback);
            } else {
                let timeline = Arc::clone(&self.around.timeline);
                let due = timeline.after(delay);
                self.around.runtime.spawn(async move {
                    if timeline.sleep_until(due).await {
                        enqueue(&queue, callback);
                    }
                });
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

    /// Has a callback sent once this job is durable, as the scenarios want it. What comes back is told when it has been
    /// sent, if somebody must wait for that.
    pub(crate) fn announce(&mut self, subject: &Subject) -> Result<Option<oneshot::Receiver<()>>, Refusal> {
        let Some(mut callback) = self.callback(subject)? else { return Ok(None) };
        let mut told = None;
        if let Some(Met { scenario, parameters }) = self.meet(Part::Callback, subject) {
            match scenario {
                Scenario::CallbackNever => return Ok(None),
                Scenario::CallbacksReordered if self.held_back.is_empty() => {
                    self.held_back.push(callback);
                    return Ok(None);
                }
                Scenario::CallbackLate => callback.delay = parameters.span(),
                Scenario::CallbackTwice => {
                    let copies = parameters.times.unwrap_or_default();
                    self.due.extend((1..copies).map(|_| callback.copy()));
                }
                Scenario::CallbackWrongAmount => callback.body = falsify::amount(&callback.body),
                Scenario::CallbackWrongId => callback.body = falsify::all_ids(&callback.body),
                Scenario::CallbackBeforeAnswer => {
                    let (done, waits) = oneshot::channel();
                    (callback.done, told) = (Some(done), Some(waits));
                }
                _ => {}
            }
        }
        callback.before = std::mem::take(&mut self.held_back);
        self.due.push(callback);
        Ok(told)
    }

    /// Has a callback sent once this job is durable, whatever the scenarios say. False when the transaction has no
    /// address for one.
    pub(crate) fn announce_plainly(&mut self, subject: &Subject) -> Result<bool, Refusal> {
        let callback = self.callback(subject)?;
        let queued = callback.is_some();
        self.due.extend(callback);
        Ok(queued)
    }

    /// If a scenario wants it: a callback that lies about how a new transaction ended.
    pub(crate) fn forge(&mut self, subject: &Subject) -> Result<(), Refusal> {
        let Some(mut callback) = self.callback(subject)? else { return Ok(()) };
        if self.meet(Part::Forgery, subject).is_some() {
            let (now, local) = (clock::utc(self.now), clock::local(self.now));
            callback.body = falsify::end(&callback.body, subject.kind, &now, &local);
            self.due.push(callback);
        }
        Ok(())
    }

    /// Sends what was held back for another callback.
    pub(crate) fn release_callbacks(&mut self) {
        self.due.append(&mut self.held_back);
    }

    fn callback(&self, subject: &Subject) -> Result<Option<Callback>, Refusal> {
        let Some(url) = self.bank.postback_url(subject).map(str::to_owned) else { return Ok(None) };
        let Some(told) = self.bank.describe(subject, self.now) else { return Ok(None) };
        let body = render(&Envelope::of(&told))?;
        Ok(Some(Callback::new(subject.id.clone(), url, body)))
    }

    fn meet(&self, part: Part, subject: &Subject) -> Option<Met> {
        let operation = match subject.kind {
            Kind::Charge => Operation::Charge,
            Kind::Payment => Operation::Payment,
            Kind::Refund => Operation::Refund,
        };
        let mut rules = self.around.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if rules.is_empty() {
            return None;
        }
        let names = self.bank.names(&subject.id);
        rules.meet(part, &rules::Subject { operation, names: &names })
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
    use crate::clock::Time;
    use crate::log::LogEvent;

    fn around() -> Around {
        Around {
            callbacks: mpsc::channel(1).0,
            rules: Arc::default(),
            timeline: Arc::new(Timeline::new(Time::Real)),
            runtime: Handle::current(),
        }
    }

    #[tokio::test]
    async fn a_stopped_desk_refuses_and_never_hangs() {
        let (desk, thread) = open(None, 0, around()).unwrap();
        desk.stop().await;
        thread.join().unwrap();
        let refusal = desk.run(|desk| Ok(desk.bank.balance())).await.unwrap_err();
        assert_eq!(refusal.status.as_u16(), 500);
    }

    #[tokio::test]
    async fn an_entry_that_does_not_fit_takes_no_number() {
        let (desk, _thread) = open(None, i64::MAX, around()).unwrap();
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
