//! The statement: its pages, its CSV, and that it sums to the balance.

use pix_conformance::Answer as Told;
use pix_conformance::builders::some_fees;
use serde_json::{Value, json};

use crate::support::{Answer, BASE, Gateway, Request, Tenant, charge_body, withdrawal_body};

const STATEMENT: &str = "/api/v1/statement";
const NOON: &str = "2026-01-15T12:00:00.000000Z";

/// A paid charge, a withdrawal that is done, and one that was refused; the uuids of the charge and of the first withdrawal.
async fn some_movements(gateway: &Gateway, tenant: &Tenant) -> (String, String) {
    gateway.services.set_fees(tenant.id, some_fees()).await;
    let charge = gateway.post(tenant, "/api/v1/charges", &charge_body()).await.expect(201).text("uuid");
    gateway.pay(tenant, &charge, 10_000).await;
    gateway.provider.fake.answers_next(Told::Complete);
    let sent = gateway.post(tenant, "/api/v1/withdrawals", &withdrawal_body()).await.expect(201).text("uuid");
    gateway.provider.fake.answers_next(Told::Reject);
    let mut body = withdrawal_body();
    body["external_id"] = json!("payout-2");
    gateway.post(tenant, "/api/v1/withdrawals", &body).await.expect(422);
    (charge, sent)
}

async fn rows(gateway: &Gateway, tenant: &Tenant, query: &str) -> Vec<Value> {
    let page = gateway.get(tenant, &format!("{STATEMENT}{query}")).await.expect(200).json();
    page["data"].as_array().unwrap().clone()
}

