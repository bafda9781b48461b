//! What v2 takes and answers. It takes more than any schema should say: unknown fields are ignored, whole numbers do for
//! texts, and what is empty is nothing.

use std::collections::HashMap;

use serde_json::Value;
use utoipa::ToSchema;

use super::scalars::{Amount, LocalTime, Money, MoneyText, Outcome, PixKeyTypeIn, V2PixId, V2Status, V2Text};
use super::v1::NewShare;

/// A charge to be made.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2NewCharge {
    amount: Amount,
    /// Who is to pay. `null`, `false`, `""` and `[]` are nobody.
    payer: Option<V2NewPayer>,
    /// Your own name for it: 1 to 120 visible characters, unique for you, for ever. Send one: it makes a repeated request
    /// harmless.
    #[schema(required = false)]
    external_id: V2Text,
    /// Where its events go: a public http or https URL.
    #[schema(required = false)]
    postbackUrl: V2Text,
    /// What the payer is shown; at most 140 characters.
    #[schema(required = false)]
    payerQuestion: V2Text,
    /// After how many seconds it expires, 60 to 2592000, 3000 by default; as a text too.
    #[schema(required = false)]
    expiration: V2Text,
    /// Who gets what part of it; at most 10 others, each once. `null`, `false`, `""` and `[]` are nobody.
    #[schema(max_items = 10)]
    split: Option<Vec<NewShare>>,
}

/// Who is to pay.
#[derive(ToSchema)]
pub(in crate::openapi) struct V2NewPayer {
    /// At most 200 characters.
    #[schema(required = false)]
    name: V2Text,
    /// 11 or 14 letters or digits without punctuation; check digits are not checked.
    #[schema(required = false)]
    document: V2Text,
    /// What is no address is left out.
    #[schema(required = false)]
    email: V2Text,
    /// Ignored.
    #[schema(required = false)]
    phone: V2Text,
}

/// A charge, with whatever else the provider answered.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Charge {
    /// The provider's id, else ours.
    #[schema(example = "019c0000000070008000000000000001")]
    transactionId: String,
    /// Yours; `""` when you gave none.
    external_id: String,
    status: V2Status,
    amount: Money,
    calendar: V2Calendar,
    debtor: V2Debtor,
    /// The text of the QR code (BR Code).
    #[schema(example = "00020101…6304ABCD")]
    qrcode: String,
    /// The same.
    emvqrcps: String,
    /// What the provider added.
    #[serde(flatten)]
    others: HashMap<String, Value>,
}

/// Until when a charge can be paid.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Calendar {
    /// In seconds after it was made.
    #[schema(example = 3000)]
    expiration: u64,
    dueDate: LocalTime,
}

/// Who was asked to pay; `""` for what isn't known.
#[derive(ToSchema)]
pub(in crate::openapi) struct V2Debtor {
    name: String,
    document: String,
}

/// A payment to be sent: the withdrawal of v2.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2NewPayment {
    /// What the payee gets; the fee comes on top.
    amount: Amount,
    creditParty: V2NewCreditParty,
    /// Your own name for it: 1 to 120 visible characters, unique for you, for ever. Send one: without it nothing tells a
    /// repeated request from a second payment.
    #[schema(required = false)]
    external_id: V2Text,
    /// At most 140 characters.
    #[schema(required = false)]
    description: V2Text,
    /// Where its events go: a public http or https URL.
    #[schema(required = false)]
    postbackUrl: V2Text,
    /// The uuid of a payment that this one is just like on purpose.
    #[schema(required = false)]
    allow_duplicate_of: V2Text,
}

/// Who gets the money.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2NewCreditParty {
    keyType: PixKeyTypeIn,
    /// A PIX key that fits its type; a phone number with or without `+55`. A number is read as its digits.
    #[schema(schema_with = key)]
    key: String,
    /// At most 200 characters.
    #[schema(required = false)]
    name: V2Text,
    /// 11 or 14 letters or digits without punctuation.
    #[schema(required = false)]
    taxId: V2Text,
}

/// A PIX key, or its digits as a number.
fn key() -> utoipa::openapi::schema::Object {
    use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Integer]))
        .description(Some(
            "A PIX key that fits its type; a phone number with or without `+55`. A number is read as its digits.",
        ))
        .examples(["11987654321"])
        .build()
}

