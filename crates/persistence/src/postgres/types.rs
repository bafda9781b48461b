//! How PostgreSQL keeps the shared SQL types: ids as `uuid`, instants as `bigint` microseconds; and which texts it keeps.

use std::io::Write;

use diesel::deserialize::{self, FromSql};
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::BigInt;
use pix_domain::time::Timestamp;
use uuid::Uuid;

use crate::codec::{DbId, DbTime, Id, Instant};

impl ToSql<Id, Pg> for DbId {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(self.0.as_bytes())?;
        Ok(IsNull::No)
    }
}

impl FromSql<Id, Pg> for DbId {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        Uuid::from_slice(value.as_bytes()).ok().map(Self).ok_or_else(|| "not a UUID".into())
    }
}

impl ToSql<Instant, Pg> for DbTime {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        let micros = self.0.micros();
        <i64 as ToSql<BigInt, Pg>>::to_sql(&micros, &mut out.reborrow())
    }
}

impl FromSql<Instant, Pg> for DbTime {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        let micros = <i64 as FromSql<BigInt, Pg>>::from_sql(value)?;
        Ok(Self(Timestamp::from_micros(micros)))
    }
}

/// Whether a text can be in a column at all: PostgreSQL keeps every character but NUL, and refuses to be asked for it.
pub fn can_be_kept(text: &str) -> bool {
    !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nul_can_not_be_kept() {
        assert!(can_be_kept("") && can_be_kept("ção 🍞 \u{1}\u{7f}"));
        assert!(!can_be_kept("a\0b"));
    }
}
