//! Charges, withdrawals, refunds, splits and the balance of v1.

use utoipa::ToSchema;

use super::scalars::{
    Amount, AnyUuid, ChargeFlag, ChargeStatus, ConsultedType, Currency, Description, Email, Expiration,
    ExternalId, Id, Metadata, Money, Outcome, PayerQuestion, Percentage, PercentageIn, PersonName, PixKey,
    PixKeyType, PixKeyTypeIn, PostbackUrl, RefundStatus, TaxId, Time, TwinId, WithdrawalStatus,
};
use serde_json::Value;

/// A charge to be made. Unknown fields are ignored.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct NewCharge {
    amount: Amount,
    payer: NewPayer,
    /// Made when absent: `chg-` and 26 characters. Send one: it makes a repeated request harmless.
    external_id: Option<ExternalId>,
    /// What the payer is shown.
    payerQuestion: Option<PayerQuestion>,
    metadata: Option<Metadata>,
    /// Where its events go.
    postbackUrl: Option<PostbackUrl>,
    expiration: Option<Expiration>,
    /// Who gets what part of it; at most 10 others, each once. The percentages sum to 100 at most, and all parts to what the
    /// charge brings net of its fee.
    #[schema(max_items = 10)]
    split: Option<Vec<NewShare>>,
}

/// A part of a charge for another integrator, in v1's words or in the family's.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::openapi) enum NewShare {
    Percentage(PercentageShare),
    Amount(AmountShare),
    Family(FamilyShare),
}

/// A share of what each payment brings net of its fee, rounded down to the centavo.
#[derive(ToSchema)]
pub(in crate::openapi) struct PercentageShare {
    /// The integrator that gets it.
    recipient: AnyUuid,
    percentage: PercentageIn,
}

/// A fixed amount, once for the charge, taken before any percentage.
#[derive(ToSchema)]
pub(in crate::openapi) struct AmountShare {
    /// The integrator that gets it.
    recipient: AnyUuid,
    amount: Amount,
}

/// The same as a percentage, as clients of the family say it.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct FamilyShare {
    /// The integrator that gets it.
    username: AnyUuid,
    percentageSplit: PercentageIn,
}

/// Who is to pay.
#[derive(ToSchema)]
pub(in crate::openapi) struct NewPayer {
    name: PersonName,
    document: TaxId,
    email: Option<Email>,
}

/// A charge: money to come in by a dynamic QR code.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct Charge {
    uuid: Id,
    external_id: ExternalId,
    status: ChargeStatus,
    /// Of a `failed` charge: the code of its failure.
    #[schema(required = true)]
    substatus: Option<String>,
    outcome: Outcome,
    /// What was asked for.
    amount: Money,
    /// The sum of what was paid, which may differ.
    amount_paid: Money,
    /// The sum of the refunds that have gone out.
    refunded_amount: Money,
    /// What the provider has sent back that nobody here asked it to.
    taken_back_amount: Money,
    /// What the gateway kept of it; `null` until it is paid.
    #[schema(required = true)]
    fee: Option<Money>,
    /// What was credited to the wallet; `null` until it is paid.
    #[schema(required = true)]
    net_amount: Option<Money>,
    currency: Currency,
    payer: Payer,
    #[schema(required = true)]
    payerQuestion: Option<String>,
    metadata: Metadata,
    /// Who gets what part of it; `null` when all of it is yours.
    #[schema(required = true)]
    split: Option<Vec<Share>>,
    /// The text of the QR code (BR Code), to be shown to the payer and to be copied; `null` while there is none.
    #[schema(required = true)]
    qrcode: Option<String>,
    /// The provider's id; `null` while it is not known.
    #[schema(required = true)]
    pix_id: Option<String>,
    /// The end-to-end id of the first payment.
    #[schema(required = true)]
    end_to_end_id: Option<String>,
    #[schema(required = true)]
    postbackUrl: Option<String>,
    /// Until when it can be paid.
    expires_at: Time,
    /// When the first payment was made.
    #[schema(required = true)]
    paid_at: Option<Time>,
    /// It was paid after it had expired or been canceled; the money was credited all the same.
    paid_late: bool,
    flags: Vec<ChargeFlag>,
    #[schema(required = true)]
    failure: Option<Failure>,
    created_at: Time,
    updated_at: Time,
    links: ChargeLinks,
}

