//! The one thread that writes.
//!
//! It takes what is waiting (one command when there is one, up to [`MAX_GROUP`] when there are more, never waiting for
//! others to come), opens one transaction with the write lock, runs each command in a savepoint, commits once, and only
//! then answers. A command that is refused undoes its own savepoint. Whatever ends the transaction itself ends it for the
//! whole group, and every caller is told what is known: nothing was written, or nobody knows.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::result::QueryResult;
use diesel::sqlite::SqliteConnection;
use pix_domain::error::StoreError;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{mpsc, oneshot};

use super::error::{Problem, is_io, is_passing};
use crate::vitals::PoolUse;

/// How many commands may wait.
pub const QUEUE_CAPACITY: usize = 1_024;

/// How many commands are committed together at the most.
pub const MAX_GROUP: usize = 256;

/// Whether the store may still be used: not after the disk failed to make a commit durable.
#[derive(Debug, Default)]
pub struct Health(OnceLock<String>);

impl Health {
    /// The error of every call once the store is closed.
    pub fn check(&self) -> Result<(), StoreError> {
        self.0.get().map_or(Ok(()), |why| Err(StoreError::Unavailable(why.clone())))
    }

    fn close(&self, why: &str) {
        let _ =
            self.0.set(format!("the disk failed to keep a write ({why}): check it and restart the program"));
    }
}

/// How the transaction of a group ended.
#[derive(Debug, Clone)]
enum End {
    Committed,
    /// Nothing of it was written.
    Nothing(String),
    /// It may have been written.
    Unknown(String),
}

/// Something to be written, and whom to tell.
trait Command: Send {
    /// Runs in a savepoint; whether to keep what it did. An error ends the transaction.
    fn run(&mut self, conn: &mut SqliteConnection) -> Result<bool, String>;

    /// Tells the caller.
    fn answer(self: Box<Self>, end: &End);
}

type Answer<T, E> = oneshot::Receiver<Result<T, E>>;

struct Job<T, E, F> {
    work: Option<F>,
    done: Option<Result<T, E>>,
    caller: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> Command for Job<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: FnOnce(&mut SqliteConnection) -> Result<T, Problem<E>> + Send,
{
    fn run(&mut self, conn: &mut SqliteConnection) -> Result<bool, String> {
        let Some(work) = self.work.take() else { return Ok(false) };
        let done = match work(conn) {
            Ok(value) => Ok(value),
            Err(Problem::Refused(error)) => Err(error),
            Err(Problem::Broken(why)) => return Err(why),
        };
        let keep = done.is_ok();
        self.done = Some(done);
        Ok(keep)
    }

    fn answer(self: Box<Self>, end: &End) {
        let unavailable = |why: &String| Err(StoreError::Unavailable(why.clone()).into());
        let answer = match (end, self.done) {
            (End::Committed, Some(done)) => done,
            (End::Committed, None) => unavailable(&"the command was not run".to_owned()),
            (End::Unknown(why), Some(Ok(_))) => Err(StoreError::Unknown(why.clone()).into()),
            // A refusal may rest on what the rest of the group wrote, so it isn't passed on; but it wrote nothing itself.
            (End::Unknown(why) | End::Nothing(why), _) => unavailable(why),
        };
        // A caller who is gone needs no answer.
        let _ = self.caller.send(answer);
    }
}

/// Where commands are handed over.
pub struct Writer {
    queue: mpsc::Sender<Box<dyn Command>>,
    health: Arc<Health>,
    queue_wait: Duration,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("free_places", &self.queue.capacity()).finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts the thread with the connection `first`; `connect` makes another when one had to be given up.
    pub fn start(
        first: SqliteConnection,
        connect: impl FnMut() -> Result<SqliteConnection, String> + Send + 'static,
        commit: fn(&mut SqliteConnection) -> QueryResult<()>,
        health: Arc<Health>,
        queue_wait: Duration,
    ) -> std::io::Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE_CAPACITY);
        let thread = Thread { waiting, conn: Some(first), connect, commit, health: health.clone() };
        std::thread::Builder::new().name("pix-sqlite-writer".to_owned()).spawn(move || thread.run())?;
        Ok(Self { queue, health, queue_wait })
    }

    /// How the queue is used: what is handed over and not begun waits. It has one connection, which is never idle.
    pub fn queue_use(&self) -> PoolUse {
        let waiting = QUEUE_CAPACITY.saturating_sub(self.queue.capacity());
        PoolUse { pool: "writer", used: 0, idle: 0, max: 0, waiting }
    }

    /// Hands `work` over and waits for its answer.
    pub async fn write<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut SqliteConnection) -> Result<T, Problem<E>> + Send + 'static,
    {
        answered(self.send(work).await?).await
    }

    /// Hands `work` over. From here on it is done, whether or not anybody waits for the answer.
    pub async fn send<T, E, F>(&self, work: F) -> Result<Answer<T, E>, StoreError>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut SqliteConnection) -> Result<T, Problem<E>> + Send + 'static,
    {
        self.health.check()?;
        let (caller, answer) = oneshot::channel();
        let job: Box<dyn Command> = Box::new(Job { work: Some(work), done: None, caller });
        match self.queue.try_send(job) {
            Ok(()) => return Ok(answer),
            Err(TrySendError::Closed(_)) => return Err(ended()),
            Err(TrySendError::Full(job)) => match self.queue.send_timeout(job, self.queue_wait).await {
                Ok(()) => {}
                Err(SendTimeoutError::Closed(_)) => return Err(ended()),
                Err(SendTimeoutError::Timeout(_)) => {
                    return Err(StoreError::Unavailable("too many writes are waiting".to_owned()));
                }
            },
        }
        Ok(answer)
    }
}

