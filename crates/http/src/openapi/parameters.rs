//! Parameters of requests and header fields of answers, each named once.

use utoipa::PartialSchema;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Required, Schema};

use super::schemas::scalars::{
    AnyUuid, ChargeStatuses, EntryTypes, EventId, EventTypes, ExternalId, IdempotencyKey, Metadata, PerPage,
    WithdrawalStatuses,
};
use crate::error::{TITLES, slug};
use crate::v1::qrcode::{DEFAULT_SIZE, MAX_SIZE, MIN_SIZE};

/// What a path names, by the name between its braces.
pub(super) fn in_path(name: &str) -> Option<Parameter> {
    let (schema, description) = match name {
        "charge" => (name_of_record(), "The charge's `uuid`, with or without hyphens, or its `external_id`."),
        "withdrawal" => {
            (name_of_record(), "The withdrawal's `uuid`, with or without hyphens, or its `external_id`.")
        }
        "refund" => (name_of_record(), "The refund's `uuid`, with or without hyphens, or its `external_id`."),
        "split" => (inline::<AnyUuid>(), "The split's `uuid`, with or without hyphens."),
        "uuid" => (inline::<AnyUuid>(), "The charge's `uuid`."),
        "event" => (inline::<EventId>(), "The event's `id`."),
        "error" => {
            let names: Vec<_> = TITLES.iter().map(|(code, _)| slug(code)).collect();
            (text().enum_values(Some(names)).into(), "The end of the `type`.")
        }
        "endpoint" => (inline::<AnyUuid>(), "The endpoint's `id`."),
        _ => return None,
    };
    let parameter = parameter(name, ParameterIn::Path, description).required(Required::True);
    Some(parameter.schema(Some(schema)).build())
}

fn name_of_record() -> RefOr<Schema> {
    inline::<ExternalId>()
}

/// The schema itself, where a reference to it would hide what is said of the parameter.
fn inline<T: PartialSchema>() -> RefOr<Schema> {
    T::schema()
}

fn parameter(name: &str, within: ParameterIn, description: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(within)
        .required(Required::False)
        .description(Some(description))
}

fn in_query<T: PartialSchema>(name: &str, description: &str) -> Parameter {
    parameter(name, ParameterIn::Query, description).schema(Some(inline::<T>())).build()
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn time_in_query(name: &str, description: &str) -> Parameter {
    let format = utoipa::openapi::SchemaFormat::Custom("date-time".to_owned());
    let schema = text().format(Some(format)).examples(["2026-10-07T00:00:00Z"]);
    parameter(name, ParameterIn::Query, description).schema(Some(schema)).build()
}

/// The parameters of `GET /api/v1/charges`.
pub(super) fn of_charges() -> Vec<Parameter> {
    of_list::<ChargeStatuses>()
}

/// The parameters of `GET /api/v1/withdrawals`.
pub(super) fn of_withdrawals() -> Vec<Parameter> {
    of_list::<WithdrawalStatuses>()
}

fn of_list<Statuses: PartialSchema>() -> Vec<Parameter> {
    let cursor = text().pattern(Some("^0[01][0-9a-f]{48}$"));
    vec![
        in_query::<PerPage>("per_page", "How many a page has."),
        in_query::<Statuses>("status", "Only those of these statuses, with commas between them."),
        parameter("cursor", ParameterIn::Query, "`next_cursor` or `prev_cursor` of another page.")
            .schema(Some(cursor))
            .build(),
        time_in_query("created_from", "Only those made at that time or later."),
        time_in_query("created_to", "Only those made before that time."),
        in_query::<ExternalId>("external_id", "Only the one with exactly this name."),
        parameter(
            "metadata",
            ParameterIn::Query,
            "Only those with these values of `metadata`: `metadata[key]=value`; with several keys, those that have all of them.",
        )
        .style(Some(ParameterStyle::DeepObject))
        .explode(Some(true))
        .schema(Some(inline::<Metadata>()))
        .build(),
    ]
}

/// The parameters of `GET /api/v1/splits`.
pub(super) fn of_splits() -> Vec<Parameter> {
    let cursor = text().pattern(Some("^0[01][0-9a-f]{48}$"));
    vec![
        in_query::<PerPage>("per_page", "How many a page has."),
        parameter("cursor", ParameterIn::Query, "`next_cursor` or `prev_cursor` of another page.")
            .schema(Some(cursor))
            .build(),
        time_in_query("created_from", "Only those that came to be at that time or later."),
        time_in_query("created_to", "Only those that came to be before that time."),
    ]
}

/// The parameters of `GET /api/v1/statement`.
pub(super) fn of_statement() -> Vec<Parameter> {
    let cursor = text().pattern(Some("^0[01][0-9a-f]{32}$"));
    vec![
        in_query::<PerPage>("per_page", "How many a page has."),
        parameter("cursor", ParameterIn::Query, "`next_cursor` or `prev_cursor` of another page.")
            .schema(Some(cursor))
            .build(),
        in_query::<EntryTypes>("type", "Only those of these types, with commas between them."),
        in_query::<AnyUuid>("uuid", "Only those of this charge, withdrawal, refund or split."),
        time_in_query("created_from", "Only those made at that time or later."),
        time_in_query("created_to", "Only those made before that time."),
    ]
}

/// `size` of a picture.
pub(super) fn size() -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(MIN_SIZE))
        .maximum(Some(MAX_SIZE))
        .default(Some(DEFAULT_SIZE.into()));
    parameter("size", ParameterIn::Query, "How many pixels it is wide and high.").schema(Some(schema)).build()
}

