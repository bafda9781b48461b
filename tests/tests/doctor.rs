//! `pix-gateway doctor`, with everything well and with one thing broken at a time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::os::unix::fs::PermissionsExt;

use pix_tests::{Database, Gateway, Port, on_either_store};
use serde_json::Value;

on_either_store!(a_well_node_is_said_to_be_well, each_thing_that_is_broken_is_named_with_what_to_do);

/// Settings, the check that fails with them, and what its remedy names.
type Broken<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);

/// What the doctor says: whether it ended well, and all that it wrote.
fn doctor(gateway: &Gateway, environment: &[(&str, &str)]) -> (bool, Value) {
    let mut command = gateway.command(&["doctor", "--json"]);
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!told.contains("hunter2"), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
    assert_eq!(told["ok"], output.status.success());
    (output.status.success(), told)
}

fn check<'a>(told: &'a Value, name: &str) -> &'a Value {
    let all = told["checks"].as_array().unwrap();
    all.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {told}"))
}

async fn a_well_node_is_said_to_be_well(database: Database) {
    let beside = Gateway::start(Database::Sqlite, &[]).unwrap();
    let provider =
        [("PIX_PROVIDER_URL", beside.simulator.as_str()), ("PIX_PROVIDER_CLIENT_SECRET", "simulator-secret")];
    let gateway = Gateway::start(database, &provider).unwrap();
    gateway.audit().unwrap();
    let (good, told) = doctor(&gateway, &[]);
    assert!(good, "{told}");
    for name in [
        "configuration",
        "database",
        "durability",
        "schema",
        "same provider",
        "reconciler",
        "callbacks",
        "relay",
        "uncertain money",
        "audit",
        "proofs",
        "keys",
        "provider",
        "public url",
    ] {
        assert_eq!(check(&told, name)["status"], "ok", "{told}");
    }
    let of_servers = if database == Database::Sqlite { "skipped" } else { "ok" };
    for name in ["indexes", "clock", "connections", "nodes"] {
        assert_eq!(check(&told, name)["status"], of_servers, "{told}");
    }
    let (good, told) = doctor(&beside, &[]);
    assert!(good && check(&told, "provider")["status"] == "skipped", "{told}");
}

