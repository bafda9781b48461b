//! Answers of every form: those of the contract, those that contradict it, and hostile ones.

use pix_domain::provider::Inquiry;
use uuid::Uuid;

use super::*;

const E2E: &str = "E99999999202610070741abcdefghijk";
const RETURN: &str = "D99999999202610070741abcdefghijk";

fn reference() -> Reference {
    Reference(Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_00ff))
}

fn inquiry(provider_id: Option<&str>) -> Inquiry {
    Inquiry {
        reference: reference(),
        provider_id: provider_id.and_then(ProviderId::parse),
        amount: Amount::from_cents(1_550).unwrap(),
        key: None,
    }
}

/// `R` stands for our reference.
fn text(json: &str) -> String {
    json.replace("\"R\"", &format!("\"{}\"", reference()))
}

fn read_charge(json: &str) -> Read<ChargeReport> {
    charge(&text(json), &Expected::answer_to(&inquiry(None)))
}

fn read_payment(json: &str) -> Read<OutgoingReport> {
    outgoing(&text(json), &Expected::answer_to(&inquiry(None)), Direction::Payment)
}

fn read_refund(json: &str) -> Read<OutgoingReport> {
    outgoing(&text(json), &Expected::answer_to(&inquiry(None)), Direction::Refund)
}

fn payment_with(fields: &str) -> Read<Progress> {
    let json = format!(r#"{{"transactionId":"t1","external_id":"R","amount":15.5{fields}}}"#);
    read_payment(&json).map(|report| report.progress)
}

fn cents(cents: i64) -> Cents {
    Cents::new(cents).unwrap()
}

#[test]
fn a_charge_tells_every_payment_in_its_order() {
    let second = "E99999999202610070742abcdefghijk";
    let json = format!(
        r#"{{"transactionType":"RECEIVEPIX","transactionId":"t1","external_id":"R","status":"PAID","amount":15.5,"payments":[
        {{"endToEndId":"{E2E}","amount":15.5,"paidAt":"2026-10-07T07:41:05.000001Z","debitParty":{{"name":"Ana","document":"529.982.247-25"}}}},
        {{"endToEndId":"{second}","amount":"3","dateApproval":"2026-10-07 04:41:05","debitParty":{{"name":"\u0000","taxId":"1"}}}}]}}"#
    );
    let report = read_charge(&json).unwrap();
    assert_eq!(report.provider_id.as_str(), "t1");
    assert!(!report.canceled);
    assert_eq!(report.payments.len(), 2);
    assert_eq!(report.payments[0].key.to_text(), E2E);
    assert_eq!(report.payments[0].amount.cents(), cents(1_550));
    assert_eq!(report.payments[0].paid_at.micros(), 1_791_358_865_000_001);
    assert_eq!(report.payments[0].payer.document.as_ref().unwrap().as_str(), "52998224725");
    assert_eq!(report.payments[1].key.to_text(), second);
    assert_eq!(report.payments[1].paid_at.micros(), 1_791_358_865_000_000);
    assert_eq!(report.payments[1].payer, Party::default());
    assert_eq!(report.body.0, text(&json));
}

#[test]
fn a_payment_whose_end_to_end_id_has_no_known_form_is_not_lost() {
    let json = r#"{"transactionId":"t1","external_id":"R","status":"PAID","amount":15.5,
        "payments":[{"endToEndId":"odd-id","amount":1,"paidAt":"2026-10-07T07:41:05Z"}]}"#;
    assert_eq!(read_charge(json).unwrap().payments[0].key.to_text(), "txn:odd-id");
    assert!(read_charge(&json.replace("odd-id", "")).is_err());
    assert!(read_charge(&json.replace("odd-id", "a b")).is_err());
}

#[test]
fn a_provider_without_a_list_has_one_payment_a_charge() {
    let json = format!(
        r#"{{"transactionId":"t1","external_id":"R","status":"PAID","amount":9.9,"endToEndId":"{E2E}",
        "dateApproval":"2026-10-07 04:41:05","debitParty":{{"name":"Ana"}}}}"#
    );
    let report = read_charge(&json).unwrap();
    assert_eq!(report.payments.len(), 1);
    assert_eq!(report.payments[0].key.to_text(), "txn:t1");
    assert_eq!(report.payments[0].amount.cents(), cents(990));
    assert!(read_charge(&json.replace("04:41:05", "24:41:05")).is_err());
    assert!(read_charge(&json.replace("9.9", "0")).is_err());
}

