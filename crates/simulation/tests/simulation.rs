//! Worlds in which nothing goes wrong, and worlds that are broken on purpose, in which the checker must say so.

use pix_simulation::faults::{Counts, Fault};
use pix_simulation::{Options, run};

/// How many worlds every run of the tests lives through.
const SEEDS: u64 = 2_000;

/// Seeds that once showed a fault of the domain, and what it was.
const ONCE_FAILED: [(u64, &str); 5] = [
    (
        1_249,
        "a refund's handle was asked about with what was left of the charge after it, and not answered with it",
    ),
    (3, "a charge was stored, and its client told that the store was unavailable"),
    (1_982, "a withdrawal's `accepted`, heard after its failure, made a finding"),
    (7_663, "a withdrawal's `accepted`, heard after its failure, made a finding"),
    (10_937, "a refund's `accepted`, heard after its failure, made a finding"),
];

#[test]
fn no_seed_loses_or_makes_money() {
    let (options, mut counts) = (Options::default(), Counts::default());
    for seed in (0..SEEDS).chain(ONCE_FAILED.map(|(seed, _)| seed)) {
        match run(seed, &options) {
            Ok(report) => counts.add_all(&report.counts),
            Err(failure) => panic!("seed {seed}: {}", failure.what),
        }
    }
    for (fault, count) in counts.each() {
        assert!(count > 0, "it never happened that {}", fault.name());
    }
    assert_eq!(counts.each().len(), Fault::ALL.len());
}

#[test]
fn the_same_seed_is_the_same_world_step_by_step() {
    let traced = Options { trace: true, ..Options::default() };
    for seed in 0..10 {
        let (one, other) = (run(seed, &traced).unwrap(), run(seed, &traced).unwrap());
        assert_eq!(one, other);
        assert!(!one.trace.is_empty());
        let untraced = run(seed, &Options::default()).unwrap();
        assert_eq!((untraced.counts, untraced.polls), (one.counts, one.polls), "to look changes nothing");
    }
}

#[test]
fn different_seeds_are_different_worlds() {
    let traced = Options { trace: true, ..Options::default() };
    assert_ne!(run(1, &traced).unwrap().trace, run(2, &traced).unwrap().trace);
}
