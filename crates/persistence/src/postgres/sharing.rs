//! What many ask of the database at once, and what shares statements.
//!
//! A small statement costs the server little, and its way there and back much: two system calls and a change of process
//! at each end, and a wait for the disk where it writes. So those that come meanwhile share their way: nobody waits on an
//! idle store, and a lone one goes at once. While a statement is at the database, whoever comes waits in line, and the next
//! statement takes all of the line. Where several may be at the database, a further one goes beside it when it is worth its
//! cost, or somebody has waited for long.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pix_domain::error::StoreError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// The most in line; the next one is told that the store is busy.
const MAX_WAITING: usize = 16_384;
/// A further statement beside those that are at the database has at least so many in it: two small ones at once cost the
/// server more than they bring, and one at a time leaves it idle while its answer is read. Measured: 0032 in `docs/adr`.
const WORTH_A_STATEMENT: usize = 4;
/// How long those in line wait for a statement at the database to be done, when they are not worth one of their own.
const PATIENCE: Duration = Duration::from_millis(5);

/// One kind of things that share statements.
#[async_trait]
pub trait Shared: Send + Sync + 'static {
    /// What is asked.
    type Asked: Send + 'static;
    /// What it is answered.
    type Found: Send + 'static;
    /// What it is called.
    const WHAT: &'static str;
    /// The most in one statement.
    const MOST: usize;
    /// Whether something may have changed when no answer comes.
    const WRITES: bool;

    /// The answer to each, in the same place. What goes wrong for one MUST NOT be the error of another one, but where it
    /// goes wrong for all of them.
    async fn answer(&self, asked: Vec<Self::Asked>) -> Vec<Answer<Self>>;
}

/// What one is answered.
pub type Answer<S> = Result<<S as Shared>::Found, StoreError>;

/// Asks what shares with nobody.
pub async fn alone<S: Shared>(shared: S, asked: S::Asked) -> Answer<S> {
    let answer = shared.answer(vec![asked]).await.pop();
    answer.unwrap_or_else(|| Err(closed::<S>()))
}

/// No answer came.
fn closed<S: Shared>() -> StoreError {
    if S::WRITES {
        StoreError::Unknown("the store was closed during a write".to_owned())
    } else {
        StoreError::Unavailable("the store was closed".to_owned())
    }
}

/// How they share.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// At most so many statements at once.
    pub at_once: usize,
    /// The longest time in line.
    pub longest_wait: Duration,
}

/// The line before the statements of one kind.
pub struct Sharing<S: Shared> {
    queue: Arc<Queue<S>>,
}

impl<S: Shared> fmt::Debug for Sharing<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing").field("what", &S::WHAT).finish_non_exhaustive()
    }
}

struct Queue<S: Shared> {
    shared: S,
    limits: Limits,
    runtime: Handle,
    line: Mutex<Line<S>>,
}

struct Line<S: Shared> {
    waiting: VecDeque<Waiting<S>>,
    /// How many have come.
    came: u64,
    /// How many statements are at the database, or about to be.
    statements: usize,
}

struct Waiting<S: Shared> {
    number: u64,
    asked: S::Asked,
    answer: oneshot::Sender<Answer<S>>,
}

impl<S: Shared> Sharing<S> {
    /// A line; its statements run on `runtime`.
    pub fn new(shared: S, limits: Limits, runtime: Handle) -> Self {
        let limits = Limits { at_once: limits.at_once.max(1), ..limits };
        Self { queue: Arc::new(Queue { shared, limits, runtime, line: Mutex::new(Line::default()) }) }
    }

