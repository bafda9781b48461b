//! What SQLite's errors mean. Its messages name tables, columns and constraints, never values.

use diesel::result::{DatabaseErrorKind, DeserializeFieldError, Error as DieselError};
use pix_domain::error::{ApplyError, StoreError, UniqueKey};

/// What went wrong with a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DbError {
    /// A stored value can't be understood.
    Damaged(String),
    /// A unique key is taken; the columns, as SQLite names them.
    Taken(String),
    /// Another rule of the schema is broken.
    Refused(String),
    /// The database can't go on: busy, full, failing. Whatever the transaction did has to be given up.
    Broken(String),
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

fn understand(table: &str, error: &DieselError) -> DbError {
    match error {
        DieselError::DatabaseError(kind, information) => {
            let message = information.message();
            match kind {
                DatabaseErrorKind::UniqueViolation => DbError::Taken(message.to_owned()),
                DatabaseErrorKind::ForeignKeyViolation
                | DatabaseErrorKind::CheckViolation
                | DatabaseErrorKind::NotNullViolation => DbError::Refused(format!("{table}: {message}")),
                _ if is_corrupt(message) => DbError::Damaged(format!("{table}: {message}")),
                _ => DbError::Broken(message.to_owned()),
            }
        }
        DieselError::DeserializationError(error) => {
            let field = error.downcast_ref::<DeserializeFieldError>();
            let field = field.and_then(|error| error.field_name.as_deref()).unwrap_or("a column");
            DbError::Damaged(format!("{table}.{field} is not a value of its type"))
        }
        DieselError::SerializationError(_) => DbError::Refused(format!("{table}: a value can't be kept")),
        other => DbError::Broken(other.to_string()),
    }
}

/// Whether SQLite says that the file itself is damaged (`SQLITE_CORRUPT`, `SQLITE_NOTADB`).
pub fn is_corrupt(message: &str) -> bool {
    message.contains("malformed") || message.contains("not a database")
}

/// Whether SQLite says that nothing happened and that it may later: another one writes (`SQLITE_BUSY`), or there is no
/// room (`SQLITE_FULL`, which comes before the last frame of a commit is whole).
pub fn is_passing(message: &str) -> bool {
    message.contains("locked") || message.contains("database or disk is full")
}

/// Whether SQLite says that the disk failed (`SQLITE_IOERR` in all its kinds).
pub fn is_io(message: &str) -> bool {
    message.contains("disk I/O error")
}

impl From<DbError> for StoreError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Damaged(what) => Self::Damaged(what),
            DbError::Taken(columns) => Self::Rejected(columns),
            DbError::Refused(rule) => Self::Rejected(rule),
            DbError::Broken(why) => Self::Unavailable(why),
        }
    }
}

/// How a command of the writer failed.
#[derive(Debug)]
pub enum Problem<E> {
    /// It was refused; its own statements are undone and nobody else is touched.
    Refused(E),
    /// The database can't go on: the whole group is given up.
    Broken(String),
}

impl<E: From<StoreError>> From<DbError> for Problem<E> {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Broken(why) => Self::Broken(why),
            other => Self::Refused(StoreError::from(other).into()),
        }
    }
}

impl<E: From<StoreError>> From<StoreError> for Problem<E> {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<ApplyError> for Problem<ApplyError> {
    fn from(error: ApplyError) -> Self {
        Self::Refused(error)
    }
}

impl Problem<ApplyError> {
    /// The refusal of an insert, with a taken key in the domain's words.
    pub fn of_insert(error: DbError) -> Self {
        match &error {
            DbError::Taken(columns) => match taken(columns) {
                Some(key) => Self::Refused(ApplyError::Duplicate(key)),
                None => error.into(),
            },
            _ => error.into(),
        }
    }
}

/// `UNIQUE constraint failed: charges.integrator_id, charges.external_id` → the external id.
fn taken(message: &str) -> Option<UniqueKey> {
    let (_, columns) = message.split_once("constraint failed: ")?;
    let (table, _) = columns.split_once('.')?;
    match table {
        "handles" => Some(UniqueKey::IdempotencyKey),
        "receipts" => Some(UniqueKey::Receipt),
        "charges" | "withdrawals" | "refunds" if columns.ends_with(".external_id") => {
            Some(UniqueKey::ExternalId)
        }
        "charges" | "withdrawals" | "refunds" | "splits" => Some(UniqueKey::Id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database_error(kind: DatabaseErrorKind, message: &str) -> DieselError {
        DieselError::DatabaseError(kind, Box::new(message.to_owned()))
    }

    #[test]
    fn a_taken_key_is_known_by_its_table_and_column() {
        for (columns, key) in [
            ("charges.integrator_id, charges.external_id", Some(UniqueKey::ExternalId)),
            ("refunds.integrator_id, refunds.id", Some(UniqueKey::Id)),
            ("handles.integrator_id, handles.kind, handles.key", Some(UniqueKey::IdempotencyKey)),
            ("receipts.integrator_id, receipts.receipt_key", Some(UniqueKey::Receipt)),
            ("postings.integrator_id, postings.entry", None),
        ] {
            assert_eq!(taken(&format!("UNIQUE constraint failed: {columns}")), key, "{columns}");
        }
        assert_eq!(taken("something else"), None);
    }

    #[test]
    fn errors_say_what_is_known() {
        let cases = [
            (DatabaseErrorKind::CheckViolation, "CHECK constraint failed: x", "Refused"),
            (DatabaseErrorKind::ForeignKeyViolation, "FOREIGN KEY constraint failed", "Refused"),
            (DatabaseErrorKind::Unknown, "database is locked", "Broken"),
            (DatabaseErrorKind::Unknown, "disk I/O error", "Broken"),
            (DatabaseErrorKind::Unknown, "database disk image is malformed", "Damaged"),
        ];
        for (kind, message, expected) in cases {
            let error = understand("t", &database_error(kind, message));
            assert!(format!("{error:?}").starts_with(expected), "{error:?}");
        }
    }

    #[test]
    fn a_full_disk_and_a_lock_pass_and_a_failing_disk_does_not() {
        assert!(is_passing("database is locked") && is_passing("database or disk is full"));
        assert!(is_io("disk I/O error") && !is_passing("disk I/O error"));
    }
}