#[test]
fn status_words_of_a_charge() {
    let with = |word: &str, payments: &str| {
        let json = format!(
            r#"{{"transactionId":"t1","external_id":"R","status":"{word}","amount":15.5{payments}}}"#
        );
        read_charge(&json).map(|report| (report.payments.len(), report.canceled))
    };
    for word in ["PENDING", "EXPIRED", "FAILED"] {
        assert_eq!(with(word, ""), Ok((0, false)), "{word}");
        assert_eq!(with(word, r#","payments":[]"#), Ok((0, false)), "{word}");
    }
    assert_eq!(with("CANCELED", ""), Ok((0, true)));
    for word in ["", "paid", "CONFIRMED", "PAID "] {
        assert!(with(word, "").is_err(), "{word}");
    }
    for word in ["PAID", "REFUNDED"] {
        assert!(with(word, r#","payments":[]"#).is_err(), "{word}");
        assert!(with(word, "").is_err(), "{word}: no time");
    }
}

#[test]
fn what_went_back_is_told() {
    let with = |status: &str, fields: &str| {
        let second = "E99999999202610070742abcdefghijk";
        let json = format!(
            r#"{{"transactionId":"t1","external_id":"R","status":"{status}","amount":15.5{fields},"payments":[
            {{"endToEndId":"{E2E}","amount":15.5,"paidAt":"2026-10-07T07:41:05Z"}},
            {{"endToEndId":"{second}","amount":3,"paidAt":"2026-10-07T07:41:05Z"}}]}}"#
        );
        read_charge(&json).map(|report| report.refunded)
    };
    for status in ["PAID", "EXPIRED", "CANCELED"] {
        assert_eq!(with(status, ""), Ok(Cents::ZERO), "{status}");
        assert_eq!(with(status, r#","refundedAmount":0"#), Ok(Cents::ZERO), "{status}");
        assert_eq!(with(status, r#","refundedAmount":"2.50""#), Ok(cents(250)), "{status}");
    }
    assert_eq!(with("REFUNDED", ""), Ok(cents(1_850)));
    assert_eq!(with("REFUNDED", r#","refundedAmount":null"#), Ok(cents(1_850)));
    assert_eq!(with("REFUNDED", r#","refundedAmount":18.5"#), Ok(cents(1_850)));
    assert_eq!(with("REFUNDED", r#","refundedAmount":15.5"#), Ok(cents(1_550)));
    assert_eq!(with("REFUNDED", r#","refundedAmount":1.55E1"#), Ok(cents(1_550)));
    // More than was paid: the domain takes what was credited, and tells operators.
    assert_eq!(with("PAID", r#","refundedAmount":18.51"#), Ok(cents(1_851)));
    for (status, amount) in [("REFUNDED", "0"), ("PAID", "-1"), ("PAID", "1.8615e1"), ("PAID", "{}")] {
        assert!(with(status, &format!(r#","refundedAmount":{amount}"#)).is_err(), "{status} {amount}");
    }
}

#[test]
fn what_went_back_is_told_without_a_list_too() {
    let with = |status: &str, fields: &str| {
        let json = format!(
            r#"{{"transactionId":"t1","external_id":"R","status":"{status}","amount":9.9{fields},
            "dateApproval":"2026-10-07 04:41:05"}}"#
        );
        read_charge(&json).map(|report| (report.payments.len(), report.refunded))
    };
    assert_eq!(with("PAID", ""), Ok((1, Cents::ZERO)));
    assert_eq!(with("REFUNDED", ""), Ok((1, cents(990))));
    assert_eq!(with("REFUNDED", r#","refundedAmount":1"#), Ok((1, cents(100))));
    assert_eq!(with("EXPIRED", ""), Ok((0, Cents::ZERO)));
    assert!(with("EXPIRED", r#","refundedAmount":1"#).is_err());
}

#[test]
fn a_payment_of_a_charge_that_is_not_paid_contradicts_it() {
    let with = |status: &str, fields: &str| {
        let json = format!(
            r#"{{"transactionId":"t1","external_id":"R","status":"{status}","amount":15.5,
            "payments":[{{"endToEndId":"{E2E}","amount":15.5,"paidAt":"2026-10-07T07:41:05Z"{fields}}}]}}"#
        );
        read_charge(&json).map(|report| (report.payments.len(), report.canceled))
    };
    for status in ["PAID", "REFUNDED", "EXPIRED"] {
        assert_eq!(with(status, ""), Ok((1, false)), "{status}");
    }
    assert_eq!(with("CANCELED", ""), Ok((1, true)));
    for status in ["PENDING", "FAILED"] {
        assert!(with(status, "").is_err(), "{status}");
    }
    for word in ["PAID", "COMPLETED", "SETTLED", "REFUNDED"] {
        assert_eq!(with("PAID", &format!(r#","status":"{word}""#)), Ok((1, false)), "{word}");
    }
    assert_eq!(with("PAID", r#","status":null"#), Ok((1, false)));
    for word in ["PENDING", "PROCESSING", "FAILED", "REJECTED", "CANCELED"] {
        assert!(with("PAID", &format!(r#","status":"{word}""#)).is_err(), "{word}: paid by nothing");
        assert_eq!(with("EXPIRED", &format!(r#","status":"{word}""#)), Ok((0, false)), "{word}");
    }
    for word in [r#""paid""#, r#""?""#, "1", r#""PAID","status":"PAID""#] {
        assert!(with("PAID", &format!(r#","status":{word}"#)).is_err(), "{word}");
    }
}

#[test]
fn a_payment_that_is_not_settled_hides_no_other() {
    for word in ["PENDING", "FAILED"] {
        let json = format!(
            r#"{{"transactionId":"t1","external_id":"R","status":"PAID","amount":15.5,"payments":[
            {{"endToEndId":"E99999999202610070742abcdefghijk","amount":3,"status":"{word}"}},
            {{"endToEndId":"{E2E}","amount":15.5,"paidAt":"2026-10-07T07:41:05Z","status":"PAID"}}]}}"#
        );
        let payments = read_charge(&json).unwrap().payments;
        assert_eq!(
            payments.iter().map(|payment| payment.amount.cents()).collect::<Vec<_>>(),
            [cents(1_550)],
            "{word}"
        );
    }
}

#[test]
fn a_secret_that_is_repeated_to_us_is_not_shown() {
    const SECRET: &str = "0f3a9c0f3a9c0f3a9c0f3a9c0f3a9c";
    let known = inquiry(None);
    let read = |fields: &str| {
        let json = format!(r#"{{"transactionId":"t1","external_id":"R","amount":15.5{fields}}}"#);
        outgoing(&text(&json), &Expected::answer_to(&known).hiding(Some(SECRET)), Direction::Payment).unwrap()
    };
    for slash in ["/", r"\/", r"\u002f", "%2F"] {
        let url = format!("https:{slash}{slash}gateway.example.com{slash}callbacks{slash}{SECRET}");
        let report = read(&format!(r#","status":"PAID","postbackUrl":"{url}""#));
        assert!(report.body.0.contains(&url.replace(SECRET, "redacted")), "{}", report.body.0);
        assert!(!report.body.0.contains(SECRET) && is_object(&report.body.0));
    }
    // Cut to what may be shown only when nothing of it is left.
    let long = "x".repeat(190);
    let report =
        read(&format!(r#","status":"FAILED","failureCode":"c-{SECRET}","failureMessage":"{long}{SECRET}""#));
    let failed = Progress::Failed { code: "c-redacted".into(), message: format!("{long}redacted") };
    assert_eq!(report.progress, failed);
}

#[test]
fn a_payment_told_twice_counts_once_and_with_two_amounts_not_at_all() {
    let twice = |amount: &str| {
        let json = format!(
            r#"{{"transactionId":"t1","external_id":"R","status":"PAID","amount":15.5,"payments":[
            {{"endToEndId":"{E2E}","amount":15.5,"paidAt":"2026-10-07T07:41:05Z"}},
            {{"endToEndId":"{E2E}","amount":{amount},"paidAt":"2026-10-07T07:41:05Z"}}]}}"#
        );
        read_charge(&json).map(|report| report.payments.len())
    };
    assert_eq!(twice("15.50"), Ok(1));
    assert!(twice("15.51").is_err());
}

#[test]
fn status_words_of_what_goes_out() {
    for word in ["PENDING", "PROCESSING"] {
        assert_eq!(payment_with(&format!(r#","status":"{word}""#)), Ok(Progress::Accepted));
    }
    for word in ["PAID", "COMPLETED", "SETTLED"] {
        assert_eq!(
            payment_with(&format!(r#","status":"{word}","returnedAmount":0"#)),
            Ok(Progress::Completed)
        );
        assert_eq!(
            payment_with(&format!(r#","status":"{word}","returnedAmount":2.5"#)),
            Ok(Progress::Returned(cents(250)))
        );
    }
    for word in ["FAILED", "REJECTED", "CANCELED"] {
        let failed = payment_with(&format!(r#","status":"{word}""#));
        let expected = Progress::Failed {
            code: "rejected".into(),
            message: "refused by the settlement provider".into(),
        };
        assert_eq!(failed, Ok(expected));
    }
    let failed =
        payment_with(r#","status":"FAILED","failureCode":"account_closed","failureMessage":"closed""#);
    let expected = Progress::Failed { code: "account_closed".into(), message: "closed".into() };
    assert_eq!(failed, Ok(expected));
    assert_eq!(payment_with(r#","status":"RETURNED""#), Ok(Progress::Returned(cents(1_550))));
    // The last one is more than was sent, which the domain judges.
    for (returned, told) in [(1_550, "15.50"), (1_551, "15.51")] {
        let fields = format!(r#","status":"RETURNED","returnedAmount":"{told}""#);
        assert_eq!(payment_with(&fields), Ok(Progress::Returned(cents(returned))));
    }
}

#[test]
fn what_has_no_meaning_is_not_known() {
    for fields in [
        "",
        r#","status":null"#,
        r#","status":"paid""#,
        r#","status":"REFUNDED""#,
        r#","status":1"#,
        r#","status":"RETURNED","returnedAmount":0"#,
        r#","status":"PENDING","returnedAmount":1"#,
        r#","status":"FAILED","returnedAmount":1"#,
        r#","status":"PAID","returnedAmount":-1"#,
        r#","status":"PAID","returnedAmount":1e400000000"#,
        r#","status":"PAID","status":"PAID""#,
        r#","status":"PAID","amount":15.5"#,
        r#","status":"PAID","statusCode":406"#,
        r#","status":"PAID","transactionType":"RECEIVEPIX""#,
        r#","status":"PAID","requestBody":[]"#,
        r#","status":"PAID","requestBody":{"status":"PENDING"}"#,
    ] {
        assert!(payment_with(fields).is_err(), "{fields}");
    }
}

#[test]
fn an_answer_about_somebody_else_is_not_known() {
    for json in [
        r#"{"transactionId":"t1","external_id":"S","status":"PAID","amount":15.5}"#,
        r#"{"transactionId":"t1","external_id":"","status":"PAID","amount":15.5}"#,
        r#"{"transactionId":"t1","status":"PAID","amount":15.5}"#,
        r#"{"transactionId":"t1","external_id":"R","status":"PAID","amount":15.51}"#,
        r#"{"transactionId":"t1","external_id":"R","status":"PAID","amount":1.56e1}"#,
        r#"{"transactionId":"t1","external_id":"R","status":"PAID","amount":15.500}"#,
        r#"{"transactionId":"t1","external_id":"R","status":"PAID","amount":"15,50"}"#,
        r#"{"transactionId":"t1","external_id":"R","status":"PAID","amount":null}"#,
        r#"{"transactionId":"t1","external_id":"R","status":"PAID"}"#,
        r#"{"transactionId":"","external_id":"R","status":"PAID","amount":15.5}"#,
        r#"{"transactionId":"a b","external_id":"R","status":"PAID","amount":15.5}"#,
        r#"{"external_id":"R","status":"PAID","amount":15.5}"#,
    ] {
        assert!(read_payment(json).is_err(), "{json}");
    }
    let known = inquiry(Some("t1"));
    let ask = |json: &str| outgoing(&text(json), &Expected::answer_to(&known), Direction::Payment);
    assert!(ask(r#"{"transactionId":"t1","status":"PAID","amount":15.5}"#).is_ok());
    assert!(ask(r#"{"transactionId":"t2","external_id":"R","status":"PAID","amount":15.5}"#).is_err());
    assert!(ask(r#"{"transactionId":"t1","external_id":"S","status":"PAID","amount":15.5}"#).is_err());
}

#[test]
fn a_refund_is_known_by_its_own_id_and_by_its_charge() {
    let json = format!(
        r#"{{"statusCode":200,"message":"ok","transactionId":"c1","refundId":"r1","external_id":"R","amount":15.5,"status":"REFUNDED","endToEndId":"{RETURN}"}}"#
    );
    let report = read_refund(&json).unwrap();
    assert_eq!((report.provider_id.as_str(), report.progress), ("r1", Progress::Completed));
    assert_eq!(report.end_to_end_id.as_deref(), Some(RETURN));
    assert!(read_refund(&json.replace("refundId", "x")).is_err());

    let made = |charge: &str| {
        let charge = ProviderId::parse(charge);
        let amount = Amount::from_cents(1_550).unwrap();
        let expected = Expected::made(reference(), amount, charge.as_ref());
        outgoing(&text(&json), &expected, Direction::Refund)
    };
    assert!(made("c1").is_ok());
    assert!(made("c2").is_err());
}

#[test]
fn an_answer_to_a_request_that_names_nobody_is_not_known() {
    let amount = Amount::from_cents(1_550).unwrap();
    let read = |name: &str| {
        let json = format!(r#"{{"transactionId":"t1"{name},"status":"PAID","amount":15.5}}"#);
        outgoing(&text(&json), &Expected::made(reference(), amount, None), Direction::Payment).map(drop)
    };
    assert_eq!(read(r#","external_id":"R""#), Ok(()));
    assert_eq!(read(""), Err("the answer names no external_id"));
}

#[test]
fn the_envelope_and_what_is_in_it_must_agree() {
    let inner = r#"{"transactionType":"PAYMENT","transactionId":"t1","external_id":"R","status":"PAID","amount":15.5}"#;
    let flat = r#""transactionType":"PAYMENT","transactionId":"t1","external_id":"R","status":"PAID","amount":15.50"#;
    assert!(read_payment(&format!(r#"{{"requestBody":{inner}}}"#)).is_ok());
    assert!(read_payment(&format!(r#"{{"requestBody":{inner},{flat}}}"#)).is_ok());
    for other in [
        flat.replace("PAID", "FAILED"),
        flat.replace("t1", "t2"),
        flat.replace("15.50", "15.51"),
        flat.replace("\"R\"", "\"S\""),
        flat.replace("PAYMENT", "REFUND"),
    ] {
        assert!(read_payment(&format!(r#"{{"requestBody":{inner},{other}}}"#)).is_err(), "{other}");
    }
    assert!(read_payment(&format!(r#"{{"requestBody":{inner},"requestBody":{inner}}}"#)).is_err());
}

#[test]
fn a_ticket_needs_an_id_and_a_code_that_can_be_shown() {
    let read = |fields: &str| {
        let amount = Amount::from_cents(1_550).unwrap();
        let json = format!(r#"{{"external_id":"R","amount":15.5{fields}}}"#);
        ticket(&text(&json), &Expected::made(reference(), amount, None)).map(|ticket| ticket.qrcode)
    };
    assert_eq!(read(r#","transactionId":"t1","qrcode":"0002""#).unwrap(), "0002");
    assert_eq!(read(r#","transactionId":"t1","qrcode":"","emvqrcps":"0003""#).unwrap(), "0003");
    assert!(read(r#","transactionId":"t1""#).is_err());
    assert!(read(r#","qrcode":"0002""#).is_err());
    assert!(read(r#","transactionId":"t1","qrcode":"a\u202eb""#).is_err());
    assert!(read(&format!(r#","transactionId":"t1","qrcode":"{}""#, "0".repeat(513))).is_err());
}

#[test]
fn unknown_fields_mean_nothing_unless_they_are_too_deep() {
    let with = |depth: usize| {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        payment_with(&format!(r#","status":"PAID","x":{deep},"x":1e999999999"#))
    };
    assert_eq!(with(10), Ok(Progress::Completed));
    assert!(with(100_000).is_err());
}

#[test]
fn a_balance_is_read_to_the_centavo_or_not_at_all() {
    let told = |text: &str| balance(&format!(r#"{{"statusCode":200,"message":{{"balance":{text}}}}}"#));
    for (text, cents) in [
        (r#""1234.50""#, 123_450),
        (r#""0.00""#, 0),
        ("0", 0),
        ("15.5", 1_550),
        ("-15.05", -1_505),
        (r#""-0.01""#, -1),
        ("1.2345678E7", 1_234_567_800),
        ("-1.5e3", -150_000),
        ("92233720368547758.07", i64::MAX),
    ] {
        assert_eq!(told(text), Ok(cents), "{text}");
    }
    for text in [
        r#""""#,
        "null",
        "1e30",
        r#""1,50""#,
        r#""1.505""#,
        r#""1.""#,
        r#"".5""#,
        r#""+1""#,
        r#""--1""#,
        r#"" 1""#,
        "92233720368547758.08",
        "{}",
        "[1]",
        "true",
    ] {
        assert!(told(text).is_err(), "{text}");
    }
    for answer in ["", "[]", "{}", r#"{"message":"x"}"#, r#"{"message":{}}"#, r#"{"balance":1}"#] {
        assert!(balance(answer).is_err(), "{answer}");
    }
}
