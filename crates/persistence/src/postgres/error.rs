//! What PostgreSQL's errors mean.
//!
//! diesel keeps the kind of the errors it has a name for and hides the SQLSTATE of the others. Of those, only what is
//! known by its wording is taken for a definite refusal; everything else is [`DbError::Lost`]: the statement may have
//! happened, and a caller who has to know asks again (`apply`). So another language of the server's messages costs a
//! question and never an error.
//!
//! PostgreSQL's messages name tables, columns and constraints; values are in its details, which are never repeated here.

use diesel::result::{DatabaseErrorKind, DeserializeFieldError, Error as DieselError};
use pix_domain::error::{StoreError, UniqueKey};

/// What went wrong with a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DbError {
    /// A stored value can't be understood.
    Damaged(String),
    /// A unique key is taken; the name of its constraint.
    Taken(String),
    /// Another rule of the schema is broken. Nothing was written.
    Refused(String),
    /// The server doesn't take writes: a standby, or one that was told so. Nothing was written.
    ReadOnly(String),
    /// Others were in the way (deadlock, lock timeout, serialization). Nothing was written; it can be tried again.
    Contention(String),
    /// The server can't now (full, out of connections, statement timeout). Nothing was written.
    Unavailable(String),
    /// The connection broke or the answer can't be interpreted: a write may have happened.
    Lost(String),
}

impl DbError {
    /// The error of a write: what was lost may have happened.
    pub fn of_write(self) -> StoreError {
        match self {
            Self::Lost(why) => StoreError::Unknown(why),
            other => other.into(),
        }
    }
}

/// Says of which table a statement was.
pub trait Of<T> {
    /// The result, its error understood.
    fn of(self, table: &str) -> Result<T, DbError>;
}

impl<T> Of<T> for Result<T, DieselError> {
    fn of(self, table: &str) -> Result<T, DbError> {
        self.map_err(|error| understand(table, &error))
    }
}

/// Wordings of errors without a kind of their own, after which nothing was written.
const CONTENTION: [&str; 3] = ["deadlock detected", "lock timeout", "could not serialize"];
const UNAVAILABLE: [&str; 8] = [
    "statement timeout",
    "No space left on device",
    "could not extend file",
    "out of memory",
    "remaining connection slots",
    "too many clients",
    "the database system is",
    "permission denied for",
];
const DAMAGED: [&str; 4] =
    ["invalid page", "could not read block", "does not exist", "unexpected data beyond EOF"];
/// How the server says that a number is too large for its column.
pub const OUT_OF_RANGE: &str = "out of range";

/// The rule of the schema that no wallet has money and a debt side by side.
pub const OWED_ALONE: &str = "wallets_owed_alone";

/// How the server says that a text can't be one of its own: it has a NUL.
const NOT_A_TEXT: &str = "invalid byte sequence";

/// What an error of a statement about `table` means.
pub fn understand(table: &str, error: &DieselError) -> DbError {
    match error {
        DieselError::DatabaseError(kind, information) => {
            let message = information.message();
            match kind {
                DatabaseErrorKind::UniqueViolation => {
                    DbError::Taken(information.constraint_name().unwrap_or(message).to_owned())
                }
                DatabaseErrorKind::ForeignKeyViolation
                | DatabaseErrorKind::CheckViolation
                | DatabaseErrorKind::RestrictViolation
                | DatabaseErrorKind::ExclusionViolation
                | DatabaseErrorKind::NotNullViolation => DbError::Refused(format!("{table}: {message}")),
                DatabaseErrorKind::ReadOnlyTransaction => DbError::ReadOnly(message.to_owned()),
                DatabaseErrorKind::SerializationFailure => DbError::Contention(message.to_owned()),
                _ => by_wording(table, message),
            }
        }
        DieselError::DeserializationError(error) => {
            let field = error.downcast_ref::<DeserializeFieldError>();
            let field = field.and_then(|error| error.field_name.as_deref()).unwrap_or("a column");
            DbError::Damaged(format!("{table}.{field} is not a value of its type"))
        }
        DieselError::SerializationError(_) => DbError::Refused(format!("{table}: a value can't be kept")),
        other => DbError::Lost(other.to_string()),
    }
}

