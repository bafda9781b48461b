//! The scenarios: everything that the provider can be told to do wrong, as one enum and one table. It owns their
//! names, what each does, what each takes and on what it can be attached; it must never know how any is carried out.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{money::Amount, wire::Refusal};

/// The longest delay, in seconds: a week.
const MAX_SECONDS: f64 = 604_800.0;
/// The most times something is repeated.
const MAX_TIMES: u32 = 100;
/// The largest answer: 64 MiB.
const MAX_BYTES: usize = 64 * 1_024 * 1_024;
/// Longest text of a parameter, in bytes.
const MAX_TEXT: usize = 2_048;

/// One way to misbehave. [`SCENARIOS`] says what each does.
#[expect(missing_docs, reason = "each is described in the table")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    NeverAnswers,
    ServerError,
    ResetBeforeExecuting,
    Refused,
    Redirect,
    RateLimited,
    Unauthorized,
    NotFoundThenFound,
    ExecutesThenNeverAnswers,
    ExecutesThenServerError,
    ExecutesThenResets,
    ExecutesLate,
    AnswersLate,
    DrippingAnswer,
    TruncatedAnswer,
    HugeAnswer,
    MalformedAnswer,
    HtmlAnswer,
    EmptyAnswer,
    WrongAmountAnswer,
    WrongIdAnswer,
    WrongKeyAnswer,
    UnknownStatusAnswer,
    DiesAndComesBack,
    ExecutesAgain,
    PrecautionaryHold,
    ReturnedAfterCompletion,
    CallbackLate,
    CallbackTwice,
    CallbacksReordered,
    CallbackNever,
    CallbackWrongAmount,
    CallbackWrongId,
    CallbackBeforeAnswer,
    CallbackForged,
}

/// What is asked of the provider.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `POST /v2/pix/qrcode`; for callbacks, those of a charge.
    Charge,
    /// `POST /v2/pix/payment`; for callbacks, those of a payment.
    Payment,
    /// `POST /v2/pix/refund`; for callbacks, those of a refund.
    Refund,
    /// `POST /v2/consult-transaction`.
    Consult,
    /// `POST /v2/oauth/token`.
    Token,
    /// Every one that the scenario knows.
    #[default]
    Any,
}

/// Of which part of a call a scenario is. A call takes one scenario of each part at most.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Whether it is executed, and how it is answered.
    Answer,
    /// What becomes of the money.
    Fate,
    /// What the client is called back with.
    Callback,
    /// A callback that the provider never sent.
    Forgery,
}

/// What becomes of a payment or refund after a hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterHold {
    /// It is made.
    Settle,
    /// It is refused for good.
    Reject,
}

/// Which id of an answer is another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum IdField {
    /// The client's reference.
    #[serde(rename = "external_id")]
    ExternalId,
    /// The provider's id.
    #[serde(rename = "transactionId")]
    TransactionId,
    /// The provider's id of a refund.
    #[serde(rename = "refundId")]
    RefundId,
}

/// What a scenario takes. What is left out has the default of the table.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// How long, in seconds of the simulator's time: 0 to 604800, parts of a second included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How often: 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// How large: 1 byte to 64 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// A refusal's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A refusal's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where a redirect points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Which id is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<IdField>,
    /// What ends a hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<AfterHold>,
    /// How much, in reais: `"2.50"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
}

impl Parameters {
    /// `seconds` as a span.
    pub(crate) fn span(&self) -> Duration {
        self.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
    }
}

/// What a scenario takes, for people.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ParameterInfo {
    /// Its name.
    pub name: &'static str,
    /// What it is when it is left out, as JSON; empty when there is none.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// A line of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ScenarioInfo {
    /// The scenario.
    #[serde(rename = "name")]
    pub scenario: Scenario,
    /// Of which part of a call it is.
    pub part: Part,
    /// What the provider does.
    pub happens: &'static str,
    /// What its log says afterwards.
    pub logged: &'static str,
    /// On what it can be attached.
    pub operations: &'static [Operation],
    /// What it takes.
    pub parameters: &'static [ParameterInfo],
    /// A body for `POST /sim/scenarios`.
    pub example: &'static str,
}

