//! Events, their deliveries, the receivers, and what is sent to them.

use utoipa::ToSchema;

use super::scalars::{
    EventId, EventType, Id, LocalTime, Money, Outcome, PostbackUrl, ResourceType, Time, V2Status,
};
use super::v2::V2Party;

/// A page of events, oldest first.
#[derive(ToSchema)]
pub(in crate::openapi) struct EventPage {
    #[schema(max_items = 100)]
    data: Vec<Event>,
    meta: FeedMeta,
    links: FeedLinks,
}

/// Where this page lies.
#[derive(ToSchema)]
pub(in crate::openapi) struct FeedMeta {
    #[schema(minimum = 1, maximum = 100)]
    per_page: u32,
    /// For `cursor`: what comes after this page, and what will have happened since. Always there; keep it.
    next_cursor: String,
    /// Whether there are more already.
    has_more: bool,
}

/// The page after this one, with the same filters.
#[derive(ToSchema)]
pub(in crate::openapi) struct FeedLinks {
    /// There while `has_more` is `true`.
    #[schema(required = true, format = "uri")]
    next: Option<String>,
}

/// Something that has happened to one of your transactions.
#[derive(ToSchema)]
pub(in crate::openapi) struct Event {
    id: EventId,
    r#type: EventType,
    /// From 1, without gaps, in the order in which they were stored.
    #[schema(minimum = 1)]
    number: u64,
    /// Grows with each event of the same record, with gaps.
    #[schema(minimum = 1)]
    sequence: u64,
    resource: Resource,
    created_at: Time,
    /// What its postback says; `null` if the record can't be read as it was.
    #[schema(required = true)]
    data: Option<EventData>,
    /// `null` for what goes nowhere, and for what ended more than 30 days ago.
    #[schema(required = true)]
    delivery: Option<Delivery>,
}

/// What an event is about.
#[derive(ToSchema)]
pub(in crate::openapi) struct Resource {
    r#type: ResourceType,
    uuid: Id,
}

/// How telling it stands.
#[derive(ToSchema)]
pub(in crate::openapi) struct Delivery {
    status: DeliveryStatus,
    /// How many attempts there were since it happened, or was last asked for again.
    attempts: u64,
    /// Of what waits: when it is tried next.
    #[schema(required = true)]
    next_attempt_at: Option<Time>,
    /// Of what is dead: why.
    #[schema(required = true)]
    reason: Option<DeadReason>,
}

/// `delivered`: it was taken. `dead`: it isn't tried any more.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(in crate::openapi) enum DeliveryStatus {
    Waiting,
    Delivered,
    Dead,
}

/// `exhausted`: every attempt failed. `endpoint_off`: the receiver is switched off. `forbidden`: the URL is none that
/// postbacks go to. `undeliverable`: there is no URL any more.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(in crate::openapi) enum DeadReason {
    Exhausted,
    EndpointOff,
    Forbidden,
    Undeliverable,
}

/// The attempts to deliver an event, oldest first, at most the last 100.
#[derive(ToSchema)]
pub(in crate::openapi) struct DeliveryList {
    #[schema(max_items = 100)]
    data: Vec<Attempt>,
    /// `null` for what goes nowhere, and for what ended more than 30 days ago.
    #[schema(required = true)]
    delivery: Option<Delivery>,
}

/// An attempt to deliver an event.
#[derive(ToSchema)]
pub(in crate::openapi) struct Attempt {
    id: Id,
    at: Time,
    duration_ms: u64,
    /// The HTTP status; `null` when there was no whole answer.
    #[schema(required = true, minimum = 100, maximum = 999)]
    status: Option<u16>,
    /// `delivered` (2xx), `status` (another one), `timeout`, `dns`, `connect`, `tls`, `closed`, `malformed`, `unsendable`, or
    /// `forbidden_` and why nothing was sent.
    #[schema(example = "delivered")]
    outcome: String,
    /// The beginning of the answer's body, at most 1 KiB; or why the address is forbidden.
    response: String,
}

/// What is to be delivered once more.
#[derive(ToSchema)]
pub(in crate::openapi) struct ReplayRequest {
    /// Events at that time or later.
    since: Option<Time>,
    /// Events before that time; later than `since`.
    until: Option<Time>,
    /// Events of these types; all, when it is left out.
    #[schema(min_items = 1)]
    types: Option<Vec<EventType>>,
    /// `dead`: what was given up. `all`: what was taken too. What waits is left alone.
    status: Option<ReplayStatus>,
    /// How many at most; the oldest come first.
    #[schema(minimum = 1, maximum = 10_000, default = 10_000)]
    limit: Option<u32>,
}

/// Which deliveries.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(in crate::openapi) enum ReplayStatus {
    Dead,
    All,
}

/// How many are delivered once more.
#[derive(ToSchema)]
pub(in crate::openapi) struct Replayed {
    replayed: u64,
}

/// Where to send a trial.
#[derive(ToSchema)]
pub(in crate::openapi) struct TrialRequest {
    url: PostbackUrl,
}

