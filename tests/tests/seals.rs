//! The running program seals its books, finds what somebody changed in them, and signs what they are.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use diesel::connection::{Connection, SimpleConnection};
use diesel::sqlite::SqliteConnection;
use pix_tests::{Client, Database, Gateway, Integrator, on_either_store, program, text};
use serde_json::{Value, json};

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);

on_either_store!(what_is_posted_is_sealed_and_the_chain_is_proven);

async fn started(database: Database, settings: &[(&str, &str)]) -> (Gateway, Integrator, Client) {
    let gateway = Gateway::start(database, settings).unwrap();
    let integrator = gateway.integrator("sealed").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    (gateway, integrator, client)
}

fn json_of(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {errors}"))
}

/// What a subcommand with `--json` says, and whether it ended well.
fn said(gateway: &Gateway, arguments: &[&str]) -> (bool, Value) {
    let output = gateway.cli(&[arguments, &["--json"]].concat()).unwrap();
    (output.status.success(), json_of(&output))
}

/// The database itself, as who owns the file has it.
fn database(gateway: &Gateway) -> SqliteConnection {
    let path = gateway.folder().join("pix.db");
    let mut connection = SqliteConnection::establish(path.to_str().unwrap()).unwrap();
    connection.batch_execute("PRAGMA busy_timeout = 10000").unwrap();
    connection
}

fn tamper(gateway: &Gateway, sql: &str) {
    database(gateway).batch_execute(sql).unwrap();
}

