//! Seals, and what they follow from, on the connections of the workers. The schema refuses to change or remove a seal.

use async_trait::async_trait;
use diesel::pg::Pg;
use diesel::prelude::{ExpressionMethods, QueryDsl, SelectableHelper};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::upsert::excluded;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use pix_domain::error::StoreError;
use pix_domain::ids::IntegratorId;
use pix_domain::seals::store::SealStore;
use pix_domain::seals::{Head, KeptDifference, Seal, Unsealed};
use pix_domain::wallet::store::EntryQuery;
use pix_domain::wallet::{Entry, Wallet};
use uuid::Uuid;

use super::PgStore;
use super::ask::Ask;
use super::books::{Snapshot, wallet};
use super::error::{DbError, Of};
use crate::codec::{DbId, DbTime, Id, Instant};
use crate::entries::entries;
use crate::rows::{PostingRow, SealDifferenceRow, SealRow, WalletRow};
use crate::schema::{seal_differences, seals};

/// A page of wallets, each with its newest seal: as many looks at an index as there are wallets on it.
#[derive(Debug, Clone, Copy)]
struct AskHeads {
    /// The first id that may be on it.
    first: DbId,
    limit: i64,
}

/// A wallet: owner, available, held, owed, entries; and the seal, if there is one: number, last entry, available, held,
/// owed, fees, clearing, hash, time.
type HeadRow = (
    (DbId, i64, i64, i64, i64),
    (
        Option<i64>,
        Option<i64>,
        Option<i64>,
        Option<i64>,
        Option<i64>,
        Option<i64>,
        Option<i64>,
        Option<String>,
        Option<DbTime>,
    ),
);

impl QueryFragment<Pg> for AskHeads {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "SELECT w.integrator_id, w.available_cents, w.held_cents, w.owed_cents, w.entries, s.number, \
             s.through_entry, s.available_cents, s.held_cents, s.owed_cents, s.fees_cents, s.clearing_cents, \
             s.entries_hash, s.sealed_at FROM (SELECT integrator_id, available_cents, held_cents, owed_cents, entries \
             FROM wallets WHERE integrator_id >= ",
        );
        out.push_bind_param::<Id, _>(&self.first)?;
        out.push_sql(" ORDER BY integrator_id LIMIT ");
        out.push_bind_param::<BigInt, _>(&self.limit)?;
        out.push_sql(
            ") w LEFT JOIN LATERAL (SELECT * FROM seals n WHERE n.integrator_id = w.integrator_id \
             ORDER BY n.number DESC LIMIT 1) s ON true ORDER BY w.integrator_id",
        );
        Ok(())
    }
}

impl QueryId for AskHeads {
    type QueryId = Self;

    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Query for AskHeads {
    type SqlType = (
        (Id, BigInt, BigInt, BigInt, BigInt),
        (
            Nullable<BigInt>,
            Nullable<BigInt>,
            Nullable<BigInt>,
            Nullable<BigInt>,
            Nullable<BigInt>,
            Nullable<BigInt>,
            Nullable<BigInt>,
            Nullable<Text>,
            Nullable<Instant>,
        ),
    );
}

fn head((of_wallet, of_seal): HeadRow) -> Result<Head, StoreError> {
    let (integrator_id, available_cents, held_cents, owed_cents, entries) = of_wallet;
    let wallet = WalletRow { integrator_id, available_cents, held_cents, entries, owed_cents };
    let newest = match of_seal {
        (
            Some(number),
            Some(through_entry),
            Some(available_cents),
            Some(held_cents),
            Some(owed_cents),
            Some(fees_cents),
            Some(clearing_cents),
            Some(entries_hash),
            Some(sealed_at),
        ) => Some(Seal::try_from(SealRow {
            integrator_id,
            number,
            through_entry,
            available_cents,
            held_cents,
            owed_cents,
            fees_cents,
            clearing_cents,
            entries_hash,
            sealed_at,
        })?),
        // No column of a seal is null.
        _ => None,
    };
    Ok(Head { integrator_id: IntegratorId(integrator_id.0), wallet: Wallet::try_from(wallet)?, newest })
}

async fn newest(conn: &mut AsyncPgConnection, owner: DbId) -> Result<Option<SealRow>, DbError> {
    let of_owner = seals::table.filter(seals::integrator_id.eq(owner));
    let newest = of_owner.order(seals::number.desc()).select(SealRow::as_select());
    newest.limit(1).found(conn).await.of("seals")
}

async fn unsealed(conn: &mut AsyncPgConnection, owner: DbId, limit: u32) -> Result<Unsealed, StoreError> {
    let newest = newest(conn, owner).await?.map(Seal::try_from).transpose()?;
    let after = newest.map_or(0, |seal| seal.through());
    let wanted = entries!(owner, &EntryQuery::after(after, limit));
    let rows: Vec<PostingRow> = wanted.rows(conn).await.of("postings")?;
    Ok(Unsealed {
        newest,
        wallet: wallet(conn, owner).await?,
        entries: rows.into_iter().map(Entry::try_from).collect::<Result<_, StoreError>>()?,
    })
}

#[async_trait]
impl SealStore for PgStore {
    async fn heads(&self, after: Option<IntegratorId>, limit: u32) -> Result<Vec<Head>, StoreError> {
        let first = match after {
            Some(after) => match after.0.as_u128().checked_add(1) {
                Some(first) => Uuid::from_u128(first),
                None => return Ok(Vec::new()),
            },
            None => Uuid::nil(),
        };
        let mut conn = self.works().await?;
        let ask = AskHeads { first: DbId(first), limit: limit.into() };
        let rows: Vec<HeadRow> = ask.rows(&mut conn).await.of("wallets, seals")?;
        rows.into_iter().map(head).collect()
    }