/// What came of a trial.
#[derive(ToSchema)]
pub(in crate::openapi) struct Trial {
    /// Whether the receiver answered 2xx.
    delivered: bool,
    /// The HTTP status; `null` when there was no whole answer.
    #[schema(required = true, minimum = 100, maximum = 999)]
    status: Option<u16>,
    /// As of an attempt.
    #[schema(example = "connect")]
    outcome: String,
    duration_ms: u64,
    /// The beginning of the answer's body, at most 1 KiB.
    response: String,
}

/// Where splits are told of that come to be from now on; `null` for nowhere.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct SplitPostback {
    #[schema(required = true)]
    postbackUrl: Option<PostbackUrl>,
}

/// The receivers that have failed lately, and not worked since.
#[derive(ToSchema)]
pub(in crate::openapi) struct EndpointList {
    data: Vec<FailingEndpoint>,
}

/// A receiver that fails.
#[derive(ToSchema)]
pub(in crate::openapi) struct FailingEndpoint {
    id: Id,
    /// The URL without its query.
    address: String,
    failing_since: Time,
    last_failure_at: Time,
    /// `status_` and the HTTP status, or the `outcome` of an attempt.
    #[schema(example = "status_500")]
    failure: String,
    /// Since when nothing is sent there; `null` while something is.
    #[schema(required = true)]
    off: Option<EndpointOff>,
}

/// A receiver is switched off.
#[derive(ToSchema)]
pub(in crate::openapi) struct EndpointOff {
    at: Time,
    reason: OffReason,
}

/// `gone`: it answered 410. `failing`: it failed for 120 hours.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(in crate::openapi) enum OffReason {
    Gone,
    Failing,
}

/// A receiver that is switched on again.
#[derive(ToSchema)]
pub(in crate::openapi) struct EndpointOn {
    id: Id,
    /// `null`: it is on.
    off: super::scalars::Nothing,
}

/// What is told of an event: the record as it was right after it, in the classic contract's words.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct EventData {
    transactionType: TransactionType,
    /// The provider's id, else ours.
    transactionId: String,
    /// Yours; `""` when you gave none, the `uuid` of a split, never `null`.
    external_id: String,
    /// What this event moved, where it moved something (`cashin.confirmed`, `cashin.paid_again`, `cashin.refunded`,
    /// `cashin.refund_failed`, `cashin.taken_back`, `cashout.returned` as `REVERTPIX`, `split.received`, `split.taken_back`);
    /// else what the record is over.
    amount: Money,
    #[schema(pattern = "^PIX$", example = "PIX")]
    paymentType: String,
    status: V2Status,
    /// Of withdrawals and refunds.
    #[schema(required = false)]
    outcome: Outcome,
    /// When it was paid; `null` while it isn't.
    #[schema(required = true)]
    dateApproval: Option<LocalTime>,
    creditParty: V2Party,
    debitParty: V2Party,
    /// Of a charge: the sum of its payments.
    #[schema(required = false)]
    amount_paid: Money,
    /// Of the end of a withdrawal, which is every `PAYMENT`.
    #[schema(required = false)]
    statusCode: PaymentStatus,
    event: EventType,
    eventId: EventId,
    /// Grows with each event of the same charge, withdrawal or split, with gaps.
    #[schema(minimum = 1)]
    sequence: u64,
    /// Of the charge, withdrawal, refund or split.
    uuid: Id,
    /// The uuid of the refund, of events of a charge that are about one.
    #[schema(required = false)]
    refundId: Id,
}

/// What an event is called in the classic contract, or beside it. `RECEIVEPIX` is said of `cashin.confirmed` and of nothing
/// else: credit upon that, and once for each `eventId`.
#[derive(ToSchema)]
#[schema(rename_all = "UPPERCASE")]
pub(in crate::openapi) enum TransactionType {
    ReceivePix,
    CreatedPix,
    FailedPix,
    AdditionalPix,
    ExpiredPix,
    CanceledPix,
    PixReversal,
    PixReversalFailed,
    DisputePix,
    Payment,
    UnsettledPix,
    RevertPix,
    Refund,
    Split,
    SplitReversal,
}

/// How a withdrawal ended: 1 for paid, 3 for failed, canceled or returned whole.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct PaymentStatus {
    #[schema(minimum = 1, maximum = 3)]
    statusId: u8,
    #[schema(example = "Paid")]
    description: String,
}

/// The body of a postback: the same fields within `requestBody` and flat beside it.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct Postback {
    requestBody: EventData,
    #[serde(flatten)]
    flat: EventData,
}

/// A trial: it names no transaction.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct PingData {
    #[schema(pattern = "^PING$", example = "PING")]
    transactionType: String,
    #[schema(pattern = "^ping$", example = "ping")]
    event: String,
    #[schema(pattern = "^evt_ping_[0-9a-f]{32}$")]
    eventId: String,
    sent_at: Time,
}

/// The body of a trial: the same fields within `requestBody` and flat beside it.
#[derive(ToSchema)]
#[expect(non_snake_case, reason = "as on the wire")]
pub(in crate::openapi) struct Ping {
    requestBody: PingData,
    #[serde(flatten)]
    flat: PingData,
}
