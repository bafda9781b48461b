//! Personal data in the running program: put under keys by its worker, shown to the person, and erased; nothing of an erased one is
//! left in the database.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic, in its helpers too"
)]

use std::process::Command;
use std::time::{Duration, Instant};

use pix_tests::{Client, Database, Gateway, http_client, on_either_store, text};
use serde_json::{Value, json};

/// How long something that is due within seconds may take on a machine that is busy.
const SOON: Duration = Duration::from_mins(1);

/// The person, in every form that a request says.
const DOCUMENT: &str = "39053344705";
const NAMES: [&str; 6] = [
    "39053344705",
    "390.533.447-05",
    "Zuleica Apparecida",
    "zuleica@apparecida.example",
    "+5511912345678",
    "Conserto para Zuleica",
];

on_either_store!(a_person_is_locked_shown_and_erased,);

fn zuleica() -> Value {
    json!({"name": "Zuleica Apparecida", "document": "390.533.447-05", "email": "zuleica@apparecida.example"})
}

/// All that the database holds, as whoever gets hold of it reads it. The gateway is down. SQLite's log has what was there before
/// until it is begun anew, which erasing does.
fn dump(gateway: &Gateway, database: Database, log: bool) -> String {
    let bytes = match database {
        Database::Sqlite => {
            let files = ["", "-wal"].map(|ending| gateway.folder().join(format!("pix.db{ending}")));
            files
                .into_iter()
                .take(if log { 2 } else { 1 })
                .filter_map(|file| std::fs::read(file).ok())
                .flatten()
                .collect()
        }
        Database::Postgres => {
            let name = gateway.database_name().unwrap();
            let server = pix_pg_server::shared().unwrap();
            let output = Command::new("pg_dump").args(["--dbname", &server.url(&name)]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        }
    };
    String::from_utf8_lossy(&bytes).into_owned()
}

fn named_in(text: &str) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| text.contains(name)).collect()
}

