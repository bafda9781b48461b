//! What is proven by what was heard: one table, and what it doesn't list is not known.
//!
//! A wrong line here pays somebody twice or gives money back that has left. So a line needs a source that says so: the
//! classic v2 contract, or an RFC. It must never know how an answer was got or what it says of a transaction.

use pix_domain::text::clean;
use serde::Deserialize;

use crate::http::{Answer, Fault};

/// Most characters of a provider's error code that are kept.
const MAX_CODE_CHARS: usize = 64;
/// Most characters of a provider's reason that are kept.
const MAX_MESSAGE_CHARS: usize = 200;
/// Objects and arrays within each other.
const MAX_DEPTH: usize = 64;
const NO_REASON: &str = "refused by the settlement provider";

/// What is asked of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    CreateCharge,
    SendPayment,
    Refund,
    ConsultCharge,
    ConsultPayment,
    ConsultRefund,
    Balance,
}

impl Operation {
    /// For logs and error texts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::CreateCharge => "create_charge",
            Self::SendPayment => "send_payment",
            Self::Refund => "refund",
            Self::ConsultCharge => "consult_charge",
            Self::ConsultPayment => "consult_payment",
            Self::ConsultRefund => "consult_refund",
            Self::Balance => "balance",
        }
    }
}

/// What was heard.
enum Heard {
    /// No byte of the request was written.
    NotWritten,
    /// This status, with this body.
    Status(u16, Body),
}

/// What the body must be for a line to hold.
enum Body {
    /// Anything.
    Any,
    /// A JSON object under a JSON content type.
    Object,
    /// An error of the contract: `statusCode` as in the status line, `code` and `message`.
    Error,
    /// An error of the contract with this code.
    Code(&'static str),
    /// An error of the contract whose code says that it was asked for before.
    Repeated,
}

/// What that proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was done, if what the body says is ours.
    Done,
    /// The provider doesn't know the transaction.
    NotKnown,
    /// It did not happen and will not.
    Rejected,
    /// It did not happen; it may be asked for again.
    NotDone,
    /// It may have happened.
    Unknown,
}

struct Line {
    operations: &'static [Operation],
    heard: Heard,
    verdict: Verdict,
}

const ALL: &[Operation] = &[
    Operation::CreateCharge,
    Operation::SendPayment,
    Operation::Refund,
    Operation::ConsultCharge,
    Operation::ConsultPayment,
    Operation::ConsultRefund,
    Operation::Balance,
];
const CHARGES: &[Operation] = &[Operation::CreateCharge];
const SENDS: &[Operation] = &[Operation::SendPayment, Operation::Refund];
const CONSULTS: &[Operation] =
    &[Operation::ConsultCharge, Operation::ConsultPayment, Operation::ConsultRefund];
const BALANCES: &[Operation] = &[Operation::Balance];

