//! Reads of wallets and of whole books.

use std::collections::BTreeMap;

use async_trait::async_trait;
use diesel::dsl::count_star;
use diesel::prelude::{
    Connection, ExpressionMethods, OptionalExtension, QueryDsl, RunQueryDsl, SelectableHelper,
};
use diesel::result::Error as DieselError;
use diesel::sqlite::SqliteConnection;
use pix_domain::audit::{Book, BookStore, StoredFinding};
use pix_domain::error::StoreError;
use pix_domain::ids::{IntegratorId, ResourceRef};
use pix_domain::wallet::store::{EntryQuery, WalletStore};
use pix_domain::wallet::{Entry, Wallet};

use super::SqliteStore;
use super::error::Of;
use super::people::opened;
use crate::codec::{self, DbId};
use crate::entries::entries;
use crate::rows::{
    ChargeRow, FindingRow, PostingRow, ReceiptRow, RefundRow, SplitRow, WalletRow, WithdrawalRow,
};
use crate::schema::{charges, events, findings, postings, receipts, refunds, splits, wallets, withdrawals};

#[async_trait]
impl WalletStore for SqliteStore {
    async fn wallet(&self, integrator_id: IntegratorId) -> Result<Wallet, StoreError> {
        self.read(move |conn| wallet(conn, integrator_id.into())).await
    }

    async fn entries(
        &self,
        integrator_id: IntegratorId,
        query: &EntryQuery,
    ) -> Result<Vec<Entry>, StoreError> {
        let query = query.clone();
        self.read(move |conn| {
            let wanted = entries!(DbId::from(integrator_id), &query);
            let rows: Vec<PostingRow> = wanted.load(conn).of("postings")?;
            rows.into_iter().map(Entry::try_from).collect()
        })
        .await
    }
}

/// The wallet's row; an empty wallet without.
pub fn wallet(conn: &mut SqliteConnection, owner: DbId) -> Result<Wallet, StoreError> {
    let row = wallets::table.find(owner).select(WalletRow::as_select()).get_result(conn).optional();
    row.of("wallets")?.map_or(Ok(Wallet::default()), Wallet::try_from)
}

#[async_trait]
impl BookStore for SqliteStore {
    async fn book(&self, integrator_id: IntegratorId) -> Result<Book, StoreError> {
        self.read(move |conn| {
            // One transaction is one snapshot: it begins with the first statement and never sees a later commit.
            let book = conn.transaction::<_, Snapshot, _>(|conn| Ok(book(conn, integrator_id.into())?));
            book.map_err(|Snapshot(error)| error)
        })
        .await
    }

    async fn findings(&self, integrator_id: IntegratorId) -> Result<Vec<StoredFinding>, StoreError> {
        let owner = DbId::from(integrator_id);
        self.read(move |conn| {
            let rows: Vec<FindingRow> = findings::table
                .filter(findings::integrator_id.eq(owner))
                .order(findings::number.asc())
                .select(FindingRow::as_select())
                .load(conn)
                .of("findings")?;
            rows.into_iter().map(StoredFinding::try_from).collect()
        })
        .await
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
            .load($conn)
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
            .load($conn)
            .of(stringify!($table))?;
        opened($conn, rows)?
    }};
}

fn book(conn: &mut SqliteConnection, owner: DbId) -> Result<Book, StoreError> {
    Ok(Book {
        wallet: wallet(conn, owner)?,
        entries: all!(postings, PostingRow, (postings::entry), owner, conn),
        charges: all_opened!(charges, ChargeRow, (charges::id), owner, conn),
        withdrawals: all_opened!(withdrawals, WithdrawalRow, (withdrawals::id), owner, conn),
        refunds: all!(refunds, RefundRow, (refunds::id), owner, conn),
        splits: all!(splits, SplitRow, (splits::id), owner, conn),
        receipts: all_opened!(receipts, ReceiptRow, (receipts::charge_id, receipts::number), owner, conn),
        events: event_counts(conn, owner)?,
    })
}

fn event_counts(conn: &mut SqliteConnection, owner: DbId) -> Result<BTreeMap<ResourceRef, u32>, StoreError> {
    let counts: Vec<(String, DbId, i64)> = events::table
        .filter(events::integrator_id.eq(owner))
        .group_by((events::resource_kind, events::resource_id))
        .select((events::resource_kind, events::resource_id, count_star()))
        .load(conn)
        .of("events")?;
    let count = |(kind, id, count): (String, DbId, i64)| {
        let resource = codec::resource("events.resource_kind", owner, &kind, id)?;
        Ok((resource, codec::number("events.sequence", count)?))
    };
    counts.into_iter().map(count).collect()
}
