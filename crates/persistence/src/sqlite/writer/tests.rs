//! How groups end, with commits that fail as told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as std_mpsc;

use diesel::prelude::{ExpressionMethods, QueryDsl, RunQueryDsl};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use tempfile::TempDir;

use super::*;
use crate::sqlite::connection;
use crate::sqlite::error::Of;

diesel::table! {
    numbers (n) { n -> Integer, }
}

const LONG: Duration = Duration::from_mins(1);

struct Bench {
    writer: Writer,
    health: Arc<Health>,
    url: String,
    _folder: TempDir,
}

type Commit = fn(&mut SqliteConnection) -> QueryResult<()>;

fn bench(commit: Commit, queue_wait: Duration) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().join("numbers.db").to_str().unwrap().to_owned();
    let mut conn = connection::writer(&url).unwrap();
    conn.batch_execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY) STRICT").unwrap();
    let health = Arc::new(Health::default());
    let again = url.clone();
    let connect = move || connection::writer(&again);
    let writer = Writer::start(conn, connect, commit, health.clone(), queue_wait).unwrap();
    Bench { writer, health, url, _folder: folder }
}

impl Bench {
    /// What a fresh connection sees.
    fn numbers(&self) -> Vec<i32> {
        let mut conn = connection::reader(&self.url).unwrap();
        numbers::table.order(numbers::n.asc()).select(numbers::n).load(&mut conn).unwrap()
    }

    /// Keeps the writer in a command, and so in a transaction, until something is sent.
    async fn block(&self) -> (std_mpsc::Sender<()>, Answer<(), StoreError>) {
        let (go, gone) = std_mpsc::channel();
        let (entered, inside) = oneshot::channel();
        let answer = self
            .writer
            .send(move |_| {
                entered.send(()).unwrap();
                gone.recv().unwrap();
                Ok(())
            })
            .await
            .unwrap();
        inside.await.unwrap();
        (go, answer)
    }
}

fn insert(n: i32) -> impl FnOnce(&mut SqliteConnection) -> Result<i32, Problem<StoreError>> + Send + 'static {
    move |conn| {
        diesel::insert_into(numbers::table).values(numbers::n.eq(n)).execute(conn).of("numbers")?;
        Ok(n)
    }
}

/// Inserts, and then refuses.
fn refuse(n: i32) -> impl FnOnce(&mut SqliteConnection) -> Result<i32, Problem<StoreError>> + Send + 'static {
    move |conn| {
        insert(n)(conn)?;
        Err(StoreError::Rejected("as told".into()).into())
    }
}

fn sqlite_error(message: &str) -> DieselError {
    DieselError::DatabaseError(DatabaseErrorKind::Unknown, Box::new(message.to_owned()))
}

#[tokio::test]
async fn what_waits_is_committed_once_and_a_refused_command_undoes_only_itself() {
    static COMMITS: AtomicUsize = AtomicUsize::new(0);
    let bench = bench(
        |conn| {
            COMMITS.fetch_add(1, Ordering::SeqCst);
            connection::commit(conn)
        },
        LONG,
    );
    let (go, blocked) = bench.block().await;
    let first = bench.writer.send(insert(1)).await.unwrap();
    let refused = bench.writer.send(refuse(2)).await.unwrap();
    let doubled = bench.writer.send(insert(1)).await.unwrap();
    let last = bench.writer.send(insert(3)).await.unwrap();
    go.send(()).unwrap();
    answered(blocked).await.unwrap();
    assert_eq!(answered(first).await, Ok(1));
    assert_eq!(answered(refused).await, Err(StoreError::Rejected("as told".into())));
    assert!(matches!(answered(doubled).await, Err(StoreError::Rejected(_))));
    assert_eq!(answered(last).await, Ok(3));
    assert_eq!(bench.numbers(), [1, 3]);
    assert_eq!(COMMITS.load(Ordering::SeqCst), 2, "one for the blocker, one for all that waited");
}

#[tokio::test]
async fn a_group_has_an_end() {
    static COMMITS: AtomicUsize = AtomicUsize::new(0);
    let bench = bench(
        |conn| {
            COMMITS.fetch_add(1, Ordering::SeqCst);
            connection::commit(conn)
        },
        LONG,
    );
    let (go, blocked) = bench.block().await;
    let waiting = i32::try_from(MAX_GROUP).unwrap() + 1;
    let mut answers = Vec::new();
    for n in 0..waiting {
        answers.push(bench.writer.send(insert(n)).await.unwrap());
    }
    go.send(()).unwrap();
    answered(blocked).await.unwrap();
    for answer in answers {
        answered(answer).await.unwrap();
    }
    assert_eq!(COMMITS.load(Ordering::SeqCst), 3);
    assert_eq!(bench.numbers().len(), MAX_GROUP + 1);
}

