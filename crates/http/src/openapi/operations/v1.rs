//! Charges, withdrawals, refunds, splits, consultation and the balance of v1.

use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::link::Link;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::Told;
use crate::openapi::answers::{Kit, with_fields};
use crate::openapi::parameters;
use crate::openapi::schemas::v1::{
    Balance, Charge, ConsultRequest, Consulted, Limits, NewCharge, NewRefund, NewWithdrawal, Quote, Refund,
    Split, Withdrawal,
};
use crate::openapi::schemas::v1_lists::{
    ChargePage, EvidenceList, RefundList, SplitPage, StatementPage, WithdrawalPage,
};

/// Of what makes something.
const HANDLE: &str = "Sent again with the same `external_id` (or `Idempotency-Key`) and the same content, it answers 200 with \
     what was made the first time, as it is now.";

pub(super) fn success<T: ToSchema>(kit: &mut Kit, description: &str) -> ResponseBuilder {
    with_fields(kit.success::<T>(description), &["RateLimit-Policy", "RateLimit"])
}

/// An operation that an answer leads to: its name, what of it is known, and where in the answer.
pub(super) enum Led {
    ByParameter(&'static str, &'static str, &'static str),
    ByBody(&'static str, &'static str, &'static str),
}

/// Adds where an answer leads.
pub(super) fn linked(answer: ResponseBuilder, leads: &[Led]) -> ResponseBuilder {
    leads.iter().fold(answer, |answer, lead| match *lead {
        Led::ByParameter(operation, name, place) => {
            answer.link(operation, Link::builder().operation_id(operation).parameter(name, place).build())
        }
        Led::ByBody(operation, name, place) => {
            let body = json!({name: place});
            answer.link(operation, Link::builder().operation_id(operation).request_body(Some(body)).build())
        }
    })
}

/// 201 for what was made now, 200 for what an earlier request made.
fn makes<T: ToSchema>(told: Told, kit: &mut Kit, parameter: &'static str, leads: &[&'static str]) -> Told {
    let mut leads: Vec<Led> = leads
        .iter()
        .map(|operation| Led::ByParameter(operation, parameter, "$response.body#/uuid"))
        .collect();
    leads.push(Led::ByBody("consultTransaction", "uuid", "$response.body#/uuid"));
    let made = with_fields(success::<T>(kit, "Made now."), &["Location"]);
    let replayed = with_fields(
        success::<T>(kit, "An earlier request made it; this is how it is now."),
        &["Location", "Idempotency-Replayed"],
    );
    told.with([parameters::idempotency_key()])
        .answers(201, linked(made, &leads))
        .answers(200, linked(replayed, &leads))
}

pub(super) fn create_charge(kit: &mut Kit) -> Told {
    let body = kit.json::<NewCharge>(&[
        (
            "the least",
            json!({"amount": 15.55, "payer": {"name": "Maria Silva", "document": "529.982.247-25"}}),
        ),
        (
            "with all",
            json!({
                "amount": "100.00",
                "external_id": "order-1001",
                "payer": {"name": "Maria Silva", "document": "52998224725", "email": "maria@example.com"},
                "payerQuestion": "Pedido 1001",
                "postbackUrl": "https://shop.example/pix?order=1001",
                "expiration": 3600,
                "split": [
                    {"recipient": "019c0000-0000-7000-8000-000000000001", "percentage": "10.5"},
                    {"recipient": "019c0000-0000-7000-8000-000000000002", "amount": "1.00"},
                ],
            }),
        ),
    ]);
    let told = Told::new(
        "createCharge",
        "Charges",
        "Make a charge",
        &format!(
            "A charge is money to come in, by the QR code in the answer. `split` gives parts of what its payments bring, net of the \
             fee, to other integrators' wallets. {HANDLE}"
        ),
    );
    makes::<Charge>(told, kit, "charge", &["getCharge", "listChargeRefunds", "createRefund"])
        .body(body)
        .refuses(409, &["external_id_conflict"])
        .refuses(422, &["validation_failed", "invalid_amount", "idempotency_mismatch", "provider_rejected"])
        .refuses(503, &["overloaded", "provider_unavailable"])
        .refuses(504, &["provider_timeout"])
}

pub(super) fn list_charges(kit: &mut Kit) -> Told {
    let description = "Newest first. Follow `links.next` until it is `null`. A page neither skips nor repeats a charge while \
         others are being made.";
    Told::new("listCharges", "Charges", "A page of charges", description)
        .with(parameters::of_charges())
        .answers(200, with_fields(success::<ChargePage>(kit, "A page."), &["Link"]))
        .refuses(422, &["validation_failed"])
}

pub(super) fn charge(kit: &mut Kit) -> Told {
    Told::new("getCharge", "Charges", "One charge", "As it is known here; the provider is not asked.")
        .answers(200, success::<Charge>(kit, "The charge."))
        .refuses(404, &["not_found"])
}

pub(super) fn cancel_charge(kit: &mut Kit) -> Told {
    let description = "The provider is asked whether it was paid, and told to remove it; then it is `canceled`. Once more changes \
         nothing. A provider that can't remove charges leaves a code that can be paid until it ends there: such a payment is \
         credited, and the charge is `paid` with `paid_late`.";
    Told::new("cancelCharge", "Charges", "Cancel a charge that nobody has paid", description)
        .answers(200, success::<Charge>(kit, "It is canceled."))
        .refuses(404, &["not_found"])
        .refuses(409, &["invalid_state"])
        .refuses(422, &["provider_rejected"])
        .refuses(503, &["overloaded", "provider_unavailable"])
        .refuses(504, &["provider_timeout"])
}

pub(super) fn qrcode_svg(_kit: &mut Kit) -> Told {
    let description =
        "The text that is in `qrcode`, with error correction of level M. Without a code it is a conflict.";
    Told::new("getQrCodeSvg", "Charges", "The QR code of a charge as SVG", description)
        .with([parameters::if_none_match()])
        .answers(200, picture("The picture.").content("image/svg+xml", file()))
        .answers(304, picture("What you have is what there is."))
        .refuses(404, &["not_found"])
        .refuses(409, &["invalid_state"])
}

pub(super) fn qrcode_png(_kit: &mut Kit) -> Told {
    let description =
        "The text that is in `qrcode`, with error correction of level M. Without a code it is a conflict.";
    Told::new("getQrCodePng", "Charges", "The QR code of a charge as PNG", description)
        .with([parameters::size(), parameters::if_none_match()])
        .answers(200, picture("The picture.").content("image/png", file()))
        .answers(304, picture("What you have is what there is."))
        .refuses(404, &["not_found"])
        .refuses(409, &["invalid_state"])
        .refuses(422, &["validation_failed"])
}

/// Of a receipt.
const RECEIPT: &str = "For a person: with names, of documents and keys as much as a bank shows, and nothing of the wallet. HTML that \
     prints on one page, or PDF with `Accept: application/pdf`; in Portuguese, or English by `Accept-Language`. A receipt with \
     characters that its PDF can't show comes as HTML alone.";

pub(super) fn charge_receipt(_kit: &mut Kit) -> Told {
    let description = format!("Of a charge that is paid; else it is a conflict. {RECEIPT}");
    receipt(Told::new("getChargeReceipt", "Charges", "The receipt of a paid charge", &description))
}

pub(super) fn withdrawal_receipt(_kit: &mut Kit) -> Told {
    let description =
        format!("Of a withdrawal that is completed or returned; else it is a conflict. {RECEIPT}");
    receipt(Told::new("getWithdrawalReceipt", "Withdrawals", "The receipt of a withdrawal", &description))
}

fn receipt(told: Told) -> Told {
    let fields = ["X-Request-Id", "RateLimit-Policy", "RateLimit"];
    let answer = with_fields(ResponseBuilder::new().description("The receipt."), &fields);
    told.answers(200, answer.content("text/html", file()).content("application/pdf", file()))
        .refuses(404, &["not_found"])
        .refuses(406, &["not_acceptable"])
        .refuses(409, &["invalid_state"])
}

fn picture(description: &str) -> ResponseBuilder {
    let fields = ["X-Request-Id", "RateLimit-Policy", "RateLimit", "ETag", "Cache-Control"];
    with_fields(ResponseBuilder::new().description(description), &fields)
}

/// What is no JSON.
fn file() -> Content {
    ContentBuilder::new().schema(Some(ObjectBuilder::new().schema_type(Type::String))).build()
}

pub(super) fn create_refund(kit: &mut Kit) -> Told {
    let body = kit.json::<NewRefund>(&[
        ("all that is left", json!({"external_id": "refund-1002"})),
        ("a part", json!({"amount": 15, "external_id": "refund-1001", "description": "item em falta"})),
    ]);
    let told = Told::new(
        "createRefund",
        "Refunds",
        "Send money of a paid charge back",
        &format!(
            "Within 90 days, to who paid it. The amount and the refund's fee are taken from the wallet. {HANDLE} An outcome that \
             nobody knows is no error: `status` is `processing` and `outcome` is `uncertain`; don't send it again under another name."
        ),
    );
    makes::<Refund>(told, kit, "refund", &["getRefund", "getRefundEvidence"])
        .body(body)
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

pub(super) fn list_refunds(kit: &mut Kit) -> Told {
    Told::new("listChargeRefunds", "Refunds", "The refunds of a charge", "All of them, oldest first.")
        .answers(200, success::<RefundList>(kit, "The refunds."))
        .refuses(404, &["not_found"])
}

pub(super) fn refund(kit: &mut Kit) -> Told {
    Told::new("getRefund", "Refunds", "One refund", "As it is known here; the provider is not asked.")
        .answers(200, success::<Refund>(kit, "The refund."))
        .refuses(404, &["not_found"])
}

pub(super) fn refund_evidence(kit: &mut Kit) -> Told {
    let description = "What was done and heard about it, and what each proves, oldest first.";
    Told::new("getRefundEvidence", "Refunds", "The evidence of a refund", description)
        .answers(200, success::<EvidenceList>(kit, "The evidence."))
        .refuses(404, &["not_found"])
}

pub(super) fn create_withdrawal(kit: &mut Kit) -> Told {
    let body = kit.json::<NewWithdrawal>(&[
        (
            "by e-mail address",
            json!({
                "amount": 30,
                "external_id": "payout-1001",
                "creditParty": {
                    "name": "Ana Lima", "keyType": "EMAIL", "key": "ana@example.com", "taxId": "529.982.247-25",
                },
            }),
        ),
        (
            "by CNPJ",
            json!({
                "amount": 5.25,
                "external_id": "payout-1002",
                "description": "nota 77",
                "creditParty": {
                    "name": "Empresa Ltda", "keyType": "CNPJ", "key": "12.ABC.345/01DE-35", "taxId": "12ABC34501DE35",
                },
            }),
        ),
    ]);
    let told = Told::new(
        "createWithdrawal",
        "Withdrawals",
        "Send money",
        &format!(
            "Amount and fee are taken from the wallet. {HANDLE} An outcome that nobody knows is no error: `status` is \
             `processing` and `outcome` is `uncertain`; don't send it again under another name. What the provider refuses at once is \
             422 `provider_rejected` with the `uuid` of the withdrawal, which is `failed`."
        ),
    );
    makes::<Withdrawal>(told, kit, "withdrawal", &["getWithdrawal", "getWithdrawalEvidence"])
        .body(body)
        .refuses(403, &["insufficient_scope", "ip_not_allowed", "integrator_suspended"])
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
                "provider_rejected",
            ],
        )
}

