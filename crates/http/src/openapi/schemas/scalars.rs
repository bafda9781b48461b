//! Texts, numbers and words with rules, each a schema of its own. Bounds and words are those of the domain.

use std::borrow::Cow;

use pix_domain::charges::ChargeState;
use pix_domain::evidence::{EvidenceKind, Proof};
use pix_domain::ids::ResourceKind;
use pix_domain::list::{DEFAULT_PER_PAGE, MAX_PER_PAGE};
use pix_domain::metadata::{MAX_PAIRS, VALUE_MAX_CHARS};
use pix_domain::party::PIX_KEY_MAX_CHARS;
use pix_domain::text::{
    DESCRIPTION_MAX_CHARS, EMAIL_MAX_CHARS, EXTERNAL_ID_MAX_CHARS, IDEMPOTENCY_KEY_MAX_CHARS,
    PAYER_QUESTION_MAX_CHARS, PERSON_NAME_MAX_CHARS, POSTBACK_URL_MAX_CHARS,
};
use pix_domain::transition::EventKind;
use pix_domain::wallet::Reason;
use serde_json::json;
use utoipa::openapi::schema::{AnyOf, Object, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use crate::words;

/// Characters that no text may have: control, invisible and direction-changing ones. (Tags, U+E0000 to U+E007F, are
/// refused too; not every regular expression can say it.)
const UNSAFE: &str =
    r"\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb";

/// At least one character that isn't a blank, and none that is [`UNSAFE`].
fn shown() -> String {
    format!(r"^[^{UNSAFE}]*[^\s{UNSAFE}][^{UNSAFE}]*$")
}

/// None that is [`UNSAFE`].
fn shown_or_empty() -> String {
    format!("^[^{UNSAFE}]*$")
}

/// Blanks that aren't the plain one, and not [`UNSAFE`].
const OTHER_BLANKS: &str = r"\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000";

/// As [`shown`], without a blank at either end, and with no blank but U+0020 inside.
fn name_of_yours() -> String {
    format!("^[^ {OTHER_BLANKS}{UNSAFE}]([^{OTHER_BLANKS}{UNSAFE}]*[^ {OTHER_BLANKS}{UNSAFE}])?$")
}

fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).description(Some(description))
}

fn number(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Number).description(Some(description))
}

fn of_format(name: &str) -> SchemaFormat {
    SchemaFormat::Custom(name.to_owned())
}

fn words<'a>(description: &str, words: impl IntoIterator<Item = &'a str>) -> Object {
    text(description).enum_values(Some(words)).build()
}

macro_rules! scalars {
    ($($name:ident = $schema:expr;)+) => {
        $(
            pub(in crate::openapi) struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    Schema::from($schema).into()
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(stringify!($name))
                }
            }
        )+
    };
}

/// What follows the first digits of an amount.
const DECIMALS: &str = r"(\.[0-9]{1,2})?";

