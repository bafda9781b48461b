//! Splits: parts of a charge's payments that go to other integrators, as both sides see them.

use pix_conformance::builders::some_fees;
use pix_domain::credentials::{KeyChange, Scopes};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, BASE, Gateway, Request, Tenant, charge_body, withdrawal_body};

const CHARGES: &str = "/api/v1/charges";
const SPLITS: &str = "/api/v1/splits";
const STATEMENT: &str = "/api/v1/statement";
const EVENTS: &str = "/api/v1/events";
const PLACE: &str = "/api/v1/postbacks/splits";
const QRCODE: &str = "/v2/pix/qrcode";
const NOON: &str = "2026-01-15T12:00:00.000000Z";

/// A charge of 100.00 with that split, of which nobody is told.
fn body(split: &Value) -> Value {
    json!({"amount": 100, "payer": charge_body()["payer"], "split": split})
}

fn percent(recipient: &Tenant, percentage: &str) -> Value {
    json!({"recipient": recipient.id.to_string(), "percentage": percentage})
}

fn fixed(recipient: &Tenant, amount: &str) -> Value {
    json!({"recipient": recipient.id.to_string(), "amount": amount})
}

/// The uuid of a new charge of 100.00 with that split.
async fn made(gateway: &Gateway, owner: &Tenant, split: &Value) -> String {
    gateway.post(owner, CHARGES, &body(split)).await.expect(201).text("uuid")
}

/// The same, paid.
async fn paid(gateway: &Gateway, owner: &Tenant, split: &Value) -> String {
    let uuid = made(gateway, owner, split).await;
    gateway.pay(owner, &uuid, 10_000).await;
    uuid
}

async fn refund(gateway: &Gateway, owner: &Tenant, charge: &str, reais: u32) {
    let refund = json!({"amount": reais, "external_id": gateway.services.id().to_string()});
    let answer = gateway.post(owner, &format!("{CHARGES}/{charge}/refunds"), &refund).await;
    assert_eq!(answer.expect(201).text("status"), "completed");
}

/// What the first share of a charge has brought, and what of that was taken back.
async fn share(gateway: &Gateway, owner: &Tenant, charge: &str) -> (Value, Value) {
    let share = shown(gateway, owner, &format!("{CHARGES}/{charge}")).await["split"][0].clone();
    (share["received"].clone(), share["taken_back"].clone())
}

async fn shown(gateway: &Gateway, tenant: &Tenant, path: &str) -> Value {
    gateway.get(tenant, path).await.expect(200).json()
}

async fn rows(gateway: &Gateway, tenant: &Tenant, path: &str) -> Vec<Value> {
    shown(gateway, tenant, path).await["data"].as_array().unwrap().clone()
}

async fn available(gateway: &Gateway, tenant: &Tenant) -> Value {
    shown(gateway, tenant, "/api/v1/balance").await["available"].clone()
}

fn all<'a>(rows: &'a [Value], name: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[name].as_str().unwrap()).collect()
}

