//! Callbacks that share statements: each is kept, and ends, for itself.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pix_conformance::Services;
use pix_domain::callbacks::{Callback, CallbackEnd, CallbackState, CallbackStore, ClaimedCallback};
use pix_domain::error::StoreError;
use pix_persistence::postgres::PgStore;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::support::{database, ends, open, options, server, services, session, until};

/// How long those that are kept here are claimed.
const LEASE: Duration = Duration::from_mins(1);
/// How many come while another one is at the database.
const MANY: usize = 12;

/// Work that has begun: whoever asks is in line.
async fn begun<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let mut work = Box::pin(work);
    let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    tokio::spawn(async move {
        match first {
            Poll::Ready(done) => done,
            Poll::Pending => work.await,
        }
    })
}

struct Place {
    database: String,
    store: Arc<PgStore>,
    services: Services,
}

impl Place {
    async fn new() -> Self {
        let database = database(server()).await;
        let store = open(&server().url(&database), options()).await;
        let services = services(&store, 0);
        Self { database, store, services }
    }

    /// A session that lets nobody write callbacks.
    async fn lock(&self) -> Client {
        let locker = session(&server().url(&self.database)).await;
        locker.batch_execute("BEGIN; LOCK TABLE callbacks IN SHARE MODE").await.unwrap();
        locker
    }