scalars! {
    Amount = AnyOf::builder()
        .item(
            number("In reais. At most two decimals.")
                .minimum(Some(0.01))
                .maximum(Some(9_999_999_999.99))
                .multiple_of(Some(0.01)),
        )
        .item(
            text("In reais: digits, and at most two decimals after a point.")
                .pattern(Some(format!("^(?!0(\\.0{{1,2}})?$)(0|[1-9][0-9]{{0,9}}){DECIMALS}$"))),
        )
        .description(Some(
            "An amount in reais that you send: a JSON number or a numeric string, from 0.01 to 9999999999.99. The digits are \
             read as they are; nothing passes through a binary float, nothing is rounded. No sign, no blanks. \
             What has an exponent counts for what it stands for, in a string too; send digits.",
        ))
        .examples([json!(15.55), json!("15.55")])
        .build();
    Money = number("An amount in reais, with exact digits and no trailing zeros: `15`, `15.5`, `15.55`.")
        .minimum(Some(0))
        .examples([json!(15.5)])
        .build();
    MoneyText = text("An amount in reais, with exactly two decimals.")
        .pattern(Some(r"^[0-9]+\.[0-9]{2}$"))
        .examples(["120.50"])
        .build();
    Currency = words("The only currency there is.", ["BRL"]);
    Time = text("RFC 3339, UTC.").format(Some(of_format("date-time"))).examples(["2026-10-07T04:41:05.000000Z"]).build();
    LocalTime = text("Local to São Paulo.")
        .pattern(Some(r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"))
        .examples(["2026-10-07 01:41:05"])
        .build();
    Id = text("A UUID that begins with the time of its making, version 7 or 8, with hyphens.")
        .format(Some(of_format("uuid")))
        .examples(["019c0000-0000-7000-8000-000000000001"])
        .build();
    AnyUuid = text("A UUID, with or without hyphens.")
        .pattern(Some("^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$"))
        .examples(["019c0000-0000-7000-8000-000000000001"])
        .build();
    TwinId = text("The uuid of the record, with or without hyphens; an empty one is none.")
        .pattern(Some(r"^\s*([0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})?\s*$"))
        .examples(["019c0000-0000-7000-8000-000000000001"])
        .build();
    ExternalId = text(
        "Your own name for a record: visible characters, blanks only between them, upper and lower case told apart. Unique \
         for you and the kind of record, for ever; so it makes a request that is sent again harmless.",
    )
    .min_length(Some(1))
    .max_length(Some(EXTERNAL_ID_MAX_CHARS))
    .pattern(Some(name_of_yours()))
    .examples(["order-1001"])
    .build();
    IdempotencyKey = text(
        "Visible ASCII characters: bare, or as a quoted string of RFC 8941, in which `\"` and `\\` are escaped. Both are the \
         same key.",
    )
    .min_length(Some(1))
    .max_length(Some(IDEMPOTENCY_KEY_MAX_CHARS))
    .pattern(Some("^([!#-~][!-~]*|\"([!#-\\[\\]-~]|\\\\[\"\\\\])+\")$"))
    .examples(["8e03978e-40d5-43dd-bc93-6894a57f9324"])
    .build();
    PersonName = text("The name of a person or a company.")
        .min_length(Some(1))
        .max_length(Some(PERSON_NAME_MAX_CHARS))
        .pattern(Some(shown()))
        .examples(["Maria Silva"])
        .build();
    TaxId = text(
        "A valid CPF (11 digits) or CNPJ (14 digits; letters may stand among the first twelve), check digits included, with or \
         without punctuation.",
    )
    .format(Some(of_format("cpf-or-cnpj")))
    .examples(["529.982.247-25"])
    .build();
    Email = text("An e-mail address; an empty one is none.")
        .format(Some(of_format("payer-email")))
        .max_length(Some(EMAIL_MAX_CHARS))
        .examples(["maria@example.com"])
        .build();
    PayerQuestion = text("What the payer is shown; an empty one is none.")
        .max_length(Some(PAYER_QUESTION_MAX_CHARS))
        .pattern(Some(shown_or_empty()))
        .examples(["Pedido 1001"])
        .build();
    Description = text("What it is for, in your words; an empty one is none.")
        .max_length(Some(DESCRIPTION_MAX_CHARS))
        .pattern(Some(shown_or_empty()))
        .examples(["nota 77"])
        .build();
    PostbackUrl = text(
        "Where events are sent: https (and http, if the operator allows it), to a public host, on port 80, 443 or 8443, without \
         user information; an empty one is none.",
    )
    .format(Some(of_format("postback-url")))
    .max_length(Some(POSTBACK_URL_MAX_CHARS))
    .examples(["https://shop.example/pix?order=1001"])
    .build();
    PixKey = text(
        "A PIX key that fits its type: a CPF or CNPJ with its check digits, an e-mail address, a phone number with or without \
         `+55`, or a random key (a UUID).",
    )
    .format(Some(of_format("pix-key")))
    .min_length(Some(1))
    .max_length(Some(PIX_KEY_MAX_CHARS))
    .examples(["ana@example.com"])
    .build();
    PixKeyTypeIn = text(
        "In any case: `CPF`, `CNPJ`, `EMAIL`, `PHONE` (or `TELEFONE`, `CELULAR`), `EVP` (or `RANDOM`, `RANDOM_KEY`, \
         `ALEATORIA`, `CHAVE_ALEATORIA`).",
    )
    .pattern(Some(key_types()))
    .examples(["EMAIL"])
    .build();
    PixKeyType = words("Which kind of PIX key.", ["CPF", "CNPJ", "EMAIL", "PHONE", "EVP"]);
    Expiration = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .description(Some("After how many seconds the charge expires."))
        .minimum(Some(super::super::seconds(pix_domain::charges::MIN_EXPIRES_IN)))
        .maximum(Some(super::super::seconds(pix_domain::charges::MAX_EXPIRES_IN)))
        .default(Some(json!(pix_domain::charges::DEFAULT_EXPIRES_IN.as_secs())))
        .examples([json!(3000)])
        .build();
    PercentageIn = AnyOf::builder()
        .item(
            number("In per cent. At most four decimals.").exclusive_minimum(Some(0)).maximum(Some(100)),
        )
        .item(
            text("In per cent: digits, and at most four decimals after a point.").pattern(Some(
                r"^(?!0{1,2}(\.0{1,4})?$)(100(\.0{1,4})?|[0-9]{1,2}(\.[0-9]{1,4})?)$",
            )),
        )
        .description(Some(
            "A share in per cent that you send: a JSON number or a numeric string, above 0, at most 100, with at most four decimals. \
             The digits are read as they are. No exponent, no sign, no blanks.",
        ))
        .examples([json!("10.5"), json!(10)])
        .build();
    Percentage = number("A share in per cent, with exact digits and no trailing zeros.")
        .exclusive_minimum(Some(0))
        .maximum(Some(100))
        .examples([json!(10.5)])
        .build();
    Nothing = ObjectBuilder::new().schema_type(Type::Null).build();
    Outcome = words(
        "Whether anybody knows what became of it. `uncertain`: it may or may not have happened at the provider, and the gateway \
         asks until it knows. Don't send it again under another name.",
        ["certain", "uncertain"],
    );
    ChargeStatus = words("Where the charge stands.", ChargeState::NAMES);
    WithdrawalStatus = words("Where the withdrawal stands.", words::WITHDRAWAL_STATUSES);
    RefundStatus = words("Where the refund stands.", ["processing", "completed", "failed"]);
    ChargeStatuses = statuses("charges", &ChargeState::NAMES, "pending,paid");
    WithdrawalStatuses = statuses("withdrawals", &words::WITHDRAWAL_STATUSES, "completed,failed");
    ChargeFlag = words(
        "What is unusual about the payment: it came after the charge had expired, another PIX came in besides, or the sum isn't \
         what was asked for.",
        ["paid_late", "paid_again", "amount_differs"],
    );
    ResourceType = words("What it is.", ResourceKind::ALL.map(ResourceKind::as_str));
    ConsultedType = words("What it is.", ["charge", "withdrawal", "refund"]);
    EvidenceKindWord = words(
        "`attempt`: it is about to be sent, stored before the first byte is. `answer`: how that call ended. `consult`: the \
         provider was asked. `callback`: the provider called back. `decision`: somebody who may has decided.",
        EvidenceKind::ALL.map(EvidenceKind::as_str),
    );
    ProofWord = words(
        "What is known by it. `not_known`: the provider doesn't know it. `unknown`: the answer was lost, is none, or is about \
         something else; it may have happened.",
        Proof::ALL.map(Proof::as_str),
    );
    EventType = words("The name of an event.", EventKind::ALL.into_iter().filter_map(EventKind::public_name));
    EventTypes = text("One or more names of events, with commas between them.")
        .pattern(Some(list_of(&EventKind::ALL.into_iter().filter_map(EventKind::public_name).collect::<Vec<_>>())))
        .examples(["cashin.confirmed,cashout.confirmed"])
        .build();
    EntryType = words("Why money moved.", Reason::ALL.map(Reason::as_str));
    EntryTypes = text("One or more types of entries, with commas between them.")
        .pattern(Some(list_of(&Reason::ALL.map(Reason::as_str))))
        .examples(["charge_paid,charge_fee"])
        .build();
    SignedMoney = number("An amount in reais that may be less than nothing, with exact digits and no trailing zeros.")
        .examples([json!(-10.5)])
        .build();
    Metadata = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(
            "What you attach for yourself: at most 20 pairs. A key has 1 to 40 letters, digits, `_`, `-` or `.`; a value 1 to 500 \
             characters. Shown to you again, and to list by; nothing is read into it, and it is sent to nobody else.",
        ))
        .property_names(Some(text("A key.").pattern(Some("^[0-9A-Za-z_.-]{1,40}$"))))
        .additional_properties(Some(
            text("A value.").min_length(Some(1)).max_length(Some(VALUE_MAX_CHARS)).pattern(Some(shown())),
        ))
        .max_properties(Some(MAX_PAIRS))
        .examples([json!({"shop": "centro"})])
        .build();
    EventId = text("The id of an event: the same however often it is told.")
        .pattern(Some("^evt_[cwrs][0-9a-f]{32}_[0-9]+$"))
        .examples(["evt_c019c000000007000800000000000000a_2"])
        .build();
    PerPage = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(MAX_PER_PAGE))
        .default(Some(json!(DEFAULT_PER_PAGE)))
        .build();
    V2Text = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Integer, Type::Boolean, Type::Null]))
        .description(Some(
            "A text. A whole number is read as its digits; `\"\"`, `null` and `false` are nothing. `true` is refused.",
        ))
        .build();
    V2PixId = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Integer]))
        .description(Some("What names a transaction."))
        .pattern(Some(r"\S"))
        .examples(["019c0000000070008000000000000001"])
        .build();
    V2Status = words(
        "`PENDING`: not final. `PAID`: it happened. `REFUNDED`: all of it went back.",
        ["PENDING", "PAID", "EXPIRED", "CANCELED", "REFUNDED", "FAILED"],
    );
}

