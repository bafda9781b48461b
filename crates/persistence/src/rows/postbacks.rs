//! Rows of what integrators are told, its deliveries, and the numbers of secrets.

use diesel::prelude::{AsChangeset, Insertable, Queryable, Selectable};
use pix_domain::charges::{ChargeState, Failure};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind, Version};
use pix_domain::postbacks::delivery::{
    Attempt, DeadReason, DeliveryState, Endpoint, EndpointId, OffReason, Standing,
};
use pix_domain::postbacks::events::{EventKey, Snapshot, StoredEvent, Told};
use pix_domain::postbacks::secrets::SecretVersion;
use pix_domain::time::Timestamp;
use pix_domain::transition::EventKind;
use pix_domain::withdrawals::OutgoingState;
use serde::{Deserialize, Serialize};

use crate::codec::{self, DbId, DbTime, damaged};
use crate::schema::{deliveries, delivery_attempts, endpoints, events, postback_secrets};

/// What a delivery and its event are found by.
pub type DeliveryKey = (DbId, String, DbId, i64);

/// The key's columns.
pub fn key_of(key: EventKey) -> DeliveryKey {
    let EventKey { resource, sequence } = key;
    (resource.integrator_id.into(), resource.kind.as_str().to_owned(), DbId(resource.id), sequence.0.into())
}

/// A snapshot as it is kept: what is nothing is left out.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Kept {
    /// A split has none.
    #[serde(skip_serializing_if = "is_default")]
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<(String, String)>,
    #[serde(skip_serializing_if = "is_default")]
    amount_paid: i64,
    #[serde(skip_serializing_if = "is_default")]
    fee: i64,
    #[serde(skip_serializing_if = "is_default")]
    payments: u32,
    #[serde(skip_serializing_if = "is_default")]
    refund_reserved: i64,
    #[serde(skip_serializing_if = "is_default")]
    refunded: i64,
    #[serde(skip_serializing_if = "is_default")]
    taken_back: i64,
    #[serde(skip_serializing_if = "is_default")]
    returned: i64,
    #[serde(skip_serializing_if = "is_default")]
    settled_late: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<i64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const SNAPSHOT: &str = "events.snapshot";

impl Kept {
    fn of(snapshot: &Snapshot) -> Self {
        let outgoing = |state: &OutgoingState, completed_at: Option<Timestamp>| Self {
            state: state.name().to_owned(),
            failure: match state {
                OutgoingState::Failed(failure) => Some((failure.code.clone(), failure.message.clone())),
                _ => None,
            },
            completed_at: completed_at.map(Timestamp::micros),
            ..Self::default()
        };
        match snapshot {
            Snapshot::Charge { state, amount_paid, fee, payments, refund_reserved, refunded, taken_back } => {
                Self {
                    state: state.name().to_owned(),
                    failure: match state {
                        ChargeState::Failed(failure) => Some((failure.code.clone(), failure.message.clone())),
                        _ => None,
                    },
                    amount_paid: amount_paid.get(),
                    fee: fee.get(),
                    payments: *payments,
                    refund_reserved: refund_reserved.get(),
                    refunded: refunded.get(),
                    taken_back: taken_back.get(),
                    ..Self::default()
                }
            }
            Snapshot::Withdrawal { state, returned, settled_late, completed_at } => Self {
                returned: returned.get(),
                settled_late: *settled_late,
                ..outgoing(state, *completed_at)
            },
            Snapshot::Refund { state, completed_at } => outgoing(state, *completed_at),
            Snapshot::Split { amount, taken_back } => {
                Self { amount_paid: amount.get(), taken_back: taken_back.get(), ..Self::default() }
            }
        }
    }

    fn read(self, kind: ResourceKind) -> Result<Snapshot, StoreError> {
        let cents = |value| codec::cents(SNAPSHOT, value);
        let completed_at = self.completed_at.map(Timestamp::from_micros);
        let (code, message) = self.failure.unzip();
        Ok(match kind {
            ResourceKind::Charge => Snapshot::Charge {
                state: match self.state.as_str() {
                    "creating" => ChargeState::Creating,
                    "pending" => ChargeState::Pending,
                    "paid" => ChargeState::Paid,
                    "expired" => ChargeState::Expired,
                    "canceled" => ChargeState::Canceled,
                    "failed" => {
                        let Failure { code, message } = codec::failure(SNAPSHOT, code, message)?;
                        ChargeState::Failed(Failure { code, message })
                    }
                    _ => return Err(damaged(SNAPSHOT, "in a state this program knows")),
                },
                amount_paid: cents(self.amount_paid)?,
                fee: cents(self.fee)?,
                payments: self.payments,
                refund_reserved: cents(self.refund_reserved)?,
                refunded: cents(self.refunded)?,
                taken_back: cents(self.taken_back)?,
            },
            ResourceKind::Withdrawal => Snapshot::Withdrawal {
                state: codec::outgoing_state(SNAPSHOT, &self.state, code, message)?,
                returned: cents(self.returned)?,
                settled_late: self.settled_late,
                completed_at,
            },
            ResourceKind::Refund => Snapshot::Refund {
                state: codec::outgoing_state(SNAPSHOT, &self.state, code, message)?,
                completed_at,
            },
            ResourceKind::Split => {
                Snapshot::Split { amount: cents(self.amount_paid)?, taken_back: cents(self.taken_back)? }
            }
        })
    }
}