/// Waits for the answer to what was handed over.
pub async fn answered<T, E: From<StoreError>>(answer: Answer<T, E>) -> Result<T, E> {
    let lost = |_| Err(StoreError::Unknown("the writer ended without an answer".to_owned()).into());
    answer.await.unwrap_or_else(lost)
}

fn ended() -> StoreError {
    StoreError::Unavailable("the writer has ended: restart the program".to_owned())
}

struct Thread<C> {
    waiting: mpsc::Receiver<Box<dyn Command>>,
    conn: Option<SqliteConnection>,
    connect: C,
    commit: fn(&mut SqliteConnection) -> QueryResult<()>,
    health: Arc<Health>,
}

impl<C: FnMut() -> Result<SqliteConnection, String>> Thread<C> {
    /// Ends when the store is dropped and nothing waits any more.
    fn run(mut self) {
        let mut group = Vec::with_capacity(MAX_GROUP);
        while self.waiting.blocking_recv_many(&mut group, MAX_GROUP) > 0 {
            let end = self.write(&mut group);
            for command in group.drain(..) {
                command.answer(&end);
            }
        }
        self.give_up();
    }

    fn write(&mut self, group: &mut [Box<dyn Command>]) -> End {
        if let Err(StoreError::Unavailable(why)) = self.health.check() {
            return End::Nothing(why);
        }
        let mut conn = match self.conn.take().map_or_else(|| (self.connect)(), Ok) {
            Ok(conn) => conn,
            Err(why) => return End::Nothing(why),
        };
        let ran = catch_unwind(AssertUnwindSafe(|| run_all(&mut conn, group)));
        let end = match ran {
            Ok(Ok(())) => self.commit(&mut conn),
            Ok(Err(why)) => {
                tracing::warn!(%why, commands = group.len(), "a group of writes was given up; nothing of it was written");
                End::Nothing(why)
            }
            Err(_panic) => {
                tracing::error!(commands = group.len(), "a write panicked; its group was given up");
                End::Nothing("an internal error ended the transaction".to_owned())
            }
        };
        // A connection whose transaction did not end well is not trusted again: closing it undoes what is left of it.
        self.conn = Some(conn);
        if !matches!(end, End::Committed) {
            self.give_up();
        }
        end
    }

    fn commit(&self, conn: &mut SqliteConnection) -> End {
        let Err(error) = (self.commit)(conn) else { return End::Committed };
        let why = error.to_string();
        if is_passing(&why) {
            tracing::warn!(%why, "a commit did not happen");
            return End::Nothing(why);
        }
        tracing::error!(%why, "nobody knows whether a commit happened");
        if is_io(&why) {
            // The log may hold what this process no longer sees: only opening the file anew can tell.
            self.health.close(&why);
        }
        End::Unknown(why)
    }

    /// Closes the connection.
    fn give_up(&mut self) {
        let Some(mut conn) = self.conn.take() else { return };
        let closed = catch_unwind(AssertUnwindSafe(move || {
            // Fails when there is no transaction, which is as good.
            let _ = conn.batch_execute("ROLLBACK");
            drop(conn);
        }));
        if closed.is_err() {
            tracing::error!("closing a connection panicked");
        }
    }
}

fn run_all(conn: &mut SqliteConnection, group: &mut [Box<dyn Command>]) -> Result<(), String> {
    let say =
        |sql: &str, conn: &mut SqliteConnection| conn.batch_execute(sql).map_err(|error| error.to_string());
    say("BEGIN IMMEDIATE", conn)?;
    for command in group {
        say("SAVEPOINT command", conn)?;
        let end = if command.run(conn)? { "RELEASE command" } else { "ROLLBACK TO command; RELEASE command" };
        say(end, conn)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
