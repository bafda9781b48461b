//! How SQLite keeps the shared SQL types: ids as hyphenated text, instants as microseconds.

use diesel::deserialize::{self, FromSql};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::{Sqlite, SqliteValue};
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::codec::{DbId, DbTime, Id, Instant};

impl ToSql<Id, Sqlite> for DbId {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(self.0.hyphenated().to_string());
        Ok(IsNull::No)
    }
}

impl FromSql<Id, Sqlite> for DbId {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let text = <String as FromSql<Text, Sqlite>>::from_sql(value)?;
        // The parser's own error would repeat parts of the value.
        Uuid::try_parse(&text).ok().map(Self).ok_or_else(|| "not a UUID".into())
    }
}

impl ToSql<Instant, Sqlite> for DbTime {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        out.set_value(self.0.micros());
        Ok(IsNull::No)
    }
}

impl FromSql<Instant, Sqlite> for DbTime {
    fn from_sql(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Self> {
        let micros = <i64 as FromSql<BigInt, Sqlite>>::from_sql(value)?;
        Ok(Self(Timestamp::from_micros(micros)))
    }
}
