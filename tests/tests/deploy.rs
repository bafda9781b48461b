//! What it is deployed with says what is true of the program: alerts, dashboard, unit, settings. `make lint-deploy` has the real
//! `promtool` and the like read these files, and `make package-test` installs the package.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use pix_tests::{Client, Database, Gateway, Port, http_client, program, repository};
use serde_json::{Value, json};

/// How long what is measured now and then may take to be there.
const SOON: Duration = Duration::from_mins(1);

/// Measured only where it happens, or is configured.
const NOT_ALWAYS: [&str; 2] = ["pix_rate_store_up", "pix_shed_total"];
/// What a metric of several series adds to its name.
const ENDINGS: [&str; 3] = ["_bucket", "_count", "_sum"];

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The words of a text that may be names of metrics of the program.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
    let named = words.filter(|word| word.starts_with("pix_") || word.starts_with("process_"));
    named
        .map(|word| ENDINGS.iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word).to_owned())
        .collect()
}

/// The queries of the dashboard.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/pix-gateway.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().clone();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// The alerts, each with its lines.
fn alerts() -> BTreeMap<String, String> {
    let rules = read("deploy/prometheus/alerts.yml");
    let alerts = rules.split("- alert: ").skip(1);
    alerts
        .map(|alert| alert.split_once('\n').unwrap())
        .map(|(name, lines)| (name.to_owned(), lines.to_owned()))
        .collect()
}

/// All metrics that alerts and dashboard are made of.
fn used() -> BTreeSet<String> {
    let lines: Vec<_> = alerts().into_values().chain(queries()).collect();
    metrics_in(&lines.join("\n"))
}

/// All text in quotes in the sources of the program.
fn quoted() -> BTreeSet<String> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![PathBuf::from("crates")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(repository().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if repository().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(repository().join(&path)).unwrap();
                found.extend(text.split('"').map(str::to_owned));
            }
        }
    }
    found
}