fn says(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String) {
    let output = gateway.cli(arguments).unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

async fn soon(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_true().await {
        assert!(begun.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends two reais of a charge back.
async fn refund(client: &Client, charge: &str) {
    let refund = json!({"amount": "2.00", "external_id": "r-1", "description": "com defeito"});
    let (status, made) = client.post(&format!("{charge}/refunds"), refund).await.unwrap();
    assert_eq!(status, 201, "{made}");
    let refund = format!("/api/v1/refunds/{}", text(&made, "/uuid").unwrap());
    soon("refunded", async || client.get(&refund).await.unwrap().1["substatus"] == "settled").await;
}

/// The export has all three records, of this person alone.
fn assert_shown(held: &Value, uuid: &str) {
    let records = held["records"].as_array().unwrap();
    assert_eq!(records.len(), 3, "{held}");
    let all = held.to_string();
    assert!(all.contains("Conserto para Zuleica") && all.contains("+5511912345678"), "{held}");
    assert!(!all.contains("Maria Silva"), "{held}");
    let charged = records.iter().find(|record| record["uuid"] == uuid).unwrap();
    assert_eq!(
        (&charged["payer"]["document"], &charged["payments"][0]["amount"]),
        (&json!(DOCUMENT), &json!("30.00"))
    );

    let refunded = &charged["refunds"][0];
    assert_eq!((&refunded["amount"], &refunded["description"]), (&json!("2.00"), &json!("com defeito")));
    assert!(refunded["provider"].is_object(), "{refunded}");
}

async fn a_person_is_locked_shown_and_erased(database: Database) {
    let settings = [("PIX_OPERATOR", "dpo"), ("PIX_SEAL_INTERVAL_MS", "50")];
    let mut gateway = Gateway::start_with_clock(database, &settings).unwrap();
    let integrator = gateway.integrator("loja").unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    client.fund(&gateway, "100").await.unwrap();
    let charge = json!({"amount": "30.00", "external_id": "z-1", "payer": zuleica()});
    let (status, made) = client.post("/api/v1/charges", charge.clone()).await.unwrap();
    assert_eq!(status, 201, "{made}");
    let paid = json!({"payer": {"name": "Zuleica Apparecida", "document": DOCUMENT}});
    let url = format!("{}/sim/charges/{}/pay", gateway.simulator, text(&made, "/pix_id").unwrap());
    let answer = http_client().unwrap().post(url).json(&paid).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    let uuid = text(&made, "/uuid").unwrap();
    let path = format!("/api/v1/charges/{uuid}");
    soon("paid", async || client.get(&path).await.unwrap().1["status"] == "paid").await;
    let withdrawal = |key_type: &str, key: &str, amount: &str| {
        json!({
            "amount": amount, "external_id": format!("w-{amount}"), "description": "Conserto para Zuleica",
            "creditParty": {"name": "Zuleica Apparecida", "keyType": key_type, "key": key, "taxId": DOCUMENT},
        })
    };
    let mut sent = Vec::new();
    for (key_type, key, amount) in [("CPF", DOCUMENT, "5.00"), ("PHONE", "+5511912345678", "6.00")] {
        let (status, made) =
            client.post("/api/v1/withdrawals", withdrawal(key_type, key, amount)).await.unwrap();
        assert_eq!(status, 201, "{made}");
        let path = format!("/api/v1/withdrawals/{}", text(&made, "/uuid").unwrap());
        soon("settled", async || client.get(&path).await.unwrap().1["substatus"] == "settled").await;
        sent.push(path);
    }

    refund(&client, &path).await;

    // Too early: nothing is done.
    let erase = ["person", "erase", "--document", DOCUMENT, "--reason", "request 17"];
    let (code, said) = says(&gateway, &erase);
    assert!(code == Some(1) && said.contains("NOT ERASED") && said.contains(&uuid), "{said}");
    assert!(named_in(&said).is_empty());
    assert_eq!(client.get(&path).await.unwrap().1["payer"]["document"], DOCUMENT);

    // Days later it is put under keys, as the worker does it at its leisure. Nobody notices.
    let before = (client.get(&path).await.unwrap(), client.get(&sent[1]).await.unwrap());
    gateway.set_clock_ahead(Duration::from_hours(24 * 9)).unwrap();
    let mut locked = 0;
    soon("all locked", async || {
        locked += gateway.cli_json(&["person", "lock", "--json"]).unwrap()["locked"].as_u64().unwrap();
        locked == 4
    })
    .await;
    assert_eq!(gateway.cli_json(&["person", "lock", "--json"]).unwrap()["locked"], 0);
    gateway.terminate().unwrap();
    // What names the person is who it is and which keys it has, and callbacks, which end with the person or with time.
    let left = dump(&gateway, database, false);
    assert!(
        !left.contains("Qual bloco da Zuleica?") && !left.contains("Conserto para Zuleica"),
        "it is under keys"
    );
    assert!(!left.contains("zuleica@"), "it is under keys");
    gateway.run(&["serve"]).unwrap();
    let client = Client::new(&gateway, &integrator).await.unwrap();
    assert_eq!((client.get(&path).await.unwrap(), client.get(&sent[1]).await.unwrap()), before);

    // What is held is shown, of this person alone.
    let export = ["person", "export", "--document", "390.533.447-05", "--reason", "request 17"];
    assert_shown(&gateway.cli_json(&export).unwrap(), &uuid);
    let mistyped = ["person", "export", "--document", "390.533.447-06", "--reason", "request 17"];
    let (code, said) = says(&gateway, &mistyped);
    assert!(code == Some(0) && said.contains("the check digits of --document are wrong"), "{said}");
    assert!(!said.contains("447"), "{said}");

    // Erased: the records stand, the money stands, the same requests are still the same.
    let (code, said) = says(&gateway, &erase);
    assert!(code == Some(0) && said.contains("erased from 3 records"), "{said}");
    let (code, said) = says(&gateway, &erase);
    assert!(code == Some(0) && said.contains("no record names this person"), "{said}");
    assert_eq!(gateway.cli_json(&export).unwrap(), json!({"records": []}));
    let (_, shown) = client.get(&path).await.unwrap();
    assert_eq!((&shown["status"], &shown["amount"]), (&before.0.1["status"], &before.0.1["amount"]));
    assert_eq!(shown["payer"]["document"], Value::Null, "{shown}");
    let (_, shown) = client.get(&sent[1]).await.unwrap();
    let erased_key = "00000000-0000-0000-0000-000000000000";
    assert!(shown.to_string().contains(erased_key), "{shown}");
    let (status, again) = client.post("/api/v1/charges", charge).await.unwrap();
    assert!(status == 200 && again["uuid"] == uuid.as_str(), "{status} {again}");
    let (status, again) =
        client.post("/api/v1/withdrawals", withdrawal("CPF", DOCUMENT, "5.00")).await.unwrap();
    assert!(status == 200 && again["amount"] == 5, "{status} {again}");
    let (_, page) = client.get("/api/v1/charges").await.unwrap();
    assert_eq!(page["data"].as_array().unwrap().len(), 2);
    assert_eq!(client.balance().await.unwrap(), "117.00");
    let audit = gateway.audit().unwrap();
    assert_eq!(audit["clean"], true, "{audit}");
    let proof = gateway.cli_json(&["audit", "--chain", "--json"]).unwrap();
    assert_eq!(proof["clean"], true, "{proof}");
    let times = |action: &str| {
        let acts = gateway.cli_json(&["audit-log", "list", "--json"]).unwrap();
        acts.as_array().unwrap().iter().filter(|act| act["action"] == action).count()
    };
    assert_eq!((times("person.erased"), times("person.exported")), (3, 3));

    gateway.terminate().unwrap();
    assert!(named_in(&gateway.log()).is_empty(), "the log never named anybody");
    assert!(named_in(&dump(&gateway, database, true)).is_empty());
    assert!(dump(&gateway, database, true).contains("Maria Silva"), "who was not erased is still there");
}
