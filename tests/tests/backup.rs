//! A backup made under load, the loss of what came after it, and the way back: nothing is lost, and nothing is sent twice.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use pix_tests::{Client, Database, Gateway, http_client, on_either_store, text};
use serde_json::{Value, json};

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);
/// How many withdrawals are made before the backup, and how many after it at least.
const SOME: u32 = 12;

on_either_store!(
    a_lost_database_comes_back_from_a_backup_and_nothing_is_sent_twice,
    what_may_have_been_sent_since_the_backup_keeps_the_gate_shut,
    a_restore_that_ends_early_is_served_by_nobody,
);

async fn soon<F: Future<Output = bool>>(what: &str, mut is_true: impl FnMut() -> F) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn withdrawal(number: u32) -> Value {
    json!({
        "amount": "1.00", "external_id": format!("w-{number}"),
        "creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
    })
}

fn charge() -> Value {
    json!({"amount": "5.00", "payer": {"name": "Ana", "document": "52998224725"}})
}

/// A folder of programs that say they are of that version, note that they were used, and do what the machine's do; its `pg_restore`
/// begins as that of PostgreSQL 17 and newer does.
fn programs_of(version: &str, folder: &Path) -> PathBuf {
    let folder = folder.join(format!("of-{version}"));
    std::fs::create_dir(&folder).unwrap();
    // Rather those of the server's own folder and Debian's than a wrapper of Debian's, which is in the path.
    let of_debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().map(Result::unwrap);
    let mut of_debian: Vec<_> = of_debian.map(|version| version.path()).collect();
    of_debian.sort_by_key(|version| version.file_name().unwrap().to_str().unwrap().parse::<u32>().ok());
    let of_debian = of_debian.into_iter().rev().map(|version| version.join("bin"));
    let of_path = std::env::var_os("PATH").unwrap();
    let named = std::env::var_os("PIX_TEST_PG_BIN").map(PathBuf::from).into_iter();
    let folders: Vec<_> = named.chain(of_debian).chain(std::env::split_paths(&of_path)).collect();
    for name in ["pg_dump", "pg_restore", "psql"] {
        let real = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()).unwrap();
        let (real, used) = (real.display(), folder.join(format!("used-{name}")));
        let first = if name == "pg_restore" { "SET transaction_timeout = 0;" } else { "" };
        let script = format!(
            "#!/bin/bash\nif [ \"$1\" = --version ]; then echo '{name} (PostgreSQL) {version}'; exit; fi\n\
             touch '{}'\ncase \"$*\" in *--file=-*) echo '{first}';; esac\nexec '{real}' \"$@\"\n",
            used.display()
        );
        std::fs::write(folder.join(name), script).unwrap();
        std::fs::set_permissions(folder.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// A machine has newer programs than its server, or than the ones that Debian keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_programs_are_taken_and_serve_an_older_server() {
    let mut gateway = Gateway::start(Database::Postgres, &[]).unwrap();
    let integrator = gateway.integrator("loja").unwrap();
    Client::new(&gateway, &integrator).await.unwrap().fund(&gateway, "10").await.unwrap();
    let newer = programs_of("99.1", gateway.folder());
    let backup = gateway.folder().join("a.backup");
    let usual = std::env::var("PATH").unwrap();
    let does = |gateway: &Gateway, arguments: &[&str], first: &Path| {
        let path = format!("{}:{usual}", first.display());
        gateway.command(arguments).env("PATH", path).output().unwrap()
    };
    let made = does(&gateway, &["backup", backup.to_str().unwrap()], &newer);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(newer.join("used-pg_dump").exists());
    if Path::new("/usr/lib/postgresql").exists() {
        let older = programs_of("9.6.24", gateway.folder());
        let another = gateway.folder().join("another.backup");
        // It may be too old for the server itself.
        does(&gateway, &["backup", another.to_str().unwrap()], &older);
        assert!(!older.join("used-pg_dump").exists());
    }
    gateway.kill().unwrap();
    gateway.lose_database().unwrap();
    let restored = does(&gateway, &["restore", backup.to_str().unwrap(), "--operator", "ana"], &newer);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    assert!(newer.join("used-pg_restore").exists() && newer.join("used-psql").exists());
    gateway.run(&["serve"]).unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    assert_eq!(client.balance().await.unwrap(), "10.00");
}

/// How often each reference was sent to the provider, as its log tells.
async fn sent(gateway: &Gateway) -> BTreeMap<String, u32> {
    let answer = http_client().unwrap().get(format!("{}/sim/log", gateway.simulator)).send().await.unwrap();
    let log: Value = answer.json().await.unwrap();
    let mut sent = BTreeMap::new();
    for entry in log.as_array().unwrap() {
        assert_ne!(entry["event"], "payment_repeated", "what the provider has is not sent again");
        if entry["event"] == "payment_executed" || entry["event"] == "payment_settled" {
            *sent.entry(text(entry, "/external_id").unwrap()).or_default() += 1;
        }
    }
    sent
}

fn says(gateway: &Gateway, arguments: &[&str]) -> (bool, String) {
    let output = gateway.cli(arguments).unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// The time that the provider has to book what was on its way is over.
fn let_it_settle(gateway: &Gateway) {
    gateway.set_clock_ahead(Duration::from_mins(6)).unwrap();
}

async fn a_lost_database_comes_back_from_a_backup_and_nothing_is_sent_twice(database: Database) {
    let mut gateway = Gateway::start_with_clock(database, &[("PIX_OPERATOR", "ana")]).unwrap();
    let integrator = gateway.integrator("loja").unwrap();
    let client = Arc::new(Client::new(&gateway, &integrator).await.unwrap());
    let funding = client.fund(&gateway, "1000").await.unwrap();
    let next = Arc::new(AtomicU32::new(0));
    let one = |client: Arc<Client>, number| async move {
        let (status, made) = client.post("/api/v1/withdrawals", withdrawal(number)).await.unwrap();
        assert!(matches!(status, 200 | 201), "{status} {made}");
    };
    while next.load(Ordering::SeqCst) < SOME {
        one(client.clone(), next.fetch_add(1, Ordering::SeqCst)).await;
    }
    // Under load: withdrawals go on before, while and after the backup is made.
    let load = tokio::spawn({
        let (client, next) = (client.clone(), next.clone());
        async move {
            while next.load(Ordering::SeqCst) < 4 * SOME {
                one(client.clone(), next.fetch_add(1, Ordering::SeqCst)).await;
            }
        }
    });
    let backup = gateway.folder().join("a.backup");
    // Wherever it is made.
    let made =
        gateway.command(&["backup", backup.to_str().unwrap(), "--json"]).env("TZ", "BRT3").output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert!(made["bytes"].as_u64().unwrap() > 0, "{made}");
    let (ok, said) = says(&gateway, &["backup", backup.to_str().unwrap()]);
    assert!(!ok && said.contains("there already"), "{said}");
    load.await.unwrap();
    while next.load(Ordering::SeqCst) < 5 * SOME {
        one(client.clone(), next.fetch_add(1, Ordering::SeqCst)).await;
    }
    let everything = 5 * SOME;
    assert_eq!(sent(&gateway).await.len(), usize::try_from(everything).unwrap());

    gateway.kill().unwrap();
    gateway.lose_database().unwrap();
    let restored = gateway.cli_json(&["restore", backup.to_str().unwrap(), "--verify", "--json"]).unwrap();
    assert_eq!((&restored["epoch"], &restored["differences"]), (&json!(1), &json!([])), "{restored}");
    // A dump of PostgreSQL begins a moment after the time that it was asked for at.
    let [asked, told] = [&made["at"], &restored["backup_made_at"]].map(|at| at.as_str().unwrap());
    let is_told = if database == Database::Postgres { asked <= told } else { asked == told };
    assert!(is_told, "asked for at {asked}, and restored as of {told}");
    gateway.run(&["serve"]).unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();

    // Reads and charges go on. No money leaves.
    let (status, made) = client.post("/api/v1/charges", charge()).await.unwrap();
    assert_eq!(status, 201, "{made}");
    let (status, refused) = client.post("/api/v1/withdrawals", withdrawal(everything)).await.unwrap();
    assert_eq!((status, &refused["code"]), (503, &json!("overloaded")), "{refused}");
    // Every client asks for everything again, as after any lost answer: what has left is known again, though nothing leaves.
    for number in 0..everything {
        let (status, made) = client.post("/api/v1/withdrawals", withdrawal(number)).await.unwrap();
        assert!(matches!(status, 200 | 201), "{number}: {status} {made}");
    }
    let (ok, said) = says(&gateway, &["restore", "--open", "--reason", "the statement was compared"]);
    assert!(!ok && said.contains("s are left"), "{said}");
    let_it_settle(&gateway);
    soon("nothing in doubt", || async {
        gateway.cli_json(&["restore", "--json"]).unwrap()["in_doubt"] == json!([])
    })
    .await;
    let (ok, said) = says(&gateway, &["restore", "--open", "--reason", "the statement was compared"]);
    assert!(ok && said.contains("asked first"), "{said}");

    // What another provider doesn't know proves nothing.
    let mut elsewhere = gateway.command(&["restore", "--ask"]);
    elsewhere.env("PIX_PROVIDER_URL", "https://pix.example.invalid").env("PIX_PROVIDER_CLIENT_ID", "other");
    let refused = elsewhere.env("PIX_PROVIDER_CLIENT_SECRET", "a-secret").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("run this with the settings of `serve`"), "{said}");
    // A second PIX on the charge that paid for all this, which nobody was told of.
    let pay = format!("{}/sim/charges/{}/pay", gateway.simulator, text(&funding, "/pix_id").unwrap());
    let paid = http_client().unwrap().post(pay).json(&json!({"amount": "5.00", "callback": false})).send();
    assert_eq!(paid.await.unwrap().status(), 200);
    let asked = gateway.cli_json(&["restore", "--ask", "--json"]).unwrap();
    assert_eq!(asked["unanswered"], json!(0), "{asked}");
    assert_eq!(
        asked["changed"],
        json!([{"kind": "charge", "uuid": funding["uuid"], "integrator": integrator.uuid}])
    );
    soon("all settled", || async {
        let (_, page) = client.get("/api/v1/withdrawals?per_page=100").await.unwrap();
        let all = page["data"].as_array().unwrap().iter().map(|made| text(made, "/substatus").unwrap());
        let all: Vec<_> = all.collect();
        assert!(all.len() == usize::try_from(everything).unwrap(), "{page}");
        all.iter().all(|state| state == "settled")
    })
    .await;
    let sent = sent(&gateway).await;
    assert_eq!(sent.len(), usize::try_from(everything).unwrap(), "each under the reference it had");
    assert!(sent.values().all(|times| *times == 1), "{sent:?}");
    assert_eq!(client.balance().await.unwrap(), format!("{}.00", 1_005 - everything));
    let audit = gateway.audit().unwrap();
    assert_eq!(audit["clean"], true, "{audit}");
    let acts = gateway.cli_json(&["audit-log", "list", "--json"]).unwrap();
    let acts: Vec<_> = acts.as_array().unwrap().iter().map(|act| act["action"].clone()).collect();
    soon("money leaves again", || async {
        let (status, made) = client.post("/api/v1/withdrawals", withdrawal(everything)).await.unwrap();
        assert!(matches!(status, 201 | 503), "{status} {made}");
        status == 201
    })
    .await;
    assert_eq!(acts[acts.len() - 2..], [json!("books.restored"), json!("outflow.opened")]);
}

async fn what_may_have_been_sent_since_the_backup_keeps_the_gate_shut(database: Database) {
    let settings = [
        ("PIX_OPERATOR", "ana"),
        ("PIX_PROVIDER_TIMEOUT_MS", "300"),
        ("PIX_PROVIDER_NOT_FOUND_PROOF_S", "never"),
    ];
    let mut gateway = Gateway::start_with_clock(database, &settings).unwrap();
    let integrator = gateway.integrator("loja").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    let never = json!({"scenario": "never_answers", "on": {"next": 1}, "operation": "payment"});
    let control = http_client().unwrap().post(format!("{}/sim/scenarios", gateway.simulator)).json(&never);
    assert_eq!(control.send().await.unwrap().status(), 200);
    let (status, made) = client.post("/api/v1/withdrawals", withdrawal(1)).await.unwrap();
    assert_eq!((status, &made["outcome"]), (201, &json!("uncertain")), "{made}");
    gateway.terminate().unwrap();

    // Restored by other means than ours: the database that is there counts as a copy of another day.
    let (ok, said) = says(&gateway, &["restore", "--mark"]);
    assert!(!ok && said.contains("--reason"), "{said}");
    let marked = gateway.cli_json(&["restore", "--mark", "--reason", "disk of yesterday", "--json"]).unwrap();
    assert_eq!(marked["in_doubt"], json!(1), "{marked}");
    gateway.run(&["serve"]).unwrap();
    let_it_settle(&gateway);
    let (ok, said) = says(&gateway, &["restore", "--open", "--reason", "it looks well"]);
    assert!(!ok && said.contains("still in doubt: 1 withdrawals uncertain"), "{said}");
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let path = format!("/api/v1/withdrawals/{}", text(&made, "/uuid").unwrap());
    let (_, seen) = client.get(&format!("{path}/evidence")).await.unwrap();
    let told = seen["data"].as_array().unwrap().iter().any(|seen| {
        seen["kind"] == "decision" && text(seen, "/detail").unwrap().contains("restored from a backup")
    });
    assert!(told, "{seen}");
    let uuid = text(&made, "/uuid").unwrap();
    for operator in ["ana", "rui"] {
        let how =
            ["resolve", &uuid, "--as", "failed", "--reason", "not on the statement", "--operator", operator];
        let (ok, said) = says(&gateway, &how);
        assert!(ok, "{said}");
    }
    let (ok, said) = says(&gateway, &["restore", "--open", "--reason", "all is decided"]);
    assert!(ok, "{said}");
    let (ok, said) = says(&gateway, &["restore", "--open", "--reason", "once more"]);
    assert!(!ok && said.contains("already"), "{said}");
}

/// What one row of PostgreSQL says.
fn asked(gateway: &Gateway, sql: &str) -> String {
    let url = pix_pg_server::shared().unwrap().url(&gateway.database_name().unwrap());
    let output = Command::new("psql").args(["-XAtc", sql, &url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn a_restore_that_ends_early_is_served_by_nobody(database: Database) {
    let mut gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("loja").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "10").await.unwrap();
    let backup = gateway.folder().join("a.backup");
    if database == Database::Postgres {
        // What ends a restore between putting the backup in place and shutting the way out.
        asked(
            &gateway,
            "CREATE FUNCTION nothing_more() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'ends here'; END$$; \
             CREATE TRIGGER nothing_more BEFORE INSERT ON audit_log EXECUTE FUNCTION nothing_more()",
        );
    }
    // What somebody's shell says of another database is nothing to us.
    let mut command = gateway.command(&["backup", backup.to_str().unwrap()]);
    let elsewhere = [("PGHOST", "nowhere.invalid"), ("PGDATABASE", "other"), ("PGSERVICE", "none")];
    assert!(command.envs(elsewhere).output().unwrap().status.success());
    let mode = std::fs::metadata(&backup).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds names, and hashes of secrets");

    // Over a database that is there nothing is written.
    let restore = ["restore", backup.to_str().unwrap(), "--operator", "ana"];
    let (ok, said) = says(&gateway, &restore);
    assert!(
        !ok && (said.contains("must name an empty database") || said.contains("is serving this database")),
        "{said}"
    );
    assert_eq!(client.balance().await.unwrap(), "10.00");
    let damaged = gateway.folder().join("damaged.backup");
    let whole = std::fs::read(&backup).unwrap();
    std::fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    gateway.kill().unwrap();
    gateway.lose_database().unwrap();
    let nothing = gateway.folder().join("nothing.backup");
    let (ok, said) = says(&gateway, &["backup", nothing.to_str().unwrap()]);
    assert!(!ok && !nothing.exists(), "a backup of nothing: {said}");
    let (ok, said) = says(&gateway, &["restore", damaged.to_str().unwrap(), "--operator", "ana"]);
    assert!(
        !ok && (said.contains("can't be put in place (nothing was changed)") || said.contains("malformed")),
        "{said}"
    );
    if database == Database::Postgres {
        assert_eq!(asked(&gateway, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
        // A dump that somebody else has made, with what would be committed on the way.
        asked(&gateway, "SELECT lo_create(0)");
        let url = pix_pg_server::shared().unwrap().url(&gateway.database_name().unwrap());
        let other = gateway.folder().join("other.backup");
        let dump = Command::new("pg_dump").args(["--format=custom", "--file"]).arg(&other).arg(&url).status();
        assert!(dump.unwrap().success());
        let (ok, said) = says(&gateway, &["restore", other.to_str().unwrap(), "--operator", "ana"]);
        assert!(!ok && said.contains("large objects"), "{said}");
    }

    // Nobody says who restores: nothing is put in place.
    let (ok, said) = says(&gateway, &["restore", backup.to_str().unwrap()]);
    assert!(!ok && said.contains("operator"), "{said}");
    if database == Database::Postgres {
        assert_eq!(asked(&gateway, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"), "0");
        let (ok, said) = says(&gateway, &restore);
        assert!(!ok && said.contains("ends here"), "{said}");
        let together = "SELECT (SELECT xmin FROM facts WHERE name = 'copy') = (SELECT xmin FROM integrators)";
        assert_eq!(asked(&gateway, together), "t", "put in place, and said to be a copy, in one transaction");
        asked(&gateway, "DROP TRIGGER nothing_more ON audit_log");
    } else {
        let place = gateway.folder().join("pix.db");
        assert!(!place.exists());
        std::fs::copy(&backup, place).unwrap();
    }
    let (ok, said) = says(&gateway, &["serve"]);
    assert!(!ok && said.contains("this database is a backup made at"), "{said}");
    let (ok, said) = says(&gateway, &["restore", "--mark", "--reason", "goes on", "--operator", "ana"]);
    assert!(ok, "{said}");
    gateway.run(&["serve"]).unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    assert_eq!(client.balance().await.unwrap(), "10.00");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_restored_beside_what_is_left_of_a_lost_file() {
    let mut gateway = Gateway::start(Database::Sqlite, &[("PIX_OPERATOR", "ana")]).unwrap();
    gateway.integrator("loja").unwrap();
    let backup = gateway.folder().join("a.backup");
    let restore = ["restore", backup.to_str().unwrap()];
    assert!(says(&gateway, &["backup", backup.to_str().unwrap()]).0);
    gateway.integrator("mercado").unwrap();
    gateway.kill().unwrap();
    // Its newest commits are in the log, which would be played into the backup.
    let (place, log) = (gateway.folder().join("pix.db"), gateway.folder().join("pix.db-wal"));
    std::fs::remove_file(&place).unwrap();
    let left = std::fs::read(&log).unwrap();
    let (ok, said) = says(&gateway, &restore);
    assert!(!ok && said.contains("pix.db-wal") && said.contains("keep it"), "{said}");
    assert!(!place.exists() && std::fs::read(&log).unwrap() == left, "what is left is as it was");

    gateway.lose_database().unwrap();
    for ending in ["keys", "postback-key"] {
        std::fs::rename(gateway.folder().join(format!("pix.db.{ending}")), gateway.folder().join(ending))
            .unwrap();
    }
    let (ok, said) = says(&gateway, &restore);
    assert!(
        ok && said.contains("pix.db.keys and no") && said.contains("pix.db.postback-key is here"),
        "{said}"
    );
    assert!(!gateway.folder().join("pix.db.postback-key").exists(), "no other is made in its place");
    let listed = gateway.cli_json(&["integrator", "list", "--json"]).unwrap().to_string();
    assert!(listed.contains("loja") && !listed.contains("mercado"), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_copy_is_as_old_as_what_was_last_written_to_it() {
    let mut gateway = Gateway::start(Database::Sqlite, &[("PIX_OPERATOR", "ana")]).unwrap();
    gateway.integrator("loja").unwrap();
    gateway.kill().unwrap();
    // Its newest commits are in the log beside it, which whoever looks into the copy brings in.
    let copy = gateway.folder().join("copy.db");
    for ending in ["", "-wal"] {
        let beside = |file: &str| gateway.folder().join(format!("{file}{ending}"));
        std::fs::copy(beside("pix.db"), beside("copy.db")).unwrap();
        let at =
            UNIX_EPOCH + Duration::from_secs(if ending.is_empty() { 999_999_000 } else { 1_000_000_000 });
        std::fs::File::options().write(true).open(beside("copy.db")).unwrap().set_modified(at).unwrap();
    }
    gateway.lose_database().unwrap();
    let restored = gateway.cli_json(&["restore", copy.to_str().unwrap(), "--json"]).unwrap();
    assert_eq!(restored["backup_made_at"], "2001-09-09T01:46:40Z", "{restored}");
    let listed = gateway.cli_json(&["integrator", "list", "--json"]).unwrap();
    assert!(listed.to_string().contains("loja"), "{listed}");
}