fn by_wording(table: &str, message: &str) -> DbError {
    let says = |wordings: &[&str]| wordings.iter().any(|wording| message.contains(wording));
    if says(&CONTENTION) {
        DbError::Contention(message.to_owned())
    } else if says(&UNAVAILABLE) {
        DbError::Unavailable(message.to_owned())
    } else if says(&DAMAGED) {
        DbError::Damaged(format!("{table}: {message}"))
    } else if message.contains(OUT_OF_RANGE) || message.contains(NOT_A_TEXT) {
        DbError::Refused(format!("{table}: {message}"))
    } else {
        DbError::Lost(message.to_owned())
    }
}

impl From<DbError> for StoreError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Damaged(what) => Self::Damaged(what),
            DbError::Taken(constraint) => Self::Rejected(constraint),
            DbError::Refused(rule) => Self::Rejected(rule),
            DbError::ReadOnly(why)
            | DbError::Contention(why)
            | DbError::Unavailable(why)
            | DbError::Lost(why) => Self::Unavailable(why),
        }
    }
}

/// Which key of the domain a unique constraint guards; `None` for those that only number rows.
pub fn taken(constraint: &str) -> Option<UniqueKey> {
    Some(match constraint {
        "charges_pkey" | "withdrawals_pkey" | "refunds_pkey" | "splits_pkey" => UniqueKey::Id,
        "charges_external_id_key" | "withdrawals_external_id_key" | "refunds_external_id_key" => {
            UniqueKey::ExternalId
        }
        "handles_pkey" => UniqueKey::IdempotencyKey,
        "receipts_pkey" => UniqueKey::Receipt,
        "twins_pkey" => UniqueKey::Twin,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database_error(kind: DatabaseErrorKind, message: &str) -> DbError {
        understand("t", &DieselError::DatabaseError(kind, Box::new(message.to_owned())))
    }

    #[test]
    fn only_what_is_surely_undone_is_definite() {
        use DatabaseErrorKind as Kind;
        for (kind, message, expected) in [
            (Kind::CheckViolation, "x", "Refused"),
            (Kind::ForeignKeyViolation, "x", "Refused"),
            (Kind::UniqueViolation, "x", "Taken"),
            (Kind::ReadOnlyTransaction, "x", "ReadOnly"),
            (Kind::Unknown, "deadlock detected", "Contention"),
            (Kind::Unknown, "canceling statement due to statement timeout", "Unavailable"),
            (Kind::Unknown, "could not extend file \"base/1\": No space left on device", "Unavailable"),
            (Kind::Unknown, "the database system is starting up", "Unavailable"),
            (Kind::Unknown, "permission denied for table charges", "Unavailable"),
            (Kind::Unknown, "could not fsync file \"base/1\": Permission denied", "Lost"),
            (Kind::Unknown, "bigint out of range", "Refused"),
            (Kind::Unknown, "terminating connection due to administrator command", "Lost"),
            (Kind::Unknown, "Verbindung wird abgebrochen", "Lost"),
            (Kind::UnableToSendCommand, "connection closed", "Lost"),
        ] {
            let error = database_error(kind, message);
            assert!(format!("{error:?}").starts_with(expected), "{message}: {error:?}");
        }
    }

    #[test]
    fn a_lost_write_is_unknown_and_a_lost_read_is_not() {
        let lost = DbError::Lost("connection closed".into());
        assert_eq!(lost.clone().of_write(), StoreError::Unknown("connection closed".into()));
        assert_eq!(StoreError::from(lost), StoreError::Unavailable("connection closed".into()));
        let refused = DbError::Refused("t: x".into());
        assert_eq!(refused.of_write(), StoreError::Rejected("t: x".into()));
    }

    #[test]
    fn constraints_are_known_by_name() {
        assert_eq!(taken("charges_external_id_key"), Some(UniqueKey::ExternalId));
        assert_eq!(taken("refunds_pkey"), Some(UniqueKey::Id));
        assert_eq!(taken("handles_pkey"), Some(UniqueKey::IdempotencyKey));
        assert_eq!(taken("receipts_pkey"), Some(UniqueKey::Receipt));
        assert_eq!(taken("findings_pkey"), None);
    }
}