/// The first line that fits counts. No line: [`Verdict::Unknown`].
const TABLE: &[Line] = &[
    // A request that was never written can't have been read.
    line(ALL, Heard::NotWritten, Verdict::NotDone),
    // RFC 9110 §15.5.2: "the request has not been applied because it lacks valid authentication credentials". Of money only in
    // the form of an interface: what answers with a page, or with nothing, may stand anywhere on the way back.
    line(SENDS, Heard::Status(401, Body::Object), Verdict::NotDone),
    line(SENDS, Heard::Status(401, Body::Any), Verdict::Unknown),
    line(ALL, Heard::Status(401, Body::Any), Verdict::NotDone),
    // Contract: success is exactly 200.
    line(ALL, Heard::Status(200, Body::Object), Verdict::Done),
    // A refusal of what was asked for before says nothing of what became of it then.
    line(SENDS, Heard::Status(406, Body::Repeated), Verdict::Unknown),
    // Contract: 406, and only 406, is a final refusal of a payment or refund.
    line(SENDS, Heard::Status(406, Body::Error), Verdict::Rejected),
    // Contract: what is wrong with a charge is said by these. No money moves by one.
    line(CHARGES, Heard::Status(400, Body::Error), Verdict::Rejected),
    line(CHARGES, Heard::Status(406, Body::Error), Verdict::Rejected),
    line(CHARGES, Heard::Status(422, Body::Error), Verdict::Rejected),
    // A charge moves no money and its QR code was shown to nobody: one that was made in spite of this harms nobody.
    line(CHARGES, Heard::Status(429, Body::Any), Verdict::NotDone),
    line(CHARGES, Heard::Status(503, Body::Any), Verdict::NotDone),
    // Contract: unknown id is 404. By its code, since "not known" may prove that a payment was never taken, and a
    // proxy on the way answers 404 too.
    line(CONSULTS, Heard::Status(404, Body::Code("not_found")), Verdict::NotKnown),
    // RFC 9110 §15.5.5, §15.5.6: there is nothing there, or nothing that is asked in this way. It proves nothing of money.
    line(BALANCES, Heard::Status(404, Body::Any), Verdict::NotKnown),
    line(BALANCES, Heard::Status(405, Body::Any), Verdict::NotKnown),
];

/// What codes contain that say that something was asked for before.
const REPEATED: &[&str] = &["duplicate", "conflict", "already"];

const fn line(operations: &'static [Operation], heard: Heard, verdict: Verdict) -> Line {
    Line { operations, heard, verdict }
}

/// What is proven about `operation` by what was heard.
pub(crate) fn classify(operation: Operation, heard: &Result<Answer, Fault>) -> Verdict {
    let line = TABLE.iter().find(|line| line.operations.contains(&operation) && fits(&line.heard, heard));
    line.map_or(Verdict::Unknown, |line| line.verdict)
}

fn fits(expected: &Heard, heard: &Result<Answer, Fault>) -> bool {
    match (expected, heard) {
        (Heard::NotWritten, Err(Fault::NotWritten(_))) => true,
        (Heard::Status(status, body), Ok(answer)) if *status == answer.status => match body {
            Body::Any => true,
            Body::Object => answer.json.as_deref().is_some_and(is_object),
            Body::Error => Refusal::read(answer).is_some(),
            Body::Code(code) => Refusal::read(answer).is_some_and(|refusal| refusal.code == *code),
            Body::Repeated => Refusal::read(answer).is_some_and(|refusal| {
                let code = refusal.code.to_ascii_lowercase();
                REPEATED.iter().any(|word| code.contains(word))
            }),
        },
        _ => false,
    }
}

/// Whether a text looks like one JSON object, and not too deep a one. Serde would read a struct from an array too, and
/// skips what it doesn't know however deep; whoever reads the body later may not.
pub(crate) fn is_object(text: &str) -> bool {
    let text = text.trim_matches(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    text.starts_with('{') && text.ends_with('}') && !is_deep(text)
}

fn is_deep(text: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    text.bytes().any(|byte| {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
        } else {
            match byte {
                b'"' => in_string = true,
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        depth > MAX_DEPTH
    })
}

/// An error of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Refusal {
    /// Reads one, or `None` when the answer isn't one.
    pub(crate) fn read(answer: &Answer) -> Option<Self> {
        Self::shown(answer, str::to_owned)
    }

    /// The same, as `show` leaves its texts. They are decoded by then: an escape of JSON hides nothing from it.
    pub(crate) fn shown(answer: &Answer, show: impl Fn(&str) -> String) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ErrorBody {
            status_code: u16,
            message: String,
            code: String,
        }
        let text = answer.json.as_deref().filter(|text| is_object(text))?;
        let body: ErrorBody = serde_json::from_str(text).ok()?;
        let code = code_of(&show(&body.code))?;
        (body.status_code == answer.status).then(|| Self { code, message: message_of(&show(&body.message)) })
    }
}

