//! How single values are kept: ids, times, quantities and texts. Knows no table and no database.
//!
//! Nothing here ever puts a stored value in an error: it may be personal data.

use std::collections::BTreeMap;

use diesel::deserialize::FromSqlRow;
use diesel::expression::AsExpression;
use diesel::query_builder::QueryId;
use diesel::sql_types::SqlType;
use pix_domain::charges::Failure;
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceKind, ResourceRef};
use pix_domain::metadata::Metadata;
use pix_domain::money::{Amount, Cents};
use pix_domain::postbacks::events::PostbackScope;
use pix_domain::provider::{Party, ProviderId, ReceiptKey};
use pix_domain::time::Timestamp;
use pix_domain::withdrawals::OutgoingState;
use uuid::Uuid;

diesel::define_sql_function! {
    /// A text in lower case.
    fn lower(text: diesel::sql_types::Text) -> diesel::sql_types::Text;
}

/// The SQL type of an id.
#[derive(Debug, Clone, Copy, SqlType, QueryId)]
#[diesel(sqlite_type(name = "Text"))]
// uuid and uuid[]
#[diesel(postgres_type(oid = 2950, array_oid = 2951))]
pub struct Id;

/// The SQL type of an instant.
#[derive(Debug, Clone, Copy, SqlType, QueryId)]
#[diesel(sqlite_type(name = "Long"))]
// bigint and bigint[]
#[diesel(postgres_type(oid = 20, array_oid = 1016))]
pub struct Instant;

/// An id as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, AsExpression, FromSqlRow)]
#[diesel(sql_type = Id)]
pub struct DbId(pub Uuid);

impl From<IntegratorId> for DbId {
    fn from(id: IntegratorId) -> Self {
        Self(id.0)
    }
}

/// An instant as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, AsExpression, FromSqlRow)]
#[diesel(sql_type = Instant)]
pub struct DbTime(pub Timestamp);

/// Which events go out, as it is kept of a record.
pub const fn postback_scope(all: bool) -> PostbackScope {
    if all { PostbackScope::All } else { PostbackScope::Outcomes }
}

/// What `withdrawals_by_reference` and `refunds_by_reference` have of an id: from its version on, as text.
pub fn reference_key(timeless: Uuid) -> String {
    timeless.to_string().split_off(14)
}

/// The error of a column whose value can't be understood.
pub fn damaged(column: &str, expected: &str) -> StoreError {
    StoreError::Damaged(format!("{column} is not {expected}"))
}

/// Any quantity of money.
pub fn cents(column: &str, value: i64) -> Result<Cents, StoreError> {
    Cents::new(value).ok_or_else(|| damaged(column, "a quantity of centavos"))
}

/// The amount of one PIX.
pub fn amount(column: &str, value: i64) -> Result<Amount, StoreError> {
    Amount::from_cents(value).ok().ok_or_else(|| damaged(column, "an amount of centavos"))
}

/// A version or a small count.
pub fn number(column: &str, value: i64) -> Result<u32, StoreError> {
    u32::try_from(value).ok().ok_or_else(|| damaged(column, "a number of 32 bits"))
}

/// The number of an entry.
pub fn entry_number(column: &str, value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).ok().ok_or_else(|| damaged(column, "the number of an entry"))
}

/// A quantity that is never below nothing.
pub fn quantity(column: &str, value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).ok().ok_or_else(|| damaged(column, "a quantity"))
}

