//! The main job over the running program, as an integrator and an operator do it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::time::{Duration, Instant};

use pix_tests::{Client, Database, Gateway, Port, fresh_postgres, http_client, on_either_store, pay, text};
use serde_json::{Value, json};

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);

on_either_store!(
    keys_and_fees_are_run_from_the_command_line_while_it_serves,
    what_a_command_changes_holds_on_a_running_node_soon,
    a_callback_is_a_hint_and_its_path_can_not_be_guessed,
    with_the_provider_down_a_charge_is_refused_and_nothing_is_promised,
    a_payment_just_like_another_is_refused_unless_it_is_meant,
);

#[test]
fn the_demo_walks_through_the_main_job_and_ends_well() {
    let output = std::process::Command::new(pix_tests::program()).arg("demo").output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    for line in ["balance: \"6.50\"", "audit: clean", "demo: every step was as it should be"] {
        assert!(shown.contains(line), "no \"{line}\" in\n{shown}");
    }
}

async fn keys_and_fees_are_run_from_the_command_line_while_it_serves(database: Database) {
    let gateway = Gateway::start(database, &[("PIX_CACHE_TTL_MS", "0")]).unwrap();
    let one = gateway.integrator("Loja Um").unwrap();
    let listed = gateway.cli_json(&["integrator", "list", "--json"]).unwrap();
    assert_eq!(listed[0]["name"], "Loja Um");
    let client = Client::new(&gateway, &one).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();

    let set = ["fees", "set", "--integrator", &one.uuid, "--cash-out", "fixed=1.50,percent=0.99", "--json"];
    assert_eq!(gateway.cli_json(&set).unwrap()["version"], 1);
    let shown = gateway.cli_json(&["fees", "show", "--integrator", &one.uuid, "--json"]).unwrap();
    assert_eq!(shown["cash_out"], json!({"fixed": "1.50", "percent": "0.99", "min": "0.00", "max": null}));
    let (status, made) = client.post("/api/v1/withdrawals", withdrawal("10")).await.unwrap();
    assert_eq!((status, &made["fee"], &made["total"]), (201, &json!(1.6), &json!(11.6)), "{made}");

    let limits = |verb: &str, given: &[&str]| {
        gateway.cli_json(&[&["limits", verb, "--integrator", &one.uuid, "--json"], given].concat()).unwrap()
    };
    let set = limits("set", &["--per-transaction", "2", "--per-hour", "5"]);
    assert_eq!((&set["version"], &set["limits"][0]["left"]), (&json!(1), &json!("2.00")), "{set}");
    let (status, refused) = client.post("/api/v1/withdrawals", withdrawal("3")).await.unwrap();
    assert_eq!((status, &refused["code"]), (422, &json!("limit_exceeded")), "{refused}");
    let raised = limits("set", &["--per-transaction", "none"]);
    let waits = &raised["limits"][0]["next"];
    assert!(
        waits["limit"].is_null() && waits["at"].is_string(),
        "a limit that is taken away holds for a day: {raised}"
    );
    assert_eq!(client.post("/api/v1/withdrawals", withdrawal("3")).await.unwrap().0, 422);
    assert_eq!(limits("show", &[])["limits"][1]["used"], json!(1));

    gateway.cli_json(&["integrator", "suspend", &one.uuid, "--json"]).unwrap();
    let (status, refused) = client.post("/api/v1/withdrawals", withdrawal("1")).await.unwrap();
    assert_eq!((status, &refused["code"]), (403, &json!("integrator_suspended")));
    assert_eq!(client.balance().await.unwrap(), "88.40", "a suspended integrator can read");
    gateway.cli_json(&["integrator", "suspend", &one.uuid, "--undo", "--json"]).unwrap();
    assert_eq!(client.post("/api/v1/withdrawals", withdrawal("1")).await.unwrap().0, 201);

    gateway.cli_json(&["key", "revoke", &one.public_id, "--json"]).unwrap();
    assert_eq!(client.get("/api/v1/charges").await.unwrap().0, 401, "a revoked key's tokens end at once");
    let keys = gateway.cli_json(&["key", "list", "--integrator", &one.uuid, "--json"]).unwrap();
    assert!(keys[0]["revoked_at"].is_string() && keys[0].get("secret").is_none());
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

async fn what_a_command_changes_holds_on_a_running_node_soon(database: Database) {
    let settings = [("PIX_CACHE_TTL_MS", "1000"), ("PIX_DUPLICATE_WINDOW_S", "0")];
    let gateway = Gateway::start(database, &settings).unwrap();
    let one = gateway.integrator("Loja Um").unwrap();
    let client = Client::new(&gateway, &one).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    assert_eq!(client.post("/api/v1/withdrawals", withdrawal("1")).await.unwrap().0, 201);
    let until = Instant::now() + SOON;

    let set = ["fees", "set", "--integrator", &one.uuid, "--cash-out", "fixed=0.01", "--json"];
    gateway.cli_json(&set).unwrap();
    while client.post("/api/v1/withdrawals", withdrawal("0.01")).await.unwrap().1["fee"] != json!(0.01) {
        assert!(Instant::now() < until, "the new fee is not in force");
    }
    gateway.cli_json(&["integrator", "suspend", &one.uuid, "--json"]).unwrap();
    while client.post("/api/v1/withdrawals", withdrawal("0.01")).await.unwrap().0 != 403 {
        assert!(Instant::now() < until, "a suspended integrator sends money");
    }
    gateway.cli_json(&["key", "revoke", &one.public_id, "--json"]).unwrap();
    while client.get("/api/v1/charges").await.unwrap().0 != 401 {
        assert!(Instant::now() < until, "a revoked key's tokens live on");
    }
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

async fn a_payment_just_like_another_is_refused_unless_it_is_meant(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("twins").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "10").await.unwrap();
    let (status, first) = client.post("/api/v1/withdrawals", withdrawal("1")).await.unwrap();
    assert_eq!(status, 201, "{first}");
    for path in ["/api/v1/withdrawals", "/v2/pix/payment"] {
        let (status, refused) = client.post(path, withdrawal("1")).await.unwrap();
        assert_eq!((status, &refused["code"]), (409, &json!("possible_duplicate")), "{refused}");
        assert_eq!(refused["uuid"], first["uuid"]);
    }
    let mut meant = withdrawal("1");
    meant["allow_duplicate_of"] = json!("not a uuid");
    let (status, refused) = client.post("/api/v1/withdrawals", meant.clone()).await.unwrap();
    assert_eq!((status, &refused["errors"][0]["field"]), (422, &json!("allow_duplicate_of")), "{refused}");
    meant["allow_duplicate_of"] = first["uuid"].clone();
    let (status, second) = client.post("/api/v1/withdrawals", meant).await.unwrap();
    assert_eq!(status, 201, "{second}");
    let path = format!("/api/v1/withdrawals/{}/evidence", text(&second, "/uuid").unwrap());
    let (_, known) = client.get(&path).await.unwrap();
    assert_eq!(known["data"][0]["kind"], "decision", "{known}");
    assert_eq!(known["data"][1]["kind"], "attempt", "{known}");
    assert_eq!(client.balance().await.unwrap(), "8.00");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

fn withdrawal(reais: &str) -> Value {
    json!({
        "amount": reais,
        "creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_command_says_what_to_do_and_a_second_server_is_refused() {
    let gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    for (arguments, says) in [
        (
            &["key", "create", "--integrator", "00000000-0000-0000-0000-000000000000"][..],
            "integrator create --name",
        ),
        (&["key", "revoke", "nobody"], "key list"),
        (&["integrator", "create", "--name", "  "], "1 to 120 characters"),
        (&["fees", "set", "--integrator", "00000000-0000-0000-0000-000000000000"], "integrator list"),
        (&["serve"], "another pix-gateway is serving this database"),
    ] {
        let output = gateway.cli(arguments).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(says), "{arguments:?}: {errors}");
    }
    let elsewhere = format!("sqlite://{}", gateway.folder().join("typo.db").display());
    for arguments in [&["audit"][..], &["integrator", "list"], &["key", "revoke", "nobody"]] {
        let output = gateway.command(arguments).env("DATABASE_URL", &elsewhere).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains("there is no database at"),
            "{arguments:?}: {errors}"
        );
    }
    assert!(!gateway.folder().join("typo.db").exists(), "nothing is made of a mistyped path");
    let output = gateway.command(&["serve"]).env("DATABASE_URL", "mysql://root:hunter2@db").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("postgres://USER") && !errors.contains("hunter2"), "{errors}");
    let help = String::from_utf8(gateway.cli(&["--help"]).unwrap().stdout).unwrap();
    for name in ["PIX_LISTEN", "DATABASE_URL", "PIX_TOKEN_KEYS", "PIX_TRUSTED_PROXIES"] {
        assert!(help.contains(name), "{help}");
    }
}

async fn a_callback_is_a_hint_and_its_path_can_not_be_guessed(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("called back").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let body =
        json!({"amount": 7, "external_id": "hint", "payer": {"name": "Ana", "document": "52998224725"}});
    let charge = client.post("/api/v1/charges", body).await.unwrap().1;
    let secret = gateway.callback_secret().unwrap();
    let uuid = text(&charge, "/uuid").unwrap();
    let forged = json!({"requestBody": {
        "transactionType": "RECEIVEPIX", "transactionId": charge["pix_id"], "external_id": uuid, "amount": 7, "status": "PAID",
        "payments": [{"endToEndId": "E1234567820261121120000000000001", "amount": 7}],
    }});
    let http = http_client().unwrap();
    let send = |path: String| http.post(format!("{}{path}", gateway.url)).json(&forged).send();
    assert_eq!(send("/callbacks/guess".into()).await.unwrap().status(), 404);
    assert_eq!(send(format!("/callbacks/{secret}")).await.unwrap().status(), 200);
    assert_eq!(
        client.balance().await.unwrap(),
        "0.00",
        "the provider knows of no payment, so nothing is credited"
    );
    assert_eq!(client.get("/api/v1/charges/hint").await.unwrap().1["status"], "pending");

    pay(&gateway, &text(&charge, "/pix_id").unwrap()).await.unwrap();
    assert_eq!(send(format!("/callbacks/{secret}")).await.unwrap().status(), 200);
    assert_eq!(send(format!("/callbacks/{secret}")).await.unwrap().status(), 200);
    let (status, asked) = client.post("/api/v1/transactions/consult", json!({"uuid": uuid})).await.unwrap();
    assert_eq!((status, &asked["transaction"]["status"]), (200, &json!("paid")), "{asked}");
    assert_eq!(client.balance().await.unwrap(), "7.00", "credited once, by what the provider says");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

async fn with_the_provider_down_a_charge_is_refused_and_nothing_is_promised(database: Database) {
    let gateway = Gateway::start(database, &[]).unwrap();
    let integrator = gateway.integrator("alone").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "50").await.unwrap();
    let settings = format!("{}/sim/settings", gateway.simulator);
    let set = |unavailable: bool| {
        http_client().unwrap().post(&settings).json(&json!({"unavailable": unavailable})).send()
    };
    assert_eq!(set(true).await.unwrap().status(), 200);

    let body =
        json!({"amount": 7, "external_id": "later", "payer": {"name": "Ana", "document": "52998224725"}});
    let (status, refused) = client.post("/api/v1/charges", body.clone()).await.unwrap();
    assert_eq!((status, &refused["code"]), (503, &json!("provider_unavailable")), "{refused}");
    assert_eq!(client.get("/api/v1/charges/later").await.unwrap().0, 404, "nothing was stored");
    let (status, body_v2) = client.post("/v2/pix/qrcode", json!({"amount": 7})).await.unwrap();
    assert_eq!((status, &body_v2["statusCode"]), (503, &json!(503)));

    assert_eq!(set(false).await.unwrap().status(), 200);
    assert_eq!(client.post("/api/v1/charges", body).await.unwrap().0, 201, "a refused request burns nothing");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

/// Has the database of that address tell a time so far behind: this function is found before that of the system.
fn set_clock_behind(database: &str, by: Duration) {
    let (server, name) = (pix_pg_server::shared().unwrap(), database.rsplit('/').next().unwrap());
    server.psql(name, &format!("ALTER DATABASE {name} SET search_path = public, pg_catalog")).unwrap();
    let time = format!("SELECT pg_catalog.clock_timestamp() - interval '{} s'", by.as_secs());
    let function = "FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql";
    server.psql(name, &format!("CREATE OR REPLACE {function} AS $${time}$$")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_far_from_the_databases_sends_no_money_until_both_are_near() {
    let database = fresh_postgres().unwrap();
    set_clock_behind(&database, Duration::ZERO);
    let settings = [("DATABASE_URL", database.as_str()), ("PIX_CLOCK_INTERVAL_MS", "100")];
    let gateway = Gateway::start(Database::Postgres, &settings).unwrap();
    let integrator = gateway.integrator("Astray").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    let ready = async |status: u16| {
        let (http, until) = (http_client().unwrap(), Instant::now() + SOON);
        let url = format!("{}/health/ready", gateway.url);
        while http.get(&url).send().await.unwrap().status() != status {
            assert!(Instant::now() < until, "{status} never comes: {}", gateway.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    ready(200).await;
    set_clock_behind(&database, Duration::from_hours(1));
    ready(503).await;
    let (status, refused) = client.post("/api/v1/withdrawals", withdrawal("40")).await.unwrap();
    assert_eq!((status, &refused["code"]), (503, &json!("overloaded")), "{refused}");
    assert!(text(&refused, "/detail").unwrap().contains("clock is not right"), "{refused}");
    assert_eq!(client.balance().await.unwrap(), "100.00", "reading goes on");
    assert!(gateway.log().contains("too far apart"), "{}", gateway.log());
    set_clock_behind(&database, Duration::ZERO);
    ready(200).await;
    let (status, made) = client.post("/api/v1/withdrawals", withdrawal("40")).await.unwrap();
    assert_eq!(status, 201, "{made}");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

#[test]
fn a_start_on_postgresql_that_can_not_go_well_is_refused_with_one_sentence() {
    let gateway = Gateway::start(Database::Postgres, &[]).unwrap();
    let (nowhere, empty) = (Port::reserve().unwrap(), fresh_postgres().unwrap());
    let (name, forgetful) = (pix_pg_server::fresh_name(), fresh_postgres().unwrap());
    let server = pix_pg_server::shared().unwrap();
    let forgets = forgetful.rsplit('/').next().unwrap();
    server.psql(forgets, &format!("ALTER DATABASE {forgets} SET synchronous_commit = off")).unwrap();
    let refused = |arguments: &[&str], settings: &[(&str, &str)]| {
        let mut command = gateway.command(arguments);
        let output = command.env("PIX_LOG", "warn").envs(settings.iter().copied()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.starts_with("pix-gateway: "), "{errors}");
        assert!(errors.lines().count() == 1 && !errors.contains("hunter2"), "{errors}");
        errors
    };
    for (url, says) in [
        (
            format!("postgres://pix:hunter2@127.0.0.1:{}/pix", nowhere.number()),
            "nothing listens at 127.0.0.1",
        ),
        ("postgres://pix:hunter2@127.0.0.1".to_owned(), "names no database"),
        ("postgres://pix:hunter2@127.0.0.1/pix?sslmode=allow".to_owned(), "sslmode=allow is not known"),
        (server.url(&name), "there is no database"),
        (forgetful.clone(), "set synchronous_commit = on"),
    ] {
        for arguments in [&["serve"][..], &["migrate"], &["audit"]] {
            let errors = refused(arguments, &[("DATABASE_URL", &url)]);
            assert!(errors.contains(says), "{arguments:?}: {errors}");
        }
    }
    let slow = fresh_postgres().unwrap();
    set_clock_behind(&slow, Duration::from_hours(1));
    assert!(gateway.command(&["migrate"]).env("DATABASE_URL", &slow).status().unwrap().success());
    let provider = [
        ("DATABASE_URL", slow.as_str()),
        ("PIX_PROVIDER_URL", "http://127.0.0.1:9"),
        ("PIX_PROVIDER_CLIENT_ID", "nobody"),
        ("PIX_PROVIDER_CLIENT_SECRET", "a-secret"),
    ];
    for (arguments, settings) in [(["serve"], &provider[..1]), (["work"], &provider[..])] {
        let errors = refused(&arguments, settings);
        assert!(errors.contains("s apart") && errors.contains("set both by NTP"), "{arguments:?}: {errors}");
    }

    let alone = refused(&["serve"], &[("PIX_TOKEN_KEYS", "")]);
    assert!(alone.contains("PIX_TOKEN_KEYS") && alone.contains("`pix-gateway secrets`"), "{alone}");

    let on_empty = [("DATABASE_URL", empty.as_str()), ("PIX_MIGRATE_ON_START", "false")];
    assert!(refused(&["serve"], &on_empty).contains("run `pix-gateway migrate`"));
    for arguments in [&["audit"][..], &["integrator", "list"], &["key", "revoke", "nobody"]] {
        let errors = refused(arguments, &[("DATABASE_URL", &empty)]);
        assert!(errors.contains("run `pix-gateway migrate`"), "nothing is made of a mistyped name: {errors}");
    }
    for applied in [1, 0] {
        let plan = gateway.command(&["migrate", "--plan", "--json"]).envs(on_empty).output().unwrap();
        let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
        assert_eq!(plan["pending"].as_array().unwrap().is_empty(), applied == 0, "{plan}");
        let output = gateway.command(&["migrate", "--json"]).envs(on_empty).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["applied"].as_array().unwrap().is_empty(), applied == 0, "{answer}");
    }
    assert!(gateway.command(&["audit"]).envs(on_empty).status().unwrap().success());

    // Nor is the schema brought up to date by whoever only looks: a server of the version before may run on it.
    let older = gateway.folder().join("older.db");
    std::fs::write(&older, "").unwrap();
    let url = format!("sqlite://{}", older.display());
    for arguments in [&["audit"][..], &["uncertain"], &["findings"], &["restore"]] {
        let errors = refused(arguments, &[("DATABASE_URL", &url)]);
        assert!(errors.contains("run `pix-gateway migrate` first"), "{arguments:?}: {errors}");
        assert_eq!(std::fs::metadata(&older).unwrap().len(), 0, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_postgresql_is_away_calls_are_answered_503_and_afterwards_as_before() {
    let server = pix_pg_server::PgServer::start(pix_pg_server::Options::default()).unwrap();
    server.create_database("pix").unwrap();
    let settings = [("DATABASE_URL", server.url("pix")), ("PIX_CACHE_TTL_MS", "0".to_owned())];
    let gateway =
        Gateway::start(Database::Postgres, &settings.each_ref().map(|(name, value)| (*name, value.as_str())))
            .unwrap();
    let integrator = gateway.integrator("waiting").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "10").await.unwrap();
    let charge = json!({"amount": 7, "payer": {"name": "Ana", "document": "52998224725"}});
    let http = http_client().unwrap();
    let url = |path: &str| format!("{}{path}", gateway.url);
    let calls = || {
        [
            http.get(url("/api/v1/charges")),
            http.post(url("/api/v1/charges")).json(&charge),
            http.post(url("/v2/pix/qrcode")).json(&charge),
            http.post(url("/v2/balance")).json(&json!({})),
        ]
        .map(|request| request.bearer_auth(client.token()).send())
    };

    server.kill9().unwrap();
    for call in calls() {
        let answer = call.await.unwrap();
        let (path, status) = (answer.url().path().to_owned(), answer.status());
        let retry_after = answer.headers().get("retry-after").cloned();
        let body: Value = answer.json().await.unwrap();
        assert_eq!((status.as_u16(), &body["code"]), (503, &json!("overloaded")), "{path}: {body}");
        assert!(retry_after.is_some(), "{path}");
    }
    assert_eq!(http.get(url("/health/ready")).send().await.unwrap().status(), 503);

    server.start_again().unwrap();
    let until = Instant::now() + SOON;
    while http.get(url("/health/ready")).send().await.unwrap().status() != 200 {
        assert!(Instant::now() < until, "the database is not found again");
    }
    assert_eq!(client.balance().await.unwrap(), "10.00");
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}