    /// Asks, with whoever is in line.
    pub async fn ask(&self, asked: S::Asked) -> Answer<S> {
        let (answer, mut answered) = oneshot::channel();
        let (number, turn) = {
            let mut line = self.queue.line();
            if line.waiting.len() >= MAX_WAITING {
                return Err(StoreError::Unavailable(format!("too many {} are waiting", S::WHAT)));
            }
            let number = line.came;
            line.came = line.came.wrapping_add(1);
            line.waiting.push_back(Waiting { number, asked, answer });
            (number, line.is_worth_a_statement().then(|| self.turn(&mut line)).flatten())
        };
        self.run(turn);
        let until = Instant::now() + self.queue.limits.longest_wait;
        let patient = until.min(Instant::now() + PATIENCE);
        let answer = match timeout_at(patient, &mut answered).await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                // Once: where as many statements as may be are at work, they take all that are in line.
                let turn = {
                    let mut line = self.queue.line();
                    if line.has(number) { self.turn(&mut line) } else { None }
                };
                self.run(turn);
                match timeout_at(until, &mut answered).await {
                    Ok(answer) => answer,
                    Err(_elapsed) if self.queue.line().leave(number) => {
                        return Err(StoreError::Unavailable(format!(
                            "all connections for {} are busy",
                            S::WHAT
                        )));
                    }
                    // It is at the database.
                    Err(_elapsed) => answered.await,
                }
            }
        };
        answer.unwrap_or_else(|_closed| Err(closed::<S>()))
    }

    /// The right to run statements beside those that are at the database.
    fn turn(&self, line: &mut Line<S>) -> Option<Turn<S>> {
        (line.statements < self.queue.limits.at_once).then(|| {
            line.statements = line.statements.saturating_add(1);
            Turn { queue: Arc::clone(&self.queue), ended: false }
        })
    }

    fn run(&self, turn: Option<Turn<S>>) {
        if let Some(turn) = turn {
            // A runtime that is gone drops it at once.
            self.queue.runtime.spawn(turn.run_statements());
        }
    }
}

impl<S: Shared> Default for Line<S> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), came: 0, statements: 0 }
    }
}

impl<S: Shared> Line<S> {
    /// Takes those of the next statement.
    fn take(&mut self) -> Vec<Waiting<S>> {
        // Nothing is asked for who has gone away.
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        let count = self.waiting.len().min(S::MOST);
        self.waiting.drain(..count).collect()
    }

    /// Whether those in line go without waiting for the statements at the database.
    fn is_worth_a_statement(&self) -> bool {
        self.statements == 0 || self.waiting.len() >= WORTH_A_STATEMENT
    }

    /// Whether one is in line.
    fn has(&self, number: u64) -> bool {
        self.place(number).is_some()
    }

    /// Takes one out of the line; whether it was still in it.
    fn leave(&mut self, number: u64) -> bool {
        self.place(number).and_then(|place| self.waiting.remove(place)).is_some()
    }

    /// The place of one that is in line: they are numbered as they come.
    fn place(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |waiting| waiting.number).ok()
    }
}

impl<S: Shared> Queue<S> {
    fn line(&self) -> MutexGuard<'_, Line<S>> {
        // Nothing in here panics while it holds the lock.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, group: Vec<Waiting<S>>) {
        let (asked, answers): (Vec<_>, Vec<_>) =
            group.into_iter().map(|Waiting { asked, answer, .. }| (asked, answer)).unzip();
        for (answer, found) in answers.into_iter().zip(self.shared.answer(asked).await) {
            // Whoever doesn't wait any more has gone away.
            drop(answer.send(found));
        }
    }
}

/// The right to run statements. When it is lost before the line is empty, because the runtime is gone or a statement
/// panicked, nobody may be left to run those in line: they are told that nothing was done.
struct Turn<S: Shared> {
    queue: Arc<Queue<S>>,
    ended: bool,
}

impl<S: Shared> Turn<S> {
    /// Runs statements until none is left in line.
    async fn run_statements(mut self) {
        loop {
            let waiting = {
                let mut line = self.queue.line();
                let waiting = line.take();
                if waiting.is_empty() {
                    line.statements = line.statements.saturating_sub(1);
                    self.ended = true;
                    return;
                }
                waiting
            };
            self.queue.run(waiting).await;
        }
    }
}