/// The parameters of `GET /api/v1/events`.
pub(super) fn of_events() -> Vec<Parameter> {
    let cursor = text().pattern(Some("^[0-9a-f]{32}$"));
    let delivered = text().enum_values(Some(["true", "false"]));
    vec![
        in_query::<PerPage>("per_page", "How many a page has."),
        parameter("cursor", ParameterIn::Query, "`next_cursor` of another page of yours.")
            .schema(Some(cursor))
            .build(),
        in_query::<EventTypes>("type", "Only those of these types, with commas between them."),
        in_query::<AnyUuid>("uuid", "Only those of this charge, withdrawal, refund or split."),
        parameter(
            "delivered",
            ParameterIn::Query,
            "`true`: those that were taken. `false`: those that wait or are dead. Neither has those that go nowhere.",
        )
        .schema(Some(delivered))
        .build(),
    ]
}

/// `Idempotency-Key`.
pub(super) fn idempotency_key() -> Parameter {
    parameter(
        "Idempotency-Key",
        ParameterIn::Header,
        "A handle for this request, which holds for ever: the same key with the same content gets what was made the first time; \
         with another content it is refused. `external_id` in the body is one too.",
    )
    .schema(Some(inline::<IdempotencyKey>()))
    .build()
}

/// `X-Request-Id`.
pub(super) fn request_id() -> Parameter {
    parameter(
        "X-Request-Id",
        ParameterIn::Header,
        "Your id for this request: 1 to 128 visible ASCII characters. Anything else is replaced by one of ours.",
    )
    .schema(Some(text()))
    .build()
}

/// `If-None-Match`.
pub(super) fn if_none_match() -> Parameter {
    parameter("If-None-Match", ParameterIn::Header, "The `ETag` of what you have.")
        .schema(Some(text()))
        .build()
}