/// Another integrator's part of a charge.
#[derive(ToSchema)]
pub(in crate::openapi) struct Share {
    /// Of its split, which the recipient knows it by.
    uuid: Id,
    /// The integrator that gets it.
    recipient: Id,
    /// As it was asked for; `null` of a fixed amount.
    #[schema(required = true)]
    percentage: Option<Percentage>,
    /// As it was asked for; `null` of a percentage.
    #[schema(required = true)]
    amount: Option<Money>,
    /// What the payments brought it.
    received: Money,
    /// What of that went back with what was sent back of the payments.
    taken_back: Money,
}

/// A part of somebody else's charge, paid into your wallet.
#[derive(ToSchema)]
pub(in crate::openapi) struct Split {
    uuid: Id,
    /// The integrator whose charge it is a part of.
    from: Id,
    /// What it brought.
    amount: Money,
    /// What of that was taken back, since the payment was sent back or refunded.
    taken_back: Money,
    /// What is left of it: `amount` less `taken_back`.
    net_amount: Money,
    currency: Currency,
    created_at: Time,
    updated_at: Time,
    links: SelfLink,
}

/// Where it is, and what is shown of it.
#[derive(ToSchema)]
pub(in crate::openapi) struct ChargeLinks {
    /// Its URL.
    #[schema(format = "uri", rename = "self")]
    itself: String,
    /// The URL of its QR code as a picture, which needs a token.
    #[schema(format = "uri")]
    qrcode_svg: String,
    /// The URL of its payment page, which needs none.
    #[schema(format = "uri")]
    pay: String,
}

/// What a payer may know of where a charge stands.
#[derive(ToSchema)]
pub(in crate::openapi) struct PayerStatus {
    status: ChargeStatus,
    /// Until when it can be paid.
    expires_at: Time,
}

/// Who was asked to pay.
#[derive(ToSchema)]
pub(in crate::openapi) struct Payer {
    #[schema(required = true)]
    name: Option<String>,
    /// CPF or CNPJ without punctuation.
    #[schema(required = true)]
    document: Option<String>,
    #[schema(required = true)]
    email: Option<String>,
}

/// Why it failed.
#[derive(ToSchema)]
pub(in crate::openapi) struct Failure {
    /// For programs.
    #[schema(example = "invalid_key")]
    code: String,
    /// For people.
    #[schema(example = "key not found")]
    message: String,
}

/// Where it is.
#[derive(ToSchema)]
pub(in crate::openapi) struct SelfLink {
    /// Its URL.
    #[schema(format = "uri", rename = "self")]
    itself: String,
}

/// A withdrawal to be sent. Unknown fields are ignored.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct NewWithdrawal {
    /// What the payee gets; the fee comes on top.
    amount: Amount,
    creditParty: NewCreditParty,
    /// Made when absent: `wdr-` and 26 characters. Send one: without it nothing tells a repeated request from a second
    /// payment.
    external_id: Option<ExternalId>,
    description: Option<Description>,
    metadata: Option<Metadata>,
    /// Where its events go.
    postbackUrl: Option<PostbackUrl>,
    /// The uuid of a withdrawal that this one is just like on purpose.
    allow_duplicate_of: Option<TwinId>,
}

/// Who gets the money.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct NewCreditParty {
    name: PersonName,
    keyType: PixKeyTypeIn,
    key: PixKey,
    /// Whose the key is.
    taxId: TaxId,
}

