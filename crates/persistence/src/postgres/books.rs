//! Reads of wallets and of whole books.

use std::collections::BTreeMap;

use async_trait::async_trait;
use diesel::dsl::count_star;
use diesel::prelude::{ExpressionMethods, QueryDsl, SelectableHelper};
use diesel::result::Error as DieselError;
use diesel_async::AsyncPgConnection;
use pix_domain::audit::{Book, BookStore, StoredFinding};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::wallet::store::{EntryQuery, WalletStore};
use pix_domain::wallet::{Entry, Wallet};

use super::PgStore;
use super::ask::Ask;
use super::by_key::OfOwner;
use super::error::Of;
use super::people::opened;
use crate::codec::{self, DbId};
use crate::entries::entries;
use crate::rows::{
    ChargeRow, FindingRow, PostingRow, ReceiptRow, RefundRow, SplitRow, WalletRow, WithdrawalRow,
};
use crate::schema::{charges, events, findings, postings, receipts, refunds, splits, wallets, withdrawals};

#[async_trait]
impl WalletStore for PgStore {
    async fn wallet(&self, integrator_id: IntegratorId) -> Result<Wallet, StoreError> {
        self.by_key::<OfOwner>(|shares| &shares.wallets, integrator_id.into()).await
    }

    async fn entries(
        &self,
        integrator_id: IntegratorId,
        query: &EntryQuery,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut conn = self.reads().await?;
        let wanted = entries!(DbId::from(integrator_id), query);
        let rows: Vec<PostingRow> = wanted.rows(&mut conn).await.of("postings")?;
        rows.into_iter().map(Entry::try_from).collect()
    }
}

/// The wallet's row; an empty wallet without.
pub async fn wallet(conn: &mut AsyncPgConnection, owner: DbId) -> Result<Wallet, StoreError> {
    let row = wallets::table.find(owner).select(WalletRow::as_select()).limit(1).found(conn).await;
    row.of("wallets")?.map_or(Ok(Wallet::default()), Wallet::try_from)
}

#[async_trait]
impl BookStore for PgStore {
    async fn book(&self, integrator_id: IntegratorId) -> Result<Book, StoreError> {
        let mut conn = self.reads().await?;
        conn.reads_much();
        // One snapshot: it begins with the first statement and never sees a later commit.
        let mut snapshot = conn.build_transaction().repeatable_read().read_only();
        let owner = DbId::from(integrator_id);
        let book = snapshot.run::<_, Snapshot, _>(async move |conn| Ok(book(conn, owner).await?)).await;
        book.map_err(|Snapshot(error)| error)
    }

    async fn findings(&self, integrator_id: IntegratorId) -> Result<Vec<StoredFinding>, StoreError> {
        let mut conn = self.reads().await?;
        let rows: Vec<FindingRow> = findings::table
            .filter(findings::integrator_id.eq(DbId::from(integrator_id)))
            .order(findings::number.asc())
            .select(FindingRow::as_select())
            .rows(&mut conn)
            .await
            .of("findings")?;
        rows.into_iter().map(StoredFinding::try_from).collect()
    }
}

/// The error of a read transaction.
pub struct Snapshot(pub StoreError);

impl From<DieselError> for Snapshot {
    fn from(error: DieselError) -> Self {
        Self(StoreError::Unavailable(error.to_string()))
    }
}

impl From<StoreError> for Snapshot {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

/// All rows of one integrator in a table, as records.
macro_rules! all {
    ($table:ident, $row:ty, ($($order:expr),+), $owner:expr, $conn:expr) => {{
        let rows: Vec<$row> = $table::table
            .filter($table::integrator_id.eq($owner))
            .order(($($order.asc(),)+))
            .select(<$row>::as_select())
            .rows($conn)
            .await
            .of(stringify!($table))?;
        rows.into_iter().map(TryInto::try_into).collect::<Result<_, StoreError>>()?
    }};
}

/// Likewise, of records with personal data.
macro_rules! all_opened {
    ($table:ident, $row:ty, ($($order:expr),+), $owner:expr, $conn:expr) => {{
        let rows: Vec<$row> = $table::table
            .filter($table::integrator_id.eq($owner))
            .order(($($order.asc(),)+))
            .select(<$row>::as_select())
            .rows($conn)
            .await
            .of(stringify!($table))?;
        opened($conn, rows).await?
    }};
}

async fn book(conn: &mut AsyncPgConnection, owner: DbId) -> Result<Book, StoreError> {
    Ok(Book {
        wallet: wallet(conn, owner).await?,
        entries: all!(postings, PostingRow, (postings::entry), owner, conn),
        charges: all_opened!(charges, ChargeRow, (charges::id), owner, conn),
        withdrawals: all_opened!(withdrawals, WithdrawalRow, (withdrawals::id), owner, conn),
        refunds: all!(refunds, RefundRow, (refunds::id), owner, conn),
        splits: all!(splits, SplitRow, (splits::id), owner, conn),
        receipts: all_opened!(receipts, ReceiptRow, (receipts::charge_id, receipts::number), owner, conn),
        events: event_counts(conn, owner).await?,
    })
}

async fn event_counts(
    conn: &mut AsyncPgConnection,
    owner: DbId,
) -> Result<BTreeMap<ResourceRef, u32>, StoreError> {
    let counts: Vec<(String, DbId, i64)> = events::table
        .filter(events::integrator_id.eq(owner))
        .group_by((events::resource_kind, events::resource_id))
        .select((events::resource_kind, events::resource_id, count_star()))
        .rows(conn)
        .await
        .of("events")?;
    let count = |(kind, id, count): (String, DbId, i64)| {
        let resource = codec::resource("events.resource_kind", owner, &kind, id)?;
        Ok((resource, codec::number("events.sequence", count)?))
    };
    counts.into_iter().map(count).collect()
}
