//! The document of the interface and the running program, held against each other by published tools: it is a valid
//! document, every answer is one that it tells of, and clients that are generated from it do the main job. `make api-tools`
//! installs the tools.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;

use pix_tests::{Client, Database, Gateway, program, repository};

/// Cases of an operation and a phase in the short run.
const SHORT_EXAMPLES: &str = "5";
/// Cases of an operation and a phase in a run that is bounded by time.
const LONG_EXAMPLES: &str = "1000";
/// What the short run is drawn from.
const SEED: &str = "20261122";

fn target() -> PathBuf {
    // target/debug/deps/this-test → target
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// The folder of the tools.
fn tools() -> PathBuf {
    let chosen = std::env::var_os("PIX_API_TOOLS").map(PathBuf::from);
    let tools = repository().join(chosen.unwrap_or_else(|| target().join("api-tools")));
    assert!(
        tools.join("installed").exists(),
        "what holds the document against the program is not in {}; install it with: make api-tools",
        tools.display()
    );
    tools
}

fn python_tool(name: &str) -> Command {
    let programs = tools().join("python/bin");
    let mut command = Command::new(programs.join(name));
    // One of them calls another.
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", programs.display()));
    command
}

/// Runs it to a good end; what it said.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Writes what `pix-gateway openapi` prints to a file.
fn document(folder: &Path) -> PathBuf {
    let path = folder.join("openapi.json");
    std::fs::write(&path, run(Command::new(program()).arg("openapi"))).unwrap();
    path
}

#[test]
fn an_independent_validator_takes_the_document() {
    let folder = tempfile::tempdir().unwrap();
    run(python_tool("openapi-spec-validator").args(["--schema", "3.1"]).arg(document(folder.path())));
}

#[test]
fn the_document_needs_no_settings() {
    run(Command::new(program()).arg("openapi").env("DATABASE_URL", "none"));
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
    let mut command = python_tool("schemathesis");
    command.arg("--config-file").arg(configuration).arg("run").arg(document(folder.path()));
    command.args(["--url", &gateway.url]);
    match &seconds {
        None => command.args(["--seed", SEED, "--max-examples", SHORT_EXAMPLES]),
        Some(seconds) => command.args(["--max-time", seconds, "--max-examples", LONG_EXAMPLES]),
    };
    let command = command
        .env("PIX_TOKEN", client.token())
        .env("PIX_PUBLIC_ID", &integrator.public_id)
        .env("PIX_SECRET", &integrator.secret)
        // Nothing is sent anywhere else: whatever URL is made up, it is this one.
        .env("PIX_RECEIVER", &gateway.simulator)
        .env("SCHEMATHESIS_HOOKS", repository().join("tests/api/hooks.py"))
        .env("NO_PROXY", "127.0.0.1")
        .current_dir(folder.path());
    let said = run(command);
    if seconds.is_some() {
        println!("{said}");
    }
    assert_eq!(gateway.audit().unwrap().get("clean"), Some(&true.into()));
}

/// What a client of the main job is told: where, and with which key.
fn main_job(command: &mut Command) {
    let gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    let integrator = gateway.integrator("Loja").unwrap();
    command.args([&gateway.url, &gateway.simulator, &integrator.public_id, &integrator.secret]);
    assert_eq!(run(command.env("NO_PROXY", "127.0.0.1")).trim(), "done");
    assert_eq!(gateway.audit().unwrap().get("clean"), Some(&true.into()));
}

#[test]
fn a_generated_python_client_does_the_main_job() {
    let folder = tempfile::tempdir().unwrap();
    let mut generator = python_tool("openapi-python-client");
    generator.arg("generate").arg("--path").arg(document(folder.path()));
    // It warns of answers that are pictures or events, which it leaves out.
    generator.args(["--meta", "none", "--output-path"]);
    run(generator.arg(folder.path().join("pix_client")).current_dir(folder.path()));
    let script = repository().join("tests/api/clients/main_job.py");
    main_job(python_tool("python3").arg(script).arg(folder.path()));
}

#[test]
fn a_generated_typescript_client_does_the_main_job() {
    let folder = tempfile::tempdir().unwrap();
    let modules = tools().join("node/node_modules");
    std::os::unix::fs::symlink(&modules, folder.path().join("node_modules")).unwrap();
    std::fs::write(folder.path().join("package.json"), r#"{"type": "module"}"#).unwrap();
    let script = folder.path().join("main_job.ts");
    std::fs::copy(repository().join("tests/api/clients/main_job.ts"), &script).unwrap();
    let node = |program: &str| {
        let mut command = Command::new("node");
        command.arg(modules.join(program)).current_dir(folder.path());
        command
    };
    let generator = &mut node("openapi-typescript/bin/cli.js");
    run(generator.arg(document(folder.path())).args(["--output", "pix.d.ts"]));
    let compiler = &mut node("typescript/bin/tsc");
    let strict = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"];
    run(compiler.arg("main_job.ts").args(strict));
    main_job(Command::new("node").arg(folder.path().join("main_job.js")));
}