/// The number after which entries are looked for: none is kept with a larger one.
pub fn after(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The number of an entry, to be kept.
pub fn to_entry_number(value: u64) -> Result<i64, StoreError> {
    let refuse = || StoreError::Rejected("a book has at most 2^63 - 1 entries".to_owned());
    i64::try_from(value).ok().ok_or_else(refuse)
}

/// A text of some type.
pub fn text<T, E>(
    column: &str,
    value: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, StoreError> {
    read(value).ok().ok_or_else(|| damaged(column, "a text of its type"))
}

/// A text of some type that may be absent.
pub fn optional_text<T, E>(
    column: &str,
    value: Option<&str>,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, StoreError> {
    value.map(|value| text(column, value, read)).transpose()
}

/// What is attached to a record: a JSON object of texts, or nothing for nothing.
pub fn metadata(column: &str, value: Option<&str>) -> Result<Metadata, StoreError> {
    let mut metadata = Metadata::default();
    let Some(value) = value else { return Ok(metadata) };
    let refuse = || damaged(column, "a JSON object of texts");
    let pairs: BTreeMap<String, String> = serde_json::from_str(value).map_err(|_no_such_object| refuse())?;
    pairs.iter().try_for_each(|(key, value)| metadata.insert(key, value)).map_err(|_invalid| refuse())?;
    Ok(metadata)
}

/// The same as it is kept, and as it is looked for.
pub fn to_metadata(metadata: &Metadata) -> Option<String> {
    let pairs: BTreeMap<&str, &str> = metadata.pairs().collect();
    (!pairs.is_empty()).then(|| serde_json::json!(pairs).to_string())
}

/// A text of some type, which keeps it as it is where it can.
pub fn owned_text<T: TryFrom<String>>(column: &str, value: String) -> Result<T, StoreError> {
    T::try_from(value).ok().ok_or_else(|| damaged(column, "a text of its type"))
}

/// A name out of a closed list.
pub fn named<T>(column: &str, value: &str, find: impl FnOnce(&str) -> Option<T>) -> Result<T, StoreError> {
    find(value).ok_or_else(|| damaged(column, "a name this program knows"))
}

/// The provider's id.
pub fn provider_id(column: &str, value: String) -> Result<ProviderId, StoreError> {
    ProviderId::try_from(value).ok().ok_or_else(|| damaged(column, "the id of a provider"))
}

/// What kind of record.
pub fn resource_kind(column: &str, value: &str) -> Result<ResourceKind, StoreError> {
    named(column, value, |name| ResourceKind::ALL.into_iter().find(|kind| kind.as_str() == name))
}

/// A reference to a record.
pub fn resource(column: &str, owner: DbId, kind: &str, id: DbId) -> Result<ResourceRef, StoreError> {
    Ok(ResourceRef { integrator_id: IntegratorId(owner.0), kind: resource_kind(column, kind)?, id: id.0 })
}

/// The identity of an incoming PIX.
pub fn receipt_key(column: &str, value: &str) -> Result<ReceiptKey, StoreError> {
    match value.strip_prefix("txn:") {
        Some(id) => provider_id(column, id.to_owned()).map(ReceiptKey::Transaction),
        None => text(column, value, pix_domain::end_to_end::EndToEndId::parse).map(ReceiptKey::EndToEnd),
    }
}

/// A person or firm; `column` is the name of the pair.
pub fn party(column: &str, name: Option<String>, document: Option<String>) -> Result<Party, StoreError> {
    Ok(Party {
        name: name.map(|name| owned_text(column, name)).transpose()?,
        document: document.map(|document| owned_text(column, document)).transpose()?,
    })
}

/// The name of a party, to be kept.
pub fn name_of(party: &Party) -> Option<String> {
    party.name.as_ref().map(|name| name.as_str().to_owned())
}

/// The document of a party, to be kept.
pub fn document_of(party: &Party) -> Option<String> {
    party.document.as_ref().map(|document| document.as_str().to_owned())
}

/// Why something failed: both texts or none.
pub fn failure(column: &str, code: Option<String>, message: Option<String>) -> Result<Failure, StoreError> {
    let (code, message) =
        code.zip(message).ok_or_else(|| damaged(column, "there, though the state needs it"))?;
    Ok(Failure { code, message })
}

/// The state of an outgoing movement. `column` is the state's.
pub fn outgoing_state(
    column: &str,
    name: &str,
    code: Option<String>,
    message: Option<String>,
) -> Result<OutgoingState, StoreError> {
    Ok(match name {
        "queued" => OutgoingState::Queued,
        "submitting" => OutgoingState::Submitting,
        "accepted" => OutgoingState::Accepted,
        "uncertain" => OutgoingState::Uncertain,
        "needs_review" => OutgoingState::NeedsReview,
        "completed" => OutgoingState::Completed,
        "failed" => OutgoingState::Failed(failure(column, code, message)?),
        "canceled" => OutgoingState::Canceled,
        "returned" => OutgoingState::Returned,
        _ => return Err(damaged(column, "a state this program knows")),
    })
}

/// The names of the states that an outgoing movement stays in.
pub const FINAL_STATES: [&str; 4] = ["completed", "failed", "canceled", "returned"];

/// The names of the states in which nobody knows whether the money left.
pub const UNCERTAIN_STATES: [&str; 3] = ["submitting", "uncertain", "needs_review"];

/// Why an outgoing movement failed, to be kept.
pub const fn failure_of(state: &OutgoingState) -> Option<&Failure> {
    match state {
        OutgoingState::Failed(failure) => Some(failure),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outgoing_state_is_read_as_it_was_kept() {
        let failure = Failure { code: "c".into(), message: "m".into() };
        for name in OutgoingState::NAMES {
            let of_failed = (name == "failed").then(|| failure.clone());
            let (code, message) = of_failed.map(|failure| (failure.code, failure.message)).unzip();
            let state = outgoing_state("t.state", name, code, message).unwrap();
            assert_eq!((state.name(), state.is_final()), (name, FINAL_STATES.contains(&name)));
            assert_eq!(state.is_uncertain(), UNCERTAIN_STATES.contains(&name), "{name}");
        }
    }

    #[test]
    fn what_is_not_understood_is_damaged_and_never_shown() {
        let errors = [
            outgoing_state("t.state", "SECRET", None, None).unwrap_err(),
            outgoing_state("t.state", "failed", Some("SECRET".into()), None).unwrap_err(),
            receipt_key("t.key", "SECRET").unwrap_err(),
            party("t.payer", None, Some("SECRET".into())).unwrap_err(),
            resource_kind("t.kind", "SECRET").unwrap_err(),
            amount("t.amount_cents", 0).unwrap_err(),
            cents("t.fee_cents", -1).unwrap_err(),
            number("t.version", -1).unwrap_err(),
        ];
        for error in errors {
            let StoreError::Damaged(text) = &error else { panic!("{error:?}") };
            assert!(text.starts_with("t.") && !text.contains("SECRET"), "{text}");
        }
    }

    #[test]
    fn both_kinds_of_receipt_keys_are_read_as_they_were_kept() {
        for text in ["E1234567820261121103012345678901", "txn:abc:1"] {
            assert_eq!(receipt_key("t.key", text).unwrap().to_text(), text);
        }
    }
}