/// A public event as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = events, treat_none_as_default_value = false)]
pub struct ToldRow {
    pub integrator_id: DbId,
    pub resource_kind: String,
    pub resource_id: DbId,
    pub sequence: i64,
    pub kind: String,
    pub created_at: DbTime,
    pub number: Option<i64>,
    pub moved_cents: Option<i64>,
    pub related_id: Option<DbId>,
    pub snapshot: Option<String>,
}

impl ToldRow {
    /// The row of what is told, with its number.
    pub fn new(told: &Told, number: i64) -> Self {
        let (integrator_id, resource_kind, resource_id, sequence) = key_of(told.key);
        Self {
            integrator_id,
            resource_kind,
            resource_id,
            sequence,
            kind: told.kind.as_str().to_owned(),
            created_at: DbTime(told.at),
            number: Some(number),
            moved_cents: Some(told.moved.get()),
            related_id: told.related.map(DbId),
            snapshot: Some(snapshot_text(&told.snapshot)),
        }
    }
}

/// A snapshot as it is kept.
pub fn snapshot_text(snapshot: &Snapshot) -> String {
    // Texts and numbers: there is nothing in it that can't be written.
    serde_json::to_string(&Kept::of(snapshot)).unwrap_or_default()
}

impl TryFrom<ToldRow> for StoredEvent {
    type Error = StoreError;

    fn try_from(row: ToldRow) -> Result<Self, StoreError> {
        let resource =
            codec::resource("events.resource_kind", row.integrator_id, &row.resource_kind, row.resource_id)?;
        let (Some(number), Some(moved), Some(snapshot)) = (row.number, row.moved_cents, &row.snapshot) else {
            return Err(damaged("events.number", "there together with what is told"));
        };
        let kept: Kept =
            serde_json::from_str(snapshot).ok().ok_or_else(|| damaged(SNAPSHOT, "a snapshot"))?;
        Ok(Self {
            number: codec::entry_number("events.number", number)?,
            key: EventKey { resource, sequence: Version(codec::number("events.sequence", row.sequence)?) },
            kind: codec::named("events.kind", &row.kind, EventKind::from_name)?,
            at: row.created_at.0,
            moved: codec::cents("events.moved_cents", moved)?,
            related: row.related_id.map(|id| id.0),
            snapshot: kept.read(resource.kind)?,
        })
    }
}

const WAITING: &str = "waiting";
const DELIVERED: &str = "delivered";
const DEAD: &str = "dead";

/// The columns of where a delivery stands: its state, the reason, and when it is due.
pub const fn state_of_standing(standing: Standing) -> (&'static str, Option<&'static str>, Option<DbTime>) {
    match standing {
        Standing::Waiting(at) => (WAITING, None, Some(DbTime(at))),
        Standing::Delivered => (DELIVERED, None, None),
        Standing::Dead(reason) => (DEAD, Some(reason.as_str()), None),
    }
}

/// Where a delivery with these columns stands.
pub fn standing_of(
    state: &str,
    reason: Option<&str>,
    due_at: Option<DbTime>,
    attempts: i64,
) -> Result<DeliveryState, StoreError> {
    let standing = match (state, reason, due_at) {
        (WAITING, None, Some(at)) => Standing::Waiting(at.0),
        (DELIVERED, None, None) => Standing::Delivered,
        (DEAD, Some(reason), None) => {
            Standing::Dead(codec::named("deliveries.reason", reason, DeadReason::from_name)?)
        }
        _ => return Err(damaged("deliveries.state", "a state this program knows, with what belongs to it")),
    };
    Ok(DeliveryState { standing, attempts: codec::number("deliveries.attempts", attempts)? })
}

/// A delivery as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = deliveries, treat_none_as_default_value = false)]
pub struct DeliveryRow {
    pub integrator_id: DbId,
    pub resource_kind: String,
    pub resource_id: DbId,
    pub sequence: i64,
    pub lane: DbId,
    pub state: String,
    pub reason: Option<String>,
    pub due_at: Option<DbTime>,
    pub attempts: i64,
    pub claims: i64,
    pub created_at: DbTime,
}

