//! The short form of the crash matrix, and that a build without the feature has no fail points.

use pix_tests::crash::{self, Choice};
use pix_tests::{Database, Gateway, program, program_with_fail_points};

/// What the cells are drawn from.
const SEED: u64 = 20_261_121;
/// How many cells run at once: they wait more than they work.
const WORKERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn killed_at_every_step_once_nothing_is_lost_sent_twice_or_left_uncertain() {
    let report = crash::run(Choice::Short(SEED), WORKERS, |_, _| ()).await.unwrap();
    assert!(report.is_clean(), "{}", crash::summary(&report));
}

#[test]
fn a_build_without_the_feature_knows_no_fail_points() {
    let has = |path: &std::path::Path, name: &str| {
        let program = std::fs::read(path).unwrap();
        program.windows(name.len()).any(|window| window == name.as_bytes())
    };
    for name in ["PIX_FAIL_AT", "PIX_CLOCK_FILE"] {
        assert!(has(program_with_fail_points(), name), "{name}");
        assert!(!has(program(), name), "{name}");
    }
    // It is no setting, so it is not even looked at.
    Gateway::start(Database::Sqlite, &[("PIX_FAIL_AT", "withdrawal.created:after")]).unwrap();
}