pub(super) fn quote_withdrawal(kit: &mut Kit) -> Told {
    let body = kit.json::<NewWithdrawal>(&[(
        "by e-mail address",
        json!({
            "amount": 30,
            "creditParty": {
                "name": "Ana Lima", "keyType": "EMAIL", "key": "ana@example.com", "taxId": "529.982.247-25",
            },
        }),
    )]);
    let description = "Takes what `createWithdrawal` takes and runs the same checks, up to the moment at which the money would be \
         held. Nothing is stored, held or sent, and no handle is taken. What would be refused is in `refusal`; a body that isn't \
         valid is refused here too.";
    Told::new(
        "quoteWithdrawal",
        "Withdrawals",
        "What a withdrawal would cost, and whether it would be made",
        description,
    )
    .with([parameters::idempotency_key()])
    .body(body)
    .answers(200, success::<Quote>(kit, "The quote."))
    .refuses(422, &["validation_failed", "invalid_amount", "invalid_pix_key"])
}

pub(super) fn list_withdrawals(kit: &mut Kit) -> Told {
    let description = "Newest first. Follow `links.next` until it is `null`. A page neither skips nor repeats a withdrawal \
         while others are being made.";
    Told::new("listWithdrawals", "Withdrawals", "A page of withdrawals", description)
        .with(parameters::of_withdrawals())
        .answers(200, with_fields(success::<WithdrawalPage>(kit, "A page."), &["Link"]))
        .refuses(422, &["validation_failed"])
}