const CALLS: &[Operation] =
    &[Operation::Charge, Operation::Payment, Operation::Refund, Operation::Consult, Operation::Token];
const TOLD: &[Operation] = &[Operation::Charge, Operation::Payment, Operation::Refund, Operation::Consult];
const MADE: &[Operation] = &[Operation::Charge, Operation::Payment, Operation::Refund];
const SENT: &[Operation] = &[Operation::Payment, Operation::Refund];

const fn parameter(name: &'static str, default: &'static str, meaning: &'static str) -> ParameterInfo {
    ParameterInfo { name, default, meaning }
}

const UNTIL_CUT: ParameterInfo =
    parameter("seconds", "3600", "how long the connection stays open; then it is cut");
const ERROR_STATUS: ParameterInfo = parameter("status", "500", "500 to 599");
const NOTHING: &str = "nothing";
const EXECUTED: &str = "what was asked for, executed";

/// Every scenario, in the order of the enum.
pub const SCENARIOS: &[ScenarioInfo] = &[
    ScenarioInfo {
        scenario: Scenario::NeverAnswers,
        part: Part::Answer,
        happens: "The request is read and nothing is done or answered.",
        logged: NOTHING,
        operations: CALLS,
        parameters: &[UNTIL_CUT],
        example: r#"{"scenario": "never_answers", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::ServerError,
        part: Part::Answer,
        happens: "Nothing is done, and the answer is an error of the server.",
        logged: NOTHING,
        operations: CALLS,
        parameters: &[ERROR_STATUS],
        example: r#"{"scenario": "server_error", "on": {"next": 2}, "operation": "charge", "parameters": {"status": 503}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::ResetBeforeExecuting,
        part: Part::Answer,
        happens: "The request is read, nothing is done, and the connection is reset.",
        logged: NOTHING,
        operations: CALLS,
        parameters: &[],
        example: r#"{"scenario": "reset_before_executing", "on": {"next": 1}, "operation": "refund"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::Refused,
        part: Part::Answer,
        happens: "It is refused for good.",
        logged: NOTHING,
        operations: TOLD,
        parameters: &[
            parameter("status", "406", "400 to 499"),
            parameter("code", "\"account_closed\"", "why, for programs"),
            parameter("message", "\"the account is closed\"", "why, for people"),
        ],
        example: r#"{"scenario": "refused", "on": {"next": 1}, "operation": "payment", "parameters": {"code": "invalid_key"}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::Redirect,
        part: Part::Answer,
        happens: "Nothing is done, and the answer is a redirect. A client that follows it makes a second request.",
        logged: "nothing of this request; what a client that follows asks for again",
        operations: CALLS,
        parameters: &[
            parameter("status", "308", "301, 302, 303, 307 or 308"),
            parameter("location", "", "where to; without it, the same address again"),
        ],
        example: r#"{"scenario": "redirect", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::RateLimited,
        part: Part::Answer,
        happens: "Nothing is done, and the answer is 429 with Retry-After.",
        logged: NOTHING,
        operations: CALLS,
        parameters: &[parameter("seconds", "30", "what Retry-After says, in whole seconds")],
        example: r#"{"scenario": "rate_limited", "on": {"percent": 20, "seed": 7}, "operation": "charge"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::Unauthorized,
        part: Part::Answer,
        happens: "Nothing is done, and the answer is 401, whatever the token.",
        logged: NOTHING,
        operations: CALLS,
        parameters: &[],
        example: r#"{"scenario": "unauthorized", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::NotFoundThenFound,
        part: Part::Answer,
        happens: "The first questions about each transaction are answered with 404, though it exists; the later ones truly.",
        logged: NOTHING,
        operations: &[Operation::Consult],
        parameters: &[parameter("times", "2", "how many questions about each transaction get a 404")],
        example: r#"{"scenario": "not_found_then_found", "on": {"reference": "payout-1"}, "operation": "consult"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::ExecutesThenNeverAnswers,
        part: Part::Answer,
        happens: "It is executed, and never answered.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[UNTIL_CUT],
        example: r#"{"scenario": "executes_then_never_answers", "on": {"reference": "payout-1"}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::ExecutesThenServerError,
        part: Part::Answer,
        happens: "It is executed, and the answer is an error of the server.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[ERROR_STATUS],
        example: r#"{"scenario": "executes_then_server_error", "on": {"next": 1}, "operation": "refund", "parameters": {"status": 502}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::ExecutesThenResets,
        part: Part::Answer,
        happens: "It is executed, and the connection is reset before the answer.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[],
        example: r#"{"scenario": "executes_then_resets", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::ExecutesLate,
        part: Part::Answer,
        happens: "It is executed only after a while, and then answered, if anybody still waits. Until then nobody finds it.",
        logged: "nothing at first; after the delay what was asked for, executed",
        operations: MADE,
        parameters: &[parameter("seconds", "30", "the delay")],
        example: r#"{"scenario": "executes_late", "on": {"next": 1}, "operation": "payment", "parameters": {"seconds": 45}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::AnswersLate,
        part: Part::Answer,
        happens: "It is executed at once, and answered truly after a while.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[parameter("seconds", "30", "the delay")],
        example: r#"{"scenario": "answers_late", "on": {"percent": 50, "seed": 1}, "operation": "any", "parameters": {"seconds": 0.2}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::DrippingAnswer,
        part: Part::Answer,
        happens: "It is executed, and the true answer comes one byte at a time.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[parameter("seconds", "1", "the wait before each byte")],
        example: r#"{"scenario": "dripping_answer", "on": {"next": 1}, "operation": "charge"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::TruncatedAnswer,
        part: Part::Answer,
        happens: "It is executed, and the connection ends in the middle of the answer's body.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[],
        example: r#"{"scenario": "truncated_answer", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::HugeAnswer,
        part: Part::Answer,
        happens: "It is executed, and the answer is a very large JSON object that starts with the true one's fields.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[parameter("bytes", "1048576", "about how large; 1 to 67108864")],
        example: r#"{"scenario": "huge_answer", "on": {"next": 1}, "operation": "payment", "parameters": {"bytes": 20000000}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::MalformedAnswer,
        part: Part::Answer,
        happens: "It is executed, and the answer says to be JSON, arrives whole, and is not JSON.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[],
        example: r#"{"scenario": "malformed_answer", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::HtmlAnswer,
        part: Part::Answer,
        happens: "It is executed, and the answer is a page of HTML, as a proxy makes it.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[parameter("status", "200", "200 to 599")],
        example: r#"{"scenario": "html_answer", "on": {"next": 1}, "operation": "payment", "parameters": {"status": 404}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::EmptyAnswer,
        part: Part::Answer,
        happens: "It is executed, and the answer has no body.",
        logged: EXECUTED,
        operations: CALLS,
        parameters: &[parameter("status", "200", "200 to 599")],
        example: r#"{"scenario": "empty_answer", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::WrongAmountAnswer,
        part: Part::Answer,
        happens: "It is executed as asked, and the answer names one centavo more.",
        logged: "what was asked for, executed with the right amount",
        operations: TOLD,
        parameters: &[],
        example: r#"{"scenario": "wrong_amount_answer", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::WrongIdAnswer,
        part: Part::Answer,
        happens: "It is executed as asked, and the answer names another transaction.",
        logged: EXECUTED,
        operations: TOLD,
        parameters: &[parameter(
            "field",
            "\"external_id\"",
            "which id is wrong: external_id, transactionId or refundId",
        )],
        example: r#"{"scenario": "wrong_id_answer", "on": {"next": 1}, "operation": "consult", "parameters": {"field": "transactionId"}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::WrongKeyAnswer,
        part: Part::Answer,
        happens: "It is executed as asked, and the answer's creditParty has another key.",
        logged: "what was asked for, executed to the right key",
        operations: &[Operation::Payment, Operation::Consult],
        parameters: &[],
        example: r#"{"scenario": "wrong_key_answer", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::UnknownStatusAnswer,
        part: Part::Answer,
        happens: "It is executed, and the answer's status is a word of no contract.",
        logged: EXECUTED,
        operations: TOLD,
        parameters: &[],
        example: r#"{"scenario": "unknown_status_answer", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::DiesAndComesBack,
        part: Part::Answer,
        happens: "It is executed, the provider dies before the answer, and for a while every connection is reset. Then it is back, and knows no token any more.",
        logged: "what was asked for, executed; nothing of what is asked while it is dead",
        operations: CALLS,
        parameters: &[parameter("seconds", "30", "how long it is dead")],
        example: r#"{"scenario": "dies_and_comes_back", "on": {"next": 1}, "operation": "payment", "parameters": {"seconds": 5}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::ExecutesAgain,
        part: Part::Fate,
        happens: "A repeated external_id is not recognized: asked twice, it is executed twice.",
        logged: "one executed entry for each time it was asked, with different transaction ids",
        operations: MADE,
        parameters: &[],
        example: r#"{"scenario": "executes_again", "on": {"percent": 100}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::PrecautionaryHold,
        part: Part::Fate,
        happens: "It is taken and stays PENDING; after a while it is made, or refused for good, and the client is called back.",
        logged: "payment_accepted or refund_accepted; after the hold settled or rejected",
        operations: SENT,
        parameters: &[
            parameter("seconds", "3600", "how long it is held"),
            parameter("then", "\"settle\"", "settle or reject"),
        ],
        example: r#"{"scenario": "precautionary_hold", "on": {"next": 1}, "operation": "payment", "parameters": {"then": "reject"}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::ReturnedAfterCompletion,
        part: Part::Fate,
        happens: "It is made, and after a while the payee's bank sends the money back; the client is called back both times.",
        logged: "payment_executed; after the delay payment_returned",
        operations: &[Operation::Payment],
        parameters: &[
            parameter("seconds", "60", "how long after the payment"),
            parameter("amount", "", "how much, as \"2.50\"; without it, all of it"),
        ],
        example: r#"{"scenario": "returned_after_completion", "on": {"next": 1}, "operation": "payment", "parameters": {"amount": "2.50"}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::CallbackLate,
        part: Part::Callback,
        happens: "The callback is sent after a while.",
        logged: "what happened, when it happened",
        operations: MADE,
        parameters: &[parameter("seconds", "60", "the delay")],
        example: r#"{"scenario": "callback_late", "on": {"percent": 30, "seed": 7}, "operation": "charge", "parameters": {"seconds": 5}}"#,
    },
    ScenarioInfo {
        scenario: Scenario::CallbackTwice,
        part: Part::Callback,
        happens: "The callback is sent several times at the same time.",
        logged: "what happened, once",
        operations: MADE,
        parameters: &[parameter("times", "2", "how many callbacks; 1 to 100")],
        example: r#"{"scenario": "callback_twice", "on": {"next": 1}, "operation": "charge"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::CallbacksReordered,
        part: Part::Callback,
        happens: "The callback is held back until the next one has been delivered, of whatever transaction, and is delivered after it.",
        logged: "what happened, in the true order",
        operations: MADE,
        parameters: &[],
        example: r#"{"scenario": "callbacks_reordered", "on": {"reference": "payout-1"}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::CallbackNever,
        part: Part::Callback,
        happens: "The callback is not sent.",
        logged: "what happened",
        operations: MADE,
        parameters: &[],
        example: r#"{"scenario": "callback_never", "on": {"percent": 100}, "operation": "any"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::CallbackWrongAmount,
        part: Part::Callback,
        happens: "The callback names one centavo more.",
        logged: "what happened, with the right amount",
        operations: MADE,
        parameters: &[],
        example: r#"{"scenario": "callback_wrong_amount", "on": {"next": 1}, "operation": "charge"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::CallbackWrongId,
        part: Part::Callback,
        happens: "The callback is about a transaction that nobody knows.",
        logged: "what happened, with the right ids",
        operations: MADE,
        parameters: &[],
        example: r#"{"scenario": "callback_wrong_id", "on": {"next": 1}, "operation": "charge"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::CallbackBeforeAnswer,
        part: Part::Callback,
        happens: "The callback is delivered first, and only then the request that caused it is answered.",
        logged: EXECUTED,
        operations: SENT,
        parameters: &[],
        example: r#"{"scenario": "callback_before_answer", "on": {"next": 1}, "operation": "payment"}"#,
    },
    ScenarioInfo {
        scenario: Scenario::CallbackForged,
        part: Part::Forgery,
        happens: "As soon as it is made, somebody else calls the client back: a charge is said to be PAID, a payment or refund to have FAILED. The true callbacks come too.",
        logged: "what really happened; nothing of what was forged",
        operations: MADE,
        parameters: &[],
        example: r#"{"scenario": "callback_forged", "on": {"next": 1}, "operation": "charge"}"#,
    },
];

