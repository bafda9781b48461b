//! Writes down what the seeded scripts of the suite observe on the reference store. After a change of the domain that
//! changes what they must observe:
//!
//! ```text
//! cargo test -p pix-memory --test observations -- --ignored
//! ```
//!
//! and read the difference before it is committed.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pix_conformance::script::{OBSERVATIONS, observe};
use pix_conformance::{StoreSet, run};
use pix_memory::MemoryStore;

#[test]
#[ignore = "writes files of another crate"]
fn write_observations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/observations");
    run(async {
        for (seed, _) in OBSERVATIONS {
            let stores = StoreSet::of(Arc::new(MemoryStore::new()));
            let observed = Box::pin(observe(stores, seed)).await;
            fs::write(folder.join(format!("seed-{seed}.txt")), observed.join("\n") + "\n").unwrap();
        }
    });
}
