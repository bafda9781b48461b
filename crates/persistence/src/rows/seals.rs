//! Rows of seals, and of what is wrong with a book.

use diesel::prelude::{Insertable, Queryable, Selectable};
use pix_domain::audit::Reckoning;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::seals::{KeptDifference, Seal, SealHash};
use pix_domain::wallet::Wallet;

use crate::codec::{self, DbId, DbTime, damaged};
use crate::schema::{seal_differences, seals};

/// A seal as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = seals, treat_none_as_default_value = false)]
pub struct SealRow {
    pub integrator_id: DbId,
    pub number: i64,
    pub through_entry: i64,
    pub available_cents: i64,
    pub held_cents: i64,
    pub owed_cents: i64,
    pub fees_cents: i64,
    pub clearing_cents: i64,
    pub entries_hash: String,
    pub sealed_at: DbTime,
}

impl TryFrom<Seal> for SealRow {
    type Error = StoreError;

    fn try_from(seal: Seal) -> Result<Self, StoreError> {
        let Reckoning { wallet, fees, clearing } = seal.reckoning;
        Ok(Self {
            integrator_id: seal.integrator_id.into(),
            number: codec::to_entry_number(seal.number)?,
            through_entry: codec::to_entry_number(wallet.entries)?,
            available_cents: wallet.available.get(),
            held_cents: wallet.held.get(),
            owed_cents: wallet.owed.get(),
            fees_cents: fees,
            clearing_cents: clearing,
            entries_hash: seal.hash.to_string(),
            sealed_at: DbTime(seal.sealed_at),
        })
    }
}

impl TryFrom<SealRow> for Seal {
    type Error = StoreError;

    fn try_from(row: SealRow) -> Result<Self, StoreError> {
        let wallet = Wallet {
            available: codec::cents("seals.available_cents", row.available_cents)?,
            held: codec::cents("seals.held_cents", row.held_cents)?,
            owed: codec::cents("seals.owed_cents", row.owed_cents)?,
            entries: codec::entry_number("seals.through_entry", row.through_entry)?,
        };
        Ok(Self {
            integrator_id: IntegratorId(row.integrator_id.0),
            number: codec::entry_number("seals.number", row.number)?,
            reckoning: Reckoning { wallet, fees: row.fees_cents, clearing: row.clearing_cents },
            hash: SealHash::parse(&row.entries_hash)
                .ok_or_else(|| damaged("seals.entries_hash", "a hash of 64 hex digits"))?,
            sealed_at: row.sealed_at.0,
        })
    }
}

/// What is wrong with a book, as it is kept.
#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = seal_differences, treat_none_as_default_value = false)]
pub struct SealDifferenceRow {
    pub integrator_id: DbId,
    pub number: i64,
    pub from_entry: i64,
    pub through_entry: i64,
    pub code: String,
    pub detail: String,
    pub found_at: DbTime,
}

impl TryFrom<KeptDifference> for SealDifferenceRow {
    type Error = StoreError;

    fn try_from(difference: KeptDifference) -> Result<Self, StoreError> {
        Ok(Self {
            integrator_id: difference.integrator_id.into(),
            number: codec::to_entry_number(difference.seal)?,
            from_entry: codec::to_entry_number(difference.from)?,
            through_entry: codec::to_entry_number(difference.to)?,
            code: difference.code,
            detail: difference.what,
            found_at: DbTime(difference.found_at),
        })
    }
}

impl TryFrom<SealDifferenceRow> for KeptDifference {
    type Error = StoreError;

    fn try_from(row: SealDifferenceRow) -> Result<Self, StoreError> {
        Ok(Self {
            integrator_id: IntegratorId(row.integrator_id.0),
            seal: codec::entry_number("seal_differences.number", row.number)?,
            from: codec::entry_number("seal_differences.from_entry", row.from_entry)?,
            to: codec::entry_number("seal_differences.through_entry", row.through_entry)?,
            code: row.code,
            what: row.detail,
            found_at: row.found_at.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use pix_domain::money::Cents;
    use pix_domain::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn seal() -> Seal {
        let cents = |value| Cents::new(value).unwrap();
        Seal {
            integrator_id: IntegratorId(Uuid::from_u128(1)),
            number: 2,
            reckoning: Reckoning {
                wallet: Wallet { available: cents(3), held: cents(4), owed: cents(5), entries: 6 },
                fees: 7,
                clearing: -9,
            },
            hash: SealHash([0xab; 32]),
            sealed_at: Timestamp::from_micros(-8),
        }
    }

    #[test]
    fn a_seal_is_read_as_it_was_kept() {
        assert_eq!(Seal::try_from(SealRow::try_from(seal()).unwrap()), Ok(seal()));
    }

    #[test]
    fn what_is_not_understood_is_damaged_and_never_shown() {
        type Change = fn(&mut SealRow);
        let changes: [(&str, Change); 4] = [
            ("seals.entries_hash", |row| row.entries_hash = "SECRET".into()),
            ("seals.number", |row| row.number = -1),
            ("seals.through_entry", |row| row.through_entry = -1),
            ("seals.held_cents", |row| row.held_cents = -1),
        ];
        for (column, change) in changes {
            let mut row = SealRow::try_from(seal()).unwrap();
            change(&mut row);
            let Err(StoreError::Damaged(text)) = Seal::try_from(row) else { panic!("{column}") };
            assert!(text.starts_with(column) && !text.contains("SECRET"), "{text}");
        }
        let endless = Seal { number: u64::MAX, ..seal() };
        assert!(matches!(SealRow::try_from(endless), Err(StoreError::Rejected(_))));
    }
}