impl<S: Shared> Drop for Turn<S> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut line = self.queue.line();
        line.statements = line.statements.saturating_sub(1);
        if line.statements > 0 {
            return;
        }
        for waiting in line.waiting.drain(..) {
            drop(waiting.answer.send(Err(StoreError::Unavailable("the store was closed".to_owned()))));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    /// Answers with what was asked and how many shared the statement, when it is let.
    struct Echo {
        lets: Arc<Semaphore>,
    }

    #[async_trait]
    impl Shared for Echo {
        type Asked = u8;
        type Found = (u8, usize);
        const WHAT: &'static str = "echoes";
        const MOST: usize = 3;
        const WRITES: bool = true;

        async fn answer(&self, asked: Vec<u8>) -> Vec<Answer<Self>> {
            self.lets.acquire().await.unwrap().forget();
            assert!(!asked.contains(&13), "a statement panics");
            let together = asked.len();
            asked.into_iter().map(|one| Ok((one, together))).collect()
        }
    }

    fn sharing(at_once: usize, longest_wait: Duration) -> (Arc<Sharing<Echo>>, Arc<Semaphore>) {
        let lets = Arc::new(Semaphore::new(0));
        let limits = Limits { at_once, longest_wait };
        let sharing = Sharing::new(Echo { lets: Arc::clone(&lets) }, limits, Handle::current());
        (Arc::new(sharing), lets)
    }

    const LONG: Duration = Duration::from_mins(1);

    fn line(waiting: usize, statements: usize) -> (Line<Echo>, Vec<oneshot::Receiver<Answer<Echo>>>) {
        let mut line = Line { statements, ..Line::default() };
        let mut answers = Vec::new();
        for number in 0..waiting {
            let (answer, answered) = oneshot::channel();
            line.waiting.push_back(Waiting { number: number.try_into().unwrap(), asked: 0, answer });
            answers.push(answered);
        }
        (line, answers)
    }

    #[test]
    fn a_further_statement_goes_when_it_is_worth_it() {
        assert!(line(0, 0).0.is_worth_a_statement());
        for waiting in 0..4 {
            assert!(!line(waiting, 1).0.is_worth_a_statement(), "{waiting}");
        }
        let (four, _answers) = line(4, 1);
        assert!(four.is_worth_a_statement() && four.has(3) && !four.has(4));
    }

    #[test]
    fn nothing_is_asked_for_who_has_gone_away() {
        let (mut line, mut answers) = line(3, 0);
        drop(answers.remove(1));
        let taken: Vec<u64> = line.take().iter().map(|waiting| waiting.number).collect();
        assert_eq!(taken, [0, 2]);
        assert!(line.waiting.is_empty());
    }

    /// Puts one in line and lets it wait there.
    async fn asking(sharing: &Arc<Sharing<Echo>>, asked: u8) -> tokio::task::JoinHandle<Answer<Echo>> {
        let came = sharing.queue.line().came;
        let (one, asks) = (Arc::clone(sharing), asked);
        let waits = tokio::spawn(async move { one.ask(asks).await });
        while sharing.queue.line().came == came {
            tokio::task::yield_now().await;
        }
        waits
    }

    #[tokio::test]
    async fn those_that_come_meanwhile_go_together_up_to_the_most() {
        let (sharing, lets) = sharing(1, LONG);
        let mut waits = vec![asking(&sharing, 0).await];
        // The first is taken alone.
        while !sharing.queue.line().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        for one in 1..=4 {
            waits.push(asking(&sharing, one).await);
        }
        lets.add_permits(3);
        let mut found = Vec::new();
        for wait in waits {
            found.push(wait.await.unwrap().unwrap());
        }
        assert_eq!(found, [(0, 1), (1, 3), (2, 3), (3, 3), (4, 1)]);
        assert_eq!(sharing.queue.line().statements, 0);
    }

    #[tokio::test]
    async fn one_that_waits_for_too_long_leaves_the_line_undone() {
        let (sharing, lets) = sharing(1, Duration::from_millis(1));
        let first = asking(&sharing, 0).await;
        while !sharing.queue.line().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let second = asking(&sharing, 1).await;
        let busy = StoreError::Unavailable("all connections for echoes are busy".to_owned());
        assert_eq!(second.await.unwrap(), Err(busy));
        lets.add_permits(1);
        // The first has waited for as long, at the database: it is answered what came of it.
        assert_eq!(first.await.unwrap(), Ok((0, 1)));
        assert_eq!(sharing.queue.line().statements, 0);
    }

    #[tokio::test]
    async fn whoever_was_in_a_lost_statement_does_not_know_and_those_in_line_do() {
        let (sharing, lets) = sharing(1, LONG);
        let lost = asking(&sharing, 13).await;
        while !sharing.queue.line().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let waits = asking(&sharing, 1).await;
        lets.add_permits(1);
        let unknown = StoreError::Unknown("the store was closed during a write".to_owned());
        assert_eq!(lost.await.unwrap(), Err(unknown));
        let undone = StoreError::Unavailable("the store was closed".to_owned());
        assert_eq!(waits.await.unwrap(), Err(undone));
        // The next one is served.
        lets.add_permits(1);
        assert_eq!(sharing.ask(2).await, Ok((2, 1)));
    }
}