impl Scenario {
    /// Its line of the table.
    pub fn info(self) -> &'static ScenarioInfo {
        // A test shows that each has its line; without one a scenario could be attached to nothing.
        const NO_LINE: &ScenarioInfo = &ScenarioInfo {
            scenario: Scenario::NeverAnswers,
            part: Part::Answer,
            happens: "",
            logged: "",
            operations: &[],
            parameters: &[],
            example: "",
        };
        SCENARIOS.iter().find(|info| info.scenario == self).unwrap_or(NO_LINE)
    }

    /// Its name on the wire, such as `never_answers`.
    pub fn name(self) -> String {
        word(&self)
    }

    /// Checks what was given and fills in the defaults.
    pub(crate) fn complete(self, given: &Parameters) -> Result<Parameters, Refusal> {
        let info = self.info();
        let accepted: Vec<_> = info.parameters.iter().map(|parameter| parameter.name).collect();
        let Ok(Value::Object(mut all)) = serde_json::to_value(given) else {
            return Err(refuse("parameters must be an object"));
        };
        if let Some(name) = all.keys().find(|name| !accepted.contains(&name.as_str())) {
            let takes = if accepted.is_empty() { "none".to_owned() } else { accepted.join(", ") };
            return Err(refuse(format!("{name} is no parameter of {}; it takes: {takes}", self.name())));
        }
        for parameter in info.parameters.iter().filter(|parameter| !parameter.default.is_empty()) {
            fill(&mut all, parameter)?;
        }
        let parameters =
            serde_json::from_value(Value::Object(all)).map_err(|error| refuse(error.to_string()))?;
        self.check(&parameters)?;
        Ok(parameters)
    }

    fn check(self, given: &Parameters) -> Result<(), Refusal> {
        if given.seconds.is_some_and(|seconds| !(0.0..=MAX_SECONDS).contains(&seconds)) {
            return Err(refuse("seconds must be from 0 to 604800"));
        }
        if given.times.is_some_and(|times| !(1..=MAX_TIMES).contains(&times)) {
            return Err(refuse(format!("times must be from 1 to {MAX_TIMES}")));
        }
        if given.bytes.is_some_and(|bytes| !(1..=MAX_BYTES).contains(&bytes)) {
            return Err(refuse(format!("bytes must be from 1 to {MAX_BYTES}")));
        }
        let texts = [&given.code, &given.message, &given.location];
        if texts.into_iter().flatten().any(|text| text.len() > MAX_TEXT || text.contains(['\r', '\n', '\0']))
        {
            return Err(refuse(format!("a text must be one line of at most {MAX_TEXT} bytes")));
        }
        if let Some(amount) = &given.amount {
            Amount::of_text(amount)?;
        }
        let fits = |status: u16| match self {
            Self::Redirect => [301, 302, 303, 307, 308].contains(&status),
            Self::Refused => (400..=499).contains(&status),
            Self::HtmlAnswer | Self::EmptyAnswer => (200..=599).contains(&status),
            _ => (500..=599).contains(&status),
        };
        if given.status.is_some_and(|status| !fits(status)) {
            let status = self.info().parameters.iter().find(|parameter| parameter.name == "status");
            let meaning = status.map_or("left out", |parameter| parameter.meaning);
            return Err(refuse(format!("status must be {meaning}")));
        }
        Ok(())
    }
}

