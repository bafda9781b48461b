//! Random scripts observe the same on every store; see [`crate::script`].

use crate::StoreHarness;
use crate::script::assert_observes;

/// The script of seed 1.
pub async fn the_script_of_seed_1_observes_what_it_must(harness: &mut dyn StoreHarness) {
    assert_observes(harness, 1).await;
}

/// The script of seed 2.
pub async fn the_script_of_seed_2_observes_what_it_must(harness: &mut dyn StoreHarness) {
    assert_observes(harness, 2).await;
}
