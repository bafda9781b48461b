//! The program as its operator sees it: settings, refusals, health, metrics, logs, and how it stops.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pix_tests::{Client, Database, Gateway, Port, http_client, on_either_store, text};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);
/// The key of the published test vectors of PASETO.
const PUBLISHED_KEY: &str = "k4.local.cHFyc3R1dnd4eXp7fH1-f4CBgoOEhYaHiImKi4yNjo8";
/// A request's trace, as the recommendation shows one.
const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

on_either_store!(a_scrape_tells_what_was_done_and_how_the_money_is);

fn admin(port: &Port) -> String {
    format!("127.0.0.1:{}", port.number())
}

/// The samples of a scrape: name with labels → value.
async fn scrape(admin: &str) -> BTreeMap<String, String> {
    let answer = http_client().unwrap().get(format!("http://{admin}/metrics")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.unwrap();
    let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    samples
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

fn withdrawal(reais: &str) -> Value {
    json!({
        "amount": reais,
        "creditParty": {"name": "Ana", "keyType": "CPF", "key": "52998224725", "taxId": "52998224725"},
    })
}

async fn scenario(gateway: &Gateway, body: Value) {
    let url = format!("{}/sim/scenarios", gateway.simulator);
    assert_eq!(http_client().unwrap().post(url).json(&body).send().await.unwrap().status(), 200);
}

async fn a_scrape_tells_what_was_done_and_how_the_money_is(database: Database) {
    let port = Port::reserve().unwrap();
    let admin = admin(&port);
    let settings = [("PIX_PROVIDER_TIMEOUT_MS", "300"), ("PIX_ADMIN_LISTEN", admin.as_str())];
    let mut gateway = Gateway::start(database, &settings).unwrap();
    let integrator = gateway.integrator("measured").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    scenario(&gateway, json!({"scenario": "never_answers", "on": {"next": 1}, "operation": "payment"})).await;
    assert_eq!(client.post("/api/v1/withdrawals", withdrawal("40")).await.unwrap().0, 201);
    for path in ["/api/v1/charges/nothing-of-the-kind", "/api/v1/charges/another-one", "/no-such-path"] {
        assert_eq!(client.get(path).await.unwrap().0, 404);
    }
    let before = scrape(&admin).await;
    assert!(!before.contains_key("pix_audit_clean"), "none has run");
    assert_eq!(gateway.audit().unwrap()["clean"], true);

    let found = scrape(&admin).await;
    let is = |name: &str, value: u32| {
        let sample = found.get(name);
        assert_eq!(sample, Some(&value.to_string()), "{name} in {found:#?}");
    };
    let requests = |generation: &str, method: &str, route: &str, status: u16| {
        format!(
            "pix_http_requests_total{{generation=\"{generation}\",method=\"{method}\",route=\"{route}\",status=\"{status}\"}}"
        )
    };
    is(&requests("token", "POST", "/v2/oauth/token", 200), 1);
    is(&requests("v1", "POST", "/api/v1/charges", 201), 1);
    is(&requests("v1", "POST", "/api/v1/withdrawals", 201), 1);
    is(&requests("v1", "GET", "/api/v1/charges/{charge}", 404), 2);
    is(&requests("other", "GET", "none", 404), 1);
    is("pix_http_request_seconds_count{generation=\"v1\",route=\"/api/v1/withdrawals\"}", 1);
    is("pix_http_request_seconds_bucket{generation=\"v1\",route=\"/api/v1/withdrawals\",le=\"0.25\"}", 0);
    is("pix_provider_calls_total{operation=\"create_charge\",class=\"done\"}", 1);
    is("pix_provider_calls_total{operation=\"send_payment\",class=\"unknown\"}", 1);
    is("pix_provider_call_seconds_count{operation=\"send_payment\"}", 1);
    is("pix_provider_breaker{state=\"closed\"}", 1);
    is("pix_provider_breaker{state=\"open\"}", 0);
    is("pix_wallet_cents{account=\"available\"}", 6_000);
    is("pix_wallet_cents{account=\"held\"}", 4_000);
    is("pix_wallet_cents{account=\"owed\"}", 0);
    is("pix_open_movements{kind=\"withdrawal\",state=\"uncertain\"}", 1);
    for name in ["pix_db_up", "pix_ready", "pix_audit_clean"] {
        is(name, 1);
    }
    is("pix_audit_differences", 0);
    is("pix_outflow_shut_seconds", 0);
    is("pix_worker_alive{worker=\"reconciler\"}", 1);
    is("pix_worker_alive{worker=\"deliverer\"}", 1);
    is("pix_worker_alive{worker=\"sealer\"}", 1);
    is("pix_seal_differences", 0);
    is("pix_cache_lookups_total{cache=\"sign_ins\",result=\"miss\"}", 1);
    for name in [
        "pix_follow_up_lag_seconds",
        "pix_postback_lag_seconds",
        "pix_seal_lag_entries",
        "pix_seal_age_seconds",
        "pix_sealed_entries_total",
        "pix_callback_lag_seconds",
        "pix_db_connections_max{pool=\"reads\"}",
        "pix_db_waiting{pool=\"reads\"}",
        "pix_cache_lookups_total{cache=\"keys\",result=\"hit\"}",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(found.contains_key(name), "no {name}");
    }
    let ids = [integrator.uuid.as_str(), "nothing-of-the-kind", "no-such-path", &integrator.public_id];
    assert!(found.keys().all(|name| ids.iter().all(|id| !name.contains(id))), "labels hold no ids");
    // Whoever restores a database shuts the way out, and whoever looks is told for how long.
    let mark = ["restore", "--mark", "--reason", "a drill", "--operator", "ana"];
    gateway.terminate().unwrap();
    let marked = gateway.cli(&mark).unwrap();
    assert!(marked.status.success(), "{}", String::from_utf8_lossy(&marked.stderr));
    gateway.run(&["serve"]).unwrap();
    let shut: u64 = scrape(&admin).await["pix_outflow_shut_seconds"].parse().unwrap();
    assert!(shut > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_stop_it_is_not_ready_first_and_answers_what_is_under_way() {
    let port = Port::reserve().unwrap();
    let admin = admin(&port);
    let settings = [("PIX_DRAIN_MS", "60000"), ("PIX_ADMIN_LISTEN", admin.as_str())];
    let mut gateway = Gateway::start(Database::Sqlite, &settings).unwrap();
    let integrator = gateway.integrator("drained").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    let http = http_client().unwrap();
    let get = |url: String| {
        let sent = http.get(url).send();
        async move {
            let answer = sent.await.unwrap();
            let closes = answer.headers().get("connection").is_some_and(|value| value == "close");
            (answer.status().as_u16(), closes, answer.json::<Value>().await.unwrap())
        }
    };
    let (public, detailed) =
        (format!("{}/health/ready", gateway.url), format!("http://{admin}/health/ready"));
    assert_eq!(get(public.clone()).await, (200, false, json!({"status": "ready"})));
    let (status, _, told) = get(detailed.clone()).await;
    assert_eq!(
        (status, &told["database"]["writable"], &told["stopping"]),
        (200, &json!(true), &json!(false))
    );
    assert_eq!(told["workers"], json!({"reconciler": true, "deliverer": true, "sealer": true}));
    assert!(!told["schema"].as_str().unwrap().is_empty());
    assert_eq!(told["clock"], json!({"right": true}));

    let late = json!({"scenario": "answers_late", "on": {"next": 1}, "operation": "payment", "parameters": {"seconds": 10}});
    scenario(&gateway, late).await;
    let slow = client.clone();
    let under_way = tokio::spawn(async move { slow.post("/api/v1/withdrawals", withdrawal("40")).await });
    let begun = Instant::now();
    // The provider may tell how it ended before it answers; the answer is under way all the same.
    while client.balance().await.unwrap() != "60.00" {
        assert!(begun.elapsed() < SOON, "it is never sent");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pid = gateway.pid().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut told = get(public.clone()).await;
    while told.0 == 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        told = get(public.clone()).await;
    }
    assert_eq!(
        told,
        (503, true, json!({"status": "unavailable"})),
        "without a reason, and the connection ends"
    );
    let (status, _, told) = get(detailed).await;
    assert_eq!((status, &told["stopping"], &told["status"]), (503, &json!(true), &json!("unavailable")));
    assert_eq!(get(format!("{}/health/live", gateway.url)).await.0, 200);
    assert_eq!(client.balance().await.unwrap(), "60.00", "requests are still taken");

    let (status, answered) = under_way.await.unwrap().unwrap();
    assert_eq!((status, &answered["outcome"]), (201, &json!("certain")), "{answered}");
    // Told again, it waits for no load balancer any more.
    assert_eq!(gateway.terminate().unwrap(), Some(0), "{}", gateway.log());
    assert!(gateway.log().contains("no longer draining"), "{}", gateway.log());
    assert_eq!(gateway.audit().unwrap()["clean"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_logs_have_the_request_and_its_trace_which_the_provider_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let provider = provider(told.clone()).await;
    let settings = [
        ("PIX_PROVIDER_URL", provider.as_str()),
        ("PIX_PROVIDER_CLIENT_SECRET", "hunter2"),
        ("PIX_LOG_FORMAT", "json"),
        // What a worker asks by itself is of no request's trace.
        ("PIX_PROOF_PER_MINUTE", "0"),
    ];
    let gateway = Gateway::start(Database::Sqlite, &settings).unwrap();
    let integrator = gateway.integrator("traced").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    let request = http_client()
        .unwrap()
        .post(format!("{}/api/v1/charges", gateway.url))
        .bearer_auth(client.token())
        .header("x-request-id", "request-1")
        .header("traceparent", format!("00-{TRACE_ID}-00f067aa0ba902b7-01"))
        .header("tracestate", "rojo=00f067aa0ba902b7")
        .json(&json!({"amount": 1, "payer": {"name": "Ana", "document": "52998224725"}}));
    assert!(request.send().await.unwrap().status().is_server_error());
    let told = told.lock().unwrap().clone();
    let passed_on = |(parent, state): &(String, String)| {
        state == "rojo=00f067aa0ba902b7"
            && parent.starts_with(&format!("00-{TRACE_ID}-"))
            && parent.ends_with("-01")
            && !parent.contains("00f067aa0ba902b7")
    };
    assert!(!told.is_empty() && told.iter().all(passed_on), "{told:?}");

    let begun = Instant::now();
    let lines = loop {
        let log = gateway.log();
        let lines: Vec<Value> = log
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let ours: Vec<_> =
            lines.into_iter().filter(|line| line["span"]["request_id"] == "request-1").collect();
        if ours.iter().any(|line| line["fields"]["message"] == "answered") {
            break ours;
        }
        assert!(begun.elapsed() < SOON, "no line about it:\n{log}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for line in &lines {
        assert_eq!(line["span"]["trace_id"], TRACE_ID, "{line}");
        assert_eq!(line["span"]["span_id"].as_str().unwrap().len(), 16, "{line}");
    }
    let answered = lines.iter().find(|line| line["fields"]["message"] == "answered").unwrap();
    assert_eq!(answered["fields"]["route"], "/api/v1/charges");
}

/// A provider that gives tokens, does nothing else, and writes down each `traceparent` and `tracestate`; its address.
async fn provider(told: Arc<Mutex<Vec<(String, String)>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let mut read = Vec::new();
                let mut buffer = [0; 4096];
                // Its requests are small, have a body, and end with it.
                while !read.ends_with(b"}") {
                    let count = stream.read(&mut buffer).await.unwrap();
                    read.extend_from_slice(&buffer[..count]);
                    if count == 0 {
                        return;
                    }
                }
                let request = String::from_utf8(read).unwrap();
                let token = r#"{"access_token":"t","token_type":"Bearer","expires_in":3600}"#;
                let (status, body) = if request.starts_with("POST /v2/oauth/token") {
                    ("200 OK", token)
                } else {
                    let field = |name: &str| {
                        let found = request.lines().find_map(|line| line.strip_prefix(name));
                        found.unwrap_or_default().to_owned()
                    };
                    told.lock().unwrap().push((field("traceparent: "), field("tracestate: ")));
                    ("503 Service Unavailable", "{}")
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    url
}

/// What a command wrote, and whether it ended well.
fn said(output: &Output) -> (bool, String) {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.success(), String::from_utf8(both).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_has_seen_enough_changes_nothing_and_what_can_not_be_done_is_said() {
    let gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    for arguments in [&["audit"][..], &["audit", "--json"], &["openapi"], &["config", "show"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = gateway.command(arguments).stdout(writer).output().unwrap();
        let (good, told) = said(&output);
        assert!(good && !told.contains("panicked"), "{arguments:?}: {told}");
    }
    // One that lost something is told so.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let (good, told) = said(&gateway.command(&["openapi"]).stdout(full).output().unwrap());
    assert!(!good && told.contains("the output can't be written"), "{told}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = port.local_addr().unwrap().to_string();
    let (good, told) = said(&gateway.command(&["simulator", "--listen", &taken]).output().unwrap());
    assert!(
        !good && told.contains("PIX_SIMULATOR_LISTEN (or --listen) is") && told.contains("stop what listens"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_looked_at_is_told_apart_from_what_is_wrong() {
    let gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    let ended = |arguments: &[&str]| {
        let output = gateway.command(arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), serde_json::from_slice::<Value>(&output.stdout).ok(), told)
    };
    let (code, found, _) = ended(&["audit", "--json"]);
    assert_eq!((code, &found.unwrap()["clean"]), (0, &json!(true)));
    for arguments in [
        &["audit", "--json", "--set", "DATABASE_URL=sqlite:///nowhere/pix.db"][..],
        &["seal", "--json", "--set", "DATABASE_URL=sqlite:///nowhere/pix.db"],
        &["doctor", "--json", "--set", "PIX_LISTEN=nowhere"],
        &["books", "verify", "/nowhere/books.json", "--public-key", &"0".repeat(64), "--json"],
    ] {
        let (code, told, sentence) = ended(arguments);
        let told = told.unwrap_or_else(|| panic!("{arguments:?}: no JSON: {sentence}"));
        assert_eq!((code, told["error"].is_string()), (3, true), "{arguments:?}: {told}");
        assert!(sentence.contains(told["error"].as_str().unwrap()), "{sentence}");
    }
    let nobody = "00000000-0000-7000-8000-000000000000";
    let (code, told, _) = ended(&["key", "list", "--integrator", nobody, "--json"]);
    assert_eq!((code, told.unwrap()["error"].is_string()), (1, true));
    let (code, told, sentence) = ended(&["key", "list", "--integrator", "nobody", "--json"]);
    assert_eq!((code, told), (2, None));
    assert!(sentence.contains("`pix-gateway integrator list` shows"), "{sentence}");

    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let unheard = |arguments: &[&str]| gateway.command(arguments).stdout(full()).output().unwrap();
    for arguments in [&["audit"][..], &["audit", "--chain"], &["seal"], &["audit-log", "verify"]] {
        assert_eq!(
            unheard(arguments).status.code(),
            Some(3),
            "{arguments:?}: all is well, and nobody was told"
        );
    }
    assert!(said(&gateway.cli(&["integrator", "list"]).unwrap()).1.starts_with("no integrators"));
    assert!(said(&gateway.cli(&["audit"]).unwrap()).1.contains("there is no integrator"));
    let one = gateway.integrator("lost").unwrap();
    for (arguments, remedy) in [
        (
            ["key", "create", "--integrator", one.uuid.as_str()].as_slice(),
            "`pix-gateway key revoke pixpk_".to_owned(),
        ),
        (
            &["key", "rotate", &one.public_id],
            format!("`pix-gateway key retire {} --secret 2`", one.public_id),
        ),
    ] {
        let (good, told) = said(&unheard(arguments));
        assert!(!good && told.contains(&remedy) && !told.contains("pixsk_"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_shown_with_where_they_come_from_and_checked_all_at_once() {
    let gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    let file = gateway.folder().join("pix.toml");
    std::fs::write(&file, "token_ttl_s = 120\nhash_permits = 3\n").unwrap();
    let file = file.display().to_string();
    let run = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = gateway.command(arguments);
        said(&command.envs(environment.iter().copied()).output().unwrap())
    };
    let arguments = ["--config", &file, "--set", "PIX_HASH_PERMITS=4", "config", "show", "--json"];
    let (good, shown) = run(&arguments, &[("PIX_OTLP_HEADERS", "authorization=hunter2")]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let of = |name: &str| {
        let all = shown["settings"].as_array().unwrap();
        let found = all.iter().find(|setting| setting["name"] == name).unwrap();
        (text(found, "/value").unwrap_or_default(), text(found, "/from").unwrap())
    };
    assert!(good);
    assert_eq!(of("PIX_TOKEN_TTL_S"), ("120".to_owned(), "file".to_owned()));
    assert_eq!(of("PIX_HASH_PERMITS"), ("4".to_owned(), "flag".to_owned()));
    assert_eq!(of("PIX_RECONCILER_INTERVAL_MS"), ("50".to_owned(), "environment".to_owned()));
    assert_eq!(of("PIX_KEEP_ALIVE_MS"), ("15000".to_owned(), "default".to_owned()));
    assert_eq!(of("PIX_OTLP_HEADERS"), ("********".to_owned(), "environment".to_owned()));
    assert_eq!(of("PIX_PUBLIC_URL"), (gateway.url.clone(), "derived".to_owned()));
    assert!(of("PIX_TOKEN_KEYS").0.contains("pix.db.keys"));

    let (good, checked) = run(&["config", "check"], &[]);
    assert!(good && checked.contains("the configuration is good"), "{checked}");
    // A token where its digest belongs is not shown.
    let (_, shown) = run(&["config", "show"], &[("PIX_CONSOLE_OPERATORS", "ana:pixop_hunter2")]);
    assert!(shown.contains("WRONG: PIX_CONSOLE_OPERATORS") && !shown.contains("hunter2"), "{shown}");
    let (good, checked) = run(
        &["config", "check"],
        &[("DATABASE_URL", "postgres://p@db/pix?sslmode=verify-full&sslrootcert=/none")],
    );
    assert!(!good && checked.contains("the file of sslrootcert, /none"), "{checked}");
    // What is no text is no reason to take the default.
    let mut other = gateway.command(&["config", "check"]);
    other.env("DATABASE_URL", OsStr::from_bytes(b"postgres://pix:hunter2\xe7@db/pix"));
    let (good, checked) = said(&other.output().unwrap());
    assert!(
        !good && checked.contains("DATABASE_URL must be UTF-8") && !checked.contains("hunter2"),
        "{checked}"
    );
    let wrong = [
        ("PIX_LISTEN", "8080"),
        ("PIX_TOKEN_TTL_S", "1"),
        ("DATABASE_URL", "mysql://root:hunter2@db"),
        ("PIX_LISTN", "x"),
    ];
    let (good, checked) = run(&["config", "check", "--json"], &wrong);
    assert!(!good && !checked.contains("hunter2"), "{checked}");
    let checked: Value = serde_json::from_str(&checked).unwrap();
    let mut named: Vec<_> = checked["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| text(problem, "/setting").unwrap())
        .collect();
    named.sort_unstable();
    assert_eq!(named, ["DATABASE_URL", "PIX_LISTEN", "PIX_TOKEN_TTL_S"]);
    assert!(checked["warnings"].to_string().contains("PIX_LISTN"), "{checked}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dangerous_is_refused_at_the_start() {
    let mut gateway = Gateway::start(Database::Sqlite, &[]).unwrap();
    assert_eq!(gateway.terminate().unwrap(), Some(0));
    let far = ("PIX_PROVIDER_URL", "http://bank.example");
    let secret = ("PIX_PROVIDER_CLIENT_SECRET", "hunter2");
    for (environment, says) in [
        (&[("PIX_TOKEN_KEYS", PUBLISHED_KEY)][..], "PIX_TOKEN_KEYS has a pattern in key 1"),
        (
            &[("PIX_TOKEN_KEYS", PUBLISHED_KEY), far, secret],
            "PIX_PROVIDER_URL is http and not on this machine",
        ),
        (&[("PIX_PROVIDER_CALLBACK_SECRET", "abababababababababababababababab")], "others could call back"),
    ] {
        for command in ["serve", "check"] {
            let arguments: &[&str] = if command == "serve" { &["serve"] } else { &["config", "check"] };
            let (good, told) =
                said(&gateway.command(arguments).envs(environment.iter().copied()).output().unwrap());
            assert!(!good && told.contains(says), "{command}: {told}");
            assert!(!told.contains("hunter2") && !told.contains(PUBLISHED_KEY), "{told}");
        }
    }
}
