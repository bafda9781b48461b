//! x
use std::sync::Arc;
use pix_conformance::{Services, StoreSet};
use pix_domain::transition::TransitionStore;
use pix_persistence::sqlite::{SqliteOptions, SqliteStore};
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn perf() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("a.db"), SqliteOptions { migrate: true, ..SqliteOptions::default() }).unwrap());
    let s = Services::over(StoreSet::of(store.clone()), 0);
    let owner = s.funded(100_000_000).await;
    let ts: Vec<_> = (0..10_000).map(|_| s.withdrawal_intent(owner, 1)).collect();
    let t = std::time::Instant::now();
    let r = store.apply_all(ts).await;
    println!("{} in {:?}", r.iter().filter(|r| r.is_ok()).count(), t.elapsed());
    let t = std::time::Instant::now();
    for _ in 0..500 { store.apply(s.withdrawal_intent(owner, 1)).await.unwrap(); }
    println!("lone {:?}", t.elapsed() / 500);
    let t = std::time::Instant::now();
    for _ in 0..2000 { s.wallet(owner).await; }
    println!("read {:?}", t.elapsed() / 2000);
    let t = std::time::Instant::now();
    let b = s.stores.books.book(owner).await.unwrap();
    println!("book {:?} {}", t.elapsed(), b.entries.len());
}