/// An amount of an answer in centavos.
fn cents(value: &Value) -> i64 {
    let text = value.to_string();
    let digits = text.trim_start_matches('-');
    let (reais, part) = digits.split_once('.').unwrap_or((digits, ""));
    let cents = reais.parse::<i64>().unwrap() * 100 + format!("{part:0<2}").parse::<i64>().unwrap();
    if text.starts_with('-') { -cents } else { cents }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_posting_is_in_the_statement_with_the_balances_after_it() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let (charge, sent) = some_movements(&gateway, &tenant).await;
    let rows = rows(&gateway, &tenant, "").await;
    let types: Vec<&str> = rows.iter().map(|row| row["type"].as_str().unwrap()).collect();
    let newest_first = [
        "withdrawal_release",
        "withdrawal_hold",
        "withdrawal_fee",
        "withdrawal_settle",
        "withdrawal_hold",
        "charge_fee",
        "charge_paid",
    ];
    assert_eq!(types, newest_first);
    let told = json!({
        "number": 3, "type": "withdrawal_hold", "amount": 10.5, "available_change": -10.5, "held_change": 10.5,
        "owed_change": 0, "available_balance": 88.4, "held_balance": 10.5, "currency": "BRL",
        "resource": {"type": "withdrawal", "uuid": sent}, "created_at": NOON
    });
    assert_eq!(rows[4], told);
    assert_eq!(rows[6]["resource"], json!({"type": "charge", "uuid": charge}));
    let balance = gateway.get(&tenant, "/api/v1/balance").await.expect(200).json();
    assert_eq!(rows[0]["available_balance"], balance["available"]);
    for (change, balance) in [("available_change", &balance["available"]), ("held_change", &balance["held"])]
    {
        assert_eq!(rows.iter().map(|row| cents(&row[change])).sum::<i64>(), cents(balance), "{change}");
    }
    let stranger = gateway.tenant(0).await;
    assert_eq!(gateway.get(&stranger, STATEMENT).await.expect(200).json()["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn its_pages_are_linked_both_ways_and_keep_their_filters() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    some_movements(&gateway, &tenant).await;
    let all = rows(&gateway, &tenant, "").await;
    let first = gateway.get(&tenant, &format!("{STATEMENT}?per_page=3")).await.expect(200);
    let page = first.json();
    assert_eq!(page["data"].as_array().unwrap()[..], all[..3]);
    assert_eq!((&page["meta"]["per_page"], &page["meta"]["prev_cursor"]), (&json!(3), &Value::Null));
    let next = page["links"]["next"].as_str().unwrap();
    let cursor = page["meta"]["next_cursor"].as_str().unwrap();
    assert_eq!(next, format!("{BASE}{STATEMENT}?per_page=3&cursor={cursor}"));
    assert_eq!(first.header("link"), Some(format!("<{next}>; rel=\"next\"").as_str()));
    let second = gateway.get(&tenant, next.strip_prefix(BASE).unwrap()).await.expect(200).json();
    assert_eq!(second["data"].as_array().unwrap()[..], all[3..6]);
    let back = second["links"]["prev"].as_str().unwrap();
    let first_again = gateway.get(&tenant, back.strip_prefix(BASE).unwrap()).await.expect(200).json();
    assert_eq!(first_again["data"], page["data"]);
    let holds = rows(&gateway, &tenant, "?type=withdrawal_hold,charge_paid").await;
    assert_eq!(holds, [all[1].clone(), all[4].clone(), all[6].clone()]);
    let of_one = all[6]["resource"]["uuid"].as_str().unwrap();
    assert_eq!(rows(&gateway, &tenant, &format!("?uuid={of_one}")).await, all[5..]);
    assert_eq!(rows(&gateway, &tenant, &format!("?created_to={NOON}")).await, Vec::<Value>::new());
    assert_eq!(rows(&gateway, &tenant, &format!("?created_from={NOON}")).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_its_query_comes_back_at_once() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    some_movements(&gateway, &tenant).await;
    let query = "?per_page=101&type=paid&uuid=7&created_from=today&created_to=x&cursor=y";
    let answer = gateway.get(&tenant, &format!("{STATEMENT}{query}")).await.expect(422).json();
    let mut fields: Vec<&str> =
        answer["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["created_from", "created_to", "cursor", "per_page", "type", "uuid"]);
    // The cursor of another integrator, and that of another list.
    let foreign = gateway.tenant(0).await;
    some_movements(&gateway, &foreign).await;
    let page = gateway.get(&tenant, &format!("{STATEMENT}?per_page=1")).await.expect(200).json();
    let cursor = page["meta"]["next_cursor"].as_str().unwrap();
    gateway.get(&foreign, &format!("{STATEMENT}?cursor={cursor}")).await.expect(422);
    gateway.get(&tenant, &format!("/api/v1/withdrawals?cursor={cursor}")).await.expect(422);
    let page = gateway.get(&foreign, "/api/v1/withdrawals?per_page=1").await.expect(200).json();
    let cursor = page["meta"]["next_cursor"].as_str().unwrap();
    gateway.get(&tenant, &format!("/api/v1/withdrawals?cursor={cursor}")).await.expect(422);
    gateway.get(&foreign, &format!("/api/v1/withdrawals?cursor={cursor}")).await.expect(200);
}

/// The body of an answer whose length was not known when it began (RFC 9112 §7.1).
fn dechunked(answer: &Answer) -> String {
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    let (mut rest, mut whole) = (answer.body.as_str(), String::new());
    loop {
        let (length, after) = rest.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            assert_eq!(after, "\r\n", "it is cut off");
            return whole;
        }
        whole.push_str(&after[..length]);
        rest = after[length..].strip_prefix("\r\n").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn as_csv_it_comes_whole_however_long_it_is() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let (_, sent) = some_movements(&gateway, &tenant).await;
    let csv = |query: &str| {
        let path = format!("{STATEMENT}{query}");
        let gateway = &gateway;
        let tenant = &tenant;
        async move {
            let request = Request::new("GET", &path).token(tenant).header("Accept", "text/csv, */*;q=0.1");
            let answer = gateway.send(request).await.expect(200);
            assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
            dechunked(&answer)
        }
    };
    let whole = csv("").await;
    let lines: Vec<&str> = whole.split_terminator("\r\n").collect();
    assert_eq!(
        lines[0],
        "number,created_at,type,amount,available_change,held_change,owed_change,available_balance,held_balance,resource_type,resource_uuid"
    );
    assert_eq!(lines[5], format!("3,{NOON},withdrawal_hold,10.5,-10.5,10.5,0,88.4,10.5,withdrawal,{sent}"));
    assert_eq!(lines.len(), 8);
    assert_eq!(csv("?type=charge_fee").await.lines().count(), 2);
    assert_eq!(csv("?type=owed_repaid").await.lines().count(), 1, "its head alone");
    // More than one piece of it: each number once, from the last to the first.
    for _ in 0..1_200 {
        gateway.services.paid_charge(tenant.id, 700).await;
    }
    let long = csv("").await;
    let numbers: Vec<u64> =
        long.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(numbers.len() > 2_000, "{}", numbers.len());
    let down: Vec<u64> = (1..=u64::try_from(numbers.len()).unwrap()).rev().collect();
    assert_eq!(numbers, down);
    let page = gateway.get(&tenant, &format!("{STATEMENT}?per_page=1")).await.expect(200).json();
    let path = format!("{STATEMENT}?cursor={}", page["meta"]["next_cursor"].as_str().unwrap());
    let cursor = gateway.send(Request::new("GET", &path).token(&tenant).header("Accept", "text/csv")).await;
    assert_eq!(cursor.expect(422).json()["errors"][0]["field"], "cursor");
    let head =
        gateway.send(Request::new("HEAD", STATEMENT).token(&tenant).header("Accept", "text/csv")).await;
    assert_eq!(head.expect(200).body, "");
    for accept in
        ["text/csv;q=0, application/json", "text/csv;q=0", "text/csv;q=0.1, application/json", "*/*"]
    {
        let plain = Request::new("GET", STATEMENT).token(&tenant).header("Accept", accept);
        gateway.send(plain).await.expect(200).json();
    }
    let path = format!("{STATEMENT}?per_page=0&type=charge_fee");
    let csv = Request::new("HEAD", &path).token(&tenant).header("Accept", "application/json;q=0.5, Text/CSV");
    assert!(gateway.send(csv).await.expect(200).header("content-disposition").is_some());
    let path = format!("{STATEMENT}?type=x");
    let refused = gateway.send(Request::new("GET", &path).token(&tenant).header("Accept", "text/csv")).await;
    assert_eq!(refused.expect(422).header("content-type"), Some("application/problem+json"));
}