/// A withdrawal: money sent out of the wallet.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct Withdrawal {
    uuid: Id,
    external_id: ExternalId,
    status: WithdrawalStatus,
    /// Where in its status: `queued`; `submitting`, `accepted`, `uncertain`, `needs_review`; `settled`; the code of a failure;
    /// `by_integrator`; `full`.
    #[schema(example = "settled")]
    substatus: String,
    outcome: Outcome,
    /// What the payee gets.
    amount: Money,
    fee: Money,
    /// Amount and fee.
    total: Money,
    currency: Currency,
    creditParty: CreditParty,
    #[schema(required = true)]
    description: Option<String>,
    metadata: Metadata,
    /// The provider's id; `null` while it is not known.
    #[schema(required = true)]
    pix_id: Option<String>,
    #[schema(required = true)]
    end_to_end_id: Option<String>,
    #[schema(required = true)]
    failure: Option<Failure>,
    /// What came back of it.
    returned_amount: Money,
    /// It left after all, though it is `failed` or `canceled`.
    settled_late: bool,
    #[schema(required = true)]
    postbackUrl: Option<String>,
    created_at: Time,
    updated_at: Time,
    /// When it became final.
    #[schema(required = true)]
    completed_at: Option<Time>,
    links: SelfLink,
}

/// What a withdrawal would cost, and whether it would be made.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct Quote {
    /// The same request would make a withdrawal now; `false` also where its handle stands for one already (`replays`).
    accepted: bool,
    amount: Money,
    fee: Money,
    /// The version of the fees that says so.
    #[schema(minimum = 0)]
    fee_version: u32,
    /// Amount and fee; `null` when that is more than any wallet can hold.
    #[schema(required = true)]
    total: Option<Money>,
    currency: Currency,
    creditParty: CreditParty,
    balance: WalletBalance,
    /// As the request would leave it; `null` when it would not be accepted.
    #[schema(required = true)]
    balance_after: Option<WalletBalance>,
    /// What the available balance lacks; 0 when it is enough.
    shortfall: Money,
    /// The limits of what may go out, as they stand for this payee.
    limits: Vec<LimitStanding>,
    /// The withdrawal that this one is too much like.
    #[schema(required = true)]
    duplicate_of: Option<Id>,
    /// The withdrawal that the same handle stands for already, and that would be the answer.
    #[schema(required = true)]
    replays: Option<Id>,
    /// Why it would be refused.
    #[schema(required = true)]
    refusal: Option<Refusal>,
}

/// A wallet's sums.
#[derive(ToSchema)]
pub(in crate::openapi) struct WalletBalance {
    available: Money,
    held: Money,
    owed: Money,
}

/// What the error of the request would say.
#[derive(ToSchema)]
pub(in crate::openapi) struct Refusal {
    #[schema(minimum = 400, maximum = 599, example = 422)]
    status: u16,
    #[schema(example = "insufficient_balance")]
    code: String,
    detail: String,
}

/// Who gets the money.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct CreditParty {
    #[schema(required = true)]
    name: Option<String>,
    keyType: PixKeyType,
    /// The key as the directory of PIX keys knows it.
    key: String,
    /// CPF or CNPJ without punctuation.
    #[schema(required = true)]
    taxId: Option<String>,
}

/// A refund to be sent. Unknown fields are ignored.
#[derive(ToSchema)]
pub(in crate::openapi) struct NewRefund {
    /// All that is left, when it is absent. `null` is refused: a variable that got lost must not refund everything.
    #[schema(required = false)]
    amount: Amount,
    /// Made when absent: `rfd-` and 26 characters. Send one.
    external_id: Option<ExternalId>,
    description: Option<Description>,
    /// The uuid of a refund that this one is just like on purpose.
    allow_duplicate_of: Option<TwinId>,
}

/// A refund: money of a paid charge, sent back to who paid it.
#[derive(ToSchema)]
pub(in crate::openapi) struct Refund {
    uuid: Id,
    /// Of which charge.
    charge: Id,
    external_id: ExternalId,
    status: RefundStatus,
    /// Where in its status: `queued`, `submitting`, `accepted`, `uncertain`, `needs_review`; `settled`; the code of a failure.
    #[schema(example = "settled")]
    substatus: String,
    outcome: Outcome,
    amount: Money,
    fee: Money,
    /// Amount and fee.
    total: Money,
    currency: Currency,
    #[schema(required = true)]
    description: Option<String>,
    /// The provider's id; `null` while it is not known.
    #[schema(required = true)]
    pix_id: Option<String>,
    /// The id of the return itself (`D…`).
    #[schema(required = true)]
    return_id: Option<String>,
    #[schema(required = true)]
    failure: Option<Failure>,
    created_at: Time,
    updated_at: Time,
    /// When it became final.
    #[schema(required = true)]
    completed_at: Option<Time>,
    links: RefundLinks,
}