fn problems(answer: &Answer) -> Vec<(String, String)> {
    let errors = answer.json()["errors"].clone();
    let text = |error: &Value, name: &str| error[name].as_str().unwrap().to_owned();
    errors.as_array().unwrap().iter().map(|error| (text(error, "field"), text(error, "code"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_is_asked_for_in_either_spelling_in_both_generations() {
    let gateway = Gateway::start().await;
    let owner = gateway.tenant(0).await;
    let (one, two, three) = (gateway.tenant(0).await, gateway.tenant(0).await, gateway.tenant(0).await);
    let split = json!([
        {"recipient": one.id.to_string(), "percentage": "10.50"},
        {"username": two.id.0.simple().to_string(), "percentageSplit": 20},
        {"recipient": three.id.to_string(), "amount": 1.5, "percentage": null},
    ]);
    let v1 = gateway.post(&owner, CHARGES, &body(&split)).await.expect(201).json();
    let v2 = json!({"amount": "100.00", "split": split});
    let answer = gateway.post(&owner, QRCODE, &v2).await.expect(200).json();
    assert_eq!(answer.get("split"), None, "the answers of v2 stay as they are");
    let listed = rows(&gateway, &owner, &format!("{CHARGES}?per_page=1")).await;
    for charge in [&v1, &listed[0]] {
        let told: Vec<Value> = charge["split"]
            .as_array()
            .unwrap()
            .iter()
            .map(|share| {
                Uuid::try_parse(share["uuid"].as_str().unwrap()).unwrap();
                let mut share = share.clone();
                share.as_object_mut().unwrap().remove("uuid");
                share
            })
            .collect();
        let share = |recipient: &Tenant, percentage: Value, amount: Value| {
            let recipient = recipient.id.to_string();
            json!({
                "recipient": recipient, "percentage": percentage, "amount": amount, "received": 0, "taken_back": 0
            })
        };
        assert_eq!(
            told,
            [
                share(&one, json!(10.5), Value::Null),
                share(&two, json!(20), Value::Null),
                share(&three, Value::Null, json!(1.5)),
            ]
        );
    }
    // Nothing has come in yet.
    assert_eq!(rows(&gateway, &one, SPLITS).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_shared_at_once_and_both_sides_have_it_in_their_statements() {
    let gateway = Gateway::start().await;
    let (owner, one, two) = (gateway.tenant(0).await, gateway.tenant(0).await, gateway.tenant(0).await);
    gateway.services.set_fees(owner.id, some_fees()).await;
    let charge = paid(&gateway, &owner, &json!([percent(&one, "10"), fixed(&two, "1.00")])).await;

    // 100.00 less a fee of 1.10; a tenth of that, rounded down, and one.
    assert_eq!(available(&gateway, &owner).await, json!(88.01));
    assert_eq!(available(&gateway, &one).await, json!(9.89));
    assert_eq!(available(&gateway, &two).await, json!(1));
    let book = rows(&gateway, &owner, STATEMENT).await;
    assert_eq!(all(&book, "type"), ["split_given", "split_given", "charge_fee", "charge_paid"]);
    assert_eq!((&book[0]["amount"], &book[1]["amount"]), (&json!(1), &json!(9.89)));
    assert_eq!(book[0]["resource"], json!({"type": "charge", "uuid": charge}));
    assert_eq!(rows(&gateway, &owner, &format!("{STATEMENT}?type=split_given")).await, book[..2]);

    let path = format!("{CHARGES}/{charge}");
    let shares = shown(&gateway, &owner, &path).await["split"].clone();
    let uuid = shares[0]["uuid"].as_str().unwrap();
    assert_eq!((&shares[0]["received"], &shares[0]["taken_back"]), (&json!(9.89), &json!(0)));
    assert_eq!((&shares[1]["received"], &shares[1]["amount"]), (&json!(1), &json!(1)));
    let entry = json!({
        "number": 1, "type": "split_received", "amount": 9.89, "available_change": 9.89, "held_change": 0,
        "owed_change": 0, "available_balance": 9.89, "held_balance": 0, "currency": "BRL",
        "resource": {"type": "split", "uuid": uuid}, "created_at": NOON
    });
    assert_eq!(rows(&gateway, &one, &format!("{STATEMENT}?uuid={uuid}")).await, [entry]);
    let split = json!({
        "uuid": uuid, "from": owner.id.to_string(), "amount": 9.89, "taken_back": 0, "net_amount": 9.89,
        "currency": "BRL", "created_at": NOON, "updated_at": NOON,
        "links": {"self": format!("{BASE}{SPLITS}/{uuid}")}
    });
    for name in [uuid, &uuid.replace('-', "")] {
        assert_eq!(shown(&gateway, &one, &format!("{SPLITS}/{name}")).await, split, "{name}");
    }
    assert_eq!(rows(&gateway, &one, SPLITS).await, [split]);
    assert_eq!(rows(&gateway, &owner, SPLITS).await, Vec::<Value>::new());

    // The recipient learns whose charge it is, and nothing of the charge.
    for path in [SPLITS, STATEMENT, EVENTS] {
        let answer = gateway.get(&one, path).await.expect(200).body;
        for secret in [charge.as_str(), &charge.replace('-', ""), "Ana Souza", "52998224725"] {
            assert!(!answer.contains(secret), "{path} tells {secret}: {answer}");
        }
    }
    gateway.get(&one, &path).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_further_payment_is_shared_too_but_a_fixed_part_is_paid_once() {
    let gateway = Gateway::start().await;
    let (owner, one, two) = (gateway.tenant(0).await, gateway.tenant(0).await, gateway.tenant(0).await);
    let charge = paid(&gateway, &owner, &json!([percent(&one, "10"), fixed(&two, "30")])).await;
    gateway.pay(&owner, &charge, 5_000).await;
    assert_eq!(available(&gateway, &one).await, json!(15));
    assert_eq!(available(&gateway, &two).await, json!(30));
    assert_eq!(available(&gateway, &owner).await, json!(105));
    let splits = rows(&gateway, &one, SPLITS).await;
    assert_eq!((splits.len(), &splits[0]["amount"]), (1, &json!(15)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_takes_the_same_part_back_and_what_is_lacking_stays_with_the_owner() {
    let gateway = Gateway::start().await;
    let (owner, one) = (gateway.rich().await, gateway.tenant(0).await);
    let charge = paid(&gateway, &owner, &json!([percent(&one, "10")])).await;
    refund(&gateway, &owner, &charge, 50).await;
    assert_eq!(available(&gateway, &one).await, json!(5));
    assert_eq!(share(&gateway, &owner, &charge).await, (json!(10), json!(5)));
    let back = rows(&gateway, &owner, &format!("{STATEMENT}?type=split_given_back")).await;
    assert_eq!((back.len(), &back[0]["available_change"]), (1, &json!(5)));
    let taken = rows(&gateway, &one, STATEMENT).await;
    assert_eq!(all(&taken, "type"), ["split_taken_back", "split_received"]);
    let split = rows(&gateway, &one, SPLITS).await[0].clone();
    assert_eq!(
        [&split["amount"], &split["taken_back"], &split["net_amount"]],
        [&json!(10), &json!(5), &json!(5)]
    );

    // It is spent before the rest goes back.
    let mut payout = withdrawal_body();
    payout["amount"] = json!(4);
    gateway.post(&one, "/api/v1/withdrawals", &payout).await.expect(201);
    refund(&gateway, &owner, &charge, 50).await;
    assert_eq!(share(&gateway, &owner, &charge).await, (json!(10), json!(6)));
    let wallet = shown(&gateway, &one, "/api/v1/balance").await;
    assert_eq!(wallet, json!({"available": 0, "held": 0, "owed": 0, "currency": "BRL"}));
    let taken = rows(&gateway, &one, STATEMENT).await;
    assert_eq!((&taken[0]["type"], &taken[0]["amount"]), (&json!("split_taken_back"), &json!(1)));
    assert_eq!(taken[0]["resource"], json!({"type": "split", "uuid": split["uuid"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipient_is_told_where_it_has_said_and_finds_it_in_its_feed() {
    let gateway = Gateway::start().await;
    let (owner, one, other) = (gateway.rich().await, gateway.tenant(0).await, gateway.tenant(0).await);
    let place = json!({"postbackUrl": "https://one.example/splits?key=1"});
    gateway.post(&one, PLACE, &place).await.expect(200);
    let charge = paid(&gateway, &owner, &json!([percent(&one, "10"), percent(&other, "10")])).await;
    let uuid = all(&rows(&gateway, &one, SPLITS).await, "uuid")[0].to_owned();
    let simple = uuid.replace('-', "");
    let data = json!({
        "transactionType": "SPLIT", "transactionId": simple, "external_id": uuid, "amount": 10, "paymentType": "PIX",
        "status": "PAID", "dateApproval": "2026-01-15 09:00:00", "creditParty": {}, "debitParty": {},
        "event": "split.received", "eventId": format!("evt_s{simple}_1"), "sequence": 1, "uuid": uuid
    });
    let event = json!({
        "id": format!("evt_s{simple}_1"), "type": "split.received", "number": 1, "sequence": 1,
        "resource": {"type": "split", "uuid": uuid}, "created_at": NOON, "data": data,
        "delivery": {"status": "waiting", "attempts": 0, "next_attempt_at": NOON, "reason": null}
    });
    assert_eq!(rows(&gateway, &one, EVENTS).await, std::slice::from_ref(&event));
    let id = event["id"].as_str().unwrap();
    assert_eq!(shown(&gateway, &one, &format!("{EVENTS}/{id}")).await, event);
    gateway.get(&owner, &format!("{EVENTS}/{id}")).await.expect(404);

    gateway.deliver().await;
    assert_eq!(gateway.receiver.parcels.lock().unwrap()[0].url.as_str(), "https://one.example/splits?key=1");
    let mut told = data.clone();
    told["requestBody"] = data;
    assert_eq!(gateway.receiver.received(), [("split.received".to_owned(), told)]);

    // A split's events go where they went, whatever is set since.
    gateway.post(&one, PLACE, &json!({"postbackUrl": null})).await.expect(200);
    refund(&gateway, &owner, &charge, 50).await;
    refund(&gateway, &owner, &charge, 50).await;
    gateway.deliver().await;
    let told: Vec<_> = gateway
        .receiver
        .received()
        .into_iter()
        .map(|(name, body)| {
            (name, body["transactionType"].clone(), body["amount"].clone(), body["status"].clone())
        })
        .collect();
    let back =
        |status: &str| ("split.taken_back".to_owned(), json!("SPLITREVERSAL"), json!(5), json!(status));
    assert_eq!(told, [back("PAID"), back("REFUNDED")]);
    let listed = rows(&gateway, &one, &format!("{EVENTS}?type=split.taken_back")).await;
    let sequences: Vec<_> = listed.iter().map(|event| event["sequence"].clone()).collect();
    assert_eq!(sequences, [2, 3]);

    // Whoever has set no place reads the feed.
    let untold = rows(&gateway, &other, EVENTS).await;
    assert_eq!(all(&untold, "type"), ["split.received", "split.taken_back", "split.taken_back"]);
    assert!(untold.iter().all(|event| event["delivery"].is_null()), "{untold:?}");
    let path = format!("{EVENTS}/{}/redeliver", untold[0]["id"].as_str().unwrap());
    assert_eq!(gateway.post(&other, &path, &json!({})).await.expect(409).code(), "invalid_state");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_send_money_out_gives_others_a_part() {
    let gateway = Gateway::start().await;
    let (owner, one) = (gateway.tenant(0).await, gateway.tenant(0).await);
    let shared = body(&json!([percent(&one, "100")]));
    let narrow = KeyChange { scopes: Scopes::parse("charges:write read").ok(), ..KeyChange::default() };
    gateway.change(&owner, narrow).await;
    for (path, made) in [(CHARGES, 201), (QRCODE, 200)] {
        let answer = gateway.post(&owner, path, &shared).await.expect(403);
        assert_eq!(answer.code(), "insufficient_scope");
        gateway.post(&owner, path, &body(&json!([]))).await.expect(made);
    }
    let wide = Scopes::parse("charges:write withdrawals:write read").ok();
    let wide = KeyChange { scopes: wide, ..KeyChange::default() };
    gateway.change(&owner, wide).await;
    let made = gateway.post(&owner, CHARGES, &shared).await.expect(201).text("uuid");
    gateway.suspend(&owner).await;
    let answer = gateway.post(&owner, CHARGES, &shared).await.expect(403);
    assert_eq!(answer.code(), "integrator_suspended");
    gateway.post(&owner, CHARGES, &body(&json!(null))).await.expect(201);
    // What was promised before is given.
    gateway.pay(&owner, &made, 10_000).await;
    assert_eq!(available(&gateway, &one).await, json!(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_in_a_split_is_told_with_its_place_and_nothing_is_made() {
    let gateway = Gateway::start().await;
    let (owner, one, two) = (gateway.tenant(0).await, gateway.tenant(0).await, gateway.tenant(0).await);
    let suspended = gateway.tenant(0).await;
    gateway.suspend(&suspended).await;
    let id = one.id.to_string();
    let nobody = json!({"recipient": Uuid::from_u128(1).to_string(), "percentage": "10"});
    let eleven: Vec<Value> = (0..11).map(|_| percent(&one, "1")).collect();
    for (split, told) in [
        (json!("x"), &[("split", "invalid_type")][..]),
        (json!({}), &[("split", "invalid_type")]),
        (json!(eleven), &[("split", "invalid_format")]),
        (json!([7, null]), &[("split.0", "invalid_type"), ("split.1", "invalid_type")]),
        (json!([{}]), &[("split.0.recipient", "required"), ("split.0", "required")]),
        (json!([{"percentage": "10"}]), &[("split.0.recipient", "required")]),
        (json!([{"recipient": id}]), &[("split.0", "required")]),
        (json!([{"recipient": "x", "percentage": "10"}]), &[("split.0.recipient", "invalid_format")]),
        (json!([{"recipient": 7, "percentage": "10"}]), &[("split.0.recipient", "invalid_type")]),
        (json!([{"username": "x", "percentageSplit": 10}]), &[("split.0.username", "invalid_format")]),
        (json!([{"recipient": id, "username": id, "percentage": "1"}]), &[("split.0", "mismatch")]),
        (json!([{"recipient": id, "percentage": "10", "amount": "1"}]), &[("split.0", "mismatch")]),
        (json!([{"recipient": id, "percentage": 1, "percentageSplit": 1}]), &[("split.0", "mismatch")]),
        (json!([{"recipient": id, "percentage": "0"}]), &[("split.0.percentage", "invalid_format")]),
        (json!([{"recipient": id, "percentage": "100.01"}]), &[("split.0.percentage", "invalid_format")]),
        (json!([{"username": id, "percentageSplit": "x"}]), &[("split.0.percentageSplit", "invalid_format")]),
        (json!([{"recipient": id, "amount": "0"}]), &[("split.0.amount", "invalid_amount")]),
        (json!([{"recipient": id, "amount": 0.001}]), &[("split.0.amount", "invalid_amount")]),
        (json!([percent(&one, "1"), percent(&owner, "1")]), &[("split.1", "invalid_format")]),
        (json!([percent(&one, "1"), fixed(&one, "1")]), &[("split.1", "invalid_format")]),
        (json!([percent(&one, "60"), percent(&two, "40.0001")]), &[("split", "invalid_format")]),
        (json!([fixed(&one, "100.01")]), &[("split", "invalid_format")]),
        (json!([fixed(&one, "50.01"), percent(&two, "50")]), &[("split", "invalid_format")]),
        (json!([nobody]), &[("split", "unknown_value")]),
        (json!([percent(&suspended, "1")]), &[("split", "unknown_value")]),
    ] {
        let answer = gateway.post(&owner, CHARGES, &body(&split)).await.expect(422);
        let told: Vec<_> =
            told.iter().map(|(field, code)| ((*field).to_owned(), (*code).to_owned())).collect();
        assert_eq!((answer.code().as_str(), problems(&answer)), ("validation_failed", told), "{split}");
        let answer = gateway.post(&owner, QRCODE, &json!({"amount": 100, "split": split})).await;
        // In v2 a number does for a text; but no integrator is called 7.
        assert_eq!(answer.expect(422).code(), "validation_failed", "{split}");
    }
    let mut wrong = body(&json!([
        {"recipient": "x", "percentage": "0"},
        7,
        {"recipient": id, "amount": "1,00"},
        percent(&owner, "60"),
        percent(&one, "60"),
        percent(&one, "1"),
    ]));
    wrong["amount"] = json!(0);
    wrong["payer"]["document"] = json!("1");
    let answer = gateway.post(&owner, CHARGES, &wrong).await.expect(422);
    let fields: Vec<String> = problems(&answer).into_iter().map(|(field, _)| field).collect();
    assert_eq!(
        fields,
        [
            "amount",
            "payer.document",
            "split.1",
            "split.0.recipient",
            "split.0.percentage",
            "split.2.amount",
            "split.3",
            "split.5",
        ]
    );
    assert_eq!(rows(&gateway, &owner, CHARGES).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_paid_is_said_in_a_sentence_in_either_language() {
    let gateway = Gateway::start().await;
    let (owner, one) = (gateway.tenant(0).await, gateway.tenant(0).await);
    gateway.services.set_fees(owner.id, some_fees()).await;
    for (split, english, portuguese) in [
        (
            json!([fixed(&one, "98.91")]),
            "the parts must not sum above the net amount of the charge, 98.90",
            "as partes não devem somar mais que o valor líquido da cobrança, 98.90",
        ),
        (
            json!([percent(&one, "1"), percent(&owner, "1")]),
            "split.1 must not name the charge's own integrator",
            "split.1 não deve indicar o próprio integrador da cobrança",
        ),
        (
            json!([percent(&one, "1"), {"recipient": uuid::Uuid::from_u128(7).to_string(), "percentage": "1"}]),
            "split.1 names no integrator that can be paid",
            "split.1 não indica um integrador que possa ser pago",
        ),
        (
            json!([{"recipient": one.id.to_string()}]),
            "split.0 must have a percentage or an amount, and not both",
            "split.0 deve ter uma porcentagem ou um valor, e não ambos",
        ),
    ] {
        let text = body(&split).to_string();
        for (language, sentence) in [("en", english), ("pt-BR", portuguese)] {
            let request = Request::post(CHARGES, &text).token(&owner).header("Accept-Language", language);
            let answer = gateway.send(request).await.expect(422).json();
            assert_eq!(answer["errors"][0]["message"], sentence);
        }
        let v2 = json!({"amount": 100, "split": split});
        assert_eq!(gateway.post(&owner, QRCODE, &v2).await.expect(422).text("message"), english);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_handle_with_another_split_is_a_conflict() {
    let gateway = Gateway::start().await;
    let (owner, one, two) = (gateway.tenant(0).await, gateway.tenant(0).await, gateway.tenant(0).await);
    let named = |split: &Value| {
        let mut body = body(split);
        body["external_id"] = json!("order:1");
        body
    };
    let first = gateway.post(&owner, CHARGES, &named(&json!([percent(&one, "10")]))).await.expect(201).json();
    let other_spelling = json!([{"username": one.id.0.simple().to_string(), "percentageSplit": 10}]);
    let again = gateway.post(&owner, CHARGES, &named(&other_spelling)).await.expect(200);
    assert_eq!((again.json(), again.header("idempotency-replayed")), (first, Some("true")));
    for other in [
        Value::Null,
        json!([]),
        json!([percent(&one, "10.5")]),
        json!([percent(&two, "10")]),
        json!([fixed(&one, "10")]),
        json!([percent(&one, "10"), percent(&two, "1")]),
    ] {
        let answer = gateway.post(&owner, CHARGES, &named(&other)).await.expect(409);
        assert_eq!(answer.code(), "external_id_conflict", "{other}");
    }
    let keyed = |split: &Value| {
        Request::post(CHARGES, &body(split).to_string()).token(&owner).header("Idempotency-Key", "k-1")
    };
    gateway.send(keyed(&json!([percent(&one, "10")]))).await.expect(201);
    gateway.send(keyed(&json!([percent(&one, "10")]))).await.expect(200);
    let other = gateway.send(keyed(&json!([percent(&one, "11")]))).await.expect(422);
    assert_eq!(other.code(), "idempotency_mismatch");
}

#[tokio::test(flavor = "multi_thread")]
async fn splits_come_in_pages_of_ones_own() {
    let gateway = Gateway::start().await;
    let (owner, one, other) = (gateway.tenant(0).await, gateway.tenant(0).await, gateway.tenant(0).await);
    for amount in ["1", "2", "3"] {
        paid(&gateway, &owner, &json!([fixed(&one, amount), fixed(&other, "9")])).await;
    }
    let first = gateway.get(&one, &format!("{SPLITS}?per_page=2")).await.expect(200);
    let page = first.json();
    let amounts = |page: &Value| -> Vec<Value> {
        page["data"].as_array().unwrap().iter().map(|split| split["amount"].clone()).collect()
    };
    assert_eq!(amounts(&page), [3, 2]);
    let next = page["links"]["next"].as_str().unwrap();
    assert_eq!(first.header("link"), Some(format!("<{next}>; rel=\"next\"").as_str()));
    let second = shown(&gateway, &one, next.strip_prefix(BASE).unwrap()).await;
    assert_eq!((amounts(&second), &second["links"]["next"]), (vec![json!(1)], &Value::Null));
    let back = second["links"]["prev"].as_str().unwrap();
    assert_eq!(shown(&gateway, &one, back.strip_prefix(BASE).unwrap()).await["data"], page["data"]);
    assert_eq!(rows(&gateway, &one, &format!("{SPLITS}?created_to={NOON}")).await, Vec::<Value>::new());
    assert_eq!(rows(&gateway, &one, &format!("{SPLITS}?created_from={NOON}")).await.len(), 3);

    // Its cursors are of this list and of this integrator.
    let cursor = page["meta"]["next_cursor"].as_str().unwrap();
    gateway.get(&other, &format!("{SPLITS}?cursor={cursor}")).await.expect(422);
    gateway.get(&one, &format!("{CHARGES}?cursor={cursor}")).await.expect(422);
    let query = "per_page=0&created_from=x&created_to=y&cursor=z";
    let answer = gateway.get(&one, &format!("{SPLITS}?{query}")).await.expect(422);
    let fields: Vec<String> = problems(&answer).into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["created_from", "created_to", "cursor", "per_page"]);

    let uuid = page["data"][0]["uuid"].as_str().unwrap();
    let nothing = gateway.get(&other, &format!("{SPLITS}/{}", Uuid::from_u128(1))).await.expect(404);
    let nothing = nothing.without_request_id();
    for (tenant, name) in [(&other, uuid), (&owner, uuid), (&one, "x"), (&one, "%00")] {
        let answer = gateway.get(tenant, &format!("{SPLITS}/{name}")).await.expect(404);
        assert_eq!(answer.without_request_id(), nothing, "{name}");
    }
    let consult = json!({"uuid": uuid});
    gateway.post(&one, "/api/v1/transactions/consult", &consult).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_says_where_it_is_told_of_splits() {
    let gateway = Gateway::start().await;
    let (tenant, other) = (gateway.tenant(0).await, gateway.tenant(0).await);
    let none = json!({"postbackUrl": null});
    assert_eq!(shown(&gateway, &tenant, PLACE).await, none);
    let place = json!({"postbackUrl": "https://loja.example/splits?x=1"});
    assert_eq!(gateway.post(&tenant, PLACE, &place).await.expect(200).json(), place);
    for (body, code) in [
        (json!({}), "required"),
        (json!({"url": "https://loja.example/"}), "required"),
        (json!({"postbackUrl": 7}), "invalid_type"),
        (json!({"postbackUrl": "ftp://x"}), "invalid_format"),
        (json!({"postbackUrl": "http://10.0.0.1/x"}), "address_not_public"),
    ] {
        let answer = gateway.post(&tenant, PLACE, &body).await.expect(422);
        assert_eq!(problems(&answer), [("postbackUrl".to_owned(), code.to_owned())], "{body}");
    }
    assert_eq!(gateway.post(&tenant, PLACE, &json!([])).await.expect(400).code(), "malformed_request");
    assert_eq!(shown(&gateway, &tenant, PLACE).await, place, "what was refused changed nothing");
    assert_eq!(shown(&gateway, &other, PLACE).await, none);
    for empty in [json!({"postbackUrl": null}), json!({"postbackUrl": ""})] {
        gateway.post(&tenant, PLACE, &place).await.expect(200);
        assert_eq!(gateway.post(&tenant, PLACE, &empty).await.expect(200).json(), none);
        assert_eq!(shown(&gateway, &tenant, PLACE).await, none);
    }
}