#[test]
fn alerts_and_dashboard_name_no_metric_that_the_program_does_not_know() {
    let (used, known) = (used(), quoted());
    assert!(used.len() > 5, "hardly a metric is used");
    for metric in used {
        assert!(known.contains(&metric), "no such metric: {metric}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_alerts_and_dashboard_are_made_of_is_on_the_metrics_page() {
    let admin = Port::reserve().unwrap();
    let listen = format!("127.0.0.1:{}", admin.number());
    let settings = [
        ("PIX_ADMIN_LISTEN", listen.as_str()),
        ("PIX_POSTBACK_ALLOW_PRIVATE", "loopback"),
        ("PIX_RATE_TOKEN_PER_MINUTE", "1"),
    ];
    let gateway = Gateway::start(Database::Sqlite, &settings).unwrap();
    let integrator = gateway.integrator("Loja").unwrap();
    let mut client = Client::new(&gateway, &integrator).await.unwrap();
    assert!(client.sign_in(&integrator).await.is_err(), "the limit is one a minute");
    client.fund(&gateway, "100.00").await.unwrap();
    // Nobody listens there: an attempt that fails is one too.
    let (status, withdrawal) = client
        .post(
            "/api/v1/withdrawals",
            json!({
                "amount": 10, "postbackUrl": format!("http://{listen}/nobody"),
                "creditParty": {"name": "Ana Lima", "keyType": "EMAIL", "key": "ana@example.com", "taxId": "52998224725"},
            }),
        )
        .await
        .unwrap();
    assert_eq!(status, 201, "{withdrawal}");
    assert_eq!(gateway.audit().unwrap()["clean"], true);

    let (http, begun) = (http_client().unwrap(), Instant::now());
    let wanted: BTreeSet<_> =
        used().into_iter().filter(|name| !NOT_ALWAYS.contains(&name.as_str())).collect();
    loop {
        let page = http.get(format!("http://{listen}/metrics")).send().await.unwrap().text().await.unwrap();
        let shown = metrics_in(&page);
        let missing: Vec<_> = wanted.difference(&shown).collect();
        if missing.is_empty() {
            break;
        }
        assert!(begun.elapsed() < SOON, "never shown: {missing:?}\n{page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn each_alert_is_shown_to_fire_and_to_stay_quiet_and_says_where_to_read_on() {
    let (tests, operations) = (read("deploy/prometheus/alerts_test.yml"), read("docs/OPERATIONS.md"));
    let headings: BTreeSet<_> = operations
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"))
        .collect();
    let cases: Vec<_> = tests.split("- alertname: ").skip(1).collect();
    for (alert, lines) in alerts() {
        let own: Vec<_> = cases.iter().filter(|case| case.lines().next() == Some(alert.as_str())).collect();
        assert!(own.iter().any(|case| case.contains("exp_alerts: []")), "{alert} is never shown to be quiet");
        assert!(own.iter().any(|case| case.contains("exp_labels:")), "{alert} is never shown to fire");
        let runbook = lines.lines().find_map(|line| line.trim().strip_prefix("runbook: ")).unwrap();
        assert!(headings.contains(runbook), "{alert}: OPERATIONS.md has no section {runbook}");
    }
}

fn seconds(text: &str, setting: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(setting)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

#[test]
fn what_stops_the_program_gives_it_the_time_that_it_takes() {
    let help = Command::new(program()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let default = |setting: &str| -> u64 {
        let (_, rest) = help.split_once(&format!("  {setting}\n")).unwrap();
        let (_, rest) = rest.split_once("[default: ").unwrap();
        rest.split_once(']').unwrap().0.parse().unwrap()
    };
    let seconds_of = |setting| default(setting) / 1000;
    // An operation waits for its turn, and twice for a token and for the answer.
    let call = seconds_of("PIX_PROVIDER_TIMEOUT_MS");
    let longest = seconds_of("PIX_DRAIN_MS")
        + default("PIX_SHUTDOWN_TIMEOUT_S")
        + 2
        + 2 * (call.min(10) + call)
        + seconds_of("PIX_POSTBACK_TIMEOUT_MS")
        + seconds_of("PIX_OTLP_TIMEOUT_MS");
    assert!(seconds(&read("deploy/debian/pix-gateway.service"), "TimeoutStopSec=") > longest);
    assert!(seconds(&read("compose.yaml"), "  stop_grace_period: ") > longest);
}

#[test]
fn the_files_of_settings_name_no_setting_that_does_not_exist() {
    let help = Command::new(program()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let known: BTreeSet<_> = help.split_whitespace().collect();
    let mut seen = 0;
    for file in [
        "deploy/debian/pix-gateway.env",
        "deploy/debian/pix-gateway.service",
        "deploy/debian/pix-gatewayctl",
        "deploy/compose/gateway.env.example",
        "deploy/compose/Caddyfile",
        "compose.yaml",
        "Containerfile",
    ] {
        let text = read(file);
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        for name in words.filter(|word| word.starts_with("PIX_")) {
            assert!(known.contains(name), "{file}: there is no setting {name}");
            seen += 1;
        }
    }
    assert!(seen > 20, "they name hardly a setting");
}

/// Runs the package's command for operators with these settings: the environment that it gives the program, or what it says.
fn settings_of_operators(lines: &str) -> Result<String, String> {
    let script = read("deploy/debian/pix-gatewayctl");
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("pix-gateway.env");
    std::fs::write(&settings, lines).unwrap();
    // As root, with the service's user and folder, and the program: what a test hasn't.
    let (script, _) = script.split_once("export PIX_OPERATOR").unwrap();
    let script = script
        .replace("/etc/pix-gateway/pix-gateway.env", settings.to_str().unwrap())
        .replace("$(id -u)", "0");
    let output = Command::new("sh").args(["-c", &format!("{script}\nenv")]).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn the_command_for_operators_reads_the_settings_as_the_service_does_or_not_at_all() {
    let shipped = settings_of_operators(&read("deploy/debian/pix-gateway.env")).unwrap();
    assert!(shipped.contains("DATABASE_URL=sqlite:"), "{shipped}");
    let read = settings_of_operators(
        "# a comment\n; another\n\n \t\nDATABASE_URL=postgres://u:a$b`c@h/d?x=1&y=#2\nA=\"two words\"\nB='$HOME'\nC=\nD=x=y",
    );
    let read = read.unwrap();
    for line in ["DATABASE_URL=postgres://u:a$b`c@h/d?x=1&y=#2", "A=two words", "B=$HOME", "C=", "D=x=y"] {
        assert!(read.lines().any(|each| each == line), "{line}: {read}");
    }
    for line in [
        "  PIX_LOG=warn",
        "\tPIX_LOG=warn",
        "PIX_LOG = warn",
        "PIX_LOG= warn",
        "PIX_LOG=warn ",
        "PIX_LOG=warn\r",
        "PIX_LOG=\"warn\" ",
        "PIX_LOG=\"warn",
        "PIX_LOG='",
        "PIX_LOG=\"a\"b\"",
        "PIX_LOG=a\\",
        "PIX_LOG=\"a\\\"b\"",
        "# a comment \\",
        "PIX-LOG=warn",
        "1PIX=warn",
        "settings=/etc/passwd",
        "=warn",
        "export PIX_LOG=warn",
        "PIX_LOG",
    ] {
        let refused = settings_of_operators(&format!("A=1\n{line}\nB=2\n")).unwrap_err();
        assert!(refused.contains("line 2 of ") && refused.contains("NAME=value"), "{line:?}: {refused}");
    }
}

#[test]
fn what_it_is_deployed_with_has_no_long_lines() {
    for file in [
        "compose.yaml",
        "deploy/prometheus/alerts.yml",
        "deploy/prometheus/alerts_test.yml",
        "deploy/prometheus/prometheus.yml",
    ] {
        for (number, line) in (1..).zip(read(file).lines()) {
            assert!(line.chars().count() <= 130, "{file}:{number} is too long for `make lint-deploy`");
        }
    }
}

#[test]
fn health_says_whether_it_is_ready() {
    let mut gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    let ready = gateway.cli(&["health"]).unwrap();
    assert!(ready.status.success());
    assert_eq!(String::from_utf8_lossy(&ready.stdout), "ready\n");
    gateway.terminate().unwrap();
    let gone = gateway.cli(&["health"]).unwrap();
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stdout).starts_with("nobody answers on 127.0.0.1:"));
}

#[test]
fn the_image_is_built_by_the_compiler_that_everything_else_is() {
    let toolchain = read("rust-toolchain.toml");
    let version = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let image = format!("FROM docker.io/library/rust:{}-bookworm AS build", version.trim_matches('"'));
    assert!(read("Containerfile").contains(&image), "no {image}");
}