pub(super) fn withdrawal(kit: &mut Kit) -> Told {
    let description = "As it is known here; the provider is not asked.";
    Told::new("getWithdrawal", "Withdrawals", "One withdrawal", description)
        .answers(200, success::<Withdrawal>(kit, "The withdrawal."))
        .refuses(404, &["not_found"])
}

pub(super) fn withdrawal_evidence(kit: &mut Kit) -> Told {
    let description = "What was done and heard about it, and what each proves, oldest first.";
    Told::new("getWithdrawalEvidence", "Withdrawals", "The evidence of a withdrawal", description)
        .answers(200, success::<EvidenceList>(kit, "The evidence."))
        .refuses(404, &["not_found"])
}

/// Where the first split of a page leads.
const FIRST_SPLIT: [Led; 1] = [Led::ByParameter("getSplit", "split", "$response.body#/data/0/uuid")];

pub(super) fn list_splits(kit: &mut Kit) -> Told {
    let description = "What of others' charges came into your wallet, newest charge first. Follow `links.next` until it is `null`. A page \
         neither skips nor repeats a split while others come in.";
    Told::new("listSplits", "Splits", "A page of splits", description)
        .with(parameters::of_splits())
        .answers(200, linked(with_fields(success::<SplitPage>(kit, "A page."), &["Link"]), &FIRST_SPLIT))
        .refuses(422, &["validation_failed"])
}