/// A provider's code, if it is one.
pub(crate) fn code_of(text: &str) -> Option<String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    ((1..=MAX_CODE_CHARS).contains(&text.len()) && text.bytes().all(is_word)).then(|| text.to_owned())
}

/// A provider's reason, cut to what may be shown.
pub(crate) fn message_of(text: &str) -> String {
    let text: String = text.chars().take(MAX_MESSAGE_CHARS).collect();
    clean(&text, MAX_MESSAGE_CHARS, "message")
        .ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| NO_REASON.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, json: Option<&str>) -> Answer {
        Answer { status, json: json.map(str::to_owned) }
    }

    fn error(status: u16, code: &str) -> Answer {
        let body = format!(r#"{{"statusCode":{status},"message":"no","code":"{code}"}}"#);
        answer(status, Some(&body))
    }

    /// Every status, with a body of the contract's form and with others.
    fn everything() -> impl Iterator<Item = (u16, Result<Answer, Fault>)> {
        (100..=999).flat_map(|status| {
            [
                (status, error(status, "not_found")),
                (status, error(status, "anything")),
                (status, answer(status, Some("{}"))),
                (status, answer(status, Some("[]"))),
                (status, answer(status, Some(""))),
                (status, answer(status, None)),
            ]
            .map(|(status, answer)| (status, Ok(answer)))
        })
    }

    #[test]
    fn a_payment_is_undone_by_a_401_in_the_form_of_an_interface_and_by_no_other() {
        for operation in SENDS.iter().copied() {
            for own in ["{}", r#"{"message":"Unauthenticated."}"#] {
                assert_eq!(classify(operation, &Ok(answer(401, Some(own)))), Verdict::NotDone, "{own}");
            }
            for other in [None, Some(""), Some("[]"), Some("401"), Some("{")] {
                assert_eq!(classify(operation, &Ok(answer(401, other))), Verdict::Unknown, "{other:?}");
            }
        }
        for operation in CONSULTS.iter().chain(CHARGES).chain(BALANCES).copied() {
            for body in [None, Some(""), Some("{}")] {
                assert_eq!(classify(operation, &Ok(answer(401, body))), Verdict::NotDone, "{body:?}");
            }
        }
    }

    #[test]
    fn of_all_statuses_only_406_refuses_a_payment_and_only_401_leaves_it_undone() {
        for operation in [Operation::SendPayment, Operation::Refund] {
            for (status, heard) in everything() {
                match classify(operation, &heard) {
                    Verdict::Done => assert_eq!(status, 200),
                    Verdict::Rejected => assert_eq!(status, 406),
                    Verdict::NotDone => assert_eq!(status, 401),
                    Verdict::NotKnown => panic!("{status} is no answer to a send"),
                    Verdict::Unknown => {}
                }
            }
        }
    }

    #[test]
    fn a_refusal_of_what_was_sent_before_does_not_say_that_it_did_not_happen() {
        for operation in SENDS.iter().copied() {
            for code in [
                "duplicate",
                "DUPLICATED_EXTERNAL_ID",
                "external_id_conflict",
                "AlreadyPaid",
                "x.already-done",
            ] {
                assert_eq!(classify(operation, &Ok(error(406, code))), Verdict::Unknown, "{code}");
            }
            for code in ["invalid_key", "insufficient_funds", "duplic", "ready"] {
                assert_eq!(classify(operation, &Ok(error(406, code))), Verdict::Rejected, "{code}");
            }
        }
        assert_eq!(classify(Operation::CreateCharge, &Ok(error(406, "duplicate"))), Verdict::Rejected);
    }

    #[test]
    fn a_charge_is_refused_by_three_statuses_and_free_to_repeat_after_three() {
        for (status, heard) in everything() {
            match classify(Operation::CreateCharge, &heard) {
                Verdict::Done => assert_eq!(status, 200),
                Verdict::Rejected => assert!([400, 406, 422].contains(&status), "{status}"),
                Verdict::NotDone => assert!([401, 429, 503].contains(&status), "{status}"),
                Verdict::NotKnown => panic!("{status} is no answer to a charge"),
                Verdict::Unknown => assert!(![401, 429, 503].contains(&status), "{status}"),
            }
        }
    }

    #[test]
    fn not_known_is_said_by_the_contract_and_by_no_proxy() {
        for operation in CONSULTS.iter().copied() {
            assert_eq!(classify(operation, &Ok(error(404, "not_found"))), Verdict::NotKnown);
            for other in [
                error(404, "route_not_found"),
                answer(404, None),
                answer(404, Some("{}")),
                answer(404, Some(r#"{"statusCode":200,"message":"","code":"not_found"}"#)),
                error(410, "not_found"),
                error(406, "not_found"),
            ] {
                assert_eq!(classify(operation, &Ok(other)), Verdict::Unknown);
            }
        }
    }

    #[test]
    fn a_provider_without_a_balance_says_so_by_two_statuses() {
        for (status, heard) in everything() {
            let has_object = heard.as_ref().is_ok_and(|answer| answer.json.as_deref().is_some_and(is_object));
            let expected = match status {
                200 if has_object => Verdict::Done,
                401 => Verdict::NotDone,
                404 | 405 => Verdict::NotKnown,
                _ => Verdict::Unknown,
            };
            assert_eq!(classify(Operation::Balance, &heard), expected, "{status}");
        }
    }

    #[test]
    fn only_a_request_that_was_never_written_is_known_not_to_have_happened() {
        for operation in ALL.iter().copied() {
            assert_eq!(classify(operation, &Err(Fault::NotWritten(String::new()))), Verdict::NotDone);
            for fault in [Fault::TimedOut, Fault::Lost, Fault::TooLarge] {
                assert_eq!(classify(operation, &Err(fault)), Verdict::Unknown);
            }
        }
    }

    #[test]
    fn a_refusal_has_the_whole_form_of_the_contract() {
        let read = |status, json| Refusal::read(&Answer { status, json: Some(String::from(json)) });
        let refusal = read(406, r#"{"statusCode":406,"message":"key not found","code":"invalid_key","x":1}"#);
        assert_eq!(refusal, Some(Refusal { code: "invalid_key".into(), message: "key not found".into() }));
        for json in [
            r#"{"statusCode":500,"message":"no","code":"invalid_key"}"#,
            r#"{"statusCode":406,"message":"no"}"#,
            r#"{"statusCode":406,"message":"no","code":""}"#,
            r#"{"statusCode":406,"message":"no","code":"<b>"}"#,
            r#"{"statusCode":406,"statusCode":406,"message":"no","code":"invalid_key"}"#,
            r#"{"statusCode":"406","message":"no","code":"invalid_key"}"#,
            r#"{"statusCode":406,"message":"no","code":"invalid_key"} x"#,
            r#"[406,"no","invalid_key"]"#,
        ] {
            assert_eq!(read(406, json), None, "{json}");
        }
    }

    #[test]
    fn an_object_is_an_object_and_not_too_deep() {
        let nested = |depth: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(is_object(&nested(MAX_DEPTH - 1)));
        assert!(!is_object(&nested(MAX_DEPTH)));
        assert!(is_object(&format!(r#" {{"x":"\\\"{}\\"}} "#, "[".repeat(1_000))));
        for text in ["", "[]", "null", "{", "{}x", "\u{a0}{}"] {
            assert!(!is_object(text), "{text}");
        }
    }

    #[test]
    fn what_a_provider_says_is_cut_to_what_may_be_shown() {
        assert_eq!(message_of(&"á".repeat(500)).chars().count(), MAX_MESSAGE_CHARS);
        assert_eq!(message_of("a\u{202E}b"), NO_REASON);
        assert_eq!(message_of("  "), NO_REASON);
        assert_eq!(code_of(&"a".repeat(65)), None);
    }
}
