//! Seals, and what they follow from. The schema refuses to change or remove one.

use async_trait::async_trait;
use diesel::prelude::{
    Connection, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use diesel::sqlite::SqliteConnection;
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::seals::store::SealStore;
use pix_domain::seals::{Head, KeptDifference, Seal, Unsealed};
use pix_domain::wallet::Entry;
use pix_domain::wallet::store::EntryQuery;

use super::SqliteStore;
use super::books::{Snapshot, wallet};
use super::error::{DbError, Of, Problem};
use crate::codec::DbId;
use crate::entries::entries;
use crate::rows::{PostingRow, SealDifferenceRow, SealRow, WalletRow};
use crate::schema::{seal_differences, seals, wallets};

fn newest(conn: &mut SqliteConnection, owner: DbId) -> Result<Option<SealRow>, DbError> {
    let of_owner = seals::table.filter(seals::integrator_id.eq(owner));
    let newest = of_owner.order(seals::number.desc()).select(SealRow::as_select());
    newest.get_result(conn).optional().of("seals")
}

fn heads(conn: &mut SqliteConnection, after: Option<DbId>, limit: u32) -> Result<Vec<Head>, StoreError> {
    let mut page = wallets::table
        .order(wallets::integrator_id.asc())
        .limit(limit.into())
        .select(WalletRow::as_select())
        .into_boxed();
    if let Some(after) = after {
        page = page.filter(wallets::integrator_id.gt(after));
    }
    let rows: Vec<WalletRow> = page.load(conn).of("wallets")?;
    let head = |row: WalletRow| {
        let owner = row.integrator_id;
        let newest = newest(conn, owner)?.map(Seal::try_from).transpose()?;
        Ok(Head { integrator_id: IntegratorId(owner.0), wallet: row.try_into()?, newest })
    };
    rows.into_iter().map(head).collect()
}

fn unsealed(conn: &mut SqliteConnection, owner: DbId, limit: u32) -> Result<Unsealed, StoreError> {
    let newest = newest(conn, owner)?.map(Seal::try_from).transpose()?;
    let after = newest.map_or(0, |seal| seal.through());
    let wanted = entries!(owner, &EntryQuery::after(after, limit));
    let rows: Vec<PostingRow> = wanted.load(conn).of("postings")?;
    Ok(Unsealed {
        newest,
        wallet: wallet(conn, owner)?,
        entries: rows.into_iter().map(Entry::try_from).collect::<Result<_, StoreError>>()?,
    })
}

#[async_trait]
impl SealStore for SqliteStore {
    async fn heads(&self, after: Option<IntegratorId>, limit: u32) -> Result<Vec<Head>, StoreError> {
        let after = after.map(DbId::from);
        self.read(move |conn| {
            // One transaction is one snapshot.
            let heads = conn.transaction::<_, Snapshot, _>(|conn| Ok(heads(conn, after, limit)?));
            heads.map_err(|Snapshot(error)| error)
        })
        .await
    }

    async fn unsealed(&self, integrator_id: IntegratorId, limit: u32) -> Result<Unsealed, StoreError> {
        let owner = DbId::from(integrator_id);
        self.read(move |conn| {
            let read = conn.transaction::<_, Snapshot, _>(|conn| Ok(unsealed(conn, owner, limit)?));
            read.map_err(|Snapshot(error)| error)
        })
        .await
    }

    async fn append(&self, seal: Seal) -> Result<bool, StoreError> {
        let row = SealRow::try_from(seal)?;
        self.write(move |conn| -> Result<bool, Problem<StoreError>> {
            // The transaction has the write lock: nobody goes on with the chain in between.
            let (number, through) = newest(conn, row.integrator_id)?
                .map_or((0, 0), |newest| (newest.number, newest.through_entry));
            if row.number != number.saturating_add(1) || row.through_entry <= through {
                return Ok(false);
            }
            diesel::insert_into(seals::table).values(&row).execute(conn).of("seals")?;
            Ok(true)
        })
        .await
    }

    async fn seals(
        &self,
        integrator_id: IntegratorId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Seal>, StoreError> {
        // No seal has a number above the range of the column.
        let Ok(after) = i64::try_from(after) else { return Ok(Vec::new()) };
        let owner = DbId::from(integrator_id);
        self.read(move |conn| {
            let rows: Vec<SealRow> = seals::table
                .filter(seals::integrator_id.eq(owner))
                .filter(seals::number.gt(after))
                .order(seals::number.asc())
                .limit(limit.into())
                .select(SealRow::as_select())
                .load(conn)
                .of("seals")?;
            rows.into_iter().map(Seal::try_from).collect()
        })
        .await
    }

    async fn set_difference(
        &self,
        integrator_id: IntegratorId,
        difference: Option<KeptDifference>,
    ) -> Result<(), StoreError> {
        let row = difference.map(SealDifferenceRow::try_from).transpose()?;
        let owner = DbId::from(integrator_id);
        self.write(move |conn| -> Result<(), Problem<StoreError>> {
            match row {
                Some(row) => diesel::replace_into(seal_differences::table).values(&row).execute(conn),
                None => diesel::delete(seal_differences::table.find(owner)).execute(conn),
            }
            .of("seal_differences")?;
            Ok(())
        })
        .await
    }

    async fn differences(&self, limit: u32) -> Result<Vec<KeptDifference>, StoreError> {
        self.read(move |conn| {
            let rows: Vec<SealDifferenceRow> = seal_differences::table
                .order(seal_differences::integrator_id.asc())
                .limit(limit.into())
                .select(SealDifferenceRow::as_select())
                .load(conn)
                .of("seal_differences")?;
            rows.into_iter().map(KeptDifference::try_from).collect()
        })
        .await
    }
}