impl DeliveryRow {
    /// The row of a new one, of an event at `created_at`, due at `due_at`.
    pub fn new(key: EventKey, lane: DbId, created_at: Timestamp, due_at: Timestamp) -> Self {
        let (integrator_id, resource_kind, resource_id, sequence) = key_of(key);
        Self {
            integrator_id,
            resource_kind,
            resource_id,
            sequence,
            lane,
            state: WAITING.to_owned(),
            reason: None,
            due_at: Some(DbTime(due_at)),
            attempts: 0,
            claims: 0,
            created_at: DbTime(created_at),
        }
    }
}

/// An attempt as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = delivery_attempts, treat_none_as_default_value = false)]
pub struct AttemptRow {
    pub integrator_id: DbId,
    pub resource_kind: String,
    pub resource_id: DbId,
    pub sequence: i64,
    pub id: DbId,
    pub created_at: DbTime,
    pub took_ms: i64,
    pub status: Option<i64>,
    pub outcome: String,
    pub excerpt: String,
}

impl AttemptRow {
    /// The row of an attempt at the delivery of `key`.
    pub fn new(key: EventKey, attempt: Attempt) -> Self {
        let (integrator_id, resource_kind, resource_id, sequence) = key_of(key);
        Self {
            integrator_id,
            resource_kind,
            resource_id,
            sequence,
            id: DbId(attempt.id),
            created_at: DbTime(attempt.at),
            took_ms: attempt.took_ms.into(),
            status: attempt.status.map(i64::from),
            outcome: attempt.outcome,
            // A NUL is no text to PostgreSQL, and says nothing to anybody.
            excerpt: attempt.excerpt.replace('\0', "\u{fffd}"),
        }
    }
}

impl TryFrom<AttemptRow> for Attempt {
    type Error = StoreError;

    fn try_from(row: AttemptRow) -> Result<Self, StoreError> {
        let status = row.status.map(|status| {
            u16::try_from(status).ok().ok_or_else(|| damaged("delivery_attempts.status", "a status of HTTP"))
        });
        Ok(Self {
            id: row.id.0,
            at: row.created_at.0,
            took_ms: codec::number("delivery_attempts.took_ms", row.took_ms)?,
            status: status.transpose()?,
            outcome: row.outcome,
            excerpt: row.excerpt,
        })
    }
}

/// An endpoint as it is kept.
#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = endpoints, primary_key(integrator_id, id))]
#[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
pub struct EndpointRow {
    pub integrator_id: DbId,
    pub id: DbId,
    pub address: String,
    pub failing_since: DbTime,
    pub failed_at: DbTime,
    pub failure: String,
    pub off_at: Option<DbTime>,
    pub off_reason: Option<String>,
}

impl From<Endpoint> for EndpointRow {
    fn from(endpoint: Endpoint) -> Self {
        let (off_at, off_reason) = endpoint.off.unzip();
        Self {
            integrator_id: endpoint.integrator_id.into(),
            id: DbId(endpoint.id.0),
            address: endpoint.address,
            failing_since: DbTime(endpoint.failing_since),
            failed_at: DbTime(endpoint.failed_at),
            failure: endpoint.failure,
            off_at: off_at.map(DbTime),
            off_reason: off_reason.map(|reason| reason.as_str().to_owned()),
        }
    }
}

impl TryFrom<EndpointRow> for Endpoint {
    type Error = StoreError;

    fn try_from(row: EndpointRow) -> Result<Self, StoreError> {
        let off = match (row.off_at, row.off_reason) {
            (None, None) => None,
            (Some(at), Some(reason)) => {
                Some((at.0, codec::named("endpoints.off_reason", &reason, OffReason::from_name)?))
            }
            _ => return Err(damaged("endpoints.off_at", "there together with its reason")),
        };
        Ok(Self {
            id: EndpointId(row.id.0),
            integrator_id: IntegratorId(row.integrator_id.0),
            address: row.address,
            failing_since: row.failing_since.0,
            failed_at: row.failed_at.0,
            failure: row.failure,
            off,
        })
    }
}

/// The number and dates of a secret as they are kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = postback_secrets, treat_none_as_default_value = false)]
pub struct SecretRow {
    pub integrator_id: DbId,
    pub number: i64,
    pub key_id: String,
    pub created_at: DbTime,
    pub retired_at: Option<DbTime>,
}

impl From<SecretVersion> for SecretRow {
    fn from(version: SecretVersion) -> Self {
        Self {
            integrator_id: version.integrator_id.into(),
            number: version.number.into(),
            key_id: version.key_id,
            created_at: DbTime(version.created_at),
            retired_at: version.retired_at.map(DbTime),
        }
    }
}

impl TryFrom<SecretRow> for SecretVersion {
    type Error = StoreError;

    fn try_from(row: SecretRow) -> Result<Self, StoreError> {
        Ok(Self {
            integrator_id: IntegratorId(row.integrator_id.0),
            number: codec::number("postback_secrets.number", row.number)?,
            key_id: row.key_id,
            created_at: row.created_at.0,
            retired_at: row.retired_at.map(|at| at.0),
        })
    }
}
