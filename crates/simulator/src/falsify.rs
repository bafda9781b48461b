//! Lies: a true body with something changed. It owns how a lie is written so that nothing in the body gives it away,
//! and must never know who is lied to.

use serde_json::{Map, Value, json};

use crate::{money::Amount, scenario::IdField, wire::Kind};

/// An id that nobody has.
const NOBODYS_ID: &str = "0123456789abcdef0123456789abcdef";
/// An end-to-end id of a PIX that never was.
const NOBODYS_END_TO_END_ID: &str = "E99999999202601010000nevermade00";
const OTHER_KEY: &str = "somebody.else@example.com";
/// A status that no contract has.
const UNKNOWN_STATUS: &str = "IN_ANALYSIS";

/// The body with one centavo more.
pub(crate) fn amount(body: &str) -> String {
    change(body, |object| {
        raise(object);
        let payments = object.get_mut("payments").and_then(Value::as_array_mut);
        payments.into_iter().flatten().filter_map(Value::as_object_mut).for_each(raise);
    })
}

/// The body about another transaction.
pub(crate) fn id(body: &str, field: IdField) -> String {
    let name = match field {
        IdField::ExternalId => "external_id",
        IdField::TransactionId => "transactionId",
        IdField::RefundId => "refundId",
    };
    change(body, |object| {
        object.insert(name.to_owned(), json!(NOBODYS_ID));
    })
}

/// The body about a transaction that has none of its ids.
pub(crate) fn all_ids(body: &str) -> String {
    change(body, |object| {
        for name in ["external_id", "transactionId", "refundId"] {
            if object.contains_key(name) {
                object.insert(name.to_owned(), json!(NOBODYS_ID));
            }
        }
    })
}

/// The body with another payee's key.
pub(crate) fn key(body: &str) -> String {
    change(body, |object| {
        let party = object.entry("creditParty").or_insert_with(|| json!({}));
        if let Some(party) = party.as_object_mut() {
            party.insert("keyType".to_owned(), json!("EMAIL"));
            party.insert("key".to_owned(), json!(OTHER_KEY));
        }
    })
}

/// The body with a status that nobody knows.
pub(crate) fn status(body: &str) -> String {
    change(body, |object| {
        object.insert("status".to_owned(), json!(UNKNOWN_STATUS));
    })
}

/// What a forger says of a transaction: that money came, or that it did not leave.
pub(crate) fn end(body: &str, kind: Kind, now: &str, now_local: &str) -> String {
    change(body, |object| {
        let amount = object.get("amount").cloned().unwrap_or_default();
        let told = if kind == Kind::Charge {
            let payment = json!({
                "endToEndId": NOBODYS_END_TO_END_ID, "amount": amount, "paidAt": now, "dateApproval": now_local,
                "debitParty": {"name": "NOBODY", "document": "52998224725"}, "late": false,
            });
            json!({
                "status": "PAID", "endToEndId": NOBODYS_END_TO_END_ID, "dateApproval": now_local,
                "payments": [payment],
            })
        } else {
            json!({"status": "FAILED", "failureCode": "account_closed", "failureMessage": "account closed"})
        };
        if let Value::Object(told) = told {
            object.extend(told);
        }
    })
}

/// A true JSON object that goes on for about `bytes` bytes: its start, and how much is to be filled up before `"}`.
pub(crate) fn stretch(body: &str, bytes: usize) -> (String, usize) {
    let fields = body.trim_end().strip_suffix('}').unwrap_or("{");
    let comma = if fields.trim_end().ends_with('{') { "" } else { "," };
    let start = format!("{fields}{comma}\"padding\":\"");
    let left = bytes.saturating_sub(start.len());
    (start, left)
}

/// Changes the object and what is under its `requestBody`, so that they still agree. What is no object stays.
fn change(body: &str, change: impl Fn(&mut Map<String, Value>)) -> String {
    let Ok(Value::Object(mut object)) = serde_json::from_str(body) else { return body.to_owned() };
    change(&mut object);
    if let Some(inner) = object.get_mut("requestBody").and_then(Value::as_object_mut) {
        change(inner);
    }
    Value::Object(object).to_string()
}

fn raise(object: &mut Map<String, Value>) {
    let Some(amount) = object.get_mut("amount") else { return };
    let text = amount.to_string();
    let raised = Amount::of_text(&text).ok().and_then(|amount| amount.0.checked_add(1)).map(Amount);
    // At most 12 digits, which a number of JSON keeps exactly.
    if let Some(number) = raised.and_then(|raised| serde_json::from_str(&raised.number()).ok()) {
        *amount = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_is_told_in_both_places_and_exactly() {
        let body = r#"{"amount":9999999999.98,"external_id":"a","requestBody":{"amount":9999999999.98,"external_id":"a"}}"#;
        assert_eq!(amount(body), body.replace("99.98", "99.99"));
        assert_eq!(id(body, IdField::ExternalId), body.replace("\"a\"", &format!("\"{NOBODYS_ID}\"")));
        assert_eq!(amount(r#"{"amount":14.99}"#), r#"{"amount":15}"#);
        assert_eq!(amount("<html>"), "<html>");
    }

    #[test]
    fn a_stretched_answer_is_still_an_object() {
        for body in [r#"{"a":1}"#, "{}", "<html>"] {
            let (start, left) = stretch(body, 100);
            let whole = format!("{start}{}\"}}", "x".repeat(left));
            serde_json::from_str::<Value>(&whole).unwrap();
        }
    }

    #[test]
    fn an_invented_end_to_end_id_has_the_published_form() {
        assert_eq!(NOBODYS_END_TO_END_ID.len(), 32);
        assert!(NOBODYS_END_TO_END_ID.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