/// The header fields of a postback.
pub(super) fn of_postback() -> Vec<Parameter> {
    let field = |name, required, description, example: &str| {
        parameter(name, ParameterIn::Header, description)
            .required(required)
            .schema(Some(text().examples([example])))
            .build()
    };
    let (always, sometimes) = (Required::True, Required::False);
    vec![
        field(
            "webhook-id",
            always,
            "The `eventId`: the same in every attempt.",
            "evt_c019c000000007000800000000000000a_2",
        ),
        field(
            "webhook-timestamp",
            Required::True,
            "When this attempt was made, in Unix seconds.",
            "1791348065",
        ),
        field(
            "webhook-signature",
            Required::True,
            "Of Standard Webhooks: `v1,` and the base64 of HMAC-SHA256 over `webhook-id`, `.`, `webhook-timestamp`, `.` and the \
             body, keyed with the bytes that the base64 after `whsec_` stands for. While your secret is changed there are several, \
             separated by a blank.",
            "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        ),
        field("X-Webhook-Timestamp", Required::True, "The same as `webhook-timestamp`.", "1791348065"),
        field(
            "X-Webhook-Signature",
            Required::True,
            "Lower-case hex of HMAC-SHA256 over the raw body, keyed with the whole text of the secret, `whsec_` included.",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ),
        field(
            "X-Webhook-Signature-Next",
            sometimes,
            "While your secret is changed: the same with the newest secret.",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ),
        field("X-Webhook-Event", Required::True, "The name of the event.", "cashin.confirmed"),
    ]
}

/// A header field of answers that is described once, under `components`.
pub(super) struct Field {
    pub(super) name: &'static str,
    description: &'static str,
    pattern: Option<&'static str>,
    example: &'static str,
    whole_number: bool,
}

impl Field {
    pub(super) fn header(&self) -> Header {
        let schema = if self.whole_number {
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0))
        } else {
            text().pattern(self.pattern)
        };
        HeaderBuilder::new()
            .schema(Some(schema))
            .description(Some(self.description))
            .example(if self.whole_number { None } else { Some(self.example.into()) })
            .build()
    }

    /// A reference to it.
    pub(super) fn reference(name: &str) -> Ref {
        Ref::new(format!("#/components/headers/{name}"))
    }
}

const fn field(name: &'static str, description: &'static str, example: &'static str) -> Field {
    Field { name, description, pattern: None, example, whole_number: false }
}

const fn strict(mut field: Field, pattern: &'static str) -> Field {
    field.pattern = Some(pattern);
    field
}

/// Every header field that answers have beside the usual ones.
pub(super) const FIELDS: [Field; 11] = [
    strict(
        field(
            "X-Request-Id",
            "The id of this request: yours, if you sent one, else one of ours. It is in the operator's log.",
            "019c000000007000800000000000000a",
        ),
        "^[!-~]{1,128}$",
    ),
    strict(
        field(
            "RateLimit-Policy",
            "The limits: `q` requests, all of which are there again after `w` seconds (draft-ietf-httpapi-ratelimit-headers-11). \
             `api` is this token's, `key` is over all tokens of your key, `token` is this address's at the token endpoint.",
            "\"api\";q=100;w=10, \"key\";q=400;w=10",
        ),
        r#"^"[a-z]+";q=[0-9]+;w=[0-9]+(, "[a-z]+";q=[0-9]+;w=[0-9]+)*$"#,
    ),
    strict(
        field(
            "RateLimit",
            "What is left of them: `r` requests; all are there again in `t` seconds, or, when nothing is left, one is.",
            "\"api\";r=99;t=1, \"key\";r=399;t=1",
        ),
        r#"^"[a-z]+";r=[0-9]+;t=[0-9]+(, "[a-z]+";r=[0-9]+;t=[0-9]+)*$"#,
    ),
    Field {
        name: "Retry-After",
        description: "After how many seconds to try again.",
        pattern: None,
        example: "",
        whole_number: true,
    },
    field(
        "WWW-Authenticate",
        "How to identify yourself: `Bearer` of RFC 6750, with `error` and, of a scope that is missing, its name; at the token \
         endpoint `Basic`.",
        "Bearer realm=\"pix-gateway\", error=\"invalid_token\", error_description=\"the access token is not valid\"",
    ),
    strict(
        field(
            "Location",
            "The URL of the resource.",
            "https://pix.example/api/v1/charges/019c0000-0000-7000-8000-000000000001",
        ),
        "^https?://",
    ),
    strict(
        field(
            "Link",
            "The pages beside this one, if there are any (RFC 8288).",
            "<https://pix.example/api/v1/charges?cursor=…>; rel=\"next\"",
        ),
        r#"^<[^>]+>; rel="(next|prev)"(, <[^>]+>; rel="prev")?$"#,
    ),
    strict(
        field("Idempotency-Replayed", "`true`: an earlier request with the same handle made it.", "true"),
        "^true$",
    ),
    field("ETag", "Changes with the document.", "\"0123456789abcdef\""),
    field("Cache-Control", "Whether it may be kept, and for how long.", "no-store"),
    strict(field("Pragma", "For caches of HTTP/1.0 (RFC 6749 §5.1).", "no-cache"), "^no-cache$"),
];