async fn each_thing_that_is_broken_is_named_with_what_to_do(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let nobody = Port::reserve().unwrap();
    let nowhere = format!("http://127.0.0.1:{}", nobody.number());
    let database_nowhere = format!("postgres://pix:hunter2@127.0.0.1:{}/pix", nobody.number());
    let simulator = gateway.simulator.clone();
    let broken: [Broken<'_>; 5] = [
        (
            &[("PIX_PROVIDER_URL", nowhere.as_str()), ("PIX_PROVIDER_CLIENT_SECRET", "hunter2")],
            "provider",
            "PIX_PROVIDER_URL",
        ),
        (
            &[("PIX_PROVIDER_URL", simulator.as_str()), ("PIX_PROVIDER_CLIENT_SECRET", "hunter2")],
            "provider",
            "PIX_PROVIDER_CLIENT_SECRET",
        ),
        (&[("DATABASE_URL", database_nowhere.as_str())], "database", "DATABASE_URL"),
        (&[("PIX_TOKEN_KEYS", "hunter2")], "configuration", "config check"),
        (&[("PIX_POSTBACK_KEYS", "hunter2")], "configuration", "config check"),
    ];
    for (environment, name, remedy) in broken {
        let (good, told) = doctor(&gateway, environment);
        let found = check(&told, name);
        assert!(!good && found["status"] == "failed", "{name}: {told}");
        assert!(found["remedy"].as_str().unwrap().contains(remedy), "{found}");
    }
    let (_, told) =
        doctor(&gateway, &[("PIX_PROVIDER_URL", &simulator), ("PIX_PROVIDER_CLIENT_SECRET", "a")]);
    let found = check(&told, "same provider");
    assert!(found["status"] == "failed" && found["found"].as_str().unwrap().contains("simulated"), "{told}");
    let (good, told) = doctor(&gateway, &[("PIX_PUBLIC_URL", &nowhere)]);
    assert!(good && check(&told, "public url")["status"] == "warning", "no real provider calls back: {told}");
    let (good, told) = doctor(&gateway, &[("DATABASE_URL", &database_nowhere)]);
    assert!(!good && check(&told, "schema")["status"] == "skipped", "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_get_on_with_the_others_is_told() {
    let gateway = Gateway::start(Database::Postgres, &[]).unwrap();
    let others = gateway.cli(&["secrets"]).unwrap().stdout;
    let others = String::from_utf8(others).unwrap();
    let other =
        |name: &str| others.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap();
    let nodes = |settings: &[(&str, &str)]| {
        let (good, told) = doctor(&gateway, settings);
        assert!(good, "{told}");
        check(&told, "nodes").clone()
    };
    assert_eq!(nodes(&[])["status"], "ok");
    for name in ["PIX_TOKEN_KEYS", "PIX_PROVIDER_CALLBACK_SECRET", "PIX_POSTBACK_KEYS"] {
        let found = nodes(&[(name, other(name))]);
        assert_eq!(found["status"], "warning");
        assert!(found["found"].as_str().unwrap().starts_with(&format!("{name} is not what")), "{found}");
    }
    // A node that is started is told the same, and is the one that the next is compared with.
    let name = "PIX_PROVIDER_CALLBACK_SECRET";
    let mut node = gateway.another_node_with(&[(name, other(name))]).unwrap();
    assert_eq!(nodes(&[(name, other(name))])["status"], "ok");
    assert_eq!(node.terminate().unwrap(), Some(0));
    assert!(node.log().contains(&format!("{name} is not what the node had")), "{}", node.log());
    assert_eq!(nodes(&[])["status"], "warning");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_the_server_does_not_use_is_told() {
    let gateway = Gateway::start(Database::Postgres, &[]).unwrap();
    let name = gateway.database_name().unwrap();
    let server = pix_pg_server::shared().unwrap();
    // As it is when CREATE INDEX CONCURRENTLY was broken off.
    server
        .psql(
            &name,
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'charges_by_provider_id'::regclass",
        )
        .unwrap();
    let (good, told) = doctor(&gateway, &[]);
    assert!(!good, "{told}");
    let found = check(&told, "indexes");
    assert_eq!(found["status"], "failed");
    assert!(found["found"].as_str().unwrap().contains("doesn't use charges_by_provider_id:"), "{found}");
    server.psql(&name, "REINDEX INDEX CONCURRENTLY charges_by_provider_id").unwrap();
    let (good, told) = doctor(&gateway, &[]);
    assert!(good && check(&told, "indexes")["status"] == "ok", "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_room_for_all_connections_of_a_node_is_told() {
    let gateway = Gateway::start(Database::Postgres, &[]).unwrap();
    let name = gateway.database_name().unwrap();
    let allow = |limit: u32| {
        let alter = format!("ALTER DATABASE \"{name}\" CONNECTION LIMIT {limit}");
        pix_pg_server::shared().unwrap().psql("postgres", &alter).unwrap();
        let (good, told) = doctor(&gateway, &[]);
        assert!(good, "{told}");
        check(&told, "connections").clone()
    };
    let found = allow(18);
    assert_eq!(found["status"], "warning");
    assert_eq!(found["found"], "this node takes up to 19 of the 18 that the server gives");
    assert!(found["remedy"].as_str().unwrap().contains("max_connections"), "{found}");
    assert_eq!(allow(19)["status"], "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_others_can_read_or_that_takes_no_writes_is_told() {
    let mut gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    assert_eq!(gateway.terminate().unwrap(), Some(0));
    let (path, keys) = (gateway.folder().join("pix.db"), gateway.folder().join("pix.db.keys"));
    let set_mode = |path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    set_mode(&path, 0o644);
    let (good, told) = doctor(&gateway, &[]);
    assert!(good && check(&told, "file permissions")["status"] == "warning", "{told}");
    set_mode(&path, 0o600);
    set_mode(&keys, 0o644);
    let (good, told) = doctor(&gateway, &[]);
    assert!(!good && check(&told, "keys")["status"] == "failed", "{told}");
    set_mode(&keys, 0o600);
    set_mode(&path, 0o400);
    let (good, told) = doctor(&gateway, &[]);
    assert!(!good && check(&told, "durability")["status"] == "failed", "{told}");
    set_mode(&path, 0o600);
    std::fs::write(&path, "nothing of the kind").unwrap();
    let (good, told) = doctor(&gateway, &[]);
    assert!(!good && check(&told, "database")["status"] == "failed", "{told}");
    let elsewhere = format!("sqlite://{}", gateway.folder().join("new.db").display());
    let (_, told) = doctor(&gateway, &[("DATABASE_URL", &elsewhere)]);
    assert_eq!(check(&told, "database")["status"], "skipped", "{told}");
    assert!(!gateway.folder().join("new.db").exists(), "looking makes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgets_or_takes_no_writes_or_a_schema_that_is_not_known_is_told() {
    let gateway = Gateway::start(Database::Postgres, &[]).unwrap();
    let name = gateway.database_name().unwrap();
    let server = pix_pg_server::shared().unwrap();
    let alter = |what: &str| server.psql("postgres", &format!("ALTER DATABASE {name} {what}")).unwrap();
    for setting in ["synchronous_commit = off", "default_transaction_read_only = on"] {
        alter(&format!("SET {setting}"));
        let (good, told) = doctor(&gateway, &[]);
        assert!(!good && check(&told, "durability")["status"] == "failed", "{setting}: {told}");
        assert_eq!(check(&told, "database")["status"], "ok", "{told}");
        alter(&format!("RESET {}", setting.split(' ').next().unwrap()));
    }
    assert!(doctor(&gateway, &[]).0);
    let newer = "INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231000000')";
    server.psql(&name, newer).unwrap();
    let (good, told) = doctor(&gateway, &[]);
    assert!(!good && check(&told, "schema")["status"] == "failed", "{told}");
    let text = |told: &Value, what: &str| check(told, "schema")[what].as_str().unwrap().to_owned();
    assert!(text(&told, "found").contains("newer pix-gateway"), "{told}");
    assert!(!text(&told, "remedy").contains("migrate"), "it can't be brought back: {told}");
    let older = "DELETE FROM __diesel_schema_migrations WHERE version >= \
                 (SELECT max(version) FROM __diesel_schema_migrations WHERE version < '9')";
    server.psql(&name, older).unwrap();
    let (good, told) = doctor(&gateway, &[("PIX_MIGRATE_ON_START", "false")]);
    assert!(!good && check(&told, "schema")["status"] == "failed", "{told}");
    assert!(text(&told, "remedy").contains("`pix-gateway migrate`"), "{told}");
}