/// A payment, with whatever else the provider answered.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Payment {
    /// 200.
    #[schema(minimum = 200, maximum = 200, example = 200)]
    statusCode: u16,
    #[schema(example = "Payment accepted")]
    message: String,
    /// The provider's id, else ours.
    transactionId: String,
    /// Yours; `""` when you gave none.
    external_id: String,
    status: V2Status,
    outcome: Outcome,
    amount: Money,
    /// What the provider added.
    #[serde(flatten)]
    others: HashMap<String, Value>,
}

/// A refund to be sent.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2NewRefund {
    /// Of the charge: the provider's id, our uuid with or without hyphens, or the end-to-end id.
    pix_id: V2PixId,
    /// Another name for `pix_id`, which may be left out then.
    #[schema(required = false)]
    pix_Id: V2Text,
    /// All that is left, when it is absent. `null` is refused: a variable that got lost must not refund everything.
    #[schema(required = false)]
    amount: Amount,
    /// Your own name for it: 1 to 120 visible characters, unique for you, for ever. Send one.
    #[schema(required = false)]
    external_id: V2Text,
    /// At most 140 characters.
    #[schema(required = false)]
    description: V2Text,
    /// The uuid of a refund that this one is just like on purpose.
    #[schema(required = false)]
    allow_duplicate_of: V2Text,
}

/// A refund, with whatever else the provider answered.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Refund {
    /// 200.
    #[schema(minimum = 200, maximum = 200, example = 200)]
    statusCode: u16,
    #[schema(example = "Refund accepted")]
    message: String,
    /// The charge's.
    transactionId: String,
    /// The refund's own: the provider's id, else ours.
    refundId: String,
    /// Yours; `""` when you gave none.
    external_id: String,
    amount: Money,
    status: V2Status,
    outcome: Outcome,
    /// What the provider added.
    #[serde(flatten)]
    others: HashMap<String, Value>,
}

/// What to ask the provider about.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2ConsultRequest {
    /// Of a charge, a payment or a refund: the provider's id, our uuid with or without hyphens, or the end-to-end id.
    pix_id: V2PixId,
    /// Another name for `pix_id`, which may be left out then.
    #[schema(required = false)]
    pix_Id: V2Text,
}

/// A charge (`RECEIVEPIX`), a payment (`PAYMENT`) or a refund (`REFUND`).
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Transaction {
    transactionType: V2TransactionType,
    /// The provider's id, else ours.
    transactionId: String,
    /// Yours; `""` when you gave none.
    external_id: String,
    amount: Money,
    #[schema(pattern = "^PIX$", example = "PIX")]
    paymentType: String,
    status: V2Status,
    /// Of payments and refunds.
    #[schema(required = false)]
    outcome: Outcome,
    /// When it was paid; `null` while it isn't.
    #[schema(required = true)]
    dateApproval: Option<LocalTime>,
    creditParty: V2Party,
    debitParty: V2Party,
    /// Of a charge: the sum of what was paid, which may be less than its `amount`, or more.
    #[schema(required = false)]
    amount_paid: Money,
}

/// What is asked about.
#[derive(ToSchema)]
#[schema(rename_all = "UPPERCASE")]
pub(in crate::openapi) enum V2TransactionType {
    ReceivePix,
    Payment,
    Refund,
}

/// Somebody: of a charge, its `creditParty` is whom it asked to pay, its `debitParty` who has paid; of a payment, its
/// `creditParty` is the payee. Nobody is `{}`; what isn't known is `""`.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Party {
    #[schema(required = false)]
    name: String,
    /// CPF or CNPJ without punctuation.
    #[schema(required = false)]
    taxId: String,
    /// Of whom a charge asked to pay.
    #[schema(required = false)]
    email: String,
    /// Of a payee.
    #[schema(required = false)]
    keyType: super::scalars::PixKeyType,
    /// Of a payee.
    #[schema(required = false)]
    key: String,
}

/// A transaction after the provider was asked about it: the same fields within `requestBody` and flat beside it, with
/// whatever else the provider answered.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Consulted {
    requestBody: V2Transaction,
    #[serde(flatten)]
    flat: V2Transaction,
}

/// The available balance.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct V2Balance {
    /// 200.
    #[schema(minimum = 200, maximum = 200, example = 200)]
    statusCode: u16,
    message: V2BalanceMessage,
}

/// The available balance.
#[derive(ToSchema)]
pub(in crate::openapi) struct V2BalanceMessage {
    balance: MoneyText,
}
