//! Every seed of every fuzz target, fed to the function that the target feeds: what was found once stays found, without
//! a fuzzer. `make fuzz` looks for more.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use pix_tests::repository;

/// What a target calls.
type Entry = fn(&[u8]);

/// The targets, each with what it calls.
const TARGETS: &[(&str, Entry)] = &[
    ("amount", pix_http::fuzzing::amount),
    ("br_code", pix_domain::fuzzing::br_code),
    ("callbacks", pix_http::fuzzing::callbacks),
    ("cursors", pix_http::fuzzing::cursors),
    ("documents", pix_domain::fuzzing::documents),
    ("headers", pix_http::fuzzing::headers),
    ("postback_url", pix_notifications::fuzzing::postback_url),
    ("provider_answers", pix_settlement::fuzzing::provider_answers),
    ("receiver_answers", pix_notifications::fuzzing::receiver_answers),
    ("signature", pix_notifications::fuzzing::signature),
    ("token_bodies", pix_http::fuzzing::token_bodies),
    ("tokens", pix_credentials::fuzzing::tokens),
    ("v1_bodies", pix_http::fuzzing::v1_bodies),
    ("v2_bodies", pix_http::fuzzing::v2_bodies),
];

/// The fewest seeds of a target.
const LEAST: usize = 8;

/// The longest input that `make fuzz` makes; a longer seed it would cut.
const MAX_LEN: usize = 4096;

fn folder() -> PathBuf {
    repository().join("tests/fuzz")
}

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder().join("corpus").join(target)).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    fs::read_dir(folder).unwrap().map(|file| name(file.unwrap().path())).collect()
}

#[test]
fn every_seed_keeps_the_laws_of_its_target() {
    let mut broken = Vec::new();
    for (target, run) in TARGETS {
        for (path, input) in seeds(target) {
            if catch_unwind(|| run(&input)).is_err() {
                broken.push(path);
            }
        }
    }
    assert!(broken.is_empty(), "the panics above are of {broken:#?}");
}

#[test]
fn a_seed_cut_short_keeps_them_too() {
    let mut broken = Vec::new();
    for (target, run) in TARGETS {
        for (path, input) in seeds(target) {
            // Every end of the short ones, and some of the long ones.
            let step = input.len().div_ceil(256).max(1);
            for length in (0..input.len()).step_by(step) {
                if catch_unwind(|| run(input.get(..length).unwrap_or_default())).is_err() {
                    broken.push((path.clone(), length));
                }
            }
        }
    }
    assert!(broken.is_empty(), "the panics above are of {broken:#?}");
}

#[test]
fn every_target_is_in_the_table_and_has_seeds() {
    let table: BTreeSet<_> = TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
    assert_eq!(names(&folder().join("fuzz_targets")), table);
    assert_eq!(names(&folder().join("corpus")), table);
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    for (target, _) in TARGETS {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
        let source = folder().join("fuzz_targets").join(target).with_extension("rs");
        let source = fs::read_to_string(source).unwrap();
        assert!(source.contains(&format!("::fuzzing::{target}(data)")), "{target}");
        let seeds = seeds(target);
        assert!(seeds.len() >= LEAST, "{target} has {} seeds", seeds.len());
        for (path, input) in seeds {
            assert!(input.len() <= MAX_LEN, "{} is too long", path.display());
        }
    }
}