#[tokio::test]
async fn a_panic_gives_up_its_group_and_the_writer_goes_on() {
    let bench = bench(connection::commit, LONG);
    let (go, blocked) = bench.block().await;
    let before = bench.writer.send(insert(1)).await.unwrap();
    let panics = bench.writer.send::<(), StoreError, _>(|_| panic!("as told")).await.unwrap();
    let after = bench.writer.send(insert(2)).await.unwrap();
    go.send(()).unwrap();
    answered(blocked).await.unwrap();
    for answer in [answered(before).await, answered(panics).await.map(|()| 0), answered(after).await] {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    assert_eq!(bench.numbers(), [0; 0]);
    assert_eq!(bench.writer.write(insert(3)).await, Ok(3));
    assert_eq!(bench.numbers(), [3]);
}

#[tokio::test]
async fn after_a_failed_flush_the_outcome_is_unknown_and_the_store_is_closed() {
    let bench = bench(|_| Err(sqlite_error("disk I/O error")), LONG);
    assert_eq!(bench.health.check(), Ok(()));
    assert!(matches!(bench.writer.write(insert(1)).await, Err(StoreError::Unknown(_))));
    for _ in 0..2 {
        let Err(StoreError::Unavailable(why)) = bench.writer.write(insert(2)).await else { panic!() };
        assert!(why.contains("restart"), "{why}");
    }
    assert!(matches!(bench.health.check(), Err(StoreError::Unavailable(_))));
    assert_eq!(bench.numbers(), [0; 0]);
}

#[tokio::test]
async fn who_was_refused_in_a_group_of_unknown_outcome_wrote_nothing() {
    let bench = bench(|_| Err(sqlite_error("something unheard of")), LONG);
    assert!(matches!(bench.writer.write(insert(1)).await, Err(StoreError::Unknown(_))));
    assert!(matches!(bench.writer.write(refuse(1)).await, Err(StoreError::Unavailable(_))));
    assert_eq!(bench.health.check(), Ok(()));
}

#[tokio::test]
async fn a_commit_that_did_not_happen_can_be_tried_again() {
    static TRIED: AtomicUsize = AtomicUsize::new(0);
    let bench = bench(
        |conn| match TRIED.fetch_add(1, Ordering::SeqCst) {
            0 => Err(sqlite_error("database or disk is full")),
            _ => connection::commit(conn),
        },
        LONG,
    );
    assert!(matches!(bench.writer.write(insert(1)).await, Err(StoreError::Unavailable(_))));
    assert_eq!(bench.numbers(), [0; 0]);
    assert_eq!(bench.writer.write(insert(1)).await, Ok(1));
    assert_eq!(bench.numbers(), [1]);
}

#[tokio::test]
async fn a_full_queue_refuses_after_its_wait_and_keeps_what_it_took() {
    let bench = bench(connection::commit, Duration::from_millis(1));
    let (go, blocked) = bench.block().await;
    let mut answers = Vec::new();
    for n in 0..i32::try_from(QUEUE_CAPACITY).unwrap() {
        answers.push(bench.writer.send(insert(n)).await.unwrap());
    }
    let Err(StoreError::Unavailable(why)) = bench.writer.write(insert(-1)).await else { panic!() };
    assert_eq!(why, "too many writes are waiting");
    go.send(()).unwrap();
    answered(blocked).await.unwrap();
    for answer in answers {
        answered(answer).await.unwrap();
    }
    assert_eq!(bench.numbers().len(), QUEUE_CAPACITY);
}

#[tokio::test]
async fn what_was_handed_over_is_done_though_nobody_waits() {
    let bench = bench(connection::commit, LONG);
    let (go, blocked) = bench.block().await;
    drop(bench.writer.send(insert(1)).await.unwrap());
    go.send(()).unwrap();
    answered(blocked).await.unwrap();
    assert_eq!(bench.writer.write(insert(2)).await, Ok(2));
    assert_eq!(bench.numbers(), [1, 2]);
}

#[tokio::test]
async fn another_process_that_holds_the_lock_only_makes_the_writer_wait() {
    let bench = bench(connection::commit, LONG);
    let mut other = connection::writer(&bench.url).unwrap();
    other.batch_execute("BEGIN IMMEDIATE; INSERT INTO numbers VALUES (7)").unwrap();
    let waits = bench.writer.send(insert(8)).await.unwrap();
    other.batch_execute("COMMIT").unwrap();
    assert_eq!(answered(waits).await, Ok(8));
    assert_eq!(bench.numbers(), [7, 8]);
}