    async fn unsealed(&self, integrator_id: IntegratorId, limit: u32) -> Result<Unsealed, StoreError> {
        let mut conn = self.works().await?;
        let owner = DbId::from(integrator_id);
        // One snapshot: it begins with the first statement and never sees a later commit.
        let mut snapshot = conn.build_transaction().repeatable_read().read_only();
        let read =
            snapshot.run::<_, Snapshot, _>(async move |conn| Ok(unsealed(conn, owner, limit).await?)).await;
        read.map_err(|Snapshot(error)| error)
    }

    async fn append(&self, seal: Seal) -> Result<bool, StoreError> {
        let row = SealRow::try_from(seal)?;
        let mut conn = self.works().await?;
        // A seal never goes, so what follows from the newest one now goes on following from it; and of two that do, the key
        // takes one.
        let (number, through) = newest(&mut conn, row.integrator_id)
            .await?
            .map_or((0, 0), |newest| (newest.number, newest.through_entry));
        if row.number != number.saturating_add(1) || row.through_entry <= through {
            return Ok(false);
        }
        let kept = diesel::insert_into(seals::table)
            .values(&row)
            .on_conflict((seals::integrator_id, seals::number))
            .do_nothing()
            .execute(&mut conn)
            .await
            .of("seals");
        Ok(self.worked(conn, kept)? > 0)
    }

    async fn seals(
        &self,
        integrator_id: IntegratorId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Seal>, StoreError> {
        // No seal has a number above the range of the column.
        let Ok(after) = i64::try_from(after) else { return Ok(Vec::new()) };
        let mut conn = self.works().await?;
        let rows: Vec<SealRow> = seals::table
            .filter(seals::integrator_id.eq(DbId::from(integrator_id)))
            .filter(seals::number.gt(after))
            .order(seals::number.asc())
            .limit(limit.into())
            .select(SealRow::as_select())
            .rows(&mut conn)
            .await
            .of("seals")?;
        rows.into_iter().map(Seal::try_from).collect()
    }

    async fn set_difference(
        &self,
        integrator_id: IntegratorId,
        difference: Option<KeptDifference>,
    ) -> Result<(), StoreError> {
        let row = difference.map(SealDifferenceRow::try_from).transpose()?;
        let mut conn = self.works().await?;
        let done = if let Some(row) = row {
            diesel::insert_into(seal_differences::table)
                .values(&row)
                .on_conflict(seal_differences::integrator_id)
                .do_update()
                .set((
                    seal_differences::number.eq(excluded(seal_differences::number)),
                    seal_differences::from_entry.eq(excluded(seal_differences::from_entry)),
                    seal_differences::through_entry.eq(excluded(seal_differences::through_entry)),
                    seal_differences::code.eq(excluded(seal_differences::code)),
                    seal_differences::detail.eq(excluded(seal_differences::detail)),
                    seal_differences::found_at.eq(excluded(seal_differences::found_at)),
                ))
                .execute(&mut conn)
                .await
        } else {
            let kept = seal_differences::table.find(DbId::from(integrator_id));
            diesel::delete(kept).execute(&mut conn).await
        };
        self.worked(conn, done.of("seal_differences")).map(|_| ())
    }

    async fn differences(&self, limit: u32) -> Result<Vec<KeptDifference>, StoreError> {
        let mut conn = self.works().await?;
        let rows: Vec<SealDifferenceRow> = seal_differences::table
            .order(seal_differences::integrator_id.asc())
            .limit(limit.into())
            .select(SealDifferenceRow::as_select())
            .rows(&mut conn)
            .await
            .of("seal_differences")?;
        rows.into_iter().map(KeptDifference::try_from).collect()
    }
}
