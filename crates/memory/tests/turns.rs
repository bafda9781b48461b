//! Withdrawals that only one at a time gets take turns, and ask the store once each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pix_conformance::builders::{name, withdrawal_command};
use pix_conformance::{Services, StoreSet};
use pix_domain::error::{ApplyError, ServiceError, StoreError};
use pix_domain::ids::IntegratorId;
use pix_domain::limits::lanes::LONGEST_IN_LANE;
use pix_domain::list::ListQuery;
use pix_domain::ports::{DEFAULT_DUPLICATE_WINDOW, Outcome};
use pix_domain::transition::{Transition, TransitionStore};
use pix_domain::withdrawals::Withdrawal;
use pix_memory::MemoryStore;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

/// A store whose writes wait at a gate.
struct Gate {
    inner: Arc<dyn TransitionStore>,
    open: Semaphore,
    came: AtomicUsize,
    refused: AtomicUsize,
}

#[async_trait]
impl TransitionStore for Gate {
    async fn apply(&self, transition: Transition) -> Result<(), ApplyError> {
        self.came.fetch_add(1, Ordering::Relaxed);
        let _through = self.open.acquire().await;
        let applied = self.inner.apply(transition).await;
        self.refused.fetch_add(usize::from(applied.is_err()), Ordering::Relaxed);
        applied
    }

    async fn apply_all(&self, transitions: Vec<Transition>) -> Vec<Result<(), ApplyError>> {
        self.inner.apply_all(transitions).await
    }
}

type Created = JoinHandle<Result<Outcome<Withdrawal>, ServiceError>>;

struct Scene {
    services: Services,
    gate: Arc<Gate>,
    owner: IntegratorId,
}

impl Scene {
    async fn new() -> Self {
        let mut stores = StoreSet::of(Arc::new(MemoryStore::new()));
        let owner = Services::over(stores.clone(), 0).funded(1_000_000).await;
        let inner = stores.domain.transitions.clone();
        let (came, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let gate = Arc::new(Gate { inner, open: Semaphore::new(0), came, refused });
        stores.domain.transitions = gate.clone();
        let services = Services::over(stores, 1).guarding_twins(DEFAULT_DUPLICATE_WINDOW);
        Self { services, gate, owner }
    }

    /// Asks for one, and goes on with it as far as it goes.
    async fn ask(&self, handle: &str, cents: i64) -> Created {
        let (services, owner, handle) = (self.services.clone(), self.owner, name(handle));
        let asked = tokio::spawn(async move {
            let mut command = withdrawal_command(owner, cents);
            command.external_id = Some(handle);
            services.withdrawals.create(command).await
        });
        for _ in 0..100 {
            yield_now().await;
        }
        asked
    }

    fn came(&self) -> usize {
        self.gate.came.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn those_just_alike_take_turns_and_others_do_not_wait() {
    let scene = Scene::new().await;
    let first = scene.ask("first", 100).await;
    let second = scene.ask("second", 100).await;
    assert_eq!(scene.came(), 1, "the second one waits for its turn");
    let other = scene.ask("other", 200).await;
    assert_eq!(scene.came(), 2, "another amount is another lane");
    scene.gate.open.add_permits(1);
    for asked in [first, second, other] {
        assert!(matches!(asked.await.unwrap(), Ok(Outcome::Created(_))));
    }
    assert_eq!(scene.gate.refused.load(Ordering::Relaxed), 0, "each asked once for what it got");
}

#[tokio::test]
async fn who_waited_too_long_is_told_that_nothing_was_done() {
    let scene = Scene::new().await;
    let first = scene.ask("first", 100).await;
    let second = scene.ask("second", 100).await;
    let first_again = scene.ask("first", 100).await;
    scene.services.wait(LONGEST_IN_LANE + Duration::from_millis(1));
    scene.gate.open.add_permits(1);
    assert!(matches!(first.await.unwrap(), Ok(Outcome::Created(_))));
    assert!(
        matches!(first_again.await.unwrap(), Ok(Outcome::Replayed(_))),
        "what its handle stands for was done meanwhile"
    );
    let refused = second.await.unwrap();
    assert!(
        matches!(refused, Err(ServiceError::Store(StoreError::Unavailable(_)))),
        "a store that is busy: {refused:?}"
    );
    let made = scene
        .services
        .withdrawals
        .list(scene.owner, ListQuery { limit: 10, ..ListQuery::default() })
        .await
        .unwrap();
    assert_eq!(made.items.len(), 1);
    let again = scene.ask("second", 100).await;
    assert!(matches!(again.await.unwrap(), Ok(Outcome::Created(_))), "its handle is not burnt");
}