    /// Waits until so many statements wait for the table.
    async fn wait(&self, statements: &str) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                       AND datname = current_database()";
        until("statements wait", async || server().psql(&self.database, waiting).unwrap() == statements)
            .await;
    }

    fn says(&self, body: &str) -> ClaimedCallback {
        let (id, received_at) = (self.services.id(), self.services.now());
        let callback = Callback { id, received_at, reference: Some(id), body: body.to_owned() };
        ClaimedCallback { callback, attempts: 1, until: received_at.plus(LEASE) }
    }

    /// Begins to keep one.
    async fn keep(&self, claimed: &ClaimedCallback) -> JoinHandle<Result<bool, StoreError>> {
        let (store, claimed) = (self.store.clone(), claimed.clone());
        begun(async move {
            CallbackStore::keep(&*store, claimed.callback, CallbackState::Waiting(claimed.until)).await
        })
        .await
    }

    /// Begins to end one.
    async fn put(&self, claimed: &ClaimedCallback) -> JoinHandle<Result<(), StoreError>> {
        let (store, claimed) = (self.store.clone(), claimed.clone());
        begun(async move { store.put(&claimed, CallbackState::Ended(CallbackEnd::Learnt)).await }).await
    }

    async fn keep_all<'a>(
        &self,
        claimed: impl IntoIterator<Item = &'a ClaimedCallback>,
    ) -> Vec<JoinHandle<Result<bool, StoreError>>> {
        let mut keeps = Vec::new();
        for claimed in claimed {
            keeps.push(self.keep(claimed).await);
        }
        keeps
    }

    async fn put_all<'a>(
        &self,
        claimed: impl IntoIterator<Item = &'a ClaimedCallback>,
    ) -> Vec<JoinHandle<Result<(), StoreError>>> {
        let mut puts = Vec::new();
        for claimed in claimed {
            puts.push(self.put(claimed).await);
        }
        puts
    }

    async fn kept(&self, count: usize) -> Vec<ClaimedCallback> {
        let mut kept = Vec::new();
        for number in 0..count {
            let claimed = self.says(&format!("kept {number}"));
            assert_eq!(ends(self.keep(&claimed).await).await.unwrap(), Ok(true));
            kept.push(claimed);
        }
        kept
    }

    async fn state(&self, claimed: &ClaimedCallback) -> Option<CallbackState> {
        self.store.look_up(claimed.callback.id).await.unwrap().map(|(state, _)| state)
    }

    /// How many transactions wrote the callbacks as they are.
    fn writes(&self) -> String {
        server().psql(&self.database, "SELECT count(DISTINCT xmin::text) FROM callbacks").unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callbacks_that_come_meanwhile_are_kept_by_one_statement() {
    let place = Place::new().await;
    let locker = place.lock().await;
    let first = place.says("first");
    let keeps = place.keep(&first).await;
    place.wait("1").await;
    let asked: Vec<_> = (0..MANY).map(|number| place.says(&format!("{number}"))).collect();
    let kept = place.keep_all(&asked).await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    for keep in kept.into_iter().chain([keeps]) {
        assert_eq!(ends(keep).await.unwrap(), Ok(true));
    }
    for claimed in asked.iter().chain([&first]) {
        assert_eq!(place.state(claimed).await, Some(CallbackState::Waiting(claimed.until)));
    }
    assert_eq!(place.writes(), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_those_that_say_the_same_one_is_kept_and_waits_longer() {
    let place = Place::new().await;
    let locker = place.lock().await;
    let first = place.says("twice");
    let keeps = place.keep(&first).await;
    place.wait("1").await;
    let says = |number: usize| place.says(if number.is_multiple_of(3) { "twice" } else { "thrice" });
    let asked: Vec<_> = (0..MANY).map(says).collect();
    let kept = place.keep_all(&asked).await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(ends(keeps).await.unwrap(), Ok(true));
    let mut own = Vec::new();
    for (claimed, keep) in asked.iter().zip(kept) {
        if ends(keep).await.unwrap().unwrap() {
            own.push(claimed);
        }
    }
    let [thrice] = own.as_slice() else { panic!("{} are kept", own.len()) };
    assert_eq!(thrice.callback.body, "thrice");
    // Whoever began with the first, before the others came, doesn't end it.
    let later = Some(CallbackState::Waiting(first.until.plus(Duration::from_micros(1))));
    assert_eq!(place.state(&first).await, later);
    assert_eq!(ends(place.put(&first).await).await.unwrap(), Ok(()));
    assert_eq!(place.state(&first).await, later);
    // With the other nobody has begun before all had come.
    assert_eq!(ends(place.put(thrice).await).await.unwrap(), Ok(()));
    assert_eq!(place.state(thrice).await, Some(CallbackState::Ended(CallbackEnd::Learnt)));
    // Those that don't wait are kept, whatever they say.
    let locker = place.lock().await;
    let says = |_| place.says("junk");
    let junk: Vec<_> = (0..3).map(says).collect();
    let mut kept = Vec::new();
    for claimed in &junk {
        let (store, callback) = (place.store.clone(), claimed.callback.clone());
        let ended = CallbackState::Ended(CallbackEnd::Unreadable);
        kept.push(begun(async move { CallbackStore::keep(&*store, callback, ended).await }).await);
    }
    locker.batch_execute("ROLLBACK").await.unwrap();
    for keep in kept {
        assert_eq!(ends(keep).await.unwrap(), Ok(true));
    }
    assert_eq!(server().psql(&place.database, "SELECT count(*) FROM callbacks").unwrap(), "5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_callback_that_is_refused_is_the_error_of_no_other() {
    let place = Place::new().await;
    let rule = "ALTER TABLE callbacks ADD CONSTRAINT odd CHECK (body <> 'SECRET' OR state <> 'waiting')";
    server().psql(&place.database, rule).unwrap();
    let locker = place.lock().await;
    let first = place.keep(&place.says("first")).await;
    place.wait("1").await;
    let mut asked: Vec<_> = (0..MANY).map(|number| place.says(&format!("{number}"))).collect();
    asked.insert(MANY / 2, place.says("SECRET"));
    let kept = place.keep_all(&asked).await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(ends(first).await.unwrap(), Ok(true));
    for (claimed, keep) in asked.iter().zip(kept) {
        let answer = ends(keep).await.unwrap();
        if claimed.callback.body == "SECRET" {
            let Err(StoreError::Rejected(text)) = answer else { panic!("{answer:?}") };
            assert!(text.contains("odd") && !text.contains("SECRET"), "{text}");
            assert_eq!(place.state(claimed).await, None);
        } else {
            assert_eq!(answer, Ok(true));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callbacks_end_by_one_statement_those_alone_that_are_as_claimed() {
    let place = Place::new().await;
    let mut kept = place.kept(MANY + 1).await;
    let first = kept.remove(0);
    // Somebody else has taken every third of them since.
    let is_taken = |number: usize| number.is_multiple_of(3);
    let mut taken = kept.clone();
    for (_, claimed) in taken.iter_mut().enumerate().filter(|(number, _)| is_taken(*number)) {
        claimed.attempts = 2;
        let take = format!("UPDATE callbacks SET attempts = 2 WHERE id = '{}'", claimed.callback.id);
        server().psql(&place.database, &take).unwrap();
    }
    let locker = place.lock().await;
    let puts = place.put(&first).await;
    place.wait("1").await;
    let ended = place.put_all(&kept).await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    for put in ended.into_iter().chain([puts]) {
        assert_eq!(ends(put).await.unwrap(), Ok(()));
    }
    let learnt = Some(CallbackState::Ended(CallbackEnd::Learnt));
    assert_eq!(place.state(&first).await, learnt);
    for (number, claimed) in kept.iter().enumerate() {
        let waiting = Some(CallbackState::Waiting(claimed.until));
        assert_eq!(place.state(claimed).await, if is_taken(number) { waiting } else { learnt });
    }
    let ends_at = "SELECT count(DISTINCT xmin::text) FROM callbacks WHERE state = 'learnt'";
    assert_eq!(server().psql(&place.database, ends_at).unwrap(), "2");
    // And those that have them end them.
    for claimed in taken.iter().step_by(3) {
        assert_eq!(ends(place.put(claimed).await).await.unwrap(), Ok(()));
        assert_eq!(place.state(claimed).await, learnt);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callbacks_end_in_the_order_of_their_digests() {
    let place = Place::new().await;
    let mut kept = place.kept(3).await;
    let first = kept.remove(0);
    kept.sort_by_key(|claimed| claimed.callback.digest());
    let [lower, higher] = [&kept[0], &kept[1]];
    let lock = |claimed: &ClaimedCallback, how: &str| {
        format!("BEGIN; SELECT FROM callbacks WHERE id = '{}' FOR UPDATE {how}", claimed.callback.id)
    };
    let locker = place.lock().await;
    let puts = place.put(&first).await;
    place.wait("1").await;
    let ended = place.put_all([higher, lower]).await;
    let holder = session(&server().url(&place.database)).await;
    holder.batch_execute(&lock(lower, "")).await.unwrap();
    locker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(ends(puts).await.unwrap(), Ok(()));
    place.wait("1").await;
    // Whoever waits for the lower one has not locked the higher one.
    let other = session(&server().url(&place.database)).await;
    other.batch_execute(&lock(higher, "NOWAIT")).await.unwrap();
    for session in [other, holder] {
        session.batch_execute("ROLLBACK").await.unwrap();
    }
    for put in ended {
        assert_eq!(ends(put).await.unwrap(), Ok(()));
    }
    for claimed in [lower, higher] {
        assert_eq!(place.state(claimed).await, Some(CallbackState::Ended(CallbackEnd::Learnt)));
    }
}

/// Two nodes that keep the same words, in the order in which they came to each, and end them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_never_wait_for_each_other() {
    let place = Place::new().await;
    let store = open(&server().url(&place.database), options()).await;
    let other = Place { database: place.database.clone(), services: services(&store, 1), store };
    for round in 0..8 {
        let locker = place.lock().await;
        let first = [place.keep(&place.says("here")).await, other.keep(&other.says("there")).await];
        place.wait("2").await;
        let words: Vec<String> = (0..MANY).map(|number| format!("{round} {number}")).collect();
        let here: Vec<_> = words.iter().map(|body| place.says(body)).collect();
        let there: Vec<_> = words.iter().rev().map(|body| other.says(body)).collect();
        let mut asked = place.keep_all(&here).await;
        asked.extend(other.keep_all(&there).await);
        locker.batch_execute("ROLLBACK").await.unwrap();
        let mut kept = 0;
        for keep in asked {
            kept += usize::from(ends(keep).await.unwrap().unwrap());
        }
        assert_eq!(kept, MANY);
        let again = other.keep_all(&there).await;
        let puts = place.put_all(&here).await;
        for put in puts {
            assert_eq!(ends(put).await.unwrap(), Ok(()));
        }
        for keep in again.into_iter().chain(first) {
            assert!(ends(keep).await.unwrap().is_ok());
        }
        server().psql(&place.database, "UPDATE callbacks SET state = 'learnt', due_at = NULL").unwrap();
    }
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(server().psql(&place.database, deadlocks).unwrap(), "0");
}