fn statuses(of: &str, all: &[&str], example: &str) -> Object {
    text(&format!("One or more statuses of {of}, with commas between them."))
        .pattern(Some(list_of(all)))
        .examples([example])
        .build()
}

/// One or more of `words`, with commas between them.
fn list_of(words: &[&str]) -> String {
    let one = words.join("|").replace('.', "\\.");
    format!("^({one})(,({one}))*$")
}

/// The names of key types in either case, without a flag, which JSON Schema has none of.
fn key_types() -> String {
    let names = [
        "CPF",
        "CNPJ",
        "EMAIL",
        "PHONE",
        "TELEFONE",
        "CELULAR",
        "EVP",
        "RANDOM",
        "RANDOM_KEY",
        "ALEATORIA",
        "CHAVE_ALEATORIA",
    ];
    let in_any_case = |name: &str| {
        name.chars()
            .map(|letter| match letter {
                '_' => "_".to_owned(),
                letter => format!("[{letter}{}]", letter.to_ascii_lowercase()),
            })
            .collect::<String>()
    };
    format!("^({})$", names.map(in_any_case).join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statuses_are_those_that_lists_can_be_asked_for() {
        for status in words::WITHDRAWAL_STATUSES {
            assert!(words::withdrawal_states(status).is_some(), "{status}");
        }
        for status in ChargeState::NAMES {
            assert!(words::charge_states(status).is_some(), "{status}");
        }
    }
}
