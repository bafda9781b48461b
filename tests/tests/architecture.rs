//! The table of crates in `docs/ARCHITECTURE.md`, asserted.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Which of ours each package may depend on, besides in its tests.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("pix-domain", &[]),
    ("pix-conformance", &["pix-domain"]),
    ("pix-memory", &["pix-domain"]),
    ("pix-simulation", &["pix-domain", "pix-memory"]),
    ("pix-persistence", &["pix-domain"]),
    ("pix-settlement", &["pix-domain"]),
    ("pix-notifications", &["pix-domain"]),
    ("pix-simulator", &[]),
    ("pix-pg-server", &[]),
    ("pix-credentials", &["pix-domain"]),
    ("pix-traces", &[]),
    ("pix-http", &["pix-domain", "pix-traces"]),
    ("pix-console", &["pix-domain"]),
    (
        "pix-gateway",
        &[
            "pix-domain",
            "pix-persistence",
            "pix-settlement",
            "pix-notifications",
            "pix-simulator",
            "pix-credentials",
            "pix-traces",
            "pix-http",
            "pix-console",
        ],
    ),
    ("pix-bench", &["pix-domain", "pix-persistence", "pix-pg-server"]),
    // The storm of postbacks makes a hundred thousand events, which no client of the program could in a minute.
    ("pix-tests", &["pix-conformance", "pix-domain", "pix-persistence", "pix-pg-server"]),
];

/// What the domain may use of others: nothing that reads a clock, a file, a socket or a wire format.
const DOMAIN_USES: &[&str] =
    &["async-lock", "async-trait", "bigdecimal", "futures-util", "mockall", "sha2", "thiserror", "uuid"];

fn packages() -> BTreeMap<String, Package> {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    metadata.packages.into_iter().map(|package| (package.name.to_string(), package)).collect()
}

fn uses(package: &Package) -> Vec<String> {
    let normal = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
    normal.map(|dependency| dependency.name.clone()).collect()
}

#[test]
fn every_package_depends_on_what_the_table_allows_and_nothing_else() {
    let packages = packages();
    let named: Vec<_> = MAY_DEPEND_ON.iter().map(|(name, _)| (*name).to_owned()).collect();
    for name in packages.keys() {
        assert!(named.contains(name), "{name} is not in the table of crates");
    }
    for (name, allowed) in MAY_DEPEND_ON {
        for used in uses(&packages[*name]).iter().filter(|used| used.starts_with("pix-")) {
            assert!(allowed.contains(&used.as_str()), "{name} must not depend on {used}");
        }
    }
}

#[test]
fn the_domain_stays_pure() {
    for used in uses(&packages()["pix-domain"]) {
        assert!(DOMAIN_USES.contains(&used.as_str()), "pix-domain must not depend on {used}");
    }
}

#[test]
fn only_what_links_the_copyleft_rate_limiter_bears_its_licence() {
    for (name, package) in packages() {
        let copyleft = matches!(name.as_str(), "pix-http" | "pix-gateway" | "pix-tests");
        let expected = if copyleft { "GPL-3.0-or-later" } else { "Apache-2.0 OR MIT" };
        assert_eq!(package.license.as_deref(), Some(expected), "{name}");
        let limiter = uses(&package).iter().any(|used| used == "actix-governor");
        assert_eq!(limiter, name == "pix-http", "{name}");
    }
}

#[test]
fn every_package_takes_the_lints_of_the_workspace() {
    for (name, package) in packages() {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name}");
    }
}

#[test]
fn the_table_of_crates_in_the_documents_names_every_package() {
    let readme = std::fs::read_to_string(pix_tests::repository().join("README.md")).unwrap();
    let architecture = std::fs::read_to_string(pix_tests::repository().join("docs/ARCHITECTURE.md")).unwrap();
    for name in packages().keys() {
        assert!(readme.contains(&format!("`{name}`")), "README.md does not name {name}");
        assert!(architecture.contains(&format!("`{name}`")), "docs/ARCHITECTURE.md does not name {name}");
    }
}
