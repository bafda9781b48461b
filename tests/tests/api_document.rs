//! The document of the interface and the running program, held against each other by published tools: it is a valid
//! document, and every answer is one that it tells of. `make api-tools` installs them.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::path::PathBuf;
use std::process::Command;

use pix_tests::{Client, Database, Gateway, program, repository};

/// Cases of an operation and a phase in the short run.
const SHORT_EXAMPLES: &str = "8";
/// Cases of an operation and a phase in a run that is bounded by time.
const LONG_EXAMPLES: &str = "1000";
/// What the short run is drawn from.
const SEED: &str = "20261122";

fn target() -> PathBuf {
    // target/debug/deps/this-test → target
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// The folder of the tools' programs.
fn tools() -> PathBuf {
    let chosen = std::env::var_os("PIX_API_TOOLS").map(PathBuf::from);
    let tools = repository().join(chosen.unwrap_or_else(|| target().join("api-tools")));
    assert!(
        tools.join("installed").exists(),
        "what holds the document against the program is not in {}; install it with: make api-tools",
        tools.display()
    );
    tools.join("python/bin")
}

/// Writes what `pix-gateway openapi` prints to a file.
fn document(folder: &std::path::Path) -> PathBuf {
    let output = Command::new(program()).arg("openapi").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = folder.join("openapi.json");
    std::fs::write(&path, &output.stdout).unwrap();
    path
}

#[test]
fn an_independent_validator_takes_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(tools().join("openapi-spec-validator"))
        .args(["--schema", "3.1"])
        .arg(document(folder.path()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_document_needs_no_settings() {
    let output = Command::new(program()).arg("openapi").env("DATABASE_URL", "none").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// With `PIX_FUZZ_API_SECONDS` it goes on for so long, from another seed each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_one_that_the_document_tells_of() {
    let seconds = std::env::var("PIX_FUZZ_API_SECONDS").ok();
    let settings = [
        ("PIX_RATE_TOKEN_PER_MINUTE", "100000"),
        ("PIX_POSTBACK_ALLOW_PRIVATE", "loopback"),
        ("PIX_POSTBACK_ALLOW_HTTP", "true"),
    ];
    let gateway = Gateway::start(Database::Sqlite, &settings).unwrap();
    let integrator = gateway.integrator("Loja").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "1000000").await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let configuration = repository().join("tests/api/schemathesis.toml");
    let mut command = Command::new(tools().join("schemathesis"));
    command.arg("--config-file").arg(configuration).arg("run").arg(document(folder.path()));
    command.args(["--url", &gateway.url, "--checks", "all"]);
    match &seconds {
        None => command.args(["--seed", SEED, "--max-examples", SHORT_EXAMPLES]),
        Some(seconds) => command.args(["--max-time", seconds, "--max-examples", LONG_EXAMPLES]),
    };
    let output = command
        .env("PIX_TOKEN", client.token())
        .env("PIX_PUBLIC_ID", &integrator.public_id)
        .env("PIX_SECRET", &integrator.secret)
        // Nothing is sent anywhere else: whatever URL is made up, it is this one.
        .env("PIX_RECEIVER", &gateway.simulator)
        .env("SCHEMATHESIS_HOOKS", repository().join("tests/api/hooks.py"))
        .env("NO_PROXY", "127.0.0.1")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    if seconds.is_some() {
        println!("{said}");
    }
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}
