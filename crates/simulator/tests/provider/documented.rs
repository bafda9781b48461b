//! `docs/SIMULATOR.md` is true: it lists the scenarios of the table in its words, and its commands run.

use std::{
    fmt::Write,
    process::{Command, Stdio},
};

use pix_simulator::{Operation, SCENARIOS, ScenarioInfo, ScenarioRule, SimulatorConfig};

use crate::support::Client;

/// How the simulator's address is written in the document.
const DOCUMENTED: &str = "http://127.0.0.1:8081";
const DOCUMENT: &str = include_str!("../../../../docs/SIMULATOR.md");
const BEGIN: &str = "<!-- scenarios: begin -->\n";
const END: &str = "<!-- scenarios: end -->";

fn word(operation: Operation) -> String {
    format!("{operation:?}").to_lowercase()
}

/// What the document says of a scenario.
fn described(info: &ScenarioInfo) -> String {
    let operations: Vec<_> = info.operations.iter().copied().map(word).collect();
    let mut text = format!("### `{}`\n\n{}\n\n", info.scenario.name(), info.happens);
    writeln!(text, "- The log says: {}.", info.logged).unwrap();
    writeln!(text, "- Attaches to: {}.", operations.join(", ")).unwrap();
    for parameter in info.parameters {
        let default = if parameter.default.is_empty() { "none" } else { parameter.default };
        writeln!(text, "- `{}`, default `{default}`: {}.", parameter.name, parameter.meaning).unwrap();
    }
    write!(
        text,
        "\n```sh\ncurl -sS --fail-with-body {DOCUMENTED}/sim/scenarios -d '{}'\n```\n",
        info.example
    )
    .unwrap();
    text
}

#[test]
fn the_document_lists_the_scenarios_of_the_table() {
    let (_, rest) = DOCUMENT.split_once(BEGIN).unwrap();
    let (listed, _) = rest.split_once(END).unwrap();
    let expected: Vec<_> = SCENARIOS.iter().map(described).collect();
    let expected = format!("\n{}\n", expected.join("\n"));
    if listed != expected {
        let path = std::env::temp_dir().join("SIMULATOR.scenarios.md");
        std::fs::write(&path, &expected).unwrap();
        panic!("docs/SIMULATOR.md differs from the table; what it should say is in {}", path.display());
    }
}

#[test]
fn every_example_is_a_rule() {
    for info in SCENARIOS {
        let rule: ScenarioRule = serde_json::from_str(info.example).unwrap();
        assert_eq!(rule.scenario, info.scenario);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_document_run() {
    let client = Client::start(SimulatorConfig::default()).await;
    let document = DOCUMENT.replace(DOCUMENTED, &client.url(""));
    let blocks: Vec<_> =
        document.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() > SCENARIOS.len());
    let script = blocks.iter().fold("set -euo pipefail\n".to_owned(), |script, block| {
        let block = block.replace("pix-gateway simulator", "true");
        // Each stands for itself: nothing that an earlier one attached is in its way.
        format!("{script}curl -sS --fail-with-body -X DELETE {}/sim/scenarios\n{block}echo\n", client.url(""))
    });
    let run = move || {
        Command::new("bash").args(["-c", &script]).env("NO_PROXY", "*").stdin(Stdio::null()).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    for info in SCENARIOS {
        assert!(shown.contains(&format!("\"scenario\":\"{}\"", info.scenario.name())), "{shown}");
    }
}