/// Where it is, and its charge.
#[derive(ToSchema)]
pub(in crate::openapi) struct RefundLinks {
    /// Its URL.
    #[schema(format = "uri", rename = "self")]
    itself: String,
    /// The URL of its charge.
    #[schema(format = "uri")]
    charge: String,
}

/// The wallet.
#[derive(ToSchema)]
pub(in crate::openapi) struct Balance {
    /// What can be withdrawn.
    available: Money,
    /// What is promised to withdrawals and refunds that are not final.
    held: Money,
    /// What the wallet lacks for money that has left already; what comes in pays that first.
    owed: Money,
    currency: Currency,
}

/// The limits of what may go out.
#[derive(ToSchema)]
pub(in crate::openapi) struct Limits {
    /// Goes up by one with every change; 0 when none was ever set.
    #[schema(minimum = 0)]
    version: u32,
    /// Where days and nights begin.
    #[schema(example = "America/Sao_Paulo")]
    time_zone: String,
    data: Vec<LimitStanding>,
}

/// One limit, and what counts against it.
#[derive(ToSchema)]
pub(in crate::openapi) struct LimitStanding {
    name: LimitName,
    unit: LimitUnit,
    /// The most that it allows.
    #[schema(required = true)]
    limit: Option<Money>,
    /// What counts against it; `null` when that depends on a payee and none is named.
    #[schema(required = true)]
    used: Option<Money>,
    #[schema(required = true)]
    left: Option<Money>,
    /// It holds for a withdrawal now: a limit of the night doesn't by day, one of new payees doesn't for others.
    applies: bool,
    /// When nothing of what is used counts any more, where that is at one moment.
    #[schema(required = true)]
    resets_at: Option<Time>,
    /// A raise that waits.
    #[schema(required = true)]
    next: Option<LimitRaise>,
}

/// A raise that waits.
#[derive(ToSchema)]
pub(in crate::openapi) struct LimitRaise {
    /// `null` for no limit.
    #[schema(required = true)]
    limit: Option<Money>,
    at: Time,
}

/// What is limited: one withdrawal; the amounts of a day; of a night (20:00 or 22:00 to 06:00); of a day to one PIX key; to a
/// key until a day after the first payment to it; the number in 60 minutes.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "only described")]
pub(in crate::openapi) enum LimitName {
    PerTransaction,
    PerDay,
    AtNight,
    LateAtNight,
    PerPayee,
    NewPayee,
    PerHour,
}

/// Reais, or a number of withdrawals.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described")]
pub(in crate::openapi) enum LimitUnit {
    #[schema(rename = "BRL")]
    Brl,
    #[schema(rename = "withdrawals")]
    Withdrawals,
}

/// What to ask the provider about: `uuid` or `external_id`, or both if they name the same transaction.
#[derive(ToSchema)]
pub(in crate::openapi) struct ConsultRequest {
    uuid: Option<AnyUuid>,
    external_id: Option<ExternalId>,
}

/// A transaction after the provider was asked about it.
#[derive(ToSchema)]
pub(in crate::openapi) struct Consulted {
    r#type: ConsultedType,
    transaction: AnyTransaction,
    provider: ProviderView,
}

/// A charge, a withdrawal or a refund, as `type` says.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::openapi) enum AnyTransaction {
    Charge(Charge),
    Withdrawal(Withdrawal),
    Refund(Refund),
}

/// What the provider said.
#[derive(ToSchema)]
pub(in crate::openapi) struct ProviderView {
    /// The provider's own word; `not_found` when it doesn't know the transaction; `null` when it could not be asked.
    #[schema(required = true, example = "PAID")]
    status: Option<String>,
    /// When it was asked; `null` when it could not be.
    #[schema(required = true)]
    checked_at: Option<Time>,
    /// Its answer as it came.
    #[schema(required = true, value_type = Option<std::collections::HashMap<String, Value>>)]
    body: Option<Value>,
    /// Why it could not be asked: `provider_rejected`, `provider_unavailable` or `provider_timeout`.
    #[schema(required = false, example = "provider_unavailable")]
    error: String,
}