fn fill(all: &mut Map<String, Value>, parameter: &ParameterInfo) -> Result<(), Refusal> {
    if !all.contains_key(parameter.name) {
        let default =
            serde_json::from_str(parameter.default).map_err(|error| Refusal::internal(&error.to_string()))?;
        all.insert(parameter.name.to_owned(), default);
    }
    Ok(())
}

fn refuse(message: impl Into<String>) -> Refusal {
    Refusal::invalid("invalid_scenario", message)
}

/// What a word of an enum is called on the wire.
pub(crate) fn word(named: &impl Serialize) -> String {
    let text = serde_json::to_value(named).ok();
    text.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_scenario_once_in_the_order_of_the_enum() {
        let all: Vec<_> = SCENARIOS.iter().map(|info| info.scenario).collect();
        let last = Scenario::CallbackForged;
        let order = |scenario: Scenario| format!("{:?}", std::mem::discriminant(&scenario));
        for (number, scenario) in all.iter().enumerate() {
            assert_eq!(order(*scenario), format!("Discriminant({number})"));
        }
        assert_eq!(all.last(), Some(&last));
    }

    #[test]
    fn every_line_is_acceptable_itself() {
        for info in SCENARIOS {
            let name = info.scenario.name();
            assert!(!info.operations.is_empty() && info.happens.ends_with('.'), "{name}");
            assert!(info.example.contains(&format!("{{\"scenario\": \"{name}\", \"on\": ")), "{name}");
            let complete = info.scenario.complete(&Parameters::default()).unwrap();
            let Value::Object(complete) = serde_json::to_value(complete).unwrap() else { panic!("{name}") };
            for parameter in info.parameters {
                assert_eq!(complete.contains_key(parameter.name), !parameter.default.is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn a_refusal_says_what_would_be_taken() {
        let told = |scenario: Scenario, json: &str| {
            scenario.complete(&serde_json::from_str(json).unwrap()).unwrap_err().message
        };
        for (scenario, json, message) in [
            (
                Scenario::NeverAnswers,
                r#"{"bytes":1}"#,
                "bytes is no parameter of never_answers; it takes: seconds",
            ),
            (
                Scenario::CallbackNever,
                r#"{"times":2}"#,
                "times is no parameter of callback_never; it takes: none",
            ),
            (Scenario::ServerError, r#"{"status":404}"#, "status must be 500 to 599"),
            (Scenario::Redirect, r#"{"status":304}"#, "status must be 301, 302, 303, 307 or 308"),
            (Scenario::AnswersLate, r#"{"seconds":-1}"#, "seconds must be from 0 to 604800"),
            (Scenario::CallbackTwice, r#"{"times":0}"#, "times must be from 1 to 100"),
            (Scenario::HugeAnswer, r#"{"bytes":0}"#, "bytes must be from 1 to 67108864"),
        ] {
            assert_eq!(told(scenario, json), message);
        }
    }
}
