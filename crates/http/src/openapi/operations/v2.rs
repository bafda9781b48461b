//! The classic v2 endpoints.

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{Content, Required};

use super::Told;
use super::v1::{Led, linked};
use crate::openapi::answers::{Kit, with_fields};
use crate::openapi::parameters;
use crate::openapi::schemas::v2::{
    V2Balance, V2Charge, V2ConsultRequest, V2Consulted, V2NewCharge, V2NewPayment, V2NewRefund, V2Payment,
    V2Refund,
};

/// Where the id of a transaction leads.
const BY_PIX_ID: [Led; 2] = [
    Led::ByBody("consultV2Transaction", "pix_id", "$response.body#/transactionId"),
    Led::ByBody("createV2Refund", "pix_id", "$response.body#/transactionId"),
];

/// What is to know of every body of v2.
const LIBERAL: &str = "Read as JSON under any content type. Unknown fields are ignored. A field that is named twice is refused.";

fn success<T: ToSchema>(kit: &mut Kit, description: &str) -> ResponseBuilder {
    with_fields(kit.success::<T>(description), &["RateLimit-Policy", "RateLimit"])
}

fn body<T: ToSchema>(
    kit: &mut Kit,
    examples: &[(&str, Value)],
) -> utoipa::openapi::request_body::RequestBody {
    RequestBodyBuilder::from(kit.json::<T>(examples)).description(Some(LIBERAL)).build()
}

pub(super) fn qrcode(kit: &mut Kit) -> Told {
    let body = body::<V2NewCharge>(
        kit,
        &[
            ("the least", json!({"amount": 50.5})),
            (
                "a named payer",
                json!({
                    "amount": "50.50",
                    "external_id": "loja:42",
                    "payer": {"name": "Maria Silva", "document": "52998224725"},
                    "payerQuestion": "Pedido 42",
                    "postbackUrl": "https://shop.example/pix",
                }),
            ),
        ],
    );
    Told::new(
        "createV2Charge",
        "v2",
        "Make a charge",
        "A charge is money to come in, by the QR code in the answer. The same `external_id` (or `Idempotency-Key`) again answers \
         with the same charge, in its present state.",
    )
    .with([parameters::idempotency_key()])
    .body(body)
    .answers(200, linked(success::<V2Charge>(kit, "The charge."), &BY_PIX_ID))
    .refuses(409, &["external_id_conflict"])
    .refuses(422, &["validation_failed", "invalid_amount", "idempotency_mismatch", "provider_rejected"])
    .refuses(503, &["overloaded", "provider_unavailable"])
    .refuses(504, &["provider_timeout"])
}

pub(super) fn payment(kit: &mut Kit) -> Told {
    let body = body::<V2NewPayment>(
        kit,
        &[(
            "by phone number",
            json!({
                "amount": "20.00",
                "external_id": "saque:7",
                "creditParty": {
                    "name": "Ana Lima", "keyType": "telefone", "key": "11987654321", "taxId": "52998224725",
                },
            }),
        )],
    );
    Told::new(
        "createV2Payment",
        "v2",
        "Send money (the withdrawal of v2)",
        "Amount and fee are taken from the wallet. The same `external_id` (or `Idempotency-Key`) again answers with the first \
         payment as it is now, and never sends twice. An outcome that nobody knows is no error: `status` is `PENDING` and \
         `outcome` is `uncertain`; don't send it again under another name. A final refusal is 406, whenever it is asked again.",
    )
    .with([parameters::idempotency_key()])
    .body(body)
    .answers(200, linked(success::<V2Payment>(kit, "The payment."), &BY_PIX_ID[..1]))
    .refuses(403, &["insufficient_scope", "ip_not_allowed", "integrator_suspended"])
    .refuses(406, &["provider_rejected"])
    .refuses(409, &["external_id_conflict", "possible_duplicate"])
    .refuses(
        422,
        &[
            "validation_failed",
            "invalid_amount",
            "invalid_pix_key",
            "insufficient_balance",
            "limit_exceeded",
            "idempotency_mismatch",
        ],
    )
}

pub(super) fn refund(kit: &mut Kit) -> Told {
    let body = body::<V2NewRefund>(
        kit,
        &[
            (
                "all that is left",
                json!({"pix_id": "019c0000000070008000000000000001", "external_id": "devolucao:2"}),
            ),
            (
                "a part",
                json!({
                    "pix_id": "019c0000000070008000000000000001",
                    "amount": 10.5,
                    "external_id": "devolucao:1",
                    "description": "item em falta",
                }),
            ),
        ],
    );
    Told::new(
        "createV2Refund",
        "v2",
        "Send money of a paid charge back",
        "Within 90 days, to who paid it. The amount and the refund's fee are taken from the wallet. The same `external_id` (or \
         `Idempotency-Key`) again answers with the same refund, in its present state.",
    )
    .with([parameters::idempotency_key()])
    .body(body)
    .answers(200, success::<V2Refund>(kit, "The refund."))
    .refuses(403, &["insufficient_scope", "ip_not_allowed", "integrator_suspended"])
    .refuses(404, &["not_found"])
    .refuses(409, &["external_id_conflict", "possible_duplicate", "invalid_state"])
    .refuses(
        422,
        &[
            "validation_failed",
            "invalid_amount",
            "insufficient_balance",
            "refund_exceeds_paid",
            "refund_window_closed",
            "idempotency_mismatch",
            "provider_rejected",
        ],
    )
}

pub(super) fn consult(kit: &mut Kit) -> Told {
    let body = body::<V2ConsultRequest>(
        kit,
        &[("by the provider's id", json!({"pix_id": "019c0000000070008000000000000001"}))],
    );
    Told::new(
        "consultV2Transaction",
        "v2",
        "Ask the provider about a transaction",
        "Applies what the provider says, and shows it. When it can't be asked, the transaction is shown as it is known here.",
    )
    .body(body)
    .answers(200, success::<V2Consulted>(kit, "The transaction."))
    .refuses(404, &["not_found"])
    .refuses(422, &["validation_failed"])
}

pub(super) fn balance(kit: &mut Kit) -> Told {
    let anything = ObjectBuilder::new().schema_type(SchemaType::AnyValue).build();
    let anything = Content::builder().schema(Some(anything)).example(Some(json!({}))).build();
    let body = RequestBodyBuilder::new()
        .description(Some("Anything, or nothing: it is not looked at."))
        .content("application/json", anything)
        .required(Some(Required::False))
        .build();
    Told::new("getV2Balance", "v2", "The available balance", "What can be sent.")
        .body(body)
        .answers(200, success::<V2Balance>(kit, "The balance."))
}