async fn what_is_posted_is_sealed_and_the_chain_is_proven(database: Database) {
    let (gateway, integrator, client) = started(database, &[("PIX_SEAL_INTERVAL_MS", "50")]).await;
    for _ in 0..3 {
        client.fund(&gateway, "10").await.unwrap();
    }
    // The workers do it; who wants it now asks for it.
    let (good, sealed) = said(&gateway, &["seal"]);
    assert!(good && sealed["left"] == 0, "{sealed}");
    let (good, chain) = said(&gateway, &["audit", "--chain"]);
    assert!(good, "{chain}");
    assert_eq!((&chain["clean"], &chain["differences"]), (&json!(true), &json!([])));
    let own = &chain["integrators"][0];
    assert_eq!((&own["integrator"], &own["unsealed"]), (&json!(integrator.uuid), &json!(0)));
    assert_eq!((&own["entries"], text(own, "/newest_hash").unwrap().len()), (&json!(3), 64));
    assert_eq!(text(&chain, "/root").unwrap().len(), 64);

    client.fund(&gateway, "1").await.unwrap();
    let begun = Instant::now();
    loop {
        let (_, chain) = said(&gateway, &["audit", "--chain"]);
        if chain["integrators"][0]["entries"] == 4 && chain["integrators"][0]["unsealed"] == 0 {
            break;
        }
        assert!(begun.elapsed() < SOON, "the workers don't seal: {chain}");
    }
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_posting_that_is_changed_behind_a_seal_is_named() {
    let (gateway, integrator, client) = started(Database::Sqlite, &[("PIX_SEAL_INTERVAL_MS", "0")]).await;
    client.fund(&gateway, "10").await.unwrap();
    assert!(said(&gateway, &["seal"]).0);
    client.fund(&gateway, "20").await.unwrap();
    assert!(said(&gateway, &["seal"]).0);
    let before = said(&gateway, &["audit", "--chain"]).1["root"].clone();
    // It is right by every other rule: no balance follows from a time.
    tamper(&gateway, "UPDATE postings SET created_at = created_at + 1 WHERE entry = 2");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
    let (good, chain) = said(&gateway, &["audit", "--chain"]);
    assert!(!good, "{chain}");
    let found = &chain["differences"];
    assert_eq!(found.as_array().unwrap().len(), 1, "{chain}");
    assert_eq!(
        (&found[0]["integrator"], &found[0]["seal"], &found[0]["from_entry"], &found[0]["to_entry"]),
        (&json!(integrator.uuid), &json!(2), &json!(2), &json!(2))
    );
    let shown = gateway.cli(&["audit", "--chain"]).unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("WRONG") && shown.contains("seal 2, entries 2 to 2"), "{shown}");

    // A seal can't be made anew while its triggers stand; without them the chain is whole, and its root another.
    let refused = database(&gateway).batch_execute("DELETE FROM seals").unwrap_err().to_string();
    assert!(refused.contains("seals are only ever added to"), "{refused}");
    tamper(&gateway, "DROP TRIGGER seals_are_not_removed; DELETE FROM seals");
    assert!(said(&gateway, &["seal"]).0);
    let (good, chain) = said(&gateway, &["audit", "--chain"]);
    assert!(good && chain["root"] != before, "{chain}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_book_that_contradicts_itself_is_sealed_no_further_and_shown() {
    let port = pix_tests::Port::reserve().unwrap();
    let admin = format!("127.0.0.1:{}", port.number());
    let settings = [("PIX_SEAL_INTERVAL_MS", "50"), ("PIX_ADMIN_LISTEN", admin.as_str())];
    let (gateway, _, client) = started(Database::Sqlite, &settings).await;
    client.fund(&gateway, "10").await.unwrap();
    assert!(said(&gateway, &["seal"]).0);
    tamper(&gateway, "UPDATE wallets SET available_cents = available_cents + 1 WHERE entries > 0");
    let http = pix_tests::http_client().unwrap();
    let differences = async || {
        let answer = http.get(format!("http://{admin}/health/ready")).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap()["seals"]["differences"].clone())
    };
    let begun = Instant::now();
    while differences().await != (200, json!(1)) {
        assert!(begun.elapsed() < SOON, "nobody tells:\n{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (good, sealed) = said(&gateway, &["seal"]);
    assert!(!good && sealed["differing"] == 1, "{sealed}");
    let audit = gateway.audit().unwrap();
    assert_eq!(audit["clean"], false);
    assert!(audit["seals"][0].as_str().unwrap().contains("the wallet says available 10.01"), "{audit}");
    assert!(gateway.log().contains("a book contradicts itself"), "{}", gateway.log());
    let found = gateway.cli_json(&["findings", "--json"]).unwrap();
    assert_eq!((&found[0]["kind"], &found[0]["code"]), (&json!("seal"), &json!("wallet")), "{found}");
    assert!(found[0]["action"].as_str().unwrap().contains("stop moving money out"), "{found}");
    tamper(&gateway, "UPDATE wallets SET available_cents = available_cents - 1 WHERE entries > 0");
    assert!(said(&gateway, &["seal"]).0);
    assert_eq!(gateway.audit().unwrap()["clean"], true);
    assert_eq!(gateway.cli_json(&["findings", "--json"]).unwrap(), json!([]));

    // A record that its postings contradict is found without reading the whole book.
    tamper(&gateway, "UPDATE charges SET amount_paid_cents = amount_paid_cents + 1 WHERE state = 'paid'");
    let (good, found) = said(&gateway, &["audit", "--provider"]);
    assert!(!good && found["differ"][0]["code"] == "postings_differ", "{found}");
    let told = gateway.cli_json(&["findings", "--json"]).unwrap();
    assert_eq!(told[0]["code"], "postings_differ", "{told}");
}

/// Runs a subcommand where there is nothing: no settings, no database.
fn elsewhere(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new(program());
    let output = command.args(arguments).env_clear().current_dir(folder).output().unwrap();
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.success(), String::from_utf8(both).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_signed_each_day_and_verified_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let (key, books) = (folder.path().join("books.key"), folder.path().join("books"));
    let (key, books) = (key.to_str().unwrap(), books.to_str().unwrap());
    let (good, public) = elsewhere(folder.path(), &["books", "key", key]);
    assert!(good && public.trim().len() == 64, "{public}");
    let public = public.trim().to_owned();
    let (good, refused) = elsewhere(folder.path(), &["books", "key", key]);
    assert!(!good && refused.contains("can't be made"), "{refused}");

    let settings = [("PIX_BOOKS_KEY_FILE", key), ("PIX_BOOKS_DIR", books), ("PIX_AUDIT_INTERVAL_S", "86400")];
    let (gateway, _, client) = started(Database::Sqlite, &settings).await;
    client.fund(&gateway, "10").await.unwrap();
    let begun = Instant::now();
    let written = loop {
        let found = std::fs::read_dir(books).ok().and_then(|mut files| files.next());
        let whole = found.map(|file| file.unwrap().path()).filter(|file| file.extension().unwrap() == "json");
        if let Some(file) = whole {
            break file;
        }
        assert!(begun.elapsed() < SOON, "no statement:\n{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let (good, verified) =
        elsewhere(folder.path(), &["books", "verify", written.to_str().unwrap(), "--public-key", &public]);
    assert!(good && verified.contains("is valid"), "{verified}");

    let signed = gateway.cli(&["books", "sign", "--key", key]).unwrap();
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    let file = folder.path().join("today.json");
    std::fs::write(&file, &signed.stdout).unwrap();
    let verify = |file: &Path, key: &str| {
        let file = file.to_str().unwrap();
        elsewhere(folder.path(), &["books", "verify", file, "--public-key", key, "--json"])
    };
    let (good, verified) = verify(&file, &public);
    let verified: Value = serde_json::from_str(&verified).unwrap();
    assert!(good && verified["valid"] == true, "{verified}");
    let statement = &verified["statement"];
    assert_eq!(statement["sealed"]["available"], "10.00");
    assert_eq!(statement["sealed"]["clearing"], "-10.00");
    assert_eq!(statement["cash_expected"], "10.00");
    assert_eq!(statement["unsealed_entries"], 0);
    // The simulated provider begins with a hundred million.
    assert_eq!(statement["provider_balance"], "100000010.00");
    assert_eq!(
        (&statement["provider_difference"], &statement["provider_balance_reason"]),
        (&json!("100000000.00"), &Value::Null)
    );
    let chain = said(&gateway, &["audit", "--chain"]).1;
    assert_eq!(statement["chain"]["root"], chain["root"]);

    let text = String::from_utf8(signed.stdout).unwrap();
    let changed = folder.path().join("changed.json");
    std::fs::write(&changed, text.replacen("10.00", "10.01", 1)).unwrap();
    let (good, told) = verify(&changed, &public);
    assert!(!good && told.contains("the file was changed"), "{told}");
    let (_, other) = elsewhere(folder.path(), &["books", "key", "other.key"]);
    let (good, told) = verify(&file, other.trim());
    assert!(!good && told.contains("another key"), "{told}");

    // The statement knows what the chain alone doesn't.
    let against = ["audit", "--chain", "--against", file.to_str().unwrap()];
    assert!(said(&gateway, &against).0);
    let begun = Instant::now();
    while !gateway.log().contains("the books were audited and are right") {
        assert!(begun.elapsed() < SOON, "no audit:\n{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tamper(
        &gateway,
        "UPDATE postings SET created_at = 1; DROP TRIGGER seals_are_not_removed; DELETE FROM seals",
    );
    assert!(said(&gateway, &["seal"]).0);
    assert!(said(&gateway, &["audit", "--chain"]).0);
    let (good, told) = said(&gateway, &against);
    assert!(!good && told["against"][0].as_str().unwrap().contains("made anew"), "{told}");
}