pub(super) fn split(kit: &mut Kit) -> Told {
    let description = "Your part of somebody else's charge, with what was taken back of it.";
    Told::new("getSplit", "Splits", "One split", description)
        .answers(200, success::<Split>(kit, "The split."))
        .refuses(404, &["not_found"])
}

pub(super) fn consult(kit: &mut Kit) -> Told {
    let body = kit.json::<ConsultRequest>(&[("by your own name", json!({"external_id": "payout-1001"}))]);
    Told::new(
        "consultTransaction",
        "Transactions",
        "Ask the provider about a transaction",
        "Applies what the provider says, and shows it. When it can't be asked, the answer is 200 all the same, with \
         `provider.error`. An `external_id` that stands for both a charge and a withdrawal is a conflict; ask by `uuid` then.",
    )
    .body(body)
    .answers(200, success::<Consulted>(kit, "The transaction, and what the provider said."))
    .refuses(404, &["not_found"])
    .refuses(409, &["external_id_conflict"])
    .refuses(422, &["validation_failed"])
}

pub(super) fn statement(kit: &mut Kit) -> Told {
    let description = "Your book, newest first: every movement of money in the wallet, with the balances after it. With \
         `Accept: text/csv`, all that the filters leave, as CSV (RFC 4180) without pages.";
    let page = with_fields(success::<StatementPage>(kit, "A page, or the whole as CSV."), &["Link"]);
    Told::new("getStatement", "Balance", "The statement", description)
        .with(parameters::of_statement())
        .answers(200, page.content("text/csv", file()))
        .refuses(422, &["validation_failed"])
}

pub(super) fn balance(kit: &mut Kit) -> Told {
    Told::new("getBalance", "Balance", "The wallet", "What is available, what is held, what is owed.")
        .answers(200, success::<Balance>(kit, "The wallet."))
}

pub(super) fn limits(kit: &mut Kit) -> Told {
    let description = "The limits of what may go out that your operator has set, and what counts against each now; none when \
         no limits are set. What is raised holds a day later, what is lowered at once.";
    Told::new("getLimits", "Balance", "Limits of what may go out", description)
        .answers(200, success::<Limits>(kit, "The limits."))
}
